"""A DuckDB file of small tables."""

from collections.abc import Mapping
from pathlib import Path

import duckdb


def write_database(
    path: Path, tables: Mapping[str, str], *, never_null: Mapping[str, tuple[str, ...]] | None = None
) -> str:
    """Make the file and return its path.

    Args:
        tables: by name, the SELECT each is made of.
        never_null: by table, columns that become NOT NULL.
    """
    with duckdb.connect(str(path)) as con:
        for name, sql in tables.items():
            con.execute(f"CREATE TABLE {name} AS {sql}")
        for name, columns in (never_null or {}).items():
            for column in columns:
                con.execute(f"ALTER TABLE {name} ALTER {column} SET NOT NULL")
    return str(path)

"""What is measured: a generated table, private statements, and the same by hand.

The hand-written SQL bounds as the private statement does, as an expert would write it for DuckDB: a count and a clamped
sum of each (unit, group), clamped again, then added up. It draws no noise, charges nothing and proves nothing.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

import duckdb

import duckdp
from duckdp.curator import Curator

ANALYST = "bench"
MAX_ROWS = 8  # of a unit
FEW_GROUPS = 3  # of a unit, where groups are limited
EPSILON = "0.5"
FILES = ("keyed.duckdb", "rows.duckdb")
COST = (0.0, 5000.0)  # declared bounds
AGE = (0, 110)  # declared bounds
AVERAGES = "SELECT region, count(*), avg(cost), sum(cost) FROM {table} GROUP BY region"


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large the generated table is."""

    rows: int = 1_000_000
    units: int = 400_000
    groups: int = 10

    @property
    def regions(self) -> list[str]:
        """Values of the grouping column."""
        return [f"r{i}" for i in range(self.groups)]


class Workload:
    """The table in a file, protected twice: units are the values of ``unit``, or the rows.

    Args:
        folder: an empty one, or one where ``generate`` has been.
        size: of the table.

    Attributes:
        keyed: curator; table visits lets all groups of a unit count, its view visits_few three.
        rows: curator of a copy, where the unit is the row.
    """

    def __init__(self, folder: str, size: Size) -> None:
        self.folder, self.size = folder, size
        path, copy = (os.path.join(folder, name) for name in FILES)
        if not os.path.exists(path):
            generate(folder, size)
        self.keyed, self.rows = duckdp.open(path), duckdp.open(copy)
        for curator in (self.keyed, self.rows):
            curator.budget(epsilon=1_000_000)
            curator.grant(ANALYST, epsilon=1_000_000)
        protect(self.rows, size, keyed=False)
        protect(self.keyed, size, keyed=True)

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor of the instance that the private statements run on: the same file, settings and caches."""
        return self.keyed.engine.schema_cursor()

    def close(self) -> None:
        """Close both curators, and what they opened."""
        self.keyed.close()
        self.rows.close()


def generate(folder: str, size: Size) -> None:
    """Write the table, twice: units, regions, a DOUBLE and an INTEGER, all by hash of the row's number."""
    path, copy = (os.path.join(folder, name) for name in FILES)
    with duckdb.connect(path) as con:
        con.execute("SET enable_progress_bar = false")
        con.execute(
            f"CREATE TABLE visits AS SELECT (hash(i) % {size.units})::BIGINT AS unit, "
            f"'r' || (hash(i + 1) % {size.groups}) AS region, (hash(3 * i + 2) % 600000) / 100.0::DOUBLE AS cost, "
            f"(hash(5 * i + 3) % 120)::INTEGER AS age "
            f"FROM range({size.rows}) r(i)"
        )
        con.execute("CREATE VIEW visits_few AS SELECT unit, region, cost, age FROM visits")
    shutil.copyfile(path, copy)


def protect(curator: Curator, size: Size, *, keyed: bool) -> None:
    """Declare the table; the declared bounds clamp some of the values."""
    for table, groups in (("visits", size.groups), ("visits_few", FEW_GROUPS)) if keyed else (("visits", 1),):
        curator.protect(
            table,
            row_cap=10 * size.rows,
            expected_rows=size.rows,
            unit_key="unit" if keyed else None,
            max_rows=MAX_ROWS if keyed else None,
            max_groups=groups if keyed else None,
            bounds={"cost": COST, "age": AGE},
            domains={"region": size.regions},
        )


def plain_count() -> str:
    """A count without privacy, as anybody writes it."""
    return "SELECT count(*) FROM src.main.visits"


def hand_count() -> str:
    """At most MAX_ROWS rows of a unit count."""
    return (
        f"SELECT sum(least(n, {MAX_ROWS})) FROM (SELECT unit, count(*) AS n FROM src.main.visits "
        "WHERE unit IS NOT NULL GROUP BY unit)"
    )


def plain_groups() -> str:
    """Averages by group without privacy, as anybody writes them."""
    return AVERAGES.format(table="src.main.visits")


def hand_groups(size: Size) -> str:
    """Two stages: clamped per (unit, region), then added up; all groups of a unit count."""
    return _added(_clamped(size))


def hand_few_groups(size: Size, salt: int = 20_260_101) -> str:
    """The same for the FEW_GROUPS groups of a unit with the smallest hash."""
    place = f"row_number() OVER (PARTITION BY unit ORDER BY hash(unit, region, {salt}), region)"
    chosen = f"SELECT * FROM (SELECT *, {place} AS place FROM ({_clamped(size)})) WHERE place <= {FEW_GROUPS}"
    return _added(chosen)


def _clamped(size: Size) -> str:
    low, high = COST
    listed = ", ".join(f"'{r}'" for r in size.regions)
    return (
        f"SELECT unit, region, count(*) AS n, sum(least(greatest(cost, {low}), {high})) AS s FROM src.main.visits "
        f"WHERE unit IS NOT NULL AND region IN ({listed}) GROUP BY unit, region"
    )


def _added(parts: str) -> str:
    low, high = (MAX_ROWS * bound for bound in COST)
    n, total = f"sum(least(n, {MAX_ROWS}))", f"sum(least(greatest(s, {low}), {high}))"
    return f"SELECT region, {n}, {total} / {n}, {total} FROM ({parts}) GROUP BY region ORDER BY region"

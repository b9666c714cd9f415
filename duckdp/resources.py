"""The plain SQL files of duckdp: in ``duckdp/sql`` of an installed wheel, in ``sql`` of a checkout."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from duckdp.errors import InternalError

_HERE = Path(__file__).resolve().parent


@cache
def read_sql(name: str) -> str:
    """Read one of our SQL files.

    Args:
        name: the file's name, for example ``"ledger.sql"``.

    Returns:
        Its text.

    Raises:
        InternalError: there is no such file.
    """
    if Path(name).name == name and name.endswith(".sql"):
        for folder in (_HERE / "sql", _HERE.parent / "sql"):
            file = folder / name
            if file.is_file():
                return file.read_text(encoding="utf-8")
    raise InternalError(f"the SQL file {name!r} is missing from the installation.")

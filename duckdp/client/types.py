"""Types of columns, as PEP 249 groups them and as DuckDB names them, by PostgreSQL's numbers."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

# PostgreSQL's number of a type: DuckDB's name.
_NAMES = {
    16: "BOOLEAN",
    17: "BLOB",
    20: "BIGINT",
    21: "SMALLINT",
    23: "INTEGER",
    25: "VARCHAR",
    114: "JSON",
    700: "FLOAT",
    701: "DOUBLE",
    1043: "VARCHAR",
    1082: "DATE",
    1083: "TIME",
    1114: "TIMESTAMP",
    1184: "TIMESTAMP WITH TIME ZONE",
    1186: "INTERVAL",
    1700: "DECIMAL",
    2950: "UUID",
}


def name_of(oid: int) -> str:
    """DuckDB's name of a type that crossed the wire; lists and what is not known are named by what they hold."""
    return _NAMES.get(oid, "LIST")


_UNKNOWN, _NUMERIC = 0, 1700  # PostgreSQL's numbers of types
#: PostgreSQL's number of a Python type, and of lists of it; the most special first. A text may be anything.
_OF_PYTHON: tuple[tuple[type, int, int], ...] = (
    (bool, 16, 1000),
    (int, 20, 1016),
    (float, 701, 1022),
    (Decimal, _NUMERIC, 1231),
    (dt.datetime, 1114, 1115),
    (dt.date, 1082, 1182),
    (dt.time, 1083, 1183),
    (dt.timedelta, 1186, 1187),
    (uuid.UUID, 2950, 2951),
    (bytes, 17, 1001),
    (bytearray, 17, 1001),
)
_ZONED = 1184  # of an instant with a zone


def oid_of_value(value: object) -> int:
    """PostgreSQL's number of a parameter's type; 0 where the statement is to say it.

    >>> oid_of_value(True), oid_of_value(3), oid_of_value(2**70), oid_of_value([1.5]), oid_of_value("x")
    (16, 20, 1700, 1022, 0)
    """
    if isinstance(value, list):
        kinds = {oid_of_value(item) for item in value if item is not None}
        return next((array for _, oid, array in _OF_PYTHON if kinds == {oid}), _UNKNOWN)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return _ZONED
    found = next((oid for kind, oid, _ in _OF_PYTHON if isinstance(value, kind)), _UNKNOWN)
    return _NUMERIC if isinstance(value, int) and not -(2**63) <= value < 2**63 else found


class TypeGroup:
    """Some of DuckDB's type names; equal to each of them, as PEP 249 compares ``description``'s second part."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def __eq__(self, other: object) -> bool:
        return self is other or other in self._names

    def __hash__(self) -> int:
        return hash(self._names)


STRING = TypeGroup("VARCHAR", "UUID", "JSON")
BINARY = TypeGroup("BLOB")
NUMBER = TypeGroup("BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
DATETIME = TypeGroup("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "INTERVAL")
ROWID = TypeGroup()
Date, Time, Timestamp, Binary = dt.date, dt.time, dt.datetime, bytes
DateFromTicks, TimestampFromTicks = dt.date.fromtimestamp, dt.datetime.fromtimestamp


def TimeFromTicks(ticks: float) -> dt.time:
    """The time of day of a number of seconds since 1970."""
    return dt.datetime.fromtimestamp(ticks).time()

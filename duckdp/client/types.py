"""Types of columns, as PEP 249 groups them and as DuckDB names them, by PostgreSQL's numbers."""

from __future__ import annotations

import datetime as dt

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

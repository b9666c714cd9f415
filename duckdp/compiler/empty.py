"""An empty DuckDB instance, where our expressions are evaluated on values of ours: declared domains, nodes of a basis.

It holds no table and no function of anybody's, and nothing is ever loaded, read or written by it: what is computed
here can see no data and costs no privacy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from threading import Lock
from typing import TypeVar

import duckdb
import pyarrow as pa

from duckdp.catalog.table import Kind
from duckdp.process.forks import keep

T = TypeVar("T")

_turn = [Lock()]  # in a forked child another one: the parent's may be locked for ever
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
    "threads": "1",
    "lock_configuration": "true",
}


def on_values(tables: Mapping[str, Mapping[str, pa.Array]], work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
    """What work gives on the instance with these tables (name, columns) and nothing else; for one caller at a time.

    No generator holds the turn: one that an interrupt left on its way into a ``with`` would hold it as long as somebody
    keeps the traceback.
    """
    with _turn[0]:
        con = _instance(os.getpid())
        try:
            for name, arrays in tables.items():
                con.register(name, pa.table(dict(arrays)))
            return work(con)
        finally:
            for name in tables:
                con.unregister(name)


def arrow_type(kind: Kind) -> pa.DataType:
    """How values of a kind are given."""
    return {
        Kind.NUMBER: pa.float64(),
        Kind.TEXT: pa.string(),
        Kind.BOOLEAN: pa.bool_(),
        Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp("us"),
    }[kind]


@lru_cache(maxsize=1)
def _instance(process: int) -> duckdb.DuckDBPyConnection:  # noqa: ARG001 - a forked process makes its own
    return keep(duckdb.connect(":memory:", config=_SETTINGS))


def _begin_anew() -> None:
    _turn[0] = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)

"""A synthetic table: rows in the columns' own units and types, and the table as JSON."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Kind, Scalar, kind_of, read_json, write_json
from duckdp.errors import CatalogError

FORMAT = 1  # of the JSON
_INT64 = 2**63  # first whole number beyond int64
Value = int | float
_TYPES: dict[Kind, tuple[type, ...]] = {
    Kind.NUMBER: (int, float),
    Kind.TEXT: (str,),
    Kind.BOOLEAN: (bool,),
    Kind.DATE: (dt.date,),
    Kind.TIMESTAMP: (dt.datetime,),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticTable:
    """A synthetic table, as columns in memory: public.

    Attributes:
        table: name of the protected table it imitates.
        types: DuckDB type per column, in order; the schema depends on declarations only.
        columns: values per column, all of the same length: int64 (whole numbers; Python integers where the bounds
            exceed int64), float64, or Python objects (strings, booleans, dates; None where a domain holds NULL).
            Numbers lie on a grid within the bounds, rows are in random order.
        residual: l1 distance between the moments of the fitted distribution and the noisy ones, as means.
        scale: what a row stands for, in a sentence; not stored with the rows, as it follows from their number.
    """

    table: str
    types: dict[str, str]
    columns: dict[str, NDArray[Any]]
    residual: float
    scale: str = ""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.columns.values())))

    def dump(self) -> str:
        """The whole of it as canonical JSON: equal texts for equal contents."""
        raw = {
            "kind": "synthetic_table",
            "format": FORMAT,
            "table": self.table,
            "residual": self.residual,
            "columns": [[name, self.types[name], values.tolist()] for name, values in self.columns.items()],
        }
        return write_json(raw)

    @classmethod
    def load(cls, text: str) -> SyntheticTable:
        """The inverse of :meth:`dump`.

        Raises:
            CatalogError: C105, the text is damaged or from a newer version.
        """
        try:
            return cls._read(read_json(text))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise CatalogError(
                "C105", "the stored synthetic table is damaged or was written by a newer version of duckdp."
            ) from None

    @classmethod
    def _read(cls, raw: dict[str, Any]) -> SyntheticTable:
        if raw["kind"] != "synthetic_table" or raw["format"] != FORMAT:
            raise ValueError
        types = {_text(name): _text(kind) for name, kind, _ in raw["columns"]}
        columns = {name: _array(values, types[name]) for name, _, values in raw["columns"]}
        if len({len(values) for values in columns.values()}) != 1 or len(columns) != len(raw["columns"]):
            raise ValueError
        return cls(table=_text(raw["table"]), types=types, columns=columns, residual=float(raw["residual"]))


def objects_of(values: Sequence[Scalar]) -> NDArray[Any]:
    """Values as an array of Python objects."""
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def numbers_of(values: tuple[Value, ...] | list[Value], *, integral: bool) -> NDArray[Any]:
    """Numbers as an array: float64, or whole numbers as int64, and as Python's where they exceed it."""
    if not integral:
        return np.array(values, dtype=np.float64)
    small = all(-_INT64 <= value < _INT64 for value in values)
    return np.array(values, dtype=np.int64 if small else object)


def _array(values: list[Value], duckdb_type: str) -> NDArray[Any]:
    kind = kind_of(duckdb_type)
    if kind is None or not isinstance(values, list):
        raise TypeError
    if kind[0] is Kind.NUMBER and all(type(v) in (int, float) for v in values):
        return numbers_of(values, integral=kind[1])
    if not all(v is None or type(v) in _TYPES[kind[0]] for v in values):
        raise TypeError
    return objects_of(values)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value

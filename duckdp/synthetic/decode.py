"""Synthetic rows in the columns' own units and types, and the table as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog import Column, kind_of
from duckdp.errors import CatalogError
from duckdp.synthetic.support import Support, Value

FORMAT = 1
_INT64 = 2**63


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticTable:
    """A synthetic table: public.

    Attributes:
        table: name of the protected table it imitates.
        types: DuckDB type per column, in order; the schema depends on declarations only.
        columns: values per column, all of the same length: int64 (whole numbers; Python integers where the bounds
            exceed int64) or float64. Numbers lie on a grid within the bounds, rows are in random order, no value is
            NULL.
        residual: l1 distance between the moments of the fitted distribution and the noisy ones, as means.
    """

    table: str
    types: dict[str, str]
    columns: dict[str, NDArray[Any]]
    residual: float

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def dump(self) -> str:
        """Canonical JSON."""
        raw = {
            "kind": "synthetic_table", "format": FORMAT, "table": self.table, "residual": self.residual,
            "columns": [[name, self.types[name], values.tolist()] for name, values in self.columns.items()],
        }  # fmt: skip
        return json.dumps(raw, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def load(cls, text: str) -> SyntheticTable:
        """The inverse of :meth:`dump`.

        Raises:
            CatalogError: C105, the text is damaged or from a newer version.
        """
        try:
            return cls._read(json.loads(text))
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


def decode_points(points: NDArray[np.int64], support: Support, columns: tuple[Column, ...]) -> dict[str, NDArray[Any]]:
    """Values of drawn points, by column name."""
    positions = np.unravel_index(points, support.shape)
    decoded = {}
    for column, values, position in zip(columns, support.values, positions, strict=True):
        decoded[column.name] = _typed(values, integral=column.integral)[position]
    return decoded


def _typed(values: tuple[Value, ...] | list[Value], *, integral: bool) -> NDArray[Any]:
    if not integral:
        return np.array(values, dtype=np.float64)
    small = all(-_INT64 <= value < _INT64 for value in values)
    return np.array(values, dtype=np.int64 if small else object)


def _array(values: list[Value], duckdb_type: str) -> NDArray[Any]:
    kind = kind_of(duckdb_type)
    if kind is None or not isinstance(values, list) or not all(type(v) in (int, float) for v in values):
        raise TypeError
    return _typed(values, integral=kind[1])


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value

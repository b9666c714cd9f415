"""Released counts of rows by ranges, beside a summary's sums: public, whatever is done with it is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from duckdp.core.nested_tables import Floats, NestedTables
from duckdp.mechanisms.noisy_tables import BITS, TableNoise
from duckdp.smooth.axes import Axis
from duckdp.smooth.range_cells import RangeAxis

LEAST_SCALE, MOST_SCALE = 2.0**-20, 2.0**56  # of stored noise
MOST_STORED = 2**20  # cells of all tables
MOST_COUNT = 2**100  # grid steps: far beyond any count


@dataclass(frozen=True, kw_only=True, eq=False)
class RangeCounts:
    """Noisy tables of counts over cells of a summary's columns.

    Attributes:
        axes: the cells of each column, in the summary's order.
        noise: the tables, and the law of their noise.
        values: noisy cells, all tables one after the other, in units of 2^-20 of a row.
        epsilon_nano: what of the summary's charge they took, in 1e-9.
    """

    axes: tuple[RangeAxis, ...]
    noise: TableNoise
    values: tuple[int, ...]
    epsilon_nano: int

    @property
    def nested(self) -> NestedTables:
        """Which tables of counts there are."""
        return self.noise.nested

    @cached_property
    def rows(self) -> Floats:
        """Noisy cells in rows: float[cells]."""
        return np.array([value / (1 << BITS) for value in self.values])

    def raw(self) -> dict[str, Any]:
        """The same as JSON values, to be stored."""
        return {
            "sizes": [list(own.sizes) for own in self.axes],
            "tables": [list(t) for t in self.nested.tables],
            "family": self.noise.family,
            "scales": list(self.noise.scales),
            "values": list(self.values),
            "epsilon_nano": self.epsilon_nano,
        }


def read_counts(raw: dict[str, Any], axes: Sequence[Axis]) -> RangeCounts:
    """The inverse of :meth:`RangeCounts.raw`, for the columns of a summary.

    Raises:
        ValueError, TypeError, KeyError or an InternalError: it is damaged.
    """
    sizes = tuple(tuple(_whole(n) for n in own) for own in raw["sizes"])
    tables = tuple(tuple(_whole(n) for n in t) for t in raw["tables"])
    own = tuple(RangeAxis(axis=axis, sizes=each) for axis, each in zip(axes, sizes, strict=True))
    nested = NestedTables(sizes=sizes, tables=tables)
    family: Literal["laplace", "gaussian"] = raw["family"]
    scales, values = tuple(raw["scales"]), tuple(raw["values"])
    if family not in ("laplace", "gaussian") or len(scales) != len(tables) or set(raw) != _FIELDS:
        raise ValueError
    if not all(type(s) is float and LEAST_SCALE <= s <= MOST_SCALE for s in scales):
        raise ValueError
    if nested.cells > MOST_STORED or len(values) != nested.cells:
        raise ValueError
    if not all(type(v) is int and abs(v) <= MOST_COUNT for v in values) or _whole(raw["epsilon_nano"]) < 1:
        raise ValueError
    noise = TableNoise(nested=nested, family=family, scales=scales)
    return RangeCounts(axes=own, noise=noise, values=values, epsilon_nano=raw["epsilon_nano"])


_FIELDS = {"sizes", "tables", "family", "scales", "values", "epsilon_nano"}


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError
    return value

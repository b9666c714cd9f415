"""Points of a grid as rows in the columns' own units and types."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Column, Kind, Scalar
from duckdp.smooth.axes import Axis, from_number
from duckdp.smooth.basis import Basis
from duckdp.synthetic.decode import Value, numbers_of, objects_of
from duckdp.synthetic.lp.make.support import Support, is_plain


def decode_points(
    points: NDArray[np.int64], support: Support, columns: tuple[Column, ...], basis: Basis
) -> dict[str, NDArray[Any]]:
    """Values of drawn points, by column name; points are numbered in C order of the support."""
    positions = np.unravel_index(points, support.shape)
    decoded = {}
    for column, axis, values, position in zip(columns, basis.axes, support.values, positions, strict=True):
        known = (
            numbers_of(values, integral=column.integral) if is_plain(axis) else objects_of(_own_values(axis, values))
        )
        decoded[column.name] = known[position]
    return decoded


def _own_values(axis: Axis, values: tuple[Value, ...]) -> list[Scalar]:
    """Places, days or microseconds as the column's own values."""
    if axis.values is not None:
        return [axis.values[int(v)] for v in values]
    assert axis.kind in (Kind.DATE, Kind.TIMESTAMP)
    return [from_number(v, axis.kind) for v in values]

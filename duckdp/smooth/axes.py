"""One column as an axis of a basis: where its values lie in [-1, 1], and how many functions it gets.

An ``interval`` axis is a column with public bounds: u = 2 (x - lower) / (upper - lower) - 1, clamped; dates count days
and timestamps microseconds from 1970. A ``values`` axis is a column of few declared values (a domain, a boolean, whole
numbers of a short range): its k values lie at u_j = -cos(pi j / (k - 1)) and get k functions, so that every function of
the values is a combination of T_0 .. T_(k-1), exactly. The T_r are orthogonal on these points (weights 1/2 at the
ends), and reach 1 in absolute value, so that the noise, which is calibrated to 1, is not spent on smaller functions.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Column, Kind, Scalar
from duckdp.catalog.values import EPOCH as EPOCH
from duckdp.catalog.values import as_number as as_number
from duckdp.core.interval import LARGEST
from duckdp.errors import ParameterError, QueryError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MAX_VALUES = 4096  # of a values axis
_FIRST, _LAST = dt.datetime.min - EPOCH, dt.datetime.max - EPOCH


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One column of a basis.

    Attributes:
        name: the column's.
        kind: of the column.
        degree: t, functions of this column: T_0 ... T_(t-1).
        lower, upper: bounds of an interval axis, as floats (days, microseconds); 0 and 1 otherwise.
        values: of a values axis, in order; None for an interval axis.
        ordered: whether neighbouring values are alike (numbers, dates), so that low degrees come first.
        integral: whether a number is whole.
        partition: whether it divides the rows (``grouped``): it costs an index no degree.
    """

    name: str
    kind: Kind
    degree: int
    lower: float = 0.0
    upper: float = 1.0
    values: tuple[Scalar, ...] | None = None
    ordered: bool = True
    integral: bool = False
    partition: bool = False

    def __post_init__(self) -> None:
        if not (abs(self.lower) <= LARGEST and abs(self.upper) <= LARGEST and self.lower < self.upper):
            raise ParameterError(
                "P104", f'bounds["{self.name}"]', (self.lower, self.upper), "must be floats with lower < upper."
            )

    @property
    def costs(self) -> Ints:
        """What degree 0 .. t-1 of this column adds to an index' total degree, int[t]."""
        r = np.arange(self.degree)
        return 0 * r if self.partition else r if self.ordered else np.minimum(r, 1)

    @cached_property
    def nodes(self) -> Floats:
        """Places of a values axis in [-1, 1], float[k]; -1 for a single value."""
        assert self.values is not None
        k = len(self.values)
        return np.asarray(-np.cos(np.pi * np.arange(k) / max(1, k - 1)), dtype=np.float64)

    def to_unit(self, x: Floats) -> Floats:
        """Map numbers to [-1, 1], clamped; the same operations as the SQL of ``moments``.

        Args:
            x: float[n]; an interval axis' numbers, or positions 0 .. k-1 in ``values``.
        """
        if self.values is not None:
            return np.asarray(self.nodes[np.asarray(x).astype(np.int64)])
        return np.asarray(np.clip(2 * ((x - self.lower) / (self.upper - self.lower)) - 1, -1, 1))

    def from_unit(self, u: Floats) -> Floats:
        """The inverse: numbers inside the bounds (whole days, microseconds), or positions in ``values``.

        -1 and 1 are the bounds themselves, to the last bit: clamped rows gather there.
        """
        if self.values is not None:
            near = np.argmin(np.abs(np.asarray(u)[..., None] - self.nodes), axis=-1)
            return np.asarray(near, dtype=np.float64)
        x = np.clip(self.lower + (u + 1) / 2 * (self.upper - self.lower), self.lower, self.upper)
        x = np.where(u >= 1, self.upper, np.where(u <= -1, self.lower, x))  # lower + (upper - lower) may fall short
        return np.rint(x) if self.kind is not Kind.NUMBER else np.asarray(x)

    def numbers(self, values: NDArray[np.generic] | list[Scalar]) -> Floats:
        """Column values as :meth:`to_unit` takes them: float[n]; a value outside a domain is an error of the caller."""
        if self.values is not None:
            position = {v: i for i, v in enumerate(self.values)}
            return np.array([position[v] for v in np.asarray(values, dtype=object).tolist()], dtype=np.float64)
        if self.kind is Kind.NUMBER:
            return np.asarray(values, dtype=np.float64)
        return np.array([as_number(v) for v in list(values)])


def make_axis(column: Column, degree: int) -> Axis:
    """The axis of a declared column.

    Args:
        column: with bounds, a domain, or of type BOOLEAN.
        degree: t of an interval axis; a values axis has as many functions as values.

    Raises:
        QueryError: Q401, neither bounds nor a domain.
        ParameterError: P107, a domain of more than 4096 values.
    """
    values = _listed(column, degree)
    if values is not None:
        if len(values) > MAX_VALUES:
            rule = f'"{column.name}" has a domain of {len(values)} values; at most {MAX_VALUES} are taken.'
            raise ParameterError("P107", "columns", column.name, rule)
        ordered = column.kind not in (Kind.TEXT, Kind.BOOLEAN) and None not in values and column.other is None
        return Axis(
            name=column.name,
            kind=column.kind,
            degree=len(values),
            values=values,
            ordered=ordered,
            integral=column.integral,
        )
    if column.lower is None or column.upper is None:
        raise QueryError(
            "Q401",
            f'column "{column.name}" has neither bounds nor a domain, so the sensitivity of its summary is '
            "infinite. The data owner declares them with protect(bounds=...) or protect(domains=...).",
        )
    return Axis(
        name=column.name,
        kind=column.kind,
        degree=degree,
        lower=as_number(column.lower),
        upper=as_number(column.upper),
        integral=column.integral,
    )


def values_inside(column: Column) -> tuple[Scalar, ...]:
    """The values of a domain beside bounds that lie within these, ascending; none without bounds.

    Summaries clamp such a column to its bounds and take the functions of an interval, so that every row counts and
    statements mean the same over a summary and over the rows. Synthetic tables hold these values alone.
    """
    if column.domain is None or column.lower is None or column.upper is None or column.kind is Kind.TEXT:
        return ()
    first, last = as_number(column.lower), as_number(column.upper)
    listed = [*column.domain, column.other]
    return tuple(sorted({v for v in listed if v is not None and first <= as_number(v) <= last}, key=as_number))


def from_number(x: float, kind: Literal[Kind.DATE, Kind.TIMESTAMP]) -> dt.date:
    """The inverse of ``as_number`` for dates and timestamps; beyond the calendar its first or last."""
    if kind is Kind.DATE:
        return EPOCH.date() + dt.timedelta(days=max(_FIRST.days, min(_LAST.days, round(x))))
    return max(_FIRST, min(_LAST, dt.timedelta(microseconds=round(x)))) + EPOCH


def _listed(column: Column, degree: int) -> tuple[Scalar, ...] | None:
    """The values of a values axis, or None for an interval axis."""
    if column.kind is Kind.BOOLEAN and column.domain is None:
        return (False, True)
    if column.lower is not None and column.upper is not None and column.kind is not Kind.TEXT:
        first, last = as_number(column.lower), as_number(column.upper)
        short = column.integral and 0 < last - first < min(degree, MAX_VALUES) and max(-first, last) <= 2**53
        if column.kind is Kind.NUMBER and short:
            return tuple(range(math.ceil(first), math.floor(last) + 1))
        return None
    if column.domain is None:
        return None
    others = () if column.other is None or column.other in column.domain else (column.other,)
    return (*column.domain, *others)

"""The columns of an answer before they are shown: what they are, their values and the ends of their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Kind

Floats = NDArray[np.float64]
_WIDE = "HUGEINT"  # wider than whole numbers cross to DuckDB and back: shown as what was cast


class Shape(NamedTuple):
    """What an output is: its kind, whether of whole numbers, whether released, and what type it was cast to."""

    kind: Kind
    integral: bool
    released: bool
    cast: str = ""

    @classmethod
    def of_cast(cls, name: str, of: Shape) -> Shape:
        """What a number is after a cast to a type of whole numbers."""
        return of if name == _WIDE else cls(of.kind, True, of.released, name)

    @property
    def type(self) -> str:
        """The name of its type in DuckDB."""
        if self.kind is Kind.NUMBER:
            return (self.cast or "BIGINT") if self.integral else "DOUBLE"
        return {Kind.TEXT: "VARCHAR"}.get(self.kind, str(self.kind.value).upper())


@dataclass(frozen=True, kw_only=True)
class OutputColumn:
    """One column of the answer.

    Attributes:
        name, shape: for typing the result.
        values: one per row; None where undefined.
        standard_error, half_width: float[rows], or None for keys; NaN where undefined.
        low, high: float[rows], ends of the 95% interval, cut to the public range of the true value.
        centre: float[rows], the values before they were cut to that range.
        exact_interval: whether the interval's coverage is exact (else first order).
    """

    name: str
    shape: Shape
    values: list[Any]
    standard_error: Floats | None = None
    half_width: Floats | None = None
    low: Floats | None = None
    high: Floats | None = None
    centre: Floats | None = None
    exact_interval: bool = True

    def taken(self, rows: list[int]) -> OutputColumn:
        """The same column with some of its rows, by their places."""
        index = np.array(rows, dtype=np.int64)

        def pick(found: Floats | None) -> Floats | None:
            return None if found is None else found[index]

        return OutputColumn(
            name=self.name,
            shape=self.shape,
            values=[self.values[i] for i in rows],
            standard_error=pick(self.standard_error),
            half_width=pick(self.half_width),
            low=pick(self.low),
            high=pick(self.high),
            centre=pick(self.centre),
            exact_interval=self.exact_interval,
        )

"""The released smooth-query summary: noisy sums and what is needed to answer from them. Public; all use is free."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from duckdp.catalog.table import Column, dump_columns, kind_of, load_columns
from duckdp.catalog.values import check_bounds, check_domain, is_text
from duckdp.core.types import Neighbours
from duckdp.errors import CatalogError, DuckDPError, InternalError
from duckdp.smooth.axes import Floats, make_axis
from duckdp.smooth.basis import Basis, Shape
from duckdp.smooth.kernel_noise import KernelNoise
from duckdp.smooth.product_kernels import kernels_of_basis
from duckdp.smooth.range_counts import RangeCounts, read_counts
from duckdp.smooth.sum_noise import FAMILIES, Family, Ints, Law, SumNoise

FORMAT = 2  # version of the stored form
MOST_BITS = 60  # of the grid that moments lie on
RANGE = 2**62  # of core/noise
LEAST_SCALE = 2.0**-20  # far below any that is charged: its inverse and its powers are floats


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothSummary:
    """A released summary: public, whatever is done with it is free.

    Attributes:
        table: name of the protected table.
        columns: its columns, as far as answers and synthetic tables need them.
        basis: the functions.
        planned: the degree that the columns' axes were decided by; the basis' own, or larger (``counted``).
        moments: noisy sums in units of 2^-bits, in the basis' order.
        bits: fixed-point bits.
        path: how the sums were computed (smooth/sums/moments).
        row_error: bound on |computed - exact| of one function at one row.
        level_errors: the same for the functions of each total degree; empty where all have the same.
        family: "laplace", "cube", "gaussian" or "kernels", the law of the noise.
        scales: its scale per group of functions, in units of 2^-bits; of kernels the cube's, where there is one, and
            that of each kernel's sum.
        cuts: the largest total degree of each group; one group when uniform, or kernels alone.
        epsilon_nano: what was charged, in 1e-9.
        delta_atto: in 1e-18; 0 for pure epsilon.
        neighbours: the relation it holds for.
        count: number of rows when it is public (then moments[0] has no noise), or None.
        weighted: whether rows weigh less than 1 where their unit has more than max_rows of them.
        row_cap: public upper bound of the number of rows.
        ranges: counts of the same rows by cells of the columns, of the same charge; None where none were asked for.
    """

    table: str
    columns: tuple[Column, ...]
    basis: Basis
    planned: int
    moments: tuple[int, ...]
    bits: int
    path: str
    row_error: float
    level_errors: tuple[float, ...]
    family: Family | Literal["kernels"]
    scales: tuple[float, ...]
    cuts: tuple[int, ...]
    epsilon_nano: int
    delta_atto: int
    neighbours: Neighbours
    count: int | None
    weighted: bool
    row_cap: int
    ranges: RangeCounts | None = None

    @cached_property
    def sums(self) -> Floats:
        """Noisy sums, float[R]; the first is the (weighted) number of rows."""
        return np.array([value / (1 << self.bits) for value in self.moments])

    @cached_property
    def row_errors(self) -> Floats:
        """Bound on |computed - exact| of each function at one row, float[R]."""
        if not self.level_errors:
            return np.full(self.basis.size, self.row_error)
        return np.array(self.level_errors)[self.basis.levels]

    @property
    def counts_exactly(self) -> bool:
        """Whether rows that weigh 1 add exactly 1 to the first sum."""
        return True

    @cached_property
    def noise(self) -> Law:
        """The law of the noise, in units of 2^-bits; with a public count, of every sum but the first."""
        levels = self.basis.levels[0 if self.count is None else 1 :]
        groups = group_of(levels, self.cuts)
        if self.family != "kernels":
            return SumNoise(family=self.family, scales=self.scales, groups=groups)
        kernels = kernels_of_basis(self.basis)
        if kernels is None:
            raise InternalError("the basis has no kernels")
        return KernelNoise(kernels=kernels, scales=self.scales, groups=groups)

    def dump(self) -> str:
        """The whole of it as canonical JSON: equal texts for equal contents."""
        raw = {
            "kind": "smooth_summary",
            "format": FORMAT,
            "table": self.table,
            "degree": self.basis.degree,
            "planned": self.planned,
            "degrees": list(self.basis.degrees),
            "shape": self.basis.shape,
            "order": self.basis.order,
            "columns": dump_columns(self.columns),
            "moments": list(self.moments),
            "bits": self.bits,
            "path": self.path,
            "row_error": self.row_error,
            "level_errors": list(self.level_errors),
            "family": self.family,
            "scales": list(self.scales),
            "cuts": list(self.cuts),
            "epsilon_nano": self.epsilon_nano,
            "delta_atto": self.delta_atto,
            "count": self.count,
            "neighbours": self.neighbours.value,
            "weighted": self.weighted,
            "row_cap": self.row_cap,
        }
        if self.ranges is not None:
            raw["ranges"] = self.ranges.raw()
        return json.dumps(raw, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def load(cls, text: str) -> SmoothSummary:
        """The inverse of :meth:`dump`.

        Raises:
            CatalogError: C105, the text is damaged or from another version.
        """
        try:
            return cls._read(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, DuckDPError):
            raise CatalogError(
                "C105", "the stored summary is damaged or was written by another version of duckdp. Buy it anew."
            ) from None

    @classmethod
    def _read(cls, raw: dict[str, Any]) -> SmoothSummary:
        if raw.pop("kind") != "smooth_summary" or raw.pop("format") != FORMAT:
            raise ValueError
        columns = load_columns(raw.pop("columns"))
        check_columns(columns)
        degree, planned = raw.pop("degree"), raw["planned"]
        basis = make_basis(columns, degree, raw.pop("shape"), raw.pop("order"), planned=planned)
        if list(basis.degrees) != raw.pop("degrees"):
            raise ValueError
        ranges = raw.pop("ranges", None)
        found = cls(
            columns=columns,
            basis=basis,
            ranges=None if ranges is None else read_counts(ranges, basis.axes),
            neighbours=Neighbours(raw.pop("neighbours")),
            moments=tuple(raw.pop("moments")),
            level_errors=tuple(raw.pop("level_errors")),
            scales=tuple(raw.pop("scales")),
            cuts=tuple(raw.pop("cuts")),
            **raw,
        )
        found._check()
        return found

    def _check(self) -> None:
        whole = (self.bits, self.epsilon_nano, self.delta_atto, self.row_cap, self.planned, *self.moments, *self.cuts)
        if not all(type(n) is int for n in whole) or not all(isinstance(s, str) for s in (self.table, self.path)):
            raise TypeError
        if self.family not in (*FAMILIES, "kernels") or type(self.weighted) is not bool:
            raise ValueError
        if self.family == "kernels" and (kernels_of_basis(self.basis) is None or len(self.scales) > 2):
            raise ValueError
        if len(self.scales) != len(self.cuts):
            raise ValueError
        if not all(type(s) is float and LEAST_SCALE <= s < RANGE for s in self.scales):
            raise ValueError
        if type(self.row_error) is not float or not 0 <= self.row_error < 1:
            raise ValueError
        if not all(type(e) is float and 0 <= e <= self.row_error for e in self.level_errors):
            raise ValueError
        if self.level_errors and len(self.level_errors) <= self.basis.levels.max():
            raise ValueError
        if len(self.moments) != self.basis.size or not 0 <= self.bits <= MOST_BITS or not self.cuts:
            raise ValueError
        if min(self.epsilon_nano, self.row_cap) < 1 or self.row_cap >= RANGE or self.delta_atto < 0:
            raise ValueError
        if max(map(abs, self.moments)) >= RANGE + max(RANGE, self.row_cap << self.bits):
            raise ValueError
        if self.planned < self.basis.degree:
            raise ValueError
        if list(self.cuts) != sorted(set(self.cuts)) or self.cuts[-1] < self.basis.levels.max():
            raise ValueError
        if self.count is None:
            return
        if type(self.count) is not int or self.moments[0] != self.count << self.bits or self.count > self.row_cap:
            raise ValueError


def check_columns(columns: Sequence[Column]) -> None:
    """Refuse columns that no declaration makes: what is read from a file may have been changed.

    Raises:
        TypeError, ValueError (or a ParameterError): a field's type, bounds, domain, or two columns of one name.
    """
    for c in columns:
        if not (isinstance(c.name, str) and is_text(c.name) and isinstance(c.source, str) and isinstance(c.type, str)):
            raise TypeError
        if type(c.integral) is not bool or type(c.nullable) is not bool:
            raise TypeError
        if kind_of(c.type) != (c.kind, c.integral):
            raise ValueError
        if (c.lower is not None or c.upper is not None) and check_bounds(c.name, c.type, c.lower, c.upper) != (
            c.lower,
            c.upper,
        ):
            raise ValueError
        if c.domain is not None and check_domain(c.name, c.type, c.domain) != c.domain:
            raise ValueError
        for value in (c.other, c.null_value):
            if check_domain(c.name, c.type, [value]) != (value,):
                raise ValueError
    if len({c.name.lower() for c in columns}) != len(columns):
        raise ValueError


def make_basis(
    columns: Sequence[Column],
    degree: int,
    shape: Shape = "tensor",
    order: int | None = None,
    *,
    planned: int | None = None,
) -> Basis:
    """The basis over declared columns.

    Args:
        columns: with bounds or a domain.
        degree: t.
        shape: of the index set.
        order: the most columns that interact.
        planned: a larger degree that decided which columns are listed by value, where the sums were read for it.

    Raises:
        ParameterError: P107, a figure is out of range or the set too large.
        QueryError: Q401, a column has neither bounds nor a domain.
    """
    if isinstance(degree, bool) or not isinstance(degree, int):
        degree = 0  # refused by the basis
    axes = [make_axis(c, planned or degree) for c in columns]
    cut = [a if a.values is not None else replace(a, degree=degree) for a in axes]
    return Basis(axes=tuple(cut), degree=degree, shape=shape, order=order)


def group_of(levels: Ints, cuts: Sequence[int]) -> Ints:
    """Group of each function, from its total degree and the largest degree of each group."""
    return np.searchsorted(np.asarray(cuts), levels, side="left").astype(np.int64)

"""Every declared column as a short list of bins: what a tree counts, and how a bin becomes a value again.

    number, date   B equal steps of [-1, 1]; of whole numbers (dates: whole days) at most one bin a value; then one for
                   each value that rows may pile up at (spikes: the bounds, 0, what NULL is read as), without those in
                   the steps; then one for NULL where it may be NULL
    boolean        false, true; then NULL where it may be NULL
    domain         one bin per value, NULL (or whatever is outside a domain without "other") a value of its own

Bins follow from declarations and public figures alone. Every row has exactly one bin in every column, so it touches
exactly one cell of any table of counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Kind
from duckdp.synthetic.unit.completeness import may_show_null
from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.layout import Part, UnitColumns, piles
from duckdp.synthetic.unit.uniforms import uniforms

Ints = NDArray[np.int64]
Lean = Floats | None
"""Of each bin of a column, float[size]: how steeply the density of its values falls within it; None: not at all."""

_KEPT = 0.25  # share of a step from which a value keeps it
_EVEN = 1e-6  # lean of a law that is as good as even
_NEAR = 1.5  # whole numbers up to so many times the bins have one each


@dataclass(frozen=True, kw_only=True)
class Binning:
    """The bins of one declared column.

    Attributes:
        part: its place among the unit columns.
        bins: B, without the spikes, and the one for NULL, of a number or a boolean.
        span: of whole numbers: upper - lower; 0 for others.
        spikes: single values of a number, in [-1, 1], each with a bin of its own behind the steps.
        law: weights of whole numbers from the lower bound on, float[span + 1], by which a step's rows are dealt to its
            values (``single_values``); None: evenly.
        apart: the spikes that rows pile up at: whole numbers in steps are others.
    """

    part: Part
    bins: int
    span: int = 0
    spikes: tuple[float, ...] = ()
    law: Floats | None = field(default=None, compare=False)
    apart: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        """Bins, those of spikes and NULL included."""
        return self.valued + (self.part.form != "choice" and self.part.nullable)

    @property
    def valued(self) -> int:
        """Bins but for that of NULL of a number or a boolean."""
        return self.bins + len(self.spikes)

    @property
    def null(self) -> int | None:
        """The bin that shows as NULL, or None where there is none."""
        if not may_show_null(self.part):
            return None
        return self.part.values.index(None) if self.part.form == "choice" else self.valued

    @property
    def ordered(self) -> bool:
        """Whether neighbouring bins are alike (but for that of NULL)."""
        return self.part.form == "number"

    @property
    def exact(self) -> bool:
        """Whether a bin tells the value."""
        return self.part.form != "number" or (self.span > 0 and self.bins > self.span)

    @property
    def lows(self) -> Floats:
        """Lower ends of a number's bins in [-1, 1], float[size]; spikes are their own; 0 for NULL."""
        steps, null = 2 * np.arange(self.bins) / self.bins - 1, np.zeros(self.size - self.valued)
        return np.concatenate([steps, self.spikes, null])

    @property
    def middles(self) -> Floats:
        """Middles of a number's bins in [-1, 1], a boolean's -1 and 1; 0 for NULL."""
        if self.part.form == "sign":
            return np.array([-1.0, 1.0, 0.0][: self.size])
        return np.asarray(self.lows + (np.arange(self.size) < self.bins) / self.bins)

    def mean(self, shares: Floats, place: float = 0.5) -> float:
        """Mean of a number's unit column when values lie at this place in [0, 1] of their bins; NULL counts as 0."""
        return float(shares @ self.lows + shares[: self.bins].sum() * 2 * place / self.bins)

    def spread(self, codes: Ints, lean: Lean = None) -> Floats:
        """Unit columns, float[m, width]: values within their bins by their laws' equal levels, in random order.

        Args:
            codes: int[m].
            lean: of each bin, float[size]: see ``leaned``.
        """
        part, rows = self.part, len(codes)
        if part.form == "choice":
            return part.unit(codes)
        found = np.full((rows, part.width), -1.0)
        missing = codes >= self.valued
        if part.form == "sign":
            found[:, 0] = np.where(codes == 1, 1.0, -1.0)
        else:
            levels = leaned(_levels(codes), self.leans(lean)[codes])
            found[:, 0] = self._piled(codes, self._inside(codes, levels))
        if part.nullable:
            found[missing, 0] = 0.0
            found[missing, 1] = 1.0
        return found

    def at(self, levels: Floats) -> Floats:
        """Unit values of a number at levels in [0, 1] of each bin, float[size, k]; 0 for NULL."""
        codes = np.arange(self.size)[:, None]
        return np.where(codes < self.valued, self._piled(codes, self._inside(codes, levels)), 0.0)

    @property
    def widths(self) -> Floats:
        """How many values the steps have, but for those apart, of whole numbers; 1 of others: float[bins]."""
        if not self.span:
            return np.ones(self.bins)
        firsts = -(-np.arange(self.bins) * self.span // self.bins)
        found = np.diff(firsts, append=self.span + 1).astype(np.float64)
        own = [round((u + 1) / 2 * self.span) for u in self.apart]
        np.subtract.at(found, np.searchsorted(firsts, own, side="right") - 1, 1.0)
        return np.maximum(found, 1.0)

    def leans(self, lean: Lean) -> Floats:
        """The lean of each bin, float[size]; 0 where a law piles up its values."""
        found = np.zeros(self.size) if lean is None else lean.copy()
        if self.law is not None:
            found[: self.bins][self._steady] = 0.0
        return found

    def parent(self, spike: int) -> int:
        """The step that a spike lies in, by its place among them."""
        place = (self.spikes[spike] + 1) / 2
        step = round(place * self.span) * self.bins / self.span if self.span else place * self.bins
        return min(int(step), self.bins - 1)

    @cached_property
    def _below(self) -> Floats:
        """Weights of the law, added up below each value and the last."""
        assert self.law is not None
        return np.concatenate([[0.0], np.cumsum(self.law)])

    @cached_property
    def _steady(self) -> NDArray[np.bool_]:
        """Whether a value has so much of its step that it keeps it, bool[bins]."""
        assert self.law is not None
        first = -(-np.arange(self.bins) * self.span // self.bins)
        whole = np.add.reduceat(self.law, first)
        return np.asarray(np.maximum.reduceat(self.law, first) > _KEPT * whole)

    def _piled(self, codes: Ints, inside: Floats) -> Floats:
        """Values of steps, and the spikes' own."""
        if not self.spikes:
            return inside
        own = np.asarray(self.spikes)[np.clip(codes - self.bins, 0, len(self.spikes) - 1)]
        return np.where((codes >= self.bins) & (codes < self.valued), own, inside)

    def _inside(self, codes: Ints, levels: Floats) -> Floats:
        if not self.span:
            return np.asarray(2 * (codes + levels) / self.bins - 1)
        codes = np.minimum(codes, self.bins - 1)  # what is piled has its own value
        first = -(-codes * self.span // self.bins)
        after = np.where(codes < self.bins - 1, -(-(codes + 1) * self.span // self.bins), self.span + 1)
        if self.law is not None:
            start, whole = self._below[first], self._below[after] - self._below[first]
            found = np.searchsorted(self._below, start + levels * whole, side="right") - 1
            even = first + np.floor(levels * (after - first))
            value = np.where(whole > 0, np.clip(found, first, after - 1), even)
            return np.asarray(2 * np.minimum(value, self.span) / self.span - 1)
        own = sorted(round((u + 1) / 2 * self.span) for u in self.apart)
        left = [np.minimum((first <= k) & (k < after), 1) for k in own]
        free = after - first - sum(left)
        count = np.where(free > 0, free, after - first)
        value = first + np.minimum(np.floor(levels * count), count - 1)
        for k, inside in zip(own, left, strict=True):
            value = value + (inside & (free > 0) & (value >= k))
        return np.asarray(2 * np.minimum(value, self.span) / self.span - 1)


def make_bins(units: UnitColumns, bins: int, *, spikes: bool = False) -> tuple[Binning, ...]:
    """Bins of every declared column.

    Args:
        units: the columns.
        bins: for a number, its NULL beside them; whole numbers that are few have one each.
        spikes: whether values that rows may pile up at have bins of their own; not in releases of earlier versions.
    """
    found = (_binning(part, bins) for part in units.parts)
    return tuple(replace(b, spikes=_spikes(b)) if spikes and not b.exact else b for b in found)


def _spikes(binning: Binning) -> tuple[float, ...]:
    """The values that a number may pile up at, ascending, in [-1, 1]."""
    axis = binning.part.axis
    return tuple(float(u) for u in axis.to_unit(np.array(piles(binning.part.column))))


def set_apart(binnings: Sequence[Binning], flat: Mapping[int, Sequence[int]]) -> tuple[Binning, ...]:
    """The same, with the spikes that rows pile up at: all but those whose bins are flat, by column."""
    return tuple(
        replace(b, apart=tuple(u for k, u in enumerate(b.spikes, b.bins) if k not in flat.get(i, ())))
        for i, b in enumerate(binnings)
    )


def spread_rows(binnings: Sequence[Binning], codes: Ints, leans: Sequence[Lean]) -> Floats:
    """Rows of bins as unit rows: float[m, d] of int[m, columns], and how values lean in their bins, per column."""
    return np.concatenate([b.spread(codes[:, i], leans[i]) for i, b in enumerate(binnings)], axis=1)


def leaned(levels: Floats, lean: Floats) -> Floats:
    """Places in a bin, in [0, 1], at these levels of the law whose density is proportional to exp(-lean * place)."""
    steep = np.maximum(np.abs(lean), _EVEN)
    near = np.where(lean < 0, 1 - levels, levels)
    found = np.where(np.abs(lean) > _EVEN, -np.log1p(near * np.expm1(-steep)) / steep, near)
    return np.asarray(np.where(lean < 0, 1 - found, found))


def _binning(part: Part, bins: int) -> Binning:
    if part.form == "choice":
        return Binning(part=part, bins=len(part.values))
    if part.form == "sign":
        return Binning(part=part, bins=2)
    span = round(part.axis.upper - part.axis.lower)
    whole = part.column.integral or part.column.kind is Kind.DATE
    if not whole or not 0 < span < 2**31 or span != part.axis.upper - part.axis.lower:
        return Binning(part=part, bins=bins)
    return Binning(part=part, bins=span + 1 if span < _NEAR * bins else bins, span=span)


def _levels(codes: Ints) -> Floats:
    """In each bin, its rows' equispaced levels in (0, 1), in random order."""
    order = np.lexsort((uniforms(len(codes), 1)[:, 0], codes))
    counts = np.bincount(codes, minlength=1)
    before = np.concatenate([[0], np.cumsum(counts)[:-1]])
    levels = np.empty(len(codes))
    sorted_codes = codes[order]
    levels[order] = (np.arange(len(codes)) - before[sorted_codes] + 0.5) / counts[sorted_codes]
    return levels

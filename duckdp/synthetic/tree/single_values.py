"""Single values of whole numbers: which cells count them, what they cost, and the law of values within bins.

Bins are coarse, and rows may lie in few of a bin's values: hours of work at 40, ages at tens, clock times such as 1459
of which none has minutes above 59, pay in hundreds. So for a small share of the charge a tree buys, of columns of whole
numbers whose bins hold several values, a table each of

    all values    where these are few, and its noise tells a value that few of the rows have
    last digits   values by their last two digits, or three, where values are many or noise is large

Where a table each would be too noisy, those columns alone are counted whose released bins may hold a pile
(``choose_values``).

A row is in one cell of each. From these noisy counts and those of the bins follows a weight of every value, by which
rows of a bin are dealt to its values:

    piles    a value whose count stands out of noise (``SPURIOUS``), with twice and more the rows of others of its bin:
             as many rows as were counted
    minutes  last digits 60 to 99 with so few rows as tell that they have none: clock times
    digits   last digits whose count stands out of noise, above or below what bins imply

All else of a bin stays even. Where nothing stands out there is no law. What bins hold stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.special import ndtri

from duckdp.catalog.table import Kind
from duckdp.synthetic.tree.bins import Binning, Ints
from duckdp.synthetic.tree.contingency import predicted_deviation
from duckdp.synthetic.unit.charge_terms import Terms
from duckdp.synthetic.unit.features import Floats

MOST_VALUES = 3000  # cells of a column
_WIDE = 20_000  # values from which three digits are told, not two
_MOST_SPAN = 10**6  # values that weights are computed of
_PERCENTS = (1, 2, 3, 4)  # of the charge
_CHOSEN = Fraction(3, 100)  # of the charge, where columns are chosen by released histograms
_HIGH = 0.2  # share of the rows at a value of one column, that this is to show
_ALONE = 0.7  # of a bin's excess, that must stand out of noise
_EXCESS = 6.0  # deviations of a bin's noise, of which less excess tells nothing
_SEEN = 0.05  # share of the rows at a value, that is to stand out
_HOURLY = (1159, 2400)  # upper bounds of what may be clock times,
_EARLY = 1000  # and lower ones below this
_LATE = 60  # minutes that no clock shows, from here on to 99
_ROOM = 1.5  # how much less than expected there may be of rows, as some are NULL
_SURE, _LIKELY = 8.0, 3.0  # deviations of noise that minutes above 59 would have, if they were as frequent as others
SPURIOUS = 0.01  # chance that any cell stands out by noise alone
_ROUNDS = 3  # times all last digits that values must have
_MANY, _NORMAL = 10, 6.0  # cells of a sum of noise that is nearly normal; its deviations that stand out
_SEEN_BESIDE = 2.0  # deviations of noise of a step's piles, from which rows are taken to lie beside them
_PILED = 2.0  # times the rows of others of its bin


@dataclass(frozen=True, kw_only=True)
class Valued:
    """Tables of values that are bought: public.

    Attributes:
        share: of the charge.
        moduli: (column, 0 for all its values or the number of last digits' values) each.
        chosen: whether columns are added whose released bins may hold a pile.
    """

    share: Fraction = Fraction(0)
    moduli: tuple[tuple[int, int], ...] = ()
    chosen: bool = False


def plan_values(binnings: Sequence[Binning], terms: Terms, rows: float, *, chosen: bool = True) -> Valued:
    """The least percent that shows a pile of ``_SEEN`` of the rows in every column.

    Or columns that are chosen when histograms are known (``choose_values``), with clock times, of which minutes are
    told; or nothing.

    Args:
        binnings: of the columns.
        terms: of the charge.
        rows: expected.
        chosen: whether columns may be chosen: not in plans of before.
    """
    places = [i for i, b in enumerate(binnings) if _may_pile(b)]
    for percent in _PERCENTS if places else ():
        noise = predicted_deviation(len(places), percent / 100, terms)
        moduli = tuple((i, _modulus(binnings[i], noise, rows)) for i in places)
        cells = sum(count_cells(binnings[i], m) for i, m in moduli)
        if clear(noise, cells, terms) <= _SEEN * rows:
            return Valued(share=Fraction(percent, 100), moduli=moduli)
    clocks = tuple((i, 100) for i in places if is_clock(binnings[i]))
    late = 100 - _LATE
    told = Valued()
    for percent in reversed(_PERCENTS) if clocks else ():
        noise = predicted_deviation(len(clocks), percent / 100, terms) * math.sqrt(late)
        if _LIKELY * noise <= late / 100 * rows / _ROOM:
            told = Valued(share=Fraction(percent, 100), moduli=clocks)
    few = [count_cells(binnings[i], 0) for i in places if binnings[i].span < MOST_VALUES]
    alone = predicted_deviation(len(told.moduli) + 1, float(_CHOSEN), terms)
    if chosen and few and clear(alone, min(few), terms) <= _HIGH * rows:
        return Valued(share=max(_CHOSEN, told.share), moduli=told.moduli, chosen=True)
    return told


def choose_values(
    binnings: Sequence[Binning], counts: Sequence[Floats], deviation: float, plan: Valued, terms: Terms
) -> tuple[tuple[int, int], ...]:
    """Columns whose values are counted, as ``Valued.moduli``: those of the plan, and those whose bins may hold a pile.

    A pile of e rows makes a bin that has about so many rows more than those beside it. Columns are taken from the
    largest such excess on, as long as what stands out of the noise of them all is less than ``_ALONE`` of the least.

    Args:
        binnings: of the columns.
        counts: released, of their bins.
        deviation: of the noise of these.
        plan: what is planned.
        terms: of the charge.
    """
    if not plan.chosen:
        return plan.moduli
    known = {i for i, _ in plan.moduli}
    places = [i for i, b in enumerate(binnings) if _may_pile(b) and b.span < MOST_VALUES and i not in known]
    excess = sorted(((_excess(counts[i][: binnings[i].bins]), i) for i in places), reverse=True)
    best = plan.moduli
    for k, (rows, _) in enumerate(excess):
        taken = (*plan.moduli, *((i, 0) for _, i in excess[: k + 1]))
        noise = predicted_deviation(len(taken), float(plan.share), terms)
        cells = sum(count_cells(binnings[i], m) for i, m in taken)
        if rows < _EXCESS * deviation or clear(noise, cells, terms) > _ALONE * rows:
            break
        best = taken
    return best


def _excess(steps: Floats) -> float:
    """The most rows that a step has beyond each of the two beside it.

    Not those at the ends: laws are often steepest there, and values at bounds have bins of their own.
    """
    return float((steps[1:-1] - np.maximum(steps[:-2], steps[2:])).max(initial=0.0))


def is_clock(binning: Binning) -> bool:
    """Whether a column may hold clock times, such as 1459, by its bounds."""
    lower, upper = binning.part.axis.lower, binning.part.axis.upper
    return 0 <= lower < _EARLY and _HOURLY[0] <= upper <= _HOURLY[1]


def count_cells(binning: Binning, modulus: int) -> int:
    """Cells of a column's table: the last is of rows without a value."""
    return (modulus or binning.span + 1) + 1


def clear(deviation: float, cells: int, terms: Terms) -> float:
    """What noise of so many cells exceeds anywhere with a chance of ``SPURIOUS`` at most (Laplace: nearly)."""
    if terms.gaussian:
        return 1 - deviation * float(ndtri(SPURIOUS / cells))
    return max(1.0, deviation / math.sqrt(2) * math.log(cells / (2 * SPURIOUS)))


def find_law(
    binning: Binning,
    steps: Floats,
    counts: Floats,
    modulus: int,
    deviation: float,
    least: float,
    apart: Mapping[int, float] | None = None,
) -> Floats | None:
    """Weights of all values, float[span + 1], or None where nothing stands out.

    Args:
        binning: of the column.
        steps: noisy counts of its steps, float[bins].
        counts: noisy counts of its values, or of their last digits, float[cells].
        modulus: 0 for values.
        deviation: of their noise.
        least: what stands out of noise.
        apart: place -> rows, of values that have bins of their own: none of a step's.
    """
    noise = _Noise(deviation=deviation, least=least)
    inside = _steps_of(binning)
    counted = np.maximum(0.0, steps)
    there = np.ones(len(inside))
    there[list(apart or {})] = 0.0
    widths = np.bincount(inside, weights=there, minlength=binning.bins)
    usual = (counted / np.maximum(1, widths))[inside] * there
    piles = np.zeros(len(inside))
    if not modulus:
        own = counts[:-1] * there
        high = (own - usual > least) & (own > _PILED * usual)
        piles[high] = own[high]
        over = np.bincount(inside, weights=piles, minlength=binning.bins)
        left = np.maximum(0.0, counted - over)
        left[left <= _SEEN_BESIDE * deviation * np.sqrt(np.bincount(inside, weights=high, minlength=binning.bins))] = (
            0.0
        )
        piles *= ((counted - left) / np.maximum(over, 1e-300))[inside]
        others = there * ~high
        beside = np.bincount(inside, weights=others, minlength=binning.bins)
        usual = (left / np.maximum(1, beside))[inside] * others
        factors = _digits_of_values(binning, np.where(high, 0.0, own), usual, noise)
    else:
        found, digits = counts[:-1].copy(), _last(binning, modulus)
        for value, rows in (apart or {}).items():
            found[digits[value]] -= rows
        factors = _digits(binning, found, usual, np.ones(modulus), noise)
    if factors is None and not piles.any():
        return None
    if factors is not None:
        rest = np.bincount(inside, weights=usual, minlength=binning.bins)
        usual = usual * factors
        usual *= (rest / np.maximum(1e-300, np.bincount(inside, weights=usual, minlength=binning.bins)))[inside]
    return np.asarray(piles + usual)


def _digits_of_values(binning: Binning, own: Floats, usual: Floats, noise: _Noise) -> Floats | None:
    """The same from counts of values: by two digits where they have some, else by one."""
    for modulus in (100, 10):
        if binning.span >= _ROUNDS * modulus:
            digits = _last(binning, modulus)
            found = np.asarray(np.bincount(digits, weights=own, minlength=modulus), dtype=np.float64)
            added = np.asarray(np.bincount(digits, minlength=modulus), dtype=np.float64)
            return _digits(binning, found, usual, added, noise)
    return None


def _digits(binning: Binning, found: Floats, usual: Floats, added: Floats, noise: _Noise) -> Floats | None:
    """Factors of all values by their last digits, or None: by the last one first, then by two, by three.

    Args:
        binning: of the column.
        found: noisy counts by last digits.
        usual: what bins imply of each value.
        added: cells that each of the counts is a sum of.
        noise: of a cell.
    """
    most, digits = len(found), _last(binning, len(found))
    wanted = np.asarray(np.bincount(digits, weights=usual, minlength=most), dtype=np.float64)
    factors = np.ones(most)
    if most == 100:
        late, spread = float(wanted[_LATE:].sum()), noise.deviation * math.sqrt(float(added[_LATE:].sum()))
        if float(found[_LATE:].sum()) < late / 2 and late > (_LIKELY if is_clock(binning) else _SURE) * spread:
            factors[_LATE:] = 0.0
            factors[:_LATE] = wanted.sum() / max(1e-300, float(wanted[:_LATE].sum()))
    for modulus in [m for m in (10, 100, 1000) if m <= most]:
        fold = np.arange(most) % modulus
        now, own, cells = (_added(fold, w) for w in (factors * wanted, found, added))
        told = (now > 0) & (np.abs(own - now) > noise.bars(cells))
        if told.any():
            change = np.where(told, np.maximum(0.0, own) / np.maximum(now, 1e-300), 1.0)
            left = float(now.sum() - (change * now)[told].sum())
            change[~told] = max(0.0, left) / max(1e-300, float(now[~told].sum()))
            factors = factors * change[fold]
    return None if (factors == 1).all() else factors[digits]


@dataclass(frozen=True, kw_only=True)
class _Noise:
    """Noise of a cell: its deviation, and what stands out of it."""

    deviation: float
    least: float

    def bars(self, cells: Floats) -> Floats:
        """What stands out of the noise of sums of so many cells; of ten and more, whose law is nearly normal, less."""
        usual = self.least / self.deviation
        return self.deviation * np.sqrt(cells) * np.where(cells >= _MANY, min(usual, _NORMAL), usual)


def _added(places: Ints, weights: Floats) -> Floats:
    return np.asarray(np.bincount(places, weights=weights), dtype=np.float64)


def with_law(binning: Binning, law: Floats | None) -> Binning:
    """A column whose bins deal their rows to values by a law."""
    return binning if law is None else replace(binning, law=law)


def _may_pile(binning: Binning) -> bool:
    whole = binning.part.column.kind is Kind.NUMBER and binning.part.column.integral
    return whole and binning.ordered and not binning.exact and 0 < binning.span <= _MOST_SPAN


def _modulus(binning: Binning, noise: float, rows: float) -> int:
    """All values, or how many last digits' values: by the noise of a cell, which many values add up."""
    if binning.span >= MOST_VALUES:
        return 1000 if binning.span >= _WIDE else 100
    late = (100 - _LATE) / 100
    told = _LIKELY * noise * math.sqrt(late * binning.span) <= late * rows / _ROOM
    return 100 if is_clock(binning) and not told else 0


def _steps_of(binning: Binning) -> Ints:
    """The step of each value."""
    first = -(-np.arange(binning.bins) * binning.span // binning.bins)
    return np.asarray(np.searchsorted(first, np.arange(binning.span + 1), side="right") - 1, dtype=np.int64)


def _last(binning: Binning, modulus: int) -> Ints:
    """Last digits of each value."""
    return np.asarray((np.arange(binning.span + 1) + int(binning.part.axis.lower) % modulus) % modulus)

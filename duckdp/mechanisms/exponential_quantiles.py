"""Several quantiles at once: the exponential mechanism on ranks, on parts of the rows that the ones before cut out.

Values are cells 0 .. cells - 1 of a public grid. A cell with m rows holds them at the places rev(0), ..., rev(m - 1) of
its ``2^BITS`` (rev turns the bits of a number round), so a row more is a place more, and places are never shared. A
**part** is a range of places between two cuts that are public. On a part with n rows a quantile aims at the rank T =
n a / b, or for the least and the largest value, where a = 0 or a = b, least(s, n / 2) rows from that end. One of these
is drawn with a chance proportional to measure exp(-rate d), d within -D and D, the measure public (``cell_measure``):

    a cut c between places, for quantiles to follow      d = |T - rows of the part below c|
    a cell c, where none follows                         d = how far T is from the ranks that c's rows have; where it
                                                             is one of them, less than 0: how deep it is among them
    rate = b epsilon / (2 greatest(a, b - a) u)          u rows of a unit; REPLACE: epsilon / 2

The middle one of the quantiles is drawn first, on all rows, with epsilon_1; then those in the middle of what is left on
either side of it, each on its side, with epsilon_2; and so on (:func:`split_quantiles`).

Privacy:      the sum of the levels' epsilons, pure. So log2(m + 1) levels pay for m quantiles.
Assumes:      at most u rows of each unit, which depend on that unit's rows alone.
Proof sketch: 1. A row more at a place x of a part: T moves up by a / b (at the ends: by 0, 1/2 or 1), and the rows
              below c by 1 if x < c, else by 0. So |T - below| moves by at most greatest(a, b - a) / b =: M (at the
              ends: 1); and so do L - T and T - U, where c's rows have the ranks L to U, each of which moves like that,
              and so does the larger one, which is d. Cut at -D and D it moves by no more. v rows more: by v M at most.
              2. Hence a logarithm of a weight, of which the measure is a constant factor, lies within rate v M on
              either side of where it was, and so does that of their sum: log-chances move by at most 2 rate v M =
              epsilon v / u.
              3. Which parts there are follows from cuts that were drawn on levels before: public. Those of one level
              share no place, so a unit has v_1 + v_2 + ... <= u rows in them: the level costs at most epsilon, and
              levels compose. (That rows have places is a map of multisets under which a row more is a place more.)
              4. REPLACE takes one unit away and adds another one.
Utility:      some candidate has d <= 0 (a cut: d < 1), and none measures less than 1. So d > t has a chance of less
              than (measure of all) exp(-rate t): :func:`rank_bound`. (Were no d less than 0, a cell that has the rank
              would weigh no more than at its ends, and each other one what it does: it would be drawn less often.)
              Where cells are many and no gap between values outweighs all others, d is about geometric: 1 / rate on the
              average.
Numerics:     d b is an integer, and exp(-rate d) a product of integers near 2^256, one for each ten bits of it, rounded
              down: relative errors below 2^-120 together (rate D < 90, so none is below 2^126; for d < 0 it is 2^512
              over that of -d, which errs alike and is below 2^387). Sums are exact, and one draw of 640 bits is scaled
              to them: of 2^90 candidates each has at least 2^-352 of the chance, so its logarithm errs by less than
              2^-280. The factor 1 - 2^-64 of the rate covers both for epsilon >= 2^-50.
Source:       McSherry, Talwar, FOCS 2007; quantiles by it: Smith, STOC 2011; the recursion: Kaplan, Schnapp, Stemmer,
              "Differentially private approximate quantiles", ICML 2022. The places that rows of equal values get, the
              constant under ADD_REMOVE and the proof are ours.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from duckdp.core.noise import random_bits
from duckdp.mechanisms.cell_measure import CellMeasure, PlaceMeasure

BITS = 40  # of a place within its cell: more places than a cell has rows
PLACES = 1 << BITS  # of each cell
_SCALE = 256  # bits of a weight
_DRAWN = 640  # bits of the one draw
_SAFE = 1 - Fraction(1, 2**64)  # of the rate: the rest pays for rounding
_BEYOND = 20  # rate D is that above the logarithm of the candidates: all beyond together have e^-20 of the chance
_DIGIT = 10  # bits of a distance that share a table of powers
_CONTEXT = Context(prec=60, rounding=ROUND_FLOOR, Emin=-9999, Emax=9999)


Segment = tuple[int, int]
"""(first candidate, distance of it and of all up to the next segment's first, times b; below 0 how deep)."""


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What a draw on one part aims at, and how sharply; public.

    Attributes:
        a, b: the rank is n a / b, 0 <= a <= b.
        inward: rows; where a is 0 or b, so many rows from that end, but not beyond the middle: b must be even then.
        epsilon: of the draw, > 0; under REPLACE half of it.
        unit: u, most rows of one privacy unit.
        cells: of the grid, by the measure: the least counts 1.
    """

    a: int
    b: int
    inward: int = 0
    epsilon: Fraction
    unit: int
    cells: int

    @property
    def rate(self) -> Fraction:
        """By how much a logarithm of a weight falls with each row of distance."""
        return self.b * self.epsilon / (2 * max(self.a, self.b - self.a) * self.unit)

    @property
    def most(self) -> int:
        """The distance, times b, beyond which all count alike."""
        return int((math.log(self.cells) + BITS * math.log(2) + _BEYOND) * self.b / self.rate)

    @property
    def reach(self) -> int:
        """Rows beyond which all count alike, rounded up."""
        return self.most // self.b + 1

    def weigher(self) -> Weigher:
        """What gives distances their weights."""
        return _weigher(self.rate * _SAFE / self.b, self.most)


@dataclass(eq=False)
class Weigher:
    """Integers near 2^256 exp(-rate distance).

    Attributes:
        rate: for each unit of distance.
        most: distances beyond it, on either side of 0, count as it.
    """

    rate: Fraction
    most: int
    _tables: dict[tuple[int, int], int] = field(default_factory=dict, repr=False)

    def weight(self, distance: int) -> int:
        """The weight of one distance, times b of the aim; below 0 the inverse of what it has above."""
        if distance < 0:
            return (1 << 2 * _SCALE) // self.weight(-distance)
        rest, found, place = min(distance, self.most), 1 << _SCALE, 0
        while rest:
            digit, rest = rest & ((1 << _DIGIT) - 1), rest >> _DIGIT
            if digit:
                found = found * self._power(digit, place) >> _SCALE
            place += _DIGIT
        return found

    def _power(self, digit: int, place: int) -> int:
        known = self._tables.get((digit, place))
        if known is None:
            up = Decimal(-self.rate.numerator * (digit << place))
            power = _CONTEXT.exp(_CONTEXT.divide(up, Decimal(self.rate.denominator)))
            known = int(_CONTEXT.multiply(power, Decimal(1 << _SCALE)))
            self._tables[digit, place] = known
        return known


@lru_cache(maxsize=16)
def _weigher(rate: Fraction, most: int) -> Weigher:
    """One for all draws at one rate, as those of groups are."""
    return Weigher(rate=rate, most=most)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the rows: its ends are public, what it holds is exact and private.

    Attributes:
        low, high: cuts, as numbers of places below them.
        below: rows of all before ``low``.
        upto: rows of all before ``high``.
        runs: (cell, rows in cells below it, rows in it), ascending: all whose rows have ranks near the aim.
    """

    low: int
    high: int
    below: int = field(repr=False)
    upto: int = field(repr=False)
    runs: Sequence[tuple[int, int, int]] = field(repr=False)


def draw_cell(part: Part, aim: Aim, measure: CellMeasure | None = None) -> int:
    """A cell near the rank that is aimed at; no quantile follows on its sides.

    Args:
        part: exact and private: must not be logged, stored or raised. Whatever it holds, one draw is made.
        aim: public.
        measure: of the cells, public; None: each counts 1.
    """
    return _draw(*cell_segments(part, aim), aim, measure)


def draw_cut(part: Part, aim: Aim, measure: CellMeasure | None = None) -> int:
    """A cut near the rank that is aimed at: the number of places below it. See :func:`draw_cell`."""
    return _draw(*cut_segments(part, aim), aim, measure and PlaceMeasure(measure, PLACES))


def cell_segments(part: Part, aim: Aim) -> tuple[list[Segment], int]:
    """Distances of all cells, and the last of them: as private as the part is."""
    first, last = part.low // PLACES, max(part.low, part.high - 1) // PLACES
    goal, runs = _goal(part, aim), _runs(part, first, last)

    def outside(low: int, high: int) -> int:
        return max(goal - aim.b * _within(high, part), aim.b * _within(low, part) - goal)

    rank = runs[0][1] if runs else part.below
    segments = [(first, outside(rank, rank))]
    for cell, before, rows in runs:
        after = before + rows
        segments += [(cell, outside(before, after)), (cell + 1, outside(after, after))]
    return segments, last


def cut_segments(part: Part, aim: Aim) -> tuple[list[Segment], int]:
    """Distances of all cuts, and the last of them; see :func:`cell_segments`."""
    goal, reach = _goal(part, aim), aim.reach + 1
    runs = _runs(part, part.low // PLACES, part.high // PLACES)

    def off(rank: int) -> int:
        return abs(goal - aim.b * _within(rank, part))

    segments = [(part.low, off(runs[0][1] if runs else part.below))]
    for cell, before, rows in runs:
        base, middle = cell * PLACES, goal // aim.b - before
        start, stop = (min(max(middle + side * reach, 0), rows) for side in (-1, 1))
        if start > 0:  # rows of the cell that are farther than D
            segments.append((base + 1, aim.most))
        places = places_of(rows, start, stop)
        segments += [(base + place + 1, off(before + i)) for i, place in enumerate(places, start + 1)]
    return segments, part.high


def _goal(part: Part, aim: Aim) -> int:
    """The rank that is aimed at, among all rows, times b."""
    rows = part.upto - part.below
    inward = min(aim.b * aim.inward, aim.b // 2 * rows)
    return aim.b * part.below + aim.a * rows + (inward if aim.a == 0 else -inward)


def _within(rank: int, part: Part) -> int:
    """How many of the rows before the part's end stand before such a rank."""
    return min(max(rank, part.below), part.upto)


def _runs(part: Part, first: int, last: int) -> list[tuple[int, int, int]]:
    """The part's runs in the order of their cells, each cell once."""
    kept = {int(cell): (int(cell), int(before), min(max(int(rows), 0), PLACES - 1)) for cell, before, rows in part.runs}
    return [kept[cell] for cell in sorted(kept) if first <= cell <= last]


def weigh(
    segments: Sequence[Segment], last: int, aim: Aim, measure: CellMeasure | PlaceMeasure | None = None
) -> list[tuple[int, int, int]]:
    """(first candidate, measure of all, weight of each) in their order; see :func:`cell_segments`."""
    low, weigher = segments[0][0], aim.weigher()
    starts = [min(max(start, low), last + 1) for start, _ in segments] + [last + 1]
    ends = starts if measure is None else [measure.below(start) for start in starts]
    weights = [weigher.weight(distance) for _, distance in segments]
    return [(starts[i], ends[i + 1] - ends[i], weight) for i, weight in enumerate(weights)]


def _draw(segments: Sequence[Segment], last: int, aim: Aim, measure: CellMeasure | PlaceMeasure | None) -> int:
    """A candidate with its measure and the weight of its distance: one draw."""
    weighed = weigh(segments, last, aim, measure)
    sums = list(accumulate(count * weight for _, count, weight in weighed))
    drawn = random_bits(_DRAWN) * sums[-1] >> _DRAWN
    place = bisect_right(sums, drawn)
    start, _, weight = weighed[place]
    amount = (drawn - (sums[place - 1] if place else 0)) // weight
    return start + amount if measure is None else measure.cell_of(measure.below(start) + amount)


def rows_below(rows: int, place: int, bits: int = BITS) -> int:
    """How many of a cell's rows stand at places below one: of the numbers below ``rows``, turned round."""
    found = 0
    for remainder, step in below_terms(place, bits):
        found += max(0, (rows - remainder + step - 1) // step)
    return found


def below_terms(place: int, bits: int = BITS) -> list[tuple[int, int]]:
    """(r, w) so that the rows below a place are the sum of how many numbers below their number are r modulo w."""
    found, prefix = [], 0
    if place >= 1 << bits:
        return [(0, 1)]
    for depth in range(1, bits + 1):  # numbers that begin as the place does, and have 0 where it has 1
        if place >> bits - depth & 1:
            found.append((prefix, 1 << depth))
            prefix |= 1 << depth - 1
    return found


def places_of(rows: int, start: int, stop: int) -> list[int]:
    """The places of a cell's rows ``start`` to ``stop``, in their order."""
    if start >= stop:
        return []
    depth = rows.bit_length() - 1  # every 2^(BITS - depth)-th place is taken; between some of them, so is the middle
    more = rows - (1 << depth)

    def before(slot: int) -> int:
        return slot + rows_below(more, slot, depth)

    first = bisect_right(range(1 << depth), start, key=before) - 1
    slots = np.arange(first, min(1 << depth, first + stop - start + 1), dtype=np.int64)
    middles = _turned(slots, depth) < more
    width = BITS - depth
    listed: NDArray[np.int64] = np.sort(np.concatenate([slots << width, (slots[middles] << width) + (1 << width - 1)]))
    skipped = start - before(first)
    return [int(place) for place in listed[skipped : skipped + stop - start]]


def _turned(numbers: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """The numbers with so many bits turned round."""
    found = np.zeros_like(numbers)
    for bit in range(bits):
        found |= (numbers >> bit & 1) << bits - 1 - bit
    return found


@dataclass(frozen=True, kw_only=True)
class Split:
    """One quantile of several, and the part it is drawn on.

    Attributes:
        index: of the quantile.
        level: of the draw, from 0.
        after, until: the quantiles whose cuts end the part; None: the end of the grid.
        ends: no quantile is drawn on its sides.
    """

    index: int
    level: int
    after: int | None
    until: int | None
    ends: bool


def split_quantiles(quantiles: Sequence[Fraction]) -> list[Split]:
    """The order in which quantiles are drawn, by levels: the middle one first. The extremes, 0 and 1, come last.

    Args:
        quantiles: ascending, each once, in [0, 1].
    """
    found: list[Split] = []

    def split(first: int, last: int, level: int, after: int | None, until: int | None) -> None:
        if first >= last:
            return
        inner = [i for i in range(first, last) if 0 < quantiles[i] < 1]
        index = inner[len(inner) // 2] if inner else first
        found.append(Split(index=index, level=level, after=after, until=until, ends=last - first == 1))
        split(first, index, level + 1, after, index)
        split(index + 1, last, level + 1, index, until)

    split(0, len(quantiles), 0, None, None)
    return sorted(found, key=lambda s: (s.level, s.index))


def rank_bound(aim: Aim, level: float = 0.95) -> float:
    """How far a drawn cell is from the rank that is aimed at, rows, with that probability whatever the data."""
    return math.log(aim.cells / (1 - level)) / float(aim.rate)

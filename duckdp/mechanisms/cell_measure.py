"""A public measure of the cells of a grid, for the exponential mechanism: round numbers weigh more than others.

A cell counts 1, and for each level of round numbers that it has one of, ``weight`` more. A level's numbers are the
multiples of a power of ten within the bounds; all of them together weigh about as much as all cells do. So what
people round to (thousands, tenths) is as likely to be drawn as the gap beside it, however fine the grid is: without, a
cell that a hundred tied rows share counts no more than each of the millions of empty cells around it.

Privacy:      the measure follows from bounds and grid alone, so log-chances move as without it (exponential_quantiles).
Assumes:      nothing of the data. Where no value is round, a draw is off by at most log(levels + 1) / rate more.
Proof sketch: a chance is measure(c) exp(-rate d_c) / sum: between neighbours the first factor does not move.
Numerics:     integers alone. A round number is in the cell that its exact quotient is rounded to; floats may round a
              value at a cell's end otherwise, which takes a round number's weight away from it, and nothing else.
Source:       ours; "base measure" in McSherry, Talwar, FOCS 2007.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm

LEAST_ROUND = (
    500  # numbers of the coarsest level: coarser ones would draw medians to them from afar (docs/benchmarks.md)
)
LEAST_CELLS = 4  # for each number of a level: of finer ones nearly every cell has one


@dataclass(frozen=True, kw_only=True)
class RoundNumbers:
    """The multiples of a power of ten within bounds.

    Attributes:
        exponent: of ten.
        first: the first multiple is so many times the power.
        count: how many there are.
        weight: of each, in cells.
    """

    exponent: int
    first: int
    count: int
    weight: int

    @property
    def step(self) -> Fraction:
        """The power of ten as a fraction, exactly."""
        return Fraction(10) ** self.exponent


@dataclass(frozen=True, kw_only=True)
class CellMeasure:
    """The measure; the module says of what.

    Attributes:
        steps: the last cell; that of a value v is (v - lower) steps / (upper - lower), rounded.
        lower, upper: bounds of the values.
        plain: all cells count 1.
    """

    steps: int
    lower: Fraction
    upper: Fraction
    plain: bool = False

    @cached_property
    def levels(self) -> tuple[RoundNumbers, ...]:
        """Levels of round numbers, coarse ones first; none where cells are few."""
        cells, found = self.steps + 1, []
        exponent = len(str(int(self.upper - self.lower))) + 1
        while not self.plain and self.upper > self.lower:
            step = Fraction(10) ** exponent
            first, last = -(-self.lower // step), self.upper // step
            count = last - first + 1
            if count * LEAST_CELLS > cells:
                break
            if count >= LEAST_ROUND:
                found.append(RoundNumbers(exponent=exponent, first=first, count=count, weight=cells // count))
            exponent -= 1
        return tuple(found)

    @cached_property
    def total(self) -> int:
        """What all cells count together, where the least of them counts 1."""
        return self.below(self.steps + 1)

    @cached_property
    def _terms(self) -> list[tuple[int, int, int, int, int, int]]:
        """Integers of each level, so that (x a + b) // c is how many of its numbers are in cells below x, and first."""
        width, found = (self.upper - self.lower) / max(1, self.steps), []
        for level in self.levels:
            of = lcm(2 * self.lower.denominator, 2 * width.denominator, level.step.denominator)
            a, b, c = int(width * of), int((self.lower - width / 2) * of), int(level.step * of)
            found.append((a, b, c, level.first, level.count, level.weight))
        return found

    def below(self, cell: int) -> int:
        """What all cells before one count together; those beyond the last count 1."""
        found = cell
        for a, b, c, first, count, weight in self._terms:
            found += weight * min(max(-(-(cell * a + b) // c) - first, 0), count)
        return found

    def at(self, cell: int) -> int:
        """What one cell counts, round numbers and all."""
        return self.below(cell + 1) - self.below(cell)

    def cell_of(self, amount: int) -> int:
        """The cell with ``below(cell) <= amount < below(cell + 1)``."""
        return bisect_right(range(self.steps + 2), amount, key=self.below) - 1

    def roundest(self, cell: int) -> Fraction | None:
        """The roundest number in a cell, if there is one."""
        for level, (a, b, c, first, count, _) in zip(self.levels, self._terms, strict=True):
            place = min(max(-(-(cell * a + b) // c) - first, 0), count)
            if place < min(max(-(-((cell + 1) * a + b) // c) - first, 0), count):
                return (first + place) * level.step
        return None


@dataclass(frozen=True)
class PlaceMeasure:
    """The measure of places within cells: each place counts as its cell.

    Attributes:
        cells: the measure of cells.
        places: of each cell.
    """

    cells: CellMeasure
    places: int

    def below(self, place: int) -> int:
        """What all places before one count together."""
        cell, within = divmod(place, self.places)
        before = self.cells.below(cell)
        return before * self.places + (within * (self.cells.below(cell + 1) - before) if within else 0)

    def cell_of(self, amount: int) -> int:
        """The place with ``below(place) <= amount < below(place + 1)``."""
        cell = self.cells.cell_of(amount // self.places)
        before = self.cells.below(cell)
        return cell * self.places + (amount - before * self.places) // self.cells.at(cell)

"""mechanisms/cell_measure.py: what cells count, against numbers one by one; the loss and the law of draws by it."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from math import floor
from typing import Any

import pytest
from scipy import stats

from duckdp.mechanisms.cell_measure import LEAST_CELLS, LEAST_ROUND, CellMeasure, PlaceMeasure
from duckdp.mechanisms.exponential_quantiles import (
    PLACES,
    Aim,
    Part,
    cell_segments,
    cut_segments,
    draw_cell,
    draw_cut,
    weigh,
)
from tests.mechanisms.test_quantiles import change, part_of

BOUNDS = [
    ("0", "1000000", 2**32),
    ("-3", "517", 520),
    ("0", "1000", 2**16),
    ("0.1", "0.7", 2**14),
    ("-1", "4000", 4001),
]


def measure_of(lower: str, upper: str, steps: int, *, plain: bool = False) -> CellMeasure:
    return CellMeasure(steps=steps, lower=Fraction(lower), upper=Fraction(upper), plain=plain)


@pytest.mark.parametrize(("lower", "upper", "steps"), BOUNDS)
def test_cells_count_what_their_round_numbers_count(lower: str, upper: str, steps: int) -> None:
    measure, rng = measure_of(lower, upper, steps), random.Random(steps)
    span = measure.upper - measure.lower
    weights: Counter[int] = Counter()
    for level in measure.levels:
        assert LEAST_ROUND <= level.count <= (steps + 1) // LEAST_CELLS
        assert 0.5 * (steps + 1) < level.weight * level.count <= steps + 1
        assert measure.lower <= level.first * level.step < measure.lower + level.step
        assert measure.upper - level.step < (level.first + level.count - 1) * level.step <= measure.upper
        few = range(level.count) if level.count <= 2_000 else rng.sample(range(level.count), 60)
        for i in few:
            value = (level.first + i) * level.step
            cell = floor((value - measure.lower) * steps / span + Fraction(1, 2))
            assert measure.at(cell) > level.weight
            assert measure.roundest(cell) is not None
            if level.count <= 2_000:
                weights[cell] += level.weight
    if all(level.count <= 2_000 for level in measure.levels):
        for cell in [*rng.sample(range(steps + 1), min(steps, 200)), *list(weights)[:200], steps]:
            assert measure.at(cell) == 1 + weights[cell]
        assert measure.total == steps + 1 + sum(weights.values())
    for cell in rng.sample(range(steps + 1), 40):
        assert measure.cell_of(measure.below(cell)) == cell == measure.cell_of(measure.below(cell + 1) - 1)
        place = cell * PLACES + rng.choice([0, 1, rng.randrange(PLACES), PLACES - 1])
        places = PlaceMeasure(measure, PLACES)
        assert places.cell_of(places.below(place)) == place == places.cell_of(places.below(place + 1) - 1)
    assert measure.below(0) == 0
    assert measure_of(lower, upper, steps, plain=True).total == steps + 1


def test_the_roundest_number_of_a_cell_is_told() -> None:
    measure = measure_of("0", "1000000", 2**32)
    for told in ("41000", "41100", "0.5", "999999", "0", "1000000"):
        cell = floor(Fraction(told) * 2**32 / 10**6 + Fraction(1, 2))
        assert measure.roundest(cell) == Fraction(told)
    assert measure.roundest(floor(Fraction("41000.0005") * 2**32 / 10**6)) is None
    assert not measure_of("0", "110", 110).levels  # whole numbers that are few
    assert not measure_of("0", "0", 1).levels


MEASURE = measure_of("0", "1000", 2**13)
AIM = Aim(a=1, b=2, epsilon=Fraction(1), unit=1, cells=MEASURE.total)
FAR = tuple(floor(Fraction(v) * 2**13 / 1000 + Fraction(1, 2)) for v in (7, Fraction("7.3"), 640, Fraction("640.2")))


class Leaning(CellMeasure):
    """A twin: what a cell counts follows from a row."""

    def below(self, cell: int) -> int:
        return 2 * super().below(cell) - min(cell, FAR[1])


def test_the_loss_is_that_without_a_measure() -> None:
    worst = twin = 0.0
    for b in (2, 5):
        aim = Aim(a=1, b=b, epsilon=Fraction(1), unit=1, cells=MEASURE.total)
        for rows in ([0] * 30 + [3] * 30, [0] * 30 + [2] * 30, [1] * 40, [0] * 9 + [1] * 9 + [2] * 20, []):
            for more, segments, of in (
                (m, s, o)
                for m in range(4)
                for s, o in ((cell_segments, MEASURE), (cut_segments, PlaceMeasure(MEASURE, PLACES)))
            ):
                sides = [[FAR[v] for v in values] for values in (rows, [*rows, more])]
                laws = [
                    weigh(*segments(part_of(v, high=(2**13 + 1) * PLACES), aim), aim, of)  # type: ignore[arg-type]
                    for v in sides
                ]
                worst = max(worst, change(*laws))
                if of is MEASURE:
                    leaning = Leaning(steps=2**13, lower=MEASURE.lower, upper=MEASURE.upper)
                    moved = weigh(*cell_segments(part_of(sides[1], high=(2**13 + 1) * PLACES), aim), aim, leaning)
                    twin = max(twin, change(laws[0], moved))
    assert 0.9 < worst <= 1 + 1e-9
    assert twin > 1.1


def chance_below(limit: int, segments: Any, part: Part, measure: Any) -> float:
    """Of a candidate before one."""
    found, last = segments(part, AIM)
    weighed = weigh(found, last, AIM, measure)
    ends = [*(start for start, *_ in weighed[1:]), last + 1]

    def below(candidate: int) -> int:
        return candidate if measure is None else int(measure.below(candidate))

    parts = [
        (below(min(end, limit)) - below(min(start, limit))) * weight
        for (start, _, weight), end in zip(weighed, ends, strict=True)
    ]
    return sum(parts) / sum(count * weight for _, count, weight in weighed)


def test_draws_follow_measure_and_distance() -> None:
    """Of cells and cuts near a tie at a round number and one beside it; plain chances are refused by the same test."""
    part = part_of([FAR[0]] * 60 + [FAR[1]] * 20 + [FAR[2]] * 40, high=(2**13 + 1) * PLACES)
    cells = [draw_cell(part, AIM, MEASURE) for _ in range(1_000)]
    cuts = [draw_cut(part, AIM, MEASURE) for _ in range(60)]
    limit = FAR[0] + 1
    for drawn, end, segments, of in (
        (cells, limit, cell_segments, MEASURE),
        (cuts, limit * PLACES, cut_segments, PlaceMeasure(MEASURE, PLACES)),
    ):
        for measure in (of, None) if of is MEASURE else (of,):
            chance = chance_below(end, segments, part, measure)
            seen = sum(candidate < end for candidate in drawn)
            follows = 1e-9 < stats.binom.cdf(seen, len(drawn), chance) < 1 - 1e-9
            assert follows == (measure is not None), (seen, chance)

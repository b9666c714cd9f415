"""mechanisms/exponential_quantiles.py: its loss between small neighbours, the law of its draws, how far a rank is."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest
from scipy import stats

from duckdp.mechanisms import exponential_quantiles as mechanism
from duckdp.mechanisms.exponential_quantiles import (
    BITS,
    PLACES,
    Aim,
    Part,
    cell_segments,
    cut_segments,
    draw_cell,
    draw_cut,
    places_of,
    rank_bound,
    rows_below,
    split_quantiles,
    weigh,
)
from tests.privacy.statistics import fits

CELLS, DRAWS = 4, 2_000
AIMS = {"median": (1, 2, 0), "fifth": (1, 5, 0), "high": (4, 5, 0), "least": (0, 2, 2), "largest": (2, 2, 1)}
Law = list[tuple[int, int, int]]


def turned(number: int) -> int:
    return int(format(number, f"0{BITS}b")[::-1], 2)


def part_of(values: Sequence[int], low: int = 0, high: int = CELLS * PLACES) -> Part:
    """The part between two cuts of rows with these cells, told from their places one by one."""
    counts = Counter(values)
    places = [cell * PLACES + turned(i) for cell, rows in counts.items() for i in range(rows)]
    runs = [(cell, sum(v < cell for v in values), rows) for cell, rows in counts.items()]
    return Part(low=low, high=high, below=sum(p < low for p in places), upto=sum(p < high for p in places), runs=runs)


def aim_of(name: str, epsilon: float = 1, unit: int = 1, cells: int = CELLS) -> Aim:
    a, b, inward = AIMS[name]
    return Aim(a=a, b=b, inward=inward, epsilon=Fraction(epsilon), unit=unit, cells=cells)


def law(part: Part, aim: Aim, *, cut: bool) -> Law:
    return weigh(*(cut_segments if cut else cell_segments)(part, aim), aim)


def change(one: Law, other: Law) -> float:
    """Largest change of a log-chance from one law to another, over all candidates."""
    total = [sum(count * weight for _, count, weight in each) for each in (one, other)]
    starts = [[start for start, _, _ in each] for each in (one, other)]
    found = 0.0
    for at in {start for each in (one, other) for start, count, _ in each if count}:
        here, there = (each[bisect_right(s, at) - 1][2] for each, s in zip((one, other), starts, strict=True))
        found = max(found, abs(math.log(here) - math.log(there) - math.log(total[0]) + math.log(total[1])))
    return found


def small_tables() -> Iterator[tuple[int, ...]]:
    for size in range(5):
        yield from combinations_with_replacement(range(CELLS), size)
    for low, high in ((30, 30), (12, 48), (48, 12), (0, 25), (25, 0)):
        yield from (
            (0,) * low + (3,) * high,
            (1,) * low + (2,) * high,
            (0,) * low + (1,) * high,
            (2,) * low + (3,) * high,
        )


def loss(name: str, *, cut: bool, epsilon: float = 1) -> float:
    """The largest, on a grid of which two cells stand far from the other two."""
    far = (0, 1, 10**6, 10**6 + 1)
    aim = aim_of(name, epsilon, cells=far[-1] + 1)

    def of(values: Sequence[int]) -> Law:
        return law(part_of([far[v] for v in values], high=aim.cells * PLACES), aim, cut=cut)

    return max(change(of(values), of((*values, more))) for values in small_tables() for more in range(CELLS))


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("name", AIMS)
def test_the_loss_is_at_most_what_is_claimed(name: str, cut: bool) -> None:
    assert 0.99 < loss(name, cut=cut) <= 1 + 1e-9
    assert loss(name, cut=cut, epsilon=1.25) > 1  # the broken twin


@pytest.mark.parametrize("cut", [False, True])
def test_twin_whose_aim_does_not_bound_its_rate_is_caught(cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Aim, "rate", property(lambda aim: aim.epsilon / aim.unit))
    assert loss("median", cut=cut) <= 1 + 1e-9
    assert loss("fifth", cut=cut) > 1.2


FAR = (0, 10**6, 2 * 10**6, 2 * 10**6 + 1)


def level_loss(values: Sequence[int], unit: Sequence[int], cut: tuple[int, int], *, shared: bool = False) -> float:
    """What a unit loses by both draws beside a cut; a broken twin gives rows of the cut's cell to both parts."""
    aim = aim_of("median", unit=len(unit), cells=FAR[-1] + 1)
    at, end = FAR[cut[0]] * PLACES + cut[1], aim.cells * PLACES
    sides = ((0, at), (at, end))
    if shared:
        sides = ((0, (FAR[cut[0]] + 1) * PLACES), (FAR[cut[0]] * PLACES, end))
    laws = [
        [law(part_of([FAR[v] for v in rows], *side), aim, cut=way) for rows in (values, (*values, *unit))]
        for side, way in zip(sides, (False, True), strict=True)
    ]
    return sum(change(one, other) for one, other in laws)


def test_a_unit_with_rows_in_both_parts_of_a_level_loses_one_charge() -> None:
    rng = random.Random(3)
    cuts = [(1, 0), (2, 0), (1, PLACES // 2), (1, 3 * PLACES // 8 + 1), (3, 1)]
    rows = [(), (0,) * 20 + (1,) * 40 + (2,) * 20, (1,) * 30, (0,) * 9 + (3,) * 9]
    worst = twin = 0.0
    for values in [*rows, *(tuple(rng.choices(range(4), k=20)) for _ in range(3))]:
        for cut, unit in product(cuts, [(1,), (1, 1), (0, 2), (1, 3), (2, 2, 1)]):
            worst = max(worst, level_loss(values, unit, cut))
            twin = max(twin, level_loss(values, unit, cut, shared=True))
    assert 0.9 < worst <= 1 + 1e-9
    assert twin > 1.1


def test_a_row_more_is_a_place_more() -> None:
    """Of all rows with one value, and told as fast as it is read."""
    for rows in (*range(1, 40), 1000):
        places = sorted(turned(i) for i in range(rows))
        assert places_of(rows, 0, rows) == places
        for at in {*places[:: max(1, rows // 9)], *(p + 1 for p in places[-3:]), PLACES - 1, PLACES}:
            assert rows_below(rows, at) == sum(p < at for p in places)
        assert places_of(rows, rows // 3, rows // 2) == places[rows // 3 : rows // 2]
    assert len(places_of(10**9, 5 * 10**8, 5 * 10**8 + 99)) == 99


def counted_law(part: Part, aim: Aim, names: Callable[[int], int], *, cut: bool) -> dict[int, float]:
    """Chances of names of candidates that are constant between the points of the law."""
    found: dict[int, float] = {}
    weighed = law(part, aim, cut=cut)
    total = sum(count * weight for _, count, weight in weighed)
    for start, count, weight in weighed:
        if count:
            found[names(start)] = found.get(names(start), 0.0) + count * weight / total
    return found


@pytest.mark.parametrize("name", AIMS)
def test_distances_are_those_of_ranks_and_below_0_among_them(name: str) -> None:
    """From the values one by one; who has the rank deep inside weighs more than at its end."""
    rng, aim, deep = random.Random(7), aim_of(name, cells=12), 0
    for _ in range(60):
        values = sorted(rng.choices(range(12), k=rng.randint(0, 40), weights=[rng.random() ** 3 for _ in range(12)]))
        inward = min(Fraction(aim.inward), Fraction(len(values), 2))
        goal = Fraction(aim.a * len(values), aim.b) + (inward if aim.a == 0 else -inward)
        base = aim.weigher().weight(0)
        for start, count, weight in law(part_of(values, high=12 * PLACES), aim, cut=False):
            for cell in range(start, start + count):
                below, upto = sum(v < cell for v in values), sum(v <= cell for v in values)
                off = max(below - goal, goal - upto)
                assert math.log(weight / base) == pytest.approx(-float(aim.rate * off), abs=1e-9)
                deep += off < -1
    assert deep > 5 or name in ("least", "largest")  # which aim near an end


@pytest.mark.parametrize("name", AIMS)
def test_cells_follow_the_law(name: str) -> None:
    values = [0] * 3 + [1] * 5 + [3] * 2 + [9] * 3
    part = part_of(values, high=12 * PLACES)
    draws = Counter(draw_cell(part, aim_of(name, cells=12)) for _ in range(DRAWS))

    def follows(epsilon: float) -> bool:
        total, chances = 0, [0] * 12
        for start, count, weight in law(part, aim_of(name, epsilon, cells=12), cut=False):
            for cell in range(start, start + count):
                chances[cell], total = weight, total + weight
        expected = [DRAWS * c / total for c in chances]
        return fits(float(stats.chisquare([draws[c] for c in range(12)], expected).pvalue))

    assert follows(1)
    assert not follows(0.5)  # the broken twins
    assert not follows(2)


def test_a_scale_of_four_fifths_or_five_fourths_is_seen() -> None:
    part = part_of([0] * 30 + [1] * 3 + [2] * 3 + [3] * 30)
    draws = Counter(draw_cell(part, aim_of("median", 0.5)) for _ in range(6 * DRAWS))
    for scale, right in ((1.0, True), (0.8, False), (1.25, False)):
        expected = counted_law(part, aim_of("median", 0.5 * scale), lambda cell: cell, cut=False)
        observed = [draws[c] for c in range(CELLS)]
        cells = [6 * DRAWS * expected[c] for c in range(CELLS)]
        assert fits(float(stats.chisquare(observed, cells).pvalue)) == right, scale


def test_cuts_follow_the_law() -> None:
    part = part_of([0] * 6 + [1] * 11 + [3] * 4)
    for scale, right in ((1.0, True), (0.6, False), (1.7, False)):
        weighed = law(part, aim_of("median", scale), cut=True)
        total = sum(count * weight for _, count, weight in weighed)
        starts, big = [w[0] for w in weighed], [i for i, w in enumerate(weighed) if w[1] * w[2] * 400 > total]
        if right:
            drawn = [bisect_right(starts, draw_cut(part, aim_of("median"))) - 1 for _ in range(DRAWS)]
        seen = Counter(drawn)
        rest = 1 - sum(weighed[i][1] * weighed[i][2] for i in big) / total
        expected = [DRAWS * weighed[i][1] * weighed[i][2] / total for i in big] + [DRAWS * rest]
        observed = [seen[i] for i in big] + [DRAWS - sum(seen[i] for i in big)]
        assert fits(float(stats.chisquare(observed, expected).pvalue)) == right, scale


def test_the_rank_is_within_its_bound() -> None:
    """On rows as hard as they get: all but one cell just farther than the bound."""
    aim = aim_of("median", 0.5, cells=1000)
    far = math.floor(rank_bound(aim)) + 1
    part = part_of([500] * 2 * far, high=1000 * PLACES)
    missed = sum(draw_cell(part, aim) != 500 for _ in range(600))
    assert stats.binom.sf(missed - 1, 600, 0.05) > 1e-9
    near = part_of([500] * (far // 2), high=1000 * PLACES)  # the bound is no larger than it needs to be
    assert sum(draw_cell(near, aim) != 500 for _ in range(100)) > 50


def test_the_middle_one_comes_first_and_the_ends_last() -> None:
    found = split_quantiles([Fraction(i, 10) for i in (0, 1, 3, 5, 7, 9, 10)])
    assert [(s.index, s.level, s.after, s.until) for s in found][:3] == [
        (3, 0, None, None),
        (2, 1, None, 3),
        (5, 1, 3, None),
    ]
    assert max(s.level for s in found) == 3
    assert sorted(s.index for s in found) == list(range(7))
    for count in (1, 2, 3, 7, 8, 100):
        levels = split_quantiles([Fraction(i, count + 1) for i in range(1, count + 1)])
        assert max(s.level for s in levels) == count.bit_length() - 1


def test_the_number_of_draws_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = mechanism.random_bits
    monkeypatch.setattr(mechanism, "random_bits", lambda n: asked.append(n) or real(n))
    for values in ((), (0,) * 500, (0, 1, 2, 3)):
        asked.clear()
        draw_cell(part_of(values), aim_of("median"))
        draw_cut(part_of(values), aim_of("fifth"))
        draw_cut(part_of(values, 5, 5), aim_of("fifth"))
        assert asked == [640] * 3

"""Mean, median and centre of attention of blocks: what neighbours cost by brute force, the laws of draws, utility."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, pairwise

import pytest
from scipy import stats

from duckdp.core.types import NANO
from duckdp.mechanisms.block_mean import BlockMean
from duckdp.mechanisms.block_median import BlockMedian
from duckdp.mechanisms.center_of_attention import CenterOfAttention
from tests.privacy.statistics import chi_square_p, fits

DRAWS = 4_000
Values = tuple[int, ...]


def neighbours(cells: int, size: int, changed: int) -> Iterator[tuple[Values, Values]]:
    """Every pair of multisets of so many values that differ in at most ``changed`` of them."""
    for kept in combinations_with_replacement(range(cells + 1), size - changed):
        for one in combinations_with_replacement(range(cells + 1), changed):
            for other in combinations_with_replacement(range(cells + 1), changed):
                yield (*kept, *one), (*kept, *other)


# ---- the median


def median(epsilon: float, changed: int, cells: int) -> BlockMedian:
    return BlockMedian(epsilon_nano=round(epsilon * NANO), changed=changed, cells=cells)


def law(mechanism: BlockMedian, values: Sequence[int]) -> list[float]:
    """Chances of all cells, from the weights of the runs."""
    runs = mechanism.weights(values)
    total = sum(length * weight for _, length, weight in runs)
    found = {first + i: weight / total for first, length, weight in runs for i in range(length)}
    assert sorted(found) == list(range(mechanism.cells + 1))
    return [found[r] for r in range(mechanism.cells + 1)]


def loss(mechanism: BlockMedian, changed: int, size: int) -> float:
    chances = cache(lambda z: [math.log(p) for p in law(mechanism, z)])
    pairs = neighbours(mechanism.cells, size, changed)
    return max(a - b for z, other in pairs for a, b in zip(chances(z), chances(other), strict=True))


@pytest.mark.parametrize(("changed", "size"), [(1, 1), (1, 4), (1, 5), (2, 4), (2, 5)])
def test_the_loss_of_a_median_is_at_most_epsilon(changed: int, size: int) -> None:
    assert (0.5 if size > 1 else 0.3) < loss(median(1, changed, 4), changed, size) <= 1 + 1e-9
    assert loss(median(4, changed, 4), changed, size) > 1  # a quarter of the noise
    if changed == 2:
        assert loss(median(1, 1, 4), changed, size) > 1  # one of the two blocks is forgotten


def test_the_law_of_a_median_is_that_of_its_ranks() -> None:
    values, mechanism = (0, 2, 2, 5, 9), median(0.7, 1, 12)
    scores = [-max(sum(z < r for z in values), sum(z > r for z in values)) for r in range(13)]
    weights = [math.exp(0.35 * score) for score in scores]
    assert law(mechanism, values) == pytest.approx([w / sum(weights) for w in weights], rel=1e-12)


@pytest.mark.parametrize("values", [(3, 3, 3, 9), (0, 0, 3, 12), (7,)])
def test_draws_of_a_median_follow_its_law(values: Values) -> None:
    mechanism = median(1, 1, 12)
    counts = Counter(mechanism.release(values) for _ in range(DRAWS))

    def held(other: BlockMedian) -> bool:
        expected = [DRAWS * p for p in law(other, values)]
        return fits(float(stats.chisquare([counts[r] for r in range(13)], expected).pvalue))

    assert held(mechanism)
    if len(values) > 1:
        assert not held(median(2.5, 1, 12))
        assert not held(median(0.25, 1, 12))


def test_draws_of_a_median_tell_scales_apart() -> None:
    """At 0.8 and at 1.25 of epsilon another law would be seen."""
    values, mechanism = (0,) * 12 + (30,) * 12, median(1, 1, 30)
    counts = Counter(mechanism.release(values) for _ in range(5 * DRAWS))
    skewed = (0,) * 14 + (30,) * 10

    def p_value(sample: Counter[int], epsilon: float, z: Values) -> float:
        expected = [5 * DRAWS * p for p in law(median(epsilon, 1, 30), z)]
        merged = [
            (sample[0] + sample[30], expected[0] + expected[30]),
            *((sample[r], expected[r]) for r in range(1, 30)),
        ]
        return float(stats.chisquare([a for a, _ in merged], [b for _, b in merged]).pvalue)

    assert fits(p_value(counts, 1, values))
    drawn = Counter(mechanism.release(skewed) for _ in range(5 * DRAWS))
    assert fits(p_value(drawn, 1, skewed))
    assert not fits(p_value(drawn, 0.8, skewed))
    assert not fits(p_value(drawn, 1.25, skewed))


def test_ranks_of_a_median_hold() -> None:
    values, mechanism = tuple(range(0, 4000, 40)), median(2, 1, 4096)
    worse = mechanism.ranks(0.95)
    chances = law(mechanism, values)
    sides = [max(sum(z < r for z in values), sum(z > r for z in values)) for r in range(4097)]
    beyond = sum(p for p, side in zip(chances, sides, strict=True) if side > len(values) / 2 + worse)
    assert beyond <= 0.05
    assert sum(p for p, side in zip(chances, sides, strict=True) if side > len(values) / 2 + worse / 8) > 0.05


# ---- the mean


@pytest.mark.parametrize("changed", [1, 2])
def test_the_noise_of_a_mean_is_scaled_to_what_changes(changed: int) -> None:
    mechanism = BlockMean(epsilon_nano=NANO // 2, changed=changed, cells=4)
    most = max(abs(sum(z) - sum(other)) for z, other in neighbours(4, 3, changed))
    assert most / mechanism.noise.scale == pytest.approx(0.5, rel=1e-12)
    assert Fraction(most) / Fraction(mechanism.noise.scale) <= Fraction(1, 2)


def test_draws_of_a_mean_follow_its_law() -> None:
    mechanism = BlockMean(epsilon_nano=NANO, changed=1, cells=20)
    sample = [mechanism.release([3, 5, 20]) - 28 for _ in range(2 * DRAWS)]

    def below(scale: float) -> Callable[[int], float]:
        q = math.exp(-1 / scale)
        return lambda k: 1 - q ** (k + 1) / (1 + q) if k >= 0 else q**-k / (1 + q)

    assert fits(chi_square_p(sample, below(20)))
    assert not fits(chi_square_p(sample, below(16)))
    assert not fits(chi_square_p(sample, below(25)))


# ---- the centre of attention


def center(changed: int, cells: int = 6, epsilon: float = 1) -> CenterOfAttention:
    return CenterOfAttention(epsilon_nano=round(epsilon * NANO), changed=changed, cells=cells)


def plain(z: Values, *, cells: int, changed: int, inner: int, decay: float, far: int) -> tuple[int, float]:
    """The definition, term by term; ``inner`` values within the range, and the next width ``far`` steps away."""
    z, m = tuple(sorted(z)), len(z)

    def width(k: int) -> int:
        return min(z[i + k - 1] - z[i] for i in range(m - k + 1)) if k <= m else cells

    places = [z[i] + z[i + inner - 1] for i in range(m - inner + 1) if z[i + inner - 1] - z[i] == width(inner)]
    terms = [
        math.exp(-decay * k) * (width(inner + k * changed) + width(inner + (k + far) * changed))
        for k in range(2 * m + 4)
    ]
    return (places[0] if inner <= m else cells), max(terms)


def violations(changed: int, size: int, cells: int, epsilon: float = 1, **broken: int) -> int:
    """Pairs of neighbours whose centres are farther apart than S says, or whose S differ by more than e^beta."""
    mechanism = center(changed, cells, epsilon)
    inner, decay = (size + changed) // 2 + 1, mechanism.smooth.decay
    terms = {"inner": inner, "far": 1, **broken}
    found = cache(lambda z: plain(z, cells=cells, changed=changed, decay=decay, **terms))
    if not broken:
        for z in combinations_with_replacement(range(cells + 1), size):
            assert found(z) == pytest.approx(mechanism.center(z), rel=1e-13)
    wrong = 0
    for z, other in neighbours(cells, size, changed):
        (g, s), (g_other, s_other) = found(tuple(sorted(z))), found(tuple(sorted(other)))
        wrong += abs(g - g_other) > min(s, s_other) or s > math.exp(decay) * s_other * (1 + 1e-12)
    return wrong


@pytest.mark.parametrize(("changed", "size"), [(1, 1), (1, 2), (1, 4), (1, 5), (2, 2), (2, 4), (2, 5)])
def test_centers_of_neighbours_are_within_a_smooth_bound(changed: int, size: int) -> None:
    assert violations(changed, size, 4) == 0
    assert violations(changed, size, 4, epsilon=5) == 0


@pytest.mark.parametrize(("changed", "size"), [(1, 5), (2, 5), (2, 6)])
def test_twins_of_the_center_are_caught(changed: int, size: int) -> None:
    inner = (size + changed) // 2 + 1
    assert violations(changed, size, 4, inner=inner - 1)  # ranges that need not meet
    assert violations(changed, size, 4, epsilon=5, far=0)  # both ranges as wide as one's own


def test_the_bound_of_a_center_follows_its_values() -> None:
    mechanism = center(1, cells=2**32)
    close = [2**31 + i for i in range(200)]
    g, s = mechanism.center([*close, *[2**32] * 20])
    assert abs(g / 2 - 2**31 - 100) < 100
    assert s < 800  # a fifth of them far away moves it by little
    assert mechanism.center([0] * 100 + [2**32] * 100)[1] > 2**31


def test_a_center_is_near_where_values_agree() -> None:
    mechanism = center(2, cells=2**32, epsilon=2)
    found = [mechanism.release([2**30 + i for i in range(400)]) for _ in range(40)]
    assert sum(abs(g / 2 - 2**30) < 10**5 for g in found) >= 35
    assert all(0 <= g <= 2**33 for g in found)


def test_widths_are_enough_for_every_term() -> None:
    """The terms that are computed end where both widths are all cells: the rest fall."""
    for changed in (1, 2):
        for size in range(1, 30):
            inner = (size + changed) // 2 + 1
            places = list(range(inner, max(inner, size) + 2 * changed + 1, changed))
            assert any(near > size for near, _ in pairwise(places))

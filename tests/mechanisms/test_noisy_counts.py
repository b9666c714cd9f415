"""mechanisms/noisy_counts.py: its loss between small neighbours from exact laws, its draws, how far it falls short."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import permutations, product

import numpy as np
import pytest
from scipy import stats

from duckdp.core.accountant import epsilon_for
from duckdp.core.errorbars import Noise
from duckdp.core.types import ATTO, NANO
from duckdp.errors import ParameterError
from duckdp.mechanisms.noisy_counts import NoisyCounts, choose_way
from duckdp.mechanisms.top_k import TopK
from tests.privacy.statistics import fits

List = tuple[int, ...]


def made(
    picks: int = 2, groups: int = 1, *, candidates: int = 3, delta: float = 0, monotone: bool = True
) -> NoisyCounts:
    return NoisyCounts(
        picks=picks,
        candidates=candidates,
        groups=groups,
        epsilon_nano=NANO,
        delta_atto=round(delta * ATTO),
        monotone=monotone,
    )


def law(scores: Sequence[int], noise: Noise, picks: int) -> dict[List, float]:
    """Chances of every list, from the noise of three counts together."""
    reach = math.ceil(10 * noise.scale)
    z = np.arange(-reach, reach + 1)
    one = np.exp(-np.abs(z) / noise.scale if noise.family == "laplace" else -(z**2) / (2 * noise.scale**2))
    one /= one.sum()
    noisy = np.stack([s + g.ravel() for s, g in zip(scores, np.meshgrid(z, z, z, indexing="ij"), strict=True)])
    chance = np.einsum("i,j,k->ijk", one, one, one).ravel()
    first = np.argsort(-noisy, axis=0, kind="stable")[:picks]
    code = sum(part * 3**i for i, part in enumerate(first))
    total = np.bincount(np.asarray(code), weights=chance, minlength=3**picks)
    return {way: float(total[sum(c * 3**i for i, c in enumerate(way))]) for way in permutations(range(3), picks)}


def neighbours(groups: int, monotone: bool) -> Iterator[tuple[List, List]]:
    """Counts, and those that a unit with so many candidates changes."""
    for scores in ((2, 2, 2), (0, 3, 1))[: 2 if monotone else 1]:
        for gone in product((0, 1), repeat=3):
            for came in ((0, 0, 0),) if monotone else product((0, 1), repeat=3):
                if sum(gone) == groups and sum(came) in (0, groups):
                    yield scores, tuple(s - g + c for s, g, c in zip(scores, gone, came, strict=True))


def worst(one: NoisyCounts, noise: Noise, epsilon: float) -> float:
    """The least delta for which all neighbours are within e^epsilon."""
    found = 0.0
    for scores, other in neighbours(one.groups, one.monotone):
        laws = [law(part, noise, one.picks) for part in (scores, other)]
        for a, b in (laws, laws[::-1]):
            found = max(found, sum(max(0.0, p - math.exp(epsilon) * b[way]) for way, p in a.items()))
    return found


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("groups", [1, 2])
def test_pure_lists_are_within_epsilon(groups: int, monotone: bool) -> None:
    one = made(groups=groups, monotone=monotone)
    assert one.is_pure
    assert worst(one, one.noise, 1.0) < 1e-4  # what is beyond the laws' reach
    assert worst(one, Noise("laplace", one.noise.scale / 4), 1.0) > 1e-2  # the twin: a quarter of the noise


def test_gaussian_lists_are_within_epsilon_and_delta() -> None:
    one = made(groups=2, delta=0.02)
    gaussian = Noise("gaussian", math.sqrt(one.moved / (2 * one._rho * 1e-12)))
    assert worst(one, gaussian, 1.0) <= 0.02
    assert worst(one, Noise("gaussian", gaussian.scale / 5), 1.0) > 0.02
    wide = made(20, 50, candidates=100, delta=1e-6)
    assert not wide.is_pure
    assert wide.loss.delta_atto == wide.delta_atto
    assert epsilon_for(wide.loss.rho_pico, wide.delta_atto) <= NANO
    assert wide.noise.scale**2 * 2 * wide.loss.rho_pico * 1e-12 >= 50
    assert made(delta=1e-6).loss.delta_atto == 0  # spent only where it helps


def test_sensitivities_are_those_of_all_counts_together() -> None:
    """By brute force over the small neighbours."""
    for groups, monotone in product((1, 2), (True, False)):
        moves = [[abs(a - b) for a, b in zip(*pair, strict=True)] for pair in neighbours(groups, monotone)]
        assert max(sum(m) for m in moves) == made(groups=groups, monotone=monotone).moved or groups == 2
        assert max(sum(m) for m in moves) <= made(groups=groups, monotone=monotone).moved
        assert max(sum(x * x for x in m) for m in moves) <= made(groups=groups, monotone=monotone).moved


def test_draws_follow_the_law() -> None:
    one, scores, draws = made(groups=2), [3, 2, 0], 4_000
    seen = Counter(tuple(one.choose(scores)) for _ in range(draws))
    for factor, right in ((1.0, True), (0.5, False), (2.0, False)):
        expected = law(scores, Noise("laplace", one.noise.scale * factor), 2)
        chances = np.array(list(expected.values()))
        found = stats.chisquare([seen[w] for w in expected], draws * chances / chances.sum())
        assert fits(float(found.pvalue)) == right


@pytest.mark.parametrize(("groups", "delta"), [(1, 0.0), (30, 1e-6)])
def test_what_is_told_is_seldom_further_short_than_said(groups: int, delta: float) -> None:
    one = made(10, groups, candidates=40, delta=delta)
    assert one.is_pure == (not delta)
    scores = [round(i * one.shortfall() / 60) for i in range(40)]
    short = []
    for _ in range(300):
        left, far = set(range(40)), 0
        for place in one.choose(scores):
            far = max(far, max(scores[i] for i in left) - scores[place])
            left.remove(place)
        short.append(far)
    assert np.mean(np.array(short) > one.shortfall()) < 0.1
    assert max(short) > one.shortfall() / 8  # the twin: counts without noise are never short


def test_the_way_that_is_short_by_less_is_taken() -> None:
    """A pick is best picked; of many, where a unit has few values, noise is drawn once."""

    def way(picks: int, groups: int) -> object:
        one = made(picks, groups, candidates=40)
        top = TopK(picks=picks, candidates=40, epsilon_nano=NANO, delta_atto=0, monotone=True)
        found = choose_way(top, one)
        assert found.shortfall() == min(one.shortfall(), top.shortfall())
        return type(found)

    assert way(1, 1) is TopK
    assert way(10, 1) is NoisyCounts
    assert way(10, 40) is TopK
    assert choose_way(None, made()) == made()


def test_the_number_of_draws_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("duckdp.mechanisms.noisy_counts.laplace_noise", lambda n, _: asked.append(n) or [0] * n)
    for scores in ([0, 0, 0], [9, 9, 9], [5, 7, 6]):
        made().choose(scores)
    assert asked == [3, 3, 3]
    assert made().choose([5, 7, 6]) == [1, 2]
    with pytest.raises(ParameterError, match="P107"):
        made().choose([1])

"""mechanisms/top_k.py: its loss between all small neighbours from exact laws, the law of its draws, its shortfall."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import pytest
from scipy import stats

from duckdp.core.accountant import epsilon_for
from duckdp.core.types import ATTO, NANO
from duckdp.errors import ParameterError
from duckdp.mechanisms.exponential import exponential_weights
from duckdp.mechanisms.top_k import TopK
from tests.privacy.statistics import fits

DRAWS = 4_000
Pick = Callable[[Sequence[int], float], list[float]]
"""Chances of each score, from (scores, rate)."""


def top(picks: int, candidates: int, *, epsilon: float = 1, delta: int = 0, monotone: bool = True) -> TopK:
    return TopK(
        picks=picks,
        candidates=candidates,
        epsilon_nano=round(epsilon * NANO),
        delta_atto=delta,
        monotone=monotone,
    )


def exponential(scores: Sequence[int], rate: float) -> list[float]:
    weights = exponential_weights(scores, Fraction(rate))
    return [w / sum(weights) for w in weights]


def permute_and_flip(scores: Sequence[int], rate: float) -> list[float]:
    """The law of the largest sum with geometric noise, ties by a random order: every sum up to where none is left."""
    best, far = max(scores), math.ceil(40 / rate)
    chances = [0.0] * len(scores)

    def below(score: int, total: int) -> float:
        return 1 - math.exp(-rate * max(0, total - score)) if total > score else 0.0

    for total in range(best, best + far):
        at = [math.exp(-rate * (total - q)) * (1 - math.exp(-rate)) if total >= q else 0.0 for q in scores]
        under = [below(q, total) for q in scores]
        for ties in product((0, 1), repeat=len(scores)):
            chance = math.prod(a if tie else u for a, u, tie in zip(at, under, ties, strict=True))
            for i, tie in enumerate(ties):
                if tie:
                    chances[i] += chance / sum(ties)
    return chances


def law(scores: Sequence[int], picks: int, rate: float, pick: Pick) -> dict[tuple[int, ...], float]:
    """Chances of every sequence of picks."""
    if not picks:
        return {(): 1.0}
    found = {}
    for first, chance in enumerate(pick(scores, rate)):
        rest = [i for i in range(len(scores)) if i != first]
        for tail, more in law([scores[i] for i in rest], picks - 1, rate, pick).items():
            found[first, *(rest[i] for i in tail)] = chance * more
    return found


def neighbours(size: int, *, monotone: bool) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    moves = product((0, 1) if monotone else (-1, 0, 1), repeat=size)
    for move in moves:
        for scores in ((3,) * size, tuple(range(size)), (0, 5, 5)[:size], (9, 0, 1)[:size]):
            moved = [q + m for q, m in zip(scores, move, strict=True)]
            yield scores, moved
            yield moved, scores


def loss(picks: int, rate: float, pick: Pick, *, monotone: bool) -> float:
    """Largest change of a log-chance over all small neighbours."""
    return max(
        math.log(here[way]) - math.log(there[way])
        for one, other in neighbours(3, monotone=monotone)
        for here, there in [(law(one, picks, rate, pick), law(other, picks, rate, pick))]
        for way in here
    )


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("picks", [1, 2])
@pytest.mark.parametrize("pick", [permute_and_flip, exponential])
def test_the_loss_is_at_most_what_is_claimed(pick: Pick, picks: int, monotone: bool) -> None:
    share = float(top(picks, 3, monotone=monotone).share)
    rate = share if monotone else share / 2
    assert picks * share <= 1
    assert loss(picks, rate, pick, monotone=monotone) <= 1 + 1e-9
    # the broken twin: the rate of monotone scores for scores that move both ways
    assert loss(picks, share, pick, monotone=False) > 1.05


def test_an_exponential_pick_has_bounded_range() -> None:
    """Log-ratios lie in an interval as long as its epsilon: that is what costs epsilon^2 / 8 of zCDP."""
    for monotone, rate in ((True, 1.0), (False, 0.5)):
        for one, other in neighbours(3, monotone=monotone):
            pairs = zip(exponential(one, rate), exponential(other, rate), strict=True)
            ratios = [math.log(a) - math.log(b) for a, b in pairs]
            assert max(ratios) - min(ratios) <= 1 + 1e-9
    spread = [math.log(a) - math.log(b) for a, b in zip(exponential((0, 1), 1), exponential((1, 0), 1), strict=True)]
    assert max(spread) - min(spread) > 1.5  # the broken twin: scores that move both ways, at the monotone rate


@pytest.mark.parametrize("delta", [0, ATTO // 10**6])
@pytest.mark.parametrize("picks", [1, 3, 50])
@pytest.mark.parametrize("epsilon", [0.01, 1, 20])
def test_the_picks_cost_their_charge(picks: int, epsilon: float, delta: int) -> None:
    made = top(picks, 100, epsilon=epsilon, delta=delta)
    assert made.loss.epsilon_nano == round(epsilon * NANO)
    if made.is_pure:
        assert made.loss.delta_atto == 0
        assert Fraction(99, 100) * made.loss.epsilon < picks * made.share <= made.loss.epsilon
    else:
        rho = picks * made.share**2 / 8
        assert made.loss.delta_atto == delta
        assert Fraction(98, 100) * made.loss.rho < rho <= made.loss.rho
        assert epsilon_for(made.loss.rho_pico, delta) <= made.loss.epsilon_nano
        assert made.share > Fraction(made.loss.epsilon_nano // picks, NANO)


def follows(made: TopK, scores: Sequence[int], expected: dict[tuple[int, ...], float]) -> bool:
    counts = Counter(tuple(made.choose(scores)) for _ in range(DRAWS))
    ways = list(permutations(range(len(scores)), made.picks))
    return fits(float(stats.chisquare([counts[w] for w in ways], [DRAWS * expected[w] for w in ways]).pvalue))


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize(("delta", "pick"), [(0, permute_and_flip), (ATTO // 2, exponential)])
def test_draws_follow_the_law(delta: int, pick: Pick, monotone: bool) -> None:
    scores, made = [4, 3, 1], top(2, 3, epsilon=2, delta=delta, monotone=monotone)
    assert made.is_pure == (delta == 0)
    rate = float(made.share) / (1 if monotone else 2)
    assert follows(made, scores, law(scores, 2, rate, pick))
    for wrong in (0.6 * rate, 1.6 * rate):  # the broken twins
        assert not follows(made, scores, law(scores, 2, wrong, pick))


@pytest.mark.parametrize("delta", [0, ATTO // 2])
def test_the_shortfall_holds(delta: int) -> None:
    """On scores as hard as they get: one large, all others just far enough below to be a miss."""
    made = top(1, 400, epsilon=1, delta=delta)
    far = made.shortfall()
    scores = [0] * 399 + [far + 1]
    missed = sum(made.choose(scores) != [399] for _ in range(600))
    assert stats.binom.sf(missed - 1, 600, 0.05) > 1e-9
    near = [0] * 399 + [far // 3]  # the bound is no larger than it needs to be
    assert sum(made.choose(near) != [399] for _ in range(100)) > 20


def test_the_number_of_draws_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    from duckdp.mechanisms import exponential as one
    from duckdp.mechanisms import noisy_maximum as other

    asked: list[Any] = []
    for module in (one, other):
        real = module.random_bits
        monkeypatch.setattr(module, "random_bits", lambda n, real=real: asked.append(n) or real(n))
    for delta in (0, ATTO // 2):
        drawn = []
        for scores in ([0] * 5, [0, 10**9, 5, 7, 1]):
            asked.clear()
            top(3, 5, delta=delta).choose(scores)
            drawn.append(list(asked))
        assert drawn[0] == drawn[1] != []


def test_what_cannot_be_promised_is_refused() -> None:
    for picks, scores in ((4, [1, 2, 3]), (0, [1]), (1, [])):
        with pytest.raises(ParameterError, match="P107"):
            top(picks, 3).choose(scores)
    with pytest.raises(ParameterError, match="P101"):
        _ = TopK(picks=3, candidates=3, epsilon_nano=2, delta_atto=0, monotone=True).share

"""mechanisms/heavy_hitters.py: divergences of exact laws where keys are one side's own, law of draws."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import pytest
from scipy import stats

from duckdp.core.types import ATTO, NANO
from duckdp.errors import ParameterError
from duckdp.mechanisms import exponential as exponential_mechanism
from duckdp.mechanisms.heavy_hitters import HeavyHitters
from tests.mechanisms.test_top_k import Pick, exponential
from tests.privacy.statistics import fits

DRAWS = 1_600
List = tuple[str, ...]
Counts = dict[str, int]


def hitters(
    picks: int = 2, groups: int = 2, *, epsilon: float = 1, delta: float = 0.02, monotone: bool = True
) -> HeavyHitters:
    return HeavyHitters(
        picks=picks,
        groups=groups,
        epsilon_nano=round(epsilon * NANO),
        delta_atto=round(delta * ATTO),
        monotone=monotone,
    )


def peeled(counts: Counts, picks: int, tau: int, rate: float, pick: Pick) -> dict[List, float]:
    """Chances of every list, by peeling."""
    found: dict[List, float] = {}
    if not picks:
        return {(): 1.0}
    names = list(counts)
    chances = pick([*(counts[n] for n in names), tau], rate)
    found[()] = chances[-1]
    for name, chance in zip(names, chances, strict=False):
        rest = {n: c for n, c in counts.items() if n != name}
        for tail, more in peeled(rest, picks - 1, tau, rate, pick).items():
            found[name, *tail] = chance * more
    return found


def divergence(one: dict[List, float], other: dict[List, float], epsilon: float) -> float:
    """The least delta for which one is within e^epsilon of the other."""
    return sum(max(0.0, chance - math.exp(epsilon) * other.get(way, 0.0)) for way, chance in one.items())


def worst(picks: int, groups: int, pick: Pick, *, delta: float, monotone: bool, lower: int = 0) -> float:
    """Over small neighbours, of which one side or both have keys of their own."""
    made = hitters(picks, groups, delta=delta, monotone=monotone)
    share = 1 / picks
    rate = share if monotone else share / 2
    above = math.ceil(math.log(picks * groups / (delta if monotone else delta / 2)) / rate) - lower
    assert lower or made._above_picks == above + 1  # what is tried here is one less than what is done
    floor = 2
    tau, found = floor + above, 0.0
    own, others = {f"d{i}": floor for i in range(groups)}, {f"e{i}": floor for i in range(groups)}
    for common in ({}, {"a": tau}, {"a": tau + 1, "b": floor + 1}, {"a": tau + 3, "b": tau}):
        moved = {k: c - 1 for k, c in common.items()}
        laws = [
            peeled(each, picks, tau, rate, pick)
            for each in ({**common, **own}, moved if monotone else {**common, **others})
        ]
        found = max(found, divergence(*laws, 1.0), divergence(*reversed(laws), 1.0))
    return found


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize(("picks", "groups"), [(1, 1), (1, 3), (2, 1)])
@pytest.mark.parametrize("pick", [exponential])
def test_neighbours_are_within_epsilon_and_delta(pick: Pick, picks: int, groups: int, monotone: bool) -> None:
    delta = 0.05
    assert 0 < worst(picks, groups, pick, delta=delta, monotone=monotone) <= delta


def test_twins_of_threshold_are_caught() -> None:
    assert worst(1, 3, exponential, delta=0.05, monotone=True, lower=3) > 0.05


@pytest.mark.parametrize("monotone", [True, False])
def test_a_key_at_the_floor_is_told_within_delta(monotone: bool) -> None:
    """One unit makes it a key at all, as with one fewer it is none; the twin's threshold is for keys of one unit."""
    made = hitters(1, 8, delta=1e-8, monotone=monotone)
    assert not made.shot
    assert made.floor > 1

    def chance(tau: int) -> float:
        return made.picks * made.groups / (1 + math.exp(made._rate * (tau - made.floor)))

    assert chance(made.tau) <= 1e-8 < chance(1 + made._above)


def shot(counts: Counts, made: HeavyHitters, tau: int) -> dict[List, float]:
    """Which keys are at or above a threshold, of discrete Laplace noise, when all are told (order is free)."""
    r, found = math.exp(-1 / made._scale), {}
    names = list(counts)
    chances = []
    for name in names:
        far = tau - counts[name]
        chances.append(r**far / (1 + r) if far > 0 else 1 - r ** (1 - far) / (1 + r))
    for size in range(len(names) + 1):
        for told in combinations(range(len(names)), size):
            found[tuple(names[i] for i in told)] = math.prod(c if i in told else 1 - c for i, c in enumerate(chances))
    return found


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("groups", [1, 3])
def test_one_shot_is_within_epsilon_and_delta(groups: int, monotone: bool) -> None:
    delta = 0.01
    made = hitters(10, groups, delta=delta, monotone=monotone)
    assert made.shot
    for off, right in ((0, True), (-math.ceil(3 * made._scale), False)):
        tau, found = made.tau + off, 0.0
        own, others = ({f"{n}{i}": made.floor for i in range(groups)} for n in "de")
        for common in ({}, {"a": tau} if groups > 1 else {"a": tau, "b": tau - 1}):
            moved = {k: c - 1 for k, c in common.items()} if groups > 1 or not common else common
            laws = [shot(each, made, tau) for each in ({**common, **own}, moved if monotone else {**common, **others})]
            found = max(found, divergence(*laws, 1.0), divergence(*reversed(laws), 1.0))
        assert (found <= delta) == right


@pytest.mark.parametrize("delta", [1e-9, 1e-3])
def test_draws_follow_the_law(delta: float) -> None:
    """Of picks, pure or by zCDP, with nobody among the candidates; the law at another epsilon is refused."""
    made = hitters(2, 5, epsilon=0.8, delta=delta)
    assert not made.shot
    counts = {"a": made.tau + 2, "b": made.tau - 1, "c": made.tau}
    names = list(counts)
    seen = Counter(tuple(names[i] for i in made.pick(list(counts.values()))) for _ in range(DRAWS))
    for factor, right in ((1.0, True), (0.5, False), (2.0, False)):
        law = peeled(counts, 2, made.tau, float(made._top.share) * factor, exponential)
        ways = [w for w in law if law[w] * DRAWS > 5]
        observed = [seen[w] for w in ways]
        expected = [DRAWS * law[w] for w in ways]
        rest = (DRAWS - sum(observed), DRAWS - sum(expected))
        p = stats.chisquare([*observed, rest[0]], [*expected, max(rest[1], 1e-6)]).pvalue
        assert fits(float(p)) == right, factor


def test_the_lower_threshold_is_taken_and_zcdp_where_it_is_better() -> None:
    assert hitters(5, 1).shot  # rows: one key each
    assert not hitters(2, 50).shot
    many = hitters(100, 1000, epsilon=1, delta=1e-6)
    assert not many.shot
    assert not many._top.is_pure
    assert many.loss.delta_zcdp_atto * 2 == many.loss.delta_atto == ATTO // 10**6
    pure = hitters(2, 50, delta=1e-9)
    assert pure.loss.delta_zcdp_atto == pure.loss.delta_atto == ATTO // 10**9
    for made in (many, pure, hitters(5, 1)):
        assert 1 <= made.floor < made.tau < made.sure()
        assert made.loss.epsilon_nano == NANO


def test_too_little_is_refused() -> None:
    with pytest.raises(ParameterError, match="P102"):
        hitters(delta=0)


def test_the_number_of_draws_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = exponential_mechanism.random_bits
    monkeypatch.setattr(exponential_mechanism, "random_bits", lambda n: asked.append(n) or real(n))
    made = hitters(3, 50)
    assert not made.shot
    for counts in ([], [made.tau + 999] * 2, [made.tau] * 9):
        made.pick(counts)
    assert asked == [640] * 9
    assert made.pick([made.tau + 999, made.floor, made.tau + 9999]) in ([2, 0], [2, 0, 1])

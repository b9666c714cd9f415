"""mechanisms/heavy_hitters.py: divergences of exact laws where keys are one side's own, law of draws."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from duckdp.core.accountant import epsilon_for, pure_rho
from duckdp.core.errorbars import Noise
from duckdp.core.types import ATTO, NANO
from duckdp.errors import InternalError, ParameterError
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
    assert made.family is None
    assert made.floor > 1

    def chance(tau: int) -> float:
        return made.picks * made.groups / (1 + math.exp(made._rate * (tau - made.floor)))

    assert chance(made.tau) <= 1e-8 < chance(1 + made._above)


def reached(noise: Noise, far: int) -> float:
    """The chance that discrete noise is at least so much."""
    s = noise.scale
    law = {"laplace": lambda z: -abs(z) / s, "gaussian": lambda z: -z * z / (2 * s * s)}[noise.family]
    most = math.ceil(40 * s)
    every = np.exp([law(z) for z in range(-most, most + 1)])
    return float(every[max(0, far + most) :].sum() / every.sum())


def shot(counts: Counts, noise: Noise, tau: int) -> dict[List, float]:
    """Which keys are at or above a threshold when all are told (order is free)."""
    found, names = {}, list(counts)
    chances = [reached(noise, tau - counts[name]) for name in names]
    for size in range(len(names) + 1):
        for told in combinations(range(len(names)), size):
            found[tuple(names[i] for i in told)] = math.prod(c if i in told else 1 - c for i, c in enumerate(chances))
    return found


def worst_shot(made: HeavyHitters, groups: int, *, noise: Noise, tau: int) -> float:
    """Over neighbours that differ in keys of their own, in all that a unit has of common ones, or in some of each."""
    found, monotone = 0.0, made.monotone
    for shared in {0, min(1, groups - 1), groups // 2, groups}:
        own, others = ({f"{n}{i}": made.floor for i in range(groups - shared)} for n in "de")
        common = {f"c{i}": tau - i % 2 for i in range(shared if monotone else 2 * shared)}
        less = {k: c - (1 if i < shared else -1) for i, (k, c) in enumerate(common.items())}
        laws = [shot(each, noise, tau) for each in ({**common, **own}, less if monotone else {**less, **others})]
        found = max(found, divergence(*laws, 1.0), divergence(*reversed(laws), 1.0))
    return found


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize(
    ("family", "groups", "delta"), [("laplace", 1, 0.01), ("laplace", 2, 1e-6), ("gaussian", 6, 1e-4)]
)
def test_one_shot_is_within_epsilon_and_delta(family: str, groups: int, delta: float, monotone: bool) -> None:
    """As shipped; the twins are a threshold that is lower, and noise for one key of a unit with its own threshold."""
    made = hitters(60, groups, delta=delta, monotone=monotone)
    assert made.family == family
    assert made._noise is not None
    own = groups * reached(made._noise, made.tau - made.floor) * (1 if monotone else 2)
    assert own <= made.loss.delta_zcdp_atto / ATTO
    if family == "gaussian":
        rest = made.loss.delta_atto - made.loss.delta_zcdp_atto
        assert epsilon_for(made.loss.rho_pico, rest) <= made.epsilon_nano
    assert worst_shot(made, groups, noise=made._noise, tau=made.tau) <= delta
    lower = made.tau - math.ceil((3 if family == "laplace" else 1.5) * made._noise.scale)
    assert worst_shot(made, groups, noise=made._noise, tau=lower) > delta
    if groups > 1:
        weak = Noise(made._noise.family, made._noise.scale / (groups if family == "laplace" else 3.5))
        assert worst_shot(made, groups, noise=weak, tau=made.floor + made._above_shot(weak)) > delta


@pytest.mark.parametrize("delta", [1e-9, 1e-3])
def test_draws_follow_the_law(delta: float) -> None:
    """Of picks, pure or by zCDP, with nobody among the candidates; the law at another epsilon is refused."""
    made = hitters(2, 5, epsilon=0.8, delta=delta)
    assert made.family is None
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


def test_what_leaves_out_the_fewest_is_taken() -> None:
    """Picks of few keys, Laplace noise where a unit has few, Gaussian noise else; zCDP where it is better."""
    ways = {
        "laplace": hitters(5, 1),  # rows: one key each
        "gaussian": hitters(100, 50, epsilon=1, delta=1e-8),
        "picks, zCDP": hitters(100, 1000, epsilon=1, delta=1e-6),
        "picks": hitters(2, 50, delta=1e-9),
    }
    for name, made in ways.items():
        assert made.family == {"laplace": "laplace", "gaussian": "gaussian"}.get(name)
        zcdp = name in ("gaussian", "picks, zCDP")
        assert made.loss.delta_zcdp_atto * (2 if zcdp else 1) == made.loss.delta_atto == made.delta_atto
        assert made.loss.epsilon_nano == NANO
        assert (made.loss.rho_pico < pure_rho(NANO)) == zcdp
        assert made.sure() == min(made._sure(noise) for noise in (None, *made._laws))
        assert 1 <= made.floor < made.tau < made.sure()
    assert ways["gaussian"].tau < 300 < ways["gaussian"]._above_picks  # of a hundred


@pytest.mark.parametrize("groups", [3, 50])
def test_noise_at_once_is_of_the_law_told(groups: int) -> None:
    """Its deviation, and how often a key just at ``sure`` is left out."""
    made = hitters(30, groups, epsilon=1, delta=1e-8)
    assert made.family == {3: "laplace", 50: "gaussian"}[groups]
    assert made._noise is not None
    noisy = np.array(made.noised([made.sure()] * 20_000)) - made.sure()
    assert noisy.std() == pytest.approx(math.sqrt(made._noise.variance()), rel=0.05)
    assert (made.sure() + noisy < made.tau).mean() < 0.05 / 30 * 2
    least = (made.tau + math.ceil(made._noise.scale / 2) + noisy < made.tau).mean()  # the twin: of a key hardly above
    assert least > 0.05
    picked = hitters(2, 50, delta=1e-9)
    with pytest.raises(InternalError):
        picked.noised([1])


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("delta_atto", [2, 3, 4, 5])
def test_the_least_deltas_leave_a_threshold(delta_atto: int, monotone: bool) -> None:
    """What they are divided into may be nothing: that way is left out then."""
    for picks in (1, 3, 100):
        made = HeavyHitters(picks=picks, groups=5, epsilon_nano=NANO, delta_atto=delta_atto, monotone=monotone)
        assert made.tau > made.floor
        assert 0 < made.loss.delta_atto <= delta_atto
        assert made.shortfall(9) > 0


def test_too_little_is_refused() -> None:
    with pytest.raises(ParameterError, match="P102"):
        hitters(delta=0)


def test_the_number_of_draws_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = exponential_mechanism.random_bits
    monkeypatch.setattr(exponential_mechanism, "random_bits", lambda n: asked.append(n) or real(n))
    made = hitters(3, 50)
    assert made.family is None
    for counts in ([], [made.tau + 999] * 2, [made.tau] * 9):
        made.pick(counts)
    assert asked == [640] * 9
    assert made.pick([made.tau + 999, made.floor, made.tau + 9999]) in ([2, 0], [2, 0, 1])

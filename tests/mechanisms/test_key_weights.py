"""Weights of units for open keys: within their sensitivity, within delta for every number of own keys, never worse."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import pytest

from duckdp.core.errorbars import Noise
from duckdp.core.types import ATTO
from duckdp.mechanisms.key_weights import KeyWeights, weigh_keys
from duckdp.mechanisms.threshold import threshold

CASES = [
    (family, share, groups, delta)
    for family in ("laplace", "gaussian")
    for share in (0.2, 0.7, 3.0, 12.0)  # epsilon; of Gaussian noise the sensitivity over its deviation
    for groups in (2, 3, 17, 60)
    for delta in (0.2, 1e-5, 1e-12)
]
ONE = 32  # steps to one: few, so that laws are summed term by term


def noise_of(family: str, share: float, groups: int, one: int) -> Noise:
    """Noise that ``groups`` keys of ``one`` each need."""
    size = groups * one if family == "laplace" else math.sqrt(groups) * one
    return Noise(family, size / share)  # type: ignore[arg-type]


def made(family: str, share: float, groups: int, delta: float, one: int = ONE) -> tuple[Noise, KeyWeights]:
    noise = noise_of(family, share, groups, one)
    return noise, weigh_keys(noise, one=one, groups=groups, delta_atto=round(delta * ATTO))


@lru_cache(maxsize=64)
def tails(noise: Noise) -> list[float]:
    """P(Z >= t) for t = 0, 1, ..., each summed from its terms."""
    s, reach = noise.scale, math.ceil(noise.scale * (60 if noise.family == "laplace" else 12)) + 60
    terms = [math.exp(-k / s if noise.family == "laplace" else -k * k / (2 * s * s)) for k in range(reach)]
    whole, found, tail = 2 * math.fsum(terms) - 1, [0.0] * reach, 0.0
    for t in range(reach - 1, -1, -1):
        tail += terms[t]
        found[t] = tail / whole
    return found


def chance(noise: Noise, t: int) -> float:
    """P(Z >= t)."""
    known = tails(noise)
    return (known[t] if t < len(known) else 0.0) if t > 0 else 1 - chance(noise, 1 - t)


def weight(found: KeyWeights, keys: int) -> int:
    """What a unit with so many keys adds to each."""
    return next(steps for most, steps in found.levels if keys <= most)


def delta_of(noise: Noise, found: KeyWeights, groups: int) -> float:
    """The largest chance that an own key of one unit is shown: over its numbers of keys, and of own ones among them."""
    worst = 0.0
    for keys in range(1, groups + 1):
        one = chance(noise, found.tau - weight(found, keys))
        worst = max(worst, -math.expm1(keys * math.log1p(-one)) if one < 1 else 1.0)
    return worst


def norm(family: str, found: KeyWeights, groups: int) -> Fraction:
    """The largest norm that the noise goes by, of a unit's weights: l1, or l2 squared; m W, or m W^2 is claimed."""
    power = 1 if family == "laplace" else 2
    largest = max(keys * weight(found, keys) ** power for keys in range(1, groups + 1))
    return Fraction(largest, groups * ONE**power)


@pytest.mark.parametrize(("family", "share", "groups", "delta"), CASES)
def test_own_keys_are_shown_within_delta(family: str, share: float, groups: int, delta: float) -> None:
    noise, found = made(family, share, groups, delta)
    assert delta_of(noise, found, groups) <= delta


@pytest.mark.parametrize(("family", "share", "groups", "delta"), CASES)
def test_weights_are_within_the_sensitivity(family: str, share: float, groups: int, delta: float) -> None:
    _, found = made(family, share, groups, delta)
    assert found.levels[-1] == (groups, ONE)
    assert norm(family, found, groups) == 1


@pytest.mark.parametrize(("family", "share", "groups", "delta"), CASES)
def test_weights_are_never_worse_than_one(family: str, share: float, groups: int, delta: float) -> None:
    """Each key has as much as by the number of units, and no higher threshold: whatever the rows."""
    _, found = made(family, share, groups, delta)
    steps = [weight(found, keys) for keys in range(1, groups + 1)]
    assert steps == sorted(steps, reverse=True)
    assert min(steps) == ONE
    units = threshold(noise_of(family, share, groups, 1), delta_atto=round(delta * ATTO), groups=groups)
    assert found.tau < ONE * units


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("groups", [2, 17])
@pytest.mark.parametrize("share", [0.3, 3.0, 12.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_a_key_is_shown_as_often_as_by_the_number_of_units(
    family: str, share: float, groups: int, delta: float
) -> None:
    """Of units at the limit, where weights gain least, and on finer steps."""
    one = 64
    fine, found = made(family, share, groups, delta, one)
    whole = noise_of(family, share, groups, 1)
    units = threshold(whole, delta_atto=round(delta * ATTO), groups=groups)
    for count in range(1, 2 * units):
        plain = chance(whole, units - count)
        if plain > 1e-3:  # deep in a tail both are as good as never
            assert chance(fine, found.tau - one * count) >= plain * (1 - 1e-9)


def test_weights_follow_the_formulas_where_the_threshold_lets_them() -> None:
    for family, formula in (("laplace", lambda k: 4096 * 40 / k), ("gaussian", lambda k: 4096 * math.sqrt(40 / k))):
        _, found = made(family, 0.2, 40, 1e-8, 4096)
        few = dict(found.levels)
        assert [few[k] for k in range(1, 32)] == [math.floor(formula(k)) for k in range(1, 32)]
    _, cut = made("laplace", 12.0, 40, 1e-8, 4096)  # there the weights of the formula would need a higher threshold
    assert dict(cut.levels)[1] < 4096 * 40


def test_levels_are_few_and_near() -> None:
    for groups in (2, 100, 10_000, 10**9):
        _, found = made("gaussian", 0.5, groups, 1e-8, 4096)
        sizes = [keys for keys, _ in found.levels]
        assert len(sizes) < 400
        assert sizes[-1] == groups
        assert all(b <= a + 1 or b * 16 <= (a + 1) * 17 + 16 for a, b in pairwise(sizes))


# ---- broken twins


Twin = Callable[[str, KeyWeights, Noise, int, float], KeyWeights]


def _other(found: KeyWeights, of: Callable[[int, int], int]) -> KeyWeights:
    return replace(found, levels=tuple((keys, of(keys, steps)) for keys, steps in found.levels))


def _not_normalised(_: str, found: KeyWeights, *__: object) -> KeyWeights:
    return _other(found, lambda *_: found.levels[0][1])


def _rounded_up(family: str, found: KeyWeights, noise: Noise, groups: int, delta: float) -> KeyWeights:
    power = 1 if family == "laplace" else 2
    return _other(found, lambda k, w: w if k == groups else math.ceil((ONE**power * groups / k) ** (1 / power)))


def _one_own_key(_: str, found: KeyWeights, noise: Noise, groups: int, delta: float) -> KeyWeights:
    """The threshold of a unit whose one own key it is."""
    return replace(found, tau=weigh_keys(noise, one=ONE, groups=1, delta_atto=round(delta * ATTO)).tau)


def _uncut(family: str, found: KeyWeights, noise: Noise, groups: int, delta: float) -> KeyWeights:
    power = 1 if family == "laplace" else 2
    return _other(found, lambda k, _: math.floor((ONE**power * groups / k) ** (1 / power) + 1e-9))


def _fewest_of_a_level(family: str, found: KeyWeights, noise: Noise, groups: int, delta: float) -> KeyWeights:
    """A level weighs as its fewest keys may, not as its most."""
    before = dict(zip((k for k, _ in found.levels), (0, *(k for k, _ in found.levels)), strict=False))
    power = 1 if family == "laplace" else 2
    return _other(found, lambda k, _: math.floor((ONE**power * groups / (before[k] + 1)) ** (1 / power) + 1e-9))


def _caught(twin: Twin) -> Iterator[tuple[bool, bool]]:
    for family, share, groups, delta in CASES:
        noise, found = made(family, share, groups, delta)
        broken = twin(family, found, noise, groups, delta)
        yield norm(family, broken, groups) > 1, delta_of(noise, broken, groups) > delta


@pytest.mark.parametrize(
    ("twin", "by_norm", "by_delta"),
    [
        (_not_normalised, True, True),
        (_rounded_up, True, False),
        (_one_own_key, False, True),
        (_uncut, False, True),
        (_fewest_of_a_level, True, False),
    ],
)
def test_twins_are_caught(twin: Twin, by_norm: bool, by_delta: bool) -> None:
    found = list(_caught(twin))
    assert any(norms for norms, _ in found) or not by_norm
    assert any(deltas for _, deltas in found) or not by_delta

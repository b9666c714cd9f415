"""Which keys without a domain may be shown, by weights of units: who has few keys puts more weight on each of them.

In place of the number of units of each key (mechanisms/threshold.py), where that is asked for the threshold alone. A
unit with k keys that count, of at most m, adds w(k) steps to each; with W steps to one, and t(k) the least number of
steps of which P(Z >= t(k)) <= delta / k is proved for the noise Z,

    w(k) = min(floor(W m / k), tau - t(k))         Laplace noise of scale m W / epsilon
    w(k) = min(floor(W sqrt(m / k)), tau - t(k))   Gaussian noise of variance m W^2 / (2 rho)

a key is shown iff its weights and its noise together are at least tau = W + t(m). In w(k), k is rounded up to one of
few numbers, so that a list of some ten or hundred says all weights.

Privacy:      (epsilon, delta) together with the noise, for ADD_REMOVE of a unit; (rho, delta)-zCDP of Gaussian noise.
Assumes:      a unit's k keys and its weights follow from its own rows, the salt and public figures alone (compiler/emit
              bounds and weighs them); a key that nobody has never appears. Not for rows as units: each has one key, so
              that its weight is W and nothing is gained; nor for REPLACE, under which units are rows.
Sensitivity:  of a unit that comes or goes, in steps: l1 k w(k) <= m W for Laplace noise; l2^2 k w(k)^2 <= m W^2 for
              Gaussian noise; that is what m keys with W on each have, so a number of units with W steps to one has the
              same. Weights are rounded down and k up, which only takes from both.
Proof sketch: let D have a unit with k keys that D* lacks. Its own keys, j <= k of them, nobody has in D*, so in D each
              has the sum w(k) exactly: how many keys are its own is private, and may be all k. One is shown with chance
              P(Z >= tau - w(k)) <= P(Z >= t(k)) <= delta / k, one of all j with at most j delta / k <= delta. Where
              none is, both outputs follow from the noisy sums of common keys, whose change is within the sensitivity,
              and from figures of the common keys that are shown, each with noise and share of its own. The rest, both
              ways, is the argument of mechanisms/threshold.py, of which only the chance of an own key is other here.
Never worse:  t grows with k, so tau - t(k) >= W, and W m / k >= W: every unit adds at least W to each of its keys, what
              the number of units gives it, against the same tau and the same noise in units. So whatever the rows, no
              key is shown with a smaller chance than by the number of units on this grid, whose steps are W times
              finer than its own; of a unit with fewer than m keys each has up to m / k or sqrt(m / k) times as much.
Numerics:     weights are whole numbers, made without floats (``//`` and ``isqrt``), but for t(k), by the bounds of
              mechanisms/threshold.py. These are asked for delta / k times exp(-1e-9): logarithms of doubles, and scales
              within 2^56, are off by less than 1e-12 of that. Draws are exact and on whole steps (core/noise.py).
Source:       Korolova, Kenthapadi, Mishra, Ntoulas (WWW 2009); weights and the threshold over all numbers of own keys:
              Gopi, Gulhane, Kulkarni, Shen, Shokouhi, Yekhanin, "Differentially private set union" (ICML 2020), 4.1 and
              5.1. That no weight is more than tau lets a unit's own keys have, and so that it is never worse, is ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from duckdp.core.errorbars import Noise
from duckdp.core.types import ATTO
from duckdp.mechanisms.threshold import log_tail, room

_FINE = 16  # a k above 2 * _FINE is rounded up by a sixteenth at most: a weight is 6% too small, or 3%
_SLACK = 1e-9  # of the logarithm of a chance: far above the rounding of doubles, far below what a step changes


@dataclass(frozen=True, kw_only=True)
class KeyWeights:
    """What a unit adds to each of its keys, and from which sum on a key is shown; in steps.

    Attributes:
        levels: (most keys, weight): of a unit with so many keys at most, and more than those of the level before. The
            last one is of m keys.
        tau: the threshold.
    """

    levels: tuple[tuple[int, int], ...]
    tau: int


def weigh_keys(noise: Noise, *, one: int, groups: int, delta_atto: int) -> KeyWeights:
    """The weights of units by how many keys they have, and the threshold.

    Args:
        noise: of the sums: of a vector with sensitivity groups * one (l1, Laplace) or groups * one^2 (l2^2, Gaussian).
        one: W, steps that a unit with ``groups`` keys adds to each, >= 1.
        groups: m, most keys of a unit that count.
        delta_atto: delta for the keys, in 1e-18, > 0.

    >>> weigh_keys(Noise("laplace", 400.0), one=100, groups=4, delta_atto=10**10)
    KeyWeights(levels=((1, 400), (2, 200), (3, 133), (4, 100)), tau=7747)
    """
    tau = one + _steps_beyond(noise, _log_share(delta_atto, groups))
    levels = []
    for keys in _sizes(groups):
        most = one * groups // keys if noise.family == "laplace" else math.isqrt(one * one * groups // keys)
        share = _log_share(delta_atto, keys)
        fits = tau > most and log_tail(noise, tau - most) <= share
        levels.append((keys, most if fits else min(most, tau - _steps_beyond(noise, share))))
    return KeyWeights(levels=tuple(levels), tau=tau)


def _log_share(delta_atto: int, keys: int) -> float:
    """Logarithm of the chance that each of so many own keys has; a little less."""
    return math.log(delta_atto) - math.log(ATTO) - math.log(keys) - _SLACK


def _steps_beyond(noise: Noise, log_share: float) -> int:
    """t: noise is at least so much with a chance of at most exp(log_share)."""
    return max(1, math.ceil(room(noise, log_share)))


def _sizes(groups: int) -> Iterator[int]:
    """Numbers of keys that weights are told for, ascending: all small ones, then each a sixteenth above the last."""
    keys = 1
    while keys < groups:
        yield keys
        keys += max(1, keys // _FINE)
    yield groups

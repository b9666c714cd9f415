"""Error bars of ratios of noisy linear forms: averages, shares, quotients of sums and counts.

True values A and B (B > 0) are released as a = A + g . Z and b = B + h . Z. For the true ratio r = A / B the number
a - r b = (g - r h) . Z is noise of a known law whatever A and B are, so with q(r) the 95% quantile of its size

    R = {r: |a - r b| <= q(r)}    holds A / B in 95% of all releases, for few rows as for many.

Source:   Fieller, "Some problems in interval estimation", JRSS B 16 (1954), for normal variables; here by the noise's
          own law.
Numerics: with r = s tan(t), s = |g| / |h|, the condition is |a cos t - b s sin t| <= Q(t), Q the quantile for
          g cos t - h s sin t. Q has no data in it; it is tabled on 513 angles (interpolation error below 1e-4 of it)
          from core/errorbars' laws, terms of scale below 50 taken as continuous and widened by half a step. An end is
          found to 1e-9 of Q.
What R is: the reals without one interval to the left of a / b and one to its right (Q is convex but for its law's last
          digits); where b is not clearly above its noise one of them is missing or R is everything. The interval given
          is the hull of R within the ratio's public range. Where noise has moved R out of that range, the interval is
          twice the smallest one that reaches it: wider than R, never empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from duckdp.core import summedbars
from duckdp.core.errorbars import Noise, linear_half_width
from duckdp.core.sizes import near_one, times_power
from duckdp.core.summedbars import Law

Floats = NDArray[np.float64]
_NODES = 513  # angles at which half-widths are computed
_FEWER = 65  # the same of laws that are sums, each of which is inverted
_ROUNDS = 120  # halvings of an end
_NEAR = 1e-9  # of the equation for an end, whose solution is then found
_SMOOTH = 50.0  # as in core/errorbars


def can_bound(noises: Sequence[Law], used: Sequence[bool]) -> bool:
    """Whether the law is had at all angles: Gaussian, at most three Laplace terms, or a sum over releases."""
    if any(not isinstance(n, Noise) for n in noises):
        return True
    families = [n.family for n, use in zip(noises, used, strict=True) if use and isinstance(n, Noise)]
    return len(families) <= 3 if "laplace" in families else True


def ratio_interval(
    above: Floats,
    below: Floats,
    g: Floats,
    h: Floats,
    noises: Sequence[Law],
    lower: float,
    upper: float,
    level: float = 0.95,
) -> tuple[Floats, Floats]:
    """Ends of the interval for each released pair: two float[n].

    Args:
        above: float[n], released numerators.
        below: float[n], released denominators.
        g: float[m], coefficients of the numerators by noise term, not all zero.
        h: float[m], those of the denominators, not all zero.
        noises: the m independent laws.
        lower: least value of the true ratio, by public figures; may be infinite.
        upper: its largest.
        level: wanted coverage.
    """
    (g, above, up), (h, below, down) = _near_one(g, above), _near_one(h, below)
    scale = math.sqrt(float(g @ g)) / math.sqrt(float(h @ h))
    first, last = (math.atan(float(times_power(np.array(end), down - up)) / scale) for end in (lower, upper))
    angles, widths = _table(tuple(g), tuple(h * scale), tuple(noises), first, last, level)
    a, b = above, below * scale

    def excess(t: Floats, factor: Floats) -> Floats:
        """Above 0 where t is outside, in units of Q."""
        return np.abs(a * np.cos(t) - b * np.sin(t)) / np.interp(t, angles, widths) - factor

    best = np.clip(np.arctan2(a * np.sign(b), np.abs(b)), first, last)
    best = np.where(b == 0, np.where(a > 0, last, first), best)
    factor = np.ones_like(a)
    outside = excess(best, factor) > 0
    factor = np.where(outside, 2 * (excess(best, factor) + 1), factor)
    edges = np.repeat([[first], [last]], a.size, axis=1)  # both ends are looked for at once
    cut = excess(edges, factor) > 0
    found = _root(lambda t: excess(t, factor), np.stack([best, best]), edges) if cut.any() else edges
    ends = np.where(cut, times_power(np.tan(found) * scale, up - down), [[lower], [upper]])
    return ends.min(axis=0), ends.max(axis=0)


def _near_one(form: Floats, released: Floats) -> tuple[Floats, Floats, int]:
    """A linear form and what it gave, over the same power of two."""
    found, powers = near_one(form[:, None], len(form))
    power = int(powers[0])
    return found[:, 0], times_power(released, -power), power


def _root(f: Callable[[Floats], Floats], inside: Floats, beyond: Floats) -> Floats:
    """Where f crosses 0 between points with f <= 0 and f > 0: false position (Illinois), each third step a bisection.

    Where f(beyond) <= 0 the result means nothing.
    """
    low, high = f(inside), f(beyond)
    active = high > 0
    for i in range(_ROUNDS):
        share = 0.5 if i % 3 == 2 else np.clip(low / np.where(high > low, low - high, -1.0), 0.0, 1.0)
        middle = inside + share * (beyond - inside)
        value = f(middle)
        accepted = value <= 0
        if np.all((np.abs(value) <= _NEAR) | ~active):
            return middle
        high = np.where(accepted, high / 2, value)
        low = np.where(accepted, value, low / 2)
        inside, beyond = np.where(accepted, middle, inside), np.where(accepted, beyond, middle)
    return inside


@lru_cache(maxsize=256)
def _table(
    g: tuple[float, ...], h: tuple[float, ...], noises: tuple[Law, ...], first: float, last: float, level: float
) -> tuple[Floats, Floats]:
    """Angles and the quantile at each.

    Of sums of releases there are fewer angles, each widened by a / sin(a), a the angle between two: in between the
    form is a sum of theirs whose coefficients are at most that much above those of the straight line.
    """
    plain = [n for n in noises if isinstance(n, Noise)]
    angles = np.linspace(first, last, _NODES if len(plain) == len(noises) else _FEWER)
    c = np.outer(np.array(g), np.cos(angles)) - np.outer(np.array(h), np.sin(angles))
    if len(plain) < len(noises):
        gap = (last - first) / (_FEWER - 1)
        return angles, summedbars.linear_half_width(c, noises, level) * (gap / math.sin(gap) if gap else 1.0)
    # Continuous laws, told by a finer grid; half a step of each small one is added.
    finer = [Noise(n.family, n.scale * max(1.0, 2 * _SMOOTH / n.scale)) for n in plain]
    shrunk = c * np.array([n.scale / f.scale for n, f in zip(plain, finer, strict=True)])[:, None]
    steps = np.array([0.5 if n.scale < _SMOOTH else 0.0 for n in plain])[:, None]
    return angles, linear_half_width(shrunk, finer, level) + np.max(np.abs(c) * steps, axis=0)

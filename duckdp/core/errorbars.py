"""Error bars: standard errors and half-widths of released values.

A released value is, to first order, true + sum_i c_i Z_i, with independent Z_i on the integers::

    laplace     P(Z = k) ~ exp(-|k| / scale)
    gaussian    P(Z = k) ~ exp(-k^2 / (2 scale^2))

Everything here is a function of public figures (coefficients already released, scales): it costs no privacy.

Numerics: one term is exact (50 decimal digits). A sum is computed in one of four ways, for levels up to 0.9999:
  exact      coefficients are multiples of the smallest one over 1..12: the law on its lattice by one FFT (error 1e-9).
  closed     up to three Laplace terms of scale >= 50, or Gaussian terms of scale >= 50: taken as continuous. That is
             off by at most half a step of the true law: 0.025 / scale in coverage at level 0.95, Gaussian 0.06 / scale.
  inverted   otherwise: the characteristic function (error 1e-6), terms of scale >= 50 taken as continuous (as above).
             A law of large incommensurable steps is not narrowed, and widened by up to 1e-4 of its whole range.
  tabled     as inverted, more than 512 columns of at most three terms: interpolation in the log ratios of coefficients
             (error in the half-width about 2e-3, 2e-2 where the law has large steps).
Source: discrete laws as in Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation, localcontext
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duckdp.core.sizes import near_one, times_power
from duckdp.errors import ParameterError

Floats = NDArray[np.float64]
_DIGITS = Context(prec=50, rounding=ROUND_HALF_EVEN, Emin=-999_999, Emax=999_999, traps=[InvalidOperation])
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
_FINE = Decimal(10) ** 20  # so large a half-width is known to a part of 10^-20 in 50 digits
_SMOOTH = 50.0  # from this scale on a step of the law is taken as continuous
_TAIL = 1e-9  # mass ignored outside the range of a numeric law
_LATTICE = _NODES = 2**18  # of the lattice, or of the quadrature, that a law is inverted on
_TABLED = 512  # columns; of more, half-widths are looked up in a table
_NORMAL = NormalDist()
_SPREAD = 3e-4  # relative distance kept between squared scales: error about _SPREAD^2, rounding about 1e-16/_SPREAD^2
# Weights of the midpoint rule's Euler-Maclaurin corrections.
_MIDPOINT = (Decimal(-1) / 24, Decimal(7) / 5760, Decimal(-31) / 967_680, Decimal(127) / 154_828_800)


@dataclass(frozen=True)
class Noise:
    """The law of one noise term on the integers; ``scale`` in grid units is b (laplace) or sigma (gaussian)."""

    family: Literal["laplace", "gaussian"]
    scale: float

    def __post_init__(self) -> None:
        if self.family not in ("laplace", "gaussian"):
            raise ParameterError("P107", "family", self.family, "must be 'laplace' or 'gaussian'.")
        if not (0 < self.scale < math.inf):
            raise ParameterError("P103", "scale", self.scale, "must be positive and finite.")

    def variance(self) -> float:
        """Give the variance of the discrete law.

        >>> Noise("laplace", 1.0).variance(), Noise("gaussian", 3.0).variance()
        (1.8413471884155848, 9.0)
        """
        s = self.scale
        if self.family == "laplace":
            return 2 * math.exp(-1 / s) / math.expm1(-1 / s) ** 2  # 2p/(1-p)^2, p = exp(-1/s)
        if s >= 2:  # Poisson summation: the relative difference is below 16 pi^2 s^2 exp(-2 pi^2 s^2) < 1e-31
            return s * s
        mass = [math.exp(-(k * k) / (2 * s * s)) if k < 40 * s else 0.0 for k in range(1, 80)]
        return 2 * sum(k * k * p for k, p in enumerate(mass, 1)) / (1 + 2 * sum(mass))


def half_width(noise: Noise, level: float = 0.95) -> int:
    """Give the smallest integer w with P(|Z| <= w) >= level, exactly (level is the float's exact value).

    Proof sketch: coverage is concave in w, so from coverage(w) < level the answer is at least
    (level - coverage(w)) / (2 P(Z = w)) steps away; taking that many, at least one, never passes it. Coverages are
    known far better than they differ from w to w + 1 (tested: scales to 2^55, levels to 1 - 2^-53).

    Raises:
        ParameterError: P107, level.

    >>> half_width(Noise("laplace", 10.0)), half_width(Noise("gaussian", 10.0))
    (30, 20)
    """
    check_level(level)
    return _half_width(noise, float(level))


def linear_standard_error(coefficients: Floats, noises: Sequence[Noise]) -> Floats:
    """Give the standard deviation of sum_i c_i Z_i for each column, float[n].

    Args:
        coefficients: float[m, n].
        noises: the m laws; the result has their coefficients' units.
    """
    c, powers = near_one(coefficients, len(noises))
    deviations = np.array([math.sqrt(noise.variance()) for noise in noises])[:, None]
    return times_power(np.sqrt(np.sum((c * deviations) ** 2, axis=0)), powers)


def linear_half_width(coefficients: Floats, noises: Sequence[Noise], level: float = 0.95) -> Floats:
    """Give the level-quantile of |sum_i c_i Z_i| for each column, float[n]; 0 for a column of zeros.

    Args:
        coefficients: float[m, n]; the result has their units.
        noises: the m independent laws.
        level: wanted coverage. The accuracies reached are in the module docstring.

    Raises:
        ParameterError: P107, level or coefficients.

    >>> linear_half_width(np.array([[2.0, 1.0], [0.0, -1.0]]), [Noise("laplace", 10.0), Noise("laplace", 10.0)])
    array([60., 41.])
    """
    check_level(level)
    c, powers = near_one(np.abs(coefficients), len(noises))
    used = c > 0
    terms = used.sum(axis=0)
    result = np.zeros(c.shape[1])
    for row, noise in enumerate(noises):
        alone = used[row] & (terms == 1)
        if alone.any():
            result[alone] = c[row, alone] * half_width(noise, level)
    todo = terms > 1
    if not todo.any():
        return times_power(result, powers)
    scales = np.array([noise.scale for noise in noises])[:, None]
    large = scales[:, 0] >= _SMOOTH
    laplace = np.array([noise.family == "laplace" for noise in noises])
    closed = todo & ~used[~(large & laplace)].any(axis=0) & (terms <= 3)
    if closed.any():
        result[closed] = _laplace_sum(c[:, closed] * scales, 1 - level)
    normal = todo & ~used[~(large & ~laplace)].any(axis=0)
    result[normal] = _NORMAL.inv_cdf((1 + level) / 2) * np.sqrt(np.sum((c[:, normal] * scales) ** 2, axis=0))
    smooth = closed | normal
    result[smooth] = _round_to_lattice(result[smooth], c[:, smooth])
    if (rest := todo & ~smooth).any():
        result[rest] = _inverted(c[:, rest], noises, level)
    return times_power(result, powers)


def rounded_half_width(noises: Sequence[Noise], unit: int, level: float = 0.95, *, off: int = 0) -> int:
    """Give the smallest integer w with P(|round(S / unit)| <= w) >= level, S the sum of the noises, moved by ``off``.

    A tie (S = (w + 1/2) unit, possible for even units only) counts as outside, so the result holds for every way of
    rounding ties. Exact for one noise; for more, the probability is computed to 1e-6.

    Args:
        noises: independent laws on the fine grid.
        unit: grid steps per count.
        level: wanted coverage.
        off: grid steps by which S may be off besides.

    >>> rounded_half_width([Noise("laplace", 10.0 * 2**20)], 2**20)
    30
    """
    check_level(level)
    if unit < 1:
        raise ParameterError("P107", "unit", unit, "must be a positive whole number of grid steps.")
    if not noises:
        return 0
    steps = half_width(noises[0], level) if len(noises) == 1 else round(_quantile([1.0] * len(noises), noises, level))
    # |S| < (w + 1/2) unit is |S| <= w unit + (unit - 1) // 2 for integers, and must hold for |S| = steps + off.
    return max(0, -((-(steps + off - (unit - 1) // 2)) // unit))


def smallest_epsilon(error: float, width_at: Callable[[int], float]) -> int | None:
    """Give the smallest epsilon, in 1e-9 and a multiple of 1e-6, whose expected half-width is at most ``error``.

    From 1_000 to 100_000_000_000 by bisection; None when even the largest is not enough.

    Args:
        error: wanted half-width, in the units of ``width_at``.
        width_at: half-width at an epsilon in 1e-9; must not grow with epsilon.

    Raises:
        ParameterError: P106, the error is negative or not a number.

    >>> smallest_epsilon(6, lambda epsilon_nano: 3e9 / epsilon_nano)
    500000000
    """
    if not error >= 0:
        raise ParameterError("P106", "error", error, "must be a number, at least 0.")
    candidates = range(1, 100_000_001)  # in 1e-6
    place = bisect_left(candidates, True, key=lambda micro: bool(width_at(micro * 1_000) <= error))
    return candidates[place] * 1_000 if place < len(candidates) else None


def check_level(level: float) -> None:
    """Raise P107 unless 0 < level < 1."""
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0 < level < 1:
        raise ParameterError("P107", "level", level, "must be a number above 0 and below 1, for example level=0.95.")


@lru_cache(maxsize=4096)
def _half_width(noise: Noise, level: float) -> int:
    with localcontext(_DIGITS):
        wanted, scale = Decimal(level), Decimal(noise.scale)
        if noise.family == "laplace":  # P(|Z| <= w) = 1 - 2 q^(w + 1) / (1 + q), q = exp(-1 / scale), solved for w
            exact = -((1 - wanted) * (1 + (-1 / scale).exp()) / 2).ln() * scale - 1
            if exact < _FINE and abs(exact - round(exact)) > 1 / _FINE:  # else one digit too few would decide
                return max(math.ceil(exact), 0)
        guess = -math.log1p(-level) if noise.family == "laplace" else _NORMAL.inv_cdf(min(0.5 + level / 2, 1 - 1e-16))
        w = max(0, int(noise.scale * guess * (1 - 1e-6)) - 2)
        w = w if _coverage(noise, w) < wanted else 0
        while (inside := _coverage(noise, w)) < wanted:
            edge = inside - _coverage(noise, w - 1) if w else 2 * inside  # 2 P(Z = w)
            w += max(1, int((wanted - inside) / edge))
        return w


def _coverage(noise: Noise, w: int) -> Decimal:
    """P(|Z| <= w) to about 45 digits."""
    if w < 0:
        return Decimal(0)
    with localcontext(_DIGITS):
        scale = Decimal(noise.scale)
        if noise.family == "laplace":
            return 1 - 2 * (-(w + 1) / scale).exp() / (1 + (-1 / scale).exp())
        if noise.scale >= 64:
            return _gaussian_coverage(scale, w)
        step = (-1 / (scale * scale)).exp()  # mass(k+1) / mass(k) = exp(-(2k+1) / (2 scale^2))
        mass, ratio, inside, total = Decimal(1), step.sqrt(), Decimal(1), Decimal(1)
        for k in range(1, 2 + math.ceil(16 * noise.scale)):
            mass *= ratio
            ratio *= step
            total += 2 * mass
            inside = total if k <= w else inside
        return inside / total


def _gaussian_coverage(scale: Decimal, w: int) -> Decimal:
    """Midpoint Euler-Maclaurin sum (weights B_2j(1/2) / (2j)!), with an error below 1e-20 for scale >= 64.

    The total mass is scale sqrt(2 pi) up to a factor 1 + 2 exp(-2 pi^2 scale^2) (Poisson summation).
    """
    y = (w + Decimal("0.5")) / scale
    if y > 20:
        return Decimal(1)
    term, inside, odd = y, y, 1  # P(|G| <= y) = 2 density (y + y^3/3 + y^5/(3 5) + ...): positive terms only
    while term > inside * Decimal("1e-49"):
        odd += 2
        term *= y * y / odd
        inside += term
    hermite, previous = y, Decimal(1)  # He_1, He_0; He_{k+1} = y He_k - k He_{k-1}
    for j, weight in enumerate(_MIDPOINT, 1):
        inside -= weight * hermite / scale ** (2 * j)
        for degree in (2 * j - 1, 2 * j):
            previous, hermite = hermite, y * hermite - degree * previous
    return 2 * (-y * y / 2).exp() / (2 * _PI).sqrt() * inside


def _laplace_sum(b: Floats, alpha: float) -> Floats:
    """The t with P(|sum of continuous Laplace(b_i)| > t) = alpha, for at most three b_i > 0 per column.

    Partial fractions of prod 1/(1 + b_i^2 u^2) give the tail sum_i v_i exp(-t/b_i), v_i = prod_j b_i^2/(b_i^2 - b_j^2).
    It is a divided difference in the squares, so moving near-equal squares apart with their mean kept changes it in
    second order only. The law is log-concave, hence so is the tail, and Newton on its logarithm descends to t.
    """
    b = np.sort(b, axis=0)[-3:]
    top = b[-1]
    low, middle, high = np.pad(np.maximum((b / top) ** 2, 1e-12), ((3 - len(b), 0), (0, 0)), constant_values=1e-12)
    gap_low = np.maximum(0, _SPREAD * middle - (middle - low))
    gap_high = np.maximum(0, _SPREAD * middle - (high - middle))
    s = np.stack([low - gap_low / 2, middle + (gap_low - gap_high) / 2, high + gap_high / 2])
    v = np.stack([s[i] ** 2 / ((s[i] - s[i - 1]) * (s[i] - s[i - 2])) for i in range(3)])
    rates = 1 / np.sqrt(s)
    t = np.full(b.shape[1], math.log(1 / alpha))
    for _ in range(60):
        parts = v * np.exp(-rates * t)
        tail = np.maximum(parts.sum(axis=0), 1e-300)
        step = np.log(tail / alpha) * tail / (rates * parts).sum(axis=0)
        t = np.maximum(t + step, 0)
        if np.all(np.abs(step) <= 1e-9 * (1 + t)):
            break
    return np.asarray(t * top, dtype=np.float64)


def _round_to_lattice(t: Floats, c: Floats) -> Floats:
    """Round continuous quantiles to multiples of the smallest coefficient g, where all are: kg stands for kg +- g/2."""
    step = np.min(np.where(c > 0, c, np.inf), axis=0)
    ratios = c / step
    on_lattice = np.all(np.abs(ratios - np.rint(ratios)) <= 1e-12 * ratios, axis=0)
    return np.where(on_lattice, step * np.maximum(np.ceil(t / step - 0.5), 0), t)


def _inverted(c: Floats, noises: Sequence[Noise], level: float) -> Floats:
    if len(noises) > 3 or c.shape[1] <= _TABLED:
        each, places = np.unique(c, axis=1, return_inverse=True)  # linear forms are the same in all groups
        return np.array([_quantile(column.tolist(), noises, level) for column in each.T])[places.ravel()]
    result = np.empty(c.shape[1])
    for pattern in np.unique(c > 0, axis=1).T:
        columns = np.flatnonzero(((c > 0) == pattern[:, None]).all(axis=0))
        laws = [noise for noise, used in zip(noises, pattern.tolist(), strict=True) if used]
        result[columns] = _tabled(c[np.ix_(pattern, columns)], laws, level)
    return result


def _tabled(c: Floats, noises: Sequence[Noise], level: float) -> Floats:
    """Interpolate ln(quantile / standard error) over the logarithms of c_i / c_0, which determine it."""
    from scipy.interpolate import RegularGridInterpolator

    logs = np.log(c[1:] / c[0])
    sizes = [129] if len(logs) == 1 else [33, 33]
    axes = [np.linspace(row.min() - 1e-3, row.max() + 1e-3, size) for row, size in zip(logs, sizes, strict=True)]
    nodes = np.exp(np.pad(np.stack(np.meshgrid(*axes, indexing="ij")).reshape(len(axes), -1), ((1, 0), (0, 0))))
    widths = np.array([_quantile(node.tolist(), noises, level, 2**15) for node in nodes.T])
    shape = np.log(widths / linear_standard_error(nodes, noises)).reshape(sizes)
    spread = np.exp(RegularGridInterpolator(axes, shape, method="cubic")(logs.T))
    return np.asarray(spread * linear_standard_error(c, noises), dtype=np.float64)


def _quantile(coefficients: Sequence[float], noises: Sequence[Noise], level: float, nodes: int = _NODES) -> float:
    return half_width_of(Counter((c, z) for c, z in zip(coefficients, noises, strict=True) if c > 0), level, nodes)


def half_width_of(terms: Counter[tuple[float, Noise]], level: float, nodes: int = _NODES) -> float:
    """The level-quantile of |S|, S the sum of c Z over (c, law of Z), each as often as it is there.

    On a circle of length T that holds all but _TAIL: P(|S| <= t) = 2t/T + sum_j 2 sin(2 pi j t / T) f(2 pi j / T)
    / (pi j). It may stop where the continuous terms bound f by 1e-6, or, from 8192 nodes on, where an octave of f is
    that small: what may revive later is a structure of steps finer than two nodes, and that is rounded to the lattice.
    """
    sizes = np.array([c for c, _ in terms])
    ratios = np.arange(1, 13)[:, None] * (sizes / sizes.min())  # a lattice holds S if a row consists of integers
    rows = np.flatnonzero((np.abs(ratios - np.rint(ratios)) <= 1e-12 * ratios).all(axis=1))
    step = float(sizes.min()) / (int(rows[0]) + 1) if rows.size else 0.0
    circle = 2 * _reach(terms) + 2 * float(sizes.min())
    if circle <= _LATTICE * step:  # the law itself
        size = 2 ** math.ceil(math.log2(circle / step))
        f = _characteristic(terms, np.linspace(0, math.pi / step, size // 2 + 1), math.inf)
        mass = np.fft.irfft(f, size)
        return step * int(np.searchsorted(2 * np.cumsum(mass[: size // 2]) - mass[0], level - 1e-12))
    smooth = Counter({key: times for key, times in terms.items() if key[1].scale >= _SMOOTH})
    size, rough = 512, True
    while rough and size < nodes:
        size *= 2
        h = circle / size
        u = np.linspace(0, math.pi / h, size // 2 + 1)
        rough = bool(_characteristic(smooth, u[-1:], _SMOOTH)[0] > 1e-6)
        if rough and size < min(nodes, 8192):
            continue
        f = _characteristic(terms, u, _SMOOTH)
        rough = rough and bool(np.abs(f[size // 4 :]).max() > 1e-6)
    if rough:  # a law of large steps: blur it by 1.5 h
        f = f * np.exp(-((1.5 * h * u) ** 2) / 2)
    mass = np.fft.irfft(f, size)[: size // 2]
    t = h * (int(np.searchsorted(2 * np.cumsum(mass) - mass[0], level)) + 0.5)  # coverage up to (k + 1/2) h
    if rough:
        return t + 6 * h if nodes == _NODES else t  # outside the blur
    for _ in range(4):
        excess = 2 * t / circle + float(np.sum(np.sin(u[1:] * t) * f[1:] / u[1:])) * 4 / circle - level
        t -= excess / (2 / circle + float(np.sum(np.cos(u[1:] * t) * f[1:])) * 4 / circle)
    return step * max(0, math.ceil(t / step - 0.5)) if step else t


def _characteristic(terms: Counter[tuple[float, Noise]], u: Floats, smooth: float) -> Floats:
    """E exp(iuS); terms of scale >= ``smooth`` are taken as continuous."""
    f = np.ones_like(u)
    for (c, noise), times in terms.items():
        s, v = noise.scale, c * u
        if noise.family == "laplace":
            # discrete: (1-p)^2 / (1 - 2p cos v + p^2) = 1 / (1 + (sin(v/2) / sinh(1/2s))^2)
            f *= (1 + (s * v if s >= smooth else np.sin(v / 2) / math.sinh(min(0.5 / s, 300.0))) ** 2) ** -times
        elif s >= smooth:
            f *= np.exp(-times * (s * v) ** 2 / 2)
        elif s >= 1:  # Poisson summation: three Gaussians around the nearest multiple of 2 pi
            v = v - 2 * np.pi * np.rint(v / (2 * np.pi))
            g = np.stack([np.exp(-((s * (v - 2 * np.pi * k)) ** 2) / 2) for k in (-1, 0, 1)]).sum(axis=0)
            f *= (g / (1 + 2 * math.exp(-2 * (math.pi * s) ** 2))) ** times
        else:
            mass = np.exp(-(np.arange(1, 10)[:, None] ** 2) / 2 / s / s)
            f *= ((1 + 2 * (mass * np.cos(np.arange(1, 10)[:, None] * v)).sum(axis=0)) / (1 + 2 * mass.sum())) ** times
    return f


def _reach(terms: Counter[tuple[float, Noise]]) -> float:
    """An R with P(|S| > R) <= _TAIL, by Chernoff: R = (sum_i ln E exp(x c_i Z_i) + ln(2 / _TAIL)) / x, best of 60 x.

    Laplace: E exp(x Z) = 1 / (1 - (sinh(x/2) / sinh(1/2s))^2) for x < 1/s. Gaussian: at most exp(s^2 x^2 / 2).
    """
    squares = sum(n * (c * noise.scale) ** 2 for (c, noise), n in terms.items() if noise.family == "gaussian")
    pole = min((1 / (c * noise.scale) for (c, noise) in terms if noise.family == "laplace"), default=math.inf)
    low = 1 / math.sqrt(squares) if squares else math.inf
    x = np.geomspace(min(1e-4 * pole, low), min(0.999 * pole, 20 * low), 60)
    exponent = squares * x**2 / 2 + math.log(2 / _TAIL)
    for (c, noise), n in terms.items():
        if noise.family == "laplace":
            a, b = x * c / 2, 0.5 / noise.scale
            exponent -= n * np.log1p(-((np.exp(a - b) * np.expm1(-2 * a) / math.expm1(-2 * b)) ** 2))
    return float(np.min(exponent / x))

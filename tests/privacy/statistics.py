"""Statistical tools of the privacy tests: goodness of fit and empirical lower bounds of epsilon.

Every test has one public false-alarm rate, FALSE_ALARM: the chance that a correct sampler fails it once.
MISSED is the rate below which a wrong sampler must pass; tests choose sample sizes so that it is far smaller.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-9
MIN_EXPECTED = 20.0  # chi-square cells below this many expected hits are merged with their neighbours
MAX_EVENTS = 400  # threshold and interval events that one audit looks at


def chi_square_p(sample: Sequence[int], cdf: Callable[[int], float], max_cells: int = 400) -> float:
    """p-value of a sample of integers against P(Z <= k) = cdf(k); cells are intervals of about equal probability."""
    n = len(sample)
    low, high = _quantile(cdf, MIN_EXPECTED / n), _quantile(cdf, 1 - MIN_EXPECTED / n)
    step = max(1, (high - low) // (4 * max_cells))
    wanted = max(MIN_EXPECTED, n / max_cells)
    edges, last = [], 0.0
    for k in range(low, high + 1, step):
        now = cdf(k)
        if n * (now - last) >= wanted and n * (1 - now) >= MIN_EXPECTED:
            edges.append(k)
            last = now
    if not edges:
        raise ValueError("the law has too few cells for a chi-square test of this sample")
    cells = np.bincount(np.searchsorted(np.array(edges), np.array(sample)), minlength=len(edges) + 1)
    expected = n * np.diff([0.0, *(cdf(k) for k in edges), 1.0])
    return float(stats.chi2.sf(np.sum((cells - expected) ** 2 / expected), len(edges)))


def ks_p(sample: Sequence[float], cdf: Callable[[np.ndarray], np.ndarray]) -> float:
    """p-value of the Kolmogorov-Smirnov test against a continuous law (conservative for a discrete one)."""
    return float(stats.kstest(np.asarray(sample, dtype=float), cdf).pvalue)


def fits(p_value: float) -> bool:
    """Whether a goodness-of-fit test passes; a correct sampler fails with probability FALSE_ALARM."""
    return p_value >= FALSE_ALARM


def clopper_pearson(hits: int, n: int, failure: float) -> tuple[float, float]:
    """Interval that misses the true probability with at most ``failure`` on either side."""
    lower = float(stats.beta.ppf(failure, hits, n - hits + 1)) if hits else 0.0
    upper = float(stats.beta.isf(failure, hits + 1, n - hits)) if hits < n else 1.0
    return lower, upper


def epsilon_lower_bound(
    first: Sequence[int], second: Sequence[int], delta: float = 0.0, failure: float = FALSE_ALARM
) -> float:
    """Lower bound of epsilon from outputs on two neighbours; it exceeds the true one with at most ``failure``.

    The events (tails and intervals of the outputs) are ranked on one half of both samples. The best in each direction
    is then measured on the other half, where it is a fixed event, so no correction for the choice is needed.
    """
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    bounds = []
    for high, low in ((a, b), (b, a)):
        event = _best_event(high[::2], low[::2], delta)
        bounds.append(_measured(high[1::2], low[1::2], event, delta, failure / 4))
    return max(0.0, *bounds)


def point_epsilon_lower_bound(first: Sequence[object], second: Sequence[object], failure: float = FALSE_ALARM) -> float:
    """The same for outputs without an order: the event is a set of outputs that are likelier in one sample."""
    best = 0.0
    for high, low in ((first, second), (second, first)):
        seen, other = Counter(high[::2]), Counter(low[::2])
        ranked = sorted(seen, key=lambda out: -seen[out] / (other[out] + 1))
        for size in {1, 2, 4, 8, 16} & set(range(len(ranked) + 1)):
            chosen = set(ranked[:size])
            hits = [sum(out in chosen for out in half) for half in (high[1::2], low[1::2])]
            sizes = (len(high[1::2]), len(low[1::2]))
            best = max(best, _log_ratio(hits, sizes, 0.0, failure / 20))
    return best


def _best_event(high: np.ndarray, low: np.ndarray, delta: float) -> tuple[float, float]:
    """Interval [start, end) with the largest bound on this half."""
    inner = np.unique(np.quantile(np.concatenate([high, low]), np.linspace(0, 1, 25)[1:-1]))
    far = np.unique(np.quantile(np.concatenate([high, low]), [1e-4, 1e-3, 0.003, 0.01, 0.99, 0.997, 0.999, 0.9999]))
    cuts = np.unique(np.concatenate([inner, far]))
    events = [(-math.inf, cut) for cut in cuts] + [(cut, math.inf) for cut in cuts]
    events += [(s, e) for i, s in enumerate(cuts) for e in cuts[i + 1 :]]
    step = max(1, len(events) // MAX_EVENTS)
    chosen = events[: 2 * len(cuts)] + events[2 * len(cuts) :: step]
    return max(chosen, key=lambda event: _measured(high, low, event, delta, 1e-3))


def _measured(high: np.ndarray, low: np.ndarray, event: tuple[float, float], delta: float, failure: float) -> float:
    hits = [int(np.sum((half >= event[0]) & (half < event[1]))) for half in (high, low)]
    return _log_ratio(hits, (len(high), len(low)), delta, failure)


def _log_ratio(hits: Sequence[int], sizes: tuple[int, int], delta: float, failure: float) -> float:
    lower = clopper_pearson(hits[0], sizes[0], failure)[0] - delta
    upper = clopper_pearson(hits[1], sizes[1], failure)[1]
    return math.log(lower / upper) if lower > 0 else -math.inf


def _quantile(cdf: Callable[[int], float], p: float) -> int:
    """Smallest integer k with cdf(k) >= p, by doubling and bisection."""
    low, high = -1, 1
    while cdf(low) >= p:
        low *= 2
    while cdf(high) < p:
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cdf(middle) >= p else (middle, high)
    return high

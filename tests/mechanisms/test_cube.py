from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import pytest
from scipy import stats

from duckdp.core.noise import uniform_below
from duckdp.errors import InternalError, ParameterError
from duckdp.mechanisms import cube
from duckdp.mechanisms.cube import cube_noise, cube_rate, cube_standard_error
from tests.privacy.statistics import fits


def _cells_p(draws: list[tuple[int, ...]], rate: float, size: int, reach: int) -> float:
    """Chi-square of every cell of {-reach..reach}^size, the rest in one cell."""
    weights = {z: exp(-rate * max(map(abs, z))) for z in product(range(-reach, reach + 1), repeat=size)}
    far = sum(exp(-rate * m) * ((2 * m + 1) ** size - (2 * m - 1) ** size) for m in range(reach + 1, 4000))
    total = sum(weights.values()) + far
    seen = Counter(draws)
    n = len(draws)
    expected = [n * w / total for w in weights.values()] + [n * far / total]
    hits = [seen[z] for z in weights]
    hits.append(n - sum(hits))
    return float(stats.chi2.sf(sum((h - e) ** 2 / e for h, e in zip(hits, expected, strict=True)), len(hits) - 1))


@pytest.mark.parametrize(
    ("size", "rate", "reach"), [(1, Fraction(1, 3), 6), (2, Fraction(1, 2), 3), (3, Fraction(1, 2), 1)]
)
def test_law_in_every_cell(size: int, rate: Fraction, reach: int) -> None:
    """False alarm 1e-9 each; the twins are the same sampler at another rate, and one without the rejection."""
    draws = [tuple(cube_noise(size, rate)) for _ in range(20_000)]
    assert fits(_cells_p(draws, float(rate), size, reach))
    for wrong in (0.8, 1.25):
        assert not fits(_cells_p(draws, float(rate) * wrong, size, reach))


def test_twin_without_rejection_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_rejection(rate: Fraction, size: int) -> int:
        return sum(cube.geometric(rate) for _ in range(size + 1))

    monkeypatch.setattr(cube, "_half_side", no_rejection)
    draws = [tuple(cube_noise(2, Fraction(1, 2))) for _ in range(20_000)]
    assert not fits(_cells_p(draws, 0.5, 2, 3))


def test_standard_error_and_correlation() -> None:
    rate = Fraction(1, 1000)
    draws = np.array([cube_noise(10, rate) for _ in range(4000)], dtype=float)
    ratio = draws.std(axis=0) / cube_standard_error(rate, 10)
    assert np.all(np.abs(ratio - 1) < 0.09)  # 40,000 values, standard error of each ratio about 0.014
    correlation = np.corrcoef(draws.T) - np.eye(10)
    assert np.abs(correlation).max() < 0.12


def test_exact_mixture_weight() -> None:
    """P(K) ~ exp(-s K) (2K+1)^R, against the exact law of K."""
    rate, size = Fraction(1, 5), 4
    draws = [cube._half_side(rate, size) for _ in range(10_000)]
    weights = np.array([exp(-float(rate) * k) * (2 * k + 1) ** size for k in range(400)])
    cdf = np.cumsum(weights / weights.sum())
    edges = [int(np.searchsorted(cdf, q)) for q in np.linspace(0.02, 0.98, 25)]
    edges = sorted(set(edges))
    counts = np.bincount(np.searchsorted(np.array(edges), draws), minlength=len(edges) + 1)
    expected = len(draws) * np.diff([0.0, *cdf[edges], 1.0])
    assert fits(float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(edges))))


def test_large_vectors_are_quick_and_whole_numbers_stay_exact() -> None:
    drawn = cube_noise(500, Fraction(1, 2**80))
    assert all(type(v) is int for v in drawn)
    assert 2**80 < max(map(abs, drawn)) < 2**80 * 2000


def test_refusals() -> None:
    with pytest.raises(ParameterError) as refused:
        cube_rate(Fraction(1), 1, 3)
    assert refused.value.code == "P103"
    with pytest.raises(ParameterError):
        cube_rate(Fraction(0), 1, 1)
    with pytest.raises(InternalError):
        cube_noise(10, Fraction(1))
    assert uniform_below(1) == 0

"""Variates of a fixed number of bits: the claim by counting every draw of few bits, and what is asked of the source."""

from __future__ import annotations

import inspect
import itertools
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import pytest

from duckdp.core import variates
from duckdp.core.types import ATTO, NANO
from duckdp.core.variates import BITS, GRID, laplace_magnitude, scaled_floor, student2_magnitude, student4_magnitude
from duckdp.mechanisms import admissible_noise
from duckdp.mechanisms.smooth_sensitivity import SmoothQuantile

Magnitude = Callable[[int, int, int], int]
SCALES = (Fraction(1, 9), Fraction(1), Fraction(22, 7), Fraction(50), Fraction(3001, 7))
# density and distribution function of the magnitude
LAWS: dict[str, tuple[Magnitude, Callable[[float], float], Callable[[float], float]]] = {
    "laplace": (laplace_magnitude, lambda z: math.exp(-z), lambda z: -math.expm1(-z)),
    "student": (student2_magnitude, lambda z: 2 * (2 + z * z) ** -1.5, lambda z: z / math.sqrt(2 + z * z)),
    "student4": (
        student4_magnitude,
        lambda z: 12 * (4 + z * z) ** -2.5,
        lambda z: (3 * z / math.sqrt(4 + z * z) - (z / math.sqrt(4 + z * z)) ** 3) / 2,
    ),
}


@cache
def _every(magnitude: Magnitude, bits: int, grid: int) -> list[int]:
    return [magnitude(a, bits, grid) for a in range(1 << bits)]


def _law(magnitude: Magnitude, scale: Fraction, bits: int, grid: int, coarser: int = 0) -> dict[int, Fraction]:
    """The law of Y by counting: every uniform, both signs. ``coarser``: a broken twin that drops bits of a variate."""
    found: Counter[int] = Counter()
    for whole in _every(magnitude, bits, grid):
        size = whole >> coarser << coarser
        found[scaled_floor(size, scale, grid)] += 1
        found[scaled_floor(-size - 1, scale, grid)] += 1
    return {k: Fraction(n, 2 << bits) for k, n in found.items()}


def _excess(family: str, scale: Fraction, bits: int, grid: int, coarser: int = 0) -> float:
    """The largest |P(Y = k) - P(Y* = k)| over the claim, over all k, tails included; at most 1 if the claim holds."""
    magnitude, density, below = LAWS[family]
    law, s = _law(magnitude, scale, bits, grid, coarser), float(scale)
    worst = 0.0
    for k in range(-60, 61):
        near = min(abs(k), abs(k + 1))
        z = max(0.0, near / s - 2.0 ** (1 - grid))
        claim = 2.0 ** -(bits + 1) + 2.0 ** (1 - grid) * density(z)
        off = abs(float(law.get(k, 0)) - (below((near + 1) / s) - below(near / s)) / 2)
        inside = sum(float(p) for y, p in law.items() if (y < k if k < 0 else y > k))
        tail = abs(inside - (1 - below((near + 1) / s)) / 2)
        worst = max(worst, (off - 1e-13) / claim, (tail - 1e-13) / claim)
    return worst


@pytest.mark.parametrize("family", LAWS)
@pytest.mark.parametrize("scale", SCALES)
def test_claim_by_counting_every_draw(family: str, scale: Fraction) -> None:
    for bits, grid in ((6, 3), (8, 12), (10, 5), (11, 20)):
        assert _excess(family, scale, bits, grid) <= 1
        assert sum(p for k, p in _law(LAWS[family][0], scale, bits, grid).items() if k >= 0) == Fraction(1, 2)


@pytest.mark.parametrize("family", LAWS)
def test_twin_on_a_coarser_grid_breaks_the_claim(family: str) -> None:
    assert _excess(family, Fraction(50), 12, 9, coarser=4) > 1.5


def test_the_claim_is_not_idle() -> None:
    """It is met to within a small factor, so that half of it would be wrong somewhere."""
    found = [_excess(f, s, b, g) for f in LAWS for s in SCALES for b, g in ((6, 3), (8, 12))]
    assert max(found) > 0.5


@pytest.mark.parametrize("family", LAWS)
def test_magnitudes_are_in_order_and_near_the_quantile(family: str) -> None:
    magnitude, _, below = LAWS[family]
    places = [0, 1, 2, 2**320, 2**639, 2**640 - 2**321, 2**640 - 2, 2**640 - 1]
    found = [magnitude(a, BITS, GRID) for a in places]
    assert found == sorted(found, reverse=family == "laplace")
    for p in (0.001, 0.3, 0.5, 0.9, 0.999):
        z = magnitude(int(p * 2**BITS), BITS, GRID) / 2**GRID
        assert below(z) == pytest.approx(1 - p if family == "laplace" else p, rel=1e-12)


@pytest.mark.parametrize("draw", [variates.standard_laplace, variates.standard_student2, variates.standard_student4])
def test_one_call_of_a_fixed_width_and_no_argument(draw: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    for bits in (0, 1, 2**641 - 1, 2**641 - 2, 3**300):
        monkeypatch.setattr(variates, "random_bits", lambda count, bits=bits: asked.append(count) or bits)
        assert (draw() < 0) == bool(bits & 1)
    assert asked == [BITS + 1] * 5
    assert not inspect.signature(draw).parameters


@pytest.mark.parametrize("variate", [0, -1, 1, 2**319, -(2**319), 3**500, -(3**500)])
def test_scaled_floor_is_exact_and_total(variate: int) -> None:
    for scale in (Fraction(0), Fraction(1, 3), Fraction(5e-324), Fraction(1.7e308), Fraction(2**90, 7)):
        assert scaled_floor(variate, scale) == math.floor(scale * variate / 2**GRID)


# ---- the mechanism with the law that is really sampled, by counting


def _outcomes(mechanism: SmoothQuantile, m: int, s: float, bits: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    magnitude = laplace_magnitude if mechanism.delta_atto else student2_magnitude
    counts = [0] * (mechanism.grid_cells + 1)
    for size in _every(magnitude, bits, GRID):
        for variate in (size, -size - 1):
            for name in ("standard_laplace", "standard_student2"):
                monkeypatch.setattr(admissible_noise, name, lambda variate=variate: variate)
            counts[mechanism.release(m, s)] += 1
    return counts


def _loss(mechanism: SmoothQuantile, monkeypatch: pytest.MonkeyPatch, *, step: float = 1, bits: int = 11) -> float:
    """Largest log-ratio, or needed delta, over neighbours at the edge of what steps 2 and 3 of the proof allow."""
    worst, grow = 0.0, math.exp(step * float(mechanism.beta))
    for m, s in ((4, 2.0), (0, 3.0), (6, 1.0)):
        first = _outcomes(mechanism, m, s, bits, monkeypatch)
        for n, t in ((m + round(step * s), s * grow), (m + round(step * s), s), (m, s * grow)):
            second = _outcomes(mechanism, n, t, bits, monkeypatch)
            for high, low in ((first, second), (second, first)):
                pairs = list(zip(high, low, strict=True))
                if mechanism.delta_atto:
                    e = math.exp(mechanism.epsilon_nano / NANO)
                    worst = max(worst, sum(max(0.0, p - e * q) for p, q in pairs) / (2 << bits))
                else:
                    worst = max(worst, *(math.log(p / q) for p, q in pairs))
    return worst


def test_pure_privacy_of_the_sampled_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting outcomes of 2^12 draws: each has at least 40 of them, so the ratio errs by less than 2.5%."""
    mechanism = SmoothQuantile(epsilon_nano=NANO, max_rows=1, grid_cells=12)
    assert 0.7 < _loss(mechanism, monkeypatch) <= 1.05
    assert _loss(mechanism, monkeypatch, step=2) > 1.3  # the twin: neighbours twice as far apart


def test_approximate_privacy_of_the_sampled_law(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = SmoothQuantile(epsilon_nano=NANO, delta_atto=ATTO // 100, max_rows=1, grid_cells=12)
    assert _loss(mechanism, monkeypatch) <= 0.01 + 2**-10
    assert _loss(mechanism, monkeypatch, step=3) > 0.03


def test_counts_of_few_bits_are_the_law_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = SmoothQuantile(epsilon_nano=NANO, max_rows=1, grid_cells=12)
    few, many = (_outcomes(mechanism, 3, 2.5, b, monkeypatch) for b in (9, 12))
    assert all(abs(a / 2**10 - b / 2**13) <= 2**-9 for a, b in itertools.zip_longest(few, many))

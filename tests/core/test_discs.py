"""Discs hold every image of their points, and their rounding."""

import cmath
import math
from fractions import Fraction

import numpy as np
import pytest

from duckdp.core import discs as ds

OPERATIONS = {
    "add": (lambda z: z + z, lambda z: z + z),
    "sub": (lambda z: z - ds.point(1.5), lambda z: z - 1.5),
    "neg": (lambda z: -z, lambda z: -z),
    "square": (ds.square, lambda z: z * z),
    "mul": (lambda z: z * (z + ds.point(1.0)), lambda z: z * (z + 1)),
    "reciprocal": (ds.reciprocal, lambda z: 1 / z),
    "power": (lambda z: ds.whole_power(z, 5), lambda z: z**5),
    "exp": (ds.exponential, cmath.exp),
    "ln": (ds.logarithm, cmath.log),
    "sin": (ds.sine, cmath.sin),
    "cos": (ds.cosine, cmath.cos),
    "tanh": (ds.hyperbolic_tangent, cmath.tanh),
    "atan": (ds.arc_tangent, cmath.atan),
}


def missed(name: str, trials: int, seed: int) -> tuple[int, int]:
    """(discs that leave an image out, discs looked at)."""
    ours, exact = OPERATIONS[name]
    rng, wrong, seen = np.random.default_rng(seed), 0, 0
    for _ in range(trials):
        centre = complex(*rng.uniform(-4, 4, 2))
        if rng.random() < 0.3:
            centre = complex(centre.real, 0.0)
        radius = float(rng.choice([0.0, 1e-3, 0.1, 1.0]) * rng.random())
        with np.errstate(all="ignore"):
            found = ours(ds.Discs(np.array(centre), np.array(radius)))
        if np.isnan(found.radius):
            continue  # not analytic there
        seen += 1
        turns = np.exp(2j * np.pi * rng.random(16)) * np.append(np.ones(12), rng.random(4)) * radius
        images = [exact(complex(centre + turn)) for turn in turns]
        slack = 1e-14 * (1 + abs(images[0])) if radius else 1e-15 * (1 + abs(images[0]))  # of the comparison
        wrong += any(abs(image - complex(found.centre)) > float(found.radius) + slack for image in images)
    return wrong, seen


@pytest.mark.parametrize("name", OPERATIONS)
def test_discs_hold_every_image(name: str) -> None:
    wrong, seen = missed(name, 400, 3)
    assert wrong == 0
    assert seen > 150


@pytest.mark.parametrize("name", ["square", "mul", "reciprocal", "exp", "ln", "sin"])
def test_a_radius_of_first_order_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: the derivative at the centre alone."""
    rounded = ds._rounded
    monkeypatch.setattr(ds, "_rounded", lambda c, r, s: rounded(c, r * 0.8, s))
    assert missed(name, 400, 3)[0] > 0


def test_what_is_not_analytic_gives_nothing() -> None:
    for operation, centre, radius in (
        (ds.reciprocal, 0.5, 0.6),
        (ds.reciprocal, 0j, 0.0),
        (ds.logarithm, -1.0, 0.1),
        (ds.logarithm, -1 + 0.05j, 0.1),
        (ds.logarithm, 0.1j, 0.11),
        (ds.hyperbolic_tangent, 1j * math.pi / 2, 0.1),
        (ds.arc_tangent, 1.1j, 0.2),
    ):
        with np.errstate(all="ignore"):
            found = operation(ds.Discs(np.array(complex(centre)), np.array(radius)))
        assert np.isnan(found.size())


def test_the_radius_of_a_number_holds_its_rounding() -> None:
    """Sums, products and quotients of fractions, cancelled: exact values lie within the discs."""
    rng = np.random.default_rng(5)
    for _ in range(300):
        a, b, c = (float(v) for v in rng.uniform(-3, 3, 3) * 10.0 ** rng.integers(-6, 7, 3))
        x, y, z = (ds.point(v) for v in (a, b, c))
        found = (x * y + z) * (x - y) - ds.reciprocal(z) * ds.square(x)
        fa, fb, fc = Fraction(a), Fraction(b), Fraction(c)
        exact = (fa * fb + fc) * (fa - fb) - fa * fa / fc
        gap = abs(exact - Fraction(float(found.centre.real)))
        assert gap <= Fraction(float(found.radius))
        assert float(found.radius) < 1e-11 * (abs(a * b * (a - b)) + abs(c * (a - b)) + abs(a * a / c) + 1e-9)

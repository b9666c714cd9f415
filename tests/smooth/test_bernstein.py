"""Bounds from complex interval arithmetic: never below the true error, and close to it."""

import cmath

import numpy as np
import pytest

from duckdp.compiler.expression import columns
from duckdp.core import rectangles as rc
from duckdp.smooth.fit import bernstein, coefficients
from duckdp.smooth.fit.coefficients import approximate, read_function
from duckdp.smooth.fit.parts import part_of
from duckdp.smooth.fit.points import Points, evaluate
from duckdp.smooth.summary import make_basis
from tests.smooth.expressions import analytic, generator
from tests.smooth.tables import column

X, Y = column("x"), column("y")
SEX = column("sex", None, None, "VARCHAR", domain=("F", "M", "X"))
OPERATIONS = {
    "add": (lambda z: z + z, lambda z: z + z),
    "square": (rc.square, lambda z: z * z),
    "mul": (lambda z: z * (z + rc.point(1.0)), lambda z: z * (z + 1)),
    "reciprocal": (rc.reciprocal, lambda z: 1 / z),
    "power": (lambda z: rc.whole_power(z, 5), lambda z: z**5),
    "exp": (rc.exponential, cmath.exp),
    "ln": (rc.logarithm, cmath.log),
    "sin": (rc.sine, cmath.sin),
    "cos": (rc.cosine, cmath.cos),
    "tanh": (rc.hyperbolic_tangent, cmath.tanh),
    "atan": (rc.arc_tangent, cmath.atan),
}


def interpolation_error(function, axes):
    """The theorem's bound for interpolation of the columns' own degrees, or None where none is found."""
    found = bernstein.growth(function, axes)
    bound = np.inf if found is None else found.bound([axis.degree for axis in axes])
    return bound if np.isfinite(bound) else None


def rectangle(rng):
    """A random rectangle, at times a line or a point."""
    size = rng.choice([0.0, 0.05, 1.0, 4.0], 2)
    a, c = rng.uniform(-4, 4, 2)
    return a, a + size[0] * rng.random(), c, c + size[1] * rng.random()


def outside(found, value, slack=0.0):
    a, b, c, d = (float(v) for v in (found.re.low, found.re.high, found.im.low, found.im.high))
    return not (a - slack <= value.real <= b + slack and c - slack <= value.imag <= d + slack)


@pytest.mark.parametrize("name", OPERATIONS)
def test_rectangles_hold_every_image(name):
    ours, exact = OPERATIONS[name]
    rng, seen = generator(3), 0
    for _ in range(400):
        a, b, c, d = rectangle(rng)
        at = rc.Rectangle(rc.Span(np.array(a), np.array(b)), rc.Span(np.array(c), np.array(d)))
        with np.errstate(all="ignore"):
            found = ours(at)
        if np.isnan(found.re.low):
            continue  # not analytic there
        seen += 1
        inside = rng.random((12, 2)).round(rng.integers(0, 3))  # corners and edges too
        assert not any(outside(found, exact(complex(a + (b - a) * p, c + (d - c) * q))) for p, q in inside)
    assert seen > 150


def test_a_reciprocal_from_corners_alone_is_caught():
    """The broken twin: the range of Re 1/z is not reached at corners only."""
    rng = generator(4)
    missed = 0
    for _ in range(300):
        a, b, c, d = rectangle(rng)
        if a <= 0 <= b and c <= 0 <= d:
            continue
        corners = [1 / complex(x, y) for x in (a, b) for y in (c, d)]
        low, high = min(z.real for z in corners), max(z.real for z in corners)
        values = [1 / complex(x, y) for x in np.linspace(a, b, 9) for y in np.linspace(c, d, 9)]
        missed += any(not low - 1e-9 <= z.real <= high + 1e-9 for z in values)
    assert missed > 20


@pytest.mark.parametrize(
    ("operation", "low", "high"), [(rc.reciprocal, -1, 1), (rc.logarithm, -2, 1), (rc.logarithm, -2, -1)]
)
def test_operations_that_are_not_analytic_give_nothing(operation, low, high):
    at = rc.Rectangle(rc.Span(np.array(float(low)), np.array(float(high))), rc.Span(np.array(-0.1), np.array(0.1)))
    with np.errstate(all="ignore"):
        assert np.isnan(operation(at).re.low)


def true_error(function, basis, found, points, seed=0):
    u = generator(seed).uniform(-1, 1, (points, basis.dimensions))
    u[: points // 8] = np.round(u[: points // 8])  # corners and edges
    worst = 0.0
    for at in np.array_split(u, max(1, points // 5000)):
        x = tuple(axis.from_unit(at[:, i]) for i, axis in enumerate(basis.axes))
        values = evaluate(function, Points(basis.axes, x))
        placed = np.stack([axis.to_unit(x[i]) for i, axis in enumerate(basis.axes)], axis=1)
        worst = max(worst, float(np.max(np.abs(values - basis.evaluate(placed) @ found))))
    return worst


def compare(count, points, seed):
    """(violations of the reported error, of the theorem's bound, proved, ratios of reported to true error)."""
    rng = generator(seed)
    wrong, below, proved, ratios = 0, 0, 0, []
    for k in range(count):
        known = (X, Y)[: 1 + k % 2]
        basis = make_basis(known, int(rng.integers(2, 14)))
        function = read_function(analytic(rng, [c.name for c in known]), "t", known)
        found = approximate(function, basis)
        error = true_error(function, basis, found.coefficients, points)
        wrong += error > found.error
        proved += found.proved
        part = part_of(basis, frozenset(c.name for c in columns(function)))
        bound = interpolation_error(function, part.axes)
        below += bound is not None and error > bound + 1e-11
        if error > 1e-9:
            ratios.append(found.error / error)
    return wrong, below, proved, ratios


def test_no_error_exceeds_its_bound_and_few_bounds_are_loose():
    wrong, below, proved, ratios = compare(40, 4000, 11)
    assert (wrong, below) == (0, 0)
    assert proved >= 36
    assert np.median(ratios) < 1.5


@pytest.mark.slow
def test_no_error_of_hundreds_exceeds_its_bound():
    wrong, below, proved, _ = compare(400, 100_000, 12)
    assert (wrong, below) == (0, 0)
    assert proved >= 360


def test_a_certificate_that_forgets_the_tail_is_caught(monkeypatch):
    """The broken twin: |q - p| without |f - q|, q at the same nodes as p."""
    monkeypatch.setattr(coefficients, "FINER", (1,))
    monkeypatch.setattr(bernstein.Growth, "bound", lambda *_: 0.0)
    wrong, _, _, _ = compare(12, 2000, 11)
    assert wrong >= 6


def test_the_theorem_is_nearly_reached_so_a_smaller_factor_is_caught():
    """T_t vanishes on its zeros, so the error is 1; the bound is 2 rho / (rho - 1) for a large rho."""
    wide = column("x", -1.0, 1.0)
    function = read_function("2 * power(x, 2) - 1", "t", (wide,))
    axes = make_basis((wide,), 2).axes
    grown = bernstein.growth(function, axes)
    assert 1 <= grown.bound([2]) < 3
    assert min(grown.largest[0] / bernstein.RHOS / (bernstein.RHOS - 1)) < 1  # without the 4
    assert min(4 * grown.largest[0] / bernstein.RHOS**2 / (bernstein.RHOS - 1)) < 1  # with rho^-t


@pytest.mark.parametrize(
    "text",
    [
        "abs(x - 0.5)",
        "floor(x)",
        "CASE WHEN x > 0.5 THEN 1 ELSE 0 END",
        "greatest(x, 0.5)",
        "x > 0.5",
        "round(x, 1)",
        "power(abs(x - 0.5), 3)",
        "least(x, y)",
        "nullif(x, 2)",
    ],
)
def test_what_bends_or_jumps_is_not_analytic(text):
    basis = make_basis((X, Y), 6)
    function = read_function(text, "t", (X, Y))
    assert interpolation_error(function, basis.axes) is None or function.kind.value == "boolean"
    found = approximate(function, basis)
    assert true_error(function, basis, found.coefficients, 3000) <= found.error


@pytest.mark.parametrize(
    "text",
    [
        "CASE WHEN sex = 'F' THEN exp(-x) WHEN sex = 'M' THEN x ELSE sin(x * 3) END",
        "exp(-x) * (sex IN ('F', 'X'))",
        "greatest(x + 2, 1) * y",
        "abs(x + 1) + abs(-2 - y)",
        "coalesce(exp(x), 0)",
        "length(sex) * exp(x - y)",
    ],
)
def test_what_is_analytic_for_each_value_of_a_listed_column_is_proved(text):
    known = (column("x", nullable=False), column("y", nullable=False), SEX)
    basis = make_basis(known, 7)
    function = read_function(text, "t", known)
    found = approximate(function, basis)
    assert found.proved
    assert true_error(function, basis, found.coefficients, 3000) <= found.error < 1e-3


def test_functions_with_a_pole_near_the_bounds_are_bounded_by_it():
    errors = [approximate(read_function(f"1 / (x + {a})", "t", (X,)), make_basis((X,), 12)) for a in (0.01, 0.1, 1.0)]
    assert [e.proved for e in errors] == [True] * 3
    assert errors[0].error > 100 * errors[1].error > 1e4 * errors[2].error

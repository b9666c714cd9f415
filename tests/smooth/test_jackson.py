"""The generalized Jackson kernel: multipliers against an integral, quadrature against moments, the proved rate."""

import math

import numpy as np
import pytest

from duckdp.errors import NumericalError
from duckdp.smooth.fit import jackson
from duckdp.smooth.fit.coefficients import approximate, read_function
from duckdp.smooth.fit.jackson import _kernel_sizes, clenshaw_curtis, multipliers
from duckdp.smooth.summary import make_basis
from tests.smooth.tables import column

X, Y = column("x", -1.0, 1.0), column("y", -1.0, 1.0)


def rate(t: int, smoothness: int) -> float:
    """2 int H |s|^K ds: the error per bound of the K-th derivative of g, one variable (module docstring)."""
    r, length = _kernel_sizes(t - 1, smoothness)
    s = (np.arange(200 * t) + 0.5) * (np.pi / (200 * t))
    kernel = (np.sin(length * s / 2) / np.sin(s / 2)) ** (2 * r)
    return float(2 * np.sum(kernel * s**smoothness) / np.sum(kernel))


def operator(g, n, smoothness, x):
    """I g(x) by its definition: an integral over s on a fine equispaced grid (exact for trigonometric polynomials)."""
    r = math.ceil((smoothness + 3) / 2)
    length = n // r + 1
    s = (np.arange(4000) + 0.5) * (2 * np.pi / 4000) - np.pi
    kernel = (np.sin(length * s / 2) / np.sin(s / 2)) ** (2 * r)
    kernel /= kernel.sum()
    order = smoothness + 1
    total = sum((-1) ** i * math.comb(order, i) * g(x[:, None] + i * s) for i in range(1, order + 1))
    return -(total * kernel).sum(axis=1)


@pytest.mark.parametrize(("t", "smoothness"), [(8, 1), (17, 2), (33, 4), (12, 8)])
def test_multipliers_are_those_of_the_operator(t, smoothness):
    x = np.linspace(0, np.pi, 7)
    for m in range(t + 3):
        direct = operator(lambda theta, m=m: np.cos(m * theta), t - 1, smoothness, x)
        factor = multipliers(t, smoothness)[m] if m < t else 0.0
        np.testing.assert_allclose(direct, factor * np.cos(m * x), atol=1e-9 if m < t else 1.0)
    assert multipliers(t, smoothness)[0] == pytest.approx(1)


def test_clenshaw_curtis_integrates_polynomials_and_is_nested():
    assert clenshaw_curtis(1)[1].tolist() == [2.0]  # the midpoint; 2^(k-1) + 1 would give two nodes
    for k in range(1, 8):
        nodes, weights = clenshaw_curtis(k)
        assert len(nodes) == (1 if k == 1 else 2 ** (k - 1) + 1)
        for p in range(len(nodes)):
            assert weights @ nodes**p == pytest.approx(2 / (p + 1) if p % 2 == 0 else 0, abs=1e-13)
        finer = clenshaw_curtis(k + 1)[0]
        assert np.abs(finer[:, None] - nodes).min(axis=0).max() < 1e-15


def test_the_printed_weights_are_caught():
    """The broken twin: weights of the extrema put on the zeros do not integrate x^2."""
    _, weights = clenshaw_curtis(5)
    m = len(weights)
    zeros = np.cos((2 * np.arange(m) + 1) * np.pi / (2 * m))
    assert abs(weights @ zeros**2 - 2 / 3) > 1e-3


def fit(text, known, t, smoothness):
    return approximate(read_function(text, "t", known), make_basis(known, t), method="jackson", smoothness=smoothness)


def error(found, f, t, d=1):
    u = np.cos(np.linspace(0, np.pi, 301))
    if d == 1:
        return np.max(np.abs(f(u) - np.polynomial.chebyshev.chebval(u, found.coefficients)))
    p = np.polynomial.chebyshev.chebgrid2d(u, u, found.coefficients.reshape(t, t))
    return np.max(np.abs(f(u[:, None], u[None, :]) - p))


def test_smooth_functions_are_approximated_at_the_proved_rate():
    """For f = exp: never above 2 max|g^(K)| int H |s|^K, and falling like n^-K."""
    theta = np.linspace(0, 2 * np.pi, 20_001)
    series = np.polynomial.chebyshev.chebinterpolate(np.exp, 40)
    for smoothness in (2, 4):
        derivative = sum(c * k**smoothness * np.cos(k * theta + smoothness * np.pi / 2) for k, c in enumerate(series))
        largest = np.max(np.abs(derivative))
        scaled = []
        for t in (17, 33, 65, 129):
            now = error(fit("exp(x)", (X,), t, smoothness), np.exp, t)
            assert now <= largest * rate(t, smoothness)
            scaled.append(now * (t - 1) ** smoothness)
        assert max(scaled) < 5 * scaled[0]


def test_the_rate_is_of_order_k_and_a_faster_one_is_caught():
    for smoothness in (1, 2, 4):
        scaled = [rate(t, smoothness) * (t - 1) ** smoothness for t in (65, 129, 257)]
        assert max(scaled) < 1.3 * min(scaled)
        faster = [s * t for s, t in zip(scaled, (65, 129, 257), strict=True)]  # the t^-(K+1) that is printed
        assert max(faster) > 2 * min(faster)


def test_two_columns_on_a_sparse_grid():
    found = fit("exp(x - y) * cos(y)", (X, Y), 20, 2)
    assert error(found, lambda x, y: np.exp(x - y) * np.cos(y), 20, 2) <= found.error < 0.4
    assert found.proved
    factors = (
        np.polynomial.chebyshev.chebinterpolate(np.exp, 19),
        np.polynomial.chebyshev.chebinterpolate(lambda y: np.exp(-y) * np.cos(y), 19),
    )
    wide = np.outer(factors[0] * multipliers(20, 2), factors[1] * multipliers(20, 2))
    np.testing.assert_allclose(found.coefficients.reshape(20, 20), wide, atol=1e-7)


def test_columns_of_few_values_are_exact_and_others_follow():
    sex = column("sex", None, None, "VARCHAR", domain=("F", "M"))
    function = read_function("CASE WHEN sex = 'F' THEN x ELSE 2 END", "t", (X, sex))
    found = approximate(function, make_basis((X, sex), 30), method="jackson", smoothness=2)
    assert found.error < 0.05
    assert approximate(read_function("length(sex)", "t", (sex,)), make_basis((sex,), 4), method="jackson").error < 1e-12


def test_too_many_columns_for_the_quadrature_are_refused(monkeypatch):
    monkeypatch.setattr(jackson, "MAX_POINTS", 0)
    with pytest.raises(NumericalError) as caught:
        fit("x * y", (X, Y), 6, 2)
    assert caught.value.code == "N102"

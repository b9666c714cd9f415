"""Parameters of Algorithm 3 and its error bound: against the paper, brute force, and measured errors."""

import math
from fractions import Fraction
from functools import partial

import duckdb
import numpy as np
import pytest

from duckdp.errors import ParameterError
from duckdp.smooth.angles import angle_nodes, middles_between, round_to_angles
from duckdp.smooth.sums.grid import print_search
from duckdp.synthetic.lp.make.generation import generate
from duckdp.synthetic.lp.make.interior import Objective
from duckdp.synthetic.theorem import parameters
from duckdp.synthetic.theorem.parameters import (
    approximation_bounds,
    round_means,
    theorem_17_bound,
    theorem_17_parameters,
    theorem_22_parameters,
)
from tests.synthetic.programs import make_program


def test_the_papers_parameters():
    for n, d, k in ((1000, 1, 1), (10_000, 2, 2), (54_321, 3, 6), (10**9, 2, 8)):
        made = theorem_17_parameters(n, d, k)
        order = 2 * d + k
        assert made.degree == max(2, math.ceil(n ** (1 / order) - 1e-9))
        assert made.values == max(2, math.ceil(n ** (k / order) * (1 - 1e-12)))
        assert made.steps == math.ceil(n ** ((d + k) / order) * (1 - 1e-12))
        assert made.rows == pytest.approx(n ** (1 + (k + 1) / order), rel=1e-9, abs=1)
        gauss = theorem_22_parameters(n, d, k, Fraction(1), 1e-6)
        log, order = math.log(1e6), 3 * d + 2 * k
        assert gauss.degree == max(2, math.ceil(n ** (2 / order) * log ** (-1 / order) - 1e-9))
        assert gauss.values == max(2, math.ceil(n ** (2 * k / order) * log ** (-k / order) * (1 - 1e-12)))
        assert gauss.steps == math.ceil(n ** (2 * (d + k) / order) * log ** (-(d + k) / order) * (1 - 1e-12))
        expected = n ** ((4 * d + 4 * k + 2) / order) * log ** (-(2 * d + 2 * k + 1) / order)
        assert gauss.rows == pytest.approx(expected, rel=1e-9, abs=1)


def test_exact_roots_where_floats_are_off():
    assert 10**6 ** (1 / 6) != 10  # the float that a ceiling would raise to 11
    assert theorem_17_parameters(10**6, 1, 4).degree == 10
    assert theorem_17_parameters(10**6 + 1, 1, 4).degree == 11
    assert theorem_17_parameters(10**8, 1, 4, Fraction(1, 100)) == theorem_17_parameters(10**6, 1, 4)


@pytest.mark.parametrize("bad", [(0, 1, 1), (10, 0, 1), (10, 1, 0), (10, 1, 31), (1.5, 1, 1), (True, 1, 1)])
def test_parameters_out_of_range_are_refused(bad):
    with pytest.raises(ParameterError):
        theorem_17_parameters(*bad)
    for epsilon, delta in ((Fraction(0), 0.1), (Fraction(1), 0.0), (Fraction(1), 1.0)):
        with pytest.raises(ParameterError):
            theorem_22_parameters(10, 1, 1, epsilon, delta)


def test_bell_numbers_are_the_chain_rule():
    assert [parameters._bell(k) for k in range(1, 8)] == [1, 2, 5, 15, 52, 203, 877]


def _korovkin(degree):
    """Multipliers of the Fejer-Korovkin kernel: autocorrelation of sin((l + 1) pi / (n + 2))."""
    a = np.sin((np.arange(degree + 1) + 1) * np.pi / (degree + 2))
    return np.array([a[: degree + 1 - k] @ a[k:] for k in range(degree + 1)]) / (a @ a)


@pytest.mark.parametrize("t", [3, 6, 12])
def test_approximation_bounds_hold_for_the_operators(t):
    """|cos(a) - x0| and its square are extreme for one and two derivatives; h made by the kernel itself."""
    m = 4096
    angles = (np.arange(m) + 0.5) * np.pi / m
    multipliers = _korovkin(t - 1)
    for k, f in ((1, lambda x, c: np.abs(x - c)), (2, lambda x, c: (x - c) * np.abs(x - c) / 2)):
        for c in (-0.7, 0.0, 0.3):
            g = f(np.cos(angles), c)
            size = max(1.0, np.abs(g).max())
            table = np.cos(np.outer(np.arange(t), angles))
            coefficients = 2 / m * (table @ g)
            coefficients[0] /= 2
            error = np.abs(multipliers * coefficients @ table - g).max()
            bounds = approximation_bounds(dimensions=1, smoothness=k, size=size, degree=t)
            assert error <= bounds[k - 1][0]
            assert np.abs(multipliers * coefficients).max() <= bounds[k - 1][1]
            assert error > 0.02 * bounds[k - 1][0]
    # broken twin: a degree too high by a factor of ten is caught
    assert error > approximation_bounds(dimensions=1, smoothness=2, size=1.0, degree=10 * t)[1][0]


def test_jackson_moment_against_other_points():
    for degree, k in ((0, 2), (5, 2), (12, 5)):
        r = (k + 4) // 2
        s = np.linspace(1e-9, np.pi, 100_001)
        inner = degree // r + 1
        kernel = (np.sin(inner * s / 2) / np.sin(s / 2)) ** (2 * r)
        expected = np.trapezoid(kernel * s**k, s) / np.trapezoid(kernel, s)
        assert parameters._kernel_moment(degree, k) == pytest.approx(expected, rel=1e-5)


def test_noise_quantiles():
    rng = np.random.default_rng(3)
    laplace = np.abs(rng.laplace(scale=2.0, size=(20_000, 40))).sum(axis=1)
    gauss = np.abs(rng.normal(scale=2.0, size=(20_000, 40))).sum(axis=1)
    for failure in (0.3, 0.05, 0.01):
        exact = parameters._l1_quantile(40, 2.0, failure, gaussian=False)
        assert np.mean(laplace > exact) == pytest.approx(failure, abs=6 * math.sqrt(failure / 20_000))
        assert np.mean(gauss > parameters._l1_quantile(40, 2.0, failure, gaussian=True)) <= failure
    assert np.mean(laplace > 0.8 * exact) > 0.05  # broken twin: a scale 20 % too small


@pytest.mark.parametrize(("d", "t", "per_axis"), [(1, 8, 60), (2, 5, 30), (3, 4, 16)])
def test_measured_error_against_the_bound(d, t, per_axis):
    """Random smooth queries stay below (22), and the worst combination of moments below its noise and fit terms."""
    program = make_program(d, t, per_axis, rows=20_000, seed=d)
    objective = Objective(target=program.target, norm="l1", weights=np.ones(t**d - 1))
    found = generate(program.grid, objective, enough=program.enough)
    bound = theorem_17_bound(
        rows=20_000,
        dimensions=d,
        smoothness=2,
        size=1.0,
        degree=t,
        values=per_axis,
        scale=program.scale,
        fit=found.loss,
        failure=1e-6,
    )
    nodes = angle_nodes(per_axis)[found.points]
    rng = np.random.default_rng(5)
    worst = 0.0
    for _ in range(200):
        centre = rng.uniform(-1, 1, d)
        width = rng.uniform(1.0, 3.0)  # all derivatives up to order 2 are at most 1

        def query(x, centre=centre, width=width):
            return np.exp(-((x - centre) ** 2).sum(axis=1) / (2 * width**2))

        worst = max(worst, abs(found.weights @ query(nodes) - query(program.data).mean()))
    assert worst <= bound.total
    assert worst > 1e-5
    # c = signs of the moments' differences is the worst polynomial: it needs fit and noise both
    difference = np.abs(program.grid.columns(found.points) @ found.weights - program.true).sum()
    assert difference <= (bound.fit + bound.noise) / bound.coefficient
    assert difference <= found.loss + np.abs(program.target - program.true).sum() + 1e-9
    assert bound.total == pytest.approx(
        bound.discretization + bound.approximation + bound.noise + bound.fit + bound.sampling + bound.rounding
    )


def test_the_noise_term_is_needed():
    """Broken twin of the bound: F alone does not cover the error, as the fit follows the noise."""
    program = make_program(2, 5, 30, rows=2000, seed=9)
    objective = Objective(target=program.target, norm="l1", weights=np.ones(24))
    found = generate(program.grid, objective, gap=0.01)
    difference = np.abs(program.grid.columns(found.points) @ found.weights - program.true).sum()
    noise = np.abs(program.target - program.true).sum()
    assert found.loss < difference <= found.loss + noise


def test_bound_terms_grow_as_they_should():
    base = {
        "rows": 10_000,
        "dimensions": 2,
        "smoothness": 2,
        "size": 1.0,
        "degree": 6,
        "values": 50,
        "scale": 36.0,
        "fit": 0.1,
        "failure": 0.01,
        "drawn": 10_000,
        "steps": 1000,
    }
    first = theorem_17_bound(**base)
    assert theorem_17_bound(**{**base, "drawn": 40_000}).sampling == pytest.approx(first.sampling / 2)
    assert theorem_17_bound(**{**base, "steps": 2000}).rounding == pytest.approx(first.rounding / 2)
    assert theorem_17_bound(**{**base, "values": 99}).discretization == pytest.approx(first.discretization / 2)
    assert theorem_17_bound(**{**base, "count_public": True}).noise < first.noise
    assert theorem_17_bound(**{**base, "rows": 30}).total == math.inf
    with pytest.raises(ParameterError):
        theorem_17_bound(**{**base, "failure": 0.0})


def test_rounded_means():
    means = np.array([1.0, -1.3, 0.12345, 0.5])
    rounded = round_means(means, 100)
    assert np.abs(rounded - means).max() <= 1 / 200 + 1e-15
    np.testing.assert_allclose(rounded * 100, np.rint(rounded * 100), atol=1e-12)
    assert rounded[1] == -1.3
    assert round_means(means, 100, clip=True)[1] == -1
    with pytest.raises(ParameterError):
        round_means(means, 0)


@pytest.mark.parametrize("count", [2, 3, 24, 100])
def test_sql_rounds_as_numpy(count):
    rng = np.random.default_rng(count)
    nodes = angle_nodes(count)
    middles = -np.cos(np.pi * (np.arange(count - 1) + 0.5) / (count - 1))
    beside = [np.nextafter(v, way) for v in (nodes, middles) for way in (-1, 1)]
    special = np.clip(np.concatenate([nodes, middles, *beside, [-1, 1, 0.0, -0.0]]), -1, 1)
    u = np.concatenate([rng.uniform(-1, 1, 50_000), np.cos(rng.uniform(0, np.pi, 50_000)), special])
    search = partial(
        print_search, middles=middles_between(nodes), leaves=[f"CAST({i} AS INTEGER)" for i in range(count)]
    )
    with duckdb.connect() as con:
        con.register("frame", {"u": u})
        places = con.execute(f"SELECT {search('u')} AS v FROM frame").fetchnumpy()["v"]
        assert con.execute(f"SELECT {search('NULL::DOUBLE')}").fetchone() == (None,)
        assert con.execute(f"SELECT {search(chr(39) + 'nan' + chr(39) + '::DOUBLE')}").fetchone() == (count - 1,)
    found = nodes[places]
    assert (places == np.searchsorted(middles_between(nodes), u, side="right")).all()
    assert (found == round_to_angles(u, count)).mean() > 0.999  # middles differ in their last bits
    assert (round_to_angles(nodes, count) == nodes).all()
    moved = np.abs(np.arccos(found) - np.arccos(u))
    assert moved.max() <= np.pi / (2 * (count - 1)) + 1e-7
    naive = -np.cos(np.pi * np.round(np.arccos(-u) / np.pi * count) / count)  # broken twin: N steps, not N - 1
    assert not np.allclose(naive, found)

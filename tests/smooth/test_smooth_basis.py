"""The basis and its sensitivity: against the definition, a brute-force search, and the scale the paper prints."""

import itertools
import math

import numpy as np
import pytest

from duckdp.core.types import Neighbours
from duckdp.errors import InternalError, ParameterError
from duckdp.smooth.basis import MAX_MOMENTS, TensorBasis, _replace_l1, degree_from
from tests.smooth.tables import reference

REPLACE, ADD_REMOVE = Neighbours.REPLACE, Neighbours.ADD_REMOVE
CASES = [(1, 2), (1, 3), (1, 8), (2, 2), (2, 3), (2, 4), (2, 6), (3, 2), (3, 3), (3, 4)]


def cube(d, t):
    return TensorBasis(tuple((f"x{i}", -1.0, 1.0) for i in range(d)), t)


def worst_pair(basis, bits):
    """Largest l1 change found when one row replaces another: a grid, random points, and one coordinate moved."""
    d, t = basis.dimensions, basis.degree
    rng = np.random.default_rng(d * 100 + t)
    angles = {1: 400, 2: 14, 3: 6}[d]
    grid = np.array(list(itertools.product(np.cos(np.linspace(0, np.pi, angles)), repeat=d)))
    moved = np.ones((400, d))
    moved[:, 0] = np.cos(np.linspace(0, np.pi, 400))
    x = np.concatenate([np.ones((1, d)), grid, moved, rng.choice([-1, 1], (50, d)), rng.uniform(-1, 1, (50, d))])
    q = reference(x, basis, bits).astype(np.float64)  # exact: below 2^53
    found = max(float(np.max(np.sum(np.abs(q - q[i]), axis=1))) for i in range(len(q)))
    return found, float(np.max(np.sum(np.abs(q), axis=1)))


@pytest.mark.parametrize(("d", "t"), CASES)
@pytest.mark.parametrize("bits", [1, 4, 30])
def test_no_pair_of_rows_moves_the_sums_further_than_the_bound(d, t, bits):
    basis = cube(d, t)
    found, alone = worst_pair(basis, bits)
    public = basis.sensitivity(REPLACE, bits=bits, max_rows=1, count_public=True)
    dropped = basis.sensitivity(REPLACE, bits=bits, max_rows=1, count_public=False)
    assert found <= public <= dropped
    assert alone <= dropped
    assert alone == basis.sensitivity(ADD_REMOVE, bits=bits, max_rows=1, count_public=False) == basis.size << bits


@pytest.mark.parametrize(("d", "t"), [(1, 4), (1, 8), (2, 4), (2, 6), (3, 4)])
def test_the_bound_is_tight_and_the_scale_printed_in_the_paper_is_too_small(d, t):
    basis = cube(d, t)
    found, _ = worst_pair(basis, 30)
    assert found >= 0.99 * basis.sensitivity(REPLACE, bits=30, max_rows=1, count_public=True)
    assert found > t**d * 2**30  # Algorithm 1, line 4, in sums


def test_the_replace_constant_has_its_known_values():
    known = {2: 2, 3: 3.1250, 4: 4.3156, 5: 5.5196, 6: 6.7288, 8: 9.1539, 12: 14.0142, 16: 18.8789}
    for t, value in known.items():
        assert value - 1e-4 <= _replace_l1(t) <= value * 1.0001 + 1e-4
    assert all(t <= _replace_l1(t) <= 1.2175 * t for t in (2, 3, 10, 100, 1000, MAX_MOMENTS))


def test_naive_bound_is_taken_where_it_is_smaller():
    assert cube(1, 2).sensitivity(REPLACE, bits=8, max_rows=1, count_public=True) == 2 * 2**8
    assert cube(2, 4).sensitivity(REPLACE, bits=30, max_rows=1, count_public=True) < 2 * 15 * 2**30


def test_units_of_several_rows_multiply_the_bound():
    basis = cube(2, 3)
    assert basis.sensitivity(ADD_REMOVE, bits=5, max_rows=7, count_public=False) == 7 * 9 * 2**5
    assert basis.sensitivity(REPLACE, bits=5, max_rows=7, count_public=False) == 7 * 2**5 * (2 * 8 + 1)


def test_a_public_count_contradicts_add_remove():
    with pytest.raises(InternalError):
        cube(1, 2).sensitivity(ADD_REMOVE, bits=5, max_rows=1, count_public=True)


def test_evaluation_is_the_product_of_cosines_in_c_order():
    basis = TensorBasis((("a", 0.0, 10.0), ("b", -5.0, 5.0)), 4)
    x = np.array([[0.0, -5.0], [10.0, 5.0], [3.0, 1.0], [7.5, -2.0], [99.0, -99.0]])
    angle = np.arccos(np.clip(np.stack([x[:, 0] / 5 - 1, x[:, 1] / 5], axis=1), -1, 1))
    wanted = [[math.cos(r * a) * math.cos(s * b) for r in range(4) for s in range(4)] for a, b in angle]
    np.testing.assert_allclose(basis.evaluate(x), wanted, atol=1e-12)
    np.testing.assert_allclose(basis.from_unit(0, basis.to_unit(0, x[:4, 0])), x[:4, 0])


@pytest.mark.parametrize("t", [2, 3, 17, 128, 1025])
def test_float_error_bound_holds(t):
    basis = cube(1, t)
    rng = np.random.default_rng(3)
    u = np.concatenate([rng.uniform(-1, 1, 200), np.cos(np.linspace(0, np.pi, 200)), [1 - 2.0**-53, -1 + 2.0**-53]])
    exact = [np.ones_like(u, dtype=np.longdouble), u.astype(np.longdouble)]
    for _ in range(2, t):
        exact.append(2 * exact[1] * exact[-1] - exact[-2])
    computed = reference(u[:, None], basis, 40).astype(float) / 2**40
    worst = float(np.max(np.abs(computed - np.stack(exact, axis=1).astype(float))))
    assert worst <= basis.float_error() + 0.5001 / 2**40


def test_degree_follows_the_paper_in_integers():
    for d, k, n in itertools.product((1, 2, 3), (1, 2, 4, 9), (1, 2, 100, 10**6, 10**12)):
        t = degree_from(k, n, d)
        assert t >= 2
        assert t ** (2 * d + k) >= n
        assert t == 2 or (t - 1) ** (2 * d + k) < n
    assert degree_from(1, 3**5, 2) == 3  # an exact root is not rounded up


@pytest.mark.parametrize("smoothness", [0, -1, 1.5, "4", True, None, 10**6, float("nan")])
def test_smoothness_must_be_a_positive_whole_number(smoothness):
    with pytest.raises(ParameterError) as caught:
        degree_from(smoothness, 100, 1)
    assert (caught.value.code, caught.value.name) == ("P107", "smoothness")


@pytest.mark.parametrize("degree", [1, 0, -3, 2.0, True, "3", MAX_MOMENTS + 1, 10**30])
def test_degree_out_of_range_is_refused(degree):
    with pytest.raises(ParameterError) as caught:
        TensorBasis((("a", 0.0, 1.0),), degree)
    assert caught.value.code == "P107"


def test_too_many_sums_are_refused_with_the_numbers():
    with pytest.raises(ParameterError, match="17 functions for each of 3 columns make more than 4096 sums"):
        cube(3, 17)


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (math.nan, 1.0), (0.0, 1e101)])
def test_bounds_must_be_finite_and_ordered(bounds):
    with pytest.raises(ParameterError) as caught:
        TensorBasis((("a", *bounds),), 3)
    assert caught.value.code == "P104"

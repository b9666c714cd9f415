"""The derivative of moments of rows: products with it against finite differences and against each other."""

from dataclasses import replace

import numpy as np
import pytest

from duckdp.synthetic.moments.make.newton import Goal, solve_positive
from duckdp.synthetic.moments.make.slopes import Slopes
from duckdp.synthetic.unit.features import ONE, RADIAL, Factor, Features, inner, label_factor, outer

D = 5
SCORE = Factor(weights=np.array([0.5, -0.5, 0, 0.1, 0]), width=0.4)
FEW = Features(
    dimensions=D,
    centre=1.3,
    width=0.9,
    size=True,
    degree=3,
    columns=(0, 2, 3),
    factors=(ONE, RADIAL, label_factor(4, -0.3, D), SCORE),
    crosses=((RADIAL, SCORE), (SCORE, SCORE)),
)
CASES = [
    FEW,
    replace(FEW, pairs=True),
    replace(FEW, pairs=True, some=((0, 4), (2, 2))),
    replace(FEW, degree=1, factors=()),
    Features(dimensions=D, centre=1.0, width=0.3, crosses=((RADIAL, RADIAL), (ONE, RADIAL))),
]


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(3).uniform(-0.9, 0.9, (301, D))  # some |u|^2 lie outside the window of z


def goal_of(features):
    rng = np.random.default_rng(5)
    return Goal(features=features, means=np.zeros(features.count), weights=rng.uniform(0.5, 1, features.count))


def quotient(goal, u, move, h=1e-5):
    return (goal.misfit(u - h * move) - goal.misfit(u + h * move)) / (2 * h)


@pytest.mark.parametrize("features", CASES)
def test_forward_is_the_difference_quotient(rows, features):
    """Broken twins: slopes of rows elsewhere; a penalty left out."""
    goal, move = goal_of(features), np.random.default_rng(4).normal(size=rows.shape)
    weights, wanted = np.append(goal.weights, 1.0), quotient(goal, rows, move)
    slopes = goal.slopes(rows)
    # pairs are in single precision
    np.testing.assert_allclose(weights * slopes.forward(move), wanted, atol=2e-6)
    for twin in (goal.slopes(0.99 * rows), Slopes(features=features, u=rows, penalty=np.zeros(len(rows)))):
        assert np.abs(weights * twin.forward(move) - wanted).max() > 1e-4


@pytest.mark.parametrize("features", CASES)
def test_adjoint_is_the_transpose(rows, features):
    rng, slopes = np.random.default_rng(6), goal_of(features).slopes(rows)
    move, weights = rng.normal(size=rows.shape), rng.normal(size=features.count + 1)
    there, back = weights @ slopes.forward(move), np.sum(slopes.adjoint(weights) * move) / len(rows)
    assert back == pytest.approx(there, rel=1e-5)
    assert back != pytest.approx(1.001 * there, rel=1e-5)


@pytest.mark.parametrize("features", [f for f in CASES if not f.pairs])
def test_gram_is_the_product_of_both(rows, features):
    """Broken twin: all entries free."""
    slopes, free = goal_of(features).slopes(rows), np.random.default_rng(7).integers(0, 2, rows.shape).astype(float)
    wanted = np.stack([slopes.forward(free * slopes.adjoint(e)) for e in np.eye(features.count + 1)])
    np.testing.assert_allclose(slopes.gram(free), wanted, atol=1e-12)
    assert np.abs(slopes.gram(np.ones_like(free)) - wanted).max() > 0.01


@pytest.mark.parametrize("count", [1, 31, 700, 1234])
@pytest.mark.parametrize(("p", "q"), [(1, 1), (3, 200), (120, 120), (60, 1), (200, 200)])
def test_products_in_blocks(count, p, q):
    rng = np.random.default_rng(8)
    first, second, matrix = rng.normal(size=(count, p)), rng.normal(size=(count, q)), rng.normal(size=(p, q))
    np.testing.assert_allclose(inner(first, second), first.T @ second, atol=1e-9)
    np.testing.assert_allclose(outer(first, matrix), first @ matrix, atol=1e-9)
    np.testing.assert_allclose(inner(first, first), first.T @ first, atol=1e-9)


@pytest.mark.parametrize("size", [5, 191, 801])
def test_linear_systems_by_halves(size):
    rng = np.random.default_rng(10)
    factor, wanted = rng.normal(size=(size, size // 2)), rng.normal(size=(size, 1))
    matrix = factor @ factor.T / size + 1e-3 * np.eye(size)
    np.testing.assert_allclose(solve_positive(matrix, matrix @ wanted), wanted, atol=1e-8)

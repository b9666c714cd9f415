"""Grids and objectives of real summaries, and a table made from them."""

import dataclasses

import numpy as np
import pytest

from duckdp.core.types import Neighbours
from duckdp.errors import NumericalError
from duckdp.smooth.angles import angle_nodes
from duckdp.smooth.sum_noise import SumNoise
from duckdp.synthetic.lp.make.generation import generate
from duckdp.synthetic.lp.make.grid_rows import decode_points
from duckdp.synthetic.lp.make.support import GRID_POINTS, GRID_VALUES, make_grid, make_objective
from duckdp.synthetic.sample import draw_points
from tests.smooth.tables import column, connect, summarize, table
from tests.synthetic.programs import COLUMNS, connect_to_rows


@pytest.fixture(scope="module")
def con():
    connection = connect_to_rows()
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def summary(con):
    return summarize(con, table(*COLUMNS), ["a", "b", "c"], degree=4)


def test_the_grid_has_the_types_values_and_the_basis_functions(summary):
    support = make_grid(summary)
    assert support.shape[0] <= 111
    assert all(type(v) is int for v in support.values[0])
    assert len(support.values[1]) == GRID_VALUES
    assert support.values[1] == pytest.approx((angle_nodes(GRID_VALUES) + 1) * 2 - 1)
    assert all(round(v, 2) == v for v in support.values[2])
    assert support.grid.size <= GRID_POINTS
    rng = np.random.default_rng(1)
    points = np.stack([rng.integers(0, n, 40) for n in support.shape], axis=1)
    u = np.stack(
        [
            axis.to_unit(np.array([float(values[p]) for p in points[:, i]]))
            for i, (axis, values) in enumerate(zip(summary.basis.axes, support.values, strict=True))
        ],
        axis=1,
    )
    np.testing.assert_allclose(support.grid.columns(points), summary.basis.evaluate(u).T, atol=1e-12)


def test_few_values_per_column_when_columns_are_many(monkeypatch):
    wide = [column(f"x{i}", 0.0, 1.0, nullable=False) for i in range(6)]
    with connect() as other:
        other.execute("CREATE TABLE t AS SELECT " + ", ".join(f"0.5 AS x{i}" for i in range(6)) + " FROM range(1000)")
        small = summarize(other, table(*wide), [c.name for c in wide], degree=2)
        assert make_grid(small).grid.size <= GRID_POINTS
        big = summarize(other, table(*wide[:3]), [c.name for c in wide[:3]], degree=10)
        assert make_grid(big).shape == (100, 100, 100)
        monkeypatch.setattr("duckdp.synthetic.lp.make.support.GRID_POINTS", 1000)
        with pytest.raises(NumericalError) as caught:
            make_grid(big)
    assert (caught.value.code, caught.value.status) == ("N101", "too large")


@pytest.mark.parametrize("family", ["laplace", "gaussian", "cube"])
def test_the_level_is_the_noises_expected_norm(summary, family):
    """Drawn noise has this norm on average; a level for the wrong norm (broken twin) is far off."""
    rng = np.random.default_rng(4)
    size = summary.basis.size
    noisy = dataclasses.replace(summary, family=family, scales=(float(2**24),), cuts=(100,))
    objective, enough = make_objective(noisy, 1000.0)
    assert objective.norm == {"laplace": "l1", "gaussian": "l2", "cube": "linf"}[family]
    assert objective.target[0] == 1
    np.testing.assert_allclose(objective.weights, 1)
    np.testing.assert_allclose(objective.target[1:], noisy.sums[1:] / 1000)
    scale = 2**24 / 2**summary.bits / 1000
    draws = {
        "laplace": lambda: rng.laplace(scale=scale, size=(4000, size)),
        "gaussian": lambda: rng.normal(scale=scale, size=(4000, size)),
        "cube": lambda: rng.gamma(size + 1, scale, (4000, 1)) * rng.uniform(-1, 1, (4000, size)),
    }[family]()
    norms = [objective.loss(objective.target + z) for z in draws]
    assert np.mean(norms) == pytest.approx(enough, rel=0.05)
    squares, level = make_objective(noisy, 1000.0, least_squares=True)
    assert squares.norm == "l2"
    assert np.mean([squares.loss(squares.target + z) ** 2 for z in draws]) == pytest.approx(level**2, rel=0.05)
    other = dataclasses.replace(objective, norm="l2" if family == "laplace" else "l1")
    assert np.mean([other.loss(objective.target + z) for z in draws]) != pytest.approx(enough, rel=0.5)


def test_sums_with_less_noise_weigh_more(summary):
    levels = summary.basis.levels
    noisy = dataclasses.replace(summary, family="laplace", scales=(2.0**20, 2.0**24), cuts=(2, 100))
    objective, enough = make_objective(noisy, 1000.0)
    light, heavy = objective.weights[levels[1:] > 2], objective.weights[levels[1:] <= 2]
    np.testing.assert_allclose(heavy / light[0], 16, rtol=1e-9)
    law = SumNoise(family="laplace", scales=noisy.scales, groups=(levels > 2).astype(np.int64))
    scaled = objective.weights * law.deviations[1:]
    assert enough == pytest.approx(scaled.sum() / np.sqrt(2) / 2**summary.bits / 1000)


@pytest.mark.parametrize("neighbours", [Neighbours.ADD_REMOVE, Neighbours.REPLACE])
def test_a_table_of_the_grid(con, neighbours):
    # epsilon 10: at 1 a fit that stops at the noise's norm misses the correlation by 0.05 +- 0.014
    made = summarize(con, table(*COLUMNS), ["a", "b", "c"], degree=4, epsilon=10, neighbours=neighbours)
    support = make_grid(made)
    objective, enough = make_objective(made, 40_000.0)
    found = generate(support.grid, objective, enough=enough)
    places = np.ravel_multi_index(tuple(found.points.T), support.shape)
    drawn = draw_points(found.weights, 20_000)
    columns = decode_points(places[drawn], support, made.columns, made.basis)
    true = con.execute("SELECT avg(a), avg(b), avg(c), stddev(a), corr(a, b) FROM t").fetchone()
    assert columns["a"].mean() == pytest.approx(true[0], abs=0.3)
    assert columns["b"].mean() == pytest.approx(true[1], abs=0.02)
    assert columns["c"].mean() == pytest.approx(float(true[2]), abs=0.01)
    assert columns["a"].std() == pytest.approx(true[3], abs=0.5)
    assert np.corrcoef(columns["a"], columns["b"])[0, 1] == pytest.approx(true[4], abs=0.05)

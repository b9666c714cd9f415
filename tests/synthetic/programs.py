"""Programs as tests need them: a smooth density, its moments on the grid, and noise of the right scale."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from duckdp.smooth.angles import angle_nodes, round_to_angles
from duckdp.synthetic.lp.make.columns import Grid
from tests.smooth.tables import column, connect

COLUMNS = (
    column("a", 0, 110, "BIGINT", nullable=False),
    column("b", -1.0, 3.0, nullable=False),
    column("c", 0.0, 1.0, "DECIMAL(4,2)", nullable=False),
)


def connect_to_rows(n=40_000):
    """An open database with n rows of ``COLUMNS`` in a table t; the first two go together."""
    connection = connect()
    rng = np.random.default_rng(11)
    a = rng.normal(45, 18, n).clip(0, 110).round()
    connection.register("frame", {"a": a, "b": rng.normal(a / 50, 0.4), "c": rng.beta(2, 5, n)})
    connection.execute("CREATE TABLE t AS SELECT a::BIGINT AS a, b, c::DECIMAL(4,2) AS c FROM frame")
    connection.unregister("frame")
    return connection


@dataclass(frozen=True)
class Program:
    grid: Grid
    data: Any  # float[n, d], in [-1, 1], not rounded
    true: Any  # means of the functions on the rounded data
    target: Any  # noisy sums over the noisy count
    scale: float  # Laplace, of the sums
    enough: float  # expected l1 norm of the noise, as means


def make_grid(d, t, per_axis, indices=None):
    values = np.polynomial.chebyshev.chebvander(angle_nodes(per_axis), t - 1).T
    if indices is None:
        indices = np.stack(np.unravel_index(np.arange(t**d), (t,) * d), axis=1)
    return Grid(axes=(np.ascontiguousarray(values),) * d, indices=np.asarray(indices, dtype=np.int64))


def make_program(d, t, per_axis, *, rows, seed, epsilon=1.0):
    rng = np.random.default_rng(seed)
    mixing = 0.3 * np.eye(d) + 0.1
    data = np.clip(rng.normal(size=(rows, d)) @ mixing + 0.1, -1, 1)
    grid = make_grid(d, t, per_axis)
    rounded = round_to_angles(data, per_axis)
    positions = np.searchsorted(angle_nodes(per_axis), rounded)
    counts = np.zeros(grid.size)
    np.add.at(counts, np.ravel_multi_index(tuple(positions.T), grid.shape), 1.0)
    sums = grid.moments(counts)
    scale = t**d / epsilon
    noisy = sums + rng.laplace(scale=scale, size=len(sums))
    return Program(grid, data, sums / rows, noisy / noisy[0], scale, scale * len(sums) / rows)

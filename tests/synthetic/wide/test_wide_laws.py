"""Laws from noisy moments: close to the certified optimum, smooth where they may be, spikes where they must be."""

import numpy as np
import pytest

from duckdp.smooth.angles import angle_nodes
from duckdp.smooth.basis import chebyshev
from duckdp.synthetic.lp.make.columns import Grid
from duckdp.synthetic.lp.make.generation import generate
from duckdp.synthetic.lp.make.interior import Objective
from duckdp.synthetic.moments.make import laws
from duckdp.synthetic.moments.make.laws import fit_laws

NODES, DEGREE, NOISE = angle_nodes(200), 8, 0.02


def columns(rng):
    n = 2000
    return [
        rng.uniform(-1, 1, n),
        np.clip(rng.normal(0.3, 0.2, n), -1, 1),
        np.full(n, -0.99),
        np.where(rng.random(n) < 0.7, -1.0, rng.uniform(-1, 1, n)),
        rng.choice([-1.0, 0.0, 1.0], n),
    ]


def noisy_moments(rng):
    found = np.array([chebyshev(x, DEGREE + 1).mean(axis=0) for x in columns(rng)])
    found[:, 1:] += rng.normal(0, NOISE, found[:, 1:].shape)
    return found


def losses(law, moments):
    return np.linalg.norm(law @ chebyshev(NODES, DEGREE + 1) - moments, axis=1)


def optimum(moments):
    grid = Grid(axes=(np.ascontiguousarray(chebyshev(NODES, DEGREE + 1).T),), indices=np.arange(DEGREE + 1)[:, None])
    return generate(grid, Objective(target=moments, norm="l2", weights=np.ones(DEGREE)), gap=0.02).bound


def test_laws_are_near_the_optimum(monkeypatch):
    moments = noisy_moments(np.random.default_rng(4))
    best = np.array([optimum(row) for row in moments])
    law = fit_laws(moments, NODES)
    assert law.min() >= 0
    np.testing.assert_allclose(law.sum(axis=1), 1)
    noise = NOISE * DEGREE**0.5
    assert np.all(np.hypot(losses(law, moments) - best, noise) < 1.15 * noise)
    monkeypatch.setattr(laws, "ROUNDS", 3)  # broken twin
    assert not np.all(np.hypot(losses(fit_laws(moments, NODES), moments) - best, noise) < 1.15 * noise)


def test_spikes_stay_and_densities_are_smooth():
    rng = np.random.default_rng(5)
    uniform, _, constant, zeros, _ = fit_laws(noisy_moments(rng), NODES)
    assert (uniform > 1e-4).sum() > 100
    assert constant[NODES < -0.9].sum() > 0.97
    assert zeros[NODES < -0.95].sum() == pytest.approx(0.7, abs=0.06)


def test_projection_is_the_nearest_point():
    rng = np.random.default_rng(6)
    points = rng.normal(size=(50, 7))
    nearest = laws._project(points)
    assert nearest.min() >= 0
    np.testing.assert_allclose(nearest.sum(axis=1), 1)
    others = rng.dirichlet(np.ones(7), size=400)
    for point, found in zip(points, nearest, strict=True):
        assert np.linalg.norm(point - found) <= np.linalg.norm(point - others, axis=1).min() + 1e-12

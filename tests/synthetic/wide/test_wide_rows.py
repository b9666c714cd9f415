"""Rows as a user gets them: laws of columns, and correlations that are there and no others."""

import numpy as np
import pytest

from duckdp.bench.tables_path import Path
from duckdp.core.types import Neighbours
from duckdp.synthetic.moments.make import rows as auto

N, D = 20_000, 8


def made(unit, epsilon="1"):
    return Path(unit=unit, rows=3000, method="moments", neighbours=Neighbours.ADD_REMOVE).make(epsilon)


def apart(first, second):
    """Average total variation of the columns over ten bins, average and largest difference of correlations."""
    shares = [np.stack([np.histogram(c, bins=10, range=(-1, 1))[0] / len(u) for c in u.T]) for u in (first, second)]
    upper = np.triu_indices(D, 1)
    gap = np.abs(np.corrcoef(first, rowvar=False) - np.corrcoef(second, rowvar=False))[upper]
    return np.abs(shares[0] - shares[1]).sum(axis=1).mean() / 2, gap.mean(), gap.max()


def humps(rng):
    """Independent columns of two humps."""
    side = np.where(rng.random((N, D)) < 0.4, -0.6, 0.5)
    return np.clip(side + 0.1 * rng.normal(size=(N, D)), -1, 1)


def common(rng):
    """Columns with a common part: correlations of 0.64."""
    return np.clip(0.3 * (0.8 * rng.normal(size=(N, 1)) + 0.6 * rng.normal(size=(N, D))), -1, 1)


def narrow(rng):
    """Columns at one end of their bounds."""
    return np.clip(rng.exponential(0.06, size=(N, D)) - 1, -1, 1)


@pytest.mark.parametrize(("data", "law", "mean", "most"), [(humps, 0.1, 0.05, 0.15), (common, 0.1, 0.12, 0.3)])
def test_columns_and_links_come_back(data, law, mean, most):
    """In ten runs at most 0.04, 0.02, 0.05 and 0.05, 0.07, 0.16."""
    unit = data(np.random.default_rng(6))
    assert np.all(np.array(apart(unit, made(unit))) < (law, mean, most))


def test_narrow_columns_keep_their_width():
    unit = narrow(np.random.default_rng(7))
    assert 0.4 < np.mean(made(unit, "4").std(axis=0) / unit.std(axis=0)) < 2


def test_laws_are_what_was_bought(monkeypatch):
    """Broken twin: rows that start from beta laws, though others were bought."""
    unit = humps(np.random.default_rng(8))
    monkeypatch.setattr("duckdp.synthetic.moments.make._laws", lambda units, kept: None)
    assert apart(unit, made(unit))[0] > 0.2


def test_links_are_what_was_bought(monkeypatch):
    """Broken twin: rows that start from independent columns and know no pairs."""
    unit = common(np.random.default_rng(9))
    monkeypatch.setattr(auto, "_covariance", lambda *given: None)
    monkeypatch.setattr(auto, "_with_pairs", lambda goal, noisy, rows: goal)
    assert apart(unit, made(unit))[1] > 0.2

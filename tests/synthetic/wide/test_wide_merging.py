"""Merged bins of a column: piles and values that stand out are by themselves, others are as wide as before."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.synthetic.tree import buy
from duckdp.synthetic.tree.make.estimates import merge_bins
from duckdp.synthetic.tree.make.merging import merge_around_piles, merge_values
from duckdp.synthetic.tree.plan import make_tree_plan


def groups(merge: np.ndarray) -> list[list[int]]:
    return [np.flatnonzero(merge == k).tolist() for k in range(merge.max() + 1)]


def test_a_pile_is_alone_and_neighbours_are_merged_between():
    shares = np.array([0.03, 0.03, 0.25, 0.03, 0.03, 0.03, 0.25, 0.01, 0.01, 0.3, 0.03])
    found = groups(merge_around_piles(shares, 0.05, 0.1, free=10))
    assert found == [[0, 1], [2], [3, 4, 5], [6, 7, 8], [9], [10]]  # too few go with the smaller pile beside them


def test_bins_of_a_smooth_law_are_as_wide_as_before():
    shares = np.exp(-(np.linspace(-2, 2, 20) ** 2) / 2)
    shares /= shares.sum()
    before = merge_bins(shares, 0.1, ordered=True, free=20)
    assert abs(merge_around_piles(shares, 0.1, 0.05, free=20).max() - before.max()) <= 1


@pytest.mark.parametrize("seed", range(50))
def test_every_bin_is_in_one_group_of_neighbours_with_enough_rows(seed: int):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 40))
    shares = rng.dirichlet(np.full(size, rng.choice([0.05, 0.5, 5])))
    free, least, piles = size - int(rng.integers(0, 2)), rng.uniform(0, 0.3), rng.uniform(0, 0.3)
    merge = merge_around_piles(shares, least, piles, free=free)
    steps = merge[:free]
    assert steps[0] == 0 and set(np.diff(steps).tolist()) <= {0, 1}  # neighbours alone share one
    assert merge[free:].tolist() == list(range(steps[-1] + 1, steps[-1] + 1 + size - free))
    held = np.bincount(steps, weights=shares[:free])
    assert len(held) <= 2 or held.min() >= min(least, piles)


def test_values_that_stand_out_are_alone_and_the_others_share_one():
    shares = np.array([0.3, 0.04, 0.04, 0.04, 0.5, 0.03, 0.03, 0.02])
    assert groups(merge_values(shares, 0.2, 0.035)) == [[4], [0], [1], [2], [3], [5, 6, 7]]
    assert merge_values(shares, 0.2, 0.01).max() == 7
    assert groups(merge_values(np.array([0.5, 0.495, 0.005]), 0.2, 0.035)) == [[0], [1, 2]]
    assert merge_values(np.full(4, 0.25), 1.0, 1.0).max() == 1


PRICES = (12.3, 12.3, 17.3, 17.3, 19.3, 21.3, 25.3)  # in bins of their own, 27.9 and less


def misplaced(tmp_path) -> float:
    """Share of made rows whose price is not within a bin of that of their name."""
    rng = np.random.default_rng(2)
    name = rng.choice(7, 6000, p=[0.3, 0.25, 0.2, 0.13, 0.04, 0.04, 0.04])
    frame = pa.table({"name": [f"n{k}" for k in name], "price": np.take(PRICES, name), "day": rng.integers(0, 7, 6000)})
    with duckdp.open({"sales": frame}, ledger=str(tmp_path / "ledger.db")) as curator:
        curator.budget(epsilon=10)
        curator.grant("ana", epsilon=10)
        domains = {"name": [f"n{k}" for k in range(7)]}
        curator.protect("sales", bounds={"price": (0, 40), "day": (0, 6)}, domains=domains, row_cap=10_000)
        made = curator.session("ana").synthesize("sales", epsilon=0.8, method="tree", rows=6000)
        rows = [(r["name"], r["price"]) for r in made.arrow().to_pylist() if None not in (r["name"], r["price"])]
    wanted = np.array([PRICES[int(r[0][1:])] for r in rows])
    return float(np.mean(np.abs(np.array([float(r[1]) for r in rows]) - wanted) > 2))


def test_a_price_follows_its_name(tmp_path, monkeypatch):
    """Where piles are merged with the bins beside them, rare prices are told by no name."""
    now = misplaced(tmp_path)
    (tmp_path / "before").mkdir()
    monkeypatch.setattr(buy, "_PLANS", (partial(make_tree_plan, piles=False), *buy._PLANS[1:]))
    before = misplaced(tmp_path / "before")
    assert now < 0.75 * before

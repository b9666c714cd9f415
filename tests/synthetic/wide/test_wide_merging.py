"""Merged bins of an ordered column: piles stand by themselves, columns without piles are merged as before."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.synthetic.tree import buy
from duckdp.synthetic.tree.make.estimates import merge_bins
from duckdp.synthetic.tree.make.merging import merge_around_piles
from duckdp.synthetic.tree.plan import make_tree_plan


def groups(merge: np.ndarray) -> list[list[int]]:
    return [np.flatnonzero(merge == k).tolist() for k in range(merge.max() + 1)]


def test_a_pile_is_alone_and_neighbours_are_merged_between():
    shares = np.array([0.03, 0.03, 0.25, 0.03, 0.03, 0.03, 0.25, 0.01, 0.01, 0.3, 0.03])
    found = groups(merge_around_piles(shares, 0.05, 0.1, free=10))
    assert found == [[0, 1], [2], [3, 4, 5], [6, 7, 8], [9], [10]]  # too few go with the smaller pile beside them


def test_a_column_without_piles_is_merged_as_before():
    smooth = np.exp(-(np.linspace(-2, 2, 20) ** 2) / 2) / 10
    for shares in (smooth, np.append(np.full(20, 0.01), 0.8), np.append(np.full(10, 0.002), 0.98)):
        free = min(20, len(shares) - (len(shares) != 20))
        before = merge_bins(shares, 0.1, ordered=True, free=free)
        for piles in (0.05, 0.4, np.inf):
            assert np.array_equal(merge_around_piles(shares, 0.1, piles, free=free), before)


def test_a_pile_beside_too_few_rows_is_merged_as_before():
    shares = np.array([0.02, 0.03, 0.03, 0.02, 0.9])
    assert (
        merge_around_piles(shares, 0.3, 0.5, free=5).max() == merge_bins(shares, 0.3, ordered=True, free=5).max() == 1
    )


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
    piled = (shares[:free] >= piles) & (shares[:free] > 3 * np.append(shares[1:free], 0)) & (free > 1)
    assert len(held) >= min(free, 2)
    assert (
        not piled.any()
        or len(held) <= 2
        or held.min() >= min(least, piles)
        or np.array_equal(merge, merge_bins(shares, least, ordered=True, free=free))
    )


PRICES = (16.3, 20.3, 24.3, 28.3)  # of a kind each, in bins of their own; most are sold at 12.3
EPSILON = 0.8


def misplaced(folder) -> float:
    """Share of made rows that have another kind's price."""
    folder.mkdir()
    rng = np.random.default_rng(2)
    kind, dear = rng.integers(0, 4, 6000), rng.random(6000) < 0.16
    price = np.where(dear, np.take(PRICES, kind), 12.3)
    frame = pa.table({"kind": [f"k{k}" for k in kind], "price": price, "day": rng.integers(0, 7, 6000)})
    with duckdp.open({"sales": frame}, ledger=str(folder / "ledger.db")) as curator:
        curator.budget(epsilon=10)
        curator.grant("ana", epsilon=10)
        domains = {"kind": [f"k{k}" for k in range(4)]}
        curator.protect("sales", bounds={"price": (0, 40), "day": (0, 6)}, domains=domains, row_cap=10_000)
        made = curator.session("ana").synthesize("sales", epsilon=EPSILON, method="tree", rows=6000)
        rows = [(r["kind"], r["price"]) for r in made.arrow().to_pylist() if None not in (r["kind"], r["price"])]
    own = np.array([PRICES[int(kind[1:])] for kind, _ in rows])
    found = np.array([float(price) for _, price in rows])
    return float(np.mean((found > 16) & (np.abs(found - own) > 2)))


def test_a_price_follows_its_kind(tmp_path, monkeypatch):
    """Where piles are merged with the bins beside them, kinds share their prices."""
    now = misplaced(tmp_path / "now")
    monkeypatch.setattr(buy, "_PLANS", (partial(make_tree_plan, piles=False), *buy._PLANS[1:]))
    before = misplaced(tmp_path / "before")
    assert now < 0.75 * before, (now, before)

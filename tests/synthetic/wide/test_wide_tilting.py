"""Pairs that a tree bought are tilted to the products it bought: rows near the line stay where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import duckdp
from duckdp.synthetic.tree import make
from duckdp.synthetic.tree.make import tilting
from duckdp.synthetic.tree.make.estimates import scale_margins
from duckdp.synthetic.tree.make.tilting import tilt_pairs
from tests.synthetic.plans import encode
from tests.synthetic.wide.test_wide_products import linked, with_products

Floats = NDArray[np.float64]


def entropy(of: Floats, beside: Floats) -> float:
    """Relative entropy, in nats."""
    return float((of * np.log(of / beside)).sum())


def random_joint(rng: np.random.Generator, rows: int, columns: int) -> Floats:
    joint = rng.dirichlet(np.full(rows * columns, 0.5)).reshape(rows, columns) + 1e-6
    return np.asarray(joint / joint.sum())


@pytest.mark.parametrize("seed", range(6))
def test_the_nearest_distribution_with_the_average_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    joint = random_joint(rng, 5, 4)
    one, two = np.sort(rng.uniform(-1, 1, 5)), np.sort(rng.uniform(-1, 1, 4))
    first, second = joint.sum(axis=1), joint.sum(axis=0)
    far = scale_margins(joint * np.exp(rng.choice([-3, 3]) * np.outer(one, two)), first, second)
    goal = float(one @ far @ two)
    found = tilting._tilted(joint, one, two, goal)
    np.testing.assert_allclose(found.sum(axis=1), first, atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=0), second, atol=1e-9)
    assert float(one @ found @ two) == pytest.approx(goal, abs=1e-6)
    other = scale_margins(joint * np.exp(rng.normal(size=joint.shape)), first, second)  # another with the average
    other = tilting._tilted(other, one, two, goal)
    assert entropy(found, joint) < entropy(other, joint)


def test_a_goal_beyond_all_is_met_as_far_as_can_be() -> None:
    joint = random_joint(np.random.default_rng(1), 4, 4)
    values = np.linspace(-1, 1, 4)
    for goal in (-9.0, 9.0):
        found = tilting._tilted(joint, values, values, goal)
        assert np.isfinite(found).all() and found.sum() == pytest.approx(1)
        assert (float(values @ found @ values) - float(values @ joint @ values)) * goal > 0


@pytest.mark.parametrize("link", [-0.2, 0.6, 0.95])
@pytest.mark.parametrize("cells", [2, 4, 20])
def test_cells_hold_their_part_of_a_product(link: float, cells: int) -> None:
    """Of rows that are normal: what independent values in their cells would have. The twin: all of the product."""
    units, true = linked(40_000, np.random.default_rng(cells), max(link, 0.0))
    if link < 0:
        true[:, 0] *= -1
    tree = with_products(units, true, 1e-4)
    tree.merges = [
        np.minimum(np.arange(b.size) * cells // b.bins, cells - 1) + (np.arange(b.size) >= b.bins)
        if b.ordered
        else np.arange(b.size)
        for b in tree.binnings
    ]
    codes = np.stack([encode(b, true) for b in tree.binnings], axis=1)
    one, two = (tilting._column(tree, codes, true, i) for i in (0, 1))
    wanted = float(np.mean(one.values * two.values))
    bins = [tree.merges[i][codes[:, i]] for i in (0, 1)]
    in_cells = float(np.mean(one.averages[bins[0]] * two.averages[bins[1]]))
    assert tilting._held(one, two, wanted) == pytest.approx(in_cells, abs=0.002 + 0.03 * abs(wanted))
    if cells == 2 and link > 0.9:
        assert abs(wanted - in_cells) > 0.1 * wanted


def test_what_is_determined_by_another_and_what_was_not_bought_stay() -> None:
    units, true = linked(5_000, np.random.default_rng(3), 0.6)
    tree = with_products(units, true, 1e-4)
    tree.merges = [np.arange(b.size) for b in tree.binnings]
    codes = np.stack([encode(b, true) for b in tree.binnings], axis=1)
    tree.pairs = {(i, j): np.outer(tree.shares[i], tree.shares[j]) for i, j in ((0, 1), (0, 2))}
    tree.functions = {(0, 2): np.zeros(tree.binnings[0].size, dtype=np.int64)}
    found = tilt_pairs(tree, codes, true, np.full(6, 0.01))
    assert set(found) == set(tree.pairs)
    assert np.abs(found[0, 1] - tree.pairs[0, 1]).sum() > 0.01
    np.testing.assert_array_equal(found[0, 2], tree.pairs[0, 2])


def far_apart(folder: Path, name: str) -> float:
    """Total variation of 10 x 10 cells of two linked columns from those of a synthetic table."""
    rng = np.random.default_rng(7)
    x = rng.uniform(0, 100, 20_000)
    y = np.clip(x + rng.normal(0, 10, len(x)), 0, 100)
    kind = pa.schema([pa.field("x", pa.float64(), nullable=False), pa.field("y", pa.float64(), nullable=False)])
    with duckdp.open({"t": pa.table({"x": x, "y": y}, schema=kind)}, ledger=str(folder / f"{name}.ledger")) as owner:
        owner.protect("t", row_cap=40_000, bounds={"x": (0, 100), "y": (0, 100)})
        owner.budget(epsilon=100)
        owner.grant("ana", epsilon=100)
        made = owner.session("ana").synthesize("t", epsilon=3, method="tree")
        rows = np.array(made.rows(), dtype=np.float64)
    shown, true = (
        np.histogram2d(*cells.T, bins=10, range=((0, 100), (0, 100)))[0] / len(cells)
        for cells in (rows, np.stack([x, y], axis=1))
    )
    return float(np.abs(shown - true).sum() / 2)


def test_two_linked_columns_keep_their_two_way_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert far_apart(tmp_path, "tilted") < 0.09  # .03 to .04, and rarely more as the product is noisy
    monkeypatch.setattr(make, "_TURNS", 0)  # the twin: rows alone change places, which drew them all nearer to the line
    assert far_apart(tmp_path, "moved") > 0.15

"""Means in one vector with a bound on a row's norm, and functions that are 0 where a column is NULL."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest

from duckdp.synthetic.tree.bins import make_bins
from duckdp.synthetic.tree.buy import averages
from duckdp.synthetic.tree.make.bars import error_bars
from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.tree.plan import make_tree_plan
from duckdp.synthetic.tree.scales import bin_values, normed_functions, normed_products, normed_scale, whole_scales
from duckdp.synthetic.unit.buy.sums_sql import print_sums
from duckdp.synthetic.unit.charge_terms import BITS
from duckdp.synthetic.unit.layout import UnitColumns, make_units
from tests.smooth.tables import column
from tests.synthetic.in_memory import memory_sums
from tests.synthetic.plans import encode, open_tree_purse, request

_ROWS = 20_000
_COLUMNS = [column("x", 0, 100), column("y", 0, 10, nullable=False), column("z", -5, 5, nullable=False)]


@pytest.fixture(scope="module")
def world() -> tuple[UnitColumns, np.ndarray]:
    """Skewed columns; x is low, linked with y, and NULL in four rows of ten, which have a low y."""
    rng = np.random.default_rng(3)
    latent = rng.multivariate_normal([0, 0, 0], [[1, 0.6, 0.2], [0.6, 1, 0], [0.2, 0, 1]], _ROWS)
    skewed = np.exp(latent[:, :2]) / 15 - 1
    missing = (latent[:, 1] < 0) & (rng.uniform(size=_ROWS) < 0.8)
    x = np.where(missing, 0.0, np.clip(skewed[:, 0], -1, 1))
    unit = np.column_stack(
        [x, np.where(missing, 1.0, -1.0), np.clip(skewed[:, 1], -1, 1), np.clip(latent[:, 2] / 5, -1, 1)]
    )
    return make_units(_COLUMNS), unit


def _tree(world: tuple[UnitColumns, np.ndarray]) -> tuple[Tree, Any]:
    """A tree that knows the histograms, before its means are bought at an epsilon whose noise is nothing."""
    units, unit = world
    asked = request(units.count, expected_rows=_ROWS, epsilon="60")
    purse = open_tree_purse(asked, len(_COLUMNS))
    purse.rows = float(_ROWS)
    bins = make_bins(units, 20)
    tree = Tree(binnings=bins, plan=make_tree_plan(asked, units, purse), target=None, rows=float(_ROWS), deviation=2.0)
    tree.counts = [np.bincount(encode(b, unit), minlength=b.size).astype(np.float64) for b in bins]
    tree.shares = [c / c.sum() for c in tree.counts]
    tree.merges = [tree.merge(i, 0.1) for i in range(len(bins))]
    return tree, purse


def _gaps(tree: Tree, unit: np.ndarray) -> np.ndarray:
    """Errors of the means of the functions, in deviations of the columns over rows with a value."""
    found = []
    for i, place in enumerate((0, 2, 3)):
        offset, width = tree.scale(i)
        present = unit[:, 1] < 0 if i == 0 else np.ones(len(unit), dtype=bool)
        values = unit[present, place]
        true = (values - offset).sum() / width / len(unit)
        found.append(abs(tree.mean(i) - true) * width / values.std())
    return np.array(found)


def test_long_rows_are_scaled_and_means_are_those_of_whole_rows(
    world: tuple[UnitColumns, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At bounds of which many rows are longer, too. The twin takes the means of scaled rows as they are."""
    for longest in (3.0, 0.0):
        monkeypatch.setattr(averages, "_LONGEST", longest)
        monkeypatch.setattr(averages, "ENOUGH", 0.0)  # no bound is wider for little noise
        tree, purse = _tree(world)
        averages.buy_bounded_means(tree, [0, 1, 2], purse, memory_sums(world[1]))
        worst = _gaps(tree, world[1]).max()
        assert worst < (0.03 if longest else 0.06)
        assert purse.spent == tree.plan.means > 0
        assert tree.stages[-1] == ("means", 3, tree.plan.means)
        tree.means = {i: mean - tree.cuts[i] for i, mean in tree.means.items()}
        if not longest:
            assert _gaps(tree, world[1]).max() > max(0.08, 1.5 * worst)


def test_no_value_is_cut_and_nulls_are_0(world: tuple[UnitColumns, np.ndarray]) -> None:
    units, unit = world
    tree, _ = _tree(world)
    scales, reach = whole_scales(tree.binnings, tree.shares, [0, 1, 2])
    assert all(width >= 1 + abs(mean) - 1e-12 for mean, width in scales.values())
    assert min(width - 1 - abs(mean) for mean, width in scales.values()) == pytest.approx(0)
    present = unit[unit[:, 1] < 0, 0]
    assert scales[0] == (pytest.approx(present.mean(), abs=0.02), pytest.approx(present.std() * reach, rel=0.15))
    for squared in (False, True):
        functions = normed_functions(tree.binnings, scales, 5.0, squared=squared)  # longer than any row
        products = normed_products(tree.binnings, scales, 5.0, squared=squared, apart=True)
        whole = functions.functions(unit)
        assert np.abs(whole[unit[:, 1] > 0, 0]).max() < 1e-12
        np.testing.assert_allclose(whole[unit[:, 1] < 0, 0], (present - scales[0][0]) / scales[0][1], atol=1e-12)
        with duckdb.connect(":memory:") as con:
            con.register("frame", {n: unit[:50, k] for k, n in enumerate(units.names)})
            con.execute("CREATE TABLE t AS SELECT * FROM frame")
            for given in (functions, products):
                (sums,) = con.execute(print_sums(given, "t", units.names, BITS)).fetchall()
                expected = given.rows(unit[:50]).sum(axis=0) * 2**BITS
                np.testing.assert_allclose(np.array(sums, dtype=np.float64), expected, atol=60)
    binning = tree.binnings[0]
    assert bin_values(binning, scales[0], apart=True)[binning.valued :].tolist() == [0.0]
    twin = bin_values(binning, scales[0])[binning.valued]  # the twin: NULL as the middle of the range
    assert twin > 0.2


def test_products_tell_links_of_rows_that_have_both(world: tuple[UnitColumns, np.ndarray]) -> None:
    """The twin, NULLs as the middle of the range, tells little: who has no x has a low y."""
    _, unit = world
    tree, _ = _tree(world)
    both = unit[:, 1] < 0
    true = np.corrcoef(unit[both, 0], unit[both, 2])[0, 1]
    assert true > 0.4
    for apart, close in ((True, True), (False, False)):
        scales = {i: normed_scale(tree.binnings[i], tree.shares[i], apart=apart) for i in range(3)}
        products = normed_products(tree.binnings, scales, 100.0, squared=True, apart=apart)
        g = products.functions(unit)
        told = products.means(unit)[0] / (g[:, 0].std() * g[:, 1].std())
        assert (told > 0.5 * true) == close


@pytest.mark.parametrize("delta", [0, "1e-6"])
def test_bars_hold_where_rows_that_are_long_in_one_number_are_so_in_all(delta: Any) -> None:
    """No table tells, so nearly nothing is added for what scaling took off. The twin counts half of that alone."""
    columns = [column(f"x{i}", 0, 100, nullable=False) for i in range(6)]
    units, unit = make_units(columns), np.full((_ROWS, 6), -1.0)
    unit[: _ROWS // 20] = 1.0
    asked = request(units.count, expected_rows=_ROWS, epsilon="60", delta=delta)
    purse = open_tree_purse(asked, len(columns))
    purse.rows = float(_ROWS)
    bins, plan = make_bins(units, 20), make_tree_plan(asked, units, purse)
    tree = Tree(binnings=bins, plan=plan, target=None, rows=float(_ROWS), deviation=200.0)
    tree.counts = [np.bincount(encode(b, unit), minlength=b.size).astype(np.float64) for b in bins]
    tree.shares = [c / c.sum() for c in tree.counts]
    tree.merges = [tree.merge(i, 0.1) for i in range(len(bins))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(averages, "ENOUGH", 0.0)
        averages.buy_bounded_means(tree, list(range(6)), purse, memory_sums(unit))
    errors = [50 * abs(tree.scale(i)[1] * tree.mean(i) + tree.scale(i)[0] - unit[:, i].mean()) for i in range(6)]
    bars, tree.missed = error_bars(tree, {}, {}), {}
    twin = error_bars(tree, {}, {})
    assert bars is not None
    assert twin is not None
    for error, (_, _, bar), (_, _, short) in zip(errors, bars["columns"], twin["columns"], strict=True):
        assert 3 * short < error < bar < 3 * error

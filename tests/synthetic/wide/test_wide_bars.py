"""Error bars of trees: histograms, means and tables of pairs lie within them, and not far within."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import duckdp
from duckdp.synthetic.report.table_report import make_report
from duckdp.synthetic.stored import open_synthesis
from duckdp.synthetic.tree.bins import make_bins, spread_rows
from duckdp.synthetic.tree.buy.grow import grow_tree
from duckdp.synthetic.tree.contingency import Tables
from duckdp.synthetic.tree.make.bars import error_bars
from duckdp.synthetic.tree.plan import make_tree_plan
from tests.synthetic.in_memory import memory_sums
from tests.synthetic.plans import encode, open_tree_purse, request
from tests.synthetic.wide.trees import memory_counts, three_columns

ROWS, TREES = 4000, 25


def _shares(codes: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(codes, minlength=size) / len(codes)


@pytest.mark.parametrize("epsilon", [pytest.param("0.3", marks=pytest.mark.slow), "2"])
def test_errors_lie_within_their_bars(epsilon: str) -> None:
    units, unit = three_columns(ROWS)
    asked = request(units.count, expected_rows=ROWS, epsilon=epsilon)
    found: dict[str, list[float]] = {"columns": [], "means": [], "pairs": []}
    for _ in range(TREES):
        purse = open_tree_purse(asked, 3)
        plan = make_tree_plan(asked, units, purse)
        bins = make_bins(units, plan.bins)
        true = np.stack([encode(b, unit) for b in bins], axis=1)
        tree = grow_tree(bins, plan, purse, None, memory_counts(true), memory_sums(unit))
        bars = error_bars(tree, {pair: deviation for pair, (_, deviation) in tree.bought.items()}, tree.taken())
        assert bars is not None
        made = tree.make(ROWS)
        for i, (_, distance, mean) in enumerate(bars["columns"]):
            bands = bins[i].size if not bins[i].ordered else 10
            one, two = (_shares(c[:, i] * bands // bins[i].size, bands) for c in (true, made))
            found["columns"].append(np.abs(one - two).sum() / 2 / distance)
            if mean is not None and bins[i].ordered:
                values = spread_rows(bins, made, tree.leans())[:, 0]
                found["means"].append(abs(values.mean() - unit[:, 0].mean()) * 5 / mean)  # bounds are 0 and 10
        tables = Tables(merges=tuple(tree.merges), sets=tuple(sorted(tree.bought)))
        counted = (tables.split(tables.count(c)) for c in (true, made))
        for (_, _, _, bar), one, two in zip(bars["pairs"], *counted, strict=True):
            found["pairs"].append(float(np.abs(one / ROWS - two / ROWS).sum()) / 2 / bar)
    for what, errors in found.items():
        assert len(errors) >= TREES, what
        assert np.mean(np.array(errors) <= 1) > 0.8, what  # nearly all; less than 80% by chance below 1e-9
        assert max(errors) > 0.15, what
    assert np.mean(np.array(found["columns"]) * 8 <= 1) < 0.8  # the twin: noise told an eighth as large


def test_a_report_shows_bars_and_earlier_releases_have_none(tmp_path) -> None:
    import pyarrow as pa

    frame = pa.table({"x": np.linspace(0, 1, 3000), "y": np.linspace(0, 1, 3000) ** 2})
    with duckdp.open({"t": frame}, ledger=str(tmp_path / "l")) as curator:
        curator.protect("t", row_cap=9000, expected_rows=3000, bounds={"x": (0, 1), "y": (0, 1)})
        curator.budget(epsilon=5)
        curator.grant("ana", epsilon=5)
        ana = curator.session("ana")
        ana.synthesize("t", epsilon=2, method="tree", name="made")
        payload = curator.ledger.object("ana", "made").payload
        found = ana.synthetic_report("made")
    assert [line[0] for line in found.bars] == ["x", "y"]
    assert found.pair_bars[0][:2] == ("x", "y")
    for text in (found.text, found.html):
        assert "Error bars of columns" in text
        assert "the residual is a fit to what was released" in text
    raw = json.loads(payload)
    assert 0 < raw["bars"]["columns"][0][1] < 0.2
    assert 0 < raw["bars"]["columns"][0][2] < 0.1
    del raw["bars"]
    before = make_report("made", json.dumps(raw))
    assert (before.bars, before.pair_bars) == ((), ())
    assert "no error bars" in before.text
    assert open_synthesis(json.dumps(raw)).bars is None
    assert replace(before, bars=found.bars).text != before.text

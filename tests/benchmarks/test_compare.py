"""The comparison of methods: its measures are 0 of the rows themselves, cells are kept, ratios say who misses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duckdp.bench import compare, compare_sets, main
from duckdp.bench.compare_scores import MEASURES, Truth
from duckdp.bench.compare_sets import REPORTED, TUNING, load_set


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_sets, "MOST_ROWS", 600)
    load_set.cache_clear()


@pytest.mark.usefixtures("few")
def test_rows_themselves_have_no_error_and_others_have() -> None:
    truth = Truth.of(load_set("factors"))
    own = truth.measure(truth.given.rows)
    assert max(own[m] for m in MEASURES[:-1]) < 1e-6
    assert own["model"] > 0.6
    rng = np.random.default_rng(1)
    shuffled = {n: rng.permutation(v) for n, v in truth.given.rows.items()}
    found = truth.measure(shuffled)
    assert max(found["tv1"], found["means"]) < 1e-6
    assert min(found["tv2"], found["correlations"]) > 0.05
    moved = {n: np.nan_to_num(v) for n, v in truth.given.rows.items()}  # a NULL is a bin of its own
    assert truth.measure(moved)["tv1"] > 0.01


def test_sets_that_are_reported_are_not_those_of_tuning() -> None:
    assert not set(REPORTED) & set(TUNING)
    assert not {s.place for s in REPORTED.values()} & {s.place for s in TUNING.values()}
    assert len(REPORTED) >= 8


@pytest.mark.usefixtures("few")
def test_cells_are_measured_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = tmp_path / "cells"
    given = ["synthetic", "compare", "--set", "factors", "--delta", "0", "--errors", "--cells", str(cells)]
    assert main(given) == 0
    shown = capsys.readouterr().out
    for word in ("factors 1 0", "tree", "moments", "mean at delta 0", *MEASURES):
        assert word in shown
    lines = [json.loads(line) for line in cells.read_text().splitlines()]
    assert [line["cell"] for line in lines] == ["factors tree 1 0 0", "factors moments 1 0 0"]
    assert main(given) == 0
    assert capsys.readouterr().out.splitlines()[1:] == shown.splitlines()[1:]  # draws of new noise would differ


def test_ratios_are_to_the_best_above_the_floor() -> None:
    place: dict[str, Any] = {"set": "s", "epsilon": "1", "delta": "0"}
    best = dict.fromkeys(MEASURES, 0.01)
    lines: list[dict[str, Any]] = [
        {**place, "method": "tree", **best, "tv1": 0.05, "means": 0.03, "model": 0.7},
        {**place, "method": "moments", **best, "means": 0.001, "model": 0.8},
        {**place, "auto": "tree", "floors": {"means": 0.02, "correlations": 0.02}},
    ]
    (found,) = compare.ratios(lines)
    assert found["tv1"] == pytest.approx(5)
    assert found["means"] == pytest.approx(1.5)  # what a sample would err by is nobody's fault
    assert found["correlations"] == 1
    assert found["model"] == pytest.approx(0.1)
    shown = compare.as_grid([found]).rows
    assert shown[0][-1] == "MISSED tv1 model"
    assert shown[1][-1] == "MISSED"

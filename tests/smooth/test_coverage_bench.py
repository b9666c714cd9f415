"""The bench of intervals on unseen sets, on a made one: it counts what holds, and sees intervals that are too short."""

from dataclasses import replace

import numpy as np
import pytest

from duckdp.bench import coverage
from duckdp.smooth.answer import answers


@pytest.fixture(autouse=True)
def _made(monkeypatch):
    rng = np.random.default_rng(1)
    made = {"a": rng.normal(50, 9, 4000), "b": rng.gamma(2, 3, 4000)}
    monkeypatch.setattr(coverage, "load", lambda _: made)
    monkeypatch.setattr(coverage, "COLUMNS", (2,))
    monkeypatch.setattr(coverage, "DELTAS", ("0",))
    monkeypatch.setattr(coverage, "NOISES", ("cube",))


def test_lines_tell_coverage_ratios_and_what_is_outweighed():
    grid = coverage.coverage(["quakes"], releases=20, questions=6)
    (line, whole) = grid.rows
    assert line[:4] == ("quakes", "2", "cube: cube", "0")
    assert whole[0] == "all"
    assert float(line[5].rstrip("%")) > 80
    assert 0.5 < float(line[6]) < 3
    assert grid.holds


def test_intervals_that_are_too_short_are_seen(monkeypatch):
    def short(*given, **more):
        found = answers(*given, **more)
        return [replace(a, low=a.value - (a.value - a.low) / 4, high=a.value + (a.high - a.value) / 4) for a in found]

    monkeypatch.setattr(coverage, "answers", short)
    ((*_, measured),) = coverage.measure("quakes", 20, 6)
    assert measured.covered.mean() < 0.7
    assert np.median(measured.ratios) < 0.6

"""One sync for many: charges that wait together share a commit, and no sync of the journal or the anchor is dropped."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from duckdp.ledger import writer
from tests.faults import order
from tests.faults.library import run

DELAY = 0.005


def measured(
    library: Path,
    folder: Path,
    threads: int,
    pairs: int,
    delay: float,
    *,
    trace: Path | None = None,
    most: int = writer.MOST_TOGETHER,
) -> Any:
    """Seconds and syncs of so many pairs of charge and release."""
    place = folder / "run"
    place.mkdir()
    try:
        return run(library, "tests.faults.groups", place, trace or "", threads, pairs, delay, most)
    finally:
        shutil.rmtree(place)


def test_alone_each_transaction_has_its_two_syncs(library: Path, folder: Path) -> None:
    assert measured(library, folder, 1, 10, 0)["syncs"] >= 4 * 10


def test_eight_threads_share_syncs_and_drop_none(library: Path, folder: Path) -> None:
    syncs = measured(library, folder, 8, 48, DELAY, trace=folder / "trace")["syncs"]
    assert syncs < 0.5 * 4 * 48  # an eighth, where nothing disturbs
    told, early = order.disorders(folder / "trace", folder / "run")
    assert told == 2 * 49
    assert early == []


def test_a_writer_that_serves_one_after_the_other_is_noticed(library: Path, folder: Path) -> None:
    assert measured(library, folder, 8, 24, DELAY, most=1)["syncs"] >= 4 * 24


@pytest.mark.slow
def test_eight_threads_are_faster_than_one(library: Path, tmp_path: Path) -> None:
    one = min(measured(library, tmp_path, 1, 400, 0)["seconds"] for _ in range(3))
    eight = min(measured(library, tmp_path, 8, 400, 0)["seconds"] for _ in range(3))
    print(f"one thread {400 / one:.0f} pairs/s, eight {400 / eight:.0f}")
    assert one / eight > 1.4


@pytest.mark.slow
def test_eight_threads_are_four_times_as_fast_where_a_sync_takes_its_time(library: Path, tmp_path: Path) -> None:
    one = measured(library, tmp_path, 1, 100, DELAY)["seconds"] / 100
    eight = measured(library, tmp_path, 8, 400, DELAY)["seconds"] / 400
    print(f"one thread {1 / one:.0f} pairs/s, eight {1 / eight:.0f}")
    assert one / eight > 4

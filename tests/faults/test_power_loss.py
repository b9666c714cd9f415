"""Power loss with reordered, missing and torn writes: nothing acknowledged is lost, nothing is called damaged.

See ``disk.py`` for what a disk may do, ``workload.py`` for the load, ``powerloss.py`` for what is demanded. Each rule
of durability has a twin that breaks it, in which losses must be found.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.faults import disk, order, powerloss
from tests.faults.library import run
from tests.faults.loops import KEPT

VERSIONS = [path.name for path in sorted(KEPT.glob("version_*"))]
#: What breaks a rule, and whether the order of the trace alone shows it.
TWINS = {
    "journal-unsynced": True,
    "journal-synced-at-checkpoints": True,
    "anchor-unsynced": True,
    "anchor-before-commit": True,
    "folder-unsynced": False,
}


def recorded(library: Path, folder: Path, *, twin: str = "none", questions: int, before: Path | None = None) -> Path:
    """A trace of the workload; it runs in ``folder/run``, which begins as a copy of ``before``."""
    place, trace = folder / "run", folder / "trace"
    shutil.rmtree(place, ignore_errors=True)
    if before is None:
        place.mkdir()
    else:
        shutil.copytree(before, place)
    counts = run(library, "tests.faults.workload", place, trace, twin, questions)
    assert counts["SYNC"] > questions / 4
    assert counts["WRITE"] > questions  # the library sees SQLite's calls
    return trace


def kept(version: str, folder: Path) -> Path:
    """A kept ledger of an earlier version, under its name in use."""
    folder.mkdir()
    for source, name in (("keyed.db", "a.ledger"), ("keyed.anchor", "a.ledger.anchor")):
        shutil.copy(KEPT / version / source, folder / name)
    return folder


def losses(trace: Path, folder: Path, images: int, before: Path | None = None) -> list[str]:
    return powerloss.losses(trace, folder / "run", images, images, before=before)


def test_nothing_acknowledged_is_lost(library: Path, folder: Path) -> None:
    trace = recorded(library, folder, questions=20)
    told, early = order.disorders(trace, folder / "run")
    assert told > 30
    assert early == []
    assert losses(trace, folder, 60) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_lost_of_a_ledger_that_is_migrated(library: Path, folder: Path, version: str) -> None:
    before = kept(version, folder / "before")
    trace = recorded(library, folder, questions=6, before=before)
    assert order.disorders(trace, folder / "run", before)[1] == []
    assert losses(trace, folder, 40, before) == []


@pytest.mark.parametrize(("twin", "in_order"), TWINS.items())
def test_a_broken_rule_is_caught(library: Path, folder: Path, twin: str, in_order: bool) -> None:
    trace = recorded(library, folder, twin=twin, questions=12)
    assert losses(trace, folder, 30) != []
    assert bool(order.disorders(trace, folder / "run")[1]) == in_order


@pytest.mark.slow
@pytest.mark.parametrize("load", range(4))
def test_nothing_acknowledged_is_lost_in_thousands_of_crashes(library: Path, folder: Path, load: int) -> None:
    trace = recorded(library, folder, questions=150 + 50 * load)
    assert order.disorders(trace, folder / "run")[1] == []
    assert losses(trace, folder, 1500 + load) == []


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_lost_of_a_migrated_one_in_a_thousand_crashes(library: Path, folder: Path, version: str) -> None:
    before = kept(version, folder / "before")
    trace = recorded(library, folder, questions=12, before=before)
    assert losses(trace, folder, 1000, before) == []


@pytest.mark.slow
def test_the_power_fails_again_while_a_crash_is_mended(library: Path, folder: Path) -> None:
    """Crashes of ledgers that were opened after a crash, and went on from there."""
    records = list(disk.read_trace(recorded(library, folder, questions=30)))
    chance, before = random.Random(11), folder / "before"
    for _ in range(12):
        state, told = disk.Disk(folder / "run"), powerloss.Told()
        for record in records[: chance.randrange(len(records) // 4, len(records))]:
            state.replay(record)
            if record.kind == disk.Kind.MARK:
                told.hear(record)
        image = {name: text for name, text in state.after_a_crash(chance).items() if "copy" not in name}
        told.copied = False  # it is copied again
        disk.write_image(image, before)
        trace = recorded(library, folder, questions=9, before=before)
        assert powerloss.losses(trace, folder / "run", 60, 11, before=before, told=told) == []
        shutil.rmtree(before)

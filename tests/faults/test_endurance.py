"""Twenty thousand questions to one process: memory, files, threads, temporary files and time per question stay flat."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.library import ROOT, TIMEOUT

MEGABYTE = 1 << 20


def samples(what: str, folder: Path, count: int) -> list[dict[str, float]]:
    """What the process took at each tenth of its way."""
    (folder / "temporary").mkdir()
    (folder / "data").mkdir()
    command = [sys.executable, "-W", "error", "-m", "tests.faults.endurance", what, str(folder / "data"), str(count)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "temporary")}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(*found, sep="\n")
    return found


def check(found: list[dict[str, float]], *, memory: int, slower: float) -> None:
    """What the last samples show beyond the second: the first has what is made on first use."""
    early, late = found[1], found[-1]
    for held in ("files", "threads"):
        assert late[held] <= early[held] + 3, held
    assert late["temporary"] <= early["temporary"] + 2
    assert late["memory"] <= early["memory"] + memory
    assert late["journal"] < 64 * MEGABYTE
    assert late["seconds"] <= slower * early["seconds"]


@pytest.mark.parametrize("what", ["sessions", "ledger"])
def test_some_hundred_questions(folder: Path, what: str) -> None:
    check(samples(what, folder, 120), memory=40 * MEGABYTE, slower=1000)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["sessions", "ledger"])
def test_twenty_thousand_questions(tmp_path: Path, what: str) -> None:
    check(samples(what, tmp_path, 20_000), memory=60 * MEGABYTE, slower=2)

"""Twenty thousand questions to one process: memory, files, threads, temporary files and time per question stay flat."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.faults import endurance
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
    assert late["temporary"] <= early["temporary"] + 2, "temporary"
    assert late["memory"] <= early["memory"] + memory, "memory"
    assert late["journal"] < 64 * MEGABYTE, "journal"
    assert late["seconds"] <= slower * early["seconds"], "seconds"


@pytest.mark.parametrize("what", ["sessions", "ledger"])
def test_some_hundred_questions(folder: Path, what: str) -> None:
    check(samples(what, folder, 120), memory=40 * MEGABYTE, slower=1000)


@pytest.mark.parametrize("kept", ["files", "threads", "temporary", "memory"])
def test_what_keeps_something_of_each_question_is_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    held, end = list[Any](), threading.Event()

    def leaks(i: int) -> None:
        if kept == "files":
            held.append(open(os.devnull))  # noqa: SIM115
        elif kept == "threads":
            held.append(threading.Thread(target=end.wait))
            held[-1].start()
        elif kept == "temporary":
            (folder / f"{i}.tmp").touch()
        else:
            # of its own pages: what this process freed before would hide it
            held.append(mmap.mmap(-1, MEGABYTE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
            held[-1].write(b"x" * MEGABYTE)

    try:
        with pytest.raises(AssertionError, match=kept):
            check(endurance.endure(folder, 40, leaks), memory=8 * MEGABYTE, slower=1000)
    finally:
        end.set()
        for each in held:
            if kept == "files":
                each.close()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["sessions", "ledger"])
def test_twenty_thousand_questions(tmp_path: Path, what: str) -> None:
    check(samples(what, tmp_path, 20_000), memory=60 * MEGABYTE, slower=2)

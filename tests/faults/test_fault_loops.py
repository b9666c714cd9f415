"""The n-th write, sync, rename, open, allocation fails: after it everything goes on (see ``loops.py``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.library import Call, run
from tests.faults.loops import SCENARIOS

FILES = [call.name for call in Call if call not in (Call.MEMORY, Call.THREAD)]
NO_LOCK = [name for name in FILES if name != "LOCK"]  # SQLite tries for ten seconds
CHANGES = ["WRITE", "SYNC", "TRUNCATE", "LINK", "RENAME", "UNLINK"]

#: Which calls fail, with what, how, how often (-1: from then on).
FAULTS: list[tuple[list[str], str, str, int]] = [
    (FILES, "EIO", "BEFORE", 1),
    (FILES, "EIO", "AFTER", 1),
    (NO_LOCK, "EIO", "BEFORE", -1),
    (FILES, "EINTR", "BEFORE", 1),
    (["READ"], "EIO", "BEFORE", 1),
    (["WRITE"], "ENOSPC", "SHORT", -1),
    (["WRITE"], "EDQUOT", "BEFORE", -1),
    (["WRITE"], "EINTR", "SHORT", 1),
    ([*CHANGES, "OPEN"], "EROFS", "BEFORE", -1),
    (["SYNC"], "EIO", "BEFORE", -1),
    (["OPEN"], "EMFILE", "BEFORE", 1),
    (["MAP"], "ENOMEM", "BEFORE", -1),
    (["LOCK"], "ENOLCK", "BEFORE", 1),
    (["THREAD"], "EAGAIN", "BEFORE", 1),
    (["THREAD"], "EAGAIN", "BEFORE", -1),
    (["MEMORY"], "ENOMEM", "BEFORE", 1),
    (["MEMORY"], "ENOMEM", "BEFORE", -1),
    ([], "ENOMEM", "BEFORE", -1),
]
FEW, SOME = 2, 100


def loops(scenario: str, *, short: bool) -> list[dict[str, Any]]:
    found = []
    for kind, (calls, error, way, times) in enumerate(FAULTS):
        number = kind * 7 + list(SCENARIOS).index(scenario) * 3
        if calls == ["THREAD"] and scenario == "ask":
            continue  # without threads DuckDB ends the process
        if short and (kind + list(SCENARIOS).index(scenario)) % 4:
            continue
        rounds = FEW if short else SOME if calls == ["MEMORY"] else 0
        given = {"scenario": scenario, "calls": calls, "error": error, "way": way, "times": times}
        found.append(given | {"rounds": rounds, "number": number})
    return found


def findings(library: Path, folder: Path, given: list[dict[str, Any]]) -> list[str]:
    results = run(library, "tests.faults.loops", folder, json.dumps(given))
    assert sum(result["rounds"] for result in results) >= 2
    return [problem for result in results for problem in result["found"]]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_fault_now_and_then(library: Path, folder: Path, scenario: str) -> None:
    assert findings(library, folder, loops(scenario, short=True)) == []


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_fault_at_every_call(library: Path, folder: Path, scenario: str) -> None:
    assert findings(library, folder, loops(scenario, short=False)) == []

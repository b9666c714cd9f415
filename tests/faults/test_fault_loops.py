"""The n-th write, sync, rename, open, allocation fails: after it everything goes on (see ``loops.py``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.library import Call, run
from tests.faults.loops import SCENARIOS

FILES = [call.name for call in Call if call is not Call.MEMORY]
NO_LOCK = [name for name in FILES if name != "LOCK"]  # SQLite tries for ten seconds
CHANGES = ["WRITE", "SYNC", "TRUNCATE", "LINK", "RENAME", "UNLINK"]

#: Which calls fail, with what, how, how often (-1: from then on), at each how manyth n in the short form.
FAULTS: list[tuple[list[str], str, str, int, int]] = [
    (FILES, "EIO", "BEFORE", 1, 31),
    (FILES, "EIO", "AFTER", 1, 37),
    (NO_LOCK, "EIO", "BEFORE", -1, 61),
    (FILES, "EINTR", "BEFORE", 1, 67),
    (["WRITE"], "ENOSPC", "SHORT", -1, 17),
    (["WRITE"], "EDQUOT", "BEFORE", -1, 23),
    (["WRITE"], "EINTR", "SHORT", 1, 29),
    ([*CHANGES, "OPEN"], "EROFS", "BEFORE", -1, 41),
    (["SYNC"], "EIO", "BEFORE", -1, 11),
    (["OPEN"], "EMFILE", "BEFORE", 1, 5),
    (["MAP"], "ENOMEM", "BEFORE", -1, 2),
    (["LOCK"], "ENOLCK", "BEFORE", 1, 7),
    (["MEMORY"], "ENOMEM", "BEFORE", 1, 2503),
    (["MEMORY"], "ENOMEM", "BEFORE", -1, 5003),
    ([], "ENOMEM", "BEFORE", -1, 40_000),
]


def loops(scenario: str, *, short: bool) -> list[dict[str, Any]]:
    found = []
    for kind, (calls, error, way, times, step) in enumerate(FAULTS):
        if short and (kind + list(SCENARIOS).index(scenario)) % 3:
            continue
        given = {"scenario": scenario, "calls": calls, "error": error, "way": way, "times": times}
        memory = not calls or calls == ["MEMORY"]
        start = 1 + kind % step
        found.append(given | ({"step": step, "start": start} if short else {"step": step // 12 if memory else 1}))
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

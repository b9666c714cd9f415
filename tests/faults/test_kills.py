"""kill -9 under load, and races for what is left: nothing acknowledged is lost, nothing is overspent, nobody waits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from duckdp.ledger import Ledger
from duckdp.ledger.charges import MAX_ATTEMPTS
from tests.faults.kills import Told
from tests.faults.library import ROOT, TIMEOUT
from tests.faults.workload import COST
from tests.ledgers import answer, ask, set_up


def told_by(*arguments: object) -> Told:
    """What the workers of a nursery were acknowledged."""
    command = [sys.executable, "-W", "error", "-m", "tests.faults.kills", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr[-4000:]
    return Told(**json.loads(done.stdout.splitlines()[-1]))


def made(path: Path, affordable: int) -> Path:
    """A ledger that pays for so many questions and not quite another one."""
    with Ledger.open(path) as ledger:
        set_up(ledger, affordable * COST + COST - 1, 0)
    return path


def check(path: Path, told: Told, kills: int) -> int:
    """Everything acknowledged is there as it was; returns how many charges there are."""
    assert told.contradictions == []
    with Ledger.open(path, create=False) as ledger:
        rows = {row.key: row for row in ledger.charges()}
        assert ledger.state().primary_spent == COST * len(rows) <= ledger.state().primary_limit
        for question, times in told.charged.items():
            assert times == 1, f"{question} was charged {times} times"
            assert ask(question).key in rows
        for question, payload in told.released.items():
            row = rows[ask(question).key]
            assert ledger.release("ana", row.id).payload == payload
        for question in told.final:
            row = rows[ask(question).key]
            assert row.attempt == MAX_ATTEMPTS, question
            assert row.state != "released"
        # of a worker that was killed, one charge may have been made and not told
        assert len(told.charged) <= len(rows) <= len(told.charged) + kills
        return len(rows)


def killed(path: Path, workers: int, kills: int) -> None:
    made(path, 10**6)
    told = told_by(path, workers, kills, kills)
    assert len(told.released) > kills // 4
    check(path, told, kills + workers)
    again = told_by("race", path, 2)  # others go on, where they were killed too
    assert not again.contradictions
    assert len(again.released) >= 20


def raced(path: Path, workers: int, affordable: int) -> None:
    made(path, affordable)
    told = told_by("race", path, workers)
    assert told.refused > 0
    assert check(path, told, 0) == affordable == len(told.charged)


def test_killed_at_any_moment(folder: Path) -> None:
    killed(folder / "a.ledger", 3, 12)


def test_racing_for_the_last_epsilon(folder: Path) -> None:
    raced(folder / "a.ledger", 6, 37)


def test_what_was_lost_or_paid_twice_is_noticed(tmp_path: Path) -> None:
    with Ledger.open(made(tmp_path / "a.ledger", 10)) as ledger:
        for question in ("a", "b"):
            answer(ledger, ask(question, COST), question)
    whole: dict[str, Any] = {"charged": {"a": 1, "b": 1}, "released": {"a": "a", "b": "b"}}
    assert check(tmp_path / "a.ledger", Told(**whole), 0) == 2
    for wrong in (
        {"charged": {"a": 1, "b": 1, "c": 1}},  # lost
        {"charged": {"a": 2, "b": 1}},  # charged twice
        {"charged": {"a": 1}},  # nobody asked
        {"released": {"a": "other"}},
        {"contradictions": ["a"]},
    ):
        with pytest.raises(AssertionError):
            check(tmp_path / "a.ledger", Told(**{**whole, **wrong}), 0)


@pytest.mark.slow
def test_five_hundred_kills_of_eight_workers(tmp_path: Path) -> None:
    killed(tmp_path / "a.ledger", 8, 500)


@pytest.mark.slow
@pytest.mark.parametrize("affordable", [0, 1, 173, 301])
def test_thirty_two_workers_race_for_the_last_epsilon(tmp_path: Path, affordable: int) -> None:
    raced(tmp_path / "a.ledger", 32, affordable)

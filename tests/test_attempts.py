"""What runs beside who waits for it: however it is interrupted, it has ended when they go on, or it never begins."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import duckdb
import pytest

from duckdp.process.aside import aside
from duckdp.process.attempt import attempt
from tests.interruptions import interrupted, steps

WITHIN = ("process/attempt.py", "process/aside.py", str(threading.__file__))


class Statement:
    """As of a connection: it may be under way, hears interrupts, and ends soon without."""

    def __init__(self) -> None:
        self.left = self.running = False
        self.stop = threading.Event()

    def execute(self, _: object = None) -> Statement:
        self.running = True
        self.stop.wait(0.01)
        self.running = False
        return self

    def fetchall(self) -> list[Any]:
        return [(1,)]

    def interrupt(self) -> None:
        self.stop.set()


WAYS: dict[str, Callable[[Any], object]] = {
    "aside": lambda statement: aside(statement.execute, statement.interrupt),
    "attempt": lambda statement: attempt(statement, ""),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("way", WAYS)
def test_an_interrupt_anywhere_leaves_nothing_running(way: str) -> None:
    """Nor anything that begins later."""
    points = steps(lambda: WAYS[way](Statement()), WITHIN)
    assert points > 20
    late: list[int] = []
    heard = 0
    for at in range(1, points + 1):
        statement = Statement()
        run = statement.execute

        def execute(*_: object, run: Any = run, statement: Statement = statement, at: int = at) -> object:
            if statement.left:
                late.append(at)
            return run()

        statement.execute = execute  # type: ignore[method-assign]
        heard += interrupted(lambda: WAYS[way](statement), at, WITHIN) is not None  # noqa: B023
        assert not statement.running, at
        statement.left = True
    time.sleep(0.2)  # for those that would begin now
    assert late == []
    assert heard > points // 2


def test_a_statement_gives_its_rows_or_its_message() -> None:
    with duckdb.connect() as con:
        assert attempt(con, "SELECT 42") == ([(42,)], None)
        rows, problem = attempt(con, "SELECT error('no')")
    assert rows == []
    assert problem is not None
    assert "no" in problem

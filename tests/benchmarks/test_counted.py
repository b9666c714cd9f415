"""What a question costs, counted rather than timed: statements to the ledger, private reads, threads, waits for disks.

Milliseconds are for the bench, on a machine that does nothing else. What would come back unnoticed, a second look at
what is known or a thread for each statement, shows here whatever the machine does meanwhile.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from typing import Any

import pytest

import duckdp
from duckdp.ledger import anchor
from duckdp.process import aside
from duckdp.vault.engine import Engine

FRESH = "epsilon := 0.001, fresh := true"
GROUPED = "SELECT sex, count(*), avg(cost), sum(cost) FROM visits GROUP BY sex"
ASKED: dict[str, Callable[[Any, Any], object]] = {
    "count": lambda con, ana: ana.sql("SELECT count(*) FROM visits", epsilon="0.001", fresh=True),
    "group-by": lambda con, ana: ana.sql(GROUPED, epsilon="0.001", fresh=True),
    "dp_noisy_count": lambda con, ana: con.execute(f"SELECT dp_noisy_count('visits', {FRESH})").fetchall(),
    "dp_query": lambda con, ana: con.execute(f"FROM dp_query($${GROUPED}$$, {FRESH})").fetchall(),
}
#: Statements to SQLite, those of triggers included: two transactions of about ten each, and looks at what is known.
MOST_STATEMENTS = {"count": 33, "group-by": 33, "dp_noisy_count": 36, "dp_query": 36}


@pytest.mark.parametrize("name", ASKED)
def test_a_question_costs_no_more_than_it_did(
    curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(aside, "_IDLE_SECONDS", 3600.0)  # however slow the machine is
    con, session = curator.connect("ana"), curator.session("ana")
    for _ in range(3):  # what is made on first use
        ASKED[name](con, session)
    statements: list[str] = []
    counts = dict.fromkeys(("reads", "threads", "syncs"), 0)

    def counting(what: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            counts[what] += 1
            return real(*args, **named)

        return call

    store = curator.ledger._store
    for connection in (store._writer._connection, *store._idle):
        assert connection is not None
        connection.set_trace_callback(statements.append)
    monkeypatch.setattr(Engine, "run", counting("reads", Engine.run))
    monkeypatch.setattr(anchor, "_sync", counting("syncs", anchor._sync))
    for module, start in ((_thread, "start_new_thread"), (threading, "_start_new_thread")):
        monkeypatch.setattr(module, start, counting("threads", getattr(module, start)))
    ASKED[name](con, session)
    monkeypatch.undo()
    assert counts == {"reads": 1, "threads": 0, "syncs": 2}
    assert statements.count("COMMIT") == 2  # each waits for the disk once, as each move of the anchor does
    assert len(statements) <= MOST_STATEMENTS[name], statements


def test_what_is_asked_again_writes_nothing(curator: duckdp.Curator) -> None:
    session = curator.session("ana")
    statements: list[str] = []
    for _ in range(2):
        session.sql(GROUPED, epsilon="0.001")
    store = curator.ledger._store
    for connection in (store._writer._connection, *store._idle):
        assert connection is not None
        connection.set_trace_callback(statements.append)
    session.sql(GROUPED, epsilon="0.001")
    assert not [s for s in statements if s.split()[0] in ("INSERT", "UPDATE", "COMMIT")]

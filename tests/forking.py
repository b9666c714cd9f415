"""A process that forks while its threads query: what its children may do, and that none of them hangs.

Run as a program: path, number of forks, seed. Prints problems, one a line, and at last how many children ended well.
"""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import duckdb

import duckdp
from duckdp.errors import LedgerError
from duckdp.ledger import Ledger
from tests.closing import Load, ended_well, ending_of, make, open_load

HANGS = int(os.environ.get("HANGS", "120"))  # seconds after which a child counts as one that hangs


class Parent:
    """What is open at the fork."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.curator = open_load(path)
        self.session = self.curator.session("ana")
        self.con = self.curator.connect("ana")
        self.relation = self.con.sql("SELECT 1 AS one")
        self.own = duckdb.connect()
        duckdp.register(self.own, self.curator, analyst="ana")
        self.session.smooth_summary("t", ["x"], epsilon=1, name="first")  # all that is imported late is there by now
        self.session.synthesize("t", epsilon=1, rows=10, name="second")

    def uses(self) -> dict[str, Callable[[], object]]:
        ana, curator, ask = self.session, self.curator, "SELECT count(*) FROM t"
        return {
            "sql": lambda: ana.sql(ask, epsilon=1),
            "explain": lambda: ana.explain(ask, epsilon=1),
            "plain": lambda: ana.sql("SELECT 1"),
            "budget": ana.budget,
            "ledger": ana.ledger,
            "summary": lambda: ana.smooth_summary("t", ["x"], epsilon=1, name="forked"),
            "session": lambda: curator.session("ana"),
            "connect": lambda: curator.connect("ana"),
            "protect": lambda: curator.protect("t", row_cap=7),
            "suggest": curator.suggest,
            "refresh": lambda: curator.refresh(reason="x"),
            "tables": lambda: curator.tables,
            "revoke": lambda: curator.revoke("ana"),
            "charges": curator.charges,
            "state": curator.ledger.state,
            "backup": lambda: curator.ledger.backup(self.path + ".copy"),
            "again": lambda: duckdp.open(self.path, ledger=self.path + ".ledger"),
            "again ledger": lambda: Ledger.open(self.path + ".ledger"),
            "front": lambda: self.con.execute("SELECT 1"),
            "cursor": lambda: self.con.cursor(),
            "relation": lambda: self.relation.fetchall(),
            "engine": lambda: list(curator.engine.run(None, None)),
            "schema": curator.engine.schema_cursor,
        }


def child_of(parent: Parent, number: int) -> list[str]:
    """Everything that a child may try; what is wrong."""
    problems = []
    for name, use in parent.uses().items():
        try:
            problems.append(f"{name}: {use()!r}")
        except BaseException as error:  # noqa: BLE001 - that is what is looked for
            if ending_of(error) != "B212" and not (name == "engine" and ending_of(error).startswith("X101")):
                problems.append(f"{name}: {ending_of(error)}")
    parent.con.close()  # the parent's: nothing happens
    parent.curator.close()
    parent.curator.ledger.close()
    parent.curator.engine.close()
    parent.curator.engine.interrupt()
    gc.collect()
    fresh = f"{parent.path}.{number}.ledger"
    with duckdb.connect() as con:
        con.execute("CREATE TABLE u AS SELECT 1 AS x")
        with duckdp.open(con, ledger=fresh) as own:
            own.protect("u", row_cap=10)
            own.budget(epsilon=5)
            own.grant("bob", epsilon=5)
            own.session("bob").sql("SELECT count(*) FROM u", epsilon=1)
    for suffix in ("", ".anchor", ".locks"):
        os.unlink(fresh + suffix)
    return problems


def run_child(parent: Parent, number: int, way: str) -> None:
    signal.alarm(HANGS)
    faulthandler.dump_traceback_later(HANGS - 1)
    problems = ["nothing was tried"]
    try:
        problems = child_of(parent, number) if number % 4 == 0 else []
    except BaseException:  # noqa: BLE001 - that is what is looked for
        problems = [traceback.format_exc()]
    for problem in problems:
        print(f"child {number}: {problem}", flush=True)
    status = 1 if problems else 0
    if way == "_exit":
        os._exit(status)
    if way == "exec":
        os.execv(sys.executable, [sys.executable, "-c", f"raise SystemExit({status})"])
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the binding tells what it did not end
    sys.exit(status)


def work(parent: Parent, number: int) -> None:
    signal.alarm(HANGS)
    problems = child_of(parent, number)
    for problem in problems:
        print(f"worker {number}: {problem}", flush=True)
    if problems:
        raise SystemExit(1)


def main(path: str, forks: int, seed: int) -> None:
    draw, parent = random.Random(seed), Parent(path)
    folder = parent.curator.engine._folder
    load = Load(parent.curator, seed)
    load.start()
    good, ways = 0, {"_exit": 0, "exit": 0, "exec": 0, "multiprocessing": 0}
    for number in range(forks):
        time.sleep(draw.random() * 0.05)
        way = list(ways)[number % 4 if number % 8 < 4 else draw.randrange(4)]
        ways[way] += 1
        if way == "multiprocessing":
            worker = multiprocessing.get_context("fork").Process(target=work, args=(parent, number))
            worker.start()
            worker.join(HANGS + 60)
            status = worker.exitcode
        else:
            child = os.fork()
            if child == 0:
                run_child(parent, number, way)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            good += 1
        else:
            print(f"child {number}, {way}: status {status}", flush=True)
    for thread in load.threads:
        print("" if thread.is_alive() else f"the parent's thread ended: {thread.name}\n", end="")
    parent.curator.close()
    for name in load.join(float(os.environ.get("JOIN", "120"))):
        print(f"still runs: {name}")
        faulthandler.dump_traceback()
    print(*[f"{kind}: {ending}\n" for kind, ending in load.outcomes if not ended_well(ending)], sep="", end="")
    print("spilled\n" if os.path.exists(folder) else "", end="")
    try:
        parent.session.sql("SELECT count(*) FROM t", epsilon=1)
    except LedgerError as error:
        print("" if error.code == "B211" else f"closed: {error}", end="")
    with open_load(path) as again:
        bought = [c for c in again.ledger.charges() if c.state != "released"]
        for charge in bought:
            if charge.statement in load.asked:
                again.session("ana").sql(charge.statement, epsilon="0.01")
    print(f"{good} of {forks} children ended well", flush=True)


if __name__ == "__main__":
    main(make(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3]))

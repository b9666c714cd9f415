"""``duckdp bench serve``: how many small private questions a server answers, how soon, and where its time goes.

Eight clients of two analysts ask questions that nobody asked before, as fast as they are answered, of a server without
a grid of times (``--grid 0``): counts with a filter, the same in groups, averages. Each charge is durable. ::

    a second, p50, p99   of all clients together
    server, front        processor ms a question: of the server, and of the analysts' processes
    client               of the eight clients, which take it from the same cores

Then the same questions one by one in this process, by the server's own calls, the processor ms of each part:

    planning   the statement read, planned and priced   charge     admitted, committed, stored
    DuckDB     the read of private rows                 noise      drawn and added
    result     columns, error bars and notes; texts     other      identities, the log, what lies between

The rest of the server's time is its loop: bytes between clients and processes, calls, threads that wait for each other.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import duckdb

import duckdp
from duckdp.bench.measure import machine
from duckdp.compiler.release import SelectTask
from duckdp.desk.desk import Desk
from duckdp.front import binder as bound
from duckdp.ledger import Ledger
from duckdp.ledger.writer import Writer
from duckdp.serve.serving import users_beside
from duckdp.vault.engine import Engine

ANALYSTS = ("ana", "bob")
PASSWORD = "bench horse"  # of a server that lives as long as the bench
EPSILON = "0.00001"
QUESTIONS = {
    "count": "SELECT count(*) FROM visits WHERE age > {} AND cost > {}",
    "groups": "SELECT sex, count(*) AS n FROM visits WHERE age > {} AND cost > {} GROUP BY sex",
    "average": "SELECT avg(cost) FROM visits WHERE age > {} AND cost > {}",
}
HEAD = ("questions", "a second", "p50 ms", "p99 ms", "server", "front", "client")
PARTS = ("planning", "charge", "DuckDB", "noise", "result", "other")
ALONE = 300  # questions of each kind one by one
ROW_CAP = 10_000  # of the table by its declaration, whatever it has
WARM = 5  # questions before the clock runs


def make(folder: Path, rows: int) -> tuple[str, str]:
    """A DuckDB file of visits, protected, and its ledger, with both analysts as users."""
    source, ledger = str(folder / "visits.duckdb"), str(folder / "visits.ledger")
    with duckdb.connect(source) as con:
        con.execute(
            "CREATE TABLE visits AS SELECT i % 200 AS patient, CAST(20 + i % 60 AS INTEGER) AS age, "
            f"CAST(i * 7 % 5000 AS DOUBLE) AS cost, ['F', 'M'][1 + i % 2] AS sex FROM range({rows}) AS t(i)"
        )
    with duckdp.open(source, ledger=ledger) as owner:
        bounds: dict[str, tuple[object, object]] = {"age": (0, 110), "cost": (0, 5000)}
        domains = {"sex": ["F", "M"]}
        owner.protect("visits", unit_key="patient", max_rows=3, row_cap=ROW_CAP, bounds=bounds, domains=domains)
        owner.budget(epsilon=10_000)
        for analyst in ANALYSTS:
            owner.grant(analyst, epsilon=4_000)
            users_beside(ledger).add(analyst, PASSWORD)
    return source, ledger


# ---- a server under load ---------------------------------------------------------------------------------------------


class Server:
    """A server of its own, while it lasts.

    Args:
        source: its data.
        ledger: its ledger.

    Attributes:
        port: where it listens.
    """

    def __init__(self, source: str, ledger: str) -> None:
        command = [sys.executable, "-m", "duckdp", "serve", source, "--ledger", ledger, "--port", "0", "--grid", "0"]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        assert self._process.stderr is not None
        line = next((line for line in self._process.stderr if "serving" in line), "")
        self.port = int(line.split(" -p ")[1].split()[0])

    def seconds(self) -> tuple[float, float]:
        """Processor seconds so far: of the server, and of the analysts' processes."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return _seconds(str(self._process.pid)), sum(map(_seconds, children))

    def stop(self) -> None:
        """End the server and wait until it has ended."""
        self._process.terminate()
        self._process.wait(60)


def _seconds(process: str) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def loaded(server: Server, kind: str, clients: int, seconds: float) -> tuple[str, ...]:
    """A row of the first table: one kind of question, or "mixed"."""
    import psycopg

    texts = list(QUESTIONS.values()) if kind == "mixed" else [QUESTIONS[kind]]
    times: list[float] = []

    def ask(client: Any, number: int) -> None:
        for asked in range(10**9):
            began = time.perf_counter()
            if began > until:
                return
            client.execute(texts[asked % len(texts)].format(number, f"{asked}.{len(kind)}"))
            times.append(time.perf_counter() - began)

    with ExitStack() as opened:
        open_: list[Any] = []
        for number in range(clients):
            place = f"host=127.0.0.1 port={server.port} user={ANALYSTS[number % 2]} password='{PASSWORD}'"
            client = opened.enter_context(psycopg.connect(f"{place} dbname=visits", autocommit=True))
            client.execute(f"SET dp.epsilon = {EPSILON}")
            for asked in range(WARM):
                client.execute(texts[asked % len(texts)].format(number, f"-{asked}.{len(kind)}"))
            open_.append(client)
        before, own, began = server.seconds(), time.process_time(), time.perf_counter()
        until = began + seconds
        threads = [threading.Thread(target=ask, args=pair) for pair in zip(open_, range(clients), strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took, after = time.perf_counter() - began, server.seconds()
        own = time.process_time() - own
    times.sort()
    spent = [1000 * (b - a) / len(times) for a, b in zip(before, after, strict=True)]
    waited = [1000 * times[len(times) * share // 100] for share in (50, 99)]
    figures = (*waited, *spent, 1000 * own / len(times))
    return (kind, f"{len(times) / took:.0f}", *(f"{f:.0f}" if i < 2 else f"{f:.1f}" for i, f in enumerate(figures)))


# ---- parts -----------------------------------------------------------------------------------------------------------


@contextmanager
def counted(spent: dict[str, float]) -> Iterator[None]:
    """While it lasts, the processor seconds of each part are added up, of whichever thread."""
    kept: list[tuple[Any, str, Any]] = []

    def count(owner: Any, name: str, part: str, *, whole: bool = False) -> None:
        inner = getattr(owner, name)

        def call(*given: Any, **named: Any) -> Any:
            began = time.thread_time()
            try:
                found = inner(*given, **named)
                return iter(list(found)) if whole else found  # what it yields is its work too
            finally:
                spent[part] = spent.get(part, 0.0) + time.thread_time() - began

        kept.append((owner, name, inner))
        setattr(owner, name, call)

    count(bound, "plan_texts", "planning")
    count(Ledger, "admit", "charge")
    count(Ledger, "store_release", "charge")
    count(Writer, "_serve", "charge")
    count(Engine, "run", "DuckDB", whole=True)
    count(SelectTask, "_noised", "noise")
    count(Desk, "result", "result")
    try:
        yield
    finally:
        for owner, name, inner in kept:
            setattr(owner, name, inner)


def alone(source: str, ledger: str, kind: str, questions: int = ALONE) -> tuple[str, ...]:
    """A row of the second table: one kind of question, one by one in this process."""
    with duckdp.open(source, ledger=ledger) as owner:
        binder = bound.Binder(owner.session(ANALYSTS[0]).desk)
        terms = {"epsilon": EPSILON, "intervals": "false"}

        def ask(number: int) -> None:
            found = binder.query(QUESTIONS[kind].format(101, number), terms)
            assert found is not None and found.problem is None, found

        for number in range(WARM):
            ask(-1 - number)
        spent: dict[str, float] = {}
        with counted(spent):
            began = time.process_time()
            for number in range(questions):
                ask(number)
            whole = time.process_time() - began
    spent["other"] = whole - sum(spent.values())
    return (kind, *(f"{1000 * spent[part] / questions:.2f}" for part in PARTS), f"{1000 * whole / questions:.2f}")


def main(argv: list[str]) -> int:
    """Print what eight clients had, and where the time of a question goes."""
    parser = argparse.ArgumentParser(prog="duckdp bench serve", description="A server under load.")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each kind of question")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--questions", type=int, default=ALONE, help="of each kind, one by one")
    parser.add_argument("--folder", help="where the data and the ledger are: its disk takes each charge")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="duckdp-bench-", dir=options.folder) as folder:
        source, ledger = make(Path(folder), options.rows)
        parts = [alone(source, ledger, kind, options.questions) for kind in QUESTIONS]
        server = Server(source, ledger)
        try:
            rows = [loaded(server, kind, options.clients, options.seconds) for kind in (*QUESTIONS, "mixed")]
        finally:
            server.stop()
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    sys.stdout.write(f"{machine()}\n{options.clients} clients; load of the machine at the end: {load}\n\n")
    for head, found in ((HEAD, rows), (("one by one, ms", *PARTS, "all"), parts)):
        for row in (head, ("---",) * len(head), *found):
            sys.stdout.write("| " + " | ".join(row) + " |\n")
        sys.stdout.write("\n")
    return 0

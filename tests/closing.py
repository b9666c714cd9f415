"""A curator under load, in a process of its own: queries of every kind in threads, and then it is closed, or forked.

Every thread says how each of its calls ended. ``ended_well`` tells which endings are those that are promised.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

import duckdp
from duckdp.errors import DuckDPError

CODED = re.compile(r"\b([A-Z]\d{3}): ")
#: Of a statement that was under way or came too late: interrupted, closed.
TOLD = ("E102", "B211")
ENDLESS = "SELECT count(*) FROM range(100000000000) a(i) WHERE i % 7 = 3"


def make(folder: Path, rows: int = 60_000) -> str:
    path = str(folder / "load.duckdb")
    with duckdb.connect(path) as con:
        con.execute(
            "CREATE TABLE t AS SELECT CAST(i % 997 AS INTEGER) AS x, CAST(i * 7 % 5000 AS DOUBLE) AS y, "
            "CAST(i % 3 AS VARCHAR) AS k FROM range(?) AS r(i)",
            [rows],
        )
    return path


def open_load(path: str, **more) -> duckdp.Curator:
    curator = duckdp.open(path, ledger=path + ".ledger", **more)
    curator.protect(
        "t", row_cap=100_000, expected_rows=60_000, bounds={"x": (0, 1000), "y": (0, 5000)}, domains={"k": list("012")}
    )
    curator.budget(epsilon=1_000_000, delta="0.1")
    curator.grant("ana", epsilon=1_000_000, delta="0.1")
    return curator


class Load:
    """Threads that ask one question after the other until nobody answers any more.

    Attributes:
        outcomes: (kind, "" or what went wrong) of all calls.
        asked: text and epsilon of all private SELECTs, to be asked again.
    """

    def __init__(self, curator: duckdp.Curator, seed: int) -> None:
        self.outcomes: list[tuple[str, str]] = []
        self.asked: list[str] = []
        self._curator, self._seed, self._numbers = curator, seed, iter(range(10**9))
        self.stop = False
        kinds = (self.query, self.query, self.front, self.front, self.plain, self.summary, self.table, self.cursors)
        self.threads = [threading.Thread(target=self._run, args=(kind,), daemon=True) for kind in kinds]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def join(self, seconds: float) -> list[str]:
        """Names of the threads that still run."""
        end = time.monotonic() + seconds
        for thread in self.threads:
            thread.join(max(0.0, end - time.monotonic()))
        return [thread.name for thread in self.threads if thread.is_alive()]

    def _run(self, kind: Callable[[], None]) -> None:
        failures = 0
        while failures < 3 and not self.stop:
            try:
                kind()
                self.outcomes.append((kind.__name__, ""))
            except BaseException as error:  # noqa: BLE001 - that is what is looked for
                failures += 1
                self.outcomes.append((kind.__name__, ending_of(error)))

    def _text(self) -> str:
        number = f"{self._seed}{next(self._numbers):06}"
        text = f"SELECT k, count(*), sum(x) FROM t WHERE y < 1000 + 0.{number} GROUP BY k"
        self.asked.append(text)
        return text

    def query(self) -> None:
        self._curator.session("ana").sql(self._text(), epsilon="0.01")

    def front(self) -> None:
        with self._curator.connect("ana") as con:
            con.execute("FROM dp_query($1, epsilon := 0.01)", [self._text()]).fetchall()

    def plain(self) -> None:
        con = self._curator.connect("ana")
        con.execute(ENDLESS).fetchall()

    def summary(self) -> None:
        name = f"s{self._seed}_{next(self._numbers)}"
        self._curator.session("ana").smooth_summary("t", ["x", "y"], epsilon=1, degree=6, name=name)

    def table(self) -> None:
        name = f"s{self._seed}_{next(self._numbers)}"
        self._curator.session("ana").synthesize("t", epsilon=1, rows=200, name=name)

    def cursors(self) -> None:
        con = self._curator.connect("ana")
        for _ in range(3):
            con = con.cursor()
            con.sql("SELECT sum(i) FROM range(300000) r(i)").fetchall()


def ending_of(error: BaseException) -> str:
    """The code of an error that is ours or carries one of ours; else what is to be seen of it."""
    if isinstance(error, DuckDPError):
        return f"{error.code}: {error.message}" if error.code == "X101" else error.code
    coded = CODED.search(str(error)) if isinstance(error, duckdb.Error) else None
    return coded[1] if coded else f"RAW {type(error).__name__}: {str(error)[:2000]}"


def ended_well(ending: str) -> bool:
    return ending == "" or ending in TOLD


def close_once(path: str, seed: int) -> dict[str, object]:
    """Open, load, close at a random time, and look at what is left."""
    draw = random.Random(seed)
    curator = open_load(path)
    folder = curator.engine._folder
    load = Load(curator, seed)
    load.start()
    wanted, late = draw.choice([0, 1, 5, 20, 60]), time.monotonic() + 5.0
    while len(load.outcomes) < wanted and time.monotonic() < late:
        time.sleep(0.005)
    time.sleep(draw.random() * 0.05)
    problems = []
    closers = [threading.Thread(target=curator.close, daemon=True) for _ in range(draw.choice([0, 0, 3]))]
    for closer in closers:
        closer.start()
    began = time.monotonic()
    try:
        curator.close()
    except BaseException as error:  # noqa: BLE001 - that is what is looked for
        problems.append(f"close: {ending_of(error)}")
        load.stop = True
    took = time.monotonic() - began
    problems += [f"still runs: {name}" for name in load.join(120)]
    for closer in closers:
        closer.join(60)
    problems += [f"{kind}: {ending}" for kind, ending in load.outcomes if not ended_well(ending)]
    problems += ["spilled"] if os.path.exists(folder) else []
    charged, asked = left_open(path, load.asked, problems)
    return {"problems": problems, "charged": charged, "asked": asked, "took": round(took, 2)}


def left_open(path: str, asked: list[str], problems: list[str]) -> tuple[int, int]:
    """Ask all questions again: each is answered, and what was charged is not charged again."""
    with open_load(path) as curator:
        before = curator.ledger.state().primary_spent
        charges = {c.statement: c for c in curator.ledger.charges("ana")}
        unpaid = [text for text in asked if text not in charges]
        session = curator.session("ana")
        for text in asked:
            if text in charges:
                try:
                    session.sql(text, epsilon="0.01")
                except BaseException as error:  # noqa: BLE001 - that is what is looked for
                    problems.append(f"again: {ending_of(error)} {charges[text]}")
        if curator.ledger.state().primary_spent != before:
            problems.append("charged again")
        return len(asked) - len(unpaid), len(asked)

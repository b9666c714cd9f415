"""Neighbouring tables through the whole path, text to answer: the empirical epsilon stays below the claim.

Two curators hold tiny tables that differ by one privacy unit, which has more rows than count. Each answers the same
question many times anew; what tells the tables apart best on one half of the answers is measured on the other half
(statistics.epsilon_lower_bound, which exceeds the true one once in 10^9). The same code must catch broken twins: noise
of half the scale, and a reading that does not bound the unit's rows.

DUCKDP_RUNS sets how often each table is asked (100,000). A run takes 3 to 10 ms, most of it two durable writes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import pyarrow as pa
import pytest

import duckdp
from duckdp import Session
from duckdp.compiler.emit import emit
from duckdp.compiler.release import SelectTask
from duckdp.core.reads import PrivateQuery
from duckdp.mechanisms.smooth_sensitivity import SmoothQuantile
from duckdp.mechanisms.sparse_vector import SparseVector
from tests.privacy.statistics import epsilon_lower_bound

pytestmark = pytest.mark.slow

RUNS = int(os.environ.get("DUCKDP_RUNS", "100000"))
EPSILON = 1
ROWS = [(1, 1, "a"), (1, 2, "b"), (2, 3, "a"), (3, 0, "b"), (4, 2, "a")]
ONE_MORE = [(9, 5, "a")] * 8 + [(9, 5, "b")] * 8
# one unit moves the median from 2 to 3, by as much as the smooth sensitivity is
EVEN = [(100 + i, 2 + i % 2, "a") for i in range(120)]


def _number(text: str) -> Callable[[Session], float]:
    def ask(session: Session) -> float:
        (row,) = session.sql(text, epsilon=EPSILON, fresh=True)
        return float(row[0] if row[0] is not None else -1)

    return ask


def _groups(session: Session) -> float:
    """The direction in which the unit moves both groups at once."""
    return float(sum(n for _, n in session.sql("SELECT g, count(*) FROM t GROUP BY g", epsilon=EPSILON, fresh=True)))


def _median(session: Session) -> float:
    return float(session.median_smooth("t", "x", epsilon=EPSILON, fresh=True).rows()[0][0])


NOBODYS = [f"x >= 4.{i}" for i in range(1, 5)]  # but of the one unit more; then one that it has no part in
IN_TURN = [*NOBODYS, "x < 3"]


def _first_hit(session: Session) -> float:
    """Which predicate of a list is the first hit."""
    found = session.above_threshold("t", IN_TURN, 1, epsilon=EPSILON, fresh=True)["above"]
    return float(found.index(True)) if True in found else float(len(found))


def _first_answer(session: Session) -> float:
    """Which question to a handle is the first hit."""
    handle = session.sparse_open("t", 1, epsilon=EPSILON, fresh=True)["handle"][0]
    hits = (place for place, text in enumerate(IN_TURN) if session.sparse_ask(handle, text)["above"][0])
    return float(next(hits, len(IN_TURN)))


QUESTIONS: dict[str, Callable[[Session], float]] = {
    "count": _number("SELECT count(*) FROM t"),
    "sum": _number("SELECT sum(x) FROM t"),
    "average": _number("SELECT avg(x) FROM t"),
    "grouped count": _groups,
    "median": _median,
    "first hit of a list": _first_hit,
    "first hit of a handle": _first_answer,
}


class HalfTheNoise(SelectTask):
    """A broken twin: what is drawn has half the scale of what is claimed."""

    def release(self, rows: Any) -> str:
        noises = tuple(n and replace(n, scale=n.scale / 2) for n in self.plan.noises)
        return SelectTask(plan=replace(self.plan, noises=noises)).release(rows)


class Unbounded(SelectTask):
    """A broken twin: the unit's rows all count."""

    def query(self, salt: int) -> PrivateQuery:
        table = replace(self.plan.query.table, max_rows=1000)
        return emit(replace(self.plan, query=replace(self.plan.query, table=table)), salt)


def _break(twin: str | None) -> None:
    """Replace a part of the package by a broken one, in this process."""
    if twin == "median at a sixth of the noise":
        honest = SmoothQuantile.release
        SmoothQuantile.release = lambda self, m, s: honest(self, m, s / 6)  # type: ignore[method-assign]
    elif twin == "sparse vector at a quarter of the noise":
        doubled = property(lambda self: (2 * self.epsilon_nano, 2 * self.epsilon_nano, 0))
        SparseVector.shares = doubled  # type: ignore[assignment]
    elif twin is not None:
        import duckdp.desk.desk

        duckdp.desk.desk.SelectTask = {"half the noise": HalfTheNoise, "unbounded": Unbounded}[twin]  # type: ignore[misc]


def _answers(rows: list[tuple[int, int, str]], question: str, runs: int, twin: str | None) -> list[float]:
    """Ask one table again and again, in a process of its own."""
    _break(twin)
    ids, values, groups = zip(*rows, strict=True)
    with tempfile.TemporaryDirectory() as folder:
        frame = pa.table({"id": ids, "x": values, "g": groups})
        with duckdp.open({"t": frame}, ledger=f"{folder}/ledger") as curator:
            curator.protect(
                "t",
                unit_key="id",
                max_rows=2,
                max_groups=2,
                row_cap=200,
                bounds={"x": (0, 5)},
                domains={"g": ["a", "b"]},
            )
            curator.budget(epsilon=1_000_000)
            curator.grant("ana", epsilon=1_000_000)
            curator.engine.schema_cursor().execute("SET threads = 1")  # tiny tables: threads only cost time
            session = curator.session("ana")
            found = [QUESTIONS[question](session) for _ in range(runs)]
            assert len(curator.ledger.charges()) == runs
    return found


def _measure(question: str, runs: int, twin: str | None = None) -> float:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        table = EVEN if question == "median" else ROWS
        waiting = [pool.submit(_answers, rows, question, runs, twin) for rows in (table, table + ONE_MORE)]
        first, second = (w.result() for w in waiting)
    return epsilon_lower_bound(first, second)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_empirical_epsilon_is_below_the_claim(
    question: str, record_property: Callable[[str, object], None]
) -> None:
    found = _measure(question, RUNS)
    record_property("epsilon_lower_bound", found)
    print(f"{question}: epsilon of at least {found:.3f}, claimed {EPSILON}, {RUNS} runs a table")
    assert found <= EPSILON


@pytest.mark.parametrize(
    ("question", "twin"),
    [
        ("count", "half the noise"),
        ("sum", "half the noise"),
        ("grouped count", "half the noise"),
        ("count", "unbounded"),
        ("sum", "unbounded"),
        ("grouped count", "unbounded"),
        ("average", "unbounded"),
        ("median", "median at a sixth of the noise"),
        ("first hit of a list", "sparse vector at a quarter of the noise"),
        ("first hit of a handle", "sparse vector at a quarter of the noise"),
    ],
)
def test_a_broken_twin_is_caught(question: str, twin: str) -> None:
    found = _measure(question, min(RUNS, 10_000), twin)
    print(f"{question}, {twin}: epsilon of at least {found:.3f}, claimed {EPSILON}")
    assert found > EPSILON

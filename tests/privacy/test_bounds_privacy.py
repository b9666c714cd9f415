"""Neighbouring tables through the whole path: bounds, histograms of units and choices stay below their epsilon.

Two curators hold tables that differ by one unit of many rows, in a range that only it reaches. Each is asked many times
anew; what tells them apart best on one half of the answers is measured on the other (statistics.epsilon_lower_bound).
Broken twins (a tenth of the noise; all rows of a unit) must be caught. Exact losses: mechanisms/test_bounds.py.

DUCKDP_RUNS sets how often each table is asked (20,000).
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
from tests.privacy.statistics import epsilon_lower_bound

pytestmark = pytest.mark.slow

RUNS = min(20_000, int(os.environ.get("DUCKDP_RUNS", "20000")))
EPSILON = 1
ROWS = [(i, i % 5 + 1) for i in range(60)]
ONE_MORE = [(99, 100)] * 20


def _above(session: Session) -> float:
    """Rows clipped above the widest range: of the new unit, one; -1000 where there is no range."""
    rows = session.bounds("t", "x", epsilon=EPSILON, fresh=True).rows()
    return -1000.0 if rows[0][3] is None else float(rows[0][3])


def _over(session: Session) -> float:
    return float(session.rows_per_unit("t", epsilon=EPSILON, fresh=True).rows()[2][1])


def _chosen(session: Session) -> float:
    """Which of two predicates: the first holds for the new unit alone, the second for none."""
    chosen = session.choose("t", ["x > 50", "x > 120"], epsilon=EPSILON, fresh=True)["value"]
    return float(chosen == ["x > 50"])


QUESTIONS: dict[str, Callable[[Session], float]] = {
    "clipped above": _above,
    "units over 5 rows": _over,
    "chosen predicate": _chosen,
}


def _break(twin: str | None) -> None:
    """Replace a part of the package by a broken one, in this process."""
    from duckdp.mechanisms import bounds, top_k, unit_histogram

    if twin == "a tenth of the noise":
        honest, added = bounds.laplace_noise, unit_histogram.add_noise
        bounds.laplace_noise = lambda n, scale: honest(n, scale / 10)
        unit_histogram.add_noise = lambda v, noise: added(v, type(noise)("laplace", noise.scale / 10))
        best = top_k.choose_best
        top_k.choose_best = lambda scores, *, epsilon, **more: best(scores, epsilon=10 * epsilon, **more)
    elif twin == "all rows":
        import duckdp.compiler.bounds as task

        chosen = task.print_chosen
        task.print_chosen = lambda rows, names, salt, most: chosen(rows, names, salt, 1000)

        from duckdp.compiler.choice import PredicateChoice

        asked = PredicateChoice.query
        PredicateChoice.query = lambda self, salt: replace(  # type: ignore[method-assign]
            asked(self, salt), sql=asked(self, salt).sql.replace("system.main.max(", "system.main.sum(")
        )


def _answers(rows: list[tuple[int, int]], question: str, runs: int, twin: str | None) -> list[float]:
    _break(twin)
    ids, values = zip(*rows, strict=True)
    with tempfile.TemporaryDirectory() as folder:
        frame = pa.table({"id": ids, "x": pa.array(values, pa.int8())})
        with duckdp.open({"t": frame}, ledger=f"{folder}/ledger") as curator:
            curator.protect("t", unit_key="id", max_rows=2, row_cap=200, columns=["x"])
            curator.budget(epsilon=1_000_000)
            curator.grant("ana", epsilon=1_000_000)
            curator.engine.schema_cursor().execute("SET threads = 1")
            session = curator.session("ana")
            return [QUESTIONS[question](session) for _ in range(runs)]


def _measure(question: str, runs: int, twin: str | None = None) -> float:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        waiting: list[Any] = [pool.submit(_answers, r, question, runs, twin) for r in (ROWS, ROWS + ONE_MORE)]
        first, second = (w.result() for w in waiting)
    return epsilon_lower_bound(first, second)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_empirical_epsilon_is_below_the_claim(question: str) -> None:
    found = _measure(question, RUNS)
    print(f"{question}: epsilon of at least {found:.3f}, claimed {EPSILON}, {RUNS} runs a table")
    assert found <= EPSILON


@pytest.mark.parametrize(
    ("question", "twin"),
    [
        ("units over 5 rows", "a tenth of the noise"),
        ("clipped above", "all rows"),
        ("chosen predicate", "a tenth of the noise"),
        ("chosen predicate", "all rows"),
    ],
)
def test_a_broken_twin_is_caught(question: str, twin: str) -> None:
    found = _measure(question, min(RUNS, 10_000), twin)
    print(f"{question}, {twin}: epsilon of at least {found:.3f}, claimed {EPSILON}")
    assert found > EPSILON

"""Neighbouring tables through SQL: what a table of weights tells of them stays below its epsilon, and twins do not.

As in ``test_kmeans_privacy.py``. Exact costs: mechanisms/test_mwem.py.

DUCKDP_RUNS sets how often each table is asked (3,000; of twins at most 600).
"""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pyarrow as pa
import pytest

import duckdp
from tests.privacy.statistics import epsilon_lower_bound

pytestmark = pytest.mark.slow

RUNS = min(20_000, int(os.environ.get("DUCKDP_RUNS", "3000")))
EPSILON = 1
ROWS = [(i, "a") for i in range(4)]
ONE_MORE = [(99, "b")] * 60


def _break(twin: str | None) -> None:
    """A part of the package replaced by a broken one, in this process."""
    from duckdp.compiler import workload
    from duckdp.mechanisms.mwem import WorstQuestions

    if twin == "a thirtieth of the noise":
        plain = WorstQuestions.each_nano.fget
        WorstQuestions.each_nano = property(lambda self: 30 * plain(self))  # type: ignore[assignment, misc]
    elif twin == "rows for units":
        counted = workload.count_units
        from dataclasses import replace as changed

        workload.count_units = lambda table, where, asked: counted(  # type: ignore[assignment]
            changed(table, unit_key=None, unit_type=None), where, asked
        )


def _answers(rows: list[tuple[int, str]], runs: int, twin: str | None) -> list[float]:
    _break(twin)
    ids, values = zip(*rows, strict=True)
    with tempfile.TemporaryDirectory() as folder:
        frame = pa.table({"id": ids, "x": values})
        with duckdp.open({"t": frame}, ledger=f"{folder}/ledger") as curator:
            curator.protect("t", unit_key="id", max_rows=1, row_cap=200, domains={"x": ["a", "b"]})
            curator.budget(epsilon=1_000_000)
            curator.grant("ana", epsilon=1_000_000)
            curator.engine.schema_cursor().execute("SET threads = 1")
            con = curator.connect("ana")
            asked = "['x'], [$$x = 'a'$$, $$x = 'b'$$], rounds := 1"
            call = f"SELECT count FROM dp_mwem('t', {asked}, epsilon := {EPSILON}, fresh := true) WHERE x = 'b'"
            return [float(con.execute(call).fetchall()[0][0]) for _ in range(runs)]


def _measure(runs: int, twin: str | None = None) -> float:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        waiting: list[Any] = [pool.submit(_answers, r, runs, twin) for r in (ROWS, ROWS + ONE_MORE)]
        first, second = (w.result() for w in waiting)
    return epsilon_lower_bound(first, second)  # type: ignore[arg-type]


def test_the_empirical_epsilon_is_below_the_claim() -> None:
    found = _measure(RUNS)
    print(f"epsilon of at least {found:.3f}, claimed {EPSILON}, {RUNS} runs a table")
    assert found <= EPSILON


@pytest.mark.parametrize("twin", ["a thirtieth of the noise", "rows for units"])
def test_a_broken_twin_is_caught(twin: str) -> None:
    found = _measure(min(RUNS, 600), twin)
    print(f"{twin}: epsilon of at least {found:.3f}, claimed {EPSILON}")
    assert found > EPSILON

"""Neighbouring tables through SQL: what a stream of counts from public weights tells stays below its epsilon.

As in ``test_kmeans_privacy.py``: of every stream, opened anew, the answers to the same questions make one number. Exact
losses: mechanisms/test_multiplicative_weights.py. Twins: a thirtieth of the noise; rows for units; what fits is told
exactly.

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
THRESHOLD = 1  # reached by noise alone, so that most answers are measured
QUESTIONS = ("x = 'b'", "x <> 'a'")  # the same cells, so that what the first one mends shows in the second
SCALES = (1, 1000)  # answers in one number, of which intervals tell much of both


def _break(twin: str | None) -> None:
    """A part of the package replaced by a broken one, in this process."""
    from dataclasses import replace

    from duckdp.compiler import weighted_stream
    from duckdp.mechanisms.multiplicative_weights import MultiplicativeWeights, Reply

    if twin == "a thirtieth of the noise":
        made = MultiplicativeWeights.vector.func
        MultiplicativeWeights.vector = property(  # type: ignore[assignment, method-assign]
            lambda self: replace(made(self), epsilon_nano=30 * self.epsilon_nano)
        )
    elif twin == "rows for units":
        counted = weighted_stream.count_units
        weighted_stream.count_units = lambda table, where, asked: counted(  # type: ignore[assignment]
            replace(table, unit_key=None, unit_type=None), where, asked
        )
    elif twin == "what fits is exact":
        MultiplicativeWeights.reply = lambda self, count, guess, shift: Reply(  # type: ignore[method-assign]
            value=float(count), measured=False
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
            opened = (
                f"SELECT handle FROM dp_pmw_open('t', ['x'], epsilon := {EPSILON}, hits := 2, "
                f"threshold := {THRESHOLD}, fresh := true)"
            )

            def stream() -> float:
                (handle,) = con.execute(opened).fetchall()[0]
                asked = [con.execute(f"SELECT dp_pmw_answer({handle}, $${q}$$)").fetchall()[0][0] for q in QUESTIONS]
                return sum(scale * round(float(value)) for scale, value in zip(SCALES, asked, strict=True))

            return [stream() for _ in range(runs)]


def _measure(runs: int, twin: str | None = None) -> float:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        waiting: list[Any] = [pool.submit(_answers, r, runs, twin) for r in (ROWS, ROWS + ONE_MORE)]
        first, second = (w.result() for w in waiting)
    return epsilon_lower_bound(first, second)  # type: ignore[arg-type]


def test_the_empirical_epsilon_is_below_the_claim() -> None:
    found = _measure(RUNS)
    print(f"epsilon of at least {found:.3f}, claimed {EPSILON}, {RUNS} runs a table")
    assert found <= EPSILON


@pytest.mark.parametrize("twin", ["a thirtieth of the noise", "rows for units", "what fits is exact"])
def test_a_broken_twin_is_caught(twin: str) -> None:
    found = _measure(min(RUNS, 600), twin)
    print(f"{twin}: epsilon of at least {found:.3f}, claimed {EPSILON}")
    assert found > EPSILON

"""Neighbouring tables through SQL: what a stream of counts from public weights tells stays below its epsilon.

As ``audits.py`` says: of every stream, opened anew, the answers to the same questions make one number. Exact
losses: mechanisms/test_multiplicative_weights.py. Twins: a thirtieth of the noise; rows for units; what fits is told
exactly.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from tests.privacy.audits import EPSILON, RUNS, TWIN_RUNS, lower_bound

pytestmark = pytest.mark.slow

ROWS = [(i, "a") for i in range(4)]
ONE_MORE = [(99, "b")] * 60
THRESHOLD = 1  # reached by noise alone, so that most answers are measured
QUESTIONS = ("x = 'b'", "x <> 'a'")  # the same cells, so that what the first one mends shows in the second
SUMS = ("CASE WHEN x = 'b' THEN 0.9 END", "CASE WHEN x = 'a' THEN 0 ELSE 1 END")  # the same, added up
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


def _stream(con: Any, questions: tuple[str, ...] = QUESTIONS) -> float:
    opened = (
        f"SELECT handle FROM dp_pmw_open('t', ['x'], epsilon := {EPSILON}, hits := 2, "
        f"threshold := {THRESHOLD}, fresh := true)"
    )
    (handle,) = con.execute(opened).fetchall()[0]
    asked = [con.execute(f"SELECT dp_pmw_answer({handle}, $${q}$$)").fetchall()[0][0] for q in questions]
    return float(sum(scale * round(float(value)) for scale, value in zip(SCALES, asked, strict=True)))


def _measure(runs: int, twin: str | None = None, questions: tuple[str, ...] = QUESTIONS) -> float:
    one, two = (pa.table({"id": [i for i, _ in r], "x": [x for _, x in r]}) for r in (ROWS, ROWS + ONE_MORE))
    declared = {"max_rows": 1, "row_cap": 200, "domains": {"x": ["a", "b"]}}
    return lower_bound(
        twin or "as shipped", (one, two), partial(_stream, questions=questions), runs, partial(_break, twin), **declared
    )


@pytest.mark.parametrize("questions", [QUESTIONS, SUMS], ids=["counts", "sums"])
def test_the_empirical_epsilon_is_below_the_claim(questions: tuple[str, ...]) -> None:
    assert _measure(RUNS, questions=questions) <= EPSILON


@pytest.mark.parametrize("questions", [QUESTIONS, SUMS], ids=["counts", "sums"])
@pytest.mark.parametrize("twin", ["a thirtieth of the noise", "rows for units", "what fits is exact"])
def test_a_broken_twin_is_caught(twin: str, questions: tuple[str, ...]) -> None:
    assert _measure(TWIN_RUNS, twin, questions) > EPSILON

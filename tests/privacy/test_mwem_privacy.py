"""Neighbouring tables through SQL: what a table of weights tells of them stays below its epsilon, and twins do not.

As ``audits.py`` says: of every table of weights one cell is looked at. Exact costs: mechanisms/test_mwem.py. Twins: a
thirtieth of the noise; rows for units.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pytest

from tests.privacy.audits import EPSILON, RUNS, TWIN_RUNS, lower_bound

pytestmark = pytest.mark.slow

ROWS = [(i, "a") for i in range(40)]  # so many that the noise of the total hides less of what is measured
ONE_MORE = [(99, "b")] * 60
CALL = "SELECT count FROM dp_mwem('t', ['x'], [$$x = 'a'$$, $$x = 'b'$$], rounds := 1, epsilon := 1, fresh := true)"


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


def _measure(runs: int, twin: str | None = None) -> float:
    one, two = (pa.table({"id": [i for i, _ in r], "x": [x for _, x in r]}) for r in (ROWS, ROWS + ONE_MORE))
    declared = {"max_rows": 1, "row_cap": 200, "domains": {"x": ["a", "b"]}}
    ask = f"{CALL} WHERE x = 'b'"
    return lower_bound(twin or "as shipped", (one, two), ask, runs, partial(_break, twin), **declared)


def test_the_empirical_epsilon_is_below_the_claim() -> None:
    assert _measure(RUNS) <= EPSILON


@pytest.mark.parametrize("twin", ["a thirtieth of the noise", "rows for units"])
def test_a_broken_twin_is_caught(twin: str) -> None:
    assert _measure(TWIN_RUNS, twin) > EPSILON

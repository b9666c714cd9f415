"""Neighbouring tables through SQL: what is combined of blocks stays below its epsilon, and broken twins do not.

Two curators hold tables that differ by one unit of many rows, far from all others. Each is asked many times anew; what
tells them apart best on one half of the answers is measured on the other (statistics.epsilon_lower_bound). The range
has few cells here, as the laws of the median and of the centre tell most on few. Twins: a tenth of the noise; rows of a
unit in any block. Exact losses: mechanisms/test_block_mechanisms.py.

DUCKDP_RUNS sets how often each table is asked (20,000).
"""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import pyarrow as pa
import pytest

import duckdp
from tests.privacy.statistics import epsilon_lower_bound

pytestmark = pytest.mark.slow

RUNS = min(20_000, int(os.environ.get("DUCKDP_RUNS", "20000")))
EPSILON = 1
ROWS = [(i, 0) for i in range(12)]
ONE_MORE = [(99, 100 - k) for k in range(20)]
CELLS = 4
BLOCKS = {"mean": 4, "median": 1, "center": 2}  # the fewest: of few a unit moves most
TWO = ", more := ['quantile_disc(x, 0.98)']"  # several aggregates at once: the sum of both is looked at
MOST_OF_TWO = 3_000  # runs


def _break(twin: str | None) -> None:
    """Few cells, and a part of the package replaced by a broken one, in this process."""
    from duckdp.compiler import block_values as blocks
    from duckdp.compiler import block_vectors as vectors

    blocks.CELLS = vectors.CELLS = CELLS  # type: ignore[misc]
    if twin == "a tenth of the noise":
        made = blocks.BlockTask.mechanism_of_blocks.func
        blocks.BlockTask.mechanism_of_blocks = property(  # type: ignore[assignment]
            lambda self: replace(made(self), epsilon_nano=10 * self.epsilon_nano)
        )
    elif twin == "the centre itself":
        vectors.CenterOfVectors.release = lambda self, given: self.center(given)[0]  # type: ignore[method-assign]
    elif twin == "rows in any block":
        asked = blocks.BlockTask.query
        blocks.BlockTask.query = lambda self, salt: replace(  # type: ignore[method-assign]
            asked(self, salt), sql=asked(self, salt).sql.replace("hash(q.unit,", "hash(q.c0,")
        )


def _answers(rows: list[tuple[int, int]], method: str, runs: int, twin: str | None, more: str) -> list[float]:
    _break(twin)
    ids, values = zip(*rows, strict=True)
    with tempfile.TemporaryDirectory() as folder:
        frame = pa.table({"id": ids, "x": pa.array(values, pa.int8())})
        with duckdp.open({"t": frame}, ledger=f"{folder}/ledger") as curator:
            curator.protect("t", unit_key="id", max_rows=2, row_cap=200, bounds={"x": (0, 100)})
            curator.budget(epsilon=1_000_000)
            curator.grant("ana", epsilon=1_000_000)
            curator.engine.schema_cursor().execute("SET threads = 1")
            con = curator.connect("ana")
            call = (
                f"dp_sample_aggregate('t', 'quantile_disc(x, 0.99)', epsilon := {EPSILON}, blocks := {BLOCKS[method]}"
            )
            call = f"SELECT sum(value) FROM {call}{more}, method := '{method}', low := 0, high := 80, fresh := true)"
            return [float(con.execute(call).fetchall()[0][0]) for _ in range(runs)]


def _measure(method: str, runs: int, twin: str | None = None, more: str = "") -> float:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        waiting: list[Any] = [pool.submit(_answers, r, method, runs, twin, more) for r in (ROWS, ROWS + ONE_MORE)]
        first, second = (w.result() for w in waiting)
    return epsilon_lower_bound(first, second)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["mean", "median", "center"])
def test_the_empirical_epsilon_is_below_the_claim(method: str) -> None:
    found = _measure(method, RUNS)
    print(f"{method}: epsilon of at least {found:.3f}, claimed {EPSILON}, {RUNS} runs a table")
    assert found <= EPSILON


@pytest.mark.parametrize(
    ("method", "twin"),
    [
        ("mean", "a tenth of the noise"),
        ("median", "a tenth of the noise"),
        ("center", "a tenth of the noise"),
        ("mean", "rows in any block"),
    ],
)
def test_a_broken_twin_is_caught(method: str, twin: str) -> None:
    found = _measure(method, min(RUNS, 10_000), twin)
    print(f"{method}, {twin}: epsilon of at least {found:.3f}, claimed {EPSILON}")
    assert found > EPSILON


@pytest.mark.parametrize("method", ["mean", "center"])
def test_the_empirical_epsilon_of_two_at_once_is_below_the_claim(method: str) -> None:
    found = _measure(method, min(RUNS, MOST_OF_TWO), more=TWO)
    print(f"two by {method}: epsilon of at least {found:.3f}, claimed {EPSILON}")
    assert found <= EPSILON


@pytest.mark.parametrize(("method", "twin"), [("mean", "a tenth of the noise"), ("center", "the centre itself")])
def test_a_broken_twin_of_two_at_once_is_caught(method: str, twin: str) -> None:
    found = _measure(method, min(RUNS, MOST_OF_TWO), twin, TWO)
    print(f"two by {method}, {twin}: epsilon of at least {found:.3f}, claimed {EPSILON}")
    assert found > EPSILON

"""A quantile's neighbours by brute force: a unit with all its rows moves it within S, and S within e^beta."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import duckdb
import pytest

from duckdp.compiler.quantile import QuantileTask, plan_quantile
from duckdp.core.types import NANO, Neighbours
from tests.gate import COLUMNS, clinic, load

MOST, PLACE = 4, 1 + [c.name for c in COLUMNS].index("cost")
VALUES = (0.0, 0.0, 1.0, 2500.0, 5000.0, 5000.0)


def _task() -> QuantileTask:
    return plan_quantile(
        clinic(max_rows=MOST),
        "cost",
        None,
        epsilon_nano=9 * NANO,
        delta_atto=0,
        quantile=Fraction(1, 2),
        neighbours=Neighbours.ADD_REMOVE,
    )


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as con:
        yield con


def _read(con: duckdb.DuckDBPyConnection, task: QuantileTask, rows: list[tuple[int, float]]) -> tuple[int, float]:
    empty = (None,) * (len(COLUMNS) + 1)
    load(con, task.table, [(unit, *empty[1:PLACE], cost, *empty[PLACE + 1 :]) for unit, cost in rows], "clinic")
    query = task.query(5)
    return con.execute(query.sql, list(query.parameters)).fetchone()  # type: ignore[return-value]


def _worst(con: duckdb.DuckDBPyConnection, task: QuantileTask, beta: float, tries: int) -> float:
    """The largest of |m - m'| over S, and of the ratio of the two S over e^beta; at most 1 if the claim holds."""
    rng, found = random.Random(8), 0.0
    for _ in range(tries):
        rows = [(unit, rng.choice(VALUES)) for unit in range(rng.randint(0, 9))]
        own = [(99, rng.choice(VALUES))] * rng.choice([1, 4, 12])
        (m, s), (n, t) = _read(con, task, rows), _read(con, task, [*rows, *own])
        found = max(found, abs(m - n) / min(s, t), max(s / t, t / s) / math.exp(beta))
    return found


def test_a_unit_moves_a_quantile_within_its_smooth_bound(con: duckdb.DuckDBPyConnection) -> None:
    task = _task()
    assert task.quantile.max_rows == MOST
    assert 0.5 < _worst(con, task, float(task.quantile.beta), 60) <= 1 + 1e-9


def test_twins_are_caught(con: duckdb.DuckDBPyConnection) -> None:
    task = _task()
    beta = float(task.quantile.beta)
    all_rows = replace(task, table=replace(task.table, max_rows=12))
    assert _worst(con, all_rows, beta, 60) > 1.01
    one_row = replace(task, quantile=replace(task.quantile, max_rows=1))
    assert _worst(con, one_row, beta, 60) > 1.01

"""Several aggregates of the same blocks (dp_sample_aggregate, more): vectors, what a unit changes, faces, refusals."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler.block_values import CELLS
from duckdp.compiler.block_vectors import BlockVectorTask
from duckdp.core.types import NANO, Neighbours
from duckdp.mechanisms.center_of_vectors import CenterOfVectors
from tests.gate import clinic, load, shared
from tests.privacy.block_tasks import block_vectors
from tests.privacy.draws import KEYED, REPLACE, ROWS, _random_row
from tests.test_sample_aggregate import CALLS, Table, clean, pair, values

SEVERAL = ("corr(age, cost)", "entropy(town)", "mode(age)", "quantile_cont(cost, 0.3)", "avg(income)")


def vectors(task: BlockVectorTask, rows: Table, sql: str | None = None) -> list[tuple[int, ...]]:
    """The exact vectors of blocks that meet the mechanism."""
    with shared() as con:
        load(con, clinic(), rows)
        query = task.query(7)
        found = task.values(con.execute(sql or query.sql, list(query.parameters)).fetchall())
    return [tuple(vector) for vector in found]


def with_gaps(rng: random.Random, rows: Table) -> Table:
    """Rows some of whose values are NULL."""
    return [(unit, *(None if rng.random() < 0.2 else v for v in row)) for unit, *row in rows]


# ---- what a vector is


def test_of_units_each_number_is_that_of_the_aggregate_alone() -> None:
    """All aggregates at once, by the same hash as one by one; with NULLs."""
    rng = random.Random(5)
    rows = with_gaps(rng, clean(rng, 150, 40))
    task = block_vectors(KEYED, tuple(CALLS), "age > 3", spans=CALLS, number=5)
    alone = [values(part, rows) for part in task.parts]
    assert vectors(task, rows) == list(zip(*alone, strict=True))


def test_of_rows_one_block_has_the_values_of_all() -> None:
    rng = random.Random(2)
    rows = with_gaps(rng, clean(rng, 150, 40))
    task = block_vectors(ROWS, (*SEVERAL, "kurtosis(cost)"), spans=CALLS, number=1)
    assert vectors(task, rows) == [tuple(values(part, rows)[0] for part in task.parts)]


def test_of_rows_equal_ones_count_as_many_times() -> None:
    rng = random.Random(8)
    rows = clean(rng, 40, 40)
    rows += rng.choices(rows[:4], k=60)  # of few: without them another mean, mode and correlation
    task = block_vectors(ROWS, SEVERAL, spans=CALLS, number=1)
    alone = [tuple(values(part, rows)[0] for part in task.parts)]
    assert vectors(task, rows) == alone
    assert vectors(task, rows[:40]) != alone


def test_of_rows_blocks_follow_from_all_that_is_read() -> None:
    """Rows that are alike in one aggregate's column are spread over the blocks as others are."""
    rows = clean(random.Random(3), 120, 120)
    same = [(unit, 40, *row[1:]) for unit, *row in rows]
    task = block_vectors(ROWS, ("avg(age)", "avg(cost)"), number=6)
    assert len({cost for _, cost in vectors(task, same)}) == 6


# ---- what a unit can change


def moved(task: BlockVectorTask, seeds: Sequence[int], found: Any = vectors) -> int:
    """The most vectors that neighbours differ in."""
    most = 0
    for seed in seeds:
        rng = random.Random(seed)
        one, other = (with_gaps(random.Random(seed), rows) for rows in pair(task, rng))  # type: ignore[arg-type]
        most = max(most, sum(a != b for a, b in zip(found(task, one), found(task, other), strict=True)))
    return most


@pytest.mark.parametrize(
    ("table", "terms"), [(KEYED, {}), (ROWS, {}), (ROWS, {"neighbours": REPLACE})], ids=["units", "rows", "replaced"]
)
def test_a_unit_changes_one_vector_and_a_replaced_one_two(table: Any, terms: Any) -> None:
    task = block_vectors(table, SEVERAL, number=6, **terms)
    assert 1 <= moved(task, range(5)) <= task.parts[0].changed


def test_twins_that_place_rows_otherwise_are_caught() -> None:
    """Blocks of each aggregate's own; of rows for those of their units."""

    def apart(task: BlockVectorTask, rows: Table) -> list[tuple[int, ...]]:
        return list(zip(*(values(part, rows) for part in task.parts), strict=True))

    def by_row(task: BlockVectorTask, rows: Table) -> list[tuple[int, ...]]:
        plain = task.query(7).sql
        assert plain.replace("hash(q.unit,", "hash(q.c1,") != plain
        return vectors(task, rows, plain.replace("hash(q.unit,", "hash(q.c1,"))

    assert moved(block_vectors(ROWS, SEVERAL, number=6), range(5), apart) > 1
    assert moved(block_vectors(KEYED, SEVERAL, number=6), range(5), by_row) > 1


# ---- how they are combined


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_epsilon_is_split_or_spent_on_the_vectors(neighbours: Neighbours) -> None:
    for combination in ("mean", "median"):
        task = block_vectors(KEYED, SEVERAL, combination=combination, neighbours=neighbours)
        each = [part.mechanism_of_blocks for part in task.parts]
        assert sum(one.epsilon_nano for one in each) <= task.loss.epsilon_nano == NANO
        assert {one.changed for one in each} == {task.parts[0].changed}
    center = block_vectors(KEYED, SEVERAL, combination="center", neighbours=neighbours).center
    terms = {"epsilon_nano": NANO, "cells": CELLS, "size": len(SEVERAL), "points": 0}
    assert center == CenterOfVectors(changed=1 if neighbours is Neighbours.ADD_REMOVE else 2, **terms)


def test_what_is_released_is_read_as_it_was_meant() -> None:
    """Much epsilon, and blocks that are alike: each way gives the aggregates of all."""
    rows = [(i, *(_random_row(random.Random(1)))) for i in range(400)]
    for combination in ("mean", "median", "center"):
        task = block_vectors(
            KEYED, ("avg(age)", "median(cost)"), number=9, combination=combination, epsilon_nano=10**11
        )
        met = vectors(task, rows)
        assert len(set(met)) == 1
        with duckdb.connect() as con:
            load(con, clinic(), rows)
            query = task.query(7)
            payload = task.release(con.execute(query.sql, list(query.parameters)).fetchall())
        for part, own, cell in zip(task.parts, task.each(payload), met[0], strict=True):
            wanted = part.span.lower + (part.span.upper - part.span.lower) * cell / CELLS
            assert part.read(own) == pytest.approx(wanted, abs=0.03 * (part.span.upper - part.span.lower))


# ---- as users have them


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[duckdp.Curator]:
    rng = random.Random(7)
    x = [rng.gauss(50, 12) for _ in range(3000)]
    rows = pa.table({"x": x, "y": [0.5 * v + rng.gauss(10, 5) for v in x], "person": list(range(3000))})
    with duckdp.open({"t": rows}, ledger=str(tmp_path / "t.ledger")) as owner:
        bounds = {"x": (0, 100), "y": (0, 100)}
        owner.protect("t", unit_key="person", max_rows=1, row_cap=10_000, expected_rows=3000, bounds=bounds)
        owner.budget(epsilon=500)
        owner.grant("ana", epsilon=400)
        yield owner


@pytest.mark.parametrize("method", ["mean", "median", "center"])
def test_sql_and_session_give_the_same_and_pay_once(curator: duckdp.Curator, method: str) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    given: dict[str, Any] = {"blocks": 60, "epsilon": 30, "method": method, "more": ["avg(x)", "regr_slope(y, x)"]}
    first = ana.sample_aggregate("t", "corr(x, y)", low=-1, high=2, **given)
    sql = "more := ['avg(x)', 'regr_slope(y, x)'], low := -1, high := 2, blocks := 60, epsilon := 30"
    again = con.execute(f"FROM dp_sample_aggregate('t', 'corr(x, y)', {sql}, method := '{method}')").fetchall()
    assert [row[:2] for row in again] == first.rows()
    assert [row[0] for row in again] == ["corr(x, y)", "avg(x)", "regr_slope(y, x)"]
    assert [len(row) for row in again] == [5 if method == "mean" else 2] * 3
    wide = 1.0 if method == "center" else 0.2
    for (_, value, *_), true, span in zip(again, (0.77, 50, 0.5), (2, 100, 3), strict=True):
        assert abs(value - true) < wide * span
    assert [c.loss.epsilon_nano for c in curator.ledger.charges()] == [30 * NANO]


def test_explain_tells_of_each_and_costs_nothing(curator: duckdp.Curator) -> None:
    ana = curator.session("ana")
    told = str(ana.explain_sample_aggregate("t", "corr(x, y)", epsilon=1, blocks=60, more=["avg(x)"], method="mean"))
    for line in ("release 2 numbers", "of each: avg(x) in [0, 100]", "for each of 2 a part of epsilon"):
        assert line in told
    assert f"  avg(x): ± {100 * math.log(20) / (60 * 0.5):g}" in told  # half of epsilon
    center = str(ana.explain_sample_aggregate("t", "corr(x, y)", epsilon=1, more=["avg(x)"], method="center"))
    assert "their vectors' centre of attention in l1; for all" in center
    assert not curator.ledger.charges()


REFUSED = [
    ("more := []", "P107: more=0: must be 1 to 19 more aggregates"),
    ("more := list_transform(range(20), lambda i: 'quantile_cont(x, 0.' || (i + 10) || ')')", "P107: more=20"),
    ("more := ['avg(x)', 'avg(x)']", "stands twice"),
    ("more := ['corr(x,y)']", "stands twice"),
    ("more := ['regr_slope(y, x)']", "P107: low=None: must be given"),
    ("more := ['sum(x)']", "Q206"),
    ("more := ['avg(x)'], blocks := 501, method := 'center'", "P107: blocks=501"),
    ("more := ['avg(nobody)']", "Q207"),
    ("more := ['avg(x)', NULL]", "P107: more="),
    ("more := ['avg(x)'], epsilon := 0.0000001", "P101"),
]


def test_refusals_are_coded_and_free(curator: duckdp.Curator) -> None:
    con = curator.connect("ana")
    for terms, words in REFUSED:
        asked = terms if "epsilon" in terms else f"{terms}, epsilon := 1"
        for name in ("dp_sample_aggregate", "dp_explain_sample_aggregate"):
            with pytest.raises(duckdb.Error) as error:
                con.execute(f"FROM {name}('t', 'corr(x, y)', {asked})").fetchall()
            assert words in str(error.value), terms
    with pytest.raises(duckdb.Error):  # one value cannot hold them
        con.execute("SELECT dp_sample_aggregate('t', 'avg(x)', more := ['avg(y)'], epsilon := 1)").fetchall()
    assert not curator.ledger.charges()

"""Grouping sets that add up: which do, what is shown of them, how it is covered, and when another way is taken."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import pytest

from duckdp.catalog.table import Table
from duckdp.compiler.describe import describe_plan
from duckdp.compiler.evaluate import evaluate, known_payload
from duckdp.compiler.notes import plan_notes
from duckdp.compiler.outer import adding
from duckdp.compiler.outer.adding import ADDED, COMBINED, combined, families, finest, relative_error, with_sums
from duckdp.compiler.outer.apart import take_apart
from duckdp.compiler.outer.grouping_sets import TOLD
from duckdp.compiler.outer.several import payloads_of, plan_parts, task_of
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.plan import Plan
from duckdp.compiler.pricing import Terms
from duckdp.core.types import NANO, Neighbours
from duckdp.mechanisms.additive import add_noise
from tests.gate import column, exact_payload, exact_rows
from tests.relational import COLUMNS, load_data, random_data, table

FIELDS = (
    column("dept", "VARCHAR", domain=("a", "b", "c", "z", None), other="z"),
    column("paid", "BOOLEAN", null_value=False, nullable=False),
    column("day", "INTEGER", lower=0, upper=9, nullable=False, null_value=0),
    column("cost", "DOUBLE", lower=0.0, upper=20.0),
    column("score", "DECIMAL(9,2)", lower=-5.0, upper=5.0, domain=(0, 1)),
)
ONE = table("visits", columns=FIELDS, max_rows=1, max_groups=1, unique=("pid",))
MANY = table("visits", columns=FIELDS)
ROWS = table("visits", columns=FIELDS, unit_key=None, unit_type=None, max_rows=1, max_groups=1)
GAPS = table("visits", columns=(column("dept", "VARCHAR", domain=("a", "z"), other="z"), *FIELDS[1:]), unique=("pid",))
TWICE = "(SELECT pid, paid FROM visits UNION ALL SELECT pid, paid FROM visits)"
ROLLUP = "SELECT dept, paid, count(*), sum(cost), avg(cost), sum(day) FROM visits GROUP BY ROLLUP (dept, paid)"
SMALL = "SELECT paid, count(*), sum(cost), avg(cost) FROM visits GROUP BY ROLLUP (paid)"


def _plans(text: str, known: Table, **terms: Any) -> list[Plan]:
    found = take_apart(parse_statement(text), {"visits": known}, text)
    assert found is not None
    given: dict[str, Any] = {"epsilon": "1", "mechanism": "laplace"} | terms
    return [p.plan for p in plan_parts(found.parts, Terms(**given), Neighbours.ADD_REMOVE)]


def _alone(text: str, known: Table, **terms: Any) -> list[Plan]:
    """Each set released by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adding, "families", lambda _: [])
        return _plans(text, known, **terms)


def _once(rng: random.Random) -> Mapping[str, list[Any]]:
    """Data in which each unit has one row, or none."""
    data = random_data(rng, wild=True, units=range(1, 40))
    data["visits"] = list({row[0]: row for row in data["visits"]}.values())
    return data


def _exact(con: duckdb.DuckDBPyConnection, plans: Sequence[Plan]) -> list[str]:
    return [known_payload(p) if p.derived else exact_payload(p, exact_rows(p, con)) for p in plans]


def _cells(plans: Sequence[Plan], payloads: Sequence[str]) -> list[Any]:
    """Cells in natural units."""
    steps = [np.array([m.steps for m in p.measures for _ in range(m.cells)]) for p in plans]
    return [np.array(json.loads(one)["cells"]) / s for one, s in zip(payloads, steps, strict=True)]


def _moved(con: duckdb.DuckDBPyConnection, known: Table, data: Mapping[str, list[Any]]) -> float:
    """How far combining moves exact cells: not at all where parts really add up."""
    load_data(con, dict(data))
    plans = combined(_alone(ROLLUP, known))
    payloads = _exact(con, plans)
    pairs = zip(_cells(plans, payloads), _cells(plans, with_sums(plans, payloads)), strict=True)
    return max(float(np.abs(before - after).max()) for before, after in pairs)


def test_exact_cells_of_sets_that_add_up_stay_as_they_are(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On wild data, of units with one row each and of rows; the broken twins combine what does not add up."""
    rng = random.Random(7)
    for known in (ONE, ROWS):
        for _ in range(6):
            assert _moved(con, known, _once(rng)) < 1e-6
    many = random_data(rng, wild=True)
    assert not any(family.exact for family in families(_alone(ROLLUP, MANY)))
    with monkeypatch.context() as patch:  # a unit's rows are bounded in each set by itself
        patch.setattr(adding, "_unbounded", lambda _: True)
        assert _moved(con, MANY, many) > 0.5
    lost = table("visits", columns=COLUMNS["visits"], max_rows=1, max_groups=1, unique=("pid",))
    assert not families(_alone(ROLLUP, lost))
    with monkeypatch.context() as patch:  # rows outside of a domain, or without a value, are in the total alone
        patch.setattr(adding, "_covers", lambda _: True)
        assert max(_moved(con, lost, _once(rng)) for _ in range(3)) > 0.5


@pytest.mark.parametrize(
    ("text", "known", "told"),
    [
        (ROLLUP, ONE, ADDED),
        (ROLLUP, ROWS, ADDED),
        (SMALL, ONE, ADDED),
        ("SELECT dept, day, count(*) FROM visits GROUP BY ROLLUP (dept, day)", ONE, COMBINED),
        ("SELECT day, paid, count(*) FROM visits GROUP BY GROUPING SETS ((day), (paid))", ONE, COMBINED),
        ("SELECT day, count(*) FROM visits GROUP BY ROLLUP (day)", ONE, COMBINED),
        ("SELECT dept, count(DISTINCT pid) FROM visits GROUP BY ROLLUP (dept)", ONE, ADDED),
        ("SELECT day, paid, count(*) FROM visits GROUP BY GROUPING SETS ((day), (paid))", MANY, TOLD),
        ("SELECT dept, count(*) FROM visits GROUP BY ROLLUP (dept)", MANY, TOLD),  # the total would be much worse
        ("SELECT paid, count(DISTINCT pid) FROM visits GROUP BY ROLLUP (paid)", MANY, TOLD),  # a unit is in both
        ("SELECT score, count(*) FROM visits GROUP BY ROLLUP (score)", ONE, TOLD),  # no label for other values
        ("SELECT dept, count(*) FROM visits GROUP BY ROLLUP (dept)", GAPS, TOLD),  # no group for NULL
        (f"SELECT paid, count(DISTINCT pid) FROM {TWICE} GROUP BY ROLLUP (paid)", ONE, TOLD),  # a unit may be in both
        ("SELECT dept, median(cost) FROM visits GROUP BY ROLLUP (dept)", ONE, TOLD),
        ("SELECT dept, count(DISTINCT day) FROM visits GROUP BY ROLLUP (dept)", ONE, TOLD),
    ],
)
def test_the_way_is_chosen_by_formula(text: str, known: Table, told: str) -> None:
    plans = _plans(text, known)
    assert all(told in plan.query.told for plan in plans)
    assert {TOLD, COMBINED, ADDED}.intersection(*(plan.query.told for plan in plans)) == {told}
    task = task_of(plans)
    assert task is not None
    assert task.loss.epsilon_nano == NANO
    assert relative_error(plans, _alone(text, known)) <= 1 + 1e-12
    assert any(p.derived for p in plans) == (told == ADDED)
    assert any(p.laws is not None for p in plans) == (told != TOLD)


def test_units_with_several_rows_have_totals_added_up_only_without_least_squares() -> None:
    """Of few groups, with m = 2 of each unit: a total from two cells has twice their variance, nine times the share."""
    text = "SELECT paid, day > 4 AS late, count(*) FROM visits GROUP BY CUBE (paid, late)"
    plans = _plans(text, MANY)
    assert [p.derived for p in plans] == [False, True, True, True]
    assert plans[0].laws is None
    counted = "at most 2 rows of each pid count in each group (max_rows) and at most 2 groups of each (max_groups)"
    assert set(plan_notes(plans[3])) == {ADDED, f"{counted}; the ± does not include what this leaves out"}
    assert describe_plan(plans[1]) == ["add up, free: visits by paid, from sets released with more keys"]
    assert finest(_alone(text, MANY)) == {1, 2, 3}


@pytest.mark.parametrize("known", [ONE, ROWS])
@pytest.mark.parametrize(
    "text", [ROLLUP, "SELECT dept, day, count(*), sum(cost) FROM visits GROUP BY CUBE (dept, day)"]
)
def test_what_is_shown_adds_up_and_is_narrower(known: Table, text: str, con: duckdb.DuckDBPyConnection) -> None:
    load_data(con, dict(_once(random.Random(2))))
    plans = _plans(text, known)
    payloads = [_noisy(p, one) for p, one in zip(plans, _exact(con, plans), strict=True)]
    cells = _cells(plans, with_sums(plans, payloads))
    for finer, coarser in ((0, 1), (1, len(plans) - 1)):
        size = len(cells[coarser])
        assert cells[finer].reshape(size, -1, cells[finer].shape[1]).sum(axis=1) == pytest.approx(cells[coarser])
    widths = [[_half(p, i) for p in each] for each in (plans, _alone(text, known)) for i in (-1,)]
    assert sum(here <= there + 1e-9 for here, there in zip(*widths, strict=True)) >= len(plans) - 1


def _noisy(plan: Plan, payload: str) -> str:
    if plan.derived:
        return payload
    raw, noises = (
        json.loads(payload),
        [n for m, n in zip(plan.measures, plan.noises, strict=True) for _ in range(m.cells)],
    )
    columns = [
        add_noise(list(c), n) for c, n in zip(zip(*raw["cells"], strict=True), noises, strict=True) if n is not None
    ]
    return json.dumps({"keys": raw["keys"], "cells": [list(group) for group in zip(*columns, strict=True)]})


def _half(plan: Plan, place: int) -> float:
    found = evaluate(plan, json.dumps({"keys": None, "cells": [[0] * plan.cells] * (plan.domain_size or 1)}))[place]
    assert found.half_width is not None
    return float(found.half_width[0])


@pytest.mark.parametrize(("text", "known"), [(SMALL, ONE), (SMALL.replace("paid", "day"), ROWS)])
def test_intervals_cover_the_true_figures(text: str, known: Table, con: duckdb.DuckDBPyConnection) -> None:
    """95% of them; those of one cell, the broken twin, would cover fewer."""
    load_data(con, dict(_once(random.Random(4))))
    plans = _plans(text, known)
    exact = _exact(con, plans)
    truth = [evaluate(p, one) for p, one in zip(plans, with_sums(plans, exact), strict=True)]
    inside, narrow, total, draws = 0, 0, 0, 70
    for _ in range(draws):
        payloads = with_sums(plans, [_noisy(p, one) for p, one in zip(plans, exact, strict=True)])
        for plan, payload, true in zip(plans, payloads, truth, strict=True):
            for column_, wanted in zip(evaluate(plan, payload), true, strict=True):
                if column_.low is None or column_.high is None or column_.name.startswith("avg"):
                    continue
                off = np.abs(np.array(column_.values, float) - np.array(wanted.values, float))
                inside += int((off <= (column_.high - column_.low) / 2 + 1e-9).sum())
                narrow += int((off <= (column_.high - column_.low) / 4).sum())
                total += len(off)
    assert inside / total > 0.91  # cells of a draw are of one noise: the sd of the share is about .007
    assert narrow / total < 0.9


def test_parts_that_are_not_released_cost_nothing_and_are_not_read() -> None:
    plans = _plans(ROLLUP, ONE)
    task = task_of(plans)
    assert task is not None
    assert task.canonical == plans[0].canonical()
    assert payloads_of(plans, "{}")[0] == "{}"
    assert [p.loss.epsilon_nano for p in plans] == [NANO, 0, 0]
    priced = _plans(ROLLUP.replace("avg(cost), ", ""), ONE, error=50.0, epsilon=None)
    assert not any(p.derived for p in priced)
    assert all(TOLD in p.query.told for p in _plans(ROLLUP, ONE, min_units=3))


def test_totals_are_added_up_from_one_of_several_sets_that_share_nothing(con: duckdb.DuckDBPyConnection) -> None:
    """The total is that of the set with one group; the other set is no part of it. It ended in an error, charged."""
    text = (
        "SELECT day IS NULL AS a, paid IS NULL AS b, count(*), sum(day) FROM visits WHERE day > 2 "
        "GROUP BY GROUPING SETS ((day IS NULL), (paid IS NULL), ())"
    )
    plans = _plans(text, table("visits", max_rows=7, max_groups=9))
    assert [p.derived for p in plans] == [False, False, True]
    load_data(con, dict(random_data(random.Random(3), wild=True)))
    payloads = _exact(con, plans)
    one, _, total = _cells(plans, with_sums(plans, payloads))
    assert np.abs(one.sum(axis=0) - total).max() < 1e-6 and total.any()


def test_sets_whose_laws_would_take_long_stay_apart() -> None:
    """Sets are compared subset by subset, so those of many keys stay apart; small steps are not inverted by angle."""
    names = ", ".join(f"day > {i} AS k{i}" for i in range(8))
    keys = ", ".join(f"k{i}" for i in range(8))
    assert finest(_alone(f"SELECT {names}, count(*) FROM visits GROUP BY ROLLUP ({keys})", ONE)) == {5, 6, 7, 8}
    ratio = "SELECT paid, count(*) FILTER (WHERE day > 4) / count(*) FROM visits GROUP BY ROLLUP (paid)"
    assert finest(_alone(ratio, ONE)) == frozenset()
    assert finest(_alone("SELECT paid, count(*) FROM visits GROUP BY ROLLUP (paid)", ONE)) == {1}

"""From released cells to answers: gradients, HAVING, ORDER BY, LIMIT, keys."""

from __future__ import annotations

import datetime as dt
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from duckdp.catalog.table import Table
from duckdp.compiler.evaluate import _Evaluation, describe_outputs, evaluate, expected_half_widths
from duckdp.compiler.plan import Plan
from duckdp.core.types import Neighbours
from tests.gate import clinic, plan_for

GROUPS = clinic(unit_key=None)
RELEASED = [
    "avg(cost)",
    "var_samp(cost)",
    "var_pop(cost)",
    "stddev_samp(cost)",
    "stddev_pop(cost)",
    "sum(cost)",
    "count(*)",
    "count(cost)",
    "sum(cost) / count(*)",
    "avg(cost) - avg(age)",
    "avg(cost) * avg(age) + 3",
    "-avg(cost)",
    "abs(-avg(cost))",
    "sqrt(avg(cost))",
    "ln(avg(cost))",
    "exp(avg(age) / 100)",
    "power(avg(cost), 3)",
    "power(1.01, avg(age))",
    "power(avg(age), avg(age) / 50)",
    "greatest(avg(cost), avg(age))",
    "least(avg(cost), avg(age), NULL)",
    "CASE WHEN count(*) > 5 THEN avg(cost) ELSE sum(age) END",
    "CASE WHEN count(*) < 5 THEN avg(cost) ELSE sum(age) END",
    "coalesce(avg(cost), 0)",
    "nullif(avg(cost), 0)",
    "CAST(count(*) > 5 AS INTEGER) * avg(cost)",
    "greatest(CAST(count(*) > 5 AS INTEGER), avg(cost))",
    "avg(cost) FILTER (WHERE smoker)",
    "if(avg(age) > 0, stddev_pop(age), 1)",
]


def _payload(plan: Plan, groups: list[list[float]], keys: Any = None) -> str:
    return json.dumps({"keys": keys, "cells": groups})


def _typical(plan: Plan, rows: float = 5e6) -> list[float]:
    """Cells of a plausible group: unequal shares."""
    cells: list[float] = []
    for n, measure in enumerate(plan.measures):
        if measure.kind == "cells":
            shares = [0.3, 0.45, 0.25][: measure.degree + 1] if measure.degree else [1.0]
            cells += [rows * s / sum(shares) * measure.steps for s in shares] + [
                17.0 * measure.steps
            ] * measure.null_cell
        else:
            cells.append((rows + n) * measure.steps * (measure.upper if measure.kind == "sum" else 1) * 0.4)
    return cells


@pytest.mark.parametrize("item", RELEASED)
def test_gradients_are_those_of_finite_differences(item: str) -> None:
    plan = plan_for(f"SELECT {item} FROM clinic", GROUPS)
    cells = _typical(plan)
    expr = plan.query.outputs[0].expr

    def value(at: list[float]) -> float:
        evaluation = _Evaluation(plan, _payload(plan, [at]), [[]])
        return float(evaluation.vector(expr).value[0])

    gradient = _Evaluation(plan, _payload(plan, [cells]), [[]]).vector(expr).gradient
    assert gradient is not None
    assert gradient.shape == (plan.cells, 1)
    for j in range(plan.cells):
        step = 1e-4 * sum(cells)
        up, down = ([c + (step * s if k == j else 0) for k, c in enumerate(cells)] for s in (1, -1))
        if "count" in item and "/" not in item and item.startswith("count"):
            continue  # whole numbers: rounded, so no derivative
        found = (value(up) - value(down)) / (2 * step)
        assert math.isclose(gradient[j, 0], found, rel_tol=2e-2, abs_tol=1e-9 * abs(value(cells)) / step), (
            j,
            gradient[j, 0],
            found,
        )


def _answer(
    text: str, cells: list[list[int]], table: Table = GROUPS, keys: Any = None, **options: Any
) -> list[list[Any]]:
    plan = plan_for(text, table, **options)
    assert all(len(group) == plan.cells for group in cells)
    return [c.values for c in evaluate(plan, _payload(plan, cells, keys))]


def test_having_order_limit_offset() -> None:
    cells = [[5], [30], [10], [20]]
    keys = ["Bern", "Genf", "Uri", "elsewhere"]
    base = "SELECT town, count(*) AS n FROM clinic GROUP BY town"
    assert _answer(base, cells) == [keys, [5, 30, 10, 20]]
    assert _answer(f"{base} HAVING count(*) >= 10", cells)[0] == ["Genf", "Uri", "elsewhere"]
    assert _answer(f"{base} HAVING n > 5 AND town <> 'Uri' OR town IS NULL", cells)[0] == ["Genf", "elsewhere"]
    assert _answer(f"{base} HAVING NULL", cells) == [[], []]
    assert _answer(f"{base} ORDER BY n DESC", cells)[0] == ["Genf", "elsewhere", "Uri", "Bern"]
    assert _answer(f"{base} ORDER BY 2 LIMIT 2 OFFSET 1", cells)[0] == ["Uri", "elsewhere"]
    assert _answer(f"{base} ORDER BY town DESC LIMIT 1", cells)[0] == ["elsewhere"]
    assert _answer(f"{base} OFFSET 3", cells)[0] == ["elsewhere"]
    assert _answer(f"{base} LIMIT 0", cells) == [[], []]
    assert _answer(f"{base} ORDER BY n > 10 DESC, n", cells)[0] == ["elsewhere", "Genf", "Bern", "Uri"]


def test_order_places_nulls() -> None:
    cells = [[0, 10], [-5, 3], [20, 0]]
    base = "SELECT level, avg(income) AS income FROM clinic GROUP BY level"
    assert _answer(base, cells)[1][1] is None
    assert _answer(f"{base} ORDER BY income", cells)[0] == [1, None, 2]
    assert _answer(f"{base} ORDER BY income DESC", cells)[0] == [None, 1, 2]
    assert _answer(f"{base} ORDER BY income NULLS FIRST", cells)[0] == [2, 1, None]
    assert _answer(f"{base} ORDER BY income DESC NULLS FIRST, level", cells)[0] == [2, None, 1]
    assert _answer(f"{base} ORDER BY level", cells)[0] == [1, 2, None]
    assert _answer(f"{base} ORDER BY level DESC NULLS FIRST", cells)[0] == [None, 2, 1]


def test_logic_of_three_values() -> None:
    text = "SELECT {} FROM clinic"
    one = [[12]]
    for item, wanted in {
        "count(*) > NULL": None,
        "count(*) > 5 OR NULL": True,
        "count(*) > 5 AND NULL": None,
        "count(*) < 5 AND NULL": False,
        "count(*) BETWEEN 1 AND NULL": None,
        "count(*) NOT IN (1, NULL)": None,
        "count(*) IN (12, NULL)": True,
        "NULL IS NULL": True,
        "count(*) IS NOT DISTINCT FROM 12": True,
        "count(*) IS DISTINCT FROM NULL": True,
        "NOT count(*) > NULL": None,
        "CASE WHEN count(*) > 5 THEN NULL ELSE 'a' END": None,
        "CASE WHEN count(*) < 5 THEN NULL ELSE 'a' END": "a",
        "CASE WHEN count(*) > 5 THEN DATE '2020-01-01' END": dt.date(2020, 1, 1),
        "CASE count(*) WHEN 12 THEN 'x' END": "x",
        "nullif(count(*), 12)": None,
        "coalesce(NULL, count(*))": 12.0,
        "round(-2.5 * 12 / count(*))": -3.0,
        "count(*) // 5": 2.0,
        "round(count(*) / 7, 2)": 1.71,
        "1 / (count(*) - 12)": None,
        "ln(count(*) - 20)": None,
        "greatest(NULL, count(*), 3)": 12.0,
    }.items():
        plan = plan_for(text.format(f"{item} AS x, count(*)"), GROUPS)
        found = evaluate(plan, _payload(plan, one))[0].values[0]
        assert found == wanted or (isinstance(found, float) and math.isclose(found, wanted)), (item, found)
        assert type(found) is type(wanted) or isinstance(wanted, float), (item, found)


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("smoker", [False, True]),
        ("age > 5", [False, True]),
        ("floor(age / 50) * 50", [0, 50, 100]),
        ("year(born)", [1990, 1991, 1992]),
        ("date_trunc('year', born)", [dt.date(1990, 1, 1), dt.date(1991, 1, 1), dt.date(1992, 1, 1)]),
        ("level", [1, 2, None]),
        ("CASE WHEN age > 9 THEN 'b' WHEN age > 5 THEN 'a' ELSE 'b' END", ["b", "a"]),
        ("age // 50", [0, 1, 2]),
    ],
)
def test_public_keys_come_complete_and_in_order(key: str, wanted: list[Any]) -> None:
    cells = [[i] for i in range(len(wanted))]
    assert _answer(f"SELECT {key} AS k, count(*) FROM clinic GROUP BY k", cells) == [wanted, list(range(len(wanted)))]


def test_open_keys_are_decoded() -> None:
    keys = [["é", 3.0, "2020-02-29", "2020-02-29T10:00:00"], ["", -1.0, "0001-01-01", "0001-01-01T00:00:00.000001"]]
    found = _answer(
        "SELECT name, visits, CAST(seen AS DATE) AS d, seen, count(*) FROM clinic GROUP BY ALL", [[50], [60]], keys=keys
    )
    assert found[:2] == [["é", ""], [3, -1]]
    assert found[2] == [dt.date(2020, 2, 29), dt.date(1, 1, 1)]
    assert found[3] == [dt.datetime(2020, 2, 29, 10), dt.datetime(1, 1, 1, 0, 0, 0, 1)]


def test_undefined_averages_have_no_interval_and_few_rows_the_whole_range() -> None:
    plan = plan_for("SELECT avg(age), stddev_samp(cost) FROM clinic", GROUPS)
    age, cost = evaluate(plan, _payload(plan, [[-3, 1, 5, 5, 5]]))
    assert age.values == [None]
    assert math.isnan(age.half_width[0])  # type: ignore[index]
    assert cost.half_width is not None
    steps = plan.measures[0].steps
    age, _ = evaluate(plan, _payload(plan, [[steps, steps, 5, 5, 5]]))
    assert (age.low[0], age.high[0]) == (0, 110)  # type: ignore[index]


def test_a_public_count_is_exact_and_free() -> None:
    plan = plan_for("SELECT count(*) FROM clinic", GROUPS, neighbours=Neighbours.REPLACE)
    [count] = evaluate(plan, _payload(plan, [[412]]))
    assert count.values == [412]
    assert count.half_width is not None
    assert count.half_width[0] == 0
    assert plan.loss.epsilon_nano == 0


def test_predicted_errors_need_no_data() -> None:
    plan = plan_for("SELECT count(*), avg(age), sum(cost) FROM clinic", GROUPS)
    assert expected_half_widths(plan, None)["avg(age)"] is None
    few, many = (expected_half_widths(plan, n)["avg(age)"] or math.nan for n in (1000.0, 100_000.0))
    assert many < few < 110
    assert [(n, t) for n, t, _ in describe_outputs(plan)] == [
        ("count(*)", "BIGINT"),
        ("avg(age)", "DOUBLE"),
        ("sum(cost)", "DOUBLE"),
    ]


def test_half_widths_grow_with_the_scale() -> None:
    plan = plan_for("SELECT avg(age), sum(cost), count(*), sum(cost) / count(*) FROM clinic", GROUPS)
    cells = [int(c) for c in _typical(plan, 5000)]
    narrow = evaluate(plan, _payload(plan, [cells]))
    wide = evaluate(
        replace(plan, noises=tuple(replace(n, scale=3 * n.scale) for n in plan.noises if n)), _payload(plan, [cells])
    )
    for a, b in zip(narrow, wide, strict=True):
        assert a.half_width is not None
        assert b.half_width is not None
        assert np.all((b.half_width > 2.9 * a.half_width) & (b.half_width < 3.3 * a.half_width + 1))


@pytest.mark.parametrize(
    "text",
    [
        "avg(cost)",
        "avg(age), avg(cost)",
        "sum(cost) / count(*)",
        "2 * avg(income)",
        "var_pop(cost)",
        "avg(cost) - avg(age)",
    ],
)
def test_a_predicted_error_holds_wherever_the_values_lie(text: str) -> None:
    """Of what is not divided by but counts; the half-width that is shown is never above the one that was predicted."""
    plan, rows = plan_for(f"SELECT {text} FROM clinic", GROUPS, epsilon=2), 5000.0
    groups = []
    for place in np.linspace(0, 1, 21):
        cells: list[float] = []
        for m in plan.measures:
            by_degree = ([1.0], [place, 1 - place], [place**2, 2 * place * (1 - place), (1 - place) ** 2])
            mean = m.lower + (m.upper - m.lower) * place
            shares = [*by_degree[m.degree], *[0] * m.null_cell] if m.kind == "cells" else [mean]
            cells += [int(rows * m.steps * w) for w in shares]
        groups.append(cells)
    keyed = plan_for(f"SELECT {text}, age FROM clinic GROUP BY age", clinic(unit_key=None), epsilon=2)
    payload = _payload(plan, groups, keys=[[0]] * len(groups))
    predicted = expected_half_widths(plan, rows)
    for output in evaluate(replace(plan, query=replace(plan.query, keys=keyed.query.keys)), payload):
        assert output.low is not None
        assert output.high is not None
        assert np.all((output.high - output.low) / 2 <= 1.0001 * (predicted[output.name] or 0)), output.name


def test_deviations_have_a_predicted_error() -> None:
    """Where values lie closer together than a quarter of the range, it is wider without a bound."""
    for text in ("stddev(cost)", "stddev_pop(cost)", "sqrt(var_samp(age))", "var_samp(cost)"):
        plan = plan_for(f"SELECT {text} AS x FROM clinic", GROUPS, epsilon=2)
        assert 0 < (expected_half_widths(plan, 5000.0)["x"] or 0) < 1e6, text

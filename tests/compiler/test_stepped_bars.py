"""Intervals of what jumps or bends as a figure changes (floor, CASE, comparisons, greatest) hold, near a step as well.

Noise is drawn many times over the exact cells of a group, and the expression's value of these is the truth. What is
asserted fails by chance less than once in 10^7 runs: of 1,000 intervals that hold with probability 0.945 at least,
fewer than 905 do so with a probability below 10^-7.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import numpy as np
import pytest

from duckdp.compiler import applied, enclosed_ends, evaluate, intervals
from duckdp.compiler.answers import MADE_NULL, answer_columns
from duckdp.compiler.evaluate import _Evaluation, describe_outputs
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.plan import Plan
from duckdp.compiler.pricing import Terms, price
from duckdp.compiler.select import read_select
from duckdp.compiler.vectors import held
from duckdp.core.errorbars import Noise
from duckdp.core.types import Neighbours
from duckdp.errors import ParameterError
from tests.gate import clinic, plan_for

TABLE = clinic(unit_key=None)
ROWS, DRAWS, LEAST = 2000, 1000, 905
FIGURES = ("count(*)", "sum(cost)", "avg(cost)", "sum(cost) / count(*)", "avg(cost) - avg(age)")
STEPPED = (
    "floor(({f} - {a}) / {s})",
    "ceil(({f} - {a}) / {s})",
    "round(({f} - {a}) / {s} + 0.5)",
    "trunc(({f} - {a}) / {s})",
    "round(({f} - {a}) / {s} / 10 + 0.05, 1)",
    "CAST(({f} - {a}) / {s} + 0.5 AS INTEGER)",
    "CASE WHEN {f} > {c} THEN 1 ELSE 0 END",
    "CASE WHEN {f} < {c} THEN 100 WHEN {f} BETWEEN {c} AND {c} + {s} THEN 3 END",
    "CAST({f} > {c} AS INTEGER)",
    "CASE WHEN NOT ({f} > {c} OR {f} IN (1, 2)) THEN {f} ELSE -{f} END",
    "2 * CAST({f} >= {c} AND {f} < {c} + {s} AS INTEGER) - 1",
    "CASE WHEN {f} > {c} THEN avg(age) ELSE count(cost) END",
    "coalesce(CASE WHEN {f} > {c} THEN 7 END, 3)",
    "greatest({f}, {c})",
    "least({f}, {c}, {c} + {s})",
    "abs({f} - {c})",
)
MONOTONE = STEPPED[:4]


def _exact(plan: Plan) -> list[int]:
    """Cells of a group of 2,000 rows whose values lie about the middle."""
    shares, found = (0.47, 0.53), []
    for measure in plan.measures:
        if measure.kind == "cells":
            own = shares[: measure.degree + 1] if measure.degree else (1.0,)
            found += [*(ROWS * s * measure.steps for s in own), *[0.0] * measure.null_cell]
        elif measure.kind == "centred":
            found.append(ROWS * 0.06 * measure.steps)
        else:
            found.append(ROWS * measure.steps * (measure.upper * 0.53 if measure.kind == "sum" else 1))
    return [round(cell) for cell in found]


def _noisy(plan: Plan, rng: np.random.Generator, draws: int) -> list[list[int]]:
    """The same with the noise of so many releases."""
    columns = []
    for cell, noise in zip(_exact(plan), plan.cell_noises(), strict=True):
        assert isinstance(noise, Noise)
        p = -np.expm1(-1 / noise.scale)
        columns.append(cell + rng.geometric(p, draws) - rng.geometric(p, draws))
    return np.stack(columns, axis=1).tolist()  # type: ignore[no-any-return]


def _over(plan: Plan, cells: list[list[int]]) -> _Evaluation:
    return _Evaluation(plan, json.dumps({"keys": None, "cells": cells}), [[] for _ in cells])


def _true(item: str) -> tuple[float, float]:
    """An expression's value of the exact cells, and half the width of its interval there."""
    plan = plan_for(f"SELECT {item} AS v FROM clinic", TABLE)
    (column,) = _over(plan, [_exact(plan)]).all_outputs()
    assert column.half_width is not None
    return float(column.values[0]), float(column.half_width[0])


def _held(item: str, rng: np.random.Generator) -> int:
    """Of how many releases the interval holds the truth; those without one say nothing."""
    plan = plan_for(f"SELECT {item} AS v FROM clinic", TABLE)
    (truth,) = _over(plan, [_exact(plan)]).vector(plan.query.outputs[0].expr).value.tolist()
    (column,) = _over(plan, _noisy(plan, rng, DRAWS)).all_outputs()
    assert column.low is not None
    assert column.high is not None
    slack = 1e-9 * abs(truth)
    return sum(
        low != low or low - slack <= truth <= high + slack for low, high in zip(column.low, column.high, strict=True)
    )


def _items(seed: int, each: int) -> Iterator[str]:
    """Stepped expressions whose true value lies 0, .1, .5 or .9 of a step beyond one; steps of the noise's size."""
    rng = random.Random(seed)
    for form in STEPPED:
        for _ in range(each):
            figure, beyond, times = rng.choice(FIGURES), rng.choice((0, 0.1, 0.5, 0.9)), rng.choice((0.3, 1, 5))
            value, width = _true(figure)
            step = times * width
            first = value - (beyond + rng.choice((-2, 0, 3))) * step
            yield form.format(f=figure, a=repr(first), s=repr(step), c=repr(value - beyond * step))


NEAR = [
    "floor(count(*) / 100)",
    "count(*) // 100",
    "CASE WHEN count(*) > 2000 THEN 1 ELSE 0 END",
    "CAST(count(*) > 2000 AS INTEGER)",
    "greatest(count(*), 1999)",
    "round(count(*) / 100 - 0.5)",
]


@pytest.mark.parametrize("seed", [1, 2])
def test_intervals_of_stepped_expressions_hold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for item in (*_items(seed, 2), *NEAR):
        assert _held(item, rng) >= LEAST, item


def test_by_first_order_they_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: the noise of a figure taken as that of what was rounded, and a branch as if it were certain."""
    for module in (intervals, evaluate, enclosed_ends):
        monkeypatch.setattr(module, "jumps", lambda _: False)
    rng = np.random.default_rng(3)
    assert [item for item in NEAR if _held(item, rng) >= LEAST] == []
    assert sum(_held(item, rng) < LEAST for item in _items(3, 1)) >= len(STEPPED) // 4


def test_what_is_certain_is_told_as_such() -> None:
    """Far from a step nothing is left open, and an interval is no wider than it must be."""
    for item, value, width in (
        ("CASE WHEN count(*) > 1000 THEN 1 ELSE 0 END", 1, 0),
        ("CAST(count(*) > 1000 AND sum(cost) > 1 AS INTEGER)", 1, 0),
        ("floor((count(*) - 50) / 100)", 19, 0),
        ("CASE WHEN nullif(count(*), 2001) > 1000 THEN 1 ELSE 0 END", 1, 0.5),  # which may be NULL
    ):
        assert _true(item) == (value, width), item


@pytest.mark.parametrize("item", ["nullif(count(*), 0)", "coalesce(count(*), 0)", "coalesce(nullif(count(*), 7), 0)"])
def test_what_is_its_figure_or_null_keeps_its_interval(item: str) -> None:
    assert _true(item)[1] == _true("count(*)")[1]


def test_where_the_enclosure_knows_nothing_there_is_no_interval() -> None:
    plan = plan_for("SELECT 1 / floor((count(*) - 2000) / 2) AS v FROM clinic", TABLE)
    (column,) = _over(plan, [[cell + 4 for cell in _exact(plan)]]).all_outputs()
    assert column.values == [0.5]
    assert column.low is not None
    assert np.isnan(column.low[0])


STEPS_TO_PRICE = [
    "CASE WHEN count(*) > 1000 THEN 1 ELSE 0 END",
    "CAST(count(*) > 1000 AS INTEGER)",
    "floor(count(*) / 100)",
    "greatest(count(*), 100)",
    "round(median(cost), 1)",
]


@pytest.mark.parametrize("item", STEPS_TO_PRICE)
def test_no_error_is_sold_for_what_jumps(item: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the release nobody knows how near a step the figures lie; by first order it would cost next to nothing."""
    table = clinic(unit_key=None, expected_rows=2000)
    text = f"SELECT {item} AS v, count(*) AS n FROM clinic"
    query = read_select(parse_statement(text), {"clinic": table}, text, ())
    with pytest.raises(ParameterError, match="FROM clinic") as refused:
        price(query, Terms(error=300.0), Neighbours.ADD_REMOVE)
    assert refused.value.code == "P106"
    assert "floor(n / 100)" in str(refused.value)
    found = price(query, Terms(error={"n": 3.0}), Neighbours.ADD_REMOVE)
    assert found.errors["v"] is None
    assert "±" not in found.formulas["v"]
    assert found.errors["n"] is not None
    monkeypatch.setattr(intervals.Intervals, "is_uncertain", lambda *_: False)
    sold = price(query, Terms(error=300.0), Neighbours.ADD_REMOVE).errors["v"]
    assert sold is not None


def test_what_cannot_jump_is_priced_as_before() -> None:
    """A sum is never NULL, so ``coalesce(sum(cost), 0)`` is that sum; over no row that counts CASE is exact."""
    table = clinic(unit_key=None, expected_rows=2000)
    for item in ("coalesce(sum(cost), 0)", "sum(cost) / nullif(count(*), 0)", "CASE WHEN sex = 'F' THEN count(*) END"):
        text = f"SELECT sex, {item} AS v FROM clinic GROUP BY sex"
        query = read_select(parse_statement(text), {"clinic": table}, text, ())
        width = price(query, Terms(error=50_000.0), Neighbours.ADD_REMOVE).errors["v"]
        assert width is not None
        assert width <= 50_001


CASTS = [
    ("count(*)::TINYINT", None, "TINYINT"),
    ("TRY_CAST(count(*) AS TINYINT)", None, "TINYINT"),
    ("(count(*) - 3000)::UINTEGER", None, "UINTEGER"),
    ("(count(*) * 1e300)::UBIGINT", None, "UBIGINT"),
    ("(count(*) - 2000 + 9223372036854775807)::BIGINT", None, "BIGINT"),
    ("(count(*) - 2000 - 9223372036854775807)::BIGINT", -(2**63), "BIGINT"),
    ("count(*)::SMALLINT", 2000, "SMALLINT"),
    ("(count(*) - 1872.5)::TINYINT", None, "TINYINT"),
    ("(count(*) - 1873)::TINYINT", 127, "TINYINT"),
    ("avg(cost)::INTEGER", 2350, "INTEGER"),
    ("sum(age)::INTEGER", 116600, "INTEGER"),
    ("(count(*) > 5)::UTINYINT", 1, "UTINYINT"),
    ("count(*)::HUGEINT", 2000, "BIGINT"),
    ("avg(cost)::HUGEINT", 2350.0, "DOUBLE"),
]


@pytest.mark.parametrize(("item", "value", "duckdb_type"), CASTS)
def test_casts_of_figures_have_the_range_and_the_type_of_their_target(
    item: str, value: float | None, duckdb_type: str
) -> None:
    plan = plan_for(f"SELECT {item} AS v FROM clinic", TABLE)
    (column,) = answer_columns(plan, json.dumps({"keys": None, "cells": [_exact(plan)]}))
    assert column.values == [value]
    assert type(column.values[0]) is type(value)
    assert column.type == duckdb_type
    assert [kind for _, kind, _ in describe_outputs(plan)] == [duckdb_type]
    assert column.estimates is not None
    assert (column.estimates[0].note == MADE_NULL) == (value is None)


def test_a_cast_that_forgets_its_range_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applied, "held", lambda low, high: held(-(2**200), 2**200))
    assert _true("CASE WHEN count(*)::TINYINT IS NULL THEN 1 ELSE 0 END")[0] == 0


def test_a_cast_of_a_whole_figure_keeps_its_interval_within_the_type() -> None:
    text = "SELECT count(*)::INTEGER AS v, count(*) AS n, (count(*) - 1873)::TINYINT AS least FROM clinic"
    plan = plan_for(text, TABLE)
    cast, plain, least = answer_columns(plan, json.dumps({"keys": None, "cells": [_exact(plan)]}))
    assert cast.estimates == plain.estimates
    assert least.estimates is not None
    assert least.estimates[0].high == 127

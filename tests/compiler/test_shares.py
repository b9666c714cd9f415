"""How a statement's epsilon is shared: for the least total error, with one count for several averages."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import product
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy.optimize import minimize

from duckdp.compiler import measures
from duckdp.compiler import plan as plan_module
from duckdp.compiler.evaluate import evaluate
from duckdp.compiler.importance import importances
from duckdp.compiler.outer.several import plan_parts
from duckdp.compiler.outer.whole import read_whole
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.pricing import Terms
from duckdp.compiler.release import SelectTask
from duckdp.core.types import Neighbours
from duckdp.mechanisms.additive import Family, best_parts
from tests.compiler.test_sensitivity import search
from tests.gate import clinic, column, crossing, exact_answer, exact_payload, exact_rows, load, plan_for

COLUMNS = tuple(
    replace(c, null_value=0.0, nullable=False) if c.name in ("age", "cost") else c for c in clinic().columns
)
AVERAGES = "SELECT avg(income), avg(cost), avg(age), count(*) FROM clinic"
SHARED = (
    AVERAGES,
    "SELECT sex, avg(cost), sum(cost), avg(age) FROM clinic GROUP BY sex",
    "SELECT avg(income) FILTER (WHERE smoker), avg(cost) FILTER (WHERE smoker), avg(age), count(*) FROM clinic",
    "SELECT name, avg(cost), avg(age) FROM clinic GROUP BY name",
)


def table(**changed: Any) -> Any:
    return clinic(columns=COLUMNS, **changed)


# ---- shares ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_shares_are_the_least_total_error(family: Family) -> None:
    """The closed form against a numeric optimum; twins: equal shares, and the other family's root."""
    power = 2 if family == "laplace" else 1
    draw = random.Random(family)
    for count in (2, 3, 5, 8):
        given = [10 ** draw.uniform(-1, 2) for _ in range(count)]

        def error(parts: Any, given: list[float] = given) -> float:
            shares = np.array(parts, dtype=float) / np.sum(parts)
            return float(np.sum(np.array(given) / shares**power))

        best = min(minimize(lambda z: error(np.exp(z)), [draw.gauss(0, 1) for _ in given]).fun for _ in range(3))
        assert best * (1 - 1e-6) <= error(best_parts(given, family)) <= best * (1 + 1e-3)
        other: Family = "gaussian" if family == "laplace" else "laplace"
        assert error([1] * count) > best * 1.01
        assert error(best_parts(given, other)) > best * (1 + 1e-3)


def test_all_of_what_was_typed_is_shared() -> None:
    """Shares never exceed it, and leave less than a billionth a measure."""
    for text, epsilon in product((AVERAGES, "SELECT count(*), median(age), sum(cost) FROM clinic"), ("1", "0.0000217")):
        plan = plan_for(text, table(), epsilon=epsilon)
        used = sum(m.sensitivity.l1 / n.scale for m, n in zip(plan.measures, plan.noises, strict=True) if n is not None)
        assert str(plan.loss) == f"epsilon={float(epsilon):.7g}" or plan.loss.epsilon_nano == round(
            float(epsilon) * 1e9
        )
        typed = plan.loss.epsilon_nano * 1e-9
        assert typed - 1e-9 * len(plan.measures) - 1e-15 <= used <= typed * (1 + 1e-12)


def test_equal_questions_have_equal_shares() -> None:
    """Whatever the order of the outputs; and what is alike has alike shares, as it always had."""
    names = ["avg(cost)", "count(*)", "median(age)", "sum(income)", "count(DISTINCT pid)"]
    plans = [plan_for(f"SELECT {', '.join(random.Random(i).sample(names, 5))} FROM clinic", table()) for i in range(6)]
    assert len({p.canonical() for p in plans}) == 1
    alike = plan_for("SELECT sum(cost), sum(age), sum(income) FROM clinic", table())
    shares = [m.sensitivity.l1 / n.scale for m, n in zip(alike.measures, alike.noises, strict=True) if n is not None]
    assert max(shares) - min(shares) < 1e-9 and sum(shares) == pytest.approx(1)


def test_a_count_that_decides_keys_has_at_least_an_equal_share() -> None:
    """So that no key is hidden for the sake of other figures; without that rule some would be."""
    text = "SELECT name, median(age), avg(cost), count(*) FROM clinic GROUP BY name"
    for unit in ("pid", None):
        plan = plan_for(text, table(unit_key=unit))
        assert plan.noises[0] is not None
        least = plan.measures[0].sensitivity.l1 * len(plan.measures)
        assert plan.noises[0].scale <= least * (1 + 1e-2)
    found = importances(plan.measures, [], presence=False)
    assert best_parts([found[0], 20.0, 20.0], "laplace")[0] < 333


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_total_error_is_no_more_than_of_equal_shares(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum over figures of the squared error, each against its own at equal shares: measured by the shown bars."""
    text = "SELECT avg(income), avg(cost), avg(age), sum(age), count(*), count(DISTINCT pid) FROM clinic"
    plans = [plan_for(text, table(max_rows=1), mechanism=mechanism)]
    monkeypatch.setattr(plan_module, "importances", lambda chosen, *_, **__: [1.0] * len(chosen))
    plans.append(plan_for(text, table(max_rows=1), mechanism=mechanism))
    errors = []
    for plan in plans:
        cells = [c for m in plan.measures for c in ([500] if m.kind == "units" else _near(m, 0.7))]
        found = evaluate(plan, f'{{"keys": null, "cells": [{cells}]}}')
        errors.append(np.array([float(o.standard_error[0]) for o in found]))  # type: ignore[index]
    assert np.sum((errors[0] / errors[1]) ** 2) < 0.97 * len(errors[0])
    assert errors[0][4] < 0.9 * errors[1][4]  # the count that three averages share


# ---- one count ------------------------------------------------------------------------------------------------------


def test_averages_of_the_same_rows_have_one_count() -> None:
    plan = plan_for(AVERAGES, table())
    assert sorted(m.kind for m in plan.measures) == ["cells", "centred", "centred"]
    nulls = plan_for("SELECT avg(age), avg(cost), count(*) FROM clinic", clinic())
    assert [m.kind for m in nulls.measures] == ["cells", "cells"]  # each is of other rows
    conditions = plan_for(SHARED[2], table())
    assert sorted(m.kind for m in conditions.measures) == ["cells", "cells", "centred"]
    public = plan_for(AVERAGES, table(unit_key=None), neighbours=Neighbours.REPLACE)
    assert {m.kind for m in public.measures} == {"cells"}  # their count is exact


@pytest.mark.parametrize("text", SHARED)
def test_a_unit_changes_no_more_than_is_claimed(text: str, con: duckdb.DuckDBPyConnection) -> None:
    rng = random.Random(text)
    for declared, relation in (
        (table(max_rows=3, max_groups=2), Neighbours.ADD_REMOVE),
        (table(max_rows=1, max_groups=1), Neighbours.ADD_REMOVE),
        (table(unit_key=None), Neighbours.REPLACE),
    ):
        plan = plan_for(text, declared, neighbours=relation)
        assert search(con, plan, rng, 6) <= 1


def test_twins_that_claim_less_are_caught(con: duckdb.DuckDBPyConnection) -> None:
    for relation, unit in ((Neighbours.ADD_REMOVE, "pid"), (Neighbours.REPLACE, None)):
        plan = plan_for(AVERAGES + " WHERE true", table(unit_key=unit), neighbours=relation)
        less = [
            replace(m, sensitivity=replace(m.sensitivity, l1=m.sensitivity.l1 // 2)) if m.kind == "centred" else m
            for m in plan.measures
        ]
        twin = replace(plan, measures=tuple(less))
        assert search(con, twin, random.Random(3), 20, plan) > 1


def test_exact_figures_are_duckdbs(con: duckdb.DuckDBPyConnection) -> None:
    """Of few rows of each unit and of many: scaled sums and scaled counts go together."""
    draw = random.Random(4)
    rows = [(i % 9, draw.randrange(111), draw.uniform(0, 5000), *[None] * 9, draw.uniform(-10, 20)) for i in range(60)]
    for unit, most in ((None, 1), ("pid", 50), ("pid", 2)):
        declared = load(con, table(unit_key=unit, max_rows=most), rows)
        found = exact_answer(plan_for(AVERAGES, declared), con)
        want = con.execute(AVERAGES).fetchone()
        if most == 2:  # each unit's rows weigh alike
            parts = "SELECT pid, avg(income) a, avg(cost) b, avg(age) c FROM clinic GROUP BY pid"
            want = (*con.execute(f"SELECT avg(a), avg(b), avg(c) FROM ({parts})").fetchone(), 18)  # type: ignore[misc]
        assert want is not None
        for output, value in zip(found, want, strict=True):
            assert output.values[0] == pytest.approx(value, rel=1e-6)


def test_intervals_of_shared_averages_cover(con: duckdb.DuckDBPyConnection) -> None:
    """Noised as shipped, 600 groups of 60 rows near an end of the bounds, where the count's noise weighs most."""
    groups, size = 600, 60
    columns = (
        column("area", "INTEGER", domain=tuple(range(groups))),
        *(c for c in COLUMNS if c.name in ("age", "cost")),
    )
    declared = clinic(columns=columns, unit_key=None, row_cap=10**6)
    plan = plan_for("SELECT area, avg(age), avg(cost) FROM clinic GROUP BY area", declared, epsilon=2)
    rows = [(None, i % groups, 100 + i % 10, 2000.0 + i % 31) for i in range(groups * size)]
    exact = exact_rows(plan, (load(con, declared, rows), con)[1])
    truth = evaluate(plan, exact_payload(plan, exact))
    found = evaluate(plan, SelectTask(plan=plan).release(crossing(plan, exact)))
    hits = 0
    for output, true in zip(found[1:], truth[1:], strict=True):
        assert output.low is not None and output.high is not None
        hits += sum(a <= x <= b for a, x, b in zip(output.low, true.values, output.high, strict=True))
    assert hits / (2 * groups) > 0.95 - 5 * math.sqrt(0.05 * 0.95 / (2 * groups))


def test_no_average_has_more_noise_than_from_cells_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """At equal shares, wherever in its bounds it lies."""
    monkeypatch.setattr(plan_module, "importances", lambda chosen, *_, **__: [1.0] * len(chosen))
    plans = [plan_for(AVERAGES, table(unit_key=None))]
    monkeypatch.setattr(measures, "_with_one_count", lambda chosen: chosen)
    plans.append(plan_for(AVERAGES, table(unit_key=None)))
    for mean in (0.0, 0.1, 0.5, 0.97):
        errors = []
        for plan in plans:
            cells = [c for m in plan.measures for c in _near(m, mean)]
            found = evaluate(plan, f'{{"keys": null, "cells": [{cells}]}}')
            errors.append([float(o.standard_error[0]) for o in found])  # type: ignore[index]
        assert all(one <= own * (1 + 1e-6) for one, own in zip(*errors, strict=True))
        assert sum(one < 0.9 * own for one, own in zip(*errors, strict=True)) == 2


def test_a_sum_beside_averages_has_the_noise_of_the_count_too() -> None:
    plan = plan_for("SELECT avg(income), avg(cost), sum(cost), avg(age), sum(age) FROM clinic", table())
    assert [m.kind for m in plan.measures].count("centred") == 2
    cells = [c for m in plan.measures for c in _near(m, 0.4)]
    for output in evaluate(plan, f'{{"keys": null, "cells": [{cells}]}}'):
        assert output.half_width is not None and output.standard_error is not None
        assert 1.7 < output.half_width[0] / output.standard_error[0] < 2.7


def _near(measure: Any, mean: float) -> list[int]:
    """Cells of 1,000 rows whose mean lies there between the bounds."""
    steps = 1000 * 2**measure.bits
    return [int(steps * (2 * mean - 1))] if measure.kind == "centred" else [int(steps * mean), int(steps * (1 - mean))]


# ---- several releases -----------------------------------------------------------------------------------------------


def test_parts_are_shared_as_measures_of_one_statement() -> None:
    """Of a release with three measures each has what the one of the other has; all is what was typed."""
    tables = {"clinic": table()}

    def shares(text: str, epsilon: str = "0.7") -> list[int]:
        found = read_whole(parse_statement(text), tables, text)
        prices = plan_parts(found.parts, Terms(epsilon=epsilon), Neighbours.ADD_REMOVE)  # type: ignore[union-attr]
        return [price.plan.loss.epsilon_nano for price in prices]

    count = "(SELECT count(*) FROM clinic)"
    three = "SELECT sum(age) AS s, median(cost) AS m, count(DISTINCT pid) AS n FROM clinic WHERE smoker"
    assert shares(f"WITH a AS ({three}) SELECT s, m, n, {count} AS c FROM a") == [175_000_000, 525_000_000]
    alike = shares(f"SELECT {count} / (SELECT count(*) FROM clinic WHERE smoker) AS x", "0.0000031")
    assert sum(alike) == 3_100 and max(alike) - min(alike) <= 1

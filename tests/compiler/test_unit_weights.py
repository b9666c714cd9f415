"""Weights of units in place of their number: where they are taken, what the SQL adds up, what neighbours change."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from duckdp.compiler.describe import describe_plan
from duckdp.compiler.notes import plan_notes
from duckdp.compiler.plan import Plan, make_plan
from duckdp.compiler.release import SelectTask
from duckdp.compiler.unit_weights import weigh_units
from duckdp.core.types import NANO, Neighbours
from duckdp.mechanisms.additive import Calibration
from tests.compiler.test_sensitivity import search, worst
from tests.gate import Row, clinic, exact_cells, exact_rows, load, plan_for

BY_NAME = "SELECT name, avg(age) FROM clinic GROUP BY name"
WEIGHED = [
    BY_NAME,
    "SELECT name FROM clinic GROUP BY name",
    "SELECT name, count(*) FROM clinic WHERE age > 30 GROUP BY name ORDER BY count(*)",
    "SELECT name, sex, count(DISTINCT pid) FILTER (WHERE smoker) FROM clinic GROUP BY name, sex",
    "SELECT visits, count(DISTINCT town) FROM clinic GROUP BY visits",
]
COUNTED = [
    "SELECT name, count(DISTINCT pid) FROM clinic GROUP BY name",
    "SELECT name, avg(age) FROM clinic GROUP BY name HAVING count(DISTINCT pid) > 5",
    "SELECT name, avg(age) FROM clinic GROUP BY name ORDER BY count(DISTINCT pid) LIMIT 3",
    "SELECT name, avg(age) / count(DISTINCT pid) FROM clinic GROUP BY name",
]


def person(unit: int | None, name: str | None, **more: Any) -> Row:
    """A row of the clinic of which the key alone matters."""
    row = dict.fromkeys(("age", "cost", "score", "sex", "town", "name", "born", "seen", "smoker", "visits", "level"))
    row.update(name=name, **more)
    return (unit, *row.values(), None)


def sums(plan: Plan, con: duckdb.DuckDBPyConnection, rows: list[Row], salt: int = 7) -> dict[str, int]:
    """Exact weights of each key, by the SQL."""
    load(con, plan.query.table, rows, "clinic")
    return {key[0]: cells[0] for key, cells in exact_cells(plan, exact_rows(plan, con, salt)).items()}


# ---- where


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("text", WEIGHED)
def test_weights_stand_where_the_number_of_units_is_for_the_threshold_alone(text: str, mechanism: str) -> None:
    """For the same share: the charge and the noise of every other figure stay."""
    plan = plan_for(text, clinic(max_groups=5), mechanism=mechanism)
    units, (first, *others) = plan.once, plan.measures
    assert (first.kind, units.measures[0].kind) == ("weights", "units")
    assert others == list(units.measures[1:])
    assert plan.noises[1:] == units.noises[1:]
    assert (plan.loss, plan.family, plan.groups) == (units.loss, units.family, units.groups)
    assert plan.noises[0] is not None
    assert units.noises[0] is not None
    assert plan.noises[0].scale / first.steps == pytest.approx(units.noises[0].scale, rel=1e-9)
    assert plan.tau is not None
    assert units.tau is not None
    assert plan.tau / first.steps < units.tau


@pytest.mark.parametrize(
    ("text", "table", "terms"),
    [
        *[(text, {}, {}) for text in COUNTED],
        (BY_NAME, {"max_groups": 1}, {}),
        (BY_NAME, {"unit_key": None}, {}),
        (BY_NAME, {"unit_key": None}, {"neighbours": Neighbours.REPLACE}),
        (BY_NAME, {"row_cap": 10**15, "max_groups": 2_000}, {}),  # no room for a grid
        ("SELECT sex, avg(age) FROM clinic GROUP BY sex", {}, {}),
        ("SELECT avg(age) FROM clinic", {}, {}),
    ],
)
def test_elsewhere_they_do_not(text: str, table: dict[str, Any], terms: dict[str, Any]) -> None:
    plan = plan_for(text, clinic(**table), **terms)
    assert plan.once is plan
    assert all(m.kind != "weights" for m in plan.measures)
    assert "weight" not in " ".join([*describe_plan(plan), *plan_notes(plan)])


def test_a_minimum_of_units_is_a_question_for_them() -> None:
    query = plan_for(BY_NAME, clinic()).query
    for least, kind in ((None, "weights"), (4, "units")):
        asked = replace(query, min_units=least)
        plan = make_plan(asked, epsilon_nano=NANO, delta_atto=10**9, neighbours=Neighbours.ADD_REMOVE)
        assert plan.measures[0].kind == kind


def test_less_room_makes_coarser_steps() -> None:
    bits = [plan_for(BY_NAME, clinic(row_cap=10**n, max_groups=50)).measures[0].bits for n in (3, 9, 12, 14)]
    assert bits[0] == 12
    assert bits == sorted(bits, reverse=True)
    assert bits[-1] < 10


def test_an_explanation_says_which_and_so_does_the_question() -> None:
    plan = plan_for(BY_NAME, clinic(max_groups=9), mechanism="gaussian")
    text = "\n".join(describe_plan(plan))
    assert "privacy units by weight, in place of their number: one in k groups weighs sqrt(9 / k) in each" in text
    assert "shown if the weights of its units are at least" in text
    assert any("a unit in fewer than 9 groups weighs more" in note for note in plan_notes(plan))
    assert plan.canonical() != plan.once.canonical()
    assert SelectTask(plan=plan).mechanism == "gaussian+weights"
    cut = plan_for(BY_NAME, clinic(max_groups=9), epsilon=50)
    assert "one in k groups weighs 9 / k or less in each" in "\n".join(describe_plan(cut))
    less = replace(plan.measures[0], levels=((9, 4096),))
    assert replace(plan, measures=(less, *plan.measures[1:])).canonical() != plan.canonical()


# ---- what is added up


def weight_of(plan: Plan, keys: int) -> int:
    return next(steps for most, steps in plan.measures[0].levels if min(keys, plan.groups) <= most)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("most", [2, 3, 40])
def test_each_unit_adds_its_weight_to_each_of_its_keys(
    mechanism: str, most: int, con: duckdb.DuckDBPyConnection
) -> None:
    """Of rows that count: many rows of a key are one, NULL keys and what WHERE rules out are none."""
    draw = random.Random(most)
    table = clinic(max_groups=most, max_rows=1)
    plan = plan_for("SELECT name, avg(age) FROM clinic WHERE age > 5 GROUP BY name", table, mechanism=mechanism)
    rows = [
        person(draw.randrange(12), draw.choice([None, *"abcdefghij"]), age=draw.choice((3, 9, 90))) for _ in range(150)
    ]
    own: dict[Any, set[str]] = {}
    for unit, age, *_, name, _b, _s, _m, _v, _l, _i in rows:
        if name is not None and age > 5:
            own.setdefault(unit, set()).add(name)
    found = sums(plan, con, rows)
    if most == 40:  # all keys count
        want: Counter[str] = Counter()
        for names in own.values():
            want.update(dict.fromkeys(names, weight_of(plan, len(names))))
        assert found == want
    whole = sum(min(len(names), most) * weight_of(plan, len(names)) for names in own.values())
    assert sum(found.values()) == whole


def test_units_with_one_key_are_as_many_as_the_limit(con: duckdb.DuckDBPyConnection) -> None:
    plan = plan_for(BY_NAME, clinic(max_groups=8))
    rows = [person(i, "alone") for i in range(10)] + [person(99, f"n{i}") for i in range(30)]
    found = sums(plan, con, rows)
    assert found.pop("alone") == 80 * 4096
    assert list(found.values()) == [4096] * 8


# ---- what neighbours change


def tiny(units: int, names: str) -> list[tuple[frozenset[str], ...]]:
    """Every table of so many units with some of these keys."""
    sets = [frozenset(c) for n in range(len(names) + 1) for c in itertools.combinations(names, n)]
    return list(itertools.combinations_with_replacement(sets, units))


def largest_change(con: duckdb.DuckDBPyConnection, claims: Plan, runs: Plan) -> float:
    """Over all tiny tables and each of their units: the largest change as a part of what is claimed.

    Infinite where an own key has more than the threshold was made for.
    """
    largest = 0.0
    for table in [*tiny(2, "abc"), (frozenset("abcd"), frozenset("a")), (frozenset("bcd"), frozenset("abcde"))]:
        rows = [person(unit, name) for unit, names in enumerate(table) for name in sorted(names)]
        whole = cells_of(runs, con, rows)
        for unit in range(len(table)):
            try:
                changes = worst(claims, cells_of(runs, con, [row for row in rows if row[0] != unit]), whole)
            except AssertionError:
                return math.inf
            largest = max(largest, *changes)
    return largest


def cells_of(plan: Plan, con: duckdb.DuckDBPyConnection, rows: list[Row]) -> dict[Row, tuple[int, ...]]:
    load(con, plan.query.table, rows, "clinic")
    return exact_cells(plan, exact_rows(plan, con, 5))


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_all_tiny_neighbours_change_what_is_claimed(mechanism: str, con: duckdb.DuckDBPyConnection) -> None:
    plan = plan_for("SELECT name FROM clinic GROUP BY name", clinic(max_groups=2), mechanism=mechanism)
    assert largest_change(con, plan, plan) == 1


@pytest.mark.parametrize("text", WEIGHED)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_random_neighbours_change_no_more_than_is_claimed(
    text: str, mechanism: str, con: duckdb.DuckDBPyConnection
) -> None:
    for epsilon in (1, 20):  # where weights are those of the formula, and where the threshold cuts them
        plan = plan_for(text, clinic(max_groups=3), mechanism=mechanism, epsilon=epsilon)
        assert search(con, plan, random.Random(text), 5) <= 1


# ---- broken twins


def _levels(plan: Plan, of: Callable[[int, int], int]) -> Plan:
    first = plan.measures[0]
    levels = tuple((keys, of(keys, steps)) for keys, steps in first.levels)
    return replace(plan, measures=(replace(first, levels=levels), *plan.measures[1:]))


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "of",
    [
        lambda keys, steps: 8192,  # not normalised
        lambda keys, steps: steps + 1,  # rounded up
        lambda keys, steps: 4096 * 4 if keys == 1 else steps,  # of a unit with one key more than its norm
    ],
)
def test_twins_with_other_weights_are_caught(
    of: Callable[[int, int], int], mechanism: str, con: duckdb.DuckDBPyConnection
) -> None:
    plan = plan_for("SELECT name FROM clinic GROUP BY name", clinic(max_groups=2), mechanism=mechanism)
    assert largest_change(con, plan, _levels(plan, of)) > 1


def test_twin_that_counts_the_keys_of_all_units_is_caught(con: duckdb.DuckDBPyConnection) -> None:
    """Whose weight hung on others' rows: taking one away would move the others too."""
    plan = plan_for("SELECT name FROM clinic GROUP BY name", clinic(max_groups=2))
    query = SelectTask(plan=plan).query(5)
    broken = query.sql.replace("count() OVER (PARTITION BY __unit)", "count() OVER ()")
    assert broken != query.sql

    def weights(sql: str, rows: list[Row]) -> dict[Any, int]:
        load(con, plan.query.table, rows, "clinic")
        return dict(con.execute(sql, list(query.parameters)).fetchall())

    rows = [person(1, "a"), person(2, "a"), person(2, "b")]
    for sql, moved in ((query.sql, 4096), (broken, 0)):
        before, after = weights(sql, rows[:1]), weights(sql, rows)
        assert after["a"] - before["a"] == moved


def test_twin_with_more_groups_is_caught(con: duckdb.DuckDBPyConnection) -> None:
    plan = plan_for("SELECT name FROM clinic GROUP BY name", clinic(max_groups=2))
    assert largest_change(con, plan, replace(plan, groups=3)) > 1


# ---- the price


def test_no_weights_without_room() -> None:
    plan = plan_for(BY_NAME, clinic()).once
    assert plan.noises[0] is not None
    made = Calibration(family="laplace", noises=(plan.noises[0],), loss=plan.loss, shares=(plan.loss.epsilon_nano,))
    assert weigh_units(made, groups=2, row_cap=10**9) is not None
    assert weigh_units(made, groups=1, row_cap=10**9) is None
    assert weigh_units(made, groups=2, row_cap=2**58) is None

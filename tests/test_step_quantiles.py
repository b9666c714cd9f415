"""dp_quantiles from multiples of a step: places against their definition, what a unit changes, answers, refusals."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler import quantile_methods, quantile_steps
from duckdp.compiler.quantile_levels import QuantilesTask
from duckdp.compiler.quantile_methods import Choice, choose
from duckdp.compiler.quantile_steps import StepQuantileTask, StepRows
from duckdp.compiler.quantile_tree import TreeQuantilesTask
from duckdp.core.types import NANO, Neighbours
from duckdp.errors import ParameterError
from duckdp.functions.public_groups import read_public_keys
from duckdp.mechanisms.candidate_quantiles import CandidateQuantile
from tests.gate import clinic, load, shared
from tests.privacy.draws import KEYED, REPLACE, ROWS
from tests.privacy.neighbouring import neighbouring
from tests.privacy.quantiles import step_quantile

TASKS = {
    "units": lambda: step_quantile(KEYED),
    "units, in groups": lambda: step_quantile(KEYED, keys="sex, smoker", asked=(0.5,)),
    "rows, replaced": lambda: step_quantile(ROWS, keys="smoker", neighbours=REPLACE),
}


def scores(task: StepQuantileTask, rows: list[tuple[Any, ...]], sql: str | None = None) -> list[list[int]]:
    """The exact scores of each group."""
    met: list[list[int]] = []
    with shared() as con, pytest.MonkeyPatch.context() as patch:
        load(con, clinic(), rows)
        patch.setattr(CandidateQuantile, "choose", lambda self, counts: met.append(self.scores(counts)) or 0)
        query = task.query(7)
        task.release(con.execute(sql or query.sql, list(query.parameters)).fetchall())
    return met


def lost(task: StepQuantileTask, seed: int, sql: str | None = None) -> Fraction:
    """What the worst of some neighbours loses by the choices in all groups together."""
    found, own = [Fraction(0)], task.mechanism_of_a_group
    for rows, other in neighbouring(task.table, task.neighbours, seed, 6):
        moved = zip(scores(task, rows, sql), scores(task, other, sql), strict=True)
        steps = [max(abs(a - b) for a, b in zip(one, two, strict=True)) for one, two in moved]
        found.append(sum(steps) * own.epsilon / own.linf)
    return max(found)


@pytest.mark.parametrize("name", TASKS)
def test_a_unit_costs_no_more_than_the_charge(name: str) -> None:
    task = TASKS[name]()
    worst = max(lost(task, seed) for seed in range(6))
    assert Fraction(task.epsilon_nano, 2 * NANO) <= worst <= Fraction(task.epsilon_nano, NANO)


def test_a_twin_that_counts_all_rows_of_a_unit_is_caught() -> None:
    task = TASKS["units"]()
    sql = task.query(7).sql
    twin = sql.replace("r.edge IS NULL OR r.draw < r.edge", "TRUE")
    assert twin != sql
    assert max(lost(task, seed, twin) for seed in range(6)) > Fraction(task.epsilon_nano, NANO)


def test_replaced_units_and_groups_share_the_charge() -> None:
    for task, parts in ((step_quantile(KEYED), 1), (step_quantile(KEYED, keys="town, smoker"), 2)):
        assert task.mechanism_of_a_group.epsilon == Fraction(1, parts)
    assert step_quantile(ROWS, neighbours=REPLACE).mechanism_of_a_group.epsilon == Fraction(1, 2)
    assert step_quantile(KEYED).mechanism_of_a_group.unit == KEYED.max_rows


@pytest.mark.parametrize(("step", "count"), [("0.1", 101), ("3", 4), ("2.5", 5)])
def test_places_are_at_candidates_and_between_them(step: str, count: int) -> None:
    """Of decimals, which no double is, and of what is no number."""
    rows = StepRows(
        table=ROWS,
        column=ROWS.columns[1],
        where=None,
        keys=(),
        steps=2 * count,
        first=Fraction(0),
        step=Fraction(step),
    )
    rng = random.Random(2)
    exact = [Fraction(rng.randint(-50, 1100), 100) for _ in range(300)]
    with duckdb.connect() as con:
        sql = f"SELECT {rows.cell('x')} FROM (SELECT unnest(?::DOUBLE[]) AS x)"
        found = [place for (place,) in con.execute(sql, [[float(x) for x in exact]]).fetchall()]
        odd = con.execute(sql, [[math.nan, math.inf, -math.inf, None, 1e308]]).fetchall()
    for x, place in zip(exact, found, strict=True):
        at = x / Fraction(step)
        wanted = 2 * int(at) + 1 if at.denominator == 1 else 2 * math.floor(at) + 2
        assert place == min(max(wanted, 0), 2 * count), x
    assert odd == [(2 * count,), (2 * count,), (0,), (None,), (2 * count,)]


def test_a_step_has_candidates_at_decimal_bounds() -> None:
    task = step_quantile(clinic(unit_key=None), "cost", step=0.5)
    span = task.column.interval
    values = [task.value(i) for i in (0, task.mechanism_of_a_group.candidates - 1)]
    assert values == [span.lower, span.upper]


@pytest.mark.parametrize("table", [KEYED, ROWS])
def test_rows_without_a_value_are_none(table: Any) -> None:
    task = step_quantile(table, "age", (0.5,), step=10, epsilon_nano=100 * NANO)
    size = task.mechanism_of_a_group.candidates
    assert task.release([(0, None, 500), (0, 2 * size - 1, 30)]) == f'{{"chosen": [{size - 1}]}}'


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[duckdp.Curator]:
    count = range(1000)
    table = pa.table({"pay": [i / 10 for i in count], "age": [i % 90 for i in count], "g": ["a", "b"] * 500})
    with duckdp.open({"t": table}, ledger=str(tmp_path / "t.ledger")) as owner:
        bounds = {"pay": (0, 100), "age": (0, 90)}
        owner.protect("t", row_cap=2000, bounds=bounds, domains={"g": ["a", "b"]})
        owner.budget(epsilon=1000)
        owner.grant("ana", epsilon=1000)
        yield owner


def test_answers_are_multiples_in_sql_and_python(curator: duckdp.Curator) -> None:
    call = "('t', 'pay', [0.3], epsilon := 50, step := 2.5, intervals := false, groups := 'g')"
    con = curator.connect("ana")
    assert con.execute(f"FROM dp_quantiles{call}").fetchall() == [("a", 0.3, 30.0), ("b", 0.3, 30.0)]
    asked = {"epsilon": 50, "step": 2.5, "intervals": False, "groups": "g"}
    assert "stored" in str(curator.session("ana").quantiles("t", "pay", [0.3], **asked))  # type: ignore[arg-type]
    assert [str(charge.loss) for charge in curator.ledger.charges()] == ["epsilon=50"]
    lines = "\n".join(line for (line,) in con.execute(f"FROM dp_explain_quantiles{call}").fetchall())
    assert "41 candidates, by permute-and-flip" in lines
    assert con.execute(f"FROM dp_quantiles{call.replace('pay', 'age').replace('2.5', '10')}").fetchall() == [
        ("a", 0.3, 30),
        ("b", 0.3, 30),
    ]


@pytest.mark.parametrize(
    ("name", "terms", "said"),
    [
        ("age", {"step": 0.5}, "whole number"),
        ("cost", {"step": -1}, "above 0"),
        ("cost", {"step": 0.1}, "too many"),
        ("cost", {"step": 1e9}, "too few"),
        ("cost", {"asked": (0,)}, "one quantile"),
        ("cost", {"asked": (0.2, 0.3)}, "one quantile"),
    ],
)
def test_refusals(name: str, terms: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=f"P107: step=.*{said}"):
        step_quantile(KEYED, name, **terms)


def test_groups_have_candidates_within_bounds() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantile_steps, "MOST_OF_ALL", 40)
        with pytest.raises(ParameterError, match="too many"):
            step_quantile(KEYED, keys="sex, smoker")


def plan(name: str, quantiles: tuple[float, ...], table: Any = KEYED, keys: str | None = None, **more: Any) -> Choice:
    given = {"epsilon_nano": NANO, "neighbours": Neighbours.ADD_REMOVE, "intervals": False, "method": "auto", **more}
    return choose(table, name, quantiles, None, read_public_keys(keys, table, 10_000), **given)


def test_few_whole_numbers_are_flipped_and_nothing_else_is() -> None:
    flipped = plan("age", (0.3,))
    assert isinstance(flipped.plan, StepQuantileTask)
    assert flipped.plan.canonical == step_quantile(KEYED, "age", (0.3,), step=1).canonical  # whoever says the step
    assert "by no more than where one is drawn" in flipped.why
    for name, quantiles, more in (
        ("cost", (0.3,), {}),  # fractions
        ("age", (0.3, 0.5), {}),
        ("age", (0,), {}),
        ("age", (1,), {}),
        ("age", (0.3,), {"intervals": True}),
        ("age", (0.3,), {"method": "exponential"}),
    ):
        assert not isinstance(plan(name, quantiles, **more).plan, StepQuantileTask), (name, quantiles, more)
    parts = plan("age", (0.3,), parts_only=True)  # whose counts add up
    assert isinstance(parts.plan, StepQuantileTask)
    assert isinstance(parts.older[0], TreeQuantilesTask)


@pytest.mark.parametrize(
    ("upper", "flips"), [(1, False), (12, True), (110, True), (4000, True), (10_000, False), (110.5, False)]
)
def test_many_whole_numbers_are_drawn(upper: float, flips: bool) -> None:
    """Where round ones count more than others, they still do; two values are counted; bounds are whole numbers."""
    columns = tuple(replace(c, lower=0, upper=upper) if c.name == "age" else c for c in KEYED.columns)
    chosen = plan("age", (0.3,), replace(KEYED, columns=columns)).plan
    assert isinstance(chosen, StepQuantileTask) is flips
    if flips:
        assert chosen.mechanism_of_a_group.candidates == upper + 1  # type: ignore[union-attr]


def test_groups_share_the_numbers_that_are_flipped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(plan("age", (0.3,), keys="sex, smoker").plan, StepQuantileTask)
    monkeypatch.setattr(quantile_methods, "MOST_FLIPPED", 300)
    assert isinstance(plan("age", (0.3,)).plan, StepQuantileTask)
    assert isinstance(plan("age", (0.3,), keys="sex, smoker").plan, QuantilesTask)


@pytest.mark.parametrize("method", ["exponential", "auto"])
def test_what_was_drawn_before_stays_free(
    curator: duckdp.Curator, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = curator.session("ana")
    with monkeypatch.context() as patch:
        patch.setattr(quantile_methods, "MOST_FLIPPED", 0)
        before = ana.quantiles("t", "age", [0.3], epsilon=50, intervals=False, method=method)
    again = ana.quantiles("t", "age", [0.3], epsilon=50, intervals=False)
    assert again.rows() == before.rows()
    assert "stored release" in again.source
    new = ana.quantiles("t", "age", [0.3], epsilon=49, intervals=False)
    assert new.names == before.names
    assert [c.type for c in new.columns] == [c.type for c in before.columns]
    assert abs(new["value"][0] - 27) <= 2
    said = ana.quantiles("t", "age", [0.3], epsilon=49, intervals=False, step=1)
    assert "stored release" in said.source


def test_what_a_tree_told_of_parts_is_read_as_such() -> None:
    choice = plan("age", (0.5,), parts_only=True)
    tree, rows = choice.older[0], [(0, leaf, 900) for leaf in range(40, 44)]
    assert isinstance(tree, TreeQuantilesTask)
    payload = tree.release(rows)
    assert choice.read(payload) == tree.read(payload)
    assert 38 < (choice.read(payload)[0][0].value or 0) < 46

"""ROLLUP, CUBE and GROUPING SETS: a release for each set, each bounded by itself, all of them one charge.

That they mean what DuckDB means by them is tested with tests/fixtures/outer/over.sql (tests/compiler/test_outer.py).
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import NoReturn

import duckdb
import pytest

from duckdp.compiler.outer import grouping_sets, several
from duckdp.compiler.outer.apart import Apart, take_apart
from duckdp.compiler.outer.grouping_sets import MOST_SETS, TOLD
from duckdp.compiler.outer.outer_bars import Figure, with_bars
from duckdp.compiler.outer.outer_text import printed_outer
from duckdp.compiler.outer.several import plan_parts, task_of
from duckdp.compiler.outer.whole import read_whole
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.plan import Plan
from duckdp.compiler.pricing import Terms
from duckdp.core.types import NANO, Neighbours
from duckdp.errors import InternalError, QueryError
from tests.gate import clinic
from tests.relational import largest_share, tables

USUAL = tables()
ROLLUP = "SELECT dept, day, count(*), sum(cost) FROM visits GROUP BY ROLLUP (dept, day)"


def _apart(text: str) -> Apart:
    found = take_apart(parse_statement(text), USUAL, text)
    assert found is not None
    return found


def _plans(text: str, epsilon: str = "1") -> list[Plan]:
    prices = plan_parts(
        _apart(text).parts, Terms(epsilon=epsilon, delta="0", mechanism="laplace"), Neighbours.ADD_REMOVE
    )
    return [price.plan for price in prices]


@pytest.mark.parametrize(
    ("by", "sets"),
    [
        ("ROLLUP (dept, day)", ["dept, day", "dept", ""]),
        ("CUBE (dept, day)", ["dept, day", "dept", "day", ""]),
        ("ROLLUP ((dept, day))", ["dept, day", ""]),
        ("dept, ROLLUP (day)", ["dept, day", "dept"]),
        ("ROLLUP (dept), CUBE (day)", ["dept, day", "dept", "day", ""]),
        ("GROUPING SETS ((dept), (day), (dept, day), ())", ["dept", "day", "dept, day", ""]),
        ("GROUPING SETS (ROLLUP (dept), day)", ["dept", "", "day"]),
        ("ROLLUP (1, 2)", ["dept, day", "dept", ""]),
    ],
)
def test_sets_are_the_questions_that_they_say(by: str, sets: list[str]) -> None:
    """The parts are those of the UNION ALL that one would write."""
    found = _apart(f"SELECT dept, day, count(*) FROM visits GROUP BY {by}").parts
    written = []
    for keys in sets:
        shown = [k if k in keys.split(", ") else "NULL" for k in ("dept", "day")]
        group = f" GROUP BY {keys}" if keys else ""
        written.append(f"SELECT {', '.join(shown)}, count(*) FROM visits{group}")
    own = _apart(" UNION ALL ".join(written)).parts
    assert [(q.table, q.keys, [o.expr for o in q.outputs]) for q in found] == [
        (q.table, q.keys, [o.expr for o in q.outputs]) for q in own
    ]
    assert all(TOLD in q.told for q in found)
    assert not any(TOLD in q.told for q in own)


def test_each_set_is_bounded_by_itself() -> None:
    plans = _plans(ROLLUP)
    assert [plan.groups for plan in plans] == [2, 2, 1]
    steps = [plan.measures[0].largest for plan in plans]
    assert [m.sensitivity.l1 / s for m, s in zip((p.measures[0] for p in plans), steps, strict=True)] == [4, 4, 2]


def test_shares_are_the_whole_charge() -> None:
    for epsilon in ("1", "0.1", "0.000031001"):
        plans = _plans(ROLLUP, epsilon)
        task = task_of(plans)
        assert task is not None
        assert task.loss.epsilon_nano == sum(p.loss.epsilon_nano for p in plans) == round(float(epsilon) * NANO)


def test_equal_sets_are_one_release() -> None:
    assert len(_apart("SELECT dept, count(*) FROM visits GROUP BY GROUPING SETS ((dept), (dept), ())").parts) == 2


def test_cells_of_each_set_move_by_no_more_than_is_claimed(con: duckdb.DuckDBPyConnection) -> None:
    _, fine, total = _plans(ROLLUP)
    for plan in _plans(ROLLUP):
        assert largest_share(con, plan, random.Random(1), 4) <= 1
    claimed = replace(
        fine,
        measures=tuple(
            replace(m, sensitivity=t.sensitivity) for m, t in zip(fine.measures, total.measures, strict=True)
        ),
    )
    assert largest_share(con, claimed, random.Random(1), 20) > 1  # the total's bound is none of the departments'


def test_each_figure_has_its_interval() -> None:
    found = _apart(ROLLUP + " HAVING count(*) > 2 ORDER BY 3 LIMIT 5")
    released = [[i >= len(q.keys) for i in range(len(q.outputs))] for q in found.parts]
    barred = with_bars(found.outer, released)
    assert set(barred.figures) == {2, 3}
    assert barred.figures[2] == (Figure(part=0, place=2), Figure(part=1, place=1), Figure(part=2, place=0))
    text = printed_outer(barred.outer)
    assert text.count("_low") == 6 * 2
    assert text.endswith("ORDER BY 3 LIMIT 5")
    for odd in ("UNION", "EXCEPT"):
        text = f"SELECT count(*) FROM visits {odd} SELECT count(*) FROM labs"
        assert with_bars(_apart(text).outer, [[True], [True]]).figures == {}


@pytest.mark.parametrize(
    ("second", "places"), [("n, n", {0, 1}), ("n % 2, n", {1}), ("n % 2, 1", set()), ("n / 2, n", {0, 1})]
)
def test_an_interval_needs_a_figure_in_every_branch(second: str, places: set[int]) -> None:
    text = "SELECT {} FROM (SELECT count(*) AS n FROM {}) AS t"
    outer = _apart(f"{text.format('n, n', 'visits')} UNION ALL {text.format(second, 'labs')}").outer
    barred = with_bars(outer, [[True], [True]])
    assert set(barred.figures) == places
    assert printed_outer(barred.outer).count('AS "n_low"') == 2 * len(places)


@pytest.mark.parametrize(
    ("text", "code", "way"),
    [
        (
            "SELECT dept, count(*), rank() OVER (ORDER BY count(*)) FROM visits GROUP BY ROLLUP (dept)",
            "Q201",
            "FROM (SELECT",
        ),
        ("SELECT DISTINCT dept, count(*) FROM visits GROUP BY ROLLUP (dept)", "Q201", "FROM (SELECT"),
        ("SELECT pid, count(*) FROM visits GROUP BY ROLLUP (pid)", "Q204", "Leave it out"),
        ("SELECT avg(n) FROM (SELECT count(*) AS n FROM visits GROUP BY pid, ROLLUP (dept))", "Q204", "Leave it out"),
        ("SELECT dept, count(*) FROM visits GROUP BY ROLLUP (dept) ORDER BY day", "Q203", "ORDER BY 1"),
        ("SELECT count(*) FROM visits GROUP BY CUBE (dept, day, paid, score, cost)", "Q403", "GROUPING SETS"),
        ("SELECT dept AS d, count(*) FROM visits GROUP BY GROUPING SETS ((d), (dept, day))", "Q201", "in all sets"),
        ("SELECT dept, count(*) FROM visits GROUP BY ROLLUP (3)", "Q203", "position"),
        ("SELECT dept, count(*) FROM visits GROUP BY ROLLUP (dep)", "Q207", "dept"),
        ("SELECT dept, cost, count(*) FROM visits GROUP BY ROLLUP (dept)", "Q301", "Put it inside"),
        ("SELECT dept, count(*) FROM visits GROUP BY ROLLUP (dept) HAVING cost > 3", "Q301", "Put it inside"),
        ("SELECT grouping(dept), count(*) FROM visits GROUP BY dept", "Q206", "Take count"),
    ],
)
def test_what_has_no_rule_is_refused(text: str, code: str, way: str) -> None:
    with pytest.raises(QueryError) as caught:
        read_whole(parse_statement(text), USUAL, text)
    assert (caught.value.code, way in str(caught.value)) == (code, True), str(caught.value)


def test_many_sets_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """2**40 sets of one CUBE, and as many by combination, are counted and not written."""

    def written(*_: object) -> NoReturn:
        pytest.fail("sets are written before they are counted")

    for name in ("combinations", "product"):
        monkeypatch.setattr(grouping_sets, name, written)
    columns = ", ".join(["dept", "day", "paid", "score", "cost"] * 8)
    for by in (f"CUBE ({columns})", ", ".join(["ROLLUP (dept, day, paid)"] * 30)):
        with pytest.raises(QueryError, match=f"at most {MOST_SETS} grouping sets"):
            take_apart(parse_statement(text := f"SELECT count(*) FROM visits GROUP BY {by}"), USUAL, text)


OPEN_KEYS = "SELECT name, count(*) FROM clinic GROUP BY ROLLUP (name)"


def _deltas(text: str, delta: str, mechanism: str) -> list[int]:
    found = take_apart(parse_statement(text), {"clinic": clinic()}, text)
    assert found is not None
    terms = Terms(epsilon="1", delta=delta, mechanism=mechanism)  # type: ignore[arg-type]
    return [p.plan.loss.delta_atto for p in plan_parts(found.parts, terms, Neighbours.ADD_REMOVE)]


def test_delta_goes_to_the_releases_that_need_one() -> None:
    """A total by Laplace noise has no use for the half that it had: the charge is what was typed."""
    assert _deltas(OPEN_KEYS, "1e-6", "laplace") == [10**12, 0]
    assert sum(_deltas(OPEN_KEYS, "1e-6", "gaussian")) == 10**12
    assert _deltas(OPEN_KEYS, "1e-6", "gaussian")[0] == 5 * 10**11
    assert _deltas(OPEN_KEYS.replace("name", "sex"), "1e-6", "laplace") == [0, 0]


def test_more_delta_than_was_typed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = several._shares
    twice = lambda whole, weights: [whole] * 2 if whole == 10**12 else honest(whole, weights)  # noqa: E731
    monkeypatch.setattr(several, "_shares", twice)
    with pytest.raises(InternalError):
        _deltas(OPEN_KEYS, "1e-6", "gaussian")

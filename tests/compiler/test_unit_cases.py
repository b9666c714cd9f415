"""Counts of CASE that gives the unit where a condition holds are counts with FILTER; other forms name that."""

from __future__ import annotations

import duckdb
import pytest

from duckdp.compiler import unit_cases
from duckdp.errors import QueryError
from tests.gate import clinic, exact_answer, load, plan_for
from tests.relational import plan_of, tables

FILTERED = "count(DISTINCT pid) FILTER (WHERE sex = 'F')"
ROWS = "count(*) FILTER (WHERE sex = 'F')"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("count(DISTINCT CASE WHEN sex = 'F' THEN pid END)", FILTERED),
        ("count(DISTINCT CASE WHEN sex = 'F' THEN clinic.pid ELSE NULL END)", FILTERED),
        ("count(DISTINCT (CASE sex WHEN 'F' THEN (pid) END))", FILTERED),
        ("count(DISTINCT if(sex = 'F', pid, NULL))", FILTERED),
        ("count(CASE WHEN sex = 'F' THEN pid END)", ROWS),
        (
            "count(DISTINCT CASE WHEN sex = 'F' THEN pid END) FILTER (WHERE smoker)",
            "count(DISTINCT pid) FILTER (WHERE sex = 'F') FILTER (WHERE smoker)",
        ),
    ],
)
def test_a_case_of_the_unit_is_a_filter(text: str, same: str) -> None:
    if "FILTER (WHERE smoker)" in same:
        same = "count(DISTINCT pid) FILTER (WHERE sex = 'F' AND smoker)"
    of = [plan_for(f"SELECT {e} FROM clinic", clinic()).canonical() for e in (text, same)]
    assert of[0] == of[1]


def test_a_condition_that_is_null_counts_nobody(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As DuckDB has it; the broken twin takes the negation, of which NULL is no part either."""
    table = clinic(max_rows=9)
    none = dict.fromkeys(c.name for c in table.columns)
    rows = [
        (pid, *(none | {"income": 0.0, "sex": sex}).values()) for pid, sex in enumerate(["F", "F", "M", None, None])
    ]
    load(con, table, rows)
    text = "SELECT count(DISTINCT CASE WHEN sex = 'F' THEN pid END) FROM clinic"
    wanted = con.execute(text).fetchone()
    assert wanted == (2,)
    assert exact_answer(plan_for(text, table), con)[0].values == [2]
    honest = unit_cases._condition
    monkeypatch.setattr(unit_cases, "_condition", lambda node: honest(node).not_())  # type: ignore[union-attr]
    assert exact_answer(plan_for(text, table), con)[0].values == [1]


def test_the_unit_of_a_side_that_may_be_missing() -> None:
    joined = "FROM visits v LEFT JOIN labs b ON v.pid = b.pid"
    case = f"SELECT count(DISTINCT CASE WHEN v.day > 3 THEN b.pid END) {joined}"
    same = f"SELECT count(DISTINCT b.pid) FILTER (WHERE v.day > 3) {joined}"
    assert plan_of(case, tables()).canonical() == plan_of(same, tables()).canonical()


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("count(DISTINCT CASE WHEN sex = 'F' THEN pid ELSE 0 END)", "count(DISTINCT pid) FILTER (WHERE ...)"),
        ("count(DISTINCT CASE WHEN sex = 'F' THEN 0 ELSE pid END)", "count(DISTINCT pid) FILTER (WHERE ...)"),
        ("count(DISTINCT CASE WHEN age > 9 THEN pid WHEN smoker THEN pid END)", "OR between conditions"),
        ("count(if(sex = 'F', 1, pid))", "count(pid) FILTER (WHERE ...)"),
    ],
)
def test_other_forms_name_the_filter(text: str, way: str) -> None:
    with pytest.raises(QueryError) as caught:
        plan_for(f"SELECT {text} FROM clinic", clinic())
    assert caught.value.code == "Q301" and way in str(caught.value)
    assert plan_for("SELECT count(DISTINCT pid) FILTER (WHERE sex = 'F' OR smoker) FROM clinic", clinic())


@pytest.mark.parametrize("text", ["count(CASE WHEN smoker THEN age END)", "sum(CASE WHEN smoker THEN pid END)"])
def test_what_counts_no_unit_is_as_before(text: str) -> None:
    if text.startswith("count"):
        assert plan_for(f"SELECT {text} FROM clinic", clinic())
    else:
        with pytest.raises(QueryError, match='"pid" names the privacy unit'):
            plan_for(f"SELECT {text} FROM clinic", clinic())

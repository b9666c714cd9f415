"""Statements in tests/fixtures/sql: accepted, refused (with code and place), planned, emitted.

A block is a title, for refused ones a code and a place ("line:col", or "none"), the statement, and in plan.sql and
emit.sql a line of dashes and the expected text. ``{x*300}`` stands for x three hundred times.
"""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from duckdp.compiler.describe import describe_plan
from duckdp.compiler.emit import emit
from duckdp.errors import CODES, QueryError
from tests.gate import clinic, exact_answer, load, plan_for

FOLDER = Path(__file__).parent.parent / "fixtures" / "sql"


def _blocks(name: str) -> list[dict[str, str]]:
    found = []
    for block in re.split(r"\n\n(?=# title: )", (FOLDER / f"{name}.sql").read_text().rstrip("\n")):
        lines = block.split("\n")
        head = {line[2:].split(": ", 1)[0]: line.split(": ", 1)[1] for line in lines if re.match(r"# [a-z]+: ", line)}
        body, _, expected = "\n".join(lines[len(head) :]).partition("\n----\n")
        text = re.sub(r"\{([^{}]+?)\*(\d+)\}", lambda m: m[1] * int(m[2]), body)
        found.append({**head, "text": text, "expected": expected})
    assert len({b["title"] for b in found}) == len(found)
    return found


def _each(name: str) -> pytest.MarkDecorator:
    blocks = _blocks(name)
    return pytest.mark.parametrize("block", blocks, ids=[b["title"] for b in blocks])


@_each("reject")
def test_reject(block: dict[str, str]) -> None:
    with pytest.raises(QueryError) as caught:
        plan_for(block["text"], clinic())
    error = caught.value
    place = "none" if error.line is None else f"{error.line}:{error.col}"
    assert (error.code, place) == (block["code"], block["at"])


@_each("accept")
def test_accept(block: dict[str, str], con: duckdb.DuckDBPyConnection) -> None:
    load(con, clinic(), [])
    exact_answer(plan_for(block["text"], clinic()), con)


@_each("plan")
def test_plan(block: dict[str, str]) -> None:
    assert "\n".join(describe_plan(plan_for(block["text"], clinic(), mechanism="auto"))) == block["expected"]


@_each("emit")
def test_emit(block: dict[str, str], con: duckdb.DuckDBPyConnection) -> None:
    load(con, clinic(), [])
    query = emit(plan_for(block["text"], clinic()), 7)
    assert query.sql == block["expected"].replace("\n", " ")
    con.execute(query.sql, list(query.parameters))


def test_every_query_code_has_a_refused_statement() -> None:
    elsewhere = {"Q105", "Q404", "Q405"}  # Q105: the analyst's own SQL; Q404: below; Q405: tests/test_spark_parts.py
    assert {c for c in CODES if c.startswith("Q")} - elsewhere == {b["code"] for b in _blocks("reject")}


def test_open_keys_need_delta() -> None:
    with pytest.raises(QueryError) as caught:
        plan_for("SELECT name, count(*) FROM clinic GROUP BY name", clinic(), delta=0)
    assert caught.value.code == "Q404"


def test_keys_without_their_delta_are_told_by_name() -> None:
    with pytest.raises(QueryError, match='key "name"'):
        plan_for("SELECT name, count(*) FROM clinic GROUP BY name", clinic(), delta=0)

"""dp_mwem as users have it: what its table answers, what it costs, refusals."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.core.task import Stages
from duckdp.errors import DuckDPError
from duckdp.mechanisms.mwem import WorstQuestions
from tests.privacy.draws import KEYED, connect
from tests.privacy.workloads import workload

COLUMNS = ["sex", "town", "smoker"]
QUESTIONS = ["sex = 'F'", "town = 'a'", "town = 'a' AND smoker", "smoker", "town IN ('c', 'd')", "town = 'd' OR smoker"]


@pytest.fixture
def rows() -> pa.Table:
    rng = random.Random(4)
    towns = rng.choices(["a", "b", "c", "d"], [8, 4, 2, 1], k=5_000)
    return pa.table(
        {
            "sex": [rng.choice("FFFM") for _ in towns],
            "town": towns,
            "smoker": [rng.random() < (0.5 if town == "d" else 0.2) for town in towns],
            "free": towns,
        }
    )


@pytest.fixture
def curator(tmp_path: Path, rows: pa.Table) -> Iterator[duckdp.Curator]:
    with duckdp.open({"t": rows}, ledger=str(tmp_path / "t.ledger")) as owner:
        domains = {"sex": ["F", "M"], "town": ["a", "b", "c", "d"]}
        owner.protect("t", row_cap=10_000, domains=domains, columns=["smoker", "free"])
        owner.budget(epsilon=500)
        owner.grant("ana", epsilon=400)
        yield owner


def test_its_table_answers_the_workload(curator: duckdp.Curator, rows: pa.Table) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    made = ana.mwem("t", COLUMNS, QUESTIONS, epsilon=4, rounds=6)
    table = pa.table({name: made[name] for name in made.names})
    with duckdb.connect() as plain:
        plain.register("made", table)
        plain.register("rows", rows)
        for question in QUESTIONS:
            ((found,),) = plain.execute(f"SELECT sum(count) FROM made WHERE {question}").fetchall()
            ((true,),) = plain.execute(f"SELECT count(*) FROM rows WHERE {question}").fetchall()
            assert abs(found - true) < 120, question  # noise of scale 3.4, and what the weights do not meet together
    assert len(made) == 16
    assert min(made["count"]) >= 0
    listed = str(QUESTIONS).replace('"', "$$")
    again = con.execute(f"FROM dp_mwem('t', {COLUMNS}, {listed}, epsilon := 4, rounds := 6)").fetchall()
    assert again == made.rows()
    assert len(ana.ledger().rows()) == 1


def test_its_table_answers_sums(curator: duckdp.Curator, rows: pa.Table) -> None:
    ana = curator.session("ana")
    asked = [
        "CASE WHEN town = 'a' THEN 0.5 WHEN smoker THEN 0.25 END",
        "smoker",
        "CAST(smoker AS INT) * 0.1",
        "CASE town WHEN 'b' THEN 1 WHEN 'c' THEN 0.5 ELSE 0 END",
    ]
    made = ana.mwem("t", COLUMNS, asked, epsilon=4)
    table = pa.table({name: made[name] for name in made.names})
    with duckdb.connect() as plain:
        plain.register("made", table)
        plain.register("rows", rows)
        for question in asked:
            value = f"coalesce(CAST({question} AS DOUBLE), 0)"
            ((found,),) = plain.execute(f"SELECT sum(count * {value}) FROM made").fetchall()
            ((true,),) = plain.execute(f"SELECT sum({value}) FROM rows").fetchall()
            assert abs(found - true) < 120, question
    assert "a sum is rounded: within 0.5 more" in str(ana.explain_mwem("t", COLUMNS, asked, epsilon=1))
    assert "rounded" not in str(ana.explain_mwem("t", COLUMNS, QUESTIONS, epsilon=1))
    for wrong in ("CASE WHEN smoker THEN 2 ELSE 1 END", "CAST(smoker AS INT) - 1"):
        with pytest.raises(DuckDPError, match="P107"):
            ana.mwem("t", COLUMNS, [*asked, wrong], epsilon=4)
    assert len(ana.ledger().rows()) == 1


def test_explain_costs_nothing(curator: duckdp.Curator) -> None:
    ana = curator.session("ana")
    told = str(ana.explain_mwem("t", COLUMNS, QUESTIONS, epsilon=1))
    assert "weights over 16 cells, mended to 6 of 6 questions" in told
    assert "reads: t; 7 reads" in told
    assert not ana.ledger().rows()


def test_no_question_is_measured_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured is offered no more: who always takes the first that is offered takes each once."""
    monkeypatch.setattr(WorstQuestions, "measure", lambda _, exact, guesses: (0, exact[0]))
    with connect([]) as con:
        made = workload(KEYED, rounds=3).work(1)(Stages(lambda q: con.execute(q.sql, list(q.parameters)).fetchall()))
    assert [place for place, _ in json.loads(made)["known"]] == [0, 1, 2]


def test_stages_are_taken_up() -> None:
    """Of a release that was interrupted, what was stored stands: the next round follows from it."""
    task = workload(KEYED, rounds=3)
    with connect([]) as con:
        outputs: list[str] = []

        def read(query):  # type: ignore[no-untyped-def]
            return con.execute(query.sql, list(query.parameters)).fetchall()

        first = task.work(1)(Stages(read, keep=lambda _, text: outputs.append(text) or text))
        second = task.work(1)(Stages(read, stored=lambda: outputs))
        assert json.loads(second)["known"][:2] == json.loads(first)["known"][:2]
    assert task.read(first)[0] == task.read(second)[0]


REFUSED = [
    ("[], ['smoker']", "P107: columns="),
    ("['free'], [$$free = 'a'$$]", "has no declared domain"),
    ("['sex'], []", "P107: questions=0"),
    ("['sex'], [$$sex = 'F'$$, $$sex = 'F'$$]", "must differ"),
    ("['sex'], ['smoker']", "none of the columns"),
    ("['sex'], ['sex']", "Q203"),
    ("['sex'], [$$sex = 'F'$$], rounds := 2", "P107: rounds=2"),
    ("['sex'], [$$sex = 'F'$$], rounds := 0", "P107: rounds="),
    ("['sex'], [$$sex = 'F'$$], epsilon := 0.0000001", "P101"),
    ("['sex', 'sex'], [$$sex = 'F'$$]", ""),
]


def test_refusals_are_coded_and_free(curator: duckdp.Curator) -> None:
    con = curator.connect("ana")
    for arguments, words in REFUSED:
        cost = "" if "epsilon" in arguments else ", epsilon := 1"
        for name in ("dp_mwem", "dp_explain_mwem"):
            with pytest.raises(duckdb.Error) as refused:
                con.execute(f"FROM {name}('t', {arguments}{cost})").fetchall()
            assert words in str(refused.value), (arguments, str(refused.value))
    assert not curator.session("ana").ledger().rows()

"""dp_small_database: many counts from one small database, in SQL and Python; what is refused is not charged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp import Curator
from duckdp.compiler import net_task
from duckdp.core.task import Stages
from duckdp.core.types import NANO
from duckdp.mechanisms import small_database as mechanism
from tests.gate import clinic
from tests.privacy.choices import small_database

QUESTIONS = ["a", "NOT a", "g = 1", "a OR g = 2"]


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Curator]:
    rows = pa.table({"a": [i % 3 == 0 for i in range(600)], "g": [1 + i % 3 for i in range(600)]})
    more = rows.append_column("x", pa.array([1.0] * 600)).append_column("name", pa.array(["n"] * 600))
    with duckdp.open({"t": more}, ledger=tmp_path / "t.ledger") as opened:
        wide = {"a": [False, True], "g": [1, 2, 3]}
        opened.protect("t", row_cap=1000, expected_rows=600, domains=wide, bounds={"x": (0, 1)})
        opened.budget(epsilon=100)
        opened.grant("ana", epsilon=100)
        yield opened


def test_answers_of_all_questions_are_within_the_bound(owner: Curator) -> None:
    con, ana = owner.connect("ana"), owner.session("ana")
    call = "FROM dp_small_database('t', ['a', 'g'], ['a', 'NOT a', 'g = 1', 'a OR g = 2'], epsilon := 20, size := 12)"
    found = con.execute(call).fetchall()
    assert [question for question, _, _ in found] == QUESTIONS
    for (_, value, within), true in zip(found, (200, 400, 200, 400), strict=True):
        assert abs(value - true) <= 2 * within and within < 600
    assert found[0][1] + found[1][1] == pytest.approx(sum(v for q, v, _ in found[:2]))
    again = ana.small_database("t", ["a", "g"], QUESTIONS, epsilon=20, size=12).rows()
    assert [tuple(row) for row in again] == found, "stored: free"
    said = [line for (line,) in con.execute(call.replace("dp_small", "dp_explain_small")).fetchall()]
    assert any("12 rows over 6 cells, chosen of 6,188" in line for line in said)
    assert [str(charge.loss) for charge in owner.ledger.charges()] == ["epsilon=20"]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("['a'], []", "questions"),
        ("[], ['a']", "columns"),
        ("['a'], ['g = 1']", "predicate"),
        ("['a'], ['a', 'a']", "questions"),
        ("['a'], ['a'], size := 0", "size"),
        ("['a', 'g'], ['a'], size := 60", "size"),
        ("['g'], [" + ", ".join(f"'g + {i} > 3'" for i in range(257)) + "]", "questions"),
    ],
)
def test_what_is_refused_is_not_charged(owner: Curator, call: str, name: str) -> None:
    con = owner.connect("ana")
    for function in ("dp_small_database", "dp_explain_small_database"):
        with pytest.raises(duckdb.Error, match=f"P107: {name}="):
            con.execute(f"FROM {function}('t', {call}, epsilon := 1)")
    assert owner.ledger.charges() == []


@pytest.mark.parametrize("epsilon_nano", [1_000, 999_999_999, 100 * NANO])
def test_the_total_and_the_choice_spend_what_is_charged(epsilon_nano: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the mechanisms are told, of a count that moves by 1 and of scores that move by the size."""
    spent: list[Fraction] = []

    def noise(count: int, scale: float) -> list[int]:
        spent.append(count / Fraction(scale))
        return [0] * count

    def choose(scores: Sequence[int], *, epsilon: Fraction, linf: int) -> int:
        spent.append(epsilon * 3 / linf)
        return 0

    monkeypatch.setattr(net_task, "laplace_noise", noise)
    monkeypatch.setattr(mechanism, "choose_exponential", choose)
    task = small_database(clinic(), "sex, smoker", ("smoker",), size=3, epsilon_nano=epsilon_nano)
    for units in (7, 0, None, 2**62):
        spent.clear()
        task.work(0)(Stages(lambda _, units=units: [(units,)]))  # type: ignore[misc]
        assert len(spent) == 2, "as many draws whatever the data"
        assert Fraction(epsilon_nano, NANO) * Fraction(99, 100) < sum(spent) <= Fraction(task.loss.epsilon_nano, NANO)


@pytest.mark.parametrize(("drawn", "total"), [("-5", 0), ("7", 7), (str(2**80), 2**40)])
def test_a_total_is_one_that_could_be(drawn: str, total: int) -> None:
    task = small_database(clinic(), "sex, smoker", ("smoker", "NOT smoker"))
    payload = task.work(0)(Stages(lambda _: [(2**62, None)], stored=lambda: [drawn]))
    assert json.loads(payload)["total"] == total
    answers, within = task.answers(payload)
    assert all(0 <= answer <= total for answer in answers) and within > 0

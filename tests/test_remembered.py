"""Plans and answers that are kept for the next time: the same as if they were made anew, and given to nobody else."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import duckdp
from duckdp.desk import lookups
from duckdp.desk.remembered import MOST_KEPT, MOST_TEXT, Remembered, key_of
from duckdp.errors import BudgetError, DuckDPError
from duckdp.functions.releases import Select

GROUPS = "SELECT sex, count(*) AS n, avg(age) AS a FROM visits GROUP BY sex ORDER BY sex"
ALIKE: tuple[Any, ...] = (1, 1.0, True, Decimal(1), Decimal("1.0"), "1", 0.0, -0.0, 0, False, None)


def differences(curator: duckdp.Curator) -> list[object]:
    """Parameters and epsilons, alike to Python, for which a session that was asked others before gives another plan."""
    found = []
    shared = curator.session("ana")
    for value, epsilon in itertools.product(ALIKE, (1, 1.0, True, "1", Decimal("1e0"))):
        if plans(shared, value, epsilon) != plans(curator.session("ana"), value, epsilon):
            found.append((value, epsilon))
    return found


def plans(session: duckdp.Session, value: object, epsilon: object) -> str:
    """What a statement with a parameter would release, or how it is refused; nothing is charged."""
    try:
        shown = session.desk.read("SELECT sum(CASE WHEN age > 3 THEN ? END) AS n FROM visits", [value])
        return repr(shown) + str(
            session.explain("SELECT count(*) AS n FROM visits WHERE age > ?", epsilon=epsilon, parameters=[value])
        )
    except DuckDPError as error:
        return error.code


def test_what_is_alike_is_planned_as_if_it_were_asked_first(curator: duckdp.Curator) -> None:
    assert differences(curator) == []


def test_a_key_without_types_is_noticed(curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "key_of", tuple)
    assert differences(curator)


def test_keys_of_values() -> None:
    keys = [key_of([value]) for value in (*ALIKE, b"1")]
    assert len(set(keys)) == len(keys)
    assert key_of([1, "a", -0.0]) == key_of([1, "a", -0.0])
    assert key_of([{}]) is None
    assert key_of(["x" * MOST_TEXT]) is not None
    assert key_of(["x" * MOST_TEXT, "x"]) is None
    assert key_of([16 ** (MOST_TEXT + 1)]) is None


def test_the_first_that_came_is_the_first_to_go() -> None:
    kept, made = Remembered(), []

    def make(at: int) -> str:
        made.append(at)
        return f"made of {at}"

    for at in (*range(MOST_KEPT), 0, MOST_KEPT, 1, 0):
        assert kept.recall(at, lambda at=at: make(at)) == f"made of {at}"  # type: ignore[misc]
    assert made == [*range(MOST_KEPT + 1), 0]


def test_what_fails_or_is_large_is_not_kept() -> None:
    kept = Remembered()
    with pytest.raises(ZeroDivisionError):
        kept.recall(1, lambda: 1 // 0)
    assert kept.recall(1, lambda: "large", lambda _: False) == "large"
    assert kept.recall(None, lambda: "nameless") == "nameless"
    assert kept.recall(1, lambda: "small") == "small"
    assert kept.recall(1, lambda: "another") == "small"
    assert kept.recall(None, lambda: "another") == "another"


def test_an_answer_is_its_owner_s_to_change(curator: duckdp.Curator) -> None:
    session = curator.session("ana")
    first = session.sql(GROUPS, epsilon=1)
    wanted, bars = first.rows(), first.estimates()
    again = session.sql(GROUPS, epsilon=1)
    assert (again.rows(), again.estimates()) == (wanted, bars)
    for column in again.columns:
        column.values.clear()
        if column.estimates is not None:
            column.estimates.clear()
    last = session.sql(GROUPS, epsilon=1)
    assert (last.rows(), last.estimates(), last.cost) == (wanted, bars, "nothing")
    assert curator.session("ana").sql(GROUPS, epsilon=1).rows() == wanted


def test_one_release_answers_statements_of_other_names_and_orders(curator: duckdp.Curator) -> None:
    session = curator.session("ana")
    first = session.sql(GROUPS, epsilon=1)
    for text in (GROUPS.replace(" AS n", " AS m"), GROUPS.replace("BY sex ORDER BY sex", "BY sex ORDER BY sex DESC")):
        again = session.sql(text, epsilon=1)
        assert again.cost == "nothing"
        assert (again.names, again.rows()) != (first.names, first.rows())
        assert sorted(again.rows()) == sorted(first.rows())


def test_other_declarations_are_another_plan(curator: duckdp.Curator) -> None:
    session = curator.session("ana")
    session.sql(GROUPS, epsilon=1)
    assert session.sql(GROUPS, epsilon=1).cost == "nothing"
    curator.protect(
        "visits",
        unit_key="patient_id",
        max_rows=3,
        row_cap=10_000,
        bounds={"age": (0, 55)},
        domains={"sex": ["F", "M"]},
    )
    assert session.sql(GROUPS, epsilon=1).cost == "epsilon=1"
    curator.unprotect("visits", reason="done")
    with pytest.raises(DuckDPError):
        session.explain(GROUPS, epsilon=1)


@pytest.mark.parametrize("end", ["revoke", "freeze"])
def test_nobody_is_told_of_what_is_kept_who_may_not_ask(curator: duckdp.Curator, end: str) -> None:
    session = curator.session("ana")
    plan_of = lambda: session.desk.read(GROUPS)  # noqa: E731
    session.sql(GROUPS, epsilon=1)
    plan_of()
    curator.revoke("ana") if end == "revoke" else curator.freeze(reason="a look")
    for ask in (plan_of, lambda: session.sql(GROUPS, epsilon=1), lambda: session.explain(GROUPS, epsilon=1)):
        with pytest.raises(BudgetError, match="B103"):
            ask()


def test_a_plan_of_the_same_words_is_made_once_a_day(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of one question, and of a query over answers; the day on which words are read is one of them."""
    frame = pa.table({"pid": [1, 2, 3], "x": [1, 2, 3]})
    with duckdp.open({"t": frame}, ledger=str(tmp_path / "day.ledger")) as owner:
        owner.protect("t", unit_key="pid", max_rows=1, row_cap=10, bounds={"x": (0, 3)})
        owner.budget(epsilon=1)
        owner.grant("ana", epsilon=1)
        desk = owner.session("ana").desk
        for text in ("SELECT count(*) FROM t", "SELECT max(n) FROM (SELECT count(*) AS n FROM t)"):
            asked = Select(statement=text, epsilon=1)
            assert asked._found(desk) is asked._found(desk)
            assert desk.read_whole(text) is desk.read_whole(text)
            before = desk.read_whole(text)
            with monkeypatch.context() as patch:
                patch.setattr(lookups, "today", lambda: dt.date(2100, 1, 1))
                assert desk.read_whole(text) is not before

"""Every function of the installed DuckDB is in the allow-list, or listed with the reason why it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from duckdp.errors import DuckDPError
from tests.gate import clinic, plan_for

LISTED = Path(__file__).parents[1] / "fixtures" / "functions.txt"
ONE = ["age", "cost", "name", "born", "seen", "smoker", "sex", "2"]
TWO = [("age", "2"), ("name", "'a'"), ("'month'", "born"), ("cost", "0.5"), ("name", "2"), ("born", "'%Y'")]
TWO += [("age", "cost"), ("'month'", "seen"), ("INTERVAL 1 MONTH", "born"), ("name", "'x'"), ("age", "age")]
THREE = [
    ("name", "1", "2"),
    ("name", "1", "'b'"),
    ("name", "'a'", "'b'"),
    ("'month'", "born", "DATE '1991-01-01'"),
    ("'day'", "seen", "seen"),
]
TRIED = [(), *((a,) for a in ONE), *TWO, *THREE]
PROBES = [("age",)]  # of listed functions


def listed(text: str) -> dict[str, str]:
    """The reason of each function that a file lists."""
    found: dict[str, str] = {}
    for block in text.split("\n\n")[1:]:
        reason, *lines = block.strip().split("\n")
        for name in " ".join(lines).split():
            assert name not in found, name
            found[name] = reason.removeprefix("# ")
    return found


def functions() -> list[tuple[str, bool]]:
    """Names of DuckDB's scalar and aggregate functions, and whether they are aggregates."""
    with duckdb.connect() as con:
        return con.execute(
            "SELECT function_name, bool_or(function_type = 'aggregate') FROM duckdb_functions() "
            "WHERE function_type IN ('scalar', 'aggregate') AND internal GROUP BY 1 ORDER BY 1"
        ).fetchall()


def calls(name: str, aggregate: bool, arguments: list[tuple[str, ...]]) -> Iterator[str]:
    """Statements that call a function, in the places where it may stand."""
    for given in arguments:
        if name.isidentifier():
            call = f"{name}({', '.join(given)})"
        else:
            call = f"{name} {given[0]}" if len(given) == 1 else f" {name} ".join(given or ("age", "age"))
        if aggregate:
            yield f"SELECT {call} FROM clinic"
        else:
            yield f"SELECT count(*) FROM clinic WHERE ({call}) IS NOT NULL"
            yield f"SELECT count(*) FROM clinic WHERE {call}"


def outcome(text: str) -> str:
    """A code, or "answered"; any other exception is a failure of the test."""
    try:
        plan_for(text, clinic())
    except DuckDPError as error:
        return error.code
    return "answered"


def unknown(known: dict[str, str], names: list[tuple[str, bool]]) -> tuple[list[str], list[str]]:
    """Functions that are neither answered nor listed, and those that are both."""
    neither, both = [], []
    for name, aggregate in names:
        tried = calls(name, aggregate, PROBES if name in known else TRIED)
        answered = any(outcome(text) == "answered" for text in tried)
        if answered == (name in known):
            (both if answered else neither).append(name)
    return neither, both


def test_each_function_is_allowed_or_has_a_reason() -> None:
    known, names = listed(LISTED.read_text()), functions()
    neither, both = unknown(known, names)
    assert neither == [], "new in DuckDB: give each a row in compiler/operators, or a reason"
    assert both == [], "answered: take it out of the list"
    assert [name for name in known if name not in dict(names)] == [], "gone from DuckDB"
    assert len(set(known.values())) == 8


@pytest.mark.parametrize(("name", "aggregate"), [("dp_new_function", False), ("array_new", False)])
def test_a_new_function_is_noticed(name: str, aggregate: bool) -> None:
    """The broken twin: a function that a later DuckDB brings, of which nobody has thought."""
    assert unknown(listed(LISTED.read_text()), [(name, aggregate)]) == ([name], [])
    assert unknown({"abs": "state"}, [("abs", False)]) == ([], ["abs"])

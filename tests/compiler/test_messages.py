"""Refusals speak the user's words: every function of DuckDB by its own name, and what they offer instead works."""

from __future__ import annotations

import re

import duckdb
import pytest

from duckdp.compiler.nodes import FUNCTION_NAMES
from duckdp.errors import QueryError
from tests.gate import clinic, plan_for

TABLE = clinic(unit_key=None)
ARGUMENTS = {
    "atan": "age / 100", "coalesce": "age, 0", "contains": "name, 'a'", "date_diff": "'day', born, born",
    "isodow": "born",
    "date_trunc": "'month', born", "greatest": "age, 1", "hour": "seen", "least": "age, 1", "left": "name, 2",
    "ln": "age + 1",
    "log": "age + 1", "minute": "seen", "nullif": "age, 1", "power": "age, 2", "prefix": "name, 'a'",
    "right": "name, 2",
    "starts_with": "name, 'a'", "substring": "name, 1, 2", "suffix": "name, 'a'", "trim": "name", "lower": "name",
    "upper": "name", "length": "name",
} | dict.fromkeys(("day", "dayofweek", "dayofyear", "month", "quarter", "week", "year"), "born")  # fmt: skip


def _message(text: str) -> str | None:
    try:
        plan_for(text, TABLE)
    except QueryError as error:
        return str(error)
    return None


@pytest.fixture(scope="module")
def functions() -> list[str]:
    with duckdb.connect() as con:
        rows = con.execute("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN "
                           "('scalar', 'aggregate') ORDER BY 1").fetchall()  # fmt: skip
    return [name for (name,) in rows if re.fullmatch(r"[a-z][a-z0-9_]*", name)]


def test_every_function_of_duckdb_is_called_by_its_own_name(functions: list[str]) -> None:
    """Whatever arguments it is tried with: the message has the user's word, and no other name of a function for it."""
    wrong, seen = [], 0
    for name in functions:
        for arguments in ("name", "age, 1", "born, 'x', 3"):
            for text in (
                f"SELECT {name.upper()}({arguments}) FROM clinic",
                f"SELECT sum({name}({arguments})) FROM clinic",
            ):
                message = _message(text)
                if message is None or not message.startswith(("Q202", "Q206")):
                    continue
                seen += 1
                told = message.split(".")[0]
                named = re.search(r"(?:function|aggregate) \"?(\w+)", told)
                if named is not None and named[1] != name:
                    wrong.append((text, message[:120]))
    assert seen > 1500
    assert wrong == []


@pytest.mark.parametrize(
    ("called", "internal"),
    [("epoch(born)", "time_to_unix"), ("quantile_cont(age, 0.5)", "percentile_cont"), ("any_value(age)", "IGNORENULLS"),
     ("regexp_matches(name, 'a')", "regexp_like"), ("strftime(born, '%Y')", "time_to_str"), ("list(age)", "array_agg")],
)  # fmt: skip
def test_the_reported_names(called: str, internal: str) -> None:
    for text in (f"SELECT {called} FROM clinic", f"SELECT count(*) FROM clinic WHERE {called} = 1"):
        message = _message(text)
        assert message is not None
        assert internal.lower() not in message.lower()
        assert called.split("(")[0] in message or "Q301" in message


def test_a_mistyped_function_gets_a_suggestion() -> None:
    for wrong, right in (("sqr(age)", "sqrt"), ("lenght(name)", "length"), ("datetrunc2('day', born)", "date_trunc")):
        assert f"Did you mean {right}" in str(_message(f"SELECT count(*) FROM clinic WHERE {wrong} = 1"))


@pytest.mark.parametrize("name", FUNCTION_NAMES)
def test_what_is_offered_works(name: str) -> None:
    call = f"{name}({ARGUMENTS.get(name, 'age')})"
    assert _message(f"SELECT count(*) FROM clinic WHERE {call} IS NULL") is None


REFUSED = [
    "SELECT epoch(born) FROM clinic", "SELECT median(age) FROM clinic", "SELECT any_value(age) FROM clinic",
    "SELECT count(*) FROM clinic JOIN clinic AS b USING (age)", "WITH x AS (SELECT 1) SELECT count(*) FROM clinic",
    "SELECT DISTINCT sex FROM clinic", "SELECT sqr(age) FROM clinic", "SELECT max(age) FROM clinic",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_a_refusal_names_a_way_out(text: str) -> None:
    message = _message(text)
    assert message is not None
    assert re.search(r"\b(Use|Take|Ask|Did you mean|Allowed|Put|Select)\b", message), message

"""Odd values for every parameter of every dp function, as SQL and the command line give them: a result, or a code.

What is refused is refused in our words, and nothing is charged. Python's values are in ``test_hostile_values``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

import duckdp
from duckdp.cli import ask, main
from duckdp.functions import FUNCTIONS
from duckdp.functions.macros import literal
from duckdp.functions.spec import REQUIRED, Parameter, Spec

#: What a parameter is given while another one is odd; all others keep their defaults.
GOOD = {
    "start": "name",
    "end": "name",
    "weight": "x",
    "table": "u",
    "column": "x",
    "x": "x",
    "y": "x * x",
    "target": "x * x",
    "aggregate": "avg(x)",
    "source": "u",
    "function": "x",
    "keys": "name",
    "k": "1",
    "epsilon": "1",
    "name": "s",
    "statement": "SELECT name, count(*) AS n FROM u GROUP BY name",
    "degree": "3",
    "threshold": "3",
    "predicate": "x > 1",
    "handle": "2",  # of the fixture
}
GOOD_LISTS = {
    "features": ["x"],
    "columns": ["x"],
    "functions": ["x", "x * x"],
    "candidates": ["x > 1", "x < 0"],
    "quantiles": ["0.5"],
    "questions": ["x > 1"],
    "more": ["sum(x)"],
}
ODD = (
    "NULL",
    "''",
    "'x'",
    "'u'",
    "'\U0001f4a9'",
    "'it''s'",
    "-1",
    "0",
    "7",
    "1e308",
    "1e400::DOUBLE",
    "0.5",
    "'nan'",
    "'inf'",
    "'1e999999999'",
    "9223372036854775807",
    "170141183460469231731687303715884105727",
    "true",
    "'maybe'",
    "[]",
    "['x']",
    "['x', NULL]",
    "[NULL]",
    "[[1], [2]]",
    "{'a': 1}",
    "DATE '2020-01-01'",
    "'\\xAA\\x00'::BLOB",
    "repeat('x', 100000)",
    "repeat('(', 500)",
    "list_value(repeat('y', 5000))",
    "getvariable('nope')",
    "INTERVAL 1 DAY",
    "'[x, y]'",
    "'NULL'",
    "'None'",
    "'(' || repeat('1 + ', 200) || '1)'",
    "x'00'",
    "1::DECIMAL(38, 10)",
    "'\u0661'",
    "range(5000)",
    "'SELECT 1; SELECT 2'",
    "'dp_noisy_count(''u'')'",
)
WORDS = ("", "x", "-1", "nan", "1e999999", "\x1b[2J", "NULL", "[]", "1" * 400, "a\x00b", "'", "\u0661", "true", "1_0")
CODED = re.compile(r"^(?:[\w ]+ Error: )?(P|C|Q|B|E|N)\d{3}: ")
CASES = [(name, p.name) for name, spec in FUNCTIONS.items() for p in spec.of("sql")]


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    folder = tmp_path_factory.mktemp("declared")
    with duckdb.connect(str(folder / "t.duckdb")) as con:
        con.execute("CREATE TABLE u AS SELECT i AS id, (i % 9)::DOUBLE AS x, 'n' || i % 3 AS name FROM range(400) r(i)")
    with duckdp.open(str(folder / "t.duckdb")) as owner:
        owner.protect(
            "u",
            row_cap=1000,
            unit_key="id",
            unit="person",
            max_rows=2,
            bounds={"x": (0, 9)},
            domains={"name": ["n0", "n1", "n2"]},
        )
        owner.budget(epsilon=100_000, delta=0.5)
        owner.grant("ana", epsilon=100_000, delta=0.5)
        owner.session("ana").smooth_summary("u", ["x"], name="s", epsilon=1, degree=3)
        owner.session("ana").sparse_open("u", 300, epsilon=1)
        yield owner


def call(spec: Spec, odd: str, value: str) -> str:
    """A call in SQL with one odd argument."""
    parts = []
    for p in spec.of("sql"):
        if p.name == odd:
            parts.append(f"{p.sql} := {value}")
        elif p.kind.listed and (p.default is REQUIRED):
            parts.append(f"{p.sql} := {GOOD_LISTS[p.name]}")
        elif p.name in GOOD and (p.default in (REQUIRED, None)) and not (p.name == "degree" and "synth" in spec.name):
            parts.append(f"{p.sql} := {literal(GOOD[p.name])}")
        elif p.name == "rows":
            parts.append("rows := 10")
    text = ", ".join(parts)
    return text.replace("name := 's'", "name := 'made'") if "smooth_answer" not in spec.name else text


def problem_of(curator: duckdp.Curator, con: duckdb.DuckDBPyConnection, statement: str) -> str | None:
    """What is wrong with how a statement is answered or refused."""
    before = len(curator.ledger.charges())
    try:
        con.execute(statement).fetchall()
    except duckdb.Error as error:
        text = str(error)
        if not CODED.match(text) or ".py" in text or len(text) > 2000:
            return f"raw {type(error).__name__}: {text[:200]}"
        if "X101" in text:
            return text
        if len(curator.ledger.charges()) != before:
            return f"charged though refused: {text[:200]}"
    return None


def check(curator: duckdp.Curator, name: str, parameter: str, *, every: int) -> None:
    spec, wrong = FUNCTIONS[name], []
    place = CASES.index((name, parameter))
    with curator.connect("ana") as con:
        for value in ODD[place % every :: every]:
            text = call(spec, parameter, value)
            forms = [f"FROM {name}({text})"] + ([f"SELECT {name}({text})"] if "value" in spec.forms else [])
            for statement in forms[: 1 + (every == 1)]:
                problem = problem_of(curator, con, statement)
                if problem is not None:
                    wrong.append(f"{statement[:200]}: {problem}")
    assert not wrong, f"{len(wrong)} of {name}:\n" + "\n".join(wrong[:12])


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_some_odd_values_in_sql(curator: duckdp.Curator, name: str, parameter: str) -> None:
    check(curator, name, parameter, every=11)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_all_odd_values_in_sql(curator: duckdp.Curator, name: str, parameter: str) -> None:
    check(curator, name, parameter, every=1)


def _is_wrong_type(parameter: Parameter) -> bool:
    """Whether a structure is none of its kind (a text may say anything)."""
    return parameter.kind.word in ("true or false", "a number", "a whole number", "a whole number above 0")


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(n, p.name) for n, s in FUNCTIONS.items() for p in s.of("sql") if _is_wrong_type(p) or p.kind.listed],
)
def test_a_wrong_type_is_p107_and_names_the_parameter(curator: duckdp.Curator, name: str, parameter: str) -> None:
    with curator.connect("ana") as con, pytest.raises(duckdb.Error, match=rf"P107: {parameter}=.*must be") as caught:
        con.execute(f"FROM {name}({call(FUNCTIONS[name], parameter, MADE_UP)})")
    assert "it is none" in str(caught.value)  # the person's own words


MADE_UP = "{'no': 'it is none'}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_names_that_are_unknown_or_given_twice(curator: duckdp.Curator, name: str) -> None:
    given = call(FUNCTIONS[name], "", "")
    start = f"{given}, " if given else ""
    first = [p.sql for p in FUNCTIONS[name].of("sql")][:1]
    doubled = f"{first[0]} := 'x', {first[0]} := 'x'" if first else "1"
    session = curator.session("ana")
    before = len(curator.ledger.charges())
    with curator.connect("ana") as con:
        for arguments in (f"{start}nope := 1", doubled, f"{'1, ' * 20}1", f"{start}epsilonn := 1"):
            with pytest.raises(duckdb.Error, match=f"P107: function='{name}': takes"):
                con.execute(f"FROM {name}({arguments})")
            with pytest.raises(duckdp.errors.ParameterError, match=f"P107: function='{name}': takes"):
                session.sql(f"FROM {name}({arguments})")
    with pytest.raises(TypeError):
        getattr(session, FUNCTIONS[name].method)(nope=1)
    assert len(curator.ledger.charges()) == before


def _commands() -> list[str]:
    return [name.removeprefix("dp_").replace("_", "-") for name in FUNCTIONS]


@pytest.mark.parametrize("command", _commands())
def test_odd_words_of_a_command(curator: duckdp.Curator, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened(*_: object) -> Iterator[duckdp.Curator]:
        yield curator

    monkeypatch.setattr(ask, "open_curator", opened)
    spec = FUNCTIONS["dp_" + command.replace("-", "_")]
    wrong: list[str] = []
    for place, odd in enumerate(spec.words()):
        if odd.default is False:
            continue
        for word in WORDS[place % 5 :: 5]:
            before = len(curator.ledger.charges())
            done = CliRunner().invoke(main, ["ask", command, *_words(spec, odd, word)])
            raw = done.exception is not None and not isinstance(done.exception, SystemExit)
            if raw or done.exit_code not in (0, 1, 2) or "X101" in done.output or "Traceback" in done.output:
                wrong.append(f"{odd.name} = {word[:40]!r}: {done.exit_code} {done.exception!r} {done.output[-200:]}")
            elif done.exit_code == 1 and (not CODED.match(done.stderr) or len(curator.ledger.charges()) != before):
                wrong.append(f"{odd.name} = {word[:40]!r}: {done.stderr[:200]}")
    assert not wrong, "\n".join(wrong[:10])


def _words(spec: Spec, odd: Parameter, word: str) -> list[str]:
    options: list[Any] = ["--analyst=ana"]
    places: list[Any] = []
    named = [p.name for p in spec.words() if p.placed and p.kind.listed][:-1]
    for p in spec.words():
        good = GOOD_LISTS[p.name] if p.kind.listed else [GOOD.get(p.name, "10" if p.name == "rows" else "")]
        if p.name == "name" and "smooth-answer" not in spec.name.replace("_", "-"):
            good = ["made"]
        given = [word] if p is odd else good
        if p.placed and p.name not in named:
            places += given
        elif (
            p.name in named
            or p is odd
            or (p.default in (REQUIRED, None) and p.name in ("epsilon", "name"))
            or p.name == "rows"
        ):
            options += [f"--{p.name.replace('_', '-')}={one}" for one in given]
    return [*options, "--", "t.duckdb", *places]

"""Exact figures are DuckDB's own answer to the text, and how a statement is written changes neither answer nor refusal.

The exact figures of a plan are those of tests/gate.py: cells of the private instance before any noise. Statements are
those of tests/relational.py; refused ones come from tests/adversary/grammar.py too.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest

from duckdp.compiler import printing
from duckdp.compiler.relations import joined
from duckdp.errors import DuckDPError
from tests.adversary.grammar import Grammar, plans_of
from tests.gate import Row
from tests.relational import Statements, differs, load_reference, plan_of, random_data, tables

WIDE = tables(max_rows=64, max_groups=64)
FEW, MANY, AT_ONCE = 40, 10_000, 500
OF_ONE = 20  # statements over the same rows
MOST = 4  # rows of a unit in a table: with more, three joins have more than a join takes of a unit, and are bounded
REFUSED = 60  # statements of the grammar, of which most are refused


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.execute("CREATE SCHEMA reference")
        yield made


def outside(text: str, change: Callable[[str], str]) -> str:
    """A text whose parts outside of quotes are changed."""
    return "".join(part if part[:1] in "'\"" else change(part) for part in re.split(r"('[^']*'|\"[^\"]*\")", text))


#: Ways to write a statement again: the first ones keep every name, the others are for generated statements.
ANYWHERE: dict[str, Callable[[str], str]] = {
    "spaces": lambda text: outside(text, lambda part: part.replace(" ", " \n\t ")),
    "comments": lambda text: outside(text, lambda part: part.replace(", ", ", /* it's */ ")) + " -- end",
    "case": lambda text: outside(text, str.lower),
    "cte": lambda text: f"WITH wrapped AS ({text}) SELECT * FROM wrapped",
    "subquery": lambda text: f"SELECT * FROM ({text}) AS wrapped",
    "twice": lambda text: f"FROM (WITH one AS ({text}) FROM one)",
}
GENERATED = ANYWHERE | {
    "aliases": lambda text: outside(text, lambda part: re.sub(r"\bx(\d+)\b", r"renamed_\1", part)),
    "quoted": lambda text: outside(text, lambda part: re.sub(r"\b(visits|labs|days|depts)\b(?!\.)", r'"\1"', part)),
    "schema": lambda text: outside(text, lambda part: re.sub(r"\b(FROM|JOIN) (visits|labs)\b", r"\1 main.\2", part)),
}


def outcome(text: str) -> Any:
    """The identities of what a statement releases; None: it is refused."""
    try:
        return sorted(plan.canonical() for plan in plans_of(text, WIDE, [1]))
    except DuckDPError:
        return None


def _few(rows: list[Row]) -> list[Row]:
    """At most MOST rows of each unit."""
    seen = Counter[Any]()
    return [row for row in rows if seen.update((row[0],)) is None and seen[row[0]] <= MOST]


def differences(con: duckdb.DuckDBPyConnection, rng: random.Random, many: int) -> Iterator[str]:
    """What is wrong with generated statements over some rows, each with one other way to be written."""
    for number in range(many):
        if number % OF_ONE == 0:
            load_reference(con, {name: _few(rows) for name, rows in random_data(rng, wild=False).items()})
        text = Statements(rng).statement()
        plan = plan_of(text, WIDE)
        found = differs(con, text, plan)
        if found is not None:
            yield found
        name = rng.choice(list(GENERATED))
        if outcome(GENERATED[name](text)) != outcome(text):
            yield f"{name}: {text}"


def test_some_generated_statements(con: duckdb.DuckDBPyConnection) -> None:
    assert list(differences(con, random.Random("few"), FEW)) == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) AS n, sum(b) AS s FROM (SELECT DISTINCT pid, dept, b FROM (SELECT *, 3 AS b FROM visits))",
        "SELECT count(*) AS n FROM (SELECT DISTINCT pid, 'a' AS b FROM visits) WHERE b = 'a'",
        "SELECT dept, count(*) AS n FROM (SELECT DISTINCT 1 AS one, pid, dept FROM visits) GROUP BY dept",
    ],
)
def test_constants_beside_distinct_columns(text: str, con: duckdb.DuckDBPyConnection) -> None:
    """They are alike in all rows: as keys they were refused."""
    plan = plan_of(text, WIDE)
    for seed in range(5):
        rows = random_data(random.Random(seed), wild=False)
        load_reference(con, {name: _few(own) for name, own in rows.items()})
        assert differs(con, text, plan) is None


@pytest.mark.slow
@pytest.mark.parametrize("part", range(MANY // AT_ONCE))
def test_ten_thousand_generated_statements(part: int, con: duckdb.DuckDBPyConnection) -> None:
    assert list(differences(con, random.Random(f"many {part}"), AT_ONCE)) == []


def test_a_refusal_stays_one() -> None:
    """No way to write a refused statement makes an answer of it, and no answer becomes another."""
    grammar, wrong, refused = Grammar(random.Random(15)), [], Counter[bool]()
    for number in range(REFUSED):
        text = grammar.statement(poison=number % 3 == 0)
        wanted = outcome(text)
        refused[wanted is None] += 1
        for name, way in ANYWHERE.items():
            found = outcome(way(text))
            if found != wanted and (found is not None or grammar.poisoned):
                wrong.append((name, text))
    assert wrong == []
    assert refused[True] > REFUSED / 2 and refused[False] > 0


@pytest.mark.parametrize(
    ("module", "name", "broken"),
    [
        (printing, "number", lambda value: f"{float(value) + 0.5:.17e}"),
        (joined, "_PRINTED", dict.fromkeys(("inner", "left", "right", "full"), "JOIN")),
    ],
)
def test_a_printer_that_means_something_else_is_caught(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, broken: Any
) -> None:
    """The broken twins."""
    monkeypatch.setattr(module, name, broken)
    assert next(differences(con, random.Random("few"), 10 * FEW), None) is not None

"""Statements of a wide grammar: refused by a code of ours or answered, never anything else; nothing without a rule."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Literal
from duckdp.compiler.outer import block
from duckdp.compiler.scalars import Scalars
from duckdp.errors import DuckDPError, QueryError
from tests.adversary.grammar import Fuzzed, Grammar, plans_of, run
from tests.relational import load_data, random_data, tables

WORLD = tables()
FEW = 150
SECONDS = int(os.environ.get("DUCKDP_FUZZ_SECONDS", "60"))  # of processor time, of the slow test
PART = 600  # seconds of one part of it: a test that takes an hour counts as one that hangs


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        load_data(made, random_data(random.Random(1), wild=True))
        yield made


def test_a_sample(con: duckdb.DuckDBPyConnection) -> None:
    found = run(con, Grammar(random.Random(2026)), WORLD, lambda done: done >= FEW)
    assert found.wrong == []
    assert found.outcomes["answered"] > 0 and len(found.outcomes) > 5


#: What the long test found: each ended in an exception of ours or of the parser's.
FOUND = [
    "SELECT corr(level, 0.5) / regr_slope(DISTINCT day, 1 // ok) FROM visits v",
    "SELECT (nullif(1 // day, 2), 3) FROM visits GROUP BY regr_slope(DISTINCT day, 1 // day)",
    "SELECT count(*) FROM depts JOIN visits ON ('2024-02-01') AND (cost IS NULL)",
    "SELECT regr_count(cost), regr_r2(cost), regr_slope(cost), corr(cost), covar_pop(cost) FROM visits",
    "SELECT covar_samp(cost) FROM visits",
    "SELECT max() FROM visits",
    "SELECT DISTINCT open, open AS n FROM visits JOIN depts USING (dept)",
    "SELECT count(*) FROM labs JOIN visits USING (pid) FULL JOIN labs AS l ON v.pid = l.pid",
    "SELECT sum(x) FROM (SELECT pid, max() AS x FROM visits GROUP BY pid)",
    "SELECT sum(x) FROM (SELECT pid, min(DISTINCT) AS x FROM visits GROUP BY pid)",
    "SELECT dept, sum(cost) FROM visits GROUP BY dept ORDER BY max()",
]


@pytest.mark.parametrize("text", FOUND)
def test_what_was_found_is_refused(text: str) -> None:
    with pytest.raises(QueryError):
        plans_of(text, WORLD, [])


ARGUMENTS = (
    *("", "*", "cost", "cost, day", "DISTINCT", "DISTINCT cost", "cost ORDER BY day", "NULL", "cost, day, 1, 2, 3"),
    "(SELECT cost, day FROM visits)",
)
PLACES = (
    "SELECT {} FROM visits",
    "SELECT dept, {} FROM visits GROUP BY dept",
    "SELECT dept, count(*) FROM visits GROUP BY dept ORDER BY {}",
    "SELECT dept, count(*) FROM visits GROUP BY dept HAVING {} > 1",
    "SELECT {} OVER (ORDER BY day) FROM visits",
    "SELECT {} FILTER (WHERE paid) FROM visits",
    "SELECT sum(x) FROM (SELECT pid, {} AS x FROM visits GROUP BY pid)",
    "SELECT sum({}) FROM visits",
    "SELECT count(*) FROM visits WHERE {} IS NULL",
    "SELECT {} WITHIN GROUP (ORDER BY cost) FROM visits",
    "SELECT n, {} FROM (SELECT day AS cost, count(*) AS n FROM visits GROUP BY day)",
    "SELECT count(*) FROM visits v, {} AS l",
    "SELECT DISTINCT ON ({}) dept, sum(cost) FROM visits GROUP BY ALL",
)
WRITTEN = ("coalesce", "nullif", "extract", "position", "overlay", "grouping", "unnest", "if", "least", "struct_pack")


def unforeseen(con: duckdb.DuckDBPyConnection, arguments: tuple[str, ...], places: tuple[str, ...]) -> list[str]:
    """Which calls of DuckDB's functions, with such arguments and at such places, end in neither a plan nor a code."""
    rows = con.execute("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name ~ '^[a-z_0-9]+$'")
    names = sorted({*(name for (name,) in rows.fetchall()), *WRITTEN})
    assert len(names) > 500
    found = []
    for name, said, place in product(names, arguments, places):
        text = place.format(f"{name}({said})")
        try:
            plans_of(text, WORLD, [])
        except DuckDPError as error:
            if error.code.startswith("X"):
                found.append(text)
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            found.append(f"{text}: {error!r}")
    return found


def test_no_function_ends_in_an_exception(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unforeseen(con, ("",), (PLACES[0], PLACES[6])) == []
    monkeypatch.setattr(block, "asks_least", lambda node: isinstance(node, (exp.Min, exp.Max)))  # the twin, as it was
    assert unforeseen(con, ("",), PLACES[:1])


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_no_function_with_any_arguments_ends_in_an_exception(con: duckdb.DuckDBPyConnection, place: str) -> None:
    assert unforeseen(con, ARGUMENTS, (place,)) == []


@pytest.mark.slow
@pytest.mark.parametrize("begun", range(0, SECONDS, PART))
def test_for_as_long_as_is_asked(con: duckdb.DuckDBPyConnection, begun: int) -> None:
    """DUCKDP_FUZZ_SECONDS of processor time of it, in parts; what was read is printed."""
    end = time.process_time() + min(PART, SECONDS - begun)
    found = run(con, Grammar(random.Random()), WORLD, lambda _: time.process_time() > end)
    print(f"{sum(found.outcomes.values()):,} statements: {dict(found.outcomes.most_common())}")
    for what, text in found.wrong:  # whole: no seed makes it again
        print(text, what, sep="\n")
    assert found.wrong == []


def test_a_gate_that_takes_what_it_does_not_know_is_caught(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: what has no rule is read as a constant."""
    honest = Scalars.__call__

    def lax(self: Scalars, node: Any) -> Any:
        try:
            return honest(self, node)
        except QueryError:
            return Literal(1, Kind.NUMBER)

    monkeypatch.setattr(Scalars, "__call__", lax)
    found: Fuzzed = run(con, Grammar(random.Random(7)), WORLD, lambda done: done >= FEW)
    assert any(what == "no rule" for what, _ in found.wrong)

"""The newest forms, generated: DuckDB's own answer before the noise, local to units, and moved by no more than claimed.

The statements are those of tests/relational_newest.py, the oracles those of tests/relational.py.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest

from duckdp.compiler import binned, combinations, scalar_joins, shown_rows
from duckdp.errors import QueryError
from tests.compiler.test_differential import WIDE, _few
from tests.relational import differs, largest_share, load_reference, random_data, tables, violation
from tests.relational_newest import Newest, short_plan

FEW, MANY, AT_ONCE = 40, 10_000, 500
OF_ONE = 20  # statements over the same rows
TIGHT = tables()  # 2 rows in each of 2 groups count


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.execute("CREATE SCHEMA reference")
        yield made


@pytest.fixture(autouse=True)
def no_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact cells have no noise: one row of a value is beyond doubt."""
    monkeypatch.setattr(binned, "_apart", lambda *_: 0)


def differences(con: duckdb.DuckDBPyConnection, rng: random.Random, many: int) -> tuple[list[str], Counter[str]]:
    """What is wrong with generated statements over some rows; and how many there were, or were refused."""
    wrong, seen = [], Counter[str]()
    for number in range(many):
        if number % OF_ONE == 0:
            load_reference(con, {name: _few(rows) for name, rows in random_data(rng, wild=False).items()})
        text = Newest(rng).statement()
        try:
            plan = short_plan(text, WIDE)
        except QueryError as error:
            seen[error.code] += 1
            continue
        seen["answered"] += 1
        found = differs(con, text, plan)
        wrong += [] if found is None else [found]
    return wrong, seen


def test_some_are_duckdbs_own_answers(con: duckdb.DuckDBPyConnection) -> None:
    wrong, seen = differences(con, random.Random("newest"), FEW)
    assert wrong == []
    assert seen["answered"] > 0.9 * FEW


@pytest.mark.slow
@pytest.mark.parametrize("part", range(MANY // AT_ONCE))
def test_ten_thousand_are_duckdbs_own_answers(part: int, con: duckdb.DuckDBPyConnection) -> None:
    wrong, seen = differences(con, random.Random(f"newest {part}"), AT_ONCE)
    print(seen)
    assert wrong == []


#: The broken twins: a count of no rows is NULL; every second combination of keys is taken as impossible.
BROKEN = [
    (scalar_joins, "_COUNTS", ()),
    (shown_rows, "possible", lambda query, keys: combinations.possible(query, keys)[::2]),
]


@pytest.mark.parametrize(("module", "name", "broken"), BROKEN)
def test_a_form_that_means_something_else_is_caught(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, module: object, name: str, broken: object
) -> None:
    monkeypatch.setattr(module, name, broken)
    rng = random.Random("newest")
    assert any(differences(con, rng, OF_ONE)[0] for _ in range(10))


def broken_promise(con: duckdb.DuckDBPyConnection, rng: random.Random, many: int) -> list[str]:
    """Statements of which a relation is not local, or whose cells move by more than is claimed."""
    wrong = []
    for _ in range(many):
        text = Newest(rng).statement()
        try:
            plan = short_plan(text, TIGHT, 1)
        except QueryError:
            continue
        found = violation(con, plan, rng, 1)
        share = largest_share(con, plan, rng, 2)
        if found is not None or share > 1:
            wrong.append(f"{found or share}: {text}")
    return wrong


def test_some_are_local_and_move_no_more_than_claimed(con: duckdb.DuckDBPyConnection) -> None:
    assert broken_promise(con, random.Random("local"), FEW // 2) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_thousands_are_local_and_move_no_more_than_claimed(part: int, con: duckdb.DuckDBPyConnection) -> None:
    assert broken_promise(con, random.Random(f"local {part}"), 200) == []

"""Keys of joins that are compared as whole numbers: the same figures as of DOUBLEs, whatever the keys; and twins."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from duckdp.catalog.public import Public
from duckdp.catalog.table import RawColumn, Table
from duckdp.compiler import domain_joins
from duckdp.compiler.emit import emit
from duckdp.compiler.relations import joined, whole_keys, with_public
from duckdp.vault.publishing import with_figures
from tests.gate import column, exact_rows
from tests.relational import plan_of

LARGE = 2**53
SCHEMA = {
    "a": "pid INTEGER, i INTEGER, small UTINYINT, big BIGINT, held BIGINT, none INTEGER, cut INTEGER",
    "b": "pid INTEGER, i INTEGER, small UTINYINT, big BIGINT, held BIGINT, none INTEGER, cut INTEGER",
    "p": "i INTEGER, small UTINYINT, big BIGINT, held BIGINT, label VARCHAR",
    "q": "small UTINYINT, name VARCHAR",
}
KEYS = ("i", "small", "big", "held", "none", "cut")


def _person(name: str, **given: Any) -> Table:
    columns = (
        column("i", "INTEGER"),
        column("small", "UTINYINT", lower=1, upper=4),
        column("big", "BIGINT"),
        column("held", "BIGINT", lower=-5, upper=LARGE),
        column("none", "INTEGER", null_value=0),
        column("cut", "INTEGER", lower=0.5, upper=3.5),
    )
    figures: dict[str, Any] = {
        "row_cap": 1000,
        "unit_key": "pid",
        "unit_type": "INTEGER",
        "max_rows": 900,
        "max_groups": 90,
    }
    return Table(name=name, relation=("memory", "main", name), columns=columns, **(figures | given))


def _fill(con: duckdb.DuckDBPyConnection, rng: random.Random) -> dict[str, Table]:
    """Keys within bounds and beyond them, NULL, and whole numbers that one DOUBLE stands for."""
    wide = [None, -9, -5, 1, LARGE - 1, LARGE, LARGE, LARGE + 1, LARGE + 1, 2**62]
    few = [None, 0, 1, 2, 4, 5, 9]

    def row() -> tuple[object, ...]:
        small = rng.choice(few)
        return (rng.choice([-3, 0, 1, 2, None]), small, rng.choice(wide), rng.choice(wide))

    for name, schema in SCHEMA.items():
        con.execute(f"CREATE OR REPLACE TABLE {name} ({schema})")
    persons = {"a": [rng.randint(1, 14) for _ in range(90)], "b": list(range(1, 13))}
    for name, pids in persons.items():
        rows = [(pid, *row(), rng.choice([0, 1, None]), rng.randint(-1, 5)) for pid in pids]
        con.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    con.executemany(
        "INSERT INTO p VALUES (?, ?, ?, ?, ?)", [(*row()[:3], rng.choice([-5, 1, LARGE]), "x") for _ in range(12)]
    )
    con.execute("INSERT INTO q VALUES (1, 'one'), (2, 'two'), (4, 'four'), (9, NULL)")
    return {"a": _person("a"), "b": _person("b", unique=("pid",)), "p": _public(con, "p"), "q": _public(con, "q")}


def _public(con: duckdb.DuckDBPyConnection, name: str) -> Table:
    raw = [RawColumn(name=r[0], type=r[1], nullable=True) for r in con.execute(f"DESCRIBE {name}").fetchall()]
    known = Public(rows=0, digest="", source="")
    columns = tuple(column(c.name, c.type) for c in raw)
    bare = Table(name=name, relation=("memory", "main", name), columns=columns, row_cap=1, public=known)
    return with_figures(con, bare, raw, "")


TEXTS = (
    *(f"SELECT count(*) FROM a JOIN b ON a.pid = b.pid AND a.{k} = b.{k}" for k in KEYS),
    *(f"SELECT count(*) FROM a LEFT JOIN p ON a.{k} = p.{k}" for k in KEYS[:4]),
    "SELECT count(*), count(b.i) FROM a FULL JOIN b ON a.pid = b.pid AND a.held = b.held AND a.small = b.small",
    "SELECT count(*) FROM a WHERE EXISTS (SELECT 1 FROM p WHERE p.held = a.held AND p.small <= a.small)",
    "SELECT count(*) FROM a WHERE NOT EXISTS (SELECT 1 FROM p WHERE p.small = a.small)",
    "SELECT name, count(*) FROM a JOIN p ON a.small = p.small JOIN q ON p.small = q.small GROUP BY name",
    "SELECT name, count(*) FROM a JOIN b ON a.pid = b.pid AND a.i = b.i JOIN p ON b.held = p.held "
    "LEFT JOIN q ON p.small = q.small AND a.small = q.small GROUP BY name",
    "SELECT count(*) FROM (SELECT pid, small + 1 AS s, held FROM a) t JOIN p ON t.s = p.small AND t.held = p.held",
    "SELECT name, CASE WHEN a.small > 1 THEN 'x' WHEN a.small < 1 THEN 'y' END AS c, a.small % 3 AS m, count(*) FROM a "
    "JOIN p ON a.small = p.small JOIN q ON p.small = q.small GROUP BY ALL",
)


def _answers(con: duckdb.DuckDBPyConnection, known: dict[str, Table]) -> list[object]:
    return [sorted(exact_rows(plan_of(text, known), con), key=str) for text in TEXTS]


def _of_doubles(con: duckdb.DuckDBPyConnection, known: dict[str, Table]) -> list[object]:
    """The same with every key as it is read elsewhere, and every domain joined."""
    with pytest.MonkeyPatch.context() as patched:
        for module in (joined, with_public):
            patched.setattr(module, "compared_whole", lambda on, _: on)
        patched.setattr(domain_joins, "MOST_SEARCHED", -1)
        return _answers(con, known)


def test_whole_keys_meet_what_their_doubles_meet() -> None:
    con = duckdb.connect()
    known = _fill(con, random.Random(5))
    assert _answers(con, known) == _of_doubles(con, known)


def test_keys_that_double_makes_one_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twins: every column counts as whole; a claim of bounds is taken for the scan's."""
    con = duckdb.connect()
    known = _fill(con, random.Random(6))
    right = _of_doubles(con, known)
    with monkeypatch.context() as patched:
        patched.setattr(whole_keys, "_is_apart", lambda c: c.name != "cut")  # whose bounds no whole number is
        assert _answers(con, known) != right
    with monkeypatch.context() as patched:
        patched.setattr(whole_keys, "print_whole", lambda _, raw: raw)
        patched.setattr("duckdp.compiler.printing.print_whole", lambda _, raw: raw)
        assert _answers(con, known) != right


def test_which_keys_are_whole() -> None:
    con = duckdb.connect()
    known = _fill(con, random.Random(7))
    found = {k: whole_keys.is_whole(known["a"], k) for k in KEYS}
    assert found == {"i": True, "small": True, "big": False, "held": True, "none": False, "cut": False}
    printed = [emit(plan_of(text, known), 7).sql for text in TEXTS]
    assert ["__whole" in sql for sql in printed[:6]] == list(found.values())
    assert ["__whole" in sql for sql in printed[6:10]] == [True, True, False, True]
    assert [sql.count("list_position") > 0 for sql in printed[-4:]] == [True, True, False, True]
    named = replace(known["a"], columns=(*known["a"].columns, column("__whole i", "INTEGER")))
    assert not whole_keys.is_whole(named, "i")


def test_rows_that_are_chosen_are_chosen_by_what_they_hold_as_before() -> None:
    """Where both sides keep some rows of a unit, the choice reads the columns that it read; and no key is whole."""
    known = {name: replace(_person(name), max_rows=2) for name in "ab"}
    text = "SELECT count(*) FROM a JOIN b ON a.pid = b.pid AND a.i = b.i"
    assert "AS edge" in (sql := emit(plan_of(text, known), 7).sql) and "__whole" not in sql

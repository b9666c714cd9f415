"""Keys of one public table have the groups that its rows have, and no row is lost with the others."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from duckdp.catalog.table import Table
from duckdp.compiler import public_keys
from duckdp.compiler import select as reading
from duckdp.compiler.describe import describe_plan
from duckdp.compiler.emit import emit
from duckdp.compiler.plan import Plan
from duckdp.compiler.release import SelectTask
from duckdp.errors import QueryError
from tests.gate import crossing, exact_answer, exact_rows
from tests.relational import PUBLIC, load_data, plan_of, random_data, table, tables

KNOWN = {n: replace(t, max_rows=500, max_groups=500) if t.public is None else t for n, t in tables().items()}
JOIN = "visits v JOIN days d ON d.day = v.day"
LEFT = "visits v LEFT JOIN days d ON d.day = v.day"


def groups(plan: Plan) -> list[tuple[Any, ...]]:
    """The keys of all groups that are released."""
    return list(plan.query.groups_of([k.domain or () for k in plan.query.keys]))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"SELECT d.day, d.label, count(*) FROM {JOIN} GROUP BY 1, 2", 10),
        (f"SELECT d.label, d.day, d.rate, count(*) FROM {JOIN} GROUP BY ALL", 10),
        (f"SELECT d.day, d.label, count(*) FROM {LEFT} GROUP BY 1, 2", 11),
        (f"SELECT d.day, d.label, count(*) FROM {LEFT} AND d.rate > 1 GROUP BY 1, 2", 6),
        (f"SELECT d.day % 2, upper(d.label), count(*) FROM {JOIN} GROUP BY 1, 2", 8),
        (f"SELECT d.day, d.label, v.dept, count(*) FROM {JOIN} GROUP BY ALL", 30),
        (f"SELECT v.dept, d.day, v.paid, d.label, count(*) FROM {JOIN} GROUP BY ALL", 60),
        (f"SELECT d.day, d.label, count(*) FROM {JOIN} WHERE d.rate > 1 GROUP BY 1, 2", 5),
        (f"SELECT d.label, count(*) FROM {JOIN} WHERE d.rate > 1 GROUP BY 1", 5),
        (f"SELECT d.day, d.label, count(*) FROM {JOIN} WHERE d.label <> 'x' AND v.cost > 1 GROUP BY 1, 2", 7),
        (f"SELECT d.day, d.label, count(*) FROM {LEFT} WHERE d.rate > 1 GROUP BY 1, 2", 5),
        (f"SELECT d.day, d.label, count(*) FROM {LEFT} WHERE d.rate IS NULL GROUP BY 1, 2", 2),
        ("SELECT d.day, d.label, count(*) FROM visits v, days d WHERE d.day = v.day GROUP BY 1, 2", 10),
        ("SELECT day, label, count(*) FROM days JOIN visits USING (day) GROUP BY 1, 2", 9),
        (
            "SELECT e.day, d.label, count(*) FROM visits v JOIN days d ON d.day = v.day JOIN days e ON e.day = v.day "
            "GROUP BY 1, 2",
            63,
        ),  # two scans are two
        (
            "SELECT d.day, d.label, p.dept, p.site, count(*) FROM visits v JOIN days d ON d.day = v.day "
            "JOIN depts p ON p.dept = v.dept GROUP BY ALL",
            30,
        ),
        (f"SELECT a, b, count(*) FROM (SELECT d.day AS a, d.label AS b FROM {JOIN}) AS x GROUP BY 1, 2", 10),
        (
            f"WITH x AS (SELECT v.pid, d.day, d.label FROM {JOIN}) SELECT x.day, x.label, count(*) FROM x "
            "JOIN labs l ON l.pid = x.pid GROUP BY 1, 2",
            10,
        ),
        (
            f"WITH x AS (SELECT v.pid, d.day, d.label FROM {JOIN}) SELECT x.day, x.label, count(*) FROM labs l "
            "LEFT JOIN x ON l.pid = x.pid GROUP BY 1, 2",
            11,
        ),
        (
            f"WITH x AS (SELECT v.pid, d.day, d.label FROM {JOIN}) SELECT x.day, y.label, count(*) FROM x "
            "JOIN x AS y ON y.pid = x.pid GROUP BY 1, 2",
            63,
        ),  # two scans of one join
        (
            f"SELECT day, label, count(*) FROM (SELECT v.pid, d.day, d.label, count(*) AS n FROM {JOIN} GROUP BY ALL) "
            "WHERE n > 1 GROUP BY 1, 2",
            10,
        ),
        (
            f"SELECT d.day, d.label, count(*) FROM {JOIN} WHERE EXISTS (SELECT 1 FROM labs l WHERE l.pid = v.pid) "
            "GROUP BY 1, 2",
            10,
        ),
        (
            "SELECT t.a, t.b, count(*) FROM visits v JOIN (VALUES (1, 'x'), (2, 'y'), (2, 'x')) AS t(a, b) "
            "ON t.a = v.day GROUP BY 1, 2",
            3,
        ),
        (
            "SELECT d.day, d.up, count(*) FROM visits v "
            "JOIN (SELECT day, upper(label) AS up FROM days WHERE day > 3) AS d ON d.day = v.day GROUP BY 1, 2",
            4,
        ),
        (
            "SELECT d.day, d.label, count(v.cost) FROM days d LEFT JOIN visits v ON d.day = v.day AND d.rate > 1 "
            "GROUP BY 1, 2",
            10,
        ),
    ],
)
def test_groups_are_the_rows_of_the_public_table(text: str, count: int) -> None:
    assert len(groups(plan_of(text, KNOWN))) == count


def test_a_row_in_no_group_would_fail_nothing() -> None:
    """Were one to come, no error told of it: as many rows may cross as the keys' own domains have groups."""
    plan = plan_of("SELECT d.day, d.label, count(*) FROM visits v JOIN days d ON d.day = v.day GROUP BY 1, 2", KNOWN)
    crossed = emit(plan, 7).rows
    assert crossed is not None
    assert crossed == math.prod(len(k.domain or ()) for k in plan.query.keys) > len(groups(plan))


def test_twins_of_their_own_columns_are_crossed() -> None:
    """Without what public rows have together there are all combinations."""
    bare = {
        n: t if t.public is None else replace(t, public=replace(t.public, listed=(), together=""))
        for n, t in KNOWN.items()
    }
    text = f"SELECT d.day, d.label, count(*) FROM {JOIN} GROUP BY 1, 2"
    assert len(groups(plan_of(text, bare))) == 9 * 7


def test_values_are_those_of_the_rows() -> None:
    plan = plan_of(f"SELECT d.label, d.day, count(*) FROM {JOIN} WHERE d.rate >= 1 GROUP BY 1, 2", KNOWN)
    assert groups(plan) == [("b", 5), ("c", 7), ("x", 1), ("z", None), (None, 2)]
    assert groups(plan) == sorted(groups(plan), key=lambda g: (g[0] is None, g))


def test_fewer_groups_need_less_noise() -> None:
    """A unit is in as many groups as there are: of a public table of three rows in three, not in six."""
    known = {n: replace(t, max_groups=20) if t.public is None else t for n, t in tables().items()}
    text = "SELECT p.dept, p.site, count(*) FROM visits v JOIN depts p ON p.dept = v.dept GROUP BY 1, 2"
    assert plan_of(text, known).groups == 3


def test_explain_says_how_many() -> None:
    plan = plan_of(f"SELECT d.label, d.day, v.dept, count(*) FROM {JOIN} GROUP BY ALL", KNOWN)
    assert any("together: " in line and "(10 combinations of public days)" in line for line in describe_plan(plan))


def test_other_public_rows_are_another_question() -> None:
    """The digest of the public rows and the combinations are in its identity."""
    text = f"SELECT d.label, d.day, count(*) FROM {JOIN} GROUP BY 1, 2"
    plan = plan_of(text, KNOWN)
    (together,) = plan.query.together
    other = replace(together, rows=together.rows[:-1])
    assert replace(plan, query=replace(plan.query, together=(other,))).canonical() != plan.canonical()
    days = KNOWN["days"]
    assert days.public is not None
    changed = {**KNOWN, "days": replace(days, public=replace(days.public, digest="other"))}
    assert plan_of(text, changed).canonical() != plan.canonical()
    assert plan_of(text, KNOWN).canonical() == plan.canonical()  # equal questions are equal


@pytest.mark.parametrize(
    "text",
    [
        "SELECT d.day, v.dept, count(v.cost) FROM days d LEFT JOIN visits v ON d.day = v.day GROUP BY 1, 2",
        "SELECT d.day, d.label, count(*) FROM days d LEFT JOIN visits v ON d.day = v.day GROUP BY 1, 2",
        "SELECT d.day, upper(d.label), count(v.cost) FROM days d LEFT JOIN visits v ON d.day = v.day GROUP BY 1, 2",
    ],
)
def test_public_rows_kept_alone_tell_of_nobody(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        plan_of(text, KNOWN)
    assert caught.value.code == "Q204"


# ---- what is released -----------------------------------------------------------------------------------------------


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:")


def test_a_release_has_a_cell_for_each(con: duckdb.DuckDBPyConnection) -> None:
    load_data(con, random_data(random.Random(3), wild=False))
    plan = plan_of(f"SELECT d.label, d.day, count(*) FROM {JOIN} GROUP BY 1, 2", KNOWN, epsilon=100)
    found = exact_answer(plan, con)
    released = SelectTask(plan=plan).release(crossing(plan, exact_rows(plan, con)))
    assert released.count("[") == 11  # of the list, and of each group
    assert list(zip(*(c.values for c in found[:2]), strict=True)) == groups(plan)


KEYS = (
    "d.day",
    "d.label",
    "d.rate",
    "d.day % 3",
    "upper(d.label)",
    "coalesce(d.label, 'none')",
    "d.day IS NULL",
    "d.label = 'x'",
    "v.dept",
    "v.paid",
    "p.dept",
    "p.site",
    "p.open",
    "p.site * 10 + d.day % 2",
    "CASE WHEN d.day > 4 THEN d.label END",
    "e.label",
    "e.day",
)
WHERE = (
    "d.rate > 1",
    "d.label <> 'x'",
    "d.label IS NULL",
    "v.cost > 2",
    "p.open",
    "d.day = p.site",
    "e.rate > 1",
    "d.day > 2 OR p.site = 1",
    "v.dept <> 'b'",
    "coalesce(d.label, 'x') = 'x'",
)


def _statement(rng: random.Random) -> str:
    keys, how = rng.sample(KEYS, rng.choice([1, 2, 2, 3, 4])), [rng.choice(["", "LEFT "]) for _ in range(3)]
    where = f"WHERE {' AND '.join(rng.sample(WHERE, rng.choice([1, 2])))}" if rng.random() < 0.6 else ""
    more = rng.choice(["", " AND d.rate < 3", " AND d.label IN ('x', 'a', 'y')"])
    listed = ", ".join(f"{key} AS k{i}" for i, key in enumerate(keys))
    return (
        f"SELECT {listed}, count(*) AS n FROM visits v {how[0]}JOIN days d ON d.day = v.day{more} {how[1]}JOIN depts p "
        f"ON p.dept = v.dept {how[2]}JOIN days e ON e.day = v.day - 1 {where} GROUP BY ALL"
    )


def _lost(con: duckdb.DuckDBPyConnection, rounds: int) -> tuple[int, int]:
    """Groups with rows, of all combinations of the keys, that are not there; and how many groups fewer there are."""
    rng, lost, fewer = random.Random(8), 0, 0
    load_data(con, random_data(rng, wild=False))
    for _ in range(rounds):
        text = _statement(rng)
        found = exact_answer(plan_of(text, KNOWN), con)
        with pytest.MonkeyPatch.context() as plain:
            plain.setattr(reading, "together_with_public", lambda _table, keys, _where, **_: (keys, ()))
            every = exact_answer(plan_of(text, KNOWN), con)
        rows = [set(zip(*(c.values for c in part), strict=True)) for part in (every, found)]
        lost += len({row for row in rows[0] if row[-1]} - rows[1])
        fewer += len(rows[0]) - len(rows[1])
    return lost, fewer


def test_no_group_is_lost(con: duckdb.DuckDBPyConnection) -> None:
    lost, fewer = _lost(con, 150)
    assert (lost, fewer > 1000) == (0, True)


def _one_scan(broken: pytest.MonkeyPatch) -> None:
    """All scans are taken for one."""
    old = public_keys._scan

    def found(table: Table, name: str, *given: Any, **more: Any) -> Any:
        known = old(table, name, *given, **more)
        return None if known is None else (replace(known[0], way=()), known[1])

    broken.setattr(public_keys, "_scan", found)


def _never_missing(broken: pytest.MonkeyPatch) -> None:
    old = public_keys._scan

    def found(table: Table, name: str, *given: Any, **more: Any) -> Any:
        known = old(table, name, *given, **more)
        return None if known is None else (replace(known[0], missing=False), known[1])

    broken.setattr(public_keys, "_scan", found)


def _a_row_less(broken: pytest.MonkeyPatch) -> None:
    old = public_keys.read_together
    broken.setattr(public_keys, "read_together", lambda *given: old(*given)[:-3])
    public_keys._values.cache_clear()


def _all_conditions(broken: pytest.MonkeyPatch) -> None:
    """ON of a LEFT JOIN is taken for WHERE."""
    old = public_keys._told

    def told(table: Table, scan: Any, where: Any, **more: Any) -> Any:
        return [(c, True) for c, _ in old(table, scan, where, **more)]

    broken.setattr(public_keys, "_told", told)


@pytest.mark.parametrize("broken", [_one_scan, _never_missing, _a_row_less, _all_conditions])
def test_broken_twins_lose_groups(
    broken: Callable[[pytest.MonkeyPatch], None], con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    public_keys._values.cache_clear()
    broken(monkeypatch)
    assert _lost(con, 60)[0] > 0
    public_keys._values.cache_clear()


# ---- what is known of public rows -----------------------------------------------------------------------------------


def test_what_is_known_is_stored_and_read_again() -> None:
    from duckdp.catalog.table import load_table

    again = load_table(KNOWN["days"].declaration)
    assert again.public == KNOWN["days"].public
    assert again.public is not None
    assert again.public.listed == ("day", "label", "rate")
    assert len(again.public.together.split(";")) == PUBLIC["days"].count("(") - 2


def test_long_tables_have_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    from duckdp.catalog import public
    from duckdp.vault import publishing
    from tests import relational

    monkeypatch.setattr(public, "MOST_TOGETHER", 29)
    monkeypatch.setattr(publishing, "MOST_TOGETHER", 29)
    found = relational.public.__wrapped__("days").public
    assert (found.rows, found.listed, found.together) == (10, (), "")
    monkeypatch.setattr(public, "MOST_TOGETHER", 30)
    monkeypatch.setattr(publishing, "MOST_TOGETHER", 30)
    assert relational.public.__wrapped__("days").public.listed == ("day", "label", "rate")


def test_a_table_of_rows_as_units(con: duckdb.DuckDBPyConnection) -> None:
    """Each row is a unit: the public table has one row for each."""
    alone = {
        "visits": table("visits", unit_key=None, unit_type=None, max_rows=1, max_groups=1),
        "depts": KNOWN["depts"],
    }
    load_data(con, random_data(random.Random(3), wild=False))
    text = "SELECT p.dept, p.site, count(*) FROM visits v JOIN depts p ON p.dept = v.dept GROUP BY 1, 2"
    plan = plan_of(text, alone)
    assert groups(plan) == [("a", 1), ("b", 2), ("c", 2)]
    assert exact_answer(plan, con)[2].values == [
        n
        for (n,) in con.execute(
            "SELECT count(*) FROM visits WHERE dept IN ('a', 'b', 'c') GROUP BY dept ORDER BY dept"
        ).fetchall()
    ]

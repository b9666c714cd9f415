"""GROUP BY the key of a link is by the unit too: locality, meaning, NULLs; IN over such a key is EXISTS; and twins."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from duckdp.catalog.table import Table
from duckdp.compiler.outer.apart import take_apart
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.relations import unit_groups
from duckdp.compiler.relations.relation import Relation
from duckdp.compiler.scope import View
from duckdp.errors import QueryError
from tests.compiler.test_links import USUAL, WIDE, Data, broken, load, random_data, reference
from tests.gate import exact_answer
from tests.relational import plan_of

# asked, and the same in DuckDB's eyes: one group of NULL in SQL is of several units, and left out
GROUPED = {
    "SELECT count(*), sum(n) FROM (SELECT sid, count(*) AS n FROM doses GROUP BY sid)": "",
    "SELECT count(*) FROM (SELECT sid, count(*) AS n FROM doses GROUP BY sid HAVING count(*) > 1)": "",
    "SELECT n, count(*) FROM (SELECT d.sid, count(*) AS n FROM doses AS d GROUP BY ALL) GROUP BY n": "",
    "SELECT count(*) FROM (SELECT DISTINCT sid FROM doses)": "",
    "SELECT count(*), sum(m) FROM (SELECT did AS k, mg, max(words) AS m FROM notes n JOIN doses d USING (did) "
    "GROUP BY k, mg)": "",
    "SELECT sum(t) FROM (SELECT sid, sum(mg) AS t FROM doses GROUP BY sid) g JOIN stays s ON s.sid = g.sid": "",
    "SELECT sum(x) FROM (SELECT sid, max(n) AS x FROM (SELECT sid, did, count(*) AS n FROM doses JOIN notes "
    "USING (did) GROUP BY sid, did) GROUP BY sid)": "",
    "SELECT count(*) FROM (SELECT k, count(*) AS n FROM (SELECT sid AS k FROM doses WHERE mg > 3 UNION ALL "
    "SELECT sid FROM stays WHERE ward = 1) GROUP BY k)": "WHERE k IS NOT NULL",
    "SELECT count(*), sum(n) FROM (SELECT sid, count(*) AS n FROM stays GROUP BY sid)": "WHERE sid IS NOT NULL",
    "SELECT count(*) FROM (SELECT DISTINCT sid, ward FROM stays)": "WHERE sid IS NOT NULL",
    "SELECT count(*), sum(n) FROM (SELECT d.sid, count(*) AS n FROM stays s LEFT JOIN doses d ON d.sid = s.sid "
    "GROUP BY 1)": "WHERE sid IS NOT NULL",
}


@pytest.mark.parametrize("text", GROUPED)
def test_groups_by_a_key_are_local_and_mean_the_text(con: duckdb.DuckDBPyConnection, text: str) -> None:
    assert broken(con, plan_of(text, USUAL), 1, tries=3) is None
    _means(con, text, f"{text} {GROUPED[text]}".strip())


def _means(con: duckdb.DuckDBPyConnection, text: str, own: str) -> None:
    rng = random.Random(2)
    for _ in range(4):
        load(con, random_data(rng), rng)
        columns = exact_answer(plan := plan_of(text, WIDE), con)
        rows = list(zip(*(c.values for c in columns), strict=True))
        wanted = reference(con, own)
        if plan.query.keys:
            rows = [row for row in rows if row[0] in {w[0] for w in wanted}]
        found = sorted(tuple(float(v or 0) for v in row) for row in rows)
        assert found == [
            pytest.approx(row, abs=1e-3) for row in sorted(tuple(float(v or 0) for v in w) for w in wanted)
        ]


def _answer(con: duckdb.DuckDBPyConnection, text: str) -> list[Any]:
    return [pytest.approx(c.values[0], abs=1e-3) for c in exact_answer(plan_of(text, WIDE), con)]


def test_a_key_that_two_units_share_gives_each_a_group_of_its_own(con: duckdb.DuckDBPyConnection) -> None:
    """What the owner's side compares is needed for the meaning alone: of the parent's own rows nothing leaks else."""
    text = "SELECT count(*), sum(n) FROM (SELECT sid, count(*) AS n FROM stays GROUP BY sid)"
    assert broken(con, plan_of(text, USUAL), 1, tries=6, shared=True) is None
    rng = random.Random(4)
    load(con, {**random_data(rng), "stays": [(1, 1, 0), (1, 2, 0), (1, 2, 0)]}, rng)
    assert _answer(con, text) == [2, 3]
    assert reference(con, text) == [(1, 3)]


def test_groups_without_the_unit_are_caught(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: the key alone is grouped by, of which two units have one group where they share it."""
    text = "SELECT count(*), sum(n) FROM (SELECT sid, count(*) AS n FROM stays GROUP BY sid)"
    honest = unit_groups.UnitGroups.print

    def alone(self: Any, *given: Any) -> str:
        return (
            honest(self, *given)
            .replace("GROUP BY __unit, ", "GROUP BY ")
            .replace("__unit, k0", "min(__unit) AS __unit, k0")
        )

    monkeypatch.setattr(unit_groups.UnitGroups, "print", alone)
    assert broken(con, plan_of(text, USUAL), 1, tries=6) is None
    assert broken(con, plan_of(text, USUAL), 1, tries=6, shared=True) is not None


def test_a_group_of_null_is_no_units(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin keeps rows without a key: the answer is another than that of any SQL."""
    text = "SELECT count(*), sum(n) FROM (SELECT sid, count(*) AS n FROM stays GROUP BY sid)"
    data: Data = {"stays": [(1, 1, 0), (None, 1, 0), (None, 2, 0)], "doses": [], "notes": []}
    load(con, data, random.Random(1))
    plan = plan_of(text, WIDE)
    assert _answer(con, text) == [1, 1]
    assert isinstance(plan.query.table, Relation)
    assert "rows whose sid is NULL are in no group: they may be of more than one pid" in plan.query.table.node.notes()
    monkeypatch.setattr("duckdp.compiler.relations.per_unit_select.has_key", lambda *_: None)
    assert _answer(con, text) == [3, 3]


def test_rows_of_a_linked_table_have_a_key() -> None:
    plan = plan_of("SELECT count(*) FROM (SELECT DISTINCT sid FROM doses)", USUAL)
    assert isinstance(plan.query.table, Relation)
    assert not any("NULL" in note for note in plan.query.table.node.notes())


OPEN = "SELECT count(*) FROM (SELECT {} AS k, count(*) AS n FROM {} GROUP BY k)"


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (OPEN.format("ward", "stays"), USUAL),
        (OPEN.format("sid + 0", "doses"), USUAL),
        (OPEN.format("coalesce(sid, 1)", "stays"), USUAL),
        (OPEN.format("did", "doses"), USUAL | {"doses": replace(USUAL["doses"], unique=())}),
        (OPEN.format("sid", "stays"), USUAL | {"stays": replace(USUAL["stays"], unit_key=None, unique=())}),
    ],
)
def test_other_keys_are_open_or_refused(text: str, known: dict[str, Table]) -> None:
    """What no link and no unique column says is of several units: the inner question is a release."""
    with pytest.raises(QueryError, match="question of its own"):
        plan_of(text, known)
    apart = take_apart(parse_statement(text), known, text)
    assert apart is not None and len(apart.parts) == 1


def test_a_value_that_stands_for_null_is_of_many() -> None:
    stays = USUAL["stays"]
    columns = tuple(replace(c, null_value=0.0, nullable=False) if c.name == "sid" else c for c in stays.columns)
    for of in ("stays", "(SELECT sid FROM stays UNION ALL SELECT sid FROM doses)"):
        text = OPEN.format("sid", of)
        assert plan_of(text, USUAL)
        with pytest.raises(QueryError, match="several units"):
            plan_of(text, USUAL | {"stays": replace(stays, columns=columns)})


@pytest.mark.parametrize(
    "text",
    [
        "WITH g AS (SELECT sid, count(*) AS n FROM doses GROUP BY sid), t AS (SELECT count(*) AS m FROM stays) "
        "SELECT (SELECT avg(n) FROM g) / m FROM t",
        "WITH g AS (SELECT DISTINCT sid FROM doses) SELECT (SELECT count(*) FROM g) / (SELECT count(*) FROM stays)",
    ],
)
def test_groups_by_a_key_are_no_release(text: str) -> None:
    apart = take_apart(parse_statement(text), USUAL, text)
    assert apart is not None
    assert [q.keys for q in apart.parts] == [(), ()]  # the key is not shown


def test_views_keep_what_a_key_names() -> None:
    """The key of a group names what it named; a computed one nothing."""
    assert View(table=USUAL["stays"], columns=(), keys=(("a", (("m", "m", "t"), "c")),)).key("A") is not None
    inner = "(SELECT sid, count(*) AS n FROM doses GROUP BY sid)"
    assert plan_of(f"SELECT count(*) FROM {inner} g JOIN stays s USING (sid)", USUAL)
    with pytest.raises(QueryError):
        plan_of(f"SELECT count(*) FROM (SELECT sid + 0 AS sid, n FROM {inner}) g JOIN stays s USING (sid)", USUAL)


# ---- IN over a key

LISTED = [
    "SELECT count(*), sum(ward) FROM stays WHERE sid IN (SELECT sid FROM doses WHERE mg > 3)",
    "SELECT count(*) FROM doses WHERE sid IN (SELECT sid FROM stays WHERE ward = 1)",
    "SELECT count(*) FROM stays s WHERE s.sid IN (SELECT d.sid FROM doses d WHERE d.mg > s.ward)",
    "SELECT count(*) FROM stays WHERE sid IN (SELECT sid FROM doses GROUP BY sid HAVING count(*) > 1)",
    "SELECT count(*) FROM stays WHERE ward = 1 OR sid IN (SELECT sid FROM doses)",
    "SELECT count(*) FILTER (WHERE sid IN (SELECT DISTINCT sid FROM doses)) FROM stays",
    "SELECT CASE WHEN sid IN (SELECT sid FROM doses) THEN 1 ELSE 2 END AS k, count(*) FROM stays GROUP BY k",
    "SELECT count(*) FROM doses WHERE (sid, mg) IN (SELECT sid, ward FROM stays)",
    "SELECT count(*) FROM doses WHERE sid NOT IN (SELECT sid FROM doses WHERE mg > 3)",
    "SELECT count(*) FROM notes n WHERE did NOT IN (SELECT did FROM notes m WHERE m.words > n.words)",
    "SELECT count(*) FROM doses WHERE NOT (mg = 1 OR sid IN (SELECT sid FROM doses WHERE mg > 3))",
    "SELECT count(*) FROM doses WHERE (sid, mg) NOT IN (SELECT sid, mg + 1 FROM doses)",
]


@pytest.mark.parametrize("text", LISTED)
def test_in_over_a_key_is_local_and_means_the_text(con: duckdb.DuckDBPyConnection, text: str) -> None:
    assert broken(con, plan_of(text, USUAL), 1, tries=3) is None
    _means(con, text, text)


def test_in_over_a_key_is_exists() -> None:
    one = plan_of("SELECT count(*) FROM stays s WHERE EXISTS (SELECT 1 FROM doses d WHERE s.sid = d.sid)", USUAL)
    assert (
        plan_of("SELECT count(*) FROM stays WHERE sid IN (SELECT sid FROM doses)", USUAL).canonical() == one.canonical()
    )
    none = plan_of("SELECT count(*) FROM doses s WHERE NOT EXISTS (SELECT 1 FROM doses d WHERE s.sid = d.sid)", USUAL)
    text = "SELECT count(*) FROM doses WHERE sid NOT IN (SELECT sid FROM doses)"
    assert plan_of(text, USUAL).canonical() == none.canonical()


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("sid NOT IN (SELECT sid FROM doses)", "NOT EXISTS (SELECT 1 FROM b WHERE b.sid = a.sid"),
        ("NOT (ward = 1 OR sid IN (SELECT sid FROM doses))", "Write EXISTS"),
        ("(sid IN (SELECT sid FROM doses)) IS NULL", "Write EXISTS"),
        ("(sid, ward) NOT IN (SELECT sid, mg FROM doses)", "Write NOT EXISTS"),
        ("ward IN (SELECT mg FROM doses)", "may be of other people's rows"),
        ("sid IN (SELECT did FROM doses)", "may be of other people's rows"),
        ("sid IN (SELECT mg FROM doses GROUP BY sid, mg)", "may be of other people's rows"),
        ("sid + 0 IN (SELECT sid FROM doses)", "may be of other people's rows"),
        ("sid IN (SELECT sid + 0 FROM doses)", "may be of other people's rows"),
        ("(ward, mod(sid, 2)) IN (SELECT ward, mod(sid, 2) FROM stays)", "IN compares values with rows of other units"),
    ],
)
def test_in_that_may_be_of_other_units_is_refused(text: str, way: str) -> None:
    with pytest.raises(QueryError) as caught:
        plan_of(f"SELECT count(*) FROM stays WHERE {text}", USUAL)
    assert caught.value.code == "Q204" and way in str(caught.value)


def test_not_in_a_list_with_null_is_of_all_units(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why it is refused: in SQL one unit's row without a key takes all rows of the others away."""
    text = "SELECT count(*) FROM doses WHERE sid NOT IN (SELECT sid FROM stays WHERE ward > 1)"
    with pytest.raises(QueryError, match="NOT EXISTS"):
        plan_of(text, USUAL)
    monkeypatch.setattr("duckdp.compiler.relations.choosing.may_be_null", lambda *_: False)
    data: Data = {"stays": [(1, 1, 1), (None, 2, 5)], "doses": [(1, 1, 3)], "notes": []}
    load(con, data, random.Random(1))
    assert (_answer(con, text), reference(con, text)) == ([1], [(0,)])


def test_keys_of_other_rows_are_no_match(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: any two columns tie the units, so that values of other people's rows are taken for NULL."""
    text = "SELECT count(*) FROM stays WHERE ward IN (SELECT mg FROM doses)"
    honest = "duckdp.compiler.relations.choosing.unit_key_of"
    monkeypatch.setattr(honest, lambda node, scope: scope.column(node))
    load(con, {"stays": [(1, 1, 3), (2, 2, 4)], "doses": [(1, 2, 3)], "notes": []}, random.Random(1))
    assert (_answer(con, text), reference(con, text)) == ([0], [(1,)])


# ---- groups of one unit each


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sid, count(*) FROM doses GROUP BY sid",
        "SELECT DISTINCT sid FROM doses",
        "FROM stays SELECT sid, count(*) GROUP BY 1",
    ],
)
def test_groups_of_one_unit_are_refused_before_they_cost(text: str) -> None:
    """An empty answer was sold; over values that are public, or of what is no key, it stays a question."""
    with pytest.raises(QueryError, match='each value of "sid" is of one pid') as caught:
        plan_of(text, USUAL)
    assert caught.value.code == "Q301"
    assert plan_of("SELECT avg(n), count(*) FROM (SELECT sid, count(*) AS n FROM doses GROUP BY sid)", USUAL)
    columns = tuple(replace(c, lower=0.0, upper=9.0) if c.name == "sid" else c for c in USUAL["doses"].columns)
    known = USUAL | {"doses": replace(USUAL["doses"], columns=columns)}  # ten groups, all shown
    assert plan_of("SELECT sid, count(*) FROM doses GROUP BY sid", known).tau is None
    assert plan_of("SELECT sid + 0, count(*) FROM doses GROUP BY 1", USUAL).tau is not None

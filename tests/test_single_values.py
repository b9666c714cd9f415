"""Subqueries that give one value of public rows: what they are, that nothing is charged for them, what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.catalog.table import Table
from duckdp.compiler.outer.looked_up import with_single_values
from duckdp.compiler.parse import parse_statement
from duckdp.errors import DuckDPError, InternalError, QueryError
from tests.relational import PUBLIC, tables

VISITS = pa.table(
    {
        "pid": [i % 40 for i in range(400)],
        "ward": [("N", "S", "E", None)[i % 4] for i in range(400)],
        "cost": [float(i % 20) for i in range(400)],
    }
)
WARDS = pa.table(
    {
        "code": ["N", "S", "E", "W", None],
        "rate": [1.5, 2.0, -0.25, None, 7.125],
        "beds": pa.array([12, 8, 30, 8, 1], pa.int32()),
        "open": [True, False, True, None, True],
        "built": pa.array([0, 10_000, 20_000, None, 365], pa.date32()),
    }
)


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    folder = tmp_path_factory.mktemp("single")
    with duckdp.open({"visits": VISITS, "wards": WARDS}, ledger=folder / "l.ledger") as owner:
        owner.protect(
            "visits",
            unit_key="pid",
            max_rows=10,
            max_groups=4,
            row_cap=1000,
            bounds={"cost": (0, 20)},
            domains={"ward": ["N", "S", "E"]},
        )
        owner.publish("wards")
        owner.budget(epsilon=10**6)
        owner.grant("ana", epsilon=10**6)
        yield owner


VALUES = (
    "avg(rate)",
    "sum(rate)",
    "min(code)",
    "max(built)",
    "median(beds)",
    "count(*)",
    "count(rate)",
    "count(DISTINCT beds)",
    "max(beds) - min(beds) * 2",
    "sum(beds) FILTER (WHERE open)",
    "max(rate) FILTER (WHERE beds > 100)",
    "round(avg(rate), 1)",
)
ROWS = (
    "SELECT rate FROM wards WHERE code = 'S'",
    "SELECT rate FROM wards WHERE code = 'none'",
    "SELECT beds + 1 FROM wards ORDER BY rate DESC LIMIT 1",
    "SELECT code FROM wards ORDER BY beds, code DESC LIMIT 1 OFFSET 1",
    "SELECT open FROM wards WHERE beds = 30",
    "SELECT max(x) FROM (VALUES (1), (2.5)) r(x)",
    "SELECT max(d) FROM (SELECT beds / 2 AS d FROM wards WHERE open)",
    "SELECT max(rate) FROM wards WHERE beds < (SELECT max(beds) FROM wards)",
)


@pytest.mark.parametrize("inner", [*(f"SELECT {v} FROM wards" for v in VALUES), *ROWS])
def test_it_is_what_duckdb_gives(curator: duckdp.Curator, inner: str) -> None:
    con = duckdb.connect()
    con.register("wards", WARDS)
    (wanted,) = con.execute(inner).fetchone() or (None,)
    desk = curator.session("ana")._desk
    found: list[Any] = []
    made = with_single_values(
        parse_statement(f"SELECT ({inner}) = 1 FROM visits"), desk.known(), "", (), desk._data.public_answer
    )
    assert made is not None
    value = made.expressions[0].unalias().this
    found.append(duckdb.sql(f"SELECT {value.sql(dialect='duckdb')}").fetchall()[0][0])
    if isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
        assert float(found[0]) == pytest.approx(float(wanted), rel=1e-15)
    else:
        assert found[0] == wanted


def test_it_stands_wherever_a_value_does_and_costs_nothing(curator: duckdp.Curator) -> None:
    ana = curator.session("ana")
    kept = "SELECT ward, count(*) AS n FROM visits WHERE cost > {} GROUP BY ward"
    first = ana.sql(kept.format("(SELECT avg(rate) FROM wards)"), epsilon=10)
    again = ana.sql(kept.format("(2.59375e0)"), epsilon=10)
    assert first.rows() == again.rows() and "stored" in str(again)
    text = (
        "WITH m AS (SELECT rate AS r FROM wards WHERE open) SELECT CASE WHEN cost > (SELECT min(r) FROM m) THEN 'a' "
        "ELSE 'b' END AS k, count(*) FILTER (WHERE cost < (SELECT max(beds) FROM wards)), "
        "sum(cost * (SELECT max(rate) FROM wards)) FROM visits WHERE ward <> (SELECT max(code) FROM wards) GROUP BY k"
    )
    names = [c.name for c in ana.sql(text, epsilon=10).columns]
    assert names[1] == "count(*) FILTER(WHERE cost < (SELECT max(beds) FROM wards))"
    shown = str(ana.explain(text, epsilon=10))
    assert "ward <> 'W'" in shown and "7.125" in shown
    over = "SELECT n FROM (SELECT count(*) AS n FROM visits WHERE cost > (SELECT 2 * avg(rate) FROM wards)) WHERE n > 0"
    assert len(ana.sql(over, epsilon=10).rows()) == 1


@pytest.mark.parametrize(
    ("inner", "code", "words"),
    [
        ("SELECT rate FROM wards", "Q203", "more than one row"),
        ("SELECT rate, beds FROM wards", "Q203", "gives one column"),
        ("SELECT rate FROM wards w WHERE w.code = v.ward", "Q204", "would have a value for each row"),
        ("SELECT rate FROM wards WHERE code = ward", "Q204", "would have a value for each row"),
        ("SELECT max(rate) FROM wards GROUP BY code", "Q204", "is one SELECT"),
        ("SELECT rate FROM wards UNION SELECT 1", "Q204", "is one SELECT"),
        ("SELECT stddev(rate) FROM wards", "Q206", "Write avg"),
        ("SELECT sum(code) FROM wards", "Q203", "number"),
        ("SELECT rate + max(rate) FROM wards", "Q301", "beside an aggregate"),
        ("SELECT max(rate) FROM wards LIMIT 1", "Q204", "is one SELECT"),
        ("SELECT nothing FROM wards", "Q207", "not declared"),
        ("SELECT max(w.rate) FROM wards w, wards x", "Q204", "public tables"),
        ("SELECT random() FROM wards", "Q202", "random"),
        ("SELECT avg(cost) FROM visits", "Q204", "question of its own"),
        ("SELECT avg(cost) FROM main.visits", "Q204", "question of its own"),
        ("SELECT max(rate) FROM wards WHERE EXISTS (SELECT 1 FROM main.visits)", "Q204", "question of its own"),
        ("SELECT max(rate) FROM wards WHERE code IN (SELECT ward FROM visits)", "Q204", "question of its own"),
        ("SELECT max(rate) FROM read_csv('/etc/passwd')", "Q204", "question of its own"),
        ("WITH wards AS (SELECT cost AS rate FROM visits) SELECT max(rate) FROM wards", "Q204", "question of its own"),
    ],
)
def test_what_is_refused_is_refused_before_a_charge(curator: duckdp.Curator, inner: str, code: str, words: str) -> None:
    ana = curator.session("ana")
    before = ana._desk.remaining_text()
    with pytest.raises(DuckDPError, match=words) as caught:
        ana.sql(f"SELECT count(*) FROM visits v WHERE cost > ({inner})", epsilon=1)
    assert caught.value.code == code
    assert ana._desk.remaining_text() == before


@pytest.mark.parametrize(
    "inner",
    [
        "SELECT max(cost) FROM visits",
        "SELECT max(cost) FROM main.visits",
        "SELECT max(rate) FROM days WHERE day IN (SELECT day FROM visits)",
        "SELECT max(rate) FROM days WHERE EXISTS (SELECT 1 FROM main.visits)",
        "SELECT max(rate) FROM days, visits",
        "WITH days AS (SELECT cost AS rate FROM visits) SELECT max(rate) FROM days",
        "SELECT (SELECT max(cost) FROM main.visits) FROM days",
        "SELECT max(rate) FROM days WHERE day > (SELECT max(cost) FROM visits)",
        "SELECT max(pid) FROM (SELECT pid FROM visits UNION ALL SELECT day FROM days)",
    ],
)
def test_no_private_row_is_asked_for(inner: str) -> None:
    """Whatever the subquery is called or hidden in, nothing but public rows is ever read without a charge."""
    read: list[str] = []

    def ask(table: Table, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        read.append(sql)
        return [(1,)]

    for text in (
        f"SELECT count(*) FROM visits WHERE cost > ({inner})",
        f"WITH d AS ({inner}) SELECT count(*) FROM visits WHERE cost > (SELECT * FROM d)",
    ):
        with suppress(QueryError):
            with_single_values(parse_statement(text), tables(), text, (), ask)
    assert not [sql for sql in read if '"visits"' in sql]


def _made(text: str) -> str:
    """The statement with constants; each value is asked of the public rows that are named."""

    def ask(table: Table, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        assert table.public is not None
        with duckdb.connect() as con:
            con.execute(f"CREATE TABLE days AS {PUBLIC['days']}")
            return con.execute(sql, list(values)).fetchall()

    made = with_single_values(parse_statement(text), tables(), text, (), ask)
    return text if made is None else made.sql("duckdb")


def test_a_name_is_what_sql_says_it_is_there() -> None:
    """A CTE is known in what follows it: before, the name is the table's; under an inner WITH it may be another's."""
    text = "SELECT count(*) FROM visits WHERE day > (SELECT max(day) FROM {})"
    assert "> (8)" in _made(text.format("days"))
    assert "> (50)" in _made("WITH days(day) AS (VALUES (50)) " + text.format("days"))
    assert "> (8)" in _made(f"WITH a AS ({text.format('days')}), days(day) AS (VALUES (50)) SELECT * FROM a")
    later = (
        f"WITH a AS (SELECT day FROM visits), b AS ({text.format('a')}), visits(day) AS (VALUES (50)) SELECT * FROM b"
    )
    assert _made(later) == later  # what "a" reads is private
    own = "WITH a AS (SELECT day FROM visits), visits(day) AS (VALUES (50)) SELECT max(day) FROM a"
    assert _made(text.format("days").replace("SELECT max(day) FROM days", own)).count("max") == 1
    twice = "WITH days(day) AS (VALUES (50)), a AS (SELECT day FROM days) "
    inner = text.format("a").replace("(SELECT max", "(WITH days(day) AS (VALUES (60)) SELECT max")
    with pytest.raises(QueryError, match='names "days" twice'):  # "a" is of the one, the SELECT may be of the other
        _made(twice + inner)
    recursive = f"WITH RECURSIVE days AS (SELECT day FROM days) {text.format('days')}"
    assert _made(recursive) == recursive


def test_each_name_is_looked_up_once() -> None:
    """CTEs that name one before them twice: followed from name to name, 60 of them would take for ever."""
    many = ", ".join(f"c{i} AS (SELECT a.day FROM c{i - 1} a, c{i - 1} b)" for i in range(1, 60))
    text = f"WITH c0 AS (SELECT day FROM days), {many} SELECT day FROM visits WHERE day > (SELECT max(day) FROM c59)"
    with pytest.raises(QueryError, match="one after the other"):
        _made(text)


def test_a_reader_that_takes_all_for_public_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duckdp.compiler.outer.looked_up.needed", lambda *_: frozenset())
    text = "SELECT count(*) FROM visits WHERE cost > (SELECT max(cost) FROM main.visits)"
    with pytest.raises(InternalError, match="public rows alone"):
        with_single_values(parse_statement(text), tables(), text, (), lambda *_: [(1,)])


def test_what_is_looked_up_for_nothing_has_a_bound() -> None:
    for times, code in ((16, None), (17, "Q403")):
        text = f"SELECT count(*) FROM visits WHERE cost > {' + '.join(['(SELECT max(day) FROM days)'] * times)}"
        try:
            with_single_values(parse_statement(text), tables(), text, (), lambda *_: [(1,)])
        except QueryError as refusal:
            assert refusal.code == code
        else:
            assert code is None


def test_other_public_rows_are_another_question(tmp_path: Path) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE visits AS SELECT i % 40 AS pid, i % 20 AS cost FROM range(400) t(i)")
        con.execute("CREATE TABLE wards AS SELECT 5 AS rate")
    text = "SELECT count(*) FROM visits WHERE cost < (SELECT max(rate) FROM wards)"
    for rate in (5, 10):
        with duckdb.connect(path) as con:
            con.execute(f"UPDATE wards SET rate = {rate}")
        with duckdp.open(path, ledger=tmp_path / "l.ledger") as owner:
            if rate == 5:
                owner.protect("visits", unit_key="pid", max_rows=10, row_cap=1000, bounds={"cost": (0, 20)})
                owner.publish("wards")
                owner.budget(epsilon=10**6)
                owner.grant("ana", epsilon=10**6)
            else:
                owner.refresh(reason="new rates")
            (found,) = owner.session("ana").sql(text, epsilon=50).rows()[0]
            assert abs(found - 20 * rate) < 20

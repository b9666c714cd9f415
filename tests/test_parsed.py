"""Statements parsed once: the same rows as the statements that are printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

import duckdp
from duckdp.vault import parsed
from duckdp.vault.parsed import Parsed, without_figures
from tests.serve.conftest import make_clinic

ASKED = [
    "SELECT count(*) FROM visits WHERE age > {} AND cost > 2.5",
    "SELECT sex, avg(cost) FROM visits WHERE age BETWEEN {} AND 60 GROUP BY sex",
    "SELECT floor(cost / 1000), count(*) FROM visits WHERE age <> {} GROUP BY floor(cost / 1000)",
    "SELECT sum(CASE WHEN age > {} THEN cost * 0.5 ELSE 0 END) FROM visits",
    "SELECT count(*) FROM visits WHERE round(cost / 3, 1) > {} AND sex = 'F'",
    "SELECT date_trunc('month', day) AS m, count(*) FROM visits WHERE cost < {} GROUP BY m",
    "SELECT stddev(cost), sum(age) FROM visits WHERE cost > {}",
    "SELECT count(*) FROM (SELECT patient_id, sum(cost) AS c FROM visits GROUP BY patient_id) WHERE c > {}",
]


def both(sql: str, parameters: Sequence[object], con: duckdb.DuckDBPyConnection) -> tuple[str, str]:
    """Rows by either way, in any order."""
    text, figures = without_figures(sql, len(parameters))
    (statement,) = con.extract_statements(text)
    ways = (con.execute(statement, [*parameters, *figures]).fetchall(), con.execute(sql, list(parameters)).fetchall())
    found = tuple(str(sorted(map(repr, rows))) for rows in ways)
    return found[0], found[1]


def test_reads_are_the_same_without_their_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[str, str]] = []
    texts: set[str] = set()

    class Compared(Parsed):
        def execute(
            self, cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object]
        ) -> duckdb.DuckDBPyConnection:
            read.append(both(sql, parameters, cursor))
            texts.add(without_figures(sql, len(parameters))[0])
            return super().execute(cursor, sql, parameters)

    monkeypatch.setattr("duckdp.vault.engine.Parsed", Compared)
    source, ledger = make_clinic(tmp_path)
    with duckdp.open(source, ledger=ledger) as curator:
        session = curator.session("ana")
        for text in ASKED:
            for figure in (21, 33):
                session.sql(text.format(figure), epsilon=0.5)
    assert len(read) == 2 * len(ASKED) and len(texts) == len(ASKED)  # figures alone differ: parsed once
    assert all(one == other for one, other in read)


def test_another_figure_in_the_place_of_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison tells figures in another order, and equal ones that are parameters of their own."""
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT range::DOUBLE AS x FROM range(10)")
        sql = "SELECT count(*) FROM t WHERE x > 1.0e0 AND x < 8.0e0"
        assert len(set(both(sql, (), con))) == 1
        right = parsed.without_figures

        def turned(sql: str, given: int) -> tuple[str, list[float]]:
            text, figures = right(sql, given)
            return text, figures[::-1]

        monkeypatch.setitem(globals(), "without_figures", turned)
        assert len(set(both(sql, (), con))) == 2


@pytest.mark.parametrize("rows", [500, 200_000])
def test_reads_of_few_rows_leave_the_optimizer_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """By the declared number of rows; what they read is the same."""
    read: list[tuple[bool, bool]] = []

    def is_optimized(cursor: duckdb.DuckDBPyConnection) -> bool:
        return "filter" not in str(cursor.execute("EXPLAIN SELECT 1 WHERE 1 = 0").fetchall()).lower()

    class Compared(Parsed):
        def execute(
            self, cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object]
        ) -> duckdb.DuckDBPyConnection:
            found = [
                sorted(map(repr, super(Compared, self).execute(c, sql, parameters).fetchall()))
                for c in (cursor, cursor.cursor())
            ]
            read.append((is_optimized(cursor), found[0] == found[1]))
            return super().execute(cursor, sql, parameters)

    monkeypatch.setattr("duckdp.vault.engine.Parsed", Compared)
    source, ledger = make_clinic(tmp_path)
    with duckdp.open(source, ledger=ledger) as curator:
        curator.amend("visits", row_cap=rows, reason="as many at most")
        session = curator.session("ana")
        for text in ASKED:
            session.sql(text.format(21), epsilon=0.5)
    assert [optimized for optimized, _ in read].count(rows > 500) >= len(ASKED) - 1  # one reads an answer of rows
    assert all(same for _, same in read)


def test_a_view_is_optimized_however_few_rows_it_has(tmp_path: Path) -> None:
    source, ledger = make_clinic(tmp_path)
    with duckdb.connect(source) as con:
        con.execute("CREATE VIEW seen AS FROM visits")
    with duckdp.open(source, ledger=ledger) as curator:
        stored = curator.session("ana").desk._data.engine._stored
        assert ("src", "main", "visits") in stored and ("src", "main", "seen") not in stored


def test_figures_alone_become_parameters() -> None:
    kept = """SELECT "a1e0", '1e0', 'it''s 2e0', x1e0, t."3e0", 12, 1.5, $1, DATE '2020-01-01', 1e999 FROM t"""
    assert without_figures(kept, 1) == (kept, [])
    assert without_figures("SELECT (-1e-05) * 2.0e0, 1e-05, 5e-324", 2) == (
        "SELECT (-$3) * $4, $3, $5",
        [1e-05, 2.0, 5e-324],
    )


class Picky:
    """A connection that wants figures to be literal."""

    def __init__(self) -> None:
        self.tried = 0

    def extract_statements(self, text: str) -> list[object]:
        """What may have been parsed."""
        return [text.encode()]

    def execute(self, statement: object, parameters: list[object]) -> str:
        """The text that was printed."""
        self.tried += 1
        if not isinstance(statement, str):
            raise duckdb.BinderException("a literal is wanted")
        assert parameters == [7]
        return statement


def test_what_has_to_be_literal_is_executed_as_printed() -> None:
    known, picky = Parsed(), Picky()
    for figure in ("2.0e0", "3.0e0"):
        sql = f"SELECT {figure} + $1"
        assert str(known.execute(picky, sql, [7])) == sql  # type: ignore[arg-type]
    assert picky.tried == 3  # and by its parameters once only


def test_errors_are_those_of_what_is_printed_and_few_statements_are_kept() -> None:
    known = Parsed()
    with duckdb.connect() as con:
        for sql in ("SELECT FROM 1.0e0 (", "SELECT no + 1.0e0", "SELECT CAST('x' AS DOUBLE) + 1.0e0"):
            with pytest.raises(duckdb.Error) as raised:
                known.execute(con, sql, ()).fetchall()
            assert "$" not in str(raised.value)
        for number in range(parsed.MOST_KEPT + 5):
            known.execute(con, f"SELECT {number}, 1.0e0", ())
        assert len(known._kept) == parsed.MOST_KEPT

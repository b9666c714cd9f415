"""What the default makes of tables that its first version spoilt: NULLs beside full columns, many rows, odd names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

import duckdp
from duckdp.errors import DuckDPError, ParameterError, QueryError


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[duckdp.Curator]:
    path = str(tmp_path / "t.duckdb")
    with duckdb.connect(path) as con:
        con.execute(
            "CREATE TABLE halves AS SELECT x AS a, CASE WHEN x >= 50 THEN 100 - x END AS b "
            "FROM (SELECT (i % 100)::INTEGER AS x FROM range(20000) r(i))"
        )
        con.execute("ALTER TABLE halves ALTER a SET NOT NULL")  # else noise gives it NULLs once in some hundred tables
        con.execute("CREATE TABLE words (w VARCHAR NOT NULL, v VARCHAR NOT NULL)")
        con.execute(
            "INSERT INTO words SELECT ['a', 'b', 'other'][1 + i % 3], ['p', 'q'][1 + i % 2] FROM range(3000) r(i)"
        )
        con.execute('CREATE TABLE odd ("h""q" INTEGER)')
    with duckdp.open(path, ledger=str(tmp_path / "t.ledger")) as curator:
        curator.protect("halves", row_cap=50_000, expected_rows=20_000, bounds={"a": (0, 100), "b": (0, 100)})
        curator.protect("words", row_cap=9_000, domains={"w": ["a", "b"], "v": ["p", "q"]})
        curator.budget(epsilon=200)
        curator.grant("ana", epsilon=100)
        yield curator


def test_a_full_column_is_not_spoilt_by_the_nulls_of_another(owner: duckdp.Curator) -> None:
    ana = owner.session("ana")
    a, b = zip(*ana.synthesize("halves", epsilon=10, rows=4000).rows(), strict=True)
    assert np.mean(a) == pytest.approx(49.5, abs=2)
    missing = np.array([v is None for v in b])
    assert missing.mean() == pytest.approx(0.5, abs=0.02)
    assert np.mean(np.array(a)[missing] >= 55) < 0.03  # where a is large, b has a value
    # few functions, so that the program ends by itself: what a time limit leaves depends on the machine
    lp, _ = zip(*ana.synthesize("halves", epsilon=10, rows=4000, method="lp", degree=4).rows(), strict=True)
    assert np.mean(lp) > 70  # the twin: fitted to rows that have both


def test_a_column_that_is_never_null_stays_so(owner: duckdp.Curator) -> None:
    """Values outside the domain have a place of their own, which a NOT NULL column cannot show."""
    for method in ("tree", "moments"):
        rows = owner.session("ana").synthesize("words", epsilon=10, rows=1000, method=method).rows()
        assert {v for row in rows for v in row} <= {"a", "b", "p", "q"}


def test_many_rows_are_few_in_the_ledger(owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duckdp.synthetic.unit.finish.MADE", 500)
    ana = owner.session("ana")
    made = ana.synthesize("words", epsilon=5, rows=20_000, method="tree", name="many")
    assert len(made) == 20_000
    assert len(owner.ledger.object("ana", "many").payload) < 20_000
    assert ana.synthesize("many").rows() == made.rows()  # read again by its name, free


def test_stored_tables_are_read_again_by_name_in_sql(owner: duckdp.Curator) -> None:
    con = owner.connect("ana")
    con.execute("CREATE TABLE one AS FROM dp_synthesize('words', epsilon := 2, rows := 50, name := 'mine')")
    assert con.execute("FROM dp_synthesize('mine')").fetchall() == con.execute("FROM one").fetchall()
    assert len(owner.ledger.charges()) == 1


@pytest.mark.parametrize(
    "given", [{"columns": ["w"]}, {"method": "tree"}, {"target": "w"}, {"degree": 3}, {"name": "x"}]
)
def test_options_of_a_charge_are_refused_for_what_is_stored(owner: duckdp.Curator, given: dict) -> None:
    ana = owner.session("ana")
    ana.smooth_summary("halves", ["a"], epsilon=1, degree=5, name="s")
    with pytest.raises(ParameterError) as refused:
        ana.synthesize("s", **given)
    assert refused.value.code == "P107"


def test_a_charge_too_small_to_divide_is_refused_before_it(owner: duckdp.Curator) -> None:
    ana = owner.session("ana")
    for epsilon in ("0.000001", "0.00001", "1"):
        try:
            ana.synthesize("words", epsilon=epsilon, rows=10, method="tree")
        except DuckDPError as error:
            assert error.code == "P107"
    assert {c.state for c in owner.ledger.charges()} <= {"released"}


def test_suggestions_are_python(owner: duckdp.Curator) -> None:
    text = owner.suggest("odd")
    compile(text, "suggested", "exec")
    assert '"h\\"q": (..., ...)' in text


def test_a_table_without_bounds_says_so(owner: duckdp.Curator) -> None:
    owner.protect("odd", row_cap=10)
    with pytest.raises(QueryError) as refused:
        owner.session("ana").synthesize("odd", epsilon=1)
    assert refused.value.code == "Q401"

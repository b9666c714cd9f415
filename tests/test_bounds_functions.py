"""dp_bounds, dp_rows_per_unit and dp_groups_per_unit as users have them: SQL, session, charges, explain, refusals."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler.bounds import BoundsTask, plan_bounds
from duckdp.core.types import NANO, Neighbours
from duckdp.errors import DuckDPError
from duckdp.vault.engine import Engine
from tests.smooth.tables import column, connect, run, table

DAY = dt.date(2013, 1, 1)
ROWS = 6000


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[duckdp.Curator]:
    i = np.arange(ROWS)
    frame = pa.table(
        {
            "pid": pa.array(i // 3),
            "x": pa.array(np.where(i % 500 == 0, np.nan, 10.0 + i % 80)),
            "n": pa.array(i % 7 - 3),
            "d": pa.array([DAY + dt.timedelta(days=int(k % 365)) for k in i]),
            "s": pa.array(["a", "b", "c"] * (ROWS // 3)),
            "wild": pa.array([[1e308, -1e308, np.inf, -np.inf, np.nan, 0.0][k % 6] for k in i]),
            "when": pa.array([dt.datetime(2020, 5, 17) + dt.timedelta(seconds=int(k)) for k in i], pa.timestamp("us")),
        }
    )
    with duckdp.open({"t": frame}, ledger=str(tmp_path / "t.ledger")) as curator:
        curator.protect(
            "t",
            unit_key="pid",
            max_rows=2,
            row_cap=10**4,
            domains={"s": ["a", "b"]},
            bounds={"n": (-2, 2)},
            columns=["x", "d", "wild", "when"],
        )
        curator.budget(epsilon=1000)
        curator.grant("ana", epsilon=1000)
        yield curator


def test_bounds_of_a_visible_column_without_any(owner: duckdp.Curator) -> None:
    ana = owner.session("ana")
    found = ana.bounds("t", "x", epsilon=20)
    lower, upper, below, above = found.rows()[0]
    assert (lower, upper) == (10.0, 100.0) or (lower <= 10 and upper >= 89)
    assert abs(below) < 30  # scale 0.25: never, by chance
    assert abs(above) < 30
    assert found.names == ["lower", "upper", "clipped_below", "clipped_above"]
    assert f'bounds={{"x": ({lower}, {upper})}}' in found.notes[0]
    assert "one row of each pid" in found.notes[1]
    assert found.cost == "epsilon=20"
    assert ana.bounds("t", "X", epsilon=20).cost == "nothing"  # the same question
    assert ana.bounds("t", "x", epsilon=20, fresh=True).cost == "epsilon=20"
    assert owner.ledger.charges("ana")[0].statement == "dp_bounds(t, x)"
    assert len(owner.ledger.charges()) == 2


def test_columns_have_their_own_types(owner: duckdp.Curator) -> None:
    ana, con = owner.session("ana"), owner.connect("ana")
    first = {name: ana.bounds("t", name, epsilon=20).rows()[0][:2] for name in ("n", "d", "when", "wild")}
    assert first["n"] == (-2, 2)  # within the declared bounds
    low, high = first["d"]
    assert low <= DAY <= dt.date(2013, 12, 31) <= high
    assert type(low) is dt.date
    assert first["when"][0] <= dt.datetime(2020, 5, 17) < first["when"][1]
    described = {
        name: [str(t) for t in con.sql(f"FROM dp_bounds('t', '{name}', epsilon := 20)").types[:3]]
        for name in ("x", "n", "d", "when")
    }
    assert described == {
        "x": ["DOUBLE", "DOUBLE", "BIGINT"],
        "n": ["BIGINT", "BIGINT", "BIGINT"],
        "d": ["DATE", "DATE", "BIGINT"],
        "when": ["TIMESTAMP", "TIMESTAMP", "BIGINT"],
    }
    assert con.execute("SELECT lower, upper FROM dp_bounds('t', 'd', epsilon := 20)").fetchall()[0] == first["d"]


def test_a_predicate_comes_first(owner: duckdp.Curator) -> None:
    low, high, *_ = owner.session("ana").bounds("t", "x", epsilon=90, predicate="x < 20").rows()[0]
    assert low <= 10
    assert 19 <= high <= 50


def test_rows_and_groups_per_unit(owner: duckdp.Curator) -> None:
    ana, con = owner.session("ana"), owner.connect("ana")
    rows = ana.rows_per_unit("t", epsilon=20).rows()
    assert [r[0] for r in rows] == [1, 2, 5]
    assert [round(r[1] / 100) for r in rows] == [20, 20, 0]
    assert rows[0][2] == pytest.approx(1, abs=0.05)
    assert rows[0][3] == pytest.approx(0.75)  # the bin of 3 to 5 rows counts as 4
    groups = ana.groups_per_unit("t", "s", epsilon=20).rows()
    assert [round(r[1] / 100) for r in groups] == [20, 0, 0]  # "c" lies outside the domain
    assert ana.groups_per_unit("t", ["s", "n > 0"], epsilon=20).names[0] == "max_groups"
    shown = con.execute("SELECT max_rows, units_over FROM dp_rows_per_unit('t', epsilon := 20)").fetchall()
    assert shown == [r[:2] for r in rows]
    assert (
        con.execute("SELECT units_over FROM dp_groups_per_unit('t', 's', epsilon := 20)").fetchall()[0][0]
        == groups[0][1]
    )
    con.execute("SET VARIABLE dp_epsilon = 40")
    assert len(con.execute("FROM dp_rows_per_unit('t')").fetchall()) == 3
    assert owner.ledger.charges()[-1].loss.epsilon_nano == 40 * NANO
    assert [len(r) for r in con.execute("FROM dp_rows_per_unit('t')").fetchall()] == [7, 7, 7]


def test_explanations_touch_no_data(owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "run", lambda *_: pytest.fail("a private read"))
    ana, con = owner.session("ana"), owner.connect("ana")
    pairs = [
        (ana.explain_bounds("t", "x", epsilon=1), "dp_explain_bounds('t', 'x', epsilon := 1)"),
        (ana.explain_rows_per_unit("t", epsilon=1), "dp_explain_rows_per_unit('t', epsilon := 1)"),
        (ana.explain_groups_per_unit("t", "s", epsilon=1), "dp_explain_groups_per_unit('t', 's', epsilon := 1)"),
    ]
    for told, call in pairs:
        assert con.execute(f"FROM {call}").fetchall() == told.rows()
        assert told.rows()[-1] == ("cost: epsilon=1",)
    con.execute("DESCRIBE FROM dp_bounds('t', 'x', epsilon := 1)")
    assert owner.ledger.charges() == []


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("bounds('t', 's', epsilon := 1)", "Q203"),
        ("bounds('t', 'pid', epsilon := 1)", "C102"),
        ("bounds('t', 'nope', epsilon := 1)", "C102"),
        ("bounds('nope', 'x', epsilon := 1)", "C101"),
        ("bounds('t', 'x')", "P101"),
        ("bounds('t', 'x', epsilon := 0)", "P101"),
        ("bounds('t', NULL, epsilon := 1)", "P107"),
        ("bounds('t', 'x', epsilon := 1, predicate := 'pid = 3')", "Q301"),
        ("rows_per_unit('t', epsilon := 1001)", "P101"),
        ("groups_per_unit('t', 'x', epsilon := 1)", "Q303"),
        ("groups_per_unit('t', NULL, epsilon := 1)", "P107"),
    ],
)
def test_refusals_are_coded_and_free(owner: duckdp.Curator, call: str, code: str) -> None:
    con = owner.connect("ana")
    for name in ("dp_", "dp_explain_"):
        with pytest.raises(duckdb.Error, match=f"{code}:"):
            con.execute(f"FROM {name}{call}").fetchall()
    assert owner.ledger.charges() == []


def test_rows_as_units(tmp_path: Path) -> None:
    for neighbours in ("add_remove", "replace"):
        with duckdp.open({"t": pa.table({"x": list(range(1000))})}, ledger=str(tmp_path / neighbours)) as curator:
            curator.protect("t", row_cap=10**4, columns=["x"])
            curator.budget(epsilon=100, neighbours=neighbours)
            curator.grant("ana", epsilon=100)
            ana = curator.session("ana")
            low, high, *_ = ana.bounds("t", "x", epsilon=20).rows()[0]
            assert low <= 10
            assert high >= 990
            with pytest.raises(DuckDPError, match=r"P107.*no unit_key"):
                ana.rows_per_unit("t", epsilon=1)


def test_few_rows_have_no_bounds(tmp_path: Path) -> None:
    with duckdp.open({"t": pa.table({"x": [3]})}, ledger=str(tmp_path / "l")) as curator:
        curator.protect("t", row_cap=10, columns=["x"])
        curator.budget(epsilon=100)
        curator.grant("ana", epsilon=100)
        found = curator.session("ana").bounds("t", "x", epsilon=0.001)
        assert found.names[:2] == ["lower", "upper"]
        with curator.connect("ana") as con:
            told = con.execute("SELECT * FROM dp_bounds('t', 'x', epsilon := 0.001)")
            rows = told.fetchall()
            assert told.description[-1][0] == "note"
            assert len(rows) == len(found.rows()) > 0  # what was charged for is a row, even where it says: nothing
        if found.rows()[0][0] is None:
            assert "a larger epsilon" in found.notes[0]
            assert "a larger epsilon" in str(rows[0][-1])
            assert "NULL" in str(found)
        else:
            assert rows[0][-1] is None


def test_bounds_that_are_one_number_leave_nothing_to_find() -> None:
    """2**62 and 2**62 + 1 are one DOUBLE: refused before a charge, not a failure after it."""
    for upper, fits in ((2**62 + 1, False), (2**62 + 2**10, True)):
        declared = table(column("x", 2**62, upper, "BIGINT"))
        if fits:
            plan_bounds(declared, "x", None, epsilon_nano=NANO, neighbours=Neighbours.ADD_REMOVE)
            continue
        with pytest.raises(DuckDPError, match="P104"):
            plan_bounds(declared, "x", None, epsilon_nano=NANO, neighbours=Neighbours.ADD_REMOVE)


# ---- one row of each unit --------------------------------------------------------------------------------------------


def _counts(con: duckdb.DuckDBPyConnection, task: BoundsTask, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Exact counts of cells, by the printed query."""
    seen: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(type(task.finder), "release", lambda self, counts: seen.append(counts.copy()) or StopIteration)
        with pytest.raises(AttributeError):  # there is no release
            task.release(run(con, task.query(7)))
    return seen[0]


def test_a_unit_adds_one_to_one_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random tables; whatever a unit holds, NULL, NaN and infinities included. All its rows would be more."""
    rng, worst = np.random.default_rng(3), 0
    values = [None, float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e308, 5e-324, 1.0, 2.0, 10.0, -7.5]
    keyed = table(column("x", None, None), unit_key="pid", max_rows=3)
    plain = table(column("x", None, None))
    plans = [plan_bounds(t, "x", None, epsilon_nano=NANO, neighbours=Neighbours.ADD_REMOVE) for t in (keyed, plain)]
    with connect() as con:
        con.execute("CREATE TABLE t (pid INTEGER, x DOUBLE)")
        for _ in range(40):
            con.execute("DELETE FROM t")
            for pid in range(4):
                for value in rng.choice(np.array(values, dtype=object), rng.integers(1, 5)):
                    con.execute("INSERT INTO t VALUES ($1, $2)", [pid, value])
            before = [_counts(con, task, monkeypatch) for task in plans]
            con.execute("DELETE FROM t WHERE pid = 2")
            change = [b - _counts(con, t, monkeypatch) for b, t in zip(before, plans, strict=True)]
            assert change[0].min() >= 0
            assert change[0].sum() <= 1
            worst = max(worst, int(change[1].sum()))
    assert worst > 1

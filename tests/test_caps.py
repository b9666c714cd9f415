"""What one statement or call may occupy: each bound refuses before a charge, and says itself and a way out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler import plan as plans
from duckdp.errors import DuckDPError
from duckdp.smooth import batch
from duckdp.synthetic import asked
from duckdp.synthetic.theorem import plan as theorem
from duckdp.texts import MOST_STORED, storable


@pytest.fixture(params=["add_remove", "replace"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[duckdp.Curator]:
    rows = pa.table({"g": list(range(40)), "h": list(range(40)), "x": [float(i) for i in range(40)]})
    with duckdp.open({"t": rows}, ledger=tmp_path / "ledger") as curator:
        curator.protect(
            "t",
            row_cap=1000,
            expected_rows=40,
            bounds={"x": (0, 40)},
            domains={"g": list(range(1000)), "h": list(range(1000))},
        )
        curator.budget(epsilon=10_000, neighbours=request.param)
        curator.grant("ana", epsilon=10_000)
        yield curator


def test_released_cells(world: duckdp.Curator) -> None:
    session = world.session("ana")
    for select in ("count(*), variance(x)", ", ".join(f"count(*) + {i} AS c{i}" for i in range(40))):
        for work in (session.sql, session.explain):
            with pytest.raises(DuckDPError) as caught:
                work(f"SELECT g, h, {select} FROM t GROUP BY g, h", epsilon=1)
            assert caught.value.code == "Q403"
            assert "1,000,000 groups" in str(caught.value)
            assert f"{plans.MAX_CELLS:,}" in str(caught.value)
    assert "count(*)" in str(session.explain("SELECT g, h, count(*) FROM t GROUP BY g, h", epsilon=1))
    assert not world.charges()


def test_hidden_cells_count_too(world: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    session = world.session("ana")
    monkeypatch.setattr(plans, "MAX_CELLS", 3000)
    for text in (
        "SELECT g, avg(x) FROM t GROUP BY g HAVING stddev(x) > 0",
        "SELECT g, count(*) FROM t GROUP BY g ORDER BY var_pop(x)",
        "SELECT g, var_pop(x) FROM t GROUP BY g",
    ):
        with pytest.raises(DuckDPError, match="Q403"):
            session.explain(text, epsilon=1)


def test_groups_that_hold_no_released_cell_count_too(world: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is free because no row is read is listed all the same."""
    session, text = world.session("ana"), "SELECT g, count(*) FROM t WHERE x > 50 GROUP BY g"
    assert len(session.sql(text, epsilon=1).rows()) == 1000
    monkeypatch.setattr(plans, "MAX_DOMAIN", 999)
    for work in (session.sql, session.explain):
        with pytest.raises(DuckDPError, match="Q403"):
            work(text, epsilon=2)


def test_rows_by_columns(world: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    session = world.session("ana")
    session.smooth_summary("t", ["x"], name="x", epsilon=10, degree=2)
    charges = len(world.charges())
    calls: tuple[Callable[[], Any], ...] = (
        lambda: session.synthesize("x", rows=10_000_000),
        lambda: session.synthesize("t", epsilon=1, columns=["x"], rows=4_000_001),
        lambda: session.synthesize("t", epsilon=1, columns=["x", "g"], rows=2_000_001, method="tree"),
        lambda: session.explain_synthesize("t", epsilon=1, columns=["x", "g"], rows=2_000_001),
        lambda: session.synthesize("t", epsilon=1, columns=["x"], rows=5_000_000, method="theorem"),
    )
    for call in calls:
        with pytest.raises(DuckDPError) as caught:
            call()
        assert caught.value.code == "P107"
        assert f"{asked.MAX_CELLS:,}" in str(caught.value)
        assert "give rows :=" in str(caught.value)
    assert len(world.charges()) == charges
    monkeypatch.setattr(theorem, "MAX_CELLS", 100)
    figures = session.explain_synthesize("t", epsilon=100, columns=["x"], smoothness=4, method="theorem")
    assert "m = 100" in str(figures) or "at most 100 values" in str(figures)


def test_functions_of_one_call(world: duckdp.Curator) -> None:
    session = world.session("ana")
    session.smooth_summary("t", ["x"], name="x", epsilon=10, degree=2)
    with pytest.raises(DuckDPError) as caught:
        session.smooth_answers("x", ["x"] * 10_001)
    assert caught.value.code == "P107"
    assert "10,000" in str(caught.value)
    with pytest.raises(duckdb.Error, match="P107: functions=10001: are more than the 10,000"):
        world.connect("ana").execute("FROM dp_smooth_answers('x', ['x' FOR i IN range(10001)])")


def test_functions_that_are_fitted_one_by_one_are_few(world: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    session = world.session("ana")
    session.smooth_summary("t", ["x"], name="x", epsilon=10, degree=2)
    steps = [f"CASE WHEN x > {i / 600} THEN 1 ELSE 0 END" for i in range(batch.MOST_ROUGH + 1)]
    with pytest.raises(DuckDPError, match=r"P107: functions=501: jump or bend .* at most 500. Split the list"):
        session.smooth_answers("x", steps)
    monkeypatch.setattr(batch, "MOST_ROUGH", 3)
    smooth = [f"exp(-x / {i})" for i in range(1, 30)]
    assert len(session.smooth_answers("x", [*steps[:3], *smooth])) == 32  # the twin: as many as there may be
    with pytest.raises(DuckDPError, match="P107: functions=4"):
        session.smooth_answers("x", [*steps[:4], *smooth])


def test_what_costs_nothing_fills_no_ledger(world: duckdp.Curator) -> None:
    session, con = world.session("ana"), world.connect("ana")
    public = world.ledger.state().neighbours.value == "replace"  # type: ignore[union-attr]
    for i in range(20):
        epsilon = f"0.{i + 1:03}"
        session.sql(f"SELECT count(*) FROM t -- {'x' * 60_000}{i}", epsilon=epsilon, fresh=True)
        session.noisy_count("t", epsilon=epsilon, fresh=True)
        con.execute("FROM dp_noisy_count('t', epsilon := 0.5, fresh := true)").fetchall()
    rows = world.ledger.charges()
    assert len(rows) == (1 if public else 60)
    assert all(len(row.statement) < MOST_STORED + 50 for row in rows)
    assert max(len(row.parameters) for row in rows) < 2000


def test_stored_texts_are_bounded(world: duckdp.Curator) -> None:
    session = world.session("ana")
    long = " + ".join(["x * 2"] * 60)
    session.sql(f"SELECT sum({long}) /* {'y' * 20_000} */ FROM t", epsilon=1)
    row = world.ledger.charges()[-1]
    assert row.statement.startswith("SELECT sum(x * 2")
    assert row.statement.endswith("characters)")
    assert len(row.statement) < MOST_STORED + 50
    assert len(row.parameters) < 2000
    assert storable("SELECT 1") == "SELECT 1"

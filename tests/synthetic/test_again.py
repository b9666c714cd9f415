"""Asking again: final charges, names, stored tables read by name; and calls that are refused before the charge."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.errors import DuckDPError
from duckdp.ledger.charges import MAX_ATTEMPTS
from duckdp.synthetic.stored import shape_of

BOUNDS: dict[str, Any] = {"x": (0, 1), "y": (0, 1), "k": (0, 50)}
WIDE = ("tree", "moments", "psi")


def table_of(rows: int) -> pa.Table:
    rng = np.random.default_rng(4)
    return pa.table({"x": rng.random(rows), "y": rng.beta(2, 5, rows), "k": rng.integers(0, 50, rows)})


def open_owner(folder: Path, frame: pa.Table, *, neighbours: str = "add_remove", **given: Any) -> duckdp.Curator:
    curator = duckdp.open({"t": frame}, ledger=str(folder / "t.ledger"))
    curator.protect("t", **{"row_cap": 10_000, "expected_rows": 3000, "bounds": BOUNDS, **given})
    curator.budget(epsilon=30, delta="1e-4", neighbours=neighbours)
    curator.grant("ana", epsilon=30, delta="1e-4")
    return curator


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[duckdp.Curator]:
    with open_owner(tmp_path, table_of(3000)) as curator:
        yield curator


def spent(owner: duckdp.Curator) -> float:
    return sum(c.loss.epsilon_nano for c in owner.ledger.charges()) / 1e9


def refusal(work: Any) -> str:
    with pytest.raises((DuckDPError, duckdb.Error)) as caught:
        work()
    return str(caught.value)


def end_all(owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch, work: Any) -> None:
    """Interrupt the private read of a call until its charge is final."""

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(owner.engine, "run", interrupted)
        for _ in range(MAX_ATTEMPTS):
            assert "E102" in refusal(work)


def buy_table(ana: duckdp.Session, **given: Any) -> Any:
    return ana.synthesize("t", **{"epsilon": 1, "rows": 50, "method": "tree", "name": "mine", **given})


def buy_summary(ana: duckdp.Session, **given: Any) -> Any:
    return ana.smooth_summary("t", ["x", "y"], **{"epsilon": 1, "degree": 5, "name": "mine", **given})


# ---- final charges --------------------------------------------------------------------------------------------------


@pytest.fixture(params=[buy_table, buy_summary])
def final(
    owner: duckdp.Curator, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[duckdp.Session, Any]:
    """A session whose one charge is final, and the call that made it."""
    ana, buy = owner.session("ana"), request.param
    end_all(owner, monkeypatch, lambda: buy(ana))
    return ana, buy


def test_after_three_interrupts_the_name_can_be_bought_anew(
    owner: duckdp.Curator, final: tuple[duckdp.Session, Any]
) -> None:
    ana, buy = final
    told = refusal(lambda: buy(ana))
    assert "B106" in told
    assert "fresh := true" in told
    assert len(ana.summaries()) == 0  # what cannot be read is not listed
    assert spent(owner) == 1
    first = buy(ana, fresh=True)
    assert (first.cost, spent(owner)) == ("epsilon=1", 2)
    assert [row[0] for row in ana.summaries().rows()] == ["mine"]
    assert buy(ana).cost == buy(ana, fresh=True).cost == "nothing"  # the same question, by either way
    assert spent(owner) == 2
    assert "C111" in refusal(lambda: buy(ana, epsilon=2))  # a stored release keeps its name


def test_another_question_takes_the_name_of_a_final_charge(final: tuple[duckdp.Session, Any]) -> None:
    ana, buy = final
    assert buy(ana, epsilon=2).cost == "epsilon=2"
    assert len(ana.synthesize("mine", **({} if buy is buy_table else {"rows": 50}))) == 50


def test_an_interrupted_fresh_question_is_redeemed_by_either_way(
    owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, run = owner.session("ana"), owner.engine.run
    end_all(owner, monkeypatch, lambda: buy_table(ana))

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    for again in (True, False):
        with monkeypatch.context() as patched:
            patched.setattr(owner.engine, "run", interrupted)
            assert "E102" in refusal(lambda: buy_table(ana, fresh=again))  # noqa: B023 - called at once
        assert spent(owner) == 2
    assert owner.engine.run == run
    assert buy_table(ana).cost == "epsilon=1"
    assert spent(owner) == 2


def test_a_name_is_kept_for_a_charge_that_can_be_redeemed(
    owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = owner.session("ana")

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(owner.engine, "run", interrupted)
        refusal(lambda: buy_table(ana))
    told = refusal(lambda: buy_table(ana, epsilon=2))
    assert "C111" in told
    assert "Ask that question again" in told
    assert spent(owner) == 1


@pytest.mark.parametrize("name", ["dp_synthesize('t', rows := 50, method := 'tree',", "dp_smooth_summary('t', ['x'],"])
def test_fresh_through_sql(owner: duckdp.Curator, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    con = owner.connect("ana")
    text = f"FROM {name} epsilon := 1, name := 'mine'"
    end_all(owner, monkeypatch, lambda: con.execute(f"{text})").fetchall())
    assert "B106" in refusal(lambda: con.execute(f"{text})").fetchall())
    assert con.execute("SELECT count(*) FROM dp_summaries()").fetchone() == (0,)
    made = con.execute(f"{text}, fresh := true)").fetchall()
    assert con.execute(f"{text})").fetchall() == made
    assert spent(owner) == 2
    con.close()


def test_fresh_without_a_name_is_another_table(owner: duckdp.Curator) -> None:
    ana = owner.session("ana")
    first = buy_table(ana, name=None).rows()
    assert buy_table(ana, name=None).rows() == first
    assert buy_table(ana, name=None, fresh=True).rows() != first
    assert spent(owner) == 2
    buy_table(ana)
    for given in ({"fresh": True}, {"name": "other"}):
        assert "P107" in refusal(lambda: ana.synthesize("mine", **given))  # noqa: B023 - called at once


# ---- stored tables --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*WIDE, "lp"])
def test_rows_that_were_interrupted_are_made_once_for_all_readers(
    owner: duckdp.Curator, method: str, tmp_path: Path
) -> None:
    def stop(stage: str, _: float) -> None:
        raise KeyboardInterrupt

    ana, con = owner.session("ana"), owner.connect("ana")
    given = {"columns": ["x", "y"], "method": method}
    readers = {
        "name": lambda n: ana.synthesize(n).rows(),
        "call": lambda n: buy_table(ana, name=n, **given).rows(),
        "sql": lambda n: con.execute(f"FROM dp_synthesize('{n}')").fetchall(),
        "report": lambda n: ana.synthetic_report(n),
        "export": lambda n: ana.export_tables([n], tmp_path / f"{n}.duckdb"),
    }
    for name, first in readers.items():
        assert "E102" in refusal(lambda: buy_table(ana, name=name, progress=stop, **given))  # noqa: B023
        assert json.loads(owner.ledger.object("ana", name).payload)["table"] is None
        found = first(name)
        assert json.loads(owner.ledger.object("ana", name).payload)["table"] is not None
        rows = ana.synthesize(name).rows()
        assert rows == ana.synthesize(name).rows() == buy_table(ana, name=name, **given).rows()
        assert found is None or name == "report" or [tuple(r) for r in found] == [tuple(r) for r in rows]
    con.close()


@pytest.mark.parametrize("method", [*WIDE, "lp", "theorem"])
def test_the_columns_of_a_stored_table_are_known_before_its_rows(owner: duckdp.Curator, method: str) -> None:
    def stop(stage: str, _: float) -> None:
        raise KeyboardInterrupt

    ana = owner.session("ana")
    given = {"columns": ["x", "k"], "method": method}
    assert "E102" in refusal(lambda: buy_table(ana, progress=stop, **given))
    before = shape_of(owner.ledger.object("ana", "mine").payload)
    assert json.loads(owner.ledger.object("ana", "mine").payload)["table"] is None  # nothing was made
    made = ana.synthesize("mine")
    assert before == shape_of(owner.ledger.object("ana", "mine").payload) == [(c.name, c.type) for c in made.columns]


@pytest.mark.parametrize("method", [*WIDE, "theorem"])
def test_rows_of_a_table_without_a_summary_cannot_be_chosen(owner: duckdp.Curator, method: str) -> None:
    ana = owner.session("ana")
    buy_table(ana, method=method, columns=["x", "y"])
    told = refusal(lambda: ana.synthesize("mine", rows=100))
    assert "P107: rows=100" in told
    assert "leave it out" in told
    buy_table(ana, method="lp", columns=["x", "y"], name="other")
    assert len(ana.synthesize("other", rows=100)) == 100  # its summary makes as many as are wanted


# ---- refused before the charge --------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [[1], [None], "x", "xy", b"x", [], (), 7, ["x", 2.5]])
def test_columns_are_a_list_of_names(owner: duckdp.Curator, columns: Any) -> None:
    ana = owner.session("ana")
    for ask in (ana.synthesize, ana.explain_synthesize):
        assert "P107: columns=" in refusal(lambda: ask("t", epsilon=1, columns=columns))  # noqa: B023
    assert spent(owner) == 0


@pytest.mark.parametrize("columns", ["[]", "[NULL]"])
def test_columns_in_sql(owner: duckdp.Curator, columns: str) -> None:
    con = owner.connect("ana")
    for function in ("dp_synthesize", "dp_explain_synthesize"):
        text = f"FROM {function}('t', epsilon := 1, columns := {columns})"
        assert "P107: columns=" in refusal(lambda: con.execute(text).fetchall())  # noqa: B023
        con.execute(f"FROM {function}('t', epsilon := 1, rows := 10, columns := NULL)").fetchall()  # all of them
    con.close()


@pytest.mark.parametrize("buy", [buy_table, buy_summary])
def test_the_name_of_a_protected_table_is_no_name(owner: duckdp.Curator, buy: Any) -> None:
    told = refusal(lambda: buy(owner.session("ana"), name="t"))
    assert "C111" in told
    assert "protected table" in told
    assert spent(owner) == 0


def test_an_unknown_method_is_told_all_that_exist(owner: duckdp.Curator) -> None:
    told = refusal(lambda: buy_table(owner.session("ana"), method="x"))
    for method in ("auto", "lp", "theorem", *WIDE):
        assert method in told


def wide_frame(rows: int, columns: int = 30) -> tuple[pa.Table, dict[str, Any]]:
    rng = np.random.default_rng(5)
    return pa.table({f"c{i}": rng.random(rows) for i in range(columns)}), {f"c{i}": (0, 1) for i in range(columns)}


@pytest.mark.parametrize("method", WIDE)
@pytest.mark.parametrize(("epsilon", "delta"), [("1e-5", "1e-5"), ("1e-6", 0), ("1e-6", "1e-9")])
def test_what_is_too_small_to_be_divided_is_refused_before_the_charge(
    tmp_path: Path, method: str, epsilon: str, delta: object
) -> None:
    frame, bounds = wide_frame(500)
    with open_owner(tmp_path, frame, bounds=bounds) as curator:
        ana = curator.session("ana")
        given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "method": method, "rows": 20}
        try:
            assert len(ana.synthesize("t", **given)) == 20
        except DuckDPError as error:
            assert "P107: epsilon=" + str(float(epsilon)) in str(error)
            assert spent(curator) == 0
        else:
            assert {c.state for c in curator.ledger.charges()} == {"released"}


@pytest.mark.parametrize(("method", "columns"), [("moments", 30), ("psi", 90)])
def test_both_ways_of_dividing_too_little_are_refused(tmp_path: Path, method: str, columns: int) -> None:
    frame, bounds = wide_frame(500, columns)
    with open_owner(tmp_path, frame, bounds=bounds) as curator:
        ana = curator.session("ana")
        small = {"epsilon": "1e-5", "delta": "1e-5"} if method == "moments" else {"epsilon": "1e-6"}
        told = refusal(lambda: ana.synthesize("t", **small, method=method))
        assert f"too small to be divided among {columns} columns" in told
        assert spent(curator) == 0


@pytest.mark.parametrize("method", WIDE)
def test_an_empty_table_whose_number_of_rows_is_public(tmp_path: Path, method: str) -> None:
    with open_owner(tmp_path, table_of(0), neighbours="replace") as curator:
        assert len(buy_table(curator.session("ana"), method=method)) == 50


@pytest.mark.parametrize("method", [*WIDE, "auto"])
@pytest.mark.parametrize("rows", [1, 2])
def test_few_rows(owner: duckdp.Curator, method: str, rows: int) -> None:
    ana = owner.session("ana")
    assert len(buy_table(ana, method=method, rows=rows)) == rows
    assert {c.state for c in owner.ledger.charges()} == {"released"}


def test_auto_never_takes_a_program_and_makes_rows_where_their_number_drowns(tmp_path: Path) -> None:
    nulls = dict.fromkeys(BOUNDS, 0)
    with open_owner(tmp_path, table_of(100), expected_rows=100, nulls=nulls) as curator:
        ana = curator.session("ana")
        for i in range(20):
            assert len(ana.synthesize("t", epsilon="0.05", rows=20, name=f"n{i}")) == 20
        for epsilon, method in (("0.05", "moments"), (20, "tree")):
            (plan, *_) = ana.explain_synthesize("t", epsilon=epsilon).rows()
            assert f"method: {method}" in plan[0]
        (plan, *_) = ana.explain_synthesize("t", epsilon=20, purpose="kernels").rows()
        assert "method: moments" in plan[0]
        (plan, *_) = ana.explain_synthesize("t", epsilon=5, degree=4).rows()
        assert "method: lp" in plan[0]


# ---- reports --------------------------------------------------------------------------------------------------------


def report_of(folder: Path, values: list[Any], **given: Any) -> Any:
    """Of an lp table of one column."""
    frame = pa.table({"x": values})
    with open_owner(folder, frame, **{"bounds": None, **given}) as curator:
        ana = curator.session("ana")
        ana.synthesize("t", epsilon=5, rows=200, method="lp", name="made")
        ana.smooth_summary("t", ["x"], epsilon=5, degree=4, name="summary")
        reports = [ana.synthetic_report("made"), ana.synthetic_report("summary")]
    for report in reports:
        assert report.text
        assert report.html
    return reports[0]


def test_a_report_of_timestamps(tmp_path: Path) -> None:
    first = dt.datetime(2020, 1, 1)
    values = [first + dt.timedelta(minutes=37 * i) for i in range(2000)]
    report = report_of(tmp_path, values, bounds={"x": ("2020-01-01", "2020-03-01")})
    questions = [line for line in report.lines if line.released is not None]
    assert len(questions) > 5
    shares = [line.synthetic for line in report.lines if line.question.startswith("soft share")]
    assert sum(shares) == pytest.approx(1)


def test_a_report_of_timestamps_within_an_hour(tmp_path: Path) -> None:
    first = dt.datetime(2020, 1, 1)
    values = [first + dt.timedelta(seconds=i) for i in range(2000)]
    assert report_of(tmp_path, values, bounds={"x": (first, first + dt.timedelta(seconds=3000))}).levels


@pytest.mark.parametrize(
    ("value", "bounds"),
    [
        (dt.date(9999, 12, 31), ("1970-01-01", "9999-12-31")),
        (dt.date(1, 1, 1), ("0001-01-01", "1970-01-01")),
        (dt.datetime(9999, 12, 31), ("1970-01-01", "9999-12-31")),
        (dt.datetime(1, 1, 1), ("0001-01-01", "1970-01-01")),
        (dt.datetime.max, ("1970-01-01", dt.datetime.max)),  # no float is that number of microseconds
    ],
)
def test_a_report_at_the_end_of_the_calendar(tmp_path: Path, value: dt.date, bounds: tuple[Any, Any]) -> None:
    from duckdp.synthetic.report.html_page import histogram

    labels = histogram("x", np.array([value] * 3, dtype=object)).labels
    assert all(label[:4] in ("0001", "9999") for label in labels)
    assert report_of(tmp_path, [value] * 2000, bounds={"x": bounds}).histograms


def test_a_report_of_one_value(tmp_path: Path) -> None:
    report = report_of(tmp_path, ["only"] * 2000, domains={"x": ["only"]})
    assert report.worst is None
    assert report.follows is None


# ---- modules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["owner.compare", "synthetic.files.write_database", "synthetic.files.write_parquet"])
def test_what_owners_call_by_its_full_name_is_found(name: str) -> None:
    subprocess.run([sys.executable, "-c", f"import duckdp; duckdp.{name}"], check=True)

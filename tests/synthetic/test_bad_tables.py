"""Bad tables and calls, by every method, from Python and SQL: clear errors, nothing half-written, no double charge."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.core.types import NANO
from duckdp.errors import DuckDPError, InsufficientBudgetError

METHODS = ("lp", "theorem", "auto", "moments", "tree", "psi")
BUDGET = 4
CODED = re.compile(r"\b([PCQBENX]\d{3}): ")


def frames() -> dict[str, pa.Table]:
    rng = np.random.default_rng(3)
    n = 2000
    plain = {"x": rng.beta(2, 5, n), "y": rng.normal(0, 1, n), "k": rng.integers(0, 50, n)}
    return {
        "good": pa.table(plain),
        "small": pa.table({k: v[:2] for k, v in plain.items()}),
        "empty": pa.table({k: v[:0] for k, v in plain.items()}),
        "constant": pa.table({"x": np.full(n, 0.25), "y": np.zeros(n), "k": np.full(n, 7)}),
        "nothing": pa.table({k: pa.nulls(n, pa.float64()) for k in plain}),
        "outside": pa.table({"x": np.full(n, 1e9), "y": np.full(n, -np.inf), "k": np.full(n, -7.5)}),
        "single": pa.table({**plain, "s": ["only"] * n}),
        "wide": pa.table({f"c{i}": rng.random(40) for i in range(500)}),
    }


@contextmanager
def opened(folder: Path, table: str) -> Iterator[duckdp.Curator]:
    """One of the tables, protected, under a budget that is all granted to ana."""
    frame = frames()[table]
    with duckdp.open({table: frame}, ledger=str(folder / f"{table}.ledger")) as curator:
        bounds: dict[str, Any] = {"x": (0, 1), "y": (-3, 3), "k": (0, 50)} | {f"c{i}": (0, 1) for i in range(500)}
        known = {name: bounds[name] for name in frame.column_names if name in bounds}
        domains = {"s": ["only"]} if table == "single" else None
        curator.protect(table, row_cap=10_000, expected_rows=2000, bounds=known, domains=domains)
        curator.budget(epsilon=BUDGET, delta="1e-5")
        curator.grant("ana", epsilon=BUDGET, delta="1e-5")
        yield curator


@pytest.fixture
def owner(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[duckdp.Curator]:
    """Of the table that the test's parameter names, else the good one."""
    given = getattr(request.node, "callspec", None)
    table = given.params.get("table", "good") if given is not None else "good"
    with opened(tmp_path, table) as curator:
        yield curator


@pytest.fixture(scope="module")
def unspent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    """A good table for calls that are all refused."""
    with opened(tmp_path_factory.mktemp("unspent"), "good") as curator:
        yield curator


def by_session(owner: duckdp.Curator, table: str, **given: Any) -> int:
    return len(owner.session("ana").synthesize(table, **given))


def by_sql(owner: duckdp.Curator, table: str, **given: Any) -> int:
    def literal(value: object) -> str:
        if value is None:
            return "NULL"
        return repr(value) if isinstance(value, (int, float, list)) else f"'{value}'"

    items = "".join(f", {name} := {literal(value)}" for name, value in given.items())
    con = owner.connect("ana")
    try:
        con.execute(f"CREATE TABLE made AS FROM dp_synthesize('{table}'{items})")
        (count,) = con.execute("SELECT count(*) FROM made").fetchone() or (0,)
        con.execute("DROP TABLE made")
    finally:
        left = con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'made'").fetchone()
        assert left == (0,)  # nothing half-written
        con.close()
    return int(count)


Way = Callable[..., int]
WAYS = pytest.mark.parametrize("way", [by_session, by_sql])
ALL = pytest.mark.parametrize("method", METHODS)


def refused(way: Way, owner: duckdp.Curator, table: str, **given: Any) -> str:
    """The code of a refusal; anything but a coded error of ours is a failure."""
    with pytest.raises((DuckDPError, duckdb.Error)) as caught:
        way(owner, table, **given)
    found = CODED.search(str(caught.value))
    assert found is not None, str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert found[1] not in ("X101", "E101"), str(caught.value)
    return found[1]


def spent(owner: duckdp.Curator) -> int:
    return sum(c.loss.epsilon_nano for c in owner.ledger.charges())


def check_ledger(owner: duckdp.Curator, nano: int) -> None:
    """So much was charged, and every charge has its release."""
    assert spent(owner) == nano
    assert {c.state for c in owner.ledger.charges()} <= {"released"}


# ---- tables ---------------------------------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize("table", ["small", "empty", "nothing"])
def test_a_table_too_small(owner: duckdp.Curator, table: str, method: str) -> None:
    """Noise alone: rows within the bounds, or a clear N101; charged once either way, and the same every time."""
    answers = set()
    for way in (by_session, by_sql, by_session):
        try:
            answers.add(way(owner, table, epsilon=1, rows=50, method=method, name="mine"))
        except (DuckDPError, duckdb.Error) as error:
            answers.add((CODED.search(str(error)) or [""])[1])
        check_ledger(owner, NANO)
    assert answers in ({50}, {"N101"})


@ALL
@pytest.mark.parametrize("table", ["constant", "outside"])
def test_constant_columns(owner: duckdp.Curator, table: str, method: str) -> None:
    """All rows alike, or all beyond the bounds: a table comes, near them, and within the bounds."""
    given = {"epsilon": 2, "rows": 200, "method": method, "name": "mine"}
    given["columns"] = ["x", "y"] if method in ("lp", "theorem") else None
    for way in (by_session, by_sql):
        assert way(owner, table, **given) == 200
        check_ledger(owner, 2 * NANO)
    x, y = (c.values for c in owner.session("ana").synthesize(table, **given).columns[:2])
    known = [v for v in x if v is not None]
    assert all(0 <= v <= 1 for v in known)
    assert all(-3 <= v <= 3 for v in y if v is not None)
    assert np.mean(known) == pytest.approx(0.25 if table == "constant" else 1.0, abs=0.15)


@ALL
@pytest.mark.parametrize("table", ["single"])
def test_a_domain_of_one_value(owner: duckdp.Curator, table: str, method: str) -> None:
    given: dict[str, Any] = {"epsilon": 2, "rows": 100, "method": method, "columns": ["s", "x"]}
    alone = {**given, "columns": ["s"]}
    if method == "theorem":
        for way in (by_session, by_sql):
            assert refused(way, owner, table, **given) == refused(way, owner, table, **alone) == "Q401"
        check_ledger(owner, 0)
        return
    for way in (by_session, by_sql):
        assert way(owner, table, **given) == 100
        assert way(owner, table, **alone) == 100
        check_ledger(owner, 4 * NANO)
    for asked in (given, alone):
        values = owner.session("ana").synthesize(table, **asked).columns[0].values
        assert set(values) <= {"only", None}
        assert np.mean([v == "only" for v in values]) > 0.9


@pytest.mark.parametrize("table", ["wide"])
def test_500_columns(owner: duckdp.Curator, table: str) -> None:
    for method in METHODS:
        for way in (by_session, by_sql):
            assert refused(way, owner, table, epsilon=1, method=method) == "P107"
    check_ledger(owner, 0)


# ---- calls ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"rows": 0}, "P107"),
        ({"rows": -5}, "P107"),
        ({"rows": 10**8}, "P107"),
        ({"rows": "many"}, "P107"),
        ({"rows": None}, "P107"),
        ({"columns": ["no"]}, "C102"),
        ({"columns": ["x", "x"]}, "P107"),
        ({"epsilon": 0}, "P101"),
        ({"epsilon": None}, "P101"),
        ({"epsilon": 1000}, "P101"),
        ({"delta": 1}, "P102"),
        ({"time_limit": 0}, "P107"),
        ({"time_limit": -1}, "P107"),
        ({"time_limit": "soon"}, "P107"),
        ({"name": "No Name"}, "P105"),
        ({"epsilon": BUDGET + 1}, "B101"),
        ({"epsilon": "0.0000001"}, "P101"),
    ],
)
def test_bad_calls(unspent: duckdp.Curator, given: dict[str, Any], code: str) -> None:
    asked = {"epsilon": 1, "columns": ["x", "y"], **given}
    for method in METHODS:
        assert refused(by_session, unspent, "good", **asked, method=method) == code
    assert refused(by_sql, unspent, "good", **asked, method="theorem") == code
    check_ledger(unspent, 0)
    assert not unspent.ledger.objects("ana")


@WAYS
def test_an_unknown_method(unspent: duckdp.Curator, way: Way) -> None:
    for method in ("LP", "", "best", None):
        assert refused(way, unspent, "good", epsilon=1, method=method) == "P107"
    assert refused(way, unspent, "good", epsilon=1, method="theorem", degree=4) == "P107"
    assert refused(way, unspent, "good", epsilon=1, method="theorem", target="x") == "P107"
    assert refused(way, unspent, "nobody", epsilon=1) in ("C101", "C110")
    check_ledger(unspent, 0)


@pytest.mark.parametrize("table", ["single"])
def test_no_bounds(owner: duckdp.Curator, table: str) -> None:
    owner.protect(table, row_cap=10_000, columns=["x", "y", "s"])
    for method in METHODS:
        for way in (by_session, by_sql):
            assert refused(way, owner, table, epsilon=1, method=method, columns=["x", "s"]) == "Q401"
            assert refused(way, owner, table, epsilon=1, method=method) in ("P107", "Q401")
    check_ledger(owner, 0)


@ALL
def test_no_budget_for_it(owner: duckdp.Curator, method: str) -> None:
    ana = owner.session("ana")
    given = {"rows": 50, "method": method, "columns": ["x", "y"]}
    ana.synthesize("good", epsilon=3, **given)
    with pytest.raises(InsufficientBudgetError) as short:
        ana.synthesize("good", epsilon="1.5", **given, name="dear")
    assert short.value.remaining == "epsilon=1, delta=1e-5"
    check_ledger(owner, 3 * NANO)
    assert ana.synthesize("good", epsilon=3, **given).cost == "nothing"  # what was paid for stays free
    assert not owner.ledger.objects("ana")


@ALL
def test_a_name_is_never_overwritten(owner: duckdp.Curator, method: str) -> None:
    ana = owner.session("ana")
    given = {"rows": 50, "method": method, "columns": ["x", "y"], "name": "mine"}
    first = ana.synthesize("good", epsilon=1, **given).rows()
    with pytest.raises(DuckDPError) as taken:
        ana.synthesize("good", epsilon=2, **given)
    assert taken.value.code == "C111"
    check_ledger(owner, NANO)
    assert ana.synthesize("good", epsilon=1, **given).rows() == first


@pytest.mark.parametrize("method", ["lp", "theorem"])
def test_a_read_that_is_interrupted_can_be_redeemed(
    owner: duckdp.Curator, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the noise nothing is kept: the charge stays, and the same question redeems it."""
    ana, run = owner.session("ana"), owner.engine.run
    given = {"epsilon": 1, "rows": 50, "method": method, "columns": ["x", "y"]}

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(owner.engine, "run", interrupted)
        with pytest.raises(DuckDPError) as caught:
            ana.synthesize("good", **given)
    assert caught.value.code == "E102"
    assert [c.state for c in owner.ledger.charges()] == ["failed"]
    assert owner.engine.run == run
    assert len(ana.synthesize("good", **given)) == 50
    check_ledger(owner, NANO)


@ALL
def test_payloads_hold_releases_only(owner: duckdp.Curator, method: str) -> None:
    """A cell that one row holds, far from all others, is nowhere in what is stored."""
    ana = owner.session("ana")
    ana.synthesize("good", epsilon=1, rows=20, method=method, columns=["x", "y"], name="mine")
    text = owner.ledger.object("ana", "mine").payload
    rows = [repr(v) for v in frames()["good"]["y"].to_pylist()]
    assert not any(v in text for v in rows)
    assert set(json.loads(text)) <= {
        "kind",
        "summary",
        "table",
        "rows",
        "missing",
        "moments",
        "theorem",
        "bought",
        "method",
        "wide",
        "count",
        "counted",
        "bars",
    }


@pytest.mark.parametrize("method", ["tree", "moments", "lp"])
def test_whole_numbers_beyond_64_bits_keep_dates_and_orders(tmp_path: Path, method: str) -> None:
    """A HUGEINT beside a date or an order: read as int64, it failed after the charge."""
    path = str(tmp_path / "huge.duckdb")
    with duckdb.connect(path) as con:
        con.execute(
            "CREATE TABLE t AS SELECT DATE '2019-01-01' + (i % 2000)::INTEGER AS d, "
            "(i % 900)::HUGEINT * 10::HUGEINT ** 21 AS low, (i % 900 + 50)::HUGEINT * 10::HUGEINT ** 21 AS high "
            "FROM range(1500) r(i)"
        )
    bounds = {"d": (dt.date(2019, 1, 1), dt.date(2025, 1, 1)), "low": (0, 1e24), "high": (0, 1e24)}
    with duckdp.open(path, ledger=str(tmp_path / "huge.ledger")) as owner:
        owner.protect("t", row_cap=5000, bounds=bounds, constraints=["low <= high"])
        owner.budget(epsilon=100)
        owner.grant("ana", epsilon=100)
        columns = ["low", "high"] if method == "lp" else ["d", "low", "high"]
        made = owner.session("ana").synthesize("t", epsilon=2, method=method, columns=columns)
        assert all(0 <= a <= b <= 1e24 for a, b in zip(made["low"], made["high"], strict=True))

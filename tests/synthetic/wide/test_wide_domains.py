"""Columns with bounds and a domain, domains of many values, and targets: what is made, and what is refused when."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import duckdp
from duckdp.bench.measure import read_rows
from duckdp.compiler.printing import Parameters
from duckdp.core.task import Stages
from duckdp.core.types import NANO, Neighbours
from duckdp.errors import DuckDPError, ParameterError
from duckdp.smooth.axes import make_axis, values_inside
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.stored import read_synthesis
from duckdp.synthetic.tree.bins import make_bins, spread_rows
from duckdp.synthetic.tree.buy.bin_sql import print_code
from duckdp.synthetic.tree.make.estimates import estimate_shares
from duckdp.synthetic.unit.buy.unit_sql import print_items
from duckdp.synthetic.unit.layout import MAX_LISTED, make_units
from tests.smooth.tables import column, connect, table
from tests.synthetic.plans import encode, plan_wide

ROWS = 20_000
DAYS = (dt.date(2020, 1, 1), dt.date(2020, 3, 1), dt.date(2020, 12, 31))
BOTH = {
    "plan": column("plan", 1, 99, "INTEGER", domain=(1, 5, 99), nullable=False),
    "rate": column("rate", 0.0, 3.0, domain=(0.5, 2.5, 7.0), other=0.5, nullable=False),
    "day": column("day", DAYS[0], DAYS[2], "DATE", domain=DAYS, nullable=False),
}
SHARES = {
    "plan": {1: 0.5, 5: 0.25, 99: 0.25},
    "rate": {0.5: 0.8, 2.5: 0.2},
    "day": dict(zip(DAYS, (0.6, 0.1, 0.3), strict=True)),
}
DATA = f"""CREATE TABLE t AS SELECT (CASE i % 4 WHEN 0 THEN 5 WHEN 1 THEN 99 ELSE 1 END)::INTEGER AS plan,
    CASE WHEN i % 5 = 0 THEN 2.5 WHEN i % 5 = 1 THEN 1.75 ELSE 0.5 END::DOUBLE AS rate,
    DATE '2020-01-01' + (CASE WHEN i % 10 < 6 THEN 0 WHEN i % 10 < 7 THEN 60 ELSE 365 END) AS day,
    'v' || (i % 500 // 4) AS code, i % 3 = 0 AS "B", i % 100 AS age FROM range({ROWS}) r(i)"""
MANY = column("code", None, None, "VARCHAR", domain=tuple(f"v{i}" for i in range(500)), other="v0", nullable=False)
AGE = column("age", 0, 100, "BIGINT", nullable=False)
SIGN = column("B", None, None, "BOOLEAN", nullable=False)


def _made(*columns: duckdp.catalog.table.Column, method: str, epsilon: int = 20, **more: object) -> SyntheticTable:
    task = plan_wide(
        table(*columns, expected_rows=ROWS),
        None,
        epsilon_nano=epsilon * NANO,
        neighbours=Neighbours.ADD_REMOVE,
        rows=2000,
        method=method,
        **{"delta_atto": 0, "target": None, **more},
    )
    with connect() as con:
        con.execute(DATA)
        return read_synthesis(task.work(1)(Stages(lambda q: read_rows(con, q))))


def _shares(values: np.ndarray) -> dict[object, float]:
    listed = values.tolist()
    return {v: listed.count(v) / len(listed) for v in set(listed)}


@pytest.mark.parametrize("method", ["tree", "moments", "psi"])
def test_bounds_beside_a_domain_leave_its_values(method: str) -> None:
    made = _made(*BOTH.values(), AGE, method=method)
    for name, wanted in SHARES.items():
        found = _shares(made.columns[name])
        assert set(found) <= set(wanted)  # 7.0 lies outside the bounds: no row can have it
        if method != "psi":
            assert found == pytest.approx(wanted, abs=0.04)  # in 20 releases at most 0.0135 off


def test_the_linear_program_takes_the_domains_values(tmp_path: Path) -> None:
    with duckdp.open(_file(tmp_path), ledger=str(tmp_path / "c.ledger")) as owner:
        _protect(owner)
        ana = owner.session("ana")
        for name, wanted in SHARES.items():
            made = ana.synthesize("t", columns=[name], epsilon=5, rows=2000, method="lp", degree=8)
            found = _shares(np.array([row[0] for row in made.rows()], dtype=object))
            assert set(found) <= set(wanted)
            assert sum(abs(found.get(v, 0) - share) for v, share in wanted.items()) < 0.5
        ana.smooth_summary("t", ["plan"], epsilon=5, degree=12, name="p")
        value = float(ana.smooth_answer("p", "plan / 100").rows()[0][0])
        assert value == pytest.approx((0.5 + 1.25 + 24.75) / 100, abs=0.01)


def test_a_summary_keeps_the_bounds() -> None:
    assert make_axis(BOTH["rate"], 9).values is None
    assert values_inside(BOTH["rate"]) == (0.5, 2.5)
    assert values_inside(MANY) == values_inside(AGE) == ()


def test_places_in_sql_and_back() -> None:
    filled = column("plan", 1, 99, "INTEGER", domain=(1, 5, 99), null_value=40, other=5)
    open_ended = column("rate", 0.0, 3.0, domain=(None, 0.5))
    units = make_units([filled, open_ended])
    with connect() as con:
        con.execute("CREATE TABLE t AS FROM (VALUES (1, 0.5::DOUBLE), (99, NULL), (7, 2.0), (5, 0.5)) v(plan, rate)")
        parameters = Parameters()
        found = con.execute(f"SELECT {print_items(units, parameters)} FROM t AS r", list(parameters.values)).fetchall()
        parameters = Parameters()
        codes = [print_code(b, parameters) for b in make_bins(units, 10)]
        bins = con.execute(f"SELECT {', '.join(codes)} FROM t AS r", list(parameters.values)).fetchall()
    back = units.decode(np.array(found, dtype=float))
    assert back["plan"].tolist() == [1, 99, 5, 5]
    assert back["rate"].tolist() == [0.5, None, None, 0.5]
    assert bins == [(0, 1), (2, 0), (1, 0), (1, 1)]


def test_a_tree_takes_domains_of_many_values() -> None:
    for method in ("tree", "auto"):
        made = _made(MANY, AGE, SIGN, method=method, target="b")
        found = _shares(made.columns["code"])
        assert set(found) <= set(MANY.domain or ())
        assert sum(found.get(f"v{i}", 0.0) for i in range(125)) > 0.95
        assert max(abs(found.get(f"v{i}", 0) - 1 / 125) for i in range(125)) < 0.006
        assert made.columns["age"].astype(float).mean() == pytest.approx(49.5, abs=2)
    assert len(_made(MANY, method="tree").columns["code"]) == 2000  # alone


def test_places_of_many_values_there_and_back() -> None:
    units = make_units([MANY, AGE], tree=True)
    assert [p.width for p in units.parts] == [1, 1]
    (many, _) = binnings = make_bins(units, 10)
    codes = np.stack([np.arange(500), np.arange(500) % 10], axis=1)
    unit = spread_rows(binnings, codes, [None, None])
    assert np.abs(unit).max() <= 1
    np.testing.assert_array_equal(encode(many, unit), codes[:, 0])
    assert units.decode(unit, rounded=True)["code"].tolist() == list(MANY.domain or ())


def test_a_tree_names_its_limits() -> None:
    large = [column(f"c{i}", None, None, "INTEGER", domain=tuple(range(4096))) for i in range(6)]
    assert make_units(large[:4], tree=True).count == 4
    with pytest.raises(ParameterError, match=str(MAX_LISTED)):
        make_units(large, tree=True)
    with pytest.raises(ParameterError, match="4096"):
        make_units([column("c", None, None, "INTEGER", domain=tuple(range(4097)))], tree=True)
    with pytest.raises(ParameterError, match=r"400\. Name fewer, or take method := 'tree': 4096 .* 20000 in all"):
        make_units([MANY])


def test_shares_of_many_bins_need_no_prior_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(size: int) -> None:
        raise AssertionError(size)

    monkeypatch.setattr("duckdp.synthetic.tree.make.estimates.rough_laws", refuse)
    counts = np.random.default_rng(3).normal(10, 50, 4096)
    assert estimate_shares(counts, 50.0, 4000.0, ordered=False).sum() == pytest.approx(1)
    with pytest.raises(AssertionError):
        estimate_shares(counts[:400], 50.0, 4000.0, ordered=False)


def _file(folder: Path) -> str:
    path = str(folder / "c.duckdb")
    with duckdp.vault.engine.duckdb.connect(path) as con:
        con.execute(DATA)
    return path


def _protect(owner: duckdp.Curator) -> None:
    owner.protect(
        "t",
        row_cap=100_000,
        expected_rows=ROWS,
        bounds={"plan": (1, 99), "rate": (0, 3), "day": (DAYS[0], DAYS[2]), "age": (0, 100)},
        domains={"plan": [1, 5, 99], "rate": [0.5, 2.5, 7.0], "day": list(DAYS), "code": list(MANY.domain or ())},
        other={"rate": 0.5},
        columns=["B"],
    )
    owner.budget(epsilon=30)
    owner.grant("ana", epsilon=30)


@pytest.fixture
def clinic(tmp_path: Path) -> Iterator[duckdp.Curator]:
    with duckdp.open(_file(tmp_path), ledger=str(tmp_path / "c.ledger")) as owner:
        _protect(owner)
        yield owner


@pytest.mark.parametrize("target", ["B", "b"])
def test_a_target_is_named_like_a_column(clinic: duckdp.Curator, target: str) -> None:
    made = clinic.session("ana").synthesize(
        "t", columns=["b", "AGE"], epsilon=2, rows=100, method="tree", target=target
    )
    assert len(made.rows()) == 100


@pytest.mark.parametrize("method", ["auto", "tree", "moments", "psi"])
@pytest.mark.parametrize("epsilon", [1e-6, 1])
def test_a_target_alone_is_refused_before_the_charge(clinic: duckdp.Curator, epsilon: float, method: str) -> None:
    with pytest.raises(DuckDPError) as caught:
        clinic.session("ana").synthesize("t", columns=["b"], epsilon=epsilon, rows=100, method=method, target="b")
    assert caught.value.code == "P107"
    assert "target" in str(caught.value)
    assert not clinic.ledger.charges()

"""From declared columns to a synthetic table: types, shares, NULLs, charges, units; and what is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest

import duckdp
from duckdp.compiler.printing import Parameters
from duckdp.core.types import NANO, Neighbours
from duckdp.errors import CatalogError, DuckDPError, ParameterError, QueryError
from duckdp.smooth.basis import chebyshev
from duckdp.synthetic.moments.buy import MomentsTask
from duckdp.synthetic.moments.marginals import Marginals, choose_marginals
from duckdp.synthetic.tree.bins import make_bins
from duckdp.synthetic.tree.buy.bin_sql import print_code
from duckdp.synthetic.unit.buy.purse import Purse
from duckdp.synthetic.unit.buy.reading import UnitReader, counted_query
from duckdp.synthetic.unit.buy.sums_sql import print_sums
from duckdp.synthetic.unit.buy.unit_sql import print_items
from duckdp.synthetic.unit.features import Features
from duckdp.synthetic.unit.layout import make_units
from tests.privacy import draws
from tests.smooth.tables import column, connect, table
from tests.synthetic.plans import plan_wide

ROWS = 20_000
SPEC = (
    column("age", 0, 100, "INTEGER"),
    column("pay", 0.0, 10.0, "DECIMAL(6,2)"),
    column("day", dt.date(2020, 1, 1), dt.date(2020, 12, 31), "DATE"),
    column("city", None, None, "VARCHAR", domain=("x", "y", "z")),
    column("sick", None, None, "BOOLEAN"),
)
DATA = f"""CREATE TABLE t AS SELECT (20 + i % 40)::INTEGER AS age,
    CASE WHEN i % 10 > 0 THEN ((i * 7) % 1000 / 200.0)::DECIMAL(6,2) END AS pay,
    DATE '2020-01-01' + (i % 100)::INTEGER AS day,
    CASE i % 5 WHEN 0 THEN 'x' WHEN 1 THEN 'elsewhere' ELSE 'y' END AS city, i % 4 = 0 AS sick
    FROM range({ROWS}) r(i)"""


@pytest.fixture
def clinic(tmp_path: Path) -> Iterator[duckdp.Curator]:
    path = str(tmp_path / "c.duckdb")
    with duckdb.connect(path) as con:
        con.execute(DATA)
    with duckdp.open(path, ledger=str(tmp_path / "c.ledger")) as owner:
        owner.protect(
            "t",
            row_cap=100_000,
            expected_rows=ROWS,
            bounds={"age": (0, 100), "pay": (0, 10), "day": (dt.date(2020, 1, 1), dt.date(2020, 12, 31))},
            domains={"city": ["x", "y", "z"]},
            columns=["sick"],
        )
        owner.budget(epsilon=20)
        owner.grant("ana", epsilon=20)
        yield owner


def test_a_table_of_all_columns(clinic: duckdp.Curator) -> None:
    ana = clinic.session("ana")
    made = ana.synthesize("t", epsilon=4, rows=3000, name="people")
    assert sum(c.loss.epsilon_nano for c in clinic.ledger.charges()) == 4 * NANO
    assert [c.type for c in made.columns] == ["INTEGER", "DECIMAL(6,2)", "DATE", "VARCHAR", "BOOLEAN"]
    age, pay, day, city, sick = ([row[i] for row in made.rows()] for i in range(5))
    assert len(age) == 3000
    assert np.mean([a for a in age if a is not None]) == pytest.approx(39.5, abs=2)
    assert np.mean([p is None for p in pay]) == pytest.approx(0.1, abs=0.02)
    assert np.mean([float(p) for p in pay if p is not None]) == pytest.approx(2.5, abs=0.3)
    assert np.std([float(p) for p in pay if p is not None]) == pytest.approx(1.44, abs=0.4)
    days = [(d - dt.date(2020, 1, 1)).days for d in day if d is not None]
    assert np.mean(days) == pytest.approx(49.5, abs=8)
    shares = {v: np.mean([c == v for c in city]) for v in ("x", "y", "z", None)}
    assert shares == pytest.approx({"x": 0.2, "y": 0.6, "z": 0.0, None: 0.2}, abs=0.03)
    assert np.mean([bool(s) for s in sick]) == pytest.approx(0.25, abs=0.03)
    assert ana.synthesize("t", epsilon=4, rows=3000, name="people").cost == "nothing"
    with pytest.raises(CatalogError):  # no summary was made
        ana.smooth_answer("people", "age")


@pytest.mark.parametrize("delta_atto", [0, 10**12, 2 * 10**17])
@pytest.mark.parametrize("method", ["moments", "tree", "psi"])
def test_every_method_costs_what_was_asked(method: str, delta_atto: int) -> None:
    """Not more, whatever parts it is bought in; where only epsilon is charged, not less either."""
    marginals = set()
    for epsilon_nano in (NANO // 50, NANO, NANO + 1, 20 * NANO):
        for neighbours in Neighbours:
            task = plan_wide(
                table(*SPEC, expected_rows=ROWS),
                [c.name for c in SPEC],
                epsilon_nano=epsilon_nano,
                delta_atto=delta_atto,
                neighbours=neighbours,
                rows=None,
                method=method,
                target=None,
            )
            assert task.loss.epsilon_nano <= epsilon_nano
            assert task.loss.epsilon_nano == epsilon_nano or task.loss.delta_atto
            assert task.loss.delta_atto in (0, delta_atto)
            marginals.add(getattr(task, "marginal_nano", 0) > 0)
    assert True in marginals or method != "moments"


def test_in_sql_with_a_target_and_psi(clinic: duckdp.Curator) -> None:
    con = clinic.connect("ana")
    con.execute("CREATE TABLE a AS FROM dp_synthesize('t', epsilon := 3, rows := 1000, target := 'sick')")
    con.execute("CREATE TABLE b AS FROM dp_synthesize('t', epsilon := 3, rows := 1000, method := 'psi')")
    for name in "ab":
        share, low, high = con.execute(f"SELECT avg(sick::INTEGER), min(age), max(age) FROM {name}").fetchone() or ()
        assert share == pytest.approx(0.25, abs=0.06)
        assert 0 <= low <= high <= 100
    assert sum(c.loss.epsilon_nano for c in clinic.ledger.charges()) == 6 * NANO


def test_after_the_release_nothing_depends_on_the_data(clinic: duckdp.Curator, tmp_path: Path) -> None:
    """The stored table is read again from another data set's session: the same rows, no read, no charge."""
    ana = clinic.session("ana")
    first = ana.synthesize("t", epsilon=1, rows=200).rows()
    clinic.engine.close()  # the private instance is gone
    assert ana.synthesize("t", epsilon=1, rows=200).rows() == first


def test_a_tree_in_sql_and_after_the_data_are_gone(clinic: duckdp.Curator) -> None:
    con, ana = clinic.connect("ana"), clinic.session("ana")
    con.execute("CREATE TABLE a AS FROM dp_synthesize('t', epsilon := 4, rows := 2000, method := 'tree')")
    how = "epsilon := 3, rows := 500, method := 'tree', target := 'sick'"
    con.execute(f"CREATE TABLE b AS FROM dp_synthesize('t', {how})")
    for name, wide in (("a", 0.03), ("b", 0.06)):
        found = con.execute(
            f"SELECT avg(sick::INTEGER), avg((pay IS NULL)::INTEGER), avg((city = 'y')::INTEGER), "
            f"avg((city = 'y' AND sick)::INTEGER), avg(age) FROM {name}"
        ).fetchone()
        assert found is not None
        assert found[:4] == pytest.approx((0.25, 0.1, 0.75, 0.158), abs=wide)  # city NULL counts nowhere
        assert found[4] == pytest.approx(39.5, abs=2)  # by bins: usually 0.2 below
    assert sum(c.loss.epsilon_nano for c in clinic.ledger.charges()) == 7 * NANO
    first = ana.synthesize("t", epsilon=4, rows=2000, method="tree").rows()
    clinic.engine.close()  # the private instance is gone
    assert ana.synthesize("t", epsilon=4, rows=2000, method="tree").rows() == first
    assert len(clinic.ledger.charges()) == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"method": "magic"}, "P107"),
        ({"target": 5}, "P107"),
        ({"target": "age"}, "P107"),
        ({"target": "nobody"}, "P107"),
        ({"columns": ["age", "age", "pay", "day"]}, "P107"),
        ({"columns": ["age", "nobody", "pay", "day"]}, "C102"),
        ({"rows": 0}, "P107"),
        ({"rows": 10**8}, "P107"),
        ({"epsilon": 0}, "P101"),
        ({"epsilon": 50}, "B101"),
    ],
)
def test_bad_calls_are_refused_before_any_charge(clinic: duckdp.Curator, arguments: dict, code: str) -> None:
    with pytest.raises(DuckDPError) as caught:
        clinic.session("ana").synthesize("t", **{"epsilon": 1, "rows": 100, **arguments})
    assert caught.value.code == code
    assert not clinic.ledger.charges()


def test_units_of_several_rows_count_once() -> None:
    tab = table(*SPEC, unit_key="k", unit_type="INTEGER")
    task = plan_wide(
        tab,
        None,
        epsilon_nano=NANO,
        delta_atto=0,
        neighbours=Neighbours.ADD_REMOVE,
        rows=10,
        method="auto",
        target=None,
    )
    with connect() as con:
        con.execute(DATA.replace("SELECT", "SELECT (i % 300)::INTEGER AS k,", 1))
        parameters = Parameters()
        reader = UnitReader(table=tab, units=task.units, expected_rows=1000, salt=7, read=None)
        relation = reader.relation(parameters)
        sql = print_sums(Features(dimensions=task.units.count, size=True), relation, task.units.names, 20)
        query = counted_query(sql, parameters)
        count = con.execute(query.sql, list(query.parameters)).fetchone()[0]
        assert count == 300
        before = con.execute(f"FROM {relation}", list(parameters.values)).fetchall()
        con.execute("DELETE FROM t WHERE k = 5")
        after = con.execute(f"FROM {relation}", list(parameters.values)).fetchall()
        gone = sorted(map(str, before))
        for row in map(str, after):
            gone.remove(row)
        assert len(gone) == 1  # one row left, and none of another unit changed
        parameters = Parameters()
        codes = {f"c{i}": print_code(b, parameters) for i, b in enumerate(make_bins(task.units, 20))}
        listed = ", ".join(f"count({name})" for name in codes)
        sql = f"SELECT {listed} FROM {reader.relation(parameters, codes)}"
        assert con.execute(sql, list(parameters.values)).fetchone() == (299,) * len(codes)


def test_replace_needs_every_row() -> None:
    view = table(*SPEC, filter="age > 3", base=SPEC)
    with pytest.raises(CatalogError):
        plan_wide(
            view,
            None,
            epsilon_nano=NANO,
            delta_atto=0,
            neighbours=Neighbours.REPLACE,
            rows=10,
            method="auto",
            target=None,
        )


def test_unit_columns_in_sql_and_back() -> None:
    units = make_units(SPEC)
    assert units.count == 2 + 2 + 2 + 4 + 2
    parameters = Parameters()
    with connect() as con:
        con.execute(DATA)
        found = con.execute(
            f"SELECT {print_items(units, parameters)} FROM t AS r", list(parameters.values)
        ).fetchnumpy()
        plain = con.execute("SELECT * FROM t").fetchall()
    unit = np.stack([np.asarray(found[n], dtype=float) for n in units.names], axis=1)
    assert np.abs(unit).max() <= 1
    back = units.decode(unit)
    assert back["age"].tolist() == [row[0] for row in plain]
    assert [v is None for v in back["pay"].tolist()] == [row[1] is None for row in plain]
    assert back["day"].tolist() == [row[2] for row in plain]
    assert back["city"].tolist() == [row[3] if row[3] in ("x", "y") else None for row in plain]
    assert back["sick"].tolist() == [row[4] for row in plain]


def test_a_column_without_bounds_or_domain_is_refused() -> None:
    with pytest.raises(QueryError):
        make_units([column("x", None, None)])
    with pytest.raises(ParameterError):
        make_units([column(f"c{i}") for i in range(300)])  # with their NULLs, 600


def test_marginal_sums_are_those_of_their_functions() -> None:
    rng = np.random.default_rng(5)
    u = rng.uniform(-1, 1, (400, 3))
    bought = Marginals(dimensions=3, columns=(0, 2), degree=7)
    with connect() as con:
        con.register("frame", {f"u{i}": u[:, i] for i in range(3)})
        sums = con.execute(print_sums(bought, "frame", ["u0", "u1", "u2"], 24)).fetchone()
    wanted = np.concatenate([chebyshev(u[:, i], 8)[:, 2:].sum(axis=0) for i in (0, 2)])
    np.testing.assert_allclose(np.array(sums, dtype=float) / 2**24, wanted, atol=1e-4)
    np.testing.assert_allclose(bought.rows(u).sum(axis=0), wanted)
    assert bought.count == len(wanted)


def test_how_many_marginal_moments_follows_from_public_figures() -> None:
    def degree(epsilon: int, rows: int) -> int | None:
        purse = Purse(epsilon_nano=epsilon, delta_atto=0, neighbours=Neighbours.ADD_REMOVE)
        found = choose_marginals([0, 1, 2, 3], 9, purse, rows)
        return None if found is None else found.degree

    assert degree(NANO, 10**6) == 16
    assert degree(NANO // 10, 10_000) == 12
    assert degree(NANO // 10, 1000) == 3
    assert degree(NANO // 100, 1000) is None


@pytest.mark.parametrize("epsilon_nano", [NANO // 1000, NANO, 50 * NANO])
def test_links_and_marginals_share_what_was_asked(epsilon_nano: int) -> None:
    """Nothing that is bought is free, and no more is charged than was asked."""
    task = draws._wide("moments", draws.NUMBERS, epsilon_nano=epsilon_nano)()
    assert isinstance(task, MomentsTask)
    parts = task.request.epsilon_nano + task.marginal_nano + task.null_nano
    assert task.loss.epsilon_nano == parts == epsilon_nano
    assert task.marginal_nano or epsilon_nano < NANO
    assert 2 * NANO**2 * Fraction(task.loss.rho_pico, 10**12) >= epsilon_nano**2

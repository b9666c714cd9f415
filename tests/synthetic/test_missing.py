"""NULLs of columns that a summary leaves out: their shares are private, paid for, and come back."""

import datetime as dt
import itertools
import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.core.types import NANO, Neighbours
from duckdp.errors import CatalogError
from duckdp.smooth.summary import make_basis
from duckdp.synthetic.lp.buy.null_patterns import plan_missing
from duckdp.synthetic.lp.buy.synthesis_task import plan_synthesis
from duckdp.synthetic.lp.make.nulls import doubt, give_missing, shares
from duckdp.synthetic.lp.plan import PART
from duckdp.synthetic.report.table_report import FAR
from duckdp.synthetic.sample import bytes_of
from tests.smooth.tables import column, connect, run, table

SPEC = (
    column("x"),
    column("d", dt.date(2020, 1, 1), dt.date(2020, 12, 31), "DATE"),
    column("s", None, None, "VARCHAR", domain=("p", "q")),
)
LISTED = (column("n", None, None, "VARCHAR", domain=("p", None)), column("y", nullable=False), column("z"))


def plan(tab, neighbours=Neighbours.ADD_REMOVE, epsilon_nano=NANO):
    return plan_missing(tab, tab.columns, make_basis(tab.columns, 4), epsilon_nano=epsilon_nano, neighbours=neighbours)


def weights(con, found):
    (row,) = run(con, found.query())
    return [int(v or 0) for v in row]


# ---- counts and their privacy ---------------------------------------------------------------------------------------


def test_every_row_falls_into_one_pattern():
    with connect() as con:
        con.execute("CREATE TABLE t AS SELECT NULL::DOUBLE AS x, NULL::DATE AS d, NULL::VARCHAR AS s WHERE false")
        found = plan(table(*SPEC))
        assert weights(con, found) == [0] * 8
        con.execute(
            "INSERT INTO t VALUES (0.5, '2020-02-02', 'p'), (9, '1999-01-01', 'q'), (NULL, '2020-02-02', 'p'), "
            "('nan', '2020-02-02', 'p'), (0.5, NULL, 'q'), (NULL, NULL, 'q'), (0.5, '2020-02-02', 'elsewhere'), "
            "(0.5, '2020-02-02', NULL), (NULL, NULL, NULL)"
        )
        assert weights(con, found) == [2, 2, 1, 1, 2, 0, 0, 1]


def test_only_what_may_be_missing_is_counted():
    found = plan(table(*LISTED))
    assert found.names == ["z"]  # NULL is a value of n, and y has none
    assert plan(table(*LISTED[:2])) is None


def changes(tab, neighbours):
    """The largest change of the weights, over all units of up to four rows, each row in one of two patterns."""
    found = plan(tab, neighbours)
    units = [list(p) for n in range(5) for p in itertools.product([0.5, None], repeat=n)]
    sums = []
    with connect() as con:
        con.execute("CREATE TABLE t (x DOUBLE, u INTEGER)")
        for unit in units:
            con.execute("DELETE FROM t")
            con.execute("INSERT INTO t VALUES (0.1, 2), (NULL, 3)")
            for value in unit:
                con.execute("INSERT INTO t VALUES (?, 1)", [value])
            sums.append(np.array(weights(con, found), dtype=object))
    if neighbours is Neighbours.ADD_REMOVE:
        return found, max(np.abs(s - sums[0]).sum() for s in sums)
    pairs = [
        (a, b)
        for (u, a), (v, b) in itertools.product(zip(units, sums, strict=True), repeat=2)
        if len(u) == len(v) and sum(x != y for x, y in zip(u, v, strict=True)) <= 1
    ]
    return found, max(np.abs(a - b).sum() for a, b in pairs)


@pytest.mark.parametrize(
    ("neighbours", "keyed", "rows"),
    [
        (Neighbours.ADD_REMOVE, {"unit_key": "u", "max_rows": 1}, 1),
        (Neighbours.REPLACE, {}, 2),
        (Neighbours.ADD_REMOVE, {"unit_key": "u", "max_rows": 3}, 3),
    ],
)
def test_sensitivity_by_brute_force(neighbours, keyed, rows):
    found, largest = changes(table(column("x"), **keyed), neighbours)
    stated = rows << found.bits
    assert largest == stated
    scale = found.release([(1, 1)])["scale"]
    assert stated <= scale < stated * 1.0001  # epsilon is 1
    if keyed:  # broken twin: a unit of four rows whose rows do not weigh less
        twin, larger = changes(table(column("x"), unit_key="u", max_rows=4), neighbours)
        assert larger == 4 << twin.bits > stated


def test_noise_has_its_scale():
    found = plan(table(column("x")), epsilon_nano=NANO // 10)
    draws = np.array([found.release([(1000, 200)])["counts"] for _ in range(4000)], dtype=float) - [1000, 200]
    # the mean of 8,000 |Laplace(10)|, whose deviation is that of its mean: off by 6 with probability below 1e-8
    assert np.abs(draws).mean() == pytest.approx(10, abs=6 * 10 / np.sqrt(8000))
    assert np.abs(draws).mean() != pytest.approx(8, abs=6 * 8 / np.sqrt(8000))  # broken twin: a fifth less


def test_shares_of_noise_alone_are_none():
    released = {"columns": ["x"], "counts": [1000, int(doubt(2) * 20)], "scale": 20.0, "bits": 0}
    assert shares(released).tolist() == [1, 0]
    assert shares({**released, "counts": [900, 100], "scale": 3.0}).tolist() == [0.9, 0.1]
    assert shares({**released, "counts": [-5, 3]}).tolist() == [1, 0]
    for bad in ({"counts": [1]}, {"counts": None}, {"scale": None}, {"columns": 3}, {"counts": ["x", 1]}):
        with pytest.raises(CatalogError):
            shares({**released, **bad})


def test_patterns_are_given_together():
    released = {"columns": ["a", "b"], "counts": [500, 0, 100, 400], "scale": 1.0, "bits": 0}
    columns = {"a": np.arange(1000), "b": np.arange(1000) / 2, "c": np.arange(1000)}
    made = give_missing(columns, released, bytes_of("x"))
    pairs = [(a is None, b is None) for a, b in zip(made["a"].tolist(), made["b"].tolist(), strict=True)]
    assert {p: pairs.count(p) for p in set(pairs)} == {(False, False): 500, (False, True): 100, (True, True): 400}
    assert made["c"] is columns["c"]
    assert [type(v) for v in made["a"].tolist() if v is not None] == [int] * 600


# ---- through a session ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_a_part_pays_and_the_whole_is_what_was_asked(delta):
    nullable, strict = (table(column("x", nullable=n), column("y", nullable=False)) for n in (True, False))
    atto = round(float(delta) * 10**18)

    def planned(tab):
        return plan_synthesis(
            tab,
            None,
            epsilon_nano=NANO,
            delta_atto=atto,
            neighbours=Neighbours.ADD_REMOVE,
            rows=10,
            smoothness=None,
            degree=12,
        )

    one, other = planned(nullable), planned(strict)
    assert one.loss.epsilon_nano == other.loss.epsilon_nano == NANO
    assert one.loss.delta_atto == other.loss.delta_atto
    assert other.missing is None
    assert Fraction(one.missing.epsilon_nano, NANO) == Fraction(1, PART)
    assert one.summary.loss.epsilon_nano + one.missing.epsilon_nano == NANO
    assert one.parameters["nullable"] == ["x"]
    assert one.canonical != other.canonical
    if atto:
        assert one.loss.rho_pico > one.summary.loss.rho_pico


@pytest.fixture
def owner(tmp_path):
    rng = np.random.default_rng(8)
    n = 20_000
    gone = rng.random(n) < 0.2
    frame = pa.table(
        {
            "x": pa.array(rng.beta(2, 5, n), mask=gone),
            "k": pa.array(rng.integers(0, 90, n), mask=gone),
            "d": pa.array(
                [dt.date(2020, 1, 1) + dt.timedelta(int(v)) for v in rng.integers(0, 99, n)], mask=rng.random(n) < 0.05
            ),
            "f": pa.array(rng.random(n) < 0.3, mask=rng.random(n) < 0.5),
            "whole": rng.random(n),
        }
    )
    with duckdp.open({"t": frame}, ledger=str(tmp_path / "t.ledger")) as curator:
        bounds = {"x": (0, 1), "k": (0, 90), "d": (dt.date(2020, 1, 1), dt.date(2020, 12, 31)), "whole": (0, 1)}
        curator.protect("t", row_cap=50_000, expected_rows=n, bounds=bounds, columns=["f"])
        curator.budget(epsilon=30)
        curator.grant("ana", epsilon=30)
        yield curator


def missing(values):
    return np.mean([v is None for v in values])


def test_nulls_come_back_in_their_shares(owner):
    ana = owner.session("ana")
    made = ana.synthesize("t", epsilon=2, columns=["x", "k", "d"], degree=4, rows=5000, name="mine")
    x, k, d = (c.values for c in made.columns)
    assert [missing(v) for v in (x, k, d)] == pytest.approx([0.2, 0.2, 0.05], abs=0.02)
    assert np.mean([(a is None) == (b is None) for a, b in zip(x, k, strict=True)]) > 0.95  # together: else 0.68
    assert np.mean([v for v in x if v is not None]) == pytest.approx(2 / 7, abs=0.02)
    assert {type(v) for v in d} == {dt.date, type(None)}
    assert any("private share" in n for n in made.notes)
    report = ana.synthetic_report("mine")
    # twice: which rows get the NULLs is drawn too, so one table in some thousands lies beyond FAR itself
    assert report.excess < 2 * FAR
    assert report.rows == 5000
    raw = json.loads(owner.ledger.object("ana", "mine").payload)
    released = shares(raw["missing"])  # of patterns: x is their first column
    assert f"x {100 * released[1::2].sum():.3g}%" in report.text
    assert released[1::2].sum() == pytest.approx(0.2, abs=0.02)
    raw["missing"] = None  # broken twin: without what was bought no row has a NULL
    twin = duckdp.synthetic.stored.read_synthesis(json.dumps(raw))
    assert missing(twin.columns["x"].tolist()) == 0


def test_booleans_and_sql_types(owner):
    con = owner.connect("ana")
    given = "epsilon := 2, columns := ['f', 'whole'], rows := 3000, method := 'lp'"
    con.execute(f"CREATE TABLE made AS FROM dp_synthesize('t', {given})")
    types = con.execute("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'made'").fetchall()
    assert types == [("f", "BOOLEAN"), ("whole", "DOUBLE")]
    share, true, whole = con.execute(
        "SELECT avg((f IS NULL)::INTEGER), avg(f::INTEGER), avg((whole IS NULL)::INTEGER) FROM made"
    ).fetchone()
    assert share == pytest.approx(0.5, abs=0.03)
    assert true == pytest.approx(0.3, abs=0.06)  # of 1,500 rows at random: deviation 0.007
    assert whole < 0.03  # none is NULL; a DOUBLE may be NaN, so their share is noised
    assert sum(c.loss.epsilon_nano for c in owner.ledger.charges()) == 2 * NANO

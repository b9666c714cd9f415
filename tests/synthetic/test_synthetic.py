"""Synthetic tables: their moments, types and schema; nothing but the summary goes in."""

import dataclasses
import datetime as dt
import importlib
import json

import numpy as np
import pytest

from duckdp.core.types import Neighbours
from duckdp.errors import CatalogError, NumericalError, ParameterError
from duckdp.smooth.summary import make_basis
from duckdp.synthetic import sample
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.lp.make.support import make_grid
from duckdp.synthetic.lp.make.synthesize import MAX_ROWS, synthesize
from duckdp.synthetic.sample import bytes_of, draw_independent, draw_points
from tests.smooth.tables import column, connect, real_or_generated, summarize, table
from tests.synthetic.programs import COLUMNS, connect_to_rows

levels = importlib.import_module("duckdp.synthetic.lp.make.levels")


@pytest.fixture(scope="module")
def con():
    connection = connect_to_rows()
    yield connection
    connection.close()


def moments(table_or_rows, basis):
    x = [axis.to_unit(np.asarray(v, dtype=float)) for axis, v in zip(basis.axes, table_or_rows, strict=True)]
    return basis.evaluate(np.stack(x, axis=1)).mean(axis=0)


@pytest.mark.parametrize(
    ("names", "degree", "neighbours"),
    [
        (["a"], 8, Neighbours.ADD_REMOVE),
        (["a", "b"], 5, Neighbours.ADD_REMOVE),
        (["a", "b"], 5, Neighbours.REPLACE),
        (["a", "b", "c"], 3, Neighbours.ADD_REMOVE),
    ],
)
def test_moments_are_close_to_those_of_the_data(con, names, degree, neighbours):
    summary = summarize(con, table(*COLUMNS), names, degree=degree, neighbours=neighbours)
    made = synthesize(summary, 20_000)
    found = con.execute(f"SELECT {', '.join(names)} FROM t").fetchnumpy()
    true = moments([found[n] for n in names], summary.basis)
    noise = summary.noise.deviation / 2**summary.bits / 40_000
    miss = np.abs(moments(made.columns.values(), summary.basis) - true)
    # 60 deviations of either law have a probability below e^-40; twice for the fit; 0.003 for 20,000 rows on the grid.
    assert miss.max() < 60 * noise + 0.003
    assert np.mean(miss) < 6 * noise + 0.003


def test_real_people(con):
    with connect() as other:
        tab = real_or_generated(other)
        summary = summarize(other, tab, ["age", "hours_per_week"], degree=6)
        made = synthesize(summary, 5000)
        true = other.execute("SELECT avg(age), avg(hours_per_week), corr(age, hours_per_week) FROM t").fetchone()
    age, hours = made.columns["age"], made.columns["hours_per_week"]
    assert abs(age.mean() - true[0]) < 1.5
    assert abs(hours.mean() - true[1]) < 1.5
    assert abs(np.corrcoef(age, hours)[0, 1] - true[2]) < 0.1


def test_types_and_bounds(con):
    made = synthesize(summarize(con, table(*COLUMNS), ["a", "b", "c"], degree=3), 5000)
    assert made.rows == 5000
    assert made.types == {"a": "BIGINT", "b": "DOUBLE", "c": "DECIMAL(4,2)"}
    assert list(made.columns) == ["a", "b", "c"]
    assert made.columns["a"].dtype == np.int64
    for spec in COLUMNS:
        values = made.columns[spec.name]
        assert values.min() >= spec.lower
        assert values.max() <= spec.upper
        assert np.isfinite(values.astype(float)).all()
    assert (np.round(made.columns["c"], 2) == made.columns["c"]).all()


def test_values_reach_duckdb_in_their_types(con):
    made = synthesize(summarize(con, table(*COLUMNS), ["a", "b", "c"], degree=3), 500)
    con.register("made", made.columns)
    shown = ", ".join(f"CAST({n} AS {t}) AS {n}" for n, t in made.types.items())
    con.execute(f"CREATE OR REPLACE TABLE made_table AS SELECT {shown} FROM made")
    con.unregister("made")
    assert con.execute("SELECT count(*) FROM made_table WHERE a NOT BETWEEN 0 AND 110 OR c > 1").fetchone() == (0,)


def test_integers_beyond_int64_stay_exact():
    wide = column("w", 2**64, 2**65, "HUGEINT", nullable=False)
    with connect() as other:
        other.execute(f"CREATE TABLE t AS SELECT ({2**64}::HUGEINT + i * 1000000000000000) AS w FROM range(9000) r(i)")
        made = synthesize(summarize(other, table(wide), ["w"], degree=3), 50)
    assert all(type(v) is int and 2**64 <= v <= 2**65 for v in made.columns["w"].tolist())
    again = SyntheticTable.load(made.dump())
    assert again.columns["w"].tolist() == made.columns["w"].tolist()


def test_support_is_chosen_from_public_figures(con):
    first, second = (make_grid(summarize(con, table(*COLUMNS), ["a", "b"], degree=4)) for _ in range(2))
    assert first.values == second.values
    assert (first.values[0][0], first.values[0][-1]) == (0, 110)
    assert (first.values[1][0], first.values[1][-1]) == (-1.0, 3.0)
    basis = make_basis(COLUMNS[:2], 4)
    points = np.array([[x / 55 - 1, (y + 1) / 2 - 1] for x in first.values[0] for y in first.values[1]])
    places = np.stack(np.unravel_index(np.arange(first.grid.size), first.shape), axis=1)
    np.testing.assert_allclose(first.grid.columns(places), basis.evaluate(points).T, atol=1e-12)


def test_drawn_rows_follow_the_weights():
    rng = np.random.default_rng(2)
    weights = rng.dirichlet(np.full(3000, 0.05))
    for rows in (1, 999, 50_000, 10**6, MAX_ROWS):
        points = draw_points(weights, rows)
        counts = np.bincount(points, minlength=3000)
        assert counts.sum() == rows
        assert np.max(np.abs(counts - rows * weights)) < 1 + 2e-3
        assert rows < 999 or not (np.diff(points) >= 0).all()
    # broken twin: the unit that was taken once leaves int64 at the most rows
    assert MAX_ROWS * 2**40 > 2**63 > 2 * MAX_ROWS * sample._UNIT


def test_independent_draws_are_multinomial():
    weights = np.array([0.5, 0.0, 0.25, 0.25])
    spread, systematic = [], []
    for _ in range(200):
        counts = np.bincount(draw_independent(weights, 1000), minlength=4)
        assert counts.sum() == 1000
        assert counts[1] == 0
        spread.append(counts[0])
        systematic.append(np.bincount(draw_points(weights, 1000), minlength=4)[0])
    # the variance of 200 binomial counts over its mean, 250, is chi-square / 200: outside with probability below 1e-9
    assert 0.5 < np.var(spread) / 250 < 1.8
    assert abs(np.mean(spread) - 500) < 6 * np.sqrt(250 / 200)
    assert np.var(systematic) < 1  # broken twin: those follow the weights too closely for independent rows


def test_rows_follow_from_a_release():
    weights = np.random.default_rng(3).dirichlet(np.ones(50))
    for draw in (draw_points, draw_independent):
        first, again, other = (draw(weights, 500, bytes_of(text)) for text in ("one", "one", "two"))
        assert (first == again).all()
        assert (first != other).any()
    first = draw_points(weights, 500, bytes_of("one"))
    assert (first != draw_points(weights, 500, bytes_of("one"), purpose="missing")).any()


def test_one_row_is_drawn_with_the_right_chance():
    drawn = np.bincount([int(draw_points(np.array([0.25, 0.0, 0.75]), 1)[0]) for _ in range(2000)], minlength=3)
    assert drawn[1] == 0
    assert 380 < drawn[0] < 620  # Binomial(2000, 1/4): outside with probability below 1e-9


def test_payload_round_trip_and_damage(con):
    made = synthesize(summarize(con, table(*COLUMNS), ["a", "b"], degree=3), 200)
    again = SyntheticTable.load(made.dump())
    assert again.dump() == made.dump()
    assert again.columns["a"].dtype == made.columns["a"].dtype
    raw = json.loads(made.dump())
    for bad in (
        "",
        "[]",
        "null",
        json.dumps({**raw, "format": 2}),
        json.dumps({**raw, "kind": "x"}),
        json.dumps({**raw, "table": 3}),
        json.dumps({**raw, "columns": []}),
        json.dumps({**raw, "residual": None}),
        json.dumps({**raw, "columns": [["a", "BIGINT", [1, "x"]]]}),
        json.dumps({**raw, "columns": [["a", "NOPE", [1]]]}),
        json.dumps({**raw, "columns": [["a", "BIGINT", [1]], ["b", "DOUBLE", [1.0, 2.0]]]}),
        json.dumps({**raw, "columns": [["a", "BIGINT", [1]], ["a", "BIGINT", [1]]]}),
    ):
        with pytest.raises(CatalogError) as caught:
            SyntheticTable.load(bad)
        assert caught.value.code == "C105"


@pytest.mark.parametrize("rows", [0, -1, MAX_ROWS + 1, 1.5, "10", True])
def test_rows_out_of_range_are_refused(con, rows):
    with pytest.raises(ParameterError) as caught:
        synthesize(summarize(con, table(*COLUMNS), ["a"], degree=2), rows)
    assert (caught.value.code, caught.value.name) == ("P107", "rows")


def test_a_summary_without_rows_gives_no_table(con):
    summary = summarize(con, table(COLUMNS[0]), ["a"], degree=3)
    # the half-width at level 0.95 is between 1.64 and 2.17 deviations of the count
    deviation = float(summary.noise.deviations[0])
    margin, little = round(2.2 * deviation), round(1.6 * deviation)
    public = dataclasses.replace(summary, moments=(0, 5, 7), count=0)
    for count in (0, -margin, little):
        noisy = dataclasses.replace(summary, moments=(count, *summary.moments[1:]))
        for bad in (noisy, public):
            with pytest.raises(NumericalError) as caught:
                synthesize(bad, 10)
            assert (caught.value.code, caught.value.status) == ("N101", "no rows")
    assert synthesize(dataclasses.replace(summary, moments=(margin, *summary.moments[1:])), 10).rows == 10


def test_constant_data_and_one_row():
    with connect() as other:
        other.execute("CREATE TABLE t AS SELECT 30 AS a FROM range(50000)")
        made = synthesize(summarize(other, table(COLUMNS[0]), ["a"], degree=6), 1000)
        assert abs(made.columns["a"].mean() - 30) < 1
        assert made.columns["a"].std() < 5
        other.execute("CREATE OR REPLACE TABLE t AS SELECT 30 AS a")
        one = summarize(other, table(COLUMNS[0]), ["a"], degree=2, neighbours=Neighbours.REPLACE)
        assert synthesize(one, 3).rows == 3


def test_too_many_columns_are_refused_at_once():
    many = tuple(column(f"c{i}", nullable=False) for i in range(12))
    with connect() as other:
        listed = ", ".join(f"random() AS c{i}" for i in range(12))
        other.execute(f"CREATE TABLE t AS SELECT {listed} FROM range(9)")
        summary = summarize(other, table(*many), [c.name for c in many], degree=5, order=1, epsilon=100)
    with pytest.raises(NumericalError) as caught:
        synthesize(dataclasses.replace(summary, moments=(10**18 >> 2, *summary.moments[1:])), 10)
    assert (caught.value.code, caught.value.status) == ("N101", "too large")
    assert caught.value.advice


def test_a_solver_out_of_time_says_so_or_gives_its_best(con, monkeypatch):
    monkeypatch.setattr(levels, "TIME_LIMIT", 0.0)
    summary = summarize(con, table(*COLUMNS), ["a", "b"], degree=4)
    try:
        assert synthesize(summary, 10).rows == 10
    except NumericalError as error:
        assert (error.code, error.status) == ("N101", "time limit")


def test_dates_domains_and_booleans_come_back_in_their_types():
    spec = (
        column("d", dt.date(2020, 1, 1), dt.date(2020, 12, 31), "DATE", nullable=False),
        column("s", None, None, "VARCHAR", domain=("x", "y", None)),
        column("f", None, None, "BOOLEAN", nullable=False),
    )
    with connect() as other:
        other.execute(
            "CREATE TABLE t AS SELECT DATE '2020-01-01' + (i % 90)::INTEGER AS d, i % 4 = 0 AS f, "
            "CASE WHEN i % 5 = 0 THEN NULL WHEN i % 5 = 1 THEN 'x' ELSE 'y' END AS s FROM range(40000) r(i)"
        )
        summary = summarize(other, table(*spec), ["d", "s", "f"], degree=6, epsilon=5)
    made = synthesize(summary, 2000)
    again = SyntheticTable.load(made.dump())
    assert again.dump() == made.dump()
    assert {type(v) for v in made.columns["d"].tolist()} == {dt.date}
    shares = {v: np.mean([w == v for w in made.columns["s"].tolist()]) for v in ("x", "y", None)}
    assert shares == pytest.approx({"x": 0.2, "y": 0.6, None: 0.2}, abs=0.03)
    assert np.mean(made.columns["f"].tolist()) == pytest.approx(0.25, abs=0.03)
    assert abs(np.mean([(v - dt.date(2020, 1, 1)).days for v in made.columns["d"].tolist()]) - 44.5) < 5


def test_progress_is_told(con):
    told = []
    synthesize(summarize(con, table(*COLUMNS), ["a"], degree=3), 5, progress=lambda *step: told.append(step))
    stages = [stage for stage, _ in told]
    assert list(dict.fromkeys(stages)) == ["support", "program", "sample", "done"]
    assert [share for _, share in told] == sorted(share for _, share in told)
    assert told[-1][1] == 1.0

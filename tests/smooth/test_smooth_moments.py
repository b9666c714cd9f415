"""One SUM per function: exactly the integers of a numpy reference, and at most max_rows 2^f per privacy unit."""

import re

import numpy as np
import pytest

from duckdp.smooth.summary import make_basis
from duckdp.smooth.sums import scan
from duckdp.smooth.sums.direct import DirectSums, bits_without_clamp
from tests.smooth.tables import column, connect, reference, run, table

BOUNDS = ((-3.0, 7.0), (0.0, 0.1), (10.0, 11.0))


@pytest.fixture
def con():
    connection = connect()
    yield connection
    connection.close()


def fill(con, n=3000, seed=1):
    """A table t with columns a, b, c of doubles partly outside their bounds, NULL and NaN among them, and a key k."""
    rng = np.random.default_rng(seed)
    x = np.stack([rng.normal((lo + up) / 2, up - lo, n) for lo, up in BOUNDS], axis=1)
    x[0], x[1], x[2] = [lo for lo, _ in BOUNDS], [up for _, up in BOUNDS], [0.0, -0.0, 10.5]
    x[3], x[4] = np.inf, -np.inf
    key = rng.zipf(1.3, n).clip(0, 500)
    missing = rng.random((n, 3))
    frame = {c: x[:, i] for i, c in enumerate("abc")} | {f"m{c}": missing[:, i] for i, c in enumerate("abc")}
    con.register("frame", {**frame, "k": key})
    shown = ", ".join(
        f"CASE WHEN m{c} < 0.03 THEN NULL WHEN m{c} < 0.06 THEN 'nan'::DOUBLE ELSE {c} END AS {c}" for c in "abc"
    )
    con.execute(f"CREATE TABLE t AS SELECT {shown}, k FROM frame")
    con.unregister("frame")
    lows, highs = (np.array(b) for b in zip(*BOUNDS, strict=True))
    clean = np.where(missing < 0.06, np.nan, np.clip(x, lows, highs))
    return clean, key


def columns(d, **more):
    return tuple(column(name, *bounds, **more) for name, bounds in zip("abc"[:d], BOUNDS, strict=False))


def plan(tab, cols, basis, bits):
    return DirectSums(table=tab, columns=cols, basis=basis, bits=bits)


def sums(con, tab, cols, basis, bits):
    program = plan(tab, cols, basis, bits)
    return program.collect(run(con, program.query()))


@pytest.mark.parametrize(("d", "t"), [(1, 2), (1, 3), (1, 20), (2, 2), (2, 5), (3, 2), (3, 4)])
@pytest.mark.parametrize("bits", [0, 10, 40])
@pytest.mark.parametrize("key", [None, "k"])
def test_sums_are_the_integers_of_the_reference(con, d, t, bits, key):
    clean, units = fill(con)
    cols = columns(d)
    tab, basis = table(*cols, unit_key=key, max_rows=3), make_basis(cols, t)
    kept = ~np.isnan(clean[:, :d]).any(axis=1)
    wanted = reference(clean[kept, :d], basis, bits, units[kept] if key else None, 3)
    assert sums(con, tab, cols, basis, bits) == list(wanted.sum(axis=0))


def test_a_default_for_null_keeps_every_row(con):
    clean, _ = fill(con)
    cols = columns(2, null_value=0.05, nullable=False)
    basis = make_basis(cols, 4)
    found = sums(con, table(*cols), cols, basis, 20)
    filled = np.where(np.isnan(clean[:, :2]), 0.05, clean[:, :2])
    assert list(found) == list(reference(filled, basis, 20).sum(axis=0))
    assert found[0] == len(clean) << 20


def test_a_view_filter_applies(con):
    clean, _ = fill(con)
    cols = columns(1)
    tab = table(*cols, filter="c > 10.5", base=columns(3))
    basis = make_basis(cols, 3)
    kept = (clean[:, 2] > 10.5) & ~np.isnan(clean[:, 0])
    assert sums(con, tab, cols, basis, 12) == list(reference(clean[kept, :1], basis, 12).sum(axis=0))


@pytest.mark.parametrize("condition", ["false", "a IS NULL", "isnan(a)"])
def test_no_row_that_counts_gives_zeros(con, condition):
    fill(con)
    con.execute(f"CREATE TABLE u AS FROM t WHERE {condition}")
    for key in (None, "k"):
        cols = columns(1)
        tab = table(*cols, name="u", unit_key=key)
        assert sums(con, tab, cols, make_basis(cols, 5), 30) == [0] * 5


def test_numbers_of_other_types_and_odd_names(con):
    con.execute(
        'CREATE TABLE t AS SELECT (i % 7)::UTINYINT AS "x""y", (i % 5)::DECIMAL(6,2) AS "SELECT" FROM range(100) r(i)'
    )
    cols = (column('x"y', 0, 6, "UTINYINT"), column("SELECT", 0.0, 4.0, "DECIMAL(6,2)"))
    basis = make_basis(cols, 3)
    x = np.stack([np.arange(100) % 7, np.arange(100) % 5], axis=1).astype(float)
    assert sums(con, table(*cols), cols, basis, 20) == list(reference(x, basis, 20).sum(axis=0))


@pytest.mark.parametrize(
    "bounds", [(0.0, 5e-324), (-1e100, 1e100), (1e99, 1e100), (1.0, 1.0 + 2.0**-52), (-5e-324, 0.0)]
)
def test_extreme_bounds_stay_within_one_row(con, bounds):
    con.execute(
        "CREATE TABLE t AS SELECT unnest([0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 1.0, 1.0000000000000002, 1e100,"
        " 'inf'::DOUBLE, '-inf'::DOUBLE, 'nan'::DOUBLE, NULL]) AS a"
    )
    cols = (column("a", *bounds),)
    for value in con.execute("SELECT DISTINCT a FROM t").fetchall():
        con.execute("CREATE OR REPLACE TABLE one AS SELECT ?::DOUBLE AS a", list(value))
        basis = make_basis(cols, 33)
        bits = bits_without_clamp(basis, 40)
        found = sums(con, table(*cols, name="one"), cols, basis, bits)
        assert found[0] in (0, 1 << bits)
        assert all(abs(v) <= found[0] for v in found)


def unit_totals(con, seed, max_rows, bits, t=6):
    """|sums| of tables that hold one unit each, of very different sizes, at the bounds and at random."""
    rng = np.random.default_rng(seed)
    cols = (column("a"),)
    tab = table(*cols, unit_key="k", max_rows=max_rows)
    for rows in (1, 2, max_rows, max_rows + 1, 997):
        for x in (np.ones(rows), np.zeros(rows), rng.random(rows)):
            con.register("frame", {"a": x})
            con.execute("CREATE OR REPLACE TABLE t AS SELECT a, 1 AS k FROM frame")
            con.unregister("frame")
            yield max(map(abs, sums(con, tab, cols, make_basis(cols, t), bits)))


@pytest.mark.parametrize("max_rows", [1, 3, 7])
@pytest.mark.parametrize("bits", [0, 5, 40])
def test_a_unit_adds_at_most_max_rows(con, max_rows, bits):
    assert max(unit_totals(con, 5, max_rows, bits)) == max_rows << bits


def test_the_unit_bound_is_caught_when_the_weights_are_skipped(con, monkeypatch):
    def all_the_same(sql, names, max_rows, bits):
        return f"(SELECT s.*, CAST({1 << bits} AS DOUBLE) AS w FROM {sql} AS s)"

    monkeypatch.setattr(scan, "_print_weights", all_the_same)
    assert max(unit_totals(con, 5, 3, 20)) == 997 << 20


def test_units_do_not_change_each_other(con):
    _, units = fill(con)
    cols = columns(2)
    tab, basis = table(*cols, unit_key="k", max_rows=2), make_basis(cols, 4)
    with_all = np.array(sums(con, tab, cols, basis, 30), dtype=object)
    con.execute("DELETE FROM t WHERE k = 1")
    without = np.array(sums(con, tab, cols, basis, 30), dtype=object)
    assert (units == 1).sum() > 2
    assert max(abs(with_all - without)) <= 2 << 30


def test_rows_without_a_unit_do_not_count(con):
    con.execute("CREATE TABLE t AS SELECT 1.0::DOUBLE AS a, CASE WHEN i > 2 THEN i END AS k FROM range(10) r(i)")
    cols = (column("a"),)
    assert sums(con, table(*cols, unit_key="k"), cols, make_basis(cols, 2), 8) == [7 << 8, 7 << 8]


def test_planted_macros_change_nothing(con):
    fill(con)
    cols = columns(2)
    query = plan(table(*cols, unit_key="k"), cols, make_basis(cols, 3), 20).query()
    before = run(con, query)
    for name, arguments in (("floor", "x"), ("sum", "x"), ("isnan", "x"), ("count_star", "")):
        con.execute(f"CREATE MACRO main.{name}({arguments}) AS 0")
    assert run(con, query) == before


def test_every_function_is_qualified_and_bounds_are_bound():
    cols = columns(3)
    query = plan(table(*cols, unit_key="k", max_rows=4), cols, make_basis(cols, 4), 20).query()
    called = set(re.findall(r"(?<![\w.])([a-z_]+)\(", query.sql))
    assert called == set()
    assert set(re.findall(r"system\.main\.([a-z_]+)\(", query.sql)) == {"sum", "isnan", "count_star"}
    assert query.parameters == tuple(b for bounds in BOUNDS for b in bounds)


def test_a_large_plan_is_still_one_row(con):
    fill(con, n=10)
    cols = columns(2)
    assert len(sums(con, table(*cols), cols, make_basis(cols, 24), 20)) == 576

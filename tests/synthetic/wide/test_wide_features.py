"""Moments of wide tables: the SQL and the rows in memory agree."""

import duckdb
import numpy as np
import pytest

from duckdp.compiler.printing import number
from duckdp.synthetic.psi.buy import print_products
from duckdp.synthetic.unit.buy.sums_sql import print_sums
from duckdp.synthetic.unit.features import ONE, RADIAL, Factor, Features, label_factor
from tests.synthetic.in_memory import memory_products, memory_sums

D, BITS = 5, 20
NAMES = [f'"u{i}"' for i in range(D)]
ALL = Features(
    dimensions=D,
    centre=1.3,
    width=0.9,
    size=True,
    degree=3,
    pairs=True,
    columns=(0, 2, 3),
    factors=(ONE, RADIAL, label_factor(4, -0.3, D), Factor(weights=np.array([0.5, -0.5, 0, 0.1, 0]), width=0.4)),
)


@pytest.fixture(scope="module")
def rows():
    unit = np.random.default_rng(3).uniform(-1, 1, (400, D))
    unit[:, 4] = np.where(unit[:, 4] > 0, 1.0, -1.0)
    unit[:2] = [[1] * D, [-1] * D]
    return unit


@pytest.fixture(scope="module")
def con(rows):
    connection = duckdb.connect(config={"threads": 1})
    connection.register("frame", {f"u{i}": rows[:, i] for i in range(D)})
    connection.execute("CREATE TABLE t AS SELECT * FROM frame")
    connection.unregister("frame")
    yield connection
    connection.close()


@pytest.mark.parametrize("features", [ALL, Features(dimensions=D, factors=(ONE,)), Features(dimensions=D, size=True)])
def test_sql_gives_the_sums_of_the_rows(con, rows, features):
    found = con.execute(print_sums(features, "t", NAMES, BITS)).fetchall()[0]
    count, wanted = memory_sums(rows)(features, BITS)
    assert count == len(rows)
    assert len(found) == len(wanted) == features.count
    # a row's value may round the other way where the two sum squares in another order
    assert max(abs(a - b) for a, b in zip(found, wanted, strict=True)) <= 2
    np.testing.assert_allclose(np.array(found) / 2.0**BITS / count, features.means(rows), atol=2.0**-BITS)


def test_sql_of_no_rows_gives_zeros(con):
    assert set(con.execute(print_sums(ALL, "(SELECT * FROM t WHERE u0 > 2)", NAMES, BITS)).fetchall()[0]) == {0}


def test_sql_of_subspace_iteration(con, rows):
    basis = np.linalg.qr(np.random.default_rng(1).normal(size=(D, 2)))[0]
    centre = np.array([0.3, -0.9, 0, 0.5, 0.1])
    found = con.execute(print_products(centre, basis, "t", NAMES, BITS)).fetchall()[0]
    wanted = memory_products(rows)(centre, basis, BITS)
    assert max(abs(a - b) for a, b in zip(found, wanted, strict=True)) <= 2
    y = np.clip(rows - centre, -1, 1)
    np.testing.assert_allclose(np.array(found) / 2.0**BITS, (y.T @ (y @ basis)).ravel(), atol=len(rows) * 2.0**-BITS)


def test_a_row_adds_at_most_one_whatever_the_column_holds():
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT * FROM (VALUES ('nan'::DOUBLE, 'inf'::DOUBLE), (1e300, -1e300)) v(a, b)")
        features = Features(dimensions=2, size=True, degree=2, factors=(ONE, RADIAL), pairs=True, width=0.5)
        found = con.execute(print_sums(features, "t", ["a", "b"], BITS)).fetchall()[0]
    assert max(abs(v) for v in found) <= 2 * 2**BITS


def test_values_lie_in_the_box(rows):
    values = ALL.rows(rows)
    assert values.shape == (len(rows), ALL.count)
    assert np.abs(values).max() <= 1
    np.testing.assert_allclose(values.mean(axis=0), ALL.means(rows), atol=1e-12)


def test_constants_read_back_exactly(con):
    numbers = [0.0, -1.0, 0.1, 1 / 3, -2.5e-300, 5e-324, 1e22, 27.291629135047953, 2.0**40, float(np.nextafter(1, 2))]
    found = con.execute(f"SELECT {', '.join(map(number, numbers))}")
    assert {str(column[1]) for column in found.description} == {"DOUBLE"}
    assert list(found.fetchall()[0]) == numbers


def test_pairs_of_rows_come_in_their_order(rows):
    features = Features(dimensions=D, pairs=True)
    i, j = features.upper
    assert np.array_equal(features.rows(rows), rows[:, i] * rows[:, j])


def _moved(rows) -> int:
    """Values of rows that change to any bit when others leave, or stand elsewhere."""
    weights = np.random.default_rng(5).normal(size=rows.shape[1]) / rows.shape[1]
    f = Factor(weights=weights, width=0.4)
    made = Features(
        dimensions=rows.shape[1],
        centre=1.3,
        width=0.9,
        size=True,
        degree=2,
        factors=(f, RADIAL),
        crosses=((f, RADIAL),),
    )
    whole, moved = made.rows(rows), 0
    for kept in (slice(1, None), slice(3, None), slice(17, 18), slice(0, 2), slice(None, None, -1), slice(5, 400)):
        moved += int(np.sum(made.rows(np.ascontiguousarray(rows[kept])) != whole[kept]))
    return moved


def test_a_rows_values_are_those_of_that_row_alone(monkeypatch):
    rng = np.random.default_rng(4)
    tables = [rng.uniform(-1, 1, (1001, d)) for d in (1, 3, 10, 33, 120)]
    assert [_moved(rows) for rows in tables] == [0] * len(tables)

    def by_blocks(u, weights):
        """The twin, as matrix products have it: rows that fill no block of four are added from the other end."""
        w = np.stack([np.broadcast_to(v, len(u)) for v in weights], axis=1)
        whole = len(u) // 4 * 4
        parts = [(u[:whole] * w[:whole])[:, ::-1].cumsum(axis=1)[:, -1], (u * w)[whole:].cumsum(axis=1)[:, -1]]
        return np.concatenate(parts)

    monkeypatch.setattr("duckdp.synthetic.unit.features.in_order", by_blocks)
    assert _moved(tables[3]) > 0

"""What one unit changes in the exact sums of kernels: by brute force on every path; and twins beyond the bound."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from duckdp.core.types import NANO, Neighbours
from duckdp.errors import InternalError
from duckdp.mechanisms import kernels as mechanism
from duckdp.smooth import product_kernels
from duckdp.smooth.buy.kernel_release import FINE, plan_kernels_on
from duckdp.smooth.product_kernels import Kernels, kernels_of_basis
from duckdp.smooth.summary import make_basis
from duckdp.smooth.sums import kernel_sums
from duckdp.smooth.sums.kernel_sums import plan_kernel_sums
from duckdp.smooth.sums.moments import plan_moments
from tests.mechanisms.test_kernels import twin
from tests.smooth.tables import column, connect, reference, run, table

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
X, Y = column("x", nullable=False), column("y", -3.0, 5.0, nullable=False)
S = column("s", None, None, "VARCHAR", domain=tuple("abcde"), nullable=False)
K = column("k", 0, 6, "INTEGER", nullable=False)
CASES = {
    "one column": ((X,), 9),
    "one column, many": ((X,), 64),
    "two columns": ((X, Y), 6),
    "three columns": ((X, Y, K), 4),
    "listed": ((S, K), 8),
    "both kinds": ((X, S), 5),
    "a public count": ((X,), 7),
}


def sums_of(columns, degree, path="sums", *, epsilon=Fraction(1), **more):
    tab = table(*columns, **more)
    moments = plan_moments(tab, columns, make_basis(columns, degree), epsilon=epsilon, path=path, relative=True)
    found = plan_kernel_sums(moments)
    assert found is not None
    return found


def change(values):
    return sum(abs(v) for v in values)


def places(columns, n, seed=3):
    """Points as ``reference`` takes them: many at random, at ends, nodes of kernels and next to them."""
    rng = np.random.default_rng(seed)
    found = []
    for c in columns:
        if c.domain is not None or c.integral:
            found.append(rng.integers(0, 5 if c.domain is not None else 7, n).astype(float))
            continue
        u = np.concatenate([rng.uniform(-1, 1, n // 2), np.cos(rng.uniform(0, np.pi, n - n // 2 - 3)), [-1, 1, 0]])
        rng.shuffle(u)
        found.append(c.lower + (u + 1) / 2 * (c.upper - c.lower))
    return np.stack(found, axis=1)


def vectors(sums, x):
    """Exact sums of kernels of tables of one row each, object[n, R], rounded as a table's are: by another way."""
    q = reference(x, sums.moments.basis, sums.moments.bits)
    matrices = {id(c): kernel_sums._whole(c.to_kernels) for c in sums.kernels.columns}
    shift = 60 * len(sums.kernels.columns)
    return (sums.kernels.along(q, lambda c: matrices[id(c)]) + (1 << (shift - 1))) >> shift


@pytest.mark.parametrize("case", CASES)
def test_a_row_changes_kernels_by_no_more_than_the_bound_and_by_nearly_that(case):
    columns, degree = CASES[case]
    sums = sums_of(columns, degree)
    assert sums.kernels.size == sums.moments.basis.size
    x = places(columns, 400)
    found = vectors(sums, x)
    unit = 1 << sums.moments.bits
    one, two = sums.l1(ADD_REMOVE), sums.l1(REPLACE)
    assert unit < one < unit * 1.0001
    assert one < two < unit * 2.0001
    added = np.abs(found).sum(axis=1)
    assert all(unit * 0.9999 < change <= one for change in added.tolist())
    assert max(np.square(found.astype(float)).sum(axis=1)) <= float(one) ** 2  # l2 too
    apart = np.abs(found[:, None, :64] - found[None, :64, :64]).sum(axis=2) if found.shape[1] <= 64 else added
    assert apart.max() <= two
    if case == "listed":
        assert apart.max() > unit * 1.9999  # two values share no kernel


@pytest.mark.parametrize(
    ("case", "unit_key", "path"),
    [  # blocks have no bound for units of many rows
        *((case, None, path) for case in ("two columns", "both kinds") for path in ("sums", "cells", "blocks")),
        *(("listed", "u", path) for path in ("sums", "cells")),
    ],
)
def test_neighbours_through_duckdb(case, unit_key, path):
    """Tables that differ in one unit, read by the private SQL."""
    columns, degree = CASES[case]
    more = {"unit_key": unit_key, "max_rows": 3} if unit_key else {}
    sums = sums_of(columns, degree, path, row_cap=10_000, **more)
    names = [c.name for c in columns]
    rng = np.random.default_rng(8)

    def rows(n, unit):
        cells = {
            "x": rng.random(n),
            "y": rng.uniform(-3, 5, n),
            "k": rng.integers(0, 7, n),
            "s": rng.choice([*"abcde"], n),
        }
        return list(zip(*(cells[name].tolist() for name in names), [unit] * n, strict=True))

    shared = [row for unit in range(12) for row in rows(1 + unit % 4, unit)]
    types = {"x": "DOUBLE", "y": "DOUBLE", "k": "INTEGER", "s": "VARCHAR"}

    def read(table_rows):
        with connect() as con:
            con.execute(f"CREATE TABLE t ({', '.join(f'{n} {types[n]}' for n in names)}, u INTEGER)")
            con.executemany(f"INSERT INTO t VALUES ({', '.join('?' * (len(names) + 1))})", table_rows)
            return sums.collect(sums.moments.collect(iter(run(con, sums.moments.query()))))

    base, unit = read(shared), (3 if unit_key else 1) << sums.moments.bits
    for n in (1, 2, 3, 7, 50) if unit_key else (1,) * 4:
        mine, other = rows(n, 99), rows(n, 99)
        with_mine, with_other = read(shared + mine), read(shared + other)
        moved = change(a - b for a, b in zip(base, with_mine, strict=True))
        assert min(n, 3) * 0.99 * (unit / 3 if unit_key else unit) < moved <= sums.l1(ADD_REMOVE)
        if not unit_key:
            assert change(a - b for a, b in zip(with_mine, with_other, strict=True)) <= sums.l1(REPLACE)


def test_a_heavy_unit_weighs_max_rows_whatever_its_rows_are():
    """Rows that weigh little are rounded relative to their weight; the twin rounds each to a step, and adds up."""
    sums = sums_of((X,), 6, row_cap=10**13, unit_key="u", max_rows=2)
    plain = plan_moments(
        table(X, row_cap=10**13, unit_key="u", max_rows=2), (X,), sums.moments.basis, epsilon=Fraction(1), path="sums"
    )
    assert not plain.relative
    assert plan_kernel_sums(plain) is None
    with pytest.raises(InternalError):
        dataclasses.replace(sums, moments=plain).l1(ADD_REMOVE)
    assert sums.moments.bits == plain.bits
    for x in (0.03, 0.11, 0.29, 0.5, 0.77):
        assert 0.95 * (2 << plain.bits) < moved(sums, x, 60_000) <= sums.l1(ADD_REMOVE)
    heavy, points = 2 << plain.bits, 2 * np.linspace(0, 1, 101)[:, None] - 1  # so many rows weigh a step each
    rounded = np.rint(sums.moments.basis.evaluate(points))
    beyond = np.abs(rounded @ sums.kernels.columns[0].to_kernels.T).sum(axis=1) * heavy
    assert beyond.max() > 1.2 * sums.l1(ADD_REMOVE)


def moved(sums, x, n):
    with connect() as con:
        con.execute("CREATE TABLE t (x DOUBLE, u INTEGER)")
        empty = sums.collect(sums.moments.collect(iter(run(con, sums.moments.query()))))
        con.execute("INSERT INTO t SELECT ?, 1 FROM range(?)", [x, n])
        found = sums.collect(sums.moments.collect(iter(run(con, sums.moments.query()))))
    assert empty == [0] * len(empty)
    return change(found)


@pytest.mark.parametrize("weights", [lambda r, t: 1 - r / (t + 2), lambda r, t: np.ones(t)])
def test_twins_that_are_negative_somewhere_go_beyond_the_bound(monkeypatch, weights):
    monkeypatch.setattr(product_kernels, "fejer_kernels", lambda t: twin(t, weights(np.arange(t), t)))
    sums = Kernels(tuple(product_kernels._column(a) for a in make_basis((X, Y), 6).axes))
    honest = sums_of((X, Y), 6)
    found = vectors(dataclasses.replace(honest, kernels=sums), places((X, Y), 2000))
    assert np.abs(found).sum(axis=1).max() > honest.l1(ADD_REMOVE)


def test_back_and_forth_changes_nothing_but_the_last_bits():
    for columns, degree in CASES.values():
        sums = sums_of(columns, degree)
        rng = np.random.default_rng(1)
        exact = [int(v) << sums.moments.bits for v in rng.integers(-1000, 1000, sums.kernels.size)]
        found = sums.functions(sums.collect(exact))
        spread = np.abs(sums.kernels.along(np.ones((1, sums.kernels.size)), lambda c: np.abs(c.to_functions))).max()
        largest = max(abs(v) for v in exact)
        allowed = sums.row_error * largest + spread + 2
        assert max(abs(a - b) for a, b in zip(found, exact, strict=True)) <= allowed


def test_sums_have_no_range():
    sums = sums_of((X,), 4)
    huge = [1 << 200, 0, 0, 0]
    assert abs(sum(sums.collect(huge)) - (1 << 200)) < 1 << 160
    assert sums.functions(sums.collect(huge))[0] >> 190 in (1023, 1024)


def test_only_full_tensors_of_few_enough_functions_have_kernels():
    axes = make_basis((X, Y), 5)
    assert kernels_of_basis(axes).shape == (5, 5)
    assert kernels_of_basis(make_basis((X, Y), 5, "total_degree")) is None
    assert kernels_of_basis(make_basis((X, Y), 5, "tensor", 1)) is None
    assert kernels_of_basis(make_basis((X, Y), 5, "tensor", 2)).size == 25
    assert kernels_of_basis(make_basis((X,), 5, "total_degree")).size == 5
    assert kernels_of_basis(make_basis((X,), product_kernels.MOST_NODES + 1)) is None
    divided = dataclasses.replace(axes, axes=(dataclasses.replace(axes.axes[0], partition=True), axes.axes[1]))
    assert kernels_of_basis(divided) is None


def test_a_coarse_grid_has_no_kernels():
    sums = sums_of((X, Y), 8, row_cap=10**15)
    assert sums.moments.bits < 14
    assert plan_kernels_on(sums, ADD_REMOVE, False, NANO, 2) is None or (1 << sums.moments.bits) >= 64 * FINE


def test_what_is_rounded_is_counted(monkeypatch):
    """Row errors enter the bound: a twin without them is below what coarse cells really change."""
    sums = sums_of((X, Y), 6, "blocks")
    assert sums.excess > 2 * 2.0**-20
    assert sums.l1(ADD_REMOVE) - (1 << sums.moments.bits) > sums.kernels.size
    rounded = sums.l1(ADD_REMOVE) - (1 << sums.moments.bits) * (1 + Fraction(sums.excess))
    spectral = np.linalg.norm(np.kron(*(c.to_kernels for c in sums.kernels.columns)), 2)
    assert rounded >= sums.kernels.size * (spectral + 1)  # sqrt(R) s |rho|, |rho| < sqrt(R), of M; and of S
    coarse = dataclasses.replace(sums, moments=dataclasses.replace(sums.moments, row_error=0.01))
    assert coarse.excess > 0.05
    rng, unit = np.random.default_rng(5), 1 << sums.moments.bits
    x = places((X, Y), 300)
    worst = 0
    for signs in rng.choice([-1, 1], (20, sums.kernels.size)):
        q = reference(x, sums.moments.basis, sums.moments.bits) + (signs * int(0.01 * unit)).astype(object)
        matrices = {id(c): kernel_sums._whole(c.to_kernels) for c in sums.kernels.columns}
        found = sums.kernels.along(q, lambda c, m=matrices: m[id(c)]) >> 120
        worst = max(worst, *np.abs(found).sum(axis=1).tolist())
    assert sums.l1(ADD_REMOVE) < worst <= coarse.l1(ADD_REMOVE)


def test_listed_values_and_their_places_are_those_of_the_axis():
    """The kernels of listed values are made for the places that an axis gives them."""
    for count in (1, 2, 3, 7, 40):
        axis = make_basis((column("d", None, None, "VARCHAR", domain=tuple(f"v{i}" for i in range(count))), X), 3).axes[
            0
        ]
        found = mechanism.indicator_kernels(count).to_functions
        assert found == pytest.approx(np.polynomial.chebyshev.chebvander(axis.nodes, count - 1).T, abs=1e-11)

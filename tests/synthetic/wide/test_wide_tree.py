"""A tree's estimates, its rows, and the way from SQL to a synthetic table with the pairs it bought."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from duckdp.bench.measure import read_rows
from duckdp.compiler.printing import Parameters
from duckdp.core.task import Stages
from duckdp.core.types import NANO, Neighbours
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.stored import read_synthesis
from duckdp.synthetic.tree.bins import make_bins, spread_rows
from duckdp.synthetic.tree.buy.bin_sql import print_code
from duckdp.synthetic.tree.make.dealing import Model, make_codes, order_columns
from duckdp.synthetic.tree.make.estimates import (
    estimate_pair,
    estimate_rows,
    estimate_shares,
    merge_bins,
    pool_counts,
    scale_margins,
    tilt_pair,
    to_simplex,
)
from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.tree.spending import TreePlan
from duckdp.synthetic.unit.buy.unit_sql import print_items
from duckdp.synthetic.unit.layout import make_units
from tests.smooth.tables import column, connect, table
from tests.synthetic.plans import encode, plan_wide
from tests.synthetic.wide.trees import three_columns

SPEC = (
    column("age", 0, 100, "INTEGER"),
    column("pay", 0.0, 10.0, "DECIMAL(6,2)"),
    column("day", dt.date(2020, 1, 1), dt.date(2020, 12, 31), "DATE"),
    column("city", None, None, "VARCHAR", domain=("x", "y", "z")),
    column("sick", None, None, "BOOLEAN"),
)
ROWS = 20_000
DATA = f"""CREATE TABLE t AS SELECT CASE WHEN i % 7 > 0 THEN (20 + i % 40)::INTEGER END AS age,
    CASE WHEN i % 10 > 0 THEN ((i * 7) % 1000 / 200.0)::DECIMAL(6,2) END AS pay,
    DATE '2020-01-01' + (i % 100)::INTEGER AS day,
    CASE i % 5 WHEN 0 THEN 'x' WHEN 1 THEN 'elsewhere' ELSE 'y' END AS city,
    CASE WHEN i % 5 = 0 THEN true WHEN i % 5 < 4 THEN false END AS sick FROM range({ROWS}) r(i)"""


def test_the_nearest_point_of_the_simplex() -> None:
    assert to_simplex(np.array([3.0, -1.0, 1.0]), 4.0).tolist() == [3.0, 0.0, 1.0]
    assert to_simplex(np.array([-5.0, -5.0]), 1.0).tolist() == [0.5, 0.5]


def test_a_prior_helps_where_noise_is_large() -> None:
    rng = np.random.default_rng(3)  # its own: the same draws whatever else runs
    shares, rows = np.diff(np.concatenate([[0], np.cumsum(np.exp(-np.arange(10) / 2.0))])), 1000
    shares /= shares.sum()
    ours, plain = [], []
    for _ in range(20):
        noisy = rows * shares + rng.normal(0, 60, 10)
        ours.append(np.abs(estimate_shares(noisy, 60.0, rows, ordered=True) - shares).sum() / 2)
        plain.append(np.abs(to_simplex(noisy, rows) / rows - shares).sum() / 2)
    assert np.mean(ours) < 0.85 * np.mean(plain)
    exact = estimate_shares(rows * shares, 0.01, rows, ordered=True)
    np.testing.assert_allclose(exact, shares, atol=1e-9)


def test_rows_and_margins_pool_by_inverse_variances() -> None:
    rng = np.random.default_rng(3)  # its own: the same draws whatever else runs
    truth = np.array([400.0, 300, 200, 100])
    merge = np.array([0, 0, 1, 1])
    alone, pooled = [], []
    for _ in range(300):
        noisy = truth + rng.normal(0, 20, 4)
        margin = np.bincount(merge, weights=truth) + rng.normal(0, 10, 2)
        found, deviation = pool_counts(noisy, 20.0, merge, [(margin, 10.0)])
        alone.append((noisy - truth) ** 2)
        pooled.append((found - truth) ** 2)
    assert np.mean(alone) == pytest.approx(400, rel=0.2)
    assert np.mean(pooled) == pytest.approx(deviation**2, rel=0.2)
    assert np.mean(pooled) < 0.7 * np.mean(alone)
    assert estimate_rows([np.array([10.0, 20.0]), np.array([40.0])]) == pytest.approx((30 / 2 + 40) / 1.5)


def test_merged_bins_hold_enough() -> None:
    shares = np.array([0.02, 0.3, 0.05, 0.05, 0.4, 0.08, 0.1])
    assert merge_bins(shares, 0.2, ordered=True, free=6).tolist() == [0, 0, 1, 1, 1, 1, 2]  # NULL alone
    assert merge_bins(shares, 0.2, ordered=False, free=7).tolist() == [2, 1, 2, 2, 0, 2, 2]
    assert merge_bins(np.array([0.9, 0.1]), 0.5, ordered=True, free=2).tolist() == [0, 1]  # never all in one


def test_values_that_stand_out_are_merged_only_where_few_rows_are() -> None:
    even = np.full(30, 1 / 30)
    assert merge_bins(even, 0.05, ordered=False, free=30).max() == 1  # all but one of thirty in one bin
    found = merge_bins(even, 0.05, ordered=False, free=30, stands=0.02)
    assert found.max() == 27 and np.bincount(found).max() == 3  # a tenth of the rows
    assert merge_bins(even, 0.05, ordered=False, free=30, stands=0.04).max() == 1  # they would be noise
    shares = np.array([0.02, 0.3, 0.05, 0.05, 0.4, 0.08, 0.1])
    assert merge_bins(shares, 0.2, ordered=False, free=7, stands=0.01).tolist() == [2, 1, 2, 2, 0, 2, 2]


def test_pairs_keep_their_margins_and_lose_noise() -> None:
    rng = np.random.default_rng(3)  # its own: the same draws whatever else runs
    first, second = np.array([0.2, 0.3, 0.5]), np.array([0.25, 0.25, 0.5])
    truth = scale_margins(np.eye(3) + 0.1, first, second)
    np.testing.assert_allclose(truth.sum(axis=0), second, atol=1e-6)
    found = estimate_pair(truth * 10_000, 0.01, 10_000, first, second)
    np.testing.assert_allclose(found, truth, atol=2e-3)
    noise = np.mean(
        [
            np.abs(
                estimate_pair(np.outer(first, second) * 1000 + rng.normal(0, 50, (3, 3)), 50.0, 1000, first, second)
                - np.outer(first, second)
            ).sum()
            for _ in range(50)
        ]
    )
    assert noise < 0.5 * 9 * 0.05 * 0.8  # half of what it would be without shrinking
    values = (np.array([-1.0, 1, 0]), np.array([-1.0, 0, 1]))
    tilted = tilt_pair(first, second, values, 0.1)
    assert values[0] @ tilted @ values[1] - (first @ values[0]) * (second @ values[1]) == pytest.approx(0.1, abs=0.01)


def test_a_table_that_is_the_product_of_its_margins_stays_it_under_much_noise() -> None:
    """Nothing is left to shrink: its share of the noise was a quotient beyond doubles."""
    half = np.array([0.5, 0.5])
    assert np.allclose(estimate_pair(np.zeros((2, 2)), 1e5, 1.0, half, half), 0.25)


def test_rows_have_shares_to_a_row_and_pairs() -> None:
    shares = [np.array([0.31, 0.69]), np.array([0.2, 0.5, 0.3]), np.array([0.1, 0.2, 0.3, 0.4])]
    merges = [np.arange(2), np.arange(3), np.array([0, 0, 1, 1])]
    coarse = np.array([0.3, 0.7])
    pairs = {
        (0, 1): scale_margins(np.array([[5.0, 1, 1], [1, 5, 5]]), shares[0], shares[1]),
        (1, 2): scale_margins(np.array([[4.0, 1], [1, 4], [1, 1]]), shares[1], coarse),
        (0, 2): scale_margins(np.array([[3.0, 1], [1, 1]]), shares[0], coarse),
    }
    order = order_columns([2, 3, 2], list(pairs), 0)
    assert order == [(0, []), (1, [0]), (2, [1, 0])]
    rows = 1000
    codes = make_codes(Model(shares=shares, merges=merges, pairs=pairs), order, rows)
    for i, p in enumerate(shares):
        assert np.abs(np.bincount(codes[:, i], minlength=len(p)) - rows * p).max() <= 6
    for (i, j), wanted in pairs.items():
        made = np.zeros(wanted.shape)
        np.add.at(made, (merges[i][codes[:, i]], merges[j][codes[:, j]]), 1 / rows)
        assert np.abs(made - wanted).sum() < 0.03
        assert np.abs(np.outer(wanted.sum(axis=1), wanted.sum(axis=0)) - wanted).sum() > 0.1  # the twin: no links


def test_a_pair_that_is_left_out_is_the_weakest() -> None:
    """Of three domains of thirty values none is; of larger ones a column does not follow both, but the nearer one."""

    def parents(size: int, links: Sequence[float]) -> list[tuple[int, list[int]]]:
        even, pairs = np.full(size, 1 / size), [(0, 1), (0, 2), (1, 2)]
        tree = Tree(binnings=[], plan=TreePlan(bins=10, ones=Fraction(1)), target=None)
        tree.shares, tree.merges = [even] * 3, [np.arange(size)] * 3
        tree.pairs = {
            p: (1 - link) * np.outer(even, even) + link * np.diag(even) for p, link in zip(pairs, links, strict=True)
        }
        return tree.order()

    for links in ((0.9, 0.8, 0.1), (0.1, 0.9, 0.8), (0.8, 0.1, 0.9)):
        assert sum(len(p) for _, p in parents(30, links)) == 3
        kept = {tuple(sorted((c, *p))) for c, p in parents(90, links)}
        strongest = {pair for pair, link in zip([(0, 1), (0, 2), (1, 2)], links, strict=True) if link > 0.5}
        assert strongest <= kept


def test_bins_there_and_back() -> None:
    units, unit = three_columns(400)
    for bins in (5, 80):
        binnings = make_bins(units, bins)
        codes = np.stack([encode(b, unit) for b in binnings], axis=1)
        made = spread_rows(binnings, codes, [None] * 3)
        assert np.abs(made[:, 0] - unit[:, 0]).max() <= 2 / bins
        np.testing.assert_array_equal(made[:, 1:], unit[:, 1:])
        low = spread_rows(binnings, codes, [np.full(binnings[0].size, 50.0), None, None])[:, 0]
        assert low.mean() == pytest.approx((2 * codes[:, 0] / bins - 1).mean() + 0.04 / bins, abs=0.1 / bins)
    assert binnings[0].mean(np.full(80, 1 / 80)) == pytest.approx(0.0)


def test_codes_in_sql_are_those_of_the_unit_columns() -> None:
    units = make_units(SPEC)
    for bins in (10, 80, 400):
        binnings = make_bins(units, bins)
        parameters = Parameters()
        items = [f"{print_code(b, parameters)} AS c{i}" for i, b in enumerate(binnings)]
        with connect() as con:
            con.execute(DATA)
            codes = con.execute(f"SELECT {', '.join(items)} FROM t AS r", parameters.values).fetchnumpy()
            parameters = Parameters()
            found = con.execute(f"SELECT {print_items(units, parameters)} FROM t AS r", parameters.values).fetchnumpy()
        unit = np.stack([np.asarray(found[n], dtype=float) for n in units.names], axis=1)
        for i, binning in enumerate(binnings):
            own = np.asarray(codes[f"c{i}"])
            assert own.min() >= 0
            assert own.max() < binning.size
            np.testing.assert_array_equal(own, encode(binning, unit))


def _made(epsilon_nano: int, method: str, rows: int, **more: object) -> SyntheticTable:
    task = plan_wide(
        table(*SPEC, expected_rows=ROWS),
        None,
        epsilon_nano=epsilon_nano,
        neighbours=Neighbours.ADD_REMOVE,
        rows=rows,
        method=method,
        **{"delta_atto": 0, "target": None, **more},
    )
    with connect() as con:
        con.execute(DATA)
        payload = task.work(1)(Stages(lambda q: read_rows(con, q)))
    return read_synthesis(payload)


def _two_way(columns: dict[str, np.ndarray]) -> list[dict[tuple[str, str], float]]:
    bands = {
        "age": [None if a is None else a // 10 for a in columns["age"].tolist()],
        "pay": [None if p is None else float(p) // 1 for p in columns["pay"].tolist()],
        "city": columns["city"].tolist(),
        "sick": columns["sick"].tolist(),
    }
    found = []
    for one, two in combinations(bands, 2):
        keys, counts = np.unique([f"{a}|{b}" for a, b in zip(bands[one], bands[two], strict=True)], return_counts=True)
        found.append(dict(zip(keys.tolist(), (counts / counts.sum()).tolist(), strict=True)))
    return found


def test_a_tree_of_a_table_has_its_pairs_nulls_and_types() -> None:
    made = _made(4 * NANO, "tree", 3000)
    assert made.rows == 3000
    assert {type(v) for v in made.columns["day"].tolist()} <= {dt.date, type(None)}
    with connect() as con:
        con.execute(DATA)
        real = {n: np.array(con.execute(f"SELECT {n} FROM t").fetchall(), dtype=object)[:, 0] for n in made.columns}
    real["city"][real["city"] == "elsewhere"] = None  # outside the domain
    gaps = []
    for first, second in zip(_two_way(real), _two_way(made.columns), strict=True):
        gaps.append(sum(abs(first.get(k, 0) - second.get(k, 0)) for k in {*first, *second}) / 2)
    assert np.mean(gaps) < 0.06
    rng = np.random.default_rng(3)
    shuffled = {n: rng.permutation(v) for n, v in real.items()}  # the twin: columns alone
    alone = [
        sum(abs(a.get(k, 0) - b.get(k, 0)) for k in {*a, *b}) / 2
        for a, b in zip(_two_way(real), _two_way(shuffled), strict=True)
    ]
    assert max(alone) > 0.2
    assert np.mean(gaps) < 0.5 * np.mean(alone)


def test_auto_grows_a_tree_by_public_figures() -> None:
    """For broad smooth queries; for tables see test_wide_choice."""

    def chosen(spec: tuple, rows: int, **more: object) -> str:
        task = plan_wide(
            table(*spec, expected_rows=rows),
            None,
            neighbours=Neighbours.ADD_REMOVE,
            rows=10,
            method="auto",
            purpose="kernels",
            **{"delta_atto": 0, "target": None, "epsilon_nano": NANO, **more},
        )
        return task.method

    numbers = tuple(column(f"n{i}") for i in range(6))
    never_null = tuple(column(f"n{i}", nullable=False) for i in range(6))
    words = tuple(column(f"w{i}", None, None, "VARCHAR", domain=("a", "b")) for i in range(6))
    assert chosen((*numbers, *words), 20_000) == "tree"
    assert chosen((*numbers, *words), 200) == "moments"
    assert chosen(numbers, 20_000) == "tree"  # noise is tiny
    assert chosen(never_null, 10**6) == "moments"
    assert chosen(numbers, 4_000) == "moments"
    assert chosen(numbers, 4_000, delta_atto=10**12) == "tree"
    assert chosen(numbers, 200, delta_atto=10**12, epsilon_nano=NANO // 10) == "moments"


def test_what_a_tree_reads_is_the_same_statement_for_all_tables() -> None:
    """Codes are streamed once a stage: neither the statement nor what crosses grows with the number of pairs."""
    task = plan_wide(
        table(*SPEC, expected_rows=ROWS),
        None,
        epsilon_nano=4 * NANO,
        delta_atto=0,
        neighbours=Neighbours.ADD_REMOVE,
        rows=100,
        method="tree",
        target=None,
    )
    asked = []
    with connect() as con:
        con.execute(DATA)
        task.work(1)(Stages(lambda q: asked.append(q) or read_rows(con, q)))
    codes = [q for q in asked if q.arrays]
    assert len(codes) >= 4  # single columns, single values, scores, pairs
    assert len({(q.sql, q.parameters) for q in codes if q is not codes[1]}) == 1  # the second: single values
    assert all(q.rows == 1 for q in asked if not q.arrays)

"""dp_kmeans as users have it: what its reads give and what a unit changes in them, centres, intervals, refusals."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler.cluster_blocks import MOVES, print_block_centers
from duckdp.compiler.cluster_cells import cell_bits
from duckdp.compiler.cluster_rows import PLACES, SIDE, code_of
from duckdp.compiler.kmeans import KMeansTask, steady_moves
from duckdp.core.reads import PrivateQuery
from duckdp.errors import ParameterError
from duckdp.mechanisms.weighted_kmeans import squared_distances, weighted_kmeans
from tests.gate import clinic, load, shared
from tests.privacy.clusters import kmeans
from tests.privacy.draws import KEYED, NONE, ODD, REPLACE, ROWS, _random_row

Rows = list[tuple[Any, ...]]
CENTERS = [[2**18, 2**17], [2**19, 2**19], [SIDE, 0]]


def clean(rng: random.Random, count: int, units: int) -> Rows:
    rows: Rows = [(rng.randrange(units), *_random_row(rng)) for _ in range(count)]
    return [*rows, (None, *rows[0][1:]), (3, *NONE), (4, *ODD)] if count else rows


def read(rows: Rows, query: PrivateQuery, change: Any = None) -> Rows:
    with shared() as con:
        load(con, clinic(), rows)
        sql = query.sql if change is None else change(query.sql)
        assert change is None or sql != query.sql
        return con.execute(sql, list(query.parameters)).fetchall()


def places(rows: Rows) -> np.ndarray:
    """Places of age and cost, of rows that have both, as the declarations of ``clinic`` read them."""
    kept = [(r[1], r[2]) for r in rows if r[0] is not None and r[1] is not None and r[2] is not None]
    kept = [(a, c) for a, c in kept if a == a and c == c]
    if not kept:
        return np.zeros((0, 2), dtype=np.int64)
    shares = np.clip(np.array(kept, dtype=float) / [110, 5000], 0, 1)
    return np.clip(np.floor(shares * PLACES), 0, SIDE).astype(np.int64)


# ---- what is read


def test_reads_give_cells_sums_and_counts() -> None:
    rows = clean(random.Random(1), 300, 10**6)
    at, task = places(rows), kmeans(KEYED)
    cut, coarser = (3, 2), (1, 0)
    codes = [code_of((int(a) >> 17, int(b) >> 18), cut) for a, b in at]
    known = [0, 1]
    found = dict(read(rows, task.rows.cells(cut, coarser, known, 7)))
    assert found == {c: codes.count(c) for c in set(codes)}
    (some,) = {tuple(sorted(read(rows, task.rows.cells(cut, coarser, [1], 7))))}
    assert some == tuple(sorted((c, n) for c, n in found.items() if c & 7 >= 4 and c & 7))

    near = squared_distances(at.astype(float), np.array(CENTERS, dtype=float)).argmin(axis=1)
    sums = {j: (int((near == j).sum()), *(2 * at[near == j] - SIDE).sum(axis=0)) for j in set(near.tolist())}
    assert {j: tuple(s) for j, *s in read(rows, task.rows.sums(CENTERS, 7))} == sums
    assert dict(read(rows, task.rows.counts(CENTERS, 7))) == {j: s[0] for j, s in sums.items()}


def test_blocks_are_moved_as_lloyd_does() -> None:
    rows = clean(random.Random(2), 200, 40)
    task = kmeans(KEYED, k=3, start="blocks", blocks=1, moves=0)
    centers = np.array(task.public_centers)
    at = places(rows)
    for _ in range(MOVES):
        near = squared_distances(at.astype(float), centers.astype(float)).argmin(axis=1)
        moved = [at[near == j].sum(axis=0) // max(1, int((near == j).sum())) for j in range(3)]
        centers = np.array([moved[j] if (near == j).any() else centers[j] for j in range(3)])
    ((block, *found),) = read(rows, print_block_centers(task.rows, task.public_centers, 1, 7))
    assert (block, found) == (0, centers.ravel().tolist())
    assert sum(1 for _ in read(rows, print_block_centers(task.rows, task.public_centers, 9, 7))) == 9
    assert read([], print_block_centers(task.rows, task.public_centers, 9, 7)) == []


# ---- what a unit can change


def pair(task: KMeansTask, rng: random.Random) -> tuple[Rows, Rows]:
    rows = clean(rng, rng.randint(1, 40), 12)
    more = [(99, *_random_row(rng)) for _ in range(1 if task.table.unit_key is None else rng.randint(1, 12))]
    if task.neighbours is REPLACE:
        return [*rows, *more[:1]], [*rows, (98, *_random_row(rng))]
    return rows, [*rows, *more]


def changed(task: KMeansTask, read_of: Any, seeds: range, change: Any = None) -> tuple[int, int]:
    """The most that counts change by, in l1, and how many rows of a read differ."""
    most = differ = 0
    for seed in seeds:
        one, other = ({r[0]: r[1:] for r in read(t, read_of, change)} for t in pair(task, random.Random(seed)))
        both = {key: (one.get(key, (0, 0, 0)), other.get(key, (0, 0, 0))) for key in {*one, *other}}
        most = max(most, sum(abs(a[0] - b[0]) for a, b in both.values()))
        differ = max(differ, sum(a != b for a, b in both.values()))
    return most, differ


@pytest.mark.parametrize(
    ("table", "terms"), [(KEYED, {}), (ROWS, {}), (ROWS, {"neighbours": REPLACE})], ids=["units", "rows", "replaced"]
)
def test_a_unit_changes_as_many_rows_as_count(table: Any, terms: Any) -> None:
    task = kmeans(table, where="age > 3", **terms)
    for query in (task.rows.cells((4, 4), (0, 0), [0], 7), task.rows.counts(CENTERS, 7), task.rows.sums(CENTERS, 7)):
        assert 1 <= changed(task, query, range(2))[0] <= task.changed


def test_twins_of_reads_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duckdp.compiler.cluster_blocks.MOVES", 1)  # of 10, each of which takes time to be planned
    task = kmeans(KEYED)
    query = task.rows.counts(CENTERS, 7)
    assert changed(task, query, range(3), lambda sql: sql.replace("r.edge IS NULL OR", "TRUE OR"))[0] > task.changed
    blocked = kmeans(KEYED, start="blocks", blocks=6, moves=0)
    query = print_block_centers(blocked.rows, blocked.public_centers, 6, 7)
    assert changed(blocked, query, range(2))[1] <= 1
    assert changed(blocked, query, range(2), lambda sql: sql.replace("hash(q.__unit,", "hash(q.c0,"))[1] > 1
    rows = kmeans(ROWS, start="blocks", blocks=6, moves=0)
    query = print_block_centers(rows.rows, rows.public_centers, 6, 7)
    assert changed(rows, query, range(2))[1] <= 1


# ---- how it is planned


def test_shares_are_all_of_the_charge() -> None:
    for terms in (
        {},
        {"moves": 0},
        {"moves": 4},
        {"start": "public", "moves": 5},
        {"start": "blocks", "blocks": 9, "moves": 2},
    ):
        task = kmeans(KEYED, **terms)  # type: ignore[arg-type]
        cells, move, counts = task.shares
        first = {"cells": len(task.cuts), "public": 0, "blocks": 1}[task.start]
        assert 1 - 1e-6 < first * cells + task.moves * move + counts <= 1
        assert min(cells if first else 1, move if task.moves else 1, counts) > 0
        assert task.reads == first + task.moves + 1
    with pytest.raises(ParameterError, match="P101"):
        kmeans(KEYED, epsilon_nano=9).require()


def test_cells_follow_from_public_figures() -> None:
    assert [cell_bits(n, 2, 5) for n in (10, 10**3, 10**4, 10**6)] == [3, 3, 5, 6]
    assert cell_bits(10**9, 1, 5) == 12
    assert cell_bits(1, 10, 3) == 1
    for bits, d, k in ((6, 2, 3), (4, 5, 3), (3, 8, 3)):
        task = kmeans(clinic(expected_rows=10**7), ("age", "cost", "income")[: min(d, 3)], k=k)
        assert sum(task.cuts[0]) <= 12
        assert all(sum(b) - sum(a) <= 8 for a, b in pairwise(task.cuts))
        assert bits
    assert steady_moves(10**5, 2, 5, 1.0, 1) == 1
    assert steady_moves(10**3, 4, 8, 1.0, 1) == 0


# ---- as users have it


def mixture(count: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    at = np.array([[20.0, 30.0], [60.0, 20.0], [70.0, 80.0], [25.0, 75.0]])
    points = at[rng.choice(4, count, p=[0.4, 0.3, 0.2, 0.1])] + rng.normal(0, 6, (count, 2))
    return np.clip(points, 0, 100), at


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[duckdp.Curator]:
    points, _ = mixture(20_000)
    rows = pa.table({"person": range(20_000), "x": points[:, 0], "y": points[:, 1], "free": points[:, 0]})
    with duckdp.open({"t": rows}, ledger=str(tmp_path / "t.ledger")) as owner:
        bounds = {"x": (0, 100), "y": (0, 100)}
        owner.protect(
            "t", unit_key="person", max_rows=1, row_cap=50_000, expected_rows=20_000, bounds=bounds, columns=["free"]
        )
        owner.budget(epsilon=500)
        owner.grant("ana", epsilon=400)
        yield owner


def test_centres_cost_little_more_than_without_privacy(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    points, at = mixture(20_000)
    best = squared_distances(points, weighted_kmeans(points[:2000], np.ones(2000), 4)).min(axis=1).mean()
    found = ana.kmeans("t", ["x", "y"], k=4, epsilon=1)
    centers = np.array(found.rows())[:, :2]
    assert squared_distances(points, centers).min(axis=1).mean() < 1.1 * best
    counts = list(found.columns[2].estimates or [])
    assert [c.value for c in counts] == sorted((c.value for c in counts), reverse=True)
    near = np.bincount(squared_distances(points, centers).argmin(axis=1), minlength=4)
    assert np.abs(near - found["count"]).max() < 200  # noise of scale 10
    rows = con.execute("FROM dp_kmeans('t', ['x', 'y'], k := 4, epsilon := 1)").fetchall()
    assert [r[:3] for r in rows] == found.rows()
    assert len(ana.ledger().rows()) == 1
    assert all(
        low <= x <= high for e in (found.columns[0].estimates or []) for low, x, high in [(e.low, e.value, e.high)]
    )
    assert sorted(map(tuple, np.round(centers, -1))) == sorted(map(tuple, np.round(at, -1))) or len(at) == 4


def test_other_methods_give_their_columns(curator: duckdp.Curator) -> None:
    con = curator.connect("ana")
    call = "FROM dp_kmeans('t', ['x', 'y'], k := 3, epsilon := 5, method := '{}'{})"
    for method, more, width in (("iterations", "", 9), ("iterations", ", moves := 1", 9), ("blocks", "", 3)):
        result = con.execute(call.format(method, more))
        names = [d[0] for d in result.description]
        assert names[:3] == ["x", "y", "count"]
        assert ("x_low" in names) == (width == 9)
        rows = result.fetchall()
        assert len(rows) == 3
        assert all(0 <= r[0] <= 100 for r in rows)


def test_explain_costs_nothing_and_says_what_is_read(curator: duckdp.Curator) -> None:
    ana = curator.session("ana")
    told = str(ana.explain_kmeans("t", ["x", "y"], k=4, epsilon=1))
    assert "reads: t; 3 reads" in told
    assert "32 parts a column" in told
    assert "moves: 1" in told
    assert "blocks: 141" in str(ana.explain_kmeans("t", ["x", "y"], k=4, epsilon=1, method="blocks"))
    assert ana.remaining_text().startswith("epsilon=400")


REFUSED = [
    ("[], k := 2", "P107: columns="),
    ("['x', 'x'], k := 2", "must differ"),
    ("['nobody'], k := 2", "C102"),
    ("['free'], k := 2", "Q401"),
    ("['person'], k := 2", "C102"),
    ("['x'], k := 0", "P107: k="),
    ("['x'], k := 101", "P107: k=101: must be at most 100"),
    ("['x', 'y'], k := 2, method := 'best'", "P107: method='best'"),
    ("['x', 'y'], k := 2, moves := 21", "P107: moves=21"),
    ("['x', 'y'], k := 2, moves := 0", "P107: moves="),
    ("['x', 'y'], k := 2, blocks := 9", "P107: blocks=9: are of method"),
    ("['x', 'y'], k := 2, method := 'blocks', blocks := 501", "P107: blocks=501"),
    ("['x', 'y'], k := 50, method := 'blocks'", "P107: k=50: times 2 columns"),
    ("['x', 'y'], k := 2, predicate := 'x'", "Q203"),
    ("['x', 'y'], k := 2, epsilon := 0.0000001", "P101"),
]


def test_refusals_are_coded_and_free(curator: duckdp.Curator) -> None:
    con = curator.connect("ana")
    for arguments, words in REFUSED:
        cost = "" if "epsilon" in arguments else ", epsilon := 1"
        for name in ("dp_kmeans", "dp_explain_kmeans"):
            with pytest.raises(duckdb.Error) as refused:
                con.execute(f"FROM {name}('t', {arguments}{cost})").fetchall()
            assert words in str(refused.value), (arguments, str(refused.value))
    assert not curator.session("ana").ledger().rows()


def test_few_rows_and_one_unit_are_answered_like_others(tmp_path: Path) -> None:
    """No rows, fewer than centres, one unit with all of them, NaN and NULL: as many centres, within bounds."""
    frames = {
        "none": pa.table({"u": pa.array([], pa.int64()), "x": pa.array([], pa.float64())}),
        "few": pa.table({"u": [1, 2], "x": [float("nan"), 3.0]}),
        "one": pa.table({"u": [1] * 300, "x": [float(i % 100) for i in range(300)]}),
    }
    with duckdp.open(frames, ledger=str(tmp_path / "l.ledger")) as owner:
        for name in frames:
            owner.protect(name, unit_key="u", max_rows=2, row_cap=500, bounds={"x": (0, 100)})
        owner.budget(epsilon=100)
        owner.grant("ana", epsilon=100)
        ana = owner.session("ana")
        for name in frames:
            for method in ("auto", "iterations", "blocks"):
                found = ana.kmeans(name, ["x"], k=5, epsilon=1, method=method)  # type: ignore[arg-type]
                assert len(found) == 5
                assert all(0 <= x <= 100 for x in found["x"])
        assert len(ana.kmeans("one", ["x"], k=1, epsilon=1)) == 1
        with pytest.raises(ParameterError, match="P107: k=100"):
            owner.protect("few", unit_key="u", max_rows=2, row_cap=50, bounds={"x": (0, 100)})
            ana.kmeans("few", ["x"], k=100, epsilon=1)


def test_other_shares_are_other_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    before = kmeans(KEYED).canonical
    monkeypatch.setattr(KMeansTask, "shares", (1, 2, 3))
    assert kmeans(KEYED).canonical != before


def test_rows_of_no_centre_are_counted_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that is no centre's is never met by its place in a list."""
    monkeypatch.setattr("duckdp.compiler.kmeans.add_noise", lambda exact, _: list(exact))
    stages = SimpleNamespace(read=lambda _: [(0, 5), (1, 7), (2, 9), (-1, 4)])
    found = json.loads(kmeans(ROWS, k=2)._payload([(1, 1), (2, 2)], [], stages, 7))  # type: ignore[arg-type]
    assert found["counts"] == [5, 7]

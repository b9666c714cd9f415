"""Neighbouring tables through SQL: what k-means tells of them stays below its epsilon, and broken twins do not.

As ``audits.py`` says; the tables differ by one unit of many rows, far from all others, and of every answer one number
is looked at. Each unit's block is its number modulo theirs, in place of a hash, on which no claim rests: one of the
others in each, and the one more in the first. Exact losses: test_losses.py, mechanisms/test_cluster_means.py,
mechanisms/test_center_of_vectors.py.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pytest

from tests.privacy.audits import EPSILON, RUNS, TWIN_RUNS, lower_bound

pytestmark = pytest.mark.slow

ROWS = [(i, 10) for i in range(3)]
ONE_MORE = [(99, 100)] * 20
MANY_MORE = [(99, 100)] * 200  # of a twin: the counts that are looked at have a tenth of epsilon
ASKED = {
    "cells": "sum(count) FROM dp_kmeans('t', ['x'], k := 1, method := 'cells', moves := 1",
    "moves": "sum(x) FROM dp_kmeans('t', ['x'], k := 1, method := 'iterations', moves := 1",
    "blocks": "sum(x) FROM dp_kmeans('t', ['x'], k := 1, method := 'blocks', blocks := 3",
}


def _break(twin: str | None) -> None:
    """A part of the package replaced by a broken one, in this process."""
    from duckdp.compiler import cluster_blocks, cluster_rows, kmeans
    from duckdp.mechanisms import cluster_means
    from duckdp.mechanisms.center_of_vectors import CenterOfVectors

    known_blocks = lambda keys, salt, blocks: f"CAST({keys} % {blocks} AS BIGINT)"  # noqa: E731
    cluster_blocks.print_block = known_blocks  # type: ignore[attr-defined]
    cluster_means.ClusterMeans.mean = lambda self, noisy, least, plain=cluster_means.ClusterMeans.mean: plain(  # type: ignore[method-assign]
        self, noisy, min(least, 0)
    )
    if twin == "all rows of a unit":
        cluster_rows.print_chosen = lambda rows, names, salt, most: rows  # type: ignore[assignment]
    elif twin in ("a tenth of the noise", "a hundredth of the noise"):
        kmeans.KMeansTask.changed = property(lambda self: 1)  # type: ignore[assignment]
        shares, times = kmeans.KMeansTask.shares.func, 10 if twin == "a tenth of the noise" else 100
        kmeans.KMeansTask.shares = property(lambda self: tuple(times * s for s in shares(self)))  # type: ignore[assignment]
    elif twin == "no bound":
        CenterOfVectors.release = lambda self, vectors: self.center(vectors)[0]  # type: ignore[method-assign]
    assert cluster_blocks.MOVES


def _table(rows: list[tuple[int, int]]) -> pa.Table:
    return pa.table({"id": [i for i, _ in rows], "x": pa.array([x for _, x in rows], pa.int8())})


def _measure(asked: str, runs: int, twin: str | None = None) -> float:
    tables = _table(ROWS), _table(ROWS + (MANY_MORE if twin == "all rows of a unit" else ONE_MORE))
    ask = f"SELECT {ASKED[asked]}, epsilon := {EPSILON}, fresh := true)"
    name, declared = f"{asked}, {twin or 'as shipped'}", {"max_rows": 2, "row_cap": 400, "bounds": {"x": (0, 100)}}
    return lower_bound(name, tables, ask, runs, partial(_break, twin), **declared)


@pytest.mark.parametrize("asked", list(ASKED))
def test_the_empirical_epsilon_is_below_the_claim(asked: str) -> None:
    assert _measure(asked, RUNS) <= EPSILON


@pytest.mark.parametrize(
    ("asked", "twin"),
    [
        ("cells", "a hundredth of the noise"),
        ("cells", "all rows of a unit"),
        ("moves", "a tenth of the noise"),
        ("blocks", "no bound"),
    ],
)
def test_a_broken_twin_is_caught(asked: str, twin: str) -> None:
    assert _measure(asked, TWIN_RUNS, twin) > EPSILON

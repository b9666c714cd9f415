"""Neighbouring tables through SQL: what k-means tells of them stays below its epsilon, and broken twins do not.

Two curators hold tables that differ by one unit of many rows, far from all others. Each is asked many times anew; of
every answer one number is looked at, and what tells the tables apart best on one half is measured on the other. Exact
losses: test_losses.py, mechanisms/test_cluster_means.py, mechanisms/test_center_of_vectors.py.

DUCKDP_RUNS sets how often each table is asked (3,000; of twins at most 600).
"""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pyarrow as pa
import pytest

import duckdp
from tests.privacy.statistics import epsilon_lower_bound

pytestmark = pytest.mark.slow

RUNS = min(20_000, int(os.environ.get("DUCKDP_RUNS", "3000")))
EPSILON = 1
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


def _answers(rows: list[tuple[int, int]], asked: str, runs: int, twin: str | None) -> list[float]:
    _break(twin)
    ids, values = zip(*rows, strict=True)
    with tempfile.TemporaryDirectory() as folder:
        frame = pa.table({"id": ids, "x": pa.array(values, pa.int8())})
        with duckdp.open({"t": frame}, ledger=f"{folder}/ledger") as curator:
            curator.protect("t", unit_key="id", max_rows=2, row_cap=400, bounds={"x": (0, 100)})
            curator.budget(epsilon=1_000_000)
            curator.grant("ana", epsilon=1_000_000)
            curator.engine.schema_cursor().execute("SET threads = 1")
            con = curator.connect("ana")
            call = f"SELECT {ASKED[asked]}, epsilon := {EPSILON}, fresh := true)"
            return [float(con.execute(call).fetchall()[0][0]) for _ in range(runs)]


def _measure(asked: str, runs: int, twin: str | None = None) -> float:
    more = MANY_MORE if twin == "all rows of a unit" else ONE_MORE
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        waiting: list[Any] = [pool.submit(_answers, r, asked, runs, twin) for r in (ROWS, ROWS + more)]
        first, second = (w.result() for w in waiting)
    return epsilon_lower_bound(first, second)  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", list(ASKED))
def test_the_empirical_epsilon_is_below_the_claim(asked: str) -> None:
    found = _measure(asked, RUNS)
    print(f"{asked}: epsilon of at least {found:.3f}, claimed {EPSILON}, {RUNS} runs a table")
    assert found <= EPSILON


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
    found = _measure(asked, min(RUNS, 600), twin)
    print(f"{asked}, {twin}: epsilon of at least {found:.3f}, claimed {EPSILON}")
    assert found > EPSILON

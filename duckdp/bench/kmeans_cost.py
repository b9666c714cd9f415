"""What centres cost beside those of k-means without privacy: by cells, by iterations, by blocks.

``python -m duckdp.bench.kmeans_cost``: mixtures of made-up clusters, each row a unit; medians of 5 releases.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from statistics import median

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from duckdp.bench.measure import Grid, show_grid
from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler.cluster_rows import PLACES, ClusterRows
from duckdp.compiler.kmeans import KMeansTask, Start, steady_moves
from duckdp.core.task import Stages
from duckdp.core.types import NANO, Neighbours
from duckdp.mechanisms.weighted_kmeans import squared_distances, weighted_kmeans

Floats = NDArray[np.float64]
RELEASES = 5  # of each, of which the median is told
EPSILONS = (0.1, 1.0)  # of one release
FITTED = 20_000  # rows that k-means without privacy is fitted on: it takes all of them in memory
#: (rows, columns, clusters) of each mixture.
SETS = ((1_000, 2, 5), (10_000, 2, 5), (100_000, 2, 5), (10_000, 5, 8), (100_000, 5, 8), (100_000, 8, 10))
METHODS: tuple[Start, ...] = ("cells", "public", "blocks")
BLOCKS = 300  # of the last method


def mixture(rows: int, columns: int, clusters: int) -> Floats:
    """Points in [-1, 1]^d: clusters of unequal size and width, some of which overlap."""
    rng = np.random.default_rng(5)
    middles, widths = rng.uniform(-0.75, 0.75, (clusters, columns)), rng.uniform(0.03, 0.2, (clusters, columns))
    places = rng.choice(clusters, rows, p=rng.dirichlet(np.ones(clusters) * 3))
    return np.asarray(np.clip(middles[places] + rng.normal(0, 1, (rows, columns)) * widths[places], -1, 1))


def mean_cost(points: Floats, centers: Floats) -> float:
    """The mean squared distance of points from the nearest centre."""
    return float(squared_distances(points, centers).min(axis=1).mean())


def plan(points: Floats, clusters: int, start: Start, epsilon: float) -> KMeansTask:
    """Plan one release of the table ``t`` of these points."""
    count, width = points.shape
    columns = tuple(
        Column(name=f"x{i}", source=f"x{i}", type="DOUBLE", kind=Kind.NUMBER, lower=-1, upper=1) for i in range(width)
    )
    table = Table(name="t", relation=("memory", "main", "t"), columns=columns, row_cap=count)
    moves = {"cells": steady_moves(count, width, clusters, epsilon, 1), "public": 5, "blocks": 0}[start]
    return KMeansTask(
        rows=ClusterRows(table=table, columns=columns, where=None),
        k=clusters,
        start=start,
        moves=moves,
        blocks=BLOCKS if start == "blocks" else 0,
        epsilon_nano=round(epsilon * NANO),
        neighbours=Neighbours.ADD_REMOVE,
    )


def released(con: duckdb.DuckDBPyConnection, task: KMeansTask) -> Floats:
    """Centres of one release, in [-1, 1]."""
    payload = task.work(11)(Stages(lambda query: con.execute(query.sql, list(query.parameters)).fetchall()))
    return np.asarray((np.array(json.loads(payload)["centers"]) + 0.5) / PLACES * 2 - 1)


def costs(sets: Sequence[tuple[int, int, int]] = SETS, releases: int = RELEASES) -> Grid:
    """A line for each set and method: the cost of private centres over that of k-means without privacy."""
    head = ["rows", "columns", "k", *(f"{m}, epsilon {e:g}" for e in EPSILONS for m in METHODS)]
    rows = []
    for count, columns, clusters in sets:
        points = mixture(count, columns, clusters)
        fitted = points[:FITTED]
        best = mean_cost(points, weighted_kmeans(fitted, np.ones(len(fitted)), clusters))
        line = [f"{count:,}", str(columns), str(clusters)]
        with duckdb.connect() as con:
            con.register("made", pa.table({f"x{i}": column for i, column in enumerate(points.T)}))
            con.execute("CREATE TABLE t AS FROM made")
            for epsilon in EPSILONS:
                for start in METHODS:
                    task = plan(points, clusters, start, epsilon)
                    found = [mean_cost(points, released(con, task)) / best for _ in range(releases)]
                    line.append(f"{median(found):.2f}")
        rows.append(line)
    return Grid(title="Cost of centres over that of k-means without privacy", head=head, rows=rows)


def main() -> int:
    """Print the table of costs; the exit code of a program that worked."""
    sys.stdout.write(show_grid(costs(), markdown="--markdown" in sys.argv) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

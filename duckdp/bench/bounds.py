"""How good suggested bounds are: rows clipped, and the width against that of the middle 99.9% of the values.

``python -m duckdp.bench.bounds [FOLDER]``: generated columns, and those of the Parquet files in a folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import duckdb
import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Column, kind_of
from duckdp.compiler.ladders import make_ladder
from duckdp.core.types import NANO, Neighbours
from duckdp.mechanisms.bounds import BoundsFinder

Floats = NDArray[np.float64]
ROWS = 20_000  # of each made-up column
REAL = {
    "adult": ("age", "fnlwgt", "capital_gain", "hours_per_week"),
    "nycflights13": ("dep_delay", "distance", "air_time"),
    "wdbc": ("mean_area", "mean_smoothness"),
    "ctg": ("LB", "Variance"),
}


def generated() -> Iterator[tuple[str, str, Floats]]:
    """(name, type, values) of 20,000 rows: heavy tails, tiny, negative, far from 0, dates."""
    rng = np.random.default_rng(5)
    yield "log-normal (3, 2)", "DOUBLE", rng.lognormal(3, 2, ROWS)
    yield "Pareto 1.2", "DOUBLE", rng.pareto(1.2, ROWS) * 10
    yield "Cauchy", "DOUBLE", rng.standard_cauchy(ROWS)
    yield "normal, deviation 1e-8", "DOUBLE", rng.normal(0, 1e-8, ROWS)
    yield "negative exponential", "DOUBLE", -rng.exponential(500, ROWS)
    yield "pressure, 1013 ± 5", "DOUBLE", rng.normal(1013.2, 5, ROWS)
    yield "years 1990 to 2020", "INTEGER", rng.integers(1990, 2021, ROWS).astype(np.float64)
    yield "dates of 2013", "DATE", np.floor(rng.uniform(15706, 16071, ROWS))
    yield "dates of birth", "DATE", np.floor(rng.normal(0, 6000, ROWS))


def real(folder: Path) -> Iterator[tuple[str, str, Floats]]:
    """Columns of public files, where they are at hand."""
    for file, names in REAL.items():
        path = folder / f"{file}.parquet"
        for name in names if path.exists() else ():
            query = f"SELECT CAST({name} AS DOUBLE) AS x FROM read_parquet($1) WHERE {name} IS NOT NULL"
            x = np.asarray(duckdb.execute(query, [str(path)]).fetchnumpy()["x"], dtype=np.float64)
            yield f"{file}.{name}", "INTEGER" if np.all(x == np.floor(x)) else "DOUBLE", x


def measure(kind: str, x: Floats, epsilon: float, runs: int = 15) -> list[tuple[float, float]]:
    """Medians of (share clipped, width ratio) of the first two ranges; fewer where there mostly are fewer."""
    found = kind_of(kind)
    assert found is not None
    column = Column(name="x", source="x", type=kind, kind=found[0], integral=found[1])
    ladder = make_ladder(column)
    finder = BoundsFinder(epsilon_nano=round(epsilon * NANO), neighbours=Neighbours.ADD_REMOVE, ladder=ladder)
    counts = np.bincount(finder.places(x), minlength=finder.cells)
    low, high = np.quantile(x, (0.0005, 0.9995))
    seen: list[list[tuple[float, float]]] = [[], []]
    for _ in range(runs):
        for place, ends in enumerate(finder.release(counts).ranges[:2]):
            a, b = (ladder.edges[i] for i in ends)
            seen[place].append((float(np.mean((x < a) | (x > b))), float((b - a) / (high - low))))
    return [(median(c for c, _ in s), median(r for _, r in s)) for s in seen if len(s) > runs / 2]


def main(folder: str | None) -> None:
    """Print how near the suggested bounds come to good ones, by law and epsilon."""
    print("| column | rows | epsilon | widest: clipped, width | next: clipped, width |\n|---|---:|---:|---|---|")  # noqa: T201
    for name, kind, x in [*generated(), *(real(Path(folder)) if folder else ())]:
        for epsilon in (0.1, 1.0):
            cells = [f"{c:.2%}, {r:.2f}" for c, r in measure(kind, x, epsilon)]
            print(f"| {name} | {len(x):,} | {epsilon:g} | {' | '.join([*cells, '', ''][:2])} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)

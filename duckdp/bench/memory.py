"""Memory: growth of the peak while one statement runs, in a process of its own, and the rows that cross."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from duckdp.bench.queries import ANALYST, AVERAGES, EPSILON, Size, Workload, hand_groups

SIZES = (100_000, 1_000_000, 10_000_000)
UNIT_SHARE = 0.4  # of the rows
HEAD = ("rows", "units", "statement", "peak grows by MB", "rows that cross")


def table(groups: int, sizes: tuple[int, ...] = SIZES) -> list[tuple[str, ...]]:
    """Header and rows: private by row, private by unit, hand-written by unit, for each size."""
    found: list[tuple[str, ...]] = [HEAD]
    for rows in sizes:
        units = max(1, int(UNIT_SHARE * rows))
        for what in ("private, unit = row", "private, keyed", "hand-written, keyed"):
            grown, crossed = measure(rows, units, groups, what)
            found.append((f"{rows:,}", f"{units:,}", what, f"{grown:,.0f}", str(crossed)))
    return found


def measure(rows: int, units: int, groups: int, what: str) -> tuple[float, int]:
    """(growth of the peak resident memory in MB, rows that left DuckDB), in a fresh process."""
    command = [sys.executable, "-m", "duckdp.bench.memory", str(rows), str(units), str(groups), what]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    grown, crossed = json.loads(done.stdout.splitlines()[-1])
    return float(grown), int(crossed)


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _run(size: Size, what: str) -> tuple[float, int]:
    with tempfile.TemporaryDirectory(prefix="duckdp-bench-") as folder:
        workload = Workload(folder, size)
        try:
            return _grown(workload, what)
        finally:
            workload.close()


def _grown(workload: Workload, what: str) -> tuple[float, int]:
    curator = workload.rows if what == "private, unit = row" else workload.keyed
    session, crossed = curator.session(ANALYST), [0]
    read = curator.engine.run

    def counted(*arguments: Any) -> Iterator[tuple[Any, ...]]:
        for row in read(*arguments):
            crossed[0] += 1
            yield row

    curator.engine.run = counted  # type: ignore[assignment,method-assign]
    session.sql("SELECT count(*) FROM visits WHERE age > 200", epsilon=EPSILON)  # loads what is loaded once
    crossed[0], before = 0, _peak_mb()
    if what.startswith("private"):
        session.sql(AVERAGES.format(table="visits"), epsilon=EPSILON)
    else:
        crossed[0] = len(workload.cursor().execute(hand_groups(workload.size)).fetchall())
    return _peak_mb() - before, crossed[0]


if __name__ == "__main__":
    rows, units, groups = (int(text) for text in sys.argv[1:4])
    sys.stdout.write(json.dumps(_run(Size(rows=rows, units=units, groups=groups), sys.argv[4])) + "\n")

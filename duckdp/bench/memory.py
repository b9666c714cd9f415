"""Memory: growth of the peak while one statement runs, in a process of its own, and the rows that cross.

What grows is DuckDB's: its cache of the file, and one entry per unit and group while they are bounded, as in the
hand-written SQL. Python holds the released numbers only.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from duckdp.bench.queries import ANALYST, AVERAGES, EPSILON, Size, Workload, generate, hand_groups, plain_groups

SIZES = (100_000, 1_000_000, 10_000_000)  # rows of the tables
UNIT_SHARE, FIXED_UNITS = 0.4, 40_000  # units: a share of the rows, or always the same
ROW, KEYED, PLAIN, HAND = "private, unit = row", "private, keyed", "plain group-by", "hand-written, keyed"
HEAD = ("rows", "units", "statement", "peak grows by MB", "rows that cross")


def table(groups: int, sizes: tuple[int, ...] = SIZES) -> list[tuple[str, ...]]:
    """Header and rows: private and not, by row and by unit, for each size."""
    found: list[tuple[str, ...]] = [HEAD]
    for rows in sizes:
        share = max(1, int(UNIT_SHARE * rows))
        for what, units in (
            *((w, share) for w in (PLAIN, ROW, HAND, KEYED)),
            (HAND, FIXED_UNITS),
            (KEYED, FIXED_UNITS),
        ):
            grown, crossed = measure(rows, units, groups, what)
            found.append((f"{rows:,}", f"{units:,}", what, f"{grown:,.0f}", str(crossed)))
    return found


def measure(rows: int, units: int, groups: int, what: str) -> tuple[float, int]:
    """(growth of the peak resident memory in MB, rows that left DuckDB) of a process that does nothing else."""
    with tempfile.TemporaryDirectory(prefix="duckdp-bench-") as folder:
        call = [sys.executable, "-m", "duckdp.bench.memory", folder, str(rows), str(units), str(groups)]
        subprocess.run([*call, "generate"], check=True)  # elsewhere: its own peak would hide the query's
        done = subprocess.run([*call, what], capture_output=True, text=True, check=True)
    grown, crossed = json.loads(done.stdout.splitlines()[-1])
    return float(grown), int(crossed)


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _main(folder: str, size: Size, what: str) -> None:
    if what == "generate":
        generate(folder, size)
        return
    workload = Workload(folder, size)
    try:
        sys.stdout.write(json.dumps(_grown(workload, what)) + "\n")
    finally:
        workload.close()


def _grown(workload: Workload, what: str) -> tuple[float, int]:
    curator = workload.rows if what == ROW else workload.keyed
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
        sql = hand_groups(workload.size) if what == HAND else plain_groups()
        crossed[0] = len(workload.cursor().execute(sql).fetchall())
    return _peak_mb() - before, crossed[0]


if __name__ == "__main__":
    rows, units, groups = (int(text) for text in sys.argv[2:5])
    _main(sys.argv[1], Size(rows=rows, units=units, groups=groups), sys.argv[5])

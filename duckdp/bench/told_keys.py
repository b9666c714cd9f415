"""``python -m duckdp.bench.told_keys``: how many keys of no declared domain are told, by units and by weights.

Made-up long tails: units, each with a number of keys of its own (uniform, a Pareto law of exponent 1.2, or the same for
all, at most 50), drawn from so many keys that the i-th has a share of about i^-a. A session asks twice:

    SELECT k FROM t GROUP BY k HAVING count(DISTINCT u) > 0      the number of units decides, as it is asked for
    SELECT k FROM t GROUP BY k                                   their weights decide

Both pay the same. The law of the noise is duckdp's choice by (epsilon, delta), or the one that is named.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

import duckdp
from duckdp.bench.measure import Grid, machine, show_grid
from duckdp.mechanisms.additive import Family

UNITS, KEYS, MOST = 100_000, 1_000_000, 50  # units, keys of the made-up table, and keys of one unit
TAILS = (("uniform", 0.8), ("pareto", 1.0), ("pareto", 1.3), ("fixed", 1.0))  # keys of a unit, and a
COUNTED = "SELECT k FROM t GROUP BY k HAVING count(DISTINCT u) > 0"
WEIGHED = "SELECT k FROM t GROUP BY k"
_PARETO = 1.2  # exponent of the law of numbers of keys
Array = Any


def made_up(shape: str, a: float, units: int, rng: np.random.Generator) -> pa.Table:
    """A table of (unit, key), each pair once at least."""
    if shape == "uniform":
        many = rng.integers(1, MOST + 1, units)
    elif shape == "pareto":
        many = np.minimum(MOST, np.floor(rng.pareto(_PARETO, units) + 1)).astype(int)
    else:
        many = np.full(units, MOST)
    shares = np.arange(1, KEYS + 1) ** -a
    ends = np.cumsum(shares / shares.sum())
    unit = np.repeat(np.arange(units), many)
    key = np.searchsorted(ends, rng.random(unit.size)).astype(np.int64)
    return pa.table({"u": unit, "k": key})


def told(table: pa.Table, groups: int, epsilon: float, delta: float, family: Family, many: int) -> tuple[float, float]:
    """Keys told by units and by weights: medians of some answers."""
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "keys.ledger")
        with duckdp.open({"t": table}, ledger=path) as curator:
            curator.protect("t", unit_key="u", max_rows=1, max_groups=groups, row_cap=10 * len(table), columns=["k"])
            curator.budget(epsilon=1000, delta=1e-3)
            curator.grant("bench", epsilon=1000, delta=1e-3)
            session = curator.session("bench")
            found = []
            for text in (COUNTED, WEIGHED):
                runs = []
                for _ in range(many):
                    answer = session.sql(text, epsilon=epsilon, delta=delta, mechanism=family, fresh=True)
                    runs.append(len(answer.fetchall()))
                found.append(float(np.median(runs)))
    return found[0], found[1]


def main(argv: Sequence[str]) -> int:
    """Print the keys that either way tells; 0."""
    parser = argparse.ArgumentParser(prog="python -m duckdp.bench.told_keys", description="Units against weights.")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--units", type=int, default=UNITS)
    parser.add_argument("--shape", choices=[*dict(TAILS), "all"], default="all", help="keys of a unit")
    given = parser.parse_args(list(argv))
    rng, rows = np.random.default_rng(0), []
    for shape, a in [tail for tail in TAILS if given.shape in ("all", tail[0])]:
        table = made_up(shape, a, given.units, rng)
        for groups in (5, MOST):
            for epsilon, delta in ((0.1, 1e-6), (1.0, 1e-6), (1.0, 1e-9)):
                line = [f"{a:g}", shape, str(groups), f"{epsilon:g}", f"{delta:g}"]
                for family in ("laplace", "gaussian"):
                    line += [f"{n:,.0f}" for n in told(table, groups, epsilon, delta, family, given.runs)]
                rows.append(line)
    head = ["a", "keys of a unit", "groups", "epsilon", "delta"]
    head += [f"{family}: {way}" for family in ("Laplace", "Gaussian") for way in ("units", "weights")]
    grid = Grid(title="Keys told", head=head, rows=rows)
    sys.stdout.write(f"duckdp told keys: {machine()}\n\n{show_grid(grid)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

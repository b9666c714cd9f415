"""``duckdp bench sensitivity``: smooth sensitivity against its formulas: quantiles, bought intervals, spanning trees.

Exact figures of one table are computed once, then released many times: what is shown is the mechanism's own error.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from duckdp.bench.measure import Grid, machine, show_grid
from duckdp.core.types import NANO
from duckdp.mechanisms.admissible_noise import choose
from duckdp.mechanisms.scale_bound import choose_with_bound
from duckdp.mechanisms.smooth_error import even_growth, rank_error
from duckdp.mechanisms.smooth_sensitivity import SmoothQuantile
from duckdp.mechanisms.spanning_tree import Edges, SpanningTree

CELLS = 2**32  # grid steps between the bounds
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(10))
DRAWS = 400  # releases of each
LEAST_COVERED = 0.945  # share of intervals that hold, below which a line is missed, by DRAWS or more
TOWNS = (12, 100, 450)  # vertices


def _columns(rows: int) -> dict[str, NDArray[np.int64]]:
    """Values by name, on the grid, in order."""
    rng = np.random.default_rng(1)
    found = {
        "even": np.linspace(0, 1, rows),
        "normal": rng.normal(0.5, 0.1, rows),
        "incomes": rng.lognormal(-4, 1, rows),
        "tied": np.round(rng.normal(0.5, 0.1, rows), 2),
    }
    return {name: np.sort((np.clip(x, 0, 1) * CELLS).astype(np.int64)) for name, x in found.items()}


def _even(decay: float) -> float:
    return even_growth(1, decay)


def quantiles(rows: int, draws: int) -> Grid:
    """Medians and their intervals: rows of rank, predicted where values are even, and measured."""
    lines = []
    for name, x in _columns(rows).items():
        cells, first, counts = np.unique(x, return_index=True, return_counts=True)
        runs = list(zip(cells.tolist(), first.tolist(), counts.tolist(), strict=True))
        for epsilon in EPSILONS:
            off, _ = _median_errors(x, runs, epsilon, draws, bought=False)
            _, half = _median_errors(x, runs, epsilon, draws, bought=True)
            held = float(np.mean(half >= 0))
            missed = " MISSED" if held < LEAST_COVERED - 3 * (0.05 * 0.95 / draws) ** 0.5 else ""
            predicted = f"{rank_error(epsilon):.3g}", f"{rank_error(epsilon, interval=True):.3g}"
            wide = f"{np.median(np.abs(half)):.3g}"
            figures = [predicted[0], f"{np.quantile(off, 0.95):.3g}", predicted[1], wide, f"{held:.1%}{missed}"]
            lines.append([name, f"{float(epsilon):g}", *figures])
    head = ["data", "epsilon", "95% predicted", "measured", "interval predicted", "measured", "held"]
    return Grid(title=f"One median of {rows:,} rows: rows of rank", head=head, rows=lines)


def _median_errors(
    x: NDArray[np.int64], runs: list[tuple[int, int, int]], epsilon: Fraction, draws: int, *, bought: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows of rank between each release and the median; half-widths in rows, negative where they do not hold it."""
    bound = choose_with_bound(epsilon, _even) if bought else None
    noise = choose(epsilon, _even) if bound is None else bound.noise
    own = int(epsilon * NANO)
    mechanism = SmoothQuantile(epsilon_nano=own, max_rows=1, grid_cells=CELLS, chosen=noise)
    m, s = mechanism.bound(runs, len(x))
    off, half = np.zeros(draws), np.zeros(draws)
    middle = len(x) / 2
    for i in range(draws):
        value = mechanism.release(m, s)
        low, high = np.searchsorted(x, value, "left"), np.searchsorted(x, value, "right")
        off[i] = max(0.0, low - middle, middle - high)
        if bound is not None:
            wide = bound.half_width(bound.release(s, CELLS))
            ends = np.searchsorted(x, [value - wide, value + wide])
            half[i] = (ends[1] - ends[0]) / 2 * (1 if abs(value - m) <= wide else -1)
            half[i] = half[i] or (1e-9 if abs(value - m) <= wide else -1e-9)
    return off, half


def trees(draws: int) -> Grid:
    """Costs of spanning trees of random points in a square, all pairs joined; shares of the cost."""
    lines, top = [], 2**20
    for towns in TOWNS:
        rng = np.random.default_rng(towns)
        points = rng.uniform(size=(towns, 2))
        pairs = np.array(list(itertools.combinations(range(towns), 2)))
        far = np.hypot(*(points[pairs[:, 0]] - points[pairs[:, 1]]).T) / 2**0.5
        edges = Edges(first=pairs[:, 0], second=pairs[:, 1], weight=(far * top).astype(np.int64))
        for epsilon in EPSILONS[1:]:
            tree = SpanningTree(vertices=towns, top=top, unit=1, noise=choose(epsilon, _even))
            began = time.process_time()
            cost, s = tree.figures(edges)
            took = time.process_time() - began
            off = [abs(tree.noise.add(cost, s, tree.most) - cost) / cost for _ in range(draws)]
            public = 3 * top / float(epsilon) / cost
            figures = [f"{np.quantile(off, 0.95):.2%}", f"{public:.2%}", f"{s / top:.3g}", f"{took:.2f} s"]
            lines.append([f"{towns}", f"{len(pairs):,}", f"{float(epsilon):g}", *figures])
    head = ["vertices", "edges", "epsilon", "smooth, 95%", "public scale, 95%", "S / largest weight", "CPU"]
    return Grid(title="Cost of a minimum spanning tree", head=head, rows=lines)


def main(argv: Sequence[str]) -> int:
    """Print the tables; 1 if intervals held too seldom."""
    parser = argparse.ArgumentParser(prog="duckdp bench sensitivity", description="Measure smooth sensitivity.")
    parser.add_argument("--rows", type=int, default=10_000, help="of each column, default 10,000")
    parser.add_argument("--draws", type=int, default=DRAWS, help=f"releases of each, default {DRAWS}")
    parser.add_argument("--markdown", action="store_true", help="to paste into a document")
    asked = parser.parse_args(list(argv))
    sys.stdout.write(f"duckdp bench sensitivity: {machine()}\n")
    grids = [quantiles(asked.rows, asked.draws), trees(asked.draws)]
    for grid in grids:
        sys.stdout.write(f"\n{show_grid(grid, markdown=asked.markdown)}\n")
    return 0 if all(grid.holds for grid in grids) else 1

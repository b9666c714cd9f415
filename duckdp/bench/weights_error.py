"""``python -m duckdp.bench.weights_error``: counts from public weights (PMW) against what is promised of them.

Two promises. The source's, for any data and any k questions: an answer that mends the weights was off by D or more,
each such answer brings them nearer to the data, and after c = 4 ln(cells) (rows / D)^2 of them nothing is left to
mend; so with c hits and a threshold of D above the noise no question goes unanswered, and all errors are below

    D + hit_error(2 k) + miss_error + 1        (``mechanisms/sparse_vector.py``), at the best D

which falls as (epsilon rows)^(-1/3) of the rows. And our own, of every release, whatever its hits: answers of the
weights are within ``unmeasured_error``, all of them with 95%.

Cells are of columns of four values that depend on each other; questions hold for some values of up to three columns.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from duckdp.bench.measure import Grid, machine, show_grid
from duckdp.core.types import NANO
from duckdp.mechanisms.multiplicative_weights import MultiplicativeWeights, mended

VALUES = 4  # of a column
COLUMNS = (2, 5)  # of the cells
QUESTIONS = 1_000  # k, of one release
RUNS = 20  # releases of each line
SHIPPED_HITS = 10  # the default of dp_pmw_open
_UPDATES = 4  # c is so many ln(cells) (rows / D)^2


def promised(cells: int, rows: int, epsilon: float, questions: int) -> tuple[MultiplicativeWeights, int]:
    """The mechanism with the source's number of hits at the best D, and the bound on all of its errors, rows.

    Args:
        cells: of the weights.
        rows: of the table.
        epsilon: of the release.
        questions: k, that are asked of it.
    """
    best: tuple[MultiplicativeWeights, int] | None = None
    for far in np.geomspace(rows / 200, rows, 60):
        hits = math.ceil(_UPDATES * math.log(cells) * (rows / far) ** 2)
        terms = {"hits": hits, "epsilon_nano": round(epsilon * NANO)}
        threshold = math.ceil(far) + MultiplicativeWeights(**terms).vector.hit_error(2 * questions)
        made = MultiplicativeWeights(**terms, threshold=threshold)
        if best is None or made.unmeasured_error < best[1]:
            best = made, made.unmeasured_error
    if best is None:
        raise AssertionError("no distance was tried")
    return best


def _table(columns: int, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Counts of cells; each column follows the one before."""
    first, after = rng.dirichlet(np.ones(VALUES)), rng.dirichlet(np.full(VALUES, 0.7), size=(columns, VALUES))
    law = first
    for column in range(1, columns):
        law = (law[..., None] * after[column]).reshape(*law.shape, VALUES)
    return rng.multinomial(rows, law.ravel())


def _question(columns: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Cells that fulfil a condition on up to three columns."""
    held = np.ones((VALUES,) * columns, dtype=np.bool_)
    for column in rng.choice(columns, size=rng.integers(1, min(columns, 3) + 1), replace=False):
        values = rng.random(VALUES) < 0.5
        shape = [1] * columns
        shape[int(column)] = VALUES
        held &= values.reshape(shape)
    return held.ravel()


def _asked(
    made: MultiplicativeWeights, counts: NDArray[np.int64], columns: int, questions: int, rng: np.random.Generator
) -> tuple[int, int, float]:
    """(answers, measured ones, the largest error of those that the weights gave) of one release, rows."""
    shift, total = made.begin(), made.total(int(counts.sum()))
    known: list[tuple[NDArray[np.bool_], float]] = []
    weights, worst, answers = mended(len(counts), total, known), 0.0, 0
    while answers < questions and len(known) < made.hits:
        members = _question(columns, rng)
        true, guess = int(counts[members].sum()), total * float(weights[members].sum())
        reply = made.reply(true, guess, shift)
        answers += 1
        if reply.measured:
            known.append((members, reply.value))
            weights = mended(len(counts), total, known)
        else:
            worst = max(worst, abs(reply.value - true))
    return answers, len(known), worst


def grid(rows: Sequence[int], epsilons: Sequence[float], runs: int, questions: int = QUESTIONS) -> Grid:
    """Promises and what was measured, of tables and releases of their own."""
    lines = []
    for columns in COLUMNS:
        for size in rows:
            for epsilon in epsilons:
                cells = VALUES**columns
                for name, made in (
                    ("source", promised(cells, size, epsilon, questions)[0]),
                    ("shipped", MultiplicativeWeights(hits=SHIPPED_HITS, epsilon_nano=round(epsilon * NANO))),
                ):
                    bound = made.unmeasured_error
                    rng = np.random.default_rng([columns, size])
                    found = [_asked(made, _table(columns, size, rng), columns, questions, rng) for _ in range(runs)]
                    answers, hits, worst = (np.array(part) for part in zip(*found, strict=True))
                    held = float(np.mean(worst <= bound))
                    missed = " MISSED" if held < 1 - 0.05 - 3 * math.sqrt(0.05 * 0.95 / runs) else ""
                    told = f"{bound:,}" if bound < size else f"{bound:,} (more than all)"
                    figures = [f"{np.median(answers):,.0f}", f"{np.median(hits):.0f} of {made.hits:,}", told]
                    figures += [f"{np.median(worst):,.0f}", f"{worst.max():,.0f}", f"{held:.0%}{missed}"]
                    lines.append([f"{cells:,}", f"{size:,}", f"{epsilon:g}", name, *figures])
    head = ["cells", "rows", "epsilon", "hits of", "answers", "measured", "bound", "worst, median", "most", "held"]
    return Grid(title=f"Counts from public weights, {questions:,} questions, {runs} releases", head=head, rows=lines)


def main(argv: Sequence[str]) -> int:
    """Print the table; 1 if a bound held too seldom."""
    parser = argparse.ArgumentParser(prog="python -m duckdp.bench.weights_error", description="Measure PMW's bounds.")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 1_000_000, 100_000_000])
    parser.add_argument("--runs", type=int, default=RUNS, help=f"releases of each, default {RUNS}")
    parser.add_argument("--markdown", action="store_true", help="to paste into a document")
    asked = parser.parse_args(list(argv))
    sys.stdout.write(f"weights_error: {machine()}\n")
    found = grid(asked.rows, (0.1, 1.0), asked.runs)
    sys.stdout.write(f"\n{show_grid(found, markdown=asked.markdown)}\n")
    return 0 if found.holds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

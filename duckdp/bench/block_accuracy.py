"""How far aggregates of blocks are from those of all rows, by combination, beside how far blocks are themselves.

``python -m duckdp.bench.block_accuracy``: 10^5 made-up rows, each a unit, skewed; medians of 200 releases.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import duckdb
import numpy as np
import pyarrow as pa

from duckdp.bench.measure import Grid, show_grid
from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler.block_expression import read_block_expression
from duckdp.compiler.block_values import CELLS, BlockTask, Combination
from duckdp.core.interval import Interval
from duckdp.core.types import NANO, Neighbours

ROWS = 100_000  # each a unit
BLOCKS = (30, 100, 300, 1000)  # that each aggregate is asked of
EPSILONS = (0.1, 1.0)  # of one release
RELEASES = 200  # of which medians are told
NEAR = 0.75  # of the blocks: the accuracy of samples, as the theorem of the centre of attention takes it
COMBINATIONS: tuple[Combination, ...] = ("mean", "median", "center")
#: Aggregates with the range that an analyst would say.
ASKED: dict[str, tuple[float, float]] = {
    "corr(x, y)": (-1, 1),
    "regr_slope(y, x)": (-3, 3),
    "quantile_cont(x, 0.9)": (0, 100),
    "mad(y)": (0, 50),
    "kurtosis(x)": (-3, 20),
    "entropy(k)": (0, math.log2(10)),
    "stddev(x) / avg(x)": (0, 3),
    "avg(y) FILTER (WHERE x > 30) - avg(y) FILTER (WHERE x <= 30)": (-100, 100),
}
_TABLE = Table(
    name="t",
    relation=("memory", "main", "t"),
    columns=(
        *(Column(name=n, source=n, type="DOUBLE", kind=Kind.NUMBER, lower=0, upper=100) for n in ("x", "y")),
        Column(name="k", source="k", type="BIGINT", kind=Kind.NUMBER, integral=True, lower=0, upper=9),
    ),
    row_cap=ROWS,
    unit_key="id",
    unit_type="BIGINT",
)


def load(con: duckdb.DuckDBPyConnection) -> None:
    """Make the rows: x skewed, y half of it and noise, k of ten values."""
    rng = np.random.default_rng(3)
    x = np.clip(rng.gamma(3, 8, ROWS), 0, 100)
    y = np.clip(x / 2 + rng.normal(20, 10, ROWS), 0, 100)
    made = pa.table({"id": np.arange(ROWS), "x": x, "y": y, "k": np.minimum(rng.geometric(0.3, ROWS) - 1, 9)})
    con.register("made", made)
    con.execute("CREATE TABLE t AS FROM made")


def plan(aggregate: str, span: tuple[float, float], blocks: int) -> BlockTask:
    """Plan one release of an aggregate with a stated range, of so many blocks."""
    return BlockTask(
        table=_TABLE,
        asked=read_block_expression(aggregate, _TABLE),
        where=None,
        blocks=blocks,
        span=Interval(*span),
        combination="mean",
        epsilon_nano=NANO,
        neighbours=Neighbours.ADD_REMOVE,
    )


def errors(task: BlockTask, values: Sequence[int], true: float) -> list[float]:
    """Median error of each combination, at each epsilon."""
    found = []
    for epsilon in EPSILONS:
        for combination in COMBINATIONS:
            one = replace(task, combination=combination, epsilon_nano=round(epsilon * NANO))
            mechanism, parts = one.mechanism_of_blocks, {"mean": one.blocks, "median": 1, "center": 2}[combination]
            width = one.span.upper - one.span.lower
            released = [one.span.lower + width * mechanism.release(values) / (parts * CELLS) for _ in range(RELEASES)]
            found.append(median(abs(min(max(v, one.span.lower), one.span.upper) - true) for v in released))
    return found


def accuracy() -> Grid:
    """A line for each aggregate and number of blocks."""
    head = ["aggregate", "blocks", "3 of 4 blocks within"]
    head += [f"{c}, epsilon {e:g}" for e in EPSILONS for c in COMBINATIONS]
    rows = []
    with duckdb.connect() as con:
        load(con)
        for aggregate, span in ASKED.items():
            ((true,),) = con.execute(f"SELECT {aggregate} FROM t").fetchall()
            for blocks in BLOCKS:
                task = plan(aggregate, span, blocks)
                query = task.query(salt=11)
                values = task.values(con.execute(query.sql, list(query.parameters)).fetchall())
                width = span[1] - span[0]
                apart = sorted(abs(span[0] + width * v / CELLS - true) for v in values)
                near = apart[math.ceil(NEAR * blocks) - 1]
                rows.append([aggregate, str(blocks), f"{near:.4f}", *(f"{e:.4f}" for e in errors(task, values, true))])
    return Grid(title=f"Median error of aggregates of blocks, {ROWS:,} rows", head=head, rows=rows)


def main() -> int:
    """Print the table of errors; the exit code of a program that worked."""
    sys.stdout.write(show_grid(accuracy(), markdown="--markdown" in sys.argv) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

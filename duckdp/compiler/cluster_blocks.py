"""k-means of each block of units, in DuckDB: centres of the same block's rows, moved so often from public places.

A row's block, and why a unit changes at most ``changed`` of the blocks, is as in ``block_values.py``. From there all
is arithmetic of whole numbers: a row is nearest to the first of the least distances, and a centre moves to the floor of
the mean of its rows' places, or stays where it has none. So the centres of a block are a function of the set of its
rows; those of a block without rows are the public places.
"""

from __future__ import annotations

from collections.abc import Sequence

from duckdp.compiler.block_read import print_block
from duckdp.compiler.cluster_rows import Center, ClusterRows, print_least
from duckdp.compiler.printing import UNIT, Parameters
from duckdp.core.reads import OfAllRows, PrivateQuery

MOVES = 10  # of the centres of each block
_ITERATED = "centres of blocks are moved to means of all rows of the block, again and again"


def print_block_centers(rows: ClusterRows, centers: Sequence[Center], blocks: int, salt: int) -> PrivateQuery:
    """Rows (block, places of the first centre, of the second, ...), one for each block that has rows."""
    parameters = Parameters()
    names, listed = rows.names, ", ".join(f"q.{name}" for name in rows.names)
    given = rows.rows(parameters, salt, unit=True)
    if rows.table.unit_key is not None:
        placed = f"SELECT {print_block(f'q.{UNIT}', salt, blocks)} AS block, {listed} FROM {given} AS q"
    else:
        counted = f"(SELECT {listed}, system.main.count_star() AS n FROM {given} AS q GROUP BY ALL)"
        copied = f"(SELECT {listed}, system.main.unnest(system.main.range(q.n)) AS copy FROM {counted} AS q)"
        placed = f"SELECT {print_block(f'{listed}, q.copy', salt, blocks)} AS block, {listed} FROM {copied} AS q"
    places = [[f"p{j}_{i}" for i in range(len(names))] for j in range(len(centers))]
    every = [name for row in places for name in row]
    first = ", ".join(
        f"CAST({place} AS BIGINT) AS {name}"
        for names_of, center in zip(places, centers, strict=True)
        for name, place in zip(names_of, center, strict=True)
    )
    steps = [f"m0 AS MATERIALIZED (SELECT q.block, {first} FROM (SELECT DISTINCT q.block FROM placed AS q) AS q)"]
    scores = [" + ".join(f"q.{p} * (q.{p} - 2 * q.{c})" for p, c in zip(row, names, strict=True)) for row in places]
    moved = ", ".join(_moved(name, c, j) for j, row in enumerate(places) for name, c in zip(row, names, strict=True))
    known = ", ".join(f"m.{name}" for name in every)
    for turn in range(MOVES):
        joined = f"(SELECT r.*, {known} FROM placed AS r JOIN m{turn} AS m ON m.block = r.block)"
        near = print_least(joined, scores)
        steps.append(f"m{turn + 1} AS MATERIALIZED (SELECT q.block, {moved} FROM {near} AS q GROUP BY q.block)")
    sql = f"WITH placed AS MATERIALIZED ({placed}), {', '.join(steps)} SELECT m.block, {known} FROM m{MOVES} AS m"
    return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=blocks, parts=OfAllRows(_ITERATED))


def _moved(name: str, column: str, near: int) -> str:
    """A coordinate of a centre after one move: of the rows nearest to it, or as it was."""
    of = f"FILTER (q.near = {near})"
    mean = f"system.main.sum(q.{column}) {of} // system.main.count(q.{column}) {of}"
    return f"CAST(COALESCE({mean}, system.main.any_value(q.{name})) AS BIGINT) AS {name}"

"""The private read of blocks: a row of a unit is in one block, and of each block cells of every aggregate are read.

The claim that a unit changes one block, and its proof, are in ``block_values``; of several aggregates in
``block_vectors``.
"""

from __future__ import annotations

from collections.abc import Sequence

from duckdp.catalog.table import Table
from duckdp.compiler.block_aggregate import BlockAggregate
from duckdp.compiler.block_rows import Axis
from duckdp.compiler.expression import Expr, columns
from duckdp.compiler.printing import UNIT, Parameters, number, print_expr, print_rows, quote
from duckdp.core.reads import AddByKey, OfAllRows, PrivateQuery

_APART = "copies of equal rows are numbered, or values are put in order or counted, within blocks of all rows"


def print_blocks(
    table: Table, calls: Sequence[BlockAggregate], where: Expr | None, blocks: int, salt: int
) -> PrivateQuery:
    """(block, cells of the first aggregate, of the second, ...), at most one row for each block.

    Args:
        table: protected.
        calls: one or more aggregates.
        where: which rows, or None: all.
        blocks: how many.
        salt: of the data set.
    """
    parameters, keyed = Parameters(), table.unit_key is not None
    arguments = [argument for call in calls for argument in call.read]
    axes = [axis for call in calls for axis in call.axes]
    names = [f"c{i}" for i in range(len(arguments))]
    listed = ", ".join(f"q.{name}" for name in names)
    given = print_given(table, arguments, axes, where, parameters)
    if len(calls) == 1:
        known = " AND ".join(f"q.{name} IS NOT NULL" for name in names)
        given = f"(SELECT q.* FROM {given} AS q WHERE {known})"
    if keyed:
        placed = f"SELECT {print_block('q.unit', salt, blocks)} AS block, {listed} FROM {given} AS q"
    else:
        counted = f"(SELECT {listed}, system.main.count_star() AS n FROM {given} AS q GROUP BY ALL)"
        copied = f"(SELECT {listed}, system.main.unnest(system.main.range(q.n)) AS copy FROM {counted} AS q)"
        placed = f"SELECT {print_block(f'{listed}, q.copy', salt, blocks)} AS block, {listed} FROM {copied} AS q"
    sql = _alone(calls[0], placed) if len(calls) == 1 else _together(calls, names, placed)
    adds = keyed and all(call.sums for call in calls)
    parts = AddByKey(keys=1, ordered=False) if adds else OfAllRows(_APART)
    return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=blocks, parts=parts)


def _alone(call: BlockAggregate, placed: str) -> str:
    """Cells of one aggregate, of placed rows where all arguments are known."""
    return f"SELECT block, {', '.join(call.cells)} FROM ({_by_value(call, placed)}) AS placed GROUP BY block"


def _together(calls: Sequence[BlockAggregate], names: Sequence[str], placed: str) -> str:
    """Cells of several, each of the rows where its own arguments are known."""
    steps, shown, joined, first = [f"placed AS MATERIALIZED ({placed})"], ["b.block"], "", 0
    for i, call in enumerate(calls):
        own = names[first : first + len(call.arguments)]
        first += len(own)
        values = ", ".join(f"{cell} AS x{j}" for j, cell in enumerate(call.cells))
        steps.append(f"a{i} AS (SELECT block, {values} FROM ({_known(call, own)}) AS known GROUP BY block)")
        shown += [f"a{i}.x{j}" for j in range(len(call.cells))]
        joined += f" LEFT JOIN a{i} ON a{i}.block = b.block"
    every = "(SELECT DISTINCT block FROM placed) AS b"
    return f"WITH {', '.join(steps)} SELECT {', '.join(shown)} FROM {every}{joined}"


def _known(call: BlockAggregate, names: Sequence[str]) -> str:
    """(block, c0, ...) of the placed rows where an aggregate's own arguments are known."""
    listed = ", ".join(f"p.{name} AS c{i}" for i, name in enumerate(names))
    known = " AND ".join(f"p.{name} IS NOT NULL" for name in names)
    return _by_value(call, f"SELECT p.block, {listed} FROM placed AS p WHERE {known}")


def _by_value(call: BlockAggregate, rows: str) -> str:
    """The same rows; where values are counted, or count once, a row for each value of a block."""
    if call.row.by_value:
        return f"SELECT q.block, q.c0, system.main.count_star() AS n FROM ({rows}) AS q GROUP BY ALL"
    return f"SELECT DISTINCT q.block, q.c0 FROM ({rows}) AS q" if call.distinct else rows


def print_given(
    table: Table, arguments: Sequence[Expr], axes: Sequence[Axis | None], where: Expr | None, parameters: Parameters
) -> str:
    """(unit, c0, c1, ...) of the rows that fulfil a predicate: arguments as cells of their grids, or as they are."""
    rows = print_rows(table, columns(*arguments, where), parameters, unit=True)

    def printed(expr: Expr) -> str:
        return print_expr(expr, lambda c: f"r.{quote(c.name)}", parameters)

    unit = [] if table.unit_key is None else [f"r.{UNIT} AS unit"]
    found = [f"{printed(argument)} AS v{i}" for i, argument in enumerate(arguments)]
    asked = "" if where is None else f" WHERE {printed(where)}"
    placed = [f"v.v{i}" if axis is None else _on_grid(f"v.v{i}", axis) for i, axis in enumerate(axes)]
    items = [*(["v.unit"] if unit else []), *(f"{cell} AS c{i}" for i, cell in enumerate(placed))]
    return f"(SELECT {', '.join(items)} FROM (SELECT {', '.join([*unit, *found])} FROM {rows} AS r{asked}) AS v)"


def _on_grid(value: str, axis: Axis) -> str:
    """A cell of the grid; NULL of NULL. Total: NaN is the largest of all."""
    place = f"({value} - {number(axis.lower)}) / {number(axis.width)}"
    raw = f"system.main.floor({place} * {axis.steps} + 0.5)"
    bounded = f"WHEN {raw} >= {axis.steps} THEN {axis.steps} WHEN {raw} > 0 THEN CAST({raw} AS BIGINT) ELSE 0"
    return f"CAST((CASE WHEN {value} IS NULL THEN NULL {bounded} END) AS BIGINT)"


def print_block(keys: str, salt: int, blocks: int) -> str:
    """The block of what has these keys: a function of them and of the salt alone."""
    draw = f"system.main.hash(system.main.hash({keys}, CAST({salt} AS UBIGINT)))"
    return f"CAST({draw} % CAST({blocks} AS UBIGINT) AS BIGINT)"

"""How many privacy units fulfil each of several predicates, as one private read; sums of numbers from 0 to 1 as well.

A unit counts once for each predicate that any of its rows fulfils, however many rows it has: so it changes every count
by at most 1, whatever ``max_rows`` and ``max_groups`` are, and nothing needs to be bounded. Where a unit comes or goes,
all counts move the same way.

A question that is a number f of rows is asked for the sum over units of the largest f of a unit's rows, which of a
predicate's 0 and 1 is the count. Each row's f, 0 where it is NULL, is put on a grid of ``GRID`` parts of 1 and cut to 0
and 1 within the read. So S, the sum in parts, is a whole number, exact in any order (2^40 rows of 2^40 parts are below
2^127); a unit that comes or goes changes it by 0 to ``GRID``, one that is replaced by at most as much up or down.
:func:`in_units` rounds S to q, the nearest whole number of units. q is no finer than a count: floor(x + d) - floor(x)
is 0 or 1 for d from 0 to 1, so q changes by at most 1 as well, the same way as S, and whatever noise in whole numbers
protects a count protects q. q is off the sum of the values as DuckDB computes them by at most ``sum_rounding``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duckdp.catalog.table import Kind, Table
from duckdp.compiler.expression import Expr, columns
from duckdp.compiler.printing import UNIT, Parameters, number, print_expr, print_rows, quote
from duckdp.core.reads import Add, PrivateQuery

GRID = 2**40  # parts of 1: of a billion rows all roundings together are below 0.001 units, and sums fit 128 bits


def count_units(table: Table, where: Expr | None, questions: Sequence[Expr]) -> PrivateQuery:
    """The read: one row with the number of units of each predicate, NULL where there are no rows at all.

    Args:
        table: protected.
        where: which rows count, or None.
        questions: predicates of rows; of a number of rows it is S, the sum in parts of ``GRID``.
    """
    parameters = Parameters()
    rows = print_rows(table, columns(where, *questions), parameters, unit=True)

    def printed(expr: Expr) -> str:
        return print_expr(expr, lambda c: f"r.{quote(c.name)}", parameters)

    held = [
        f"(CASE WHEN {printed(q)} THEN 1 ELSE 0 END)" if q.kind is Kind.BOOLEAN else _parts(printed(q))
        for q in questions
    ]
    kept = "" if where is None else f" WHERE {printed(where)}"
    names = [f"p{i}" for i in range(len(held))]
    if table.unit_key is not None:
        held = [f"system.main.max({h})" for h in held]
        kept += f" GROUP BY r.{UNIT}"
    items = ", ".join(f"{h} AS {name}" for h, name in zip(held, names, strict=True))
    sums = ", ".join(f"system.main.sum(u.{name})" for name in names)
    sql = f"SELECT {sums} FROM (SELECT {items} FROM {rows} AS r{kept}) AS u"
    return PrivateQuery(sql=sql, parameters=tuple(parameters.values), parts=Add())


def print_kept_keys(keys: str, rows: str, salt: int, groups: int) -> str:
    """Rows (unit, keys...) as one for each key of a unit, and of more than so many keys those with the smallest hash.

    Args:
        keys: columns of ``rows``, as SQL.
        rows: a relation, as SQL.
        salt: of the hash.
        groups: keys of one unit that count.
    """
    # hashed twice, as in print_chosen: the first joins the salt by XOR alone
    draw = f"system.main.hash(system.main.hash({UNIT}, {keys}, CAST({salt} AS UBIGINT)))"
    rank = f"system.main.row_number() OVER (PARTITION BY {UNIT} ORDER BY {draw}, {keys})"
    once = f"(SELECT DISTINCT {UNIT}, {keys} FROM {rows}) AS once"
    ranked = f"(SELECT *, {rank} AS place FROM {once}) AS ranked"
    return f"(SELECT * FROM {ranked} WHERE place <= {groups}) AS kept"


def print_placed(value: str) -> str:
    """A printed number on the grid, in parts of ``GRID``, 0 where it is NULL; not cut to 0 and 1."""
    return f"system.main.floor(COALESCE({value}, 0e0) * {number(GRID)} + 0.5e0)"


def _parts(value: str) -> str:
    """The parts of ``GRID`` that a row counts, 0 to all of them, whatever its number is: NaN counts all."""
    return f"CAST(system.main.least(system.main.greatest({print_placed(value)}, 0e0), {number(GRID)}) AS BIGINT)"


def in_units(question: Expr, exact: Any) -> int:
    """q: what the read gave of a question (NULL: no rows), as the nearest whole number of units; exact and private."""
    return int(exact or 0) if question.kind is Kind.BOOLEAN else (2 * int(exact or 0) + GRID) // (2 * GRID)


def sum_rounding(rows: int) -> float:
    """How far q of a number may be off the sum of its values, in units, of at most so many rows.

    Half a unit of q, and of each row's number half a part of the grid and what adding the half in floats may be off,
    2^-13 of a part: below one part.
    """
    return 0.5 + rows / GRID

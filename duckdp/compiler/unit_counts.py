"""How many privacy units fulfil each of several predicates, as one private read.

A unit counts once for each predicate that any of its rows fulfils, however many rows it has: so it changes every count
by at most 1, whatever ``max_rows`` and ``max_groups`` are, and nothing needs to be bounded. Where a unit comes or goes,
all counts move the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

from duckdp.catalog.table import Table
from duckdp.compiler.expression import Expr, columns
from duckdp.compiler.printing import UNIT, Parameters, print_expr, print_rows, quote
from duckdp.core.reads import Add, PrivateQuery


def count_units(table: Table, where: Expr | None, predicates: Sequence[Expr]) -> PrivateQuery:
    """The read: one row with the number of units of each predicate, NULL where there are no rows at all.

    Args:
        table: protected.
        where: which rows count, or None.
        predicates: of rows.
    """
    parameters = Parameters()
    rows = print_rows(table, columns(where, *predicates), parameters, unit=True)

    def printed(expr: Expr) -> str:
        return print_expr(expr, lambda c: f"r.{quote(c.name)}", parameters)

    held = [f"(CASE WHEN {printed(p)} THEN 1 ELSE 0 END)" for p in predicates]
    kept = "" if where is None else f" WHERE {printed(where)}"
    names = [f"p{i}" for i in range(len(held))]
    if table.unit_key is not None:
        held = [f"system.main.max({h})" for h in held]
        kept += f" GROUP BY r.{UNIT}"
    items = ", ".join(f"{h} AS {name}" for h, name in zip(held, names, strict=True))
    sums = ", ".join(f"system.main.sum(u.{name})" for name in names)
    sql = f"SELECT {sums} FROM (SELECT {items} FROM {rows} AS r{kept}) AS u"
    return PrivateQuery(sql=sql, parameters=tuple(parameters.values), parts=Add())

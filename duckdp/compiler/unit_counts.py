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

"""Sums of the moments of single columns over private rows, in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from duckdp.compiler.printing import number
from duckdp.synthetic.moments.marginals import Marginals
from duckdp.synthetic.unit.buy.sums_sql import clamped_sum


def print_marginals(marginals: Marginals, relation: str, columns: Sequence[str], bits: int) -> str:
    """One SELECT that gives R integers; see ``sums_sql.print_sums``."""
    sql, done = relation, 1
    known = {i: {0: number(1), 1: f"s.{columns[i]}"} for i in marginals.columns}
    while done < marginals.degree:  # each subquery doubles the degrees: one per degree takes DuckDB long to plan
        items, last = [], min(2 * done, marginals.degree)
        for i in marginals.columns:
            for k in range(done + 1, last + 1):
                half = (k + 1) // 2
                a, b, rest = known[i][half], known[i][k - half], known[i][2 * half - k]
                items.append(f"({number(2)} * {a} * {b} - {rest}) AS t{i}_{k}")
        for i in marginals.columns:
            known[i].update({k: f"s.t{i}_{k}" for k in range(done + 1, last + 1)})
        sql, done = f"(SELECT s.*, {', '.join(items)} FROM {sql} AS s)", last
    sums = ", ".join(clamped_sum(known[i][k], bits) for i in marginals.columns for k in range(2, marginals.degree + 1))
    return f"SELECT {sums} FROM {sql} AS s"

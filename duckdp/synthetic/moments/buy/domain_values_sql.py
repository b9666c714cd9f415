"""Counts of the values of domains over private rows, in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from duckdp.compiler.printing import number
from duckdp.synthetic.moments.domain_values import Choices
from duckdp.synthetic.unit.buy.sums_sql import clamped_sum


def print_choices(choices: Choices, relation: str, columns: Sequence[str], bits: int) -> str:
    """One SELECT that gives K integers; see ``sums_sql.print_sums``.

    A row's value in a domain is one number, the first that holds: so it is counted for one value at most.
    """
    places = []
    for k, group in enumerate(choices.groups):
        arms = " ".join(f"WHEN s.{columns[i]} > {number(0)} THEN {j}" for j, i in enumerate(group))
        places.append(f"CASE {arms} ELSE -1 END AS dp_p{k}")
    one, none = number(1), number(0)
    sums = [
        clamped_sum(f"CASE WHEN s.dp_p{k} = {j} THEN {one} ELSE {none} END", bits)
        for k, group in enumerate(choices.groups)
        for j in range(len(group))
    ]
    return f"SELECT {', '.join(sums)} FROM (SELECT {', '.join(places)} FROM {relation} AS s) AS s"

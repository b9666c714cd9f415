"""Which releases an outer part aggregates over: of keys without a domain that is about the groups that are shown.

::

    SELECT count(*), avg(n) FROM (SELECT name, count(*) AS n FROM t GROUP BY name)

The outer figures are exact, of a table that lacks each group with few units. Where most groups have few (a key with
about one row a value) they are of nearly nothing, and no interval tells: a note does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sqlglot import exp

from duckdp.compiler.frame import has_aggregate
from duckdp.compiler.outer.block import table_name
from duckdp.compiler.outer.least import VALUE
from duckdp.compiler.outer.trees import nodes_of
from duckdp.compiler.plan import Plan, threshold_units


def few_groups(outer: exp.Query, plans: Sequence[Plan]) -> list[str]:
    """Notes of what is computed over groups of which those with few units are missing.

    Args:
        outer: the outer part.
        plans: of the releases that it reads, in their order.
    """
    if all(plan.tau is None for plan in plans):
        return []
    read, notes = _aggregated(outer), []
    for number, plan in enumerate(plans):
        units = threshold_units(plan)
        if units is None or table_name(number) not in read:
            continue
        names = ", ".join(key.name for key in plan.query.keys)
        unit = plan.query.table.unit_key
        few = f"{math.ceil(units)} {'units' if unit is None else f'different {unit}'}"
        notes.append(f"what is computed over groups by {names} is of those alone that have at least about {few}")
    return notes


def _aggregated(outer: exp.Query) -> set[str]:
    """Names of the tables whose rows are aggregated somewhere, in a window or group; through CTEs too."""
    assert isinstance(outer, exp.Expression)
    nodes = list(nodes_of(outer))
    ctes = {cte.alias.lower(): cte for cte in nodes if isinstance(cte, exp.CTE)}
    found: set[str] = set()
    below: list[exp.Expression] = [s for s in nodes if isinstance(s, exp.Select) and _aggregates(s)]
    while below:
        names = {t.name for t in nodes_of(below.pop()) if isinstance(t, exp.Table)} - found
        found |= names
        below += [ctes[name.lower()] for name in names if name.lower() in ctes]
    return found


def _aggregates(select: exp.Select) -> bool:
    """Whether an output or condition is an aggregate of rows, but for the least values that are asked for here."""
    parts = [e for e in select.expressions if not (isinstance(e, exp.Alias) and e.alias == VALUE)]
    return any(has_aggregate(e) for e in parts)

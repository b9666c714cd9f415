"""How many different values there are in each group: beside the units' cells, as it is no sum over units.

Sensitivity: compiler/measures.py. What is printed here makes its premises true: of each unit at most max_rows values
(or as many as there are) count in a group, chosen from that unit's own by a keyed hash, in the groups that its cells
are kept in.
"""

from __future__ import annotations

from duckdp.compiler.measures import rows_that_count
from duckdp.compiler.plan import Plan
from duckdp.compiler.printing import UNIT


def with_values(plan: Plan, prepared: str, kept: str, keys: list[str], salt: int) -> str:
    """The units' cells, and beside them the numbers of different values of each group."""
    counted = [i for i, m in enumerate(plan.measures) if m.kind == "values"]
    if not counted:
        return kept
    cells = [f"c{i}_{j}" for i, m in enumerate(plan.measures) for j in range(m.cells)]
    rows = [f"SELECT {', '.join([*keys, *cells])} FROM {kept}"]
    for i in counted:
        own = [f"values AS c{i}_0" if c == f"c{i}_0" else f"0 AS {c}" for c in cells]
        rows.append(f"SELECT {', '.join([*keys, *own])} FROM {_values(plan, i, prepared, keys, salt)}")
    return f"({' UNION ALL '.join(rows)}) AS beside"


def _values(plan: Plan, i: int, prepared: str, keys: list[str], salt: int) -> str:
    """How many different values a measure has in each group: of each unit at most max_rows.

    The groups are those that layer 5 keeps of the unit: the same hash, over the same rows. A unit's values are chosen
    from its own alone, by a hash in which the unit stands: by one without it all units would choose the same ones.
    """
    measure, secret = plan.measures[i], f"CAST({salt} AS UBIGINT)"
    size, rows = plan.domain_size, prepared
    if keys and (size is None or size > plan.groups):
        group = f"system.main.hash(system.main.hash({', '.join([UNIT, *keys, secret])}))"
        rank = f"system.main.dense_rank() OVER (PARTITION BY {UNIT} ORDER BY {', '.join([group, *keys])})"
        rows = f"(SELECT * FROM (SELECT *, {rank} AS place FROM {rows}) AS ranked WHERE place <= {plan.groups}) AS own"
    where = f"v{i} IS NOT NULL" + (f" AND f{i}" if measure.filter is not None else "")
    names = [UNIT, *keys]
    different = f"(SELECT DISTINCT {', '.join([*names, f'v{i}'])} FROM {rows} WHERE {where}) AS different"
    draw = f"system.main.hash(system.main.hash({', '.join([*names, f'v{i}', secret])}))"
    nth = f"system.main.row_number() OVER (PARTITION BY {', '.join(names)} ORDER BY {draw}, v{i})"
    most = rows_that_count(measure, plan.query.table)
    chosen = f"(SELECT * FROM (SELECT *, {nth} AS nth FROM {different}) AS drawn WHERE nth <= {most}) AS chosen"
    tail = f" GROUP BY {', '.join(keys)}" if keys else ""
    return (
        f"(SELECT {', '.join([*keys, f'system.main.count(DISTINCT v{i}) AS values'])} FROM {chosen}{tail}) AS counted"
    )

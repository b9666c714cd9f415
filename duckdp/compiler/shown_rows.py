"""Which groups of an answer are shown, and in which order: those that may be, min_units, HAVING, ORDER BY, LIMIT.

Post-processing of what was released.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from duckdp.catalog.table import Scalar
from duckdp.compiler.combinations import possible
from duckdp.compiler.expression import Expr
from duckdp.compiler.least_units import least_shown
from duckdp.compiler.plan import Plan
from duckdp.compiler.vectors import Vector


def shown_rows(plan: Plan, vector: Callable[[Expr], Vector], keys: Sequence[Sequence[Scalar]]) -> list[int]:
    """The places of the groups that are shown, in the statement's order.

    Args:
        plan: of the statement.
        vector: value of an expression over all groups.
        keys: of each group.
    """
    query, rows = plan.query, possible(plan.query, keys)
    if query.group_size is not None:
        units, least = vector(query.group_size).value, least_shown(plan)
        rows = [i for i in rows if units[i] >= least]
    if query.having is not None:
        keep = vector(query.having).value
        rows = [i for i in rows if keep[i] is True or keep[i] is np.True_]
    for term in reversed(query.order):
        values = vector(term.expr).value
        rows.sort(key=lambda i: _sort_key(values[i]), reverse=term.descending)
        nulls = [i for i in rows if _missing(values[i])]
        others = [i for i in rows if not _missing(values[i])]
        rows = nulls + others if term.nulls_first else others + nulls
    end = None if query.limit is None else query.offset + query.limit
    return rows[query.offset : end]


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _sort_key(value: Any) -> Any:
    return (0, 0) if _missing(value) else (1, value)

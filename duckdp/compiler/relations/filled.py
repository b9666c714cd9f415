"""public LEFT JOIN protected: every public row is kept, with the protected rows that match it, or alone.

A public row that is kept alone is no unit's, and is there if, and only if, nobody has a matching row. So what is asked
must not tell it from no row at all: keys that are columns of the public table, whose values, and combinations of which
there are, are shown anyway, and aggregates that a row without values leaves as they are. Then the question is that
about protected JOIN public. What a test of a subquery tells (EXISTS) is told of a public row that is kept alone too: it
is FALSE there, and no value less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from sqlglot import exp

from duckdp.compiler import ways
from duckdp.compiler.expression import ColumnRef
from duckdp.compiler.frame import is_aggregate
from duckdp.compiler.parse import refuse
from duckdp.compiler.query import Key, Together
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope
from duckdp.compiler.strictness import null_with


def require_filled(
    select: exp.Select,
    scope: RowScope,
    row: Scalars,
    keys: Sequence[Key],
    together: Sequence[Together],
    filled: frozenset[str],
    text: str,
) -> None:
    """Refuse what a public row that is kept alone would change.

    Args:
        select: the whole statement.
        scope: of its rows.
        row: reads expressions over them.
        keys: of its groups.
        together: those of them that are of one public row.
        filled: names of columns of the public table.
        text: the statement.

    Raises:
        QueryError: Q204.
    """
    refs = [k.expr.column.name for k in keys if isinstance(k.expr, ColumnRef) and k.domain is not None]
    whole = len(keys) == 1 or any(len(t.places) == len(keys) for t in together)  # else some groups are of no public row
    if not refs or len(refs) != len(keys) or not whole or not filled.issuperset(refs) or select.args.get("where"):
        refuse("Q204", ways.PUBLIC_KEYS, select.args.get("where") or select.args["from_"], text)
    told = {e.column.name for n in scope.named if n.hidden for _, e in n.view.columns if isinstance(e, ColumnRef)}
    for node in (cast("exp.Expression", n) for n in select.walk()):
        if not is_aggregate(node):
            continue
        inner = node.this if isinstance(node, exp.AggFunc) else next(iter(node.expressions), None)
        if isinstance(inner, exp.Distinct) and len(inner.expressions) == 1:
            inner = inner.expressions[0]
        if inner is None or isinstance(inner, (exp.Star, exp.Distinct)) or isinstance(node, exp.CountIf):
            refuse("Q204", ways.PUBLIC_COUNT, node, text)
        if scope.is_unit(inner):
            continue
        if scope.mark(inner) is not None or not null_with(row(inner)) - filled - told:
            refuse("Q204", ways.PUBLIC_COUNT, node, text)

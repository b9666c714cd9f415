"""The unit where a condition holds, else NULL: ``count(DISTINCT CASE WHEN c THEN unit END)`` is a count with FILTER.

An aggregate takes no NULL, and CASE is NULL where its condition is not TRUE. So a count, of different units or of rows,
of CASE with one WHEN that gives the unit, and NULL else, counts just what it does ``FILTER (WHERE c)`` of the unit.
"""

from __future__ import annotations

from sqlglot import exp

from duckdp.compiler import unit_ways
from duckdp.compiler.parse import refuse
from duckdp.compiler.scope import RowScope


def filtered_count(node: exp.Count, scope: RowScope, text: str) -> exp.Filter | None:
    """The count of units that a count of CASE is, with FILTER; None: it counts something else.

    Args:
        node: a count of one argument, or DISTINCT.
        scope: of its rows.
        text: the statement.

    Raises:
        QueryError: Q301, the unit stands in a CASE or ``if`` of another form.
    """
    distinct = isinstance(node.this, exp.Distinct)
    given = node.this.expressions if distinct else [node.this]
    inner = given[0].unnest() if len(given) == 1 and isinstance(given[0], exp.Expression) else None
    if not isinstance(inner, (exp.Case, exp.If)) or not any(_is_unit(v, scope) for v in _values(inner)):
        return None
    condition, values = _condition(inner), _values(inner)
    if condition is None or not _is_unit(values[0], scope) or not all(isinstance(v, exp.Null) for v in values[1:]):
        unit = next(v for v in values if _is_unit(v, scope)).sql(dialect="duckdb")
        refuse("Q301", unit_ways.unit_in_case(unit, distinct=distinct), inner, text)
    of = exp.Distinct(expressions=[values[0]]) if distinct else values[0]
    return exp.Filter(this=exp.Count(this=of, big_int=True), expression=exp.Where(this=condition))


def _is_unit(node: exp.Expression, scope: RowScope) -> bool:
    return scope.is_unit(node) or scope.mark(node) is not None


def _values(node: exp.Case | exp.If) -> list[exp.Expression]:
    """What it may give."""
    arms = [node] if isinstance(node, exp.If) else node.args["ifs"]
    last = node.args.get("false" if isinstance(node, exp.If) else "default")
    found = [arm.args["true"] for arm in arms] + ([] if last is None else [last])
    return [v.unnest() for v in found]


def _condition(node: exp.Case | exp.If) -> exp.Expression | None:
    """Where it gives its first value; None: it has several."""
    arms: list[exp.Expression] = [node] if isinstance(node, exp.If) else node.args["ifs"]
    subject = None if isinstance(node, exp.If) else node.args.get("this")
    if len(arms) != 1:
        return None
    met: exp.Expression = arms[0].this
    return met if subject is None else exp.EQ(this=exp.Paren(this=subject), expression=exp.Paren(this=met))

"""A value of the same unit's rows, ``(SELECT sum(x) FROM b WHERE b.u = a.u)``, as a LEFT JOIN with its groups.

Each row meets one group at most, as the groups are by what the rows are compared by, so no row is repeated; a row that
meets none has NULL, which a count shows as 0, as the subquery over no rows does. The join says that the units are equal
and is read by the rules of joins: a comparison of anything else pairs two people's rows, and is refused there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from duckdp.compiler.outer.trees import column, duplicate, nodes_of
from duckdp.compiler.output_names import output_name

_PLAIN = frozenset(("expressions", "from_", "joins", "where", "kind"))
_NO_VALUES = (exp.In, exp.From, exp.Join, exp.Exists)  # whose subqueries are rows
_COUNTS = (exp.Count, exp.CountIf)


@dataclass(frozen=True)
class _Correlated:
    """A subquery that names one column of the rows around it.

    Attributes:
        inner: its SELECT.
        own, around: columns that are equal, its own and that of the rows around it.
        rest: what else its WHERE says.
    """

    inner: exp.Select
    own: exp.Column
    around: exp.Column
    rest: tuple[exp.Expression, ...]


def with_scalar_joins(select: exp.Select, names: Callable[[str], str]) -> None:
    """Write the subqueries that give one value of the same unit's rows as joins.

    Args:
        select: changed.
        names: gives unused names.
    """
    clause = select.args.get("from_")
    if clause is None or any(isinstance(e, exp.Star) for e in select.expressions):
        return
    outside = _names([clause.this, *(j.this for j in select.args.get("joins") or ())])
    holding = [e for e in select.expressions if not isinstance(e, exp.Alias) and e.find(exp.Subquery) is not None]
    names_of = {select.expressions.index(e): output_name(e) for e in holding}
    parts = [*select.expressions, *(p for k in ("where", "having") if (p := select.args.get(k)) is not None)]
    for node in [n for part in parts for n in nodes_of(part)]:
        if (
            not isinstance(node, exp.Subquery)
            or isinstance(node.parent, _NO_VALUES)
            or node.find_ancestor(exp.Query) is not select
        ):
            continue
        found = _correlated(node.this, outside)
        if found is not None:
            node.replace(_joined(select, found, names))
    for place, name in names_of.items():  # a value is called by its text, not by the join's names
        shown = select.expressions[place]
        if output_name(shown) != name:
            shown.replace(exp.Alias(this=duplicate(shown), alias=exp.to_identifier(name, quoted=True)))


def _joined(select: exp.Select, found: _Correlated, names: Callable[[str], str]) -> exp.Expression:
    """The value's column, of a join that is added to a SELECT."""
    alias, key, value = names("of_unit"), names("unit"), names("value")
    figure = found.inner.expressions[0].unalias()
    grouped = duplicate(found.inner)
    assert isinstance(grouped, exp.Select)
    shown = [(duplicate(found.own), key), (duplicate(figure), value)]
    grouped.set("expressions", [exp.Alias(this=e, alias=exp.to_identifier(n)) for e, n in shown])
    grouped.set("where", exp.Where(this=exp.and_(*map(duplicate, found.rest), copy=False)) if found.rest else None)
    grouped.set("group", exp.Group(expressions=[duplicate(found.own)]))
    join = exp.Join(
        this=exp.Subquery(this=grouped, alias=exp.TableAlias(this=exp.to_identifier(alias))),
        side="LEFT",
        on=exp.EQ(this=column(key, alias), expression=duplicate(found.around)),
    )
    select.set("joins", [*(select.args.get("joins") or ()), join])
    made: exp.Expression = column(value, alias)
    inner = figure.this if isinstance(figure, exp.Filter) else figure
    return exp.Coalesce(this=made, expressions=[exp.Literal.number(0)]) if isinstance(inner, _COUNTS) else made


def _correlated(inner: exp.Expression, outside: set[str]) -> _Correlated | None:
    """What a subquery compares with the rows around it; None where it is another kind of subquery."""
    if not isinstance(inner, exp.Select) or any(v for k, v in inner.args.items() if k not in _PLAIN):
        return None
    clause, where = inner.args.get("from_"), inner.args.get("where")
    if clause is None or where is None or len(inner.expressions) != 1:
        return None
    figure = inner.expressions[0].unalias()
    whole = figure.this if isinstance(figure, exp.Filter) else figure
    if not isinstance(whole, exp.AggFunc) or sum(isinstance(n, exp.AggFunc) for n in nodes_of(figure)) != 1:
        return None
    inside = _names([clause.this, *(j.this for j in inner.args.get("joins") or ())])
    said = conjuncts_of(where.this)
    ties = [(part, pair) for part in said if (pair := _tie(part, inside, outside)) is not None]
    if len(ties) != 1:
        return None
    tie, (own, around) = ties[0]
    rest = tuple(part for part in said if part is not tie)
    others = [c for part in (figure, clause, *rest) for c in nodes_of(part) if isinstance(c, exp.Column)]
    if any(c.table.lower() in outside - inside for c in others):
        return None
    return _Correlated(inner, own, around, rest)


def _tie(part: exp.Expression, inside: set[str], outside: set[str]) -> tuple[exp.Column, exp.Column] | None:
    """Columns of both sides that a condition says are equal, the inner one first."""
    if not isinstance(part, exp.EQ):
        return None
    one, two = part.this, part.expression
    if not isinstance(one, exp.Column) or not isinstance(two, exp.Column):
        return None
    for own, around in ((one, two), (two, one)):
        if own.table.lower() in inside and around.table.lower() in outside - inside:
            return own, around
    return None


def conjuncts_of(node: exp.Expression) -> list[exp.Expression]:
    """The conditions that must all hold for a condition to hold."""
    inner = node.unnest() if isinstance(node, exp.Paren) else node
    if isinstance(inner, exp.And):
        return [*conjuncts_of(inner.this), *conjuncts_of(inner.expression)]
    return [node]


def _names(items: Sequence[exp.Expression]) -> set[str]:
    return {item.alias_or_name.lower() for item in items}

"""PIVOT of private rows: a question that groups them, and a pivot of its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from duckdp.catalog.table import Kind, Scalar, Table
from duckdp.compiler.outer.trees import column, duplicate, nodes_of

_STATEMENT = frozenset(("this", "expressions", "using", "group", "unpivot"))


def pivoted(tree: exp.Expression, tables: Mapping[str, Table], names: Callable[[str], str]) -> exp.Expression:
    """The tree with pivots of rows as pivots of answers.

    Args:
        tree: changed, or its parts are.
        tables: protected and published tables by lower-case name.
        names: gives unused names.
    """
    if isinstance(tree, exp.Pivot):
        return _statement(tree, tables, names) or tree
    for node in list(nodes_of(tree)):
        if isinstance(node, exp.Subquery) and len(node.args.get("pivots") or ()) == 1:
            _clause(node, names)
    return tree


def _statement(pivot: exp.Pivot, tables: Mapping[str, Table], names: Callable[[str], str]) -> exp.Expression | None:
    """PIVOT t ON x USING sum(y) GROUP BY g; without GROUP BY it shows rows."""
    group, figures = pivot.args.get("group"), pivot.args.get("using") or []
    if any(v for k, v in pivot.args.items() if k not in _STATEMENT) or pivot.args.get("unpivot"):
        return None
    if group is None or not group.expressions or len(pivot.expressions) != 1 or not figures:
        return None
    by = pivot.expressions[0]
    of = by.this if isinstance(by, exp.In) else by
    values = list(by.expressions) if isinstance(by, exp.In) else _listed(of, pivot.this, tables)
    if not isinstance(of, exp.Column) or not values:
        return None
    source = pivot.this if isinstance(pivot.this, (exp.Table, exp.Subquery)) else None
    if source is None:
        return None
    if isinstance(source, exp.Subquery) and not source.alias:
        source.set("alias", exp.TableAlias(this=exp.to_identifier(names("rows"))))
    return _of_answer(list(group.expressions), of, values, figures, source, names)


def _clause(node: exp.Subquery, names: Callable[[str], str]) -> None:
    """FROM (SELECT g, x, y FROM t) PIVOT (sum(y) FOR x IN (...)): by all columns that it does not name."""
    (pivot,) = node.args["pivots"]
    fields, inner = pivot.args.get("fields") or [], node.this
    if pivot.args.get("unpivot") or len(fields) != 1 or not isinstance(fields[0], exp.In) or pivot.args.get("group"):
        return
    if (
        not isinstance(inner, exp.Select)
        or inner.args.get("group")
        or any(e.find(exp.AggFunc) for e in inner.expressions)
    ):
        return
    shown = [e.alias_or_name for e in inner.expressions]
    used = {c.name.lower() for e in (*pivot.expressions, fields[0].this) for c in e.find_all(exp.Column)}
    if not all(shown) or any(isinstance(e, exp.Star) for e in inner.expressions):
        return
    keys = [column(name) for name in shown if name.lower() not in used]
    rows = exp.Subquery(this=duplicate(inner), alias=exp.TableAlias(this=exp.to_identifier(names("rows"))))
    found = _of_answer(keys, fields[0].this, list(fields[0].expressions), pivot.expressions, rows, names)
    made = found.args["from_"].this
    node.set("this", made.this)
    node.set("pivots", made.args["pivots"])


def _of_answer(
    keys: Sequence[exp.Expression],
    of: exp.Expression,
    values: Sequence[exp.Expression],
    figures: Sequence[exp.Expression],
    source: exp.Expression,
    names: Callable[[str], str],
) -> exp.Select:
    """SELECT * FROM (the groups) PIVOT (their figures)."""
    called = [names("figure") for _ in figures]
    items = [duplicate(k) for k in (*keys, of)]
    items += [exp.Alias(this=_bare(f), alias=exp.to_identifier(n)) for f, n in zip(figures, called, strict=True)]
    grouped = exp.Select(expressions=items, from_=exp.From(this=duplicate(source)), group=exp.Group(all=True))
    shown: list[exp.Expression] = []
    for figure, name in zip(figures, called, strict=True):
        one: exp.Expression = exp.AnyValue(this=column(name))
        if isinstance(figure, exp.Alias):
            one = exp.Alias(this=one, alias=duplicate(figure.args["alias"]))
        shown.append(one)
    field = exp.In(this=column(of.name), expressions=[duplicate(v) for v in values])
    pivot = exp.Pivot(expressions=shown, fields=[field], unpivot=False)
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.Subquery(this=grouped, pivots=[pivot])))


def _bare(node: exp.Expression) -> exp.Expression:
    return duplicate(node.this if isinstance(node, exp.Alias) else node)


def _listed(of: exp.Expression, source: exp.Expression, tables: Mapping[str, Table]) -> list[exp.Expression]:
    """The declared values of a column of a table."""
    while isinstance(source, (exp.Subquery, exp.Select)):
        clause = source.args.get("from_")
        source = source.this if isinstance(source, exp.Subquery) else clause.this if clause is not None else exp.Null()
    table = tables.get(source.name.lower()) if isinstance(source, exp.Table) else None
    found = None if table is None else next((c for c in table.columns if c.name.lower() == of.name.lower()), None)
    if found is None:
        return []
    values: Sequence[Scalar] = (False, True) if found.kind is Kind.BOOLEAN else found.domain or ()
    known = sorted(v for v in values if isinstance(v, (str, bool, int)))  # as DuckDB orders what it finds
    return [made for v in known if isinstance(made := exp.convert(v), exp.Expression)]

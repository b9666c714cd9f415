"""What a SELECT may consist of, at the top and inside subqueries: clauses, grouping expressions, conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler import ways
from duckdp.compiler.aggregates import BY_WORD
from duckdp.compiler.expression import Call, Expr, Literal
from duckdp.compiler.literals import small_int
from duckdp.compiler.parse import refuse

WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)  # of a call of an aggregate
CLAUSES = {"expressions", "from_", "where", "group", "having", "order", "limit", "offset", "with_", "joins"}


def check_select(statement: exp.Expression, text: str, *, inner: bool = False) -> exp.Select:
    """A SELECT all of whose clauses have a rule.

    Args:
        statement: a tree.
        text: the statement.
        inner: it is a subquery, which may have DISTINCT.

    Raises:
        QueryError: Q103, Q201, Q204, Q302.
    """
    if isinstance(statement, exp.Subquery) and not any(v for k, v in statement.args.items() if k != "this"):
        statement = statement.this
    if isinstance(statement, exp.SetOperation):
        refuse("Q204", "UNION, EXCEPT and INTERSECT are outside the allow-list. Ask one by one.", statement, text)
    if inner and not isinstance(statement, exp.Select):
        refuse("Q204", ways.SUBQUERY, statement, text)
    if not isinstance(statement, exp.Select):
        plain = statement.args.get("unpivot")
        way = ways.NO_SELECT.get(type(statement)) if not plain else None
        refuse("Q103", way or "only SELECT may name a protected table.", statement, text)
    for clause, value in statement.args.items():
        if value and clause not in CLAUSES and not _has_place(clause, statement, inner=inner):
            refuse_clause(clause, value, statement, text)
    if not statement.expressions:
        refuse("Q302", "FROM without SELECT would return rows. Select aggregates.", statement, text)
    return statement


def _has_place(clause: str, select: exp.Select, *, inner: bool) -> bool:
    """Whether a clause that stands in some SELECTs alone may stand in this one."""
    if clause in ("qualify", "windows"):
        return inner
    return clause == "distinct" and (inner or _plain_distinct(select))


def _plain_distinct(select: exp.Select) -> bool:
    """SELECT DISTINCT of columns: a GROUP BY of all of them."""
    others = ("group", "having")
    return (
        not select.args["distinct"].args.get("on")
        and not any(select.args.get(k) for k in others)
        and not any(has_aggregate(e) for e in select.expressions)
    )


def refuse_clause(clause: str, value: object, statement: exp.Expression, text: str) -> None:
    """Say why a clause has no rule, and what to write.

    Raises:
        QueryError: Q201, Q204.
    """
    parts = [p for p in (value if isinstance(value, list) else [value]) if isinstance(p, exp.Expression)]
    node = parts[0] if parts else statement
    if clause in ("joins", "laterals"):
        what = {"joins": "a join", "laterals": "LATERAL"}[clause]
        way = ways.ONE_TABLE + {"joins": ways.NO_JOIN}.get(clause, ".")
        refuse("Q204", f"{what} over a protected table is outside the allow-list. {way}", node, text)
    if clause == "distinct":
        refuse("Q201", "SELECT DISTINCT is outside the allow-list. Use GROUP BY.", node, text)
    name = clause.strip("_").upper()
    refuse("Q201", ways.CLAUSES.get(clause, f"{name} is outside the allow-list. {ways.CLAUSE}"), node, text)


def aliases_of(select: exp.Select) -> dict[str, exp.Expression]:
    """Expressions by the lower-case names that SELECT gives them."""
    return {e.alias.lower(): e.this for e in select.expressions if isinstance(e, exp.Alias)}


def group_nodes(
    select: exp.Select, aliases: Mapping[str, exp.Expression], is_column: Callable[[exp.Expression], bool], text: str
) -> list[exp.Expression]:
    """The expressions of GROUP BY, positions and aliases resolved; of GROUP BY ALL those without an aggregate.

    SELECT DISTINCT groups by all that it selects.

    Args:
        select: whose.
        aliases: of its expressions.
        is_column: whether a plain name is a column, which comes before an alias.
        text: the statement.

    Raises:
        QueryError: Q201, Q203.
    """
    group = select.args.get("group")
    if group is None:
        return [e.unalias() for e in select.expressions] if select.args.get("distinct") else []
    for part, value in group.args.items():
        if value and part not in ("expressions", "all"):
            refuse("Q201", ways.LEVELS, group, text)
    if group.args.get("all"):
        return [e for e in (e.unalias() for e in select.expressions) if not has_aggregate(e)]
    found = []
    for node in group.expressions:
        index = small_int(node)
        if index is not None:
            if not 1 <= index <= len(select.expressions):
                refuse("Q203", ways.position("GROUP BY", index, len(select.expressions)), node, text)
            node = select.expressions[index - 1].unalias()
        elif isinstance(node, exp.Column) and not node.table and not is_column(node):
            node = aliases.get(node.name.lower(), node)
        found.append(node)
    return found


def varying(nodes: list[exp.Expression]) -> list[exp.Expression]:
    """Keys without constants: those make no groups, unless nothing else is there."""
    constant = (exp.Literal, exp.Paren, exp.Neg, exp.Boolean, exp.Null)
    return [n for n in nodes if not all(isinstance(part, constant) for part in n.walk())] or nodes


def is_aggregate(node: exp.Expression) -> bool:
    """Whether a node is a call of an aggregate."""
    return isinstance(node, exp.AggFunc) or (isinstance(node, exp.Anonymous) and str(node.this).lower() in BY_WORD)


def has_aggregate(node: exp.Expression) -> bool:
    """Whether an expression calls an aggregate, itself or in its parts."""
    return bool(node.find(exp.AggFunc)) or any(is_aggregate(n) for n in node.find_all(exp.Anonymous))


def aggregates(node: exp.Expression) -> bool:
    """Whether an expression makes a SELECT one of groups: by an aggregate that is no window's and no subquery's."""
    if isinstance(node, exp.Query):
        return False
    if isinstance(node, exp.Window):
        inner = node.this
        while isinstance(inner, WRAPPERS):
            inner = inner.this
        parts = [*inner.iter_expressions(), *(e for k, e in _parts(node) if k != "this")]
        return any(aggregates(part) for part in parts)
    return is_aggregation(node) or any(aggregates(part) for part in node.iter_expressions())


def _parts(node: exp.Expression) -> list[tuple[str, exp.Expression]]:
    found = []
    for key, value in node.args.items():
        found += [(key, v) for v in (value if isinstance(value, list) else [value]) if isinstance(v, exp.Expression)]
    return found


def is_aggregation(node: exp.Expression) -> bool:
    """Whether a node is an aggregate, with its FILTER and the like."""
    inner = node
    while isinstance(inner, WRAPPERS):
        inner = inner.this
    return is_aggregate(inner)


def boolean(expr: Expr, node: exp.Expression, where: str, text: str) -> Expr:
    """A condition: an expression that is true, false or NULL.

    Raises:
        QueryError: Q203.
    """
    if isinstance(expr, Literal) and expr.value is None:
        return Literal(None, Kind.BOOLEAN)
    if expr.kind is not Kind.BOOLEAN:
        refuse("Q203", f"{where} {ways.not_a(Kind.BOOLEAN, expr.kind)}", node, text)
    return expr


def all_hold(conditions: Sequence[Expr]) -> Expr | None:
    """A AND B AND C, as it is read; None where there is none."""
    found = None
    for condition in conditions:
        found = condition if found is None else Call("and", (found, condition), Kind.BOOLEAN)
    return found


def both(*conditions: Expr | None) -> Expr | None:
    """That all conditions hold; None where there is none."""
    found = [c for c in conditions if c is not None]
    return None if not found else found[0] if len(found) == 1 else Call("and", tuple(found), Kind.BOOLEAN)

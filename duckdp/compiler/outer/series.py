"""A join of groups with the few of them that another question chose: how BI tools limit the series of a chart.

    SELECT k AS k, sum(x) AS s
    FROM t JOIN (SELECT k AS k__, count(*) AS n FROM t GROUP BY k ORDER BY n DESC LIMIT 5) AS l ON k = k__
    GROUP BY k ORDER BY s DESC

joins rows with an answer, which no release can. Where the inner query has one row for each of its keys, all of them are
joined with keys of the outer one, and nothing else of it is read, each row of a group meets the same one row or none:
the same groups are chosen after both are asked, which is post-processing of two answers. ::

    SELECT g.k, g.s FROM (SELECT k AS k, sum(x) AS s, k AS k__ FROM t GROUP BY k) AS g JOIN (...) AS l ON g.k__ = l.k__
    ORDER BY g.s DESC

A key that is NULL equals none, before and after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from duckdp.compiler.literals import small_int
from duckdp.compiler.outer.trees import duplicate, nodes_of, rebuilt

GROUPS = "groups_of_series"
_AFTER = frozenset(("joins", "order", "limit", "offset", "with_"))
_KNOWN = frozenset(("expressions", "from_", "where", "group", "having", "kind", "hint", *_AFTER))


def series_limited(statement: exp.Expression, columns: frozenset[str]) -> exp.Select | None:
    """The same question with its groups chosen after it is asked; None: it is not of that form.

    Args:
        statement: tree from ``parse_statement``; left as it is.
        columns: lower-case names of columns of all tables, which come before aliases in GROUP BY.
    """
    if not isinstance(statement, exp.Select) or any(v and k not in _KNOWN for k, v in statement.args.items()):
        return None
    outputs = {e.alias_or_name.lower(): e for e in statement.expressions if isinstance(e, (exp.Alias, exp.Column))}
    columns |= _written(statement.args.get("with_"))
    keys, joins = _keys(statement, columns), statement.args.get("joins") or []
    if keys is None or len(joins) != 1 or "*" in outputs or "" in outputs:
        return None
    joined = _joined(joins[0], keys, columns)
    if joined is None or len(outputs) != len(statement.expressions):
        return None
    chosen, pairs = joined
    if any(
        _reads(node, chosen) or isinstance(node, exp.Window) for part in _parts(statement) for node in nodes_of(part)
    ):
        return None
    order = [_ordered(term, outputs) for term in _terms(statement)]
    if any(name in outputs or name == GROUPS for name in (*pairs, chosen.alias.lower())) or None in order:
        return None
    return _made(statement, chosen, pairs, [term for term in order if term is not None])


def _keys(select: exp.Select, columns: frozenset[str]) -> list[exp.Expression] | None:
    """What a SELECT groups by, positions and aliases resolved; None: it does not, or by sets, or that is not told.

    A name that may be a column's is no alias: then a row is a group of the column, and no key has one row alone.
    """
    group = select.args.get("group")
    if group is None or not group.expressions or any(v and k != "expressions" for k, v in group.args.items()):
        return None
    named = {e.alias.lower(): e.this for e in select.expressions if isinstance(e, exp.Alias)}
    found = []
    for key in group.expressions:
        if isinstance(key, exp.Literal):
            at = small_int(key) or 0
            if not 1 <= at <= len(select.expressions):
                return None
            key = select.expressions[at - 1].unalias()
        elif isinstance(key, exp.Column) and not key.table and key.name.lower() in named:
            meant, known = named[key.name.lower()], columns | _written(select.args.get("from_"))
            if meant != key and (isinstance(meant, exp.Column) or key.name.lower() in known):
                return None  # a column of the table, or the alias? DuckDB's rule is not needed here
            key = meant
        found.append(key)
    return found


def _written(part: exp.Expression | None) -> frozenset[str]:
    """All names that are written in a part of a query: columns that it gives are among them, or are a table's."""
    return frozenset() if part is None else frozenset(i.name.lower() for i in part.find_all(exp.Identifier))


def _joined(
    join: exp.Join, keys: list[exp.Expression], columns: frozenset[str]
) -> tuple[exp.Subquery, dict[str, exp.Expression]] | None:
    """The query that chooses, and its keys by name with the outer keys that they are joined with."""
    chosen = join.this
    plain = all(not v or k in ("this", "on") or (k == "kind" and v == "INNER") for k, v in join.args.items())
    if not plain or not isinstance(chosen, exp.Subquery) or not chosen.alias or join.args.get("on") is None:
        return None
    inner = chosen.this
    if not isinstance(inner, exp.Select) or inner.args.get("distinct"):
        return None
    for part in (inner.args.get("with_"), *(inner.args.get("joins") or ())):
        columns |= _written(part)
    inner_keys = _keys(inner, columns)
    if inner_keys is None or chosen.args["alias"].args.get("columns"):
        return None
    given = {e.alias_or_name.lower(): e.unalias() for e in inner.expressions}
    if len(given) != len(inner.expressions):
        return None
    pairs: dict[str, exp.Expression] = {}
    for condition in _conditions(join.args["on"]):
        if not isinstance(condition, exp.EQ):
            return None
        sides = [condition.this, condition.expression]
        mine = [s for s in sides if _reads(s, chosen)]
        other = [s for s in sides if not _reads(s, chosen)]
        if len(mine) != 1 or other[0] not in keys or mine[0].name.lower() in pairs:
            return None
        pairs[mine[0].name.lower()] = other[0]
    wanted = [given[name] for name in pairs]
    if any(e not in inner_keys for e in wanted) or any(key not in wanted for key in inner_keys):
        return None
    return chosen, pairs


def _conditions(on: exp.Expression) -> Iterator[exp.Expression]:
    waiting = [on]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.And):
            waiting += [node.expression, node.this]
        elif isinstance(node, exp.Paren):
            waiting.append(node.this)
        else:
            yield node


def _reads(node: exp.Expression, chosen: exp.Subquery) -> bool:
    """Whether a node is a column of what chooses."""
    if not isinstance(node, exp.Column):
        return False
    if node.table:
        return bool(node.table.lower() == chosen.alias.lower())
    return node.name.lower() in {e.alias_or_name.lower() for e in chosen.this.expressions}


def _parts(select: exp.Select) -> Iterator[exp.Expression]:
    """All of a SELECT but what it joins."""
    for key, value in select.args.items():
        if key not in ("joins", "with_"):
            yield from (v for v in (value if isinstance(value, list) else [value]) if isinstance(v, exp.Expression))


def _terms(select: exp.Select) -> list[exp.Expression]:
    order = select.args.get("order")
    return [] if order is None else list(order.expressions)


def _ordered(term: exp.Expression, outputs: Mapping[str, exp.Expression]) -> exp.Expression | None:
    """A term of ORDER BY over the groups; None: what it orders by is no output."""
    if not isinstance(term, exp.Ordered):
        return None
    by = term.this
    if isinstance(by, exp.Literal) and not by.is_string:
        return duplicate(term)
    named = by.name.lower() if isinstance(by, exp.Column) and not by.table and by.name.lower() in outputs else None
    name = named or next((n for n, e in outputs.items() if e.unalias() == by), None)
    if name is None:
        return None
    made = duplicate(term)
    made.set("this", exp.column(exp.to_identifier(name, quoted=True), table=GROUPS))
    return made


def _made(
    select: exp.Select, chosen: exp.Subquery, pairs: dict[str, exp.Expression], order: list[exp.Expression]
) -> exp.Select:
    groups = rebuilt(select, duplicate, _AFTER)
    for name, key in pairs.items():
        groups.append("expressions", exp.alias_(duplicate(key), name, quoted=True))
    limiter = chosen.args["alias"].this
    equal = [exp.EQ(this=_column(name, GROUPS), expression=_column(name, limiter)) for name in pairs]
    join = exp.Join(this=duplicate(chosen), on=exp.and_(*equal, copy=False))
    shown = [e.args["alias"] if isinstance(e, exp.Alias) else e.this for e in select.expressions]
    columns = [exp.Alias(this=_column(name.name, GROUPS), alias=duplicate(name)) for name in shown]
    source = exp.Subquery(this=groups, alias=exp.TableAlias(this=exp.to_identifier(GROUPS)))
    made = exp.Select(expressions=columns, from_=exp.From(this=source), joins=[join])
    if order:
        made.set("order", exp.Order(expressions=order))
    for clause in ("limit", "offset", "with_"):
        if select.args.get(clause) is not None:
            made.set(clause, duplicate(select.args[clause]))
    return made


def _column(name: str, table: str | exp.Identifier) -> exp.Column:
    of = exp.to_identifier(table) if isinstance(table, str) else duplicate(table)
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=of)

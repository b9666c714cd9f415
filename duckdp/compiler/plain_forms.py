"""Statements in DuckDB's shorter forms, written out in the forms that the gate has rules for.

::

    SELECT DISTINCT ON (u) u, x FROM t ORDER BY u, day DESC
        SELECT u, x FROM t QUALIFY row_number() OVER (PARTITION BY u ORDER BY day DESC) = 1
    FROM range(1, 4) AS r(i) JOIN t ...           FROM (VALUES (1), (2), (3)) AS r(i) JOIN t ...
    SELECT u FROM a INTERSECT SELECT u FROM b
        SELECT DISTINCT u FROM (SELECT u FROM a) AS s WHERE s.u IN (SELECT u FROM b)
    SELECT (SELECT sum(x) FROM b WHERE b.u = a.u) FROM a
        SELECT s.v FROM a LEFT JOIN (SELECT b.u AS k, sum(x) AS v FROM b GROUP BY b.u) AS s ON s.k = a.u
    SELECT year(day) AS y ... WHERE y = 2024      SELECT year(day) AS y ... WHERE year(day) = 2024
    PIVOT t ON x USING sum(y) GROUP BY g          SELECT * FROM (SELECT g, x, sum(y) AS v ... GROUP BY ALL) PIVOT (...)

A statement is read as it stands first, and only where that is refused is it tried so. What is written here is a text as
an analyst might have typed it, and the gate reads all of it by the same rules: whether an answer is private does not
rest on this file; what it means does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from duckdp.catalog.table import Table
from duckdp.compiler.literals import small_int
from duckdp.compiler.outer.trees import column, duplicate, nodes_of
from duckdp.compiler.parse import MAX_NODES
from duckdp.compiler.pivoted import pivoted
from duckdp.compiler.scalar_joins import with_scalar_joins
from duckdp.compiler.series_rows import series_rows

Names = Callable[[str], str]


def plain_forms(statement: exp.Expression, tables: Mapping[str, Table]) -> exp.Expression | None:
    """The statement in plain forms; None where there is nothing to write out.

    Args:
        statement: left as it is.
        tables: protected and published tables by lower-case name.
    """
    made = duplicate(statement)
    names = _Unused(made)
    found = pivoted(made, tables, names)
    for node in reversed(list(nodes_of(found))):
        if isinstance(node, exp.Select):
            _chosen_rows(node)
            _aliases_in_where(node, found, tables)
            series_rows(node)
            with_scalar_joins(node, names)
        elif isinstance(node, exp.In):
            _pairs(node, tables, names)
        elif isinstance(node, (exp.Intersect, exp.Except)):
            found = _of_sets(node, found, names)
    small = sum(1 for _ in nodes_of(found)) <= MAX_NODES
    return found if small and found != statement else None


class _Unused:
    """Gives names that a statement does not use."""

    def __init__(self, tree: exp.Expression) -> None:
        self.taken = {str(n.this).lower() for n in nodes_of(tree) if isinstance(n, exp.Identifier)}

    def __call__(self, stem: str) -> str:
        number = 1
        while f"{stem}_{number}" in self.taken:
            number += 1
        self.taken.add(f"{stem}_{number}")
        return f"{stem}_{number}"


def _chosen_rows(select: exp.Select) -> None:
    """DISTINCT ON with ORDER BY: the first row of each, by QUALIFY."""
    distinct, order = select.args.get("distinct"), select.args.get("order")
    on = None if distinct is None else distinct.args.get("on")
    others = ("group", "having", "qualify", "limit", "offset", "windows")
    if on is None or order is None or any(select.args.get(part) for part in others):
        return
    keys = [_meant(key, select) for key in (on.expressions if isinstance(on, exp.Tuple) else [on])]
    meant = [_meant(term.this, select) for term in order.expressions]
    begin = next((i for i, one in enumerate(meant) if one not in keys), len(meant))
    if None in keys or begin == len(meant):
        return
    terms = []
    for term, one in zip(order.expressions[begin:], meant[begin:], strict=True):
        if one is None:
            return
        terms.append(duplicate(term))
        terms[-1].set("this", duplicate(one))
    first = exp.Window(
        this=exp.RowNumber(),
        partition_by=[duplicate(k) for k in keys if k is not None],
        order=exp.Order(expressions=terms),
        over="OVER",
    )
    select.set("distinct", None)
    select.set("order", None)
    select.set("qualify", exp.Qualify(this=exp.EQ(this=first, expression=exp.Literal.number(1))))


def _meant(node: exp.Expression, select: exp.Select) -> exp.Expression | None:
    """What a term of ORDER BY or DISTINCT ON stands for: a place, a name of SELECT before a column, else itself.

    Within an expression a column comes before a name of SELECT. None: it cannot be told.
    """
    shown = select.expressions
    if isinstance(node, exp.Literal):
        place = small_int(node)
        starred = any(e.find(exp.Star) for e in shown)
        return None if starred or place is None or not 0 < place <= len(shown) else shown[place - 1].unalias()
    if not isinstance(node, exp.Column) or node.table:
        return node
    named = [e.this for e in shown if isinstance(e, exp.Alias) and e.alias.lower() == node.name.lower()]
    return node if not named else named[0] if len(named) == 1 else None


def _aliases_in_where(select: exp.Select, tree: exp.Expression, tables: Mapping[str, Table]) -> None:
    """A name of SELECT in WHERE, where no column can have it: what it stands for."""
    where = select.args.get("where")
    given = {
        e.alias.lower(): e.this
        for e in select.expressions
        if isinstance(e, exp.Alias) and e.find(exp.AggFunc, exp.Window, exp.Query) is None
    }
    if where is None or not given:
        return
    known = {c.name.lower() for t in tables.values() for c in t.columns}
    known |= {t.unit_key.lower() for t in tables.values() if t.unit_key is not None}
    others = [e for s in nodes_of(tree) if isinstance(s, exp.Select) and s is not select for e in s.expressions]
    known |= {e.alias_or_name.lower() for e in others}
    known |= {c.name.lower() for a in nodes_of(tree) if isinstance(a, exp.TableAlias) for c in a.columns}
    room = MAX_NODES
    for node in list(nodes_of(where)):
        name = node.name.lower() if isinstance(node, exp.Column) and not node.table else ""
        if name in given and name not in known and node.find_ancestor(exp.Query) is select:
            room -= sum(1 for _ in nodes_of(given[name]))
            if room < 0:
                return
            node.replace(exp.Paren(this=duplicate(given[name])))


def _pairs(node: exp.In, tables: Mapping[str, Table], names: Names) -> None:
    """(a, b) IN (SELECT (x, y) ...): a row of two columns, which are compared so that a NULL equals a NULL.

    Of units they are compared by =: no row of a table has a NULL for its unit.
    """
    query = node.args.get("query")
    select = query.this if isinstance(query, exp.Subquery) else None
    if not isinstance(select, exp.Select) or not isinstance(node.this, exp.Tuple) or len(select.expressions) != 1:
        return
    (row,) = select.expressions
    if not isinstance(row, exp.Tuple) or len(row.expressions) != len(node.this.expressions):
        return
    units = {t.unit_key.lower() for t in tables.values() if t.unit_key is not None}
    inner, alias = duplicate(select), names("pairs")
    shown, same = [], []
    for own, other in zip(node.this.expressions, row.expressions, strict=True):
        name = names("of_pair")
        shown.append(exp.Alias(this=duplicate(other), alias=exp.to_identifier(name)))
        is_unit = any(isinstance(one, exp.Column) and one.name.lower() in units for one in (own, other))
        same.append((exp.EQ if is_unit else exp.NullSafeEQ)(this=column(name, alias), expression=duplicate(own)))
    inner.set("expressions", shown)
    rows = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(alias)))
    found = exp.Select(
        expressions=[exp.Literal.number(1)],
        from_=exp.From(this=rows),
        where=exp.Where(this=exp.and_(*same, copy=False)),
    )
    node.replace(exp.Exists(this=found))


def _of_sets(node: exp.Expression, tree: exp.Expression, names: Names) -> exp.Expression:
    """INTERSECT and EXCEPT of one column: its different values that the other side has, or has not."""
    left, right = node.this, node.expression
    plain = not any(v for k, v in node.args.items() if k not in ("this", "expression", "distinct"))
    given = [s.this if isinstance(s, exp.Subquery) else s for s in (left, right)]
    sides = [s for s in given if isinstance(s, exp.Select) and len(s.expressions) == 1 and not s.args.get("with_")]
    if not plain or not node.args.get("distinct") or len(sides) < 2:
        return tree
    name = sides[0].expressions[0].alias_or_name
    if not name or isinstance(sides[0].expressions[0], exp.Star):
        return tree
    alias = names("side")
    own = column(name, alias)
    met: exp.Expression = exp.In(this=own, query=exp.Subquery(this=duplicate(sides[1])))
    made = exp.Select(
        distinct=exp.Distinct(),
        expressions=[exp.Alias(this=duplicate(own), alias=exp.to_identifier(name, quoted=True))],
        from_=exp.From(
            this=exp.Subquery(this=duplicate(sides[0]), alias=exp.TableAlias(this=exp.to_identifier(alias)))
        ),
        where=exp.Where(this=met if isinstance(node, exp.Intersect) else exp.Not(this=met)),
    )
    if node is tree:
        return made
    node.replace(made)
    return tree

"""One SELECT over protected tables to a :class:`Query` of our own types, or a refusal that says why and what to do.

Default deny: every clause, relation, function and aggregate that has no rule is refused. What stands in FROM is read
by compiler/relations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn, cast

from sqlglot import exp

from duckdp.catalog.table import Kind, Table
from duckdp.compiler import ways
from duckdp.compiler.aggregates import BY_NODE, BY_WORD, OFFERED, AggregateRow
from duckdp.compiler.date_arithmetic import names_today, told_today
from duckdp.compiler.domains import Domains
from duckdp.compiler.expression import Aggregate, Call, ColumnRef, Expr, KeyRef, Literal, children, walk
from duckdp.compiler.facts import facts
from duckdp.compiler.frame import aliases_of, all_hold, boolean, both, check_select, group_nodes, varying
from duckdp.compiler.known_aggregates import ASKED, ORDERED, PAIRS, each_quantile, filtered, ordered, pair, refused_as
from duckdp.compiler.literals import small_int
from duckdp.compiler.operators import OPERATORS
from duckdp.compiler.output_names import output_name
from duckdp.compiler.parse import refuse
from duckdp.compiler.public_keys import together_with_public
from duckdp.compiler.query import Key, Order, Output, Query
from duckdp.compiler.relations.filled import require_filled
from duckdp.compiler.relations.narrowed import bounded_by
from duckdp.compiler.relations.relation import pruned
from duckdp.compiler.relations.subqueries import Subqueries
from duckdp.compiler.relations.unit_keys import names_one_unit
from duckdp.compiler.ruled_out import left_by
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.spelling import spell, spelled
from duckdp.compiler.types import type_of
from duckdp.compiler.unit_cases import filtered_count
from duckdp.errors import QueryError

OTHER_AGGREGATES = f" Take {', '.join(OFFERED[:-1])} or {OFFERED[-1]}."


def read_select(
    statement: exp.Expression, tables: Mapping[str, Table], text: str, parameters: Sequence[object] = ()
) -> Query:
    """Validate a statement over protected tables.

    Args:
        statement: tree from ``parse_statement``.
        tables: protected tables by lower-case name.
        text: the statement, for places in messages.
        parameters: values of ? and $1.

    Raises:
        QueryError: Q1xx to Q3xx, at the offending node.
    """
    return _Reader(statement, tables, text, parameters).read()


def _outer(query: Query) -> list[Expr | None]:
    """All expressions over released values: what their aggregates are of is read of rows."""
    return [*(o.expr for o in query.outputs), query.having, *(o.expr for o in query.order)]


def _is_null(flag: Expr) -> Expr:
    return Call("is_null_boolean", (flag,), Kind.BOOLEAN)


class _Reader:
    def __init__(
        self, statement: exp.Expression, tables: Mapping[str, Table], text: str, parameters: Sequence[object]
    ) -> None:
        self.text, self.tables = text, tables
        self.select = check_select(statement, text)
        subqueries = Subqueries(tables, text, parameters)
        self.scope, self.inherited, self.conditions = subqueries.scope(self.select)
        self.select = subqueries.select or self.select
        self.filled, self.table = subqueries.filled, self.scope.table
        self.row = Scalars(self.scope.leaf, text, parameters)
        self.outer = Scalars(self._outer_leaf, text, parameters, released=True)
        self.aliases = aliases_of(self.select)
        self.domains = Domains()
        self.keys: tuple[Key, ...] = ()

    def read(self) -> Query:
        said = [
            self._boolean(self.row(node), self.select.args.get("where") or node, "WHERE") for node in self.conditions
        ]
        condition = self.scope.simplified(all_hold(said))
        nodes = group_nodes(self.select, self.aliases, self.scope.is_column, self.text)
        self.keys = tuple(self._key(n) for n in varying(nodes))
        if len({k.expr for k in self.keys}) != len(self.keys):
            where = self.select.args.get("group") or self.select  # of SELECT DISTINCT there is none
            self._refuse("Q201", "the same key is named twice. Write it once.", where)
        where, filled = both(self.inherited, condition), self.filled is not None
        self.keys = self.keys if filled else tuple(left_by(k, where) for k in self.keys)
        self.keys, together = together_with_public(self.table, self.keys, where, filled=filled)
        if self.filled is not None:
            require_filled(self.select, self.scope, self.row, self.keys, together, self.filled, self.text)
        outputs = self._outputs()
        having = self.select.args.get("having")
        query = Query(
            table=bounded_by(self.table, [k.expr for k in self.keys], where),
            where=where,
            keys=self.keys,
            outputs=outputs,
            having=self._boolean(self._released(having.this), having, "HAVING") if having is not None else None,
            order=self._order(outputs),
            limit=self._count("limit"),
            offset=self._count("offset") or 0,
            told=(told_today(),) if names_today(self.select) else (),
            together=together,
        )
        query = replace(query, table=pruned(query.table, [query.where, *(k.expr for k in self.keys), *_outer(query)]))
        if not self.keys and not any(isinstance(n, Aggregate) for e in _outer(query) if e is not None for n in walk(e)):
            what = "there is no aggregate. Select count(*), sum, avg, variance or deviation."
            self._refuse("Q301", what, self.select)
        return query

    def _refuse(self, code: str, message: str, node: exp.Expression) -> NoReturn:
        refuse(code, message, node, self.text)

    def _key(self, node: exp.Expression) -> Key:
        if isinstance(node, exp.Tuple):
            self._refuse("Q201", "GROUP BY takes plain keys, not tuples. Write GROUP BY a, b.", node)
        expr = self.row(node)
        found = self.domains.find(expr)
        if isinstance(expr, Literal):
            self._refuse("Q303", "a constant is not a grouping key.", node)
        if found is None and expr.kind is Kind.NUMBER and not facts(expr).integral:
            self._refuse("Q303", "fractional numbers are no key. Group by floor(x / width), or declare a domain.", node)
        if found is None:
            return Key(name=output_name(node), expr=expr, domain=None, of_one=names_one_unit(node, self.scope))
        return Key(
            name=output_name(node),
            expr=expr,
            domain=found.values,
            other=found.other,
            listed=found.listed,
            complete=found.complete,
            source=found.source,
        )

    # ---- outputs ----------------------------------------------------------------------------------------------

    def _outputs(self) -> tuple[Output, ...]:
        outputs: list[Output] = []
        names: set[str] = set()
        for node in each_quantile(self.select.expressions):
            base = name = (node.alias if isinstance(node, exp.Alias) else output_name(node))[:120]
            suffix = 1
            while name.lower() in names:
                name, suffix = f"{base}_{suffix}", suffix + 1
            names.add(name.lower())
            outputs.append(Output(name=name, expr=self._released(node.unalias())))
        return tuple(outputs)

    def _order(self, outputs: tuple[Output, ...]) -> tuple[Order, ...]:
        clause = self.select.args.get("order")
        terms = []
        given = clause.expressions if clause is not None else []
        for node in given:
            inner = node.this.unnest()
            if isinstance(inner, exp.Var) and inner.name.upper() == "ALL" and len(given) == 1:
                down, first = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
                return tuple(Order(expr=o.expr, descending=down, nulls_first=first) for o in outputs)
            if isinstance(inner, exp.Var) or any(
                v for k, v in node.args.items() if k not in ("this", "desc", "nulls_first")
            ):
                self._refuse(
                    "Q201", "this ORDER BY is outside the allow-list. Write the columns: ORDER BY 1, 2 DESC.", node
                )
            index = small_int(inner)
            named = self.aliases.get(inner.name.lower()) if isinstance(inner, exp.Column) and not inner.table else None
            if index is not None:
                if not 1 <= index <= len(outputs):
                    self._refuse("Q203", ways.position("ORDER BY", index, len(outputs)), node)
                expr = outputs[index - 1].expr
            elif named is not None:
                expr = self._released(named)  # here an alias wins over a column of the same name
            else:
                expr = self._released(inner)
            terms.append(
                Order(expr=expr, descending=bool(node.args.get("desc")), nulls_first=bool(node.args.get("nulls_first")))
            )
        return tuple(terms)

    def _count(self, clause: str) -> int | None:
        node = self.select.args.get(clause)
        if node is None:
            return None
        number = small_int(node.args.get("expression"))
        if number is None or any(v for k, v in node.args.items() if k != "expression"):
            self._refuse("Q201", f"{clause.upper()} takes a whole number below 10**9. Write {clause.upper()} 10.", node)
        return number

    def _released(self, node: exp.Expression) -> Expr:
        """An expression over released values: only what has a rule on them (``Operator.works_on_released``)."""
        expr = self.outer(node)
        level = [expr]
        while level:
            for e in level:
                if isinstance(e, Call) and not OPERATORS[e.operator].works_on_released:
                    self._refuse(
                        "Q202", f"{e.operator} works on rows, not on released values. Use it in an aggregate.", node
                    )
            level = [c for e in level if not isinstance(e, Aggregate) for c in children(e)]
        return expr

    def _outer_leaf(self, node: exp.Expression) -> Expr | None:
        aggregate = self._aggregate(node)
        if aggregate is not None:
            return aggregate
        if isinstance(node, exp.Window):
            self._refuse("Q201", ways.WINDOW, node)
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            alias = None if node.table or self.scope.is_column(node) else self.aliases.get(node.name.lower())
            if alias is not None:
                return self.outer(alias)
        key = self._as_key(node)
        if key is not None:
            return key
        if isinstance(node, (exp.Column, exp.Star)):
            found = self.row(node)
            name = found.column.name if isinstance(found, ColumnRef) else ""
            self._refuse(
                "Q301",
                f'column "{name}" is private and stands outside an aggregate. Put it inside sum, avg or count, '
                "or in GROUP BY.",
                node,
            )
        return None

    def _as_key(self, node: exp.Expression) -> KeyRef | None:
        if not self.keys or node.find(exp.AggFunc) or not node.find(exp.Column):
            return None
        try:
            expr = self.row(node)
        except QueryError:
            return None
        index = next((i for i, k in enumerate(self.keys) if k.expr == expr), None)
        return None if index is None else KeyRef(index, expr.kind, type=type_of(expr))

    # ---- aggregates -------------------------------------------------------------------------------------------

    def _aggregate(self, node: exp.Expression) -> Expr | None:
        if isinstance(node, exp.Filter):
            inner = self._aggregate(node.this)
            if inner is None:
                self._refuse("Q201", "FILTER belongs to an aggregate. Write count(*) FILTER (WHERE ...).", node)
            return filtered(inner, self._boolean(self.row(node.expression.this), node, "FILTER"))
        if isinstance(node, exp.Anonymous) and (row := BY_WORD.get(str(node.this).lower())) is not None:
            return Aggregate(row.name, None, None) if row.of == "rows" else self._numeric(row, node, node.expressions)
        inside = node.this if isinstance(node, (exp.IgnoreNulls, exp.WithinGroup)) else node
        if (word := refused_as(inside)) is not None:
            called = spelled(inside, self.text) or type(inside).__name__.lower()
            called = spell(node, self.text).split()[-1] if isinstance(node, exp.IgnoreNulls) else called
            self._refuse("Q206", f"aggregate {called} has no private form here. {word}", node)
        if isinstance(node, exp.WithinGroup):
            return self._within_group(node)
        if not isinstance(node, exp.AggFunc):
            return None
        if isinstance(node, exp.Count):
            return self._count_aggregate(node)
        if isinstance(node, exp.CountIf):
            return Aggregate("count_rows", None, self._boolean(self.row(node.this), node, "count_if"))
        if type(node) in PAIRS:
            return self._pair(PAIRS[type(node)], node)
        if isinstance(node, ORDERED):
            return self._ordered(node, node.this, node.args.get("quantile") or node.args.get("expression"))
        row = BY_NODE.get(type(node))
        if row is None:
            called = spelled(node, self.text) or node.sql_name().lower()
            self._refuse("Q206", f"aggregate {called} has no private form here.{OTHER_AGGREGATES}", node)
        if row.of == "distinct":
            return self._different(node.this)
        return self._numeric(row, node, [node.this])

    def _pair(self, name: str, node: exp.Expression) -> Expr:
        if node.expression is None:
            self._refuse("Q203", f"{name} takes two arguments, not 1. {ways.call(name, 2)}", node)
        return pair(name, self._number(node.this, name, node), self._number(node.expression, name, node))

    def _within_group(self, node: exp.WithinGroup) -> Expr:
        """percentile_cont(0.5) WITHIN GROUP (ORDER BY x), and mode()."""
        terms = node.expression.expressions if isinstance(node.expression, exp.Order) else []
        if len(terms) != 1 or not isinstance(node.this, ORDERED) or node.this.expression is not None:
            self._refuse("Q206", "WITHIN GROUP takes one column. Write quantile_cont(x, 0.5).", node)
        term = terms[0]
        return self._ordered(node.this, term.this, node.this.this, descending=bool(term.args.get("desc")))

    def _ordered(
        self,
        node: exp.Expression,
        inner: exp.Expression | None,
        share: exp.Expression | None,
        *,
        descending: bool = False,
    ) -> Expr:
        """A quantile, least, greatest or commonest value."""
        called = spelled(node, self.text) or type(node).__name__.lower()
        if inner is None or isinstance(inner, exp.Distinct) or node.args.get("count") or node.expressions:
            self._refuse("Q206", f"{called} takes one column here. Write {called}(x).", node)
        option = ASKED.get(type(node))
        if option is None:
            option = self._share(share, node)
            option = f"{1 - float(option):.12g}" if descending else option
        row = BY_NODE[exp.Min if option in ("0", "1") else type(node)]
        argument = self.row(inner)
        if argument.kind is Kind.BOOLEAN and not row.plain:
            argument = Call("number", (argument,), Kind.NUMBER)
        found = ordered(row, option, argument, self.domains.find)
        if isinstance(found, Aggregate):
            return found
        if found == "bounds" and argument.kind is Kind.NUMBER:
            return self._number(inner, called, node)  # which refuses it
        self._refuse("Q206", f"{called} {ways.ORDERED[found]}", node)

    def _share(self, node: exp.Expression | None, of: exp.Expression) -> str:
        found = None if node is None else self.outer(node)
        value = found.value if isinstance(found, Literal) else None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            self._refuse("Q203", "a quantile takes a constant from 0 to 1. Write quantile_cont(x, 0.5).", of)
        return f"{float(value):.12g}"

    def _different(self, inner: exp.Expression) -> Expr:
        """How many values an expression has."""
        if self.scope.is_unit(inner):
            return Aggregate("count_units", None, None)
        unit = self.table.unit_key
        if isinstance(inner, exp.Column) and not self.scope.knows(inner) and unit not in self._units():
            way = "Here every row is a unit: use count(*)."
            way = way if unit is None else f"Let the subquery select {unit} too, and count that."
            self._refuse("Q304", f"DISTINCT counts declared columns, or privacy units. {way}", inner)
        return Aggregate("count_distinct", self.row(inner), None)

    def _units(self) -> list[str]:
        return [unit for named in self.scope.named for unit in named.view.units]

    def _numeric(self, row: AggregateRow, node: exp.Expression, arguments: list[exp.Expression]) -> Aggregate:
        name = row.name
        if len(arguments) != 1 or any(v for k, v in node.args.items() if k not in ("this", "expressions")):
            self._refuse("Q206", f"{name} takes one argument. {ways.call(name, 1)}", node)
        if isinstance(arguments[0], exp.Distinct):
            self._refuse("Q304", f"{name}(DISTINCT ...) has no bounded sensitivity here.{ways.DISTINCT_OF}", node)
        return Aggregate(name, self._number(arguments[0], name, node), None)

    def _number(self, inner: exp.Expression, name: str, node: exp.Expression) -> Expr:
        """A number with finite bounds."""
        argument = self.row(inner)
        if argument.kind is Kind.BOOLEAN:
            argument = Call("number", (argument,), Kind.NUMBER)
        if argument.kind is not Kind.NUMBER:
            self._refuse("Q203", f"{name} {ways.not_a(Kind.NUMBER, argument.kind)}", node)
        if not facts(argument).interval.finite:
            if isinstance(argument, ColumnRef):
                self._refuse(
                    "Q401",
                    f'{name}("{argument.column.name}") has no bounds, so its sensitivity is infinite. The data '
                    "owner declares lower and upper with protect(bounds=...).",
                    node,
                )
            self._refuse(
                "Q402",
                f"the argument of {name} has no finite bounds, so its sensitivity is infinite. Clamp it, for "
                "example least(greatest(x, 0), 100).",
                node,
            )
        return argument

    def _count_aggregate(self, node: exp.Count) -> Expr:
        inner = node.this
        if node.expressions:
            self._refuse("Q206", "count takes one argument. Write count(*) FILTER (WHERE a > 0 AND b > 0).", node)
        if inner is None or isinstance(inner, exp.Star):
            return Aggregate("count_rows", None, None)
        if (chosen := filtered_count(node, self.scope, self.text)) is not None:
            return cast("Expr", self._aggregate(chosen))
        if isinstance(inner, exp.Distinct):
            parts = inner.expressions
            mark = self.scope.mark(parts[0]) if len(parts) == 1 else None
            if mark is not None:
                return Aggregate("count_units", None, Call("not", (_is_null(mark),), Kind.BOOLEAN))
            if len(parts) != 1 or isinstance(parts[0], exp.Tuple):
                hint = "Count one column, or GROUP BY both."
                self._refuse("Q304", f"count(DISTINCT ...) takes one column here. {hint}", node)
            return self._different(parts[0])
        if self.scope.is_unit(inner):
            return Aggregate("count_rows", None, None)  # rows without a unit key are dropped everywhere
        argument = self.scope.mark(inner) or self.row(inner)
        if not facts(argument).nullable:
            return Aggregate("count_rows", None, None)
        return Aggregate("count", argument, None)

    def _boolean(self, expr: Expr, node: exp.Expression, where: str) -> Expr:
        return boolean(expr, node, where, self.text)

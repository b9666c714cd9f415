"""Reads a subquery that groups by the privacy unit, or by what names it: its keys, aggregates of a unit's rows."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from duckdp.catalog.link import KeyId
from duckdp.catalog.table import Column, Kind
from duckdp.compiler import ways
from duckdp.compiler.domains import Domains
from duckdp.compiler.expression import Call, ColumnRef, Expr, Literal
from duckdp.compiler.facts import facts
from duckdp.compiler.frame import aliases_of, boolean, both, group_nodes, has_aggregate, is_aggregate
from duckdp.compiler.literals import small_int
from duckdp.compiler.output_names import output_name
from duckdp.compiler.parse import refuse
from duckdp.compiler.relations.unit_groups import Taken, aggregate_column, group_by_unit, key_column
from duckdp.compiler.relations.unit_keys import has_key, unit_key_of
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope, View, view_from
from duckdp.compiler.spelling import spelled
from duckdp.errors import QueryError

_OF_NUMBERS: dict[type[exp.Expression], str] = {exp.Sum: "sum", exp.Avg: "avg", exp.Median: "median"}
_OF_CONDITIONS: dict[type[exp.Expression], str] = {exp.LogicalAnd: "bool_and", exp.LogicalOr: "bool_or"}
_OF_ANY: dict[type[exp.Expression], str] = {exp.Min: "min", exp.Max: "max"}
_CALLED = {**_OF_NUMBERS, **_OF_CONDITIONS, **_OF_ANY}


class Grouped:
    """Reads one subquery whose groups are those of the privacy unit.

    Args:
        select: with GROUP BY, DISTINCT or aggregates.
        scope: of its rows.
        row: reads expressions over them.
        where: which rows.
        domains: finds the values of keys.
        text: the statement.
    """

    def __init__(
        self, select: exp.Select, scope: RowScope, row: Scalars, where: Expr | None, domains: Domains, text: str
    ) -> None:
        self.select, self.scope, self.row, self.where = select, scope, row, where
        self.domains, self.text = domains, text
        self.aliases = aliases_of(select)
        self.keys: dict[Expr, Column] = {}
        self.taken: dict[Taken, Column] = {}
        self.nameless: tuple[Expr, ...] = ()  # keys whose rows without them are left out
        self.over = Scalars(self._leaf, text, row.parameters)

    def view(self) -> View:
        """The rows and columns that the subquery gives.

        Raises:
            QueryError: Q1xx to Q3xx.
        """
        for node in self._groups():
            expr = self.row(node)
            if isinstance(expr, Literal) and self.select.args.get("distinct"):
                continue  # alike in all rows
            if isinstance(expr, Literal):
                self._refuse("Q303", "a constant is not a grouping key.", node)
            self.keys[expr] = key_column(expr, self.domains)
        columns: list[tuple[str, Expr]] = []
        units: list[str] = []
        named: list[tuple[str, KeyId]] = []
        order: list[str] = []
        for node in self.select.expressions:
            inner = node.unalias()
            if self.scope.is_unit(inner):
                units.append(node.alias or inner.name)
            else:
                columns.append((node.alias or output_name(node), self.over(inner)))
                key = self.scope.key(inner)
                named += [] if key is None else [(columns[-1][0], key)]
            order.append(node.alias or output_name(node))
        having = self.select.args.get("having")
        condition = None if having is None else boolean(self.over(having.this), having, "HAVING", self.text)
        relation = group_by_unit(self.scope.table, self.where, self.keys, self.taken, nameless=self.nameless)
        return view_from(relation, columns, units, condition, self.select, self.text, keys=named, order=order)

    def _refuse(self, code: str, message: str, node: exp.Expression) -> NoReturn:
        refuse(code, message, node, self.text)

    def _groups(self) -> list[exp.Expression]:
        """The keys besides the unit, which one of them must be, or name: else a row would be of several units."""
        unit = self.scope.table.unit_key
        if self.select.args.get("distinct"):
            distinct = self.select.args["distinct"]
            if distinct.args.get("on") or self.select.args.get("group") or self.select.args.get("having"):
                self._refuse("Q204", ways.INNER_DISTINCT, self.select)
            nodes = [e.unalias() for e in self.select.expressions]
        else:
            nodes = group_nodes(self.select, self.aliases, self._is_column, self.text)
        own = [n for n in nodes if self.scope.is_unit(n)]
        naming = [key for n in nodes if (key := unit_key_of(n, self.scope)) is not None]
        if naming and not own and (known := has_key(naming, self.scope.table)) is not None:
            self.where, self.nameless = both(self.where, known), tuple(naming)
        if not own and not naming:
            what = ways.inner_groups(unit, distinct=bool(self.select.args.get("distinct")))
            self._refuse("Q204", what, self.select)
        return [n for n in nodes if not self.scope.is_unit(n)]

    def _is_column(self, node: exp.Expression) -> bool:
        return self.scope.is_column(node) or self.scope.is_unit(node)

    def _leaf(self, node: exp.Expression) -> Expr | None:
        """Aggregates, keys and aliases of them; anything else that names a column is refused."""
        if isinstance(node, exp.Filter):
            return self._aggregate(node.this, node)
        if is_aggregate(node):
            return self._aggregate(node, None)
        if isinstance(node, exp.IgnoreNulls) and node.find(exp.AnyValue):  # sqlglot's form of it
            self._refuse("Q206", ways.inner_aggregate("any_value"), node)
        if isinstance(node, exp.Window):
            self._refuse("Q201", ways.WINDOW_OF_GROUPS, node)
        if isinstance(node, exp.Column) and not node.table and not self._is_column(node):
            alias = self.aliases.get(node.name.lower())
            if alias is not None:
                return self.over(alias)
        if not node.find(exp.Column) or has_aggregate(node):
            return None
        try:
            expr = self.row(node)
        except QueryError:
            expr = None
        if isinstance(expr, Literal) and self.select.args.get("distinct"):
            return expr
        column = None if expr is None else self.keys.get(expr)
        if column is not None:
            return ColumnRef(column)
        if isinstance(node, (exp.Column, exp.Star)):
            self.scope.leaf(node)  # unknown names and units have messages of their own
            what = f'"{node.name[:63]}" is neither in GROUP BY nor inside an aggregate of its subquery.'
            self._refuse("Q301", f"{what} Put it in one of them.", node)
        return None

    # ---- aggregates ---------------------------------------------------------------------------------------------

    def _aggregate(self, node: exp.Expression, outer: exp.Filter | None) -> Expr:
        if not is_aggregate(node):
            self._refuse("Q201", "FILTER belongs to an aggregate. Write count(*) FILTER (WHERE ...).", outer or node)
        condition = None
        if outer is not None:
            condition = boolean(self.row(outer.expression.this), outer, "FILTER", self.text)
        taken = self.aggregate_of(node, condition, _limit(outer or node))
        column = self.taken.setdefault(taken, aggregate_column(taken, self.scope.table))
        return ColumnRef(column)

    def aggregate_of(self, node: exp.Expression, condition: Expr | None, most: int | None) -> Taken:
        """The aggregate that a call names.

        Args:
            node: the call, without FILTER.
            condition: of FILTER.
            most: of a count: what stands for itself and all above; None: as many as a unit's rows.

        Raises:
            QueryError: Q203, Q206, Q402.
        """
        if isinstance(node, exp.CountIf):
            own = boolean(self.row(node.this), node, "count_if", self.text)
            where = own if condition is None else Call("and", (own, condition), Kind.BOOLEAN)
            return Taken(function="count_rows", filter=where, most=most)
        if isinstance(node, exp.Count) and not node.expressions:
            return self._count(node, condition, most)
        function = _CALLED.get(type(node))
        if isinstance(node, exp.Anonymous) and str(node.this).lower() in ("mean", "count_star"):
            arguments, function = node.expressions, {"mean": "avg"}.get(str(node.this).lower(), "count_rows")
            if function == "count_rows":
                return Taken(function=function, filter=condition, most=most)
        else:
            arguments = [node.this, *node.expressions]
        arguments = [a for a in arguments if a is not None]
        plain = function is not None and len(arguments) == 1 and not isinstance(arguments[0], exp.Distinct)
        if not plain or any(v for k, v in node.args.items() if k not in ("this", "expressions")):
            called = spelled(node, self.text) or type(node).__name__.lower()
            many = len(arguments) > 1 or node.args.get("count")
            said = "of several arguments" if many else "" if arguments else "of no argument"
            self._refuse("Q206", ways.inner_aggregate(f"{called} {said}".rstrip()), node)
        assert function is not None
        return Taken(function=function, argument=self._argument(function, arguments[0], node), filter=condition)

    def _count(self, node: exp.Count, condition: Expr | None, most: int | None) -> Taken:
        inner = node.this
        if inner is None or isinstance(inner, exp.Star) or self.scope.is_unit(inner):
            return Taken(function="count_rows", filter=condition, most=most)
        distinct = isinstance(inner, exp.Distinct)
        parts = inner.expressions if distinct else [inner]
        if len(parts) != 1 or self.scope.is_unit(parts[0]):
            self._refuse("Q206", ways.inner_aggregate("count(DISTINCT ...)"), node)
        argument = self.scope.mark(parts[0]) or self.row(parts[0])
        if distinct:
            return Taken(function="count_distinct", argument=argument, filter=condition, most=most)
        if not facts(argument).nullable:
            return Taken(function="count_rows", filter=condition, most=most)
        return Taken(function="count", argument=argument, filter=condition, most=most)

    def _argument(self, function: str, given: exp.Expression, node: exp.Expression) -> Expr:
        argument = self.row(given)
        if function in _OF_CONDITIONS.values():
            return boolean(argument, node, function, self.text)
        if function in _OF_ANY.values():
            return argument
        if argument.kind is Kind.BOOLEAN:
            argument = Call("number", (argument,), Kind.NUMBER)
        if argument.kind is not Kind.NUMBER:
            self._refuse("Q203", f"{function} {ways.not_a(Kind.NUMBER, argument.kind)}", node)
        if function != "median" and not facts(argument).interval.finite:
            self._refuse(
                "Q402",
                f"the argument of {function} has no finite bounds. Clamp it, for example least(greatest(x, 0), 100).",
                node,
            )
        return argument


def _limit(node: exp.Expression) -> int | None:
    """The limit k of least(count(*), k): what a count stands for above it is not told apart."""
    above = node.parent
    if not isinstance(above, exp.Least):
        return None
    numbers = [small_int(e) for e in (above.this, *above.expressions) if e is not node]
    return numbers[0] if len(numbers) == 1 and numbers[0] else None

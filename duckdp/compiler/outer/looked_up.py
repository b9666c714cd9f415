"""Subqueries that give one value of public rows, ``WHERE cost > (SELECT avg(price) FROM published)``: a constant each.

A published table's rows are no one's, so the value is public, and is known before anything is charged. It is computed
from a plan of our own (the same reading of rows, conditions and expressions as in a private question, and aggregates
whose value does not depend on the order of rows on the disk), never from the analyst's text; then the constant stands
in its place, and all that follows is read as if the analyst had written it there. So it is in the question's identity:
when the public rows change, the question is another one.

What SQL says of such a subquery holds: no row is NULL, and several are an error, which is told before a charge. One
that names a column of the query around it has a value for each row, and is refused: that is a join.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from sqlglot import exp

from duckdp.catalog.table import Kind, Scalar, Table
from duckdp.compiler import public_ways, ways
from duckdp.compiler.expression import Expr, Literal, NumberType, columns
from duckdp.compiler.frame import aggregates, all_hold, boolean, both, check_select
from duckdp.compiler.literals import small_int
from duckdp.compiler.number_types import DOUBLE, INTEGER, whole_type
from duckdp.compiler.outer.public_names import Known, after, needed
from duckdp.compiler.outer.trees import duplicate, rebuilt
from duckdp.compiler.output_names import output_name
from duckdp.compiler.parse import refuse
from duckdp.compiler.printing import Parameters, print_expr, print_rows, quote
from duckdp.compiler.relations.subqueries import Subqueries
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope
from duckdp.compiler.types import type_of
from duckdp.errors import InternalError, QueryError

#: Rows of the table that is looked at, and values of one statement: nobody is charged for the time that they take, and
#: a regular expression may take a millisecond a row.
MOST_PUBLIC_ROWS, MOST_VALUES = 50_000, 16
LARGEST = 1e300  # of a constant
Ask = Callable[[Table, str, Sequence[object]], list[tuple[Any, ...]]]
_AROUND = (exp.From, exp.Join, exp.CTE, exp.SetOperation, exp.Exists, exp.Any, exp.All, exp.Subquery, exp.Lateral)
_WITH = frozenset(("with_",))


@dataclass(frozen=True, kw_only=True)
class _Call:
    """An aggregate of DuckDB's.

    Attributes:
        word: its name.
        counts: it gives a whole number, of anything.
        of_numbers: it takes numbers alone.
        adds: its value depends on the order of rows, unless they are ordered.
        keeps: it gives a value of its argument's type.
    """

    word: str
    counts: bool = False
    of_numbers: bool = False
    adds: bool = False
    keeps: bool = False


_ROWS, _COUNT = _Call(word="count_star", counts=True), _Call(word="count", counts=True)
_CALLS = {
    exp.Sum: _Call(word="sum", of_numbers=True, adds=True, keeps=True),
    exp.Avg: _Call(word="avg", of_numbers=True, adds=True),
    exp.Min: _Call(word="min", keeps=True),
    exp.Max: _Call(word="max", keeps=True),
    exp.Median: _Call(word="median", of_numbers=True),
}


def with_single_values(
    statement: exp.Expression, tables: Mapping[str, Table], text: str, parameters: Sequence[object], ask: Ask
) -> exp.Expression | None:
    """A statement in which constants stand for subqueries that give one value of public rows; None: it has none.

    Args:
        statement: tree from ``parse_statement``; left as it is.
        tables: protected and public tables by lower-case name.
        text: the statement, for places in messages.
        parameters: values of ? and $1.
        ask: the rows of a SELECT of ours over a public table, and its parameters.

    Raises:
        QueryError: Q2xx, Q403: such a subquery has no rule, gives several rows, or is of too many.
    """
    reader = _Reader(tables, text, parameters, ask)
    made = reader.made(statement, {})
    return made if reader.found else None


class _Reader:
    def __init__(self, tables: Mapping[str, Table], text: str, parameters: Sequence[object], ask: Ask) -> None:
        self.tables, self.text, self.parameters, self.ask = tables, text, parameters, ask
        self.found = 0

    def _refuse(self, code: str, message: str, node: exp.Expression) -> NoReturn:
        refuse(code, message, node, self.text)

    def made(self, node: exp.Expression, known: Known) -> exp.Expression:
        """A tree with constants for what is below."""
        if isinstance(node, exp.Subquery) and _is_value(node) and needed(node, known, self.tables) is not None:
            self.found += 1
            if self.found > MOST_VALUES:
                self._refuse("Q403", public_ways.single_values(MOST_VALUES), node)
            return self._constant(node, known)
        return self._parts(node, known)

    def _parts(self, node: exp.Expression, known: Known) -> exp.Expression:
        clause = node.args.get("with_")
        inside: dict[int, Known] = {}
        if clause is not None:
            known, inside = after(clause, known)

        def part(below: exp.Expression) -> exp.Expression:
            if below is clause:
                return rebuilt(below, lambda cte: self.made(cte, inside.get(id(cte), known)))
            return self.made(below, known)

        made = rebuilt(node, part)
        if isinstance(node, exp.Select):
            named = [_called(old, new) for old, new in zip(node.expressions, made.expressions, strict=True)]
            made.set("expressions", named)
        return made

    # ---- one subquery -------------------------------------------------------------------------------------------

    def _constant(self, node: exp.Subquery, known: Known) -> exp.Expression:
        select = node.this
        if not isinstance(select, exp.Select) or any(v for k, v in node.args.items() if k != "this"):
            self._refuse("Q204", public_ways.SINGLE_FORM, node)
        asked = self._with(self._parts(select, known), known)
        check_select(asked, self.text, inner=True)
        for clause in ("group", "having", "distinct", "qualify", "windows"):
            if asked.args.get(clause):
                self._refuse("Q204", public_ways.SINGLE_FORM, select)
        if len(asked.expressions) != 1:
            self._refuse("Q203", public_ways.SINGLE_COLUMN, node)
        try:
            return _printed(self._value(asked, node))
        except QueryError as error:
            if error.code not in ("Q205", "Q207") or not self._names_others(select):
                raise
        self._refuse("Q204", public_ways.SINGLE_CORRELATED, node)

    def _with(self, select: exp.Expression, known: Known) -> exp.Select:
        """A SELECT with the CTEs of public rows around it that it needs, in their order."""
        names = needed(select, known, self.tables) or frozenset()
        own = select.args.get("with_")
        kept = [duplicate(d.cte) for n, d in known.items() if n in names and d.cte is not None]
        kept += [] if own is None else own.expressions
        made = rebuilt(select, duplicate, _WITH)
        if kept:
            made.set("with_", exp.With(expressions=kept))
        assert isinstance(made, exp.Select)
        return made

    def _names_others(self, select: exp.Expression) -> bool:
        """Whether a column is named that another table of the data set has."""
        names = {c.name.lower() for t in self.tables.values() for c in t.columns}
        names |= {str(t.unit_key).lower() for t in self.tables.values()}
        return any(c.name.lower() in names for c in select.find_all(exp.Column))

    def _value(self, select: exp.Select, node: exp.Expression) -> Literal:
        scope, inherited, rest = Subqueries(self.tables, self.text, self.parameters).public_scope(select)
        table = scope.table
        if table.public is None:
            raise InternalError("a single value is of public rows alone")
        if table.public.rows > MOST_PUBLIC_ROWS:
            self._refuse("Q403", public_ways.single_rows(table.name, MOST_PUBLIC_ROWS), node)
        row = Scalars(scope.leaf, self.text, self.parameters)
        said = [boolean(row(part), part, "WHERE", self.text) for part in rest]
        rows = _Rows(table, both(inherited, scope.simplified(all_hold(said))), self.ask)
        output = select.expressions[0].unalias()
        if not aggregates(output):
            return self._of_row(select, row, row(output), rows, node)
        if any(select.args.get(k) for k in ("order", "limit", "offset")):
            self._refuse("Q204", public_ways.SINGLE_FORM, node)
        found = Scalars(lambda part: self._aggregate(part, row, rows, scope), self.text, self.parameters)(output)
        return found if isinstance(found, Literal) else rows.computed(found)

    def _of_row(self, select: exp.Select, row: Scalars, value: Expr, rows: _Rows, node: exp.Expression) -> Literal:
        """The value of the one row that there is; NULL, where there is none."""
        most, skipped = (self._count(select, clause) for clause in ("limit", "offset"))
        clause = select.args.get("order")
        order = []
        for term in [] if clause is None else clause.expressions:
            if any(v for k, v in term.args.items() if k not in ("this", "desc", "nulls_first")):
                self._refuse("Q201", public_ways.SINGLE_FORM, term)
            expr = value if small_int(term.this) == 1 else row(term.this)
            nulls = "FIRST" if term.args.get("nulls_first") else "LAST"
            order.append((expr, f"{'DESC' if term.args.get('desc') else 'ASC'} NULLS {nulls}"))
        if most == 0:
            return Literal(None, value.kind)
        found = rows.values(value, order, 2 if most is None else min(most, 2), skipped or 0)
        if len(found) > 1:
            self._refuse("Q203", public_ways.SINGLE_MANY, node)
        return _literal(found[0] if found else None, value.kind, _type(value))

    def _count(self, select: exp.Select, clause: str) -> int | None:
        node = select.args.get(clause)
        if node is None:
            return None
        found = small_int(node.expression)
        if found is None:
            self._refuse("Q201", public_ways.SINGLE_FORM, node)
        return found

    def _aggregate(self, node: exp.Expression, row: Scalars, rows: _Rows, scope: RowScope) -> Expr | None:
        """The value of an aggregate of all rows; what is no part of one is a constant."""
        if isinstance(node, exp.Filter) and isinstance(node.this, exp.AggFunc):
            condition = boolean(row(node.expression.this), node.expression, "FILTER", self.text)
            return self._aggregate(cast("exp.Expression", node.this), row, rows.where_also(condition), scope)
        if isinstance(node, exp.Column):
            self._refuse("Q301", public_ways.SINGLE_GROUPED, node)
        if not isinstance(node, exp.AggFunc):
            return None
        inner = node.this
        if isinstance(node, exp.Count):
            distinct = isinstance(inner, exp.Distinct)
            if distinct and len(inner.expressions) != 1:
                self._refuse("Q206", public_ways.SINGLE_AGGREGATE, node)
            of = None if isinstance(inner, exp.Star) else row(inner.expressions[0] if distinct else inner)
            return rows.one(of, _ROWS if of is None else _COUNT, whole_type("BIGINT"), distinct=distinct)
        call = _CALLS.get(type(node))
        if call is None or not isinstance(inner, exp.Expression) or isinstance(inner, exp.Distinct) or node.expressions:
            self._refuse("Q206", public_ways.SINGLE_AGGREGATE, node)
        of = row(inner)
        if call.of_numbers and of.kind is not Kind.NUMBER:
            self._refuse("Q203", f"{call.word} {ways.not_a(Kind.NUMBER, of.kind)}", node)
        return rows.one(of, call, _type(of) if call.keeps else DOUBLE)


class _Rows:
    """Rows of a public table, of which values are asked.

    Args:
        table: whose.
        where: which of them.
        ask: as of :func:`with_single_values`.
    """

    def __init__(self, table: Table, where: Expr | None, ask: Ask) -> None:
        self.table, self.where, self.ask = table, where, ask

    def where_also(self, condition: Expr) -> _Rows:
        return _Rows(self.table, both(self.where, condition), self.ask)

    def one(self, of: Expr | None, call: _Call, number_type: NumberType | None, *, distinct: bool = False) -> Literal:
        """The value of an aggregate; what adds up is added in an order of the values, so that it is always the same."""
        parameters = Parameters()
        rows = self._from([of], parameters)
        value = "" if of is None else _show(of, parameters)
        ordered = f" ORDER BY {value}" if call.adds else ""
        sql = f"SELECT system.main.{call.word}({'DISTINCT ' if distinct else ''}{value}{ordered}) FROM {rows}"
        ((found,),) = self.ask(self.table, sql, parameters.values)
        return _literal(found, Kind.NUMBER if of is None or call.counts else of.kind, number_type)

    def computed(self, of: Expr) -> Literal:
        """The value of an expression of constants."""
        parameters = Parameters()
        ((found,),) = self.ask(self.table, f"SELECT {_show(of, parameters)}", parameters.values)
        return _literal(found, of.kind, _type(of))

    def values(self, of: Expr, order: Sequence[tuple[Expr, str]], most: int, skipped: int) -> list[Any]:
        """The first values, in an order that leaves nothing open but equal ones."""
        parameters = Parameters()
        rows = self._from([of, *(e for e, _ in order)], parameters)
        value = _show(of, parameters)
        terms = ", ".join([*(f"{_show(e, parameters)} {words}" for e, words in order), f"{value} ASC NULLS LAST"])
        sql = f"SELECT {value} FROM {rows} ORDER BY {terms} LIMIT {most} OFFSET {skipped}"
        return [found for (found,) in self.ask(self.table, sql, parameters.values)]

    def _from(self, exprs: Sequence[Expr | None], parameters: Parameters) -> str:
        where = "" if self.where is None else f" WHERE {_show(self.where, parameters)}"
        return f"{print_rows(self.table, columns(self.where, *exprs), parameters, unit=False)} AS base{where}"


def _called(old: exp.Expression, new: exp.Expression) -> exp.Expression:
    """An output with a constant in it under the name that it has as it was written."""
    if old == new or isinstance(old, exp.Alias):
        return new
    return exp.Alias(this=new, alias=exp.to_identifier(output_name(old), quoted=True))


def _is_value(node: exp.Subquery) -> bool:
    """Whether a subquery stands where a value does."""
    parent = node.parent
    if parent is None or isinstance(parent, _AROUND):
        return False
    return not (isinstance(parent, exp.In) and parent.args.get("query") is node)


def _show(expr: Expr, parameters: Parameters) -> str:
    return print_expr(expr, lambda c: f"base.{quote(c.name)}", parameters)


def _type(expr: Expr) -> NumberType | None:
    return type_of(expr) if expr.kind is Kind.NUMBER else None


def _literal(value: Scalar, kind: Kind, number_type: NumberType | None) -> Literal:
    """A value of ours; what is no finite number is NULL, as in rows."""
    if kind is Kind.NUMBER and value is not None:
        number = float(value) + 0.0  # type: ignore[arg-type]
        if not math.isfinite(number) or abs(number) > LARGEST:
            return Literal(None, kind)
        return Literal(
            int(number) if number_type == INTEGER and number.is_integer() else number, kind, type=number_type
        )
    return Literal(value, kind)


def _printed(found: Literal) -> exp.Expression:
    """A constant as a text has it, with its type."""
    value = found.value
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int() | float():
            number: exp.Expression = exp.Literal.number(_digits(abs(value), found.type))
            return exp.Paren(this=exp.Neg(this=number) if value < 0 else number)
        case dt.datetime():
            return exp.Cast(this=exp.Literal.string(value.isoformat(sep=" ")), to=exp.DataType.build("timestamp"))
        case dt.date():
            return exp.Cast(this=exp.Literal.string(value.isoformat()), to=exp.DataType.build("date"))
    return exp.Literal.string(str(value))


def _digits(value: float, number_type: NumberType | None) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if number_type is not None and number_type.name == "DECIMAL" and number_type.scale and value < 1e15:
        return f"{value:.{number_type.scale}f}"
    text = repr(value)
    return text if "e" in text else f"{text}e0"

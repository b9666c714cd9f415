"""Scalar SQL to :mod:`expression` trees: an exhaustive visitor, where a node without a rule is refused.

The caller supplies ``leaf``, which resolves what depends on the place: columns in a row expression, aggregates and
grouping keys in an output expression.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, NoReturn

from sqlglot import exp

from duckdp.arguments import plain
from duckdp.catalog.table import Kind
from duckdp.compiler import ways
from duckdp.compiler.as_texts import AsTexts
from duckdp.compiler.case_nodes import CaseNodes
from duckdp.compiler.date_arithmetic import COMPARED, MomentNodes
from duckdp.compiler.dates import DateNodes
from duckdp.compiler.expression import Call, Case, Expr, Literal, is_null
from duckdp.compiler.literals import encodable, label_met, listed, small_int
from duckdp.compiler.made_moments import MadeMoments
from duckdp.compiler.nodes import (
    BY_NODE,
    BY_WORD,
    NUMBER_TYPES,
    TIMESTAMP_TYPES,
    WHOLE_TYPES,
)
from duckdp.compiler.number_types import FLOAT
from duckdp.compiler.numbers import NumberNodes
from duckdp.compiler.operators import OPERATORS, Digits, Operator
from duckdp.compiler.parse import MAX_DEPTH, MAX_NODES, refuse
from duckdp.compiler.partial import leaves, may_be_nan
from duckdp.compiler.spelling import instead, spell, spelled
from duckdp.compiler.text_nodes import MAX_PATTERN, TextNodes
from duckdp.compiler.types import (
    as_type,
    choice_type,
    chosen,
    common_type,
    exact,
    literal_type,
    type_of,
    typed,
    untyped,
)
from duckdp.compiler.zeros import without_minus_zero

MAX_LITERAL = 256  # bytes
Leaf = Callable[[exp.Expression], Expr | None]


class Scalars(CaseNodes, NumberNodes, MomentNodes, MadeMoments, AsTexts, TextNodes):
    """Translates scalar expressions of the parser into ours.

    Args:
        leaf: resolves what depends on the place.
        text: the statement, for places in messages.
        parameters: values of ? and $1.
        released: the expression is over released values, never over rows: partial functions are allowed.
        smooth: it is a function on real numbers, not on the values of rows: nothing is brought back to decimals.
    """

    def __init__(
        self,
        leaf: Leaf,
        text: str | None,
        parameters: Sequence[object] = (),
        *,
        released: bool = False,
        smooth: bool = False,
    ) -> None:
        self.leaf, self.text, self.parameters, self.released = leaf, text, tuple(parameters), released
        self.rows = not released and not smooth
        self._depth = self._parts = 0

    def __call__(self, node: exp.Expression) -> Expr:
        """Translate a node, or raise a QueryError that says what has no rule."""
        self._depth, self._parts = self._depth + 1, self._parts + 1
        try:
            if self._depth > MAX_DEPTH or self._parts > MAX_NODES:  # aliases unfold, maybe in a circle
                self._refuse("Q104", "the statement is too deep or too large once its aliases are unfolded.", node)
            return self._translate(node)
        finally:
            self._depth -= 1

    def _translate(self, node: exp.Expression) -> Expr:
        found = self.leaf(node)
        if found is not None:
            return found
        row = BY_NODE.get(type(node))
        if row is not None:
            return self._readings[row.reading](self, row, node)
        method = self._methods.get(type(node))
        if method is None:
            self._no_rule(node)
        return method(self, node)

    def _refuse(self, code: str, message: str, node: exp.Expression) -> NoReturn:
        refuse(code, message, node, self.text)

    # ---- pieces -------------------------------------------------------------------------------------------------

    def _arguments(self, node: exp.Expression, *also: str) -> list[Expr]:
        allowed = {"this", "expression", "expressions", "ignore_nulls", "safe", "typed", *also}
        if any(v for k, v in node.args.items() if k not in allowed):
            self._no_rule(node)
        parts = [node.args.get("this"), node.args.get("expression"), *(node.args.get("expressions") or [])]
        return [self(p) for p in parts if isinstance(p, exp.Expression)]

    def _operator(self, name: str, node: exp.Expression, args: list[Expr], option: str = "") -> Expr:
        operator = OPERATORS[name]
        takes = operator.takes
        if operator.variadic:
            takes = takes + takes[-1:] * (len(args) - len(takes))
        if len(args) != len(takes):
            called, way = spell(node, self.text), ways.call(spelled(node, self.text) or name, len(takes))
            self._refuse("Q203", f"{called} takes {len(takes)} arguments, not {len(args)}. {way}", node)
        args = [self._coerce(a, k, node) for a, k in zip(args, takes, strict=True)]
        if operator.domain is not None and not self.released and leaves(args[0], operator.domain):
            where = f"[{operator.domain.lower:g}, {operator.domain.upper:g}]"  # NaN of released values is undefined
            way = "Clamp it, for example greatest(x, 1), or declare bounds."
            self._refuse("Q402", f"the argument of {name} must lie in {where} for every row. {way}", node)
        if self.rows and (wrong := label_met(name, args)):
            self._refuse("Q203", wrong, node)
        if self.rows and operator.steps:
            args = [exact(a) for a in args]
        if self.rows and operator.digits is Digits.CHOSEN:
            args = chosen(args, choice_type(args))
        call = Call(name, tuple(args), operator.gives or args[-1].kind, option)
        if call.kind is not Kind.NUMBER:
            return call
        call = replace(call, type=type_of(call))  # once: it is asked for at every level above
        return Call("defined", (call,), call.kind, type=call.type) if self.rows and may_be_nan(call) else call

    def _coerce(self, arg: Expr, kind: Kind, node: exp.Expression) -> Expr:
        if arg.kind is kind:
            return arg
        if isinstance(arg, Literal) and arg.value is None:
            return Literal(None, kind)
        if kind is Kind.NUMBER and arg.kind is Kind.BOOLEAN:
            return Call("number", (arg,), Kind.NUMBER)
        if kind in (Kind.DATE, Kind.TIMESTAMP) and isinstance(arg, Literal) and isinstance(arg.value, str):
            return self._moment(arg.value, kind, node)
        if kind is Kind.TIMESTAMP and arg.kind is Kind.DATE:
            return Call("to_timestamp", (arg,), kind)
        way = ways.NEEDED[kind] if isinstance(arg, Literal) else ways.needed(kind, arg.kind)
        what = f"{spell(node, self.text)} needs a {kind.value}"
        self._refuse("Q203", f"{what} where a {arg.kind.value} stands. {way}", node)

    def _plain(self, row: Operator, node: exp.Expression) -> Expr:
        if isinstance(node, (exp.Add, exp.Sub)) and (moved := self._interval_added(node)) is not None:
            return moved
        args = self._arguments(node)
        if isinstance(node, (exp.Add, exp.Sub)) and (moved := self._moved(node, args)) is not None:
            return moved
        if self.rows and row.digits is Digits.SUM and untyped(args):
            return Literal(None, Kind.NUMBER)
        args = [without_minus_zero(a) if self.rows and i in row.signed(args) else a for i, a in enumerate(args)]
        return self._operator(row.name, node, args)

    def _compared(self, row: Operator, node: exp.Expression) -> Expr:
        """Values of one kind, brought to a common type; where one of them is the result, it keeps its own."""
        lengths = self._lengths(node.this, node.expression) if isinstance(node, COMPARED) else None
        args = self._arguments(node) if lengths is None else lengths
        kind = self._common(args, node)
        met, kept = self._met(args, kind), row.gives is not Kind.BOOLEAN
        if kept and met[:1] != args[:1] and type_of(args[0]) != FLOAT:  # compared as FLOAT, not made one
            equal = self._operator("eq_number", node, met)
            return Case(((equal, Literal(None, kind)),), args[0], kind, type=type_of(args[0]))
        found = self._operator(f"{row.family}_{kind.value}", node, met)
        return typed(found, type_of(args[0])) if kept and kind is Kind.NUMBER else found

    def _equal(self, node: exp.Expression, args: list[Expr]) -> Expr:
        kind = self._common(args, node)
        return self._operator(f"eq_{kind.value}", node, self._met(args, kind))

    def _met(self, args: list[Expr], kind: Kind) -> list[Expr]:
        """Values that are compared, in DuckDB's common type."""
        if not self.rows or kind is not Kind.NUMBER:
            return args
        met = common_type([a for a in args if a.kind is Kind.NUMBER])
        return [as_type(a, met) for a in args]

    def _common(self, args: list[Expr], node: exp.Expression) -> Kind:
        """The kind to compare in: that of the columns; literals follow."""
        kinds = {a.kind for a in args if not isinstance(a, Literal)} or {a.kind for a in args if not is_null(a)}
        if kinds == {Kind.DATE, Kind.TIMESTAMP}:
            return Kind.TIMESTAMP
        if kinds == {Kind.DATE} and any(isinstance(a, Literal) and a.kind is Kind.TIMESTAMP for a in args):
            return Kind.TIMESTAMP
        if len(kinds) > 1:
            met = " with ".join(sorted(k.value for k in kinds))
            way = "Write both as one kind: 1, 'a', DATE '2020-01-31'."
            self._refuse("Q203", f"{spell(node, self.text)} compares {met}. {way}", node)
        return kinds.pop() if kinds else Kind.NUMBER

    def _pattern(self, row: Operator, node: exp.Expression) -> Expr:
        args = self._arguments(node, "negate")
        pattern = args[1] if len(args) == 2 else None
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            self._refuse("Q202", f"{spell(node, self.text)} needs a constant pattern. Write it in quotes: 'a%'.", node)
        if len(pattern.value.encode()) > MAX_PATTERN:
            self._refuse("Q104", f"the pattern is longer than {MAX_PATTERN} bytes.", node)
        name, constant = (row.name, pattern.value) if row.pattern is None else row.pattern(pattern.value)
        found = self._operator(name, node, [args[0], Literal(constant, Kind.TEXT)])
        return Call("not", (found,), Kind.BOOLEAN) if node.args.get("negate") else found

    # ---- nodes with a shape of their own ------------------------------------------------------------------------

    def _literal(self, node: exp.Expression) -> Expr:
        raw = str(node.this)
        if len(raw.encode("utf-8", "surrogatepass")) > MAX_LITERAL:
            self._refuse("Q104", f"a literal is longer than {MAX_LITERAL} bytes.", node)
        if node.args.get("is_string"):
            return self._value(raw, node)
        try:
            found = self._value(int(raw) if raw.isdigit() else float(raw.replace("_", "")), node)
        except ValueError:
            self._no_rule(node)
        return typed(found, literal_type(raw))

    def _value(self, value: object, node: exp.Expression) -> Literal:
        if isinstance(value, bool):
            return Literal(value, Kind.BOOLEAN)
        if isinstance(value, (int, float)):
            if abs(value) > 1e300 or not math.isfinite(value):
                self._refuse("Q104", "a number is beyond 1e300.", node)
            return Literal(value, Kind.NUMBER, type=getattr(value, "type", None))
        if isinstance(value, str):
            if "\x00" in value or len(value.encode("utf-8", "surrogatepass")) > MAX_LITERAL or not encodable(value):
                self._refuse("Q104", f"a string is longer than {MAX_LITERAL} bytes or not valid text.", node)
            return Literal(value, Kind.TEXT)
        if isinstance(value, dt.datetime):
            return self._moment(value.isoformat(), Kind.TIMESTAMP, node)
        if isinstance(value, dt.date):
            return Literal(value, Kind.DATE)
        if value is None:
            return Literal(None, Kind.NUMBER)
        self._refuse("Q203", "this type of parameter has no rule. Give a number, text, boolean or date.", node)

    def _placeholder(self, node: exp.Expression) -> Expr:
        index = small_int(node.this if isinstance(node.this, exp.Expression) else exp.Literal.number(node.this))
        if index is None:
            self._refuse("Q201", "named parameters are outside the allow-list. Use ? or $1.", node)
        if not 1 <= index <= len(self.parameters):
            self._refuse("Q203", f"parameter {index} was not given. Give one value for each.", node)
        return self._value(plain(self.parameters[index - 1]), node)

    def _is(self, node: exp.Expression) -> Expr:
        arg, other = self(node.this), node.expression
        if isinstance(other, exp.Null):
            return self._operator(f"is_null_{arg.kind.value}", node, [arg])
        if isinstance(other, exp.Boolean):
            return self._operator("same_boolean", node, [arg, self(other)])
        self._no_rule(node)

    def _between(self, node: exp.Expression) -> Expr:
        if any(v for k, v in node.args.items() if k not in ("this", "low", "high")):
            self._no_rule(node)
        parts = [node.this, node.args["low"], node.args["high"]]
        args = self._lengths(*parts) or [self(part) for part in parts]
        kind = self._common(args, node)
        return self._operator(f"between_{kind.value}", node, self._met(args, kind))

    def _in(self, node: exp.Expression) -> Expr:
        if node.args.get("query"):
            self._refuse("Q204", ways.CHOOSING, node)
        if any(v for k, v in node.args.items() if k not in ("this", "expressions")) or not node.expressions:
            self._refuse("Q204", "IN takes a list of constants. Write IN (1, 2).", node)
        args = [self(node.this), *(self.constant(e) for e in listed(node.expressions))]
        if not all(isinstance(a, Literal) for a in args[1:]) or len(args) > 1001:
            self._refuse("Q202", "IN takes a list of at most 1000 constants. Use = and OR.", node)
        kind = self._common(args, node)
        return self._operator(f"in_{kind.value}", node, self._met(args, kind))

    def constant(self, node: exp.Expression) -> Expr:
        """A member of a list; a number after a sign is the constant that it is."""
        if isinstance(node, exp.Paren):
            return self.constant(node.this)
        if isinstance(node, exp.Neg):
            under = self.constant(node.this)
            if isinstance(under, Literal) and isinstance(under.value, (int, float)) and under.kind is Kind.NUMBER:
                return replace(under, value=-under.value)
        return self(node)

    def _coalesce(self, node: exp.Expression) -> Expr:
        args = self._arguments(node)
        return self._operator(f"coalesce_{self._common(args, node).value}", node, args)

    def _cast(self, node: exp.Expression) -> Expr:
        if any(node.args.get(k) for k in ("format", "action", "default")) or node.args["to"].expressions:
            self._refuse("Q202", "a cast takes a plain type, without length or format. Write CAST(x AS DOUBLE).", node)
        target = node.args["to"].this
        arg = self(node.this)
        if isinstance(node, exp.TryCast) and (read := self._read(arg, target, node)) is not None:
            return read
        if target in (exp.DType.DATE, *TIMESTAMP_TYPES):
            kind = Kind.DATE if target is exp.DType.DATE else Kind.TIMESTAMP
            if kind is Kind.DATE and arg.kind is Kind.TIMESTAMP:
                return Call("to_date", (arg,), Kind.DATE)
            return self._coerce(arg, kind, node)
        if arg.kind in (Kind.NUMBER, Kind.BOOLEAN) and target in NUMBER_TYPES | WHOLE_TYPES.keys():
            number = self._coerce(arg, Kind.NUMBER, node)
            whole = WHOLE_TYPES.get(target)
            return self._real(number, target) if whole is None else self._whole(number, whole, node)
        if target in (exp.DType.TEXT, exp.DType.VARCHAR):
            return self.as_text(arg, node)
        same: dict[Kind, tuple[exp.DType, ...]] = {Kind.BOOLEAN: (exp.DType.BOOLEAN,)}
        if target in same.get(arg.kind, ()):
            return arg
        self._refuse("Q202", ways.no_cast(arg, target), node)

    def _slice(self, node: exp.Expression) -> Expr:
        if isinstance(node, exp.Substring):
            numbers = [node.args.get("start"), node.args.get("length")]
            name = "substring"
        else:
            numbers, name = [node.args.get("expression")], type(node).__name__.lower()
        constants = [small_int(n) for n in numbers]
        if any(n is None or n > MAX_LITERAL for n in constants):
            self._refuse("Q202", f"{name} takes constant numbers from 0 to {MAX_LITERAL}. Write left(x, 2).", node)
        option = ",".join(map(str, constants))
        return self._operator(name, node, [self(node.this)], option)

    def _anonymous(self, node: exp.Expression) -> Expr:
        name = str(node.this).lower()
        if (found := self._called(name, node)) is not None:
            return found
        if name in ("date_part", "datepart") and len(node.expressions) == 2:
            return self._part_of(node.expressions[0].name.lower(), node, node.expressions[1])
        row = BY_WORD.get(name)
        if row is not None and (row.variadic or len(node.expressions) == len(row.takes)):
            if row.reading == "part":
                return self._part_of(row.family, node, node.expressions[0])
            if row.reading == "pattern":
                text, pattern = (e.copy() for e in node.expressions)
                return self._pattern(row, row.nodes[0](this=text, expression=pattern))
            return self._readings[row.reading](self, row, node)
        self._refuse("Q202", f'function "{name[:40]}" is outside the allow-list. {instead(name)}', node)

    def _no_rule(self, node: exp.Expression) -> NoReturn:
        if node.find(exp.Select, exp.SetOperation):
            way = {exp.Exists: ways.CHOOSING, exp.Subquery: ways.NUMBER}.get(type(node), ways.SUBQUERY)
            self._refuse("Q204", way, node)
        if type(node) in ways.NO_RULE:
            self._refuse("Q202", ways.NO_RULE[type(node)], node)
        way = instead((spelled(node, self.text) or "") if isinstance(node, exp.Func) else "")
        self._refuse("Q202", f"{spell(node, self.text)} is outside the allow-list. {way}", node)

    _readings: ClassVar[dict[str, Callable[[Scalars, Operator, exp.Expression], Expr]]] = {
        "plain": _plain,
        "compared": _compared,
        "pattern": _pattern,
        "part": DateNodes._part_node,
    }
    _methods: ClassVar[dict[type[exp.Expression], Callable[[Scalars, exp.Expression], Expr]]] = {
        exp.Literal: _literal,
        exp.Boolean: lambda self, node: Literal(bool(node.this), Kind.BOOLEAN),  # noqa: ARG005
        exp.Null: lambda self, node: Literal(None, Kind.NUMBER),  # noqa: ARG005
        exp.Paren: lambda self, node: self(node.this),
        exp.Pi: lambda self, node: Literal(math.pi, Kind.NUMBER),  # noqa: ARG005
        exp.Placeholder: _placeholder,
        exp.Parameter: _placeholder,
        exp.Is: _is,
        exp.Between: _between,
        exp.In: _in,
        exp.Coalesce: _coalesce,
        exp.Cast: _cast,
        exp.TryCast: _cast,
        exp.Left: _slice,
        exp.Right: _slice,
        exp.Substring: _slice,
        exp.Anonymous: _anonymous,
        **CaseNodes.case_methods,
        **NumberNodes.number_methods,
        **DateNodes.date_methods,
        **MomentNodes.moment_methods,
        **MadeMoments.made_methods,
        **TextNodes.text_methods,
    }

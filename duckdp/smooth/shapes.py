"""Texts of one shape: read once for all their numbers.

Texts that differ in their numbers only have one shape, a function of the columns and of slots for the numbers. Reading
a number as a constant of its own changes nothing but speed: the numbers pass the same checks, and where they decide
how a text translates (a logarithm's domain, a number of decimals, a cast) the text is read on its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler.expression import Call, Case, ColumnRef, Expr, Literal, NumberType, walk
from duckdp.compiler.operators import row_of
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.scalars import MAX_LITERAL, Scalars
from duckdp.compiler.scope import RowScope
from duckdp.compiler.types import TypedFloat, literal_type
from duckdp.errors import QueryError
from duckdp.smooth.axes import Floats
from duckdp.smooth.basis import Basis
from duckdp.smooth.fit.coefficients import read_function
from duckdp.smooth.fit.expansion import Expansion, expand, settle, settled
from duckdp.smooth.fit.points import SLOT, as_number_expression, slot
from duckdp.smooth.fit.separate import reads as columns_of

MAX_SHAPES = 4096  # that a reader remembers
MAX_EXPONENTS = 64  # of one shape
_LARGEST = 1e300  # of a number in a text
_PLAIN = re.compile(r"[\w\s+\-*/%().,<>=!'\"]*\Z", re.ASCII)
# A number, or what must be left alone: a string, a quoted name, a name (digits may follow letters).
_TOKENS = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[A-Za-z_]\w*|((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(\w?)", re.ASCII
)


class _Slot(TypedFloat):
    """A number of a text, which remembers its type and place."""

    index: int = -1


class Shape:
    """A function with slots for its numbers; one object for all texts that have it.

    Attributes:
        expr: the function.
        reads: its columns.
        fixed: slots whose numbers are part of the shape (``expansion.settled``).
    """

    def __init__(self, expr: Expr) -> None:
        self.expr, self.reads, self.fixed = expr, columns_of(expr), tuple(sorted(settled(expr)))
        self._expanded: dict[tuple[float, ...], tuple[Basis, Expr, Expansion | None]] = {}

    def expanded(self, exponents: tuple[float, ...], basis: Basis) -> tuple[Expr, Expansion | None]:
        """The shape with its fixed numbers, and taken apart where it is analytic by its factors."""
        known = self._expanded.get(exponents)
        if known is None or (known[0] is not basis and known[0] != basis):
            if len(self._expanded) >= MAX_EXPONENTS:
                self._expanded.clear()
            whole = settle(self.expr, dict(zip(self.fixed, exponents, strict=True)))
            known = self._expanded[exponents] = (basis, whole, expand(whole, basis))
        return known[1:]


class Reader:
    """Reads texts of one summary; what has been parsed once is known by its text without numbers."""

    def __init__(self, table: str, known: tuple[Column, ...]) -> None:
        self.table, self.known = table, known
        self.relation = Table(name=table, relation=("", "", ""), columns=known, row_cap=1)
        self.shapes: dict[tuple[str, tuple[NumberType, ...]], tuple[Shape, bool] | None] = {}
        self._same: dict[Expr, Shape] = {}

    def read(self, function: str | Expr) -> tuple[Shape, Floats]:
        """(function with slots for its numbers, the numbers)."""
        if not isinstance(function, str):
            return self._lifted(function)
        cut = cut_numbers(function)
        if cut is not None:
            text, numbers = cut
            key = (text, tuple(number.type for number in numbers))
            if key not in self.shapes:
                if len(self.shapes) >= MAX_SHAPES:
                    self.shapes.clear()
                self.shapes[key] = self._translate(text, numbers)
            known = self.shapes[key]
            if known is not None and known[1]:  # these numbers may decide the translation
                known = self._translate(text, numbers)
            if known is not None:
                return known[0], np.array(numbers)
        return self._lifted(read_function(function, self.table, self.known))

    def _lifted(self, function: Expr) -> tuple[Shape, Floats]:
        shape, numbers = lift_numbers(as_number_expression(function))
        return self._shape(shape), numbers

    def _shape(self, expr: Expr) -> Shape:
        if expr not in self._same:
            if len(self._same) >= MAX_SHAPES:
                self._same.clear()
            self._same[expr] = Shape(expr)
        return self._same[expr]

    def _translate(self, text: str, numbers: list[TypedFloat]) -> tuple[Shape, bool] | None:
        """(function, whether its translation may depend on the numbers), or None: the text is read on its own."""
        slots = [_Slot(number) for number in numbers]
        for i, number in enumerate(slots):
            number.index, number.type = i, numbers[i].type
        try:
            scope = RowScope(self.relation, None, text)
            expr = as_number_expression(Scalars(scope.leaf, text, slots, smooth=True)(parse_scalar(text)))
        except QueryError:
            return None
        return self._shape(_slotted(expr)), any(_is_decided(e) for e in walk(expr))


def cut_numbers(text: str) -> tuple[str, list[TypedFloat]] | None:
    """(the text with ? in place of each number, the numbers), or None when that is not plainly possible.

    >>> cut_numbers("x1 * 2 + 1.5e-3")
    ('x1 * ? + ?', [2.0, 0.0015])
    """
    if not _PLAIN.match(text) or "--" in text or "/*" in text:
        return None
    numbers: list[TypedFloat] = []
    parts: list[str] = []
    end = 0
    for token in _TOKENS.finditer(text):
        if token[1] is None:
            continue
        number = _number(token[1]) if len(token[1]) <= MAX_LITERAL else None
        if token[2] or number is None or not abs(number) <= _LARGEST:
            return None
        numbers.append(number)
        parts += [text[end : token.start()], "?"]
        end = token.end()
    return "".join([*parts, text[end:]]), numbers


@lru_cache(maxsize=4096)
def _number(text: str) -> TypedFloat:
    number = TypedFloat(text)
    number.type = literal_type(text)
    return number


def lift_numbers(function: Expr) -> tuple[Expr, Floats]:
    """(a translation with slots for its numbers, the numbers)."""
    numbers: list[float] = []

    def change(expr: Expr) -> Expr:
        match expr:
            case Literal(value=int() | float() as value, kind=Kind.NUMBER) if not isinstance(value, bool):
                numbers.append(float(value))
                return slot(len(numbers) - 1)
        return _rebuilt(expr, change)

    return change(function), np.array(numbers)


def fill(shape: Expr, numbers: Floats) -> Expr:
    """The function of a shape and its numbers."""
    match shape:
        case ColumnRef(column=c) if c.name.startswith(SLOT):
            return Literal(float(numbers[int(c.name.removeprefix(SLOT))]), Kind.NUMBER)
    return _rebuilt(shape, lambda e: fill(e, numbers)) if len(numbers) else shape


def _slotted(expr: Expr) -> Expr:
    if isinstance(expr, Literal):
        return slot(expr.value.index) if isinstance(expr.value, _Slot) else expr
    return _rebuilt(expr, _slotted)


def _rebuilt(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    match expr:
        case Call(operator=operator, arguments=arguments, kind=kind, option=option):
            return Call(operator, tuple(change(a) for a in arguments), kind, option)
        case Case(branches=branches, default=default, kind=kind):
            arms = tuple((change(c), change(v)) for c, v in branches)
            return Case(arms, None if default is None else change(default), kind)
    return expr


def _is_decided(expr: Expr) -> bool:
    return isinstance(expr, Call) and (row_of(expr).domain is not None or row_of(expr).by_value)


@lru_cache(maxsize=32)
def reader_of(table: str, known: tuple[Column, ...]) -> Reader:
    """The reader of a table's texts: it remembers shapes, never numbers."""
    return Reader(table, known)

"""Coefficients of many functions at once.

Texts that differ in their numbers only have one shape: it is parsed once, and DuckDB evaluates it for all of them in
one statement, over the product of the nodes and the numbers (``nodes``). Then one matrix product per column gives all
coefficients and all values on the grid where errors are looked at. Reading a number as a constant of its own changes
nothing but speed: the numbers pass the same checks, and where they decide how a text translates (a logarithm's
domain, a number of decimals, a cast) the text is read on its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler.expression import Call, Case, ColumnRef, Expr, Literal, NumberType, columns, walk
from duckdp.compiler.operators import row_of
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.scalars import MAX_LITERAL, Scalars
from duckdp.compiler.scope import RowScope
from duckdp.compiler.types import TypedFloat, literal_type
from duckdp.errors import NumericalError, QueryError
from duckdp.smooth.axes import Axis, Floats
from duckdp.smooth.basis import Basis
from duckdp.smooth.fit import coefficients
from duckdp.smooth.fit.coefficients import (
    NEGLIGIBLE,
    RESOLVED,
    UNSEEN,
    Approximation,
    approximate,
    checked,
    is_polynomial,
    read_function,
    span_of,
)
from duckdp.smooth.fit.interpolation import check_grid, coefficients_from, values_at
from duckdp.smooth.fit.parts import Part, part_of
from duckdp.smooth.fit.points import (
    SLOT,
    Points,
    as_number_expression,
    evaluate_each,
    evaluate_shape,
    slot,
    tensor_points,
)
from duckdp.smooth.fit.proved import own_error, own_errors, proved_error, rounding
from duckdp.smooth.fit.terms import is_rough
from duckdp.smooth.fit.together import hidden_together

SAFETY = 1.5  # for a grid of three points per degree
PER_DEGREE = 3  # points of the checking grid per function, column by column
MAX_CHECKED = 2400  # points per function on which f - p is looked at
MAX_NODES = 4100  # per function; larger ones are done one by one
MAX_TOGETHER = 256  # functions that are fitted in one matrix
FEW = 8  # functions of one shape that are not worth a statement of their own
MAX_LISTED = 64  # expressions of one statement
MAX_COLUMNS = 3  # that functions fitted together may read; others are fitted one by one
_LARGEST = 1e300  # of a number in a text
_PLAIN = re.compile(r"[\w\s+\-*/%().,<>=!'\"]*\Z", re.ASCII)
# A number, or what must be left alone: a string, a quoted name, a name (digits may follow letters).
_TOKENS = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[A-Za-z_]\w*|((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(\w?)", re.ASCII
)


class _Slot(TypedFloat):
    """A number of a text, which remembers its type and place."""

    index: int = -1


@np.errstate(over="ignore", invalid="ignore")  # what overflows is refused
def approximate_many(
    functions: Sequence[str | Expr], basis: Basis, table: str, known: Sequence[Column]
) -> list[Approximation]:
    """The combinations of the basis that stand for many functions, in their order.

    Args:
        functions: SQL expressions over the summary's columns, or translations.
        basis: the functions of the summary.
        table: its table's name.
        known: its columns.

    Raises:
        NumericalError: N102, with the function's place.
        QueryError: a function is outside the allow-list.
    """
    reader = _Reader(table, tuple(known))
    groups: dict[Expr, list[tuple[int, Floats]]] = {}
    alone: list[tuple[int, Expr]] = []
    for i, function in enumerate(functions):
        shape, numbers = reader.read(function)
        if shape in groups or _together(shape, basis):
            groups.setdefault(shape, []).append((i, numbers))
        else:
            alone.append((i, fill(shape, numbers)))
    found: dict[int, Approximation] = {}
    few: dict[frozenset[str], list[tuple[int, Expr]]] = {}
    for shape, members in groups.items():
        if len(members) < FEW:
            few.setdefault(_reads(shape), []).extend((i, fill(shape, numbers)) for i, numbers in members)
            continue
        for start in range(0, len(members), MAX_TOGETHER):
            found.update(_approximate_group(_same_shape(shape, members[start : start + MAX_TOGETHER]), basis))
    for reads, listed in few.items():
        for start in range(0, len(listed), MAX_LISTED):
            found.update(_approximate_group(_own_shapes(reads, listed[start : start + MAX_LISTED]), basis))
    for i, function in alone:
        with _place(i):
            found[i] = approximate(function, basis, prove=False)
    return [found[i] for i in range(len(functions))]


class _Reader:
    """Reads texts of one summary; what has been parsed once is known by its text without numbers."""

    def __init__(self, table: str, known: tuple[Column, ...]) -> None:
        self.table, self.known = table, known
        self.relation = Table(name=table, relation=("", "", ""), columns=known, row_cap=1)
        self.shapes: dict[tuple[str, tuple[NumberType, ...]], tuple[Expr, bool] | None] = {}

    def read(self, function: str | Expr) -> tuple[Expr, Floats]:
        """(function with slots for its numbers, the numbers)."""
        if not isinstance(function, str):
            return lift_numbers(as_number_expression(function))
        cut = cut_numbers(function)
        if cut is not None:
            text, numbers = cut
            key = (text, tuple(number.type for number in numbers))
            if key not in self.shapes:
                self.shapes[key] = self._translate(text, numbers)
            known = self.shapes[key]
            if known is not None and known[1]:  # these numbers may decide the translation
                known = self._translate(text, numbers)
            if known is not None:
                return known[0], np.array(numbers)
        return lift_numbers(as_number_expression(read_function(function, self.table, self.known)))

    def _translate(self, text: str, numbers: list[TypedFloat]) -> tuple[Expr, bool] | None:
        """(function, whether its translation may depend on the numbers), or None: the text is read on its own."""
        slots = [_Slot(number) for number in numbers]
        for i, number in enumerate(slots):
            number.index, number.type = i, numbers[i].type
        try:
            scope = RowScope(self.relation, None, text)
            expr = as_number_expression(Scalars(scope.leaf, text, slots, smooth=True)(parse_scalar(text)))
        except QueryError:
            return None
        return _slotted(expr), any(_is_decided(e) for e in walk(expr))


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
        number = TypedFloat(token[1])
        number.type = literal_type(token[1])
        if token[2] or len(token[1]) > MAX_LITERAL or not abs(number) <= _LARGEST:
            return None
        numbers.append(number)
        parts += [text[end : token.start()], "?"]
        end = token.end()
    return "".join([*parts, text[end:]]), numbers


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


def _reads(shape: Expr) -> frozenset[str]:
    return frozenset(c.name for c in columns(shape) if not c.name.startswith(SLOT))


def _together(shape: Expr, basis: Basis) -> bool:
    """Whether a shape is evaluated for many functions at once: small grids, and no jump to look for."""
    reads = _reads(shape)
    if is_rough(shape) or len(reads) > MAX_COLUMNS or not reads <= {axis.name for axis in basis.axes}:
        return False
    part = part_of(basis, reads)
    return not _listed_alone(part.axes) and math.prod(len(rule.x) for rule in part.rules) <= MAX_NODES


@lru_cache(maxsize=64)
def _listed_alone(axes: tuple[Axis, ...]) -> bool:
    """Whether all values are looked at where a function is read on its own, and not here: there its error is proved."""
    together = check_grid(axes, {}, per_degree=PER_DEGREE, most=MAX_CHECKED)[1]
    return not together and check_grid(axes, {}, per_degree=coefficients.PER_DEGREE, most=coefficients.MAX_CHECKED)[1]


@dataclass(frozen=True, eq=False)
class _Group:
    """Functions that are evaluated together.

    Attributes:
        reads: their columns.
        functions: (place in the list, function).
        evaluate: their values, float[m, n].
        own: what computing them may add at points, which may be all values there are, float[m].
        hidden: what they may hide between the points of a grid of so many steps per column, float[m], looked at
            until it is below float[m].
    """

    reads: frozenset[str]
    functions: list[tuple[int, Expr]]
    evaluate: Callable[[Points], Floats]
    own: Callable[[Points, bool], Floats]
    hidden: Callable[[Part, list[int], Floats], Floats]


def _same_shape(shape: Expr, members: list[tuple[int, Floats]]) -> _Group:
    constants = np.array([numbers for _, numbers in members]).reshape(len(members), -1)
    functions = [(i, fill(shape, numbers)) for i, numbers in members]

    def own(points: Points, complete: bool) -> Floats:
        found = own_errors(shape, points, constants, complete=complete)
        for k in np.flatnonzero(~np.isfinite(found)):  # a number in place of a slot may have a rule: an exponent
            found[k] = own_error(functions[k][1], points, complete=complete)
        return found

    return _Group(
        _reads(shape),
        functions,
        lambda points: evaluate_shape(shape, points, constants),
        own,
        lambda part, steps, enough: hidden_together(shape, constants, part.axes, steps, enough),
    )


def _own_shapes(reads: frozenset[str], functions: list[tuple[int, Expr]]) -> _Group:
    def hidden(part: Part, steps: list[int], enough: Floats) -> Floats:
        none = np.zeros((1, 0))
        each = [hidden_together(f, none, part.axes, steps, enough[i : i + 1]) for i, (_, f) in enumerate(functions)]
        return np.concatenate(each)

    def own(points: Points, complete: bool) -> Floats:
        return np.array([own_error(f, points, complete=complete) for _, f in functions])

    return _Group(reads, functions, lambda points: evaluate_each([f for _, f in functions], points), own, hidden)


def _approximate_group(group: _Group, basis: Basis) -> dict[int, Approximation]:
    try:
        found = _approximate_together(group, part_of(basis, group.reads), basis.size)
    except NumericalError:
        if len(group.functions) == 1:
            with _place(group.functions[0][0]):
                raise
        for one in group.functions:
            _approximate_group(_own_shapes(group.reads, [one]), basis)
        raise
    return {
        i: approximate(function, basis, prove=False) if fit is None else fit
        for (i, function), fit in zip(group.functions, found, strict=True)
    }


def _approximate_together(group: _Group, part: Part, size: int) -> list[Approximation | None]:
    """The combinations of a group; None where the grid may be too coarse for f."""
    many = len(group.functions)
    nodes = tensor_points(part.axes, [rule.x for rule in part.rules])
    values = group.evaluate(nodes)
    tensor = coefficients_from(values.reshape(many, *(len(rule.x) for rule in part.rules)), part.rules)
    kept = part.select(tensor)
    x, complete = check_grid(part.axes, {}, per_degree=PER_DEGREE, most=MAX_CHECKED)
    grid = tensor_points(part.axes, x)
    seen = group.evaluate(grid)
    errors = np.abs(seen - values_at(part.tensor(kept), part.axes, x)).max(axis=1)
    at_nodes = np.abs(values).max(axis=1)
    scales = np.maximum(np.abs(seen).max(axis=1), at_nodes)
    lost = np.abs(tensor).reshape(many, -1).sum(axis=1) - np.abs(kept).sum(axis=1)
    slack = rounding(part, 1.0) * scales
    full = np.zeros((many, size))
    full[:, part.rows] = kept
    polynomial = [is_polynomial(function, part) for _, function in group.functions]
    none = np.full(many, np.inf)
    own = group.own(nodes, False) if any(polynomial) else none, group.own(grid, True) if complete else none
    proved = [
        proved_error(
            part,
            polynomial=polynomial[i],
            complete=complete,
            error=float(errors[i]),
            scales=(float(at_nodes[i]), float(scales[i])),
            lost=max(0.0, float(lost[i])),
            own=(float(own[0][i]), float(own[1][i])),
        )
        for i in range(many)
    ]
    exact = np.array([bound is not None for bound in proved])
    enough = np.maximum(UNSEEN * (SAFETY * errors + slack), NEGLIGIBLE * scales)
    hidden = np.zeros(many)
    asked = (errors <= RESOLVED * scales) & ~exact & (not complete)
    if asked.any():
        hidden = group.hidden(part, [max(1, len(at) - 1) for at in x], np.where(asked, enough, np.inf))
    found: list[Approximation | None] = []
    for i, error in enumerate(errors.tolist()):
        sure = proved[i]
        if sure is None and not (asked[i] and hidden[i] <= enough[i]):
            found.append(None)
            continue
        bound = SAFETY * error + float(slack[i] + hidden[i]) if sure is None else sure
        span = span_of(as_number_expression(group.functions[i][1]))
        own_used = 0.0 if sure is None else float(min(own[0][i], own[1][i]))
        found.append(checked(Approximation(full[i], bound, sure is not None, span, own_used)))
    return found


@contextmanager
def _place(index: int) -> Iterator[None]:
    """Say which function an error is about."""
    try:
        yield
    except NumericalError as error:
        message = f"function {index + 1} of the list: {error.message}"
        raise NumericalError(error.code, message, status=error.status) from None

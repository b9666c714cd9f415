"""Rules of DuckDB's number types where numbers meet: what the rows of operators say of their results.

``type_of`` (compiler/types.py) is handed in: it asks the rows for the types of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from duckdp.catalog.table import INTEGER_RANGES
from duckdp.compiler.expression import Call, Expr, Literal, NumberType

INTEGER, FLOAT, DOUBLE = NumberType("INTEGER"), NumberType("FLOAT"), NumberType("DOUBLE")
MAX_DIGITS = 38  # of a DECIMAL; a longer literal is a DOUBLE
SHORT_DIGITS = 18  # of a DECIMAL in 64 bits: what DuckDB makes of two such ones is one again
TypeOf = Callable[[Expr], NumberType]


def is_bare(expr: Expr) -> bool:
    """Whether an expression is the constant NULL, which no cast gave a type."""
    return isinstance(expr, Literal) and expr.value is None and expr.type is None


def whole_type(name: str) -> NumberType:
    """The type of DuckDB's integers of a name.

    >>> whole_type("UTINYINT").digits, whole_type("HUGEINT").digits
    (3, 38)
    """
    return NumberType("INTEGER", 0, min(len(str(INTEGER_RANGES[name][1])), MAX_DIGITS))


def met_type(exprs: Sequence[Expr], type_of: TypeOf) -> NumberType:
    """The type that numbers are brought to where they are compared or added."""
    types = [type_of(e) for e in exprs if not is_bare(e)] or [INTEGER]
    for one in (DOUBLE, FLOAT):
        if one in types:
            return one
    scale, digits = max(t.scale for t in types), max(t.digits for t in types)
    if all(t == INTEGER for t in types):
        return NumberType("INTEGER", 0, digits)
    return NumberType("DECIMAL", scale, min(digits, MAX_DIGITS - scale))


def chosen_type(exprs: Sequence[Expr], type_of: TypeOf) -> NumberType:
    """The type of one of several numbers: where no DECIMAL holds them all, it has fewer decimals.

    A whole number beside a DECIMAL leaves it its decimals; DuckDB takes the types from left to right.
    """
    found = met_type(exprs, type_of)
    if found.name != "DECIMAL":
        return found
    first, *rest = (type_of(e) for e in exprs if not is_bare(e))
    for one in rest:
        digits, scale = max(first.digits, one.digits), max(first.scale, one.scale)
        if "INTEGER" in (first.name, one.name):
            digits = min(digits, MAX_DIGITS - scale)
        name = "INTEGER" if first.name == one.name == "INTEGER" else "DECIMAL"
        first = NumberType(name, min(scale, MAX_DIGITS - digits), digits)
    return first


def met_remainder(exprs: Sequence[Expr], type_of: TypeOf) -> NumberType:
    """The type of a remainder: where no DECIMAL holds both numbers, DuckDB computes it as DOUBLE."""
    found = met_type(exprs, type_of)
    digits = max((type_of(e).digits for e in exprs if not is_bare(e)), default=0)
    return DOUBLE if found.name == "DECIMAL" and digits + found.scale > MAX_DIGITS else found


def of_common(call: Call, type_of: TypeOf) -> NumberType:
    """The type in which the arguments meet."""
    return met_type(call.arguments, type_of)


def of_chosen(call: Call, type_of: TypeOf) -> NumberType:
    """The type of one of the arguments."""
    return chosen_type(call.arguments, type_of)


def of_extreme(call: Call, type_of: TypeOf) -> NumberType:
    """The type of the largest or smallest of the arguments: among FLOATs, DuckDB's has no -0."""
    found = of_chosen(call, type_of)
    return replace(found, unsigned=found == FLOAT)


def of_remainder(call: Call, type_of: TypeOf) -> NumberType:
    """The type of a remainder."""
    return met_remainder(call.arguments, type_of)


def of_sum(call: Call, type_of: TypeOf) -> NumberType:
    """The type of a sum: a DECIMAL with the larger scale, and a digit more."""
    found = of_common(call, type_of)
    if found.name != "DECIMAL":
        return found
    types = _known(call, type_of)
    return _decimal(types, found.scale, max(t.digits for t in types) + found.scale + 1)


def of_product(call: Call, type_of: TypeOf) -> NumberType:
    """The type of a product: a DECIMAL with the scales, and the digits, of both."""
    found = of_common(call, type_of)
    if found.name != "DECIMAL":
        return found
    types = _known(call, type_of)
    return _decimal(types, sum(t.scale for t in types), sum(t.digits + t.scale for t in types))


def of_quotient(call: Call, type_of: TypeOf) -> NumberType:
    """The type of a quotient: no DECIMAL."""
    return FLOAT if of_common(call, type_of) == FLOAT else DOUBLE


def of_rounded(of_whole: NumberType | None = None) -> Callable[[Call, TypeOf], NumberType]:
    """The type of what was rounded: a DECIMAL loses its decimals; of a whole number ``of_whole``, or its own."""

    def rule(call: Call, type_of: TypeOf) -> NumberType:
        found = type_of(call.arguments[0])
        if found == INTEGER:
            return of_whole or found
        if found.name == "DECIMAL":
            return NumberType("DECIMAL", 0, found.digits + found.scale)
        return replace(found, unsigned=False)  # a DOUBLE of a DECIMAL is rounded to -0 too

    return rule


def of_first(call: Call, type_of: TypeOf) -> NumberType:
    """The type of the first argument."""
    return replace(type_of(call.arguments[0]), unsigned=False)


def of_double(_: Call, __: TypeOf) -> NumberType:
    """What no other type is known of."""
    return DOUBLE


def always_of(found: NumberType) -> Callable[[Call, TypeOf], NumberType]:
    """The same type whatever the arguments."""
    return lambda _, __: found


def _known(call: Call, type_of: TypeOf) -> list[NumberType]:
    return [type_of(a) for a in call.arguments if not is_bare(a)]


def _decimal(types: list[NumberType], scale: int, width: int) -> NumberType:
    limit = SHORT_DIGITS if max(*(t.digits + t.scale for t in types), scale) <= SHORT_DIGITS else MAX_DIGITS
    return NumberType("DECIMAL", scale, min(width, limit) - scale)

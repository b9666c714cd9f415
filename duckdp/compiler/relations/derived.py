"""Columns of relations: what is claimed of an expression becomes a column's declaration, and is enforced in SQL.

Later proofs use the claims (that a root's argument is not below 0, which keys there can be), so every value is printed
with a clamp to them: nothing that follows can fail, or show a key, for what a row holds. 0 has no sign in a relation:
rows are grouped, hashed and told apart by their values, and which of 0 and -0 stands for both would depend on the order
of rows on the disk.
"""

from __future__ import annotations

import hashlib
import re
import sys
from dataclasses import replace

from duckdp.catalog.table import Column, Kind, Scalar
from duckdp.compiler.bound_values import Parameters
from duckdp.compiler.domains import Domains
from duckdp.compiler.expression import ColumnRef, Expr, NumberType
from duckdp.compiler.facts import facts
from duckdp.compiler.number_types import DOUBLE, FLOAT, INTEGER
from duckdp.compiler.operators import Facts
from duckdp.compiler.printing import number, print_literal
from duckdp.compiler.types import type_of

READABLE = re.compile(r"[a-z_][a-z0-9_]*(\([a-z0-9_, ().*]*\)( up to \d+)?)?\Z")
_PLAIN = {Kind.TEXT: "VARCHAR", Kind.BOOLEAN: "BOOLEAN", Kind.DATE: "DATE", Kind.TIMESTAMP: "TIMESTAMP"}
_WHOLE = ((3, "TINYINT"), (5, "SMALLINT"), (10, "INTEGER"), (19, "BIGINT"))  # decimal digits of each


def derive(name: str, expr: Expr, domains: Domains, *, nullable: bool | None = None) -> Column:
    """The column of an expression over rows, with all that is known of it.

    Args:
        name: in the relation.
        expr: over the columns below.
        domains: finds the values of expressions.
        nullable: whether it may be NULL, where that is not the expression's own.
    """
    if isinstance(expr, ColumnRef):
        own = expr.column.nullable if nullable is None else nullable
        return replace(expr.column, name=name, source=name, nullable=own)
    known = facts(expr)
    found = domains.find(expr)
    listed = found is not None and (found.listed or expr.kind is Kind.TEXT)
    return column_of(
        name,
        expr.kind,
        type_name(expr),
        known,
        nullable=known.nullable if nullable is None else nullable,
        domain=found.values if listed and found is not None else None,
        other=found.other if listed and found is not None else None,
    )


def column_name(text: str) -> str:
    """The name of a column by the canonical text of what it is; nothing that an analyst quoted is part of it.

    >>> column_name("sum(age)"), column_name("count(*) where eq_text(sex, 'F')")
    ('sum(age)', 'count_bb59a86120ad2a06b19ca1db3af4aa86')
    """
    if len(text) <= 63 and READABLE.match(text):
        return text
    called = re.match(r"[a-z_]{0,20}", text)
    return f"{called[0] if called else ''}_{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def column_of(
    name: str,
    kind: Kind,
    duckdb_type: str,
    known: Facts,
    *,
    nullable: bool,
    domain: tuple[Scalar, ...] | None = None,
    other: Scalar = None,
) -> Column:
    """A column with what is known of its values."""
    lower: Scalar = None
    upper: Scalar = None
    if kind is Kind.NUMBER and known.interval.finite:
        lower, upper = known.interval.lower, known.interval.upper
    elif kind in (Kind.DATE, Kind.TIMESTAMP) and known.dates is not None:
        lower, upper = known.dates
    return Column(
        name=name,
        source=name,
        type=duckdb_type,
        kind=kind,
        integral=kind is not Kind.NUMBER or known.integral,
        nullable=nullable,
        lower=lower,
        upper=upper,
        domain=domain,
        other=other,
    )


def nullable(column: Column) -> Column:
    """A column that is NULL too where a row, or the side of a join that it is of, is missing."""
    domain = column.domain if column.domain is None or None in column.domain else (*column.domain, None)
    return replace(column, nullable=True, domain=domain)


def print_derived(column: Column, value: str, parameters: Parameters) -> str:
    """A value within what its column claims; of a number without bounds: that it is finite.

    What follows takes whole numbers and DECIMALs to be finite, whatever they came from: a product of many that leaves
    the range of DOUBLE would be NaN later, where nothing looks for it, and an error for what one row holds.
    """
    if column.lower is None and column.kind is Kind.NUMBER:
        column = replace(column, lower=-sys.float_info.max, upper=sys.float_info.max)
    if column.lower is not None and column.kind is not Kind.BOOLEAN:
        of = number if column.kind is Kind.NUMBER else lambda bound: print_literal(bound, column.kind, parameters)
        lower, upper = of(column.lower), of(column.upper)  # type: ignore[arg-type]
        value = f"(CASE WHEN {value} < {lower} THEN {lower} WHEN {value} > {upper} THEN {upper} ELSE {value} END)"
    return f"({value} + 0e0)" if column.kind is Kind.NUMBER else value


def type_name(expr: Expr) -> str:
    """DuckDB's name for the type of an expression."""
    if isinstance(expr, ColumnRef) and expr.type is None:
        return expr.column.type
    return number_name(type_of(expr)) if expr.kind is Kind.NUMBER else _PLAIN[expr.kind]


def number_name(of: NumberType) -> str:
    """DuckDB's name for a type of numbers, of a width that holds as many digits.

    >>> number_name(NumberType("DECIMAL", 2, 7)), number_name(INTEGER)
    ('DECIMAL(9,2)', 'BIGINT')
    """
    if of == INTEGER:
        return next((name for digits, name in _WHOLE if of.digits <= digits), "HUGEINT")
    if of in (FLOAT, DOUBLE):
        return of.name
    return f"DECIMAL({min(of.digits + of.scale, 38)},{of.scale})"

"""Keys of joins compared as the whole numbers that they are, where that says the same as comparing them as DOUBLE.

Questions read every number as a DOUBLE within its bounds. Of a computed value DuckDB knows neither how many there are
nor whether a scan may leave rows out that meet nothing, so a join on whole numbers is planned better on columns of
their own type.

Proof. A column counts whose values, within their bounds, are whole numbers that DOUBLE tells apart: of 32 bits at most,
or of 64 with bounds within 2**53. Reading it as DOUBLE and clamping gives the same number as clamping it in its own
type, as rounding to a DOUBLE keeps order and leaves the bounds where they are. So of two such columns the DOUBLEs are
equal just where the whole numbers are, and NULL where they are: the join holds the same pairs, row for row. Nothing
else is read of the whole numbers. What a column claims is checked at each step from where it is compared down to the
scan: it passes as it is (:meth:`Node.passed`), or is not compared so.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from duckdp.catalog.table import INTEGER_RANGES, Column, Kind, Table
from duckdp.compiler.expression import Call, ColumnRef, Expr
from duckdp.compiler.operators import row_of
from duckdp.compiler.relations.constant_rows import ConstantRows
from duckdp.compiler.relations.relation import Relation

MARK = "__whole "
EXACT = 2**53  # whole numbers up to here are exact as DOUBLE
_APART = frozenset(("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"))


@dataclass(frozen=True, kw_only=True)
class WholeKey(Column):
    """A column as a whole number of its own type, within its bounds; it stands beside the column, by another name."""

    __hash__ = Column.__hash__


def marked(name: str) -> str:
    """The name of a column as a whole number, beside the column itself."""
    return MARK + name


def as_whole(column: Column) -> WholeKey:
    """A column as a whole number (:func:`is_whole`)."""
    values = {f.name: getattr(column, f.name) for f in fields(Column)}
    return WholeKey(**{**values, "name": marked(column.name)})


def is_whole(table: Table, name: str) -> bool:
    """Whether a column of a table or relation can be read as a whole number, with the same ones equal.

    Args:
        table: declared, or a relation.
        name: of a column of it.
    """
    if isinstance(table, Relation):
        below = table.node.passed().get(name)
        return below is not None and is_whole(*below)
    if isinstance(table, ConstantRows) or marked(name) in {c.name for c in table.columns}:
        return False
    column = next((c for c in table.columns if c.name == name), None)
    return column is not None and _is_apart(column)


def _is_apart(column: Column) -> bool:
    """Whether a declared column's values within its bounds are whole numbers that DOUBLE tells apart."""
    of = column.type.upper()
    if column.kind is not Kind.NUMBER or of not in (*_APART, "BIGINT") or column.null_value is not None:
        return False
    if column.lower is None or column.upper is None:
        return of in _APART
    low, high = INTEGER_RANGES[of]
    ends = float(column.lower), float(column.upper)  # type: ignore[arg-type]
    return all(end.is_integer() and abs(end) <= EXACT and low <= end <= high for end in ends)


def print_whole(column: WholeKey, raw: str) -> str:
    """A raw value within the column's bounds, in its own type."""
    if column.lower is None:
        return raw
    lower, upper = (f"({int(end)})" for end in (column.lower, column.upper))  # type: ignore[arg-type]
    return f"(CASE WHEN {raw} < {lower} THEN {lower} WHEN {raw} > {upper} THEN {upper} ELSE {raw} END)"


def compared_whole(on: Expr | None, passed: dict[str, tuple[Table, str]]) -> Expr | None:
    """A condition whose equalities of two columns are of whole numbers, wherever both can be.

    Args:
        on: of a join.
        passed: of which table and column there the sides' columns are, by name.
    """
    if isinstance(on, Call) and row_of(on).role == "conjunction":
        return replace(on, arguments=tuple(compared_whole(part, passed) for part in on.arguments))  # type: ignore[misc]
    if not isinstance(on, Call) or not row_of(on).equates:
        return on
    columns = [a.column for a in on.arguments if isinstance(a, ColumnRef) and a.column.name in passed]
    if len(columns) < 2 or not all(is_whole(*passed[c.name]) for c in columns):
        return on
    return replace(on, arguments=tuple(ColumnRef(as_whole(c)) for c in columns))

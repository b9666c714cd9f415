"""Values as DuckDB writes them, numbers, booleans and dates as texts; and texts as it reads them, by TRY_CAST."""

from __future__ import annotations

from abc import ABC, abstractmethod

from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler import ways
from duckdp.compiler.expression import ColumnRef, Expr, Literal
from duckdp.compiler.facts import facts
from duckdp.compiler.nodes import TIMESTAMP_TYPES, WHOLE_TYPES
from duckdp.compiler.number_types import INTEGER, whole_type
from duckdp.compiler.parse import refuse
from duckdp.compiler.types import exact, type_of, typed

EXACT = 2**53  # whole numbers up to here are exact as DOUBLE
SURE_DIGITS = 15  # decimal digits that a DOUBLE keeps: of a type, those before the point; of a DECIMAL, those after it
WIDEST = 38  # digits of a DECIMAL


class AsTexts(ABC):
    """The part of ``scalars.Scalars`` that translates them; ``rows`` says that values are those of rows."""

    text: str | None
    rows: bool

    @abstractmethod
    def _operator(self, name: str, node: exp.Expression, args: list[Expr], option: str = "") -> Expr: ...

    def as_text(self, arg: Expr, node: exp.Expression) -> Expr:
        """A value as DuckDB writes it: texts, whole numbers, DECIMALs, booleans and dates."""
        if arg.kind is Kind.TEXT:
            return arg
        if arg.kind is not Kind.NUMBER:
            return self._operator(f"text_{arg.kind.value}", node, [arg])
        if isinstance(arg, Literal) and arg.value is None:
            return Literal(None, Kind.TEXT)
        kind = type_of(arg)
        if kind == INTEGER and (self.rows or _is_exact(arg)):
            return self._operator("text_number" if _is_exact(arg) else "text_huge", node, [arg])
        if not self.rows:
            what = "a number of an answer has no form as a text"
            refuse("Q202", f"{what}. Use the number itself, or CASE WHEN x > 1 THEN 'a' END.", node, self.text)
        if kind.name == "DECIMAL" and kind.scale <= SURE_DIGITS:
            width = WIDEST if kind.digits > 0 else kind.scale  # without digits before the point, DuckDB writes no 0
            return self._operator("text_decimal", node, [exact(arg)], f"{width},{kind.scale}")
        refuse("Q202", ways.no_cast(arg, exp.DType.TEXT), node, self.text)

    def _read(self, arg: Expr, target: exp.DType, node: exp.Expression) -> Expr | None:
        """TRY_CAST of a text of rows, which is NULL where it fails; None of other casts."""
        if arg.kind is not Kind.TEXT or not self.rows:
            return None
        if (whole := WHOLE_TYPES.get(target)) is not None:
            return typed(self._operator("read_integer", node, [arg], whole), whole_type(whole))
        if target is exp.DType.DOUBLE:
            return self._operator("read_double", node, [arg])
        moment = target is exp.DType.DATE or target in TIMESTAMP_TYPES
        if moment and not isinstance(arg, Literal):  # a constant is read where it stands
            return self._operator("read_date" if target is exp.DType.DATE else "read_timestamp", node, [arg])
        return None


def _is_exact(number: Expr) -> bool:
    """Whether a whole number is exact as a DOUBLE, and so held by a BIGINT: by its bounds, or its column's type."""
    known = facts(number)
    narrow = isinstance(number, ColumnRef) and type_of(number).digits <= SURE_DIGITS
    return known.integral and (known.interval.largest <= EXACT or narrow)

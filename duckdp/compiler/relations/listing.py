"""Reads rows of constants: VALUES, SELECT of constants without FROM, and UNION of them.

What is a constant here is read by the same translation as everything else, and must come out as a literal of ours; its
type is the one that DuckDB gives a column of such literals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from duckdp.catalog.table import Kind, Scalar
from duckdp.compiler import public_ways
from duckdp.compiler.expression import ColumnRef, Expr, Literal
from duckdp.compiler.output_names import output_name
from duckdp.compiler.parse import refuse
from duckdp.compiler.relations.constant_rows import constant_rows
from duckdp.compiler.relations.derived import number_name
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import View, view_from
from duckdp.compiler.types import common_type

MOST_CONSTANTS = 5_000  # values, rows by columns: each is a literal of a private read
_SQL_TYPES = {Kind.TEXT: "VARCHAR", Kind.BOOLEAN: "BOOLEAN", Kind.DATE: "DATE", Kind.TIMESTAMP: "TIMESTAMP"}
_CONSTANT = (exp.Literal, exp.Null, exp.Boolean, exp.Parameter, exp.Placeholder)
_MOMENTS = (exp.DType.DATE, exp.DType.TIMESTAMP)


@dataclass(frozen=True, kw_only=True)
class Written:
    """Rows as they are written.

    Attributes:
        names: of the columns.
        rows: nodes of constants; a list for each row.
        distinct: equal ones are one.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[exp.Expression, ...], ...]
    distinct: bool = False


def is_constants(node: exp.Expression) -> bool:
    """Whether a query, or an item of FROM, is rows of constants."""
    found = written(node)
    return found is not None and all(_is_constant(e) for row in found.rows for e in row)


def written(node: exp.Expression) -> Written | None:
    """VALUES, a SELECT without FROM, or a UNION of such; None: it is something else."""
    if isinstance(node, (exp.Subquery, exp.Paren)) and not any(v for k, v in node.args.items() if k != "this"):
        return written(node.this)
    if isinstance(node, exp.Values):
        return _of_values(node)
    if isinstance(node, exp.Union):
        return _of_union(node)
    if not isinstance(node, exp.Select) or not node.expressions:
        return None
    clause = node.args.get("from_")
    if any(v for k, v in node.args.items() if k not in ("expressions", "from_", "kind")):
        return None
    if clause is None:
        shown = tuple(e.unalias() for e in node.expressions)
        names = tuple(e.alias or output_name(e) for e in node.expressions)
        return None if any(isinstance(e, exp.Star) for e in shown) else Written(names=names, rows=(shown,))
    bare = isinstance(clause.this, exp.Values) and clause.this.alias in ("", "_values")  # the parser's own, of a CTE
    whole = len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Star)
    return _of_values(clause.this) if bare and whole and not node.expressions[0].args.get("except_") else None


def _of_values(node: exp.Values) -> Written | None:
    rows = tuple(tuple(r.expressions) if isinstance(r, exp.Tuple) else (r,) for r in node.expressions)
    if any(v for k, v in node.args.items() if k not in ("expressions", "alias")) or not rows:
        return None
    return Written(names=tuple(f"col{i}" for i in range(len(rows[0]))), rows=rows)


def _of_union(node: exp.Union) -> Written | None:
    """Both sides; the rows of one that drops its equal ones are no list that another could be joined to."""
    if any(v for k, v in node.args.items() if k not in ("this", "expression", "distinct")):
        return None
    one, two = written(node.this), written(node.expression)
    if one is None or two is None:
        return None
    distinct = bool(node.args.get("distinct"))
    if not distinct and (one.distinct or two.distinct):
        return None
    return Written(names=one.names, rows=(*one.rows, *two.rows), distinct=distinct)


def _is_constant(node: exp.Expression) -> bool:
    if isinstance(node, (exp.Paren, exp.Neg)):
        return _is_constant(node.this)
    if isinstance(node, exp.Cast):
        return node.args["to"].this in _MOMENTS and _is_constant(node.this)
    return isinstance(node, _CONSTANT)


class Listing:
    """Reads rows of constants as public tables.

    Args:
        text: the statement, for places in messages.
        parameters: values of ? and $1.
    """

    def __init__(self, text: str, parameters: Sequence[object]) -> None:
        self.text, self.read = text, Scalars(self._leaf, text, parameters)

    def _refuse(self, code: str, message: str, node: exp.Expression) -> NoReturn:
        refuse(code, message, node, self.text)

    def _leaf(self, node: exp.Expression) -> Expr | None:
        if isinstance(node, (exp.Column, exp.Star, exp.AggFunc, exp.Window)):
            self._refuse("Q203", public_ways.CONSTANTS, node)
        return None

    def view(self, node: exp.Expression, found: Written) -> View:
        """A view of rows of constants, by the names that the statement gives their columns.

        Args:
            node: where they stand.
            found: what :func:`written` gives of it.

        Raises:
            QueryError: Q203, a row has no constant, or rows do not fit each other; Q403, there are too many.
        """
        width = len(found.names)
        if len(found.rows) * width > MOST_CONSTANTS:
            self._refuse("Q403", public_ways.many_constants(MOST_CONSTANTS), node)
        odd = next((row for row in found.rows if len(row) != width), None)
        if odd is not None:
            self._refuse("Q203", public_ways.CONSTANTS_WIDTH, odd[0] if odd else node)
        rows = [[self._constant(e) for e in row] for row in found.rows]
        kinds = [self._kind(place, found, rows) for place in range(width)]
        values: list[tuple[Scalar, ...]] = [tuple(e.value for e in row) for row in rows]
        table = constant_rows(kinds, values)
        if found.distinct:
            table = constant_rows(kinds, tuple(dict.fromkeys(table.values)))
        columns = [(name, ColumnRef(c)) for name, c in zip(found.names, table.columns, strict=True)]
        select = node if isinstance(node, exp.Select) else exp.Select()
        return view_from(table, columns, (), None, select, self.text, order=found.names)

    def _constant(self, node: exp.Expression) -> Literal:
        found = self.read.constant(node)
        if not isinstance(found, Literal):
            self._refuse("Q203", public_ways.CONSTANTS, node)
        return found

    def _kind(self, place: int, found: Written, rows: Sequence[Sequence[Literal]]) -> tuple[Kind, str, bool]:
        """The kind of a column, DuckDB's type of it, and whether its values are whole."""
        given = [row[place] for row in rows if row[place].value is not None]
        node = found.rows[0][place]
        if not given:
            self._refuse("Q203", public_ways.constants_null(found.names[place]), node)
        kinds = list(dict.fromkeys(e.kind for e in given))
        if len(kinds) > 1:
            self._refuse("Q203", public_ways.constants_kinds(found.names[place], *kinds[:2]), node)
        if kinds[0] is not Kind.NUMBER:
            return kinds[0], _SQL_TYPES[kinds[0]], False
        return kinds[0], number_name(common_type(given)), all(float(e.value).is_integer() for e in given)  # type: ignore[arg-type]

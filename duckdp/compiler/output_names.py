"""Names of outputs that have no alias: the expression as it is printed, functions in lower case. Never executed.

sqlglot's printer copies the expression and takes a quarter of a millisecond for each; a function of a column or of *,
which most outputs are, is printed here.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, SqlglotError

from duckdp.errors import QueryError

_CALLED: dict[type, str] = {exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max"}
_RESERVED = DuckDB.Generator.RESERVED_KEYWORDS  # which the printer quotes


def output_name(node: exp.Expression) -> str:
    """Column name of an expression without alias."""
    if isinstance(node, exp.Column):
        return node.name
    return _of_call(node) or printed(node)


def printed(node: exp.Expression) -> str:
    """An expression as sqlglot prints it.

    Raises:
        QueryError: Q101, it cannot: what it read, it may write as what it does not read.
    """
    try:
        return node.sql(
            dialect="duckdb", normalize_functions="lower", comments=False, unsupported_level=ErrorLevel.IGNORE
        )
    except (SqlglotError, AttributeError, TypeError, ValueError, IndexError, KeyError):
        pass
    raise QueryError("Q101", "a part of this is no SQL that duckdp can write again. Write it in another way.")


def _of_call(node: exp.Expression) -> str | None:
    """The same, of a function of a plain column or of *; None of anything else, comments included."""
    called, inner = _CALLED.get(type(node)), node.args.get("this")
    if called is None or node.comments or any(v for k, v in node.args.items() if k not in ("this", "big_int")):
        return None
    if isinstance(inner, exp.Star):
        return None if inner.comments or any(inner.args.values()) else f"{called}(*)"
    if not isinstance(inner, exp.Column) or inner.comments or sum(map(bool, inner.args.values())) != 1:
        return None
    name = inner.this
    if not isinstance(name, exp.Identifier) or name.quoted or name.comments:
        return None
    text = name.name
    return f"{called}({text})" if text.isascii() and text.isidentifier() and text.lower() not in _RESERVED else None

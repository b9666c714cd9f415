"""Which of the parser's nodes and names have a rule: read off the rows of operators, for compiler/scalars.py."""

from __future__ import annotations

from sqlglot import exp

from duckdp.compiler.operators import ROWS, Operator

# Of a function with a row for each of several kinds, one of its rows.
BY_NODE: dict[type[exp.Expression], Operator] = {node: row for row in ROWS for node in row.nodes}
BY_WORD: dict[str, Operator] = {word: row for row in ROWS for word in row.words}
# Parts of a date, by the names that extract and date_part take; and their operators by kind of the argument.
PART_NAMES: dict[str, str] = {
    name: row.family for row in ROWS if row.reading == "part" for name in (row.family, *row.words)
}
NUMBER_TYPES = {exp.DType.DOUBLE, exp.DType.FLOAT}  # DECIMAL would round, and can overflow
WHOLE_TYPES = {
    exp.DType.TINYINT: "TINYINT",
    exp.DType.SMALLINT: "SMALLINT",
    exp.DType.INT: "INTEGER",
    exp.DType.BIGINT: "BIGINT",
    exp.DType.INT128: "HUGEINT",
    exp.DType.UTINYINT: "UTINYINT",
    exp.DType.USMALLINT: "USMALLINT",
    exp.DType.UINT: "UINTEGER",
    exp.DType.UBIGINT: "UBIGINT",
}
TIMESTAMP_TYPES = {exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.DATETIME}
# What a message may offer in place of a function without a rule; the tests ask each of them.
_COMPOSED = ("dayname", "monthname", "make_date", "width_bucket")  # of several rows, or of none
FUNCTION_NAMES: tuple[str, ...] = tuple(sorted({*_COMPOSED, *(name for row in ROWS for name in row.offered)}))

"""What the printer of outer parts knows by tables: signs, functions, types (compiler/outer/outer_print.py)."""

from __future__ import annotations

from sqlglot import exp

#: Operators between two expressions.
BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "AND",
    exp.Or: "OR",
    exp.Is: "IS",
}
#: Functions of their arguments in the order of these names.
CALLS: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Sum: ("sum", ("this",)),
    exp.Avg: ("avg", ("this",)),
    exp.Min: ("min", ("this",)),
    exp.Max: ("max", ("this",)),
    exp.Count: ("count", ("this",)),
    exp.Abs: ("abs", ("this",)),
    exp.Sqrt: ("sqrt", ("this",)),
    exp.Floor: ("floor", ("this",)),
    exp.Ceil: ("ceil", ("this",)),
    exp.Lower: ("lower", ("this",)),
    exp.Upper: ("upper", ("this",)),
    exp.Round: ("round", ("this", "decimals")),
    exp.Nullif: ("nullif", ("this", "expression")),
    exp.Coalesce: ("coalesce", ("this", "expressions")),
    exp.Greatest: ("greatest", ("this", "expressions")),
    exp.Least: ("least", ("this", "expressions")),
    exp.RowNumber: ("row_number", ()),
    exp.Lag: ("lag", ("this", "offset", "default")),
    exp.Lead: ("lead", ("this", "offset", "default")),
}
#: Flags that the parser sets and that say nothing about what is printed.
FLAGS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Count: frozenset(("big_int",)),
    exp.Div: frozenset(("typed", "safe")),
    exp.DPipe: frozenset(("safe",)),
    exp.Greatest: frozenset(("ignore_nulls",)),
    exp.Least: frozenset(("ignore_nulls",)),
    exp.Window: frozenset(("over",)),
}
#: Calls that sqlglot knows by classes of no arguments but these texts.
RANKS: dict[type[exp.Expr], str] = {exp.Rank: "rank", exp.DenseRank: "dense_rank"}
#: What a query in brackets may have for itself.
OWN = ("with_", "order", "limit", "offset")
#: Types of casts, by sqlglot's.
TYPES = {
    exp.DataType.Type.BIGINT: "BIGINT",
    exp.DataType.Type.BOOLEAN: "BOOLEAN",
    exp.DataType.Type.DATE: "DATE",
    exp.DataType.Type.DOUBLE: "DOUBLE",
    exp.DataType.Type.INT: "INT",
    exp.DataType.Type.TEXT: "TEXT",
    exp.DataType.Type.TIMESTAMP: "TIMESTAMP",
    exp.DataType.Type.VARCHAR: "TEXT",
}

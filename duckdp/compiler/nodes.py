"""Which sqlglot nodes have a rule: one table for each shape of node, read by compiler/scalars.py."""

from __future__ import annotations

from sqlglot import exp

ARITHMETIC: dict[type[exp.Expression], str] = {
    exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul", exp.Neg: "neg", exp.Pow: "power",
    exp.Abs: "abs", exp.Floor: "floor", exp.Ceil: "ceil", exp.Trunc: "trunc", exp.Sign: "sign", exp.Sqrt: "sqrt",
    exp.Exp: "exp", exp.Ln: "ln", exp.Sin: "sin", exp.Cos: "cos", exp.Tanh: "tanh", exp.Atan: "atan",
    exp.And: "and", exp.Or: "or", exp.Not: "not", exp.Lower: "lower", exp.Upper: "upper",
    exp.Length: "length", exp.Greatest: "greatest", exp.Least: "least",
}  # fmt: skip
COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge",
    exp.NullSafeEQ: "same", exp.NullSafeNEQ: "distinct", exp.Nullif: "nullif",
}  # fmt: skip
PATTERNS: dict[type[exp.Expression], str] = {
    exp.Like: "like", exp.ILike: "ilike", exp.StartsWith: "starts_with", exp.EndsWith: "ends_with",
    exp.Contains: "contains",
}  # fmt: skip
PARTS: dict[type[exp.Expression], str] = {
    exp.Year: "year", exp.Month: "month", exp.Day: "day", exp.Quarter: "quarter", exp.Week: "week",
    exp.DayOfWeek: "dayofweek", exp.DayOfYear: "dayofyear", exp.Hour: "hour", exp.Minute: "minute",
    exp.DayOfMonth: "day", exp.DayOfWeekIso: "isodow", exp.WeekOfYear: "week",
}  # fmt: skip
PART_NAMES = {"dow": "dayofweek", "doy": "dayofyear", "dayofmonth": "day", "weekofyear": "week"}
NUMBER_TYPES = {exp.DType.DOUBLE, exp.DType.FLOAT}  # DECIMAL would round, and can overflow
WHOLE_TYPES = {
    exp.DType.TINYINT: "TINYINT", exp.DType.SMALLINT: "SMALLINT", exp.DType.INT: "INTEGER",
    exp.DType.BIGINT: "BIGINT", exp.DType.INT128: "HUGEINT", exp.DType.UTINYINT: "UTINYINT",
    exp.DType.USMALLINT: "USMALLINT", exp.DType.UINT: "UINTEGER", exp.DType.UBIGINT: "UBIGINT",
}  # fmt: skip
TIMESTAMP_TYPES = {exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.DATETIME}
# What a message may offer in place of a function without a rule; the tests ask each of them.
FUNCTION_NAMES = (
    "abs", "atan", "ceil", "coalesce", "contains", "cos", "date_diff", "date_trunc", "day", "dayofweek", "dayofyear",
    "exp", "floor", "greatest", "hour", "isodow", "least", "left", "length", "ln", "log", "lower", "minute", "month",
    "nullif", "power", "prefix", "quarter", "right", "round", "sign", "sin", "sqrt", "starts_with", "substring",
    "suffix", "tanh", "trim", "trunc", "upper", "week", "year",
)  # fmt: skip

"""Aggregates of an analyst's text that are not one of a table row: read into rows, and into expressions over rows.

Covariances, correlations and regressions follow from means and variances of their arguments and of the product of their
distances from the middle of their bounds. Quantiles, least, greatest and commonest values follow from counts of bins.
What is read here is made of released numbers, so nothing of it concerns privacy: every aggregate in it is bounded and
noised like one that was typed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from duckdp.catalog.table import Kind, Scalar
from duckdp.compiler.aggregates import AggregateRow
from duckdp.compiler.binned import MOST_BINS
from duckdp.compiler.domains import Domain
from duckdp.compiler.expression import Aggregate, Call, Case, Expr, Literal, replaced
from duckdp.compiler.facts import date_bounds, facts

N, B = Kind.NUMBER, Kind.BOOLEAN
PAIRS: dict[type[exp.Expression], str] = {
    exp.Corr: "corr",
    exp.CovarPop: "covar_pop",
    exp.CovarSamp: "covar_samp",
    exp.RegrSlope: "regr_slope",
    exp.RegrIntercept: "regr_intercept",
    exp.RegrR2: "regr_r2",
    exp.RegrCount: "regr_count",
    exp.RegrAvgx: "regr_avgx",
    exp.RegrAvgy: "regr_avgy",
    exp.RegrSxx: "regr_sxx",
    exp.RegrSyy: "regr_syy",
    exp.RegrSxy: "regr_sxy",
}
QUANTILES = (exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc, exp.ApproxQuantile)
ASKED: dict[type[exp.Expression], str] = {exp.Min: "0", exp.Max: "1", exp.Median: "0.5", exp.Mode: ""}
ORDERED = (*QUANTILES, exp.Min, exp.Max, exp.Mode)
_BLOCKS = "dp_sample_aggregate('table', '{}', low := {}, high := {}, epsilon := 1)."
_GEOMETRIC = (
    "Take exp(avg(ln(greatest(x, 0.01))) FILTER (WHERE x > 0)), with the least that x is above 0 in place of 0.01."
)
REFUSED: dict[type[exp.Expression] | str, str] = {
    exp.LogicalAnd: "One person's row decides it. Ask how many there are: count_if(NOT x), or avg(CAST(x AS INTEGER)).",
    exp.LogicalOr: "One person's row decides it. Ask how many there are: count_if(x), or avg(CAST(x AS INTEGER)).",
    exp.AnyValue: "It would show one row's value. Take mode(x), median(x) or avg(x).",
    exp.First: "It would show one row's value. Take min(x), median(x) or avg(x).",
    exp.Last: "It would show one row's value. Take max(x), median(x) or avg(x).",
    exp.ArgMin: "It would show one row's value. Take min(x), and ask for groups.",
    exp.ArgMax: "It would show one row's value. Take max(x), and ask for groups.",
    exp.GroupConcat: "It would list rows. Use GROUP BY x with count(*).",
    exp.ArrayAgg: "It would list rows. Use GROUP BY x with count(*).",
    exp.Skewness: f"Take quantile_cont(x, 0.9), or {_BLOCKS.format('skewness(x)', -3, 3)}",
    exp.Kurtosis: f"Take quantile_cont(x, 0.9), or {_BLOCKS.format('kurtosis(x)', -2, 20)}",
    exp.ApproxTopK: "Use dp_top_k('table', 'column', 3, epsilon := 0.5), or GROUP BY x ORDER BY count(*) DESC LIMIT 3.",
    "histogram": "Use GROUP BY x with count(*), or dp_histogram('table', 'column', epsilon := 0.5).",
    "entropy": "Use GROUP BY x with count(*), and take it of the answer.",
    "mad": "Take stddev(x), or dp_sample_aggregate('table', 'mad(x)', epsilon := 1).",
    "product": "Take exp(sum(ln(greatest(x, 1)))).",
    "geomean": _GEOMETRIC,
    "geometric_mean": _GEOMETRIC,
}


def refused_as(node: exp.Expression) -> str | None:
    """What to write in place of an aggregate that has no private form; None of others."""
    if isinstance(node, exp.Anonymous):
        return REFUSED.get(str(node.this).lower())
    return REFUSED.get(type(node))


def each_quantile(nodes: Sequence[Any]) -> Iterator[Any]:
    """Outputs, with a list of quantiles of a column as a column for each."""
    for node in nodes:
        inner = node.unalias()
        part = "expression" if inner.args.get("quantile") is None else "quantile"
        shares = inner.args.get(part) if isinstance(inner, QUANTILES) else None
        for share in shares.expressions if isinstance(shares, exp.Array) else [None]:
            if share is None:
                yield node
                continue
            alone = inner.copy()
            alone.set(part, share.copy())
            named = exp.Alias(this=alone, alias=exp.to_identifier(f"{node.alias}_{share.name}"))
            yield named if isinstance(node, exp.Alias) else alone


def pair(name: str, y: Expr, x: Expr) -> Expr:
    """An aggregate of two numbers with bounds, over rows that have both: as DuckDB defines it, y first.

    Args:
        name: one of ``PAIRS``.
        y: the first argument.
        x: the second.
    """
    both = _have(y, x)

    def of(function: str, argument: Expr) -> Expr:
        return Aggregate(function, argument, both)

    product = _call("mul", _centred(y), _centred(x))
    count, mean_x, mean_y = of("count", product), of("avg", x), of("avg", y)
    if both is None and not facts(product).nullable:
        count = Aggregate("count_rows", None, None)
    apart = _call("mul", _moved(mean_y, y), _moved(mean_x, x))
    covariance = _call("sub", of("avg", product), apart)
    var_x, var_y = of("var_pop", x), of("var_pop", y)
    slope = _call("div", covariance, var_x)
    match name:
        case "covar_pop":
            return covariance
        case "covar_samp":
            less = _call("sub", count, Literal(1, N))
            whole = _call("div", _call("mul", covariance, count), less)
            return Case(((Call("gt_number", (count, Literal(1, N)), B), whole),), None, N)
        case "corr":
            spread = _call("mul", of("stddev_pop", x), of("stddev_pop", y))
            return _call("within_one", _call("div", covariance, spread))
        case "regr_r2":
            square = _call("mul", covariance, covariance)
            return _call("within_share", _call("div", square, _call("mul", var_x, var_y)))
        case "regr_slope":
            return slope
        case "regr_intercept":
            return _call("sub", mean_y, _call("mul", slope, mean_x))
        case "regr_count":
            return count
        case "regr_avgx":
            return mean_x
        case "regr_avgy":
            return mean_y
    spreads = {"regr_sxx": var_x, "regr_syy": var_y, "regr_sxy": covariance}
    return _call("mul", count, spreads[name])


def filtered(expr: Expr, condition: Expr) -> Expr:
    """The same of the rows that satisfy a condition."""

    def only(part: Expr) -> Expr | None:
        if not isinstance(part, Aggregate):
            return None
        both = condition if part.filter is None else Call("and", (part.filter, condition), B)
        return replace(part, filter=both)

    return replaced(expr, only)


def ordered(row: AggregateRow, option: str, argument: Expr, find: Callable[[Expr], Domain | None]) -> Aggregate | str:
    """A quantile, least, greatest or commonest value; or what is wrong with it.

    Args:
        row: of the aggregate.
        option: the share of rows below, as text.
        argument: of any kind.
        find: the domain of an expression.
    """
    if argument.kind in (Kind.DATE, Kind.TIMESTAMP) and not row.plain:
        return _moment(row.name, option, argument)
    if argument.kind is N and not row.plain:
        return Aggregate(row.name, argument, None, option=option) if facts(argument).interval.finite else "bounds"
    if not row.listed:
        return "kind"
    domain = find(argument)
    values: list[Scalar] = [v for v in (() if domain is None else domain.values) if v is not None]
    if domain is None or not 0 < len(values) <= MOST_BINS:
        return "domain"
    if not row.plain:
        values = sorted((v for v in values if v != domain.other), key=str)
    return Aggregate(row.name, place(argument, values, domain.other), None, argument.kind, option, tuple(values))


def _moment(function: str, option: str, argument: Expr) -> Aggregate | str:
    """Of dates by days, of timestamps by seconds, since 1970."""
    if date_bounds(argument) is None:
        return "bounds"
    if argument.kind is Kind.DATE:
        counted = Call("date_diff_date", (Literal(dt.date(1970, 1, 1), Kind.DATE), argument), N, "day")
    else:
        counted = Call("epoch_timestamp", (argument,), N)
    return Aggregate(function, counted, None, argument.kind, option)


def place(argument: Expr, values: list[Scalar], other: Scalar) -> Expr:
    """The place of a value among those of a domain, from 0; of one outside that of the label for others, or NULL."""
    literals = [Literal(v, argument.kind) for v in values if v != other]
    equal = f"eq_{argument.kind.value}"
    arms = tuple((Call(equal, (argument, v), B), Literal(values.index(v.value), N)) for v in literals)
    last: Expr | None = None
    if other in values:
        known = Call("not", (Call(f"is_null_{argument.kind.value}", (argument,), B),), B)
        arms = (*arms, (known, Literal(values.index(other), N)))
    return Case(arms, last, N)


def _have(y: Expr, x: Expr) -> Expr | None:
    """That both are numbers; None where they always are."""
    parts: list[Expr] = [
        Call("not", (Call("is_null_number", (e,), B),), B) for e in dict.fromkeys((y, x)) if facts(e).nullable
    ]
    return None if not parts else parts[0] if len(parts) == 1 else Call("and", tuple(parts), B)


def _middle(expr: Expr) -> Literal:
    span = facts(expr).interval
    return Literal(float((span.lower + span.upper) / 2), N)


def _centred(expr: Expr) -> Expr:
    return _call("sub", expr, _middle(expr))


def _moved(mean: Expr, expr: Expr) -> Expr:
    return _call("sub", mean, _middle(expr))


def _call(name: str, *arguments: Expr) -> Expr:
    return Call(name, arguments, N)

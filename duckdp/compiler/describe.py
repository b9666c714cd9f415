"""A plan in words and ordinary notation: what ``explain`` shows. For reading only; nothing here is executed."""

from __future__ import annotations

import datetime as dt

from duckdp.catalog.table import name_nulls, name_unit
from duckdp.compiler.expression import Aggregate, Call, Case, ColumnRef, Expr, KeyRef, Literal
from duckdp.compiler.measures import Measure
from duckdp.compiler.operators import Operator, row_of
from duckdp.compiler.plan import Plan
from duckdp.compiler.query import Key
from duckdp.core.types import show_decimal
from duckdp.texts import sql_text


def describe_plan(plan: Plan) -> str:
    """The plan as an indented text, one step a line."""
    query = plan.query
    if not plan.measures:
        where = f" where {pretty(query.where)}" if query.where is not None else ""
        return f"read nothing: no row of {query.table.name}{where} counts, by the declared bounds and domains"
    lines = [
        f"release {_counted(plan.cells, 'number')} per group, {plan.family} noise, {plan.loss}",
        f"  protects: {_unit(plan)}",
        f"  reads: {query.table.name}" + (f" where {pretty(query.where)}" if query.where is not None else ""),
    ]
    lines += [f"  {name_nulls(query.table)}"] if query.table.null_units else []
    lines += [f"  key: {pretty(key.expr)} ({_key(key, plan.tau)})" for key in query.keys]
    for measure, noise in zip(plan.measures, plan.noises, strict=True):
        scale = "public, exact" if noise is None else f"noise of scale {noise.scale / measure.steps:.6g}"
        lines.append(f"  measure: {_measure(measure)}, {scale}")
    if plan.loss.delta_atto:
        lines.append(f"  delta: {show_decimal(plan.loss.delta_atto, 18)}")
    return "\n".join(lines)


def pretty(expr: Expr) -> str:
    """An expression in ordinary notation.

    >>> from duckdp.catalog.table import Kind
    >>> pretty(Call("add", (Literal(1, Kind.NUMBER), Literal(2.5, Kind.NUMBER)), Kind.NUMBER))
    '(1 + 2.5)'
    """
    match expr:
        case ColumnRef(column=c):
            return c.name
        case Literal(value=v):
            return _constant(v)
        case Call(arguments=arguments, option=option):
            return _call(row_of(expr), [pretty(a) for a in arguments], option)
        case Case(branches=branches, default=default):
            arms = " ".join(f"WHEN {pretty(c)} THEN {pretty(v)}" for c, v in branches)
            return f"CASE {arms}{f' ELSE {pretty(default)}' if default is not None else ''} END"
        case Aggregate(function=name, argument=argument):
            return f"{name}({'' if argument is None else pretty(argument)})"
        case KeyRef(index=index):
            return f"key {index + 1}"


def _call(row: Operator, args: list[str], option: str) -> str:
    if row.shown is not None:
        return row.shown(args)
    return f"{row.label or row.family}({', '.join([*args, *([_constant(option)] if option else [])])})"


def _constant(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, dt.date):
        return f"'{value.isoformat()}'"
    return sql_text(value) if isinstance(value, str) else f"{value:g}"


def _unit(plan: Plan) -> str:
    table = plan.query.table
    if table.unit_key is None:
        return f"each row ({plan.neighbours.value})"
    within = f" in each of at most {_counted(plan.groups, 'group')}" if plan.query.keys else ""
    rows = _counted(table.max_rows, "row")
    return f"all rows of one {name_unit(table)} ({plan.neighbours.value}); at most {rows}{within} count"


def _key(key: Key, tau: int | None) -> str:
    if key.domain is None:
        return f"shown if at least {tau} noisy units have it"
    return f"complete: {_counted(len(key.domain), 'public value')}, {key.source}"


def _measure(measure: Measure) -> str:
    where = f" where {pretty(measure.filter)}" if measure.filter is not None else ""
    if measure.kind == "units":
        return f"privacy units{where}"
    if measure.argument is None:
        return f"rows{where}"
    nulls = " and of its NULLs" if measure.null_cell else ""
    released = ("count", "count and sum", "count, sum and squares")[measure.degree]
    what = ("sum" if measure.kind == "sum" else released) + " of"
    span = f" in [{measure.lower:g}, {measure.upper:g}]" if measure.degree or measure.kind == "sum" else ""
    return f"{what} {pretty(measure.argument)}{span}{nulls}{where}"


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"

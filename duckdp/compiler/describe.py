"""A plan in words and ordinary notation: what ``explain`` shows. For reading only; nothing here is executed."""

from __future__ import annotations

import math

from duckdp.catalog.table import name_nulls, name_unit
from duckdp.compiler.least_units import told_units
from duckdp.compiler.measures import Measure
from duckdp.compiler.notation import pretty as pretty
from duckdp.compiler.plan import Plan, threshold_units
from duckdp.compiler.query import Key, Query
from duckdp.compiler.relations.relation import Relation
from duckdp.core.errorbars import Noise
from duckdp.core.types import NANO, PICO, show_decimal


def describe_plan(plan: Plan) -> list[str]:
    """The plan, a step a line, indented by what it belongs to; of public figures alone."""
    query = plan.query
    if not plan.measures:
        where = f" where {pretty(query.where)}" if query.where is not None else ""
        return [f"read nothing: no row of {query.table.name}{where} counts, by the declared bounds and domains"]
    if plan.derived:
        where = f" where {pretty(query.where)}" if query.where is not None else ""
        keys = ", ".join(pretty(key.expr) for key in query.keys)
        by = f" by {keys}" if keys else ""
        return [f"add up, free: {query.table.name}{where}{by}, from sets released with more keys"]
    lines = [
        f"release {_counted(plan.cells, 'number')} per group, {plan.family} noise, {plan.loss}",
        f"  protects: {_unit(plan)}",
        *_read(query),
    ]
    lines += [f"  {name_nulls(query.table)}"] if query.table.null_units else []
    lines += [f"  key: {pretty(key.expr)} ({_key(key, plan)})" for key in query.keys]
    for t in query.together:
        named = ", ".join(pretty(query.keys[place].expr) for place in t.places)
        lines.append(f"  together: {named} ({_counted(len(t.rows), 'combination')} of public {t.source})")
    for measure, noise in zip(plan.measures, plan.noises, strict=True):
        scale = "public, exact" if noise is None else f"noise of scale {noise.scale / measure.steps:.6g}"
        lines.append(f"  measure: {_measure(measure, plan)}, {scale}{_share(plan, measure, noise)}")
    if plan.loss.delta_atto:
        lines.append(f"  delta: {show_decimal(plan.loss.delta_atto, 18)}")
    return [*lines, *(f"  then, free: {step}" for step in _afterwards(plan))]


def _share(plan: Plan, measure: Measure, noise: Noise | None) -> str:
    """Which part of the charge a measure has, where several share it."""
    if noise is None or sum(n is not None for n in plan.noises) < 2:
        return ""
    if plan.family == "laplace":
        share = measure.sensitivity.l1 / noise.scale / (plan.loss.epsilon_nano / NANO)
    else:
        share = measure.sensitivity.l2_squared / (2 * noise.scale**2) / (plan.loss.rho_pico / PICO)
    return f", {share:.0%} of the cost"


def _afterwards(plan: Plan) -> list[str]:
    """What is done with released figures."""
    query = plan.query
    shown = told_units(plan)
    shown = None if shown is None else shown.partition(":")[0]  # a note says the rest
    clauses = ["HAVING"] if query.having is not None else []
    clauses += ["ORDER BY"] if query.order else []
    clauses += ["LIMIT"] if query.limit is not None or query.offset else []
    found = ["what grouping sets tell of each other, by least squares"] if plan.laws is not None else []
    found += [] if shown is None else [shown]
    return [*found, *([f"{', '.join(clauses)} of released figures"] if clauses else [])]


def _read(query: Query) -> list[str]:
    """What is read, from the outside in."""
    where = f" where {pretty(query.where)}" if query.where is not None else ""
    if not isinstance(query.table, Relation):
        return [f"  reads: {query.table.name}{where}"]
    first, *inner = query.table.node.describe()
    return [f"  reads: {first}{where}", *(f"    {line}" for line in inner)]


def _unit(plan: Plan) -> str:
    table = plan.query.table
    if table.unit_key is None:
        return f"each row ({plan.neighbours.value})"
    within = f" in each of at most {_counted(plan.groups, 'group')}" if plan.query.keys else ""
    rows = _counted(table.max_rows, "row")
    return f"all rows of one {name_unit(table)} ({plan.neighbours.value}); at most {rows}{within} count"


def _key(key: Key, plan: Plan) -> str:
    if key.domain is None:
        if plan.unweighted is None:
            return f"shown if at least {plan.tau} noisy units have it"
        return f"shown if the weights of its units are at least {threshold_units(plan):,.1f}, noise included"
    return f"complete: {_counted(len(key.domain), 'public value')}, {key.source}"


def _measure(measure: Measure, plan: Plan) -> str:
    if measure.kind == "weights":
        return f"privacy units by weight, in place of their number: {_weight(measure, plan)}"
    where = f" where {pretty(measure.filter)}" if measure.filter is not None else ""
    if measure.kind == "units":
        return f"privacy units{where}"
    if measure.argument is None:
        return f"rows{where}"
    if measure.kind == "values":
        return f"different values of {pretty(measure.argument)}{where}"
    if measure.kind == "bins":
        span = f"of [{measure.lower:g}, {measure.upper:g})"
        return f"rows in {_counted(measure.cells, 'equal part')} {span} by {pretty(measure.argument)}{where}"
    if measure.kind == "centred":
        span = f"[{measure.lower:g}, {measure.upper:g}]"
        return f"sum of {pretty(measure.argument)} in {span} about the middle, for the rows counted beside it{where}"
    nulls = " and of its NULLs" if measure.null_cell else ""
    released = ("count", "count and sum", "count, sum and squares")[measure.degree]
    what = ("sum" if measure.kind == "sum" else released) + " of"
    span = f" in [{measure.lower:g}, {measure.upper:g}]" if measure.degree or measure.kind == "sum" else ""
    return f"{what} {pretty(measure.argument)}{span}{nulls}{where}"


def _weight(measure: Measure, plan: Plan) -> str:
    """What a unit weighs, as a formula."""
    formula = f"{plan.groups} / k" if plan.family == "laplace" else f"sqrt({plan.groups} / k)"
    whole = plan.groups if plan.family == "laplace" else math.sqrt(plan.groups)
    cut = measure.largest < math.floor(whole * measure.steps)
    return f"one in k groups weighs {formula}{' or less' if cut else ''} in each"


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"

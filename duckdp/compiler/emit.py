"""Plan to the one SELECT that reads private rows: exact integer cells per group, contributions bounded.

The layers, innermost first (row-level privacy skips 3 to 5)::

    1 base       clean columns of the rows that count (printing.print_rows)
    2 prepared   keys, FILTER flags and grid values of each row; WHERE; keys outside the domain dropped. A declared
                 domain is a small table that is joined: its values are grouped by their places, 1, 2, ...
    3 units      sums per (unit, keys)
    4 bounded    each unit's sums scaled or clamped to max_rows rows
    5 kept       per unit the ``groups`` keys with the smallest keyed hash (when they can be more)
    6            sums per group, of which each stands once; open groups ordered by key

Everything a unit adds depends on that unit's rows and public figures only. Different values are counted beside layers 3
to 5, from the prepared rows (compiler/distinct_values.py), and come to layer 6 as rows of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from types import MappingProxyType

from duckdp.catalog.table import Kind, Scalar
from duckdp.compiler.distinct_values import with_values
from duckdp.compiler.domain_joins import DomainJoin, join_domain
from duckdp.compiler.expression import Expr, columns
from duckdp.compiler.measures import Measure, sum_range
from duckdp.compiler.plan import Plan
from duckdp.compiler.printing import UNIT, Parameters, number, print_expr, print_literal, print_rows, quote
from duckdp.compiler.query import Key, Query, group_count
from duckdp.compiler.relations.relation import Relation
from duckdp.core.reads import Add, AddByKey, OfAllRows, Parts, PrivateQuery

OPEN_RANGE = 9e18  # whole numbers that a BIGINT result can show
# Rows up to which a read takes less time without DuckDB's optimizer (2026-11-27, counts, groups, three measures: .6 of
# the time at 500 rows, .8 at 20,000, 1.0 at 200,000, 1.2 at 1,000,000).
FEW_ROWS = 100_000


def emit(plan: Plan, salt: int) -> PrivateQuery:
    """Print a plan as one SELECT for the private instance.

    Args:
        plan: of one statement.
        salt: 64 secret bits that key the choice of groups.

    Returns:
        A query whose rows are (keys..., sums...), at most one per group: a key of a declared domain as its place there
        (:func:`key_codes`), and what the group's cells follow from (:func:`read_cells`). Open groups come by ascending
        keys.
    """
    parameters = Parameters(key=salt)
    joins = [join_domain(i, plan.query, parameters) for i in range(len(plan.query.keys))]
    prepared = _prepared(plan.query, plan.measures, joins, parameters)
    keys = [f"k{i}" for i in range(len(plan.query.keys))]
    if plan.query.table.unit_key is None:
        sums = [s for i, m in enumerate(plan.measures) for s in _row_sums(i, m)]
        body = prepared
    else:
        sums = [f"system.main.sum(c{i}_{j})" for i, m in enumerate(plan.measures) for j in range(m.cells)]
        body = with_values(plan, prepared, _kept(plan, _units(plan, prepared, keys), keys, salt), keys, salt)
    tail = f" GROUP BY {', '.join(keys)}" if keys else ""
    if is_open := plan.domain_size is None:
        tail += f" ORDER BY {', '.join(f'{k} NULLS LAST' for k in keys)}"  # what is released comes in this order
    return PrivateQuery(
        sql=f"SELECT {', '.join([*keys, *sums])} FROM {body}{tail}",
        parameters=tuple(parameters.values),
        rows=None if is_open else group_count(plan.query.keys),  # of which some are in no group
        parts=_parts(plan, len(keys), ordered=is_open),
        few=plan.query.table.relation if _is_few(plan) else None,
    )


def _is_few(plan: Plan) -> bool:
    """Whether one table of few rows is read in a few plain steps: joins and what is counted apart want an optimizer."""
    table = plan.query.table
    return (
        not isinstance(table, Relation)
        and table.link is None
        and table.row_cap <= FEW_ROWS
        and all(measure.kind != "values" for measure in plan.measures)
    )


def _parts(plan: Plan, keys: int, *, ordered: bool) -> Parts:
    if any(m.kind == "values" for m in plan.measures):
        return OfAllRows("how many different values there are")
    return AddByKey(keys=keys, ordered=ordered) if keys else Add()


def key_codes(key: Key) -> tuple[Scalar, ...]:
    """As what the values of a key's domain cross, in their order: listed ones as places, 1, 2, ...; NULL as NULL."""
    if not key.listed:
        return key.domain or ()
    places = count(1)
    return tuple(None if value is None else next(places) for value in key.domain or ())


def key_values(key: Key) -> dict[Scalar, Scalar] | None:
    """What each place of a declared domain stands for (:func:`key_codes`); None: the key crosses as its value."""
    return dict(zip(key_codes(key), key.domain or (), strict=True)) if key.listed else None


def read_cells(plan: Plan, sums: Sequence[int | None]) -> list[int]:
    """The exact cells of a group from the sums that crossed. A cell that is what the others leave is taken here.

    Args:
        plan: of the statement.
        sums: without keys; NULL where no row counts. Exact and private.
    """
    found: list[int] = []
    keyed = plan.query.table.unit_key is not None
    for measure in plan.measures:
        own = [int(value or 0) for value in sums[len(found) : len(found) + measure.cells]]
        found += _from_sums(measure, own, keyed=keyed) if measure.kind == "cells" else own
    return found


def _from_sums(measure: Measure, own: list[int], *, keyed: bool) -> list[int]:
    steps, degree = 2**measure.bits, measure.degree
    parts, weight, nulls = own[:degree], own[degree], own[degree + 1 :]
    if keyed:  # units' weights hold their NULLs
        return [*parts, weight * steps - sum(parts) - sum(nulls), *nulls]
    return [*parts, weight * steps - sum(parts), *((rows - weight) * steps for rows in nulls)]


def print_keys(query: Query, parameters: Parameters) -> tuple[list[str], str]:
    """The keys' names; ``__unit`` and keys of every row that counts, as a parenthesised SELECT named ``prepared``."""
    joins = [join_domain(i, query, parameters) for i in range(len(query.keys))]
    return [f"k{i}" for i in range(len(joins))], _prepared(query, (), joins, parameters)


def print_keyed(query: Query, value: Expr, parameters: Parameters) -> tuple[list[str], str]:
    """As :func:`print_keys`, with a value of each row as ``x``."""
    return print_valued(query, {"x": value}, parameters)


def print_valued(query: Query, values: Mapping[str, Expr], parameters: Parameters) -> tuple[list[str], str]:
    """As :func:`print_keys`, with values of each row by their names."""
    joins = [join_domain(i, query, parameters) for i in range(len(query.keys))]
    return [f"k{i}" for i in range(len(joins))], _prepared(query, (), joins, parameters, values)


def print_kept(rows: str, keys: Sequence[str], salt: int, most: int) -> str:
    """At most so many of the rows (``__unit``, keys, ...) of each unit, of which each is a group: by a keyed hash."""
    # hashed twice, as in print_chosen: the first joins the salt by XOR alone
    draw = f"system.main.hash(system.main.hash({', '.join([UNIT, *keys, f'CAST({salt} AS UBIGINT)'])}))"
    # and ordered by the keys too: by one key alone DuckDB makes it an arg_min of lists, 2.5 times slower
    order = f"{draw}, {', '.join(keys)}"
    rank = f"system.main.row_number() OVER (PARTITION BY {UNIT} ORDER BY {order})"
    return f"(SELECT * FROM (SELECT *, {rank} AS place FROM {rows}) AS ranked WHERE place <= {most}) AS kept"


def _prepared(
    query: Query,
    measures: Sequence[Measure],
    joins: list[DomainJoin | None],
    parameters: Parameters,
    values: Mapping[str, Expr] = MappingProxyType({}),
) -> str:
    items, conditions = [], []
    exprs = [
        *values.values(),
        query.where,
        *(k.expr for k in query.keys),
        *(e for m in measures for e in (m.argument, m.filter)),
    ]
    body = print_rows(query.table, columns(*exprs), parameters, unit=True) + " AS base"

    def show(expr: object) -> str:
        return print_expr(expr, lambda c: f"base.{quote(c.name)}", parameters)  # type: ignore[arg-type]

    if query.table.unit_key is not None:
        items.append(f"base.{UNIT} AS {UNIT}")
    items += [f"{show(value)} AS {name}" for name, value in values.items()]
    for i, (key, join) in enumerate(zip(query.keys, joins, strict=True)):
        of_key = show(key.expr)
        shown, condition = (of_key, _exists(key, of_key, parameters)) if join is None else join.key(of_key)
        body += "" if join is None else join.relation(of_key)
        items.append(f"{shown} AS k{i}")
        conditions.append(condition)
    for i, measure in enumerate(measures):
        if measure.filter is not None:
            items.append(f"{show(measure.filter)} AS f{i}")
        if measure.argument is not None:
            items.append(f"{_grid_value(measure, show(measure.argument))} AS v{i}")
    if query.where is not None:
        conditions.append(show(query.where))
    where = f" WHERE {' AND '.join(c for c in conditions if c)}" if any(conditions) else ""
    return f"(SELECT {', '.join(items) or '1 AS one'} FROM {body}{where}) AS prepared"


def _exists(key: Key, value: str, parameters: Parameters) -> str:
    """Rows that have the key: for open keys, and for domains that follow from the expression's bounds.

    Bounds say nothing of NaN (an infinity less an infinity), and what falls outside a domain must not cross: the
    number of rows would depend on the data.
    """
    if key.expr.kind is not Kind.NUMBER:
        return f"({value}) IS NOT NULL"
    values = [float(v) for v in key.domain or (-OPEN_RANGE, OPEN_RANGE) if v is not None]  # type: ignore[arg-type]
    low, high = (print_literal(f(values), Kind.NUMBER, parameters) for f in (min, max))
    return f"({value}) BETWEEN {low} AND {high}"


def _grid_value(measure: Measure, value: str) -> str:
    """A row's argument as its measure wants it, before the clamp: a DOUBLE, NULL where the argument is.

    Cells, centred: its place between the bounds, 0 to 1. Sum: on the grid. Bins: number of the bin. Values: itself.
    """
    if measure.kind == "sum":
        return f"system.main.floor(({value}) * {number(measure.steps)} + 0.5e0)"
    if measure.kind == "values" or (measure.degree == 0 and measure.kind == "cells"):
        return value
    if measure.kind == "bins":
        width = (measure.upper - measure.lower) / measure.cells
        return f"system.main.floor((({value}) - {number(measure.lower)}) / {number(width)})"
    width = measure.upper - measure.lower
    return f"(({value}) - {number(measure.lower)}) / {number(width)}"


def _row_terms(i: int, measure: Measure) -> list[str]:
    """Integers of one row for all cells but the last, clamped; 0 (of a sum: NULL) where the argument is NULL.

    Of a centred sum those of the argument's place: the rows are taken off where they are counted.
    """
    if measure.kind == "sum":
        low, high = sum_range(measure)
        return [_clamp(f"v{i}", low, high)]
    steps = 2**measure.bits
    u = f"system.main.least(system.main.greatest(v{i}, 0e0), 1e0)"  # of NaN: 1; of NULL: 0
    if measure.degree == 1:
        return [_rounded(f"{u} * {number(steps)}")]
    if measure.degree == 2:
        square = _rounded(f"{u} * {u} * {number(steps)}")
        middle = _rounded(f"2e0 * {u} * (1e0 - {u}) * {number(steps)}")
        return [square, f"system.main.least({middle}, {steps} - {square})"]
    return []


def _rounded(value: str) -> str:
    """The nearest integer of a DOUBLE that lies in [0, 2**40]."""
    return f"CAST(system.main.floor({value} + 0.5e0) AS BIGINT)"


def _clamp(value: str, low: int, high: int) -> str:
    """An integer in [low, high] for every DOUBLE, NaN (high) and infinities included; NULL stays NULL.

    The ends are doubles' own values (``sum_range``), so nothing is rounded where DuckDB makes the branches one type.
    """
    ends = f"WHEN {value} >= {high} THEN {high} WHEN {value} <= {low} THEN {low}"
    return f"CAST(CASE {ends} ELSE {value} END AS BIGINT)"


def _totals(i: int, measure: Measure) -> tuple[str, str, list[str]]:
    """Aggregates of a measure over rows: all rows, rows with an argument, sums of the row terms."""
    where = f" FILTER (WHERE f{i})" if measure.filter is not None else ""
    rows = f"system.main.count(){where}"
    present = rows if measure.argument is None else f"system.main.count(v{i}){where}"
    if measure.kind == "bins":
        also = f" AND f{i}" if measure.filter is not None else ""
        return rows, present, [f"system.main.count() FILTER (WHERE {b}{also})" for b in _in_bins(i, measure.cells)]
    sums = [f"system.main.sum({t}){where}" for t in _row_terms(i, measure)]
    return rows, present, sums


def _in_bins(i: int, count: int) -> list[str]:
    """Conditions of which one holds for each DOUBLE, NaN (above all) and infinities included, and none for NULL."""
    if count == 1:
        return [f"v{i} IS NOT NULL"]
    inner = [f"v{i} = {number(j)}" for j in range(1, count - 1)]
    return [f"v{i} < 1e0", *inner, f"v{i} >= {number(count - 1)}"]


def _row_sums(i: int, measure: Measure) -> list[str]:
    """Sums of a measure when the unit is the row: of the row terms, then rows with an argument, then all rows."""
    rows, present, sums = _totals(i, measure)
    if measure.kind == "sum":
        return sums
    if measure.kind == "bins":
        return [f"({s} * {2**measure.bits})" for s in sums]
    if measure.kind == "values":
        return [f"system.main.count(DISTINCT v{i}){' FILTER (WHERE f' + str(i) + ')' if measure.filter else ''}"]
    if measure.kind == "centred":
        return [f"(2 * {sums[0]} - CAST({present} AS HUGEINT) * {2**measure.bits})"]
    return [*sums, present, *([rows] if measure.null_cell else [])]


def _units(plan: Plan, prepared: str, keys: list[str]) -> str:
    items = [UNIT, *keys]
    for i, measure in enumerate(plan.measures):
        if measure.kind == "values":
            continue
        rows, present, sums = _totals(i, measure)
        items += [f"{rows} AS r{i}"] if measure.null_cell or measure.kind == "units" else []
        items += [f"{present} AS n{i}"] if measure.kind in ("cells", "bins", "centred") else []
        items += [f"system.main.count() OVER (PARTITION BY {UNIT}) AS own"] if measure.kind == "weights" else []
        items += [f"COALESCE({s}, 0) AS s{i}_{j}" for j, s in enumerate(sums)]
    return f"(SELECT {', '.join(items)} FROM {prepared} GROUP BY {', '.join([UNIT, *keys])}) AS units"


def _bounded(plan: Plan, units: str, names: list[str]) -> str:
    items = list(names)
    for i, measure in enumerate(plan.measures):
        items += [f"{c} AS c{i}_{j}" for j, c in enumerate(_unit_cells(i, measure, plan.query.table.max_rows))]
    return f"(SELECT {', '.join(items)} FROM {units}) AS bounded"


def _unit_cells(i: int, measure: Measure, most: int) -> list[str]:
    """A unit's cells, scaled to ``most`` rows: a point of most * steps times the simplex (or the sum's range).

    In place of the cell that is the rest (after the ``degree`` first) stands the unit's weight in rows: the rest of all
    units together is taken from their weights together (:func:`read_cells`).
    """
    if measure.kind == "units":
        return [f"(CASE WHEN r{i} > 0 THEN 1 ELSE 0 END)"]
    if measure.kind == "weights":
        *fewer, (_, least) = measure.levels
        branches = " ".join(f"WHEN own <= {groups} THEN {weight}" for groups, weight in fewer)
        return [f"(CASE {branches} ELSE {least} END)"]
    if measure.kind == "values":
        return ["0"]  # distinct_values.py has them
    if measure.kind == "bins":
        rows, steps = f"CAST({2**measure.bits} AS HUGEINT)", f"{most} // system.main.greatest(n{i}, {most})"
        return [f"CAST(s{i}_{j} * {rows} * {steps} AS BIGINT)" for j in range(measure.cells)]
    if measure.kind == "sum":
        low, high = sum_range(measure)
        low, high = most * min(low, 0), most * max(high, 0)
        return [f"CAST(CASE WHEN s{i}_0 > {high} THEN {high} WHEN s{i}_0 < {low} THEN {low} ELSE s{i}_0 END AS BIGINT)"]
    rows = f"r{i}" if measure.null_cell else f"n{i}"
    share = f"{most} // system.main.greatest({rows}, 1)"  # of a unit with more rows than count
    cells = [
        f"CAST(CASE WHEN {rows} > {most} THEN s{i}_{j} * {share} ELSE s{i}_{j} END AS BIGINT)"
        for j in range(measure.degree)
    ]
    if measure.kind == "centred":
        weight = f"CAST(system.main.least({rows}, {most}) AS HUGEINT)"
        return [f"CAST(2 * {cells[0]} - {weight} * {2**measure.bits} AS BIGINT)"]
    cells.append(f"system.main.least({rows}, {most})")
    if measure.null_cell:
        steps, nulls = 2**measure.bits, f"(r{i} - n{i})"
        cells.append(
            f"(CASE WHEN {rows} > {most} THEN CAST({nulls} * CAST({steps} AS HUGEINT) * {share} AS BIGINT) "
            f"ELSE system.main.least({nulls}, {most}) * {steps} END)"
        )
    return cells


def _kept(plan: Plan, units: str, keys: list[str], salt: int) -> str:
    size = plan.domain_size
    if not keys or (size is not None and size <= plan.groups):
        return _bounded(plan, units, keys)
    return print_kept(_bounded(plan, units, [UNIT, *keys]), keys, salt, plan.groups)

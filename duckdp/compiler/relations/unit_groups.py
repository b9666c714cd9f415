"""GROUP BY the privacy unit, alone or with keys: one row for each unit (and key) that has rows, of aggregates of them.

Unit-local: a row is a function of one unit's rows. So that it stays one in DuckDB,

    sums        are sums of whole numbers on a public grid, one division at the end: those of DOUBLEs depend on the
                order in which rows are met, and so on others' rows; of one value (of equal ones: an average) the
                value itself, as it is compared with what it was made of
    keys        are compared as clean values without a sign of 0, so the row that a group shows depends on no order
    counts, extremes, medians   are the same in every order

Facts, each enforced by a printed clamp (relations/derived.py), C the most rows of a unit that count::

    count           in [0, C], of all rows [1, C]: a unit without rows has no row; C stands for "C or more"
    count DISTINCT  in [0, C], and no more than the domain has values
    sum             in C times the hull of 0 and the argument's interval
    avg, median, min, max   in the argument's interval; NULL where there is no value

C is what a unit has at most in the relation below, where that is little, or else its max_rows, which bounds no row
here: the clamp does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler.bound_values import Parameters
from duckdp.compiler.domains import Domains
from duckdp.compiler.expression import ColumnRef, Expr, columns, show
from duckdp.compiler.facts import facts
from duckdp.compiler.notation import pretty
from duckdp.compiler.number_types import MAX_DIGITS, SHORT_DIGITS
from duckdp.compiler.operators import Facts
from duckdp.compiler.printing import UNIT, number, print_expr, print_rows, quote
from duckdp.compiler.relations.derived import column_name, column_of, derive, print_derived, type_name
from duckdp.compiler.relations.narrowed import most_left
from duckdp.compiler.relations.relation import Node, Relation, describe_below, pruned, rows_of_unit
from duckdp.compiler.types import type_of
from duckdp.core import interval as iv
from duckdp.core.interval import Interval

GRID = 2**51  # of a row's value in a sum: whole as a DOUBLE, and 2**64 rows of it are no overflow
MAX_BITS = 40  # fractional bits of a grid
MOST_TOLD = 64  # rows of a unit that a relation may have and all count; of one that may have more max_rows do
COUNTS = ("count_rows", "count", "count_distinct")
SUMS = ("sum", "avg")


@dataclass(frozen=True, kw_only=True)
class Taken:
    """One aggregate of a unit's rows.

    Attributes:
        function: one of COUNTS, SUMS, or min, max, median, bool_and, bool_or.
        argument: of which, or None: of rows.
        filter: FILTER condition, or None.
        most: of a count: the value that stands for itself and all above.
    """

    function: str
    argument: Expr | None = None
    filter: Expr | None = None
    most: int | None = None

    @property
    def text(self) -> str:
        """Canonical: the same for equal aggregates, and for no others."""
        inner = {"count_rows": "*"}.get(self.function, show(self.argument))
        called = {"count_rows": "count", "count_distinct": "count distinct"}.get(self.function, self.function)
        where = f" where {show(self.filter)}" if self.filter is not None else ""
        most = f" up to {self.most}" if self.most is not None else ""
        return f"{called}({inner}){where}{most}"


@dataclass(frozen=True, kw_only=True)
class UnitGroups(Node):
    """One row for each unit and key.

    Attributes:
        table: whose rows are grouped.
        where: which of them.
        keys: besides the unit: (column of the result, expression below).
        taken: aggregates: (column of the result, which).
        nameless: keys that the unit follows from; ``where`` leaves out rows in which all of them are NULL.
    """

    table: Table
    where: Expr | None
    keys: tuple[tuple[Column, Expr], ...]
    taken: tuple[tuple[Column, Taken], ...]
    nameless: tuple[Expr, ...] = ()

    @property
    def inputs(self) -> tuple[Table, ...]:
        """The one table whose rows are grouped."""
        return (self.table,)

    def identity(self) -> dict[str, Any]:
        """By canonical texts; what is known of the columns follows from them."""
        return {
            "unit groups": self.table._declared,
            "where": show(self.where),
            "keys": [show(e) for _, e in self.keys],
            "taken": [t.text for _, t in self.taken],
        }

    def pruned(self, names: set[str]) -> UnitGroups:
        """The same without aggregates that nobody needs; keys stay, as they make the rows."""
        taken = tuple((c, t) for c, t in self.taken if c.name in names)
        read = [self.where, *(e for _, e in self.keys), *(e for _, t in taken for e in (t.argument, t.filter))]
        return replace(self, taken=taken, table=pruned(self.table, read))

    def print(self, columns: tuple[Column, ...], parameters: Parameters) -> str:
        """The layers: rows with keys and arguments, groups, clamps."""
        wanted = {c.name for c in columns}
        taken = [(c, t) for c, t in self.taken if c.name in wanted]
        rows = self._rows([t for _, t in taken], parameters)
        keys = [f"k{i}" for i in range(len(self.keys))]
        grouped = ", ".join([UNIT, *keys, *(f"{print_aggregate(i, t)} AS a{i}" for i, (_, t) in enumerate(taken))])
        items = [f"g.{UNIT} AS {UNIT}"]
        items += [f"g.k{i} AS {quote(c.name)}" for i, (c, _) in enumerate(self.keys) if c.name in wanted]
        items += [f"{print_derived(c, f'g.a{i}', parameters)} AS {quote(c.name)}" for i, (c, _) in enumerate(taken)]
        return (
            f"(SELECT {', '.join(items)} FROM (SELECT {grouped} FROM {rows} GROUP BY {', '.join([UNIT, *keys])}) AS g)"
        )

    def _rows(self, taken: Sequence[Taken], parameters: Parameters) -> str:
        read = columns(self.where, *(e for _, e in self.keys), *(e for t in taken for e in (t.argument, t.filter)))
        rows = print_rows(self.table, read, parameters, unit=True)

        def show_sql(expr: Expr) -> str:
            return print_expr(expr, lambda c: f"base.{quote(c.name)}", parameters)

        items = [f"base.{UNIT} AS {UNIT}"]
        items += [f"{print_derived(c, show_sql(e), parameters)} AS k{i}" for i, (c, e) in enumerate(self.keys)]
        for i, one in enumerate(taken):
            items += [] if one.argument is None else print_values(i, one, show_sql(one.argument))
            items += [] if one.filter is None else [f"{show_sql(one.filter)} AS f{i}"]
        where = "" if self.where is None else f" WHERE {show_sql(self.where)}"
        return f"(SELECT {', '.join(items)} FROM {rows} AS base{where}) AS rows_of"

    def describe(self) -> list[str]:
        """What a row is, what it has, and what is below."""
        by = "".join(f", {pretty(e)}" for _, e in self.keys)
        what = [f"with {', '.join(map(pretty_taken, (t for _, t in self.taken)))}"] if self.taken else []
        return [f"one row per {self.table.unit_key}{by}", *what, *describe_below(self.table, self.where)]

    def notes(self) -> list[str]:
        """Where a count or sum stands for more than itself."""
        found = self.table.node.notes() if isinstance(self.table, Relation) else []
        if self.nameless:
            names, unit = " and ".join(pretty(e) for e in self.nameless), self.table.unit_key
            found.append(f"rows whose {names} is NULL are in no group: they may be of more than one {unit}")
        if self.table.most_rows <= most_of(self.table):  # no unit has more
            return found
        unit = self.table.unit_key
        for column, one in self.taken:
            if one.function in ("count_rows", "count"):
                top = f"{column.upper:g}"
                found.append(f"{pretty_taken(one)} of one {unit} is at most {top}, which stands for {top} or more")
            elif one.function == "sum":
                span = f"[{column.lower:g}, {column.upper:g}]"
                found.append(f"{pretty_taken(one)} of one {unit} is clamped to {span}, max_rows times its bounds")
        return found


def group_by_unit(
    table: Table,
    where: Expr | None,
    keys: Mapping[Expr, Column],
    taken: Mapping[Taken, Column],
    *,
    nameless: tuple[Expr, ...] = (),
) -> Relation:
    """The relation of GROUP BY unit and keys.

    Args:
        table: with a unit_key.
        where: which rows.
        keys: expressions over its columns, with their columns of the result (:func:`key_column`).
        taken: aggregates, with theirs (:func:`aggregate_column`).
        nameless: keys without which no row is in a group, as ``where`` says.
    """
    made = tuple((column, e) for e, column in keys.items())
    aggregates = tuple((column, one) for one, column in taken.items())
    sizes = [_size(c) for c, _ in made]
    groups = None if any(s is None for s in sizes) else math.prod(s for s in sizes if s is not None)
    below = (groups, rows_of_unit(table), most_left(table, where))
    rows = min((n for n in below if n is not None), default=None)
    most = table.max_groups if rows is None else min(rows, table.max_groups)
    return Relation(
        name=table.name,
        relation=table.relation,
        columns=tuple(c for c, _ in (*made, *aggregates)),
        row_cap=table.units_cap * most if isinstance(table, Relation) else table.row_cap,
        unit_key=table.unit_key,
        unit_type=table.unit_type,
        max_rows=most,
        max_groups=most,
        unit=table.unit,
        null_units=table.null_units,
        node=UnitGroups(table=table, where=where, keys=made, taken=aggregates, nameless=nameless),
        rows=rows,
        apart=tuple(c.name for c, _ in made),
        units=table.units_cap,
    )


def most_of(table: Table) -> int:
    """The most rows of a unit that an aggregate over a relation tells apart."""
    found = rows_of_unit(table)
    return table.max_rows if found is None or found > MOST_TOLD else found


def key_column(expr: Expr, domains: Domains) -> Column:
    """The column of a key."""
    return derive(column_name(show(expr)), expr, domains)


def _size(column: Column) -> int | None:
    """How many values a key can have in a row, NULL among them; None: not known.

    A declared domain is none of the rows': others are left out at the end.
    """
    if column.kind is Kind.BOOLEAN:
        return 2 + column.nullable
    if column.kind is Kind.NUMBER and column.integral and column.lower is not None:
        return int(column.upper - column.lower) + 1 + column.nullable  # type: ignore[operator,arg-type]
    return None


def aggregate_column(taken: Taken, table: Table) -> Column:
    """The column of an aggregate of a unit's rows of a table, with its facts."""
    most, argument = most_of(table) if taken.most is None else taken.most, taken.argument
    if taken.function in COUNTS:
        least = 1 if taken.function == "count_rows" and taken.filter is None else 0
        if taken.function == "count_distinct" and argument is not None:
            most = _distinct(argument, most)
        known = Facts(Interval(float(least), float(max(most, least))), True, False)
        return column_of(column_name(taken.text), Kind.NUMBER, "BIGINT", known, nullable=False)
    assert argument is not None
    known = facts(argument)
    nullable = known.nullable or taken.filter is not None
    if taken.function == "sum":
        span = iv.hull(Interval(0.0, 0.0), known.interval)
        known = Facts(Interval(most * span.lower, most * span.upper), known.integral, nullable)
        return column_of(column_name(taken.text), Kind.NUMBER, _sum_type(argument), known, nullable=nullable)
    if taken.function in ("avg", "median"):
        known = Facts(known.interval, False, nullable)
        return column_of(column_name(taken.text), Kind.NUMBER, "DOUBLE", known, nullable=nullable)
    name = column_name(taken.text)
    if isinstance(argument, ColumnRef):
        return replace(argument.column, name=name, source=name, nullable=nullable)
    return column_of(name, argument.kind, type_name(argument), known, nullable=nullable)


def _distinct(argument: Expr, most: int) -> int:
    if argument.kind is Kind.BOOLEAN:
        return min(most, 2)
    known = facts(argument)
    if argument.kind is Kind.NUMBER and known.integral and known.interval.finite:
        return min(most, int(known.interval.upper - known.interval.lower) + 1)
    return most


def _sum_type(argument: Expr) -> str:
    found = type_of(argument)
    if found.name == "INTEGER":
        return "HUGEINT"
    return f"DECIMAL(38,{found.scale})" if found.name == "DECIMAL" else "DOUBLE"


def _steps(argument: Expr) -> float:
    """Grid steps of 1.0: of a DECIMAL its own, so that sums are DuckDB's; else a power of 2."""
    if _is_whole(argument):
        return 1.0 if facts(argument).integral else 10.0 ** type_of(argument).scale
    largest = max(facts(argument).interval.largest, 2.0**-900)
    return 2.0 ** min(MAX_BITS, 51 - math.ceil(math.log2(largest)))


def _is_whole(argument: Expr) -> bool:
    """Whether its values are whole numbers of a grid, all of them."""
    largest, found = facts(argument).interval.largest, type_of(argument)
    if facts(argument).integral and largest <= GRID:
        return True
    return found.name == "DECIMAL" and largest * 10**found.scale <= GRID


def print_values(i: int, taken: Taken, value: str) -> list[str]:
    """An argument of an aggregate as the aggregate wants it, ``v{i}``, by its SQL: of sums, on their grid.

    Where that grid rounds, ``x{i}`` is the value itself, for groups of one.
    """
    found = [f"{_value(taken, value)} AS v{i}"]
    return [*found, f"({value} + 0e0) AS x{i}"] if _rounds(taken) else found


def _rounds(taken: Taken) -> bool:
    """Whether the grid of a sum does not hold every value of its argument."""
    return taken.function in SUMS and taken.argument is not None and not _is_whole(taken.argument)


def _value(taken: Taken, value: str) -> str:
    assert taken.argument is not None
    if taken.argument.kind is not Kind.NUMBER or taken.function == "count":
        return value
    if taken.function not in SUMS:
        of = _median_type(taken)
        return f"({value} + 0e0)" if of is None else f"TRY_CAST({value} AS {of})"
    steps, span = _steps(taken.argument), facts(taken.argument).interval
    low, high = math.floor(span.lower * steps), math.ceil(span.upper * steps)
    on_grid = f"system.main.floor({value} * {number(steps)} + 0.5e0)"
    ends = f"WHEN {on_grid} >= {high} THEN {high} WHEN {on_grid} <= {low} THEN {low}"
    return f"CAST(CASE {ends} ELSE {on_grid} END AS BIGINT)"


def pretty_taken(taken: Taken) -> str:
    """An aggregate as SQL has it, for explain and notes."""
    called = {"count_rows": "count", "count_distinct": "count"}.get(taken.function, taken.function)
    distinct = "DISTINCT " if taken.function == "count_distinct" else ""
    inner = "*" if taken.argument is None else f"{distinct}{pretty(taken.argument)}"
    return f"{called}({inner})" + (f" where {pretty(taken.filter)}" if taken.filter is not None else "")


def _median_type(taken: Taken) -> str | None:
    """The type that DuckDB rounds a median of DECIMALs in; the cast holds every value within the bounds.

    Of DECIMALs in at most 64 bits the half between two is rounded toward 0, of wider ones down.
    """
    assert taken.argument is not None
    of, largest = type_of(taken.argument), facts(taken.argument).interval.largest
    if taken.function != "median" or of.name != "DECIMAL" or not largest <= 10.0 ** (30 - of.scale):
        return None
    short = of.digits + of.scale <= SHORT_DIGITS and largest < 10.0 ** (SHORT_DIGITS - of.scale)
    return f"DECIMAL({SHORT_DIGITS if short else MAX_DIGITS},{of.scale})"


def print_aggregate(i: int, taken: Taken, over: str = "") -> str:
    """The aggregate of ``v{i}`` over rows where ``f{i}``, before the clamp; numbers as DOUBLE.

    Args:
        i: number of the aggregate.
        taken: which.
        over: " OVER (...)" of a window; else rows are those of a group.
    """
    of = f" FILTER (WHERE f{i}){over}" if taken.filter is not None else over
    if taken.function in COUNTS:
        inner = {"count_rows": "", "count": f"v{i}", "count_distinct": f"DISTINCT v{i}"}[taken.function]
        return f"CAST(system.main.count({inner}){of} AS DOUBLE)"
    if taken.function == "median":
        return f"CAST(system.main.median(v{i}){of} AS DOUBLE)"
    if taken.function not in SUMS:
        return f"system.main.{taken.function}(v{i}){of}"
    assert taken.argument is not None
    total = f"CAST(system.main.sum(v{i}){of} AS DOUBLE)"
    rows = f"CAST(system.main.count(v{i}){of} AS DOUBLE) * " if taken.function == "avg" else ""
    rounded = f"({total} / ({rows}{number(_steps(taken.argument))}))"
    if not _rounds(taken):
        return rounded
    one = f"system.main.min(x{i}){of}"
    alone = f"{one} = system.main.max(x{i}){of}" if taken.function == "avg" else f"system.main.count(v{i}){of} = 1"
    return f"(CASE WHEN {alone} THEN {one} ELSE {rounded} END)"

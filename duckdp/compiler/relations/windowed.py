"""Windows over the rows of each unit: columns that a row gets from the unit's other rows.

Unit-local: every window is partitioned by the unit, so what a row gets is a function of its own unit's rows. So that it
stays one in DuckDB,

    place       the rows of a unit are numbered first, by all columns that are read of them: rows that are equal in all
                of these are exchangeable, so the numbered rows, as a multiset, depend on no order on the disk
    order       what depends on the order of rows (row_number, ntile, lag, lead, first_value, last_value, nth_value,
                frames of ROWS) is ordered by the analyst's terms and then by the place: a total order, and the same
                for all windows. With an order of its own for each, rows that are equal could be first in one window
                and last in another, or first in both, by how they lie
    found       IGNORE NULLS, and first_value and last_value of frames that follow from values, are the value of the
                first or last row of the frame that has one, by the rows' numbers in the total order (window_calls.py)
    sums        are sums of whole numbers on a public grid, as in relations/unit_groups.py
    peers       rank, dense_rank, percent_rank, cume_dist, and aggregates of all rows, of those up to the row's peers,
                or of a frame of RANGE or GROUPS, need no more order than was written: which rows are in such a frame
                follows from their values alone, and rows that are equal are in it together

Facts, each enforced by a printed clamp, F the most rows of a unit, C those that an aggregate tells apart::

    row_number, rank, dense_rank   whole, in [1, F]; where F is not known in [1, row_cap]
    ntile(k)                       whole, in [1, k]
    percent_rank, cume_dist        in [0, 1]
    lag, lead, nth_value           the argument's, or NULL; the hull with a default value
    first_value, last_value        the argument's
    count, sum, avg, min, max, ... as those of a unit's rows; of a frame that may be empty NULL, or a count of 0

No row is made or left out: bounds of a unit's rows stay what they are. No two rows of a unit have the same row_number
and partition, which bounds the rows that a condition on it leaves (relations/narrowed.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from duckdp.catalog.table import Column, Kind
from duckdp.compiler.bound_values import Parameters
from duckdp.compiler.domains import Domains
from duckdp.compiler.expression import Case, ColumnRef, Expr, columns
from duckdp.compiler.notation import pretty
from duckdp.compiler.operators import Facts
from duckdp.compiler.printing import UNIT, print_expr, quote
from duckdp.compiler.relations.derived import column_name, column_of, derive, nullable, print_derived
from duckdp.compiler.relations.joined import Part
from duckdp.compiler.relations.relation import Node, Relation, describe_below
from duckdp.compiler.relations.unit_groups import (
    COUNTS,
    MOST_TOLD,
    aggregate_column,
    most_of,
    pretty_taken,
    print_values,
)
from duckdp.compiler.relations.window_calls import NUMBERS, SHARES, Frame, Window, found_values, print_call
from duckdp.compiler.scope import TRUE
from duckdp.core.interval import Interval

MOST_WINDOWS = 16  # of one SELECT: each sorts the rows


@dataclass(frozen=True, kw_only=True)
class Windowed(Node):
    """The rows of a table or relation with columns of windows.

    Attributes:
        part: the rows, and their columns.
        windows: (column of the result, which).
    """

    part: Part
    windows: tuple[tuple[Column, Window], ...]

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The one table whose rows get columns."""
        return (self.part.table,)

    def identity(self) -> dict[str, Any]:
        """By its rows and its windows; what is known of the columns follows from them."""
        return {"windows": [[c.name, w.text] for c, w in self.windows], "rows": self.part.identity()}

    def pruned(self, names: set[str]) -> Windowed:
        """The same without columns and windows that nobody needs."""
        windows = tuple((c, w) for c, w in self.windows if c.name in names)
        needed = names | {c.name for _, w in windows for c in columns(*w.read)}
        return replace(self, part=self.part.pruned(needed), windows=windows)

    def print(self, columns_: tuple[Column, ...], parameters: Parameters) -> str:
        """The layers: rows with places and arguments, windows, clamps."""
        wanted = {c.name for c in columns_}
        windows = [(c, w) for c, w in self.windows if c.name in wanted]
        needed = wanted | {c.name for _, w in windows for c in columns(*w.read)}
        own = [c.name for c, _ in self.part.items if c.name in needed]
        places = {name: f"c{i}" for i, name in enumerate(own)}

        def shown(of: Callable[[str], str]) -> Callable[[Expr], str]:
            return lambda e: print_expr(e, lambda c: of(c.name), parameters)

        below, above = shown(lambda name: f"p.{quote(name)}"), shown(lambda name: f"w.{places[name]}")
        order = ", ".join([f"p.{UNIT}", *(f"p.{quote(name)}" for name in sorted(own))])
        rows = [f"p.{UNIT} AS {UNIT}", *(f"p.{quote(name)} AS {place}" for name, place in places.items())]
        if any(w.is_placed for _, w in windows):
            rows.append(f"system.main.row_number() OVER (PARTITION BY p.{UNIT} ORDER BY {order}) AS place")
        for i, (_, window) in enumerate(windows):
            taken = window.taken
            if taken is not None and taken.argument is not None:
                rows += print_values(i, taken, below(taken.argument))
            if taken is not None and taken.filter is not None:
                rows.append(f"{below(taken.filter)} AS f{i}")
        placed = f"(SELECT {', '.join(rows)} FROM {self.part.print(needed, parameters)} AS p) AS w"
        if more := [item for i, (_, w) in enumerate(windows) if w.is_found for item in found_values(i, w, above)]:
            placed = f"(SELECT w.*, {', '.join(more)} FROM {placed}) AS w"
        kept = [f"w.{UNIT} AS {UNIT}", *(f"w.{places[n]} AS {places[n]}" for n in own if n in wanted)]
        kept += [f"{print_call(i, window, above)} AS r{i}" for i, (_, window) in enumerate(windows)]
        found = f"(SELECT {', '.join(kept)} FROM {placed}) AS g"
        items = [f"g.{UNIT} AS {UNIT}", *(f"g.{places[n]} AS {quote(n)}" for n in own if n in wanted)]
        items += [f"{print_derived(c, f'g.r{i}', parameters)} AS {quote(c.name)}" for i, (c, _) in enumerate(windows)]
        return f"(SELECT {', '.join(items)} FROM {found})"

    def describe(self) -> list[str]:
        """The windows, and the rows below."""
        unit = self.part.table.unit_key
        found = [f"with {_pretty(w)} over the rows of each {unit}{_by(w)}" for _, w in self.windows]
        return ["rows", *found, *describe_below(self.part.table, self.part.where)]

    def notes(self) -> list[str]:
        """What the rows tell, and where a count or sum stands for more than itself."""
        table = self.part.table
        found = table.node.notes() if isinstance(table, Relation) else []
        if table.most_rows <= most_of(table):
            return found
        for column, window in self.windows:
            if window.taken is None or window.taken.most is not None:
                continue
            if window.taken.function in (*COUNTS, "sum"):
                span = f"[{column.lower:g}, {column.upper:g}]"
                found.append(f"{_pretty(window)} over rows of one {table.unit_key} is clamped to {span}")
        return list(dict.fromkeys(found))


def windowed(part: Part, windows: Sequence[tuple[Column, Window]]) -> Relation:
    """The relation of rows with windows.

    Args:
        part: the rows, of a table with a unit_key.
        windows: with their columns (:func:`window_column`).
    """
    table = part.table
    rows = part.rows
    numbered = sorted((w for w in windows if w[1].function == "row_number"), key=lambda w: len(w[1].partition))
    apart = next((a for c, w in numbered if (a := _apart(c, w)) is not None), part.apart)
    return Relation(
        name=table.name,
        relation=table.relation,
        columns=(*(c for c, _ in part.items), *(c for c, _ in windows)),
        row_cap=table.row_cap,
        unit_key=table.unit_key,
        unit_type=table.unit_type,
        max_rows=table.max_rows if rows is None else min(table.max_rows, rows),
        max_groups=table.max_groups if rows is None else min(table.max_groups, rows),
        unit=table.unit,
        null_units=table.null_units,
        node=Windowed(part=part, windows=tuple(windows)),
        rows=rows,
        apart=apart,
        units=table.units_cap,
        once=tuple(sorted(part.once)),
        told_once=tuple(sorted(part.told_once)),
    )


def window_column(window: Window, part: Part, domains: Domains) -> Column:
    """The column of a window, with what is known of its values.

    Args:
        window: over the part's columns.
        part: the rows.
        domains: finds the values of arguments.
    """
    name, table = column_name(window.text), part.table
    if window.taken is not None:
        column = replace(aggregate_column(window.taken, table), name=name, source=name)
        if not window.may_be_empty:
            return column
        return replace(column, lower=0.0) if window.taken.function in COUNTS else replace(column, nullable=True)
    if window.function in NUMBERS:
        most = part.rows if part.rows is not None else max(table.row_cap, *(b.row_cap for b in table.bases))
        known = Facts(Interval(1.0, float(max(most, 1))), True, False)
        return column_of(name, Kind.NUMBER, "BIGINT", known, nullable=False)
    if window.function == "ntile":
        known = Facts(Interval(1.0, float(window.number or 1)), True, False)
        return column_of(name, Kind.NUMBER, "BIGINT", known, nullable=False)
    if window.function in SHARES:
        return column_of(name, Kind.NUMBER, "DOUBLE", Facts(Interval(0.0, 1.0), False, False), nullable=False)
    argument = window.argument
    assert argument is not None
    if window.function in ("first_value", "last_value") and not window.may_be_empty:
        return derive(name, argument, domains)
    if window.default is None:
        return nullable(derive(name, argument, domains))
    return derive(name, Case(((TRUE, argument),), window.default, argument.kind), domains)


def rows_between(start: int | None, end: int | None) -> int | None:
    """How many rows a frame holds at most; None: as many as there are."""
    return None if start is None or end is None else max(0, end - start + 1)


def few_rows(frame: Frame | None) -> int | None:
    """The most rows of a frame, where an aggregate can tell as many apart; None: those of a unit."""
    most = None if frame is None else rows_between(*frame)
    return None if most is None or most > MOST_TOLD else max(1, most)


def _apart(column: Column, window: Window) -> tuple[str, ...] | None:
    """Columns that no two rows of a unit have in common: the number, and by what the rows are parted."""
    names = [e.column.name for e in window.partition if isinstance(e, ColumnRef)]
    return (column.name, *names) if len(names) == len(window.partition) else None


def _pretty(window: Window) -> str:
    if window.taken is not None:
        return pretty_taken(window.taken)
    given = [pretty(e) for e in (window.argument,) if e is not None]
    given += [] if window.number is None else [str(window.number)]
    given += [] if window.default is None else [pretty(window.default)]
    return f"{window.function}({', '.join(given)})"


def _by(window: Window) -> str:
    by = "".join(f", {pretty(e)}" for e in window.partition)
    order = ", ".join(f"{pretty(e)}{' desc' if d else ''}" for e, d, _ in window.order)
    return by + (f" by {order}" if order else "")

"""Aggregates to measures: the integer vectors that are released, with their sensitivities.

Aggregates of the same argument and filter share one measure (mechanisms/simplex.py), and count(*) joins them, so a
statement's epsilon is split over as few releases as possible. So do those of arguments that differ by a constant
(compiler/shifts.py).

Sensitivities (u = rows of a unit that count per group, m = groups of a unit that count; unit = row: u = m = 1):

    cells      ADD_REMOVE  l1 = m u D, l2^2 = m (u D)^2     D = steps of one row
               REPLACE     l1 = 2 D, l2^2 = 2 D^2; with the count public: l1 = D (degree 1), 2 D (degree 2), l2 <= l1
    sum        ADD_REMOVE  l1 = m u Q, l2^2 = m (u Q)^2     Q = largest |value| in grid steps
               REPLACE     one group: span of {0} and the values (0 left out if every row counts)
                           groups: l1 = 2 Q, l2^2 = max(2 Q^2, span^2)
    units      1 per group: as cells with u D = 1
    weights    of a unit by its number of groups, with the norms of units: mechanisms/key_weights.py
    bins       as cells: a row is a corner of the simplex, D in one of the B cells
    values     ADD_REMOVE  l1 = m k, l2^2 = m k^2           REPLACE  as cells with D = 1
    centred    ADD_REMOVE  l1 = m u D, l2^2 = m (u D)^2     REPLACE  l1 = 2 D, l2^2 = 4 D^2

Proof sketch: a unit's contribution to a group lies in u times the row's range (it is scaled or clamped into it, also
when rows are NULL or filtered: 0 is in the range); it reaches at most m groups; l1 adds, l2^2 adds. REPLACE changes
one row: it leaves one group and enters another, so l1 and l2^2 of the two contributions add; or it stays in its
group, where cells change by the difference of two points of the simplex (l1 <= 2 D, l2^2 <= 2 D^2) and sums by span.

values: of each unit at most k different values count in a group, chosen by a keyed hash from its own, in at most m
groups (k = u, or how many values there are by declarations, if that is less: what is printed takes no more); the
released number is that of the union. Without a unit the union loses at most the k values that were its own alone, and
no other unit's choice moves: |A_1 + ... + A_n| - |A_2 + ... + A_n| <= |A_1| <= k. It is no sum over units.

centred: where one measure tells how many rows there are, the average of another argument that is never NULL needs no
count of its own. Of a row 2 u - 1 is added, u its place between the bounds, in D steps: a number in [-D, D]. A unit
with more than u rows is scaled as in cells, so it adds a number in u [-D, D]. A replaced row stays in its group and
goes from one end to the other, or leaves one group and enters another. At equal shares, in variances of one cell, the
average has 1/4 + v^2 / 2 (v the mean of 2 u - 1) against (1 + v^2) / 2 from two cells of its own: never more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from duckdp.catalog.table import Table
from duckdp.compiler.aggregates import aggregate_row
from duckdp.compiler.binned import bins_of
from duckdp.compiler.expression import Aggregate, Expr, show
from duckdp.compiler.facts import facts
from duckdp.compiler.listed_values import most_values
from duckdp.compiler.shifts import shift_between, unshifted
from duckdp.core.types import Neighbours, Sensitivity
from duckdp.errors import ParameterError

MAX_BITS = 40  # fractional bits of a measure's grid; finer ones are far below any noise
BIN_BITS = 16  # of bins: whole rows, but of units with more rows than count
MIN_BITS = 6  # fractional bits of cells, of which coarser ones are refused
RANGE_BITS = 61  # of a sum over row_cap rows, within the range of the noise
LEAST_BOUND = 1e-100  # of what is summed: 1 / LEAST_BOUND grid steps are far inside a float
_APART = ("bins", "values")  # kinds that serve no aggregate of another kind
UNIT_SENSITIVITY = Sensitivity(l1=1, l2_squared=1, linf=1)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One released integer vector per group.

    Attributes:
        kind: "cells" (Bernstein cells), "sum", "units" (distinct privacy units), "weights" (of units, for a threshold
            alone), "bins" (rows in equal parts of the argument's range), "values" (how many different ones) or
            "centred" (sum about the middle of the range, beside a measure that counts the rows).
        argument: number expression, or None for rows.
        filter: FILTER condition, or None.
        degree: of the cells; of bins one less than how many there are; of a centred sum 1.
        null_cell: a further cell counts rows whose argument is NULL.
        lower, upper: clamp of the argument; of values how many there may be, if that is known.
        bits: grid of 2**bits steps: per row (cells) or per unit of the argument (sum); may be negative.
        largest: Q for "sum", the largest weight, steps of one row otherwise.
        levels: of weights: (most groups of a unit, what it adds to each), as mechanisms/key_weights.py has them.
        fixed_total: the last cell is public minus the others (REPLACE with a public count).
        sensitivity: of the whole vector, grid units.
    """

    kind: Literal["cells", "sum", "units", "weights", "bins", "values", "centred"]
    argument: Expr | None = None
    filter: Expr | None = None
    degree: int = 0
    null_cell: bool = False
    lower: float = 0.0
    upper: float = 1.0
    bits: int = 0
    largest: int = 1
    levels: tuple[tuple[int, int], ...] = ()
    fixed_total: bool = False
    sensitivity: Sensitivity = UNIT_SENSITIVITY

    @property
    def cells(self) -> int:
        """How many numbers are released per group."""
        return self.degree + 1 + self.null_cell if self.kind in ("cells", "bins") else 1

    @property
    def noisy_cells(self) -> int:
        """Numbers per group that get noise; the others are public."""
        return self.cells - self.fixed_total

    @property
    def steps(self) -> float:
        """Grid steps of one row (cells) or of 1.0 (sum)."""
        return 2.0**self.bits

    def serves(self, aggregate: Aggregate) -> bool:
        """Whether an aggregate is a function of this measure."""
        if aggregate.filter != self.filter:
            return False
        row = aggregate_row(aggregate)
        if row.of == "units" or self.kind in ("units", "weights"):
            return row.of == self.kind
        if row.of == "rows":
            whole = self.argument is None or self.null_cell or not facts(self.argument).nullable
            return self.kind == "cells" and whole
        if self.kind in _APART or row.alone in _APART:
            return row.alone == self.kind and aggregate.argument == self.argument
        if aggregate.argument != self.argument:
            shifted = self.kind in ("cells", "centred") and self.shift(aggregate) is not None
            return shifted and self.degree >= row.degree
        return row.alone == "sum" if self.kind == "sum" else self.degree >= row.degree

    def shift(self, aggregate: Aggregate) -> float | None:
        """What is added to the measure's argument to give the aggregate's; None: it is of something else."""
        return shift_between(aggregate.argument, self.argument)

    def describe(self) -> str:
        """One line for ``explain`` and the ledger."""
        counted = f"[{self.degree}]" if self.kind in ("cells", "bins") else ""
        what = f"{self.kind}{counted}"
        span = (
            f" in [{self.lower:g}, {self.upper:g}]"
            if self.argument is not None and (self.degree or self.kind == "sum")
            else ""
        )
        of = "" if self.kind in ("units", "weights") else show(self.argument)
        text = f"{what}({of}{' + nulls' if self.null_cell else ''}){span}"
        return text + (f" where {show(self.filter)}" if self.filter is not None else "")


def choose_measures(
    aggregates: Iterable[Aggregate], *, presence: bool, unit_is_row: bool, public_rows: bool = False
) -> list[Measure]:
    """The fewest measures that serve all aggregates.

    Args:
        aggregates: of outputs, HAVING and ORDER BY.
        presence: keys pass a threshold, so the number of units per group is a measure of its own, the first.
        unit_is_row: the number of rows is the number of units.
        public_rows: the number of rows is public and exact (REPLACE over all rows), so count(*) joins no other.
    """
    wanted = sorted(dict.fromkeys(aggregates), key=show)  # equal questions, equal plans, however they are ordered
    chosen: list[Measure] = []
    if presence:
        chosen.append(Measure(kind="cells" if unit_is_row else "units"))
        wanted = [a for a in wanted if not chosen[0].serves(a)]
    rows = [a for a in wanted if aggregate_row(a).of == "rows"]
    if public_rows and any(a.filter is None for a in rows):
        chosen.append(Measure(kind="cells"))
    for a in wanted:
        if aggregate_row(a).of == "units" and not any(m.serves(a) for m in chosen):
            chosen.append(Measure(kind="units", filter=a.filter))
    for a in wanted:
        if aggregate_row(a).alone in _APART and not any(m.serves(a) for m in chosen):
            chosen.append(_apart(a))
    together = [a for a in wanted if a.argument is not None and aggregate_row(a).alone not in _APART]
    for group in _of_one_argument(together):
        chosen.append(_for_argument(group[0].argument, group[0].filter, group))
    for a in rows:
        if not any(m.serves(a) for m in chosen):
            _join_rows(chosen, a)
    return chosen if public_rows else _with_one_count(chosen)


def _of_one_argument(aggregates: Sequence[Aggregate]) -> list[list[Aggregate]]:
    """Aggregates that one measure serves: of the same argument, up to a constant, and the same rows."""
    found: dict[tuple[Expr, Expr | None], list[Aggregate]] = {}
    for a in aggregates:
        assert a.argument is not None
        found.setdefault((unshifted(a.argument)[0], a.filter), []).append(a)
    return list(found.values())


def counter_of(measures: Sequence[Measure], centred: Measure) -> Measure:
    """The measure that tells how many rows a centred sum is of."""
    return next(m for m in measures if _counts_rows(m) and m.filter == centred.filter)


def _counts_rows(measure: Measure) -> bool:
    """Whether its cells are those of rows without NULLs, one or two of them, so that ratios to it have exact sets."""
    whole = measure.argument is None or not (measure.null_cell or facts(measure.argument).nullable)
    return measure.kind == "cells" and measure.degree <= 1 and whole


def _with_one_count(chosen: list[Measure]) -> list[Measure]:
    """One measure counts the rows of all averages that are of the same rows; of the others the sums are released."""
    found: list[Measure] = []
    first = sorted(filter(_counts_rows, chosen), key=lambda m: m.degree)
    for measure in chosen:
        counter = next((m for m in first if m.filter == measure.filter), measure)
        own = not _counts_rows(measure) or measure.degree == 0 or measure is counter
        found.append(measure if own else replace(measure, kind="centred"))
    return found


def bound_measure(
    measure: Measure,
    table: Table,
    neighbours: Neighbours,
    *,
    groups: int,
    grouped: bool,
    everyone: bool,
    epsilon: float,
) -> Measure:
    """Set the grid and the sensitivity of a measure.

    Args:
        measure: as chosen.
        table: for max_rows and row_cap.
        neighbours: the relation; REPLACE only with unit = row.
        groups: groups of a unit that count.
        grouped: whether there are keys.
        everyone: no WHERE and no key: every row is in the one group.
        epsilon: the measure's share, for the range proof only.

    Raises:
        ParameterError: P107, row_cap and epsilon leave no room for a grid.
    """
    rows = 1 if table.unit_key is None or measure.kind == "units" else rows_that_count(measure, table)
    replacing = neighbours is Neighbours.REPLACE
    measure = _set_grid(measure, table.row_cap, rows * groups * (2 if replacing else 1), epsilon)
    nullable = measure.argument is not None and facts(measure.argument).nullable
    whole = everyone and measure.filter is None and not nullable
    if not replacing:
        unit = rows * measure.largest
        return replace(measure, sensitivity=Sensitivity(l1=groups * unit, l2_squared=groups * unit**2, linf=unit))
    if measure.kind == "sum":
        return replace(measure, sensitivity=_replaced_sum(measure, grouped=grouped, whole=whole))
    if whole and measure.kind == "cells":
        l1 = measure.largest * min(measure.degree, 2)
        return replace(
            measure, fixed_total=True, sensitivity=Sensitivity(l1=l1, l2_squared=l1**2, linf=measure.largest)
        )
    d = measure.largest
    if measure.kind == "centred":
        return replace(measure, sensitivity=Sensitivity(l1=2 * d, l2_squared=4 * d * d, linf=2 * d))
    return replace(measure, sensitivity=Sensitivity(l1=2 * d, l2_squared=2 * d * d, linf=d))


def rows_that_count(measure: Measure, table: Table) -> int:
    """How many rows of a unit count in a group: max_rows; of different values no more than there are."""
    return int(min(table.max_rows, max(measure.upper, 1))) if measure.kind == "values" else table.max_rows


def sum_range(measure: Measure) -> tuple[int, int]:
    """Least and largest value of a row in grid steps (kind "sum"): whole, and each the value of a double."""
    return math.floor(measure.lower * measure.steps), math.ceil(measure.upper * measure.steps)


def _apart(aggregate: Aggregate) -> Measure:
    """The measure of an aggregate that shares its own with none of another kind."""
    assert aggregate.argument is not None
    if aggregate_row(aggregate).alone == "values":
        most = most_values(aggregate.argument)
        span = (-math.inf, math.inf) if most is None else (0.0, float(most))
        return Measure(
            kind="values", argument=aggregate.argument, filter=aggregate.filter, lower=span[0], upper=span[1]
        )
    known = facts(aggregate.argument)
    count, lower, upper = bins_of(known.interval.lower, known.interval.upper, whole=known.integral)
    return Measure(
        kind="bins", argument=aggregate.argument, filter=aggregate.filter, degree=count - 1, lower=lower, upper=upper
    )


def _for_argument(argument: Expr | None, condition: Expr | None, group: list[Aggregate]) -> Measure:
    assert argument is not None
    rows = [aggregate_row(a) for a in group]
    alone = all(a.argument == argument for a in group)
    argument = argument if alone else unshifted(argument)[0]
    span, degree = facts(argument).interval, max(row.degree for row in rows)
    if alone and all(row.alone == "sum" for row in rows):
        return Measure(kind="sum", argument=argument, filter=condition, lower=span.lower, upper=span.upper)
    if degree == 0:
        return Measure(kind="cells", argument=argument, filter=condition)
    upper = span.upper if span.upper > span.lower else span.lower + max(1.0, abs(span.lower))
    return Measure(kind="cells", argument=argument, filter=condition, degree=degree, lower=span.lower, upper=upper)


def _join_rows(chosen: list[Measure], rows: Aggregate) -> None:
    """Let count(*) join a measure with the same filter, else add one."""
    for i, measure in enumerate(chosen):
        if measure.filter != rows.filter or measure.argument is None or measure.kind not in ("cells", "sum"):
            continue
        nullable = facts(measure.argument).nullable
        if measure.kind == "sum":
            upper = measure.upper if measure.upper > measure.lower else measure.lower + max(1.0, abs(measure.lower))
            measure = replace(measure, kind="cells", degree=1, upper=upper)
        chosen[i] = replace(measure, null_cell=nullable)
        return
    chosen.append(Measure(kind="cells", filter=rows.filter))


def _set_grid(measure: Measure, row_cap: int, contribution: int, epsilon: float) -> Measure:
    """Finest grid with row_cap * value + 100 scale + slack < 2**62, from public figures only."""
    if measure.kind in ("units", "values") or (measure.kind == "cells" and measure.degree == 0):
        room = RANGE_BITS - math.log2(row_cap + 300 * contribution / epsilon)
        _require_room(room >= 0, row_cap)
        return replace(measure, bits=0, largest=1)
    room = math.floor(RANGE_BITS - math.log2(row_cap + 300 * contribution / epsilon))
    _require_room(room >= MIN_BITS, row_cap)
    if measure.kind in ("cells", "bins", "centred"):
        bits = min(BIN_BITS if measure.kind == "bins" else MAX_BITS, room)
        return replace(measure, bits=bits, largest=2**bits)
    largest = max(abs(measure.lower), abs(measure.upper))
    if 0 < largest < LEAST_BOUND:
        rule = f"are too small to be summed on a grid. Take another unit, so that one reaches {LEAST_BOUND:g}."
        raise ParameterError("P104", "bounds", (measure.lower, measure.upper), rule)
    magnitude = math.ceil(math.log2(largest)) if largest > 0 else 0
    assert measure.argument is not None
    integral = facts(measure.argument).integral
    bits = min(0, room - magnitude - 1) if integral else min(MAX_BITS, room - 1) - magnitude
    measure = replace(measure, bits=bits)
    low, high = sum_range(measure)
    return replace(measure, largest=max(abs(low), abs(high), 1))


def _require_room(fits: bool, row_cap: int) -> None:
    if not fits:
        raise ParameterError(
            "P107", "row_cap", row_cap, "is too large for this epsilon: exact sums would leave 64 bits."
        )


def _replaced_sum(measure: Measure, *, grouped: bool, whole: bool) -> Sensitivity:
    low, high = sum_range(measure)
    q = measure.largest
    span = max(high - low if whole else max(high, 0) - min(low, 0), 1)
    if grouped:  # the row changes its group (q in each), or stays and goes from one end to the other (span in one)
        return Sensitivity(l1=2 * q, l2_squared=max(2 * q * q, span**2), linf=max(q, span))
    return Sensitivity(l1=span, l2_squared=span**2, linf=span)

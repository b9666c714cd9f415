"""Answers that follow from noisy moments: columns, intervals and explanations, the same for all such functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import describe_unit
from duckdp.compiler.describe import pretty
from duckdp.compiler.expression import show
from duckdp.compiler.notes import bounding_note, drops_rows
from duckdp.compiler.pair_moments import PairMoments
from duckdp.core.momentbars import Statistic, statistic_deviation, statistic_interval
from duckdp.functions.planned import Planned, predicate_text, with_errors
from duckdp.functions.public_groups import grouping_text, key_cells, key_columns
from duckdp.result import Estimate, Result, ResultColumn, note_name

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

Floats = NDArray[np.float64]
NO_END = "the noise leaves no end of the interval"
EVENLY = "the error is predicted for columns that spread evenly over their bounds, in groups of equal size"


@dataclass(frozen=True, kw_only=True)
class Found:
    """Numbers that follow from one group's moments: float[T] each, NaN where there is none."""

    value: Floats
    error: Floats
    low: Floats
    high: Floats


class Asked(Protocol):
    """What such a call has beside its columns."""

    @property
    def groups(self) -> str | Sequence[str] | None:
        """Groups, as GROUP BY takes them."""

    @property
    def predicate(self) -> str | None:
        """Which rows count, as WHERE takes it."""

    @property
    def fresh(self) -> bool:
        """Whether a new answer is paid for."""


def found_numbers(
    moments: Floats,
    draws: Floats,
    statistic: Statistic,
    *,
    lower: Floats | float,
    upper: Floats | float,
    value: Statistic | None = None,
) -> Found:
    """Values, errors and intervals of a statistic of one group, within its public range.

    Args:
        moments: float[R], released.
        draws: float[n, R], of their noise.
        statistic: of moments; what the interval is for.
        lower: least true value; -inf where there is none.
        upper: largest.
        value: what is shown, if that is not the statistic itself; the interval is made to hold it.
    """
    with np.errstate(all="ignore"):
        shown = np.clip((value or statistic)(moments[None])[0], lower, upper)
    low, high = statistic_interval(moments, draws, statistic)
    return Found(
        value=shown,
        error=statistic_deviation(moments, draws, statistic),
        low=np.fmin(np.clip(low, lower, upper), shown),
        high=np.fmax(np.clip(high, lower, upper), shown),
    )


def estimates(found: Found) -> list[Estimate]:
    """The numbers as a result has them."""
    rows = zip(found.value.tolist(), found.error.tolist(), found.low.tolist(), found.high.tolist(), strict=True)
    return [
        Estimate(
            value=value if math.isfinite(value) else None,
            standard_error=error if math.isfinite(error) else None,
            low=low,
            high=high,
            exact=False,
            note=None if math.isfinite(low) and math.isfinite(high) else NO_END,
        )
        for value, error, low, high in rows
    ]


def planned_moments(
    desk: Desk,
    asked: Asked,
    task: PairMoments,
    text: str,
    shown: Sequence[tuple[str, Sequence[str]]],
    numbers: Sequence[tuple[str, str]],
    found: Callable[[Floats, Floats], list[Found]],
    notes: Sequence[str] = (),
) -> Planned:
    """A call whose rows are, in each group, those of ``shown`` with their numbers and intervals.

    Args:
        desk: who asks.
        asked: the call.
        task: what it buys.
        text: of the call for the ledger, up to its last parameters.
        shown: columns of texts, the same in each group.
        numbers: (name, type) of the columns of numbers.
        found: numbers of one group, by column, from its moments and draws of their noise.
        notes: what a reader must know beside.
    """
    table, keys = task.table, task.rows.query.keys
    times = max((len(values) for _, values in shown), default=1)
    errors = with_errors(list(numbers))
    taken = [name for name, _ in (*((name, "") for name, _ in shown), *errors, ("note", ""))]
    caveat = bounding_note(table, grouped=bool(keys)) if drops_rows(table) and task.rows.most is None else None
    by = "" if asked.groups is None else f", groups := {grouping_text(asked.groups)}"
    statement = f"{text}{by}{predicate_text(asked.predicate)})"

    def run(nonce: str) -> Result:
        done = desk.perform(task, table=table, statement=statement, fresh=asked.fresh, nonce=nonce)
        moments, draws = task.read(done.payload), task.way.draws()
        each = [found(group, draws) for group in moments]
        columns = key_cells(keys, taken, times)
        columns += [ResultColumn(name=name, type="VARCHAR", values=list(values) * len(each)) for name, values in shown]
        for i, (name, kind) in enumerate(numbers):
            bars = [bar for group in each for bar in estimates(group[i])]
            columns.append(ResultColumn(name=name, type=kind, values=[b.value for b in bars], estimates=bars))
        said = [] if caveat is None else [caveat]
        return desk.dress(columns, task.loss, done, notes=[*said, *notes], caveat=caveat)

    named = [*key_columns(keys, taken), *((name, "VARCHAR") for name, _ in shown), *errors]
    if caveat is not None:
        named.append((note_name([name for name, _ in named[: len(keys) + len(shown) + len(numbers)]]), "VARCHAR"))
    return Planned(columns=named, run=run, intervals=True, rows=times * task.rows.count)


def explain_moments(
    desk: Desk, task: PairMoments, widths: Mapping[str, float | None], notes: Sequence[str] = ()
) -> list[str]:
    """What is released, whom it protects, its cost, and half-widths to be expected (None: nothing is known)."""
    way, table, keys = task.way, task.table, task.rows.query.keys
    many = f" in each of {task.rows.count} groups" if keys else ""
    where = "" if task.rows.query.where is None else f" where {pretty(task.rows.query.where)}"
    told = "numbers that are products of Bernstein polynomials" if way.shape == "cells" else "sums of products"
    lines = [
        f"release {len(way.released)} {told}{many}, {way.family} noise, {task.loss}",
        *(f"  {line}" for line in describe_unit(table, task.neighbours.value)),
        f"  reads: {table.name}{where}",
        *(f"  key: {show(key.expr)} (complete: {len(key.domain or ())} public values)" for key in keys),
    ]
    if task.rows.most is not None:
        lines.append(f"  of: how many rows each {table.unit_key} has, up to {task.rows.most:,}")
    for expr, span in zip(task.rows.arguments, task.rows.spans, strict=False):
        lines.append(f"  of: {show(expr)} in [{span.lower:g}, {span.upper:g}]")
    lines.append(
        f"  noise of the {len(task.wanted)} moments: {way.deviations.min():.4g} to {way.deviations.max():.4g} rows"
    )
    lines += [f"cost: {task.loss}", "expected error (95%):"]
    unknown = "needs expected_rows" if task.rows.most is None else "follows from how many units there are"
    for name, width in widths.items():
        lines.append(f"  {name}: {unknown if width is None else f'± {width:g}'}")
    lines.append(desk.remaining_text(task.loss))
    caveat = [bounding_note(table, grouped=bool(keys))] if drops_rows(table) and task.rows.most is None else []
    return [*lines, *(f"note: {note}" for note in (*caveat, *notes, *([] if task.rows.most else [EVENLY])))]

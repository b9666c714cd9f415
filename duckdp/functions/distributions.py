"""How a column is distributed: histograms with public bins, and distribution functions."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import describe_unit
from duckdp.compiler.bin_counts import BinCounts, Bins
from duckdp.compiler.describe import pretty
from duckdp.compiler.expression import show
from duckdp.compiler.notes import bounding_note, drops_rows
from duckdp.compiler.query import Query
from duckdp.core.cdfbars import Band, distribution_band
from duckdp.core.errorbars import Noise, half_width
from duckdp.core.nestedbins import best_sizes
from duckdp.core.types import parse_delta, parse_epsilon
from duckdp.errors import ParameterError
from duckdp.functions.bin_edges import MOST_BINS, Axis, choose_bins, read_axis
from duckdp.functions.kinds import Delta, Epsilon, Fresh, Keys, Predicate, Quantity, Size, TableName
from duckdp.functions.planned import Planned, predicate_text, read_where, with_errors
from duckdp.functions.public_groups import grouping_text, key_cells, key_columns, read_public_keys
from duckdp.functions.spec import Explained, argument, dp_function, option
from duckdp.result import Estimate, Result, ResultColumn, note_name

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

Floats = NDArray[np.float64]
MOST_NUMBERS = 1_000_000  # released by one call, of all groups: seconds of noise
STEPS = 100  # of a distribution function, where nobody says how many
MOST_STEPS = 1_000  # of a distribution function: the estimate solves as many equations
TOGETHER = "with 95% the whole function lies between low and high, in each group"


class _Distribution(Explained):
    """Counts by bin, and what is made of them."""

    table: str
    x: str
    epsilon: object
    delta: object
    bins: int | None
    groups: str | Sequence[str] | None
    predicate: str | None
    fresh: bool
    name: str

    @abstractmethod
    def _levels(self, axis: Axis, rows: int | None, noise: float) -> tuple[Bins, tuple[int, ...]]:
        """Bins for so many rows in each group and so much noise of a count, and sizes of the levels' blocks."""

    def _task(self, desk: Desk) -> tuple[BinCounts, Axis]:
        table = desk.table(self.table)
        axis = read_axis(self.x, table)
        query = Query(
            table=table,
            where=read_where(self.predicate, table),
            keys=read_public_keys(self.groups, table, MOST_NUMBERS),
            outputs=(),
        )
        terms = {
            "asked": query,
            "value": axis.value,
            "epsilon_nano": parse_epsilon(self.epsilon),
            "delta_atto": parse_delta(self.delta),
            "neighbours": desk.neighbours,
        }
        one = BinCounts(**terms, bins=Bins(first=0, width=1, count=1), sizes=(1,))  # type: ignore[arg-type]
        noise = math.sqrt(one.noises[0].variance()) / 2**one.bits
        rows = None if table.expected_rows is None else max(1, table.expected_rows // one.count)
        bins, sizes = self._levels(axis, rows, noise)
        task = BinCounts(**terms, bins=bins, sizes=sizes)  # type: ignore[arg-type]
        if (count := bins.count * task.count) > MOST_NUMBERS:
            rule = f"would release {count:,} numbers, more than {MOST_NUMBERS:,}. Take fewer bins or groups."
            raise ParameterError("P107", "bins", self.bins, rule)
        return task, axis

    def _text(self) -> str:
        bins = "" if self.bins is None else f", bins := {self.bins}"
        by = "" if self.groups is None else f", groups := {grouping_text(self.groups)}"
        return f"{self.name}({self.table}, {self.x}{bins}{by}{predicate_text(self.predicate)})"

    def _planned(
        self,
        desk: Desk,
        task: BinCounts,
        shown: Sequence[tuple[str, str, Sequence[Any]]],
        number: tuple[str, str],
        notes: Sequence[str],
    ) -> Planned:
        """A row for each place of ``shown`` (name, type, values) in each group."""
        keys, times = task.asked.keys, len(shown[0][2])
        errors = with_errors([number])
        taken = [*(name for name, _, _ in shown), *(name for name, _ in errors), "note"]
        caveat = bounding_note(task.table, grouped=bool(keys)) if drops_rows(task.table) else None

        def run(nonce: str) -> Result:
            done = desk.perform(task, table=task.table, statement=self._text(), fresh=self.fresh, nonce=nonce)
            bars = [bar for group in task.read(done.payload) for bar in self._estimates(task, group)]
            columns = key_cells(keys, taken, times)
            columns += [ResultColumn(name=n, type=t, values=list(v) * task.count) for n, t, v in shown]
            values = [bar.value for bar in bars]
            columns.append(ResultColumn(name=number[0], type=number[1], values=values, estimates=bars))
            said = [] if caveat is None else [caveat]
            return desk.dress(columns, task.loss, done, notes=[*said, *notes], caveat=caveat)

        named = [*key_columns(keys, taken), *((n, t) for n, t, _ in shown), *errors]
        if caveat is not None:
            named.append((note_name([n for n, _ in named[: len(keys) + len(shown) + 1]]), "VARCHAR"))
        return Planned(columns=named, run=run, intervals=True, rows=times * task.count)

    @abstractmethod
    def _estimates(self, task: BinCounts, counts: Floats) -> list[Estimate]:
        """Numbers of one group from its noisy counts."""

    def _explained(
        self, desk: Desk, task: BinCounts, axis: Axis, errors: Sequence[str], notes: Sequence[str]
    ) -> list[str]:
        many = f" in each of {task.count} groups" if task.asked.keys else ""
        levels = "" if len(task.sizes) == 1 else f" and in blocks of {', '.join(map(str, task.sizes[1:]))} of them"
        where = "" if task.asked.where is None else f" where {pretty(task.asked.where)}"
        edges = axis.shown(task.bins.edges[:2])
        return [
            f"count rows in {task.bins.count} bins{levels}{many}, {task.mechanism} noise, {task.loss}",
            *(f"  {line}" for line in describe_unit(task.table, task.neighbours.value)),
            f"  reads: {task.table.name}{where}",
            *(f"  key: {show(key.expr)} (complete: {len(key.domain or ())} public values)" for key in task.asked.keys),
            f"  bins: of {self.x}, from {edges[0]} to {edges[1]} the first, all as wide",
            f"cost: {task.loss}",
            "expected error (95%):",
            *(f"  {line}" for line in errors),
            desk.remaining_text(task.loss),
            *([f"note: {bounding_note(task.table, grouped=bool(task.asked.keys))}"] if drops_rows(task.table) else []),
            *(f"note: {note}" for note in notes),
        ]


@dp_function("dp_histogram", costs="epsilon, delta", example="'care', 'age', epsilon := 0.5")
@dataclass(frozen=True, kw_only=True)
class Histogram(_Distribution):
    """Noisy counts of rows in public bins of a column, which a formula chooses, or as many as asked, in each group."""

    table: TableName = argument()
    x: Quantity = argument()
    epsilon: Epsilon | None = option(None)
    bins: Size | None = option(None, about="how many; left out, as expected rows and noise make best")
    delta: Delta = option(0, about="above 0 Gaussian noise is taken where it is less")
    groups: Keys | None = option(None)
    predicate: Predicate | None = option(None)
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """A row for each bin: where it begins and ends, and its count."""
        task, axis = self._task(desk)
        edges = axis.shown(task.bins.edges)
        shown = [("bin_start", axis.type, edges[:-1]), ("bin_end", axis.type, edges[1:])]
        return self._planned(desk, task, shown, ("value", "BIGINT"), [])

    def explain(self, desk: Desk) -> Sequence[str]:
        """The bins, the cost and the error of each count."""
        task, axis = self._task(desk)
        return self._explained(desk, task, axis, [f"value: ± {_count_half_width(task)}"], [])

    @property
    def name(self) -> str:  # type: ignore[override]
        """As the ledger shows it."""
        return "dp_histogram"

    def _levels(self, axis: Axis, rows: int | None, noise: float) -> tuple[Bins, tuple[int, ...]]:
        return choose_bins(axis, self.bins, rows=rows, noise=noise), (1,)

    def _estimates(self, task: BinCounts, counts: Floats) -> list[Estimate]:
        return [count_estimate(task.noises[0], task.bits, task.rounding, n) for n in counts.tolist()]


@dp_function("dp_cdf", costs="epsilon, delta", example="'care', 'age', epsilon := 0.5")
@dataclass(frozen=True, kw_only=True)
class Cdf(_Distribution):
    """The distribution function of a column at public values: which share of rows is below each, in each group."""

    table: TableName = argument()
    x: Quantity = argument()
    epsilon: Epsilon | None = option(None)
    bins: Size | None = option(None, about="how many steps; left out, 100, or each whole number where these are fewer")
    delta: Delta = option(0, about="above 0 Gaussian noise is taken where it is less")
    groups: Keys | None = option(None)
    predicate: Predicate | None = option(None)
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """A row for each step: the share of rows below its upper edge."""
        task, axis = self._task(desk)
        below = axis.shown(task.bins.edges[1:])
        return self._planned(desk, task, [("below", axis.type, below)], ("value", "DOUBLE"), [TOGETHER])

    def explain(self, desk: Desk) -> Sequence[str]:
        """The counts, the cost and how wide the band will be."""
        task, axis = self._task(desk)
        rows = task.table.expected_rows
        if rows is None:
            return self._explained(desk, task, axis, ["value: needs expected_rows"], [TOGETHER])
        band = _band(task, np.repeat(rows / task.count / task.bins.count, task.bins.count))
        width = float(np.max(band.high - band.low)) / 2
        return self._explained(desk, task, axis, [f"value: ± {width:.4g} where it is widest"], [TOGETHER])

    @property
    def name(self) -> str:  # type: ignore[override]
        """As the ledger shows it."""
        return "dp_cdf"

    def _levels(self, axis: Axis, rows: int | None, noise: float) -> tuple[Bins, tuple[int, ...]]:  # noqa: ARG002
        if self.bins is not None and self.bins > MOST_STEPS:
            raise ParameterError("P107", "bins", self.bins, f"must be at most {MOST_STEPS:,}.")
        bins = choose_bins(axis, self.bins or STEPS, rows=None, noise=0.0)
        return bins, best_sizes(bins.count)

    def _estimates(self, task: BinCounts, counts: Floats) -> list[Estimate]:
        band = _band(task, None, counts)
        rows = zip(band.value.tolist(), band.error.tolist(), band.low.tolist(), band.high.tolist(), strict=True)
        return [
            Estimate(
                value=None if math.isnan(value) else value,
                standard_error=error if math.isfinite(error) else None,
                low=low,
                high=high,
                exact=False,
            )
            for value, error, low, high in rows
        ]


def count_estimate(noise: Noise, bits: int, rounding: int, noisy: float) -> Estimate:
    """A count of parts of rows, told as a whole number, and the whole numbers that it lies between with 95%.

    With f what was noised, f <= true <= f + rounding in grid units; and |noisy - f| <= half_width(noise) with at least
    95%. So the true count, a fraction where some unit has more than max_rows rows, is at least noisy - half_width and
    at most noisy + half_width + rounding; both are rounded away from it.

    Args:
        noise: its law, grid units.
        bits: of a row on the grid.
        rounding: grid units by which f may be too low.
        noisy: f with its noise, rows.
    """
    steps, unit = half_width(noise), 2**bits
    return Estimate(
        value=math.floor(noisy + 0.5),
        standard_error=math.sqrt(noise.variance()) / unit,
        low=math.floor(noisy - steps / unit),
        high=math.ceil(noisy + (steps + rounding) / unit),
    )


def _count_half_width(task: BinCounts) -> int:
    """How far at most the ends of a count's 95% interval are from it."""
    steps = half_width(task.noises[0])
    return steps if task.bits == 0 else math.ceil((steps + task.rounding) / 2**task.bits + 0.5)


def _band(task: BinCounts, exact: Floats | None, counts: Floats | None = None) -> Band:
    """The distribution function from noisy counts, or from expected ones."""
    laws = [Noise(n.family, n.scale / 2**task.bits) for n in task.noises]
    off = task.rounding / 2**task.bits
    return distribution_band(task.bins.count, task.sizes, laws[0], counts=counts, expected=exact, off=off)


assert MOST_STEPS <= MOST_BINS

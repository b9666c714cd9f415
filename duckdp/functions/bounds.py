"""Help with an owner's figures, bought like any answer: bounds of a column, rows and groups per unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from duckdp.catalog.table import Column, Kind, released_type
from duckdp.compiler.bounds import BoundsTask, plan_bounds
from duckdp.compiler.per_unit import PerUnitTask, plan_per_unit
from duckdp.core.types import parse_epsilon
from duckdp.functions.kinds import ColumnName, Epsilon, Fresh, Keys, Predicate, TableName
from duckdp.functions.planned import NOTE, Planned, predicate_text, read_where, with_errors
from duckdp.functions.spec import Explained, argument, dp_function, option
from duckdp.mechanisms.bounds import RANGES
from duckdp.mechanisms.unit_histogram import ENDS, UnitHistogram
from duckdp.result import Estimate, Result, ResultColumn

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

NOTHING = "no magnitude stands out from the noise, so no bounds: there are few rows; a larger epsilon sees more"
FEWEST = 3  # figures shown of max_rows or max_groups
_WIDE = ("HUGEINT", "UHUGEINT", "UBIGINT", "DECIMAL")


@dp_function("dp_bounds", costs="epsilon", example="'care', 'age', epsilon := 0.5")
@dataclass(frozen=True, kw_only=True)
class Bounds(Explained):
    """Suggested bounds of a visible column, widest first, and how many rows each range would clip."""

    table: TableName = argument()
    column: ColumnName = argument()
    epsilon: Epsilon | None = option(None)
    predicate: Predicate | None = option(None)
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """A row a range; one row that says so where no magnitude stands out."""
        task = self._task(desk)
        kind = _bound_type(task.column)
        shape = [("lower", kind), ("upper", kind), ("clipped_below", "BIGINT"), ("clipped_above", "BIGINT")]

        def run(nonce: str) -> Result:
            text = f"dp_bounds({task.table.name}, {task.column.name}{predicate_text(self.predicate)})"
            done = desk.perform(task, table=task.table, statement=text, fresh=self.fresh, nonce=nonce)
            found = task.read(done.payload)
            ends = [[_as_type(task.ladder.value(r[side]), kind) for r in found.ranges] for side in (0, 1)]
            clipped: list[list[Estimate]] = [[], []]
            for place in range(len(found.ranges)):
                for side, value in enumerate(found.clipped(place)):
                    clipped[side].append(_count(value, found.deviation(place), found.half_width(place)))
            caveat = None if found.ranges else NOTHING
            if caveat is not None:  # one row that says so
                ends, clipped = [[None], [None]], [[Estimate(value=None)], [Estimate(value=None)]]
            made = [ResultColumn(name=n, type=kind, values=v) for n, v in zip(("lower", "upper"), ends, strict=True)]
            made += [_released(n, e) for n, e in zip(("clipped_below", "clipped_above"), clipped, strict=True)]
            notes = [NOTHING] if caveat is not None else _bounds_notes(task, ends, sum(found.cells))
            return desk.dress(made, task.loss, done, notes=notes, caveat=caveat)

        columns = [*shape, *with_errors(shape[2:])[2:], NOTE]
        return Planned(columns=columns, run=run, intervals=True, note=True, rows=RANGES)

    def explain(self, desk: Desk) -> Sequence[str]:
        """The histograms, their noise, and from how many rows on a magnitude is noticed."""
        return _lines(self._task(desk))

    def _task(self, desk: Desk) -> BoundsTask:
        table = desk.table(self.table)
        return plan_bounds(
            table,
            self.column,
            read_where(self.predicate, table),
            epsilon_nano=parse_epsilon(self.epsilon),
            neighbours=desk.neighbours,
        )


class _PerUnit(Explained):
    """For a figure of what a unit may add: how many units have more than 1, 2, 5, ..., from a histogram over units.

    Attributes:
        figure: the one of the declaration that it helps to choose.
        what: "rows" or "groups".
    """

    figure: ClassVar[str]
    what: ClassVar[str]
    table: str
    epsilon: object
    predicate: str | None
    fresh: bool

    def plan(self, desk: Desk) -> Planned:
        """A row for each figure."""
        task, grouping = self._task(desk), self._grouping()
        keys = "" if grouping is None else f", {grouping}"
        text = f"dp_{self.what}_per_unit({task.table.name}{keys}{predicate_text(self.predicate)})"
        lost = f"{self.what}_dropped"
        shape = [(self.figure, "BIGINT"), ("units_over", "BIGINT"), ("units_share", "DOUBLE"), (lost, "DOUBLE")]

        def run(nonce: str) -> Result:
            done = desk.perform(task, table=task.table, statement=text, fresh=self.fresh, nonce=nonce)
            noisy, law = task.read(done.payload), task.histogram
            total = f"{sum(noisy):,} ± {law.half_width(len(noisy)):,.0f}"
            notes = [
                f"units_over: how many values of {task.table.unit_key} have more {self.what} than that, "
                f"of about {total}",
                f"{lost}: share of all {self.what} beyond it, estimated from the bins that are clear of the noise; "
                "no interval",
            ]
            return desk.dress(_figures(self.figure, lost, noisy, law), task.loss, done, notes=notes)

        return Planned(columns=shape + with_errors(shape[1:2])[1:], run=run, intervals=True, rows=len(ENDS))

    def explain(self, desk: Desk) -> Sequence[str]:
        """The histogram and its noise."""
        return _lines(self._task(desk))

    def _task(self, desk: Desk) -> PerUnitTask:
        table = desk.table(self.table)
        desk.neighbours  # noqa: B018 - a budget must have been set
        where = read_where(self.predicate, table)
        return plan_per_unit(table, self._grouping(), where, epsilon_nano=parse_epsilon(self.epsilon))

    def _grouping(self) -> str | None:
        """Grouping expressions as one text, as GROUP BY takes them."""
        return None


@dp_function("dp_rows_per_unit", costs="epsilon", example="'care', epsilon := 0.1")
@dataclass(frozen=True, kw_only=True)
class RowsPerUnit(_PerUnit):
    """How many units have more rows than a `max_rows` of 1, 2, 5, 10, ..., and about what share it drops."""

    figure, what = "max_rows", "rows"

    table: TableName = argument()
    epsilon: Epsilon | None = option(None)
    predicate: Predicate | None = option(None)
    fresh: Fresh = option(False, explained=False)


@dp_function("dp_groups_per_unit", costs="epsilon", example="'care', 'sex, age >= 18', epsilon := 0.1")
@dataclass(frozen=True, kw_only=True)
class GroupsPerUnit(_PerUnit):
    """How many units are in more groups than a `max_groups` of 1, 2, 5, 10, ..., and about what share it drops."""

    figure, what = "max_groups", "groups"

    table: TableName = argument()
    keys: Keys = argument()
    epsilon: Epsilon | None = option(None)
    predicate: Predicate | None = option(None)
    fresh: Fresh = option(False, explained=False)

    def _grouping(self) -> str:
        return self.keys if isinstance(self.keys, str) else ", ".join(self.keys)


def _figures(figure: str, lost: str, noisy: list[int], law: UnitHistogram) -> list[ResultColumn]:
    """The table of a noisy histogram: as many figures as it has something to say of, and a few."""
    whole, dropped = sum(noisy), law.lost(noisy)
    shown = max(FEWEST, 1 + sum(bool(share) for share in dropped))
    over, shares = [], []
    for place in range(min(shown, len(ENDS))):
        value, bins = sum(noisy[place + 1 :]), len(noisy) - place - 1
        over.append(_count(value, law.deviation(bins), law.half_width(bins)))
        shares.append(round(min(max(value / whole, 0.0), 1.0), 6) if whole > 0 else None)
    lost_shares = [None if v is None else round(v, 6) for v in dropped[: len(over)]]
    return [
        ResultColumn(name=figure, type="BIGINT", values=list(ENDS[: len(over)])),
        _released("units_over", over),
        ResultColumn(name="units_share", type="DOUBLE", values=shares),
        ResultColumn(name=lost, type="DOUBLE", values=lost_shares),
    ]


def _bounds_notes(task: BoundsTask, ends: list[list[Any]], rows: int) -> list[str]:
    name, key = task.column.name, task.table.unit_key
    shown = ", ".join(repr(str(e[0])) if task.column.kind is not Kind.NUMBER else str(e[0]) for e in ends)
    whose = "" if key is None else f" (one row of each {key})"
    return [
        f'for protect: bounds={{"{name}": ({shown})}}; the first range is the widest, narrower ones clip more',
        f"clipped rows are of about {rows:,}{whose}; NULL and NaN are left out",
    ]


def _lines(task: BoundsTask | PerUnitTask) -> list[str]:
    return [*task.describe(), f"cost: {task.loss}"]


def _bound_type(column: Column) -> str:
    if column.kind is not Kind.NUMBER:
        return released_type(column.type.upper())
    return "BIGINT" if column.integral and not column.type.upper().startswith(_WIDE) else "DOUBLE"


def _as_type(value: Any, kind: str) -> Any:
    return float(value) if kind == "DOUBLE" else value


def _count(value: int, deviation: float, half: float) -> Estimate:
    return Estimate(value=value, standard_error=deviation, low=value - half, high=value + half)


def _released(name: str, estimates: list[Estimate]) -> ResultColumn:
    return ResultColumn(name=name, type="BIGINT", values=[e.value for e in estimates], estimates=estimates)

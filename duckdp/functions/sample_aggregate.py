"""Aggregates of blocks of units, combined: a private form of what has none of its own."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from duckdp.catalog.table import Table, describe_unit, name_unit
from duckdp.compiler.block_expression import BlockExpression, read_block_expression
from duckdp.compiler.block_values import BlockTask, Combination, best_combination, epsilon_of
from duckdp.compiler.block_vectors import BlockVectorTask
from duckdp.compiler.expression import measured, show
from duckdp.compiler.parse import MAX_NODES
from duckdp.core.interval import Interval
from duckdp.core.types import Neighbours, parse_epsilon
from duckdp.errors import ParameterError
from duckdp.functions.kinds import CHOICE, Epsilon, Fresh, Kind, Number, Predicate, Size, TableName
from duckdp.functions.planned import Planned, predicate_text, read_where, with_errors
from duckdp.functions.spec import Explained, argument, dp_function, option
from duckdp.mechanisms.block_mean import BlockMean
from duckdp.mechanisms.block_median import BlockMedian
from duckdp.mechanisms.smooth_sensitivity import NO_INTERVAL_REASON
from duckdp.result import Estimate, Result, ResultColumn

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

MOST_BLOCKS = 10_000  # more of them cross and are put in order: a tenth of a second
_LEAST_BLOCKS = 10  # where nobody says how many
_NARROWEST = 1e-100  # a range: what is narrower has no cells that doubles tell apart
_MOST_TOGETHER = 20  # aggregates of one call
_MOST_READ = 40  # different aggregates of one call: steps of the private read
_MOST_STEPS = 10**6  # of all values of all blocks: some ten seconds
_MOST_CENTERED = 500  # blocks whose vectors have a centre: distances of all pairs are found, a second
_KEPT = 0.95  # level of what explain promises
_COMBINED = "what is combined is of blocks: a block of few rows errs more, and that is not in the interval"
_OF_BLOCKS = "sums and counts in it are of one block's rows, not of all rows"
_OF_RANKS = "no interval: how far apart the values of blocks near their median lie is private"

_FEW_RANKS = "so few, at this epsilon, that it may lie outside of all of them: 95% need more blocks or epsilon"

AggregateText = Annotated[
    str,
    Kind(
        word="the text of an aggregate",
        sql="aggregate",
        about="one aggregate of rows, or arithmetic of some: corr(x, y), stddev(x) / avg(x), ...",
    ),
]
_MORE = Kind(
    word="a list of texts", about="more aggregates of the same blocks, a row for each", listed=True, most=_MOST_TOGETHER
)
AggregateTexts = Annotated[Sequence[str], _MORE]
Method = Annotated[Literal["auto", "mean", "median", "center"], CHOICE]


@dp_function(
    "dp_sample_aggregate",
    forms=("table", "value"),
    costs="epsilon",
    example="'care', 'corr(age, medical_dollars)', epsilon := 1, blocks := 100",
)
@dataclass(frozen=True, kw_only=True)
class SampleAggregate(Explained):
    """An aggregate of all rows, from those of blocks of privacy units: correlation, slope, entropy, kurtosis, mode."""

    table: TableName = argument()
    aggregate: AggregateText = argument()
    epsilon: Epsilon | None = option(None)
    blocks: Size | None = option(None, about="how many, at most 10,000; left out, the root of the expected rows")
    low: Number | None = option(None, about="least value of the aggregate; left out, what follows from declarations")
    high: Number | None = option(None, about="largest value of the aggregate")
    method: Method = option("auto", about="how blocks are combined; auto: as public figures predict the least error")
    predicate: Predicate | None = option(None)
    more: AggregateTexts | None = option(None, tabled=True)
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """One number, or one for each aggregate; means of blocks with their intervals."""
        return self._one(desk) if self.more is None else self._several(desk)

    def _one(self, desk: Desk) -> Planned:
        task = self._task(desk)
        mean = task.combination == "mean"

        def run(nonce: str) -> Result:
            text = f"dp_sample_aggregate({task.table.name}, {self.aggregate}{predicate_text(self.predicate)})"
            done = desk.perform(task, table=task.table, statement=text, fresh=self.fresh, nonce=nonce)
            found = _estimate(task, done.payload)
            column = ResultColumn(name="value", type="DOUBLE", values=[found.value], estimates=[found])
            notes = [_COMBINED if mean else _why(task), *_notes(task)]
            return desk.dress([column], task.loss, done, notes=notes)

        columns = [("value", "DOUBLE")]
        return Planned(columns=with_errors(columns) if mean else columns, run=run, intervals=mean, rows=1)

    def _several(self, desk: Desk) -> Planned:
        """A row for each aggregate."""
        task = self._tasks(desk)
        mean, size = task.combination == "mean", len(task.parts)

        def run(nonce: str) -> Result:
            listed = ", ".join([self.aggregate, *(self.more or [])])
            text = f"dp_sample_aggregate({task.table.name}, {listed}{predicate_text(self.predicate)})"
            done = desk.perform(task, table=task.table, statement=text, fresh=self.fresh, nonce=nonce)
            found = [_estimate(part, own) for part, own in zip(task.parts, task.each(done.payload), strict=True)]
            names = ResultColumn(name="aggregate", type="VARCHAR", values=[p.asked.told for p in task.parts])
            numbers = ResultColumn(name="value", type="DOUBLE", values=[e.value for e in found], estimates=found)
            notes = [_COMBINED if mean else _why(task.parts[0]), *_notes(*task.parts)]
            return desk.dress([names, numbers], task.loss, done, notes=notes)

        value = [("value", "DOUBLE")]
        columns = [("aggregate", "VARCHAR"), *(with_errors(value) if mean else value)]
        return Planned(columns=columns, run=run, intervals=mean, rows=size)

    def explain(self, desk: Desk) -> Sequence[str]:
        """The blocks, how they are combined, and the error where it is known before."""
        return self._explain_one(desk) if self.more is None else self._explain_several(desk)

    def _explain_several(self, desk: Desk) -> Sequence[str]:
        task = self._tasks(desk)
        first = task.parts[0]
        widths = [part.half_width() for part in task.parts]
        whole = "their vectors' centre of attention in l1" if task.combination == "center" else _told(first)
        share = "for all" if task.combination == "center" else f"for each of {len(task.parts)} a part of epsilon"
        return [
            f"release {len(task.parts)} numbers, {task.mechanism}, {task.loss}",
            *(f"  {line}" for line in describe_unit(task.table, task.neighbours.value)),
            f"  reads: {task.table.name}{_rows_told(first)}",
            f"  blocks: {task.blocks:,}; {_placed_told(first)}",
            *(f"  of each: {_ranged_told(part)}" for part in task.parts),
            f"  combined: {whole}; {share}",
            f"cost: {task.loss}",
            "expected error (95%):",
            *(
                f"  {part.asked.told}: {_why(part) if width is None else f'± {width:g}'}"
                for part, width in zip(task.parts, widths, strict=True)
            ),
            desk.remaining_text(task.loss),
            *([f"note: {_COMBINED}"] if widths[0] is not None else []),
            *(f"note: {note}" for note in _notes(*task.parts)),
        ]

    def _explain_one(self, desk: Desk) -> Sequence[str]:
        task = self._task(desk)
        width = task.half_width()
        return [
            f"release one number, {task.mechanism}, {task.loss}",
            *(f"  {line}" for line in describe_unit(task.table, task.neighbours.value)),
            f"  reads: {task.table.name}{_rows_told(task)}",
            f"  blocks: {task.blocks:,}; {_placed_told(task)}",
            f"  of each: {_ranged_told(task)}",
            f"  combined: {_told(task)}",
            f"cost: {task.loss}",
            "expected error (95%):",
            f"  value: {_why(task) if width is None else f'± {width:g}'}",
            desk.remaining_text(task.loss),
            *([f"note: {_COMBINED}"] if width is not None else []),
            *(f"note: {note}" for note in _notes(task)),
        ]

    def _task(self, desk: Desk) -> BlockTask:
        table = desk.table(self.table)
        read = read_block_expression(self.aggregate, table)
        epsilon_nano, blocks, span = parse_epsilon(self.epsilon), self._blocks(table), self._span(read)
        _check_work([read], blocks)
        return self._part(desk, table, read, span, epsilon_nano, blocks, self._combination(desk, table, epsilon_nano))

    def _tasks(self, desk: Desk) -> BlockVectorTask:
        table, texts = desk.table(self.table), [self.aggregate, *(self.more or [])]
        if not 2 <= len(texts) <= _MOST_TOGETHER:
            rule = f"must be 1 to {_MOST_TOGETHER - 1} more aggregates."
            raise ParameterError("P107", "more", len(texts) - 1, rule)
        reads = [read_block_expression(text, table) for text in texts]
        whole, blocks = parse_epsilon(self.epsilon), self._blocks(table)
        each = whole // len(texts)
        if each == 0:
            raise ParameterError("P101", "epsilon", self.epsilon, f"is too small for {len(texts)} aggregates.")
        spans = [self._span(read, together=True) for read in reads]
        _check_work(reads, blocks)
        combination = self._combination(desk, table, each)
        if combination == "center" and blocks > _MOST_CENTERED:
            if self.method == "center":
                rule = f"must be at most {_MOST_CENTERED:,} for the centre of several aggregates."
                raise ParameterError("P107", "blocks", blocks, rule)
            combination = "median"
        parts = [
            self._part(desk, table, read, span, each, blocks, combination)
            for read, span in zip(reads, spans, strict=True)
        ]
        named = [part.text for part in parts]
        if len(set(named)) < len(named):
            again = next(part.asked.told for i, part in enumerate(parts) if part.text in named[:i])
            raise ParameterError("P107", "more", again, "stands twice.")
        task = BlockVectorTask(parts=tuple(parts), epsilon_nano=whole)
        if combination == "center":
            _ = task.center
        return task

    def _part(
        self,
        desk: Desk,
        table: Table,
        read: BlockExpression,
        span: Interval,
        epsilon_nano: int,
        blocks: int,
        combination: Combination,
    ) -> BlockTask:
        return BlockTask(
            table=table,
            asked=read,
            where=read_where(self.predicate, table),
            blocks=blocks,
            span=span,
            combination=combination,
            epsilon_nano=epsilon_nano,
            neighbours=desk.neighbours,
        )

    def _combination(self, desk: Desk, table: Table, epsilon_nano: int) -> Combination:
        if self.method not in ("auto", "mean", "median", "center"):
            raise ParameterError("P107", "method", self.method, "must be auto, mean, median or center.")
        if self.method != "auto":
            return self.method
        rows, changed = table.expected_rows or table.row_cap, 1 if desk.neighbours is Neighbours.ADD_REMOVE else 2
        return best_combination(self._blocks(table), rows, epsilon=epsilon_of(epsilon_nano), changed=changed)

    def _blocks(self, table: Table) -> int:
        if self.blocks is None:
            root = math.isqrt(table.expected_rows or table.row_cap)
            return min(max(root, _LEAST_BLOCKS), MOST_BLOCKS)
        if self.blocks > MOST_BLOCKS:
            raise ParameterError("P107", "blocks", self.blocks, f"must be at most {MOST_BLOCKS:,}.")
        return self.blocks

    def _span(self, read: BlockExpression, *, together: bool = False) -> Interval:
        """The range of values: as given, or as known; ``together`` with others as known wherever it is."""
        known = read.range
        if known is not None and known.lower == known.upper:
            raise ParameterError("P107", "aggregate", read.told, f"is always {known.lower:g}: there is nothing to ask.")
        for name, given in (("low", self.low), ("high", self.high)):
            if given is None and known is None:
                rule = f"must be given: nothing declared bounds {read.told}. Take a range that holds most blocks'."
                raise ParameterError("P107", name, given, rule)
        if known is not None and together:
            return _checked(known)
        low = self.low if self.low is not None or known is None else known.lower
        high = self.high if self.high is not None or known is None else known.upper
        return _checked(Interval(float(low or 0.0), float(high or 0.0)))


def _checked(span: Interval) -> Interval:
    """A range that cells tell apart."""
    if span.lower >= span.upper:
        raise ParameterError("P107", "low", span.lower, f"must be below high, {span.upper:g}.")
    if not span.finite or span.upper - span.lower < _NARROWEST:
        rule = f"must lie between -1e100 and 1e100, and high at least {_NARROWEST:g} above low."
        raise ParameterError("P107", "low / high", (span.lower, span.upper), rule)
    return span


def _check_work(reads: Sequence[BlockExpression], blocks: int) -> None:
    """Refuse before the charge what would take long after it."""
    parts = {call.text: sum(measured(e)[0] for e in call.read) for read in reads for call in read.calls}
    if len(parts) > _MOST_READ:
        rule = f"must have at most {_MOST_READ} different aggregates in all, not {len(parts)}."
        raise ParameterError("P107", "more", len(reads) - 1, rule)
    if sum(parts.values()) > MAX_NODES:
        rule = f"must have at most {MAX_NODES:,} parts in the arguments of all aggregates, not {sum(parts.values()):,}."
        raise ParameterError("P107", "more", len(reads) - 1, rule)
    steps = sum(read.steps for read in reads)
    if steps * blocks > _MOST_STEPS:
        rule = f"must be at most {_MOST_STEPS // steps:,} for {steps:,} aggregates, constants and operators in each."
        raise ParameterError("P107", "blocks", blocks, rule)


def _estimate(task: BlockTask, payload: str) -> Estimate:
    """The released number; of a mean with the interval for the mean of the blocks' values."""
    value, width, found = task.read(payload), task.half_width(), task.mechanism_of_blocks
    if width is None or not isinstance(found, BlockMean):
        return Estimate(value=value, note=_why(task))
    center = task.span.lower + int(json.loads(payload)["cells"]) * task.unit
    low, high = (min(max(end, task.span.lower), task.span.upper) for end in (center - width, center + width))
    error = math.sqrt(found.noise.variance()) * task.unit
    return Estimate(value=value, standard_error=error, low=low, high=high, note=_COMBINED)


def _rows_told(task: BlockTask) -> str:
    return "" if task.where is None else f" where {show(task.where)}"


def _placed_told(task: BlockTask) -> str:
    unit = "each row" if task.table.unit_key is None else f"all rows of one {name_unit(task.table)}"
    return f"a hash puts {unit} into one of them, so at most {task.changed} of them change"


def _ranged_told(task: BlockTask) -> str:
    span = task.span
    middle = (span.lower + span.upper) / 2
    return f"{task.asked.told} in [{span.lower:g}, {span.upper:g}]; {middle:g} where a block has none"


def _notes(*tasks: BlockTask) -> list[str]:
    return [_OF_BLOCKS] if any(task.asked.grows for task in tasks) else []


def _why(task: BlockTask) -> str:
    return _OF_RANKS if task.combination == "median" else NO_INTERVAL_REASON


def _told(task: BlockTask) -> str:
    found = task.mechanism_of_blocks
    if isinstance(found, BlockMedian):
        worse = found.ranks(_KEPT)
        if 2 * worse >= task.blocks:  # no value has more than all blocks on one side
            return f"a median of their values; {_FEW_RANKS}"
        return f"a median of their values; 95%: at most {worse:,} blocks more than half lie on one side of it"
    if isinstance(found, BlockMean):
        return "the mean of their values"
    return "the middle of the shortest range that half of their values fill, the centre of attention"

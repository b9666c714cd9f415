"""Which counts reach a threshold: of a list of predicates, or of predicates as they are asked, misses unlimited."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from duckdp.compiler.above_threshold import MECHANISM, AboveThreshold, SparseStream
from duckdp.core.errorbars import half_width
from duckdp.core.types import parse_epsilon
from duckdp.errors import CatalogError, ParameterError
from duckdp.functions.kinds import Epsilon, Flag, Fresh, Predicate, Predicates, Size, TableName, Whole
from duckdp.functions.planned import Planned, predicate_text, read_predicates, read_where, with_errors
from duckdp.functions.spec import DpFunction, Explained, argument, dp_function, option
from duckdp.mechanisms.sparse_vector import SparseVector
from duckdp.result import Estimate, Result, ResultColumn

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

MOST_HITS = 10_000  # of one handle: the noise grows with them
TOLD_OF = 100  # questions of which explain says how far answers may be off
THRESHOLD = "how many units, or rows where there is no unit"
HITS = "with so many it ends; the noise grows with them"
VALUES = "whether hits have a noisy count, for half of epsilon"
_VALUE = ("value", "BIGINT")


@dp_function(
    "dp_above_threshold", costs="epsilon", example="'care', ['age < 18', 'age >= 60'], 1000, epsilon := 0.1, hits := 2"
)
@dataclass(frozen=True, kw_only=True)
class Above(Explained):
    """The first predicates of a list that a threshold of units fulfil, up to a number of hits that is paid for."""

    table: TableName = argument()
    candidates: Predicates = argument()
    threshold: Whole = argument(about=THRESHOLD)
    epsilon: Epsilon | None = option(None)
    hits: Size = option(1, about=HITS)
    values: Flag = option(False, about=VALUES)
    predicate: Predicate | None = option(None)
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """A row for each predicate in the list's order; NULL after the last hit that was paid for."""
        task, texts = self._task(desk), list(self.candidates)
        name = task.table.name
        text = f"dp_above_threshold({name}, {texts!r}, {self.threshold}{self._terms()}{predicate_text(self.predicate)})"
        shape = [("predicate", "VARCHAR"), ("above", "BOOLEAN"), *([_VALUE] if self.values else [])]

        def run(nonce: str) -> Result:
            done = desk.perform(task, table=task.table, statement=text, fresh=self.fresh, nonce=nonce)
            found = task.read(done.payload)
            columns = [_plain("predicate", texts), _plain("above", [above for above, _ in found])]
            if self.values:
                columns.append(_valued(task.vector, [value for _, value in found]))
            return desk.dress(columns, task.loss, done, notes=task.errors(len(texts)))

        errors = with_errors([_VALUE])[1:] if self.values else []
        return Planned(columns=shape + errors, run=run, intervals=self.values, rows=len(texts))

    def explain(self, desk: Desk) -> Sequence[str]:
        """How far answers may be off, and at what cost."""
        task = self._task(desk)
        lines = [f"in their order, up to {_hits(self.hits)}, which of {len(self.candidates)} predicates are above"]
        return [*lines, *_lines(task, desk, len(self.candidates))]

    def _terms(self) -> str:
        hits = "" if self.hits == 1 else f", hits := {self.hits}"
        return hits + (", values := true" if self.values else "")

    def _task(self, desk: Desk) -> AboveThreshold:
        table = desk.table(self.table)
        predicates = read_predicates(self.candidates, table)
        if self.hits > len(predicates):
            raise ParameterError("P107", "hits", self.hits, f"must be at most {len(predicates)}, the candidates.")
        return AboveThreshold(
            table=table,
            where=read_where(self.predicate, table),
            threshold=self.threshold,
            hits=self.hits,
            valued=self.values,
            epsilon_nano=parse_epsilon(self.epsilon),
            neighbours=desk.neighbours,
            predicates=predicates,
        )


@dp_function(
    "dp_sparse_open",
    forms=("table", "value"),
    fields=("handle",),
    costs="epsilon; every question is free",
    example="'care', 1000, epsilon := 0.5, hits := 3",
)
@dataclass(frozen=True, kw_only=True)
class SparseOpen(Explained):
    """A handle for `dp_sparse_ask`: any number of questions, up to a number of hits that is paid for."""

    table: TableName = argument()
    threshold: Whole = argument(about=f"of questions that bring none: {THRESHOLD}")
    epsilon: Epsilon | None = option(None)
    hits: Size = option(1, about=HITS)
    values: Flag = option(False, about=VALUES)
    predicate: Predicate | None = option(None, about="which rows count, as WHERE takes it")
    fresh: Fresh = option(False, explained=False, about="pay again, for another handle")

    def plan(self, desk: Desk) -> Planned:
        """One row with the handle, and how many hits it was paid for."""
        task = self._task(desk)

        def run(nonce: str) -> Result:
            opened = replace(task, opened=nonce if self.fresh else "")
            hits = "" if self.hits == 1 else f", hits := {self.hits}"
            values = ", values := true" if self.values else ""
            where = predicate_text(self.predicate)
            text = f"dp_sparse_open({task.table.name}, {self.threshold}{hits}{values}{where})"
            done = desk.open_release(opened, table=task.table, statement=text)
            columns = [_plain("handle", [done.charge_id]), _plain("hits", [self.hits])]
            notes = [f"ask it: dp_sparse_ask({done.charge_id}, 'x > 1'), until {_hits(self.hits)}"]
            return desk.dress(columns, task.loss, done, notes=notes)

        return Planned(columns=[("handle", "BIGINT"), ("hits", "BIGINT")], run=run, rows=1)

    def explain(self, desk: Desk) -> Sequence[str]:
        """How far answers may be off, and at what cost."""
        task = self._task(desk)
        return [f"a handle for any number of questions, until {_hits(self.hits)}", *_lines(task, desk, TOLD_OF)]

    def _task(self, desk: Desk) -> SparseStream:
        if self.hits > MOST_HITS:
            raise ParameterError("P107", "hits", self.hits, f"must be at most {MOST_HITS:,}.")
        table = desk.table(self.table)
        return SparseStream(
            table=table,
            where=read_where(self.predicate, table),
            threshold=self.threshold,
            hits=self.hits,
            valued=self.values,
            epsilon_nano=parse_epsilon(self.epsilon),
            neighbours=desk.neighbours,
            source=self.predicate,
            opened="",
        )


@dp_function("dp_sparse_ask", forms=("table", "value"), fields=("above",))
@dataclass(frozen=True, kw_only=True)
class SparseAsk(DpFunction):
    """Whether the units that fulfil a predicate reach the threshold of a handle, which paid for it."""

    handle: Size = argument(about="of `dp_sparse_open`")
    predicate: Predicate = argument()
    threshold: Whole | None = option(None, about="of this question; the handle's where it is left out")

    def plan(self, desk: Desk) -> Planned:
        """One row: whether it is a hit, its value if the handle gives such, and how many hits are left."""
        charge = desk.own_charge(self.handle)
        given: dict[str, Any] = json.loads(charge.parameters)
        if charge.mechanism != MECHANISM or "opened" not in given:
            raise CatalogError("C110", f"charge {charge.id} is no handle. dp_sparse_open gives one.")
        task = _opened(desk, given, charge.loss.epsilon_nano)
        (predicate,) = read_predicates([self.predicate], task.table)
        shape = [("above", "BOOLEAN"), *([_VALUE] if task.valued else []), ("hits_left", "BIGINT")]

        def run(_: str) -> Result:
            question = task.question(predicate, self.threshold)
            found = json.loads(desk.ask_on(charge, task, [question], table=task.table)[-1])
            columns = [_plain("above", [found["above"]]), _plain("hits_left", [found["left"]])]
            if task.valued:
                columns.insert(1, _valued(task.vector, [found["value"]]))
            return Result(columns=columns, source=f"charge {charge.id}")

        errors = with_errors([_VALUE])[1:] if task.valued else []
        return Planned(columns=shape + errors, run=run, intervals=task.valued, rows=1)


def _opened(desk: Desk, given: Mapping[str, Any], epsilon_nano: int) -> SparseStream:
    """The task that a handle was opened for, from what its charge says."""
    table = desk.table(given["table"])
    return SparseStream(
        table=table,
        where=read_where(given["where"], table),
        threshold=given["threshold"],
        hits=given["hits"],
        valued=given["values"],
        epsilon_nano=epsilon_nano,
        neighbours=desk.neighbours,
        source=given["where"],
        opened=given["opened"],
    )


def _hits(count: int) -> str:
    return "the first hit" if count == 1 else f"{count:,} hits"


def _lines(task: AboveThreshold | SparseStream, desk: Desk, questions: int) -> list[str]:
    vector, shown = task.vector, []
    if task.valued:
        shown = [f"95%: the value of each hit is within {half_width(vector.value_noise):,} of its count"]
    return [*task.errors(questions), *shown, f"cost: {task.loss}", desk.remaining_text(task.loss)]


def _plain(name: str, values: list[Any]) -> ResultColumn:
    kind = {"predicate": "VARCHAR", "above": "BOOLEAN"}.get(name, "BIGINT")
    return ResultColumn(name=name, type=kind, values=values)


def _valued(vector: SparseVector, values: list[int | None]) -> ResultColumn:
    """Values of hits with their intervals, which hold of each; nothing for a miss."""
    width, deviation = half_width(vector.value_noise), math.sqrt(vector.value_noise.variance())
    estimates = [
        Estimate(value=None)
        if value is None
        else Estimate(
            value=value, standard_error=deviation, low=max(0, value - width), high=max(0, value + width), exact=True
        )
        for value in values
    ]
    return ResultColumn(name="value", type="BIGINT", values=list(values), estimates=estimates)

"""The candidates that most privacy units have, chosen privately: values of a declared domain, or predicates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duckdp.catalog.table import Table, describe_unit
from duckdp.compiler.choice import PredicateChoice, ValueChoice
from duckdp.compiler.common_keys import HeavyHittersTask
from duckdp.compiler.describe import pretty
from duckdp.compiler.evaluate import key_type
from duckdp.compiler.expression import show
from duckdp.compiler.grouping import read_keys
from duckdp.core.types import parse_delta, parse_epsilon
from duckdp.errors import ParameterError
from duckdp.functions.kinds import Delta, Epsilon, Fresh, Keys, Predicate, Predicates, Size, TableName
from duckdp.functions.planned import Planned, predicate_text, read_predicates, read_where
from duckdp.functions.spec import Explained, argument, dp_function, option
from duckdp.result import Result, ResultColumn

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

MOST_LOOKED_AT = 2_000_000  # scores of all picks together, of which each draws noise: seconds
MOST_TOLD = 1_000  # keys that nobody declared: how many there are to look at for each is private


class _Choosing(Explained):
    """Ranks of the chosen, the best first, and how far each may be from the best that was left."""

    table: str
    k: int
    epsilon: object
    delta: object
    predicate: str | None
    fresh: bool

    def explain(self, desk: Desk) -> Sequence[str]:
        """How many there are to choose from, how each is chosen, and how good the choice is."""
        task = self._task(desk)
        what, how_good = task.describe()
        where = "" if task.where is None else f" where {pretty(task.where)}"
        whom = [*describe_unit(task.table, task.neighbours.value), f"reads: {task.table.name}{where}"]
        return [what, *(f"  {line}" for line in whom), f"cost: {task.loss}", how_good, desk.remaining_text(task.loss)]

    @abstractmethod
    def _task(self, desk: Desk) -> ValueChoice | PredicateChoice | HeavyHittersTask:
        """The task, if the arguments are in order."""

    def _terms(self, desk: Desk, table: Table) -> dict[str, Any]:
        return {
            "table": table,
            "where": read_where(self.predicate, table),
            "picks": self.k,
            "epsilon_nano": parse_epsilon(self.epsilon),
            "delta_atto": parse_delta(self.delta),
            "neighbours": desk.neighbours,
        }

    def _planned(
        self,
        desk: Desk,
        task: ValueChoice | PredicateChoice,
        text: str,
        names: Sequence[tuple[str, str]],
        values: Callable[[int], Sequence[Any]],
    ) -> Planned:
        """A row for each rank. ``values`` of a candidate's place, by column of ``names``."""
        shape = [("rank", "BIGINT"), *names, ("within", "BIGINT")]
        unit = task.table.unit_key or "row"

        def run(nonce: str) -> Result:
            done = desk.perform(task, table=task.table, statement=text, fresh=self.fresh, nonce=nonce)
            chosen = task.read(done.payload)
            shown = [[values(place)[i] for place in chosen] for i in range(len(names))]
            rows = [list(range(1, len(chosen) + 1)), *shown, [task.top.shortfall()] * len(chosen)]
            columns = [ResultColumn(name=n, type=t, values=v) for (n, t), v in zip(shape, rows, strict=True)]
            note = f"within: with 95%, what is shown is no further from the best that was left, counted by {unit}"
            return desk.dress(columns, task.loss, done, notes=[note])

        return Planned(columns=shape, run=run, rows=task.picks)


def _require_few(k: int, candidates: int) -> None:
    if k > candidates:
        raise ParameterError("P107", "k", k, f"must be at most {candidates:,}, the candidates there are.")
    if k * candidates > MOST_LOOKED_AT:
        rule = f"looks at {k * candidates:,} counts, more than {MOST_LOOKED_AT:,}. Take a smaller k, or fewer values."
        raise ParameterError("P107", "k", k, rule)


@dp_function("dp_top_k", costs="epsilon, delta", example="'care', 'sex', 1, epsilon := 0.1")
@dataclass(frozen=True, kw_only=True)
class TopK(_Choosing):
    """The k values of a column, or groups, that most units have, without their counts."""

    table: TableName = argument()
    keys: Keys = argument()
    k: Size = argument()
    epsilon: Epsilon | None = option(None)
    delta: Delta = option(0, about="above 0 many picks cost less, and values need no declared domain")
    predicate: Predicate | None = option(None)
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """As many rows as k, or fewer of keys that nobody declared; a column for each key."""
        task = self._task(desk)
        alone = len(task.keys) == 1
        names = [("value" if alone else f"value_{i}", key_type(key)) for i, key in enumerate(task.keys, 1)]
        text = f"dp_top_k({task.table.name}, {self._grouping()}, {self.k}{predicate_text(self.predicate)})"
        if isinstance(task, HeavyHittersTask):
            return self._told(desk, task, text, names)
        return self._planned(desk, task, text, names, task.values)

    def _told(self, desk: Desk, task: HeavyHittersTask, text: str, names: Sequence[tuple[str, str]]) -> Planned:
        """A row for each key that is told."""
        shape = [("rank", "BIGINT"), *names, ("within", "BIGINT")]
        unit = task.table.unit_key or "row"

        def run(nonce: str) -> Result:
            done = desk.perform(task, table=task.table, statement=text, fresh=self.fresh, nonce=nonce)
            found = task.read(done.payload)
            shown = [[values[i] for values in found] for i in range(len(names))]
            rows: list[list[Any]] = [list(range(1, len(found) + 1)), *shown, [task.within] * len(found)]
            columns = [ResultColumn(name=n, type=t, values=v) for (n, t), v in zip(shape, rows, strict=True)]
            notes = [
                f"within: with 95%, what is shown is no further from the best that was left, counted by {unit}",
                f"values of which fewer than about {task.hitters.tau:,} are known are not shown",
            ]
            return desk.dress(columns, task.loss, done, notes=notes)

        return Planned(columns=shape, run=run, rows=task.picks)

    def _task(self, desk: Desk) -> ValueChoice | HeavyHittersTask:
        table = desk.table(self.table)
        keys = read_keys(self._grouping(), table)
        size, terms = 1, self._terms(desk, table)
        for key in keys:
            if key.domain is None and terms["delta_atto"] == 0:
                rule = (
                    f"has no declared domain ({show(key.expr)}), so its values are private. Give delta, for example "
                    "1e-8: those that enough units have are told; or ask the owner for domains={...}."
                )
                raise ParameterError("P107", "keys", self._grouping(), rule)
            size *= 1 if key.domain is None else len(key.domain)
        if any(key.domain is None for key in keys):
            if self.k > MOST_TOLD:
                raise ParameterError("P107", "k", self.k, f"must be at most {MOST_TOLD:,} where keys are not declared.")
            task = HeavyHittersTask(keys=keys, **terms)
            _ = task.loss  # too little epsilon or delta is refused now
            return task
        _require_few(self.k, size)
        return ValueChoice(keys=keys, **terms)

    def _grouping(self) -> str:
        return self.keys if isinstance(self.keys, str) else ", ".join(self.keys)


@dp_function("dp_choose", costs="epsilon, delta", example="'care', ['age < 18', 'age >= 65'], epsilon := 0.1")
@dataclass(frozen=True, kw_only=True)
class Choose(_Choosing):
    """The predicate of a list, or the k predicates, that most units fulfil, without their counts."""

    table: TableName = argument()
    candidates: Predicates = argument()
    epsilon: Epsilon | None = option(None)
    k: Size = option(1, about="how many are chosen")
    delta: Delta = option(0, about="above 0 many picks cost less")
    predicate: Predicate | None = option(None)
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """As many rows as k, with the predicates as they were written."""
        task = self._task(desk)
        text = f"dp_choose({task.table.name}, {list(self.candidates)!r}, k := {self.k}{predicate_text(self.predicate)})"
        return self._planned(desk, task, text, [("value", "VARCHAR")], lambda place: [self.candidates[place]])

    def _task(self, desk: Desk) -> PredicateChoice:
        table = desk.table(self.table)
        predicates = read_predicates(self.candidates, table)
        _require_few(self.k, len(predicates))
        return PredicateChoice(predicates=predicates, **self._terms(desk, table))

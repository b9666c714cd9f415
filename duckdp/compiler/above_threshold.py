"""Which predicates hold for enough privacy units: of a list at once, or one after the other as they are asked.

What is counted, and why a unit changes each count by at most 1: ``unit_counts.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from duckdp.catalog.table import Table, dump_table
from duckdp.compiler.expression import Expr, show
from duckdp.compiler.unit_counts import count_units
from duckdp.core.reads import PrivateQuery, Read, one_row
from duckdp.core.steps import Past
from duckdp.core.task import OneRead, Question, Step
from duckdp.core.types import Loss, Neighbours
from duckdp.errors import InternalError
from duckdp.mechanisms.sparse_vector import SparseVector

MECHANISM = "sparse vector"  # in the ledger
_EACH = 0.975  # of two statements that hold together with 95%


@dataclass(frozen=True, kw_only=True)
class _Above:
    """What both have: what is counted, and against what.

    Attributes:
        table: protected.
        where: which rows count, or None.
        threshold: units.
        hits: with so many it ends.
        valued: whether hits have values.
        epsilon_nano: the charge, in 1e-9.
        neighbours: relation of the data set.
    """

    table: Table
    where: Expr | None
    threshold: int
    hits: int
    valued: bool
    epsilon_nano: int
    neighbours: Neighbours

    @cached_property
    def vector(self) -> SparseVector:
        """The mechanism. Counts of units move one way where a unit comes or goes, both ways where it is replaced."""
        return SparseVector(
            hits=self.hits,
            epsilon_nano=self.epsilon_nano,
            monotone=self.neighbours is Neighbours.ADD_REMOVE,
            valued=self.valued,
        )

    @property
    def loss(self) -> Loss:
        """What all questions cost together."""
        return self.vector.loss

    @property
    def mechanism(self) -> str:
        """The mechanism's name in the ledger."""
        return MECHANISM

    @property
    def units(self) -> str:
        """What is counted, in words."""
        return "rows" if self.table.unit_key is None else f"values of {self.table.unit_key}"

    def errors(self, questions: int) -> list[str]:
        """What is known of answers to so many questions; lines of ``explain``."""
        short, over = self.vector.hit_error(questions, _EACH), self.vector.miss_error(_EACH)
        low, high = self.threshold - short, self.threshold + over
        return [
            f"95%, of {questions:,} questions: what is above has at least {low:,} {self.units}, "
            f"what is not has at most {high:,}",
        ]

    def _terms(self) -> list[Any]:
        given = [self.threshold, self.hits, self.valued, self.epsilon_nano, self.neighbours.value]
        return [dump_table(self.table), show(self.where), *given]


@dataclass(frozen=True, kw_only=True)
class AboveThreshold(_Above, OneRead):
    """Predicates in their order, up to the last hit that is paid for (core/task.py).

    Attributes:
        predicates: of rows.
    """

    predicates: tuple[Expr, ...]

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        return json.dumps(["above threshold", *self._terms(), [show(p) for p in self.predicates]])

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        given = {"where": show(self.where), "candidates": len(self.predicates), "threshold": self.threshold}
        return {**given, "hits": self.hits, "values": self.valued}

    def query(self, salt: int) -> PrivateQuery:  # noqa: ARG002 - nothing is chosen by a hash
        """The private read: one row with the number of units of each predicate."""
        return count_units(self.table, self.where, self.predicates)

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Hits and misses, and values. ``rows``: exact and private."""
        counts = [int(units or 0) for units in one_row(rows, len(self.predicates))]
        return json.dumps([[look.above, look.value] for look in self.vector.look_through(counts, self.threshold)])

    def read(self, payload: str) -> list[tuple[bool | None, int | None]]:
        """(whether it is a hit, its value) of each predicate, from the stored payload; None after the end."""
        found = [(bool(above), value) for above, value in json.loads(payload)]
        if len(found) > len(self.predicates):
            raise InternalError("more predicates were answered than there are")
        return found + [(None, None)] * (len(self.predicates) - len(found))


@dataclass(frozen=True, kw_only=True)
class SparseStream(_Above):
    """Predicates as they are asked, until the last hit that was paid for (core/task.py, ``Interactive``).

    Attributes:
        source: of ``where``, as it was written; None: there is none.
        opened: tells it from others with the same terms.
    """

    source: str | None
    opened: str

    @property
    def canonical(self) -> str:
        """The release's identity: equal for equal terms, and for no others."""
        return json.dumps(["sparse stream", *self._terms(), self.opened])

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger; with what the charge says they make the task again."""
        given = {"table": self.table.name, "where": self.source, "threshold": self.threshold, "hits": self.hits}
        return {**given, "values": self.valued, "opened": self.opened}

    def begin(self) -> str:
        """The noise of the threshold: secret, drawn once."""
        return json.dumps(self.vector.begin())

    def question(self, predicate: Expr, threshold: int | None = None) -> Question:
        """Do the units that fulfil a predicate reach the threshold, or another one that is given?"""
        wanted = self.threshold if threshold is None else threshold

        def draw(read: Read, past: Past) -> Step:
            (units,) = one_row(read(count_units(self.table, self.where, (predicate,))), 1)
            look = self.vector.look(int(units or 0), wanted, int(json.loads(past.secrets[0])))
            left = (json.loads(past.outputs[-1])["left"] if past.outputs else self.hits) - look.above
            output = {"above": look.above, "value": look.value, "left": left}
            return Step(output=json.dumps(output), last=left == 0)

        return Question(canonical=json.dumps([show(predicate), wanted]), draw=draw)

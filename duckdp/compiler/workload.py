"""Weights over the cells of some columns that fit a workload of counts and sums (MWEM), a stage for each round.

What is counted or added up, and why a unit changes each by at most 1: ``unit_counts.py``. A cell is a value of each
column.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from math import prod
from typing import Any

from duckdp.catalog.table import Kind, Scalar, Table, dump_table
from duckdp.compiler.expression import Expr, show
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.query import Key
from duckdp.compiler.scope import read_predicate
from duckdp.compiler.unit_counts import count_units, in_units, sum_rounding
from duckdp.compiler.weighted_stream import asked_of
from duckdp.core.errorbars import half_width
from duckdp.core.reads import one_row
from duckdp.core.task import Stages, Work
from duckdp.core.types import Loss, Neighbours
from duckdp.mechanisms.multiplicative_weights import Asked, Weights, mended, share_of
from duckdp.mechanisms.mwem import WorstQuestions


@dataclass(frozen=True, kw_only=True)
class WorkloadTask:
    """Planned weights for a workload (core/task.py).

    Attributes:
        table: protected.
        keys: plain columns with domains; their product is the cells.
        questions: predicates of these columns alone, or numbers of them from 0 to 1.
        rounds: how many questions are measured, at most as many as there are.
        epsilon_nano: the charge, in 1e-9.
        neighbours: relation of the data set.
    """

    table: Table
    keys: tuple[Key, ...]
    questions: tuple[Expr, ...]
    rounds: int
    epsilon_nano: int
    neighbours: Neighbours

    @cached_property
    def worst(self) -> WorstQuestions:
        """The mechanism, of these figures."""
        return WorstQuestions(rounds=self.rounds, epsilon_nano=self.epsilon_nano)

    @property
    def loss(self) -> Loss:
        """What the total and all rounds cost together."""
        return self.worst.loss

    @property
    def mechanism(self) -> str:
        """The mechanisms of the stages, for the ledger."""
        return "laplace, exponential"

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        keys = [[show(key.expr), [str(v) for v in key.domain or ()]] for key in self.keys]
        terms = [self.rounds, self.epsilon_nano, self.neighbours.value]
        return json.dumps(["workload", dump_table(self.table), keys, [show(q) for q in self.questions], *terms])

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger."""
        return {"columns": [k.name for k in self.keys], "questions": len(self.questions), "rounds": self.rounds}

    @property
    def cells(self) -> int:
        """How many cells there are, and so weights."""
        return prod(len(key.domain or ()) for key in self.keys)

    @cached_property
    def members(self) -> tuple[Asked, ...]:
        """Which cells fulfil each question, or how much each counts; from declarations alone.

        Raises:
            ParameterError: P107, a number that is not from 0 to 1 in all cells.
        """
        return tuple(asked_of(self.keys, question, show(question)) for question in self.questions)

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        measured, short = half_width(self.worst.noise), self.worst.short(len(self.questions))
        sums = any(question.kind is Kind.NUMBER for question in self.questions)
        more = f"; a sum is rounded: within {sum_rounding(self.table.row_cap):.4g} more" if sums else ""
        return [
            f"weights over {self.cells:,} cells, mended to {self.rounds} of {len(self.questions):,} questions in turn",
            f"95%: each is short of the worst one by at most {short:,} units, and measured within {measured:,}{more}",
        ]

    def work(self, salt: int) -> Work:  # noqa: ARG002 - nothing is chosen by a hash
        """A stage for the total, and one for each round."""
        _ = self.worst.noise, self.members
        everybody = read_predicate(parse_scalar("TRUE"), self.table, "TRUE")
        query, counted = count_units(self.table, None, self.questions), count_units(self.table, None, (everybody,))

        def begin(stages: Stages) -> str:
            (units,) = one_row(stages.read(counted), 1)
            return json.dumps(self.worst.total(int(units or 0)))

        def measured(stages: Stages, total: int, known: list[tuple[int, int]]) -> str:
            weights = self.weights(total, known)
            left = [i for i in range(len(self.questions)) if i not in {place for place, _ in known}]
            guesses = [round(total * share_of(weights, self.members[i])) for i in left]
            found = one_row(stages.read(query), len(self.questions))
            exact = [in_units(question, units) for question, units in zip(self.questions, found, strict=True)]
            place, noisy = self.worst.measure([exact[i] for i in left], guesses)
            return json.dumps([left[place], noisy])

        def run(stages: Stages) -> str:
            total: int = json.loads(stages.run(partial(begin, stages)))
            known: list[tuple[int, int]] = []
            for _ in range(self.rounds - 1):
                place, noisy = json.loads(stages.run(partial(measured, stages, total, known)))
                known.append((place, noisy))
            return stages.last(
                lambda: json.dumps({"total": total, "known": [*known, json.loads(measured(stages, total, known))]})
            )

        return run

    def weights(self, total: int, known: Sequence[Sequence[int]]) -> Weights:
        """The weights after what was measured, (place of a question, noisy count) each; public."""
        return mended(self.cells, total, [(self.members[place], float(noisy)) for place, noisy in known])

    def read(self, payload: str) -> tuple[list[tuple[Scalar, ...]], list[float]]:
        """Values of each cell, and how many units it has by the weights."""
        raw = json.loads(payload)
        weights = self.weights(raw["total"], raw["known"])
        return list(product(*(key.domain or () for key in self.keys))), [float(w) * raw["total"] for w in weights]

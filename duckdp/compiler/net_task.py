"""Many counts from a small database over the cells of some columns, which is chosen privately, as a task.

What is counted, and why a unit changes each count by at most 1: ``unit_counts.py``. A cell is a value of each column.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from duckdp.catalog.table import Table, dump_table
from duckdp.compiler.expression import Expr, show
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.query import Key
from duckdp.compiler.scope import read_predicate
from duckdp.compiler.unit_counts import count_units
from duckdp.compiler.weighted_stream import members_of
from duckdp.core.accountant import pure_rho
from duckdp.core.errorbars import Noise, half_width
from duckdp.core.noise import laplace_noise, laplace_scale
from duckdp.core.reads import PrivateQuery, one_row
from duckdp.core.task import Stages, Work
from duckdp.core.types import NANO, Loss, Neighbours
from duckdp.mechanisms.small_database import LARGEST, Net, best_size

TOTAL_SHARE = 10  # one part in this many pays for the number of units


@dataclass(frozen=True, kw_only=True)
class NetTask:
    """A planned small database (core/task.py).

    Attributes:
        table: protected.
        keys: plain columns with domains; their product is the universe.
        questions: predicates of these columns.
        size: m, rows of the small database; None: that of the least error bound.
        epsilon_nano: the charge, in 1e-9.
        neighbours: relation of the data set.
    """

    table: Table
    keys: tuple[Key, ...]
    questions: tuple[Expr, ...]
    size: int | None
    epsilon_nano: int
    neighbours: Neighbours

    @cached_property
    def net(self) -> Net:
        """The multisets to choose from.

        Raises:
            ParameterError: P107, they are too many.
        """
        members = np.array([members_of(self.keys, question) for question in self.questions])
        rows = float(self.table.expected_rows or self.table.row_cap)
        size = self.size
        if size is None:
            size = best_size(len(members), members.shape[1], rows, float(self.for_choice))
        return Net(members, size)

    @property
    def for_total(self) -> Fraction:
        """Epsilon of the number of units."""
        return Fraction(max(1, self.epsilon_nano // TOTAL_SHARE), NANO)

    @property
    def for_choice(self) -> Fraction:
        """Epsilon of the choice: all the rest, so that both come to the charge."""
        return Fraction(self.epsilon_nano, NANO) - self.for_total

    @cached_property
    def scale(self) -> float:
        """Noise of the number of units, which changes by at most 1."""
        return laplace_scale(self.for_total, 1)

    @property
    def margin(self) -> int:
        """Half-width of the number of units, at 97.5%."""
        return half_width(Noise("laplace", self.scale), 0.975)

    @property
    def loss(self) -> Loss:
        """What the total and the choice cost together."""
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=pure_rho(self.epsilon_nano))

    @property
    def mechanism(self) -> str:
        """The mechanism's name in the ledger."""
        return "small database"

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        keys = [[show(key.expr), [str(v) for v in key.domain or ()]] for key in self.keys]
        asked = [show(question) for question in self.questions]
        terms = [self.net.size, self.epsilon_nano, self.neighbours.value]
        return json.dumps(["small database", dump_table(self.table), keys, asked, *terms])

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        return {"columns": [key.name for key in self.keys], "questions": len(self.questions), "size": self.net.size}

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        rows, cells = float(self.table.expected_rows or self.table.row_cap), self.net.members.shape[1]
        count = math.comb(cells + self.net.size - 1, self.net.size)
        return [
            f"a database of {self.net.size} rows over {cells} cells, chosen of {count:,} by their largest error over "
            f"{len(self.questions)} questions",
            f"92%: of {rows:,.0f} units, each in one cell, all answers are within {self.within(rows):,.0f}",
        ]

    def within(self, total: float) -> float:
        """How far all answers are from the counts at most, with about 92%: the mechanism's bound."""
        return self.net.error(total + self.margin, self.margin, self.for_choice)

    def work(self, salt: int) -> Work:  # noqa: ARG002 - nothing is chosen by a hash
        """The noisy total, stored; then the choice."""
        everybody = read_predicate(parse_scalar("TRUE"), self.table, "TRUE")
        total_read = count_units(self.table, None, (everybody,))
        read, net, _ = count_units(self.table, None, self.questions), self.net, self.scale

        def run(stages: Stages) -> str:
            noisy = int(stages.run(lambda: str(self._noisy_total(stages, total_read))))
            total = min(max(0, noisy), LARGEST)  # nearer to the number of units, if anything

            def choose() -> str:
                found = one_row(stages.read(read), len(self.questions))
                chosen = net.choose([int(units or 0) for units in found], total, self.for_choice)
                return json.dumps({"total": total, "cells": chosen})

            return stages.last(choose)

        return run

    def _noisy_total(self, stages: Stages, query: PrivateQuery) -> int:
        (units,) = one_row(stages.read(query), 1)
        return int(units or 0) + laplace_noise(1, self.scale)[0]

    def answers(self, payload: str) -> tuple[list[float], float]:
        """(the answer of each question, how far they may be), from the stored payload."""
        found = json.loads(payload)
        return self.net.answers(found["cells"], found["total"]), self.within(found["total"])

"""An aggregate by sample and aggregate, as a task: of each of m blocks of privacy units by DuckDB, then combined.

What is asked may be an expression over several aggregates: the value of a block is a function of theirs.

Claim:        between neighbours at most ``changed`` of the m values of blocks differ: 1 where a unit comes or goes, 2
              where one is replaced. How many rows the unit has does not matter.
Proof sketch: 1. Units with a key: the block of a row is hash(unit, salt) mod m, a function of its unit and of the data
              set's salt alone. So all rows of a unit are in one block, and no unit's block follows from other units.
              (Blocks of equal size would: who leaves would move others.)
              2. Rows: rows that are equal in what is read are counted, and copy 0, 1, ... of them is in block
              hash(values, copy, salt) mod m. A row more of values v, of which there are n, adds copy n of v and moves
              no other: the set of pairs (v, copy) is a function of the multiset of rows, and grows by one pair.
              3. A replacement takes one unit away, and adds another one: two blocks at most.
              4. The value of a block is a function of the rows in it and of public figures: whole numbers and order
              statistics of whole numbers (``block_rows``), which follow from no order, thread or other block; then
              the same arithmetic. A value that is NULL, NaN or infinite, as those of a block without rows are (but
              counts, 0), is the middle of the declared range; any other is clamped to it. Both are functions of the
              block alone.
              5. Of several aggregates in one expression: ``block_vectors``, whose vectors differ in one block; the
              expression is a function of a block's vector.
Nothing here rests on the hash: it decides how alike blocks are, never what is lost. (It is hashed twice: DuckDB joins
the hash of the last argument by XOR alone.)

Estimates:    what is combined is near the aggregate of all rows where that of n / m rows is: a block of few rows errs
              more, and is biased where the aggregate is (by about 1 / rows for smooth ones). The interval of a mean
              is for the mean of the blocks' values, and does not cover that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from duckdp.catalog.table import Table, dump_table
from duckdp.compiler.block_aggregate import BlockAggregate, values_of
from duckdp.compiler.block_expression import BlockExpression
from duckdp.compiler.block_read import print_blocks
from duckdp.compiler.expression import Expr, show
from duckdp.core.accountant import pure_rho
from duckdp.core.errorbars import half_width
from duckdp.core.interval import Interval
from duckdp.core.reads import PrivateQuery
from duckdp.core.task import OneRead
from duckdp.core.types import NANO, Loss, Neighbours
from duckdp.mechanisms.block_mean import BlockMean
from duckdp.mechanisms.block_median import BlockMedian
from duckdp.mechanisms.center_of_attention import CenterOfAttention

Combination = Literal["mean", "median", "center"]
CELLS = 2**32  # of the range of the blocks' values
_ANYWHERE = 1 / 3  # of the range: how far a number that may be anywhere is from another one, on average
_MECHANISMS = {"mean": "laplace", "median": "exponential", "center": "smooth_sensitivity_student"}


@dataclass(frozen=True, kw_only=True)
class BlockTask(OneRead):
    """A planned aggregate of blocks (core/task.py).

    Attributes:
        table: protected.
        asked: the aggregate, or an expression over several.
        where: predicate, or None.
        blocks: m.
        span: of the blocks' values, finite and not empty.
        combination: how the values are combined.
        epsilon_nano: the charge, in 1e-9.
        neighbours: relation of the data set.
    """

    table: Table
    asked: BlockExpression
    where: Expr | None
    blocks: int
    span: Interval
    combination: Combination
    epsilon_nano: int
    neighbours: Neighbours

    @property
    def changed(self) -> int:
        """How many values of blocks differ between neighbours, at most."""
        return 1 if self.neighbours is Neighbours.ADD_REMOVE else 2

    @cached_property
    def mechanism_of_blocks(self) -> BlockMean | BlockMedian | CenterOfAttention:
        """What makes one private number of the values of blocks."""
        terms = {"epsilon_nano": self.epsilon_nano, "changed": self.changed, "cells": CELLS}
        if self.combination == "mean":
            return BlockMean(**terms)
        return BlockMedian(**terms) if self.combination == "median" else CenterOfAttention(**terms)

    @property
    def loss(self) -> Loss:
        """What it costs: the whole epsilon, for the one draw."""
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=pure_rho(self.epsilon_nano))

    @property
    def mechanism(self) -> str:
        """The mechanism's name in the ledger."""
        return _MECHANISMS[self.combination]

    @property
    def text(self) -> str:
        """What is asked, as it is identified."""
        return self.asked.text

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        ends = [repr(self.span.lower), repr(self.span.upper)]
        terms = [self.blocks, *ends, self.combination, self.epsilon_nano, self.neighbours.value]
        return json.dumps(["blocks", dump_table(self.table), self.text, show(self.where), *terms])

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger."""
        ends = {"low": self.span.lower, "high": self.span.upper}
        return {"aggregate": self.text, "where": show(self.where), "blocks": self.blocks, **ends}

    def query(self, salt: int) -> PrivateQuery:
        """The private read: (block, cells...), at most one row for each block."""
        return print_blocks(self.table, calls_of([self]), self.where, self.blocks, salt)

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """One private number of the values of blocks. ``rows``: of :meth:`query`, exact and private."""
        return json.dumps({"cells": self.mechanism_of_blocks.release(self.values(rows))})

    def values(self, rows: Iterable[tuple[Any, ...]]) -> list[int]:
        """Each block's value, in cells of the range; as private as the rows."""
        return [value for (value,) in vectors_of([self], rows)]

    def read(self, payload: str) -> float:
        """The released number in the units of the aggregate, within its range."""
        released, steps = int(json.loads(payload)["cells"]), {"mean": self.blocks, "median": 1, "center": 2}
        share = released / (steps[self.combination] * CELLS)
        return min(max(self.span.lower + share * (self.span.upper - self.span.lower), self.span.lower), self.span.upper)

    @property
    def unit(self) -> float:
        """What a cell of the sum over all blocks is in the mean, in the units of the aggregate."""
        return (self.span.upper - self.span.lower) / (self.blocks * CELLS)

    def half_width(self) -> float | None:
        """Half the width of the 95% interval for the mean of the values; None where there is no interval."""
        found = self.mechanism_of_blocks
        return half_width(found.noise) * self.unit if isinstance(found, BlockMean) else None

    def cell(self, values: Mapping[str, float | None]) -> int:
        """A block's value on the grid of the range, in the middle where there is none. ``values``: of its calls."""
        value = self.asked.value(values)
        if value is None:
            return CELLS // 2
        share = (min(max(value, self.span.lower), self.span.upper) - self.span.lower) / (
            self.span.upper - self.span.lower
        )
        return min(max(math.floor(share * CELLS + 0.5), 0), CELLS)


def calls_of(parts: Sequence[BlockTask]) -> list[BlockAggregate]:
    """The different aggregates in what is asked, in the order in which they are read."""
    return list({call.text: call for part in parts for call in part.asked.calls}.values())


def vectors_of(parts: Sequence[BlockTask], rows: Iterable[tuple[Any, ...]]) -> list[list[int]]:
    """Each block's values, in cells of the ranges; as private as the rows.

    They are found for every block anew, so that the work is the same whatever rows there are.

    Args:
        parts: of the same blocks.
        rows: (block, cells...) of :func:`calls_of`.
    """
    calls = calls_of(parts)
    none, read = [None] * sum(len(call.cells) for call in calls), {block: cells for block, *cells in rows}
    each = (values_of(calls, read.get(block, none)) for block in range(parts[0].blocks))
    return [[part.cell(values) for part in parts] for values in each]


def predicted_error(blocks: int, rows: int, *, combination: Combination, epsilon: float, changed: int) -> float:
    """The mean of how far noise moves what is released, as a part of the range: to choose by, from public figures.

    Values of blocks of b rows are taken to spread by 1 / (2 sqrt(b)) of the range, as means of b values at most do. A
    median's chance to fall outside of all values is that of their weights: exp(-rate m / 2) for the whole range,
    against about 5 spreads / (rate m) around the middle, where ranks are 2.5 spreads / m apart.
    """
    spread = 0.5 / math.sqrt(max(1.0, rows / blocks))
    if combination == "mean":
        error = changed / (blocks * epsilon)
    elif combination == "median":
        ranks = blocks * epsilon / (2 * changed)
        far, near = math.exp(-ranks / 2), 5 * spread / ranks
        error = (far * _ANYWHERE + near * min(_ANYWHERE, 2.5 * spread / ranks)) / (far + near)
    else:  # 2.7: ranges of half of the values; 1.41: the mean of Student's law; 0.63: alpha of epsilon 1
        error = 1.41 * max(2.7 * spread, math.exp(-epsilon * blocks / (6 * changed))) / (0.63 * epsilon)
    return min(_ANYWHERE, error)


def best_combination(blocks: int, rows: int, *, epsilon: float, changed: int) -> Combination:
    """The combination with the smallest predicted error."""
    options: tuple[Combination, ...] = ("mean", "median", "center")
    errors = {o: predicted_error(blocks, rows, combination=o, epsilon=epsilon, changed=changed) for o in options}
    return min(options, key=errors.__getitem__)


def epsilon_of(epsilon_nano: int) -> float:
    """A charge as a float, for predictions."""
    return epsilon_nano / NANO

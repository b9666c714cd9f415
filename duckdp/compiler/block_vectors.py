"""Several aggregates of the same blocks by sample and aggregate, as a task: a vector for each block, then combined.

Claim:        between neighbours at most ``changed`` of the m vectors differ, as of one aggregate's values.
Proof sketch: 1. A row has one block, whatever aggregates are asked: with a key that of its unit, as in
              ``block_values``; else that of all arguments of all aggregates together, NULLs among them, and of the
              copy, by the same argument: equal rows are those that are equal in all of them. (With a block for each
              aggregate's own arguments a row would change as many vectors as there are aggregates.)
              2. A block's vector is a function of its rows: each number as in ``block_values``, of the rows where none
              of its own arguments is NULL.
Privacy:      epsilon. "mean" and "median" combine each number by itself, for an equal part of epsilon: they add up.
              "center" combines the vectors by the centre of attention in l1 for the whole (``center_of_vectors``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from duckdp.catalog.table import Table, dump_table
from duckdp.compiler.block_read import print_blocks
from duckdp.compiler.block_values import CELLS, BlockTask, Combination, calls_of, vectors_of
from duckdp.compiler.expression import Expr, show
from duckdp.core.accountant import pure_rho
from duckdp.core.reads import PrivateQuery
from duckdp.core.task import OneRead
from duckdp.core.types import Loss, Neighbours
from duckdp.mechanisms.center_of_vectors import CenterOfVectors


@dataclass(frozen=True, kw_only=True)
class BlockVectorTask(OneRead):
    """Planned aggregates of blocks (core/task.py).

    Attributes:
        parts: two or more, of one table, predicate, number of blocks and combination; each for an equal part of
            epsilon.
        epsilon_nano: the charge, in 1e-9.
    """

    parts: tuple[BlockTask, ...]
    epsilon_nano: int

    @property
    def table(self) -> Table:
        """The protected table that is read."""
        return self.parts[0].table

    @property
    def where(self) -> Expr | None:
        """A predicate of the rows, or None: all rows count."""
        return self.parts[0].where

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return self.parts[0].blocks

    @property
    def combination(self) -> Combination:
        """How the values are combined."""
        return self.parts[0].combination

    @property
    def neighbours(self) -> Neighbours:
        """Relation of the data set."""
        return self.parts[0].neighbours

    @property
    def loss(self) -> Loss:
        """The cost of all aggregates together."""
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=pure_rho(self.epsilon_nano))

    @property
    def mechanism(self) -> str:
        """The mechanism's name in the ledger."""
        return self.parts[0].mechanism

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        asked = [[part.text, repr(part.span.lower), repr(part.span.upper)] for part in self.parts]
        terms = [self.blocks, self.combination, self.epsilon_nano, self.neighbours.value]
        return json.dumps(["block vectors", dump_table(self.table), asked, show(self.where), *terms])

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger."""
        return {"aggregates": [p.text for p in self.parts], "where": show(self.where), "blocks": self.blocks}

    @cached_property
    def center(self) -> CenterOfVectors:
        """What makes one private vector of all blocks', where that is asked.

        Raises:
            ParameterError: P101.
        """
        changed, size = self.parts[0].changed, len(self.parts)
        return CenterOfVectors(epsilon_nano=self.epsilon_nano, changed=changed, cells=CELLS, size=size)

    def query(self, salt: int) -> PrivateQuery:
        """The private read: (block, cells of the first aggregate, of the second, ...), one row for each block."""
        return print_blocks(self.table, calls_of(self.parts), self.where, self.blocks, salt)

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """A private vector of those of blocks. ``rows``: of :meth:`query`, exact and private."""
        vectors = self.values(rows)
        if self.combination == "center":
            return json.dumps({"cells": self.center.release(vectors)})
        each = zip(self.parts, zip(*vectors, strict=True), strict=True)
        return json.dumps({"cells": [part.mechanism_of_blocks.release(values) for part, values in each]})

    def values(self, rows: Iterable[tuple[Any, ...]]) -> list[list[int]]:
        """Each block's vector, in cells of the ranges; as private as the rows."""
        return vectors_of(self.parts, rows)

    def each(self, payload: str) -> list[str]:
        """What was released of each aggregate, as its part of the task reads it."""
        halves = 2 if self.combination == "center" else 1  # the centre of one number is in half cells
        return [json.dumps({"cells": halves * cells}) for cells in json.loads(payload)["cells"]]

"""A plan as a task: its private read, and the noise that turns exact cells into a payload that may leave."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from duckdp.catalog.table import Scalar
from duckdp.compiler.emit import emit, key_codes, key_values, read_cells
from duckdp.compiler.measures import Measure, sum_range
from duckdp.compiler.plan import Plan
from duckdp.core.reads import PrivateQuery
from duckdp.core.task import OneRead
from duckdp.core.types import Loss
from duckdp.errors import InternalError
from duckdp.mechanisms.additive import add_noise

CHUNK = 20_000  # groups noised at a time: bounds memory


@dataclass(frozen=True, kw_only=True)
class SelectTask(OneRead):
    """A planned SELECT with its noise (core/task.py)."""

    plan: Plan

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        return self.plan.canonical()

    @property
    def loss(self) -> Loss:
        """What the statement costs, all its measures together."""
        return self.plan.loss

    @property
    def mechanism(self) -> str:
        """Noise family, and the threshold when keys are open, or weights and their threshold."""
        chosen = "+threshold" if self.plan.unweighted is None else "+weights"
        return self.plan.family + (chosen if self.plan.tau is not None else "")

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        return self.plan.parameters()

    def query(self, salt: int) -> PrivateQuery:
        """The one private read, as SQL of our own."""
        return emit(self.plan, salt)

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Noise every cell; with public keys the groups are exactly the domain, in its order.

        Args:
            rows: (keys..., sums...) as :func:`emit` reads them; private.

        Returns:
            JSON: {"keys": [[...]] or null (public keys), "cells": [[int per cell] per group]}.
        """
        query, width = self.plan.query, len(self.plan.query.keys)
        if self.plan.tau is not None:
            return self._release_open(rows, width)
        found = {row[:width]: read_cells(self.plan, row[width:]) for row in rows}
        zeros = [0] * self.plan.cells
        exact = [found.get(key, zeros) for key in query.groups_of([key_codes(k) for k in query.keys])]
        return json.dumps({"keys": None, "cells": self._noised(exact)}, separators=(",", ":"))

    def _release_open(self, rows: Iterable[tuple[Any, ...]], width: int) -> str:
        keys: list[list[Any]] = []
        cells: list[list[int]] = []
        batch: list[tuple[Any, ...]] = []
        shown = [key_values(key) for key in self.plan.query.keys]

        def flush() -> None:
            for row, noisy in zip(batch, self._noised([read_cells(self.plan, r[width:]) for r in batch]), strict=True):
                if noisy[0] >= (self.plan.tau or 0):
                    values = [v if names is None else names[v] for v, names in zip(row, shown, strict=False)]
                    keys.append([encode_key(v) for v in values])
                    cells.append(noisy)
            batch.clear()

        for row in rows:
            batch.append(row)
            if len(batch) == CHUNK:
                flush()
        flush()
        return json.dumps({"keys": keys, "cells": cells}, separators=(",", ":"))

    def _noised(self, exact: list[list[int]]) -> list[list[int]]:
        """Noise a batch of groups, measure by measure; sums are clamped into the proved range first."""
        columns: list[list[int]] = []
        start = 0
        cap = self.plan.query.table.row_cap
        for measure, noise in zip(self.plan.measures, self.plan.noises, strict=True):
            low, high = cell_range(measure, cap)
            drawn = [
                min(max(g[j], low), high) for j in range(start, start + measure.noisy_cells) for g in exact
            ]  # one call for all: most of its time does not depend on how many
            if noise is None and drawn:
                raise InternalError("a noisy cell has no noise")
            noised = [] if noise is None else add_noise(drawn, noise)
            size = len(exact)
            columns += [noised[j * size : (j + 1) * size] for j in range(measure.noisy_cells)]
            if measure.fixed_total:
                # the last cell is public minus the noisy ones; degree 0: it is the public count itself
                totals = [sum(g[start : start + measure.cells]) for g in exact]
                noisy = columns[start : start + measure.noisy_cells]
                columns.append([t - sum(c[i] for c in noisy) for i, t in enumerate(totals)])
            start += measure.cells
        return [list(group) for group in zip(*columns, strict=True)]


def cell_range(measure: Measure, row_cap: int) -> tuple[int, int]:
    """Range of an exact cell that the plan's proof assumes; clamping to it is 1-Lipschitz."""
    if measure.kind == "sum":
        low, high = sum_range(measure)
        return row_cap * min(low, 0), row_cap * max(high, 0)
    if measure.kind == "centred":
        return -row_cap * measure.largest, row_cap * measure.largest
    return 0, row_cap * measure.largest


def encode_key(value: Scalar) -> Any:
    """A released key as a JSON value; dates as ISO text (their kind is in the plan).

    0 has no sign: a group of 0 and -0 shows that of the row that the engine met first, which may be one person's.
    """
    if isinstance(value, float):
        return value + 0.0
    return value.isoformat() if hasattr(value, "isoformat") else value  # type: ignore[union-attr]

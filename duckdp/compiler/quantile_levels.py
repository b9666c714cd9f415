"""Several quantiles of one column as a task: drawn by levels, each from what the one before cut out, in one charge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import Any

from duckdp.catalog.table import Table, dump_table
from duckdp.compiler.expression import Expr, show
from duckdp.compiler.order_rows import WantedPart, sort_windows
from duckdp.compiler.order_task import OrderTask
from duckdp.compiler.quantile_rows import plan_rows
from duckdp.compiler.query import Key
from duckdp.compiler.value_grid import ValueGrid
from duckdp.core.noise import laplace_noise, laplace_scale
from duckdp.core.task import Stages, Work
from duckdp.core.types import NANO, Neighbours
from duckdp.errors import ParameterError
from duckdp.mechanisms.exponential_quantiles import (
    PLACES,
    Aim,
    Part,
    Split,
    draw_cell,
    draw_cut,
    rank_bound,
    split_quantiles,
)
from duckdp.mechanisms.quantile_intervals import Counted, aside, bin_ends, draws_of_a_part, parts_aside
from duckdp.result import Estimate

COARSE = 2**16  # of any column, where epsilon is so small that more rows than this would cross
MOST_CROSSING = 2**20  # rows near all ranks together
MOST_REACH = 2**19  # rows on either side of a rank that a cut between them looks at: seconds
EXTREME = 12  # the least and the largest value aim at a rank of this many 1 / rate from the end


@dataclass(frozen=True, kw_only=True)
class QuantilesTask(OrderTask):
    """Planned quantiles by the exponential mechanism (core/task.py, mechanisms/exponential_quantiles.py).

    Attributes:
        quantiles: ascending, each once, in [0, 1].
        intervals: whether half of the charge buys an interval for each (mechanisms/quantile_intervals.py).
        round: whether round numbers weigh more (mechanisms/cell_measure.py).
    """

    quantiles: tuple[Fraction, ...]
    intervals: bool
    round: bool = True

    @property
    def of_all_rows(self) -> bool:
        """Whether parts of the rows do not tell what is read: ends of windows are ranks among all of them."""
        return True

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        rows = self.rows
        parts = [dump_table(rows.table), rows.column.name, show(rows.where), [show(k.expr) for k in rows.keys]]
        terms = [self.epsilon_nano, self.neighbours.value, rows.steps, self.intervals]
        asked = [[str(q) for q in self.quantiles], *terms, *(["round"] if self.grid.measure.levels else [])]
        return json.dumps(["quantiles", *parts, *asked])

    @cached_property
    def grid(self) -> ValueGrid:
        """The cells, and what they count."""
        return ValueGrid(column=self.rows.column, steps=self.rows.steps, round=self.round)

    @property
    def mechanism(self) -> str:
        """The mechanism of each draw, for the ledger."""
        return "exponential"

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        return {
            **self.read_of,
            "quantiles": [str(q) for q in self.quantiles],
            "levels": [float(e) for e in self.shares],
            "intervals": self.intervals,
            "grid_steps": self.rows.steps,
            "neighbours": self.neighbours.value,
        }

    @cached_property
    def splits(self) -> list[Split]:
        """The draws in one group."""
        return split_quantiles(self.quantiles)

    @cached_property
    def shares(self) -> list[Fraction]:
        """Epsilon of each level's draws in one group: more where more depends on them; public.

        Raises:
            ParameterError: P101, nothing is left for one.
        """
        weights = [0.0] * (1 + self.splits[-1].level)
        for split in self.splits:
            a, b = self._aimed(split)
            weights[split.level] += max(a, b - a) / b * (1 + 0.5 * sum(self.leans(split, s) for s in self.splits))
        roots = [w**0.5 for w in weights]
        total = self.epsilon_nano // 2 if self.intervals else self.epsilon_nano
        shares = [Fraction(int(total * r / sum(roots) * (1 - 1e-12)), NANO) / self._parts for r in roots]
        if min(shares) == 0:
            raise ParameterError("P101", "epsilon", self.epsilon_nano / NANO, f"is too small for {len(shares)} levels.")
        return shares

    @property
    def _parts(self) -> int:
        """How often a unit may meet what one draw of a group spends."""
        return self.rows.shared * (2 if self.neighbours is Neighbours.REPLACE else 1)

    @property
    def _quarter(self) -> Fraction:
        """Epsilon in one group of all draws aside, and of the counts."""
        return Fraction(self.epsilon_nano // 4, NANO) / self._parts

    @cached_property
    def scale(self) -> float:
        """Noise of the counts, rows."""
        return laplace_scale(self._quarter, self.rows.unit)

    def aim(self, split: Split) -> Aim:
        """What one draw aims at."""
        a, b = self._aimed(split)
        epsilon, unit, cells = self.shares[split.level], self.rows.unit, self.grid.measure.total
        aim = Aim(a=a, b=b, epsilon=epsilon, unit=unit, cells=cells)
        if 0 < a < b:
            return aim
        return Aim(a=2 * a, b=2 * b, inward=max(1, int(EXTREME / aim.rate)), epsilon=epsilon, unit=unit, cells=cells)

    def aim_aside(self, index: int, *, below: bool) -> Aim:
        """What a draw beside a released quantile aims at."""
        count, unit, cells = len(self.quantiles), self.rows.unit, self.grid.measure.total
        end = 2 if below else 0
        aim = Aim(a=end, b=2, epsilon=self._quarter / draws_of_a_part(count), unit=unit, cells=cells)
        own = self.aim(next(s for s in self.splits if s.index == index))
        share = float(self.quantiles[index])
        inward = aside(count, share, rate=float(aim.rate), own_rate=float(own.rate), scale=self.scale)
        return replace(aim, inward=inward)

    def _aimed(self, split: Split) -> tuple[int, int]:
        """Which share of its part's rows a quantile has below it."""
        low = Fraction(0) if split.after is None else self.quantiles[split.after]
        high = Fraction(1) if split.until is None else self.quantiles[split.until]
        share = (self.quantiles[split.index] - low) / (high - low)
        return share.numerator, share.denominator

    def leans(self, above: Split, below: Split) -> float:
        """How much of an error of one quantile goes over to one that is drawn beside its cut."""
        a, b = self._aimed(below)
        if below.until == above.index:
            return a / b
        return 1 - a / b if below.after == above.index else 0.0

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        count, levels = len(self.quantiles), len(self.shares)
        groups = f" in each of {len(self.rows.groups)} groups" if self.rows.keys else ""
        shares = ", ".join(f"{float(e):.4g}" for e in self.shares)
        one = "one quantile" if count == 1 else f"{count} quantiles"
        half = "s" if levels > 1 else ""
        lines = [
            f"{one} of {self.column.name}{groups} by the exponential mechanism, "
            f"{levels} level{half} with epsilon {shares}"
        ]
        worst = max(rank_bound(self.aim(s)) for s in self.splits)
        typical = max(1 / float(self.aim(s).rate) for s in self.splits)
        lines.append(
            f"each draw: off by about {typical:.3g} rows of rank; by at most {worst:,.0f} with 95%, whatever the data"
        )
        if self.intervals:
            beside = max(self.aim_aside(i, below=b).inward for i in range(count) for b in (True, False))
            lines.append(
                f"intervals (95%): cells drawn about {beside:,} rows aside, noise of scale {self.scale:.4g} on counts"
            )
        return lines

    def read(self, payload: str) -> list[list[Estimate]]:
        """Quantiles in each group, with their intervals, from the stored payload."""
        raw = json.loads(payload)
        found = []
        grid = replace(self.grid, round=raw.get("round", False))  # an older release keeps its own words
        for g, cells in enumerate(raw["cells"]):
            if not self.intervals:
                found.append([Estimate(value=grid.value(cell)) for cell in cells])
                continue
            counted = Counted(cells=raw["ends"][g], counts=raw["counts"][g], scale=raw["scale"])
            ends = [counted.interval(float(q), self.rows.steps) for q in self.quantiles]
            found.append(
                [
                    Estimate(
                        value=grid.value(cell), low=grid.end(min(low, cell), -1), high=grid.end(max(high, cell), 1)
                    )
                    for cell, (low, high) in zip(cells, ends, strict=True)
                ]
            )
        return found

    def work(self, salt: int) -> Work:
        """A stage for each level: near which ranks it reads follows from the cuts before."""
        self.rows.windows(self._wanted(0, {}), salt)  # what cannot be printed is refused now

        def run(stages: Stages) -> str:
            cuts: dict[tuple[int, int], int] = {}
            last = len(self.shares) - 1
            for level in range(last + self.intervals):
                found = json.loads(stages.run(partial(self._written, level, cuts, stages, salt)))
                cuts |= dict(zip(self._drawn_at(level), found, strict=True))
            if not self.intervals:
                return stages.last(lambda: self._payload(cuts, self._drawn(last, cuts, stages, salt)))
            cells = self._cells(cuts)
            beside = json.loads(stages.run(lambda: json.dumps(self._beside(cells, stages, salt))))
            return stages.last(lambda: self._counted(cells, beside, stages, salt))

        return run

    def _drawn_at(self, level: int) -> list[tuple[int, int]]:
        return [(g, s.index) for g in range(len(self.rows.groups)) for s in self.splits if s.level == level]

    def _wanted(self, level: int, cuts: dict[tuple[int, int], int]) -> list[WantedPart[Aim]]:
        """The parts of one level, in the order of :meth:`_drawn_at`."""
        by_index, end = {s.index: s for s in self.splits}, (self.rows.steps + 1) * PLACES
        found = []
        for group, index in self._drawn_at(level):
            split = by_index[index]
            low = 0 if split.after is None else cuts[group, split.after]
            high = end if split.until is None else cuts[group, split.until]
            found.append(WantedPart(group=group, low=low, high=high, aim=self.aim(split)))
        return found

    def _drawn(self, level: int, cuts: dict[tuple[int, int], int], stages: Stages, salt: int) -> list[int]:
        """Cuts, or cells where nothing follows, of one level."""
        wanted, ends = self._wanted(level, cuts), {s.index: s.ends for s in self.splits}
        exact = self._exact(wanted, stages, salt)
        return [
            (draw_cell if ends[index] else draw_cut)(part, asked.aim, self.grid.measure)
            for (_, index), asked, part in zip(self._drawn_at(level), wanted, exact, strict=True)
        ]

    def _exact(self, wanted: Sequence[WantedPart[Aim]], stages: Stages, salt: int) -> list[Part]:
        """The parts as they are: exact and private."""
        below, runs = sort_windows(stages.read(self.rows.windows(wanted, salt)), len(wanted))
        return [
            Part(low=part.low, high=part.high, below=before, upto=upto, runs=runs.get(part.group, ()))
            for part, (before, upto) in zip(wanted, below, strict=True)
        ]

    def _written(self, level: int, cuts: dict[tuple[int, int], int], stages: Stages, salt: int) -> str:
        return json.dumps(self._drawn(level, cuts, stages, salt))

    def _payload(self, cuts: dict[tuple[int, int], int], last: Sequence[int]) -> str:
        cells = self._cells({**cuts, **dict(zip(self._drawn_at(len(self.shares) - 1), last, strict=True))})
        return json.dumps({"cells": cells, "round": bool(self.grid.measure.levels)})

    def _cells(self, drawn: dict[tuple[int, int], int]) -> list[list[int]]:
        """Cells of the quantiles of each group, of cuts and cells that were drawn."""
        ends = {s.index: s.ends for s in self.splits}
        return [
            [
                drawn[g, i] if ends[i] else min(drawn[g, i] // PLACES, self.rows.steps)
                for i in range(len(self.quantiles))
            ]
            for g in range(len(self.rows.groups))
        ]

    def _beside(self, cells: list[list[int]], stages: Stages, salt: int) -> list[list[int]]:
        """Cells beside the quantiles of each group."""
        wanted = [
            WantedPart(group=g, low=low * PLACES, high=(high + 1) * PLACES, aim=self.aim_aside(i, below=below))
            for g, own in enumerate(cells)
            for i, low, high, below in parts_aside(own, self.rows.steps)
        ]
        found: list[list[int]] = [[] for _ in cells]
        for part, exact in zip(wanted, self._exact(wanted, stages, salt), strict=True):
            found[part.group].append(draw_cell(exact, part.aim, self.grid.measure))
        return found

    def _counted(self, cells: list[list[int]], beside: list[list[int]], stages: Stages, salt: int) -> str:
        """The payload with noisy counts of the rows between all cells of each group."""
        ends = [bin_ends(own, others, self.rows.steps) for own, others in zip(cells, beside, strict=True)]
        places = [0, *accumulate(len(own) + 1 for own in ends)]
        exact = [0] * places[-1]
        for place, rows in stages.read(self.rows.counts(ends, salt)):
            if 0 <= int(place) < len(exact):
                exact[int(place)] = int(rows)
        noisy = [n + z for n, z in zip(exact, laplace_noise(len(exact), self.scale), strict=True)]
        counts = [noisy[first:last] for first, last in pairwise(places)]
        return json.dumps(
            {
                "cells": cells,
                "ends": ends,
                "counts": counts,
                "scale": self.scale,
                "round": bool(self.grid.measure.levels),
            }
        )


def plan_quantiles(
    table: Table,
    name: str,
    quantiles: Sequence[float],
    where: Expr | None,
    keys: tuple[Key, ...] = (),
    *,
    epsilon_nano: int,
    neighbours: Neighbours,
    intervals: bool = False,
) -> QuantilesTask:
    """Plan quantiles of a bounded numeric column.

    Args:
        table: protected.
        name: of the column.
        quantiles: ascending, each once, in [0, 1].
        where: predicate, or None.
        keys: of groups, each with a domain.
        epsilon_nano: cost, in 1e-9.
        neighbours: relation of the data set.
        intervals: whether half of the charge buys an interval for each.

    Raises:
        CatalogError: C102. QueryError: Q203, Q401. ParameterError: P1xx.
    """
    rows, asked = plan_rows(table, name, quantiles, where, keys)
    task = QuantilesTask(
        rows=rows,
        quantiles=asked,
        epsilon_nano=epsilon_nano,
        neighbours=neighbours,
        intervals=intervals,
    )
    if (reach := max((task.aim(s).reach for s in task.splits if not s.ends), default=0)) > MOST_REACH:
        least = epsilon_nano * reach / MOST_REACH / NANO
        rule = f"is too small for {len(asked)} quantiles of these units: take one, at least {least:.2g}, or a tree."
        raise ParameterError("P101", "epsilon", epsilon_nano / NANO, rule)
    aims = [task.aim(split) for split in task.splits]
    aims += [task.aim_aside(i, below=below) for i in range(len(asked)) for below in (True, False) if intervals]
    if 2 * sum(aim.reach for aim in aims) * len(task.rows.groups) > MOST_CROSSING and rows.steps > COARSE:
        return replace(task, rows=replace(task.rows, steps=COARSE))
    return task

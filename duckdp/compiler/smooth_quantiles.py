"""A quantile in each group by smooth sensitivity as a task, with an interval that is bought if asked; one read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from duckdp.catalog.table import Table, dump_table
from duckdp.compiler.expression import Expr, show
from duckdp.compiler.order_rows import OrderRows, WantedPart, bounded_column, sort_windows
from duckdp.compiler.order_task import OrderTask
from duckdp.compiler.quantile import FINEST
from duckdp.compiler.query import Key, group_count
from duckdp.compiler.value_grid import ValueGrid
from duckdp.core.accountant import pure_rho
from duckdp.core.reads import PrivateQuery
from duckdp.core.task import OneRead
from duckdp.core.types import NANO, Loss, Neighbours
from duckdp.errors import ParameterError
from duckdp.mechanisms.admissible_noise import choose, half_width, laplace
from duckdp.mechanisms.exponential_quantiles import PLACES
from duckdp.mechanisms.scale_bound import SHARES, ScaleBound, choose_with_bound, predicted_width
from duckdp.mechanisms.smooth_error import even_growth
from duckdp.mechanisms.smooth_sensitivity import SmoothQuantile
from duckdp.result import Estimate

MOST_GROUPS = 2_000  # of one question: each is a release, with a draw of its own
MOST_READ = 2**21  # rows near the ranks of all groups together: seconds
LEAST_EPSILON = 1_000  # of one group, in 1e-9: what the mechanism takes


@dataclass(frozen=True, kw_only=True)
class _Around:
    """Ranks around a quantile's; public (order_rows.Ranks)."""

    a: int
    b: int
    reach: int
    inward: int = 0


@dataclass(frozen=True, kw_only=True)
class SmoothQuantilesTask(OrderTask, OneRead):
    """A planned quantile in each group (core/task.py, mechanisms/smooth_sensitivity.py, mechanisms/scale_bound.py).

    Attributes:
        quantile: the release in one group.
        bound: of the scale in one group, or None: no interval.
        delta_atto: the charge, in 1e-18.
    """

    quantile: SmoothQuantile
    bound: ScaleBound | None
    delta_atto: int

    @cached_property
    def grid(self) -> ValueGrid:
        """What the released cells stand for, in the column's units."""
        return ValueGrid(column=self.rows.column, steps=self.rows.steps, round=False)

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        rows = self.rows
        parts = [dump_table(rows.table), rows.column.name, show(rows.where), [show(k.expr) for k in rows.keys]]
        terms = [self.epsilon_nano, self.delta_atto, self.neighbours.value, rows.steps, self.bound is not None]
        terms += [] if self.bound is None else self.bound.named  # what the interval is read by
        return json.dumps(["smooth_quantiles", *parts, str(self.quantile.quantile), *terms])

    @property
    def loss(self) -> Loss:
        """What all groups cost, bounds on scales included."""
        rho = pure_rho(self.epsilon_nano)
        delta = self.delta_atto
        return Loss(epsilon_nano=self.epsilon_nano, delta_atto=delta, rho_pico=rho, delta_zcdp_atto=delta)

    @property
    def mechanism(self) -> str:
        """The noise's law, for the ledger."""
        return f"smooth_sensitivity_{self.quantile.noise.family}"

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        q = self.quantile
        return {
            **self.read_of,
            "quantile": str(q.quantile),
            "epsilon_of_a_group": q.epsilon_nano / NANO,
            "epsilon_of_its_scale": 0.0 if self.bound is None else float(self.bound.epsilon),
            "alpha": float(q.alpha),
            "beta": float(q.beta),
            "grid_cells": q.grid_cells,
            "window": q.window.units,
            "neighbours": self.neighbours.value,
        }

    @property
    def predicted(self) -> float:
        """Half-width of 95% that is expected where values lie evenly, rows of rank: of the interval, or the value."""
        if self.bound is not None:
            return predicted_width(self.bound, _even(self.rows.unit))
        return half_width(self.quantile.noise, _even(self.rows.unit))

    def query(self, salt: int) -> PrivateQuery:
        """The private read: how many rows each group has, and the values near its rank."""
        p = self.quantile.quantile
        around = _Around(a=p.numerator, b=p.denominator, reach=self._steps)
        end = (self.rows.steps + 1) * PLACES
        wanted = [WantedPart(group=g, low=0, high=end, aim=around) for g in range(len(self.rows.groups))]
        return self.rows.windows(wanted, salt)

    @cached_property
    def _steps(self) -> int:
        return (self.quantile.window.units + 1) * self.rows.unit

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Noise each group's quantile and bound its scale; the payload has cells, and logarithms of bounds."""
        ends, runs = sort_windows(rows, len(self.rows.groups))
        cells, bounds = [], []
        for group, (_, count) in enumerate(ends):
            m, s = self.quantile.bound(sorted(runs.get(group, ())), count)
            cells.append(self.quantile.release(m, s))
            if self.bound is not None:
                bounds.append(self.bound.release(s, self.quantile.grid_cells))
        return json.dumps({"cells": cells, "bounds": bounds})

    def read(self, payload: str) -> list[Estimate]:
        """The quantile of each group, with its interval if there is one, from the stored payload."""
        raw: Mapping[str, list[int]] = json.loads(payload)
        if self.bound is None:
            return [Estimate(value=self.grid.value(cell)) for cell in raw["cells"]]
        found = []
        for cell, released in zip(raw["cells"], raw["bounds"], strict=True):
            wide = min(self.bound.half_width(released), 2.0 * self.rows.steps)
            low, high = max(0, math.floor(cell - wide)), min(self.rows.steps, math.ceil(cell + wide))
            found.append(Estimate(value=self.grid.value(cell), low=self.grid.end(low, -1), high=self.grid.end(high, 1)))
        return found

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        q, groups = self.quantile, f" in each of {len(self.rows.groups)} groups" if self.rows.keys else ""
        lines = [
            f"quantile {float(q.quantile):g} of {self.column.name} in [{self.column.lower}, {self.column.upper}]"
            f"{groups} by smooth sensitivity, {q.noise.family} noise"
        ]
        each = "a group's value" if self.rows.keys else "the value"
        share = f"epsilon {q.epsilon_nano / NANO:.4g} for {each}"
        if self.bound is not None:
            share += (
                f", {float(self.bound.epsilon):.4g} for a bound on its scale, which the interval (95%) follows from"
            )
        what = "interval" if self.bound is not None else "error (95%)"
        lines.append(share)
        lines.append(f"{what}: about ± {self.predicted:.3g} rows of rank where values lie evenly; less where they tie")
        return lines


def _even(unit: int) -> Any:
    return lambda decay: even_growth(unit, decay)


def plan_smooth_quantiles(
    table: Table,
    name: str,
    quantile: Fraction,
    where: Expr | None,
    keys: tuple[Key, ...] = (),
    *,
    epsilon_nano: int,
    delta_atto: int = 0,
    neighbours: Neighbours,
    intervals: bool = False,
) -> SmoothQuantilesTask:
    """Plan a quantile of a bounded numeric column in each group.

    Args:
        table: protected.
        name: of the column.
        quantile: p in (0, 1).
        where: predicate, or None.
        keys: of groups, each with a domain.
        epsilon_nano: cost, in 1e-9.
        delta_atto: cost, in 1e-18; 0 is pure differential privacy, more takes Laplace noise.
        neighbours: relation of the data set.
        intervals: whether a part of epsilon buys an interval for each.

    Raises:
        CatalogError: C102. QueryError: Q203, Q401. ParameterError: P1xx.
    """
    column = bounded_column(table, name)
    span, groups = column.interval, group_count(keys)
    if groups > MOST_GROUPS:
        raise ParameterError("P107", "groups", groups, f"are more than {MOST_GROUPS:,}. Ask for fewer.")
    if not 0 < quantile < 1:
        raise ParameterError("P107", "quantile", float(quantile), "must lie between 0 and 1.")
    whole = column.integral and span.upper - span.lower <= 2**46
    steps = max(1, int(span.upper - span.lower)) if whole else FINEST
    rows = OrderRows(table=table, column=column, where=where, keys=keys, steps=steps)
    parts = min(groups, rows.shared * (2 if neighbours is Neighbours.REPLACE else 1))
    each, delta = Fraction(epsilon_nano, NANO * parts), delta_atto // parts
    if epsilon_nano // parts < 2 * LEAST_EPSILON:
        rule = f"is too small for {parts} groups of one unit: take at least {2 * LEAST_EPSILON * parts / NANO:g}."
        raise ParameterError("P101", "epsilon", epsilon_nano / NANO, rule)
    if delta_atto and not delta:
        raise ParameterError("P102", "delta", delta_atto / 1e18, f"is too small for {parts} groups of one unit.")
    bound, growth = None, _even(rows.unit)
    if delta:
        share = SHARES[len(SHARES) // 2] if intervals else Fraction(0)
        noise = laplace(each * (1 - share), delta)
        bound = ScaleBound(epsilon=each * share, noise=noise) if intervals else None
    elif intervals:
        bound = choose_with_bound(each, growth)
        noise = bound.noise
    else:
        noise = choose(each, growth)
    own = each - (bound.epsilon if bound is not None else 0)
    smooth = SmoothQuantile(
        epsilon_nano=int(own * NANO),
        delta_atto=delta,
        quantile=quantile.limit_denominator(10**6),
        max_rows=rows.unit,
        grid_cells=steps,
        groups=groups,
        chosen=noise,
    )
    task = SmoothQuantilesTask(
        rows=rows,
        quantile=smooth,
        bound=bound,
        epsilon_nano=epsilon_nano,
        delta_atto=delta_atto,
        neighbours=neighbours,
    )
    if 2 * task._steps * groups > MOST_READ:
        rule = f"are {groups:,}, of units of up to {rows.unit:,} rows: more would be read than at once. Ask for fewer."
        raise ParameterError("P107", "groups", groups, rule)
    return task

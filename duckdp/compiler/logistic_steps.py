"""Logistic regression as a task: noisy Newton steps, each from one read of bounded sums, in one charge.

A row with features v_1 ... v_d in [-1, 1] and a target y of 0 or 1 has at coefficients a, with z = a . (1, v) and
s = 1 / (1 + e^-z),

    gradient    (s - y) (1, v)              d + 1 numbers
    curvature   4 s (1 - s) (1, v)(1, v)^T  (d + 1) (d + 2) / 2 numbers

all in [-1, 1]. Every stage reads their sums at its coefficients, which are public: 0 at first, where these are the
moments that least squares follow from, then what the noisy sums before led to. Each next ones are a step of Newton's.

Privacy:      epsilon, pure. A stage costs its share: one cube (mechanisms/cube.py) over its R numbers, of rate
              epsilon_t / (u S), u rows of a unit that count, S = 2^bits; REPLACE (unit = row): epsilon_t / (2 S).
              Shares add up to epsilon at most, and coefficients follow from noisy sums alone (``Stages``).
Assumes:      each number of a row is clamped to [-1, 1] after it was computed, times S, rounded: its integer is within
              [-S, S] whatever the floats did. A unit's sums are scaled to u rows where it has more.
Proof sketch: so a unit adds at most u S to each sum, and a replaced row moves it by at most 2 S: linf; then the K-norm
              mechanism. No solver is trusted with privacy: a wrong step is a bad answer and no loss. (The proof of
              objective perturbation is of the exact minimum, which floats do not give.)
Estimates:    with penalty n ridge |slopes|^2 / 2, n the noisy count of the first stage. Where noise hides the curvature
              it is taken for its own size, and steps are limited: post-processing. The interval follows from the last
              stage's noise; of Newton's own error half of the last step times its size is added.
Source:       K-norm: Hardt, Talwar, STOC 2010. Noisy sums in place of gradients: Bassily, Smith, Thakurta, FOCS 2014.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Table, dump_table
from duckdp.compiler.emit import print_valued
from duckdp.compiler.expression import Expr, show
from duckdp.compiler.printing import UNIT, Parameters, number
from duckdp.compiler.query import Query
from duckdp.core.accountant import pure_rho
from duckdp.core.interval import Interval
from duckdp.core.momentbars import cube_draws, statistic_deviation, statistic_interval
from duckdp.core.reads import Add, PrivateQuery, one_row
from duckdp.core.task import Stages, Work
from duckdp.core.types import NANO, Loss, Neighbours
from duckdp.errors import InternalError, ParameterError
from duckdp.mechanisms.cube import cube_noise, cube_rate, cube_standard_error

Floats = NDArray[np.float64]
SHARES = (Fraction(1, 10), Fraction(3, 20), Fraction(1, 4), Fraction(1, 2))  # of epsilon, by stage: measured
_BITS = 30  # of the grid: far finer than any noise
_FARTHEST = 40.0  # of z: beyond it s is 0 or 1
_STEP = 4.0  # of one step, its coefficients' sizes together: what z can move by
_LARGEST = 30.0  # of all coefficients' sizes together
_FLOOR = 4.0  # of the curvature's noise, below which it is not told from noise


@dataclass(frozen=True, kw_only=True)
class LogisticSteps:
    """A planned logistic regression (core/task.py).

    Attributes:
        asked: table and WHERE.
        features: numbers of rows.
        spans: of the features, finite and not empty.
        target: a number of rows that is 0 or 1.
        ridge: penalty, above 0.
        epsilon_nano: the charge, in 1e-9.
        neighbours: relation of the data set.
    """

    asked: Query
    features: tuple[Expr, ...]
    spans: tuple[Interval, ...]
    target: Expr
    ridge: float
    epsilon_nano: int
    neighbours: Neighbours

    @property
    def table(self) -> Table:
        """The protected table that is read."""
        return self.asked.table

    @property
    def size(self) -> int:
        """R, the numbers of one stage."""
        count = len(self.features) + 1
        return count + count * (count + 1) // 2

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        rows = [dump_table(self.table), show(self.asked.where), [show(f) for f in self.features], show(self.target)]
        steps = [[str(share) for share in SHARES], _BITS]  # as what a stored release is read
        return json.dumps(["logistic steps", *rows, repr(self.ridge), self.epsilon_nano, self.neighbours.value, *steps])

    @property
    def loss(self) -> Loss:
        """What all stages cost together."""
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=pure_rho(self.epsilon_nano))

    @property
    def mechanism(self) -> str:
        """The noise's name in the ledger."""
        return "cube"

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        return {
            "features": [show(f) for f in self.features],
            "target": show(self.target),
            "where": show(self.asked.where),
            "ridge": self.ridge,
            "shares": [str(share) for share in SHARES],
        }

    def rate(self, stage: int) -> Fraction:
        """The rate of a stage's cube, per grid step.

        Raises:
            ParameterError: P101, nothing is left for the stage.
        """
        share = int(SHARES[stage] * self.epsilon_nano)
        if share == 0:
            raise ParameterError("P101", "epsilon", self.epsilon_nano / NANO, "is too small for its stages.")
        rows = 1 if self.table.unit_key is None else self.table.max_rows
        reach = rows * (2 if self.neighbours is Neighbours.REPLACE else 1)
        return cube_rate(Fraction(share, NANO), reach << _BITS, self.size)

    def deviation(self, stage: int) -> float:
        """Standard deviation of a stage's noise on each number, in rows."""
        return cube_standard_error(self.rate(stage), self.size) / 2.0**_BITS

    def work(self, salt: int) -> Work:  # noqa: ARG002 - nothing is chosen by a hash
        """A stage for each step, at the coefficients that the ones before led to."""
        rates = [self.rate(stage) for stage in range(len(SHARES))]
        self.step_query([0.0] * (len(self.features) + 1))  # what cannot be printed is refused now

        def run(stages: Stages) -> str:
            found: list[dict[str, Any]] = []
            at = [0.0] * (len(self.features) + 1)
            for stage, rate in enumerate(rates):
                draw = _drawing(self, at, rate, stages)
                if stage + 1 == len(rates):
                    break
                found.append({"at": at, "sums": json.loads(stages.run(partial(_written, draw)))})
                at = self._next(found)
            return stages.last(lambda: json.dumps({"steps": [*found, {"at": at, "sums": draw()}]}))

        return run

    def step_query(self, at: Sequence[float]) -> PrivateQuery:
        """The private read of one stage: one row with the sums at some coefficients."""
        parameters = Parameters()
        values = {f"x{i}": feature for i, feature in enumerate(self.features)} | {"y": self.target}
        _, rows = print_valued(self.asked, values, parameters)
        own = "" if self.table.unit_key is None else f"{UNIT}, "
        items = [f"{_placed(f'x{i}', span)} AS v{i}" for i, span in enumerate(self.spans)]
        present = " AND ".join(f"{name} IS NOT NULL" for name in values)
        body = f"(SELECT {own}y, {', '.join(items)} FROM {rows} WHERE {present}) AS placed"
        terms = [number(at[0]), *(f"{number(a)} * v{i}" for i, a in enumerate(at[1:]))]
        far = number(_FARTHEST)
        z = f"system.main.least(system.main.greatest({' + '.join(terms)}, -{far}), {far})"
        names = ", ".join(f"v{i}" for i in range(len(self.features)))
        body = f"(SELECT {own}y, {names}, 1e0 / (1e0 + system.main.exp(-{z})) AS s FROM {body}) AS chanced"
        cells = [f"{_grid(value)} AS s{j}" for j, value in enumerate(self._values())]
        body = f"(SELECT {own}{', '.join(cells)} FROM {body}) AS gridded"
        sums = [f"system.main.sum(s{j})" for j in range(self.size)]
        if own:
            most, named = self.table.max_rows, [f"{s} AS s{j}" for j, s in enumerate(sums)]
            counted = f"SELECT {own}system.main.count_star() AS n, {', '.join(named)} FROM {body} GROUP BY {UNIT}"
            scaled = [f"(CASE WHEN n > {most} THEN s{j} * {most} // n ELSE s{j} END) AS s{j}" for j in range(self.size)]
            body = f"(SELECT {', '.join(scaled)} FROM ({counted}) AS units) AS bounded"
        sql = f"SELECT {', '.join(sums)} FROM {body}"
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), parts=Add())

    def _values(self) -> list[str]:
        """Gradient and curvature of a row, from y, v0, ... and s."""
        terms = ["", *(f" * v{i}" for i in range(len(self.features)))]
        gradient = [f"(s - y){term}" for term in terms]
        curvature = [f"4e0 * s * (1e0 - s){a}{b}" for i, a in enumerate(terms) for b in terms[i:]]
        return [*gradient, *curvature]

    # ---- post-processing ----------------------------------------------------------------------------------------

    def step(self, sums: Floats, at: Floats, count: float, floor: float) -> Floats:
        """Newton's step from noisy sums in rows, float[n, d + 1] of float[n, R]; NaN without curvature (floor 0)."""
        size = len(at)
        upper = np.triu_indices(size)
        curvature = np.zeros((len(sums), size, size))
        curvature[:, upper[0], upper[1]] = curvature[:, upper[1], upper[0]] = sums[:, size:] / 4
        penalty = np.full(size, self.ridge * count)
        penalty[0] = 0.0
        values, vectors = np.linalg.eigh(curvature + np.diag(penalty))
        values = np.maximum(values, floor) if floor else np.where(values > 0, values, np.nan)
        move = np.einsum("nij,nj,nkj,nk->ni", vectors, 1 / values, vectors, sums[:, :size] + penalty * at)
        return np.asarray(-move)

    def read(self, payload: str) -> tuple[Floats, Floats, Floats, Floats]:
        """Coefficients of the features, the intercept first, from the stored payload: float[d + 1] each.

        Returns:
            Values, standard errors (NaN where there is none), low and high ends of the 95% intervals.
        """
        steps = json.loads(payload)["steps"]
        if len(steps) != len(SHARES) or len(steps[-1]["sums"]) != self.size:
            raise InternalError("another regression was released")
        last = len(steps) - 1
        at, sums = np.array(steps[-1]["at"]), self._rows(steps[-1]["sums"])
        count, draws = self._count(steps), cube_draws(self.size, 1 / float(self.rate(last)) / 2.0**_BITS)

        def statistic(moments: Floats) -> Floats:
            return np.asarray((at + self.step(moments, at, count, 0.0)) @ units.T)

        units, reached = self._units(), np.array(self._next(steps))
        value, moved = units @ reached, np.abs(reached - at)
        own = np.abs(units) @ np.full(len(at), moved.sum() * moved.max() / 2)
        low, high = statistic_interval(sums, draws, statistic)
        error = statistic_deviation(sums, draws, statistic)
        return value, error, np.fmin(low - own, value), np.fmax(high + own, value)

    def _next(self, steps: Sequence[dict[str, Any]]) -> list[float]:
        """Where the last of the steps so far leads."""
        at, stage = np.array(steps[-1]["at"]), len(steps) - 1
        floor = _FLOOR / 4 * self.deviation(stage) * len(at) ** 0.5
        move = self.step(self._rows(steps[-1]["sums"])[None], at, self._count(steps), floor)[0]
        move *= min(1.0, _STEP / max(float(np.abs(move).sum()), 1e-300))
        found = at + move
        return [float(a) for a in found * min(1.0, _LARGEST / max(float(np.abs(found).sum()), 1e-300))]

    def _units(self) -> Floats:
        """Coefficients of the features from those of v: float[d + 1, d + 1]."""
        half = np.array([(span.upper - span.lower) / 2 for span in self.spans])
        middle = np.array([span.lower / 2 + span.upper / 2 for span in self.spans])
        found = np.diag([1.0, *(1 / half)])
        found[0, 1:] = -middle / half
        return found

    def _count(self, steps: Sequence[dict[str, Any]]) -> float:
        """Rows, from the first stage: at 0 the curvature's first number is 1 in each."""
        return max(1.0, float(self._rows(steps[0]["sums"])[len(self.features) + 1]))

    def _rows(self, sums: Sequence[int]) -> Floats:
        return np.asarray(np.array(sums, dtype=np.float64) / 2.0**_BITS)


def _drawing(task: LogisticSteps, at: Sequence[float], rate: Fraction, stages: Stages) -> Callable[[], list[int]]:
    """What one stage draws: its noisy sums."""

    def draw() -> list[int]:
        exact = one_row(stages.read(task.step_query(at)), task.size)
        return _noised(exact, rate)

    return draw


def _written(draw: Callable[[], list[int]]) -> str:
    return json.dumps(draw())


def _noised(exact: Iterable[int | None], rate: Fraction) -> list[int]:
    """Sums with the noise of one cube. ``exact``: private."""
    values = [int(value or 0) for value in exact]
    return [value + z for value, z in zip(values, cube_noise(len(values), rate), strict=True)]


def _placed(name: str, span: Interval) -> str:
    """A feature's clamped place, in [-1, 1]; of NaN 1."""
    place = f"({name} - {number(span.lower)}) / {number(span.upper - span.lower)}"
    return f"2e0 * system.main.least(system.main.greatest({place}, 0e0), 1e0) - 1e0"


def _grid(value: str) -> str:
    """A number of one row, clamped to [-1, 1], on the grid."""
    held = f"system.main.least(system.main.greatest({value}, -1e0), 1e0)"
    return f"CAST(system.main.floor({held} * {number(2.0**_BITS)} + 0.5e0) AS BIGINT)"

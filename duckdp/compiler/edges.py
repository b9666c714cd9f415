"""The cost of a minimum spanning tree of a table of edges as a task: one read of the lightest rows of each pair."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from duckdp.catalog.table import Column, Scalar, Table, dump_table
from duckdp.compiler.emit import key_codes, print_keyed
from duckdp.compiler.expression import ColumnRef, Expr, show
from duckdp.compiler.order_rows import OrderRows, bounded_column
from duckdp.compiler.printing import SQL_TYPES, UNIT, Parameters, print_chosen
from duckdp.compiler.query import Key, Query
from duckdp.core.accountant import pure_rho
from duckdp.core.noise import LARGEST_SCALE, laplace_noise, laplace_scale
from duckdp.core.reads import OfAllRows, PrivateQuery
from duckdp.core.task import OneRead
from duckdp.core.types import NANO, Loss, Neighbours
from duckdp.errors import ParameterError
from duckdp.mechanisms.admissible_noise import AdmissibleNoise, choose, half_width
from duckdp.mechanisms.scale_bound import ScaleBound, choose_with_bound, predicted_width
from duckdp.mechanisms.spanning_tree import EXACT, Edges, SpanningTree
from duckdp.result import Estimate

FINEST = 2**32  # grid steps of a column of fractions, if there are few vertices
MOST = 2**47  # grid steps of a cost
MOST_VERTICES = 20_000  # their places cross as lists of constants
ORDER = "which edges are the lightest that join all vertices"  # what parts do not tell

_SQL = """\
SELECT i, j, x, c FROM (
  SELECT *, system.main.row_number() OVER (PARTITION BY i, j ORDER BY x) AS place
  FROM (SELECT i, j, x, system.main.count_star() AS c FROM {rows} AS e(i, j, x) GROUP BY i, j, x) AS counted) AS placed
WHERE place <= {most}"""


@dataclass(frozen=True, kw_only=True)
class SpanningTreeTask(OneRead):
    """A planned cost (core/task.py, mechanisms/spanning_tree.py).

    Attributes:
        table: protected.
        ends: keys of both ends of an edge, each with a domain.
        column: weights, with bounds.
        where: predicate, or None.
        steps: of the weights' grid.
        tree: the smooth bound; of a noise that is not drawn, where ``public`` is taken.
        bound: of the scale, or None.
        public: noise of a public scale is drawn instead.
        epsilon_nano: the charge, in 1e-9.
        neighbours: relation of the data set.
        intervals: whether there is an interval: asked for, or of a public scale.
    """

    table: Table
    ends: tuple[Key, Key]
    column: Column
    where: Expr | None
    steps: int
    tree: SpanningTree
    bound: ScaleBound | None
    public: bool
    epsilon_nano: int
    neighbours: Neighbours
    intervals: bool

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        named = [show(key.expr) for key in self.ends]
        parts = [dump_table(self.table), named, self.column.name, show(self.where), self.neighbours.value]
        terms: list[object] = [self.epsilon_nano, self.steps, self.public, self.intervals]
        if not self.public:  # what a stored release is read by
            terms += self.tree.noise.named if self.bound is None else self.bound.named
        return json.dumps(["spanning_tree", *parts, *terms])

    @property
    def loss(self) -> Loss:
        """What value and bound cost together."""
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=pure_rho(self.epsilon_nano))

    @property
    def mechanism(self) -> str:
        """The noise's law, for the ledger."""
        return "laplace" if self.public else f"smooth_sensitivity_{self.tree.noise.family}"

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        own = {"scale": self.scale} if self.public else self._smooth_parameters()
        return {
            "ends": [show(key.expr) for key in self.ends],
            "column": self.column.name,
            "where": show(self.where),
            "vertices": self.tree.vertices,
            "grid_steps": self.steps,
            "neighbours": self.neighbours.value,
            **own,
        }

    def _smooth_parameters(self) -> dict[str, Any]:
        noise = self.tree.noise
        of_scale = 0.0 if self.bound is None else float(self.bound.epsilon)
        window = {"window": self.tree.units, "epsilon_of_scale": of_scale}
        return {"alpha": float(noise.alpha), "beta": float(noise.beta), **window}

    @cached_property
    def scale(self) -> float:
        """Scale of the noise where it is public, grid steps."""
        return laplace_scale(Fraction(self.epsilon_nano, NANO), _most_moved(self.tree))

    def query(self, salt: int) -> PrivateQuery:
        """The private read: of each pair of vertices the lightest rows, and how many there are of each weight."""
        parameters = Parameters()
        most = self.tree.forests
        sql = _SQL.format(rows=self._print(salt, parameters), most=most)
        pairs = self.tree.vertices * (self.tree.vertices - 1) // 2
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=pairs * most, parts=OfAllRows(ORDER))

    def _print(self, salt: int, parameters: Parameters) -> str:
        """(i, j, x) of the rows that count, as a parenthesised SELECT."""
        query = Query(table=self.table, where=self.where, keys=self.ends, outputs=())
        names, rows = print_keyed(query, ColumnRef(self.column), parameters)
        numbers = {value: place for place, value in enumerate(vertices(self.ends))}
        joins = ""
        for side, key, name in zip("ab", self.ends, names, strict=True):
            known = [(c, v) for c, v in zip(key_codes(key), key.domain or (), strict=True) if v is not None]
            kind = "BIGINT" if key.listed else SQL_TYPES[key.expr.kind]
            codes = f"system.main.unnest(CAST({parameters.bind([c for c, _ in known])} AS {kind}[])) AS code"
            ids = f"system.main.unnest(CAST({parameters.bind([numbers[v] for _, v in known])} AS BIGINT[])) AS id"
            joins += f" JOIN (SELECT {codes}, {ids}) AS {side} ON {side}.code = prepared.{name}"
        grid = OrderRows(table=self.table, column=self.column, where=None, keys=(), steps=self.steps)
        keyed = self.table.unit_key is not None
        unit = f"prepared.{UNIT} AS {UNIT}, " if keyed else ""
        pair = "system.main.least(a.id, b.id) AS i, system.main.greatest(a.id, b.id) AS j"
        kept = "prepared.x IS NOT NULL AND a.id <> b.id"
        inner = f"(SELECT {unit}{pair}, {grid.cell('prepared.x')} AS x FROM {rows}{joins} WHERE {kept})"
        if not keyed:
            return inner
        return f"(SELECT r.i, r.j, r.x FROM {print_chosen(inner, ['i', 'j', 'x'], salt, self.tree.unit)} AS r)"

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Noise the cost; the payload is a number of grid steps, and the logarithm of a bound if there is one."""
        read = np.array([tuple(map(int, row)) for row in rows], dtype=np.int64).reshape(-1, 4)
        times = np.clip(read[:, 3], 0, self.tree.forests)
        most = (self.tree.vertices - 1, self.tree.vertices - 1, self.tree.top)  # whatever was read: nothing fails
        first, second, weight = (np.repeat(np.clip(read[:, i], 0, end), times) for i, end in enumerate(most))
        cost, bound = self.tree.figures(Edges(first=first, second=second, weight=weight))
        if self.public:
            return json.dumps({"cost": cost + laplace_noise(1, self.scale)[0], "bound": None})
        released = self.tree.noise.add(cost, bound, self.tree.most)
        width = None if self.bound is None else self.bound.release(bound, self.tree.most)
        return json.dumps({"cost": released, "bound": width})

    def read(self, payload: str) -> Estimate:
        """The cost in the weights' units, from the stored payload."""
        raw = json.loads(payload)
        most = self.tree.most
        value = self._placed(min(max(raw["cost"], 0), most))
        half, error = math.inf, None
        if self.public:
            half, error = self.scale * math.log(20) + 1, self.scale * math.sqrt(2) * self._width / self.steps
        elif self.bound is not None:
            half = self.bound.half_width(raw["bound"])
        if not self.intervals or half == math.inf:
            return Estimate(value=value)
        if not self._whole:
            half += (self.tree.vertices - 1) / 2  # weights are rounded to the grid
        low, high = max(0.0, raw["cost"] - half), min(float(most), raw["cost"] + half)
        ends = self._placed(min(low, most)), self._placed(max(high, 0.0))
        return Estimate(value=value, standard_error=error, low=ends[0], high=ends[1])

    @property
    def _width(self) -> float:
        return self.column.interval.upper - self.column.interval.lower

    @property
    def _whole(self) -> bool:
        return self.column.integral and self.steps == self._width

    def _placed(self, cost: float) -> float:
        return (self.tree.vertices - 1) * self.column.interval.lower + cost * (self._width / self.steps)

    @property
    def predicted(self) -> float:
        """Half-width of 95% that is expected, in the weights' units."""
        if self.public:
            return min(self.scale * math.log(20), float(self.tree.most)) * self._width / self.steps
        growth = Expected(table=self.table, vertices=self.tree.vertices, unit=self.tree.unit, top=self.steps)
        width = half_width(self.tree.noise, growth) if self.bound is None else predicted_width(self.bound, growth)
        return min(width, float(self.tree.most)) * self._width / self.steps

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        epsilon, rest = self.epsilon_nano / NANO, 0.0 if self.bound is None else float(self.bound.epsilon)
        how = (
            "laplace noise of a public scale" if self.public else f"smooth sensitivity, {self.tree.noise.family} noise"
        )
        lines = [
            f"cost of a minimum spanning tree of {self.tree.vertices:,} public vertices, weights {self.column.name} in "
            f"[{self.column.lower}, {self.column.upper}], by {how}",
            f"two vertices without an edge: one of weight {self.column.upper}",
        ]
        if not self.public:
            way = "all cuts" if self.tree.vertices <= EXACT else f"{self.tree.forests} spanning forests"
            split = f"epsilon {epsilon - rest:.4g} for the value"
            split += f", {rest:.4g} for a bound on its scale, which the interval (95%) follows from" if rest else ""
            lines += [f"sensitivity from {way}", split]
        return [*lines, f"expected error (95%): ± {self.predicted:.6g}, of edges between random vertices"]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """S as expected of so many edges between random vertices, weights even: for choosing alone (Growth)."""

    table: Table
    vertices: int
    unit: int
    top: int

    def __call__(self, decay: float) -> float:
        """The largest exp(-b k) u w, w a weight up to which each vertex has (k + 1) u + 1 edges."""
        rows = self.table.expected_rows or self.table.row_cap
        degree = max(1.0, 2 * rows / self.vertices)
        k = np.arange(max(1, min(100_000, math.ceil(40 / decay))))
        disjoint = (k + 1) * self.unit + 1
        share = np.where(disjoint > degree / 2, 1.0, np.minimum(1, (disjoint + math.log(self.vertices)) / degree))
        return float((np.exp(-decay * k) * share).max()) * min(self.unit, self.vertices - 1) * self.top


def vertices(ends: tuple[Key, Key]) -> list[Scalar]:
    """The values of both ends, each once, without NULL."""
    return list(dict.fromkeys(v for key in ends for v in key.domain or () if v is not None))


def _most_moved(tree: SpanningTree) -> int:
    return min(tree.unit, tree.vertices - 1) * tree.top


def plan_spanning_tree(
    table: Table,
    ends: tuple[Key, Key],
    weight: str,
    where: Expr | None,
    *,
    epsilon_nano: int,
    neighbours: Neighbours,
    method: str = "auto",
    intervals: bool = False,
) -> SpanningTreeTask:
    """Plan the cost of a minimum spanning tree.

    Args:
        table: protected.
        ends: keys of both ends, each with a domain.
        weight: name of a column with bounds.
        where: predicate, or None.
        epsilon_nano: cost, in 1e-9.
        neighbours: relation of the data set; the mechanism is the same.
        method: "auto", "smooth" or "laplace".
        intervals: whether an interval is asked for.

    Raises:
        CatalogError: C102. QueryError: Q203, Q401. ParameterError: P1xx.
    """
    column, count = bounded_column(table, weight), len(vertices(ends))
    if ends[0].expr.kind is not ends[1].expr.kind:
        raise ParameterError("P107", "end", show(ends[1].expr), "must be of the same kind as the other end.")
    if not 2 <= count <= MOST_VERTICES:
        rule = f"must have 2 to {MOST_VERTICES:,} values with the other end's together."
        raise ParameterError("P107", "start", count, rule)
    span, unit = column.interval, 1 if table.unit_key is None else table.max_rows
    finest = MOST // (count - 1)
    whole = column.integral and span.upper - span.lower <= finest
    steps = max(1, int(span.upper - span.lower)) if whole else min(FINEST, finest)
    epsilon = Fraction(epsilon_nano, NANO)
    growth = Expected(table=table, vertices=count, unit=unit, top=steps)
    bound = choose_with_bound(epsilon, growth) if intervals else None
    noise: AdmissibleNoise = choose(epsilon, growth) if bound is None else bound.noise
    tree = SpanningTree(vertices=count, top=steps, unit=unit, noise=noise)
    task = SpanningTreeTask(
        table=table,
        ends=ends,
        column=column,
        where=where,
        steps=steps,
        tree=tree,
        bound=bound,
        public=method == "laplace",
        epsilon_nano=epsilon_nano,
        neighbours=neighbours,
        intervals=intervals,
    )
    return _chosen(task, method)


def _chosen(task: SpanningTreeTask, method: str) -> SpanningTreeTask:
    """The way whose predicted error is less, if none is asked for."""
    epsilon = Fraction(task.epsilon_nano, NANO)
    fits = _most_moved(task.tree) / epsilon < LARGEST_SCALE / 2
    plain = replace(task, public=True, bound=None, intervals=True)
    if method == "laplace" and not fits:
        raise ParameterError("P101", "epsilon", float(epsilon), "is too small for noise of a public scale.")
    if method == "laplace" or (method == "auto" and fits and plain.predicted <= task.predicted):
        return plain
    return task

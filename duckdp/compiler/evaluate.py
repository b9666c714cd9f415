"""Released cells to the statement's result: values, error bars, HAVING, ORDER BY, LIMIT. Post-processing only.

Every number is carried with its gradient by cell, so that the error of any expression over aggregates follows from
the noise of the cells (compiler/intervals.py).
"""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Kind, Scalar
from duckdp.compiler.aggregates import ARGUMENT, aggregate_row
from duckdp.compiler.applied import applied
from duckdp.compiler.enclosed_ends import jumps, reads_bins
from duckdp.compiler.expression import Aggregate, Call, Case, ColumnRef, Expr, KeyRef, Literal, walk
from duckdp.compiler.facts import facts
from duckdp.compiler.intervals import LEVEL, Intervals, is_exact, is_listed, is_steady
from duckdp.compiler.known import is_zero
from duckdp.compiler.measures import Measure
from duckdp.compiler.operators import row_of
from duckdp.compiler.output_columns import OutputColumn, Shape
from duckdp.compiler.plan import Plan
from duckdp.compiler.query import Key
from duckdp.compiler.released import bounds_of, expected_cells, named_value, places_of, released, valued
from duckdp.compiler.shown_rows import shown_rows
from duckdp.compiler.spreads import SPREADS, Spread
from duckdp.compiler.vectors import Vector, choose, constant_vector, null_like, objects
from duckdp.core.summedbars import Law, linear_standard_error
from duckdp.errors import InternalError

Floats = NDArray[np.float64]
NORMAL_95 = 1.96  # deviations of a normal law in half of an interval: the error of what has an interval alone


def evaluate(plan: Plan, payload: str, *, bars: bool = True, level: float = LEVEL) -> list[OutputColumn]:
    """Answer a plan from a released payload.

    Args:
        plan: of the statement.
        payload: JSON of compiler/release.py.
        bars: whether error bars are wanted too; values are the same without.
        level: of the intervals.

    Returns:
        Columns in the statement's order, rows after HAVING, ORDER BY, OFFSET and LIMIT.
    """
    evaluation = _Evaluation(plan, payload)
    evaluation.wants_bars, evaluation.level = bars, level
    return evaluation.columns()


def noise_of(plan: Plan, place: int) -> tuple[Floats, list[Law]] | None:
    """Coefficients and laws of the noise terms of an output that is a linear form of counts and sums; None: another."""
    bars = _expected(plan, None).bars
    found = bars.coefficients(plan.query.outputs[place].expr)
    return None if found is None else (found, bars.noises)


def known_payload(plan: Plan) -> str:
    """The payload of a plan that reads nothing: no group with open keys, else every group with nothing in it."""
    size = plan.domain_size
    if size is None:
        return json.dumps({"keys": [], "cells": []})
    return json.dumps({"keys": None, "cells": [[]] * size})


def describe_outputs(plan: Plan) -> list[tuple[str, str, bool]]:
    """(name, DuckDB type, whether it is a released number) of each output, before anything is released."""
    shapes = _expected(plan, 1e6).shapes()
    return [(name, shape.type, shape.released) for name, shape in shapes]


def key_type(key: Key) -> str:
    """DuckDB type of a released key, from the plan alone: it must not depend on which keys came through."""
    return Shape(key.expr.kind, _is_whole(key), False).type


def _is_whole(key: Key) -> bool:
    if key.domain is None:
        return facts(key.expr).integral
    return all(isinstance(v, int) for v in key.domain if v is not None)


def expected_half_widths(plan: Plan, rows: float | None) -> dict[str, float | None]:
    """Predicted 95% half-width of each output from public figures; None where it needs a number of rows, or the answer.

    What jumps or bends needs that: floor(x / 100) is off by nothing, or by 1, as x lies to the next hundred.

    Of counts and sums it is the half-width itself. Else it is a prediction for a group of ``rows`` rows: an average,
    and what is made of averages without dividing by them, has the widest of :data:`SPREADS`, wherever in its bounds
    it may be; a deviation, whose error has no bound, is that of a deviation of a quarter of the range.

    Args:
        plan: of the statement.
        rows: expected rows per group, or None.
    """
    exprs = {o.name: o.expr for o in plan.query.outputs}
    found: dict[str, float | None] = {}
    evaluation = _expected(plan, rows, SPREADS)
    for output in evaluation.all_outputs():
        if output.half_width is not None:
            expr = exprs[output.name]
            width = float(output.half_width[0])
            unknown = math.isnan(width) or (rows is None and not is_exact(expr) and not is_listed(expr))
            unknown |= evaluation.bars.is_uncertain(expr)
            if not unknown and is_steady(expr):
                lower, upper = evaluation.range(expr)
                width = min(float(np.nanmax(output.half_width)), (upper - lower) / 2)
            found[output.name] = None if unknown else width
    return found


def _expected(plan: Plan, rows: float | None, spreads: tuple[Spread, ...] = SPREADS[:1]) -> _Evaluation:
    """Of groups with ``rows`` rows, one for each spread: from public figures only."""
    groups = [expected_cells(plan, rows, spread) for spread in spreads]
    key: list[Scalar] = [_stand_in(k.domain) for k in plan.query.keys]
    found = _Evaluation(plan, json.dumps({"keys": None, "cells": groups}), [key] * len(groups))
    found.margin = 1.0 if len(groups) > 1 else 0.0
    return found


def _stand_in(domain: tuple[Scalar, ...] | None) -> Scalar:
    return domain[0] if domain else None


class _Evaluation:
    margin = 0.0  # of the public range, by which it is taken wider: intervals at its ends are then whole
    wants_bars = True
    level = LEVEL  # of intervals

    def __init__(self, plan: Plan, payload: str, keys: list[list[Scalar]] | None = None) -> None:
        raw = json.loads(payload)
        self.plan = plan
        self.cells = np.array(raw["cells"], dtype=np.float64).reshape(len(raw["cells"]), plan.cells).T
        self.n = self.cells.shape[1]
        domains = [k.domain or () for k in plan.query.keys]
        if keys is not None:
            self.keys = keys
        elif raw["keys"] is None:
            self.keys = [list(k) for k in plan.query.groups_of(domains)]
        else:
            kinds = [k.expr.kind for k in plan.query.keys]
            self.keys = [[decode_key(v, kind) for v, kind in zip(row, kinds, strict=True)] for row in raw["keys"]]
        self.bars = Intervals(plan, self.cells, self._aggregate, self._bin_ends, self.vector, self.range)

    def columns(self) -> list[OutputColumn]:
        outputs = self.all_outputs()
        rows = shown_rows(self.plan, self.vector, self.keys)
        return outputs if rows == list(range(self.n)) else [o.taken(rows) for o in outputs]

    def all_outputs(self) -> list[OutputColumn]:
        return [self._output(o.name, o.expr) for o in self.plan.query.outputs]

    def shapes(self) -> list[tuple[str, Shape]]:
        return [(o.name, self._shape_of(o.expr)) for o in self.plan.query.outputs]

    def _shape_of(self, expr: Expr) -> Shape:
        if isinstance(expr, KeyRef):
            return self._key_shape(expr)
        return self._shape(expr, None if isinstance(expr, Aggregate) else self.vector(expr))

    # ---- values -----------------------------------------------------------------------------------------------

    def vector(self, expr: Expr) -> Vector:
        """Value and gradient of an output expression over all groups."""
        match expr:
            case Aggregate():
                return self._aggregate(expr)
            case KeyRef(index=i, kind=kind):
                column = [key[i] for key in self.keys]
                if kind is Kind.NUMBER:
                    numbers = np.array([math.nan if v is None else float(v) for v in column])  # type: ignore[arg-type]
                    return Vector(numbers, np.zeros((self.cells.shape[0], self.n)))
                return Vector(np.array(column, dtype=object), None)
            case Literal(value=value):
                return constant_vector(value, self.n, self.plan.cells, number=expr.kind is Kind.NUMBER)
            case Call(arguments=arguments):
                return applied(expr, [self.vector(a) for a in arguments], self.plan.cells)
            case Case(branches=branches, default=default):
                arms = [(self.vector(c).value, self.vector(v)) for c, v in branches]
                return choose(arms, null_like(arms[0][1]) if default is None else self.vector(default))
            case ColumnRef():
                raise InternalError("a private column reached an output expression")

    def _aggregate(self, aggregate: Aggregate) -> Vector:
        row = aggregate_row(aggregate)
        if is_zero(self.plan.query, aggregate):  # no row can count
            if aggregate.kind is not Kind.NUMBER:
                return Vector(objects([None] * self.n), None)
            return Vector(np.full(self.n, row.of_nothing), np.zeros_like(self.cells))
        for measure in self.plan.measures:
            if measure.serves(aggregate):
                return self._from_measure(measure, aggregate, places_of(self.plan, measure))
        raise InternalError("no measure serves an aggregate")

    def _from_measure(self, measure: Measure, aggregate: Aggregate, where: list[int]) -> Vector:
        row, gradient = aggregate_row(aggregate), np.zeros_like(self.cells)
        value, gradient[where] = valued(self.plan, measure, aggregate, self.cells[where])
        if aggregate.kind is not Kind.NUMBER or aggregate.labels:
            named = [named_value(aggregate, v) for v in value.tolist()]
            numbers = aggregate.kind is Kind.NUMBER
            return Vector(np.array(named, dtype=np.float64) if numbers else objects(named), None)
        return Vector(value, None if row.plain else gradient)

    def _bin_ends(self, aggregate: Aggregate, level: float) -> tuple[Floats, Floats] | None:
        """Ends of an interval that follows from bins, at a level; None of other aggregates."""
        rule, start = aggregate_row(aggregate).ends, 0
        for measure in self.plan.measures:
            if rule is not None and measure.serves(aggregate):
                where = slice(start, start + measure.cells)
                return rule(released(self.plan, measure, aggregate, self.cells[where]).bins, level)
            start += measure.cells
        return None

    # ---- outputs and error bars -------------------------------------------------------------------------------

    def _key_shape(self, expr: KeyRef) -> Shape:
        """From the plan alone; see :func:`key_type`."""
        key = self.plan.query.keys[expr.index]
        return Shape(key.expr.kind, _is_whole(key), False)

    def _shape(self, expr: Expr, vector: Vector | None) -> Shape:
        """Of an expression with its vector; an aggregate is released whatever that is."""
        plain = isinstance(expr, Aggregate) and (expr.kind is not Kind.NUMBER or aggregate_row(expr).plain)
        noisy = not plain and (vector is None or vector.gradient is not None)
        found = noisy and any(isinstance(n, Aggregate) for n in walk(expr))
        integral = isinstance(expr, Aggregate) and (aggregate_row(expr).counts or self._integral(expr))
        if isinstance(expr, Call) and row_of(expr).holds is not None:
            return Shape.of_cast(expr.option, self._shape(expr.arguments[0], vector))
        return Shape(expr.kind, (found or plain) and integral, found)

    def _output(self, name: str, expr: Expr) -> OutputColumn:
        if isinstance(expr, KeyRef):
            values, shape = [k[expr.index] for k in self.keys], self._key_shape(expr)
            return OutputColumn(name=name, shape=shape, values=values)
        vector = self.vector(expr)
        shape = self._shape(expr, vector)
        integral = shape.integral
        if vector.gradient is None:
            shown = _plain(vector.value) if shape.kind is Kind.NUMBER else list(vector.value)
            return OutputColumn(name=name, shape=shape, values=_as_whole(shown) if integral else shown)
        if not shape.released:
            shown = _plain(vector.value)
            return OutputColumn(name=name, shape=shape, values=_as_whole(shown) if integral else shown)
        bars = self.bars
        gradient = bars.by_noise(vector.gradient)
        undefined = ~np.isfinite(vector.value) | ~np.isfinite(gradient).all(axis=0)
        if not self.wants_bars:
            values = self._values(vector, *self.range(expr), undefined, integral=integral)
            return OutputColumn(name=name, shape=shape, values=values)
        gradient = np.where(undefined, 0.0, gradient)
        error = linear_standard_error(gradient, bars.noises) if bars.noises else np.zeros(self.n)
        lower, upper = self.range(expr)
        if self.margin and math.isfinite(upper - lower):
            lower, upper = lower - self.margin * (upper - lower), upper + self.margin * (upper - lower)
        ends = bars.ends(expr, vector.value, gradient, (lower, upper), self.level)
        low, high = (np.where(undefined, np.nan, e) for e in ends)
        if reads_bins(expr) or jumps(expr):
            error = (high - low) / (2 * NORMAL_95)
        return OutputColumn(
            name=name,
            shape=shape,
            values=self._values(vector, lower, upper, undefined, integral=integral),
            standard_error=np.where(undefined, np.nan, error),
            half_width=(high - low) / 2,
            low=np.clip(low, lower, upper),
            high=np.clip(high, lower, upper),
            centre=vector.value,
            exact_interval=is_exact(expr),
        )

    @staticmethod
    def _values(
        vector: Vector, lower: float, upper: float, undefined: NDArray[np.bool_], *, integral: bool
    ) -> list[Any]:
        """As they are shown: within the public range, None where undefined."""
        pairs = zip(np.clip(vector.value, lower, upper).tolist(), undefined.tolist(), strict=True)
        return [None if bad else math.floor(v + 0.5) if integral else v for v, bad in pairs]

    def range(self, expr: Expr) -> tuple[float, float]:
        """Least and largest value that the true one can have."""
        if isinstance(expr, Call) and (holds := row_of(expr).holds) is not None:
            lower, upper = self.range(expr.arguments[0])
            return max(lower, float(holds(expr.option)[0])), min(upper, float(holds(expr.option)[1]))
        if isinstance(expr, Call) and row_of(expr).bounds:
            span = facts(expr).interval
            return span.lower, span.upper
        if not isinstance(expr, Aggregate) or is_zero(self.plan.query, expr):
            return -math.inf, math.inf
        measure = next(m for m in self.plan.measures if m.serves(expr))
        return aggregate_row(expr).range(*bounds_of(measure, expr))

    def _integral(self, aggregate: Aggregate) -> bool:
        row = aggregate_row(aggregate)
        if row.type != ARGUMENT or aggregate.kind is not Kind.NUMBER:
            return False
        if aggregate.labels:
            return all(isinstance(v, int) for v in aggregate.labels)
        if is_zero(self.plan.query, aggregate) or row.alone == "bins":
            return aggregate.argument is not None and facts(aggregate.argument).integral
        measure = next(m for m in self.plan.measures if m.serves(aggregate))
        return measure.kind == "sum" and measure.bits == 0


def _as_whole(values: list[Any]) -> list[Any]:
    return [None if v is None else int(v) for v in values]


def _plain(values: Floats) -> list[Any]:
    return [None if isinstance(v, float) and math.isnan(v) else v for v in values.tolist()]


def decode_key(value: Any, kind: Kind) -> Scalar:
    """A released key from its JSON value (``release.encode_key``)."""
    if value is None:
        return None
    if kind is Kind.DATE:
        return dt.date.fromisoformat(value)
    if kind is Kind.TIMESTAMP:
        return dt.datetime.fromisoformat(value)
    if kind is Kind.NUMBER and float(value).is_integer():
        return int(value)
    return value  # type: ignore[no-any-return]

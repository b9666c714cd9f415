"""Counts, sums and sums of products of two arguments, in public groups, as a task.

What covariances, correlations and regressions follow from (``core/momentbars``, ``functions/``). Rows count where every
argument has a value: a moment of two columns over rows that have both, as DuckDB's ``covar_samp``, ``corr`` and
``regr_slope`` take them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Kind, Table, dump_table
from duckdp.compiler import ways
from duckdp.compiler.expression import Call, ColumnRef, Expr, show
from duckdp.compiler.facts import facts
from duckdp.compiler.moment_rows import MomentRows
from duckdp.compiler.parse import parse_scalar, refuse
from duckdp.compiler.plan import digest_domain
from duckdp.compiler.query import Key, Query
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope
from duckdp.core.interval import Interval
from duckdp.core.reads import PrivateQuery
from duckdp.core.task import OneRead
from duckdp.core.types import Loss, Neighbours
from duckdp.errors import InternalError, ParameterError
from duckdp.mechanisms.second_moments import Powers, Reach, SecondMoments, plan_second_moments

Floats = NDArray[np.float64]
MOST_NUMBERS = 200_000  # released by one call, of all groups: a second of noise
_WIDEST, _NARROWEST = 1e100, 1e-100  # of an argument's range: products of such are numbers


@dataclass(frozen=True, kw_only=True)
class PairMoments(OneRead):
    """Planned moments of arguments in public groups (core/task.py).

    Attributes:
        rows: what is read.
        wanted: powers of the arguments in each moment; the first is the count.
        epsilon_nano: the charge, in 1e-9.
        delta_atto: what it may cost too, in 1e-18.
        neighbours: relation of the data set.
    """

    rows: MomentRows
    wanted: tuple[Powers, ...]
    epsilon_nano: int
    delta_atto: int
    neighbours: Neighbours

    @property
    def table(self) -> Table:
        """The protected table that is read."""
        return self.rows.query.table

    @cached_property
    def way(self) -> SecondMoments:
        """What is released, and its noise."""
        table, keyed = self.table, self.table.unit_key is not None
        reach = Reach(
            rows=table.max_rows if keyed and self.rows.most is None else 1,
            groups=min(table.max_groups, self.rows.count) if keyed else 1,
            replaced=self.neighbours is Neighbours.REPLACE,
        )
        return plan_second_moments(self.wanted, reach=reach, epsilon_nano=self.epsilon_nano, delta_atto=self.delta_atto)

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        query = self.rows.query
        keys = [[show(k.expr), digest_domain(k.domain), repr(k.other)] for k in query.keys]
        asked = [dump_table(query.table), show(query.where), keys, [show(a) for a in self.rows.arguments]]
        terms = [self.epsilon_nano, self.delta_atto, self.neighbours.value]
        of = "pair moments" if self.rows.most is None else f"moments of counts up to {self.rows.most}"
        way = [self.way.shape, self.way.family, self.way.bits]  # as what a stored release is read
        return json.dumps([of, *asked, [list(p) for p in self.wanted], *terms, *way])

    @property
    def loss(self) -> Loss:
        """What it costs, all groups together."""
        return self.way.loss

    @property
    def mechanism(self) -> str:
        """The noise's name in the ledger."""
        return self.way.family

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        query = self.rows.query
        return {
            "arguments": [show(a) for a in self.rows.arguments],
            **({} if self.rows.most is None else {"rows_of_a_unit": self.rows.most}),
            "where": show(query.where),
            "keys": [show(k.expr) for k in query.keys],
            "moments": len(self.wanted),
            "shape": self.way.shape,
            "grid_bits": self.way.bits,
        }

    def query(self, salt: int) -> PrivateQuery:
        """The one private read, as SQL of our own."""
        return self.rows.read(self.way, salt)

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Every group with its noise. ``rows``: of :meth:`query`, exact and private."""
        exact = self.rows.exact(rows, len(self.way.released))
        return json.dumps({"groups": [self.way.release(group) for group in exact]}, separators=(",", ":"))

    def read(self, payload: str) -> Floats:
        """Noisy moments of each group, in rows: float[groups, R], from the stored payload."""
        groups = json.loads(payload)["groups"]
        if len(groups) != self.rows.count:
            raise InternalError("other groups were released")
        return self.way.moments(groups)


def plan_pair_moments(
    table: Table,
    arguments: tuple[Expr, ...],
    wanted: tuple[Powers, ...],
    where: Expr | None,
    keys: tuple[Key, ...],
    *,
    epsilon_nano: int,
    delta_atto: int,
    neighbours: Neighbours,
) -> PairMoments:
    """Plan moments of arguments that :func:`read_number` has read.

    Args:
        table: protected.
        arguments: numbers of rows.
        wanted: powers of the arguments in each moment, of total degree at most 2; the first is the count.
        where: predicate, or None.
        keys: of groups, each with a domain.
        epsilon_nano: cost, in 1e-9.
        delta_atto: delta, in 1e-18.
        neighbours: relation of the data set.

    Raises:
        ParameterError: P101, P107.
    """
    query = Query(table=table, where=where, keys=keys, outputs=())
    rows = MomentRows(query=query, arguments=arguments, spans=tuple(map(argument_span, arguments)))
    task = PairMoments(
        rows=rows, wanted=wanted, epsilon_nano=epsilon_nano, delta_atto=delta_atto, neighbours=neighbours
    )
    return _limited(task)


def plan_count_moments(
    table: Table,
    most: int,
    where: Expr | None,
    keys: tuple[Key, ...],
    *,
    epsilon_nano: int,
    delta_atto: int,
    neighbours: Neighbours,
) -> PairMoments:
    """Plan moments of how many rows a unit has, of units that have any that count, in each group.

    Privacy: a unit is one row of the moments in each group, whatever its number of rows, which is read up to ``most``:
    so it adds a point of the simplex, or of the cube, to at most max_groups groups.

    Args:
        table: protected, with a unit key.
        most: a unit with more rows counts as one with so many.
        where: predicate, or None.
        keys: of groups, each with a domain.
        epsilon_nano: cost, in 1e-9.
        delta_atto: delta, in 1e-18.
        neighbours: relation of the data set.

    Raises:
        ParameterError: P101, P107.
    """
    if table.unit_key is None:
        rule = "has no unit key, so each of its units is one row. Ask for its number with dp_noisy_count."
        raise ParameterError("P107", "t", table.name, rule)
    query = Query(table=table, where=where, keys=keys, outputs=())
    rows = MomentRows(query=query, arguments=(), spans=(Interval(0.0, float(most)),), most=most)
    task = PairMoments(
        rows=rows,
        wanted=((0,), (1,), (2,)),
        epsilon_nano=epsilon_nano,
        delta_atto=delta_atto,
        neighbours=neighbours,
    )
    return _limited(task)


def argument_span(argument: Expr) -> Interval:
    """The range that an argument is placed in: its own, or one of width 1 where it has one value only."""
    span = facts(argument).interval
    return span if span.upper > span.lower else Interval(span.lower, span.lower + max(1.0, abs(span.lower)))


def _limited(task: PairMoments) -> PairMoments:
    """The task, if it does not release too many numbers."""
    groups = task.rows.count
    if (count := groups * len(task.way.released)) > MOST_NUMBERS:
        rule = f"would release {count:,} numbers, more than {MOST_NUMBERS:,}. Take fewer groups or columns."
        raise ParameterError("P107", "groups", groups, rule)
    return task


def is_binary(argument: Expr) -> bool:
    """Whether an argument has two values at most, the ends of its range: then v^2 is 1 in every row."""
    known, span = facts(argument), argument_span(argument)
    return known.integral and span.upper - span.lower == 1.0


def read_number(text: str, table: Table, name: str) -> Expr:
    """A number of rows given as text: a column, or an expression of columns, with finite bounds; booleans are 0 and 1.

    Raises:
        QueryError: Q1xx to Q4xx. ParameterError: P107, its range cannot be used.
    """
    node = parse_scalar(text)
    argument = Scalars(RowScope(table, None, text).leaf, text)(node)
    if argument.kind is Kind.BOOLEAN:
        argument = Call("number", (argument,), Kind.NUMBER)
    if argument.kind is not Kind.NUMBER:
        way = ways.INSTEAD_OF_NUMBERS[argument.kind]
        refuse("Q203", f"{name} needs a number, not a {argument.kind.value}. {way}", node, text)
    span = facts(argument).interval
    if not span.finite:
        if isinstance(argument, ColumnRef):
            what = f'"{argument.column.name}" has no bounds. The data owner declares them with protect(bounds=...).'
            refuse("Q401", what, node, text)
        refuse("Q402", f"{name} has no finite bounds. Clamp it, for example least(greatest(x, 0), 100).", node, text)
    if max(abs(span.lower), abs(span.upper)) > _WIDEST or 0 < span.upper - span.lower < _NARROWEST:
        rule = f"must have bounds between -1e100 and 1e100, at least {_NARROWEST:g} apart. Take another unit."
        raise ParameterError("P107", name, text, rule)
    return argument

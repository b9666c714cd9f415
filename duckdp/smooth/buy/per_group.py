"""A summary per public group, at the price of one: parallel composition.

The column ``by`` has a declared domain of G values. Let M[k, r] be the exact sums over T_k(u_by) Phi_r, k < G, as
``moments`` reads them, in units of 2^-f. The functions T_k on the places of the G values form an invertible matrix, so
that the sums of group g alone are S[g, r] = sum_k A[g, k] M[k, r], A its inverse. Each S[g] is released with noise of
its own at the whole epsilon.

Privacy:      the whole charge for ``neighbours``, although every group has noise for that charge.
Assumes:      what ``moments`` guarantees of the rows' integers q[k, r]; the domain is public; a unit is one row (the
              rows of a unit of many weigh little each, and their rounding could add up in other groups).
Proof sketch: let W = 2^f. A row of group h adds v[g, r] = sum_k A[g, k] q[k, r] to S[g, r], and |q - W T_k Phi| is at
              most e = W row_error, so |v[g, r] - [g = h] W Phi| <= |A|_inf e: nothing but rounding reaches another
              group. Over all groups sum_g |S[g] - S'[g]|_inf <= D = W + G |A|_inf (e + 1) + G, the 1 for totals M that
              are whole numbers, the last G for rounding S[g, r] to whole numbers. Cube: the loss is
              sum_g epsilon |.|_inf / D <= epsilon. Laplace: R D in l1. Gaussian: sum_g |.|_2^2 <= R sum_g |.|_inf^2
              <= R D^2. Under REPLACE one row goes and another comes: 2 D.
Numerics:     A is the inverse in floats, rounded to multiples of 2^-60 and then applied in integers. What that leaves
              of A T - 1, G times its largest entry, is checked to be below 1e-9, and W times 1e-9 is added to e: with
              more than 30 bits that covers the 1 too. The values lie at the extrema of T_(G-1), where |A|_inf < 2, so
              this holds for every G up to 64: G^3 2^-50 or so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from duckdp.catalog.table import Column, Table
from duckdp.core.reads import PrivateQuery
from duckdp.core.task import OneRead
from duckdp.core.types import Loss, Neighbours, Sensitivity
from duckdp.errors import InternalError, ParameterError
from duckdp.smooth.axes import Floats, make_axis
from duckdp.smooth.basis import Basis, chebyshev
from duckdp.smooth.buy.least_noise import fit_noise
from duckdp.smooth.buy.summary_task import SummaryTask, plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.grouped import KIND, GroupedSummary
from duckdp.smooth.summary import SmoothSummary
from duckdp.smooth.sums.moments import MomentPlan, plan_moments

MOST_GROUPS = 64  # values of the grouping column
_BITS = 60  # fraction of the integer matrix that takes cells to moments
_LEFT = 1e-9  # of T A - 1


@dataclass(frozen=True, kw_only=True)
class GroupedTask(OneRead):
    """A summary for each value of a column, in one read. Implements ``core.task.Task``.

    Attributes:
        by: the column that divides the rows.
        whole: the sums over ``by`` and the others.
        one: the summary of a single group, planned with the noise that each group gets.
        count_public: whether the number of rows of all groups together is public.
    """

    by: Column
    whole: MomentPlan
    one: SummaryTask
    count_public: bool

    @property
    def table(self) -> Table:
        """The protected table that is read."""
        return self.one.table

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that each summary is over."""
        return self.one.columns

    @property
    def basis(self) -> Basis:
        """The functions that each summary holds sums of."""
        return self.one.basis

    @property
    def loss(self) -> Loss:
        """What all groups cost together."""
        return self.one.loss

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        return json.dumps([KIND, self.by.name, self.one.canonical])

    @property
    def mechanism(self) -> str:
        """The mechanism's name in the ledger."""
        return self.one.mechanism

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        return {**self.one.parameters, "by": self.by.name, "path": self.whole.path}

    def describe(self) -> list[str]:
        """What ``explain`` prints of it, line by line."""
        axis = make_axis(self.by, 2)
        assert axis.values is not None
        return [f"one summary for each of the {len(axis.values)} values of {self.by.name}", *self.one.describe()]

    def query(self, salt: int) -> PrivateQuery:  # noqa: ARG002 - nothing is hashed
        """The one private read, as SQL of our own."""
        return self.whole.query()

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Noise the sums of each group.

        Args:
            rows: of :meth:`query`. Exact private values: never logged, stored or raised.
        """
        try:
            found = self.whole.collect(rows)
        except (ValueError, TypeError, IndexError):
            raise InternalError("the moments query gave something other than its sums") from None
        # a public number of rows above row_cap takes its place, which leaves the sums as they are
        cap = max(self.table.row_cap, found[0] >> self.whole.bits if self.count_public else 0)
        one = replace(self.one, table=replace(self.table, row_cap=cap))
        size, most = self.one.basis.size, cap << self.whole.bits
        matrix = separation(self.whole.basis)
        blocks = [found[k * size : (k + 1) * size] for k in range(len(matrix))]
        summaries = []
        for weights in matrix:
            sums = [
                sum(w * block[r] for w, block in zip(weights, blocks, strict=True)) + (1 << (_BITS - 1)) >> _BITS
                for r in range(size)
            ]
            clamped = [max(-most, min(most, value)) for value in sums]
            summaries.append(SmoothSummary.load(one.noised(clamped)))
        axis = self.whole.basis.axes[0]
        assert axis.values is not None
        return GroupedSummary(by=self.by, values=axis.values, summaries=tuple(summaries)).dump()


def plan_grouped(
    table: Table,
    columns: Sequence[str],
    by: str,
    *,
    epsilon_nano: int,
    neighbours: Neighbours,
    delta_atto: int,
    wishes: Wishes,
) -> GroupedTask:
    """Plan one summary per value of ``by``; arguments as ``plan_summary``.

    Raises:
        CatalogError: C102, unknown column. ParameterError: P107, a column twice, no domain, or more than 64 groups.
    """
    if wishes.noise == "auto":
        wishes = replace(wishes, noise="sums")  # what reaches other groups is bounded coordinate by coordinate only
    alone = plan_summary(table, [by], epsilon_nano=epsilon_nano, neighbours=neighbours, wishes=Wishes(noise="sums"))
    (group,) = alone.columns
    axis = make_axis(group, 2)
    one = plan_summary(
        table,
        columns,
        epsilon_nano=epsilon_nano,
        neighbours=neighbours,
        delta_atto=delta_atto,
        wishes=wishes,
        groups=len(axis.values or "1"),
    )
    if axis.values is None or not 2 <= len(axis.values) <= MOST_GROUPS or group.name in {c.name for c in one.columns}:
        rule = f"must be a column with a domain of 2 to {MOST_GROUPS} values that is not among the summary's columns."
        raise ParameterError("P107", "per", by, rule)
    if table.unit_key is not None:
        raise ParameterError("P107", "per", by, f'needs the row as privacy unit, but "{table.name}" has a unit_key.')
    basis = replace(one.basis, axes=(replace(axis, partition=True), *one.basis.axes))
    moments, sensitivity, plan = fit_noise(
        lambda epsilon: plan_moments(table, (group, *one.columns), basis, epsilon=epsilon, path=wishes.path),
        lambda moments: _norms(moments, one.basis.size, neighbours),
        table.row_cap,
        one.basis.levels,
        epsilon_nano,
        delta_atto,
        wishes,
    )
    spread = float(np.abs(_inverse(basis)).sum(axis=1).max())
    row_error, *level_errors = (min(0.99, spread * (e + _LEFT)) for e in (moments.row_error, *moments.level_errors))
    moments_of_one = replace(moments, row_error=row_error, level_errors=tuple(level_errors), basis=one.basis)
    single = replace(one, moments=moments_of_one, plan=plan, count_public=False, sensitivity=sensitivity)
    return GroupedTask(by=group, whole=moments, one=single, count_public=one.count_public and alone.count_public)


def _norms(moments: MomentPlan, size: int, neighbours: Neighbours) -> Sensitivity:
    change = largest_change(moments) * (2 if neighbours is Neighbours.REPLACE else 1)
    return Sensitivity(l1=size * change, l2_squared=size * change**2, linf=change)


def largest_change(moments: MomentPlan) -> int:
    """D of the module's proof: l-infinity change of every group's sums, added up, when one row comes or goes."""
    inverse = _inverse(moments.basis)
    groups, spread = len(inverse), Fraction(float(np.abs(inverse).sum(axis=1).max()))
    unit = 1 << moments.bits
    rounded = 1 + unit * Fraction(_left(moments.basis))  # a total of M, which is whole, beside what A T leaves of 1
    error = unit * Fraction(moments.row_error) + max(unit * Fraction(_LEFT), rounded)
    return math.ceil(unit * (1 + Fraction(moments.excess)) + groups * spread * error) + groups


def separation(basis: Basis) -> list[list[int]]:
    """A of the module's proof, in units of 2^-60: whole numbers, row by row."""
    return [[int(v) for v in row] for row in np.rint(_inverse(basis) * 2.0**_BITS)]


def left_over(inverse: Floats, values: Floats) -> float:
    """Bound on G times the largest entry of A T - 1, for T computed in floats: float[G, G].

    The recurrence of T_k errs by 3 2^-53 sum_j |U_j| < 2^-51 G^2, a product of G terms by G 2^-53 of its size.
    """
    groups = len(values)
    floats = (2 * groups**2 + groups) * 2.0**-52 * float(np.abs(inverse).sum(axis=1).max())
    return groups * (float(np.abs(inverse @ values - np.eye(groups)).max()) + floats)


def _inverse(basis: Basis) -> Floats:
    if _left(basis) > _LEFT:
        raise InternalError("the groups cannot be told apart in floats")
    return np.asarray(np.linalg.inv(_places(basis)), dtype=np.float64)


def _left(basis: Basis) -> float:
    """What the integer matrix leaves of A T - 1: see :func:`left_over`."""
    values = _places(basis)
    return left_over(np.rint(np.linalg.inv(values) * 2.0**_BITS) / 2.0**_BITS, values)


def _places(basis: Basis) -> Floats:
    """T[k, g] of the groups' places."""
    axis = basis.axes[0]
    return np.asarray(chebyshev(axis.nodes, axis.degree).T, dtype=np.float64)

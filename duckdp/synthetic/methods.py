"""The methods of synthetic tables, and the one place that chooses among them.

A method is a folder of this package with the modules::

    plan    figures: what is bought, for what share of the charge; from public figures only
    buy     the private side: plans the purchase as a task, whose stages read and noise
    make    post-processing: rows from what was released; never imports ``buy``, nor what reads private rows

To add one: its folder, and its line in ``METHODS``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from duckdp.catalog.constraints import Constraint, among
from duckdp.catalog.table import Column, check_positive
from duckdp.core.task import Task
from duckdp.errors import ParameterError
from duckdp.synthetic.asked import KERNELS, MAX_ROWS, TABLES, Asked
from duckdp.synthetic.lp import buy as lp_buy
from duckdp.synthetic.lp import make as lp_make
from duckdp.synthetic.moments import buy as moments_buy
from duckdp.synthetic.moments import make as moments_make
from duckdp.synthetic.psi import buy as psi_buy
from duckdp.synthetic.psi import make as psi_make
from duckdp.synthetic.score import tree_over_moments
from duckdp.synthetic.stored import Make
from duckdp.synthetic.theorem import buy as theorem_buy
from duckdp.synthetic.theorem import make as theorem_make
from duckdp.synthetic.tree import buy as tree_buy
from duckdp.synthetic.tree import make as tree_make
from duckdp.synthetic.tree.plan import prefers_tree
from duckdp.synthetic.unit.lay_out import lay_out

AUTO = "auto"  # asks for the method that suits


class TableTask(Task, Protocol):
    """A private release that rows are made from."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Declared columns of the table."""

    @property
    def rows(self) -> int | None:
        """How many are wanted, or None for as many as the method makes."""

    @property
    def kept(self) -> list[Constraint]:
        """Declared constraints that every row keeps."""

    def describe(self) -> list[str]:
        """Lines of ``explain``, the first of which names the method; from public figures."""


class Buy(Protocol):
    """The private side of a method: its folder's module ``buy``."""

    def task(self, asked: Asked) -> TableTask:
        """Plan the purchase; refuse what can be refused before a charge. Free: no data is touched.

        Raises:
            CatalogError: C102, C105. ParameterError: P107. QueryError: Q401.
        """


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method of synthetic tables: a folder, in its two sides.

    Attributes:
        name: that of its folder; in SQL ``method := 'name'``, and in stored payloads.
        buy: its private side.
        make: its post-processing.
    """

    name: str
    buy: Buy
    make: Make


METHODS: tuple[Method, ...] = (
    Method(name="moments", buy=moments_buy, make=moments_make),
    Method(name="tree", buy=tree_buy, make=tree_make),
    Method(name="psi", buy=psi_buy, make=psi_make),
    Method(name="lp", buy=lp_buy, make=lp_make),
    Method(name="theorem", buy=theorem_buy, make=theorem_make),
)


def plan_table(asked: Asked, method: str = AUTO) -> TableTask:
    """Plan a synthetic table by a method, or by the one that suits. Free: no data is touched.

    Raises:
        CatalogError: C102, unknown column; C105. ParameterError: P107. QueryError: Q401.
    """
    check_positive("rows", asked.wanted, MAX_ROWS)
    if asked.purpose not in (TABLES, KERNELS):
        raise ParameterError("P107", "purpose", asked.purpose, f"must be {TABLES} or {KERNELS}.")
    if method == AUTO:
        return _choose(asked)
    for known in METHODS:
        if known.name == method:
            _require_kept(asked, method)
            return known.buy.task(asked)
    names = ", ".join([AUTO, *(known.name for known in METHODS)])
    raise ParameterError("P107", "method", method, f"must be one of {names}.")


def _require_kept(asked: Asked, method: str) -> None:
    """Refuse the theorem's rows where a constraint is to be kept: its bound is of rows that nobody moves.

    Raises:
        ParameterError: P107.
    """
    kept = [str(c) for c in among(asked.table.constraints, asked.names)] if method == "theorem" else []
    if kept:
        rule = f"cannot keep {'; '.join(kept)} in every row; take method := 'tree', or leave out one of the columns."
        raise ParameterError("P107", "method", method, rule)


def _choose(asked: Asked) -> TableTask:
    """The linear program where functions per column were asked for, which are its own; else by the noise.

    Never by itself: its rows lie on few points, so what groups them by bands sees the points, not the table.
    """
    return lp_buy.task(asked) if asked.sets_degree and not asked.target else choose_by_noise(asked)


def choose_by_noise(asked: Asked) -> TableTask:
    """A tree or moments, by what their noise is predicted to do to what is asked of the table: public figures."""
    units, request = lay_out(asked, listed=True)
    if units.count < 2 or any(part.listed for part in units.parts):
        return tree_buy.task_over(asked, units, request)
    kernels = asked.purpose == KERNELS
    settled = asked.settled
    if prefers_tree(units, request) if kernels else tree_over_moments(units, request, as_settled=settled) <= 1:
        return tree_buy.task_over(asked, units, request)
    return moments_buy.task_over(asked, units, request)

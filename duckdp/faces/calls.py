"""The dp functions as Python methods of a session: the names without dp_, the arguments of their declarations.

What each takes is declared in :mod:`duckdp.functions`; the signatures are for people and type checkers, and a test
compares them. A function without one is a method too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from duckdp.arguments import Scalar, checked_methods, checks_itself
from duckdp.faces.declared import method
from duckdp.faces.sampling import BlockCalls
from duckdp.faces.sparse import SparseCalls
from duckdp.faces.statistics import StatisticCalls
from duckdp.functions.spec import FUNCTIONS
from duckdp.result import Result

Names = str | Sequence[str]


@checked_methods
class Calls(SparseCalls, BlockCalls, StatisticCalls):
    """Methods of ``Session``; each charges what its SQL function charges."""

    def __init_subclass__(cls) -> None:
        for spec in FUNCTIONS.values():
            if not hasattr(cls, spec.method):
                setattr(cls, spec.method, method(spec))
        checked_methods(cls)

    @checks_itself
    def noisy_count(
        self,
        table: str,
        *,
        epsilon: object = None,
        predicate: str | None = None,
        unit: bool = False,
        error: float | None = None,
        fresh: bool = False,
    ) -> Result:
        """A noisy number of rows, or (``unit``) of privacy units."""
        return self._ask("dp_noisy_count", locals())

    @checks_itself
    def explain_noisy_count(
        self,
        table: str,
        *,
        epsilon: object = None,
        predicate: str | None = None,
        unit: bool = False,
        error: float | None = None,
    ) -> Result:
        """What :meth:`noisy_count` would do and cost; free."""
        return self._ask("dp_explain_noisy_count", locals())

    @checks_itself
    def median_smooth(
        self,
        table: str,
        column: str,
        *,
        epsilon: object = None,
        delta: object = 0,
        predicate: str | None = None,
        quantile: float | str = 0.5,
        groups: Names | None = None,
        intervals: bool = False,
        fresh: bool = False,
    ) -> Result:
        """A median (or other quantile), in each group, by smooth sensitivity; ``intervals`` buys one for each."""
        return self._ask("dp_median_smooth", locals())

    @checks_itself
    def explain_median_smooth(
        self,
        table: str,
        column: str,
        *,
        epsilon: object = None,
        delta: object = 0,
        predicate: str | None = None,
        quantile: float | str = 0.5,
        groups: Names | None = None,
        intervals: bool = False,
    ) -> Result:
        """What :meth:`median_smooth` would do and cost; free."""
        return self._ask("dp_explain_median_smooth", locals())

    @checks_itself
    def smooth_summary(
        self,
        table: str,
        columns: Sequence[str],
        *,
        epsilon: object = None,
        delta: object = 0,
        smoothness: int | None = None,
        degree: int | None = None,
        name: str,
        basis: Literal["auto", "tensor", "total_degree", "hyperbolic_cross"] = "auto",
        interactions: int | None = None,
        weights: Literal["smooth", "uniform"] = "smooth",
        noise: Literal["auto", "laplace", "cube", "gaussian", "kernels"] = "auto",
        per: str | None = None,
        across: bool = False,
        ranges: bool = False,
        fresh: bool = False,
    ) -> Result:
        """Buy a summary that answers any number of smooth queries; one row about it.

        ``basis`` "auto" has the least predicted error; ``interactions`` is the most columns in one function; ``per``
        names a column with a domain, each of whose values gets a summary, and with ``across`` all rows too; ``ranges``
        counts rows by ranges too, for ``CASE WHEN x BETWEEN a AND b``; ``fresh`` pays again where the charge is final;
        see docs/guide.md.
        """
        return self._ask("dp_smooth_summary", locals())

    @checks_itself
    def explain_summary(
        self,
        table: str,
        columns: Sequence[str],
        *,
        epsilon: object = None,
        delta: object = 0,
        smoothness: int | None = None,
        degree: int | None = None,
        basis: Literal["auto", "tensor", "total_degree", "hyperbolic_cross"] = "auto",
        interactions: int | None = None,
        weights: Literal["smooth", "uniform"] = "smooth",
        noise: Literal["auto", "laplace", "cube", "gaussian", "kernels"] = "auto",
        per: str | None = None,
        across: bool = False,
        ranges: bool = False,
    ) -> Result:
        """What :meth:`smooth_summary` would hold and cost; free."""
        return self._ask("dp_explain_summary", locals())

    @checks_itself
    def smooth_answer(
        self,
        name: str,
        function: str,
        *,
        statistic: Literal["mean", "sum"] = "mean",
        tolerance: float | None = None,
        method: Literal["interpolation", "jackson", "best"] = "interpolation",
        category: Scalar | None = None,
    ) -> Result:
        """Answer a smooth function of a summary's columns; free. ``category`` names a group (``per``)."""
        return self._ask("dp_smooth_answer", locals())

    @checks_itself
    def smooth_answers(
        self,
        name: str,
        functions: Sequence[str],
        *,
        statistic: Literal["mean", "sum"] = "mean",
        tolerance: float | None = None,
        category: Scalar | None = None,
        simultaneous: bool = False,
    ) -> Result:
        """Answer many functions of a summary's columns at once, one row each; free.

        ``simultaneous`` lets all intervals hold together at 95%: wider than each alone, for misses come together.
        """
        return self._ask("dp_smooth_answers", locals())

    @checks_itself
    def synthesize(
        self,
        source: str,
        *,
        epsilon: object = None,
        rows: int | str = "auto",
        columns: Sequence[str] | None = None,
        delta: object = 0,
        smoothness: int | None = None,
        degree: int | None = None,
        name: str | None = None,
        method: str = "auto",
        target: str | None = None,
        purpose: str = "tables",
        time_limit: float | None = None,
        fresh: bool = False,
        progress: Callable[[str, float], None] | None = None,
    ) -> Result:
        """A synthetic table: charged from a protected table, free from a stored summary.

        ``method``: "lp" (up to three columns, the whole grid), "theorem" (the paper's Algorithm 3), "moments" (many
        columns), "tree" (two-way tables of the pairs that matter), "psi" (the paper's practical variant), or "auto",
        which chooses by public figures, for histograms, pairs and models, or for broad smooth queries with ``purpose``
        "kernels"; ``target`` names a column of two values whose links to the others are bought first. ``rows``: "auto"
        is the noisy count up to 100,000, and the theorem's own number with "theorem". After ``time_limit`` seconds of
        work on the release the best fit found is taken; of a linear program one that follows its release, with a note
        on how good it is for certain, or none and what was paid for is kept (N101). ``progress`` is told
        (stage, share done). Interrupted, the charge stays, and asking again is free; three attempts may read the data.
        ``fresh`` pays again: for other rows without a name, and with one where its charge is final.
        """
        return self._ask("dp_synthesize", locals())

    @checks_itself
    def explain_synthesize(
        self,
        table: str,
        *,
        epsilon: object = None,
        rows: int | str = "auto",
        columns: Sequence[str] | None = None,
        delta: object = 0,
        smoothness: int | None = None,
        degree: int | None = None,
        method: str = "auto",
        target: str | None = None,
        purpose: str = "tables",
    ) -> Result:
        """Which method a synthetic table would take, what it would buy and cost, and what a theorem promises; free."""
        return self._ask("dp_explain_synthesize", locals())

    @checks_itself
    def bounds(
        self, table: str, column: str, *, epsilon: object = None, predicate: str | None = None, fresh: bool = False
    ) -> Result:
        """Suggested bounds of a visible column, widest first, and how many rows each range would clip."""
        return self._ask("dp_bounds", locals())

    @checks_itself
    def rows_per_unit(
        self, table: str, *, epsilon: object = None, predicate: str | None = None, fresh: bool = False
    ) -> Result:
        """How many units have more rows than a ``max_rows`` of 1, 2, 5, 10, ... and what share of rows it drops."""
        return self._ask("dp_rows_per_unit", locals())

    @checks_itself
    def groups_per_unit(
        self, table: str, keys: Names, *, epsilon: object = None, predicate: str | None = None, fresh: bool = False
    ) -> Result:
        """How many units are in more groups, by ``keys`` as in GROUP BY, than a ``max_groups`` of 1, 2, 5, 10, ..."""
        return self._ask("dp_groups_per_unit", locals())

    @checks_itself
    def top_k(
        self,
        table: str,
        keys: Names,
        k: int,
        *,
        epsilon: object = None,
        delta: object = 0,
        predicate: str | None = None,
        fresh: bool = False,
    ) -> Result:
        """The k values of a column, or groups, that most units have, without their counts."""
        return self._ask("dp_top_k", locals())

    @checks_itself
    def choose(
        self,
        table: str,
        candidates: Sequence[str],
        *,
        epsilon: object = None,
        k: int = 1,
        delta: object = 0,
        predicate: str | None = None,
        fresh: bool = False,
    ) -> Result:
        """The predicate of a list, or the k predicates, that most units fulfil, without their counts."""
        return self._ask("dp_choose", locals())

    @checks_itself
    def explain_top_k(
        self,
        table: str,
        keys: Names,
        k: int,
        *,
        epsilon: object = None,
        delta: object = 0,
        predicate: str | None = None,
    ) -> Result:
        """What :meth:`top_k` would do and cost; free."""
        return self._ask("dp_explain_top_k", locals())

    @checks_itself
    def explain_choose(
        self,
        table: str,
        candidates: Sequence[str],
        *,
        epsilon: object = None,
        k: int = 1,
        delta: object = 0,
        predicate: str | None = None,
    ) -> Result:
        """What :meth:`choose` would do and cost; free."""
        return self._ask("dp_explain_choose", locals())

    @checks_itself
    def explain_bounds(
        self, table: str, column: str, *, epsilon: object = None, predicate: str | None = None
    ) -> Result:
        """What :meth:`bounds` would do and cost; free."""
        return self._ask("dp_explain_bounds", locals())

    @checks_itself
    def explain_rows_per_unit(self, table: str, *, epsilon: object = None, predicate: str | None = None) -> Result:
        """What :meth:`rows_per_unit` would do and cost; free."""
        return self._ask("dp_explain_rows_per_unit", locals())

    @checks_itself
    def explain_groups_per_unit(
        self, table: str, keys: Names, *, epsilon: object = None, predicate: str | None = None
    ) -> Result:
        """What :meth:`groups_per_unit` would do and cost; free."""
        return self._ask("dp_explain_groups_per_unit", locals())

    @checks_itself
    def budget(self) -> Result:
        """What was granted, spent and is left."""
        return self._ask("dp_budget", locals())

    @checks_itself
    def accountants(self, *, delta: object = None) -> Result:
        """What the charges amount to together, by each accountant; ``delta`` is the grant's by default."""
        return self._ask("dp_accountants", locals())

    @checks_itself
    def ledger(self, *, most: int | None = None, before: int | None = None) -> Result:
        """The analyst's own charges, oldest first.

        Args:
            most: at most so many, the newest; 1,000 by default.
            before: only those before this charge, to go back from a page.
        """
        return self._ask("dp_ledger", locals())

    @checks_itself
    def summaries(self, *, most: int | None = None, after: str | None = None) -> Result:
        """Stored summaries and synthetic tables, the analyst's own first, by name.

        Args:
            most: at most so many; 1,000 by default.
            after: to go on from a page, the name of its last one; of one that was shared, owner.name.
        """
        return self._ask("dp_summaries", locals())

    @checks_itself
    def catalog(self) -> Result:
        """Declared tables and columns, with their public figures; free."""
        return self._ask("dp_catalog", locals())

"""The dp functions that split units into blocks, as Python methods of a session (``calls.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from duckdp.arguments import checked_methods, checks_itself
from duckdp.faces.files import Files
from duckdp.result import Result

Method = Literal["auto", "mean", "median", "center"]
Centers = Literal["auto", "cells", "iterations", "blocks"]


@checked_methods
class BlockCalls(Files):
    """Methods of ``Session``; each charges what its SQL function charges."""

    @checks_itself
    def sample_aggregate(
        self,
        table: str,
        aggregate: str,
        *,
        epsilon: object = None,
        blocks: int | None = None,
        low: float | None = None,
        high: float | None = None,
        method: Method = "auto",
        predicate: str | None = None,
        more: Sequence[str] | None = None,
        fresh: bool = False,
    ) -> Result:
        """An aggregate of all rows, such as ``corr(x, y)``, from those of ``blocks`` of privacy units.

        Values of blocks are clamped to ``low`` .. ``high``, by default what follows from declarations, and combined by
        ``method``: "mean" (with an interval), "median" or "center"; "auto" chooses by public figures. ``more``
        aggregates are of the same blocks, a row for each.
        """
        return self._ask("dp_sample_aggregate", locals())

    @checks_itself
    def explain_sample_aggregate(
        self,
        table: str,
        aggregate: str,
        *,
        epsilon: object = None,
        blocks: int | None = None,
        low: float | None = None,
        high: float | None = None,
        method: Method = "auto",
        predicate: str | None = None,
        more: Sequence[str] | None = None,
    ) -> Result:
        """What :meth:`sample_aggregate` would do and cost; free."""
        return self._ask("dp_explain_sample_aggregate", locals())

    @checks_itself
    def kmeans(
        self,
        table: str,
        columns: Sequence[str],
        *,
        k: int = 8,
        epsilon: object = None,
        method: Centers = "auto",
        moves: int | None = None,
        blocks: int | None = None,
        predicate: str | None = None,
        fresh: bool = False,
    ) -> Result:
        """k-means: ``k`` centres of the rows in some columns, each with how many rows are nearest to it.

        Columns count by the width of their bounds. Centres come of noisy counts of cells ("auto"), of public places
        that are moved to noisy means ("iterations"), or of the centres of ``blocks`` of units ("blocks").
        """
        return self._ask("dp_kmeans", locals())

    @checks_itself
    def explain_kmeans(
        self,
        table: str,
        columns: Sequence[str],
        *,
        k: int = 8,
        epsilon: object = None,
        method: Centers = "auto",
        moves: int | None = None,
        blocks: int | None = None,
        predicate: str | None = None,
    ) -> Result:
        """What :meth:`kmeans` would do and cost; free."""
        return self._ask("dp_explain_kmeans", locals())

    @checks_itself
    def mwem(
        self,
        table: str,
        columns: Sequence[str],
        questions: Sequence[str],
        *,
        epsilon: object = None,
        rounds: int | None = None,
        fresh: bool = False,
    ) -> Result:
        """A synthetic table of the cells of ``columns``, with counts that fit the worst of ``questions`` (MWEM)."""
        return self._ask("dp_mwem", locals())

    @checks_itself
    def explain_mwem(
        self,
        table: str,
        columns: Sequence[str],
        questions: Sequence[str],
        *,
        epsilon: object = None,
        rounds: int | None = None,
    ) -> Result:
        """What :meth:`mwem` would do and cost; free."""
        return self._ask("dp_explain_mwem", locals())

    @checks_itself
    def marginals(
        self,
        table: str,
        columns: Sequence[str],
        *,
        epsilon: object = None,
        k: int = 2,
        delta: object = 0,
        fresh: bool = False,
    ) -> Result:
        """Noisy counts of all combinations of values of every ``k`` of the columns; a row for each."""
        return self._ask("dp_marginals", locals())

    @checks_itself
    def explain_marginals(
        self, table: str, columns: Sequence[str], *, epsilon: object = None, k: int = 2, delta: object = 0
    ) -> Result:
        """How :meth:`marginals` would be released, and at what error and cost; free."""
        return self._ask("dp_explain_marginals", locals())

    @checks_itself
    def small_database(
        self,
        table: str,
        columns: Sequence[str],
        questions: Sequence[str],
        *,
        epsilon: object = None,
        size: int | None = None,
        fresh: bool = False,
    ) -> Result:
        """About how many units fulfil each of ``questions``, from a small database of the cells of ``columns``."""
        return self._ask("dp_small_database", locals())

    @checks_itself
    def explain_small_database(
        self,
        table: str,
        columns: Sequence[str],
        questions: Sequence[str],
        *,
        epsilon: object = None,
        size: int | None = None,
    ) -> Result:
        """How many databases :meth:`small_database` would choose from, its error bound and its cost; free."""
        return self._ask("dp_explain_small_database", locals())

"""The dp functions of columns together and of their distributions, as Python methods of a session (``calls.py``)."""

from __future__ import annotations

from collections.abc import Sequence

from duckdp.arguments import checked_methods, checks_itself
from duckdp.faces.files import Files
from duckdp.result import Result

Names = str | Sequence[str]


@checked_methods
class StatisticCalls(Files):
    """Methods of ``Session``; each charges what its SQL function charges."""

    @checks_itself
    def covariance(
        self,
        table: str,
        x: str,
        y: str,
        *,
        epsilon: object = None,
        delta: object = 0,
        groups: Names | None = None,
        predicate: str | None = None,
        fresh: bool = False,
    ) -> Result:
        """The sample covariance of two columns, or expressions of columns, in each group."""
        return self._ask("dp_covariance", locals())

    @checks_itself
    def explain_covariance(
        self,
        table: str,
        x: str,
        y: str,
        *,
        epsilon: object = None,
        delta: object = 0,
        groups: Names | None = None,
        predicate: str | None = None,
    ) -> Result:
        """What :meth:`covariance` would do and cost; free."""
        return self._ask("dp_explain_covariance", locals())

    @checks_itself
    def correlation(
        self,
        table: str,
        x: str,
        y: str,
        *,
        epsilon: object = None,
        delta: object = 0,
        groups: Names | None = None,
        predicate: str | None = None,
        fresh: bool = False,
    ) -> Result:
        """The correlation of two columns, or expressions of columns, in each group."""
        return self._ask("dp_correlation", locals())

    @checks_itself
    def explain_correlation(
        self,
        table: str,
        x: str,
        y: str,
        *,
        epsilon: object = None,
        delta: object = 0,
        groups: Names | None = None,
        predicate: str | None = None,
    ) -> Result:
        """What :meth:`correlation` would do and cost; free."""
        return self._ask("dp_explain_correlation", locals())

    @checks_itself
    def correlations(
        self,
        table: str,
        columns: Sequence[str],
        *,
        epsilon: object = None,
        delta: object = 0,
        groups: Names | None = None,
        predicate: str | None = None,
        fresh: bool = False,
    ) -> Result:
        """Correlations and covariances of all pairs of columns for one charge, a row for each pair in each group."""
        return self._ask("dp_correlations", locals())

    @checks_itself
    def explain_correlations(
        self,
        table: str,
        columns: Sequence[str],
        *,
        epsilon: object = None,
        delta: object = 0,
        groups: Names | None = None,
        predicate: str | None = None,
    ) -> Result:
        """What :meth:`correlations` would do and cost; free."""
        return self._ask("dp_explain_correlations", locals())

    @checks_itself
    def linear_regression(
        self,
        table: str,
        target: str,
        features: Sequence[str],
        *,
        epsilon: object = None,
        delta: object = 0,
        ridge: float = 0.0,
        groups: Names | None = None,
        predicate: str | None = None,
        fresh: bool = False,
    ) -> Result:
        """Least squares of ``target`` on ``features``: a row for the intercept and for each feature, in each group.

        Intervals are for the fit on the clamped data, with the same ``ridge``.
        """
        return self._ask("dp_linear_regression", locals())

    @checks_itself
    def explain_linear_regression(
        self,
        table: str,
        target: str,
        features: Sequence[str],
        *,
        epsilon: object = None,
        delta: object = 0,
        ridge: float = 0.0,
        groups: Names | None = None,
        predicate: str | None = None,
    ) -> Result:
        """What :meth:`linear_regression` would do and cost; free."""
        return self._ask("dp_explain_linear_regression", locals())

    @checks_itself
    def histogram(
        self,
        table: str,
        x: str,
        *,
        epsilon: object = None,
        bins: int | None = None,
        delta: object = 0,
        groups: Names | None = None,
        predicate: str | None = None,
        fresh: bool = False,
    ) -> Result:
        """Noisy counts of rows in public bins of ``x``, in each group; left out, a formula says how many ``bins``."""
        return self._ask("dp_histogram", locals())

    @checks_itself
    def explain_histogram(
        self,
        table: str,
        x: str,
        *,
        epsilon: object = None,
        bins: int | None = None,
        delta: object = 0,
        groups: Names | None = None,
        predicate: str | None = None,
    ) -> Result:
        """What :meth:`histogram` would do and cost; free."""
        return self._ask("dp_explain_histogram", locals())

    @checks_itself
    def cdf(
        self,
        table: str,
        x: str,
        *,
        epsilon: object = None,
        bins: int | None = None,
        delta: object = 0,
        groups: Names | None = None,
        predicate: str | None = None,
        fresh: bool = False,
    ) -> Result:
        """Which share of rows is below each of ``bins`` public values of ``x``, with a band, in each group."""
        return self._ask("dp_cdf", locals())

    @checks_itself
    def explain_cdf(
        self,
        table: str,
        x: str,
        *,
        epsilon: object = None,
        bins: int | None = None,
        delta: object = 0,
        groups: Names | None = None,
        predicate: str | None = None,
    ) -> Result:
        """What :meth:`cdf` would do and cost; free."""
        return self._ask("dp_explain_cdf", locals())

    @checks_itself
    def count_variance(
        self,
        table: str,
        *,
        epsilon: object = None,
        most: int | None = None,
        delta: object = 0,
        groups: Names | None = None,
        predicate: str | None = None,
        fresh: bool = False,
    ) -> Result:
        """Mean and variance of how many rows (up to ``most``) a privacy unit has that has any, in each group."""
        return self._ask("dp_count_variance", locals())

    @checks_itself
    def explain_count_variance(
        self,
        table: str,
        *,
        epsilon: object = None,
        most: int | None = None,
        delta: object = 0,
        groups: Names | None = None,
        predicate: str | None = None,
    ) -> Result:
        """What :meth:`count_variance` would do and cost; free."""
        return self._ask("dp_explain_count_variance", locals())

    @checks_itself
    def mst_cost(
        self,
        table: str,
        start: str,
        end: str,
        weight: str,
        *,
        epsilon: object = None,
        predicate: str | None = None,
        method: str = "auto",
        intervals: bool = False,
        fresh: bool = False,
    ) -> Result:
        """The cost of a minimum spanning tree of edges, between public vertices."""
        return self._ask("dp_mst_cost", locals())

    @checks_itself
    def explain_mst_cost(
        self,
        table: str,
        start: str,
        end: str,
        weight: str,
        *,
        epsilon: object = None,
        predicate: str | None = None,
        method: str = "auto",
        intervals: bool = False,
    ) -> Result:
        """What :meth:`mst_cost` would do and cost; free."""
        return self._ask("dp_explain_mst_cost", locals())

    @checks_itself
    def logistic_regression(
        self,
        table: str,
        target: str,
        features: Sequence[str],
        *,
        epsilon: object = None,
        ridge: float = 0.001,
        predicate: str | None = None,
        fresh: bool = False,
    ) -> Result:
        """Logistic regression of a condition on ``features``: a row for the intercept and for each feature.

        Intervals are for the fit on the clamped data, with the same ``ridge``.
        """
        return self._ask("dp_logistic_regression", locals())

    @checks_itself
    def explain_logistic_regression(
        self,
        table: str,
        target: str,
        features: Sequence[str],
        *,
        epsilon: object = None,
        ridge: float = 0.001,
        predicate: str | None = None,
    ) -> Result:
        """What :meth:`logistic_regression` would do and cost; free."""
        return self._ask("dp_explain_logistic_regression", locals())

    @checks_itself
    def quantiles(
        self,
        table: str,
        column: str,
        quantiles: Sequence[float],
        *,
        epsilon: object = None,
        groups: Names | None = None,
        predicate: str | None = None,
        intervals: bool = True,
        method: str = "auto",
        step: float | None = None,
        fresh: bool = False,
    ) -> Result:
        """Several quantiles of a column at once, the least and the largest value among them if asked, in each group."""
        return self._ask("dp_quantiles", locals())

    @checks_itself
    def explain_quantiles(
        self,
        table: str,
        column: str,
        quantiles: Sequence[float],
        *,
        epsilon: object = None,
        groups: Names | None = None,
        predicate: str | None = None,
        intervals: bool = True,
        method: str = "auto",
        step: float | None = None,
    ) -> Result:
        """What :meth:`quantiles` would do and cost; free."""
        return self._ask("dp_explain_quantiles", locals())

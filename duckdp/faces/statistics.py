"""The dp functions of columns together, as Python methods of a session (``calls.py``)."""

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

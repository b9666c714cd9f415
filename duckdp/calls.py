"""The dp functions as Python methods of a session: the same names without dp_, the same preparation as in SQL."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from duckdp import functions
from duckdp.result import Result

if TYPE_CHECKING:
    from duckdp.session import Session
    from duckdp.synthetic.report import SyntheticReport


class Calls:
    """Methods of ``Session``; each charges what its SQL function charges."""

    def noisy_count(
        self, table: str, *, epsilon: object = None, predicate: str | None = None, unit: bool = False,
        error: float | None = None, fresh: bool = False,
    ) -> Result:  # fmt: skip
        """A noisy number of rows, or (``unit``) of privacy units."""
        return self._call(functions.noisy_count(self._session, table, epsilon, predicate, unit, error, fresh))

    def median_smooth(
        self, table: str, column: str, *, epsilon: object = None, delta: object = 0, predicate: str | None = None,
        quantile: float | str = 0.5, fresh: bool = False,
    ) -> Result:  # fmt: skip
        """A median (or other quantile) by smooth sensitivity; delta > 0 takes Laplace noise."""
        given = (table, column, epsilon, delta, predicate, quantile, fresh)
        return self._call(functions.median_smooth(self._session, *given))

    def smooth_summary(
        self, table: str, columns: Sequence[str], *, name: str, epsilon: object = None, delta: object = 0,
        smoothness: int | None = None, degree: int | None = None, **more: Any,
    ) -> Result:  # fmt: skip
        """Buy a summary that answers any number of smooth queries; one row about it.

        ``more``: basis ("tensor", "total_degree", "hyperbolic_cross"), interactions, weights, noise, per; see
        README.
        """
        given = (table, columns, epsilon, delta, smoothness, degree, name)
        return self._call(functions.smooth_summary(self._session, *given, **more))

    def explain_summary(
        self, table: str, columns: Sequence[str], *, epsilon: object, delta: object = 0,
        smoothness: int | None = None, degree: int | None = None, **more: Any,
    ) -> Result:  # fmt: skip
        """What :meth:`smooth_summary` would hold and cost; free."""
        return self._call(
            functions.explain_summary(self._session, table, columns, epsilon, delta, smoothness, degree, **more)
        )

    def smooth_answer(
        self, name: str, function: str, *, statistic: str = "mean", tolerance: float | None = None,
        method: str = "interpolation", category: str | None = None,
    ) -> Result:  # fmt: skip
        """Answer a smooth function of a summary's columns; free. ``category`` names a group (``per``)."""
        given = (name, function, statistic, tolerance, method, category)
        return self._call(functions.smooth_answer(self._session, *given))

    def smooth_answers(
        self, name: str, listed: Sequence[str], *, statistic: str = "mean", tolerance: float | None = None,
        category: str | None = None,
    ) -> Result:  # fmt: skip
        """Answer many functions of a summary's columns at once, one row each; free."""
        return self._call(functions.smooth_answers(self._session, name, listed, statistic, tolerance, category))

    def synthesize(
        self, source: str, *, epsilon: object = None, delta: object = 0, rows: int | str = "auto",
        columns: Sequence[str] | None = None, smoothness: int | None = None, degree: int | None = None,
        name: str | None = None, method: str = "auto", target: str | None = None, time_limit: float | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> Result:  # fmt: skip
        """A synthetic table: charged from a protected table, free from a stored summary.

        ``method``: "lp" (up to three columns, the whole grid), "theorem" (the paper's Algorithm 3), "moments" (many
        columns), "tree" (two-way tables of the pairs that matter), "psi" (the paper's practical variant), or "auto",
        which chooses by public figures; ``target`` names a column of two values whose links to the others are bought
        first. ``rows``: "auto" is 10,000, and the theorem's own number with "theorem". After ``time_limit`` seconds of
        work on the release the best fit found is taken, of a linear program with a note on how good it is for certain;
        ``progress`` is told (stage, share done). Interrupted, the charge stays, and asking again is free.
        """
        given = (epsilon, delta, rows, columns, smoothness, degree, name, method, target, time_limit, progress)
        return self._call(functions.synthesize(self._session, source, *given))

    def explain_synthesize(
        self, table: str, *, epsilon: object = None, delta: object = 0, rows: int | str = "auto",
        columns: Sequence[str] | None = None, smoothness: int | None = None, degree: int | None = None,
        method: str = "auto", target: str | None = None,
    ) -> Result:  # fmt: skip
        """Which method a synthetic table would take, what it would buy and cost, and what a theorem promises; free."""
        given = (epsilon, delta, rows, columns, smoothness, degree, method, target)
        return self._call(functions.explain_synthesize(self._session, table, *given))

    def export_summary(self, name: str, path: str | os.PathLike[str]) -> None:
        """Write a stored summary to a file that ``duckdp.smooth.load`` reads: released, so public.

        Raises:
            CatalogError: C110. OSError: the file exists or cannot be written.
        """
        with open(path, "x", encoding="utf-8") as file:
            file.write(self._session.summary(name).dump())

    def export_tables(self, names: Sequence[str], path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write stored synthetic tables into one DuckDB file that shells from 1.0 on read: released, so free.

        Raises:
            CatalogError: C110. ParameterError: P107. OSError: the file exists or cannot be written.
        """
        from duckdp.synthetic.files import open_tables, write_database

        ledger, analyst = self._session._curator.ledger, self._session.analyst
        payloads = {str(n): ledger.object(analyst, str(n)[:64]).payload for n in names}
        write_database(path, open_tables(payloads), replace=replace)

    def synthetic_report(self, name: str, path: str | os.PathLike[str] | None = None) -> SyntheticReport:
        """How well a stored synthetic table meets its release, beside the release's own error bars; free.

        Args:
            name: of a synthetic table, or of a summary, from which a table is made first.
            path: where to write the page, if anywhere.

        Raises:
            CatalogError: C110. NumericalError: N101. OSError: the file exists or cannot be written.
        """
        from duckdp.synthetic.report import make_report

        ledger = self._session._curator.ledger
        stored = ledger.object(self._session.analyst, str(name)[:64])
        charge = next((c for c in ledger.charges() if c.id == stored.charge_id), None)
        report = make_report(str(name), stored.payload, json.loads(charge.parameters) if charge else None)
        if path is not None:
            with open(path, "x", encoding="utf-8") as file:
                file.write(report.html)
        return report

    def budget(self) -> Result:
        """What was granted, spent and is left."""
        return self._call(functions.budget(self._session))

    def ledger(self) -> Result:
        """The analyst's own charges."""
        return self._call(functions.ledger(self._session))

    def summaries(self) -> Result:
        """Stored summaries and synthetic tables."""
        return self._call(functions.summaries(self._session))

    def catalog(self) -> Result:
        """Declared tables and columns."""
        return self._call(functions.catalog(self._session))

    def _call(self, prepared: functions.Prepared) -> Result:
        return prepared.run(secrets.token_hex(16))

    @property
    def _session(self) -> Session:
        return cast("Session", self)

"""The dp functions as Python methods of a session: the same names without dp_, the same preparation as in SQL."""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from duckdp import functions
from duckdp.arguments import Scalar, checked_methods, checks_itself, scalars
from duckdp.desk.asking import Asking, noted
from duckdp.errors import ParameterError
from duckdp.functions.prepared import read_given
from duckdp.result import Result

if TYPE_CHECKING:
    from duckdp.session import Session
    from duckdp.synthetic.report.table_report import SyntheticReport


@checked_methods
class Calls:
    """Methods of ``Session``; each charges what its SQL function charges."""

    def __init_subclass__(cls) -> None:
        checked_methods(cls)

    @noted()
    def noisy_count(
        self, table: str, *, epsilon: object = None, predicate: str | None = None, unit: bool = False,
        error: float | None = None, fresh: bool = False,
    ) -> Result:  # fmt: skip
        """A noisy number of rows, or (``unit``) of privacy units."""
        return self._call(functions.noisy_count(self._session, table, epsilon, predicate, unit, error, fresh))

    @noted()
    def median_smooth(
        self, table: str, column: str, *, epsilon: object = None, delta: object = 0, predicate: str | None = None,
        quantile: float | str = 0.5, fresh: bool = False,
    ) -> Result:  # fmt: skip
        """A median (or other quantile) by smooth sensitivity; delta > 0 takes Laplace noise."""
        given = (table, column, epsilon, delta, predicate, quantile, fresh)
        return self._call(functions.median_smooth(self._session, *given))

    @noted()
    def smooth_summary(
        self, table: str, columns: Sequence[str], *, name: str, epsilon: object = None, delta: object = 0,
        smoothness: int | None = None, degree: int | None = None, **more: Any,
    ) -> Result:  # fmt: skip
        """Buy a summary that answers any number of smooth queries; one row about it.

        ``more``: basis ("tensor", "total_degree", "hyperbolic_cross"), interactions, weights, noise, per, fresh (pay
        again where the charge is final); see docs/guide.md.
        """
        more = scalars(more)
        given = (table, columns, epsilon, delta, smoothness, degree, name)
        return self._call(functions.smooth_summary(self._session, *given, **more))

    @noted("explained")
    def explain_summary(
        self, table: str, columns: Sequence[str], *, epsilon: object, delta: object = 0,
        smoothness: int | None = None, degree: int | None = None, **more: Any,
    ) -> Result:  # fmt: skip
        """What :meth:`smooth_summary` would hold and cost; free."""
        more = scalars(more)
        return self._call(
            functions.explain_summary(self._session, table, columns, epsilon, delta, smoothness, degree, **more)
        )

    @noted()
    def smooth_answer(
        self, name: str, function: str, *, statistic: str = "mean", tolerance: float | None = None,
        method: str = "interpolation", category: Scalar | None = None,
    ) -> Result:  # fmt: skip
        """Answer a smooth function of a summary's columns; free. ``category`` names a group (``per``)."""
        given = (name, function, statistic, tolerance, method, category)
        return self._call(functions.smooth_answer(self._session, *given))

    @noted()
    def smooth_answers(
        self, name: str, listed: Sequence[str], *, statistic: str = "mean", tolerance: float | None = None,
        category: Scalar | None = None,
    ) -> Result:  # fmt: skip
        """Answer many functions of a summary's columns at once, one row each; free."""
        return self._call(functions.smooth_answers(self._session, name, listed, statistic, tolerance, category))

    @noted()
    def synthesize(
        self, source: str, *, epsilon: object = None, delta: object = 0, rows: int | str = "auto",
        columns: Sequence[str] | None = None, smoothness: int | None = None, degree: int | None = None,
        name: str | None = None, method: str = "auto", target: str | None = None, time_limit: float | None = None,
        fresh: bool = False, progress: Callable[[str, float], None] | None = None,
    ) -> Result:  # fmt: skip
        """A synthetic table: charged from a protected table, free from a stored summary.

        ``method``: "lp" (up to three columns, the whole grid), "theorem" (the paper's Algorithm 3), "moments" (many
        columns), "tree" (two-way tables of the pairs that matter), "psi" (the paper's practical variant), or "auto",
        which chooses by public figures; ``target`` names a column of two values whose links to the others are bought
        first; without it "moments" may take such a column beside numbers, for less; "" wants none. ``rows``: "auto" is
        10,000, and the theorem's own number with "theorem". After ``time_limit`` seconds of work on the release the
        best fit found is taken, of a linear program with a note on how good it is for certain; ``progress`` is told
        (stage, share done). Interrupted, the charge stays, and asking again is free; three attempts may read the data.
        ``fresh`` pays again: for other rows without a name, and with one where its charge is final.
        """
        given = (epsilon, delta, rows, columns, smoothness, degree, name, method, target, time_limit, fresh, progress)
        return self._call(functions.synthesize(self._session, source, *given))

    @noted("explained")
    def explain_synthesize(
        self, table: str, *, epsilon: object = None, delta: object = 0, rows: int | str = "auto",
        columns: Sequence[str] | None = None, smoothness: int | None = None, degree: int | None = None,
        method: str = "auto", target: str | None = None,
    ) -> Result:  # fmt: skip
        """Which method a synthetic table would take, what it would buy and cost, and what a theorem promises; free."""
        given = (epsilon, delta, rows, columns, smoothness, degree, method, target)
        return self._call(functions.explain_synthesize(self._session, table, *given))

    @noted()
    def bounds(
        self, table: str, column: str, *, epsilon: object = None, predicate: str | None = None, fresh: bool = False
    ) -> Result:
        """Suggested bounds of a visible column, widest first, and how many rows each range would clip."""
        return self._call(functions.bounds(self._session, table, column, epsilon, predicate, fresh))

    @noted()
    def rows_per_unit(
        self, table: str, *, epsilon: object = None, predicate: str | None = None, fresh: bool = False
    ) -> Result:
        """How many units have more rows than a ``max_rows`` of 1, 2, 5, 10, ... and what share of rows it drops."""
        return self._call(functions.rows_per_unit(self._session, table, epsilon, predicate, fresh))

    @noted()
    def groups_per_unit(
        self, table: str, keys: str | Sequence[str], *, epsilon: object = None, predicate: str | None = None,
        fresh: bool = False,
    ) -> Result:  # fmt: skip
        """How many units are in more groups, by ``keys`` as in GROUP BY, than a ``max_groups`` of 1, 2, 5, 10, ..."""
        return self._call(functions.groups_per_unit(self._session, table, keys, epsilon, predicate, fresh))

    @noted("explained")
    def explain_bounds(
        self, table: str, column: str, *, epsilon: object = None, predicate: str | None = None
    ) -> Result:  # fmt: skip
        """What :meth:`bounds` would do and cost; free."""
        return self._call(functions.explain_bounds(self._session, table, column, epsilon, predicate))

    @noted("explained")
    def explain_rows_per_unit(self, table: str, *, epsilon: object = None, predicate: str | None = None) -> Result:
        """What :meth:`rows_per_unit` would do and cost; free."""
        return self._call(functions.explain_rows_per_unit(self._session, table, epsilon, predicate))

    @noted("explained")
    def explain_groups_per_unit(
        self, table: str, keys: str | Sequence[str], *, epsilon: object = None, predicate: str | None = None
    ) -> Result:
        """What :meth:`groups_per_unit` would do and cost; free."""
        return self._call(functions.explain_groups_per_unit(self._session, table, keys, epsilon, predicate))

    @noted(prefix="")
    def export_summary(self, name: str, path: str | os.PathLike[str], *, category: Scalar | None = None) -> None:
        """Write a stored summary to a file that ``duckdp.smooth.load`` reads: released, so public.

        Of a summary per group (``per``) the file holds all groups, or the one that ``category`` names.

        Raises:
            CatalogError: C110. ParameterError: P107. OSError: the file exists or cannot be written.
        """
        from duckdp.smooth.payloads import exported
        from duckdp.synthetic.stored import summary_of

        payload = summary_of(self._session.stored(read_given("name", name)))
        _write_new(path, exported(payload, None if category is None else str(category)))

    @noted(prefix="")
    def export_tables(self, names: Sequence[str], path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write stored synthetic tables into one DuckDB file that shells from 1.0 on read: released, so free.

        Raises:
            CatalogError: C110. ParameterError: P107. OSError: the file exists or cannot be written.
        """
        from duckdp.synthetic.files import open_tables, write_database

        payloads = {str(n): self._session.completed(str(n)).payload for n in names}
        write_database(path, open_tables(payloads), replace=replace)

    @noted(prefix="")
    def synthetic_report(self, name: str, path: str | os.PathLike[str] | None = None) -> SyntheticReport:
        """How well a stored synthetic table meets its release, beside the release's own error bars; free.

        Args:
            name: of a synthetic table, or of a summary, from which a table is made first.
            path: where to write the page, if anywhere.

        Raises:
            CatalogError: C110. NumericalError: N101. OSError: the file exists or cannot be written.
        """
        from duckdp.synthetic.report.table_report import make_report

        stored = self._session.completed(str(name))
        charge = self._session._curator.ledger.charge(stored.charge_id)
        report = make_report(str(name), stored.payload, json.loads(charge.parameters) if charge else None)
        if path is not None:
            _write_new(path, report.html)
        return report

    @noted()
    def budget(self) -> Result:
        """What was granted, spent and is left."""
        return self._call(functions.budget(self._session))

    @noted()
    def ledger(self, *, most: int | None = None, before: int | None = None) -> Result:
        """The analyst's own charges, oldest first.

        Args:
            most: at most so many, the newest; 1,000 by default.
            before: only those before this charge, to go back from a page.
        """
        return self._call(functions.ledger(self._session, most, before))

    @noted()
    def summaries(self, *, most: int | None = None, after: str | None = None) -> Result:
        """Stored summaries and synthetic tables, the analyst's own first, by name.

        Args:
            most: at most so many; 1,000 by default.
            after: to go on from a page, the name of its last one; of one that was shared, owner.name.
        """
        return self._call(functions.summaries(self._session, most, after))

    @noted()
    def catalog(self) -> Result:
        """Declared tables and columns."""
        return self._call(functions.catalog(self._session))

    @checks_itself
    def asking(self, text: str | Callable[[], str]) -> Asking:
        """A statement of the analyst's that begins; ``with`` it."""
        return Asking(self._session._curator.ledger.statements, self._session.analyst, text)

    def _call(self, prepared: functions.Prepared) -> Result:
        return prepared.run(secrets.token_hex(16))

    @property
    def _session(self) -> Session:
        session = cast("Session", self)
        session._curator.life.require()
        return session


def _place(beside: str, target: str) -> None:
    """Give a finished file its name, which must be free: a link refuses a taken one at that very moment."""
    try:
        os.link(beside, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        os.replace(beside, target)


def _write_new(path: str | os.PathLike[str], text: str) -> None:
    """Write a file that does not exist yet, whole or not at all.

    Raises:
        ParameterError: P107, no path. OSError: the file exists or cannot be written.
    """
    if not isinstance(path, (str, os.PathLike)) or "\x00" in os.fspath(path):
        raise ParameterError("P107", "path", path, "must be the path of a file to write.")
    target = os.fspath(path)
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    beside = f"{target}.{secrets.token_hex(8)}.part"
    try:
        with open(beside, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _place(beside, target)
    finally:
        with suppress(OSError):
            os.unlink(beside)

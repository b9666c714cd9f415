"""The dp functions as Python methods of a session: the names without dp_, the arguments of their declarations.

What each takes is declared in :mod:`duckdp.functions`, and read there; the signatures here are for people and type
checkers, and a test compares them. A function that is declared and not written down here is a method too.
"""

from __future__ import annotations

import errno
import inspect
import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from duckdp.arguments import Scalar, checked_methods, checks_itself
from duckdp.desk.asking import Asking, noted
from duckdp.desk.desk import Desk
from duckdp.errors import ParameterError
from duckdp.functions.calling import describe
from duckdp.functions.spec import FUNCTIONS, REQUIRED, Spec
from duckdp.process.importing import importing
from duckdp.result import Result

if TYPE_CHECKING:
    from duckdp.synthetic.report.table_report import SyntheticReport


@checked_methods
class Calls:
    """Methods of ``Session``; each charges what its SQL function charges.

    Attributes:
        desk: what is asked of the data set goes through it.
    """

    desk: Desk

    def __init_subclass__(cls) -> None:
        for spec in FUNCTIONS.values():
            if not hasattr(cls, spec.method):
                setattr(cls, spec.method, _method(spec))
        checked_methods(cls)

    @checks_itself
    def noisy_count(
        self, table: str, *, epsilon: object = None, predicate: str | None = None, unit: bool = False,
        error: float | None = None, fresh: bool = False,
    ) -> Result:  # fmt: skip
        """A noisy number of rows, or (``unit``) of privacy units."""
        return self._ask("dp_noisy_count", locals())

    @checks_itself
    def explain_noisy_count(
        self, table: str, *, epsilon: object = None, predicate: str | None = None, unit: bool = False,
        error: float | None = None,
    ) -> Result:  # fmt: skip
        """What :meth:`noisy_count` would do and cost; free."""
        return self._ask("dp_explain_noisy_count", locals())

    @checks_itself
    def median_smooth(
        self, table: str, column: str, *, epsilon: object = None, delta: object = 0, predicate: str | None = None,
        quantile: float | str = 0.5, fresh: bool = False,
    ) -> Result:  # fmt: skip
        """A median (or other quantile) by smooth sensitivity; delta > 0 takes Laplace noise."""
        return self._ask("dp_median_smooth", locals())

    @checks_itself
    def explain_median_smooth(
        self, table: str, column: str, *, epsilon: object = None, delta: object = 0, predicate: str | None = None,
        quantile: float | str = 0.5,
    ) -> Result:  # fmt: skip
        """What :meth:`median_smooth` would do and cost; free."""
        return self._ask("dp_explain_median_smooth", locals())

    @checks_itself
    def smooth_summary(
        self, table: str, columns: Sequence[str], *, epsilon: object = None, delta: object = 0,
        smoothness: int | None = None, degree: int | None = None, name: str,
        basis: Literal["tensor", "total_degree", "hyperbolic_cross"] = "tensor", interactions: int | None = None,
        weights: Literal["smooth", "uniform"] = "smooth",
        noise: Literal["auto", "laplace", "cube", "gaussian"] = "auto", per: str | None = None, fresh: bool = False,
    ) -> Result:  # fmt: skip
        """Buy a summary that answers any number of smooth queries; one row about it.

        ``interactions`` is for "total_degree" and "hyperbolic_cross": at most so many columns in one function; ``per``
        names a column with a domain, each of whose values gets a summary; ``fresh`` pays again where the charge is
        final; see docs/guide.md.
        """
        return self._ask("dp_smooth_summary", locals())

    @checks_itself
    def explain_summary(
        self, table: str, columns: Sequence[str], *, epsilon: object = None, delta: object = 0,
        smoothness: int | None = None, degree: int | None = None,
        basis: Literal["tensor", "total_degree", "hyperbolic_cross"] = "tensor", interactions: int | None = None,
        weights: Literal["smooth", "uniform"] = "smooth",
        noise: Literal["auto", "laplace", "cube", "gaussian"] = "auto", per: str | None = None,
    ) -> Result:  # fmt: skip
        """What :meth:`smooth_summary` would hold and cost; free."""
        return self._ask("dp_explain_summary", locals())

    @checks_itself
    def smooth_answer(
        self, name: str, function: str, *, statistic: Literal["mean", "sum"] = "mean", tolerance: float | None = None,
        method: Literal["interpolation", "jackson", "best"] = "interpolation", category: Scalar | None = None,
    ) -> Result:  # fmt: skip
        """Answer a smooth function of a summary's columns; free. ``category`` names a group (``per``)."""
        return self._ask("dp_smooth_answer", locals())

    @checks_itself
    def smooth_answers(
        self, name: str, functions: Sequence[str], *, statistic: Literal["mean", "sum"] = "mean",
        tolerance: float | None = None, category: Scalar | None = None,
    ) -> Result:  # fmt: skip
        """Answer many functions of a summary's columns at once, one row each; free."""
        return self._ask("dp_smooth_answers", locals())

    @checks_itself
    def synthesize(
        self, source: str, *, epsilon: object = None, rows: int | str = "auto", columns: Sequence[str] | None = None,
        delta: object = 0, smoothness: int | None = None, degree: int | None = None, name: str | None = None,
        method: str = "auto", target: str | None = None, time_limit: float | None = None, fresh: bool = False,
        progress: Callable[[str, float], None] | None = None,
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
        return self._ask("dp_synthesize", locals())

    @checks_itself
    def explain_synthesize(
        self, table: str, *, epsilon: object = None, rows: int | str = "auto", columns: Sequence[str] | None = None,
        delta: object = 0, smoothness: int | None = None, degree: int | None = None, method: str = "auto",
        target: str | None = None,
    ) -> Result:  # fmt: skip
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
        self, table: str, keys: str | Sequence[str], *, epsilon: object = None, predicate: str | None = None,
        fresh: bool = False,
    ) -> Result:  # fmt: skip
        """How many units are in more groups, by ``keys`` as in GROUP BY, than a ``max_groups`` of 1, 2, 5, 10, ..."""
        return self._ask("dp_groups_per_unit", locals())

    @checks_itself
    def explain_bounds(
        self, table: str, column: str, *, epsilon: object = None, predicate: str | None = None
    ) -> Result:  # fmt: skip
        """What :meth:`bounds` would do and cost; free."""
        return self._ask("dp_explain_bounds", locals())

    @checks_itself
    def explain_rows_per_unit(self, table: str, *, epsilon: object = None, predicate: str | None = None) -> Result:
        """What :meth:`rows_per_unit` would do and cost; free."""
        return self._ask("dp_explain_rows_per_unit", locals())

    @checks_itself
    def explain_groups_per_unit(
        self, table: str, keys: str | Sequence[str], *, epsilon: object = None, predicate: str | None = None
    ) -> Result:
        """What :meth:`groups_per_unit` would do and cost; free."""
        return self._ask("dp_explain_groups_per_unit", locals())

    @checks_itself
    def budget(self) -> Result:
        """What was granted, spent and is left."""
        return self._ask("dp_budget", locals())

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

    @noted(prefix="")
    def export_summary(self, name: str, path: str | os.PathLike[str], *, category: Scalar | None = None) -> None:
        """Write a stored summary to a file that ``duckdp.smooth.load`` reads: released, so public.

        Of a summary per group (``per``) the file holds all groups, or the one that ``category`` names.

        Raises:
            CatalogError: C110. ParameterError: P107. OSError: the file exists or cannot be written.
        """
        with importing():
            from duckdp.smooth.payloads import exported
            from duckdp.synthetic.stored import summary_of

        payload = summary_of(self._desk.stored(name))
        _write_new(path, exported(payload, None if category is None else str(category)))

    @noted(prefix="")
    def export_tables(self, names: Sequence[str], path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write stored synthetic tables into one DuckDB file that shells from 1.0 on read: released, so free.

        Raises:
            CatalogError: C110. ParameterError: P107. OSError: the file exists or cannot be written.
        """
        with importing():
            from duckdp.synthetic.files import open_tables, write_database

        payloads = {str(n): self._desk.completed(str(n)).payload for n in names}
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
        with importing():
            from duckdp.synthetic.report.table_report import make_report

        stored = self._desk.completed(str(name))
        charge = self._desk.charge(stored.charge_id)
        report = make_report(str(name), stored.payload, json.loads(charge.parameters) if charge else None)
        if path is not None:
            _write_new(path, report.html)
        return report

    @checks_itself
    def asking(self, text: str | Callable[[], str]) -> Asking:
        """A statement of the analyst's that begins; ``with`` it."""
        return self._desk.asking(text)

    def _ask(self, name: str, given: Mapping[str, object]) -> Result:
        """Make a call a statement, read its arguments, plan and run it."""
        spec = FUNCTIONS[name]
        raw = {p.name: given.get(str(p.python), p.default) for p in spec.of("python")}
        return self._asked(spec, raw, lambda: spec.read_values(given))

    def _asked(self, spec: Spec, raw: Mapping[str, object], read: Callable[[], dict[str, Any]]) -> Result:
        with self.asking(lambda: describe(spec, raw)) as asking:
            asking.outcome = "explained" if spec.explains else "answered"
            return spec.plan(self._desk, self._or_set(spec, read())).run(secrets.token_hex(16))

    def _or_set(self, spec: Spec, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments of a call, with the epsilon that the session has SET where it gives none.

        Never called for a dp function in SQL, which runs while the front's own statement does.
        """
        for parameter in spec.parameters:
            if parameter.kind.falls_back and arguments[parameter.name] is None:
                instead = [arguments[p.name] for p in spec.parameters if p.kind.instead]
                if all(value is None for value in instead):
                    arguments[parameter.name] = self._set_epsilon()
        return arguments

    @property
    def _desk(self) -> Desk:
        self.desk.require_open()
        return self.desk

    def _set_epsilon(self) -> str | None:
        """The epsilon that the analyst has SET, if any."""
        raise NotImplementedError


def ask_words(session: Calls, spec: Spec, words: Mapping[str, Any]) -> Result:
    """A call from the words of a command line.

    Raises:
        DuckDPError: refused, or failed after the charge (E1xx).
    """
    return session._asked(spec, words, lambda: spec.read_words(words))


def _method(spec: Spec) -> Callable[..., Result]:
    """The session's method of a function that is written down nowhere else."""
    place, named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("self", place)]
    for p in spec.of("python"):
        default = inspect.Parameter.empty if p.default is REQUIRED else p.default
        parameters.append(inspect.Parameter(str(p.python), place if p.placed else named, default=default))
    signature = inspect.Signature(parameters, return_annotation=Result)

    @checks_itself
    def call(self: Calls, *args: object, **given: object) -> Result:
        return self._ask(spec.name, signature.bind(self, *args, **given).arguments)

    call.__name__, call.__qualname__ = spec.method, f"Session.{spec.method}"
    call.__doc__ = f"{spec.about[0].upper()}{spec.about[1:]}."
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


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

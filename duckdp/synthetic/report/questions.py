"""Questions that a summary and a synthetic table made from it both answer: means, shares, a few smooth queries.

Shares of a numeric column are those of soft bins between the synthetic deciles: S((u - a) / w) - S((u - b) / w), S the
logistic function, u the column on [-1, 1], w = 2 / (degree + 1): as sharp as the summary's polynomials can follow. They
add up to 1. Privacy: post-processing of a release.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from duckdp.catalog.table import Kind, Scalar
from duckdp.compiler.printing import quote
from duckdp.errors import NumericalError, QueryError
from duckdp.smooth.answer import answer
from duckdp.smooth.axes import Axis, Floats, from_number
from duckdp.smooth.fit.coefficients import read_function
from duckdp.smooth.fit.points import Points, evaluate
from duckdp.smooth.summary import SmoothSummary
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.lp.make.support import is_plain
from duckdp.synthetic.report.html_page import printable, show_place
from duckdp.texts import sql_text

MOST_CATEGORIES = 30  # of one column that the report shows, the most frequent ones
MOST_PAIRS = 6  # of columns that the report shows
_MINUTE = 6e7  # microseconds
_SMOOTH = 1000  # minutes between the bounds of a timestamp that is asked smoothly, at least
SHARPEST = 20  # functions that decide the width of soft bins, at most


@dataclass(frozen=True, kw_only=True)
class ReportLine:
    """One question answered by the summary and by the synthetic rows, in units of the question.

    Attributes:
        about: the column, or "smooth queries".
        question: what was asked, for readers.
        function: the SQL expression whose mean it is.
        released, standard_error, low, high: of ``smooth.answer`` at level 0.95.
        synthetic: mean over the synthetic rows.
    """

    about: str
    question: str
    function: str
    released: float | None
    standard_error: float | None
    low: float | None
    high: float | None
    synthetic: float

    @property
    def inside(self) -> bool | None:
        """Whether the synthetic value lies in the summary's interval."""
        return None if self.low is None or self.high is None else self.low <= self.synthetic <= self.high

    @property
    def cells(self) -> tuple[Any, ...]:
        """What the report's table shows of it."""
        shown = {True: "yes", False: "no", None: ""}[self.inside]
        return (self.question, self.released, self.standard_error, self.low, self.high, self.synthetic, shown)


def complete_rows(made: SyntheticTable, summary: SmoothSummary) -> SyntheticTable:
    """The rows that a summary would see: without a NULL where its columns have no place for one."""
    kept = np.ones(made.rows, dtype=bool)
    for axis in summary.basis.axes:
        if None not in (axis.values or ()) and made.columns[axis.name].dtype == object:
            kept &= np.array([v is not None for v in made.columns[axis.name].tolist()])
    if kept.all():
        return made
    if not kept.any():
        raise NumericalError(
            "N101", "every row of the table has a NULL, so there is nothing to compare.", status="no rows"
        )
    return replace(made, columns={name: values[kept] for name, values in made.columns.items()})


def distinct_rows(made: SyntheticTable, summary: SmoothSummary) -> tuple[Points, Floats]:
    """Distinct synthetic rows as the basis takes them, and how often each occurs."""
    axes = summary.basis.axes
    columns = [_numbers(axis, made) for axis in axes]
    key = np.zeros(made.rows, dtype=np.int64)
    for x in columns:
        place = np.unique(x, return_inverse=True)[1]
        key = np.unique(key * (int(place.max()) + 1) + place, return_inverse=True)[1]
    first, counts = np.unique(key, return_index=True, return_counts=True)[1:]
    return Points(tuple(axes), tuple(x[first] for x in columns)), counts.astype(np.float64)


def _numbers(axis: Axis, made: SyntheticTable) -> Floats:
    values = made.columns[axis.name]
    return axis.numbers(values if is_plain(axis) else values.tolist())


def ask_both(
    made: SyntheticTable, summary: SmoothSummary, points: Points, counts: Floats
) -> tuple[tuple[ReportLine, ...], int]:
    """Questions with both answers, and how many could not be answered."""
    found, failed = [], 0
    for about, question, function in _questions(made, summary):
        expr = read_function(function, summary.table, summary.columns)
        try:
            known = answer(summary, expr)
            values = evaluate(expr, points)
        except (NumericalError, QueryError):
            failed += 1
            continue
        found.append(
            ReportLine(
                about=about,
                question=question,
                function=function,
                released=known.value,
                standard_error=known.standard_error,
                low=known.low,
                high=known.high,
                synthetic=float(values @ counts / counts.sum()),
            )
        )
    return tuple(found), failed


def _questions(made: SyntheticTable, summary: SmoothSummary) -> list[tuple[str, str, str]]:
    """(about, question, SQL expression): means, shares, a few smooth queries."""
    found, scaled = [], {}
    for axis in summary.basis.axes:
        if is_plain(axis):
            found.append((axis.name, "mean", quote(axis.name)))
        unit = _scaled(axis)
        if unit is not None:
            scaled[axis.name] = unit
        if axis.values is None and unit is not None:
            found += [(axis.name, what, sql) for what, sql in _soft_bins(axis, unit, made)]
        elif axis.values is not None:
            found += [(axis.name, what, sql) for what, sql in _shares(axis, made)]
    about, names = "Smooth queries (columns on [-1, 1])", list(scaled)
    for name in names:
        found.append((about, f"mean of {name}^2", f"{scaled[name]} * {scaled[name]}"))
        found.append((about, f"mean of exp(-2 {name}^2)", f"exp(-2.0 * ({scaled[name]} * {scaled[name]}))"))
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    for a, b in pairs[:MOST_PAIRS]:
        found.append((about, f"mean of {a} * {b}", f"{scaled[a]} * {scaled[b]}"))
    return found


def _scaled(axis: Axis) -> str | None:
    """SQL of a number, date (by days) or timestamp (by minutes) on [-1, 1] by its bounds, or None."""
    column, (lower, upper) = quote(axis.name), (axis.lower, axis.upper)
    if axis.values is not None:
        listed = [float(v) for v in axis.values if isinstance(v, (int, float)) and not isinstance(v, bool)]
        if len(listed) != len(axis.values) or len(set(listed)) < 2:
            return None
        lower, upper = min(listed), max(listed)
    shifted = f"({column} - ({lower!r}))"
    if axis.kind in (Kind.DATE, Kind.TIMESTAMP):
        part, kind, step = ("day", "DATE", 1.0) if axis.kind is Kind.DATE else ("minute", "TIMESTAMP", _MINUTE)
        text = str(from_number(lower, axis.kind))
        shifted = f"date_diff('{part}', {kind} '{text}', {column})"
        upper, lower = (upper - lower) / step, 0.0
        if axis.kind is Kind.TIMESTAMP and upper < _SMOOTH:
            return None  # whole minutes would be steps
    return f"(2.0 * ({shifted} / {upper - lower!r}) - 1.0)"


def _soft_bins(axis: Axis, unit: str, made: SyntheticTable) -> list[tuple[str, str]]:
    """Soft bins between the synthetic deciles; neighbours share an edge, so they add up to 1."""
    u = axis.to_unit(_numbers(axis, made))
    edges = [float(e) for e in np.unique(np.quantile(u, np.arange(1, 10) / 10)) if -1 < e < 1]
    if not edges:
        return []
    width = 2.0 / (min(axis.degree, SHARPEST) + 1)
    steps = ["1.0", *(f"(1.0 / (1.0 + exp(-({unit} - ({e!r})) / {width!r})))" for e in edges), "0.0"]
    ends = [_shown(axis, e) for e in (-1.0, *edges, 1.0)]
    return [(f"soft share {ends[i]} to {ends[i + 1]}", f"{steps[i]} - {steps[i + 1]}") for i in range(len(steps) - 1)]


def _shares(axis: Axis, made: SyntheticTable) -> list[tuple[str, str]]:
    """Shares of the values that occur most in the synthetic table."""
    assert axis.values is not None
    counts = np.bincount(_numbers(axis, made).astype(np.int64), minlength=len(axis.values))
    chosen = sorted(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES].tolist())
    column = quote(axis.name)
    found = []
    for place in chosen:
        value = axis.values[place]
        test = f"{column} IS NULL" if value is None else f"{column} = {_literal(value, axis.kind)}"
        found.append((f"share of {printable(value)}", f"CASE WHEN {test} THEN 1.0 ELSE 0.0 END"))
    return found


def _literal(value: Scalar, kind: Kind) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        return f"({value!r})"
    text = sql_text(str(value))
    return f"{kind.value.upper()} {text}" if kind in (Kind.DATE, Kind.TIMESTAMP) else text


def _shown(axis: Axis, u: float) -> str:
    return show_place(float(axis.from_unit(np.array([u]))[0]), axis.kind)

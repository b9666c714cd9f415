"""How well a synthetic table meets the release it was made from, and how far that release can be trusted.

Privacy: post-processing of a stored release: no private row is read and nothing is charged, however often it is asked.

Moments:  with b_r the noisy sums, N the noisy count, v_r = b_r / N, and y_r the mean of Phi_r over the synthetic rows,
          the misfit is y_r - v_r. The noise of v_r is (Z_r - v_r Z_0) / N to first order, and the Z are uncorrelated,
          so its standard deviation is sqrt(s_r^2 + v_r^2 s_0^2) / N (s_0 = 0 where the count is public). Ratios of
          about 1 are a table as good as its release; far more is a table that does not follow it.
Lines:    the same function asked of the summary (``smooth.answer``, with its error bar) and of the synthetic rows
          (``questions.py``).
Drawing:  m rows take whole numbers of each of K points. Were their rounding independent, a mean of a function in
          [-1, 1] would move by a standard deviation of at most about sqrt(K / 6) / m: a guide, not a bound. A table
          follows its release when its misfits are, root mean square, at most FAR times both deviations together.
          Independent draws (``theorem``) move it by at most 1 / sqrt(m). Where m of M rows are left, the others having
          been chosen at random for a NULL, that adds at most sqrt((1 - m / M) / m).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from duckdp.errors import CatalogError
from duckdp.result import plain_result
from duckdp.smooth.answer import noisy_count
from duckdp.smooth.axes import Floats
from duckdp.smooth.fit.points import Points
from duckdp.smooth.payloads import open_stored
from duckdp.smooth.summary import SmoothSummary
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.lp.make.synthesize import synthesize
from duckdp.synthetic.report import html_page as page
from duckdp.synthetic.report.html_page import Histogram, histogram
from duckdp.synthetic.report.questions import ReportLine, ask_both, complete_rows, distinct_rows
from duckdp.synthetic.stored import is_table, maker, open_synthesis

ROWS = 10_000  # of a table made for the report of a summary alone
FAR = 3.0  # deviations, root mean square, above which a table does not follow its release
_ENTRIES = 4 * 10**6  # values of functions in memory at a time
LEVEL_NAMES = ("level", "moments", "rms misfit", "rms noise", "misfit / noise")
BAR_NAMES = ("column", "total variation", "mean")
PAIR_NAMES = ("column", "with", "cells", "total variation")
STAGE_NAMES = ("stage", "sums", "share of the charge")
LINE_NAMES = ("question", "released", "standard error", "low", "high", "synthetic", "inside")


@dataclass(frozen=True, kw_only=True)
class LevelMisfit:
    """The functions of one total degree; means, dimensionless.

    Attributes:
        level: total degree, from 1.
        moments: how many functions.
        misfit: root mean square of y_r - v_r.
        noise: root mean square of the noise's standard deviations.
        deviations: root mean square of the misfits, each over its own noise's standard deviation.
    """

    level: int
    moments: int
    misfit: float
    noise: float
    deviations: float


@dataclass(frozen=True, kw_only=True)
class MomentMisfit:
    """One function: its degrees per column, the released and the synthetic mean, the noise's standard deviation."""

    degrees: tuple[int, ...]
    released: float
    synthetic: float
    noise: float

    @property
    def deviations(self) -> float:
        """Misfit in standard deviations of the noise."""
        return abs(self.synthetic - self.released) / self.noise


@dataclass(frozen=True, kw_only=True)
class SyntheticReport:
    """A report: public, as the release it is made from.

    Attributes:
        name: of the stored release.
        table: the protected table that is imitated.
        rows: of the synthetic table.
        residual: distance that its maker stored: l1 of the means (linear program), or root mean square (wide).
        levels: misfit by total degree; empty where the release holds no summary.
        worst: the worst moment in deviations, or None.
        deviations: root mean square of all misfits in noise deviations, or None.
        excess: the same in deviations of noise and drawing together, or None.
        lines: questions asked of both.
        facts: (name, value) of what else is known.
        histograms: of the synthetic columns.
        stages: of a wide table: what was bought, (stage, number of sums, share of the charge) each.
        bars: of columns, (name, total variation, error of the mean or None) each, reached with 95%.
        pair_bars: of pairs whose table was bought, (name, name, its cells, total variation) each, the same.
        notes: what a reader must know.
    """

    name: str
    table: str
    rows: int
    residual: float
    levels: tuple[LevelMisfit, ...] = ()
    worst: MomentMisfit | None = None
    deviations: float | None = None
    excess: float | None = None
    lines: tuple[ReportLine, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    histograms: tuple[Histogram, ...] = ()
    stages: tuple[tuple[str, int, float], ...] = ()
    bars: tuple[tuple[Any, ...], ...] = ()
    pair_bars: tuple[tuple[Any, ...], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def follows(self) -> bool | None:
        """Whether the table follows its release (module docstring); None where that is not known."""
        return None if self.excess is None else self.excess <= FAR

    @property
    def title(self) -> str:
        """The first line of the report."""
        return f'Synthetic table "{self.name}" of {self.table}: {self.rows:,} rows'

    @cached_property
    def text(self) -> str:
        """The report as aligned plain text."""
        blocks = ["\n".join([page.printable(self.title), *map(page.printable, self._head())])]
        for about, names, rows in self._tables():
            blocks.append(f"{page.printable(about)}\n{plain_result(names, rows, _types(rows))}")
        return "\n\n".join(blocks) + "\n"

    @cached_property
    def html(self) -> str:
        """The report as one page that loads nothing."""
        return page.page(self.title, self.body)

    @cached_property
    def body(self) -> list[str]:
        """The report as parts of a page, without its title."""
        body = [page.paragraph(line, mark=self.follows is False and i == 0) for i, line in enumerate(self._head())]
        for about, names, rows in self._tables():
            body += [page.heading(about), page.table(names, rows)]
        if self.levels:
            values = [level.deviations for level in self.levels]
            body += [page.heading("Misfit by level, in noise deviations")]
            body += [page.bars([f"level {level.level}" for level in self.levels], [("misfit / noise", values)])]
        for found in self.histograms:
            body += [page.heading(f"Rows by {found.column}"), page.bars(found.labels, [("rows", found.counts)])]
        return body

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html

    def _head(self) -> list[str]:
        lines = []
        if self.deviations is not None:
            said = "follows its release" if self.follows else "does NOT follow its release"
            lines.append(
                f"The table {said}: its misfit is {self.deviations:.3g} noise deviations (rms), "
                f"{self.excess:.3g} with what drawing its rows adds."
            )
        if self.worst is not None:
            w = self.worst
            lines.append(
                f"Worst moment: degrees {w.degrees}, released {w.released:.4g}, synthetic {w.synthetic:.4g}, "
                f"{w.deviations:.3g} noise deviations."
            )
        facts = [f"{name}: {value}" for name, value in self.facts]
        return [*lines, *facts, "Made from a stored release: nothing was charged and no private row was read."] + [
            f"note: {n}" for n in self.notes
        ]

    def _tables(self) -> list[tuple[str, Sequence[str], list[tuple[Any, ...]]]]:
        found: list[tuple[str, Sequence[str], list[tuple[Any, ...]]]] = []
        if self.stages:
            found.append(("What was bought", STAGE_NAMES, list(self.stages)))
        if self.bars:
            found.append(("Error bars of columns, 95%: total variation of ten bands, mean", BAR_NAMES, list(self.bars)))
        if self.pair_bars:
            about = "Error bars of pairs whose tables were bought, 95%"
            found.append((about, PAIR_NAMES, list(self.pair_bars)))
        if self.levels:
            rows = [(v.level, v.moments, v.misfit, v.noise, v.deviations) for v in self.levels]
            found.append(("Moments (means of functions in [-1, 1])", LEVEL_NAMES, rows))
        for about in dict.fromkeys(line.about for line in self.lines):
            found.append((about, LINE_NAMES, [line.cells for line in self.lines if line.about == about]))
        return found


def make_report(name: str, payload: str, parameters: Mapping[str, Any] | None = None) -> SyntheticReport:
    """The report of a stored release.

    Args:
        name: of the release.
        payload: of a synthetic table or a summary; of a summary alone, a table is made first.
        parameters: public parameters of its charge, for the stages of a wide table.

    Raises:
        CatalogError: C105, damaged. NumericalError: N101, there is no table and none can be made.
        ParameterError: P107, the release is a summary per group.
    """
    if not is_table(payload):
        summary = open_stored(payload, strict=True)
        made = synthesize(summary, ROWS)
        note = "the release is a summary; the table was made for this report"
        return report_table(name, made, summary, notes=(note,))
    opened = open_synthesis(payload)
    if opened.summary is not None:
        report = report_table(name, opened.table, opened.summary, notes=opened.remarks, independent=opened.independent)
        return replace(report, facts=report.facts + opened.facts)
    return SyntheticReport(
        name=name,
        table=opened.table.table,
        rows=opened.table.rows,
        residual=opened.table.residual,
        facts=(*_charged_facts(opened.table, parameters or {}), *opened.facts),
        histograms=_histograms(opened.table),
        stages=_read_bought(json.loads(payload).get("bought")),
        bars=_read_bars(opened.bars, "columns"),
        pair_bars=_read_bars(opened.bars, "pairs"),
        notes=opened.remarks,
    )


def report_table(
    name: str, made: SyntheticTable, summary: SmoothSummary, *, notes: tuple[str, ...] = (), independent: bool = False
) -> SyntheticReport:
    """The report of a table beside a summary over the same columns.

    Rows with a NULL that the summary's columns have no place for are left out, as the summary leaves them out. Of rows
    drawn independently, from sums at grid points, moments alone are compared.
    """
    whole, made = made, complete_rows(made, summary)
    points, counts = distinct_rows(made, summary)
    released, reached, noise = _moments(summary, points, counts)
    levels = summary.basis.levels
    z = (reached - released) / noise
    some = np.flatnonzero(levels > 0)
    known = np.unique(levels[some]).tolist()
    worst = int(some[np.argmax(np.abs(z[some]))]) if len(some) else None  # one function: nothing but the count
    drawing = 1 / math.sqrt(made.rows) if independent else math.sqrt(len(counts) / 6) / made.rows
    drawing = math.hypot(drawing, math.sqrt((1 - made.rows / whole.rows) / made.rows))
    lines, failed = ask_both(made, summary, points, counts) if not independent else ((), 0)
    if failed:
        notes += (f"{failed} questions have no finite answer within the bounds and were left out",)
    return SyntheticReport(
        name=name,
        table=made.table,
        rows=whole.rows,
        residual=made.residual,
        levels=tuple(_level(v, np.flatnonzero(levels == v), released, reached, noise) for v in known),
        worst=None
        if worst is None
        else MomentMisfit(
            degrees=tuple(summary.basis.indices[worst].tolist()),
            released=float(released[worst]),
            synthetic=float(reached[worst]),
            noise=float(noise[worst]),
        ),
        deviations=None if worst is None else _rms(z[some]),
        excess=None if worst is None else _rms(((reached - released) / np.hypot(noise, drawing))[some]),
        lines=lines,
        facts=(
            ("distance of the fitted moments (l1, before drawing)", page.show_number(made.residual)),
            (f"drawing {made.rows:,} rows at {len(counts):,} points moves a mean by about", page.show_number(drawing)),
        ),
        histograms=_histograms(whole),
        notes=notes,
    )


def _level(level: int, at: Any, released: Floats, reached: Floats, noise: Floats) -> LevelMisfit:
    miss = reached[at] - released[at]
    return LevelMisfit(
        level=level, moments=len(at), misfit=_rms(miss), noise=_rms(noise[at]), deviations=_rms(miss / noise[at])
    )


def _moments(summary: SmoothSummary, points: Points, counts: Floats) -> tuple[Floats, Floats, Floats]:
    """(released means, synthetic means, standard deviations of the released means' noise), float[R] each."""
    basis, step = summary.basis, 1 << summary.bits
    count, _ = noisy_count(summary)
    released = summary.sums / count
    deviations = np.zeros(basis.size)
    deviations[0 if summary.count is None else 1 :] = summary.noise.deviations
    noise = np.sqrt(deviations**2 + np.clip(released, -1, 1) ** 2 * deviations[0] ** 2) / step / count
    noise[0] = max(noise[0], 1e-300)  # never shown: a mean of ones has no noise
    unit = np.stack([axis.to_unit(x) for axis, x in zip(points.axes, points.x, strict=True)], axis=1)
    reached, size = np.zeros(basis.size), max(1, _ENTRIES // basis.size)
    for start in range(0, len(unit), size):
        reached += counts[start : start + size] @ basis.evaluate(unit[start : start + size])
    return released, reached / counts.sum(), noise


# ---- small things ---------------------------------------------------------------------------------------------------


def _charged_facts(made: SyntheticTable, parameters: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What the parameters of the charge say of a table that was not made from a summary."""
    facts = [(f"{_distance(parameters.get('method'))} from the wanted ones", page.show_number(made.residual))]
    for name in ("method", "units", "target"):
        if parameters.get(name) is not None:
            facts.append((name, str(parameters[name])))
    shares = parameters.get("shares")
    if isinstance(shares, Mapping) and shares:
        facts.append(("stages, as shares of the charge", ", ".join(f"{k} {v}" for k, v in shares.items())))
    return tuple(facts)


def _distance(method: object) -> str:
    """What the residual of a method's tables is, in words."""
    try:
        return maker(str(method)).DISTANCE
    except CatalogError:  # the charge is that of another version
        return "rms distance of its moments"


def _read_bought(raw: Any) -> tuple[tuple[str, int, float], ...]:
    """What a wide table's release says it bought; nothing where it does not say, or is damaged."""
    try:
        return tuple((str(stage), int(sums), float(share)) for stage, sums, share in raw or ())
    except (TypeError, ValueError):
        return ()


def _read_bars(raw: Any, what: str) -> tuple[tuple[Any, ...], ...]:
    """Error bars as they are stored; nothing where there are none, or they are damaged."""
    try:
        return tuple(tuple(None if v is None else v for v in line) for line in (raw or {}).get(what, ()))
    except (TypeError, AttributeError):
        return ()


def _histograms(made: SyntheticTable) -> tuple[Histogram, ...]:
    return tuple(histogram(name, values) for name, values in made.columns.items())


def _rms(values: Floats) -> float:
    return math.sqrt(float(np.mean(values**2))) if len(values) else 0.0


def _types(rows: Sequence[Sequence[Any]]) -> list[str]:
    return ["VARCHAR" if isinstance(v, str) else "DOUBLE" for v in rows[0]] if rows else []

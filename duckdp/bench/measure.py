"""Timing in one run, interleaved, and how it is shown. A ratio compares medians of the same run."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from statistics import median
from typing import Any

import duckdb

import duckdp
from duckdp.core.reads import PrivateQuery
from duckdp.vault.engine import read_batches


@dataclass(frozen=True, kw_only=True)
class Case:
    """Something whose running time is measured.

    Attributes:
        name: of the table's line.
        run: once, start to end.
        limits: baseline's name -> largest ratio that must hold, or None when it is only shown.
        most_ms: largest median in milliseconds that must hold, or None.
    """

    name: str
    run: Callable[[], object]
    limits: Mapping[str, float | None] = field(default_factory=dict)
    most_ms: float | None = None


@dataclass(frozen=True, kw_only=True)
class Line:
    """A measured case: milliseconds, and ratios to its baselines."""

    name: str
    median_ms: float
    least_ms: float
    ratios: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    most_ms: float | None = None

    @property
    def holds(self) -> bool:
        """Whether all its limits are kept."""
        kept = all(limit is None or ratio <= limit for ratio, limit in self.ratios.values())
        return kept and (self.most_ms is None or self.median_ms <= self.most_ms)

    def cells(self) -> list[str]:
        """Name, median, least, ratios, limits."""
        shown = [f"{ratio:.2f}x {name}" + _limit(limit, "x") for name, (ratio, limit) in self.ratios.items()]
        median_text = f"{self.median_ms:,.2f}" + _limit(self.most_ms, " ms")
        return [self.name, median_text, f"{self.least_ms:,.2f}", "; ".join(shown), "" if self.holds else "MISSED"]


@dataclass(frozen=True, kw_only=True)
class Report:
    """One suite's lines under a title."""

    title: str
    lines: Sequence[Line]


HEAD = ("case", "median ms", "least ms", "against", "")


def compare(cases: Sequence[Case], repeat: int) -> list[Line]:
    """Run all cases in turn, ``repeat`` times after one to warm up."""
    times: dict[str, list[float]] = {case.name: [] for case in cases}
    for turn in range(repeat + 1):
        for case in cases:
            start = time.perf_counter()
            case.run()
            if turn:
                times[case.name].append(time.perf_counter() - start)
    middle = {name: median(found) for name, found in times.items()}
    return [
        Line(
            name=case.name,
            median_ms=1e3 * middle[case.name],
            least_ms=1e3 * min(times[case.name]),
            ratios={b: (middle[case.name] / middle[b], limit) for b, limit in case.limits.items()},
            most_ms=case.most_ms,
        )
        for case in cases
    ]


def from_times(name: str, seconds: Sequence[float], *, most_ms: float | None = None) -> Line:
    """A line of times taken elsewhere."""
    return Line(name=name, median_ms=1e3 * median(seconds), least_ms=1e3 * min(seconds), most_ms=most_ms)


def machine() -> str:
    """Date, versions and cores, without which a figure says nothing."""
    parts = [f"duckdp {duckdp.__version__}", *(f"{name} {version(name)}" for name in ("duckdb", "opendp", "sqlglot"))]
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    return f"{when}, {', '.join(parts)}, Python {platform.python_version()}, {os.cpu_count()} cores"


def as_text(report: Report) -> str:
    """A table for the terminal."""
    rows = [list(HEAD), *(line.cells() for line in report.lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    numbers = (1, 2)
    text = [
        "  ".join(c.rjust(w) if i in numbers else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
    return "\n".join([report.title, *(line.rstrip() for line in text)])


def as_markdown(report: Report) -> str:
    """The same to paste into a document."""
    rows = [list(HEAD), ["---", "---:", "---:", "---", "---"], *(line.cells() for line in report.lines)]
    return "\n".join([f"**{report.title}**", "", *("| " + " | ".join(row) + " |" for row in rows)])


def _limit(limit: float | None, unit: str) -> str:
    return "" if limit is None else f" (at most {limit:g}{unit})"


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table of anything but times."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def holds(self) -> bool:
        """Whether no line says that it missed its aim."""
        return not any("MISSED" in cell for row in self.rows for cell in row)


def show_grid(grid: Grid, *, markdown: bool = False) -> str:
    """The table as text, or to paste into a document."""
    rows = [list(grid.head), *(list(row) for row in grid.rows)]
    if markdown:
        rows.insert(1, ["---"] * len(grid.head))
        return "\n".join([f"**{grid.title}**", "", *("| " + " | ".join(row) + " |" for row in rows)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(grid.head))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([grid.title, *lines])


def read_rows(con: duckdb.DuckDBPyConnection, query: PrivateQuery) -> Iterator[tuple[Any, ...]]:
    """Rows of a private query on a plain connection, or batches of columns, as an engine hands them over."""
    if query.arrays:
        yield from read_batches(con.cursor(), query)
        return
    yield from con.cursor().execute(query.sql, list(query.parameters)).fetchall()

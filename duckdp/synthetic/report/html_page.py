"""One self-contained page: tables, bar charts and histograms as inline SVG, no scripts, nothing from elsewhere.

Every text, whether from data, from names or ours, goes through :func:`escape`; the page's policy forbids all loading.
"""

from __future__ import annotations

import datetime as dt
import html
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Kind
from duckdp.smooth.axes import Floats, as_number, from_number

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
MOST_SHOWN = 60  # characters of a label
BINS = 20  # of a histogram
MOST_VALUES = 30  # of a histogram that are no numbers
_STYLE = (
    "body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:62em;padding:0 1em}"
    "table{border-collapse:collapse;margin:.6em 0}td,th{padding:2px 12px;text-align:right}"
    "td:first-child,th:first-child{text-align:left}thead th{border-bottom:1px solid #888}"
    "h2{font-size:1.1em;margin:1.6em 0 .3em}.mark{color:#a00;font-weight:bold}svg{display:block;margin:.4em 0}"
    "svg text{font:11px system-ui,sans-serif}"
)
_FILLS = ("#4477aa", "#cc6677")
_LABEL = 190  # pixels that a bar's label has
_BAR = 420  # pixels of the longest bar
_LINE = 15  # pixels of a bar's height


def printable(value: object) -> str:
    """A value as text without characters that do not print; white space becomes a blank."""
    text = "NULL" if value is None else show_number(value) if isinstance(value, float) else str(value)
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def show_number(value: float) -> str:
    """A number with four significant digits."""
    return f"{value:.4g}" if math.isfinite(value) else "undefined"


def escape(value: object) -> str:
    """A value as HTML text, for elements and quoted attributes alike."""
    # a colon as an entity: no address scheme can stand in the page, however a reader or a mail program looks at it
    return html.escape(printable(value), quote=True).replace(":", "&#58;")


def paragraph(text: str, *, mark: bool = False) -> str:
    """A paragraph; ``mark`` makes it stand out."""
    kind = ' class="mark"' if mark else ""
    return f"<p{kind}>{escape(text)}</p>"


def heading(text: str) -> str:
    """The heading of a section, as HTML."""
    return f"<h2>{escape(text)}</h2>"


def table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table; the first column stands to the left, the others to the right."""
    head = "".join(f"<th>{escape(n)}</th>" for n in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(v)}</td>" for v in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def bars(labels: Sequence[object], series: Sequence[tuple[str, Sequence[float]]]) -> str:
    """A bar chart, one bar per label and series.

    Args:
        labels: one per row.
        series: one or two (name, values at least 0); the names are shown when there are two.
    """
    several = len(series) > 1
    largest = max((v for _, values in series for v in values if math.isfinite(v)), default=0.0) or 1.0
    parts, y = [], 4
    if several:
        for i, (name, _) in enumerate(series):
            parts.append(f'<rect x="{_LABEL + 150 * i}" y="{y}" width="10" height="10" fill="{_FILLS[i % 2]}"/>')
            parts.append(f'<text x="{_LABEL + 150 * i + 15}" y="{y + 9}">{escape(name)}</text>')
        y += 20
    for k, label in enumerate(labels):
        shown = escape(printable(label)[:MOST_SHOWN])
        parts.append(f'<text x="{_LABEL - 6}" y="{y + 11}" text-anchor="end">{shown}</text>')
        for i, (_, values) in enumerate(series):
            value = values[k] if math.isfinite(values[k]) else 0.0
            width = f"{_BAR * max(0.0, value) / largest:.1f}"
            parts.append(f'<rect x="{_LABEL}" y="{y + 1}" width="{width}" height="12" fill="{_FILLS[i % 2]}"/>')
            parts.append(f'<text x="{_LABEL + _BAR + 6}" y="{y + 11}">{escape(float(values[k]))}</text>')
            y += _LINE
        y += 5 if several else 0
    size = f'width="{_LABEL + _BAR + 70}" height="{y + 4}"'
    return f'<svg role="img" {size}>{"".join(parts)}</svg>'


def page(title: str, body: Sequence[str], *, first: str = "") -> str:
    """The whole page, as HTML that loads nothing.

    Args:
        title: of the page, any text.
        body: parts made by the functions above.
        first: a text of ours that the first line of the file carries.
    """
    comment = f"<!-- {html.escape(first).replace('--', '- -')} -->" if first else ""
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="referrer" content="no-referrer"><title>{escape(title)}</title><style>{_STYLE}</style>'
    )
    inside = "\n".join([f"<h1>{escape(title)}</h1>", *body])
    return f'{comment}<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{inside}\n</body></html>\n'


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """Numbers of rows of one column.

    Attributes:
        column: its name.
        labels: of the bars.
        counts: rows per bar.
    """

    column: str
    labels: tuple[str, ...]
    counts: tuple[float, ...]


def histogram(column: str, values: NDArray[Any]) -> Histogram:
    """Equal bins of numbers and dates, between the least and the largest; else the values that occur most."""
    listed = values.tolist()
    known = [v for v in listed if v is not None]
    if not known or isinstance(known[0], (str, bool)):
        found = Counter("NULL" if v is None else printable(v) for v in listed).most_common()
        rest = sum(n for _, n in found[MOST_VALUES:])
        shown = found[:MOST_VALUES] + ([("(others)", rest)] if rest else [])
        return Histogram(column=column, labels=tuple(v for v, _ in shown), counts=tuple(float(n) for _, n in shown))
    x, kind = as_numbers(known)
    edges = bin_edges(float(x.min()), float(x.max()))
    counts = np.histogram(x, bins=edges)[0].tolist()
    ends = [show_place(e, kind) for e in edges.tolist()]
    labels = [f"{a} to {b}" for a, b in pairwise(ends)]
    missing = len(listed) - len(known)
    return Histogram(
        column=column,
        labels=(*labels, *(["NULL"] if missing else [])),
        counts=(*(float(n) for n in counts), *([float(missing)] if missing else [])),
    )


def as_numbers(known: list[Any]) -> tuple[Floats, Kind]:
    """Numbers, or dates as days and timestamps as microseconds since 1970: (float[n], kind)."""
    if isinstance(known[0], dt.datetime):
        return np.array([as_number(v) for v in known]), Kind.TIMESTAMP
    if isinstance(known[0], dt.date):
        return np.array([as_number(v) for v in known]), Kind.DATE
    return np.array([float(v) for v in known]), Kind.NUMBER


def bin_edges(lower: float, upper: float, bins: int = BINS) -> Floats:
    """float[bins + 1], equal steps; a single value gets a bin around it."""
    if not lower < upper:
        room = max(0.5, abs(lower) * 1e-6)
        lower, upper = lower - room, upper + room
    return np.linspace(lower, upper, bins + 1)


def show_place(x: float, kind: Kind) -> str:
    """A number as its column shows it."""
    if kind is Kind.DATE or kind is Kind.TIMESTAMP:
        return str(from_number(x, kind))
    return show_number(x)

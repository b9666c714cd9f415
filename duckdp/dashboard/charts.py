"""Plots as inline SVG: areas over time, stacked bars over time, meters; without scripts, fonts or styles of their own.

What colour a part has says the page's style sheet, by class: ``c0`` to ``c7`` of series, ``k-free`` and the like of
kinds. Every text is escaped here.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass

from duckdp.synthetic.report.html_page import escape

WIDTH, HEIGHT = 1040, 260  # of a plot, in its own units
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 14, 26  # margins
STEPS = 240  # moments at which areas are drawn
BARS = 48  # intervals of time whose statements are counted
COLOURS = 8  # series that have one; the last is of all others
_TICKS = 5  # intervals between the numbers of an axis


@dataclass(frozen=True, kw_only=True)
class Series:
    """One series of a plot.

    Attributes:
        name: any text.
        css: class of its colour.
        values: at the plot's moments, at least 0.
    """

    name: str
    css: str
    values: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Something that happened, on the axis of time: when (seconds since 1970), and what."""

    at: float
    text: str


def moments(began: float, ends: float, steps: int) -> list[float]:
    """Ends of equal intervals from ``began`` to ``ends``: float[steps], seconds since 1970."""
    span = max(ends - began, 1.0)
    return [began + span * (i + 1) / steps for i in range(steps)]


def areas(
    times: Sequence[float], series: Sequence[Series], *, began: float, line: float | None, marks: Sequence[Mark]
) -> str:
    """Series stacked over time, as steps.

    Args:
        times: float[n], seconds since 1970.
        series: values float[n] each.
        began: where the axis of time begins.
        line: a value to draw across, such as a total; None, or far above what there is: not drawn.
        marks: drawn above.
    """
    tops = [sum(values) for values in zip(*(s.values for s in series), strict=True)] if series else []
    highest = max(tops, default=0.0)
    shown = line is not None and line <= 6 * highest
    scale = _Scale(began, times[-1], max(highest * 1.08, line * 1.04 if shown and line is not None else 0.0))
    parts = [scale.frame()]
    below = [0.0] * len(times)
    for one in series:
        above = [a + b for a, b in zip(below, one.values, strict=True)]
        parts.append(f'<path class="{one.css}" d="{_band(scale, times, below, above)}">{_title(one.name)}</path>')
        below = above
    if shown and line is not None:
        y = scale.y(line)
        parts.append(f'<path class="limit" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
    parts += [_drawn(scale, mark) for mark in marks]
    return _svg("".join(parts))


def bars(times: Sequence[float], series: Sequence[Series], *, began: float) -> str:
    """How much came in each interval, stacked; ``times`` are the ends of the intervals."""
    highest = max((sum(values) for values in zip(*(s.values for s in series), strict=True)), default=0.0)
    scale = _Scale(began, times[-1], max(highest * 1.08, 1.0))
    parts, starts = [scale.frame()], [began, *times[:-1]]
    below = [0.0] * len(times)
    for one in series:
        for i, value in enumerate(one.values):
            if value > 0:
                x, right = scale.x(starts[i]) + 0.8, scale.x(times[i]) - 0.8
                y, height = scale.y(below[i] + value), scale.height(value)
                told = _title(f"{one.name}: {value:,.0f}, until {_moment(times[i])}")
                place = f'x="{x:.1f}" y="{y:.1f}" width="{right - x:.1f}" height="{height:.1f}"'
                parts.append(f'<rect class="{one.css}" {place}>{told}</rect>')
                below[i] += value
    return _svg("".join(parts))


def meter(share: float, css: str = "c0") -> str:
    """How much of something is used, as a bar; ``share`` from 0 to 1."""
    width = 100 * min(max(share, 0.0), 1.0)
    kind = css if share < 0.9 else "full"
    used = f'<rect class="{kind}" width="{width:.2f}" height="8" rx="2"/>' if width else ""
    return (
        f'<svg class="meter" viewBox="0 0 100 8" preserveAspectRatio="none" role="img">{_title(f"{share:.1%} spent")}'
        f'<rect class="rest" width="100" height="8" rx="2"/>{used}</svg>'
    )


def legend(series: Sequence[Series], more: Sequence[tuple[str, str]] = ()) -> str:
    """The names of the series beside their colours; ``more`` are (class, name)."""
    listed = [*((s.css, s.name) for s in series), *more]
    shown = (
        f'<span class="key"><svg viewBox="0 0 10 10"><rect class="{css}" width="10" height="10" rx="2"/></svg>'
        f"{escape(name)}</span>"
        for css, name in listed
    )
    return f'<p class="legend">{"".join(shown)}</p>'


class _Scale:
    """Where a moment and a value are in the plot."""

    def __init__(self, began: float, ends: float, highest: float) -> None:
        self.began, self.span = began, max(ends - began, 1.0)
        self.highest = highest or 1.0

    def x(self, moment: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (moment - self.began) / self.span

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - self.height(value)

    def height(self, value: float) -> float:
        return (HEIGHT - TOP - BOTTOM) * value / self.highest

    def frame(self) -> str:
        """Lines and numbers of both axes."""
        parts, step = [], _round_step(self.highest / _TICKS)
        for i in range(int(self.highest / step) + 1):
            y = self.y(i * step)
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            parts.append(f'<text x="{LEFT - 8}" y="{y + 3.5:.1f}" text-anchor="end">{escape(f"{i * step:.4g}")}</text>')
        for i in range(_TICKS + 1):
            moment = self.began + self.span * i / _TICKS
            anchor = "start" if i == 0 else "end" if i == _TICKS else "middle"
            shown = escape(_moment(moment, self.span))
            parts.append(f'<text x="{self.x(moment):.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{shown}</text>')
        return "".join(parts)


def _band(scale: _Scale, times: Sequence[float], below: Sequence[float], above: Sequence[float]) -> str:
    """The outline of one series: along its top by steps, and back along its foot."""
    top = [f"M{scale.x(scale.began):.1f} {scale.y(above[0]):.1f}"]
    for i in range(len(times)):
        top.append(f"V{scale.y(above[i]):.1f}H{scale.x(times[i]):.1f}")
    back = []
    for i in range(len(times) - 1, -1, -1):
        left = scale.x(times[i - 1]) if i else scale.x(scale.began)
        back.append(f"V{scale.y(below[i]):.1f}H{left:.1f}")
    return "".join([*top, *back, "Z"])


def _drawn(scale: _Scale, mark: Mark) -> str:
    x = scale.x(mark.at)
    return f'<path class="mark" d="M{x:.1f} {TOP - 3}l4 -8h-8z">{_title(f"{_moment(mark.at)} {mark.text}")}</path>'


def _round_step(least: float) -> float:
    """The least of 1, 2, 5 times a power of ten that is not below."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-12))


def _moment(at: float, span: float = 0.0) -> str:
    """A moment as a label of an axis: as much of it as tells neighbours apart."""
    form = "%Y-%m-%d" if span > 6 * 86400 else "%m-%d %H:%M" if span > 86400 else "%H:%M" if span > 600 else "%H:%M:%S"
    return dt.datetime.fromtimestamp(at, dt.UTC).strftime(form if span else "%Y-%m-%d %H:%M:%S")


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _svg(inside: str) -> str:
    return f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{inside}</svg>'

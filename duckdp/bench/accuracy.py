"""How the error of a summary falls with the number of rows: the law of the paper, measured.

A fixed family of extremal functions, B-splines of order K + 1 at 64 centres (their K-th derivative is bounded and
jumps), scaled so that the K-th derivative attains 1; tables whose rows are all alike, at eight places, so that the
error at a place is not averaged away. Worst case over functions and tables, median over runs. The slope in log n is to
be -K / (2d + K), or -2K / (3d + 2K) with delta ([J] Theorems 3 and 21). Analytic functions beside it.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import duckdb
import numpy as np
from numpy.typing import NDArray

from duckdp.bench.measure import Grid, read_rows
from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler.expression import Expr
from duckdp.core.types import NANO, Neighbours, parse_delta
from duckdp.smooth.buy.summary_task import SummaryTask, plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.fit.coefficients import approximate, read_function
from duckdp.smooth.summary import SmoothSummary

Floats = NDArray[np.float64]

CASES = ((1, 1), (1, 2), (2, 2), (2, 4))  # (d, K)
SIZES = tuple(round(10 ** (e / 2)) for e in range(6, 15))  # 10^3, 10^3.5, ..., 10^7
RUNS = 20  # releases at each number of rows
ALLOWED = 0.15  # relative distance of a measured error from the predicted one
DELTA = "1e-8"
PLACES = (0.03, 0.171, 0.334, 0.5, 0.587, 0.719, 0.858, 0.98)  # of the tables, in [0, 1]


@dataclass(frozen=True, kw_only=True)
class Law:
    """Measured errors of one case.

    Attributes:
        dimensions, smoothness: d and K.
        delta: of the guarantee, as text; "0" for pure epsilon.
        errors: float[sizes], worst case over splines and tables, median over runs.
        analytic: float[sizes], the same for analytic functions.
        degrees: t per size.
    """

    dimensions: int
    smoothness: int
    delta: str
    sizes: tuple[int, ...]
    errors: Floats
    analytic: Floats
    degrees: tuple[int, ...]

    @property
    def expected(self) -> float:
        """The slope of the theorem."""
        d, k = self.dimensions, self.smoothness
        return -k / (2 * d + k) if self.delta == "0" else -2 * k / (3 * d + 2 * k)

    @property
    def slope(self) -> float:
        """The slope of the error by the number of rows, both as logarithms, by least squares."""
        return float(np.polyfit(np.log(self.sizes), np.log(self.errors), 1)[0])


def measure_law(
    dimensions: int, smoothness: int, *, delta: str = "0", sizes: Sequence[int] = SIZES, runs: int = RUNS
) -> Law:
    """Measure one case through the real way: DuckDB's sums, exact noise, functions from SQL texts."""
    splines, analytic = spline_texts(dimensions, smoothness), analytic_texts(dimensions)
    errors, smooth_errors, degrees = [], [], []
    texts, known = [*splines, *analytic], {}
    for n in sizes:
        basis = _plan(n, dimensions, smoothness, delta).basis
        if basis.degree not in known:  # coefficients are the same in all runs
            found_at = [approximate(_read(t, dimensions), basis, prove=False) for t in texts]
            known[basis.degree] = np.stack([a.coefficients for a in found_at])
        found = [
            (_errors(place, n, _plan(n, dimensions, smoothness, delta), texts, known[basis.degree], runs), basis.degree)
            for place in PLACES
        ]
        per_run = np.max(np.stack([e[:, : len(splines)].max(axis=1) for e, _ in found]), axis=0)
        per_smooth = np.max(np.stack([e[:, len(splines) :].max(axis=1) for e, _ in found]), axis=0)
        errors.append(float(np.median(per_run)))
        smooth_errors.append(float(np.median(per_smooth)))
        degrees.append(found[0][1])
    return Law(
        dimensions=dimensions,
        smoothness=smoothness,
        delta=delta,
        sizes=tuple(sizes),
        errors=np.array(errors),
        analytic=np.array(smooth_errors),
        degrees=tuple(degrees),
    )


def accuracy(runs: int = RUNS, sizes: Sequence[int] = SIZES) -> tuple[Grid, list[Law]]:
    """All cases, pure and with delta, as a table."""
    cases = [(d, k, delta) for d, k in reversed(CASES) for delta in (DELTA, "0")]  # the longest first
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        found = pool.map(partial(_law, sizes=tuple(sizes), runs=runs), cases)
        laws = sorted(found, key=lambda law: (law.delta, law.dimensions, law.smoothness))
    head = ("d", "K", "delta", "slope", "theorem", "", *(f"n={n:.0e}" for n in sizes), "analytic, slope")
    rows = []
    for law in laws:
        held = abs(law.slope - law.expected) <= ALLOWED
        fall = np.polyfit(np.log(law.sizes), np.log(law.analytic), 1)[0]
        rows.append(
            (
                str(law.dimensions),
                str(law.smoothness),
                law.delta,
                f"{law.slope:.3f}",
                f"{law.expected:.3f}",
                "" if held else "MISSED",
                *(f"{e:.2g}" for e in law.errors),
                f"{fall:.2f}",
            )
        )
    title = f"Worst error of means over {64} B-splines, epsilon 1, medians of {runs} runs; slope within {ALLOWED}"
    return Grid(title=title, head=head, rows=tuple(rows)), laws


def _law(case: tuple[int, int, str], *, sizes: tuple[int, ...], runs: int) -> Law:
    d, k, delta = case
    law = measure_law(d, k, delta=delta, sizes=sizes, runs=runs)
    sys.stderr.write(f"measured: d {d}, K {k}, delta {delta}: slope {law.slope:.3f}\n")
    return law


def plot(laws: Sequence[Law], path: str) -> None:
    """Errors against n as a picture; needs matplotlib."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5), sharey=True, layout="constrained")
    for axis, delta in zip(axes, ("0", DELTA), strict=True):
        for law in (law for law in laws if law.delta == delta):
            label = f"d={law.dimensions}, K={law.smoothness}: slope {law.slope:.2f} (theorem {law.expected:.2f})"
            (line,) = axis.loglog(law.sizes, law.errors, "o-", label=label)
            axis.loglog(law.sizes, law.analytic, ":", color=line.get_color())
        axis.set_title("epsilon = 1" if delta == "0" else f"epsilon = 1, delta = {delta}")
        axis.set_xlabel("rows")
        axis.legend(fontsize=8)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("worst error of a mean (dotted: analytic functions)")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def spline_texts(dimensions: int, smoothness: int) -> list[str]:
    """64 B-splines as SQL over x0, x1, ... in [0, 1]: tensor products on an even grid of centres."""
    per_axis = round(64 ** (1 / dimensions))
    centres = (np.arange(per_axis) + 0.5) / per_axis
    return [
        " * ".join(_spline(f"x{i}", float(c), smoothness) for i, c in enumerate(centre))
        for centre in itertools.product(centres, repeat=dimensions)
    ]


def analytic_texts(dimensions: int) -> list[str]:
    """Eight Gaussian bumps and exponentials."""
    inside = [f"power(x{i} - {{c}}, 2)" for i in range(dimensions)]
    bumps = [f"exp(-({' + '.join(inside)}) / 0.5)".replace("{c}", str(c)) for c in (0, 0.2, 0.5, 0.7, 1)]
    total = " + ".join(f"x{i}" for i in range(dimensions))
    return [*bumps, f"exp(-({total}))", f"1 / (2 + {total})", f"cos({total})"]


def _spline(x: str, centre: float, k: int) -> str:
    """The B-spline of order k + 1 (degree k) with knots 1/2 apart, the k-th derivative of largest size 1.

    sum_i (-1)^i C(k+1, i) (x - c_i)_+^k / (k! C(k, floor(k/2))): the k-th derivative is an alternating partial sum of
    binomials, at most C(k, floor(k/2)).
    """
    knots = [centre + 0.5 * (i - (k + 1) / 2) for i in range(k + 2)]
    scale = math.factorial(k) * math.comb(k, k // 2)
    terms = [
        f"{(-1) ** i * math.comb(k + 1, i)} * power(greatest(0, {x} - {knot!r}), {k})" for i, knot in enumerate(knots)
    ]
    return f"(({' + '.join(terms)}) / {scale})".replace("- -", "+ ")


def _columns(d: int) -> tuple[Column, ...]:
    return tuple(
        Column(name=f"x{i}", source=f"x{i}", type="DOUBLE", kind=Kind.NUMBER, nullable=False, lower=0.0, upper=1.0)
        for i in range(d)
    )


def _read(text: str, d: int) -> Expr:
    return read_function(text, "t", _columns(d))


def _plan(n: int, d: int, k: int, delta: str) -> SummaryTask:
    table = Table(name="t", relation=("memory", "main", "t"), columns=_columns(d), row_cap=10 * n, expected_rows=n)
    return plan_summary(
        table,
        [c.name for c in table.columns],
        epsilon_nano=NANO,
        neighbours=Neighbours.ADD_REMOVE,
        delta_atto=parse_delta(delta),
        wishes=Wishes(smoothness=k),
    )


def _errors(place: float, n: int, task: SummaryTask, texts: Sequence[str], coefficients: Floats, runs: int) -> Floats:
    """|answer - truth| of every function's mean in every run, float[runs, texts]."""
    con = duckdb.connect(":memory:")
    con.execute("SET enable_progress_bar = false")
    try:
        items = ", ".join(f"{place!r}::DOUBLE AS x{i}" for i in range(len(task.columns)))
        con.execute(f"CREATE TABLE t AS SELECT {items} FROM range({n})")
        truth = np.array(con.execute(f"SELECT {', '.join(texts)} FROM t LIMIT 1").fetchone(), dtype=np.float64)
        return np.stack([np.abs(coefficients @ sums / sums[0] - truth) for sums in _runs(con, task, runs)])
    finally:
        con.close()


def _runs(con: duckdb.DuckDBPyConnection, task: SummaryTask, runs: int) -> Iterator[Floats]:
    """Noisy sums of fresh releases; the exact ones are read once."""
    exact = task.exact(read_rows(con, task.query(0)))
    for _ in range(runs):
        yield SmoothSummary.load(task.noised(exact)).sums

"""Laws of noise at the same guarantee; the privacy of the worst pair; a summary against queries."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duckdp.bench.measure import Grid
from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler.expression import Expr
from duckdp.core.types import NANO, Neighbours, parse_delta
from duckdp.smooth.axes import Axis
from duckdp.smooth.basis import Basis
from duckdp.smooth.buy.summary_task import SummaryTask, plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.fit.coefficients import approximate, read_function
from duckdp.smooth.sum_noise import NoisePlan, choose_noise, expected_error, level_weights

Floats = NDArray[np.float64]
CASES = ((1, 8), (1, 64), (2, 8), (2, 16), (3, 6), (4, 4))  # (columns, degree) of the summaries
BITS = 20  # of the grid that the moments lie on
DELTA = "1e-8"
KERNEL_CASES = (  # (columns, degree) of what kernels are compared on
    *((1, t) for t in (4, 8, 16, 32)),
    (2, 4),
    (2, 8),
    (2, 16),
    (2, 32),
    (3, 4),
    (3, 8),
    (3, 12),
    (4, 3),
    (4, 4),
    (4, 6),
)
DRAWN = 60  # releases of noise whose error is measured
QUERIES = 1000  # random functions, of which the mean error is shown


def _basis(d: int, t: int) -> Basis:
    axes = tuple(Axis(name=f"x{i}", kind=Kind.NUMBER, degree=t, lower=0.0, upper=1.0) for i in range(d))
    return Basis(axes=axes, degree=t)


def _plan(basis: Basis, family: str, neighbours: Neighbours, delta: int, smoothness: int | None) -> NoisePlan:
    public = neighbours is Neighbours.REPLACE
    found = basis.norms(neighbours, bits=BITS, max_rows=1, count_public=public)
    levels = basis.levels[1:] if public else basis.levels
    return choose_noise(
        family,  # type: ignore[arg-type]
        found,
        levels=levels,
        epsilon_nano=NANO,
        delta_atto=delta,
        smoothness=smoothness,
    )


def noises() -> Grid:
    """Standard error of a typical smooth answer (a sum over rows), by law, relation and division of the budget."""
    head = ("d", "t", "relation", "Laplace", "cube", "cube, levels", f"Gaussian {DELTA}", "Gaussian, levels", "least")
    rows = []
    for d, t in CASES:
        basis = _basis(d, t)
        bump = " + ".join(f"power(x{i} - 0.4, 2)" for i in range(d))
        c = approximate(_read(f"exp(-({bump}) / 0.18)", d), basis).coefficients / 2**BITS
        for neighbours in Neighbours:
            used = c[1:] if neighbours is Neighbours.REPLACE else c
            delta = parse_delta(DELTA)
            wanted = (
                ("laplace", 0, None),
                ("cube", 0, None),
                ("cube", 0, 2),
                ("gaussian", delta, None),
                ("gaussian", delta, 2),
            )
            errors = [_plan(basis, f, neighbours, a, k).noise.standard_error(used) for f, a, k in wanted]
            least = head[3 + int(np.argmin(errors))]
            rows.append((str(d), str(t), neighbours.value, *(f"{e:.3g}" for e in errors), least))
    title = "Standard error, in rows, of the sum of a bump exp(-|x - 0.4|^2 / 0.18) on [0, 1]^d, epsilon 1"
    return Grid(title=title, head=head, rows=tuple(rows))


def kernel_errors() -> Grid:
    """Expected errors of full tensors with noise on their sums, and on sums of kernels with a small cube; and drawn."""
    head = ("d", "t", "sums: expected", "kernels: expected", "drawn", "ratio", "cube of degree", "its share of epsilon")
    rows = []
    for d, t in KERNEL_CASES:
        tasks = [_task(d, t, noise) for noise in ("sums", "kernels")]
        levels, grid = tasks[0].basis.levels, [float(1 << task.moments.bits) for task in tasks]
        old, new = (expected_error(task.plan.noise, levels, 2) / g for task, g in zip(tasks, grid, strict=True))
        zeros = [0] * len(levels)
        z = np.array([tasks[1].noised_sums(zeros) for _ in range(DRAWN)], dtype=np.float64) / grid[1]
        drawn = float(np.sqrt((z**2 @ level_weights(levels, 2)).mean()))
        budgets = tasks[1].plan.budgets
        cube = (str(tasks[1].parameters["cuts"][0]), str(budgets[0])) if len(budgets) > 1 else ("-", "0")
        figures = (f"{old:.3g}", f"{new:.3g}", f"{drawn:.3g}", f"{old / new:.3g}")
        rows.append((str(d), str(t), *figures, *cube))
    title = "Expected error sqrt(sum_r (1 + |r|)^-4 Var Z_r) of t^d sums, rows, epsilon 1, ADD_REMOVE"
    return Grid(title=title, head=head, rows=tuple(rows))


def _task(d: int, t: int, noise: Literal["sums", "kernels"]) -> SummaryTask:
    table = Table(name="t", relation=("memory", "main", "t"), columns=_columns(d), row_cap=10**6)
    return plan_summary(
        table,
        [c.name for c in table.columns],
        epsilon_nano=NANO,
        neighbours=Neighbours.ADD_REMOVE,
        wishes=Wishes(degree=t, noise=noise),
    )


def worst_pairs() -> Grid:
    """The exact privacy loss of the worst pair of rows under REPLACE, at the paper's printed scale and at ours."""
    head = ("d", "t", "worst l1 distance of two rows", "printed scale t^d", "loss at it", "our scale", "loss at it", "")
    rows = []
    for d, t in ((1, 4), (1, 16), (2, 4), (2, 6), (3, 4)):
        basis = _basis(d, t)
        moved = np.ones((20_001, d))
        moved[:, 0] = np.cos(np.linspace(0, np.pi, 20_001))
        phi = basis.evaluate(moved)
        distance = float(np.max(np.abs(phi - phi[0]).sum(axis=1)))  # the worst pair moves one coordinate (basis.py)
        ours = float(basis.norms(Neighbours.REPLACE, bits=BITS, max_rows=1, count_public=True).l1 / Fraction(2**BITS))
        rows.append(
            (
                str(d),
                str(t),
                f"{distance:.4f}",
                str(t**d),
                f"{distance / t**d:.4f}",
                f"{ours:.4f}",
                f"{distance / ours:.4f}",
                "" if distance > t**d and distance <= ours else "MISSED",
            )
        )
    title = "Privacy loss at epsilon 1, Laplace noise, one row replaced by another"
    return Grid(title=title, head=head, rows=tuple(rows))


def against_queries(rows: int = 1_000_000, queries: int = QUERIES) -> Grid:
    """Worst errors of many bumps: from one summary, and asked one by one with the same total epsilon."""
    from duckdp.curator import open as open_curator

    rng = np.random.default_rng(4)
    centres = rng.uniform(0, 1, (queries, 2)).round(4)
    texts = [f"exp(-(power(x - {a}, 2) + power(y - {b}, 2)) / 0.08)" for a, b in centres.tolist()]
    with TemporaryDirectory(prefix="duckdp-bench-") as folder:
        path = _points(Path(folder), rows)
        with open_curator({"points": str(path)}, ledger=str(Path(folder) / "l.ledger")) as curator:
            curator.protect("points", row_cap=10 * rows, expected_rows=rows, bounds={"x": (0, 1), "y": (0, 1)})
            curator.budget(epsilon=3)
            curator.grant("ana", epsilon=3)
            session = curator.session("ana")
            session.smooth_summary("points", ["x", "y"], epsilon=1, degree=20, name="xy")
            truth = _truth(path, texts)
            made = session.smooth_answers("xy", texts).arrow()
            summary = np.abs(np.array(made["value"].to_pylist(), dtype=float) - truth)
            epsilon = f"{1 / queries:.9f}"
            single = np.abs(
                np.array(
                    [session.sql(f"SELECT avg({t}) FROM points", epsilon=epsilon).rows()[0][0] for t in texts],
                    dtype=float,
                )
                - truth
            )
    head = ("way", "worst error", "median error", "worst, against the summary")
    lines = [
        ("one summary, degree 20, epsilon 1", summary, 1.0),
        (f"one by one, epsilon 1/{queries} each", single, float(single.max() / summary.max())),
    ]
    shown = tuple((n, f"{e.max():.3g}", f"{np.median(e):.3g}", f"{r:.3g}x") for n, e, r in lines)
    return Grid(title=f"{queries:,} averages of bumps over {rows:,} rows, total epsilon 1", head=head, rows=shown)


def _points(folder: Path, rows: int) -> Path:
    import duckdb

    path = folder / "points.parquet"
    with duckdb.connect(":memory:") as con:
        con.execute(f"COPY (SELECT sqrt(random()) AS x, random() * random() AS y FROM range({rows})) TO '{path}'")
    return path


def _truth(path: Path, texts: list[str]) -> Floats:
    import duckdb

    with duckdb.connect(":memory:") as con:
        found: list[float] = []
        for start in range(0, len(texts), 100):
            items = ", ".join(f"avg({t})" for t in texts[start : start + 100])
            row = con.execute(f"SELECT {items} FROM '{path}'").fetchone()
            found += [float(v) for v in row or ()]
    return np.array(found)


def _columns(d: int) -> tuple[Column, ...]:
    return tuple(
        Column(name=f"x{i}", source=f"x{i}", type="DOUBLE", kind=Kind.NUMBER, lower=0.0, upper=1.0) for i in range(d)
    )


def _read(text: str, d: int) -> Expr:
    return read_function(text, "t", _columns(d))

"""The sums of a basis: every path, against NumPy and, for high degrees, against a non-uniform FFT, in the same run.

The NumPy baseline fetches the columns (``fetchnumpy``), maps and clamps them, and adds up in chunks that fit the cache:
``chebvander`` per column, products of half of the columns each, one matrix product. A second one fetches by Arrow. The
FFT is finufft's type 1 (``pip install finufft``), on two threads, with and without fetching and taking angles.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from duckdp.bench.measure import Case, Line, Report, compare, from_times, read_rows
from duckdp.catalog.table import Column, Kind, Table
from duckdp.errors import ParameterError
from duckdp.smooth.axes import make_axis
from duckdp.smooth.basis import Basis
from duckdp.smooth.sums.moments import MomentPlan, plan_moments

SHAPES = ((1, 64), (2, 8), (2, 16), (3, 6), (4, 4))  # (columns, degree) of the summaries
HIGH = (2, 64)  # (columns, degree) of the largest one
LIMIT = 1.0  # times that of the baseline in memory, which a summary may take
FFT_LIMIT = 2.0  # the same of a baseline by fast transforms
CHUNK = 1 << 12  # rows that the baseline takes at once
NAMES = "abcd"
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Points:
    """A table t of four DOUBLE columns in an open connection.

    Attributes:
        con: the connection, two threads.
        rows: of the table.
        relation: what FROM says, for the baselines.
    """

    con: duckdb.DuckDBPyConnection
    rows: int
    relation: str = "memory.main.t"

    def run(self, plan: MomentPlan) -> list[int]:
        """All sums by a plan."""
        return plan.collect(read_rows(self.con, plan.query()))


def make_points(rows: int) -> Points:
    """Uniform points, some of them beyond the bounds 0 and 1."""
    con = duckdb.connect(":memory:", config={"threads": 2})
    con.execute("SET enable_progress_bar = false")
    listed = ", ".join(
        f"(hash({k} * i + {k}) % 1000000007) / 990000000.0::DOUBLE AS {n}" for k, n in enumerate(NAMES, 3)
    )
    con.execute(f"CREATE TABLE t AS SELECT {listed} FROM range({rows}) r(i)")
    return Points(con=con, rows=rows)


def make_plan(points: Points, dimensions: int, degree: int, path: str = "auto") -> MomentPlan:
    """A plan over the first columns, epsilon 1."""
    columns = tuple(
        Column(name=n, source=n, type="DOUBLE", kind=Kind.NUMBER, lower=0.0, upper=1.0) for n in NAMES[:dimensions]
    )
    table = Table(
        name="t", relation=("memory", "main", "t"), columns=columns, row_cap=points.rows, expected_rows=points.rows
    )
    basis = Basis(axes=tuple(make_axis(c, degree) for c in columns), degree=degree)
    return plan_moments(table, columns, basis, epsilon=Fraction(1), path=path)


def suite(rows: int, repeat: int) -> Report:
    """Every path that fits, for all shapes; limits on the planner's choice."""
    points = make_points(rows)
    lines: list[Line] = []
    for dimensions, degree in (*SHAPES, HIGH):
        lines += compare(_cases(points, dimensions, degree), repeat)
    points.con.close()
    return Report(title=f"Sums of a basis, {rows:,} rows, two threads", lines=lines)


def _cases(points: Points, dimensions: int, degree: int) -> list[Case]:
    title = f"d={dimensions} t={degree}"
    high = (dimensions, degree) == HIGH
    numpy_name, arrow_name = f"{title} NumPy", f"{title} NumPy, fetched by Arrow"
    cases = [
        Case(name=numpy_name, run=lambda: baseline(points, dimensions, degree)),
        Case(name=arrow_name, run=lambda: baseline(points, dimensions, degree, arrow=True)),
    ]
    limits: dict[str, float | None] = {numpy_name: None if high else LIMIT, arrow_name: None}
    transform = _transform(points, degree) if high else None
    if transform is not None:
        cases += [
            Case(name=f"{title} FFT", run=transform[0]),
            Case(name=f"{title} FFT, fetch included", run=transform[1]),
        ]
        limits |= {f"{title} FFT": FFT_LIMIT, f"{title} FFT, fetch included": None}
    chosen = make_plan(points, dimensions, degree).path
    for path in ("sums", "cells", "blocks"):
        if high and path == "sums":
            continue  # 4,096 sums: seconds, and nothing to learn
        try:
            plan = make_plan(points, dimensions, degree, path)
        except ParameterError:
            continue
        name = f"{title} {path}" + (" (chosen)" if path == chosen else "")
        kept = limits if path == chosen else dict.fromkeys(limits)
        cases.append(Case(name=name, run=_runner(points, plan), limits=kept))
    return cases


def _runner(points: Points, plan: MomentPlan) -> Callable[[], object]:
    return lambda: points.run(plan)


def baseline(points: Points, dimensions: int, degree: int, *, arrow: bool = False) -> Floats:
    """All sums by NumPy, in double precision: float[degree, ..., degree] flattened."""
    listed = ", ".join(NAMES[:dimensions])
    sql = f"SELECT {listed} FROM {points.relation}"
    if arrow:
        fetched = points.con.sql(sql).to_arrow_table()
        columns = [fetched.column(n).to_numpy() for n in NAMES[:dimensions]]
    else:
        found = points.con.execute(sql).fetchnumpy()
        columns = [np.asarray(found[n]) for n in NAMES[:dimensions]]
    half = max(1, dimensions // 2)
    total: Any = 0.0
    for start in range(0, points.rows, CHUNK):
        units = [np.clip(2 * x[start : start + CHUNK] - 1, -1, 1) for x in columns]
        powers = [np.polynomial.chebyshev.chebvander(u, degree - 1) for u in units]
        left, right = _products(powers[:half]), _products(powers[half:])
        total = total + (left.sum(axis=0) if right is None else left.T @ right)
    return np.asarray(total).reshape(-1)


def _products(powers: Sequence[Any]) -> Any:
    """Row-wise outer product of tables of powers, or None."""
    if not powers:
        return None
    found = powers[0]
    for each in powers[1:]:
        found = (found[:, :, None] * each[:, None, :]).reshape(len(found), -1)
    return found


def _transform(points: Points, degree: int) -> tuple[Callable[[], object], Callable[[], object]] | None:
    """Finufft's type 1 in two dimensions without and with fetching, or None when it is not installed."""
    try:
        finufft: Any = importlib.import_module("finufft")
    except ImportError:
        return None
    modes, ones = (2 * degree, 2 * degree), np.ones(points.rows, dtype=np.complex128)

    def angles() -> list[Floats]:
        found = points.con.execute(f"SELECT a, b FROM {points.relation}").fetchnumpy()
        return [np.arccos(np.clip(2 * np.asarray(found[n]) - 1, -1, 1)) for n in "ab"]

    def transform(at: list[Floats]) -> object:
        return finufft.nufft2d1(at[0], at[1], ones, modes, eps=1e-6, nthreads=2)

    ready = angles()
    return lambda: transform(ready), lambda: transform(angles())


def large_file(rows: int = 100_000_000, memory: str = "1GB") -> Report:
    """Sums over a Parquet file of two FLOAT columns under a memory limit, once each."""
    with tempfile.TemporaryDirectory(prefix="duckdp-bench-") as folder:
        path = Path(folder) / "points.parquet"
        with duckdb.connect(":memory:", config={"threads": 2, "memory_limit": memory}) as con:
            con.execute("SET enable_progress_bar = false")
            con.execute(f"SET temp_directory = '{folder}'")
            value = "((hash({0} * i) % 1000003) / 1000003)::FLOAT AS {1}"
            listed = ", ".join(value.format(k, n) for k, n in ((3, "a"), (5, "b")))
            con.execute(
                f"COPY (SELECT {listed} FROM range({rows}) r(i)) TO '{path}' (FORMAT parquet, COMPRESSION uncompressed)"
            )
            con.execute(f"CREATE VIEW t AS SELECT a::DOUBLE AS a, b::DOUBLE AS b FROM read_parquet('{path}')")
            points = Points(con=con, rows=rows)
            lines = []
            for (d, t), name in (((2, 8), "cells"), ((2, 8), "blocks"), ((2, 8), "sums"), (HIGH, "cells")):
                plan = make_plan(points, d, t, name)
                start = time.perf_counter()
                points.run(plan)
                lines.append(from_times(f"d={d} t={t} {plan.path}", [time.perf_counter() - start]))
    return Report(title=f"{rows:,} rows of a Parquet file, memory_limit {memory}", lines=lines)

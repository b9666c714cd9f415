"""How far regression coefficients are from those of all rows: of one release, of a summary, of blocks; and coverage.

``python -m duckdp.bench.regression_accuracy``: made-up rows, each a unit; medians of nine releases, of the one release
of 400 (a median of nine is off by a third), three minutes of processor time. ``--own``: that one alone, ten seconds.
``--coverage``: the part of 95% intervals that hold, on made-up data sets of three kinds, a minute.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from statistics import median

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import duckdp
from duckdp.bench.measure import Grid, show_grid
from duckdp.compiler.pair_statistics import Pairs, correlations, covariances, least_squares, target_pairs
from duckdp.core.types import NANO
from duckdp.functions.moment_answers import found_numbers
from duckdp.mechanisms.second_moments import Reach, plan_second_moments
from duckdp.session import Session

Floats = NDArray[np.float64]
ROWS = 100_000  # each a unit
EPSILONS = ("0.1", "1")  # of one release
RELEASES = 9  # of which medians are told
OWN = 400  # of one release, whose noise alone is drawn anew
COVERED = 80  # data sets of each line of the coverage
FEATURES = (1, 2, 4)  # of the regressions
BLOCKS = 200  # of the way by blocks
KINDS = ("spread evenly", "related", "near an end")


def rows(count: int) -> tuple[pa.Table, list[str]]:
    """Skewed features in [0, 100], related, and a target; their names."""
    rng = np.random.default_rng(3)
    common = rng.normal(size=ROWS)
    names = [f"x{i}" for i in range(count)]
    features = [np.clip(rng.gamma(3, 8, ROWS) + 4 * common, 0, 100) for _ in names]
    target = 20 + sum((0.5 / (i + 1)) * x for i, x in enumerate(features)) + rng.normal(0, 10, ROWS)
    return pa.table(
        {"id": np.arange(ROWS), **dict(zip(names, features, strict=True)), "y": np.clip(target, 0, 100)}
    ), names


def by_summary(ana: Session, names: Sequence[str], epsilon: str) -> Floats:
    """Slopes from the moments of a summary of degree 3 (powers up to 2 of each column)."""
    columns = [*names, "y"]
    bought = f"bought{len(ana.summaries().rows())}"
    wishes = {"epsilon": epsilon, "degree": 3, "name": bought, "fresh": True}
    ana.smooth_summary("t", columns, interactions=2, **wishes)  # type: ignore[arg-type]
    terms = ["1", *columns]
    asked = [f"({a}) * ({b})" for i, a in enumerate(terms) for b in terms[i:]]
    found = ana.smooth_answers(bought, asked, statistic="sum")["value"]
    sums = np.zeros((len(terms), len(terms)))
    sums[np.triu_indices(len(terms))] = found
    sums = np.maximum(sums, sums.T) if sums.min() >= 0 else sums + sums.T - np.diag(np.diag(sums))
    return np.asarray(np.linalg.solve(sums[:-1, :-1], sums[:-1, -1])[1:], dtype=np.float64)


def by_release(count: int, epsilon: str) -> list[Floats]:
    """Slopes of many releases as ``dp_linear_regression`` gives them: exact moments with its noise."""
    made, names = rows(count)
    placed = np.column_stack([made[name].to_numpy() for name in (*names, "y")]) / 50 - 1  # as all are in [0, 100]
    pairs = target_pairs([False] * (count + 1))
    exact = np.array([np.prod(placed ** np.array(powers), axis=1).sum() for powers in pairs.wanted])
    reach = Reach(rows=1, groups=1, replaced=False)
    way = plan_second_moments(pairs.wanted, reach=reach, epsilon_nano=round(float(epsilon) * NANO), delta_atto=0)
    noise = way.moments([way.release([0] * len(way.released)) for _ in range(OWN)])
    return list(least_squares(pairs.matrix(exact + noise))[:, 1:])


def by_blocks(ana: Session, names: Sequence[str], epsilon: str) -> Floats:
    """The slope of one feature by ``dp_sample_aggregate``."""
    given = {"epsilon": epsilon, "blocks": BLOCKS, "low": -3.0, "high": 3.0, "fresh": True}
    return np.array(ana.sample_aggregate("t", f"regr_slope(y, {names[0]})", **given)["value"])  # type: ignore[arg-type]


def fitted(count: int) -> Floats:
    """Slopes of the fit of all rows."""
    made, names = rows(count)
    columns = np.column_stack([np.ones(ROWS), *(made[n].to_numpy() for n in names)])
    return np.asarray(np.linalg.lstsq(columns, made["y"].to_numpy(), rcond=None)[0][1:])


def own_error(count: int, epsilon: str) -> str:
    """Median over many releases of the largest error of a slope, by one release."""
    true = fitted(count)
    return f"{median(float(np.max(np.abs(slopes - true))) for slopes in by_release(count, epsilon)):.5f}"


def errors(count: int) -> list[list[str]]:
    """A line for each epsilon: median over releases of the largest error of a slope."""
    made, names = rows(count)
    true, found = fitted(count), []
    with tempfile.TemporaryDirectory() as folder, duckdp.open({"t": made}, ledger=f"{folder}/ledger") as curator:
        bounds = dict.fromkeys([*names, "y"], (0, 100))
        curator.protect("t", unit_key="id", max_rows=1, row_cap=ROWS, expected_rows=ROWS, bounds=bounds)
        curator.budget(epsilon=1_000_000)
        curator.grant("ana", epsilon=1_000_000)
        ana = curator.session("ana")
        for epsilon in EPSILONS:
            line = [str(count), epsilon, own_error(count, epsilon)]
            for way in (by_summary, by_blocks):
                if way is by_blocks and count > 1:
                    line.append("")
                    continue
                line.append(
                    f"{median(float(np.max(np.abs(way(ana, names, epsilon) - true))) for _ in range(RELEASES)):.5f}"
                )
            found.append(line)
    return found


def accuracy() -> Grid:
    """Errors by number of features and epsilon."""
    head = ["features", "epsilon", "one release", "a summary's moments", "blocks"]
    lines = [line for count in FEATURES for line in errors(count)]
    return Grid(title=f"Largest error of a slope, median of {RELEASES} releases, {ROWS:,} rows", head=head, rows=lines)


def own_accuracy() -> Grid:
    """Errors of the one release alone."""
    lines = [[str(count), epsilon, own_error(count, epsilon)] for count in FEATURES for epsilon in EPSILONS]
    title = f"Largest error of a slope, median of {OWN} releases, {ROWS:,} rows"
    return Grid(title=title, head=["features", "epsilon", "one release"], rows=lines)


def values(kind: str, n: int, d: int, rng: np.random.Generator) -> Floats:
    """Rows of one kind, each value between -1 and 1."""
    common = rng.normal(size=(n, 1))
    if kind == "spread evenly":
        return rng.uniform(-1, 1, (n, d))
    if kind == "related":
        return np.clip(0.3 * (common + rng.normal(size=(n, d))), -1, 1)
    return np.clip(-1 + 0.15 * rng.exponential(size=(n, d)) + 0.1 * np.abs(common), -1, 1)


def covered(kind: str, n: int, d: int, epsilon: float, rng: np.random.Generator) -> tuple[float, float, float]:
    """The parts of intervals that hold: of coefficients, and covariances and correlations of the features."""
    pairs = target_pairs([False] * d)
    reach = Reach(rows=1, groups=1, replaced=False)
    way = plan_second_moments(pairs.wanted, reach=reach, epsilon_nano=round(epsilon * NANO), delta_atto=0)
    draws, hits = way.draws(), np.zeros(3)
    statistics = (_coefficients, _covariances, _correlations)
    for _ in range(COVERED):
        rows_ = values(kind, n, d, rng)
        true = np.array([np.prod(rows_ ** np.array(p), axis=1).sum() for p in pairs.wanted])
        noisy = true + way.moments([way.release([0] * len(way.released))])[0]
        for i, statistic in enumerate(statistics):
            found = found_numbers(noisy, draws, lambda m: statistic(pairs, m), lower=-np.inf, upper=np.inf)  # noqa: B023
            real = statistic(pairs, true[None])[0]
            hits[i] += float(np.mean((found.low <= real) & (real <= found.high)))
    first, second, third = hits / COVERED
    return float(first), float(second), float(third)


def _coefficients(pairs: Pairs, moments: Floats) -> Floats:
    return least_squares(pairs.matrix(moments))


def _covariances(pairs: Pairs, moments: Floats) -> Floats:
    return np.asarray(covariances(pairs.matrix(moments))[:, 0, :-1])


def _correlations(pairs: Pairs, moments: Floats) -> Floats:
    return np.asarray(correlations(pairs.matrix(moments))[:, 0, 1:-1])


def coverage() -> Grid:
    """Coverage on data sets that nothing was tuned on."""
    rng, lines = np.random.default_rng(20261123), []
    for d, n, epsilon in ((3, 300, 1.0), (3, 3000, 0.3), (5, 10_000, 1.0)):
        for kind in KINDS:
            parts = covered(kind, n, d, epsilon, rng)
            lines.append([kind, str(d), str(n), f"{epsilon:g}", *(f"{part:.3f}" for part in parts)])
    head = ["data", "columns", "rows", "epsilon", "coefficients", "covariances", "correlations"]
    return Grid(title=f"95% intervals that hold, {COVERED} data sets a line", head=head, rows=lines)


def main() -> int:
    """Print errors, or coverage; the exit code of a program that worked."""
    grid = coverage() if "--coverage" in sys.argv else own_accuracy() if "--own" in sys.argv else accuracy()
    sys.stdout.write(show_grid(grid, markdown="--markdown" in sys.argv) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

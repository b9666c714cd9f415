"""``duckdp bench quantiles``: one median by every way we know, several quantiles at once, and time against DuckDB.

::

    ours      dp_quantiles, intervals := false              smooth   dp_median_smooth
    OpenDP    its exponential-noise maximum over 10,000 evenly spaced candidates, at its own privacy map
    step      dp_quantiles, intervals := false, step := 100: told the same candidates as OpenDP
    tree      noisy counts of 16^4 equal cells and of their ancestors, made consistent; it adds up over parts

Errors are mean distances, in rows, between the rank that is wanted and those of what was released, over 50 draws on
each of eight tables (on one beyond 100,000 rows). A way is held against those that are told no more: OpenDP's is told
candidates, and so is ours by step; the others are told bounds alone. Data are made up: incomes (log-normal in [0,
10^6]), two heaps with nothing between them, and incomes tied at thousands of which a third are 0.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from duckdp.bench.measure import Case, Grid, Report, as_markdown, as_text, compare, machine, show_grid
from duckdp.catalog.table import Column, Table, kind_of
from duckdp.compiler.grouping import read_keys
from duckdp.compiler.order_rows import WantedPart, sort_windows
from duckdp.compiler.quantile import plan_quantile
from duckdp.compiler.quantile_levels import QuantilesTask, plan_quantiles
from duckdp.compiler.quantile_methods import choose
from duckdp.compiler.quantile_rows import FINEST
from duckdp.compiler.quantile_steps import StepQuantileTask, plan_step_quantile
from duckdp.compiler.quantile_tree import TreeQuantilesTask, plan_tree
from duckdp.core.reads import PrivateQuery, Read
from duckdp.core.task import Stages
from duckdp.core.types import NANO, Neighbours
from duckdp.mechanisms.exponential_quantiles import PLACES, Part, draw_cell
from duckdp.vault.shared_reads import SharedReads

Floats = NDArray[np.float64]
UPPER = 1_000_000.0  # bound of every column
GROUPS = 10  # by which times are taken too
BRANCHES, DEPTH = 16, 4  # of the tree
CANDIDATES = 10_000  # of OpenDP's
DRAWS = 50  # of each median of a table, by default
TABLES, MANY = 8, 100_000  # made-up tables, of at most so many rows; of more there is one
MOST_WORSE = 1.1  # than the best way
MOST_TIMES = 2.0  # of DuckDB's exact median
EPSILONS = (0.1, 1.0)  # of every table
SEVERAL = (0.1, 0.25, 0.5, 0.75, 0.9)  # quantiles that are asked for at once


def incomes(rows: int, seed: int = 0) -> Floats:
    """Incomes that are log-normal around 40,000."""
    return np.clip(np.random.default_rng((1, seed)).lognormal(np.log(40_000), 0.8, rows), 0, UPPER)


def heaps(rows: int, seed: int = 0) -> Floats:
    """A little more than half of the rows near 20,000, the others near 800,000."""
    rng = np.random.default_rng((2, seed))
    low = rng.random(rows) < 0.52
    return np.clip(np.where(low, rng.normal(20_000, 3_000, rows), rng.normal(800_000, 50_000, rows)), 0, UPPER)


def tied(rows: int, seed: int = 0) -> Floats:
    """A third are 0, the others whole thousands."""
    rng = np.random.default_rng((3, seed))
    return np.where(rng.random(rows) < 0.33, 0.0, np.round(incomes(rows, seed) / 1000) * 1000)


def ages(rows: int, seed: int = 0) -> Floats:
    """Ages of made-up people, in whole years."""
    return np.clip(np.round(np.random.default_rng((4, seed)).normal(45, 18, rows)), 0, 110)


def minutes(rows: int, seed: int = 0) -> Floats:
    """Whole minutes of a day that something took."""
    return np.clip(np.floor(np.random.default_rng((5, seed)).lognormal(5, 0.8, rows)), 0, 1440)


WHOLE: dict[str, tuple[Callable[[int, int], Floats], int]] = {"ages": (ages, 110), "minutes": (minutes, 1440)}
DATA: dict[str, Callable[[int, int], Floats]] = {"incomes": incomes, "two heaps": heaps, "tied": tied}


def declared(rows: int, upper: float = UPPER, kind: str = "DOUBLE") -> Table:
    """The made-up table as its owner declares it."""
    found, fractions = kind_of(kind), kind_of("DOUBLE")
    assert found is not None
    assert fractions is not None
    x = Column(name="x", source="x", type=kind, kind=found[0], integral=found[1], lower=0.0, upper=upper)
    g = Column(name="g", source="g", type="DOUBLE", kind=fractions[0], integral=True, domain=tuple(range(GROUPS)))
    return Table(name="t", relation=("memory", "main", "t"), columns=(x, g), row_cap=2 * rows, expected_rows=rows)


class World:
    """One made-up table in DuckDB, and its values in order; of whole numbers, where the largest is given."""

    def __init__(self, values: Floats, largest: int | None = None) -> None:
        self.values, self.con = np.sort(values), duckdb.connect()
        self.upper, self.candidates = (UPPER, CANDIDATES) if largest is None else (float(largest), largest)
        self.con.register("given", _frame(values))
        self.con.execute("CREATE TABLE t AS SELECT x FROM given")
        self.con.unregister("given")
        self.table = declared(len(values)) if largest is None else declared(len(values), largest, "BIGINT")

    def rows_off(self, value: float, share: float) -> float:
        """How far a value's ranks are from the one that is wanted; values are told to one step of ours."""
        wanted, step = share * len(self.values), self.upper / FINEST
        low = int(np.searchsorted(self.values, value - step, "left"))
        high = int(np.searchsorted(self.values, value + step, "right"))
        return max(0.0, wanted - high, low - wanted)

    def read(self, query: Any) -> list[tuple[Any, ...]]:
        """What a private read would give."""
        return self.con.cursor().execute(query.sql, list(query.parameters)).fetchall()

    @contextmanager
    def shared(self) -> Iterator[Read]:
        """Private reads of one release, which share what they copy, as those of a curator do."""
        shared = SharedReads(self.con.cursor)

        def read(query: PrivateQuery) -> list[tuple[Any, ...]]:
            if not query.kept:
                return self.read(query)
            return shared.cursor.execute(*shared.prepare(query)).fetchall()

        try:
            yield read
        finally:
            shared.close()

    def task(
        self, shares: Sequence[float], epsilon: float, *, intervals: bool = False, grouped: bool = False
    ) -> QuantilesTask:
        """Several quantiles of the column, planned as dp_quantiles plans them."""
        given = {"epsilon_nano": round(epsilon * NANO), "neighbours": Neighbours.ADD_REMOVE, "intervals": intervals}
        keys = read_keys("g", self.table) if grouped else ()
        return plan_quantiles(self.table, "x", shares, None, keys, **given)  # type: ignore[arg-type]


def _frame(values: Floats) -> Any:
    import pyarrow as pa

    return pa.table({"x": values})


def ours(world: World, epsilon: float, draws: int) -> list[float]:
    """Medians of one read and many draws."""
    task = world.task([0.5], epsilon)
    aim = task.aim(task.splits[0])
    whole = WantedPart(group=0, low=0, high=(task.rows.steps + 1) * PLACES, aim=aim)
    ((below, upto),), runs = sort_windows(world.read(task.rows.windows([whole], 7)), 1)
    part = Part(low=0, high=whole.high, below=below, upto=upto, runs=runs.get(0, ()))
    return [task.grid.value(draw_cell(part, aim, task.grid.measure)) for _ in range(draws)]


def by_step(world: World, epsilon: float, draws: int) -> list[float]:
    """Medians chosen from OpenDP's candidates, of one read and many choices."""
    given = {"epsilon_nano": round(epsilon * NANO), "neighbours": Neighbours.ADD_REMOVE}
    task = plan_step_quantile(world.table, "x", [0.5], None, step=UPPER / CANDIDATES, **given)  # type: ignore[arg-type]
    rows = world.read(task.query(7))
    return [float(task.read(task.release(rows))[0][0].value or 0) for _ in range(draws)]


def default(world: World, epsilon: float, draws: int) -> list[float]:
    """Medians as dp_quantiles releases them without an interval, where it chooses among few whole numbers."""
    given = {"epsilon_nano": round(epsilon * NANO), "neighbours": Neighbours.ADD_REMOVE}
    plan = choose(world.table, "x", [0.5], None, (), intervals=False, method="auto", **given).plan  # type: ignore[arg-type]
    assert isinstance(plan, StepQuantileTask)
    rows = world.read(plan.query(7))
    return [float(plan.read(plan.release(rows))[0][0].value or 0) for _ in range(draws)]


def smooth(world: World, epsilon: float, draws: int) -> list[float]:
    """Medians as dp_median_smooth releases them."""
    given = {"epsilon_nano": round(epsilon * NANO), "delta_atto": 0, "neighbours": Neighbours.ADD_REMOVE}
    task = plan_quantile(world.table, "x", None, quantile=Fraction(1, 2), **given)  # type: ignore[arg-type]
    rows = world.read(task.query(7))
    return [float(json.loads(task.release(rows))["value"]) for _ in range(draws)]


def opendp(world: World, epsilon: float, draws: int) -> list[float]:
    """Medians by OpenDP: its scores of evenly spaced candidates, and its noisy maximum of them."""
    from opendp import prelude as dp

    dp.enable_features("contrib")
    candidates = list(np.linspace(0, world.upper, world.candidates + 1))
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    score = dp.t.make_quantile_score_candidates(domain, dp.symmetric_distance(), candidates, 0.5)
    change = score.map(1)

    def chooser(scale: float) -> Any:
        made = dp.m.make_noisy_max
        return made(score.output_domain, score.output_metric, dp.max_divergence(), scale, negate=True)

    scale = dp.binary_search(lambda s: chooser(s).map(change) <= epsilon, bounds=(1e-9, 1e12))
    scores, choose = score(world.values), chooser(scale)
    return [candidates[choose(scores)] for _ in range(draws)]


def tree(world: World, epsilon: float, draws: int) -> list[float]:
    """Medians of noisy counts in a tree."""
    leaves = BRANCHES**DEPTH
    counts = np.bincount(np.minimum(world.values / UPPER * leaves, leaves - 1).astype(int), minlength=leaves)
    rng, found = np.random.default_rng(), []
    for _ in range(draws):
        levels = [counts.reshape(BRANCHES**d, -1).sum(axis=1) for d in range(DEPTH + 1)]
        noisy = [level + rng.laplace(0, (DEPTH + 1) / epsilon, len(level)) for level in levels]
        below = np.cumsum(consistent(noisy))
        found.append((int(np.searchsorted(below, below[-1] / 2)) + 0.5) / leaves * UPPER)
    return found


def consistent(noisy: list[Floats]) -> Floats:
    """Leaves of least squares from counts of all levels (Hay, Rastogi, Miklau, Suciu, VLDB 2010)."""
    best = noisy[-1]
    sums = [best]
    for height, level in enumerate(reversed(noisy[:-1]), 2):
        k, j = float(BRANCHES**height), float(BRANCHES ** (height - 1))
        best = ((k - j) * level + (j - 1) * best.reshape(-1, BRANCHES).sum(axis=1)) / (k - 1)
        sums.insert(0, best)
    above = sums[0]
    for level in sums[1:]:
        spare = (above - level.reshape(-1, BRANCHES).sum(axis=1)) / BRANCHES
        above = level + np.repeat(spare, BRANCHES)
    return above


WAYS: dict[str, Callable[[World, float, int], list[float]]] = {
    "ours": ours,
    "step": by_step,
    "OpenDP": opendp,
    "tree": tree,
    "smooth": smooth,
}


def errors(sizes: Sequence[int], epsilons: Sequence[float], draws: int = DRAWS) -> Grid:
    """Mean errors of medians, in rows."""
    rows = []
    for name, make in DATA.items():
        for size in sizes:
            tables = TABLES if size <= MANY else 1
            sums = {epsilon: dict.fromkeys(WAYS, 0.0) for epsilon in epsilons}
            for seed in range(tables):
                world = World(make(size, seed))
                for epsilon in epsilons:
                    for way, released in WAYS.items():
                        found = [world.rows_off(v, 0.5) for v in released(world, epsilon, draws)]
                        sums[epsilon][way] += float(np.mean(found)) / tables
            for epsilon, mean in sums.items():
                best = min(mean["ours"], mean["tree"], mean["smooth"])  # a row more or less is chance
                holds = mean["ours"] <= MOST_WORSE * best + 1 and mean["step"] <= MOST_WORSE * mean["OpenDP"] + 1
                shown = [f"{error:,.1f}" for error in mean.values()]
                rows.append([name, f"{size:,}", f"{epsilon:g}", *shown, "" if holds else "MISSED"])
    return Grid(title="Median: mean error of the rank, rows", head=("data", "rows", "epsilon", *WAYS, ""), rows=rows)


def whole_errors(sizes: Sequence[int], epsilons: Sequence[float], draws: int = DRAWS) -> Grid:
    """Mean errors of medians of few whole numbers, in rows: as released, as drawn before, and OpenDP's among all."""
    rows, ways = [], {"ours": default, "drawn": ours, "OpenDP": opendp}
    for name, (make, largest) in WHOLE.items():
        for size in sizes:
            worlds = [World(make(size, seed), largest) for seed in range(TABLES if size <= MANY else 1)]
            for epsilon in epsilons:
                mean = {
                    way: float(np.mean([w.rows_off(v, 0.5) for w in worlds for v in released(w, epsilon, draws)]))
                    for way, released in ways.items()
                }
                holds = mean["ours"] <= MOST_WORSE * min(mean.values()) + 1
                shown = [f"{error:,.1f}" for error in mean.values()]
                rows.append([name, f"{size:,}", f"{epsilon:g}", *shown, "" if holds else "MISSED"])
    return Grid(
        title="Median of whole numbers: mean error of the rank, rows",
        head=("data", "rows", "epsilon", *ways, ""),
        rows=rows,
    )


def together(size: int, epsilons: Sequence[float], runs: int = 10) -> Grid:
    """Mean errors of several quantiles at once, one by one, and from one tree."""
    rows = []
    for name, make in DATA.items():
        world = World(make(size, 0))
        for epsilon in epsilons:
            found: list[list[float]] = [[], []]
            covered = []
            for _ in range(runs):
                for place, (shares, part) in enumerate(((SEVERAL, epsilon), (None, epsilon / len(SEVERAL)))):
                    asked = [shares] if shares else [(q,) for q in SEVERAL]
                    for own in asked:
                        task = world.task(own, part)
                        (values,) = task.read(task.work(7)(Stages(world.read)))
                        found[place] += [
                            world.rows_off(float(e.value or 0), q) for e, q in zip(values, own, strict=True)
                        ]
            task = world.task(SEVERAL, epsilon, intervals=True)
            (values,) = task.read(task.work(7)(Stages(world.read)))
            for e in values:
                assert e.low is not None and e.high is not None
                low, high = np.searchsorted(world.values, [e.low, e.high])
                covered.append((high - low) / 2)
            shown = [f"{float(np.mean(f)):,.1f}" for f in found]
            rows.append([name, f"{size:,}", f"{epsilon:g}", *shown, f"{float(np.median(covered)):,.0f}"])
    head = ("data", "rows", "epsilon", "at once", "one by one", "half an interval")
    return Grid(title=f"Quantiles {', '.join(map(str, SEVERAL))}: mean error of the rank, rows", head=head, rows=rows)


def times(size: int, repeat: int) -> Report:
    """Private medians against DuckDB's own."""
    world = World(incomes(size))
    world.con.execute(
        f"CREATE OR REPLACE TABLE t AS SELECT x, CAST(CAST(x AS BIGINT) % {GROUPS} AS DOUBLE) AS g FROM t"
    )
    task, several = world.task([0.5], 1), world.task(SEVERAL, 1)
    bars, groups = world.task([0.5], 1, intervals=True), world.task([0.5], 1, grouped=True)
    tree_task = plan_tree(task.rows, task.quantiles, epsilon_nano=NANO, neighbours=Neighbours.ADD_REMOVE)

    tree_groups = plan_tree(groups.rows, task.quantiles, epsilon_nano=NANO, neighbours=Neighbours.ADD_REMOVE)

    def run(planned: QuantilesTask | TreeQuantilesTask) -> Callable[[], object]:
        def released() -> str:
            with world.shared() as read:
                return planned.work(7)(Stages(read))

        return released

    def anew(planned: QuantilesTask) -> Callable[[], object]:
        return lambda: planned.work(7)(Stages(world.read))

    def plain(sql: str) -> Callable[[], object]:
        return lambda: world.con.cursor().execute(sql).fetchall()

    cases = [
        Case(name="median(x)", run=plain("SELECT median(x) FROM t")),
        Case(name="quantile_disc(x, [5 shares])", run=plain(f"SELECT quantile_disc(x, {list(SEVERAL)}) FROM t")),
        Case(name="private median", run=run(task), limits={"median(x)": MOST_TIMES}),
        Case(name="private median, interval", run=run(bars), limits={"median(x)": MOST_TIMES}),
        Case(name="private median, interval, each read anew", run=anew(bars), limits={"median(x)": None}),
        Case(name="median(x), in groups", run=plain("SELECT g, median(x) FROM t GROUP BY g")),
        Case(name="private median, in groups", run=run(groups), limits={"median(x), in groups": MOST_TIMES}),
        Case(name="private median, tree", run=run(tree_task), limits={"median(x)": MOST_TIMES}),
        Case(name="private median, tree, in groups", run=run(tree_groups), limits={"median(x), in groups": MOST_TIMES}),
        Case(name="5 private quantiles", run=run(several), limits={"quantile_disc(x, [5 shares])": None}),
    ]
    return Report(title=f"Time, {size:,} rows, read and draws", lines=compare(cases, repeat))


def main(argv: Sequence[str]) -> int:
    """Print the tables; 1 if a limit was missed."""
    parser = argparse.ArgumentParser(prog="duckdp bench quantiles", description="Measure quantiles on this machine.")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--repeat", type=int, default=5, help="runs of each timing, default 5")
    parser.add_argument("--draws", type=int, default=DRAWS, help=f"draws of each median, default {DRAWS}")
    parser.add_argument("--markdown", action="store_true", help="to paste into a document")
    asked = parser.parse_args(list(argv))
    sys.stdout.write(f"duckdp bench quantiles: {machine()}\n")
    most, runs = min(max(asked.rows), 100_000), max(1, asked.draws // 4)
    few = [size for size in asked.rows if size <= most]
    grids = [errors(asked.rows, EPSILONS, asked.draws), whole_errors(few, EPSILONS, asked.draws)]
    grids.append(together(most, EPSILONS, runs))
    for grid in grids:
        sys.stdout.write(f"\n{show_grid(grid, markdown=asked.markdown)}\n")
    report = times(max(asked.rows), asked.repeat)
    sys.stdout.write(f"\n{(as_markdown if asked.markdown else as_text)(report)}\n")
    return 0 if all(g.holds for g in grids) and all(line.holds for line in report.lines) else 1

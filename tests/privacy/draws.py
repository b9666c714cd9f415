"""Every kind of private release, tables that differ as much as tables can, and a source of randomness that is watched.

``TASKS`` lists plans of every class that releases something; ``test_draws`` fails when a class of the package is
missing here. :func:`observe` runs one on one table and says what a bystander may see beside the answer: whether it
succeeded, and which draws it asked for. Stages may follow from what earlier ones released: ``script`` puts the outputs
of another run in their place, as a retry does, after each has been drawn.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import duckdb
import pytest

from duckdp.compiler.above_threshold import AboveThreshold, SparseStream
from duckdp.compiler.bin_counts import BinCounts
from duckdp.compiler.block_values import BlockTask
from duckdp.compiler.block_vectors import BlockVectorTask
from duckdp.compiler.bounds import BoundsTask, plan_bounds
from duckdp.compiler.choice import PredicateChoice, ValueChoice
from duckdp.compiler.common_keys import HeavyHittersTask
from duckdp.compiler.edges import SpanningTreeTask
from duckdp.compiler.kmeans import KMeansTask
from duckdp.compiler.logistic_steps import LogisticSteps
from duckdp.compiler.net_task import NetTask
from duckdp.compiler.outer.apart import take_apart
from duckdp.compiler.outer.several import SeveralTask, plan_parts, task_of
from duckdp.compiler.pair_moments import PairMoments
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.per_unit import PerUnitTask, plan_per_unit
from duckdp.compiler.pricing import Terms
from duckdp.compiler.quantile import QuantileTask, plan_quantile
from duckdp.compiler.quantile_levels import QuantilesTask
from duckdp.compiler.quantile_steps import StepQuantileTask
from duckdp.compiler.quantile_tree import TreeQuantilesTask
from duckdp.compiler.release import SelectTask
from duckdp.compiler.smooth_quantiles import SmoothQuantilesTask
from duckdp.compiler.weighted_stream import WeightedStream
from duckdp.compiler.workload import WorkloadTask
from duckdp.core import noise
from duckdp.core.reads import PrivateQuery
from duckdp.core.task import Stages
from duckdp.core.types import ATTO, NANO, Neighbours
from duckdp.mechanisms.bounds import BoundsFinder
from duckdp.mechanisms.unit_histogram import UnitHistogram
from duckdp.smooth.buy.counted import CountedTask, plan_counted
from duckdp.smooth.buy.marginal_task import MarginalTask, plan_marginals
from duckdp.smooth.buy.mixed_task import MixedTask, plan_mixed
from duckdp.smooth.buy.per_group import GroupedTask, plan_grouped
from duckdp.smooth.buy.range_task import RangedTask, plan_ranged
from duckdp.smooth.buy.summary_task import SummaryTask, plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.synthetic.lp.buy.null_patterns import MissingPlan
from duckdp.synthetic.lp.buy.synthesis_task import SynthesisTask, plan_synthesis
from duckdp.synthetic.moments.buy import MomentsTask
from duckdp.synthetic.psi.buy import PsiTask
from duckdp.synthetic.theorem.buy import TheoremTask, plan_theorem
from duckdp.synthetic.tree.buy import TreeTask
from duckdp.synthetic.unit.buy.unit_task import UnitTask
from duckdp.vault.engine import read_batches
from tests.gate import clinic, load, plan_for
from tests.privacy.block_tasks import block_vectors, blocks
from tests.privacy.choices import chosen, hitters, small_database, top_k
from tests.privacy.clusters import kmeans
from tests.privacy.pair_moments import bin_counts, count_moments, logistic, pair_moments
from tests.privacy.quantiles import quantiles, step_quantile, tree_quantiles
from tests.privacy.smooth_tasks import smooth_quantiles, spanning_tree
from tests.privacy.thresholds import above, stream, weights, work_of
from tests.privacy.workloads import workload
from tests.synthetic.plans import plan_wide

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
DELTA, LARGE_DELTA = ATTO // 10**6, ATTO // 5  # at the larger one wide tables take Gaussian noise
KEYED, ROWS = clinic(), clinic(unit_key=None)
MANY_KEYS = clinic(max_groups=20)
LARGE = clinic(expected_rows=10**7)  # by what is declared
Draws = list[tuple[Any, ...]]
Read = Callable[[PrivateQuery], Iterable[tuple[Any, ...]]]
Change = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Case:
    """One plan.

    Attributes:
        name: for the report.
        make: the task.
        open_keys: every key that exists is noised, so draws follow their number, which is not released.
    """

    name: str
    make: Callable[[], Any] = field(repr=False)
    open_keys: bool = False


# ---- the plans


def _select(text: str, table: Any = KEYED, **options: Any) -> Callable[[], SelectTask]:
    return lambda: SelectTask(plan=plan_for(text, table, **options))


def parts(text: str, table: Any = KEYED, *, neighbours: Neighbours = ADD_REMOVE, **terms: Any) -> Callable[[], Any]:
    """The releases of a query over their answers, as one task."""

    def made() -> Any:
        apart = take_apart(parse_statement(text), {"clinic": table}, text)
        assert apart is not None
        prices = plan_parts(apart.parts, Terms(**{"epsilon": 1, "delta": "1e-8", **terms}), neighbours)
        return task_of([price.plan for price in prices])

    return made


def _quantile(table: Any, name: str, delta: int, neighbours: Neighbours = ADD_REMOVE) -> Callable[[], QuantileTask]:
    return lambda: plan_quantile(
        table, name, None, epsilon_nano=NANO, delta_atto=delta, quantile=Fraction(1, 2), neighbours=neighbours
    )


def _summary(
    columns: tuple[str, ...], table: Any = KEYED, *, delta: int = 0, neighbours: Neighbours = ADD_REMOVE, **wishes: Any
) -> Callable[[], SummaryTask]:
    return lambda: plan_summary(
        table,
        columns,
        epsilon_nano=NANO,
        neighbours=neighbours,
        delta_atto=delta,
        wishes=Wishes(**{"degree": 5, **wishes}),
    )


def _counted(epsilon_nano: int, *, delta: int = 0, **wishes: Any) -> Callable[[], Any]:
    return lambda: plan_counted(
        KEYED,
        ["age"],
        epsilon_nano=epsilon_nano,
        neighbours=ADD_REMOVE,
        delta_atto=delta,
        wishes=Wishes(smoothness=1, **wishes),
    )


def _grouped(neighbours: Neighbours, column: str = "age") -> Callable[[], GroupedTask]:
    return lambda: plan_grouped(
        ROWS, [column], "sex", epsilon_nano=NANO, neighbours=neighbours, delta_atto=0, wishes=Wishes(degree=4)
    )


def _ranged(
    columns: tuple[str, ...], table: Any = KEYED, *, delta: int = 0, neighbours: Neighbours = ADD_REMOVE, **wishes: Any
) -> Callable[[], RangedTask]:
    return lambda: plan_ranged(
        table,
        columns,
        epsilon_nano=NANO,
        neighbours=neighbours,
        delta_atto=delta,
        wishes=Wishes(**{"degree": 4, "noise": "sums", **wishes}),
    )


def _mixed(table: Any, by: str, degree: int, neighbours: Neighbours = ADD_REMOVE) -> Callable[[], MixedTask]:
    charge: dict[str, Any] = {"epsilon_nano": NANO, "neighbours": neighbours, "delta_atto": 0}
    return lambda: plan_mixed(table, ["age"], by, **charge, wishes=Wishes(degree=degree))


def _marginals(
    table: Any, columns: list[str], k: int, *, delta: int = 0, neighbours: Neighbours = ADD_REMOVE
) -> Callable[[], MarginalTask]:
    return lambda: plan_marginals(table, columns, k, epsilon_nano=NANO, neighbours=neighbours, delta_atto=delta)


def _wide(
    method: str,
    columns: list[str],
    table: Any = KEYED,
    *,
    delta: int = 0,
    neighbours: Neighbours = ADD_REMOVE,
    target: str | None = None,
    epsilon_nano: int = NANO // 1000,
) -> Callable[[], UnitTask]:
    return lambda: plan_wide(
        table,
        columns,
        epsilon_nano=epsilon_nano,
        delta_atto=delta,
        neighbours=neighbours,
        rows=50,
        method=method,
        target=target,
    )


def _theorem(table: Any, neighbours: Neighbours, delta: int = 0, column: str = "age") -> Callable[[], TheoremTask]:
    return lambda: plan_theorem(
        table, [column], epsilon_nano=NANO, delta_atto=delta, neighbours=neighbours, rows=None, smoothness=2
    )


def _bounds(table: Any, name: str, neighbours: Neighbours = ADD_REMOVE) -> Callable[[], BoundsTask]:
    return lambda: plan_bounds(table, name, None, epsilon_nano=NANO, neighbours=neighbours)


def _synthesis(columns: list[str]) -> Callable[[], SynthesisTask]:
    return lambda: plan_synthesis(
        KEYED, columns, epsilon_nano=NANO, delta_atto=0, neighbours=ADD_REMOVE, rows=50, smoothness=None, degree=3
    )


EVERY = "count(*), count(age), sum(age), avg(cost), variance(income), stddev_pop(age), sum(cost) FILTER (WHERE smoker)"
NUMBERS = ["age", "cost", "income"]
MANY = ("age", "cost", "income", "cost * age", "smoker", "least(age, 50)")
MIXED = ["age", "cost", "income", "sex", "smoker", "level", "town"]

SEVERAL = (
    "SELECT (SELECT count(*) FROM clinic), (SELECT avg(cost) FROM clinic WHERE age > 20), "
    "(SELECT sum(n) FROM (SELECT sex, town, count(*) AS n FROM clinic GROUP BY sex, town))"
)
OPEN = "SELECT name, count(*) AS n FROM clinic GROUP BY name"

TASKS: dict[type, tuple[Case, ...]] = {
    SelectTask: (
        Case("aggregates, laplace", _select(f"SELECT {EVERY}, count(DISTINCT pid) FROM clinic")),
        Case("aggregates, gaussian", _select(f"SELECT {EVERY} FROM clinic", mechanism="gaussian")),
        Case("public keys", _select(f"SELECT sex, town, {EVERY} FROM clinic WHERE age > 20 GROUP BY sex, town")),
        Case("of rows, replaced", _select(f"SELECT {EVERY} FROM clinic", ROWS, neighbours=REPLACE)),
        Case(
            "replaced, bounds without 0",
            _select("SELECT sum(greatest(least(age, 110), 50)) FROM clinic WHERE smoker", ROWS, neighbours=REPLACE),
        ),
        Case(
            "replaced, NULLs in a sum",
            _select("SELECT sum(age + 50) FROM clinic", ROWS, neighbours=REPLACE),
        ),
        Case(
            "replaced, negative",
            _select("SELECT sum(least(income, -5)) FILTER (WHERE smoker) FROM clinic", ROWS, neighbours=REPLACE),
        ),
        Case("open keys", _select("SELECT name, count(*), avg(age) FROM clinic GROUP BY name"), True),
        Case(
            "open keys, gaussian",
            _select("SELECT name, sum(age) FROM clinic GROUP BY name", mechanism="gaussian"),
            True,
        ),
    ),
    SeveralTask: (
        Case("parts, laplace", parts(SEVERAL, mechanism="laplace")),
        Case("parts, gaussian", parts(SEVERAL, mechanism="gaussian")),
        Case("parts, of rows, replaced", parts(SEVERAL, ROWS, neighbours=REPLACE)),
        Case("parts with open keys", parts(f"{SEVERAL}, (SELECT max(n) FROM ({OPEN}))"), True),
    ),
    QuantileTask: (
        Case("student", _quantile(KEYED, "cost", 0)),
        Case("laplace", _quantile(KEYED, "age", DELTA)),
        Case("of rows, replaced", _quantile(ROWS, "income", 0, REPLACE)),
    ),
    SpanningTreeTask: (
        Case("tree cost", lambda: spanning_tree(KEYED)),
        Case("tree cost, interval", lambda: spanning_tree(ROWS, neighbours=REPLACE, intervals=True)),
        Case("tree cost, public scale", lambda: spanning_tree(KEYED, method="laplace")),
        Case("tree cost, many vertices", lambda: spanning_tree(KEYED, name="income", ends=("age", "floor(age / 2)"))),
    ),
    SmoothQuantilesTask: (
        Case("smooth, in groups", lambda: smooth_quantiles(KEYED, "age", keys="sex, smoker")),
        Case("smooth, interval", lambda: smooth_quantiles(KEYED, intervals=True)),
        Case(
            "smooth of rows replaced, in groups, intervals",
            lambda: smooth_quantiles(ROWS, "income", keys="smoker", neighbours=REPLACE, intervals=True),
        ),
        Case("smooth, laplace", lambda: smooth_quantiles(KEYED, "age", keys="sex", delta_atto=DELTA, intervals=True)),
        Case("smooth, large epsilon", lambda: smooth_quantiles(ROWS, "age", keys="sex", epsilon_nano=20 * NANO)),
    ),
    QuantilesTask: (
        Case("several", lambda: quantiles(KEYED)),
        Case("several, intervals", lambda: quantiles(KEYED, intervals=True)),
        Case("several of rows replaced, intervals", lambda: quantiles(ROWS, "age", neighbours=REPLACE, intervals=True)),
        Case("several, in groups", lambda: quantiles(KEYED, "age", keys="sex, smoker, level")),
        Case("several of rows, replaced", lambda: quantiles(ROWS, "income", (0.5, 0.75), neighbours=REPLACE)),
    ),
    StepQuantileTask: (
        Case("candidates", lambda: step_quantile(KEYED, keys="sex, smoker")),
        Case("candidates, replaced", lambda: step_quantile(ROWS, neighbours=REPLACE)),
    ),
    TreeQuantilesTask: (
        Case("counted quantiles", lambda: tree_quantiles(KEYED)),
        Case("counted quantiles, replaced", lambda: tree_quantiles(ROWS, keys="sex, smoker", neighbours=REPLACE)),
        Case("counted quantiles, in groups", lambda: tree_quantiles(KEYED, keys="sex, smoker, level")),
    ),
    SummaryTask: (
        *(
            Case(f"{family}, {path}", _summary(("age", "cost"), noise=family, path=path, delta=DELTA))
            for family in ("laplace", "cube", "gaussian")
            for path in ("sums", "blocks")
        ),
        Case("cells", _summary(("age",), path="cells")),
        Case("cells, of rows", _summary(("age", "cost"), ROWS, path="cells")),
        Case("of rows, replaced", _summary(("income",), ROWS, neighbours=REPLACE)),
        Case("replaced, NULLs left out", _summary(("age",), ROWS, neighbours=REPLACE, noise="cube")),
        Case("kernels", _summary(("age", "cost"), noise="kernels")),
        Case("kernels, cells", _summary(("level", "sex"), noise="kernels", path="cells")),
        Case("kernels, of rows", _summary(("age", "cost"), ROWS, noise="kernels")),
        Case(
            "kernels, blocks, replaced", _summary(("cost",), ROWS, neighbours=REPLACE, noise="kernels", path="blocks")
        ),
        Case("kernels, a public count", _summary(("income",), ROWS, neighbours=REPLACE, noise="kernels")),
    ),
    CountedTask: (
        Case("small epsilon", _counted(1_000_000)),
        Case("gaussian", _counted(5_000_000, delta=DELTA, noise="gaussian")),
        Case("large epsilon", _counted(NANO)),
    ),
    GroupedTask: (
        Case("added, removed", _grouped(ADD_REMOVE)),
        Case("replaced", _grouped(REPLACE)),
        Case("replaced, each row counts", _grouped(REPLACE, "income")),
    ),
    RangedTask: (
        Case("ranges of units", _ranged(("age", "sex"))),
        Case("ranges, gaussian", _ranged(("cost",), delta=LARGE_DELTA, noise="gaussian")),
        Case("ranges of rows, replaced", _ranged(("income", "level"), ROWS, neighbours=REPLACE)),
    ),
    MixedTask: (
        Case("categories of units", _mixed(KEYED, "sex", 2)),
        Case("categories of rows", _mixed(ROWS, "town", 4)),
        Case("categories, replaced", _mixed(ROWS, "smoker", 3, REPLACE)),
    ),
    NetTask: (
        Case("small database of units", lambda: small_database(KEYED, "sex, smoker", ("sex = 'F'", "smoker"))),
        Case(
            "small database of rows, replaced",
            lambda: small_database(ROWS, "level", ("level = 1",), size=None, neighbours=REPLACE),
        ),
    ),
    MarginalTask: (
        Case("marginals of units", _marginals(KEYED, ["sex", "smoker", "town"], 2)),
        Case("marginals of tables", _marginals(KEYED, ["sex", "smoker", "town"], 3, delta=LARGE_DELTA)),
        Case("marginals, replaced", _marginals(ROWS, ["sex", "smoker"], 1, neighbours=REPLACE)),
    ),
    SynthesisTask: (
        Case("lp", _synthesis(["income"])),
        Case("lp, NULLs", _synthesis(["age", "cost"])),
    ),
    TheoremTask: (
        Case("declared n", _theorem(KEYED, ADD_REMOVE)),
        Case("declared n, gaussian", _theorem(KEYED, ADD_REMOVE, DELTA)),
        Case("public n", _theorem(ROWS, REPLACE, column="income")),
    ),
    MomentsTask: (
        Case("moments", _wide("moments", NUMBERS)),
        Case("moments, gaussian, target", _wide("moments", MIXED, delta=LARGE_DELTA, target="smoker")),
        Case("moments, target", _wide("moments", MIXED, target="smoker")),
        Case("moments and marginals", _wide("moments", NUMBERS, epsilon_nano=NANO)),
        Case("moments, replaced", _wide("moments", ["income", "age"], ROWS, neighbours=REPLACE)),
        Case(
            "moments, counted values",
            _wide("moments", ["age", "sex", "town", "level"], ROWS, delta=LARGE_DELTA, neighbours=REPLACE),
        ),
    ),
    TreeTask: (
        Case("tree", _wide("tree", MIXED)),
        Case("tree, gaussian, target", _wide("tree", MIXED[1:5], delta=LARGE_DELTA, target="sex", epsilon_nano=NANO)),
        Case("tree, large epsilon", _wide("tree", MIXED[1:5], epsilon_nano=10 * NANO)),
        Case("tree, products", _wide("tree", NUMBERS, epsilon_nano=100 * NANO)),
        Case("tree, values", _wide("tree", ["age", "smoker"], epsilon_nano=10 * NANO)),
        Case("tree, replaced", _wide("tree", MIXED[2:6], ROWS, neighbours=REPLACE)),
        Case("tree, NULLs counted", _wide("tree", MIXED[1:5], epsilon_nano=2 * NANO)),
        Case(
            "tree, NULLs counted, gaussian, replaced",
            _wide("tree", MIXED, ROWS, delta=LARGE_DELTA, neighbours=REPLACE, epsilon_nano=NANO // 2),
        ),
    ),
    PsiTask: (
        Case("psi", _wide("psi", NUMBERS)),
        Case("psi, gaussian", _wide("psi", MIXED, delta=LARGE_DELTA)),
        Case("psi, replaced", _wide("psi", NUMBERS, ROWS, neighbours=REPLACE)),
    ),
    BoundsTask: (
        Case("numbers", _bounds(KEYED, "cost")),
        Case("dates", _bounds(KEYED, "born")),
        Case("of rows, replaced", _bounds(ROWS, "income", REPLACE)),
    ),
    ValueChoice: (
        Case("top of units", lambda: top_k(KEYED, "sex, town", picks=3)),
        Case("top of units, at once", lambda: top_k(KEYED, "sex, town", picks=8)),
        Case(
            "top of rows, replaced, gaussian",
            lambda: top_k(ROWS, "level", picks=2, delta_atto=DELTA, neighbours=REPLACE),
        ),
    ),
    HeavyHittersTask: (
        Case("hitters of rows", lambda: hitters(ROWS, "name", picks=3), True),
        Case("hitters of units", lambda: hitters(KEYED, "name, sex", "age > 3", picks=2, delta_atto=DELTA), True),
        Case("hitters of units, gaussian", lambda: hitters(MANY_KEYS, "name, sex", picks=90, delta_atto=DELTA), True),
    ),
    PredicateChoice: (
        Case("chosen by units", lambda: chosen(KEYED, ("age > 40", "sex = 'F'", "cost < score"))),
        Case("chosen by rows", lambda: chosen(ROWS, ("age > 40", "town IS NULL"), neighbours=REPLACE)),
    ),
    AboveThreshold: (
        Case("above by units", lambda: above(KEYED, ("age > 40", "sex = 'F'", "cost < score"), hits=2)),
        Case(
            "above by rows, replaced",
            lambda: above(ROWS, ("age > 40", "town IS NULL"), "smoker", valued=True, neighbours=REPLACE),
        ),
    ),
    SparseStream: (
        Case("stream by units", lambda: stream(KEYED, "age > 20", hits=3, valued=True)),
        Case("stream by rows, replaced", lambda: stream(ROWS, neighbours=REPLACE)),
    ),
    BlockTask: (
        Case("mean of units", lambda: blocks(KEYED, "corr(age, cost)")),
        Case("mean of rows, replaced", lambda: blocks(ROWS, "kurtosis(income)", span=(-3, 9), neighbours=REPLACE)),
        Case("mean of values", lambda: blocks(ROWS, "entropy(town)", span=(0, 2))),
        Case("median of units", lambda: blocks(KEYED, "quantile_disc(score * 0 + cost, 0.9)", combination="median")),
        Case("center of rows, replaced", lambda: blocks(ROWS, "mode(age)", combination="center", neighbours=REPLACE)),
        Case(
            "mean of an expression",
            lambda: blocks(KEYED, "ln(avg(cost) - 5) / count_if(smoker)", span=(0, 3)),
        ),
        Case("mean of distinct values", lambda: blocks(KEYED, "avg(DISTINCT cost) - avg(cost)")),
        Case(
            "median of an expression, replaced",
            lambda: blocks(
                ROWS,
                "sqrt(corr(age, cost)) / (count(DISTINCT town) FILTER (WHERE smoker) - 1) + max(score * 0 + age)",
                span=(0, 200),
                combination="median",
                neighbours=REPLACE,
            ),
        ),
    ),
    BlockVectorTask: (
        Case("means of units", lambda: block_vectors(KEYED, ("corr(age, cost)", "avg(age)"))),
        Case(
            "medians of rows, replaced",
            lambda: block_vectors(ROWS, ("avg(age)", "mode(age)"), combination="median", neighbours=REPLACE),
        ),
        Case("centers of rows", lambda: block_vectors(ROWS, ("entropy(smoker)", "mad(cost)"), combination="center")),
        Case("means of expressions", lambda: block_vectors(KEYED, ("max(age) - min(age)", "avg(age) / 2", "avg(age)"))),
    ),
    PairMoments: (
        Case("a pair, in groups", lambda: pair_moments(KEYED, ("age", "cost"), keys="sex, level")),
        Case("counts of units", lambda: count_moments(KEYED, 8, keys="sex, level")),
        Case("a matrix", lambda: pair_moments(KEYED, MANY, pairs="all")),
        Case("a matrix, gaussian", lambda: pair_moments(KEYED, MANY, pairs="all", delta_atto=LARGE_DELTA)),
        Case("a regression of rows", lambda: pair_moments(ROWS, ("smoker", "income", "age"), pairs="target")),
        Case("a pair of rows, replaced", lambda: pair_moments(ROWS, ("income", "cost"), neighbours=REPLACE)),
        Case(
            "a matrix of rows, replaced, gaussian",
            lambda: pair_moments(ROWS, MANY, pairs="all", delta_atto=LARGE_DELTA, neighbours=REPLACE),
        ),
        Case("a matrix in groups, replaced", lambda: pair_moments(ROWS, MANY, "age >= 0", "sex", neighbours=REPLACE)),
    ),
    WorkloadTask: (
        Case("workload of units", lambda: workload(KEYED)),
        Case("workload of rows, replaced", lambda: workload(ROWS, rounds=1, neighbours=REPLACE)),
    ),
    KMeansTask: (
        Case("centres of units", lambda: kmeans(KEYED, k=2)),
        Case("centres of rows, replaced", lambda: kmeans(ROWS, ("age", "income"), k=2, neighbours=REPLACE)),
        Case("centres of cells within cells", lambda: kmeans(LARGE, ("age", "cost", "income"))),
        Case("centres that are moved", lambda: kmeans(KEYED, where="smoker", k=2, start="public", moves=2)),
        Case("centres of blocks", lambda: kmeans(KEYED, ("age",), k=2, start="blocks", blocks=9, moves=0)),
    ),
    LogisticSteps: (
        Case("logistic, of units", lambda: logistic(KEYED, "smoker", ("age", "cost"), "level = 1")),
        Case("logistic, of rows, replaced", lambda: logistic(ROWS, "age > 40", ("income", "cost"), neighbours=REPLACE)),
    ),
    BinCounts: (
        Case("bins of units", lambda: bin_counts(KEYED, "age", "smoker", "sex", bins=7)),
        Case("bins of units, levels", lambda: bin_counts(KEYED, "cost", bins=9, sizes=(1, 3), delta_atto=LARGE_DELTA)),
        Case("bins of rows, levels", lambda: bin_counts(ROWS, "age", bins=111, sizes=(1, 5, 25))),
        Case("bins of rows, replaced", lambda: bin_counts(ROWS, "born", keys="level", bins=4, neighbours=REPLACE)),
    ),
    WeightedStream: (
        Case("weights by units", lambda: weights(KEYED)),
        Case("weights by rows, replaced", lambda: weights(ROWS, neighbours=REPLACE, threshold=1)),
    ),
    PerUnitTask: (
        Case("rows", lambda: plan_per_unit(KEYED, None, None, epsilon_nano=NANO)),
        Case("groups", lambda: plan_per_unit(KEYED, "sex, town", None, epsilon_nano=NANO)),
    ),
}
# Of kinds that others of the list stand for: in the slow suite only.
SLOW = {
    "centres of cells within cells",
    "tree",
    "tree, large epsilon",
    "laplace, sums",
    "cube, blocks",
    "gaussian, sums",
    "psi, gaussian",
}
# Parts of tasks: run by those above.
PARTS: dict[type, type] = {MissingPlan: SynthesisTask, BoundsFinder: BoundsTask, UnitHistogram: PerUnitTask}

# ---- the tables: (pid, age, cost, score, sex, town, name, born, seen, smoker, visits, level, income)

_DAY, _TIME = dt.date(1991, 5, 5), dt.datetime(2020, 1, 1)
LOW = (-(2**31), -1e308, -1e308, "F", "", "", dt.date.min, dt.datetime.min, False, -(2**31), 1, -1e308)
HIGH = (2**31 - 1, math.inf, math.inf, "M", "\U0010ffff" * 300, "z", dt.date.max, _TIME, True, 2**31 - 1, 2, math.inf)
ODD = (7, math.nan, -math.inf, "Z", "Uri", "n", _DAY, _TIME, None, 0, 9, math.nan)
NONE = (None,) * 12


def _random_row(rng: random.Random) -> tuple[Any, ...]:
    return (
        rng.randint(0, 110),
        rng.uniform(0, 5000),
        rng.random(),
        rng.choice("FM"),
        rng.choice(["Bern", "Genf", "x"]),
        rng.choice("abcdefgh"),
        _DAY,
        _TIME,
        rng.random() < 0.5,
        1,
        rng.choice([1, 2, None]),
        rng.uniform(-10, 20),
    )


def tables() -> dict[str, list[tuple[Any, ...]]]:
    """Rows by name: none, one, usual ones, extremes, what no declaration allows, and more than ``row_cap``."""
    return {name: list(rows) for name, rows in _tables().items()}


@cache
def _tables() -> dict[str, list[tuple[Any, ...]]]:
    rng = random.Random(5)
    return {
        "empty": [],
        "one row": [(1, *_random_row(rng))],
        "usual": [(i // 2, *_random_row(rng)) for i in range(300)],
        "one unit": [(1, *HIGH)] * 400,
        "nothing but NULL": [(i, *NONE) for i in range(40)] + [(None, *NONE)] * 3,
        "extremes": [(i, *(HIGH, LOW, ODD, NONE)[i % 4]) for i in range(400)],
        "beyond row_cap": [(i, *(HIGH if i % 2 else _random_row(rng))) for i in range(2500)],
    }


def largest(kind: str, value: Any) -> Any:
    """A cell as large as its type in DuckDB can be."""
    return {"HUGEINT": 2**126, "BIGINT": 2**63 - 1, "DOUBLE": 1e300}.get(kind, value)


def least(kind: str, value: Any) -> Any:
    """A cell as small as its type in DuckDB can be."""
    return {"HUGEINT": -(2**126), "BIGINT": -(2**63), "DOUBLE": -1e300}.get(kind, value)


# ---- watching


@contextmanager
def watched(seed: int) -> Iterator[Draws]:
    """The source of randomness, repeatable for once, and every call to it in its order."""
    calls: Draws = []
    rng = random.Random(seed)

    class Source:
        @staticmethod
        def randbits(count: int) -> int:
            calls.append(("bits", count))
            return rng.getrandbits(count) if count else 0

        @staticmethod
        def randbelow(limit: int) -> int:
            calls.append(("below", limit))
            return rng.randrange(limit)

    def draw(count: int, scale: float, build: Any) -> list[int]:
        calls.append((build.__name__, count, scale))
        return [round(rng.gauss(0, scale)) for _ in range(count)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "secrets", Source)
        patch.setattr(noise, "_draw", draw)
        yield calls


@dataclass(frozen=True)
class Seen:
    """What a bystander sees: a failure, the draws, how many rows crossed; and what is released, in stages."""

    failure: str | None
    draws: tuple[Any, ...]
    outputs: tuple[str, ...] = field(repr=False, default=())
    crossed: int = 0
    payload: str = field(repr=False, default="")


def observe(
    task: Any, con: duckdb.DuckDBPyConnection, *, change: Change | None = None, script: tuple[str, ...] | None = None
) -> Seen:
    """Run one release against ``clinic`` of a connection.

    Args:
        task: what to run.
        con: private rows.
        change: (type, cell) -> another exact cell.
        script: what follows sees these outputs of stages instead of those that were drawn.
    """
    crossed = 0

    def read(query: PrivateQuery) -> Iterable[tuple[Any, ...]]:
        nonlocal crossed
        if query.arrays:
            return list(read_batches(con.cursor(), query))
        cursor = con.cursor().execute(query.sql, list(query.parameters))
        kinds = [str(c[1]) for c in cursor.description or ()]
        rows = cursor.fetchall()
        crossed += len(rows)
        if change is None:
            return rows
        return [tuple(change(k, v) for k, v in zip(kinds, row, strict=True)) for row in rows]

    outputs: list[str] = []

    def keep(number: int, payload: str) -> str:
        outputs.append(payload)
        return payload if script is None else script[number]

    with watched(seed=1) as calls:
        try:
            payload = work_of(task)(Stages(read, keep=keep))
        except Exception as problem:  # noqa: BLE001 - any failure would be seen
            return Seen(f"{type(problem).__name__}: {problem}", tuple(calls), tuple(outputs), crossed)
    return Seen(None, tuple(calls), tuple(outputs), crossed, payload)


def connect(rows: list[tuple[Any, ...]]) -> duckdb.DuckDBPyConnection:
    """A table ``clinic`` of these rows."""
    con = duckdb.connect()
    load(con, KEYED, rows)
    return con

"""Error bars of trees count NULLs that no row shows because their share may be noise."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from duckdp.synthetic.tree.bins import make_bins, spread_rows
from duckdp.synthetic.tree.buy.grow import grow_tree
from duckdp.synthetic.tree.contingency import Tables
from duckdp.synthetic.tree.make.bars import error_bars
from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.tree.plan import make_tree_plan
from duckdp.synthetic.tree.released import CLASSES, Grown
from duckdp.synthetic.tree.spending import TreePlan
from duckdp.synthetic.unit.layout import make_units
from duckdp.synthetic.unit.packed import pack, unpack
from tests.smooth.tables import column
from tests.synthetic.in_memory import memory_sums
from tests.synthetic.plans import encode, open_tree_purse, request
from tests.synthetic.wide.trees import memory_counts

ROWS, TREES = 4000, 25
UNITS = make_units(
    [
        column("wage", 0, 100),  # skewed: far from what NULL counts as
        column("age", 0, 10, "INTEGER"),  # a bin a year: no mean beyond its bins
        column("flag", None, None, "BOOLEAN"),
        column("town", None, None, "VARCHAR", domain=("a", "b", "c")),
        column("all", 0, 1, nullable=False),
    ]
)
SHARES = ((0.0,) * 4, (0.02,) * 4, (0.05,) * 4, (0.08,) * 4, (0.2,) * 4, (0.0, 0.09, 0.3, 0.03), (0.09, 0.0, 0.0, 0.3))


def _rows(shares: tuple[float, ...], rng: np.random.Generator) -> np.ndarray:
    unit = np.full((ROWS, UNITS.count), -1.0)
    level = rng.uniform(size=ROWS)
    for part, share in zip(UNITS.parts, (*shares, 0.0), strict=True):
        gone = rng.uniform(size=ROWS) < share
        if part.form == "choice":
            place = np.where(gone, part.values.index(None), np.where(level < 0.7, 0, np.where(level < 0.9, 1, 2)))
            unit[np.arange(ROWS), part.start + place] = 1.0
            continue
        own = np.clip(-0.95 + 0.3 * level**3 + rng.normal(0, 0.02, ROWS), -1, 1)
        if part.column.integral:
            own = np.rint(level**2 * 10) / 5 - 1
        own = np.where(level > 0.9, 1.0, -1.0) if part.form == "sign" else own
        unit[:, part.start] = np.where(gone, 0.0, own)
        if part.nullable:
            unit[:, part.start + 1] = np.where(gone, 1.0, -1.0)
    return unit


def _grown(unit: np.ndarray, epsilon: str, delta: str) -> tuple[Tree, np.ndarray]:
    asked = request(UNITS.count, expected_rows=ROWS, epsilon=epsilon, delta=delta)
    purse = open_tree_purse(asked, len(UNITS.parts))
    plan = make_tree_plan(asked, UNITS, purse)
    bins = make_bins(UNITS, plan.bins)
    codes = np.stack([encode(b, unit) for b in bins], axis=1)
    return grow_tree(bins, plan, purse, None, memory_counts(codes), memory_sums(unit)), codes


def _half_distance(one: np.ndarray, two: np.ndarray) -> float:
    return float(np.abs(one - two).sum()) / 2


def _ratios(tree: Tree, unit: np.ndarray, true: np.ndarray) -> dict[str, list[float]]:
    """Errors over their bars, of what rows show, NULL a value of its own."""
    bars = error_bars(tree, {pair: deviation for pair, (_, deviation) in tree.bought.items()}, tree.taken())
    assert bars is not None
    made = tree.make(ROWS)
    values = spread_rows(tree.binnings, made, tree.leans())
    found: dict[str, list[float]] = {"columns": [], "means": [], "pairs": []}
    for i, (b, (_, distance, mean)) in enumerate(zip(tree.binnings, bars["columns"], strict=True)):
        fold = b.bins // 10 if b.ordered and b.bins % 10 == 0 else 1
        one, two = (np.bincount(np.where(c[:, i] < b.bins, c[:, i] // fold, c[:, i])) for c in (true, made))
        size = max(len(one), len(two))
        shares = [np.pad(s, (0, size - len(s))) / ROWS for s in (one, two)]
        found["columns"].append(_half_distance(*shares) / distance)
        if mean is not None:
            own = [u[c[:, i] != b.null, b.part.start].mean() for u, c in ((unit, true), (values, made))]
            half = 0.5 if b.part.form == "sign" else (b.part.axis.upper - b.part.axis.lower) / 2
            found["means"].append(abs(own[0] - own[1]) * half / mean)
    merges = [m.copy() for m in tree.merges]
    for i in tree.complete:
        merges[i][tree.binnings[i].null] = merges[i].max() + 1  # a cell of its own in what is compared
    tables = Tables(merges=tuple(merges), sets=tuple(sorted(tree.bought)))
    counted = (tables.split(tables.count(c) / ROWS) for c in (true, made))
    for (_, _, _, bar), one, two in zip(bars["pairs"], *counted, strict=True):
        found["pairs"].append(_half_distance(np.asarray(one), np.asarray(two)) / bar)
    return found


@cache
def _all(shares: tuple[float, ...], epsilon: str, delta: str, trees: int, *, told: bool) -> dict[str, list[float]]:
    rng = np.random.default_rng(12)
    found: dict[str, list[float]] = {"columns": [], "means": [], "pairs": []}
    for _ in range(trees):
        unit = _rows(shares, rng)
        tree, true = _grown(unit, epsilon, delta)
        if not told:  # the twin: what is not shown is not counted
            tree.null_shares = {}
        for what, ratios in _ratios(tree, unit, true).items():
            found[what] += ratios
    return found


def _held(ratios: list[float]) -> float:
    return float(np.mean(np.array(ratios) <= 1))


@pytest.mark.slow
@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0"), ("0.5", "1e-6")])
def test_bars_count_nulls_that_no_row_shows(shares: tuple[float, ...], epsilon: str, delta: str) -> None:
    """Measured: from 98% to all hold."""
    for what, ratios in _all(shares, epsilon, delta, TREES, told=True).items():
        assert _held(ratios) > 0.8, what  # of a hundred and more, 95% each: less by chance below 1e-7


@pytest.mark.parametrize(
    ("shares", "epsilon", "delta"),
    [
        ((0.08,) * 4, "1", "0"),
        pytest.param((0.2,) * 4, "0.5", "1e-6", marks=pytest.mark.slow),
        (SHARES[-1], "1", "0"),
    ],
)
def test_a_few_do_and_did_not(shares: tuple[float, ...], epsilon: str, delta: str) -> None:
    found = _all(shares, epsilon, delta, 6, told=True)
    for what, ratios in found.items():
        assert len(ratios) >= 24
        assert _held(ratios) > 0.55, what  # of 24, 95% each: less by chance below 1e-7
    if min(shares):  # the twin, which is the code before: 22% and less of histograms and pairs
        before = _all(shares, epsilon, delta, 6, told=False)
        assert _held(before["columns"]) < 0.55
        assert _held(before["pairs"]) < 0.55


@pytest.mark.parametrize("hidden", [0.0, 2.0, 5.0, 15.0])
def test_means_beside_nulls_that_no_row_shows(hidden: float) -> None:
    """So many deviations of noise of a share: the released mean counts them as the middle of the bounds."""
    noise, (binning, *_) = 1e-3, make_bins(UNITS, 20)
    tree = Tree(binnings=[binning], plan=TreePlan(bins=20, ones=Fraction(1)), target=None, rows=1e6)
    shares = np.zeros(binning.size)
    shares[1:4] = 1 / 3
    tree.deviation, tree.shares, tree.merges, tree.complete = noise * 1e6, [shares], [np.arange(binning.size)], (0,)
    offset, width = -0.75, 1.75
    tree.scales, tree.mean_deviation = {0: (offset, width)}, 1e-6
    true, share = 0.01, hidden * noise
    tree.means = {0: (1 - share) * true - share * offset / width}
    held, before = [], []
    for z in np.random.default_rng(5).laplace(0, noise / 2**0.5, 4000):
        tree.null_shares = {0: share + z}
        bars = error_bars(tree, {}, {})
        assert bars is not None
        held.append(abs(tree.mean(0) - true) * width * 50 <= bars["columns"][0][2])
    tree.null_shares = {}
    bars = error_bars(tree, {}, {})
    assert bars is not None
    before = abs(tree.mean(0) - true) * width * 50 <= bars["columns"][0][2]
    assert np.mean(held) > 0.93
    assert before == (hidden <= 2)  # the twin


def test_releases_that_do_not_tell_are_read() -> None:
    """What was stored before has no shares of hidden NULLs."""
    raw = pack(Grown(means={}, mean_deviation=0.0, shares=[], merges=[], pairs={}, stages=[], complete=(0,)))
    del raw["fields"]["null_shares"]
    assert unpack(raw, CLASSES).null_shares == {}

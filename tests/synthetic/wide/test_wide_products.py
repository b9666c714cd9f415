"""What trees buy beside histograms: means and products of scaled columns, and rows that are moved to have them."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pytest

from duckdp.bench.measure import read_rows
from duckdp.core.task import Stages
from duckdp.core.types import NANO, Neighbours
from duckdp.errors import InternalError
from duckdp.synthetic.stored import read_synthesis
from duckdp.synthetic.tree.bins import make_bins
from duckdp.synthetic.tree.buy.grow import grow_tree
from duckdp.synthetic.tree.make.estimates import estimate_shares, to_simplex
from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.tree.make.matching import move_to_products
from duckdp.synthetic.tree.plan import make_tree_plan
from duckdp.synthetic.tree.plan_before import plan_before
from duckdp.synthetic.tree.scales import bin_values, find_scale, normed_products, product_features, unit_values
from duckdp.synthetic.unit.buy.purse import Purse
from duckdp.synthetic.unit.layout import make_units
from tests.smooth.tables import column, table
from tests.synthetic.in_memory import memory_sums
from tests.synthetic.plans import encode, open_tree_purse, plan_wide, request
from tests.synthetic.wide.trees import memory_counts, three_columns

COLUMNS = (
    column("x", 0, 10),
    column("y", 0, 100, "INTEGER", nullable=False),
    column("flag", None, None, "BOOLEAN", nullable=False),
    column("side", None, None, "VARCHAR", domain=("l", "r"), other="l", nullable=False),
)


def linked(rows: int, rng: np.random.Generator, link: float) -> tuple[Any, np.ndarray]:
    """Unit rows of ``COLUMNS`` whose latent values have correlation ``link``; one row in ten has no x."""
    units = make_units(COLUMNS)
    latent = rng.multivariate_normal(np.zeros(4), link + (1 - link) * np.eye(4), rows)
    unit = np.full((rows, units.count), -1.0)
    missing = rng.uniform(size=rows) < 0.1
    unit[:, 0] = np.where(missing, 0.0, np.clip(latent[:, 0] / 3, -1, 1))
    unit[:, 1] = np.where(missing, 1.0, -1.0)
    unit[:, 2] = np.rint(np.clip(latent[:, 1] / 3, -1, 1) * 50) / 50
    unit[:, 3] = np.where(latent[:, 2] > 0.3, 1.0, -1.0)
    unit[np.arange(rows), 4 + (latent[:, 3] > 0)] = 1.0
    return units, unit


def with_products(units: Any, true: np.ndarray, deviation: float) -> Tree:
    """A tree that knows the products of these rows, as if released with so much noise."""
    bins = make_bins(units, 20)
    codes = [encode(b, true) for b in bins]
    shares = [np.bincount(c, minlength=b.size) / len(c) for c, b in zip(codes, bins, strict=True)]
    plan = make_tree_plan(
        request(units.count, expected_rows=4000, epsilon="10"),
        units,
        open_tree_purse(request(units.count, expected_rows=4000, epsilon="10"), 4),
    )
    tree = Tree(binnings=bins, plan=plan, target=None, rows=float(len(true)), shares=shares)
    tree.product_scales = {i: find_scale(b, s, 1e-4, 3.0) for i, (b, s) in enumerate(zip(bins, shares, strict=True))}
    tree.products = product_features(bins, tree.product_scales).means(true)
    tree.product_deviation = deviation
    return tree


def test_rows_get_the_products_and_columns_keep_their_values() -> None:
    rng = np.random.default_rng(5)
    units, true = linked(4000, rng, 0.6)
    _, apart = linked(4000, rng, 0.0)
    tree = with_products(units, true, 1e-4)
    features = product_features(tree.binnings, tree.product_scales)
    found = move_to_products(apart, tree)
    assert np.abs(features.means(found) - tree.products).max() < 0.01
    assert np.abs(features.means(apart) - tree.products).max() > 0.05  # the twin: as they were
    for part in units.parts:
        own = slice(part.start, part.start + part.width)
        assert sorted(map(tuple, found[:, own])) == sorted(map(tuple, apart[:, own]))
    np.testing.assert_array_equal(found[:, 1], apart[:, 1])  # who has no value stays so
    assert np.all(found[found[:, 1] > 0, 0] == 0)


def test_products_that_are_noise_move_nothing_far() -> None:
    """What noise alone explains is no news."""
    rng = np.random.default_rng(6)
    units, true = linked(4000, rng, 0.5)
    tree = with_products(units, true, 0.1)
    assert tree.products is not None
    tree.products = tree.products + rng.normal(0, 0.1, len(tree.products))
    features = product_features(tree.binnings, tree.product_scales)
    found = move_to_products(true, tree)
    assert np.abs(features.means(found) - features.means(true)).mean() < 0.05
    tree.product_deviation = 1e-4  # the twin: taken at its word
    assert np.abs(features.means(move_to_products(true, tree)) - features.means(true)).mean() > 0.05


@pytest.mark.parametrize("squared", [True, False])
def test_columns_that_are_constant_have_no_products_to_move(squared: bool) -> None:
    """All rows at the ends of what a product reads: nothing is told of them, and nothing is divided by it."""
    rng = np.random.default_rng(7)
    units, true = linked(200, rng, 0.5)
    tree = with_products(units, true, 0.1)
    tree.product_scales = {0: (0.25, 0.5), 1: (1.0, 0.5)}
    tree.products, tree.product_bound, tree.product_squared = np.array([0.2]), 1.0, squared
    constant = true.copy()
    constant[:, :3] = (0.25, -1.0, 1.0)
    np.testing.assert_array_equal(move_to_products(constant, tree), constant)
    assert np.any(move_to_products(true, tree) != true)  # the twin: rows that differ are moved


def test_values_of_bins_are_those_that_rows_get() -> None:
    for c in (column("x", 0, 10), column("n", 0, 3, "INTEGER", nullable=False), column("m", 0, 100, "INTEGER")):
        (binning,) = make_bins(make_units([c, COLUMNS[2]]), 20)[:1]
        codes = np.repeat(np.arange(binning.size), 400)
        for lean in (None, np.full(binning.size, 4.0), np.linspace(-9, 9, binning.size)):
            made = binning.spread(codes, lean)[:, 0]
            means = [np.clip((made[codes == k] - 0.1) / 0.6, -1, 1).mean() for k in range(binning.size)]
            np.testing.assert_allclose(bin_values(binning, (0.1, 0.6), lean), means, atol=0.01)
    assert unit_values(make_bins(make_units(COLUMNS), 20)[3]).tolist() == [-1.0, 1.0]


def test_a_scale_reaches_most_rows_and_as_far_as_noise_allows() -> None:
    (binning,) = make_bins(make_units([column("x", 0, 10, nullable=False), COLUMNS[2]]), 40)[:1]
    shares = np.exp(-np.arange(40.0))
    shares /= shares.sum()
    offset, width = find_scale(binning, shares, 1e-6, 0.0)
    assert offset == pytest.approx(shares @ binning.middles)
    assert width == pytest.approx(-1 + 2 * 5 / 40 - offset)  # exp(-5) of the rows lie beyond
    wide = find_scale(binning, shares, 1e-6, 10.0)[1]
    assert wide == pytest.approx(10 * (shares @ (binning.middles - offset) ** 2) ** 0.5)
    assert find_scale(binning, shares, 1e-6, 0.0, 10.0) == (offset, wide)
    assert find_scale(binning, shares, 1e-6, 1e9)[1] == pytest.approx(1 + abs(offset))


def test_a_released_mean_helps_the_shares() -> None:
    rng = np.random.default_rng(8)
    rows, values = 10_000, np.linspace(-1, 1, 20)
    truth = np.exp(-((np.arange(20) - 6) ** 2) / 20)
    truth /= truth.sum()
    gaps: dict[str, list[float]] = {"with": [], "without": [], "mean": [], "before": []}
    for _ in range(200):
        noisy = rows * truth + rng.normal(0, 30, 20)
        mean = (values, float(truth @ values) + rng.normal(0, 1e-3), 1e-3)
        found = estimate_shares(noisy, 30.0, rows, ordered=True, mean=mean)
        plain = to_simplex(noisy, rows) / rows
        gaps["with"].append(np.abs(found - truth).sum())
        gaps["without"].append(np.abs(plain - truth).sum())
        gaps["mean"].append(abs((found - truth) @ values))
        gaps["before"].append(abs((plain - truth) @ values))
    assert np.mean(gaps["mean"]) < 0.4 * np.mean(gaps["before"])
    assert np.mean(gaps["with"]) < np.mean(gaps["without"])


@pytest.mark.parametrize("epsilon", ["0.5", "1"])
def test_a_link_between_two_columns_is_bought_first(epsilon: str) -> None:
    """A tree of two columns chose none in two draws of three; there is but one pair, and nothing to choose."""
    numbers = (column("x", 0, 10, nullable=False), column("y", 0, 10, nullable=False))
    found = []
    for _ in range(5):
        task = plan_wide(
            table(*numbers, expected_rows=1000),
            None,
            epsilon_nano=round(float(epsilon) * NANO),
            delta_atto=0,
            neighbours=Neighbours.ADD_REMOVE,
            rows=1000,
            method="tree",
            target=None,
        )
        assert not {"choice", "extra", "extra_choice"} & set(task.shares)
        with duckdb.connect() as con:
            con.execute(
                "CREATE TABLE t AS SELECT x, least(10, greatest(0, x + 1e0 * ((i * 7919) % 100 - 50) / 40)) AS y FROM "
                "(SELECT i, 10e0 * ((i * 613) % 1000) / 1000 AS x FROM range(1000) r(i))"
            )
            made = read_synthesis(task.work(1)(Stages(lambda q, con=con: read_rows(con, q)))).columns
        found.append(float(np.corrcoef(made["x"], made["y"])[0, 1]))
    assert min(found) > 0.4


class Replay:
    """Keeps what stages draw, or gives what was kept; after so many new stages the program ends."""

    def __init__(self, stored: list[str], most: int = 100) -> None:
        self.stored, self.most, self.at = stored, most, 0

    def __call__(self, draw: Any) -> Any:
        from duckdp.synthetic.unit.packed import pack, unpack
        from duckdp.synthetic.unit.stages import Noisy

        if self.at == len(self.stored):
            if len(self.stored) == self.most:
                raise KeyboardInterrupt
            self.stored.append(json.dumps(pack(draw())))
        self.at += 1
        return unpack(json.loads(self.stored[self.at - 1]), (Noisy,))


def test_what_an_earlier_version_began_goes_on_by_its_plan() -> None:
    """Its first stage tells, as it took another share; the whole still costs no more than its charge."""
    units, unit = three_columns(4000)
    asked = request(units.count, expected_rows=4000, epsilon="4")
    terms = open_tree_purse(asked, 3)
    now, before = make_tree_plan(asked, units, terms), plan_before(asked, units, terms)
    assert now.bins == before.bins
    assert now.ones != before.ones
    bins = make_bins(units, now.bins)
    counts = memory_counts(np.stack([encode(b, unit) for b in bins], axis=1))
    stored: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        grow_tree(bins, before, Purse.on(terms, Replay(stored, 1)), None, counts, memory_sums(unit))
    purse = Purse.on(terms, Replay(list(stored)))
    tree = grow_tree(bins, now, purse, None, counts, memory_sums(unit), others=[before])
    assert tree.plan is before
    assert Fraction(0) < purse.spent <= 1
    purse = Purse.on(terms, Replay(list(stored)))
    try:  # the twin: by the plan of now, it costs another sum
        grow_tree(bins, now, purse, None, counts, memory_sums(unit))
        assert purse.spent != now.total
    except InternalError:
        pass


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_products_are_paid_with_all_others(delta: str) -> None:
    """With every stage bought, the shares are the whole."""
    rng = np.random.default_rng(9)
    units, unit = linked(4000, rng, 0.7)
    asked = request(units.count, expected_rows=4000, epsilon="20", delta=delta)
    purse = open_tree_purse(asked, 4)
    plan = make_tree_plan(asked, units, purse)
    assert plan.products > 0
    assert plan.total == 1
    bins = make_bins(units, plan.bins)
    codes = np.stack([encode(b, unit) for b in bins], axis=1)
    tree = grow_tree(bins, plan, purse, None, memory_counts(codes), memory_sums(unit))
    assert {name: share for name, _, share in tree.stages}["products"] == plan.products
    assert purse.spent <= 1
    assert tree.products is not None
    features = normed_products(bins, tree.product_scales, tree.product_bound, squared=purse.gaussian, apart=True)
    truth = features.means(unit)
    assert np.abs(tree.products - truth).max() < 30 * tree.product_deviation  # less than 1e-9 of the noise beyond
    assert np.abs(tree.products - truth).max() > 0


def test_for_broad_queries_the_plan_is_that_of_before() -> None:
    """It was tuned for them; the question is the same, and a purchase goes on by the plan that it was begun by."""
    one, other = (
        plan_wide(
            table(*COLUMNS, expected_rows=4000),
            None,
            epsilon_nano=4 * NANO,
            delta_atto=0,
            neighbours=Neighbours.ADD_REMOVE,
            rows=100,
            method="tree",
            target=None,
            purpose=purpose,
        )
        for purpose in ("tables", "kernels")
    )
    assert other.shares == plan_before(other.request, other.units, other.terms).shares != one.shares
    assert one.canonical == other.canonical
    assert one.loss == other.loss

"""A purchase that one plan began and another goes on with: whatever is stored is read as what it was bought as."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from duckdp.core import noise
from duckdp.synthetic.tree import buy
from duckdp.synthetic.tree.bins import make_bins, spread_rows
from duckdp.synthetic.tree.buy.grow import grow_tree
from duckdp.synthetic.tree.buy.resumed import Unfit
from duckdp.synthetic.tree.make import estimates, shrinking
from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.tree.plan import make_tree_plan
from duckdp.synthetic.tree.plan_before import plan_before
from duckdp.synthetic.tree.spending import TreePlan
from duckdp.synthetic.unit import uniforms
from duckdp.synthetic.unit.buy.purse import Purse
from duckdp.synthetic.unit.layout import UnitColumns, make_units
from duckdp.synthetic.unit.packed import pack, unpack
from duckdp.synthetic.unit.prior_points import prior_points
from duckdp.synthetic.unit.stages import Noisy
from tests.smooth.tables import column
from tests.synthetic.in_memory import memory_sums
from tests.synthetic.plans import encode, open_tree_purse, request
from tests.synthetic.wide.trees import memory_counts, memory_nulls

_PAY = column("pay", 0, 100_000, nullable=False)
_FOUR = [column(f"c{i}", None, None, "VARCHAR", domain=tuple("abcd"), nullable=False) for i in range(4)]
_MANY = column("many", None, None, "VARCHAR", domain=tuple("abcdefghijklmnopqrst"), nullable=False)
_FLAG = column("flag", None, None, "BOOLEAN", nullable=False)
_MAYBE = [column(f"m{i}", 0, 100) for i in range(5)]
_WHOLE = column("n", 0, 9, "BIGINT", nullable=False)
_UNPILED = partial(make_tree_plan, piles=False)  # piles are merged with the bins beside them
_MERGED = partial(_UNPILED, domains=False)  # values of domains that are not frequent have one merged bin
_BOXES = partial(_MERGED, bounded=False)  # means of a box
_CUT = partial(_BOXES, shrunk=False)  # noisy counts are cut at 0
_BOXED = partial(_CUT, normed=False)  # products without a bound on a row's norm
# columns, expected rows, epsilon; whether the plans buy the same first stage, and whether the same all along; the plans
_CASES = {
    "all alike": ([_PAY, *_FOUR], 10_000, "10", True, True, (_CUT, plan_before)),
    "first alike": ([_WHOLE, _FLAG], 100_000, "0.1", True, False, (_BOXED, plan_before)),
    "none alike": ([_PAY, _WHOLE, _FLAG], 3000, "3", False, False, (_BOXED, plan_before)),
    "norms": ([_PAY, _WHOLE, _FLAG], 3000, "3", False, False, (_CUT, _BOXED)),
    "norms alone": ([_PAY, _WHOLE, _FLAG], 3000, "0.3", True, True, (_CUT, _BOXED)),
    "shrunk norms": ([_PAY, _WHOLE, _FLAG], 3000, "3", True, True, (_BOXES, _CUT)),
    "norms, NULLs counted": (_MAYBE, 1000, "3", False, False, (_MERGED, partial(_MERGED, counted=False))),
    "domains, norms": ([_PAY, _MANY, *_FOUR], 3000, "3", True, True, (_UNPILED, _MERGED)),
    "piles, norms": ([_PAY, _MANY, *_FOUR], 3000, "3", True, True, (make_tree_plan, _UNPILED)),
    "bounded norms": ([_PAY, _WHOLE, _FLAG], 3000, "3", True, True, (_MERGED, _BOXES)),
}


class Ended(BaseException):
    """The program ends."""


class Store:
    """Keeps what stages draw as texts, or gives what was kept; after so many the program ends."""

    def __init__(self, texts: list[str], most: int = 1000) -> None:
        self.texts, self.most, self.at, self.drawn = texts, most, 0, 0

    def __call__(self, draw: Callable[[], Any]) -> Any:
        if self.at == len(self.texts):
            if self.at == self.most:
                raise Ended
            self.drawn += 1
            self.texts.append(json.dumps(pack(draw())))
        self.at += 1
        return unpack(json.loads(self.texts[self.at - 1]), (Noisy,))


def _untold(text: str) -> str:
    """The stage as earlier versions stored it: no plan's name, no scales beside means."""
    (first, rows, spent) = json.loads(text)["tuple"]
    if isinstance(first, dict) and "tuple" in first:
        inner = first["tuple"]
        if isinstance(inner[0], dict) and "class" in inner[0]:
            first = inner[0]
        elif len(inner) == 3:
            first = {"tuple": inner[:2]}
    return json.dumps({"tuple": [first, rows, spent]})


class World:
    """Rows in memory of one case, and its two plans."""

    def __init__(self, case: str) -> None:
        columns, expected, epsilon, self.first, self.all, makers = _CASES[case]
        self.units: UnitColumns = make_units(columns)
        asked = request(self.units.count, expected_rows=expected, epsilon=epsilon)
        self.terms = open_tree_purse(asked, len(columns))
        self.plans = [make(asked, self.units, self.terms) for make in makers]
        rng, n = np.random.default_rng(4), 1500 if expected < 10**4 else 20_000
        self.unit = np.full((n, self.units.count), -1.0)
        for part in self.units.parts:
            if part.form == "number":
                low = np.clip(rng.normal(-0.8, 0.02, n), -1, 1)
                self.unit[:, part.start] = np.rint((low + 1) * 4.5) / 4.5 - 1 if part.column.integral else low
            elif part.form == "sign":
                self.unit[:, part.start] = np.where(rng.uniform(size=n) < 0.3, 1, -1)
            else:
                self.unit[np.arange(n), part.start + rng.integers(0, 4, n)] = 1
        self.bins = make_bins(self.units, self.plans[0].bins)
        codes = np.stack([encode(b, self.unit) for b in self.bins], axis=1)
        self.counts, self.nulls = memory_counts(codes), memory_nulls(codes == [b.null for b in self.bins])

    def grow(self, store: Store, plan: TreePlan, other: TreePlan | None = None) -> tuple[Tree, Purse]:
        purse = Purse.on(self.terms, store)
        others = [] if other is None else [other]
        sums = memory_sums(self.unit)
        tree = grow_tree(self.bins, plan, purse, None, self.counts, sums, None, self.nulls, others=others)
        return tree, purse

    def mean_gap(self, tree: Tree) -> float:
        """Distance of the means of rows that are made from the true ones, the largest of the numbers."""
        made = spread_rows(self.bins, tree.make(4000), tree.leans())
        starts = [p.start for p in self.units.parts if p.form == "number"]
        return float(np.abs(made[:, starts].mean(axis=0) - self.unit[:, starts].mean(axis=0)).max())


@pytest.mark.parametrize(
    ("case", "told", "first"),
    [
        pytest.param(*x, marks=[] if x[1] and x[2] == len(x[0]) % 2 else [pytest.mark.slow])
        for x in product(_CASES, (True, False), (0, 1))
        if x[1] or "norms" not in x[0]  # such have always been told
    ],
)
def test_a_purchase_goes_on_by_the_plan_that_began_it(case: str, told: bool, first: int) -> None:
    """After every stage, by either plan, stored by this version or by those that named no plan."""
    world = World(case)
    own, other = world.plans[first], world.plans[1 - first]
    assert (own.ones == other.ones, own.shares == other.shares) == (world.first, world.all)
    whole: list[str] = []
    straight, _ = world.grow(Store(whole), own, other)
    for stages in range(1, len(whole) + 1):
        kept = [text if told else _untold(text) for text in whole[:stages]]
        store = Store(list(kept))
        tree, purse = world.grow(store, other, own)
        assert store.texts[:stages] == kept
        assert Fraction(0) < purse.spent <= 1
        assert world.mean_gap(tree) < 0.12  # means of scaled values are about 0: .8 from the true ones
        if told or stages > 1 or not world.first:  # else no stage tells, and either plan may go on
            assert tree.plan == own
            means = len(whole) - (own.products > 0) if own.bounded else 1  # those with a bound are bought after pairs
            assert tree.scales == straight.scales or stages < means
            assert tree.mean_deviation == straight.mean_deviation or stages < max(2, means)


def test_the_scales_of_means_are_those_they_were_bought_by(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("all alike")
    whole: list[str] = []
    straight, _ = world.grow(Store(whole), *world.plans)
    monkeypatch.setattr("duckdp.synthetic.tree.buy.products.find_scale", lambda *_: (0.5, 0.25))  # another version's
    tree, _ = world.grow(Store(list(whole)), *world.plans)
    assert tree.scales == straight.scales
    tree, _ = world.grow(Store([_untold(t) for t in whole]), world.plans[0])  # the twin: recomputed
    assert tree.scales != straight.scales


def test_stages_of_neither_plan_are_refused() -> None:
    world, other = World("none alike"), World("first alike")
    whole: list[str] = []
    world.grow(Store(whole), *world.plans)
    for texts in ([whole[0].replace('"scaled"', '"later"')], [*whole[:1], whole[0]], [*whole[:2], *whole[1:2]]):
        store = Store(texts)
        with pytest.raises(Unfit):
            world.grow(store, *world.plans)
        assert store.drawn == 0
    assert other.plans[0].ones == other.plans[1].ones


def test_two_plans_that_differ_have_two_names() -> None:
    """Over a grid of requests: a stored name tells the plan wherever there is one to tell."""
    alike = 0
    for numbers, whole, choices, flags in product((0, 1, 3), (0, 1), (0, 1, 4), (0, 1)):
        columns = [column(f"x{i}", 0, 100, nullable=False) for i in range(numbers)]
        columns += [_WHOLE] * whole + _FOUR[:choices] + [_FLAG] * flags
        if len(columns) < 2:
            continue
        units = make_units(columns)
        for rows, epsilon, delta in product((1000, 30_000, 10**6), ("0.1", "1", "10"), ("0", "1e-6")):
            asked = request(units.count, expected_rows=rows, epsilon=epsilon, delta=delta)
            terms = open_tree_purse(asked, len(columns))
            now, before = make_tree_plan(asked, units, terms), plan_before(asked, units, terms)
            assert now.bins == before.bins  # the first stage counts the same
            assert now == before or now.name != before.name
            alike += now != before and now.ones == before.ones
    assert alike > 3  # what the share of the first stage does not tell


def _another_process() -> None:
    """Forget what this one made for all trees."""
    for made in (estimates.smooth_laws, estimates.rough_laws, shrinking._laws):
        made.cache_clear()


def test_what_is_stored_is_read_alike_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """From stored stages the same tree follows, with nothing drawn: else two-way tables are read as of other bins."""

    def drawn(*_: object) -> int:
        raise AssertionError("a random number between two stages")

    world = World("shrunk norms")
    for part in world.units.parts:  # not all in one bin
        if part.form == "number":
            world.unit[:, part.start] = np.clip(np.random.default_rng(5).normal(-0.6, 0.3, len(world.unit)), -1, 1)
    world.counts = memory_counts(np.stack([encode(b, world.unit) for b in world.bins], axis=1))
    whole: list[str] = []
    straight, _ = world.grow(Store(whole), world.plans[0])
    assert straight.pairs
    assert not straight.plan.extra_rounds  # whose trial rows are random, and what is chosen by them is stored
    _another_process()
    with monkeypatch.context() as patches:
        patches.setattr(uniforms, "random_bits", drawn)
        patches.setattr(noise, "random_bits", drawn)
        again, _ = world.grow(Store(list(whole)), world.plans[0])
    for one, other in zip(straight.merges, again.merges, strict=True):
        assert np.array_equal(one, other)
    assert all(np.array_equal(joint, again.pairs[pair]) for pair, joint in straight.pairs.items())


def test_points_of_a_prior_are_spread_like_random_numbers() -> None:
    points, others = prior_points("some", 8192, 12), prior_points("others", 8192, 12)
    assert np.array_equal(points, prior_points("some", 8192, 12))
    assert 0 <= points.min() < 1e-3 and 1 - 1e-3 < points.max() < 1
    counted = np.stack([np.histogram(column, 16, (0, 1))[0] for column in points.T])
    assert 5 < ((counted - 512) ** 2 / 512).sum(axis=1).mean() < 27  # 15 by chance
    both = np.corrcoef(np.concatenate([points.T, others.T, points.T[:, ::-1][:1]]))
    assert np.abs(both - np.eye(len(both))).max() < 0.06  # 5 deviations


def test_every_earlier_plan_of_a_tree_is_known():
    """What an earlier version began is gone on with by its own plan: none is dropped when another comes."""
    units = make_units([_PAY, column("n", 0, 5000, "BIGINT", nullable=False), *_FOUR])
    asked = request(units.count, expected_rows=30_000, epsilon="3")
    terms = open_tree_purse(asked, len(units.parts))
    names = {make(asked, units, terms).name for make in buy._PLANS}
    latest = ["valued", "normed", "shrunk", "bounded", "domains", "piles"]
    assert names == {"plain", "scaled", *(", ".join(latest[: k + 1]) for k in range(len(latest)))}

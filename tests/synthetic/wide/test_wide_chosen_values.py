"""Many columns of whole numbers: single values are counted of those alone whose released bins may hold a pile."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from duckdp.synthetic.tree.bins import make_bins
from duckdp.synthetic.tree.buy.grow import grow_tree
from duckdp.synthetic.tree.contingency import Tables
from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.tree.plan import make_tree_plan
from duckdp.synthetic.tree.single_values import Valued, choose_values
from duckdp.synthetic.tree.spending import TreePlan
from duckdp.synthetic.unit.buy.purse import Purse
from duckdp.synthetic.unit.layout import make_units
from duckdp.synthetic.unit.packed import pack, unpack
from duckdp.synthetic.unit.stages import Noisy
from tests.smooth.tables import column
from tests.synthetic.in_memory import memory_sums
from tests.synthetic.plans import encode, open_tree_purse, request
from tests.synthetic.wide.trees import memory_counts

ROWS, WIDTH, TOP = 3000, 12, 99
UNITS = make_units([column(f"n{i}", 0, TOP, "INTEGER", nullable=False) for i in range(WIDTH)])
_BEFORE = partial(make_tree_plan, normed=False)


def _values(*, piled: bool) -> np.ndarray:
    """int[n, columns]: bell-shaped, even, steep; of the third and fifth 35% at 40 and 62, if so."""
    rng = np.random.default_rng(8)
    found = np.clip(np.rint(rng.normal(50, 18, (ROWS, WIDTH))), 0, TOP).astype(int)
    found[:, ::3] = rng.integers(0, TOP + 1, (ROWS, len(range(0, WIDTH, 3))))
    found[:, 1] = np.minimum(TOP, rng.exponential(9, ROWS)).astype(int)
    for place, value in ((2, 40), (4, 62)) if piled else ():
        found[rng.random(ROWS) < 0.35, place] = value
    return found


class _World:
    """Rows in memory, and the plan of now."""

    def __init__(self, *, piled: bool = True, epsilon: str = "3", delta: str = "0") -> None:
        self.values = _values(piled=piled)
        asked = request(UNITS.count, expected_rows=ROWS, epsilon=epsilon, delta=delta)
        self.terms = open_tree_purse(asked, WIDTH)
        self.plans = [make(asked, UNITS, self.terms) for make in (make_tree_plan, _BEFORE)]
        self.unit = 2 * self.values / TOP - 1.0
        bins = make_bins(UNITS, self.plans[0].bins)
        self.bins = bins
        self.counts = memory_counts(np.stack([encode(b, self.unit) for b in bins], axis=1))
        self.read: list[tuple[int, int]] = []

    def _values_of(self, tables: Tables, moduli: Sequence[tuple[int, int]]) -> np.ndarray:
        self.read = list(moduli)
        return tables.count(np.stack([self.values[:, i] % m if m else self.values[:, i] for i, m in moduli], axis=1))

    def grow(self, plan: TreePlan, others: Sequence[TreePlan] = (), keep: Callable[..., Any] | None = None) -> Tree:
        purse = Purse.on(self.terms) if keep is None else Purse.on(self.terms, keep)
        sums = memory_sums(self.unit)
        tree = grow_tree(self.bins, plan, purse, None, self.counts, sums, self._values_of, others=others)
        assert purse.spent <= 1
        return tree

    def share(self, tree: Tree, place: int, value: int) -> float:
        codes = tree.make(4000)[:, place]
        made = tree.binnings[place].spread(codes, tree.leans()[place])[:, 0]
        return float(np.mean(np.rint((made + 1) / 2 * TOP) == value))


@pytest.mark.parametrize("delta", ["0", pytest.param("1e-6", marks=pytest.mark.slow)])
def test_piles_are_found_among_many_columns(delta: str) -> None:
    world = _World(delta=delta)
    tree = world.grow(world.plans[0])
    assert world.plans[0].chosen
    assert sorted(i for i, _ in world.read) == [2, 4]
    for place, value in ((2, 40), (4, 62)):
        assert world.share(tree, place, value) == pytest.approx(np.mean(world.values[:, place] == value), abs=0.12)
    # the twin: all columns, or none; a table of it has .13 at one of them, with a deviation of .05
    before = [world.grow(world.plans[1]) for _ in range(5)]
    for place, value in ((2, 40), (4, 62)):
        assert np.mean([world.share(tree, place, value) for tree in before]) < 0.25


def test_without_piles_nothing_is_counted() -> None:
    """Noise looks like a pile in 7 of 250 tables; four of six do by chance once in 10^5."""
    read = []
    for _ in range(6):
        world = _World(piled=False)
        tree = world.grow(world.plans[0])
        read.append(bool(world.read))
        assert read[-1] == ("values" in {name for name, *_ in tree.stages})
        assert read[-1] or all(b.law is None for b in tree.binnings)
    assert sum(read) <= 3


def test_more_noise_chooses_fewer_columns() -> None:
    """From released counts and public figures alone."""
    world = _World()
    counts = [np.bincount(encode(b, world.unit), minlength=b.size).astype(float) for b in world.bins]
    plan = Valued(share=Fraction(3, 100), chosen=True)
    found = []
    for epsilon in (10**10, 3 * 10**9, 10**9, 10**8):
        terms = replace(world.terms, epsilon_nano=epsilon)
        found.append(len(choose_values(world.bins, counts, 20.0, plan, terms)))
    assert found == sorted(found, reverse=True)
    assert found[0] >= 2 > found[-1]
    assert choose_values(world.bins, counts, 1e5, plan, world.terms) == ()
    told = Valued(share=Fraction(3, 100), moduli=((0, 100),))
    assert choose_values(world.bins, counts, 20.0, told, world.terms) == ((0, 100),)


@pytest.mark.parametrize("began", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_purchase_goes_on_with_the_columns_that_were_chosen(began: int) -> None:
    world, texts = _World(), list[str]()

    def keeper(stored: list[str]) -> Callable[[Callable[[], Any]], Any]:
        at = 0

        def keep(draw: Callable[[], Any]) -> Any:
            nonlocal at
            if at == len(stored):
                stored.append(json.dumps(pack(draw())))
            at += 1
            return unpack(json.loads(stored[at - 1]), (Noisy,))

        return keep

    own, other = world.plans[began], world.plans[1 - began]
    assert own.name != other.name
    world.grow(own, [other], keeper(texts))
    read = world.read
    for stages in (1, 2, len(texts)):
        again = texts[:stages]
        tree = world.grow(other, [own], keeper(again))
        assert again[:stages] == texts[:stages]
        assert tree.plan == own
        assert world.read == read

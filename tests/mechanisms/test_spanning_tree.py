"""The cost of a spanning tree: its smooth bound against brute force over all small graphs, forests, units, twins."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from duckdp.core.types import Neighbours
from duckdp.mechanisms import spanning_tree
from duckdp.mechanisms.admissible_noise import student
from duckdp.mechanisms.spanning_tree import Edges, SpanningTree

Row = tuple[int, int, int]
NOISE = student(Fraction(1), degrees=2, beta=Fraction(1, 3))


def tree(vertices: int, top: int, unit: int = 1) -> SpanningTree:
    return SpanningTree(vertices=vertices, top=top, unit=unit, noise=NOISE)


def edges(rows: Sequence[Row]) -> Edges:
    first, second, weight = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return Edges(first=first, second=second, weight=weight)


def cost_of(rows: Sequence[Row], vertices: int, top: int) -> int:
    """By joining the lightest first; every pair has an edge of weight top besides."""
    whole = [(w, i, j) for i, j, w in rows] + [(top, *pair) for pair in itertools.combinations(range(vertices), 2)]
    part, total = list(range(vertices)), 0
    for w, i, j in sorted(whole):
        if part[i] != part[j]:
            part, total = [part[i] if p == part[j] else p for p in part], total + w
    return total


# ---- all small graphs: a weight in 0 .. top for each pair, top standing for no row


@cache
def all_costs(vertices: int, top: int) -> np.ndarray:
    """By all trees: one axis for each pair of vertices, in order."""
    pairs = list(itertools.combinations(range(vertices), 2))
    grid = np.indices((top + 1,) * len(pairs))
    costs = []
    for chosen in itertools.combinations(range(len(pairs)), vertices - 1):
        part = list(range(vertices))
        for i, j in (pairs[c] for c in chosen):
            part = [part[i] if p == part[j] else p for p in part]
        if len(set(part)) == 1:
            costs.append(grid[list(chosen)].sum(axis=0))
    return np.min(costs, axis=0)


def brute_force(vertices: int, top: int, steps: int) -> list[np.ndarray]:
    """The largest change by one weight, of all graphs that differ in at most i weights; i = 0, 1, ..."""
    cost = all_costs(vertices, top)
    local = np.zeros_like(cost)
    for axis in range(cost.ndim):
        low, high = cost.min(axis=axis, keepdims=True), cost.max(axis=axis, keepdims=True)
        local = np.maximum(local, np.maximum(high - cost, cost - low))
    found = [local]
    for _ in range(steps - 1):
        found.append(
            np.max(
                [np.broadcast_to(found[-1].max(axis=a, keepdims=True), cost.shape) for a in range(cost.ndim)], axis=0
            )
        )
    return found


def of_index(vertices: int, top: int, index: Sequence[int]) -> list[Row]:
    pairs = itertools.combinations(range(vertices), 2)
    return [(i, j, w) for (i, j), w in zip(pairs, index, strict=True) if w < top]


def own_changes(mechanism: SpanningTree, rows: Sequence[Row]) -> np.ndarray:
    forests = spanning_tree._forests(edges(rows).ordered(), mechanism.vertices, mechanism.forests)
    return mechanism._by_cuts(forests)


#: Beyond so many steps every A is top.
SHAPES = ((2, 6, 3), (3, 4, 4), (4, 2, 5), (5, 1, 6))
LARGER = ((4, 5, 5), (5, 2, 6))


@pytest.mark.parametrize(
    ("vertices", "top", "steps"), [*SHAPES, *(pytest.param(*shape, marks=pytest.mark.slow) for shape in LARGER)]
)
def test_cost_and_smooth_bound_are_those_of_brute_force(vertices: int, top: int, steps: int) -> None:
    """Every graph: f, every A, and S itself, which is the least smooth bound."""
    mechanism, cost = tree(vertices, top), all_costs(vertices, top)
    brute = brute_force(vertices, top, steps)
    assert (brute[-1] == top).all()
    for index in np.ndindex(cost.shape):
        rows = of_index(vertices, top, index)
        random.Random(str(index)).shuffle(rows)
        wanted = [int(b[index]) for b in brute]
        found = own_changes(mechanism, rows)
        assert found[:steps].tolist() == wanted
        assert set(found[steps:].tolist()) <= {top}
        f, s = mechanism.figures(edges(rows))
        assert f == cost[index]
        assert s == pytest.approx(max(a * math.exp(-NOISE.decay * k) for k, a in enumerate(wanted)), rel=1e-12)


@pytest.mark.parametrize("twin", ["without D", "one edge fewer", "without the lightest"])
def test_twins_are_below_brute_force(twin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: SpanningTree, forests: list[Edges]) -> np.ndarray:
        rows = [np.concatenate(part) for part in zip(*((f.first, f.second, f.weight) for f in forests), strict=True)]
        kept = Edges(first=rows[0], second=rows[1], weight=rows[2]).ordered()
        count = self.forests
        heaviest, spread = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        for cut in range(1, 1 << self.vertices - 1):
            crossing = kept.weight[((cut >> kept.first) ^ (cut >> kept.second)) & 1 == 1][:count]
            own = np.append(crossing, np.full(count - len(crossing), self.top))
            heaviest, spread = np.maximum(heaviest, own), np.maximum(spread, own - own[0])
        found = {"without D": (heaviest[:-1], 0), "one edge fewer": (heaviest[:-1], spread[:-1])}
        a, b = found.get(twin, (np.append(0, heaviest[:-2]), spread[1:]))
        return np.maximum(a, b)

    monkeypatch.setattr(SpanningTree, "_by_cuts", broken)
    brute, low = brute_force(4, 2, 5), 0
    for index in np.ndindex(brute[0].shape):
        found = own_changes(tree(4, 2), of_index(4, 2, index))
        low += any(int(found[i]) < int(b[index]) for i, b in enumerate(brute))
    assert low > 0


# ---- rows that come and go, several between the same vertices, units of several


def tables(vertices: int, weights: Sequence[int], most: int) -> list[tuple[Row, ...]]:
    rows = [(i, j, w) for i, j in itertools.combinations(range(vertices), 2) for w in weights]
    return [found for n in range(most + 1) for found in itertools.combinations_with_replacement(rows, n)]


def neighbours(table: tuple[Row, ...], rows: Sequence[Row], unit: int, relation: Neighbours) -> set[tuple[Row, ...]]:
    more = [extra for n in range(unit + 1) for extra in itertools.combinations_with_replacement(rows, n)]
    if relation is Neighbours.ADD_REMOVE:
        return {tuple(sorted(table + extra)) for extra in more}
    kept = {c for r in range(min(unit, len(table)) + 1) for c in itertools.combinations(table, len(table) - r)}
    return {tuple(sorted(rest + extra)) for rest in kept for extra in more}


def worst(
    mechanism: SpanningTree, weights: Sequence[int], most: int, relation: Neighbours, tries: int, unit: int
) -> float:
    """The most that f moves over S, and S over e**beta, of neighbouring tables; at most 1 if the claim holds."""
    rng, found = random.Random(1), 0.0
    rows = [(i, j, w) for i, j in itertools.combinations(range(mechanism.vertices), 2) for w in weights]
    known: dict[tuple[Row, ...], tuple[int, float]] = {}

    def figures(table: tuple[Row, ...]) -> tuple[int, float]:
        if table not in known:
            known[table] = mechanism.figures(edges(table))
        return known[table]

    whole = tables(mechanism.vertices, weights, most)
    for table in rng.sample(whole, min(tries, len(whole))):
        near = neighbours(tuple(sorted(table)), rows, unit, relation)
        for other in rng.sample(sorted(near), min(len(near), 25)):
            (f, s), (g, t) = figures(tuple(sorted(table))), figures(other)
            found = max(found, abs(f - g) / min(s, t), max(s / t, t / s) / math.exp(float(NOISE.beta)))
    return found


CASES = [
    (3, (0, 2, 5), 3, Neighbours.ADD_REMOVE, 1),
    (3, (0, 2, 5), 3, Neighbours.REPLACE, 1),
    (4, (0, 3), 4, Neighbours.ADD_REMOVE, 2),
    (4, (0, 1), 4, Neighbours.REPLACE, 2),
]


@pytest.mark.parametrize("exact", [12, 0])
@pytest.mark.parametrize(("vertices", "weights", "most", "relation", "unit"), CASES)
def test_the_bound_is_smooth_and_covers_what_a_unit_moves(
    vertices: int,
    weights: Sequence[int],
    most: int,
    relation: Neighbours,
    unit: int,
    exact: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cuts and forests (``exact`` = 0), rows between the same vertices, units of two rows."""
    monkeypatch.setattr(spanning_tree, "EXACT", exact)
    assert 0.5 < worst(tree(vertices, 5, unit), weights, most, relation, 40, unit) <= 1 + 1e-9


def test_twins_that_count_rows_or_forests_wrongly_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert worst(tree(4, 5, 1), (0, 3), 4, Neighbours.ADD_REMOVE, 60, 2) > 1.01  # a unit of two rows counts as one
    monkeypatch.setattr(spanning_tree, "EXACT", 0)
    plain: Callable[[SpanningTree, list[Edges]], np.ndarray] = SpanningTree._by_forests
    monkeypatch.setattr(SpanningTree, "_by_forests", lambda self, f: np.append(0, plain(self, f)[:-1]))
    assert worst(tree(3, 5), (0, 2, 5), 3, Neighbours.ADD_REMOVE, 60, 1) > 1.01


def test_forests_are_never_below_cuts_and_their_cost_is_right() -> None:
    rng = random.Random(2)
    for _ in range(40):
        n = rng.randint(2, 9)
        pairs = list(itertools.combinations(range(n), 2))
        rows = [(*rng.choice(pairs), rng.choice([0, 1, rng.randint(0, 99)])) for _ in range(rng.randint(0, 40))]
        mechanism = tree(n, 99)
        forests = spanning_tree._forests(edges(rows).ordered(), n, mechanism.forests)
        assert (mechanism._by_forests(forests) >= mechanism._by_cuts(forests)).all()
        assert mechanism.figures(edges(rows))[0] == cost_of(rows, n, 99)


def test_figures_are_total_and_of_public_size() -> None:
    for n, unit, top in ((2, 1, 1), (13, 1, 2**40), (5000, 3, 2**33), (40, 100_000, 7)):
        mechanism = tree(n, top, unit)
        f, s = mechanism.figures(edges([]))
        assert (f, s) == ((n - 1) * top, min(unit, n - 1) * top)
        assert mechanism.forests <= spanning_tree.MOST_FORESTS + 1
    one = replace(tree(13, 9), noise=student(Fraction(50), degrees=4, beta=Fraction(12)))
    assert one.figures(edges([(0, 1, 9)] * 3))[0] == 12 * 9

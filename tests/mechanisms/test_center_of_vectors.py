"""The centre of attention of vectors and of sets of points: its bound and loss by brute force, the law of its draws."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache, partial
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest

from duckdp.core.types import NANO
from duckdp.errors import ParameterError
from duckdp.mechanisms.center_of_vectors import CenterOfVectors, sum_of_gaps
from tests.privacy.statistics import fits, ks_p

Vector = tuple[int, ...]
Entries = tuple[Vector, ...]
A = 3 / (2 * math.sqrt(2))  # the steepest slope of the log-density of Student's law with 2 degrees of freedom


def mechanism(changed: int, cells: int, size: int, *, points: int = 0, epsilon: float = 1) -> CenterOfVectors:
    return CenterOfVectors(epsilon_nano=round(epsilon * NANO), changed=changed, cells=cells, size=size, points=points)


def apart(x: Vector, y: Vector, points: int) -> int:
    """The distance, by all orders of the points."""
    if not points:
        return sum(abs(a - b) for a, b in zip(x, y, strict=True))
    each = len(x) // points
    first, second = ([z[i : i + each] for i in range(0, len(z), each)] for z in (x, y))
    return min(sum(apart(a, b, 0) for a, b in zip(first, order, strict=True)) for order in permutations(second))


def neighbours(space: list[Vector], size: int, changed: int) -> Iterator[tuple[Entries, Entries]]:
    """Every pair of multisets of so many entries that differ in at most ``changed`` of them."""
    for kept in combinations_with_replacement(space, size - changed):
        for one in combinations_with_replacement(space, changed):
            for other in combinations_with_replacement(space, changed):
                yield (*kept, *one), (*kept, *other)


def plain(of: CenterOfVectors, z: Entries, *, inner: int, far: int = 1, ordered: bool = True) -> tuple[Vector, float]:
    """The definition, term by term. Twins: balls that need not meet, A(k) twice, the least radius of all."""
    m, step = len(z), of.changed
    radii = [sorted(apart(x, y, of.points) for y in z) for x in z]

    def around(k: int) -> int:
        held = inner + k * step
        if held > m:
            return of.diameter
        return sorted(row[held - 1] for row in radii)[k * step if ordered else 0]

    places = [i for i in range(m) if inner <= m and radii[i][inner - 1] == min(row[inner - 1] for row in radii)]
    center = z[places[0]] if places else (of.cells // 2,) * of.size
    return center, max(math.exp(-of.decay * k) * (around(k) + around(k + far)) for k in range(2 * m + 4))


def violations(of: CenterOfVectors, size: int, **broken: object) -> int:
    """Pairs of neighbours whose centres are farther apart than S says, or whose S differ by more than e^beta."""
    space = list(product(range(of.cells + 1), repeat=of.size))
    terms = {"inner": (size + of.changed) // 2 + 1, **broken}
    found = cache(lambda z: plain(of, z, **terms))  # type: ignore[arg-type]
    wrong = 0
    for z, other in neighbours(space, size, of.changed):
        (g, s), (g_other, s_other) = found(tuple(sorted(z))), found(tuple(sorted(other)))
        wrong += apart(g, g_other, of.points) > min(s, s_other) or s > math.exp(of.decay) * s_other * (1 + 1e-12)
    return wrong


SPACES = [
    pytest.param((1, 3, 1, 0), 4, id="numbers"),
    pytest.param((1, 2, 2, 0), 3, id="vectors"),
    pytest.param((2, 1, 2, 0), 5, id="vectors, replaced"),
    pytest.param((1, 2, 2, 2), 3, id="pairs of numbers"),
    pytest.param((1, 2, 2, 2), 4, id="pairs of numbers, four"),
    pytest.param((2, 1, 2, 2), 5, id="pairs of numbers, replaced"),
    pytest.param((1, 1, 4, 2), 2, id="pairs of points"),
]


@pytest.mark.parametrize(("terms", "size"), SPACES)
@pytest.mark.parametrize("epsilon", [1, 20])
def test_centers_of_neighbours_are_within_a_smooth_bound(
    terms: tuple[int, int, int, int], size: int, epsilon: float
) -> None:
    changed, cells, dimension, points = terms
    of = mechanism(changed, cells, dimension, points=points, epsilon=epsilon)
    assert violations(of, size) == 0


@pytest.mark.parametrize(
    ("terms", "size", "twin"),
    [
        ((1, 3, 1, 0), 5, {"inner": 3}),  # balls that need not meet
        ((1, 3, 1, 0), 5, {"far": 0}),  # both balls as small as one's own
        ((1, 4, 1, 0), 6, {"ordered": False}),  # the least radius, of an entry that may be the one that changes
        ((1, 2, 2, 2), 4, {"far": 0}),
        ((1, 2, 2, 2), 3, {"inner": 2}),
    ],
)
def test_twins_are_caught(terms: tuple[int, int, int, int], size: int, twin: dict[str, object]) -> None:
    changed, cells, dimension, points = terms
    of = mechanism(changed, cells, dimension, points=points, epsilon=1 if "ordered" in twin else 20)
    assert violations(of, size, **twin)


@pytest.mark.parametrize("points", [0, 1, 3])
def test_what_is_computed_is_the_definition(points: int) -> None:
    rng = np.random.default_rng(5)
    # at the large epsilon S is its first term, near radii alone; at the small one what exp(-b k) leaves of 2 D cells
    for changed, m, epsilon in product((1, 2), (1, 2, 3, 8, 17), (3, 200)):
        of = mechanism(changed, 50, 6, points=points, epsilon=epsilon)
        entries = tuple(tuple(int(x) for x in row) for row in rng.integers(0, 51, (m, 6)))
        center, bound = of.center(entries)
        wanted, s = plain(of, entries, inner=(m + changed) // 2 + 1)
        assert (tuple(center), bound) == (wanted, pytest.approx(s, rel=1e-13))


def test_matching_is_a_distance_of_sets() -> None:
    rng = np.random.default_rng(6)
    of = mechanism(1, 9, 6, points=3)
    entries = rng.integers(0, 10, (12, 6))
    found = of.distances(entries)
    shuffled = np.array([row.reshape(3, 2)[rng.permutation(3)].ravel() for row in entries])
    assert (of.distances(shuffled) == found).all()
    assert (found <= sum_of_gaps(entries, entries)).all()
    assert all(found[i, j] <= found[i, k] + found[k, j] for i, j, k in product(range(12), repeat=3))
    assert all(found[i, j] == apart(tuple(entries[i]), tuple(entries[j]), 3) for i, j in product(range(12), repeat=2))


@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_the_loss_of_moves_and_widths_is_epsilon(size: int) -> None:
    """The rate of the log-density over all shifts that share alpha: step 4, by search; more of either is too much."""
    of = mechanism(1, 1, size, epsilon=2)
    angles = np.linspace(-math.pi, math.pi, 4001)

    def rate(alpha: float, beta: float) -> float:
        def worst(a: float) -> float:
            return max(float((A * a * np.sin(angles) + w / 2 - 1.5 * w * np.cos(angles)).max()) for w in (-beta, beta))

        shares = [[alpha] + [0.0] * (size - 1), [alpha / size] * size]
        if size > 1:
            shares.append([alpha * 0.7, alpha * 0.3] + [0.0] * (size - 2))
        return max(sum(worst(a) for a in share) for share in shares)

    alpha, beta = float(of.alpha), float(of.beta)
    assert 1.99 < rate(alpha, beta) <= 2 + 1e-9
    assert rate(1.1 * alpha, beta) > 2.01
    assert rate(alpha, 1.1 * beta) > 2.01
    assert of.beta <= Fraction(2, 4 * size - 1)
    assert Fraction(of.decay) <= of.beta - Fraction(1, 2**40)


def student2(scale: float, x: np.ndarray) -> np.ndarray:
    """The distribution function of the noise."""
    return np.asarray(0.5 + x / scale / (2 * np.sqrt(2 + (x / scale) ** 2)))


def test_draws_follow_the_law_of_each_coordinate() -> None:
    """Also of sets: a set of points, each as far from the others as noise does not reach, in their order."""
    cells = 2**40
    for points, at in ((0, (2**39, 2**39 + 5)), (2, (2**38, 3 * 2**38))):
        of = mechanism(1, cells, 2, points=points, epsilon=2)
        entries = [tuple(x + i * 10_000 for x in at) for i in range(400)]
        center, bound = of.center(entries[:: 1 + 2 * points])  # of 80 sets: of 22, noise reaches from one to the other
        with pytest.MonkeyPatch.context() as patch:  # pairs of sets are compared once
            patch.setattr(CenterOfVectors, "center", lambda *_, found=(center, bound): found)
            drawn = np.array([of.release(entries) for _ in range(800)]) - np.array(center)
        scale = bound / float(of.alpha)
        assert 10**4 < scale < cells / 10**4

        pooled = drawn.ravel()
        assert fits(ks_p(pooled, partial(student2, scale)))
        assert not fits(ks_p(np.concatenate([pooled] * 8), partial(student2, 0.8 * scale)))
        assert not fits(ks_p(np.concatenate([pooled] * 8), partial(student2, 1.25 * scale)))
        assert abs(np.corrcoef(np.sign(drawn.T))[0, 1]) < 0.25


def test_sets_leave_in_an_order_that_tells_nothing() -> None:
    of = mechanism(1, 100, 4, points=2, epsilon=5)
    found = of.release([(90, 1, 10, 99)] * 50)
    assert found[:2] <= found[2:]
    assert all(0 <= x <= 100 for x in found)


def test_what_does_not_fit_is_refused() -> None:
    for terms in (
        {"size": 0},
        {"size": 3, "points": 2},
        {"size": 2**20, "cells": 2**40},
        {"size": 1000, "epsilon_nano": 1},
    ):
        with pytest.raises(ParameterError):
            CenterOfVectors(**{"epsilon_nano": NANO, "changed": 1, "cells": 4, "size": 2, **terms})  # type: ignore[arg-type]

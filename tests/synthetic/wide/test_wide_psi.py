"""What one row can change in a round of subspace iteration, met exactly by rows at a corner of the box."""

from __future__ import annotations

import math
from fractions import Fraction

import duckdb
import numpy as np
import pytest

from duckdp.core.types import NANO, PICO, Neighbours
from duckdp.synthetic.psi.buy import print_products
from duckdp.synthetic.psi.plan import round_scale
from duckdp.synthetic.unit.charge_terms import BITS, Terms
from tests.synthetic.in_memory import exact_products

SHAPES = [(d, k) for d in range(2, 13) for k in range(1, min(3, d) + 1)]


def aligned(d: int, k: int) -> np.ndarray:
    """Orthonormal X, float[d, k], of which the corner (1, ..., 1) has equal coordinates sqrt(d / k)."""
    inner = np.linalg.qr(np.column_stack([np.ones(d), np.eye(d)[:, : k - 1]]))[0]
    turn = np.linalg.qr(np.column_stack([np.ones(k), np.eye(k)[:, : k - 1]]))[0].T
    basis = inner @ turn
    return basis * np.sign(basis.sum(axis=0))


def moved(d: int, k: int) -> list[int]:
    """What the row at the corner adds."""
    basis = aligned(d, k)
    assert np.allclose(basis.T @ basis, np.eye(k))
    assert np.allclose(np.ones(d) @ basis, math.sqrt(d / k))
    return exact_products(np.ones((1, d)), np.zeros(d), basis, BITS)


def claim(d: int, k: int, neighbours: Neighbours, *, gaussian: bool) -> Fraction:
    """The l1, or the square of the l2, of the change that the noise of a round covers."""
    terms = Terms(epsilon_nano=NANO, delta_atto=10**12, neighbours=neighbours, gaussian=gaussian)
    cost = terms.cost(Fraction(1, 3))
    scale = Fraction(round_scale(d, k, terms, cost))
    return scale**2 * 2 * Fraction(cost, PICO) if gaussian else scale * Fraction(cost, NANO)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("gaussian", [False, True])
def test_the_noise_of_a_round_covers_the_worst_row_and_little_more(neighbours: Neighbours, gaussian: bool) -> None:
    ways, rounded = 2 if neighbours is Neighbours.REPLACE else 1, 0
    for d, k in SHAPES:
        row = moved(d, k)
        change = sum((ways * v) ** 2 for v in row) if gaussian else sum(ways * abs(v) for v in row)
        covered = claim(d, k, neighbours, gaussian=gaussian)
        assert change <= covered < change * (1 + Fraction(1, 10**5))
        unit = Fraction(ways << BITS)
        rounded += change > (unit * d) ** 2 if gaussian else change**2 > unit**2 * k * d**3
    assert rounded > 5  # beyond what real numbers would move: the grid's steps are needed


def test_coordinates_are_clamped_about_the_centre() -> None:
    far = exact_products(np.full((1, 3), 1.0), np.full(3, -1.0), aligned(3, 2), BITS)
    assert far == exact_products(np.full((1, 3), 5.0), np.zeros(3), aligned(3, 2), BITS) == moved(3, 2)


def test_the_private_read_gives_the_same_integers() -> None:
    rng = np.random.default_rng(4)
    u, centre, basis = rng.uniform(-1, 1, (40, 3)), np.array([0.9, -1.0, 0.1]), aligned(3, 2)
    u[:3] = [[-1, 1, 1], [1, 1, -1], [-1, -1, -1]]
    names = ["a", "b", "c"]
    with duckdb.connect() as con:
        con.execute("CREATE TABLE u (a DOUBLE, b DOUBLE, c DOUBLE)")
        con.executemany("INSERT INTO u VALUES (?, ?, ?)", u.tolist())
        (found,) = con.execute(print_products(centre, basis, "(SELECT * FROM u)", names, BITS)).fetchall()
    assert np.abs(u - centre).max() > 1.9  # beyond what counts
    assert np.abs(np.array(found) - np.array(exact_products(u, centre, basis, BITS))).max() <= len(u)

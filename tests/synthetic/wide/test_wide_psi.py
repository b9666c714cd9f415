"""What one row can change in a round of subspace iteration, met exactly by rows at a corner of the box."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from duckdp.core.types import NANO, PICO, Neighbours
from duckdp.synthetic.wide.psi import _round_scale, exact_products
from duckdp.synthetic.wide.release import BITS, Purse

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
    purse = Purse(epsilon_nano=NANO, delta_atto=10**12, neighbours=neighbours, gaussian=gaussian)
    cost = purse.cost(Fraction(1, 3))
    scale = Fraction(_round_scale(d, k, purse, cost))
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

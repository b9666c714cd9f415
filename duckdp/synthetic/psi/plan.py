"""How ``method := 'psi'`` spends its charge, and the noise of a round: from public figures only."""

from __future__ import annotations

import math
from fractions import Fraction

from duckdp.core.noise import gaussian_scale, laplace_scale
from duckdp.core.types import NANO, PICO, Neighbours
from duckdp.errors import ParameterError
from duckdp.synthetic.unit.charge_terms import BITS, Terms
from duckdp.synthetic.unit.request import Request

DIRECTIONS = 3  # k, as the paper has it
ROUNDS = 2  # T, as the paper has it
LARGEST_SCALE = 2.0**55  # of a round's noise, grid units: half of what can be drawn; beyond it nothing is told of rows
MEANS = Fraction(1, 2)  # share of the means
SUBSPACE = Fraction(1, 2)  # share of all rounds together


def psi_fits(request: Request, terms: Terms) -> bool:
    """Whether every stage has a share of the charge, and noise that can be drawn: by public figures."""
    if not terms.cost(MEANS) or not terms.cost(SUBSPACE / ROUNDS):
        return False
    try:
        scale = round_scale(request.columns, directions(request.columns), terms, terms.cost(SUBSPACE / ROUNDS))
    except ParameterError:
        return False
    return scale <= LARGEST_SCALE


def directions(d: int) -> int:
    """How many directions of d columns are looked for."""
    return min(DIRECTIONS, d // 2 or 1)


def round_scale(d: int, k: int, terms: Terms, cost: int) -> float:
    """Scale of a round's noise, in grid units."""
    unit, twice = 1 << BITS, 2 if terms.neighbours is Neighbours.REPLACE else 1
    if terms.gaussian:
        return gaussian_scale(Fraction(cost, PICO), (twice * (unit * d + d * k)) ** 2)
    return laplace_scale(Fraction(cost, NANO), twice * (math.ceil(unit * math.sqrt(k) * d**1.5) + d * k))

"""The release of tables of counts, and of which of them matter: all that a tree sees of private rows.

A row adds 1 to exactly one cell of each of k tables (``contingency``):

    relation      l1      l2 squared   linf    of the vector of all cells' counts
    ADD_REMOVE    k       k            1       one row is added or taken: one cell of each table moves by 1
    REPLACE       2 k     2 k          1       at most two cells of each table move by 1

A pair's score is sum over cells |16 N - E|, minus public constants, E >= 0 a public table of whole numbers (16 times
what is expected). One cell that moves by 1 moves it by at most 16: linf = 16 (ADD_REMOVE) or 32 (REPLACE).

Privacy:      tables: share * rho of zCDP by discrete Gaussian noise, or share * epsilon by discrete Laplace noise, on
              every cell of the public list, whether a row fell into it or not. Choices: ``mechanisms.exponential``. The
              purse adds the shares up and refuses more than 1.
Assumes:      a privacy unit is one row of the relation; merges and expected tables are public constants or earlier
              releases.
Proof sketch: the norms above; |16 N - E| is 16-Lipschitz in N. Every cell is counted, from 0, and noised.
Numerics:     integers throughout, of 64 bits for counts and scores: up to 2^58 rows. The scale of a share is rounded up
              by core/noise, an epsilon is rounded down. Under REPLACE the number of rows is public and exact, so the
              sum of a table is.
Source:       Dwork, McSherry, Nissim, Smith 2006 (histograms); Canonne, Kamath, Steinke 2020 (discrete Gaussian). The
              use of scores against a model: McKenna, Miklau, Sheldon, "Winning the NIST contest", 2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from duckdp.core.noise import gaussian_noise, gaussian_scale, laplace_noise, laplace_scale
from duckdp.core.types import NANO, PICO, Neighbours
from duckdp.errors import InternalError
from duckdp.synthetic.tree.bins import Ints
from duckdp.synthetic.tree.contingency import Tables, sensitivity
from duckdp.synthetic.unit.buy.purse import Purse
from duckdp.synthetic.unit.features import Floats

GRID = 16  # steps of a score, per row: what is expected of a cell is rounded to 1/16 of a row


ReadCounts = Callable[[Tables], Ints]
"""Exact counts of all cells, int[cells]: private."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """Contingency tables as they were released: public.

    Attributes:
        tables: which.
        counts: float[...] each, with noise in every cell.
        deviation: standard deviation of that noise, rows.
    """

    tables: Tables
    counts: list[Floats]
    deviation: float


def score_change(neighbours: Neighbours) -> int:
    """Largest change of one score, in 1/16 rows."""
    return GRID * (2 if neighbours is Neighbours.REPLACE else 1)


def measure(tables: Tables, purse: Purse, share: Fraction, read: ReadCounts) -> Measured:
    """Release tables for a share of the purse.

    Raises:
        InternalError: the purse is empty, or the counts are not the tables'.
    """
    change, cost = sensitivity(len(tables.sets), purse.neighbours), purse.take(share)
    exact = [int(n) for n in read(tables)]
    if len(exact) != tables.cells:
        raise InternalError("the counts are not those of the tables' cells")
    if purse.gaussian:
        deviation = gaussian_scale(Fraction(cost, PICO), change.l2_squared)
        drawn = gaussian_noise(tables.cells, deviation)
    else:
        scale = laplace_scale(Fraction(cost, NANO), change.l1)
        drawn, deviation = laplace_noise(tables.cells, scale), math.sqrt(2) * scale
    if purse.neighbours is Neighbours.REPLACE:
        purse.rows = float(sum(exact[: math.prod(tables.shapes[0])]))
    noisy = [value + z for value, z in zip(exact, drawn, strict=True)]
    found = tables.split(np.array(noisy, dtype=np.float64))
    return Measured(tables=tables, counts=[np.asarray(f, dtype=np.float64) for f in found], deviation=deviation)


def exact_scores(tables: Tables, expected: Ints, read: ReadCounts) -> list[int]:
    """Distances of the tables from what is expected, int[tables], in 1/16 rows: private."""
    return [int(part.sum()) for part in tables.split(np.abs(GRID * read(tables) - expected))]


def choice_epsilon(purse: Purse, share: Fraction) -> Fraction:
    """Charge a share for one exponential mechanism: its epsilon, sqrt(8 rho) under a Gaussian purse."""
    return purse.take_epsilon(share)

"""NULLs that rows may have, and when a noisy count of them says that there are none: public figures.

A declared column may show NULL where nothing rules it out: it is nullable (a DOUBLE may be NaN), or its domain names no
place for other values. Each such column has a place that says NULL (a unit column, a bin). Its noisy count is taken for
noise unless it exceeds what noise alone reaches with a chance of ``SPURIOUS``, in any column of the table; then no row
that is made has a NULL there. So a table shows NULLs that its data lack with a chance of at most ``SPURIOUS``.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from fractions import Fraction

from scipy.special import gammainccinv, ndtri

from duckdp.core.types import NANO, Neighbours
from duckdp.synthetic.unit.layout import Part, UnitColumns, make_units
from duckdp.synthetic.unit.request import Request

SPURIOUS = 1e-9  # chance of a table with a NULL that its data lack: in a hundred tables one in ten million
_TOLD = 0.1  # share of NULLs that is to be told from none,
_LEAST, _MOST = 1, 10  # for percents of epsilon
_STEPS = 40  # of an iteration, after which t is known to the last bits,
_AGREED = 1e-9  # which this outweighs


def may_show_null(part: Part) -> bool:
    """Whether rows that are made may show NULL in a column."""
    return part.column.nullable and (part.nullable or None in part.values)


def null_column(part: Part) -> int:
    """The unit column that is 1 where a column that may show NULL has none, -1 elsewhere; not of listed domains."""
    return part.start + (part.values.index(None) if part.form == "choice" else 1)


def laplace_doubt(scale: float, columns: int) -> float:
    """Rows that no count of so many columns reaches by Laplace noise alone, but with chance ``SPURIOUS``.

    P(Z >= t) = q^t / (1 + q) for whole t >= 1 and q = exp(-1 / scale); at most SPURIOUS / columns each.
    """
    q = math.exp(-1 / scale)
    return max(1.0, scale * math.log(columns / (SPURIOUS * (1 + q))))


def gaussian_doubt(deviation: float, columns: int) -> float:
    """The same of discrete Gaussian noise: P(Z >= t) <= P(N(0, deviation^2) >= t - 1).

    Source: Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", 2020, Proposition 25.
    """
    return 1 - deviation * float(ndtri(SPURIOUS / columns))


def both_doubt(columns: int, *, gaussian: bool, coarse: float) -> float:
    """What two noisy counts together reach by noise alone in one of so many columns, but with chance ``SPURIOUS``.

    Laplace: of X + Y, each count over the scale of its noise. A noise Z of whole numbers and scale b has P(Z >= t) at
    most that of b Lap + 1 for every t, so X + Y exceeds t + coarse (1 over each scale, added) with a chance of at most
    (2 + t) exp(-t) / 4, the tail of two Laplace laws. Gaussian: of the sum that has deviation 1, at most exp(-t^2 / 2),
    as discrete Gaussian noise is as sub-Gaussian as its deviation says.

    Proof sketch: with q = exp(-1 / b), P(Z >= t) = q^t / (1 + q) <= q^(t - 1) / 2 for whole t >= 1; for t = 0,
                  1 / (1 + q) <= 1 - q / 2, as q (1 - q) >= 0; for t = -s < 0, 1 - q^(s + 1) / (1 + q) <=
                  1 - q^(s + 1) / 2. For t between whole numbers Z has the chance of the next. Independent noises that
                  are dominated have a sum that is. The density of two Laplace laws is (1 + |x|) exp(-|x|) / 4.
    Source: Canonne, Kamath, Steinke 2020 (a discrete Gaussian is sub-Gaussian).
    """
    chance = SPURIOUS / columns
    if gaussian:
        return math.sqrt(-2 * math.log(chance))
    found = -math.log(chance)
    for _ in range(_STEPS):  # t = log((2 + t) / 4 / chance) contracts by 1 / (2 + t)
        found = math.log((2 + found) / 4 / chance)
    return found + _AGREED + coarse


def cube_doubt(epsilon: float, size: int) -> float:
    """The same of cube noise over ``size`` sums of functions in [-1, 1], for counts of NULLs made of them.

    Without a NULL the sum of u = -1 is -n, so (noisy n + noisy sum) / 2 is half the sum of two coordinates of Z, at
    most |Z|_inf. Under REPLACE n is exact and Z twice as wide: half of one coordinate, at most |Z|_inf / 2, the same
    number. epsilon |Z|_inf follows the law Gamma(size), but for the grid of the sums, 2^-24 (``mechanisms/cube``).
    """
    return max(1.0, float(gammainccinv(size, SPURIOUS)) / epsilon * (1 + 1e-6))


def null_share(columns: int, request: Request) -> Fraction:
    """Part of epsilon for counting the NULLs of so many columns: about what tells a tenth of the rows, 1% to 10%."""
    if not columns:
        return Fraction(0)
    size = columns + (request.neighbours is Neighbours.ADD_REMOVE)
    wanted = cube_doubt(request.epsilon_nano / NANO, size) / (_TOLD * request.expected_rows)
    return Fraction(max(_LEAST, min(_MOST, math.ceil(100 * wanted))), 100)


def without_nulls(units: UnitColumns, request: Request, complete: Collection[int]) -> tuple[UnitColumns, Request]:
    """Unit columns and request where some columns, by place, are known to have no NULL; one that is left alone stays.

    Rows that have one all the same, fewer than noise hides, count in the middle of a number and the last value of a
    domain: every row still counts.
    """
    target = None if request.target is None else units.parts[units.part_at(request.target)].column.name
    columns = [replace(p.column, nullable=False) if i in complete else p.column for i, p in enumerate(units.parts)]
    if len(columns) < 2:
        return units, request
    found = make_units(columns, structure=units.structure)
    place = None if target is None else found.place_of(target)
    changed = replace(request, columns=found.count, target=place, signs=found.signs, groups=found.groups)
    return found, changed

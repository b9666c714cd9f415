"""method := 'psi': the paper's practical variant, with noise that keeps its promise.

Private subspace iteration finds k directions of the centred second moments; points drawn uniformly in the ellipsoid
they span about the noisy means carry weights, by the linear program min |moments - noisy moments|_1; m rows are drawn.
The low-degree basis is the means: second degrees are far below their noise on the paper's tables at epsilon <= 1.

Privacy:      shares of one purse: _MEANS for the degree-1 sums, _SUBSPACE for T rounds W = A X + G. A round
              releases, for k orthonormal public columns x_j, the d k sums over rows of y_i (y . x_j), where y is u - c
              clamped to the box [-1, 1]^d and c a public centre.
Proof sketch: one row adds y (X^T y)^T. Its l1 norm is |y|_1 |X^T y|_1 <= d sqrt(k) |y|_2 <= sqrt(k) d^1.5; its l2 norm
              |y|_2 |X^T y|_2 <= d. ADD_REMOVE: these; REPLACE: twice these. Pure: Laplace of l1 / epsilon per round,
              epsilon split evenly over the rounds; Gaussian: rho split alike. The points, the weights and the rows are
              post-processing.
Numerics:     rounding to the grid and floating point move a coordinate by less than a grid step per row: d k steps
              are added to the sensitivity.
Differences:  the paper's covariance about the exact mean has l1 norm 4 k d^1.5 / n, and its own constants are ten times
              looser (pure) or unequal in two places (Gaussian); the centre here is a release, so no exact mean enters.
              Radii carry a factor sqrt(k + 2), so that the uniform law of the ellipsoid has the variances found.
Source:       Wang et al., JMLR 17(51), 2016, Algorithm 4 and section 5.2; Hardt 2013 (the iteration).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from duckdp.core.noise import gaussian_noise, gaussian_scale, laplace_noise, laplace_scale
from duckdp.core.types import NANO, PICO, Neighbours
from duckdp.errors import ParameterError
from duckdp.synthetic.program import fit_distribution
from duckdp.synthetic.sample import draw_points
from duckdp.synthetic.wide.collect import open_purse
from duckdp.synthetic.wide.features import ONE, Features, Floats
from duckdp.synthetic.wide.release import BITS, Noisy, Purse, Sums
from duckdp.synthetic.wide.start import normals, uniforms
from duckdp.synthetic.wide.table import Request, WideTable

DIRECTIONS, ROUNDS, POINTS = 3, 2, 2000
LARGEST_SCALE = 2.0**55  # of a round's noise, grid units: half of what can be drawn; beyond it nothing is told of rows
_MEANS, _SUBSPACE = Fraction(1, 2), Fraction(1, 2)
Products = Callable[[Floats, Floats, int], Sequence[int]]
"""(centre float[d], X float[d, k], bits) -> d k exact sums of clamp(u - c) (clamp(u - c) . x_j): private."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Ellipsoid:
    """What was released: noisy means, and k directions with their radii."""

    means: Noisy
    basis: Floats
    radii: Floats
    stages: tuple[tuple[str, int, Fraction], ...]


def make_psi_table(request: Request, sums: Sums, products: Products) -> WideTable:
    """A synthetic table by private subspace iteration: :func:`collect_psi`, then :func:`make_psi_rows`."""
    return make_psi_rows(request, collect_psi(request, open_purse(request), sums, products))


def collect_psi(request: Request, purse: Purse, sums: Sums, products: Products) -> Ellipsoid:
    """Buy the stages.

    Args:
        request: public parameters; a target is treated like any column.
        purse: the charge, unspent.
        sums: exact sums of ``Features``.
        products: exact sums of one round.
    """
    d = request.columns
    k = _directions(d)
    means = purse.buy(sums, Features(dimensions=d, factors=(ONE,)), _MEANS)
    centre = np.clip(means.means, -1, 1)
    basis = np.linalg.qr(uniforms(d, k) - 0.5)[0]
    radii = np.zeros(k)

    def iterate() -> Floats:
        return subspace_round(products(centre, basis, BITS), basis, purse, _SUBSPACE / ROUNDS)

    for _ in range(ROUNDS):
        image = purse.stage(iterate)
        radii = np.sqrt(np.linalg.norm(image, axis=0))
        basis = np.linalg.qr(image)[0]
    stages = (("means", d, _MEANS), *((("subspace", d * k, _SUBSPACE / ROUNDS),) * ROUNDS))
    return Ellipsoid(means=means, basis=basis, radii=radii, stages=stages)


def make_psi_rows(request: Request, out: Ellipsoid) -> WideTable:
    """Rows from released figures: post-processing."""
    features, means = Features(dimensions=request.columns, factors=(ONE,)), out.means.means
    points = _ellipsoid(np.clip(means, -1, 1), out.basis, out.radii)
    matrix = np.vstack([np.ones(len(points)), features.rows(points).T])
    found = fit_distribution(matrix, np.append(1.0, means))
    rows = points[draw_points(found.weights, request.rows)]
    misfit = float(np.sqrt(np.mean((features.means(rows) - means) ** 2)))
    return WideTable(unit=rows, misfit=misfit, bought=out.stages)


def subspace_round(exact: Sequence[int], basis: Floats, purse: Purse, share: Fraction) -> Floats:
    """One noisy W / n, float[d, k].

    Args:
        exact: int[d k], grid units, row-major; private.
        basis: X, public.
        purse: pays.
        share: of the charge.
    """
    d, k = basis.shape
    scale = _round_scale(d, k, purse, purse.take(share))
    drawn = (gaussian_noise if purse.gaussian else laplace_noise)(d * k, scale)
    noisy = [float(value + noise) for value, noise in zip(exact, drawn, strict=True)]
    return np.array(noisy).reshape(d, k) / (1 << BITS) / max(1.0, purse.rows)


def psi_shares() -> list[Fraction]:
    """Of the stages."""
    return [_MEANS, _SUBSPACE / ROUNDS]


def psi_fits(request: Request, purse: Purse) -> bool:
    """Whether the noise of a round can be drawn: by public figures, before the charge."""
    try:
        scale = _round_scale(request.columns, _directions(request.columns), purse, purse.cost(_SUBSPACE / ROUNDS))
    except ParameterError:
        return False
    return scale <= LARGEST_SCALE


def _directions(d: int) -> int:
    return min(DIRECTIONS, d // 2 or 1)


def _round_scale(d: int, k: int, purse: Purse, cost: int) -> float:
    """Scale of a round's noise, in grid units."""
    unit, twice = 1 << BITS, 2 if purse.neighbours is Neighbours.REPLACE else 1
    if purse.gaussian:
        return gaussian_scale(Fraction(cost, PICO), (twice * (unit * d + d * k)) ** 2)
    return laplace_scale(Fraction(cost, NANO), twice * (math.ceil(unit * math.sqrt(k) * d**1.5) + d * k))


def exact_products(u: Floats, centre: Floats, basis: Floats, bits: int) -> list[int]:
    """The sums of one round from rows in memory: what the SQL of :func:`print_products` gives."""
    y = np.clip(u - centre, -1, 1)
    along = y @ basis
    found = []
    for i in range(u.shape[1]):
        found.append(np.floor(y[:, i : i + 1] * along * 2.0**bits + 0.5).sum(axis=0))
    return [int(v) for v in np.stack(found).ravel()]


def print_products(centre: Floats, basis: Floats, relation: str, columns: Sequence[str], bits: int) -> str:
    """One SELECT that gives the d k integers of a round; see ``Features.print_sql``."""
    shifted = [f"CAST({-float(c)!r} AS DOUBLE) + s.{name}" for c, name in zip(centre, columns, strict=True)]
    clamped = ", ".join(
        f"system.main.greatest(CAST(-1 AS DOUBLE), system.main.least(CAST(1 AS DOUBLE), {x})) AS dp_y{i}"
        for i, x in enumerate(shifted)
    )  # fmt: skip
    dots = ", ".join(
        " + ".join(f"CAST({float(x)!r} AS DOUBLE) * s.dp_y{i}" for i, x in enumerate(column)) + f" AS dp_t{j}"
        for j, column in enumerate(basis.T)
    )
    inner = f"(SELECT s.*, {dots} FROM (SELECT {clamped} FROM {relation} AS s) AS s)"
    scale = f"CAST({2.0**bits!r} AS DOUBLE)"
    sums = ", ".join(
        f"coalesce(system.main.sum(CAST(system.main.floor(s.dp_y{i} * s.dp_t{j} * {scale} + 0.5) AS HUGEINT)), 0)"
        for i in range(len(columns)) for j in range(basis.shape[1])
    )  # fmt: skip
    return f"SELECT {sums} FROM {inner} AS s"


def _ellipsoid(centre: Floats, directions: Floats, radii: Floats) -> Floats:
    """Uniform points of the ellipsoid, clipped to the box. Radii: square roots of eigenvalues, times sqrt(k + 2)."""
    k = len(radii)
    normal = normals(POINTS, k)
    ball = normal / np.linalg.norm(normal, axis=1, keepdims=True) * uniforms(POINTS, 1) ** (1 / k)
    return np.asarray(np.clip(centre + (ball * radii * math.sqrt(k + 2)) @ directions.T, -1, 1))

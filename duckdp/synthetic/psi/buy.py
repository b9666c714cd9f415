"""The task of ``method := 'psi'``: the paper's practical variant, with noise that keeps its promise.

Private subspace iteration finds k directions of the centred second moments; points drawn uniformly in the ellipsoid
they span about the noisy means carry weights, by the linear program min |moments - noisy moments|_1; m rows are drawn.
The low-degree basis is the means: second degrees are far below their noise on the paper's tables at epsilon <= 1.

Privacy:      shares of one purse: MEANS for the degree-1 sums, SUBSPACE for T rounds W = A X + G. A round
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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from duckdp.compiler.printing import Parameters, number
from duckdp.core.noise import gaussian_noise, laplace_noise
from duckdp.synthetic.asked import Asked
from duckdp.synthetic.psi.plan import MEANS, ROUNDS, SUBSPACE, directions, psi_fits, round_scale
from duckdp.synthetic.psi.released import CLASSES, Ellipsoid
from duckdp.synthetic.unit.buy.purse import Keep, Purse, Sums
from duckdp.synthetic.unit.buy.reading import UnitReader
from duckdp.synthetic.unit.buy.unit_task import Purchase, UnitTask
from duckdp.synthetic.unit.charge_terms import BITS, Terms, moment_terms
from duckdp.synthetic.unit.features import ONE, Features, Floats
from duckdp.synthetic.unit.kept import Kept
from duckdp.synthetic.unit.lay_out import lay_out, require_shares
from duckdp.synthetic.unit.packed import Classes
from duckdp.synthetic.unit.request import Request
from duckdp.synthetic.unit.uniforms import uniforms

Products = Callable[[Floats, Floats, int], Sequence[int]]
"""(centre float[d], X float[d, k], bits) -> d k exact sums of clamp(u - c) (clamp(u - c) . x_j): private."""


@dataclass(frozen=True, kw_only=True)
class PsiTask(UnitTask):
    """Means and rounds of the iteration for the whole charge."""

    method: ClassVar[str] = "psi"
    classes: ClassVar[Classes] = CLASSES

    @property
    def terms(self) -> Terms:
        """On what terms the stages are bought: the whole charge."""
        return moment_terms(self.request)

    def buy(self, reader: UnitReader, keep: Keep) -> Purchase:
        """Buy the means, and the rounds of the iteration."""

        def products(centre: Floats, basis: Floats, bits: int) -> Sequence[int]:
            parameters = Parameters()
            sql = print_products(centre, basis, reader.relation(parameters), self.units.names, bits)
            return reader.integers(sql, parameters, basis.size)[1:]

        purse = Purse.on(self.terms, keep)
        released = collect_psi(self.request, purse, reader.sums, products)
        kept = Kept(method=self.method, request=self.request, released=released)
        return self.units, kept, purse.rows, released.stages


def task(asked: Asked) -> PsiTask:
    """Plan the purchase. Free: no data is touched.

    Raises:
        CatalogError: C102, C105. ParameterError: P107. QueryError: Q401.
    """
    units, request = lay_out(asked, listed=False)
    require_shares(psi_fits(request, moment_terms(request)), len(units.parts), asked.epsilon_nano)
    return PsiTask(table=asked.table, units=units, request=request, rows=asked.rows)


def collect_psi(request: Request, purse: Purse, sums: Sums, products: Products) -> Ellipsoid:
    """Buy the means and the rounds, from exact sums.

    Args:
        request: public parameters; a target is treated like any column.
        purse: the charge, unspent.
        sums: exact sums of ``Features``.
        products: exact sums of one round.
    """
    d = request.columns
    k = directions(d)
    means = purse.buy(sums, Features(dimensions=d, factors=(ONE,)), MEANS)
    centre = np.clip(means.means, -1, 1)
    basis = np.linalg.qr(uniforms(d, k) - 0.5)[0]
    radii = np.zeros(k)

    def iterate() -> Floats:
        return subspace_round(products(centre, basis, BITS), basis, purse, SUBSPACE / ROUNDS)

    for _ in range(ROUNDS):
        image = purse.stage(iterate)
        radii = np.sqrt(np.linalg.norm(image, axis=0))
        basis = np.linalg.qr(image)[0]
    stages = (("means", d, MEANS), *((("subspace", d * k, SUBSPACE / ROUNDS),) * ROUNDS))
    return Ellipsoid(means=means, basis=basis, radii=radii, stages=stages)


def subspace_round(exact: Sequence[int], basis: Floats, purse: Purse, share: Fraction) -> Floats:
    """One noisy W / n, float[d, k].

    Args:
        exact: int[d k], grid units, row-major; private.
        basis: X, public.
        purse: pays.
        share: of the charge.
    """
    d, k = basis.shape
    scale = round_scale(d, k, purse, purse.take(share))
    drawn = (gaussian_noise if purse.gaussian else laplace_noise)(d * k, scale)
    noisy = [float(value + noise) for value, noise in zip(exact, drawn, strict=True)]
    return np.array(noisy).reshape(d, k) / (1 << BITS) / max(1.0, purse.rows)


def print_products(centre: Floats, basis: Floats, relation: str, columns: Sequence[str], bits: int) -> str:
    """One SELECT that gives the d k integers of a round; see ``sums_sql.print_sums``."""
    shifted = [f"{number(-c)} + s.{name}" for c, name in zip(centre, columns, strict=True)]
    clamped = ", ".join(
        f"system.main.greatest({number(-1)}, system.main.least({number(1)}, {x})) AS dp_y{i}"
        for i, x in enumerate(shifted)
    )
    dots = ", ".join(
        " + ".join(f"{number(x)} * s.dp_y{i}" for i, x in enumerate(column)) + f" AS dp_t{j}"
        for j, column in enumerate(basis.T)
    )
    inner = f"(SELECT s.*, {dots} FROM (SELECT {clamped} FROM {relation} AS s) AS s)"
    scale = number(2.0**bits)
    sums = ", ".join(
        f"coalesce(system.main.sum(CAST(system.main.floor(s.dp_y{i} * s.dp_t{j} * {scale} + 0.5) AS HUGEINT)), 0)"
        for i in range(len(columns))
        for j in range(basis.shape[1])
    )
    return f"SELECT {sums} FROM {inner} AS s"

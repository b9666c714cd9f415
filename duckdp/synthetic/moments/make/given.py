"""The laws of single columns from the moments that were bought of each: post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from duckdp.smooth.angles import angle_nodes
from duckdp.smooth.basis import chebyshev
from duckdp.synthetic.moments.make.first_rows import Laws
from duckdp.synthetic.moments.make.laws import fit_laws
from duckdp.synthetic.moments.marginals import Marginals
from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.stages import Noisy

_GRID = 200  # nodes of a fitted law, equispaced in the angle: twelve for the highest degree that is bought


@dataclass(frozen=True, kw_only=True, eq=False)
class Given:
    """What released marginals tell of each column.

    Attributes:
        columns: which unit columns.
        laws: theirs.
        square: the sum of their average squares, from T_2 as released: fitted laws are never narrower than their noise.
        deviation: of ``square``; infinite where NULLs scale columns.
    """

    columns: tuple[int, ...]
    laws: Laws
    square: float
    deviation: float


def read_marginals(marginals: Marginals, noisy: Noisy, means: Floats, nulls: dict[int, int]) -> Given:
    """The laws of the marginals' columns.

    Args:
        marginals: what was bought.
        noisy: its release.
        means: of all unit columns, float[d].
        nulls: unit column of a number -> the unit column that says it is NULL (there the number counts as 0).
    """
    each, present = marginals.degree - 1, []
    at_zero = chebyshev(np.zeros(1), marginals.degree + 1)[0]
    missing = np.array([_missing(means, nulls.get(i)) for i in marginals.columns])
    for place, (column, share) in enumerate(zip(marginals.columns, missing, strict=True)):
        moments = np.concatenate([[1.0, means[column]], noisy.means[place * each : (place + 1) * each]])
        present.append((moments - share * at_zero) / (1 - share))
    nodes = angle_nodes(_GRID)
    scaled = nodes * (1 - missing)[:, None]  # scaled up again when decoded
    laws = Laws(places=scaled, shares=fit_laws(np.array(present), nodes))
    deviation = math.inf if missing.any() else noisy.deviation / 2 * len(marginals.columns) ** 0.5
    square = float((1 + noisy.means[::each]).sum()) / 2  # u^2 = (1 + T_2) / 2
    return Given(columns=marginals.columns, laws=laws, square=square, deviation=deviation)


def _missing(means: Floats, says: int | None) -> float:
    """Share of rows without a value, by the unit column that says so."""
    return 0.0 if says is None else float(np.clip((1 + means[says]) / 2, 0, 0.95))

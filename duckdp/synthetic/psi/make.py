"""Rows from a release of ``method := 'psi'``: points of the ellipsoid, weighed by a linear program. Post-processing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from duckdp.core.watch import Watch
from duckdp.errors import InternalError
from duckdp.synthetic.lp.make.interior import fit_distribution
from duckdp.synthetic.psi.released import CLASSES, Ellipsoid
from duckdp.synthetic.sample import draw_points
from duckdp.synthetic.unit.features import ONE, Features, Floats
from duckdp.synthetic.unit.finish import Columns, complete_rows, decode_rows, open_rows, shape_of_rows
from duckdp.synthetic.unit.kept import Kept
from duckdp.synthetic.unit.layout import UnitColumns
from duckdp.synthetic.unit.request import Request
from duckdp.synthetic.unit.uniforms import normals, uniforms
from duckdp.synthetic.unit.unit_rows import UnitRows

POINTS = 2000  # of the ellipsoid, columns of the linear program
DISTANCE = "rms distance of its moments"
open_table, shape = open_rows, shape_of_rows


def complete(raw: dict[str, Any], watch: Watch) -> dict[str, Any]:
    """The payload with its rows; see ``methods.Make``."""
    return complete_rows(raw, watch, CLASSES, _make, listed=False)


def _make(units: UnitColumns, kept: Kept, watch: Watch) -> tuple[Columns, float]:
    if not isinstance(kept.released, Ellipsoid):
        raise InternalError("a release of another method")
    watch.tell("rows", 0.0)
    return decode_rows(units, kept, make_psi_rows(kept.request, kept.released))


def make_psi_rows(request: Request, out: Ellipsoid) -> UnitRows:
    """Rows from released figures: draws from the weighed points."""
    features, means = Features(dimensions=request.columns, factors=(ONE,)), out.means.means
    points = _ellipsoid(np.clip(means, -1, 1), out.basis, out.radii)
    matrix = np.vstack([np.ones(len(points)), features.rows(points).T])
    found = fit_distribution(matrix, np.append(1.0, means))
    rows = points[draw_points(found.weights, request.rows)]
    misfit = float(np.sqrt(np.mean((features.means(rows) - means) ** 2)))
    return UnitRows(unit=rows, misfit=misfit)


def _ellipsoid(centre: Floats, directions: Floats, radii: Floats) -> Floats:
    """Uniform points of the ellipsoid, clipped to the box. Radii: square roots of eigenvalues, times sqrt(k + 2)."""
    k = len(radii)
    normal = normals(POINTS, k)
    ball = normal / np.linalg.norm(normal, axis=1, keepdims=True) * uniforms(POINTS, 1) ** (1 / k)
    return np.asarray(np.clip(centre + (ball * radii * math.sqrt(k + 2)) @ directions.T, -1, 1))

"""NULLs of synthetic rows in their released shares: post-processing of the patterns that were bought.

Patterns that noise alone may have made count as absent, so that columns without NULLs rarely get any.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.errors import CatalogError
from duckdp.smooth.axes import Floats
from duckdp.synthetic.sample import Bytes, draw_points
from duckdp.synthetic.unit.completeness import SPURIOUS


def shares(released: dict[str, Any]) -> Floats:
    """Shares of the patterns, float[2^k], sum 1; pattern 0 is a row without a NULL.

    Raises:
        CatalogError: C105, damaged.
    """
    try:
        counts = np.array([float(c) for c in released["counts"]])
        scale, patterns = float(released["scale"]), 1 << len(released["columns"])
    except (ValueError, TypeError, KeyError):
        counts, scale, patterns = np.zeros(0), 0.0, 1
    if len(counts) != patterns or not np.isfinite(counts).all():
        raise CatalogError("C105", "the stored synthetic table is damaged.")
    kept = np.where(counts < doubt(patterns) * scale, 0.0, counts)
    return np.asarray(kept / kept.sum() if kept.sum() > 0 else np.eye(1, patterns)[0])


def doubt(patterns: int) -> float:
    """Scales of Laplace noise that none of so many patterns reaches by noise alone, but with chance ``SPURIOUS``."""
    return math.log(patterns / (2 * SPURIOUS))


def give_missing(columns: dict[str, NDArray[Any]], released: dict[str, Any], source: Bytes) -> dict[str, NDArray[Any]]:
    """Rows with their NULLs, in the released shares to within one row each; rows are chosen at random.

    Args:
        columns: values by column name, all of one length.
        released: of ``buy.null_patterns.MissingPlan.release``.
        source: of randomness.
    """
    rows = len(next(iter(columns.values())))
    pattern = draw_points(shares(released), rows, source, purpose="missing")
    found = dict(columns)
    for k, name in enumerate(released["columns"]):
        here = (pattern >> k & 1).astype(bool)
        if here.any():
            found[name] = found[name].astype(object)
            found[name][here] = None
    return found

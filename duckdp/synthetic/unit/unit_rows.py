"""Rows in unit columns, and their columns of two values or of one value of many rounded back to -1 and 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.uniforms import uniforms


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitRows:
    """Synthetic rows in unit columns: public.

    Attributes:
        unit: float[m, d] in [-1, 1]; a label column holds -1 and 1.
        misfit: root mean square distance of its moments from the wanted ones.
    """

    unit: Floats
    misfit: float


def round_groups(unit: Floats, groups: list[list[int]]) -> Floats:
    """One-hot columns back to one 1 and otherwise -1 per group, by chances (1 + u) / 2 scaled to sum 1.

    Rows are visited in random order and choose with equispaced levels, so shares are kept to about a row.
    """
    found, rows = unit.copy(), len(unit)
    for group in groups:
        chances = np.maximum(1e-9, 1 + unit[:, group])
        cumulated = np.cumsum(chances / chances.sum(axis=1, keepdims=True), axis=1)
        levels = (np.argsort(uniforms(rows, 1)[:, 0]) + 0.5) / rows
        at = np.minimum((levels[:, None] > cumulated).sum(axis=1), len(group) - 1)
        found[:, group] = -1.0
        found[np.arange(rows), np.array(group)[at]] = 1.0
    return found


def round_signs(unit: Floats, columns: list[int]) -> Floats:
    """Columns of two values back to -1 and 1, each by one offset: m (1 + mean) / 2 of them are 1, to within one row."""
    found = unit.copy()
    offsets = uniforms(1, len(columns))[0] if columns else np.zeros(0)
    orders = np.argsort(uniforms(len(unit), len(columns)), axis=0) if columns else np.zeros((0, 0), dtype=np.intp)
    for k, column in enumerate(columns):
        chance = (1 + unit[orders[:, k], column]) / 2
        reached = np.floor(np.cumsum(chance) + offsets[k])
        up = np.diff(reached, prepend=np.floor(offsets[k])) > 0
        found[orders[:, k], column] = np.where(up, 1.0, -1.0)
    return found

"""The part of a basis that a function of some of its columns needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from duckdp.smooth.axes import Axis, Floats
from duckdp.smooth.basis import Basis, Indices
from duckdp.smooth.fit.interpolation import Rule, rule_for


@dataclass(frozen=True, eq=False)
class Part:
    """Functions of a basis that are constant in all but some columns.

    Attributes:
        axes: these columns, in the basis' order.
        rows: int[S], places of the functions in the basis.
        indices: int16[S, k], their degrees in these columns.
    """

    axes: tuple[Axis, ...]
    rows: NDArray[np.int64]
    indices: Indices

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """How each column is interpolated."""
        return tuple(rule_for(axis) for axis in self.axes)

    @property
    def degrees(self) -> tuple[int, ...]:
        """Functions per column of the enclosing tensor set."""
        return tuple(axis.degree for axis in self.axes)

    def select(self, tensor: Floats) -> Floats:
        """Coefficients of the part's functions from those of the enclosing tensor set: float[n, S]."""
        if not self.axes:
            return tensor.reshape(len(tensor), 1)
        return np.asarray(tensor[(slice(None), *self.indices.T.astype(np.int64))])

    def tensor(self, kept: Floats) -> Floats:
        """The inverse, zero elsewhere: float[n, t_1, ..., t_k]."""
        found = np.zeros((len(kept), *self.degrees))
        found[(slice(None), *self.indices.T.astype(np.int64))] = kept if self.axes else kept[:, 0]
        return found


def part_of(basis: Basis, names: frozenset[str]) -> Part:
    """The functions of the named columns."""
    return _part_of(basis, tuple(i for i, axis in enumerate(basis.axes) if axis.name in names))


@lru_cache(maxsize=64)
def _part_of(basis: Basis, chosen: tuple[int, ...]) -> Part:
    others = [i for i in range(basis.dimensions) if i not in chosen]
    rows = np.flatnonzero(~np.any(basis.indices[:, others] > 0, axis=1))
    return Part(tuple(basis.axes[i] for i in chosen), rows, basis.indices[rows][:, list(chosen)])

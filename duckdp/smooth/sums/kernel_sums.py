"""Exact sums of kernels (mechanisms/kernels.py), made in whole numbers of the exact sums of a basis.

With M the exact sums of ``moments``, in units of 2^-f, and B the matrix from functions to kernels (of several columns a
Kronecker product), rounded to multiples of 2^-60: S = B M, each entry rounded to the grid once.

Privacy:      l1 of :meth:`KernelSums.l1` bounds the change of S between neighbours, whatever the rows are.
Assumes:      of ``MomentPlan`` where ``relative``: a row that weighs W adds to M, before its total is rounded to the
              grid, a vector q with |q_r - W Phi_r| <= W e_r, Phi the functions at a point of [-1, 1]^d that lies at one
              of the values where these are listed; the weights of one unit add up to at most max_rows 2^f.
Proof sketch: R functions and as many kernels; s_i the largest singular value of the rounded matrix B_i of column i. One
              row adds B q = B W Phi + B (q - W Phi). Exact kernels have l1 norm 1 at every point (mechanisms), and an
              l1 norm of Kronecker products of vectors is the product of theirs; entries that are off by at most E make
              prod (1 + t_i^2 E) of it. A listed value's place u_j is off by a rounding: T_r moves by at most
              r^2 2^-53, added to e_r. By Cauchy and Schwarz the second term has at most sqrt(R) prod s_i W |e|_2. So
              a unit's rows add W (1 + excess), W = max_rows 2^f. Rounding the totals M moves each coordinate of their
              change by less than 1, hence S by less than sqrt(R) prod s_i sqrt(R); rounding S by less than 1 each.
              ADD_REMOVE: one such vector comes or goes. REPLACE: one goes and one comes (dropped rows add nothing):
              twice the first part; the roundings are of the whole change, and stay.
Numerics:     Python's integers: sums of any size. E is ENTRY_ERROR times the entry's bound (at most 2), and 2^-61 of
              rounding. What floats compute here is rounded up by a millionth; rounding errors of singular values are
              below 10^-12 of them. A double times 2^60 is exact, and Python rounds it to a whole number exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from duckdp.core.types import Neighbours
from duckdp.errors import InternalError
from duckdp.mechanisms.kernels import ENTRY_ERROR, ColumnKernels, Floats
from duckdp.smooth.product_kernels import Kernels, kernels_of_basis
from duckdp.smooth.sums.moments import MomentPlan

_BITS = 60  # fraction of the integer matrices
_OFF = 4 * ENTRY_ERROR  # of an entry, rounded, times the entry's bound
_ABOVE = 1 + 1e-6  # floats that bound something are rounded up by this


@dataclass(frozen=True, kw_only=True)
class KernelSums:
    """Sums of kernels of a basis whose exact sums are planned.

    Attributes:
        kernels: of the basis.
        moments: how the sums of the basis are computed.
    """

    kernels: Kernels
    moments: MomentPlan

    def collect(self, exact: Sequence[int]) -> list[int]:
        """Sums of all kernels, int[R] in units of 2^-bits, from the exact sums of all functions: private."""
        return _exactly(self.kernels, exact, "to_kernels")

    def functions(self, noisy: Sequence[int]) -> list[int]:
        """Sums of all functions from noisy sums of all kernels, int[R] in units of 2^-bits: post-processing."""
        return _exactly(self.kernels, noisy, "to_functions")

    def l1(self, neighbours: Neighbours) -> int:
        """Bound of the l1 change of :meth:`collect` between neighbours, in units of 2^-bits.

        Raises:
            InternalError: no bound is known, a relation without one among them.
        """
        if not self.moments.relative or neighbours not in (Neighbours.ADD_REMOVE, Neighbours.REPLACE):
            raise InternalError("no sensitivity for sums of kernels")
        vectors = 2 if neighbours is Neighbours.REPLACE else 1
        unit = self.moments.max_rows << self.moments.bits
        size = self.kernels.size
        rounding = math.ceil(math.sqrt(size) * self._spread) + size
        return vectors * (unit + math.ceil(unit * Fraction(self.excess))) + rounding

    @property
    def excess(self) -> float:
        """By how much the l1 norm of what a row adds may be above its weight, as a share of that."""
        entries = math.prod(1 + t**2 * _OFF for t in self.kernels.shape) - 1
        return _ABOVE * (entries + self._spread * float(np.linalg.norm(self._errors)))

    @property
    def row_error(self) -> float:
        """What going to kernels and back adds to the error of one function at one row.

        Entry (r, s) of the product of the two rounded matrices of a column is off by at most the sum over its t terms
        of a <= max |A| <= (t + 1) / 2 or 1 times the error of the other factor, and the other way round.
        """
        off = [3 * t**2 * float(np.abs(c.to_functions).max()) * _OFF for t, c in self._columns]
        return _ABOVE * (math.prod(1 + each for each in off) - 1)

    @property
    def _columns(self) -> list[tuple[int, ColumnKernels]]:
        return list(zip(self.kernels.shape, self.kernels.columns, strict=True))

    @property
    def _spread(self) -> float:
        """What a vector of l2 norm 1 may come to in l1: sqrt(R) times the rounded matrix' largest singular value."""
        each = [float(np.linalg.norm(c.to_kernels, 2)) + t * _OFF for t, c in self._columns]
        return _ABOVE * math.prod(each) * math.sqrt(self.kernels.size)

    @property
    def _errors(self) -> Floats:
        """e_r of the proof: float[R]."""
        basis, levels = self.moments.basis, self.moments.level_errors
        places = sum((axis.degree - 1) ** 2 for axis in basis.axes if axis.values is not None) * 2.0**-52
        each = np.array(levels)[basis.levels] if levels else np.full(basis.size, self.moments.row_error)
        return np.asarray(each + places, dtype=np.float64)


def plan_kernel_sums(moments: MomentPlan) -> KernelSums | None:
    """Sums of the kernels of a basis; none where it has none, or where no bound of their change is known."""
    kernels = kernels_of_basis(moments.basis)
    return None if kernels is None or not moments.relative else KernelSums(kernels=kernels, moments=moments)


def _exactly(kernels: Kernels, values: Sequence[int], name: str) -> list[int]:
    """A product with the rounded matrices, exact but for one rounding at the end."""
    matrices = {id(c): _whole(getattr(c, name)) for c in kernels.columns}
    found = kernels.along(np.array([list(values)], dtype=object), lambda column: matrices[id(column)])
    shift = _BITS * len(kernels.columns)
    return [(int(value) + (1 << (shift - 1))) >> shift for value in found[0].tolist()]


def _whole(matrix: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.object_]]:
    """A matrix in units of 2^-60, of whole numbers."""
    whole = np.empty(matrix.shape, dtype=object)
    whole[...] = [[round(value * 2.0**_BITS) for value in row] for row in matrix.tolist()]
    return whole

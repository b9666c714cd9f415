"""A summary of each category and of all rows, from one release: public; whatever is done with it is free.

Released are the sums M[k, r] over T_k(u_by) Phi_r of a joint summary, ``by`` being a column of G listed values, and for
a share of the charge the sums W[r] over Phi_r of all rows once more. With A the inverse of T_k at the places of the
values, sums of category g are S[g, r] = sum_k A[g, k] M[k, r], and those of all rows M[0, r] or W[r]. Both are made one
by weighted least squares, category by category alike::

    all rows     M[0, r] + m_r (W[r] - M[0, r]),             m_r = V_r / (V_r + V'_r), V, V' the noise's variances
    category g   S[g, r] + m_r (W[r] - M[0, r]) / G

Any m_r gives the right mean, and categories add up to all rows; this one has the least variance where the noise of the
S[g, r] is alike and independent. Every sum is a combination of two independent noises of known laws.

Numerics:     A and m_r are floats; what they err by, times the largest sum, is in the error of a row: 2^-40.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from duckdp.catalog.table import Scalar
from duckdp.core.jointbars import joint_factor
from duckdp.core.kernelbars import Terms, summed_half_widths
from duckdp.errors import CatalogError, DuckDPError, InternalError, ParameterError
from duckdp.smooth.axes import Floats
from duckdp.smooth.basis import chebyshev
from duckdp.smooth.grouped import named
from duckdp.smooth.kernel_noise import KernelNoise
from duckdp.smooth.summary import SmoothSummary, make_basis

FORMAT = 1  # of the stored text
MIXED = "mixed_summary"  # its first word
_SLACK = 2.0**-40  # of a row, that floats may err by


@dataclass(frozen=True, eq=False)
class PooledNoise:
    """The law of combinations of two independent noises.

    Attributes:
        laws: of each release.
        matrices: float[n_p, R]: what a sum is in the noisy sums of each, in their grid steps.
    """

    laws: tuple[KernelNoise, ...]
    matrices: tuple[Floats, ...]

    @property
    def family(self) -> str:
        """The name of both laws."""
        return "kernels"

    @property
    def size(self) -> int:
        """How many sums are noisy, R."""
        return int(self.matrices[0].shape[1])

    @property
    def scales(self) -> tuple[float, ...]:
        """The scales of all laws."""
        return tuple(scale for law in self.laws for scale in law.scales)

    @cached_property
    def deviations(self) -> Floats:
        """Standard deviation of every noisy sum, float[R]."""
        return self.standard_errors(np.eye(self.size))

    @property
    def deviation(self) -> float:
        """The largest of :attr:`deviations`."""
        return float(self.deviations.max(initial=0.0))

    def standard_error(self, coefficients: Floats) -> float:
        """Standard deviation of a combination, in units of the coefficients times grid steps."""
        return float(self.standard_errors(np.asarray(coefficients)[None])[0])

    def standard_errors(self, coefficients: Floats) -> Floats:
        """As :meth:`standard_error`, of every row: float[m] for float[m, R]."""
        each = [law.standard_errors(own) for law, own in self._parts(coefficients)]
        return np.asarray(np.sqrt(np.sum(np.square(each), axis=0)))

    def half_width(self, coefficients: Floats, level: float) -> float:
        """Level-quantile of the absolute value of a combination."""
        return float(self.half_widths(np.asarray(coefficients, dtype=np.float64)[None], level)[0])

    def half_widths(self, coefficients: Floats, level: float) -> Floats:
        """As :meth:`half_width`, of every row: float[m] for float[m, R]."""
        largest = np.max(np.abs(coefficients), axis=1, initial=0.0)
        scaled = coefficients / np.where(largest > 0, largest, 1.0)[:, None]
        return np.asarray(largest * summed_half_widths(self._terms(scaled), level))

    def joint_factor(self, coefficients: Floats, level: float) -> float:
        """At how many standard deviations the error bars of all rows of float[m, R] hold together (``jointbars``)."""
        terms = self._terms(coefficients)
        widths = [t.laplace.shape[1] + t.cube.shape[1] for t in terms]
        deviations = np.concatenate([law.drawn_deviations for law in self.laws])
        both = np.concatenate([np.concatenate([t.laplace, t.cube], axis=1) for t in terms], axis=1)

        def draw(u: Floats) -> Floats:
            starts = np.cumsum([0, *(w + 1 for w in widths)])
            parts = zip(self.laws, starts[:-1], starts[1:], strict=True)
            return np.concatenate([law.simulated(u[:, a:b]) for law, a, b in parts], axis=1)

        return joint_factor(both, deviations, draw, sum(widths) + len(widths), level)

    def steps(self, coefficients: Floats) -> Floats:
        """What one grid step in every noisy figure may come to: float[m]."""
        return np.asarray(np.sum([law.steps(own) for law, own in self._parts(coefficients)], axis=0))

    def _terms(self, coefficients: Floats) -> list[Terms]:
        return [law.terms(own) for law, own in self._parts(coefficients)]

    def _parts(self, coefficients: Floats) -> list[tuple[KernelNoise, Floats]]:
        return [(law, coefficients @ matrix.T) for law, matrix in zip(self.laws, self.matrices, strict=True)]


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledSummary(SmoothSummary):
    """One category's summary, or that of all rows, as combinations of what was released.

    Attributes:
        pooled: its sums, float[R].
        law: of their noise, in units of 2^-bits.
        errors: bound on |computed - exact| of each function at one row, float[R].
    """

    pooled: Floats
    law: PooledNoise
    errors: Floats

    @property
    def counts_exactly(self) -> bool:
        """Whether rows that weigh 1 add exactly 1 to the first sum: categories are combinations of several."""
        return False

    @cached_property
    def sums(self) -> Floats:
        """Noisy sums, float[R]; the first is the (weighted) number of rows."""
        return self.pooled

    @cached_property
    def row_errors(self) -> Floats:
        """Bound on |computed - exact| of each function at one row, float[R]."""
        return self.errors

    @cached_property
    def noise(self) -> Any:
        """The law of the noise, in units of 2^-bits."""
        return self.law

    def dump(self) -> str:
        """No text of its own; raises."""
        raise ParameterError("P107", "category", None, "has no file of its own. Export the summary of all categories.")


@dataclass(frozen=True, kw_only=True, eq=False)
class MixedSummary:
    """What was released: a joint summary over a listed column and others, and one over the others alone.

    Attributes:
        joint: the sums of all categories; its first column is the one of the categories.
        whole: the sums of all rows, or None where the joint one has the whole charge.
        epsilon_nano: of both together, in 1e-9.
    """

    joint: SmoothSummary
    whole: SmoothSummary | None
    epsilon_nano: int

    @property
    def values(self) -> tuple[Scalar, ...]:
        """The values of the categories' column."""
        return self.joint.basis.axes[0].values or ()

    def of(self, category: str | None) -> PooledSummary:
        """The summary of a category, by its value as text, or None: of all rows.

        Raises:
            ParameterError: P107, not a category.
        """
        if category is None:
            return self._view(np.eye(1, len(self.values))[0], 1.0)
        place = named(self.joint.columns[0], self.values, category)
        return self._view(self._inverse[place], 1.0 / len(self.values))

    def dump(self) -> str:
        """The whole of it as canonical JSON: equal texts for equal contents."""
        whole = None if self.whole is None else self.whole.dump()
        raw = {"kind": MIXED, "format": FORMAT, "joint": self.joint.dump(), "whole": whole}
        return json.dumps({**raw, "epsilon_nano": self.epsilon_nano}, sort_keys=True, separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> MixedSummary:
        """The inverse of :meth:`dump`.

        Raises:
            CatalogError: C105, damaged or from another version.
        """
        try:
            raw = json.loads(text)
            if raw["kind"] != MIXED or raw["format"] != FORMAT or type(raw["epsilon_nano"]) is not int:
                raise ValueError  # noqa: TRY301
            whole = None if raw["whole"] is None else SmoothSummary.load(raw["whole"])
            found = cls(joint=SmoothSummary.load(raw["joint"]), whole=whole, epsilon_nano=raw["epsilon_nano"])
            found._check()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, DuckDPError):
            message = "the stored summary is damaged or was written by another version of duckdp. Buy it anew."
            raise CatalogError("C105", message) from None
        return found

    def _check(self) -> None:
        axes, whole = self.joint.basis.axes, self.whole
        if len(axes) < 2 or len(self.values) < 2 or self.joint.family != "kernels" or self.epsilon_nano < 1:
            raise ValueError
        if whole is not None and (whole.basis.axes != axes[1:] or whole.family != "kernels"):
            raise ValueError

    @cached_property
    def _inverse(self) -> Floats:
        """A of the module's docstring."""
        axis = self.joint.basis.axes[0]
        return np.asarray(np.linalg.inv(chebyshev(axis.nodes, axis.degree).T), dtype=np.float64)

    @cached_property
    def _weights(self) -> Floats:
        """What m_r is, float[R]."""
        size = self.joint.basis.size // len(self.values)
        if self.whole is None:
            return np.zeros(size)
        ours, theirs = (_variances(s)[:size] for s in (self.joint, self.whole))
        return np.asarray(np.where(ours + theirs > 0, ours / np.where(ours + theirs > 0, ours + theirs, 1.0), 0.0))

    def _view(self, row: Floats, share: float) -> PooledSummary:
        """A combination of categories, with its share of what the sums of all rows tell."""
        joint, whole = self.joint, self.whole
        size = joint.basis.size // len(self.values)
        of_joint: Floats = np.kron(row[:, None], np.eye(size)).astype(np.float64)  # float[G R, R]
        of_joint[:size] -= share * np.diag(self._weights)
        parts: list[tuple[SmoothSummary, Floats]] = [(joint, of_joint)]
        if whole is not None:
            parts.append((whole, share * np.diag(self._weights)))
        pooled = np.sum([s.sums @ matrix for s, matrix in parts], axis=0)
        errors = np.sum([s.row_errors @ np.abs(matrix) for s, matrix in parts], axis=0) + _SLACK
        base = whole or joint
        columns = joint.columns[1:]
        basis = make_basis(columns, joint.basis.degree, "tensor", None, planned=joint.planned)
        laws, matrices = [], []
        for s, matrix in parts:
            if not isinstance(s.noise, KernelNoise):
                raise InternalError("a law that is not of kernels")
            laws.append(s.noise)
            matrices.append(matrix[0 if s.count is None else 1 :] * 2.0 ** (base.bits - s.bits))
        same = {f: getattr(base, f) for f in SmoothSummary.__dataclass_fields__ if f != "ranges"}
        same |= {"basis": basis, "columns": columns, "count": None, "epsilon_nano": self.epsilon_nano}
        return PooledSummary(**same, pooled=pooled, law=PooledNoise(tuple(laws), tuple(matrices)), errors=errors)


def _variances(summary: SmoothSummary) -> Floats:
    """Of every sum's noise, in rows squared."""
    found = np.zeros(summary.basis.size)
    found[0 if summary.count is None else 1 :] = summary.noise.deviations**2
    return np.asarray(found / 4.0**summary.bits)

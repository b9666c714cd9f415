"""A fitted distribution as it is stored, and the rows of a release: the same rows whenever it is read.

A release keeps the distribution rather than the rows: few points of a grid that follows from the summary, with their
weights. Rows are drawn from it with bytes that follow from the release itself (``sample.bytes_of``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from duckdp.errors import CatalogError
from duckdp.synthetic.lp.make.columns import Floats, Integers
from duckdp.synthetic.lp.make.generation import GridDistribution

FOLLOWS = 2.0  # times the expected noise: how far moments may be from those of the release
#: Why the program ended without its own aim reached: its status in ``generation``, in words.
EARLY = {
    "stopped": "its time limit ended it",
    "rounds": "it had done its most rounds",
    "stalled": "rounding errors ended it",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """A distribution on a grid, and how good it is: public.

    Attributes:
        shape: values per column.
        places: int[C], points in C order of the grid, distinct.
        weights: float[C], above 0, sum 1.
        loss: F, the objective.
        bound: no distribution on the grid has a smaller F.
        rounds: of column generation.
        status: why it ended.
        residual: l1 distance of its moments from the wanted ones, as means.
        expected: root mean square of F for the noise of the release alone; 0 where it is not known.
        below: functions per column that it was fitted to, where time did not suffice for all; else 0.
    """

    shape: tuple[int, ...]
    places: Integers
    weights: Floats
    loss: float
    bound: float
    rounds: int
    status: str
    residual: float
    expected: float = 0.0
    below: int = 0

    @property
    def gap(self) -> float:
        """Certified: no distribution has an F that is smaller by more than this share of F."""
        return max(0.0, self.loss - self.bound) / max(self.loss, 1e-300)

    def note(self) -> str:
        """What a reader must know of a fit that ended early, or ""."""
        why, share = EARLY.get(self.status), f"{100 * self.gap:.3g}%"
        if self.below:
            return (
                f"follows its release in functions below degree {self.below} alone: its time limit ended the program; "
                "a stored table's name with rows and a longer time_limit makes it anew from the same release, free"
            )
        if self.expected and self.loss > FOLLOWS * self.expected:
            far = f"{self.loss / self.expected:.3g} times as far as its noise is expected to put them"
            return f"does not follow its release: its moments are {far}; for certain none is closer by over {share}"
        if why is None:
            return ""
        return f"the best fit when {why}: for certain no other is closer by more than {share} of its distance"

    def raw(self) -> dict[str, Any]:
        """Its fields as JSON values, to be stored."""
        return {
            "shape": list(self.shape),
            "places": self.places.tolist(),
            "weights": self.weights.tolist(),
            "loss": self.loss,
            "bound": self.bound,
            "rounds": self.rounds,
            "status": self.status,
            "residual": self.residual,
            "expected": self.expected,
            "below": self.below,
        }

    @classmethod
    def read(cls, raw: Any, shape: tuple[int, ...]) -> Fitted:
        """The inverse of :meth:`raw`, for a grid of that shape.

        Raises:
            CatalogError: C105, damaged, or made on another grid by another version of duckdp.
        """
        try:
            found = cls(
                shape=tuple(raw["shape"]),
                places=np.array(raw["places"], dtype=np.int64),
                weights=np.array(raw["weights"], dtype=np.float64),
                loss=float(raw["loss"]),
                bound=float(raw["bound"]),
                rounds=int(raw["rounds"]),
                status=str(raw["status"]),
                residual=float(raw["residual"]),
                expected=float(raw.get("expected", 0.0)),  # not in releases of earlier versions
                below=int(raw.get("below", 0)),
            )
            found._check(shape)
        except (ValueError, TypeError, KeyError, OverflowError):
            raise CatalogError(
                "C105", "the stored synthetic table is damaged or was written by another version of duckdp."
            ) from None
        return found

    def _check(self, shape: tuple[int, ...]) -> None:
        if self.shape != shape or self.places.ndim != 1 or self.places.shape != self.weights.shape:
            raise ValueError
        inside = len(self.places) and self.places.min() >= 0 and self.places.max() < math.prod(shape)
        if not inside or not (self.weights >= 0).all() or not 0.999 < float(self.weights.sum()) < 1.001:
            raise ValueError


def as_fitted(
    found: GridDistribution, shape: tuple[int, ...], residual: float, *, expected: float = 0.0, below: int = 0
) -> Fitted:
    """A result of column generation, to be stored."""
    return Fitted(
        shape=shape,
        places=np.asarray(np.ravel_multi_index(tuple(found.points.T), shape), dtype=np.int64),
        weights=found.weights,
        loss=found.loss,
        bound=found.bound,
        rounds=found.rounds,
        status=found.status,
        residual=residual,
        expected=expected,
        below=below,
    )


def single_point(shape: tuple[int, ...]) -> Fitted:
    """All mass on the only point of a grid."""
    return Fitted(
        shape=shape,
        places=np.zeros(1, dtype=np.int64),
        weights=np.ones(1),
        loss=0.0,
        bound=0.0,
        rounds=0,
        status="enough",
        residual=0.0,
    )

"""What the analyst asks of a summary, and the basis that stands for what is left open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from duckdp.catalog.table import Column, Table, check_positive
from duckdp.core.types import Neighbours
from duckdp.errors import ParameterError
from duckdp.smooth.basis import MAX_COLUMNS, Shape
from duckdp.smooth.predicted import Asked, Candidate, rank_bases
from duckdp.smooth.sum_noise import Choice

DEFAULT_PRIOR = 2  # derivatives assumed for dividing the budget when no smoothness is given
MOST_PRIOR = 4  # more would starve high degrees


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the analyst asks of a summary; None leaves it to duckdp.

    Attributes:
        smoothness: K, derivatives that later queries have: sets the degree, and the division of the budget.
        degree: t, functions per column, in place of the one from smoothness.
        shape: index set of the basis; "auto" takes that of the least predicted error (``predicted``), and the full
            tensor where there is one column, or degree or smoothness are given.
        order: the most columns that interact.
        weights: "smooth" spends more on low degrees, "uniform" alike on all.
        noise: "auto", "laplace", "cube", "gaussian" or "kernels"; "sums" is "auto" without kernels.
        path: how sums are computed; "auto" takes the fastest.
    """

    smoothness: int | None = None
    degree: int | None = None
    shape: Shape | Literal["auto"] = "tensor"
    order: int | None = None
    weights: str = "smooth"
    noise: Choice | Literal["kernels", "sums"] = "auto"
    path: str = "auto"

    @property
    def prior(self) -> int | None:
        """Exponent of the expected coefficients."""
        if self.weights not in ("smooth", "uniform"):
            raise ParameterError("P107", "weights", self.weights, "must be 'smooth' or 'uniform'.")
        return None if self.weights == "uniform" else min(MOST_PRIOR, self.smoothness or DEFAULT_PRIOR)

    def chooses(self, columns: int) -> bool:
        """Whether the basis is that of the least predicted error."""
        return self.shape == "auto" and columns > 1 and self.degree is None and self.smoothness is None


def settled(
    table: Table,
    columns: tuple[Column, ...],
    wishes: Wishes,
    epsilon_nano: int,
    delta_atto: int,
    neighbours: Neighbours,
    groups: int,
) -> tuple[Wishes, tuple[Candidate, ...]]:
    """The wishes with the basis of the least predicted error where that is asked for, and the ranking."""
    if not wishes.chooses(len(columns)):
        return wishes, ()
    if wishes.order is not None:
        check_positive("interactions", wishes.order, MAX_COLUMNS)
    asked = Asked(
        columns=columns,
        rows=max(1, (table.expected_rows or table.row_cap) // groups),
        max_rows=table.max_rows if table.unit_key is not None else 1,
        epsilon_nano=epsilon_nano,
        delta_atto=delta_atto,
        neighbours=neighbours,
        prior=wishes.prior,
        noise="auto" if wishes.noise == "sums" else wishes.noise,
        kernels=wishes.noise in ("auto", "kernels") and groups == 1 and table.unit_key is None,
        order=wishes.order,
    )
    ranked = rank_bases(asked)
    if not ranked:  # the full tensor refuses the columns in its own words
        return wishes, ()
    best = ranked[0]
    return replace(wishes, shape=best.shape, order=best.order, degree=best.degree), ranked

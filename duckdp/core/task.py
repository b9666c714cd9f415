"""What every private release is, whatever its mechanism: a cost, one query over private rows, and its noise.

The session treats all of them alike: charge ``loss`` durably, run ``query`` with the charge, let ``release`` add the
noise, store the payload, hand it out. A task is built from public figures only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from duckdp.core.types import Loss


@dataclass(frozen=True, kw_only=True)
class PrivateQuery:
    """SQL of our own for the private instance.

    Attributes:
        sql: one SELECT, printed from plan objects.
        parameters: values of $1, $2, ...
        rows: the most rows that may cross; each of them is noised. None: streamed to something that keeps none of
            them (keys that must pass a threshold; the points of a large summary, added up as they come).
        arrays: rows cross in batches, each a tuple of NumPy arrays of DOUBLE, one per column, NULL as NaN.
    """

    sql: str
    parameters: tuple[Any, ...] = ()
    rows: int | None = 1
    arrays: bool = False


class Task(Protocol):
    """One private release before it happens."""

    @property
    def canonical(self) -> str:
        """Text that is equal for equal questions: plan, table declaration, mechanism, epsilon and delta."""

    @property
    def loss(self) -> Loss:
        """What it costs."""

    @property
    def mechanism(self) -> str:
        """Name of the mechanism, for the ledger."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger; JSON values."""

    def query(self, salt: int) -> PrivateQuery:
        """The private read; ``salt`` keys the hashes that bound contributions."""

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Noise the exact rows; returns the payload (JSON) that may leave and is stored."""


@runtime_checkable
class StagedTask(Protocol):
    """A private release of several reads under one charge, each shaped by what was released before it."""

    @property
    def canonical(self) -> str:
        """As for a task."""

    @property
    def loss(self) -> Loss:
        """What all stages cost together."""

    @property
    def mechanism(self) -> str:
        """Name of the mechanism, for the ledger."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger; JSON values."""

    def release_stages(self, read: Callable[[PrivateQuery], Iterable[tuple[Any, ...]]], salt: int) -> str:
        """Read, noise, read again; returns the payload (JSON)."""

"""A figure that grows with time, in bounded memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

MOST = 4000  # points that are kept; a page draws some hundreds


class Curve:
    """A running total over time: amounts come in the order of time (or nearly: clocks are set back).

    Of more than :data:`MOST` points every second one is dropped; the totals at those that stay are exact.
    """

    def __init__(self) -> None:
        self._at: list[float] = []
        self._total: list[int] = []

    def add(self, at: float, amount: int) -> None:
        """Add an amount that came at a moment.

        Args:
            at: seconds since 1970; what is before the last one counts as then.
            amount: whole units, at least 0.
        """
        last = self._at[-1] if self._at else at
        total = self.total + amount
        if self._at and at <= last:
            self._total[-1] = total
            return
        self._at.append(at)
        self._total.append(total)
        if len(self._at) > MOST:
            del self._at[-2::-2], self._total[-2::-2]

    @property
    def total(self) -> int:
        """The sum of all amounts until now."""
        return self._total[-1] if self._total else 0

    def at(self, moments: Iterable[float]) -> list[int]:
        """The total of what came until each moment."""
        places = (bisect_right(self._at, moment) for moment in moments)
        return [self._total[place - 1] if place else 0 for place in places]

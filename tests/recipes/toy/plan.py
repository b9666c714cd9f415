"""How the toy spends its charge: all of it on one count."""

from __future__ import annotations

from fractions import Fraction

from duckdp.core.types import NANO, Neighbours
from duckdp.errors import ParameterError
from duckdp.synthetic.asked import Asked


def share(asked: Asked) -> Fraction:
    """Epsilon of the count.

    Raises:
        ParameterError: P107, a table whose number of rows is public, or units of several rows.
    """
    if asked.neighbours is Neighbours.REPLACE or asked.table.unit_key is not None:
        raise ParameterError("P107", "method", "toy", "is for rows that are added or taken.")
    return Fraction(asked.epsilon_nano, NANO)

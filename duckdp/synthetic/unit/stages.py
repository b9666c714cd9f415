"""What one stage of a release of moments leaves: public, and stored as it stands.

The classes that a stored release may consist of keep their names and fields: stored texts name them (``packed``).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from duckdp.synthetic.unit.features import Floats

Bought = tuple[str, int, Fraction]
"""A stage that was paid for: its name, how many functions or tables it has, and its share of the charge."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Noisy:
    """Released means of one stage: public.

    Attributes:
        means: float[R], noisy sums over the (noisy or public) number of rows.
        deviation: standard deviation of each, the count taken as exact.
        family: "cube", "gaussian" or "laplace".
        count: R of the stage, of which these may be a part.
    """

    means: Floats
    deviation: float
    family: str
    count: int

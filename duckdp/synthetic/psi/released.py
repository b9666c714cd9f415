"""What ``method := 'psi'`` releases: public."""

from __future__ import annotations

from dataclasses import dataclass

from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.stages import Bought, Noisy


@dataclass(frozen=True, kw_only=True, eq=False)
class Ellipsoid:
    """Noisy means, and k directions float[d, k] with their radii float[k]: roots of the second moments along them."""

    means: Noisy
    basis: Floats
    radii: Floats
    stages: tuple[Bought, ...]


CLASSES = (Ellipsoid,)
"""What a stored release consists of."""

"""What ``method := 'tree'`` releases: all that its rows are made from. Public."""

from __future__ import annotations

from dataclasses import dataclass, field

from duckdp.synthetic.tree.bins import Ints
from duckdp.synthetic.tree.scales import Scale
from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.stages import Bought


@dataclass(frozen=True, kw_only=True, eq=False)
class Grown:
    """A tree whose stages are bought; fields as in ``make.forest.Tree``.

    Releases of earlier versions do not say which columns are complete: none was taken to be; nor scales: their
    means are of unit columns; nor of spikes: steps hold them; nor what their error bars would need (``rows`` is 0,
    ``pair_taken`` empty, or ``null_shares`` empty: noisy shares of NULLs of complete columns, which no row shows).
    """

    means: dict[int, float]
    mean_deviation: float
    shares: list[Floats]
    merges: list[Ints]
    pairs: dict[tuple[int, int], Floats]
    stages: list[Bought]
    complete: tuple[int, ...] = ()
    scales: dict[int, Scale] = field(default_factory=dict)
    means_apart: bool = False
    cuts: dict[int, float] = field(default_factory=dict)
    mean_bound: float = 0.0
    missed: dict[int, float] = field(default_factory=dict)
    product_scales: dict[int, Scale] = field(default_factory=dict)
    products: Floats | None = None
    product_deviation: float = 0.0
    product_bound: float = 0.0
    product_squared: bool = False
    product_apart: bool = False
    rows: float = 0.0
    deviation: float = 0.0
    pair_deviations: dict[tuple[int, int], float] = field(default_factory=dict)
    pair_taken: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)
    functions: dict[tuple[int, int], Ints] = field(default_factory=dict)
    flat: dict[int, tuple[int, ...]] = field(default_factory=dict)
    spiked: bool = False
    null_shares: dict[int, float] = field(default_factory=dict)
    laws: dict[int, Floats] = field(default_factory=dict)


CLASSES = (Grown,)
"""What a stored release consists of."""

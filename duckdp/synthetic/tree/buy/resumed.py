"""By which plan a purchase goes on that was begun: its question names none, and another purpose or version has another.

What the stages left tells. The first names its plan; those of earlier versions do not, and are told by what they cost,
what they are of and, where both plans buy as many means for as much, by which reading of the means agrees with the
histograms. All of it is public: nothing is drawn before the stored stages fit a plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from duckdp.errors import InternalError
from duckdp.synthetic.tree.buy.counts import Measured, ReadCounts, measure
from duckdp.synthetic.tree.contingency import Tables
from duckdp.synthetic.tree.make.forest import BIAS, Tree
from duckdp.synthetic.tree.scales import PLAIN, Scale, bin_values
from duckdp.synthetic.tree.spending import TreePlan
from duckdp.synthetic.unit.buy.purse import Keep, Purse
from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.stages import Noisy


class Unfit(InternalError):
    """The stored stages are not those of this plan."""

    def __init__(self) -> None:
        super().__init__("the stored stages are those of another plan")


class Replayed:
    """Stages as they are stored or drawn, which can be gone through once more.

    Attributes:
        drawn: whether one of them was drawn now.
    """

    def __init__(self, keep: Keep) -> None:
        self._keep, self._found, self._at = keep, list[Any](), 0
        self.drawn = False

    def __call__(self, draw: Callable[[], Any]) -> Any:
        """As ``Keep``."""

        def drawn() -> Any:
            self.drawn = True
            return draw()

        if self._at == len(self._found):
            self._found.append(self._keep(drawn))
        self._at += 1
        return self._found[self._at - 1]

    def rewind(self) -> None:
        """Begin again with the first."""
        self._at = 0


def begun_by(plans: Sequence[TreePlan], name: str | None, spent: Fraction) -> TreePlan:
    """The first plan that a first stage of this name and cost may be of; raises Unfit where there is none."""
    for plan in plans:
        always = plan.values or plan.normed or plan.shrunk or plan.bounded  # such plans have always been named
        named = name == plan.name or (name is None and not always)
        if plan.ones == spent and named:
            return plan
    raise Unfit


def fits_means(found: Any, count: int) -> bool:
    """Whether a stage is of so many means, with their scales or, from earlier versions, without."""
    noisy = found[0] if isinstance(found, tuple) and len(found) == 2 else found
    return isinstance(noisy, Noisy) and len(noisy.means) == count


def fits_normed(found: Any, count: int) -> bool:
    """Whether a stage is of so many products with a bound on their norm, with their scales and the bound."""
    return isinstance(found, tuple) and len(found) == 3 and fits_means(found[:2], count)


def fits_cuts(found: Any, columns: Sequence[int]) -> bool:
    """Whether a stage says what scaling takes off the means of these columns."""
    return isinstance(found, dict) and list(found) == list(columns)


def with_scales(found: Any, scales: Mapping[int, Scale]) -> tuple[Noisy, dict[int, Scale]]:
    """The means of a stage and what they are of: as it says, else as it would be bought now."""
    return found if isinstance(found, tuple) else (found, dict(scales))


def agreement(tree: Tree, columns: Sequence[int], scales: Mapping[int, Scale], found: Noisy) -> float:
    """Log-likelihood of means, read as of functions of these scales, by the released histograms."""
    total, noise = 0.0, tree.deviation / tree.rows
    for i, mean in zip(columns, found.means, strict=True):
        scale = scales.get(i, PLAIN)
        values = bin_values(tree.binnings[i], scale)
        inside = 0.0 if tree.binnings[i].exact else BIAS / tree.binnings[i].bins / scale[1]
        spread = math.hypot(found.deviation, noise * float(np.linalg.norm(values)), inside)
        gap = float(mean) - float(tree.shares[i] @ values)
        total -= (gap / spread) ** 2 / 2 + math.log(spread)
    return total


def run_stage(purse: Purse, share: Fraction, draw: Callable[[], Any], fits: Callable[[Any], bool]) -> Any:
    """A stage, stored or drawn now; raises Unfit where what is stored is another's, by what it is or what it cost."""
    before = purse.spent
    found = purse.stage(draw)
    if not fits(found) or purse.spent != before + share:
        raise Unfit
    return found


def run_tables(
    tables: Tables, share: Fraction, purse: Purse, read: ReadCounts, name: str = "", before: Tables | None = None
) -> tuple[Measured, str | None]:
    """A stage of tables (``before``: or stored so), and the plan's name that is stored with it, if any: the first's."""

    def draw() -> tuple[list[Floats], float] | tuple[list[Floats], float, str]:
        found = measure(tables, purse, share, read)
        return (found.counts, found.deviation, name) if name else (found.counts, found.deviation)

    def fits(found: Any) -> bool:
        if not isinstance(found, tuple) or not isinstance(found[0], list):
            return False
        return tuple(c.shape for c in found[0]) == tables.shapes

    if name:
        found = purse.stage(draw)
        tables = tables if before is None or fits(found) else before
        if not fits(found):
            raise InternalError("the stored counts are those of other tables")
    else:
        found = run_stage(purse, share, draw, fits)
    counts, deviation, *told = found
    return Measured(tables=tables, counts=counts, deviation=deviation), told[0] if told else None

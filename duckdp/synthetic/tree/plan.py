"""How a tree spends its charge, and how fine its bins are: from public figures only.

Let r be the deviation of a cell if all one-way tables took the whole charge, over the expected rows. Small r: bins are
fine and most of the charge goes to pairs; large r: few bins, few pairs, most of it to single columns, whose error then
outweighs what links of columns add.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TypedDict

from duckdp.synthetic.tree.bins import make_bins
from duckdp.synthetic.tree.contingency import predicted_deviation
from duckdp.synthetic.unit.charge_terms import Terms, quieter_terms
from duckdp.synthetic.unit.layout import UnitColumns
from duckdp.synthetic.unit.request import Request

_BINS = ((5e-5, 80), (4e-4, 40), (0.01, 20), (0.1, 10))  # largest r, bins
_COARSEST = 5  # bins of a number where r is larger
# Of r, a share of the rows:
_CROSSING = 0.03  # up to here "auto" grows a tree (docs/benchmarks.md)
# for broad smooth queries, tuned on the paper's sets:
_TINY = 0.001  # up to here it grows one whatever the columns are
_CALM = 0.005  # below, pairs beyond a tree are bought too
_DIRECT = 0.01  # above, links of numbers with a target are products; up to here domains make a tree the default
_LOUD = 0.1  # up to here a delta makes a tree the default
_EDGES = 0.35  # of 1 / r: pairs that are chosen at most


@dataclass(frozen=True, kw_only=True)
class TreePlan:
    """Shares of the charge; they sum to at most 1.

    Attributes:
        bins: of a number.
        ones, labels, choice, pairs: one-way tables; pairs with the target; choosing pairs; chosen pairs.
        rounds: choices of a pair that joins two parts of the tree.
        means: averages of numbers.
        extra, extra_choice: pairs beyond the tree, and choosing them.
        extra_rounds: how many.
        direct: whether links of numbers with the target are products instead of tables.
        cell: merged bins are so wide that a cell of two of them is expected to hold this many deviations.
    """

    bins: int
    ones: Fraction
    labels: Fraction = Fraction(0)
    choice: Fraction = Fraction(0)
    pairs: Fraction = Fraction(0)
    rounds: int = 0
    means: Fraction = Fraction(0)
    extra: Fraction = Fraction(0)
    extra_choice: Fraction = Fraction(0)
    extra_rounds: int = 0
    cell: float = 0.7
    direct: bool = False

    @property
    def total(self) -> Fraction:
        """The sum of all shares of the purse."""
        return self.ones + self.means + self.labels + self.choice + self.pairs + self.extra + self.extra_choice

    @property
    def shares(self) -> dict[str, Fraction]:
        """By stage, those above 0."""
        return {name: share for name, share in asdict(self).items() if share and isinstance(share, Fraction)}

    def least(self, columns: int) -> list[Fraction]:
        """The smallest shares that anything is bought with, each stage's; 0 for stages that are not bought."""
        return [
            self.ones,
            self.means,
            self.pairs,
            self.extra,
            self.labels / max(1, columns - 1),
            self.choice / max(1, self.rounds),
            self.extra_choice / max(1, self.extra_rounds),
        ]


def tree_terms(request: Request, columns: int) -> Terms:
    """Gaussian or Laplace noise, whichever is smaller for the one-way tables of so many columns, by formula."""
    return quieter_terms(request, lambda terms: predicted_deviation(columns, 1.0, terms))


def prefers_tree(units: UnitColumns, request: Request, *, kernels: bool = False) -> bool:
    """Whether "auto" grows a tree, by r: where it is at most ``_CROSSING``.

    There a tree's one- and two-way histograms are so much better that no other figure outweighs them; beyond, its bins
    drown, and the few moments of ``moments`` are all that can be had.

    For broad smooth queries (``kernels``) never for numbers that are never NULL alone with delta = 0: at any r moments
    answer those two to ten times better. If r is tiny: then tables carry the laws of columns and pairs better than any
    moments. Where half of the columns or more have domains: if r is small. Else with delta > 0, if r is not large or
    there is a target. (With k tables Laplace noise grows as k and Gaussian noise as its root.)
    """
    if not kernels:
        columns = len(units.parts)
        return predicted_deviation(columns, 1.0, tree_terms(request, columns)) <= _CROSSING * request.expected_rows
    columns, choices = len(units.parts), sum(p.form == "choice" for p in units.parts)
    if not choices and not request.delta_atto and not any(p.nullable for p in units.parts):
        return False
    noise = predicted_deviation(columns, 1.0, tree_terms(request, columns)) / request.expected_rows
    if noise <= _TINY:
        return True
    if 2 * choices >= columns:
        return noise <= _DIRECT
    return request.delta_atto > 0 and (noise <= _LOUD or request.target is not None)


def make_tree_plan(request: Request, units: UnitColumns, terms: Terms) -> TreePlan:
    """The plan. ``terms`` tell the relation and the noise."""
    columns = len(units.parts)
    noise = predicted_deviation(columns, 1.0, terms) / request.expected_rows
    bins = next((b for largest, b in _BINS if noise <= largest), _COARSEST)
    inexact = any(not b.exact for b in make_bins(units, bins))
    means = _percent(max(0.02, min(8 * noise, 0.2 + noise, 0.6))) if inexact else Fraction(0)
    rounds = min(columns - 1, int(_EDGES / noise))
    loud = noise > _DIRECT
    if request.target is not None and loud:
        ones, labels = (1 - means) * Fraction(11, 20), (1 - means) * Fraction(1, 3)
        if not rounds:
            ones = 1 - means - labels
        rest = 1 - means - ones - labels
        return TreePlan(bins=bins, ones=ones, means=means, labels=labels, direct=True, **_joining(rest, rounds))
    if columns < 2 or not rounds:
        return TreePlan(bins=bins, ones=1 - means, means=means)
    ones = (1 - means) * _percent(min(0.85, max(0.3, 0.3 + 15 * noise)))
    rest = 1 - means - ones
    labels = rest / 3 if request.target is not None else Fraction(0)
    rest -= labels
    if rounds < columns - 1 or noise >= _CALM:
        return TreePlan(bins=bins, ones=ones, means=means, labels=labels, **_joining(rest, rounds))
    return TreePlan(
        bins=bins,
        ones=ones,
        means=means,
        labels=labels,
        choice=rest / 10,
        pairs=rest * 4 / 10,
        rounds=rounds,
        extra=rest * 4 / 10,
        extra_choice=rest / 10,
        extra_rounds=rounds,
    )


def _joining(rest: Fraction, rounds: int) -> _Joining:
    """A rest of the charge for choosing pairs and their tables."""
    return {"choice": rest / 4, "pairs": rest * 3 / 4, "rounds": rounds} if rounds else _Joining()


def _percent(share: float) -> Fraction:
    return Fraction(round(100 * share), 100)


class _Joining(TypedDict, total=False):
    choice: Fraction
    pairs: Fraction
    rounds: int

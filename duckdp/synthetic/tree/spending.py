"""Shares of a tree's charge, and the public figures they follow from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import TypedDict

from duckdp.synthetic.tree.contingency import predicted_deviation
from duckdp.synthetic.unit.charge_terms import Terms, noise_terms, quieter_terms
from duckdp.synthetic.unit.request import Request

_BINS = ((5e-5, 80), (4e-4, 40), (0.01, 20), (0.1, 10))  # largest r, bins
_STAGE = 0.25  # what a stage of tables has of the charge, about
_COARSEST = 5  # bins of a number where r is larger
# Of r, a share of the rows:
CALM = 0.005  # below, pairs beyond a tree are bought too
DIRECT = 0.01  # above, links of numbers with a target are products
EDGES = 0.35  # of 1 / r: pairs that are chosen at most


@dataclass(frozen=True, kw_only=True)
class TreePlan:
    """Shares of the charge; they sum to at most 1.

    Attributes:
        bins: of a number.
        ones, labels, choice, pairs: one-way tables; pairs with the target; choosing pairs; chosen pairs.
        nulls: NULLs of columns whose one-way table leaves in doubt whether there are any; not in plans of before.
        rounds: choices of a pair that joins two parts of the tree.
        means: averages of numbers.
        products: averages of products of two scaled columns (``scales``).
        extra, extra_choice: pairs beyond the tree, and choosing them.
        extra_rounds: how many.
        direct: whether links of numbers with the target are products instead of tables.
        scaled: whether averages are of scaled columns (``scales``); not in plans of before.
        values, moduli: tables of values of whole numbers (``single_values.Valued``); not in plans of before.
        normed: whether products have a bound on a row's norm (``normed``); not in plans of before.
        chosen: whether columns are added to these by released histograms; not in plans of before.
        shrunk: whether noisy counts of ordered bins are pulled to public laws (``make.shrinking``), from which follows
            what later stages are of, and means reach further (``scales.WIDE``); not in plans of before.
        bounded: whether means have a bound on a row's norm (``buy.averages``), and products with one count NULLs apart
            (``scales``); not in plans of before.
        domains: whether values of domains stand by themselves in pairs where their rows in one cell stand out of the
            noise; not in plans of before.
        piles: whether piles of ordered columns do so too (``make.merging``); not in plans of before.
        cell: merged bins are so wide that a cell of two of them is expected to hold this many deviations.
    """

    bins: int
    ones: Fraction
    nulls: Fraction = Fraction(0)
    labels: Fraction = Fraction(0)
    choice: Fraction = Fraction(0)
    pairs: Fraction = Fraction(0)
    rounds: int = 0
    means: Fraction = Fraction(0)
    products: Fraction = Fraction(0)
    extra: Fraction = Fraction(0)
    extra_choice: Fraction = Fraction(0)
    extra_rounds: int = 0
    cell: float = 0.7
    direct: bool = False
    scaled: bool = False
    values: Fraction = Fraction(0)
    moduli: tuple[tuple[int, int], ...] = ()
    normed: bool = False
    chosen: bool = False
    shrunk: bool = False
    bounded: bool = False
    domains: bool = False
    piles: bool = False

    @property
    def name(self) -> str:
        """Which plan it is, of those that a request can have: stored with what is bought by it."""
        name = "valued" if self.values else "scaled" if self.scaled else "plain"
        name = f"{name}, chosen" if self.chosen else name
        name = f"{name}, normed" if self.normed else name
        name = f"{name}, shrunk" if self.shrunk else name
        name = f"{name}, bounded" if self.bounded else name
        name = f"{name}, domains" if self.domains else name
        name = f"{name}, piles" if self.piles else name
        return f"{name}, counted" if self.nulls else name

    @property
    def total(self) -> Fraction:
        """The sum of all shares of the purse."""
        beside = self.means + self.products + self.labels + self.values + self.nulls
        return self.ones + beside + self.choice + self.pairs + self.extra + self.extra_choice

    @property
    def shares(self) -> dict[str, Fraction]:
        """By stage, those above 0."""
        return {name: share for name, share in asdict(self).items() if share and isinstance(share, Fraction)}

    def least(self, columns: int) -> list[Fraction]:
        """The smallest shares that anything is bought with, each stage's; 0 for stages that are not bought."""
        return [
            self.ones,
            self.nulls,
            self.means,
            self.values,
            self.products,
            self.pairs,
            self.extra,
            self.labels / max(1, columns - 1),
            self.choice / max(1, self.rounds),
            self.extra_choice / max(1, self.extra_rounds),
        ]


class Joining(TypedDict, total=False):
    """Choosing pairs that join two parts of a tree, and their tables."""

    choice: Fraction
    pairs: Fraction
    rounds: int


class Twice(Joining, total=False):
    """The same, and then pairs of columns whatever they join."""

    extra: Fraction
    extra_choice: Fraction
    extra_rounds: int


def joining(rest: Fraction, rounds: int) -> Joining:
    """A rest of the charge for choosing pairs and their tables."""
    return {"choice": rest / 4, "pairs": rest * 3 / 4, "rounds": rounds} if rounds else Joining()


def choosing_twice(rest: Fraction, rounds: int, more: int) -> Twice:
    """A rest of the charge for pairs that join columns, then for others, each with its choices."""
    tenth = rest / 10
    return {
        "choice": tenth,
        "pairs": 4 * tenth,
        "rounds": rounds,
        "extra": 4 * tenth,
        "extra_choice": tenth,
        "extra_rounds": more,
    }


def percent(share: float) -> Fraction:
    """A share in whole percents."""
    return Fraction(round(100 * share), 100)


def tree_terms(request: Request, columns: int) -> Terms:
    """Gaussian or Laplace noise, as was settled; else whichever is smaller for all one-way tables at the whole charge.

    That was so in all releases before noise was settled, and is in those where it comes to the same.
    """
    if request.gaussian is not None:
        return noise_terms(request, gaussian=request.gaussian)
    return quieter_terms(request, lambda terms: predicted_deviation(columns, 1.0, terms))


def settled(request: Request, columns: int) -> Request:
    """The request with the noise that is smaller for all one-way tables at a stage's share of the charge, by formula.

    Laplace noise of a share s is 1 / s times as large, Gaussian noise 1 / sqrt(s) times. So of many stages Gaussian
    noise is better long before it is for a single one.
    """
    if request.gaussian is not None:
        return request
    stage = quieter_terms(request, lambda terms: predicted_deviation(columns, _STAGE, terms)).gaussian
    return request if stage == tree_terms(request, columns).gaussian else replace(request, gaussian=stage)


def relative_noise(request: Request, columns: int, terms: Terms) -> float:
    """r: the deviation of a cell if all one-way tables took the whole charge, over the expected rows."""
    return predicted_deviation(columns, 1.0, terms) / request.expected_rows


def bins_for(noise: float) -> int:
    """Bins of a number at this r. Stored releases do not tell theirs, so this stays as it is."""
    return next((b for largest, b in _BINS if noise <= largest), _COARSEST)

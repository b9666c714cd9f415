"""Which moments a wide table buys, and for what share of its charge: a function of public figures only.

The figures are d, the expected number of rows, epsilon, delta and the relation. Let sd(R, a) be the deviation of a
noisy mean when R of them are bought for a share a. Stages, in the order they run::

    count        the number of rows                       ADD_REMOVE, pure, many columns; else one function of the next
    means        d, and the average of |u|^2              always; one more function costs 1/d of a stage
    choices      counts of the values of domains          where less noisy than as columns (``domain_values``)
    shape        K radial moments                         always
    products     d products with z                        with sd below _FINE_PRODUCTS
    label        1 mean of the label                      with a target
    association  d products with the label                with a target, and sd low enough
    best         one column, by a noisy maximum           with a target, and sd too high for all of them
    direction    d products with the discriminant score   with a target and sd below _FINE_DIRECTION
    scores       5 products of z and two public scores    without target and pairs, where sd is below _FINE_SCORES
    picks        the strongest pairs, by noisy maxima     without target and pairs, where enough can be told
    values       their products                           with picks
    pairs        d (d+1) / 2 products                     without a target, and only above their noise

A random symmetric matrix of entries of deviation v has eigenvalues up to 2 v sqrt(d); pairs are bought when that is
below d / 25, about the largest eigenvalue that tables of related columns have. With a target, label and association
come first, for 0.7 of the charge; 0.96 with the best column alone. There is a target only where one was named. A pair
is picked for the charge at which the noisy maximum tells a covariance of _STRONG from those of all other pairs; none is
where the means themselves drown (_COARSE_MEANS), where they would be several, yet less than one in 16 columns, or where
products with z can just be had and the picks would reach few of the columns: what answers smooth queries comes first.
Each function costs about the same noise in whatever stage it is bought, as a cube's deviation grows as R: shares stand
about as the numbers of functions, and as what an error of each does to smooth queries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from duckdp.core.types import Neighbours
from duckdp.synthetic.moments.domain_values import split
from duckdp.synthetic.unit.charge_terms import Terms, predicted, predicted_epsilon
from duckdp.synthetic.unit.request import Request

DEGREE = 3  # K, or less where noise would drown the higher ones
# Deviations of noisy means of functions in [-1, 1], by which a stage is bought ("fine": below; "coarse": above):
_FINE_PRODUCTS = 0.03  # products with z
_FINE_LAW = 0.06  # the second radial moment
_CLEAR_LAW = 0.012  # the third, where products are not bought
_FINE_DIRECTION = 0.02  # the label's links, for products with the discriminant score
_COARSE_ASSOCIATION = 0.35  # the label's links: one column alone is linked
_FINE_SCORES = 0.2  # products of z and two scores
_COARSE_MEANS = 0.06  # the means: no pair is picked
_CLEAR_MEANS = 0.004  # the means: pairs are picked although products can be had
_PAIR_SIGNAL = 1 / 25  # of d: the largest eigenvalue of links that tables of related columns have, about
_STRONG = 0.37  # covariance that a pick is to tell from those of all other pairs
_MOST_STRONG = 16  # pairs that are picked, at most
# Shares of the charge:
_PAIRS = Fraction(2, 5)  # all pairs
_TARGET = Fraction(7, 10)  # a named target: label, links and direction
_BEST = Fraction(93, 100)  # the choice of the column that is linked with a named target
_LABEL = Fraction(3, 100)  # the label's mean, beside that choice
_FOUND = Fraction(1, 2)  # as _TARGET and _BEST, of a target that nobody named: in releases of earlier versions
_PICKS = Fraction(3, 10)  # all picks
_VALUES = Fraction(1, 20)  # the picked pairs' products
_SCORES = Fraction(5, 100)  # products of z and two scores
# Shares of what is left:
_PRODUCTS = Fraction(44, 100)  # products with z
_BESIDE_LINKS = Fraction(32, 100)  # the same, where pairs are bought
_RADIAL = Fraction(4, 100)  # radial moments beside products
# A count of its own:
_SQUARE = 0.4  # average square of a column's mean
_PAYS = 0.98  # variance of means with it, over that without: below, it is bought
_SURE_SIZE = 0.08  # deviation of 2 |u|^2 / d - 1 that a narrow window of z allows


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Shares of the charge; 0 for what is not bought. They sum to at most 1."""

    count: Fraction = Fraction(0)
    label: Fraction = Fraction(0)
    association: Fraction = Fraction(0)
    best: Fraction = Fraction(0)
    direction: Fraction = Fraction(0)
    means: Fraction = Fraction(0)
    choices: Fraction = Fraction(0)
    shape: Fraction = Fraction(0)
    products: Fraction = Fraction(0)
    scores: Fraction = Fraction(0)
    degree: int = DEGREE
    narrow: bool = False
    pairs: Fraction = Fraction(0)
    picks: Fraction = Fraction(0)
    values: Fraction = Fraction(0)
    strong: int = 0

    @property
    def shares(self) -> dict[str, Fraction]:
        """By stage, those above 0."""
        names = (
            "count",
            "label",
            "association",
            "best",
            "direction",
            "means",
            "choices",
            "shape",
            "products",
            "scores",
            "pairs",
            "picks",
            "values",
        )
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    @property
    def total(self) -> Fraction:
        """The sum of all shares of the purse."""
        return sum(self.shares.values(), Fraction(0))


def make_plan(request: Request, terms: Terms) -> Plan:
    """The plan. ``terms`` tell the relation and the noise."""
    shares: dict[str, Fraction] = {}
    rest, strong = Fraction(1), 0
    if request.target is not None:
        shares, rest = _target(request, terms)
    else:
        shares, strong = _links(request, terms)
        rest -= sum(shares.values(), Fraction(0))
    products = _BESIDE_LINKS if {"pairs", "picks"} & set(shares) else _PRODUCTS
    fine = predicted(request.columns, rest * products, terms, request.expected_rows) <= _FINE_PRODUCTS
    products = products if fine else Fraction(0)
    law = predicted(2, rest * Fraction(12, 100), terms, request.expected_rows) <= _FINE_LAW
    clear = predicted(DEGREE, rest * Fraction(14, 100), terms, request.expected_rows) <= _CLEAR_LAW
    degree = DEGREE if fine or clear else 2 if law else 1
    shape = _RADIAL if fine else Fraction(12 if law else 18, 100)
    shares.update(shape=rest * shape, products=rest * products, means=rest * (1 - shape - products))
    shares["count"] = _count(request, terms) * shares["means"]
    shares["means"] -= shares["count"]
    counted = split(request, terms, counted=bool(shares["count"])) if request.counted else Fraction(0)
    shares["choices"] = counted * shares["means"]
    shares["means"] -= shares["choices"]
    size = request.columns + 1 - (sum(map(len, request.groups)) if counted else 0)
    sure = predicted(size, shares["means"], terms, request.expected_rows) <= _SURE_SIZE
    return Plan(**shares, degree=degree, strong=strong, narrow=sure and degree < DEGREE)


def _count(request: Request, terms: Terms) -> Fraction:
    """Part s of the means' share for a count of its own; 0 where that does not pay.

    A noisy mean m of R errs by that of its sum, variance v / (1 - s)^2 with v = (R + 1) (R + 2) / 3, and by m times
    that of the count: v as one more function of the same cube, 2 / s^2 by itself. With m^2 = _SQUARE on average the
    least is about where s / (1 - s) = (2 _SQUARE / v)^(1/3).
    """
    if terms.neighbours is not Neighbours.ADD_REMOVE or terms.gaussian:
        return Fraction(0)
    v = (request.columns + 1) * (request.columns + 2) / 3
    odds = (2 * _SQUARE / v) ** (1 / 3)
    s = Fraction(round(1000 * odds / (1 + odds)), 1000)
    apart = 1 / (1 - float(s)) ** 2 + 2 * _SQUARE / v / float(s) ** 2
    return s if apart < _PAYS * (1 + _SQUARE) else Fraction(0)


def _affords_pairs(request: Request, terms: Terms) -> bool:
    d, rows = request.columns, request.expected_rows
    return bool(2 * predicted(d * (d + 1) // 2, _PAIRS, terms, rows) * d**0.5 <= _PAIR_SIGNAL * d)


def _links(request: Request, terms: Terms) -> tuple[dict[str, Fraction], int]:
    """Shares of what links columns without a target, and how many strongest pairs."""
    d, rows = request.columns, request.expected_rows
    if _affords_pairs(request, terms):
        return {"pairs": _PAIRS}, 0
    shares = {}
    if predicted(5, _SCORES, terms, rows) <= _FINE_SCORES:
        shares["scores"] = _SCORES
    if predicted(d, Fraction(1), terms, rows) > _COARSE_MEANS:
        return shares, 0
    inside = sum(len(group) * (len(group) - 1) for group in request.groups)
    each = 8 * math.log(max(2, (d * (d - 1) - inside) // 2)) / (_STRONG * rows)
    affordable = int(predicted_epsilon(_PICKS, terms) / each)
    affordable = 1 if affordable == 2 else affordable  # measured: one sure choice serves better than two unsure ones
    strong = min(_MOST_STRONG, (d * (d - 1) - inside) // 2, affordable)
    fine = predicted(d, _PRODUCTS, terms, rows) <= _FINE_PRODUCTS
    radial = fine and predicted(d, Fraction(1), terms, rows) > _CLEAR_MEANS
    few = 1 < strong < d / 16 or (radial and 4 * strong < d)
    if not strong or few:  # means, and products with z, serve smooth queries better than a few pairs
        return shares, 0
    return {**shares, "picks": _PICKS, "values": _VALUES}, strong


def _target(request: Request, terms: Terms) -> tuple[dict[str, Fraction], Fraction]:
    """Shares of the target's stages, and what they leave.

    An error e of the label's mean adds e times the columns' means to the association; it and the noise of the
    association's R products are least together when the shares stand about as 1 : R^(2/3).
    """
    d, rows = request.columns, request.expected_rows
    target, best = (_TARGET, _BEST) if request.named else (_FOUND, _FOUND)
    label = Fraction(1, max(4, round(d ** (2 / 3)))) * target
    whole = target - label
    if predicted(d, whole, terms, rows) > _COARSE_ASSOCIATION:
        return {"label": _LABEL, "best": best}, 1 - _LABEL - best
    half = whole / 2
    if predicted(d, half, terms, rows) <= _FINE_DIRECTION:
        return {"label": label, "association": half, "direction": half}, 1 - target
    return {"label": label, "association": whole}, 1 - target

"""Which moments a wide table buys, and for what share of its charge: a function of public figures only.

The figures are d, the expected number of rows, epsilon, delta and the relation. Let sd(R, a) be the deviation of a
noisy mean when R of them are bought for a share a. Stages, in the order they run::

    label        1 mean of the label                      with a target
    association  d products with the label                with a target, and sd low enough
    best column  one column, by a noisy maximum           with a target, and sd too high for all of them
    direction    d products with the discriminant score   with a target and sd below _FINE_DIRECTION
    size         1 average of |u|^2                       always
    means        d                                        always
    shape        K radial moments, and d products with z  the products only with sd below _FINE_PRODUCTS
    pairs        d (d+1) / 2 products                     without a target, and only above their noise
    direction    d products with one public direction     without a target, where pairs are too dear and links asked

A random symmetric matrix of entries of deviation v has eigenvalues up to 2 v sqrt(d); pairs are bought when that is
below d / 25, about the largest eigenvalue that tables of related columns have. With a target, label and association
come first, for 0.7 of the charge; 0.9 with the best column alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from duckdp.synthetic.wide.release import Purse, predicted
from duckdp.synthetic.wide.table import Request

DEGREE = 3  # K, or 1 where its noise would drown the second degree
_FINE_PRODUCTS, _FINE_LAW, _FINE_DIRECTION, _COARSE_ASSOCIATION = 0.03, 0.1, 0.02, 0.35
_PAIR_SIGNAL = 1 / 25
_TARGET, _LINKS = Fraction(7, 10), Fraction(3, 10)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Shares of the charge; 0 for what is not bought. They sum to at most 1."""

    label: Fraction = Fraction(0)
    association: Fraction = Fraction(0)
    best: Fraction = Fraction(0)
    direction: Fraction = Fraction(0)
    size: Fraction = Fraction(0)
    means: Fraction = Fraction(0)
    shape: Fraction = Fraction(0)
    products: bool = False
    degree: int = DEGREE
    pairs: Fraction = Fraction(0)

    @property
    def total(self) -> Fraction:
        """Sum of the shares."""
        target = self.label + self.association + self.best + self.direction
        return target + self.size + self.means + self.shape + self.pairs


def make_plan(request: Request, purse: Purse) -> Plan:
    """The plan. ``purse`` tells the relation and the noise; nothing is taken from it."""
    shares: dict[str, Fraction] = {}
    rest = Fraction(1)
    if request.target is not None:
        shares, rest = _target(request, purse)
    else:
        share = _most_of_pairs(request, purse)
        if share:
            shares["pairs"], rest = share, 1 - share
        elif request.links:
            shares["direction"], rest = _LINKS, 1 - _LINKS
    fine = predicted(request.columns + DEGREE, rest * Fraction(36, 100), purse, request.expected_rows)
    products = fine <= _FINE_PRODUCTS
    law = predicted(DEGREE, rest * Fraction(16, 100), purse, request.expected_rows) <= _FINE_LAW
    parts = (10, 54, 36) if products else (6, 78, 16) if law else (8, 62, 30)
    names = ("size", "means", "shape")
    shares.update({n: rest * Fraction(p, 100) for n, p in zip(names, parts, strict=True)})
    return Plan(**shares, products=products, degree=DEGREE if products or law else 1)


def _most_of_pairs(request: Request, purse: Purse) -> Fraction:
    """Share of the pairs: 2/5 where that lifts them out of their noise, else 7/10 if links are asked for, else 0."""
    d = request.columns
    for share in (Fraction(2, 5), Fraction(7, 10)) if request.links else (Fraction(2, 5),):
        noise = predicted(d * (d + 1) // 2, share, purse, request.expected_rows)
        if 2 * noise * d**0.5 <= _PAIR_SIGNAL * d:
            return share
    return Fraction(0)


def _target(request: Request, purse: Purse) -> tuple[dict[str, Fraction], Fraction]:
    """Shares of the target's stages, and what they leave.

    An error e of the label's mean adds e times the columns' means to the association; it and the noise of the
    association's R products are least together when the shares stand about as 1 : R^(2/3).
    """
    d, rows = request.columns, request.expected_rows
    label = Fraction(1, max(4, round(d ** (2 / 3)))) * _TARGET
    whole = _TARGET - label
    if predicted(d, whole, purse, rows) > _COARSE_ASSOCIATION:
        return {"label": Fraction(1, 20), "best": Fraction(17, 20)}, Fraction(1, 10)
    half = whole / 2
    if predicted(d, half, purse, rows) <= _FINE_DIRECTION:
        return {"label": label, "association": half, "direction": half}, 1 - _TARGET
    return {"label": label, "association": whole}, 1 - _TARGET

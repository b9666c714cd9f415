"""Which columns are linked: the strongest ones, chosen privately by their centred products.

Scores are C and -C, or |C|, with C = sum a b - (sum a)(sum b) / n over rows, a and b two functions of a row in [-1, 1]:
two columns, or the label and the side of a public cut on which a column lies. A side differs between the label's
classes by more of its range than the column itself does: more signal for the same noise.

Privacy:      ``choose_best``, or under a Gaussian purse ``choose_exponential``, whose epsilon there is twice as large;
              only the index leaves. Replacing one row changes C by (n-1)/n times the difference of
              (a - A)(b - B) at two points, A and B the other rows' means; adding a row to n of them by n/(n+1) times
              its value at one point.
Proof sketch: at the corners (a - A)(b - B) is PQ, -PQ', -P'Q, P'Q' with P = 1 - A, P' = 1 + A, Q and Q' alike; two
              neighbouring corners differ by 2P, 2P', 2Q or 2Q' <= 4, the same signs by less; one is at most 4. Several
              choices, one after the other, add up.
Numerics:     integers; each of the sums of a row is off by at most one grid step, in all less than _SLACK steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from duckdp.compiler.printing import number
from duckdp.mechanisms.exponential import Seen, choose_exponential
from duckdp.mechanisms.noisy_maximum import choose_best
from duckdp.synthetic.moments.released import Pairs
from duckdp.synthetic.unit.buy.purse import Purse, Sums
from duckdp.synthetic.unit.buy.sums_sql import clamped_sum, print_sums
from duckdp.synthetic.unit.charge_terms import BITS
from duckdp.synthetic.unit.features import ONE, Features, Floats
from duckdp.synthetic.unit.request import Request

CUTS = (-0.6, -0.2, 0.2, 0.6)  # of a unit column, where its sides are taken
_SLACK = 16  # grid steps


@dataclass(frozen=True, kw_only=True)
class Sides:
    """y b and b for sides b = sign(u_i - cut), and y: used like ``Features``.

    Attributes:
        dimensions: d.
        label: column y.
        sides: (column i, cut) of each b.
    """

    dimensions: int
    label: int
    sides: tuple[tuple[int, float], ...]

    @property
    def count(self) -> int:
        """R, how many there are."""
        return 2 * len(self.sides) + 1

    def rows(self, u: Floats) -> Floats:
        """Values of every row, float[n, R]: y b of all sides, b of all sides, y."""
        columns, cuts = [i for i, _ in self.sides], np.array([c for _, c in self.sides])
        b, y = np.where(u[:, columns] > cuts, 1.0, -1.0), u[:, self.label : self.label + 1]
        return np.concatenate([y * b, b, y], axis=1)


@print_sums.register
def _(moments: Sides, relation: str, columns: Sequence[str], bits: int) -> str:
    y = f"s.{columns[moments.label]}"
    sides = [
        f"CASE WHEN s.{columns[i]} > {number(cut)} THEN {number(1)} ELSE {number(-1)} END" for i, cut in moments.sides
    ]
    sums = [clamped_sum(e, bits) for e in (*(f"{y} * {b}" for b in sides), *sides, y)]
    return f"SELECT {', '.join(sums)} FROM {relation} AS s"


def choose_column(request: Request, target: int, purse: Purse, sums: Sums, share: Fraction) -> tuple[int, int]:
    """The column with the strongest link to the label, and the sign of the link; not another value of its domain.

    Args:
        request: public parameters.
        target: the label.
        purse: pays ``share`` of the charge.
        sums: exact sums; called once.
        share: of the charge.
    """
    whole = set(request.signs)
    same = {i for group in request.groups if target in group for i in group}
    others = [i for i in range(request.columns) if i != target and i not in same]
    sides = [(i, cut) for i in others for cut in ((0.0,) if i in whole else CUTS)]
    count, exact = sums(Sides(dimensions=request.columns, label=target, sides=tuple(sides)), BITS)
    half = len(sides)
    pairs = zip(exact[:half], exact[half : 2 * half], strict=True)
    scores = [_centred(p, b, exact[-1], count) for p, b in pairs]
    at = _choose([*scores, *(-q for q in scores)], purse, share)
    return sides[at % half][0], 1 if at < half else -1


def choose_pairs(request: Request, picks: int, purse: Purse, sums: Sums, share: Fraction) -> Pairs:
    """The pairs of columns with the strongest links, one by one; not two values of one domain.

    Args:
        request: public parameters.
        picks: how many.
        purse: pays ``share`` of the charge.
        sums: exact sums; called twice.
        share: of the charge, for all of them.
    """
    known = {frozenset(pair) for group in request.groups for pair in combinations(group, 2)}
    left = [pair for pair in combinations(range(request.columns), 2) if frozenset(pair) not in known]
    count, products = sums(Features(dimensions=request.columns, pairs=True, some=tuple(left)), BITS)
    _, means = sums(Features(dimensions=request.columns, factors=(ONE,)), BITS)
    scores = [_centred(p, means[i], means[j], count) for p, (i, j) in zip(products, left, strict=True)]
    chosen, seen = [], Seen()
    for _ in range(picks):
        at = _choose([abs(q) for q in scores], purse, share / picks, seen)
        chosen.append(left.pop(at))
        del scores[at]
    return tuple(chosen)


def _centred(product: int, first: int, second: int, count: int) -> int:
    return product - first * second // (max(1, count) << BITS)


def _choose(scores: Sequence[int], purse: Purse, share: Fraction, seen: Seen | None = None) -> int:
    """The place of a large score, for a share of the charge; ``seen`` saves time in rounds of equal shares."""
    epsilon, linf = purse.take_epsilon(share), (4 << BITS) + _SLACK
    if purse.gaussian:
        return choose_exponential(scores, epsilon=epsilon, linf=linf, seen=seen)
    return choose_best(scores, epsilon=epsilon, linf=linf)

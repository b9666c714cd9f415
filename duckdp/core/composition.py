"""What charges amount to together, as every accountant tells it; only filters decide what is admitted.

Charges with (epsilon_i, delta_i), i = 1, ..., k; a total delta. Each line is an epsilon with which all of them together
are (epsilon, delta)-DP::

    basic     sum e_i, where sum d_i <= delta
    zcdp      core/accountant.py: from sum rho_i; half of each pure charge's e_i^2 is its rho
    advanced  sum e_i tanh(e_i / 2) + sqrt(2 ln(1/s) sum e_i^2)
    optimal   the least e with E[(1 - exp(e - L))^+] <= s, L = the sum of independent L_i,
              L_i = +e_i with probability exp(e_i) / (1 + exp(e_i)), else -e_i

where s = delta - sum d_i is what is left for the composition itself.

Privacy:      basic holds for what was charged, however each charge followed from answers before. zcdp is a filter: it
              holds for a limit that was set beforehand, however the charges within it followed from answers. advanced
              and optimal hold where every epsilon and delta was settled before the first answer; the questions may
              follow from answers. All but the data set's own accountant report, and admit nothing.
Proof sketch: an (e_i, d_i)-DP mechanism is, up to an event of probability d_i, an (e_i, 0)-DP one, given the past too;
              1 - (1 - s) prod(1 - d_i) <= s + sum d_i. advanced: the loss of an (e, 0)-DP step lies in [-e, e] and has
              mean at most e tanh(e / 2) (it is largest for randomized response), so the sum exceeds its mean by t with
              probability at most exp(-t^2 / (2 sum e_i^2)) (Azuma), and P(loss > e) <= s is (e, s)-DP. optimal: every
              (e, 0)-DP step is a post-processing of randomized response, whose loss is L_i, and losses of independent
              steps add; an adaptive step post-processes its own randomized response, chosen by the past.
Numerics:     epsilons are rounded up to multiples of a step (an (e, 0)-DP step is (e', 0)-DP for e' >= e), losses above
              the reach count as lost for good and those below as at it; terms are positive, so that a thousand
              additions err by less than the factor 1e-6 that is put on them. Results are rounded up.
Source:       Dwork, Rothblum, Vadhan, "Boosting and differential privacy", FOCS 2010 (advanced). The lectures print
              k e (exp(delta') - 1) in Theorem 3.20 for k e (exp(e) - 1). Kairouz, Oh, Viswanath, "The composition
              theorem for differential privacy", ICML 2015, Theorems 3.3 and 3.5. Murtagh, Vadhan, "The complexity of
              computing the optimal composition of differential privacy", TCC 2016 (different epsilons).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from duckdp.core.accountant import cost, epsilon_for
from duckdp.core.types import ATTO, NANO, AccountantKind, Loss

Floats = NDArray[np.float64]
Losses = Mapping[Loss, int]
CELLS = 2**14  # of the lattice of losses, each side of 0
_REACH = 60.0  # a loss farther out has a probability below exp(-60)
_RARE = 1e-30  # a number of answers so rare counts as lost for good
_SLACK = 1e-6  # relative, put on every probability for what adding floats loses
_DIGITS = Context(prec=6, rounding=ROUND_CEILING)


def basic(losses: Losses, delta_atto: int) -> float | None:
    """The sum of all epsilons; None where the deltas alone are more than delta.

    >>> basic({Loss(epsilon_nano=10**8): 10}, 0)
    1.0
    """
    if sum(loss.delta_atto * n for loss, n in losses.items()) > delta_atto:
        return None
    return rounded_up(_whole(losses))


def zcdp(losses: Losses, delta_atto: int) -> float | None:
    """By concentrated differential privacy; None where delta is used up by what it does not cover.

    >>> zcdp({Loss(epsilon_nano=10**7, rho_pico=5 * 10**7): 1000}, 10**12)
    1.71226
    """
    pairs = [(cost(AccountantKind.ZCDP, loss), n) for loss, n in losses.items()]
    left = delta_atto - sum(pair[1] * n for pair, n in pairs)
    if left <= 0:
        return None
    return rounded_up(Fraction(epsilon_for(sum(pair[0] * n for pair, n in pairs), min(left, ATTO - 1)), NANO))


def advanced(losses: Losses, delta_atto: int) -> float | None:
    """The closed formula for different epsilons; None where nothing of delta is left for it."""
    left = _left(losses, delta_atto)
    if left is None:
        return None
    mean, squares = _mean_and_squares(losses)
    found = (mean + math.sqrt(2 * math.log(1 / left) * squares)) * (1 + _SLACK)
    return rounded_up(min(Fraction(found), _whole(losses)))


def optimal(losses: Losses, delta_atto: int) -> float | None:
    """The least epsilon that charges with these epsilons and deltas allow, up to rounding; None as :func:`advanced`."""
    left = _left(losses, delta_atto)
    if left is None or not _whole(losses):
        return None if left is None else 0.0
    found = _least_epsilon(*_distribution(losses), left) * (1 + _SLACK)
    return rounded_up(_whole(losses) if found == math.inf else min(Fraction(found), _whole(losses)))


def _distribution(losses: Losses) -> tuple[Floats, float, float]:
    """The law of the sum of losses where it is made for the worst pair of neighbours.

    Returns:
        Probabilities of the losses from -reach to reach, by steps; the step; the probability of what is lost for good.
    """
    reach = _reach(losses)
    step = step_of(losses)
    ends = math.ceil(reach / step) + 1
    law, lost = np.zeros(2 * ends + 1), 0.0
    law[ends] = 1.0
    for multiple, count in _multiples(losses, step).items():
        law, beyond = _convolved(law, multiple, count, multiple * step)
        lost += beyond
    return law, step, lost


def _reach(losses: Losses) -> float:
    """The largest loss that is told from what is lost for good."""
    mean, squares = _mean_and_squares(losses)
    return min(float(_whole(losses)), mean + math.sqrt(2 * _REACH * squares))


def step_of(losses: Losses) -> float:
    """A step of which losses are multiples: the epsilons' greatest common divisor, or more if that made many cells."""
    common = math.gcd(*(loss.epsilon_nano for loss in losses if loss.epsilon_nano)) / NANO
    return max(common, _reach(losses) / CELLS)


def _multiples(losses: Losses, step: float) -> dict[int, int]:
    """How many charges have each epsilon, in steps, rounded up."""
    found: dict[int, int] = {}
    for loss, n in losses.items():
        if loss.epsilon_nano:
            multiple = math.ceil(loss.epsilon_nano / NANO / step * (1 - 1e-12))
            found[multiple] = found.get(multiple, 0) + n
    return found


def _convolved(law: Floats, multiple: int, count: int, epsilon: float) -> tuple[Floats, float]:
    """The law after ``count`` more losses of +-multiple steps; with the probability that went beyond its end."""
    from scipy import stats  # late: it takes longer to import than all else that a first question wants

    chance = 1 / (1 + math.exp(-epsilon))
    ups = np.arange(count + 1)
    weights = stats.binom.pmf(ups, count, chance)
    seen = weights > _RARE
    lost = float(weights[~seen].sum())
    found, ends = np.zeros_like(law), len(law) // 2
    for up, weight in zip(ups[seen].tolist(), weights[seen].tolist(), strict=True):
        shift = (2 * up - count) * multiple
        moved = weight * law
        if shift >= 0:
            kept = max(len(law) - shift, 0)
            found[len(law) - kept :] += moved[:kept]
            lost += float(moved[kept:].sum())
        else:
            low = min(-shift, len(law))
            found[: len(law) - low] += moved[low:]
            found[0] += float(moved[:low].sum())  # as if at the lower end: more than it is
    assert ends * 2 + 1 == len(found)
    return found, lost


def _least_epsilon(law: Floats, step: float, lost: float, delta: float) -> float:
    """The least epsilon with lost + sum over losses l > epsilon of p(l) (1 - exp(epsilon - l)) <= delta."""
    ends = len(law) // 2
    rest = delta / (1 + _SLACK) - lost
    if rest <= 0:
        return math.inf
    levels = step * np.arange(-ends, ends + 1)
    above = np.append(np.cumsum(law[::-1])[::-1], 0.0)  # from each loss on
    weighed = np.append(np.cumsum((law * np.exp(-np.maximum(levels, -700.0)))[::-1])[::-1], 0.0)
    start = ends  # epsilon is at least 0
    for at in range(start, len(law)):  # epsilon in [levels[at], levels[at + 1]): losses from at + 1 on count
        if weighed[at + 1] == 0 or above[at + 1] <= rest:
            return max(float(levels[at]), 0.0)
        epsilon = math.log((above[at + 1] - rest) / weighed[at + 1])
        end = levels[at] + step
        if epsilon <= end:
            return max(epsilon, float(levels[at]))
    return float(levels[-1])


def _left(losses: Losses, delta_atto: int) -> float | None:
    left = delta_atto - sum(loss.delta_atto * n for loss, n in losses.items())
    return left / ATTO * (1 - 1e-12) if left > 0 else None


def _mean_and_squares(losses: Losses) -> tuple[float, float]:
    pairs = [(loss.epsilon_nano / NANO, n) for loss, n in losses.items()]
    return sum(n * e * math.tanh(e / 2) for e, n in pairs), sum(n * e * e for e, n in pairs)


def _whole(losses: Losses) -> Fraction:
    return Fraction(sum(loss.epsilon_nano * n for loss, n in losses.items()), NANO)


def rounded_up(epsilon: Fraction | float) -> float | None:
    """To six digits, rounded up; None for what is not finite.

    >>> rounded_up(1.0000001), rounded_up(math.inf)
    (1.00001, None)
    """
    if epsilon == math.inf:
        return None
    exact = Fraction(epsilon)
    scaled = _DIGITS.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return float(scaled)

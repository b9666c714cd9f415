"""``min_units``: a group is shown only if it has at least so many privacy units, as far as a noisy count can tell.

With k = ``min_units`` a group is shown if its released number of units, a whole number, is at least k + w, where w is
the smallest whole number with P(|noise of that number| <= w) >= 1 - 2 alpha, alpha = 5%.

Guarantee:    a group with fewer than k units is shown with a chance of at most alpha, each group for itself. The other
              error: a group of which n >= k + 2 w units count is left out with a chance of at most alpha, and of fewer
              with more; beside a threshold tau on keys of which n >= max(k + w, tau) + w count. Where the number is
              public (``replace`` over all rows) w is 0: no error.
Privacy:      nothing beside the release of that number: it is a measure of the statement's, noised and paid for as one
              of its shares (``count(DISTINCT unit)``, where it is asked for, is the same); k, w and what is left out
              follow from the plan and from what was released. Keys without a domain pass the threshold of
              mechanisms/threshold.py first, on the same number.
Proof sketch: let c <= k - 1 be the units that the group has, n <= c those that count (a unit counts in at most
              ``max_groups`` groups). The released number is round(n + Z), Z the noise of one cell or of several
              together, whose law is symmetric: P(n + round(Z) >= k + w) <= P(round(Z) > w) <= alpha, as both tails
              beyond w, ties included, hold at most 2 alpha (core/errorbars.rounded_half_width). Likewise
              P(n + round(Z) < t) <= P(round(Z) < -w) <= alpha for n >= t + w, t = k + w or the higher tau.
Numerics:     of one cell the law is summed exactly; of several to 1e-6, which is added to the level.
Source:       minimum frequency rules of statistical offices: Hundepool and others, Statistical Disclosure Control
              (2012), section 4.2. The count that decides is noisy, so that the rule tells of no one.
"""

from __future__ import annotations

from duckdp.compiler.measures import Measure
from duckdp.compiler.plan import Plan
from duckdp.core.errorbars import Noise, rounded_half_width

ALPHA = 0.05  # chance that a group below the rule is shown: as that of an interval which misses
_NUMERIC = 1e-6  # of a level: how well the law of several cells together is known


def least_shown(plan: Plan) -> int:
    """From which released number of units on a group is shown."""
    return (plan.query.min_units or 0) + slack(plan)


def sure_units(plan: Plan) -> int:
    """With how many units that count a group is left out with a chance of at most ALPHA, by a threshold on keys too."""
    return max(least_shown(plan), plan.tau or 0) + slack(plan)


def slack(plan: Plan) -> int:
    """How far noise may move the number of units in either direction, but with a chance of ALPHA each."""
    found = _counted(plan)
    if found is None:
        return 0
    measure, noise = found
    level = 1 - 2 * ALPHA + (_NUMERIC if measure.cells > 1 else 0.0)
    return rounded_half_width([noise] * measure.cells, 2**measure.bits, level)


def _counted(plan: Plan) -> tuple[Measure, Noise] | None:
    """The measure that counts a group's units, and the noise of its cells; None where the number is public."""
    asked = plan.query.group_size
    for measure, noise in zip(plan.measures, plan.noises, strict=True):
        if asked is not None and measure.serves(asked):
            return None if noise is None or measure.fixed_total else (measure, noise)
    return None


def told_units(plan: Plan) -> str | None:
    """What min_units shows and leaves out, in words; None where it is not asked for."""
    k = plan.query.min_units
    if k is None:
        return None
    w = slack(plan)
    if _counted(plan) is None:
        return f"groups of fewer than {k:,} units are not shown (min_units)"
    size, chosen = plan.domain_size, plan.query.table.unit_key is not None and bool(plan.query.keys)
    count = " that count" if chosen and (size is None or size > plan.groups) else ""
    return (
        f"groups of fewer than {sure_units(plan) - w:,} noisy units are not shown (min_units={k}): one with fewer than "
        f"{k:,} is shown with a chance of at most {ALPHA:.0%}, one with {sure_units(plan):,} or more{count} is left "
        f"out with at most {ALPHA:.0%}"
    )

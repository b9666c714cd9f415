"""A tree's plan before means and products were bought by what they are worth.

Calls that name a target, or that ask for broad smooth queries, have it still: it was tuned for these. So has what was
bought in part by it, whatever asks for the rest: the stages that are stored tell (``tree.buy.resumed``). Its shares may
be those of ``make_tree_plan``, first or all, and its means are of u itself then too.
"""

from __future__ import annotations

from fractions import Fraction

from duckdp.synthetic.tree.bins import make_bins
from duckdp.synthetic.tree.spending import (
    CALM,
    DIRECT,
    EDGES,
    TreePlan,
    bins_for,
    choosing_twice,
    joining,
    percent,
    relative_noise,
)
from duckdp.synthetic.unit.charge_terms import Terms
from duckdp.synthetic.unit.layout import UnitColumns
from duckdp.synthetic.unit.request import Request


def plan_before(request: Request, units: UnitColumns, terms: Terms) -> TreePlan:
    """The plan. ``terms`` tell the relation and the noise."""
    columns = len(units.parts)
    noise = relative_noise(request, columns, terms)
    bins = bins_for(noise)
    inexact = any(not b.exact for b in make_bins(units, bins))
    means = percent(max(0.02, min(8 * noise, 0.2 + noise, 0.6))) if inexact else Fraction(0)
    rounds = min(columns - 1, int(EDGES / noise))
    loud = noise > DIRECT
    if request.target is not None and loud:
        ones, labels = (1 - means) * Fraction(11, 20), (1 - means) * Fraction(1, 3)
        if not rounds:
            ones = 1 - means - labels
        rest = 1 - means - ones - labels
        return TreePlan(bins=bins, ones=ones, means=means, labels=labels, direct=True, **joining(rest, rounds))
    if columns < 2 or not rounds:
        return TreePlan(bins=bins, ones=1 - means, means=means)
    ones = (1 - means) * percent(min(0.85, max(0.3, 0.3 + 15 * noise)))
    rest = 1 - means - ones
    labels = rest / 3 if request.target is not None else Fraction(0)
    rest -= labels
    if rounds < columns - 1 or noise >= CALM:
        return TreePlan(bins=bins, ones=ones, means=means, labels=labels, **joining(rest, rounds))
    return TreePlan(bins=bins, ones=ones, means=means, labels=labels, **choosing_twice(rest, rounds, rounds))

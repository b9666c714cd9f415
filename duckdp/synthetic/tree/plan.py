"""How a tree spends its charge, and how fine its bins are: from public figures only.

Small r (``spending.relative_noise``): bins are fine and most of the charge goes to pairs; large r: few bins, few pairs,
most of it to single columns, whose error then outweighs what links of columns add.

Means of numbers and products of two columns have shares of their own. If a table is judged by the geometric mean of its
errors (of histograms, of pairs, of means, of correlations) and each falls as a power of its share, equal shares are
best; but an error below that of as many true rows serves nobody, so a share is no larger than what brings it there. And
nothing is spent on products whose noise exceeds the correlations that are to be told from those of the tree.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

from duckdp.synthetic.tree.bins import make_bins
from duckdp.synthetic.tree.doubtful import planned_share
from duckdp.synthetic.tree.plan_before import plan_before
from duckdp.synthetic.tree.scales import ENOUGH, scaled_columns
from duckdp.synthetic.tree.single_values import Valued, plan_values
from duckdp.synthetic.tree.spending import (
    CALM,
    EDGES,
    TreePlan,
    bins_for,
    choosing_twice,
    joining,
    percent,
    relative_noise,
    tree_terms,
)
from duckdp.synthetic.unit.charge_terms import Terms, predicted
from duckdp.synthetic.unit.completeness import may_show_null
from duckdp.synthetic.unit.layout import UnitColumns
from duckdp.synthetic.unit.normed import MOST
from duckdp.synthetic.unit.request import Request

# Of r, a share of the rows, for broad smooth queries, tuned on the paper's sets:
_TINY = 0.001  # up to here it grows one whatever the columns are
_SURE = 0.01  # up to here domains make a tree the default
_LOUD = 0.1  # up to here a delta makes a tree the default
_MEAN = 0.1  # noise of a mean that matters no more, times the root of the rows: 0.7 of a skewed column's deviation
_PRODUCT = 0.08  # the same of a product of scaled columns: 0.7 of their deviation's square (normal: 0.39^2)
_VAGUE = 0.015  # noise of a product, of a correlation eight times that, from which it tells nothing
_HAZY = 0.12  # noise of a correlation by products with a bound, from which a single one tells nothing,
_COMMON = 0.3  # and a usual correlation that all columns share: told where its eigenvalue is twice that of noise
_LONG = 0.64  # of a row's products over deviations: the usual mean of one, by normal laws 2 / pi
_KEPT = 0.65  # of products, where rows beyond the mean norm are scaled to it
_LEAST, _MOST = 2, 20  # percents for either


def prefers_tree(units: UnitColumns, request: Request) -> bool:
    """Whether "auto" grows a tree for broad smooth queries, by r; for tables see ``synthetic.score``.

    Never for numbers that are never NULL alone with delta = 0: at any r moments answer those two to ten times better.
    If r is tiny: then tables carry the laws of columns and pairs better than any moments. Where half of the columns or
    more have domains: if r is small. Else with delta > 0, if r is not large or there is a target. (With k tables
    Laplace noise grows as k and Gaussian noise as its root.)
    """
    columns, choices = len(units.parts), sum(p.form == "choice" for p in units.parts)
    if not choices and not request.delta_atto and not any(p.nullable for p in units.parts):
        return False
    noise = relative_noise(request, columns, tree_terms(request, columns))
    if noise <= _TINY:
        return True
    if 2 * choices >= columns:
        return noise <= _SURE
    return request.delta_atto > 0 and (noise <= _LOUD or request.target is not None)


def make_tree_plan(
    request: Request,
    units: UnitColumns,
    terms: Terms,
    *,
    valued: bool = True,
    normed: bool = True,
    shrunk: bool = True,
    bounded: bool = True,
    counted: bool = True,
    domains: bool = True,
    piles: bool = True,
) -> TreePlan:
    """The plan. ``terms`` tell the relation and the noise; plans of before lack some of what the flags name.

    Plans whose products have a bound on a row's norm choose columns of single values by released histograms, too.
    NULLs are counted once more (``doubtful``) where one-way tables of a plan without that tell too little of them.
    """
    if request.target is not None:
        return plan_before(request, units, terms)
    shared = partial(_shared, request, units, terms, valued=valued, normed=normed)
    plan = shared(nulls=Fraction(0))
    if counted:
        shown = sum(may_show_null(p) for p in units.parts)
        nulls = planned_share(shown, len(units.parts), plan.ones, terms, request.expected_rows)
        plan = shared(nulls=nulls) if nulls else plan
    return replace(plan, shrunk=shrunk, bounded=bounded, domains=domains, piles=piles)


def _shared(
    request: Request,
    units: UnitColumns,
    terms: Terms,
    *,
    valued: bool,
    normed: bool,
    nulls: Fraction,
) -> TreePlan:
    """The shares of the charge; ``nulls``: that of counting NULLs once more."""
    columns = len(units.parts)
    noise = relative_noise(request, columns, terms)
    bins = bins_for(noise)
    numbers = sum(p.form == "number" for p in units.parts)
    means = _needed(numbers, _MEAN, request, terms) if numbers else Fraction(0)
    wide = make_bins(units, bins)
    found = plan_values(wide, terms, request.expected_rows, chosen=normed) if valued else Valued()
    beside = means + found.share + nulls
    rounds, links = min(columns - 1, int(EDGES / noise)), columns * (columns - 1) // 2
    if columns < 2 or not rounds:
        plan = TreePlan(bins=bins, ones=1 - beside, nulls=nulls, means=means, scaled=True)
        return replace(plan, values=found.share, moduli=found.moduli, chosen=found.chosen)
    products = (_normed if normed else _products)(request, units, terms)
    rest = 1 - beside - products
    ones = rest * percent(min(0.85, max(0.3, 0.3 + 15 * noise)))
    rest -= ones
    plan = TreePlan(bins=bins, ones=ones, means=means, products=products, scaled=True, normed=normed and products > 0)
    plan = replace(plan, nulls=nulls, values=found.share, moduli=found.moduli, chosen=found.chosen)
    if links <= rounds or (links == rounds + 1 and noise < CALM):  # all of them: no choice to pay
        return replace(plan, ones=(ones + rest) / 2, pairs=(ones + rest) / 2, rounds=links)
    if rounds < columns - 1 or noise >= CALM:
        return replace(plan, **joining(rest, rounds))
    more = min(rounds, links - rounds)
    return replace(plan, **choosing_twice(rest, rounds, more))


def _normed(request: Request, units: UnitColumns, terms: Terms) -> Fraction:
    """The share of products of all pairs with a bound on a row's norm: the least that sampling asks for, if any helps.

    Told in correlations: a row's vector of products, each over both deviations, has a norm of about ``_LONG`` of their
    number (l1) or its root (l2), and scaling keeps ``_KEPT`` of what they tell.
    """
    columns = len(scaled_columns(units))
    count = columns * (columns - 1) // 2
    if not 0 < count <= MOST:
        return Fraction(0)
    norm = (math.sqrt(count) if terms.gaussian else _LONG * count) / _KEPT

    def noise(share: Fraction) -> float:
        return norm * predicted(1, share, terms, request.expected_rows)

    common = _COMMON * (columns - 1) / (4 * math.sqrt(columns))  # noise alone has eigenvalues up to 2 sqrt(columns)
    if noise(Fraction(_MOST, 100)) > max(_HAZY, common):
        return Fraction(0)
    shares = (Fraction(s, 100) for s in range(_LEAST, _MOST + 1))
    enough = ENOUGH / request.expected_rows**0.5
    return next((s for s in shares if noise(s) <= enough), Fraction(_MOST, 100))


def _products(request: Request, units: UnitColumns, terms: Terms) -> Fraction:
    """The share of products of all pairs of scaled columns."""
    columns = len(scaled_columns(units))
    count = columns * (columns - 1) // 2
    if not count or predicted(count, Fraction(_MOST, 100), terms, request.expected_rows) > _VAGUE:
        return Fraction(0)
    return _needed(count, _PRODUCT, request, terms)


def _needed(count: int, enough: float, request: Request, terms: Terms) -> Fraction:
    """The share, in percents, that brings the noise of so many means to what sampling gives; the most where none does.

    ``enough``: that noise, times the root of the rows.
    """
    rows = request.expected_rows
    for share in range(_LEAST, _MOST):
        if predicted(count, Fraction(share, 100), terms, rows) <= enough / rows**0.5:
            return Fraction(share, 100)
    return Fraction(_MOST, 100)

"""What a tree and moments are predicted to err by, from public figures alone: by which "auto" chooses between them.

What people do with a table is judged: histograms of one and of two columns, means, correlations, broad kernels, by the
geometric mean of the errors' ratios. Noise is known by formula. What a table of that noise errs by beyond it, as few
moments leave a column's law open and as a prior steps in where counts drown, was measured on the sets of
``bench.compare_sets.TUNING`` (docs/benchmarks.md tells on which others it was tried):

    histograms   a tree: noise s of a bin's share costs 2.5 s of total variation, but never more than a prior leaves
                 moments: what so many of them leave open, and their noise
    means        noise over a column's usual deviation, x, gives x / (1 + x): rows stay within their bounds
    kernels      the root of the means' noise
    correlations alike, where both drown; elsewhere the histograms decide
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from duckdp.synthetic.moments.marginals import SHARE, choose_marginals
from duckdp.synthetic.moments.plan import make_plan
from duckdp.synthetic.tree.contingency import predicted_deviation
from duckdp.synthetic.tree.plan import make_tree_plan
from duckdp.synthetic.tree.spending import settled, tree_terms
from duckdp.synthetic.unit.charge_terms import Terms, moment_terms, predicted
from duckdp.synthetic.unit.completeness import may_show_null, null_share, without_nulls
from duckdp.synthetic.unit.layout import UnitColumns
from duckdp.synthetic.unit.request import Request

_PRIOR = 0.17  # total variation of a column's histogram that a prior leaves where counts drown
_NOISY = 2.5  # total variation for noise in a bin's share
# Total variation that moments T_2 .. T_M of a column leave open, by M; without any, the law of the mean alone.
_LEFT_OPEN = {16: 0.045, 12: 0.06, 8: 0.08, 6: 0.085, 4: 0.1, 3: 0.11, 2: 0.12}
_UNKNOWN = 0.16
_SPREAD = 0.35  # usual deviation of a column over [-1, 1]
_MEASURES = 5  # histograms of one column, of two, means, correlations, kernels


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Predicted errors of a table: public.

    Attributes:
        histogram: total variation of a column's histogram of ten bins.
        noise: deviation of a noisy mean, on [-1, 1].
    """

    histogram: float
    noise: float

    @property
    def mean(self) -> float:
        """Distance of a mean, in deviations of its column."""
        return self.noise / (_SPREAD + self.noise)


def tree_errors(units: UnitColumns, request: Request) -> Errors:
    """What a tree of these columns is predicted to err by."""
    columns = len(units.parts)
    terms = tree_terms(request, columns)
    plan = make_tree_plan(request, units, terms)
    share = predicted_deviation(columns, float(plan.ones), terms) / request.expected_rows
    numbers = sum(p.form == "number" for p in units.parts)
    noise = predicted(numbers, plan.means, terms, request.expected_rows) if plan.means else share
    return Errors(histogram=_PRIOR * -math.expm1(-_NOISY * share / _PRIOR), noise=noise)


def moments_errors(units: UnitColumns, request: Request) -> Errors:
    """What rows by moments are predicted to err by, where no column has a NULL."""
    nulls = null_share(sum(may_show_null(p) for p in units.parts), request)
    left = request.epsilon_nano - int(request.epsilon_nano * nulls)
    part = int(left * SHARE)
    terms = moment_terms(replace(request, epsilon_nano=left - part))
    units, request = without_nulls(units, request, range(len(units.parts)))
    plan = make_plan(request, terms)
    noise = predicted(request.columns + 1, plan.means, terms, request.expected_rows)
    if not part:
        return Errors(histogram=_UNKNOWN, noise=noise)
    pure = Terms(epsilon_nano=part, delta_atto=0, neighbours=request.neighbours)
    marginals = choose_marginals(units.numbers, units.count, pure, request.expected_rows)
    if marginals is None:
        return Errors(histogram=_UNKNOWN, noise=noise)
    drowned = predicted(marginals.count, Fraction(1), pure, request.expected_rows)
    return Errors(histogram=math.hypot(_LEFT_OPEN[marginals.degree], 2 * drowned), noise=noise)


def tree_over_moments(units: UnitColumns, request: Request, *, as_settled: bool = True) -> float:
    """The geometric mean of a tree's predicted errors over those of moments: below 1, the tree is better.

    Args:
        units: the columns.
        request: public parameters.
        as_settled: whether the tree's noise is settled by what a stage has (``asked.Asked``).
    """
    grown = settled(request, len(units.parts)) if as_settled else request
    tree, moments = tree_errors(units, grown), moments_errors(units, request)
    sampled = _SPREAD / request.expected_rows**0.5  # below it no mean's noise matters
    tree, moments = (replace(e, noise=max(e.noise, sampled)) for e in (tree, moments))
    whole = 2 * math.log(tree.histogram / moments.histogram) + math.log(tree.mean / moments.mean)
    whole += math.log(tree.noise / moments.noise) / 2
    return math.exp(whole / _MEASURES)

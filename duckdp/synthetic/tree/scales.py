"""Columns scaled to where most of their values lie: functions of a row whose averages tell means and correlations.

A column of a wide declared range has its values in a small part of it; sums of u_i, noised for all of [-1, 1], would
tell little of them. So a tree that has released the column's histogram buys the average of

    f_i(u) = clamp((u_i - offset) / width)        offset: about the mean; width: what reaches 99% of the rows

and of products f_i f_j: functions with values in [-1, 1] whose constants follow from releases. Values beyond the width
count as it; what they add to the mean is the histogram's to tell.

In vectors with a bound (``unit.normed``) NULLs stand apart: u is 0 there and says nothing of the values, so with the
unit column v of its NULLs (-1, or 1 where it is NULL) f_i is (u + offset (v - 1) / 2) / width: 0 where it is NULL, and
as above elsewhere. Then f_i f_j tells the covariance of rows that have both values, which otherwise drowns in who has
none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from duckdp.synthetic.tree.bins import Binning, Lean, leaned
from duckdp.synthetic.unit.features import ONE, Factor, Features, Floats
from duckdp.synthetic.unit.layout import Part, UnitColumns
from duckdp.synthetic.unit.normed import NormedFunctions, NormedProducts

Scale = tuple[float, float]
"""(offset, width) of a column's function; width > 0."""

PLAIN: Scale = (0.0, 1.0)  # u itself: what means were of, before columns were scaled
ENOUGH = 0.7  # of the sampling error: noise of an average that matters no more
_BEYOND = 0.01  # share of the rows beyond the width, on either side
_CLEAR = 3.0  # deviations of the noise of a bin, that a share beyond must exceed to count
_LEVELS = 16  # places of a bin at which its function is averaged
_DEVIATIONS = 4.0  # of a column, that its function in normed products reaches
WIDE = 4.0  # the same in means: what lies beyond is told by noisy bins alone, which errs more than noise of that width
_LEAST_SPREAD = 0.02  # deviation of a column, of which less is taken as this, in means with a bound
_VALUED = 1024  # where its values have weights: these jump
_CROWDED = 256  # where values lean: they crowd towards an end of their bin


def scaled_columns(units: UnitColumns) -> list[int]:
    """Columns, by place, that are scaled: numbers, booleans, domains of two values."""
    return [i for i, p in enumerate(units.parts) if unit_column(p) is not None]


def unit_column(part: Part) -> int | None:
    """The unit column that is scaled, or None where a column has an order of its values no more than a name has."""
    if part.form != "choice":
        return part.start
    return None if part.listed else part.label


def find_scale(binning: Binning, shares: Floats, noise: float, reach: float, least: float = 0.0) -> Scale:
    """The function of a column, from released figures.

    As wide as the noise allows, since what lies beyond is told by the histogram alone; but wide enough for nearly all.

    Args:
        binning: the column's bins.
        shares: released, float[size].
        noise: deviation of a bin's share.
        reach: width, in deviations of the column, at which the noise of the average is what sampling gives.
        least: width in deviations of the column, whatever the noise is.
    """
    values = unit_values(binning)
    mean = float(shares @ values)
    if not binning.ordered:
        return mean, 1 + abs(mean)
    own, step = shares[: binning.bins].copy(), 1 / binning.bins
    for k in range(len(binning.spikes)):
        own[binning.parent(k)] += shares[binning.bins + k]
    beyond = max(_BEYOND, _CLEAR * noise)
    below = np.concatenate([[0.0], np.cumsum(own)])
    edges = np.linspace(-1, 1, binning.bins + 1)
    low = edges[max(0, int(np.searchsorted(below, beyond, side="right")) - 1)]
    high = edges[min(binning.bins, int(np.searchsorted(below, below[-1] - beyond, side="left")))]
    spread = float(shares @ (values - mean) ** 2) ** 0.5
    return mean, float(np.clip(max(high - mean, mean - low, max(reach, least) * spread, 2 * step), 0, 1 + abs(mean)))


def unit_values(binning: Binning) -> Floats:
    """The scaled unit column at each bin, float[size]: its middle, or -1 and 1; 0 for NULL of a number or boolean."""
    if binning.ordered:
        return binning.at(np.full((binning.size, 1), 0.5))[:, 0]
    if binning.part.form == "sign":
        return binning.middles
    label = unit_column(binning.part)
    assert label is not None
    return np.where(np.arange(binning.size) == label - binning.part.start, 1.0, -1.0)


def bin_values(binning: Binning, scale: Scale, lean: Lean = None, *, apart: bool = False) -> Floats:
    """The function's average over each bin, float[size], where values lean like this in their bins.

    ``apart``: 0 at NULL; else as where u is 0.
    """
    offset, width = scale
    values = unit_values(binning)[:, None]
    if binning.ordered:
        steps = _VALUED if binning.law is not None else _LEVELS if lean is None else _CROWDED
        levels = np.broadcast_to((np.arange(steps) + 0.5) / steps, (binning.size, steps))
        values = binning.at(leaned(levels, binning.leans(lean)[:, None]))
    found = np.asarray(np.clip((values - offset) / width, -1, 1).mean(axis=1))
    if apart and may_be_null(binning.part):
        found[binning.valued :] = 0.0
    return found


def scaled_factors(
    binnings: Sequence[Binning], scales: Mapping[int, Scale], *, apart: bool = False
) -> dict[int, Factor]:
    """Each scaled column's function as a factor of moments; ``apart``: 0 where the column is NULL."""
    last = binnings[-1].part
    found = {}
    for i, (offset, width) in scales.items():
        column = unit_column(binnings[i].part)
        assert column is not None
        weights = np.zeros(last.start + last.width)
        weights[column] = 1.0
        if apart and may_be_null(binnings[i].part):
            offset /= 2
            weights[column + 1] = offset
        found[i] = Factor(weights=weights, offset=offset, width=width)
    return found


def may_be_null(part: Part) -> bool:
    """Whether a scaled column has a unit column beside it that says that it is NULL."""
    return part.form != "choice" and part.nullable


def mean_features(binnings: Sequence[Binning], scales: Mapping[int, Scale], columns: Sequence[int]) -> Features:
    """The functions of some columns by themselves."""
    factors = scaled_factors(binnings, {i: scales[i] for i in columns})
    last = binnings[-1].part
    return Features(dimensions=last.start + last.width, crosses=tuple((factors[i], ONE) for i in columns))


def normed_scale(binning: Binning, shares: Floats, *, apart: bool = False) -> Scale:
    """The function of a column in products with a bound on a row's norm: so many of its deviations, about its mean.

    Of all columns alike, as a column of a larger deviation would have the more of a row's norm. ``apart``: both of the
    values alone, where released shares tell of any.
    """
    mean, spread = _moments(binning, shares, apart=apart)
    return mean, max(_DEVIATIONS * spread, 1 / binning.bins if binning.ordered else 1e-3)


def _moments(binning: Binning, shares: Floats, *, apart: bool = True) -> tuple[float, float]:
    """Mean and deviation of a scaled column, by its bins; ``apart``: of the values alone, where there are any."""
    values = unit_values(binning)
    present = float(shares[: binning.valued].sum())
    if apart and may_be_null(binning.part) and present > 0:
        values, shares = values[: binning.valued], shares[: binning.valued] / present
    mean = float(shares @ values)
    return mean, float(shares @ (values - mean) ** 2) ** 0.5


def whole_scales(
    binnings: Sequence[Binning], shares: Sequence[Floats], columns: Sequence[int]
) -> tuple[dict[int, Scale], float]:
    """Functions of numbers that cut no value, in means with a bound on a row's norm, from released figures.

    Args:
        binnings: of all columns.
        shares: of their bins, released.
        columns: the numbers.

    Returns:
        By column its mean, and its deviation times a figure that all have in common; that figure.
    """
    found = {}
    for i in columns:
        mean, spread = _moments(binnings[i], shares[i])
        within = 0.0 if binnings[i].exact else 2 / binnings[i].bins / math.sqrt(12)  # of a bin's values
        found[i] = mean, max(math.hypot(spread, within), _LEAST_SPREAD)
    reach = max((1 + abs(mean)) / spread for mean, spread in found.values())
    return {i: (mean, spread * reach) for i, (mean, spread) in found.items()}, reach


def normed_functions(
    binnings: Sequence[Binning], scales: Mapping[int, Scale], bound: float, *, squared: bool
) -> NormedFunctions:
    """The functions of some numbers, 0 where a column is NULL, with a bound on a row's norm of them, in order."""
    factors = scaled_factors(binnings, scales, apart=True)
    last = binnings[-1].part
    listed = tuple(factors[i] for i in sorted(scales))
    return NormedFunctions(dimensions=last.start + last.width, factors=listed, bound=bound, squared=squared)


def normed_products(
    binnings: Sequence[Binning], scales: Mapping[int, Scale], bound: float, *, squared: bool, apart: bool
) -> NormedProducts:
    """Products of the functions of all pairs of scaled columns, in order, with a bound on a row's norm of them.

    Args:
        binnings: of all columns.
        scales: of the scaled ones.
        bound: of the norm.
        squared: whether it is l2.
        apart: whether a function is 0 where its column is NULL; not in releases of earlier versions.
    """
    factors = scaled_factors(binnings, scales, apart=apart)
    last = binnings[-1].part
    listed = tuple(factors[i] for i in sorted(scales))
    return NormedProducts(dimensions=last.start + last.width, factors=listed, bound=bound, squared=squared)


def product_features(binnings: Sequence[Binning], scales: Mapping[int, Scale]) -> Features:
    """Products of the functions of all pairs of scaled columns, in order."""
    factors = scaled_factors(binnings, scales)
    last = binnings[-1].part
    crosses = tuple((factors[i], factors[j]) for i, j in combinations(sorted(scales), 2))
    return Features(dimensions=last.start + last.width, crosses=crosses)

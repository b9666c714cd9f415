"""A tree under way or stored: what was released, the distributions estimated from it, and rows that have them.

Everything in it is public: post-processing of the stages, which it needs too, as each follows from those before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from duckdp.synthetic.tree.bins import Binning, Ints, Lean
from duckdp.synthetic.tree.contingency import Tables
from duckdp.synthetic.tree.make.dealing import Model, make_codes, order_columns
from duckdp.synthetic.tree.make.estimates import (
    Mean,
    estimate_pair,
    estimate_shares,
    likely_mean,
    merge_bins,
    merged,
    pool_counts,
    shrink_gap,
    tilt_pair,
    to_simplex,
)
from duckdp.synthetic.tree.make.merging import merge_around_piles
from duckdp.synthetic.tree.make.shrinking import shrink_shares
from duckdp.synthetic.tree.scales import PLAIN, Scale, bin_values
from duckdp.synthetic.tree.spending import TreePlan
from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.stages import Bought

BIAS = 0.3  # how far a column's mean is from that of its bins' middles, of half a bin; a usual value
UNSURE = 0.2  # of what scaling took off a mean, which follows from noisy histograms
_BIAS_LEFT = 0.05  # the same where values have weights
_SKEW = 0.25  # usual distance of a bin's mean from its middle, of the bin's width: that of a uniform law's half
_SKEW_LEFT = 0.1  # the same where values have weights, which tell most of it
_HALVINGS = 24  # steps to a place in a bin: to 2^-24 of its width
_END = 1e-6  # least distance of a place from its ends
_STEEPEST = 2000.0  # lean of a bin's values: their mean is a two-thousandth of its width from its end
_LEAST_WEIGHT = 0.7  # of the lean of a bin whose neighbours are like it, in what moves a mean
_FARTHEST = 100.0  # of a shift of shares along values, which puts all into one bin
_SHIFTINGS = 50  # halvings of that
_MOST_FALL = 3.0  # from a bin to the next, of the logarithm of its share, that counts
_HIDDEN = 3.0  # deviations of its noise, from which a share of NULLs that no row shows is taken off means
_MOST_HIDDEN = 0.5  # of the rows
COARSE = 1e-3  # of a bin's width: the most that a place misses a mean by, for the ends and for steps of averages
Pair = tuple[int, int]
"""Two columns, by place, the first before the second."""


@dataclass(kw_only=True, eq=False)
class Tree:
    """One synthesis under way; everything in it is public.

    Attributes:
        binnings: of the columns.
        plan: what is bought.
        target: column of the label, or None.
        rows: n, noisy or public.
        counts: per column, noisy, and their deviation.
        means: of the scaled functions of numbers (``scales``), noisy, and their deviation.
        scales: (offset, width) of the functions; of u itself in releases of earlier versions.
        means_apart: whether these functions are 0 where a column is NULL; else as where u is 0.
        cuts: what scaling long rows took off means, by the released histograms: it is added in ``means``.
        mean_bound: on a row's norm of these functions; 0 where they have none.
        missed: what else scaling may have taken off means (``buy.missed``).
        product_scales: the same of the functions in products.
        products: means of products of two of the functions, in order, noisy, and their deviation; or None.
        product_bound: of a row's norm of them; 0 where they have none, in releases of earlier versions.
        product_squared: whether that norm is l2.
        product_apart: whether the functions are 0 where a column is NULL.
        shares, merges: per column.
        bought: two-way tables, in order, and their deviations.
        links: column -> (the target's values, its covariance with the column).
        pairs: distributions of linked columns.
        stages: names, numbers of tables, shares of the charge.
        complete: columns whose count of NULLs is noise, so that no row that is made has one.
        null_shares: the noisy share of NULLs of those, of the rows.
        functions: (column, another that it determines) -> the bin of that one for each of its own, int[size].
        flat: column -> bins of spikes that do not stand out: no row has them.
    """

    binnings: Sequence[Binning]
    plan: TreePlan
    target: int | None
    rows: float = 0.0
    counts: list[Floats] = field(default_factory=list)
    deviation: float = 0.0
    means: dict[int, float] = field(default_factory=dict)
    mean_deviation: float = 0.0
    scales: dict[int, Scale] = field(default_factory=dict)
    means_apart: bool = False
    cuts: dict[int, float] = field(default_factory=dict)
    mean_bound: float = 0.0
    missed: dict[int, float] = field(default_factory=dict)
    product_scales: dict[int, Scale] = field(default_factory=dict)
    products: Floats | None = None
    product_deviation: float = 0.0
    product_bound: float = 0.0
    product_squared: bool = False
    product_apart: bool = False
    shares: list[Floats] = field(default_factory=list)
    bought: dict[Pair, tuple[Floats, float]] = field(default_factory=dict)
    merges: list[Ints] = field(default_factory=list)
    links: dict[int, tuple[Floats, float]] = field(default_factory=dict)
    pairs: dict[Pair, Floats] = field(default_factory=dict)
    stages: list[Bought] = field(default_factory=list)
    complete: tuple[int, ...] = ()
    null_shares: dict[int, float] = field(default_factory=dict)
    functions: dict[Pair, Ints] = field(default_factory=dict)
    flat: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def model(self) -> Model:
        """What rows are made from."""
        return Model(shares=self.shares, merges=self.merges, pairs=self.pairs)

    def leans(self) -> list[Lean]:
        """How values lean in the bins of each column: as the histogram falls, and so that means are those released."""
        return [self._lean(i) if b.ordered and not b.exact else None for i, b in enumerate(self.binnings)]

    def _lean(self, column: int) -> Lean:
        binning, shares, scale = self.binnings[column], self.shares[column], self.scale(column)
        slopes = self.fall(column)
        if column not in self.means or slopes is None:
            return slopes
        weights = np.where(np.arange(binning.size) < binning.bins, np.abs(slopes) + _LEAST_WEIGHT, 0.0)

        def lean(place: float) -> Floats:
            return np.asarray(np.clip(slopes + weights * (1 / place - 1 / (1 - place)), -_STEEPEST, _STEEPEST))

        def average(place: float) -> float:
            return float(shares @ bin_values(binning, scale, lean(place), apart=self.means_apart))

        low, middle, high = average(_END), average(0.5), average(1 - _END)
        if high <= low:
            return slopes
        noise, mean = (self.mean_deviation / (high - low)) ** 2, self.mean(column)
        skew = _SKEW if binning.law is None else _SKEW_LEFT
        return lean(_place_of(middle + (mean - middle) * skew**2 / (skew**2 + noise), average))

    def fall(self, column: int) -> Lean:
        """How its values lean in its bins by the histogram alone."""
        binning = self.binnings[column]
        if not binning.ordered or binning.exact:
            return None
        return falls(binning, self.shares[column], self.deviation / max(self.rows, 1.0))

    def met(self, column: int, noise: float, unsure: float) -> Floats:
        """A column's shares, moved to a mean that no lean of its values reaches: by what its deviation makes likely.

        Args:
            column: whose mean was bought.
            noise: deviation of a bin's share.
            unsure: deviation of the mean.
        """
        binning, shares = self.binnings[column], self.shares[column]
        values = bin_values(binning, self.scale(column), self._lean(column), apart=self.means_apart)
        there = np.flatnonzero(shares[: binning.valued] > 0)
        if len(there) < 2:
            return shares
        now = float(shares @ values)
        own = noise**2 * float(((values[there] - values[there].mean()) ** 2).sum())
        goal = likely_mean(now, own, (values, self.mean(column), unsure))
        found = shares.copy()
        found[there] = shifted(shares[there], values[there], goal - now)
        return found

    def scale(self, column: int) -> Scale:
        """The function whose mean was bought of a column."""
        return self.scales.get(column, PLAIN)

    def hidden(self, column: int) -> float:
        """Share of the rows with a NULL that no row shows, where it stands out of its noise for all that; else 0.

        A share that is none is told from that of a column of NULLs by far more (``completeness``), as rows show these.
        """
        share = self.null_shares.get(column, 0.0)
        return min(share, _MOST_HIDDEN) if share * self.rows > _HIDDEN * self.deviation else 0.0

    def mean(self, column: int) -> float:
        """The released mean of a column's function, over rows that have a value where others do not show."""
        hidden = self.hidden(column)
        return (self.means[column] - hidden * self.nothing(column)) / (1 - hidden)

    def nothing(self, column: int) -> float:
        """What a NULL counted as in the mean of a column's function."""
        offset, width = self.scale(column)
        return 0.0 if self.means_apart else float(np.clip(-offset / width, -1, 1))

    def order(self) -> list[tuple[int, list[int]]]:
        """The columns with their parents, each parent before its children."""
        pairs = sorted(self.pairs, key=lambda p: (self.target not in p, -self._linked(p)))  # few may be left out
        root = self.target if self.target is not None else (pairs[0][0] if pairs else 0)
        return order_columns([int(m.max()) + 1 for m in self.merges], pairs, root)

    def _linked(self, pair: Pair) -> float:
        """How far the distribution of two columns is from that of two that are not linked, in total variation."""
        first, second = (merged(self.shares[i], self.merges[i]) for i in pair)
        return float(np.abs(self.pairs[pair] - np.outer(first, second)).sum() / 2)

    def make(self, rows: int) -> Ints:
        """Bins of so many rows."""
        codes = make_codes(self.model, self.order(), rows)
        for i in self.complete:  # their share is 0, but rounding may leave a row to any bin of a merged one
            codes[codes[:, i] == self.binnings[i].null, i] = int(self.shares[i].argmax())
        for (i, j), function in self.functions.items():
            codes[:, j] = function[codes[:, i]]
        return codes

    def absent(self, column: int) -> list[int]:
        """Bins that no row has: of spikes that are noise, and of NULL where the column is complete."""
        null = self.binnings[column].null
        return [*self.flat.get(column, ()), *([null] if column in self.complete and null is not None else [])]

    def estimate(self, column: int, counts: Floats, deviation: float, mean: Mean = None) -> Floats:
        """Shares of a column's bins; 0 for those that no row has.

        Piles stand out of the noise: theirs are counted as they are. The others are estimated with each pile in the
        step that it lies in, as what lies far from a pile is rarer than what lies near.
        """
        binning, absent, found = self.binnings[column], self.absent(column), np.zeros(self.binnings[column].size)
        piles = [i for i in range(binning.bins, binning.valued) if i not in absent]
        counts, values = counts / (1 - self.hidden(column)), None if mean is None else mean[0].copy()
        for i in piles:
            step, own = binning.parent(i - binning.bins), max(0.0, float(counts[i]))
            if values is not None:
                beside = max(0.0, float(counts[step]))
                values[step] = (own * values[i] + beside * values[step]) / max(own + beside, 1e-300)
            counts[step] += own
            found[i] = own / self.rows
        there = np.delete(np.arange(binning.size), [*absent, *piles])
        known = None if mean is None or values is None else (values[there], *mean[1:])
        if binning.ordered and self.plan.shrunk:
            null = binning.null is not None and binning.null not in absent
            found[there] = shrink_shares(counts[there], deviation, self.rows, known, null=null)
        else:
            found[there] = estimate_shares(counts[there], deviation, self.rows, ordered=binning.ordered, mean=known)
        for i in piles:
            step = binning.parent(i - binning.bins)
            found[step] = max(0.0, float(found[step] - found[i]))
        piled = float(found[piles].sum())
        if piles:
            found[piles] *= min(1.0, 1 / max(piled, 1e-300))
            found[there] *= max(0.0, 1 - piled) / max(float(found[there].sum()), 1e-300)
        return np.asarray(found / found.sum())

    def merge(self, column: int, least: float, stands: float = math.inf, piles: float = math.inf) -> Ints:
        """Merged bins of a column (``merging``, and of a domain ``merge_bins``).

        NULL goes with the most frequent where the column is complete, a spike that is noise with the step it lies in.
        """
        binning, shares, absent = self.binnings[column], self.shares[column], self.absent(column)
        there = np.delete(np.arange(binning.size), absent)
        free = binning.bins if binning.ordered else len(there)
        if binning.ordered:
            kept = merge_around_piles(shares[there], least, piles, free=free)
        else:
            kept = merge_bins(shares[there], least, ordered=binning.ordered, free=free, stands=stands)
        found = np.zeros(binning.size, dtype=np.int64)
        found[there] = kept
        for bin_ in absent:
            spike = binning.ordered and bin_ < binning.valued
            found[bin_] = found[binning.parent(bin_ - binning.bins) if spike else there[shares[there].argmax()]]
        return found

    def taken(self) -> dict[Pair, tuple[float, float]]:
        """What estimates took off the tables that were bought, and what they left: norms of shares."""
        shares, found = [merged(p, m) for p, m in zip(self.shares, self.merges, strict=True)], {}
        for (i, j), (counts, deviation) in self.bought.items():
            kept, off = shrink_gap(counts, deviation, self.rows, shares[i], shares[j])
            found[i, j] = (off, float(np.linalg.norm(kept)))
        return found

    def misfit(self, codes: Ints) -> float:
        """Average l1 distance of rows from the distributions of the pairs, or of the columns where there are none."""
        singles = tuple((i,) for i in range(len(self.binnings)))
        tables = Tables(merges=tuple(self.merges), sets=tuple(self.pairs) or singles)
        made = tables.split(tables.count(codes) / len(codes))
        wanted = list(self.pairs.values()) or [merged(p, m) for p, m in zip(self.shares, self.merges, strict=True)]
        gaps = [np.asarray(a, dtype=np.float64) - b for a, b in zip(made, wanted, strict=True)]
        return float(np.mean([np.abs(gap).sum() for gap in gaps]))


def falls(binning: Binning, shares: Floats, noise: float) -> Floats:
    """How steeply shares fall from bin to bin, float[size]: the smaller of both sides' where these agree, else 0.

    Of shares that fall exponentially it is the density's own; what noise may have made is not counted.
    """
    found = np.zeros(binning.size)
    known = np.log((np.maximum(shares[: binning.bins], 0.0) + max(noise, 1e-9)) / binning.widths)
    steps = np.clip(known[:-1] - known[1:], -_MOST_FALL, _MOST_FALL)
    if len(steps):
        left, right = np.append(steps[:1], steps), np.append(steps, steps[-1:])
        least = np.minimum(np.abs(left), np.abs(right))
        found[: binning.bins] = np.where(left * right > 0, np.sign(left) * least, 0.0)
    return found


def shifted(shares: Floats, values: Floats, change: float) -> Floats:
    """The nearest shares of the same sum whose mean differs by this; as near as they come where none has it."""
    total, goal, off = float(shares.sum()), float(shares @ values) + change, values - values.mean()
    low, high = -_FARTHEST, _FARTHEST
    found = shares
    for _ in range(_SHIFTINGS):
        middle = (low + high) / 2
        found = to_simplex(shares + middle * off, total)
        low, high = (middle, high) if float(found @ values) < goal else (low, middle)
    return found


def _place_of(wanted: float, average: Callable[[float], float]) -> float:
    """Where in their bins values lie on average, so that an average that grows with it is the wanted one."""
    low, high = _END, 1 - _END
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if average(middle) < wanted else (low, middle)
    return (low + high) / 2


def refit(tree: Tree) -> None:
    """Estimate anew, in place: shares from all tables a column is in, then the pairs' distributions with these."""
    for i, binning in enumerate(tree.binnings):
        margins = []
        for pair, (counts, deviation) in tree.bought.items():
            if i in pair:
                axis = 1 - pair.index(i)
                margins.append((counts.sum(axis=axis), deviation * counts.shape[axis] ** 0.5))
        pooled, noise = pool_counts(tree.counts[i], tree.deviation, tree.merges[i], margins)
        mean: Mean = None
        if i in tree.means:
            values = bin_values(binning, tree.scale(i), tree.fall(i), apart=tree.means_apart)
            usual = BIAS if binning.law is None else _BIAS_LEFT
            bias = 0.0 if binning.exact else usual / binning.bins
            unsure = UNSURE * abs(tree.cuts.get(i, 0.0))
            mean = (values, tree.mean(i), tree.mean_deviation + bias / tree.scale(i)[1] + unsure)
        tree.shares[i] = tree.estimate(i, pooled, noise, mean)
        if mean is not None:
            tree.shares[i] = tree.met(i, noise / tree.rows, tree.mean_deviation + unsure)
    for (i, j), function in tree.functions.items():
        given = np.bincount(function, weights=tree.shares[i], minlength=tree.binnings[j].size)
        tree.shares[j] = np.asarray(given, dtype=np.float64)
    shares = [merged(p, m) for p, m in zip(tree.shares, tree.merges, strict=True)]
    for (i, j), function in tree.functions.items():
        joint = np.zeros((len(shares[i]), len(shares[j])))
        np.add.at(joint, (tree.merges[i], tree.merges[j][function]), tree.shares[i])
        tree.pairs[min(i, j), max(i, j)] = joint if i < j else joint.T
    for i, (label, covariance) in tree.links.items():
        assert tree.target is not None
        mass = np.bincount(tree.merges[i], weights=tree.shares[i] * tree.binnings[i].middles)
        known = np.zeros(len(shares[tree.target]))
        known[tree.merges[tree.target]] = label
        known_and_own = (known, mass / np.maximum(shares[i], 1e-12))
        joint = tilt_pair(shares[tree.target], shares[i], known_and_own, covariance)
        tree.pairs[min(i, tree.target), max(i, tree.target)] = joint if tree.target < i else joint.T
    for (i, j), (counts, deviation) in tree.bought.items():
        tree.pairs[i, j] = estimate_pair(counts, deviation, tree.rows, shares[i], shares[j])

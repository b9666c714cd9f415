"""method := 'tree': one-way tables, the pairs that matter, rows that have both.

Stages, each a share of one purse (``tree_plan``)::

    ones     one-way tables of all columns, over fine bins
    means    averages of the numbers whose bins hold several values
    links    products of the target with numbers and booleans        with a target, where noise is large
    labels   two-way tables of the target with the other columns     with a target
    pairs    pairs chosen one by one among those that join two parts of the forest, by the distance of their table from
             the product of the released one-way shares, minus what measuring them would add in noise; "none" is a
             candidate of distance 0 and ends the choice. Then the chosen tables.
    extra    pairs chosen by their distance from rows made so far, and their tables       where noise is small

Two-way tables count merged bins (``tree_fit.merge_bins``), so that their cells stand above the noise.

Privacy:      every private figure passes through ``tree_counts.measure``, ``Purse.buy`` or ``tree_select``; the shares
              add up in the purse, for its relation. What a stage reads follows from public figures and from earlier
              releases. Everything else is post-processing.
Assumes:      a privacy unit is one row of the relation behind both reads. Averages and products are functions of a row
              in [-1, 1], clamped last (``features``), with the label's released mean as a public constant.
Proof sketch: adaptive composition of the stages: epsilon adds up where noise is Laplace or the cube's, rho where it is
              Gaussian (an exponential mechanism costs epsilon^2 / 8 of it). Choosing none ends a choice early: shares
              that are left over are not spent, and how many pairs were chosen is itself chosen privately.
Numerics:     those of the mechanisms; scores move by public whole numbers when the expected noise is taken off.
Source:       select, measure, generate: McKenna, Miklau, Sheldon 2021; Chow, Liu, "Approximating discrete probability
              distributions with dependence trees", 1968. The merged bins, the estimates and the rows are our own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations

import numpy as np

from duckdp.core.types import Neighbours
from duckdp.errors import InternalError
from duckdp.synthetic.wide.denoise import shrink_scaled
from duckdp.synthetic.wide.features import ONE, Features, Floats, label_factor
from duckdp.synthetic.wide.release import Purse, Sums
from duckdp.synthetic.wide.tree_bins import Binning, Ints
from duckdp.synthetic.wide.tree_counts import (
    GRID,
    Measured,
    ReadCounts,
    Tables,
    choice_epsilon,
    exact_scores,
    measure,
    predicted_deviation,
    score_change,
)  # fmt: skip
from duckdp.synthetic.wide.tree_fit import (
    estimate_pair,
    estimate_rows,
    estimate_shares,
    merge_bins,
    merged,
    pool_counts,
    tilt_pair,
)
from duckdp.synthetic.wide.tree_plan import TreePlan
from duckdp.synthetic.wide.tree_rows import Model, make_codes, order_columns
from duckdp.synthetic.wide.tree_select import Seen, choose_exponential

_FOLDED = 0.8  # mean absolute value of noise of deviation 1
_MOST_CELLS = 10**6  # of all pairs
_BIAS = 0.3  # of half a bin: how far a mean is from that of the bins' middles
_SKEW, _END = 0.25, 0.02  # usual distance of a bin's mean from its middle, of its width; and the most, from its ends
_TRIAL_ROWS = 20_000
Pair = tuple[int, int]


@dataclass(kw_only=True, eq=False)
class Tree:
    """One synthesis under way; everything in it is public.

    Attributes:
        binnings: of the columns.
        plan, purse: what is bought.
        target: column of the label, or None.
        rows: n, noisy or public.
        counts: per column, noisy, and their deviation.
        means: of unit columns of numbers, noisy, and their deviation.
        shares, merges: per column.
        bought: two-way tables, in order, and their deviations.
        links: column -> (the target's values, its covariance with the column).
        pairs: distributions of linked columns.
        stages: names, numbers of tables, shares of the charge.
    """

    binnings: Sequence[Binning]
    plan: TreePlan
    purse: Purse
    target: int | None
    rows: float = 0.0
    counts: list[Floats] = field(default_factory=list)
    deviation: float = 0.0
    means: dict[int, float] = field(default_factory=dict)
    mean_deviation: float = 0.0
    shares: list[Floats] = field(default_factory=list)
    bought: dict[Pair, tuple[Floats, float]] = field(default_factory=dict)
    merges: list[Ints] = field(default_factory=list)
    links: dict[int, tuple[Floats, float]] = field(default_factory=dict)
    pairs: dict[Pair, Floats] = field(default_factory=dict)
    stages: list[tuple[str, int, Fraction]] = field(default_factory=list)

    @property
    def model(self) -> Model:
        """What rows are made from."""
        return Model(shares=self.shares, merges=self.merges, pairs=self.pairs)

    def places(self) -> list[float]:
        """Where in their bins the values of each column lie, so that means are those released: 0.5 is the middle."""
        found = [0.5] * len(self.binnings)
        for i, mean in self.means.items():
            binning, shares = self.binnings[i], self.shares[i]
            width = binning.mean(shares, 1.0) - binning.mean(shares, 0.0)
            if width > 0:
                noise = (self.mean_deviation / width) ** 2
                off = (mean - binning.mean(shares)) / width * _SKEW**2 / (_SKEW**2 + noise)
                found[i] = float(np.clip(0.5 + off, _END, 1 - _END))
        return found

    def order(self) -> list[tuple[int, list[int]]]:
        """Columns and their parents."""
        root = self.target if self.target is not None else (next(iter(self.pairs))[0] if self.pairs else 0)
        return order_columns([int(m.max()) + 1 for m in self.merges], list(self.pairs), root)

    def make(self, rows: int) -> Ints:
        """Bins of so many rows."""
        return make_codes(self.model, self.order(), rows)

    def misfit(self, codes: Ints) -> float:
        """Average l1 distance of rows from the distributions of the pairs, or of the columns where there are none."""
        singles = tuple((i,) for i in range(len(self.binnings)))
        tables = Tables(merges=tuple(self.merges), sets=tuple(self.pairs) or singles)
        made = tables.split(tables.count(codes) / len(codes))
        wanted = list(self.pairs.values()) or [merged(p, m) for p, m in zip(self.shares, self.merges, strict=True)]
        gaps = [np.asarray(a, dtype=np.float64) - b for a, b in zip(made, wanted, strict=True)]
        return float(np.mean([np.abs(gap).sum() for gap in gaps]))


def grow_tree(
    binnings: Sequence[Binning], plan: TreePlan, purse: Purse, target: int | None, read: ReadCounts, sums: Sums
) -> Tree:  # fmt: skip
    """Buy the stages.

    Args:
        binnings: of the columns.
        plan: the shares.
        purse: the charge.
        target: column of the label, or None.
        read: runs the private reads of counts.
        sums: exact sums over the unit columns; private.

    Raises:
        InternalError: the plan costs more than the charge.
    """
    if plan.total > 1:
        raise InternalError("the plan of a tree costs more than its charge")
    tree = Tree(binnings=binnings, plan=plan, purse=purse, target=target)
    _buy_ones(tree, read)
    _buy_means(tree, sums)
    if plan.labels and target is not None:
        _buy_labels(tree, target, read, sums)
    if plan.rounds:
        _buy_pairs(tree, _choose_joining(tree, read), plan.pairs, read, "pairs")
    if plan.extra_rounds:
        _buy_pairs(tree, _choose_extra(tree, read), plan.extra, read, "extra pairs")
    return tree


def _buy_ones(tree: Tree, read: ReadCounts) -> None:
    bins, plan = tree.binnings, tree.plan
    singles = Tables(merges=tuple(np.arange(b.size) for b in bins), sets=tuple((i,) for i in range(len(bins))))
    found = _measured(tree, singles, plan.ones, read)
    if tree.purse.neighbours is Neighbours.REPLACE:
        tree.rows = max(1.0, tree.purse.rows)  # public
    else:
        tree.rows = tree.purse.rows = estimate_rows(found.counts)
    tree.counts, tree.deviation = found.counts, found.deviation
    tree.shares = [
        estimate_shares(c, found.deviation, tree.rows, ordered=b.ordered)
        for b, c in zip(bins, found.counts, strict=True)
    ]
    least = _least_share(tree)
    tree.merges = [
        merge_bins(p, least, ordered=b.ordered, free=b.bins) for b, p in zip(bins, tree.shares, strict=True)
    ]  # fmt: skip
    tree.stages.append(("one-way tables", len(bins), plan.ones))


def _measured(tree: Tree, tables: Tables, share: Fraction, read: ReadCounts) -> Measured:
    """A stage of tables."""

    def draw() -> tuple[list[Floats], float]:
        found = measure(tables, tree.purse, share, read)
        return found.counts, found.deviation

    counts, deviation = tree.purse.stage(draw)
    if tuple(c.shape for c in counts) != tables.shapes:
        raise InternalError("the stored counts are those of other tables")
    return Measured(tables=tables, counts=counts, deviation=deviation)


def _buy_means(tree: Tree, sums: Sums) -> None:
    inexact = [i for i, b in enumerate(tree.binnings) if not b.exact]
    if not tree.plan.means or not inexact or not tree.purse.rows:
        return
    columns = tuple(tree.binnings[i].part.start for i in inexact)
    last = tree.binnings[-1].part
    features = Features(dimensions=last.start + last.width, factors=(ONE,), columns=columns)
    found = tree.purse.buy(sums, features, tree.plan.means)
    tree.means = {i: float(found.means[k]) for k, i in enumerate(inexact)}
    tree.mean_deviation = found.deviation
    tree.stages.append(("means", len(columns), tree.plan.means))
    _refit(tree)


def _buy_labels(tree: Tree, target: int, read: ReadCounts, sums: Sums) -> None:
    """Links of every column with the target: shares of the charge by their numbers.

    Of what a row adds to a table of two columns, only the part orthogonal to both margins is news (a quarter of the
    square, with two bins each); its product with the label is nothing else. Tables say more where their cells stand
    out.
    """
    others = [i for i in range(len(tree.binnings)) if i != target]
    usable = tree.plan.direct and tree.purse.rows > 0  # under REPLACE 0 is public
    direct = [i for i in others if usable and tree.binnings[i].part.form != "choice"]
    tables = [(min(target, i), max(target, i)) for i in others if i not in direct]
    if direct:
        part = tree.binnings[target].part
        place = part.start + (part.form == "choice")
        label = np.array([-1.0, 1.0, -1.0][: len(tree.shares[target])]) if part.form == "choice" else None
        label = tree.binnings[target].middles if label is None else label
        mean = float(np.clip(tree.shares[target] @ label, -0.98, 0.98))
        last = tree.binnings[-1].part
        dimensions = last.start + last.width
        factor = label_factor(place, mean, dimensions)
        columns = tuple(tree.binnings[i].part.start for i in direct)
        features = Features(dimensions=dimensions, factors=(factor,), columns=columns)
        found = tree.purse.buy(sums, features, tree.plan.labels * len(direct) / len(others))
        spread = np.array([_deviation(tree.binnings[i].middles, tree.shares[i]) for i in direct])
        spread *= _deviation(label, tree.shares[target]) / factor.width
        products = shrink_scaled(found.means, spread, found.deviation) * factor.width
        tree.links = {i: (label, float(c)) for i, c in zip(direct, products, strict=True)}
        tree.stages.append(("links", len(direct), tree.plan.labels * len(direct) / len(others)))
        _refit(tree)
    _buy_pairs(tree, tables, tree.plan.labels * len(tables) / len(others), read, "labels")


def _deviation(values: Floats, shares: Floats) -> float:
    return math.sqrt(max(0.02, float(shares @ values**2) - float(shares @ values) ** 2))


def _least_share(tree: Tree) -> float:
    """Share of a merged bin so that a cell of two is ``plan.cell`` deviations of the pairs' noise."""
    plan = tree.plan
    if not plan.pairs:
        return 1.0
    noise = predicted_deviation(plan.rounds, float(plan.pairs), tree.purse)
    columns = len(tree.binnings)
    return min(0.5, math.sqrt(max(plan.cell * noise / tree.rows, columns**2 / (2 * _MOST_CELLS))))


def _choose_joining(tree: Tree, read: ReadCounts) -> list[Pair]:
    """Pairs that make a forest, among all columns but the target."""
    columns = [i for i in range(len(tree.binnings)) if i != tree.target]
    candidates = list(combinations(columns, 2))
    shares = [merged(p, m) for p, m in zip(tree.shares, tree.merges, strict=True)]
    expected = [tree.rows * np.outer(shares[i], shares[j]) for i, j in candidates]
    rounds = min(tree.plan.rounds, len(columns) - 1)
    return _choose(tree, candidates, expected, rounds, (tree.plan.choice, tree.plan.pairs), read, joining=True)


def _choose_extra(tree: Tree, read: ReadCounts) -> list[Pair]:
    """Pairs whose tables the rows made so far miss most."""
    known = set(tree.pairs)
    candidates = [p for p in combinations(range(len(tree.binnings)), 2) if p not in known]
    tables = Tables(merges=tuple(tree.merges), sets=tuple(candidates))
    made = tables.count(tree.make(_TRIAL_ROWS)) * (tree.rows / _TRIAL_ROWS)
    expected = [np.asarray(e, dtype=np.float64) for e in tables.split(made)]
    rounds = min(tree.plan.extra_rounds, len(candidates))
    return _choose(tree, candidates, expected, rounds, (tree.plan.extra_choice, tree.plan.extra), read, joining=False)


def _choose(
    tree: Tree, candidates: list[Pair], expected: list[Floats], rounds: int, shares: tuple[Fraction, Fraction],
    read: ReadCounts, *, joining: bool,
) -> list[Pair]:  # fmt: skip
    """Pairs by rounds of the exponential mechanism, each a stage: its choice decides how many follow.

    One statement reads all scores. Ends with "none", or all rounds.
    """
    if not candidates:
        return []
    tables = Tables(merges=tuple(tree.merges), sets=tuple(candidates))
    wanted = np.concatenate([np.rint(np.maximum(0, e) * GRID).astype(np.int64).ravel() for e in expected])
    noise = predicted_deviation(rounds, float(shares[1]), tree.purse)
    usual = [round(GRID * _FOLDED * noise * e.size) for e in expected]
    scores: list[int] = []
    part = list(range(len(tree.binnings)))  # which part of the forest a column is in
    found: list[Pair] = []
    tree.stages.append(("choice of pairs", rounds, shares[0]))
    open_ones, seen, linf = list(range(len(candidates))), Seen(), score_change(tree.purse.neighbours)

    def draw() -> int:
        if not scores:  # read once, by the first round that is not stored
            scores.extend(q - u for q, u in zip(exact_scores(tables, wanted, read), usual, strict=True))
        epsilon = choice_epsilon(tree.purse, shares[0] / rounds)  # every round is charged
        return choose_exponential([0, *(scores[k] for k in open_ones)], epsilon=epsilon, linf=linf, seen=seen)

    for _ in range(rounds):
        at = tree.purse.stage(draw)
        if at == 0:
            break
        chosen = open_ones.pop(at - 1)
        i, j = candidates[chosen]
        found.append((i, j))
        part = [part[i] if p == part[j] else p for p in part]
        if joining:
            open_ones = [k for k in open_ones if part[candidates[k][0]] != part[candidates[k][1]]]
    return found


def _buy_pairs(tree: Tree, pairs: list[Pair], share: Fraction, read: ReadCounts, name: str) -> None:
    """Measure tables and add their distributions; without any, the share stays unspent."""
    if not pairs:
        return
    found = _measured(tree, Tables(merges=tuple(tree.merges), sets=tuple(pairs)), share, read)
    tree.bought |= {pair: (counts, found.deviation) for pair, counts in zip(pairs, found.counts, strict=True)}
    tree.stages.append((name, len(pairs), share))
    _refit(tree)


def _refit(tree: Tree) -> None:
    """Shares from all tables a column is in, then the pairs' distributions with these margins."""
    for i, binning in enumerate(tree.binnings):
        margins = []
        for pair, (counts, deviation) in tree.bought.items():
            if i in pair:
                axis = 1 - pair.index(i)
                margins.append((counts.sum(axis=axis), deviation * counts.shape[axis] ** 0.5))
        pooled, noise = pool_counts(tree.counts[i], tree.deviation, tree.merges[i], margins)
        mean = None
        if i in tree.means:
            mean = (binning.middles, tree.means[i], tree.mean_deviation + _BIAS / binning.bins)
        tree.shares[i] = estimate_shares(pooled, noise, tree.rows, ordered=binning.ordered, mean=mean)
    shares = [merged(p, m) for p, m in zip(tree.shares, tree.merges, strict=True)]
    for i, (label, covariance) in tree.links.items():
        assert tree.target is not None
        mass = np.bincount(tree.merges[i], weights=tree.shares[i] * tree.binnings[i].middles)
        known = np.zeros(len(shares[tree.target]))
        known[tree.merges[tree.target]] = label
        values = (known, mass / np.maximum(shares[i], 1e-12))
        joint = tilt_pair(shares[tree.target], shares[i], values, covariance)
        tree.pairs[min(i, tree.target), max(i, tree.target)] = joint if tree.target < i else joint.T
    for (i, j), (counts, deviation) in tree.bought.items():
        tree.pairs[i, j] = estimate_pair(counts, deviation, tree.rows, shares[i], shares[j])

"""The stages of a tree: one-way tables, and tables of the pairs of columns that matter.

Each is a share of one purse (``tree.plan``)::

    ones     one-way tables of all columns, over fine bins; they tell which columns have NULLs, too. In place of that of
             a column that another determines by declaration, the two-way table of both: it tells the function.
             Values that rows may pile up at have cells of their own, so no row is in more cells than without
    nulls    how many rows have NULL in columns where those leave that in doubt (``null_counts``)
    values   tables of single values of whole numbers, or of their last digits, where they tell something
             (``tree.single_values``)
    links    products of the target with numbers and booleans        with a target, where noise is large
    labels   two-way tables of the target with the other columns     with a target
    pairs    pairs chosen one by one among those that join two parts of the forest, by the distance of their table from
             the product of the released one-way shares, minus what measuring them would add in noise; "none" is a
             candidate of distance 0 and ends the choice. Then the chosen tables.
             Where all pairs can be had, they are bought without a choice.
    extra    pairs chosen by their distance from rows made so far, and their tables       where noise is small
    means    averages of the numbers, in one vector with a bound on a row's norm (``averages``); of plans of before they
             are scaled to where their values lie, one by one, and come before pairs
    products averages of products of two scaled columns, of all pairs                    where they tell something

Two-way tables count merged bins (``_merges``), so that their cells stand above the noise.

Privacy:      every private figure passes through ``counts.measure``, ``Purse.buy`` or ``mechanisms.exponential``; the
              shares add up in the purse, for its relation. What a stage reads follows from public figures and from
              earlier releases. Everything else is post-processing.
Assumes:      a privacy unit is one row of the relation behind both reads. Averages and products are functions of a row
              in [-1, 1], clamped last (``features``), with the label's released mean, and offsets and
              widths that follow from released tables, as public constants.
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
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations

import numpy as np

from duckdp.core.types import Neighbours
from duckdp.errors import InternalError
from duckdp.mechanisms.exponential import Seen, choose_exponential
from duckdp.synthetic.moments.make.denoise import shrink_scaled
from duckdp.synthetic.tree.bins import Binning, Ints
from duckdp.synthetic.tree.buy.averages import buy_bounded_means
from duckdp.synthetic.tree.buy.complete import find_complete
from duckdp.synthetic.tree.buy.counts import (
    GRID,
    ReadCounts,
    choice_epsilon,
    exact_scores,
    score_change,
)
from duckdp.synthetic.tree.buy.null_counts import ReadNulls, buy_null_counts
from duckdp.synthetic.tree.buy.products import TRIAL_ROWS, buy_normed, buy_products, find_scales
from duckdp.synthetic.tree.buy.resumed import (
    Replayed,
    Unfit,
    agreement,
    begun_by,
    fits_means,
    run_stage,
    run_tables,
    with_scales,
)
from duckdp.synthetic.tree.buy.spikes import find_spikes, without_spikes
from duckdp.synthetic.tree.buy.value_counts import ReadValues, find_laws, value_tables
from duckdp.synthetic.tree.contingency import Tables, predicted_deviation
from duckdp.synthetic.tree.make.estimates import estimate_rows, merged, most_frequent, split_merge
from duckdp.synthetic.tree.make.forest import Pair, Tree, refit
from duckdp.synthetic.tree.scales import ENOUGH, WIDE, Scale, mean_features
from duckdp.synthetic.tree.single_values import Valued, choose_values
from duckdp.synthetic.tree.spending import TreePlan
from duckdp.synthetic.unit.buy.purse import Purse, Sums
from duckdp.synthetic.unit.charge_terms import Terms, predicted
from duckdp.synthetic.unit.features import ONE, Features, Floats, label_factor
from duckdp.synthetic.unit.stages import Noisy

_FOLDED = 0.8  # mean absolute value of noise of deviation 1
_MOST_CELLS = 10**6  # of all pairs
_STANDS = 4.0  # deviations of a cell's noise, by which a value's rows stand out,
_PILED = 8.0  # and those of a pile of an ordered column


def grow_tree(
    binnings: Sequence[Binning],
    plan: TreePlan,
    purse: Purse,
    target: int | None,
    read: ReadCounts,
    sums: Sums,
    values: ReadValues | None = None,
    nulls: ReadNulls | None = None,
    *,
    others: Sequence[TreePlan] = (),
    determined: Sequence[Pair] = (),
) -> Tree:
    """Buy one-way tables, choose the two-way tables that matter, and buy those.

    Args:
        binnings: of the columns.
        plan: the shares.
        purse: the charge.
        target: column of the label, or None.
        read: runs the private reads of counts.
        sums: exact sums over the unit columns; private.
        values: runs the private reads of counts of values; without it none are bought.
        nulls: runs the private read of rows with NULLs; without it they are not counted once more.
        others: plans of an earlier version, or for another purpose, by which the first stage may be stored.
        determined: (column, another that it determines by declaration), what determines before what is determined.

    Raises:
        InternalError: the plan costs more than the charge, or what is stored fits neither plan.
    """
    if plan.total > 1:
        raise InternalError("the plan of a tree costs more than its charge")
    purse.keep = again = Replayed(purse.keep)
    reads = Reads(counts=read, sums=sums, values=values, nulls=nulls)
    for k, own in enumerate((plan, *others)):
        try:
            tree = Tree(binnings=binnings, plan=own, target=target)
            return _grow(tree, purse, reads, others[k:], determined)
        except Unfit:
            if again.drawn:
                raise
        again.rewind()  # nothing was drawn: all that is stored is gone through by another plan
    tree = Tree(binnings=binnings, plan=plan, target=target)
    return _grow(tree, purse, reads, (), determined)


@dataclass(frozen=True, kw_only=True)
class Reads:
    """The private reads: see :func:`grow_tree`."""

    counts: ReadCounts
    sums: Sums
    values: ReadValues | None
    nulls: ReadNulls | None


def _grow(tree: Tree, purse: Purse, reads: Reads, others: Sequence[TreePlan], determined: Sequence[Pair]) -> Tree:
    read, sums = reads.counts, reads.sums
    _buy_ones(tree, purse, reads, others, determined)
    plan, target = tree.plan, tree.target
    if plan.values and reads.values is not None:
        _buy_values(tree, purse, reads.values)
    if not plan.bounded:
        _buy_means(tree, purse, sums, others)
    if plan.labels and target is not None:
        _buy_labels(tree, target, purse, read, sums)
    if plan.rounds:
        _buy_pairs(tree, _choose_joining(tree, purse, read), plan.pairs, purse, read, "pairs")
    if plan.extra_rounds:
        _buy_pairs(tree, _choose_extra(tree, purse, read), plan.extra, purse, read, "extra pairs")
    if plan.bounded and purse.rows and (numbers := _numbers(tree, plan)):
        buy_bounded_means(tree, numbers, purse, sums)
    if plan.products:
        (buy_normed if plan.normed else buy_products)(tree, purse, sums)
    return tree


def _buy_ones(tree: Tree, purse: Purse, reads: Reads, others: Sequence[TreePlan], determined: Sequence[Pair]) -> None:
    bins, by = tree.binnings, {y: x for x, y in determined}
    sets = tuple((by[i], i) if i in by else (i,) for i in range(len(bins)))
    singles = Tables(merges=tuple(np.arange(b.size) for b in bins), sets=sets)
    before = without_spikes(tree, sets)
    found, name = run_tables(singles, tree.plan.ones, purse, reads.counts, tree.plan.name, before)
    plan = tree.plan = begun_by([tree.plan, *others], name, purse.spent)
    if purse.neighbours is Neighbours.REPLACE:
        tree.rows = max(1.0, purse.rows)  # public
    else:
        tree.rows = purse.rows = estimate_rows(found.counts)
    tree.deviation = found.deviation
    find_spikes(tree, list(found.counts), old=found.tables is before)
    for x, y in determined:
        tree.functions[x, y] = most_frequent(found.counts[y], bins[y].null)
        counts = np.bincount(tree.functions[x, y], weights=tree.counts[x], minlength=bins[y].size)
        tree.counts[y] = np.asarray(counts, dtype=np.float64)
    find_complete(tree, purse, by)
    tree.stages.append(("one-way tables", len(bins), plan.ones))
    if plan.nulls and reads.nulls is not None:
        buy_null_counts(tree, purse, reads.nulls, by)
    tree.shares = [tree.estimate(i, c, found.deviation) for i, c in enumerate(tree.counts)]
    tree.merges = _merges(tree, purse)
    for x, y in reversed(determined):
        tree.merges[x] = split_merge(tree.merges[x], tree.merges[y][tree.functions[x, y]])
    if determined:
        refit(tree)


def _buy_values(tree: Tree, purse: Purse, values: ReadValues) -> None:
    """Single values of whole numbers, and the laws that follow (``tree.single_values``)."""
    plan = tree.plan
    planned = Valued(share=plan.values, moduli=plan.moduli, chosen=plan.chosen)
    moduli = choose_values(tree.binnings, tree.counts, tree.deviation, planned, purse)
    if not moduli:  # no released bin looks like a pile: the share stays unspent
        return

    def read(tables: Tables) -> Ints:
        return values(tables, moduli)

    found, _ = run_tables(value_tables(tree, moduli), plan.values, purse, read)
    tree.stages.append(("values", len(moduli), plan.values))
    find_laws(tree, moduli, found, purse)


def _numbers(tree: Tree, plan: TreePlan) -> list[int]:
    """Columns whose means this plan buys."""
    return [i for i, b in enumerate(tree.binnings) if plan.means and b.ordered and (plan.scaled or not b.exact)]


def _buy_means(tree: Tree, purse: Purse, sums: Sums, others: Sequence[TreePlan]) -> None:
    plan, numbers = tree.plan, _numbers(tree, tree.plan)
    if not numbers or not purse.rows:
        return
    usual = predicted(len(numbers), plan.means, purse, tree.rows)
    scales = find_scales(tree, numbers, ENOUGH / (usual * tree.rows**0.5), WIDE if plan.shrunk else 0.0)
    wanted = scales if plan.scaled else {}
    columns = tuple(tree.binnings[i].part.start for i in numbers)
    last = tree.binnings[-1].part
    features = Features(dimensions=last.start + last.width, factors=(ONE,), columns=columns)
    if plan.scaled:
        features = mean_features(tree.binnings, scales, numbers)

    def draw() -> tuple[Noisy, dict[int, Scale]]:
        return purse.draw(sums, features, plan.means), wanted

    stored = run_stage(purse, plan.means, draw, lambda found: fits_means(found, len(numbers)))
    for other in others if isinstance(stored, Noisy) else ():  # by an earlier version
        if plan.scaled == other.scaled:
            continue
        either = (other.ones, other.means, _numbers(tree, other)) == (plan.ones, plan.means, numbers)
        unwanted = {} if plan.scaled else scales
        if either and agreement(tree, numbers, unwanted, stored) > agreement(tree, numbers, wanted, stored):
            raise Unfit
    found, tree.scales = with_scales(stored, wanted)
    tree.means = {i: float(found.means[k]) for k, i in enumerate(numbers)}
    tree.mean_deviation = found.deviation
    tree.stages.append(("means", len(numbers), plan.means))
    refit(tree)


def _buy_labels(tree: Tree, target: int, purse: Purse, read: ReadCounts, sums: Sums) -> None:
    """Links of every column with the target: shares of the charge by their numbers.

    Of what a row adds to a table of two columns, only the part orthogonal to both margins is news (a quarter of the
    square, with two bins each); its product with the label is nothing else. Tables say more where their cells stand
    out.
    """
    others = [i for i in range(len(tree.binnings)) if i != target]
    usable = tree.plan.direct and purse.rows > 0  # under REPLACE 0 is public
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
        share = tree.plan.labels * len(direct) / len(others)
        draw = partial(purse.draw, sums, features, share)
        found = run_stage(purse, share, draw, lambda found: fits_means(found, len(direct)))
        spread = np.array([_deviation(tree.binnings[i].middles, tree.shares[i]) for i in direct])
        spread *= _deviation(label, tree.shares[target]) / factor.width
        products = shrink_scaled(found.means, spread, found.deviation) * factor.width
        tree.links = {i: (label, float(c)) for i, c in zip(direct, products, strict=True)}
        tree.stages.append(("links", len(direct), share))
        refit(tree)
    _buy_pairs(tree, tables, tree.plan.labels * len(tables) / len(others), purse, read, "labels")


def _deviation(values: Floats, shares: Floats) -> float:
    return math.sqrt(max(0.02, float(shares @ values**2) - float(shares @ values) ** 2))


def _least_share(tree: Tree, terms: Terms) -> float:
    """Share of a merged bin so that a cell of two is ``plan.cell`` deviations of the pairs' noise."""
    plan = tree.plan
    if not plan.pairs:
        return 1.0
    noise = predicted_deviation(plan.rounds, float(plan.pairs), terms)
    columns = len(tree.binnings)
    return min(0.5, math.sqrt(max(plan.cell * noise / tree.rows, columns**2 / (2 * _MOST_CELLS))))


def _merges(tree: Tree, terms: Terms) -> list[Ints]:
    """Merged bins of all columns; piles, and values whose rows in one cell stand out, alone as far as cells allow."""
    least, plan, columns = _least_share(tree, terms), tree.plan, range(len(tree.binnings))
    ways: tuple[bool, ...] = (True, False) if plan.piles else (False,) if plan.domains else ()  # with piles, without
    for piled in ways if plan.pairs else ():
        noise = predicted_deviation(plan.rounds, float(plan.pairs), terms) / tree.rows
        found = [tree.merge(i, least, _STANDS * noise, _PILED * noise if piled else math.inf) for i in columns]
        if sum(int(a.max() + 1) * int(b.max() + 1) for a, b in combinations(found, 2)) <= _MOST_CELLS:
            return found
    return [tree.merge(i, least) for i in columns]


def _choose_joining(tree: Tree, purse: Purse, read: ReadCounts) -> list[Pair]:
    """Pairs that make a forest, among all columns but the target."""
    columns = [i for i in range(len(tree.binnings)) if i != tree.target]
    candidates = [p for p in combinations(columns, 2) if p not in tree.pairs]
    shares = [merged(p, m) for p, m in zip(tree.shares, tree.merges, strict=True)]
    expected = [tree.rows * np.outer(shares[i], shares[j]) for i, j in candidates]
    if not tree.plan.choice:
        return candidates
    rounds = min(tree.plan.rounds, len(columns) - 1)
    return _choose(tree, candidates, expected, rounds, (tree.plan.choice, tree.plan.pairs), purse, read, joining=True)


def _choose_extra(tree: Tree, purse: Purse, read: ReadCounts) -> list[Pair]:
    """Pairs whose tables the rows made so far miss most."""
    known = set(tree.pairs)
    candidates = [p for p in combinations(range(len(tree.binnings)), 2) if p not in known]
    tables = Tables(merges=tuple(tree.merges), sets=tuple(candidates))
    made = tables.count(tree.make(TRIAL_ROWS)) * (tree.rows / TRIAL_ROWS)
    expected = [np.asarray(e, dtype=np.float64) for e in tables.split(made)]
    rounds = min(tree.plan.extra_rounds, len(candidates))
    return _choose(
        tree, candidates, expected, rounds, (tree.plan.extra_choice, tree.plan.extra), purse, read, joining=False
    )


def _choose(
    tree: Tree,
    candidates: list[Pair],
    expected: list[Floats],
    rounds: int,
    shares: tuple[Fraction, Fraction],
    purse: Purse,
    read: ReadCounts,
    *,
    joining: bool,
) -> list[Pair]:
    """Pairs by rounds of the exponential mechanism, each a stage: its choice decides how many follow.

    One statement reads all scores. Ends with "none", or all rounds.
    """
    part = list(range(len(tree.binnings)))  # which part of the forest a column is in
    for x, y in tree.functions:
        part = [part[x] if p == part[y] else p for p in part]
    if joining:
        inside = [k for k, (i, j) in enumerate(candidates) if part[i] != part[j]]
        candidates, expected = [candidates[k] for k in inside], [expected[k] for k in inside]
    if not candidates:
        return []
    tables = Tables(merges=tuple(tree.merges), sets=tuple(candidates))
    wanted = np.concatenate([np.rint(np.maximum(0, e) * GRID).astype(np.int64).ravel() for e in expected])
    noise = predicted_deviation(rounds, float(shares[1]), purse)
    usual = [round(GRID * _FOLDED * noise * e.size) for e in expected]
    scores: list[int] = []
    found: list[Pair] = []
    tree.stages.append(("choice of pairs", rounds, shares[0]))
    open_ones, seen, linf = list(range(len(candidates))), Seen(), score_change(purse.neighbours)

    def draw() -> int:
        if not scores:  # read once, by the first round that is not stored
            scores.extend(q - u for q, u in zip(exact_scores(tables, wanted, read), usual, strict=True))
        epsilon = choice_epsilon(purse, shares[0] / rounds)  # every round is charged
        return choose_exponential([0, *(scores[k] for k in open_ones)], epsilon=epsilon, linf=linf, seen=seen)

    for _ in range(rounds):
        at = run_stage(purse, shares[0] / rounds, draw, lambda found: isinstance(found, int))
        if at == 0:
            break
        chosen = open_ones.pop(at - 1)
        i, j = candidates[chosen]
        found.append((i, j))
        part = [part[i] if p == part[j] else p for p in part]
        if joining:
            open_ones = [k for k in open_ones if part[candidates[k][0]] != part[candidates[k][1]]]
    return found


def _buy_pairs(tree: Tree, pairs: list[Pair], share: Fraction, purse: Purse, read: ReadCounts, name: str) -> None:
    """Measure tables and add their distributions; without any, the share stays unspent."""
    if not pairs:
        return
    found, _ = run_tables(Tables(merges=tuple(tree.merges), sets=tuple(pairs)), share, purse, read)
    tree.bought |= {pair: (counts, found.deviation) for pair, counts in zip(pairs, found.counts, strict=True)}
    tree.stages.append((name, len(pairs), share))
    refit(tree)

"""Values within a tree's bins: they lean as the histogram falls, keep off piles, and meet the released means."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from duckdp.synthetic.tree.bins import Binning, leaned, make_bins, set_apart
from duckdp.synthetic.tree.make import unseen_nulls
from duckdp.synthetic.tree.make.estimates import leaning
from duckdp.synthetic.tree.make.forest import Tree, falls
from duckdp.synthetic.tree.scales import bin_values
from duckdp.synthetic.tree.spending import TreePlan
from duckdp.synthetic.unit.finish import tell_unseen
from duckdp.synthetic.unit.layout import make_units
from tests.smooth.tables import column

OTHER = column("all", 0, 1, nullable=False)


def _first(own: object, bins: int = 20) -> Binning:
    return make_bins(make_units([own, OTHER]), bins, spikes=True)[0]


def _tree(binning: Binning, shares: np.ndarray, mean: float | None, noise: float = 1e-6) -> Tree:
    """One column, known but for noise of so much."""
    tree = Tree(binnings=(binning,), plan=TreePlan(bins=binning.bins, ones=Fraction(1), scaled=True), target=None)
    tree.rows, tree.deviation, tree.shares = 10_000.0, noise * 10_000, [shares]
    if mean is not None:
        tree.means, tree.mean_deviation, tree.means_apart = {0: mean}, noise, True
    return tree


def test_levels_of_a_lean_are_those_of_its_law() -> None:
    levels = (np.arange(4000) + 0.5) / 4000
    for lean in (-2000.0, -30.0, -1.0, 0.0, 1e-9, 1.0, 5.0, 2000.0):
        places = leaned(levels, np.full(4000, lean))
        assert (np.diff(places) > 0).all()
        assert places[0] >= 0
        assert places[-1] <= 1
        wanted = 0.5 if abs(lean) < 1e-6 else 1 / lean - 1 / np.expm1(min(lean, 700.0))
        assert places.mean() == pytest.approx(wanted, abs=2e-4)


def test_shares_that_fall_exponentially_are_continued_within_bins() -> None:
    binning = _first(column("x", 0, 100, nullable=False))
    edges = np.exp(-0.12 * np.linspace(0, 100, 21))
    shares = np.append(edges[:-1] - edges[1:], [0.0, 0.0])
    found = falls(binning, shares, 0.0)[: binning.bins]
    np.testing.assert_allclose(found, 0.6, atol=1e-3)
    uneven = np.where(np.arange(binning.size) % 2 == 0, 0.08, 0.02)
    assert not falls(binning, uneven, 0.0)[1:-3].any()  # no fall where both sides disagree


def test_steps_of_unequal_numbers_of_values_do_not_look_like_falls() -> None:
    """0 to 30 in 20 steps: one value or two in each; even counts of values fall nowhere."""
    binning = _first(column("n", 0, 30, "INTEGER", nullable=False))
    shares = np.append(binning.widths / binning.widths.sum(), [0.0, 0.0])
    assert binning.widths.tolist() == [2.0, 1.0] * 9 + [2.0, 2.0]
    np.testing.assert_allclose(falls(binning, shares, 0.0), 0.0, atol=1e-6)
    assert np.abs(falls(replace(binning, span=0), shares, 0.0)).max() > 0.5  # the twin: by shares alone


def test_whole_numbers_in_steps_keep_off_piles() -> None:
    """On the old code 0 had its pile, and a part of its step besides."""
    binning = _first(column("loss", 0, 5000, "INTEGER", nullable=False))
    (apart,) = set_apart((binning,), {0: (21,)})
    codes = np.repeat(np.arange(20), 1000)
    steep = np.full(binning.size, 1500.0)
    for one, kept in ((apart, 0), (binning, 1)):  # the second is the twin
        made = np.rint((one.spread(codes, steep)[:, 0] + 1) * 2500)
        assert np.isin(0, made) == kept
        np.testing.assert_array_equal(np.floor(np.minimum(made, 4999) / 250), codes)
    small = set_apart((_first(column("n", 0, 30, "INTEGER", nullable=False)),), {0: (21,)})[0]
    assert np.rint((small.spread(np.zeros(9, dtype=np.int64))[:, 0] + 1) * 15).tolist() == [1.0] * 9


def test_few_rows_far_out_do_not_pile_all_others_at_the_bound() -> None:
    """Votes between 5 and some thousands within 0 to 200,000: the first bin's law is exponential, no spike at 0."""
    binning = _first(column("votes", 0, 200_000, "INTEGER", nullable=False))
    shares = np.zeros(binning.size)
    shares[:3] = 0.985, 0.012, 0.003
    wanted = 2 * 500 / 200_000 - 1
    tree = _tree(binning, shares, wanted, noise=2e-3)
    tree.mean_deviation = 1e-5
    tree.shares = [tree.met(0, 2e-3, 1e-5)]
    (lean,) = tree.leans()
    assert tree.shares[0] @ bin_values(binning, (0.0, 1.0), lean, apart=True) == pytest.approx(wanted, abs=1e-4)
    assert np.abs(tree.shares[0] - shares).max() < 0.01
    made = np.rint((binning.spread(np.zeros(5000, dtype=np.int64), lean)[:, 0] + 1) * 100_000)
    assert np.mean(made == 0) < 0.05
    power = np.floor(((np.arange(5000) + 0.5) / 5000) ** (1 / 0.02 - 1) * 10_000)
    assert np.mean(power == 0) > 0.7  # the twin: powers of equal steps, as it was


def test_a_mean_is_met_by_shares_that_are_nearly_one_bin() -> None:
    """Newton's steps went from one end to the other, and ended at the wrong one."""
    values, shares = np.linspace(-1, 1, 10), np.full(10, 1e-4)
    shares[1] = 1 - 9e-4
    for goal in (values[1] - 0.02, values[1] + 0.02, 0.5):
        assert leaning(shares, values, goal) @ values == pytest.approx(goal, abs=1e-9)


def test_unseen_nulls_are_told() -> None:
    units = make_units([column("race", None, None, "VARCHAR", domain=("a", "b")), column("age", 0, 90), OTHER])
    tree = Tree(binnings=make_bins(units, 20), plan=TreePlan(bins=20, ones=Fraction(1), scaled=True), target=None)
    tree.rows, tree.deviation, tree.complete, tree.null_shares = 1000.0, 10.0, (0, 1), {0: 0.08, 1: 0.01}
    assert unseen_nulls(tree) == [("race", 0.08)]  # one in a hundred is within three deviations of none
    assert tell_unseen(unseen_nulls(tree)) == "no row shows NULL in race (noisy share 8.0%): so few may be noise"

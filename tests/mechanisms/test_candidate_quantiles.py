"""mechanisms/candidate_quantiles.py: scores against their definition, and how far a unit moves them."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy import stats

from duckdp.mechanisms import candidate_quantiles
from duckdp.mechanisms.candidate_quantiles import CandidateQuantile

CANDIDATES = 2
PLACES = 2 * CANDIDATES + 1
QUANTILES = [Fraction(1, 2), Fraction(1, 5), Fraction(9, 10)]


def made(
    quantile: Fraction, unit: int = 1, epsilon: Fraction = Fraction(1), size: int = CANDIDATES
) -> CandidateQuantile:
    return CandidateQuantile(quantile=quantile, candidates=size, epsilon=epsilon, unit=unit)


def moved(quantile: Fraction, unit: int) -> int:
    """The largest change of a score, of all small tables and all units that come."""
    of = made(quantile, unit)
    found = 0
    for size in range(6):
        for values in combinations_with_replacement(range(PLACES), size):
            for rows in combinations_with_replacement(range(PLACES), unit):
                one, other = (of.scores(Counter(v)) for v in (values, (*values, *rows)))
                found = max(found, *(abs(a - b) for a, b in zip(one, other, strict=True)))
    return found


@pytest.mark.parametrize(("quantile", "unit"), list(product(QUANTILES, (1, 3))))
def test_a_unit_moves_scores_by_what_is_claimed_and_no_less(quantile: Fraction, unit: int) -> None:
    assert moved(quantile, unit) == made(quantile, unit).linf
    a, b = quantile.numerator, quantile.denominator
    assert moved(quantile, unit) > unit * min(a, b - a) or a * 2 == b  # the broken twin takes the nearer end


def test_the_choice_is_of_those_scores_at_that_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[int], Fraction, int, bool]] = []

    def choose(scores: list[int], *, epsilon: Fraction, linf: int, monotone: bool = False) -> int:
        seen.append((scores, epsilon, linf, monotone))
        return 1

    monkeypatch.setattr(candidate_quantiles, "choose_best", choose)
    of = made(Fraction(1, 5), 3, Fraction(1, 3))
    assert of.choose({1: 4, 4: 9}) == 1
    assert seen == [(of.scores({1: 4, 4: 9}), Fraction(1, 3), 12, False)]


def test_who_has_the_rank_deep_inside_is_chosen_the_more_often() -> None:
    """Its neighbours, of 20 rows each, are 10 off: cut at 0, a score would leave it half of that before them."""
    of = made(Fraction(1, 2), epsilon=Fraction(1, 5), size=5)
    counts = {2 * c + 1: 20 for c in range(5)}
    assert of.scores(counts) == [-60, -20, 20, -20, -60]
    chosen = [of.choose(counts) for _ in range(400)]
    rate = float(of.epsilon / (2 * of.linf))
    told = float(law([80, 40, 0, 40, 80], rate)[2])
    cut = float(law([60, 20, 0, 20, 60], rate)[2])
    assert told > 0.97
    assert cut < 0.9
    assert stats.binom.cdf(chosen.count(2), 400, told) > 1e-8
    assert stats.binom.cdf(round(400 * cut), 400, told) < 1e-8  # the broken twin


def test_scores_are_how_far_the_ranks_of_a_candidate_are_off() -> None:
    rng = random.Random(5)
    for _ in range(200):
        size = rng.randint(1, 6)
        values = [rng.randrange(2 * size + 1) for _ in range(rng.randint(0, 30))]
        for quantile in QUANTILES:
            aim = quantile * len(values)
            for c, score in enumerate(made(quantile, size=size).scores(Counter(values))):
                below, upto = sum(v < 2 * c + 1 for v in values), sum(v <= 2 * c + 1 for v in values)
                assert score == -quantile.denominator * max(below - aim, aim - upto)


def test_what_is_chosen_is_within_its_bound() -> None:
    size = 500
    of = made(Fraction(1, 2), epsilon=Fraction(1, 2), size=size)
    counts = {2 * c: 3 for c in range(size)}
    best = max(of.scores(counts))
    far = [(best - of.scores(counts)[of.choose(counts)]) / 2 for _ in range(40)]
    assert sum(f > of.rank_bound() for f in far) <= 16  # a chance below 1e-9 at 5% each
    assert max(far) > of.rank_bound() / 20  # and it is noised


def law(distances: list[int], rate: float) -> np.ndarray:
    """How likely each candidate is the largest after geometric noise, ties by chance: summed over the noise."""
    found = np.zeros(len(distances))
    gone, stays = -math.expm1(-rate), np.exp(-rate)
    for total in range(-max(distances), int(60 / rate)):
        equal = [gone * stays ** (total + d) if total + d >= 0 else 0.0 for d in distances]
        below = [1 - stays ** (total + d) if total + d >= 0 else 0.0 for d in distances]
        for r, own in enumerate(equal):
            others = np.polynomial.Polynomial([1.0])  # in z, the place of r among ties: the mean over z in [0, 1]
            for s, pair in enumerate(zip(below, equal, strict=True)):
                others = others * np.polynomial.Polynomial(pair) if s != r else others
            found[r] += own * others.integ()(1.0)
    return found


def test_a_choice_is_never_farther_off_than_a_draw_would_be() -> None:
    """By the laws of both, whatever the scores are; at half of epsilon it would be."""
    rng, worse = random.Random(4), 0
    for _ in range(25):
        distances = [0, *(rng.choice((0, 1, 2, 5, 9)) for _ in range(rng.randint(1, 5)))]
        rate = rng.choice((0.3, 0.7, 2.0))
        draw = np.exp(-rate * np.array(distances))
        draw /= draw.sum()
        choice, twin = law(distances, rate), law(distances, rate / 2)
        assert choice.sum() == pytest.approx(1, abs=1e-9)
        for t in range(1, 10):
            far = np.array(distances) >= t
            assert choice[far].sum() <= draw[far].sum() + 1e-9
            worse += twin[far].sum() > draw[far].sum() + 1e-9
    assert worse > 50
    assert law([0, 40], 1.0)[1] == pytest.approx(math.exp(-40) / 2, rel=1e-6)  # half of what a draw has

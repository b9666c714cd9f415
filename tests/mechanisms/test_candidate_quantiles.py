"""mechanisms/candidate_quantiles.py: scores against their definition, and how far a unit moves them."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest

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


def test_scores_are_how_far_the_ranks_of_a_candidate_are_off() -> None:
    rng = random.Random(5)
    for _ in range(200):
        size = rng.randint(1, 6)
        values = [rng.randrange(2 * size + 1) for _ in range(rng.randint(0, 30))]
        for quantile in QUANTILES:
            aim = quantile * len(values)
            for c, score in enumerate(made(quantile, size=size).scores(Counter(values))):
                below, upto = sum(v < 2 * c + 1 for v in values), sum(v <= 2 * c + 1 for v in values)
                assert score == -quantile.denominator * max(0, below - aim, aim - upto)


def test_what_is_chosen_is_within_its_bound() -> None:
    size = 500
    of = made(Fraction(1, 2), epsilon=Fraction(1, 2), size=size)
    counts = {2 * c: 3 for c in range(size)}
    best = max(of.scores(counts))
    far = [(best - of.scores(counts)[of.choose(counts)]) / 2 for _ in range(40)]
    assert sum(f > of.rank_bound() for f in far) <= 16  # a chance below 1e-9 at 5% each
    assert max(far) > of.rank_bound() / 20  # and it is noised

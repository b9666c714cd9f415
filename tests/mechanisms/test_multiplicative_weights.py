"""mechanisms/multiplicative_weights.py: its loss from exact laws, its shares, its weights, its intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from duckdp.core.types import NANO
from duckdp.errors import ParameterError
from duckdp.mechanisms import multiplicative_weights, sparse_vector
from duckdp.mechanisms.multiplicative_weights import MultiplicativeWeights, mended, share_of
from tests.mechanisms.test_sparse_vector import Law, law_of
from tests.privacy.statistics import fits

Said = tuple[str, ...]


def made(hits: int = 1, *, epsilon: float = 2, threshold: int | None = 1) -> MultiplicativeWeights:
    return MultiplicativeWeights(hits=hits, epsilon_nano=round(epsilon * NANO), threshold=threshold)


def transcripts(law: Law, counts: Sequence[int], guesses: Sequence[float], threshold: int) -> dict[Said, float]:
    """Chances of what is said of each question: "above", "below" or "fits"; until the last hit."""
    found: Counter[Said] = Counter()

    def walk(said: Said, chance: float, shift: int) -> None:
        if len(said) == len(counts) or len(said) - said.count("fits") == law.hits:
            found[said] += chance  # type: ignore[assignment]
            return
        count, guess = counts[len(said)], guesses[len(said)]
        above = law.above(count, math.ceil(threshold + guess), shift)
        below = (1 - above) * law.above(-count, math.ceil(threshold - guess), shift)
        for word, p in (("above", above), ("below", below), ("fits", 1 - above - below)):
            if p > 1e-300:
                walk((*said, word), chance * p, shift)

    for shift, chance in law.shifts():
        walk((), chance, shift)
    return found


def loss(law: Law, size: int, threshold: int = 1) -> float:
    """Largest change of a log-chance over small counts, guesses and all neighbours; values apart."""
    worst = 0.0
    for counts in product((0, 2), repeat=size):
        for guesses in product((0.0, 1.5), repeat=size):
            here = transcripts(law, counts, guesses, threshold)
            for move in product((-1, 0, 1), repeat=size):
                there = transcripts(law, [q + d for q, d in zip(counts, move, strict=True)], guesses, threshold)
                for said, p in here.items():
                    if p > 1e-12:
                        worst = max(worst, abs(math.log(p / there[said])) if there.get(said) else math.inf)
    return worst


@pytest.mark.parametrize("hits", [1, 2])
def test_the_loss_is_at_most_what_the_comparisons_claim(hits: int) -> None:
    weights = made(hits)
    first, second, _ = weights.vector.shares
    law = law_of(weights.vector)
    assert loss(law, 2) <= (first + second) / NANO + 1e-9
    assert weights.vector.monotone is False


def test_the_claim_is_nearly_reached_and_the_noise_of_one_way_is_caught() -> None:
    """Many questions that fit move up, and one that is far off moves down."""
    weights = made(1)
    claim = sum(weights.vector.shares[:2]) / NANO
    said = ("fits",) * 12 + ("above",)

    def ratio(law: Law) -> float:
        here, there = (transcripts(law, counts, [0.0] * 13, 30)[said] for counts in ([30] * 12 + [1], [31] * 12 + [0]))
        return abs(math.log(here / there))

    law = law_of(weights.vector)
    assert 0.85 * claim < ratio(law) <= claim + 1e-9
    assert ratio(replace(law, rate=2 * law.rate)) > claim
    assert ratio(replace(law, first=1.25 * law.first, rate=1.25 * law.rate)) > claim  # 0.8 times the scale


def test_the_parts_are_worth_what_is_charged() -> None:
    for hits, epsilon in ((1, 1.0), (10, 0.3), (200, 5.0)):
        weights = made(hits, epsilon=epsilon)
        total = weights.epsilon_nano // 10
        assert sum(weights.vector.shares) + total <= weights.loss.epsilon_nano == round(epsilon * NANO)
        assert Fraction(weights._total_scale) >= Fraction(NANO, total)
        assert weights.vector.valued


def test_replies_follow_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of three questions, and broken twins of 0.8 and 1.25 times the scale."""
    monkeypatch.setattr(sparse_vector, "laplace_noise", lambda n, _: [0] * n)  # of values, which say nothing here
    weights, counts, guesses = made(1, epsilon=3, threshold=2), (5, 0, 9), (4.5, 3.0, 4.0)

    def say() -> Said:
        shift, said = weights.begin(), list[str]()
        for count, guess in zip(counts, guesses, strict=True):
            found = weights.reply(count, guess, shift)
            said.append("hit" if found.measured else "fits")
            if found.measured:
                break
        return tuple(said)

    def expected(law: Law) -> dict[Said, float]:
        merged: Counter[Said] = Counter()
        for said, p in transcripts(law, counts, guesses, 2).items():
            merged[tuple("fits" if word == "fits" else "hit" for word in said)] += p  # type: ignore[assignment]
        return merged

    seen = Counter(say() for _ in range(9_000))

    def holds(law: Law) -> bool:
        wanted = expected(law)
        cells = sorted(wanted)
        return fits(float(stats.chisquare([seen[c] for c in cells], [9_000 * wanted[c] for c in cells]).pvalue))

    law = law_of(weights.vector)
    assert holds(law)
    for factor in (0.8, 1.25):
        assert not holds(replace(law, first=law.first / factor, rate=law.rate / factor)), factor


def test_a_measured_answer_has_fresh_noise_and_the_right_sign() -> None:
    weights = made(3, epsilon=60, threshold=50)
    high, low = weights.reply(900, 100.0, 0), weights.reply(100, 900.0, 0)
    assert (high.measured, low.measured) == (True, True)
    assert abs(high.value - 900) < 20 > abs(low.value - 100)
    assert weights.reply(500, 510.25, 0).value == 510.25
    assert not weights.reply(500, 510.25, 0).measured


def test_intervals_hold() -> None:
    """Of all answers of one release together, at counts as far off as may go unnoticed."""
    weights, wrong, runs = made(5, epsilon=1, threshold=None), 0, 100
    far = weights.unmeasured_error
    for _ in range(runs):
        shift = weights.begin()
        wrong += any(not weights.reply(5000 + side * (far + 1), 5000.0, shift).measured for side in (1, -1) * 10)
    assert stats.binom.sf(wrong - 1, runs, 0.05) > 1e-9
    shift = weights.begin()
    assert any(not weights.reply(5000 + far // 2, 5000.0, shift).measured for _ in range(100))  # no wider than needed
    fine = sum(abs(weights.reply(9000, 0.0, 0).value - 9000) <= weights.measured_error for _ in range(400))
    assert stats.binom.cdf(fine, 400, 0.95) > 1e-9
    false = sum(
        any(weights.reply(5000, 5000.0, shift).measured for _ in range(50)) for shift in (weights.begin(),) * 20
    )
    assert false <= 12


def test_the_number_of_draws_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(sparse_vector, "geometric", lambda rate: asked.append(rate) or 3)
    monkeypatch.setattr(sparse_vector, "laplace_noise", lambda n, scale: asked.append((n, scale)) or [1] * n)
    drawn = []
    for count in (0, 50, 10**6):
        asked.clear()
        made(2, threshold=10).reply(count, 50.0, 0)
        drawn.append(list(asked))
    assert drawn[0] == drawn[1] == drawn[2] != []


# ---- weights


def test_weights_meet_what_was_measured() -> None:
    rng = np.random.default_rng(3)
    true = rng.dirichlet(np.ones(24) * 0.5)
    sets = [rng.random(24) < 0.4 for _ in range(6)]
    measured = [(members, 10_000 * float(true[members].sum())) for members in sets]
    distances = []
    for used in range(len(sets) + 1):
        weights = mended(24, 10_000, measured[:used])
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1)
        distances.append(float((true * np.log(true / weights)).sum()))
    assert distances[-1] < 0.7 * distances[0]
    assert distances == sorted(distances, reverse=True)  # each true answer brings them nearer
    last = mended(24, 10_000, measured)
    assert 10_000 * last[sets[-1]].sum() == pytest.approx(measured[-1][1], rel=1e-6)
    assert (mended(24, 10_000, measured) == last).all()


def test_weights_meet_what_was_measured_of_numbers() -> None:
    """Of numbers of cells as of sets; numbers that are 0 and 1 are the set."""
    rng = np.random.default_rng(5)
    true = rng.dirichlet(np.ones(24) * 0.5)
    asked = [rng.random(24) ** 2 for _ in range(3)] + [rng.integers(0, 3, 24) / 2 for _ in range(3)]
    measured = [(values, 10_000 * float(true @ values)) for values in asked]
    distances = []
    for used in range(len(asked) + 1):
        weights = mended(24, 10_000, measured[:used])
        assert weights.min() > 0
        assert weights.sum() == pytest.approx(1)
        distances.append(float((true * np.log(true / weights)).sum()))
    assert distances == sorted(distances, reverse=True)
    last = mended(24, 10_000, measured)
    assert 10_000 * share_of(last, asked[-1]) == pytest.approx(measured[-1][1], rel=1e-6)
    sets = [(rng.random(24) < 0.4, 10_000 * rng.random()) for _ in range(4)]
    numbers = [(members.astype(float), value) for members, value in sets]
    assert mended(24, 10_000, numbers) == pytest.approx(mended(24, 10_000, sets), rel=1e-6)


def test_weights_of_numbers_stay_numbers_whatever_was_measured() -> None:
    rng = np.random.default_rng(6)
    asked = [rng.random(50), np.full(50, 0.5), np.arange(50) / 49, np.linspace(0.4, 0.4 + 1e-9, 50), np.eye(50)[0] / 3]
    for value in (-1e9, 0.0, 1e-9, 3.0, 1e9, 1e300):
        for total in (1, 10, 10**9):
            weights = mended(50, total, [(values, value) for values in (*asked, *asked[::-1])])
            assert np.isfinite(weights).all()
            assert weights.min() > 0
            assert weights.sum() == pytest.approx(1)
    assert mended(50, 10, [(np.full(50, 0.5), 9.0)]) == pytest.approx(np.full(50, 1 / 50))
    for share in (1e-12, 1e-6, 0.2, 0.999999):
        levels, mass = np.array([0, 1e-6, 0.3, 1]), np.array([1e-150, 0.4, 1e-9, 0.6])
        factors = multiplicative_weights._factors(mass, levels, share)
        assert float((mass * factors).sum()) == pytest.approx(1)
        assert float(mass * factors @ levels) == pytest.approx(share, rel=1e-6)


def test_weights_take_nothing_for_impossible() -> None:
    first = np.array([True, False, False])
    for value in (-50.0, 0.0, 10.0, 1e9):
        weights = mended(3, 10, [(first, value), (~first, 3.0)])
        assert np.isfinite(weights).all()
        assert weights.min() > 0
    everything, nothing = np.ones(3, dtype=bool), np.zeros(3, dtype=bool)
    assert mended(3, 10, [(everything, 1.0), (nothing, 9.0)]) == pytest.approx(np.full(3, 1 / 3))
    assert mended(3, 1, [(first, 0.0)]).min() > 0


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ParameterError, match="P101"):
        _ = MultiplicativeWeights(hits=3, epsilon_nano=5).vector
    with pytest.raises(ParameterError, match="P107"):
        _ = MultiplicativeWeights(hits=0, epsilon_nano=NANO).vector


@pytest.mark.parametrize("shrinking", [True, False])
def test_weights_stay_numbers_whatever_was_measured(shrinking: bool) -> None:
    """Hundreds of sets with answers near 0, one within the other or the same one again and again."""
    cells = 400
    sets = [np.arange(cells) < (cells - i if shrinking else 1) for i in range(199)]
    weights = mended(cells, 10**9, [(members, 0.0) for members in sets])
    assert np.isfinite(weights).all()
    assert weights.sum() == pytest.approx(1)
    assert weights.min() > 0

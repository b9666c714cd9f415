"""MWEM's rounds: what scores move by, what all draws cost together, the law of choices, how short they are."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from scipy import stats

from duckdp.core.accountant import pure_rho
from duckdp.core.types import NANO
from duckdp.errors import ParameterError
from duckdp.mechanisms import mwem
from duckdp.mechanisms.exponential import exponential_weights
from duckdp.mechanisms.mwem import WorstQuestions
from tests.privacy.statistics import fits

DRAWS = 4_000


class Heard:
    """Scores and epsilon of each choice, and the scale of each draw of noise."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.scores: list[list[int]] = []
        self.spent: list[Fraction] = []
        patch.setattr(mwem, "choose_exponential", self._choose)
        patch.setattr(mwem, "laplace_noise", self._draw)

    def _choose(self, scores: list[int], *, epsilon: Fraction, linf: int, **more: Any) -> int:
        assert linf == 1
        assert not more.get("monotone")  # a score may go up while another one goes down
        self.scores.append(list(scores))
        self.spent.append(epsilon)
        return 0

    def _draw(self, count: int, scale: float) -> list[int]:
        self.spent += [1 / Fraction(scale)] * count
        return [0] * count


def test_a_score_moves_by_at_most_what_its_count_does(monkeypatch: pytest.MonkeyPatch) -> None:
    heard, worst = Heard(monkeypatch), WorstQuestions(rounds=1, epsilon_nano=NANO)
    for counts in product(range(4), repeat=2):
        for moves in product((-1, 0, 1), repeat=2):
            for guesses in ((0, 2), (3, 1)):
                worst.measure(counts, guesses)
                worst.measure([c + m for c, m in zip(counts, moves, strict=True)], guesses)
    pairs = list(zip(heard.scores[::2], heard.scores[1::2], strict=True))
    assert max(abs(a - b) for one, other in pairs for a, b in zip(one, other, strict=True)) == 1
    assert max(abs(a * a - b * b) for one, other in pairs for a, b in zip(one, other, strict=True)) > 1  # the twin


@pytest.mark.parametrize("rounds", [1, 3, 40])
def test_all_draws_together_cost_the_charge(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    heard, worst = Heard(monkeypatch), WorstQuestions(rounds=rounds, epsilon_nano=NANO // 3)
    worst.total(7)
    for _ in range(rounds):
        worst.measure([1, 2], [0, 0])
    spent = sum(heard.spent)
    assert Fraction(NANO // 3, NANO) * (1 - Fraction(1, 10**6)) < spent <= Fraction(NANO // 3, NANO)
    total, *others = heard.spent
    rho = total**2 / 2 + sum(e**2 / 8 for e in others[::2]) + sum(e**2 / 2 for e in others[1::2])
    assert float(rho) * 10**12 <= worst.loss.rho_pico <= pure_rho(worst.epsilon_nano)
    assert worst.loss.rho_pico == pytest.approx(float(rho) * 10**12, rel=1e-5)
    assert worst.loss.epsilon_nano == NANO // 3


def test_choices_follow_the_exponential_law_of_what_is_wrong() -> None:
    worst, counts, guesses = WorstQuestions(rounds=1, epsilon_nano=2 * NANO), [9, 4, 0, 6], [4, 4, 4, 4]
    drawn = Counter(worst.measure(counts, guesses)[0] for _ in range(DRAWS))

    def held(factor: float) -> bool:
        weights = exponential_weights([5, 0, 4, 2], Fraction(worst.each_nano, NANO) / 2 * Fraction(factor))
        expected = [DRAWS * w / sum(weights) for w in weights]
        return fits(float(stats.chisquare([drawn[i] for i in range(4)], expected).pvalue))

    assert held(1)
    assert not held(0.5)
    assert not held(2)


def test_measured_counts_have_noise_of_their_share() -> None:
    worst = WorstQuestions(rounds=2, epsilon_nano=NANO)
    scale = worst.noise.scale
    assert scale == pytest.approx(4 / 0.9, rel=1e-6)
    apart = [worst.measure([50], [0])[1] - 50 for _ in range(DRAWS)]
    assert sum(map(abs, apart)) / DRAWS == pytest.approx(scale, rel=0.12)


def test_choices_are_short_by_no_more_than_is_said() -> None:
    worst, counts = WorstQuestions(rounds=1, epsilon_nano=NANO), list(range(0, 200, 4))
    most = worst.short(50)
    short = [max(counts) - counts[worst.measure(counts, [0] * 50)[0]] for _ in range(400)]
    assert sum(s > most for s in short) <= 45  # 20 expected at most; it fails once in 10^7
    assert most == math.ceil(2 * math.log(50 / 0.05) / 0.45)


def test_what_is_too_small_is_refused() -> None:
    for terms in ((10**9, NANO // 10), (1, 5)):
        with pytest.raises(ParameterError, match="P101"):
            WorstQuestions(rounds=terms[0], epsilon_nano=terms[1])

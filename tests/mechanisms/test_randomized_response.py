"""mechanisms/randomized_response.py: its loss between any two values from exact laws, its draws, its intervals."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from duckdp.core.noise_arrays import bernoullis_exp
from duckdp.errors import InternalError, ParameterError
from duckdp.mechanisms import randomized_response
from duckdp.mechanisms.randomized_response import MOST_VALUES, OUTSIDE, Encoding, RandomizedResponse
from tests.privacy.draws import watched
from tests.privacy.statistics import fits

DRAWS = 12_000
BOTH: tuple[Encoding, ...] = ("direct", "unary")
Law = dict[tuple[int, ...], float]


def made(encoding: Encoding = "direct", values: int = 3, epsilon: str = "1") -> RandomizedResponse:
    return RandomizedResponse(encoding=encoding, values=values, epsilon=Fraction(epsilon))


def law(response: RandomizedResponse, place: int, chances: tuple[float, float] | None = None) -> Law:
    """Chances of every report of a value; twins have other p and q."""
    (p, q), k = chances or response.chances, response.values
    if response.encoding == "direct":
        return {(i,): 1 / k if place == OUTSIDE else p if i == place else q for i in range(k)}
    found = {}
    for members in product((False, True), repeat=k):
        each = [p if i == place else q for i in range(k)]
        found[tuple(i for i, m in enumerate(members) if m)] = math.prod(
            c if m else 1 - c for c, m in zip(each, members, strict=True)
        )
    return found


def loss(response: RandomizedResponse, chances: tuple[float, float] | None = None) -> float:
    """Largest change of a log-chance between any two values, of the domain or not."""
    laws = [law(response, place, chances) for place in (OUTSIDE, *range(response.values))]
    assert all(sum(found.values()) == pytest.approx(1) for found in laws)
    return max(abs(math.log(one[said] / other[said])) for one, other in combinations(laws, 2) for said in one)


@pytest.mark.parametrize("encoding", BOTH)
@pytest.mark.parametrize("values", [2, 3, 5])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_the_loss_is_what_is_claimed_and_no_less(encoding: Encoding, values: int, epsilon: str) -> None:
    response = made(encoding, values, epsilon)
    assert loss(response) == pytest.approx(float(epsilon), abs=1e-9)
    more = RandomizedResponse(encoding=encoding, values=values, epsilon=Fraction(epsilon) * Fraction(5, 4))
    assert loss(response, more.chances) > 1.2 * float(epsilon)  # a broken twin, of 0.8 times the noise


def test_a_twin_of_p_where_unary_needs_a_fair_coin() -> None:
    """With the direct p the set tells twice: the value's member and every other one."""
    response = made("unary", 2, "1")
    p, q = made("direct", 2, "1").chances
    assert loss(response, (p, q)) > 1.9


def follows(response: RandomizedResponse, place: int, expected: Law) -> bool:
    counts = Counter(map(tuple, response.report([place] * DRAWS)))
    cells = sorted(expected)
    return fits(float(stats.chisquare([counts[c] for c in cells], [DRAWS * expected[c] for c in cells]).pvalue))


@pytest.mark.parametrize("encoding", BOTH)
@pytest.mark.parametrize("place", [OUTSIDE, 0, 2])
def test_reports_follow_the_law(encoding: Encoding, place: int) -> None:
    response = made(encoding, 3, "1.7")  # exp(-1) and a rest
    assert follows(response, place, law(response, place))
    for factor in (Fraction(4, 5), Fraction(5, 4)):  # broken twins
        wrong = RandomizedResponse(encoding=encoding, values=3, epsilon=response.epsilon * factor)
        uniform = encoding == "direct" and place == OUTSIDE
        assert uniform or not follows(response, place, law(wrong, place))
    other = 1 if place != 1 else 0
    assert not follows(response, place, law(response, other))


@pytest.mark.parametrize("encoding", BOTH)
def test_each_person_has_noise_of_their_own(encoding: Encoding) -> None:
    """Two reports of one value are independent: both have it as often as chance says."""
    response = made(encoding, 3, "1")
    found = response.report([0] * DRAWS)
    both = sum(0 in a and 0 in b for a, b in zip(found[::2], found[1::2], strict=True))
    p, _ = response.chances
    assert stats.binomtest(both, DRAWS // 2, p**2).pvalue > 1e-9


@pytest.mark.parametrize("encoding", BOTH)
def test_draws_do_not_know_the_values(encoding: Encoding) -> None:
    response, seen = made(encoding, 5, "1.3"), []
    for places in ([0] * 60, [4] * 60, [OUTSIDE] * 60, list(range(5)) * 12):
        with watched(seed=3) as calls:
            response.report(places)
        seen.append(list(calls))
    assert seen[0] == seen[1] == seen[2] == seen[3] != []


def test_large_lists_of_large_domains_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    response = made("unary", MOST_VALUES["unary"], "4")
    monkeypatch.setattr(randomized_response, "_CELLS", 25_000)
    found = response.report([5] * 25)
    assert len(found) == 25
    sizes = [len(report) for report in found]
    expected = 0.5 + (response.values - 1) * response.chances[1]
    assert abs(np.mean(sizes) - expected) < 1.4 * math.sqrt(expected)


def test_events_of_probability_exp() -> None:
    for rate in (Fraction(0), Fraction(1, 3), Fraction(1), Fraction(17, 5)):
        hits = int(bernoullis_exp(rate, DRAWS).sum())
        assert stats.binomtest(hits, DRAWS, math.exp(-rate)).pvalue > 1e-9
        for factor in (0.8, 1.25):
            assert not rate or stats.binomtest(hits, DRAWS, math.exp(-rate * factor)).pvalue < 1e-6
    for rate in (Fraction(-1), Fraction(1, 2**63)):
        with pytest.raises(InternalError):
            bernoullis_exp(rate, 1)


# ---- estimates


@pytest.mark.parametrize("encoding", BOTH)
@pytest.mark.parametrize("values", [2, 50])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
def test_estimates_are_unbiased_and_intervals_cover(encoding: Encoding, values: int, epsilon: str) -> None:
    """By the exact law of the number of reports, whatever the true count: nothing is drawn."""
    response, coverages = made(encoding, values, epsilon), []
    p, q = response.chances
    for n in (1, 5, 100, 500):
        found = [response.estimate(c, n) for c in range(n + 1)]
        low, high = np.array([one.low for one in found]), np.array([one.high for one in found])
        value = np.array([one.value for one in found])
        for have in {0, 1, n // 4, n // 2, n}:
            chances = np.convolve(
                stats.binom.pmf(np.arange(have + 1), have, p), stats.binom.pmf(np.arange(n - have + 1), n - have, q)
            )
            assert float(chances @ value) == pytest.approx(have, abs=1e-6 * n)
            spread = math.sqrt(float(chances @ (value - have) ** 2))
            exact = math.sqrt(have * p * (1 - p) + (n - have) * q * (1 - q)) / (p - q)
            assert spread == pytest.approx(exact, rel=1e-6, abs=1e-9)
            coverages.append(float(chances[(low <= have + 1e-9) & (have <= high + 1e-9)].sum()))
    assert min(coverages) > 0.94
    assert np.mean(coverages) < 0.999 or epsilon == "8"


def test_a_curator_who_forgets_the_noise_is_biased() -> None:
    """The broken twin: the plain share of reports."""
    p, q = made("direct", 4, "1").chances
    assert abs(10 * p + 390 * q - 10) > 50


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "4"])
def test_which_encoding_has_less_noise(epsilon: str) -> None:
    """Of a rare value: direct up to about k = 3 e^epsilon + 2, by the variances of the source."""
    turn = 3 * math.exp(float(epsilon)) + 2
    for values in (2, 5, 10, 30, 100, 500):
        errors = {e: made(e, values, epsilon).estimate(0, 0).standard_error for e in BOTH}
        assert errors == dict.fromkeys(BOTH, 0)
        rare = {e: math.sqrt(q * (1 - q)) / (p - q) for e in BOTH for p, q in [made(e, values, epsilon).chances]}
        assert (rare["direct"] < rare["unary"]) == (values < turn)
        grown = math.exp(float(epsilon))
        assert rare["direct"] ** 2 == pytest.approx((values - 2 + grown) / (grown - 1) ** 2)
        assert rare["unary"] ** 2 == pytest.approx(4 * grown / (grown - 1) ** 2)


def test_what_cannot_be_is_refused() -> None:
    cases: tuple[dict[str, Any], ...] = (
        {"values": 1},
        {"values": MOST_VALUES["direct"] + 1},
        {"encoding": "unary", "values": MOST_VALUES["unary"] + 1},
        {"encoding": "other"},
    )
    for case in cases:
        with pytest.raises(ParameterError, match="P107"):
            made(**case)
    with pytest.raises(ParameterError, match="P107"):
        made().estimate(3, 2)

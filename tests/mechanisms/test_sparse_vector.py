"""mechanisms/sparse_vector.py: the law of whole transcripts between all small neighbours, of its draws, its errors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from scipy import stats

from duckdp.core.types import NANO
from duckdp.errors import ParameterError
from duckdp.mechanisms import sparse_vector as module
from duckdp.mechanisms.sparse_vector import Look, SparseVector
from tests.privacy.statistics import fits

DRAWS = 5_000
FARTHEST = 45.0  # exp(-45) of the threshold's noise is left out of exact laws: below 1e-19


def made(
    hits: int, *, epsilon: float = 1, monotone: bool = True, valued: bool = False, kind: type = SparseVector
) -> SparseVector:
    return kind(hits=hits, epsilon_nano=round(epsilon * NANO), monotone=monotone, valued=valued)  # type: ignore[no-any-return]


# ---- the exact law of what is answered


@dataclass(frozen=True)
class Law:
    """The mechanism's figures; twins change them.

    Attributes:
        first: rate of R.
        rate: rate of each N.
        offset: m.
        hits: after so many it ends.
        redrawn: R is drawn anew for each question.
        silent: questions have no noise.
    """

    first: float
    rate: float
    offset: int
    hits: int
    redrawn: bool = False
    silent: bool = False

    def above(self, count: int, threshold: int, shift: int) -> float:
        """P(q + N >= T + m + R)."""
        gap = threshold + self.offset + shift - count
        if self.silent:
            return float(gap <= 0)
        return math.exp(-self.rate * max(0, gap))

    def shifts(self) -> Iterator[tuple[int, float]]:
        for k in range(math.ceil(FARTHEST / self.first)):
            yield k, -math.expm1(-self.first) * math.exp(-self.first * k)

    def of(self, counts: Sequence[int], threshold: int) -> dict[tuple[bool, ...], float]:
        """Chances of every transcript."""
        found: Counter[tuple[bool, ...]] = Counter()
        if self.redrawn:
            each = [sum(p * self.above(q, threshold, k) for k, p in self.shifts()) for q in counts]
            self._walk(each, (), 1.0, found)
            return found
        for shift, chance in self.shifts():
            self._walk([self.above(q, threshold, shift) for q in counts], (), chance, found)
        return found

    def _walk(self, each: Sequence[float], said: tuple[bool, ...], chance: float, found: Counter[Any]) -> None:
        if len(said) == len(each) or sum(said) == self.hits:
            found[said] += chance  # type: ignore[assignment]
            return
        p = each[len(said)]
        for above, more in ((True, p), (False, 1 - p)):
            if more:
                self._walk(each, (*said, above), chance * more, found)


def law_of(vector: SparseVector) -> Law:
    return Law(float(vector._first), float(vector._rate), vector.offset, vector.hits)


def moves(size: int, *, monotone: bool) -> Iterator[tuple[int, ...]]:
    if not monotone:
        yield from product((-1, 0, 1), repeat=size)
        return
    for move in product((0, 1), repeat=size):
        yield move
        yield tuple(-d for d in move)


def loss(law: Law, size: int, *, monotone: bool, starts: Sequence[int] = (0, 1, 3), threshold: int = 2) -> float:
    """Largest change of a log-chance over all count vectors of these counts, and all of their neighbours."""
    worst = 0.0
    for counts in product(starts, repeat=size):
        here = law.of(counts, threshold)
        for move in moves(size, monotone=monotone):
            there = law.of([q + d for q, d in zip(counts, move, strict=True)], threshold)
            for said, chance in here.items():
                if chance > 1e-12:
                    other = there.get(said, 0.0)
                    worst = max(worst, math.log(chance / other) if other > 0 else math.inf)
    return worst


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("hits", [1, 2])
def test_the_loss_is_at_most_what_is_claimed(hits: int, monotone: bool) -> None:
    law = law_of(made(hits, epsilon=2, monotone=monotone))
    assert loss(law, 3, monotone=monotone) <= 2 + 1e-9


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("hits", [1, 2])
def test_the_claim_is_tight_and_broken_twins_are_caught(hits: int, monotone: bool) -> None:
    """Many misses far below and hits far above come as near to the claim as one likes: no larger noise is needed."""
    law = law_of(made(hits, epsilon=2, monotone=monotone))

    def worst(law: Law, misses: int = 12) -> float:
        """All counts of misses up by one, those of hits stay (monotone), or go down."""
        counts = [2] * misses + [-30] * hits
        moved = [3] * misses + [-30 if monotone else -31] * hits
        said = (False,) * misses + (True,) * hits
        here, there = (law.of(given, 2).get(said, 0.0) for given in (counts, moved))
        return abs(math.log(here / there))

    assert 0.97 * 2 < worst(law) <= 2 + 1e-9
    smaller = replace(law, first=law.first * 1.25, rate=law.rate * 1.25)  # 0.8 times the scale
    larger = replace(law, first=law.first / 1.25, rate=law.rate / 1.25)
    assert worst(smaller) > 2.3
    assert worst(larger) < 1.7  # the sampler's test sees it
    assert worst(replace(law, redrawn=True)) > 2.05  # what every question pays for is lost with each of them
    whole = replace(law, rate=law.rate * law.hits)  # a noise that knows of one hit only
    assert hits == 1 or worst(whole) > 2.5
    assert monotone or worst(replace(law, rate=2 * law.rate)) > 2.5  # that of monotone counts


def test_questions_without_noise_tell_of_one_unit_for_certain() -> None:
    silent = replace(law_of(made(1)), silent=True)
    assert loss(silent, 2, monotone=True, starts=(2, 3)) == math.inf


@pytest.mark.parametrize("monotone", [True, False])
def test_values_lose_what_is_left(monotone: bool) -> None:
    """A value's noise is fresh, and costs its share of every hit in whatever direction the count moves."""
    vector = made(3, epsilon=2, monotone=monotone, valued=True)
    first, second, third = vector.shares
    assert first + second + third == vector.epsilon_nano == 2 * third
    assert Fraction(vector._scale) >= Fraction(NANO * vector.hits, third)
    assert vector._first + vector._rate * vector.hits * (1 if monotone else 2) <= Fraction(first + second, NANO)


def test_a_release_that_goes_on_has_the_same_shares_ever() -> None:
    """Integers alone; no other ratio, however large the number of hits."""
    for hits in (1, 2, 3, 10, 999, 10_000):
        for monotone in (True, False):
            vector = made(hits, epsilon=0.1, monotone=monotone)
            first, second, _ = vector.shares
            shifts = hits * (1 if monotone else 2)
            assert abs(second / first / shifts ** (2 / 3) - 1) < 1e-5
            assert vector._rate == Fraction(second, NANO * shifts)
            assert vector.loss.epsilon_nano == first + second == round(0.1 * NANO)


# ---- its draws


def _law_holds(answer: Callable[[], list[Any]], expected: dict[tuple[bool, ...], float]) -> bool:
    counts = Counter(tuple(look.above for look in answer()) for _ in range(DRAWS))
    cells = [said for said, p in expected.items() if DRAWS * p >= 5]
    seen = [counts[c] for c in cells] + [DRAWS - sum(counts[c] for c in cells)]
    wanted = [DRAWS * expected[c] for c in cells] + [DRAWS * (1 - sum(expected[c] for c in cells))]
    if wanted[-1] < 5:
        seen[-2:], wanted[-2:] = [sum(seen[-2:])], [sum(wanted[-2:])]
    return fits(float(stats.chisquare(seen, wanted).pvalue))


COUNTS = (4, -3, 9, 2, 6, 0)


def stream(vector: SparseVector) -> list[Any]:
    """Question by question."""
    shift, said = vector.begin(), []
    for count in COUNTS:
        if sum(look.above for look in said) == vector.hits:
            break
        said.append(vector.look(count, 5, shift))
    return said


@pytest.mark.parametrize(("way", "monotone"), [("list", True), ("stream", True), ("stream", False)])
def test_draws_follow_the_law(way: str, monotone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # many at once are of the same law (tests/core/test_noise.py); of few they are slow
    monkeypatch.setattr(module, "geometrics", lambda rate, n: [module.geometric(rate) for _ in range(n)])
    vector = made(2, epsilon=1.5, monotone=monotone)

    def answer(vector: SparseVector = vector) -> list[Any]:
        return vector.look_through(COUNTS, 5) if way == "list" else stream(vector)

    law = law_of(vector)
    assert _law_holds(answer, law.of(COUNTS, 5))
    for factor in (0.8, 1.25):  # broken twins, by their scale
        wrong = replace(law, first=law.first / factor, rate=law.rate / factor)
        assert not _law_holds(answer, wrong.of(COUNTS, 5)), factor
    assert not _law_holds(answer, replace(law, redrawn=True).of(COUNTS, 5))


def test_each_noise_has_its_own_law() -> None:
    """One by one, and broken twins of 0.8 and 1.25 times the scale."""
    vector = made(2, epsilon=0.5, valued=True)
    shifts = [vector.begin() for _ in range(12_000)]
    values = [look.value for look in (vector.look(10**9, 0, 0) for _ in range(12_000)) if look.value is not None]
    assert len(values) == 12_000
    for drawn, rate, sides in ((shifts, float(vector._first), 1), ([v - 10**9 for v in values], 1 / vector._scale, 2)):
        found = {factor: _geometric(drawn, rate / factor, sides) for factor in (0.8, 1.0, 1.25)}
        assert fits(found[1.0])
        assert not fits(found[0.8])
        assert not fits(found[1.25])


def _geometric(drawn: Sequence[int], rate: float, sides: int) -> float:
    """p-value of draws, by their size."""
    sizes = Counter(abs(z) for z in drawn)
    edges = sorted({round(-math.log(1 - i / 12) / rate) for i in range(12)})
    lows, highs = edges, [*edges[1:], 10**12]

    def beyond(k: int) -> float:
        """P(|Z| >= k)."""
        return (
            math.exp(-rate * k) if sides == 1 else (1.0 if k == 0 else 2 * math.exp(-rate * k) / (1 + math.exp(-rate)))
        )

    expected = [len(drawn) * (beyond(a) - beyond(b)) for a, b in zip(lows, highs, strict=True)]
    seen = [sum(n for size, n in sizes.items() if a <= size < b) for a, b in zip(lows, highs, strict=True)]
    return float(stats.chisquare(seen, [e * len(drawn) / sum(expected) for e in expected]).pvalue)


def test_the_threshold_is_drawn_once_for_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(SparseVector, "begin", lambda _: calls.append(1) or 0)
    made(3).look_through([5] * 20, 5)
    assert calls == [1]


@pytest.mark.parametrize("valued", [True, False])
def test_the_number_of_draws_is_public(monkeypatch: pytest.MonkeyPatch, valued: bool) -> None:
    vector = made(2, valued=valued)
    asked: list[Any] = []
    monkeypatch.setattr(module, "geometric", lambda rate: asked.append(("one", rate)) or 3)
    monkeypatch.setattr(module, "geometrics", lambda rate, n: asked.append(("many", rate, n)) or [3] * n)
    monkeypatch.setattr(module, "laplace_noise", lambda n, scale: asked.append(("value", n, scale)) or [1] * n)
    drawn = []
    for counts in ([0] * 6, [10**6] * 6, [0, 10**6] * 3):
        asked.clear()
        vector.look_through(counts, 50)
        shift = vector.begin()
        for count in counts:
            vector.look(count, 50, shift)
        drawn.append(list(asked))
    assert drawn[0] == drawn[1] == drawn[2] != []


def test_it_ends_with_the_last_hit() -> None:
    vector = made(2, epsilon=50, valued=True)
    found = vector.look_through([0, 900, 0, 900, 900, 0], 500)
    assert [look.above for look in found] == [False, True, False, True]
    assert [look.value is not None for look in found] == [False, True, False, True]
    assert all(abs(look.value - 900) < 20 for look in found if look.value is not None)


def test_a_miss_has_no_value() -> None:
    """Nor noise that a later one could be compared with."""
    vector = made(2, epsilon=50, valued=True)
    assert vector.look(0, 500, 0) == Look(above=False, value=None)
    assert vector.look(900, 500, 0).value is not None
    assert made(2, epsilon=50).look(900, 500, 0) == Look(above=True, value=None)


# ---- how far it may be off


@pytest.mark.parametrize(("hits", "monotone"), [(1, True), (5, True), (5, False)])
def test_its_errors_hold_and_are_no_larger_than_needed(hits: int, monotone: bool) -> None:
    """At counts as hard as they get: each statement fails about as seldom as it says."""
    vector, questions, runs = made(hits, epsilon=1, monotone=monotone), 50, 400
    short, over = vector.hit_error(questions), vector.miss_error()
    for far, wrong in ((short + 1, 0.05), (short // 2, None)):
        bad = sum(any(look.above for look in vector.look_through([1000 - far] * questions, 1000)) for _ in range(runs))
        if wrong is None:
            assert bad > 0.1 * runs
        else:
            assert stats.binom.sf(bad - 1, runs, wrong) > 1e-9
    bad = sum(not vector.look_through([1000 + over + 1] * questions, 1000)[0].above for _ in range(runs))
    assert stats.binom.sf(bad - 1, runs, 0.05) > 1e-9
    law = law_of(vector)
    missed = 1 - sum(p * law.above(1000 + over + 1, 1000, k) for k, p in law.shifts())
    assert 0.0005 < missed < 0.05


def test_its_errors_beat_the_formula_of_the_book() -> None:
    """Theorem 3.24 of Dwork and Roth: alpha = 8 (ln k + ln(2 / beta)) / epsilon of Laplace noise, one hit."""
    vector = made(1, epsilon=0.5)
    for questions in (10, 1000, 10**6):
        book = 8 * (math.log(questions) + math.log(2 / 0.05)) / 0.5
        assert 4 * max(vector.hit_error(questions, 0.975), vector.miss_error(0.975)) <= book + 8


@pytest.mark.parametrize(("hits", "monotone"), [(1, True), (3, True), (40, True), (7, False)])
def test_a_count_at_the_threshold_is_as_likely_a_hit_as_a_miss(hits: int, monotone: bool) -> None:
    law = law_of(made(hits, epsilon=0.2, monotone=monotone))
    assert sum(p * law.above(7, 7, k) for k, p in law.shifts()) == pytest.approx(0.5, abs=0.03)


def test_what_cannot_be_promised_is_refused() -> None:
    with pytest.raises(ParameterError, match="P107"):
        _ = made(0).shares
    for hits, nano in ((1, 1), (10**12, 5)):
        with pytest.raises(ParameterError, match="P101"):
            _ = SparseVector(hits=hits, epsilon_nano=nano, monotone=True).shares

"""Accountant: exact inverse pairs, an independent float implementation, and twins that round the wrong way."""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import duckdp.core.accountant as accountant
from duckdp.core.accountant import cost, describe, epsilon_for, how_many, limits, pure_rho, rho_for
from duckdp.core.types import ATTO, NANO, AccountantKind, Loss, parse_delta
from duckdp.errors import InternalError, ParameterError

BASIC, ZCDP = AccountantKind.BASIC, AccountantKind.ZCDP
EPSILONS = [max(1_000, round(NANO * 10 ** (k / 4))) for k in range(-20, 9)]  # 1e-5 to 1e2
DELTAS = [round(ATTO * 10 ** (k / 2)) for k in range(-30, -1)]  # 1e-15 to 0.1
GRID = [(epsilon, delta) for epsilon in EPSILONS for delta in DELTAS]
epsilons = st.integers(1_000, 100 * NANO)
deltas = st.integers(1, ATTO - 1)
rhos = st.integers(0, 10**14)


@pytest.mark.parametrize("text", ["1", 1, 1.0, "1.0", "2", "-1e-9", "nan", "inf", "1e-19"])
def test_delta_is_a_share_below_one(text: object) -> None:
    """At delta = 1 everything may be told."""
    with pytest.raises(ParameterError, match=r"^P102"):
        parse_delta(text)
    assert parse_delta("0.999999999999999999") == ATTO - 1


def truth(rho_pico: int, delta_atto: int) -> Decimal:
    """epsilon in 1e-9 by 90-digit decimals, another formula for the logarithm than the code's."""
    with localcontext() as context:
        context.prec = 90
        rho = Decimal(rho_pico) / 10**12
        log = Decimal(ATTO).ln() - Decimal(delta_atto).ln()
        return (rho + 2 * (rho * log).sqrt()) * NANO


def safe_and_tight(rho_of: Callable[[int, int], int], grid: list[tuple[int, int]]) -> bool:
    """Whether rho is the largest integer whose true epsilon does not exceed the wanted one."""
    return all(truth(rho_of(e, d), d) <= e < truth(rho_of(e, d) + 1, d) for e, d in grid)


def test_rho_is_the_largest_safe_integer():
    assert safe_and_tight(rho_for, GRID)


@pytest.mark.parametrize("twin", [lambda e, d: rho_for(e, d) + 1, lambda e, d: rho_for(e, d) - 1])
def test_a_twin_that_rounds_wrongly_is_caught(twin: Callable[[int, int], int]):
    assert not safe_and_tight(twin, GRID[-1:])


def test_a_twin_in_floats_is_caught():
    def in_floats(epsilon_nano: int, delta_atto: int) -> int:
        log = math.log(ATTO / delta_atto)
        return round(1e12 * (math.sqrt(epsilon_nano / NANO + log) - math.sqrt(log)) ** 2)

    assert not safe_and_tight(in_floats, GRID)


@settings(max_examples=300, deadline=None)
@given(epsilons, deltas)
def test_inverse_from_epsilon(epsilon: int, delta: int):
    rho = rho_for(epsilon, delta)
    assert epsilon_for(rho, delta) <= epsilon < truth(rho + 1, delta)


@settings(max_examples=300, deadline=None)
@given(rhos, deltas)
def test_inverse_from_rho(rho: int, delta: int):
    epsilon = epsilon_for(rho, delta)
    assert rho_for(epsilon, delta) >= rho
    assert truth(rho, delta) <= epsilon
    assert epsilon - 1 < truth(rho, delta)  # exact: a sum of the long decimal and 1 would be rounded to 28 digits


@settings(max_examples=200, deadline=None)
@given(epsilons, epsilons, deltas, deltas)
def test_monotone(epsilon: int, other: int, delta: int, another: int):
    low, high = sorted((epsilon, other))
    small, large = sorted((delta, another))
    assert rho_for(low, small) <= rho_for(high, small) <= rho_for(high, large)
    assert epsilon_for(low, small) <= epsilon_for(high, small)
    assert epsilon_for(low, large) <= epsilon_for(low, small)
    assert pure_rho(low) <= pure_rho(high)


@pytest.mark.parametrize("delta", DELTAS)
def test_agrees_with_a_root_finder_in_floats(delta: int):
    log = -math.log(delta / ATTO)
    for epsilon in EPSILONS:
        target = epsilon / NANO
        # x = sqrt(rho): x^2 + 2 x sqrt(log) = epsilon
        root = brentq(
            lambda x, e=target: x * x + 2 * x * math.sqrt(log) - e, 0, math.sqrt(target), xtol=1e-300, rtol=1e-14
        )
        expected = root**2 * 1e12
        assert abs(rho_for(epsilon, delta) - expected) <= 1 + 1e-9 * expected
        rho = max(1, round(expected))
        exact = 1e9 * (rho / 1e12 + 2 * math.sqrt(rho / 1e12 * log))
        assert abs(epsilon_for(rho, delta) - exact) <= 1 + 1e-9 * exact


@settings(deadline=None)
@given(st.integers(0, 100 * NANO))
def test_pure_rho_is_half_the_square_rounded_up(epsilon: int):
    exact = Fraction(epsilon, NANO) ** 2 / 2 * 10**12
    assert 0 <= pure_rho(epsilon) - exact < 1


def test_basic_limits_and_costs_are_the_numbers_themselves():
    assert limits(BASIC, 5, 7) == (5, 7)
    assert cost(BASIC, Loss(epsilon_nano=3, delta_atto=2, rho_pico=9, delta_zcdp_atto=8)) == (3, 2)
    assert cost(ZCDP, Loss(epsilon_nano=3, delta_atto=2, rho_pico=9, delta_zcdp_atto=8)) == (9, 8)


@settings(deadline=None)
@given(epsilons, st.integers(2, ATTO - 1))
def test_zcdp_limits_split_delta_without_loss(epsilon: int, delta: int):
    rho, rest = limits(ZCDP, epsilon, delta)
    assert rho == rho_for(epsilon, delta - rest)
    assert delta - rest in (delta // 2, (delta - 1) // 2)


@pytest.mark.parametrize("delta", [0, 1])
def test_zcdp_needs_delta(delta: int):
    with pytest.raises(ParameterError) as caught:
        limits(ZCDP, NANO, delta)
    assert caught.value.code == "P102"
    assert caught.value.name == "delta"


@pytest.mark.parametrize("call", [lambda: rho_for(NANO, 0), lambda: epsilon_for(NANO, 0), lambda: rho_for(NANO, ATTO)])
def test_conversion_needs_delta_between_0_and_1(call: Callable[[], int]):
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.code == "P102"


def test_broken_losses_are_refused():
    for kind, loss in [
        (ZCDP, Loss(epsilon_nano=1)),
        (BASIC, Loss(epsilon_nano=-1)),
        (ZCDP, Loss(epsilon_nano=0, rho_pico=-1)),
    ]:
        with pytest.raises(InternalError):
            cost(kind, loss)
    for call in (lambda: limits(BASIC, -1, 0), lambda: how_many(BASIC, (1, 1), (-1, 0)), lambda: pure_rho(-1)):
        with pytest.raises(InternalError):
            call()
    for call in (
        lambda: limits("basic", 1, 0),
        lambda: describe("basic", 1, 0),
        lambda: how_many("basic", (1, 1), (1, 1)),
    ):  # type: ignore[arg-type]
        with pytest.raises(InternalError):
            call()
    with pytest.raises(InternalError):
        cost("basic", Loss(epsilon_nano=1))  # type: ignore[arg-type]


def test_describe():
    assert describe(BASIC, NANO // 2, 10**10) == "epsilon=0.5, delta=1e-8"
    assert describe(BASIC, NANO // 2, 0) == "epsilon=0.5"
    assert describe(ZCDP, 125 * 10**9, 10**10) == "rho=0.125, delta=1e-8"


@settings(deadline=None)
@given(st.sampled_from([BASIC, ZCDP]), *[st.tuples(st.integers(0, 1000), st.integers(0, 1000))] * 2)
def test_how_many_is_what_a_loop_finds(kind: AccountantKind, remaining: tuple[int, int], each: tuple[int, int]):
    found = how_many(kind, remaining, each)
    if each == (0, 0):
        assert found is None
        return
    count = 0
    while all((count + 1) * part <= left for left, part in zip(remaining, each, strict=True)):
        count += 1
    assert found == count


def test_an_overdrawn_remainder_fits_nothing():
    assert how_many(BASIC, (-1, 0), (1, 0)) == 0
    assert how_many(BASIC, (5, -1), (1, 0)) == 0


def test_the_decimal_context_of_the_caller_does_not_matter():
    accountant._log_inverse.cache_clear()
    with localcontext() as context:
        context.prec = 3
        rough = rho_for(NANO, 10**10)
    accountant._log_inverse.cache_clear()
    assert rough == rho_for(NANO, 10**10) == 13215362852


def test_zcdp_admits_more_small_pure_charges_than_basic():
    epsilon, delta = NANO, 10**12
    loss = Loss(epsilon_nano=NANO // 1000, rho_pico=pure_rho(NANO // 1000))
    counts = {kind: how_many(kind, limits(kind, epsilon, delta), cost(kind, loss)) for kind in AccountantKind}
    assert counts[BASIC] == 1000
    assert counts[ZCDP] is not None and counts[ZCDP] > 30_000

"""How charges add up: two privacy filters, in exact integers.

A charge is a pair (primary, secondary) of non-negative integers; so is a limit::

    kind    primary               secondary
    BASIC   epsilon in 1e-9       delta in 1e-18
    ZCDP    rho in 1e-12          delta in 1e-18 of approximate zCDP (what rho does not cover)

The filter admits a charge when, component by component, the sum of all charges including this one is at most the
limit (``how_many(...) != 0``); a refused charge leaves the sums as they were.

Privacy:      BASIC: everything released under the limit (e, d) together is (e, d)-DP.
              ZCDP: everything released under ``limits(ZCDP, e, d)`` together is (e, d)-DP.
              Both hold when each mechanism, its parameters and the moment to stop are chosen after seeing all earlier
              releases. Neighbours are those of the single mechanisms, the same for all of them.
Assumes:      each mechanism, given the past, is (e_i, d_i)-DP, or d_i-approximate rho_i-zCDP; its loss is a function of
              public things only, fixed and charged before the data are read.
Proof sketch: BASIC: given the past, step i's law under D is within d_i in total variation of a law whose density is at
              most exp(e_i) times that under D'. Replace each step's law by that one: the joint law moves by at most
              the mean of sum d_i <= d, and its density ratio is at most exp(sum e_i) <= exp(e), as the filter bounds
              both sums on every path.
              ZCDP: let L_i be the privacy loss of step i. Given the past, exp((a - 1) L_i - a (a - 1) rho_i) has mean
              at most 1 for each a > 1, so its running product M_n is a supermartingale. Always sum rho_i <= rho, hence
              exp((a - 1) sum L_i) <= M_n exp(a (a - 1) rho), whose mean is at most exp(a (a - 1) rho): the whole
              interaction is rho-zCDP. The d_i-approximate parts add by a union bound along the path.
              d'-approximate rho-zCDP is (e, d' + d'')-DP when rho-zCDP gives (e, d''); ``limits`` takes d' + d'' = d.
Numerics:     no float. ln(1/delta) is a decimal rounded up to 1e-40, everything else is integer arithmetic, so limits
              are rounded down, costs up, and ``epsilon_for(rho_for(e, d), d) <= e`` exactly.
Source:       Rogers, Roth, Ullman, Vadhan, "Privacy odometers and filters: pay-as-you-go composition", NIPS 2016.
              Bun, Steinke, "Concentrated differential privacy: simplifications, extensions, and lower bounds",
              TCC 2016, Propositions 1.3 (conversion) and 1.4 (pure DP is zCDP), Section 8 (approximate zCDP).
              Feldman, Zrnic, "Individual privacy accounting via a Renyi filter", NeurIPS 2021.
              Whitehouse, Ramdas, Rogers, Wu, "Fully-adaptive composition in differential privacy", ICML 2023.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from functools import lru_cache
from math import isqrt

from duckdp.core.types import ATTO, NANO, PICO, AccountantKind, Loss, show_decimal
from duckdp.errors import InternalError, ParameterError

ZCDP_DELTA_RULE = "the zCDP accountant needs delta of at least 2e-18. State it, for example delta=1e-8."
_LOG_DIGITS = 40  # decimal digits of a logarithm, rounded up
_LOG_UNIT: int = 10**_LOG_DIGITS  # what logarithms are integers in units of
_PICO_PER_NANO = PICO // NANO


def no_gaussian(delta_atto: int) -> ParameterError:
    """P102: Gaussian noise was asked for, and delta leaves it no rho."""
    rule = (
        "needs delta > 0, for example 1e-8" if delta_atto == 0 else "has no rho left at this epsilon: give more of both"
    )
    return ParameterError("P102", "delta", show_decimal(delta_atto, 18), f"Gaussian noise {rule}.")


def limits(kind: AccountantKind, epsilon_nano: int, delta_atto: int) -> tuple[int, int]:
    """Turn a budget (epsilon, delta) into the limits of the filter.

    ZCDP: half of delta goes into rho, the other half is left for approximate zCDP; an odd unit goes to the latter.

    Args:
        kind: how charges add up.
        epsilon_nano: epsilon in 1e-9.
        delta_atto: delta in 1e-18.

    Returns:
        (primary, secondary) as in the module docstring, rounded down.

    Raises:
        ParameterError: P102, ZCDP without delta.

    >>> limits(AccountantKind.BASIC, 500000000, 10**10)
    (500000000, 10000000000)
    >>> limits(AccountantKind.ZCDP, 10**9, 2 * 10**10)
    (13215362852, 10000000000)
    """
    _refuse_negative(epsilon_nano, delta_atto)
    if kind is AccountantKind.BASIC:
        return epsilon_nano, delta_atto
    if kind is AccountantKind.ZCDP:
        half = delta_atto // 2
        if half == 0:
            raise ParameterError("P102", "delta", show_decimal(delta_atto, 18), ZCDP_DELTA_RULE)
        return rho_for(epsilon_nano, half), delta_atto - half
    raise InternalError(f"no accountant for {kind!r}")


def cost(kind: AccountantKind, loss: Loss) -> tuple[int, int]:
    """Give what a loss takes from the limits.

    Raises:
        InternalError: a negative loss, or ZCDP and an epsilon above 0 without its rho (it would be free).

    >>> cost(AccountantKind.ZCDP, Loss(epsilon_nano=10**9, rho_pico=pure_rho(10**9)))
    (500000000000, 0)
    """
    _refuse_negative(loss.epsilon_nano, loss.delta_atto, loss.rho_pico, loss.delta_zcdp_atto)
    if kind is AccountantKind.BASIC:
        return loss.epsilon_nano, loss.delta_atto
    if kind is AccountantKind.ZCDP:
        if loss.epsilon_nano and not loss.rho_pico:
            raise InternalError("a loss with epsilon above 0 has rho 0, so zCDP would charge nothing for it")
        return loss.rho_pico, loss.delta_zcdp_atto
    raise InternalError(f"no accountant for {kind!r}")


def describe(kind: AccountantKind, primary: int, secondary: int) -> str:
    """Print a limit, a cost or a remainder; a zero secondary is left out.

    >>> describe(AccountantKind.BASIC, 500000000, 10**10), describe(AccountantKind.ZCDP, 125 * 10**9, 0)
    ('epsilon=0.5, delta=1e-8', 'rho=0.125')
    """
    if kind is AccountantKind.BASIC:
        text = f"epsilon={show_decimal(primary, 9)}"
    elif kind is AccountantKind.ZCDP:
        text = f"rho={show_decimal(primary, 12)}"
    else:
        raise InternalError(f"no accountant for {kind!r}")
    return text + (f", delta={show_decimal(secondary, 18)}" if secondary else "")


def describe_spent(kind: AccountantKind, spent: tuple[int, int], granted_delta_atto: int) -> str:
    """As :func:`describe`; of rho also the epsilon that it is with what is left of the granted delta.

    >>> describe_spent(AccountantKind.ZCDP, (125 * 10**9, 0), 10**12)
    'rho=0.125 (epsilon=2.754 at delta=1e-6)'
    """
    text, left = describe(kind, *spent), granted_delta_atto - spent[1]
    if kind is not AccountantKind.ZCDP or not spent[0] or left <= 0:
        return text
    milli = -(-epsilon_for(spent[0], left) // (NANO // 1000))
    return f"{text} (epsilon={show_decimal(milli, 3)} at delta={show_decimal(granted_delta_atto, 18)})"


def how_many(kind: AccountantKind, remaining: tuple[int, int], cost: tuple[int, int]) -> int | None:
    """Count how many more such charges fit; 0 means the filter refuses the next one.

    Returns:
        the number of charges, or None when the charge costs nothing and so fits for ever.

    >>> how_many(AccountantKind.BASIC, (10**9, 10**10), (3 * 10**8, 10**9))
    3
    """
    if kind not in (AccountantKind.BASIC, AccountantKind.ZCDP):
        raise InternalError(f"no accountant for {kind!r}")
    _refuse_negative(*cost)
    if min(remaining) < 0:  # overdrawn, for example after a limit was lowered
        return 0
    return min((left // each for left, each in zip(remaining, cost, strict=True) if each), default=None)


def pure_rho(epsilon_nano: int) -> int:
    """Give the rho of a pure epsilon-DP mechanism, epsilon^2/2, in 1e-12, rounded up exactly.

    >>> pure_rho(10**9), pure_rho(1_000)
    (500000000000, 1)
    """
    _refuse_negative(epsilon_nano)
    return -(-(epsilon_nano**2) * PICO // (2 * NANO**2))  # Bun, Steinke 2016, Proposition 1.4


def rho_for(epsilon_nano: int, delta_atto: int) -> int:
    """Give the largest rho in 1e-12 for which rho-zCDP is surely (epsilon, delta)-DP.

    This is (sqrt(epsilon + ln(1/delta)) - sqrt(ln(1/delta)))^2 rounded down, found by bisection on integers with the
    same test that :func:`epsilon_for` inverts.

    Raises:
        ParameterError: P102, delta is 0.

    >>> rho_for(10**9, 10**10)
    13215362852
    """
    _refuse_negative(epsilon_nano)
    log = _log_inverse(delta_atto)
    low, high = 0, epsilon_nano * _PICO_PER_NANO + 1  # rho <= epsilon always; low fits, high does not
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(middle, epsilon_nano, log):
            low = middle
        else:
            high = middle
    return low


def epsilon_for(rho_pico: int, delta_atto: int) -> int:
    """Give the smallest epsilon in 1e-9 for which rho-zCDP is surely (epsilon, delta)-DP.

    epsilon = rho + 2 sqrt(rho ln(1/delta)) rounded up; ``epsilon_for(rho_for(e, d), d) <= e`` and
    ``rho_for(epsilon_for(r, d), d) >= r`` for all arguments.

    Raises:
        ParameterError: P102, delta is 0.

    >>> epsilon_for(13215362852, 10**10)
    1000000000
    """
    _refuse_negative(rho_pico)
    log = _log_inverse(delta_atto)
    square = 4 * rho_pico * log * PICO * _LOG_UNIT  # (2 sqrt(rho ln(1/delta)))^2 in units of (1e-12 1e-40)^2
    root = isqrt(square)
    root += root * root < square
    return -(-(rho_pico * _LOG_UNIT + root) // (_PICO_PER_NANO * _LOG_UNIT))  # Bun, Steinke 2016, Proposition 1.3


def _fits(rho_pico: int, epsilon_nano: int, log: int) -> bool:
    """Whether rho + 2 sqrt(rho ln(1/delta)) <= epsilon, in integers: rho <= epsilon, 4 rho ln <= (epsilon - rho)^2."""
    rest = epsilon_nano * _PICO_PER_NANO - rho_pico
    return rest >= 0 and 4 * rho_pico * log * PICO <= rest * rest * _LOG_UNIT


@lru_cache(maxsize=256)
def _log_inverse(delta_atto: int) -> int:
    """ln(1/delta) in 1e-40, rounded up (by less than 2 units).

    Decimal.ln is correctly rounded to 60 digits, an error below 1e-57; the unit added after rounding down covers it.
    """
    if not 0 < delta_atto < ATTO:
        raise ParameterError("P102", "delta", show_decimal(delta_atto, 18), "must be above 0 and below 1 here.")
    # The thread's own decimal context may have any precision: nothing below may use it.
    context = Context(prec=60, rounding=ROUND_FLOOR, Emin=-999, Emax=999, traps=[InvalidOperation])
    log = context.minus(context.ln(Decimal(delta_atto).scaleb(-18, context)))
    return int(log.scaleb(_LOG_DIGITS, context)) + 1


def _refuse_negative(*units: int) -> None:
    if min(units) < 0:
        raise InternalError("a privacy loss or budget is negative")

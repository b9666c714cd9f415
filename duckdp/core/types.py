"""Exact privacy numbers: epsilon in 1e-9, delta in 1e-18, rho in 1e-12.

Every privacy loss is an integer in these units, so limits are exact and nothing depends on how a float prints.
epsilon and delta cross interfaces as text (or a number whose shortest text is meant) and are parsed as decimals;
what does not fit is refused, never rounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

from duckdp.errors import ParameterError

E = TypeVar("E", bound=Enum)

NANO = 10**9  # units of epsilon in one: 1e-9 each
PICO = 10**12  # units of rho in one: 1e-12 each
ATTO = 10**18  # units of delta in one: 1e-18 each

MOST_EPSILON = 100  # of one statement
MOST_TOTAL = 1_000_000  # of a budget, over all statements

# Decimal takes 1_0 for 10, digits of other scripts, and a line's end too
_PLAIN = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

TOTAL_RULE = "must be a decimal from 0.000001 to 1000000 with at most 9 decimals, for example epsilon=4."
EPSILON_RULE = "must be a decimal from 0.000001 to 100 with at most 9 decimals. State it, for example epsilon=0.5."
DELTA_RULE = "must be a decimal with at most 18 decimals, at least 0 and below 1, for example delta=1e-8."


class Neighbours(Enum):
    """Which data sets count as neighbours.

    ADD_REMOVE: one privacy unit with all its rows is added or removed.
    REPLACE: one row is replaced by another; the number of rows is public.
    """

    ADD_REMOVE = "add_remove"
    REPLACE = "replace"


class AccountantKind(Enum):
    """How charges add up; both are privacy filters (core/accountant.py)."""

    BASIC = "basic"
    ZCDP = "zcdp"


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """Largest change of an integer vector between neighbours, in each norm, in grid units.

    Always for the relation that stands beside it in the plan.
    """

    l1: int
    l2_squared: int
    linf: int


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What a statement costs, in exact integers.

    Attributes:
        epsilon_nano: epsilon in 1e-9.
        delta_atto: delta in 1e-18.
        rho_pico: zCDP parameter in 1e-12, rounded up (used by the zCDP accountant only).
        delta_zcdp_atto: the part of delta that is not covered by rho (approximate zCDP), in 1e-18.
    """

    epsilon_nano: int
    delta_atto: int = 0
    rho_pico: int = 0
    delta_zcdp_atto: int = 0

    @property
    def epsilon(self) -> Fraction:
        """Epsilon as an exact fraction."""
        return Fraction(self.epsilon_nano, NANO)

    @property
    def delta(self) -> Fraction:
        """Delta as an exact fraction."""
        return Fraction(self.delta_atto, ATTO)

    @property
    def rho(self) -> Fraction:
        """Rho as an exact fraction."""
        return Fraction(self.rho_pico, PICO)

    def __str__(self) -> str:
        parts = f"epsilon={show_decimal(self.epsilon_nano, 9)}"
        return parts + (f", delta={show_decimal(self.delta_atto, 18)}" if self.delta_atto else "")


def parse_choice(kind: type[E], name: str, value: object) -> E:
    """One of an enumeration's members, given as such or by its text.

    Raises:
        ParameterError: P107.
    """
    for member in kind:
        if value is member or (isinstance(value, str) and value == member.value):
            return member
    raise ParameterError("P107", name, value, "must be " + " or ".join(f'"{m.value}"' for m in kind) + ".")


def parse_epsilon(value: object, name: str = "epsilon", *, total: bool = False) -> int:
    """Parse epsilon to 1e-9 units.

    Args:
        value: text, Decimal, int or float (its shortest text is meant).
        name: how the parameter is called in the error.
        total: it is a budget's, which adds up many statements.

    Returns:
        epsilon in 1e-9, from 1_000 (0.000001) to 100 (a budget: 1_000_000) times 1e9.

    Raises:
        ParameterError: P101.

    >>> parse_epsilon("0.5"), parse_epsilon(1)
    (500000000, 1000000000)
    """
    number, rule = _decimal(value), TOTAL_RULE if total else EPSILON_RULE
    if number is None or not number.is_finite():
        raise ParameterError("P101", name, value, rule)
    units = _units(number, 9)
    if units is None or not 1_000 <= units <= (MOST_TOTAL if total else MOST_EPSILON) * NANO:
        raise ParameterError("P101", name, value, rule)
    return units


def parse_delta(value: object, name: str = "delta") -> int:
    """Parse delta to 1e-18 units; 0 is allowed.

    Raises:
        ParameterError: P102.

    >>> parse_delta("1e-8")
    10000000000
    """
    number = _decimal(value)
    if number is None or not number.is_finite():
        raise ParameterError("P102", name, value, DELTA_RULE)
    units = _units(number, 18)
    if units is None or not 0 <= units < ATTO:
        raise ParameterError("P102", name, value, DELTA_RULE)
    return units


@lru_cache(maxsize=256)  # what is left is told after each answer, most of it as before
def show_decimal(units: int, decimals: int) -> str:
    """Print an integer count of 10**-decimals as a plain decimal without trailing zeros.

    >>> show_decimal(500000000, 9), show_decimal(10000000000, 18)
    ('0.5', '1e-8')
    """
    unit = 10**decimals
    if units >= 0 and (not units or units * 10_000 >= unit):
        whole, part = divmod(units, unit)
        return f"{whole}.{part:0{decimals}d}".rstrip("0").rstrip(".") if part else str(whole)
    number = Decimal(units).scaleb(-decimals).normalize()
    if abs(number) < Decimal("0.0001"):
        mantissa, _, exponent = f"{number:e}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{number:f}"


def _decimal(value: object) -> Decimal | None:
    """The decimal that is meant, of a text or a number; None of anything else."""
    kind = type(value)
    if isinstance(value, bool) or not (kind.__module__ == "numpy" or isinstance(value, (str, int, float, Decimal))):
        return None
    try:
        text = str.__str__(value) if isinstance(value, str) else str(value)
        plain = text.strip(" ")
        return Decimal(plain) if len(text) <= 64 and _PLAIN.fullmatch(plain) else None
    except (InvalidOperation, ValueError):  # an integer of thousands of digits
        return None


def _units(number: Decimal, decimals: int) -> int | None:
    if abs(number.adjusted()) > 60:
        return None
    scaled = Fraction(number) * 10**decimals
    return scaled.numerator if scaled.denominator == 1 else None

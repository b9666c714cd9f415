"""Privacy parameters as users type them: what has a meaning as it stands is taken, exactly; all else is refused."""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import pytest

from duckdp.core import types
from duckdp.core.types import ATTO, NANO, Loss, parse_delta, parse_epsilon
from duckdp.errors import ParameterError

SMALLEST, BELOW_1 = Fraction(1, ATTO), 1 - Fraction(1, ATTO)


@pytest.mark.parametrize("value", ["0", "1e-18", "0.5", "1e-6", 0, 0.25, Decimal("0.999999999999999999"), " 1e-8 "])
def test_a_delta_below_1_is_taken_for_what_it_says(value: object) -> None:
    meant = Fraction(str(value).strip())
    assert Loss(epsilon_nano=1, delta_atto=parse_delta(value)).delta == meant
    assert meant == 0 or SMALLEST <= meant <= BELOW_1


@pytest.mark.parametrize("total", [False, True])
def test_epsilon_is_exact_and_has_ends(total: bool) -> None:
    most = 1_000_000 if total else 100
    for value in ("0.000001", "0.1", "0.123456789", most, str(most)):
        assert Fraction(parse_epsilon(value, total=total), NANO) == Fraction(value)
    for value in (0, -1, "0.0000009", "0.1234567891", most + Decimal("1e-9"), "inf", "nan", True, None):
        with pytest.raises(ParameterError, match=r"^P101"):
            parse_epsilon(value, total=total)


NOT_PLAIN = [
    *("1_0", "1_0.5", "\uff11", "\u0661", "0.\uff15", "1e\uff11"),  # digits of other scripts
    *("1\n", "\n1", "1\t", "\xa01", "1\u2009", "1 0", "--1", "", "."),
]


@pytest.mark.parametrize("value", NOT_PLAIN)
def test_what_is_no_plain_decimal_is_refused(value: str) -> None:
    for total in (False, True):
        with pytest.raises(ParameterError, match=r"^P101"):
            parse_epsilon(value, total=total)
    with pytest.raises(ParameterError, match=r"^P102"):
        parse_delta(value)


def test_a_reader_that_takes_whatever_decimal_takes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types, "_PLAIN", re.compile(r"(?s).*"))
    taken = []
    for value in NOT_PLAIN:
        with suppress(ParameterError):
            taken.append(parse_epsilon(value))
    assert 10 * NANO in taken
    assert len(taken) > len(NOT_PLAIN) // 2


def test_plain_decimals_are_taken() -> None:
    for value in ("1", "1.", "+1", "1.0", "1e0", "10E-1", " 1 ", ".1e1", 1, 1.0, Decimal(1)):
        assert parse_epsilon(value) == NANO

"""Privacy parameters as users type them: what has a meaning as it stands is taken, exactly; all else is refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

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

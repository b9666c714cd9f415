"""Where dates and months were made apart, that one gives way of which other columns tell less."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from duckdp.catalog.table import Column, Kind
from duckdp.synthetic.unit import calendar_days
from duckdp.synthetic.unit.calendar_days import with_parts
from duckdp.synthetic.unit.calendar_links import _codes, dates_tell_more
from duckdp.synthetic.unit.calendar_months import month_of
from duckdp.synthetic.unit.mending import Values

ROWS, DAYS, STEPS = 12_000, 1825, 80
COLUMN = Column(
    name="d", source="d", type="DATE", kind=Kind.DATE, lower=dt.date(2019, 1, 1), upper=dt.date(2023, 12, 31)
)
FIRST = 17_897  # 2019-01-01


def apart(rng: np.random.Generator) -> tuple[Values, NDArray[np.int64]]:
    """Dates, and months that were made without looking at them."""
    days = FIRST + rng.integers(0, DAYS + 1, ROWS)
    return Values(numbers=days, missing=np.zeros(ROWS, bool)), month_of(rng.permutation(days)) + 1


def seasonal(month: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.cos(month / 12 * 2 * np.pi)


def linked(values: Values, month: NDArray[np.int64], others: list[Any]) -> tuple[Values, NDArray[np.int64]]:
    weekday = (values.numbers + 4) % 7
    parts = [("month", month.tolist()), ("weekday", weekday.tolist())]
    found = with_parts(values, COLUMN, parts, STEPS, others)  # type: ignore[arg-type]
    return found, month_of(found.numbers) + 1


def test_a_trend_keeps_its_dates_and_a_season_its_months(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    values, month = apart(rng)
    price = (values.numbers - FIRST) / DAYS + rng.normal(0, 0.1, ROWS)
    heat = seasonal(month) + rng.normal(0, 0.3, ROWS)

    def kept(others: list[Any]) -> tuple[float, float]:
        found, shown = linked(values, month, others)
        step = [np.bincount(np.minimum((v.numbers - FIRST) * STEPS // DAYS, STEPS - 1)) for v in (values, found)]
        assert np.abs(step[0] - step[1]).sum() == 0
        months = np.abs(np.bincount(shown, minlength=13) - np.bincount(month, minlength=13)).sum()
        assert months < 0.02 * ROWS
        dates = np.corrcoef(found.numbers, price)[0, 1] / np.corrcoef(values.numbers, price)[0, 1]
        return float(dates), float(np.corrcoef(seasonal(shown), heat)[0, 1] / np.corrcoef(seasonal(month), heat)[0, 1])

    dates, months = kept([price])
    assert dates > 0.999 and months < 0.7
    dates, months = kept([heat])
    assert dates < 0.99 and months > 0.98
    monkeypatch.setattr(calendar_days, "dates_tell_more", lambda *_: False)  # the twin: dates always give way
    assert kept([price])[0] < 0.99


def test_most_weekdays_stay_where_months_change_places() -> None:
    rng = np.random.default_rng(2)
    values, month = apart(rng)
    found, _ = linked(values, month, [values.numbers * 1.0])
    assert ((found.numbers + 4) % 7 == (values.numbers + 4) % 7).mean() > 0.97


def test_chance_tells_nothing_and_null_is_a_value() -> None:
    rng = np.random.default_rng(3)
    date, month = rng.integers(0, 10, ROWS), rng.integers(0, 12, ROWS)
    noise = [rng.choice(["a", "b", None], ROWS) for _ in range(5)]
    assert dates_tell_more(date, month, [*noise, np.where(date > 4, None, 1.0)])
    assert not dates_tell_more(date, month, [*noise, np.where(month > 4, None, 1.0)])
    assert not dates_tell_more(date[:0], month[:0], [])


@pytest.mark.parametrize(
    ("values", "most"),
    [
        ([None] * 50, 1),
        ([True, None, False] * 20, 3),
        ([str(i) for i in range(100)], 31),
        (list(range(100)), 10),
        ([float("nan"), 1.0] * 50, 2),
        ([dt.date(2020, 1, 1) + dt.timedelta(i) for i in range(60)] + [None], 11),
        ([dt.datetime(2020, 1, 1), None], 2),
        ([0.5 * i for i in range(1000)] + [None] * 9, 11),
    ],
)
def test_codes_are_few(values: list[Any], most: int) -> None:
    codes = _codes(np.array(values, dtype=object))
    assert len(codes) == len(values) and codes.min() >= 0
    assert len(np.unique(codes)) <= most

"""Dates moved to the weekday, month and hour made for them stay in the steps that rows were counted in."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest
from numpy.typing import NDArray

from duckdp.catalog.table import Column, Kind
from duckdp.catalog.values import as_number
from duckdp.synthetic.unit import calendar_months
from duckdp.synthetic.unit.calendar_days import DAY, HOUR, with_parts
from duckdp.synthetic.unit.calendar_months import Days
from duckdp.synthetic.unit.mending import Values

FIRST = dt.date(2015, 1, 1)
ROWS = 3000


def made_column(kind: Kind, days: int) -> Column:
    """A DATE or TIMESTAMP whose range is so many days long."""
    lower, upper = FIRST, FIRST + dt.timedelta(days)
    if kind is Kind.DATE:
        return Column(name="d", source="d", type="DATE", kind=kind, lower=lower, upper=upper)
    start = dt.datetime(2015, 1, 1, 5, 17)
    return Column(name="d", source="d", type="TIMESTAMP", kind=kind, lower=start, upper=start + dt.timedelta(days))


def step_of(numbers: NDArray[np.int64], column: Column, steps: int) -> NDArray[np.int64]:
    """By whole numbers: which of the equal steps of the range."""
    low, high = int(as_number(column.lower)), int(as_number(column.upper))
    return np.array([min((int(n) - low) * steps // (high - low), steps - 1) for n in numbers])


def rows_of(column: Column, rng: np.random.Generator) -> Values:
    """Rows anywhere in the range, a tenth of them NULL."""
    low, high = int(as_number(column.lower)), int(as_number(column.upper))
    return Values(numbers=rng.integers(low, high + 1, ROWS), missing=rng.random(ROWS) < 0.1)


def left_share(kind: Kind, days: int, counted: int, kept: int, rng: np.random.Generator) -> float:
    """Share of rows that left their step (of ``counted``) when ``kept`` are kept; asserts that parts are as made."""
    column = made_column(kind, days)
    values, weekday, hour = rows_of(column, rng), rng.integers(-1, 7, ROWS), rng.integers(-1, 24, ROWS)
    parts = [("weekday", weekday.tolist()), *([("hour", hour.tolist())] if kind is Kind.TIMESTAMP else [])]
    found = with_parts(values, column, parts, kept)  # type: ignore[arg-type]
    there = ~values.missing
    assert (found.numbers[~there] == values.numbers[~there]).all()
    low, high = as_number(column.lower), as_number(column.upper)
    assert ((found.numbers >= low) & (found.numbers <= high)).all()
    per_day = DAY if kind is Kind.TIMESTAMP else 1
    asked = there & (weekday >= 0)
    assert ((found.numbers // per_day + 4) % 7 == weekday)[asked].all()
    if kind is Kind.TIMESTAMP:
        asked = there & (hour >= 0)
        assert (found.numbers % DAY // HOUR == hour)[asked].all()
    moved = step_of(found.numbers, column, counted) != step_of(values.numbers, column, counted)
    return float(moved[there].mean())


@pytest.mark.parametrize("kind", [Kind.DATE, Kind.TIMESTAMP])
@pytest.mark.parametrize(
    ("days", "steps"), [(364, 40), (364, 20), (70, 10), (71, 10), (1000, 64), (499, 32), (1460, 80)]
)
def test_rows_keep_their_steps(kind: Kind, days: int, steps: int) -> None:
    rng = np.random.default_rng(days * steps)
    assert left_share(kind, days, steps, steps, rng) == 0
    assert left_share(kind, days, steps, 1, rng) > 0.02  # the twin: the nearest day, wherever it is


@pytest.mark.parametrize("kind", [Kind.DATE, Kind.TIMESTAMP])
@pytest.mark.parametrize(("days", "steps"), [(100, 40), (89, 32), (364, 80), (200, 64)])
def test_steps_shorter_than_a_week_keep_tenths(kind: Kind, days: int, steps: int) -> None:
    assert left_share(kind, days, 10, steps, np.random.default_rng(days)) == 0


def test_hours_alone_keep_steps_of_a_day() -> None:
    rng, column = np.random.default_rng(1), made_column(Kind.TIMESTAMP, 40)
    values, hour = rows_of(column, rng), rng.integers(0, 24, ROWS)
    found = with_parts(values, column, [("hour", hour.tolist())], 40)
    assert (found.numbers % DAY // HOUR == hour)[~values.missing].all()
    assert (step_of(found.numbers, column, 40) == step_of(values.numbers, column, 40))[~values.missing].all()


MANY = 40_000


def months_of(days: NDArray[np.int64]) -> NDArray[np.int64]:
    """1 to 12."""
    return np.asarray(days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12 + 1)


def dealt(column: Column, steps: int, rng: np.random.Generator) -> tuple[Values, list[int], list[int]]:
    """Even rows, with month and weekday of another row of the same step, as a model that has the pair makes them."""
    low, high = int(as_number(column.lower)), int(as_number(column.upper))
    numbers = rng.integers(low, high + 1, MANY)
    step = step_of(numbers, column, steps)
    other = np.empty(MANY, np.int64)
    other[np.lexsort((rng.random(MANY), step))] = numbers[np.lexsort((rng.random(MANY), step))]
    days = other // (DAY if column.kind is Kind.TIMESTAMP else 1)
    values = Values(numbers=numbers, missing=rng.random(MANY) < 0.05)
    return values, months_of(days).tolist(), ((days + 4) % 7).tolist()


@pytest.mark.parametrize("kind", [Kind.DATE, Kind.TIMESTAMP])
@pytest.mark.parametrize(("days", "steps"), [(1500, 80), (1826, 40), (3650, 20), (3650, 10), (12_000, 80)])
def test_months_keep_steps_and_leave_no_day_out(
    kind: Kind, days: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, column = np.random.default_rng(days), made_column(kind, days)
    values, month, weekday = dealt(column, steps, rng)
    there, per_day = ~values.missing, DAY if kind is Kind.TIMESTAMP else 1
    before = np.bincount(step_of(values.numbers[there], column, steps), minlength=steps)

    def moved() -> tuple[NDArray[np.int64], float, float]:
        """Rows; the share of wrong months; the most rows of a fortnight, over those that are usual."""
        parts = [("month", month), ("weekday", weekday)]
        found = with_parts(values, column, parts, steps).numbers[there]  # type: ignore[arg-type]
        assert ((found // per_day + 4) % 7 == np.array(weekday)[there]).all()
        wrong = float((months_of(found // per_day) != np.array(month)[there]).mean())
        fortnights = np.bincount((found // per_day - found.min() // per_day) // 14)[:-1]
        return found, wrong, float(fortnights.max() / fortnights.mean())

    found, wrong, most = moved()
    assert (np.bincount(step_of(found, column, steps), minlength=steps) == before).all()
    assert wrong < 0.002
    usual = before.sum() / (days / 14)
    assert most < 1.45 + 5 / np.sqrt(usual)
    monkeypatch.setattr(calendar_months, "_change_steps", lambda _days, _counts, step, *_: step)  # the twin
    assert moved()[1] >= wrong
    monkeypatch.setattr(Days, "listed", lambda days, **kept: heaped(days, **kept))  # rows to the first day that suits
    assert steps > 20 or moved()[2] > 1.45 + 5 / np.sqrt(usual)


LISTED = Days.listed


def heaped(days: Days, *, months: bool, weekdays: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each day of a key is its first one."""
    order, below = LISTED(days, months=months, weekdays=weekdays)
    return np.repeat(order[np.minimum(below[:-1], len(order) - 1)], np.diff(below)), below


def test_months_that_are_not_tied_to_dates_keep_both_histograms() -> None:
    """A month at random next to each date: rows change places, so every step and nearly every month is as made."""
    rng, column, steps = np.random.default_rng(3), made_column(Kind.DATE, 1826), 80
    values, _, weekday = dealt(column, steps, rng)
    month = months_of(rng.permutation(values.numbers)).tolist()
    found = with_parts(values, column, [("month", month), ("weekday", weekday)], steps)
    there = ~values.missing
    before, after = (np.bincount(step_of(v.numbers[there], column, steps), minlength=steps) for v in (values, found))
    assert (before == after).all()
    made, shown = (np.bincount(m, minlength=13) for m in (np.array(month)[there], months_of(found.numbers[there])))
    assert np.abs(made - shown).sum() / 2 < 0.01 * there.sum()


def test_a_month_that_is_too_frequent_is_given_up_and_steps_are_kept() -> None:
    rng, column, steps = np.random.default_rng(4), made_column(Kind.DATE, 1826), 40
    values, _, weekday = dealt(column, steps, rng)
    found = with_parts(values, column, [("month", [2] * MANY), ("weekday", weekday)], steps)
    there = ~values.missing
    before, after = (np.bincount(step_of(v.numbers[there], column, steps), minlength=steps) for v in (values, found))
    assert (before == after).all()
    assert ((found.numbers + 4) % 7 == np.array(weekday))[there].all()


def test_no_rows_and_nothing_made() -> None:
    column = made_column(Kind.DATE, 3650)
    none = Values(numbers=np.zeros(0, np.int64), missing=np.zeros(0, bool))
    assert not len(with_parts(none, column, [("month", []), ("weekday", [])], 40).numbers)
    rng = np.random.default_rng(5)
    values = rows_of(column, rng)
    found = with_parts(values, column, [("month", [None] * ROWS), ("weekday", [None] * ROWS)], 40)  # type: ignore[arg-type]
    assert (found.numbers == values.numbers).all()


@pytest.mark.parametrize("steps", [10, 40, 80])
def test_rows_that_are_as_made_stay_where_they_are(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on days that lie in two steps, and on the last one, of which the range holds all but a second."""
    first, last = dt.datetime(2019, 1, 1), dt.datetime(2023, 12, 31, 23, 59, 59)
    column = Column(name="d", source="d", type="TIMESTAMP", kind=Kind.TIMESTAMP, lower=first, upper=last)
    values = rows_of(column, np.random.default_rng(steps))
    days = values.numbers // DAY
    parts = [
        ("month", calendar_months.month_of(days) + 1),
        ("weekday", calendar_months.weekday_of(days)),
        ("hour", values.numbers % DAY // HOUR),
    ]
    found = with_parts(values, column, parts, steps)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found.numbers, values.numbers)

    def whole(day: NDArray[np.int64]) -> NDArray[np.int64]:
        begin, end = (step_of(np.clip(day * DAY + part, *ENDS), column, steps) for part in (0, DAY - 1))
        inside = (day * DAY >= ENDS[0]) & (day * DAY + DAY - 1 <= ENDS[1])
        return np.where(inside & (begin == end), begin, -1)

    ENDS = (int(as_number(column.lower)), int(as_number(column.upper)))
    honest = calendar_months._near
    monkeypatch.setattr(calendar_months, "_near", lambda *given: honest(*given[:-1], whole))
    moved = with_parts(values, column, parts, steps)  # type: ignore[arg-type]
    assert (moved.numbers != values.numbers)[~values.missing].mean() > steps / 1826 / 3  # the twin: of whole days alone

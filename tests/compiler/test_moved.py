"""Dates and intervals that are computed mean what DuckDB means, and lie between the ends that are known of them."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from dataclasses import replace

import duckdb
import pytest

from duckdp.catalog.table import Kind, Table
from duckdp.compiler import moment_ends as known
from duckdp.compiler.expression import Expr, Literal, columns
from duckdp.compiler.facts import facts
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope
from duckdp.core.calendar import PERIODS
from duckdp.errors import QueryError
from tests.compiler.test_meaning import ours, same
from tests.gate import clinic, column, plan_for

FIRST, LAST = dt.date(1890, 2, 27), dt.date(2110, 5, 31)
PAIRS = ("ta, tb", "da, db", "db, ta")
LENGTHS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
CONSTANTS = (
    "DATE '2020-03-31'",
    "DATE '1969-12-31'",
    "DATE '1900-02-28'",
    "TIMESTAMP '2024-02-29 23:59:59.999999'",
    "TIMESTAMP '1969-12-31 23:59:59'",
)


def between(kind: str) -> dict[str, object]:
    """The bounds of a column."""
    if kind == "DATE":
        return {"lower": FIRST, "upper": LAST}
    return {"lower": dt.datetime.combine(FIRST, dt.time()), "upper": dt.datetime.combine(LAST, dt.time(1, 2, 3, 4))}


def bounded() -> Table:
    """Dates and timestamps with bounds, of wild rows within them."""
    kinds = {"da": "DATE", "db": "DATE", "ta": "TIMESTAMP", "tb": "TIMESTAMP"}
    made = tuple(column(name, kind, **between(kind)) for name, kind in kinds.items())
    return clinic(name="r", relation=("memory", "main", "r"), unit_key=None, columns=made)


@pytest.fixture(scope="module")
def dated() -> Iterator[duckdb.DuckDBPyConnection]:
    """Table r of the same."""
    rng = random.Random(3)
    with duckdb.connect(":memory:") as con:
        con.execute("CREATE TABLE r (i INTEGER, da DATE, db DATE, ta TIMESTAMP, tb TIMESTAMP)")
        for i in range(80):
            row: list[object] = [i]
            for kind in ("DATE", "DATE", "TIMESTAMP", "TIMESTAMP"):
                first, last = between(kind).values()
                day = FIRST + dt.timedelta(days=rng.randrange((LAST - FIRST).days))
                moment = dt.datetime.combine(
                    day, rng.choice([dt.time(), dt.time(23, 59, 59, 999999), dt.time(0, 0, 1)])
                )
                edge = rng.choice([first, last, dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2000, 2, 29), None])
                row.append(edge if rng.random() < 0.3 else day if kind == "DATE" else moment)
            con.execute("INSERT INTO r VALUES (?, ?, ?, ?, ?)", row)
        yield con


def interval(rng: random.Random, depth: int) -> str:
    """A constant interval."""
    if depth > 0:
        one, other = interval(rng, depth - 1), interval(rng, depth - 1)
        return rng.choice([f"({one} + {other})", f"({one} - {other})", f"(3 * {one})", f"({one} * 2)", f"(-({one}))"])
    number, unit = rng.choice([0, 1, 2, 13, 31, 400]), rng.choice(LENGTHS)
    forms = [f"INTERVAL {number} {unit}", f"INTERVAL '{number}' {unit}S", f"INTERVAL '-{number} {unit} 1 day'"]
    return rng.choice([*forms, f"INTERVAL ({number}) {unit}"])


def moment(rng: random.Random, depth: int, leaves: tuple[str, ...]) -> str:
    """A date or timestamp."""
    if depth <= 0:
        return rng.choice(leaves)
    x = moment(rng, depth - 1, leaves)
    return rng.choice(
        [
            f"({x} {rng.choice('+-')} {interval(rng, rng.choice([0, 0, 1, 2]))})",
            f"({x} {rng.choice('+-')} {interval(rng, 0)})",
            f"date_trunc('{rng.choice(['year', 'quarter', 'month', 'week', 'day'])}', {x})",
            f"date_trunc('{rng.choice(['hour', 'minute'])}', CAST({x} AS TIMESTAMP))",
            f"CAST({x} AS {rng.choice(['DATE', 'TIMESTAMP'])})",
            f"(CAST({x} AS DATE) {rng.choice('+-')} {rng.choice([0, 7, 365])})",
        ]
    )


def read(text: str) -> Expr:
    """Our translation."""
    return Scalars(RowScope(bounded(), None, text).leaf, text)(parse_scalar(text))


def wrong(con: duckdb.DuckDBPyConnection, text: str) -> str | None:
    """How a text differs from DuckDB's, or leaves the ends that are known; "": it does not; None: it is refused."""
    try:
        expr = read(text)
    except QueryError as error:
        return None if error.code == "Q402" else f"{text}: {error}"
    wanted = [row[0] for row in con.execute(f"SELECT {text} FROM r ORDER BY i").fetchall()]
    for found, value in zip(ours(con, expr), wanted, strict=True):
        if not same(found, value):
            return f"{text}: {found!r}, DuckDB {value!r}"
    ends = known.moment_ends(expr)
    for value in wanted:
        if ends is not None and value is not None and not _moment(ends[0]) <= _moment(value) <= _moment(ends[1]):
            return f"{text}: {value!r} is not between {ends}"
    return ""


def _moment(day: dt.date) -> dt.datetime:
    return day if isinstance(day, dt.datetime) else dt.datetime(day.year, day.month, day.day)


@pytest.mark.parametrize("leaves", [CONSTANTS, (*CONSTANTS[:1], "da", "db", "ta", "tb")], ids=["constants", "columns"])
def test_computed_moments_mean_what_duckdb_means(leaves: tuple[str, ...], dated: duckdb.DuckDBPyConnection) -> None:
    rng = random.Random(11)
    texts = [moment(rng, rng.choice([1, 2, 3, 4]), leaves) for _ in range(400)]
    found = [wrong(dated, text) for text in texts]
    assert [f for f in found if f] == []
    assert found.count("") > 350
    if leaves is CONSTANTS:
        moved = [read(text) for text, said in zip(texts, found, strict=True) if said == "" and text.startswith("((")]
        assert moved
        assert all(isinstance(expr, Literal) for expr in moved if expr.kind is Kind.TIMESTAMP and not columns(expr))


DURATIONS = (
    *(f"epoch({pair})" for pair in ("ta - tb", "da - tb", "ta - DATE '2000-01-01'")),
    *(f"{name}('{unit}', {pair})" for name in ("date_diff", "date_sub") for unit in PERIODS for pair in PAIRS),
)


def test_durations_mean_what_duckdb_means_and_lie_in_their_bounds(dated: duckdb.DuckDBPyConnection) -> None:
    for text in DURATIONS:
        expr = read(text)
        wanted = [row[0] for row in dated.execute(f"SELECT {text} FROM r ORDER BY i").fetchall()]
        span = facts(expr).interval
        for found, value in zip(ours(dated, expr), wanted, strict=True):
            assert found is None if value is None else found == value, (text, found, value)
            assert value is None or span.lower <= value <= span.upper, (text, value, span)
        assert span.largest < 1e17, text


def made(rng: random.Random) -> str:
    """A moment that a function makes of constants, which may be none."""
    year, month, day = (
        rng.choice([1, 1969, 2025, 9999, 10000, 0, -1]),
        rng.choice([1, 2, 12, 13]),
        rng.choice([1, 29, 31]),
    )
    clock = f"{rng.choice([0, 23, 24])}, {rng.choice([0, 59, 60])}, {rng.choice(['0', '59.5', '-1', '59.9999999'])}"
    text, form = (
        rng.choice(["2025-01-31", "31.1.25", "2025-02-30", "x", ""]),
        rng.choice(["%Y-%m-%d", "%d.%m.%y", "%Q"]),
    )
    return rng.choice(
        [
            f"make_date({year}, {month}, {day})",
            f"make_timestamp({year}, {month}, {day}, {clock})",
            f"strptime('{text}', '{form}')",
            f"timezone('UTC', to_timestamp({rng.choice(['0', '-1.5', '1738324800', '1e12', '1e300'])}))",
        ]
    )


def test_made_constants_are_duckdbs(dated: duckdb.DuckDBPyConnection) -> None:
    rng, agreed = random.Random(4), 0
    for text in {made(rng) for _ in range(600)}:
        try:
            wanted = dated.execute(f"SELECT {text}, year({text}) BETWEEN 1 AND 9999").fetchall()[0]
        except duckdb.Error:
            wanted = None, False
        own = text.removeprefix("timezone('UTC', ").replace("))", ")")
        if not wanted[1]:
            with pytest.raises(QueryError, match="no date of these constants"):
                read(own)
            continue
        found, agreed = read(own), agreed + 1
        assert isinstance(found, Literal)
        assert (found.value, type(found.value)) == (wanted[0], type(wanted[0])), text
    assert agreed > 30


def test_what_is_worked_out_leaves_the_instance_free() -> None:
    """An open result of one question would be in the way of the next, whoever asks it."""
    for text in ("make_date(2025, 1, 31)", "make_date(2025, 13, 31)", "make_date(2025, 1, 30)"):
        try:
            read(text)
        except QueryError:
            assert "13" in text
        plan_for(f"SELECT left(sex, 1) || '{text[12:]}', count(*) FROM clinic GROUP BY 1", clinic())


def test_last_month_is_a_constant() -> None:
    for text in (
        "date_trunc('month', DATE '2025-03-31') - INTERVAL 1 MONTH",
        "date_trunc('month', TIMESTAMP '2025-03-31 10:00:00') - INTERVAL '1 month'",
        "date_trunc('month', DATE '2025-03-31' - INTERVAL 1 MONTH) + INTERVAL 0 DAY",
        "CAST(date_trunc('month', TIMESTAMP '2025-03-31 10:00:00') AS DATE) - (INTERVAL 2 MONTH - INTERVAL 1 MONTH)",
    ):
        assert read(text) == Literal(dt.datetime(2025, 2, 1), Kind.TIMESTAMP), text


def test_what_was_answered_before_keeps_its_identity() -> None:
    """A cut of a constant that nothing moves is written as it was: answers bought before stay free."""
    from duckdp.compiler.expression import show

    assert show(read("date_trunc('month', DATE '2025-03-31')")) == "trunc_date(date '2025-03-31', 'month')"
    assert show(read("da - INTERVAL 1 MONTH")) == "shifted(to_timestamp(da), '-1,0,0')"


def test_no_constant_leaves_the_calendar() -> None:
    for text in ("DATE '0001-01-15' - INTERVAL 1 MONTH", "date_trunc('year', DATE '9999-05-01') + INTERVAL 1 YEAR"):
        with pytest.raises(QueryError, match="year 9999"):
            read(text)
    for text in ("DATE '2020-01-01' + 900000000 * INTERVAL 1000 YEAR", "DATE '2020-01-01' + INTERVAL '1.5' MONTH"):
        with pytest.raises(QueryError, match="Q202"):
            read(text)


def test_a_truncation_that_is_forgotten_is_caught(
    dated: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: ends that are not moved."""
    plain = known.row_of
    monkeypatch.setattr(
        known, "row_of", lambda call: replace(plain(call), moved=plain(call).moved and (lambda m, _: m))
    )
    assert wrong(dated, "date_trunc('month', da) - INTERVAL 1 MONTH")

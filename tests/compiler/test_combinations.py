"""Combinations of keys that no row can have are not shown, and no row that counts is lost with them."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import duckdb
import pytest

from duckdp.compiler import combinations, listed_columns, shown_rows
from duckdp.compiler.expression import Call, ColumnRef, Expr, columns
from duckdp.compiler.images import images
from duckdp.compiler.listed_columns import by_day
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.select import read_select
from tests.gate import COLUMNS, clinic, column, exact_answer, load, plan_for, shared

WIDE = [
    replace(c, lower=dt.datetime(2020, 1, 1, 12), upper=dt.datetime(2022, 6, 30)) if c.name == "seen" else c
    for c in COLUMNS
]
TABLE = clinic(columns=(*WIDE, column("ward", "VARCHAR", domain=("a", "b", None))), max_rows=900, max_groups=900)


def shown(text: str, con: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    """Keys of an answer over what is loaded, and its last figure, by the statement's own order."""
    plan = plan_for(text, TABLE, epsilon=100)
    found = exact_answer(plan, con)
    columns = [c.values for c in (*found[: len(plan.query.keys)], found[-1])]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize(
    ("keys", "where", "count"),
    [
        ("isodow(seen) AS a, dayname(seen) AS b", "", 7),
        ("month(born) AS a, monthname(born) AS b", "", 12),
        ("year(seen) AS a, date_trunc('month', seen) AS b", "", 30),
        ("year(seen) AS a, quarter(seen) AS b", "", 10),
        ("sex AS a, CASE WHEN sex = 'F' THEN 1 ELSE 2 END AS b", "", 2),
        ("age // 10 AS a, age > 50 AS b", "", 13),
        ("age // 10 AS a, age > 50 AS b", "WHERE age > 30 AND cost > 3", 10),
        ("sex AS a, ward AS b", "WHERE sex = 'F' OR ward = 'a'", 4),
        ("hour(seen) AS a, year(seen) AS b", "", 72),  # hours are not told by the day: all
        ("date_trunc('quarter', seen) AS a, date_trunc('month', seen) AS b", "WHERE seen >= '2021-11-05'", 8),
        ("year(seen) AS a, month(seen) AS b", "WHERE seen >= '2020-12-01' AND seen < '2021-03-01'", 3),
        (
            "year(seen) AS a, month(seen) AS b",
            "WHERE seen >= '2020-12-01' AND hour(seen) < 3 AND seen < '2021-03-01'",
            3,
        ),
        (
            "CASE WHEN seen < '2021-01-01 12:00:00' THEN 'early' ELSE 'late' END AS a, "
            "CASE WHEN seen < '2021-01-01 12:00:00' THEN 1 ELSE 2 END AS b",
            "WHERE seen > '2020-02-02'",
            2,
        ),
        (
            "CASE WHEN seen < '2021-01-01 12:00:00' THEN 'early' ELSE 'late' END AS a, year(seen) AS b",
            "WHERE seen >= '2020-05-05 05:05:05'",
            4,
        ),
        (
            "CASE WHEN cost < 9.5 THEN 'a' WHEN cost < 99 THEN 'b' ELSE 'c' END AS a, cost < 9.5 AS b, cost >= 99 AS c",
            "",
            3,
        ),
        ("score < 0.5 AS a, score <= 0.5 AS b", "", 3),
        ("score < 0.5 AS a, score <= 0.5 AS b", "WHERE score <> 0.5", 2),
        ("visits > 3 AS a, visits > 4 AS b, visits = 4 AS c", "", 3),
        ("name = 'x' AS a, coalesce(name = 'x', false) AS b, name IN ('x', 'y') AS c", "", 3),
        ("born < DATE '1991-01-01' AS a, born <= DATE '1991-01-01' AS b", "WHERE born >= DATE '1991-01-01'", 2),
        ("town AS a, town = 'Uri' AS b", "", 8),  # its label stands for anything
        ("sex AS a, ward AS b", "", 6),
    ],
)
def test_what_may_be_is_shown(keys: str, where: str, count: int, con: duckdb.DuckDBPyConnection) -> None:
    load(con, TABLE, [])
    assert len(shown(f"SELECT {keys}, count(*) FROM clinic {where} GROUP BY ALL", con)) == count


def test_limits_are_of_what_is_shown(con: duckdb.DuckDBPyConnection) -> None:
    load(con, TABLE, [])
    text = "SELECT isodow(seen) AS a, dayname(seen) AS b, count(*) FROM clinic GROUP BY ALL ORDER BY a LIMIT 5 OFFSET 1"
    days = ["Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
    assert shown(text, con) == [(i + 2, day, 0) for i, day in enumerate(days)]


# ---- no row is lost -------------------------------------------------------------------------------------------------

KEYS = (
    "isodow(seen)",
    "dayname(seen)",
    "year(seen) * 100 + month(seen)",
    "date_trunc('quarter', seen)",
    "strftime(seen, '%b')",
    "year(born - INTERVAL 7 MONTH)",
    "quarter(born)",
    "born > DATE '1991-06-01'",
    "date_diff('month', born, DATE '1993-01-01')",
    "sex",
    "coalesce(sex, 'none')",
    "sex = 'F'",
    "ward",
    "ward IS NULL",
    "age // 20",
    "age % 7",
    "age >= 18",
    "CASE WHEN age > 60 THEN 'old' WHEN age > 30 THEN 'middle' END",
    "smoker",
    "NOT smoker",
    "level",
    "level = 2",
)
COMPARED = (  # with constants: pieces of a column stand for all of it
    "CASE WHEN seen < TIMESTAMP '2021-03-05 13:00:00' THEN 'a' WHEN seen <= TIMESTAMP '2021-03-05 14:00' THEN 'b' END",
    "seen > TIMESTAMP '2021-03-05 14:00:00'",
    "CASE WHEN seen = TIMESTAMP '2021-03-05 13:00:00' THEN year(seen) ELSE 1 END",
    "CASE WHEN cost < 100.5 THEN 1 WHEN cost <= 900 THEN 2 ELSE 3 END",
    "cost >= 900",
    "score > 0.5",
    "score BETWEEN 0.5 AND 0.75",
    "visits IN (3, 5)",
    "visits < 4",
    "name = 'x'",
    "coalesce(name IN ('x', 'y'), TRUE)",
    "born = DATE '1991-06-01'",
)
WHERE = (
    "sex = 'F' OR ward = 'a'",
    "age > 30",
    "isodow(seen) < 6",
    "age % 7 <> 3 OR sex IS NULL",
    "smoker = (age > 40)",
    "level IS NOT NULL",
    "cost > 100",
    "year(seen) = 2021",
    "ward <> sex",
    "quarter(born) = 2 OR age < 50",
    "seen >= TIMESTAMP '2021-03-05 13:00:00'",
    "seen NOT BETWEEN TIMESTAMP '2020-03-05 14:00:00' AND TIMESTAMP '2021-03-05 14:00:00'",
    "seen <> TIMESTAMP '2021-03-05 13:00:00' OR seen IS NULL",
    "hour(seen) < 12",
    "cost <> 900",
    "cost < 100.5 OR score > 0.5",
    "score <> 0.5",
    "visits >= 3",
    "name <> 'x'",
    "seen::DATE >= DATE '2021-03-05'",
)


NEAR = [dt.datetime(2021, 3, 5, h, m) for h in (0, 12, 13, 14, 15) for m in (0, 1)]  # where constants cut a day


def _rows(rng: random.Random) -> list[tuple[Any, ...]]:
    def some(values: list[Any]) -> Any:
        return rng.choice([*values, None])

    return [
        (
            i,
            some(list(range(111))),
            rng.choice([rng.uniform(0, 5000), rng.uniform(0, 1000), 100.5, 900.0]),
            some([0.5, 0.75, 0.6, rng.uniform(-9, 9)]),
            some(["F", "M"]),
            some(["Bern", "Uri"]),
            some(["x", "y", "z"]),
            some([dt.date(1990, 1, 1) + dt.timedelta(days=rng.randrange(1096))]),
            some([dt.datetime(2020, 1, 1, 12) + dt.timedelta(minutes=rng.randrange(1_311_000)), rng.choice(NEAR)]),
            some([True, False]),
            some([2, 3, 4, 5, 6]),
            some([1, 2]),
            None,
            some(["a", "b"]),
        )
        for i in range(300)
    ]


def _lost(con: duckdb.DuckDBPyConnection, rounds: int, of: tuple[str, ...] = (*KEYS, *COMPARED)) -> int:
    """Groups with rows, of all combinations of the keys, that are not shown."""
    rng, lost = random.Random(4), 0
    load(con, TABLE, _rows(rng))
    for _ in range(rounds):
        names = rng.sample(of, rng.choice([2, 2, 3]))
        where = f"WHERE {' AND '.join(rng.sample(WHERE, rng.choice([1, 1, 2])))}" if rng.random() < 0.6 else ""
        keys = ", ".join(f"{name} AS k{i}" for i, name in enumerate(names))
        text = f"SELECT {keys}, count(*) AS n FROM clinic {where} GROUP BY ALL"
        with patch.object(shown_rows, "possible", lambda _, keys: list(range(len(keys)))):
            every = {row for row in shown(text, con) if row[-1]}
        lost += len(every - set(shown(text, con)))
    return lost


def test_no_group_is_lost(con: duckdb.DuckDBPyConnection) -> None:
    assert _lost(con, 120) == 0
    assert _lost(con, 60, COMPARED) == 0


def _without_conditions_read(broken: pytest.MonkeyPatch) -> None:
    """Keys are taken at the days, though they tell hours."""
    broken.setattr(listed_columns, "cuts", lambda *_: frozenset())
    broken.setattr(combinations, "MOST_TRIED", 10**6)


def _without_nulls(broken: pytest.MonkeyPatch) -> None:
    def known(exprs: Any, where: Any, atoms: Any) -> Any:
        return {row for row in images(exprs, where, atoms) if None not in row and "none" not in row}

    broken.setattr(combinations, "images", known)


def _half_of_the_values(broken: pytest.MonkeyPatch) -> None:
    old = combinations._values
    broken.setattr(combinations, "_values", lambda *given: None if (v := old(*given)) is None else v[::2])


def _ends_of_pieces_alone(broken: pytest.MonkeyPatch) -> None:
    """Constants are tried, and nothing between them."""
    broken.setattr(listed_columns, "_pieces", lambda within, at: tuple(at) or within.domain)


@pytest.mark.parametrize("broken", [_without_nulls, _half_of_the_values])
def test_values_that_are_not_tried_are_missed(
    broken: Callable[[pytest.MonkeyPatch], None], con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    assert _lost(con, 40) > 0


def test_pieces_that_are_not_tried_are_missed(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    _ends_of_pieces_alone(monkeypatch)
    assert _lost(con, 40, COMPARED) > 0


def test_a_constant_cuts_its_day(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after it on its day is tried too."""
    load(con, TABLE, [])
    text = "SELECT seen::DATE AS a, seen > '2021-03-05 14:00:00' AS b, count(*) FROM clinic WHERE {} GROUP BY ALL"
    text = text.format("seen >= '2021-03-05' AND seen < '2021-03-07'")
    days = [dt.date(2021, 3, 5), dt.date(2021, 3, 6)]
    assert shown(text, con) == [(days[0], False, 0), (days[0], True, 0), (days[1], True, 0)]
    monkeypatch.setattr(listed_columns, "_moved", lambda *_: None)
    assert shown(text, con) == [(days[0], False, 0), (days[1], True, 0)]


def test_hours_taken_for_days_are_missed(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    load(con, TABLE, _rows(random.Random(4)))
    text = "SELECT hour(seen) AS a, isodow(seen) AS b, count(*) FROM clinic GROUP BY ALL"
    assert len(shown(text, con)) == 7 * 24
    _without_conditions_read(monkeypatch)
    assert len(shown(text, con)) < 7 * 24


# ---- functions of the day -------------------------------------------------------------------------------------------

DAILY = (
    "year(seen)",
    "isodow(seen) + dayofyear(seen)",
    "year(seen - INTERVAL 7 MONTH)",
    "date_diff('day', born, seen::DATE)",
    "date_diff('month', TIMESTAMP '2019-12-31 23:59:00', seen + INTERVAL 3 DAY)",
    "date_trunc('week', seen)",
    "strftime(seen, '%Y-%j')",
    "seen::DATE",
    "CASE WHEN month(seen) >= 8 THEN year(seen) ELSE year(seen) - 1 END",
)
HOURLY = (
    "hour(seen)",
    "seen",
    "date_sub('day', TIMESTAMP '2019-12-31 23:59:00', seen)",
    "year(seen + INTERVAL 5 HOUR)",
    "date_trunc('hour', seen)",
    "seen > TIMESTAMP '2021-01-01 10:00:00'",
    "date_diff('hour', TIMESTAMP '2019-12-31', seen)",
    "strftime(seen, '%d %H')",
    "isodow(seen) + minute(seen)",
)


def _read(text: str) -> Expr:
    query = f"SELECT count({text}) FROM clinic"
    found = read_select(parse_statement(query), {"clinic": TABLE}, query, ())
    return next(a.argument for o in found.outputs for a in [o.expr] if a.argument is not None)  # type: ignore[union-attr]


def _moves(text: str) -> bool:
    """Whether an expression differs between moments of a day, as DuckDB computes it."""
    sql = f"SELECT {text} FROM (SELECT TIMESTAMP '2021-{{}} {{}}' AS seen, DATE '1991-02-03' AS born)"
    days, hours = ("03-15", "01-01", "12-31"), ("00:00:00", "04:31:07", "12:00:00", "19:00:01", "23:59:59.999999")
    with shared() as con:
        return any(len({con.execute(sql.format(d, h)).fetchone() for h in hours}) > 1 for d in days)


@pytest.mark.parametrize("text", [*DAILY, *HOURLY])
def test_what_is_a_function_of_the_day(text: str) -> None:
    expr = _read(text)
    (seen,) = (c for c in columns(expr) if c.name == "seen")
    assert by_day(expr, seen) is (text in DAILY)
    assert _moves(text) is (text in HOURLY)


def test_every_family_that_looks_at_the_day_alone_does() -> None:
    from duckdp.compiler.operators import OPERATORS

    families = {row.family for row in OPERATORS.values()}
    assert families >= listed_columns._BY_DAY
    for name in listed_columns._BY_DAY - {"to_date"}:
        assert not _moves(f"{name}(seen)"), name


def test_a_family_of_hours_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed_columns, "_BY_DAY", listed_columns._BY_DAY | {"hour"})
    expr = _read("hour(seen)")
    assert isinstance(expr, Call)
    (seen,) = columns(expr)
    assert expr.arguments == (ColumnRef(seen),)
    assert by_day(expr, seen)
    assert _moves("hour(seen)")


# ---- one key --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "left"),
    [
        ("age % 2", [0, 1]),
        ("year(seen) * 100 + month(seen)", [y * 100 + m for y in (2020, 2021, 2022) for m in range(1, 13)][:30]),
        ("year(seen - INTERVAL 7 MONTH)", [2019, 2020, 2021]),
        ("date_diff('year', born, DATE '2000-06-01')", [8, 9, 10]),
        ("datesub('year', born, DATE '2000-06-01')", [7, 8, 9, 10]),
        ("(DATE '2000-06-01' - born) // 365", [7, 8, 9, 10]),
        ("floor(age / 10) * 10", list(range(0, 111, 10))),
    ],
)
def test_numbers_that_a_function_cannot_be_are_no_groups(key: str, left: list[int]) -> None:
    (found,) = plan_for(f"SELECT {key} AS k, count(*) FROM clinic GROUP BY k", TABLE).query.keys
    assert list(found.domain or ()) == left

"""Implied domains hold every value that DuckDB can produce: a value outside would be dropped without a word."""

from __future__ import annotations

import datetime as dt
import math
import random
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import duckdb
import pytest

from duckdp.catalog.table import Kind
from duckdp.compiler.domains import Domains
from duckdp.compiler.expression import columns
from duckdp.compiler.facts import facts
from duckdp.compiler.notes import plan_notes
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.printing import Parameters, print_column, print_expr
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope
from duckdp.errors import QueryError
from tests.gate import clinic, column, exact_answer, exact_rows, load, plan_for


def _expression(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(["a", "b", "x", "2", "-3", "7", "0.5", "49"])
    p, q = _expression(rng, depth - 1), _expression(rng, depth - 1)
    return rng.choice(
        [
            f"({p} + {q})",
            f"({p} - {q})",
            f"({p} * {q})",
            f"({p} / {q})",
            f"({p} // {q})",
            f"({p} % {q})",
            f"abs({p})",
            f"floor({p} / 7)",
            f"ceil({p} / 3)",
            f"round({p} / 4)",
            f"CAST({p} / 8 AS INTEGER)",
            f"trunc({p} / 49)",
            f"sign({p})",
            f"-({p})",
            f"greatest({p}, {q})",
            f"least({p}, {q})",
            f"coalesce({p}, {q})",
            f"nullif({p}, {q})",
            f"power({p}, 2)",
            f"power({p}, 3)",
            f"floor(sqrt(abs({p})))",
            f"floor(exp(least({p}, 5)))",
            f"floor(ln(greatest({p}, 1)))",
            f"floor(log10(greatest({p}, 1)))",
            f"floor(log2(greatest({p}, 1)))",
            f"round(tanh({p}))",
            f"floor(atan({p}))",
            f"CASE WHEN a > 3 THEN {p} ELSE {q} END",
            f"floor({p} * 0.1)",
            f"CASE WHEN {p} > 2 THEN 1 END",
        ]
    )


def test_numbers(con: duckdb.DuckDBPyConnection) -> None:
    rng = random.Random(8)
    found = 0
    for _ in range(400):
        (a, b), (c, d) = (sorted(rng.sample(range(-12, 100), 2)) for _ in range(2))
        low, high = sorted((rng.choice([0, -1, 2.5, 0.1, 7]), rng.choice([10, 8.7, 49, 100.0])))
        table = clinic(
            columns=(
                column("a", "INTEGER", lower=a, upper=b),
                column("b", "INTEGER", lower=c, upper=d),
                column("x", "DOUBLE", lower=low, upper=high),
            )
        )
        text = rng.choice(["{}", "{}", "floor({})", "round({})"]).format(_expression(rng, rng.choice([1, 2, 2, 3])))
        try:
            expr = Scalars(RowScope(table, None, text).leaf, text)(parse_scalar(text))
        except QueryError:
            continue
        derived = Domains().find(expr)
        if expr.kind is not Kind.NUMBER or derived is None:
            continue
        domain = derived.values
        found += 1
        parameters = Parameters()
        printed = print_expr(expr, lambda col: print_column(col, parameters, "base"), parameters)  # noqa: B023
        rows = con.execute(
            f"SELECT DISTINCT {printed} FROM (SELECT CAST(p AS INTEGER) AS a, CAST(q AS INTEGER) AS b, r AS x "
            f"FROM (SELECT unnest([{a}, {b}, {a + 1}, {(a + b) // 2}, 0, 999, NULL]) AS p), "
            f"(SELECT unnest([{c}, {d}, {d - 1}, 0, 1, NULL]) AS q), "
            f"(SELECT unnest([{low}::DOUBLE, {high}, 1.5, 4, 'nan'::DOUBLE, 'inf'::DOUBLE, NULL]) AS r)) AS base",
            parameters.values,
        ).fetchall()
        outside = {v for (v,) in rows if v is not None and not math.isnan(v)} - set(domain)
        assert not outside, (text, (a, b), (c, d), (low, high), outside)
    assert found > 60


@pytest.mark.parametrize(
    "text",
    [
        "born",
        "date_trunc('week', born)",
        "date_trunc('month', born)",
        "date_trunc('quarter', born)",
        "date_trunc('year', born)",
        "year(born)",
        "month(born)",
        "day(born)",
        "week(born)",
        "isodow(born)",
        "dayofweek(born)",
        "dayofyear(born)",
        "quarter(born)",
        "date_diff('day', born, DATE '1991-05-05')",
        "date_diff('week', born, DATE '1991-05-05')",
        "date_diff('month', DATE '1991-05-31', born)",
        "date_diff('quarter', DATE '1991-05-05', born)",
        "date_diff('year', born, DATE '2000-01-01')",
        "CAST(seen AS DATE)",
        "date_diff('hour', seen, TIMESTAMP '2020-01-01 10:59:59')",
        "date_diff('minute', seen, seen)",
        "hour(seen)",
        "minute(seen)",
        "week(seen)",
        "date_trunc('month', seen)",
        "date_trunc('week', seen)",
        "date_trunc('day', seen)",
        "date_trunc('hour', seen)",
        "date_trunc('quarter', date_trunc('week', seen))",
        "coalesce(date_trunc('month', seen), TIMESTAMP '1900-01-01')",
        "CAST(date_trunc('month', seen) AS DATE)",
        "time_bucket(INTERVAL '2 weeks', born)",
        "time_bucket(INTERVAL '90 years', born)",
        "time_bucket(INTERVAL '5 months', seen)",
        "time_bucket(INTERVAL '36 hours', seen)",
    ],
)
def test_dates(text: str, con: duckdb.DuckDBPyConnection) -> None:
    for first, last in (
        (dt.date(1990, 12, 28), dt.date(1993, 1, 4)),
        (dt.date(2020, 2, 29), dt.date(2020, 3, 1)),
        (dt.date(1, 1, 1), dt.date(1, 3, 1)),
    ):
        start, end = dt.datetime.combine(first, dt.time(9, 30)), dt.datetime.combine(last, dt.time(0, 0, 1))
        table = clinic(
            columns=(
                column("born", "DATE", lower=first, upper=last),
                column("seen", "TIMESTAMP", lower=start, upper=end),
            )
        )
        expr = Scalars(RowScope(table, None, text).leaf, text)(parse_scalar(text))
        derived = Domains().find(expr)
        if derived is None:
            assert "date_diff" in text or "hour" in text
            continue
        domain = derived.values
        parameters = Parameters()
        printed = print_expr(expr, lambda col: print_column(col, parameters, "base"), parameters)  # noqa: B023
        rows = con.execute(
            f"SELECT DISTINCT {printed} FROM (SELECT CAST(t AS DATE) AS born, t AS seen FROM "
            f"(SELECT unnest(generate_series(TIMESTAMP '{start}' - INTERVAL 3 DAY, "
            f"TIMESTAMP '{end}' + INTERVAL 3 DAY, INTERVAL 5 HOUR)) AS t)) AS base",
            parameters.values,
        ).fetchall()
        nulls = {None} if facts(expr).nullable else set()
        assert {v for (v,) in rows} <= set(domain) | nulls, (text, first, last)


def test_buckets_are_those_of_duckdb(con: duckdb.DuckDBPyConnection) -> None:
    """Any width: all that its buckets of the bounded moments are, and nothing else."""
    rng = random.Random(11)
    for number in range(60):
        first = dt.datetime(rng.choice([2, 1582, 1969, 1999, 2024, 9990]), rng.randint(1, 12), rng.randint(1, 28))
        width = f"{rng.randint(1, 40)} {rng.choice(['days', 'weeks', 'months', 'quarters', 'years'])}"
        if number % 3 == 0:
            width = f"{rng.randint(5, 90)} hours"
        last = first + dt.timedelta(days=rng.randint(0, 1000), hours=13)
        kind, at = ("TIMESTAMP", "t") if number % 3 != 1 else ("DATE", "CAST(t AS DATE)")
        ends = (first, last) if kind == "TIMESTAMP" else (first.date(), last.date())
        table = clinic(columns=(column("x", kind, lower=ends[0], upper=ends[1]),))
        text = f"time_bucket(INTERVAL '{width}', x)"
        expr = Scalars(RowScope(table, None, text).leaf, text)(parse_scalar(text))
        derived = Domains().find(expr)
        assert derived is not None
        rows = con.execute(
            f"SELECT DISTINCT system.main.time_bucket(INTERVAL '{width}', {at}) FROM (SELECT unnest(generate_series("
            f"TIMESTAMP '{first}', TIMESTAMP '{last}', INTERVAL 1 HOUR)) AS t)"
        ).fetchall()
        of_calendar = {v for (v,) in rows if not isinstance(v, str)}  # a day before year 1 comes as a text
        assert of_calendar == set(derived.values), (text, first, last)


def test_nothing_is_implied_where_doubles_are_not_exact() -> None:
    for text in (
        "a + 1e17",
        "a * 9007199254740993",
        "floor(x) * 1e18",
        "(a + 9007199254740992) - 9007199254740992 + 1e16",
    ):
        table = clinic(columns=(column("a", "INTEGER", lower=0, upper=5), column("x", "DOUBLE", lower=0.0, upper=3.0)))
        expr = Scalars(RowScope(table, None, text).leaf, text)(parse_scalar(text))
        assert Domains().find(expr) is None


# ---- functions of declared columns -----------------------------------------------------------------------------------

DECLARED = clinic(
    unit_key=None,
    row_cap=10_000,
    columns=(
        column("code", "VARCHAR", domain=("AB1", "AB2", "CD1", " e ", "", "éa")),
        column("town", "VARCHAR", domain=("Bern", "Genf", "Uri"), other="elsewhere"),
        column("sex", "VARCHAR", domain=("F", "M", None)),
        column("level", "INTEGER", domain=(1, 2, None)),
        column("price", "DECIMAL(9,2)", domain=(0.1, 0.29, 5.0)),
        column("age", "INTEGER", lower=0, upper=110),
        column("x", "DOUBLE", lower=-3.0, upper=8.5),
        column("born", "DATE", lower=dt.date(2019, 11, 5), upper=dt.date(2021, 2, 3)),
        column("seen", "TIMESTAMP", lower=dt.datetime(2019, 11, 5, 7), upper=dt.datetime(2020, 3, 1, 23, 30)),
        column("ok", "BOOLEAN"),
        column("free", "VARCHAR"),
        column(
            "fed",
            "DATE",
            lower=dt.date(2020, 1, 1),
            upper=dt.date(2020, 4, 30),
            domain=(dt.date(2020, 1, 1), dt.date(2020, 2, 3), None),
        ),
    ),
)


def _declared_rows(rng: random.Random, count: int, *, inside: bool) -> list[tuple[object, ...]]:
    def one(values: list[object], outside: list[object]) -> object:
        return rng.choice(values if inside else [*values, *outside, None])

    def row() -> tuple[object, ...]:
        day = dt.timedelta(days=rng.randint(0, 456))
        return (
            1,
            one(["AB1", "AB2", "CD1", " e ", "", "éa"], ["zz", "ab1", "AB3", "ÉA", "elsewhere", "e" * 300]),
            one(["Bern", "Genf", "Uri"], ["Rom", "bern", "elsewhere", "ELSEWHERE"]),
            one(["F", "M", None], ["f", "X"]),
            one([1, 2, None], [3, -1, 2**31 - 1]),
            one([Decimal("0.1"), Decimal("0.29"), 5], [Decimal("0.3")]),
            one([rng.randint(0, 110)], [-5, 2**31 - 1]),
            one([rng.uniform(-3, 8.5), -3.0, 8.5, 0.0], [math.nan, math.inf, -math.inf, 99.0, -1e308]),
            one([dt.date(2019, 11, 5) + day], [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
            one(
                [dt.datetime(2019, 11, 5, 7) + dt.timedelta(minutes=rng.randint(0, 169_000))],
                [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23)],
            ),
            one([True, False], []),
            one(["a", "b"], ["c"]),
            one([dt.date(2020, 1, 1), dt.date(2020, 2, 3), None], [dt.date(2020, 4, 1)]),
        )

    return [row() for _ in range(count)]


def _key(rng: random.Random, depth: int) -> str:
    pick = rng.choice
    text: Callable[[], str] = lambda: _text_key(rng, depth)  # noqa: E731
    when = pick(["ok", "age > 50", "sex = 'F'", "x < 2", "town IS NULL", "code LIKE 'A%'"])
    return pick(
        [
            text(),
            text(),
            text(),
            f"length({text()})",
            "level + 1",
            "coalesce(level, 0)",
            "-level * 2",
            "level % 2",
            "price * 2",
            "round(price, 1)",
            "floor(price * 100)",
            "price > 0.2",
            "age // 10",
            "floor(age / 25) * 25",
            "round(age, -1)",
            "floor(x)",
            "CAST(x AS INTEGER)",
            "CASE WHEN age < 18 THEN 'young' ELSE town END",
            f"CASE WHEN {when} THEN {text()} ELSE {text()} END",
            f"CASE WHEN {when} THEN level END",
            f"CASE {text()} WHEN 'AB' THEN 1 WHEN 'F' THEN 2 ELSE 3 END",
            "least(age // 20, level)",
            "sign(x) * level",
            f"date_trunc('{pick(['year', 'month', 'week', 'day'])}', {pick(['born', 'seen'])})",
            "CAST(seen AS DATE)",
            "coalesce(date_trunc('month', seen), TIMESTAMP '2000-01-01')",
            "date_trunc('month', CAST(seen AS DATE))",
            f"{pick(['year', 'month', 'isodow', 'week'])}({pick(['born', 'seen'])})",
            "hour(seen)",
            f"({text()} = {text()})",
            "coalesce(level, NULL)",
            f"coalesce({text()}, CASE WHEN {when} THEN 'z' END)",
            "level > 1",
            "level + age // 50",
            "CASE WHEN level > 1 THEN 'high' WHEN level <= 1 THEN 'low' END",
            "coalesce(level, age // 40)",
            "sex IS NULL",
            f"CASE WHEN {when} THEN NULL ELSE level END",
            f"coalesce(nullif(sex, 'F'), {text()})",
            f"NOT ({when})",
            f"(level = 1 AND {when})",
            f"coalesce(level > 1, {when})",
            "date_trunc('month', fed)",
            "CAST(level > 1 AS INTEGER)",
            f"upper(CASE WHEN level > 1 THEN {text()} END)",
            "nullif(level, 2)",
            "CAST(ok AS INTEGER) + level",
            "date_diff('month', born, DATE '2020-01-31')",
            "CASE WHEN ok THEN born ELSE date_trunc('month', born) END",
            "date_trunc('hour', seen)",
        ]
    )


def _text_key(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(["code", "town", "sex", "coalesce(sex, 'Z')"])
    x = _text_key(rng, depth - 1)
    return rng.choice(
        [
            x,
            f"upper({x})",
            f"lower({x})",
            f"trim({x})",
            f"left({x}, {rng.randrange(4)})",
            f"right({x}, 1)",
            f"substring({x}, 2, 1)",
            f"coalesce({x}, 'unknown')",
            f"nullif({x}, 'AB1')",
            f"coalesce({x}, {_text_key(rng, depth - 1)})",
        ]
    )


def _check_keys(con: duckdb.DuckDBPyConnection, seed: int, tries: int) -> None:
    rng = random.Random(seed)
    _load_declared(con, rng)
    missing: list[str] = []
    for _ in range(tries):
        text = _key(rng, rng.choice([1, 2, 3]))
        try:
            _check_key(con, text)
        except QueryError as error:
            assert error.code == "Q404", (text, error)
            missing.append(text)
    assert len(missing) < tries * 0.02, missing


def _load_declared(con: duckdb.DuckDBPyConnection, rng: random.Random) -> None:
    load(con, DECLARED, _declared_rows(rng, 400, inside=False), "wild")
    load(con, DECLARED, _declared_rows(rng, 400, inside=True))


def _check_key(con: duckdb.DuckDBPyConnection, text: str) -> tuple[object, ...]:
    """A known key holds every value; answers are DuckDB's on rows inside the declarations, and count no row twice."""
    statement = f"SELECT {text} AS k, count(*) AS n FROM clinic GROUP BY 1"
    plan = plan_for(statement, DECLARED)
    key = plan.query.keys[0]
    assert key.domain is not None
    assert len(set(key.domain)) == len(key.domain), text
    parameters = Parameters()
    printed = print_expr(key.expr, lambda c: print_column(c, parameters, "base"), parameters)
    rows = con.execute(f"SELECT DISTINCT {printed} FROM memory.main.wild AS base", parameters.values).fetchall()
    told = any("NULL" in note for note in plan_notes(plan))
    assert told or None in key.domain or None not in {v for (v,) in rows}, text
    assert not told or None not in key.domain, text
    if key.complete:
        assert {v for (v,) in rows if v is not None} <= set(key.domain), text
    other = replace(DECLARED, name="wild", relation=("memory", "main", "wild"))
    wild = plan_for(statement.replace("clinic", "wild"), other)
    found = exact_rows(wild, con)
    assert {k for k, *_ in found} <= set(key.domain), text
    assert sum(n for _, n in found) <= 400, text
    shown = dict(zip(*(c.values for c in exact_answer(plan, con)), strict=True))
    assert list(shown) == list(key.domain), text
    wanted = {_plain(k): n for k, n in con.execute(statement).fetchall()}
    if None not in key.domain and not any(None in (c.domain or ()) for c in columns(key.expr)):
        wanted.pop(None, None)  # no declaration lists NULL
    assert {_plain(k): n for k, n in shown.items() if n} == wanted, text
    return key.domain


def _plain(value: object) -> object:
    if isinstance(value, dt.datetime):
        return value
    if isinstance(value, dt.date):
        return dt.datetime.combine(value, dt.time())
    return float(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize(
    "text",
    [
        "level",
        "coalesce(level, NULL)",
        "coalesce(NULL, level)",
        "coalesce(sex, CASE WHEN ok THEN 'z' END)",
        "coalesce(CASE WHEN ok THEN 'z' END, sex)",
        "coalesce(sex, upper(CASE WHEN ok THEN code END))",
        "coalesce(nullif(sex, 'F'), sex)",
        "coalesce(code, sex)",
        "CASE WHEN ok THEN level END",
        "CASE WHEN level > 1 THEN 'high' WHEN level <= 1 THEN 'low' END",
        "CASE WHEN level > 1 THEN age // 10 WHEN level <= 1 THEN 3 END",
        "CASE WHEN level > 1 THEN code WHEN level <= 1 THEN 'low' END",
        "upper(CASE WHEN level > 1 THEN code WHEN level <= 1 THEN 'low' END)",
        "level > 1",
        "NOT (sex = 'F')",
        "CAST(level > 1 AS INTEGER)",
        "level + 1",
        "greatest(level, CASE WHEN ok THEN 3 END)",
        "level + age // 50",
        "date_trunc('month', fed)",
        "month(fed)",
    ],
)
def test_null_is_a_group_where_a_domain_lists_it(text: str, con: duckdb.DuckDBPyConnection) -> None:
    _load_declared(con, random.Random(3))
    assert None in _check_key(con, text)


@pytest.mark.parametrize(
    "text",
    [
        "coalesce(level, 0)",
        "coalesce(level, age // 40)",
        "coalesce(level > 1, ok)",
        "greatest(level, age // 40)",
        "coalesce(sex, 'x', NULL)",
        "coalesce(sex, nullif(code, 'zz'))",
        "sex IS NULL",
        "CASE WHEN level > 1 THEN 'high' ELSE 'low' END",
        "CASE WHEN ok THEN 'z' END",
        "coalesce(CASE WHEN ok THEN 'z' END, CASE WHEN NOT ok THEN 'y' END)",
        "ok",
        "age // 10",
    ],
)
def test_null_is_no_group_where_no_domain_gives_it(text: str, con: duckdb.DuckDBPyConnection) -> None:
    _load_declared(con, random.Random(3))
    assert None not in _check_key(con, text)


def test_keys_of_declared_columns(con: duckdb.DuckDBPyConnection) -> None:
    _check_keys(con, 1, 120)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 7))
def test_many_keys_of_declared_columns(seed: int, con: duckdb.DuckDBPyConnection) -> None:
    _check_keys(con, seed, 2000)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM clinic GROUP BY " + "CASE WHEN ok THEN " * 20 + "code" + " ELSE free END" * 20,
        "SELECT count(*) FROM clinic GROUP BY " + "lower(CASE WHEN ok THEN " * 16 + "code" + " ELSE code END)" * 16,
        "SELECT count(*) FROM clinic WHERE " + "(" * 30 + "price" + " + 0.1) * price" * 30 + " > 1",
        "SELECT count(*) FROM clinic WHERE " + "floor(" * 30 + "price" + " * price + 0.1)" * 30 + " > 1",
    ],
)
def test_nested_statements_are_read_in_a_bounded_time(text: str) -> None:
    """Each part is looked at once: not once for each way to it, which doubles with every level."""
    started = time.process_time()
    plan_for(text, DECLARED)
    assert time.process_time() - started < 30  # two to the power of 20 looks take minutes

"""Implied domains hold every value that DuckDB can produce: a value outside would be dropped without a word."""

from __future__ import annotations

import datetime as dt
import math
import random

import duckdb
import pytest

from duckdp.catalog import Kind
from duckdp.compiler.domains import derive_domain
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.printing import Parameters, print_column, print_expr
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope
from duckdp.errors import QueryError
from tests.gate import clinic, column


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
        domain, _ = derive_domain(expr)
        if expr.kind is not Kind.NUMBER or domain is None:
            continue
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
        domain, _ = derive_domain(expr)
        if domain is None:
            assert "date_diff" in text
            continue
        parameters = Parameters()
        printed = print_expr(expr, lambda col: print_column(col, parameters, "base"), parameters)  # noqa: B023
        rows = con.execute(
            f"SELECT DISTINCT {printed} FROM (SELECT CAST(t AS DATE) AS born, t AS seen FROM "
            f"(SELECT unnest(generate_series(TIMESTAMP '{start}' - INTERVAL 3 DAY, "
            f"TIMESTAMP '{end}' + INTERVAL 3 DAY, INTERVAL 5 HOUR)) AS t)) AS base",
            parameters.values,
        ).fetchall()
        assert {v for (v,) in rows} <= set(domain), (text, first, last)


def test_nothing_is_implied_where_doubles_are_not_exact() -> None:
    for text in (
        "a + 1e17",
        "a * 9007199254740993",
        "floor(x) * 1e18",
        "(a + 9007199254740992) - 9007199254740992 + 1e16",
    ):
        table = clinic(columns=(column("a", "INTEGER", lower=0, upper=5), column("x", "DOUBLE", lower=0.0, upper=3.0)))
        expr = Scalars(RowScope(table, None, text).leaf, text)(parse_scalar(text))
        assert derive_domain(expr)[0] is None

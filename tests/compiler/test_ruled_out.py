"""Keys that WHERE rules out are no groups, and no row that counts is lost with them."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from duckdp.catalog.table import Table
from duckdp.compiler import ruled_out, select
from duckdp.compiler.expression import Call
from duckdp.compiler.operators import row_of
from duckdp.compiler.query import Key
from tests.gate import COLUMNS, clinic, column, exact_cells, exact_rows, load, plan_for

WIDE = [
    replace(c, lower=dt.datetime(2020, 1, 1), upper=dt.datetime(2024, 6, 30)) if c.name == "seen" else c
    for c in COLUMNS
]
TABLE = clinic(columns=(*WIDE, column("ward", "VARCHAR", domain=("a", "b", None))), max_rows=500, max_groups=500)


def keys_of(text: str, table: Table = TABLE) -> list[Any]:
    (key,) = plan_for(text, table).query.keys
    return list(key.domain or ())


@pytest.mark.parametrize(
    ("where", "key", "left"),
    [
        ("sex IN ('F')", "sex", ["F"]),
        ("sex <> 'F' AND age > 3", "sex", ["M"]),
        ("NOT (sex = 'M' OR sex = 'N')", "sex", ["F"]),
        ("age BETWEEN 20 AND 22", "age", [20, 21, 22]),
        ("age % 50 = 7", "age", [7, 57, 107]),
        ("age IN (3, 70)", "floor(age / 10) * 10", [0, 70]),
        ("age > 105", "CASE WHEN age > 100 THEN 'old' ELSE 'young' END", ["old"]),
        ("year(born) = 1991", "date_trunc('quarter', born)", [dt.date(1991, m, 1) for m in (1, 4, 7, 10)]),
        ("born >= DATE '1992-11-05'", "strftime(born, '%Y-%m')", ["1992-11", "1992-12"]),
        ("town = 'Uri'", "town", ["Uri", "elsewhere"]),
        ("level IS NULL", "level", [None]),
        ("level = 2", "level", [2]),
        ("coalesce(ward, 'a') = 'a'", "ward", ["a", None]),
        ("smoker", "smoker", [True]),
        ("cost >= 1000 AND cost < 3000", "floor(cost / 1000)", [1, 2]),
        ("3000 >= cost AND cost > 2999.5", "floor(cost / 1000)", [2, 3]),
        ("seen >= DATE '2024-05-01'", "date_trunc('month', seen)", [dt.datetime(2024, m, 1) for m in (5, 6)]),
        (
            "seen BETWEEN TIMESTAMP '2021-01-01 10:30:00' AND TIMESTAMP '2021-01-01 12:00:00'",
            "date_trunc('hour', seen)",
            [dt.datetime(2021, 1, 1, h) for h in (10, 11, 12)],
        ),
        (
            "seen < TIMESTAMP '2020-01-01 02:00:00'",
            "time_bucket(INTERVAL 1 HOUR, seen)",
            [dt.datetime(2020, 1, 1, h) for h in (0, 1)],
        ),
        ("year(seen) = 2024", "date_trunc('month', seen)", [dt.datetime(2024, m, 1) for m in range(1, 7)]),
        ("extract(year FROM seen) = 2023", "quarter(seen)", [1, 2, 3, 4]),
        ("extract(year FROM seen) = 2024", "quarter(seen)", [1, 2]),
        ("seen::DATE >= DATE '2024-06-29'", "seen::DATE", [dt.date(2024, 6, d) for d in (29, 30)]),
        ("date_trunc('year', seen) = TIMESTAMP '2021-01-01'", "year(seen)", [2021]),
        ("strftime(seen, '%Y') = '2024'", "date_trunc('quarter', seen)", [dt.datetime(2024, m, 1) for m in (1, 4)]),
        (
            "seen >= date_trunc('month', TIMESTAMP '2026-04-07 10:00:00' + INTERVAL '-24 month')",
            "date_trunc('month', seen)",
            [dt.datetime(2024, m, 1) for m in (4, 5, 6)],
        ),
        ("year(seen) IN (2020, 2024)", "year(seen)", [2020, 2024]),
        ("year(seen) BETWEEN 2023 AND 2030", "year(seen)", [2023, 2024]),
        ("seen > '2024-06-29 12:00:00' AND hour(seen) < 3", "seen::DATE", [dt.date(2024, 6, d) for d in (29, 30)]),
        ("isodow(seen) = 1 AND seen >= '2024-06-18 12:00:00'", "seen::DATE", [dt.date(2024, 6, 24)]),
        (
            "seen::DATE = DATE '2021-05-06' AND seen < '2021-05-06 03:00:00'",
            "date_trunc('hour', seen)",
            [dt.datetime(2021, 5, 6, h) for h in (0, 1, 2)],
        ),
        ("seen = TIMESTAMP '2021-05-06 07:08:09'", "date_trunc('minute', seen)", [dt.datetime(2021, 5, 6, 7, 8)]),
        ("date_trunc('quarter', born) = DATE '1991-04-01'", "month(born)", [4, 5, 6]),
        ("cost >= 10", "CASE WHEN cost < 10 THEN 'low' WHEN cost < 99.5 THEN 'mid' ELSE 'high' END", ["mid", "high"]),
        ("score < 2", "CASE WHEN score < 1 THEN 'low' WHEN score < 2 THEN 'mid' ELSE 'high' END", ["low", "mid"]),
    ],
)
def test_what_is_left(where: str, key: str, left: list[Any]) -> None:
    assert keys_of(f"SELECT {key}, count(*) FROM clinic WHERE {where} GROUP BY 1") == left


@pytest.mark.parametrize(
    "where",
    [
        "cost > 100",  # of another column
        "sex = 'F' OR age > 3",  # not for itself
        "sex IS NOT NULL",
        "age = 200",  # no value is left: the answer is known
    ],
)
def test_what_stays_as_it_is(where: str) -> None:
    for key in ("sex", "age"):
        text = f"SELECT {key}, count(*) FROM clinic {{}} GROUP BY 1"
        assert keys_of(text.format(f"WHERE {where}")) == keys_of(text.format(""))


@pytest.mark.parametrize("where", ["n > 5 AND n < 6", "n BETWEEN 5.2 AND 5.8", "n >= 5.5 AND 5.7 > n"])
def test_a_key_without_a_list_of_which_nothing_is_left_stays_as_it_is(where: str) -> None:
    """No whole number is left: a list without values would have no group, and noise no scale."""
    wide = clinic(columns=(column("n", "INTEGER", lower=0, upper=10**9),))
    for key in ("n", "n * 2"):
        plan = plan_for(f"SELECT {key}, count(*) FROM clinic WHERE {where} GROUP BY 1", wide)
        assert plan.query.keys[0].domain is None and plan.tau is not None


def test_fewer_groups_need_less_noise() -> None:
    """Two groups are all that a person can be in."""
    table = clinic(max_rows=3, max_groups=10)
    by_age = "SELECT age, count(*) FROM clinic {} GROUP BY age"
    (all_of,), (few,) = (plan_for(by_age.format(w), table).measures for w in ("", "WHERE age IN (20, 30)"))
    assert plan_for(by_age.format("WHERE age IN (20, 30)"), table).groups == 2
    assert plan_for(by_age.format(""), table).groups == 10
    assert few.kind == all_of.kind


# ---- no row is lost ------------------------------------------------------------------------------------------------

KEYS = (
    "sex",
    "town",
    "level",
    "ward",
    "age",
    "smoker",
    "born",
    "age // 7",
    "floor(cost / 500)",
    "floor(income / 3)",
    "date_trunc('month', born)",
    "time_bucket(INTERVAL 50 DAYS, born)",
    "date_trunc('week', seen)",
    "date_trunc('hour', seen)",
    "seen::DATE",
    "year(seen) * 10 + quarter(seen)",
    "CASE WHEN seen < TIMESTAMP '2021-05-15 07:00:00' THEN 'a' WHEN cost < 800 THEN 'b' ELSE 'c' END",
    "CASE WHEN cost < 500.25 THEN 'a' WHEN cost <= 1000 THEN 'b' ELSE 'c' END",
    "coalesce(level, 7)",
    "sex = 'F'",
    "town = 'Uri'",
    "CASE WHEN age < 30 THEN 'a' WHEN age < 60 THEN 'b' END",
    "CASE WHEN ward = 'a' THEN 1 ELSE 0 END",
    "upper(town)",
    "age IS NULL",
    "level IS NULL",
)


def _condition(rng: random.Random, depth: int = 2) -> str:
    if depth and rng.random() < 0.4:
        parts = [_condition(rng, depth - 1) for _ in range(2)]
        return rng.choice(["({} AND {})", "({} AND {})", "({} OR {})", "NOT ({} AND {})"]).format(*parts)
    sign, day = rng.choice(["<", "<=", ">", ">=", "=", "<>"]), f"DATE '199{rng.randint(0, 2)}-0{rng.randint(1, 9)}-01'"
    moment = f"TIMESTAMP '202{rng.randint(0, 4)}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)} 0{rng.randint(0, 9)}:00:00'"
    number = rng.randint(-5, 115)
    forms = (
        f"age {sign} {number}",
        f"{number} {sign} age",
        f"age BETWEEN {number} AND {number + rng.randint(0, 40)}",
        f"age IN ({number}, {number + 3}, {rng.randint(0, 110)})",
        f"age % {rng.randint(2, 5)} = 1",
        f"cost {sign} {number * 50}",
        f"cost {sign} {number * 50}.25",
        f"income {sign} {number / 4}",
        f"born {sign} {day}",
        f"year(born) {sign} 1991",
        f"seen {sign} {moment}",
        f"seen {sign} {day.replace('199', '202')}",
        f"year(seen) {sign} 202{rng.randint(0, 4)}",
        f"seen::DATE {sign} {day.replace('199', '202')}",
        f"date_trunc('quarter', seen) {sign} {moment}",
        f"strftime(seen, '%Y-%m') = '202{rng.randint(0, 4)}-0{rng.randint(1, 9)}'",
        f"seen {sign} date_trunc('month', {moment} + INTERVAL '-2 month')",
        f"isodow(seen) {sign} {rng.randint(1, 7)}",
        f"hour(seen) {sign} {rng.randint(0, 23)}",
        f"sex {rng.choice(['=', '<>'])} '{rng.choice('FMX')}'",
        f"sex {rng.choice(['', 'NOT '])}IN ('F', 'X')",
        f"town {rng.choice(['=', '<>'])} '{rng.choice(['Uri', 'Bern', 'far'])}'",
        f"level {sign} {rng.randint(0, 4)}",
        f"{rng.choice(['level', 'ward', 'age', 'smoker'])} IS {rng.choice(['', 'NOT '])}NULL",
        f"ward {rng.choice(['=', '<>'])} 'a'",
        "smoker",
        "NOT smoker",
        f"coalesce(level, {rng.randint(0, 3)}) = {rng.randint(0, 3)}",
    )
    return rng.choice(forms)


def _rows(rng: random.Random, count: int = 120) -> list[tuple[Any, ...]]:
    """One of each person: values inside and outside of what is declared, ends, NULL."""
    start, day = dt.datetime(2019, 12, 30), dt.date(1989, 12, 1)
    found = []
    for pid in range(count):
        values = (
            rng.choice([rng.randint(-3, 115), 0, 110]),
            rng.choice([rng.uniform(-10, 5100), 1000.0, 5000.0, float(rng.randint(0, 100) * 50)]),
            1.0,
            rng.choice("FMX"),
            rng.choice(["Bern", "Genf", "Uri", "elsewhere", "far"]),
            "n",
            day + dt.timedelta(days=rng.randint(0, 1200)),
            start + dt.timedelta(hours=rng.randint(0, 40000)),
            rng.random() < 0.5,
            1,
            rng.randint(1, 4),
            float(rng.randint(-50, 100)) / 4,
            rng.choice(["a", "b", "c"]),
        )
        found.append((pid, *(None if rng.random() < 0.1 else v for v in values)))
    return found


def _statements(rng: random.Random, count: int) -> list[str]:
    pairs = [(rng.choice(KEYS), _condition(rng)) for _ in range(count)]
    return [f"SELECT {key}, count(*) FROM clinic WHERE {where} GROUP BY 1" for key, where in pairs]


def _lost(texts: list[str], rng: random.Random, con: duckdb.DuckDBPyConnection) -> int:
    """How many of the statements have other figures where keys are left out; some must have fewer keys."""
    lost, fewer = 0, 0
    for number, text in enumerate(texts):
        if number % 50 == 0:
            load(con, TABLE, _rows(rng))
        plans = [plan_for(text, TABLE)]
        with pytest.MonkeyPatch.context() as plain:
            plain.setattr(select, "left_by", lambda key, _: key)
            plans.append(plan_for(text, TABLE))
        (few,), (every,) = (p.query.keys for p in plans)
        if few == every:
            continue
        fewer += 1
        found = [{k: c[-1] for k, c in exact_cells(p, exact_rows(p, con)).items() if c[-1]} for p in plans]
        lost += found[0] != found[1]
    assert fewer > len(texts) / 20
    return lost


def test_no_row_is_lost(con: duckdb.DuckDBPyConnection) -> None:
    rng = random.Random(5)
    assert _lost([*_statements(rng, 400), *OF_TWINS], rng, con) == 0


@pytest.mark.slow
def test_no_row_is_lost_in_many(con: duckdb.DuckDBPyConnection) -> None:
    rng = random.Random()
    assert _lost(_statements(rng, 20_000), rng, con) == 0


def _strict(leaves: Callable[..., Any]) -> dict[str, Any]:
    return {**ruled_out._LEAVES, "le": leaves}


def _without_label(key: Key, where: Any) -> Key:
    found = ruled_out.left_by(key, where)
    shown = tuple(v for v in found.domain or () if v != key.other)
    return replace(found, domain=shown, other=None) if found != key and shown else found


def _any_part(where: Any) -> list[Any]:
    if isinstance(where, Call) and row_of(where).family in ("and", "or"):
        return [part for argument in where.arguments for part in _any_part(argument)]
    return [] if where is None else [where]


TWINS: dict[str, tuple[Any, str, Any]] = {
    "what a function makes of values outside a domain": (
        ruled_out,
        "_values",
        lambda c, *told, alone: c.domain or ruled_out_values(c, *told, alone=alone),
    ),
    "the label for other values is left out": (select, "left_by", _without_label),
    "an end that belongs to it is left out": (ruled_out, "_LEAVES", _strict(ruled_out._LEAVES["lt"])),
    "conditions that need not hold": (ruled_out, "conjuncts_of", _any_part),
}
ruled_out_values = ruled_out._values


OF_TWINS = [
    "SELECT sex = 'F', count(*) FROM clinic WHERE sex <> 'M' GROUP BY 1",
    "SELECT town, count(*) FROM clinic WHERE town <> 'Uri' GROUP BY 1",
    *(f"SELECT floor(cost / 500), count(*) FROM clinic WHERE cost <= {n} GROUP BY 1" for n in (1000, 2000, 5000)),
    "SELECT age, count(*) FROM clinic WHERE age > 50 OR cost > 10 GROUP BY 1",
]


@pytest.mark.parametrize("twin", TWINS)
def test_twins_lose_rows(twin: str, con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, instead = TWINS[twin]
    monkeypatch.setattr(where, name, instead)
    assert _lost(OF_TWINS, random.Random(5), con) > 0

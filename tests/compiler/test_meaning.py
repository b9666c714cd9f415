"""A row expression means what DuckDB means by its text: random texts, both ways, on the same rows.

What differs is in ``duckdp.compiler.deviations``, each with its reason, and is recognised here row by row: by DuckDB
raising on the row, or by a NaN among the numbers inside. Anything else is a bug.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import duckdb
import pytest

from duckdp.compiler import numbers
from duckdp.compiler.deviations import DEVIATIONS
from duckdp.compiler.expression import Expr, show
from duckdp.compiler.facts import facts
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.printing import Parameters, print_column, print_expr
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope
from duckdp.compiler.types import exact, type_of
from duckdp.core.types import Neighbours
from duckdp.errors import QueryError
from tests.compiler.rowtexts import TYPES, Text, rows, table
from tests.gate import clinic, column, exact_answer, plan_for
from tests.pages import GUIDE

COUNT = 60  # rows


@pytest.fixture(scope="module")
def both() -> Iterator[duckdb.DuckDBPyConnection]:
    """Table r, of every column type."""
    con = duckdb.connect(":memory:")
    con.execute("SET error_on_division_by_zero = false")
    con.execute(f"CREATE TABLE r (i INTEGER, {', '.join(f'{n} {t}' for n, t in TYPES.items())})")
    made = rows(random.Random(5), COUNT)
    con.executemany(f"INSERT INTO r VALUES (?, {', '.join('?' * len(TYPES))})", [[i, *r] for i, r in enumerate(made)])
    yield con
    con.close()


def read(text: str) -> Expr:
    """Our translation."""
    return Scalars(RowScope(table(), None, text).leaf, text)(parse_scalar(text))


def ours(con: duckdb.DuckDBPyConnection, expr: Expr) -> list[object]:
    """Values of our SQL on all rows."""
    parameters = Parameters()
    printed = print_expr(expr, lambda c: print_column(c, parameters, "base"), parameters)
    return [r[0] for r in con.execute(f"SELECT {printed} FROM r AS base ORDER BY i", parameters.values).fetchall()]


def theirs(con: duckdb.DuckDBPyConnection, text: str) -> list[object] | None:
    """DuckDB's values of the text; None where it does not bind."""
    try:
        return [r[0] for r in con.execute(f"SELECT TRY({text}) FROM r ORDER BY i").fetchall()]
    except duckdb.Error:
        return None


def same(a: object, b: object) -> bool:
    """Equal but for the last digits of sums and the type."""
    if isinstance(b, float) and math.isnan(b):
        b = None
    if a is None or b is None:
        return a is None and b is None
    if isinstance(b, (int, float, Decimal)) and isinstance(a, (int, float)) and not isinstance(b, bool):
        return math.isclose(float(a), float(b), rel_tol=2e-6, abs_tol=1e-9)
    return _moment(a) == _moment(b)


def _moment(a: object) -> object:
    return dt.datetime.combine(a, dt.time()) if type(a) is dt.date else a


def excused(con: duckdb.DuckDBPyConnection, text: str, parts: list[str], row: int) -> bool:
    """Whether DuckDB raises on a row, or has NaN among its numbers: documented deviations."""
    for part in [text, *parts]:
        try:
            found = con.execute(f"SELECT {part} FROM r WHERE i = {row}").fetchall()
        except duckdb.Error:
            return True
        if isinstance(found[0][0], float) and math.isnan(found[0][0]):
            return True
    return False


def compare(con: duckdb.DuckDBPyConnection, rng: random.Random, depth: int) -> str | None:
    """One random text: a description of its first difference, or "": none; None: not comparable."""
    made = Text(rng)
    text = rng.choice([made.number, made.number, made.boolean, made.text, made.moment])(depth)
    try:
        expr = read(text)
    except QueryError:
        return None
    wanted = theirs(con, text)
    if wanted is None:
        return None
    found = ours(con, expr)
    if not all(same(a, b) for a, b in zip(found, wanted, strict=True)):
        found = ours(con, exact(expr))  # FLOATs are added up as DOUBLE where nothing looks at their last digits
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if not same(a, b) and not excused(con, text, made.parts, i):
            return f"{text}: {a!r}, DuckDB {b!r} on {con.execute(f'SELECT * FROM r WHERE i = {i}').fetchall()}"
    return ""


def check(con: duckdb.DuckDBPyConnection, seed: int, tries: int) -> None:
    """Compare many."""
    rng = random.Random(seed)
    found = [compare(con, rng, rng.choice([1, 2, 2, 3, 4])) for _ in range(tries)]
    different = [f for f in found if f]
    assert not different, f"{len(different)} differ:\n" + "\n".join(sorted(different, key=len)[:10])
    assert sum(f == "" for f in found) > tries // 2


def test_random_texts_mean_what_duckdb_means(both: duckdb.DuckDBPyConnection) -> None:
    check(both, 1, 1500)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_random_texts_mean_what_duckdb_means(seed: int, both: duckdb.DuckDBPyConnection) -> None:
    check(both, seed, 10_000)


def turned(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether dividing by whole numbers rounded to 0 gives an infinity of the other sign than DuckDB's."""
    texts = [f"k / CAST(round({n}, -{d}) AS DOUBLE)" for n in ("s", "a", "b") for d in (2, 4)]
    return any(not same(a, b) for t in texts for a, b in zip(ours(con, read(t)), theirs(con, t) or [], strict=True))


def test_whole_numbers_rounded_to_0_have_no_sign(
    both: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not turned(both)
    monkeypatch.setattr(numbers, "_without_minus_zero", lambda expr: expr)  # the twin
    assert turned(both)


# ---- types of remainders: a DECIMAL where DuckDB has one that holds both numbers, else a DOUBLE --------------------

WIDTHS = {
    "i8": "TINYINT",
    "i16": "SMALLINT",
    "i32": "INTEGER",
    "i64": "BIGINT",
    "i128": "HUGEINT",
    "u8": "UTINYINT",
    "u16": "USMALLINT",
    "u32": "UINTEGER",
    "m": "DECIMAL(9,2)",
    "n": "DECIMAL(15,3)",
    "z": "DECIMAL(5,0)",
}


def _of_widths(rng: random.Random, depth: int) -> str:
    """A random number of some width."""
    if depth == 0:
        return rng.choice([*WIDTHS, *WIDTHS, "1", "3000000000", "0.1", "1.50", "-2.5"])
    x, y = _of_widths(rng, depth - 1), _of_widths(rng, depth - 1)
    return rng.choice(
        [
            f"({x} {rng.choice('+-*%')} {y})",
            f"({x} {rng.choice('+-*%')} {y})",
            f"({x} // {y})",
            f"coalesce({x}, {y})",
            f"{rng.choice(['abs', '-', 'round', 'trunc', 'floor', 'sign'])}({x})",
            f"round({x}, {rng.choice([1, 2, 0, -1])})",
            f"CAST({x} AS {rng.choice(['TINYINT', 'INTEGER', 'BIGINT', 'HUGEINT'])})",
        ]
    )


def test_remainders_are_of_the_type_that_duckdb_says() -> None:
    declared = clinic(
        name="r",
        relation=("memory", "main", "r"),
        unit_key=None,
        columns=tuple(column(n, t) for n, t in WIDTHS.items()),
    )
    rng, met = random.Random(7), set()
    with duckdb.connect(":memory:") as con:
        con.execute(f"CREATE TABLE r ({', '.join(f'{n} {t}' for n, t in WIDTHS.items())})")
        con.execute("INSERT INTO r (i8) VALUES (1)")
        for _ in range(300):
            text = f"{_of_widths(rng, rng.choice([0, 0, 1, 2]))} % {_of_widths(rng, rng.choice([0, 0, 1, 2]))}"
            found = con.execute(f"SELECT typeof({text}) FROM r").fetchone()
            assert found is not None
            base = found[0].partition("(")[0]
            ours = type_of(Scalars(RowScope(declared, None, text).leaf, text)(parse_scalar(text))).name
            assert ours == (base if base in ("DECIMAL", "DOUBLE") else "INTEGER"), (text, found[0])
            met.add(ours)
    assert met == {"INTEGER", "DECIMAL", "DOUBLE"}


# ---- the cases that were found, through aggregates -----------------------------------------------------------------

MENDED = (
    "avg(floor(d) // 2)",
    "avg(round(a, 0) // 2)",
    "avg(a // 2)",
    "avg(a // 2.0)",
    "avg(f // 2)",
    "avg(c // 2)",
    "avg(a::DOUBLE // 2)",
    "avg(floor(d)::INTEGER // 2)",
    "count(*) FILTER (WHERE c + 0.1 = 0.3)",
    "count(*) FILTER (WHERE f = 0.1)",
    "avg(floor(c * 100))",
    "avg(round(c, 1))",
    "avg((c + 0.5)::INTEGER)",
    "avg(0.5::INT)",
    "count(*) FILTER (WHERE c % 0.1 = 0)",
    "avg(round(a, -1))",
    "avg(TRY_CAST(a AS UTINYINT))",
    "count(*) FILTER (WHERE a // q IS NULL)",
    "avg(sign(c3 - 0.029))",
    "count(nullif(f, 0.1))",
)


@pytest.mark.parametrize("text", MENDED)
def test_aggregates_of_typed_numbers(text: str, both: duckdb.DuckDBPyConnection) -> None:
    bounds = {"a": (-40_000, 40_000), "q": (0, 255), "d": (-100.0, 100.0), "f": (-100.0, 100.0), "c": (-1e4, 1e4)}
    bounds |= {"c3": (-1e4, 1e4)}
    columns = tuple(
        replace(c, lower=bounds[c.name][0], upper=bounds[c.name][1]) if c.name in bounds else c for c in table().columns
    )
    plan = plan_for(f"SELECT {text} FROM r", replace(table(), columns=columns, row_cap=100))
    found = exact_answer(plan, both)[0].values[0]
    wanted = both.execute(f"SELECT {text} FROM r").fetchone()
    assert wanted is not None
    assert math.isclose(float(found), float(wanted[0]), rel_tol=1e-6, abs_tol=1e-6), (found, wanted)  # type: ignore[arg-type]


def test_what_is_undefined_is_null_and_joins_no_public_count() -> None:
    plan = plan_for(
        "SELECT avg(least(greatest(tanh(income / income), 0), 1)) FROM clinic",
        clinic(unit_key=None),
        neighbours=Neighbours.REPLACE,
    )
    assert facts(read("tanh(d / d)")).nullable
    assert not facts(read("least(greatest(d / d, 0), 1)")).nullable  # NULLs are skipped, as in DuckDB
    assert [m.fixed_total for m in plan.measures] == [True]
    plan = plan_for(
        "SELECT avg(tanh(income / income)) FROM clinic", clinic(unit_key=None), neighbours=Neighbours.REPLACE
    )
    assert [m.fixed_total for m in plan.measures] == [False]


def test_identities_change_for_mended_texts_only() -> None:
    for text, shown in (
        ("a // 2", "trunc(div(a, 2))"),
        ("d // 2", "div(d, 2)"),
        ("round(d, 2)", "div(round(mul(d, 100)), 100)"),
        ("a::DOUBLE + 0.1", "add(a, 0.1)"),
        ("c * 1.1", "mul(c, 1.1)"),
        ("c = 0.3", "eq_number(c, 0.3)"),
        ("a + 1 > 0.5", "gt_number(add(a, 1), 0.5)"),
        ("a % 7", "mod(a, 7)"),
        ("f * 2 + a", "add(mul(f, 2), a)"),
        ("floor(d) // 2", "div(floor(d), 2)"),
        ("floor(c)", "floor(c)"),
        ("round(a)", "round(a)"),
        ("d / 2 > 1", "gt_number(div(d, 2), 1)"),
        ("a::BIGINT", "a"),
        ("abs(d) + sqrt(abs(d))", "add(abs(d), sqrt(abs(d)))"),
        ("greatest(c, 0) * a", "mul(greatest(c, 0), a)"),
    ):
        assert shown is None or show(read(text)) == shown, text
    assert "defined" in show(read("d / d"))


def test_deviations_are_documented() -> None:
    text = " ".join(GUIDE.read_text().split())
    for deviation in DEVIATIONS:
        assert " ".join(deviation.what.split()) in text, deviation.what

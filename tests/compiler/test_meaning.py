"""A row expression means what DuckDB means by its text: random texts, both ways, on the same rows.

What differs is in ``duckdp.compiler.deviations``, each with its reason, and is recognised here row by row: by DuckDB
raising on the row, or by a NaN among the numbers inside. Anything else is a bug.
"""

from __future__ import annotations

import datetime as dt
import math
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import product

import duckdb
import pytest

from duckdp.catalog.table import Kind
from duckdp.compiler import case_nodes, numbers, scalars
from duckdp.compiler.deviations import DEVIATIONS
from duckdp.compiler.expression import Expr, Literal, show
from duckdp.compiler.facts import facts
from duckdp.compiler.operators import OPERATORS, Operator
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.printing import Parameters, print_column, print_expr
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope
from duckdp.compiler.types import exact, literal_type, type_of
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


def ours(con: duckdb.DuckDBPyConnection, expr: Expr, table: str = "r") -> list[object]:
    """Values of our SQL on all rows."""
    parameters = Parameters()
    printed = print_expr(expr, lambda c: print_column(c, parameters, "base"), parameters)
    return [
        r[0]
        for r in con.execute(
            f"SELECT {printed} FROM {table} AS base ORDER BY {1 if table != 'r' else 'i'}", parameters.values
        ).fetchall()
    ]


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
    """Whether DuckDB raises on a row, has NaN among its numbers, or rounds NULL to 0: documented deviations."""
    for part in [text, *parts]:
        try:
            found = con.execute(f"SELECT {part} FROM r WHERE i = {row}").fetchall()[0][0]
        except duckdb.Error:
            return True
        if (isinstance(found, float) and math.isnan(found)) or _rounds_null(con, part, row):
            return True
    return False


def _rounds_null(con: duckdb.DuckDBPyConnection, part: str, row: int) -> bool:
    """Whether DuckDB rounds NULL to 0: it does among other rows, and gives NULL for the row alone."""
    inner = re.fullmatch(r"round\((.*), -\d+\)", part)
    if inner is None:
        return False
    found = con.execute(f"SELECT TRY({part}), TRY({inner[1]}) FROM r ORDER BY i").fetchall()[row]
    return found[0] == 0 and found[1] is None


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


SIGNED = (
    *(f"k / CAST(round({n}, -{d}) AS DOUBLE)" for n in ("s", "a", "b") for d in (2, 4)),
    "k / CAST((100 // a) AS DOUBLE)",
    "k / coalesce(CAST((0 // b) AS FLOAT) * 2e0, e)",
    "k / (CASE WHEN t THEN s // h ELSE e END)",
    "atan2(e, s // h)",
    "atan2(0 // s, -1)",
    "atan2(c3 * 10, ceil(c))",
    "power(s // h, -1)",
    "k / greatest(0 * f, -1)",
    "k / least(f % c, round(b, -2))",
)


def differ(con: duckdb.DuckDBPyConnection, text: str) -> bool:
    """Whether a text has another value than DuckDB's on some row."""
    return any(not same(a, b) for a, b in zip(ours(con, read(text)), theirs(con, text) or [None] * COUNT, strict=True))


def test_whole_numbers_and_decimals_have_no_minus_zero(
    both: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [t for t in SIGNED if differ(both, t)] == []
    with monkeypatch.context() as patched:  # the twins: one looks at no sign, one forgets what was cast
        patched.setattr(scalars, "without_minus_zero", lambda expr: expr)
        assert len([t for t in SIGNED if differ(both, t)]) >= len(SIGNED) - 2
    monkeypatch.setattr(numbers, "cast_type", lambda _, target: target)
    assert [t for t in SIGNED if "AS DOUBLE" in t] == [t for t in SIGNED if differ(both, t)]


def test_every_operator_that_tells_minus_zero_says_so() -> None:
    """``signed`` names exactly the arguments at which DuckDB has another value for -0 than for 0."""
    others = ("2e0", "-1e0", "0e0")
    with duckdb.connect(":memory:") as con:
        con.execute("SET error_on_division_by_zero = false")
        for row in OPERATORS.values():
            if row.gives is not Kind.NUMBER or set(row.takes) != {Kind.NUMBER}:
                continue
            options = ("", "2", "INTEGER")
            for place in range(len(row.takes)):
                given = [list(g) for g in product(others, repeat=len(row.takes) - 1)]
                calls = [([*g[:place], "0e0", *g[place:]], [*g[:place], "-0e0", *g[place:]]) for g in given]
                told = any(_apart(con, row, *call, option) for call in calls for option in options)
                args = [Literal(x, Kind.NUMBER) for x in (2, -1, *[0] * len(row.takes))][: len(row.takes)]
                assert told == (place in row.signed(args)), (row.name, place)


def _apart(con: duckdb.DuckDBPyConnection, row: Operator, plus: list[str], minus: list[str], option: str) -> bool:
    try:
        printed = [row.sql([f"({a}::DOUBLE)" for a in args], option) for args in (plus, minus)]
        found = [con.execute(f"SELECT TRY({p})").fetchall()[0][0] for p in printed]
    except (duckdb.Error, ValueError, KeyError, IndexError):
        return False
    return found[0] != found[1] and not any(isinstance(f, float) and math.isnan(f) for f in found)


WIDE = (
    "coalesce(c0 * h, 0.5)",
    "greatest(c0 * h, c3, -0.5)",
    "CASE WHEN t THEN c3 ELSE c * h END",
    "if(t, c3, c0 * h)",
    "ifnull(c0 * h, c3) * 10",
    "least(c3, c0 * h) // 1",
    "coalesce(c, h, c3)",
    "coalesce(c3, h * c0, h)",
    "CASE WHEN t THEN c * h WHEN u THEN h ELSE c3 END",
    "CASE WHEN t THEN h WHEN u THEN c3 ELSE c0 * h END",
    "CASE WHEN t THEN c0 * 1000000000000000000000000.0 WHEN u THEN h ELSE c3 * 1.00000000000000000 END",
)


TINY = f"0.{'0' * 35}25"  # 38 digits, with the zero in front


def test_wide_literals_have_duckdbs_types(both: duckdb.DuckDBPyConnection) -> None:
    for text in (
        TINY,
        TINY[1:],
        f"0.{'1' * 36}",
        f".{'1' * 38}",
        f"{'1' * 37}.5",
        f"0{'9' * 36}.5",
        "00.5",
        ".5",
        "5.",
    ):
        found = both.execute(f"SELECT typeof({text})").fetchone()
        own = literal_type(text)
        assert found is not None
        assert found[0] in (own.name, f"DECIMAL({own.scale + own.digits},{own.scale})"), (text, found, own)
    for text in (
        f"greatest(coalesce(c0 * h, {TINY}), 123.5)",
        f"coalesce(c, c0 * h, {TINY})",
        f"coalesce(c0 * h, 0{TINY})",
    ):
        assert not differ(both, text), text


def test_the_chosen_of_many_decimals_keeps_numbers_of_few(both: duckdb.DuckDBPyConnection) -> None:
    """Where a type has more decimals than DOUBLE has digits, rounding would change what it need not."""
    both.execute("CREATE OR REPLACE TEMP TABLE w AS SELECT 1::DECIMAL(38, 37) AS w37, 0.015::DECIMAL(15, 3) AS c3")
    wide = clinic(columns=(column("w37", "DECIMAL(38,37)"), column("c3", "DECIMAL(15,3)")))
    for text in ("coalesce(w37, c3) = 1", "floor(coalesce(w37, c3)) = 1", "coalesce(c3, w37) = 0.015"):
        expr = Scalars(RowScope(wide, None, text).leaf, text)(parse_scalar(text))
        (found,) = ours(both, expr, "w")
        assert found is True and both.execute(f"SELECT {text} FROM w").fetchone() == (True,), text


def test_no_number_leaves_a_domain_by_its_last_digit(both: duckdb.DuckDBPyConnection) -> None:
    """A FLOAT of 0.7 is less than 0.7: what a comparison reads is checked too, and never NaN."""
    for text in ("floor(sqrt(greatest(f, 0.7) - 0.7e0))", "sqrt(greatest(f, 0.7) - 0.7e0) > 0"):
        with pytest.raises(QueryError, match="Q402"):
            read(text)
    read("floor(sqrt(greatest(f, 0.7) - 0.6e0))")
    columns = tuple(replace(c, lower=-100.0, upper=100.0) if c.name == "f" else c for c in table().columns)
    bounded = replace(table(), columns=columns)  # else every quotient of it is guarded as one of infinities
    for text in (
        "floor((f - f) / (greatest(f, 0.7) - 0.7e0 + 1e-9))",
        "floor((f - f) / (greatest(f, 0.7) - 0.69999999))",  # a FLOAT, which is rounded around the quotient
        "floor((f * 0) / (greatest(f, 0.7) - 0.69999999))",
        "floor((f - f) % (greatest(f, 0.7) - 0.69999999))",
        "floor(ln(greatest(f, 0.7)))",
    ):
        expr = Scalars(RowScope(bounded, None, text).leaf, text)(parse_scalar(text))
        assert not any(isinstance(v, float) and math.isnan(v) for v in ours(both, exact(expr))), text


def test_null_has_duckdbs_types(both: duckdb.DuckDBPyConnection) -> None:
    """``round(NULL)`` is a BIGINT; arithmetic of a DECIMAL and NULL has no type, and none to meet in."""
    cast = ("coalesce(a, CAST(NULL AS DOUBLE)) // 2", "CASE WHEN t THEN a ELSE CAST(NULL AS DOUBLE) END // 2")
    assert [t for t in (*cast, "coalesce(a, c + CAST(NULL AS DOUBLE)) // 2") if differ(both, t)] == []
    texts = ("CASE WHEN t THEN round(NULL) ELSE a END // b", "coalesce(-NULL, s) // 2", "coalesce(floor(NULL), s) // 2")
    wide = ("coalesce(c3, ((0.1 + h) % NULL))", "coalesce(c3, c0 * h * NULL)", "coalesce(c3, (c0 * h) - NULL)")
    assert [t for t in (*texts, *wide) if differ(both, t)] == []


def test_rounding_null_to_tens_is_the_deviation_that_is_documented(both: duckdb.DuckDBPyConnection) -> None:
    assert differ(both, "round(c0, -6)")
    assert not differ(both, "round(c0, -5)")


def test_the_chosen_of_wide_decimals_is_rounded_as_duckdb_does(
    both: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [t for t in WIDE if differ(both, t)] == []
    for module in (case_nodes, scalars):
        monkeypatch.setattr(module, "chosen", lambda values, _: values)  # the twin
    assert len([t for t in WIDE if differ(both, t)]) >= len(WIDE) - 3


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

"""No emitted expression ever raises, whatever the rows: a failure would be an answer that nobody paid for.

Also the facts that the compiler derives hold: bounds, whole numbers, and what can never be NULL.
"""

from __future__ import annotations

import datetime as dt
import math
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import duckdb
import pytest

from duckdp.catalog.table import Kind
from duckdp.compiler.emit import _row_terms, emit, key_codes, read_cells
from duckdp.compiler.expression import Call, ColumnRef, Expr, Literal, walk
from duckdp.compiler.facts import facts
from duckdp.compiler.measures import sum_range
from duckdp.compiler.nodes import PART_NAMES
from duckdp.compiler.operators import OPERATORS, UNITS
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.printing import Parameters, print_column, print_expr
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope
from duckdp.core.calendar import PERIODS
from duckdp.errors import DuckDPError
from tests.gate import clinic, column, exact_answer, exact_rows, load, plan_for

NUMBERS = [
    "NULL",
    "0",
    "-0.0",
    "1",
    "-1",
    "0.5",
    "-0.5",
    "2.5",
    "1e-300",
    "5e-324",
    "1e15",
    "9007199254740993",
    "1e18",
    "-1e19",
    "1e100",
    "1.7976931348623157e308",
    "-1.7976931348623157e308",
    "'nan'",
    "'inf'",
    "'-inf'",
]
TEXTS = [
    None,
    "",
    " ",
    "a",
    "A",
    "%",
    "_",
    "\\",
    "'",
    '"',
    "\n",
    "\t\x01\x7f",
    "é",
    "e\u0301",
    "ß",
    "İ",
    "\u200d",
    "𝔘",
    "\ufeff",
    "\u202e",
    "a" * 300,
    "é" * 300,
    "👩‍👩‍👧" * 80,
    "%_" * 128,
    ".*(",
    "\uffff",
    *("1", "-1e3", " 0x1F ", "1e400", "-inf", "nan", "300", "9" * 40, "1_000", "infinity", "1.5", "-0"),
    *("2020-02-30", "2020-02-29", "44-03-15 (BC)", "10000-01-01", "9999-12-31 23:59:59.999999", "0001-01-01", "epoch"),
]
DATES = [
    "NULL",
    "'0001-01-01'",
    "'1582-10-10'",
    "'1970-01-01'",
    "'2020-02-29'",
    "'2020-12-31'",
    "'2021-01-01'",
    "'9999-12-31'",
    "'5877642-06-25 (BC)'",
    "'5881580-07-10'",
    "'infinity'",
    "'-infinity'",
]
TIMES = [
    "NULL",
    "'0001-01-01 00:00:00'",
    "'1970-01-01 23:59:59.999999'",
    "'2020-02-29 12:30:00'",
    "'infinity'",
    "'-infinity'",
    "'290309-12-22 (BC) 00:00:00'",
    "'294247-01-10 04:00:54.775806'",
]
TYPES = {
    Kind.NUMBER: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}
PATTERNS = ["", "%", "_", "a%", "%a_%", "\\", "%_%a%_%", "[a", "é_", "(%", "^$", "'", "x" * 64]
OPTIONS = {
    "read_integer": ["TINYINT", "INTEGER", "UBIGINT", "HUGEINT"],
    "units": ["0", "2", "6"],
    "to_integer": ["TINYINT", "BIGINT", "UINTEGER", "HUGEINT"],
}
SLICES = OPTIONS | {
    "text_decimal": ["38,0", "38,2", "2,2", "38,15"],
    "left": ["0", "1", "256"],
    "right": ["0", "3", "256"],
    "substring": ["0,1", "1,0", "5,256", "256,256", "0,0"],
    "split_part": ["1", "3", "16"],
    "lpad": ["0", "1", "256"],
    "rpad": ["0", "7", "256"],
    "bucket_date": ["5 months", "12000 months", "20160 minutes", "527040000 minutes"],
    "bucket_timestamp": ["5 months", "12000 months", "7 minutes", "527040000 minutes"],
    "strftime_date": ["%Y-%m", "%A %d.%B %y", "%V/%G %j"],
    "strftime_timestamp": ["%Y-%m-%dT%H:%M", "%a %b %I %p", "%w%u"],
}
EXPRESSIONS = ["", "a", "^I[0-9]{2}", "(a|b)*c", "(.*)(.*)(.*)x", "[^%]+$", "\\\\", "é|ß", "(?i)A"]
SHIFTS = ["12,0,0", "-1,0,0", "0,30,0", "0,-400,0", "0,0,3600000000"]
BOUNDS = [(None, None), (0.0, 100.0), (-5.0, 5.0), (2.0, 3.0), (0.0, 1e-3), (-1e100, 1e100)]


@pytest.fixture(scope="module")
def nasty() -> Iterator[duckdb.DuckDBPyConnection]:
    """Tables n, t, b, d, s of extreme values of each kind, in columns x, y, z of all pairs (z: x shifted)."""
    con = duckdb.connect(":memory:")
    values = {
        "number": [f"CAST({v} AS DOUBLE)" for v in NUMBERS],
        "boolean": ["NULL", "TRUE", "FALSE"],
        "date": [f"CAST({v} AS DATE)" for v in DATES],
        "timestamp": [f"CAST({v} AS TIMESTAMP)" for v in TIMES],
    }
    for kind in Kind:
        con.execute(f"CREATE TABLE {kind.value}_one (i INTEGER, x {TYPES[kind]})")
        if kind is Kind.TEXT:
            con.executemany("INSERT INTO text_one VALUES (?, ?)", list(enumerate(TEXTS)))
        else:
            for i, value in enumerate(values[kind.value]):
                con.execute(f"INSERT INTO {kind.value}_one VALUES ({i}, {value})")
        con.execute(
            f"CREATE TABLE {kind.value} AS SELECT a.x AS x, b.x AS y, c.x AS z FROM {kind.value}_one a, "
            f"{kind.value}_one b, {kind.value}_one c WHERE c.i = (a.i * 7 + b.i * 3) % "
            f"(SELECT count(*) FROM {kind.value}_one)"
        )
    yield con
    con.close()


def _calls(name: str) -> Iterator[tuple[Expr, Kind]]:
    """Calls of an operator on columns of its kind, for all options and several declared bounds."""
    operator = OPERATORS[name]
    kind = operator.takes[0]
    count = len(operator.takes) + (2 if operator.variadic else 0)
    for lower, upper in BOUNDS if kind is Kind.NUMBER else [(None, None)]:
        args: list[Expr] = [
            ColumnRef(column(n, TYPES[kind], lower=lower, upper=upper)) for n in ("x", "y", "z")[:count]
        ]
        if operator.domain is not None:
            low, high = max(operator.domain.lower, -1e308), min(operator.domain.upper, 1e308)
            clamped = Call("greatest", (args[0], Literal(low, Kind.NUMBER)), Kind.NUMBER)
            if operator.domain.upper < math.inf:
                clamped = Call("least", (clamped, Literal(high, Kind.NUMBER)), Kind.NUMBER)
            args[0] = clamped
        gives = operator.gives or kind
        if name in ("like", "ilike", "starts_with", "ends_with", "contains"):
            meant = OPERATORS["ilike"].pattern
            assert meant is not None
            for pattern in PATTERNS:
                constant = Literal(meant(pattern)[1] if "like" in name else pattern, Kind.TEXT)
                yield Call(name, (args[0], constant), gives), kind
        elif name in ("regexp_matches", "regexp_full_match"):
            for pattern, flags in product(EXPRESSIONS, ["", "i"]):
                yield Call(name, (args[0], Literal(pattern, Kind.TEXT)), gives, flags), kind
        elif name == "regexp_replace":
            for pattern, new, flags in product(EXPRESSIONS, ["", "é\\0\\0", "\\\\x"], ["", "i"]):
                constants = Literal(pattern, Kind.TEXT), Literal(new, Kind.TEXT)
                yield Call(name, (args[0], *constants), gives, flags), kind
        elif name == "regexp_extract":
            for pattern, group in product(EXPRESSIONS, ["0", "1", "9"]):
                yield Call(name, (args[0], Literal(pattern, Kind.TEXT)), gives, group), kind
        elif name in ("lpad", "rpad"):
            for filling, size in product(["x", "éa"], SLICES[name]):
                yield Call(name, (args[0], Literal(filling, Kind.TEXT)), gives, size), kind
        elif name == "shifted":  # of columns with bounds alone
            known = column("x", "TIMESTAMP", lower=dt.datetime(1800, 1, 31), upper=dt.datetime(2200, 2, 29 - 1))
            for option in SHIFTS:
                yield Call(name, (ColumnRef(known),), gives, option), kind
        elif name in SLICES:
            for option in SLICES[name]:
                yield Call(name, tuple(args), gives, option), kind
        elif name.startswith(("trunc_", "date_diff", "date_sub")):
            for unit in UNITS if name.startswith("trunc_") else PERIODS:
                if not (unit in ("hour", "minute") and name == "trunc_date"):
                    yield Call(name, tuple(args), gives, unit), kind
        else:
            yield Call(name, tuple(args), gives), kind
            if name == "power":
                for exponent in (0.0, 0.5, 2.0, 3.0, -1.0, -2.5, 1e6):
                    yield Call(name, (args[0], Literal(exponent, Kind.NUMBER)), gives), kind


def _run(con: duckdb.DuckDBPyConnection, expr: Expr, kind: Kind) -> list[object]:
    parameters = Parameters()
    printed = print_expr(expr, lambda c: print_column(c, parameters, "base"), parameters)
    return [r[0] for r in con.execute(f"SELECT {printed} FROM {kind.value} AS base", parameters.values).fetchall()]


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_operator_is_total_and_its_facts_hold(name: str, nasty: duckdb.DuckDBPyConnection) -> None:
    for call, kind in _calls(name):
        found = facts(call)
        for value in _run(nasty, call, kind):
            if value is None:
                assert found.nullable, call
            elif call.kind is Kind.NUMBER and not math.isnan(value):  # type: ignore[arg-type]
                assert isinstance(value, float)
                assert found.interval.lower <= value <= found.interval.upper, (call, value)
                assert not found.integral or math.isinf(value) or value.is_integer(), (call, value)


def test_no_regular_expression_fails_on_a_text(nasty: duckdb.DuckDBPyConnection) -> None:
    """Some match a byte, or a place within a character: a text that is cut there is an error for what it holds."""
    table, done, refused = clinic(), 0, set()
    for sign, form in product(map(chr, range(33, 127)), ("\\{}", "(a|\\{})")):
        quoted = form.format(sign).replace("'", "''")
        for text in (f"regexp_extract(name, '{quoted}', 1)", f"regexp_replace(name, '{quoted}', '<\\0')"):
            try:
                expr = Scalars(RowScope(table, None, text).leaf, text)(parse_scalar(text))
            except DuckDPError:
                refused.add(sign)
                continue
            parameters = Parameters()
            printed = print_expr(expr, lambda c: print_column(c, parameters, "base"), parameters)  # noqa: B023
            nasty.execute(
                f"SELECT {printed} FROM (SELECT x AS name FROM text_one) AS base", parameters.values
            ).fetchall()
            done += 1
    assert done > 150
    assert {"C", "B"} < refused
    for pattern in ("\\C", "\\B"):  # the broken twin
        with pytest.raises(duckdb.InvalidInputException):
            nasty.execute("SELECT regexp_replace(x, $1, 'a') FROM text_one", [pattern]).fetchall()


@pytest.mark.parametrize("kind", list(Kind))
def test_columns_are_read_totally_by_every_declaration(kind: Kind, nasty: duckdb.DuckDBPyConnection) -> None:
    plain = column("x", TYPES[kind])
    variants = [plain]
    if kind is Kind.NUMBER:
        variants += [
            replace(plain, lower=-1.0, upper=7.5),
            replace(plain, lower=0, upper=1, null_value=0.5, nullable=False),
        ]
    if kind is Kind.DATE:
        variants += [replace(plain, lower=dt.date(2000, 1, 1), upper=dt.date(2001, 1, 1))]
    if kind is Kind.TEXT:
        variants += [replace(plain, null_value="?", nullable=False)]
    for declared in variants:
        for value in _run(nasty, ColumnRef(declared), kind):
            if value is None:
                assert declared.nullable
            elif kind is Kind.TEXT:
                assert len(str(value)) <= 256
            elif declared.lower is not None:
                assert declared.lower <= value <= declared.upper  # type: ignore[operator]


def test_integers_and_decimals_of_every_width_are_read(con: duckdb.DuckDBPyConnection) -> None:
    for kind, values in {
        "TINYINT": (-128, 127),
        "UBIGINT": (0, 2**64 - 1),
        "HUGEINT": (-(2**127) + 1, 2**127 - 1),
        "UHUGEINT": (0, 2**128 - 1),
        "DECIMAL(38,0)": (-(10**38) + 1, 10**38 - 1),
        "DECIMAL(38,38)": ("0.9", "-0.9"),
        "FLOAT": ("'inf'", "'-inf'", "'nan'"),
    }.items():
        for value in (*values, "NULL"):
            parameters = Parameters()
            for bounds in ({}, {"lower": -1, "upper": 5}):
                shown = print_column(column("x", kind, **bounds), parameters, "base")
                con.execute(f"SELECT {shown} FROM (SELECT CAST({value} AS {kind}) AS x) AS base").fetchall()


def test_wildcards_cost_no_more_than_length(con: duckdb.DuckDBPyConnection) -> None:
    """DuckDB's own LIKE takes seconds for one such row, a clock that tells whether the row is there."""
    table = load(con, clinic(), [(1, *[None] * 5, "a" * 256, *[None] * 6)])
    for sign, pattern in product(("LIKE", "ILIKE"), ("%a_%a_%a_%a_%a_%a_%b", "%a%a%a%a%a%a%a%a%b", "%_" * 31 + "b")):
        plan = plan_for(f"SELECT count(*) FROM clinic WHERE name {sign} '{pattern}'", table)
        query = emit(plan, 1)
        started = time.process_time()  # not the wall's clock: others may hold the machine
        [sums] = con.execute(query.sql, list(query.parameters)).fetchall()
        assert read_cells(plan, sums) == [0]
        assert time.process_time() - started < 1


# ---- whole statements ---------------------------------------------------------------------------------------------

NUMBER_LEAVES = (
    "age",
    "cost",
    "score",
    "visits",
    "income",
    "1",
    "0",
    "-3.5",
    "1e300",
    "length(name)",
    "year(born)",
    "date_diff('day', born, DATE '1991-02-03')",
    "CAST(smoker AS INTEGER)",
)
CONDITIONS = (
    "smoker",
    "age > 30",
    "score <> score",
    "name LIKE 'a%'",
    "name ILIKE '%_b'",
    "sex = 'F'",
    "born IS NULL",
    "seen < TIMESTAMP '2020-01-01'",
    "town IN ('Bern', 'x')",
    "income BETWEEN 0 AND 3",
    "NULL",
    "NOT smoker",
    "cost IS DISTINCT FROM score",
    "isodow(born) = 1",
    "level = 2",
)
KEYS = (
    "sex",
    "town",
    "level",
    "smoker",
    "floor(age / 10) * 10",
    "age % 7",
    "year(born)",
    "date_trunc('month', born)",
    "name",
    "visits",
    "floor(tanh(score - score))",
    "floor(score * 0)",
    "floor(score)",
    "sign(score)",
    "born",
    "CASE WHEN score > 5 THEN 'hi' WHEN score < 0 THEN 'lo' END",
    "seen",
    "left(name, 2)",
    "week(seen)",
    "-age",
    "coalesce(town, 'x')",
    "round(cost / 1000)",
    "age - age",
    "CAST(age AS DOUBLE) * 3 + 1",
    "smoker IS NULL",
)


def _number(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(NUMBER_LEAVES)
    a, b = _number(rng, depth - 1), _number(rng, depth - 1)
    return rng.choice(
        [
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {b})",
            f"({a} / {b})",
            f"({a} % {b})",
            f"abs({a})",
            f"floor({a})",
            f"sqrt(abs({a}))",
            f"ln(greatest({a}, 1))",
            f"exp({a})",
            f"power({a}, 2)",
            f"power({a}, {b})",
            f"-({a})",
            f"round({a}, 1)",
            f"CASE WHEN {rng.choice(CONDITIONS)} THEN {a} ELSE {b} END",
            f"greatest({a}, {b})",
            f"least({a}, {b})",
            f"coalesce({a}, {b})",
            f"nullif({a}, {b})",
            f"sin(greatest(least({a}, 9), -9))",
            f"({a} // {b})",
            f"CAST({a} AS BIGINT)",
            f"tanh({a})",
            f"log10(greatest({a}, 0.5))",
        ]
    )


def _statement(rng: random.Random) -> str:
    items = []
    for _ in range(rng.randint(1, 3)):
        inner = f"least(greatest({_number(rng, 3)}, -50), 1000)"
        function = rng.choice(["sum", "avg", "var_samp", "stddev_pop", "count"])
        tail = f" FILTER (WHERE {rng.choice(CONDITIONS)})" if rng.random() < 0.3 else ""
        items.append(rng.choice([f"{function}({inner}){tail}", "count(*)" + tail, "count(DISTINCT pid)" + tail]))
    keys = rng.sample(KEYS, rng.choice([0, 1, 1, 2]))
    where = f" WHERE {rng.choice(CONDITIONS)} OR {_number(rng, 2)} > 1" if rng.random() < 0.4 else ""
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(items + keys)} FROM clinic{where}{group}"


def nasty_rows(rng: random.Random, count: int) -> list[tuple[object, ...]]:
    """Rows of extreme values for tests.gate.clinic."""
    inf, nan = math.inf, math.nan
    numbers = [0.0, -0.0, 1.5, -3.0, 1e308, -1e308, inf, -inf, nan, None, 5e-324, 7.0]
    dates = [None, dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1991, 12, 30), dt.date(1992, 2, 29)]
    times = [None, dt.datetime(1, 1, 1), dt.datetime(2020, 12, 31, 23, 59, 59, 999999), dt.datetime(9999, 12, 31)]
    return [
        (
            rng.choice([1, 2, 3, 4, 5, None]),
            rng.choice([None, 0, 30, 31, 110, 2**31 - 1, -(2**31)]),
            rng.choice(numbers),
            rng.choice(numbers),
            rng.choice(["F", "M", "X", None]),
            rng.choice(["Bern", "Uri", "Rom", "", None]),
            rng.choice(TEXTS),
            rng.choice(dates),
            rng.choice(times),
            rng.choice([True, False, None]),
            rng.choice([None, 0, 1, -5, 2**31 - 1]),
            rng.choice([None, 1, 2, 9]),
            rng.choice(numbers),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("unit_key", ["pid", None])
def test_random_statements_never_raise_and_never_cross_more_rows(
    unit_key: str | None, con: duckdb.DuckDBPyConnection
) -> None:
    rng = random.Random(11)
    table = load(con, clinic(unit_key=unit_key), nasty_rows(rng, 150))
    accepted = 0
    for _ in range(150):
        text = _statement(rng)
        try:
            plan = plan_for(text.replace("count(DISTINCT pid)", "count(*)") if unit_key is None else text, table)
        except DuckDPError:
            continue
        accepted += 1
        query = emit(plan, 5)
        rows = con.execute(query.sql, list(query.parameters)).fetchall()
        if plan.domain_size is not None:
            assert len(rows) <= plan.domain_size, text
            width = len(plan.query.keys)
            domain = set(product(*map(key_codes, plan.query.keys)))
            assert {r[:width] for r in rows} <= domain, text
        for row in rows:
            assert all(v is None or type(v) is int for v in row[len(plan.query.keys) :]), text
    assert accepted > 100


@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_no_number_is_nan_and_its_facts_hold(seed: int, con: duckdb.DuckDBPyConnection) -> None:
    """An expression that may be undefined says that it may be NULL: else a NULL would join a public count."""
    rng = random.Random(seed)
    table = load(con, clinic(unit_key=None), nasty_rows(rng, 300))
    made = undefined = 0
    for _ in range(400 if seed == 3 else 10_000):
        text = _number(rng, rng.choice([1, 2, 3]))
        try:
            expr = Scalars(RowScope(table, None, text).leaf, text)(parse_scalar(text))
        except DuckDPError:
            continue
        made, found, parameters = made + 1, facts(expr), Parameters()
        undefined += any(isinstance(e, Call) and e.operator == "defined" for e in walk(expr))
        printed = print_expr(expr, lambda c: print_column(c, parameters, "base"), parameters)  # noqa: B023
        for (value,) in con.execute(f"SELECT {printed} FROM memory.main.clinic AS base", parameters.values).fetchall():
            if value is None:
                assert found.nullable, text
                continue
            assert not math.isnan(value), text
            assert found.interval.lower <= value <= found.interval.upper, (text, value)
            assert not found.integral or math.isinf(value) or float(value).is_integer(), (text, value)
            assert not found.finite or math.isfinite(value), (text, value)
    assert made > 250
    assert undefined > 20


def test_open_keys_that_no_whole_number_shows_do_not_cross(con: duckdb.DuckDBPyConnection) -> None:
    """Whether the answer can be shown must not depend on a row: not for an infinity, not for 1e308."""
    con.execute("CREATE OR REPLACE TABLE memory.main.clinic (pid INTEGER, score DOUBLE)")
    con.execute(f"INSERT INTO memory.main.clinic SELECT i, unnest([{', '.join(NUMBERS)}]) FROM range(3) AS r(i)")
    table = clinic(columns=(column("score", "DOUBLE"),), max_groups=len(NUMBERS))
    for key in ("floor(score)", "floor(score * 1e10)", "ceil(-score)"):
        plan = plan_for(f"SELECT {key}, count(*) FROM clinic GROUP BY 1", table)
        keys = [row[0] for row in exact_rows(plan, con)]
        assert len(keys) > 3
        assert all(k is None or abs(k) < 2**63 for k in keys), key
        assert all(k is None or isinstance(k, int) for k in exact_answer(plan, con)[0].values)


def test_part_names_have_operators() -> None:
    assert all(f"{name}_timestamp" in OPERATORS for name in PART_NAMES.values())
    assert all(f"{name}_date" in OPERATORS for word, name in PART_NAMES.items() if word != name)


def test_what_a_row_adds_is_in_its_range_for_every_double(con: duckdb.DuckDBPyConnection) -> None:
    """The last clamp before a sum: noise covers a row's range, whatever reached it."""
    con.execute(f"CREATE TABLE v AS SELECT unnest([{', '.join(f'CAST({x} AS DOUBLE)' for x in NUMBERS)}]) AS v0")
    con.execute("INSERT INTO v SELECT unnest([1e0 + 2e-16, -5e-324, 1.5e0, -0.25e0, 12345.5e0])")
    con.execute("INSERT INTO v SELECT 1 - power(2, -k / 8) FROM range(8, 408) AS r(k)")  # where rounding adds up to 1
    for text in ("avg(cost)", "variance(cost)", "sum(cost)", "sum(income)", "sum(age)", "sum(cost - 4000)"):
        plan = plan_for(f"SELECT {text} FROM clinic", clinic())
        (measure,) = plan.measures
        terms = _row_terms(0, measure)
        rows = con.execute(f"SELECT v0, {', '.join(terms)} FROM v").fetchall()
        assert len(rows) == len(NUMBERS) + 405
        for value, *added in rows:
            if measure.kind == "sum":
                low, high = sum_range(measure)
                assert (value is None) == (added[0] is None)
                assert added[0] is None or low <= added[0] <= high
            else:
                assert all(0 <= a <= measure.largest for a in added)
                assert sum(added) <= measure.largest


def test_texts_are_compared_byte_by_byte_whatever_the_owners_collation(con: duckdb.DuckDBPyConnection) -> None:
    """Else 'A' and 'a' would be one group, a predicate would match what it does not name, and a domain hold both."""
    con.execute("CREATE TABLE t (name VARCHAR COLLATE NOCASE)")
    con.execute("INSERT INTO t VALUES ('A'), ('a'), ('\u00e4'), ('\u00c4'), ('a')")
    parameters = Parameters()
    value = print_column(column("name", "VARCHAR"), parameters, "t")
    rows = f"(SELECT {value} AS name FROM t)"
    counts = con.execute(f"SELECT name, count(*) FROM {rows} GROUP BY name ORDER BY name", parameters.values).fetchall()
    assert counts == [("A", 1), ("a", 2), ("\u00c4", 1), ("\u00e4", 1)]
    found = con.execute(f"SELECT count(*) FROM {rows} WHERE name = 'a'", parameters.values).fetchone()
    assert found == (2,)
    assert con.execute("SELECT count(*) FROM t WHERE name = 'a'").fetchone() == (3,)  # the column by itself

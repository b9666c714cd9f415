"""No text of an analyst is parsed for long: bounds on its tokens, and a search for texts that get past them."""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from duckdp.compiler import parse, tokens
from duckdp.compiler.parse import parse_scalar, parse_statement
from duckdp.errors import DuckDPError, QueryError
from tests.pages import PAGES

DIALECT = Dialect.get_or_raise("duckdb")
# Steps for each character by the bounds alone, in a short search; the count ends all at STEPS (and MORE_STEPS).
BOUNDED = 5.0 * tokens.STEPS
# No accepted text takes more than 50 ms for each KB where an ordinary one takes 4: told as a ratio, on any machine.
MOST_TIMES = 12
ORDINARY = "SELECT " + ", ".join(["sum(least(greatest(cost, 0), 100)) FILTER (WHERE age > 40 AND sex = 'F')"] * 14)
TYPES = (
    "DATE",
    "TIMESTAMP",
    "TIME",
    "INTERVAL",
    "DECIMAL",
    "VARCHAR",
    "ARRAY",
    "MAP",
    "STRUCT",
    "ROW",
    "UNION",
    "ENUM",
    "LIST",
    "JSON",
    "NULLABLE",
    "INT",
    "DOUBLE",
    "TEXT",
    "UUID",
    "BIT",
    "BLOB",
    "RANGE",
    "OBJECT",
    "VARIANT",
    "NULL",
    "REF",
    "FIXEDSTRING",
    "AGGREGATEFUNCTION",
    "TIMESTAMPTZ",
    "VECTOR",
    "GEOMETRY",
    "UNKNOWN",
    "PSEUDO_TYPE",
)
#: Pairs to wrap what stands between; every way to nest that the grammar has.
PAIRS = (
    ("(", ")"),
    ("[", "]"),
    ("{'a': ", "}"),
    ("MAP {", "}"),
    ("abs(", ")"),
    ("f((", "))"),
    ("x.f(", ")"),
    ("x[", "]"),
    ("CASE WHEN ", " THEN 1 END"),
    ("CASE x WHEN 1 THEN ", " ELSE 2 END"),
    ("CAST(", " AS INT)"),
    ("CAST(1 AS ", ")"),
    ("TRY_CAST(", " AS DATE)"),
    ("1::", ""),
    ("(SELECT ", ")"),
    ("EXISTS (SELECT ", ")"),
    ("x IN (", ")"),
    ("NOT ", ""),
    ("- ", ""),
    ("~ ", ""),
    ("INTERVAL (", ") DAY"),
    ("INTERVAL ", " DAY"),
    ("EXTRACT(year FROM ", ")"),
    ("(x, ", ")"),
    ("sum(x) OVER (ORDER BY ", ")"),
    ("sum(x) OVER (PARTITION BY ", " ROWS 1 PRECEDING)"),
    ("sum(", ") FILTER (WHERE x)"),
    ("f(lambda x: ", ")"),
    ("f(x -> ", ")"),
    ("f((x, y) -> ", ")"),
    ("[", " FOR x IN y]"),
    ("x BETWEEN ", " AND 1"),
    ("(VALUES (", "))"),
    ("(FROM ", ")"),
    ("FROM (", ")"),
    ("(", ") AS t(a)"),
    ("(", " JOIN t ON true)"),
    ("(", ").a"),
    ("STRUCT(a ", ")"),
    ("STRUCT<a ", ">"),
    ("ARRAY<", ">"),
    ("UNION(a ", ")"),
    ("COLUMNS(", ")"),
    ("* EXCLUDE (", ")"),
    ("* REPLACE (", " AS x)"),
    ("WITH t AS (SELECT ", ") SELECT 1"),
    ("TRIM(BOTH FROM ", ")"),
    ("SUBSTRING(", " FROM 1)"),
    ("POSITION(x IN ", ")"),
    ("(PIVOT t ON ", " USING sum(x))"),
    ("GROUPING SETS ((", "))"),
    ("ROLLUP (", ")"),
    ("string_agg(x, ',' ORDER BY ", ")"),
    ("x IS DISTINCT FROM ", ""),
    ("{fn f(", ")}"),
    ("/* ", " */"),
    ('"', '"'),
    ("'", "'"),
    ('1::"', '"'),
    ('CAST(1 AS "', '")'),
    ("x ->> '$.", "'"),
    ("$$", "$$"),
    ("(", ")::DECIMAL(1)"),
    ("LATERAL (", ")"),
    ("unnest(", ")"),
    ("x LIKE ", " ESCAPE 'a'"),
    (
        "(",
        ", ",
    ),
    ("x.", ""),
    ("? ", ""),
    ("TABLE(", ")"),
    ("CREATE TABLE t (a ", ")"),
    ("EXPLAIN ", ""),
    ("QUALIFY ", ""),
    ("DISTINCT ON (", ")"),
    ("ALTER TABLE t ADD a ", ""),
    *((f"{t} (", ")") for t in TYPES),
    *((f"{t}[", "]") for t in TYPES),
    *((f"({t} ", ")") for t in TYPES),
    *((f"({t} ", ").a") for t in TYPES),
    *((f"{t} ", "") for t in TYPES),
    *((f"{t} '", "'") for t in TYPES[:8]),
)
WORDS = (
    "x",
    "y.z",
    "1",
    "1.5e3",
    "'a'",
    "'1 day'",
    "*",
    ",",
    "+",
    "-",
    "||",
    "=",
    "<",
    ">",
    "<=",
    "AND",
    "OR",
    "->",
    "->>",
    "::",
    ":",
    ":=",
    "=>",
    ".",
    "AS",
    "IS NULL",
    "IN",
    "LIKE",
    "AT TIME ZONE",
    "COLLATE",
    "WITH TIME ZONE",
    "UNSIGNED",
    "PRECISION",
    "ORDER BY",
    "GROUP BY ALL",
    "LIMIT",
    "FROM",
    "WHERE",
    "UNION ALL",
    "SELECT",
    "JOIN",
    "USING",
    "ON",
    "ASOF",
    "PIVOT",
    "FOR",
    "TABLESAMPLE",
    "$1",
    "?",
    "$a",
    "#1",
    "@",
    "!",
    "%",
    "//",
    "**",
    "^",
    "&",
    "~~",
    "IGNORE NULLS",
    "WITHIN GROUP",
    "OVER w",
    "WINDOW w AS",
    "INSERT INTO",
    "VALUES",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "'",
    '"',
    ";",
    "/*",
    "*/",
    "--",
    "\n",
    *TYPES,
)


def steps_per_character(text: str) -> float | None:
    """The parser's steps for each character beyond the fixed allowance; None where the bounds refuse the text."""
    try:
        found = parse._numbered(tokens.read_tokens(text))
    except (QueryError, SqlglotError):
        return None
    parser: Any = tokens._parser_class()(dialect=DIALECT)
    parser.steps = most = 60 * len(text) + 20_000
    parse._quiet.on = True
    try:
        parser.parse(found, text)
    except tokens.TooManyStepsError:
        return 1000.0
    except Exception:  # noqa: BLE001 - any end is an end
        return max(0, most - parser.steps) / max(len(text), 1)
    finally:
        parse._quiet.on = False
    return max(0, most - parser.steps) / max(len(text), 1)


def wrapped(rng: random.Random) -> str:
    """Pairs in pairs, repeated."""
    text = rng.choice(WORDS)
    for _ in range(rng.randint(1, 3)):
        period = [rng.choice(PAIRS) for _ in range(rng.randint(1, 3))]
        times = rng.choice((1, 2, 3, 5, 8, 14))
        text = "".join(p[0] for p in period) * times + text + "".join(p[1] for p in reversed(period)) * times
        if rng.random() < 0.3:
            text = f"{text} {rng.choice(WORDS)} " * rng.randint(1, 4)
    return text


def changed(rng: random.Random, text: str) -> str:
    """A text with a word more, a piece less, a piece twice, or a pair around a piece."""
    pieces = re.findall(r"\w+|\s+|[^\w\s]", text) or ["x"]
    i, j = sorted(rng.randrange(len(pieces) + 1) for _ in range(2))
    match rng.randrange(5):
        case 0:
            pieces.insert(i, f" {rng.choice(WORDS)} ")
        case 1:
            del pieces[i:j]
        case 2:
            pieces[i:j] = pieces[i:j] * rng.randint(2, 4)
        case 3:
            before, after = rng.choice(PAIRS)
            times = rng.randint(1, 4)
            pieces[i:j] = [before * times, *pieces[i:j], after * times]
        case _:
            pieces[i:j] = [rng.choice(WORDS)]
    return "".join(pieces)[:2000]


def search(seed: int, starts: int, climbs: int) -> Iterator[tuple[float, str]]:
    """Hill climbing from random texts to the most steps for each character."""
    rng = random.Random(seed)
    for _ in range(starts):
        text = "SELECT " * (rng.random() < 0.8) + wrapped(rng)
        best = steps_per_character(text) or 0.0
        for _ in range(climbs):
            other = changed(rng, text)
            found = steps_per_character(other)
            if found is not None and found >= best:
                best, text = found, other
        yield best, text


def test_the_search_finds_what_the_bounds_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken twin: without the bounds on types, texts of some 100 characters take dozens of steps for each."""
    monkeypatch.setattr(tokens, "MAX_TYPED", 60)
    assert max(found for found, _ in search(1, 600, 0)) > 2 * BOUNDED


def test_no_accepted_text_takes_many_steps() -> None:
    worst = sorted(search(2, 60, 12))[-3:]
    assert worst[-1][0] < BOUNDED, worst


@pytest.mark.slow
def test_the_count_ends_all_that_a_long_search_finds() -> None:
    """What passes the bounds and yet takes many steps is ended by the count, which nothing in the parser catches."""
    for seed in range(2):
        worst = sorted(search(100 + seed, 200, 120))[-5:]
        for _, text in worst:
            parser: Any = tokens._parser_class()(dialect=DIALECT)
            parser.steps = most = tokens.MORE_STEPS + tokens.STEPS * len(text)
            with suppress(Exception):
                parser.parse(parse._numbered(tokens.read_tokens(text)), text)
            assert most - parser.steps <= most + 1, text
            with suppress(QueryError):
                parse._parse_one(text)
        print("{:.2f} steps for each character by the bounds alone: {!r}".format(*worst[-1]))


def seconds(text: str, times_asked: int = 1) -> float:
    """Processor time of a text from its tokens to its tree or refusal, for each KB; the least of so many."""
    times = []
    for _ in range(times_asked):
        start = time.thread_time()
        with suppress(DuckDPError):
            parse._parse_one(text)
        times.append(time.thread_time() - start)
    return min(times) / max(len(text), 1024) * 1024


@pytest.mark.slow
def test_no_accepted_text_takes_long() -> None:
    """The worst by time: the climb's objective is the clock, on texts of about 1 KB (shorter ones are repeated).

    The worst that were met are measured again, each in turn with an ordinary text.
    """
    rng, met = random.Random(7), []
    for _ in range(200):
        text, best = "SELECT " + wrapped(rng), 0.0
        for _ in range(25):
            other = changed(rng, text)
            whole = f"SELECT {', '.join([other] * max(1, 1024 // max(len(other), 1)))}"
            spent = seconds(whole)
            if spent >= best:
                best, text = spent, other
                met.append((spent, whole))
    worst = max((min(seconds(t, 5) / seconds(ORDINARY, 5) for _ in range(3)), t) for _, t in sorted(met)[-20:])
    print(f"{worst[0]:.1f} times an ordinary text: {worst[1][:300]!r}")
    assert worst[0] < MOST_TIMES, worst


REFUSED = {
    "arrays": "SELECT " + "ARRAY[" * 9 + "1" + "]" * 9,
    "decimals": "SELECT " + "DECIMAL(" * 9 + "1" + ")" * 9,
    "dates": "SELECT " + "(DATE " * 9 + "x" + ")" * 9,
    "fields": "SELECT " + "(TIMESTAMP " * 9 + "x" + ").a" * 9,
    "rows": "SELECT " + "ROW(" * 9 + "1" + ")" * 9,
    "structs": "SELECT " + "STRUCT(" * 9 + "1" + ")" * 9,
    "quoted type": 'SELECT 1::"' + "DECIMAL(" * 9 + "1" + ")" * 9 + '"',
    "quoted type in a quoted type": 'SELECT 1::"DECIMAL(""' + "DECIMAL(" * 9 + "1" + ")" * 9 + '"")"',
    "quoted type of parts": 'SELECT 1::"DECIMAL(DECIMAL(DECIMAL(a".b."c+DECIMAL(DECIMAL(1)))))"',
    "vector": "SELECT VECTOR('" + "DECIMAL(" * 9 + "1" + ")" * 9 + "', 2)",
    "tables from the front": "SELECT " + "(FROM x, " * 9 + "1" + ")" * 9,
    "types in a row": "SELECT " + "DATE " * 30 + "x",
    "digits of an interval": "SELECT INTERVAL '" + "1" * 60_000 + "'",
    "spaces of an interval": "SELECT INTERVAL '" + " " * 60_000 + "'",
    "brackets": "SELECT " + "(" * 65 + "1" + ")" * 65,
    "tokens": "SELECT 1" + ", 1" * 10_001,
    "unclosed": "SELECT " + "ARRAY[" * 10_000,
    "closed too often": "SELECT 1" + ")" * 100 + "ARRAY[" * 9,
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("read", [parse_statement, parse_scalar])
def test_what_would_take_long_is_refused_before_it_is_parsed(
    what: str, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("it was parsed")

    monkeypatch.setattr(parse, "parse_tokens", never)
    with pytest.raises(QueryError) as caught:
        read(REFUSED[what])
    assert caught.value.code in ("Q104", "Q101")
    assert len(str(caught.value)) < 300


def test_the_count_of_steps_ends_what_the_bounds_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "check_tokens", lambda _: None)
    with pytest.raises(QueryError) as caught:
        parse_statement("SELECT " + "ARRAY[" * 30 + "1" + "]" * 30)
    assert caught.value.code == "Q104"


def test_a_compiled_parser_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Compiled:  # lets classes be made of it, and no instance of them
        def __init__(self, dialect: object, max_nodes: int) -> None:
            if type(self) not in (Compiled, Sooner):
                raise TypeError("interpreted classes cannot inherit from compiled")

        def parse(self, *_: object) -> list[object]:
            return []

    class Sooner(Compiled):  # not even classes
        def __init_subclass__(cls) -> None:
            raise TypeError("interpreted classes cannot inherit from compiled")

    try:
        for compiled in (Compiled, Sooner):
            tokens._parser_class.cache_clear()
            monkeypatch.setattr(tokens, "_PARSER", compiled)
            assert tokens.parse_tokens([], "") == []
    finally:
        tokens._parser_class.cache_clear()


ACCEPTED = (
    "SELECT count(*) FROM t WHERE x IN (" + ", ".join(map(str, range(1000))) + ")",
    "SELECT count(*) FROM t WHERE name IN (" + ", ".join(f"'name {i}'" for i in range(1000)) + ")",
    "SELECT " + "(" * 30 + "1" + ")" * 30,
    "SELECT sum(" + "abs(" * 30 + "x" + ")" * 30 + ")",
    "SELECT " + "CASE WHEN x THEN 1 ELSE " * 40 + "0" + " END" * 40,
    "SELECT " + " + ".join(f"x{i}" for i in range(140)),
    "SELECT ARRAY[ARRAY[ARRAY[1]]], MAP([1], [MAP([2], [ARRAY[3]])]), [[[[[[1]]]]]]",
    "CREATE TABLE t (a STRUCT(b STRUCT(c DECIMAL(9, 2)[])[], d MAP(VARCHAR, INTEGER[])), e TIMESTAMP WITH TIME ZONE)",
    "SELECT CAST(CAST(CAST(x AS DECIMAL(18, 3)) AS DECIMAL(9, 2)) AS VARCHAR), x::DECIMAL(3, 1)::INTEGER[]",
    "SELECT " + ", ".join(f"DATE '2020-01-{i:02}', INTERVAL '{i} days', INTERVAL {i} DAY" for i in range(1, 29)),
    "SELECT sum(CASE WHEN date_part('year', CAST(ts AS DATE)) = 2020 THEN CAST(v AS DECIMAL(12, 2)) ELSE 0 END) FROM t",
    "SELECT date(timestamp(date(x))), time(x), text(x), range(1, 2), list(x), json(x), uuid() FROM t",
    'SELECT 1 AS "sum(abs(round((((a + b) * c)))))", "count(*)", "cast(a as decimal(18,2))" FROM t',
    "((SELECT 1) UNION (SELECT 2 UNION (SELECT 3))) EXCEPT (SELECT 4)",
    "INSERT INTO t VALUES " + ", ".join(f"({i}, 'a', DATE '2020-01-01', NULL)" for i in range(1500)),
    "SELECT x -- a comment\n, /* another ((((((((( */ y FROM t",
)


@pytest.mark.parametrize("text", ACCEPTED, ids=range(len(ACCEPTED)))
def test_what_is_in_use_passes(text: str) -> None:
    assert parse_statement(text) is not None
    found = steps_per_character(text)
    assert found is not None
    assert found < tokens.STEPS / 2


def statements_in_use() -> list[str]:
    """Every statement of the documentation, the fixtures and the examples."""
    root = Path(__file__).parents[2]
    texts = [
        p.read_text() for p in sorted((root / "tests" / "fixtures" / "sql").glob("*.sql")) if "reject" not in p.name
    ]
    found = [s for text in texts for s in re.split(r"\n\s*\n", re.sub(r"(?m)^#.*$|^--.*$", "", text)) if s.strip()]
    for path in (*PAGES, *sorted((root / "examples").glob("*.py"))):
        found += re.findall(r'"((?:SELECT|FROM)[^"]+)"', path.read_text())
    return found


def test_statements_in_use_stay_far_from_the_bounds() -> None:
    found = statements_in_use()
    assert len(found) > 60
    for text in found:
        try:
            read = tokens.read_tokens(text)
        except SqlglotError:
            continue
        assert read is not None
        assert (steps_per_character(text) or 0.0) < tokens.STEPS / 2, text


def test_steps_grow_with_the_text() -> None:
    """Twice the text, at most about twice the steps: no part of the parser is quadratic in what it goes back over."""
    for before, after in PAIRS:
        sizes = [f"SELECT {', '.join([f'{before}1{after}'] * n)}" for n in (15, 30)]
        counts = [(steps_per_character(s) or 0.0) * len(s) for s in sizes]
        assert all(b <= 2.5 * a + 200 for a, b in pairwise(counts)), before


REPEATED = (
    "[1]",
    ".a[1]",
    "[f(1)]",
    "[1:2]",
    "[1:2:3]",
    "[a + 1]",
    "::INT",
    "::INT[]",
    ".a",
    " + a",
    " || a",
    " AND a",
    " IS NULL",
    " IN (1)",
    " BETWEEN 1 AND 2",
    " LIKE 'a' ESCAPE 'b'",
    " COLLATE c",
    " AT TIME ZONE 'u'",
    "->'a'",
    " // 2",
    " OVER ()",
    " FILTER (WHERE a)",
    ", a",
    ", a AS b",
    ", f(x -> x)",
    ", [x for x in a]",
    ", {'a': 1}",
    ", CASE WHEN a THEN 1 END",
    ", INTERVAL 1 DAY",
    ", DATE '2020-01-01'",
    ", (SELECT 1)",
    " UNION SELECT a",
    " FROM a JOIN b ON c",
    " ORDER BY a",
)
STARTS = ("SELECT a", "SELECT f(" + "a, " * 100 + "a)", "SELECT (" + "a + " * 60 + "a)", "SELECT * FROM a WHERE b")


def calls_of_parsing(text: str) -> int:
    """How many functions are called, whether they count as steps or not."""
    found = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        with suppress(DuckDPError):
            parse._parse_one(text)
    finally:
        sys.setprofile(None)
    return found


def grows_with_its_length(repeated: str) -> bool:
    """Whether a further piece costs the same, however much stands before it: a start, or 60 other pieces."""
    few, many = 10, 60
    least = max(calls_of_parsing(STARTS[0] + repeated * (2 * few)) - calls_of_parsing(STARTS[0] + repeated * few), 400)
    for start in STARTS:
        for times in (few, many):
            more = calls_of_parsing(start + repeated * (times + few)) - calls_of_parsing(start + repeated * times)
            if more > 3 * least:
                return False
    return True


@pytest.mark.parametrize("end", [")", "]", "END"])
def test_few_functions_are_called_by_a_dot_after_a_value(end: str) -> None:
    value = {")": "f(a)", "]": "a[1]", "END": "CASE WHEN a THEN b END"}[end]
    parse_statement(f"SELECT {value}" + ".f(1)" * 20)
    for text in (f"SELECT {value}" + ".f(1)" * 4000, "SELECT f(" + "a," * 9000 + f"a), {value}.f().g()"):
        with pytest.raises(QueryError, match="Q104"):
            parse_statement(text)
    parse_statement("SELECT " + ", ".join(["system.main.f(a)"] * 500))


@pytest.mark.parametrize("opening", ["f(x -> ", "f((x, y) -> ", "f(lambda x: "])
def test_few_lambdas_stand_in_each_other(opening: str) -> None:
    parse_statement(f"SELECT {opening * 8}x{')' * 8}")
    parse_statement("SELECT " + ", ".join([f"{opening}x + 1)"] * 500))  # beside each other: each looks at itself
    with pytest.raises(QueryError, match="Q104"):
        parse_statement(f"SELECT {opening * 30}g({'x, ' * 8000}x){')' * 30}")


@pytest.mark.parametrize("repeated", REPEATED)
def test_a_piece_costs_the_same_wherever_it_stands(repeated: str) -> None:
    assert grows_with_its_length(repeated)


def test_twin_that_counts_subscripts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens._DIALECT, "INDEX_OFFSET", 1)
    assert not grows_with_its_length("[1]")

"""Refusals speak the user's words: every function of DuckDB by its own name, and what they offer instead works."""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from duckdp.catalog.table import Table
from duckdp.compiler import spelling, ways
from duckdp.compiler.aggregates import OFFERED
from duckdp.compiler.block_expression import read_block_expression
from duckdp.compiler.nodes import FUNCTION_NAMES
from duckdp.compiler.order_rows import bounded_column
from duckdp.compiler.outer.apart import take_apart
from duckdp.compiler.outer.looked_up import with_single_values
from duckdp.compiler.pair_moments import read_number
from duckdp.compiler.parse import parse_scalar, parse_statement
from duckdp.compiler.scope import read_linear, read_predicate
from duckdp.errors import QueryError
from tests.compiler.test_links import USUAL as LINKED
from tests.gate import clinic, plan_for
from tests.relational import plan_of, tables

TABLE = clinic(unit_key=None)
KEYED = clinic()
ARGUMENTS = {
    "dayname": "born",
    "monthname": "born",
    "make_date": "2025, 1, 31",
    "width_bucket": "age, 0, 100, 10",
    "time_bucket": "INTERVAL '2 weeks', born",
    "atan": "age / 100",
    "coalesce": "age, 0",
    "concat": "name, 'a'",
    "contains": "name, 'a'",
    "date_sub": "'day', born, born",
    "instr": "name, 'a'",
    "ltrim": "name",
    "regexp_matches": "name, '^a'",
    "replace": "name, 'a', 'b'",
    "ascii": "name",
    "atan2": "age, 1",
    "era": "born",
    "lpad": "name, 5, 'x'",
    "microsecond": "seen",
    "millennium": "born",
    "millisecond": "seen",
    "regexp_extract": "name, '^(a)', 1",
    "regexp_full_match": "name, 'a.*'",
    "regexp_replace": "name, 'a', 'b'",
    "rpad": "name, 5, 'x'",
    "strlen": "name",
    "translate": "name, 'a', 'b'",
    "unicode": "name",
    "yearweek": "born",
    "reverse": "name",
    "rtrim": "name",
    "second": "seen",
    "split_part": "name, '.', 1",
    "strftime": "born, '%Y'",
    "strpos": "name, 'a'",
    "date_diff": "'day', born, born",
    "isodow": "born",
    "date_trunc": "'month', born",
    "greatest": "age, 1",
    "hour": "seen",
    "least": "age, 1",
    "left": "name, 2",
    "ln": "age + 1",
    "log": "age + 1",
    "minute": "seen",
    "nullif": "age, 1",
    "power": "age, 2",
    "prefix": "name, 'a'",
    "right": "name, 2",
    "starts_with": "name, 'a'",
    "substring": "name, 1, 2",
    "suffix": "name, 'a'",
    "trim": "name",
    "lower": "name",
    "upper": "name",
    "length": "name",
} | dict.fromkeys(
    (
        "century",
        "day",
        "dayofweek",
        "dayofyear",
        "decade",
        "epoch",
        "isoyear",
        "month",
        "quarter",
        "week",
        "year",
    ),
    "born",
)


def _message(text: str) -> str | None:
    try:
        plan_for(text, TABLE)
    except QueryError as error:
        return str(error)
    return None


@pytest.fixture(scope="module")
def functions() -> list[str]:
    with duckdb.connect() as con:
        rows = con.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN "
            "('scalar', 'aggregate') ORDER BY 1"
        ).fetchall()
    return [name for (name,) in rows if re.fullmatch(r"[a-z][a-z0-9_]*", name)]


def test_every_function_of_duckdb_is_called_by_its_own_name(functions: list[str]) -> None:
    """Whatever arguments it is tried with: the message has the user's word, and no other name of a function for it."""
    wrong, seen = [], 0
    tried = ("name", "age, 1", "born, 'x', 3")
    for number, name in enumerate(functions):
        for alone, arguments in enumerate(tried):
            text = f"SELECT sum({name}({arguments})) FROM clinic"
            if (number + alone) % 2:  # each function both ways, with arguments that differ
                text = f"SELECT {name.upper()}({arguments}) FROM clinic"
            message = _message(text)
            if message is None or not message.startswith(("Q202", "Q206")):
                continue
            seen += 1
            told = message.split(".")[0]
            named = re.search(r"(?:function|aggregate) \"?(\w+)", told)
            if named is not None and named[1] != name:
                wrong.append((text, message[:120]))
    assert seen > 750
    assert wrong == []


@pytest.mark.parametrize(
    ("called", "internal"),
    [
        ("last_day(born)", "lastday"),
        ("any_value(age)", "IGNORENULLS"),
        ("regexp_replace(name, 'a', 'b', 'g')", "regexpreplace"),
        ("list(age)", "array_agg"),
    ],
)
def test_the_reported_names(called: str, internal: str) -> None:
    for text in (f"SELECT {called} FROM clinic", f"SELECT count(*) FROM clinic WHERE {called} = 1"):
        message = _message(text)
        assert message is not None
        assert internal.lower() not in message.lower()
        assert called.split("(")[0] in message or "Q301" in message


def test_a_mistyped_function_gets_a_suggestion() -> None:
    for wrong, right in (("sqr(age)", "sqrt"), ("lenght(name)", "length"), ("datetrunc2('day', born)", "date_trunc")):
        assert f"Did you mean {right}" in str(_message(f"SELECT count(*) FROM clinic WHERE {wrong} = 1"))


@pytest.mark.parametrize("name", FUNCTION_NAMES)
def test_what_is_offered_works(name: str) -> None:
    call = f"{name}({ARGUMENTS.get(name, 'age')})"
    assert _message(f"SELECT count(*) FROM clinic WHERE {call} IS NULL") is None


REFUSED = [
    "SELECT last_day(born) FROM clinic",
    "SELECT median(name) FROM clinic",
    "SELECT any_value(age) FROM clinic",
    "SELECT count(*) FROM clinic JOIN clinic AS b USING (age)",
    "SELECT DISTINCT ON (sex) sex FROM clinic",
    "SELECT sqr(age) FROM clinic",
    "SELECT max(name) FROM clinic",
]


@pytest.mark.parametrize("text", REFUSED)
def test_a_refusal_names_a_way_out(text: str) -> None:
    message = _message(text)
    assert message is not None
    assert re.search(r"\b(Use|Take|Ask|Did you mean|Allowed|Put|Select)\b", message), message


# ---- every refusal of Q2xx ------------------------------------------------------------------------------------------

WAY = re.compile(r"\b(Use|Take|Ask|Did you mean|Allowed|Known|Put|Select|Write|Give|Leave|Name|Apply|Clamp)\b")
N = "SELECT count(*) FROM clinic"
INNER = "SELECT count(*) FROM"
PARAMETERS = (1,)
# refused, what its way out says, and that way taken (None: it is no statement over a protected table alone)
GEOMETRIC = "SELECT exp(avg(ln(greatest(cost, 0.01))) FILTER (WHERE cost > 0)) FROM clinic"
WAYS = [
    ("SELECT regr_count(age) FROM clinic", "regr_count(x, y)", "SELECT regr_count(age, cost) FROM clinic"),
    (f"{N} GROUP BY sex, sex", "Write it once", f"{N} GROUP BY sex"),
    (f"{N} UNION {N}", "Ask one by one", N),
    (f"{N} QUALIFY true", "Of groups: HAVING", "SELECT sex, count(*) AS n FROM clinic GROUP BY sex HAVING n > 1"),
    (f"{N}, clinic AS b", "dp_query(", None),
    (f"{N} JOIN clinic AS b USING (age)", "dp_query(", None),
    ("WITH x AS (SELECT 1 WHERE TRUE) SELECT count(*) FROM clinic", 'Use "clinic"', N),
    ("WITH x AS (DELETE FROM clinic) SELECT count(*) FROM clinic", "dp_query(", None),
    ("WITH RECURSIVE x AS (FROM clinic) FROM x SELECT count(*)", "without itself", f"WITH x AS (FROM clinic) {N}"),
    (f"WITH x AS (FROM clinic), x AS (FROM clinic) {N}", "Name each CTE once", f"WITH x AS (FROM clinic) {N}"),
    (f"{N} AS a, LATERAL (SELECT pid FROM clinic) AS b", "dp_query(", None),
    (f"{N} AS a NATURAL JOIN clinic AS pid", "privacy unit in ON", f"{N} AS a JOIN clinic AS b ON a.pid = b.pid"),
    (f"{N} AS a LEFT JOIN clinic AS pid", "privacy unit in ON", f"{N} AS a LEFT JOIN clinic AS b USING (pid)"),
    (f"{N} JOIN clinic USING (pid)", "x AS b", f"{N} JOIN clinic AS b USING (pid)"),
    (f"{N} AS a JOIN clinic AS pid USING (age)", "USING (pid)", f"{N} AS a JOIN clinic AS b USING (pid)"),
    (
        f"{N} AS a JOIN clinic AS b ON a.age = b.age AND a.pid > 1",
        "ON a.pid = b.pid",
        f"{N} AS a JOIN clinic AS b ON a.pid = b.pid AND a.age = b.age",
    ),
    (
        f"{N} AS a RIGHT JOIN clinic AS b USING (pid, age)",
        "a.x = b.x",
        f"{N} AS a RIGHT JOIN clinic AS b ON a.pid = b.pid AND a.age = b.age",
    ),
    (
        f"{N} AS a WHERE EXISTS (SELECT 1 FROM clinic AS b WHERE a.pid > b.age)",
        "b.pid = a.pid",
        f"{N} AS a WHERE EXISTS (SELECT 1 FROM clinic AS b WHERE b.pid = a.pid AND b.age > a.age)",
    ),
    (
        f"{N} AS a WHERE EXISTS (SELECT count(*) FROM clinic AS b WHERE b.pid = a.pid)",
        "SELECT 1 FROM",
        f"{N} AS a WHERE EXISTS (SELECT 1 FROM clinic AS b WHERE b.pid = a.pid)",
    ),
    (f"{N} WHERE pid IN (SELECT age FROM clinic)", "SELECT pid FROM", f"{N} WHERE pid IN (SELECT pid FROM clinic)"),
    (
        "SELECT avg(age) FROM clinic AS a JOIN clinic AS b USING (pid)",
        "Write a.age or b.age",
        "SELECT avg(a.age) FROM clinic AS a JOIN clinic AS b USING (pid)",
    ),
    (f"WITH x USING KEY (age) AS (FROM clinic) {N}", "dp_query(", None),
    (
        f"{INNER} (SELECT DISTINCT sex FROM clinic GROUP BY pid, sex)",
        "Use GROUP BY",
        f"{INNER} (SELECT pid, sex FROM clinic GROUP BY pid, sex)",
    ),
    (
        f"{INNER} (SELECT any_value(age) AS n FROM clinic GROUP BY pid)",
        "Take count",
        f"{INNER} (SELECT max(age) FROM clinic GROUP BY pid)",
    ),
    (
        f"{INNER} (SELECT mode(age) AS n FROM clinic GROUP BY pid)",
        "Take count",
        f"{INNER} (SELECT max(age) FROM clinic GROUP BY pid)",
    ),
    (f"{INNER} (SELECT rank() OVER () FROM clinic GROUP BY pid)", "windows around it", None),
    (
        f"{INNER} (SELECT abs(1) FILTER (WHERE true) FROM clinic GROUP BY pid)",
        "count(*) FILTER",
        f"{INNER} (SELECT count(*) FILTER (WHERE age > 1) FROM clinic GROUP BY pid)",
    ),
    (
        f"{INNER} (SELECT count(DISTINCT pid) FROM clinic GROUP BY pid)",
        "Take count",
        f"{INNER} (SELECT count(DISTINCT age) FROM clinic GROUP BY pid)",
    ),
    (
        f"{INNER} (SELECT sum(name) FROM clinic GROUP BY pid)",
        "length(x)",
        f"{INNER} (SELECT sum(least(length(name), 9)) FROM clinic GROUP BY pid)",
    ),
    ("SELECT count(*) FROM (FROM clinic LIMIT 3)", "LIMIT 10", f"{N} LIMIT 10"),
    (
        "SELECT count(*) FROM (SELECT age, age FROM clinic)",
        "x AS a",
        "SELECT count(*) FROM (SELECT age, age AS a FROM clinic)",
    ),
    (
        "SELECT count(*) FROM (SELECT age FROM clinic) AS v(a, b)",
        "Use AS",
        "SELECT count(*) FROM (SELECT age AS a FROM clinic)",
    ),
    (
        "SELECT count(*) FROM (SELECT * REPLACE (1 AS age) FROM clinic)",
        "Write the columns",
        "SELECT count(*) FROM (SELECT sex FROM clinic)",
    ),
    (
        "SELECT count(*) FROM (SELECT * EXCLUDE (agee) FROM clinic)",
        "Write one that is",
        "SELECT count(*) FROM (SELECT * EXCLUDE (age) FROM clinic)",
    ),
    ("SELECT count(*) FROM (SELECT v.* FROM clinic)", "Write *", "SELECT count(*) FROM (SELECT * FROM clinic)"),
    ("SELECT DISTINCT count(*) FROM clinic", "GROUP BY", "SELECT sex, count(*) FROM clinic GROUP BY sex"),
    (f"{N} USING SAMPLE 10", "Leave it out", N),
    (f"{N} TABLESAMPLE 10%", "Leave it out", N),
    (f"{N} WINDOW w AS ()", "dp_query(", None),
    ("SELECT count(*)", 'Use "clinic"', N),
    ("SELECT count(*) FROM range(3)", 'Use "clinic"', N),
    ("SELECT count(*) FROM (VALUES (1))", 'Use "clinic"', N),
    ("SELECT count(*) FROM clinicc", "clinic", N),
    ("SELECT count(*) FROM hosp.clinic", 'Write "clinic"', 'SELECT count(*) FROM "clinic"'),
    ("SELECT count(*) FROM hosp.main.clinic", 'Write "clinic"', 'SELECT count(*) FROM "clinic"'),
    ("SELECT avg(n) FROM (SELECT count(*) AS n FROM clinic GROUP BY sex)", "dp_query(", None),
    (f"{N} WHERE EXISTS (SELECT 1 FROM clinic)", "dp_query(", None),
    (f"{N} WHERE age > (SELECT avg(age) FROM clinic)", "as a constant", f"{N} WHERE age > 40"),
    (f"{N} WHERE age IN (SELECT age FROM clinic)", "unit IN (", f"{N} WHERE pid IN (SELECT pid FROM clinic)"),
    (
        f"{N} AS a WHERE age > 3 OR age IN (SELECT age FROM clinic)",
        "(unit, x) IN (SELECT unit, y FROM b)",
        f"{N} AS a WHERE age > 3 OR (pid, age) IN (SELECT pid, age FROM clinic WHERE smoker)",
    ),
    (
        f"{N} AS a JOIN clinic AS c ON a.pid = c.pid AND EXISTS (SELECT 1 FROM clinic AS b WHERE b.pid = a.pid)",
        "in WHERE or in the SELECT of a subquery",
        f"{N} AS a JOIN clinic AS c ON a.pid = c.pid WHERE EXISTS (SELECT 1 FROM clinic AS b WHERE b.pid = a.pid)",
    ),
    (
        f"{N} WHERE (age, age) IN (SELECT pid, max(age) FROM clinic GROUP BY pid)",
        "(pid, x) IN (SELECT pid, y FROM b",
        f"{N} WHERE (pid, age) IN (SELECT pid, max(age) FROM clinic GROUP BY pid)",
    ),
    (
        f"{N} WHERE (pid, age) IN (SELECT pid, age, sex FROM clinic)",
        "Write as many",
        f"{N} WHERE (pid, age) IN (SELECT pid, age FROM clinic)",
    ),
    (f"{N} WHERE age IN UNNEST([1, 2])", "IN (1, 2)", f"{N} WHERE age IN (1, 2)"),
    (f"{N} WHERE age IN (1, visits)", "Use = and OR", f"{N} WHERE age = 1 OR age = visits"),
    ("SELECT row_number() OVER (ORDER BY age) FROM clinic", "dp_query(", None),
    (f"{N} WHERE row_number() OVER () = 1", "dp_query(", None),
    (f"{N} c(a, b)", "own names", "SELECT avg(age) FROM clinic"),
    (f"{N} GROUP BY ROLLUP (sex)", "GROUP BY of its own", f"{N} GROUP BY sex"),
    (f"{N} GROUP BY GROUPING SETS ((sex))", "GROUP BY of its own", f"{N} GROUP BY sex"),
    (f"{N} GROUP BY sex WITH TOTALS", "GROUP BY of its own", f"{N} GROUP BY sex"),
    (f"{N} GROUP BY (sex, smoker)", "GROUP BY a, b", f"{N} GROUP BY sex, smoker"),
    ("SELECT sex, count(*) FROM clinic GROUP BY 3", "one from 1 to 2", "SELECT sex, count(*) FROM clinic GROUP BY 1"),
    (f"{N} ORDER BY 2", "Write 1", f"{N} ORDER BY 1"),
    (
        "SELECT sex, count(*) FROM clinic GROUP BY ALL ORDER BY ALL, 1",
        "ORDER BY 1, 2 DESC",
        "SELECT sex, count(*) FROM clinic GROUP BY ALL ORDER BY 1, 2 DESC",
    ),
    (f"{N} LIMIT 10%", "Write LIMIT 10", f"{N} LIMIT 10"),
    (
        "SELECT lower(name) FROM clinic GROUP BY sex",
        "Put it inside",
        "SELECT sex, count(lower(name)) FROM clinic GROUP BY 1",
    ),
    (
        "SELECT starts_with('ab', 'a') FROM clinic",
        "Use it in an aggregate",
        "SELECT count(*) FILTER (WHERE starts_with('ab', 'a')) FROM clinic",
    ),
    (
        "SELECT round(age) FILTER (WHERE true) FROM clinic",
        "count(*) FILTER",
        "SELECT count(*) FILTER (WHERE age > 3) FROM clinic",
    ),
    ("SELECT median(name) FROM clinic", "Take mode(x)", "SELECT mode(sex) FROM clinic"),
    ("SELECT max(name) FROM clinic", "LIMIT 1", "SELECT name, count(*) FROM clinic GROUP BY 1 ORDER BY 2 DESC LIMIT 1"),
    ("SELECT max(age, 3) FROM clinic", "Write max(x)", "SELECT max(age) FROM clinic"),
    ("SELECT quantile_cont(age, 2) FROM clinic", "quantile_cont(x, 0.5)", "SELECT quantile_cont(age, 0.5) FROM clinic"),
    (
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age, cost) FROM clinic",
        "quantile_cont(x, 0.5)",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age) FROM clinic",
    ),
    ("SELECT any_value(age) FROM clinic", "Take mode(x)", "SELECT median(age) FROM clinic"),
    ("SELECT bool_or(smoker) FROM clinic", "count_if(x)", "SELECT count_if(smoker) FROM clinic"),
    ("SELECT bit_or(age) FROM clinic", "Take count", "SELECT avg(age) FROM clinic"),
    ("SELECT mean(age, 1) FROM clinic", "Write avg(x)", "SELECT avg(age) FROM clinic"),
    (
        "SELECT count(age, cost) FROM clinic",
        "FILTER (WHERE a > 0 AND b > 0)",
        "SELECT count(*) FILTER (WHERE age > 0 AND cost > 0) FROM clinic",
    ),
    ("SELECT avg(name) FROM clinic", "length(x)", "SELECT avg(least(length(name), 20)) FROM clinic"),
    ("SELECT avg(born) FROM clinic", "year(x)", "SELECT avg(year(born)) FROM clinic"),
    (f"{N} WHERE age", "x = 1", f"{N} WHERE age = 1"),
    (f"{N} WHERE name.x = 1", "clinic.x", f"{N} WHERE clinic.age = 1"),
    (f"{N} WHERE a.b.c = 1", "Name a column", f"{N} WHERE age = 1"),
    (f"{N} WHERE agee = 1", '"age"', f"{N} WHERE age = 1"),
    (f"{N} WHERE (age, cost) > (1, 2)", "a > 1 OR (a = 1 AND b > 2)", f"{N} WHERE age > 1 OR (age = 1 AND cost > 2)"),
    (f"{N} WHERE born > born - INTERVAL '1.5 days'", "INTERVAL 30 DAY", f"{N} WHERE born > born - INTERVAL 30 DAY"),
    (
        f"{N} WHERE date_part('month', age(seen, born)) = 1",
        "date_sub('year', y, x)",
        f"{N} WHERE date_sub('year', born, seen) = 1",
    ),
    (f"{N} WHERE born > make_date(2025, 13, 1)", "make_date(2025, 1, 31)", f"{N} WHERE born > make_date(2025, 1, 31)"),
    (f"{N} WHERE born > make_date(age, 1, 1)", "date_trunc('month', x)", f"{N} WHERE date_trunc('month', born) > born"),
    (
        f"{N} WHERE born > DATE '1991-01-01' + 900000000 * INTERVAL 1000 YEAR",
        "INTERVAL 30 DAY",
        f"{N} WHERE born > DATE '1991-01-01' + 9 * INTERVAL 1 YEAR",
    ),
    ("SELECT geomean(cost) FROM clinic", "FILTER (WHERE x > 0)", GEOMETRIC),
    (
        f"{N} WHERE string_split(name, ' ')[2] = 'a'",
        "split_part(x, '-', 2)",
        f"{N} WHERE split_part(name, ' ', 2) = 'a'",
    ),
    (f"{N} WHERE to_char(born, '%Y') = 'a'", "strftime(x", f"{N} WHERE strftime(born, '%Y') = 'a'"),
    ("SELECT count(*)::text FROM clinic", "Use the number itself", N),
    (f"{N} WHERE cost::text = 'a'", "CAST(CAST(x AS INTEGER) AS VARCHAR)", f"{N} WHERE cost::INTEGER::text = 'a'"),
    (f"{N} WHERE seen - born > 3", "epoch(x - y)", f"{N} WHERE epoch(seen - born) > 3"),
    (f"{N} WHERE hour(seen - born) > 3", "date_diff('minute', y, x)", f"{N} WHERE date_diff('minute', born, seen) > 3"),
    (f"{N} WHERE epoch(born - born) > 3", "(x - y) * 86400", f"{N} WHERE (born - born) * 86400 > 3"),
    (f"{N} WHERE date_sub('eon', born, seen) > 3", "microsecond", f"{N} WHERE date_sub('minute', born, seen) > 3"),
    (f"{N} WHERE age + INTERVAL 1 DAY > 3", "INTERVAL 30 DAY", f"{N} WHERE born + INTERVAL 30 DAY > seen"),
    (f"{N} WHERE date_add(born, 3) > born", "INTERVAL 30 DAY", f"{N} WHERE date_add(born, INTERVAL 30 DAY) > born"),
    (f"{N} WHERE age > INTERVAL 1 DAY", "date_diff('day', x, y)", f"{N} WHERE date_diff('day', born, seen) > 1"),
    (f"{N} WHERE strftime(born, name) = 'a'", "Use %Y", f"{N} WHERE strftime(born, '%Y/%m') = '1990/01'"),
    (f"{N} WHERE strftime(age, '%Y') = 'a'", "Write a timestamp", f"{N} WHERE strftime(seen, '%Y') = '1990'"),
    (
        f"{N} WHERE time_bucket(INTERVAL '36 hours', born) = born",
        "INTERVAL '2 weeks'",
        f"{N} WHERE time_bucket(INTERVAL '2 weeks', born) = born",
    ),
    (
        f"{N} WHERE time_bucket(INTERVAL '1 week', born, DATE '2020-01-02') = born",
        "no origin",
        f"{N} WHERE time_bucket(INTERVAL '1 week', born) = born",
    ),
    (f"{N} WHERE age BETWEEN SYMMETRIC 9 AND 1", "the smaller end first", f"{N} WHERE age BETWEEN 1 AND 9"),
    (f"{N} WHERE name SIMILAR TO 'a.*'", "regexp_full_match(", f"{N} WHERE regexp_full_match(name, 'a.*')"),
    (f"{N} WHERE age = ANY([1, 2])", "IN (1, 2)", f"{N} WHERE age IN (1, 2)"),
    (
        f"{N} WHERE time_bucket(INTERVAL '1 week', age) = born",
        "Write a timestamp",
        f"{N} WHERE time_bucket(INTERVAL '1 week', seen) = born",
    ),
    (f"{N} WHERE dayname(age) = 'a'", "Write a timestamp", f"{N} WHERE dayname(seen) = 'Monday'"),
    (f"{N} WHERE replace(name, sex, 'a') = 'b'", "in quotes: 'a'", f"{N} WHERE replace(name, 'a', '') = 'b'"),
    (
        f"{N} WHERE split_part(name, '.', age) = 'b'",
        "split_part(x, '.', 1)",
        f"{N} WHERE split_part(name, '.', 1) = 'b'",
    ),
    (f"{N} WHERE name ~ 'a'", "regexp_matches(x, '^a')", f"{N} WHERE regexp_matches(name, '^a')"),
    (f"{N} WHERE regexp_matches(name, '(')", "'^[A-Z][0-9]{2}'", f"{N} WHERE regexp_matches(name, '^[A-Z][0-9]{{2}}')"),
    (f"{N} WHERE trim(name, 'x') = 'a'", "Write trim(x)", f"{N} WHERE trim(name) = 'a'"),
    (
        f"{N} WHERE width_bucket(age, 9, 0, 3) = 1",
        "width_bucket(x, 0, 100, 10)",
        f"{N} WHERE width_bucket(age, 0, 9, 3) = 1",
    ),
    (f"{N} WHERE log(3, age) > 1", "ln(x) / ln(base)", f"{N} WHERE ln(age + 1) / ln(3) > 1"),
    (f"{N} WHERE round(age, visits) = 1", "round(x, 2)", f"{N} WHERE round(cost, 2) = 1"),
    (f"{N} WHERE atan(age, 1) = 1", "atan(x)", f"{N} WHERE atan(age) = 1"),
    (f"{N} WHERE length(name, 1) = 1", "plain form", f"{N} WHERE length(name) = 1"),
    (f"{N} WHERE seen + 1 > born", "date_diff", f"{N} WHERE date_diff('day', born, seen) > 1"),
    (f"{N} WHERE age = 'a'", "Write a number", f"{N} WHERE age = 1"),
    (f"{N} WHERE town = 'elsewhere'", "GROUP BY town", "SELECT town, count(*) FROM clinic GROUP BY town"),
    (f"{N} WHERE town IN ('Uri', 'elsewhere')", "NOT IN", f"{N} WHERE town NOT IN ('Bern', 'Genf', 'Uri')"),
    (
        f"{N} WHERE 'elsewhere' IS NOT DISTINCT FROM town",
        "GROUP BY town",
        "SELECT town, count(*) FROM clinic GROUP BY town HAVING town = 'elsewhere'",
    ),
    (f"{N} WHERE town LIKE 'elsewhere'", "NOT IN", f"{N} WHERE NOT (town IN ('Bern', 'Genf', 'Uri'))"),
    (
        "SELECT sum(CASE town WHEN 'elsewhere' THEN 1 ELSE 0 END) FROM clinic",
        "GROUP BY town",
        "SELECT town, count(*) FROM clinic GROUP BY town",
    ),
    (
        "SELECT CASE WHEN town = 'elsewhere' THEN 1 END AS k, count(*) FROM clinic GROUP BY k",
        "GROUP BY town",
        "SELECT town = 'elsewhere' AS k, count(*) FROM clinic GROUP BY town",
    ),
    (f"{N} WHERE age = name", "one kind", f"{N} WHERE age = 1"),
    (f"{N} WHERE name LIKE sex", "'a%'", f"{N} WHERE name LIKE 'a%'"),
    (f"{N} WHERE hour(age) = 1", "on such a column", f"{N} WHERE hour(seen) = 1"),
    (f"{N} WHERE born > 'x'", "DATE '2020-01-31'", f"{N} WHERE born > DATE '2020-01-31'"),
    (
        f"{N} WHERE seen > '2020-01-01 00:00:00+00:00'",
        "UTC: TIMESTAMP '2020-01-01 00:00:00'",
        f"{N} WHERE seen > '2020-01-01 00:00:00'",
    ),
    (f"{N} WHERE name = $x", "Use ? or $1", f"{N} WHERE age = $1"),
    (f"{N} WHERE age = $2", "one value for each", f"{N} WHERE age = ?"),
    (f"{N} WHERE CAST(age AS DECIMAL(9, 2)) = 1", "CAST(x AS DOUBLE)", f"{N} WHERE CAST(age AS DOUBLE) = 1"),
    (f"{N} WHERE name::INT = 1", "TRY_CAST(x AS INTEGER)", f"{N} WHERE TRY_CAST(name AS INTEGER) = 1"),
    (f"{N} WHERE smoker::UUID = 'a'", "CASE WHEN x", f"{N} WHERE CASE WHEN smoker THEN 'a' END = 'a'"),
    (f"{N} WHERE left(name, age) = 'a'", "left(x, 2)", f"{N} WHERE left(name, 2) = 'a'"),
    (f"{N} WHERE date_trunc('eon', born) = born", "month", f"{N} WHERE date_trunc('month', born) = born"),
    (f"{N} WHERE date_diff('eon', born, seen) = 1", "month", f"{N} WHERE date_diff('month', born, seen) = 1"),
    (f"{N} WHERE lambdaa(name)", "Allowed are", f"{N} WHERE abs(age) = 1"),
    (f"{N} WHERE age & 1 = 1", "Allowed are", f"{N} WHERE age % 2 = 1"),
    ("SELECT coutn(*) FROM clinic", "Did you mean count?", N),
    (f"{N} WHERE last_day(born) = born", "date_trunc('month', x)", f"{N} WHERE date_trunc('month', born) = born"),
    (
        f"{N} WHERE regexp_replace(name, 'a', 'b', 'g') = 'a'",
        "takes the option 'i' alone",
        f"{N} WHERE regexp_replace(name, 'a', 'b', 'i') = 'a'",
    ),
    (
        f"{N} WHERE regexp_replace(name, 'a', '\\1') = 'a'",
        "names a group",
        f"{N} WHERE regexp_replace(name, '^(a|b)-', '\\1') = 'a'",
    ),
    (
        f"{N} WHERE regexp_extract(name, 'a', 12) = 'a'",
        "the number of a group",
        f"{N} WHERE regexp_extract(name, '^([A-Z]+)', 1) = 'a'",
    ),
    (
        f"{N} WHERE regexp_extract(name, '(\\C)', 1) = 'a'",
        "Write . for one character",
        f"{N} WHERE regexp_extract(name, '^(.)', 1) = 'a'",
    ),
    (f"{N} WHERE lpad(name, 1000, 'a') = 'a'", "lpad(x, 5, '0')", f"{N} WHERE lpad(name, 5, '0') = 'a'"),
    (f"{N} WHERE rpad(name, age, 'a') = 'a'", "rpad(x, 5, '0')", f"{N} WHERE rpad(name, 5, '0') = 'a'"),
]


J = "SELECT count(*) FROM"
W, V = "SELECT count(x) FROM (SELECT", "OVER (PARTITION BY pid ORDER BY day"
U = f"{J} (SELECT day FROM visits UNION ALL SELECT"
# a statement over protected and public tables, its way out, and what it then is
# Single values of public rows that are refused, and how many rows the table has
SINGLE = [
    ("SELECT day FROM days", 9),
    ("SELECT max(day) FROM days", 10**7),
    ("SELECT day, rate FROM days", 9),
    ("SELECT d.day FROM days d WHERE d.day = visits.day", 9),
    ("SELECT day FROM days UNION SELECT 1", 9),
    ("SELECT max(day) FROM days GROUP BY label", 9),
    ("SELECT max(day) FROM days LIMIT 1", 9),
    ("SELECT day FROM days LIMIT 1 + 1", 9),
    ("SELECT day FROM days ORDER BY day WITH FILL", 9),
    ("SELECT stddev(day) FROM days", 9),
    ("SELECT count(DISTINCT (day, rate)) FROM days", 9),
    ("SELECT count(DISTINCT day, rate) FROM days", 9),
    ("SELECT sum(label) FROM days", 9),
    ("SELECT day + max(day) FROM days", 9),
    (" + ".join(["(SELECT max(day) FROM days)"] * 17), 9),
]
PUBLIC_WAYS: list[tuple[str, str, str | None]] = [
    (
        f"{J} visits v JOIN (VALUES ({', '.join(['1'] * 5001)})) r ON v.day = r.col0",
        "publish them as a table",
        None,
    ),
    (
        f"{J} visits v JOIN (VALUES (1 + 1)) r(x) ON v.day = r.x",
        "SELECT over them",
        f"{J} visits v JOIN (SELECT x + 1 AS x FROM (VALUES (1)) w(x)) r ON v.day = r.x",
    ),
    (f"{J} visits v JOIN (VALUES (v.day)) r(x) ON v.day = r.x", "are constants here", None),
    (f"{J} visits v JOIN (VALUES (1, 2)) r(x, x) ON v.day = r.x", "name of its own", None),
    (f"{J} visits v JOIN (VALUES (1), (2, 3)) r ON v.day = r.col0", "as many", None),
    (
        f"{J} days d SEMI JOIN visits v USING (day)",
        "protected table first",
        f"{J} visits v SEMI JOIN days d USING (day)",
    ),
    (
        f"{J} visits v FULL JOIN days d USING (day)",
        "protected table first",
        f"{J} visits v LEFT JOIN days d USING (day)",
    ),
    (
        f"{W} row_number() OVER () AS x FROM visits)",
        "PARTITION BY pid",
        f"{W} rank() OVER (PARTITION BY pid) x FROM visits)",
    ),
    (
        f"{W} sum(day) OVER v AS x FROM visits)",
        "Write one",
        f"{W} sum(day) OVER v AS x FROM visits WINDOW v AS (PARTITION BY pid))",
    ),
    (
        f"{W} sum(day) OVER v AS x FROM visits WINDOW v AS (PARTITION BY pid), v AS (PARTITION BY pid))",
        "Name each window once",
        f"{W} sum(day) OVER v AS x FROM visits WINDOW v AS (PARTITION BY pid))",
    ),
    (
        f"{W} day AS x FROM visits WINDOW v AS (PARTITION BY pid))",
        "Leave it out, or write OVER",
        f"{W} sum(day) OVER v AS x FROM visits WINDOW v AS (PARTITION BY pid))",
    ),
    (
        f"{W} sum(day) OVER (v ORDER BY day) AS x FROM visits WINDOW v AS (PARTITION BY pid ORDER BY cost))",
        "PARTITION BY pid ORDER BY a",
        f"{W} sum(day) OVER (v ORDER BY day) AS x FROM visits WINDOW v AS (PARTITION BY pid))",
    ),
    (
        f"{W} rank(day IGNORE NULLS) {V}) AS x FROM visits)",
        "ROWS BETWEEN",
        f"{W} lag(day IGNORE NULLS) {V}) AS x FROM visits)",
    ),
    (
        f"{W} sum(day) {V}, cost RANGE 1 PRECEDING) AS x FROM visits)",
        "takes one number",
        f"{W} sum(day) {V} RANGE 1 PRECEDING) x FROM visits)",
    ),
    (f'{J} visits WHERE day > 1 OR "__dp_found_1"', "Choose another", f"{J} visits WHERE day > 1"),
    (f"{W} sum(day) {V} ROWS day PRECEDING) AS x FROM visits)", "ROWS", None),
    (f"{W} rank() {V} ROWS 1 PRECEDING) AS x FROM visits)", "ROWS BETWEEN", None),
    (f"{W} rank() OVER (PARTITION BY pid ORDER BY ALL) AS x FROM visits)", "ORDER BY a", None),
    (f"{W} rank(day) {V}) AS x FROM visits)", "Write f(x)", None),
    (f"{W} ntile() {V}) AS x FROM visits)", "Write f(x)", f"{W} ntile(4) {V}) AS x FROM visits)"),
    (f"{W} lag(day, day) {V}) AS x FROM visits)", "Write lag(x, 1)", f"{W} lag(day, 2) {V}) AS x FROM visits)"),
    (f"{W} lag(day, 1, 'a') {V}) AS x FROM visits)", "lag(x, 1, 0)", f"{W} lag(day, 1, 0) {V}) AS x FROM visits)"),
    (f"{W} lag(pid) {V}) AS x FROM visits)", "Select pid itself", None),
    (
        f"{W} last_value(day) {V}) AS x FROM visits)",
        "UNBOUNDED FOLLOWING",
        f"{W} first_value(day) {V} DESC) AS x FROM visits)",
    ),
    (f"{W} count(DISTINCT day) {V}) AS x FROM visits)", "GROUP BY the unit", None),
    (f"{W} day AS x FROM visits QUALIFY x = 1)", "Write WHERE", f"{W} day AS x FROM visits WHERE day = 1)"),
    (
        f"{W} count(*) AS x FROM visits GROUP BY pid QUALIFY x = 1)",
        "windows around it",
        f"{W} lag(n) OVER (PARTITION BY pid) x FROM (SELECT pid, count(*) AS n FROM visits GROUP BY pid, day))",
    ),
    (f"{W} rank() {V}) AS x FROM visits GROUP BY pid)", "windows around it", None),
    (f"{U} day FROM days)", "Aggregate the private rows first", f"{U} day FROM labs)"),
    (f"{U} pid FROM labs)", "Select the unit, or NULL", f"{U} NULL FROM labs)"),
    (f"{U} dept FROM labs)", "Write a number", f"{U} length(dept) FROM labs)"),
    (f"{U} day, ok FROM labs)", "Write as many in each", f"{U} day FROM labs)"),
    (f"{U} day FROM labs LIMIT 3)", "GROUP BY key ORDER BY 2", None),
    (f"{U} day FROM labs ORDER BY level)", "Leave it out", f"{U} day FROM labs ORDER BY day)"),
    (f"{J} (SELECT day FROM visits UNION ALL BY NAME SELECT day FROM labs)", "Write UNION ALL", f"{U} day FROM labs)"),
    (
        f"{J} (SELECT day FROM visits UNION SELECT day FROM labs)",
        "SELECT DISTINCT pid, x",
        f"{J} (SELECT pid, day FROM visits UNION SELECT pid, day FROM labs)",
    ),
    (
        f"{J} (SELECT pid FROM visits EXCEPT SELECT pid FROM labs)",
        "NOT EXISTS",
        f"{J} visits a WHERE NOT EXISTS (SELECT 1 FROM labs b WHERE b.pid = a.pid)",
    ),
    (f"{J} visits v ASOF JOIN days d USING (day)", "Use JOIN", f"{J} visits v JOIN days d USING (day)"),
    (f"{J} visits v LEFT JOIN days d", "Use JOIN", f"{J} visits v LEFT JOIN days d ON v.day = d.day"),
    (f"{J} visits v, days v WHERE v.day = 1", "Give one an alias", f"{J} visits v, days d WHERE v.day = d.day"),
    (f"{J} visits v JOIN days d USING (rate)", "Write ON", f"{J} visits v JOIN days d ON v.cost = d.rate"),
    (f"{J} depts p JOIN visits v USING (day)", "Write ON", f"{J} depts p JOIN visits v ON v.day = p.site"),
    (
        f"{J} depts p JOIN days d ON TRUE",
        "protected one",
        f"{J} visits v JOIN depts p USING (dept) JOIN days d USING (day)",
    ),
    (f"{J} days", "Join it with a protected table", f"{J} visits JOIN days USING (day)"),
    (
        f"{J} visits WHERE day IN (SELECT day, rate FROM days)",
        "one column",
        f"{J} visits WHERE day IN (SELECT day FROM days)",
    ),
    (
        f"{J} visits WHERE dept IN (SELECT day FROM days)",
        "Take length(x)",
        f"{J} visits WHERE day IN (FROM days SELECT day)",
    ),
    (
        f"{J} (SELECT v.day FROM days d LEFT JOIN visits v ON v.day = d.day) x",
        "Group by",
        f"{J} visits v JOIN days d USING (day)",
    ),
    (f"{J} visits WHERE EXISTS (SELECT 1 FROM days d LEFT JOIN labs l ON d.day = l.day)", "Group by", None),
    (
        "SELECT d.day, count(*) FROM days d LEFT JOIN visits v ON d.day = v.day GROUP BY 1",
        "count(v.x)",
        "SELECT d.day, count(v.cost) FROM days d LEFT JOIN visits v ON d.day = v.day GROUP BY 1",
    ),
    (
        "SELECT d.day, sum(coalesce(v.cost, 1)) FROM days d LEFT JOIN visits v ON d.day = v.day GROUP BY 1",
        "count(v.x)",
        "SELECT d.day, sum(v.cost) FROM days d LEFT JOIN visits v ON d.day = v.day GROUP BY 1",
    ),
    (
        "SELECT v.day, count(v.cost) FROM days d LEFT JOIN visits v ON d.day = v.day GROUP BY 1",
        "a column of the public table",
        "SELECT d.day, count(v.cost) FROM days d LEFT JOIN visits v ON d.day = v.day AND v.paid GROUP BY 1",
    ),
]


def _table(text: str) -> Table:
    """Rows are units, but where a statement names the unit."""
    return KEYED if "pid" in text else TABLE


def _refused(text: str, parameters: tuple[object, ...] = PARAMETERS) -> tuple[QueryError, tuple[str, int]]:
    """The error, and the file and line that gave its message."""
    return _site(lambda: plan_for(text, _table(text), parameters=parameters))


def _site(ask: Callable[[], object]) -> tuple[QueryError, tuple[str, int]]:
    with pytest.raises(QueryError) as caught:
        ask()
    frames = [f for f in traceback.extract_tb(caught.value.__traceback__) if f.name not in ("refuse", "_refuse")]
    return caught.value, (Path(frames[-1].filename).name, frames[-1].lineno or 0)


def _sites() -> set[tuple[str, int, int]]:
    """Every refusal of Q2xx in the compiler: file, first and last line."""
    found = set()
    for path in Path(ways.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("refuse", "_refuse"):
                code = node.args[0]
                if isinstance(code, ast.Constant) and str(code.value).startswith("Q2"):
                    found.add((path.name, node.lineno, node.end_lineno or node.lineno))
    return found


@pytest.mark.parametrize(("text", "way", "taken"), WAYS)
def test_a_refusal_has_a_place_and_a_way_that_works(text: str, way: str, taken: str | None) -> None:
    error, _ = _refused(text)
    assert way in str(error)
    assert WAY.search(str(error)), str(error)
    assert error.line == 1
    assert "TUPLE" not in str(error)
    if taken is not None:
        plan_for(taken, _table(taken), parameters=PARAMETERS, delta="1e-8")


@pytest.mark.parametrize(("text", "way", "taken"), PUBLIC_WAYS)
def test_a_refusal_with_public_tables_has_a_way_that_works(text: str, way: str, taken: str | None) -> None:
    error, _ = _site(lambda: plan_of(text, tables()))
    assert way in str(error)
    if taken is not None:
        plan_of(taken, tables())


def test_every_refusal_is_tried() -> None:
    """One that is added without a statement above is found here."""
    reached = {_refused(text)[1] for text, _, _ in WAYS}
    reached.add(_refused(f"{N} WHERE age = ?", ([1],))[1])  # a parameter of a type without a rule
    reached.add(_site(lambda: read_predicate(parse_scalar("age"), TABLE, "age"))[1])
    reached.add(_site(lambda: read_linear(parse_scalar("name"), TABLE, "name"))[1])
    for text in (
        "sum(age)",
        "list(age)",
        "age",
        "1",
        "avg(age) > 1",
        "sin(avg(age))",
        "sin(age) FILTER (WHERE age > 1)",
        "max(age, 3)",
        " + ".join(f"avg(age + {i})" for i in range(21)),
        "mode(age, age)",
        "quantile_cont(age, age)",
        "mad(age, age)",
        "avg(name)",
        "count(*, age)",
        "count_if(age > 1, age)",
        "mode(DISTINCT age)",
        "bool_and(age)",
        "avg(age) + $1",
        "upper('a')",
        "CASE WHEN avg(age) > 1 THEN 'a' END",
    ):
        reached.add(_site(lambda text=text: read_block_expression(text, TABLE))[1])
    reached.add(_site(lambda: read_number("name", TABLE, "x"))[1])
    reached |= {_site(lambda text=text: plan_of(text, tables()))[1] for text, _, _ in PUBLIC_WAYS}
    for text in ("s.sid NOT IN (SELECT sid FROM doses)", "(s.sid IN (SELECT sid FROM doses)) IS NULL"):
        reached.add(_site(lambda text=text: plan_of(f"{INNER} stays s WHERE {text}", LINKED))[1])
    rows = {**tables(unit_key=None, unit_type=None, max_rows=1, max_groups=1)}
    reached.add(_site(lambda: plan_of(f"{INNER} visits v JOIN days d ON v.day = d.day", rows))[1])
    for text in (f"{U} day FROM labs)", f"{W} rank() OVER () AS x FROM visits)"):
        reached.add(_site(lambda text=text: plan_of(text, rows))[1])
    types = {**tables(), "labs": replace(tables()["labs"], unit_type="VARCHAR")}  # a key's type: no statement's fault
    joins = ("visits JOIN labs USING (pid)", "visits WHERE pid IN (SELECT pid FROM labs)")
    for text in (*joins, f"{U.removeprefix(INNER)} day FROM labs)"):
        reached.add(_site(lambda text=text: plan_of(f"{INNER} {text}", types))[1])
    for line in (Path(__file__).parents[1] / "fixtures" / "outer" / "refused.sql").read_text().splitlines()[1:]:
        text = line.split(" | ", 2)[2].removesuffix(";")
        reached.add(_site(lambda text=text: take_apart(parse_statement(text), tables(), text))[1])
    for inner, rows in SINGLE:
        text, known = f"SELECT count(*) FROM visits WHERE day > ({inner})", tables()
        days = known["days"]
        assert days.public is not None
        known["days"] = replace(days, public=replace(days.public, rows=rows))
        given = (parse_statement(text), known, text, (), lambda _, sql, __: [(1,), (2,)][: 1 if ".max(" in sql else 2])
        reached.add(_site(lambda given=given: with_single_values(*given))[1])
    text = "SELECT n + $1 FROM (SELECT count(*) AS n FROM visits)"
    reached.add(_site(lambda: take_apart(parse_statement(text), tables(), text, [[1]]))[1])
    missed = [s for s in _sites() if not any(name == s[0] and s[1] <= line <= s[2] for name, line in reached)]
    assert sorted(missed) == []


def test_what_stands_for_unknown_functions_works() -> None:
    for name, way in spelling.NEIGHBOURS.items():
        assert way in spelling.instead(name)
        if "x" in way:
            numbers = dict.fromkeys(("1, 2", "1e300", "avg(", "sum(", "stddev("), "age")
            values = numbers | dict.fromkeys(("'a%'", "split_part", "replace", "regexp", "||"), "name")
            column = next((c for part, c in values.items() if part in way), "born")
            call = re.sub(r"\by\b", "seen", re.sub(r"\bx\b", column, way))
            whole = any(f"{name}(" in call for name in OFFERED)
            text = f"SELECT {call} FROM clinic" if whole else f"SELECT count(*) FROM clinic WHERE ({call}) IS NOT NULL"
            assert _message(text) is None, call


def test_what_takes_numbers_alone_names_what_does_the_same_for_other_kinds() -> None:
    for name, way, taken in (
        ("seen", "median(x)", "SELECT median(born) FROM clinic"),
        (
            "born",
            "GROUP BY date_trunc('month', x)",
            "SELECT date_trunc('month', born), count(*) FROM clinic GROUP BY 1",
        ),
        ("name", "mode(x)", "SELECT mode(sex) FROM clinic"),
        ("smoker", "avg(CAST(x AS INTEGER))", "SELECT avg(CAST(smoker AS INTEGER)) FROM clinic"),
    ):
        with pytest.raises(QueryError) as caught:
            bounded_column(TABLE, name)
        assert way in str(caught.value)
        assert "quantile" not in str(caught.value)
        plan_for(taken, TABLE, delta="1e-8")


def test_a_suggestion_is_near() -> None:
    """One slip of the hand is understood; a word of its own is not taken for another."""
    for name in FUNCTION_NAMES:
        for wrong in (name[1:] + "", name[:1] + name[2:], name[0] + name[:0:-1][-1:] + name[2:]):
            if len(name) > 4 and wrong not in FUNCTION_NAMES:
                assert "Did you mean" in spelling.instead(wrong), (name, wrong)
    for name in ("md5", "hash", "random", "make_date", "to_days", "bit_count"):
        assert "Did you mean" not in spelling.instead(name), name


@pytest.mark.parametrize(
    ("text", "code", "way"),
    [
        ('SELECT count(*) FROM clinic WHERE sex = "F"', "Q207", "A text is in single quotes: 'F'."),
        ('SELECT count(*) FROM clinic WHERE sex = "x"', "Q207", "A text is in single quotes: 'x'."),
        ("SELECT count(*) FROM clinic JOIN clinic AS b USING (age)", "Q204", "a table that holds the join."),
        ("SELECT count(*) FROM clinic AS a JOIN clinic AS b USING (age)", "Q204", "a table that holds the join."),
    ],
)
def test_what_newcomers_write_is_answered(text: str, code: str, way: str) -> None:
    with pytest.raises(QueryError) as caught:
        plan_for(text, clinic())
    assert caught.value.code == code
    assert str(caught.value).endswith(way)


def test_a_name_with_a_space_is_quoted() -> None:
    with pytest.raises(QueryError, match='Put a name with a space in double quotes: "a b"'):
        parse_scalar("Customer ID")

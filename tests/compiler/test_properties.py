"""What does not change a question, and what must."""

from __future__ import annotations

import datetime as dt
import random
import re
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duckdp.core.types import Neighbours
from duckdp.errors import DuckDPError
from tests.compiler.test_fixtures import _blocks
from tests.gate import clinic, column, plan_for

REJECTED = [b["text"] for b in _blocks("reject") if len(b["text"]) < 1000 and b["text"].strip(" ;")]
ROWS = {b["text"] for b in _blocks("reject") if b["code"] in ("Q301", "Q302")}  # which may not be seen, but counted
ACCEPTED = [b["text"] for b in _blocks("accept") if len(b["text"]) < 1000]
FAST = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
# spaces, strings, quoted names, comments, dollar strings, words, and everything else one by one
TOKEN = re.compile(r"\s+|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\$\$.*?\$\$|[\w$]+|.", re.DOTALL)


def _respaced(text: str, rng: random.Random, comments: bool = True) -> str:
    spaces = ["\n", " \t ", "  ", "\r\n"] + [" /* x */ ", " -- ; SELECT 1\n", "/* '\" */ "] * comments
    return "".join(rng.choice(spaces) if t.isspace() else t for t in TOKEN.findall(text))


def _recased(text: str, rng: random.Random) -> str:
    plain = [
        t if t[0] in "'\"$/-" or not t.isascii() else rng.choice([t.upper(), t.lower(), t.title()])
        for t in TOKEN.findall(text)
    ]
    return "".join(plain)


def _wrapped(text: str, rng: random.Random) -> str:
    return rng.choice(
        [
            "({0})",
            "(({0}))",
            "WITH q AS ({0}) SELECT * FROM q",
            "SELECT * FROM ({0}) AS q",
            "{0};",
            "{0} -- x",
            "WITH q AS ({0}) FROM q",
            "EXPLAIN {0}",
            "SELECT ({0})",
            "CREATE TABLE q AS {0}",
            "SELECT count(*) FROM ({0}) AS q",
            "{0} UNION ALL {0}",
            "/* x */ {0}",
        ]
    ).format(text)


def _accepted(text: str) -> bool:
    try:
        plan_for(text, clinic())
    except DuckDPError:
        return False
    return True


@FAST
@given(text=st.sampled_from(REJECTED), seed=st.integers(0, 2**32), how=st.integers(0, 6))
def test_no_dress_makes_a_refused_statement_acceptable(text: str, seed: int, how: int) -> None:
    rng, asked = random.Random(seed), text
    for bit, change in enumerate((_wrapped, _respaced, _recased)):
        if how + 1 >> bit & 1:
            text = change(text, rng)
    counted = asked in ROWS and text.split()[1:2] == ["count(*)"]
    assert counted or not _accepted(text), text


@FAST
@given(text=st.sampled_from(ACCEPTED), seed=st.integers(0, 2**32))
def test_dress_does_not_change_a_question(text: str, seed: int) -> None:
    rng = random.Random(seed)
    plain = plan_for(text, clinic()).canonical()
    assert plan_for(f"-- first\n/* second */ {text.replace(';', '')} -- last", clinic()).canonical() == plain
    if "--" not in text:  # sqlglot does not read a comment everywhere
        assert plan_for(_respaced(text, rng, comments=False), clinic()).canonical() == plain
    if '"' not in text:
        assert plan_for(_recased(text, rng), clinic()).canonical() == plain


def test_order_aliases_and_what_comes_after_the_release_do_not_change_a_question() -> None:
    same = [
        "SELECT sex, count(*), sum(age), avg(cost), count(DISTINCT pid) FROM clinic WHERE smoker GROUP BY sex",
        "SELECT avg(cost) AS a, count(DISTINCT pid) AS b, sum(age) AS c, count(*), sex FROM clinic c WHERE c.smoker "
        "GROUP BY c.sex",
        "SELECT count(*) AS n, count(DISTINCT pid), sum(age) + 1, avg(cost) / n FROM clinic WHERE (smoker) "
        "GROUP BY (sex) HAVING n > 3 ORDER BY n LIMIT 1",
        "FROM clinic SELECT sum(clinic.age), count(), mean(cost), count(DISTINCT PID) WHERE smoker GROUP BY SEX",
    ]
    assert len({plan_for(t, clinic()).canonical() for t in same}) == 1


DIFFERENT = [
    "SELECT count(*) FROM clinic",
    "SELECT count(age) FROM clinic",
    "SELECT count(DISTINCT pid) FROM clinic",
    "SELECT sum(age) FROM clinic",
    "SELECT sum(cost) FROM clinic",
    "SELECT avg(age) FROM clinic",
    "SELECT var_pop(age) FROM clinic",
    "SELECT avg(age), count(*) FROM clinic",
    "SELECT count(*) FROM clinic WHERE name = 'a'",
    "SELECT count(*) FROM clinic WHERE name = 'A'",
    "SELECT count(*) FROM clinic WHERE name = 'a '",
    "SELECT count(*) FROM clinic WHERE name = 'a'', ''b'",
    "SELECT count(*) FROM clinic WHERE name IN ('a', 'b')",
    "SELECT count(*) FROM clinic WHERE name IN ('a'', ''b')",
    "SELECT count(*) FROM clinic WHERE name LIKE 'a%'",
    "SELECT count(*) FROM clinic WHERE name LIKE 'a_'",
    "SELECT count(*) FROM clinic WHERE name LIKE 'a.'",
    "SELECT count(*) FROM clinic WHERE name ILIKE 'a_'",
    "SELECT count(*) FROM clinic WHERE name LIKE '%a.*_'",
    "SELECT count(*) FROM clinic WHERE name LIKE '%a%_'",
    "SELECT count(*) FROM clinic WHERE age > 1",
    "SELECT count(*) FROM clinic WHERE age > 1.5",
    "SELECT count(*) FROM clinic WHERE age >= 1",
    "SELECT count(*) FROM clinic WHERE NOT age > 1",
    "SELECT count(*) FROM clinic WHERE age > -1",
    "SELECT count(*) FROM clinic WHERE age > NULL",
    "SELECT count(*) FROM clinic WHERE visits > 1",
    "SELECT count(*) FROM clinic WHERE born > '1990-01-01'",
    "SELECT count(*) FROM clinic WHERE name > '1990-01-01'",
    "SELECT count(*) FROM clinic WHERE seen > '1990-01-01'",
    "SELECT count(*) FROM clinic WHERE left(name, 1) = 'a'",
    "SELECT count(*) FROM clinic WHERE left(name, 2) = 'a'",
    "SELECT count(*) FROM clinic WHERE right(name, 1) = 'a'",
    "SELECT count(*) FROM clinic WHERE date_trunc('year', born) = '1990-01-01'",
    "SELECT count(*) FROM clinic WHERE date_trunc('month', born) = '1990-01-01'",
    "SELECT count(*) FROM clinic WHERE smoker",
    "SELECT count(*) FROM clinic WHERE smoker IS TRUE",
    "SELECT count(*) FILTER (WHERE smoker) FROM clinic",
    "SELECT count(*) FILTER (WHERE smoker), count(*) FROM clinic",
    "SELECT sex, count(*) FROM clinic GROUP BY sex",
    "SELECT town, count(*) FROM clinic GROUP BY town",
    "SELECT sex, town, count(*) FROM clinic GROUP BY sex, town",
    "SELECT town, sex, count(*) FROM clinic GROUP BY town, sex",
    "SELECT name, count(*) FROM clinic GROUP BY name",
    "SELECT age > 3, count(*) FROM clinic GROUP BY 1",
    "SELECT CASE WHEN age > 3 THEN 1 END, count(*) FROM clinic GROUP BY 1",
    "SELECT CASE WHEN age > 3 THEN '1' END, count(*) FROM clinic GROUP BY 1",
    "SELECT CASE WHEN age > 3 THEN 1 ELSE 2 END, count(*) FROM clinic GROUP BY 1",
    "SELECT CASE WHEN age > 3 THEN '1990-01-01' END, count(*) FROM clinic GROUP BY 1",
    "SELECT CASE WHEN age > 3 THEN DATE '1990-01-01' END, count(*) FROM clinic GROUP BY 1",
    "SELECT CASE WHEN age > 3 THEN TIMESTAMP '1990-01-01 00:00:00' END, count(*) FROM clinic GROUP BY 1",
    "SELECT sum(least(age, 10)) FROM clinic",
    "SELECT sum(least(age, 10.0001)) FROM clinic",
    "SELECT sum(CASE WHEN smoker THEN age END) FROM clinic",
    "SELECT sum(CASE WHEN smoker THEN age ELSE 0 END) FROM clinic",
    "SELECT sum(coalesce(age, 0)) FROM clinic",
    "SELECT sum(nullif(age, 0)) FROM clinic",
]


def test_different_questions_differ() -> None:
    found = {}
    for text in DIFFERENT:
        canonical = plan_for(text, clinic()).canonical()
        assert canonical not in found, (text, found[canonical])
        found[canonical] = text


ODD_NAMES = [
    "1",
    "1.5",
    "None",
    "True",
    "null",
    "'a'",
    '"',
    '""',
    "a, b",
    "add_number(1, 2)",
    "a + nulls",
    "case",
    "when x then y",
    "key0",
    "*",
    "é",
    "A",
    "count_rows",
    "date '1990-01-01'",
    "a)",
    "a where b",
    "neg(1)",
]


def test_odd_names_are_no_expressions() -> None:
    """A column named like a literal or an expression is never taken for it."""
    columns = tuple(column(n, "INTEGER", lower=0, upper=9) for n in [*ODD_NAMES, "b"])
    table = clinic(columns=columns)
    quoted = ['"' + n.replace('"', '""') + '"' for n in ODD_NAMES]
    terms = [*quoted, "1", "1.5", "NULL", "-1", "b", "abs(b)"]
    seen: dict[str, str] = {}
    for a, b in combinations(terms, 2):
        for text in (
            f"SELECT count(*) FROM clinic WHERE coalesce({a}, {b}) > 2",
            f"SELECT count(*) FROM clinic WHERE CASE WHEN {a} > 2 THEN {b} END > 3",
        ):
            canonical = plan_for(text, table).canonical()
            assert canonical not in seen, (text, seen[canonical])
            seen[canonical] = text


def test_the_declaration_the_price_and_the_parameters_are_part_of_the_question() -> None:
    text = "SELECT sex, avg(age) FROM clinic WHERE visits > ? GROUP BY sex"
    plain = plan_for(text, clinic(), parameters=(1,))
    table = clinic()
    wider = tuple(replace(c, upper=111) if c.name == "age" else c for c in table.columns)
    other_domain = tuple(replace(c, domain=("F", "X")) if c.name == "sex" else c for c in table.columns)
    nulls = tuple(replace(c, null_value=3, nullable=False) if c.name == "age" else c for c in table.columns)
    variants = [
        plan_for(text, clinic(), parameters=(2,)),
        plan_for(text, clinic(), parameters=(1.5,)),
        plan_for(text, clinic(), parameters=(1,), epsilon="1.000001"),
        plan_for(text, clinic(max_rows=4), parameters=(1,)),
        plan_for(text, clinic(max_groups=1), parameters=(1,)),
        plan_for(text, clinic(columns=wider), parameters=(1,)),
        plan_for(text, clinic(columns=other_domain), parameters=(1,)),
        plan_for(text, clinic(columns=nulls), parameters=(1,)),
        plan_for(text, clinic(unit_key="other"), parameters=(1,)),
        plan_for(text, clinic(relation=("memory", "main", "clinic2")), parameters=(1,)),
        plan_for(text, clinic(filter="age > 3", base=table.columns), parameters=(1,)),
        plan_for(text, clinic(filter="age > 4", base=table.columns), parameters=(1,)),
        plan_for(text, clinic(unit_key=None), parameters=(1,)),
        plan_for(text, clinic(unit_key=None), parameters=(1,), neighbours=Neighbours.REPLACE),
        plan_for(text, clinic(), parameters=(1,), mechanism="gaussian"),
    ]
    assert len({p.canonical() for p in [plain, *variants]}) == len(variants) + 1
    assert plan_for(text.replace("?", "1"), clinic()).canonical() == plain.canonical()
    assert plan_for(text.replace("?", "$1"), clinic(), parameters=(1,)).canonical() == plain.canonical()


def test_parameters_are_numbered_by_the_text() -> None:
    """However the tree is read, and however often: keys are read before outputs, dates are swapped."""
    text = "SELECT age + ? AS k, count(*) * ? FROM clinic WHERE date_diff('day', ?, ?) > ? GROUP BY k"
    values = (1, 2, dt.date(2000, 1, 1), dt.date(2001, 1, 1), 5)
    literal = (
        "SELECT age + 1 AS k, count(*) * 2 FROM clinic WHERE "
        + "date_diff('day', DATE '2000-01-01', DATE '2001-01-01') > 5 GROUP BY k"
    )
    found, wanted = plan_for(text, clinic(), parameters=values), plan_for(literal, clinic())
    assert found.canonical() == wanted.canonical()
    assert found.query.outputs[1].expr == wanted.query.outputs[1].expr
    assert (
        plan_for(
            "SELECT sex, count(*) FROM clinic GROUP BY sex HAVING sex = ? AND count(*) > ?",
            clinic(),
            parameters=("F", 3),
        ).query.having
        is not None
    )


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_more_epsilon_costs_more_and_errs_less(mechanism: str) -> None:
    text = "SELECT town, avg(age), count(*), sum(income) FROM clinic GROUP BY town"
    plans = [
        plan_for(text, clinic(), epsilon=e, mechanism=mechanism) for e in ("0.01", "0.1", "0.5", "1", "3", "20", "100")
    ]
    for small, large in pairwise(plans):
        assert small.loss.epsilon_nano < large.loss.epsilon_nano
        assert small.loss.rho_pico <= large.loss.rho_pico
        for a, b in zip(
            zip(small.measures, small.noises, strict=True), zip(large.measures, large.noises, strict=True), strict=True
        ):
            assert a[1] is not None
            assert b[1] is not None
            assert a[1].scale / a[0].steps > b[1].scale / b[0].steps


def test_an_average_is_half_as_noisy_with_a_summand_less() -> None:
    alone = plan_for("SELECT sum(age) FROM clinic", clinic())
    both = plan_for("SELECT sum(age), sum(cost) FROM clinic", clinic())
    assert alone.noises[0] is not None
    found = next(n for m, n in zip(both.measures, both.noises, strict=True) if m.argument == alone.measures[0].argument)
    assert found is not None
    assert found.scale == pytest.approx(2 * alone.noises[0].scale)

"""Attacks through aggregates, computed keys, dates and texts: each is refused, whatever it is wrapped in."""

from __future__ import annotations

import pytest

from duckdp.compiler.emit import emit
from duckdp.errors import QueryError
from tests.gate import clinic, plan_for

REFUSED = """
SELECT mode(name) FROM clinic
SELECT mode(lower(name)) FROM clinic
SELECT max(pid) FROM clinic
SELECT median(pid) FROM clinic
SELECT mode(pid) FROM clinic
SELECT corr(pid, age) FROM clinic
SELECT count(DISTINCT pid || name) FROM clinic
SELECT count(DISTINCT (pid, age)) FROM clinic
SELECT count(DISTINCT pid + 1) FROM clinic
SELECT quantile_cont(score, 0.5) FROM clinic
SELECT quantile_cont(age, age) FROM clinic
SELECT quantile_cont(age, [0.5, sex]) FROM clinic
SELECT quantile_cont(age, -1) FROM clinic
SELECT max(age, 5) FROM clinic
SELECT arg_max(name, age) FROM clinic
SELECT any_value(name), count(*) FROM clinic
SELECT first(age) FROM clinic
SELECT last(age) FROM clinic
SELECT list(age) FROM clinic
SELECT string_agg(name, ',') FROM clinic
SELECT histogram(age) FROM clinic
SELECT approx_top_k(name, 3) FROM clinic
SELECT bool_or(age > 100) FROM clinic
SELECT bool_and(name = 'Ann') FROM clinic
SELECT bit_xor(age) FROM clinic
SELECT product(age) FROM clinic
SELECT median(min(age)) FROM clinic
SELECT max(age) OVER () FROM clinic
SELECT DISTINCT pid FROM clinic
SELECT DISTINCT ON (sex) age FROM clinic
SELECT DISTINCT cost FROM clinic
SELECT pid || '' AS k, count(*) FROM clinic GROUP BY k
SELECT CAST(pid AS VARCHAR), count(*) FROM clinic GROUP BY 1
SELECT width_bucket(pid, 0, 100, 100), count(*) FROM clinic GROUP BY 1
SELECT sex, count(*) FROM clinic GROUP BY sex, 2
SELECT 1, count(*) FROM clinic GROUP BY 1
SELECT count(*) FROM clinic WHERE regexp_matches(name, name)
SELECT count(*) FROM clinic WHERE regexp_matches(name, '(((a{60}){60}){60})')
SELECT count(*) FROM clinic WHERE regexp_matches(name, '(')
SELECT count(*) FROM clinic WHERE regexp_matches(name, 'a', 'g')
SELECT count(*) FROM clinic WHERE name SIMILAR TO '(a|b)*'
SELECT count(*) FROM clinic WHERE name ~ name
SELECT count(*) FROM clinic WHERE replace(name, name, 'x') = 'a'
SELECT count(*) FROM clinic WHERE split_part(name, '', 1) = 'a'
SELECT count(*) FROM clinic WHERE split_part(name, 'a', 1000000) = 'a'
SELECT count(*) FROM clinic WHERE lpad(name, 1000000000, 'x') = 'a'
SELECT count(*) FROM clinic WHERE repeat(name, 1000000000) = 'a'
SELECT count(*) FROM clinic WHERE strftime(born, name) = 'a'
SELECT count(*) FROM clinic WHERE strftime(seen, '%s''||error(name)') = 'a'
SELECT count(*) FROM clinic WHERE seen + INTERVAL 300000 YEARS > born
SELECT count(*) FROM clinic WHERE born + INTERVAL 9000 YEARS > born
SELECT count(*) FROM clinic WHERE born + INTERVAL (age) DAY > seen
SELECT count(*) FROM clinic WHERE born + age > seen
SELECT count(*) FROM clinic WHERE age(seen, born) > INTERVAL 3 DAY
SELECT count(*) FROM clinic WHERE date_part('month', age(seen, born)) = 1
SELECT count(*) FROM clinic WHERE cost::VARCHAR = '1.5'
SELECT count(*) FROM clinic WHERE CAST(name AS DATE) = born
SELECT count(*) FROM clinic WHERE random() < 0.5
SELECT count(*) FROM clinic WHERE current_setting('threads') = '1'
SELECT count(*) FROM clinic WHERE now() = get_current_time()
SELECT * EXCLUDE (pid) FROM clinic
SELECT age FROM (SELECT * EXCLUDE (pid) FROM clinic)
SELECT COLUMNS(*) FROM clinic
"""


@pytest.mark.parametrize("text", REFUSED.strip().split("\n"))
def test_it_is_refused(text: str) -> None:
    for wrapped in (text, text.replace("FROM clinic", "FROM (SELECT * FROM clinic) AS clinic")):
        with pytest.raises(QueryError):
            plan_for(wrapped, clinic(), delta=0)


def test_what_is_read_is_ours() -> None:
    """Patterns and constants cross as parameters."""
    parts = ("regexp_matches(name, 'a''b')", "replace(name, '''', 'zz') = 'q'", "name || '''' = 'r'")
    query = emit(plan_for(f"SELECT count(*) FROM clinic WHERE {' OR '.join(parts)}", clinic()), 1)
    assert {"a'b", "'", "zz", "q", "r"} <= {p for p in query.parameters if isinstance(p, str)}
    assert not any(part in query.sql for part in ("a'b", "zz", "''''"))

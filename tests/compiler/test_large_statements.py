"""The largest statements of each shape are planned and priced, or refused with a code: no error of Python's."""

from __future__ import annotations

import pytest

from duckdp.compiler.evaluate import describe_outputs, expected_half_widths
from duckdp.errors import DuckDPError
from tests.gate import clinic, plan_for

FROM = " FROM clinic"
COUNT = f"SELECT count(*){FROM} "
LARGE = {
    "not": f"{COUNT}WHERE {'NOT ' * 3000}smoker",
    "plus": f"SELECT count(*){'+1' * 9000}{FROM}",
    "minus": f"SELECT {'- ' * 9000}count(*){FROM}",
    "case": f"SELECT sum({'CASE WHEN age > 1 THEN ' * 55}1{' END' * 55}){FROM}",
    "and": f"{COUNT}WHERE {' AND '.join(['age > 1'] * 4000)}",
    "or": f"{COUNT}WHERE {' OR '.join(f'(age > {i} AND smoker)' for i in range(2500))}",
    "in": f"{COUNT}WHERE age IN ({', '.join(map(str, range(9000)))})",
    "in twice": f"{COUNT}WHERE level IN ({', '.join(map(str, range(1000)))}) AND level IN (1{', 1' * 900})",
    "casts": f"{COUNT}WHERE age{'::INT' * 5000} > 1",
    "dots": f"SELECT {'a.' * 8000}b{FROM}",
    "texts": f"SELECT {repr('a') * 8000}{FROM}",
    "outputs": f"SELECT {', '.join(f'count(*) AS a{i}' for i in range(60))}{FROM}",
    "aliases": f"SELECT count(*) AS a0, {', '.join(f'a{i} + a{i} AS a{i + 1}' for i in range(60))}{FROM}",
    "keys": f"{COUNT}GROUP BY {', '.join(f'age + {i}' for i in range(3000))}",
    "keys of two": f"{COUNT}GROUP BY {', '.join(f'CASE WHEN age > {i} THEN 1 ELSE 0 END' for i in range(40))}",
    "coalesce": f"{COUNT}GROUP BY {'coalesce(' * 50}age{', 1)' * 50}",
    "between": f"{COUNT}WHERE {'age BETWEEN 1 AND ' * 2000}1",
    "like": f"{COUNT}WHERE name {'LIKE name ' * 4000}",
    "comments": f"SELECT {'/*' * 15000}{'*/' * 15000} 1",
    "marks": f"SELECT {'?' * 19000}{FROM}",
    "joins": f"SELECT 1{FROM} {'JOIN clinic ' * 5000}",
    "unions": f"SELECT count(*){FROM}{' UNION SELECT 1' * 4000}",
    "statements": f"SELECT 1{';' * 15000}",
    "having": f"SELECT count(*){FROM} HAVING {' AND '.join(['count(*) > 1'] * 3000)}",
    "order": f"SELECT age, count(*){FROM} GROUP BY age ORDER BY {', '.join(['count(*)'] * 4000)}",
    "product": f"SELECT {' * '.join(f'sum(age) FILTER (WHERE age > {i})' for i in range(64))}{FROM} GROUP BY age",
}


@pytest.mark.parametrize("name", LARGE)
def test_the_largest_statements_are_planned_or_refused_with_a_code(name: str) -> None:
    try:
        plan = plan_for(LARGE[name], clinic())
        assert describe_outputs(plan)
        expected_half_widths(plan, None)
    except DuckDPError as error:
        assert len(str(error)) < 1500

"""The same question over very different tables succeeds or fails alike: that it failed would be an answer."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import duckdp
from duckdp.errors import DuckDPError

SHAPE = (
    "pid BIGINT, n BIGINT, x DOUBLE, d DECIMAL(38, 4), h HUGEINT, s VARCHAR, k VARCHAR, b BOOLEAN, day DATE, "
    "ts TIMESTAMP"
)
NEW_YEAR = "DATE '2020-01-01', TIMESTAMP '2020-01-01'"
EXTREME = "9223372036854775807, 9223372036854775807"
TABLES = {
    "empty": "SELECT 1, 1, 1, 1, 1, 's', 'a', true, DATE '2020-01-01', TIMESTAMP '2020-01-01' WHERE false",
    "one row": "SELECT 1, 1, 1, 1, 1, 's', 'a', true, DATE '2020-01-01', TIMESTAMP '2020-01-01'",
    "all NULL": "SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM range(100)",
    "NULL but the key": "SELECT i, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM range(100) AS r(i)",
    "one person": f"SELECT 7, i, i, i, i, 's', 'a', true, {NEW_YEAR} FROM range(20000) AS r(i)",
    "everybody": "SELECT i, i, i, i, i, 's' || i, 'k' || i, i % 2 = 0, DATE '2020-01-01' + (i % 99)::INTEGER, "
    "TIMESTAMP '2020-01-01' + to_minutes(i) FROM range(20000) AS r(i)",
    "NaN": "SELECT i, i, 'nan', 0, 0, '', '', NULL, DATE '2020-01-01', TIMESTAMP '2020-01-01' FROM range(50) AS r(i)",
    "infinite": f"SELECT {EXTREME}, CASE WHEN i % 2 = 0 THEN 'inf'::DOUBLE ELSE '-inf'::DOUBLE END, "
    "9999999999999999999999999999999999.9999, 170141183460469231731687303715884105727, repeat('ü', 9000), 'a', true, "
    "'infinity'::DATE, 'infinity'::TIMESTAMP FROM range(50) AS r(i)",
    "negative": "SELECT -9223372036854775808, -9223372036854775808, -1.7976931348623157e308, "
    "-9999999999999999999999999999999999.9999, -170141183460469231731687303715884105728, chr(0) || 'x', 'b', false, "
    "'-infinity'::DATE, '-infinity'::TIMESTAMP FROM range(50) AS r(i)",
    "tiny": "SELECT i, 0, 5e-324, 0.0001, 0, '%_\\', 'A', true, DATE '0001-01-01', TIMESTAMP '0001-01-01' "
    "FROM range(50) AS r(i)",
    "before Christ": "SELECT i, i, -0.0, 0, 0, E'\\n\\t''\"', 'a ', true, DATE '4712-01-01 (BC)', "
    "TIMESTAMP '290308-12-22 (BC) 00:00:00' FROM range(50) AS r(i)",
    "far away": "SELECT i, i, 1e300, 0, 0, '\U0001f4a9' || chr(8238), 'a', true, DATE '5881580-07-10', "
    "TIMESTAMP '294247-01-10 04:00:54' FROM range(50) AS r(i)",
}
QUESTIONS = (
    "SELECT count(*), count(x), count(DISTINCT pid), sum(n), sum(x), avg(x), stddev_samp(x), var_pop(n) FROM t",
    "SELECT sum(d), avg(d), sum(h), avg(h), stddev_pop(h) FROM t",
    "SELECT k, count(*), sum(x), avg(n) FROM t GROUP BY k",
    "SELECT b, sum(n * x - x / n), avg(abs(x)), sum(power(x, 2)) FROM t GROUP BY b",
    "SELECT year(day) AS y, count(*) FROM t GROUP BY y",
    "SELECT date_trunc('month', ts) AS m, count(*), sum(n) FROM t WHERE ts < TIMESTAMP '2021-01-01' GROUP BY m",
    "SELECT count(*) FROM t WHERE date_diff('day', day, DATE '2020-06-01') > 10 AND x / n > 0.5",
    "SELECT count(*) FROM t WHERE ln(greatest(x, 1)) > 0 AND log(greatest(n, 1)) < 3",
    "SELECT count(*) FROM t WHERE s LIKE '%a_' OR lower(s) = 'x' OR left(s, 3) = 'abc' OR s ILIKE 'Ü%'",
    "SELECT sum(CASE WHEN x > 3 THEN n WHEN b THEN 1 ELSE NULL END) FROM t WHERE coalesce(x, n, 0) <> 7",
    "SELECT s, count(*) FROM t GROUP BY s",
    "SELECT n, count(*), avg(x) FROM t GROUP BY n",
    "SELECT day, count(*) FROM t GROUP BY day",
    "SELECT floor(x) AS f, count(*) FROM t GROUP BY f",
    "SELECT ts, b, count(*) FROM t GROUP BY ts, b",
    "SELECT sum(exp(least(x, 5))), avg(sqrt(greatest(x, 0))), sum(sin(x)) FROM t WHERE NOT (x BETWEEN 1 AND 2)",
    "SELECT sum(hour(ts) + month(day)) FROM t WHERE substring(s, 2, 3) IN ('a', 'b') OR starts_with(s, 'a')",
)


def outcome(session: duckdp.Session, question: str) -> str:
    try:
        found = session.sql(question, epsilon=1, delta="1e-8")
    except DuckDPError as error:
        return error.code
    open_keys = "not shown" in " ".join(found.notes)
    return f"{[(c.name, c.type) for c in found.columns]} {'' if open_keys else len(found)}"


@pytest.mark.parametrize("unit_key", ["pid", pytest.param(None, marks=pytest.mark.slow)])
def test_every_table_answers_alike(unit_key: str | None, tmp_path: Path) -> None:
    outcomes: dict[str, dict[str, str]] = {}
    for number, (name, rows) in enumerate(TABLES.items()):
        with duckdb.connect() as con:
            con.execute(f"CREATE TABLE t ({SHAPE}); INSERT INTO t {rows}")
            with duckdp.open(con, ledger=tmp_path / f"{number}.ledger") as curator:
                key = {} if unit_key is None else {"unit_key": unit_key, "max_rows": 5, "max_groups": 3}
                curator.protect(
                    "t",
                    row_cap=100_000,
                    domains={"k": ["a", "b", None], "b": [True, False]},
                    columns=["s"],
                    bounds={
                        "n": (-1000, 1000),
                        "x": (-10, 10),
                        "d": (-1e6, 1e6),
                        "h": (-(10**9), 10**9),
                        "day": ("2020-01-01", "2020-12-31"),
                        "ts": ("2020-01-01", "2020-12-31"),
                    },
                    **key,
                )
                curator.budget(epsilon=1000, delta="1e-3")
                curator.grant("ana", epsilon=1000, delta="1e-3")
                session = curator.session("ana")
                outcomes[name] = {question: outcome(session, question) for question in QUESTIONS}
                for column in ("n", "x", "d", "h"):
                    outcomes[name][column] = str(len(session.median_smooth("t", column, epsilon=1)))
                made = session.smooth_summary("t", ["x", "n"], name="a", epsilon=1, degree=3)
                outcomes[name]["summary"] = str(made.names)
                assert {c.state for c in curator.ledger.charges()} == {"released"}
    first = outcomes.pop("empty")
    for name, found in outcomes.items():
        assert found == first, name
    # statements without delta for their keys, or without bounds, are refused before data; the rest answers
    assert not [code for code in first.values() if code.startswith(("E", "X", "B"))]

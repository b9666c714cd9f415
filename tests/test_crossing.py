"""Answers cross into the analyst's DuckDB unchanged, by columns or as texts, and a refusal is raised by either way."""

from __future__ import annotations

import datetime as dt
import math
import random
import struct
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.front import crossing
from duckdp.front.crossing import Crossing, cross_plainly, read_rows, rows_of, select_columns, select_rows

TODAY = dt.date(2026, 2, 28)
VALUES: dict[str, list[Any]] = {
    "DOUBLE": [0.1, -0.0, 1e308, 5e-324, -1.7976931348623157e308, math.inf, -math.inf, None, 1 / 3, 1e16, 123456789.0],
    "BIGINT": [0, -1, 2**63 - 1, -(2**63), None],
    "BOOLEAN": [True, False, None],
    "VARCHAR": ["", "it's", 'a "b"', "NULL", "null", "[x, y]", "a\nb", "\\", "\U0001f4a9", " x ", None, "{'a': 1}"],
    "DATE": [TODAY, dt.date.min, dt.date.max, None],
    "TIMESTAMP": [dt.datetime(2026, 2, 28, 23, 59, 59, 999999), None],
    "HUGEINT": [2**126, -(2**126), None],
    "DECIMAL(38,10)": ["0.0000000001", None],
    "INTEGER": [-(2**31), None],
}


def cross(columns: dict[str, list[Any]], kinds: list[str], *, few: bool) -> list[tuple[Any, ...]]:
    """Columns as they come out of DuckDB."""
    answer = [Crossing(kind, values) for kind, values in zip(kinds, columns.values(), strict=True)]
    shape = list(zip(columns, kinds, strict=True))
    with duckdb.connect() as con:
        make: Any = con.create_function
        if few:
            make("__dp_rows", lambda _: rows_of(answer), ["VARCHAR"], "VARCHAR[][]", side_effects=True)
            return con.execute(select_rows("t", shape)).fetchall()
        make("__dp_ask", lambda t: pa.array([""] * len(t)), ["VARCHAR"], "VARCHAR", type="arrow", side_effects=True)
        for name, kind in crossing.LIST_TYPES.items():

            def fetch(tokens: Any, indexes: Any) -> Any:
                arrays = [answer[i.as_py()].array() for i in indexes]
                return pa.ListArray.from_arrays(pa.array([0, *(len(a) for a in arrays)]), pa.concat_arrays(arrays))

            make(name, fetch, ["VARCHAR", "INTEGER"], kind, type="arrow", side_effects=True)
        return con.execute(select_columns("t", shape)).fetchall()


@pytest.mark.parametrize("kind", VALUES)
def test_few_cells_cross_as_columns_do(kind: str) -> None:
    values = VALUES[kind]
    texts, arrays = (cross({'it"s "x"; --': values}, [kind], few=few) for few in (True, False))
    assert [repr(row) for row in texts] == [repr(row) for row in arrays]
    if kind != "DECIMAL(38,10)":
        assert [repr(v) for (v,) in texts] == [repr(v) for v in values]
    assert cross({"x": []}, [kind], few=True) == []
    shape = [('it"s', kind)]
    assert cross_plainly(len(values), shape) == (kind != "DECIMAL(38,10)")
    if cross_plainly(len(values), shape):  # without DuckDB, the same
        assert [repr(row) for row in read_rows(shape, rows_of([Crossing(kind, values)])[1:])] == list(map(repr, texts))


def test_what_does_not_cross_plainly() -> None:
    assert not cross_plainly(None, [("a", "BIGINT")])  # any number of rows
    assert not cross_plainly(1001, [("a", "BIGINT")])
    assert not cross_plainly(1, [("a", "BIGINT"), ("A", "BIGINT")])  # DuckDB renames one
    assert not cross_plainly(1, [("a", "BIGINT"), ("b", "FLOAT")])


def test_every_double_crosses_as_itself() -> None:
    chance = random.Random(7)
    values = [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(900)]
    values = [v for v in values if not math.isnan(v)]
    assert cross({"x": values}, ["DOUBLE"], few=True) == [(v,) for v in values]
    [(found,)] = cross({"x": [math.nan]}, ["DOUBLE"], few=True)
    assert math.isnan(found)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    frame = pa.table({"x": [float(i % 9) for i in range(400)], "name": [f"n{i % 3}" for i in range(400)]})
    with duckdp.open({"t": frame}, ledger=tmp_path_factory.mktemp("crossing") / "ledger") as curator:
        curator.protect("t", row_cap=1000, bounds={"x": (0, 9)}, domains={"name": ["n0", "n1", "n2"]})
        curator.budget(epsilon=100)
        curator.grant("ana", epsilon=100)
        curator.session("ana").smooth_summary("t", ["x"], name="s", epsilon=1, degree=3)
        yield curator


CALLS = (
    "dp_noisy_count('t', epsilon := 1)",
    "dp_median_smooth('t', 'x', epsilon := 1)",
    "dp_bounds('t', 'x', epsilon := 1)",
    "dp_query('SELECT name, count(*) AS n, avg(x) AS a, count(*) > 3 AS b FROM t GROUP BY ALL', epsilon := 1)",
    "dp_query('SELECT count(*) AS n FROM t HAVING count(*) > 1e9', epsilon := 1)",
    "dp_budget()",
    "dp_smooth_answer('s', 'x')",
    "dp_smooth_answers('s', ['x', 'x * x'])",
    "dp_explain_summary('t', ['x'], epsilon := 1)",
)


@pytest.mark.parametrize("call", CALLS)
def test_both_ways_give_the_same(world: duckdp.Curator, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with world.connect("ana") as con:
        con.execute(f"FROM {call}").fetchall()
        few = con.execute(f"FROM {call}")
        rows, shape = few.fetchall(), few.description
        monkeypatch.setattr(crossing, "FEW_CELLS", -1)
        many = con.execute(f"FROM {call}")
        assert (many.fetchall(), many.description) == (rows, shape)


OVER = (
    "FROM {}",
    "SELECT count(*) FROM {}",
    "SELECT value FROM {} WHERE value > 3",
    "SELECT 1 FROM {}, range(3)",
    "SELECT sum(value) FROM {} WHERE standard_error < 0 AND low IS NULL",
    "CREATE TEMP TABLE kept AS FROM {}",
    "SELECT * FROM {} AS a JOIN {} AS b USING (value)",
)


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("statement", OVER)
def test_what_is_refused_at_run_time_is_raised_whatever_is_asked_of_it(
    world: duckdp.Curator, statement: str, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No condition above the call is looked at first: an empty answer would look like one."""
    if not few:
        monkeypatch.setattr(crossing, "FEW_CELLS", -1)
    text = statement.replace("{}", "dp_noisy_count('t', epsilon := 100)")
    with world.connect("ana") as con, pytest.raises(duckdb.Error, match="B101: "):
        con.execute(text).fetchall()

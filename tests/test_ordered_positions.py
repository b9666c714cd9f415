"""Places in ORDER BY and GROUP BY are those of the analyst's own outputs: error columns are out of their reach."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler.outer import apart, outer_bars
from duckdp.errors import QueryError

GROUPS = "(SELECT k, count(*) AS n FROM t GROUP BY k)"
BEYOND = [
    "SELECT count(*) FROM t ORDER BY 2",
    "SELECT count(*) FROM t ORDER BY (4)",
    "SELECT count(*) FROM t ORDER BY 5",
    "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY 3 DESC",
    f"SELECT n FROM {GROUPS} ORDER BY 3",
    f"SELECT * FROM {GROUPS} ORDER BY 3",
    f"SELECT a.*, 1 FROM {GROUPS} AS a ORDER BY 4",
    f"SELECT n, sum(n) OVER () FROM {GROUPS} ORDER BY 4",
    f"SELECT n + 1 FROM (SELECT n FROM {GROUPS} ORDER BY 2)",
    f"WITH v AS {GROUPS} SELECT n FROM v ORDER BY 2",
    f"SELECT sum(n) FROM {GROUPS} GROUP BY 2",
    "SELECT count(*) AS n FROM t UNION ALL SELECT count(*) FROM t ORDER BY 2",
    f"SELECT * FROM {GROUPS} UNION ALL SELECT * FROM {GROUPS} ORDER BY 4",
    "SELECT k, count(*) FROM t GROUP BY ROLLUP(k) ORDER BY 3",
]
WITHIN = [
    "SELECT count(*) FROM t ORDER BY (1)",
    f"SELECT n, k FROM {GROUPS} ORDER BY 2, 1",
    f"SELECT * FROM {GROUPS} ORDER BY 2",
    "SELECT count(*) AS n FROM t UNION ALL SELECT count(*) FROM t ORDER BY 1",
    f"SELECT count(*) AS n FROM t UNION ALL BY NAME SELECT k AS m FROM {GROUPS} ORDER BY 2",
    f"SELECT *, 1 AS n_low FROM {GROUPS} ORDER BY 3",
]


@pytest.fixture
def owner(tmp_path: object) -> Iterator[duckdp.Curator]:
    table = pa.table({"pid": list(range(300)), "k": [i % 3 for i in range(300)]})
    with duckdp.open({"t": table}, ledger=f"{tmp_path}/ledger") as made:
        made.protect("t", unit_key="pid", max_rows=1, row_cap=1000, bounds={"k": (0, 2)})
        made.budget(epsilon=1000)
        made.grant("ana", epsilon=1000)
        yield made


def test_places_beyond_the_outputs_are_refused_before_anything_is_charged(owner: duckdp.Curator) -> None:
    session = owner.session("ana")
    for text in BEYOND:
        with pytest.raises(QueryError) as refused:
            session.sql(text, epsilon=1)
        assert refused.value.code == "Q203", text
    assert {cost for cost in owner.history()["cost"] if cost} <= {"nothing"}


@pytest.mark.parametrize("intervals", [True, False])
def test_in_the_front_too(owner: duckdp.Curator, intervals: bool) -> None:
    con = owner.connect("ana")
    for text in BEYOND:
        call = f"FROM dp_query($${text}$$, epsilon := 1, intervals := {intervals})"
        with pytest.raises(Exception, match="Q203"):
            con.execute(call).fetchall()
    assert {cost for cost in owner.history()["cost"] if cost} <= {"nothing"}


def test_places_of_outputs_are_taken(owner: duckdp.Curator) -> None:
    for text in WITHIN:
        assert len(owner.session("ana").sql(text, epsilon=1)) > 0


def test_a_name_of_an_error_column_is_unknown(owner: duckdp.Curator) -> None:
    with pytest.raises(QueryError, match="n_low"):
        owner.session("ana").sql(f"SELECT n FROM {GROUPS} ORDER BY n_low", epsilon=1)


def test_without_the_check_they_would_be_answered(owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "require_positions", lambda *_: None)
    monkeypatch.setattr(outer_bars, "require_places", lambda *_: None)
    monkeypatch.setattr(outer_bars, "names_ordered_by", lambda _: frozenset())
    for text in (BEYOND[0], f"SELECT * FROM {GROUPS} ORDER BY 3", f"SELECT n FROM {GROUPS} ORDER BY n_low"):
        assert len(owner.session("ana").sql(text, epsilon=1)) > 0

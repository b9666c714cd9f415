"""TIMESTAMP WITH TIME ZONE columns are TIMESTAMPs in UTC, whatever the time zone of the process, from end to end."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import duckdp
from duckdp.compiler.printing import Parameters, print_column
from duckdp.errors import ParameterError, QueryError
from tests.gate import column

START, END = dt.datetime(2020, 1, 1), dt.datetime(2020, 12, 31)


@pytest.fixture(params=["UTC", "America/New_York"])
def curator(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[duckdp.Curator]:
    """1,200 visits, 100 on the first of each month at 00:30 UTC (the month before, in New York)."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    with duckdb.connect(str(tmp_path / "z.duckdb")) as con:
        con.execute("SET TimeZone = 'UTC'")
        con.execute(
            "CREATE TABLE visits AS SELECT CAST('2020-' || (1 + i % 12) || '-01 00:30:00+00' AS TIMESTAMPTZ) AS seen, "
            "i % 50 AS age FROM range(1200) r(i)"
        )
    with duckdp.open(str(tmp_path / "z.duckdb"), ledger=str(tmp_path / "z.ledger")) as opened:
        opened.protect("visits", row_cap=10_000, bounds={"seen": (START, END), "age": (0, 60)})
        opened.budget(epsilon=100)
        opened.grant("ana", epsilon=100)
        yield opened
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def test_a_monthly_series_is_complete_and_in_utc(curator: duckdp.Curator) -> None:
    ana = curator.session("ana")
    text = "SELECT date_trunc('month', seen) AS month, count(*) AS n FROM visits GROUP BY 1 ORDER BY 1"
    months = ana.sql(text, epsilon=50)
    assert list(months["month"]) == [dt.datetime(2020, m, 1) for m in range(1, 13)]
    assert all(abs(n - 100) < 30 for n in months["n"])
    assert "12 public values, from the bounds of seen" in str(ana.explain(text, epsilon=1))
    early = ana.sql("SELECT count(*) AS n FROM visits WHERE seen < TIMESTAMP '2020-02-01 00:30:00'", epsilon=10)
    assert abs(early["n"][0] - 100) < 30


def test_bounds_are_timestamps_on_every_face(curator: duckdp.Curator) -> None:
    found = curator.session("ana").bounds("visits", "seen", epsilon=10)
    assert [c.type for c in found.columns[:2]] == ["TIMESTAMP"] * 2
    with curator.connect("ana") as con:
        described = con.execute("FROM dp_bounds('visits', 'seen', epsilon := 10)").description
    assert [str(d[1]) for d in described[:4]] == [c.type for c in found.columns[:4]]
    assert str(found.arrow().schema.field(0).type) == "timestamp[us]"


def test_released_tables_hold_timestamps(curator: duckdp.Curator) -> None:
    ana = curator.session("ana")
    made = ana.synthesize("visits", epsilon=10, rows=50)
    assert all(isinstance(v, dt.datetime) and v.tzinfo is None and START <= v <= END for v in made["seen"])
    front = curator.connect("ana")
    stub = front.execute("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'visits'").fetchall()
    assert dict(stub)["seen"] == "TIMESTAMP"
    rows = front.execute("SELECT seen FROM dp_synthesize('visits', epsilon := 5, rows := 20)").fetchall()
    assert len(rows) == 20
    assert all(START <= seen <= END for (seen,) in rows)


def test_a_literal_with_an_offset_is_refused_with_its_instant_in_utc(curator: duckdp.Curator) -> None:
    ana, east = curator.session("ana"), dt.timezone(dt.timedelta(hours=1))
    for condition, given in (
        ("TIMESTAMPTZ '2020-03-01 01:15:00+01'", ()),
        ("'2020-03-01T01:15:00+01:00'", ()),
        ("TIMESTAMP WITH TIME ZONE '2020-03-01 01:15+01:00'", ()),
        ("CAST('2020-03-01 00:15Z' AS TIMESTAMPTZ)", ()),
        ("?", (dt.datetime(2020, 3, 1, 1, 15, tzinfo=east),)),
    ):
        with pytest.raises(QueryError, match=r"zone|offset") as refused:
            ana.sql(f"SELECT count(*) AS n FROM visits WHERE seen < {condition}", epsilon=10, parameters=given)
        way = "TIMESTAMP '2020-03-01 00:15:00'"
        assert f"Write the instant in UTC: {way}." in str(refused.value), condition
    found = ana.sql(f"SELECT count(*) AS n FROM visits WHERE seen < {way}", epsilon=10)
    assert abs(found["n"][0] - 200) < 30
    for text, way in (
        ("TIMESTAMPTZ '2020-03-01 01:15:00 Europe/Paris'", "Write a timestamp: TIMESTAMP '2020-01-31 12:00:00'."),
        ("TIMESTAMP '0001-01-01 00:00:00+05'", "Write a timestamp: TIMESTAMP '2020-01-31 12:00:00'."),
        ("seen::TIMESTAMPTZ", "write it without the cast."),
    ):
        with pytest.raises(QueryError) as refused:
            ana.sql(f"SELECT count(*) FROM visits WHERE seen = {text}", epsilon=1)
        assert str(refused.value).endswith(way), text


def test_bounds_with_an_offset_are_their_instants(tmp_path: Path) -> None:
    """In UTC for a column with a time zone; of a column without one they could be meant in two ways."""
    west = dt.timezone(dt.timedelta(hours=-5))
    with duckdb.connect() as con:
        con.execute("CREATE TABLE v (seen TIMESTAMPTZ, there TIMESTAMP)")
        with duckdp.open(con, ledger=tmp_path / "o.ledger") as owner:
            ends = dt.datetime(2020, 1, 1, tzinfo=west), "2020-12-31T00:00:00+01:00"
            owner.protect("v", row_cap=10, bounds={"seen": ends}, columns=["there"])
            kept = next(c for c in owner.table("v").columns if c.name == "seen")
            assert (kept.lower, kept.upper) == (dt.datetime(2020, 1, 1, 5), dt.datetime(2020, 12, 30, 23))
            for wrong in (ends, (dt.datetime(2020, 1, 1), ends[1])):
                with pytest.raises(ParameterError, match="has a time zone and the column has none") as refused:
                    owner.amend("v", bounds={"there": wrong})
                assert refused.value.code == "P104"
            owner.amend("v", bounds={"there": ("2020-01-01 00:00:00", "2020-12-31 00:00:00")})  # as the message has it
            for wrong in ((dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=5))), END), ("x", END)):
                with pytest.raises(ParameterError) as refused:
                    owner.amend("v", bounds={"seen": wrong})
                assert refused.value.code == "P104"


def test_every_instant_is_read(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("SET TimeZone = 'America/New_York'")
    values = (
        "infinity",
        "-infinity",
        "290309-12-22 (BC) 00:00:00+00",
        "294247-01-10 04:00:54.775806+00",
        "1970-01-01 00:00+14",
    )
    for bounds in ({}, {"lower": START, "upper": END}):
        shown = print_column(column("x", "TIMESTAMP WITH TIME ZONE", **bounds), Parameters(), "base")
        for value in values:
            found = con.execute(f"SELECT {shown} FROM (SELECT CAST('{value}' AS TIMESTAMPTZ) AS x) AS base").fetchone()
            assert found is not None
            assert isinstance(found[0], dt.datetime)

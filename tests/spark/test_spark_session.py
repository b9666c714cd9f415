"""A data set in Spark from ``duckdp.open`` to an analyst's answer: joins, links, refusals, faults, changed files."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp import owner as owners
from duckdp.core.reads import PrivateQuery
from duckdp.core.types import NANO
from duckdp.errors import DuckDPError
from duckdp.vault import part_work
from duckdp.vault.engine import Engine
from duckdp.vault.spark_engine import SparkEngine
from tests.spark.clusters import session, write_rows

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
SECRET = "Cassiopeia"
TABLES = {
    "visits": "SELECT CASE WHEN i % 97 = 0 THEN NULL ELSE i % 300 END::INTEGER AS pid, i::BIGINT AS vid, "
    "(i * 7 % 90)::INTEGER AS age, (i * 13 % 5000)::DOUBLE AS cost, ['F', 'M'][1 + i % 2] AS sex, "
    f"'{SECRET}' || i AS name FROM range(4000) AS r(i)",
    "drugs": "SELECT (i * 7 % 5000)::BIGINT AS visit, (i % 20)::DOUBLE AS dose FROM range(6000) AS r(i)",
    "people": "SELECT i::INTEGER AS pid, (i % 5)::INTEGER AS region FROM range(320) AS r(i)",
    "regions": "SELECT i::INTEGER AS region, 'r' || (i % 2) AS land FROM range(5) AS r(i)",
}


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with session() as found:
        yield found


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("rows")
    with duckdb.connect() as con:
        return {n: write_rows(folder / n, con.sql(sql).to_arrow_table()) for n, sql in TABLES.items()}


def declare(curator: duckdp.Curator) -> None:
    terms: dict[str, Any] = {"max_rows": 64, "row_cap": 10_000}
    bounds = {"age": (0, 110), "cost": (0, 5000)}
    curator.protect(
        "visits",
        unit_key="pid",
        bounds=bounds,
        domains={"sex": ["F", "M"]},
        columns=["vid", "name"],
        unique=["vid"],
        **terms,
    )
    curator.protect("drugs", link="visit -> visits.vid", bounds={"dose": (0, 20)}, **terms)
    curator.protect("people", unit_key="pid", domains={"region": list(range(5))}, **terms)
    curator.publish("regions")
    curator.budget(epsilon=50)
    curator.grant("ana", epsilon=50)


@pytest.fixture(scope="module")
def here(paths: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    files = {name: f"{path}/*.parquet" for name, path in paths.items()}
    with duckdp.open(files, ledger=str(tmp_path_factory.mktemp("here") / "a.ledger")) as curator:
        declare(curator)
        yield curator


@pytest.fixture(scope="module")
def there(spark: Any, paths: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    with duckdp.open(spark, tables=paths, ledger=str(tmp_path_factory.mktemp("there") / "a.ledger")) as curator:
        declare(curator)
        yield curator


STATEMENTS = [
    "SELECT count(*), count(DISTINCT pid), sum(cost), avg(age) FROM visits",
    "SELECT sex, count(*), sum(cost) FROM visits WHERE age > 40 GROUP BY sex",
    "SELECT sum(dose), count(*) FROM drugs",
    "SELECT sum(dose), count(*) FROM drugs JOIN visits ON drugs.visit = visits.vid WHERE age > 30",
    "SELECT region, sum(cost) FROM visits JOIN people ON visits.pid = people.pid GROUP BY region",
    "SELECT land, count(*) FROM people JOIN regions ON people.region = regions.region GROUP BY land",
    "SELECT count(*) FROM (SELECT pid, sum(cost) AS s FROM visits GROUP BY pid) WHERE s > 100",
]


@pytest.mark.parametrize("text", STATEMENTS)
def test_answers_rest_on_the_same_figures(
    text: str, here: duckdp.Curator, there: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of one machine, before the noise: nothing is cut by ``max_rows`` here, so no secret draw differs."""
    found: dict[str, list[Any]] = {"here": [], "there": []}
    run, combined = Engine.run, SparkEngine._combined

    def run_noted(self: Engine, query: PrivateQuery, charge: Any) -> Iterator[Any]:
        rows = list(run(self, query, charge))
        found["here"].append(sorted(query.combine([rows]), key=repr))
        yield from rows

    def combined_noted(self: SparkEngine, *given: Any) -> Iterator[Any]:
        rows = list(combined(self, *given))
        found["there"].append(sorted(rows, key=repr))
        yield from rows

    monkeypatch.setattr(Engine, "run", run_noted)
    monkeypatch.setattr(SparkEngine, "_combined", combined_noted)
    here.session("ana").sql(text, epsilon=0.5)
    there.session("ana").sql(text, epsilon=0.5)
    assert found["here"] == found["there"] != []


def test_a_summary_answers_free(there: duckdp.Curator) -> None:
    ana = there.session("ana")
    ana.smooth_summary("visits", ["age", "cost"], epsilon=1, smoothness=2, name="ac")
    assert ana.smooth_answer("ac", "age / 110") is not None


def test_what_is_of_all_rows_is_refused_before_a_charge(there: duckdp.Curator) -> None:
    ana = there.session("ana")
    before = str(ana.budget())
    for ask in (
        lambda: ana.quantiles("visits", "age", [0.5], epsilon=1, method="exponential"),
        lambda: ana.median_smooth("visits", "age", epsilon=1, delta="1e-9"),
    ):
        with pytest.raises(DuckDPError) as caught:
            ask()
        assert caught.value.code == "Q405"
    assert str(ana.budget()) == before
    way_out = ana.quantiles("visits", "age", [0.5], epsilon=1, method="tree")
    assert 20 < way_out.columns[-1].values[0] < 70
    assert any("tree" in line for line in str(ana.explain_quantiles("visits", "age", [0.5], epsilon=1)).splitlines())


def test_a_read_that_fails_keeps_its_charge_and_says_nothing(
    there: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, text = there.session("ana"), "SELECT count(*) FROM visits WHERE age > 41"

    def fails() -> int:
        raise ValueError(SECRET)

    before = ana.budget()
    with monkeypatch.context() as patch:
        patch.setattr(part_work, "_number_of_task", fails)
        with pytest.raises(DuckDPError) as caught:
            ana.sql(text, epsilon=0.5)
    assert caught.value.code == "E101"
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    after = ana.budget()
    assert str(before) != str(after)
    assert ana.sql(text, epsilon=0.5).columns
    assert str(ana.budget()) == str(after)  # redeemed: the same charge


def test_an_interrupt_ends_the_work_in_spark(
    there: duckdp.Curator, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, text = there.session("ana"), "SELECT count(*) FROM visits WHERE age > 42"

    def sleeps() -> int:
        import time

        time.sleep(120)
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(part_work, "_number_of_task", sleeps)
        timer = threading.Timer(6.0, there.engine.interrupt)
        timer.start()
        begun = time.monotonic()
        with pytest.raises(DuckDPError) as caught:
            ana.sql(text, epsilon=0.5)
        timer.join()
    assert caught.value.code == "E102"
    assert time.monotonic() - begun < 60
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
    spent = str(ana.budget())
    assert ana.sql(text, epsilon=0.5).columns
    assert str(ana.budget()) == spent


def test_explain_says_how_a_read_runs_and_what_is_refused(there: duckdp.Curator) -> None:
    before = there.ledger.count_charges()
    explained = {text: str(there.session("ana").explain(text, epsilon=0.5)) for text in (STATEMENTS[3], STATEMENTS[5])}
    assert "parts by a hash of the unit's key" in explained[STATEMENTS[3]]
    assert "drugs: its unit's key comes by a join with visits" in explained[STATEMENTS[3]]
    assert "regions: public, all of its rows go to each part" in explained[STATEMENTS[5]]
    refused = str(there.session("ana").explain("SELECT count(DISTINCT name) FROM visits", epsilon=0.5))
    assert "refused before its charge: Q405" in refused
    assert there.ledger.count_charges() == before


DIES = """
import os, sys
import duckdp
from duckdp.vault.spark_engine import SparkEngine
from tests.spark.clusters import session
from tests.spark.test_spark_session import people
mapped = SparkEngine._mapped
class Dies:
    def __init__(self, frame):
        self.frame = frame
    def collect(self):
        self.frame.collect()
        os._exit(9)
with session() as spark, duckdp.open(spark, tables={"people": sys.argv[1]}, ledger=sys.argv[2]) as owner:
    ana = people(owner)
    SparkEngine._mapped = lambda self, frame, work: Dies(mapped(self, frame, work))
    ana.sql("SELECT count(*) FROM people", epsilon=0.5)
"""


def people(owner: duckdp.Curator) -> Any:
    owner.protect("people", unit_key="pid", max_rows=5, row_cap=10_000)
    owner.budget(epsilon=1)
    owner.grant("ana", epsilon=1)
    return owner.session("ana")


def test_a_driver_that_dies_with_the_figures_in_hand_leaves_one_charge_that_is_redeemed(
    spark: Any, paths: dict[str, str], tmp_path: Path
) -> None:
    ledger = str(tmp_path / "a.ledger")
    command = [sys.executable, "-c", DIES, paths["people"], ledger]
    path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), *filter(None, sys.path)])
    died = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, check=False, capture_output=True)
    assert died.returncode == 9, died.stderr[-2000:]
    with duckdp.open(spark, tables={"people": paths["people"]}, ledger=ledger) as owner:
        (charge,) = owner.ledger.charges()
        assert (charge.state, charge.attempt) == ("open", 1)
        assert people(owner).sql("SELECT count(*) FROM people", epsilon=0.5).rows()
        (charge,) = owner.ledger.charges()
        assert (charge.state, charge.attempt) == ("released", 2)
        assert owner.ledger.state().primary_spent == NANO // 2


def test_keys_that_repeat_are_seen(spark: Any, tmp_path: Path) -> None:
    rows = {
        "t": pa.table({"pid": [1, 2, None, None], "k": [5, 5, 7, 7]}),
        "u": pa.table({"pid": [1, 2, None, None], "k": [5, 6, 7, 7]}),
    }
    paths = {name: write_rows(tmp_path / name, part, 1) for name, part in rows.items()}
    with duckdp.open(spark, tables=paths, ledger=str(tmp_path / "a.ledger")) as curator:
        with pytest.raises(DuckDPError) as caught:
            curator.protect("t", unit_key="pid", max_rows=1, row_cap=10, unique=["k"])
        assert caught.value.code == "C105"
        assert curator.protect(
            "u", unit_key="pid", max_rows=1, row_cap=10, unique=["k"]
        )  # rows without a unit do not count
        with pytest.raises(DuckDPError) as caught:
            owners.profile(curator, "u", exact=True)
        assert caught.value.code == "C108"


def test_views_and_frames_choose_rows_of_files(spark: Any, paths: dict[str, str], tmp_path: Path) -> None:
    frame = spark.read.parquet(paths["visits"])
    frame.createOrReplaceTempView("all_visits")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW old AS SELECT pid, age FROM all_visits WHERE age > 80 AND sex = 'F'")
    tables = {
        "old": "old",
        "young": frame.where("age < 10").select("pid", "age"),
        "given": spark.createDataFrame(pa.table({"x": [1, 2]})),
    }
    with duckdp.open(spark, tables=tables, ledger=str(tmp_path / "a.ledger")) as curator:
        for name in ("old", "young"):
            curator.protect(name, unit_key="pid", max_rows=64, row_cap=10_000, bounds={"age": (0, 110)})
        curator.budget(epsilon=50)
        curator.grant("ana", epsilon=50)
        ana = curator.session("ana")
        with duckdb.connect() as con:
            for name, chosen in (("old", "age > 80 AND sex = 'F'"), ("young", "age < 10")):
                sql = f"SELECT count(DISTINCT pid) FROM '{paths['visits']}/*.parquet' WHERE {chosen}"
                ((units,),) = con.execute(sql).fetchall()
                noisy = ana.sql(f"SELECT count(DISTINCT pid) FROM {name}", epsilon=5).columns[0].values[0]
                assert abs(noisy - units) < 12  # seldom false: once in 10^25


def test_what_follows_from_more_than_one_stored_row_is_refused(
    spark: Any, paths: dict[str, str], tmp_path: Path
) -> None:
    from pyspark.sql import functions as f

    frame = spark.read.parquet(paths["visits"])
    frame.createOrReplaceTempView("v")
    plus = f.udf(lambda x: x, "int")
    wrong = [
        frame.limit(5),
        frame.sample(0.5),
        frame.orderBy("age"),
        frame.distinct(),
        frame.groupBy("pid").count(),
        frame.join(frame.select("pid"), "pid"),
        frame.withColumn("n", f.rand()),
        frame.withColumn("n", f.current_timestamp()),
        frame.where("age > (SELECT min(age) FROM v)"),
        frame.withColumn("n", plus("age")),
        spark.sql("SELECT *, row_number() OVER (PARTITION BY pid ORDER BY age) AS n FROM v"),
        spark.range(5),
        spark.createDataFrame([(1, 2)], "a INT, b INT"),
        "no_such_table",
        str(tmp_path / "nothing.parquet"),
    ]
    for part in wrong:
        with pytest.raises(DuckDPError) as caught:
            duckdp.open(spark, tables={"t": part}, ledger=str(tmp_path / "a.ledger"))
        assert caught.value.code == "C108"


def refused_at_opening(spark: Any, part: Any, folder: Path) -> None:
    with pytest.raises(DuckDPError) as caught:
        duckdp.open(spark, tables={"t": part}, ledger=str(folder / "a.ledger"))
    assert caught.value.code == "C108", part


def test_a_stored_row_is_read_once(spark: Any, paths: dict[str, str], tmp_path: Path) -> None:
    path, other = paths["visits"], paths["people"]
    frame, given = spark.read.parquet(path), spark.createDataFrame(pa.table({"x": [1, 2]}))
    frame.createOrReplaceTempView("once")
    wrong = [
        frame.union(frame),
        frame.union(spark.read.parquet(f"{path}/0.parquet")),
        frame.where("age < 5").union(spark.table("once")),
        spark.sql("SELECT pid FROM once UNION ALL SELECT pid FROM once"),
        given.union(given),
        spark.sql("SELECT pid, explode(array(1, 2)) AS x FROM once"),
        spark.sql("SELECT a.pid FROM once AS a CROSS JOIN (SELECT 1 AS n UNION ALL SELECT 2) AS b"),
        spark.sql("SELECT pid, sex, count(*) FROM once GROUP BY GROUPING SETS ((pid), (sex))"),
        frame.select("pid", "age").unpivot("pid", "age", "n", "v"),
        frame.repartition(3),
        [path, path],
        [path, f"{path}/0.parquet"],
        [f"{path}/*.parquet", f"{path}/1.parquet"],
        [path, f"{path}/../{Path(path).name}"],
    ]
    for part in wrong:
        refused_at_opening(spark, part, tmp_path)
    apart = {"t": frame.select("pid").union(spark.read.parquet(other).select("pid")), "u": [path, f"{path}/"][:1]}
    duckdp.open(spark, tables=apart, ledger=str(tmp_path / "b.ledger")).close()


def test_tables_of_the_catalog_are_pinned(spark: Any, tmp_path: Path) -> None:
    rows = spark.createDataFrame(pa.table({"x": [1.0] * 60, "p": [i % 2 for i in range(60)]}))
    rows.write.partitionBy("p").option("path", str(tmp_path / "p")).saveAsTable("parted")
    rows.write.option("path", str(tmp_path / "w")).saveAsTable("whole")
    rows.write.format("orc").option("path", str(tmp_path / "o")).saveAsTable("orcs")
    try:
        refused_at_opening(spark, "parted", tmp_path)
        refused_at_opening(spark, "orcs", tmp_path)
        duckdp.open(spark, tables={"t": str(tmp_path / "p")}, ledger=str(tmp_path / "p.ledger")).close()
        with duckdp.open(spark, tables={"t": "whole"}, ledger=str(tmp_path / "w.ledger")) as curator:
            curator.protect("t", row_cap=1000, bounds={"x": (0, 1)})
            curator.budget(epsilon=50)
            curator.grant("ana", epsilon=50)
            ana = curator.session("ana")
            assert ana.sql("SELECT count(*) FROM t", epsilon=5).columns
            rows.write.mode("append").saveAsTable("whole")
            with pytest.raises(DuckDPError, match="C104"):
                ana.sql("SELECT sum(x) FROM t", epsilon=5)
            curator.refresh(reason="more rows")
            assert 110 < ana.sql("SELECT sum(x) FROM t", epsilon=20).columns[0].values[0] < 130
    finally:
        for name in ("parted", "whole", "orcs"):
            spark.sql(f"DROP TABLE {name}")


def test_rows_of_a_cache_are_not_read(spark: Any, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t", pa.table({"x": [1.0] * 50}), 2)
    frame = spark.read.parquet(path)
    with duckdp.open(spark, tables={"t": frame, "u": path}, ledger=str(tmp_path / "b.ledger")) as curator:
        curator.protect("t", row_cap=100, bounds={"x": (0, 1)})
        curator.budget(epsilon=50)
        curator.grant("ana", epsilon=50)
        frame.cache()
        try:
            refused_at_opening(spark, frame, tmp_path)
            refused_at_opening(spark, frame.where("x > 0"), tmp_path)
            duckdp.open(spark, tables={"t": path}, ledger=str(tmp_path / "c.ledger")).close()  # read from its files
            with pytest.raises(DuckDPError, match="C104"):
                curator.session("ana").sql("SELECT sum(x) FROM t", epsilon=5)
        finally:
            frame.unpersist()
        assert curator.session("ana").sql("SELECT sum(x) FROM t", epsilon=5).columns


def test_a_part_that_is_missing_ends_the_read(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a row is the unit, and the number of parts follows from the files."""
    path = write_rows(tmp_path / "t", pa.table({"x": [1.0] * 50}), 2)
    with duckdp.open(spark, tables={"t": path}, ledger=str(tmp_path / "a.ledger")) as curator:
        curator.protect("t", row_cap=100, bounds={"x": (0, 1)})
        curator.budget(epsilon=50)
        curator.grant("ana", epsilon=50)
        assert curator.session("ana").sql("SELECT count(*) FROM t", epsilon=5).columns
        mapped = SparkEngine._mapped
        with monkeypatch.context() as patch:
            patch.setattr(SparkEngine, "_mapped", lambda self, *given: mapped(self, *given).where("part > 0"))
            with pytest.raises(DuckDPError, match="X101"):
                curator.session("ana").sql("SELECT sum(x) FROM t", epsilon=5)


def test_changed_files_are_seen(spark: Any, tmp_path: Path) -> None:
    rows, ledger = pa.table({"x": [1.0] * 50}), str(tmp_path / "a.ledger")
    path = write_rows(tmp_path / "t", rows, 2)
    with duckdp.open(spark, tables={"t": path}, ledger=ledger) as curator:
        curator.protect("t", row_cap=100, bounds={"x": (0, 1)})
        curator.budget(epsilon=50)
        curator.grant("ana", epsilon=50)
        ana = curator.session("ana")
        assert ana.sql("SELECT count(*) FROM t", epsilon=5).columns
        pa.parquet.write_table(pa.table({"x": [1.0] * 60}), f"{path}/0.parquet")
        with pytest.raises(DuckDPError) as caught:
            ana.sql("SELECT sum(x) FROM t", epsilon=5)
        assert caught.value.code == "C104"
        curator.refresh(reason="new rows")
        assert 75 < ana.sql("SELECT sum(x) FROM t", epsilon=20).columns[0].values[0] < 95
    with closing(duckdp.open(spark, tables={"t": path}, ledger=ledger)) as again:
        assert again.session("ana").sql("SELECT sum(x) FROM t", epsilon=20).columns


def test_damaged_rows_are_refused_at_the_opening(spark: Any, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t", pa.table({"good": ["a"] * 9, "bad": ["b"] * 9}), 1)
    file = Path(path) / "0.parquet"
    file.write_bytes(file.read_bytes().replace(b"\x01\x00\x00\x00b", b"\x01\x00\x00\x00\xff"))
    with pytest.raises(DuckDPError) as caught:
        duckdp.open(spark, tables={"t": path}, ledger=str(tmp_path / "a.ledger"))
    assert caught.value.code == "C108"
    assert "bad" in str(caught.value)

"""What may be a source in Spark: each stored row once, of files that are known; changes, damage, caches."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp import owner as owners
from duckdp.errors import DuckDPError
from duckdp.vault.spark_engine import SparkEngine
from tests.spark.clusters import write_rows

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


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


@pytest.mark.parametrize("looks", [True, False])
def test_a_source_that_changes_while_it_is_read_gives_no_answer(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: bool
) -> None:
    """Rows that are moved from file to file meanwhile may be read twice; who looks before the charge alone answers."""
    rows = pa.table({"x": [1.0] * 50})
    path = write_rows(tmp_path / "t", rows, 2)
    with duckdp.open(spark, tables={"t": path}, ledger=str(tmp_path / "a.ledger")) as curator:
        curator.protect("t", row_cap=100, bounds={"x": (0, 1)})
        curator.budget(epsilon=50)
        curator.grant("ana", epsilon=50)
        collected = SparkEngine._collected

        def moving(*given: Any) -> Any:
            found = collected(*given)
            shutil.copy(f"{path}/0.parquet", f"{path}/1.parquet")
            return found

        monkeypatch.setattr(SparkEngine, "_collected", moving)
        if not looks:
            monkeypatch.setattr(SparkEngine, "_require_unchanged", lambda *_: None)
            assert curator.session("ana").sql("SELECT sum(x) FROM t", epsilon=5).columns
            return
        with pytest.raises(DuckDPError, match=r"C104: .* Charge 1 stays spent"):
            curator.session("ana").sql("SELECT sum(x) FROM t", epsilon=5)
        assert [charge.state for charge in curator.ledger.charges()] == ["failed"]

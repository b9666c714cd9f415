"""What Spark is told and given, without Spark: the work of a part, whose rows are whose, refusals before a charge.

The tests on Spark itself are in ``spark/`` (slow; they need Java and ``pip install '.[spark-test]'``).
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner

import duckdp
from duckdp.catalog.link import Link
from duckdp.catalog.table import Table
from duckdp.cli import main
from duckdp.compiler.emit import emit
from duckdp.compiler.quantile_methods import choose
from duckdp.compiler.quantile_tree import TreeQuantilesTask
from duckdp.core.reads import PrivateQuery
from duckdp.core.types import NANO, Neighbours
from duckdp.errors import DuckDPError, QueryError
from duckdp.ledger.files import default_ledger
from duckdp.vault import part_work
from duckdp.vault.engine import CONFIG, Engine
from duckdp.vault.opening import with_tables
from duckdp.vault.part_work import FAILED, PLACE, TAG, Given, PartWork, packed, read_part, unpacked
from duckdp.vault.spark_parts import Owner, named_in, owners_of, part_count, told
from duckdp.vault.spark_plans import require_once
from duckdp.vault.spark_source import SparkTables, duckdb_type, is_spark
from tests.gate import clinic, plan_for
from tests.privacy import test_parts as whole_and_parts
from tests.privacy.draws import TASKS, connect

ROWS = whole_and_parts.mixed_rows()
NAMES = ("pid", *(c.name for c in clinic().columns))
TYPES = ("INTEGER", *(c.type for c in clinic().columns))


@pytest.fixture(scope="module")
def whole() -> duckdb.DuckDBPyConnection:
    return connect(ROWS)


def work_for(query: PrivateQuery, *, placed: bool, version: str = duckdb.__version__) -> PartWork:
    columns = tuple((f'"{n}"', t) for n, t in zip(NAMES, TYPES, strict=True))
    sent = tuple(f"c0_{i}" for i in range(len(NAMES)))
    return PartWork(
        sql=query.sql.replace('"memory"."main"', '"src"."main"'),
        parameters=query.parameters,
        arrays=query.arrays,
        catalog='"src"',
        tables=(Given(place='"src"."main"."clinic"', columns=columns, sent=sent),),
        config=dict(CONFIG),
        memory="1GB",
        version=version,
        placed=placed,
    )


def batches(con: duckdb.DuckDBPyConnection, part: int, size: int = 37) -> list[pa.RecordBatch]:
    rows = con.sql("FROM clinic").to_arrow_table().rename_columns([f"c0_{i}" for i in range(len(NAMES))])
    rows = rows.append_column(PLACE, pa.array([part] * rows.num_rows, pa.int32()))
    return rows.to_batches(max_chunksize=size)  # type: ignore[no-any-return]


def rows_in(batch: pa.RecordBatch) -> list[Any]:
    return unpacked(batch.column(3)[0].as_py())


CASES = [(kind, case) for kind, cases in TASKS.items() for case in cases[:1] if kind.__name__ not in ("TreeTask",)]


FAST = ("SelectTask", "BinCounts", "GroupedTask")  # the others: on Spark itself, and here where it is slow


@pytest.mark.parametrize(
    ("kind", "case"),
    [pytest.param(k, c, id=k.__name__, marks=[] if k.__name__ in FAST else pytest.mark.slow) for k, c in CASES[::3]],
)
def test_the_work_of_parts_is_the_read(kind: type, case: Any, whole: duckdb.DuckDBPyConnection) -> None:
    """As workers make it, from batches, in parts that hold their units whole."""
    run = whole_and_parts.perform(case.make(), partial(whole_and_parts.rows_of, whole))
    table = whole_and_parts.task_table(case.make())
    parts = whole_and_parts.split(ROWS, random.Random(3), 3, keyed=table.unit_key is not None)
    cons = [connect(rows) for rows in parts]
    for query in run.asked[:2]:
        if query.parts.known:
            work = work_for(query, placed=True)
            given = [
                [row for b in packed(read_part(work, iter(batches(con, n)), n), n) for row in rows_in(b)]
                for n, con in enumerate(cons)
            ]
            whole_and_parts.check(query, whole_and_parts.rows_of(whole, query), given)


def count_query() -> PrivateQuery:
    return emit(plan_for("SELECT count(*), sum(age) FROM clinic", clinic()), 7)


def test_a_row_of_another_part_ends_the_work(whole: duckdb.DuckDBPyConnection) -> None:
    work, given = work_for(count_query(), placed=True), batches(whole, 2)
    assert list(read_part(work, iter(given), 2))
    astray = [given[0], *batches(whole, 1)[:1]]
    unknown = [b.set_column(b.num_columns - 1, PLACE, pa.nulls(b.num_rows, pa.int32())) for b in given[:1]]
    for wrong in (astray, unknown):
        with pytest.raises(RuntimeError, match=FAILED):
            list(read_part(work, iter(wrong), 2))
    twin = replace(work, placed=False)  # who does not look sees nothing
    assert list(read_part(twin, iter(astray), 2))


def test_another_version_of_duckdb_ends_the_work(whole: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(RuntimeError, match=FAILED):
        list(read_part(work_for(count_query(), placed=True, version="1.0.0"), iter(batches(whole, 0)), 0))


def test_what_fails_on_a_worker_says_nothing(whole: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB quotes the value that it cannot cast; what leaves the worker is one constant text."""
    monkeypatch.setattr(part_work, "_number_of_task", lambda: 0)
    failing = replace(count_query(), sql='SELECT CAST(name AS INTEGER) FROM "memory"."main"."clinic"')
    work = work_for(failing, placed=True)
    for reader in (part_work.part_reader, part_work.text_reader):
        with pytest.raises(RuntimeError) as caught:
            list(reader(work)(iter(batches(whole, 0))))
        assert str(caught.value) == FAILED
        assert caught.value.__cause__ is None
        assert not isinstance(caught.value.__context__, duckdb.Error)  # which would be printed with it
    with pytest.raises(duckdb.Error, match="Could not convert"):  # the broken twin: what is not wrapped quotes a row
        list(read_part(work, iter(batches(whole, 0)), 0))


def test_tables_that_come_together_are_told_apart() -> None:
    rows = pa.table(
        {TAG: pa.array([0, 1, 1], pa.int8()), "c0_0": pa.array([1, None, None]), "c1_0": pa.array([None, 5, 7])}
    )
    tables = (
        Given(place='"src"."main"."a"', columns=(('"x"', "BIGINT"),), sent=("c0_0",)),
        Given(place='"src"."main"."p"', columns=(('"q""r"', "VARCHAR"),), rows=_stream({"0": ["public"]})),
        Given(place='"src"."main"."b"', columns=(('"y"', "BIGINT"),), sent=("c1_0",)),
    )
    work = replace(work_for(count_query(), placed=False), tables=tables, parameters=())
    sums = [f'(SELECT sum({c}) FROM "src"."main"."{t}")' for c, t in (("x", "a"), ("y", "b"))]
    sql = f'SELECT {", ".join(sums)}, p."q""r" FROM "src"."main"."p" AS p'
    assert list(read_part(replace(work, sql=sql), iter(rows.to_batches()), 0)) == [[(1, 12, "public")]]


def _stream(columns: dict[str, list[Any]]) -> bytes:
    rows, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("count", [0, 1, 3])
def test_what_is_packed_is_numbered_and_ends(count: int) -> None:
    lists = [[(i, 2**100, None)] for i in range(count)]
    found = [b.to_pylist()[0] for b in packed(iter(lists), 4)]
    assert [(b["part"], b["number"], b["last"]) for b in found] == [
        (4, i, i == max(count, 1) - 1) for i in range(max(count, 1))
    ]
    assert [row for b in found for row in unpacked(b["rows"])] == [row for rows in lists for row in rows]


# ---- whose rows are whose


def tables() -> dict[str, Table]:
    parent = clinic(name="people", relation=("src", "main", "people"), unique=("visits",), null_units=(0,))
    child = clinic(
        name="drugs",
        relation=("src", "main", "drugs"),
        link=Link(column="level", type="INTEGER", key="visits", parent=parent),
    )
    return {"parent": parent, "child": child, "other": replace(parent, unit_key="level")}


def test_owners_follow_links() -> None:
    known = tables()
    owner = Owner(key="pid", null_units=(0,))
    people = ("src", "main", "people")
    assert owners_of([known["child"]]) == {
        people: owner,
        ("src", "main", "drugs"): Owner(key="level", parent=(people, "visits", owner)),
    }


def test_what_cannot_be_cut_is_refused() -> None:
    """Two keys on one relation, units of different kinds, rows beside persons: no part holds both whole."""
    known = tables()
    text = replace(known["parent"], relation=("src", "main", "t"), unit_type="VARCHAR")
    rows = clinic(unit_key=None)
    for two in ((known["parent"], known["other"]), (known["parent"], text), (known["parent"], rows)):
        with pytest.raises(QueryError) as caught:
            owners_of(two)
        assert caught.value.code == "Q405"
    assert owners_of((known["parent"], known["parent"]))
    assert owners_of([rows]) == {rows.relation: Owner(key=None)}


def test_how_tables_are_read_is_told() -> None:
    known = tables()
    lines = told([replace(known["child"], row_cap=5_000_000)], 2)
    assert lines[0].startswith("  engine: Apache Spark, ") and " parts by a hash of the unit's key" in lines[0]
    assert lines[1:] == ["    drugs: its unit's key comes by a join with people"]
    (row_units,) = told([clinic(unit_key=None)], 2)
    assert "in the parts that their files give" in row_units
    (both,) = told([known["parent"], known["other"]], 2)
    assert both.startswith("  engine: Apache Spark; refused: Q405: ")


def test_explain_names_the_engine_where_it_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with duckdp.open({"t": pa.table({"x": [1, 2]})}, ledger=str(tmp_path / "a.ledger")) as owner:
        owner.protect("t", bounds={"x": (0, 9)}, row_cap=10)
        owner.budget(epsilon=1)
        owner.grant("ana", epsilon=1)
        ask = partial(owner.session("ana").explain, "SELECT count(*) FROM t WHERE x > 1", epsilon=0.1)
        assert "engine" not in str(ask())
        monkeypatch.setattr(Engine, "told", lambda engine, task, salt, tables: told(tables, 2))
        assert "engine: Apache Spark" in str(ask())
        assert owner.ledger.count_charges() == 0


def test_parts_follow_from_public_figures() -> None:
    assert part_count([clinic(row_cap=10)], 2) == 2
    assert part_count([clinic(row_cap=10**8)], 2) == 100
    assert part_count([clinic(row_cap=10**12)], 2) == 10_000


def test_a_relation_is_found_by_how_it_is_printed() -> None:
    sql = 'SELECT count(*) FROM "src"."main"."a ""b" AS base'
    assert named_in(sql, ("src", "main", 'a "b'))
    assert not named_in(sql, ("src", "main", "a "))
    assert not named_in(sql, ("src", "main", "b"))


# ---- what is opened


def test_a_file_that_is_read_twice_is_refused(tmp_path: Path) -> None:
    """By whatever names: one stored row would count as two."""
    (tmp_path / "a b.parquet").write_bytes(b"x")
    (tmp_path / "soft.parquet").symlink_to(tmp_path / "a b.parquet")
    (tmp_path / "hard.parquet").hardlink_to(tmp_path / "a b.parquet")
    (tmp_path / "other.parquet").write_bytes(b"x")
    a = f"file://{tmp_path}/a%20b.parquet"
    twice = [[a, f"file://{tmp_path}/{n}.parquet"] for n in ("soft", "hard", "a%20b")]
    twice += [["hdfs://n/a", "hdfs://n/b", "hdfs://n/a"], ["hdfs://n/a", "hdfs://n:8020/b"], ["s3a://n/a", "s3://n/b"]]
    for files in twice:
        with pytest.raises(DuckDPError) as caught:
            require_once("t", files)
        assert caught.value.code == "C108"
    with pytest.raises(DuckDPError, match="C108"):
        require_once("t", [], local=2)
    require_once("t", [a, f"file://{tmp_path}/other.parquet"], local=1)
    require_once("t", ["hdfs://n/a", "hdfs://n/b"])


def test_workers_spill_into_the_folders_of_their_executor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: duckdb.DuckDBPyConnection
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert part_work.spill_folder(1) is None
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},{tmp_path}/gone")
    assert [part_work.spill_folder(n) for n in (0, 1)] == [str(tmp_path)] * 2
    folder = replace(count_query(), sql="SELECT current_setting('temp_directory')", parameters=())
    (((used,),),) = read_part(work_for(folder, placed=True), iter(batches(whole, 0)), 0)
    assert Path(used).parent == tmp_path
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("spark", "ours"),
    [("int", "INTEGER"), ("decimal(38,6)", "DECIMAL(38,6)"), ("timestamp", "TIMESTAMP WITH TIME ZONE")]
    + [
        (t, "BLOB") for t in ("binary", "array<int>", "string collate UTF8_LCASE", "map<string,int>", "void", "variant")
    ],
)
def test_types_without_the_same_values_are_read_by_no_question(spark: str, ours: str) -> None:
    assert duckdb_type(spark) == ours


def test_spark_is_named_with_its_tables(tmp_path: Path) -> None:
    ledger = str(tmp_path / "a.ledger")
    session = type("SparkSession", (), {"__module__": "pyspark.sql.session"})()
    assert is_spark(session)
    assert is_spark("spark://host:7077")
    assert not is_spark("rows.duckdb")
    rows = {"t": pa.table({"x": [1]})}
    cases: Iterator[tuple[object, dict[str, Any]]] = iter(
        [
            (session, {}),
            (session, {"tables": {}}),
            (rows, {"tables": {"t": "t.parquet"}}),
            (session, {"tables": {"t": "t.parquet"}, "snapshot": True}),
            (session, {"tables": {"t": "t.parquet"}, "memory": "4GB"}),
            ("spark://host:7077", {}),
            *(
                (f"spark://host:7077?{words}", {})
                for words in ("", "t", "t=", "=t", "t=a&t=b", "t=a&T=b", "t=a&&u=b", "t=%00")
            ),
        ]
    )
    for data, given in cases:
        with pytest.raises(DuckDPError) as caught:
            duckdp.open(data, ledger=ledger, **given)
        assert caught.value.code == "P107"


def test_an_address_names_its_tables(tmp_path: Path) -> None:
    found = with_tables("spark://host:7077?visits=s3a://clinic/a%26b/&people=people", None)
    assert found == SparkTables("spark://host:7077", {"visits": "s3a://clinic/a&b/", "people": "people"})
    with pytest.raises(DuckDPError) as caught:
        default_ledger("spark://host:7077?visits=visits.parquet", None)
    assert caught.value.code == "P107"
    for address in ("spark://dp:secret@host:7077?visits=a", "spark://?visits=a"):
        with pytest.raises(DuckDPError) as caught:
            with_tables(address, None)
        assert caught.value.code == "P107"
        assert "secret" not in str(caught.value)
    runner = CliRunner()
    address, ledger = "spark://host:7077?t=t.parquet", "postgresql://dp@db.example.org/b"
    said = runner.invoke(main, ["user", "list", address, "--ledger", ledger])
    assert said.exit_code == 1
    assert "--users FILE" in said.stderr
    users = str(tmp_path / "a.users")
    told = [*("--ledger", ledger), "--users", users]
    assert (
        runner.invoke(main, ["user", "add", address, "ana", "--password-stdin", *told], input="right horse\n").exit_code
        == 0
    )
    assert runner.invoke(main, ["user", "list", address, *told]).stdout == "ana\n"


@pytest.mark.slow
def test_opening_other_sources_imports_no_spark(tmp_path: Path) -> None:
    code = """
import sys
import duckdp, pyarrow as pa
duckdp.open({"t": pa.table({"x": [1]})}, ledger=sys.argv[1])
assert "duckdp.vault.spark_engine" not in sys.modules
assert not [name for name in sys.modules if name.startswith("pyspark")]
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.ledger")], check=True)


def test_quantiles_come_from_a_tree_where_rows_are_in_parts() -> None:
    given: dict[str, Any] = {"epsilon_nano": NANO, "neighbours": Neighbours.ADD_REMOVE, "intervals": True}
    chosen = choose(clinic(), "age", [0.5], None, method="auto", parts_only=True, **given)
    assert isinstance(chosen.plan, TreeQuantilesTask)
    assert not isinstance(
        choose(clinic(), "age", [0.5], None, method="exponential", parts_only=True, **given).plan, TreeQuantilesTask
    )

"""An analyst's DuckDB holds no private row and reaches nothing outside: statements that try."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.adversary.conftest import World, leaks

ESCAPES = """
FROM read_csv('{file}')
SELECT * FROM read_text('{text}')
SELECT * FROM read_blob('{file}')
FROM read_parquet('{file}')
FROM read_json('{text}')
FROM '{file}'
FROM '{text}'
FROM glob('{folder}/*')
FROM sniff_csv('{text}')
FROM parquet_metadata('{file}')
ATTACH '{file}' AS clinic (READ_ONLY)
ATTACH '{file}'
ATTACH ':memory:' AS other
ATTACH '{folder}/made.duckdb'
USE clinic
FROM clinic.main.visits
FROM src.main.visits
FROM "src"."main"."visits"
COPY (SELECT 1) TO '{folder}/made.csv'
COPY (SELECT 1) TO ':memory:' (FORMAT csv)
COPY (SELECT 1) TO '{folder}/cwd/:memory:.wal' (FORMAT csv)
COPY (SELECT 1) TO ':memory:.wal.recovery' (FORMAT csv)
FROM read_text('{folder}/cwd/:memory:')
COPY visits TO '{folder}/made.parquet'
COPY (SELECT 1) TO '{folder}/made.parquet' (FORMAT parquet)
EXPORT DATABASE '{folder}/made'
IMPORT DATABASE '{folder}'
INSTALL httpfs
LOAD httpfs
LOAD '{file}'
FORCE INSTALL json FROM '{folder}'
CREATE SECRET s (TYPE s3, KEY_ID 'x')
CREATE PERSISTENT SECRET s (TYPE http)
SET enable_external_access = true
SET allow_unsigned_extensions = true
SET GLOBAL enable_external_access = true
RESET enable_external_access
SET lock_configuration = false
SET memory_limit = '100GB'
SET temp_directory = '{folder}'
SET secret_directory = '{folder}'
SET extension_directory = '{folder}'
SET home_directory = '{folder}'
SET file_search_path = '{folder}'
SET python_enable_replacements = true
SET python_scan_all_frames = true
SET allowed_directories = ['{folder}']
SET log_query_path = '{folder}/made.log'
SET profiling_output = '{folder}/made.json'
SET custom_extension_repository = '{folder}'
SET threads = 64
PRAGMA profiling_output = '{folder}/made.json'
PRAGMA enable_profiling = 'json'
PRAGMA database_size
PRAGMA database_list
PRAGMA storage_info('visits')
PRAGMA table_info('visits')
PRAGMA functions
PRAGMA version
PRAGMA metadata_info
CALL pragma_storage_info('visits')
FROM duckdb_databases()
FROM duckdb_settings()
FROM duckdb_secrets()
FROM duckdb_tables()
FROM duckdb_views()
FROM duckdb_columns()
FROM duckdb_constraints()
FROM duckdb_indexes()
FROM duckdb_memory()
FROM duckdb_temporary_files()
FROM duckdb_extensions()
FROM duckdb_logs
FROM duckdb_variables()
FROM duckdb_prepared_statements()
FROM pg_catalog.pg_class
FROM pg_catalog.pg_stats
FROM pg_catalog.pg_attribute
FROM information_schema.tables
FROM sqlite_master
FROM query('FROM visits')
FROM query('FROM src.main.visits')
FROM query_table('visits')
FROM query_table(['visits', 'src.main.visits'])
FROM json_execute_serialized_sql(json_serialize_sql('FROM visits'))
SELECT getenv('HOME')
SELECT getvariable('curator')
SELECT current_setting('secret_directory')
SELECT stats(age) FROM visits
SELECT * FROM visits
SELECT count(*) FROM visits
SELECT max(name) FROM visits
SELECT * FROM visits LIMIT 0
SELECT 1 WHERE EXISTS (FROM visits)
SELECT * FROM (SELECT 1) LEFT JOIN visits ON true
FROM visits TABLESAMPLE 1%
WITH v AS (FROM visits) SELECT count(*) FROM v
WITH moved AS (DELETE FROM visits RETURNING *) FROM moved
WITH made AS (INSERT INTO visits VALUES (1) RETURNING *) FROM made
EXPLAIN FROM visits
EXPLAIN ANALYZE FROM visits
SUMMARIZE visits
DESCRIBE visits
SHOW visits
SHOW ALL TABLES
PIVOT visits ON sex USING count(*)
CREATE TABLE stolen AS FROM visits
CREATE VIEW stolen AS FROM visits
INSERT INTO visits SELECT 1
UPDATE visits SET age = 1
DELETE FROM visits
ALTER VIEW visits RENAME TO seen
CREATE MACRO error(x) AS NULL
FROM frame
FROM local_frame
SELECT * FROM world
FROM sys
CREATE FUNCTION f(x) AS x; FROM visits
COMMENT ON VIEW visits IS 'x'
SELECT __dp_bind('dp_query', ['SELECT name FROM visits', '1', '0', NULL, 'auto', 'false', 'true'], [])
FROM query(__dp_bind('dp_query', ['FROM visits', '1', '0', NULL, 'auto', 'false', 'true'], []))
FROM query('SELECT 1; FROM visits')
CHECKPOINT
VACUUM ANALYZE
DROP VIEW visits
DETACH memory
""".strip().splitlines()
frame = pa.table({"secret": ["alice_7f3"]})


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in folder.rglob("*") if "ledger" not in p.name}


def test_the_list_is_long_enough() -> None:
    assert len(ESCAPES) >= 100


def test_no_statement_shows_a_private_value_or_touches_anything_outside(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """All of them on one connection, so that none opens the way for a later one; then all again."""
    folder = world.path.parent
    (folder / "text.txt").write_text("alice_7f3\n")
    (folder / "cwd").mkdir()
    monkeypatch.chdir(folder / "cwd")
    local_frame = pa.table({"secret": ["alice_7f3"]})  # noqa: F841 - a replacement scan would find it
    before, environment = tree(folder), dict(os.environ)
    con = world.curator.connect("ana")
    places = {"file": world.path, "text": folder / "text.txt", "folder": folder}
    worked = []
    for statement in ESCAPES * 2:
        text = statement.format(**places)
        try:
            shown = str(con.execute(text).fetchall())
            worked.append(statement)
        except duckdb.Error as error:
            shown = str(error)
        assert not leaks(shown.replace(text, "")), text
    assert tree(folder) == before
    assert dict(os.environ) == environment
    assert world.charges() == 0
    assert not leaks("".join(capfd.readouterr()))
    for opening in (
        "SET",
        "RESET",
        "COPY",
        "EXPORT",
        "IMPORT",
        "INSTALL",
        "LOAD '",
        "FROM read",
        "FROM glob",
        "FROM '",
    ):
        assert not [s for s in worked if s.startswith(opening)], opening
    # the owner goes on as if nothing had happened
    world.curator.protect("visits", row_cap=99_999, unit_key="patient_id", max_rows=4)
    assert len(world.curator.session("bob").noisy_count("visits", epsilon=1)) == 1


@pytest.mark.skipif("win" in sys.platform and sys.platform != "darwin", reason="paths")
def test_an_analyst_cannot_fill_the_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = world.path.parent / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    con = world.curator.connect("ana")
    for setting, value in (("temp_directory", ""), ("max_temp_directory_size", "0 bytes")):
        assert con.execute("SELECT current_setting(?)", [setting]).fetchone() == (value,)
    assert not list(folder.iterdir())


def test_nothing_shows_the_curators_folders(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No path is allowed, not even that of the instance itself, and none is told."""
    (world.path.parent / "cwd").mkdir()
    monkeypatch.chdir(world.path.parent / "cwd")
    con = world.curator.connect("ana")
    con.execute("ATTACH ':memory:' AS other; CREATE TABLE other.t AS SELECT 1")
    assert con.execute("SELECT current_setting('allowed_paths')").fetchone() == ([],)
    own = (str(world.path.parent), str(Path.home()), sys.prefix, str(Path(duckdb.__file__).parent))
    for statement in (
        "FROM duckdb_settings()",
        "FROM duckdb_extensions()",
        "FROM duckdb_extension_repositories()",
        "FROM duckdb_databases()",
        "FROM duckdb_secrets()",
        "FROM duckdb_logs",
        "FROM duckdb_functions()",
        "FROM duckdb_views()",
        "FROM duckdb_temporary_files()",
        "FROM pragma_database_list()",
        "PRAGMA user_agent",
        "LOAD httpfs",
        "SET secret_directory = 'x'",
        "CREATE PERSISTENT SECRET s (TYPE http)",
    ):
        try:
            shown = str(con.execute(statement).fetchall())
        except duckdb.Error as error:
            shown = str(error)
        assert not [path for path in own if path in shown], statement


def test_settings_hold_for_every_cursor(world: World) -> None:
    first = world.curator.connect("ana")
    for con in (first, first.cursor(), world.curator.connect("ana")):
        for setting, value in {
            "python_enable_replacements": False,
            "python_scan_all_frames": False,
            "enable_external_access": False,
            "lock_configuration": True,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "allow_persistent_secrets": False,
        }.items():
            assert con.execute("SELECT current_setting(?)", [setting]).fetchone() == (value,), setting
        assert not con.execute(
            "SELECT database_name FROM duckdb_databases() WHERE NOT internal AND path IS NOT NULL"
        ).fetchall()


def test_python_variables_are_not_seen(world: World) -> None:
    con = world.curator.connect("ana")
    local_frame = pa.table({"secret": [1]})
    for read in (con.execute, con.sql, con.query):
        for name in ("frame", "local_frame", "world"):
            with pytest.raises(duckdb.CatalogException):
                read(f"FROM {name}")
    assert local_frame.num_rows == 1


def test_what_an_analyst_makes_or_breaks_stays_theirs(world: World) -> None:
    con = world.curator.connect("ana")
    con.execute("DROP VIEW visits; CREATE TABLE visits AS SELECT 1 AS x; BEGIN; CREATE TABLE later AS SELECT 2 AS y")
    world.curator.protect("visits", row_cap=99_999, unit_key="patient_id", max_rows=4, columns=["code"])
    con.execute("COMMIT")
    assert con.execute("FROM visits").fetchall() == [(1,)]
    session = world.curator.session("ana")
    assert session.sql("SELECT count(*) FROM visits", epsilon="0.1").cost == "epsilon=0.1"  # the gate, not the table
    assert session.sql("FROM later").rows() == [(2,)]


LOGGING = """
import sys, duckdp
curator = duckdp.open(sys.argv[1], ledger=sys.argv[2])
curator.session("ana").noisy_count("visits", epsilon=1)
con = curator.connect("ana")
con.execute("CALL enable_logging(storage = 'file', storage_config = {'path': '" + sys.argv[3] + "'})")
print(con.execute("SELECT 1").fetchall())
"""


def test_logging_to_a_file(world: World) -> None:
    """The lock holds for the log too: nothing is written, and the ledger stands."""
    before = tree(world.path.parent)
    made = str(world.path.parent / "made")
    done = subprocess.run(
        [sys.executable, "-c", LOGGING, str(world.path), str(world.ledger), made],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert not leaks(done.stdout)
    assert "configuration has been locked" in done.stderr
    assert tree(world.path.parent) == before
    with world.open() as again:
        assert again.session("ana").noisy_count("visits", epsilon=1).cost == "nothing"

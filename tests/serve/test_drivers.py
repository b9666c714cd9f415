"""What drivers and BI tools send of their own accord, and parameters of every type, at a server that runs."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import uuid
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal

import asyncpg
import pg8000.dbapi
import psycopg
import pytest
import sqlalchemy as sa

from duckdp.serve.lists import items_of_binary, items_of_text
from duckdp.serve.running import _NO_ROWS
from tests.serve.conftest import PASSWORD, Served

VALUES: list[tuple[str, object]] = [
    ("int4", 7),
    ("int8", 2**40),
    ("float8", 1.5),
    ("bool", True),
    ("text", "it's"),
    ("bytea", b"\x00\xff"),
    ("date", dt.date(2024, 2, 29)),
    ("timestamp", dt.datetime(2024, 1, 2, 3, 4, 5, 678)),
    ("timestamptz", dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)),
    ("time", dt.time(1, 2, 3)),
    ("interval", dt.timedelta(days=1, seconds=5)),
    ("numeric", Decimal("12.340")),
    ("uuid", uuid.UUID(int=5)),
    ("int4[]", [1, 2, None]),
    ("text[]", ["a", 'b,"c"', "null"]),
]
PRIVATE: list[tuple[str, object]] = [
    ("age > {}", 30),
    ("day >= {}", dt.date(2024, 3, 1)),
    ("day > {}", dt.datetime(2024, 3, 1)),
    ("cost > {}", Decimal("10.5")),
    ("sex = {}", "F"),
    ("sex = {}", None),
    ("age = ANY({})", [30, 40]),
    ("sex = ANY({})", ["F"]),
    ("(age > 3) = {}", True),
]


@pytest.fixture
def client(served: Served) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(served.dsn(), autocommit=True) as found:
        found.execute("SET dp.epsilon = 0.01")
        yield found


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=[kind for kind, _ in VALUES])
@pytest.mark.parametrize("place", ["%t", "%b"])
def test_parameters_of_every_type_come_back(
    client: psycopg.Connection[tuple[object, ...]], kind: str, value: object, place: str
) -> None:
    found = client.execute(f"SELECT {place}::{kind}", [value], binary=place == "%b").fetchall()[0][0]
    if isinstance(value, dt.datetime) and isinstance(found, dt.datetime) and value.tzinfo:
        found = found.astimezone(dt.UTC)
    assert found == value


@pytest.mark.parametrize("place", ["%s", "%b", "%t"])
def test_private_questions_take_parameters(client: psycopg.Connection[tuple[object, ...]], place: str) -> None:
    for where, value in PRIVATE:
        text = f"SELECT count(*) FROM visits WHERE {where.format(place)}"
        for prepare in (False, True):
            (row,) = client.execute(text, [value], prepare=prepare).fetchall()
            assert isinstance(row[0], int)


def test_lists_stand_as_in(client: psycopg.Connection[tuple[object, ...]]) -> None:
    """One question in three spellings: charged once."""
    client.execute("SELECT count(*) FROM visits WHERE age IN (31, 41)")
    before = client.execute("SELECT count(*) FROM dp_ledger()").fetchall()
    client.execute("SELECT count(*) FROM visits WHERE age = ANY(ARRAY[31, 41])")
    client.execute("SELECT count(*) FROM visits WHERE age = ANY(%s)", [[31, 41]])
    assert client.execute("SELECT count(*) FROM dp_ledger()").fetchall() == before
    with pytest.raises(psycopg.Error, match="Q202"):
        client.execute("SELECT count(*) FROM visits WHERE age = ALL(ARRAY[31, 41])")


def test_arrays_are_read_or_refused() -> None:
    assert items_of_text(r'{a, "b\"c" ,NULL,"null"}') == ["a", 'b"c', None, "null"]
    for wrong in ("", "{", "{1,}", "{{1},{2}}", '{"a}', "{1}2", "{1 {2}", "[1]"):
        with pytest.raises(ValueError, match="array"):
            items_of_text(wrong)
    one = b"\0\0\0\x01\0\0\0\0\0\0\0\x17\0\0\0\x01\0\0\0\x01\0\0\0\x04\0\0\0\x07"
    assert items_of_binary(one) == (23, [b"\0\0\0\x07"])
    for cut in range(len(one)):
        with pytest.raises(Exception, match=r"unpack|cut|dimension|more"):
            items_of_binary(one[:cut])


def test_asyncpg_knows_types_without_casts_and_pools_give_back(served: Served) -> None:
    place = {"host": "127.0.0.1", "port": served.port, "user": "ana", "password": PASSWORD, "database": "clinic"}

    async def run() -> None:
        async with asyncpg.create_pool(**place, min_size=1, max_size=1) as pool:
            for _ in range(2):  # what is given back is reset
                async with pool.acquire() as con:
                    await con.execute("SET dp.epsilon = 0.01")
                    for kind, value in VALUES:
                        assert await con.fetchval(f"SELECT $1::{kind}", value) == value
                    text = "SELECT count(*) FROM visits WHERE age > $1 AND day > $2 AND $3 < cost AND sex = ANY($4)"
                    assert type(await con.fetchval(text, 30, dt.date(2024, 2, 2), 5.5, ["F", "M"])) is int
                    with pytest.raises(asyncpg.PostgresError, match="Q207"):  # it hears of it without Sync
                        await asyncio.wait_for(con.fetch("SELECT nosuch FROM visits"), 60)
                    async with con.transaction():
                        with pytest.raises(asyncpg.PostgresError):
                            async with con.transaction():
                                await con.fetch("SELECT nosuch")
                        assert await con.fetchval("SELECT 3") == 3

    asyncio.run(run())


def test_pg8000_reckons_with_parameters(served: Served) -> None:
    with pg8000.dbapi.connect("ana", host="127.0.0.1", port=served.port, password=PASSWORD, database="clinic") as con:
        cursor = con.cursor()
        cursor.execute("SELECT %s + 1, %s", (1, "01"))
        assert cursor.fetchall() == ([2, "01"],)


def test_savepoints_are_given_where_they_make_no_difference(client: psycopg.Connection[tuple[object, ...]]) -> None:
    with client.transaction():
        with pytest.raises(psycopg.Error), client.transaction():
            client.execute("SELECT nosuch")
        client.execute("CREATE TEMP TABLE kept (a INT)")
        client.execute("SAVEPOINT here")
        client.execute("SELECT 1")
        client.execute("ROLLBACK TO SAVEPOINT here")
        client.execute("RELEASE SAVEPOINT here")
    assert client.execute("SELECT count(*) FROM kept").fetchall() == [(0,)]
    client.execute("BEGIN")
    client.execute("INSERT INTO kept VALUES (1)")
    client.execute("SAVEPOINT here")
    client.execute("INSERT INTO kept VALUES (2)")
    with pytest.raises(psycopg.errors.FeatureNotSupported):  # nothing is undone in silence
        client.execute("ROLLBACK TO here")
    client.execute("ROLLBACK")
    assert client.execute("SELECT count(*) FROM kept").fetchall() == [(0,)]
    with pytest.raises(psycopg.Error, match="transaction blocks"):
        client.execute("SAVEPOINT here")


def test_cursors_move_and_tables_are_copied_by_columns(client: psycopg.Connection[tuple[object, ...]]) -> None:
    with client.transaction():
        client.execute("DECLARE c CURSOR FOR SELECT * FROM range(5)")
        assert client.execute("MOVE 2 FROM c").statusmessage == "MOVE 2"
        assert client.execute("FETCH c").fetchall() == [(2,)]
    client.execute("CREATE TEMP TABLE w AS SELECT 1 AS a, 'x' AS b, 2 AS c")
    for text, data in (
        ("COPY w (b, a) TO STDOUT", b"x\t1\n"),
        ("COPY w TO STDOUT WITH DELIMITER AS ';' NULL AS '-'", b"1;x;2\n"),
    ):
        written = io.BytesIO()
        with client.cursor().copy(text) as rows:
            written.writelines(bytes(part) for part in rows)
        assert written.getvalue() == data


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM visits LIMIT 0",
        "SELECT age AS a FROM main.visits v WHERE 1 = 0",
        "select * from visits where false",
    ],
)
def test_columns_are_told_free(client: psycopg.Connection[tuple[object, ...]], text: str) -> None:
    before = client.execute("SELECT count(*) FROM dp_ledger()").fetchall()
    found = client.execute(text)
    assert found.fetchall() == [] and found.description is not None
    assert "sex" in [c.name for c in found.description] or [c.name for c in found.description] == ["a"]
    assert client.execute("SELECT count(*) FROM dp_ledger()").fetchall() == before


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM visits WHERE age > 1 LIMIT 10",
        "SELECT count(*) FROM visits WHERE 1 = 0",  # an aggregate has a row
        "SELECT age FROM visits WHERE 1 = 0 UNION ALL SELECT age FROM (FROM visits) LIMIT 10",
        "SELECT * FROM visits WHERE 1 = 0 OR true",
        "SELECT name FROM towns UNION ALL SELECT name FROM visits WHERE 1 = 0",  # of one arm alone
        "SELECT name FROM towns\nEXCEPT\nSELECT sex FROM visits WHERE false",
        "SELECT name FROM towns -- of visits\n-- where 1 = 0",
    ],
)
def test_what_may_have_rows_is_not_taken_for_empty(text: str) -> None:
    assert _NO_ROWS.fullmatch(text) is None


# As Metabase, Grafana, DBeaver, Tableau's ODBC driver, Npgsql and asyncpg's pools send them.
SENT = [
    "SELECT pg_advisory_unlock_all()",
    "with table_privileges as (select NULL as role, t.schemaname as schema, t.objectname as table, "
    "pg_catalog.has_any_column_privilege(current_user, t.objectname, 'select') as select from (select schemaname, "
    "tablename as objectname from pg_catalog.pg_tables union select schemaname, matviewname from pg_catalog.pg_matviews"
    ") t where t.schemaname !~ '^pg_') select t.* from table_privileges t",
    "SELECT c.relname, NULLIF(stat.n_live_tup, 0) AS rows FROM pg_catalog.pg_class AS c LEFT JOIN pg_stat_user_tables "
    "AS stat ON c.relname = stat.relname WHERE c.relkind IN ('r', 'p', 'v', 'f', 'm')",
    'SELECT quote_ident(column_name) AS "column", data_type FROM information_schema.columns WHERE '
    "quote_ident(table_name) = 'visits'",
    "SELECT p.oid as poid, p.*, pg_catalog.pg_get_expr(p.proargdefaults, 0) as arg_defaults FROM pg_catalog.pg_proc p",
    "SELECT typ.oid, proc.proname FROM pg_type AS typ LEFT JOIN pg_proc AS proc ON proc.oid = typ.typreceive",
    "SELECT i.*, pg_catalog.pg_stat_get_numscans(i.indexrelid) FROM pg_catalog.pg_index i",
    "SELECT pg_size_pretty(pg_indexes_size('visits'))",
    "SELECT * FROM pg_locks",
    "SELECT * FROM pg_available_extensions",
    "SELECT routine_name FROM information_schema.routines LIMIT 1",
    "SELECT privilege_type FROM information_schema.role_table_grants",
    "SELECT * FROM information_schema.sequences",
    "SELECT * FROM information_schema.triggers",
    "SET NAMES 'UTF8'",
    "SET ROLE none",
    "SET SESSION AUTHORIZATION DEFAULT",
    "SET work_mem = '64MB'",
    "DISCARD PLANS",
]


def test_what_tools_send_is_answered(client: psycopg.Connection[tuple[object, ...]]) -> None:
    for text in SENT:
        client.execute(text)
    shown = client.execute("SHOW ALL")
    assert shown.description is not None and [c.name for c in shown.description] == ["name", "setting", "description"]
    assert ("dp.epsilon", "0.01", "") in shown.fetchall()  # DISCARD PLANS took nothing else


# How Grafana's editor asks for the schemas that a name without one may be of, and with it for tables and columns.
WITHIN_PATH = """quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
    FROM generate_series(array_lower(string_to_array(current_setting('search_path'),','),1),
        array_upper(string_to_array(current_setting('search_path'),','),1)) as i,
    string_to_array(current_setting('search_path'),',') s)"""
TABLES = f"""SELECT CASE WHEN {WITHIN_PATH} THEN quote_ident(table_name)
    ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table" FROM information_schema.tables
    WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog')
    ORDER BY CASE WHEN {WITHIN_PATH} THEN 0 ELSE 1 END, 1"""
COLUMNS = """SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
    WHERE CASE WHEN array_length(parse_ident('{0}'),1) = 2 THEN quote_ident(table_schema) = (parse_ident('{0}'))[1]
    AND quote_ident(table_name) = (parse_ident('{0}'))[2] ELSE quote_ident(table_name) = '{0}' AND {1} END"""


def test_grafanas_editor_finds_tables_and_columns(client: psycopg.Connection[tuple[object, ...]]) -> None:
    assert ("visits",) in client.execute(TABLES.encode()).fetchall()
    for name in ("visits", "main.visits"):
        columns = client.execute(COLUMNS.format(name, WITHIN_PATH).encode()).fetchall()
        assert {row[0] for row in columns} == {"age", "cost", "day", "sex"}, name
    numbers = "SELECT s, k.word FROM pg_catalog.generate_series(2, 3) s, pg_get_keywords() k WHERE k.word = 'select'"
    assert client.execute(numbers).fetchall() == [(2, "select"), (3, "select")]
    assert client.execute("SELECT user, oid FROM pg_class LIMIT 1").fetchall()[0][0] == "ana"


def test_sqlalchemy_over_asyncpg_reflects_asks_and_keeps(served: Served) -> None:
    """Its startup (codecs of JSON by the catalog), reflection, private questions, tables of the analyst's own."""
    pytest.importorskip("greenlet", reason="sqlalchemy[asyncio]")
    from sqlalchemy.ext.asyncio import create_async_engine

    async def run() -> None:
        address = sa.URL.create("postgresql+asyncpg", "ana", PASSWORD, "127.0.0.1", served.port, "clinic")
        engine = create_async_engine(address, connect_args={"timeout": 60})
        async with engine.connect() as con:
            visits = await con.run_sync(lambda sync: sa.Table("visits", sa.MetaData(), autoload_with=sync))
            assert {c.name: str(c.type) for c in visits.c}["day"] == "DATE"
            await con.execute(sa.text("SET dp.epsilon = 0.01"))
            asked = sa.select(visits.c.sex, sa.func.count()).where(
                visits.c.age > 30, visits.c.day >= dt.date(2024, 2, 1)
            )
            assert [row[0] for row in await con.execute(asked.group_by(visits.c.sex))] == ["F", "M"]
            one = sa.select(sa.func.count()).where(visits.c.sex.in_(["F"]))
            assert type((await con.execute(one)).scalar()) is int
            streamed = await con.stream(sa.text("SELECT range AS i FROM range(3000)"))
            assert sum([row.i async for row in streamed]) == sum(range(3000))
        kept = sa.Table(
            "kept", sa.MetaData(), sa.Column("i", sa.Integer), sa.Column("j", sa.JSON), sa.Column("t", sa.DateTime)
        )
        async with engine.begin() as con:
            await con.run_sync(kept.metadata.create_all)
            rows = [{"i": i, "j": {"a": [i, None]}, "t": dt.datetime(2024, 1, 2, 3)} for i in range(3)]
            await con.execute(kept.insert(), rows)
        async with engine.connect() as con:
            found = (await con.execute(sa.select(kept).order_by(kept.c.i).limit(2).offset(1))).mappings().all()
            assert [dict(row) for row in found] == rows[1:]
            with pytest.raises(sa.exc.ProgrammingError, match="Q207"):
                await con.execute(sa.text("SELECT nosuch FROM visits"))
        await engine.dispose()

    asyncio.run(run())


def test_adbc_tells_types_by_how_they_are_read(client: psycopg.Connection[tuple[object, ...]]) -> None:
    """As polars' read_database_uri(engine="adbc") asks: a number where it is compared, a name where it is shown."""
    text = """SELECT oid, typname, typreceive, typarray FROM pg_catalog.pg_type
        WHERE (typreceive != 0 OR typsend != 0) AND typtype != 'r' AND typreceive::TEXT != 'array_recv'"""
    receivers = {row[1]: row[2] for row in client.execute(text.encode()).fetchall()}
    assert receivers["int8"] == "int8recv" and receivers["timestamptz"] == "timestamptz_recv"
    assert "_int8" not in receivers
    both = (
        "SELECT t.typname, t.typreceive FROM pg_type t LEFT JOIN pg_proc p ON p.oid = t.typreceive WHERE t.oid = 1016"
    )
    assert client.execute(both.encode()).fetchall() == [("_int8", "array_recv")]


# ---- COPY FROM STDIN, which is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["COPY given FROM STDIN", "-- rows\n/* of ours */COPY given (a,\n b)\n FROM STDIN CSV"]
)
def test_copies_from_a_client_are_refused_and_the_connection_goes_on(
    client: psycopg.Connection[tuple[object, ...]], text: str
) -> None:
    client.execute("CREATE OR REPLACE TEMP TABLE given (a INT, b VARCHAR)")
    with (
        pytest.raises(psycopg.errors.FeatureNotSupported, match=r"Q201: line .*COPY given FROM STDIN") as caught,
        client.cursor().copy(text) as rows,
    ):
        rows.write_row((1, "x"))
    assert text[int(caught.value.diag.statement_position or 0) - 1 :].startswith("FROM")
    assert "INSERT INTO given VALUES" in str(caught.value.diag.message_hint)
    with client.transaction(force_rollback=True), pytest.raises(psycopg.errors.InFailedSqlTransaction):
        with suppress(psycopg.errors.FeatureNotSupported), client.cursor().copy(text):
            pass
        client.execute("SELECT 1")
    client.cursor().executemany("INSERT INTO given VALUES (%s, %s)", [(1, "x"), (2, "y")])  # the way out
    assert client.execute("SELECT count(*), max(b) FROM given").fetchall() == [(2, "y")]


def test_asyncpgs_copies_are_refused_and_its_connection_goes_on(served: Served) -> None:
    async def run() -> None:
        con = await asyncpg.connect(
            host="127.0.0.1", port=served.port, user="ana", password=PASSWORD, database="clinic", timeout=60
        )
        await con.execute("CREATE OR REPLACE TABLE given (a INT)")
        for copy in (
            con.copy_records_to_table("given", records=[(1,)], columns=["a"]),
            con.copy_to_table("given", source=io.BytesIO(b"1\n")),
        ):
            with pytest.raises(asyncpg.FeatureNotSupportedError, match="Q201"):
                await asyncio.wait_for(copy, 60)
        assert await con.fetchval("SELECT count(*) FROM given") == 0
        await con.close()

    asyncio.run(run())

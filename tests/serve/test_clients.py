"""A server as its clients meet it: psql, psycopg, pg8000, asyncpg, SQLAlchemy."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator

import asyncpg
import pg8000.native
import psycopg
import pytest
import sqlalchemy as sa
from psycopg import errors

from tests.serve.conftest import PASSWORD, Served


@pytest.fixture
def client(served: Served) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection of ana's."""
    with psycopg.connect(served.dsn(), autocommit=True) as found:
        yield found


def psql(served: Served, *commands: str, user: str = "ana") -> str:
    """What psql prints."""
    options = [part for command in commands for part in ("-c", command)]
    done = subprocess.run(
        ["psql", "-h", "127.0.0.1", "-p", str(served.port), "-U", user, "-d", "clinic", "-X", *options],
        env={**os.environ, "PGPASSWORD": PASSWORD, "PGCONNECT_TIMEOUT": "60"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


# ---- private questions ---------------------------------------------------------------------------------------------


def test_a_select_over_a_protected_table_is_answered_privately(
    client: psycopg.Connection[tuple[object, ...]],
) -> None:
    notices: list[str] = []
    client.add_notice_handler(lambda found: notices.append(str(found.message_primary)))
    client.execute("SET dp.epsilon = 5")
    rows = client.execute("SELECT sex, count(*) AS n, avg(age) FROM visits GROUP BY sex").fetchall()
    assert [row[0] for row in rows] == ["F", "M"]
    assert all(isinstance(row[1], int) and 100 < row[1] < 400 for row in rows)
    assert any("cost: epsilon=5" in note for note in notices)
    client.execute("SET dp.intervals = on")
    shown = client.execute("SELECT count(*) AS n FROM visits WHERE age > %s AND sex = %s", [30, "F"])
    assert [column.name for column in shown.description or []][:4] == ["n", "n_standard_error", "n_low", "n_high"]
    notices.clear()
    assert client.execute("SELECT count(*) AS n FROM visits WHERE age > 30 AND sex = 'F'").fetchall()
    assert any("nothing" in note for note in notices)  # the same question: parameters are part of its text


def test_without_an_epsilon_nothing_is_charged(client: psycopg.Connection[tuple[object, ...]]) -> None:
    before = client.execute("SELECT * FROM dp_budget()").fetchall()
    for text in ("SELECT count(*) FROM visits", "EXPLAIN SELECT count(*) FROM visits"):
        with pytest.raises(errors.InvalidParameterValue, match="P101") as caught:
            client.execute(text.encode())
        assert caught.value.diag.message_hint == "SET dp.epsilon = 0.1;"
    client.execute("SET dp.epsilon = 1")
    client.execute("EXPLAIN SELECT count(*) FROM visits")
    client.execute("PREPARE nothing AS SELECT 1")
    with pytest.raises(errors.FeatureNotSupported):
        client.execute("EXPLAIN ANALYZE SELECT count(*) FROM visits")
    assert client.execute("SELECT * FROM dp_budget()").fetchall() == before


def test_an_answer_is_kept_as_a_table_or_a_view(client: psycopg.Connection[tuple[object, ...]]) -> None:
    """Each is charged as the SELECT is, once, with what is SET then; the table is the analyst's own."""
    client.execute("SET dp.epsilon = 0.5")
    question = "SELECT sex, count(*) AS n FROM visits WHERE cost > %s GROUP BY sex"
    client.execute(f"CREATE OR REPLACE TEMP TABLE kept AS {question}", [7])
    client.execute(f"CREATE OR REPLACE VIEW seen AS {question.replace('%s', '7')}")
    client.execute("SET dp.epsilon = 3")
    kept = client.execute("SELECT * FROM kept ORDER BY sex").fetchall()
    assert [row[0] for row in kept] == ["F", "M"]
    before = client.execute("SELECT * FROM dp_budget()").fetchall()
    assert client.execute("SELECT * FROM seen ORDER BY sex").fetchall() == kept
    assert client.execute("SELECT * FROM dp_budget()").fetchall() == before
    client.execute("INSERT INTO kept (n) SELECT count(*) FROM visits")
    assert client.execute("SELECT count(*), count(sex) FROM kept").fetchall() == [(3, 2)]
    for text in (
        "CREATE TABLE rows AS SELECT age FROM visits",
        "INSERT INTO kept FROM visits SELECT sex, age",
        "INSERT INTO kept VALUES ('F', (SELECT age FROM visits LIMIT 1))",
        "CREATE TABLE rows AS WITH v AS (FROM visits) SELECT * FROM v",
        "INSERT INTO kept BY NAME SELECT age AS n FROM visits",
    ):
        with pytest.raises(psycopg.Error, match=r"Q\d\d\d: "):
            client.execute(text.encode())


def test_a_person_is_who_logged_in(client: psycopg.Connection[tuple[object, ...]]) -> None:
    assert client.execute("SELECT current_user, session_user").fetchall() == [("ana", "ana")]


def test_what_is_asked_twice_is_charged_once(client: psycopg.Connection[tuple[object, ...]]) -> None:
    client.execute("SET dp.epsilon = 0.5")
    first = client.execute("SELECT count(*) FROM visits WHERE age < 40").fetchall()
    with client.cursor("kept") as cursor:
        assert cursor.execute("SELECT count(*) FROM visits WHERE age < 40").fetchall() == first
    with client.cursor().copy("COPY (SELECT count(*) FROM visits WHERE age < 40) TO STDOUT") as copied:
        assert b"".join(bytes(part) for part in copied).decode().strip() == str(first[0][0])


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("SELECT age FROM visits", "42501"),
        ("SELECT count(*) FROM visits v JOIN visits w ON v.age = w.age", "0A000"),
        ("SELECT count(nothing) FROM visits", "42703"),
        ("SELECT count(*) FROM nowhere", "42P01"),
        ("SELECT sum(cost) FROM visits WHERE age > 'x'", "0A000"),
        ("SELEC 1", "42601"),
        ("SELECT 'x'::INTEGER", "22P02"),
        ("SELECT count(*) FROM other.main.visits", "0A000"),
        ("SET dp.epsilon = 'much'; SELECT count(*) FROM visits", "22023"),
        (
            "SET dp.epsilon = 100; SELECT count(*) FROM visits WHERE age > 1; SET dp.epsilon = 100; "
            "SELECT count(*) FROM visits WHERE age > 2; SELECT count(*) FROM visits WHERE age > 3; "
            "SELECT count(*) FROM visits WHERE age > 4; SELECT count(*) FROM visits WHERE age > 5",
            "53400",
        ),
    ],
)
def test_refusals_have_their_state(served: Served, text: str, state: str) -> None:
    with psycopg.connect(served.dsn("bob"), autocommit=True) as client:
        client.execute("SET dp.epsilon = 1")
        with pytest.raises(psycopg.Error) as caught:
            client.execute(text)
        assert caught.value.sqlstate == state, str(caught.value)
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_a_refusal_shows_its_place(client: psycopg.Connection[tuple[object, ...]]) -> None:
    client.execute("SET dp.epsilon = 1")
    text = "SELECT 1; SELECT count(nothing)\nFROM visits"
    with pytest.raises(psycopg.Error) as caught:
        client.execute(text)
    assert text[int(str(caught.value.diag.statement_position)) - 1 :].startswith("nothing")


def test_rows_files_and_settings_are_out_of_reach(client: psycopg.Connection[tuple[object, ...]]) -> None:
    for text in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        "ATTACH '/tmp/x.duckdb'",
        "INSTALL httpfs",
        "SET memory_limit = '100GB'",
        "SET VARIABLE x = getenv('HOME')",
        "SELECT * FROM visits",
        "CREATE TABLE copy AS SELECT * FROM visits",
        "SELECT * FROM (SELECT cost FROM visits) AS v",
    ):
        with pytest.raises(psycopg.Error):
            client.execute(text)


# ---- protocols -----------------------------------------------------------------------------------------------------


def test_psycopg_reads_all_types_in_both_formats(client: psycopg.Connection[tuple[object, ...]]) -> None:
    text = (
        "SELECT true, 1::SMALLINT, 2, 3::BIGINT, 0.5, 1.25::DOUBLE, 'x€', DATE '2024-02-29', TIMESTAMP '2024-02-29 "
        "01:02:03.5', [1, NULL], NULL, 12345678901234567890::HUGEINT, {'a': 1}, uuid() IS NULL, '\\xFF'::BLOB, "
        "TIMESTAMPTZ '2024-02-29 01:00:00+01'"
    )
    plain, binary = (client.cursor(binary=form).execute(text).fetchone() for form in (False, True))
    assert plain == binary


def test_cursors_copy_transactions_and_prepared_statements(served: Served) -> None:
    with psycopg.connect(served.dsn()) as client:
        with client.cursor("rows") as cursor:
            cursor.itersize = 7
            cursor.execute("SELECT range AS i FROM range(50)")
            assert [row[0] for row in cursor] == list(range(50))
        client.execute("CREATE TABLE own (i INTEGER)")
        client.execute("INSERT INTO own VALUES (1), (2)")
        client.rollback()
        with pytest.raises(psycopg.Error):
            client.execute("FROM own")
        with pytest.raises(errors.InFailedSqlTransaction):
            client.execute("SELECT 1")
        client.rollback()
        for i in range(8):  # prepared after the fifth
            assert client.execute("SELECT %s::BIGINT * 2", [i]).fetchone() == (2 * i,)
        client.execute("CREATE TABLE changed (i INTEGER)")
        for text in (
            "INSERT INTO changed VALUES (%s)",
            "UPDATE changed SET i = i + %s",
            "DELETE FROM changed WHERE i < %s",
        ):
            assert client.execute(text, [3]).rowcount == (0 if "DELETE" in text else 1)  # DuckDB cannot describe these
        assert client.execute("FROM changed").fetchall() == [(6,)]
        for form in ("TEXT", "CSV", "BINARY"):
            with client.cursor().copy(f"COPY (SELECT range, 'a,\"' FROM range(3)) TO STDOUT (FORMAT {form})") as copied:
                data = b"".join(bytes(part) for part in copied)
            assert {"TEXT": b'2\ta,"\n', "CSV": b'2,"a,"""\n', "BINARY": b"\xff\xff"}[form] in data


def test_pg8000_and_asyncpg(served: Served) -> None:
    con = pg8000.native.Connection("ana", host="127.0.0.1", port=served.port, password=PASSWORD, database="clinic")
    con.run("SET dp.epsilon = 1")
    assert con.run("SELECT :a::INTEGER + 1, :b", a=4, b="x") == [[5, "x"]]
    assert len(con.run("SELECT sex, count(*) FROM visits WHERE age > :a GROUP BY 1", a=25)) == 2
    con.close()

    async def ask() -> None:
        client = await asyncpg.connect(
            host="127.0.0.1", port=served.port, user="ana", password=PASSWORD, database="clinic", timeout=60
        )
        assert await client.fetchval("SELECT $1::BIGINT + 1", 41) == 42
        await client.execute("SET dp.epsilon = 1")
        rows = await client.fetch("SELECT sex, count(*) AS n FROM visits GROUP BY sex")
        assert [row["sex"] for row in rows] == ["F", "M"]
        async with client.transaction():
            cursor = [row["i"] async for row in client.cursor("SELECT range AS i FROM range(120)", prefetch=50)]
        assert cursor == list(range(120))
        await client.close()

    asyncio.run(ask())


def test_sqlalchemy_reflects_and_asks(served: Served) -> None:
    address = sa.URL.create("postgresql+psycopg", "ana", PASSWORD, "127.0.0.1", served.port, "clinic")
    engine = sa.create_engine(address, connect_args={"options": "", "connect_timeout": 60})
    seen = sa.inspect(engine)
    assert "visits" in seen.get_table_names()
    assert {c["name"]: str(c["type"]) for c in seen.get_columns("visits")} == {
        "age": "INTEGER",
        "cost": "DOUBLE PRECISION",
        "sex": "TEXT",
        "day": "DATE",
    }
    assert "patient_id" in str(seen.get_table_comment("visits")["text"])
    visits = sa.Table("visits", sa.MetaData(), autoload_with=engine)
    with engine.connect() as con:
        con.execute(sa.text("SET dp.epsilon = 1"))
        question = sa.select(visits.c.sex, sa.func.count()).where(visits.c.age > 30).group_by(visits.c.sex)
        assert [row[0] for row in con.execute(question)] == ["F", "M"]
    engine.dispose()


# What psql 15 sends for \d and \d visits, for machines that have none.
_BROWSED = (
    """SELECT n.nspname as "Schema", c.relname as "Name", CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' END
    as "Type", pg_catalog.pg_get_userbyid(c.relowner) as "Owner" FROM pg_catalog.pg_class c
    LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam
    WHERE c.relkind IN ('r','p','v','m','S','f','') AND n.nspname <> 'pg_catalog' AND n.nspname !~ '^pg_toast'
    AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1,2""",
    """SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n
    ON n.oid = c.relnamespace WHERE c.relname OPERATOR(pg_catalog.~) '^(visits)$' COLLATE pg_catalog.default
    AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 2, 3""",
    """SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), (SELECT pg_catalog.pg_get_expr(d.adbin,
    d.adrelid, true) FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef),
    a.attnotnull FROM pg_catalog.pg_attribute a WHERE a.attrelid = 'visits'::pg_catalog.regclass AND a.attnum > 0
    ORDER BY a.attnum""",
)


def test_catalog_questions_of_psql(client: psycopg.Connection[tuple[object, ...]]) -> None:
    listed, found, described = (client.execute(text).fetchall() for text in _BROWSED)
    assert ("main", "visits", "table", "ana") in listed
    assert [row[2] for row in found] == ["visits"]
    assert [row[:2] for row in described][:2] == [("age", "integer"), ("cost", "double precision")]


def test_psql_browses_and_asks(served: Served) -> None:
    if shutil.which("psql") is None:  # it comes with no package of the index; its questions are asked above
        return
    shown = psql(
        served, r"\d", r"\dt", r"\d visits", r"\d+ visits", r"\dn", r"\df dp_noisy*", r"\l", r"\du", r"\dv", r"\dT"
    )
    assert "ERROR" not in shown
    assert re.search(r"age +\| integer", shown)
    assert "dp_noisy_count" in shown
    asked = psql(
        served, "SET dp.epsilon = 1", "SELECT sex, count(*) FROM visits GROUP BY 1", "SELECT count(age2) FROM visits"
    )
    assert re.search(r"F +\| +\d+", asked)
    assert "^" in asked.splitlines()[-1]


def test_a_statement_is_cancelled_and_the_connection_goes_on(
    client: psycopg.Connection[tuple[object, ...]],
) -> None:
    threading.Timer(1.0, client.cancel).start()
    start = time.monotonic()
    with pytest.raises(errors.QueryCanceled):
        client.execute(
            "SELECT count(*) FROM range(1000000000) AS a, range(100000) AS b WHERE (a.range * b.range) % 7 = 3"
        )
    assert time.monotonic() - start < 30
    assert client.execute("SELECT 1").fetchone() == (1,)


# ---- who comes in ---------------------------------------------------------------------------------------------------


def test_wrong_names_and_passwords_are_answered_alike(served: Served) -> None:
    told = []
    for user, password in (("ana", "wrong"), ("nobody", "wrong"), ("nobody", PASSWORD)):
        with pytest.raises(psycopg.OperationalError) as caught:
            psycopg.connect(served.dsn(user, password))
        told.append(str(caught.value).replace(user, "NAME"))
    assert len(set(told)) == 1


def test_analysts_have_instances_of_their_own(served: Served) -> None:
    with (
        psycopg.connect(served.dsn(), autocommit=True) as ana,
        psycopg.connect(served.dsn("bob"), autocommit=True) as bob,
    ):
        ana.execute("CREATE OR REPLACE TABLE secret AS SELECT 42 AS i")
        with psycopg.connect(served.dsn(), autocommit=True) as again:
            assert again.execute("FROM secret").fetchone() == (42,)
        with pytest.raises(errors.UndefinedTable):
            bob.execute("FROM secret")
        shown = bob.execute("SELECT relname FROM pg_catalog.pg_class").fetchall()
        assert ("secret",) not in shown


GROUPS = "SELECT sex, count(*) AS n FROM visits WHERE age > {} GROUP BY sex"


@pytest.mark.parametrize(
    "form",
    [
        GROUPS,
        f"EXPLAIN {GROUPS}",
        f"CREATE TEMP TABLE kept_{{}} AS {GROUPS}",
        f'SELECT "sex", "n" FROM ({GROUPS}) AS __unnamed_subquery',
        f"SELECT sum(n) FROM ({GROUPS}) AS t",
        f"WITH a AS ({GROUPS}) SELECT * FROM a",
        f"{GROUPS} UNION ALL {GROUPS}",
        GROUPS.replace("GROUP BY sex", "GROUP BY ROLLUP (sex)"),
        GROUPS.replace("sex, ", "").replace("GROUP BY sex", ""),
        GROUPS.replace("{}", "%s"),
    ],
)
def test_min_units_that_are_set_hold_in_every_form_of_a_question(served: Served, form: str) -> None:
    said: list[str] = []
    with psycopg.connect(served.dsn(), autocommit=True) as con:
        con.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
        con.execute("SET dp.epsilon = 0.01")
        for least in (None, "77"):
            if least is not None:
                con.execute(f"SET dp.min_units = {least}")
            if "%s" in form:
                done = con.execute(form, (19,))
            else:
                done = con.execute(form.replace("kept_{}", f"kept_{least}").replace("{}", "18"))
            said += [str(row) for row in done.fetchall()] if done.description is not None else []
            assert any("(min_units=77)" in line for line in said) == (least is not None), said


def test_a_call_without_a_cost_is_told_to_say_it_where_selects_have_one(served: Served) -> None:
    with psycopg.connect(served.dsn(), autocommit=True) as con:
        with pytest.raises(psycopg.Error, match=r"dp.epsilon is not SET"):
            con.execute("FROM dp_noisy_count('visits')")
        con.execute("SET dp.epsilon = 0.01")
        with pytest.raises(psycopg.Error, match=r"a call of a dp function says") as caught:
            con.execute("FROM dp_noisy_count('visits')")
        way = str(caught.value.diag.message_hint).removeprefix("Write ").removesuffix(" in the call.")
        assert con.execute(f"SELECT value FROM dp_noisy_count('visits', {way})").fetchone() is not None

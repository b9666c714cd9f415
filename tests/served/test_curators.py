"""Curators of one data set with one ledger on a server, as owners and analysts use them: calls, commands, backups."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

import duckdp
from duckdp.cli import main
from duckdp.errors import DuckDPError, InsufficientBudgetError
from duckdp.ledger import Ledger, addresses, schema, served, served_schema
from duckdp.ledger.addresses import parse
from duckdp.ledger.history import KINDS, walk
from duckdp.ledger.storage import Failure
from tests.ledgers import NANO, answer, ask, refused, set_up
from tests.postgres import Server

# ---- from open to answer ---------------------------------------------------------------------------------------------


def test_curators_share_a_budget_and_their_answers(clinic_file: str, address: str, tmp_path: Path) -> None:
    anchor = str(tmp_path / "anchor")
    other_file = str(tmp_path / "elsewhere" / "clinic.duckdb")
    Path(other_file).parent.mkdir()
    shutil.copy2(clinic_file, other_file)  # name, size and time are the same
    with duckdp.open(clinic_file, ledger=address, anchor=anchor) as one, duckdp.open(other_file, ledger=address) as two:
        one.protect("visits", unit_key="patient_id", max_rows=3, row_cap=10_000, bounds={"age": (0, 110)})
        one.budget(epsilon=1)
        one.grant("ana", epsilon=1)
        text = "SELECT count(*) AS n FROM visits"
        first = one.session("ana").sql(text, epsilon=0.5)
        again = two.session("ana").sql(text, epsilon=0.5)
        assert first.rows() == again.rows()
        assert two.ledger.state() == one.ledger.state()
        two.session("ana").sql("SELECT count(*) AS n FROM visits WHERE age > 40", epsilon=0.5)
        with pytest.raises(InsufficientBudgetError):
            one.session("ana").sql("SELECT count(*) AS n FROM visits WHERE age > 50", epsilon=0.5)
        one.ledger.statements.flush()
        told = sorted(entry.outcome for entry in walk(two.ledger, analyst="ana", kinds=KINDS[:1] + KINDS[2:]))
        assert told == ["B101", "charge 1: answered", "charge 2: answered", "stored, charge 1"]
        assert two.ledger.verify().statements == 2
        assert address.rpartition("?")[0] in repr(one)


@pytest.mark.slow
def test_the_command_line_takes_an_address(clinic_file: str, address: str, tmp_path: Path) -> None:
    def run(*words: str) -> str:
        done = CliRunner().invoke(main, [*words], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    where = ["--ledger", address]
    given = [*where, "--anchor", str(tmp_path / "anchor")]
    protection = ["--unit-key", "patient_id", "--max-rows", "3", "--row-cap", "10000", "--bound", "age=0:110"]
    run("protect", clinic_file, "visits", *protection, *given)
    run("budget", clinic_file, *where, "--epsilon", "2")
    run("grant", clinic_file, "ana", *where, "--epsilon", "1")
    assert run("query", clinic_file, "SELECT count(*) AS n FROM visits", "--analyst", "ana", "--epsilon", "0.5", *where)
    assert "sound" in run("ledger", "verify", clinic_file, *where)
    assert "SELECT count(*)" in run("ledger", "history", clinic_file, *where)
    target = str(tmp_path / "copy.ledger")
    run("ledger", "backup", clinic_file, target, *where)
    with Ledger.open(target, create=False) as copy:
        assert copy.state().backup is not None and copy.count_charges() == 1


def test_what_one_curator_changes_the_other_sees(address: str, tmp_path: Path) -> None:
    with set_up(Ledger.open(address, anchor=str(tmp_path / "anchor"))) as one, Ledger.open(address) as two:
        assert not two.state().frozen
        one.freeze("for now")
        assert two.state().frozen
        with refused("B103"):
            two.require_open("ana")
        two.unfreeze("again")
        answer(one, ask("q", 1000))
        assert two.state().primary_spent == 1000


# ---- what is made of it in files -------------------------------------------------------------------------------------


def test_a_backup_in_a_file_is_the_ledger_and_can_take_its_place(address: str, tmp_path: Path) -> None:
    target = str(tmp_path / "copy.ledger")
    with set_up(Ledger.open(address, anchor=str(tmp_path / "anchor"))) as ledger:
        answer(ledger, ask("q", 1000), "from the server")
        ledger.statements.note("ana", "free", "SELECT 1", "answered")
        ledger.backup(target)
        with refused("B207"):
            ledger.backup(address)
    with Ledger.open(target, create=False) as copy:
        assert copy.verify().statements == 1
        assert copy.state().backup is not None
        with refused("B210"):
            copy.admit(ask("q", 1000))
        copy.put_into_service(reason="the server burned down")
        assert copy.admit(ask("q", 1000)).payload == "from the server"
    with refused("B203"):  # the anchor follows the copy
        Ledger.open(address)


def test_tables_have_the_columns_and_defaults_of_a_file(server: Server, address: str, tmp_path: Path) -> None:
    Ledger.open(address, anchor=str(tmp_path / "anchor")).close()
    connection = served.Connection(address)
    for table in served_schema.TABLES:
        found = connection.execute(
            "SELECT attname, pg_get_expr(adbin, adrelid) FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid "
            "AND adnum = attnum WHERE attrelid = ?::regclass AND attnum > 0 ORDER BY attnum",
            (table,),
        ).fetchall()
        wanted = schema.defaults(table)
        assert [row[0] for row in found] == list(wanted), table
        for name, default in found:
            value = None if default is None else connection.execute(f"SELECT {default}").fetchone()[0]
            assert value == wanted[name], (table, name)
    connection.close()
    model = sqlite3.connect(":memory:", isolation_level=None)
    schema.run_scripts(model, 0)
    tables = {row[0] for row in model.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert tables == set(served_schema.TABLES)
    model.close()


# ---- what was altered ------------------------------------------------------------------------------------------------

OFF = "SET session_replication_role = replica; "  # as an intruder with all rights: triggers and keys are off
ALTERED = {
    "a sum": OFF + "UPDATE dataset SET primary_spent = 0",
    "a cap": OFF + "UPDATE analyst SET primary_spent = 0",
    "an entry": OFF + "UPDATE event SET detail = replace(detail, 'charge', 'charged') WHERE kind = 'charge'",
    "the last entry": OFF + "DELETE FROM event WHERE seq = (SELECT max(seq) FROM event)",
    "the data set": OFF + "DELETE FROM dataset",
    "a trigger": "DROP TRIGGER event_change ON event",
    "a trigger that is off": "ALTER TABLE event DISABLE TRIGGER event_change",
    "a function": "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
    "'BEGIN RETURN NEW; END'",
    "a column": "ALTER TABLE charge ADD COLUMN more TEXT",
    "a limit": "ALTER TABLE dataset DROP CONSTRAINT dataset_check",
    "an index": "DROP INDEX charge_analyst",
    "what a crash leaves": "ALTER TABLE share SET UNLOGGED",
    "a policy": "ALTER TABLE charge ENABLE ROW LEVEL SECURITY",
    "a name": OFF + "DELETE FROM directory WHERE name >= 'c'::bytea AND name < 'd'::bytea",
    "a rule": "CREATE RULE nothing AS ON INSERT TO share DO INSTEAD NOTHING",
}
LATER = {  # found when they are used, and by verify
    "a charge": OFF + "UPDATE charge SET state = 'open'",
    "a release": OFF + "UPDATE release SET payload = 'other'",
    "a release that is gone": OFF + "DELETE FROM release",
}


@pytest.fixture(scope="module")
def kept(server: Server, tmp_path_factory: pytest.TempPathFactory):
    """A ledger of a few entries; copies of it are altered."""
    folder = tmp_path_factory.mktemp("kept")
    server.connect().execute("CREATE DATABASE kept").connection.close()
    with set_up(Ledger.open(server.address("clinic", "kept"), anchor=str(folder / "anchor"))) as ledger:
        answer(ledger, ask("q", 1000))
    return folder / "anchor"


@pytest.fixture
def copied(server: Server, kept: Path):
    """A copy of that ledger, in a database of its own."""
    with server.connect() as owner:
        owner.execute("DROP DATABASE IF EXISTS copied WITH (FORCE)")
        owner.execute("CREATE DATABASE copied TEMPLATE kept STRATEGY FILE_COPY")
    return server.address("clinic", "copied")


def alter(server: Server, sql: str) -> None:
    with server.connect("copied") as intruder:
        intruder.execute("SET search_path = clinic")
        intruder.execute(sql)


QUICK = ("a sum", "a trigger that is off", "an index")


@pytest.mark.parametrize("what", [pytest.param(w, marks=[] if w in QUICK else pytest.mark.slow) for w in ALTERED])
def test_what_was_altered_is_refused_at_the_next_opening(server: Server, copied: str, what: str) -> None:
    Ledger.open(copied, create=False).close()
    alter(server, ALTERED[what])
    with pytest.raises(DuckDPError, match=r"^B20[23]:"):
        Ledger.open(copied, create=False)


@pytest.mark.parametrize("what", LATER)
def test_what_was_altered_is_refused_where_it_is_used_and_found(server: Server, copied: str, what: str) -> None:
    alter(server, LATER[what])
    with Ledger.open(copied, create=False) as ledger:
        with refused("B202"):
            ledger.verify()
        with refused("B202"):
            ledger.admit(ask("q", 1000))


# ---- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("postgres://a@h:1/d", "postgresql://a@h:1/d?schema=duckdp"),
        ("postgresql://h/d?schema=s&sslmode=require", "postgresql://h/d?sslmode=require&schema=s"),
        ("postgresql:///d?host=/run/pg", "postgresql:///d?host=/run/pg&schema=duckdp"),
        ("postgresql://a%40b@h1:1,h2:2/d", "postgresql://a%40b@/d?host=h1,h2&port=1,2&schema=duckdp"),
        ("postgresql://[::1]:5/d", "postgresql:///d?host=::1&port=5&schema=duckdp"),
    ],
)
def test_an_address_has_one_form(given: str, text: str) -> None:
    assert parse(given).text == text == parse(text).text
    assert parse(given).parameters == parse(text).parameters


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://a:hush@h/d",
        "postgresql://h/d?password=hush",
        "postgresql://h/d?sslpassword=hush",
        "postgresql://h/d?options=-chush",
        "postgresql://h/d?schema=Hush",
        "postgresql://h/d?schema=pg_hush",
        "postgresql://h/d?schema=a&schema=hush",
        "postgresql://h:hush/d",
        "postgresql://h/d#hush",
        "postgresql://h/d?hush",
        "postgresql://[hush/d",
    ],
)
def test_an_address_that_is_refused_is_not_repeated(given: str) -> None:
    for call in (parse, addresses.canonical, Ledger.open, lambda text: duckdp.open("x", ledger=text)):
        with pytest.raises(DuckDPError) as found:
            call(given)
        assert "hush" not in str(found.value).lower()


@pytest.mark.parametrize(
    "given",
    [
        "POSTGRESQL://a:hush@h/d",
        "postgresql+psycopg://a:hush@h/d",
        "postgressql://a:hush@h/d",
        "pg://h/d?password=hush",
        "postgres:/a:hush@h/d",
        "postgresql:a:hush@h/d",
        "host=h dbname=d password=hush",
    ],
)
def test_an_address_of_another_form_is_neither_a_file_nor_repeated(given: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    duckdb.connect("x.duckdb").close()
    for call in (Ledger.open, lambda text: duckdp.open("x.duckdb", ledger=text)):
        with pytest.raises(DuckDPError, match=r"^P107: ") as found:
            call(given)
        assert "hush" not in str(found.value).lower()
    assert [found.name for found in tmp_path.iterdir()] == ["x.duckdb"]
    addresses.require_path("/a/x@y:z.ledger"), addresses.require_path("C:\\a\\password.ledger")


def test_a_schema_that_others_own_or_write_into_holds_no_ledger(server: Server, address: str, tmp_path: Path) -> None:
    name, anchor = parse(address).schema, str(tmp_path / "anchor")
    with server.connect() as owner:
        owner.execute("CREATE ROLE eve; CREATE SCHEMA theirs AUTHORIZATION eve; CREATE SCHEMA shared")
        owner.execute("GRANT CREATE ON SCHEMA shared TO PUBLIC")
        owner.execute(
            "CREATE FUNCTION theirs.hashtextextended(TEXT, INT) RETURNS BIGINT LANGUAGE plpgsql AS "
            "'BEGIN RAISE EXCEPTION ''ran as another''; END'"
        )
        for schema_name in ("theirs", "shared"):
            with refused("B214"):
                Ledger.open(server.address(schema_name), anchor=anchor)
        set_up(Ledger.open(address, anchor=anchor)).close()
        owner.execute(f"GRANT USAGE ON SCHEMA {name} TO eve")
        Ledger.open(address).close()  # who looks on adds nothing
        owner.execute(f"GRANT CREATE ON SCHEMA {name} TO eve")
        with refused("B214"):
            Ledger.open(address)
        owner.execute(f"REVOKE ALL ON SCHEMA {name} FROM eve; ALTER SCHEMA {name} OWNER TO eve")
        with refused("B214"):
            Ledger.open(address)


def test_a_session_that_a_pooler_exchanged_charges_nothing(address: str, tmp_path: Path) -> None:
    with set_up(Ledger.open(address, anchor=str(tmp_path / "anchor"))) as ledger:
        mine, other = served.Connection(address), served.Connection(address)
        mine._driver, other._driver = other._driver, mine._driver  # what a pooler gives for the next transaction
        for writing in (True, False):
            with pytest.raises(Failure) as found:
                mine.begin(writing=writing)
            assert found.value.told.code == "B214" and not mine.in_transaction
        mine.close(), other.close()
        assert ledger.admit(ask("q", NANO)).id == 1


def test_a_password_is_found_by_the_driver_and_shown_nowhere(server, address, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "hush-hush")
    with set_up(Ledger.open(address, anchor=str(tmp_path / "anchor"))) as ledger:
        assert "hush" not in f"{ledger.path} {ledger.state()} {ledger.log()}"
    with pytest.raises(DuckDPError) as found:
        Ledger.open(address.replace("owner@", "nobody@"), anchor=str(tmp_path / "other"))
    assert found.value.code == "B213" and "hush" not in str(found.value)


def test_what_cannot_be_opened_says_why(server: Server, address: str, tmp_path: Path) -> None:
    anchor = str(tmp_path / "anchor")
    with pytest.raises(DuckDPError, match=r"^P107: anchor"):
        Ledger.open(address)
    with refused("B207"):
        Ledger.open(address, create=False, anchor=anchor)
    with pytest.raises(DuckDPError, match=r"^B213: .*has this database"):
        Ledger.open(address.replace("/postgres?", "/nowhere?"), anchor=anchor)
    with pytest.raises(DuckDPError, match=r"^B213: .*cannot be reached"):
        Ledger.open("postgresql://127.0.0.1:1/x", anchor=anchor)
    with server.connect() as owner:
        owner.execute("CREATE SCHEMA taken; CREATE TABLE taken.charge (id INT)")
        with pytest.raises(DuckDPError, match=r"^B207: .*holds other tables"):
            Ledger.open(server.address("taken"), anchor=anchor)
        owner.execute("CREATE TABLE taken.dataset (id INT)")
        with pytest.raises(DuckDPError, match=r"^B207: .*is not a ledger"):
            Ledger.open(server.address("taken"), anchor=anchor)
        owner.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
        with pytest.raises(DuckDPError, match=r"^B214: .*encoding"):
            Ledger.open(server.address("x", "latin"), anchor=anchor)
        with set_up(Ledger.open(address, anchor=anchor)):
            schema_name = parse(address).schema
            owner.execute(f"COMMENT ON TABLE {schema_name}.dataset IS 'duckdp ledger, version 99'")
        with refused("B201"):
            Ledger.open(address)


def test_text_with_a_character_that_the_server_does_not_store_is_refused_whole(address: str, tmp_path: Path) -> None:
    with set_up(Ledger.open(address, anchor=str(tmp_path / "anchor"))) as ledger:
        with refused("P107"):
            ledger.freeze("a\0b")
        assert not ledger.state().frozen
        ledger.statements.note("ana", "refused", "SELECT 'a\0b'", "Q101")
        ledger.admit(ask("q", NANO))
        assert ledger.verify().statements == 1

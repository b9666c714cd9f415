"""The owner's side of the ledger: budgets, grants, declarations, names, files."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from duckdp.core.types import AccountantKind, Neighbours
from duckdp.errors import BudgetError, CatalogError, DuckDPError, InternalError, LedgerError, ParameterError
from duckdp.ledger import Cap, Ledger, caps, schema, words
from duckdp.resources import read_sql
from tests.ledgers import NANO, answer, ask, refused, set_up

BASIC, ZCDP = AccountantKind.BASIC, AccountantKind.ZCDP


@pytest.fixture
def empty(tmp_path):
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        yield ledger


@pytest.fixture
def ledger(empty):
    return set_up(empty)


# -- the owner ---------------------------------------------------------------------------------------------------------


def test_budget_and_grant_are_idempotent(ledger):
    before = ledger.log()
    set_up(ledger)
    assert ledger.log() == before
    assert [event.kind for event in before] == ["grant", "budget", "create"]


def test_a_total_is_raised_only_on_purpose(ledger):
    with refused("B105"):
        set_up(ledger, 11 * NANO)
    fixed = {"neighbours": Neighbours.ADD_REMOVE, "accountant": BASIC, "delta_atto": 10**12, "epsilon_nano": 11 * NANO}
    with refused("B105"):
        ledger.set_budget(**fixed, raise_to=True)
    with refused("B105"):
        ledger.set_budget(**fixed, reason="because")
    with refused("P107"):
        ledger.set_budget(**fixed, raise_to=True, reason="  ")
    ledger.set_budget(**fixed, raise_to=True, reason="the board agreed")
    assert (ledger.state().epsilon_nano, ledger.log()[0].reason) == (11 * NANO, "the board agreed")


def test_a_total_is_lowered_down_to_what_was_spent(ledger):
    answer(ledger, ask("a", 4 * NANO))
    set_up(ledger, 4 * NANO, ana=4 * NANO)
    with refused("B104"):
        set_up(ledger, 4 * NANO - 1, ana=NANO)
    with refused("B104"):
        ledger.grant("ana", epsilon_nano=NANO, delta_atto=10**12)
    with refused("B101"):
        ledger.admit(ask("b", 1))


def test_a_cap_lies_within_the_total_and_is_raised_only_on_purpose(ledger):
    ledger.grant("bob", epsilon_nano=NANO, delta_atto=0)
    with refused("B105"):
        ledger.grant("bob", epsilon_nano=NANO, delta_atto=1)
    with refused("P107"):
        ledger.grant("bob", epsilon_nano=11 * NANO, delta_atto=0, raise_to=True, reason="no")
    with refused("P107"):
        ledger.grant("bob", epsilon_nano=NANO, delta_atto=10**12 + 1, raise_to=True, reason="no")
    with refused("P105"):
        ledger.grant("Bob", epsilon_nano=NANO, delta_atto=0)
    with refused("P102"):
        ledger.grant("bob", epsilon_nano=NANO, delta_atto=-1)
    ledger.grant("bob", epsilon_nano=2 * NANO, delta_atto=1, raise_to=True, reason="thesis")
    assert [(who.name, who.epsilon_nano) for who in ledger.analysts()] == [("ana", 10 * NANO), ("bob", 2 * NANO)]


def test_a_grant_needs_a_budget(empty):
    assert empty.analysts() == []
    with refused("B107"):
        empty.grant("ana", epsilon_nano=1, delta_atto=0)


def test_a_revoked_analyst_comes_back_only_on_purpose_and_keeps_what_was_spent(ledger):
    answer(ledger, ask("a"))
    ledger.revoke("ana", "left")
    assert ledger.analysts()[0].revoked_reason == "left"
    with refused("B105"):
        ledger.grant("ana", epsilon_nano=10 * NANO, delta_atto=10**12)
    ledger.grant("ana", epsilon_nano=10 * NANO, delta_atto=10**12, raise_to=True, reason="is back")
    assert ledger.remaining("ana").primary == 9 * NANO
    with refused("B102"):
        ledger.revoke("eve", "who?")
    with refused("P107"):
        ledger.revoke("ana", "")


def test_relation_and_accountant_are_frozen_by_the_first_charge(ledger):
    budget = {"epsilon_nano": 10 * NANO, "delta_atto": 10**12}
    ledger.set_budget(**budget, neighbours=Neighbours.REPLACE, accountant=ZCDP)
    assert ledger.analysts()[0].primary_limit == ledger.state().primary_limit  # the cap follows the accountant
    ledger.set_budget(**budget, neighbours=Neighbours.REPLACE, accountant=BASIC)
    ledger.admit(ask("a", 0))
    for neighbours, accountant in ((Neighbours.ADD_REMOVE, BASIC), (Neighbours.REPLACE, ZCDP)):
        with refused("C109"):
            ledger.set_budget(**budget, neighbours=neighbours, accountant=accountant, raise_to=True, reason="please")


def test_tables_are_versioned(empty):
    assert empty.save_table("visits", '{"a": 1}') == 1
    assert empty.save_table("visits", '{"a": 1}') == 1
    assert empty.save_table("staff", "{}") == 2
    assert empty.save_table("visits", '{"a": 2}', reason="typo") == 3
    assert empty.tables() == {"staff": "{}", "visits": '{"a": 2}'}
    assert empty.drop_table("staff", "unused") == 4
    assert empty.save_table("staff", "{}") == 5
    with refused("C101"):
        empty.drop_table("patients", "unknown")
    with refused("P107"):
        empty.save_table("", "{}")


def test_a_changed_source_needs_a_reason_and_keeps_the_budget(ledger):
    assert ledger.accept_source("one") == ledger.accept_source("one") == 1
    answer(ledger, ask("a"))
    with refused("C104"):
        ledger.accept_source("two")
    assert ledger.accept_source("two", reason="nightly load") == 2
    assert (ledger.state().data_version, ledger.state().primary_spent) == (2, NANO)


def test_names_belong_to_their_analyst_for_ever(empty):
    set_up(empty, ana=5 * NANO, bob=5 * NANO)
    answer(empty, ask("a", name="ac", kind="summary"))
    with refused("C111"):
        empty.admit(ask("b", name="ac", kind="synthetic"))
    assert empty.state().primary_spent == NANO
    answer(empty, ask("b", name="ac", kind="synthetic", analyst="bob"), "7")
    assert empty.object("ana", "ac").payload == "42"
    assert empty.admit(ask("a", name="again", kind="summary")) == empty.object("ana", "again")  # a second name is free
    with refused("C111"):
        empty.share("ac", "ana", "bob")  # bob has one of that name


def test_unknown_and_not_yours_are_the_same_error(empty):
    set_up(empty, ana=5 * NANO, bob=5 * NANO)
    answer(empty, ask("a", name="ac", kind="summary"))
    texts = set()
    for name in ("ac", "zz"):
        with refused("C110") as error:
            empty.object("bob", name)
        texts.add(str(error.value).replace(name, "?"))
    for charge in (1, 99):
        with refused("C110") as error:
            empty.release("bob", charge)
    assert len(texts) == 1
    for _ in range(2):
        empty.share("ac", "ana", "bob", reason="same project")
    assert empty.object("bob", "ac") == empty.object("ana", "ac")
    assert [(row.name, row.owner, row.ready) for row in empty.objects("bob")] == [("ac", "ana", True)]
    with refused("C110"):
        empty.share("zz", "ana", "bob")
    with refused("B102"):
        empty.share("ac", "ana", "eve")


def test_an_object_without_a_release_is_not_there_yet(ledger):
    ledger.admit(ask("a", name="ac", kind="summary"))
    assert [row.ready for row in ledger.objects("ana")] == [False]
    with refused("C110"):
        ledger.object("ana", "ac")


# -- files -------------------------------------------------------------------------------------------------------------


def test_files_are_for_the_owner_only(ledger):
    folder = Path(ledger.path).parent
    old = os.umask(0)
    try:
        with Ledger.open(folder / "b.ledger") as other:
            set_up(other)
            other.backup(folder / "copy.ledger")
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    finally:
        os.umask(old)
    assert set(modes.values()) == {0o600}
    assert {"b.ledger", "b.ledger-wal", "b.ledger-shm", "b.ledger.anchor", "copy.ledger.anchor"} <= set(modes)


def test_what_cannot_be_made_is_told_by_its_own_name(ledger, tmp_path, monkeypatch):
    """Not by the name of the draft, which nobody gave."""
    opened = os.open

    def refuses(name, flags, *more, **named):
        if flags & os.O_CREAT and os.fspath(name).startswith(str(tmp_path)):
            raise PermissionError(name)
        return opened(name, flags, *more, **named)

    (tmp_path / "disk").mkdir()
    before = sorted(os.listdir(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuses)
        for name, make in (
            ("copy", lambda: ledger.backup(tmp_path / "copy")),
            ("new.ledger", lambda: Ledger.open(tmp_path / "new.ledger")),
            ("disk/moved", lambda: ledger.move_anchor(tmp_path / "disk" / "moved", reason="r")),
        ):
            with refused("B207") as caught:
                make()
            assert f'"{tmp_path / name}"' in str(caught.value)
            assert ".new-" not in str(caught.value)
        ledger.statements.note("ana", "free", "SELECT 1", "answered")
        assert not ledger.statements.flush()
        assert ".new-" not in str(ledger.statements.problem)
    assert ledger.statements.flush()
    assert set(os.listdir(tmp_path)) - set(before) <= {f"a.ledger.statements{end}" for end in ("", "-wal", "-shm")}


def test_a_writer_that_connects_anew_writes_as_before(ledger):
    """Whatever took its connection: the new one is checked and set up as the first one was."""

    def told(connection):
        names = (
            *("journal_mode", "synchronous", "fullfsync", "foreign_keys", "trusted_schema", "cell_size_check"),
            *("busy_timeout", "query_only", "ignore_check_constraints", "recursive_triggers", "secure_delete"),
        )
        return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}

    writer = ledger._store._writer
    before = writer.alone(told)
    assert (before["foreign_keys"], before["synchronous"]) == (1, 2)
    writer.alone(lambda connection: connection.close())
    with refused("B207"):
        answer(ledger, ask("a"))
    answer(ledger, ask("a"))
    assert writer.alone(told) == before
    ledger.verify()


def test_closing_leaves_one_whole_file(ledger):
    ledger.close()
    ledger.close()
    assert sorted(file.name for file in Path(ledger.path).parent.iterdir()) == ["a.ledger", "a.ledger.anchor"]
    with refused("B211"):
        ledger.state()


def test_one_name_for_one_ledger(ledger, tmp_path):
    (tmp_path / "link").symlink_to("a.ledger")
    with Ledger.open(tmp_path / "link") as other:
        assert other.path == ledger.path
        answer(other, ask("a"))
    assert ledger.state().primary_spent == NANO


def test_a_backup_is_whole_and_answers_nothing_until_it_is_needed(ledger, tmp_path):
    first = answer(ledger, ask("a"))
    with refused("B207"):
        ledger.backup(tmp_path / "no folder" / "copy")
    assert [event.kind for event in ledger.log()].count("backup") == 0  # of none that was not made
    ledger.backup(tmp_path / "copy")
    for taken in ("copy", "a.ledger"):
        with refused("B207"):
            ledger.backup(tmp_path / taken)
    answer(ledger, ask("b"))
    with Ledger.open(tmp_path / "copy", create=False) as copy:
        assert (copy.dataset_id, copy.salt, copy.state().primary_spent) == (ledger.dataset_id, ledger.salt, NANO)
        for use in (
            lambda: copy.admit(ask("a")),
            lambda: copy.admit(ask("c")),
            lambda: copy.release("ana", 1),
            lambda: copy.objects("ana"),
            lambda: copy.require_open("ana"),
            lambda: copy.unfreeze("go on"),
            lambda: copy.freeze("stop"),
            lambda: copy.save_table("t", "{}"),
            lambda: copy.accept_source("x"),
            lambda: copy.backup(tmp_path / "second"),
            lambda: copy.move_anchor(tmp_path.parent / "x", reason="r"),
            lambda: copy.grant("bob", epsilon_nano=1, delta_atto=0),
            lambda: set_up(copy, 5 * NANO),
        ):
            with refused("B210"):
                use()
        assert copy.state().backup is not None
        copy.put_into_service(reason="the original burned down", nothing_lost=True)
        assert copy.admit(ask("a")) == first
        assert (copy.state().backup, copy.log()[0].reason) == (None, "the original burned down")
        with refused("B207"):
            copy.put_into_service(reason="again")
    assert ledger.log()[0].kind == "backup"


def test_a_new_version_of_the_schema_is_reached_step_by_step(ledger, monkeypatch):
    answer(ledger, ask("a"))
    ledger.close()
    later = "-- a later version\nCREATE TABLE note (text TEXT);\n"
    monkeypatch.setattr(schema, "read_sql", lambda name: later if name == "later.sql" else read_sql(name))
    monkeypatch.setattr(schema, "SCHEMAS", (*schema.SCHEMAS, "later.sql"))
    for _ in range(2):
        with Ledger.open(ledger.path) as newer:
            assert newer.state().primary_spent == NANO
            newer.accept_source("as it was")
            newer.verify()
    monkeypatch.undo()
    with refused("B201") as error:
        Ledger.open(ledger.path)
    assert isinstance(error.value, LedgerError)
    assert error.value.path == ledger.path


MONTHS = (
    *("month_epsilon_nano", "month_delta_atto", "primary_month_limit", "secondary_month_limit"),
    *("primary_month_spent", "secondary_month_spent"),
)
SEALS = {
    "dataset": (
        "month",
        "reservations",
        "reserved",
        "events",
        "head",
        "actions",
        "charges",
        "declared",
        "charged",
        "read",
        "anchor",
        "backup",
        "seal",
    ),
    "analyst": ("charges", "seal", "teams", "month", *MONTHS),
    "catalog": ("until", "charged", "seal"),
    "charge": ("number", "released", "finished", "stages", "staged", "seal"),
    "event": ("action", "version"),
    "object": ("version",),
}
TO_3 = (
    *(f"DROP TABLE {table}" for table in ("step", "interaction", "reservation", "team", "directory")),
    "DROP INDEX charge_analyst",
    "DROP INDEX event_action",
    *(f"DROP TRIGGER {trigger}" for trigger in ("charge_number", "charge_seal", "event_version", "object_version")),
    *(f"ALTER TABLE {table} DROP COLUMN {column}" for table, columns in SEALS.items() for column in columns),
)
DOWN = {
    1: (*TO_3, "DROP TABLE stage", "DROP TABLE finished"),
    2: (*TO_3, "DROP TABLE stage"),
    3: TO_3,
}  # from the present version to an older one


@pytest.mark.parametrize("version", DOWN)
def test_ledgers_of_older_versions_are_opened_and_their_answers_stay_free(ledger, version):
    first = answer(ledger, ask("a"))
    ledger.fail(ledger.admit(ask("b")))
    if version >= 2:
        first = ledger.finish_release(first.charge_id, "made of it")
    ledger.close()
    connection = sqlite3.connect(ledger.path)
    for statement in (*DOWN[version], f"PRAGMA user_version = {version}"):
        connection.execute(statement)
    connection.commit()
    connection.close()
    with Ledger.open(ledger.path) as newer:
        assert newer.admit(ask("a")) == first
        charge = newer.admit(ask("b"))
        assert (charge.attempt, newer.stages(charge)) == (2, [])
        newer.store_stage(charge, 0, "1")
        newer.store_release(charge, "2")
        assert newer.state().primary_spent == 2 * NANO
    with Ledger.open(ledger.path, create=False) as again:
        assert again.admit(ask("b")).payload == "2"
        again.verify()


def test_resources_are_read_by_plain_name():
    assert "CREATE TABLE charge" in read_sql("ledger.sql")
    for name in ("../pyproject.toml", "none.sql", "../sql/ledger.sql"):
        with pytest.raises(InternalError):
            read_sql(name)


def test_errors_are_of_one_tree():
    assert issubclass(LedgerError, BudgetError)
    assert issubclass(ParameterError, ValueError)
    assert issubclass(CatalogError, DuckDPError)


def test_nobody_is_called_as_what_was_lost_is(ledger, tmp_path):
    cap = Cap(epsilon_nano=NANO, delta_atto=0)
    with refused("P105"):
        ledger.grant(words.LOST, epsilon_nano=NANO, delta_atto=0)
    with refused("P105"):
        ledger.set_team("lab", cap, members=["ana", words.LOST])
    ledger._store.write(lambda tx: caps.set_cap(tx, words.LOST, cap, AccountantKind.BASIC, None))  # as one could before
    answer(ledger, ask("a", NANO, words.LOST))
    ledger.backup(tmp_path / "copy.ledger")
    with Ledger.open(tmp_path / "copy.ledger") as copy:
        copy.put_into_service(reason="the original burned down")
        state = copy.state()
        assert state.primary_spent == state.primary_limit
        copy.verify()
        with refused("P105"):
            copy.grant(words.LOST, epsilon_nano=NANO, delta_atto=0, raise_to=True, reason="back")

"""Damage is noticed when it matters: sealed rows, lookups that prove that nothing is there, pages of listings."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckdp.errors import LedgerError
from duckdp.ledger import Charge, Ledger, connections, directory, listing, schema
from duckdp.ledger.places import Anchors, Place
from duckdp.ledger.sealing import begin
from duckdp.ledger.seals import Damage, seal_of
from duckdp.ledger.tx import Tx
from tests.ledgers import answer, ask, refused, set_up

NAMES = st.binary(min_size=1, max_size=3)


def new_tx() -> tuple[sqlite3.Connection, Tx]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.row_factory = sqlite3.Row
    schema.run_scripts(connection, 0)
    return connection, begin(connection, "0" * 32, bytes(16))


# -- the directory -----------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(NAMES, st.integers(0, 9), st.booleans()), max_size=30), st.lists(NAMES, max_size=10))
def test_the_directory_says_what_was_entered(steps: list[tuple[bytes, int, bool]], others: list[bytes]) -> None:
    connection, tx = new_tx()
    with closing(connection):
        model: dict[bytes, int] = {}
        for name, subject, enters in steps:
            if enters and name not in model:
                directory.enter(tx, name, subject)
                model[name] = subject
            elif not enters and name in model:
                directory.remove(tx, name)
                del model[name]
            else:
                with pytest.raises(Damage):
                    (directory.enter(tx, name, subject) if enters else directory.remove(tx, name))
        for name in {*model, *others}:
            assert directory.find(tx, name) == model.get(name)
        for prefix in {b"", *(name[:1] for name in model)}:
            found = [(prefix + name, subject) for name, subject in directory.listed(tx, prefix)]
            assert found == sorted(item for item in model.items() if item[0].startswith(prefix) and item[0] > prefix)
            assert directory.listed(tx, prefix, limit=2) == directory.listed(tx, prefix)[:2]


@settings(max_examples=200, deadline=None)
@given(
    st.sets(NAMES, min_size=1, max_size=12), st.data(), st.sampled_from(["name", "next", "subject", "seal", "DELETE"])
)
def test_no_altered_directory_says_anything_else(names: set[bytes], data: st.DataObject, column: str) -> None:
    """Whatever row was altered or lost, each lookup says what it said before, or that it is damaged; listings do."""
    connection, tx = new_tx()
    with closing(connection):
        for subject, name in enumerate(sorted(names)):
            directory.enter(tx, name, subject)
        wanted = {*names, *data.draw(st.sets(NAMES, max_size=5))}
        before = {name: directory.find(tx, name) for name in wanted}
        listed = directory.listed(tx, b"")
        victim = data.draw(st.sampled_from(sorted(names | {b""})))
        if column == "DELETE":
            tx.run("DELETE FROM directory WHERE name = ?", victim)
        else:
            value = data.draw(st.integers() if column == "subject" else st.binary(max_size=3))
            old = tx.one(f"SELECT {column} FROM directory WHERE name = ?", victim)
            taken = tx.one("SELECT 1 FROM directory WHERE name = ?", value) if column == "name" else None
            if not -(2**63) <= (value if isinstance(value, int) else 0) < 2**63 or taken or old[0] == value:
                return
            tx.run(f"UPDATE directory SET {column} = ? WHERE name = ?", value, victim)
        for name in wanted:
            with suppress(Damage):
                assert directory.find(tx, name) == before[name]
        with pytest.raises(Damage):
            assert directory.listed(tx, b"") == listed
            raise AssertionError("the listing does not see it")


def test_a_stale_row_of_the_directory_is_not_listed() -> None:
    """A disk that kept an old page: its rows are sealed, and one of them spans the place of a name that is gone."""
    connection, tx = new_tx()
    with closing(connection):
        for subject, name in enumerate((b"a", b"k")):
            directory.enter(tx, name, subject)
        stale = tx.get("directory", name=b"k")
        directory.remove(tx, b"k")
        directory.enter(tx, b"p", 7)
        assert stale is not None
        tx.run("DELETE FROM directory WHERE name = ?", b"p")
        tx.insert("directory", **{column: value for column, value in stale.items() if column != "seal"})
        tx.spanning = None
        assert directory.find(tx, b"a") == 0
        with pytest.raises(Damage):
            directory.listed(tx, b"")


def test_a_seal_is_of_one_table_of_one_ledger() -> None:
    """A page that a disk writes into another table, or into another ledger's file, fits neither."""
    connection, tx = new_tx()
    with closing(connection):
        directory.enter(tx, b"a", 1)
        row = tx.get("directory", name=b"a")
        assert row is not None
        values = [value for column, value in row.items() if column != "seal"]
        assert seal_of(bytes(16), "directory", values) == row["seal"]
        others = [seal_of(bytes(16), table, values) for table in ("charge", "analyst", "", "directory2")]
        others += [seal_of(salt, "directory", values) for salt in (bytes(15) + b"1", b"x" * 16)]
        assert row["seal"] not in others
        assert len(set(others)) == len(others)


# -- the ledger --------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with set_up(Ledger.open(tmp_path / "a.ledger"), 10**12, ana=10**12, ben=10**12) as ledger:
        for question in range(3):
            answer(ledger, ask(question), f"secret {question}")
        return Path(ledger.path)


def test_an_index_without_a_question_does_not_charge_it_again(path: Path) -> None:
    """Both indexes that lead to a charge, each without it."""
    for table in ("directory", "charge"):
        original = path.read_bytes()
        with closing(sqlite3.connect(path)) as connection:
            if table == "directory":
                connection.execute("DELETE FROM directory WHERE name > x'63' AND subject = 2")
            else:
                connection.execute("PRAGMA writable_schema = ON")
                connection.execute("UPDATE sqlite_schema SET rootpage = 2 WHERE name = 'sqlite_autoindex_charge_1'")
            connection.commit()
        if table == "directory":
            with refused("B202"), Ledger.open(path) as ledger:
                ledger.admit(ask(1))
        else:
            with Ledger.open(path) as ledger:
                assert ledger.admit(ask(1)).payload == "secret 1"
                with refused("B202"):
                    ledger.verify()
        path.write_bytes(original)


def test_an_action_that_is_lost_is_missed_by_the_log(path: Path) -> None:
    """The last one, one in the middle whose follower is no action, and the end of a page."""
    with Ledger.open(path) as ledger:
        ledger.grant("cleo", epsilon_nano=1, delta_atto=0)
        answer(ledger, ask("another"))
        ledger.grant("dan", epsilon_nano=1, delta_atto=0)
        whole = ledger.log()
        assert [e.subject for e in whole[:2]] == ["dan", "cleo"]
        for number in (whole[0].number, whole[1].number):
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
                for name, _ in triggers:
                    connection.execute(f"DROP TRIGGER {name}")
                row = connection.execute("SELECT * FROM event WHERE action = ?", (number,)).fetchone()
                connection.execute("DELETE FROM event WHERE action = ?", (number,))
                for _ in range(2):
                    with refused("B202"):
                        ledger.log()
                with refused("B202"):
                    ledger.log(1, before=number + 1)
                connection.execute(f"INSERT INTO event VALUES ({', '.join('?' * len(row))})", row)
                for _, sql in triggers:
                    connection.execute(sql)
            assert ledger.log() == whole


def test_what_was_undone_is_not_remembered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that fails after its work, before its commit, leaves nothing in what is held between two."""
    with Ledger.open(path) as ledger:
        before, places = ledger.state(), Anchors.places

        def fails(self: Anchors, tx: Tx, **more: bool) -> tuple[Place, ...]:
            if tx.dataset()["charges"] > 3:
                raise LedgerError("B207", "the disk is full", path=str(path))
            return places(self, tx, **more)

        with monkeypatch.context() as patch:
            patch.setattr(Anchors, "places", fails)
            with refused("B207"):
                ledger.admit(ask("new"))
        assert ledger.state() == before
        found = ledger.admit(ask("newer", 5))
        assert (found.id, ledger.state().primary_spent) == (4, before.primary_spent + 5)
        ledger.verify()


@pytest.mark.parametrize("remembers", [True, False])
def test_a_charge_that_is_altered_before_its_release_is_not_released(
    path: Path, monkeypatch: pytest.MonkeyPatch, remembers: bool
) -> None:
    """What was just charged is held as it stands, while nobody else writes; the broken twin holds it for ever."""
    with Ledger.open(path) as ledger:
        charge = ledger.admit(ask("new", 5))
        assert isinstance(charge, Charge)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("UPDATE charge SET attempt = 2, seal = x'00' WHERE id = ?", (charge.id,))
        if not remembers:
            monkeypatch.setattr(connections.Connection, "remembered", lambda connection: connection.found)
            ledger.store_release(charge, "42")
            return
        with refused("B202"):
            ledger.store_release(charge, "42")


def test_a_charge_that_is_entered_as_another_one_is_not_given(path: Path) -> None:
    """A row of the directory with a seal of its own that leads to another question's charge."""

    def misled(tx: Tx) -> None:
        names = [directory.charge(tx.dataset()["salt"], "ana", ask(question).key) for question in (0, 1)]
        rows = [tx.get("directory", name=name) for name in names]
        assert rows[0] is not None and rows[1] is not None
        tx.change("directory", rows[0], ("name",), subject=rows[1]["subject"])

    with Ledger.open(path) as ledger:
        ledger._store.write(misled)
        with refused("B202"):
            ledger.admit(ask(0))
        assert ledger.admit(ask(1)).payload == "secret 1"


# -- pages -------------------------------------------------------------------------------------------------------------


def test_listings_go_by_pages_that_meet(path: Path) -> None:
    with Ledger.open(path) as ledger:
        for number in range(20):
            answer(ledger, ask(f"more {number}", analyst=("ana", "ben")[number % 3 == 0]))
        for analyst in (None, "ana", "ben"):
            whole = ledger.charges(analyst)
            assert ledger.count_charges(analyst) == len(whole)
            for size in (1, 4, 100):
                back, forth = [], []
                while page := ledger.charges(analyst, limit=size, before=back[0].id if back else None):
                    back = [*page, *back]
                while page := ledger.charges(analyst, limit=size, after=forth[-1].id if forth else 0):
                    forth += page
                assert back == forth == whole
        for number in range(1, len(ledger.charges()) + 1):
            assert ledger.charge(number) == ledger.charges()[number - 1]
        assert ledger.charge(0) is ledger.charge(10**6) is None
        log, pages = ledger.log(1000), []
        while page := ledger.log(2, before=pages[-1].number if pages else None):
            pages += page
        assert pages == log


def test_a_page_shows_that_a_row_is_missing(path: Path) -> None:
    """Whatever row an index does not lead to any more, in the middle of a page or at its edge."""
    with Ledger.open(path) as ledger:
        for number in range(6):
            answer(ledger, ask(f"more {number}"))
        connection = ledger._store._take()
        connection.execute("PRAGMA query_only = OFF")
        for victim in range(1, 10):
            connection.execute("BEGIN")
            connection.execute("DROP TRIGGER charge_delete")
            connection.execute("PRAGMA defer_foreign_keys = ON")
            connection.execute("DELETE FROM charge WHERE id = ?", (victim,))
            tx = Tx(connection)
            for analyst in (None, "ana"):
                for before in (None, *range(max(victim - 1, 2), victim + 4)):
                    shows = (before or 10) - 4 <= victim <= (before or 10)
                    if shows:
                        with pytest.raises(Damage):
                            listing.charges(tx, analyst, limit=4, before=before)
            connection.execute("ROLLBACK")
        ledger._store._give_back(connection)


def test_objects_go_by_pages_that_meet(path: Path) -> None:
    with Ledger.open(path) as ledger:
        for name in ("b", "a", "d", "c"):
            answer(ledger, ask(name, name=name, kind="summary"))
        for name in ("a", "x", "b"):
            if name != "x":
                ledger.share(name, "ana", "ben")
        answer(ledger, ask("own", analyst="ben", name="own", kind="summary"))
        for analyst in ("ana", "ben"):
            whole, pages, after = ledger.objects(analyst), [], ""
            while page := ledger.objects(analyst, limit=2, after=after):
                pages += page
                after = page[-1].name if page[-1].owner == analyst else f"{page[-1].owner}.{page[-1].name}"
            assert pages == whole
            assert [ledger.knows(analyst, row.name) for row in whole] == [True] * len(whole)
            assert not ledger.knows(analyst, "none")

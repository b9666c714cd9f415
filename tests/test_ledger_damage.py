"""Damage is noticed when it matters: sealed rows, lookups that prove that nothing is there, pages of listings."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckdp.ledger import Ledger, directory, listing, schema
from duckdp.ledger.sealing import begin
from duckdp.ledger.seals import Damage
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

"""Whatever is edited in the log of statements is found; what cannot be found is what the docs say."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from duckdp.ledger import Ledger, chain, statement_check, statement_file
from duckdp.ledger.statement_file import beginning, path_of
from tests.ledgers import answer, ask, refused, set_up
from tests.statements import found

Edit = Callable[[sqlite3.Connection], object]
ENTRIES = 12


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[str]:
    """Twelve entries of ana's, of which a charge names eight; five of bea's, none named; two of nobody's."""
    path = str(tmp_path / "a.ledger")
    with Ledger.open(path) as opened:
        set_up(opened, ana=10**9, bea=10**9)
        for i in range(8):
            opened.statements.note("ana", "refused", f"SELECT {i}", "Q301")
        opened.statements.flush()
        answer(opened, ask("a", 1000))
        for i in range(8, ENTRIES):
            opened.statements.note("ana", "free", f"SELECT {i}", "stored", charge=1)
        for i in range(5):
            opened.statements.note("bea", "free", f"SELECT {i}", "answered")
        for i in range(2):
            opened.statements.note(f"x{i}", "refused", "a session", "B102", granted=False)
    assert found(path) == []
    return path


def edit(ledger: str, *statements: str | Edit) -> None:
    """Change the log with SQLite alone, and put its trigger back."""
    with sqlite3.connect(path_of(ledger)) as con:
        [trigger] = con.execute("SELECT sql FROM sqlite_schema WHERE type = 'trigger'").fetchone()
        con.execute("DROP TRIGGER statement_update")
        for statement in statements:
            statement(con) if callable(statement) else con.execute(statement)
        con.execute(trigger)
    con.close()


ROWS = [f"chain = 'ana' AND number = {n}" for n in (1, 2, 7, 8, 9, 12)] + ["chain = 'bea' AND number = 3", "chain = ''"]
CHANGES = (
    *("at = '2020-01-01T00:00:00Z'", "who = 'eve'", "kind = 'lost'", "text = text || ' '", "outcome = 'Q302'"),
    *("charge = 7", f"hash = '{'0' * 64}'", "number = number + 100", "chain = 'eve'"),
)


@pytest.mark.parametrize(("row", "change"), [*itertools.product(ROWS, CHANGES)])
def test_an_altered_entry_is_found(ledger: str, row: str, change: str) -> None:
    edit(ledger, "PRAGMA foreign_keys = OFF", f"UPDATE statement SET {change} WHERE {row}")
    assert found(ledger)


@pytest.mark.parametrize("row", ROWS)
def test_a_removed_entry_is_found(ledger: str, row: str) -> None:
    edit(ledger, f"DELETE FROM statement WHERE {row}")
    assert found(ledger)


@pytest.mark.parametrize("number", [1, 5, 8, 12])
def test_an_entry_removed_with_all_after_it_renumbered_is_found(ledger: str, number: int) -> None:
    edit(
        ledger,
        f"DELETE FROM statement WHERE chain = 'ana' AND number = {number}",
        f"UPDATE statement SET number = number - 1 WHERE chain = 'ana' AND number > {number}",
        "UPDATE chain SET count = count - 1 WHERE analyst = 'ana'",
    )
    assert found(ledger)


def test_swapped_and_added_entries_are_found(ledger: str) -> None:
    edit(
        ledger,
        "UPDATE statement SET number = CASE number WHEN 3 THEN 30 ELSE 3 END WHERE chain = 'ana' AND number IN (3, 4)",
    )
    assert found(ledger)


def test_an_added_entry_is_found(ledger: str) -> None:
    edit(
        ledger,
        "INSERT INTO statement (chain, number, at, who, kind, text, outcome, hash) "
        f"VALUES ('ana', 13, '2026-01-01T00:00:00Z', 'ana', 'free', 'x', 'answered', '{'0' * 64}')",
    )
    assert found(ledger)


@pytest.mark.parametrize(
    "change",
    ["count = count + 1", "trimmed = 1", "bytes = bytes + 1", f"hash = '{'1' * 64}'", f"before = '{'1' * 64}'"],
)
def test_an_altered_chain_is_found(ledger: str, change: str) -> None:
    edit(ledger, f"UPDATE chain SET {change} WHERE analyst = 'ana'")
    assert found(ledger)


def cut(con: sqlite3.Connection, analyst: str, last: int) -> None:
    """Cut off the end of a chain as one would who knows how."""
    [digest] = con.execute("SELECT hash FROM statement WHERE chain = ? AND number = ?", (analyst, last)).fetchone()
    con.execute("DELETE FROM statement WHERE chain = ? AND number > ?", (analyst, last))
    [size] = con.execute(
        "SELECT sum(256 + length(CAST(text AS BLOB))) FROM statement WHERE chain = ?", (analyst,)
    ).fetchone()
    con.execute("UPDATE chain SET count = ?, hash = ?, bytes = ? WHERE analyst = ?", (last, digest, size, analyst))


@pytest.mark.parametrize("last", [1, 5, 7])
def test_entries_that_a_charge_names_cannot_be_cut_off_unseen(ledger: str, last: int) -> None:
    edit(ledger, lambda con: cut(con, "ana", last))
    assert found(ledger) == ["the log of statements of ana lacks entries up to 8, which a charge names"]


@pytest.mark.parametrize(("analyst", "last"), [("ana", 8), ("ana", 11), ("bea", 2)])
def test_later_ones_can_as_the_docs_say(ledger: str, analyst: str, last: int) -> None:
    edit(ledger, lambda con: cut(con, analyst, last))
    assert found(ledger) == []


def forge(con: sqlite3.Connection, dataset_id: str, salt: bytes) -> None:
    """Compute ana's whole chain anew over an altered entry, as whoever reads the ledger can."""
    con.execute("UPDATE statement SET text = 'SELECT 9' WHERE chain = 'ana' AND number = 3")
    before = beginning(dataset_id, salt, "ana")
    columns = ", ".join(statement_file.COLUMNS)
    for row in con.execute(f"SELECT {columns} FROM statement WHERE chain = 'ana' ORDER BY number").fetchall():
        before = chain.digest(before, *row)
        con.execute("UPDATE statement SET hash = ? WHERE chain = 'ana' AND number = ?", (before, row[0]))
    con.execute("UPDATE chain SET hash = ? WHERE analyst = 'ana'", (before,))


def anew(con: sqlite3.Connection, before: str) -> None:
    """Compute bea's whole chain, of which no charge names an entry, anew from a beginning."""
    columns = ", ".join(statement_file.COLUMNS)
    for row in con.execute(f"SELECT {columns} FROM statement WHERE chain = 'bea' ORDER BY number").fetchall():
        before = chain.digest(before, *row)
        con.execute("UPDATE statement SET hash = ? WHERE chain = 'bea' AND number = ?", (before, row[0]))
    con.execute("UPDATE chain SET hash = ? WHERE analyst = 'bea'", (before,))


def test_a_chain_begins_at_its_data_set_and_counts_without_gaps(ledger: str) -> None:
    """Also where all its hashes fit each other: it may be another analyst's, or another ledger's."""
    with Ledger.open(ledger) as opened:
        start = beginning(opened.dataset_id, opened.salt, "bea")
    edit(ledger, lambda con: anew(con, start))
    assert found(ledger) == []
    other = start[::-1]
    edit(ledger, f"UPDATE chain SET before = '{other}' WHERE analyst = 'bea'", lambda con: anew(con, other))
    assert found(ledger) == ["the log of statements of bea does not begin where it should"]
    edit(ledger, f"UPDATE chain SET before = '{start}' WHERE analyst = 'bea'", lambda con: anew(con, start))
    assert found(ledger) == []
    edit(ledger, "UPDATE statement SET number = 50 WHERE chain = 'bea' AND number = 5", lambda con: anew(con, start))
    assert found(ledger) == ["entry 5 of the log of statements of bea was altered, added or removed"]


def test_a_chain_that_a_charge_names_is_missed(ledger: str) -> None:
    edit(ledger, "DELETE FROM statement WHERE chain = 'bea'", "DELETE FROM chain WHERE analyst = 'bea'")
    assert found(ledger) == []  # as the documentation says
    edit(ledger, "DELETE FROM statement WHERE chain = 'ana'", "DELETE FROM chain WHERE analyst = 'ana'")
    assert found(ledger) == ["all statements of ana are missing from the log"]


def test_a_chain_computed_anew_is_found_by_what_the_ledger_names(ledger: str) -> None:
    with Ledger.open(ledger) as opened:
        secrets = opened.dataset_id, opened.salt
    edit(ledger, lambda con: forge(con, *secrets))
    assert found(ledger) == ["the log of statements of ana has another history than a charge names"]


def test_a_beginning_taken_away_as_if_trimmed_is_found(ledger: str) -> None:
    def trim(con: sqlite3.Connection) -> None:
        [digest, size] = con.execute(
            "SELECT hash, (SELECT sum(256 + length(text)) FROM statement WHERE chain = 'ana' AND number <= 4) "
            "FROM statement WHERE chain = 'ana' AND number = 4"
        ).fetchone()
        con.execute("DELETE FROM statement WHERE chain = 'ana' AND number <= 4")
        con.execute("UPDATE chain SET trimmed = 4, before = ?, bytes = bytes - ? WHERE analyst = 'ana'", (digest, size))

    edit(ledger, trim)
    assert found(ledger) == ["the log of statements was trimmed though it had room"]


def test_a_missing_log_is_found_where_the_ledger_names_one(ledger: str, tmp_path: Path) -> None:
    Path(path_of(ledger)).unlink()
    assert len(found(ledger)) == 1
    with Ledger.open(tmp_path / "b.ledger"):
        pass
    assert found(str(tmp_path / "b.ledger")) == []


def test_a_log_of_another_data_set_and_altered_tables_are_found(ledger: str, tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "b.ledger") as other:
        other.statements.note("ana", "free", "SELECT 1", "answered")
    Path(path_of(str(tmp_path / "b.ledger"))).replace(path_of(ledger))
    assert "belongs to another data set" in found(ledger)[0]


@pytest.mark.parametrize(
    "statement", ["DROP INDEX statement_at", "CREATE TABLE more (a)", "DROP TRIGGER statement_update"]
)
def test_altered_tables_are_found(ledger: str, statement: str) -> None:
    con = sqlite3.connect(path_of(ledger), isolation_level=None)
    con.execute(statement)
    con.close()
    assert found(ledger) == ["the log of statements is damaged: its tables were altered"]


def test_no_flipped_byte_is_raw_or_changes_an_entry_unseen(ledger: str) -> None:
    """One byte at a time, all over the file: found, or of no effect on any entry."""
    place = Path(path_of(ledger))
    good = place.read_bytes()
    columns = ", ".join((*statement_file.COLUMNS, "hash"))

    def entries() -> list[object]:
        with sqlite3.connect(place) as con:
            return con.execute(f"SELECT chain, {columns} FROM statement ORDER BY seq").fetchall()

    before = entries()
    unseen = 0
    for at in range(0, len(good), max(1, len(good) // 300)):
        place.write_bytes(good[:at] + bytes([good[at] ^ 0x41]) + good[at + 1 :])
        if not found(ledger):
            unseen += 1
            assert entries() == before, at
    assert unseen < 300
    place.write_bytes(good)
    assert found(ledger) == []


def test_a_check_that_skips_the_hashes_would_be_noticed(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Anything(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __ne__(self, other: object) -> bool:
            return False

        def __eq__(self, other: object) -> bool:
            return True

    edit(ledger, "UPDATE statement SET outcome = 'Q302' WHERE chain = 'ana' AND number = 5")
    assert found(ledger)
    real = statement_check.chain.digest
    monkeypatch.setattr(statement_check.chain, "digest", lambda *values: Anything(real(*values)))
    assert found(ledger) == []


# ---- copies, and ways out --------------------------------------------------------------------------------------------


def test_verify_says_what_is_wrong_with_the_log_and_counts_it(ledger: str) -> None:
    with Ledger.open(ledger) as opened:
        assert opened.verify().statements == ENTRIES + 7
        edit(ledger, "UPDATE statement SET outcome = 'Q302' WHERE chain = 'ana' AND number = 5")
        with refused("B202") as caught:
            opened.verify()
    assert "is sound, but entry 5 of the log of statements of ana was altered" in str(caught.value)


@pytest.mark.parametrize("what", ["missing", "altered", "garbage", "cut"])
def test_the_owner_accepts_what_is_gone(ledger: str, tmp_path: Path, what: str) -> None:
    place = Path(path_of(ledger))
    if what == "missing":
        place.unlink()
    elif what == "garbage":
        place.write_bytes(b"x" * 5000)
    elif what == "cut":
        edit(ledger, lambda con: cut(con, "ana", 5))
    else:
        edit(ledger, "UPDATE statement SET outcome = 'Q302' WHERE chain = 'ana' AND number = 5")
    with Ledger.open(ledger) as opened:
        with refused("B202"):
            opened.verify()
        with refused("P107"):
            opened.repair_statements(" ")
        moved = opened.repair_statements("a disk failed")
        assert (moved is not None) == (what in ("altered", "garbage"))
        assert moved is None or Path(moved).exists()
        assert opened.verify().statements == {"cut": 5 + 7}.get(what, 0)
        opened.statements.note("ana", "free", "SELECT 1", "answered")
        opened.statements.flush()
        answer(opened, ask("after", 1000))
        assert opened.verify().statements == {"cut": 5 + 7}.get(what, 0) + 1
        assert opened.log(1)[0].kind == "statements"
    edit(ledger, lambda con: con.execute("DELETE FROM statement WHERE chain = 'ana'"))
    assert found(ledger)  # what comes after is asked for again


@pytest.mark.parametrize("last", [0, 3])
def test_who_has_the_ledger_open_names_nothing_that_the_owner_accepted_as_lost(ledger: str, last: int) -> None:
    """A curator goes on charging while the command line begins the log anew."""
    with Ledger.open(ledger) as serving, Ledger.open(ledger) as owner:
        serving.statements.note("ana", "free", "one more", "answered")
        assert serving.statements.flush()
        if last:
            edit(ledger, lambda con: cut(con, "ana", last))
        else:
            Path(path_of(ledger)).unlink()
        owner.repair_statements("lost with the old disk")
        answer(serving, ask("next", 1000))
        owner.verify()
        serving.statements.note("ana", "free", "and another", "answered")
        assert serving.statements.flush()
        answer(serving, ask("the one after", 1000))
        owner.verify()
        head = serving.statements.head("ana")
        assert head is not None and head[0] == last + 1


def test_a_backup_has_its_log(ledger: str, tmp_path: Path) -> None:
    target = tmp_path / "copy.ledger"
    with Ledger.open(ledger) as opened:
        opened.statements.note("ana", "free", "the last", "answered")
        opened.backup(target)
        assert sorted(f.name for f in tmp_path.iterdir() if "copy" in f.name) == [
            "copy.ledger",
            "copy.ledger.anchor",
            "copy.ledger.statements",
        ]
    with sqlite3.connect(path_of(str(target))) as con:
        assert con.execute("SELECT count(*) FROM statement WHERE text = 'the last'").fetchone() == (1,)
    assert found(str(target)) == []


def test_a_backup_overwrites_no_log_of_others_and_needs_none(ledger: str, tmp_path: Path) -> None:
    target = tmp_path / "copy.ledger"
    with Ledger.open(tmp_path / "b.ledger") as other, Ledger.open(ledger) as opened:
        other.backup(tmp_path / "none.ledger")
        assert not (tmp_path / "none.ledger.statements").exists()
        other.statements.note("ana", "free", "SELECT 1", "answered")
        other.statements.flush()
        Path(path_of(str(target))).write_bytes(Path(path_of(other.path)).read_bytes())
        for content in (None, b"my notes"):
            if content is not None:
                Path(path_of(str(target))).write_bytes(content)
            with refused("B207"):
                opened.backup(target)
            assert not target.exists()
        Path(path_of(str(target))).unlink()
        opened.backup(target)
        target.unlink()
        opened.backup(target)  # over the remains of one that failed
        Path(path_of(ledger)).write_bytes(b"x" * 5000)
        opened.backup(tmp_path / "third.ledger")
        assert not (tmp_path / "third.ledger.statements").exists()

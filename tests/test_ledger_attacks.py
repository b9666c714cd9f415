"""Ledgers that were restored, copied, edited, broken, swapped or misplaced: each is refused with its code."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import traceback
from pathlib import Path

import pytest

from duckdp.core.types import AccountantKind, Loss, Neighbours
from duckdp.errors import CODES, LedgerError
from duckdp.ledger import ChargeRequest, Ledger, anchor, chain, files, places, tx
from tests.ledgers import refused


def request(question: object, cost: int = 1) -> ChargeRequest:
    key = hashlib.sha256(str(question).encode()).hexdigest()
    loss = Loss(epsilon_nano=cost)
    return ChargeRequest(
        analyst="ana",
        key=key,
        loss=loss,
        mechanism="m",
        parameters="{}",
        statement="s",
        name=f"n{question}",
        kind="summary",
    )


def spend(ledger: Ledger, *questions: object) -> None:
    for question in questions:
        ledger.store_release(ledger.admit(request(question)), f"secret {question}")


@pytest.fixture
def path(tmp_path):
    """A closed ledger with a history."""
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        ledger.set_budget(
            epsilon_nano=1000, delta_atto=0, neighbours=Neighbours.ADD_REMOVE, accountant=AccountantKind.BASIC
        )
        ledger.grant("ana", epsilon_nano=1000, delta_atto=0)
        ledger.save_table("visits", '{"max_rows": 8}')
        ledger.accept_source("one")
        spend(ledger, 1, 2, 3)
        ledger.fail(ledger.admit(request(4)))
        fourth = ledger.admit(request(4))
        ledger.store_stage(fourth, 0, "secret stage 4")
        ledger.fail(fourth)
        ledger.finish_release(2, "made of secret 2")
        return Path(ledger.path)


def opens(path: Path) -> None:
    Ledger.open(path, create=False).close()


def is_sound(path: Path) -> None:
    """Opens, and stands the full check."""
    with Ledger.open(path, create=False) as ledger:
        ledger.verify()


def copy(path: Path, target: Path, *suffixes: str) -> Path:
    for suffix in suffixes:
        shutil.copy(f"{path}{suffix}", f"{target}{suffix}")
    return target


def edit(path: Path, *statements: str) -> None:
    """Edit a ledger as somebody would who knows its triggers: they are back in place afterwards."""
    connection = sqlite3.connect(path)
    triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for statement in (*(f"DROP TRIGGER {name}" for name, _ in triggers), *statements, *(sql for _, sql in triggers)):
        connection.execute(statement)
    connection.commit()
    connection.close()


# -- older ledgers -----------------------------------------------------------------------------------------------------


def test_a_copy_without_its_journal_is_refused(path, tmp_path):
    with Ledger.open(path) as ledger:
        spend(ledger, *range(10, 20))
        whole = copy(path, tmp_path / "whole", "", "-wal", ".anchor")
        torn = copy(path, tmp_path / "torn", "", ".anchor")
    opens(whole)
    with refused("B203") as error:
        opens(torn)
    assert "-wal" in str(error.value)


def test_an_older_ledger_is_refused_and_stays_refused(path, tmp_path):
    old = copy(path, tmp_path / "old", "")
    with Ledger.open(path) as ledger:
        spend(ledger, 10)
    shutil.copy(old, path)
    for _ in range(2):
        with refused("B203"):
            Ledger.open(path)
    with refused("B203"):
        Ledger.repair_anchor(path, "let me in")


def test_the_refusal_is_the_anchors_doing(path, tmp_path, monkeypatch):
    """The broken twin of the tests above."""
    old = copy(path, tmp_path / "old", "")
    with Ledger.open(path) as ledger:
        spend(ledger, 10)
    shutil.copy(old, path)
    monkeypatch.setattr(places, "require_contained", lambda *_: None)
    with Ledger.open(path) as ledger:
        assert ledger.state().primary_spent == 4


def test_an_anchor_never_moves_back(path):
    """Of two who committed one after the other, the first may come to the anchor last."""
    with Ledger.open(path) as ledger:
        first = ledger._store.read(lambda tx: tx.head())
        spend(ledger, 10)
        last = ledger._store.read(lambda tx: tx.head())
        assert anchor.read(str(path)) == last
        assert first.count < last.count
        anchor.advance(str(path), first)
        assert anchor.read(str(path)) == last
        anchor.advance(str(path), last)
        assert anchor.read(str(path)) == last


@pytest.mark.parametrize("back", [False, True])
def test_an_anchor_is_never_moved_to_another_data_set(path, back):
    """Also where it may move back, for a backup: the original's charges would be forgotten."""
    with Ledger.open(path) as ledger:
        spend(ledger, 10)
    known = anchor.read(str(path))
    for count in (known.count, known.count + 1):
        other = anchor.Position(dataset_id="f" * len(known.dataset_id), count=count, digest=known.digest)
        with refused("B203"):
            anchor.advance(str(path), other, back=back)
        assert anchor.read(str(path)) == known


def test_another_history_of_the_same_length_is_refused(path, tmp_path):
    fork = copy(path, tmp_path / "fork", "", ".anchor")
    for name, question in ((path, "a"), (fork, "b")):
        with Ledger.open(name) as ledger:
            spend(ledger, question)
    shutil.copy(fork, path)
    with refused("B203"):
        opens(path)


def test_a_removed_ledger_is_not_begun_anew(path):
    path.unlink()
    with refused("B203"):
        Ledger.open(path)
    assert not path.exists()
    path.touch()
    with refused("B203"):
        Ledger.open(path)


def test_the_ledger_of_another_data_set_is_refused(path, tmp_path):
    Ledger.open(tmp_path / "b.ledger").close()
    shutil.copy(tmp_path / "b.ledger", path)
    with refused("B203"):
        opens(path)


def test_a_ledger_swapped_while_it_is_open_is_noticed_at_the_next_charge(path, tmp_path):
    old = copy(path, tmp_path / "old", "")
    with Ledger.open(path) as ledger:
        spend(ledger, 10)
        os.replace(old, path)
        with refused("B203"):
            ledger.admit(request(11))
        path.unlink()
        with refused("B203"):
            ledger.admit(request(11))


def test_an_anchor_ahead_is_noticed_at_the_next_charge(path):
    with Ledger.open(path) as ledger:
        known = anchor.read(str(path))
        ahead = anchor.Position(dataset_id=known.dataset_id, count=known.count + 1, digest="0" * 64)
        Path(f"{path}.anchor").write_bytes(ahead.line())
        before = ledger.state()
        with refused("B203"):
            ledger.admit(request(10))
        assert ledger.state() == before  # refused before anything is committed
        assert anchor.read(str(path)) == ahead


@pytest.mark.parametrize(
    "harm",
    [
        "CREATE TABLE other (a)",
        "CREATE VIEW other AS SELECT * FROM charge",
        "CREATE INDEX other ON charge (kind)",
        "CREATE TRIGGER other AFTER INSERT ON charge BEGIN UPDATE analyst SET primary_spent = 0; END",
        "a trigger less",
    ],
)
def test_tables_that_were_altered_are_refused_at_the_opening(path, harm):
    """A trigger of somebody else's would change what is charged, in the transaction that charges it."""
    with sqlite3.connect(path) as con:
        (name,) = con.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger' LIMIT 1").fetchone()
        con.execute(f"DROP TRIGGER {name}" if harm == "a trigger less" else harm)
    con.close()
    with refused("B202"):
        Ledger.open(path)


def test_a_crash_between_commit_and_anchor_is_harmless(path, monkeypatch):
    before = anchor.read(str(path))
    with monkeypatch.context() as patch, Ledger.open(path) as ledger:
        patch.setattr(anchor, "advance", lambda *_, **__: None)
        spend(ledger, 10)
    assert anchor.read(str(path)) == before
    with Ledger.open(path) as ledger:
        assert ledger.state().primary_spent == 5
    assert anchor.read(str(path)).count == before.count + 2


# -- the anchor --------------------------------------------------------------------------------------------------------


def lose(path: Path) -> None:
    Path(f"{path}.anchor").unlink()


def blank(path: Path) -> None:
    Path(f"{path}.anchor").write_bytes(b"")


def flip(path: Path) -> None:
    file = Path(f"{path}.anchor")
    text = bytearray(file.read_bytes())
    for start in range(0, len(text), anchor.LENGTH):
        text[start + 70] ^= 1
    file.write_bytes(text)


def garble(path: Path) -> None:
    Path(f"{path}.anchor").write_bytes(os.urandom(1000))


@pytest.mark.parametrize("harm", [lose, blank, flip, garble])
def test_a_lost_or_damaged_anchor_is_refused_and_repaired_only_by_the_owner(path, harm):
    harm(path)
    with refused("B204"):
        Ledger.open(path)
    with refused("P107"):
        Ledger.repair_anchor(path, "")
    Ledger.repair_anchor(path, "the disk lost it")
    with Ledger.open(path) as ledger:
        assert (ledger.log()[0].kind, ledger.log()[0].reason) == ("repair_anchor", "the disk lost it")
        assert ledger.state().primary_spent == 4
    Ledger.repair_anchor(path, "nothing to repair")
    with Ledger.open(path) as ledger:
        assert ledger.log()[0].reason == "the disk lost it"


@pytest.mark.parametrize("harm", [lose, blank, flip, garble])
def test_the_anchor_is_read_at_each_charge(path, harm):
    with Ledger.open(path) as ledger:
        harm(path)
        with refused("B204"):
            ledger.admit(request(10))


def test_the_anchor_never_goes_back(path):
    known = anchor.read(str(path))
    anchor.advance(str(path), anchor.Position(dataset_id=known.dataset_id, count=1, digest="0" * 64))
    assert anchor.read(str(path)) == known
    assert len(known.line()) == anchor.LENGTH < 512
    with refused("B203"):
        anchor.advance(str(path), anchor.Position(dataset_id=known.dataset_id, count=known.count, digest="0" * 64))


@pytest.mark.parametrize("torn", range(0, 150, 11))
def test_a_torn_write_of_the_anchor_leaves_where_it_was(path, torn):
    """Power may fail, or the disk be full, after any byte of a line: the other line still stands."""
    known, file = anchor.read(str(path)), Path(f"{path}.anchor")
    before = file.read_bytes()
    anchor.advance(str(path), anchor.Position(dataset_id=known.dataset_id, count=known.count + 1, digest="1" * 64))
    after = file.read_bytes()
    (start,) = [at for at in (0, anchor.LENGTH) if before[at : at + anchor.LENGTH] != after[at : at + anchor.LENGTH]]
    old = before.ljust(len(after), b" ")
    file.write_bytes(old[:start] + after[start : start + torn] + old[start + torn :])
    assert anchor.read(str(path)) == known
    with Ledger.open(path) as ledger:
        ledger.admit(request(10))
    assert anchor.read(str(path)).count == known.count + 1


def test_an_emptied_anchor_beside_no_ledger_is_an_error(path):
    path.unlink()
    blank(path)
    with refused("B203"):
        Ledger.open(path)


def test_a_ledger_that_was_just_made_gets_its_anchor_after_a_crash(tmp_path):
    Ledger.open(tmp_path / "n.ledger").close()
    lose(tmp_path / "n.ledger")
    with Ledger.open(tmp_path / "n.ledger") as ledger:
        assert anchor.read(ledger.path).count == 1


# -- edited and broken files -------------------------------------------------------------------------------------------

EDITS = {
    "spent": ["UPDATE dataset SET primary_spent = 0"],
    "spent of both": ["UPDATE dataset SET primary_spent = 0", "UPDATE analyst SET primary_spent = 0"],
    "total": ["UPDATE dataset SET epsilon_nano = 9999"],
    "limit": ["UPDATE dataset SET primary_limit = 9999"],
    "cap": ["UPDATE analyst SET primary_limit = 9999"],
    "analyst": [
        "INSERT INTO analyst (name, epsilon_nano, delta_atto, primary_limit, secondary_limit) "
        "VALUES ('eve', 9, 0, 9, 0)"
    ],
    "freeze": ["UPDATE dataset SET frozen = 'x'"],
    "declaration": ["""UPDATE catalog SET declaration = '{"max_rows": 1}'"""],
    "source": ["UPDATE dataset SET source = 'two'"],
    "attempts": ["UPDATE charge SET attempt = 1 WHERE attempt = 2"],
    "state": ["UPDATE charge SET state = 'open' WHERE id = 1"],
    "cost": ["UPDATE charge SET primary_cost = 0"],
    "key": ["UPDATE charge SET key = 'x' WHERE id = 1"],
    "release": ["DELETE FROM release WHERE charge = 1"],
    "stage": ["INSERT INTO stage VALUES (4, 1, 'mine')"],
    "no stage": ["DELETE FROM stage"],
    "another stage": ["UPDATE stage SET payload = 'mine'"],
    "stage of another": ["UPDATE stage SET charge = 3"],
    "finished": ["INSERT INTO finished VALUES (1, 'mine')"],
    "not finished": ["DELETE FROM finished"],
    "finished otherwise": ["UPDATE finished SET payload = 'mine'"],
    "event": ["UPDATE event SET reason = 'nice' WHERE seq = 2"],
    "end of history": ["DELETE FROM event WHERE seq = (SELECT max(seq) FROM event)"],
    "trigger": ["CREATE TRIGGER free AFTER INSERT ON charge BEGIN UPDATE dataset SET primary_spent = 0; END"],
    "looser table": ["DROP TABLE share", "CREATE TABLE share (analyst, name, reader)"],
    "index": ["DROP INDEX catalog_active"],
    "data set": ["DELETE FROM dataset"],
    "table": ["DROP TABLE share"],
}


@pytest.mark.parametrize("statements", EDITS.values(), ids=EDITS)
def test_an_edited_ledger_is_refused_or_found_by_verify(path, statements):
    is_sound(path)
    edit(path, *statements)
    with refused("B202"):
        is_sound(path)


def test_a_consistent_edit_is_told_by_the_chain_alone(path):
    edit(
        path,
        "UPDATE charge SET primary_cost = 0 WHERE id = 1",
        "UPDATE dataset SET primary_spent = primary_spent - 1",
        "UPDATE analyst SET primary_spent = primary_spent - 1",
    )
    with refused("B202") as error:
        is_sound(path)
    assert "row" in str(error.value)


@pytest.mark.parametrize("entry", [1, 2, 5])
def test_an_entry_rewritten_with_its_own_hash_breaks_the_next(path, entry):
    """Who knows how entries are linked must rewrite all later ones too, and the anchor knows the last."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT * FROM event ORDER BY seq").fetchall()
    connection.close()
    assert entry < len(rows)
    before = rows[entry - 2][6] if entry > 1 else None
    changed = (rows[entry - 1][0], "2001-01-01T00:00:00Z", *rows[entry - 1][2:6])
    if before is None:
        with sqlite3.connect(path) as connection:
            connection.row_factory = sqlite3.Row
            before = chain.genesis(connection.execute("SELECT * FROM dataset").fetchone())
        connection.close()
    edit(path, f"UPDATE event SET at = '{changed[1]}', hash = '{chain.link(before, changed)}' WHERE seq = {entry}")
    with refused("B202"):
        is_sound(path)


def test_the_refusal_is_the_seals_doing(path, monkeypatch):
    """The broken twin of the tests above."""
    edit(path, *EDITS["spent"])
    monkeypatch.setattr(tx, "fits", lambda *_: True)
    opens(path)


def test_code_cannot_rewrite_history(path):
    connection = sqlite3.connect(path)
    for statement in (
        "UPDATE event SET at = ''",
        "DELETE FROM event",
        "UPDATE release SET payload = ''",
        "DELETE FROM release",
        "UPDATE stage SET payload = ''",
        "DELETE FROM stage",
        "UPDATE finished SET payload = ''",
        "DELETE FROM finished",
        "DELETE FROM charge",
        "UPDATE charge SET primary_cost = 0",
        "INSERT INTO charge SELECT 99, analyst, key, kind, mechanism, parameters, statement, 0, 0, 0, 0, 0, 0, 0, 0, "
        "'', 1, 'open', '', 9, NULL, NULL, 0, NULL, x'' FROM charge WHERE id = 1",
        "UPDATE dataset SET primary_spent = primary_limit + 1",
        "UPDATE analyst SET primary_spent = 0.5",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)
    connection.close()


def test_random_bytes_are_refused(path):
    path.write_bytes(os.urandom(20_000))
    with refused("B202"):
        opens(path)
    lose(path)
    with refused("B207"):
        opens(path)


@pytest.mark.parametrize("size", [0, 50, 100, 4096, 8192, -4096, -100])
def test_a_truncated_file_is_refused(path, size):
    os.truncate(path, size if size >= 0 else path.stat().st_size + size)
    with pytest.raises(LedgerError, match=r"^B20[23]:"):
        opens(path)


def test_no_single_page_of_noise_goes_unnoticed(path):
    """Each page is overwritten in turn; what is still accepted must be a page without content."""
    clean = path.read_bytes()
    for start in range(0, len(clean), 4096):
        path.write_bytes(clean[:start] + os.urandom(4096) + clean[start + 4096 :])
        with pytest.raises(LedgerError, match=r"^B20[27]:"):
            is_sound(path)


def test_other_files_are_refused_and_left_alone(tmp_path):
    other, text = tmp_path / "other.db", tmp_path / "notes.txt"
    edit(other, "CREATE TABLE t (x)")
    text.write_text("hello " * 200)
    for file in (other, text):
        before = file.read_bytes()
        with refused("B207"):
            Ledger.open(file)
        assert file.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["notes.txt", "other.db"]


def test_paths_that_cannot_be_a_ledger(tmp_path):
    (tmp_path / "empty").touch()
    for name, create in (("none", False), ("empty", True), ("", True), ("no/such/folder", True)):
        with refused("B207"):
            Ledger.open(tmp_path / name, create=create)
    assert not (tmp_path / "none").exists()


def test_errors_quote_neither_sqlite_nor_the_ledger(path):
    path.write_bytes(path.read_bytes()[:100] + bytes([0xA5]) * 4000)  # of random ones a few are read, and say nothing
    with refused("B202") as error:
        opens(path)
    assert error.value.__suppress_context__  # what SQLite said is not shown
    shown = "".join(traceback.format_exception_only(error.value)).replace(str(path), "")
    for word in ("secret", "sqlite", "malformed", "database"):
        assert word not in shown
    assert error.value.path == str(path)
    assert error.value.code in CODES


# -- file systems ------------------------------------------------------------------------------------------------------

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/x /home nfs4 rw 0 0
/dev/sdb1 /home/local ext4 rw 0 0
me@host: /mnt/my\\040files fuse.sshfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/a", "ext4"),
        ("/home/a", "nfs4"),
        ("/homes/a", "ext4"),
        ("/home/local/a", "ext4"),
        ("/mnt/my files/a", "fuse.sshfs"),
    ],
)
def test_the_file_system_is_that_of_the_innermost_mount(path, kind):
    assert files.file_system(path, MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_network_file_systems_are_refused(path, monkeypatch, kind):
    monkeypatch.setattr(files, "file_system", lambda *_: kind)
    with refused("B205"):
        Ledger.open(path)
    monkeypatch.undo()
    with Ledger.open(path) as ledger:
        monkeypatch.setattr(files, "file_system", lambda *_: kind)
        with refused("B205"):
            ledger.backup(f"{path}.copy")


@pytest.mark.parametrize("back", [0, 1, 2])
def test_the_last_links_of_the_chain_are_checked_at_opening(path: Path, back: int) -> None:
    """What somebody wrote over the newest entries is refused before anything is charged, not by ``verify`` alone."""
    edit(path, f"UPDATE event SET detail = '{{}}' WHERE seq = (SELECT max(seq) - {back} FROM event)")
    with refused("B202"):
        opens(path)

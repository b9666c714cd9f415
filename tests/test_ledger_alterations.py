"""Every column of every kind of row, altered one at a time: found, whether the row's seal was left or made anew.

A seal that does not fit shows itself when the row is used. A row with a seal of its own, as of a disk that kept an old
page, or of whoever can write one, is not what the history says: verify finds it.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duckdp.errors import LedgerError
from duckdp.ledger import Ledger, chain, comparison
from duckdp.ledger.seals import seal_of
from tests import ledger_flips as flips
from tests.ledgers import ask

#: What says nothing: a mark that refuses what earlier versions of duckdp would still write, and never is read again.
UNSAID = {("object", "version"), ("event", "version")}


WORDS = {
    "open": "failed",
    "failed": "open",
    "released": "failed",
    "query": "summary",
    "summary": "synthetic",
    "synthetic": "summary",
    "basic": "zcdp",
    "add_remove": "replace",
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "a.ledger"
    flips.build(path, charges=6)
    return path


def altered(value: Any) -> Any:
    """Another value of the same type; of a word that is one of few, another of them."""
    if value in WORDS:
        return WORDS[value]
    if value is None:
        return 1
    if isinstance(value, int):
        return value + 1
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1, *value[1:]]) if value else b"x"
    return ("b" if value[:1] != "b" else "c") + value[1:]


def connect(path: Path) -> sqlite3.Connection:
    con = sqlite3.connect(path, isolation_level=None)
    con.row_factory = sqlite3.Row
    con.execute("PRAGMA ignore_check_constraints = ON")
    return con


def alterations(path: Path) -> Iterator[tuple[str, str, int]]:
    """Table, column and rowid (or place) of some rows of every table."""
    con = connect(path)
    tables = [
        r[0] for r in con.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    ]
    for table in tables:
        count = con.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        columns = [r[1] for r in con.execute(f"PRAGMA table_info({table})")]
        for place in sorted({0, count // 2, count - 1} if count else ()):
            for column in columns:
                if column != "seal":
                    yield table, column, place
    con.close()


def alter(path: Path, table: str, column: str, place: int, *, resealed: bool) -> bool:
    """Change one value as somebody who knows the triggers; whether the table took it."""
    con = connect(path)
    triggers = con.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    con.execute("BEGIN")
    for name, _ in triggers:
        con.execute(f"DROP TRIGGER {name}")
    rows = con.execute(f"SELECT * FROM {table}").fetchall()
    row = dict(rows[place])
    keys = [r[1] for r in con.execute(f"PRAGMA table_info({table})") if r[5]]
    where = " AND ".join(f"{k} IS ?" for k in keys)
    new = {**row, column: altered(row[column])}
    if resealed and "seal" in row:
        (salt,) = con.execute("SELECT salt FROM dataset").fetchone()
        salt = new["salt"] if table == "dataset" else salt
        new["seal"] = seal_of(salt, table, [v for k, v in new.items() if k != "seal"])
    try:
        sets = ", ".join(f"{k} = ?" for k in new)
        con.execute(f"UPDATE {table} SET {sets} WHERE {where}", [*new.values(), *(row[k] for k in keys)])
    except sqlite3.IntegrityError:
        con.execute("ROLLBACK")
        con.close()
        return False
    for _, sql in triggers:
        con.execute(sql)
    con.execute("COMMIT")
    con.close()
    return True


def found(path: Path) -> bool:
    """Whether opening, or else verify, refuses the ledger."""
    try:
        with Ledger.open(path, create=False) as ledger:
            ledger.verify()
    except LedgerError as error:
        assert error.code in ("B202", "B203"), error
        return True
    return False


def missed(base: Path, folder: Path, *, resealed: bool, tables: tuple[str, ...] = ()) -> list[tuple[str, str, int]]:
    out = []
    for table, column, place in alterations(base):
        if tables and table not in tables:
            continue
        path = folder / "b.ledger"
        shutil.copy(base, path)
        shutil.copy(f"{base}.anchor", f"{path}.anchor")
        if alter(path, table, column, place, resealed=resealed) and not found(path):
            out.append((table, column, place))
    return out


def is_said(table: str, column: str, place: int) -> bool:
    """The directory begins before all names, with a row that stands for nothing."""
    return (table, column) not in UNSAID and (table, column, place) != ("directory", "subject", 0)


@pytest.mark.parametrize("resealed", [False, True])
def test_no_value_of_any_row_is_altered_unseen(base: Path, tmp_path: Path, resealed: bool) -> None:
    assert len(list(alterations(base))) > 200
    assert [m for m in missed(base, tmp_path, resealed=resealed) if is_said(*m)] == []


def test_old_history_is_found_by_verify(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What opening looks at of a long history is its end."""
    monkeypatch.setattr(chain, "RECENT", 3)
    assert [m for m in missed(base, tmp_path, resealed=True, tables=("event",)) if is_said(*m)] == []


def test_a_comparison_that_is_left_out_is_noticed(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "_charges_fit", lambda _: True)
    left = missed(base, tmp_path, resealed=True, tables=("charge",))
    assert {column for _, column, _ in left} >= {"state", "attempt"}


def test_what_all_hangs_on_is_refused_at_the_opening(base: Path, tmp_path: Path) -> None:
    """Before anything is asked: the data set's row as it stands, and the end of the history that it names."""
    path = tmp_path / "b.ledger"
    resealed = [("dataset", "head", 0), ("dataset", "events", 0)]
    for change in [*(a for a in alterations(base) if a[0] == "dataset"), *resealed]:
        shutil.copy(base, path)
        shutil.copy(f"{base}.anchor", f"{path}.anchor")
        if alter(path, *change, resealed=change in resealed):
            with pytest.raises(LedgerError) as caught:
                Ledger.open(path, create=False)
            assert caught.value.code in ("B202", "B203"), change


@pytest.mark.parametrize("table", ["release", "finished", "stage"])
def test_what_leaves_is_compared_with_its_charge(base: Path, tmp_path: Path, table: str) -> None:
    """A payload has no seal: its digest stands in the charge, and the chain."""
    path = tmp_path / "b.ledger"
    shutil.copy(base, path)
    shutil.copy(f"{base}.anchor", f"{path}.anchor")
    with connect(path) as con:
        (charge_id,) = con.execute(f"SELECT charge FROM {table} LIMIT 1").fetchone()
        (analyst,) = con.execute("SELECT analyst FROM charge WHERE id = ?", (charge_id,)).fetchone()
    con.close()
    assert alter(path, table, "payload", 0, resealed=False)
    with Ledger.open(path, create=False) as ledger, pytest.raises(LedgerError, match="B202"):
        if table == "stage":
            ledger.stages(ledger.admit(ask("staged")))
        else:
            ledger.release(analyst, charge_id)


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE share SET reader = 'dot' WHERE name = 'ages'",
        "UPDATE share SET name = 'made' WHERE name = 'ages'",
        "DELETE FROM share WHERE name = 'costs'",
        "INSERT INTO share SELECT analyst, name, 'ben' FROM share LIMIT 1",
    ],
)
def test_who_may_read_what_is_found_by_verify(base: Path, tmp_path: Path, edit: str) -> None:
    """Rows that are whole, and name what is there: that they were shared, or not, only the history knows."""
    path = tmp_path / "b.ledger"
    shutil.copy(base, path)
    shutil.copy(f"{base}.anchor", f"{path}.anchor")
    assert not found(path)
    con = connect(path)
    triggers = con.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        con.execute(f"DROP TRIGGER {name}")
    assert con.execute(edit).rowcount == 1
    for _, sql in triggers:
        con.execute(sql)
    con.close()
    assert found(path)

"""Every column of every kind of row, altered one at a time: found, whether the row's seal was left or made anew.

A seal that does not fit shows itself when the row is used. A row with a seal of its own, as of a disk that kept an old
page, or of whoever can write one, is not what the history says: verify finds it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from duckdp.errors import LedgerError
from duckdp.ledger import Ledger, chain, comparison
from duckdp.ledger.seals import seal_of
from tests import ledger_flips as flips
from tests.ledgers import ask

NOW = "2026-11-22T21:00:00Z"  # no month ends between two runs of the script

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


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of which the script of ``ledger_flips`` finds all that it asks for."""
    path = tmp_path_factory.mktemp("asked") / "a.ledger"
    flips.build(path)
    return path


def altered(value: Any, kind: str) -> Any:
    """Something else: another value of the same type (of a word that is one of few, another of them), none, a type."""
    if kind == "none":
        return None if value is not None else 0
    if kind == "type":
        return value.encode() if isinstance(value, str) else value.hex() if isinstance(value, bytes) else f"{value}?"
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


class Alteration(NamedTuple):
    """Of the value in a column of a table's row, at that place of all rows."""

    table: str
    column: str
    place: int
    kind: str = "value"


def tables_of(con: sqlite3.Connection) -> dict[str, list[str]]:
    """All tables, each with its columns, from the schema itself."""
    names = con.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'").fetchall()
    return {name: [row[1] for row in con.execute(f"PRAGMA table_info({name})")] for (name,) in names}


def places(con: sqlite3.Connection, table: str, column: str, count: int) -> list[int]:
    """The first, a middle and the last row, one that holds nothing in that column, and one that holds something."""
    empty = [row[column] is None for row in con.execute(f"SELECT * FROM {table}")]
    return sorted({0, count // 2, count - 1, *(empty.index(which) for which in {*empty})} if count else ())


def alterations(path: Path) -> Iterator[Alteration]:
    """Of every column of every table."""
    with closing(connect(path)) as con:
        for table, columns in tables_of(con).items():
            count = con.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for column in columns:
                for place in places(con, table, column, count):
                    yield Alteration(table, column, place)
                    if place == count // 2:
                        yield Alteration(table, column, place, "none")
                        yield Alteration(table, column, place, "type")


def alter(path: Path, change: Alteration, *, resealed: bool) -> bool:
    """Change one value as somebody who knows the triggers; whether the table took it, and holds another now."""
    with closing(connect(path)) as con:
        triggers = con.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        con.execute("BEGIN")
        for name, _ in triggers:
            con.execute(f"DROP TRIGGER {name}")
        took = _alter(con, change, resealed=resealed)
        for _, sql in triggers:
            con.execute(sql)
        con.execute("COMMIT" if took else "ROLLBACK")
        return took


def _alter(con: sqlite3.Connection, change: Alteration, *, resealed: bool) -> bool:
    table, column, place, kind = change
    row = dict(con.execute(f"SELECT * FROM {table}").fetchall()[place])
    keys = [r[1] for r in con.execute(f"PRAGMA table_info({table})") if r[5]]
    new = {**row, column: altered(row[column], kind)}
    if resealed and "seal" in row:
        (salt,) = con.execute("SELECT salt FROM dataset").fetchone()
        salt = new["salt"] if table == "dataset" else salt
        if column == "seal" or not isinstance(salt, bytes):
            return False
        new["seal"] = seal_of(salt, table, [v for k, v in new.items() if k != "seal"])
    before = con.execute(f"SELECT * FROM {table}").fetchall()
    try:
        sets, where = ", ".join(f"{k} = ?" for k in new), " AND ".join(f"{k} IS ?" for k in keys)
        con.execute(f"UPDATE {table} SET {sets} WHERE {where}", [*new.values(), *(row[k] for k in keys)])
    except sqlite3.IntegrityError:
        return False
    return con.execute(f"SELECT * FROM {table}").fetchall() != before


def found(path: Path) -> bool:
    """Whether opening, or else verify, refuses the ledger."""
    try:
        with Ledger.open(path, create=False) as ledger:
            ledger.verify()
    except LedgerError as error:
        assert error.code in ("B202", "B203"), error
        return True
    return False


def copied(base: Path, folder: Path) -> Path:
    """A copy to alter."""
    path = folder / "b.ledger"
    flips.copy(base, path)
    return path


def missed(base: Path, folder: Path, *, resealed: bool, tables: tuple[str, ...] = ()) -> list[Alteration]:
    """What was altered, and neither opening nor verify noticed."""
    changes = [change for change in alterations(base) if not tables or change.table in tables]
    return [
        change
        for change in changes
        if alter(path := copied(base, folder), change, resealed=resealed) and not found(path)
    ]


def test_a_row_stands_in_every_table_and_every_column_of_it_is_altered(base: Path, tmp_path: Path) -> None:
    """The schema says which there are: one that is added must get a row here."""
    with closing(connect(base)) as con:
        wanted = {(table, column) for table, columns in tables_of(con).items() for column in columns}
    tried = {c[:2] for c in alterations(base) if alter(copied(base, tmp_path), c, resealed=False)}
    assert wanted - tried == set()
    assert len(wanted) > 140


@pytest.mark.parametrize("resealed", [False, True])
def test_no_value_of_any_row_is_altered_unseen(base: Path, tmp_path: Path, resealed: bool) -> None:
    assert missed(base, tmp_path, resealed=resealed) == []


def check_what_is_said(base: Path, folder: Path, changes: Iterable[Alteration]) -> None:
    """Of a ledger that is used as it stands, and not verified: no answer, charge or limit is another one."""
    wanted = flips.tell(copied(base, folder))
    seen = 0
    for change in changes:
        path = copied(base, folder)
        if alter(path, change, resealed=False):
            said = flips.tell(path)
            assert flips.differing(said, wanted) == [], change
            seen += flips.was_seen(said)
    assert seen > 50


def test_no_altered_value_changes_what_the_ledger_says(
    asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "now", lambda: NOW)
    firsts = {change[:2]: change for change in alterations(asked) if change.kind == "value"}
    check_what_is_said(asked, tmp_path, firsts.values())


@pytest.mark.slow
def test_no_alteration_at_all_changes_what_the_ledger_says(
    asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "now", lambda: NOW)
    check_what_is_said(asked, tmp_path, alterations(asked))


def test_old_history_is_found_by_verify(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What opening looks at of a long history is its end."""
    monkeypatch.setattr(chain, "RECENT", 3)
    assert missed(base, tmp_path, resealed=True, tables=("event",)) == []


def test_a_comparison_that_is_left_out_is_noticed(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "_charges_fit", lambda _: True)
    left = missed(base, tmp_path, resealed=True, tables=("charge",))
    assert {change.column for change in left} >= {"state", "attempt"}


def test_what_all_hangs_on_is_refused_at_the_opening(base: Path, tmp_path: Path) -> None:
    """Before anything is asked: the data set's row as it stands, and the end of the history that it names."""
    resealed = [Alteration("dataset", "head", 0), Alteration("dataset", "events", 0)]
    for change in [*(a for a in alterations(base) if a.table == "dataset"), *resealed]:
        path = copied(base, tmp_path)
        if alter(path, change, resealed=change in resealed):
            with pytest.raises(LedgerError) as caught:
                Ledger.open(path, create=False)
            assert caught.value.code in ("B202", "B203"), change


@pytest.mark.parametrize("table", ["release", "finished", "stage"])
def test_what_leaves_is_compared_with_its_charge(base: Path, tmp_path: Path, table: str) -> None:
    """A payload has no seal: its digest stands in the charge, and the chain."""
    path = copied(base, tmp_path)
    with connect(path) as con:
        (charge_id,) = con.execute(f"SELECT charge FROM {table} LIMIT 1").fetchone()
        (analyst,) = con.execute("SELECT analyst FROM charge WHERE id = ?", (charge_id,)).fetchone()
    con.close()
    assert alter(path, Alteration(table, "payload", 0), resealed=False)
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
    path = copied(base, tmp_path)
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

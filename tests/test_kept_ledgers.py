"""Ledgers of earlier versions, kept as real files: they open, and what they answered is given again, free.

Made by ``fixtures/ledgers/make.py`` with the code of their day. A question whose meaning was mended since is asked
anew: it stands in ``MENDED`` with the reason, and must not be served the old answer.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import shutil
import sqlite3
from contextlib import closing

import pytest

from duckdp.core.types import Loss
from duckdp.errors import LedgerError
from duckdp.ledger import Charge, ChargeRequest, Ledger, anchor
from tests.ledgers import answer, ask
from tests.test_ledger_alterations import missed

KEPT = pathlib.Path(__file__).parent / "fixtures" / "ledgers"
VERSIONS = [path.name for path in sorted(KEPT.glob("version_*"))]
# (question, whether rows have units) -> why it means something else today
MENDED: dict[tuple[str, bool], str] = {("groups", True): "epsilon is split among measures for the least total error"}

spec = importlib.util.spec_from_file_location("kept_ledgers_make", KEPT / "make.py")
assert spec is not None and spec.loader is not None
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)


def copy(version: str, folder: pathlib.Path) -> None:
    """The kept files under their names in use."""
    kept = KEPT / version
    shutil.copy(kept / "visits.parquet", folder)
    for name in ("keyed", "rows"):
        shutil.copy(kept / f"{name}.db", folder / f"{name}.ledger")
        shutil.copy(kept / f"{name}.anchor", folder / f"{name}.ledger.anchor")


def same(name: str, given: list[list[str]], kept: list[list[str]]) -> bool:
    """Whether what was stored of an answer is given again.

    Of a function of a summary its bounds are proved anew each time, and its value is summed anew: sines and cosines end
    in other digits on another processor.
    """
    if name != "answer":
        return given == kept
    return [[float(cell) for cell in row[:2]] for row in given] == [
        pytest.approx([float(cell) for cell in row[:2]], rel=1e-12) for row in kept
    ]


def test_another_value_is_not_the_same() -> None:
    assert same("answer", [["0.5", "0.25", "x"]], [["0.5000000000000001", "0.25", "y"]])
    assert not same("answer", [["0.5", "0.25"]], [["0.50000001", "0.25"]])
    assert not same("count", [["0.5"]], [["0.5000000000000001"]])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("keyed", [True, False])
def test_stored_answers_stay_free(tmp_path: pathlib.Path, version: str, keyed: bool) -> None:
    copy(version, tmp_path)
    answers = json.loads((KEPT / version / "answers.json").read_text())["keyed" if keyed else "rows"]
    with make.open_visits(str(tmp_path), keyed=keyed) as curator:
        charges = len(curator.ledger.charges())
        session = curator.session("ana" if keyed else "ben")
        asked = make.questions(session, keyed=keyed)
        assert set(asked) == set(answers)
        for name, ask in asked.items():
            if (name, keyed) in MENDED:
                continue
            assert same(name, make.printed(ask()), answers[name]), name
            assert len(curator.ledger.charges()) == charges, f"{name} was charged again"
        for name in [name for name in asked if (name, keyed) in MENDED]:
            asked[name]()
            charges += 1
            assert len(curator.ledger.charges()) == charges, f"{name}: the old answer was given"


OLD_WRITES = {
    "charge": [
        "INSERT INTO charge (id, analyst, key, kind, mechanism, parameters, statement, epsilon_nano, delta_atto, "
        "rho_pico, delta_zcdp_atto, primary_cost, secondary_cost, data_version, catalog_version, at, holder) "
        "SELECT id + 1, analyst, 'ab', kind, mechanism, parameters, statement, 1, 0, 0, 0, 1, 0, data_version, "
        "catalog_version, at, '' FROM charge ORDER BY id DESC LIMIT 1",
        "INSERT INTO event (seq, at, kind, subject, detail, reason, hash) "
        "SELECT max(seq) + 1, '', 'charge', 'ana', '{}', NULL, '' FROM event",
    ],
    "redeem": ["UPDATE charge SET attempt = 2, state = 'open' WHERE id = 1"],
    "fail": ["UPDATE charge SET state = 'failed' WHERE id = 1"],
    "freeze": [
        "UPDATE dataset SET frozen = 'stop'",
        "INSERT INTO event (seq, at, kind, subject, detail, reason, hash) "
        "SELECT max(seq) + 1, '', 'freeze', '', '{}', 'stop', '' FROM event",
    ],
    "name": [
        "INSERT INTO object (analyst, name, kind, charge) SELECT analyst, 'other', kind, charge FROM object LIMIT 1"
    ],
}


@pytest.mark.parametrize("what", OLD_WRITES)
def test_a_process_of_an_earlier_version_writes_nothing_after_the_migration(tmp_path: pathlib.Path, what: str) -> None:
    """It has the file open since before; what it wrote, without seals, would be damage for ever."""
    copy("version_3", tmp_path)
    path = str(tmp_path / "keyed.ledger")
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        assert old.execute("SELECT count(*) FROM charge").fetchone()[0]
        with Ledger.open(path) as ledger:
            old.execute("BEGIN IMMEDIATE")
            with pytest.raises(sqlite3.IntegrityError, match="written by an earlier version"):
                for statement in OLD_WRITES[what]:
                    old.execute(statement)
            old.execute("ROLLBACK")
            ledger.verify()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("harm", "code"),
    [
        ("UPDATE analyst SET primary_spent = 0", "B202"),
        ("UPDATE dataset SET primary_spent = 0", "B202"),
        ("UPDATE charge SET primary_cost = 1 WHERE id = 1", "B202"),
        ("the anchor", "B203"),
    ],
)
def test_an_earlier_ledger_that_is_not_whole_is_refused_as_it_is(
    tmp_path: pathlib.Path, version: str, harm: str, code: str
) -> None:
    """Before anything is sealed: afterwards the seals would vouch for it. Whoever has a whole copy can put it back."""
    copy(version, tmp_path)
    path = tmp_path / "keyed.ledger"
    if harm == "the anchor":
        known = anchor.read(str(path))
        assert known is not None
        other = anchor.Position(dataset_id=known.dataset_id, count=known.count + 1, digest=known.digest[::-1])
        anchor.advance(str(path), other)
    else:
        with closing(sqlite3.connect(path, isolation_level=None)) as con:
            triggers = con.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                con.execute(f"DROP TRIGGER {name}")
            assert con.execute(harm).rowcount
            for _, sql in triggers:
                con.execute(sql)
    for _ in range(2):
        with pytest.raises(LedgerError, match=f"^{code}"):
            Ledger.open(path, create=False)
        with closing(sqlite3.connect(path)) as con:
            assert con.execute("PRAGMA user_version").fetchone()[0] == int(version[-1])


@pytest.mark.parametrize("resealed", [False, True])
def test_no_value_of_a_row_that_an_earlier_version_wrote_is_altered_unseen(
    tmp_path: pathlib.Path, resealed: bool
) -> None:
    """But who held a charge that had its release by then: nothing reads it, and the history did not tell it."""
    copy("version_3", tmp_path)
    with Ledger.open(tmp_path / "keyed.ledger") as ledger:
        answer(ledger, ask("since then", name="since_then", kind="summary"))
    (tmp_path / "copies").mkdir()
    tables = ("event", "object", "share", "charge")
    left = missed(tmp_path / "keyed.ledger", tmp_path / "copies", resealed=resealed, tables=tables)
    assert {change[:2] for change in left} == ({("charge", "holder")} if resealed else set())


def test_a_name_that_an_earlier_version_gave_is_free_when_its_charge_is_final(tmp_path: pathlib.Path) -> None:
    copy("version_3", tmp_path)
    path = tmp_path / "keyed.ledger"
    with closing(sqlite3.connect(path)) as con:
        con.row_factory = sqlite3.Row
        row = con.execute(
            "SELECT charge.* FROM charge JOIN object ON id = charge WHERE object.name = 'held_2'"
        ).fetchone()
    same = {column: row[column] for column in ("analyst", "key", "mechanism", "parameters", "statement", "kind")}
    loss = Loss(**{column: row[column] for column in ("epsilon_nano", "delta_atto", "rho_pico", "delta_zcdp_atto")})
    with Ledger.open(path) as ledger:
        ledger.verify()
        charge = ledger.admit(ChargeRequest(**same, loss=loss, name="held_2"))
        assert isinstance(charge, Charge)
        ledger.fail(charge)
        answer(ledger, ask("another", 1000, analyst="cai", name="held_2", kind="summary"))
        ledger.verify()

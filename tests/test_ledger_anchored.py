"""What leaves is anchored: also a release that somebody else stored, whose anchor did not follow, or not yet.

Else the answer is seen, an older copy of the ledger fits the anchor, and a second answer to the question is drawn.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from duckdp.errors import LedgerError
from duckdp.ledger import Charge, Ledger, StoredRelease, anchor
from duckdp.ledger.store import Store
from tests.ledgers import ask, refused, set_up

GIVE = {
    "admit": lambda ledger: ledger.admit(ask("a", name="s", kind="summary")),
    "release": lambda ledger: ledger.release("ana", 1),
    "object": lambda ledger: ledger.object("ana", "s"),
}


def charged(ledger: Ledger) -> Charge:
    found = set_up(ledger).admit(ask("a", name="s", kind="summary"))
    assert isinstance(found, Charge)
    return found


def is_anchored(ledger: Ledger) -> bool:
    known = anchor.read(ledger.path)
    return known is not None and known.count == ledger._store.read(lambda tx: tx.head().count)


@pytest.mark.parametrize("way", GIVE)
def test_a_release_whose_anchor_failed_is_not_given_until_it_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    with Ledger.open(tmp_path / "a.ledger") as ledger, Ledger.open(tmp_path / "a.ledger") as other:
        charge = charged(ledger)
        with monkeypatch.context() as patch:
            patch.setattr(anchor, "_write", fail)
            with refused("B207"):
                ledger.store_release(charge, "42")
            for each in (ledger, other):
                with refused("B207"):
                    GIVE[way](each)
        assert not is_anchored(ledger)
        assert GIVE[way](other).payload == "42"
        assert is_anchored(ledger)
        assert GIVE[way](ledger).payload == "42"


def fail(path: str, *_: object) -> None:
    raise LedgerError("B207", "the anchor cannot be written.", path=path)


@pytest.mark.parametrize("way", GIVE)
def test_a_release_that_is_being_anchored_is_given_when_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    committed, go_on = threading.Event(), threading.Event()
    advance, opened = anchor.advance, tmp_path / "a.ledger"
    with Ledger.open(opened) as ledger, Ledger.open(opened) as other, ThreadPoolExecutor(1) as pool:
        charge = charged(ledger)

        def slow(path: str, position: anchor.Position, **more: object) -> None:
            if threading.get_ident() == ledger._store._writer._ident:
                committed.set()
                assert go_on.wait(60)
            advance(path, position, **more)

        monkeypatch.setattr(anchor, "advance", slow)
        storing = pool.submit(ledger.store_release, charge, "42")
        assert committed.wait(60)
        assert not is_anchored(other)
        given = GIVE[way](other)
        assert isinstance(given, StoredRelease)
        assert is_anchored(other)
        go_on.set()
        assert storing.result() == given


@pytest.mark.parametrize("new", [False, True])
def test_what_a_glance_does_not_see_is_given_again_and_not_paid_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: bool
) -> None:
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        ledger.store_release(charged(ledger), "42")
        spent = ledger.state().primary_spent
        monkeypatch.setattr(Store, "glance", lambda *_: None)
        given = ledger.admit(ask("a", name="s", kind="summary"), new=new)
        assert isinstance(given, StoredRelease)
        assert given.payload == "42"
        assert ledger.state().primary_spent == spent


def test_giving_again_asks_no_writer_and_no_anchor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger.open(tmp_path / "a.ledger") as ledger, Ledger.open(tmp_path / "a.ledger") as other:
        ledger.store_release(charged(ledger), "42")
        other.admit(ask("a", name="s", kind="summary"))
        monkeypatch.setattr(anchor, "read", None)
        monkeypatch.setattr(ledger._store._writer, "transact", None)
        for each in (ledger, other):
            for give in GIVE.values():
                assert give(each).payload == "42"

"""The suite of the ledger, on a server."""

import pytest

from duckdp.ledger import Ledger, served
from tests.ledgers import NANO
from tests.test_ledger import *  # noqa: F403
from tests.test_ledger import _stale

pytestmark = [pytest.mark.usefixtures("served"), pytest.mark.slow]


def test_what_is_remembered_is_as_new_as_the_last_write_of_anybody(ledger, monkeypatch):
    with Ledger.open(ledger.path) as other:
        ledger.grant("bob", epsilon_nano=NANO, delta_atto=0)
        acts = [
            lambda: ledger.freeze("for now"),
            lambda: other.unfreeze(reason="again"),
            lambda: other.revoke("bob", "left"),
        ]
        assert _stale(acts[:2], ledger, ledger.path) == 0
        monkeypatch.setattr(served.Connection, "_look", lambda connection, seen: None)  # for ever
        assert _stale(acts[2:], ledger, ledger.path) > 0


def test_what_is_remembered_is_bounded(ledger, monkeypatch):
    monkeypatch.setattr(served, "MOST_FOUND", 10)
    for k in range(100):
        assert ledger._store.recall(k, lambda tx, k=k: k) == k
    assert len(ledger._store._idle[-1].found) <= 10

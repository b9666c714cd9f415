"""Ledgers on a server: one server for all, a schema of its own for each ledger.

The suites of ledgers in files run here as they are: under the fixture ``served`` a ledger that a test opens by a path
is on the server instead, and its anchor is the file of that name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from duckdp.ledger.addresses import is_address
from duckdp.ledger.store import Store
from tests.postgres import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    made = Server()
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def address(server: Server, tmp_path: Path) -> str:
    """Where a new ledger may be made."""
    return server.address("s" + hashlib.sha256(str(tmp_path).encode()).hexdigest()[:20])


@pytest.fixture
def served(server: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[object], str]:
    """Puts ledgers that are named by paths on the server."""

    def named(path: object) -> str:
        text = os.path.abspath(os.fspath(path))
        return server.address("s" + hashlib.sha256(text.encode()).hexdigest()[:20])

    def opened(path, *, create, repair=None, where=None):
        if is_address(os.fspath(path)) or os.path.exists(path):
            return there(path, create=create, repair=repair, where=where)
        if where is None and create:
            where = os.path.abspath(os.fspath(path)) + ".witness"
        return there(named(path), create=create, repair=repair, where=where)

    there = Store.open
    monkeypatch.setattr(Store, "open", staticmethod(opened))
    return named

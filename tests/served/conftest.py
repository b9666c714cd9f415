"""Ledgers on a server: one server for all, a schema of its own for each ledger.

The suites of ledgers in files run here as they are: under the fixture ``served`` a ledger that a test opens by a path
is on the server instead, and its anchor is the file of that name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.postgres import Server
from tests.served import elsewhere


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
    """Puts ledgers that are named by paths on the server; those of processes that ask for it, too."""
    monkeypatch.setenv(elsewhere.PORT, str(server.port))
    return elsewhere.serve(server.port, monkeypatch.setattr)

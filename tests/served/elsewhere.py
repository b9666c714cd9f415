"""Ledgers that a test names by a path, put on a server: in the test's process, and in those that it starts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable

from duckdp.ledger.addresses import is_address
from duckdp.ledger.store import Store

PORT = "DUCKDP_TESTS_PORT"  # of the server, for processes that a test starts


def serve(port: int, change: Callable[..., object] = setattr) -> Callable[[object], str]:
    """Have ledgers opened on the server of that port; gives the address of a path."""

    def named(path: object) -> str:
        text = os.path.abspath(os.fspath(path))  # type: ignore[call-overload]
        schema = "s" + hashlib.sha256(text.encode()).hexdigest()[:20]
        return f"postgresql://owner@127.0.0.1:{port}/postgres?schema={schema}"

    def opened(path, *, create, repair=None, where=None):  # type: ignore[no-untyped-def]
        if is_address(os.fspath(path)) or os.path.exists(path):
            return there(path, create=create, repair=repair, where=where)
        if where is None and create:
            where = os.path.abspath(os.fspath(path)) + ".witness"
        return there(named(path), create=create, repair=repair, where=where)

    there = Store.open
    change(Store, "open", staticmethod(opened))
    return named


def serve_if_asked() -> None:
    """In a process of its own: as in the test that started it."""
    if PORT in os.environ:
        serve(int(os.environ[PORT]))

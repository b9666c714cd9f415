"""A full disk at every size: an error of ours, nothing half-made under its final name, and after it everything goes on.

The disk is made full by the limit on the size of a process' files: beyond it the system cuts a write short or refuses
it, as a full disk does, wherever in the ledger, its journal, a draft or the anchor that falls.
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from duckdp.errors import DuckDPError
from duckdp.ledger import Ledger
from tests.ledgers import NANO, answer, ask, set_up


@contextmanager
def full_at(size: int) -> Iterator[None]:
    """Files cannot grow beyond ``size`` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def files(folder: Path) -> list[str]:
    return sorted(f.name for f in folder.iterdir())


@pytest.mark.parametrize("size", [0, 1, 100, 159, 161, 4096, 5000, 16384, 40000, 65536, 90000, 110_000, 130_000])
def test_creating(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.ledger"
    with full_at(size):
        try:
            Ledger.open(path).close()
        except DuckDPError as error:
            assert error.code == "B207", error
            assert path.exists() or files(tmp_path) == []
    with Ledger.open(path) as ledger:
        set_up(ledger)
        answer(ledger, ask("a"))
    with Ledger.open(path, create=False) as ledger:
        assert ledger.state().primary_spent == NANO
    assert files(tmp_path) == ["a.ledger", "a.ledger.anchor", "a.ledger.locks"]


@pytest.mark.parametrize("room", [0, 200, 4096, 8000, 20_000, 30_000, 50_000])
def test_charging_and_storing(tmp_path: Path, room: int) -> None:
    """The journal meets the limit at some charge; what was acknowledged stays, the rest is as if it was never asked."""
    path, told = tmp_path / "a.ledger", {}
    with Ledger.open(path) as ledger:
        set_up(ledger, 1000 * NANO)
        start = max(f.stat().st_size for f in tmp_path.iterdir())
        failed = 0
        with full_at(start + room):
            for i in range(40):
                try:
                    told[i] = answer(ledger, ask(i), "x" * 500).payload
                except DuckDPError as error:
                    assert error.code in ("B207", "B106"), error
                    failed += 1
        assert failed
        for i in range(40):  # the same process goes on
            assert answer_again(ledger, i) == "x" * 500
        assert ledger.state().primary_spent == 40 * NANO
    with Ledger.open(path, create=False) as ledger:
        assert len(ledger.charges()) == 40
        assert all(ledger.admit(ask(i)).payload == payload for i, payload in told.items())


def answer_again(ledger: Ledger, i: int) -> str:
    found = ledger.admit(ask(i))
    return found.payload if hasattr(found, "payload") else ledger.store_release(found, "x" * 500).payload


@pytest.mark.parametrize("size", [0, 100, 4096, 30_000, 60_000, 90_000, 110_000])
def test_backing_up(tmp_path: Path, size: int) -> None:
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        set_up(ledger)
        answer(ledger, ask("a"))
        target = tmp_path / "copy.ledger"
        try:
            with full_at(size):
                ledger.backup(target)
        except DuckDPError as error:
            assert error.code == "B207", error
            assert not target.exists()
            ledger.backup(target)
        with Ledger.open(target, create=False) as copy:
            assert copy.state().backup
            assert copy.state().primary_spent == NANO
        assert not [name for name in files(tmp_path) if ".new-" in name]

"""``duckdp bench ledger --server ADDRESS``: charges and releases in a file and in PostgreSQL, side by side.

Each ledger is new; the server's is in a schema of its own, which is left there. Threads ask different questions of one
open ledger, as those of ``duckdp serve`` do.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from duckdp.core.types import AccountantKind, Loss, Neighbours
from duckdp.ledger import Charge, ChargeRequest, Ledger

THREADS = (1, 8, 32)  # that ask at once
QUESTIONS = 400  # of all threads together
HEAD = ("ledger", "1 thread, pairs/s", "8 threads", "32 threads", "stored answer ms", "open ms")


def table(address: str, questions: int = QUESTIONS) -> list[tuple[str, ...]]:
    """Header and rows: the file, and the server of that address (its schema is replaced by a new one)."""
    found: list[tuple[str, ...]] = [HEAD]
    schema = f"bench_{os.urandom(6).hex()}"
    with tempfile.TemporaryDirectory(prefix="duckdp-bench-") as folder:
        there = f"{address.partition('?')[0]}?{_rest(address)}schema={schema}"
        found.append(_measured("a file", str(Path(folder) / "a.ledger"), folder, questions))
        found.append(_measured("PostgreSQL", there, folder, questions))
    return found


def _rest(address: str) -> str:
    """The parameters of an address, but for its schema."""
    kept = [part for part in address.partition("?")[2].split("&") if part and not part.startswith("schema=")]
    return "".join(f"{part}&" for part in kept)


def _measured(name: str, place: str, folder: str, questions: int) -> tuple[str, ...]:
    with Ledger.open(place, anchor=_anchor(folder, name)) as ledger:
        ledger.set_budget(
            epsilon_nano=10**15, delta_atto=0, neighbours=Neighbours.ADD_REMOVE, accountant=AccountantKind.BASIC
        )
        ledger.grant("ana", epsilon_nano=10**15, delta_atto=0)
        _pair(ledger, "first")
        rates = [_rate(ledger, threads, questions) for threads in THREADS]
        stored = _median(lambda: ledger.admit(_request("first")), 200)
    opened = _median(lambda: Ledger.open(place, create=False).close(), 9)
    return (name, *(f"{rate:,.0f}" for rate in rates), f"{stored:.2f}", f"{opened:.0f}")


def _anchor(folder: str, name: str) -> str:
    place = Path(folder) / f"anchor of {name}"
    place.mkdir()
    return str(place / "anchor")


def _rate(ledger: Ledger, threads: int, questions: int) -> float:
    """Pairs of a charge and its release in a second."""
    names = [f"{threads} {i}" for i in range(questions)]
    with ThreadPoolExecutor(threads) as pool:
        began = time.perf_counter()
        list(pool.map(lambda name: _pair(ledger, name), names))
        return questions / (time.perf_counter() - began)


def _pair(ledger: Ledger, name: str) -> None:
    charge = ledger.admit(_request(name))
    assert isinstance(charge, Charge)
    ledger.store_release(charge, '{"value": 1}')


def _request(name: str) -> ChargeRequest:
    key = hashlib.sha256(name.encode()).hexdigest()
    return ChargeRequest(
        analyst="ana", key=key, loss=Loss(epsilon_nano=1000), mechanism="laplace", parameters="{}", statement="SELECT 1"
    )


def _median(work: Callable[[], object], times: int) -> float:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return sorted(found)[times // 2] * 1000

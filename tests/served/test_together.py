"""What is written goes to the server together: how many messages that takes, and whose an error is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from duckdp.errors import DuckDPError
from duckdp.ledger import Charge, Ledger, served, served_errors, sessions
from duckdp.ledger.storage import Failure
from duckdp.ledger.tx import Tx
from tests.ledgers import NANO, ask, set_up


@pytest.fixture
def ledger(address: str, tmp_path: Any) -> Iterator[Ledger]:
    with Ledger.open(address, anchor=str(tmp_path / "anchor")) as found:
        yield set_up(found, 10**6 * NANO)


def messages(ledger: Ledger, patch: pytest.MonkeyPatch, question: str) -> int:
    """How many a charge and its release take; what frees its lock comes later, and is not counted."""
    sent: list[str] = []
    run = served.Connection._run

    def noted(connection: served.Connection, sql: str, parameters: Any = ()) -> Any:
        if "advisory_unlock" not in sql:
            sent.append(sql)
        return run(connection, sql, parameters)

    patch.setattr(served.Connection, "_run", noted)
    charge = ledger.admit(ask(question))
    assert isinstance(charge, Charge)
    ledger.store_release(charge, "42")
    return len(sent)


def test_a_charge_and_its_release_are_seven_messages(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.store_release(ledger.admit(ask("first")), "42")  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        assert messages(ledger, patch, "second") == 7
    with monkeypatch.context() as patch:  # the broken twin: each change is sent as it is made
        patch.setattr(served.Connection, "later", lambda self, sql, parameters=(): self._run(sql, parameters))
        assert messages(ledger, patch, "third") > 15


def test_a_change_of_a_row_that_is_not_there_is_damage(ledger: Ledger) -> None:
    connection = served.Connection(ledger.path)
    try:
        connection.begin(writing=True)
        tx = Tx(connection)
        row = tx.get("analyst", name="ana")
        assert row is not None
        tx.change("analyst", row, ("name",), charges=row["charges"])
        tx.settle()  # the row is there: nothing is said
        tx.change("analyst", {**row, "name": "nobody"}, ("name",), charges=5)
        with pytest.raises(Failure) as caught:
            tx.settle()
        told = served_errors.told(caught.value, ledger.path)
        assert (told.code, caught.value.state) == ("B202", "22012")
        with pytest.raises(Failure):
            connection.commit(tx.head())
    finally:
        connection.undo()
        connection.close()


def wrong(tx: Tx) -> None:
    """What the server alone refuses, and only when it is sent."""
    tx.later("INSERT INTO release (charge, payload) VALUES (?, ?)", 10**9, "of no charge")


@pytest.mark.parametrize("place", [0, 2, 5])
def test_an_error_of_one_takes_nothing_of_the_others(
    ledger: Ledger, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Of those that share a commit, whichever it is."""
    begun, go_on = threading.Event(), threading.Event()

    def holds_up(tx: Tx) -> None:
        begun.set()
        assert go_on.wait(30)

    works: list[Callable[[], Any]] = [lambda n=n: ledger.admit(ask(f"shared {n}")) for n in range(5)]
    works.insert(place, lambda: ledger._store.write(wrong))
    before = ledger.count_charges()
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(ledger._store.write, holds_up)
        assert begun.wait(30)
        waiting = []
        for work in works:
            waiting.append(pool.submit(work))
            until = threading.Event()
            until.wait(0.05)  # so that they come in this order
        go_on.set()
        first.result()
        for number, each in enumerate(waiting):
            if number == place:
                with pytest.raises(DuckDPError, match=r"^B202:"):
                    each.result()
            else:
                assert isinstance(each.result(), Charge)
    assert ledger.count_charges() == before + 5
    assert ledger.verify().charges == before + 5
    assert not caplog.records  # the driver says nothing of it


def test_an_error_of_the_first_is_its_own(ledger: Ledger) -> None:
    """Others came while it ran, and are to share its commit."""
    begun, go_on = threading.Event(), threading.Event()

    def wrong_first(tx: Tx) -> None:
        wrong(tx)
        begun.set()
        assert go_on.wait(30)

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(ledger._store.write, wrong_first)
        assert begun.wait(30)
        others = [pool.submit(ledger.admit, ask(f"beside {n}")) for n in range(3)]
        threading.Event().wait(0.2)
        go_on.set()
        with pytest.raises(DuckDPError, match=r"^B202:"):
            first.result()
        assert all(isinstance(each.result(), Charge) for each in others)


class _Heard:
    """The questions of a keeper, of whose end the thread hears before whoever told it goes on."""

    def __init__(self, keeper: Any) -> None:
        self._asked, self._keeper = keeper._asked, keeper
        self.get = self._asked.get

    def put(self, item: Any) -> None:
        self._asked.put(item)
        while item[0] == "end" and self._keeper._serving.locked():
            time.sleep(0.001)


def test_no_thread_is_left_where_the_end_is_heard_at_once() -> None:
    """One began anew then, with nothing to do and nobody to end it: at every closing of a ledger that was so quick."""
    keeper = sessions.Keeper("postgresql://nowhere/none?schema=none")
    keeper._asked = _Heard(keeper)  # type: ignore[assignment]
    keeper._ensure()
    until = time.monotonic() + 30
    while not keeper._serving.locked():
        assert time.monotonic() < until
        time.sleep(0.001)
    keeper.end()
    time.sleep(0.2)
    assert not keeper._serving.locked()

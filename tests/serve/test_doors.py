"""Who is at the server and for how long: strangers, idle clients, removed users; calls in their turn; the grid."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pg8000.native
import psycopg
import pytest

import duckdp
from duckdp import client
from duckdp.front.binder import AtOnce
from duckdp.serve import strangers, workers
from duckdp.serve.channel import HEAD, read_body, read_head
from duckdp.serve.serving import users_beside
from duckdp.serve.strangers import Strangers
from duckdp.serve.timing import due
from duckdp.serve.users import Users
from tests.serve.conftest import PASSWORD, Served, make_clinic, start


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of few places that lets go who is idle for two seconds; its answers leave when they are there."""
    source, ledger = make_clinic(tmp_path_factory.mktemp("short"))
    with duckdp.open(source, ledger=ledger) as owner:
        owner.grant("eve", epsilon=1)
    users_beside(ledger).add("eve", PASSWORD)
    found = start(source, ledger, "--connections", "20", "--idle", "0.034", "--grid", "0")
    yield found
    assert found.stop() == 0


# ---- strangers -------------------------------------------------------------------------------------------------------


def test_strangers_of_one_address_leave_room_for_others(short: Served) -> None:
    """On the code before, eleven silent connections held the door for fifteen seconds."""
    with ExitStack() as opened:
        for _ in range(30):
            opened.enter_context(socket.create_connection(("127.0.0.1", short.port)))
        con = pg8000.native.Connection(
            "ana", host="127.0.0.1", port=short.port, password=PASSWORD, source_address=("127.0.0.2", 0)
        )
        assert con.run("SELECT 1") == [[1]]
        con.close()


def test_who_waited_longest_gives_way_once_all_places_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "BUSY_PATIENCE", 0.0)

    class Task:
        def cancel(self) -> None:
            gone.append(self)

    tasks: list[Any] = [Task() for _ in range(40)]
    gone: list[Any] = []
    room = Strangers(20)
    assert [room.admit(task, f"10.0.0.{i}") for i, task in enumerate(tasks)] == [True] * 40
    assert gone == tasks[: 40 - len(room)]
    assert len(room) == 11
    monkeypatch.setattr(strangers, "BUSY_PATIENCE", 60.0)
    assert not room.admit(tasks[0], "10.0.1.1")
    for task in tasks:
        room.leave(task)
        room.leave(task)
    assert len(room) == 0
    assert [room.admit(task, "10.0.0.1") for task in tasks].count(True) == strangers.LEAST_EACH


def test_addresses_of_one_host_are_one() -> None:
    """A host of IPv6 takes as many as it likes of 2^64: of places, and of guesses. The twin: addresses as they come."""
    for one, another, same in [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
    ]:
        assert (strangers.origin(one) == strangers.origin(another)) == same
    room, tasks = Strangers(200), [object() for _ in range(100)]
    assert [room.admit(task, f"2001:db8::{i:x}") for i, task in enumerate(tasks)].count(True) == 25  # type: ignore[arg-type]
    for task in tasks:
        room.leave(task)  # type: ignore[arg-type]
    assert len(room) == 0


# ---- who is let go ---------------------------------------------------------------------------------------------------


def test_who_asks_nothing_is_let_go_and_who_waits_for_an_answer_is_not(short: Served) -> None:
    with (
        psycopg.connect(short.dsn(), autocommit=True) as idle,
        psycopg.connect(short.dsn("bob"), autocommit=True) as busy,
        pytest.raises(psycopg.Error),
    ):
        began = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):  # works for longer than it may be idle
            threading.Timer(4.0, busy.cancel).start()
            busy.execute("SELECT count(*) FROM range(1000000000) AS a, range(100000) AS b WHERE a.range * b.range = 7")
        assert time.monotonic() - began > 2.1
        assert busy.execute("SELECT 1").fetchone() == (1,)
        idle.execute("SELECT 1")


def test_removed_users_are_let_go(short: Served) -> None:
    with psycopg.connect(short.dsn("eve"), autocommit=True) as eve:
        users_beside(short.ledger).remove("eve")
        until = time.monotonic() + 60
        with pytest.raises(psycopg.OperationalError):
            while time.monotonic() < until:
                eve.execute("SELECT 1")
                time.sleep(0.2)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(short.dsn("eve"))
    with pytest.raises(client.OperationalError, match="password authentication failed"):
        duckdp.connect(f"postgres://ana:wrong@127.0.0.1:{short.port}/clinic")


def test_users_that_are_added_at_once_are_all_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Users._write

    def slowly(self: Users) -> None:
        time.sleep(0.02)  # whoever reads meanwhile reads what was
        write(self)

    monkeypatch.setattr(Users, "_write", slowly)
    names = [f"user{i}" for i in range(8)]
    threads = [threading.Thread(target=Users(tmp_path / "users").add, args=(name, PASSWORD)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Users(tmp_path / "users").names() == names
    threads = [threading.Thread(target=Users(tmp_path / "users").remove, args=(name,)) for name in names[:4]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Users(tmp_path / "users").names() == names[4:]


# ---- calls -----------------------------------------------------------------------------------------------------------


class Ear:
    """Where a worker writes."""

    def __init__(self) -> None:
        self.said: list[list[Any]] = []
        self.transport = SimpleNamespace(get_write_buffer_size=lambda: 0)

    def write(self, data: bytes) -> None:
        """A whole frame."""
        whole, text = read_head(data[:HEAD], 1 << 20)
        self.said.append(read_body(data[HEAD : HEAD + whole], text)[0])


def make_worker(grid: float = 0.0) -> tuple[workers.Worker, Ear]:
    """A worker without a process."""
    desk: Any = SimpleNamespace(analyst="ana", interrupt=lambda who: None)
    worker, ear = workers.Worker(desk, lambda _: None, grid=grid), Ear()
    worker._writer = ear  # type: ignore[assignment]
    return worker, ear


async def until(true: Any) -> None:
    """Let others work until it is so."""
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.005)


def test_a_call_that_waits_for_its_turn_is_cancelled_before_it_begins() -> None:
    began: list[int] = []
    go = threading.Event()

    def work(who: int, method: str, arguments: list[Any]) -> tuple[Any, list[str], bytes]:
        began.append(who)
        go.wait(60)
        return "", [], b""

    async def ask() -> Ear:
        worker, ear = make_worker()
        worker._work = work  # type: ignore[method-assign]
        for number in range(1, workers.AT_ONCE + 3):
            worker._asked(number, number, "rows", ["token"])
        await until(lambda: len(began) == workers.AT_ONCE)
        worker._asked(0, workers.AT_ONCE + 1, "interrupt", [])
        await until(lambda: ear.said)
        go.set()
        await until(lambda: len(ear.said) == workers.AT_ONCE + 2)
        worker._pool.shutdown()
        return ear

    ear = asyncio.run(ask())
    assert workers.AT_ONCE + 1 not in began  # on the code before it was charged and read for nobody
    assert workers.AT_ONCE + 2 in began
    assert ear.said[0][0] == workers.AT_ONCE + 1
    assert str(ear.said[0][1]).startswith("E102")


def test_steps_of_the_grid() -> None:
    assert due(0.2, 0) == 0.2
    for took in (0.0, 0.01, 0.05, 0.051, 0.3, 2.0, 59.0):
        assert took <= due(took, 0.05) <= max(0.05, took * 1.25)
    assert len({due(i / 1000, 0.05) for i in range(60_000)}) <= 33


def test_what_may_need_a_private_read_leaves_on_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def noted(took: float, grid: float) -> float:
        asked.append(grid)
        return due(took, grid)

    monkeypatch.setattr(workers, "due", noted)
    answers = {"good": [[None], ["1"]], "bad": [["E101: failed."]]}

    async def ask(method: str, token: str) -> float:
        before, since = len(ear.said), time.monotonic()
        worker._asked(1, 1, method, [token] if method != "ask" else [[token]])
        await until(lambda: len(ear.said) > before)
        return time.monotonic() - since

    async def all_of_them() -> None:
        nonlocal worker, ear
        worker, ear = make_worker(grid=0.2)
        worker._work = lambda who, method, arguments: (answers.get(str(arguments[0]), [""]), [], b"")  # type: ignore
        assert await ask("rows", "good") >= 0.2
        assert len(asked) == 1
        await ask("rows", "good")  # its answer has left before
        await ask("bind", "anything")
        assert len(asked) == 1
        assert await ask("rows", "bad") >= 0.2
        assert await ask("rows", "bad") >= 0.2  # what failed may be read anew
        assert await ask("ask", "another") >= 0.2
        assert len(asked) == 4
        at_once = {"read": AtOnce(None, True, [], []), "refused": AtOnce("Q101: no.", False, [], [])}
        worker._work = lambda who, method, arguments: (at_once.get(str(arguments[0]), workers.NOT_AT_ONCE), [], b"")  # type: ignore
        assert await ask("query", "read") >= 0.2
        assert await ask("query", "read") >= 0.2  # nothing tells that it is the same question
        assert len(asked) == 6
        await ask("query", "refused")  # by public figures, before anything was read
        await ask("query", "to bind")
        assert len(asked) == 6 and ear.said[-1][1] is None
        worker._pool.shutdown()

    worker, ear = make_worker()
    asyncio.run(all_of_them())


def test_served_answers_leave_on_the_grid(served: Served) -> None:
    with psycopg.connect(served.dsn(), autocommit=True) as client:
        client.execute("SET dp.epsilon = 1")
        for number in range(3):
            began = time.monotonic()
            client.execute(f"SELECT count(*) FROM visits WHERE age > {30 + number}")
            assert time.monotonic() - began >= 0.05

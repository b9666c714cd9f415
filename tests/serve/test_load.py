"""Many clients, many connections, many deaths: slow suites that print what they measured (``pytest -m slow -s``)."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg
import pytest

import duckdp
from duckdp.errors import DuckDPError
from tests.serve.conftest import Served, make_clinic, start
from tests.serve.test_faults import _processes

KILLS = int(os.environ.get("DUCKDP_KILLS", "500"))
LOAD_SECONDS = float(os.environ.get("DUCKDP_LOAD_SECONDS", "20"))
MOST_OF_AN_IDLE_ONE = 2**20  # bytes that an idle connection may take, of server and process together


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Served]:
    """A server whose answers leave when they are there."""
    found = start(*make_clinic(tmp_path), "--grid", "0")
    yield found
    if found.process.poll() is None:
        found.stop()


def memory(served: Served) -> int:
    """Bytes in memory of a server and its processes, shared pages counted by their share."""
    whole = 0
    for process in (served.process.pid, *_processes(served)):
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
        whole += 1024 * int(text.split("\nPss:")[1].split()[0])
    return whole


def cpu(served: Served) -> float:
    """Seconds of processor time of a server and its processes."""
    found = 0.0
    for process in (served.process.pid, *_processes(served)):
        parts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        found += (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
    return found


@pytest.mark.slow
def test_eight_clients_ask_small_private_questions(plain: Served) -> None:
    times: list[float] = []
    until = time.monotonic() + LOAD_SECONDS

    def ask(number: int) -> None:
        with psycopg.connect(plain.dsn("ana" if number % 2 else "bob"), autocommit=True) as client:
            client.execute("SET dp.epsilon = 0.00001")
            asked = 0
            while time.monotonic() < until:
                began = time.monotonic()
                client.execute(f"SELECT count(*) FROM visits WHERE age > {number} AND cost > {asked}")
                times.append(time.monotonic() - began)
                asked += 1

    with psycopg.connect(plain.dsn(), autocommit=True), psycopg.connect(plain.dsn("bob"), autocommit=True):
        before, own = cpu(plain), time.process_time()
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        spent, clients = cpu(plain) - before, time.process_time() - own
    times.sort()
    half, most = (1000 * times[len(times) * share // 100] for share in (50, 99))
    print(
        f"\n{len(times)} answers in {LOAD_SECONDS:.0f} s: {len(times) / LOAD_SECONDS:.0f} a second; p50 {half:.0f}, "
        f"p99 {most:.0f} ms; processor ms an answer: server and processes {1000 * spent / len(times):.1f}, clients "
        f"{1000 * clients / len(times):.1f}"
    )
    plain.stop()
    with duckdp.open(plain.source, ledger=plain.ledger) as owner:
        assert len(owner.ledger.charges()) == len(times)
        owner.ledger.verify()


@pytest.mark.slow
def test_idle_connections_take_little_memory(plain: Served) -> None:
    with ExitStack() as opened:
        first = opened.enter_context(psycopg.connect(plain.dsn(), autocommit=True))
        first.execute("SELECT 1")
        before = memory(plain)
        for _ in range(64):
            opened.enter_context(psycopg.connect(plain.dsn(), autocommit=True)).execute("SELECT 1")
        each = (memory(plain) - before) / 64
        print(
            f"\n64 idle connections of an analyst: {each / 1024:.0f} KB each, beside {before / 2**20:.0f} MB with one"
        )
        assert each < MOST_OF_AN_IDLE_ONE


# ---- deaths ----------------------------------------------------------------------------------------------------------


class Asking:
    """Clients that ask until they are told to stop, over all deaths; what was answered is kept."""

    def __init__(self, served: Served) -> None:
        self.served, self.answered, self.over = served, [], threading.Event()  # type: ignore[var-annotated]
        self.wrong: list[str] = []
        self.clients: dict[str, psycopg.Connection[tuple[object, ...]]] = {}
        self.threads = [threading.Thread(target=self._ask, args=(user, n)) for user in ("ana", "bob") for n in (1, 2)]
        for thread in self.threads:
            thread.start()

    def _ask(self, user: str, number: int) -> None:
        draw, asked = random.Random(f"{user}{number}"), 0
        while not self.over.is_set():
            try:
                with psycopg.connect(self.served.dsn(user), autocommit=True) as client:
                    self.clients[f"{user}{number}"] = client
                    client.execute("SET dp.epsilon = 0.00001")
                    while not self.over.is_set():
                        asked += 1
                        text = f"SELECT count(*) FROM visits WHERE age > {number} AND cost > {draw.random()} + {asked}"
                        client.execute(text)
                        self.answered.append(text)
            except (psycopg.OperationalError, psycopg.errors.Error) as error:
                if "Traceback" in str(error) or "X101" in str(error):
                    self.wrong.append(str(error))
                time.sleep(0.05)


def check(served: Served, answered: list[str]) -> int:
    """Every answer has its charge, and the ledger is whole; the number of charges."""
    with duckdp.open(served.source, ledger=served.ledger) as owner:
        charged = {row.statement for row in owner.ledger.charges(limit=10**6)}
        owner.ledger.verify()
    assert not [text for text in answered if text not in charged]
    return len(charged)


def killed(tmp_path: Path, kills: int, seed: int) -> str:
    """Kill servers, processes and clients at random moments; what came of it."""
    draw = random.Random(seed)
    files = make_clinic(tmp_path)
    served = start(*files, "--grid", "0")
    asking, count = Asking(served), {"server": 0, "process": 0, "client": 0}
    try:
        for number in range(kills):
            before, until = len(asking.answered), time.monotonic() + 300
            while len(asking.answered) == before and time.monotonic() < until:
                time.sleep(0.01)  # whoever came after the last death is at work again
            time.sleep(draw.random() * 0.3)
            victim = "server" if number % 10 == 9 else draw.choice(["process", "client"])
            if victim == "server":
                served.stop(signal.SIGKILL)
                time.sleep(draw.random() * 0.2)
                check(served, list(asking.answered))
                asking.served = served = start(*files, "--grid", "0")
            elif victim == "process":
                with suppress(IndexError, ProcessLookupError):
                    os.kill(draw.choice(_processes(served)), signal.SIGKILL)
            else:
                with suppress(IndexError, OSError, psycopg.Error):
                    client = draw.choice(list(asking.clients.values()))
                    client.pgconn.finish()  # whatever it waits for
            count[victim] += 1
            if number % 50 == 49:
                print(f"\n{number + 1} deaths: {count}, {len(asking.answered)} answers", end="", flush=True)
    finally:
        asking.over.set()
        for thread in asking.threads:
            thread.join(120)
        with suppress(DuckDPError):
            served.stop()
    assert not asking.wrong
    assert len(asking.answered) >= kills - 1
    charges = check(served, asking.answered)
    return f"{count}: {len(asking.answered)} answers, {charges} charges"


@pytest.mark.slow
def test_whatever_is_killed_every_answer_had_its_charge(tmp_path: Path) -> None:
    print("\n" + killed(tmp_path, KILLS, seed=20261123))

"""A server when things end at the wrong time: nothing is answered without a charge, and nobody waits for ever."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

import duckdp
from tests.serve.conftest import Served, make_clinic, start


def _processes(served: Served) -> list[int]:
    """The analysts' processes."""
    command = ["ps", "-ww", "-o", "pid,args", "--ppid", str(served.process.pid)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)  # 1: there are none just now
    return [int(line.split()[0]) for line in shown.stdout.splitlines() if "duckdp.serve.process" in line]


def test_an_analysts_process_that_ends_takes_nobody_with_it(served: Served) -> None:
    with (
        psycopg.connect(served.dsn(), autocommit=True) as ana,
        psycopg.connect(served.dsn("bob"), autocommit=True) as bob,
    ):
        bob.execute("CREATE TABLE mine AS SELECT 1 AS i")
        before = set(_processes(served))
        ana.execute("SELECT 1")
        with psycopg.connect(served.dsn("bob"), autocommit=True):
            pass
        one = [p for p in before if "ana" in Path(f"/proc/{p}/cmdline").read_text().split("\0")]
        os.kill(one[0], signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            for _ in range(100):
                ana.execute("SELECT 1")
                time.sleep(0.05)
        assert bob.execute("FROM mine").fetchone() == (1,)
    with psycopg.connect(served.dsn(), autocommit=True) as again:
        assert again.execute("SELECT 1").fetchone() == (1,)


def test_what_takes_too_much_memory_fails_for_itself_alone(served: Served) -> None:
    with psycopg.connect(served.dsn("bob"), autocommit=True) as bob:
        with psycopg.connect(served.dsn(), autocommit=True) as ana, pytest.raises(psycopg.Error):
            ana.execute("SELECT sum(length(repeat('x' || range, 100000000))) FROM range(20)")
        found, until = None, time.monotonic() + 60
        while found is None and time.monotonic() < until:
            # its process is just ending; then there is one that has memory
            with suppress(psycopg.OperationalError), psycopg.connect(served.dsn(), autocommit=True) as again:
                found = again.execute("SELECT sum(length(repeat('x', 100000000)))").fetchone()
        assert found == (10**8,)
        assert bob.execute("SELECT 1").fetchone() == (1,)


def test_clients_that_go_in_the_middle_leave_nothing_behind(served: Served) -> None:
    for said in (b"", b"\0\0", b"\0\0\0\x08\x04\xd2\x16\x2f", b"\xff" * 50, b"\0\0\0\x10\0\x03\0\0user\0"):
        with socket.create_connection(("127.0.0.1", served.port)) as sock:
            sock.sendall(said)
    with psycopg.connect(served.dsn(), autocommit=True) as client:
        assert client.execute("SELECT 1").fetchone() == (1,)


def _ask_until_it_ends(served: Served, user: str, answered: list[str]) -> None:
    try:
        with psycopg.connect(served.dsn(user), autocommit=True) as client:
            client.execute("SET dp.epsilon = 0.01")
            for i in range(10_000):
                client.execute(f"SELECT count(*) FROM visits WHERE age > {i % 100} AND cost > {i}")
                answered.append(f"{user} {i}")
    except psycopg.Error:
        return


@pytest.mark.parametrize("moment", [0.3, 1.1])
def test_a_server_that_is_killed_has_charged_for_all_that_it_answered(tmp_path: Path, moment: float) -> None:
    served = start(*make_clinic(tmp_path))
    answered: list[str] = []
    threads = [threading.Thread(target=_ask_until_it_ends, args=(served, user, answered)) for user in ("ana", "bob")]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 60
    while len(answered) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(moment)
    served.stop(signal.SIGKILL)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len(answered) >= 3
    with duckdp.open(served.source, ledger=served.ledger) as owner:
        charged = [row for row in owner.ledger.charges() if row.statement.startswith("SELECT count")]
        assert len(charged) >= len(answered)
        owner.ledger.verify()


def test_a_server_ends_when_it_is_told_and_its_processes_with_it(tmp_path: Path) -> None:
    served = start(*make_clinic(tmp_path))
    with psycopg.connect(served.dsn(), autocommit=True) as client:
        client.execute("SELECT 1")
        own = _processes(served)
        assert own
        assert served.stop(signal.SIGINT) == 0
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")
    assert not any(Path(f"/proc/{p}/cmdline").exists() and Path(f"/proc/{p}/cmdline").read_text() for p in own)
    with duckdp.open(served.source, ledger=served.ledger):
        pass  # it let go of its files

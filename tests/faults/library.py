"""The interposed library from Python: built once, loaded into a process of its own, steered from inside of it.

The library (``interpose.c``) works on the calls of the process that it is loaded into, so a test runs its scenarios in
a subprocess, ``run("tests.faults.loops", ...)``, whose ``main`` prints its findings as JSON in the last line; there
``Faults`` steers it.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TIMEOUT = 3600


class Call(IntEnum):
    """Classes of calls, as interpose.c numbers them."""

    OPEN = 0
    CLOSE = 1
    READ = 2
    WRITE = 3
    SYNC = 4
    TRUNCATE = 5
    LINK = 6
    RENAME = 7
    UNLINK = 8
    MAP = 9
    LOCK = 10
    LOOK = 11
    MEMORY = 12
    THREAD = 13


class Way(IntEnum):
    """How a call fails: before it takes effect, after it did, or cut short (a write; what follows fails)."""

    BEFORE = 0
    AFTER = 1
    SHORT = 2


def compiler() -> list[str]:
    """A C compiler: the system's, or that of the PyPI package ziglang."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name):
            return [name]
    command = [sys.executable, "-m", "ziglang", "cc"]
    if subprocess.run([*command, "--version"], capture_output=True, check=False).returncode == 0:
        return command
    raise RuntimeError("The fault suites need a C compiler: install gcc or clang, or `pip install ziglang`.")


def build(folder: Path) -> Path:
    """Compile the library into a folder."""
    library = folder / "interpose.so"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*compiler(), *flags, "-o", library, HERE / "interpose.c", "-ldl", "-lpthread"], check=True)
    return library


def run(library: Path, module: str, *arguments: object) -> Any:
    """Run a module with the library loaded, and return what it printed last, from JSON."""
    environment = os.environ | {"LD_PRELOAD": str(library), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-m", module, *map(str, arguments)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, f"{module} {arguments}: {done.stderr[-4000:]}"
    return json.loads(done.stdout.splitlines()[-1])


class Faults:
    """Steers the library that is loaded into this process.

    Args:
        folder: whose files are watched; of the process' files no other can fail or is recorded.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.fired = 0  # how often a call failed under the last ``failing``
        self._library = ctypes.CDLL(None)
        for name in ("arm", "disarm", "counted", "total", "open_files"):
            getattr(self._library, f"faults_{name}").restype = ctypes.c_long
        self._library.faults_watch(os.path.realpath(folder).encode())

    @contextmanager
    def failing(
        self, calls: set[Call], at: int, error: int = errno.EIO, way: Way = Way.BEFORE, times: int = 1
    ) -> Iterator[None]:
        """While it lasts, the ``at``-th of these calls fails, and ``times - 1`` after it (-1: all)."""
        bits = sum(1 << call for call in calls)
        self._library.faults_arm(ctypes.c_uint(bits), ctypes.c_long(at), error, int(way), ctypes.c_long(times))
        self.fired = 0
        try:
            yield
        finally:
            self.fired = self._library.faults_disarm()

    @property
    def counted(self) -> int:
        """Calls of the classes last given to ``failing`` since then."""
        return int(self._library.faults_counted())

    def total(self, call: Call) -> int:
        """Calls of a class since the process began."""
        return int(self._library.faults_total(int(call)))

    @property
    def open_files(self) -> int:
        """Watched files that are open."""
        return int(self._library.faults_open_files())

    def delay_syncs(self, seconds: float) -> None:
        """Let each sync take so much longer."""
        self._library.faults_delay_syncs(ctypes.c_long(int(seconds * 1e6)))

    @contextmanager
    def recording(self, path: str | os.PathLike[str]) -> Iterator[None]:
        """Record what happens to the watched files."""
        assert self._library.faults_record(os.fspath(path).encode()) == 0
        try:
            yield
        finally:
            self._library.faults_record(None)

    def mark(self, *words: object) -> None:
        """Put a mark into the trace: all that is true by now was said before what comes after."""
        self._library.faults_mark(json.dumps(words).encode())

    @contextmanager
    def without_memory(self, room: int) -> Iterator[None]:
        """While it lasts, SQLite may take only so many bytes more; ``PRAGMA hard_heap_limit``, which can be undone."""
        sqlite = sqlite_library()
        sqlite.sqlite3_memory_used.restype = ctypes.c_longlong
        sqlite.sqlite3_hard_heap_limit64(ctypes.c_longlong(sqlite.sqlite3_memory_used() + room))
        self.fired = 1
        try:
            yield
        finally:
            sqlite.sqlite3_hard_heap_limit64(ctypes.c_longlong(0))

    def watch_memory(self) -> None:
        """Let SQLite's allocations be calls of the class MEMORY; before any connection is made."""
        sqlite = sqlite_library()
        sqlite.sqlite3_shutdown()
        failed = self._library.faults_watch_memory(sqlite.sqlite3_config)
        sqlite.sqlite3_initialize()
        assert not failed


@lru_cache(maxsize=1)
def sqlite_library() -> ctypes.CDLL:
    """The SQLite that Python's module uses, linked into it or not."""
    return ctypes.CDLL(_sqlite3.__file__)


def wait_until(true: Any, seconds: float = 60.0) -> None:
    """Wait for something that must come, however slow the machine."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)

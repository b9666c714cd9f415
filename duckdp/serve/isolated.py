"""Analysts' confined processes for connections inside the owner's process: ``curator.connect(name, isolated=True)``.

The same process as the server starts for an analyst (``workers``), and the same protocol over a socket pair; nothing
listens. What the analyst's SQL does to its process, none of it reaches this one.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from duckdp.client.connection import Connection, driver
from duckdp.desk.desk import Desk
from duckdp.errors import ExecutionError, ParameterError
from duckdp.process.forks import Home, closed
from duckdp.serve import messages as say
from duckdp.serve.lockdown import UnconfinedError, require_possible
from duckdp.serve.messages import Body, read_parameters
from duckdp.serve.workers import Worker

T = TypeVar("T")
LOOK = 2.0  # seconds between looks at the declarations
END_SECONDS = 10.0  # for the processes' end


class Isolated:
    """The confined processes of one data set's analysts, one each.

    Args:
        desk_of: the desk of an analyst, by name; refuses who has no grant.
    """

    def __init__(self, desk_of: Callable[[str], Desk]) -> None:
        self._desk_of = desk_of
        self._home, self._starting = Home(), threading.Lock()
        self._workers: dict[str, Worker] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False

    def connect(self, analyst: str) -> Connection:
        """A connection to the analyst's process, which is started where there is none.

        Raises:
            BudgetError: B102, B103. LedgerError: B211, B212.
            ParameterError: P107, the system cannot confine a process, or the driver is missing.
            ExecutionError: E101, the process did not come up.
        """
        self._home.require("the curator")
        module = driver()
        try:
            require_possible()
        except UnconfinedError as error:
            raise ParameterError("P107", "isolated", True, f"cannot be: {error.strerror}.") from None
        worker = self._worker_of(analyst)
        try:
            return self._joined(worker, analyst, module)
        except ExecutionError:
            if not self._ends(worker):
                raise
        return self._joined(self._worker_of(analyst), analyst, module)  # the former one was ending just then

    def _worker_of(self, analyst: str) -> Worker:
        """The analyst's process, started where there is none."""
        with self._starting:
            self._require_open()
            worker = self._workers.get(analyst)
            if worker is None or not worker.alive:
                worker = Worker(self._desk_of(analyst), self._ended)
                try:
                    self._done(worker.start())
                except OSError:
                    raise ExecutionError("E101", None) from None
                self._workers[analyst] = worker
            return worker

    @staticmethod
    def _ends(worker: Worker) -> bool:
        """Whether a process that took no connection is about to be gone."""
        until = time.monotonic() + 1
        while worker.alive and time.monotonic() < until:
            time.sleep(0.01)
        return not worker.alive

    def _joined(self, worker: Worker, analyst: str, module: Any) -> Connection:
        ours, theirs = socket.socketpair()
        coming = asyncio.run_coroutine_threadsafe(_introduced(worker, analyst, theirs), self._running())
        try:
            made = module.Connection(analyst, host=None, sock=ours, ssl_context=False)
        except (module.Error, OSError):
            ours.close()
            raise ExecutionError("E101", None) from None
        number, running = coming.result(END_SECONDS), self._running()
        return Connection(
            made,
            name=f"{analyst}, isolated",
            cancel=lambda: _told(running, worker.cancel, number),
            ended=lambda: _told(running, worker.close_client, number),
        )

    def refuse(self) -> None:
        """Let nobody connect any more."""
        self._closing = True

    def close(self) -> None:
        """End the processes; again is harmless, and in a forked child it is nothing."""
        self._closing = True
        loop, self._loop = self._loop, None
        if loop is None or self._home.left:
            return

        async def end() -> None:
            for worker in list(self._workers.values()):
                await worker.close()
            looking = asyncio.all_tasks() - {asyncio.current_task()}
            for task in looking:
                task.cancel()
            await asyncio.gather(*looking, return_exceptions=True)

        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(end(), loop).result(END_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join(END_SECONDS)
        if not self._thread.is_alive():
            loop.close()

    # ---- the loop -------------------------------------------------------------------------------------------------

    def _running(self) -> asyncio.AbstractEventLoop:
        """The loop that hears the processes, in a thread of its own."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="duckdp-isolated", daemon=True)
            self._thread.start()
            asyncio.run_coroutine_threadsafe(self._look(), self._loop)
        return self._loop

    def _done(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._running()).result()

    async def _look(self) -> None:
        """Tell the processes of declarations that have changed."""
        while True:
            await asyncio.sleep(LOOK)
            for worker in list(self._workers.values()):
                with suppress(Exception):  # of one worker: the others are told all the same
                    await worker.tell_tables()

    def _ended(self, worker: Worker) -> None:
        if self._workers.get(worker.analyst) is worker:
            del self._workers[worker.analyst]

    def _require_open(self) -> None:
        if self._closing:
            raise closed("the curator")


async def _introduced(worker: Worker, analyst: str, sock: socket.socket) -> int:
    """Hear who connects, which is known here, and hand the socket to the process; the client's number."""
    loop = asyncio.get_running_loop()
    with sock:
        sock.setblocking(False)
        length = int.from_bytes(await _read(loop, sock, 4), "big")
        body = Body(await _read(loop, sock, length - 4))
        body.int32()
        parameters = read_parameters(body)
        await loop.sock_sendall(sock, say.authentication(0))
        sock.setblocking(True)
        number, _ = worker.take(sock, analyst, parameters)
        return number


async def _read(loop: asyncio.AbstractEventLoop, sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = await loop.sock_recv(sock, size - len(data))
        if not part:
            raise OSError("closed")
        data += part
    return data


def _told(loop: asyncio.AbstractEventLoop, what: Callable[[int], None], number: int) -> None:
    with suppress(RuntimeError):  # the loop has ended, and with it all that runs
        loop.call_soon_threadsafe(what, number)

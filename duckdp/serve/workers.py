"""The analysts' processes, from the server's side: started, asked, cancelled, replaced when they end.

What a process asks is a call of a dp function, which the analyst's binder answers here, in a thread: the one place
where the two sides meet. A process that says what cannot be is killed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import count
from typing import Any

from duckdp.core.watch import asking_for
from duckdp.desk.desk import Desk
from duckdp.front.binder import AtOnce, Binder
from duckdp.result import Result
from duckdp.serve.channel import HEAD, MOST_CALL, ChannelError, frame, read_body, read_head
from duckdp.serve.timing import GRID, due

_LOG = logging.getLogger("duckdp.serve")
READY_SECONDS = 60.0  # until a process is ready
AT_ONCE = 8  # calls of one analyst that are worked on at the same time
MOST_WAITING = 256  # calls of one analyst
MOST_UNREAD = 2**28  # bytes of answers that a process has not read
MOST_SHOWN = 500  # synthetic tables of one analyst that are served as tables
MOST_LEFT = 1_000  # answers that are known to have left
Answered = tuple[Any, list[str], bytes]
NOT_AT_ONCE = "bind it"  # a question of which DuckDB has a part; nothing was read for it


class Worker:
    """One analyst's process, as the server knows it.

    Args:
        desk: the analyst's.
        ended: called when the process has ended.
        grid: seconds; answers that may need a private read leave on it (``timing``).
    """

    def __init__(self, desk: Desk, ended: Callable[[Worker], None], *, grid: float = GRID) -> None:
        self.analyst, self._desk, self._ended = desk.analyst, desk, ended
        self.clients: dict[int, tuple[int, int]] = {}
        self._numbers = count(1)
        self._said = threading.local()
        self._binder = Binder(desk, answered=self._note)
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="duckdp-calls")
        self._told: dict[str, str] = {}
        self._told_synthetic: list[list[Any]] = []
        self._objects: list[list[Any]] = []
        self._state: object = None
        self._tables = asyncio.Event()
        self._ready = asyncio.Event()
        self._calls: dict[int, tuple[int, Future[Answered]]] = {}  # whose, and its work
        self._waiting, self._order = 0, count(1)
        self._grid = grid
        self._left: OrderedDict[str, None] = OrderedDict()  # digests of tokens whose answers have left
        self._used = time.monotonic()
        self.alive = True

    async def start(self) -> None:
        """Start the process; returns when it is confined and knows the tables.

        Raises:
            OSError: it did not come up.
        """
        with ExitStack() as opened:
            control, theirs = map(opened.enter_context, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            calls, asked = map(opened.enter_context, socket.socketpair())
            fds = (theirs.fileno(), asked.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "duckdp.serve.process", *map(str, fds), self.analyst],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if os.environ.get("DUCKDP_SERVE_DEBUG") else subprocess.DEVNULL,
                start_new_session=True,
                env={k: v for k, v in os.environ.items() if k in ("PATH", "PYTHONPATH", "VIRTUAL_ENV", "LANG")},
            )
            control, calls = (socket.socket(fileno=one.detach()) for one in (control, calls))
        self._control = control
        control.setblocking(False)
        self._reader, self._writer = await asyncio.open_connection(sock=calls)
        self._tasks = [asyncio.create_task(self._hear()), asyncio.create_task(self._listen())]
        try:
            await asyncio.wait_for(self._ready.wait(), READY_SECONDS)
            if not self.alive:
                raise OSError("the analyst's process ended at once")
            await self.tell_tables()
            await asyncio.wait_for(self._tables.wait(), READY_SECONDS)
        except TimeoutError:
            self.kill()
            raise OSError("the analyst's process did not come up") from None

    async def tell_tables(self) -> None:
        """Tell the process which tables are protected now, and which are synthetic, where that has changed."""
        tables = {name: table.declaration for name, table in self._desk.known().items()}
        synthetic = self._synthetic(tables)
        if (tables, synthetic) == (self._told, self._told_synthetic) and self._tables.is_set():
            return
        changed = [[name, text] for name, text in tables.items() if self._told.get(name) != text]
        self._told, self._told_synthetic = tables, synthetic
        self._writer.write(frame([0, [changed, list(tables), synthetic], []]))
        await self._writer.drain()

    def _synthetic(self, protected: Collection[str]) -> list[list[Any]]:
        """Stored synthetic tables: names as dp_synthesize takes them, charges, what they are about."""
        state = self._desk.ledger_state()
        if state is not self._state:
            found = [o for o in self._desk.objects(MOST_SHOWN, "") if o.ready and o.kind == "synthetic"]
            named = [(o.name if o.owner == self.analyst else f"{o.owner}.{o.name}", o) for o in found]
            self._objects = [[n, o.charge_id, f"made by {' '.join(o.statement.split())}"] for n, o in named]
            self._state = state
        return [one for one in self._objects if one[0].lower() not in protected]

    def open(self, user: str, parameters: dict[str, str]) -> tuple[int, socket.socket, tuple[int, int]]:
        """A new client's number, the server's end of its conversation, and the key that cancels it."""
        ours, theirs = socket.socketpair()
        with theirs:
            number, key = self.take(theirs, user, parameters)
        return number, ours, key

    def take(self, sock: socket.socket, user: str, parameters: dict[str, str]) -> tuple[int, tuple[int, int]]:
        """Give the process a socket on which a client speaks; the client's number, and the key that cancels it."""
        number, key = next(self._numbers), (self._process.pid & 0x7FFFFFFF, secrets.randbits(32))
        said = json.dumps(["client", number, *key, user, parameters]).encode()
        socket.send_fds(self._control, [said], [sock.fileno()])
        self.clients[number] = key
        return number, key

    def close_client(self, number: int) -> None:
        """A client has gone: its statement ends."""
        self.cancel(number)
        self.clients.pop(number, None)
        self._used = time.monotonic()

    def unused_seconds(self) -> float:
        """How long no client has been connected."""
        return 0.0 if self.clients else time.monotonic() - self._used

    def cancel(self, number: int) -> None:
        """End a client's statement, and what is read for it."""
        self._interrupt(number)
        with suppress(OSError):
            self._control.send(json.dumps(["cancel", number]).encode())

    def kill(self) -> None:
        """End the process at once; whatever it holds is gone, charges stay."""
        with suppress(OSError):
            self._process.kill()

    async def close(self) -> None:
        """End it, and what is left of it."""
        self.kill()
        await asyncio.get_running_loop().run_in_executor(None, self._process.wait)
        self._over()

    # ---- what the process says --------------------------------------------------------------------------------------

    async def _hear(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError, ValueError):
            while data := await loop.sock_recv(self._control, 4096):
                said = json.loads(data)
                (self._ready if said == ["ready"] else self._tables).set()
        self._over()

    async def _listen(self) -> None:
        try:
            while True:
                whole, text = read_head(await self._reader.readexactly(HEAD), MOST_CALL)
                said, _ = read_body(await self._reader.readexactly(whole), text)
                self._asked(*said)
        except (asyncio.IncompleteReadError, OSError):
            pass
        except (ChannelError, TypeError, ValueError, RecursionError):
            _LOG.warning("the process of an analyst said what cannot be, and was killed")
        self.kill()
        self._over()

    def _asked(self, number: int, who: int, method: str, arguments: list[Any]) -> None:
        if type(number) is not int or type(who) is not int or type(arguments) is not list:
            raise ChannelError("not a call")
        if method == "interrupt":
            self._interrupt(who)
            return
        self._waiting += 1
        if method not in ("bind", "ask", "rows", "fetch", "query") or self._waiting > MOST_WAITING:
            raise ChannelError("not a call, or too many")
        key, came = next(self._order), time.monotonic()
        tokens = [] if method in ("bind", "query") else _tokens(method, arguments)
        timed = method != "bind" and not (tokens and all(token in self._left for token in tokens))
        loop = asyncio.get_running_loop()

        def answered(data: bytes, there: bool, read: bool) -> None:
            self._calls.pop(key, None)
            took = time.monotonic() - came
            wait = due(took, self._grid) - took if timed and read else 0.0
            given = tokens if there else []
            if wait > 0:
                loop.call_later(wait, self._send, data, given)
            else:
                self._send(data, given)

        def ended(done: Future[Answered]) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(answered, *self._framed(number, done))

        work = self._pool.submit(self._work, who, method, arguments)
        self._calls[key] = who, work
        work.add_done_callback(ended)

    def _interrupt(self, who: int) -> None:
        """End what is worked on for a conversation; what waits for its turn never begins, and is not charged."""
        for whose, work in list(self._calls.values()):
            if whose == who:
                work.cancel()
        self._desk.interrupt((self.analyst, id(self), who))

    def _work(self, who: int, method: str, arguments: list[Any]) -> Answered:
        self._said.lines = []
        with asking_for((self.analyst, id(self), who)):
            match method, arguments:
                case "bind", [str() | None as name, given, lists]:
                    return self._binder.bind(name, _texts(given), _listed(lists)), [], b""
                case "ask", [list(tokens)]:
                    import pyarrow as pa

                    return self._binder.ask(pa.array(_texts(tokens), pa.string())).to_pylist(), self._said.lines, b""
                case "query", [str(statement), dict(terms)]:
                    return self._binder.query(statement, _named(terms)) or NOT_AT_ONCE, self._said.lines, b""
                case "rows", [str(token)]:
                    return self._binder.rows(token), self._said.lines, b""
                case "fetch", [str(function), list(tokens), list(indexes)]:
                    return None, [], _columns(self._binder, function, _texts(tokens), indexes)
        raise ChannelError("not a call")

    def _note(self, found: Result) -> None:
        if hasattr(self._said, "lines"):
            self._said.lines += found.footer()

    def _framed(self, number: int, done: Future[Answered]) -> tuple[bytes, bool, bool]:
        """What goes back for a call, whether it has its answer, and whether rows may have been read for it.

        Nothing goes back where the call cannot be.
        """
        if done.cancelled():
            return frame([number, "E102: interrupted; nothing was charged.", []]), False, True
        if isinstance(done.exception(), ChannelError | TypeError):
            return b"", False, True
        if done.exception() is not None:
            return frame([number, "X101: the server failed on this call.", []]), False, True
        found, notes, data = done.result()
        there = isinstance(found, list) and (found[:1] == [[None]] or not any(found))  # rows, ask
        read = found.read if isinstance(found, AtOnce) else found is not NOT_AT_ONCE
        return frame([number, None if found is NOT_AT_ONCE else found, notes], data), there, read

    def _send(self, data: bytes, tokens: list[str]) -> None:
        self._waiting -= 1
        if not self.alive:
            return
        if not data or self._writer.transport.get_write_buffer_size() > MOST_UNREAD:
            self.kill()
            return
        for token in tokens:
            self._left[token] = None
            self._left.move_to_end(token)
        while len(self._left) > MOST_LEFT:
            self._left.popitem(last=False)
        self._writer.write(data)

    def _over(self) -> None:
        if not self.alive:
            return
        self.alive = False
        for number in self.clients:  # nobody waits for what is read for them any more
            self._desk.interrupt((self.analyst, id(self), number))
        self._ready.set()
        self._tables.set()
        self._binder.close()
        for task in self._tasks:
            task.cancel()
        self._writer.close()
        self._control.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        threading.Thread(target=self._process.wait, daemon=True).start()  # no zombie stays
        self._ended(self)


def _texts(given: Any) -> list[str | None]:
    if given is None:
        return []
    if type(given) is not list or any(not (v is None or type(v) is str) for v in given):
        raise ChannelError("not texts")
    return given


def _tokens(method: str, arguments: list[Any]) -> list[str]:
    """Digests of the tokens that a call names: what has left once is known to be there.

    A token is whose answer is fetched; other texts are none, and no answer is known of them.
    """
    given = arguments[:1] if method == "rows" else arguments[1 if method == "fetch" else 0 :][:1]
    listed = given[0] if given and type(given[0]) is list else given
    return [hashlib.sha256(str(token).encode("utf-8", "surrogatepass")).hexdigest() for token in listed]


def _named(given: dict[str, Any]) -> dict[str, str]:
    if any(type(v) is not str for v in given.values()):
        raise ChannelError("not texts")
    return given


def _listed(given: Any) -> list[list[str | None] | None]:
    if given is None:
        return []
    if type(given) is not list:
        raise ChannelError("not lists")
    return [None if v is None else _texts(v) for v in given]


def _columns(binder: Binder, function: str, tokens: list[str | None], indexes: list[Any]) -> bytes:
    import pyarrow as pa

    if any(type(i) is not int for i in indexes) or len(indexes) != len(tokens):
        raise ChannelError("not indexes")
    found = binder.fetch(function, pa.array(tokens, pa.string()), pa.array(indexes, pa.int32()))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("c", found.type)])) as stream:
        stream.write_batch(pa.record_batch([found], names=["c"]))
    return bytes(sink.getvalue().to_pybytes())

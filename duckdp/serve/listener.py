"""The server: who may come in, and whose process they speak with. It reads no statement and no answer.

    socket -> TLS -> startup -> SCRAM -> the analyst's process, byte for byte

A connection from another machine must be encrypted. Wrong names and wrong passwords are answered alike, later the more
often they were wrong. Whoever is no user any more is let go, with their process, within seconds.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address

from duckdp.desk.desk import Desk
from duckdp.errors import DuckDPError
from duckdp.serve import messages as say
from duckdp.serve.messages import Body, ProtocolError
from duckdp.serve.relay import relay
from duckdp.serve.scram import MECHANISM, Exchange
from duckdp.serve.strangers import PATIENCE, Strangers, origin
from duckdp.serve.timing import GRID
from duckdp.serve.users import Users
from duckdp.serve.workers import Worker

_LOG = logging.getLogger("duckdp.serve")
DELAY, MOST_DELAY, FORGET = (
    0.25,
    8.0,
    900.0,
)  # seconds: after a wrong password, doubled each time; until it is forgotten
MOST_KNOWN = 10_000  # names and addresses whose wrong passwords are counted
CLOSING = 5.0  # seconds for what was written last
TABLES = 2.0  # seconds between looks at the declarations, the users, and who has nobody left
_ENDS = {
    "ended": ("57P01", "the analyst's process ended; charges stay, and stored answers are free."),
    "idle": ("57P05", "nothing was asked for longer than the server waits."),
}


class Listener:
    """Lets clients in to one data set, each to its analyst's process.

    Args:
        desk_of: the desk of an analyst, by name; refuses who has no grant.
        users: who may log in.
        tls: certificate and key, for those who want it, and for all who come from elsewhere.
        most: connections at the same time, of all analysts together.
        idle: seconds after which a connection on which nothing is asked ends, and a process that nobody is connected
            to; None: never.
        grid: seconds, see ``timing``; 0: answers leave when they are there.
    """

    def __init__(
        self,
        desk_of: Callable[[str], Desk],
        users: Users,
        *,
        tls: ssl.SSLContext | None = None,
        most: int = 200,
        idle: float | None = None,
        grid: float = GRID,
    ) -> None:
        self._desk_of, self._users, self._tls, self._most = desk_of, users, tls, most
        self._idle, self._grid = idle, grid
        self._workers: dict[str, Worker] = {}
        self._starting: dict[str, asyncio.Lock] = {}
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._open: set[asyncio.Task[None]] = set()
        self._strangers = Strangers(most)
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port."""
        self._server = await asyncio.start_server(self._came, host, port, limit=1 << 16)
        self._looking = asyncio.create_task(self._look())
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def stop(self) -> None:
        """Take no new connection, end those that are, and the analysts' processes."""
        if self._server is not None:
            self._server.close()
            self._looking.cancel()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        for worker in list(self._workers.values()):
            await worker.close()

    # ---- one connection ---------------------------------------------------------------------------------------------

    async def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= self._most or not self._strangers.admit(task, _address(writer)):
            writer.transport.abort()
            return
        self._open.add(task)
        try:
            await self._serve(reader, writer, task)
        except (ProtocolError, OSError, asyncio.IncompleteReadError, TimeoutError):
            pass  # whoever it was has gone, or is let go without a word
        finally:
            self._strangers.leave(task)
            with suppress(OSError, TimeoutError):
                writer.close()
                async with asyncio.timeout(CLOSING):  # who does not read what is left is not waited for
                    await writer.wait_closed()
            writer.transport.abort()
            self._open.discard(task)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        async with asyncio.timeout(PATIENCE):
            parameters = await self._startup(reader, writer)
            if parameters is None:
                return
            user = parameters.get("user", "")[:63]
            if not await self._let_in(reader, writer, user):
                return
        self._strangers.leave(task)
        if sum(len(w.clients) for w in self._workers.values() if w.analyst == user) >= self._most * 3 // 4:
            await _fatal(writer, "53300", "the analyst has too many connections.")
            return
        try:
            worker = await self._worker(user)
        except (DuckDPError, OSError) as error:
            code = "42501" if isinstance(error, DuckDPError) else "58000"
            message = str(error) if isinstance(error, DuckDPError) else "the analyst's process did not come up."
            await _fatal(writer, code, message)
            return
        writer.write(say.authentication(0))
        number, ours, _ = worker.open(user, parameters)
        try:
            how = await relay(reader, writer, ours, self._idle)
            if how in _ENDS:
                code, message = _ENDS[how]
                await _fatal(writer, code, message)
        finally:
            worker.close_client(number)

    async def _startup(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, str] | None:
        """The parameters of who wants to come in, over TLS where it is asked for; None where there is nothing to do."""
        encrypted = False
        for _ in range(3):
            length = int.from_bytes(await reader.readexactly(4), "big")
            if not 8 <= length <= say.MOST_STARTUP:
                raise ProtocolError("a first message of that length")
            body = Body(await reader.readexactly(length - 4))
            version = body.int32()
            if version == say.SSL and not encrypted:
                if self._tls is None:
                    writer.write(b"N")
                    continue
                if reader._buffer:  # type: ignore[attr-defined]  # said before it was encrypted: by whom?
                    raise ProtocolError("more than was asked for came before TLS")
                writer.write(b"S")
                await writer.drain()
                await writer.start_tls(self._tls)
                encrypted = True
            elif version == say.GSS:
                writer.write(b"N")
            elif version == say.CANCEL:
                self._cancel(body.int32(), body.int32() & 0xFFFFFFFF)
                return None
            elif version >> 16 == 3:
                if not encrypted and not _is_near(writer):
                    way = (
                        "Connect with TLS: sslmode=require."
                        if self._tls
                        else "The owner gives the server a certificate."
                    )
                    await _fatal(writer, "28000", f"connections from other machines are encrypted. {way}")
                    return None
                parameters = say.read_parameters(body)
                if version & 0xFFFF or any(n.startswith("_pq_.") for n in parameters):
                    wanted = [n for n in parameters if n.startswith("_pq_.")]
                    listed = b"".join(say.text(n) for n in wanted)
                    writer.write(
                        say.message(b"v", (3 << 16).to_bytes(4, "big") + len(wanted).to_bytes(4, "big") + listed)
                    )
                return parameters
            else:
                raise ProtocolError("another protocol")
        raise ProtocolError("too many first messages")

    def _cancel(self, process: int, secret: int) -> None:
        for worker in self._workers.values():
            for number, key in worker.clients.items():
                if hmac.compare_digest(repr(key), repr((process, secret))):
                    worker.cancel(number)

    # ---- who it is --------------------------------------------------------------------------------------------------

    async def _let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, user: str) -> bool:
        """Whether the client has shown that it knows the user's password."""
        verifier, known = self._users.verifier(user)
        exchange = Exchange(verifier)
        writer.write(say.authentication(10, say.text(MECHANISM) + b"\0"))
        body = await _password(reader)
        if body.text() != MECHANISM:
            raise ProtocolError("another mechanism")
        first = body.take(body.int32())
        body.end()
        writer.write(say.authentication(11, exchange.first(first)))
        proof = exchange.last((await _password(reader)).rest())
        address = _address(writer)
        if proof is None or not known:
            await asyncio.sleep(self._delay(user, address))
            _LOG.warning("a wrong name or password from %s", address)
            await _fatal(writer, "28P01", f'password authentication failed for user "{user}"')
            return False
        if (wait := self._owed(user, address)) > 0:  # guesses in parallel wait as those in a row do
            await asyncio.sleep(wait)
        self._wrong.pop(user, None)
        writer.write(say.authentication(12, proof))
        return True

    def _delay(self, user: str, address: str) -> float:
        """Seconds until a wrong password is answered; counted by name and by address, of any name alike."""
        now, longest = time.monotonic(), 0.0
        for who in (user, f"\0{origin(address)}"):
            times, last = self._wrong.pop(who, (0, now))
            times = times + 1 if now - last < FORGET else 1
            self._wrong[who] = times, now
            longest = max(longest, min(MOST_DELAY, DELAY * 2 ** min(times - 1, 10)))
        while len(self._wrong) > MOST_KNOWN:
            self._wrong.popitem(last=False)
        return longest

    def _owed(self, user: str, address: str) -> float:
        now = time.monotonic()
        found = [self._wrong[who] for who in (user, f"\0{origin(address)}") if who in self._wrong]
        return max((min(1.0, DELAY * t) for t, last in found if now - last < FORGET and t > 3), default=0.0)

    # ---- processes --------------------------------------------------------------------------------------------------

    async def _worker(self, analyst: str) -> Worker:
        async with self._starting.setdefault(analyst, asyncio.Lock()):
            found = self._workers.get(analyst)
            if found is None or not found.alive:
                desk = self._desk_of(analyst)
                desk.require_grant()
                found = Worker(desk, self._ended, grid=self._grid)
                await found.start()
                self._workers[analyst] = found
            return found

    def _ended(self, worker: Worker) -> None:
        if self._workers.get(worker.analyst) is worker:
            del self._workers[worker.analyst]

    async def _look(self) -> None:
        """Tell the processes of declarations that have changed, and end those that are for nobody."""
        while True:
            await asyncio.sleep(TABLES)
            users = None
            with suppress(DuckDPError):  # a file of users that cannot be read lets nobody in, and nobody go
                users = self._users.names()
            for worker in list(self._workers.values()):
                with suppress(Exception):  # of one worker: the others are told all the same
                    if (users is not None and worker.analyst not in users) or self._is_left(worker):
                        await worker.close()
                    else:
                        await worker.tell_tables()

    def _is_left(self, worker: Worker) -> bool:
        """Whether nobody has been connected to a process for long; one that starts is somebody's."""
        busy = self._starting[worker.analyst].locked()
        return self._idle is not None and not busy and worker.unused_seconds() >= self._idle


async def _password(reader: asyncio.StreamReader) -> Body:
    head = await reader.readexactly(5)
    length = int.from_bytes(head[1:], "big") - 4
    if head[:1] != b"p" or not 0 <= length <= say.MOST_STARTUP:
        raise ProtocolError("not an answer to who it is")
    return Body(await reader.readexactly(length))


async def _fatal(writer: asyncio.StreamWriter, code: str, message: str) -> None:
    writer.write(say.problem({"S": "FATAL", "C": code, "M": message}))
    with suppress(OSError):
        await writer.drain()


def _address(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if peer else ""


def _is_near(writer: asyncio.StreamWriter) -> bool:
    """Whether the client is on this machine."""
    address = _address(writer)
    try:
        return not address or ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False

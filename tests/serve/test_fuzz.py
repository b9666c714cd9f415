"""Hostile messages, many to a connection: startup and authentication, statements, portals, copies; torn and repeated.

What is sent is made of messages that are right, and of what goes wrong with them. Whatever comes: no exception leaves a
conversation, whole messages come back, and the last one of a conversation says that it is over, or nothing waits.
``DUCKDP_MESSAGES`` says how many the slow test sends. ``fixtures/wire.txt`` is what a fuzzer kept (``grow_corpus.py``).
"""

from __future__ import annotations

import asyncio
import base64
import bisect
import io
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import psycopg
import pytest

from duckdp.front.front import LOCKDOWN, LOCKS
from duckdp.serve import listener, scram
from duckdp.serve import messages as say
from duckdp.serve.catalog import install
from duckdp.serve.conversation import Conversation
from duckdp.serve.listener import Listener
from tests.serve.conftest import Served

MESSAGES = int(os.environ.get("DUCKDP_MESSAGES", "1000000"))
CORPUS = Path(__file__).parents[1] / "fixtures" / "wire.txt"
FEW, LIVE = 20_000, 20_000  # messages of the fast test, and over sockets
SLOW = 20.0  # seconds that no conversation of a few hundred messages takes, on any machine that tests run on
TEXTS = [
    "SELECT 1",
    "SELECT $1::INTEGER + 1, $2",
    "SELECT * FROM t ORDER BY a",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT a",
    "DECLARE c CURSOR FOR SELECT * FROM t",
    "FETCH 2 FROM c",
    "FETCH ALL FROM c",
    "CLOSE c",
    "COPY (SELECT * FROM t) TO STDOUT (FORMAT csv, HEADER)",
    "COPY t TO STDOUT (FORMAT binary)",
    "COPY t FROM STDIN",
    "SET dp.epsilon = 0.1",
    "SET dp.epsilon = 'NaN'",
    "SHOW ALL",
    "RESET ALL",
    "DISCARD ALL",
    "DEALLOCATE ALL",
    "PREPARE q AS SELECT $1",
    "EXECUTE q(1)",
    "EXPLAIN SELECT 1",
    "INSERT INTO t SELECT 1, 'x' WHERE (SELECT count(*) FROM t) < 9",
    "DELETE FROM t WHERE a > 100",
    "CREATE TABLE IF NOT EXISTS u (a INTEGER)",
    "SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relname OPERATOR(pg_catalog.~) '^(t)$'",
    "SELECT 1; SELECT nope; SELECT 2",
    "SELECT 'a''b', \"a\", $$x$$ -- c",
    "/* ; */ SELECT 1 /* /* */",
    "",
    ";;",
    "\ud7ff\U0010ffff SELECT",
]
NAMES = ["", "s", "p", "c", "\u00fc" * 40, "a" * 300]


def message(kind: bytes, body: bytes = b"") -> bytes:
    """A whole one."""
    return kind + struct.pack("!I", len(body) + 4) + body


def text(value: str) -> bytes:
    """As the protocol ends it."""
    return value.encode() + b"\0"


def one(draw: random.Random) -> bytes:
    """A message that is right by its form."""
    name, other = text(draw.choice(NAMES)), text(draw.choice(NAMES[:4]))
    match draw.randrange(9):
        case 0:
            return message(b"Q", text(draw.choice(TEXTS)))
        case 1:
            oids = [draw.choice((0, 23, 25, 701, 1043, 1082, 17, 999999)) for _ in range(draw.randrange(4))]
            return message(b"P", name + text(draw.choice(TEXTS)) + struct.pack(f"!H{len(oids)}I", len(oids), *oids))
        case 2:
            formats = [draw.choice((0, 0, 1, 1, 1, 2)) for _ in range(draw.randrange(3))]
            values = [
                draw.choice((None, b"1", b"x", bytes(4), bytes(8), b"\xff" * 5)) for _ in range(draw.randrange(4))
            ]
            raw = b"".join(struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v for v in values)
            parts = struct.pack(f"!H{len(formats)}h", len(formats), *formats) + struct.pack("!H", len(values)) + raw
            return message(b"B", other + name + parts + struct.pack("!Hh", 1, draw.choice((0, 0, 0, 1, 1, 7))))
        case 3:
            return message(b"D", draw.choice((b"S", b"P", b"P", b"x")) + name)
        case 4:
            return message(b"E", name + struct.pack("!i", draw.choice((0, 1, 2, -1, 2**31 - 1))))
        case 5:
            return message(b"C", draw.choice((b"S", b"P", b"?")) + name)
        case 6 | 7:
            return message(b"S")
    if draw.random() < 0.9:
        return message(b"H")
    return message(draw.choice((b"H", b"d", b"c", b"f", b"F", b"p", b"S")), draw.choice((b"", b"x\0", bytes(9))))


def torn(said: bytes, draw: random.Random) -> bytes:
    """What goes wrong with a message; mostly by its body, so that those behind it are still read."""
    kind, body = said[:1], bytearray(said[5:])
    match draw.randrange(14):
        case 0:
            return said + said
        case 1 | 2 | 3 if body:
            body[draw.randrange(len(body))] = draw.randrange(256)
        case 4 if body:
            del body[draw.randrange(len(body)) :]
        case 5:
            body += draw.randbytes(draw.randrange(9))
        case 6 if body:
            at = draw.randrange(len(body))
            body[at:at] = bytes(draw.choice((0x00, 0x27, 0x22, 0x24, 0x3B, 0xFF)) for _ in range(draw.randrange(1, 4)))
        case 7 if draw.random() < 0.1:
            return bytes([draw.randrange(256)]) + said[1:]
        case 8 if draw.random() < 0.05:  # a length that is not its own
            return said[:1] + struct.pack("!I", draw.choice((0, 3, 4, 5, 2**20, 2**31, 2**32 - 1))) + said[5:]
        case 9 if draw.random() < 0.05:
            return said[: draw.randrange(len(said))]
    return message(kind, bytes(body))


class Said(io.BytesIO):
    """What was said; where it was read to is known after its end, too."""

    def close(self) -> None:
        """Kept, as the test asks it."""


class Wire:
    """A socket whose other side has said all it will say."""

    def __init__(self, said: bytes) -> None:
        self.said, self.heard = Said(said), bytearray()

    def makefile(self, mode: str, buffering: int) -> io.BytesIO:
        """What was said."""
        return self.said

    def sendall(self, data: bytes) -> None:
        """Kept."""
        self.heard += data


def whole(data: bytes) -> list[bytes]:
    """Types of the messages that came back; what is left over is a fault."""
    found, at = [], 0
    while at < len(data):
        found.append(data[at : at + 1])
        at += 1 + int.from_bytes(data[at + 1 : at + 5], "big")
    assert at == len(data), "a message that is not whole"
    return found


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """An instance for one test."""
    with confined() as found:
        yield found


@contextmanager
def confined() -> Iterator[duckdb.DuckDBPyConnection]:
    """An analyst's instance, as confined as the process has it, but for the process."""
    with duckdb.connect(":memory:", config={**LOCKDOWN, "threads": 1}) as found:
        found.execute("CREATE TABLE t AS SELECT range AS a, 'x' || range AS b FROM range(5)")
        install(found, "ana")
        found.execute("SET max_execution_time = 2000")
        for setting in LOCKS:
            found.execute(setting)
        yield found


def converse(con: duckdb.DuckDBPyConnection, said: list[bytes]) -> tuple[list[bytes], int]:
    """A conversation from its first message to its end; the types of what came back, how many messages were read."""
    wire = Wire(b"".join(said))
    began = time.monotonic()
    with con.cursor() as cursor:
        talk = Conversation(wire, cursor, protected=lambda: frozenset(("visits",)), user="ana")  # type: ignore[arg-type]
        talk.run((1, 2))
    assert time.monotonic() - began < SLOW
    read = bisect.bisect_left(list(accumulate(map(len, said))), wire.said.tell()) + 1
    return whole(bytes(wire.heard)), min(read, len(said))


def attack(con: duckdb.DuckDBPyConnection, draw: random.Random, messages: int) -> dict[bytes, int]:
    """So many messages in as many conversations as they take; what came back, by type."""
    came: dict[bytes, int] = {}
    sent = 0
    while sent < messages:
        said = [torn(one(draw), draw) if draw.random() < 0.04 else one(draw) for _ in range(draw.randrange(1, 300))]
        kinds, read = converse(con, said)
        sent += read
        for kind in kinds:
            came[kind] = came.get(kind, 0) + 1
    return came


def test_torn_messages_end_their_own_conversation_alone(con: duckdb.DuckDBPyConnection) -> None:
    came = attack(con, random.Random(16), FEW)
    assert {b"E", b"Z", b"T", b"D", b"C", b"1", b"2", b"3", b"n", b"t", b"H", b"I"} <= set(came), came
    assert b"D" in converse(con, [message(b"Q", text("SELECT 1"))])[0]


def test_an_exception_that_leaves_a_conversation_is_noticed(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twins: a handler that raises what nobody expects, and a reply that is cut."""
    right = Conversation._HANDLERS

    def broken(self: Conversation, body: say.Body) -> None:
        raise RuntimeError

    monkeypatch.setattr(Conversation, "_HANDLERS", {**right, b"E": broken})
    with pytest.raises(RuntimeError):
        attack(con, random.Random(16), FEW)
    monkeypatch.setattr(Conversation, "_HANDLERS", right)
    monkeypatch.setattr(say, "EMPTY", say.EMPTY[:-1])
    with pytest.raises(AssertionError, match="not whole"):
        attack(con, random.Random(16), FEW)


# ---- before anybody is let in ----------------------------------------------------------------------------------------


def startup(draw: random.Random) -> bytes:
    """First messages, right or nearly."""
    names = [b"user\0ana\0", b"database\0x\0", b"options\0-c dp.epsilon=1\0", b"_pq_.x\0\0", b"user\0", b"\xff\0\xff\0"]
    body = b"".join(draw.choice(names) for _ in range(draw.randrange(4))) + draw.choice((b"\0", b"", b"\0\0"))
    version = draw.choice((3 << 16, 3 << 16, (3 << 16) + 2, say.SSL, say.GSS, say.CANCEL, 2 << 16, 0, 2**32 - 1))
    found = struct.pack("!I", version) + body
    length = len(found) + 4 if draw.random() < 0.9 else draw.choice((0, 7, 8, 9, 2**16, 2**32 - 1))
    return struct.pack("!I", length) + found


def proof(draw: random.Random) -> bytes:
    """A message of SCRAM's, right or nearly."""
    first = draw.choice(
        (b"n,,n=ana,r=abc", b"n,,n=,r=", b"y,,n=a,r=b", b"p=x,,n=a,r=b", b"n,a=b,n=a,r=c", b"", b"\xff")
    )
    last = draw.choice((b"c=biws,r=abc,p=AAAA", b"c=biws", b"r=,p=,c=", b"=,=,=", b"c=biws,r=abc,p=\xff"))
    mechanism = draw.choice((b"SCRAM-SHA-256\0", b"SCRAM-SHA-256-PLUS\0", b"", b"X"))
    size = struct.pack("!i", draw.choice((len(first), len(first), -1, 2**31 - 1, 0)))
    return message(b"p", draw.choice((mechanism + size + first, last)))


class Ear:
    """The writer of a stranger's connection."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.transport = SimpleNamespace(abort=lambda: None)

    def write(self, data: bytes) -> None:
        """Kept."""
        self.heard += data

    def get_extra_info(self, name: str) -> Any:
        """Where it is."""
        return ("127.0.0.1", 5) if name in ("peername", "sockname") else None

    def close(self) -> None:
        """Nothing."""

    async def drain(self) -> None:
        """At once."""

    async def wait_closed(self) -> None:
        """At once."""


def strangers(draw: random.Random, messages: int) -> dict[str, int]:
    """So many first messages and proofs to a listener; how its answers begin."""

    def made() -> Iterator[bytes]:
        sent = 0
        while sent < messages:
            said = [startup(draw) for _ in range(draw.randrange(1, 3))] + [
                proof(draw) for _ in range(draw.randrange(3))
            ]
            sent += len(said)
            data = b"".join(said)
            yield data if draw.random() < 0.8 else data[: draw.randrange(len(data))]

    return met(made())


def met(said: Iterable[bytes]) -> dict[str, int]:
    """How a listener's answers to strangers begin, and how often."""
    came: dict[str, int] = {}
    users: Any = SimpleNamespace(verifier=lambda user: (scram.nobodys(user, b"secret"), False))

    async def ask() -> None:
        found = Listener(lambda name: pytest.fail("somebody was let in"), users)
        for data in said:
            reader, ear = asyncio.StreamReader(limit=1 << 16), Ear()
            reader.feed_data(data)
            reader.feed_eof()
            await found._came(reader, ear)  # type: ignore[arg-type]
            key = bytes(ear.heard[:1]).decode("latin-1")
            came[key] = came.get(key, 0) + 1

    asyncio.run(ask())
    return came


def test_strangers_are_let_go_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "DELAY", 0.0)
    came = strangers(random.Random(3), 1_500)
    assert {"", "N", "R"} <= set(came), came


# ---- what a fuzzer found -------------------------------------------------------------------------------------------


def corpus(kind: str) -> list[bytes]:
    """What a fuzzer that is led by coverage kept: conversations ("c") and strangers' first bytes ("s")."""
    lines = CORPUS.read_text().splitlines()
    return [base64.b64decode(line[2:]) for line in lines if line.startswith(f"{kind} ")]


def test_a_fuzzers_corpus_ends_nothing(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each input was kept for a line of the server that no other reached."""
    monkeypatch.setattr(listener, "DELAY", 0.0)
    kinds: set[bytes] = set()
    for said in corpus("c"):
        kinds.update(converse(con, [said])[0])
    assert {b"E", b"Z", b"T", b"D", b"C", b"1", b"2", b"3", b"n", b"t", b"H", b"I"} <= kinds
    assert {"", "N", "R"} <= set(met(corpus("s")))
    assert b"D" in converse(con, [message(b"Q", text("SELECT 1"))])[0]


# ---- many ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_million_messages(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "DELAY", 0.0)
    draw, began = random.Random(20261123), time.monotonic()
    for part in range(10):
        came = attack(con, draw, MESSAGES * 9 // 100)
        print(f"\n{part + 1}/10, {time.monotonic() - began:.0f} s: {came}", end="", flush=True)
    print(f"\nstrangers: {strangers(draw, MESSAGES // 10)}, {time.monotonic() - began:.0f} s")
    assert b"D" in converse(con, [message(b"Q", text("SELECT 1"))])[0]


@pytest.mark.slow
def test_a_server_that_runs_goes_on(served: Served) -> None:
    """The same over its sockets, behind a password that is right, and strangers' first messages before it."""
    draw, read = random.Random(7), 0
    with psycopg.connect(served.dsn("bob"), autocommit=True) as beside:
        while read < LIVE:
            said = [torn(one(draw), draw) if draw.random() < 0.04 else one(draw) for _ in range(draw.randrange(1, 300))]
            read += len(said)
            with psycopg.connect(served.dsn()) as client, socket.socket(fileno=os.dup(client.pgconn.socket)) as sock:
                sock.settimeout(60)
                sender = threading.Thread(target=send, args=(sock, b"".join(said) + message(b"X")))
                sender.start()
                heard = b"".join(iter(lambda sock=sock: take(sock), b""))
                sender.join(60)
                assert not sender.is_alive()
            whole(heard)
            with socket.create_connection(("127.0.0.1", served.port), 60) as stranger:
                send(stranger, startup(draw) + proof(draw))
                while take(stranger):
                    pass
            assert beside.execute("SELECT 1").fetchall() == [(1,)]
    print(f"\n{read:,} messages over sockets")


def send(sock: socket.socket, data: bytes) -> None:
    """All of it, or as much as the other side takes."""
    with suppress(OSError):
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)


def take(sock: socket.socket) -> bytes:
    """What comes; nothing at the end."""
    try:
        return sock.recv(1 << 16)
    except ConnectionError:
        return b""

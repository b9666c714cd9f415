"""What a server and an analyst's process keep does not grow with what was asked.

Fast: whatever Python container grows with every question, after all that are bounded are full, is found by its size.
Slow: 10^5 questions of eight clients, and the memory that the system sees (``pytest -m slow -s``).
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import duckdb
import psycopg
import pytest

import duckdp
from duckdp.catalog.table import Kind
from duckdp.compiler import expression
from duckdp.compiler.parse import parse_statement
from duckdp.front.binder import Binder
from duckdp.serve.channel import HEAD, frame, read_body, read_head
from duckdp.serve.conversation import Conversation
from duckdp.serve.voice import Voice
from tests.serve.conftest import make_clinic, start
from tests.serve.test_faults import _processes

QUESTIONS = int(os.environ.get("DUCKDP_GROWTH_QUESTIONS", "100000"))
MOST_GROWN = 16 * 2**20  # bytes from the first fifth of the questions to the last, of each process
WINDOW = 40  # questions between two looks
TEXTS = (
    "SELECT count(*) FROM visits WHERE age > {} AND cost > {}.5",
    "SELECT sex, count(*) AS n FROM visits WHERE age > {} AND cost > {}.5 GROUP BY sex",
    "SELECT avg(cost) FROM visits WHERE age > {} AND cost > {}.5",
)


# ---- containers ------------------------------------------------------------------------------------------------------


def sizes() -> dict[int, tuple[object, int]]:
    """All containers of Python that grow, with their lengths."""
    gc.collect()
    kinds = (dict, list, set, deque)
    return {id(found): (found, len(found)) for found in gc.get_objects() if isinstance(found, kinds)}


def growing(ask: Callable[[int], object]) -> list[str]:
    """The beginnings of containers that grow with questions, in each of three windows."""
    for number in range(300):
        parse_statement(f"SELECT {number}")  # fills what is kept of statements
    for number in range(WINDOW):
        ask(number)
    looks = [sizes()]
    for window in (1, 2, 3):
        for number in range(WINDOW):
            ask(window * WINDOW + number)
        looks.append(sizes())
    found = []
    for name, (container, length) in looks[3].items():
        lengths = [look.get(name, (None, 0))[1] for look in looks]
        if all(late - early >= WINDOW for early, late in pairwise(lengths)):
            found.append(f"{type(container).__name__} of {length}: {repr(container)[:200]}")
    return found


@pytest.fixture(autouse=True)
def _bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of expressions is bounded far beyond these questions: forget it often."""
    monkeypatch.setattr(expression, "REMEMBERED", 64)


@pytest.fixture(scope="module")
def binder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Binder]:
    """What answers an analyst's calls in a server."""
    source, ledger = make_clinic(tmp_path_factory.mktemp("growth"))
    with duckdp.open(source, ledger=ledger) as owner:
        yield Binder(owner.session("ana").desk)


def test_a_server_keeps_nothing_of_each_question(binder: Binder) -> None:
    def ask(number: int) -> None:
        found = binder.query(TEXTS[number % 3].format(number % 60, number), {"epsilon": "0.00001"})
        assert found is not None
        assert found.problem is None

    assert growing(ask) == []


@pytest.mark.slow
def test_an_analysts_process_keeps_nothing_of_each_question() -> None:
    ours, theirs = socket.socketpair()
    near, far = socket.socketpair()
    con = duckdb.connect(":memory:")
    voice = Voice(near, lambda _: None)

    def serve() -> None:  # as the server answers
        while data := far.recv(HEAD, socket.MSG_WAITALL):
            whole, text = read_head(data, 2**20)
            (number, *_), _ = read_body(far.recv(whole, socket.MSG_WAITALL), text)
            far.sendall(frame([number, [None, True, [["n", "BIGINT"]], [["7"]]], ["a note"]]))

    def converse() -> None:
        voice.speak_for(1)
        talk = Conversation(
            theirs,
            con.cursor(),
            protected=lambda: frozenset(("visits",)),
            user="ana",
            ask=lambda text, terms: voice.query(text, terms, 60),
            notes=lambda: voice.notes(1),
            parameters={"options": "-c dp.epsilon=0.1"},
        )
        talk.run((1, 2))

    def ask(number: int) -> None:
        text = TEXTS[number % 3].format(number % 60, number).encode() + b"\0"
        ours.sendall(b"Q" + (len(text) + 4).to_bytes(4, "big") + text)
        heard = b""
        while not heard.endswith(b"Z\0\0\0\5I"):
            heard += ours.recv(1 << 16)
        assert b"a note" in heard or not number

    threads = [threading.Thread(target=one, daemon=True) for one in (serve, voice.listen, converse)]
    for thread in threads:
        thread.start()
    with near, far, theirs, ours, con:
        while not ours.recv(1 << 16).endswith(b"Z\0\0\0\5I"):
            pass
        assert growing(ask) == []
        kept: list[str] = []
        assert growing(lambda number: (ask(1000 + number), kept.append(str(number)))) != []  # the broken twin
        far.shutdown(socket.SHUT_RDWR)


def test_what_is_remembered_of_expressions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expression, "REMEMBERED", 50)
    looked = [0]

    @expression.remembered
    def depth(expr: expression.Expr) -> int:
        looked[0] += 1
        return 1 + max((depth(child) for child in expression.children(expr)), default=0)

    known = next(c.cell_contents for c in depth.__closure__ or () if isinstance(c.cell_contents, dict))
    for _ in range(20):
        assert depth(_chain(9)) == 10
        assert len(known) < 60
    nodes, looked[0] = [_chain(0)], 0
    for _ in range(1000):  # a tree larger than all that is remembered, from its leaf
        nodes.append(expression.Call("minus", (nodes[-1],), Kind.NUMBER))
        assert depth(nodes[-1]) == len(nodes)
    assert looked[0] < 5000, "done anew again and again"


def test_what_is_remembered_is_told_while_others_forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expression, "REMEMBERED", 1)
    wrong: list[object] = []

    @expression.remembered
    def depth(expr: expression.Expr) -> int:
        return 1 + max((depth(child) for child in expression.children(expr)), default=0)

    def ask() -> None:
        for _ in range(2000):
            try:
                if depth(_chain(3)) != 4:
                    wrong.append("another's")
            except Exception as error:  # noqa: BLE001 - whatever it is
                wrong.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong


def _chain(calls: int) -> expression.Expr:
    found: expression.Expr = expression.Literal(1, Kind.NUMBER)
    for _ in range(calls):
        found = expression.Call("minus", (found,), Kind.NUMBER)
    return found


# ---- memory ----------------------------------------------------------------------------------------------------------


def resident(process: int) -> int:
    """Bytes of a process that are in memory."""
    return os.sysconf("SC_PAGESIZE") * int(Path(f"/proc/{process}/statm").read_text().split()[1])


@pytest.mark.slow
def test_many_questions_take_no_more_memory_than_some(tmp_path: Path) -> None:
    served = start(*make_clinic(tmp_path), "--grid", "0")
    asked, looks, said = [0] * 8, [], 0

    def ask(client: int) -> None:
        with psycopg.connect(served.dsn("ana" if client % 2 else "bob"), autocommit=True) as con:
            con.execute("SET dp.epsilon = 0.00001")
            while sum(asked) < QUESTIONS:
                con.execute(TEXTS[asked[client] % 3].format(client, asked[client]))
                asked[client] += 1

    threads = [threading.Thread(target=ask, args=(client,)) for client in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.5)
        if sum(asked) >= said:
            looks.append((sum(asked), [resident(p) for p in (served.process.pid, *sorted(_processes(served)))]))
            print(looks[-1][0], *(f"{one / 2**20:.1f}" for one in looks[-1][1]), flush=True)
            said = sum(asked) + max(1, QUESTIONS // 100)
    served.stop()
    assert sum(asked) >= QUESTIONS
    first = [found for number, found in looks if QUESTIONS // 20 <= number <= QUESTIONS // 5]
    last = [found for number, found in looks if number >= QUESTIONS * 4 // 5]
    for early, late in zip(zip(*first, strict=True), zip(*last, strict=True), strict=True):
        assert max(late) - max(early) < MOST_GROWN, (max(early), max(late))

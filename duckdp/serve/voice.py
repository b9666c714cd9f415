"""The dp functions in an analyst's process: each asks the server, waits, and gives what DuckDB wants.

It stands where the binder stands in the owner's process (``front.binder``); none of what DuckDB calls ever raises.
"""

from __future__ import annotations

import re
import secrets
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from typing import Any

import duckdb

from duckdp.front.crossing import Rows
from duckdp.serve.channel import HEAD, MOST_ANSWER, ChannelError, frame, read_body, read_head
from duckdp.texts import sql_text

GONE = "X101: the server does not answer."
INTERRUPTED = "E102: interrupted; a charge that was made stays, and asking the same again (not fresh) costs nothing."
_REFUSED = re.compile(r"[A-Z]\d{3}: ")  # how each refusal begins, and no SELECT


class Voice:
    """Asks the server for what the dp functions give.

    Args:
        sock: to it; nobody else speaks or hears there.
        heard: told what the server says unasked.

    Attributes:
        speaker: random name, public.
    """

    def __init__(self, sock: socket.socket, heard: Callable[[list[Any]], None]) -> None:
        self._heard = heard
        self.speaker = secrets.token_hex(16)
        self._sock = sock
        self._sending = threading.Lock()
        self._numbers = count(1)
        self._waiting: dict[int, tuple[int, Future[tuple[Any, bytes]]]] = {}
        self._here = threading.local()
        self._notes: dict[int, list[str]] = {}

    def listen(self) -> None:
        """Take the server's answers, until it has gone."""
        try:
            while True:
                whole, text = read_head(self._take(HEAD), MOST_ANSWER)
                said, data = read_body(self._take(whole), text)
                number, answer, notes = said
                if number == 0:
                    self._heard(answer)
                    continue
                who, waiting = self._waiting.pop(number, (0, None))
                if waiting is not None:  # else nobody waits for it any more, nor reads its notes
                    self._notes.setdefault(who, []).extend(notes)
                    waiting.set_result((answer, data))
        except (OSError, ChannelError):
            for _, waiting in list(self._waiting.values()):
                waiting.cancel()

    def speak_for(self, conversation: int) -> None:
        """From now on this thread asks for that conversation."""
        self._here.conversation = conversation

    def notes(self, conversation: int) -> list[str]:
        """What is to be told of a conversation's answers since this was last called."""
        return self._notes.pop(conversation, [])

    def interrupt(self, conversation: int) -> None:
        """Let a conversation's calls end; the server ends what it reads for them."""
        for number, (who, waiting) in list(self._waiting.items()):
            if who == conversation and self._waiting.pop(number, None) is not None:
                waiting.set_result((INTERRUPTED, b""))
        self._send(0, conversation, "interrupt", [])

    # ---- what DuckDB calls ------------------------------------------------------------------------------------------

    def bind(self, name: Any, arguments: Any, lists: Any) -> str:
        """The SELECT that stands for a call."""
        found = self._call("bind", [name, arguments, lists])[0]
        if isinstance(found, str) and not _REFUSED.match(found):
            return found
        return f"SELECT * FROM query(system.main.error({sql_text(str(found))}))"

    def ask(self, tokens: Any) -> Any:
        """An empty text for each token that has its answer, else why not."""
        import pyarrow as pa

        given = tokens.to_pylist()
        found = self._call("ask", [given])[0]
        return pa.array(found if isinstance(found, list) else [str(found)] * len(given), pa.string())

    def rows(self, token: str) -> list[list[str | None]]:
        """A token's answer of few cells; its first row says why there is none, if so."""
        found = self._call("rows", [token])[0]
        return found if isinstance(found, list) else [[str(found)]]

    def query(self, statement: str, terms: dict[str, str], seconds: float) -> tuple[list[tuple[str, str]], Rows] | None:
        """A private question's columns, with their types, and its rows of texts; None: bind dp_query to it.

        Args:
            statement: the question.
            terms: the other arguments of dp_query, by name.
            seconds: after which it is given up.

        Raises:
            duckdb.InvalidInputException: why there is no answer, as DuckDB would raise what the macro says.
        """
        found = self._call("query", [statement, terms], seconds)[0]
        if found is None:
            return None
        problem, _, columns, rows = (found, False, [], []) if isinstance(found, str) else found
        if problem is not None:
            raise duckdb.InvalidInputException(problem)
        return [(name, kind) for name, kind in columns], rows

    def fetch(self, function: str, tokens: Any, indexes: Any) -> Any:
        """One column of each token's answer."""
        import pyarrow as pa

        given = tokens.to_pylist(), indexes.to_pylist()
        _, data = self._call("fetch", [function, *given])
        if not data:
            return pa.array([None] * len(given[0]), pa.list_(pa.string()))
        with pa.ipc.open_stream(data) as stream:
            return stream.read_all().column(0).combine_chunks()

    # ---- the work ---------------------------------------------------------------------------------------------------

    def _call(self, method: str, arguments: list[Any], seconds: float | None = None) -> tuple[Any, bytes]:
        number, who = next(self._numbers), getattr(self._here, "conversation", 0)
        waiting: Future[tuple[Any, bytes]] = Future()
        self._waiting[number] = who, waiting
        try:
            self._send(number, who, method, arguments)
            return waiting.result(seconds)
        except TimeoutError:
            self._waiting.pop(number, None)
            self._send(0, who, "interrupt", [])
            return INTERRUPTED, b""
        except BaseException:  # noqa: BLE001 - DuckDB would pass on any text
            self._waiting.pop(number, None)
            return GONE, b""

    def _send(self, number: int, who: int, method: str, arguments: list[Any]) -> None:
        data = frame([number, who, method, arguments])
        with self._sending:
            self._sock.sendall(data)

    def _take(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._sock.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise OSError("closed")
            parts += part
        return bytes(parts)

"""An analyst's own process: DuckDB without any private row, and the conversations of that analyst's clients.

Started by the server (``python -m duckdp.serve.process CONTROL CALLS PERSON``) with two sockets: on the first one the
server says what happens, and sends each client's socket; on the second the dp functions ask. Before it hears the
first client it is confined for good (``lockdown``).
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import queue
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import Any

import duckdb

from duckdp.catalog.table import load_table
from duckdp.compiler.parse import parse_statement
from duckdp.front.front import LOCKDOWN, LOCKS, VIEWS, create_functions
from duckdp.process.importing import importing
from duckdp.process.settling import settle
from duckdp.resources import read_sql
from duckdp.serve.catalog import install, rewritten, stub_statements
from duckdp.serve.conversation import Conversation
from duckdp.serve.lockdown import lock
from duckdp.serve.shown import Shown
from duckdp.serve.sqlstates import fields
from duckdp.serve.voice import Voice

STACK = 8 * 2**20  # bytes of a thread's stack: DuckDB's binder goes deep; what is not touched takes no memory
MOST_SAID = 1 << 17  # bytes of what the server says at once
SECONDS = 60  # of a statement


class Process:
    """What one analyst's clients share: an instance, the protected tables' names, the way to the server.

    Args:
        control: on which the server says what happens.
        calls: on which the dp functions ask.
        person: the analyst's name.
    """

    def __init__(self, control: socket.socket, calls: socket.socket, person: str) -> None:
        self._person = person
        self._control = control
        self._voice = Voice(calls, self._told)
        self._con = duckdb.connect(":memory:", config={**LOCKDOWN, "threads": 1})
        self._shown = Shown(self._con)
        self._protected: frozenset[str] = frozenset()
        self._news: queue.SimpleQueue[list[Any]] = queue.SimpleQueue()
        self._cursors: dict[int, duckdb.DuckDBPyConnection] = {}

    def run(self) -> None:
        """Get ready, be confined, and serve until the server has gone."""
        threading.stack_size(STACK)
        create_functions(self._con, self._voice)  # type: ignore[arg-type]
        threading.Thread(target=self._voice.listen, daemon=True).start()
        self._con.execute(read_sql("front.sql"))
        for name in VIEWS:
            self._con.execute(f"CREATE VIEW {name} AS FROM {name}()")
        install(self._con, self._person)
        self._con.execute(f"SET max_execution_time = {SECONDS * 1000}")
        for setting in LOCKS:
            self._con.execute(setting)
        _warm(self._con)
        settle()
        lock()
        threading.Thread(target=self._take_news, daemon=True).start()
        self._control.send(b'["ready"]')
        while said := self._hear():
            self._heard(*said)

    def _hear(self) -> tuple[list[Any], list[int]] | None:
        data, fds, _, _ = socket.recv_fds(self._control, MOST_SAID, 4)
        return (json.loads(data), fds) if data else None

    def _told(self, said: list[Any]) -> None:
        """What the server says unasked; taken in elsewhere, as that asks the server, whose answers come here."""
        self._news.put(said)

    def _take_news(self) -> None:
        """What tables there are: protected ones whose declarations are new, names of all of them, synthetic ones."""
        while True:
            changed, protected, synthetic = self._news.get()
            for _, declaration in changed:
                with self._con.cursor() as cursor, suppress(duckdb.Error):  # what the analyst made of that name stays
                    for statement in stub_statements(load_table(declaration)):
                        cursor.execute(statement)
            self._protected = frozenset(protected)
            self._shown.tell([(str(name), int(charge), str(about)) for name, charge, about in synthetic])
            self._control.send(b'["tables"]')

    def _heard(self, said: list[Any], fds: list[int]) -> None:
        match said:
            case ["client", int(number), int(process), int(secret), str(user), dict(parameters)] if fds:
                arguments = (number, (process, secret), user, parameters, fds[0])
                threading.Thread(target=self._converse, args=arguments, daemon=True).start()
            case ["cancel", int(number)]:
                cursor = self._cursors.get(number)
                if cursor is not None:
                    with suppress(duckdb.Error, OSError):  # it was closed just now
                        cursor.interrupt()
                        self._voice.interrupt(number)

    def _converse(self, number: int, key: tuple[int, int], user: str, parameters: dict[str, str], fd: int) -> None:
        self._voice.speak_for(number)
        cursor = self._cursors[number] = self._con.cursor()
        with socket.socket(fileno=fd) as sock:
            try:
                Conversation(
                    sock,
                    cursor,
                    protected=lambda: self._protected,
                    fetch=self._shown.fetch,
                    ask=lambda text, terms: self._voice.query(text, terms, SECONDS),
                    exhausted=lambda: os._exit(1),
                    user=user,
                    notes=lambda: self._voice.notes(number),
                    parameters=parameters,
                ).run(key)
            finally:
                del self._cursors[number]
                self._voice.notes(number)  # that nobody will be told
                cursor.close()


def _warm(con: duckdb.DuckDBPyConnection) -> None:
    """Load all modules that later work imports: no file can be read afterwards."""
    with importing():
        import datetime
        import decimal
        import encodings.idna  # noqa: F401
        import uuid  # noqa: F401

        import pyarrow as pa
        import sqlglot.optimizer

        for package in (sqlglot, sqlglot.optimizer):
            for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
                if not found.name.endswith(("__main__", ".executor")):
                    importlib.import_module(found.name)

    rows = con.execute(
        "SELECT 1::DECIMAL(9,2), DATE '2020-01-01', TIMESTAMP '2020-01-01', TIMESTAMPTZ '2020-01-01 00:00:00+00', "
        "TIME '10:00', INTERVAL 1 DAY, uuid(), 'a'::BLOB, [1], {'a': 1}, MAP {'a': 1}, 1::HUGEINT, NULL"
    ).fetchall()
    assert rows and decimal.Decimal(1) and datetime.UTC
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("a", pa.list_(pa.float64()))])):
        pass
    pa.ipc.open_stream(sink.getvalue()).read_all()
    rewritten("SELECT c.oid::pg_catalog.regclass FROM pg_catalog.pg_class c WHERE c.relname OPERATOR(pg_catalog.~) 'a'")
    parse_statement("SELECT a, count(*) FROM t WHERE b > 1 GROUP BY 1")
    try:
        con.execute("SELECT nothing_of_that_name")
    except duckdb.Error as error:
        fields(error, "")


def main() -> None:
    """Serve one analyst's clients until the server has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control, calls = (socket.socket(fileno=int(fd)) for fd in sys.argv[1:3])
    os.chdir("/")
    Process(control, calls, sys.argv[3]).run()
    os._exit(0)  # conversations that are left end with it


if __name__ == "__main__":
    main()

"""One client's conversation, from the first question to the end: PostgreSQL's simple and extended protocol.

It runs in an analyst's own process, where no private row is, on a socket on which nobody else speaks. What a client
sends is read strictly: what the protocol does not allow ends this conversation, and no other.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import ClassVar

import duckdb

from duckdp.serve import messages as say
from duckdp.serve.acting import Acts, Portal, Prepared, kept
from duckdp.serve.copying import copy_rows
from duckdp.serve.inferred import inferred
from duckdp.serve.messages import Body, ProtocolError
from duckdp.serve.running import Ask, Columns, Ran
from duckdp.serve.settings import REPORTED
from duckdp.serve.sqlstates import Refused, fields
from duckdp.serve.statements import (
    MOST_PARAMETERS,
    Statement,
    cast_parameters,
    count_parameters,
    read_options,
    read_statement,
    split,
)
from duckdp.serve.values import TEXT, encoders, oid_of, read_parameter

_REFUSED = "bad allocation"  # how DuckDB says that the system gave no memory; its own limit it words otherwise
FLUSH = 1 << 16  # bytes that wait before they are sent


class Conversation(Acts):
    """Speaks PostgreSQL's protocol with one client.

    Args:
        sock: to the client, blocking.
        cursor: of the analyst's instance, for this client alone.
        protected: says which tables are protected now.
        user: who is spoken for.
        fetch: told each statement before it runs on the instance, see ``Shown.fetch``.
        ask: private questions at once, see ``Runner``.
        exhausted: told when the system gave no more memory, and the client knows: what is left of it is unsafe.
        notes: what is to be told besides since it was last called.
        parameters: of the client's startup message.
    """

    def __init__(
        self,
        sock: socket.socket,
        cursor: duckdb.DuckDBPyConnection,
        *,
        protected: Callable[[], frozenset[str]],
        user: str,
        fetch: Callable[[str], None] = lambda _: None,
        ask: Ask = lambda *_: None,
        exhausted: Callable[[], None] = lambda: None,
        notes: Callable[[], list[str]] = list,
        parameters: dict[str, str] | None = None,
    ) -> None:
        self._sock, self._file = sock, sock.makefile("rb", buffering=1 << 16)
        super().__init__(cursor, protected, user, fetch, ask)
        self._notes, self._out = notes, bytearray()
        self._portals: dict[str, Portal] = {}
        self._exhausted, self._left = exhausted, True
        self._skipping = False  # after an error, until Sync
        for name, value in [*read_options((parameters or {}).get("options", "")), *(parameters or {}).items()]:
            if name.lower() not in ("user", "database", "replication", "options") and not name.startswith("_pq_."):
                self.settings.take(name.lower(), value)
        self.settings.begin()

    # ---- the loop ---------------------------------------------------------------------------------------------------

    def run(self, key: tuple[int, int]) -> None:
        """Greet, then answer until the client ends; ``key``: what cancels its statements."""
        for name in REPORTED:
            self._say(say.parameter_status(name, self._reported(name)))
        self._say(say.key_data(*key))
        self._ready()
        try:
            while (found := self._next()) is not None:
                kind, body = found
                if kind == b"X":
                    break
                self._answer(kind, body)
        except ProtocolError as error:
            self._say(say.problem({"S": "FATAL", "C": "08P01", "M": f"{error}."}))
            self._flush()
        except OSError:
            pass  # the client has gone
        finally:
            self._file.close()  # while it is open the socket is, whoever closes that: the client would wait

    def _next(self) -> tuple[bytes, Body] | None:
        head = self._file.read(5)
        if len(head) < 5:
            return None
        length = int.from_bytes(head[1:], "big") - 4
        if not 0 <= length <= say.MOST_MESSAGE:
            raise ProtocolError(f"a message takes at most {say.MOST_MESSAGE} bytes")
        data = self._file.read(length)
        return None if len(data) < length else (head[:1], Body(data))

    def _answer(self, kind: bytes, body: Body) -> None:
        if self._skipping and kind != b"S":
            return
        handle = self._HANDLERS.get(kind)
        if handle is None:
            raise ProtocolError("a message is of no type that is known here")
        handle(self, body)

    def _say(self, data: bytes) -> None:
        self._out += data
        if len(self._out) >= FLUSH:
            self._flush()

    def _flush(self) -> None:
        data, self._out = self._out, bytearray()
        self._sock.sendall(data)

    def _ready(self) -> None:
        self._say(say.ready(self._state))
        self._flush()
        if not self._left:
            self._exhausted()

    def _failed(self, error: BaseException, text: str, before: int = 0) -> None:
        """Tell an error; ``before``: characters of what was sent that stand before the statement."""
        self._notes()
        self._left = self._left and not (isinstance(error, duckdb.OutOfMemoryException) and _REFUSED in str(error))
        found = fields(error, text)
        if "P" in found:
            found["P"] = str(int(found["P"]) + before)
        self._say(say.problem(found))
        if self._state == "T":
            self._state = "E"

    def _tell(self) -> None:
        if self.settings.show("client_min_messages").lower() in ("warning", "error", "fatal", "panic"):
            self._notes()
            return
        for note in self._notes():
            self._say(say.problem({"C": "00000", "M": note}, notice=True))

    # ---- simple questions -------------------------------------------------------------------------------------------

    def _query(self, body: Body) -> None:
        text = body.text()
        body.end()
        statements = split(text)
        if not statements:
            self._say(say.EMPTY)
        at = 0
        for each in statements:
            at = text.index(each, at)
            try:
                self._simple(read_statement(each))
            except (ProtocolError, OSError):
                raise
            except Exception as error:  # noqa: BLE001 - what is not known is told as such, and the conversation goes on
                self._failed(error, each, at)
                break
            at += len(each)
        self._portals.clear()
        self._ready()

    def _simple(self, statement: Statement) -> None:
        ran = self._run(statement, ())
        if statement.kind == "copy":
            self._copy(statement, ran)
            return
        if ran.columns is not None:
            self._say(_described(ran.columns, ()))
        count = self._rows(ran, (), 0)
        self._tell()
        self._say(say.complete(_counted(ran, count)))

    def _rows(self, ran: Ran, formats: Sequence[int], most: int) -> int:
        """Send rows; all of them, or at most so many. Returns how many."""
        if ran.columns is None:
            return 0
        encode = encoders([t for _, t in ran.columns], formats)
        count = 0
        for batch in [ran.take(most)] if most else ran.batches():
            for row in batch:
                self._say(say.data_row([None if v is None else e(v) for e, v in zip(encode, row, strict=True)]))
            count += len(batch)
        return count

    def _copy(self, statement: Statement, ran: Ran) -> None:
        form = statement.options.get("format", "text")
        columns = ran.columns or []
        self._say(say.copy_out(len(columns), int(form == "binary")))
        count = 0
        for data, rows in copy_rows(ran, form, statement.options):
            self._say(say.copy_data(data))
            count += rows
        self._tell()
        self._say(say.COPY_DONE + say.complete(f"COPY {count}"))

    def _changed(self, name: str) -> None:
        self._say(say.parameter_status(name, self._reported(name)))

    # ---- the extended protocol --------------------------------------------------------------------------------------

    def _parse(self, body: Body) -> None:
        name, text, types = body.text(), body.text(), body.int32s()
        body.end()

        def prepare() -> None:
            found = split(text)
            if len(found) > 1:
                raise Refused("42601", "cannot insert multiple commands into a prepared statement")
            if name and name in self._prepared:
                raise Refused("42P05", f'prepared statement "{name[:63]}" already exists')
            self._require_room(self._prepared)
            wanted = count_parameters(text)
            if wanted > MOST_PARAMETERS:
                raise Refused("54023", f"a statement takes at most {MOST_PARAMETERS:,} parameters")
            known = [*types, *([0] * (wanted - len(types)))]
            for number, kind in cast_parameters(text).items():
                if 0 < number <= len(known):
                    known[number - 1] = known[number - 1] or oid_of(kind)
            statement = read_statement(found[0]) if found else None
            told: list[int] = []
            if statement is not None and not types and wanted and self._state != "E":
                guess = inferred(text, wanted, lambda: self._runner.column_types(text))
                told = [kind or other for kind, other in zip(known, guess, strict=True)]
            self._prepared[name] = Prepared(statement, known, told)
            self._say(say.PARSE_COMPLETE)

        self._guarded(prepare, text)

    def _bind(self, body: Body) -> None:
        portal, name = body.text(), body.text()
        formats, raw, results = body.int16s(), body.values(), body.int16s()
        body.end()

        def bind() -> None:
            prepared = self._named(name)
            if len(raw) != len(prepared.types):
                raise Refused("08P01", f"the statement takes {len(prepared.types)} parameters, not {len(raw)}")
            forms = formats * len(raw) if len(formats) == 1 else formats or [0] * len(raw)
            if len(forms) != len(raw) or any(f not in (0, 1) for f in [*forms, *results]):
                raise ProtocolError("formats do not fit the parameters")
            self._require_room(self._portals)
            try:
                told = prepared.told or prepared.types
                kinds = [t if f else o for o, t, f in zip(prepared.types, told, forms, strict=True)]
                values = [read_parameter(o, bool(f), v) for o, f, v in zip(kinds, forms, raw, strict=True)]
            except ProtocolError as error:
                raise Refused("22P02", f"{error}") from None
            self._portals[portal] = Portal(prepared, values, results)
            self._say(say.BIND_COMPLETE)

        self._guarded(bind, "")

    def _describe(self, body: Body) -> None:
        what, name = body.byte(), body.text()
        body.end()

        def describe() -> None:
            if what == b"S":
                prepared = self._named(name)
                self._say(say.parameter_description([oid or TEXT for oid in prepared.told or prepared.types]))
                prepared.announced = self._announce_unknown(prepared)
                self._say_columns(prepared.announced.columns, ())
                return
            if name in self._cursors:  # a cursor that was declared is a portal too
                self._say_columns(self._cursors[name].columns, ())
                return
            portal = self._portal(name)
            portal.announced = self._announce(portal.prepared.statement, portal.values)
            self._say_columns(portal.announced.columns, portal.formats)

        self._guarded(describe, "")

    def _say_columns(self, columns: Columns | None, formats: Sequence[int]) -> None:
        self._say(say.NO_DATA if columns is None else _described(columns, formats))

    def _execute(self, body: Body) -> None:
        name, most = body.text(), body.int32()
        body.end()

        def execute() -> None:
            portal = self._portal(name)
            statement = portal.prepared.statement
            if statement is None:
                self._say(say.EMPTY)
                return
            if portal.ran is None:
                if statement.kind == "copy":
                    self._copy(statement, self._run(statement, portal.values))
                    return
                portal.ran = self._run_as_announced(statement, portal)
                if most > 0:
                    portal.ran = kept(portal.ran)
            portal.sent += self._rows(portal.ran, portal.formats, max(0, most))
            if most > 0 and portal.ran.columns is not None and not portal.ran.ended:
                self._say(say.SUSPENDED)
                return
            self._tell()
            self._say(say.complete(_counted(portal.ran, portal.sent)))

        self._guarded(execute, self._text_of(name))

    def _close(self, body: Body) -> None:
        what, name = body.byte(), body.text()
        body.end()
        (self._prepared if what == b"S" else self._portals).pop(name, None)
        self._say(say.CLOSE_COMPLETE)

    def _sync(self, body: Body) -> None:
        body.end()
        self._skipping = False
        if self._state == "I":
            self._portals.clear()
        self._ready()

    def _flush_now(self, body: Body) -> None:
        body.end()
        self._flush()

    def _pass_over(self, body: Body) -> None:
        """Data of a COPY that was refused, which the client had sent before it heard of that."""

    def _guarded(self, work: Callable[[], None], text: str) -> None:
        try:
            work()
        except (ProtocolError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - as in _query
            self._failed(error, text)
            self._flush()  # whoever sent Flush and no Sync waits for this, and Flush is not heard any more
            self._skipping = True

    def _named(self, name: str) -> Prepared:
        if name not in self._prepared:
            raise Refused("26000", f'prepared statement "{name[:63]}" does not exist')
        return self._prepared[name]

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise Refused("34000", f'portal "{name[:63]}" does not exist')
        return self._portals[name]

    def _text_of(self, name: str) -> str:
        found = self._portals.get(name)
        return found.prepared.statement.text if found is not None and found.prepared.statement is not None else ""

    _HANDLERS: ClassVar[dict[bytes, Callable[[Conversation, Body], None]]] = {
        b"Q": _query,
        b"P": _parse,
        b"B": _bind,
        b"D": _describe,
        b"E": _execute,
        b"C": _close,
        b"S": _sync,
        b"H": _flush_now,
        b"d": _pass_over,
        b"c": _pass_over,
        b"f": _pass_over,
    }


def _described(columns: Columns, formats: Sequence[int]) -> bytes:
    forms = list(formats) * len(columns) if len(formats) == 1 else list(formats) or [0] * len(columns)
    return say.row_description([(n, t.oid, t.size, f) for (n, t), f in zip(columns, forms, strict=False)])


def _counted(ran: Ran, count: int) -> str:
    return f"{ran.tag} {count}" if ran.columns is not None and ran.tag in ("SELECT", "FETCH") else ran.tag

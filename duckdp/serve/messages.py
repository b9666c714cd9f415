"""PostgreSQL's protocol, version 3, as bytes: what clients send, read strictly, and what a server says.

Every message but the first has a type (one byte), its length (four bytes, itself included) and a body. Nothing here
waits or knows a socket: :class:`Body` reads a body that has arrived whole, the functions give whole messages.

Source: PostgreSQL documentation, "Frontend/Backend Protocol".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

MOST_STARTUP = 10_000  # bytes of a first message, as PostgreSQL has it
MOST_MESSAGE = 16 * 2**20  # bytes of any later one
# What a first message says in place of a version.
CANCEL, SSL, GSS = (1234 << 16 | code for code in (5678, 5679, 5680))
_LENGTH = struct.Struct("!I")


class ProtocolError(Exception):
    """A client said what the protocol does not allow; the connection ends."""


class Body:
    """Reads the body of one message from its beginning; what is missing or left over is a :class:`ProtocolError`.

    Args:
        data: the body, whole.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        """The next bytes, so many of them."""
        if count < 0 or self._at + count > len(self._data):
            raise ProtocolError("a message is shorter than it says")
        found = self._data[self._at : self._at + count]
        self._at += count
        return found

    def text(self) -> str:
        """The next text, which a zero byte ends."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise ProtocolError("a text has no end")
        try:
            found = self._data[self._at : end].decode()
        except UnicodeDecodeError:
            raise ProtocolError("a text is not UTF-8") from None
        self._at = end + 1
        return found

    def byte(self) -> bytes:
        """The next byte, whatever it is."""
        return self.take(1)

    def int16(self) -> int:
        """The next two bytes, as a number without sign."""
        return int.from_bytes(self.take(2), "big")

    def int32(self) -> int:
        """The next four bytes, as a number with sign."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def int16s(self) -> list[int]:
        """A list of numbers of two bytes, after how many they are."""
        return [self.int16() for _ in range(self.int16())]

    def int32s(self) -> list[int]:
        """A list of numbers of four bytes, after how many (two bytes) they are."""
        return [self.int32() for _ in range(self.int16())]

    def values(self) -> list[bytes | None]:
        """A list of values, each after its length; -1 is NULL."""
        found: list[bytes | None] = []
        for _ in range(self.int16()):
            length = self.int32()
            found.append(None if length == -1 else self.take(length))
        return found

    def rest(self) -> bytes:
        """All bytes that have not been read."""
        return self.take(len(self._data) - self._at)

    def end(self) -> None:
        """Raise unless all has been read."""
        if self._at != len(self._data):
            raise ProtocolError("a message is longer than what it says")


def read_parameters(body: Body) -> dict[str, str]:
    """The parameters of a startup message, after its version."""
    found: dict[str, str] = {}
    while name := body.text():
        found[name] = body.text()
    body.end()
    return found


def message(kind: bytes, body: bytes = b"") -> bytes:
    """A whole message of a server."""
    return kind + _LENGTH.pack(len(body) + 4) + body


def text(value: str) -> bytes:
    """A text and the zero byte that ends it; a zero within it is left out."""
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


def authentication(code: int, data: bytes = b"") -> bytes:
    """What is wanted to show who one is: 0 nothing more, 10 SASL's names, 11 goes on, 12 ends."""
    return message(b"R", code.to_bytes(4, "big") + data)


def parameter_status(name: str, value: str) -> bytes:
    """A setting that clients want to know."""
    return message(b"S", text(name) + text(value))


def key_data(process: int, secret: int) -> bytes:
    """What a client needs to cancel a statement."""
    return message(b"K", struct.pack("!II", process, secret))


def ready(state: str) -> bytes:
    """The next question may come. ``state``: I, T (within a transaction) or E (within one that failed)."""
    return message(b"Z", state.encode())


def row_description(columns: Sequence[tuple[str, int, int, int]]) -> bytes:
    """Columns of the rows to come: name, type (OID), its size, format (0 text, 1 binary) each."""
    parts = [struct.pack("!H", len(columns))]
    parts += [text(name) + struct.pack("!IHIhih", 0, 0, oid, size, -1, form) for name, oid, size, form in columns]
    return message(b"T", b"".join(parts))


def data_row(values: Sequence[bytes | None]) -> bytes:
    """A row of values, each after its length; None is NULL."""
    parts = [struct.pack("!H", len(values))]
    for value in values:
        parts.append(b"\xff\xff\xff\xff" if value is None else _LENGTH.pack(len(value)) + value)
    return message(b"D", b"".join(parts))


def parameter_description(types: Sequence[int]) -> bytes:
    """Types (OIDs) of a statement's parameters."""
    return message(b"t", struct.pack(f"!H{len(types)}I", len(types), *types))


def complete(tag: str) -> bytes:
    """A statement has ended well."""
    return message(b"C", text(tag))


def copy_out(columns: int, form: int) -> bytes:
    """COPY's data follow, of so many columns."""
    return message(b"H", struct.pack(f"!bH{columns}H", form, columns, *([form] * columns)))


def copy_data(data: bytes) -> bytes:
    """A piece of COPY's data."""
    return message(b"d", data)


def problem(fields: Mapping[str, str], *, notice: bool = False) -> bytes:
    """An error, or a notice: S severity, C SQLSTATE, M message, D detail, H hint, P position (from 1)."""
    severity = fields.get("S", "NOTICE" if notice else "ERROR")
    whole = {"S": severity, "V": severity, **{k: v for k, v in fields.items() if k != "S"}}
    body = b"".join(k.encode() + text(v) for k, v in whole.items()) + b"\0"
    return message(b"N" if notice else b"E", body)


PARSE_COMPLETE = message(b"1")
BIND_COMPLETE = message(b"2")
CLOSE_COMPLETE = message(b"3")
NO_DATA = message(b"n")
EMPTY = message(b"I")
SUSPENDED = message(b"s")
COPY_DONE = message(b"c")

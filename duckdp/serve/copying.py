"""COPY ... TO STDOUT: rows as PostgreSQL's text, CSV or binary."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from duckdp.serve.running import Ran
from duckdp.serve.sqlstates import Refused

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
_ESCAPES = {92: r"\\", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r"}


def copy_rows(ran: Ran, form: str, options: Mapping[str, str]) -> Iterator[tuple[bytes, int]]:
    """Pieces of COPY's data, and how many rows each holds.

    Raises:
        Refused: 0A000, an option that is not known.
    """
    make = {"text": _text, "csv": _csv, "binary": _binary}.get(form)
    if make is None or set(options) - {"format", "header", "delimiter", "null"}:
        raise Refused("0A000", "COPY takes FORMAT text, csv or binary, HEADER, DELIMITER and NULL.")
    yield from make(ran, options)


def _text(ran: Ran, options: Mapping[str, str]) -> Iterator[tuple[bytes, int]]:
    delimiter, null = options.get("delimiter", "\t"), options.get("null", r"\N")
    columns = ran.columns or []
    escapes = {**_ESCAPES, ord(delimiter): f"\\{delimiter}"} if delimiter != "\t" else _ESCAPES
    if _has_header(options):
        yield (delimiter.join(name.translate(escapes) for name, _ in columns) + "\n").encode(), 0
    for batch in ran.batches():
        lines = [
            delimiter.join(
                null if v is None else t.text(v).decode().translate(escapes)
                for v, (_, t) in zip(row, columns, strict=True)
            )
            for row in batch
        ]
        yield ("\n".join(lines) + "\n").encode(), len(batch)


def _csv(ran: Ran, options: Mapping[str, str]) -> Iterator[tuple[bytes, int]]:
    columns = ran.columns or []
    null = options.get("null", "")

    def write(rows: list[list[str | None]]) -> bytes:
        delimiter = options.get("delimiter", ",")
        lines = [delimiter.join(null if v is None else _quoted(v, delimiter, null) for v in row) for row in rows]
        return ("\n".join(lines) + "\n").encode()

    if _has_header(options):
        yield write([[name for name, _ in columns]]), 0
    for batch in ran.batches():
        rows = [
            [None if v is None else t.text(v).decode() for v, (_, t) in zip(row, columns, strict=True)] for row in batch
        ]
        yield write(rows), len(batch)


def _quoted(value: str, delimiter: str, null: str) -> str:
    plain = value != null and not any(c in value for c in (delimiter, '"', "\n", "\r"))
    return value if plain else '"' + value.replace('"', '""') + '"'


def _binary(ran: Ran, options: Mapping[str, str]) -> Iterator[tuple[bytes, int]]:
    """The header shares its message with the first row: there are clients that want it so."""
    if set(options) - {"format"}:
        raise Refused("0A000", "COPY in binary takes no other option.")
    columns = ran.columns or []
    head = _SIGNATURE
    for batch in ran.batches():
        for row in batch:
            parts = [head, struct.pack("!h", len(columns))]
            for value, (_, kind) in zip(row, columns, strict=True):
                data = None if value is None else kind.binary(value)
                parts.append(b"\xff\xff\xff\xff" if data is None else struct.pack("!I", len(data)) + data)
            yield b"".join(parts), 1
            head = b""
    yield head + b"\xff\xff", 0


def _has_header(options: Mapping[str, str]) -> bool:
    return options.get("header", "false") in ("true", "on", "1", "match")

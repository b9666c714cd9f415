"""PostgreSQL's arrays of one dimension, as parameters: their items as they were sent, in either format."""

from __future__ import annotations

import re
import struct

MOST_ITEMS = 65_536  # of one parameter: a statement's text holds as many

_ITEM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^,{}"\\\s](?:[^,{}"\\]*[^,{}"\\\s])?))\s*([,}])', re.DOTALL)


def items_of_text(raw: str) -> list[str | None]:
    r"""The items of an array that is written out.

    Raises:
        ValueError: it is none, or of several dimensions.

    >>> items_of_text('{1, NULL,"a,\\"b",null c}'), items_of_text("{}")
    (['1', None, 'a,"b', 'null c'], [])
    """
    text = raw.strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError("not an array")
    if not text[1:-1].strip():
        return []
    found: list[str | None] = []
    at, end = 1, ","
    while end == ",":
        item = _ITEM.match(text, at)
        if item is None or len(found) >= MOST_ITEMS:
            raise ValueError("not an array")
        quoted, plain, end = item.groups()
        found.append(
            re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else None if plain.lower() == "null" else plain
        )
        at = item.end()
    if at != len(text):
        raise ValueError("not an array")
    return found


def items_of_binary(raw: bytes) -> tuple[int, list[bytes | None]]:
    """The type of an array's items, and they.

    Raises:
        ValueError, struct.error: it is none, or of several dimensions.
    """
    dimensions, _, oid = struct.unpack_from("!iiI", raw)
    if dimensions == 0 and len(raw) == 12:
        return oid, []
    if dimensions != 1:
        raise ValueError("not an array of one dimension")
    count, _ = struct.unpack_from("!ii", raw, 12)
    if not 0 <= count <= MOST_ITEMS:
        raise ValueError("too many items")
    found: list[bytes | None] = []
    at = 20
    for _ in range(count):
        (size,) = struct.unpack_from("!i", raw, at)
        at += 4
        if size > len(raw) - at or size < -1:
            raise ValueError("an item is cut off")
        found.append(None if size < 0 else raw[at : at + size])
        at += max(size, 0)
    if at != len(raw):
        raise ValueError("more than the items")
    return oid, found

"""What passes between the server and an analyst's process: calls of the dp functions and released values, as JSON.

Frames: the length of what follows (4 bytes), of its JSON (4 bytes), the JSON, and bytes besides (a column as Arrow has
it). Nothing is unpickled. The other side is not trusted by the server: what is too long or of another form ends it.
"""

from __future__ import annotations

import json
import struct
from typing import Any

MOST_CALL = 2 * 2**20  # bytes of a call
MOST_ANSWER = 2**31  # bytes of an answer
_HEAD = struct.Struct("!II")
HEAD = _HEAD.size


class ChannelError(Exception):
    """The other side said what cannot be."""


def frame(said: object, data: bytes = b"") -> bytes:
    """What is said, with bytes besides, as a whole frame."""
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return _HEAD.pack(len(text) + len(data), len(text)) + text + data


def read_head(head: bytes, most: int) -> tuple[int, int]:
    """Length of the body, and of the JSON in it.

    Raises:
        ChannelError: longer than ``most``, or not a head.
    """
    whole, text = _HEAD.unpack(head)
    if whole > most or text > whole:
        raise ChannelError("a frame is too long")
    return whole, text


def read_body(body: bytes, text: int) -> tuple[Any, bytes]:
    """What was said, and the bytes besides.

    Raises:
        ChannelError: not JSON.
    """
    try:
        return json.loads(body[:text].decode("utf-8", "surrogatepass")), body[text:]
    except (ValueError, RecursionError):
        raise ChannelError("a frame is not JSON") from None

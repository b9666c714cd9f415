"""JSON as the ledger hashes it: always the same bytes for the same values, and quick for short lists."""

from __future__ import annotations

import json
from collections.abc import Callable
from json import encoder
from typing import Any

Encode = Callable[[Any], str]


def _encoder(*, separators: tuple[str, str], default: Callable[[Any], Any] | None, sort_keys: bool) -> Encode:
    """``JSONEncoder(...).encode``, which makes its encoder in C anew for each call, made once."""
    slow = json.JSONEncoder(separators=separators, default=default, sort_keys=sort_keys)
    in_c: Any = getattr(encoder, "c_make_encoder", None)
    text: Any = getattr(encoder, "encode_basestring_ascii", None)
    try:
        made = in_c(None, slow.default, text, None, separators[1], separators[0], sort_keys, False, True)
        same = "".join(made(_SAMPLE, 0)) == slow.encode(_SAMPLE)
    except TypeError:  # another Python
        return slow.encode
    return (lambda value: "".join(made(value, 0))) if same else slow.encode


_SAMPLE = ["text\n\u20ac", 1, 0.5, None, True, {"b": [], "a": {}}]
_PLAIN = (", ", ": ")

plain: Encode = _encoder(separators=_PLAIN, default=None, sort_keys=False)  # as json.dumps(value)
ordered: Encode = _encoder(separators=_PLAIN, default=None, sort_keys=True)  # as json.dumps(value, sort_keys=True)
compact: Encode = _encoder(separators=(",", ":"), default=bytes.hex, sort_keys=False)  # bytes in hex

"""What parameters without a type may mean, in turn: numbers, texts, then booleans, instants and spans."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence

from duckdp.serve.values import Untyped, span_of

_BOOLEANS = {"t": True, "true": True, "f": False, "false": False}  # as drivers write them
Reading = Callable[[Untyped], object]


def readings(values: Sequence[object]) -> Iterator[Sequence[object]]:
    """The parameters as they are, then as each other thing that those without a type may be, if they may.

    A statement is asked with the next where the one before was refused for a type, before anything is charged.

    >>> list(readings([Untyped("true"), 3]))
    [['true', 3], ['true', 3], [True, 3], [True, 3]]
    """
    yield values
    if any(_has_untyped(v) for v in values):
        yield as_texts(values)
        for read in (_numbers_too, _texts_too):
            yield [_mapped(v, read) for v in values]


def as_texts(values: Sequence[object]) -> list[object]:
    """Parameters of which those without a type are texts."""
    return [_mapped(v, str) for v in values]


def _has_untyped(value: object) -> bool:
    return any(map(_has_untyped, value)) if isinstance(value, list) else isinstance(value, Untyped)


def _mapped(value: object, read: Reading) -> object:
    if isinstance(value, list):
        return [_mapped(item, read) for item in value]
    return read(value) if isinstance(value, Untyped) else value


def _numbers_too(value: Untyped) -> object:
    """A boolean, an instant or a span, where it is written like one; else as it is, which may be a number."""
    found = _BOOLEANS.get(value.lower())
    if found is not None:
        return found
    if (span := span_of(value)) is not None:
        return span
    try:
        return dt.datetime.fromisoformat(value) if len(value) > len("2024-01-01") else value
    except ValueError:
        return value


def _texts_too(value: Untyped) -> object:
    """The same, but what is neither is a text."""
    found = _numbers_too(value)
    return str(found) if isinstance(found, Untyped) else found

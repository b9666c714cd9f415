"""Released figures as JSON values, and back: what the stages of a release are stored as.

Only the classes that a reader names can be read, whatever a file says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from duckdp.core.types import Neighbours

Classes = Iterable[type[Any]]
"""Dataclasses that a stored release may consist of; its text names them, so names and fields stay as they are."""


def pack(value: Any) -> Any:
    """JSON values of numbers, texts, arrays, lists, dictionaries and dataclasses of them.

    Raises:
        TypeError: something else.
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "kind": value.dtype.kind}
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, Neighbours):
        return {"neighbours": value.value}
    if isinstance(value, (tuple, list)):
        return {type(value).__name__: [pack(v) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[pack(k), pack(v)] for k, v in value.items()]}
    if not is_dataclass(value) or isinstance(value, type):
        raise TypeError("not a released figure")
    return {"class": type(value).__name__, "fields": {f.name: pack(getattr(value, f.name)) for f in fields(value)}}


def unpack(raw: Any, classes: Classes) -> Any:
    """The inverse of :func:`pack`.

    Args:
        raw: JSON values.
        classes: the dataclasses that may be in it.

    Raises:
        ValueError, TypeError, KeyError: not what ``pack`` gives of these classes.
    """
    known = {c.__name__: c for c in classes}

    def read(raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        match raw:
            case {"array": values, "kind": "f" | "i" | "b" as kind}:
                return np.array(values, dtype={"f": np.float64, "i": np.int64, "b": np.bool_}[kind])
            case {"fraction": text}:
                return Fraction(text)
            case {"neighbours": text}:
                return Neighbours(text)
            case {"tuple": values}:
                return tuple(read(v) for v in values)
            case {"list": values}:
                return [read(v) for v in values]
            case {"dict": pairs}:
                return {read(k): read(v) for k, v in pairs}
            case {"class": name, "fields": found}:
                return known[name](**{k: read(v) for k, v in found.items()})
        raise ValueError("kept")

    return read(raw)

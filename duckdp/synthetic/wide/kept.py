"""Released figures as JSON values, and back: what a stored release is finished from.

Only the classes listed here can be read, whatever a file says.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np

from duckdp.core.types import Neighbours
from duckdp.smooth.axes import Floats, Ints
from duckdp.synthetic.wide.collect import Association, Released
from duckdp.synthetic.wide.features import Factor
from duckdp.synthetic.wide.marginals import Marginals
from duckdp.synthetic.wide.psi import Ellipsoid
from duckdp.synthetic.wide.release import Noisy
from duckdp.synthetic.wide.table import Request


@dataclass(frozen=True, kw_only=True, eq=False)
class Grown:
    """What a tree makes its rows from; see ``tree.Tree``."""

    means: dict[int, float]
    mean_deviation: float
    shares: list[Floats]
    merges: list[Ints]
    pairs: dict[tuple[int, int], Floats]
    stages: list[tuple[str, int, Fraction]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Kept:
    """A wide release, before its rows are made.

    Attributes:
        method: "moments", "tree" or "psi".
        request: public parameters.
        rows: wanted.
        released: by the method.
        marginals, noisy: laws of single columns, where they were bought.
        bought: stages.
    """

    method: str
    request: Request
    rows: int
    released: Released | Ellipsoid | Grown
    marginals: Marginals | None = None
    noisy: Noisy | None = None
    bought: tuple[tuple[str, int, float], ...] = ()


_CLASSES: dict[str, type[Any]] = {
    c.__name__: c for c in (Association, Ellipsoid, Factor, Grown, Kept, Marginals, Noisy, Released, Request)
}


def pack(value: Any) -> Any:
    """JSON values of a release."""
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
    name = type(value).__name__
    return {"class": name, "fields": {f.name: pack(getattr(value, f.name)) for f in fields(_CLASSES[name])}}


def unpack(raw: Any) -> Any:
    """The inverse of :func:`pack`.

    Raises:
        ValueError, TypeError, KeyError: not what ``pack`` gives.
    """
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
            return tuple(unpack(v) for v in values)
        case {"list": values}:
            return [unpack(v) for v in values]
        case {"dict": pairs}:
            return {unpack(k): unpack(v) for k, v in pairs}
        case {"class": name, "fields": found}:
            return _CLASSES[name](**{k: unpack(v) for k, v in found.items()})
    raise ValueError("kept")

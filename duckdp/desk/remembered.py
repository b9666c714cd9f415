"""What was made of public texts alone, kept for the next time that they are asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TypeVar, cast

T = TypeVar("T")

MOST_KEPT = 64  # values: the panels of a few dashboards
MOST_TEXT = 2000  # characters of what is kept by; dashboards' statements are shorter
_PLAIN = (str, int, float, bool, bytes, Decimal, type(None))


class Remembered:
    """At most :data:`MOST_KEPT` values by what they follow from; the first that came is the first to go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[object, object] = {}

    def recall(self, key: object, make: Callable[[], T], worth: Callable[[T], bool] = lambda _: True) -> T:
        """What was made of this key before, or is made now; what raises is not kept.

        Args:
            key: all that the value follows from, hashable; None: not known, so it is made each time.
            make: the value, which is shared: never changed.
            worth: whether it is small enough to be kept.
        """
        found = None if key is None else self._kept.get(key)
        if found is not None:
            return cast("T", found)
        made = make()
        if key is not None and worth(made):
            with self._lock:
                if len(self._kept) >= MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = made
        return made


def key_of(values: Sequence[object]) -> tuple[object, ...] | None:
    """Values as what something is kept by, equal for equal ones of one type alone; None if they are long or not plain.

    1, 1.0 and True are equal to Python and are not the same parameter of a statement; nor are 0.0 and -0.0.
    """
    if not all(type(value) in _PLAIN for value in values):
        return None
    texts = [v if isinstance(v, str) else hex(v) if isinstance(v, int) else repr(v) for v in values]  # of any length
    if sum(map(len, texts)) > MOST_TEXT:
        return None
    return tuple(zip(map(type, values), texts, strict=True))

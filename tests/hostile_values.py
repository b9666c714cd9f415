"""Values that no parameter expects, and what a call may do with them: work, or refuse with a code."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from duckdp.errors import CODES, DuckDPError, InternalError, ParameterError

MOST_TOLD = 1500  # characters of an error


class Raises:
    """Whatever is asked of it, it raises."""

    def _raise(self, *_: object, **__: object) -> Any:
        raise ZeroDivisionError("from the caller's object")

    __str__ = __repr__ = __float__ = __index__ = __int__ = __bool__ = __len__ = __iter__ = __eq__ = __hash__ = _raise
    __lt__ = __fspath__ = __call__ = __format__ = __getitem__ = __contains__ = keys = items = _raise


class OddText(str):
    """A text of another class."""

    __slots__ = ()

    def __str__(self) -> str:
        raise ZeroDivisionError("from the caller's object")


class Deep(list):  # type: ignore[type-arg]
    """Contains itself."""

    def __init__(self) -> None:
        super().__init__()
        self.append(self)


def _generator() -> Iterator[object]:
    yield "x"
    raise ZeroDivisionError("from the caller's generator")


HOSTILE: dict[str, Callable[[], object]] = {
    **{
        repr(value)[:40]: (lambda value=value: value)  # type: ignore[misc]
        for value in (
            None,
            True,
            False,
            0,
            -1,
            1,
            7,
            2**63,
            10**400,
            -(10**400),
            0.0,
            -0.0,
            0.5,
            5e-324,
            1e308,
            math.nan,
            math.inf,
            -math.inf,
            "",
            " ",
            "x",
            "NaN",
            "1e999999999",
            "\x00",
            "a\x00b",
            "\ud800",
            "x" * 100_000,
            b"",
            b"x",
            bytearray(b"x"),
            (),
            [],
            {},
            [1],
            ["x"],
            [None],
            [[]],
            {"x": 1},
            {"x": {}},
            {1: 2},
            {"\ud800": 1},
            {"\x00": 1},
            {"x": [math.nan, "\ud800"]},
            {"x": (0, 10**400)},
            {"x": ("\ud800", "z")},
            set(),
            {1},
            frozenset({"x"}),
            range(3),
            complex(1, 1),
            Decimal("NaN"),
            Decimal("sNaN"),
            Decimal("Infinity"),
            Decimal("1e400"),
            Decimal(1),
            Fraction(1, 3),
            Fraction(10**400),
            np.float64("nan"),
            np.float32(0.5),
            np.int64(1),
            np.bool_(True),
            np.str_("x"),
            np.datetime64("NaT"),
            int,
            len,
            Ellipsis,
            NotImplemented,
        )
    },
    "huge int": lambda: 10**5000,
    "object": object,
    "raises": Raises,
    "odd text": lambda: OddText("x"),
    "deep": Deep,
    "generator": _generator,
    "array": lambda: np.zeros(3),
    "nested": lambda: _nested(),
    "counter": collections.Counter,
    "dict of raises": lambda: {"x": Raises()},
    "list of raises": lambda: [Raises()],
    "long list": lambda: ["x"] * 12_000,
    "too long list": lambda: ["x"] * 100_001,
    "bytes path": lambda: _BytesPath(),
    "memory": lambda: memoryview(b"x"),
}


class _BytesPath:
    def __fspath__(self) -> bytes:
        return b"x"


def _nested() -> list[Any]:
    found: list[Any] = []
    for _ in range(5000):
        found = [found]
    return found


def outcome(call: Callable[[], object], parameters: set[str]) -> tuple[bool, str | None]:
    """Whether a call was refused, and what is wrong with how, if anything is.

    Args:
        call: with the hostile value.
        parameters: one of which a refusal of an argument names.
    """
    try:
        call()
    except InternalError as error:
        return True, f"internal: {error}"
    except DuckDPError as error:
        return True, _badly_told(error, parameters)
    except BaseException as error:  # noqa: BLE001 - what the tests look for
        return True, f"raw {type(error).__name__}: {str(error)[:200]}"
    return False, None


def _badly_told(error: DuckDPError, parameters: set[str]) -> str | None:
    text = str(error)
    if error.code not in CODES:
        return f"no code: {text[:200]}"
    if len(text) > MOST_TOLD:
        return f"{len(text)} characters: {text[:200]}"
    if isinstance(error, ParameterError) and not any(p in text for p in parameters):
        return f"names none of {sorted(parameters)}: {text[:200]}"
    if "Traceback" in text or " object at 0x" in text:
        return f"tells of Python: {text[:200]}"
    return None

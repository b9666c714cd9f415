"""What a public call is given, checked against what its signature says, before anything is done.

``checked`` reads the annotations of a function once and compares each argument with its own: a text, a number, a flag,
a list of texts, a path, an object of ours. What does not fit is P107, which names the parameter; what fits comes as the
plain type (numpy's 3 as 3, a subclass of str as str), so that no code of a caller's object runs later, halfway through.
``object`` and what cannot be read (a type variable) is left to the function. A missing or unknown argument stays
Python's own TypeError. Costs about three microseconds a call.
"""

from __future__ import annotations

import datetime as dt
import functools
import inspect
import math
import operator
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import islice
from typing import Any, Literal, TypeVar, Union

from duckdp.errors import ParameterError, Untold

MOST_LISTED = 100_000  # elements of a list
MOST_WHOLE = 2**62  # of a whole number, which the ledger or DuckDB may keep

#: A value as a table holds it, where a group or a column is named by it.
Scalar = str | bool | int | float | dt.date

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
Take = Callable[[object], Any]  # gives the plain value, or MISFIT
MOST_NAME, MOST_PATH = 255, 4095  # bytes of a name in a path, and of a path: what file systems hold
_PATH = f"the path of a file: text in Unicode, not blank, without the character NUL, names of at most {MOST_NAME} bytes"


class Misfit:
    """What a value that does not fit becomes."""


MISFIT = Misfit()


def checked(function: F) -> F:
    """Check the arguments of each call against the annotations.

    >>> @checked
    ... def double(x: int) -> int:
    ...     return 2 * x
    >>> double("2")
    Traceback (most recent call last):
    duckdp.errors.ParameterError: P107: x='2': must be a whole number.
    """
    return _checked(function, frozenset())


def checked_untold(*names: str) -> Callable[[F], F]:
    """As :func:`checked`, of a function whose arguments of these names are people's secrets: no error quotes them.

    >>> @checked_untold("x")
    ... def double(x: int) -> int:
    ...     return 2 * x
    >>> double("two")
    Traceback (most recent call last):
    duckdp.errors.ParameterError: P107: x=<str of 3>: must be a whole number.
    """
    return lambda function: _checked(function, frozenset(names))


def _checked(function: F, untold: frozenset[str]) -> F:
    prepared: tuple[list[str], dict[str, tuple[Take, str] | None]] | None = None

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        nonlocal prepared
        if prepared is None:
            prepared = _prepare(function)
        names, takes = prepared
        placed = zip(names, args, strict=False)
        given = [_plain(name, value, takes[name], untold=name in untold) for name, value in placed]
        for name, value in named.items():
            named[name] = _plain(name, value, takes.get(name), untold=name in untold)
        return function(*given, *args[len(given) :], **named)

    call.is_checked = True  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def checked_methods(kind: C) -> C:
    """Check the arguments of every public method of a class, inherited ones too, but those marked ``checks_itself``."""
    methods = {name: found for base in reversed(kind.__mro__[:-1]) for name, found in vars(base).items()}
    for name, found in methods.items():
        if name.startswith("_") or hasattr(found, "checks_itself") or hasattr(found, "is_checked"):
            continue
        if isinstance(found, classmethod):
            setattr(kind, name, classmethod(checked(found.__func__)))
        elif inspect.isfunction(found):
            setattr(kind, name, checked(found))
    return kind


def _prepare(function: Callable[..., Any]) -> tuple[list[str], dict[str, tuple[Take, str] | None]]:
    """Names of the arguments that may be given by place, and how each one is taken."""
    parameters = inspect.signature(function).parameters.values()
    known = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    takes = {p.name: None if p.annotation is p.empty else _take_of(p.annotation, function) for p in known}
    return [p.name for p in known if p.kind is not p.KEYWORD_ONLY], takes


def checks_itself(function: F) -> F:
    """Mark a method whose arguments are checked by what it calls."""
    function.checks_itself = True  # type: ignore[attr-defined]
    return function


def from_caller(ask: Callable[..., Any], *given: object) -> Any:
    """What comes of running code of a caller's object (an iterator, a frame, ``__index__``), or ``MISFIT``.

    Such code may raise anything, and a text that quotes what it held: no error of it is told, or kept as a context.
    """
    try:
        return ask(*given)
    except Exception:  # noqa: BLE001 - see above
        return MISFIT


def path_text(value: object, name: str) -> str:
    """A path as text: of ``str`` or ``os.PathLike``, in Unicode, not blank, without NUL.

    Raises:
        ParameterError: P107.
    """
    rows = isinstance(value, (list, tuple, dict))  # somebody meant a frame
    return str(_plain(name, value, (_path, _PATH), untold=rows))


def declared(function: Callable[..., Any], given: object) -> dict[str, Any]:
    """Named arguments as a function takes them, where None may stand for any of them, and ... for one to fill in.

    Raises:
        ParameterError: P107, also of a figure within a mapping or list that is no plain value.
    """
    if not isinstance(given, Mapping):
        raise ParameterError("P107", "tables", given, "must give each table's arguments by name.")
    _, takes = _prepare(function)
    found = {n: v if v is None or v is ... else _plain(n, v, takes.get(n)) for n, v in given.items()}
    for name, value in found.items():
        found[name] = from_caller(_without_classes, value)
        if found[name] is MISFIT:
            raise ParameterError("P107", name, value, "must hold texts, numbers and dates.")
    return found


def _without_classes(value: Any, depth: int = 3) -> Any:
    """A value without classes of the caller's: a member of an enum as its text, a named tuple as a tuple."""
    known = type(value).__module__.split(".")[0] in _PLAIN_FROM
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (list, tuple, set, frozenset, Mapping)):
        inner = [*value, *value.values()] if isinstance(value, Mapping) else list(value)
        found = [_without_classes(each, depth - 1) for each in inner] if depth else [MISFIT]
        if any(each is MISFIT for each in found):
            return MISFIT
        if isinstance(value, Mapping):
            return dict(zip(found[: len(value)], found[len(value) :], strict=True))
        return next(kind for kind in (tuple, set, frozenset, list) if kind is list or isinstance(value, kind))(found)
    if not known and isinstance(value, (int, float)):
        return int.__index__(value) if isinstance(value, int) else float.__float__(value)
    return value if known else MISFIT


def _plain(name: str, value: object, take: tuple[Take, str] | None, *, untold: bool = False) -> Any:
    if take is None:
        return value
    found = take[0](value)
    if found is MISFIT:
        raise ParameterError("P107", name, Untold(value) if untold else value, f"must be {take[1]}.")
    return found


def _take_of(annotation: object, function: Callable[..., Any]) -> tuple[Take, str] | None:
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, sys.modules[function.__module__].__dict__, _Late())
        except (NameError, AttributeError, TypeError):
            return None
    return reader(annotation)


class _Late(dict[str, Any]):
    """Names that modules import for type checking alone: duckdp's public ones."""

    def __missing__(self, name: str) -> Any:
        try:
            return getattr(sys.modules["duckdp"], name)
        except AttributeError:
            raise KeyError(name) from None


def reader(annotation: Any) -> tuple[Take, str] | None:
    """How values of a type are taken (what does not fit becomes ``MISFIT``), and what they are called.

    None where anything goes.
    """
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return _reader_of_union(parts)
    if origin is Literal or annotation is str:
        return _text, "a text in Unicode"
    if annotation in (bool, int, float, None, type(None)):
        return _SIMPLE[annotation]
    base = origin or annotation
    if base is os.PathLike:
        return _path, _PATH
    if base in (Sequence, Iterable):
        return _reader_of_list(parts)
    if base is Mapping:
        return _reader_of_mapping(parts)
    if base is Callable:
        return (lambda value: value if callable(value) else MISFIT), "a function"
    if getattr(base, "_is_protocol", False):
        return None
    if isinstance(base, type) and base is not object:
        name = "one of " + ", ".join(map(str, base)) if issubclass(base, Enum) else f"of the class {base.__name__}"
        return (lambda value: value if isinstance(value, base) else MISFIT), name
    return None


def _reader_of_union(parts: Sequence[Any]) -> tuple[Take, str] | None:
    if any(typing.get_origin(part) is os.PathLike for part in parts):
        parts = [part for part in parts if part is not str]  # a path's text, not any
    readers = [reader(part) for part in parts]
    if None in readers:
        return None
    takes = [reader[0] for reader in readers if reader is not None]
    names = dict.fromkeys(reader[1] for reader in readers if reader is not None)

    def take(value: object) -> Any:
        for each in takes:
            found = each(value)
            if found is not MISFIT:
                return found
        return MISFIT

    return take, " or ".join(names)


def _reader_of_list(parts: Sequence[Any]) -> tuple[Take, str]:
    inner = reader(parts[0]) if parts else None

    def take(value: object) -> Any:
        if isinstance(value, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(value, Iterable):
            return MISFIT
        found = from_caller(lambda: list(islice(value, MOST_LISTED + 1)))
        if found is MISFIT or len(found) > MOST_LISTED:
            return MISFIT
        if inner is not None:
            found = [inner[0](each) for each in found]
            if any(each is MISFIT for each in found):
                return MISFIT
        return found

    return take, f"a list of at most {MOST_LISTED:,}" + (f", each {inner[1]}" if inner is not None else "")


def _reader_of_mapping(parts: Sequence[Any]) -> tuple[Take, str]:
    inner = reader(parts[1]) if len(parts) > 1 else None

    def take(value: object) -> Any:
        if not isinstance(value, Mapping):
            return MISFIT
        found = from_caller(lambda: dict(islice(value.items(), MOST_LISTED + 1)))
        if found is MISFIT:
            return MISFIT
        if parts and parts[0] is str:
            found = {_text(k): v for k, v in found.items()}
        if len(found) > MOST_LISTED or MISFIT in found:
            return MISFIT
        if inner is not None and inner[0] in (_number, _text):
            found = {k: inner[0](v) for k, v in found.items()}
            if any(v is MISFIT for v in found.values()):
                return MISFIT
        return found

    return take, "a mapping by name"


def _text(value: object) -> Any:
    if not isinstance(value, str):
        return MISFIT
    found = str.__str__(value)
    if found.isascii():
        return found
    try:
        found.encode("utf-8")
    except UnicodeEncodeError:
        return MISFIT
    return found


def _flag(value: object) -> Any:
    if isinstance(value, bool):
        return value
    return bool(value) if _kind_of_numpy(value) == "b" else MISFIT


def _whole(value: object) -> Any:
    if isinstance(value, bool):
        return MISFIT
    found = from_caller(operator.index, value)
    return found if found is not MISFIT and abs(found) <= MOST_WHOLE else MISFIT


def _number(value: object) -> Any:
    """A number, or the text of one, which the function reads."""
    if isinstance(value, str):
        return _text(value)
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, Fraction)):
        return MISFIT
    try:
        number = float(value)
    except (OverflowError, ValueError, TypeError):
        return MISFIT
    return int(value) if isinstance(value, int) and math.isfinite(number) else number


def plain(value: object) -> object:
    """The number or truth value of Python that one of numpy stands for; whatever else it is, as it is."""
    made = _OF_NUMPY.get(_kind_of_numpy(value))
    return value if made is None else made(value)


def _kind_of_numpy(value: object) -> str:
    """The kind of a scalar of numpy's own types: b, i, u or f, and others; nothing of another value."""
    if type(value).__module__ != "numpy" or "numpy" not in sys.modules:
        return ""
    return str(value.dtype.kind) if isinstance(value, sys.modules["numpy"].generic) else ""


_OF_NUMPY: dict[str, Callable[[Any], bool | int | float]] = {"b": bool, "i": int, "u": int, "f": float}


def _path(value: object) -> Any:
    """A path as text, as the file system has it."""
    found = from_caller(os.fspath, value)
    if _text(found) is MISFIT or "\x00" in found or not found.strip():
        return MISFIT
    names = os.fsencode(found).replace(b"\\", b"/").split(b"/")
    long = max(map(len, names)) > MOST_NAME or sum(map(len, names)) + len(names) - 1 > MOST_PATH
    return MISFIT if long else _text(found)


def _nothing(value: object) -> Any:
    return None if value is None else MISFIT


_SIMPLE: dict[Any, tuple[Take, str]] = {
    bool: (_flag, "true or false"),
    int: (_whole, "a whole number"),
    float: (_number, "a number"),
    type(None): (_nothing, "None"),
    None: (_nothing, "None"),
}
#: Whose values are no code of a caller's.
_PLAIN_FROM = frozenset(
    ("builtins", "datetime", "decimal", "fractions", "uuid", "collections", "numpy", "pandas", "polars")
)

"""A statement under way: when it ends without a charge, it is noted in the log of statements.

What is noted: every statement over a protected table and every call of a dp function that is answered for free (from a
stored release, a summary, public figures; explanations and listings too), is refused, or fails after its charge. What
was charged and answered is in the ledger's charges already. Not noted: an analyst's own SQL on their own instance, in
which no private row is and nothing of the curator's, and what that instance itself refuses of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from duckdp.arguments import checked
from duckdp.errors import DuckDPError
from duckdp.ledger.statements import MOST_TEXT
from duckdp.texts import sql_text

if TYPE_CHECKING:
    from duckdp.ledger.statements import StatementLog

M = TypeVar("M", bound=Callable[..., Any])


class Asks(Protocol):
    """Who has statements under way: a session."""

    def asking(self, text: str | Callable[[], str]) -> Asking:
        """A statement that begins: it will be in the log, whatever becomes of it."""
        ...


class _Current(threading.local):
    asking: Asking | None = None


_current = _Current()


class Asking:
    """One statement, from its beginning to its end; ``with`` it.

    Args:
        log: where it is noted.
        analyst: who asks.
        text: what; or what makes the text, called only if it is noted.

    Attributes:
        outcome: what to say of it if it is answered for free.
        charge: whose release it was given, or what it was charged.
    """

    __slots__ = ("_analyst", "_asked", "_charged", "_log", "_noted", "_outer", "_text", "charge", "outcome")

    def __init__(self, log: StatementLog, analyst: str, text: str | Callable[[], str]) -> None:
        self._log, self._analyst, self._text = log, analyst, text
        self._asked = time.time()
        self._charged, self._noted = False, True
        self.outcome, self.charge = "answered", None  # type: str, int | None

    def __enter__(self) -> Asking:
        self._outer, _current.asking = _current.asking, self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.asking = self._outer
        if not self._noted or (error is None and self._charged):
            return
        how, outcome = "free", self.outcome
        if error is not None:
            outcome = code_of(error)
            how = "failed" if self._charged or outcome[0] in "EX" else "refused"
        text = self._text if isinstance(self._text, str) else self._text()
        self._log.note(self._analyst, how, text, outcome, charge=self.charge, asked=self._asked)

    def is_about(self, text: Callable[[], str]) -> None:
        """What is asked, where that is known only now."""
        self._text = text

    def leave_out(self) -> None:
        """It is the analyst's own business after all."""
        self._noted = False


def charged(charge: int) -> None:
    """The statement under way in this thread was charged."""
    asking = _current.asking
    if asking is not None:
        asking.charge, asking._charged = charge, True


def given_again(charge: int) -> None:
    """The statement under way in this thread got a release that was stored before."""
    asking = _current.asking
    if asking is not None:
        asking.charge, asking.outcome = charge, "stored"


def goes_on(charge: int) -> None:
    """The statement under way in this thread is a question to a release that was charged before."""
    asking = _current.asking
    if asking is not None:
        asking.charge = charge


def leave_out() -> None:
    """The statement under way in this thread is the analyst's own business."""
    asking = _current.asking
    if asking is not None:
        asking.leave_out()


def noted_text(prefix: str = "", outcome: str = "answered") -> Callable[[M], M]:
    """Make each call of a session's method, whose first argument is the text of a statement, that statement.

    Args:
        prefix: before the text.
        outcome: of one that is answered for free.
    """

    def decorate(method: M) -> M:
        inner = checked(method)  # within: what is refused by its type is noted too

        @wraps(inner)
        def call(self: Asks, *args: Any, **named: Any) -> Any:
            text = args[0] if args else named.get("text")
            shown = text if type(text) is str else call_text(method.__name__, (text,), {})
            with self.asking(prefix + shown if prefix else shown) as asking:
                asking.outcome = outcome
                return inner(self, *args, **named)

        return cast("M", call)

    return decorate


def noted(outcome: str = "answered", prefix: str = "dp_") -> Callable[[M], M]:
    """Make each call of a session's method a statement, in the words of SQL.

    Args:
        outcome: of one that is answered for free.
        prefix: before the method's name.
    """

    def decorate(method: M) -> M:
        name, inner = prefix + method.__name__, checked(method)

        @wraps(inner)
        def call(self: Asks, *args: Any, **named: Any) -> Any:
            with self.asking(lambda: call_text(name, args, named)) as asking:
                asking.outcome = outcome
                return inner(self, *args, **named)

        return cast("M", call)

    return decorate


def code_of(error: BaseException) -> str:
    """The code of an error; of an interrupt E102, of what is none of ours X101."""
    if isinstance(error, DuckDPError):
        return error.code
    return "E102" if isinstance(error, KeyboardInterrupt) else "X101"


def call_text(name: str, args: Sequence[object], named: Mapping[str, object]) -> str:
    """A call as SQL would write it, arguments that are None left out; of a long one the beginning.

    >>> call_text("dp_smooth_answer", ["am", "it's"], {"tolerance": 0.1, "category": None})
    "dp_smooth_answer('am', 'it''s', tolerance := 0.1)"
    """
    parts: list[str] = []
    room = MOST_TEXT
    given: list[tuple[str, object]] = [("", value) for value in args]
    given += [(f"{key} := ", value) for key, value in named.items() if value is not None]
    for key, value in given:
        parts.append(key + _literal(value, room))
        room -= len(parts[-1]) + 2
        if room < 0:
            break
    return f"{name}({', '.join(parts)}{'' if room >= 0 else ', ...'})"


def _literal(value: Any, room: int) -> str:
    """A value as SQL, or the name of its type: of what may be large, the owner's, or run code, nothing is shown."""
    kind = type(value)
    if kind is str:
        return sql_text(value[: max(room, 0) + 1])
    if value is None:
        return "NULL"
    if kind in (bool, float, Decimal) or (kind is int and value.bit_length() < 256):
        return str(value).lower() if kind is bool else str(value)
    if kind in (list, tuple):
        parts: list[str] = []
        for inner in value:
            parts.append(_literal(inner, room) if not isinstance(inner, (list, tuple)) else "[...]")
            room -= len(parts[-1]) + 2
            if room < 0:
                break
        return f"[{', '.join(parts)}]"
    return kind.__name__

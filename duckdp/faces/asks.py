"""What every call of a dp function does: be a statement, read its arguments, plan and run."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from duckdp.arguments import checks_itself
from duckdp.desk.asking import Asking
from duckdp.desk.desk import Desk
from duckdp.functions.calling import describe
from duckdp.functions.spec import FUNCTIONS, Spec
from duckdp.result import Result


class Asks(ABC):
    """Who asks: the part of a session that its methods stand on.

    Attributes:
        desk: what is asked of the data set goes through it.
    """

    desk: Desk

    @checks_itself
    def asking(self, text: str | Callable[[], str]) -> Asking:
        """A statement of the analyst's that begins; ``with`` it."""
        return self._desk.asking(text)

    def _ask(self, name: str, given: Mapping[str, object]) -> Result:
        """Make a call a statement, read its arguments, plan and run it."""
        spec = FUNCTIONS[name]
        raw = {p.name: given.get(str(p.python), p.default) for p in spec.of("python")}
        return self._asked(spec, raw, lambda: spec.read_values(given))

    def _asked(self, spec: Spec, raw: Mapping[str, object], read: Callable[[], dict[str, Any]]) -> Result:
        with self.asking(lambda: describe(spec, raw)) as asking:
            asking.outcome = "explained" if spec.explains else "answered"
            return spec.plan(self._desk, self._or_set(spec, read())).run(secrets.token_hex(16))

    def _or_set(self, spec: Spec, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments of a call, with the epsilon that the session has SET where it gives none.

        Never called for a dp function in SQL, which runs while the front's own statement does.
        """
        for parameter in spec.parameters:
            if parameter.kind.falls_back and arguments[parameter.name] is None:
                instead = [arguments[p.name] for p in spec.parameters if p.kind.instead]
                if all(value is None for value in instead):
                    arguments[parameter.name] = self._set_epsilon()
        return arguments

    @property
    def _desk(self) -> Desk:
        self.desk.require_open()
        return self.desk

    @abstractmethod
    def _set_epsilon(self) -> str | None:
        """The epsilon that the analyst has SET, if any."""


def ask_words(session: Asks, spec: Spec, words: Mapping[str, Any]) -> Result:
    """A call from the words of a command line.

    Raises:
        DuckDPError: refused, or failed after the charge (E1xx).
    """
    return session._asked(spec, words, lambda: spec.read_words(words))

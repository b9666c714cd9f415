"""The prompt's memory: a history file for the user's eyes only, and completion of names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

MOST_LINES = 1000  # that are kept between sessions


def history_file() -> Path:
    """``duckdp/history`` in the user's state folder."""
    state = os.environ.get("XDG_STATE_HOME")
    if state:
        base = Path(state)
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home()))
    else:
        base = Path.home() / ".local" / "state"
    return base / "duckdp" / "history"


class History:
    """Statements typed before; works without readline too, and then remembers nothing.

    Args:
        words: names to complete.
        more: further words that may come after the line so far, as it stands before the one that is typed.
    """

    def __init__(self, words: Iterable[str], more: Callable[[str], list[str]] | None = None) -> None:
        self._path = history_file()
        self._readline = _readline()
        if self._readline is None:
            return
        for line in self._load():
            self._readline.add_history(line)
        self._readline.set_auto_history(False)
        self._readline.set_completer_delims(" \t\n(),;'\"")
        self._readline.set_completer(_Completer(sorted(words), self._before, more))
        libedit = getattr(self._readline, "backend", "") == "editline" or "libedit" in (self._readline.__doc__ or "")
        self._readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")

    def add(self, text: str) -> None:
        """Remember a statement, on one line."""
        line = " ".join(text.split())
        if self._readline is None or not line:
            return
        self._readline.add_history(line)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(file, "a", encoding="utf-8") as out:
                out.write(line + "\n")
        except OSError:
            return  # a prompt without memory is still a prompt

    def _before(self) -> str:
        """The line before the word that is typed."""
        return "" if self._readline is None else self._readline.get_line_buffer()[: self._readline.get_begidx()]

    def _load(self) -> list[str]:
        try:
            os.chmod(self._path, 0o600)
            return self._path.read_text(encoding="utf-8", errors="replace").splitlines()[-MOST_LINES:]
        except OSError:
            return []


def _readline() -> ModuleType | None:
    try:
        import readline
    except ImportError:
        return None
    return readline


class _Completer:
    """Readline's protocol: the n-th name that begins with what was typed; first what the place calls for."""

    def __init__(
        self, words: list[str], before: Callable[[], str] = str, more: Callable[[str], list[str]] | None = None
    ) -> None:
        self._words, self._before, self._more = words, before, more

    def __call__(self, typed: str, n: int) -> str | None:
        called = [] if self._more is None else self._more(self._before())
        called = [word for word in called if word.lower().lstrip("'").startswith(typed.lower())]
        others = [w for w in self._words if w.lower().startswith(typed.lower())] if typed else []
        found = [*called, *others]
        return found[n] if n < len(found) else None

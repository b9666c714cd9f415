"""The shell's dot-commands: one table of names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from textwrap import wrap
from typing import Protocol

from duckdp.compiler.printing import quote
from duckdp.errors import ParameterError
from duckdp.functions import FUNCTIONS
from duckdp.result import Result, plain_result
from duckdp.shell.asking import Asker
from duckdp.shell.output import FORMATS, save

WIDTH = 92  # characters of a line of help


class Prompt(Protocol):
    """What a command may change of the shell that it was typed in.

    Attributes:
        analyst: runs statements.
        mode: how answers are printed.
        last: the answer that was printed last.
        ended: the person wants to leave.
    """

    analyst: Asker
    mode: str
    last: Result | None
    ended: bool

    def read(self, lines: Iterable[str]) -> None:
        """Run statements and commands from lines."""


Command = Callable[[Prompt, str], Result | str | None]


def _help(_: Prompt, __: str) -> str:
    lines = [f"{usage.ljust(24)}{text}" for usage, text, _ in COMMANDS.values()]
    costing = [s.name for s in FUNCTIONS.values() if s.costs != "nothing"]
    free = [s.name for s in FUNCTIONS.values() if s.costs == "nothing" and not s.explains]
    words = (
        "A statement ends with ; and may take several lines. SELECT over a protected table costs epsilon; the "
        f"functions {', '.join(costing)} take their own. What each would cost is told free, by "
        f"dp_explain_noisy_count and the like. {', '.join(free)} are free too. Everything else runs in "
        "your own DuckDB, free."
    )
    return "\n".join([*lines, "", *wrap(words, WIDTH)])


def _tables(shell: Prompt, _: str) -> Result:
    protected = shell.analyst.tables()
    own = [name for name in shell.analyst.own() if name not in protected]
    return plain_result(["table", "kind"], [(n, "protected") for n in protected] + [(n, "own") for n in own])


def _schema(shell: Prompt, name: str) -> Result:
    if name.lower() not in shell.analyst.tables():
        return shell.analyst.run(f"DESCRIBE {quote(_needed('table', name))}")
    listed = shell.analyst.catalog()
    rows = [row[1:] for row in listed if row[0] == name.lower()]
    return plain_result(listed.names[1:], rows)


def _epsilon(shell: Prompt, text: str) -> str:
    if text:
        shell.analyst.set_epsilon(text)
    return f"epsilon of a statement: {shell.analyst.epsilon or 'not set'}"


def _delta(shell: Prompt, text: str) -> str:
    if text:
        shell.analyst.set_delta(text)
    return f"delta of a statement: {shell.analyst.delta}"


def _budget(shell: Prompt, _: str) -> Result:
    return shell.analyst.budget()


def _ledger(shell: Prompt, _: str) -> Result:
    return shell.analyst.ledger()


def _summaries(shell: Prompt, _: str) -> Result:
    return shell.analyst.summaries()


def _explain(shell: Prompt, text: str) -> Result:
    return shell.analyst.explain(_needed("statement", text.rstrip("; \t")))


def _mode(shell: Prompt, text: str) -> str | None:
    if text not in FORMATS:
        raise ParameterError("P107", "mode", text, f"must be one of {', '.join(FORMATS)}.")
    shell.mode = text
    return None


def _save(shell: Prompt, path: str) -> str:
    if shell.last is None:
        raise ParameterError("P107", "file", path, "would hold nothing: ask something first.")
    return save(shell.last, _needed("file", path))


def _read(shell: Prompt, path: str) -> None:
    try:
        lines = Path(_needed("file", path)).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ParameterError("P107", "file", path, "cannot be read as text.") from None
    shell.read(lines)


def _quit(shell: Prompt, _: str) -> None:
    shell.ended = True


def _needed(name: str, value: str) -> str:
    if not value:
        raise ParameterError("P107", name, value, "is missing. Type .help for the commands.")
    return value


#: name -> (usage, what it does, function)
COMMANDS: dict[str, tuple[str, str, Command]] = {
    ".help": (".help", "this list", _help),
    ".tables": (".tables", "protected tables, and your own", _tables),
    ".schema": (".schema TABLE", "columns with their public bounds and domains", _schema),
    ".budget": (".budget", "granted, spent, left", _budget),
    ".ledger": (".ledger", "your charges", _ledger),
    ".summaries": (".summaries", "stored summaries and synthetic tables", _summaries),
    ".epsilon": (".epsilon [X]", "what a statement costs; also SET VARIABLE dp_epsilon = X;", _epsilon),
    ".delta": (".delta [X]", "for keys without a declared domain, and Gaussian noise", _delta),
    ".explain": (".explain SELECT ...", "plan, cost and expected error; free", _explain),
    ".mode": (".mode table|csv|json", "or markdown: how answers are printed", _mode),
    ".save": (".save FILE", "the last answer as a new .csv, .json, .md or .parquet, with its error columns", _save),
    ".read": (".read FILE", "run the statements of a file", _read),
    ".quit": (".quit", "leave; Ctrl-D does too", _quit),
}


def run_command(shell: Prompt, line: str) -> Result | str | None:
    """Run a line that begins with a dot.

    Raises:
        ParameterError: P107, there is no such command; and what the command raises.
    """
    name, _, rest = line.strip().partition(" ")
    found = COMMANDS.get({".exit": ".quit"}.get(name, name))
    if found is None:
        raise ParameterError("P107", "command", name, "is not known. Type .help for the commands.")
    return found[2](shell, rest.strip())

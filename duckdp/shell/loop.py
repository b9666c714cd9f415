"""Prompt and pipe: lines in, answers out, errors said and gone on from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import duckdb

from duckdp.client.problems import Error
from duckdp.errors import DuckDPError
from duckdp.functions import FUNCTIONS
from duckdp.functions.macros import complete
from duckdp.result import MOST_SHOWN, Result
from duckdp.shell.analyst import Analyst, explain_error
from duckdp.shell.asking import Asker
from duckdp.shell.commands import COMMANDS, run_command
from duckdp.shell.history import History
from duckdp.shell.output import escape, render
from duckdp.shell.remote import Remote
from duckdp.shell.statements import blank, split

if TYPE_CHECKING:
    from duckdp.client.connection import Connection
    from duckdp.curator import Curator

WELCOME = "duckdp shell: you are the analyst {name}. Type SQL that ends with ; or .help, Ctrl-D to leave."
REHEARSAL = (
    "This is the data owner's rehearsal of an analyst, not a security boundary: it runs in the process that holds\n"
    "the data."
)
HINTS = {
    "P101": "Set it for the session with .epsilon 0.1",
    "Q404": "Set it for the session with .delta 1e-8",
    "B101": ".budget shows what is left, .explain what a statement would cost.",
}


class Shell:
    """One analyst's prompt: statements, commands, completion.

    Args:
        curator: whose data.
        name: of the analyst.
        out: prints an answer.
        err: prints everything else.

    Attributes:
        mode: one of ``FORMATS``.
        last: the answer that was printed last.
        failed: statements that ended in an error.
        ended: the person wants to leave.
    """

    def __init__(self, curator: Curator, name: str, *, out: Callable[[str], None], err: Callable[[str], None]) -> None:
        self._begin(Analyst(curator, name, tell=err), REHEARSAL, out, err)

    @classmethod
    def at(cls, con: Connection, name: str, *, out: Callable[[str], None], err: Callable[[str], None]) -> Shell:
        """The prompt of an analyst at a server.

        Args:
            con: to the server.
            name: of the analyst.
            out: prints an answer.
            err: prints everything else.
        """
        shell = cls.__new__(cls)
        shell._begin(Remote(con, name), "", out, err)
        return shell

    def _begin(self, asker: Asker, words: str, out: Callable[[str], None], err: Callable[[str], None]) -> None:
        self.analyst, self._welcome = asker, words
        self.last: Result | None = None
        self.mode = "table"
        self.failed = 0
        self.ended = False
        self._out, self._err = out, err
        self._depth = 0

    def read(self, lines: Iterable[str]) -> None:
        """Run statements and dot-commands from lines; what the last one leaves unfinished is run too."""
        if self._depth >= 8:
            self._say_error("P107: files read each other without end.")
            return
        self._depth += 1
        rest = ""
        try:
            for line in lines:
                rest = self._feed(rest, line.rstrip("\n"))
                if self.ended:
                    return
            if not blank(rest):
                self.run(rest.strip())
        finally:
            self._depth -= 1

    def prompt(self) -> None:
        """Ask for lines until the person leaves."""
        self._err(WELCOME.format(name=self.analyst.name))
        if self._welcome:
            self._err(self._welcome)
        self._err(self.analyst.left())
        history = History(self._words(), more=complete)
        rest = ""
        while not self.ended:
            try:
                line = input(self._ps1() if blank(rest) else "   ...> ")
            except EOFError:
                self._err("")
                return
            except KeyboardInterrupt:
                self._err("")
                rest = ""
                continue
            before, rest = rest, self._feed(rest, line)
            if rest == "" or blank(rest):
                history.add(f"{before}\n{line}")

    def run(self, text: str) -> None:
        """Run one statement or dot-command and print what comes of it."""
        try:
            if text.startswith("."):
                self._print(run_command(self, text))
            else:
                self._print(self.analyst.run(text, most=MOST_SHOWN if self.mode == "table" else None))
        except (DuckDPError, duckdb.Error, Error) as error:
            self._say_error(explain_error(error))
        except KeyboardInterrupt:
            self._say_error("E102: interrupted.")

    def _feed(self, rest: str, line: str) -> str:
        """Run what a line completes; returns what is still unfinished."""
        if blank(rest) and line.lstrip().startswith("."):
            self.run(line.strip())
            return ""
        statements, rest = split(f"{rest}\n{line}" if rest else line)
        for statement in statements:
            self.run(statement)
        return "" if blank(rest) and not rest.lstrip().startswith("/*") else rest

    def _print(self, found: Result | str | None) -> None:
        if isinstance(found, str):
            self._out(found)
        elif found is not None:
            self.last = found
            text, footer = render(found, self.mode)
            if text:
                self._out(text)
            if footer:
                self._err(footer)

    def _say_error(self, text: str) -> None:
        self.failed += 1
        hint = HINTS.get(text[:4])
        self._err(escape(text) + (f" {hint}" if hint else ""))

    def _ps1(self) -> str:
        try:
            left = self.analyst.left()
        except (DuckDPError, Error) as error:
            left = error.code or "no answer"
        return f"{self.analyst.name} [{left}]> "

    def _words(self) -> list[str]:
        tables, columns = self.analyst.tables(), self.analyst.columns()
        return [*tables, *columns, *FUNCTIONS, *COMMANDS, "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "count(*)"]

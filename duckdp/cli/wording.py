"""Errors as the command line says them: options as they are typed, and ways out as the commands that do the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection

#: Python's way out -> the command's. The first that fits a place is taken; a test knows of every one in our texts.
COMMANDS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), command)
    for pattern, command in (
        (r"curator\.(refresh|unfreeze|freeze)\(reason=\.\.\.\)", r"duckdp \1 SOURCE --reason ..."),
        (r'curator\.grant\("([^"]*)", epsilon=\.\.\.\)', r"duckdp grant SOURCE \1 --epsilon ..."),
        (
            r"curator\.grant\(\.\.\., raise_to=True, reason=\.\.\.\)",
            "duckdp grant SOURCE ANALYST --epsilon ... --raise --reason ...",
        ),
        (r"curator\.(grant|team|budget)\(\.\.\., delta=\.\.\.\)", r"duckdp \1 SOURCE ... --delta ..."),
        (r"curator\.budget\(epsilon=\.\.\.\)", "duckdp budget SOURCE --epsilon ..."),
        (r"curator\.protect\(\.\.\.\)", "duckdp protect SOURCE TABLE ..."),
        (r"protect\(bounds=\.\.\.\)", "duckdp protect SOURCE TABLE --bound ..."),
        (r"protect\(domains=\.\.\.\)", "duckdp protect SOURCE TABLE --domain ..."),
        (r"protect\(columns=\.\.\.\)", "duckdp protect SOURCE TABLE --column ..."),
        (r"Ledger\.repair_anchor with a reason", "duckdp ledger repair SOURCE --reason ..."),
        (r"Ledger\.put_into_service", "duckdp ledger restore SOURCE --reason ..."),
        (r"Ledger\.move_anchor and a reason", "duckdp ledger anchor SOURCE --to ... --reason ..."),
        (r"raise_to=True and reason=\.\.\.", "--raise and --reason ..."),
        (r"raise_to and a reason", "--raise and --reason"),
        (r"a data set of its own, open\(\.\.\., ledger=\.\.\.\)", "a data set of its own, --ledger FILE"),
        (r"open\(\.\.\., ledger=\.\.\.\)", "--ledger FILE"),
        (r"\banchor=\.\.\.", "--anchor or --anchor-command"),
        (r'\bunit="([^"]+)"', lambda found: f"--unit {shlex.quote(found[1])}"),
        (r"for example (epsilon|delta)=([0-9.e-]+)", r"for example --\1 \2"),
        (r"goes without error=;", "goes without --error;"),
        (r'say form="csv" or form="parquet"', "give --format"),
    )
)

_PARAMETER = re.compile(r'\A(P\d{3}: )(\w+)(?:\["([^"]*)"\])?=')
_PAIR = re.compile(r"=\((-?[\w.+-]+), (-?[\w.+-]+)\): ")


def as_options(text: str, options: Collection[str]) -> str:
    """An error's text with the parameter that it is about as it is typed.

    Args:
        text: of the error.
        options: without dashes, as Python would call them.

    >>> as_options('P104: bounds["age"]=(5, 1): lower must be below upper.', ["bound"])
    'P104: --bound age=5:1: lower must be below upper.'
    >>> as_options("P101: per_month='x': must be a decimal, for example --epsilon 4.", ["per_month"])
    "P101: --per-month 'x': must be a decimal, for example --per-month 4."
    """
    found = _PARAMETER.match(text)
    name = found and next((n for n in (found[2], found[2].removesuffix("s")) if n in options), None)
    if not found or not name:
        return text
    option, rest = "--" + name.replace("_", "-"), text[found.end() :]
    if found[3] is not None:
        return _PAIR.sub(r"=\1:\2: ", f"{found[1]}{option} {found[3]}={rest}", count=1)
    rest = rest.removeprefix("None") if rest.startswith("None: ") else rest
    wanted = "epsilon" if found[1] == "P101: " else "delta"
    rest = rest.replace(f"for example --{wanted} ", f"for example {option} ")
    return f"{found[1]}{option}{'' if rest.startswith(':') else ' '}{rest}"


def at_the_command_line(text: str) -> str:
    """An error's text with the commands to type.

    >>> at_the_command_line("C104: the source changed. The data owner calls curator.refresh(reason=...).")
    'C104: the source changed. The data owner calls duckdp refresh SOURCE --reason ....'
    """
    for pattern, command in COMMANDS:
        text = pattern.sub(command, text)
    return text

"""Errors as the command line says them: a way out that names a Python call names the command that does the same."""

from __future__ import annotations

import re

#: Python's way out -> the command's. The first that fits a place is taken; a test knows of every one in our texts.
COMMANDS = tuple(
    (re.compile(pattern), command)
    for pattern, command in (
        (r"curator\.(refresh|unfreeze|freeze)\(reason=\.\.\.\)", r"duckdp \1 SOURCE --reason ..."),
        (r'curator\.grant\("([^"]*)", epsilon=\.\.\.\)', r"duckdp grant SOURCE \1 --epsilon ..."),
        (
            r"curator\.grant\(\.\.\., raise_to=True, reason=\.\.\.\)",
            "duckdp grant SOURCE ANALYST --epsilon ... --raise --reason ...",
        ),
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
        (r'\bunit="([^"]+)"', r"--unit \1"),
        (r"for example (epsilon|delta)=([0-9.e-]+)", r"for example --\1 \2"),
    )
)


def at_the_command_line(text: str) -> str:
    """An error's text with the commands to type.

    >>> at_the_command_line("C104: the source changed. The data owner calls curator.refresh(reason=...).")
    'C104: the source changed. The data owner calls duckdp refresh SOURCE --reason ....'
    """
    for pattern, command in COMMANDS:
        text = pattern.sub(command, text)
    return text

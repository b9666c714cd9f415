"""Declarations from a file: TOML, ``curator.protect`` calls, or ``duckdp protect`` commands. Nothing in it is run."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from duckdp.arguments import path_text
from duckdp.errors import ParameterError
from duckdp.vault.protection import KNOWN

BY_COLUMN = ("bounds", "domains", "nulls", "other")


@dataclass(kw_only=True)
class Told:
    """A table's part of a file.

    Attributes:
        table: its name; None where the command line is to give it.
        figures: arguments of ``protect``.
        options: of ``duckdp protect`` lines, whose texts are read by the columns' types.
    """

    table: str | None
    figures: dict[str, Any] = field(default_factory=dict)
    options: list[Mapping[str, Any]] = field(default_factory=list)


def read_file(path: str, parse: Callable[[list[str]], Mapping[str, Any]]) -> list[Told]:
    """The declarations of a file, whichever of the three forms it has.

    Args:
        path: of the file.
        parse: options of ``duckdp protect`` from its arguments.

    Raises:
        ParameterError: P107, it is none of them, names something that ``protect`` does not know, or is not filled in.
    """
    try:
        text = Path(path_text(path, "from")).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise _not_a_file(path) from None
    if re.search(r"^\s*duckdp\s+protect\s", text, re.MULTILINE):
        found = _read_commands(path, text, parse)
    elif re.search(r"^\s*\w+\.protect\s*\(", text, re.MULTILINE):
        found = _read_calls(path, text)
    else:
        found = _read_toml(path, text)
    for told in found:
        for key in told.figures:
            if key not in KNOWN:
                raise ParameterError("P107", "from", key, f"is not one of table, {', '.join(KNOWN)}.")
        for key in BY_COLUMN:
            if not isinstance(told.figures.get(key, {}), dict):
                raise ParameterError("P107", key, told.figures[key], f"must be a table, [{key}].")
    return found


def _read_toml(path: str, text: str) -> list[Told]:
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        open_at = next(
            (i for i, line in enumerate(text.splitlines(), 1) if re.match(r"[^#]*[=\[,]\s*\.\.\.", line)), None
        )
        if open_at is not None:
            raise ParameterError(
                "P107", "from", path, f"line {open_at} is still to be filled in, or to be left out."
            ) from None
        raise _not_a_file(path) from None
    tables = raw.pop("table", None)
    if not isinstance(tables, list):
        return [Told(table=tables, figures=raw)]
    if raw:
        raise ParameterError("P107", "from", next(iter(raw)), "stands outside of the [[table]] it belongs to.")
    return [Told(table=t.get("name"), figures={k: v for k, v in t.items() if k != "name"}) for t in tables]


def _read_calls(path: str, text: str) -> list[Told]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        raise _not_a_file(path) from None
    found = []
    for node in tree.body:
        call = node.value if isinstance(node, ast.Expr) else None
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "protect"):
            raise ParameterError("P107", "from", path, f"line {node.lineno} is not a call of protect. Leave it out.")
        try:
            figures = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
            names = [ast.literal_eval(a) for a in call.args]
        except (ValueError, TypeError, SyntaxError):
            rule = f"line {node.lineno} holds something else than texts, numbers, lists and dictionaries. Write it out."
            raise ParameterError("P107", "from", path, rule) from None
        named = str(names[0]) if names else figures.pop("table", None)
        found.append(Told(table=named, figures=figures))
    return found


def _read_commands(path: str, text: str, parse: Callable[[list[str]], Mapping[str, Any]]) -> list[Told]:
    """Lines of one table together; SOURCE is that of the command line."""
    found: dict[str, Told] = {}
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        wrong = ParameterError("P107", "from", path, f"line {number} is not a duckdp protect command. Mend it.")
        try:
            words = shlex.split(line, comments=True)
            options = parse(words[2:]) if words[:2] == ["duckdp", "protect"] else None
        except (ValueError, click.ClickException):
            raise wrong from None
        if not words:
            continue
        if options is None:
            raise wrong
        table = str(options["table"])
        found.setdefault(table.lower(), Told(table=table)).options.append(options)
    return list(found.values())


def _not_a_file(path: str) -> ParameterError:
    return ParameterError(
        "P107",
        "from",
        path,
        "is neither TOML, nor calls of protect, nor duckdp protect lines; suggest prints all three.",
    )

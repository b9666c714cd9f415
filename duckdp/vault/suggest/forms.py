"""Lines of a declaration as Python calls, as TOML, or as commands; commented out where they are to be confirmed."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from duckdp.vault.suggest.lines import Line

Write = Callable[[str, Sequence[Line], str], str]
SECTIONS = ("bounds", "domains", "columns")
HINT = 'many columns at once: "lab_*" or "*::DOUBLE" in place of a name, or like a declared table'


def write_python(table: str, lines: Sequence[Line], source: str) -> str:  # noqa: ARG001 - all forms take it
    """The suggestion as a ``curator.protect`` call."""
    out = ["curator.protect(", f"    {_text(table)},"]
    out += [_put("    ", line, f"{line.name}={_value(line.value)},") for line in lines if line.section == "figure"]
    for section in SECTIONS:
        own = [line for line in lines if line.section == section]
        opening, closing = ("[", "]") if section == "columns" else ("{", "}")
        if own:
            out.append(f"    {section}={opening}" + (f"  # {HINT}" if section == "bounds" else ""))
            for line in own:
                item = _text(line.name) if section == "columns" else f"{_text(line.name)}: {_value(line.value)}"
                out.append(_put("        ", line, f"{item},"))
            out.append(f"    {closing},")
    return "\n".join([*out, *_notes("    ", lines), ")"])


def write_toml(table: str, lines: Sequence[Line], source: str) -> str:  # noqa: ARG001 - all forms take it
    """A ``[[table]]`` of a file for ``duckdp protect --file``."""
    out = ["[[table]]", f"name = {_text(table)}"]
    out += [
        _put("", line, f"{line.name} = {_value(line.value, square=True)}") for line in lines if line.section == "figure"
    ]
    columns = [line for line in lines if line.section == "columns"]
    if columns:
        out += ["columns = [", *(_put("    ", line, f"{_text(line.name)},") for line in columns), "]"]
    for section in ("bounds", "domains"):
        own = [line for line in lines if line.section == section]
        if own:
            out.append(f"[table.{section}]" + (f"  # {HINT}" if section == "bounds" else ""))
            out += [_put("", line, f"{_text(line.name)} = {_value(line.value, square=True)}") for line in own]
    return "\n".join([*out, *_notes("", lines)])


def write_cli(table: str, lines: Sequence[Line], source: str) -> str:
    """``duckdp protect`` commands: the first declares, each other one changes what it names."""
    start = f"duckdp protect {shlex.quote(source)} {shlex.quote(table)}"
    figures = [line for line in lines if line.section == "figure"]
    live = [line for line in figures if line.live]
    first = " ".join([start, *(_option(line) for line in live)])
    out = [f"{first}  # {'; '.join(f'{line.name}: {line.note}' for line in live)}"]
    out += [_put("", line, f"{start} {_option(line)}") for line in figures if not line.live]
    for line in lines:
        if line.section in SECTIONS and ("=" in line.name or not _option(line).isprintable()):
            out.append(f"## {_text(line.name)}: no option can say that; use another form")
        elif line.section in SECTIONS:
            out.append(_put("", line, f"{start} {_option(line)}"))
    return "\n".join([*out, *_notes("", lines)])


FORMS: dict[str, Write] = {"python": write_python, "toml": write_toml, "cli": write_cli}


def _put(indent: str, line: Line, text: str) -> str:
    return f"{indent}{'' if line.live else '# '}{text}" + (f"  # {line.note}" if line.note else "")


def _notes(indent: str, lines: Sequence[Line]) -> list[str]:
    return [f"{indent}## {_text(line.name)}: {line.note}" for line in lines if line.section == "note"]


def _text(text: str) -> str:
    """A string that Python, JSON and TOML read alike."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any, *, square: bool = False) -> str:
    if value is ...:
        return "..."
    if isinstance(value, (tuple, list)):
        inner = ", ".join(_value(v) for v in value)
        return f"({inner})" if isinstance(value, tuple) and not square else f"[{inner}]"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _option(line: Line) -> str:
    if line.section == "columns":
        return f"--column {shlex.quote(line.name)}"
    if line.section == "bounds":
        lower, upper = (_typed(v) for v in line.value)
        mark = ".." if ":" in lower + upper else ":"
        return f"--bound {shlex.quote(f'{line.name}={lower}{mark}{upper}')}"
    if line.section == "domains":
        row = io.StringIO()
        csv.writer(row, lineterminator="").writerow([_typed(v) for v in line.value])
        return f"--domain {shlex.quote(f'{line.name}={row.getvalue()}')}"
    if line.name in ("null_units", "unique"):
        option = line.name.replace("_", "-").removesuffix("s")
        return " ".join(f"--{option} {shlex.quote(_typed(v))}" for v in line.value)
    return f"--{line.name.replace('_', '-')} {shlex.quote(_typed(line.value))}"


def _typed(value: Any) -> str:
    return "..." if value is ... else str(value)

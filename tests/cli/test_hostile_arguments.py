"""Hostile arguments, Ctrl-C, closed pipes at the command line: one coded line and an exit code, never a traceback."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click import Argument, Choice, Command, Group, Option

import duckdp
from duckdp.cli import main
from duckdp.cli.wording import at_the_command_line
from tests.cli.conftest import Run, environment

HOSTILE = [
    "",
    " ",
    "\udcff",
    "x" * 5000,
    "-1",
    "0",
    "nan",
    "1e999999",
    "\x1b[2J\u202e",
    "=",
    ":",
    ",",
    "a=",
    "=1:2",
    "a=1:",
    "age=1..2",
    "'",
    '"',
    "\n",
    "..",
    "/",
    "/dev/null",
    "/proc/self/mem",
    "1" * 500,
    "DROP TABLE visits",
    "\u0661",
    "--",
    "*::DOUBLE=0:1",
    "café",
    "%s{}",
    "a\x00b",
    ".",
    "~",
    "$(id)",
]
KNOWN = {
    "source": "clinic.duckdb",
    "table": "visits",
    "analyst": "ana",
    "sql": "SELECT count(*) FROM visits",
    "epsilon": "0.001",
    "reason": "r",
    "name": "s",
    "owner": "ana",
    "to": "ana",
    "target": "copy.ledger",
    "row_cap": "100",
}
#: Commands that take long, or wait for a person.
LEFT_OUT = {"bench", "demo", "shell"}


def _commands(group: Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, Group):
            yield from _commands(command, (*path, name))
        elif name not in LEFT_OUT:
            yield (*path, name)


def _command(path: tuple[str, ...]) -> Command:
    found: Command = main
    for name in path:
        found = found.commands[name]  # type: ignore[attr-defined]
    return found


def _cases(path: tuple[str, ...]) -> Iterator[tuple[str, list[str], str]]:
    """Each parameter of a command in turn: its name, the arguments with a place for it, the place."""
    command = _command(path)
    for wanted in command.params:
        if isinstance(wanted.type, Choice) or getattr(wanted, "is_flag", False) or wanted.name in ("help", "version"):
            continue
        options, places = [], []
        for parameter in command.params:
            value = "?" if parameter is wanted else KNOWN.get(str(parameter.name), "x")
            if isinstance(parameter, Argument):
                places.append(value)
            elif isinstance(parameter, Option) and (parameter is wanted or parameter.required):
                options.append(f"{parameter.opts[0]}={value}")
        yield str(wanted.name), [*path, *options, "--", *places], "?"


@pytest.mark.parametrize("path", list(_commands(main)), ids="-".join)
def test_each_parameter(run: Run, clinic: Path, path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clinic.parent)
    wrong = []
    options = {
        option.strip("-").replace("-", "_") for p in _command(path).params if isinstance(p, Option) for option in p.opts
    }
    for i, (parameter, arguments, place) in enumerate(_cases(path)):
        for value in HOSTILE[(i + len(path[-1])) % 11 :: 11]:
            done = run(*[a.replace(place, value) for a in arguments])
            raw = done.exception is not None and not isinstance(done.exception, SystemExit)
            coded = re.match(r"(P|C|Q|B|E|N)\d{3}: ", done.stderr) is not None
            if raw or done.exit_code not in (0, 1, 2) or "Traceback" in done.output or "X101" in done.output:
                wrong.append(f"{parameter} = {value[:40]!r}: {done.exit_code} {done.exception!r} {done.output[-200:]}")
            elif (named := re.match(r"P\d{3}: (\w+?)s?[=\[]", done.stderr)) and named[1] in options:
                wrong.append(f"{parameter} = {value[:40]!r}: in Python's words: {done.stderr[:200]}")
            elif done.exit_code == 1 and not coded:
                wrong.append(f"{parameter} = {value[:40]!r}: no code: {done.stderr[:200]}")
    assert not wrong, "\n".join(wrong[:10])


WAITS = [0.0, 0.03, 0.1, 0.2, 0.3, 0.45, 0.6, 0.9, 1.3]


@pytest.mark.parametrize("wait", [pytest.param(w, marks=pytest.mark.slow) for w in WAITS] + [2.0])
def test_ctrl_c_at_any_time(clinic: Path, wait: float) -> None:
    """Whenever it comes after the program's first line, the process ends with 130 and no traceback, or was done.

    The first line is told from inside of it: before, a Ctrl-C is Python's own to hear.
    """
    code = (
        "from duckdp import __main__ as program\n"
        "begin = program._note_interrupts\n"
        "program._note_interrupts = lambda *given: (print('!', flush=True), begin(*given))[1]\n"
        "program.run()"
    )
    ask = "SELECT sex, count(*) AS n FROM visits GROUP BY sex"
    words = ["query", str(clinic), ask, "--analyst", "ana", "--epsilon", "0.01"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == b"!"
    time.sleep(wait)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (0, 130), errors.decode()
    assert b"Traceback" not in errors
    assert b"Exception ignored" not in errors
    if process.returncode == 130:
        assert errors.decode().splitlines()[-1].startswith("E102: ") or not errors


WHILE_LOADED = """
import enum, os, signal
from duckdp import __main__ as program
real, begin, hit = enum.EnumType.__call__, program._note_interrupts, []
def call(cls, *given, **named):
    if given[:1] == ("token_type",) and not hit:  # DuckDB's module makes it while it is loaded
        hit.append(os.kill(os.getpid(), signal.SIGINT))
    return real(cls, *given, **named)
program._note_interrupts = lambda *given: (begin(*given), setattr(enum.EnumType, "__call__", call))
program.run()
"""


def test_ctrl_c_while_a_compiled_module_is_loaded_is_heard_after_it(clinic: Path) -> None:
    """Raised into its beginning it would end the process with a core dump: DuckDB's module is made with nanobind."""
    words = ["query", str(clinic), "SELECT count(*) AS n FROM visits", "--analyst", "ana", "--epsilon", "0.01"]
    command = [sys.executable, "-c", WHILE_LOADED, *words]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (130, "E102: interrupted. What was done stays; run it again.\n")


AT_EACH_LINE = """
import io, linecache, signal, sys
from duckdp import __main__ as program

sys.argv = ["duckdp", "--version"]
program._run()  # what is imported late is there now
ends, reached = set(), True
while reached:
    at, seen, reached, begun = len(ends), 0, False, False
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def trace(frame, event, _):
        global seen, reached, begun
        if frame.f_code.co_filename != program.__file__:
            return None
        begun = begun or "_note_interrupts(" in linecache.getline(program.__file__, frame.f_lineno)
        if event == "line" and begun and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN and not reached:
            seen += 1
            if seen > at:
                reached = True
                raise KeyboardInterrupt
        return trace

    sys.stdout = sys.stderr = io.StringIO()
    try:
        sys.settrace(trace)
        program.run()
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:
        code = "raw"
    finally:
        sys.settrace(None)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    ends.add((at, code))
print(len(ends), sorted({code for _, code in ends}, key=str))
"""


def test_ctrl_c_at_each_line_of_the_beginning_and_the_end() -> None:
    """From the first line of the program that can hear it: no moment between the handler and what waits for it."""
    done = subprocess.run(
        [sys.executable, "-c", AT_EACH_LINE],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines, _, codes = done.stdout.splitlines()[-1].partition(" ")
    assert int(lines) > 15
    assert codes == "[0, 130]"


def test_a_reader_that_is_gone(clinic: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "duckdp", "catalog", str(clinic)]
    done = subprocess.run(command, env=environment(), stdout=write, stderr=subprocess.PIPE, timeout=120, check=False)
    os.close(write)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


def _texts() -> Iterator[str]:
    """Every text in the package that is no docstring, with X for what is filled in."""
    for path in Path(duckdp.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
        docs |= {id(v) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for v in n.values}
        if path.parent.name in ("cli", "suggest", "shell", "demo") or path.name == "owner.py":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                yield node.value


PYTHON = re.compile(r"curator\.(refresh|freeze|unfreeze|grant|budget|protect)|Ledger\.[a-z]|raise_to|\w=\.\.\.")


def test_every_way_out_is_a_command() -> None:
    found = [text for text in _texts() if PYTHON.search(text)]
    assert len(found) > 10
    assert [t for t in found if PYTHON.search(at_the_command_line(t))] == []


def test_ways_out_at_the_command_line_are_commands(run: Run, clinic: Path) -> None:
    ask = ("query", clinic, "SELECT count(*) FROM visits", "--epsilon", "0.1", "--analyst")
    assert "duckdp grant SOURCE nobody --epsilon" in run(*ask, "nobody").stderr
    assert "--raise and --reason" in run("budget", clinic, "--epsilon", "50", "--delta", "1e-5").stderr
    run("freeze", clinic)
    assert "duckdp unfreeze SOURCE --reason" in run(*ask, "ana").stderr
    clinic.with_name("clinic.ledger.anchor").unlink()
    assert "duckdp ledger repair SOURCE --reason" in run("ledger", clinic).stderr

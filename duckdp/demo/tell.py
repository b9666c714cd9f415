"""``duckdp demo``: runs the script data/story.py line by line, and shows each line before what it prints.

What is shown is what is run: the lines come from the script's own text. The script, its data and what it makes stay
in one folder.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckdp.errors import DuckDPError, ParameterError

if TYPE_CHECKING:
    from rich.console import Console

DATA = Path(__file__).resolve().parent / "data"
MARK = ".duckdp-demo"
SHIPPED = ("story.py", "rand_hie.parquet", "README.md")
SLOW_SECONDS = 1.0  # until a step shows that it is at work


@dataclass(frozen=True, kw_only=True)
class Step:
    """One statement of the story.

    Attributes:
        heading: comment lines that stand before it, empty when there is none.
        text: as written.
        line: where it begins, from 1.
    """

    heading: str
    text: str
    line: int


def run_demo(folder: str, *, ask: Callable[[str], bool] | None = None) -> None:
    """Run the story in a folder.

    Args:
        folder: made if missing. One that holds anything but an earlier demo is left alone.
        ask: asks a person whether to go on in the folder of an earlier demo.

    Raises:
        ParameterError: P107, the folder holds something else. DuckDPError: a step failed.
    """
    from rich.console import Console

    place = Path(folder)
    again = _prepare(place)
    if again and ask is not None and not ask(f'"{folder}" holds an earlier demo. Go on there, under its budget?'):
        return
    out = Console(highlight=False, soft_wrap=True)
    begun = time.monotonic()
    if again:
        out.print(
            f'"{folder}" holds an earlier demo: what was answered there is answered again, for free.', markup=False
        )
    with _inside(place):
        _tell(list(read_story(Path("story.py").read_text(encoding="utf-8"))), out)
    out.print(f"\nDone in {time.monotonic() - begun:.0f} s.", style="bold", markup=False)
    out.print(_farewell(folder), markup=False)


def read_story(text: str) -> Iterator[Step]:
    """A script's statements, each with the comment before it."""
    lines = text.splitlines()
    before = 0
    for node in ast.parse(text).body:
        assert node.end_lineno is not None
        gap = [line.removeprefix("# ") for line in lines[before : node.lineno - 1] if line.startswith("# ")]
        heading = next((line for line in gap if line[:1].isdigit()), "")
        yield Step(heading=heading, text="\n".join(lines[node.lineno - 1 : node.end_lineno]), line=node.lineno)
        before = node.end_lineno


def _prepare(place: Path) -> bool:
    """Make the folder, or recognize an earlier demo's; returns whether it is one."""
    if place.exists() and not place.is_dir():
        raise ParameterError("P107", "folder", str(place), "is not a folder. Give another --folder.")
    again = (place / MARK).is_file()
    if not again and place.is_dir() and any(place.iterdir()):
        raise ParameterError(
            "P107", "folder", str(place), "holds files of others, which are left alone. Give another --folder."
        )
    try:
        place.mkdir(parents=True, exist_ok=True)
        (place / MARK).write_text("made by duckdp demo\n", encoding="utf-8")
        for name in SHIPPED:
            if not (place / name).exists():
                shutil.copyfile(DATA / name, place / name)
    except OSError:
        raise ParameterError("P107", "folder", str(place), "cannot be written to. Give another --folder.") from None
    return again


def _tell(steps: list[Step], out: Console) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        for step in steps:
            if step.heading:
                out.print(f"\n{step.heading}", style="bold", markup=False)
            first, *rest = step.text.splitlines()
            shown = "\n".join([f">>> {first}", *(f"... {line}" for line in rest)])
            out.print(shown, style="cyan", markup=False)
            printed = _run(step, names, out)
            if printed:
                out.print(printed.rstrip("\n"), markup=False)
    finally:
        curator = names.get("curator")
        if curator is not None:
            curator.close()


def _run(step: Step, names: dict[str, Any], out: Console) -> str:
    """Run one statement; returns what it printed."""
    import duckdb

    code = compile("\n" * (step.line - 1) + step.text, "story.py", "exec")
    printed = io.StringIO()
    try:
        with _patience(out), contextlib.redirect_stdout(printed):
            exec(code, names)
    except duckdb.Error as error:
        raise ParameterError(
            "P107",
            "demo",
            f"story.py, line {step.line}",
            f"DuckDB could not run it ({type(error).__name__}). Close what uses its files, or give another --folder.",
        ) from None
    except DuckDPError:
        out.print(printed.getvalue(), markup=False)
        raise
    return printed.getvalue()


@contextlib.contextmanager
def _patience(out: Console) -> Iterator[None]:
    """On a terminal, a sign of life when something takes longer than a second."""
    if not out.is_terminal:
        yield
        return
    from rich.console import Console

    status = Console(file=sys.__stdout__).status("working ...")
    timer = threading.Timer(SLOW_SECONDS, status.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


@contextlib.contextmanager
def _inside(place: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)


def _farewell(folder: str) -> str:
    lines = ["", f"In {folder}:"]
    lines += [
        f"  {name.ljust(20)}{text}"
        for name, text in (
            ("clinic.duckdb", "the private table; analysts never see this file"),
            ("clinic.ledger", "budgets, charges and released answers, with its .anchor"),
            ("synthetic.parquet", "the synthetic table: share it"),
            ("synthetic.duckdb", "the same in the format of DuckDB 1.0, for older shells and BI tools"),
            ("story.py", "this story as a script; README.md says where the data come from"),
        )
    ]
    return "\n".join(
        [
            *lines,
            "",
            "Next:",
            f"  cd {folder}",
            "  duckdp shell clinic.duckdb --analyst ana --epsilon 0.1",
            '  duckdp query clinic.duckdb --analyst ana --epsilon 0.1 "SELECT sex, avg(age) FROM care GROUP BY sex"',
            "  duckdp ledger clinic.duckdb",
            '  duckdb synthetic.duckdb -c "FROM people LIMIT 5"   # with DuckDB\'s own shell',
            "  duckdp suggest your.duckdb          # then protect, budget, grant: see duckdp --help",
        ]
    )

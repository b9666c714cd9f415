"""Commands that show duckdp at work: demo, bench."""

from __future__ import annotations

import importlib
from typing import Any

import click

from duckdp.errors import ParameterError


@click.command()
@click.option("--folder", default="duckdp-demo", show_default=True, metavar="FOLDER", help="Where its files go.")
@click.option("--yes", is_flag=True, help="Do not ask before going on in the folder of an earlier demo.")
def demo(folder: str, yes: bool) -> None:
    """The whole story on real data, in a few seconds.

    Running it again in the same folder asks the same questions, whose answers are then free.
    """
    from duckdp.demo.tell import run_demo

    run_demo(folder, ask=None if yes else _ask)


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Measure duckdp against plain DuckDB on this machine; bench --help for its options."""
    try:
        found: Any = importlib.import_module("duckdp.bench")
    except ModuleNotFoundError:
        raise ParameterError("P107", "bench", "duckdp.bench", "is not part of this installation.") from None
    code = found.main(list(arguments))
    if isinstance(code, int) and code:
        raise click.exceptions.Exit(code)


def _ask(question: str) -> bool:
    """Ask a person; where there is none, go on."""
    from duckdp.cli.common import is_terminal

    return not is_terminal() or click.confirm(question, default=True)

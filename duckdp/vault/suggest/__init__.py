"""Declarations to fill in, from the schema alone: no row is read.

::

    schema.py   what the schema says: keys, foreign keys, CHECK constraints, defaults
    keys.py     which column may name a person, and how sure that is
    ties.py     tables without it: links to those that have it, and rows that are no one's
    lines.py    one line per figure and column       forms.py   the lines as Python, TOML or commands
"""

from __future__ import annotations

from duckdp.catalog.table import closest
from duckdp.errors import CatalogError, ParameterError, printable
from duckdp.vault.engine import Engine
from duckdp.vault.suggest.forms import FORMS
from duckdp.vault.suggest.keys import propose_keys
from duckdp.vault.suggest.lines import suggest_lines
from duckdp.vault.suggest.schema import read_schema

__all__ = ["suggest"]


def suggest(engine: Engine, table: str | None, form: str) -> str:
    """Ready declarations of one table or of all, with the public figures left to fill in.

    Raises:
        CatalogError: C101. ParameterError: P107.
    """
    write = FORMS.get(form)
    if write is None:
        raise ParameterError("P107", "form", form, f"must be one of {', '.join(FORMS)}.")
    schema = read_schema(engine)
    if table is not None and table.lower() not in schema:
        raise CatalogError("C101", f'the source has no table "{table[:63]}". {closest(table, schema)}', table=table)
    keys = propose_keys(schema)
    names = list(keys) if table is None else [table.lower()]
    source = engine.source.data if isinstance(engine.source.data, str) else "SOURCE"
    parts = [
        f'## "{name}": {printable(keys[name].why)}'
        if table is None and keys[name].left_out
        else write(name, suggest_lines(schema[name], keys[name]), source)
        for name in names
    ]
    return "\n\n".join(parts)

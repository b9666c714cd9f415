"""The shell: a SQL prompt of one analyst, run by the data owner.

::

    analyst.py     runs a statement: gate, or the analyst's own DuckDB      statements.py  text to statements
    loop.py        prompt and pipe                                          commands.py    .help, .tables, ...
    output.py      table, csv, json                                         history.py     readline, completion

A local shell shares a process with the data: it rehearses an analyst and is not a security boundary.
"""

from duckdp.shell.analyst import Analyst, explain_error
from duckdp.shell.loop import Shell
from duckdp.shell.output import FORMATS, render

__all__ = ["FORMATS", "Analyst", "Shell", "explain_error", "render"]

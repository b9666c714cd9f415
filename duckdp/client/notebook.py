"""``%%dp``: a notebook's cell as a private statement, shown with its error bars."""

from __future__ import annotations

import shlex
from typing import Any

from duckdp.client.connection import Connection
from duckdp.errors import ParameterError

_USAGE = "is not known. Write %%dp CONNECTION [--epsilon X] [-o NAME], then the statement."


def load_ipython_extension(ipython: Any) -> None:
    """Called by ``%load_ext duckdp``: brings the cell magic ``%%dp``.

    ``%%dp con --epsilon 0.1 -o found`` runs the cell on the connection or session ``con`` of the notebook, at that
    epsilon, and keeps the answer as ``found``; it is shown either way.
    """

    def dp(line: str, cell: str) -> Any:
        return _answer(line, cell, ipython.user_ns)

    ipython.register_magic_function(dp, magic_kind="cell", magic_name="dp")


def _answer(line: str, cell: str, names: dict[str, Any]) -> Any:
    """What a cell gives."""
    words = shlex.split(line)
    given: dict[str, str] = {}
    asker = words.pop(0) if words and not words[0].startswith("-") else ""
    while words:
        option = words.pop(0)
        if option not in ("--epsilon", "-o") or not words:
            raise ParameterError("P107", "%%dp", option, _USAGE)
        given[option] = words.pop(0)
    found: Any = names.get(asker)
    if not (isinstance(found, Connection) or (hasattr(found, "sql") and hasattr(found, "analyst"))):
        rule = "is no connection or session of this notebook. con = duckdp.connect('postgres://ana@localhost/clinic')."
        raise ParameterError("P107", "%%dp", asker, rule)
    text, epsilon = cell.strip().rstrip(";"), given.get("--epsilon")
    if isinstance(found, Connection):
        answer = _asked(found, text, epsilon)
    else:
        answer = found.sql(text) if epsilon is None else found.sql(text, epsilon=epsilon)
    if "-o" in given:
        names[given["-o"]] = answer
    return answer


def _asked(con: Connection, text: str, epsilon: str | None) -> Any:
    """The answer on a connection, at an epsilon that holds for this statement alone."""
    if epsilon is None:
        return con.execute(text)._result
    before = con.sql("SHOW dp.epsilon").rows()[0][0]
    con.execute("SET dp.epsilon = '" + epsilon.replace("'", "''") + "'")
    try:
        return con.execute(text)._result
    finally:
        con.execute("SET dp.epsilon = '" + before.replace("'", "''") + "'" if before else "RESET dp.epsilon")

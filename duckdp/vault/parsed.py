"""Printed statements that DuckDB has parsed before: parsing is up to half of what it takes to begin a small read.

Small questions differ in their figures, and their text is else the same. So the figures of a text, written with an
exponent as ``compiler/printing.py`` writes a DOUBLE, become parameters, equal ones the same; what is left is parsed
once. The tree is the one that the text itself has, with a bound DOUBLE where a literal was.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Sequence
from contextlib import suppress

import duckdb

MOST_KEPT = 64  # statements
MOST_TEXT = 20_000  # characters of one that is kept

#: Texts and names in quotes; figures that no word or other figure ends with.
_PARTS = re.compile(r"""'[^']*'|"[^"]*"|(?<![\w$.])(\d+(?:\.\d+)?e[+-]?\d+)(?![\w.])""")


def without_figures(sql: str, given: int) -> tuple[str, list[float]]:
    r"""A text with its DOUBLE figures as parameters, numbered after those it has, and their values.

    >>> without_figures('SELECT sum("1e0") FROM t WHERE x > 1.5e0 AND y < 1.5e0 AND z = \'2e0\' AND $1', 1)
    ('SELECT sum("1e0") FROM t WHERE x > $2 AND y < $2 AND z = \'2e0\' AND $1', [1.5])
    """
    places: dict[str, int] = {}

    def parameter(found: re.Match[str]) -> str:
        if found[1] is None or math.isinf(float(found[1])):
            return found[0]
        return f"${given + places.setdefault(found[1], len(places) + 1)}"

    return _PARTS.sub(parameter, sql), [float(text) for text in places]


class Parsed:
    """At most :data:`MOST_KEPT` statements of one instance, by their texts without figures."""

    def __init__(self) -> None:
        self._kept: dict[str, duckdb.Statement | None] = {}
        self._lock = threading.Lock()

    def execute(
        self, cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object]
    ) -> duckdb.DuckDBPyConnection:
        """Execute a printed statement, parsed before if it can be; what DuckDB wants literal is executed as printed.

        Raises:
            duckdb.Error: of the statement as it is printed.
        """
        if len(sql) > MOST_TEXT:
            return cursor.execute(sql, list(parameters))
        text, figures = without_figures(sql, len(parameters))
        statement = self._parse(cursor, text)
        if statement is not None:
            try:
                return cursor.execute(statement, [*parameters, *figures])
            except duckdb.InterruptException:
                raise
            except duckdb.Error:  # a figure that has to be a literal; what is wrong with the rows shows again
                done = cursor.execute(sql, list(parameters))
                self._keep(text, None)
                return done
        return cursor.execute(sql, list(parameters))

    def _parse(self, cursor: duckdb.DuckDBPyConnection, text: str) -> duckdb.Statement | None:
        if text not in self._kept:
            found = None
            with suppress(duckdb.Error):
                (found,) = cursor.extract_statements(text)
            self._keep(text, found)
            return found
        return self._kept[text]

    def _keep(self, text: str, statement: duckdb.Statement | None) -> None:
        with self._lock:
            if len(self._kept) >= MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[text] = statement

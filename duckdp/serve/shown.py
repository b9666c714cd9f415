"""Stored synthetic tables as tables of an analyst's instance: rows of released figures, read like any other, free.

Each is a view from the beginning, so that every client sees its columns. The first statement that names it fetches its
rows, once; from then on they are a table of the instance, and pages, filters and joins ask nobody.
"""

from __future__ import annotations

import threading
from contextlib import suppress

import duckdb

from duckdp.compiler.printing import quote
from duckdp.texts import sql_text

Listed = list[tuple[str, int, str]]  # names as dp_synthesize takes them, the charge of each, what it is about


class Shown:
    """The synthetic tables of one instance.

    Args:
        con: of the instance, with the dp functions.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        self._listed: dict[str, tuple[int, str]] = {}
        self._here: set[str] = set()
        self._lock = threading.Lock()

    def tell(self, listed: Listed) -> None:
        """Show what there is now; what the analyst made under such a name stays."""
        for name, charge, about in listed:
            if self._listed.get(name) != (charge, about):
                self._here.discard(name)
                with suppress(duckdb.Error):
                    self._show(name, f"dp_synthesize({sql_text(name)})", about)
                    self._listed[name] = charge, about
        for name in set(self._listed) - {name for name, _, _ in listed}:
            del self._listed[name]
            with suppress(duckdb.Error), self._con.cursor() as cursor:
                cursor.execute(f"DROP VIEW IF EXISTS {quote(name)}")

    def fetch(self, text: str) -> None:
        """Bring the rows of those that a statement names; where that fails, the statement itself will say why."""
        lower = text.lower()
        for name in [name for name in self._listed if name.lower() in lower and name not in self._here]:
            with self._lock, suppress(duckdb.Error):
                if name in self._here or name not in self._listed:
                    continue
                charge, about = self._listed[name]
                rows = f"pgc.{quote(f'rows of {name} {charge}')}"
                with self._con.cursor() as cursor:
                    cursor.execute(f"CREATE TABLE IF NOT EXISTS {rows} AS FROM dp_synthesize({sql_text(name)})")
                self._show(name, rows, about)
                self._here.add(name)

    def _show(self, name: str, source: str, about: str) -> None:
        with self._con.cursor() as cursor:
            cursor.execute(f"CREATE OR REPLACE VIEW {quote(name)} AS FROM {source}")
            cursor.execute(f"COMMENT ON VIEW {quote(name)} IS {sql_text(f'synthetic: {about}')}")

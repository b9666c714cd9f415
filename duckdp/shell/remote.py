"""One analyst's statements at a server, for the prompt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duckdp.core.types import parse_delta, parse_epsilon
from duckdp.result import MOST_SHOWN, Result, plain_result
from duckdp.texts import sql_text

if TYPE_CHECKING:
    from duckdp.client.connection import Connection

_OWN = (
    "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND schema_name <> 'pgc' UNION ALL SELECT view_name "
    "FROM duckdb_views() WHERE NOT internal AND schema_name <> 'pgc' AND view_name NOT LIKE 'dp\\_%' ESCAPE '\\' "
    "ORDER BY 1"
)


class Remote:
    """Asks a server for one analyst.

    Args:
        con: to it.
        name: of the analyst.
    """

    def __init__(self, con: Connection, name: str) -> None:
        self._con, self.name = con, name

    @property
    def epsilon(self) -> str | None:
        """What a statement costs unless it says otherwise: the setting dp.epsilon."""
        return self._shown("epsilon") or None

    def set_epsilon(self, text: str) -> None:
        """Set what a statement costs.

        Raises:
            ParameterError: P101.
        """
        parse_epsilon(text)
        self._con.execute(f"SET dp.epsilon = {sql_text(text)}")

    @property
    def delta(self) -> str:
        """The delta of statements over protected tables: the setting dp.delta."""
        return self._shown("delta") or "0"

    def set_delta(self, text: str) -> None:
        """Set the delta of statements over protected tables.

        Raises:
            ParameterError: P102.
        """
        parse_delta(text)
        self._con.execute(f"SET dp.delta = {sql_text(text)}")

    def left(self) -> str:
        """What is left of the tightest limit that is listed, in words."""
        rows = [row for row in self._con.sql("SELECT scope, remaining FROM dp_budget()") if row[1]]
        own = [row for row in rows if row[0] == "analyst"] or rows
        return f"{own[0][1]} left" if own else ""

    def tables(self) -> list[str]:
        """Names of the protected tables."""
        return list(dict.fromkeys(str(row[0]) for row in self.catalog()))

    def columns(self) -> list[str]:
        """Names of the protected tables' columns."""
        return list(dict.fromkeys(str(row[1]) for row in self.catalog() if row[1]))

    def own(self) -> list[str]:
        """Names of the analyst's own tables and views at the server."""
        return [str(row[0]) for row in self._con.sql(_OWN)]

    def catalog(self) -> Result:
        """What is declared, a row a column, the table's name first."""
        return self._con.sql("FROM dp_catalog()")

    def budget(self) -> Result:
        """What was granted, was spent and is left."""
        return self._con.sql("FROM dp_budget()")

    def ledger(self) -> Result:
        """The analyst's own charges, oldest first."""
        return self._con.sql("FROM dp_ledger()")

    def summaries(self) -> Result:
        """Stored summaries and synthetic tables."""
        return self._con.sql("FROM dp_summaries()")

    def explain(self, text: str) -> Result:
        """Plan, cost and expected error of a statement; free."""
        return self._con.sql(f"EXPLAIN {text}")

    def run(self, text: str, *, most: int | None = MOST_SHOWN) -> Result:
        """Run one statement; Ctrl-C cancels it at the server.

        Args:
            text: one statement.
            most: rows to keep of what has no error bars; None for all.

        Raises:
            Error: refused, or failed after the charge (E1xx).
        """
        found = self._con.execute(text)
        if found.description is None:
            return Result(columns=[])
        answer = found.result
        if most is None or len(answer) <= most or answer.source:
            return answer
        cut = plain_result(answer.names, answer.rows()[:most], [c.type for c in answer.columns])
        return replace(cut, notes=[*answer.notes, "there are more rows"])

    def _shown(self, name: str) -> str:
        return str(self._con.sql(f"SHOW dp.{name}").rows()[0][0])

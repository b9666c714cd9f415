"""What the data owner says of tables whose rows are no one's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from duckdp.catalog.table import Table, closest
from duckdp.errors import CatalogError
from duckdp.ledger import Ledger
from duckdp.vault.dataset import DataSet


class Publishing(ABC):
    """Methods of ``Curator`` for public tables."""

    ledger: Ledger
    data: DataSet

    @abstractmethod
    def _show(self, table: Table) -> None:
        """Show a table's columns in all instances of analysts."""

    def publish(self, table: str, *, columns: Iterable[str] | None = None, reason: str | None = None) -> Table:
        """Declare a table whose rows are no one's: codes, calendars, price lists. Any join with it is allowed.

        This is the owner's promise, which nothing can check: no row of it is, or was computed from, what somebody of
        the protected tables did (not ``SELECT DISTINCT`` of one of them either). What its columns contain, and how
        often, is read, kept with the declaration and told to analysts; a refresh reads it again.

        Args:
            table: a base table, a Parquet relation, or a view that selects columns of one base table by a predicate.
            columns: those that analysts may use; all whose type has a rule by default.
            reason: for the log.

        Raises:
            CatalogError: C101, C102, C104, C105, C106, C108; C109, it was charged as a protected table; C111, it is
                one, or its name is taken. ParameterError: P105, P107.
        """
        made = self.data.publish(table, columns=columns, reason=reason)
        self._show(made)
        return made

    def unpublish(self, table: str, *, reason: str) -> None:
        """Take a public table out of what analysts may use.

        Raises:
            CatalogError: C101, there is no such public table.
        """
        if table.lower() not in self.data.published:
            known = closest(table[:63], self.data.published)
            raise CatalogError("C101", f'table "{table[:63]}" is not public here. {known}', table=table)
        self.ledger.drop_table(table.lower(), reason)

    @property
    def published(self) -> dict[str, Table]:
        """Public tables by lower-case name, fresh from the ledger."""
        return self.data.published

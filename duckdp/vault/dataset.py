"""The data set that is open: its rows, its ledger, its declarations, its versions. A desk stands on it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from duckdp.catalog.table import Column, Table, load_table, missing_table
from duckdp.compiler.parse import names_any
from duckdp.core.types import Neighbours
from duckdp.core.watch import Tell
from duckdp.errors import BudgetError, CatalogError, ParameterError
from duckdp.ledger import DataSetState
from duckdp.ledger.places import Where
from duckdp.ledger.words import check_reason
from duckdp.vault.accepting import accept_changed, accept_first
from duckdp.vault.computed import require_stored
from duckdp.vault.life import Life
from duckdp.vault.linking import check_all
from duckdp.vault.opening import engine_for
from duckdp.vault.public_values import public_answer, public_values
from duckdp.vault.publishing import publish_table, republished


class DataSet:
    """Private rows and what stands about them, open in this process.

    Args:
        data: as :func:`duckdp.open` takes it.
        ledger: path of the ledger's file.
        anchor: where the ledger's newest state is known.
        snapshot: copy the data.
        memory: that private reads may take, as "4GB".
        progress: told (stage, share done) while the source is read; the first :attr:`on_progress`.

    Attributes:
        engine: the private instance.
        ledger: budgets, charges and releases.
        life: what is open, and its end.
        on_progress: told (stage, share done) of long work that brings no progress of its own.

    Raises:
        CatalogError: C104, C107, C108. LedgerError: B2xx.
    """

    def __init__(
        self,
        data: object,
        *,
        ledger: str,
        anchor: Where | None = None,
        snapshot: bool = False,
        memory: str | None = None,
        progress: Tell | None = None,
    ) -> None:
        self.engine = engine_for(data, snapshot=snapshot, memory=memory)
        try:
            self.ledger, self._fingerprint = accept_first(self.engine, ledger, progress, anchor)
        except BaseException:
            self.engine.close()
            raise
        self.life = Life(self.engine, self.ledger)
        self.on_progress: Tell | None = progress
        self._lock = threading.RLock()
        self._tables: dict[str, Table] = {}
        self._known: dict[str, Table] = {}  # those, and public ones
        self._loaded = -1  # version of the declarations in _tables
        self._stored: set[Table] = set()  # declarations of which no column is computed

    # ---- declarations -------------------------------------------------------------------------------------------

    @property
    def tables(self) -> dict[str, Table]:
        """Declarations by lower-case name, fresh from the ledger (other processes may declare too)."""
        return self.tables_of(self.ledger.state())

    def tables_of(self, state: DataSetState) -> dict[str, Table]:
        """:attr:`tables`, where the ledger's state is at hand."""
        version = state.catalog_version
        with self._lock:
            if version != self._loaded:
                self._known = {name: load_table(text) for name, text in self.ledger.tables().items()}
                self._tables = {name: table for name, table in self._known.items() if table.public is None}
                self._loaded = version
            return self._tables

    def known_of(self, state: DataSetState) -> dict[str, Table]:
        """Protected and public tables by lower-case name."""
        with self._lock:
            self.tables_of(state)
            return self._known

    @property
    def published(self) -> dict[str, Table]:
        """Public tables by lower-case name."""
        return {name: t for name, t in self.known_of(self.ledger.state()).items() if t.public is not None}

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the source that is open and was accepted."""
        return self._fingerprint

    def publish(self, name: object, *, columns: Iterable[str] | None, reason: str | None) -> Table:
        """Declare that a table's rows are no one's.

        Raises:
            CatalogError: C101, C102, C104 to C106, C108, C109, C111. ParameterError: P107.
        """
        self.life.require()
        self.require_current()
        fingerprint = self._fingerprint
        return publish_table(self.engine, self.ledger, name, columns=columns, fingerprint=fingerprint, reason=reason)

    def public_values(self, table: Table, columns: Sequence[Column]) -> list[list[Any]]:
        """Columns of a public table as they stand, side by side.

        Raises:
            CatalogError: C103, C104: it is not as it was declared; C108.
        """
        self.life.require()
        self.version_of(table, self.require_current())
        return public_values(self.engine, table, columns)

    def public_answer(self, table: Table, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """The rows of a SELECT of ours over a public table alone; see ``vault.public_values``.

        Raises:
            CatalogError: C103, C104: it is not as it was declared; C108.
        """
        self.life.require()
        self.version_of(table, self.require_current())
        return public_answer(self.engine, table, sql, values)

    def table(self, name: object) -> Table:
        """The declaration of a protected table, by its name.

        Raises:
            CatalogError: C101. ParameterError: P107, no name.
        """
        if not isinstance(name, str):
            raise ParameterError("P107", "table", name, "must be the name of a table.")
        found = self.tables.get(name.lower())
        if found is None:
            raise missing_table(name[:63], self.tables)
        return found

    def version_of(self, table: Table, state: DataSetState | None = None) -> int:
        """Version of the declarations, among which that of ``table`` still stands as it was planned for.

        Args:
            table: the declaration, or a relation of several.
            state: the ledger's; None: as it stands now.

        Raises:
            CatalogError: C103; C105, a column of it is generated.
        """
        with self._lock:
            for base in table.bases:
                if base not in self._stored:  # declared before generated columns were refused
                    require_stored(self.engine, base)
                    self._stored.add(base)
                if self.known_of(state or self.ledger.state()).get(base.name) != base:
                    raise CatalogError(
                        "C103", "the declaration changed since the query was planned. Run it again.", table=base.name
                    )
                checks = base.link is not None or bool(base.unique)
                if checks and base.checked != self._fingerprint:
                    raise CatalogError(
                        "C104",
                        f'what is unique in "{base.name}" was not seen of today\'s data. The data owner calls '
                        "curator.refresh(reason=...).",
                        table=base.name,
                    )
                if base.public is not None and base.public.source != self._fingerprint:
                    raise CatalogError(
                        "C104",
                        f'what is known of public "{base.name}" is not of today\'s data. The data owner calls '
                        "curator.refresh(reason=...).",
                        table=base.name,
                    )
            return self._loaded

    def names_protected(self, text: str) -> bool:
        """Whether a statement names a protected or public table (then the gate decides); DESCRIBE is for its stub."""
        return names_any(text, set(self.known_of(self.ledger.state())))

    # ---- versions -----------------------------------------------------------------------------------------------

    def require_current(self) -> DataSetState:
        """The data set's state, if the source is the accepted one.

        Raises:
            CatalogError: C104.
        """
        state = self.ledger.state()
        if self.engine.changed() or state.source != self._fingerprint:
            raise CatalogError("C104", "the source changed. The data owner calls curator.refresh(reason=...).")
        return state

    def refresh(self, reason: str) -> int:
        """Accept changed data: a new data version under the same budget.

        Raises:
            CatalogError: C103, a protected table no longer has its declared schema; C105, C107, C108.
            ParameterError: P107, the reason is none; all stays as it is.
        """
        self.life.require()
        check_reason(reason)
        self._fingerprint = ""  # nothing is answered (C104) until all is read and accepted below
        with self._lock:
            self._stored.clear()
        tables = self.tables.values()
        fingerprint, version = accept_changed(self.engine, self.ledger, tables, reason, self.on_progress)
        fresh = [republished(self.engine, table, fingerprint) for table in self.published.values()]
        fresh += check_all(self.engine, self.tables.values(), fingerprint)
        self.ledger.save_tables({table.name: table.declaration for table in fresh}, reason=reason)
        self._fingerprint = fingerprint
        return version

    # ---- what releases follow from ------------------------------------------------------------------------------

    @property
    def salt(self) -> int:
        """Secret 64 bits that key the choice of groups; fixed for the data set."""
        return int.from_bytes(self.ledger.salt[:8], "big")

    @property
    def neighbours(self) -> Neighbours:
        """The data set's neighbour relation; a budget must have been set.

        Raises:
            BudgetError: B107, no budget has been set.
        """
        found = self.ledger.state().neighbours
        if found is None:
            raise BudgetError("B107", "no budget has been set. The data owner calls curator.budget(epsilon=...).")
        return found

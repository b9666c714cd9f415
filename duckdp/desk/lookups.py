"""What questions need of the data set and nobody is charged for: declarations, limits, what is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from duckdp.catalog.table import Column, Table
from duckdp.compiler.clock import today
from duckdp.compiler.in_any_form import Reader, read_in_any_form
from duckdp.compiler.outer.apart import Apart
from duckdp.compiler.outer.looked_up import with_single_values
from duckdp.compiler.outer.whole import read_whole
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.plan import Plan, is_small
from duckdp.compiler.query import Query
from duckdp.compiler.release import SelectTask
from duckdp.compiler.select import read_select
from duckdp.core.accountant import cost, how_many
from duckdp.core.types import Loss, Neighbours
from duckdp.desk.asking import Asking
from duckdp.desk.remembered import Remembered, key_of
from duckdp.errors import CatalogError, ParameterError, QueryError
from duckdp.ledger import ChargeRow, ObjectRow, Remaining, Reservation
from duckdp.ledger.accountants import losses, tell
from duckdp.process.importing import importing
from duckdp.result import Result
from duckdp.vault.dataset import DataSet

if TYPE_CHECKING:
    from duckdp.smooth.summary import SmoothSummary

T = TypeVar("T")


class Lookups:
    """The part of a desk that touches no row.

    Args:
        data: the data set.
        analyst: who asks.
        reservation: within which charges are made.
    """

    def __init__(self, data: DataSet, analyst: str, reservation: Reservation | None = None) -> None:
        self._data = data
        self.analyst = analyst
        self.reservation = reservation
        self._planned, self._answered = Remembered(), Remembered()

    def ledger_state(self) -> object:
        """The ledger's state as it stands: the same object for as long as nobody writes to it."""
        return self._data.ledger.state()

    @property
    def parts_only(self) -> bool:
        """Whether rows are read in parts, so that figures have to add up over them."""
        return self._data.engine.parts_only

    def told(self, plan: Plan) -> list[str]:
        """How the engine reads a plan, line by line, where that is not as on one machine."""
        if not plan.measures:
            return []
        return self._data.engine.told(SelectTask(plan=plan), self._data.salt, (plan.query.table,))

    def one_look(self) -> AbstractContextManager[None]:
        """While it lasts, this thread plans by one state of the ledger; what is charged is checked against the last."""
        return self._data.ledger.one_look()

    def require_open(self) -> None:
        """Nothing, while the data set is open in this process.

        Raises:
            LedgerError: B211, B212.
        """
        self._data.life.require()

    def require_grant(self) -> None:
        """B102, B103, B107 unless the analyst may ask now; before any name is looked at, anything remembered given."""
        self._data.ledger.require_open(self.analyst)

    def asking(self, text: str | Callable[[], str]) -> Asking:
        """A statement of the analyst's that begins; ``with`` it."""
        return Asking(self._data.ledger.statements, self.analyst, text)

    def same_as(self, other: Lookups) -> bool:
        """Whether both speak for one analyst before one data set."""
        return self._data is other._data and self.analyst == other.analyst

    # ---- declarations -------------------------------------------------------------------------------------------

    @property
    def neighbours(self) -> Neighbours:
        """Relation of the data set."""
        return self._data.neighbours

    def tables(self) -> Mapping[str, Table]:
        """Protected tables by lower-case name."""
        return self._data.tables_of(self._data.ledger.state_for(self.analyst))

    def known(self) -> Mapping[str, Table]:
        """Protected and public tables by lower-case name."""
        self.require_grant()
        return self._data.known_of(self._data.ledger.state())

    def table(self, name: object) -> Table:
        """A protected table by name.

        Raises:
            BudgetError: B102, B103. CatalogError: C101.
        """
        self.require_grant()
        return self._data.table(name)

    def public_values(self, table: Table, columns: Sequence[Column]) -> list[list[Any]]:
        """Columns of a public table, as they stand today.

        Raises:
            BudgetError: B102, B103. CatalogError: C103, C104, C108.
        """
        self.require_grant()
        return self._data.public_values(table, columns)

    def names_protected(self, text: str) -> bool:
        """Whether a statement names a protected or public table anywhere."""
        return self._data.names_protected(text)

    def read(self, text: str, parameters: Sequence[object] = ()) -> Query:
        """Validate a statement over a protected table."""
        if not isinstance(text, str):
            raise ParameterError("P107", "text", text, "must be the text of one statement.")
        if not isinstance(parameters, (list, tuple)):
            raise ParameterError("P107", "parameters", parameters, "must be a list of the values of ? and $1.")
        return self.recall(
            ("question", today().isoformat(), text, *parameters),
            lambda: self._read(read_select, text, parameters),
            is_small,
        )

    def read_whole(self, text: str, parameters: Sequence[object] = ()) -> Query | Apart:
        """Validate a statement over protected tables: one question, or several and what follows from their answers."""
        if not isinstance(text, str):
            raise ParameterError("P107", "text", text, "must be the text of one statement.")
        if not isinstance(parameters, (list, tuple)):
            raise ParameterError("P107", "parameters", parameters, "must be a list of the values of ? and $1.")
        return self.recall(
            ("read", today().isoformat(), text, *parameters),
            lambda: self._read(read_whole, text, parameters),
            lambda found: all(map(is_small, found.parts if isinstance(found, Apart) else (found,))),
        )

    def _read(self, reader: Reader[T], text: str, parameters: Sequence[object]) -> T:
        """What a reader makes of a statement; if it has no rule, in plain forms; with constants for public values."""
        statement, known = parse_statement(text), self.known()
        try:
            return read_in_any_form(reader, statement, known, text, parameters)
        except QueryError as error:
            refusal = error
        try:
            made = with_single_values(statement, known, text, parameters, self._data.public_answer)
        except QueryError as error:
            raise error if refusal.code == "Q204" else refusal from None
        if made is None:
            raise refusal
        return reader(made, known, text, parameters)

    def recall(self, words: Sequence[object], make: Callable[[], T], worth: Callable[[T], bool]) -> T:
        """What follows from an analyst's words and today's declarations, all public; made once while they stand.

        Args:
            words: all that the value follows from besides: first which kind of value it is.
            make: the value, which is shared: never changed.
            worth: whether it is small enough to be kept.

        Raises:
            BudgetError: B102, B103, B107; and what ``make`` raises.
        """
        state, key = self._data.ledger.state_for(self.analyst), key_of(words)
        named = None if key is None else (state.catalog_version, state.neighbours, key)
        return self._planned.recall(named, make, worth)

    # ---- limits -------------------------------------------------------------------------------------------------

    @property
    def reservation_id(self) -> int | None:
        """The reservation within which charges are made, if there is one."""
        return None if self.reservation is None else self.reservation.id

    def remaining_text(self, loss: Loss | None = None, left: Remaining | None = None) -> str:
        """What the analyst can still spend, and about how many such queries that is.

        Args:
            loss: of a query.
            left: what was read with the release that is told of; None: it is read now.
        """
        left = left or self._data.ledger.remaining(self.analyst, self.reservation_id)
        text = left.sentence
        if loss is not None and loss.epsilon_nano:
            n = how_many(left.accountant, (left.primary, left.secondary), cost(left.accountant, loss))
            text += f", about {n:,} such {'query' if n == 1 else 'queries'}" if n is not None else ""
        return text

    def budget_rows(self) -> list[tuple[str, ...]]:
        """(analyst, scope, granted, spent, remaining) as text: each limit, then what fits all if that is less.

        That counts the data set's total too, which is no row of its own.
        """
        ledger = self._data.ledger
        rows: list[tuple[str, ...]] = []
        for row in ledger.limits(self.analyst):
            scope = row.scope if row.month is None else f"{row.scope}, {row.month}"
            rows.append((self.analyst, scope, str(row.granted), row.spent, row.remaining))
        left = ledger.remaining(self.analyst).text
        return rows if left == rows[0][-1] else [*rows, (self.analyst, "all limits", "", "", left)]

    def accountants(self, delta_atto: int | None = None) -> Result:
        """What the analyst's charges amount to by each accountant, at a total delta; None: that of the grant."""
        ledger = self._data.ledger
        delta = ledger.limits(self.analyst)[0].granted.delta_atto if delta_atto is None else delta_atto
        return tell(losses(ledger, self.analyst), delta)

    # ---- what was charged and stored ----------------------------------------------------------------------------

    def count_charges(self) -> int:
        """How many charges the analyst has."""
        return self._data.ledger.count_charges(self.analyst)

    def own_charges(self, limit: int | None = None, before: int | None = None) -> Sequence[ChargeRow]:
        """The analyst's charges, oldest first; with a limit the last so many, before an id if one is given."""
        return self._data.ledger.charges(self.analyst, limit=limit, before=before)

    def charge(self, charge_id: int) -> ChargeRow | None:
        """A charge whose release the analyst was given."""
        return self._data.ledger.charge(charge_id)

    def own_charge(self, charge_id: int) -> ChargeRow:
        """A charge of the analyst's own, to go on with it.

        Raises:
            BudgetError: B102, B103. CatalogError: C110, the same for unknown and somebody else's.
        """
        self.require_grant()
        found = self._data.ledger.charge(charge_id)
        if found is None or found.analyst != self.analyst:
            raise CatalogError(
                "C110", f"handle {charge_id} is unknown or belongs to somebody else. dp_ledger() lists your charges."
            )
        return found

    def objects(self, limit: int, after: str) -> Sequence[ObjectRow]:
        """Stored objects of the analyst, then those shared with them, by name."""
        return self._data.ledger.objects(self.analyst, limit=limit, after=after)

    def stored(self, name: str) -> str:
        """The payload of a stored summary or synthetic table.

        Raises:
            CatalogError: C110.
        """
        # names are shorter than 64: a longer one is as unknown by its beginning, which is all that the error repeats
        return self._data.ledger.object(self.analyst, name[:64]).payload

    def summary(self, name: str, category: str | None = None) -> SmoothSummary:
        """A stored summary of the analyst's, or one shared with them; of a grouped one, that of a category.

        A synthetic table's payload holds the summary that it was made from.

        Raises:
            CatalogError: C110, unknown or somebody else's. ParameterError: P107, category.
        """
        with importing():
            from duckdp.smooth.payloads import open_stored
            from duckdp.synthetic.stored import summary_of

        return open_stored(summary_of(self.stored(name)), category, strict=True)

    def usable_summaries(self, table: Table) -> list[tuple[str, SmoothSummary]]:
        """Stored summaries of a table's present data that the analyst may use, by name."""
        version = self._data.require_current().data_version
        rows = self._data.ledger.objects(self.analyst)
        named = [row.name for row in rows if row.ready and row.data_version == version]
        found = []
        for name in dict.fromkeys(named):
            # a grouped summary speaks of no whole table; a synthetic table or an older version's payload holds none
            with suppress(ParameterError, CatalogError):
                found.append((name, self.summary(name)))
        return [(name, summary) for name, summary in found if summary.table == table.name]

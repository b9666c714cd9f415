"""The analyst's Python face: statements, the dp functions as methods (``faces/calls.py``), what is held for long.

A statement over a protected table is read, planned and priced here, and answered by the desk; every other statement
runs on the analyst's own DuckDB instance, in which no private row is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from duckdp.arguments import checked
from duckdp.catalog.table import Table
from duckdp.compiler.plan import MechanismChoice
from duckdp.core.task import Interactive
from duckdp.desk.asking import leave_out, noted, noted_text
from duckdp.desk.desk import Desk
from duckdp.desk.interactive import Interaction
from duckdp.errors import ParameterError
from duckdp.faces.calls import Calls
from duckdp.front.fronts import Fronts
from duckdp.functions.explanation import Explanation
from duckdp.functions.releases import Select
from duckdp.functions.spec import FUNCTIONS
from duckdp.result import Result


class Session(Calls):
    """What one analyst may do. Made by ``Curator.session``; not a security boundary inside the curator's process.

    Args:
        desk: the one door to the data set, for one analyst.
        fronts: the analysts' own instances, for what names no protected table.

    Attributes:
        desk: for what is built on sessions: dp functions, shells.
    """

    def __init__(self, desk: Desk, fronts: Fronts) -> None:
        self.desk = desk
        self._fronts = fronts

    @property
    def analyst(self) -> str:
        """Whose budget; fixed for life."""
        return self.desk.analyst

    @noted_text()
    def sql(
        self,
        text: str,
        *,
        epsilon: object = None,
        delta: object = 0,
        error: float | Mapping[str, float] | None = None,
        mechanism: MechanismChoice = "auto",
        fresh: bool = False,
        tolerance: float | Mapping[str, float] | None = None,
        min_units: int | None = None,
        parameters: Sequence[object] = (),
    ) -> Result:
        """Answer one statement privately; a statement over no protected table runs on the analyst's own instance.

        Args:
            text: one SELECT over protected tables.
            epsilon: what the whole statement costs, as text or number; else what the session has SET.
            delta: for Gaussian noise and for keys without a declared domain.
            error: in place of epsilon: the widest acceptable 95% half-width, for all outputs or by name. It holds for
                counts and sums; of others it is predicted from expected_rows, and a note says where it was missed.
            mechanism: "auto" (least error), "laplace" or "gaussian".
            fresh: pay again for a new answer instead of getting the stored one.
            tolerance: answer for free from a summary bought before, where its 95% half-width is at most this, for all
                outputs or by name; the result names it as its source. Else the statement is charged.
            min_units: show only groups of at least so many privacy units: a noisy count of them is released with the
                rest, of the same epsilon, and one that has fewer is shown with a chance of at most 5%.
            parameters: values of ? and $1.

        Raises:
            QueryError, ParameterError: refused; nothing was read or charged.
            InsufficientBudgetError: B101; nothing was read or charged.
            ExecutionError: E1xx; the charge stays.
        """
        self.desk.require_grant()
        if not isinstance(text, str):
            raise ParameterError("P107", "text", text, "must be the text of one statement.")
        if not self.desk.names_protected(text):
            leave_out()
            return self._fronts.of(self.analyst).sql(text)
        return self._select(locals()).answer(self.desk, lambda: self._fronts.of(self.analyst))

    @noted_text("EXPLAIN ", "explained")
    def explain(
        self,
        text: str,
        *,
        epsilon: object = None,
        delta: object = 0,
        error: float | Mapping[str, float] | None = None,
        mechanism: MechanismChoice = "auto",
        tolerance: float | Mapping[str, float] | None = None,
        min_units: int | None = None,
        parameters: Sequence[object] = (),
    ) -> Explanation:
        """Plan, cost and expected error of a statement, and with a tolerance which way it goes and why; free."""
        return self._select(locals()).explanation(self.desk)

    def _select(self, given: Mapping[str, object]) -> Select:
        spec = FUNCTIONS["dp_query"]
        return Select(**self._or_set(spec, spec.read_values(given)))

    def tables(self) -> Mapping[str, Table]:
        """Protected tables by lower-case name.

        Raises:
            BudgetError: B102, B103.
        """
        return self.desk.tables()

    def remaining_text(self) -> str:
        """What can still be spent, in words."""
        return self.desk.remaining_text()

    # ---- what is held for long ----------------------------------------------------------------------------------

    @noted("reserved", prefix="")
    def reserve(self, *, epsilon: object, delta: object = 0) -> Self:
        """Hold headroom of all limits of the analyst, so that nobody else's charges can take it; no charge.

        Ask the session that this gives: its charges are made within what is held, as they come. What it did not use is
        free again when it ends (``with``, or :meth:`give_up`) or its process does. A connection (``connect``) is not
        within it.

        Raises:
            InsufficientBudgetError: B101. BudgetError: B103, B109.
        """
        return type(self)(self.desk.reserve(epsilon=epsilon, delta=delta), self._fronts)

    def give_up(self) -> None:
        """End the reservation, if there is one; again is harmless."""
        self.desk.give_up()

    @checked
    def interact(
        self, task: Interactive, *, table: Table, statement: str, fresh: bool = False, nonce: str | None = None
    ) -> Interaction:
        """Charge for a release that goes on question by question, or go on with the one that was charged for.

        See :meth:`duckdp.desk.desk.Desk.interact`.

        Raises:
            InsufficientBudgetError: B101. LedgerError: B206, somebody else is going on with it. ParameterError: P107.
        """
        return self.desk.interact(task, table=table, statement=statement, fresh=fresh, nonce=nonce)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_up()

    def _set_epsilon(self) -> str | None:
        return self._fronts.variable(self.analyst, "dp_epsilon")

"""A toy dp function with two lists, for ``use_tally.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckdp.compiler.expression import Aggregate
from duckdp.compiler.pricing import Price, Terms, price
from duckdp.compiler.select import Output, Query
from duckdp.functions.kinds import ColumnNames, Epsilon, Flag, Fresh, TableName, Whole
from duckdp.functions.planned import Planned
from duckdp.functions.spec import Explained, argument, dp_function, option
from duckdp.result import Result

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk


@dp_function("dp_tally", forms=("table", "value"), costs="epsilon")
@dataclass(frozen=True, kw_only=True)
class Tally(Explained):
    """A noisy number of rows, and some texts."""

    table: TableName = argument()
    also: ColumnNames = argument(about="texts that come back")
    epsilon: Epsilon | None = option(None)
    step: Whole = option(1, about="how many rows are one")
    more: ColumnNames | None = option(None, about="further texts")
    loud: Flag = option(False, about="nothing")
    fresh: Fresh = option(False, explained=False)

    def plan(self, desk: Desk) -> Planned:
        """One number, and the texts."""
        plan = self._price(desk).plan

        def run(nonce: str) -> Result:
            found = desk.answer(plan, statement=f"dp_tally({self.table})", fresh=self.fresh, nonce=nonce)
            return found

        return Planned(columns=[("value", "BIGINT")], run=run, rows=1)

    def explain(self, desk: Desk) -> Sequence[str]:
        """Its cost, and what came in."""
        return [
            f"tally of {', '.join([*self.also, *(self.more or ())])} by {self.step}",
            f"cost: {self._price(desk).plan.loss}",
        ]

    def _price(self, desk: Desk) -> Price:
        output = Output(name="value", expr=Aggregate("count_rows", None, None))
        query = Query(table=desk.table(self.table), where=None, keys=(), outputs=(output,))
        return price(query, Terms(epsilon=self.epsilon), desk.neighbours)

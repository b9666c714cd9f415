"""What an analyst's charges amount to together, by each accountant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckdp.core.types import parse_delta
from duckdp.functions.kinds import Delta
from duckdp.functions.planned import Planned
from duckdp.functions.spec import DpFunction, dp_function, option

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk


@dp_function("dp_accountants", forms=("table",), example="delta := 0.000001")
@dataclass(frozen=True, kw_only=True)
class Accountants(DpFunction):
    """What the analyst's charges amount to together, by each accountant: what was admitted, and what could be told."""

    delta: Delta | None = option(None, about="the total delta at which it is told; that of the grant by default")

    def plan(self, desk: Desk) -> Planned:
        """One row for each accountant."""
        desk.require_grant()
        delta = None if self.delta is None else parse_delta(self.delta)
        columns = [("accountant", "VARCHAR"), ("epsilon", "DOUBLE"), ("delta", "VARCHAR"), ("holds", "VARCHAR")]
        return Planned(columns=columns, run=lambda _: desk.accountants(delta), rows=9)

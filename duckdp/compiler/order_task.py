"""What all releases of a column's order statistics have in common: what they read, and what a pure charge is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duckdp.catalog.table import Column, Table
from duckdp.compiler.expression import show
from duckdp.compiler.order_rows import OrderRows
from duckdp.core.accountant import pure_rho
from duckdp.core.types import Loss, Neighbours


@dataclass(frozen=True, kw_only=True)
class OrderTask:
    """A release that follows from the order of a bounded column's values, in groups (core/task.py).

    Attributes:
        rows: what is read.
        epsilon_nano: the charge, in 1e-9, all groups together.
        neighbours: relation of the data set.
    """

    rows: OrderRows
    epsilon_nano: int
    neighbours: Neighbours

    @property
    def table(self) -> Table:
        """The protected table that is read."""
        return self.rows.table

    @property
    def column(self) -> Column:
        """The column whose order statistics are released."""
        return self.rows.column

    @property
    def loss(self) -> Loss:
        """What all that is drawn costs together: pure epsilon."""
        return Loss(epsilon_nano=self.epsilon_nano, rho_pico=pure_rho(self.epsilon_nano))

    @property
    def read_of(self) -> dict[str, Any]:
        """Which values are read, for the ledger: public parameters that all have."""
        keys = [show(k.expr) for k in self.rows.keys]
        return {"column": self.column.name, "where": show(self.rows.where), "keys": keys}

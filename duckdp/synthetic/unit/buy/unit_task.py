"""A synthetic table over unit columns as a task of several private reads: what the methods' tasks have in common.

Each stage's functions follow from public figures and from what was released before.

Privacy: of ``reading``, ``purse`` and the method's own purchase: one charge, whose shares the stages spend.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from typing import Any, ClassVar

from duckdp.catalog.constraints import Constraint
from duckdp.catalog.table import Column, Table, dump_table
from duckdp.core.task import Stages, Work
from duckdp.core.types import Loss
from duckdp.synthetic.opened import KIND
from duckdp.synthetic.scale import counted_things, default_rows, tell_default
from duckdp.synthetic.unit.buy.purse import Keep
from duckdp.synthetic.unit.buy.reading import UnitReader
from duckdp.synthetic.unit.charge_terms import Terms
from duckdp.synthetic.unit.kept import Kept, dump_kept
from duckdp.synthetic.unit.layout import UnitColumns
from duckdp.synthetic.unit.packed import Classes, pack, unpack
from duckdp.synthetic.unit.request import Request
from duckdp.synthetic.unit.stages import Bought, Noisy

Purchase = tuple[UnitColumns, Kept, float, Sequence[Bought]]
"""The unit columns that a release is of, the release (its number of rows is still to be set), the noisy or public
number of rows, and what was bought as shares of the charge."""


@dataclass(frozen=True, kw_only=True)
class UnitTask(ABC):
    """Implements ``core.task.Task`` for a method over unit columns.

    Attributes:
        table: the protected table.
        units: its columns as unit columns.
        request: public parameters.
        rows: wanted rows, or None for as many as are counted.
    """

    method: ClassVar[str]
    classes: ClassVar[Classes]  # that its stages are stored as, beside Noisy

    table: Table
    units: UnitColumns
    request: Request
    rows: int | None

    @property
    @abstractmethod
    def terms(self) -> Terms:
        """The terms of the purse that the stages spend."""

    @property
    def shares(self) -> dict[str, Fraction]:
        """What the stages are planned to take of that purse, by name; empty where a method has no plan of its own."""
        return {}

    @abstractmethod
    def buy(self, reader: UnitReader, keep: Keep) -> Purchase:
        """Buy the stages, one after the other, each stored before the next is read.

        Args:
            reader: the private reads.
            keep: stores what a stage draws, or gives what was stored instead.
        """

    @property
    def columns(self) -> tuple[Column, ...]:
        """Declared columns of the table that is made."""
        return self.units.columns

    @property
    def kept(self) -> list[Constraint]:
        """Declared constraints that every row keeps."""
        return [] if self.units.structure is None else self.units.structure.kept

    @property
    def loss(self) -> Loss:
        """What the release costs, all its stages together."""
        return self.terms.loss

    @property
    def mechanism(self) -> str:
        """Name for the ledger: the noise of the stages."""
        return "gaussian" if self.terms.gaussian else "cube"

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        r = self.request
        raw = {
            "kind": "wide_synthesis",
            "declaration": sha256(dump_table(self.table).encode()).hexdigest(),
            "columns": [c.name for c in self.columns],
            "method": self.method,
            "rows": self.rows,
            "epsilon_nano": r.epsilon_nano,
            "delta_atto": r.delta_atto,
            "neighbours": r.neighbours.value,
            "target": r.target,
            "expected_rows": r.expected_rows,
            **self._structure(),
            **self._beside(),
        }
        return json.dumps(raw, sort_keys=True, separators=(",", ":"))

    def _structure(self) -> dict[str, Any]:
        """What is modelled and kept beside the columns, for the identity; nothing where there is nothing."""
        s = self.units.structure
        return {} if s is None else {"calendar": s.calendar, "constraints": [str(c) for c in self.kept]}

    def _beside(self) -> dict[str, Any]:
        """What is bought beside the request's charge, for the identity."""
        return {"marginal_nano": 0, "marginals": None}

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters for the ledger."""
        return {
            "columns": [c.name for c in self.columns],
            "units": self.units.count,
            "method": self.method,
            "rows": self.rows,
            "target": self.request.target,
            "neighbours": self.request.neighbours.value,
            "shares": {name: str(share) for name, share in self.shares.items()},
        }

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        told = ", ".join(f"{name} {share:.1%}" for name, share in self._told_shares().items())
        first = f"method: {self.method}, {self.mechanism} noise; {len(self.units.parts)} columns as {self.units.count}"
        lines = [first, f"planned for {self.request.expected_rows:,} rows (expected_rows, else row_cap)"]
        lines += [tell_default()] if self.rows is None else []
        lines += [] if self.units.structure is None else self.units.structure.describe()
        return [*lines, *([f"stages, as shares of the charge: {told}"] if told else [])]

    def _told_shares(self) -> dict[str, float]:
        """Shares of the whole charge, as told."""
        return {name: float(share) for name, share in self.shares.items()}

    def work(self, salt: int) -> Work:
        """Buy the stages; rows are made once they are stored (``unit.finish``)."""
        return lambda stages: self._release(stages, salt)

    def _release(self, stages: Stages, salt: int) -> str:
        def keep(draw: Callable[[], Any]) -> Any:
            drawn = json.loads(stages.run(lambda: json.dumps(pack(draw()))))
            return unpack(drawn, (Noisy, *self.classes))

        reader = UnitReader(
            table=self.table, units=self.units, expected_rows=self.request.expected_rows, salt=salt, read=stages.read
        )
        units, kept, count, bought = self.buy(reader, keep)
        rows = default_rows(count, len(self.columns)) if self.rows is None else self.rows
        raw = {
            "kind": KIND,
            "summary": None,
            "table": None,
            "rows": rows,
            "count": count,
            "counted": counted_things(self.table, units=True),
            "bought": [[name, count, float(share)] for name, count, share in bought],
            "wide": dump_kept(self.table.name, units, replace(kept, rows=rows)),
        }
        return json.dumps(raw)

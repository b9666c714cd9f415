"""The task of the toy.

Privacy: one count that a row changes by 1, with Laplace noise for the whole epsilon.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from duckdp.catalog.table import Column, dump_columns, dump_table
from duckdp.compiler.printing import Parameters, print_rows
from duckdp.core.accountant import pure_rho
from duckdp.core.noise import laplace_noise, laplace_scale
from duckdp.core.task import PrivateQuery, Stages, Work
from duckdp.core.types import Loss
from duckdp.errors import ParameterError
from duckdp.synthetic.asked import Asked
from duckdp.synthetic.opened import KIND
from duckdp.synthetic.toy.plan import share


@dataclass(frozen=True, kw_only=True)
class ToyTask:
    """Implements ``methods.TableTask``."""

    asked: Asked
    columns: tuple[Column, ...]

    @property
    def rows(self) -> int:
        """Wanted."""
        return self.asked.wanted

    @property
    def loss(self) -> Loss:
        """The whole epsilon."""
        return Loss(epsilon_nano=self.asked.epsilon_nano, rho_pico=pure_rho(self.asked.epsilon_nano))

    @property
    def mechanism(self) -> str:
        """Name for the ledger."""
        return "laplace"

    @property
    def canonical(self) -> str:
        """Identity of the question."""
        return json.dumps(["toy", dump_table(self.asked.table), self.parameters])

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters."""
        names = [c.name for c in self.columns]
        return {"method": "toy", "columns": names, "rows": self.rows, "epsilon_nano": self.asked.epsilon_nano}

    def describe(self) -> list[str]:
        """Lines of ``explain``."""
        return ["method: toy, one noisy count"]

    def work(self, salt: int) -> Work:
        """One read."""
        parameters = Parameters()
        relation = print_rows(self.asked.table, (), parameters, unit=True)
        sql = f"SELECT CAST(system.main.count_star() AS HUGEINT) FROM {relation} AS r"
        query = PrivateQuery(sql=sql, parameters=tuple(parameters.values))

        def run(stages: Stages) -> str:
            def draw() -> str:
                ((exact,),) = stages.read(query)
                noisy = int(exact) + laplace_noise(1, laplace_scale(share(self.asked), 1))[0]
                return json.dumps({
                    "kind": KIND, "method": "toy", "rows": self.rows, "table": None, "count": noisy,
                    "name": self.asked.table.name, "columns": dump_columns(self.columns),
                })  # fmt: skip

            return stages.last(draw)

        return run


def task(asked: Asked) -> ToyTask:
    """Plan the purchase."""
    share(asked)
    columns = [asked.table.column(name) for name in asked.names]
    chosen = tuple(c for c in columns if c is not None and c.lower is not None)
    if not chosen or len(chosen) < len(columns):
        raise ParameterError("P107", "columns", asked.names, "must have bounds.")
    return ToyTask(asked=asked, columns=chosen)

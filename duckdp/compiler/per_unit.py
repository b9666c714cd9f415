"""Rows and groups per privacy unit as a task: a histogram of units, counted inside DuckDB."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from duckdp.catalog.table import Table, dump_table
from duckdp.compiler.emit import print_keys
from duckdp.compiler.expression import Expr, show
from duckdp.compiler.grouping import read_keys
from duckdp.compiler.printing import UNIT, Parameters
from duckdp.compiler.query import Query
from duckdp.core.reads import AddByKey, PrivateQuery
from duckdp.core.task import OneRead
from duckdp.core.types import Loss
from duckdp.errors import InternalError, ParameterError
from duckdp.mechanisms.unit_histogram import ENDS, UnitHistogram


@dataclass(frozen=True, kw_only=True)
class PerUnitTask(OneRead):
    """A planned histogram of rows or groups per unit (core/task.py).

    Attributes:
        query_of: table, predicate and keys; without keys rows are counted, with them groups.
        epsilon_nano: the charge, in 1e-9.
    """

    query_of: Query
    epsilon_nano: int

    @cached_property
    def histogram(self) -> UnitHistogram:
        """The mechanism: a noisy histogram of units."""
        return UnitHistogram(self.epsilon_nano)

    @property
    def table(self) -> Table:
        """The protected table that is read."""
        return self.query_of.table

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        q = self.query_of
        keys = [show(k.expr) for k in q.keys]  # their domains follow from the table
        return json.dumps(["per_unit", dump_table(q.table), show(q.where), keys, self.epsilon_nano])

    @property
    def loss(self) -> Loss:
        """What the release costs, all its reads together."""
        return self.histogram.loss

    @property
    def mechanism(self) -> str:
        """A histogram with discrete Laplace noise."""
        return "laplace"

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        keys = [show(k.expr) for k in self.query_of.keys]
        return {
            "where": show(self.query_of.where),
            "keys": keys,
            "bins": len(ENDS) + 1,
            "scale": self.histogram.noise.scale,
        }

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        what = f"groups by {', '.join(k.name for k in self.query_of.keys)}" if self.query_of.keys else "rows"
        half = self.histogram.half_width(1)
        return [
            f"histogram of {what} per {self.table.unit_key}: {len(ENDS) + 1} bins, ends {', '.join(map(str, ENDS[:6]))}"
            f", ..., {ENDS[-1]:,}; each unit in one of them",
            f"laplace noise of scale {self.histogram.noise.scale:.4g}: a bin is known to ± {half:.4g} units (95%)",
        ]

    def query(self, salt: int) -> PrivateQuery:  # noqa: ARG002 - nothing is chosen
        """The private read: (bin, units), at most one row per bin."""
        parameters = Parameters()
        keys, rows = print_keys(self.query_of, parameters)
        if keys:
            rows = f"(SELECT DISTINCT {', '.join([UNIT, *keys])} FROM {rows}) AS prepared"
        counted = f"(SELECT system.main.count_star() AS c FROM {rows} GROUP BY prepared.{UNIT})"
        arms = " ".join(f"WHEN u.c <= {end} THEN {i}" for i, end in enumerate(ENDS))
        sql = f"SELECT CASE {arms} ELSE {len(ENDS)} END AS bin, system.main.count_star() FROM {counted} AS u GROUP BY 1"
        parts = AddByKey(keys=1, ordered=False)
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=len(ENDS) + 1, parts=parts)

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Noise every bin; the payload is the list. ``rows``: private."""
        counts = [0] * (len(ENDS) + 1)
        for place, units in rows:
            counts[place] = int(units)
        return json.dumps(self.histogram.release(counts))

    def read(self, payload: str) -> list[int]:
        """The noisy number of units in each bin, from the stored payload."""
        found = json.loads(payload)
        if len(found) != len(ENDS) + 1:
            raise InternalError("the histogram has another number of bins")
        return [int(n) for n in found]


def plan_per_unit(table: Table, keys: str | None, where: Expr | None, *, epsilon_nano: int) -> PerUnitTask:
    """Plan a histogram of rows per unit, or with keys of groups per unit.

    Args:
        table: protected, with a unit_key.
        keys: grouping expressions, as GROUP BY takes them; None counts rows.
        where: predicate, or None.
        epsilon_nano: cost, in 1e-9.

    Raises:
        ParameterError: P107, no unit_key. QueryError: as of a GROUP BY.
    """
    if table.unit_key is None:
        raise ParameterError("P107", "table", table.name, "has no unit_key: every row is a unit of its own.")
    found = () if keys is None else read_keys(keys, table)
    query = Query(table=table, where=where, keys=found, outputs=())
    return PerUnitTask(query_of=query, epsilon_nano=epsilon_nano)

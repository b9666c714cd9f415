"""The way of a synthetic table from rows to rows, as ``dp_synthesize`` goes it, without session and ledger.

Rows of [-1, 1]^d become a DuckDB table of declared columns (bounds -1 and 1; indicators of categories one VARCHAR with
its domain; a label BOOLEAN), the plan reads them with its own SQL, and the released table's values come back as rows:
what a user gets, marginals, types and rounding included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np

from duckdp.bench.declared_columns import declared
from duckdp.bench.measure import read_rows
from duckdp.catalog.table import Table
from duckdp.core.task import Stages
from duckdp.core.types import Neighbours, parse_delta, parse_epsilon
from duckdp.synthetic.asked import KERNELS, Asked
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.methods import plan_table
from duckdp.synthetic.stored import read_synthesis
from duckdp.synthetic.unit.features import Floats

THREADS = 2  # of DuckDB, as on the machine of the published figures


@dataclass(frozen=True, kw_only=True, eq=False)
class Path:
    """Rows of one set under one declaration.

    Attributes:
        unit: float[n, d] in [-1, 1].
        label: whether the last column is a label: a BOOLEAN, which may be named as the target.
        groups: columns that are the indicators, -1 and 1, of one category each.
        rows: m, of the synthetic table.
        method: of ``dp_synthesize``.
        neighbours: relation of the charge.
        delta: of the charge, text.
        purpose: what "auto" chooses for: here by default the paper's broad queries.
    """

    unit: Floats
    label: bool = False
    groups: tuple[tuple[int, ...], ...] = ()
    rows: int = 2000
    method: str = "auto"
    neighbours: Neighbours = Neighbours.REPLACE
    delta: str = "0"
    purpose: str = KERNELS

    def make(self, epsilon: str, *, target: str | None = None) -> Floats:
        """One fresh synthetic table as rows, float[m, d]; ``target`` as of ``dp_synthesize``."""
        asked = Asked(
            table=self._declared(),
            columns=None,
            epsilon_nano=parse_epsilon(epsilon),
            delta_atto=parse_delta(self.delta),
            neighbours=self.neighbours,
            rows=self.rows,
            target=target,
            purpose=self.purpose,
        )
        task = plan_table(asked, self.method)
        with duckdb.connect(":memory:", config={"threads": THREADS}) as con:
            self._fill(con)
            con.execute("SET enable_progress_bar = false")
            payload = task.work(1)(Stages(lambda query: read_rows(con, query)))
        return self._rows(read_synthesis(payload))

    @property
    def _plain(self) -> dict[str, int]:
        """Columns that are no indicators, by their name in the table."""
        grouped = {i for group in self.groups for i in group}
        return {f"c{i}": i for i in range(self.unit.shape[1]) if i not in grouped}

    def _declared(self) -> Table:
        columns = [declared(name, "DOUBLE", lower=-1.0, upper=1.0) for name in self._plain]
        if self.label:
            columns[-1] = declared(columns[-1].name, "BOOLEAN")
        for k, group in enumerate(self.groups):
            domain = tuple(f"v{j}" for j in range(len(group)))
            columns.append(declared(f"g{k}", "VARCHAR", domain=domain, other=domain[0]))
        relation, n = ("memory", "main", "t"), len(self.unit)
        return Table(name="t", relation=relation, columns=tuple(columns), row_cap=n, expected_rows=n)

    def _fill(self, con: duckdb.DuckDBPyConnection) -> None:
        frame: dict[str, Any] = {name: np.ascontiguousarray(self.unit[:, i]) for name, i in self._plain.items()}
        if self.label:
            frame[self.label_name] = self.unit[:, -1] > 0
        for k, group in enumerate(self.groups):
            frame[f"g{k}"] = np.array([f"v{j}" for j in self.unit[:, group].argmax(axis=1)], dtype=object)
        con.register("frame", frame)
        con.execute("CREATE TABLE t AS SELECT * FROM frame")
        con.unregister("frame")

    @property
    def label_name(self) -> str:
        """The name of the last column, the label."""
        return f"c{self.unit.shape[1] - 1}"

    def _rows(self, made: SyntheticTable) -> Floats:
        found = np.full((made.rows, self.unit.shape[1]), -1.0)
        for name, i in self._plain.items():
            found[:, i] = np.asarray(made.columns[name], dtype=np.float64)
        if self.label:
            found[:, -1] = 2 * found[:, -1] - 1
        for k, group in enumerate(self.groups):
            at = [int(v[1:]) for v in made.columns[f"g{k}"].tolist()]
            found[np.arange(made.rows), np.array(group)[at]] = 1.0
        return found

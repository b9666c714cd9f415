"""A wide synthetic table as a task of several private reads: each stage's functions follow from what was released.

Privacy: of ``release``, ``collect`` and ``psi``: one charge, whose shares the stages spend. With a unit_key one row of
each unit counts, the one with the smallest keyed hash, a function of that unit's own rows: adding or removing a unit
adds or removes one row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import Any

import numpy as np

from duckdp.catalog import Table, dump_table
from duckdp.compiler.printing import UNIT, Parameters, print_rows
from duckdp.core.accountant import pure_rho
from duckdp.core.task import PrivateQuery
from duckdp.core.types import Loss, Neighbours
from duckdp.errors import CatalogError, InternalError, ParameterError
from duckdp.smooth.axes import Floats
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.wide.auto import make_table
from duckdp.synthetic.wide.collect import open_purse
from duckdp.synthetic.wide.columns import UnitColumns, make_units
from duckdp.synthetic.wide.features import Features
from duckdp.synthetic.wide.marginals import SHARE, Marginals, choose_marginals, give_marginals
from duckdp.synthetic.wide.plan import make_plan
from duckdp.synthetic.wide.psi import make_psi_table, print_products
from duckdp.synthetic.wide.release import Purse
from duckdp.synthetic.wide.table import Request

METHODS = ("auto", "psi")
MOST_SUMS = 1500  # of one statement; more are added up from streamed rows
FITTED = 4000  # rows that are fitted; more are made by repeating them
_CHUNK = 4 * 10**6  # values of a streamed block
Read = Callable[[PrivateQuery], Iterable[tuple[Any, ...]]]


@dataclass(frozen=True, kw_only=True)
class WideTask:
    """Implements ``core.task.StagedTask``.

    Attributes:
        table: the protected table.
        units: its columns as unit columns.
        request: public parameters.
        method: "auto" or "psi".
        rows: wanted rows.
        marginals: moments of single numeric columns that are bought too.
        marginal_nano: their part of epsilon, in 1e-9, beside the request's.
    """

    table: Table
    units: UnitColumns
    request: Request
    method: str
    rows: int
    marginals: Marginals | None
    marginal_nano: int

    @property
    def columns(self) -> tuple[Any, ...]:
        """Declared columns of the table that is made."""
        return tuple(part.column for part in self.units.parts)

    @property
    def loss(self) -> Loss:
        """What it costs: the links' and the marginals' parts, which add up."""
        links = open_purse(self.request).loss
        if self.marginals is None:
            return links
        whole = links.epsilon_nano + self.marginal_nano
        rho = links.rho_pico + pure_rho(self.marginal_nano) if links.delta_atto else pure_rho(whole)
        return Loss(epsilon_nano=whole, delta_atto=links.delta_atto, rho_pico=rho)

    def _purse(self) -> Purse:
        """The marginals' part of the charge: pure."""
        return Purse(epsilon_nano=self.marginal_nano, delta_atto=0, neighbours=self.request.neighbours)

    @property
    def mechanism(self) -> str:
        """Name for the ledger."""
        return "gaussian" if open_purse(self.request).gaussian else "cube"

    @property
    def canonical(self) -> str:
        """Identity of the question."""
        r = self.request
        raw = {
            "kind": "wide_synthesis", "declaration": sha256(dump_table(self.table).encode()).hexdigest(),
            "columns": [c.name for c in self.columns], "method": self.method, "rows": self.rows,
            "epsilon_nano": r.epsilon_nano, "delta_atto": r.delta_atto, "neighbours": r.neighbours.value,
            "target": r.target, "expected_rows": r.expected_rows, "marginal_nano": self.marginal_nano,
            "marginals": None if self.marginals is None else self.marginals.degree,
        }  # fmt: skip
        return json.dumps(raw, sort_keys=True, separators=(",", ":"))

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters for the ledger."""
        shares = {}
        if self.method == "auto":
            plan = make_plan(self.request, open_purse(self.request))
            names = ("label", "association", "best", "direction", "size", "means", "shape", "pairs")
            shares = {n: str(getattr(plan, n)) for n in names if getattr(plan, n)}
        return {
            "columns": [c.name for c in self.columns], "units": self.units.count, "method": self.method,
            "rows": self.rows, "target": self.request.target, "neighbours": self.request.neighbours.value,
            "shares": shares,
        }  # fmt: skip

    def release_stages(self, read: Read, salt: int) -> str:
        """Buy the stages, make the rows.

        Args:
            read: runs a private read with the charge. Exact values: never logged, stored or raised.
            salt: keys the choice of a unit's row.
        """

        def sums(features: Features | Marginals, bits: int) -> tuple[int, Sequence[int]]:
            if features.count > MOST_SUMS:
                return self._streamed(read, salt, features, bits)
            parameters = Parameters()
            sql = features.print_sql(self._relation(parameters, salt), self.units.names, bits)
            found = _one_row(read(_counted(sql, parameters)), features.count + 1)
            return found[0], found[1:]

        def products(centre: Floats, basis: Floats, bits: int) -> Sequence[int]:
            parameters = Parameters()
            sql = print_products(centre, basis, self._relation(parameters, salt), self.units.names, bits)
            return _one_row(read(_counted(sql, parameters)), basis.size + 1)[1:]

        made = make_table(self.request, sums) if self.method == "auto" else make_psi_table(self.request, sums, products)
        unit = made.unit[np.resize(np.arange(len(made.unit)), self.rows)]
        if self.request.target is not None:
            self.units.oppose(unit, self.request.target)
        if self.marginals is not None:
            noisy = self._purse().buy(sums, self.marginals, Fraction(1))
            unit = give_marginals(unit, self.marginals, noisy, self.units.nulls)
        types = {c.name: c.type for c in self.columns}
        table = SyntheticTable(
            table=self.table.name, types=types, columns=self.units.decode(unit), residual=made.misfit
        )  # fmt: skip
        return json.dumps({"kind": "synthesis", "summary": None, "table": table.dump(), "rows": self.rows})

    def _relation(self, parameters: Parameters, salt: int) -> str:
        """Unit columns of every row that counts, as a parenthesised SELECT."""
        keyed = self.table.unit_key is not None
        rows = print_rows(self.table, self.columns, parameters, unit=True)
        items = self.units.print_items(parameters)
        if not keyed:
            return f"(SELECT {items} FROM {rows} AS r)"
        names = ", ".join(self.units.names)
        order = f"system.main.hash({UNIT}, {names}, CAST({salt} AS UBIGINT)), {names}"
        first = f"system.main.row_number() OVER (PARTITION BY {UNIT} ORDER BY {order}) AS first"
        ranked = f"(SELECT {names}, {first} FROM (SELECT {items}, r.{UNIT} FROM {rows} AS r) AS r)"
        return f"(SELECT {names} FROM {ranked} AS r WHERE r.first = 1)"

    def _streamed(self, read: Read, salt: int, features: Features | Marginals, bits: int) -> tuple[int, Sequence[int]]:
        """The same integers from rows that cross in batches: one statement of so many sums takes DuckDB minutes."""
        parameters = Parameters()
        sql = f"SELECT s.* FROM {self._relation(parameters, salt)} AS s"
        query = PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=None, arrays=True)
        count, total, step = 0, np.zeros(features.count, dtype=object), max(1, _CHUNK // features.count)
        for batch in read(query):
            unit = np.stack(batch, axis=1)
            count += len(unit)
            for start in range(0, len(unit), step):
                values = features.rows(unit[start : start + step])
                total += np.floor(values * 2.0**bits + 0.5).astype(np.int64).sum(axis=0)
        return count, [int(v) for v in total]


def plan_wide(
    table: Table, columns: Sequence[str] | None, *, epsilon_nano: int, delta_atto: int, neighbours: Neighbours,
    rows: int, method: str, target: str | None,
) -> WideTask:  # fmt: skip
    """Plan a wide synthetic table; without ``columns``, of all columns with bounds, a domain, or two values.

    Raises:
        CatalogError: C102, unknown column; C105, REPLACE of a view or of units of several rows.
        ParameterError: P107. QueryError: Q401.
    """
    if method not in METHODS:
        raise ParameterError("P107", "method", method, f"must be one of {', '.join(METHODS)}, or 'lp'.")
    names = list(columns or [c.name for c in table.columns if _usable(c)])
    chosen = []
    for name in names:
        column = table.column(name)
        if column is None:
            raise CatalogError("C102", f'column "{name[:63]}" is not declared for "{table.name}".', table=table.name)
        chosen.append(column)
    if not chosen or len({c.name for c in chosen}) != len(chosen):
        raise ParameterError("P107", "columns", names[:50], "must name columns, each once.")
    if neighbours is Neighbours.REPLACE and (table.unit_key is not None or table.filter is not None):
        raise CatalogError("C105", "under REPLACE every row must count, so no unit_key and no view.", table=table.name)
    units = make_units(chosen)
    expected = table.expected_rows or table.row_cap
    part = int(epsilon_nano * SHARE) if method == "auto" else 0
    purse = Purse(epsilon_nano=max(1, part), delta_atto=0, neighbours=neighbours)
    marginals = choose_marginals(units.numbers, units.count, purse, expected) if part else None
    part = part if marginals is not None else 0
    request = Request(
        columns=units.count, expected_rows=expected, epsilon_nano=epsilon_nano - part,
        delta_atto=delta_atto, neighbours=neighbours, rows=min(rows, FITTED),
        target=None if target is None else units.place_of(target),
    )  # fmt: skip
    return WideTask(
        table=table, units=units, request=request, method=method, rows=rows, marginals=marginals, marginal_nano=part
    )  # fmt: skip


def _usable(column: Any) -> bool:
    return column.lower is not None or column.domain is not None or column.kind.value == "boolean"


def _counted(sql: str, parameters: Parameters) -> PrivateQuery:
    counted = "SELECT CAST(system.main.count_star() AS HUGEINT), " + sql.removeprefix("SELECT ")
    return PrivateQuery(sql=counted, parameters=tuple(parameters.values), rows=1)


def _one_row(rows: Iterable[tuple[Any, ...]], width: int) -> list[int]:
    found = list(rows)
    if len(found) != 1 or len(found[0]) != width:
        raise InternalError("the sums of a synthetic table are not one row")
    return [int(v) for v in found[0]]

"""A quantile of one column as a task: bounded rows on a public grid, released by smooth sensitivity."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from duckdp.catalog.table import Column, Table, dump_table
from duckdp.compiler.aggregates import AGGREGATES, Released
from duckdp.compiler.expression import ColumnRef, Expr, columns, show
from duckdp.compiler.order_rows import bounded_column
from duckdp.compiler.printing import UNIT, Parameters, number, print_chosen, print_expr, print_rows, quote
from duckdp.core.reads import OfAllRows, PrivateQuery
from duckdp.core.task import OneRead
from duckdp.core.types import Loss, Neighbours
from duckdp.errors import ParameterError
from duckdp.mechanisms.smooth_sensitivity import SmoothQuantile

FINEST = 2**32  # grid cells of a column of fractions
ORDER = "a rank among all values, and how far apart those around it lie"  # what parts do not tell


@dataclass(frozen=True, kw_only=True)
class QuantileTask(OneRead):
    """A planned quantile by smooth sensitivity (core/task.py)."""

    table: Table
    column: Column
    where: Expr | None
    quantile: SmoothQuantile
    neighbours: Neighbours

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        q = self.quantile
        parts = [dump_table(self.table), self.column.name, show(self.where), str(q.quantile), self.neighbours.value]
        return json.dumps(["quantile", *parts, q.epsilon_nano, q.delta_atto, q.grid_cells])

    @property
    def loss(self) -> Loss:
        """What the release costs, all its reads together."""
        return self.quantile.loss

    @property
    def mechanism(self) -> str:
        """Student-t noise (pure) or Laplace noise (epsilon, delta), scaled by smooth sensitivity."""
        return "smooth_sensitivity_laplace" if self.quantile.delta_atto else "smooth_sensitivity_student"

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        q = self.quantile
        return {
            "column": self.column.name,
            "where": show(self.where),
            "quantile": str(q.quantile),
            "alpha": float(q.alpha),
            "beta": float(q.beta),
            "grid_cells": q.grid_cells,
            "window": q.window.units,
            "neighbours": self.neighbours.value,
        }

    def query(self, salt: int) -> PrivateQuery:
        """The private read: one row, the exact quantile and its smooth sensitivity, both computed by DuckDB."""
        parameters = Parameters()
        table, span = self.table, self.column.interval
        base = print_rows(table, columns(ColumnRef(self.column), self.where), parameters, unit=True)
        x = f"base.{quote(self.column.name)}"
        share = f"({x} - {number(span.lower)}) / {number(span.upper - span.lower)}"
        cells = self.quantile.grid_cells
        raw = f"system.main.floor({share} * {cells} + 0.5)"
        value = f"(CASE WHEN {raw} >= {cells} THEN {cells} WHEN {raw} > 0 THEN CAST({raw} AS BIGINT) ELSE 0 END)"
        conditions = [f"{x} IS NOT NULL"]
        if self.where is not None:
            conditions.append(print_expr(self.where, lambda c: f"base.{quote(c.name)}", parameters))
        where = " AND ".join(conditions)
        if table.unit_key is None:
            relation = f"(SELECT CAST({value} AS BIGINT) AS x FROM {base} AS base WHERE {where})"
        else:
            inner = f"(SELECT base.{UNIT} AS {UNIT}, CAST({value} AS BIGINT) AS x FROM {base} AS base WHERE {where})"
            relation = f"(SELECT r.x FROM {print_chosen(inner, ['x'], salt, table.max_rows)} AS r)"
        sql = self.quantile.sql(relation)
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=1, parts=OfAllRows(ORDER))

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Noise the quantile; the payload is a value in the column's units."""
        ((m, s),) = list(rows)
        cell = self.quantile.release(m, s)
        span, row = self.column.interval, AGGREGATES["quantile"]
        place = Released("order", 0, span.lower, span.upper, self.quantile.grid_cells, np.array([[cell]]))
        value = float(row.value(place)[0][0])
        return json.dumps({"value": round(value) if self.column.integral else value})


def plan_quantile(
    table: Table,
    name: str,
    where: Expr | None,
    *,
    epsilon_nano: int,
    delta_atto: int,
    quantile: Fraction,
    neighbours: Neighbours,
) -> QuantileTask:
    """Plan a quantile of a bounded numeric column.

    Args:
        table: protected.
        name: of the column.
        where: predicate, or None.
        epsilon_nano: cost, in 1e-9.
        delta_atto: cost, in 1e-18; 0 is pure differential privacy.
        quantile: p in (0, 1).
        neighbours: relation of the data set; the smooth bound covers both.

    Raises:
        CatalogError: C102. QueryError: Q203, Q401. ParameterError: P1xx.
    """
    column = bounded_column(table, name)
    span = column.interval
    whole = column.integral and span.upper - span.lower <= 2**46
    cells = int(span.upper - span.lower) if whole else FINEST
    if not 0 < quantile < 1:
        raise ParameterError("P107", "quantile", float(quantile), "must lie between 0 and 1.")
    smooth = SmoothQuantile(
        epsilon_nano=epsilon_nano,
        delta_atto=delta_atto,
        quantile=quantile.limit_denominator(10**6),
        max_rows=table.max_rows if table.unit_key is not None else 1,
        grid_cells=cells,
    )
    return QuantileTask(table=table, column=column, where=where, quantile=smooth, neighbours=neighbours)

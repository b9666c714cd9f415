"""Private bounds of a column as a task: one row of each unit, counted by cell of the column's public ladder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from duckdp.catalog.table import Column, Kind, Table, dump_table
from duckdp.compiler.expression import ColumnRef, Expr, columns, show
from duckdp.compiler.ladders import CalendarLadder, NumberLadder, make_ladder
from duckdp.compiler.printing import UNIT, Parameters, print_chosen, print_double, print_expr, print_rows, quote
from duckdp.core.reads import Gather, PrivateQuery
from duckdp.core.task import OneRead
from duckdp.core.types import Loss, Neighbours
from duckdp.errors import CatalogError, ParameterError, QueryError
from duckdp.mechanisms.bounds import Bounds, BoundsFinder

FORMAT = 1  # of what is computed; part of the question's identity


@dataclass(frozen=True, kw_only=True)
class BoundsTask(OneRead):
    """A planned search for bounds (core/task.py).

    Attributes:
        table: protected.
        column: a number, a date or a timestamp; read within its declared bounds, if it has any.
        where: predicate, or None.
        epsilon_nano: the charge, in 1e-9.
        neighbours: relation of the data set.
    """

    table: Table
    column: Column
    where: Expr | None
    epsilon_nano: int
    neighbours: Neighbours

    @cached_property
    def ladder(self) -> NumberLadder | CalendarLadder:
        """Public order of the values."""
        return make_ladder(self.column)

    @cached_property
    def finder(self) -> BoundsFinder:
        """The mechanism that finds the ranges."""
        return BoundsFinder(epsilon_nano=self.epsilon_nano, neighbours=self.neighbours, ladder=self.ladder)

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        parts = [dump_table(self.table), self.column.name, show(self.where), self.neighbours.value, self.epsilon_nano]
        return json.dumps(["bounds", FORMAT, *parts])

    @property
    def loss(self) -> Loss:
        """What the release costs, all its reads together."""
        return self.finder.loss

    @property
    def mechanism(self) -> str:
        """Histograms with discrete Laplace noise."""
        return "laplace_histograms"

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        return {
            "column": self.column.name,
            "where": show(self.where),
            "scales": list(self.finder.scales),
            "magnitudes": len(self.ladder.coarse()[0]) + 1,
            "neighbours": self.neighbours.value,
        }

    def describe(self) -> list[str]:
        """Lines of ``explain``; from public figures."""
        key, finder = self.table.unit_key, self.finder
        rows = "every row counts" if key is None else f"one row of each {key} counts, each with the same chance"
        within = "" if self.column.lower is None else f" within its bounds {self.column.lower} to {self.column.upper}"
        return [
            f"bounds of {self.column.name}{within}: {rows}; NULL and NaN are left out",
            f"four histograms, laplace noise of scale {', '.join(f'{s:.4g}' for s in finder.scales)}: "
            f"{len(self.ladder.coarse()[0]) + 1} magnitudes, twice at most 32 bins in the range found, clipped rows",
            f"a magnitude is noticed from about {finder.seen_from():,} rows on",
        ]

    def query(self, salt: int) -> PrivateQuery:
        """The private read: the values of the rows that count, in batches that are counted and not kept."""
        parameters = Parameters()
        base = print_rows(self.table, columns(ColumnRef(self.column), self.where), parameters, unit=True)
        x = f"base.{quote(self.column.name)}"
        conditions = [f"{x} IS NOT NULL"]
        if self.where is not None:
            conditions.append(print_expr(self.where, lambda c: f"base.{quote(c.name)}", parameters))
        keyed = self.table.unit_key is not None
        unit = f"base.{UNIT} AS {UNIT}, " if keyed else ""
        rows = (
            f"(SELECT {unit}{print_double(self.column, x)} AS x FROM {base} AS base WHERE {' AND '.join(conditions)})"
        )
        rows = print_chosen(rows, ["x"], salt, 1) if keyed else rows
        sql = f"SELECT r.x FROM {rows} AS r"
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=None, arrays=True, parts=Gather())

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """Find bounds; the payload holds places of edges, noisy counts and their scale.

        Args:
            rows: batches of one array of values; private.
        """
        counts = np.zeros(self.finder.cells, dtype=np.int64)
        for (values,) in rows:
            known = np.asarray(values, dtype=np.float64)
            counts += np.bincount(self.finder.places(known[~np.isnan(known)]), minlength=len(counts))
        found = self.finder.release(counts)
        return json.dumps({"ranges": found.ranges, "cells": found.cells, "scale": found.scale})

    def read(self, payload: str) -> Bounds:
        """What was released, from its stored payload."""
        raw = json.loads(payload)
        ranges = tuple((int(a), int(b)) for a, b in raw["ranges"])
        return Bounds(ranges=ranges, cells=tuple(raw["cells"]), scale=raw["scale"])


def plan_bounds(
    table: Table, name: str, where: Expr | None, *, epsilon_nano: int, neighbours: Neighbours
) -> BoundsTask:
    """Plan a search for a column's bounds.

    Args:
        table: protected.
        name: of a visible column, with bounds or without.
        where: predicate, or None.
        epsilon_nano: cost, in 1e-9.
        neighbours: relation of the data set.

    Raises:
        CatalogError: C102. QueryError: Q203. ParameterError: P104, the declared bounds are one number as DOUBLE.
    """
    column = table.column(name)
    if column is None:
        raise CatalogError("C102", f'"{table.name}" has no declared column "{name[:63]}".', table=table.name)
    if column.kind not in (Kind.NUMBER, Kind.DATE, Kind.TIMESTAMP):
        raise QueryError("Q203", f'bounds need a number, date or timestamp; "{column.name}" is a {column.kind.value}.')
    task = BoundsTask(table=table, column=column, where=where, epsilon_nano=epsilon_nano, neighbours=neighbours)
    if len(task.ladder.edges) < 2:
        rule = "are one number as DOUBLE, so there is nothing to find between them."
        raise ParameterError("P104", f'bounds["{column.name}"]', (column.lower, column.upper), rule)
    return task

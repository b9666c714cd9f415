"""What the tests of the gate share: a declared table, and answers from exact cells, before any noise.

There is no switch that turns the noise off. These helpers call ``emit`` and ``evaluate``, the two ends of the way, and
leave out ``SelectTask.release`` between them.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from duckdp.catalog.table import Column, Table, kind_of
from duckdp.compiler.emit import emit, key_codes, key_values, read_cells
from duckdp.compiler.evaluate import evaluate, known_payload
from duckdp.compiler.output_columns import OutputColumn
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.plan import Plan, make_plan
from duckdp.compiler.release import encode_key
from duckdp.compiler.select import read_select
from duckdp.core.types import Neighbours, parse_delta, parse_epsilon

Row = tuple[Any, ...]


def column(name: str, duckdb_type: str, **declared: Any) -> Column:
    """A declared column."""
    found = kind_of(duckdb_type)
    assert found is not None
    return Column(name=name, source=name, type=duckdb_type, kind=found[0], integral=found[1], **declared)


COLUMNS = (
    column("age", "INTEGER", lower=0, upper=110),
    column("cost", "DOUBLE", lower=0.0, upper=5000.0),
    column("score", "DOUBLE"),
    column("sex", "VARCHAR", domain=("F", "M")),
    column("town", "VARCHAR", domain=("Bern", "Genf", "Uri"), other="elsewhere"),
    column("name", "VARCHAR"),
    column("born", "DATE", lower=dt.date(1990, 1, 1), upper=dt.date(1992, 12, 31)),
    column("seen", "TIMESTAMP"),
    column("smoker", "BOOLEAN"),
    column("visits", "INTEGER"),
    column("level", "INTEGER", domain=(1, 2, None)),
    column("income", "DOUBLE", lower=-10.0, upper=20.0, null_value=0.0, nullable=False),
)


def clinic(**changed: Any) -> Table:
    """The table of most tests: units are persons (pid), 3 rows in each of 2 groups count."""
    given = {
        "name": "clinic",
        "relation": ("memory", "main", "clinic"),
        "columns": COLUMNS,
        "row_cap": 1000,
        "unit_key": "pid",
        "unit_type": "INTEGER",
        "max_rows": 3,
        "max_groups": 2,
    }
    given.update(changed)
    if given["unit_key"] is None:
        given.update(unit_type=None, max_rows=1, max_groups=1)
    return Table(**given)


@cache
def _instance() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@contextmanager
def shared() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to an instance that all tests of a process share, each loading its tables anew: one takes 15 ms."""
    with _instance().cursor() as con:
        yield con


FEW = 15  # rows that are faster given as parameters


def load(con: duckdb.DuckDBPyConnection, table: Table, rows: Sequence[Row], name: str | None = None) -> Table:
    """Create the base table; rows are (pid, columns...)."""
    names = ", ".join(f"{_quoted(c.source)} {c.type}" for c in table.columns)
    con.execute(f"CREATE OR REPLACE TABLE memory.main.{_quoted(name or table.name)} (pid INTEGER, {names})")
    into = f"INSERT INTO memory.main.{_quoted(name or table.name)}"
    if rows and not (len(rows) > FEW and _loaded(con, rows, into)):
        marks = ", ".join(["(" + ", ".join("?" * len(rows[0])) + ")"] * len(rows))
        con.execute(f"{into} VALUES {marks}", [v for r in rows for v in r])
    return table


def _loaded(con: duckdb.DuckDBPyConnection, rows: Sequence[Row], into: str) -> bool:
    """Insert rows as columns, unless one has values of several types, or of one that Arrow lacks."""
    try:
        parts = [pa.array(part) for part in zip(*rows, strict=True)]
    except (pa.ArrowException, OverflowError):
        return False
    con.register("__rows", pa.table(parts, names=[f"c{i}" for i in range(len(parts))]))
    con.execute(f"{into} FROM __rows")
    con.unregister("__rows")
    return True


def plan_for(
    text: str,
    table: Table,
    *,
    epsilon: object = 1,
    delta: object = "1e-8",
    mechanism: Any = "laplace",
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    parameters: Sequence[object] = (),
) -> Plan:
    """Text to plan."""
    query = read_select(parse_statement(text), {table.name.lower(): table}, text, parameters)
    return make_plan(
        query,
        epsilon_nano=parse_epsilon(epsilon),
        delta_atto=parse_delta(delta),
        neighbours=neighbours,
        mechanism=mechanism,
    )


def exact_rows(plan: Plan, con: duckdb.DuckDBPyConnection, salt: int = 7) -> list[Row]:
    """Exact (keys by name..., cells...) of the private instance; a plan that reads nothing has no rows."""
    if not plan.measures:
        return []
    query = emit(plan, salt)
    rows = con.execute(query.sql, list(query.parameters)).fetchall()
    keys = plan.query.keys
    names = [key_values(k) for k in keys]
    return [
        (*(v if n is None else n[v] for v, n in zip(row, names, strict=False)), *read_cells(plan, row[len(keys) :]))
        for row in rows
    ]


def crossing(plan: Plan, rows: Sequence[Row]) -> list[Row]:
    """Exact (keys..., cells...) as they would cross to ``SelectTask.release``: the inverse of :func:`exact_rows`."""
    keys = plan.query.keys
    codes = [dict(zip(k.domain or (), key_codes(k), strict=True)) if k.listed else None for k in keys]
    found = []
    for row in rows:
        at, sums = len(keys), []
        for measure in plan.measures:
            own, at = list(row[at : at + measure.cells]), at + measure.cells
            if measure.kind == "cells":
                steps, degree, keyed = 2**measure.bits, measure.degree, plan.query.table.unit_key is not None
                weight = (sum(own) if keyed else sum(own[: degree + 1])) // steps
                own = [*own[:degree], weight, *(n if keyed else weight + n // steps for n in own[degree + 1 :])]
            sums += own
        found.append((*(v if c is None else c[v] for v, c in zip(row, codes, strict=False)), *sums))
    return found


def exact_cells(plan: Plan, rows: Sequence[Row]) -> dict[Row, tuple[int, ...]]:
    """Cells by key."""
    width = len(plan.query.keys)
    return {row[:width]: tuple(int(v) for v in row[width:]) for row in rows}


def own_steps(plan: Plan) -> list[tuple[int, int]]:
    """Of a unit with so many open keys at most, and more than those before: what it adds to each, where keys count."""
    return list(plan.measures[0].levels) or [(plan.groups, 1)]


def exact_payload(plan: Plan, rows: Sequence[Row]) -> str:
    """A payload as ``SelectTask.release`` writes it, with exact cells and every open key shown."""
    if not plan.measures:
        return known_payload(plan)
    found = exact_cells(plan, rows)
    if plan.tau is not None:
        keys: list[Any] | None = [[encode_key(v) for v in key] for key in found]
        return json.dumps({"keys": keys, "cells": list(found.values())})
    domain = plan.query.groups_of([k.domain or () for k in plan.query.keys])
    return json.dumps({"keys": None, "cells": [found.get(key, [0] * plan.cells) for key in domain]})


def exact_answer(plan: Plan, con: duckdb.DuckDBPyConnection) -> list[OutputColumn]:
    """The statement's answer from exact cells."""
    return evaluate(plan, exact_payload(plan, exact_rows(plan, con)))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

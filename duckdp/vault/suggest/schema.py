"""What a schema says about its tables, for suggestions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import duckdb
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from duckdp.catalog.table import Kind, RawColumn, kind_of
from duckdp.vault.engine import Engine

MOST_CHECK = 2000  # characters of a CHECK that is read


@dataclass(frozen=True, kw_only=True)
class Check:
    """A CHECK of one column.

    Attributes:
        text: as the schema has it.
        bounds: what it says, when it says a lower and an upper bound.
        values: what it says, when it lists values.
    """

    text: str
    bounds: tuple[Any, Any] | None
    values: tuple[Any, ...] | None


@dataclass(kw_only=True)
class TableFacts:
    """What a table's schema says of it.

    Attributes:
        name: as it is protected.
        columns: in order.
        unique: lower-case names of columns that are a primary key or UNIQUE by themselves.
        references: lower-case column -> (table, lower-case column) of its foreign key.
        checks: lower-case column -> its checks.
        defaults: lower-case column -> its DEFAULT, where that is a constant.
    """

    name: str
    columns: list[RawColumn]
    unique: set[str] = field(default_factory=set)
    references: dict[str, tuple[str, str]] = field(default_factory=dict)
    checks: dict[str, list[Check]] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)


def read_schema(engine: Engine) -> dict[str, TableFacts]:
    """Facts about all base tables (and Parquet relations), by lower-case name."""
    cursor = engine.schema_cursor()
    relations = engine.source.relations(cursor)
    names = {relation: name for name, relation in relations.items()}
    found = {n: TableFacts(name=n, columns=engine.source.columns(cursor, r)) for n, r in relations.items()}
    for catalog, schema, table, kind, text, columns, target, target_columns in _constraints(cursor):
        name = names.get((catalog, schema, table))
        if name is None or len(set(columns)) != 1:
            continue
        facts, column = found[name], str(columns[0]).lower()
        if kind in ("PRIMARY KEY", "UNIQUE"):
            facts.unique.add(column)
        elif kind == "FOREIGN KEY" and (parent := names.get((catalog, schema, target))) is not None:
            facts.references[column] = (parent, str(target_columns[0]).lower())
        elif kind == "CHECK":
            raw = next(c for c in facts.columns if c.name.lower() == column)
            facts.checks.setdefault(column, []).append(read_check(str(text), raw))
    for catalog, schema, table, column, default in cursor.execute(
        "SELECT database_name, schema_name, table_name, column_name, column_default FROM duckdb_columns() "
        "WHERE column_default IS NOT NULL AND NOT internal"
    ).fetchall():
        name = names.get((catalog, schema, table))
        value = _constant(_parsed(str(default)))
        if name is not None and value is not None:
            found[name].defaults[str(column).lower()] = value
    return found


def read_check(text: str, column: RawColumn) -> Check:
    """A CHECK as bounds or values, as far as it is a conjunction of comparisons with constants.

    >>> read_check("((x >= 0) AND (x < 10))", RawColumn(name="x", type="INTEGER", nullable=True)).bounds
    (0, 9)
    """
    lower: list[Any] = []
    upper: list[Any] = []
    values: tuple[Any, ...] | None = None
    whole = (kind := kind_of(column.type)) is not None and kind[0] is Kind.NUMBER and kind[1]
    tree = _parsed(text)
    parts = [] if tree is None else list(tree.flatten()) if isinstance(tree, exp.And) else [tree]
    understood = bool(parts)
    for part in (p.unnest() for p in parts):
        if isinstance(part, exp.Between) and isinstance(part.this.unnest(), exp.Column):
            lower.append(_constant(part.args["low"]))
            upper.append(_constant(part.args["high"]))
        elif isinstance(part, exp.In) and isinstance(part.this.unnest(), exp.Column) and part.expressions:
            values = tuple(_constant(v) for v in part.expressions)
        elif isinstance(part, (exp.GT, exp.GTE, exp.LT, exp.LTE)):
            above = isinstance(part, (exp.GT, exp.GTE)) == isinstance(part.left.unnest(), exp.Column)
            value = _constant(part.right if isinstance(part.left.unnest(), exp.Column) else part.left)
            if whole and isinstance(part, (exp.GT, exp.LT)) and isinstance(value, int):
                value += 1 if above else -1
            (lower if above else upper).append(value)
        else:
            understood = False
    if not understood or None in [*lower, *upper, *(values or ())]:
        return Check(text=text, bounds=None, values=None)
    alike = len({isinstance(v, str) for v in (*lower, *upper)}) == 1
    bounds = (max(lower), min(upper)) if lower and upper and alike else None
    return Check(text=text, bounds=bounds, values=values)


def _constraints(cursor: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    return cursor.execute(
        "SELECT database_name, schema_name, table_name, constraint_type, coalesce(expression, constraint_text), "
        "constraint_column_names, referenced_table, referenced_column_names FROM duckdb_constraints() ORDER BY ALL"
    ).fetchall()


def _parsed(text: str) -> exp.Expression | None:
    if len(text) > MOST_CHECK:
        return None
    try:
        found = parse_one(text, dialect="duckdb")
    except (SqlglotError, RecursionError, ValueError):
        return None
    inner = found.unnest()
    return inner if isinstance(inner, exp.Expression) else None


def _constant(node: object) -> Any:
    """A number, a text or an ISO date; None for anything else."""
    if not isinstance(node, exp.Expression):
        return None
    node = node.unnest()
    if isinstance(node, exp.Cast):
        return _constant(node.this)
    if isinstance(node, exp.Neg):
        value = _constant(node.this)
        return -value if isinstance(value, (int, float)) else None
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return str(node.this)
    for kind in (int, float):
        try:
            return kind(str(node.this))
        except ValueError:
            continue
    return None

"""What is public of a table, as rows: for analysts, who list it, and for the owner's page."""

from __future__ import annotations

from typing import Any

from duckdp.catalog.table import Table, name_unit, plain_type


def catalog_rows(table: Table) -> list[tuple[Any, ...]]:
    """What is public of a table: a row for each column, as ``dp_catalog`` lists it."""
    unit = "public" if table.public is not None else _unit(table)
    rows = []
    for c in table.columns:
        listed = None if c.domain is None else ", ".join("NULL" if v is None else str(v) for v in c.domain[:50])
        if listed is not None and c.domain is not None:
            listed += (", ..." if len(c.domain) > 50 else "") + ("" if c.other is None else f"; others as {c.other}")
        bounds = [None if b is None else str(b) for b in (c.lower, c.upper)]
        nulls = "left out" if c.nullable else "none"
        nulls = nulls if c.null_value is None else f"read as {c.null_value}"
        rows.append((table.name, c.name, plain_type(c.type), *bounds, listed, nulls, unit))
    return rows


def _unit(table: Table) -> str:
    return "row" if table.unit_key is None else f"{name_unit(table)}, {table.max_rows} rows, {table.max_groups} groups"

"""Declared columns of generated and public tables, by DuckDB's name of their type."""

from __future__ import annotations

from typing import Any

from duckdp.catalog.table import Column, kind_of


def declared(name: str, duckdb_type: str, *, nullable: bool = False, **more: Any) -> Column:
    """A column as an owner would declare it; ``more``: its bounds, domain and the value for all others."""
    known = kind_of(duckdb_type)
    assert known is not None
    kind, integral = known
    return Column(name=name, source=name, type=duckdb_type, kind=kind, integral=integral, nullable=nullable, **more)

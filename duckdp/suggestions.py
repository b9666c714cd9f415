"""Declarations to fill in, from the schema alone."""

from __future__ import annotations

import json
from collections.abc import Sequence

from duckdp.catalog import Kind, kind_of, missing_table
from duckdp.engine import Engine
from duckdp.source import RawColumn


def suggest(engine: Engine, table: str | None) -> str:
    """Ready ``protect`` calls with the bounds left to fill in; reads the schema only."""
    cursor = engine.schema_cursor()
    found = engine.source.relations(cursor)
    names = [table.lower()] if table is not None else sorted(found)
    for name in names:
        if name not in found:
            raise missing_table(name, found)
    return "\n\n".join(suggest_call(n, engine.source.columns(cursor, found[n])) for n in names)


def suggest_call(name: str, columns: Sequence[RawColumn]) -> str:
    """A ``protect`` call with the public figures left to fill in.

    >>> print(suggest_call("t", [RawColumn(name="age", type="INTEGER", nullable=True)]))
    curator.protect(
        "t",
        row_cap=...,          # public upper bound of the number of rows
        # unit_key="...",     # column that names a person; then also max_rows=...
        bounds={"age": (..., ...)},   # public clamp intervals
        domains={},   # complete public lists of values
        columns=[],   # further columns analysts may see
    )
    """
    kinds = {c.name: kind_of(c.type) for c in columns}
    bounded = [n for n, k in kinds.items() if k is not None and k[0] in (Kind.NUMBER, Kind.DATE, Kind.TIMESTAMP)]
    listed = [n for n, k in kinds.items() if k is not None and k[0] is Kind.TEXT]
    flags = [n for n, k in kinds.items() if k is not None and k[0] is Kind.BOOLEAN]
    bounds = ", ".join(f"{json.dumps(n, ensure_ascii=False)}: (..., ...)" for n in bounded)
    domains = ", ".join(f"{json.dumps(n, ensure_ascii=False)}: [...]" for n in listed)
    further = ", ".join(json.dumps(n, ensure_ascii=False) for n in flags)
    left = [n for n, k in kinds.items() if k is None]
    note = [f"    # no rule for: {', '.join(left)}"] if left else []
    return "\n".join(
        [
            "curator.protect(", f"    {json.dumps(name, ensure_ascii=False)},",
            "    row_cap=...,          # public upper bound of the number of rows",
            '    # unit_key="...",     # column that names a person; then also max_rows=...',
            f"    bounds={{{bounds}}},   # public clamp intervals",
            f"    domains={{{domains}}},   # complete public lists of values",
            f"    columns=[{further}],   # further columns analysts may see", *note, ")",
        ]
    )  # fmt: skip

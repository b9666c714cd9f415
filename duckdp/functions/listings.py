"""What an analyst may list: budget, charges, stored objects, declarations. Free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duckdp.catalog import Table, name_unit, plain_type
from duckdp.functions.prepared import Prepared
from duckdp.result import Result, plain_result

if TYPE_CHECKING:
    from duckdp.session import Session


def budget(session: Session) -> Prepared:
    """What the analyst was granted, spent and has left, of each limit."""
    session.require_grant()
    names = ["analyst", "scope", "granted", "spent", "remaining"]
    return Prepared(
        columns=[(n, "VARCHAR") for n in names], run=lambda _: plain_result(names, session.budget_rows())
    )  # fmt: skip


def ledger(session: Session) -> Prepared:
    """The analyst's own charges."""
    session.require_grant()
    names = ("at", "kind", "mechanism", "cost", "state", "statement")
    shape = [("charge", "BIGINT"), *((n, "VARCHAR") for n in names)]

    def run(_: str) -> Result:
        rows = [(c.id, c.at, c.kind, c.mechanism, str(c.loss), c.state, c.statement) for c in session.own_charges()]
        return plain_result([n for n, _ in shape], rows, [t for _, t in shape])

    return Prepared(columns=shape, run=run)


def summaries(session: Session) -> Prepared:
    """Summaries and synthetic tables the analyst may use."""
    names = ["name", "kind", "owner", "made", "about"]
    return Prepared(
        columns=[(n, "VARCHAR") for n in names], run=lambda _: plain_result(names, session.object_rows())
    )  # fmt: skip


def catalog(session: Session) -> Prepared:
    """Declared tables and columns with their public figures."""
    names = ["table", "column", "type", "lower", "upper", "domain", "nulls", "unit"]
    return Prepared(
        columns=[(n, "VARCHAR") for n in names],
        run=lambda _: plain_result(names, [r for t in session.tables().values() for r in _catalog_rows(t)]),
    )


def _catalog_rows(table: Table) -> list[tuple[Any, ...]]:
    unit = "row" if table.unit_key is None else f"{name_unit(table)}, {table.max_rows} rows, {table.max_groups} groups"
    rows = []
    for c in table.columns:
        listed = None if c.domain is None else ", ".join("NULL" if v is None else str(v) for v in c.domain[:50])
        if listed is not None and c.domain is not None:
            listed += (", ..." if len(c.domain) > 50 else "") + ("" if c.other is None else f"; others as {c.other}")
        kind = plain_type(c.type)
        bounds = [None if b is None else str(b) for b in (c.lower, c.upper)]
        nulls = "left out" if c.null_value is None else f"read as {c.null_value}"
        rows.append(
            (
                table.name,
                c.name,
                kind,
                *bounds,
                listed,
                nulls if c.nullable or c.null_value is not None else "none",
                unit,
            )
        )
    return rows

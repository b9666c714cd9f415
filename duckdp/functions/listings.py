"""What an analyst may list: budget, charges, stored objects, declarations. Free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duckdp.catalog.table import Table, name_unit, plain_type
from duckdp.functions.prepared import NOTE, Prepared, read_size
from duckdp.result import Result, plain_result

if TYPE_CHECKING:
    from duckdp.session import Session

PAGE = 1000  # rows of a listing, unless it says otherwise


def budget(session: Session) -> Prepared:
    """What the analyst was granted, spent and has left, of each limit."""
    session.require_grant()
    names = ["analyst", "scope", "granted", "spent", "remaining"]
    return Prepared(
        columns=[(n, "VARCHAR") for n in names], run=lambda _: plain_result(names, session.budget_rows())
    )  # fmt: skip


def ledger(session: Session, most: object = None, before: object = None) -> Prepared:
    """The analyst's own charges, the newest of them."""
    session.require_grant()
    limit, place = read_size("most", most, PAGE), None if before is None else read_size("before", before, 1)
    names = ("at", "kind", "mechanism", "cost", "state", "statement")
    shape = [("charge", "BIGINT"), *((n, "VARCHAR") for n in names)]

    def run(_: str) -> Result:
        found = session.own_charges(limit + 1, place)
        shown = found[-limit:]
        rows = [(c.id, c.at, c.kind, c.mechanism, str(c.loss), c.state, c.statement) for c in shown]
        note = f"earlier charges: dp_ledger(before := {shown[0].id})" if len(found) > limit else None
        return _page([n for n, _ in shape], rows, [t for _, t in shape], note)

    return _noted(shape, run, noted=session.count_charges() > limit)


def summaries(session: Session, most: object = None, after: object = None) -> Prepared:
    """Summaries and synthetic tables the analyst may use; those without a release yet are left out."""
    limit, place = read_size("most", most, PAGE), "" if after is None else str(after)
    names = ["name", "kind", "owner", "made", "about"]

    def run(_: str) -> Result:
        found = session.objects(limit + 1, place)
        shown, note = found[:limit], None
        if len(found) > limit:
            last = shown[-1].name if shown[-1].owner == session.analyst else f"{shown[-1].owner}.{shown[-1].name}"
            note = f"more: dp_summaries(after := '{last}')"
        rows = [(o.name, o.kind, o.owner, o.at, " ".join(o.statement.split())) for o in shown if o.ready]
        return _page(names, rows, ["VARCHAR"] * len(names), note)

    return _noted([(n, "VARCHAR") for n in names], run, noted=len(session.objects(limit + 1, place)) > limit)


def _page(names: Sequence[str], rows: Sequence[tuple[Any, ...]], types: Sequence[str], note: str | None) -> Result:
    """A part of a listing, and in a note how to get what follows; SQL has it as a column."""
    return replace(plain_result(names, rows, types), notes=[] if note is None else [note], caveat=note)


def _noted(shape: list[tuple[str, str]], run: Callable[[str], Result], *, noted: bool) -> Prepared:
    """A listing, with a column for the note if there may be one now."""
    return Prepared(columns=[*shape, *([NOTE] if noted else [])], run=run, note=noted)


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

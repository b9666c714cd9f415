"""What an analyst may list: budget, charges, stored objects, declarations. Free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from duckdp.catalog.listed import catalog_rows
from duckdp.functions.kinds import Size, Word
from duckdp.functions.planned import Planned, with_note
from duckdp.functions.spec import DpFunction, dp_function, option
from duckdp.result import Result, plain_result

if TYPE_CHECKING:
    from duckdp.desk.desk import Desk

PAGE = 1000  # rows of a listing, unless it says otherwise
MOST = f"at most so many; {PAGE:,} by default"


@dp_function("dp_budget", forms=("table", "view"))
@dataclass(frozen=True, kw_only=True)
class Budget(DpFunction):
    """What was granted, was spent and is left, of each limit."""

    def plan(self, desk: Desk) -> Planned:
        """One row for each limit."""
        desk.require_grant()
        names = ["analyst", "scope", "granted", "spent", "remaining"]
        return Planned(
            columns=[(n, "VARCHAR") for n in names], run=lambda _: plain_result(names, desk.budget_rows()), rows=9
        )


@dp_function("dp_ledger", forms=("table", "view"), example="most := 10")
@dataclass(frozen=True, kw_only=True)
class OwnCharges(DpFunction):
    """The analyst's own charges, oldest first."""

    most: Size | None = option(None, about=f"the newest of them, {MOST}")
    before: Size | None = option(None, about="only those before this charge, to go back from a page")

    def plan(self, desk: Desk) -> Planned:
        """One row for each charge."""
        desk.require_grant()
        limit, place = PAGE if self.most is None else self.most, self.before
        names = ("at", "kind", "mechanism", "cost", "state", "statement")
        shape = [("charge", "BIGINT"), *((n, "VARCHAR") for n in names)]

        def run(_: str) -> Result:
            found = desk.own_charges(limit + 1, place)
            shown = found[-limit:]
            rows = [(c.id, c.at, c.kind, c.mechanism, str(c.loss), c.state, c.statement) for c in shown]
            note = f"earlier charges: dp_ledger(before := {shown[0].id})" if len(found) > limit else None
            return _page([n for n, _ in shape], rows, [t for _, t in shape], note)

        return with_note(shape, run, noted=desk.count_charges() > limit)


@dp_function("dp_summaries", forms=("table", "view"), example="most := 10")
@dataclass(frozen=True, kw_only=True)
class StoredObjects(DpFunction):
    """Stored summaries and synthetic tables, the analyst's own first, by name."""

    most: Size | None = option(None, about=MOST)
    after: Word | None = option(None, about="to go on from a page, the name of its last one; if shared, owner.name")

    def plan(self, desk: Desk) -> Planned:
        """A row an object; those without a release yet are left out."""
        limit, place = PAGE if self.most is None else self.most, self.after or ""
        names = ["name", "kind", "owner", "made", "about"]

        def run(_: str) -> Result:
            found = desk.objects(limit + 1, place)
            shown, note = found[:limit], None
            if len(found) > limit:
                last = shown[-1].name if shown[-1].owner == desk.analyst else f"{shown[-1].owner}.{shown[-1].name}"
                note = f"more: dp_summaries(after := '{last}')"
            rows = [(o.name, o.kind, o.owner, o.at, " ".join(o.statement.split())) for o in shown if o.ready]
            return _page(names, rows, ["VARCHAR"] * len(names), note)

        return with_note([(n, "VARCHAR") for n in names], run, noted=len(desk.objects(limit + 1, place)) > limit)


@dp_function("dp_catalog", forms=("table", "view"))
@dataclass(frozen=True, kw_only=True)
class Declarations(DpFunction):
    """Declared tables and columns with their public figures."""

    def plan(self, desk: Desk) -> Planned:
        """One row for each declared column."""
        names = ["table", "column", "type", "lower", "upper", "domain", "nulls", "unit"]

        def run(_: str) -> Result:
            return plain_result(names, [r for t in desk.known().values() for r in catalog_rows(t)])

        return Planned(columns=[(n, "VARCHAR") for n in names], run=run)


def _page(names: Sequence[str], rows: Sequence[tuple[Any, ...]], types: Sequence[str], note: str | None) -> Result:
    """A part of a listing, and in a note how to get what follows; SQL has it as a column."""
    return replace(plain_result(names, rows, types), notes=[] if note is None else [note], caveat=note)

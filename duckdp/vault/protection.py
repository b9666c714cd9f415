"""Declarations from what an owner says to the ledger: completed, checked, compared with what stands, stored, told.

A declaration is compared and stored in one transaction of the ledger, so no other process can put a second kind of
unit beside it, and no charge can fall between. Several tables are stored together or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duckdp.catalog.naming import BY_COLUMN, name_columns, take_over
from duckdp.catalog.table import Table, load_table, missing_table
from duckdp.catalog.units import Declared, require_one_unit
from duckdp.catalog.values import unit_key_allowed
from duckdp.errors import CatalogError, ParameterError, printable
from duckdp.ledger import DataSetState, DeclarationRow
from duckdp.vault.declare import FIGURES, Resolved, declare_table, resolve
from duckdp.vault.engine import Engine
from duckdp.vault.linking import check_all, relinked
from duckdp.vault.suggest.keys import is_person

if TYPE_CHECKING:
    from duckdp.vault.dataset import DataSet

KNOWN = (*FIGURES, *BY_COLUMN, "columns", "like", "remove")
MOST_SHOWN = 20  # values of a domain in a difference


@dataclass(frozen=True, kw_only=True)
class Protected:
    """A table as it is declared now.

    Attributes:
        table: its declaration.
        new: nothing stood under its name.
        changes: what differs from what stood, a line each.
    """

    table: Table
    new: bool
    changes: tuple[str, ...]

    @property
    def warnings(self) -> list[str]:
        """What the owner may not have meant, a line each."""
        none = _shown(None)
        lost = [c.partition(": ")[0] for c in self.changes if c.endswith(f"-> {none}") and f": {none} ->" not in c]
        lost += [c.removeprefix("columns: - ") for c in self.changes if c.startswith("columns: - ")]
        found = [f"no longer declared: {', '.join(lost)}"] if lost else []
        if self.table.unit_key is None:
            likely = [
                c.name
                for c in self.table.columns
                if is_person(c.name) and c.domain is None and unit_key_allowed(c.type)
            ]
            more = f'; "{likely[0]}" looks like a key: unit_key= protects all rows of one' if likely else ""
            found += [f"each row is protected as a person of its own{more}"] if likely else []
        hidden = {*self.table.unique} - {c.source for c in self.table.columns} - {self.table.unit_key}
        if hidden:
            found.append(f"{', '.join(sorted(hidden))}: unique, and no join can compare it; columns= lets it")
        return [printable(f"{self.table.name}: {line}") for line in found]

    def __str__(self) -> str:
        told = [] if self.new else [f"{self.table.name}: {line}" for line in self.changes]
        return "\n".join([*told, *self.warnings, str(self.table)])


def protect_tables(
    data: DataSet, wanted: Mapping[str, Mapping[str, Any]], *, keep: bool, reason: str | None
) -> list[Protected]:
    """Declare tables, all or none.

    Args:
        data: the data set: its schema, rows for what is declared unique, and ledger.
        wanted: arguments of ``Curator.protect`` by table; with ``keep`` also ``remove``, a list of columns.
        keep: what is not named of a declared table stays as it is; otherwise the declaration is replaced.
        reason: for the log.

    Raises:
        CatalogError: C101 to C103, C105, C106, C109, C111. ParameterError: P104, P105, P107.
    """
    engine, ledger = data.engine, data.ledger
    loaded = {name: load_table(text) for name, text in ledger.tables().items()}
    standing = {name: table for name, table in loaded.items() if table.public is None}
    made: dict[str, Table] = {}
    for name, given in wanted.items():
        table = _declare(engine, name, given, {**standing, **made}, keep=keep)
        if table.name in made:
            raise CatalogError("C111", f'two tables are called "{table.name}". Protect one of them.', table=table.name)
        made[table.name] = table
    made |= relinked(standing, made)
    if any(table.link is not None or table.unique for table in made.values()):
        data.require_current()
        done = check_all(engine, made.values(), data.fingerprint)
        made = {name: next(t for t in done if t.name == name) for name in made}

    def review(state: DataSetState, rows: list[DeclarationRow]) -> dict[str, list[str]]:
        known = [Declared(table=load_table(r.declaration), stands=r.active, charged=r.charged) for r in rows]
        _require_private(made, [d.table for d in known if d.stands and d.table.public is not None])
        known = [d for d in known if d.table.public is None]
        present = {d.table.name: d.table for d in known if d.stands}
        for name, table in made.items():
            if keep and present.get(name) != standing.get(name):
                raise CatalogError("C103", "the declaration changed meanwhile. Run it again.", table=table.name)
        require_one_unit(list(made.values()), known, state.neighbours)
        return {name: difference(present[name], table) for name, table in made.items() if name in present}

    ledger.save_tables({n: t.declaration for n, t in made.items()}, review=review, reason=reason)
    return [
        Protected(table=t, new=n not in standing, changes=tuple(difference(standing[n], t)) if n in standing else ())
        for n, t in made.items()
    ]


def _require_private(made: Mapping[str, Table], published: Iterable[Table]) -> None:
    """Refuse what stands as a public table: its rows would be both someone's and no one's."""
    for other in published:
        for table in made.values():
            if other.name == table.name or other.relation == table.relation:
                text = (
                    f'"{other.name}" is published: its rows are no one\'s. Unpublish it first, with curator.unpublish.'
                )
                raise CatalogError("C111", text, table=table.name)


def arguments_of(table: Table) -> dict[str, Any]:
    """The arguments of ``Curator.protect`` that declare a table as it is."""
    figures = {name: getattr(table, name) for name in FIGURES}
    figures["link"] = None if table.link is None else str(table.link)
    if table.unit_key is None:
        figures = {k: v for k, v in figures.items() if k in ("row_cap", "expected_rows", "constraints")}
    elif table.link is not None:
        figures = {k: v for k, v in figures.items() if k not in ("unit_key", "unit", "null_units")}
    by_column: dict[str, dict[str, Any]] = {what: {} for what in BY_COLUMN}
    for c in table.columns:
        for what, figure in (
            ("bounds", None if c.lower is None else (c.lower, c.upper)),
            ("domains", c.domain),
            ("nulls", c.null_value),
            ("other", c.other),
        ):
            if figure is not None:
                by_column[what][c.name] = figure
    return {**figures, **by_column, "columns": [c.name for c in table.columns]}


def difference(old: Table, new: Table) -> list[str]:
    """What changes from one declaration to another, a line each, in the words of ``protect``."""
    before, after = arguments_of(old), arguments_of(new)
    lines = [
        f"{name}: {_shown(before.get(name))} -> {_shown(after.get(name))}"
        for name in FIGURES
        if before.get(name) != after.get(name)
    ]
    for what in BY_COLUMN:
        for column in {**before[what], **after[what]}:
            was, now = before[what].get(column), after[what].get(column)
            if was != now:
                shown = _values(was, now) if what == "domains" else f"{_shown(was)} -> {_shown(now)}"
                lines.append(f"{what}[{column}]: {shown}")
    was_columns, now_columns = {c.name: c for c in old.columns}, {c.name: c for c in new.columns}
    lines += [f"columns: + {name}" for name in now_columns if name not in was_columns]
    lines += [f"columns: - {name}" for name in was_columns if name not in now_columns]
    for name, column in now_columns.items():
        if name in was_columns and was_columns[name].type != column.type:
            lines.append(f"type of {name}: {was_columns[name].type} -> {column.type}")
    for what, was, now in (
        ("type of unit_key", old.unit_type, new.unit_type),
        ("relation", old.relation, new.relation),
        ("predicate of the view", old.filter, new.filter),
    ):
        if was != now:
            lines.append(f"{what}: {_shown(was)} -> {_shown(now)}")
    return lines or (["details of the schema"] if old != new else [])


def _declare(
    engine: Engine, name: str, given: Mapping[str, Any], standing: Mapping[str, Table], *, keep: bool
) -> Table:
    for key, value in given.items():
        if key not in KNOWN or (key == "remove" and not keep):
            raise ParameterError("P107", "protect", key, f"is not one of {', '.join(KNOWN)}.")
        _require_filled(key, value)
    if not isinstance(given.get("remove"), (str, list, tuple, set, frozenset, type(None))):
        raise ParameterError("P107", "remove", given["remove"], "must be a list of columns.")
    found = resolve(engine, name)
    told = {k: given[k] for k in FIGURES if given.get(k) is not None}
    old = standing.get(found.name) if keep else None
    if old is not None and old.relation == found.relation:
        kept = arguments_of(old)
        told = {k: v for k, v in kept.items() if k in FIGURES and v is not None} | told
        if "unit_key" in given and "link" not in given:
            told.pop("link", None)
        elif "link" in given and "unit_key" not in given:
            told = {k: v for k, v in told.items() if k not in ("unit_key", "unit", "null_units")}
    else:
        kept = {}
    if "row_cap" not in told:
        raise ParameterError("P107", "row_cap", None, "must be given: a public upper bound of the number of rows.")
    unit_key = told.get("unit_key")
    named = name_columns(found.name, given, found.columns, unit_key)
    if kept and str(unit_key).lower() != str(kept.get("unit_key")).lower():
        told = {
            k: v for k, v in told.items() if k in given or k not in ("unit", "null_units")
        }  # spoke of the other key
    merged = _merge(found, kept, named, given.get("remove") or ())
    if given.get("like") is not None:
        other = standing.get(str(given["like"]).lower())
        if other is None:
            raise missing_table(str(given["like"])[:63], standing)
        take_over(found.name, merged, found.columns, unit_key, other)
    order = [*merged["kept"], *merged["bounds"], *merged["domains"], *merged["columns"], *merged["nulls"]]
    return declare_table(engine, found, told, merged, dict.fromkeys(order), standing)


def _merge(
    found: Resolved, kept: Mapping[str, Any], named: dict[str, dict[str, Any]], remove: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """What is named over what was declared; None takes a figure away, ``remove`` a column with all of its figures."""
    gone = {str(n).lower() for n in ([remove] if isinstance(remove, str) else remove)}
    declared = {str(n).lower() for n in kept.get("columns", ())}
    for name in gone - declared:
        raise CatalogError(
            "C102", f'column "{name[:63]}" is not declared, so it cannot be removed.', table=found.name, column=name
        )
    merged: dict[str, dict[str, Any]] = {}
    for what in BY_COLUMN:
        old = {n.lower(): v for n, v in kept.get(what, {}).items()} | named[what]
        merged[what] = {n: v for n, v in old.items() if v is not None and n not in gone}
    merged["columns"] = {n: True for n in named["columns"] if n not in gone}
    merged["kept"] = {n.lower(): True for n in kept.get("columns", ()) if n.lower() not in gone}
    return merged


def _require_filled(name: str, value: object) -> None:
    """Refuse what ``suggest`` left open."""
    if isinstance(value, Mapping):
        for key, figure in value.items():
            _require_filled(f'{name}["{key}"]', figure)
    elif value is ... or (isinstance(value, (list, tuple)) and any(v is ... for v in value)):
        raise ParameterError("P107", name, "...", "is still to be filled in, or its line to be left out.")


def _shown(value: object) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, (tuple, list)):
        more = ", ..." if len(value) > MOST_SHOWN else ""
        return f"({', '.join('NULL' if v is None else str(v) for v in value[:MOST_SHOWN])}{more})"
    return str(value)


def _values(was: tuple[Any, ...] | None, now: tuple[Any, ...] | None) -> str:
    """Two domains: what came and what went, or one where the other is missing."""
    if was is None or now is None or set(was) == set(now):
        return f"{_shown(was)} -> {_shown(now)}"
    parts = []
    for mark, values in (("+", [v for v in now if v not in set(was)]), ("-", [v for v in was if v not in set(now)])):
        if values:
            parts.append(f"{mark} {_shown(values)}")
    return " ".join(parts)

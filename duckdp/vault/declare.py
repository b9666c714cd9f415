"""A ``protect`` call to a checked declaration, against the real schema and never against the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from duckdp.catalog.constraints import check_constraints
from duckdp.catalog.link import Link
from duckdp.catalog.table import (
    INTEGER_RANGES,
    Column,
    Kind,
    RawColumn,
    Scalar,
    Table,
    check_name,
    check_positive,
    closest,
    kind_of,
)
from duckdp.catalog.units import check_unit
from duckdp.catalog.values import check_bounds, check_domain, check_held, check_null_units, unit_key_allowed
from duckdp.compiler.printing import UNIT
from duckdp.errors import CatalogError, ParameterError
from duckdp.vault.computed import require_stored
from duckdp.vault.engine import Engine
from duckdp.vault.linking import check_unique, make_link, require_keys, require_plain, require_rows, unit_told
from duckdp.vault.views import read_view

FIGURES = (
    "row_cap",
    "expected_rows",
    "unit_key",
    "unit",
    "null_units",
    "max_rows",
    "max_groups",
    "constraints",
    "link",
    "unique",
)


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A relation that may be protected.

    Attributes:
        name: as analysts will write it.
        relation: its base table.
        columns: those of the table, or of the view.
        filter: the view's predicate, in SQL over the base table, or None.
        base: columns the predicate may use.
    """

    name: str
    relation: tuple[str, str, str]
    columns: list[RawColumn]
    filter: str | None
    base: tuple[Column, ...]


def declare_table(
    engine: Engine,
    found: Resolved,
    told: Mapping[str, Any],
    named: Mapping[str, Mapping[str, Any]],
    order: Iterable[str],
    known: Mapping[str, Table] = MappingProxyType({}),
) -> Table:
    """Build and check a table's declaration; see ``Curator.protect`` for the arguments.

    Args:
        engine: knows the schema.
        found: what is declared.
        told: those of FIGURES that were given.
        named: "bounds", "domains", "nulls", "other" by lower-case column name.
        order: lower-case names of the columns to declare.
        known: protected tables by name, that links may name.

    Raises:
        CatalogError: C102, C105. ParameterError: P104, P107.
    """
    table, raw = found.name, {c.name.lower(): c for c in found.columns}
    unit_key = told.get("unit_key")
    unique = check_unique(table, told.get("unique") or (), found.columns)
    link = None if told.get("link") is None else _link(engine, found, told, known)
    if link is None and unit_key is None:
        _require_keyless(**{k: told.get(k) for k in ("max_rows", "max_groups", "unit", "null_units")})
    elif unit_key is not None and (not isinstance(unit_key, str) or unit_key.lower() not in raw):
        near = closest(str(unit_key), [c.name for c in raw.values()])
        raise CatalogError(
            "C102", f'"{table}" has no column "{str(unit_key)[:63]}". {near}', table=table, column=str(unit_key)
        )
    key = None if unit_key is None else _key(engine, found, raw[unit_key.lower()], told)
    parent = None if link is None else known[link.parent.name]
    if parent is not None:
        key = RawColumn(name=str(parent.unit_key), type=str(parent.unit_type), nullable=True)
        _require_rows(told)
    by_column = [named[what] for what in ("bounds", "domains", "nulls", "other")]
    wanted = list(order)
    if link is not None and link.column.lower() not in wanted:
        wanted.append(link.column.lower())
    if unit_key is not None and unit_key.lower() in wanted:
        raise CatalogError(
            "C105",
            f'"{unit_key}" names the privacy unit and cannot be a column of queries, which have '
            f"count(DISTINCT {unit_key}). Leave it out of bounds, domains, columns and nulls.",
            table=table,
        )
    _require_known(table, raw, wanted, named)
    rows, guess, null_units, unit = (told.get(k) for k in ("max_rows", "expected_rows", "null_units", "unit"))
    columns = tuple(_column(table, raw[n], *(m.get(n) for m in by_column)) for n in wanted)
    declared = Table(
        name=table,
        relation=found.relation,
        columns=columns,
        row_cap=check_positive("row_cap", told.get("row_cap")),
        unit_key=key.name if key else None,
        unit_type=key.type if key else None,
        max_rows=rows if rows is not None else 1,
        max_groups=(told.get("max_groups") or rows or 1) if key else 1,
        expected_rows=None if guess is None else check_positive("expected_rows", guess),
        filter=found.filter,
        base=found.base,
        unit=unit_told(parent) if parent is not None else None if unit is None else check_unit(unit),
        null_units=check_null_units(key.type, () if null_units is None else null_units) if key else (),
        link=link,
        unique=unique,
        constraints=check_constraints(table, told.get("constraints") or (), columns),
    )
    require_stored(engine, declared)
    return declared


def _link(engine: Engine, found: Resolved, told: Mapping[str, Any], known: Mapping[str, Table]) -> Link:
    if any(told.get(k) for k in ("unit_key", "unit", "null_units")):
        rule = "gives rows the unit of another table. Leave out unit_key, unit and null_units."
        raise ParameterError("P107", "link", told["link"], rule)
    return make_link(engine, found.name, found.relation, found.columns, told["link"], known)


def _require_known(
    table: str, raw: Mapping[str, Any], wanted: Iterable[str], named: Mapping[str, Mapping[str, Any]]
) -> None:
    """Refuse columns that the table has not, and labels for what a domain leaves out where there is no domain."""
    for name in wanted:
        if name not in raw:
            raise CatalogError(
                "C102",
                f'"{table}" has no column "{name}" any more. Take it out of the declaration: remove it.',
                table=table,
                column=name,
            )
    for name in named["other"]:
        if name not in named["domains"]:
            raise CatalogError(
                "C105",
                f'other["{name}"] labels the values outside a domain. Give domains["{name}"] too, or no other.',
                table=table,
                column=name,
            )


def require_schema(engine: Engine, table: Table) -> None:
    """Require that the present schema is the one of a stored declaration.

    Raises:
        CatalogError: C103; C105, a column of it is generated, or keys are collated.
    """
    cursor = engine.schema_cursor()
    require_rows(engine, table)
    require_stored(engine, table)
    present = {c.name: c for c in engine.source.columns(cursor, table.relation)}
    wanted = {c.source: c.type for c in (*table.columns, *table.base)}
    if table.link is not None:
        wanted[table.link.column] = table.link.type
    elif table.unit_key is not None:
        wanted[table.unit_key] = table.unit_type or ""
    filled = {c.source for c in table.columns if not c.nullable and c.null_value is None}
    for name, kind in wanted.items():
        found = present.get(name)
        if found is None:
            what = "is gone"
        elif found.type != kind:
            what = f"was {kind} and is {found.type}"
        elif name in filled and found.nullable:
            what = "was NOT NULL and may be NULL now"  # a public count rests on it under REPLACE
        else:
            continue
        raise CatalogError(
            "C103",
            f'column "{name}" of "{table.name}" {what}. The data owner amends the declaration, or unprotects it.',
            table=table.name,
            column=name,
        )
    require_keys(engine, table)


def resolve(engine: Engine, table: object) -> Resolved:
    """Find a base table, a Parquet relation or a protectable view in the source.

    Raises:
        CatalogError: C101, C106. ParameterError: P105, P107.
    """
    cursor = engine.schema_cursor()
    if not isinstance(table, str):
        raise ParameterError("P107", "table", table, "must be the name of a table.")
    relations = engine.source.relations(cursor)
    relation = relations.get(table.lower())
    if relation is not None:
        columns = engine.source.columns(cursor, relation)
        return Resolved(name=_name(table), relation=relation, columns=columns, filter=None, base=())
    text = engine.source.view_sql(cursor, table)
    if text is None:
        raise CatalogError(
            "C101", f'the source has no table or view "{table[:63]}". {closest(table, relations)}', table=table
        )
    view = read_view(table, text, relations)
    raw = {c.name.lower(): c for c in engine.source.columns(cursor, view.relation)}
    base = tuple(
        Column(name=c.name, source=c.name, type=c.type, kind=k[0], integral=k[1], nullable=True)
        for c in raw.values()
        if (k := kind_of(c.type)) is not None and not c.generated
    )
    columns = view.select(list(raw.values()))
    view.check(base, table, engine.source.macros(cursor))
    return Resolved(
        name=_name(table),
        relation=view.relation,
        columns=columns,
        filter=view.filter,
        base=base if view.filter is not None else (),
    )


def _name(table: str) -> str:
    try:
        return check_name(table.lower().split(".")[-1], "table")
    except ParameterError as error:
        rule = f"{error.rule} Make a view under such a name, CREATE VIEW t AS FROM ..., and protect that."
        raise ParameterError("P105", "table", table, rule) from None


def _require_keyless(**given: object) -> None:
    """Nothing but 1 for what speaks of a unit's several rows."""
    for name, value in given.items():
        if value not in (None, 1, (), []):
            raise ParameterError(
                "P107", name, value, "goes with unit_key; without it a unit is one row. Name the unit_key, or drop it."
            )


def _key(engine: Engine, found: Resolved, unit: RawColumn, told: Mapping[str, Any]) -> RawColumn:
    table, source = found.name, getattr(unit, "source", unit.name)
    if source != unit.name:
        raise CatalogError(
            "C105",
            f'unit_key "{unit.name}" is renamed by the view. Let the view select "{source}" under that name.',
            table=table,
        )
    if not unit_key_allowed(unit.type):
        raise CatalogError(
            "C105",
            f'unit_key "{unit.name}" has type {unit.type}; it must be an integer, VARCHAR or UUID. '
            "ALTER its type, or name another column.",
            table=table,
        )
    require_plain(engine, table, found.relation, unit.type)
    _require_rows(told)
    return unit


def _require_rows(told: Mapping[str, Any]) -> None:
    """How many rows of a unit count must be said."""
    if told.get("max_rows") is None:
        raise ParameterError(
            "P107", "max_rows", None, "must be given with unit_key: rows of a unit that count per group."
        )
    for name in ("max_rows", "max_groups"):
        if told.get(name) is not None:
            check_positive(name, told[name], 2**20)


def _column(table: str, raw: RawColumn, bounds: object, domain: object, null: object, other: object) -> Column:
    found = kind_of(raw.type)
    if found is None:
        raise CatalogError(
            "C105",
            f'column "{raw.name}" has type {raw.type}, which has no rule. Leave it out.',
            table=table,
            column=raw.name,
        )
    if raw.name.lower() == UNIT:
        raise CatalogError("C105", f'"{raw.name}" is a reserved name. Rename the column.', table=table, column=raw.name)
    kind, integral = found
    lower: Scalar = None
    upper: Scalar = None
    if bounds is not None:
        if isinstance(bounds, (str, bytes)) or not isinstance(bounds, Sequence) or len(bounds) != 2:
            raise ParameterError("P104", f'bounds["{raw.name}"]', bounds, "must be a pair (lower, upper).")
        lower, upper = check_bounds(raw.name, raw.type, bounds[0], bounds[1])
    values = None
    if domain is not None:
        values = check_domain(raw.name, raw.type, domain)  # type: ignore[arg-type]
    default = None if null is None else check_domain(raw.name, raw.type, [null])[0]
    if default is not None and lower is not None and not lower <= default <= upper:  # type: ignore[operator]
        raise ParameterError("P104", f'nulls["{raw.name}"]', null, "must lie within the bounds.")
    label = None if other is None else check_domain(raw.name, raw.type, [other])[0]
    if values is not None:
        check_held(raw.name, raw.type, values, (label, default))
    whole = raw.type.upper() in INTEGER_RANGES or kind is not Kind.NUMBER
    return Column(
        name=raw.name,
        source=getattr(raw, "source", raw.name),
        type=raw.type,
        kind=kind,
        integral=integral,
        nullable=default is None and (raw.nullable or not whole),
        lower=lower,
        upper=upper,
        domain=values,
        other=label,
        null_value=default,
    )

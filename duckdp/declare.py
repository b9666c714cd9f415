"""A ``protect`` call to a checked declaration, against the real schema and never against the data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from duckdp.catalog import (
    INTEGER_RANGES,
    Column,
    Kind,
    Scalar,
    Table,
    check_bounds,
    check_domain,
    check_name,
    check_positive,
    closest,
    kind_of,
    missing_table,
    unit_key_allowed,
)
from duckdp.compiler.printing import UNIT
from duckdp.engine import Engine
from duckdp.errors import CatalogError, ParameterError
from duckdp.source import RawColumn
from duckdp.views import read_view


def declare_table(
    engine: Engine, table: str, *, row_cap: int, unit_key: str | None, max_rows: int | None, max_groups: int | None,
    expected_rows: int | None, bounds: Mapping[str, Sequence[object]], domains: Mapping[str, Iterable[object]],
    columns: Iterable[str], nulls: Mapping[str, object], other: Mapping[str, object],
) -> Table:  # fmt: skip
    """Build and check a table's declaration; see ``Curator.protect`` for the arguments.

    Raises:
        CatalogError: C101, C102, C105, C106. ParameterError: P104, P105, P107.
    """
    relation, raw, filter_text, base = _resolve(engine, table)
    named = {c.name.lower(): c for c in raw}
    for name in [*bounds, *domains, *columns, *nulls, *other, *([unit_key] if unit_key else [])]:
        if not isinstance(name, str) or name.lower() not in named:
            known = closest(str(name), [c.name for c in raw])
            raise CatalogError(
                "C102", f'"{table}" has no column "{str(name)[:63]}". {known}', table=table, column=str(name)
            )
    unit = _unit(engine, table, relation, unit_key, named, max_rows, max_groups)
    lowered = [{k.lower(): v for k, v in m.items()} for m in (bounds, domains, nulls, other)]
    wanted = dict.fromkeys(n.lower() for n in [*bounds, *domains, *columns, *nulls])
    declared = tuple(_column(table, named[n], *(m.get(n) for m in lowered)) for n in wanted)
    if unit_key is not None and unit_key.lower() in wanted:
        raise CatalogError(
            "C105", f'"{unit_key}" names the privacy unit and cannot be a column of queries.', table=table
        )
    for name in lowered[3]:
        if name not in lowered[1]:
            raise CatalogError("C105", f'other["{name}"] needs a domain for that column.', table=table, column=name)
    return Table(
        name=check_name(table.lower().split(".")[-1], "table"), relation=relation, columns=declared,
        row_cap=check_positive("row_cap", row_cap), unit_key=unit.name if unit else None,
        unit_type=unit.type if unit else None, max_rows=max_rows if max_rows is not None else 1,
        max_groups=(max_groups or max_rows or 1) if unit else 1,
        expected_rows=None if expected_rows is None else check_positive("expected_rows", expected_rows),
        filter=filter_text, base=base,
    )  # fmt: skip


def drifted(engine: Engine, table: Table) -> None:
    """Check a stored declaration against the present schema.

    Raises:
        CatalogError: C103.
    """
    cursor = engine.schema_cursor()
    present = {c.name: c for c in engine.source.columns(cursor, table.relation)}
    wanted = {c.source: c.type for c in (*table.columns, *table.base)}
    if table.unit_key is not None:
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
            "C103", f'column "{name}" of "{table.name}" {what}. The data owner protects the table anew.',
            table=table.name, column=name,
        )  # fmt: skip


def unit_of(table: Table) -> tuple[bool, str | None, str | None]:
    """What a charge freezes: the privacy unit."""
    return table.unit_key is not None, table.unit_key, table.unit_type


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


def _resolve(
    engine: Engine, table: str
) -> tuple[tuple[str, str, str], list[RawColumn], str | None, tuple[Column, ...]]:
    cursor = engine.schema_cursor()
    if not isinstance(table, str):
        raise ParameterError("P107", "table", table, "must be the name of a table.")
    relations = engine.source.relations(cursor)
    found = relations.get(table.lower())
    if found is not None:
        return found, engine.source.columns(cursor, found), None, ()
    text = engine.source.view_sql(cursor, table)
    if text is None:
        raise missing_table(table[:63], relations)
    view = read_view(table, text, relations)
    raw = {c.name.lower(): c for c in engine.source.columns(cursor, view.relation)}
    base = tuple(
        Column(name=c.name, source=c.name, type=c.type, kind=k[0], integral=k[1], nullable=True)
        for c in raw.values() if (k := kind_of(c.type)) is not None
    )  # fmt: skip
    columns = view.select(list(raw.values()))
    view.check(base, table)
    return view.relation, columns, view.filter, base if view.filter is not None else ()


def _unit(
    engine: Engine, table: str, relation: tuple[str, str, str], unit_key: str | None, named: Mapping[str, RawColumn],
    max_rows: int | None, max_groups: int | None,
) -> RawColumn | None:  # fmt: skip
    if unit_key is None:
        for name, value in (("max_rows", max_rows), ("max_groups", max_groups)):
            if value not in (None, 1):
                raise ParameterError("P107", name, value, "goes with unit_key; without it a unit is one row.")
        return None
    unit = named[unit_key.lower()]
    if getattr(unit, "source", unit.name) != unit.name:
        raise CatalogError(
            "C105", f'unit_key "{unit_key}" is renamed by the view. Select it under its own name.', table=table
        )
    if not unit_key_allowed(unit.type):
        raise CatalogError(
            "C105", f'unit_key "{unit_key}" has type {unit.type}; it must be an integer, VARCHAR or UUID.', table=table
        )  # fmt: skip
    cursor = engine.schema_cursor()
    if unit.type.upper() == "VARCHAR" and engine.source.collated(cursor, relation):
        raise CatalogError(
            "C105", f'"{table}" has collated columns; unit_key must be a column without collation.', table=table
        )
    if max_rows is None:
        raise ParameterError(
            "P107", "max_rows", max_rows, "must be given with unit_key: rows of a unit that count per group."
        )
    check_positive("max_rows", max_rows, 2**20)
    if max_groups is not None:
        check_positive("max_groups", max_groups, 2**20)
    return unit


def _column(table: str, raw: RawColumn, bounds: object, domain: object, null: object, other: object) -> Column:
    found = kind_of(raw.type)
    if found is None:
        raise CatalogError(
            "C105", f'column "{raw.name}" has type {raw.type}, which has no rule.', table=table, column=raw.name
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
    whole = raw.type.upper() in INTEGER_RANGES or kind is not Kind.NUMBER
    return Column(
        name=raw.name, source=getattr(raw, "source", raw.name), type=raw.type, kind=kind, integral=integral,
        nullable=default is None and (raw.nullable or not whole), lower=lower, upper=upper, domain=values, other=label,
        null_value=default,
    )  # fmt: skip

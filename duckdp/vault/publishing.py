"""Public tables: the owner says that their rows are no one's, so what they contain may be known, and is computed here.

Of each column its values (a complete domain) or its range; of columns together how many rows are alike in them, which
is how often a private row can be repeated by a join. All of it is of one state of the source: its fingerprint is kept
with it, and nothing is answered by figures of another (``DataSet.version_of``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import duckdb

from duckdp.catalog.public import MOST_TOGETHER, Public, write_together
from duckdp.catalog.table import Column, Kind, RawColumn, Scalar, Table, closest, kind_of, load_table
from duckdp.compiler.printing import Parameters, print_rows, quote
from duckdp.errors import CatalogError, ParameterError
from duckdp.ledger import DataSetState, DeclarationRow, Ledger
from duckdp.process.attempt import attempt
from duckdp.vault.computed import require_stored
from duckdp.vault.declare import Resolved, resolve
from duckdp.vault.engine import Engine
from duckdp.vault.linking import require_rows
from duckdp.vault.source import content_digest

MOST_VALUES = 10_000  # of a column that are a domain
MOST_PAIRED = 12  # columns that are looked at in pairs
EXACT = 2**53  # whole numbers up to here are exact as DOUBLE
Ask = Callable[[str], list[tuple[Any, ...]]]


def publish_table(
    engine: Engine, ledger: Ledger, name: object, *, columns: Iterable[str] | None, fingerprint: str, reason: str | None
) -> Table:
    """Declare that the rows of a table are no one's, and store what is computed of them.

    Args:
        engine: where it is.
        ledger: keeps the declaration.
        name: a base table, a Parquet relation, or a view that selects columns of one base table.
        columns: those that analysts may use; None: all whose type has a rule.
        fingerprint: of the source as it is attached.
        reason: for the log.

    Raises:
        CatalogError: C101, C102, C105, C106, C108; C109, it was charged as a protected table; C111, it is one.
        ParameterError: P107.
    """
    table = read_public(engine, resolve(engine, name), columns, fingerprint)

    def review(_: DataSetState, rows: list[DeclarationRow]) -> dict[str, list[str]]:
        for row in rows:
            other = load_table(row.declaration)
            if other.public is None and (row.active or row.charged):
                _require_apart(table, other, charged=not row.active)
        return {table.name: ["published"]}

    ledger.save_tables({table.name: table.declaration}, review=review, reason=reason)
    return table


def _require_apart(table: Table, other: Table, *, charged: bool) -> None:
    if other.relation == table.relation:
        was, way = (
            ("was charged as a protected table", "Publish a copy without private rows under another name.")
            if charged
            else ("is protected", f'If its rows are no one\'s, unprotect "{other.name}" first.')
        )
        raise CatalogError("C109" if charged else "C111", f'"{table.relation[2]}" {was}. {way}', table=table.name)
    if other.name == table.name and not charged:
        raise CatalogError(
            "C111", f'"{table.name}" names a protected table. Publish a view of another name.', table=table.name
        )


def republished(engine: Engine, table: Table, fingerprint: str) -> Table:
    """A public table with what is computed of its rows today.

    Raises:
        CatalogError: C101, C102, C103: the source has it no more, or with other types.
    """
    require_rows(engine, table)
    cursor = engine.schema_cursor()
    raw = {c.name: c for c in engine.source.columns(cursor, table.relation)}
    for column in table.columns:
        if column.source not in raw or raw[column.source].type != column.type:
            raise CatalogError(
                "C103",
                f'column "{column.source}" of public "{table.name}" is gone or has another type. The data owner '
                "publishes it again, or unpublishes it.",
                table=table.name,
                column=column.name,
            )
    require_stored(engine, table)
    engine.show_public(table)
    return with_figures(cursor, table, list(raw.values()), fingerprint)


def read_public(engine: Engine, found: Resolved, columns: Iterable[str] | None, fingerprint: str) -> Table:
    """The declaration of a public table, from its rows.

    Raises:
        CatalogError: C102, C105, C108. ParameterError: P107.
    """
    if isinstance(columns, str):
        raise ParameterError("P107", "columns", columns, "must be a list of columns.")
    known = {c.name.lower(): c for c in found.columns}
    wanted = (
        [str(c).lower() for c in columns] if columns is not None else [n for n, c in known.items() if kind_of(c.type)]
    )
    for name in wanted:
        if name not in known:
            text = f'"{found.name}" has no column "{name[:63]}". {closest(name, known)}'
            raise CatalogError("C102", text, table=found.name, column=name)
        if kind_of(known[name].type) is None:
            text = f'column "{name}" has type {known[name].type}, which has no rule. Leave it out.'
            raise CatalogError("C105", text, table=found.name, column=name)
    if not wanted:
        raise CatalogError("C105", f'"{found.name}" has no column whose type has a rule.', table=found.name)
    plain = tuple(_plain(known[name]) for name in dict.fromkeys(wanted))
    empty = Public(rows=0, digest="", source=fingerprint)
    table = Table(
        name=found.name,
        relation=found.relation,
        columns=plain,
        row_cap=1,
        filter=found.filter,
        base=found.base,
        public=empty,
    )
    require_stored(engine, table)
    engine.show_public(table)
    cursor = engine.schema_cursor()
    raw = engine.source.columns(cursor, found.relation)
    return with_figures(cursor, table, raw, fingerprint)


def _plain(raw: RawColumn) -> Column:
    found = kind_of(raw.type)
    assert found is not None
    source = getattr(raw, "source", raw.name)
    return Column(name=raw.name, source=source, type=raw.type, kind=found[0], integral=found[1])


def with_figures(con: duckdb.DuckDBPyConnection, table: Table, raw: Sequence[RawColumn], fingerprint: str) -> Table:
    """A public table with what is computed of its rows.

    Raises:
        CatalogError: C108.
    """
    bare = replace(
        table, columns=tuple(replace(c, lower=None, upper=None, domain=None, nullable=True) for c in table.columns)
    )
    parameters = Parameters()
    scan = f"{print_rows(bare, bare.columns, parameters, unit=False)} AS p"

    def ask(select: str) -> list[tuple[Any, ...]]:
        rows, message = attempt(con, select.replace("FROM p", f"FROM {scan}", 1), values=parameters.values)
        if message is not None:
            raise CatalogError("C108", f'"{table.name}" cannot be read in full.', table=table.name)
        return rows

    rows = int(ask("SELECT count(*) FROM p")[0][0])
    columns = tuple(_figures(column, ask) for column in bare.columns)
    # infinities are read as the largest number, which there may be too
    told = [c.name for c in columns if c.kind is not Kind.NUMBER or c.lower is not None]
    singles = {name: _alike((name,), ask) for name in told}
    several = [name for name, n in singles.items() if n > 1][:MOST_PAIRED]
    alike: list[tuple[tuple[str, ...], int]] = [((name,), n) for name, n in singles.items()]
    for pair in combinations(several, 2):
        n = _alike(pair, ask)
        if n < min(singles[name] for name in pair):
            alike.append((pair, n))
    used = {c.source for c in (*table.columns, *table.base)}
    digest = content_digest(con, table.relation, [c for c in raw if c.name in used])
    together = _together(columns, ask)
    public = Public(rows=rows, digest=digest, source=fingerprint, alike=tuple(alike), **together)
    return replace(table, columns=columns, row_cap=max(rows, 1), public=public)


def _figures(column: Column, ask: Ask) -> Column:
    """A column with what its values are."""
    name = quote(column.name)
    present, distinct = ask(f"SELECT count({name}), count(DISTINCT {name}) FROM p")[0]
    nullable = bool(ask(f"SELECT bool_or({name} IS NULL) FROM p")[0][0])
    column = replace(column, nullable=nullable)
    values: list[Scalar] = []
    if 0 < distinct <= MOST_VALUES:
        values = [
            _value(column, v) for (v,) in ask(f"SELECT DISTINCT {name} FROM p WHERE {name} IS NOT NULL ORDER BY 1")
        ]
    finite = (
        column.kind is not Kind.NUMBER
        or not present
        or all(ask(f"SELECT isfinite(min({name})), isfinite(max({name})) FROM p")[0])
    )
    if column.kind in (Kind.NUMBER, Kind.DATE, Kind.TIMESTAMP) and present and finite:
        lower, upper = (_value(column, v) for v in ask(f"SELECT min({name}), max({name}) FROM p")[0])
        column = replace(column, lower=lower, upper=upper)
    if values and finite:
        column = replace(column, domain=(*values, None) if nullable else tuple(values))
    return column


def _together(columns: Sequence[Column], ask: Ask) -> dict[str, Any]:
    """Which values the columns with a domain have in one row: keys of several of them have no other groups."""
    domains = {c.name: c.domain for c in columns if c.domain is not None}
    if not domains:
        return {}
    most = MOST_TOGETHER // len(domains)
    found = ask(f"SELECT DISTINCT {', '.join(map(quote, domains))} FROM p LIMIT {most + 1}")
    return write_together(domains, found)


def _value(column: Column, value: object) -> Scalar:
    if column.kind is Kind.NUMBER and column.integral and abs(float(value)) <= EXACT:  # type: ignore[arg-type]
        return int(value)  # type: ignore[call-overload,no-any-return]
    return value  # type: ignore[return-value]


def _alike(names: Sequence[str], ask: Ask) -> int:
    """The most rows that are equal in columns, none of them NULL."""
    listed = ", ".join(quote(n) for n in names)
    known = " AND ".join(f"{quote(n)} IS NOT NULL" for n in names)
    found = ask(f"SELECT max(n) FROM (SELECT count(*) AS n FROM p WHERE {known} GROUP BY {listed})")[0][0]
    return int(found or 0)

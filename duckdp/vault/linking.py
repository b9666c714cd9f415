"""Links and unique columns are declared by the owner and compared with the rows, at each declaration and refresh.

What a link gives a row is the unit of the row that its key names. That is unit-local only if a key names rows of one
unit: were it shared by two, one of them leaving would change what the other has. So the parent's key is declared
unique, and that is checked on raw values, rows without a unit left out, of the very scan that questions print. A value
that repeats is an error for the owner alone; nothing is repaired at run time: what is dropped would depend on others.

The fingerprint of the source that was looked at is kept (``Table.checked``): nothing is answered from another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from duckdp.catalog.link import Link, read_link
from duckdp.catalog.table import RawColumn, Table, closest, missing_table
from duckdp.catalog.units import SAYS_NOTHING, kind_of_unit
from duckdp.catalog.values import unit_key_allowed
from duckdp.compiler.printing import Parameters, print_column, print_keyed_scan
from duckdp.errors import CatalogError, ParameterError
from duckdp.vault.engine import Engine

WAY = "Protect it by its own unit_key, or link it to another table."


def make_link(
    engine: Engine,
    name: str,
    relation: tuple[str, str, str],
    columns: Iterable[RawColumn],
    text: object,
    known: Mapping[str, Table],
) -> Link:
    """A link from its text.

    Args:
        engine: knows the schema.
        name: of the table that is linked.
        relation: its base table.
        columns: of the table.
        text: ``column -> table.key``.
        known: protected tables by name.

    Raises:
        CatalogError: C101, C102, C105. ParameterError: P107.
    """
    column, to, key = read_link(text)
    raw = {c.name.lower(): c for c in columns}
    own = raw.get(column.lower())
    if own is None or getattr(own, "source", own.name) != own.name:
        raise CatalogError(
            "C102", f'"{name}" has no column "{column[:63]}". {closest(column, raw)}', table=name, column=column
        )
    parent = known.get(to)
    if parent is None:
        raise missing_table(to[:63], known)
    unique = next((c for c in parent.unique if c.lower() == key.lower()), None)
    problem = None
    if parent.unit_key is None:
        problem = f'"{to}" has no unit_key: each of its rows is a unit. Protect both by a unit_key of "{to}".'
    elif unique is None:
        problem = f'"{key[:63]}" is not declared unique in "{to}". Say unique=["{key[:63]}"] when it is protected.'
    elif parent.filter is not None:
        problem = f'"{to}" is a view that leaves rows out. Protect its base table, and link to that.'
    elif relation == parent.relation or relation in [t.relation for t in ancestors(parent)]:
        problem = f'"{name}" would be linked to itself. {WAY}'
    elif parent.unit_key.lower() in raw:
        problem = (
            f'"{name}" has a column "{parent.unit_key}" of its own. Say unit_key="{parent.unit_key}", and no link.'
        )
    if problem is not None:
        raise CatalogError("C105", f'the link "{column[:63]} -> {to}.{key[:63]}" cannot stand: {problem}', table=name)
    assert unique is not None
    cursor = engine.schema_cursor()
    types = {c.name: c.type for c in engine.source.columns(cursor, parent.relation)}
    if own.type != types.get(unique) or not unit_key_allowed(own.type):
        raise CatalogError(
            "C105",
            f'"{own.name}" has type {own.type} and "{unique}" of "{to}" {types.get(unique)}; keys are compared as they '
            "are, integers, VARCHAR or UUID. ALTER one of them.",
            table=name,
        )
    for each, at in ((name, relation), (to, parent.relation)):
        require_plain(engine, each, at, own.type)
    return Link(column=own.name, type=own.type, key=unique, parent=carrier(parent))


def require_plain(engine: Engine, name: str, relation: tuple[str, str, str], key_type: str) -> None:
    """Refuse keys that are compared by a collation: what is two keys as stored would be one.

    Raises:
        CatalogError: C105.
    """
    if key_type.upper() == "VARCHAR" and engine.source.collated(engine.schema_cursor(), relation):
        rule = "so two keys may count as one. Hand over an open connection to the data: its copy has none."
        raise CatalogError("C105", f'"{name}" has collated columns, {rule}', table=name)


def require_rows(engine: Engine, table: Table) -> None:
    """Require that a table is still one of rows that are stored: a view of its name would run where private rows are.

    Raises:
        CatalogError: C103.
    """
    if table.relation not in engine.source.relations(engine.schema_cursor()).values():
        what = "is no table of the source any more. The data owner unprotects it, or makes it a table again."
        raise CatalogError("C103", f'"{table.name}" {what}', table=table.name)


def require_keys(engine: Engine, table: Table) -> None:
    """Require that the keys by which a table's rows have their unit are still compared as they are.

    Of all the tables that it is linked to: each key has the type that it was declared with on both sides, so that no
    cast makes one of two keys, or fails for one, and no collation.

    Raises:
        CatalogError: C103, C105.
    """
    below = table
    while below.link is not None:
        link, parent = below.link, below.link.parent
        require_rows(engine, parent)
        for name, relation, column in (
            (below.name, below.relation, link.column),
            (parent.name, parent.relation, link.key),
        ):
            types = {c.name: c.type for c in engine.source.columns(engine.schema_cursor(), relation)}
            if types.get(column) != link.type:
                what = (
                    f'was {link.type} and is {types.get(column, "gone")}; rows of "{table.name}" have their unit by it'
                )
                raise CatalogError(
                    "C103",
                    f'column "{column}" of "{name}" {what}. ALTER it back.',
                    table=name,
                    column=column,
                )
            require_plain(engine, name, relation, link.type)
        below = parent
    if below.unit_key is not None:
        require_plain(engine, below.name, below.relation, str(below.unit_type))


def carrier(parent: Table) -> Table:
    """A table as far as the unit of its rows follows from it."""
    return Table(
        name=parent.name,
        relation=parent.relation,
        columns=(),
        row_cap=1,
        unit_key=parent.unit_key,
        unit_type=parent.unit_type,
        null_units=parent.null_units,
        link=parent.link,
    )


def unit_told(parent: Table) -> str | None:
    """What the unit of a linked table is called."""
    silent = parent.unit_key is not None and parent.unit_key.lower() in SAYS_NOTHING
    return kind_of_unit(parent) if silent else parent.unit


def ancestors(table: Table) -> list[Table]:
    """The tables that a table is linked to, nearest first."""
    return [] if table.link is None else [table.link.parent, *ancestors(table.link.parent)]


def relinked(tables: Mapping[str, Table], changed: Mapping[str, Table]) -> dict[str, Table]:
    """Tables whose unit comes from one that changed, with what it is now.

    Args:
        tables: all that stand.
        changed: those that are declared anew, by name.
    """
    found: dict[str, Table] = {}
    for _ in tables:  # chains are no longer than there are tables
        now = {**tables, **changed, **found}
        for name, table in now.items():
            parent = None if table.link is None else now.get(table.link.parent.name)
            if table.link is None or parent is None:
                continue
            if table.link.key not in parent.unique or parent.unit_key is None or parent.filter is not None:
                raise CatalogError(
                    "C105",
                    f'"{name}" is linked to "{parent.name}.{table.link.key}": that stays unique, and "{parent.name}" '
                    "keeps a unit_key.",
                    table=parent.name,
                )
            if table.link.parent == carrier(parent):
                continue
            own = {c.source.lower() for c in table.columns} | {c.lower() for c in table.unique}
            if parent.unit_key.lower() in own:
                raise CatalogError(
                    "C105",
                    f'"{name}" has a column "{parent.unit_key}" of its own, and its unit from "{parent.name}". Give '
                    f'"{name}" unit_key="{parent.unit_key}" and no link, or keep the unit_key of "{parent.name}".',
                    table=parent.name,
                )
            link = replace(table.link, parent=carrier(parent))
            found[name] = replace(
                table,
                link=link,
                unit_key=parent.unit_key,
                unit_type=parent.unit_type,
                unit=unit_told(parent),
                checked=None,
            )
    return found


def require_unlinked(tables: Mapping[str, Table], name: str) -> None:
    """Refuse to take a table away that others have their unit from.

    Raises:
        CatalogError: C105.
    """
    for other in tables.values():
        if other.link is not None and other.link.parent.name == name:
            text = f'"{other.name}" has its unit from "{name}". Unprotect "{other.name}" first.'
            raise CatalogError("C105", text, table=name)


def check_unique(name: str, wanted: object, columns: Iterable[RawColumn]) -> tuple[str, ...]:
    """Columns of which the owner says that no value stands twice.

    Raises:
        CatalogError: C102, C105. ParameterError: P107.
    """
    if isinstance(wanted, str) or not isinstance(wanted, (list, tuple, set, frozenset)):
        raise ParameterError("P107", "unique", wanted, "must be a list of columns.")
    raw, found = {c.name.lower(): c for c in columns}, []
    for column in wanted:
        own = raw.get(str(column).lower())
        if own is None or getattr(own, "source", own.name) != own.name:
            known = closest(str(column), raw)
            raise CatalogError(
                "C102", f'"{name}" has no column "{str(column)[:63]}". {known}', table=name, column=str(column)
            )
        if not unit_key_allowed(own.type):
            raise CatalogError(
                "C105",
                f'column "{own.name}" has type {own.type}; what is unique must be an integer, VARCHAR or UUID.',
                table=name,
            )
        found.append(own.name)
    return tuple(sorted(set(found)))


def check_all(engine: Engine, tables: Iterable[Table], fingerprint: str) -> list[Table]:
    """Tables as :func:`checked`, those first that others have their unit from."""
    return [checked(engine, table, fingerprint) for table in sorted(tables, key=lambda t: len(ancestors(t)))]


def checked(engine: Engine, table: Table, fingerprint: str) -> Table:
    """A table whose unique columns were looked at: no value stands twice, as it is stored and as questions read it.

    Neither does one of the keys that its unit comes by, of all the tables that it is linked to: questions about it
    read these, and ask for no other's mark.

    Raises:
        CatalogError: C105, with nothing of a value.
    """
    if not table.unique and table.link is None:
        return table
    for column in table.unique:
        declared = next((c for c in table.columns if c.source == column), None)
        parameters = Parameters()
        value = None if declared is None else print_column(declared, parameters, "base")
        _require_once(engine, table, column, value, parameters)
    require_keys(engine, table)
    below = table
    while below.link is not None:  # whatever became of the table itself since it was declared
        _require_once(engine, below.link.parent, below.link.key, None, Parameters())
        below = below.link.parent
    return replace(table, checked=fingerprint)


def _require_once(engine: Engine, table: Table, column: str, value: str | None, parameters: Parameters) -> None:
    """C105 unless no value stands twice in a column, as it is stored and as questions read it."""
    once = engine.unique(print_keyed_scan(table, column, value, parameters), parameters.values, table)
    if once is None:
        raise CatalogError(
            "C103", f'column "{column}" of "{table.name}" cannot be read.', table=table.name, column=column
        )
    if not once:
        raise CatalogError(
            "C105",
            f'column "{column}" of "{table.name}" is declared unique, and a value stands there twice (or bounds '
            "make two values one). Correct the rows, or leave it out of unique.",
            table=table.name,
            column=column,
        )

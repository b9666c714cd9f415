"""Figures for many columns at once: by a pattern of names, by type, or as another declared table has them.

``"lab_*"`` names columns by their names (``*`` any characters, ``?`` one), ``"*::DOUBLE"`` by their type,
``"lab_*::INTEGER"`` by both. A pattern means only columns that its figure fits (a pair of numbers no text, a list of
texts no number), and never the privacy unit. A column's own name goes before any pattern. Declarations hold columns,
not patterns.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from duckdp.catalog.table import Kind, RawColumn, Table, closest, kind_of
from duckdp.errors import CatalogError, ParameterError

BY_COLUMN = ("bounds", "domains", "nulls", "other")
ALIASES = {
    "INT": "INTEGER",
    "INT4": "INTEGER",
    "INT8": "BIGINT",
    "LONG": "BIGINT",
    "INT2": "SMALLINT",
    "SHORT": "SMALLINT",
    "INT1": "TINYINT",
    "FLOAT8": "DOUBLE",
    "FLOAT4": "FLOAT",
    "REAL": "FLOAT",
    "NUMERIC": "DECIMAL",
    "TEXT": "VARCHAR",
    "STRING": "VARCHAR",
    "BOOL": "BOOLEAN",
    "DATETIME": "TIMESTAMP",
}


def name_columns(
    table: str, given: Mapping[str, Any], columns: Sequence[RawColumn], unit_key: object
) -> dict[str, dict[str, Any]]:
    """Figures by the lower-case name of each column they are for.

    Args:
        table: its name, for messages.
        given: arguments of ``protect``; those that speak of columns are read.
        columns: the table's.
        unit_key: the privacy unit's column; a pattern never means it.

    Returns:
        "bounds", "domains", "nulls", "other", and "columns" (name -> True).

    Raises:
        CatalogError: C102 no such column, C105 two patterns disagree. ParameterError: P107.
    """
    found = {}
    for what in BY_COLUMN:
        figures = given.get(what)
        if figures is not None and not isinstance(figures, Mapping):
            raise ParameterError("P107", what, figures, "must be given by column, for example {column: figure}.")
        found[what] = _spread(table, what, figures or {}, columns, unit_key)
    listed = given.get("columns")
    if isinstance(listed, (str, bytes)) or not isinstance(listed, (Iterable, type(None))):
        raise ParameterError("P107", "columns", listed, "must be a list of names.")
    found["columns"] = _spread(table, "columns", dict.fromkeys(listed or (), True), columns, unit_key)
    return found


def take_over(
    table: str, named: dict[str, dict[str, Any]], columns: Sequence[RawColumn], unit_key: object, other: Table
) -> None:
    """Add another declared table's figures for the columns of one name and type that are not named yet.

    Raises:
        CatalogError: C105, there is no such column.
    """
    types = {c.name.lower(): c.type for c in columns}
    mentioned = {n for figures in named.values() for n in figures} | {str(unit_key).lower()}
    shared = [c for c in other.columns if types.get(c.name.lower()) == c.type]
    if not shared:
        raise CatalogError(
            "C105",
            f'like="{other.name}": "{table}" has no declared column of it, by name and type. Leave out like.',
            table=table,
        )
    for column in shared:
        name = column.name.lower()
        if name in mentioned:
            continue
        named["columns"][name] = True
        for what, figure in (
            ("bounds", None if column.lower is None else (column.lower, column.upper)),
            ("domains", column.domain),
            ("nulls", column.null_value),
            ("other", column.other),
        ):
            if figure is not None:
                named[what][name] = figure


def _spread(
    table: str, what: str, figures: Mapping[Any, Any], columns: Sequence[RawColumn], unit_key: object
) -> dict[str, Any]:
    exact: dict[str, Any] = {}
    spread: dict[str, tuple[str, Any]] = {}
    names = {c.name.lower() for c in columns}
    for key, figure in figures.items():
        if isinstance(key, str) and key.lower() in names:
            exact[key.lower()] = figure
            continue
        meant = _meant(key, what, figure, columns, unit_key)
        if not meant:
            known = closest(str(key), [c.name for c in columns])
            shown = f'column "{str(key)[:63]}"' if not _is_pattern(key) else f'fitting column named "{str(key)[:63]}"'
            raise CatalogError("C102", f'"{table}" has no {shown}. {known}', table=table, column=str(key))
        for name in meant:
            before, same = spread.setdefault(name, (key, figure))
            if same != figure:
                raise CatalogError(
                    "C105",
                    f'"{before}" and "{key}" both give {what} to column "{name}". Name that column itself.',
                    table=table,
                    column=name,
                )
    return {name: figure for name, (_, figure) in spread.items()} | exact


def _is_pattern(key: object) -> bool:
    return isinstance(key, str) and ("*" in key or "?" in key or "::" in key)


def _meant(key: object, what: str, figure: object, columns: Sequence[RawColumn], unit_key: object) -> list[str]:
    """Columns that a pattern names and its figure fits."""
    if not isinstance(key, str) or not _is_pattern(key):
        return []
    names, _, duckdb_type = key.partition("::")
    shape = re.compile("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in names or "*"), re.IGNORECASE)
    found = []
    for column in columns:
        kind = kind_of(column.type)
        if kind is None or column.name.lower() == str(unit_key).lower() or not shape.fullmatch(column.name):
            continue
        if duckdb_type and not _has_type(column.type, duckdb_type):
            continue
        if what == "columns" or _fits(kind[0], what, figure):
            found.append(column.name.lower())
    return found


def _has_type(present: str, wanted: str) -> bool:
    wanted = re.sub(r"\s+", "", wanted.upper())
    wanted, present = ALIASES.get(wanted, wanted), re.sub(r"\s+", "", present.upper())
    return present == wanted or present.startswith(f"{wanted}(")


def _fits(kind: Kind, what: str, figure: object) -> bool:
    if figure is None:
        return True  # takes away what is declared
    if what in ("nulls", "other"):
        values: list[object] = [figure]
    elif isinstance(figure, (str, bytes)) or not isinstance(figure, Iterable):
        return True  # refused later, by its own rule
    else:
        values = list(figure)
    if what == "bounds" and kind not in (Kind.NUMBER, Kind.DATE, Kind.TIMESTAMP):
        return False
    return all(v is None or v is ... or _holds(kind, v) for v in values)


def _holds(kind: Kind, value: object) -> bool:
    if kind is Kind.BOOLEAN or isinstance(value, bool):
        return kind is Kind.BOOLEAN and isinstance(value, bool)
    if kind is Kind.NUMBER:
        return isinstance(value, (int, float))
    if kind is Kind.TEXT:
        return isinstance(value, str)
    return isinstance(value, dt.date) or (isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d", value) is not None)

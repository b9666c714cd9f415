"""Declarations as typed on the command line, over those of a file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from typing import Any

from duckdp.catalog.table import Kind, kind_of
from duckdp.errors import ParameterError
from duckdp.vault.declare import FIGURES

WHOLE = ("row_cap", "expected_rows", "max_rows", "max_groups")


def declaration(
    told: Mapping[str, Any], given: Mapping[str, Any], types: Mapping[str, str], unit_key: str | None = None
) -> dict[str, Any]:
    """Arguments of ``Curator.protect``; the command line goes before the file.

    Args:
        told: from a file.
        given: from the command line.
        types: DuckDB types by column, which decide whether 1 is a number or a text.
        unit_key: of the table as it is declared, or None.

    Raises:
        ParameterError: P107.
    """
    wanted: dict[str, Any] = {k: v for k, v in told.items() if k in FIGURES or k == "like"}
    wanted |= {k: given[k] for k in ("unit_key", "unit", "like", "link") if given.get(k) is not None}
    wanted |= {k: _whole(k, given[k]) for k in WHOLE if given.get(k) is not None}
    if given.get("null_unit"):
        unit_type = types.get(str(wanted.get("unit_key", unit_key)).lower())
        wanted["null_units"] = [_value(v, unit_type) for v in given["null_unit"]]
    if given.get("unique"):
        wanted["unique"] = [] if given["unique"][-1] == "" else list(given["unique"])  # "" takes all of them away
    listed = [*wanted.get("constraints", ()), *given.get("constraint", ())]
    if listed:
        wanted["constraints"] = [] if listed[-1] == "" else listed  # "" takes all of them away
    bounds, domains = dict(told.get("bounds", {})), dict(told.get("domains", {}))
    for column, text in _pairs("bound", given["bound"]):
        lower, mark, upper = _halves(text)
        if text == "":
            bounds[column] = None  # takes the bounds away
            continue
        if not mark:
            raise ParameterError("P107", "bound", f"{column}={text}", "must be COLUMN=LOWER:UPPER.")
        bounds[column] = (_bound(lower), _bound(upper))
    for column, text in _pairs("domain", given["domain"]):
        listed = next(csv.reader([text], skipinitialspace=True))
        domains[column] = None if text == "" else [_value(v, types.get(column.lower())) for v in listed]
    nulls = dict(told.get("nulls", {})) | {c: _value(v, types.get(c.lower())) for c, v in _pairs("null", given["null"])}
    other = dict(told.get("other", {})) | {
        c: _value(v, types.get(c.lower())) for c, v in _pairs("other", given["other"])
    }
    columns = [*told.get("columns", []), *given["column"]]
    found = {**wanted, "bounds": bounds, "domains": domains, "nulls": nulls, "other": other, "columns": columns}
    removed = [*told.get("remove", []), *given.get("remove", ())]
    return {**found, "remove": removed} if removed else found


def _pairs(option: str, texts: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in texts:
        column, mark, value = text.partition("=")
        if not mark or not column:
            raise ParameterError("P107", option, text, "must be COLUMN=VALUE.")
        yield column, value


def _halves(text: str) -> tuple[str, str, str]:
    """LOWER:UPPER, or LOWER..UPPER where a bound has a colon; ``...`` is what suggest leaves open."""
    if text.replace("...", "") == ":":
        return text.partition(":")
    return text.partition(".." if ".." in text.replace("...", "") else ":")


def _whole(name: str, value: Any) -> Any:
    if isinstance(value, int) or value == "...":
        return ... if value == "..." else value
    number = _number(str(value))
    if not isinstance(number, int):
        raise ParameterError("P107", name, value, "must be a whole number.")
    return number


def _bound(text: str) -> Any:
    if text == "...":
        return ...
    number = _number(text)
    return text.strip() if number is None else number


def _value(text: str, duckdb_type: str | None) -> object:
    """A value by the column's type; without a type, a number where it looks like one."""
    found = None if duckdb_type is None else kind_of(duckdb_type)
    if text == "...":
        return ...
    if text == "NULL":
        return None
    number = _number(text)
    if found is None or found[0] is Kind.NUMBER:
        return text if number is None else number
    if found[0] is Kind.BOOLEAN:
        return {"true": True, "false": False}.get(text.lower(), text)
    return text


def _number(text: str) -> float | int | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None

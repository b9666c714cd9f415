"""Declarations as typed on the command line or written in a TOML file, and as printed."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from duckdp.catalog import Kind, kind_of
from duckdp.errors import ParameterError

FIGURES = ("unit_key", "max_rows", "max_groups", "row_cap", "expected_rows")
KEYS = {"table", *FIGURES, "bounds", "domains", "columns", "nulls", "other"}


def read_file(path: str) -> dict[str, Any]:
    """A TOML file's declarations.

    Raises:
        ParameterError: P107, not TOML, or a key that ``protect`` does not know.
    """
    try:
        told = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise ParameterError("P107", "from", path, "is not a TOML file.") from None
    for key in told:
        if key not in KEYS:
            raise ParameterError("P107", "from", key, f"is not one of {', '.join(sorted(KEYS))}.")
    for key in ("bounds", "domains", "nulls", "other"):
        if not isinstance(told.get(key, {}), dict):
            raise ParameterError("P107", key, told[key], f"must be a table, [{key}].")
    return told


def declaration(told: Mapping[str, Any], given: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of ``Curator.protect``; the command line goes before the file.

    Args:
        told: from a file.
        given: from the command line.
        types: DuckDB types by column, which decide whether 1 is a number or a text.

    Raises:
        ParameterError: P107.
    """
    wanted: dict[str, Any] = {k: v for k, v in told.items() if k in FIGURES}
    wanted |= {k: given[k] for k in (*FIGURES, "reason") if given.get(k) is not None}
    bounds, domains = dict(told.get("bounds", {})), dict(told.get("domains", {}))
    for column, text in _pairs("bound", given["bound"]):
        lower, mark, upper = text.partition(".." if ".." in text else ":")
        if not mark:
            raise ParameterError("P107", "bound", f"{column}={text}", "must be COLUMN=LOWER:UPPER.")
        bounds[column] = (_bound(lower), _bound(upper))
    for column, text in _pairs("domain", given["domain"]):
        domains[column] = [
            _value(v, types.get(column.lower())) for v in next(csv.reader([text], skipinitialspace=True))
        ]
    nulls = dict(told.get("nulls", {})) | {c: _value(v, types.get(c.lower())) for c, v in _pairs("null", given["null"])}
    other = dict(told.get("other", {})) | {
        c: _value(v, types.get(c.lower())) for c, v in _pairs("other", given["other"])
    }
    columns = [*told.get("columns", []), *given["column"]]
    return {**wanted, "bounds": bounds, "domains": domains, "nulls": nulls, "other": other, "columns": columns}


def _pairs(option: str, texts: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in texts:
        column, mark, value = text.partition("=")
        if not mark or not column:
            raise ParameterError("P107", option, text, "must be COLUMN=VALUE.")
        yield column, value


def _bound(text: str) -> float | int | str:
    number = _number(text)
    return text.strip() if number is None else number


def _value(text: str, duckdb_type: str | None) -> object:
    """A value by the column's type; without a type, a number where it looks like one."""
    found = None if duckdb_type is None else kind_of(duckdb_type)
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

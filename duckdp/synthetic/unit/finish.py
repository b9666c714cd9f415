"""From a stored release over unit columns to stored rows: after nothing about the release can change any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import load_columns, released_type
from duckdp.core.watch import Watch
from duckdp.errors import CatalogError
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.opened import Opened
from duckdp.synthetic.scale import tell_scale
from duckdp.synthetic.unit.kept import Kept, load_kept, load_structure
from duckdp.synthetic.unit.layout import UnitColumns
from duckdp.synthetic.unit.packed import Classes
from duckdp.synthetic.unit.unit_rows import UnitRows

LEAST = 500  # rows that are fitted; where fewer are asked for, they are the first of them
MADE = 250_000  # rows that are made and stored; more are made by repeating them when they are read
MOST_SECONDS = 3600.0  # of fitting, unless a time limit was given
Columns = dict[str, NDArray[Any]]
MakeRows = Callable[[UnitColumns, Kept, Watch], tuple[Columns, float]]
"""A method's rows in the columns' own types, and how far their moments are from the released ones."""


def complete_rows(
    raw: dict[str, Any], watch: Watch, classes: Classes, make: MakeRows, *, listed: bool
) -> dict[str, Any]:
    """The payload with its rows as text, at most ``MADE``, in place of what they were made from.

    Args:
        raw: payload without rows.
        watch: follows the work.
        classes: of the method's release.
        make: the method's rows.
        listed: as ``load_kept``.

    Raises:
        CatalogError: C105, damaged or of another version.
    """
    units, kept = load_kept(raw["wide"], classes, listed=listed)
    watch.start(MOST_SECONDS)
    made, residual = make(units, kept, watch)
    types = {c.name: released_type(c.type) for c in units.columns}
    table = SyntheticTable(table=str(raw["wide"]["table"]), types=types, columns=made, residual=residual)
    return {**raw, "table": table.dump(), "wide": None}


def made_rows(kept: Kept) -> int:
    """How many rows are made and stored."""
    return min(kept.rows, MADE)


def decode_rows(units: UnitColumns, kept: Kept, made: UnitRows) -> tuple[Columns, float]:
    """As many of the fitted rows as are asked for, repeated where there are fewer, in the columns' own types."""
    unit = made.unit[np.resize(np.arange(len(made.unit)), made_rows(kept))]
    if kept.request.target is not None:
        units.oppose(unit, kept.request.target)
    return units.decode(unit), made.misfit


def open_rows(raw: dict[str, Any], watch: Watch) -> Opened:
    """A payload that holds its rows as text: as many of them as were asked for, repeated where there are fewer.

    Raises:
        CatalogError: C105, damaged.
    """
    watch.tell("done", 1.0)
    table, rows = SyntheticTable.load(raw["table"]), int(raw["rows"])
    if table.rows < rows:
        places = np.resize(np.arange(table.rows), rows)
        table = replace(table, columns={name: values[places] for name, values in table.columns.items()})
    notes: tuple[str, ...] = ()
    if "count" in raw:  # not in releases of earlier versions
        told = tell_scale(rows, float(raw["count"]), str(raw["counted"]), table.table)
        table, notes = replace(table, scale=told), (told,)
    if raw.get("unseen"):
        notes = (*notes, tell_unseen(raw["unseen"]))
    bars = raw.get("bars")
    told = "the residual is a fit to what was released, not an error; error bars are those of the tables below"
    if bars is None:
        told = "the release holds no summary, so there are no error bars; the residual is a fit to it, not an error"
    return Opened(table=table, notes=notes, remarks=(told, *notes), bars=bars)


def tell_unseen(columns: list[tuple[str, float]]) -> str:
    """A sentence for who counts NULLs: columns with their noisy shares of NULLs that no row shows.

    >>> tell_unseen([("race", 0.0788), ("sex", 0.0391)])
    'no row shows NULL in race (noisy share 7.9%), sex (noisy share 3.9%): so few may be noise'
    """
    listed = ", ".join(f"{name} (noisy share {share:.1%})" for name, share in columns)
    return f"no row shows NULL in {listed}: so few may be noise"


def shape_of_rows(raw: dict[str, Any]) -> list[tuple[str, str]]:
    """(name, DuckDB type) of the columns, from the rows or from what they are made from.

    Raises:
        CatalogError: C105, damaged.
    """
    if isinstance(raw["table"], str):
        return list(SyntheticTable.load(raw["table"]).types.items())
    try:
        structure = load_structure(raw["wide"])
        columns = load_columns(raw["wide"]["columns"]) if structure is None else structure.columns
        return [(c.name, c.type) for c in columns]
    except (ValueError, TypeError, KeyError):
        raise CatalogError("C105", "the stored synthetic table is damaged.") from None

"""Rows from a release of ``method := 'lp'``: post-processing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from duckdp.core.watch import Watch
from duckdp.errors import CatalogError
from duckdp.smooth.summary import SmoothSummary
from duckdp.synthetic.lp.make.fitted import Fitted
from duckdp.synthetic.lp.make.nulls import give_missing, shares
from duckdp.synthetic.lp.make.support import make_grid
from duckdp.synthetic.lp.make.synthesize import draw_table, fit_summary, rows_of
from duckdp.synthetic.lp.make.unfinished import resumed
from duckdp.synthetic.opened import Opened
from duckdp.synthetic.sample import bytes_of
from duckdp.synthetic.unit.structure import mended

DISTANCE = "l1 distance of its moments"


def complete(raw: dict[str, Any], watch: Watch) -> dict[str, Any]:
    """The payload with the fitted distribution, going on where the program was left; see ``methods.Make``.

    Raises:
        NumericalError: N101, the program was not solved. CatalogError: C105, damaged.
    """
    if raw["summary"] is None:
        raise CatalogError("C105", "the stored synthetic table holds no rows, and nothing to make them from.")
    with resumed(raw["summary"]) as state:
        return {**raw, "table": fit_summary(SmoothSummary.load(raw["summary"]), watch, state).raw()}


def open_table(raw: dict[str, Any], watch: Watch) -> Opened:
    """Rows drawn from the fitted distribution, the same whenever it is read; see ``methods.Make``.

    Raises:
        CatalogError: C105, damaged.
    """
    summary = SmoothSummary.load(raw["summary"])
    fitted = Fitted.read(raw["table"], make_grid(summary).shape)
    watch.tell("sample", 0.95)
    source, missing = bytes_of(raw["summary"]), raw.get("missing")
    rows = rows_of(summary) if raw["rows"] is None else int(raw["rows"])
    table = draw_table(summary, fitted, rows, source)
    notes = (*([fitted.note()] if fitted.note() else []), table.scale)
    if missing is not None:
        table = replace(table, columns=give_missing(table.columns, missing, source))
        names = ", ".join(missing["columns"])
        note = f"NULL of {names} in its private share, bought with a twentieth of epsilon and independent of the values"
        notes = (note, *notes)
    if raw.get("constraints"):
        told = tuple(str(text) for text in raw["constraints"])
        table = replace(table, columns=mended(table.columns, summary.columns, told))
        notes = (*notes, f"rows were moved to where every row keeps {'; '.join(told)}")
    watch.tell("done", 1.0)
    return Opened(table=table, facts=_null_facts(missing), notes=notes, remarks=notes, summary=summary)


def shape(raw: dict[str, Any]) -> list[tuple[str, str]]:
    """(name, DuckDB type) of the columns; see ``methods.Make``."""
    return [(c.name, c.type) for c in SmoothSummary.load(raw["summary"]).columns]


def _null_facts(released: dict[str, Any] | None) -> tuple[tuple[str, str], ...]:
    """Released shares of rows with a NULL, per column."""
    if released is None:
        return ()
    found = shares(released)
    patterns = np.arange(len(found))
    each = [
        f"{name} {100 * float(found[(patterns >> k) & 1 == 1].sum()):.3g}%"
        for k, name in enumerate(released["columns"])
    ]
    return (("released shares of NULL (moments and questions are of rows without one)", ", ".join(each)),)

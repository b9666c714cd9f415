"""Rows from a release of the toy."""

from __future__ import annotations

from typing import Any

import numpy as np

from duckdp.catalog.table import load_columns
from duckdp.core.watch import Watch
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.opened import Opened

DISTANCE = "nothing"


def complete(raw: dict[str, Any], watch: Watch) -> dict[str, Any]:
    """Even steps over the bounds."""
    watch.tell("rows", 0.5)
    columns, rows = load_columns(raw["columns"]), int(raw["rows"])
    made = {c.name: np.linspace(float(str(c.lower)), float(str(c.upper)), rows) for c in columns}
    table = SyntheticTable(table=raw["name"], types={c.name: c.type for c in columns}, columns=made, residual=0.0)
    return {**raw, "table": table.dump()}


def open_table(raw: dict[str, Any], watch: Watch) -> Opened:
    """The stored rows."""
    watch.tell("done", 1.0)
    notes = (f"the toy counted {raw['count']} rows",)
    return Opened(table=SyntheticTable.load(raw["table"]), notes=notes, remarks=notes)


def shape(raw: dict[str, Any]) -> list[tuple[str, str]]:
    """Columns."""
    return [(c.name, c.type) for c in load_columns(raw["columns"])]

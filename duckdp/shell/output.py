"""Answers as text: a table for people, CSV and JSON for programs."""

from __future__ import annotations

import csv
import io
import json

from duckdp.result import Result
from duckdp.texts import csv_cell, escape

__all__ = ["FORMATS", "escape", "render"]

FORMATS = ("table", "csv", "json")


def render(result: Result, style: str) -> tuple[str, str]:
    """A result as text, and its footer (cost, notes) where the text has no room for one.

    CSV and JSON have ``<name>_standard_error``, ``_low`` and ``_high`` beside each released number. Text cells that a
    spreadsheet would read as a formula get a leading apostrophe in CSV.
    """
    if style == "table":
        return (str(result) if result.columns else "\n".join(result.footer())), ""
    found = result.typed()
    names = [name for name, _, _ in found]
    rows = list(zip(*(values for _, _, values in found), strict=True))
    if style == "json":
        text = json.dumps([dict(zip(names, row, strict=True)) for row in rows], default=str, ensure_ascii=False)
        return escape(text), "\n".join(result.footer())
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([csv_cell(n) for n in names])
    writer.writerows([csv_cell(v) for v in row] for row in rows)
    return out.getvalue().removesuffix("\n"), "\n".join(result.footer())

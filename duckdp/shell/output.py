"""Answers as text or files: a table for people, Markdown for pages, CSV, JSON and Parquet for programs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from duckdp.errors import ParameterError
from duckdp.process.new_file import write_new
from duckdp.result import Estimate, Result
from duckdp.texts import csv_cell, escape

__all__ = ["FORMATS", "escape", "render", "save"]

FORMATS = ("table", "csv", "json", "markdown")
_ENDINGS = {".csv": "csv", ".json": "json", ".md": "markdown"}


def render(result: Result, style: str) -> tuple[str, str]:
    """A result as text, and its footer (cost, notes) where the text has no room for one.

    CSV and JSON have ``<name>_standard_error``, ``_low`` and ``_high`` beside each released number. Text cells that a
    spreadsheet would read as a formula get a leading apostrophe in CSV.
    """
    if style == "table":
        return (str(result) if result.columns else "\n".join(result.footer())), ""
    if style == "markdown":
        return _markdown(result), ""
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


def save(result: Result, path: str) -> str:
    """Write an answer to a new file, in the form that its ending names; says so.

    Raises:
        ParameterError: P107, another ending, or the file is there or cannot be written.
    """
    ending = Path(path).suffix.lower()
    if ending not in (*_ENDINGS, ".parquet"):
        raise ParameterError("P107", "file", path, "must end with .csv, .json, .md or .parquet.")
    try:
        if ending == ".parquet":
            import pyarrow.parquet

            with open(path, "xb") as file:
                pyarrow.parquet.write_table(result.arrow(), file)
        else:
            write_new(path, render(result, _ENDINGS[ending])[0] + "\n")
    except FileExistsError:
        raise ParameterError("P107", "file", path, "is there already. Name a new one.") from None
    except OSError:
        raise ParameterError("P107", "file", path, "cannot be written.") from None
    return f"{len(result):,} rows in {path}"


def _markdown(result: Result) -> str:
    """A table of Markdown, error bars in its cells, and what goes with it below."""

    def line(cells: list[str]) -> str:
        told = (escape(cell).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for cell in cells)
        return f"| {' | '.join(told)} |"

    parts = [c.values if c.estimates is None else c.estimates for c in result.columns]
    rows = [
        ["" if v is None else v.text if isinstance(v, Estimate) else str(v) for v in row]
        for row in zip(*parts, strict=True)
    ]
    lines = [line(result.names), f"|{'---|' * len(result.columns)}", *map(line, rows)] if result.columns else []
    footer = [escape(f) for f in result.footer() if not f.endswith("more rows)")]
    return "\n\n".join(["\n".join(lines), *footer])

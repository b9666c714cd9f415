"""A stored synthetic table: read again, or finished where its program had not been solved.

A payload is JSON::

    kind      "synthesis"
    summary   the released summary ("lp"), or null
    moments   the released sums at grid points ("theorem"), with "theorem": its figures
    missing   released patterns of NULLs, or null
    table     the fitted distribution, or null where the program was not solved; of a wide table its rows, as text
    bought    of a wide table: (stage, number of sums, share of the charge) each
    wide      of a wide table without rows: what was released, to make them from (``wide.finish``)
    rows      wanted

Rows are drawn with bytes that follow from the release, so reading again gives the same rows.

Privacy: post-processing of releases.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from duckdp.catalog import load_columns
from duckdp.core.task import Watch, as_numerical
from duckdp.errors import CatalogError
from duckdp.smooth.summary import SmoothSummary
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.fitted import Fitted
from duckdp.synthetic.missing import give_missing
from duckdp.synthetic.sample import bytes_of
from duckdp.synthetic.support import make_grid
from duckdp.synthetic.synthesize import draw_table, fit_summary
from duckdp.synthetic.theorem_fit import draw_theorem, finish_theorem, theorem_facts, theorem_shape
from duckdp.synthetic.unfinished import resumed

KIND = "synthesis"


@dataclass(frozen=True, kw_only=True, eq=False)
class Opened:
    """A stored synthetic table.

    Attributes:
        table: its rows.
        fitted: the distribution they were drawn from; None of a wide table.
        facts: (name, value) of what its method says of itself.
        notes: what a reader of the rows must know.
    """

    table: SyntheticTable
    fitted: Fitted | None = None
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def is_table(payload: str) -> bool:
    """Whether a stored payload is a synthetic table, not a summary."""
    return bool(json.loads(payload).get("kind") == KIND)


def without_summary(payload: str) -> bool:
    """Whether a stored payload is a synthetic table that was not made from a summary."""
    return is_table(payload) and json.loads(payload)["summary"] is None


def shape_of(payload: str) -> list[tuple[str, str]]:
    """(name, type) of a stored synthetic table's columns, without making its rows."""
    raw = json.loads(payload)
    if isinstance(raw["table"], str):
        return list(SyntheticTable.load(raw["table"]).types.items())
    if raw.get("wide") is not None:
        try:
            return [(c.name, c.type) for c in load_columns(raw["wide"]["columns"])]
        except (ValueError, TypeError, KeyError):
            raise CatalogError("C105", "the stored synthetic table is damaged.") from None
    return [(c.name, c.type) for c in SmoothSummary.load(raw.get("moments") or raw["summary"]).columns]


def complete(payload: str, watch: Watch | None = None) -> str:
    """A release with what is made from it: the fitted distribution, or a wide table's rows.

    Args:
        payload: of a release; complete ones are given back.
        watch: follows the work; what it raises ends it.

    Raises:
        NumericalError: N101, the program was not solved. CatalogError: C105, damaged.
    """
    raw = json.loads(payload)
    if raw["table"] is not None:
        return payload
    watch = watch or Watch()
    try:
        if raw.get("wide") is not None:
            from duckdp.synthetic.wide.finish import finish_wide

            return json.dumps({**raw, "table": finish_wide(raw["wide"], watch), "wide": None})
        return json.dumps({**raw, "table": finish(raw, watch).raw()})
    except (ArithmeticError, ValueError, MemoryError) as problem:
        raise as_numerical(problem) from None


def open_synthesis(payload: str, watch: Watch | None = None) -> Opened:
    """Read a release; it is completed first where that is still to do, from where the work stood.

    Raises:
        NumericalError: N101, the program was not solved. CatalogError: C105, damaged.
    """
    raw, watch = json.loads(complete(payload, watch)), watch or Watch()
    if isinstance(raw["table"], str):
        watch.tell("done", 1.0)
        return Opened(table=_repeated(SyntheticTable.load(raw["table"]), int(raw["rows"])))
    if raw.get("moments") is not None:
        fitted = Fitted.read(raw["table"], theorem_shape(raw))
    else:
        fitted = Fitted.read(raw["table"], make_grid(SmoothSummary.load(raw["summary"])).shape)
    watch.tell("sample", 0.95)
    opened = _drawn(raw, fitted)
    watch.tell("done", 1.0)
    return opened


def read_synthesis(payload: str) -> SyntheticTable:
    """The table of a release; see :func:`open_synthesis`."""
    return open_synthesis(payload).table


def finish(raw: dict[str, Any], watch: Watch) -> Fitted:
    """Solve the program of a payload, going on where it was left.

    Raises:
        NumericalError: N101.
    """
    if raw.get("moments") is not None:
        return finish_theorem(raw, watch)
    if raw["summary"] is None:
        raise CatalogError("C105", "the stored synthetic table holds no rows, and nothing to make them from.")
    with resumed(raw["summary"]) as state:
        return fit_summary(SmoothSummary.load(raw["summary"]), watch, state)


def summary_of(payload: str) -> str:
    """The summary in a release: its own payload, or the one a synthetic table was made from.

    Raises:
        CatalogError: C110, a synthetic table that was made without one.
    """
    raw = json.loads(payload)
    if raw.get("kind") != KIND:
        return payload
    if raw["summary"] is None:
        raise CatalogError("C110", "that is a synthetic table which was not made from a summary.")
    return str(raw["summary"])


def _repeated(table: SyntheticTable, rows: int) -> SyntheticTable:
    """As many rows as were asked for: those of a wide table are repeated."""
    if table.rows >= rows:
        return table
    places = np.resize(np.arange(table.rows), rows)
    return replace(table, columns={name: values[places] for name, values in table.columns.items()})


def _drawn(raw: dict[str, Any], fitted: Fitted) -> Opened:
    early = (fitted.note(),) if fitted.note() else ()
    if raw.get("moments") is not None:
        table = draw_theorem(raw, fitted, bytes_of(raw["moments"]))
        facts = theorem_facts(raw, fitted)
        return Opened(table=table, fitted=fitted, facts=facts, notes=(*(f"{a}: {b}" for a, b in facts), *early))
    source = bytes_of(raw["summary"])
    table = draw_table(SmoothSummary.load(raw["summary"]), fitted, int(raw["rows"]), source)
    if raw.get("missing") is None:
        return Opened(table=table, fitted=fitted, notes=early)
    table = replace(table, columns=give_missing(table.columns, raw["missing"], source))
    names = ", ".join(raw["missing"]["columns"])
    note = f"NULL of {names} in its private share, bought with a twentieth of epsilon and independent of the values"
    return Opened(table=table, fitted=fitted, notes=(note, *early))

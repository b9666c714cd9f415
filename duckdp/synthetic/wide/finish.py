"""From a stored wide release to rows: post-processing, after nothing about the release can change any more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from duckdp.catalog import dump_columns, load_columns, released_type
from duckdp.core.task import Watch
from duckdp.errors import CatalogError, InternalError
from duckdp.synthetic.decode import SyntheticTable
from duckdp.synthetic.wide.auto import Bought, make_rows
from duckdp.synthetic.wide.collect import Released, open_purse
from duckdp.synthetic.wide.columns import UnitColumns, make_units
from duckdp.synthetic.wide.kept import Grown, Kept, pack, unpack
from duckdp.synthetic.wide.marginals import read_marginals
from duckdp.synthetic.wide.plan import make_plan
from duckdp.synthetic.wide.psi import Ellipsoid, make_psi_rows
from duckdp.synthetic.wide.tree import Tree
from duckdp.synthetic.wide.tree_bins import make_bins, spread_rows
from duckdp.synthetic.wide.tree_plan import make_tree_plan, open_tree_purse

FORMAT = 1
LEAST = 500  # rows that are fitted; fewer are the first of them
MADE = 250_000  # rows that are made and stored; more are made by repeating them when they are read
MOST_SECONDS = 3600.0  # of fitting


def keep_wide(table: str, units: UnitColumns, kept: Kept) -> dict[str, Any]:
    """A release as JSON values."""
    columns = dump_columns([p.column for p in units.parts])
    return {"format": FORMAT, "table": table, "columns": columns, "kept": pack(kept)}


def finish_wide(raw: dict[str, Any], watch: Watch) -> str:
    """Make the rows, at most MADE; ``SyntheticTable`` as text.

    Args:
        raw: of :func:`keep_wide`.
        watch: follows the work.

    Raises:
        CatalogError: C105, damaged or of another version.
    """
    units, kept = _read(raw)
    watch.start(MOST_SECONDS)
    made, residual = _tree_rows(units, kept, watch) if kept.method == "tree" else _moved_rows(units, kept, watch)
    types = {p.column.name: released_type(p.column.type) for p in units.parts}
    return SyntheticTable(table=str(raw["table"]), types=types, columns=made, residual=residual).dump()


def _read(raw: dict[str, Any]) -> tuple[UnitColumns, Kept]:
    try:
        found = unpack(raw["kept"])
        if raw["format"] == FORMAT and isinstance(found, Kept):
            return make_units(load_columns(raw["columns"]), tree=found.method == "tree"), found
    except (ValueError, TypeError, KeyError):
        pass
    raise CatalogError("C105", "the stored release is damaged or was written by another version.")


def _moved_rows(units: UnitColumns, kept: Kept, watch: Watch) -> tuple[dict[str, Any], float]:
    request, released = kept.request, kept.released
    watch.tell("rows", 0.0)
    if isinstance(released, Released):
        fitted = replace(request, rows=max(LEAST, request.rows))
        plan = make_plan(request, open_purse(request))
        made = make_rows(fitted, plan, released, watch, _bought(units, kept))
    elif isinstance(released, Ellipsoid):
        made = make_psi_rows(request, released)
    else:
        raise InternalError("a release of another method")
    unit = made.unit[np.resize(np.arange(len(made.unit)), min(kept.rows, MADE))]
    if request.target is not None:
        units.oppose(unit, request.target)
    return units.decode(unit), made.misfit


def _bought(units: UnitColumns, kept: Kept) -> Bought | None:
    """How the means give the laws that were bought."""
    marginals, noisy = kept.marginals, kept.noisy
    if marginals is None or noisy is None:
        return None
    return lambda means: read_marginals(marginals, noisy, means, units.nulls)


def _tree_rows(units: UnitColumns, kept: Kept, watch: Watch) -> tuple[dict[str, Any], float]:
    grown = kept.released
    if not isinstance(grown, Grown):
        raise InternalError("a release of another method")
    purse = open_tree_purse(kept.request, len(units.parts))
    plan = make_tree_plan(kept.request, units, purse)
    binnings = make_bins(units, plan.bins)
    target = None if kept.request.target is None else units.part_at(kept.request.target)
    tree = Tree(
        binnings=binnings, plan=plan, purse=purse, target=target, means=grown.means,
        mean_deviation=grown.mean_deviation, shares=grown.shares, merges=grown.merges, pairs=grown.pairs,
    )  # fmt: skip
    watch.tell("rows", 0.0)
    codes = tree.make(min(kept.rows, MADE))
    watch.tell("rows", 0.5)
    unit = spread_rows(binnings, codes, tree.places())
    return units.decode(unit, rounded=True), tree.misfit(codes)

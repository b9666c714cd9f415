"""Rows from a release of ``method := 'moments'``: post-processing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from duckdp.core.watch import Watch
from duckdp.errors import InternalError
from duckdp.synthetic.moments.make.given import read_marginals
from duckdp.synthetic.moments.make.rows import GiveLaws, make_rows
from duckdp.synthetic.moments.plan import make_plan
from duckdp.synthetic.moments.released import CLASSES, Released
from duckdp.synthetic.unit.charge_terms import moment_terms
from duckdp.synthetic.unit.finish import LEAST, Columns, complete_rows, decode_rows, open_rows, shape_of_rows
from duckdp.synthetic.unit.kept import Kept
from duckdp.synthetic.unit.layout import UnitColumns

DISTANCE = "rms distance of its moments"
open_table, shape = open_rows, shape_of_rows


def complete(raw: dict[str, Any], watch: Watch) -> dict[str, Any]:
    """The payload with its rows; see ``methods.Make``."""
    return complete_rows(raw, watch, CLASSES, _make, listed=False)


def _make(units: UnitColumns, kept: Kept, watch: Watch) -> tuple[Columns, float]:
    request, released = kept.request, kept.released
    if not isinstance(released, Released):
        raise InternalError("a release of another method")
    watch.tell("rows", 0.0)
    fitted = replace(request, rows=max(LEAST, min(request.rows, kept.rows)))
    plan = make_plan(request, moment_terms(request))
    return decode_rows(units, kept, make_rows(fitted, plan, released, watch, _laws(units, kept)))


def _laws(units: UnitColumns, kept: Kept) -> GiveLaws | None:
    """How the means give the laws that were bought."""
    marginals, noisy = kept.marginals, kept.noisy
    if marginals is None or noisy is None:
        return None
    return lambda means: read_marginals(marginals, noisy, means, units.nulls)

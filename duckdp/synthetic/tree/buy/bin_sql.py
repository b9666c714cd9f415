"""The bin of a private row, as SQL: the same that ``Binning.spread`` makes values of."""

from __future__ import annotations

from duckdp.compiler.printing import Parameters, number, quote
from duckdp.smooth.sums.scan import print_unit
from duckdp.synthetic.tree.bins import Binning
from duckdp.synthetic.unit.buy.unit_sql import print_choice
from duckdp.synthetic.unit.layout import piles

_AT_EDGE = 1e-9  # of a bin: what lies so little below an edge is at it, but for the rounding of its place (below 1e-13)


def print_code(binning: Binning, parameters: Parameters) -> str:
    """SQL of a row's bin over a row ``r``: INTEGER in [0, size), never NULL."""
    part, x = binning.part, f"r.{quote(binning.part.column.name)}"
    if part.form == "choice":
        return print_choice(part, parameters)
    if part.form == "sign":
        null = 2 if part.nullable else 0
        return f"CASE WHEN {x} THEN {_whole(1)} WHEN NOT {x} THEN {_whole(0)} ELSE {_whole(null)} END"
    place = f"({print_unit(part.column, part.axis, parameters)} + {number(1)}) / {number(2)}"
    if binning.span:
        steps = f"system.main.round({place} * {number(binning.span)}, 0)"
        place = f"{steps} * {number(binning.bins)} / {number(binning.span)}"
    else:
        place = f"{place} * {number(binning.bins)} + {number(_AT_EDGE)}"
    code = f"CAST(system.main.least(system.main.floor({place}), {number(binning.bins - 1)}) AS INTEGER)"
    first = f"WHEN {x} IS NULL THEN {_whole(binning.size - 1 if part.nullable else 0)}"
    values = piles(part.column) if binning.spikes else []
    arms = " ".join(f"WHEN {x} = {number(v)} THEN {_whole(binning.bins + i)}" for i, v in enumerate(values))
    return f"CASE {first} {arms} ELSE {code} END"


def print_null(binning: Binning, parameters: Parameters) -> str:
    """SQL of whether a row shows NULL in the column, over a row ``r``: INTEGER 1 or 0, never NULL."""
    shown = _whole(-1 if binning.null is None else binning.null)
    return f"CASE WHEN {print_code(binning, parameters)} = {shown} THEN {_whole(1)} ELSE {_whole(0)} END"


def _whole(value: int) -> str:
    return f"CAST({value} AS INTEGER)"

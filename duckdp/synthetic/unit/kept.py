"""A release over unit columns as it is stored, before its rows are made, and read again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duckdp.catalog.table import dump_columns, load_columns
from duckdp.errors import CatalogError
from duckdp.synthetic.unit.layout import UnitColumns, make_units
from duckdp.synthetic.unit.packed import Classes, pack, unpack
from duckdp.synthetic.unit.request import Request
from duckdp.synthetic.unit.stages import Noisy
from duckdp.synthetic.unit.structure import Structure

FORMAT = 1  # of the stored values


@dataclass(frozen=True, kw_only=True, eq=False)
class Kept:
    """A release over unit columns: all that its rows are made from.

    Attributes:
        method: name of the method, which is that of its folder.
        request: public parameters.
        rows: wanted, or as many as were counted.
        released: by the method; one of its own classes.
        marginals, noisy: moments of single columns and their release, where they were bought beside (``moments``).
        bought: kept for the stored form's sake; always empty.
    """

    method: str
    request: Request
    released: Any
    rows: int = 0
    marginals: Any = None
    noisy: Noisy | None = None
    bought: tuple[tuple[str, int, float], ...] = ()


def dump_kept(table: str, units: UnitColumns, kept: Kept) -> dict[str, Any]:
    """A release as JSON values; ``table``: name of the protected table."""
    columns = dump_columns([p.column for p in units.parts])
    raw = {"format": FORMAT, "table": table, "columns": columns, "kept": pack(kept)}
    s = units.structure
    if s is None:
        return raw
    told = {"columns": dump_columns(s.columns), "constraints": list(s.constraints), "calendar": s.calendar}
    return {**raw, "structure": told}


def load_structure(raw: dict[str, Any]) -> Structure | None:
    """What was modelled of which columns; None in most releases, and in all of earlier versions."""
    told = raw.get("structure")
    if told is None:
        return None
    constraints = tuple(str(text) for text in told["constraints"])
    return Structure(columns=load_columns(told["columns"]), constraints=constraints, calendar=bool(told["calendar"]))


def load_kept(raw: dict[str, Any], classes: Classes, *, listed: bool) -> tuple[UnitColumns, Kept]:
    """The inverse of :func:`dump_kept`.

    Args:
        raw: JSON values.
        classes: the method's own, beside ``Kept``, ``Noisy`` and ``Request``.
        listed: whether the method takes large domains as one unit column each.

    Raises:
        CatalogError: C105, damaged or of another version.
    """
    try:
        found = unpack(raw["kept"], (Kept, Noisy, Request, *classes))
        if raw["format"] == FORMAT and isinstance(found, Kept):
            return make_units(load_columns(raw["columns"]), tree=listed, structure=load_structure(raw)), found
    except (ValueError, TypeError, KeyError):
        pass
    raise CatalogError("C105", "the stored release is damaged or was written by another version.")

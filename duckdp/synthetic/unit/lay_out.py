"""A call as unit columns and public parameters: what is the same for all methods over unit columns."""

from __future__ import annotations

from duckdp.core.types import Neighbours
from duckdp.errors import CatalogError, ParameterError, QueryError
from duckdp.synthetic.asked import Asked
from duckdp.synthetic.unit.layout import UnitColumns, make_units
from duckdp.synthetic.unit.request import Request
from duckdp.synthetic.unit.structure import Structure

FITTED = 4000  # rows that are fitted; more are made by repeating them


def lay_out(asked: Asked, *, listed: bool) -> tuple[UnitColumns, Request]:
    """Unit columns of the columns that were asked for, and the request for the whole charge. Free: no data is touched.

    Args:
        asked: the call.
        listed: whether large domains may be one unit column each.

    Raises:
        CatalogError: C102, unknown column; C105, REPLACE of a view or of units of several rows.
        ParameterError: P107. QueryError: Q401, there is nothing to make rows from.
    """
    _refuse_degree(asked)
    table, chosen = asked.table, []
    for name in asked.names:
        column = table.column(name)
        if column is None:
            raise CatalogError("C102", f'column "{name[:63]}" is not declared for "{table.name}".', table=table.name)
        chosen.append(column)
    if not chosen:
        raise QueryError("Q401", "no column has bounds, a domain or two values, so nothing about the rows can be made.")
    if len({c.name for c in chosen}) != len(chosen):
        raise ParameterError("P107", "columns", asked.names[:50], "must name columns, each once.")
    if asked.neighbours is Neighbours.REPLACE and (table.unit_key is not None or table.filter is not None):
        raise CatalogError("C105", "under REPLACE every row must count, so no unit_key and no view.", table=table.name)
    structure = Structure(columns=tuple(chosen), constraints=table.constraints, calendar=asked.calendar)
    if structure.plain:
        units = make_units(chosen, tree=listed)
    else:
        units = make_units(structure.modelled, tree=listed, structure=structure)
    target = asked.target
    if target and len(chosen) == 1:
        raise ParameterError("P107", "target", target, "needs other columns to link it with; name more, or no target.")
    return units, Request(
        columns=max(2, units.count),
        expected_rows=table.expected_rows or table.row_cap,
        epsilon_nano=asked.epsilon_nano,
        delta_atto=asked.delta_atto,
        neighbours=asked.neighbours,
        rows=min(asked.wanted, FITTED),
        target=units.place_of(target) if target else None,
        signs=units.signs,
        groups=units.groups,
    )


def require_shares(fits: bool, columns: int, epsilon_nano: int) -> None:
    """Refuse, before the charge, a charge that cannot be divided so that each share buys noise that can be drawn.

    Raises:
        ParameterError: P107.
    """
    if not fits:
        rule = f"is too small to be divided among {columns} columns; name fewer of them, or take a larger one."
        raise ParameterError("P107", "epsilon", epsilon_nano / 1e9, rule)


def _refuse_degree(asked: Asked) -> None:
    if asked.sets_degree:
        name, given = ("degree", asked.degree) if asked.degree is not None else ("smoothness", asked.smoothness)
        rule = "is for the linear program, up to three columns; leave it out, or take method := 'lp'."
        raise ParameterError("P107", name, given, rule)

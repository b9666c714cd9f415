"""The values of an expression on finite sets: computed by DuckDB, on an empty instance, by the SQL that reads rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import duckdb
import pyarrow as pa

from duckdp.catalog.table import Column, Kind, Scalar
from duckdp.compiler.empty import arrow_type, on_values
from duckdp.compiler.expression import ColumnRef, Expr, replaced
from duckdp.compiler.printing import Parameters, print_expr
from duckdp.errors import InternalError

TYPES = {Kind.NUMBER: "DOUBLE", Kind.TEXT: "VARCHAR", Kind.BOOLEAN: "BOOLEAN", Kind.DATE: "DATE"}


def image(expr: Expr, atoms: Mapping[Expr, tuple[Scalar, ...]]) -> tuple[Scalar, ...]:
    """The distinct values of ``expr``, in the order in which the atoms' values bring them up.

    Args:
        expr: reads columns only inside its atoms.
        atoms: sub-expressions and the values each can have; NULL is tried besides. NULL is in the image only where
            values that an atom lists give it.
    """
    return _image(expr, tuple(atoms.items()))


@lru_cache(maxsize=32)
def _image(expr: Expr, atoms: tuple[tuple[Expr, tuple[Scalar, ...]], ...]) -> tuple[Scalar, ...]:
    places: dict[Expr, Expr] = {}
    tables, read = {}, []
    for i, (atom, values) in enumerate(atoms):
        column = Column(name=f"a{i}", source="", type=TYPES.get(atom.kind, "TIMESTAMP"), kind=atom.kind)
        places[atom] = ColumnRef(column)
        given = [float(v) if atom.kind is Kind.NUMBER and v is not None else v for v in (*values, None)]  # type: ignore[arg-type]
        tables[f"t{i}"] = {
            "value": pa.array(given, type=arrow_type(atom.kind)),
            "place": pa.array(range(len(given))),
            "tried": pa.array([False] * len(values) + [True]),
        }
        read.append(f"t{i}")
    parameters = Parameters()
    printed = print_expr(replaced(expr, places.get), lambda c: f"t{c.name[1:]}.value", parameters)
    order = ", ".join(f"{t}.place" for t in read)
    tried = " OR ".join(f"{t}.tried" for t in read)
    sql = f"SELECT {printed} AS value, {tried} AS tried FROM {', '.join(read)} ORDER BY {order}"
    try:
        found = on_values(tables, lambda con: con.execute(sql, parameters.values).fetchall())
    except duckdb.Error:
        raise InternalError("an allowed function failed on a declared value") from None
    return tuple(dict.fromkeys(v for v, tried in found if v is not None or not tried))

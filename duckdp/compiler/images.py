"""The values of an expression on finite sets: computed by DuckDB, on an empty instance, by the SQL that reads rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa

from duckdp.catalog.table import Column, Kind, Scalar
from duckdp.compiler.empty import arrow_type, on_values
from duckdp.compiler.expression import ColumnRef, Expr, replaced
from duckdp.compiler.printing import Parameters, print_expr
from duckdp.errors import InternalError

_Atoms = tuple[tuple[Expr, tuple[Scalar, ...]], ...]
TYPES = {Kind.NUMBER: "DOUBLE", Kind.TEXT: "VARCHAR", Kind.BOOLEAN: "BOOLEAN", Kind.DATE: "DATE"}


def image(expr: Expr, atoms: Mapping[Expr, tuple[Scalar, ...]]) -> tuple[Scalar, ...]:
    """The distinct values of ``expr``, in the order in which the atoms' values bring them up.

    Args:
        expr: reads columns only inside its atoms.
        atoms: sub-expressions and the values each can have; NULL is tried besides. NULL is in the image only where
            values that an atom lists give it.
    """
    return _image(expr, tuple(atoms.items()))


@lru_cache(maxsize=256)
def constant(expr: Expr) -> Scalar:
    """The value of an expression that reads no column; of what is computed of the statement's date, too."""
    parameters = Parameters()
    printed = print_expr(expr, lambda c: c.name, parameters)
    ((value,),) = _asked({}, f"SELECT {printed}", parameters)
    return value  # type: ignore[no-any-return]


def images(exprs: Sequence[Expr], where: Expr, atoms: Mapping[Expr, tuple[Scalar, ...]]) -> set[tuple[Scalar, ...]]:
    """The combinations of values of several expressions, where a condition holds; NULL is tried for each atom too."""
    return _images(tuple(exprs), where, tuple(atoms.items()))


def images_of_rows(
    exprs: Sequence[Expr], where: Expr, read: Sequence[Column], rows: Sequence[Sequence[Scalar]]
) -> frozenset[tuple[Scalar, ...]]:
    """The combinations of values of several expressions on rows, where a condition holds.

    Args:
        exprs: read no other columns.
        where: the condition.
        read: the columns of the rows; one at least.
        rows: a value for each column.
    """
    parameters, names = Parameters(), {c.name: f"t0.c{i}" for i, c in enumerate(read)}
    *printed, condition = (print_expr(e, lambda c: names[c.name], parameters) for e in (*exprs, where))
    given = list(zip(*rows, strict=True)) or [()] * len(read)
    arrays = {f"c{i}": _array(c.kind, values) for i, (c, values) in enumerate(zip(read, given, strict=True))}
    sql = f"SELECT DISTINCT {', '.join(printed)} FROM t0 WHERE {condition}"
    return frozenset(_asked({"t0": arrays}, sql, parameters))


@lru_cache(maxsize=32)
def _images(exprs: tuple[Expr, ...], where: Expr, atoms: _Atoms) -> set[tuple[Scalar, ...]]:
    places, tables = _placed(atoms)
    parameters = Parameters()
    *printed, condition = (
        print_expr(replaced(e, places.get), lambda c: f"t{c.name[1:]}.value", parameters) for e in (*exprs, where)
    )
    sql = f"SELECT DISTINCT {', '.join(printed)} FROM {', '.join(tables)} WHERE {condition}"
    return set(_asked(tables, sql, parameters))


@lru_cache(maxsize=32)
def _image(expr: Expr, atoms: _Atoms) -> tuple[Scalar, ...]:
    places, tables = _placed(atoms)
    parameters = Parameters()
    printed = print_expr(replaced(expr, places.get), lambda c: f"t{c.name[1:]}.value", parameters)
    order = ", ".join(f"{t}.place" for t in tables)
    tried = " OR ".join(f"{t}.tried" for t in tables)
    sql = f"SELECT {printed} AS value, {tried} AS tried FROM {', '.join(tables)} ORDER BY {order}"
    found = _asked(tables, sql, parameters)
    return tuple(dict.fromkeys(v for v, tried in found if v is not None or not tried))


def _placed(atoms: _Atoms) -> tuple[dict[Expr, Expr], dict[str, dict[str, pa.Array]]]:
    """Columns in the atoms' places, and tables t0, t1, ... of their values, NULL the last."""
    places: dict[Expr, Expr] = {}
    tables = {}
    for i, (atom, values) in enumerate(atoms):
        column = Column(name=f"a{i}", source="", type=TYPES.get(atom.kind, "TIMESTAMP"), kind=atom.kind)
        places[atom] = ColumnRef(column)
        tables[f"t{i}"] = {
            "value": _array(atom.kind, (*values, None)),
            "place": pa.array(range(len(values) + 1)),
            "tried": pa.array([False] * len(values) + [True]),
        }
    return places, tables


def _array(kind: Kind, values: Sequence[Scalar]) -> pa.Array:
    given = [float(v) if kind is Kind.NUMBER and v is not None else v for v in values]  # type: ignore[arg-type]
    return pa.array(given, type=arrow_type(kind))


def _asked(tables: Mapping[str, Mapping[str, pa.Array]], sql: str, parameters: Parameters) -> list[tuple[Any, ...]]:
    try:
        return on_values(tables, lambda con: con.execute(sql, parameters.values).fetchall())
    except duckdb.Error:
        raise InternalError("an allowed function failed on a declared value") from None

"""Values of an expression on points of ours, computed by DuckDB.

The expression is evaluated in an empty in-memory instance that holds no table and no function of anybody's: nothing
here can see data or cost privacy. Many expressions of one shape, which differ in their constants only, are one
statement over the product of the points and the constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from duckdp.catalog.table import Column, Kind
from duckdp.compiler.empty import arrow_type, on_values
from duckdp.compiler.expression import Call, ColumnRef, Expr, columns
from duckdp.compiler.printing import Parameters, print_expr, quote
from duckdp.errors import InternalError, NumericalError, QueryError
from duckdp.smooth.axes import Axis, Floats

SLOT = "\x00slot"  # no declared column has this in its name
MAX_ROWS = 2**20  # of one statement
_NODES, _CONSTANTS = "nodes", "constants"

Masked = np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Points:
    """Points at which a function of some columns is evaluated.

    Attributes:
        axes: the columns.
        x: per column float[n]: its numbers, or positions in its values (``Axis.from_unit``).
    """

    axes: tuple[Axis, ...]
    x: tuple[Floats, ...]


def tensor_points(axes: Sequence[Axis], x: Sequence[Floats]) -> Points:
    """All combinations of the columns' numbers, the last column's fastest."""
    grids = np.meshgrid(*x, indexing="ij") if x else []
    return Points(tuple(axes), tuple(g.ravel() for g in grids))


def as_number_expression(function: Expr) -> Expr:
    """A boolean as 0 or 1.

    Raises:
        QueryError: Q203, neither a number nor a boolean.
    """
    if function.kind is Kind.BOOLEAN:
        return Call("number", (function,), Kind.NUMBER)
    if function.kind is not Kind.NUMBER:
        raise QueryError("Q203", f"the function must be a number, not a {function.kind.value}.")
    return function


def slot(index: int) -> ColumnRef:
    """A constant that :func:`evaluate_shape` fills in."""
    return ColumnRef(Column(name=f"{SLOT}{index}", source="", type="DOUBLE", kind=Kind.NUMBER, nullable=False))


def evaluate(function: Expr, points: Points) -> Floats:
    """Values of one expression: float[n].

    Raises:
        NumericalError: N102, one of them is NULL, NaN or infinite.
    """
    return np.asarray(evaluate_each([function], points)[0])


def evaluate_shape(function: Expr, points: Points, constants: Floats) -> Floats:
    """Values of expressions of one shape.

    Args:
        function: reads the columns of ``points``, and slots 0 .. k-1.
        points: n of them; without columns, one.
        constants: float[m, k], the slots' values for each of m expressions.

    Returns:
        float[m, n].

    Raises:
        NumericalError: N102, a value is NULL, NaN or infinite.
    """
    return _finite(raw_values(function, points, constants))


def evaluate_each(functions: Sequence[Expr], points: Points) -> Floats:
    """Values of several expressions, in one statement: float[m, n].

    Raises:
        NumericalError: N102, a value is NULL, NaN or infinite.
    """
    parameters = Parameters()
    place = {axis.name: f"x{i}" for i, axis in enumerate(points.axes)}
    items = [print_expr(as_number_expression(f), lambda c: _printed(c, place), parameters) for f in functions]
    nodes = {"row": pa.array(np.arange(len(points.x[0]) if points.x else 1)), **_arrays(points)}
    listed = ", ".join(f"{item} AS v{i}" for i, item in enumerate(items))
    found = _execute(f"SELECT {listed}, {_NODES}.row AS place FROM {_NODES}", parameters, {_NODES: nodes})
    order = np.argsort(found["place"])
    return _finite(
        np.ma.stack([np.ma.masked_array(found[f"v{i}"], dtype=np.float64)[order] for i in range(len(items))])
    )


def _finite(found: Masked) -> Floats:
    if np.ma.is_masked(found) or not np.isfinite(found.data).all():
        raise NumericalError(
            "N102",
            "the function is NULL, NaN or infinite somewhere within the columns' bounds.",
            status="not finite",
            advice="Change it, for example greatest(x, 1) in place of x.",
        )
    return np.asarray(found.data, dtype=np.float64)


def raw_values(function: Expr, points: Points, constants: Floats) -> Masked:
    """As :func:`evaluate_shape`, with NULL masked and without an error."""
    number = as_number_expression(function)
    place = {axis.name: f"x{i}" for i, axis in enumerate(points.axes)}
    read = {c.name for c in columns(number)}
    unknown = [name for name in read if name not in place and not name.startswith(SLOT)]
    if unknown:
        raise QueryError("Q207", "the function names a column that is not in the summary.")
    arrays = _arrays(points)
    size = len(points.x[0]) if points.x else 1
    parameters = Parameters()
    printed = print_expr(number, lambda c: _printed(c, place), parameters)
    step = max(1, MAX_ROWS // size)
    parts = [
        _run(printed, parameters, {"row": pa.array(np.arange(size)), **arrays}, constants[i : i + step])
        for i in range(0, len(constants), step)
    ]
    if len(parts) == 1:
        return parts[0]
    mask = np.concatenate([np.ma.getmaskarray(p) for p in parts])
    return np.ma.masked_array(np.concatenate([p.data for p in parts]), mask=mask if mask.any() else np.ma.nomask)


def _arrays(points: Points) -> dict[str, pa.Array]:
    return {f"x{i}": _arrow(axis, points.x[i]) for i, axis in enumerate(points.axes)}


def _printed(column: Column, place: dict[str, str]) -> str:
    if column.name.startswith(SLOT):
        return f"{_CONSTANTS}.s{int(column.name.removeprefix(SLOT))}"
    return f"{_NODES}.{quote(place[column.name])}"


def _run(printed: str, parameters: Parameters, nodes: dict[str, pa.Array], constants: Floats) -> Masked:
    """One statement; the order of a product's rows is DuckDB's affair, so every value comes with its place."""
    many, size = len(constants), len(nodes["row"])
    filled = {"row": pa.array(np.arange(many)), **{f"s{i}": pa.array(c) for i, c in enumerate(constants.T)}}
    sql = f"SELECT {printed} AS value, {_CONSTANTS}.row * {size} + {_NODES}.row AS place FROM {_CONSTANTS}, {_NODES}"
    found = _execute(sql, parameters, {_NODES: nodes, _CONSTANTS: filled})
    given = np.ma.masked_array(found["value"], dtype=np.float64)
    values = np.empty(many * size)
    values[np.asarray(found["place"])] = given.data
    masked = np.ma.masked_array(values)
    if np.ma.is_masked(given):
        mask = np.zeros(many * size, dtype=bool)
        mask[np.asarray(found["place"])] = np.ma.getmaskarray(given)
        masked.mask = mask
    return masked.reshape(many, size)


def _execute(
    sql: str, parameters: Parameters, tables: dict[str, dict[str, pa.Array]]
) -> dict[str, NDArray[np.generic]]:
    try:
        return dict(on_values(tables, lambda con: con.execute(sql, parameters.values).fetchnumpy()))
    except duckdb.Error:
        raise InternalError("an allowed function failed on a node") from None


def _arrow(axis: Axis, x: Floats) -> pa.Array:
    """A column's values as DuckDB reads them."""
    if axis.values is not None:
        return pa.array(axis.values, type=arrow_type(axis.kind)).take(pa.array(x.astype(np.int64)))
    if axis.kind is Kind.NUMBER:
        return pa.array(x)
    whole: NDArray[np.int64] = x.astype(np.int64)
    return pa.array(whole.astype(np.int32) if axis.kind is Kind.DATE else whole).cast(arrow_type(axis.kind))

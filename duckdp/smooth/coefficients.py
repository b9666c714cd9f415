"""A query function as a combination of the basis: f = sum_r c_r Phi_r + error.

f is a row expression over the summary's columns. It is evaluated by DuckDB on nodes of ours, in an empty in-memory
instance that holds no table and no function of anybody's: nothing here can see data or cost privacy.

Source: [J] Algorithm 2, step 3, with Chebyshev interpolation in place of the generalized Jackson kernel of its section
        3.3: on the zeros of T_t, N equal weights in the angle integrate degrees below 2N exactly, so c is a DCT.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock

import duckdb
import numpy as np
import pyarrow as pa
from scipy.fft import dctn

from duckdp.catalog import Column, Kind, Table
from duckdp.compiler.expression import Call, ColumnRef, Expr, columns, walk
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.printing import Parameters, print_expr, quote
from duckdp.compiler.scalars import Scalars
from duckdp.compiler.scope import RowScope
from duckdp.errors import InternalError, NumericalError, QueryError
from duckdp.smooth.basis import Floats, TensorBasis, chebyshev

MAX_CHECKED = 200_000  # points on which f - p is looked at
_NODES = "nodes"
_LOCK = Lock()
# Nothing is ever loaded, read or written by this instance; one thread keeps rows in order.
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false", "autoload_known_extensions": "false", "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false", "threads": "1", "lock_configuration": "true",
}  # fmt: skip


@dataclass(frozen=True)
class Approximation:
    """A polynomial in place of f.

    Attributes:
        coefficients: float[R], units of f.
        error: largest |f - p| found, units of f. Found on a grid, not proved.
    """

    coefficients: Floats
    error: float


def read_function(text: str, table: str, known: Sequence[Column]) -> Expr:
    """Translate f.

    Args:
        text: one scalar SQL expression.
        table: name of the summarised table, for messages and qualified names.
        known: the summary's columns.

    Raises:
        QueryError: Q1xx to Q4xx, at its place in the text.
    """
    scope = RowScope(Table(name=table, relation=("", "", ""), columns=tuple(known), row_cap=1), None, text)
    return Scalars(scope.leaf, text)(parse_scalar(text))


def approximate(function: Expr, basis: TensorBasis) -> Approximation:
    """Interpolate f on the tensor grid of Chebyshev zeros and look at the error on a finer grid.

    Args:
        function: a number or boolean (0 or 1) over the basis' columns.
        basis: the functions.

    Raises:
        NumericalError: N102, f is NULL, NaN or infinite on a node.
        QueryError: Q203, f is not a number; Q207, it names another column.
    """
    number = _as_number(function, basis)
    t, d = basis.degree, basis.dimensions
    angles = (np.arange(t) + 0.5) * (np.pi / t)
    values = _on_grid(number, basis, np.cos(angles)).reshape(basis.shape)
    coefficients: Floats = dctn(values, type=2) / t**d  # 2 sum_j f(x_j) cos(r a_j) per axis
    for axis in range(d):
        first = [slice(None)] * d
        first[axis] = slice(0, 1)
        coefficients[tuple(first)] /= 2
    per_axis = max(3, min(4 * t + 1, int(MAX_CHECKED ** (1 / d))))
    check = np.cos(np.linspace(0, np.pi, per_axis))  # corners included
    error = np.max(np.abs(_on_grid(number, basis, check) - evaluate_on_grid(coefficients, check)))
    return Approximation(coefficients.ravel(), float(error))


def evaluate_on_grid(coefficients: Floats, u: Floats) -> Floats:
    """The polynomial on the tensor grid u x ... x u.

    Args:
        coefficients: float[t, ..., t].
        u: float[n] in [-1, 1], the same for every column.

    Returns:
        float[n^d], C order.
    """
    powers = chebyshev(u, coefficients.shape[0])
    values = coefficients
    for _ in range(coefficients.ndim):  # contract the first axis, append the new one at the end
        values = np.tensordot(values, powers, axes=(0, 1))
    return values.ravel()


def _as_number(function: Expr, basis: TensorBasis) -> Expr:
    names = {name for name, _, _ in basis.columns}
    if not {c.name for c in columns(function)} <= names:
        raise QueryError("Q207", "the function names a column that is not in the summary.")
    if function.kind is Kind.BOOLEAN:
        return Call("number", (function,), Kind.NUMBER)
    if function.kind is not Kind.NUMBER:
        raise QueryError("Q203", f"the function must be a number, not a {function.kind.value}.")
    return function


def _on_grid(function: Expr, basis: TensorBasis, u: Floats) -> Floats:
    """Values of f on the tensor grid u x ... x u, float[n^d], C order."""
    shape = (len(u),) * basis.dimensions
    read = {n.column.name for n in walk(function) if isinstance(n, ColumnRef)}
    arrays = {"row": pa.array(np.arange(len(u) ** basis.dimensions))}
    for i, (name, _, _) in enumerate(basis.columns):
        if name in read:
            index = [None] * basis.dimensions
            index[i] = slice(None)  # type: ignore[call-overload]
            along = basis.from_unit(i, u)[tuple(index)]
            arrays[f"x{i}"] = pa.array(np.broadcast_to(along, shape).ravel())
    position = {name: f"x{i}" for i, (name, _, _) in enumerate(basis.columns)}
    parameters = Parameters()
    printed = print_expr(function, lambda c: f"{_NODES}.{quote(position[c.name])}", parameters)
    return _finite(_evaluate(f"SELECT {printed} AS value FROM {_NODES}", parameters, pa.table(arrays)))


def _evaluate(sql: str, parameters: Parameters, nodes: pa.Table) -> np.ma.MaskedArray[tuple[int], np.dtype[np.float64]]:
    with _LOCK:
        con = _instance(os.getpid())
        con.register(_NODES, nodes)
        try:
            found = con.execute(sql, parameters.values).fetchnumpy()["value"]
        except duckdb.Error:
            raise InternalError("an allowed function failed on a node") from None
        finally:
            con.unregister(_NODES)
    return np.ma.masked_array(found, dtype=np.float64)


def _finite(values: np.ma.MaskedArray[tuple[int], np.dtype[np.float64]]) -> Floats:
    if np.ma.is_masked(values) or not np.isfinite(values.data).all():
        raise NumericalError(
            "N102", "the function is NULL, NaN or infinite somewhere within the columns' bounds.", status="not finite",
            advice="Change it, for example greatest(x, 1) in place of x.",
        )  # fmt: skip
    return np.asarray(values.data, dtype=np.float64)


@lru_cache(maxsize=1)
def _instance(process: int) -> duckdb.DuckDBPyConnection:  # noqa: ARG001 - a forked process makes its own
    return duckdb.connect(":memory:", config=_SETTINGS)

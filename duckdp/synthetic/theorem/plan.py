"""What Algorithm 3 is run with: the theorem's parameters, and what can be had of them. Public figures only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from duckdp.catalog.table import Column
from duckdp.smooth.axes import MAX_VALUES
from duckdp.synthetic.asked import MAX_CELLS, MAX_ROWS
from duckdp.synthetic.theorem.parameters import Parameters, theorem_17_parameters, theorem_22_parameters

MOST_COLUMNS = 3  # as for the linear program
MOST_FUNCTIONS = 1000  # t^d: sums of one statement, rows of the program
MOST_POINTS = 8_000_000  # N^d: a float for each, 64 MB
SMOOTHNESS = 4  # K, unless asked
FAILURE = 0.05  # probability that the stated bound may fail


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What Algorithm 3 is run with.

    Attributes:
        wanted: by the theorem.
        used: after caps.
        capped: a sentence for each figure that is not the theorem's.
    """

    wanted: Parameters
    used: Parameters
    capped: tuple[str, ...]


def choose_figures(
    rows: int, columns: Sequence[Column], smoothness: int, epsilon: Fraction, delta: float, drawn: int | None
) -> Figures:
    """The theorem's parameters, and what is used of them.

    Args:
        rows: n, public.
        columns: d of them.
        smoothness: K.
        epsilon: the charge.
        delta: of it; Theorem 22 where it is above 0.
        drawn: rows that were asked for, in place of m.
    """
    dimensions = len(columns)
    if delta:
        wanted = theorem_22_parameters(rows, dimensions, smoothness, epsilon, delta)
    else:
        wanted = theorem_17_parameters(rows, dimensions, smoothness, epsilon)
    degree = min([wanted.degree, _root(MOST_FUNCTIONS, dimensions), *map(most_degree, columns)])
    values = min(wanted.values, MAX_VALUES, _root(MOST_POINTS, dimensions))
    most = min(MAX_ROWS, MAX_CELLS // dimensions)
    used = replace(wanted, degree=degree, values=values, rows=drawn or min(wanted.rows, most))
    capped = []
    for sign, name, limit in (
        ("t", "degree", f"at most {MOST_FUNCTIONS:,} sums, and fewer per column than it has values"),
        ("N", "values", f"at most {MAX_VALUES:,} per column and {MOST_POINTS:,} grid points"),
        ("m", "rows", "as many rows as were asked for" if drawn else f"at most {MAX_CELLS:,} values"),
    ):
        before, after = getattr(wanted, name), getattr(used, name)
        if before != after:
            capped.append(f"{sign} is {after:,} instead of the theorem's {before:,}: {limit}")
    return Figures(wanted=wanted, used=used, capped=tuple(capped))


def most_degree(column: Column) -> int:
    """Functions of a column that are fewer than its values: more would make it an axis of values."""
    lower, upper = column.lower, column.upper
    if column.integral and isinstance(lower, (int, float)) and isinstance(upper, (int, float)):
        return min(int(upper) - int(lower), MOST_FUNCTIONS)
    return MOST_FUNCTIONS


def _root(most: int, power: int) -> int:
    """The largest whole number whose power is at most ``most``."""
    found = int(round(most ** (1.0 / power)))  # noqa: RUF046 - a typed checker takes round of a power for Any
    return found if int(found**power) <= most else found - 1

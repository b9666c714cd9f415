"""The degree of a summary when it is not given: from the smoothness of later queries, or from the noise.

    smoothness K   t = ceil(n^(1 / (2d + K))), or Theorem 21's for (epsilon, delta): the rates of the paper
    neither        the largest t up to 64 whose noise stays below one percent of the rows, per sum: queries that are
                   far smoother than any fixed K (bumps, exponentials) gain most from many functions

n is public: ``expected_rows``, else ``row_cap``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from duckdp.catalog.table import Column, Table
from duckdp.core.accountant import rho_for
from duckdp.core.types import ATTO, NANO, PICO
from duckdp.errors import ParameterError
from duckdp.smooth.axes import make_axis
from duckdp.smooth.basis import Shape, count_functions, degree_from

MOST_DEGREE = 64  # functions per column that are chosen by themselves; more can be asked for
MOST_FUNCTIONS = (4096, 1024)  # of one or two columns, and of more
NOISE_SHARE = 0.01  # of the rows: what noise may be of the smallest figure that is of use


def choose_degree(
    table: Table,
    columns: Sequence[Column],
    *,
    smoothness: int | None,
    degree: int | None,
    shape: Shape,
    order: int | None,
    epsilon_nano: int,
    delta_atto: int,
) -> int:
    """The degree of the basis; see the module.

    Raises:
        ParameterError: P107, both or out of range.
    """
    if smoothness is not None and degree is not None:
        raise ParameterError("P107", "degree", degree, "stands in place of smoothness. Give one of them.")
    if degree is not None:
        return degree
    rows = table.expected_rows or table.row_cap
    if smoothness is not None:
        return degree_from(smoothness, rows, len(columns), delta_atto / ATTO)
    most = NOISE_SHARE * rows / (table.max_rows if table.unit_key is not None else 1)
    found = 2
    for t in range(3, MOST_DEGREE + 1):
        axes = [make_axis(c, t) for c in columns]
        size = count_functions(axes, t, shape, order)
        if size > MOST_FUNCTIONS[len(columns) > 2] or _deviation(size, epsilon_nano, delta_atto) > most:
            break
        found = t
    return found


def _deviation(size: int, epsilon_nano: int, delta_atto: int) -> float:
    """Standard deviation of a sum, in rows: of the cube, or of Gaussian noise where that is less."""
    cube = math.sqrt((size + 1) * (size + 2) / 3) * NANO / epsilon_nano
    rho = rho_for(epsilon_nano, delta_atto) if delta_atto else 0
    return min(cube, math.sqrt(size * PICO / (2 * rho))) if rho else cube

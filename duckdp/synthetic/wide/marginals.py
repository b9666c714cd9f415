"""The law of each numeric column, bought beside the moments that link columns, and given to the finished rows.

``auto`` moves rows until a few moments fit; that leaves the law of one column open beyond its mean. So a part of the
charge buys T_2 .. T_M of every numeric column, one cube for all. A distribution on a fine grid is fitted to each
column's moments (``generation``, least squares), and the rows' values are replaced by its quantiles at their ranks:
what links columns is kept as far as ranks carry it, the marginals become those that were bought.

Privacy:      a release of its own, with its own part of epsilon: ``Purse.buy`` (each T_k(u_i), clamped, lies in
              [-1, 1]). Fitting and ranks are post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from duckdp.smooth.basis import chebyshev
from duckdp.smooth.sums.scan import number
from duckdp.synthetic.generation import generate
from duckdp.synthetic.pricing import Grid
from duckdp.synthetic.program import Objective
from duckdp.synthetic.support import angle_nodes
from duckdp.synthetic.wide.features import Floats, clamped_sum
from duckdp.synthetic.wide.release import Noisy, Purse, predicted
from duckdp.synthetic.wide.start import uniforms

SHARE = Fraction(3, 10)  # of epsilon
DEGREES = (16, 12, 8, 6, 4, 3, 2)
_FINE = 0.03  # deviation of a moment
_COARSEST = 0.15  # of all moments of one degree together, where only two or three degrees can be had
_GRID = 200
_GAP = 0.02


@dataclass(frozen=True, kw_only=True)
class Marginals:
    """T_2 .. T_M of some unit columns; used like ``Features``.

    Attributes:
        dimensions: d, all unit columns.
        columns: which of them.
        degree: M.
    """

    dimensions: int
    columns: tuple[int, ...]
    degree: int

    @property
    def count(self) -> int:
        """R."""
        return len(self.columns) * (self.degree - 1)

    def rows(self, u: Floats) -> Floats:
        """Values of every row, float[n, R], column by column."""
        return np.concatenate([chebyshev(u[:, i], self.degree + 1)[:, 2:] for i in self.columns], axis=1)

    def print_sql(self, relation: str, columns: Sequence[str], bits: int) -> str:
        """One SELECT that gives R integers, as ``Features.print_sql`` does."""
        sql = relation
        known = {i: {0: number(1), 1: f"s.{columns[i]}"} for i in self.columns}
        for k in range(2, self.degree + 1):
            items = []
            for i in self.columns:
                half = (k + 1) // 2
                a, b, rest = known[i][half], known[i][k - half], known[i][2 * half - k]
                items.append(f"({number(2)} * {a} * {b} - {rest}) AS t{i}_{k}")
                known[i][k] = f"s.t{i}_{k}"
            sql = f"(SELECT s.*, {', '.join(items)} FROM {sql} AS s)"
        sums = ", ".join(clamped_sum(known[i][k], bits) for i in self.columns for k in range(2, self.degree + 1))
        return f"SELECT {sums} FROM {sql} AS s"


def choose_marginals(columns: Sequence[int], dimensions: int, purse: Purse, rows: float) -> Marginals | None:
    """The largest degree whose noise is fine; a coarse one, or none, where even few moments drown. Public figures."""
    if not columns:
        return None
    for degree in DEGREES:
        noise = predicted(len(columns) * (degree - 1), Fraction(1), purse, rows)
        if noise <= (_FINE if degree > 3 else _COARSEST / len(columns) ** 0.5):
            return Marginals(dimensions=dimensions, columns=tuple(columns), degree=degree)
    return None


def give_marginals(unit: Floats, marginals: Marginals, noisy: Noisy, nulls: dict[int, int]) -> Floats:
    """Rows whose numeric columns have the bought laws.

    Args:
        unit: float[m, d].
        marginals: what was bought.
        noisy: its release.
        nulls: unit column of a number -> the unit column that says it is NULL (there the number counts as 0).
    """
    found, each = unit.copy(), marginals.degree - 1
    for place, column in enumerate(marginals.columns):
        moments = np.concatenate([[1.0, float(unit[:, column].mean())], noisy.means[place * each : (place + 1) * each]])
        missing = 0.0 if column not in nulls else float(np.clip((1 + unit[:, nulls[column]].mean()) / 2, 0, 0.95))
        at_zero = chebyshev(np.zeros(1), marginals.degree + 1)[0]
        present = (moments - missing * at_zero) / (1 - missing)
        found[:, column] = _quantiles(present, unit[:, column]) * (1 - missing)  # scaled up again when decoded
    return found


def _quantiles(moments: Floats, values: Floats) -> Floats:
    """Quantiles of a law with these moments at the ranks of the values; equal values in random order."""
    nodes = angle_nodes(_GRID)
    grid = Grid(
        axes=(np.ascontiguousarray(chebyshev(nodes, len(moments)).T),), indices=np.arange(len(moments))[:, None]
    )  # fmt: skip
    weights = np.ones(len(moments) - 1)
    law = generate(grid, Objective(target=moments, norm="l2", weights=weights), gap=_GAP)
    order = np.argsort(law.points[:, 0])
    support, mass = nodes[law.points[order, 0]], law.weights[order]
    ranks = np.empty(len(values))
    ranks[np.lexsort((uniforms(len(values), 1)[:, 0], values))] = (np.arange(len(values)) + 0.5) / len(values)
    return np.asarray(support[np.minimum(np.searchsorted(np.cumsum(mass), ranks), len(support) - 1)])

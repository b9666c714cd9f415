"""Quantiles with noise scaled to a smooth bound on their local sensitivity.

Releases round(q(D) + S(D) / alpha * Z), clamped to the grid, where for integer data x[1] <= ... <= x[n] in
[0, grid_cells] (x[i] = 0 for i < 1 and grid_cells for i > n), u = max_rows and m = least(n, greatest(1, ceil(p n))):

    q(D) = x[m]                                                      the discrete (lower) quantile; never an average
    W_w  = max over 0 <= j <= w of x[m + j] - x[m + j - w]           all windows of w steps that hold the rank
    V_w  = x[m + w] - x[m - w]                                       one window of 2 w steps
    S(D) = max( exp(-b k) W_{(k+1)u}   for 0 <= k <= Window.exact,
                exp(-b k) V_{(k+1)u}   for Window.exact < k <= Window.units,
                exp(-b (Window.units + 1)) grid_cells )
    Z    = Student's t with 2 degrees of freedom when delta = 0, else Laplace; or a law that was chosen for it

Privacy:      (epsilon, delta), for ADD_REMOVE and for REPLACE alike, of a unit with at most max_rows rows. No
              parameter says which: every step of the proof holds for both.
Assumes:      the relation holds at most max_rows rows of each unit, and a unit's rows do not depend on other units.
              Values outside [0, grid_cells] are clamped and NULL is dropped in the query below; both act on single
              rows, so the claim needs nothing of them. Bounds, p and max_rows are public.

Proof sketch: 1. One row. Inserting a row gives x'[i] in [x[i-1], x[i]] and m' in {m, m + 1}; deleting one gives
              x'[i] in [x[i], x[i+1]] and m' in {m - 1, m}; replacing one gives x'[i] all in [x[i-1], x[i]] or all in
              [x[i], x[i+1]] and m' = m. All hold from n = 0 on, where m = 0. In each case the window of D' is inside
              a window of D that holds m and is one step longer: W_w(D') <= W_{w+1}(D), V_w(D') <= V_{w+1}(D), and
              x'[m'+t] lies in [x[m+t-1], x[m+t+1]] for every t.
              2. One unit is at most u such steps (replacing r rows by s <= u rows is max(r, s) steps), so
              W_{(k+1)u}(D') <= W_{(k+2)u}(D), the same for V, and |q(D) - q(D')| <= max(x[m+u] - x[m],
              x[m] - x[m-u]) <= W_u(D) <= S(D); by symmetry it is at most S(D') as well.
              3. S(D') <= e**b S(D), term by term with 2: term k of D' is at most e**b times term k + 1 of D. At
              k = exact because W <= V, at k = units because V <= grid_cells; the last term is the same constant.
              Cutting the sum at a public k therefore costs no privacy, only size.
              4. That is all that ``admissible_noise`` asks of q and S; it has the proof of the noise, and its numerics.
Units:        the window of k units has (k + 1) u rows: k units are k u steps of one row, and move what stands at a rank
              by at most k u places. Where rows are only added or removed the quantile itself moves by at most ceil(r
              u), r = greatest(p, 1 - p), as the rank moves along with p of them; a window still grows by u with each
              unit that leaves. So (k + r) u rows would do: a factor of e**(-b / 2) at most, and none at u = 1. It is
              left, for one proof of both relations.
Groups:       with keys each group is released by itself, of the rows in it. A unit has rows in at most G groups, or is
              replaced by one with rows in at most G others, so each gets epsilon / G, or epsilon / least(2 G, all). In
              a group where it has r rows and is replaced by s it is max(r, s) <= u steps by 2: nothing doubles there.
Numerics:     data, q and W are integers. exp(-b k) and one product are computed in doubles, by DuckDB or by numpy, with
              k b <= 128 a relative error below 2**-44 (argument 128 * 2**-53, exp, product), so S moves by at most
              e**b (1 + 2**-44) / (1 - 2**-44) <= e**beta with b = beta - 2**-40. exp(0) is 1, so S >= W_u exactly. S is
              then read as the exact fraction its double stands for. It is at least 2**-160 by its last term.
Deviations:   the sources take windows of k + 1 rows whatever the unit, and print Laplace noise as pure. Both are
              not private as printed. Their median of an even number of rows is an average, which no such window covers.
              A delta rarely helps: at epsilon = 1 and delta = 1e-8 the Laplace variant has alpha 0.5 and beta 0.028
              against 0.629 and 0.333, a scale 15 times larger on evenly spread data. It wins only where S is W_u under
              both and the far tail matters.
Source:       Nissim, Raskhodnikova, Smith, "Smooth Sensitivity and Sampling in Private Data Analysis", 2007.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt

import numpy as np

from duckdp.core.types import ATTO, DELTA_RULE, EPSILON_RULE, NANO, PICO, Loss
from duckdp.errors import ParameterError
from duckdp.mechanisms.admissible_noise import AdmissibleNoise, laplace, student

NO_INTERVAL_REASON = (
    "no interval: the noise scale of smooth sensitivity depends on the data, so an error bar would reveal it"
)

MAX_GRID_CELLS = 2**48  # cells of the grid: places are exact as DOUBLE
MAX_UNIT_ROWS = 100_000  # rows of one unit; the time of a release grows with them
MAX_DENOMINATOR = 10**6  # of the quantile as a fraction

_MAX_PAIRS = 2_000_000  # exact windows: pairs (k, j) that DuckDB compares
_MAX_STEPS = 2**18  # window of rows on each side of the rank
_NEGLIGIBLE = 64  # the last term stays below 1 / 64 grid step unless a cap is met
_BLOCKS = 1024  # the grid is first counted in this many blocks

_SQL = """\
WITH cells AS MATERIALIZED (
  SELECT system.main.least(system.main.greatest(x, 0), {top}) AS x FROM {relation} AS source(x) WHERE x IS NOT NULL),
size AS (SELECT system.main.count_star() AS n FROM cells),
rank AS MATERIALIZED (
  SELECT n, system.main.least(n, system.main.greatest(1, (n * {numerator} + {rounding}) // {denominator})) AS m
  FROM size),
blocks AS (
  SELECT block, c, system.main.sum(c) OVER (ORDER BY block) AS last
  FROM (SELECT x // {block} AS block, system.main.count_star() AS c FROM cells GROUP BY 1)),
near AS MATERIALIZED (
  SELECT system.main.min(block) * {block} AS low, system.main.max(block) * {block} + {block_end} AS high,
    system.main.min(last - c) AS skipped
  FROM blocks, rank WHERE last >= m - {steps} AND last - c < m + {steps}),
counts AS (
  SELECT x, system.main.count_star() AS c FROM cells, near WHERE x BETWEEN low AND high GROUP BY x),
runs AS (
  SELECT x, last - c AS before, last
  FROM (SELECT x, c, skipped + system.main.sum(c) OVER (ORDER BY x) AS last
        FROM counts, near)
  UNION ALL SELECT 0, m - {beyond}, 0 FROM rank
  UNION ALL SELECT {top}, n, m + {steps} FROM rank),
places AS MATERIALIZED (
  SELECT x, system.main.unnest(system.main.range(
    CAST(system.main.greatest(before + 1 - m, -{steps}) AS BIGINT),
    CAST(system.main.least(last - m, {steps}) + 1 AS BIGINT))) AS d
  FROM runs, rank),
above AS MATERIALIZED (SELECT d, x FROM places WHERE d >= 0),
below AS MATERIALIZED (SELECT -d AS d, x FROM places WHERE d <= 0),
terms AS (
  SELECT k, system.main.max(above.x - below.x) AS width
  FROM (SELECT system.main.unnest(system.main.range(0, {exact_units})) AS k) AS units
  JOIN (SELECT d, x FROM above WHERE d <= {exact_steps}) AS above ON above.d <= (k + 1) * {unit}
  JOIN below ON below.d = (k + 1) * {unit} - above.d GROUP BY k
  UNION ALL
  SELECT above.d // {unit} - 1, above.x - below.x FROM above JOIN below ON above.d = below.d
  WHERE above.d > {exact_steps} AND above.d % {unit} = 0
  UNION ALL SELECT {last_unit}, {top})
SELECT CAST((SELECT system.main.min(x) FROM above WHERE d = 0) AS BIGINT) AS m,
  CAST(system.main.max(width * system.main.exp(k * -{decay})) AS DOUBLE) AS s
FROM terms"""


@dataclass(frozen=True, kw_only=True)
class Window:
    """How far S looks, in privacy units; public. ``exact`` <= ``units``."""

    exact: int
    units: int


@dataclass(frozen=True, kw_only=True)
class SmoothQuantile:
    """One quantile of one column, released by smooth sensitivity; the module says how and why.

    Attributes:
        epsilon_nano: epsilon in 1e-9.
        delta_atto: delta in 1e-18; 0 is pure differential privacy.
        quantile: p in (0, 1), dimensionless; 1/2 is the median.
        max_rows: u, most rows of one privacy unit.
        grid_cells: number of public grid steps between the column's bounds; the data are integers in [0, grid_cells].
        groups: how many windows are read at once; they share what is looked at.
        chosen: a law for this epsilon and delta, or None: the usual one.

    >>> SmoothQuantile(epsilon_nano=10**9, max_rows=1, grid_cells=2**20).window
    Window(exact=55, units=55)
    """

    epsilon_nano: int
    delta_atto: int = 0
    quantile: Fraction = Fraction(1, 2)
    max_rows: int
    grid_cells: int
    groups: int = 1
    chosen: AdmissibleNoise | None = None

    def __post_init__(self) -> None:
        if not _is_int(self.epsilon_nano, 1_000, 100 * NANO):
            raise ParameterError("P101", "epsilon_nano", self.epsilon_nano, EPSILON_RULE)
        if not _is_int(self.delta_atto, 0, ATTO - 1):
            raise ParameterError("P102", "delta_atto", self.delta_atto, DELTA_RULE)
        p = self.quantile
        if not isinstance(p, Fraction) or not 0 < p < 1 or p.denominator > MAX_DENOMINATOR:
            raise ParameterError(
                "P107", "quantile", p, f"must be a Fraction in (0, 1) with a denominator of at most {MAX_DENOMINATOR}."
            )
        if not _is_int(self.max_rows, 1, MAX_UNIT_ROWS):
            raise ParameterError("P107", "max_rows", self.max_rows, f"must be an integer from 1 to {MAX_UNIT_ROWS}.")
        if not _is_int(self.grid_cells, 1, MAX_GRID_CELLS):
            raise ParameterError(
                "P107", "grid_cells", self.grid_cells, f"must be an integer from 1 to {MAX_GRID_CELLS}."
            )

    @property
    def loss(self) -> Loss:
        """What a release costs; (epsilon, delta) is delta-approximate epsilon**2 / 2 zCDP."""
        # Bun, Steinke, "Concentrated Differential Privacy", 2016: pure to zCDP, and its approximate form
        rho_pico = -(-(self.epsilon_nano**2) * PICO // (2 * NANO**2))
        return Loss(
            epsilon_nano=self.epsilon_nano,
            delta_atto=self.delta_atto,
            rho_pico=rho_pico,
            delta_zcdp_atto=self.delta_atto,
        )

    @cached_property
    def noise(self) -> AdmissibleNoise:
        """The law, with its constants."""
        if self.chosen is not None:
            return self.chosen
        epsilon = Fraction(self.epsilon_nano, NANO)
        if self.delta_atto:
            return laplace(epsilon, self.delta_atto)
        # on evenly spread data the noise grows as 1 / (alpha beta): 0.2095 epsilon**2 here, the best is 0.2101
        return student(epsilon, degrees=2, beta=epsilon / 3)

    @property
    def alpha(self) -> Fraction:
        """Shift allowed in units of S: the noise is S / alpha * Z; rounded down."""
        return self.noise.alpha

    @property
    def beta(self) -> Fraction:
        """Smoothness: S of neighbours differs by a factor of at most e**beta; rounded down."""
        return self.noise.beta

    @property
    def decay(self) -> float:
        """Rate b of the formula: beta less the margin for floating point, rounded down."""
        return self.noise.decay

    @cached_property
    def window(self) -> Window:
        """Where S stops looking; a function of public figures only."""
        u = self.max_rows
        negligible = math.ceil(math.log(_NEGLIGIBLE * self.grid_cells) / self.decay)
        units = max(1, min(negligible, _MAX_STEPS // (u * self.groups) - 1))
        # u (k+1)(k+2) / 2 pairs for windows up to k
        exact = max(0, (isqrt(1 + 8 * _MAX_PAIRS // (u * self.groups)) - 3) // 2)
        return Window(exact=min(exact, units), units=units)

    def sql(self, relation: str) -> str:
        """Text of one SELECT that returns one row (m BIGINT, s DOUBLE): x[m] and S, in grid units.

        The relation is read once. Only rows near the rank are put in order: counts per block of the grid tell which
        blocks hold them, counts per value inside these say where. Positions beyond the data hold 0 and grid_cells. The
        row is total: an empty relation gives m = 0 and s = grid_cells.

        Functions are qualified; operators cannot be, so run it where no macro shadows them.

        Args:
            relation: parenthesised subquery with one column, BIGINT grid values; printed by our own emitter.

        Returns:
            DuckDB SQL.
        """
        p, u, window = self.quantile, self.max_rows, self.window
        steps, block = (window.units + 1) * u, self.grid_cells // _BLOCKS + 1
        return _SQL.format(
            relation=relation,
            top=self.grid_cells,
            numerator=p.numerator,
            denominator=p.denominator,
            rounding=p.denominator - 1,
            block=block,
            block_end=block - 1,
            steps=steps,
            beyond=steps + 1,
            unit=u,
            exact_steps=(window.exact + 1) * u,
            exact_units=window.exact + 1,
            last_unit=window.units + 1,
            decay=f"{self.decay:.17e}",
        )

    def bound(self, runs: Sequence[tuple[int, int, int]], rows: int) -> tuple[int, float]:
        """x[m] and S as :meth:`sql` gives them, of values that were read near the rank.

        Args:
            runs: (cell, rows in cells below it, rows in it), ascending; all that hold a rank in m - steps .. m + steps.
                Exact and private, as what is returned.
            rows: n.
        """
        p, u, window, top = self.quantile, self.max_rows, self.window, self.grid_cells
        m, steps = min(rows, max(1, -(-p.numerator * rows // p.denominator))), (window.units + 1) * u
        place = np.arange(m - steps, m + steps + 1)
        cells = np.array([run[0] for run in runs] or [0], dtype=np.int64)
        last = np.array([run[1] + run[2] for run in runs] or [0], dtype=np.int64)
        held = np.minimum(np.maximum(cells[np.minimum(np.searchsorted(last, place), len(last) - 1)], 0), top)
        x = np.where(place < 1, 0, np.where(place > rows, top, held))
        above, below = x[steps:], x[steps::-1]
        k = np.arange(window.units + 2)
        width = np.empty(len(k), dtype=np.int64)
        for i in range(window.exact + 1):
            w = (i + 1) * u
            width[i] = (above[: w + 1] - below[w::-1]).max()
        far = (k[window.exact + 1 : -1] + 1) * u
        width[window.exact + 1 : -1] = above[far] - below[far]
        width[-1] = top
        return int(above[0]), float((width * np.exp(-self.decay * k)).max())

    def release(self, m: int, s: float) -> int:
        """Add the noise: a grid integer in [0, grid_cells], which means what the data's own mean; see ``noise``.

        Args:
            m: exact quantile, grid units. Private: must not be logged, stored or raised.
            s: S, grid units. Private as well: so there is no error bar, see NO_INTERVAL_REASON.

        Raises:
            InternalError: m or s is not of the type that :meth:`sql` returns.
        """
        return self.noise.add(m, s, self.grid_cells)


def _is_int(value: object, lowest: int, highest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest

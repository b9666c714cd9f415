"""Counts of rows in public bins of a column, in public groups, at one level of bins or several, as a task.

Sensitivity (u = rows of a unit that count per group, g = groups of a unit that count; unit = row: u = g = 1), in units
of
the grid S, of the counts of one level, whatever the number of bins:

    ADD_REMOVE   l1 = g u S, l2^2 = g (u S)^2
    REPLACE      l1 = 2 S, l2^2 = 2 S^2

Proof sketch: a row is in one bin of a group, or in none (no value). A unit with w > u rows adds c u / w to a bin that c
              of them are in, floored on the grid, so its bins have entries >= 0 that sum to at most u S: l1 and l2
              norms are at most u S. It is in at most g groups, where norms add and squares do. Blocks of bins add up
              entries >= 0 within a level, which leaves l1 as it is, and l2 at most l1. A replaced row leaves one bin
              and enters another. Levels share the charge (mechanisms/additive.py).
Bins:         from ``first`` on, each ``width`` wide; the first and the last take what lies outside, which clamping to
              the column's bounds leaves none of. Where a row at an edge falls is decided by comparison with the edge.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Table, dump_table
from duckdp.compiler.emit import key_codes, print_valued
from duckdp.compiler.expression import Expr, show
from duckdp.compiler.plan import digest_domain
from duckdp.compiler.printing import UNIT, Parameters, number
from duckdp.compiler.query import Query, group_count
from duckdp.core.errorbars import Noise
from duckdp.core.nestedbins import blocks
from duckdp.core.reads import AddByKey, PrivateQuery
from duckdp.core.task import OneRead
from duckdp.core.types import Loss, Neighbours, Sensitivity
from duckdp.errors import InternalError
from duckdp.mechanisms.additive import Calibration, add_noise, best_family, calibrate

Floats = NDArray[np.float64]
UNIT_BITS = 20  # of the grid where units with many rows weigh less; rows count 1 without


@dataclass(frozen=True, kw_only=True)
class Bins:
    """Bins of equal width: [first + i width, first + (i + 1) width), the last with its end.

    Attributes:
        first: lower edge.
        width: above 0.
        count: how many.
    """

    first: Fraction
    width: Fraction
    count: int

    @property
    def edges(self) -> list[float]:
        """Where bins begin, and where the last one ends: float[count + 1], ascending."""
        return [float(self.first + i * self.width) for i in range(self.count + 1)]


@dataclass(frozen=True, kw_only=True)
class BinCounts(OneRead):
    """Planned counts of bins (core/task.py).

    Attributes:
        asked: table, WHERE and keys, each with a domain.
        value: number of rows that is counted by bin.
        bins: public.
        sizes: of the blocks of each level, the first 1.
        epsilon_nano: the charge, in 1e-9.
        delta_atto: what it may cost too, in 1e-18.
        neighbours: relation of the data set.
    """

    asked: Query
    value: Expr
    bins: Bins
    sizes: tuple[int, ...]
    epsilon_nano: int
    delta_atto: int
    neighbours: Neighbours

    @property
    def table(self) -> Table:
        """The protected table that is read."""
        return self.asked.table

    @property
    def bits(self) -> int:
        """How many fractional bits counts have on their grid."""
        return 0 if self.table.unit_key is None else UNIT_BITS

    @property
    def rounding(self) -> int:
        """Grid units by which the counts of a group together may be too low: what weighs less is rounded down."""
        return 0 if self.bits == 0 else self.table.row_cap

    @property
    def count(self) -> int:
        """How many groups there are: what limits are about, before any is listed."""
        return group_count(self.asked.keys)

    @cached_property
    def groups(self) -> list[tuple[Any, ...]]:
        """Keys of each group, as they cross; one without keys."""
        return list(product(*map(key_codes, self.asked.keys)))

    @cached_property
    def calibration(self) -> Calibration:
        """Noise of each level, and the cost."""
        table, step = self.table, 2**self.bits
        if self.neighbours is Neighbours.REPLACE:
            level = Sensitivity(l1=2 * step, l2_squared=2 * step**2, linf=step)
        else:
            rows = step if table.unit_key is None else table.max_rows * step
            groups = 1 if table.unit_key is None else min(table.max_groups, self.count)
            level = Sensitivity(l1=groups * rows, l2_squared=groups * rows**2, linf=rows)
        levels = [level] * len(self.sizes)
        epsilon, delta = self.epsilon_nano, self.delta_atto
        family = best_family(levels, epsilon_nano=epsilon, delta_atto=delta)
        delta = 0 if family == "laplace" else delta
        return calibrate(levels, epsilon_nano=epsilon, delta_atto=delta, threshold_delta_atto=0, family=family)

    @property
    def noises(self) -> tuple[Noise, ...]:
        """Noise of each level's counts, grid units."""
        return self.calibration.noises

    @property
    def canonical(self) -> str:
        """The question's identity: equal for equal questions, and for no others."""
        query, bins = self.asked, self.bins
        keys = [[show(k.expr), digest_domain(k.domain), repr(k.other)] for k in query.keys]
        rows = [dump_table(query.table), show(query.where), keys, show(self.value)]
        terms: list[object] = [self.epsilon_nano, self.delta_atto, self.neighbours.value]
        terms += [self.calibration.family, self.bits]  # as what a stored release is read
        return json.dumps(["bin counts", *rows, str(bins.first), str(bins.width), bins.count, self.sizes, *terms])

    @property
    def loss(self) -> Loss:
        """What all levels cost together."""
        return self.calibration.loss

    @property
    def mechanism(self) -> str:
        """The noise's name in the ledger."""
        return self.calibration.family

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters of the release, for the ledger."""
        return {
            "value": show(self.value),
            "where": show(self.asked.where),
            "keys": [show(k.expr) for k in self.asked.keys],
            "bins": self.bins.count,
            "levels": list(self.sizes),
            "grid_bits": self.bits,
        }

    def query(self, salt: int) -> PrivateQuery:
        """The private read: (keys..., bin, count), at most one row for each bin of each group."""
        parameters = Parameters()
        keys, rows = print_valued(self.asked, {"x": self.value}, parameters)
        table, bins = self.table, self.bins
        own = [*([] if table.unit_key is None else [UNIT]), *keys]
        edges = f"CAST({parameters.bind(bins.edges)} AS DOUBLE[])"
        last = bins.count - 1
        place = f"(x - {number(float(bins.first))}) / {number(float(bins.width))}"
        near = f"CAST(system.main.least(system.main.greatest(system.main.floor({place}), 0e0), {last}e0) AS BIGINT)"
        body = f"(SELECT {', '.join([*own, 'x', f'{near} AS near'])} FROM {rows} WHERE x IS NOT NULL) AS placed"
        low, high = (f"system.main.list_extract({edges}, near + {i})" for i in (1, 2))
        exact = f"CASE WHEN x < {low} AND near > 0 THEN near - 1 WHEN x >= {high} AND near < {last} THEN near + 1"
        body = f"(SELECT {', '.join([*own, f'({exact} ELSE near END) AS bin'])} FROM {body}) AS binned"
        cells = ", ".join([*keys, "bin"])
        if table.unit_key is None:
            sql = f"SELECT {cells}, system.main.count_star() FROM {body} GROUP BY {cells}"
        else:
            sql = f"SELECT {cells}, system.main.sum(n) FROM {self._bounded(body, keys, salt)} GROUP BY {cells}"
        parts = AddByKey(keys=len(keys) + 1, ordered=False)
        most = self.count * bins.count
        return PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=most, parts=parts)

    def release(self, rows: Iterable[tuple[Any, ...]]) -> str:
        """All levels' counts of every group with their noise. ``rows``: of :meth:`query`, exact and private."""
        exact = np.zeros((self.count, self.bins.count), dtype=object)
        place = {group: i for i, group in enumerate(self.groups)}
        for *keys, at, rows_ in rows:
            if tuple(keys) in place and 0 <= int(at) < self.bins.count:
                exact[place[tuple(keys)], int(at)] += int(rows_)
        counted = exact @ blocks(self.bins.count, self.sizes).astype(object).T
        noisy: list[list[int]] = [[] for _ in self.groups]
        start = 0
        for size, noise in zip(self.sizes, self.noises, strict=True):
            many = -(-self.bins.count // size)
            level = counted[:, start : start + many]
            start += many
            drawn = iter(add_noise([int(n) for n in level.ravel()], noise))
            for group in noisy:
                group += [next(drawn) for _ in range(many)]
        return json.dumps({"groups": noisy}, separators=(",", ":"))

    def read(self, payload: str) -> Floats:
        """Noisy counts of all blocks of each group, in rows: float[groups, blocks], from the stored payload."""
        found = json.loads(payload)["groups"]
        if len(found) != self.count:
            raise InternalError("other groups were released")
        return np.asarray(np.array(found, dtype=np.float64) / 2.0**self.bits)

    def _bounded(self, body: str, keys: list[str], salt: int) -> str:
        """Of each unit, group and bin its rows, as of max_rows where it has more; of at most max_groups groups."""
        table, own = self.table, ", ".join([UNIT, *keys])
        step, most = 2**self.bits, table.max_rows
        counted = f"(SELECT {own}, bin, system.main.count_star() AS c FROM {body} GROUP BY {own}, bin) AS counted"
        whole = f"system.main.sum(c) OVER (PARTITION BY {own})"
        draw = f"system.main.hash(system.main.hash({own}, CAST({salt} AS UBIGINT)))"
        rank = f"system.main.dense_rank() OVER (PARTITION BY {UNIT} ORDER BY {', '.join(['draw', *keys])})"
        known = f"(SELECT {own}, bin, c, {whole} AS w, {draw} AS draw FROM {counted}) AS known"
        ranked = f"(SELECT {own}, bin, c, w, {rank} AS place FROM {known}) AS ranked"
        scaled = f"c * CAST({step} AS HUGEINT) * {most} // system.main.greatest(w, {most}) AS n"
        kept = f"{ranked} WHERE place <= {table.max_groups}"
        return f"(SELECT {', '.join([*keys, 'bin', scaled])} FROM {kept}) AS bounded"

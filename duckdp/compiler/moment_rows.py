"""What moments read of private rows: whole numbers per group, the same that ``mechanisms/second_moments`` bounds.

The layers, innermost first (row-level privacy skips 3)::

    1 valued     keys and arguments of each row that counts, by WHERE and by domains (emit.print_valued)
    2 gridded    rows where every argument has a value; each argument clamped to its range, u in [0, 1], and from that
                 the released numbers of the row, on the grid
    3 bounded    per unit and group the sums, scaled to max_rows rows where it has more; of a unit max_groups groups
    4            sums per group

Everything a unit adds depends on that unit's rows and public figures alone, and none of it can fail: arguments are
DOUBLE, never NaN, and NaN would be clamped; sums are of 128 bits (2^40 rows times 2^40 times max_rows).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from duckdp.compiler.emit import key_codes, print_kept, print_valued
from duckdp.compiler.expression import Expr
from duckdp.compiler.printing import UNIT, Parameters, number
from duckdp.compiler.query import Query, group_count
from duckdp.core.interval import Interval
from duckdp.core.reads import Add, AddByKey, PrivateQuery
from duckdp.mechanisms.second_moments import SecondMoments


@dataclass(frozen=True, kw_only=True)
class MomentRows:
    """Rows of a table by public groups, with the arguments of moments.

    Attributes:
        query: table, WHERE and keys, each with a domain.
        arguments: numbers of rows.
        spans: of the arguments, finite and not empty.
        most: the one argument is how many rows a unit has, at most so many; None: arguments are of rows.
    """

    query: Query
    arguments: tuple[Expr, ...]
    spans: tuple[Interval, ...]
    most: int | None = None

    @property
    def count(self) -> int:
        """How many groups there are: what limits are about, before any is listed."""
        return group_count(self.query.keys)

    @property
    def groups(self) -> list[tuple[Any, ...]]:
        """Keys of each group, as they cross; one without keys."""
        return list(product(*map(key_codes, self.query.keys)))

    def read(self, way: SecondMoments, salt: int) -> PrivateQuery:
        """The private read: (keys..., sums...), at most one row for each group."""
        parameters = Parameters()
        names = [f"x{i}" for i in range(len(self.spans))]
        keys, rows = print_valued(self.query, dict(zip(names, self.arguments, strict=False)), parameters)
        table = self.query.table
        own = [*([] if table.unit_key is None else [UNIT]), *keys]
        if self.most is not None:  # a row for each unit and group
            count = f"CAST(system.main.least(system.main.count_star(), {self.most}) AS DOUBLE) AS x0"
            rows = f"(SELECT {', '.join([*own, count])} FROM {rows} GROUP BY {', '.join(own)}) AS counted"
        present = " AND ".join(f"{name} IS NOT NULL" for name in names)
        items = [f"{_factor(way, i, name, span)}" for i, (name, span) in enumerate(zip(names, self.spans, strict=True))]
        body = f"(SELECT {', '.join([*own, *items])} FROM {rows} WHERE {present}) AS placed"
        sums = [f"s{j}" for j in range(len(way.released))]
        values = ", ".join(f"{_grid(way, j)} AS {name}" for j, name in enumerate(sums))
        body = f"(SELECT {', '.join([*own, values])} FROM {body}) AS gridded"
        if table.unit_key is not None:
            body = self._bounded(body, keys, sums, salt)
        tail = f" GROUP BY {', '.join(keys)}" if keys else ""
        totals = [f"system.main.sum({name})" for name in sums]
        return PrivateQuery(
            sql=f"SELECT {', '.join([*keys, *totals])} FROM {body}{tail}",
            parameters=tuple(parameters.values),
            rows=self.count,
            parts=AddByKey(keys=len(keys), ordered=False) if keys else Add(),
        )

    def exact(self, rows: Iterable[tuple[Any, ...]], size: int) -> list[list[int]]:
        """Sums of every group, in the order of the product of the keys' domains; private."""
        width = len(self.query.keys)
        found = {tuple(row[:width]): [int(value or 0) for value in row[width:]] for row in rows}
        return [found.get(group, [0] * size) for group in self.groups]

    def _bounded(self, body: str, keys: Sequence[str], sums: Sequence[str], salt: int) -> str:
        """Of each unit and group the sums, as of max_rows rows where it has more; of at most max_groups groups."""
        table, most = self.query.table, self.query.table.max_rows
        own = ", ".join([UNIT, *keys])
        totals = ", ".join(f"system.main.sum({name}) AS {name}" for name in sums)
        units = f"(SELECT {own}, system.main.count_star() AS n, {totals} FROM {body} GROUP BY {own}) AS units"
        scaled = ", ".join(f"(CASE WHEN n > {most} THEN {s} * {most} // n ELSE {s} END) AS {s}" for s in sums)
        bounded = f"(SELECT {own}, {scaled} FROM {units}) AS bounded"
        return bounded if self.count <= table.max_groups else print_kept(bounded, keys, salt, table.max_groups)


def _factor(way: SecondMoments, i: int, name: str, span: Interval) -> str:
    """An argument's clamped place: as v in [-1, 1] (products), or its Bernstein polynomials (cells)."""
    place = f"(({name}) - {number(span.lower)}) / {number(span.upper - span.lower)}"
    u = f"system.main.least(system.main.greatest({place}, 0e0), 1e0)"  # of NaN: 1
    if way.shape == "products":
        return f"2e0 * {u} - 1e0 AS v{i}"
    if way.degrees[i] == 1:
        return f"1e0 - {u} AS w{i}_0, {u} AS w{i}_1"
    return f"(1e0 - {u}) * (1e0 - {u}) AS w{i}_0, 2e0 * {u} * (1e0 - {u}) AS w{i}_1, {u} * {u} AS w{i}_2"


def _grid(way: SecondMoments, j: int) -> str:
    """A released number of one row on the grid: a BIGINT of at most 2^bits."""
    powers = way.released[j]
    if way.shape == "products":
        factors = [f"v{i}" for i, power in enumerate(powers) for _ in range(power)]
    else:
        factors = [f"w{i}_{k}" for i, k in enumerate(powers)]
    value = " * ".join([*factors, number(2.0**way.bits)])
    return f"CAST(system.main.floor({value} + 0.5e0) AS BIGINT)"

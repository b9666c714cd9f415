"""Private reads of a table's rows in unit columns: exact sums, and rows that stream past what adds them up.

Privacy: reads alone; whatever leaves is noised by who asks. With a unit_key one row of each unit counts, by
``print_chosen`` a function of the multiset of that unit's own rows, each of them with the same chance: adding or
removing a unit adds or removes one row. The row that counts is the same for every read: it is chosen before anything is
made of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from duckdp.catalog.table import Table
from duckdp.compiler.printing import Parameters, print_chosen, print_rows, quote
from duckdp.core.reads import Add, Gather, PrivateQuery, Read, one_row
from duckdp.synthetic.unit.buy.derived_sql import print_derived
from duckdp.synthetic.unit.buy.sums_sql import print_sums
from duckdp.synthetic.unit.buy.unit_sql import print_items
from duckdp.synthetic.unit.features import Moments
from duckdp.synthetic.unit.layout import UnitColumns

MOST_SUMS = 1500  # sums of one statement; DuckDB takes minutes to plan more, so they are added up from streamed rows
FEW_ROWS = 200_000  # rows that stream past as fast as DuckDB plans one sum,
FEW_SUMS = 300  # so that of few rows fewer sums than these are computed in SQL
_CHUNK = 4 * 10**6  # floats of a streamed block: 32 MB


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitReader:
    """Private reads of one release.

    Attributes:
        table: the protected table.
        units: its columns as unit columns.
        expected_rows: public guess of the number of rows; it decides how sums are computed, never what they are.
        salt: keys the hashes that choose the row of a unit.
        read: runs a read that has been paid for.
    """

    table: Table
    units: UnitColumns
    expected_rows: int
    salt: int
    read: Read = field(repr=False)

    def sums(self, features: Moments, bits: int) -> tuple[int, Sequence[int]]:
        """The number of rows, and the exact integer sums of R functions: private."""
        few = self.expected_rows <= FEW_ROWS
        if features.count > (FEW_SUMS if few else MOST_SUMS):
            return self._streamed(features, bits)
        parameters = Parameters()
        sql = print_sums(features, self.relation(parameters), self.units.names, bits)
        counted = self.integers(sql, parameters, features.count)
        return counted[0], counted[1:]

    def integers(self, sql: str, parameters: Parameters, count: int) -> list[int]:
        """The number of rows, then ``count`` integers of a SELECT of one row: private."""
        return [int(v) for v in one_row(self.read(counted_query(sql, parameters)), count + 1)]

    def batches(self, parameters: Parameters, items: Mapping[str, str] | None = None) -> Iterable[Sequence[Any]]:
        """Every row that counts, in batches of arrays, one per unit column, or per item given as SQL by its name."""
        sql = f"SELECT s.* FROM {self.relation(parameters, items)} AS s"
        query = PrivateQuery(sql=sql, parameters=tuple(parameters.values), rows=None, arrays=True, parts=Gather())
        return self.read(query)

    def relation(self, parameters: Parameters, items: Mapping[str, str] | None = None) -> str:
        """Unit columns of every row that counts, or other items by name, as a parenthesised SELECT."""
        structure = self.units.structure
        columns = self.units.columns if structure is None else tuple(structure.by_name.values())
        rows = print_rows(self.table, columns, parameters, unit=True)
        if self.table.unit_key is not None:
            rows = print_chosen(rows, [quote(c.name) for c in columns], self.salt, 1)
        if structure is not None:
            rows = print_derived(structure, rows)
        listed = ", ".join(f"{sql} AS {name}" for name, sql in (items or {}).items())
        return f"(SELECT {listed or print_items(self.units, parameters)} FROM {rows} AS r)"

    def _streamed(self, features: Moments, bits: int) -> tuple[int, Sequence[int]]:
        """The same integers from rows that cross in batches: one statement of so many sums takes DuckDB minutes."""
        count, total, step = 0, np.zeros(features.count, dtype=object), max(1, _CHUNK // features.count)
        for batch in self.batches(Parameters()):
            unit = np.stack(batch, axis=1)
            count += len(unit)
            for start in range(0, len(unit), step):
                values = features.rows(unit[start : start + step])
                total += np.floor(values * 2.0**bits + 0.5).astype(np.int64).sum(axis=0)
        return count, [int(v) for v in total]


def counted_query(sql: str, parameters: Parameters) -> PrivateQuery:
    """A read of one row: the number of rows, then what a SELECT gives."""
    counted = "SELECT CAST(system.main.count_star() AS HUGEINT), " + sql.removeprefix("SELECT ")
    return PrivateQuery(sql=counted, parameters=tuple(parameters.values), rows=1, parts=Add())

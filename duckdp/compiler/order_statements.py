"""Statements that find ranks and counts among cells, block by block of the grid: what order_rows.py fills in.

They read two relations: ``cells`` (h, l), a row for each row that counts, with the block of its cell, of all groups'
blocks one after the other, and the cell's place in it; and ``blocks`` (h, c), how many rows each block has. Rows
without a value have NULLs, and a block of NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

from duckdp.compiler.bound_values import Parameters

BLOCKS = "SELECT h, system.main.count_star() AS c FROM cells GROUP BY h"

WINDOWS = """\
ends0 AS MATERIALIZED (
  SELECT h, CAST(h AS BIGINT) // {high} AS g, CAST(h AS BIGINT) % {high} AS b, c,
    system.main.sum(c) OVER (PARTITION BY CAST(h AS BIGINT) // {high} ORDER BY h) AS last
  FROM blocks WHERE h IS NOT NULL),
sizes AS (SELECT g, system.main.max(last) AS n FROM ends0 GROUP BY g),
{marks}
parts AS (
  SELECT p.*, {below} AS below, {upto} AS upto
  FROM (SELECT {columns}) AS p LEFT JOIN sizes ON sizes.g = p.g{joins}),
aims AS MATERIALIZED (
  SELECT p.*, (CASE WHEN inward = 0 THEN below + (a * (upto - below)) // d
    WHEN a = 0 THEN below + system.main.least(inward, (upto - below) // 2)
    ELSE upto - system.main.least(inward, (upto - below) // 2) END) AS middle FROM parts AS p),
ranks AS MATERIALIZED (
  SELECT part, g, below, upto, system.main.greatest(below, middle - reach - 1) AS first,
    system.main.least(upto, middle + reach + 2) AS final FROM aims),
{levels}
SELECT -1 - part, below, upto, 0 FROM ranks
UNION ALL
SELECT DISTINCT e.g, e.b, e.last - e.c, e.c FROM {deepest} AS e JOIN ranks AS r
ON e.g = r.g AND e.last > r.first AND e.last - e.c < r.final"""

NOTHING, EVERYTHING = -1, -2  # marks of cuts before and after all rows
RANK = f"(CASE WHEN {{mark}} = {EVERYTHING} THEN COALESCE(n, 0) WHEN {{mark}} >= 0 THEN {{known}} ELSE 0 END)"
JOINED = " LEFT JOIN marks AS lower ON lower.mark = p.m1 LEFT JOIN marks AS upper ON upper.mark = p.m2"

FIRST = """\
near0 AS MATERIALIZED (
  SELECT DISTINCT e.h, e.g, e.b, e.last - e.c AS before FROM ends0 AS e JOIN ranks AS r
  ON e.g = r.g AND e.last > r.first AND e.last - e.c < r.final),
kept1 AS MATERIALIZED (
  SELECT n.g, (n.b << {coarser}) + CAST(k.l AS BIGINT) AS x, n.b AS parent, n.before
  FROM cells AS k JOIN near0 AS n ON k.h = n.h),"""

NEXT = """\
near{i} AS MATERIALIZED (
  SELECT DISTINCT e.g, e.b, e.last - e.c AS before FROM ends{i} AS e JOIN ranks AS r
  ON e.g = r.g AND e.last > r.first AND e.last - e.c < r.final),
kept{j} AS MATERIALIZED (
  SELECT k.g, k.x, n.b AS parent, n.before
  FROM kept{i} AS k JOIN near{i} AS n ON k.g = n.g AND k.x >> {coarser} = n.b),"""

LEVEL = """\
blocks{j} AS (
  SELECT g, parent, x >> {block} AS b, system.main.any_value(before) AS before, system.main.count_star() AS c
  FROM kept{j} GROUP BY ALL),
ends{j} AS MATERIALIZED (
  SELECT g, b, c, before + system.main.sum(c) OVER (PARTITION BY g, parent ORDER BY b) AS last FROM blocks{j}),"""

COUNTED = """\
counted AS MATERIALIZED (
  SELECT bucket, system.main.sum(c) AS c FROM (
    SELECT {bucket} AS bucket, system.main.count_star() AS c
    FROM (SELECT (CAST(h AS BIGINT) << {low}) + CAST(l AS BIGINT) AS y FROM cells WHERE {inside}) AS cells GROUP BY ALL
    UNION ALL
    SELECT {bucket}, c FROM (
      SELECT CAST(h AS BIGINT) << {low} AS y, c FROM blocks WHERE h IS NOT NULL AND NOT ({inside})) AS blocks
  ) AS parts GROUP BY bucket)"""

MARKS = """\
{counted},
cells_at AS MATERIALIZED (
  SELECT m.mark, COALESCE(system.main.sum(c) FILTER (bucket >= m.base AND bucket < m.here), 0) AS before,
    COALESCE(system.main.sum(c) FILTER (bucket = m.here), 0) AS rows
  FROM (SELECT {marked}) AS m CROSS JOIN (SELECT * FROM counted UNION ALL SELECT -1, 0) AS counted GROUP BY m.mark),
marks AS MATERIALIZED (
  SELECT t.mark, system.main.any_value(before)
    + system.main.sum(system.main.greatest(0, (rows - remainder + step - 1) // step)) AS below
  FROM (SELECT {terms}) AS t JOIN cells_at ON cells_at.mark = t.mark GROUP BY t.mark),"""


def unnested(listed: dict[str, list[int]], parameters: Parameters) -> str:
    """Columns of public figures, side by side."""
    return ", ".join(
        f"system.main.unnest(CAST({parameters.bind(values)} AS BIGINT[])) AS {name}" for name, values in listed.items()
    )


def narrow(count: int) -> str:
    """A type of whole numbers below ``count``: signed ones of four bytes are the quickest to make of eight."""
    return "INTEGER" if count <= 2**31 else "BIGINT"


def least(count: int) -> str:
    """The least type of whole numbers below ``count`` that keys have."""
    return "USMALLINT" if count <= 2**16 else narrow(count)


def bucket(cuts: Sequence[int]) -> str:
    """How many of the cuts, ascending, are at or below y, group * width + cell: a search that is written out."""

    def search(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        return f"CASE WHEN y < {cuts[middle]} THEN {search(low, middle)} ELSE {search(middle + 1, high)} END"

    return f"({search(0, len(cuts))})"

"""How rows in Spark are cut into parts that hold their units whole, and what is known of a read before it is made.

A unit's part is the remainder of the hash of its key: the raw key, an integer or a text, as Spark hashes it, which
tells two keys apart or does not, but never parts two equal ones. Each row carries the number of the part in which it
belongs, and the worker compares it with the part that it is in, whatever Spark did meanwhile (:mod:`part_work`).

    unit is a row            the rows as they are stored; nothing is moved
    unit_key                 one shuffle by the key
    several tables           one shuffle of all of them by their keys
    link                     the key of the row that is named comes by a join, before that shuffle
    public tables            all of their rows go to each part
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from duckdp.catalog.table import Table
from duckdp.compiler.printing import quote
from duckdp.errors import QueryError
from duckdp.vault import exhausted, part_work
from duckdp.vault.part_work import PLACE, TAG

ROWS_OF_A_PART = 1_000_000  # about, by what is declared; measured: docs/scale.md
MOST_PARTS = 10_000  # of a read: Spark keeps a task of each in mind, and the curator adds up their cells
KEY = "__key"
Place = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class Owner:
    """How rows of a relation come by their unit.

    Attributes:
        key: column of the unit's key, or of the key that names a row of ``parent``; None: a row is a unit.
        text: the unit's key is text, else an integer.
        null_units: values that name nobody.
        parent: relation that the key names, with that relation's column, and how its rows come by their unit.
    """

    key: str | None
    text: bool = False
    null_units: tuple[Any, ...] = ()
    parent: tuple[Place, str, Owner] | None = field(default=None)


def owner_of(table: Table) -> Owner:
    """How rows of a declared table come by their unit."""
    text = table.unit_type == "VARCHAR"
    if table.link is None:
        return Owner(key=table.unit_key, text=text, null_units=table.null_units)
    link = table.link
    return Owner(key=link.column, text=text, parent=(link.parent.relation, link.key, owner_of(link.parent)))


def owners_of(tables: Iterable[Table]) -> dict[Place, Owner]:
    """How rows of the protected relations that are read come by their unit, those that are linked to included.

    Raises:
        QueryError: Q405, one relation is cut in two ways, or rows that are units meet others.
    """
    found: dict[Place, Owner] = {}
    for table in (base for one in tables for base in one.bases if base.public is None):
        owner: Owner | None = owner_of(table)
        place = table.relation
        while owner is not None:
            if found.setdefault(place, owner) != owner:
                raise refused(f'"{place[2]}" has its units by two different keys here')
            place, _, owner = owner.parent or (place, "", None)
    if len({owner.text for owner in found.values()}) > 1 or (
        len(found) > 1 and any(owner.key is None for owner in found.values())
    ):
        raise refused("the tables have units of different kinds")
    return found


def told(tables: Sequence[Table], least: int) -> list[str]:
    """How reads of tables run, line by line, for whoever asks before paying; public figures alone.

    Args:
        tables: that are read.
        least: parts that there are at least.
    """
    try:
        owners = owners_of(tables)
    except QueryError as error:
        return [f"  engine: Apache Spark; refused: {error}"]
    lines = ["  engine: Apache Spark, rows in the parts that their files give; DuckDB in each task, cells add up"]
    if any(owner.key is not None for owner in owners.values()):
        count = part_count(tables, least)
        lines = [f"  engine: Apache Spark, {count} parts by a hash of the unit's key; DuckDB in each, cells add up"]
    lines += [
        f"    {place[2]}: its unit's key comes by a join with {owner.parent[0][2]}"
        for place, owner in owners.items()
        if owner.parent is not None
    ]
    public = {base.relation[2]: None for one in tables for base in one.bases if base.public is not None}
    return lines + [f"    {name}: public, all of its rows go to each part" for name in public]


def refused(why: str, way: str = "Ask about one table.") -> QueryError:
    """The refusal of what this engine cannot read; nothing was charged."""
    return QueryError("Q405", f"the rows are on several machines, and {why}. {way}")


def named_in(sql: str, relation: Place) -> bool:
    """Whether our SQL reads a relation: it is printed in one way, and texts are bound."""
    printed = re.escape(".".join(quote(part) for part in relation))
    return re.search(f'{printed}(?!")', sql) is not None  # a quote that goes on would be of a longer name


def part_count(tables: Iterable[Table], least: int) -> int:
    """How many parts, by public figures."""
    rows = sum(base.row_cap for one in tables for base in one.bases if base.public is None)
    return min(max(least, ceil(rows / ROWS_OF_A_PART)), MOST_PARTS)


def name_sent(place: int, column: int) -> str:
    """What a column of the relation at a place is called on its way."""
    return f"c{place}_{column}"


def travelling() -> None:
    """Let what workers run travel as it is, so that they need DuckDB and PyArrow, and nothing of ours."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(part_work)
    cloudpickle.register_pickle_by_value(exhausted)


def cut(
    frames: Mapping[Place, Any],
    wanted: Sequence[tuple[Place, Sequence[str]]],
    owners: Mapping[Place, Owner],
    count: int,
) -> Any:
    """Rows of relations in parts that hold their units whole.

    Args:
        frames: data frames of Spark.
        wanted: relations, and columns of each; at least one of each.
        owners: how their rows come by their units.
        count: of parts; unused where a row is a unit.

    Returns:
        A data frame with their columns (:func:`name_sent`). Where units have keys, its rows also have the number of
        their part; of several relations, the place of theirs.
    """
    from pyspark.sql import functions as f

    if owners[wanted[0][0]].key is None:
        ((relation, columns),) = wanted
        frame = frames[relation]
        return frame.select(*[column_of(frame, c).alias(name_sent(0, j)) for j, c in enumerate(columns)])
    together: Any = None
    for i, (relation, columns) in enumerate(wanted):
        frame, key = _keyed(frames, relation, owners[relation])
        items = [column_of(frame, c).alias(name_sent(i, j)) for j, c in enumerate(columns)]
        tagged = [f.lit(i).cast("tinyint").alias(TAG)] if len(wanted) > 1 else []
        rows = frame.select(*tagged, key.alias(KEY), *items)
        together = rows if together is None else together.unionByName(rows, allowMissingColumns=True)
    moved = together.repartition(count, together[KEY])
    place = f.pmod(f.hash(moved[KEY]), f.lit(count)).alias(PLACE)
    return moved.select(place, *[moved[c] for c in moved.columns if c != KEY])


def column_of(frame: Any, name: str) -> Any:
    """A column of a data frame, whatever its name."""
    return frame[f"`{name.replace('`', '``')}`"]


def _keyed(frames: Mapping[Place, Any], relation: Place, owner: Owner) -> tuple[Any, Any]:
    """Rows with their unit, in a form that is equal for equal keys: 64 bits, or the text."""
    frame = frames[relation]
    assert owner.key is not None
    own = column_of(frame, owner.key)
    if owner.parent is None:
        return frame, own if owner.text else own.cast("bigint")
    from pyspark.sql import functions as f

    place, column, above = owner.parent
    parent, unit = _keyed(frames, place, above)
    rows = parent.select(column_of(parent, column).alias("__named"), unit.alias("__unit"))
    rows = rows.where(f.col("__unit").isNotNull() & f.col("__named").isNotNull())
    if above.null_units:
        rows = rows.where(~f.col("__unit").isin(list(above.null_units)))
    # one row for each key, whatever the parent has: no row of the child is ever there twice
    once = rows.groupBy("__named").agg(f.min("__unit").alias("__unit"))
    joined = frame.join(once, own == once["__named"], "inner")
    return joined, joined["__unit"]

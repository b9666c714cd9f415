"""Combinations of keys that no row can have: they are not shown, as DuckDB does not show them.

Keys of one column go together: ``GROUP BY isodow(day), dayname(day)`` has seven groups, not 49 of which 42 are noise
about 0; so do those that WHERE ties (``a.subject < b.subject``). Which combinations there may be follows from the text
and the declarations alone: the keys that share columns, and the parts of WHERE that read no others, are computed on all
that these columns can be, NULL too, by DuckDB on an empty instance. Where that is no short list all are shown.

This is post-processing: what is released, its noise and its price are those of all combinations.

Proof that no row is lost: let keys f and a part A of WHERE read the columns v only. A row that counts has (f, A)(v) for
its own values, A is true there, and these values are among those that are tried: a column is clamped to its bounds, or
is itself one of the keys, so that rows with a value outside its domain have no group. So its combination is found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from duckdp.catalog.table import Column, Kind, Scalar
from duckdp.compiler.expression import Call, ColumnRef, Expr, Literal, columns
from duckdp.compiler.images import images
from duckdp.compiler.query import Query
from duckdp.compiler.relations.narrowed import conjuncts_of
from duckdp.compiler.ruled_out import is_told_of, values_told

MOST_TRIED = 50_000  # combinations of values of columns that keys share: some 20 ms


def possible(query: Query, keys: Sequence[Sequence[Scalar]]) -> list[int]:
    """The places of groups that some row may have, of groups of declared domains.

    Args:
        query: with a domain for each of its keys.
        keys: of each group.
    """
    rows = list(range(len(keys)))
    if len(query.keys) < 2 or any(k.domain is None for k in query.keys):
        return rows
    told = [c for c in conjuncts_of(query.where) if columns(c)]
    for places in _together([{c.name for c in columns(k.expr)} for k in query.keys], told):
        allowed = _allowed(query, places, told)
        if allowed is not None:
            rows = [i for i in rows if tuple(keys[i][place] for place in places) in allowed]
    return rows


def _together(read: Sequence[set[str]], told: Sequence[Expr]) -> list[list[int]]:
    """Keys that share columns, or are tied by a part of WHERE that reads no others: their places."""
    names = set().union(*read)
    ties = [{c.name for c in columns(part)} for part in told]
    groups = [({i}, set(own)) for i, own in enumerate(read)]
    for tie in (*read, *(t for t in ties if len(t) > 1 and t <= names)):
        met = [g for g in groups if g[1] & tie]
        rest = [g for g in groups if not g[1] & tie]
        groups = [*rest, (set().union(*(g[0] for g in met)), set().union(*(g[1] for g in met)))] if met else rest
    return sorted(sorted(members) for members, _ in groups if len(members) > 1)


def _allowed(query: Query, places: Sequence[int], told: Sequence[Expr]) -> set[tuple[Scalar, ...]] | None:
    """The combinations of values of some keys that a row may have; None where they cannot be listed."""
    exprs = [query.keys[i].expr for i in places]
    read = columns(*exprs)
    names = {c.name for c in read}
    about = [c for c in told if names.issuperset(n.name for n in columns(c))]
    conditions = [c for c in about if all(is_told_of(column, c) for column in columns(c))]
    atoms: dict[Expr, tuple[Scalar, ...]] = {}
    for column in read:
        values = _values(column, about, [*exprs, *conditions], exprs)
        if values is None:
            return None
        atoms[ColumnRef(column)] = values
    if math.prod(len(v) + 1 for v in atoms.values()) > MOST_TRIED:
        return None
    condition = Call("and", tuple(conditions), Kind.BOOLEAN) if len(conditions) > 1 else None
    where = condition or (conditions[0] if conditions else Literal(True, Kind.BOOLEAN))
    return images(exprs, where, atoms)


def _values(
    column: Column, told: Sequence[Expr], whole: Sequence[Expr], keys: Sequence[Expr]
) -> tuple[Scalar, ...] | None:
    """All that a column can be in a row with a group, as far as is told, NULL aside; None where that is no short list.

    Args:
        column: read by keys.
        told: what WHERE says of the keys' columns.
        whole: the keys, and what of that is tried.
        keys: those alone.
    """
    if column.domain is not None:
        return column.domain if ColumnRef(column) in keys and column.other is None else None
    return values_told(column, told, whole)

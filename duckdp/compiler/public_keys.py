"""Keys that are of one row of a public table: their groups are the combinations that its rows have.

``GROUP BY s.station_id, s.name, s.borough`` over ``trips t JOIN stations s`` has a group for each station, not one for
each pair of a number and a name. Public rows are no one's, so what they have together is known (``Public.together``),
and what WHERE and ON say of them alone leaves some of them. Unlike combinations that declarations rule out
(compiler/combinations.py), these others are not released at all: fewer groups need less noise where a person is in
several.

Proof that no row is lost: a row that counts has, in the columns of one scan of the public table, what one of its rows
has, or NULL in all of them where the scan may be missing (LEFT JOIN); a column that an inner join says is equal to one
of them has the same. What is made of those columns is evaluated on each public row and, there, on NULL; conditions that
read nothing else hold of them. Two scans are two: a column is traced down to the join that its scan stands in, by the
way there.

Privacy does not rest on it: groups are released by this list alone, so a row outside of it would count nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from duckdp.catalog.public import read_together
from duckdp.catalog.table import Column, Kind, Scalar, Table
from duckdp.compiler.expression import Call, ColumnRef, Expr, Literal, columns, replaced
from duckdp.compiler.images import images_of_rows
from duckdp.compiler.operators import row_of
from duckdp.compiler.query import Key, Together
from duckdp.compiler.relations.joined import Joined
from duckdp.compiler.relations.matched import Matched
from duckdp.compiler.relations.narrowed import conjuncts_of
from duckdp.compiler.relations.relation import Relation
from duckdp.compiler.relations.unit_groups import UnitGroups
from duckdp.compiler.relations.windowed import Windowed
from duckdp.compiler.relations.with_public import WithPublic

_TOLD = ", as far as rows of public {} have it"


@dataclass(frozen=True)
class _Scan:
    """One scan of a public table in a relation.

    Attributes:
        way: down to the join that it stands in; another scan has another.
        node: that join.
        missing: rows may have NULL in all of its columns.
    """

    way: tuple[str, ...]
    node: WithPublic
    missing: bool

    @property
    def table(self) -> Table:
        """The public table."""
        return self.node.public.table


def together_with_public(
    table: Table, keys: tuple[Key, ...], where: Expr | None, *, filled: bool
) -> tuple[tuple[Key, ...], tuple[Together, ...]]:
    """The keys with values that public rows leave them, and which of them go together.

    Args:
        table: whose rows are grouped.
        keys: of the groups.
        where: which rows.
        filled: every row of the public table is kept, whatever its join says.
    """
    found: dict[tuple[str, ...], tuple[_Scan, list[tuple[int, Expr]]]] = {}
    for place, key in enumerate(keys):
        traced = _traced(table, key.expr) if key.domain is not None and key.other is None else None
        if traced is not None:
            found.setdefault(traced[0].way, (traced[0], []))[1].append((place, traced[1]))
    together = []
    for scan, own in found.values():
        told = _told(table, scan, where, filled=filled)
        if len(own) < 2 and not told:
            continue
        rows = _rows(scan, [e for _, e in own], told)
        places = tuple(place for place, _ in own)
        keys, tied = _kept(keys, places, rows, scan.table.name, filled=filled)
        together += [] if tied is None else [tied]
    return keys, tuple(together)


def _traced(table: Table, expr: Expr) -> tuple[_Scan, Expr] | None:
    """The scan that an expression reads alone, and the expression over the columns of the public table."""
    below: dict[str, tuple[_Scan, Expr]] = {}
    for column in columns(expr):
        found = _scan(table, column.name, (), missing=False)
        if found is None:
            return None
        below[column.name] = found
    scans = {scan.way: scan for scan, _ in below.values()}
    if len(scans) != 1:
        return None
    (scan,) = scans.values()
    if scan.missing and not all(isinstance(e, ColumnRef) for _, e in below.values()):
        return None  # what is computed below the join is NULL where the row is missing, whatever it makes of NULL

    def place(part: Expr) -> Expr | None:
        return below[part.column.name][1] if isinstance(part, ColumnRef) else None

    return scan, replaced(expr, place)


def _scan(table: Table, name: str, way: tuple[str, ...], *, missing: bool) -> tuple[_Scan, Expr] | None:
    """Which scan of a public table a column is of, and what of its columns it is; None: of none, or it is not known."""
    if not isinstance(table, Relation):
        return None
    node = table.node
    if isinstance(node, WithPublic) and (of := _public(node, name)) is not None:
        scan = _Scan(way, node, missing or node.how == "left")
        return (scan, of) if scan.table.public is not None and node.how in ("inner", "left") else None
    for word, below, inner, absent in _below(node, name):
        return _scan(below, inner, (*way, word), missing=missing or absent)
    return None


def _public(node: WithPublic, name: str) -> Expr | None:
    """What a column of a join is of the public side's columns: one of them, or what an inner join says is equal to one.

    Equal as they are printed: what a join compares as whole numbers is equal just where that is (whole_keys.py).
    """
    there = node.public.named()
    if name in there or node.how != "inner":
        return there.get(name)
    for part in conjuncts_of(node.on):
        if isinstance(part, Call) and row_of(part).equates:
            for one, other in (part.arguments, part.arguments[::-1]):
                if isinstance(one, ColumnRef) and one.column.name == name and isinstance(other, ColumnRef):
                    of = there.get(other.column.name)
                    if of is not None:
                        return of
    return None


def _below(node: object, name: str) -> Iterator[tuple[str, Table, str, bool]]:
    """Where a column of a node comes from, unchanged: of which side, what its name is there, whether it may be missing.

    Keys of a unit's groups are what rows have in them together, as all rows of a group have the same.
    """
    match node:
        case WithPublic():
            sides = [("rows", node.rows.table, node.rows.named(), False)]
        case Joined():
            sides = [
                ("left", node.left.table, node.left.named(), node.kind in ("right", "full")),
                ("right", node.right.table, node.right.named(), node.kind in ("left", "full")),
            ]
        case Matched():
            sides = [("matched", node.table, {c.name: ColumnRef(c) for c in node.table.columns}, False)]
        case Windowed():
            sides = [("windowed", node.part.table, node.part.named(), False)]
        case UnitGroups():
            sides = [("grouped", node.table, {c.name: e for c, e in node.keys}, False)]
        case _:
            sides = []
    for word, table, named, absent in sides:
        found = named.get(name)
        if isinstance(found, ColumnRef):
            yield word, table, found.column.name, absent


def _told(table: Table, scan: _Scan, where: Expr | None, *, filled: bool) -> list[tuple[Expr, bool]]:
    """What is said of the public rows alone; with each condition whether it holds of a row that is missing too."""
    if filled:
        return []
    known = set(scan.table.public.listed) if scan.table.public is not None else set()
    of = scan.node.public.named()

    def place(part: Expr) -> Expr | None:
        return of.get(part.column.name) if isinstance(part, ColumnRef) else None

    own = conjuncts_of(scan.node.on)  # of a LEFT JOIN too: a public row of which it is false meets nobody
    found = [(replaced(c, place), False) for c in own if columns(c) and {n.name for n in columns(c)} <= set(of)]
    found += [(c, False) for c in conjuncts_of(scan.node.public.where) if columns(c)]
    for condition in conjuncts_of(where):
        traced = _traced(table, condition) if columns(condition) else None
        if traced is not None and traced[0].way == scan.way:
            found.append((traced[1], True))
    return [(c, outer) for c, outer in found if {n.name for n in columns(c)} <= known]


def _rows(
    scan: _Scan, exprs: Sequence[Expr], told: Sequence[tuple[Expr, bool]]
) -> frozenset[tuple[Scalar, ...]] | None:
    """What public rows have, as the expressions; None where it is no short list."""
    public, read = scan.table.public, columns(*exprs, *(c for c, _ in told))
    if public is None or not {c.name for c in read} <= set(public.listed):
        return None
    own = tuple(c for name in public.listed for c in scan.table.columns if c.name == name)
    found = _values(tuple(exprs), _all(c for c, _ in told), own, scan.table)
    if scan.missing:
        found |= images_of_rows(exprs, _all(c for c, outer in told if outer), read, [(None,) * len(read)])
    return found


@lru_cache(maxsize=64)
def _values(
    exprs: tuple[Expr, ...], where: Expr, own: tuple[Column, ...], table: Table
) -> frozenset[tuple[Scalar, ...]]:
    """Of the rows of a public table, whose listed columns are ``own``."""
    assert table.public is not None
    rows = read_together(table.public, {c.name: c.domain or () for c in own})
    return images_of_rows(exprs, where, own, rows)


def _all(conditions: Iterable[Expr]) -> Expr:
    parts = tuple(conditions)
    if not parts:
        return Literal(True, Kind.BOOLEAN)
    return parts[0] if len(parts) == 1 else Call("and", parts, Kind.BOOLEAN)


def _kept(
    keys: tuple[Key, ...],
    places: tuple[int, ...],
    rows: frozenset[tuple[Scalar, ...]] | None,
    source: str,
    *,
    filled: bool,
) -> tuple[tuple[Key, ...], Together | None]:
    """The keys with those of their values that stand in rows, and how they go together where it is asked or needed."""
    domains = [keys[place].domain or () for place in places]
    inside = [set(domain) for domain in domains]
    left = [row for row in rows or () if all(v in known for v, known in zip(row, inside, strict=True))]
    if not left:
        return keys, None  # not known, or no row counts: then the answer is known
    made, of = list(keys), []
    for i, (place, domain) in enumerate(zip(places, domains, strict=True)):
        met = {row[i] for row in left}
        values = tuple(v for v in domain if v in met)
        of.append({value: at for at, value in enumerate(values)})
        if len(values) < len(domain):
            told = keys[place].source + _TOLD.format(source)
            made[place] = replace(keys[place], domain=values, listed=True, source=told)
    found = sorted({tuple(own[v] for own, v in zip(of, row, strict=True)) for row in left})
    tied = len(places) > 1 and (filled or len(found) < math.prod(map(len, of)))
    return tuple(made), Together(places=places, rows=tuple(found), source=source) if tied else None

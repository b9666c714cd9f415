"""JOIN of two relations of the same kind of unit, on the unit.

Unit-local: the printer always compares the units (raw keys of one type), so what comes of a unit's rows is a function
of its own rows on both sides. A row of an outer join that nothing matches belongs to the unit of the side that is kept,
and whether anything matches is that unit's affair too. Nothing pairs two units, whatever else is asked for in ON.

Work: two sides that both have several rows of a unit make their product, so one unit with many rows could take hours,
and the time would tell. Unless one side has one row of a unit, each side keeps ``JOIN_ROWS`` rows of a unit, after its
conditions: chosen by a keyed hash of the unit's own rows (``print_chosen``), so whose rows are chosen is nobody else's
affair, and a product has a public bound.

Where a condition compares a column in which no value stands twice (``Table.unique``), a row meets at most one of that
side: all rows are joined then, in time that is their number's, and there are no more than of the other side.

Facts, sides with F1 and F2 rows of a unit, u1 and u2 of them counting, N1 and N2 units::

    inner   F1 F2             u1 u2                 min(N1, N2)
    left    F1 max(1, F2)     u1 max(1, u2)         N1
    full    left's and F2     left's and u2         N1 + N2

Columns of a side that may be missing may be NULL; a domain has NULL then. A column that names the unit there is the
unit or NULL: it is told by a flag, TRUE where the side is there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from duckdp.catalog.table import INTEGER_RANGES, Column, Table
from duckdp.catalog.table import Kind as ValueKind
from duckdp.compiler.bound_values import Parameters
from duckdp.compiler.expression import Call, ColumnRef, Expr, columns, show
from duckdp.compiler.notation import pretty
from duckdp.compiler.operators import row_of
from duckdp.compiler.printing import UNIT, print_chosen, print_expr, print_rows, quote
from duckdp.compiler.relations.derived import print_derived
from duckdp.compiler.relations.implied import names_owner, without_unit
from duckdp.compiler.relations.narrowed import conjuncts_of, most_left
from duckdp.compiler.relations.relation import (
    Node,
    Relation,
    describe_below,
    names_once,
    names_told_once,
    pruned,
    rows_of_unit,
)
from duckdp.compiler.relations.whole_keys import as_whole, compared_whole, marked

JOIN_ROWS = 128  # of a unit on each side, where both may have several
MOST_ROWS = 2**20  # of a unit that count
Kind = Literal["inner", "left", "right", "full"]
_PRINTED = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}


@dataclass(frozen=True, kw_only=True)
class Part:
    """One side: some rows of a table or relation, and what is computed from them.

    Attributes:
        table: whose rows.
        where: which of them.
        items: columns of the side, and expressions over the table's columns.
    """

    table: Table
    where: Expr | None
    items: tuple[tuple[Column, Expr], ...]

    @property
    def rows(self) -> int | None:
        """The most rows of a unit, whatever the data."""
        known = [n for n in (rows_of_unit(self.table), most_left(self.table, self.where)) if n is not None]
        return min(known, default=None)

    @property
    def once(self) -> frozenset[str]:
        """Names of columns of the side in which no value stands twice."""
        return self._named(names_once(self.table))

    @property
    def told_once(self) -> frozenset[str]:
        """Those in which none would where units keep to ``max_rows``."""
        return self._named(names_told_once(self.table))

    def _named(self, names: frozenset[str]) -> frozenset[str]:
        return frozenset(c.name for c, e in self.items if isinstance(e, ColumnRef) and e.column.name in names)

    @property
    def apart(self) -> tuple[str, ...] | None:
        """Names of columns of the side that no two rows of a unit have in common; None: not known."""
        if not isinstance(self.table, Relation) or self.table.apart is None:
            return None
        names = {e.column.name: c.name for c, e in self.items if isinstance(e, ColumnRef)}
        found = [names.get(name) for name in self.table.apart]
        return None if None in found else tuple(n for n in found if n is not None)

    def identity(self) -> dict[str, Any]:
        """What the side is, as a part of a question's identity."""
        items = [[c.name, show(e)] for c, e in self.items]
        return {"rows": self.table._declared, "where": show(self.where), "items": items}

    def pruned(self, names: set[str]) -> Part:
        """The same side with those of its columns alone."""
        items = tuple((c, e) for c, e in self.items if c.name in names)
        return replace(self, items=items, table=pruned(self.table, [self.where, *(e for _, e in items)]))

    def named(self) -> dict[str, Expr]:
        """What its columns are, by name."""
        return {c.name: e for c, e in self.items}

    def passed(self) -> dict[str, tuple[Table, str]]:
        """Its columns that are those of the table, as they are printed there: by name, of which table, and which."""
        return {
            c.name: (self.table, e.column.name)
            for c, e in self.items
            if isinstance(e, ColumnRef) and self._is_within(c, e)
        }

    def _is_within(self, column: Column, expr: Expr) -> bool:
        """Whether a value is what its column claims already, as the table's scan or node prints it."""
        if not isinstance(expr, ColumnRef):
            return False
        below: Column | None = expr.column
        if isinstance(self.table, Relation):
            below = self.table.node.printed().get(expr.column.name)
        elif expr.column.null_value is not None or not _is_exact(expr.column):
            return False
        if below is None:
            return False
        return (below.kind, below.lower, below.upper) == (column.kind, column.lower, column.upper)

    def print(self, wanted: set[str], parameters: Parameters, most: int | None = None, *, linked: bool = False) -> str:
        """Its rows with their unit and those columns that are wanted, at most so many of each unit.

        Args:
            wanted: names of columns; :func:`whole_keys.marked`, of one as a whole number.
            parameters: of the statement.
            most: rows of a unit; None: all.
            linked: without the unit, of a linked table, where the join's condition implies it (relations/implied.py).
        """
        if linked:
            table = without_unit(self.table)
            assert table is not None
            return replace(self, table=table).print(wanted, parameters)
        items = [(c, e) for c, e in self.items if c.name in wanted]
        keys = [(c, e.column) for c, e in self.items if marked(c.name) in wanted and isinstance(e, ColumnRef)]
        read = {k.name: k for _, column in keys for k in (as_whole(column),)}
        plain = columns(self.where, *(e for _, e in items))
        rows = print_rows(self.table, (*plain, *read.values()), parameters, unit=True)

        def shown(expr: Expr) -> str:
            return print_expr(expr, lambda c: f"base.{quote(c.name)}", parameters)

        listed = [f"base.{UNIT} AS {UNIT}"] if self.table.unit_key is not None else []
        for c, e in items:
            value = shown(e) if self._is_within(c, e) else print_derived(c, shown(e), parameters)
            listed.append(f"{value} AS {quote(c.name)}")
        listed += [f"base.{quote(marked(k.name))} AS {quote(marked(c.name))}" for c, k in keys]
        listed = listed or ["1 AS one"]
        where = "" if self.where is None else f" WHERE {shown(self.where)}"
        if most is None:
            return f"(SELECT {', '.join(listed)} FROM {rows} AS base{where})"
        names = [quote(c.name) for c, _ in items] or ["one"]
        listed += [] if items else ["1 AS one"]
        return print_chosen(f"(SELECT {', '.join(listed)} FROM {rows} AS base{where})", names, parameters.salt, most)


@dataclass(frozen=True, kw_only=True)
class Joined(Node):
    """Rows of two sides with one unit.

    Attributes:
        kind: whose rows are kept where nothing matches.
        left, right: the sides; no two of their columns have one name.
        on: what else must hold, over the sides' columns.
        single: whether a row of the right side meets at most one of the left, and a row of the left one of the right.
    """

    kind: Kind
    left: Part
    right: Part
    on: Expr | None
    single: tuple[bool, bool] = (False, False)

    @property
    def inputs(self) -> tuple[Table, ...]:
        """The two tables whose rows are joined."""
        return (self.left.table, self.right.table)

    @property
    def most(self) -> tuple[int | None, int | None]:
        """Rows of a unit that each side keeps; None: all."""
        return (None, None) if any(self.single) else kept_rows(self.left.rows, self.right.rows)

    @property
    def linked(self) -> tuple[bool, bool]:
        """Whether a side needs no units of its own, as its rows meet those that their link names, and no others."""
        left, right = self.left, self.right
        if self.most != (None, None):
            return False, False
        if self.kind in ("inner", "left") and names_owner(
            right.table, right.named(), left.table, left.named(), self.on
        ):
            return False, True
        own = self.kind in ("inner", "right")
        return own and names_owner(left.table, left.named(), right.table, right.named(), self.on), False

    def sides(self) -> tuple[tuple[Table, dict[str, Expr]], ...]:
        """Both sides of the join, by the names of their columns."""
        return tuple((part.table, part.named()) for part in (self.left, self.right))

    def printed(self) -> dict[str, Column]:
        """The columns of both sides as they are printed."""
        return {c.name: c for part in (self.left, self.right) for c, _ in part.items}

    def passed(self) -> dict[str, tuple[Table, str]]:
        """Columns of both sides that are printed as the sides print them; none where some rows are chosen."""
        return {} if self.most != (None, None) else self.left.passed() | self.right.passed()

    def identity(self) -> dict[str, Any]:
        """By its sides, and the rows that they keep of a unit."""
        sides = {"left": self.left.identity(), "right": self.right.identity()}
        return {"join": self.kind, **sides, "on": show(self.on), "most": list(self.most)}

    def pruned(self, names: set[str]) -> Joined:
        """The same without columns of its sides that nobody needs."""
        needed = names | {c.name for c in columns(self.on)}
        return replace(self, left=self.left.pruned(needed), right=self.right.pruned(needed))

    def print(self, columns_: tuple[Column, ...], parameters: Parameters) -> str:
        """Both sides, their units always compared."""
        on = compared_whole(self.on, self.passed())
        needed = {c.name for c in columns_} | {c.name for c in columns(on)}
        linked = self.linked
        sides = zip((self.left, self.right), self.most, linked, strict=True)
        left, right = (part.print(needed, parameters, most, linked=one) for part, most, one in sides)
        own = {name for c, _ in self.left.items for name in (c.name, marked(c.name))}

        def place(column: Column) -> str:
            return f"{'l' if column.name in own else 'r'}.{quote(column.name)}"

        unit = {"right": f"r.{UNIT}", "full": f"COALESCE(l.{UNIT}, r.{UNIT})"}.get(self.kind, f"l.{UNIT}")
        unit = f"r.{UNIT}" if linked[0] else unit
        same = [] if any(linked) else [f"l.{UNIT} = r.{UNIT}"]
        met = " AND ".join([*same, *([] if on is None else [print_expr(on, place, parameters)])])
        items = [f"{unit} AS {UNIT}", *(f"{place(c)} AS {quote(c.name)}" for c in columns_)]
        joined = f"{left} AS l {_PRINTED[self.kind]} {right} AS r ON {met}"
        return f"(SELECT {', '.join(items)} FROM {joined})"

    def describe(self) -> list[str]:
        """The sides, and what a row is."""
        on = f" and {pretty(self.on)}" if self.on is not None else ""
        head = f"{self.kind} join on {self.left.table.unit_key}{on}"
        sides = [line for p in (self.left, self.right) for line in describe_below(p.table, p.where)]
        return [head, *sides]

    def notes(self) -> list[str]:
        """What the sides tell, and which rows are not joined."""
        found = [n for p in (self.left, self.right) if isinstance(p.table, Relation) for n in p.table.node.notes()]
        if any(m is not None for m in self.most):
            unit = self.left.table.unit_key
            found.append(f"of a {unit} with more than {JOIN_ROWS} rows on a side {JOIN_ROWS} are joined")
        return list(dict.fromkeys(found))


def _is_exact(column: Column) -> bool:
    """Whether what is read is finite, and a zero has no sign: whole numbers, DECIMALs, dates."""
    name = column.type.upper()
    return column.kind is not ValueKind.NUMBER or name.startswith("DECIMAL") or name in INTEGER_RANGES


def kept_rows(left: int | None, right: int | None) -> tuple[int | None, int | None]:
    """Rows of a unit that each of two sides keeps, of which every pair may be looked at; None: all.

    Args:
        left: the most rows of a unit that one side has; None: not known.
        right: those of the other.
    """
    if 1 in (left, right):
        return None, None
    few = [rows is not None and rows <= JOIN_ROWS for rows in (left, right)]
    return None if few[0] else JOIN_ROWS, None if few[1] else JOIN_ROWS


def join(kind: Kind, left: Part, right: Part, on: Expr | None, output: Sequence[Column]) -> Relation:
    """The relation of a join on the unit.

    Args:
        kind: whose rows are kept.
        left: one side.
        right: the other.
        on: what else must hold.
        output: all columns of both sides, as they come out.
    """
    single = meets_one(left, right, on)
    node = Joined(kind=kind, left=left, right=right, on=on, single=single)
    f = [m if m is not None else p.rows for p, m in zip((left, right), node.most, strict=True)]
    u1, u2 = left.table.max_rows, right.table.max_rows
    n1, n2 = left.table.units_cap, right.table.units_cap
    f1, f2 = (math.inf if n is None else n for n in f)
    rows = _known(_together(kind, f1, f2, single))
    told = meets_one(left, right, on, told=True)
    counted = min(int(_together(kind, u1, u2, told)), MOST_ROWS, rows or MOST_ROWS)
    units = {"inner": min(n1, n2), "left": n1, "right": n2, "full": n1 + n2}[kind]
    first = left.table
    groups = max(left.table.max_groups, right.table.max_groups)
    return Relation(
        name=first.name,
        relation=first.relation,
        columns=tuple(output),
        row_cap=units * counted,
        unit_key=first.unit_key,
        unit_type=first.unit_type,
        max_rows=counted,
        max_groups=groups if rows is None else min(groups, rows),
        unit=first.unit,
        null_units=first.null_units,
        node=node,
        rows=rows,
        units=units,
        once=_once(left.once, right.once, single),
        told_once=_once(left.told_once, right.told_once, told),
    )


def meets_one(left: Part, right: Part, on: Expr | None, *, told: bool = False) -> tuple[bool, bool]:
    """Whether a row of the right side meets at most one of the left, and a row of the left at most one of the right.

    It does where a unit has at most one row on a side, whatever the data, as units are always compared; and where a
    condition says that a column in which no value stands twice is equal to one of the other side.

    Args:
        left: one side.
        right: the other.
        on: what must hold.
        told: of units that keep to ``max_rows``. That is no fact of the data: only how many rows count rests on it.
    """
    names = [{c.name for c, _ in part.items} for part in (left, right)]
    found = [p.rows == 1 or (told and p.table.max_rows == 1) for p in (left, right)]
    once = [p.told_once if told else p.once for p in (left, right)]
    for part in conjuncts_of(on):
        if not isinstance(part, Call) or not row_of(part).equates:
            continue
        for one, other in (part.arguments, part.arguments[::-1]):
            read = {c.name for c in columns(other)}
            for side, own in enumerate(once):
                if isinstance(one, ColumnRef) and one.column.name in own and read <= names[1 - side]:
                    found[side] = True
    return found[0], found[1]


def _once(left: frozenset[str], right: frozenset[str], single: tuple[bool, bool]) -> tuple[str, ...]:
    """Columns in which no value stands twice in what is joined: of a side whose rows each meet at most one."""
    return tuple(sorted((left if single[1] else frozenset()) | (right if single[0] else frozenset())))


def _known(rows: float) -> int | None:
    return None if math.isinf(rows) else int(rows)


def _together(kind: Kind, left: float, right: float, single: tuple[bool, bool]) -> float:
    """The most rows of a unit with so many on each side, at least one."""
    pairs = min(left * right, right if single[0] else math.inf, left if single[1] else math.inf)
    if kind == "inner":
        return pairs
    keeps_left = left if single[1] else min(left * max(1, right), pairs + left)
    keeps_right = right if single[0] else min(right * max(1, left), pairs + right)
    if kind == "right":
        return keeps_right
    return keeps_left + (right if kind == "full" else 0)

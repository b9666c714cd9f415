"""Keys of links name rows of one unit each, so GROUP BY such a key is GROUP BY the unit and the key.

Let c be a unique column of a table T. The owner's side compares at each declaration and refresh that no value but NULL
stands twice in c among the rows of T with a unit, and nothing is answered else: a value k is of one unit at most, o(k).
A column names rows of T by c (``View.keys``) if it is c, or the column of a linked table by which a row finds its unit,
where a row that finds none counts nowhere. Joins compare units, and unions and groups keep them, so in all that is made
of these a row has the unit o(k), or no key.

**Groups.** Among rows with a key, those of a group of GROUP BY k, ... have one key, so one unit: the groups are those
of GROUP BY unit, k, .... These are what is printed. They are unit-local whatever the data: they hold the unit, so each
is a function of its unit's rows (relations/unit_groups.py). Privacy does not rest on what the owner's side compared,
only the meaning does: of a key that two units shared each would have a group, and neither would move the other's.

**NULL names nobody.** Rows without a key may be of many units, and are one group in SQL, which is no unit's: they are
left out, and a note says so, unless another key of the group names its unit. Rows of a linked table have a key. A
column of a unique one whose NULL is read as a value names nobody's rows either: the value is that of many.

**Readings.** Keys are grouped as they are read. Two that are read as one (by bounds, or beyond what DOUBLE holds) stay
two groups where they are of two units, as they are in the data.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from duckdp.catalog.table import Kind, Table
from duckdp.compiler.expression import Call, ColumnRef, Expr
from duckdp.compiler.relations.relation import Relation
from duckdp.compiler.scope import RowScope


def names_one_unit(node: exp.Expression, scope: RowScope) -> bool:
    """Whether rows that are equal in an expression, and not NULL, are of one unit."""
    return unit_key_of(node, scope) is not None


def unit_key_of(node: exp.Expression, scope: RowScope) -> ColumnRef | None:
    """The column of a name whose values are of one unit each; None: it is none."""
    if not isinstance(node, exp.Column) or scope.table.unit_key is None or scope.key(node) is None:
        return None
    found = scope.column(node)
    return found if isinstance(found, ColumnRef) and found.column.null_value is None else None


def may_be_null(key: ColumnRef, table: Table) -> bool:
    """Whether a row that counts may have no key: those of a linked table have one, as their unit is found by it."""
    by_link = not isinstance(table, Relation) and table.link is not None and table.link.column == key.column.source
    return key.column.nullable and not by_link


def has_key(keys: Sequence[ColumnRef], table: Table) -> Expr | None:
    """That a row has one of these keys; None: each row has."""
    if not all(may_be_null(key, table) for key in keys):
        return None
    none = [Call(f"is_null_{key.kind.value}", (key,), Kind.BOOLEAN) for key in keys]
    return Call("not", (none[0] if len(none) == 1 else Call("and", tuple(none), Kind.BOOLEAN),), Kind.BOOLEAN)

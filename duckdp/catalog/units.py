"""One data set, one kind of privacy unit: declarations are compared with what stands and with all that was charged.

Epsilon is the loss of one unit over the data set's life. Were one table charged by visits and another by persons, the
sum of the charges would bound nobody's loss: a person's is that of all their visits. So every table of a data set has
the same kind of unit: the row, or an entity that a key names. For any two declarations, dropped ones included if
something was charged while they stood::

    same base table     the same key: a row has one unit; the key's type stays once it was charged
    other base tables   keys of the same kind and type

A key's kind is what the owner calls it (``unit="patient"``), or else the key's own name, which states it: tables with
a ``patient_id`` each need no more. A name that only says that a column is a key (``id``) states nothing: it stands for
its table's key alone. What the owner last said about a column counts for all its declarations that say nothing.

What cannot be seen: that a base table is a copy of another, or that the owner's statement is false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from duckdp.catalog.table import Table
from duckdp.core.types import Neighbours
from duckdp.errors import CatalogError, ParameterError

SAYS_NOTHING = frozenset(
    ("id", "_id", "rowid", "row_id", "key", "pk", "uuid", "guid", "nr", "no", "num", "number", "index", "idx")
)
APART = "protect it in a data set of its own, open(..., ledger=...), whose budget adds to this one's"


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A declaration of today or before.

    Attributes:
        table: as declared.
        stands: it is in force.
        charged: something was charged while it was.
    """

    table: Table
    stands: bool
    charged: bool


def check_unit(unit: object) -> str:
    """A kind of unit as the owner calls it, lower case.

    Raises:
        ParameterError: P107.
    """
    if not isinstance(unit, str) or not unit.isprintable() or not 1 <= len(unit.strip()) <= 128:
        raise ParameterError("P107", "unit", unit, 'must say what unit_key names, for example "patient".')
    return unit.strip().lower()


def kind_of_unit(table: Table) -> str:
    """The kind of a table's units: "row", what the owner calls it, or what its key's name says."""
    if table.unit_key is None:
        return "row"
    if table.unit is not None:
        return table.unit
    key = table.unit_key.lower()
    return f"{_base(table)}.{key}" if key in SAYS_NOTHING else key


def require_one_unit(new: Sequence[Table], known: Iterable[Declared], neighbours: Neighbours | None) -> None:
    """Refuse declarations that would give the data set a second kind of unit.

    Args:
        new: to be stored together, in place of what stands under their names.
        known: all that was ever declared, in order.
        neighbours: the data set's relation, if a budget was set.

    Raises:
        CatalogError: C105, against what stands; C109, against what was charged; C111, the name is another table's.
    """
    named, known = {t.name: t for t in new}, list(known)
    kept = [one for one in known if one.charged or (one.stands and one.table.name not in named)]
    said = {(_base(t), _key(t)): t.unit for t in [*(o.table for o in known), *new] if t.unit is not None}
    for one in known:
        if one.stands and (other := named.get(one.table.name)) is not None and _base(other) != _base(one.table):
            raise CatalogError(
                "C111",
                f'"{other.name}" already names "{_base(one.table)}". Unprotect that first, or protect a view '
                f'of "{_base(other)}" under another name.',
                table=other.name,
            )
    unchanged = {one.table for one in known if one.stands}
    for i, table in enumerate(new):
        if neighbours is Neighbours.REPLACE and table.unit_key is not None:
            raise CatalogError(
                "C105",
                'neighbours="replace" protects rows. Leave out unit_key, or set a budget with '
                'neighbours="add_remove" before the first charge.',
                table=table.name,
            )
        for before in [*kept, *(Declared(table=t, stands=True, charged=False) for t in new[:i])]:
            _require_one_kind(table, before, said)
            # a ledger of before may hold keys of one kind and two types: what stands may stand
            if table not in unchanged or (before.table in new and before.table not in unchanged):
                _require_one_type(table, before)


def _require_one_kind(new: Table, other: Declared, said: Mapping[tuple[str, str], str | None]) -> None:
    old, code = other.table, "C109" if other.charged else "C105"
    if (new.unit_key is None) != (old.unit_key is None):
        mine, theirs = (f'of "{t.name}" {t.unit_key or "the row"}' for t in (new, old))
        raise CatalogError(
            code,
            f"the privacy unit {mine} and {theirs}, and a data set has one kind. Declare both by rows, or both "
            f"by a unit_key{_where(other)}, or {APART}.",
            table=new.name,
        )
    if _base(new) == _base(old):
        if _key(new) != _key(old):
            raise CatalogError(
                code,
                f'"{_base(new)}" {_was(other)} by "{old.unit_key}", and a row has one unit. '
                f'Say unit_key="{old.unit_key}", {_or_else(other)}.',
                table=new.name,
            )
        if old.unit is not None and new.unit not in (None, old.unit):
            raise CatalogError(
                code,
                f'"{_base(new)}" {_was(other)} with unit="{old.unit}". Say unit="{old.unit}", {_or_else(other)}.',
                table=new.name,
            )
        return
    mine, theirs = (said.get((_base(t), _key(t))) or kind_of_unit(t) for t in (new, old))
    if mine != theirs:
        raise CatalogError(
            code,
            f'the unit of "{new.name}" is "{mine}", and "{old.name}" {_was(other)} by "{theirs}". If both name '
            f'the same units, say unit="{theirs}" for "{new.name}"; if not, {APART}.',
            table=new.name,
        )


def _require_one_type(new: Table, other: Declared) -> None:
    old, code = other.table, "C109" if other.charged else "C105"
    if new.unit_type == old.unit_type:
        return
    if _base(new) == _base(old):
        raise CatalogError(
            code,
            f'unit_key "{new.unit_key}" has type {new.unit_type}, and "{old.name}" {_was(other)} by '
            f"{old.unit_type}. ALTER it to {old.unit_type}, {_or_else(other)}.",
            table=new.name,
        )
    raise CatalogError(
        code,
        f'unit_key "{new.unit_key}" of "{new.name}" has type {new.unit_type}, and "{old.name}" {_was(other)} by '
        f"{old.unit_type}. ALTER the first to {old.unit_type}, or {APART}.",
        table=new.name,
    )


def _base(table: Table) -> str:
    _, schema, name = table.relation
    return (name if schema == "main" else f"{schema}.{name}").lower()


def _key(table: Table) -> str:
    if table.link is not None:  # another way to a unit, whatever it is called
        return str(table.link).lower()
    return (table.unit_key or "").lower()


def _was(other: Declared) -> str:
    return "was charged" if other.charged else "is protected"


def _where(other: Declared) -> str:
    return ", the same as was charged" if other.charged else ""


def _or_else(other: Declared) -> str:
    if other.charged:
        return "or begin a data set of its own, open(..., ledger=...), whose budget adds to this one's"
    return f'or unprotect "{other.table.name}" first'

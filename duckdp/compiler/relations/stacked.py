"""UNION ALL of relations of the same kind of unit: the rows of all of them, one below the other.

Unit-local: a row keeps the unit that it has in its branch, and is a function of that unit's rows there; what the other
branches hold changes none of it. Proof: with R_1, ..., R_n unit-local, R_i(D without u) = R_i(D) without the rows of u
for each i; added up as multisets, the left sides are the union of D without u, the right sides that of D without the
rows of u.

Branches may read one table twice, and a row then stands in the union twice: all that bounds a unit is added up, and
its rows are bounded at the end, in the union (compiler/emit.py), as those of any relation. Facts, branches with F_i
rows of a unit, u_i of them counting in m_i groups, N_i units::

    rows   F_1 + ... + F_n      counting   u_1 + ... + u_n in m_1 + ... + m_n groups      units   N_1 + ... + N_n

A column lies within the hull of its branches' intervals, may be NULL where one of theirs may, and has the values of
all their domains. Each branch is printed with a clamp to that. No column tells two rows of a unit apart, and none has
each value once: a value may stand in two branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from duckdp.catalog.table import Column, Kind, Scalar
from duckdp.compiler.bound_values import Parameters
from duckdp.compiler.domains import Domains
from duckdp.compiler.expression import Expr, Literal, is_null
from duckdp.compiler.facts import facts
from duckdp.compiler.operators import Facts
from duckdp.compiler.printing import quote
from duckdp.compiler.relations.derived import column_of, derive, number_name
from duckdp.compiler.relations.joined import MOST_ROWS, Part
from duckdp.compiler.relations.relation import Node, Relation, describe_below
from duckdp.compiler.types import common_type
from duckdp.core import interval as iv


@dataclass(frozen=True, kw_only=True)
class Stacked(Node):
    """The rows of several branches, one below the other, each with the unit that it has in its branch.

    Attributes:
        parts: the branches, each with the same columns in the same order.
    """

    parts: tuple[Part, ...]

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The tables whose rows the branches take."""
        return tuple(part.table for part in self.parts)

    def identity(self) -> dict[str, Any]:
        """By its branches in their order."""
        return {"union all": [part.identity() for part in self.parts]}

    def pruned(self, names: set[str]) -> Stacked:
        """The same without columns that nobody needs."""
        return replace(self, parts=tuple(part.pruned(names) for part in self.parts))

    def print(self, columns_: tuple[Column, ...], parameters: Parameters) -> str:
        """The branches, their columns in one order."""
        names = [c.name for c in columns_]
        listed = ", ".join(["b.__unit AS __unit", *(f"b.{quote(n)} AS {quote(n)}" for n in names)])
        branches = [f"SELECT {listed} FROM {part.print(set(names), parameters)} AS b" for part in self.parts]
        return f"({' UNION ALL '.join(branches)})"

    def describe(self) -> list[str]:
        """The branches, a line or more each."""
        found = [describe_below(part.table, part.where, "and" if i else "of") for i, part in enumerate(self.parts)]
        return ["all rows", *(line for lines in found for line in lines)]

    def notes(self) -> list[str]:
        """What the notes of the branches tell, each once."""
        found = [n for part in self.parts if isinstance(part.table, Relation) for n in part.table.node.notes()]
        return list(dict.fromkeys(found))


def stack(parts: Sequence[Part]) -> Relation:
    """The relation of UNION ALL.

    Args:
        parts: of tables with a unit_key of one type; each with the same columns (:func:`stacked_column`) in one order.
    """
    first, tables = parts[0].table, [part.table for part in parts]
    known = [part.rows for part in parts]
    rows = None if any(n is None for n in known) else sum(n or 0 for n in known)
    most = min(MOST_ROWS, rows or MOST_ROWS)
    return Relation(
        name=first.name,
        relation=first.relation,
        columns=tuple(c for c, _ in parts[0].items),
        row_cap=sum(t.row_cap for t in tables),
        unit_key=first.unit_key,
        unit_type=first.unit_type,
        max_rows=min(sum(t.max_rows for t in tables), most),
        max_groups=min(sum(t.max_groups for t in tables), most),
        unit=first.unit,
        null_units=first.null_units,
        node=Stacked(parts=tuple(parts)),
        rows=rows,
        units=sum(t.units_cap for t in tables),
    )


def stacked_column(name: str, exprs: Sequence[Expr], domains: Domains) -> Column:
    """The column of what the branches have at one place, with what is known of all of them.

    Args:
        name: in the relation.
        exprs: of each branch, over its own columns; of one kind, or the constant NULL.
        domains: finds the values of expressions.
    """
    own = [e for e in exprs if not is_null(e)] or list(exprs)
    kind, known = own[0].kind, [facts(e) for e in own]
    nullable = len(own) < len(exprs) or any(k.nullable for k in known)
    days = [k.dates for k in known]
    dates = None if any(d is None for d in days) else (min(d[0] for d in days if d), max(d[1] for d in days if d))
    spans = Facts(iv.hull(*(k.interval for k in known)), all(k.integral for k in known), nullable, dates=dates)
    made = column_of(name, kind, _type_name(kind, own), spans, nullable=nullable)
    values, other = _domain(own, domains)
    if values is not None and len(own) < len(exprs) and None not in values:
        values = (*values, None)
    return replace(made, domain=values, other=other)


def _type_name(kind: Kind, exprs: Sequence[Expr]) -> str:
    if kind is Kind.NUMBER:
        return number_name(common_type(list(exprs)))
    plain = {Kind.TEXT: "VARCHAR", Kind.BOOLEAN: "BOOLEAN", Kind.DATE: "DATE", Kind.TIMESTAMP: "TIMESTAMP"}
    return plain[kind]


def _domain(exprs: Sequence[Expr], domains: Domains) -> tuple[tuple[Scalar, ...] | None, Scalar]:
    """The values of all branches, and their label for others; None: some branch has no declared values.

    A label that is not the same in all would stand for values outside one list that are in another.
    """
    found: list[tuple[tuple[Scalar, ...], Scalar]] = []
    for expr in exprs:
        if isinstance(expr, Literal):
            found.append(((expr.value,), None))
            continue
        column = derive("x", expr, domains)
        if column.domain is None:
            return None, None
        found.append((column.domain, column.other))
    labels = {other for (_, other), e in zip(found, exprs, strict=True) if not isinstance(e, Literal)}
    texts = exprs[0].kind is Kind.TEXT
    if len(labels) > 1 or (not labels and not texts):
        return None, None
    return tuple(dict.fromkeys(v for values, _ in found for v in values)), next(iter(labels), None)

"""Which queries read public rows alone, by the names that are known where they stand.

A CTE is known in what follows it, and not in what stands before it; there the name is a table's. A query that needs a
name which stands for something else by now (a CTE of an inner WITH has it) is not taken for one of public rows, so that
the CTEs that a query needs can be written before it as they stand: no name then changes what it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from duckdp.catalog.table import Table
from duckdp.compiler.outer.trees import named_outside


@dataclass(frozen=True, eq=False)
class Defined:
    """A CTE of a statement, and what was known where it is defined.

    Attributes:
        cte: its node; None, where nothing is known of it: its WITH is recursive.
        before: the CTEs that are known in it.
    """

    cte: exp.CTE | None
    before: Mapping[str, Defined] = field(repr=False)


Known = Mapping[str, Defined]  # by lower-case name, in the order in which they are defined


def after(clause: exp.Expression, known: Known) -> tuple[Known, dict[int, Known]]:
    """The CTEs that are known after a WITH, and those in each of its own, by the identity of the node.

    Args:
        clause: the WITH.
        known: those that are known before it.
    """
    inside: dict[int, Known] = {}
    for cte in clause.expressions:
        name, inside[id(cte)] = cte.alias.lower(), known
        one = Defined(None if clause.args.get("recursive") else cte, known)
        known = {**{n: d for n, d in known.items() if n != name}, name: one}
    return known, inside


def needed(node: exp.Expression, known: Known, tables: Mapping[str, Table]) -> frozenset[str] | None:
    """The CTEs that a query of public rows needs, by name; None: it reads other rows, or none at all.

    Each CTE is looked at once, however often it is named.

    Args:
        node: the query.
        known: the CTEs that are known where it stands.
        tables: protected and public tables by lower-case name.
    """
    found: set[str] = set()
    waiting: list[tuple[exp.Expression, Known]] = [(node, known)]
    while waiting:
        part, there = waiting.pop()
        if any(t.db or not isinstance(t.this, exp.Identifier) for t in part.find_all(exp.Table)):
            return None
        names = {table.name.lower() for table in named_outside(part)}
        if not names and part.find(exp.Values) is None:
            return None
        for name in names:
            one = there.get(name)
            if one is None:
                table = tables.get(name)
                if table is None or table.public is None:
                    return None
            elif one.cte is None or known.get(name) is not one:
                return None
            elif name not in found:
                found.add(name)
                waiting.append((one.cte.this, one.before))
    return frozenset(found)

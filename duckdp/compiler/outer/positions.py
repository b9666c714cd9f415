"""Places of outputs in ORDER BY and GROUP BY: of what the analyst wrote, before error columns stand beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from duckdp.compiler import ways
from duckdp.compiler.literals import small_int
from duckdp.compiler.outer.trees import nodes_of
from duckdp.compiler.parse import refuse

_CLAUSES = {"order": "ORDER BY", "group": "GROUP BY"}


def require_positions(tree: exp.Expression, text: str) -> None:
    """That every place that a query in a statement names is one of its outputs.

    Raises:
        QueryError: Q203.
    """
    for node in nodes_of(tree):
        if isinstance(node, exp.Query) and not isinstance(node, exp.Subquery):
            require_places(node, text)


def require_places(node: exp.Query, text: str | None = None) -> None:
    """That the places that a query names are from 1 to the number of its outputs, where it writes no ``*``.

    Raises:
        QueryError: Q203.
    """
    outputs = _outputs(node)
    if outputs is None or any(e.find(exp.Star, exp.Columns) for e in outputs):
        return
    count = len(outputs)
    for clause, index, place in _places(node):
        if not 1 <= index <= count:
            refuse("Q203", ways.position(_CLAUSES[clause], index, count), place, text)


def names_ordered_by(node: exp.Query) -> frozenset[str]:
    """The names without a table, in lower case, by which a query orders."""
    clause = node.args.get("order")
    found = [] if clause is None else [n for n in nodes_of(clause) if isinstance(n, exp.Column) and not n.table]
    return frozenset(n.name.lower() for n in found)


def _outputs(node: exp.Query) -> Sequence[exp.Expression] | None:
    """Those of a SELECT, or of the first SELECT of a UNION; None: UNION BY NAME has those of all, or another query."""
    while isinstance(node, (exp.SetOperation, exp.Subquery)) and not node.args.get("by_name"):
        node = node.this
    return node.expressions if isinstance(node, exp.Select) else None


def _places(node: exp.Query) -> Iterator[tuple[str, int, exp.Expression]]:
    for clause in _CLAUSES:
        found = node.args.get(clause)
        for term in [] if found is None else found.expressions:
            inner = term.this if isinstance(term, exp.Ordered) else term
            while isinstance(inner, exp.Paren):
                inner = inner.this
            index = small_int(inner)
            if index is not None:
                yield clause, index, term

"""Which answers a statement aggregates once more, so that their groups count, and how many groups those are.

All groups of keys with domains are released, empty ones too: nobody may tell from an answer which of them rows have.
So ``SELECT avg(n) FROM (SELECT day, count(*) AS n ... GROUP BY day)`` is the average over all days, also over those
without a row, where DuckDB's is over the days with one. A sum over groups is the same, whatever is empty. The note
says how many groups there are; it follows from the text and the declarations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from duckdp.compiler.combinations import possible
from duckdp.compiler.expression import Aggregate, walk
from duckdp.compiler.frame import aggregates, is_aggregation
from duckdp.compiler.outer.block import table_name
from duckdp.compiler.outer.trees import nodes_of
from duckdp.compiler.query import Query


def group_notes(outer: exp.Expression, queries: Sequence[Query]) -> dict[int, str]:
    """What is noted beside the answers of some parts, by their numbers.

    Args:
        outer: of a statement, over tables of the parts' answers.
        queries: the parts.
    """
    ctes = {node.alias.lower(): node.this for node in nodes_of(outer) if isinstance(node, exp.CTE)}
    numbers = {table_name(i): i for i in range(len(queries))}
    met: set[int] = set()
    for node in nodes_of(outer):
        if isinstance(node, exp.Select) and _counts_rows(node):
            for item in _items(node):
                met |= set(_parts(item, ctes, numbers, frozenset()))
    found = {number: _note(queries[number]) for number in sorted(met)}
    return {number: note for number, note in found.items() if note is not None}


def _note(query: Query) -> str | None:
    """How many groups a part's answer has; None where none of them can be empty, or there is but one."""
    figures = any(isinstance(n, Aggregate) for o in query.outputs for n in walk(o.expr))
    if not query.keys or query.group_count is None or not figures:
        return None
    groups = list(query.groups_of([key.domain or () for key in query.keys]))
    return f"aggregated once more: {len(possible(query, groups)):,} groups, empty ones included"


def _counts_rows(select: exp.Select) -> bool:
    """Whether a SELECT has an aggregate that rows about 0 change: any but a sum."""
    parts = [*select.expressions, *(p for k in ("having", "qualify", "order") if (p := select.args.get(k)) is not None)]
    return any(_is_counting(part) for part in parts)


def _is_counting(node: exp.Expression) -> bool:
    if isinstance(node, exp.Query) or not aggregates(node):
        return False
    if is_aggregation(node):
        inner = node.this if isinstance(node, exp.Filter) else node
        return not isinstance(inner, exp.Sum)
    return any(_is_counting(part) for part in node.iter_expressions())


def _items(select: exp.Select) -> list[exp.Expression]:
    clause = select.args.get("from_")
    return [] if clause is None else [clause.this, *(j.this for j in select.args.get("joins") or ())]


def _parts(
    node: exp.Expression, ctes: Mapping[str, exp.Expression], numbers: Mapping[str, int], within: frozenset[str]
) -> Iterator[int]:
    """The parts of whose groups the rows of an item of FROM are made, as long as nothing groups them between."""
    if isinstance(node, exp.Table):
        name = node.name.lower()
        if node.name in numbers:
            yield numbers[node.name]
        elif name in ctes and name not in within:
            yield from _parts(ctes[name], ctes, numbers, within | {name})
    elif isinstance(node, exp.SetOperation):
        for side in (node.this, node.expression):
            yield from _parts(side, ctes, numbers, within)
    elif isinstance(node, (exp.Subquery, exp.Paren)):
        yield from _parts(node.this, ctes, numbers, within)
    elif isinstance(node, exp.Select) and not node.args.get("group") and not any(map(aggregates, node.expressions)):
        for item in _items(node):
            yield from _parts(item, ctes, numbers, within)

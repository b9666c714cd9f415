"""Trees of the parser made anew: the parsed ones are cached, and never changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp


def rebuilt(
    node: exp.Expression, part: Callable[[exp.Expression], exp.Expression], without: frozenset[str] = frozenset()
) -> exp.Expression:
    """A node like this one with every part made by ``part``, which gives a tree of its own.

    Args:
        node: left as it is.
        part: makes the new part of an old one.
        without: arguments that the new node does not get.
    """
    found: dict[str, object] = {}
    for key, value in node.args.items():
        if key in without:
            continue
        if isinstance(value, exp.Expression):
            found[key] = part(value)
        elif isinstance(value, list):
            found[key] = [part(v) if isinstance(v, exp.Expression) else v for v in value]
        else:
            found[key] = value
    made = type(node)(**found)
    if node._meta:
        made._meta = dict(node._meta)
    return made


def duplicate(node: exp.Expression) -> exp.Expression:
    """A tree like this one, without comments."""
    found = dict(node.args)
    for key, value in found.items():
        if isinstance(value, exp.Expression):
            found[key] = duplicate(value)
        elif isinstance(value, list):
            found[key] = [duplicate(v) if isinstance(v, exp.Expression) else v for v in value]
    made = type(node)(**found)
    if node._meta:
        made._meta = dict(node._meta)
    return made


def nodes_of(tree: exp.Expression) -> Iterator[exp.Expression]:
    """Every node of a tree, each before its parts, as they are written."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for value in reversed(node.args.values()):
            if isinstance(value, exp.Expression):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += [v for v in reversed(value) if isinstance(v, exp.Expression)]


def named_outside(node: exp.Expression, own: frozenset[str] = frozenset()) -> Iterator[exp.Table]:
    """The tables of no schema that a tree names, without those that stand for a CTE of its own.

    Args:
        node: read as SQL does: a CTE stands for its name in what follows it, and in itself if it is recursive.
        own: CTEs that are known already, by lower-case name.
    """
    plain = isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and not node.db
    if isinstance(node, exp.Table) and plain and node.name.lower() not in own:
        yield node
    clause = node.args.get("with_")
    recursive = clause is not None and bool(clause.args.get("recursive"))
    for cte in [] if clause is None else clause.expressions:
        after = own | {cte.alias.lower()}
        yield from named_outside(cte, after if recursive else own)
        own = after
    for part in node.iter_expressions():
        if part is not clause:
            yield from named_outside(part, own)


def column(name: str, table: str | None = None) -> exp.Column:
    """A column by its name, quoted."""
    quoted = exp.to_identifier(table, quoted=True) if table is not None else None
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=quoted)

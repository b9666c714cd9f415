"""Trees of the parser made anew: the parsed ones are cached, and never changed."""

from __future__ import annotations

from collections.abc import Callable

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
    return rebuilt(node, duplicate)


def column(name: str, table: str | None = None) -> exp.Column:
    """A column by its name, quoted."""
    quoted = exp.to_identifier(table, quoted=True) if table is not None else None
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=quoted)

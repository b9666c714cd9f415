"""What stands in FROM of an outer SELECT: releases as they stand, and public tables; and which figure a column is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from duckdp.compiler.frame import aggregates
from duckdp.compiler.outer.block import table_name
from duckdp.compiler.outer.public_rows import is_public_rows
from duckdp.compiler.outer.trees import nodes_of

PUBLIC = -1  # the part of what is no release
_ODD = (exp.Pivot, exp.Columns, exp.Lateral, exp.Unnest)
Named = Mapping[str, exp.Expression]
Figures = Sequence[Sequence[bool | None]]
"""Of each part's outputs: whether it is a figure with an interval, or a key; None: it follows from noise alone."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """What stands in FROM: its name, the SELECT that gives it, None for the table itself, and its part, or PUBLIC."""

    name: str
    block: exp.Select | None
    part: int


def is_grouped(select: exp.Select) -> bool:
    """Whether a SELECT makes one row of several."""
    return bool(select.args.get("group")) or any(aggregates(e) for e in select.expressions)


def sources_of(select: exp.Select, named: Named) -> list[Source] | None:
    """What a SELECT reads, if all of it are releases as they stand and public tables; None: something else.

    Args:
        select: the outermost one, or a subquery of its; subqueries in its FROM without a name get one.
        named: the CTEs that stand before it, by lower-case name.
    """
    clause = select.args.get("from_")
    nodes = list(nodes_of(select))
    if any(isinstance(n, _ODD) for n in nodes):
        return None
    joins = select.args.get("joins") or []
    stars = any(isinstance(n, exp.Star) for e in select.expressions for n in nodes_of(e))
    if any(j.args.get("method") or j.args.get("kind") in ("SEMI", "ANTI") for j in joins):
        return None
    if stars and any(j.args.get("using") for j in joins):
        return None
    items = [] if clause is None else [clause.this, *(j.this for j in joins)]
    if not any(c.table.lower() == "unnamed_subquery" for c in nodes if isinstance(c, exp.Column)):
        _name(items)
    found = [_source(item, named) for item in items]
    sources = [s for s in found if s is not None]
    names = [s.name.lower() for s in sources]
    if len(sources) < len(found) or len(set(names)) < len(names) or _shown_whole(select, nodes):
        return None
    columns = [node for node in nodes if isinstance(node, exp.Column)]
    if any(isinstance(c.this, exp.Identifier) and not c.table and c.name.lower() in names for c in columns):
        return None  # a row as a struct
    return sources


def _name(items: Sequence[exp.Expression]) -> None:
    for number, item in enumerate(items):
        if isinstance(item, exp.Subquery) and not item.alias:
            item.set("alias", exp.TableAlias(this=exp.to_identifier(f"__dp_rows_{number + 1}")))


def _source(item: exp.Expression, named: Named) -> Source | None:
    if is_public_rows(item):
        return Source(name=item.alias_or_name, block=None, part=PUBLIC)
    part = _part(item)
    if part is not None:
        return Source(name=item.alias_or_name, block=None, part=part)
    alias = item.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return None
    if isinstance(item, exp.Subquery):
        inner: exp.Expression | None = item.this
        if any(v for k, v in item.args.items() if k not in ("this", "alias")):
            return None
    elif isinstance(item, exp.Table) and not item.db and item.name.lower() in named:
        cte = named[item.name.lower()]
        inner = None if cte.args["alias"].args.get("columns") else cte.this
    else:
        return None
    if not isinstance(inner, exp.Select) or inner.args.get("distinct") or inner.args.get("with_"):
        return None
    clause = inner.args.get("from_")
    number = None if clause is None or inner.args.get("joins") else _part(clause.this)
    names = [e.alias.lower() for e in inner.expressions]
    if number is None or "" in names or len(set(names)) < len(names):
        return None
    return Source(name=item.alias_or_name, block=inner, part=number)


def _part(item: exp.Expression) -> int | None:
    """The number of the part whose table this is."""
    name = item.name if isinstance(item, exp.Table) and not item.alias else ""
    digits = name.removeprefix("__dp_")
    return int(digits) - 1 if name.startswith("__dp_") and name == table_name(int(digits) - 1) else None


def _shown_whole(outer: exp.Select, nodes: Sequence[exp.Expression]) -> bool:
    """Whether a * below the outermost SELECT, among its nodes, might show columns that are added."""
    for node in (n for n in nodes if isinstance(n, exp.Star)):
        above = node.parent
        if isinstance(above, exp.Column):
            above = above.parent
        if isinstance(above, exp.Select) and above is not outer:
            return True
    return False


def origin(node: exp.Expression, sources: Sequence[Source]) -> tuple[Source | None, int | None]:
    """The source and the place in its part of a plain column; of two sources with such a column none."""
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None, None
    found = []
    for source in sources:
        if source.part == PUBLIC:  # DuckDB refuses a name that it shares with another
            continue
        if node.table and node.table.lower() != source.name.lower():
            continue
        if source.block is None:
            place = place_of(node)
        else:
            own = next((e for e in source.block.expressions if e.alias.lower() == node.name.lower()), None)
            place = None if own is None else place_of(own.this)
        if place is not None:
            found.append((source, place))
    return found[0] if len(found) == 1 else (None, None)


def place_of(node: exp.Expression) -> int | None:
    """The place of a column of a part's table; None: it is another."""
    name = node.name if isinstance(node, exp.Column) else ""
    digits = name.removeprefix("__dp_c")
    return int(digits) - 1 if name.startswith("__dp_c") and digits.isdigit() else None

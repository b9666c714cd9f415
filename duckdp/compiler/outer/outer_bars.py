"""Error bars through the outer part: an output that is a released figure itself brings its interval along.

::

    SELECT a.n, a.n / 2 FROM (SELECT c2 AS n FROM __dp_1) AS a
    SELECT a.n, a.n / 2, a.c2_low AS n_low, ... FROM (SELECT c2 AS n, c2_low, ... FROM __dp_1) AS a

Only where nothing that is written means something else by it: the outermost SELECT, or each of a UNION ALL, neither
groups nor is DISTINCT, and what it reads are releases as they stand, and public tables, of which no ``*`` elsewhere
shows all columns. Else an output has no interval, which is never wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from duckdp.compiler.frame import aggregates
from duckdp.compiler.outer.block import column_name, table_name
from duckdp.compiler.outer.public_rows import is_public_rows
from duckdp.compiler.outer.trees import column, duplicate, nodes_of
from duckdp.result import SUFFIXES

_PUBLIC = -1  # the part of what is no release
_ODD = (exp.Pivot, exp.Columns, exp.Lateral, exp.Unnest)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Which released figure an output is: the number of its part, and its place there."""

    part: int
    place: int


@dataclass(frozen=True, kw_only=True)
class Barred:
    """The outer part with error columns.

    Attributes:
        outer: the tree; three columns for each figure stand after all others, in the order of the figures.
        figures: by the place of an output: in each SELECT of a UNION ALL, or in the one that there is.
    """

    outer: exp.Query
    figures: Mapping[int, tuple[Figure, ...]]


@dataclass(frozen=True, kw_only=True)
class _Source:
    """What stands in FROM: its name, the SELECT that gives it, None for the table itself, and its part, or _PUBLIC."""

    name: str
    block: exp.Select | None
    part: int


def with_bars(outer: exp.Query, released: Sequence[Sequence[bool]]) -> Barred:
    """The outer part with the error columns of outputs that are released figures.

    Args:
        outer: left as it is.
        released: of each part's outputs, whether it is a noisy figure.
    """
    assert isinstance(outer, exp.Expression)
    made = duplicate(outer)
    assert isinstance(made, exp.Query)
    branches = _branches(made)
    found = [_figures(branch, released) for branch in branches]
    common = [p for p in found[0] if all(p in one for one in found)] if found else []
    if not common:
        return Barred(outer=outer, figures={})
    names = [node.alias_or_name for node in branches[0].expressions]
    for branch, figures in zip(branches, found, strict=True):
        added = [_bar(figures[place], names[place], suffix) for place in common for suffix in SUFFIXES]
        branch.set("expressions", [*branch.expressions, *added])
    return Barred(outer=made, figures={place: tuple(one[place][1] for one in found) for place in common})


def _branches(outer: exp.Query) -> list[exp.Select]:
    """The SELECTs of UNION ALL, or the one that there is; none where something else is written."""
    if isinstance(outer, exp.Select):
        return [outer]
    plain = ("this", "expression", "distinct", "order", "limit", "offset")
    if not isinstance(outer, exp.Union) or outer.args.get("distinct"):
        return []
    if any(v for k, v in outer.args.items() if k not in plain):
        return []
    found = [_branches(side) if isinstance(side, exp.Query) else [] for side in (outer.this, outer.expression)]
    whole = all(found) and all(len(one.expressions) == len(found[0][0].expressions) for b in found for one in b)
    return [*found[0], *found[1]] if whole else []


def _figures(made: exp.Select, released: Sequence[Sequence[bool]]) -> dict[int, tuple[_Source, Figure]]:
    """Which outputs of a SELECT are released figures, by their places; ``*`` is written out."""
    sources = _sources(made)
    figures: dict[int, tuple[_Source, Figure]] = {}
    if not sources or not _expanded(made, sources):
        return figures
    for place, node in enumerate(made.expressions):
        source, found = _origin(node.unalias(), sources)
        if source is not None and found is not None and released[source.part][found]:
            figures[place] = source, Figure(part=source.part, place=found)
    return figures


def _bar(found: tuple[_Source, Figure], shown: str, suffix: str) -> exp.Expression:
    """An error column of a figure."""
    source, figure = found
    own = f"{column_name(figure.place)}_{suffix}"
    bar = column(own)
    if source.block is not None:
        bar = column(own, source.name)
        _expose(source.block, own)
    return exp.Alias(this=bar, alias=exp.to_identifier(f"{shown}_{suffix}", quoted=True))


def _sources(outer: exp.Query) -> list[_Source]:
    """What the outermost SELECT reads, if all of it are releases as they stand; else nothing."""
    if not isinstance(outer, exp.Select) or outer.args.get("distinct") or outer.args.get("group"):
        return []
    clause = outer.args.get("from_")
    nodes = list(nodes_of(outer))
    if clause is None or any(isinstance(n, _ODD) for n in nodes) or any(aggregates(e) for e in outer.expressions):
        return []
    joins = outer.args.get("joins") or []
    if any(j.args.get("using") or j.args.get("method") or j.args.get("kind") in ("SEMI", "ANTI") for j in joins):
        return []
    with_ = outer.args.get("with_")
    named = {} if with_ is None else {c.alias.lower(): c for c in with_.expressions}
    found = [_source(item, named) for item in (clause.this, *(j.this for j in joins))]
    sources = [s for s in found if s is not None]
    names = [s.name.lower() for s in sources]
    if len(sources) < len(found) or len(set(names)) < len(names) or _shown_whole(outer, nodes):
        return []
    columns = [node for node in nodes if isinstance(node, exp.Column)]
    if any(isinstance(c.this, exp.Identifier) and not c.table and c.name.lower() in names for c in columns):
        return []  # a row as a struct
    return sources


def _source(item: exp.Expression, named: Mapping[str, exp.Expression]) -> _Source | None:
    if is_public_rows(item):
        return _Source(name=item.alias_or_name, block=None, part=_PUBLIC)
    part = _part(item)
    if part is not None:
        return _Source(name=item.alias_or_name, block=None, part=part)
    alias = item.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return None
    if isinstance(item, exp.Subquery):
        inner: exp.Expression | None = item.this
        others = [k for k, v in item.args.items() if v and k not in ("this", "alias")]
        if others or not item.alias:
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
    return _Source(name=item.alias_or_name, block=inner, part=number)


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


def _expanded(outer: exp.Select, sources: Sequence[_Source]) -> bool:
    """Write the columns of ``*`` out; False where that cannot be done."""
    outputs: list[exp.Expression] = []
    for node in outer.expressions:
        star = node.this if isinstance(node, exp.Column) else node
        if not isinstance(star, exp.Star):
            outputs.append(node)
            continue
        qualifier = node.args.get("table") if isinstance(node, exp.Column) else None
        wanted = [s for s in sources if qualifier is None or s.name.lower() == qualifier.name.lower()]
        if any(star.args.values()) or any(s.block is None for s in wanted):
            return False
        for source in wanted:
            assert source.block is not None
            for name in [e.args["alias"] for e in source.block.expressions]:
                made = exp.Column(this=duplicate(name), table=exp.to_identifier(source.name, quoted=True))
                outputs.append(exp.Alias(this=made, alias=duplicate(name)))
    outer.set("expressions", outputs)
    return True


def _origin(node: exp.Expression, sources: Sequence[_Source]) -> tuple[_Source | None, int | None]:
    """The source and the place in its part of a plain column; of two sources with such a column none."""
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None, None
    found = []
    for source in sources:
        if source.part == _PUBLIC:  # DuckDB refuses a name that it shares with another
            continue
        if node.table and node.table.lower() != source.name.lower():
            continue
        if source.block is None:
            place = _place(node)
        else:
            own = next((e for e in source.block.expressions if e.alias.lower() == node.name.lower()), None)
            place = None if own is None else _place(own.this)
        if place is not None:
            found.append((source, place))
    return found[0] if len(found) == 1 else (None, None)


def _place(node: exp.Expression) -> int | None:
    name = node.name if isinstance(node, exp.Column) else ""
    digits = name.removeprefix("__dp_c")
    return int(digits) - 1 if name.startswith("__dp_c") and digits.isdigit() else None


def _expose(block: exp.Select, own: str) -> None:
    """Let a SELECT over a release give one of its error columns too."""
    if all(e.alias != own for e in block.expressions):
        bar = exp.Alias(this=column(own), alias=exp.to_identifier(own, quoted=True))
        block.set("expressions", [*block.expressions, bar])

"""Error bars through the outer part: an output that is a released figure itself brings its interval along.

::

    SELECT a.n FROM (SELECT c2 AS n FROM __dp_1) AS a
    SELECT a.n, a.c2_low AS n_low, ... FROM (SELECT c2 AS n, c2_low, ... FROM __dp_1) AS a

What is computed from figures has the interval that follows from theirs (outer/computed.py). Only where nothing that
is written means something else by it: the outermost SELECT, or each of a UNION ALL, is not DISTINCT, and what it reads
are releases as they stand, and public tables, of which no ``*`` elsewhere shows all columns. Else an output has no
interval, which is never wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from duckdp.compiler.outer.beside import Beside
from duckdp.compiler.outer.block import column_name
from duckdp.compiler.outer.computed import bars_of
from duckdp.compiler.outer.positions import names_ordered_by, require_places
from duckdp.compiler.outer.sources import Figures, Source, is_grouped, origin, sources_of
from duckdp.compiler.outer.trees import column, duplicate
from duckdp.compiler.output_names import output_name
from duckdp.result import SUFFIXES


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
        made: places of those that are computed from figures (outer/computed.py).
        beside: what has to stand beside the columns of parts for these.
    """

    outer: exp.Query
    figures: Mapping[int, tuple[Figure, ...]]
    made: frozenset[int] = frozenset()
    beside: tuple[Beside, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What is known of an output: the error columns to add, the figures in it, and what these need beside them."""

    bars: tuple[exp.Expression, ...]
    figures: tuple[Figure, ...]
    exposed: tuple[tuple[exp.Select, str], ...] = ()
    beside: tuple[Beside, ...] = ()
    made: bool = False


def with_bars(outer: exp.Query, released: Figures, *, computed: bool = True) -> Barred:
    """The outer part with the error columns of outputs that are released figures, or are computed from some.

    Args:
        outer: left as it is.
        released: of each part's outputs, what it is.
        computed: whether those too that are computed.

    Raises:
        QueryError: Q203, ORDER BY or GROUP BY names a place that no output has.
    """
    assert isinstance(outer, exp.Expression)
    made = duplicate(outer)
    assert isinstance(made, exp.Query)
    branches = _branches(made)
    with_ = made.args.get("with_")
    named = {} if with_ is None else {c.alias.lower(): c for c in with_.expressions}
    found = [_found(branch, released, named, computed=computed) for branch in branches]
    for node in (made, *branches):
        require_places(node)
    common = [p for p in found[0] if all(p in one for one in found)] if found else []
    names = [_called(node) for node in branches[0].expressions] if branches else []
    ordered = frozenset[str]().union(*(names_ordered_by(node) for node in (made, *branches)))
    bars = {f"{names[place]}_{suffix}".lower() for place in common for suffix in SUFFIXES}
    if not common or not ordered.isdisjoint(bars):  # what is ordered by such a name is none of ours
        return Barred(outer=outer, figures={})
    for branch, own in zip(branches, found, strict=True):
        added = [
            exp.Alias(this=bar, alias=exp.to_identifier(f"{names[place]}_{suffix}", quoted=True))
            for place in common
            for bar, suffix in zip(own[place].bars, SUFFIXES, strict=True)
        ]
        branch.set("expressions", [*branch.expressions, *added])
        for block, name in (pair for place in common for pair in own[place].exposed):
            _expose(block, name)
    every = [one[place] for place in common for one in found]
    return Barred(
        outer=made,
        figures={place: tuple(f for one in found for f in one[place].figures) for place in common},
        made=frozenset(place for place in common for one in found if one[place].made),
        beside=tuple(sorted({b for one in every for b in one.beside})),
    )


def _called(node: exp.Expression) -> str:
    """The name of an output, as DuckDB gives it to plain ones without an alias."""
    if isinstance(node, (exp.Alias, exp.Column)):
        return node.alias_or_name
    return f"({output_name(node)})" if isinstance(node, exp.Binary) else output_name(node)


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


def _found(
    made: exp.Select, released: Figures, named: Mapping[str, exp.Expression], *, computed: bool
) -> dict[int, _Found]:
    """What is known of the outputs of a SELECT, by their places; ``*`` is written out."""
    found: dict[int, _Found] = {}
    sources = sources_of(made, named)
    if sources is None or made.args.get("distinct") or (sources and not _expanded(made, sources)):
        return found
    grouped = is_grouped(made)
    for place, node in enumerate(made.expressions):
        source, at = (None, None) if grouped else origin(node.unalias(), sources)
        if source is not None and at is not None and released[source.part][at]:
            figure = Figure(part=source.part, place=at)
            bars = [f"{column_name(at)}_{suffix}" for suffix in SUFFIXES]
            shown = tuple(column(b, None if source.block is None else source.name) for b in bars)
            exposed = tuple((source.block, b) for b in bars) if source.block is not None else ()
            found[place] = _Found(bars=shown, figures=(figure,), exposed=exposed)
            continue
        own = bars_of(node.unalias(), made, sources, released, named) if computed else None
        if own is not None:
            found[place] = _Found(
                bars=own.bars,
                figures=tuple(Figure(part=b.part, place=b.place) for b in own.beside),
                exposed=own.exposed,
                beside=own.beside,
                made=True,
            )
    return found


def _expanded(outer: exp.Select, sources: Sequence[Source]) -> bool:
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


def _expose(block: exp.Select, own: str) -> None:
    """Let a SELECT over a release give one of its error columns too."""
    if all(e.alias != own for e in block.expressions):
        bar = exp.Alias(this=column(own), alias=exp.to_identifier(own, quoted=True))
        block.set("expressions", [*block.expressions, bar])

"""Intervals of what an outer SELECT computes from several released figures: ratios, shares of a total, differences.

::

    SELECT b.t / a.n FROM a, b                          of figures of one or of several releases
    SELECT (SELECT sum(x) FROM t) / (SELECT count(*) FROM u)
    SELECT g, n / sum(n) OVER () FROM (...)             of a share of a total
    SELECT sum(n) FROM (...) [GROUP BY g]

All figures have intervals that hold at once, and the ends follow from them (outer/outer_ends.py). A sum over rows is
off by at most its reach times the square root of their number (outer/beside.py), where each of its rows is one of a
release and stands in it once: no join repeats any, and none is chosen by what noise made of it (WHERE, LIMIT, QUALIFY
before the sum; keys above a threshold; GROUP BY, PARTITION BY or an order of a window by a figure).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from duckdp.compiler.evaluate import NORMAL_95
from duckdp.compiler.frame import aggregates
from duckdp.compiler.outer.beside import Beside
from duckdp.compiler.outer.outer_ends import Ends, ends_of, exact, extreme
from duckdp.compiler.outer.sources import PUBLIC, Figures, Named, Source, is_grouped, origin, place_of, sources_of
from duckdp.compiler.outer.trees import column, nodes_of

_CHOOSING = ("where", "group", "qualify", "limit", "offset", "sample", "distinct", "having")
_ALONE = frozenset(("expressions", "from_"))
Exposed = tuple[exp.Select, str]


@dataclass(frozen=True, kw_only=True)
class Computed:
    """Error, low and high of an output; what SELECTs over releases have to show for it; what must stand beside them."""

    bars: tuple[exp.Expression, ...]
    exposed: tuple[Exposed, ...]
    beside: tuple[Beside, ...]


def bars_of(
    node: exp.Expression, select: exp.Select, sources: Sequence[Source], released: Figures, named: Named
) -> Computed | None:
    """The error columns of an output; None: it holds no figure, or has no rule.

    Args:
        node: left as it is.
        select: that it is of.
        sources: what this reads.
        released: of each part's outputs, what it is.
        named: CTEs by lower-case name.
    """
    first = _Leaves(released, named, 1)
    if ends_of(node, first.of(select, sources)) is None or not first.figures:
        return None
    leaves = _Leaves(released, named, len(first.figures))
    ends = ends_of(node, leaves.of(select, sources))
    if ends is None:
        return None
    wide = exp.Paren(this=exp.Sub(this=ends.high, expression=exp.Paren(this=ends.low)))
    error = exp.Div(this=wide, expression=exp.Literal.number(2 * NORMAL_95))
    return Computed(
        bars=(error, ends.low, ends.high),
        exposed=tuple(leaves.exposed),
        beside=tuple(dict.fromkeys(leaves.beside)),
    )


@dataclass
class _Leaves:
    """The figures of one output.

    Attributes:
        released: of each part's outputs, what it is.
        named: CTEs by lower-case name.
        together: how many figures have to hold at once.
        figures: those that were met.
        exposed, beside: what they need.
    """

    released: Figures
    named: Named
    together: int
    figures: set[str] = field(default_factory=set)
    exposed: list[Exposed] = field(default_factory=list)
    beside: list[Beside] = field(default_factory=list)

    def of(self, select: exp.Select, sources: Sequence[Source], within: str = "") -> _Within:
        """The leaves of an expression of a SELECT; ``within`` tells it from others."""
        return _Within(self, select, sources, within)

    def ends(self, source: Source, place: int, key: str) -> Ends:
        """Of a figure in each row."""
        low, high = self._columns(source, place, key, summed=False)
        return Ends(low=low, high=high)

    def sum_ends(self, source: Source, place: int, key: str, call: exp.Sum, over: exp.Window | None) -> Ends:
        """Of the sum of a figure over rows, of a window or of a group: the sum that is shown is of rounded figures."""
        middle, reach = self._columns(source, place, key, summed=True)

        def whole(call: exp.Expression) -> exp.Expression:
            if over is None:
                return call
            return exp.Window(**(over.args | {"this": call}))

        rows = exp.Sqrt(this=whole(exp.Count(this=middle, big_int=True)))
        one: exp.Expression = reach if over is not None else exp.Max(this=reach)
        off = exp.Paren(this=exp.Mul(this=one, expression=rows))
        totals = [whole(exp.Sum(this=middle)), whole(exp.Sum(this=call.this))]
        return Ends(
            low=exp.Paren(this=exp.Sub(this=extreme(exp.Least, totals), expression=off)),
            high=exp.Paren(this=exp.Add(this=extreme(exp.Greatest, totals), expression=off)),
        )

    def _columns(self, source: Source, place: int, key: str, *, summed: bool) -> list[exp.Expression]:
        self.figures.add(key)
        beside = Beside(part=source.part, place=place, together=self.together, summed=summed)
        self.beside.append(beside)
        if source.block is not None:
            self.exposed += [(source.block, name) for name in beside.names]
        return [column(name, None if source.block is None else source.name) for name in beside.names]


@dataclass(frozen=True)
class _Within:
    """The leaves of an expression of one SELECT."""

    leaves: _Leaves
    select: exp.Select
    sources: Sequence[Source]
    key: str

    def __call__(self, node: exp.Expression) -> Ends | None:
        """The ends of a figure, or of a value that is known; None of anything else."""
        if isinstance(node, exp.Column):
            return None if is_grouped(self.select) else self._column(node)
        if isinstance(node, exp.Subquery):
            return self._subquery(node)
        if isinstance(node, exp.Window) and isinstance(node.this, exp.Sum):
            return None if is_grouped(self.select) else self._sum(node.this, node)
        if isinstance(node, exp.Sum):
            return self._sum(node, None)
        return None

    def _column(self, node: exp.Column) -> Ends | None:
        """A figure, a key, a public value, or what a SELECT over a release computes from these."""
        source, place = origin(node, self.sources)
        if source is not None and place is not None:
            return self._figure(source, place, node)
        if node.table and any(s.part == PUBLIC and s.name.lower() == node.table.lower() for s in self.sources):
            return exact(node)
        of_name = [s for s in self.sources if node.table.lower() in ("", s.name.lower())]
        shown = [(s, e) for s in of_name if s.block is not None for e in s.block.expressions]
        named = [(s, e) for s, e in shown if e.alias.lower() == node.name.lower()]
        if len(named) != 1:
            return None
        ((of, inner),) = named
        return ends_of(inner.unalias(), lambda part: self._inner(of, part))

    def _inner(self, source: Source, node: exp.Expression) -> Ends | None:
        """A column of a release, in an expression of the SELECT over it."""
        place = place_of(node)
        if place is None or not self.leaves.released[source.part][place]:
            return None  # a key is not shown by itself
        return self.leaves.ends(source, place, f"{self.key}{source.name.lower()}.{place}")

    def _figure(self, source: Source, place: int, node: exp.Column) -> Ends | None:
        released = self.leaves.released[source.part][place]
        if not released:
            return exact(node) if released is False else None
        return self.leaves.ends(source, place, f"{self.key}{source.name.lower()}.{place}")

    def _subquery(self, node: exp.Subquery) -> Ends | None:
        """One value of another release."""
        select = node.this
        if not isinstance(select, exp.Select) or any(v for k, v in select.args.items() if v and k not in _ALONE):
            return None
        sources = sources_of(select, self.leaves.named)
        if not sources or len(select.expressions) != 1 or any(k != "this" and v for k, v in node.args.items()):
            return None
        key = f"{self.key}{select!r}:"
        inner = ends_of(select.expressions[0].unalias(), self.leaves.of(select, sources, key))
        if inner is None or inner.constant:
            return None
        made = []
        for end in (inner.low, inner.high):
            made.append(exp.Subquery(this=exp.Select(**(select.args | {"expressions": [end]}))))
        return Ends(low=made[0], high=made[1])

    def _sum(self, call: exp.Sum, over: exp.Window | None) -> Ends | None:
        """Of a figure over rows of one release, each of them once, none of them chosen."""
        if not isinstance(call.this, exp.Column) or len(self.sources) != 1 or self.select.args.get("joins"):
            return None
        (source,) = self.sources
        if self.select.args.get("where") or self.select.args.get("sample"):  # the others choose among the sums
            return None
        if source.block is not None and any(source.block.args.get(k) for k in _CHOOSING):
            return None
        of, place = origin(call.this, self.sources)
        if of is None or place is None or not self.leaves.released[of.part][place] or not self._is_of_keys(over):
            return None
        return self.leaves.sum_ends(of, place, f"{self.key}{over or call!r}", call, over)

    def _is_of_keys(self, over: exp.Window | None) -> bool:
        """Whether which rows a sum is of follows from keys and constants: nothing that says it reads a figure."""
        if over is not None and over.args.get("alias"):
            return False  # what WINDOW names
        group, outputs = self.select.args.get("group"), self.select.expressions
        grouping = [group, *(e for e in outputs if not aggregates(e))] if group else []  # by place, name or ALL
        window = [] if over is None else [exp.Window(**(over.args | {"this": exp.Null()}))]
        said = [n for part in (*grouping, *window) for n in nodes_of(part)]
        names = {e.alias.lower() for e in outputs if grouping and e.alias}
        known = all(self._is_key(n) or n.name.lower() in names for n in said if isinstance(n, exp.Column))
        return known and not any(isinstance(n, exp.Query) for n in said)

    def _is_key(self, node: exp.Column) -> bool:
        source, place = origin(node, self.sources)
        return source is not None and place is not None and self.leaves.released[source.part][place] is False

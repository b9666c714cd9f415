"""How many different values there are, of a column with few: released as how often each occurs, or as their number.

With D public values, u rows and m groups of a unit that count, and noise of scale s per unit of sensitivity:

    number   of each unit at most k = min(u, D) values count in a group: l1 = m k, the noise has scale m k s.
    listed   rows in one cell for each value (a measure of bins): l1 = m u. The answer is the number of cells above
             their noise; the interval reaches from those that are so beyond doubt to D.

Of few values the number drowns (u = 8, D = 4, epsilon 1: 4 +- 12), while each of them is had by many: 4 is told
without error. Of many the number has the same small noise however many there are, and rare ones are lost in cells. Both
are releases as all others; the one with the smaller predicted error is taken, by public figures alone:

    number   its half-width, or D if that is less
    listed   how many of D values are so rare that noise hides them, if the rows that the owner expects fall to values
             as 1, 1/2, 1/3, ... 1/D; half of D where no number of rows is declared

What is proved: k is enforced by what is printed (compiler/distinct_values.py), whatever D is. Listed values are a
function of released cells. A cell without rows is above its noise at level 1 - 2 * 0.05 / D on both sides with
probability 0.05 / D, so by Boole's inequality no value that nobody has is among those beyond doubt, with probability
0.95 at least: so many there are. No more than D there are. Values outside a declared domain do not count.
"""

from __future__ import annotations

import math
from dataclasses import replace

from duckdp.catalog.table import Kind, Scalar
from duckdp.compiler.aggregates import aggregate_row
from duckdp.compiler.binned import MOST_BINS
from duckdp.compiler.domains import Domain, Domains
from duckdp.compiler.expression import Aggregate, Expr, columns, replaced, walk
from duckdp.compiler.facts import facts
from duckdp.compiler.known_aggregates import place
from duckdp.compiler.query import Order, Output, Query

_WIDE = math.log(20)  # half-width at 95% of a Laplace law of scale 1
OUTSIDE = "of count(DISTINCT ...) values outside a declared domain do not count"


def with_listed(query: Query, *, epsilon: float, groups: int, size: int | None) -> Query:
    """The query with each count of different values read as it errs least.

    Args:
        query: validated.
        epsilon: of the statement.
        groups: of a unit that count.
        size: number of groups, or None where keys pass a threshold.
    """
    exprs = [o.expr for o in query.outputs] + [o.expr for o in query.order]
    exprs += [] if query.having is None else [query.having]
    if not any(_is_asked(n) for e in exprs for n in walk(e)):
        return query
    expected = query.table.expected_rows
    rows = None if expected is None or size is None else expected / max(size, 1)
    most = 1 if query.table.unit_key is None else query.table.max_rows
    left_out: list[Aggregate] = []

    def instead(expr: Expr) -> Expr | None:
        if not isinstance(expr, Aggregate) or not _is_asked(expr):
            return None
        found = _domain(expr.argument)
        if found is None:
            return expr
        read = _read(expr, found, most, groups / epsilon, rows)
        if read != expr and not found.complete and found.other is None:
            left_out.append(read)
        return read

    made = replace(
        query,
        outputs=tuple(Output(name=o.name, expr=replaced(o.expr, instead)) for o in query.outputs),
        having=None if query.having is None else replaced(query.having, instead),
        order=tuple(
            Order(expr=replaced(o.expr, instead), descending=o.descending, nulls_first=o.nulls_first)
            for o in query.order
        ),
    )
    return replace(made, told=(*query.told, OUTSIDE)) if left_out else made


def _is_asked(expr: Expr) -> bool:
    """Whether it is the number of different values."""
    return isinstance(expr, Aggregate) and aggregate_row(expr).alone == "values"


def most_values(argument: Expr | None) -> int | None:
    """How many values an argument can have, NULL aside, where that is a short list."""
    found = _domain(argument)
    return None if found is None or not found.complete else len(_values(found))


def _read(aggregate: Aggregate, found: Domain, most: int, scale: float, rows: float | None) -> Aggregate:
    """A count of different values as it errs least.

    Args:
        aggregate: count(DISTINCT x).
        found: the values of x.
        most: rows of a unit that count.
        scale: of the noise of something that a unit changes by 1 in each of its groups.
        rows: expected in a group, or None.
    """
    argument, values = aggregate.argument, _values(found)
    assert argument is not None
    of_number = min(_WIDE * scale * min(most, len(values)), len(values))
    if _hidden(len(values), scale * most, rows) > of_number:
        if found.complete or len(values) >= most:
            return aggregate
        return replace(aggregate, argument=place(argument, list(values), found.other))
    plain = argument.kind is Kind.NUMBER and facts(argument).integral and found.complete
    listed = argument if plain else place(argument, list(values), found.other)
    return Aggregate("count_listed", listed, aggregate.filter)


def _hidden(count: int, scale: float, rows: float | None) -> float:
    """How many values are hidden by noise of that scale, if a group has so many rows."""
    if rows is None:
        return count / 2
    doubt = 2 * scale * math.log(10 * count)  # noise on a cell that is empty, and on one that is not
    per_place = rows / math.fsum(1 / i for i in range(1, count + 1))
    return sum(per_place / i < doubt for i in range(1, count + 1))


def _domain(argument: Expr | None) -> Domain | None:
    """The domain of an argument with a short list of values."""
    if argument is None:
        return None
    known = facts(argument)
    span = known.interval.upper - known.interval.lower
    if argument.kind is Kind.NUMBER and not span < MOST_BINS and all(c.domain is None for c in columns(argument)):
        return None  # not listed only to be thrown away
    found = Domains().find(argument)
    return found if found is not None and 0 < len(_values(found)) <= MOST_BINS else None


def _values(found: Domain) -> tuple[Scalar, ...]:
    return tuple(v for v in found.values if v is not None)

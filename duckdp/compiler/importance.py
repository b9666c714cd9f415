"""How much the noise of each measure weighs in a statement's figures: what its epsilon is split by.

A figure is an output, or what HAVING, ORDER BY or ``min_units`` go by. Its error is taken relative to what it would be
if all measures had equal shares, so that counts, sums and averages of any unit weigh alike, and

    importance of measure i = sum over figures of the part of the figure's variance that is of i, at equal shares
    total error of shares   = sum over i of importance_i / (shares_i in equal shares)^2 = sum over figures of
                              (error / error at equal shares)^2

which mechanisms/additive.py makes least: no more than equal shares give. Most figures are of one measure, and add 1 to
its importance. An average beside another's count (a centred sum) is of two; the parts are those of a group as
predictions expect it (compiler/spreads.py: in the middle of the bounds, at either end, half at each; their mean). Of a
figure that is made of several aggregates (a slope, a ratio) each measure is taken to have an equal part: which has the
most depends on the rows. A count that decides which keys are shown weighs no less than any other measure: its noise
hides keys.

All of it follows from the statement and the declarations, as the split does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from duckdp.compiler.aggregates import Released, aggregate_row
from duckdp.compiler.expression import Aggregate, show
from duckdp.compiler.measures import Measure, counter_of
from duckdp.compiler.spreads import SPREADS, Spread, as_cells, spread_cells

_ROWS = 1e6  # of the group at which variances are compared: they have the same parts in all
_LEAST = 0.01  # importance, so that nothing is left without a share


def importances(measures: Sequence[Measure], figures: Iterable[Iterable[Aggregate]], *, presence: bool) -> list[float]:
    """The importance of each measure, > 0.

    Args:
        measures: as chosen; their grids do not matter.
        figures: of each the aggregates that it is made of.
        presence: the first measure decides which keys are shown.
    """
    plain = [replace(m, bits=0) for m in measures]
    found = [0.0] * len(plain)
    made = {tuple(sorted(set(aggregates), key=show)) for aggregates in figures}
    for aggregates in sorted(made, key=lambda figure: list(map(show, figure))):
        parts: dict[int, float] = {}
        for aggregate in aggregates:
            for place, part in _parts(plain, aggregate).items():
                parts[place] = max(part, parts.get(place, 0.0))
        for place, part in parts.items():
            found[place] += part / sum(parts.values())
    found = [max(importance, _LEAST) for importance in found]
    return [max(found), *found[1:]] if presence else found


def _parts(measures: Sequence[Measure], aggregate: Aggregate) -> dict[int, float]:
    """Which parts of an aggregate's variance are of which measures."""
    own = next(i for i, m in enumerate(measures) if m.serves(aggregate))
    if measures[own].kind != "centred":
        return {own: 1.0}
    counter = counter_of(measures, measures[own])
    counted = _counted(aggregate, measures[own], counter)
    return {own: 1 - counted, measures.index(counter): counted}


def split_weight(importance: Iterable[float]) -> float:
    """What a release weighs among others that share an epsilon: its measures' part, were all of one statement."""
    return math.fsum(a ** (1 / 3) for a in importance)


def _counted(aggregate: Aggregate, centred: Measure, counter: Measure) -> float:
    """Which part of a figure's variance is of the count beside a centred sum."""
    return float(np.mean([_counted_at(aggregate, centred, counter, spread) for spread in SPREADS]))


def _counted_at(aggregate: Aggregate, centred: Measure, counter: Measure, spread: Spread) -> float:
    """The same for rows that lie as a spread says."""
    used = [centred, counter]
    cells = np.array([[cell] for m in used for cell in spread_cells(m, _ROWS, spread)])
    to_cells = as_cells(used, centred)
    given = Released("cells", 1, centred.lower, centred.upper, 1.0, to_cells @ cells)
    squares = (to_cells.T @ aggregate_row(aggregate).value(given)[1])[:, 0] ** 2
    return float(squares[1:].sum() / squares.sum())

"""Grouping sets whose totals are the sums of their parts: combined for less error, or added up from the finest ones.

Two ways beside releasing each set by itself, both of them post-processing of what was released:

- *combined*: all sets are released, each with its share, and generalised least squares (core/consistent_tables.py)
  make one table of them. Totals and parts then tell of each other, so that variances are least, and they add up.
- *added up*: only sets that are in no other are released, with all of the charge, and totals are sums of their cells.

Which of them, or neither, is decided before anything is read, by the mean variance of a released cell in each set,
relative to each set by itself. All of it follows from the statement, the declarations and the price.

Assumes, of combined sets: that they are about the same rows, else the estimates would be biased. That is so where

- no rows are lost for their key: each key that is not in all of the sets has a group for every row (values outside of a
  domain have a label, NULL is in it, and no number can be a NaN);
- a unit counts alike in all of them: its rows are at most ``max_rows``, by public figures, and its groups at most
  ``max_groups`` in each. A unit with more rows than count has as many rows in the total as in each of its groups, so
  totals are then no sums of the parts, and least squares are refused. Units add up where each has one row.

Added up, a unit may have more rows than count: the total is then of the rows that count in the groups, at least as many
as would count in the total alone. Different values, quantiles and what else is told by bins do not add up.

Intervals rest on the law of the combined noise, a sum of independent discrete terms with public coefficients
(core/summedbars.py), not on a variance. As everywhere, they say nothing of the rounding of each row to a grid.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from duckdp.catalog.table import Kind, dump_table
from duckdp.compiler.aggregates import aggregate_row
from duckdp.compiler.enclosed_ends import or_null
from duckdp.compiler.expression import Aggregate, Expr, KeyRef, show, walk
from duckdp.compiler.facts import facts
from duckdp.compiler.intervals import is_exact
from duckdp.compiler.outer.grouping_sets import TOLD
from duckdp.compiler.plan import Plan
from duckdp.compiler.query import Key, Query
from duckdp.compiler.relations.relation import rows_of_unit
from duckdp.core.consistent_tables import Keys, Marginals
from duckdp.core.summedbars import Summed
from duckdp.core.types import Loss
from duckdp.errors import InternalError

COMBINED = (
    "grouping sets are combined by least squares: totals are the sums of their parts, whole numbers but for rounding"
)
ADDED = "totals are added up from the groups of the finest sets, and cost nothing more; whole numbers but for rounding"
_MOST = 100_000  # groups of one set, of figures whose interval is one and the same in all groups
_FEW = 500  # of others, each of which has a law of its own
_KEYS = 4  # of one set: the work of a law is that of all pairs of their subsets
_FINE = 50.0  # grid steps: laws of smaller scales take 40 ms to be inverted, a hundred times as long
_SOME = ("cells", "sum", "centred", "units")  # kinds of measures that add up

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Family:
    """Parts of a statement whose figures add up.

    Attributes:
        places: of the parts, in the statement.
        keys: of all of them, each once, in the order in which they are first met.
        sets: which of these each part groups by.
        order: of each part, the axis of each of its keys among its own, ascending.
        exact: sets are about the same rows however they are bounded, so that they may be combined.
    """

    places: tuple[int, ...]
    keys: tuple[Key, ...]
    sets: tuple[Keys, ...]
    order: tuple[tuple[int, ...], ...]
    exact: bool

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each key has."""
        return tuple(len(key.domain or ()) for key in self.keys)

    @property
    def coarse(self) -> tuple[int, ...]:
        """The parts whose keys another has, too: places in the statement."""
        within = [any(own < other for other in self.sets) for own in self.sets]
        return tuple(place for place, coarser in zip(self.places, within, strict=True) if coarser)

    def marginals(self, plans: Sequence[Plan], measure: int) -> Marginals:
        """The tables of one measure, with variances in natural units; each total has one source unless it is exact."""
        variances = [_variance(plans[place], measure) for place in self.places]
        return Marginals(sizes=self.sizes, sets=self.sets, variances=tuple(variances))


def _variance(plan: Plan, measure: int) -> float:
    noise = plan.noises[measure]
    assert noise is not None
    return math.inf if plan.derived else noise.variance() / plan.measures[measure].steps ** 2


# ---- which parts add up ---------------------------------------------------------------------------------------------


def families(plans: Sequence[Plan]) -> list[Family]:
    """The families of two or more parts, by what they read.

    Args:
        plans: of the parts of a statement.
    """
    alike: dict[tuple[object, ...], list[int]] = {}
    for place, plan in enumerate(plans):
        if _may_add(plan):
            alike.setdefault(_read(plan), []).append(place)
    found = [_family(plans, places) for places in alike.values() if len(places) > 1]
    return [family for family in found if family is not None]


def _may_add(plan: Plan) -> bool:
    """Whether a part is one of grouping sets, with public groups and figures that add up."""
    size = plan.domain_size
    if not {TOLD, COMBINED, ADDED}.intersection(plan.query.told):
        return False
    if plan.query.together:  # totals are of as many groups as public rows say, not of as many each
        return False
    if not plan.measures or size is None or plan.query.min_units is not None or plan.tau is not None:
        return False
    linear = all(_is_one_law(o.expr) for o in plan.query.outputs)
    added = all(m.kind in _SOME and not m.fixed_total for m in plan.measures)
    if len(plan.query.keys) > _KEYS or size > (_MOST if linear else _FEW) or not added:
        return False
    curved = [o.expr for o in plan.query.outputs if not (isinstance(o.expr, KeyRef) or is_exact(o.expr))]
    of_many = [
        n for expr in curved for n in walk(expr) if isinstance(n, Aggregate)
    ]  # with a law for each group or angle
    return all(
        noise is not None and (noise.scale >= _FINE or not any(map(measure.serves, of_many)))
        for measure, noise in zip(plan.measures, plan.noises, strict=True)
    )


def _is_one_law(expr: Expr) -> bool:
    """Whether an output's interval follows from one law in all groups: it is a key, a count, a sum or an average."""
    found = [n for n in walk(expr) if isinstance(n, Aggregate)]
    expr = or_null(expr)
    row = aggregate_row(expr) if isinstance(expr, Aggregate) else None
    return not found or (row is not None and (row.linear or row.ratio is not None))


def _read(plan: Plan) -> tuple[object, ...]:
    measures = [(m.describe(), m.null_cell) for m in plan.measures]
    return dump_table(plan.query.table), show(plan.query.where), str(measures), plan.neighbours


def _family(plans: Sequence[Plan], places: Sequence[int]) -> Family | None:
    keys: dict[tuple[str, str, str], Key] = {}
    for place in places:
        for key in plans[place].query.keys:
            keys.setdefault(_named(key), key)
    where = {name: i for i, name in enumerate(keys)}
    axes = [[where[_named(key)] for key in plans[place].query.keys] for place in places]
    sets = [frozenset(own) for own in axes]
    shared = frozenset.intersection(*sets)
    each = [key for i, key in enumerate(keys.values()) if i not in shared]
    if len(set(sets)) < len(sets) or not all(len(set(a)) == len(a) for a in axes) or not all(map(_covers, each)):
        return None
    family = Family(
        places=tuple(places),
        keys=tuple(keys.values()),
        sets=tuple(sets),
        order=tuple(tuple(sorted(range(len(a)), key=a.__getitem__)) for a in axes),
        exact=all(_unbounded(plans[place]) for place in places),
    )
    return family if family.exact or family.coarse else None


def _named(key: Key) -> tuple[str, str, str]:
    return show(key.expr), repr(key.domain), repr(key.other)


def _covers(key: Key) -> bool:
    """Whether every row has a group of this key."""
    known = facts(key.expr)
    if known.nullable and None not in (key.domain or ()):
        return False
    if key.listed:
        return key.other is not None or key.complete
    numbers = [facts(n) for n in walk(key.expr) if n.kind is Kind.NUMBER and not isinstance(n, Aggregate)]
    return key.complete and all(n.interval.finite for n in numbers)  # else one may be a NaN, which no domain has


def _unbounded(plan: Plan) -> bool:
    """Whether all rows of every unit count in this set, in all of their groups, so that sums over groups are totals."""
    table, size = plan.query.table, plan.domain_size
    rows = 1 if table.unit_key is None else rows_of_unit(table)
    if rows is None or size is None:
        return False
    once = rows == 1 or not any(m.kind == "units" for m in plan.measures)
    return once and rows <= max(1, table.max_rows) and min(rows, size) <= plan.groups


def _may_be_summed(plan: Plan) -> bool:
    """Whether totals may be sums of what counts in each group: units are in several, unless one alone counts."""
    return plan.groups == 1 or not any(m.kind == "units" for m in plan.measures)


# ---- which way ------------------------------------------------------------------------------------------------------


def finest(plans: Sequence[Plan]) -> frozenset[int]:
    """The parts that need not be released, as others have their keys."""
    found = families(plans)
    return frozenset(
        place
        for family in found
        if family.exact or all(_may_be_summed(plans[p]) for p in family.places)
        for place in family.coarse
    )


def combined(plans: Sequence[Plan]) -> list[Plan]:
    """The parts with the laws of what is shown of them.

    Args:
        plans: of parts; what is ``derived`` among them has a family whose other parts have its cells.
    """
    made = list(plans)
    for family in families(plans):
        some = any(plans[place].derived for place in family.places)
        if not family.exact and not some:
            continue
        for number, place in enumerate(family.places):
            plan = replace(plans[place], query=_told(plans[place].query, ADDED if some else COMBINED))
            if not family.exact and not plan.derived:
                made[place] = plan  # bounded by itself, and shown as it was released
                continue
            each = range(len(plan.measures))
            laws = tuple(_law(_seen(family, plans, m, number), family, plans, m, number) for m in each)
            if plan.derived:
                plan = replace(plan, groups=max(plans[p].groups for p in family.places))
            if plan.derived or any(len(law.terms) > 1 for law in laws):
                plan = replace(plan, laws=laws)
            made[place] = plan
    if any(plan.derived and plan.laws is None for plan in made):
        raise InternalError("a part that is not released has none to follow from")
    return made


def relative_error(plans: Sequence[Plan], alone: Sequence[Plan]) -> float:
    """The mean variance of a cell in what is shown, relative to that of each part released by itself."""
    found = []
    for plan, one in zip(plans, alone, strict=True):
        for i, law in enumerate(plan.shown):
            own = one.noises[i]
            if law is not None and own is not None:
                here = law.variance() / plan.measures[i].steps ** 2
                found.append(here / (own.variance() / one.measures[i].steps ** 2))
    return math.fsum(found) / max(1, len(found))


def _seen(family: Family, plans: Sequence[Plan], measure: int, number: int) -> Marginals:
    """The tables that a part's figures are made of: all where they are exact, else the one with the least error."""
    known = family.marginals(plans, measure)
    if family.exact:
        return known
    own = family.sets[number]
    above = [i for i, s in enumerate(family.sets) if own <= s and math.isfinite(known.variances[i])]
    best = min(above, key=lambda i: known.variances[i] * known.size(family.sets[i] - own))
    return replace(known, variances=tuple(v if i == best else math.inf for i, v in enumerate(known.variances)))


def _law(tables: Marginals, family: Family, plans: Sequence[Plan], measure: int, number: int) -> Summed:
    """The noise of a cell, in grid steps of its part."""
    own = plans[family.places[number]].measures[measure].steps
    terms = []
    for c, place, times in tables.terms(number):
        source = plans[family.places[place]]
        noise = source.noises[measure]
        assert noise is not None
        terms.append((c * own / source.measures[measure].steps, noise, times))
    return Summed(tuple(terms))


def _told(query: Query, note: str) -> Query:
    """A question with a note in place of the one that its totals are no sums."""
    return replace(query, told=tuple(note if told == TOLD else told for told in query.told))


def as_derived(plan: Plan) -> Plan:
    """A part that is added up from others: it reads nothing and costs nothing."""
    return replace(plan, derived=True, loss=Loss(epsilon_nano=0))


# ---- what is shown --------------------------------------------------------------------------------------------------


def with_sums(plans: Sequence[Plan], payloads: Sequence[str]) -> list[str]:
    """The payloads as they are shown: cells that are combined, or added up, are in the place of those released.

    Args:
        plans: of :func:`combined`.
        payloads: of each part; of a derived one anything.
    """
    made = list(payloads)
    for family in families(plans):
        if any(plans[place].laws is not None for place in family.places):
            for place, cells in _cells(family, plans, payloads).items():
                made[place] = json.dumps({"keys": None, "cells": cells.tolist()})
    return made


def _cells(family: Family, plans: Sequence[Plan], payloads: Sequence[str]) -> Mapping[int, Floats]:
    """The cells of the parts that have laws of their own, float[groups, cells]."""
    tables = [
        None if plans[place].derived else _natural(family, plans[place], payloads[place], i)
        for i, place in enumerate(family.places)
    ]
    found = {}
    for number, place in enumerate(family.places):
        plan = plans[place]
        if plan.laws is None:
            continue
        columns, start = [], 0
        for m, measure in enumerate(plan.measures):
            seen = _seen(family, plans, m, number)
            for cell in range(start, start + measure.cells):
                given = [None if t is None else t[..., cell] for t in tables]
                used = [t if math.isfinite(v) else None for t, v in zip(given, seen.variances, strict=True)]
                shown = seen.estimate(number, used).transpose(np.argsort(family.order[number]))
                columns.append(shown.ravel() * measure.steps)
            start += measure.cells
        found[place] = np.stack(columns, axis=1)
    return found


def _natural(family: Family, plan: Plan, payload: str, number: int) -> Floats:
    """A part's cells in natural units, by its keys in the family's order: float[n_i ..., cells]."""
    steps = np.array([m.steps for m in plan.measures for _ in range(m.cells)])
    cells = np.array(json.loads(payload)["cells"], dtype=np.float64) / steps
    shape = [len(key.domain or ()) for key in plan.query.keys]
    order = family.order[number]
    return np.asarray(cells.reshape([*shape, plan.cells]).transpose([*order, len(order)]))

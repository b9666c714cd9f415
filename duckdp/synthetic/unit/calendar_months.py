"""Dates of a model moved to the months that were made beside them, in ranges of years. Post-processing.

A step of the range holds days of some months only, and a row's month need not be among them. Such rows change steps
with one another: each goes to the nearest step that has a day of its month and weekday, and in which another such row
gives its place up; where none is left for it, a row whose month two steps have makes room. So every step keeps its
number of rows, and a row its month. Rows for which there is no place even so go to one that is left, and give their
month up: they are more than there are days for. Where other columns tell more of dates than of months, rows stay in
their steps, and months change places the same way: a row gets one of those that came to its step.

Within a step, rows that are at a day of their month already go to the nearest day of their weekday there, others to any
day of month and weekday alike, so that no day is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.synthetic.unit.uniforms import uniforms

Ints = NDArray[np.int64]
_ANY_MONTH, _ANY_WEEKDAY = 12, 7  # codes of what was not made, behind those of 0 to 11 and 0 to 6
_REACHES = (1, 2, 4, 8, 16, 32)  # steps that rows move at most, to make room
_CODES = (_ANY_MONTH + 1) * (_ANY_WEEKDAY + 1)  # of both


@dataclass(frozen=True, kw_only=True, eq=False)
class Days:
    """The days of a range that lie in one of its steps as a whole.

    Attributes:
        day: since 1970, int64[n].
        step: of the range, int64[n].
        steps: how many.
    """

    day: Ints
    step: Ints
    steps: int

    def keys(self, month: Ints | int, weekday: Ints | int, step: Ints) -> Ints:
        """One number for step, month and weekday; either of these may be any."""
        return (step * (_ANY_MONTH + 1) + month) * (_ANY_WEEKDAY + 1) + weekday

    def listed(self, *, months: bool, weekdays: bool) -> tuple[Ints, Ints]:
        """Days by their keys: in that order, and how many lie below each key and the last."""
        month = month_of(self.day) if months else _ANY_MONTH
        key = self.keys(month, weekday_of(self.day) if weekdays else _ANY_WEEKDAY, self.step)
        counts = np.bincount(key, minlength=self.steps * _CODES)
        return self.day[np.argsort(key, kind="stable")], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def month_of(days: Ints) -> Ints:
    """Months of days, 0 to 11."""
    return np.asarray(days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12)


def weekday_of(days: Ints) -> Ints:
    """Weekdays of days: 0 is Sunday; day 0 was a Thursday."""
    return np.asarray((days + 4) % 7)


def place_months(
    days: Days, step: Ints, own: Ints, month: Ints, weekday: Ints, step_of: Callable[[Ints], Ints], *, dates: bool
) -> Ints:
    """A day for each row, of its month and weekday, in its step or one whose row it changes places with.

    Args:
        days: of the range.
        step: of each row, int64[m].
        own: the row's day, int64[m].
        step_of: rows on other days, a day for each -> their steps; negative beyond the range.
        month: 0 to 11; negative where none was made.
        weekday: 0 to 6; negative where none was made.
        dates: rows keep their steps, and change months.

    Returns:
        Days, int64[m].
    """
    month, weekday = np.where(month < 0, _ANY_MONTH, month), np.where(weekday < 0, _ANY_WEEKDAY, weekday)
    lists = {(m, w): days.listed(months=m, weekdays=w) for m in (True, False) for w in (True, False)}
    counts = sum((np.diff(below) for _, below in lists.values()), np.zeros(1, np.int64))
    _, there = _near(own, step, month, weekday, step_of)
    placed = _change_steps(days, counts, step, month, weekday, there)
    there &= placed == step
    if dates:
        month, weekday = _change_months(days, counts, step, placed, month, weekday)
        placed = step
    month = np.where(~there & (counts[days.keys(month, weekday, placed)] == 0), _ANY_MONTH, month)
    weekday = np.where(~there & (counts[days.keys(month, weekday, placed)] == 0), _ANY_WEEKDAY, weekday)
    found, near = _near(own, placed, month, weekday, step_of)
    for (months, weekdays), (order, below) in lists.items():
        at = np.flatnonzero(~near & ((month < _ANY_MONTH) == months) & ((weekday < _ANY_WEEKDAY) == weekdays))
        key = days.keys(month, weekday, placed)[at]
        found[at] = order[below[key] + (uniforms(len(at), 1)[:, 0] * np.diff(below)[key]).astype(np.int64)]
    return found


def _near(own: Ints, step: Ints, month: Ints, weekday: Ints, step_of: Callable[[Ints], Ints]) -> tuple[Ints, Any]:
    """The nearest day of the weekday where a row is in its month and step already, and whether it is.

    By the row's own time of day: of a day that lies in two steps, or in the range in part, a row has its part.
    """
    turn = np.where(weekday == _ANY_WEEKDAY, 0, (weekday - weekday_of(own) + 3) % 7 - 3)
    back = np.where(turn > 0, -7, 7)  # to the other side, where it is as near as can be

    def is_in(day: Ints) -> Any:
        return (step_of(day) == step) & ((month == _ANY_MONTH) | (month_of(day) == month))

    there, found, near = is_in(own), own, np.zeros(len(own), dtype=bool)
    for moved in (turn, turn + back, turn - back):
        here = there & ~near & is_in(own + moved)
        found, near = np.where(here, own + moved, found), near | here
    return found, near


def _change_steps(days: Days, counts: Ints, step: Ints, month: Ints, weekday: Ints, there: Any) -> Ints:
    """Steps of rows, those changed whose step has no day of their month and weekday, but for some that are there."""
    keys = days.keys(month, weekday, step)
    wrong = np.flatnonzero((counts[keys] == 0) & ~there)
    if not len(wrong):
        return step
    wrong = wrong[np.argsort(uniforms(len(wrong), 1)[:, 0])]
    has = counts.reshape(days.steps, _CODES) > 0
    kinds, kind, left = np.unique(keys[wrong], return_inverse=True, return_counts=True)
    free = np.bincount(step[wrong], minlength=days.steps)
    places = _Places(has=has, home=kinds // _CODES, code=kinds % _CODES, left=left, free=free)
    taken = places.nearest()
    found, rows = step.copy(), wrong[np.argsort(kind, kind="stable")]
    first = np.cumsum(left) - left
    for many, steps in taken:  # of each kind, how many rows go where
        found[rows[np.repeat(first, many) + _nth(many)]] = np.repeat(steps, many)
        first = first + many
    settled = _Stacks.of(days.keys(month, weekday, found), has)
    for k, path in places.chains(settled.counts):  # each row goes where the one before it on the path was
        number = path[-1][-1]
        for at, code, to, _ in path:
            found[settled.move(at, code, to, number)] = to
        found[rows[first[k] : first[k] + number]] = path[-1][0]
        first[k] += number
    late = rows[np.repeat(first, places.left) + _nth(places.left)]
    found[late] = np.repeat(np.arange(days.steps), places.free)
    return found


def _change_months(days: Days, counts: Ints, step: Ints, placed: Ints, month: Ints, weekday: Ints) -> tuple[Ints, Ints]:
    """Months and weekdays, of rows that would change steps those of the rows that would come; own weekdays, if they do.

    As many rows leave a step as come to it, so that in the order of both steps one goes to each.
    """
    moved = np.flatnonzero(placed != step)
    moved = moved[np.argsort(uniforms(len(moved), 1)[:, 0])]
    to, of = moved[np.argsort(step[moved], kind="stable")], moved[np.argsort(placed[moved], kind="stable")]
    months, weekdays = month.copy(), weekday.copy()
    months[to], weekdays[to] = month[of], weekday[of]
    own = counts[days.keys(months, weekday, step)] > 0
    return months, np.where(own, weekday, weekdays)


def _nth(counts: Ints) -> Ints:
    """0, 1, ... within each of so many."""
    return np.asarray(np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts))


@dataclass(kw_only=True, eq=False)
class _Places:
    """Rows by kind (their own step, month and weekday) that need a place, and the places that they give up.

    Attributes:
        has: whether a step has days of a month and weekday, bool[steps, codes of both].
        home: own steps of kinds.
        code: month and weekday of kinds.
        left: rows of a kind that have no place.
        free: places of a step.
    """

    has: NDArray[np.bool_]
    home: Ints
    code: Ints
    left: Ints
    free: Ints

    def nearest(self) -> list[tuple[Ints, Ints]]:
        """Places given, the nearest first: in each turn, of each kind, how many rows and their step."""
        steps, kinds, found = np.arange(len(self.free)), np.arange(len(self.home)), []
        fits = self.has[:, self.code].T
        far = np.where(fits, np.abs(steps - self.home[:, None]), 2 * len(steps))
        nearest = np.argsort(far, axis=1, kind="stable")
        for turn in range(int(fits.sum(axis=1).max(initial=0))):
            to = nearest[:, turn]
            asks = np.where(fits[kinds, to], self.left, 0)
            order = np.argsort(to, kind="stable")
            before = np.cumsum(asks[order]) - asks[order]
            before -= before[np.searchsorted(to[order], to[order])]  # of those that ask for the same step
            given = np.empty_like(asks)
            given[order] = np.clip(self.free[to[order]] - before, 0, asks[order])
            self.left = self.left - given
            self.free = self.free - np.bincount(to, weights=given, minlength=len(steps)).astype(np.int64)
            found.append((given, to))
        return found

    def chains(self, settled: Ints) -> Iterator[tuple[int, list[tuple[int, int, int, int]]]]:
        """Places freed for rows that are left: a settled row goes to one that suits it too, and so on to a free place.

        Args:
            settled: rows that have a place, by step and code: changed by who moves them.

        Yields:
            Kind; moves of settled rows, the last one first: from, code, to, how many. Rows of the kind go where the
            last of them comes from.
        """
        reaches = [r for r in _REACHES if r < len(self.free)] + [len(self.free)]  # near ones first
        for reach, k in product(reaches, range(len(self.home))):
            while self.left[k] and (path := self._path(k, reach, settled)):
                number = int(min(self.left[k], self.free[path[0][2]], *(settled[at, code] for at, code, _ in path)))
                self.left[k] -= number
                self.free[path[0][2]] -= number
                yield k, [(at, code, to, number) for at, code, to in path]

    def _path(self, kind: int, reach: int, settled: Ints) -> list[tuple[int, int, int]]:
        """The fewest moves (from, code, to), none farther, that free a place for a kind, the last first; or none."""
        code, steps = self.code[kind], np.arange(len(self.free))
        near = self.has[:, code] & (np.abs(steps - self.home[kind]) <= reach)
        came = np.where(near, -1, -2)  # -2: not reached
        front = np.flatnonzero(came == -1)
        while len(front) and not (ends := front[self.free[front] > 0]).size:
            reached = ((settled[front] > 0)[:, None] & self.has).any(axis=2) & (came == -2)
            reached &= np.abs(steps - front[:, None]) <= reach
            came = np.where(reached.any(axis=0), front[reached.argmax(axis=0)], came)
            front = np.flatnonzero(reached.any(axis=0))
        if not len(front):
            return []
        to, path = int(ends[0]), []
        while came[to] >= 0:
            at = int(came[to])
            path.append((at, int(np.argmax(settled[at] * self.has[to])), to))
            to = at
        return path


@dataclass(kw_only=True, eq=False)
class _Stacks:
    """Rows by step and code.

    Attributes:
        counts: how many, int64[steps, codes]; 0 where a step has no such day.
        rows: of each.
    """

    counts: Ints
    rows: dict[tuple[int, int], Ints]

    @classmethod
    def of(cls, keys: Ints, has: NDArray[np.bool_]) -> _Stacks:
        """Rows by their keys, in random order."""
        order = np.lexsort((uniforms(len(keys), 1)[:, 0], keys))
        counts = np.bincount(keys, minlength=has.size)
        parts = np.split(order, np.cumsum(counts)[:-1])
        rows = {divmod(key, _CODES): parts[key] for key in np.flatnonzero(counts).tolist()}
        return cls(counts=np.where(has, counts.reshape(has.shape), 0), rows=rows)

    def move(self, at: int, code: int, to: int, number: int) -> Ints:
        """Take rows of a step to another."""
        rows = self.rows[at, code]
        gone, self.rows[at, code] = rows[:number], rows[number:]
        there = self.rows.get((to, code))
        self.rows[to, code] = gone if there is None else np.concatenate([there, gone])
        self.counts[at, code] -= number
        self.counts[to, code] += number
        return gone

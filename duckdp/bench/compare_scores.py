"""How far a synthetic table is from its data, by what people do with rows.

::

    tv1, tv2       mean total variation of one- and two-way histograms: ten equal bins of a number, NULL one more
    means          mean distance of averages over the rows that have one, in deviations of their column
    correlations   mean distance of correlations of numbers (and booleans), over rows that have both
    kernels        worst relative error of random mixtures of Gaussian kernels at sigma 4, on unit columns
    model          area under the ROC curve, on rows kept aside, of a logistic regression that learned on the table

Means and correlations count above what a sample of as many rows would err by itself (``Truth.floors``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.bench.compare_sets import PublicSet, Raw
from duckdp.bench.tables_queries import SIGMAS, area_under_curve, draw_queries, learn, worst_relative
from duckdp.catalog.table import Column, Kind
from duckdp.smooth.axes import as_number
from duckdp.synthetic.unit.features import Floats

MEASURES = ("tv1", "tv2", "means", "correlations", "kernels", "model")
BINS = 10  # equal ones, of a number
_QUERIES = 300  # mixtures of kernels
_SIGMA = SIGMAS.index(4)
_FOLDED = math.sqrt(2 / math.pi)  # mean absolute value of a normal error of deviation 1
_LEAST_ROWS = 30  # that have both values of a correlation
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """Rows of a table as the measures see them.

    Attributes:
        codes: per column, its bin of each row, int[n].
        sizes: bins per column.
        numbers: name -> values in units of half the range about its middle, NaN for NULL, float[n].
        unit: float[n, d] in [-1, 1], categories as -1 and 1, NULL as 0.
    """

    codes: list[Ints]
    sizes: list[int]
    numbers: dict[str, Floats]
    unit: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """A set, seen once; its measures of any table.

    Attributes:
        given: the set.
        seen: its rows.
        aside: those that the model is judged on.
        cut: where a number that is the label is cut.
    """

    given: PublicSet
    seen: Seen
    aside: Seen
    cut: float

    @classmethod
    def of(cls, given: PublicSet) -> Truth:
        """A set as its measures see it, where its label is cut at the median if it is a number."""
        seen = see(given.columns, given.rows)
        values = seen.numbers.get(given.label)
        cut = 0.0 if values is None or len(np.unique(values[~np.isnan(values)])) == 2 else float(np.nanmedian(values))
        return cls(given=given, seen=seen, aside=see(given.columns, given.aside), cut=cut)

    @property
    def floors(self) -> dict[str, float]:
        """What a sample of as many rows errs by, where that counts."""
        usual = _FOLDED / math.sqrt(self.given.count)
        return {"means": usual, "correlations": usual}

    def measure(self, made: Mapping[str, NDArray[Any]]) -> dict[str, float]:
        """All measures of a table, given as columns in their own types."""
        seen = see(self.given.columns, made)
        queries = draw_queries(self.seen.unit.shape[1], _QUERIES)
        kernels = worst_relative(queries.answers(seen.unit), queries.answers(self.seen.unit))
        return {
            "tv1": _distance(self.seen, seen, [(i,) for i in range(len(seen.sizes))]),
            "tv2": _distance(self.seen, seen, list(combinations(range(len(seen.sizes)), 2))),
            "means": self._means(seen),
            "correlations": self._correlations(seen),
            "kernels": float(kernels[_SIGMA]),
            "model": self._model(seen),
        }

    def covered(self, made: Mapping[str, NDArray[Any]], bars: Mapping[str, Any]) -> dict[str, list[float]]:
        """Errors over their error bars, of a table's report: by what they are of; at most 1 where a bar holds."""
        seen = see(self.given.columns, made)
        names = [c.name for c in self.given.columns]
        found: dict[str, list[float]] = {"tv1": [], "means": []}
        for name, distance, mean in bars["columns"]:
            found["tv1"].append(_distance(self.seen, seen, [(names.index(name),)]) / distance)
            if mean is not None:
                column = self.given.columns[names.index(name)]
                half = 0.5 if column.kind is Kind.BOOLEAN else (as_number(column.upper) - as_number(column.lower)) / 2
                gap = abs(_mean(seen.numbers[name]) - _mean(self.seen.numbers[name])) * half
                found["means"].append(gap / mean)
        return found

    def _means(self, seen: Seen) -> float:
        found = []
        for name, values in self.seen.numbers.items():
            gap = _mean(seen.numbers[name]) - _mean(values)
            found.append(abs(gap) / max(1e-9, float(np.nanstd(values))))
        return float(np.mean(found)) if found else 0.0

    def _correlations(self, seen: Seen) -> float:
        pairs = list(combinations(self.seen.numbers, 2))
        gaps = [
            abs(correlation(seen.numbers[a], seen.numbers[b]) - correlation(self.seen.numbers[a], self.seen.numbers[b]))
            for a, b in pairs
        ]
        return float(np.mean(gaps)) if gaps else 0.0

    def _model(self, seen: Seen) -> float:
        train, test = self._labelled(seen), self._labelled(self.aside)
        if len(np.unique(train[:, -1])) < 2:
            return 0.5
        return area_under_curve(test[:, :-1] @ learn(train, ridge=1e-4), test[:, -1])

    def _labelled(self, seen: Seen) -> Floats:
        """Unit columns without the label's, then the label: float[n, d' + 1], of rows whose label is known."""
        at = [c.name for c in self.given.columns].index(self.given.label)
        starts = np.concatenate([[0], np.cumsum([_width(c) for c in self.given.columns])])
        inside = np.arange(seen.unit.shape[1])
        others = (inside < starts[at]) | (inside >= starts[at + 1])
        if self.given.label in seen.numbers:
            values = seen.numbers[self.given.label]
            known, label = ~np.isnan(values), np.where(values > self.cut, 1.0, -1.0)
        else:
            known = seen.codes[at] < seen.sizes[at] - 1
            label = np.where(seen.codes[at] == 0, 1.0, -1.0)
        return np.column_stack([seen.unit[known][:, others], label[known]])


def see(columns: tuple[Column, ...], rows: Raw | Mapping[str, NDArray[Any]]) -> Seen:
    """Rows as the measures see them; the last bin of every column is NULL's."""
    codes, sizes, numbers, unit = [], [], {}, []
    for column in columns:
        values = rows[column.name]
        if column.domain is not None:
            place = {v: i for i, v in enumerate(column.domain)}
            code = np.array([place.get(v, len(place)) for v in values.tolist()], dtype=np.int64)
            codes.append(code)
            sizes.append(len(place) + 1)
            unit += [np.where(code == i, 1.0, -1.0) for i in range(len(place) + 1)]
            continue
        u = _unit(column, values)
        missing = np.isnan(u)
        bins = 2 if column.kind is Kind.BOOLEAN else BINS
        placed = np.clip(np.floor((np.nan_to_num(u) + 1) / 2 * bins + 1e-9), 0, bins - 1).astype(np.int64)
        codes.append(np.where(missing, bins, placed))
        sizes.append(bins + 1)
        numbers[column.name] = u
        unit += [np.nan_to_num(u), np.where(missing, 1.0, -1.0)]
    return Seen(codes=codes, sizes=sizes, numbers=numbers, unit=np.column_stack(unit))


def correlation(first: Floats, second: Floats) -> float:
    """The correlation over rows that have both values; 0 where one of them does not vary."""
    both = ~(np.isnan(first) | np.isnan(second))
    if both.sum() < _LEAST_ROWS:
        return 0.0
    a, b = first[both] - first[both].mean(), second[both] - second[both].mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 0 else 0.0


def _mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else 0.0


def _width(column: Column) -> int:
    return 2 if column.domain is None else len(column.domain) + 1


def _unit(column: Column, values: NDArray[Any]) -> Floats:
    if column.kind is Kind.BOOLEAN:
        return np.array([np.nan if v is None or v != v else 2.0 * bool(v) - 1 for v in values.tolist()])
    if column.kind is Kind.DATE:
        listed = [np.nan if v is None else _days(v) for v in values.tolist()]
    else:
        listed = [np.nan if v is None else float(v) for v in values.tolist()]
    low, high = as_number(column.lower), as_number(column.upper)
    return np.clip(2 * (np.array(listed) - low) / (high - low) - 1, -1, 1)


def _days(value: Any) -> float:
    import datetime as dt

    return as_number(dt.date.fromisoformat(value[:10]) if isinstance(value, str) else value)


def _distance(true: Seen, made: Seen, tables: list[tuple[int, ...]]) -> float:
    """Average total variation of tables of one or two columns."""
    found = []
    for columns in tables:
        shape = tuple(true.sizes[i] for i in columns)
        one, two = (
            np.bincount(np.ravel_multi_index(tuple(s.codes[i] for i in columns), shape), minlength=int(np.prod(shape)))
            / len(s.unit)
            for s in (true, made)
        )
        found.append(float(np.abs(one - two).sum() / 2))
    return float(np.mean(found))

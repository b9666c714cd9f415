"""Whether other columns of made rows hang together with a date or with the month that was made beside it.

Where a model made the two apart, rows have months that their dates cannot have, and either can give way: dates to
months, by which what follows the date (a price over years) is blurred, or months to dates, by which what follows the
month (a temperature) is. What other columns tell of each is estimated as mutual information, less what independent
columns of so many rows would show: (r - 1)(c - 1) / 2n of a table of r by c values. Post-processing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_MOST_ROWS = 20_000  # that are looked at, evenly spread
_MOST_VALUES = 30  # of a column, the most frequent ones; others are one more
_PARTS = 10  # of a column of many numbers, with as many rows each


def dates_tell_more(step: Ints, month: Ints, others: Iterable[Any]) -> bool:
    """Whether other columns tell more of the dates than of the months.

    Args:
        step: of the range in which each date lies, one of a few, int64[m].
        month: int64[m], at least 0.
        others: values of each other column, [m] each, None where NULL.

    >>> old = np.repeat([0, 1], 50)
    >>> dates_tell_more(old, np.tile([0, 1], 50), [old * 2.5])
    True
    """
    at = np.linspace(0, len(step) - 1, min(len(step), _MOST_ROWS)).astype(np.int64)
    if not len(at):
        return False
    told = [0.0, 0.0]
    for other in others:
        codes = _codes(np.asarray(other)[at])
        for i, own in enumerate((step[at], month[at])):
            told[i] += _information(own, codes)
    return told[0] > told[1]


def _codes(values: NDArray[Any]) -> Ints:
    """Few codes of values: of the most frequent ones, or of parts of their range."""
    found = pa.array(values.tolist())
    if not (pa.types.is_boolean(found.type) or pa.types.is_string(found.type)) and len(found.unique()) > _MOST_VALUES:
        missing = found.is_null().to_numpy(zero_copy_only=False)
        numbers = values[~missing]
        order = np.argsort(np.argsort(numbers, kind="stable"), kind="stable")
        codes = np.full(len(values), _PARTS)
        codes[~missing] = order * _PARTS // max(1, len(numbers))
        return codes
    codes = found.dictionary_encode("encode").indices.to_numpy(zero_copy_only=False).astype(np.int64)
    frequent = np.argsort(-np.bincount(codes), kind="stable")[:_MOST_VALUES]
    place = np.full(int(codes.max()) + 1, _MOST_VALUES)
    place[frequent] = np.arange(len(frequent))
    return np.asarray(place[codes])


def _information(one: Ints, other: Ints) -> float:
    """Mutual information of two columns of codes, in nats, less its bias; 0 at the least."""
    table = np.bincount(one * (int(other.max()) + 1) + other, minlength=(int(one.max()) + 1) * (int(other.max()) + 1))
    shares = table.reshape(int(one.max()) + 1, -1) / len(one)
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(shares > 0, shares * np.log(shares / np.outer(rows, columns)), 0.0)
    free = (np.count_nonzero(rows) - 1) * (np.count_nonzero(columns) - 1)
    return max(0.0, float(terms.sum()) - float(free) / (2 * len(one)))

"""The stage that counts the NULLs of columns that may have none, by their first counts (``tree.doubtful``).

A row with NULL in j of these m columns adds w to the sums of those j, in units of 2^-``BITS`` of a row:

    Laplace noise    w = floor(2^BITS / j)            l1 of its vector: j w <= 2^BITS
    Gaussian noise   w = isqrt(floor(4^BITS / j))     l2 squared: j w^2 <= 4^BITS

and so the m sums move by

    relation      l1              l2 squared
    ADD_REMOVE    2^BITS          4^BITS          the row's vector
    REPLACE       2 * 2^BITS      2 * 4^BITS      x - y with x, y >= 0: |x - y|^2 <= |x|^2 + |y|^2

A sum is at most its column's number of NULLs, and 0 where there are none.

Privacy:      share * epsilon by discrete Laplace noise, or share * rho of zCDP by discrete Gaussian noise, on every
              sum; the purse adds the shares up. Which columns are counted follows from an earlier release.
Assumes:      a privacy unit is one row of the relation (of a unit of several rows one counts, ``unit.buy.reading``).
Proof sketch: the norms above. A row has exactly one number j and adds nothing elsewhere; what the read gives is how
              many rows have each column NULL at each j, so the sums are formed here, in whole numbers.
Numerics:     integers throughout; the scale of a share is rounded up by core/noise.
Source:       Dwork, McSherry, Nissim, Smith 2006; scaling rows to a norm: Dwork, Talwar, Thakurta, Zhang 2014.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckdp.core.noise import gaussian_noise, gaussian_scale, laplace_noise, laplace_scale
from duckdp.core.types import NANO, PICO, Neighbours
from duckdp.errors import InternalError
from duckdp.synthetic.tree.bins import Ints
from duckdp.synthetic.tree.buy.resumed import fits_means, run_stage
from duckdp.synthetic.tree.doubtful import Noises
from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.unit.buy.purse import Purse
from duckdp.synthetic.unit.charge_terms import BITS
from duckdp.synthetic.unit.stages import Noisy

ReadNulls = Callable[[Sequence[int]], Ints]
"""Of these columns, in how many rows each is NULL as one of j of them, int[m, m] for j from 1: private."""


def weight(together: int, *, squared: bool) -> int:
    """What a row with NULL in so many of the columns adds to each, w."""
    unit = 1 << BITS
    return math.isqrt(unit**2 // together) if squared else unit // together


def count_nulls(batches: Iterable[Sequence[NDArray[Any]]], columns: int) -> Ints:
    """What :data:`ReadNulls` gives, of rows that cross in batches of columns, each nonzero where it is NULL."""
    found = np.zeros((columns, columns), dtype=np.int64)
    for batch in batches:
        missing = np.stack([np.asarray(column) != 0 for column in batch])
        together = missing.sum(axis=0)
        for i, gone in enumerate(missing):
            found[i] += np.bincount(together[gone], minlength=columns + 1)[1:]
    return found


def buy_null_counts(tree: Tree, purse: Purse, read: ReadNulls, determined: Collection[int]) -> None:
    """Count them, and take from ``tree.complete`` what has some; without doubtful columns the share stays unspent."""
    columns = [i for i in tree.complete if i not in determined]
    if not columns:
        return
    share = tree.plan.nulls
    found = run_stage(
        purse, share, lambda: _draw(columns, purse, share, read), lambda stored: fits_means(stored, len(columns))
    )
    deviation = found.deviation * tree.rows
    noises = Noises(first=tree.deviation, second=deviation, gaussian=purse.gaussian, grid=2.0**-BITS)
    (one, two), doubt = noises.weights, noises.doubt(sum(b.null is not None for b in tree.binnings))
    counts = {i: float(m) * tree.rows for i, m in zip(columns, found.means, strict=True)}
    some = {i for i, n in counts.items() if one * _first(tree, i) + two * n >= doubt}
    tree.complete = tuple(i for i in tree.complete if i not in some)
    tree.null_shares = {i: s for i, s in tree.null_shares.items() if i not in some}
    tree.stages.append(("nulls", len(columns), share))


def _draw(columns: Sequence[int], purse: Purse, share: Fraction, read: ReadNulls) -> Noisy:
    exact = _sums(read(columns), squared=purse.gaussian)
    if len(exact) != len(columns):
        raise InternalError("the counts are not those of the columns")
    cost, move = purse.take(share), 2 if purse.neighbours is Neighbours.REPLACE else 1
    if purse.gaussian:
        deviation, family = gaussian_scale(Fraction(cost, PICO), move << 2 * BITS), "gaussian"
        drawn = gaussian_noise(len(exact), deviation)
    else:
        scale = laplace_scale(Fraction(cost, NANO), move << BITS)
        deviation, family = math.sqrt(2) * scale, "laplace"
        drawn = laplace_noise(len(exact), scale)
    whole = max(1.0, purse.rows) * (1 << BITS)
    means = np.array([(value + z) / whole for value, z in zip(exact, drawn, strict=True)])
    return Noisy(means=means, deviation=deviation / whole, family=family, count=len(exact))


def _sums(counts: Ints, *, squared: bool) -> list[int]:
    """The sums of all columns, whole numbers: private."""
    return [sum(int(n) * weight(j, squared=squared) for j, n in enumerate(row, 1)) for row in counts]


def _first(tree: Tree, column: int) -> float:
    """The count of NULLs of its one-way table."""
    return float(tree.counts[column].ravel()[tree.binnings[column].null or 0])

"""The default basis: which functions, and how many, predicted from public figures alone.

Where the analyst names columns and epsilon only, the index set, how many columns interact and the degree are those of
the least predicted error of a stated family of questions, all of them means of functions with values in [0, 1]::

    in one column    Gaussian bumps whose deviation is 0.07 to 0.57 of the range, thresholds over a fifth of the range,
                     a line and a parabola; of listed values, single ones and the lower half
    in two columns   products of one of each
    in three         products of three, one question in fifty, where there are three columns: more noise in all others
                     would pay for them

The predicted error of a question f = sum_r a_r T_r, over n rows::

    1.96 sqrt(sum_(r in basis) a_r^2 Var Z_r) / n  +  min(1, sum_(r not in basis) |a_r|)

the half-width of its noise and a bound on what the basis lacks. Z has the law that the summary would have, n is
``expected_rows`` (else ``row_cap``). The mean over the family decides. Of one column the full tensor is kept, with the
degree of ``degree``. Nothing here reads data, so the choice is public.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from duckdp.catalog.table import Column
from duckdp.core.types import Neighbours
from duckdp.smooth.axes import Axis, Floats, make_axis
from duckdp.smooth.basis import SHAPES, Basis, Shape, count_functions
from duckdp.smooth.product_kernels import kernels_of_basis
from duckdp.smooth.sum_noise import Choice, predict_deviations

MOST_DEGREE = 64  # functions per column that are chosen by themselves; more can be asked for
MOST_FUNCTIONS = (4096, 2048)  # of two columns, and of more
THREE = 0.02  # of the questions: in three columns
MOST_PAIRS = 6  # kinds of pairs of columns that are looked at
_DEGREES = tuple(sorted({round(2 * 1.15**i) for i in range(25)} | {MOST_DEGREE}))
_TERMS = 256  # of the expansions of the family
_BITS = 30  # of the grid that noise is predicted on: it does not matter
_NORMAL = 1.96  # half-widths of 95% in deviations


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A basis and its predicted error.

    Attributes:
        shape: of the index set.
        order: the most columns that interact, or None.
        degree: functions per column.
        error: predicted half-width of an answer, as a share of its question's range.
    """

    shape: Shape
    order: int | None
    degree: int
    error: float

    def __str__(self) -> str:
        order = "" if self.order is None else f", interactions {self.order}"
        return f"{self.shape} of degree {self.degree}{order} (about {self.error:.2g})"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a summary is planned for: all of it is public.

    Attributes:
        columns: of the summary, two or more.
        rows: expected in each summary.
        max_rows: of one unit that count.
        epsilon_nano: the charge, in 1e-9.
        delta_atto: in 1e-18.
        neighbours: the relation.
        prior: exponent of the expected coefficients, or None (``shares``).
        noise: the law that is wanted.
        kernels: whether it may be that of kernels (``kernel_noise``), where the basis is a full tensor.
        order: the most columns that interact, where the analyst says so.
    """

    columns: tuple[Column, ...]
    rows: int
    max_rows: int
    epsilon_nano: int
    delta_atto: int
    neighbours: Neighbours
    prior: int | None
    noise: Choice | Literal["kernels"]
    kernels: bool = False
    order: int | None = None


@lru_cache(maxsize=64)
def rank_bases(asked: Asked) -> tuple[Candidate, ...]:
    """The best basis of every index set and order, the least predicted error first; none where none is small enough."""
    found = []
    for shape, order in itertools.product(SHAPES, _orders(asked)):
        tried: list[Candidate] = []
        for degree in _DEGREES:
            error = _predicted(asked, shape, order, degree)
            if error is None or (len(tried) > 6 and error > 2 * min(c.error for c in tried)):
                break  # too many functions, or far beyond the best
            tried.append(Candidate(shape=shape, order=order, degree=degree, error=error))
        if tried:
            found.append(min(tried, key=lambda c: c.error))
    return tuple(sorted(found, key=lambda c: c.error))


def _orders(asked: Asked) -> list[int | None]:
    d = len(asked.columns)
    if asked.order is not None:
        return [asked.order]
    return [None, *(k for k in (3, 2, 1) if k < d)]


def _predicted(asked: Asked, shape: Shape, order: int | None, degree: int) -> float | None:
    """The mean predicted error of the family, None where the basis is too large."""
    axes = tuple(make_axis(c, degree) for c in asked.columns)
    if count_functions(axes, degree, shape, order) > MOST_FUNCTIONS[len(axes) > 2]:
        return None
    basis = Basis(axes=axes, degree=degree, shape=shape, order=order)
    deviations = _deviations(asked, basis)
    one, two, three = (_mean_error(basis, deviations, asked.rows, k) for k in (1, 2, 3))
    both = (one + two) / 2
    return both if len(axes) < 3 else (1 - THREE) * both + THREE * three


def _deviations(asked: Asked, basis: Basis) -> Floats:
    """Standard deviation of every sum, in rows: float[R]."""
    norms = basis.norms(asked.neighbours, bits=_BITS, max_rows=asked.max_rows, count_public=False)
    found = predict_deviations(
        asked.noise,
        norms,
        levels=basis.levels,
        epsilon_nano=asked.epsilon_nano,
        delta_atto=asked.delta_atto,
        smoothness=asked.prior,
        kernels=kernels_of_basis(basis) if asked.kernels else None,
        count_linf=asked.max_rows << _BITS,
    )
    return found / (1 << _BITS)


def _mean_error(basis: Basis, deviations: Floats, rows: int, width: int) -> float:
    """The mean predicted error of the questions in so many columns: 0 where there are fewer."""
    errors, weights = [0.0], [0]
    for chosen, count in _kinds(basis.axes, width):
        errors.append(float(np.mean(_errors(basis, deviations, rows, chosen))))
        weights.append(count)
    return float(np.average(errors, weights=weights)) if any(weights) else 0.0


def _kinds(axes: Sequence[Axis], width: int) -> list[tuple[tuple[int, ...], int]]:
    """(columns, how many sets of columns are of their kind), the most frequent kinds."""
    kinds = [(axis.degree, axis.ordered, axis.values is None) for axis in axes]
    first: dict[tuple[object, ...], list[int]] = {}
    for i, kind in enumerate(kinds):
        first.setdefault(kind, []).append(i)
    counts: Counter[tuple[int, ...]] = Counter()
    for group in itertools.combinations_with_replacement(first, width):
        need = Counter(group)
        if all(len(first[kind]) >= n for kind, n in need.items()):
            chosen = tuple(i for kind, n in need.items() for i in first[kind][:n])
            counts[chosen] += math.prod(math.comb(len(first[kind]), n) for kind, n in need.items())
    return counts.most_common(MOST_PAIRS)


def _errors(basis: Basis, deviations: Floats, rows: int, chosen: tuple[int, ...]) -> Floats:
    """Predicted errors of the questions in some columns."""
    others = [i for i in range(basis.dimensions) if i not in chosen]
    inside = np.flatnonzero(~np.any(basis.indices[:, others] > 0, axis=1))
    indices, variances = basis.indices[inside][:, list(chosen)].astype(np.int64), deviations[inside] ** 2
    variances = np.where(indices.any(axis=1), variances, 0.0)  # a mean's noise is that of f less its mean
    known = [_family(basis.axes[i]) for i in chosen]
    questions = list(_questions([len(k) for k in known]))
    terms = np.ones((len(questions), len(indices)))
    whole = np.ones(len(questions))
    for column, own in enumerate(known):
        picked = own[[question[column] for question in questions]]
        terms *= picked[:, indices[:, column]]
        whole *= np.abs(picked).sum(axis=1)
    lacking = np.clip(whole - np.abs(terms).sum(axis=1), 0.0, 1.0)
    return np.asarray(_NORMAL * np.sqrt(terms**2 @ variances) / rows + lacking)


def _questions(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Which function of each column: all in one; in more each of the longest with two others of the rest."""
    if len(sizes) == 1:
        yield from ((i,) for i in range(sizes[0]))
        return
    for i in range(max(sizes)):
        for step in (1, 4):
            yield tuple((i * (k * step + 1) + k * step) % size for k, size in enumerate(sizes))


def _family(axis: Axis) -> Floats:
    """Coefficients of the family in one column: float[m, terms]."""
    return _numeric() if axis.values is None else _listed(axis)


@lru_cache(maxsize=1)
def _numeric() -> Floats:
    angles = (np.arange(_TERMS) + 0.5) * (np.pi / _TERMS)
    u = np.cos(angles)
    bumps = [np.exp(-(((u - c) / w) ** 2)) for w in (0.2, 0.4, 0.8, 1.6) for c in (-0.6, 0.0, 0.4)]
    steps = [1 / (1 + np.exp(-(u - c) / s)) for s in (0.1, 0.2) for c in (-0.4, 0.1, 0.5)]
    values = np.array([*bumps, *steps, (u + 1) / 2, ((u + 1) / 2) ** 2])
    turns = np.cos(np.arange(_TERMS)[:, None] * angles) * (2 / _TERMS)
    turns[0] /= 2
    return np.asarray(values @ turns.T)


@lru_cache(maxsize=256)
def _listed(axis: Axis) -> Floats:
    k = axis.degree
    single = np.eye(k)[sorted({0, k // 3, k // 2, k - 1})]
    lower = (np.arange(k) <= (k - 1) // 2).astype(np.float64)[None]
    values = np.concatenate([single, lower]) if k > 2 else single
    if k == 1:
        return single
    mirrored = np.concatenate([values[:, ::-1], values[:, 1:-1]], axis=1)  # the transform on the extrema of T_(k-1)
    found = np.fft.rfft(mirrored).real / (k - 1)
    found[:, [0, -1]] /= 2
    return np.asarray(found)

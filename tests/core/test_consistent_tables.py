"""core/consistent_tables.py: against least squares over dense matrices, and what makes tables add up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from duckdp.core.consistent_tables import Marginals

Floats = NDArray[np.float64]
CASES = [
    ((4,), ((0,), ()), (1.0, 1.0)),
    ((3, 2), ((0, 1), (0,), ()), (2.0, 0.7, 5.0)),
    ((3, 2, 4), ((0, 1), (0,), (), (1, 2), (2,)), (2.0, 0.7, 5.0, 1.1, math.inf)),
    ((2, 3), ((0, 1), (0,), (1,), ()), (1.0, math.inf, math.inf, math.inf)),
    ((1, 3), ((0, 1), (1,)), (1.0, 3.0)),
]


def _of(sizes: Sequence[int], sets: Sequence[Sequence[int]], variances: Sequence[float]) -> Marginals:
    return Marginals(sizes=tuple(sizes), sets=tuple(map(frozenset, sets)), variances=tuple(variances))


def _matrices(found: Marginals) -> list[Floats]:
    """Each table as a matrix over the cells of all keys."""
    whole = found.size(range(len(found.sizes)))
    cells = np.eye(whole).reshape([*found.sizes, whole])
    gone = [tuple(i for i in range(len(found.sizes)) if i not in own) for own in found.sets]
    return [cells.sum(axis=axes).reshape(-1, whole) for axes in gone]


def _dense(found: Marginals, tables: Sequence[Floats | None]) -> tuple[list[Floats], list[Floats]]:
    """Estimates and covariances by the pseudoinverse."""
    each = list(zip(_matrices(found), found.variances, tables, strict=True))
    rows = np.vstack([m / math.sqrt(v) for m, v, y in each if y is not None])
    seen = np.concatenate([y.ravel() / math.sqrt(v) for _, v, y in each if y is not None])
    inverse = np.linalg.pinv(rows)
    return [m @ inverse @ seen for m, _, _ in each], [m @ inverse @ inverse.T @ m.T for m, _, _ in each]


def _seen(found: Marginals) -> list[Floats | None]:
    rng = np.random.default_rng(3)
    shapes = [[found.sizes[i] for i in sorted(own)] for own in found.sets]
    return [rng.normal(5, 3, s) if math.isfinite(v) else None for s, v in zip(shapes, found.variances, strict=True)]


@pytest.mark.parametrize(("sizes", "sets", "variances"), CASES)
def test_estimates_are_those_of_least_squares(
    sizes: tuple[int, ...], sets: tuple[tuple[int, ...], ...], variances: tuple[float, ...]
) -> None:
    found = _of(sizes, sets, variances)
    seen = _seen(found)
    wanted, covariances = _dense(found, seen)
    for place, (given, one, covariance) in enumerate(zip(found.estimates(seen), wanted, covariances, strict=True)):
        assert given.ravel() == pytest.approx(one)
        assert found.variance(place) == pytest.approx(float(covariance[0, 0]))


@pytest.mark.parametrize(("sizes", "sets", "variances"), CASES)
def test_a_cell_is_the_linear_form_that_its_terms_say(
    sizes: tuple[int, ...], sets: tuple[tuple[int, ...], ...], variances: tuple[float, ...]
) -> None:
    """Coefficients of the first cell of each table, by what one unit in each cell of each source adds to it."""
    found = _of(sizes, sets, variances)
    zeros = [None if y is None else np.zeros_like(y) for y in _seen(found)]
    for target in range(len(found.sets)):
        given = []
        for place, table in enumerate(zeros):
            for cell in range(0 if table is None else table.size):
                moved = [None if y is None else y.copy() for y in zeros]
                moved[place].ravel()[cell] = 1.0  # type: ignore[union-attr]
                given.append((place, round(float(found.estimates(moved)[target].ravel()[0]), 9)))
        said = [(place, round(c, 9)) for c, place, times in found.terms(target) for _ in range(times)]
        assert sorted(x for x in given if x[1]) == sorted(x for x in said if x[1])


def test_tables_that_add_up_stay_as_they_are_and_others_are_made_to() -> None:
    found = _of((3, 2), ((0, 1), (0,), (1,), ()), (1.0, 2.0, 3.0, 4.0))
    whole = np.arange(6.0).reshape(3, 2)
    exact = [whole, whole.sum(axis=1), whole.sum(axis=0), whole.sum()]
    for given, one in zip(found.estimates(exact), exact, strict=True):
        assert given == pytest.approx(one)
    fine, rows, columns, total = found.estimates([whole, np.ones(3), np.zeros(2), np.array(7.0)])
    assert fine.sum(axis=1) == pytest.approx(rows)
    assert fine.sum(axis=0) == pytest.approx(columns)
    assert rows.sum() == pytest.approx(total)


def test_weights_that_forget_how_many_cells_are_added_up_are_not_the_best() -> None:
    """The broken twin: of equal variances, a sum of four cells is as good as the total itself."""
    found = _of((4,), ((0,), ()), (1.0, 1.0))
    _, total = found.estimates([np.zeros(4), np.array(1.0)])
    assert float(total) == pytest.approx(0.8)
    equal = 0.5**2 * 4 + 0.5**2
    assert found.variance(1) < equal

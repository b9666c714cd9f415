"""core/nested_tables.py against weighted least squares as matrices: several columns, levels and variances."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from duckdp.core.nested_tables import Estimator, NestedTables
from duckdp.errors import InternalError

Sizes = tuple[tuple[int, ...], ...]
CASES: tuple[tuple[Sizes, tuple[tuple[int, ...], ...], tuple[int, ...]], ...] = (
    (((1, 2, 6),), ((1,), (2,)), (2,)),
    (((1, 2, 6),), ((2,),), (1,)),
    (((1, 2, 4), (1, 3)), ((1, 0), (2, 0), (0, 1), (1, 1)), (1, 1)),
    (((1, 2, 4), (1, 3)), ((1, 0), (2, 0), (0, 1), (1, 1)), (2, 0)),
    (((1, 2), (1, 3), (1, 2)), ((1, 1, 0), (0, 1, 1), (1, 0, 1)), (1, 0, 1)),
    (((1, 2), (1, 3), (1, 2)), ((1, 1, 0), (0, 1, 1), (1, 0, 1)), (0, 0, 0)),
    (((1, 4), (1,)), ((0, 0), (1, 0)), (1, 0)),
)


def adding(sizes: Sizes, table: Sequence[int]) -> np.ndarray:
    """The matrix from finest cells to those of a table."""
    found = np.ones((1, 1))
    for own, at in zip(sizes, table, strict=True):
        found = np.kron(found, np.kron(np.eye(own[at]), np.ones((1, own[-1] // own[at]))))
    return found


@pytest.mark.parametrize(("sizes", "tables", "asked"), CASES)
def test_estimates_are_those_of_weighted_least_squares(sizes, tables, asked):
    rng = np.random.default_rng(3)
    nested, variances = NestedTables(sizes=sizes, tables=tables), rng.uniform(0.5, 3, len(tables))
    matrices = [adding(sizes, t) for t in tables]
    whole = np.concatenate(matrices)
    each = np.repeat(variances, [len(m) for m in matrices])
    wanted = rng.normal(size=nested.shape(asked))
    fine = wanted.ravel() @ adding(sizes, asked)
    normal = np.linalg.pinv(whole.T @ (whole / each[:, None]))
    expected = (whole @ normal @ fine) / each
    known = Estimator(nested, tuple(variances.tolist()))
    found = known.coefficients(wanted, asked)
    assert found == pytest.approx(expected, abs=1e-12)
    assert found @ whole == pytest.approx(fine, abs=1e-12)  # unbiased, whatever the counts
    assert known.variance(wanted, asked) == pytest.approx(float(each @ found**2))
    # the broken twin takes all tables for equally good: unbiased, but of larger variance
    twin = Estimator(nested, (1.0,) * len(tables)).coefficients(wanted, asked)
    assert twin @ whole == pytest.approx(fine, abs=1e-12)
    assert each @ twin**2 >= (each @ found**2) * (1 - 1e-12)


def test_estimates_add_up_across_tables():
    """A pair's table summed over one column is the other column's, and all are the number of rows."""
    sizes, tables = ((1, 2, 4), (1, 3)), ((2, 0), (0, 1), (1, 1))
    nested, rng = NestedTables(sizes=sizes, tables=tables), np.random.default_rng(5)
    noisy = rng.normal(size=nested.cells) * 10
    known = Estimator(nested, (1.0, 2.0, 3.0))

    def estimate(wanted: np.ndarray, asked: tuple[int, ...]) -> float:
        return float(known.coefficients(wanted, asked) @ noisy)

    for cell in range(3):
        alone = np.zeros((1, 3))
        alone[0, cell] = 1
        both = np.repeat(alone, 2, axis=0)
        assert estimate(both, (1, 1)) == pytest.approx(estimate(alone, (0, 1)))
    rows = estimate(np.ones((1, 1)), (0, 0))
    assert estimate(np.ones((4, 1)), (2, 0)) == pytest.approx(rows)
    parts = nested.split(noisy)
    assert not np.isclose(parts[0].sum(), parts[1].sum())  # the noisy tables themselves do not agree


def test_what_no_table_tells_is_refused():
    known = Estimator(NestedTables(sizes=((1, 2), (1, 2)), tables=((1, 0), (0, 1))), (1.0, 1.0))
    with pytest.raises(InternalError):
        known.coefficients(np.eye(2), (1, 1))
    with pytest.raises(InternalError):
        known.coefficients(np.ones(2), (1, 0))
    assert known.nested.answers((1, 0)) and not known.nested.answers((1, 1))


@pytest.mark.parametrize(
    ("sizes", "tables"),
    [
        (((2, 4),), ((1,),)),
        (((1, 2, 3),), ((1,),)),
        (((1, 2, 2),), ((1,),)),
        (((1, 2),), ((2,),)),
        (((1, 2),), ((1, 1),)),
        (((1, 2),), ((1,), (1,))),
        (((1, 2),), ()),
    ],
)
def test_tables_that_are_not_nested_are_refused(sizes, tables):
    with pytest.raises(InternalError):
        NestedTables(sizes=sizes, tables=tables)


def test_all_tables_of_three_columns_are_least_squares_too():
    sizes = ((1, 2), (1, 2), (1, 3))
    tables = tuple(t for t in itertools.product((0, 1), repeat=3) if sum(t) == 2)
    nested = NestedTables(sizes=sizes, tables=tables)
    whole = np.concatenate([adding(sizes, t) for t in tables])
    known = Estimator(nested, (2.0,) * 3)
    for k, table in enumerate(tables):
        cells = np.zeros(nested.shape(table))
        cells.flat[0] = 1
        own = float(known.variance(cells, table))
        assert own < 2.0, "the other tables help"
        fine = cells.ravel() @ adding(sizes, table)
        assert own == pytest.approx(float(fine @ np.linalg.pinv(whole.T @ whole / 2) @ fine)), k

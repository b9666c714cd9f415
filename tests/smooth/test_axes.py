"""Columns in [-1, 1]: bounds, dates, domains, and what each is refused for."""

import datetime as dt

import numpy as np
import pytest

from duckdp.catalog.table import Column, Kind
from duckdp.errors import ParameterError, QueryError
from duckdp.smooth.axes import MAX_VALUES, as_number, from_number, make_axis
from duckdp.smooth.basis import chebyshev
from tests.smooth.tables import column


def test_numbers_map_onto_the_interval():
    axis = make_axis(column("x", 10.0, 30.0), 5)
    np.testing.assert_allclose(axis.to_unit(np.array([5.0, 10, 20, 30, 99])), [-1, -1, 0, 1, 1])
    np.testing.assert_allclose(axis.from_unit(np.array([-1.0, 0, 1])), [10, 20, 30])
    assert (axis.degree, axis.values, axis.ordered) == (5, None, True)


@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [
        ("DATE", dt.date(1969, 12, 30), dt.date(2024, 2, 29)),
        ("TIMESTAMP", dt.datetime(1969, 12, 31, 23), dt.datetime(2030, 1, 1, 12, 30, 0, 7)),
    ],
)
def test_dates_count_days_and_timestamps_microseconds(kind, first, last):
    axis = make_axis(column("d", first, last, kind), 4)
    assert axis.lower == as_number(first) < axis.upper == as_number(last)
    numbers = axis.numbers([first, last])
    np.testing.assert_allclose(axis.to_unit(numbers), [-1, 1])
    assert [from_number(x, axis.kind) for x in axis.from_unit(np.array([-1.0, 1.0]))] == [first, last]
    assert float(axis.from_unit(np.array([0.1]))[0]).is_integer()


def test_a_domain_is_a_basis_of_its_values():
    axis = make_axis(column("sex", None, None, "VARCHAR", domain=("f", "m", "x"), other="x"), 9)
    assert (axis.values, axis.degree, axis.ordered) == (("f", "m", "x"), 3, False)
    np.testing.assert_allclose(axis.nodes, [-1, 0, 1], atol=1e-15)
    np.testing.assert_allclose(axis.numbers(["m", "f"]), [1, 0])
    np.testing.assert_allclose(axis.from_unit(axis.to_unit(np.arange(3.0))), [0, 1, 2])


@pytest.mark.parametrize("k", [1, 2, 3, 7, 30])
def test_every_function_of_the_values_is_a_combination(k):
    """T_0 .. T_(k-1) on the nodes: an invertible matrix, orthogonal with half weights at the ends, reaching 1."""
    axis = make_axis(column("v", None, None, "VARCHAR", domain=tuple(map(str, range(k)))), 2)
    v = chebyshev(axis.nodes, k)
    assert np.linalg.matrix_rank(v) == k
    assert np.abs(v).max(axis=0) == pytest.approx(np.ones(k))
    if k > 1:
        weights = np.ones(k)
        weights[[0, -1]] = 0.5
        gram = v.T @ (weights[:, None] * v)
        np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0, atol=1e-12)


def test_booleans_and_short_ranges_are_listed():
    assert make_axis(column("b", None, None, "BOOLEAN"), 9).values == (False, True)
    assert make_axis(column("n", 0, 5, "INTEGER"), 6).values == (0, 1, 2, 3, 4, 5)
    assert make_axis(column("n", 0, 5, "INTEGER"), 5).values is None
    assert make_axis(column("n", 0, 5), 6).values is None  # not whole
    assert make_axis(column("n", 0, 1, "INTEGER", domain=(0, 1)), 2).ordered
    assert make_axis(column("n", None, None, "INTEGER", domain=(3, None)), 2).values == (3, None)
    assert make_axis(column("t", None, None, "VARCHAR", domain=("a",), other="rest"), 2).values == ("a", "rest")


@pytest.mark.parametrize("duckdb_type", ["DOUBLE", "INTEGER", "DATE", "VARCHAR", "TIMESTAMP"])
def test_neither_bounds_nor_a_domain(duckdb_type):
    with pytest.raises(QueryError) as caught:
        make_axis(column("x", None, None, duckdb_type), 3)
    assert caught.value.code == "Q401"


def test_large_domains_and_equal_floats_are_refused():
    many = tuple(str(i) for i in range(MAX_VALUES + 1))
    with pytest.raises(ParameterError, match="at most 4096"):
        make_axis(column("x", None, None, "VARCHAR", domain=many), 3)
    for degree in (2, 3000):
        with pytest.raises(ParameterError) as caught:
            make_axis(column("x", 2**60, 2**60 + 1, "BIGINT"), degree)
        assert caught.value.code == "P104"


def test_a_bound_that_is_no_number_is_a_type_error():
    with pytest.raises(TypeError):
        make_axis(Column(name="x", source="x", type="DOUBLE", kind=Kind.NUMBER, lower="a", upper="b"), 3)

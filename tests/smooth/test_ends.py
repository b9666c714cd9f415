"""Values that rows gather at: bounds to the last bit, and jumps at single values. Proofs hold there too.

Clamped rows lie exactly at the bounds, and data values often where a condition compares: what is proved of a column is
looked at there and at the neighbouring floats, against what comparisons mean, computed here.
"""

import datetime as dt
import itertools
import math
import operator

import numpy as np
import pytest

from duckdp.catalog.table import Kind
from duckdp.smooth.answer import answer
from duckdp.smooth.axes import Axis, as_number, make_axis
from duckdp.smooth.batch import approximate_many
from duckdp.smooth.fit import boxes, jackson, onesided, structured
from duckdp.smooth.fit.coefficients import approximate, functions_at, read_function
from duckdp.smooth.fit.interpolation import places
from duckdp.smooth.fit.parts import part_of
from duckdp.smooth.fit.points import as_number_expression
from duckdp.smooth.summary import make_basis
from duckdp.synthetic.lp.make.support import grid_values
from tests.smooth.tables import column, connect, summarize, table

# Bounds whose lower + (upper - lower) is not upper, and others.
SHORT = ((-1.0, 0.9), (-0.1, 4.0), (-1.9, 0.3), (0.1, 0.7), (-0.7, 99.9), (0.05, 1.3), (-1e-3, 0.3), (1 / 3, 1e3 / 7))
PLAIN = ((-1.0, 1.0), (0.0, 0.3), (1e9, 1e9 + 1), (-1e-300, 1e-300), (0.0, 1e15), (-(2.0**40), math.pi))
TESTS = {">=": operator.ge, ">": operator.gt, "<": operator.lt, "<=": operator.le, "=": operator.eq}
COLUMNS = {
    "whole": (column("x", -7, 100_000_001, "BIGINT", nullable=False), (-7, 100_000_001, 31)),
    "age": (column("x", 0, 110, "BIGINT", nullable=False), (0, 110, 17)),
    "day": (
        column("x", dt.date(1950, 1, 3), dt.date(2020, 2, 29), "DATE", nullable=False),
        (dt.date(1950, 1, 3), dt.date(2020, 2, 29), dt.date(1970, 1, 1)),
    ),
    "days": (
        column("x", dt.date(1000, 1, 3), dt.date(2020, 2, 29), "DATE", nullable=False),
        (dt.date(1000, 1, 3), dt.date(2020, 2, 29), dt.date(1970, 1, 1)),
    ),
    "time": (
        column("x", dt.datetime(1999, 1, 1, 0, 0, 1), dt.datetime(2020, 1, 1), "TIMESTAMP", nullable=False),
        (dt.datetime(1999, 1, 1, 0, 0, 1), dt.datetime(2020, 1, 1), dt.datetime(2005, 6, 7, 8, 9, 10)),
    ),
}


def awkward_bounds():
    """Pairs of short decimals whose upper end is not reached by rounding, and those that are."""
    decimals = [i / 10 for i in range(-20, 51)] + [0.05, 0.15, 99.9, 100.1, 1e3, 1e15, 0.001]
    return [*SHORT, *PLAIN, *((a, b) for a, b in itertools.product(decimals, decimals) if a < b)]


def every_axis():
    found = [Axis(name="x", kind=Kind.NUMBER, degree=5, lower=a, upper=b) for a, b in awkward_bounds()]
    return found + [make_axis(known, 5) for known, _ in COLUMNS.values()]


def test_the_ends_of_every_axis_are_its_bounds():
    assert sum(a + (b - a) < b for a, b in awkward_bounds()) > 100  # the case that rounding misses
    for axis in every_axis():
        ends = [axis.lower, axis.upper]
        assert axis.from_unit(np.array([-1.0, 1.0])).tolist() == ends
        assert axis.to_unit(np.array(ends)).tolist() == [-1, 1]
        inner = axis.from_unit(np.nextafter([-1.0, 1.0], 0))
        assert axis.lower <= inner[0] <= inner[1] <= axis.upper


def test_grids_that_are_said_to_reach_the_ends_do():
    for axis in every_axis():
        low, high = boxes._ends(axis, 9)
        grids = [places(axis, 50)[0], np.concatenate([low, high]), jackson._quadrature(axis, 4)[0]]
        if axis.kind is Kind.NUMBER:
            known = column("x", axis.lower, axis.upper)
            grids.append(np.array(grid_values(known, axis, 9), dtype=np.float64))
        for x in grids:
            assert (min(x), max(x)) == (axis.lower, axis.upper), axis


def values_of(known, v):
    """(places of a column, what comparisons see there): bounds, the value, and their nearest neighbours."""
    if known.kind is Kind.NUMBER and not known.integral:
        ends = np.array([known.lower, known.upper, v])
        near = np.concatenate([ends, np.nextafter(ends, -np.inf), np.nextafter(ends, np.inf)])
        drawn = known.lower + np.linspace(0, 1, 200) * (known.upper - known.lower)
        return np.clip(np.concatenate([near, drawn]), known.lower, known.upper)
    ends = np.array([as_number(known.lower), as_number(known.upper), as_number(v)])
    drawn = np.rint(np.linspace(ends[0], ends[1], 200))
    return np.clip(np.concatenate([ends, ends - 1, ends + 1, drawn]), ends[0], ends[1])


def literal(v):
    if isinstance(v, dt.datetime):
        return f"TIMESTAMP '{v}'"
    return f"DATE '{v}'" if isinstance(v, dt.date) else f"({v!r})"


def proofs(text, known, degree, truth, x):
    """(bounds that were looked at, those that were false) of a function of one column."""
    basis = make_basis((known,), degree)
    function = as_number_expression(read_function(text, "t", (known,)))
    part = part_of(basis, frozenset(["x"]))
    matrix = functions_at(part, [x])
    fits = [approximate(function, basis)]
    for quick in (False, True):
        fits += approximate_many([function], basis, "t", (known,), lambda c: np.full(len(c), 1e-9), quick=quick)
    terms = structured.take_apart(function, basis)
    near = None if terms is None else structured.near(terms, function, basis)
    checks = [
        np.abs(truth - matrix @ fit.coefficients[part.rows]) <= fit.error for fit in (*fits, near) if fit is not None
    ]
    sides = [fit.sides for fit in fits if fit.sides is not None]
    own = onesided.one_sided(function, basis.axes[0], degree) if basis.axes[0].values is None else None
    sides += [] if own is None else [(own.under, own.over)]
    for under, over in sides:
        checks += [matrix @ under <= truth, matrix @ over >= truth]
    return len(checks), [i for i, check in enumerate(checks) if not check.all()]


def jumps_of(known, values, degree, kinds=5):
    looked, false = 0, []
    for v, (sign, test) in itertools.product(values, list(TESTS.items())[:kinds]):
        x = values_of(known, v)
        holds = test(x, as_number(v))
        text = f"CASE WHEN x {sign} {literal(v)} THEN 1 ELSE 0 END"
        count, wrong = proofs(text, known, degree, holds.astype(float), x)
        looked, false = looked + count, false + [(text, i) for i in wrong]
    return looked, false


@pytest.mark.parametrize("bounds", [*SHORT[:2], *PLAIN[:2]])
def test_jumps_of_numbers_at_bounds_and_at_data_values(bounds):
    known = column("x", *bounds, nullable=False)
    inner = bounds[0] + 0.37 * (bounds[1] - bounds[0])
    looked, false = jumps_of(known, [*bounds, inner], 6)
    assert looked >= 15 * 5
    assert false == []


@pytest.mark.parametrize("kind", COLUMNS)
def test_jumps_of_whole_numbers_dates_and_times(kind):
    looked, false = jumps_of(*COLUMNS[kind], 6)
    assert looked >= 15 * 4
    assert false == []


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [*SHORT, *PLAIN])
@pytest.mark.parametrize("degree", [3, 12])
def test_jumps_at_many_bounds(bounds, degree):
    known = column("x", *bounds, nullable=False)
    middle = bounds[0] / 2 + bounds[1] / 2
    looked, false = jumps_of(known, [*bounds, middle, bounds[0] + 0.9999 * (bounds[1] - bounds[0])], degree)
    assert looked >= 20 * 5
    assert false == []


def test_intervals_hold_shares_of_rows_at_the_bounds():
    """Half of the rows lie at a bound or beyond it; the noise is a 100,000th, so nothing but the proof is seen."""
    for (low, high), share in {(-1.0, 0.9): 0.5, (-0.1, 4.0): 0.25}.items():
        known = [column("x", low, high, nullable=False), column("y", nullable=False)]
        with connect() as con:
            con.execute(
                f"CREATE TABLE t AS SELECT CASE WHEN range < {20_000 * share} THEN {high} + range % 3 "
                f"WHEN range % 5 = 0 THEN {low} - range % 2 ELSE {low} + random() * ({high} - {low}) END::DOUBLE AS x, "
                "random() AS y FROM range(20000)"
            )
            summary = summarize(con, table(*known, expected_rows=20_000), ["x", "y"], epsilon=1000.0, degree=6)
            texts = [
                f"CASE WHEN x {sign} {end} THEN {value} ELSE 0 END"
                for sign, end in ((">=", high), ("<", high), ("<=", low))
                for value in ("1", "y")
            ]
            items = ", ".join(f"avg(({text})::DOUBLE)" for text in texts)
            clamped = f"(SELECT greatest({low}::DOUBLE, least({high}::DOUBLE, x)) AS x, y FROM t)"
            truth = con.execute(f"SELECT {items} FROM {clamped} AS t").fetchone()
        for text, true in zip(texts, truth, strict=True):
            found = answer(summary, text, level=0.9999)
            assert found.low - 1e-9 <= true <= found.high + 1e-9, (text, low, high)

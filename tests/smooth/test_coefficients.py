"""Combinations of the basis for every kind of column and index set, with errors looked at where rows can be."""

import datetime as dt

import numpy as np
import pytest

from duckdp.compiler.expression import columns
from duckdp.errors import NumericalError, ParameterError, QueryError
from duckdp.smooth import batch
from duckdp.smooth.batch import approximate_many
from duckdp.smooth.fit import leastsquares
from duckdp.smooth.fit.coefficients import approximate, read_function
from duckdp.smooth.fit.interpolation import count_values, places, rule_for, zeros_lebesgue
from duckdp.smooth.fit.parts import part_of
from duckdp.smooth.fit.points import Points, evaluate
from duckdp.smooth.fit.terms import degrees, split
from duckdp.smooth.shapes import cut_numbers
from duckdp.smooth.summary import make_basis
from tests.smooth.expressions import analytic, generator, rough
from tests.smooth.tables import column

X, Y = column("x"), column("y", -3.0, 5.0)
AGE = column("age", 0, 110, "BIGINT")
CITY = column("city", None, None, "VARCHAR", domain=("Rome", "Oslo", "Lima", "Bonn"))
SMOKER = column("smoker", None, None, "BOOLEAN")
KIDS = column("kids", 0, 4, "INTEGER")
BORN = column("born", dt.date(1990, 1, 1), dt.date(1999, 12, 31), "DATE")
DAY = column("day", dt.date(2024, 1, 1), dt.date(2024, 1, 20), "DATE")
SEEN = column("seen", dt.datetime(2024, 1, 1), dt.datetime(2024, 12, 31), "TIMESTAMP")
MIXED = (X, AGE, CITY, SMOKER, KIDS, BORN, SEEN)


def random_rows(basis, n, seed=0):
    """Points where rows can be: whole numbers, days and listed values as they are."""
    rng, x = generator(seed), []
    for axis in basis.axes:
        listed = count_values(axis)
        if axis.values is not None:
            x.append(rng.integers(0, listed, n).astype(float))
        else:
            u = rng.uniform(-1, 1, n)
            u[: n // 4] = np.round(u[: n // 4])
            x.append(np.rint(axis.from_unit(u)) if listed else axis.from_unit(u))
    return Points(basis.axes, tuple(x))


def worst(function, basis, found, points):
    u = np.stack([axis.to_unit(x) for axis, x in zip(basis.axes, points.x, strict=True)], axis=1)
    return float(np.max(np.abs(evaluate(function, points) - basis.evaluate(u) @ found)))


def fit(text, known, degree=8, **more):
    basis = make_basis(known, degree, more.pop("shape", "tensor"), more.pop("order", None))
    function = read_function(text, "t", known)
    return function, basis, approximate(function, basis, **more)


@pytest.mark.parametrize(
    ("text", "known", "largest"),
    [
        ("CASE city WHEN 'Rome' THEN 3 WHEN 'Lima' THEN -1 ELSE 0.5 END", (CITY,), 1e-10),
        ("smoker", (SMOKER, X), 1e-10),
        ("CASE WHEN smoker AND kids > 2 THEN 1 ELSE 0 END", (SMOKER, KIDS), 1e-10),
        ("power(kids, 3) - floor(kids / 2)", (KIDS,), 1e-9),
        ("length(city) * kids", (CITY, KIDS, X), 1e-8),
        ("sqrt(age + 10)", (AGE,), 0.02),
        ("age > 40", (AGE,), 1.0),
        ("(year(day) - 2023) * day(day)", (DAY,), 1e-3),
        ("date_diff('day', DATE '1995-01-01', born) / 1000.0", (BORN, X), 1e-3),
        ("sin(date_diff('day', DATE '1995-01-01', born) / 1000.0)", (BORN,), 1e-3),
        ("month(seen)", (SEEN,), 6.0),
        ("exp(-x) * (city = 'Oslo') + kids", (X, CITY, KIDS), 1e-4),
    ],
)
def test_every_kind_of_column(text, known, largest):
    function, basis, found = fit(text, known)
    error = worst(function, basis, found.coefficients, random_rows(basis, 5000))
    assert error <= found.error <= largest
    read = {c.name for c in columns(function)}
    assert found.proved or "seen" in read or ("born" in read and "x" in {c.name for c in known} & read)


@pytest.mark.parametrize("days", [2, 3, 9, 20, 100, 4000])
@pytest.mark.parametrize("degree", [3, 12])
def test_short_and_long_spans_of_days(days, degree):
    day = column("day", dt.date(2000, 1, 1), dt.date(2000, 1, 1) + dt.timedelta(days=days - 1), "DATE")
    function, basis, found = fit("date_diff('day', DATE '2000-01-01', day)", (day,), degree)
    assert found.error < 1e-4 * days
    assert np.max(np.abs(found.coefficients)) < days  # a polynomial that vanishes on all days is not added
    assert worst(function, basis, found.coefficients, random_rows(basis, 500)) <= found.error


def test_jumps_are_looked_at_where_they_are():
    _, _, found = fit("CASE WHEN x > 0.4567 THEN 1 ELSE 0 END", (X,), 24)
    at = np.array([0.4567 - 1e-6, 0.4567 + 1e-6])
    p = np.polynomial.chebyshev.chebval(2 * at - 1, found.coefficients)
    assert max(abs(p[0] - 0), abs(p[1] - 1)) <= found.error <= 1


@pytest.mark.parametrize("shape", ["total_degree", "hyperbolic_cross"])
@pytest.mark.parametrize("order", [None, 1, 2])
def test_index_sets_pay_for_what_they_lack(shape, order):
    known = (X, Y, AGE)
    for text in ("x * y + age", "exp(-x) + sin(y) + ln(age + 5)", "x * y * age", "exp(x * y / 5) * age"):
        function, basis, found = fit(text, known, 7, shape=shape, order=order)
        assert worst(function, basis, found.coefficients, random_rows(basis, 4000)) <= found.error
    assert found.error > 0.1  # a product that the set does not hold
    lean = make_basis((X, Y), 7, "total_degree")
    assert approximate(read_function("x * x * y + power(y, 4)", "t", (X, Y)), lean).error < 1e-8


def test_thirty_columns_in_pairs():
    known = tuple(column(f"c{i}") for i in range(30))
    terms = " + ".join(f"exp(-c{i} * c{(i + 1) % 30})" for i in range(30))
    function, basis, found = fit(f"({terms}) / 30 - 2 * c7 + 1", known, 4, order=2)
    assert basis.size == 1 + 30 * 3 + 435 * 9
    assert worst(function, basis, found.coefficients, random_rows(basis, 500)) <= found.error < 0.02
    assert found.proved


def test_too_many_columns_together_are_fitted_by_least_squares():
    known = tuple(column(f"c{i}") for i in range(12))
    inner = " + ".join(f"c{i} * {(-1) ** i * 0.3}" for i in range(12))
    function, basis, found = fit(f"1 / (1 + exp({inner}))", known, 4, order=2)
    assert not found.proved
    assert worst(function, basis, found.coefficients, random_rows(basis, 5000)) <= found.error < 0.15


def test_least_squares_without_a_margin_would_be_caught(monkeypatch):
    monkeypatch.setattr(leastsquares, "SAFETY", 0.3)
    known = tuple(column(f"c{i}") for i in range(12))
    inner = " + ".join(f"c{i} * {(-1) ** i * 0.9}" for i in range(12))
    function, basis, found = fit(f"1 / (1 + exp({inner}))", known, 4, order=2)
    assert worst(function, basis, found.coefficients, random_rows(basis, 5000)) > found.error


def test_only_columns_that_are_read_have_coefficients():
    _, basis, found = fit("exp(-y)", (X, Y, AGE), 5)
    assert np.all(found.coefficients[(basis.indices[:, 0] > 0) | (basis.indices[:, 2] > 0)] == 0)


def test_estimates_hold_for_rough_functions_at_nearly_all_points():
    rng, wrong = generator(5), 0
    for k in range(24):
        known = (X, column("y"))[: 1 + k % 2]
        function, basis, found = fit(rough(rng, [c.name for c in known]), known, int(rng.integers(3, 12)))
        wrong += worst(function, basis, found.coefficients, random_rows(basis, 3000)) > found.error
    assert wrong <= 2


def test_lebesgue_constants_are_those_of_the_rules():
    for t in (2, 5, 16):
        rule = rule_for(make_basis((X,), t).axes[0])
        u = np.cos(np.linspace(0, np.pi, 4001))
        sums = np.abs(np.polynomial.chebyshev.chebvander(u, t - 1) @ rule.matrix).sum(axis=1)
        assert zeros_lebesgue(t) == pytest.approx(sums.max(), rel=1e-11)


def test_places_hold_all_values_or_say_so():
    kids, age = make_basis((KIDS, AGE), 8).axes
    assert places(kids, 2)[1]
    assert places(age, 200)[1]
    assert len(places(age, 200)[0]) == 111
    some, complete = places(age, 20)
    assert not complete
    assert np.all(some == np.rint(some))


def test_terms_and_degrees():
    function = read_function("2 * (x - exp(y) / 4) - -x * y", "t", (X, Y))
    assert [(t.factor, sorted(t.reads)) for t in split(function)] == [(2.0, ["x"]), (-0.5, ["y"]), (-1.0, ["x", "y"])]
    known = (X, Y, CITY)
    cases = {
        "power(x, 3) * y / 7 - 1": {"x": 3, "y": 1},
        "length(city) * x": {"x": 1},
        "x / y": None,
        "power(x, 0.5)": None,
        "abs(x)": None,
        "power(x * y, 2)": {"x": 2, "y": 2},
    }
    for text, wanted in cases.items():
        assert degrees(read_function(text, "t", known), frozenset({"city"})) == wanted


def texts(rng, n, names):
    return [analytic(rng, names) if k % 3 else rough(rng, names) for k in range(n)]


def test_many_at_once_are_what_they_are_one_by_one():
    rng, known = generator(9), (X, Y)
    basis = make_basis(known, 9)
    many = [*texts(rng, 24, ["x", "y"]), "1", "x * 1.5 + .25", "ln(2 + x)", "ln(3e0 + x)", 'power("x", 2)', "x > 1"]
    for text, found in zip(many, approximate_many(many, basis, "t", known), strict=True):
        alone = approximate(read_function(text, "t", known), basis)
        np.testing.assert_allclose(found.coefficients, alone.coefficients, atol=1e-12 * (1 + np.abs(alone.error)))
        assert found.error >= 0.7 * alone.error - 1e-9


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("x * 2", ("x * ?", [2.0])),
        ("x1 + 1.5e-3 - .5", ("x1 + ? - ?", [0.0015, 0.5])),
        ("city = '12' AND \"a 1\" > 3.", ("city = '12' AND \"a 1\" > ?", [3.0])),
        ("0xFF + x", None),
        ("1_000", None),
        ("x -- 2", None),
        ("x /* 2 */", None),
        ("$1 + x", None),
        ("? + x", None),
        ("1e999", None),
        ("[1, 2]", None),
    ],
)
def test_numbers_are_cut_from_texts_where_that_is_plain(text, cut):
    assert cut_numbers(text) == cut


def test_errors_of_a_list_name_the_function():
    basis = make_basis((X,), 4)
    with pytest.raises(NumericalError, match="function 3 of the list") as caught:
        approximate_many(["x + 1", "x + 2", "1 / (x - 0)", "x + 3"], basis, "t", (X,))
    assert caught.value.code == "N102"
    with pytest.raises(NumericalError, match="function 2 of the list"):
        approximate_many(["abs(x)", "nullif(x, 0)"], basis, "t", (X,))
    for bad, code in (
        ("ln(x - 2)", "Q402"),
        ("nope * 2", "Q207"),
        ("x * (SELECT 2)", "Q204"),
        ("sum(x) / 2", "Q301"),
        ("random() * 2", "Q202"),
        ("x, 2", "Q101"),
        ("'a'", "Q203"),
        ("1e400 * x", "Q104"),
        ("x * 2; DROP TABLE t", "Q102"),
        ("", "Q101"),
    ):
        with pytest.raises(QueryError) as refused:
            approximate_many(["x", bad], basis, "t", (X,))
        assert refused.value.code == code


def test_an_unknown_method_is_refused():
    with pytest.raises(ParameterError) as caught:
        fit("x", (X,), method="splines")
    assert (caught.value.code, caught.value.name) == ("P107", "method")


def test_parts_select_and_place():
    basis = make_basis((X, Y, AGE), 5, "total_degree")
    part = part_of(basis, frozenset({"x", "age"}))
    kept = np.arange(1.0, len(part.rows) + 1)[None]
    np.testing.assert_array_equal(part.select(part.tensor(kept)), kept)


def test_shapes_of_their_own_are_evaluated_in_one_statement(monkeypatch):
    from duckdp.smooth.fit import points as nodes

    monkeypatch.setattr(batch, "by_factors", lambda *given: [None] * len(given[1]))  # what that leaves
    calls = []
    whole = nodes._execute
    monkeypatch.setattr(nodes, "_execute", lambda *a: calls.append(1) or whole(*a))
    basis = make_basis((X, Y), 16)
    many = [f"x {'+ x ' * k} + exp(-y)" for k in range(30)]
    found = approximate_many(many, basis, "t", (X, Y))
    assert len(calls) == 2  # nodes and the grid where errors are looked at
    for k in (0, 29):
        np.testing.assert_allclose(
            found[k].coefficients, approximate(read_function(many[k], "t", (X, Y)), basis).coefficients, atol=1e-9
        )


def test_translations_of_one_shape_are_evaluated_together_too(monkeypatch):
    from duckdp.smooth.fit import points as nodes

    monkeypatch.setattr(batch, "by_factors", lambda *given: [None] * len(given[1]))  # what that leaves
    calls = []
    whole = nodes._execute
    monkeypatch.setattr(nodes, "_execute", lambda *a: calls.append(1) or whole(*a))
    basis = make_basis((X, Y), 16)
    many = [read_function(f"exp(-{k} * x / 40) * y + {k}", "t", (X, Y)) for k in range(30)]
    found = approximate_many(many, basis, "t", (X, Y))
    assert len(calls) == 2
    for k in (0, 29):
        np.testing.assert_allclose(found[k].coefficients, approximate(many[k], basis).coefficients, atol=1e-12)

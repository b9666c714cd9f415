"""Functions that cancel: what is proved of them holds in exact arithmetic, the ends of their values included."""

from fractions import Fraction

import numpy as np
import pytest

from duckdp.compiler.expression import columns
from duckdp.smooth.answer import answer, answers
from duckdp.smooth.batch import approximate_many
from duckdp.smooth.fit.coefficients import Approximation, functions_at, outward, read_function
from duckdp.smooth.fit.parts import part_of
from duckdp.smooth.fit.points import as_number_expression
from duckdp.smooth.summary import make_basis
from tests.smooth.tables import column, connect, summarize, table

KNOWN = (
    column("x", 0.0, 0.3, nullable=False),
    column("y", 0.0, 1.0, nullable=False),
    column("k", 0, 9, "BIGINT", nullable=False),
)
F = Fraction
FUNCTIONS = {
    "((x + 1e15) - 1e15)": lambda x, y, k: x,
    "abs((x + 1e15) - 1e15)": lambda x, y, k: x,
    "abs(((x + 1e15) - 1e15) - 0.15) * abs(y - 0.5)": lambda x, y, k: abs(x - F(0.15)) * abs(y - F(0.5)),
    "((x + 1e15) - 1e15) * abs(y - 0.5)": lambda x, y, k: x * abs(y - F(0.5)),
    "((x + 1e15) - 1e15) * y": lambda x, y, k: x * y,
    "(greatest(x, 0.1) + 1e15 - 1e15) * (least(y, 0.4) - 0.2)": lambda x, y, k: (
        max(x, F(0.1)) * (min(y, F(0.4)) - F(0.2))
    ),
    "CASE WHEN y > 0.5 THEN (x + 1e15) - 1e15 ELSE 0 END": lambda x, y, k: x if y > F(0.5) else F(0),
    "abs(y - 0.5) + 1e15 - 1e15": lambda x, y, k: abs(y - F(0.5)),
    "abs(y - 0.5) + x + 1e15 - 1e15": lambda x, y, k: abs(y - F(0.5)) + x,
    "((k / 10.0 + 1e15) - 1e15) * abs(y - 0.5)": lambda x, y, k: F(float(k) / 10) * abs(y - F(0.5)),
    "CASE WHEN (x + 1e15) - 1e15 > 0.26 THEN y ELSE 0 END": lambda x, y, k: y if x > F(0.26) else F(0),
    "floor(((x + 1e15) - 1e15) * 4) * y": lambda x, y, k: F((x * 4).__floor__()) * y,
    "floor(((x + 1e15) - 1e15) * 4)": lambda x, y, k: F((x * 4).__floor__()),
    "greatest((x + 1e6) - 1e6, 0.1) * abs(y - 0.5)": lambda x, y, k: max(x, F(0.1)) * abs(y - F(0.5)),
}


def beyond(fit: Approximation, values, matrix) -> list[str]:
    """What is said of values and does not hold."""
    found = []
    if fit.proved and (np.abs(values - matrix @ fit.coefficients) > fit.error).any():
        found.append("error")
    if fit.sides is not None and any(((-1, 1)[i] * (matrix @ s - values) < 0).any() for i, s in enumerate(fit.sides)):
        found.append("sides")
    low, high = outward(fit.span)
    sure = fit.proved or fit.sides is not None
    if sure and ((values < low - fit.own - 1e-15).any() or (values > high + fit.own + 1e-15).any()):
        found.append("span")
    return found


@pytest.mark.parametrize("text", FUNCTIONS)
def test_bounds_hold_in_exact_arithmetic(text):
    function = as_number_expression(read_function(text, "t", KNOWN))
    read = {c.name for c in columns(function)}
    basis = make_basis([c for c in KNOWN if c.name in read], 8)
    part = part_of(basis, frozenset(read))
    rng = np.random.default_rng(0)
    points = [
        rng.permutation(np.resize(np.concatenate([[a.lower, a.upper], rng.uniform(a.lower, a.upper, 200)]), 400))
        if a.values is None
        else rng.integers(0, len(a.values), 400).astype(float)
        for a in part.axes
    ]
    by_name = {a.name: x for a, x in zip(part.axes, points, strict=True)}
    rows = [[F(float(by_name[n][i])) if n in by_name else F(0) for n in ("x", "y", "k")] for i in range(400)]
    values, matrix = np.array([float(FUNCTIONS[text](*row)) for row in rows]), functions_at(part, points)
    for quick in (False, True):
        (fit,) = approximate_many([function], basis, "t", KNOWN, lambda c: np.full(len(c), 1e-6), quick=quick)
        own = Approximation(
            fit.coefficients[part.rows],
            fit.error,
            fit.proved,
            fit.span,
            fit.own,
            None if fit.sides is None else (fit.sides[0][part.rows], fit.sides[1][part.rows]),
        )
        assert beyond(own, values, matrix) == []


def test_intervals_hold_what_cancellation_hides():
    """All rows have x = 0.3, and no float near 1e15 is nearer to it than 0.25."""
    known = [column("x", 0.0, 0.3, nullable=False), column("y", 0.0, 1.0, nullable=False)]
    with connect() as con:
        con.execute("CREATE TABLE t AS SELECT 0.3::DOUBLE AS x, 1.0::DOUBLE AS y FROM range(20000)")
        summary = summarize(con, table(*known, expected_rows=20_000), ["x", "y"], epsilon=50.0, degree=6)
    for text in (
        "CASE WHEN y > 0.5 THEN (x + 1e15) - 1e15 ELSE 0 END",
        "((x + 1e15) - 1e15) * abs(y - 0.5) * 2",
        "abs((x + 1e15) - 1e15)",
    ):
        for found in (answer(summary, text), answers(summary, [text])[0]):
            assert found.low <= 0.3 <= found.high, text

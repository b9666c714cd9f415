"""Proved means proved: random functions in exact rational arithmetic against p and its bound, in both paths."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np
import pytest

from duckdp.smooth import batch
from duckdp.smooth.axes import Axis
from duckdp.smooth.basis import Basis
from duckdp.smooth.batch import approximate_many
from duckdp.smooth.fit import coefficients, proved
from duckdp.smooth.fit.coefficients import Approximation, approximate, is_polynomial, read_function
from duckdp.smooth.fit.interpolation import check_grid
from duckdp.smooth.fit.parts import Part, part_of
from duckdp.smooth.fit.points import as_number_expression
from duckdp.smooth.fit.terms import is_rough
from duckdp.smooth.summary import make_basis
from tests.smooth.tables import column

COLUMNS = (
    column("a", 0, 1, nullable=False),
    column("b", -3, 5, nullable=False),
    column("c", None, None, "DOUBLE", domain=(0.1, 0.2, 0.7, 3.3), nullable=False),
    column("k", 0, 9, "INTEGER", nullable=False),
)
NUMBERS = ["0.1", "1", "2", "3.7", "0.001", "1000000.0", "123456.789", "1e9", "1e12", "3e-7"]
SEED, SHORT, LONG = 11, 120, 6000
Row = dict[str, Fraction]


@dataclass(frozen=True)
class Written:
    """An expression as text, and what it means."""

    text: str
    at: Callable[[Row], Fraction]


def number(text: str) -> Written:
    return Written(text, lambda _: Fraction(float(text)))


def binary(sign: str, left: Written, right: Written) -> Written:
    does: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
        "+": lambda x, y: x + y,
        "-": lambda x, y: x - y,
        "*": lambda x, y: x * y,
        "/": lambda x, y: x / y,
    }
    return Written(f"({left.text} {sign} {right.text})", lambda row: does[sign](left.at(row), right.at(row)))


def called(name: str, *parts: Written) -> Written:
    does = {"abs": abs, "greatest": max, "least": min}[name]
    return Written(f"{name}({', '.join(p.text for p in parts)})", lambda row: does(*(p.at(row) for p in parts)))


def write(rng: np.random.Generator, names: list[str], depth: int) -> Written:
    """A random function of these columns; one in three cancels most of what it computes."""
    if depth == 0:
        name = names[rng.integers(len(names))]
        return Written(name, lambda row: row[name]) if rng.random() < 0.7 else number(str(rng.choice(NUMBERS)))
    kind = rng.random()
    inner = write(rng, names, depth - 1)
    if kind < 0.3:
        large = number(str(rng.choice(NUMBERS[5:9])))
        return binary("-", binary("+", inner, large), large)
    if kind < 0.36:
        return binary("/", inner, number(str(rng.choice(NUMBERS))))
    if kind < 0.42:  # a quotient that is nearly infinite at one end
        name = names[rng.integers(len(names))]
        below = binary("+", binary("-", Written(name, lambda row: row[name]), number("-3")), number("0.001"))
        return binary("/", inner, below)
    if kind < 0.47:
        return called("abs", inner)
    other = write(rng, names, depth - 1)
    if kind < 0.54:
        return called(str(rng.choice(["greatest", "least"])), inner, other)
    return binary(str(rng.choice(["+", "-", "*"])), inner, other)


def exact_value(basis: Basis, found: Approximation, row: Row) -> Fraction:
    """p at a row, the coefficients taken for what they are."""
    values = [chebyshev(place(axis, row[axis.name]), axis.degree) for axis in basis.axes]
    total = Fraction(0)
    for index, weight in zip(basis.indices.tolist(), found.coefficients.tolist(), strict=True):
        if weight:
            term = Fraction(weight)
            for r, along in zip(index, values, strict=True):
                term *= along[r]
            total += term
    return total


def place(axis: Axis, value: Fraction) -> Fraction:
    if axis.values is not None:
        return Fraction(float(axis.nodes[[Fraction(v) for v in axis.values].index(value)]))
    return 2 * (value - Fraction(axis.lower)) / (Fraction(axis.upper) - Fraction(axis.lower)) - 1


def chebyshev(u: Fraction, degree: int) -> list[Fraction]:
    values = [Fraction(1), u]
    while len(values) < degree:
        values.append(2 * u * values[-1] - values[-2])
    return values[:degree]


def draw_rows(rng: np.random.Generator) -> list[Row]:
    """Rows of values that columns can hold: ends, and what lies between."""
    rows = []
    for k, c in itertools.product((0, 9, 4), (0.1, 3.3, 0.7)):
        a, b = (float(rng.choice([0.0, 1.0, rng.random()])), float(rng.choice([-3.0, 5.0, rng.uniform(-3, 5)])))
        rows.append({"a": Fraction(a), "b": Fraction(b), "c": Fraction(c), "k": Fraction(k)})
    return rows


def read(text: str) -> object:
    return read_function(text, "t", COLUMNS)


def decided(basis: Basis, text: str) -> bool:
    """Whether both paths must agree: f is a polynomial, or its values are listed."""
    function = as_number_expression(read(text))
    part = part_of(basis, frozenset(n for n in "abck" if n in {c.name for c in coefficients.columns(function)}))
    if is_rough(function):
        return False
    listed = check_grid(part.axes, {}, per_degree=coefficients.PER_DEGREE, most=coefficients.MAX_CHECKED)[1]
    return listed or is_polynomial(function, part)


def check(count: int, seed: int, *, every: int = 1) -> tuple[int, int]:
    """(functions whose error is proved, the largest error in parts of its bound, 1e-6) over so many functions."""
    rng, degree = np.random.default_rng(seed), 12
    basis = make_basis(COLUMNS, degree, "total_degree", None)
    texts: list[Written] = []
    while len(texts) < count:
        names = [["a"], ["b"], ["c"], ["k"], ["a", "c"], ["b", "k"], ["c", "k"]][rng.integers(7)]
        texts.append(write(rng, names, int(rng.integers(1, 4))))
    usable = [w for w in texts if not refused(w.text, basis)]
    together = approximate_many([w.text for w in usable], basis, "t", COLUMNS)
    sure, worst = 0, 0.0
    for written, many in zip(usable, together, strict=True):
        one = approximate(read(written.text), basis)
        (alone,) = approximate_many([written.text], basis, "t", COLUMNS, quick=False)
        assert alone.proved or not many.proved, written.text
        assert alone.proved or not one.proved, written.text
        if decided(basis, written.text):
            assert one.proved == many.proved, written.text
        for found in {id(f): f for f in (one, alone, many) if f.proved}.values():
            sure += 1
            for row in draw_rows(rng)[::every]:
                gap = float(abs(written.at(row) - exact_value(basis, found, row)))
                worst = max(worst, gap / found.error if found.error else float(gap > 0))
                assert gap <= found.error, (written.text, row, gap, found.error)
    return sure, round(1e6 * worst)


def refused(text: str, basis: Basis) -> bool:
    try:
        approximate(read(text), basis, prove=False)
    except coefficients.NumericalError:
        return True
    return False


def test_every_proved_bound_holds_and_both_paths_agree() -> None:
    sure, _ = check(SHORT, SEED, every=2)
    assert sure > SHORT // 2


@pytest.mark.slow
def test_every_proved_bound_holds_for_thousands_of_functions() -> None:
    sure, worst = check(LONG, SEED + 1)
    print(f"{sure} proved bounds; the largest error is {worst / 1e6:.3f} of its bound")
    assert sure > LONG // 2


def test_a_proof_that_forgets_what_computing_adds_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin, and the code as it was: DuckDB's values taken for f."""
    for module in (proved, coefficients, batch):
        monkeypatch.setattr(module, "own_error", lambda *_, **__: 0.0)
    monkeypatch.setattr(batch, "own_errors", lambda *given, **_: np.zeros(len(given[2])))
    with pytest.raises(AssertionError):
        check(SHORT, SEED, every=2)


@pytest.mark.parametrize(
    "text", ["((a * 1) + 1000000.0) - 1000000.0", "((c * 1) + 1e9) - 1e9", "(k / 3 + 1e12) - 1e12"]
)
def test_cancellation_is_in_the_bound(text: str) -> None:
    basis = make_basis(COLUMNS, 4, "total_degree", None)
    one, (many,) = approximate(read(text), basis), approximate_many([text], basis, "t", COLUMNS)
    size = 1e6 if "1000000" in text else 1e9 if "1e9" in text else 1e12
    for found in (one, many):
        assert found.proved
        assert size * 2.0**-53 < found.error < size * 2.0**-40


def test_nothing_is_proved_by_a_grid_that_leaves_values_out() -> None:
    """What was compared at some values says nothing of the others; of a polynomial the nodes say all."""
    given = {"error": 1e-9, "scales": (1.0, 1.0), "lost": 0.0, "own": (math.inf, 1e-12)}
    assert proved.proved_error(cast(Part, None), polynomial=False, complete=False, **given) is None
    assert proved.proved_error(cast(Part, None), polynomial=True, complete=False, **given) is None

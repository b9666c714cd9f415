"""Functions by their factors: identities, proved bounds over random functions, and proofs that stop in time."""

import numpy as np
import pytest

from duckdp.compiler.expression import show
from duckdp.smooth.batch import approximate_many
from duckdp.smooth.factored import by_factors
from duckdp.smooth.fit import expansion, factors, ongrid, points
from duckdp.smooth.fit.coefficients import approximate, read_function
from duckdp.smooth.fit.points import Points, as_number_expression, evaluate
from duckdp.smooth.fit.programs import cover_of
from duckdp.smooth.fit.separate import products, reads
from duckdp.smooth.shapes import Reader
from duckdp.smooth.summary import make_basis
from tests.smooth.expressions import analytic, generator
from tests.smooth.tables import column

X, Y, W = column("x"), column("y", -3.0, 5.0), column("w", 10.0, 11.0)
KIDS = column("kids", 0, 4, "INTEGER")
COLUMNS = (X, Y, W, KIDS)
SETS = (("tensor", None), ("total_degree", None), ("hyperbolic_cross", None), ("tensor", 2))


def unit_text(rng, names, depth=3):
    """A random analytic function of columns moved to [0, 1]."""
    moved = {"x": "x", "y": "((y + 3) / 8)", "w": "(w - 10)", "kids": "(kids / 4)"}
    return analytic(rng, [moved[n] for n in names], depth)


def above(fit, text, basis, known, rng, rows):
    """The largest |f - p| at random places; f stays within its span there."""
    u = rng.uniform(-1, 1, (rows, len(known)))
    u[: rows // 4] = np.round(u[: rows // 4])
    x = tuple(axis.from_unit(u[:, i]) for i, axis in enumerate(basis.axes))
    values = evaluate(as_number_expression(read_function(text, "t", known)), Points(basis.axes, x))
    placed = np.stack([axis.to_unit(x[i]) for i, axis in enumerate(basis.axes)], axis=1)
    assert fit.span[0] - 1e-9 <= values.min()
    assert values.max() <= fit.span[1] + 1e-9
    return float(np.max(np.abs(values - basis.evaluate(placed) @ fit.coefficients)))


def violations(count, seed, *, enough=None, rows=1000):
    """(errors above their bounds, functions proved, ratios of bound to error) over random functions and sets."""
    rng, wrong, proved, ratios = generator(seed), 0, 0, []
    for k in range(count):
        shape, order = SETS[k % len(SETS)]
        basis = make_basis(COLUMNS, int(rng.integers(3, 9)), shape, order)
        text = unit_text(rng, [c.name for c in COLUMNS][: 1 + k % 4])
        reader = Reader("t", COLUMNS)
        read, numbers = reader.read(text)
        fit = by_factors(read, [numbers], basis, enough)[0]
        if fit is None:
            continue
        proved += 1
        error = above(fit, text, basis, COLUMNS, rng, rows)
        wrong += error > fit.error
        if error > 1e-9:
            ratios.append(fit.error / error)
    return wrong, proved, ratios


def test_no_error_exceeds_its_bound_and_most_are_proved() -> None:
    wrong, proved, ratios = violations(40, 21)
    assert wrong == 0
    assert proved > 25
    assert np.median(ratios) < 2


@pytest.mark.slow
def test_no_error_of_thousands_exceeds_its_bound() -> None:
    assert violations(2000, 22, rows=20_000)[0] == 0


TWINS = {  # what is forgotten -> a function whose error is that part, t, the index set
    "theorem": ("exp(4 * x)", 4, "tensor"),
    "tail": ("exp(-power((x - 0.3) / 0.1, 2))", 6, "tensor"),
    "product": ("power(2 * x - 1, 6) * (1000 + y)", 5, "tensor"),
    "lost": ("power(x, 5) * power(y, 5)", 6, "total_degree"),
}


@pytest.mark.parametrize("forgets", TWINS)
def test_a_bound_that_forgets_a_part_is_caught(forgets: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken twins: twice the power of rho, no |f - q|, the largest factor's error alone, only what the basis has."""
    text, degree, shape = TWINS[forgets]
    basis = make_basis((X, Y), degree, shape)

    def holds() -> bool:
        read, numbers = Reader("t", (X, Y)).read(text)
        fit = by_factors(read, [numbers], basis, None)[0]
        assert fit is not None
        return above(fit, text, basis, (X, Y), generator(1), 2000) <= fit.error

    assert holds()
    if forgets != "tail":
        monkeypatch.setattr(expansion, "closely", lambda *_: np.inf)
    if forgets == "theorem":
        weights = factors._weights
        monkeypatch.setattr(factors, "_weights", lambda rhos, t: weights(rhos, 3 * t))
    elif forgets == "tail":
        monkeypatch.setattr(ongrid, "FINER", (1,))
        monkeypatch.setattr(ongrid, "telescoped", lambda term: (0.0 * term[0].error, term[0].size))
    elif forgets == "product":
        whole = factors.telescoped
        monkeypatch.setattr(
            expansion, "telescoped", lambda term: (np.max([f.error for f in term], axis=0), whole(term)[1])
        )
    else:
        monkeypatch.setattr(expansion, "_lost", lambda *_: 0.0)
    assert not holds()


def test_terms_and_factors_are_the_function() -> None:
    """The algebra, at random places: sums of products of what the factors are."""
    rng, apart = generator(5), 0
    for _ in range(30):
        text = unit_text(rng, ["x", "y", "w"])
        function = as_number_expression(read_function(text, "t", COLUMNS))
        basis = make_basis((X, Y, W), 4)
        x = tuple(axis.from_unit(rng.uniform(-1, 1, 50)) for axis in basis.axes)
        at = Points(basis.axes, x)
        terms = products(function)
        apart += len(terms) > 1 or len(terms[0]) > 1
        for term in terms:
            names = [name for factor in term for name in reads(factor)]
            assert len(names) == len(set(names)), text  # disjoint
        total = sum(np.prod([evaluate(factor, at) for factor in term], axis=0) for term in terms)
        np.testing.assert_allclose(total, evaluate(function, at), rtol=1e-9, atol=1e-9)
    assert apart >= 3


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("exp(-power((x - 0.2) / 0.3, 2) - power(y / 2, 2))", [2]),
        ("exp(-(x * x + y * y) / (2 * 0.3 * 0.3))", [2]),
        ("power(x - y, 2)", [1, 1, 2, 2]),
        ("power(x * y, 7)", [2]),
        ("(1 + x) * (2 - y) / (3 + w)", [3]),
        ("x / (1 + y) + sin(x) - 2 * cos(y)", [1, 1, 2]),
        ("exp(x * y) + sin(x + y)", [1]),
    ],
)
def test_how_functions_are_taken_apart(text: str, terms: list[int]) -> None:
    function = as_number_expression(read_function(text, "t", COLUMNS))
    found = products(function)
    assert sorted(len(term) for term in found) == terms, [[show(f) for f in term] for term in found]


def test_covers_hold_the_ellipses_and_half_a_radius_does_not() -> None:
    basis, rng = make_basis((Y,), 5), generator(2)
    (axis,) = basis.axes
    rhos = (1.25, 2.0, 5.0)
    cover = cover_of(axis, rhos, 20)
    for j, rho in enumerate(rhos):
        angles, inner = rng.uniform(0, np.pi, 2000), np.exp(np.log(rho) * rng.random(2000))
        at = {"edges": rho * np.exp(1j * angles), "inside": inner * np.exp(1j * angles), "real": np.exp(1j * angles)}
        for name, w in at.items():
            u = (w + 1 / w) / 2
            z = axis.lower + (axis.upper - axis.lower) / 2 * (u + 1)
            discs = getattr(cover, name)
            size = len(discs.centre) if name == "real" else 20 * (j + 1)
            first = 20 * j if name == "edges" else 0
            gaps = np.abs(z[:, None] - discs.centre[None, first:size]) - discs.radius[None, first:size]
            assert (gaps.min(axis=1) <= 0).all(), name
            half = np.abs(z[:, None] - discs.centre[None, first:size]) - discs.radius[None, first:size] / 2
            assert (half.min(axis=1) > 0).any(), name


def test_a_proof_stops_at_enough_and_asks_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    basis, rng = make_basis((X, Y), 16), generator(7)
    texts = [
        f"exp(-power((x - {rng.random():.3f}) / {rng.uniform(0.6, 1):.3f}, 2) - power((y - 1) / 7, 2))"
        for _ in range(40)
    ]
    looked: list[int] = []
    whole = expansion.closely
    monkeypatch.setattr(expansion, "closely", lambda *a: looked.append(len(a[2].constants)) or whole(*a))
    monkeypatch.setattr(points, "_execute", lambda *_: pytest.fail("the engine was asked"))
    quick = approximate_many(texts, basis, "t", (X, Y), lambda c: np.full(len(c), 1e-3))
    assert sum(looked) < 10
    thorough = approximate_many(texts, basis, "t", (X, Y))
    assert sum(looked) > 35
    for one, more in zip(quick, thorough, strict=True):
        assert one.proved
        assert more.proved
        assert more.error <= one.error <= 1e-3
        np.testing.assert_array_equal(one.coefficients, more.coefficients)


def test_one_by_one_and_together_are_the_same() -> None:
    basis, rng = make_basis(COLUMNS, 7, "total_degree"), generator(3)
    texts = [unit_text(rng, ["x", "y", "w", "kids"][: 1 + k % 3]) for k in range(40)]
    texts += [f"power(x, {k}) * y / {k + 1}" for k in range(6)]  # exponents are part of a shape
    for text, many in zip(texts, approximate_many(texts, basis, "t", COLUMNS), strict=True):
        (one,) = approximate_many([text], basis, "t", COLUMNS, quick=False)
        if many.proved and one.proved:
            np.testing.assert_allclose(many.coefficients, one.coefficients, atol=1e-12 * (1 + abs(one.error)))
            assert many.error == pytest.approx(one.error, rel=1e-6)
        slow = approximate(read_function(text, "t", COLUMNS), basis)
        np.testing.assert_allclose(
            one.coefficients, slow.coefficients, atol=1e-11 * (1 + np.abs(slow.coefficients).max())
        )

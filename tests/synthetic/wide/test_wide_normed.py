"""Vectors with a bound on a row's norm: no row adds more, in SQL and in memory, and what they tell."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import duckdb
import numpy as np
import pytest

from duckdp.core.types import Neighbours
from duckdp.errors import InternalError
from duckdp.synthetic.unit.buy.purse import Purse
from duckdp.synthetic.unit.buy.sums_sql import print_sums
from duckdp.synthetic.unit.charge_terms import BITS
from duckdp.synthetic.unit.features import Factor
from duckdp.synthetic.unit.normed import MOST, Normed, NormedFunctions, NormedProducts

K = 6
Kind = Callable[..., Normed]
NAMES = [f"u{i}" for i in range(K)]


def _factors(width: float = 0.5) -> tuple[Factor, ...]:
    return tuple(Factor(weights=row, offset=0.1, width=width) for row in np.eye(K))


def products(bound: float, *, squared: bool, width: float = 0.5) -> NormedProducts:
    return NormedProducts(dimensions=K, factors=_factors(width), bound=bound, squared=squared)


def functions(bound: float, *, squared: bool) -> NormedFunctions:
    return NormedFunctions(dimensions=K, factors=_factors(), bound=bound, squared=squared)


KINDS = [pytest.param(products, id="products"), pytest.param(functions, id="functions")]


def rows() -> np.ndarray:
    """Unit rows: drawn ones, corners, zeros, single values, all nearly alike."""
    rng = np.random.default_rng(3)
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * K)).reshape(K, -1).T
    tiny = np.full((40, K), 0.1) + rng.normal(0, 1e-9, (40, K))
    return np.concatenate([rng.uniform(-1, 1, (200, K)), corners, np.eye(K), np.zeros((1, K)), tiny])


def norms(whole: np.ndarray, *, squared: bool) -> list[int]:
    """Exact, of integer rows."""
    return [sum(int(v) ** 2 if squared else abs(int(v)) for v in row) for row in whole]


def in_sql(given: Normed, unit: np.ndarray) -> np.ndarray:
    """Integers of every row by itself, as the private instance adds them."""
    with duckdb.connect(":memory:") as con:
        listed = ", ".join(f"({', '.join(repr(float(v)) + '::DOUBLE' for v in row)})" for row in unit)
        con.execute(
            f"CREATE TABLE t AS SELECT row_number() OVER () AS r, * FROM (VALUES {listed}) AS v({', '.join(NAMES)})"
        )
        sums = [
            con.execute(print_sums(given, f"(SELECT * FROM t WHERE r = {k + 1})", NAMES, BITS)).fetchone()
            for k in range(len(unit))
        ]
        whole = con.execute(print_sums(given, "t", NAMES, BITS)).fetchone()
        assert (
            con.execute(print_sums(given, "(SELECT * FROM t WHERE r < 0)", NAMES, BITS)).fetchone()
            == (0,) * given.count
        )
    found = np.array(sums, dtype=np.int64)
    assert whole is not None
    assert found.sum(axis=0).tolist() == list(whole)
    return found


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("bound", [1e-3, 0.7, 4.0, 100.0])
@pytest.mark.parametrize("kind", KINDS)
def test_no_row_adds_more_than_the_bound(kind: Kind, bound: float, squared: bool) -> None:
    given, unit = kind(bound, squared=squared), rows()
    memory = np.rint(given.rows(unit) * 2**BITS).astype(np.int64)
    assert max(norms(memory, squared=squared)) <= given.longest
    sql = in_sql(given, unit[::7])
    assert max(norms(sql, squared=squared)) <= given.longest
    assert np.abs(sql - memory[::7]).max() <= 1  # norms are computed in another order
    assert np.any(memory[-41:-40]), "zeros are .1 off the offset"
    if bound < 2:  # the twin: rows as they are
        free = np.rint(kind(100.0, squared=squared).rows(unit) * 2**BITS).astype(np.int64)
        assert max(norms(free, squared=squared)) > given.longest
    longest = max(norms(memory, squared=squared)) ** (0.5 if squared else 1)
    assert longest > 0.99 * min(bound * 2**BITS, 2**BITS * (math.sqrt(given.count) if squared else given.count))


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_whose_integers_are_too_long_adds_zeros(
    kind: Kind, squared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever floating point made of it: the last thing that happens is a count of its integers."""
    given, unit = kind(0.7, squared=squared), rows()[:60:7]
    if kind is functions:
        unit = unit * np.linspace(0.05, 1, len(unit))[:, None]  # of lengths below the bound, too
    size = norms(np.rint(given.rows(unit) * 2**BITS), squared=squared)
    limit = sorted(size)[len(size) // 2]
    monkeypatch.setattr(Normed, "longest", limit)
    for found in (np.rint(given.rows(unit) * 2**BITS).astype(np.int64), in_sql(given, unit)):
        assert max(norms(found, squared=squared)) <= limit
        assert 0 < sum(n == 0 for n in norms(found, squared=squared)) < len(unit)


def test_means_are_those_of_rows() -> None:
    for squared in (False, True):
        given, unit = products(0.7, squared=squared), rows()
        np.testing.assert_allclose(given.means(unit), given.rows(unit).mean(axis=0), atol=1e-6)
        alone = functions(0.7, squared=squared)
        whole = alone.functions(unit).mean(axis=0)
        np.testing.assert_allclose(whole - alone.cut(unit), alone.rows(unit).mean(axis=0), atol=1e-6)
        assert np.abs(alone.cut(unit)).max() > 0.01


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_differ_by_the_bound_on_a_tiny_domain(kind: Kind, squared: bool) -> None:
    """All tables of two rows of a domain of 3^3 values, without one of them, and with one replaced."""
    places = np.array(np.meshgrid(*[[-1.0, 0.1, 0.85]] * 3)).reshape(3, -1).T
    unit = np.concatenate([places, places * 0 + 0.1], axis=1)
    given = kind(0.6, squared=squared)
    memory, sql = np.rint(given.rows(unit) * 2**BITS).astype(np.int64), in_sql(given, unit)
    free = np.rint(kind(100.0, squared=squared).rows(unit) * 2**BITS).astype(np.int64)

    def worst(whole: np.ndarray) -> tuple[int, int]:
        pairs = (whole[:, None] + whole[None, :]).reshape(-1, whole.shape[1])  # sums of all tables of two rows
        less = pairs - np.repeat(whole, len(whole), axis=0)  # without one of them
        replaced = (whole[:, None] - whole[None, :]).reshape(-1, whole.shape[1])  # the other row stays
        return max(norms(less, squared=squared)), max(norms(replaced, squared=squared))

    for whole in (memory, sql):
        removed, replaced = worst(whole)
        assert removed <= given.longest
        assert replaced <= given.longest * (4 if squared else 2)
        assert replaced > given.longest  # so moving once is a twin that is caught
    assert worst(free)[0] > given.longest  # the twin: rows that are not scaled


def test_rows_stand_alone() -> None:
    """A row's integers do not move by a bit with the others that stand about it."""
    for kind in (products, functions):
        given, unit = kind(0.7, squared=True), rows()
        alone = np.concatenate([given.rows(unit[k : k + 1]) for k in range(len(unit))])
        np.testing.assert_array_equal(alone, given.rows(unit))


def test_noise_is_of_the_bound_and_less_than_of_the_box() -> None:
    unit = rows() * 0.3
    exact = lambda given, bits: (len(unit), [int(v) for v in np.rint(given.rows(unit) * 2**bits).sum(axis=0)])  # noqa: E731
    for neighbours, move in ((Neighbours.ADD_REMOVE, 1), (Neighbours.REPLACE, 2)):
        for squared in (False, True):
            purse = Purse(
                epsilon_nano=10**9, delta_atto=10**12, gaussian=squared, neighbours=neighbours, rows=float(len(unit))
            )
            given = products(0.5, squared=squared)
            found = purse.draw_normed(exact, given, Fraction(1, 2))
            if not squared:
                assert found.deviation * len(unit) == pytest.approx(move * 0.5 * math.sqrt(2) / 0.5, rel=1e-4)
            assert purse.spent == Fraction(1, 2)
            assert np.abs(found.means - given.means(unit)).max() < 40 * found.deviation
            with pytest.raises(InternalError):
                purse.draw_normed(exact, products(0.5, squared=not squared), Fraction(1, 4))
            assert purse.spent == Fraction(1, 2)


def test_a_bound_is_above_0_and_functions_are_not_too_many() -> None:
    with pytest.raises(InternalError):
        products(0.0, squared=True)
    many = (Factor(weights=np.ones(1)),) * (2 + math.isqrt(2 * MOST))
    with pytest.raises(InternalError):
        NormedProducts(dimensions=1, factors=many, bound=1.0, squared=True)

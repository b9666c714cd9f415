"""Smooth quantiles: proof steps by brute force, constants by integration, DuckDB against a Python reference.

Each check of privacy has a twin that is broken on purpose and must be caught. The audit of whole releases is in
tests/privacy/test_noise_distribution.py.
"""

import itertools
import math
import random
from fractions import Fraction

import duckdb
import numpy as np
import pytest

from duckdp.core.types import ATTO, Neighbours
from duckdp.core.variates import GRID
from duckdp.errors import InternalError, ParameterError
from duckdp.mechanisms import admissible_noise, smooth_sensitivity
from duckdp.mechanisms.smooth_sensitivity import NO_INTERVAL_REASON, SmoothQuantile

NANO = 10**9


def quantile_of(epsilon=1.0, **changes):
    return SmoothQuantile(**{"epsilon_nano": round(epsilon * NANO), "max_rows": 1, "grid_cells": 1000, **changes})


# ---- the formula in Python


def at(data, i, top):
    """x[i] of the sorted data, from 1, with the bounds outside."""
    return 0 if i < 1 else top if i > len(data) else data[i - 1]


def rank(n, p):
    return min(n, max(1, math.ceil(p * n)))


def exact_quantile(data, p, top):
    return at(data, rank(len(data), p), top)


def smooth_bound(data, *, p, u, top, decay, exact, units, per_row=False, tail=True):
    """S of the module's docstring; ``per_row`` and ``tail=False`` are ways to break it."""
    m = rank(len(data), p)
    best = math.exp(-decay * (units + 1)) * top if tail else 0.0
    for k in range(units + 1):
        w = k + 1 if per_row else (k + 1) * u
        if k <= exact:
            width = max(at(data, m + j, top) - at(data, m + j - w, top) for j in range(w + 1))
        else:
            width = at(data, m + w, top) - at(data, m - w, top)
        best = max(best, math.exp(-decay * k) * width)
    return best


def reference(mechanism, data):
    clipped = sorted(min(max(x, 0), mechanism.grid_cells) for x in data)
    shape = {"p": mechanism.quantile, "u": mechanism.max_rows, "top": mechanism.grid_cells, "decay": mechanism.decay}
    window = mechanism.window
    bound = smooth_bound(clipped, **shape, exact=window.exact, units=window.units)
    return exact_quantile(clipped, mechanism.quantile, mechanism.grid_cells), bound


# ---- brute force over all small databases


def databases(values, most):
    return [data for n in range(most + 1) for data in itertools.combinations_with_replacement(values, n)]


def neighbours(data, values, u, relation):
    """All neighbours of a database: a unit of at most u rows added, removed, or replaced by at most u rows."""
    adds = [extra for n in range(u + 1) for extra in itertools.combinations_with_replacement(values, n)]
    if relation is Neighbours.ADD_REMOVE:
        return {tuple(sorted(data + extra)) for extra in adds}  # removal is the same pair seen from the other side
    kept = {tuple(c) for r in range(min(u, len(data)) + 1) for c in itertools.combinations(data, len(data) - r)}
    return {tuple(sorted(rest + extra)) for rest in kept for extra in adds}


def violations(*, p, u, relation, beta, values=(0, 1, 3, 4), top=4, most=5, exact=1, units=3, statistic=None, **broken):
    """Neighbouring pairs for which S is not beta-smooth or does not bound the change of the quantile."""
    statistic = statistic or exact_quantile
    found = 0
    shape = {"p": p, "u": u, "top": top, "exact": exact, "units": units, "decay": broken.pop("decay", beta)}
    cache = {}

    def bound(data):
        if data not in cache:
            cache[data] = smooth_bound(data, **shape, **broken)
        return cache[data]

    for data in databases(values, most):
        for other in neighbours(data, values, u, relation):
            smaller, larger = sorted((bound(data), bound(other)))
            moved = abs(statistic(data, p, top) - statistic(other, p, top))
            found += larger > math.exp(beta) * smaller * (1 + 1e-12) or moved > smaller * (1 + 1e-12)
    return found


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("u", [1, 2])
@pytest.mark.parametrize("p", [Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)])
def test_bound_is_smooth_and_covers_the_local_sensitivity(p, u, relation):
    for beta in (0.1, 0.7):
        for exact, units in ((0, 0), (0, 3), (1, 3), (5, 5)):
            assert violations(p=p, u=u, relation=relation, beta=beta, exact=exact, units=units) == 0


def test_longer_databases_and_the_middle_of_the_range():
    longer = {"p": Fraction(1, 2), "beta": 0.3, "most": 6}
    assert violations(**longer, u=1, relation=Neighbours.REPLACE, exact=2, units=4) == 0
    assert violations(**longer, u=3, relation=Neighbours.ADD_REMOVE, values=(0, 2, 5), top=5) == 0


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize(
    "broken",
    [
        {"u": 2, "per_row": True},  # the window k + 1 of the sources, for a unit of two rows
        {"decay": 0.45},  # the bound falls faster than beta allows
        {"tail": False, "exact": 0, "units": 0},  # cut at K without the last term
    ],
)
def test_broken_bounds_are_caught(broken, relation):
    parameters = {"p": Fraction(1, 2), "u": 1, "relation": relation, "beta": 0.3, **broken}
    assert violations(**parameters) > 0


def test_the_averaged_median_is_not_covered():
    def averaged(data, p, top):
        n = len(data)
        return (at(data, (n + 1) // 2, top) + at(data, n // 2 + 1, top)) / 2 if n else 0

    bound = {"p": Fraction(1, 2), "u": 1, "relation": Neighbours.REPLACE, "beta": 1.0, "exact": 9, "units": 9}
    assert violations(**bound, statistic=averaged) > violations(**bound) == 0


# ---- constants


def student2_loss(alpha, beta):
    """Largest log-ratio between h and its dilation and shift, over a grid of both."""
    z = np.concatenate([np.linspace(-40, 40, 160_001), np.logspace(1.6, 8, 500), -np.logspace(1.6, 8, 500)])
    log_h = lambda y: -1.5 * np.log(2 + y * y)  # noqa: E731
    worst = 0.0
    for grow, a in itertools.product(np.linspace(-beta, beta, 5), np.linspace(-alpha, alpha, 5)):
        width = math.exp(grow)
        worst = max(worst, float(np.abs(log_h(z) + grow - log_h((z - a * min(1, width)) / width)).max()))
    return worst


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, 4.0, 100.0])
def test_pure_constants_cost_at_most_epsilon(epsilon):
    mechanism = quantile_of(epsilon)
    assert student2_loss(float(mechanism.alpha), float(mechanism.beta)) <= epsilon * (1 + 1e-6)


def test_pure_constants_are_tight_and_larger_ones_are_caught():
    mechanism = quantile_of(0.01)
    alpha, beta = float(mechanism.alpha), float(mechanism.beta)
    assert student2_loss(alpha, beta) > 0.99 * 0.01
    assert student2_loss(2 * alpha, beta) > 1.5 * 0.01
    assert student2_loss(alpha, 2 * beta) > 1.5 * 0.01


def test_shift_and_dilation_constants_of_student_t():
    y = np.linspace(-50, 50, 1_000_001)
    assert np.max(3 * y / (2 + y**2)) == pytest.approx(3 / (2 * math.sqrt(2)), rel=1e-9)
    slope = 1 - 3 * y**2 / (2 + y**2)
    assert slope.max() == pytest.approx(1)
    assert -2 < slope.min() < -1.99


def test_pure_constants_are_exact_fractions_on_the_safe_side():
    for nano in (1_000, 123_456_789, 100 * NANO):
        mechanism, epsilon = quantile_of(nano / NANO), Fraction(nano, NANO)
        assert mechanism.beta == epsilon / 3
        assert 0 <= 32 * epsilon**2 / 81 - mechanism.alpha**2 < epsilon / 2**78
        # (A alpha)**2 + (3 beta / 2)**2 <= (epsilon - beta / 2)**2 with A**2 = 9 / 8
        assert 9 * mechanism.alpha**2 / 8 + 9 * mechanism.beta**2 / 4 <= (epsilon - mechanism.beta / 2) ** 2


def laplace_delta(alpha, beta, epsilon):
    """Largest hockey-stick divergence between Laplace noise and its dilation and shift, by a fine sum."""
    z, step = np.linspace(-60, 60, 1_200_001, retstep=True)
    density = lambda y: np.exp(-np.abs(y)) / 2  # noqa: E731
    worst = 0.0
    for grow, a in itertools.product((-beta, -beta / 2, 0.0, beta / 2, beta), (-alpha, 0.0, alpha)):
        width = math.exp(grow)
        other = density((z - a * min(1, width)) / width) / width
        worst = max(worst, float(np.sum(np.maximum(density(z) - math.exp(epsilon) * other, 0)) * step))
    return worst


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-8, 1e-3, 0.3])
def test_laplace_constants_cost_at_most_delta(epsilon, delta):
    mechanism = quantile_of(epsilon, delta_atto=round(delta * ATTO))
    assert laplace_delta(float(mechanism.alpha), float(mechanism.beta), epsilon) <= delta


def test_laplace_with_a_larger_beta_is_caught():
    mechanism = quantile_of(1.0, delta_atto=10**10)
    assert laplace_delta(float(mechanism.alpha), 2 * float(mechanism.beta), 1.0) > 1e-8


def test_laplace_beta_is_the_largest_of_its_formula():
    for epsilon, delta_atto in ((1e-6, 1), (1.0, 10**10), (100.0, 10**17), (1.0, ATTO - 1)):
        mechanism = quantile_of(epsilon, delta_atto=delta_atto)
        beta, half = float(mechanism.beta), epsilon / 2
        assert mechanism.alpha == Fraction(round(epsilon * NANO), 2 * NANO)
        assert 0 < mechanism.beta <= mechanism.alpha
        if beta < half:
            assert (half + beta) / math.expm1(beta) == pytest.approx(-math.log(delta_atto / ATTO), rel=1e-9)
            assert math.exp(-(half + beta) / math.expm1(beta)) <= delta_atto / ATTO * (1 + 1e-9)


def test_loss_is_what_was_asked_for_and_window_is_bounded():
    mechanism = quantile_of(0.5, delta_atto=10**10)
    assert (mechanism.loss.epsilon_nano, mechanism.loss.delta_atto) == (NANO // 2, 10**10)
    assert (mechanism.loss.rho_pico, mechanism.loss.delta_zcdp_atto) == (125 * NANO, 10**10)
    assert quantile_of(0.000_001).loss.rho_pico == 1  # 0.5 rounded up
    for epsilon, u, cells in itertools.product((1e-6, 0.1, 100.0), (1, 7, 100_000), (1, 2**20, 2**48)):
        mechanism = quantile_of(epsilon, max_rows=u, grid_cells=cells)
        exact, units, decay = mechanism.window.exact, mechanism.window.units, mechanism.decay
        assert 0 <= exact <= units
        assert u * (exact + 1) * (exact + 2) // 2 <= 2_000_000
        assert (units + 1) * u <= max(2**18, 2 * u)
        assert decay * (units + 1) <= 128  # Numerics: argument of exp
        assert 0 < Fraction(decay) <= mechanism.beta - Fraction(1, 2**40)


# ---- arguments and release


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"epsilon_nano": 999}, "P101"),
        ({"epsilon_nano": 1.0}, "P101"),
        ({"epsilon_nano": True}, "P101"),
        ({"delta_atto": -1}, "P102"),
        ({"delta_atto": ATTO}, "P102"),
        ({"quantile": 0.5}, "P107"),
        ({"quantile": Fraction(0)}, "P107"),
        ({"quantile": Fraction(1)}, "P107"),
        ({"quantile": Fraction(1, 10**6 + 1)}, "P107"),
        ({"max_rows": 0}, "P107"),
        ({"max_rows": 100_001}, "P107"),
        ({"grid_cells": 0}, "P107"),
        ({"grid_cells": 2**48 + 1}, "P107"),
    ],
)
def test_bad_arguments_are_refused(changes, code):
    with pytest.raises(ParameterError) as caught:
        quantile_of(**changes)
    assert caught.value.code == code


@pytest.mark.parametrize(("m", "s"), [(1.0, 1.0), (None, 1.0), (5, 1), (5, None), ("5", 1.0)])
def test_release_refuses_other_types_and_shows_nothing(m, s):
    with pytest.raises(InternalError) as caught:
        quantile_of().release(m, s)
    assert not any(character.isdigit() for character in caught.value.message)


@pytest.mark.parametrize("delta_atto", [0, 10**10])
def test_release_is_total_and_moves_what_is_out_of_range(monkeypatch, delta_atto):
    """Whatever the query gave: a number of the grid, the same as for what is nearest in range."""
    mechanism = quantile_of(4.0, delta_atto=delta_atto)
    least = 2.0**-160
    cases = {
        (-1, 1.0): (0, 1.0),
        (1001, 1.0): (1000, 1.0),
        (-(2**90), 1.0): (0, 1.0),
        (5, 1001.0): (5, 1000.0),
        (5, math.inf): (5, 1000.0),
        (5, 0.0): (5, least),
        (5, -1.0): (5, least),
        (5, math.nan): (5, least),
        (5, 5e-324): (5, least),
    }
    for variate in (0, -1, 2**320, -(2**319), 3**300, -(2**640)):
        for name in ("standard_student2", "standard_laplace"):
            monkeypatch.setattr(admissible_noise, name, lambda variate=variate: variate)
        for given, meant in cases.items():
            assert mechanism.release(*given) == mechanism.release(*meant) in range(1001)


def test_release_rounds_and_clamps(monkeypatch):
    moves = {-4: -2, -3: -1, -2: -1, -1: 0, 0: 0, 1: 1, 2: 1, 3: 2, 9**9: 500, -(9**9): -500}
    for name, delta_atto in (("standard_student2", 0), ("standard_laplace", 10**10)):
        mechanism = quantile_of(4.0, delta_atto=delta_atto)
        scale = 2 * Fraction(3.7) / mechanism.alpha
        for twice, moved in moves.items():
            # the variates between which floor(scale * variate) is ``twice``
            low = math.ceil(twice * 2**GRID / scale)
            high = math.ceil((twice + 1) * 2**GRID / scale) - 1
            for variate in (low, high):
                monkeypatch.setattr(admissible_noise, name, lambda variate=variate: variate)
                assert mechanism.release(500, 3.7) == 500 + moved
    monkeypatch.undo()
    assert all(0 <= quantile_of(0.001).release(0, 1000.0) <= 1000 for _ in range(100))
    assert "depends on the data" in NO_INTERVAL_REASON


@pytest.mark.parametrize("epsilon_nano", [1_000, 10**9, 100 * NANO])
@pytest.mark.parametrize("delta_atto", [0, 1, 10**10, ATTO - 1])
def test_public_figures_of_the_numerics_section(epsilon_nano, delta_atto):
    """S is never below 2**-160, the scale of the noise never above 2**72 steps."""
    for cells, rows in itertools.product((1, 1000, 2**48), (1, 100_000)):
        mechanism = quantile_of(epsilon_nano / NANO, delta_atto=delta_atto, grid_cells=cells, max_rows=rows)
        last = math.log2(cells) - mechanism.decay * (mechanism.window.units + 1) / math.log(2)
        assert last > math.log2(2.0**-160) + 1
        assert math.log2(2 * cells / mechanism.alpha) < 72


# ---- DuckDB


@pytest.fixture
def connection():
    with duckdb.connect() as con:
        con.execute("CREATE TABLE data(x BIGINT)")
        yield con


def in_duckdb(con, mechanism, data):
    con.execute("DELETE FROM data")
    if data:
        con.execute("INSERT INTO data SELECT unnest(?::BIGINT[])", [data])
    cursor = con.execute(mechanism.sql("(SELECT x FROM memory.main.data)"))
    assert [(column[0], str(column[1])) for column in cursor.description] == [("m", "BIGINT"), ("s", "DOUBLE")]
    rows = cursor.fetchall()
    assert len(rows) == 1
    return rows[0]


def check(con, mechanism, data):
    m, s = in_duckdb(con, mechanism, data)
    wanted_m, wanted_s = reference(mechanism, [x for x in data if x is not None])
    assert m == wanted_m
    assert s == pytest.approx(wanted_s, rel=2**-44, abs=0)
    assert isinstance(mechanism.release(m, s), int)


def test_sql_equals_the_reference_on_random_data(connection):
    rng = random.Random(20)
    for _ in range(40):
        cells = rng.choice([1, 3, 50, 1000, 10**6, 2**48])
        mechanism = SmoothQuantile(
            epsilon_nano=rng.choice([NANO // 5, NANO, 10 * NANO]),
            delta_atto=rng.choice([0, 10**10]),
            quantile=rng.choice([Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), Fraction(1, 10**6)]),
            max_rows=rng.choice([1, 2, 3]),
            grid_cells=cells,
        )
        spread = rng.choice([cells, max(1, cells // 100)])
        check(connection, mechanism, [rng.randint(0, spread) for _ in range(rng.choice([1, 2, 3, 10, 200, 900]))])


SPECIAL = [[], [0], [1000], [7], [None], [None, 5], [400] * 500, [0] * 50 + [1000] * 50, [-(2**60), 3, 2**60]]


@pytest.mark.parametrize("u", [1, 2, 3])
def test_sql_on_special_data(connection, u):
    for epsilon in (0.1, 2.0):
        mechanism = quantile_of(epsilon, max_rows=u)
        for data in SPECIAL:
            check(connection, mechanism, data)


def test_sql_beyond_the_exact_windows(connection, monkeypatch):
    monkeypatch.setattr(smooth_sensitivity, "_MAX_PAIRS", 30)
    monkeypatch.setattr(smooth_sensitivity, "_MAX_STEPS", 90)
    rng = random.Random(21)
    for u in (1, 2, 3):
        mechanism = quantile_of(0.05, max_rows=u)
        assert mechanism.window.exact < 8 < mechanism.window.units
        for n in (0, 5, 300):
            check(connection, mechanism, [rng.randint(0, 1000) for _ in range(n)])


def test_empty_relation_has_a_public_answer(connection):
    assert in_duckdb(connection, quantile_of(), []) == (0, 1000.0)
    assert in_duckdb(connection, quantile_of(max_rows=3), [None]) == (0, 1000.0)


def test_first_term_has_no_rounding(connection):
    m, s = in_duckdb(connection, quantile_of(100.0, grid_cells=2**48), [0, 2**47 + 1, 2**48])
    assert (m, s) == (2**47 + 1, 2.0**47 + 1)


def test_macros_of_the_owner_change_nothing(connection):
    data, mechanism = [1, 5, 9, 200, 900], quantile_of()
    before = in_duckdb(connection, mechanism, data)
    binary = ("least(a, b) AS a", "greatest(a, b) AS b", "range(a, b) AS [a]")
    for macro in ("sum(a) AS 0", "exp(a) AS 0", "max(a) AS 0", "min(a) AS 0", "count_star() AS 1", *binary):
        connection.execute(f"CREATE MACRO memory.main.{macro}")
    assert in_duckdb(connection, mechanism, data) == before


def test_a_million_rows(connection):
    connection.execute("INSERT INTO data SELECT (i * 7919) % 1000003 FROM range(1000003) r(i)")
    mechanism = quantile_of(0.1, grid_cells=10**6 + 2)
    m, s = connection.execute(mechanism.sql("(SELECT x FROM memory.main.data)")).fetchone()
    assert m == 500_001  # every value from 0 to 1000002 once
    k = np.arange(mechanism.window.exact + 1)
    assert s == pytest.approx(float(np.max((k + 1) * np.exp(-mechanism.decay * k))), rel=1e-12)


@pytest.mark.parametrize("delta_atto", [0, 10**4, 10**10, ATTO // 3])
def test_the_rate_that_is_printed_leaves_room_for_floats(delta_atto):
    """Beta less 2^-40, which covers what DuckDB's exp and products round: the proof is about that rate."""
    rng = random.Random(delta_atto)
    for _ in range(40):
        smooth = SmoothQuantile(
            epsilon_nano=rng.randint(10_000_000, 100 * 10**9), delta_atto=delta_atto, max_rows=1, grid_cells=100
        )
        room = smooth.beta - Fraction(float(f"{smooth.decay:.17e}"))
        assert Fraction(1, 2**40) <= room < Fraction(1, 2**39)

"""The only step that sees private sums: its sensitivity, its noise, its accounting; each with a broken twin."""

import math
from fractions import Fraction

import numpy as np
import pytest

from duckdp.core.types import ATTO, NANO, Neighbours, Sensitivity
from duckdp.errors import InternalError, ParameterError
from duckdp.mechanisms.noisy_maximum import choose_best
from duckdp.synthetic.moments.plan import make_plan
from duckdp.synthetic.unit.buy import purse as release
from duckdp.synthetic.unit.buy.purse import Purse, sensitivity
from duckdp.synthetic.unit.charge_terms import predicted
from duckdp.synthetic.unit.features import ONE, RADIAL, Features, label_factor
from tests.synthetic.in_memory import exact_products, memory_sums
from tests.synthetic.plans import open_purse, request

BITS = 20
UNIT = 1 << BITS
ONE_COLUMN = Features(dimensions=1, factors=(ONE,))


def purse(neighbours=Neighbours.REPLACE, epsilon=1.0, **more):
    return Purse(epsilon_nano=round(epsilon * NANO), delta_atto=0, neighbours=neighbours, **more)


def corners(d, count=400):
    rng = np.random.default_rng(8)
    return np.vstack(
        [np.ones(d), -np.ones(d), rng.choice([-1.0, 0.0, 1.0], size=(count, d)), rng.uniform(-1, 1, (count, d))]
    )


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_no_row_moves_a_sum_further_than_the_sensitivity(neighbours):
    d = 4
    features = Features(
        dimensions=d,
        size=True,
        degree=3,
        centre=1,
        width=0.5,
        pairs=True,
        factors=(ONE, RADIAL, label_factor(3, -0.6, d)),
    )
    integers = np.floor(features.rows(corners(d)) * UNIT + 0.5)
    if neighbours is Neighbours.ADD_REMOVE:
        moved = np.abs(integers)
    else:
        moved = np.abs(integers[:, None] - integers[None]).reshape(-1, features.count)
    bound = sensitivity(features.count, UNIT, neighbours)
    assert moved.max() == bound.linf
    assert moved.sum(axis=1).max() <= bound.l1
    assert (moved**2).sum(axis=1).max() <= bound.l2_squared
    assert moved.max() > 0.9 * bound.linf  # so a bound of 0.9 times this would be wrong


def log_ratio(draws=4000):
    """ln of P(noisy mean > 0) with one row at 1 against one row at -1."""
    high, low = 0, 0
    for _ in range(draws):
        high += purse().buy(memory_sums(np.array([[1.0]])), ONE_COLUMN, Fraction(1)).means[0] > 0
        low += purse().buy(memory_sums(np.array([[-1.0]])), ONE_COLUMN, Fraction(1)).means[0] > 0
    return math.log(high / low)


def test_neighbouring_tables_are_told_apart_by_no_more_than_epsilon():
    # Laplace noise of scale 2: P = 0.697 against 0.303, ln 0.83, standard error 0.03 of 4,000 draws each
    assert log_ratio() < 1.0


def test_the_same_test_catches_half_the_noise(monkeypatch):
    monkeypatch.setattr(
        release, "sensitivity", lambda size, unit, _: Sensitivity(l1=unit, l2_squared=unit**2, linf=unit)
    )
    assert log_ratio() > 1.2  # P = 0.816 against 0.184, ln 1.49


def test_a_count_of_its_own():
    features, unit = Features(dimensions=6, factors=(ONE,)), np.full((300, 6), 0.5)

    def counts(share):
        for _ in range(800):
            one = Purse(epsilon_nano=NANO, delta_atto=0, neighbours=Neighbours.ADD_REMOVE)
            found = one.buy(memory_sums(unit), features, Fraction(1, 2), count=share)
            assert (found.count, len(found.means), one.spent) == (6, 6, Fraction(1, 2) + share)
            yield one.rows

    deviation = 2**0.5 * 4  # Laplace noise of scale 4
    assert np.std(list(counts(Fraction(1, 4)))) == pytest.approx(deviation, rel=0.3)  # false alarm below 1e-10
    assert np.std(list(counts(Fraction(1, 2)))) != pytest.approx(deviation, rel=0.3)  # the twin
    public = Purse(epsilon_nano=NANO, delta_atto=0, neighbours=Neighbours.REPLACE)
    public.buy(memory_sums(unit), features, Fraction(1, 2), count=Fraction(1, 4))
    assert (public.rows, public.spent) == (300, Fraction(1, 2))  # nothing to buy
    normal = Purse(epsilon_nano=NANO, delta_atto=10**9, neighbours=Neighbours.ADD_REMOVE, gaussian=True)
    with pytest.raises(InternalError):
        normal.buy(memory_sums(unit), features, Fraction(1, 2), count=Fraction(1, 4))


@pytest.mark.parametrize(
    ("columns", "more", "apart"),
    [
        (117, {}, True),
        (42, {}, True),
        (8, {}, False),
        (117, {"neighbours": Neighbours.REPLACE}, False),
        (117, {"epsilon": "0.1", "delta": "1e-6"}, False),
    ],
)
def test_a_count_is_bought_apart_where_that_pays(columns, more, apart):
    asked = request(columns, expected_rows=10_000, **{"epsilon": "1", **more})
    opened = open_purse(asked)
    assert opened.gaussian == ("delta" in more)
    plan = make_plan(asked, opened)
    assert (plan.count > 0) == apart
    if apart:
        v = (columns + 1) * (columns + 2) / 3
        before, part = 1.4, float(plan.count / (plan.count + plan.means))
        assert 1 / (1 - part) ** 2 + 0.8 / v / part**2 < before  # variance of a mean whose square is 0.4


def test_noise_has_the_stated_deviation():
    features = Features(dimensions=6, factors=(ONE,))
    sums = memory_sums(np.zeros((10, 6)))
    found = [purse().buy(sums, features, Fraction(1, 2)) for _ in range(300)]
    spread = np.sqrt(np.mean([n.means**2 for n in found]))
    assert 0.8 < spread / found[0].deviation < 1.2  # false alarm below 1e-12
    assert found[0].deviation == pytest.approx(2 / 0.5 * math.sqrt(7 * 8 / 3) / 10, rel=1e-4)
    assert found[0].deviation == pytest.approx(predicted(6, Fraction(1, 2), purse(), 10), rel=1e-4)


def test_gaussian_noise_has_the_predicted_deviation():
    gaussian = Purse(epsilon_nano=NANO, delta_atto=ATTO // 10**6, neighbours=Neighbours.REPLACE, gaussian=True)
    noisy = gaussian.buy(memory_sums(np.zeros((10, 6))), Features(dimensions=6, factors=(ONE,)), Fraction(1, 2))
    assert noisy.family == "gaussian"
    assert noisy.deviation == pytest.approx(predicted(6, Fraction(1, 2), gaussian, 10), rel=1e-4)
    assert gaussian.loss.delta_atto == ATTO // 10**6


def test_a_purse_is_never_overdrawn():
    spent = purse()
    spent.take(Fraction(2, 3))
    with pytest.raises(InternalError):
        spent.take(Fraction(1, 3) + Fraction(1, 10**9))
    with pytest.raises(InternalError):
        spent.take(Fraction(0))
    assert spent.take(Fraction(1, 3)) == NANO // 3
    with pytest.raises(ParameterError) as caught:
        Purse(epsilon_nano=NANO, delta_atto=0, neighbours=Neighbours.REPLACE, gaussian=True)
    assert caught.value.code == "P102"


def test_the_count_is_noised_when_rows_are_added_or_removed():
    counts = set()
    for _ in range(6):
        private = purse(Neighbours.ADD_REMOVE)
        private.buy(memory_sums(np.zeros((500, 1))), ONE_COLUMN, Fraction(1))
        counts.add(private.rows)
    assert len(counts) > 1
    public = purse()
    public.buy(memory_sums(np.zeros((500, 1))), ONE_COLUMN, Fraction(1))
    assert public.rows == 500


def chances(scores, rate):
    """Law of the largest score after geometric noise, ties shared evenly, from the definition."""
    top, p = int(max(scores) + 60 / rate), math.exp(-rate)
    found = []
    for r, q in enumerate(scores):
        total = 0.0
        for v in range(q, top):
            ties = [1.0]  # ties[j]: j of the others so far stand at v, none above
            for s, other in enumerate(scores):
                if s != r:
                    at = (1 - p) * p ** (v - other) if v >= other else 0.0
                    below = 1 - p ** (v - other) if v > other else 0.0
                    ties = [
                        (ties[j] if j < len(ties) else 0) * below + (ties[j - 1] if j else 0) * at
                        for j in range(len(ties) + 1)
                    ]
            total += (1 - p) * p ** (v - q) * sum(share / (j + 1) for j, share in enumerate(ties))
        found.append(total)
    return found


def test_choice_has_the_law_of_the_noisy_maximum():
    scores, draws = [0, 3, 6, 9], 12_000
    found = np.bincount([choose_best(scores, epsilon=Fraction(1), linf=2) for _ in range(draws)], minlength=4)

    def misfit(factor):
        wanted = draws * np.array(chances(scores, factor / 4))
        return float(((found - wanted) ** 2 / wanted).sum())

    assert misfit(1.0) < 45  # chi-square, 3 degrees: 1e-9
    assert misfit(0.8) > 45 and misfit(1.25) > 45  # the twins' misfit is 300 and its deviation 35


def test_choice_costs_epsilon_and_not_less():
    worst = dict.fromkeys((1, 2), 0.0)
    for base in ([0, 0, 0], [3, 1, 2], [5, 5, 0]):
        for shift in np.stack(np.meshgrid(*[[-1, 0, 1]] * 3), -1).reshape(-1, 3):
            for factor in worst:
                rate = 1 / factor  # epsilon 1, linf 1
                pairs = zip(
                    chances(base, rate), chances([b + s for b, s in zip(base, shift, strict=True)], rate), strict=True
                )
                worst[factor] = max([worst[factor], *(abs(math.log(p / q)) for p, q in pairs)])
    assert worst[2] <= 1 + 1e-9
    assert worst[1] > 1.3  # without the factor 2


@pytest.mark.parametrize("scores", [[], None])
def test_choice_refuses_nonsense(scores):
    with pytest.raises(ParameterError):
        choose_best(scores or [], epsilon=Fraction(1), linf=1)
    with pytest.raises(ParameterError):
        choose_best([1], epsilon=Fraction(0), linf=1)


def test_subspace_round_moves_at_most_by_its_sensitivity():
    d, k = 4, 2
    basis = np.column_stack([np.ones(d) / 2, np.array([1, -1, 1, -1]) / 2])
    worst1 = worst2 = 0.0
    for row in corners(d):
        moved = np.array(exact_products(row[None], np.zeros(d), basis, BITS), dtype=float) / UNIT
        worst1, worst2 = max(worst1, np.abs(moved).sum()), max(worst2, np.linalg.norm(moved))
    assert worst1 <= math.sqrt(k) * d**1.5 + 1e-5
    assert worst2 <= d + 1e-5
    assert worst1 > d * 1.9  # d alone, the bound of the operator norm, would be wrong in l1


def test_a_stage_that_is_stored_is_paid_for():
    """A retry that takes it from there has spent as much, and cannot spend it again."""
    kept = []
    first = purse(keep=lambda draw: kept.append(draw()) or kept[-1])
    assert first.stage(lambda: first.take(Fraction(2, 3))) == 2 * NANO // 3
    again = purse(keep=lambda _: kept[0])
    assert again.stage(lambda: pytest.fail("drawn again")) == 2 * NANO // 3
    assert (again.spent, again.rows) == (first.spent, first.rows) == (Fraction(2, 3), 0)
    with pytest.raises(InternalError):
        again.take(Fraction(1, 2))

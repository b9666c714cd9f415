"""What charges amount to: never less than the truth, which few charges have in closed form, and hardly more."""

from __future__ import annotations

import itertools
import math
import random
from decimal import Decimal, localcontext

import pytest

from duckdp.core import composition
from duckdp.core.accountant import epsilon_for, pure_rho
from duckdp.core.composition import advanced, basic, optimal, rounded_up, zcdp
from duckdp.core.types import ATTO, NANO, Loss
from duckdp.ledger.accountants import privacy_loss


def pure(epsilon: float, delta: float = 0.0) -> Loss:
    nano = round(epsilon * NANO)
    return Loss(epsilon_nano=nano, delta_atto=round(delta * ATTO), rho_pico=pure_rho(nano))


def exact_delta(losses: composition.Losses, epsilon: float) -> Decimal:
    """The delta of randomized responses with these epsilons, term by term."""
    each = [Decimal(loss.epsilon_nano) / NANO for loss, n in losses.items() for _ in range(n)]
    with localcontext() as context:
        context.prec = 40
        total, limit = Decimal(0), Decimal(epsilon).exp()
        for signs in itertools.product((0, 1), repeat=len(each)):
            up = Decimal(1)
            down = Decimal(1)
            for sign, e in zip(signs, each, strict=True):
                high, low = e.exp() / (1 + e.exp()), 1 / (1 + e.exp())
                up *= high if sign else low
                down *= low if sign else high
            total += max(up - limit * down, Decimal(0))
        return total


def some_losses(rng: random.Random) -> composition.Losses:
    kinds = rng.randint(1, 4)
    return {pure(rng.choice([0.1, 0.5, 1.0, rng.uniform(0.01, 2)])): rng.randint(1, 2) for _ in range(kinds)}


def too_small(way: composition.Losses | object, seeds: range) -> list[object]:
    """Charges and deltas for which a way tells an epsilon with which they are not private."""
    found: list[object] = []
    for seed in seeds:
        rng = random.Random(seed)
        losses, delta = some_losses(rng), 10.0 ** rng.uniform(-9, -0.5)
        epsilon = way(losses, round(delta * ATTO))  # type: ignore[operator]
        if exact_delta(losses, epsilon) > Decimal(delta) * (1 + Decimal("1e-12")):
            found.append((losses, delta, epsilon))
    return found


@pytest.mark.parametrize("way", [basic, zcdp, advanced, optimal, privacy_loss])
def test_nobody_tells_less_than_the_truth(way: object) -> None:
    assert too_small(way, range(60)) == []


def test_epsilons_that_are_rounded_down_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "CELLS", 16)
    assert too_small(optimal, range(60)) == []
    monkeypatch.setattr(composition.math, "ceil", math.floor)
    assert too_small(optimal, range(60))


def test_losses_beyond_the_reach_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "_REACH", 0.5)
    assert too_small(optimal, range(60)) == []
    convolved = composition._convolved
    monkeypatch.setattr(composition, "_convolved", lambda *given: (convolved(*given)[0], 0.0))
    assert too_small(optimal, range(60))


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_the_least_epsilon_of_equal_charges(epsilon: float, count: int) -> None:
    for delta in (1e-7, 1e-3, 0.1):
        found = optimal({pure(epsilon): count}, round(delta * ATTO))
        assert found is not None
        assert found <= count * epsilon
        assert found < 1e-5 or exact_delta({pure(epsilon): count}, found * (1 - 2e-5)) > Decimal(delta) * Decimal(
            "0.9999"
        )


@pytest.mark.parametrize(
    "losses",
    [
        {pure(0.1): 100},
        {pure(0.01): 10_000},
        {pure(1.0): 20, pure(0.3): 30},
        {pure(0.1, 1e-11): 50, pure(0.0437): 60},
        {pure(0.01 + 0.001 * i): 1 for i in range(60)},
    ],
    ids=["equal", "many", "two", "deltas", "all different"],
)
def test_against_another_program(losses: composition.Losses) -> None:
    for delta in (1e-8, 1e-5, 1e-2):
        ours, theirs = optimal(losses, round(delta * ATTO)), privacy_loss(losses, round(delta * ATTO))
        assert ours is not None
        assert theirs is not None
        assert ours == pytest.approx(theirs, rel=0.02)


def test_the_ways_in_order() -> None:
    losses = {pure(0.02): 400, pure(0.1): 20}
    last = math.inf
    for delta in (1e-12, 1e-9, 1e-6, 1e-3):
        found = [way(losses, round(delta * ATTO)) for way in (optimal, advanced, basic)]
        assert None not in found
        assert found == sorted(found)  # type: ignore[type-var]
        assert found[0] <= last  # type: ignore[operator]
        last = found[0]  # type: ignore[assignment]


def test_what_the_charges_own_deltas_leave() -> None:
    losses = {pure(0.1, 1e-7): 10}
    for way in (advanced, optimal):
        assert way(losses, ATTO // 10**6) is None
        assert way(losses, ATTO // 10**6 + 10**6) is not None
    assert basic(losses, ATTO // 10**6) == 1.0
    assert basic(losses, ATTO // 10**6 - 1) is None
    gauss = {Loss(epsilon_nano=NANO, delta_atto=10**12, rho_pico=10**10, delta_zcdp_atto=10**10): 3}
    assert zcdp(gauss, 3 * 10**10) is None
    assert zcdp(gauss, 4 * 10**10) == rounded_up(epsilon_for(3 * 10**10, 10**10) / NANO)


def test_nothing_costs_nothing() -> None:
    for way in (basic, zcdp, advanced, optimal, privacy_loss):
        assert way({}, 10**12) == 0
        assert way({Loss(epsilon_nano=0): 5}, 10**12) == 0
    assert [way({pure(0.5): 2}, 0) for way in (basic, zcdp, advanced, optimal, privacy_loss)] == [
        1,
        None,
        None,
        None,
        1,
    ]

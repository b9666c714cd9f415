"""Keys without a domain: one that a single unit has is shown with probability at most its share of delta."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction

import pytest

from duckdp.compiler.plan import Plan
from duckdp.compiler.release import SelectTask
from duckdp.core.errorbars import Noise
from duckdp.core.types import ATTO, Neighbours
from duckdp.errors import QueryError
from duckdp.mechanisms import additive
from duckdp.mechanisms.threshold import threshold
from tests.gate import clinic, own_steps, plan_for
from tests.privacy.statistics import FALSE_ALARM, clopper_pearson

KEYS = 60_000


def _shown(plan: Plan, steps: int) -> int:
    """How many of KEYS keys with one unit each, which adds so much to each, are shown by one release."""
    rows = [(f"k{i}", steps, *[0] * (plan.cells - 1)) for i in range(KEYS)]
    return len(json.loads(SelectTask(plan=plan).release(rows))["keys"])


def _above_delta(plan: Plan, keys: int, steps: int) -> bool:
    """Whether more is surely shown than delta lets, of a unit with so many own keys and so many steps on each."""
    lower, _ = clopper_pearson(_shown(plan, steps), KEYS, FALSE_ALARM)
    return lower > plan.loss.delta_zcdp_atto / ATTO / keys


def _plans() -> list[Plan]:
    text = "SELECT name, count(*) FROM clinic GROUP BY name"
    by_row = clinic(unit_key=None)
    return [
        plan_for(text, clinic(max_groups=1), delta="0.05"),
        plan_for(text, clinic(max_groups=3), delta="0.05", epsilon="0.5"),
        plan_for(text, by_row, delta="0.05"),
        plan_for(text, by_row, delta="0.05", neighbours=Neighbours.REPLACE),
        plan_for("SELECT name FROM clinic GROUP BY name", clinic(), delta="0.1", epsilon=3),
        plan_for(f"{text} HAVING count(DISTINCT pid) > 0", clinic(max_groups=3), delta="0.05", epsilon="0.5"),
        plan_for(text, clinic(), delta="0.05", mechanism="gaussian"),
    ]


def _name(plan: Plan) -> str:
    return f"{plan.family}-{plan.measures[0].kind}-{plan.groups}-{plan.neighbours.value}-{plan.cells}"


@pytest.mark.parametrize("plan", _plans(), ids=_name)
def test_a_key_of_one_unit_is_shown_within_delta(plan: Plan) -> None:
    assert not any(_above_delta(plan, *own) for own in own_steps(plan))


@pytest.mark.parametrize("plan", _plans()[:6], ids=_name)
def test_twin_with_a_lower_threshold_is_noticed(plan: Plan) -> None:
    assert plan.tau is not None
    assert plan.noises[0] is not None
    twin = replace(plan, tau=plan.tau - 2 - round(1.5 * plan.noises[0].scale))
    assert _above_delta(twin, *own_steps(plan)[-1])


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.4, 1.0, 3.7, 50.0])
def test_threshold_by_exact_summation(family: str, scale: float) -> None:
    """P(1 + Z >= tau) summed term by term, for deltas down to 1e-12."""
    mass = (
        (lambda k: math.exp(-abs(k) / scale))
        if family == "laplace"
        else (lambda k: math.exp(-k * k / (2 * scale * scale)))
    )
    total = math.fsum(mass(k) for k in range(-int(60 * scale) - 40, int(60 * scale) + 41))
    for delta in (Fraction(1, 20), Fraction(1, 1000), Fraction(1, 10**8), Fraction(1, 10**12)):
        for groups in (1, 2, 1000):
            tau = threshold(Noise(family, scale), delta_atto=int(delta * ATTO), groups=groups)  # type: ignore[arg-type]
            tail = math.fsum(mass(k) for k in range(tau - 1, tau + int(60 * scale) + 40)) / total
            assert tail <= delta / groups


@pytest.mark.parametrize("scale", [1.0, 20.0, 300.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-9, 1e-14])
def test_a_gaussian_threshold_is_near_the_least(scale: float, delta: float) -> None:
    """Within two, and a fiftieth of a deviation, of the least by exact summation; exp(-t^2 / 2 s^2) alone is not."""
    terms = [math.exp(-k * k / (2 * scale * scale)) for k in range(int(12 * scale) + 12)]
    whole, tail, least = 2 * math.fsum(terms) - 1, 0.0, len(terms)
    while tail + terms[least - 1] <= delta * whole:
        least -= 1
        tail += terms[least]
    found = threshold(Noise("gaussian", scale), delta_atto=int(delta * ATTO), groups=1)
    assert 1 + least <= found <= 3 + least + scale / 50
    if scale > 20:
        assert math.ceil(scale * math.sqrt(-2 * math.log(delta))) > least + 2 + scale / 50


def test_a_key_without_units_cannot_appear() -> None:
    """The proof needs it: the emitted rows are groups of rows that exist."""
    plan = plan_for("SELECT name, count(*) FILTER (WHERE smoker) FROM clinic GROUP BY name", clinic())
    assert plan.measures[0].kind == "weights"
    assert plan.once.measures[0].kind == "units"
    assert plan.measures[0].filter is plan.once.measures[0].filter is None


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_a_key_is_shown_from_tau_on(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the noise is 0 a key with tau units is shown, and one with tau - 1 is not."""
    plan = plan_for("SELECT name, count(*) FROM clinic GROUP BY name", clinic(), delta="1e-3", mechanism=family)
    assert plan.tau is not None
    for name in ("laplace_noise", "gaussian_noise"):
        monkeypatch.setattr(additive, name, lambda count, _: [0] * count)
    rows = [(str(n), n, *[0] * (plan.cells - 1)) for n in range(plan.tau - 3, plan.tau + 3)]
    shown = [int(key) for (key,) in json.loads(SelectTask(plan=plan).release(rows))["keys"]]
    assert shown == [plan.tau, plan.tau + 1, plan.tau + 2]


@pytest.mark.parametrize("mechanism", ["auto", "laplace", "gaussian"])
@pytest.mark.parametrize(
    "text", ["SELECT name, count(*) FROM clinic GROUP BY name", "SELECT name FROM clinic GROUP BY 1"]
)
def test_keys_without_a_domain_cost_delta(text: str, mechanism: str) -> None:
    """With delta 0 no threshold is safe: refused by the statement, before anything is charged or read."""
    for table in (clinic(), clinic(unit_key=None)):
        with pytest.raises(QueryError) as caught:
            plan_for(text, table, delta=0, mechanism=mechanism)
        assert caught.value.code == "Q404"
        plan = plan_for(text, table, delta="1e-8", mechanism=mechanism)
        assert plan.tau is not None
        assert plan.loss.delta_atto > 0

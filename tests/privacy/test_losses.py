"""What neighbours really cost, in every kind of release: exact vectors, met by their noise, against the charge.

Two neighbouring tables are released with the same draws and the same outputs of stages (``draws.observe``). Each draw
notes the exact number that it is added to, so the privacy loss of the pair is known without chance: |x - x'|_1 / scale,
|x - x'|_inf * rate and |x - x'|_2^2 / (2 sigma^2) add up over all that is drawn, and choices count as what they claim.
The sum must be within the charge, and near it for some pair, so that half of the noise would be seen.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np
import pytest

from duckdp.compiler import logistic_steps, measures
from duckdp.compiler import plan as plan_module
from duckdp.compiler.above_threshold import AboveThreshold, SparseStream
from duckdp.compiler.block_values import BlockTask
from duckdp.compiler.block_vectors import BlockVectorTask
from duckdp.compiler.bounds import BoundsTask
from duckdp.compiler.choice import PredicateChoice, ValueChoice
from duckdp.compiler.common_keys import HeavyHittersTask
from duckdp.compiler.edges import SpanningTreeTask
from duckdp.compiler.net_task import NetTask
from duckdp.compiler.outer import several
from duckdp.compiler.per_unit import PerUnitTask
from duckdp.compiler.plan import Plan
from duckdp.compiler.quantile import QuantileTask
from duckdp.compiler.quantile_levels import QuantilesTask
from duckdp.compiler.quantile_steps import StepQuantileTask
from duckdp.compiler.smooth_quantiles import SmoothQuantilesTask
from duckdp.compiler.weighted_stream import WeightedStream
from duckdp.compiler.workload import WorkloadTask
from duckdp.core.accountant import epsilon_for
from duckdp.core.errorbars import Noise
from duckdp.core.types import ATTO, NANO, PICO, Loss, Neighbours, parse_delta, parse_epsilon
from duckdp.errors import InternalError
from duckdp.mechanisms import additive, cluster_means, noisy_tables, second_moments, tree_quantiles
from duckdp.mechanisms.tree_quantiles import NoisyTree, QuantileTree
from duckdp.smooth import kernel_noise, product_kernels, sum_noise
from duckdp.smooth.buy import counted, range_task
from duckdp.smooth.kernel_noise import STEPS, KernelShares
from duckdp.smooth.sums.moments import MomentPlan
from duckdp.synthetic.lp.buy import null_patterns as missing
from duckdp.synthetic.moments.buy import strongest as best
from duckdp.synthetic.psi import buy as psi
from duckdp.synthetic.tree.buy import counts as tree_counts
from duckdp.synthetic.tree.buy import grow as tree
from duckdp.synthetic.tree.buy import null_counts
from duckdp.synthetic.unit.buy import purse as release
from duckdp.synthetic.unit.features import Factor
from duckdp.synthetic.unit.normed import Normed, NormedFunctions, NormedProducts
from tests.gate import clinic, own_steps, plan_for
from tests.mechanisms.test_kernels import twin
from tests.privacy.draws import HIGH, LOW, NONE, ODD, SLOW, TASKS, Case, _random_row, connect, observe, tables
from tests.privacy.test_draws import _case

# Their own tests are exact: scaled by the data (quantiles), bins that follow from draws (bounds), all small tables.
ELSEWHERE = {
    QuantileTask,
    BoundsTask,
    PerUnitTask,
    ValueChoice,
    HeavyHittersTask,
    PredicateChoice,
    AboveThreshold,
    SparseStream,
    BlockTask,
    BlockVectorTask,
    WeightedStream,
    WorkloadTask,
    NetTask,
    QuantilesTask,
    StepQuantileTask,
    SmoothQuantilesTask,
    SpanningTreeTask,
}
SCALED = {"centres of blocks"}  # by the data too: mechanisms/test_center_of_vectors.py
CASES = [
    c
    for kind, cases in TASKS.items()
    for c in cases
    if kind not in ELSEWHERE and not c.open_keys and c.name not in SCALED
]
RANDOM_PAIRS = int(os.environ.get("DUCKDP_PAIRS", "20"))  # of each case, in the slow suite
CHOICES = {"noisy maximum": 2, "exponential": 8}  # rho is epsilon^2 over it
EDGE = (110, 5000.0, 1e9, "M", "Genf", "n", None, None, True, 1, 2, 20.0)  # on the bounds
OTHER = (0, 0.0, -1e9, "F", "Uri", "m", None, None, False, 0, 1, -10.0)


@dataclass
class Draw:
    """One call: the law, and the exact numbers that met its noise."""

    law: str
    scale: float
    met: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Taken:
    """A share of a purse: epsilon in 1e-9, or rho in 1e-12."""

    cost: int
    gaussian: bool


class Noticed(int):
    """A draw of noise that notes what it is added to."""

    draw: Draw

    def __radd__(self, exact: int) -> int:
        self.draw.met.append(exact)
        return int(exact) + int(self)


def _noticed(values: Sequence[int], draw: Draw) -> list[int]:
    found = [Noticed(v) for v in values]
    for z in found:
        z.draw = draw
    return list[int](found)


def _all_nodes(tree: QuantileTree, counts: dict[int, int], shares: Sequence[float]) -> Any:
    """All nodes of a tree are looked at: those that are is post-processing."""
    noisy = NoisyTree(tree, counts, tree_quantiles.laplace_noise(tree.nodes, tree.scale))
    branches, depth = tree.shape
    for level in range(depth):
        for node in range(branches**level):
            noisy.children(level, node)
    return [0.5] * len(shares), [(0, 0)] * len(shares)


@contextmanager
def meter() -> Iterator[list[Draw]]:
    """Every law that is drawn from, with what met it; choices with their epsilon."""
    log: list[Draw] = []
    taken: list[Taken] = []
    take = release.Purse.take

    def taking(purse: release.Purse, share: Fraction) -> int:
        taken.append(Taken(take(purse, share), purse.gaussian))
        return taken[-1].cost

    def listen(module: Any, name: str, law: str) -> None:
        plain = getattr(module, name)

        def heard(count: int, scale: Any) -> list[int]:
            log.append(Draw(law, float(scale)))
            return _noticed(plain(count, scale), log[-1])

        patch.setattr(module, name, heard)

    def choice(module: Any, name: str, law: str) -> None:
        plain = getattr(module, name)

        def heard(scores: Sequence[int], *, epsilon: Fraction, linf: int, **more: Any) -> int:
            limit = Fraction(taken[-1].cost, NANO)
            if taken[-1].gaussian:  # a pure choice costs epsilon^2 / 2, one of bounded range epsilon^2 / 8
                limit = Fraction(math.isqrt(CHOICES[law] * taken[-1].cost * PICO) + 1, PICO)
            assert epsilon <= limit, f"{law}: more than the share that was taken for it"
            log.append(Draw(law, float(epsilon), [Fraction(q, linf) for q in scores]))  # type: ignore[misc]
            return int(plain(scores, epsilon=epsilon, linf=linf, **more))

        patch.setattr(module, name, heard)

    with pytest.MonkeyPatch.context() as patch:
        modules = (additive, noisy_tables, second_moments, sum_noise, counted, missing, release, tree_counts, psi)
        for module in (*modules, tree_quantiles, cluster_means, logistic_steps, null_counts):
            for name, law in (("laplace_noise", "laplace"), ("gaussian_noise", "gaussian"), ("cube_noise", "cube")):
                if hasattr(module, name):
                    listen(module, name, law)
        patch.setattr(release.Purse, "take", taking)
        patch.setattr(tree_quantiles.QuantileTree, "release", _all_nodes)
        choice(best, "choose_best", "noisy maximum")
        choice(best, "choose_exponential", "exponential")
        choice(tree, "choose_exponential", "exponential")
        yield log


def record(
    task: Any, rows: list[tuple[Any, ...]], script: tuple[str, ...] | None
) -> tuple[list[Draw], tuple[str, ...]]:
    """Laws and exact numbers of one release, and the outputs of its stages."""
    with connect(rows) as con, meter() as log:
        seen = observe(task, con, script=script)
    assert seen.failure is None, seen.failure
    return log, seen.outputs


def cost(first: list[Draw], second: list[Draw]) -> tuple[float, float]:
    """Loss of a pair of releases: (epsilon of pure laws, rho of Gaussian ones); scores move within their claim."""
    assert [(d.law, d.scale, len(d.met)) for d in first] == [(d.law, d.scale, len(d.met)) for d in second]
    epsilon = rho = 0.0
    for one, other in zip(first, second, strict=True):
        moved = [abs(a - b) for a, b in zip(one.met, other.met, strict=True)]
        if one.law == "laplace":
            epsilon += float(sum(moved) / Fraction(one.scale))
        elif one.law == "cube":
            epsilon += float(max(moved) * Fraction(one.scale))
        elif one.law == "gaussian":
            rho += float(sum(m * m for m in moved) / (2 * Fraction(one.scale) ** 2))
        else:
            assert max(moved, default=0) <= 1, f"{one.law}: a score moves by more than its linf"
            epsilon += one.scale
    return epsilon, rho


def share(epsilon: float, rho: float, choices: Sequence[Draw], loss: Loss) -> float:
    """What a pair uses of the charge, 1 being all of it: by (epsilon, delta), and by rho where that is charged."""
    if not rho:
        return epsilon * NANO / loss.epsilon_nano
    pure = sum(d.scale**2 / CHOICES[d.law] for d in choices)
    rest = epsilon - sum(d.scale for d in choices)  # Laplace beside Gaussian noise: its epsilon adds to the others'
    whole = rho + pure + rest**2 / 2
    by_epsilon = epsilon_for(math.ceil((rho + pure) * PICO * (1 - 1e-9)), loss.delta_atto) / NANO + rest
    return max(whole * PICO / loss.rho_pico, by_epsilon * NANO / loss.epsilon_nano)


def pairs(neighbours: Neighbours, keyed: bool) -> Iterator[tuple[list[Any], list[Any]]]:
    """Neighbouring tables: a unit of more rows than count comes; a row is replaced by one far away."""
    base = tables()["usual"][:60]
    units = ([EDGE], [OTHER], [HIGH, LOW], [EDGE, (*EDGE[:3], "F", "Uri", *EDGE[5:])])
    if neighbours is Neighbours.REPLACE:
        for one, other in ((EDGE, OTHER), (HIGH, LOW), ((*OTHER[:8], True, *OTHER[9:]), OTHER), (EDGE, NONE)):
            yield [*base, (999, *one)], [*base, (999, *other)]
    else:
        for unit in units:
            rows = [(999, *row) for row in unit]
            yield base, [*base, *(rows * 8 if keyed else rows[:1])]


def largest_share(case: Case, of: Sequence[tuple[list[Any], list[Any]]] = ()) -> float:
    """Over the pairs, or these: the largest part of the charge that a pair uses."""
    task, worst, script = case.make(), 0.0, None
    found = pairs(_holder(task, "neighbours").neighbours, _holder(task, "table").table.unit_key is not None)
    for one, other in of or islice(found, 2 if case.name.startswith("tree") else None):
        script = record(task, one, None)[1] if script is None else script
        first, second = record(task, one, script)[0], record(task, other, script)[0]
        epsilon, rho = cost(first, second)
        choices = [d for d in first if d.law in ("noisy maximum", "exponential")]
        worst = max(worst, share(epsilon, rho, choices, task.loss))
    return worst


def _holder(task: Any, name: str) -> Any:
    """The part of a task that has an attribute."""
    parts = [task, *(getattr(task, part, None) for part in ("plan", "request", "largest", "one", "summary"))]
    parts += getattr(task, "plans", ())  # of several, which are of one table here
    parts += [getattr(part, "query", None) for part in parts]
    return next(part for part in parts if hasattr(part, name))


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c.name, marks=[pytest.mark.slow] if c.name in SLOW else []) for c in CASES]
)
def test_neighbours_cost_no_more_than_the_charge_and_nearly_that(case: Case) -> None:
    assert 0.55 < largest_share(case) <= 1 + 1e-9


def random_pair(rng: random.Random, neighbours: Neighbours, keyed: bool) -> tuple[list[Any], list[Any]]:
    """Neighbours of any rows: usual ones, extremes, what no declaration allows, NULLs."""

    def row() -> tuple[Any, ...]:
        return rng.choice((HIGH, LOW, ODD, NONE, EDGE, OTHER, *[_random_row(rng)] * 4))

    base = [(rng.randint(0, 9), *row()) for _ in range(rng.choice((0, 1, 5, 40)))]
    unit = [(999, *row()) for _ in range(rng.choice((1, 2, 3, 12)) if keyed else 1)]
    if neighbours is Neighbours.REPLACE:
        return [*base, *unit], [*base, (999, *row())]
    return base, [*base, *unit]


def worst_of_random(case: Case, count: int, seed: int) -> float:
    """The largest part of the charge that so many random pairs use; each is led through outputs of its own."""
    task, worst, rng = case.make(), 0.0, random.Random(seed)
    neighbours, keyed = _holder(task, "neighbours").neighbours, _holder(task, "table").table.unit_key is not None
    for _ in range(count):
        one, other = random_pair(rng, neighbours, keyed)
        script = record(task, rng.choice((one, other)), None)[1]
        first, second = record(task, one, script)[0], record(task, other, script)[0]
        choices = [d for d in first if d.law in ("noisy maximum", "exponential")]
        worst = max(worst, share(*cost(first, second), choices, task.loss))
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_random_neighbours_cost_no_more_than_the_charge(case: Case) -> None:
    assert worst_of_random(case, RANDOM_PAIRS, seed=3) <= 1 + 1e-9


@pytest.mark.parametrize("name", ["aggregates, laplace", "of rows, replaced", "cells", "kernels, of rows", "lp"])
def test_random_neighbours_in_short(name: str) -> None:
    (case, *_) = [c for c in CASES if c.name == name]
    assert worst_of_random(case, 5, seed=4) <= 1 + 1e-9


def test_laws_that_are_met() -> None:
    """Every law, and both choices under both accounts: else the sums above say nothing about them."""
    met = set()
    base = tables()["usual"][:60]
    for kind, name in (
        ("MomentsTask", "moments, target"),
        ("MomentsTask", "moments, gaussian, target"),
        ("TreeTask", "tree, gaussian, target"),
        ("CountedTask", "gaussian"),
    ):
        log, _ = record(_case(kind, name).make(), base, None)
        met |= {(d.law, any(e.law == "gaussian" for e in log)) for d in log}
    assert met >= {("noisy maximum", False), ("exponential", True), ("laplace", True)}
    assert ("noisy maximum", True) not in met  # it would cost four times the rho of an exponential one


# ---- broken twins


def _over(kind: str, name: str) -> bool:
    try:
        return largest_share(_case(kind, name)) > 1.05
    except AssertionError:
        return True


def test_twin_whose_measures_each_spend_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, scales = additive.gaussian_scale, additive.laplace_scale
    monkeypatch.setattr(additive, "gaussian_scale", lambda rho, square: plain(2 * rho, square))
    monkeypatch.setattr(additive, "laplace_scale", lambda epsilon, l1: scales(2 * epsilon, l1))
    assert _over("SelectTask", "aggregates, gaussian")
    assert _over("SelectTask", "aggregates, laplace")


def test_twin_whose_parts_each_spend_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, "_shares", lambda whole, weights: [whole for _ in weights])
    with pytest.raises(InternalError):  # parts are compared with the whole where they are planned
        _case("SeveralTask", "parts, laplace").make()
    monkeypatch.setattr(several, "_require_at_most", lambda *_: None)
    task = _case("SeveralTask", "parts, laplace").make()
    assert task.loss.epsilon_nano == 3 * NANO  # it would be charged all the same
    monkeypatch.setattr(several, "total", lambda losses: losses[0])
    assert _over("SeveralTask", "parts, laplace")
    assert _over("SeveralTask", "parts, gaussian")


def test_twin_whose_sums_leave_out_0(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = measures._replaced_sum
    monkeypatch.setattr(measures, "_replaced_sum", lambda m, *, grouped, whole: plain(m, grouped=grouped, whole=True))
    assert _over("SelectTask", "replaced, bounds without 0")
    assert _over("SelectTask", "replaced, negative")


@pytest.mark.parametrize(
    ("kind", "name", "owner", "attribute"),
    [
        ("MomentsTask", "moments, gaussian, target", release.Purse, "take_epsilon"),
        ("TreeTask", "tree, gaussian, target", tree, "choice_epsilon"),
    ],
)
def test_twin_whose_choices_cost_four_times_their_rho(
    kind: str, name: str, owner: Any, attribute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = getattr(owner, attribute)
    monkeypatch.setattr(owner, attribute, lambda *given: 2 * plain(*given))
    assert _over(kind, name)


@pytest.mark.parametrize("name", ["tree, NULLs counted", "tree, NULLs counted, gaussian, replaced"])
def test_a_row_of_nulls_costs_no_more_and_the_twin_that_is_not_scaled_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the stage, a small part of the charge: what it uses beside one in which rows add nothing."""
    case, base = _case("TreeTask", name), tables()["usual"][:60]
    without = [*base, (999, *EDGE)] if name.endswith("replaced") else base
    planned, honest = float(case.make()._plans[0].nulls), null_counts.weight  # type: ignore[attr-defined]

    def used(weight: Callable[..., int]) -> float:
        monkeypatch.setattr(null_counts, "weight", weight)
        return largest_share(case, [(without, [*base, (999, *NONE)])])

    rest = used(lambda *_, **__: 0)
    assert 0.3 * planned < used(honest) - rest <= planned * (1 + 1e-6)
    assert used(lambda *_, **__: 1 << null_counts.BITS) - rest > 1.05 * planned


def test_twin_whose_score_moves_further_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "score_change", lambda _: tree_counts.GRID // 4)
    assert _over("TreeTask", "tree, gaussian, target")


def test_twin_of_a_cube_for_a_third_of_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = sum_noise.cube_rate
    monkeypatch.setattr(sum_noise, "cube_rate", lambda epsilon, linf, size: plain(epsilon, linf // 3 or 1, size))
    assert _over("SummaryTask", "cube, sums")


def test_twin_of_clusters_that_share_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a unit's three rows one is noised."""
    plain = cluster_means.cube_rate
    monkeypatch.setattr(cluster_means, "cube_rate", lambda epsilon, linf, size: plain(epsilon, linf // 3, size))
    assert _over("KMeansTask", "centres that are moved")


def test_twin_of_kernels_that_weigh_high_degrees_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of Dirichlet, which are negative somewhere."""
    case = _case("SummaryTask", "kernels, a public count")
    assert worst_of_random(case, 8, seed=4) < 1
    monkeypatch.setattr(product_kernels, "fejer_kernels", lambda count: twin(count, np.ones(count)))
    monkeypatch.setattr(product_kernels, "kernels_of", product_kernels.kernels_of.__wrapped__)
    assert worst_of_random(case, 8, seed=4) > 1.05


def test_twin_of_a_cube_of_more_than_the_count_at_half_its_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_noise, "CUTS", (1, 2))
    assert not _over("SummaryTask", "kernels, blocks, replaced")
    plain = MomentPlan.norms
    monkeypatch.setattr(MomentPlan, "norms", lambda self, _, **more: plain(self, Neighbours.ADD_REMOVE, **more))
    assert _over("SummaryTask", "kernels, blocks, replaced")


def test_twin_of_a_cube_that_is_free_beside_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KernelShares, "budgets", lambda shares, epsilon: (epsilon * shares.steps / STEPS, epsilon))
    assert _over("SummaryTask", "kernels, of rows")


# ---- the shares of every SELECT: by the claims, over random plans

PARTS_OF_SELECT = (
    "count(*)",
    "sum(age)",
    "avg(cost)",
    "variance(income)",
    "count(score)",
    "count(DISTINCT pid)",
    "sum(cost - 10)",
    "count(*) FILTER (WHERE smoker)",
    "avg(age) FILTER (WHERE smoker)",
    "stddev_pop(cost)",
    "sum(income)",
)
KEYS = ("", "sex", "town", "sex, town", "name", "name, sex", "visits")


def _plans(count: int) -> Iterator[tuple[Plan, int, int]]:
    rng = random.Random(11)
    while count:
        keyed, key = rng.random() < 0.6, rng.choice(KEYS)
        parts = rng.sample([p for p in PARTS_OF_SELECT if keyed or "DISTINCT" not in p], rng.randint(1, 6))
        text = (
            f"SELECT {', '.join([*key.split(', ')] if key else [])}{', ' if key else ''}{', '.join(parts)} FROM clinic"
        )
        text += rng.choice(("", " WHERE age > 30")) + (f" GROUP BY {key}" if key else "")
        epsilon, delta = rng.choice(("0.01", "0.3", "1", "7")), rng.choice(("0.2", "1e-3", "1e-8", "1e-15"))
        bounds = {"max_rows": rng.choice((1, 3)), "max_groups": rng.choice((1, 2, 5))}
        table = clinic(**bounds) if keyed else clinic(unit_key=None)
        plan = plan_for(
            text,
            table,
            epsilon=epsilon,
            delta=delta,
            mechanism=rng.choice(("auto", "laplace", "gaussian")),
            neighbours=Neighbours.ADD_REMOVE if keyed else rng.choice(list(Neighbours)),
        )
        if plan.loss.epsilon_nano:
            count -= 1
            yield plan, parse_epsilon(epsilon), parse_delta(delta)


def _within(plan: Plan, epsilon_nano: int, delta_atto: int) -> None:
    """The shares add up to the charge, and the charge is what was asked."""
    pairs = [(m.sensitivity, Fraction(n.scale)) for m, n in zip(plan.measures, plan.noises, strict=True) if n]
    for_keys = 0.0
    if plan.tau is not None:
        assert plan.noises[0] is not None
        law, tau = plan.noises[0], plan.tau
        # a key that one unit alone has counts as much as the unit adds to a group: one, or its weight
        for_keys = max(keys * _tail(law, tau - steps) for keys, steps in own_steps(plan))
    rest = (plan.loss.delta_atto - plan.loss.delta_zcdp_atto) / ATTO
    for charged in (plan.loss.delta_zcdp_atto, plan.loss.delta_atto):  # whichever way charges add up
        assert for_keys <= charged / ATTO * (1 + 1e-9)
    assert plan.loss.delta_atto <= delta_atto
    assert plan.loss.epsilon_nano <= epsilon_nano
    if plan.family == "laplace":
        assert sum(s.l1 / scale for s, scale in pairs) <= Fraction(epsilon_nano, NANO)
        assert sum(s.l1 / scale for s, scale in pairs) ** 2 / 2 <= Fraction(plan.loss.rho_pico, PICO)
        return
    rho = sum(s.l2_squared / (2 * sigma**2) for s, sigma in pairs)
    assert rho <= Fraction(plan.loss.rho_pico, PICO) * (1 + Fraction(1, 10**12))
    spent = float(rho) + 2 * math.sqrt(float(rho) * math.log(1 / rest))  # Bun, Steinke 2016, Proposition 1.3
    assert 0.99 * epsilon_nano / NANO < spent <= epsilon_nano / NANO * (1 + 1e-9)
    assert plan.loss.delta_zcdp_atto < delta_atto


def _tail(law: Noise, t: int) -> float:
    """P(Z >= t), summed from its terms where there are few, else by the bounds of mechanisms/threshold.py."""
    weights = (
        (lambda k: math.exp(-k / law.scale))
        if law.family == "laplace"
        else (lambda k: math.exp(-(k**2) / (2 * law.scale**2)))
    )
    if law.scale > 3000:  # exact; or an integral above the sum, whose terms are convex beyond one scale
        if law.family == "laplace":
            return math.exp(-t / law.scale) / (1 + math.exp(-1 / law.scale))
        return math.erfc((t - 0.5) / law.scale / 2**0.5) / 2
    reach = int(40 * law.scale) + 40
    return math.fsum(weights(k) for k in range(t, t + reach)) / (1 + 2 * math.fsum(weights(k) for k in range(1, reach)))


def test_shares_of_every_plan_add_up_to_its_charge() -> None:
    seen = set()
    for plan, epsilon_nano, delta_atto in _plans(400):
        _within(plan, epsilon_nano, delta_atto)
        seen.add((plan.family, plan.tau is not None, len(plan.measures) > 1))
    assert len(seen) == 8


@pytest.mark.parametrize("spend", ["rho of all", "delta of the keys", "all of delta for keys"])
def test_twins_that_spend_twice_are_caught(spend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, rho, tau = additive.gaussian_scale, additive.rho_for, plan_module.threshold
    if spend == "rho of all":
        monkeypatch.setattr(additive, "gaussian_scale", lambda r, square: plain(2 * r, square))
    elif spend == "delta of the keys":
        monkeypatch.setattr(additive, "rho_for", lambda e, d: rho(e, min(2 * d, ATTO - 1)))
    else:
        monkeypatch.setattr(
            plan_module,
            "threshold",
            lambda n, *, delta_atto, groups: tau(n, delta_atto=min(2 * delta_atto, ATTO - 1), groups=groups) - 2,
        )
    with pytest.raises(AssertionError):
        for given in _plans(60):
            _within(*given)


# ---- the shares of every purse: whatever is bought with them, in whatever parts


def _drawn_at(module: Any, call: Callable[[], Any]) -> Fraction:
    """The scale, or rate, at which the one draw of a call is made."""
    met: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("laplace_noise", "gaussian_noise", "cube_noise"):
            if hasattr(module, name):
                patch.setattr(module, name, lambda count, scale: met.append(scale) or [0] * count)
        call()
    (scale,) = met
    return Fraction(scale)


def _spent(purse: release.Purse, rng: random.Random, parts: int) -> Fraction:
    """What a purse pays for when it is spent in random parts: epsilon (pure), or rho."""
    cuts = sorted(Fraction(rng.randint(1, 10**6 - 1), 10**6) for _ in range(parts - 1))
    whole = Fraction(0)
    for share in (b - a for a, b in zip([Fraction(0), *cuts], [*cuts, Fraction(1)], strict=True) if b > a):
        match rng.choice(("choices", "exponential", "sums", "normed", "tables")):
            case "choices":  # of bounded range under a Gaussian purse
                epsilon = purse.take_epsilon(share)
                whole += epsilon**2 / 8 if purse.gaussian else epsilon
            case "exponential":
                epsilon = tree_counts.choice_epsilon(purse, share)
                whole += epsilon**2 / 8 if purse.gaussian else epsilon
            case "sums":
                size, unit = rng.randint(1, 60), 1 << 24
                change = release.sensitivity(size, unit, purse.neighbours)
                move = unit * (2 if purse.neighbours is Neighbours.REPLACE else 1)
                scale = _drawn_at(release, lambda: purse._noise([0] * size, change, share))  # noqa: B023 - called now
                whole += size * move**2 / (2 * scale**2) if purse.gaussian else scale * move
            case "normed":
                factors = (Factor(weights=np.ones(1)),) * rng.randint(2, 9)
                bound = rng.uniform(0.2, 1)  # of at least one product
                kind = rng.choice((NormedProducts, NormedFunctions))
                given = kind(dimensions=1, factors=factors, bound=bound, squared=purse.gaussian)
                nothing = (0, [0] * given.count)
                scale = _drawn_at(release, lambda: purse.draw_normed(lambda *_: nothing, given, share))  # noqa: B023
                move = (2 if purse.neighbours is Neighbours.REPLACE else 1) * Fraction(bound) * 2**24
                whole += move**2 / (2 * scale**2) if purse.gaussian else move / scale
            case "tables":
                size, moved = rng.randint(1, 9), 2 if purse.neighbours is Neighbours.REPLACE else 1
                tables = tree_counts.Tables(merges=(np.arange(2),) * size, sets=tuple((i,) for i in range(size)))
                nothing = np.zeros(tables.cells, dtype=np.int64)
                scale = _drawn_at(tree_counts, lambda: tree_counts.measure(tables, purse, share, lambda _: nothing))  # noqa: B023
                cells = size * moved  # one cell of every table, or two, by one each
                whole += cells / (2 * scale**2) if purse.gaussian else cells / scale
    return whole


def _purse_holds(purse: release.Purse, whole: Fraction) -> bool:
    if not purse.gaussian:
        return Fraction(99, 100) * purse.loss.epsilon < whole <= purse.loss.epsilon
    spent = epsilon_for(math.ceil(whole * PICO * (1 - Fraction(1, 10**12))), purse.delta_atto)
    within = whole <= purse.loss.rho * (1 + Fraction(1, 10**12)) and spent <= purse.epsilon_nano
    return within and whole > Fraction(98, 100) * purse.loss.rho


def _purses(count: int) -> Iterator[tuple[release.Purse, Fraction]]:
    rng = random.Random(17)
    for _ in range(count):
        gaussian = rng.random() < 0.6
        purse = release.Purse(
            epsilon_nano=rng.randint(NANO // 10, 9 * NANO),
            delta_atto=10 ** rng.randint(4, 16),
            gaussian=gaussian,
            neighbours=rng.choice(list(Neighbours)),
        )
        yield purse, _spent(purse, rng, rng.randint(1, 12))


def test_shares_of_every_purse_add_up_to_its_charge() -> None:
    """Choices, sums and tables: each fits its share, so any of them together fit the charge, and use it."""
    for purse, whole in _purses(300):
        assert _purse_holds(purse, whole), purse


@pytest.mark.parametrize("spend", ["choices", "exponential", "sums", "normed", "tables"])
def test_twins_of_purses_are_caught(spend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if spend == "choices":
        plain = release.Purse.take_epsilon
        monkeypatch.setattr(release.Purse, "take_epsilon", lambda self, share: 2 * plain(self, share))
    elif spend == "exponential":
        choice = tree_counts.choice_epsilon
        monkeypatch.setattr(tree_counts, "choice_epsilon", lambda *given: 2 * choice(*given))
    elif spend == "normed":  # half of the bound
        monkeypatch.setattr(Normed, "longest", property(lambda p: int(p.bound * 2**23) ** (1 + p.squared)))
    else:
        owner = release if spend == "sums" else tree_counts
        change = owner.sensitivity
        monkeypatch.setattr(owner, "sensitivity", lambda size, *given: change(max(1, size // 2), *given))
        if spend == "sums":  # a cube's noise follows linf alone
            monkeypatch.setattr(release, "cube_rate", lambda epsilon, linf, _: 2 * Fraction(epsilon) / linf)
    assert not all(_purse_holds(purse, whole) for purse, whole in _purses(100))


def test_twin_whose_tables_each_spend_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = noisy_tables.laplace_scale
    monkeypatch.setattr(noisy_tables, "laplace_scale", lambda epsilon, l1: plain(2 * epsilon, l1))
    assert _over("RangedTask", "ranges of units")
    assert _over("RangedTask", "ranges of rows, replaced")


def test_twin_whose_replaced_row_leaves_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = range_task.change
    monkeypatch.setattr(range_task, "change", lambda rows, _: plain(rows, Neighbours.ADD_REMOVE))
    assert _over("RangedTask", "ranges of rows, replaced")

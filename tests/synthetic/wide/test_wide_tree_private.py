"""What a tree reads and releases: sensitivities by brute force, the choice, the charge, the draws, and its SQL."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from duckdp.core.types import NANO, Neighbours
from duckdp.errors import InternalError, ParameterError
from duckdp.mechanisms import exponential as tree_select
from duckdp.mechanisms.exponential import Seen, choose_exponential, exponential_weights
from duckdp.synthetic.tree.bins import make_bins
from duckdp.synthetic.tree.buy import counts as tree_counts
from duckdp.synthetic.tree.buy import grow as tree_module
from duckdp.synthetic.tree.buy.counts import exact_scores, measure, score_change
from duckdp.synthetic.tree.buy.grow import grow_tree
from duckdp.synthetic.tree.contingency import Tables, sensitivity
from duckdp.synthetic.tree.plan import make_tree_plan
from duckdp.synthetic.tree.plan_before import plan_before
from duckdp.synthetic.unit.buy.purse import Purse
from tests.synthetic.in_memory import memory_sums
from tests.synthetic.plans import encode, open_tree_purse, request
from tests.synthetic.wide.trees import memory_counts, three_columns

CELLS = list(product(range(2), range(3)))
TABLES = Tables(merges=(np.arange(2), np.array([0, 1, 1])), sets=((0,), (1,), (0, 1)))
EXPECTED = np.array([9, 16, 3, 40, 0, 17, 8, 100])


def _neighbours(relation: Neighbours) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    for size in range(3):
        for rows in combinations_with_replacement(CELLS, size):
            for one in CELLS:
                first = np.array([*rows, one])
                if relation is Neighbours.ADD_REMOVE:
                    yield np.array(rows, dtype=int).reshape(-1, 2), first
                else:
                    yield from ((np.array([*rows, other]), first) for other in CELLS)


@pytest.mark.parametrize("relation", list(Neighbours))
def test_sensitivities_are_those_of_all_small_tables(relation: Neighbours) -> None:
    found = [0, 0, 0]
    scores = 0
    for one, two in _neighbours(relation):
        change = TABLES.count(one) - TABLES.count(two)
        sizes = int(np.abs(change).sum()), int((change**2).sum()), int(np.abs(change).max())
        found = [max(a, b) for a, b in zip(found, sizes, strict=True)]
        both = (exact_scores(TABLES, EXPECTED, memory_counts(rows)) for rows in (one, two))
        scores = max(scores, *(abs(a - b) for a, b in zip(*both, strict=True)))
    claimed = sensitivity(3, relation)
    assert found == [claimed.l1, claimed.l2_squared, claimed.linf]
    assert scores == score_change(relation)
    broken = sensitivity(2, relation)  # a table forgotten
    assert found[0] > broken.l1
    assert found[1] > broken.l2_squared


def _range(epsilon: Fraction, linf: int, factor: int) -> float:
    """Largest ratio of odds between neighbouring scores, log."""
    worst, base = 0.0, [40, 0, -300]
    for moves in product((-linf, 0, linf), repeat=3):
        rate = epsilon / (factor * linf)
        one, two = (exponential_weights(s, rate) for s in (base, [q + m for q, m in zip(base, moves, strict=True)]))
        logs = [math.log(a / sum(one)) - math.log(b / sum(two)) for a, b in zip(one, two, strict=True)]
        worst = max(worst, max(logs) - min(logs))
    return worst


def test_the_choice_has_bounded_range() -> None:
    assert _range(Fraction(1), 16, 2) <= 1 + 1e-9
    assert _range(Fraction(1), 16, 1) > 1.5  # the twin: as for scores that only grow


def test_the_choice_has_its_law_and_draws_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, epsilon, runs = [0, 40, 80], Fraction(1), 12_000
    counts = np.bincount([choose_exponential(scores, epsilon=epsilon, linf=16) for _ in range(runs)], minlength=3)

    def misfit(factor: float) -> float:
        wanted = np.exp(factor * np.array(scores) / 32)
        wanted *= runs / wanted.sum()
        return float(((counts - wanted) ** 2 / wanted).sum())

    assert misfit(1.0) < 42  # chi-square, 2 degrees: 1e-9
    assert misfit(0.8) > 42  # the twins' misfit is 300 and its deviation 35
    assert misfit(1.25) > 42
    calls = []
    monkeypatch.setattr(tree_select, "random_bits", lambda bits: calls.append(bits) or 0)
    for far in (0, 10**9, -(10**9)):
        choose_exponential([0, far], epsilon=epsilon, linf=16)
    assert calls == [640] * 3
    assert min(exponential_weights([0, 10**9], Fraction(1))) >= 2**163


def test_scores_that_came_before_have_the_same_weights() -> None:
    rate, seen = Fraction(3, 70), Seen()
    rounds = [[5, 0, 900, -40], [5, 0, -40], [-40, 0], [10**6, 10**6 - 30, 0], [10**6 + 9, 0], [-(10**9), 7 - 10**9]]
    for scores in rounds:
        for a, b in zip(exponential_weights(scores, rate, seen), exponential_weights(scores, rate), strict=True):
            assert abs(a - b) <= 1 + b // 2**180
    other = exponential_weights([0, -9], Fraction(1, 9), seen := Seen()), exponential_weights([0, -9], rate, seen)
    assert abs(other[1][1] / exponential_weights([0, -9], rate)[1] - 1) > 0.1  # the twin: one memory for two rates


def test_the_choice_refuses() -> None:
    with pytest.raises(ParameterError):
        choose_exponential([], epsilon=Fraction(1), linf=1)
    with pytest.raises(ParameterError):
        choose_exponential([1], epsilon=Fraction(0), linf=1)


def test_every_public_cell_is_noised_whatever_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    plain = tree_counts.laplace_noise
    monkeypatch.setattr(tree_counts, "laplace_noise", lambda count, s: drawn.append(count) or plain(count, s))
    for rows in (np.zeros((0, 2), dtype=int), np.array(CELLS * 4)):
        purse = Purse(epsilon_nano=NANO, delta_atto=0, neighbours=Neighbours.ADD_REMOVE)
        found = measure(TABLES, purse, Fraction(1), memory_counts(rows))
        assert [c.shape for c in found.counts] == [(2,), (2,), (2, 2)]
    assert drawn == [8, 8]
    with pytest.raises(InternalError):
        measure(TABLES, purse, Fraction(1, 100), memory_counts(rows))  # nothing is left


def _evidence(epsilon_nano: int, runs: int) -> tuple[float, float]:
    """How often the likelihood ratio of the touched cells is high, with a row and without it."""
    found = []
    for rows in (np.array([[0, 0]] * 5 + [[1, 2]]), np.array([[0, 0]] * 5)):
        high = 0
        for _ in range(runs):
            purse = Purse(epsilon_nano=epsilon_nano, delta_atto=0, neighbours=Neighbours.ADD_REMOVE)
            a, b, ab = measure(TABLES, purse, Fraction(1), memory_counts(rows)).counts
            high += min(a[1], b[1], ab[1, 1]) >= 1
        found.append(high / runs)
    return found[0], found[1]


def test_a_neighbour_shows_no_more_than_epsilon() -> None:
    runs = 700
    one, two = _evidence(NANO, runs)
    slack = 7 * math.sqrt((one + math.e**2 * two) / runs)  # seven deviations: false alarm below 1e-9
    assert one <= math.e * two + slack
    one, two = _evidence(6 * NANO, runs)  # the twin: noise for a sixth of the tables' change
    assert one > math.e * two + 7 * math.sqrt((one + math.e**2 * two) / runs)


@pytest.mark.parametrize("target", [None, 4])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0"), ("1", "1e-6"), ("0.01", "1e-6"), ("0.0005", "0")])
@pytest.mark.parametrize("relation", list(Neighbours))
def test_the_stages_cost_the_charge(epsilon: str, delta: str, relation: Neighbours, target: int | None) -> None:
    units, unit = three_columns(500)
    asked = request(units.count, expected_rows=500, epsilon=epsilon, delta=delta, neighbours=relation, target=target)
    purse = open_tree_purse(asked, 3)
    plan = make_tree_plan(asked, units, purse)
    assert plan.total == 1
    bins = make_bins(units, plan.bins)
    codes = np.stack([encode(b, unit) for b in bins], axis=1)
    tree = grow_tree(bins, plan, purse, None if target is None else 2, memory_counts(codes), memory_sums(unit))
    assert Fraction(0) < purse.spent <= 1
    if relation is Neighbours.REPLACE:
        assert tree.rows == 500
    made = tree.make(100)  # nothing is read any more: the readers belong to the call above
    assert made.shape == (100, 3)
    assert all(made[:, i].min() >= 0 and made[:, i].max() < b.size for i, b in enumerate(bins))
    assert 0 <= tree.misfit(made) <= 2


def test_every_choice_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    units, unit = three_columns(4000)
    asked = request(units.count, expected_rows=4000, epsilon="4")
    purse, done = open_tree_purse(asked, 3), []
    plan = plan_before(asked, units, purse)  # three columns have so few pairs that nothing is chosen any more
    for name in ("choice_epsilon", "choose_exponential"):
        real = getattr(tree_module, name)
        monkeypatch.setattr(
            tree_module, name, lambda *a, real=real, name=name, **k: done.append((name, a)) or real(*a, **k)
        )
    bins = make_bins(units, plan.bins)
    codes = np.stack([encode(b, unit) for b in bins], axis=1)
    tree = grow_tree(bins, plan, purse, None, memory_counts(codes), memory_sums(unit))
    paid = [given[1] for name, given in done if name == "choice_epsilon"]
    assert len(paid) == sum(name == "choose_exponential" for name, _ in done) > 1
    assert purse.spent == sum(paid) + sum(share for name, _, share in tree.stages if name != "choice of pairs")


def test_counts_of_batches_and_scores_are_those_of_single_rows() -> None:
    rng = np.random.default_rng(2)
    codes = np.stack([rng.integers(0, 2, 40_000), rng.integers(0, 3, 40_000)], axis=1)
    wanted = np.zeros(TABLES.cells, dtype=int)
    for (a, b), n in zip(*np.unique(codes, axis=0, return_counts=True), strict=True):
        merged = min(b, 1)
        for cell in (a, 2 + merged, 4 + 2 * a + merged):
            wanted[cell] += n
    frame = codes.astype(np.int32)
    batches = [tuple(part.T) for part in np.split(frame, [1, 7000, 7000, 33_000])]
    assert TABLES.count_batches(batches).tolist() == TABLES.count(codes).tolist() == wanted.tolist()
    assert TABLES.count_batches([]).tolist() == [0] * TABLES.cells
    gaps = np.abs(16 * wanted - EXPECTED)
    scores = exact_scores(TABLES, EXPECTED, memory_counts(codes))
    assert scores == [gaps[:2].sum(), gaps[2:4].sum(), gaps[4:].sum()]

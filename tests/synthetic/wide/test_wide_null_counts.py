"""NULLs counted once more: how far a row moves the sums, what noise alone reaches, and what a tree tells with them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.core.types import NANO, Neighbours
from duckdp.errors import InternalError
from duckdp.synthetic.tree.bins import make_bins
from duckdp.synthetic.tree.buy import null_counts
from duckdp.synthetic.tree.buy.grow import grow_tree
from duckdp.synthetic.tree.buy.null_counts import buy_null_counts, count_nulls, weight
from duckdp.synthetic.tree.doubtful import TESTS, Noises, planned_share
from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.tree.plan import make_tree_plan
from duckdp.synthetic.unit.buy.purse import Purse
from duckdp.synthetic.unit.charge_terms import BITS, Terms
from duckdp.synthetic.unit.completeness import SPURIOUS, both_doubt
from duckdp.synthetic.unit.layout import make_units
from tests.smooth.tables import column
from tests.synthetic.in_memory import memory_sums
from tests.synthetic.plans import encode, open_tree_purse, request
from tests.synthetic.wide.trees import memory_counts, memory_nulls

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
UNIT = 1 << BITS
NAMES = tuple("abcdefgh")
COLUMNS = [column(name, 0, 10) for name in NAMES]
ROWS = 6000


def sums(missing: np.ndarray, *, squared: bool) -> np.ndarray:
    """What is noised, int[columns]."""
    counts = memory_nulls(missing)(list(range(missing.shape[1])))
    return np.array(null_counts._sums(counts, squared=squared), dtype=object)


# ---- how far a row moves the sums ------------------------------------------------------------------------------------


@pytest.mark.parametrize("squared", [False, True])
def test_a_row_has_norm_one_at_most_and_nearly(squared: bool) -> None:
    for together in range(1, 700):
        own = together * weight(together, squared=squared) ** (2 if squared else 1)
        whole = UNIT ** (2 if squared else 1)
        assert whole * (1 - together * 1e-6) < own <= whole


def _moves(squared: bool) -> dict[Neighbours, int]:
    """The largest norm (of l2: its square) of the difference of neighbours' sums: all pairs of rows of four columns,
    beside others."""
    patterns = np.array(list(product((False, True), repeat=4)))
    rest = patterns[[3, 5, 15, 1, 3]]
    found = {ADD_REMOVE: 0, REPLACE: 0}
    with_row = [sums(np.vstack([rest, p]), squared=squared) for p in patterns]
    power = 2 if squared else 1

    def norm(move: np.ndarray) -> int:
        return sum(abs(int(v)) ** power for v in move)

    found[ADD_REMOVE] = max(norm(own - sums(rest, squared=squared)) for own in with_row)
    found[REPLACE] = max(norm(a - b) for a in with_row for b in with_row)
    return found


@pytest.mark.parametrize("squared", [False, True])
def test_neighbours_are_as_far_apart_as_the_noise_is_for(squared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the twin: rows as they are, whose norm grows with their NULLs."""
    bound = UNIT**2 if squared else UNIT
    found = _moves(squared)
    assert found[ADD_REMOVE] == bound  # of a row with one NULL
    assert 1.99 * bound < found[REPLACE] <= 2 * bound
    monkeypatch.setattr(null_counts, "weight", lambda *_, **__: UNIT)
    assert _moves(squared)[ADD_REMOVE] > 3.9 * bound


@pytest.mark.parametrize(("delta", "neighbours"), list(product((0, 10**12), Neighbours)))
def test_noise_is_for_these_norms_and_the_share(delta: int, neighbours: Neighbours) -> None:
    """The scale, from the deviation that is told: (l1 / epsilon) or l2 / sqrt(2 rho), of the share that was taken."""
    purse = Purse(epsilon_nano=NANO, delta_atto=delta, neighbours=neighbours, gaussian=bool(delta), rows=1000.0)
    share, move = Fraction(3, 100), 2 if neighbours is REPLACE else 1
    missing = np.random.default_rng(1).random((1000, 3)) < 0.1
    drawn = null_counts._draw([0, 1, 2], purse, share, memory_nulls(missing))
    assert purse.spent == share
    cost, deviation = purse.cost(share), drawn.deviation * 1000
    if delta:
        assert deviation == pytest.approx(math.sqrt(move / (2 * cost / 10**12)), rel=1e-6)
    else:
        assert deviation == pytest.approx(math.sqrt(2) * move / (cost / NANO), rel=1e-6)
    with pytest.raises(InternalError):
        null_counts._draw([0], purse, Fraction(98, 100), memory_nulls(missing))


def test_counts_of_batches_are_those_of_rows_and_of_nobody_else() -> None:
    rng = np.random.default_rng(2)
    missing = rng.random((5000, 4)) < (0.5, 0.1, 0.0, 0.2)
    wanted = np.zeros((4, 4), dtype=int)
    for row in missing:
        for i in np.flatnonzero(row):
            wanted[i, row.sum() - 1] += 1
    batches = [tuple(part.T.astype(np.int32)) for part in np.split(missing, [1, 700, 700, 4000])]
    assert count_nulls(batches, 4).tolist() == wanted.tolist()
    whole = sums(missing, squared=False)
    assert all(0 <= s <= UNIT * n for s, n in zip(whole, missing.sum(axis=0), strict=True))
    assert whole[2] == 0
    assert abs(sum(whole) - UNIT * missing.any(axis=1).sum()) < 4 * len(missing)


# ---- what noise alone reaches ----------------------------------------------------------------------------------------


def _law(scale: float, most: int, *, gaussian: bool) -> np.ndarray:
    k = np.arange(-most, most + 1)
    found = np.exp(-(k**2) / (2 * scale**2)) if gaussian else np.exp(-np.abs(k) / scale)
    return found / found.sum()


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize(("first", "second"), [(12.0, 5.0), (3.0, 3.0), (2.0, 9.0), (0.4, 4.0)])
def test_both_counts_reach_their_threshold_as_rarely_as_promised(
    first: float, second: float, *, gaussian: bool
) -> None:
    """By adding up the chances of all pairs of draws: at most, and not a hundred times less than, what is promised."""
    root, columns = 1 if gaussian else math.sqrt(2), 3
    noises = Noises(first=root * first, second=root * second, gaussian=gaussian, grid=1.0)
    (one, two), doubt = noises.weights, noises.doubt(columns)
    most = int(60 * max(first, second)) + 10
    p, q = (_law(s, most, gaussian=gaussian) for s in (first, second))
    above = np.concatenate([np.cumsum(q[::-1])[::-1], [0.0]])  # P(second >= -most + j)
    k = np.arange(-most, most + 1)
    least = np.clip(np.ceil((doubt - one * k) / two - 1e-9), -most, most + 1).astype(int) + most
    chance = float((p * above[least]).sum())
    assert chance <= SPURIOUS / TESTS / columns
    assert min(first, second) < 2 or chance > SPURIOUS / TESTS / columns / (200 if gaussian else 30)


def test_the_threshold_of_the_lesser_noise_alone_is_the_twin() -> None:
    """Two noises exceed what one does: t + coarse of one Laplace law has a tail of exp(-t) / 2."""
    alone = -math.log(2 * SPURIOUS)
    assert both_doubt(1, gaussian=False, coarse=0) > alone + 2
    assert (2 + alone) * math.exp(-alone) / 4 > 5 * SPURIOUS


# ---- what it costs ---------------------------------------------------------------------------------------------------


def _terms(epsilon: float, delta: float = 0) -> Terms:
    return Terms(epsilon_nano=round(epsilon * NANO), delta_atto=round(delta * 10**18), neighbours=ADD_REMOVE)


def test_the_share_follows_from_public_figures() -> None:
    assert planned_share(0, 8, Fraction(1, 5), _terms(1), ROWS) == 0
    assert planned_share(8, 8, Fraction(1, 5), _terms(100), ROWS) == 0  # a tenth is told as it is
    assert planned_share(8, 8, Fraction(1, 5), _terms(0.01), ROWS) == 0  # nothing would be told
    share = planned_share(8, 8, Fraction(1, 5), _terms(1), ROWS)
    assert Fraction(1, 100) <= share <= Fraction(5, 100)
    first = math.sqrt(2) * 8 / 0.2
    noises = Noises(first=first, second=math.sqrt(2) / float(share), gaussian=False)
    assert noises.doubt(8) / sum(noises.weights) <= 0.1 * ROWS


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("delta", ["0", "1e-6"])
@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "3"])
def test_a_plan_with_it_costs_the_charge(epsilon: str, delta: str, neighbours: Neighbours) -> None:
    units = make_units(COLUMNS)
    asked = request(units.count, expected_rows=ROWS, epsilon=epsilon, delta=delta, neighbours=neighbours)
    purse = open_tree_purse(asked, len(COLUMNS))
    plan = make_tree_plan(asked, units, purse)
    before = make_tree_plan(asked, units, purse, counted=False)
    assert plan.total == before.total == 1
    assert not before.nulls
    assert (plan.name != before.name) == (plan.nulls > 0)
    never = make_units([column(name, 0, 10, nullable=False) for name in NAMES])
    assert not make_tree_plan(asked, never, purse).nulls


# ---- what a tree tells with it ---------------------------------------------------------------------------------------


def _grown(missing: np.ndarray, *, counted: bool = True, read: Any = None, purse: Purse | None = None) -> Tree:
    """A tree of eight columns at epsilon 1, of which one-way tables tell NULLs from a fifth of the rows on."""
    rng = np.random.default_rng(5)
    units = make_units(COLUMNS)
    unit = np.full((len(missing), units.count), -1.0)
    for i, part in enumerate(units.parts):
        unit[:, part.start] = np.where(missing[:, i], 0.0, np.clip(rng.normal(0, 0.3, len(missing)), -1, 1))
        unit[:, part.start + 1] = np.where(missing[:, i], 1.0, -1.0)
    asked = request(units.count, expected_rows=ROWS, epsilon=1)
    purse = purse or open_tree_purse(asked, len(COLUMNS))
    plan = make_tree_plan(asked, units, purse, counted=counted)
    assert (plan.nulls > 0) == counted
    none = Fraction(0)  # what comes later
    plan = replace(plan, rounds=0, extra_rounds=0, means=none, products=none, values=none)
    bins = make_bins(units, plan.bins)
    codes = np.stack([encode(b, unit) for b in bins], axis=1)
    nulls = read or memory_nulls(missing)
    return grow_tree(bins, plan, purse, None, memory_counts(codes), memory_sums(unit), None, nulls)


def _shares(missing: dict[str, float]) -> np.ndarray:
    rng = np.random.default_rng(6)
    return rng.random((ROWS, len(NAMES))) < [missing.get(name, 0.0) for name in NAMES]


def test_nulls_that_one_way_tables_hide_are_told() -> None:
    """12% of NULLs in one column: 720 rows, of which noise of scale 33 or less takes 180 with a chance of e^-5 at most
    in each of four tables; one-way tables alone, the twin, ask for 900 or more at noise of scale 40."""
    missing = _shares({"c": 0.12})
    for _ in range(4):
        tree = _grown(missing)
        assert "nulls" in [name for name, *_ in tree.stages]
        assert set(range(8)) - set(tree.complete) == {2}
        assert 2 not in tree.null_shares
        made = tree.make(4000)[:, 2] == tree.binnings[2].null
        assert made.mean() == pytest.approx(0.12, abs=0.08)
    assert 2 in _grown(missing, counted=False).complete


def test_without_nulls_none_are_told_and_what_is_not_asked_is_not_read() -> None:
    """With a chance of SPURIOUS a table."""
    assert _grown(_shares({})).complete == tuple(range(8))

    def never(_: Any) -> Any:
        raise AssertionError("read")

    _grown(_shares({}), counted=False, read=never)


def test_with_a_threshold_of_nothing_most_tables_have_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: some sum of two noises is above 0, but with a chance of 2^-24 in three tables of eight."""
    monkeypatch.setattr(Noises, "doubt", lambda *_: 0.0)
    assert any(len(_grown(_shares({})).complete) < 8 for _ in range(3))


def test_columns_that_others_determine_and_those_that_are_told_are_not_counted() -> None:
    tree = _grown(_shares({"a": 0.5}))
    assert 0 not in tree.complete
    asked: list[Any] = []

    def read(columns: Any) -> Any:
        asked.append(tuple(columns))
        return np.zeros((len(columns), len(columns)), dtype=np.int64)

    _grown(_shares({"a": 0.5}), read=read)
    assert asked == [tuple(range(1, 8))]
    purse = Purse(epsilon_nano=NANO, delta_atto=0, neighbours=ADD_REMOVE, rows=float(ROWS))
    buy_null_counts(tree, purse, read, range(8))
    assert purse.spent == 0
    assert len(asked) == 1


# ---- through a session, units of several rows ------------------------------------------------------------------------


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[duckdp.Curator]:
    """6,000 people with three rows each; c is NULL in an eighth of the rows, and x of a domain in another eighth."""
    rng = np.random.default_rng(3)
    n = 3 * ROWS
    columns: dict[str, Any] = {name: rng.normal(5, 1, n).clip(0, 10) for name in NAMES}
    kinds = np.array(["p", "q"], dtype=object)[rng.integers(0, 2, n)]
    frame = {name: pa.array(v, mask=(rng.random(n) < 0.14) if name == "c" else None) for name, v in columns.items()}
    frame["kind"] = pa.array(kinds, mask=rng.random(n) < 0.14)
    frame["person"] = pa.array(np.arange(n) % ROWS)
    with duckdp.open({"t": pa.table(frame)}, ledger=str(tmp_path / "t.ledger")) as curator:
        bounds = dict.fromkeys(NAMES, (0, 10))
        domains = {"kind": ["p", "q", None]}
        curator.protect(
            "t", unit_key="person", max_rows=3, row_cap=10 * ROWS, expected_rows=ROWS, bounds=bounds, domains=domains
        )
        curator.budget(epsilon=100)
        curator.grant("ana", epsilon=100)
        yield curator


def test_a_unit_counts_once(owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The private read itself: rows of all its columns add up to the people with a NULL in the row that counts."""
    seen: list[Any] = []
    real = null_counts._sums
    monkeypatch.setattr(null_counts, "_sums", lambda counts, **k: seen.append(counts.copy()) or real(counts, **k))
    made = owner.session("ana").synthesize("t", columns=[*NAMES, "kind"], epsilon=1, method="tree", rows=4000)
    (counts,) = seen
    alone, both = counts[:, 0].sum(), counts[:, 1].sum() / 2
    assert len(counts) == 9
    assert not counts[:, 2:].any()
    assert alone + both <= ROWS
    assert alone + both == pytest.approx(ROWS * (1 - 0.86**2), abs=6 * math.sqrt(ROWS / 5))
    values = {c.name: c.values for c in made.columns}
    assert np.mean([v is None for v in values["c"]]) == pytest.approx(0.14, abs=0.09)
    assert None in values["kind"]
    assert all(None not in values[name] for name in NAMES if name != "c")

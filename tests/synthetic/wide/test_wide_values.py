"""Single values of whole numbers in trees: hours of work at 40, clock times without minutes above 59, pay in 100s."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler.printing import Parameters
from duckdp.core.types import NANO, Neighbours
from duckdp.synthetic.tree.bins import Binning, make_bins
from duckdp.synthetic.tree.buy.grow import grow_tree
from duckdp.synthetic.tree.buy.value_counts import print_value
from duckdp.synthetic.tree.contingency import Tables
from duckdp.synthetic.tree.make.forest import Tree
from duckdp.synthetic.tree.plan import make_tree_plan
from duckdp.synthetic.tree.plan_before import plan_before
from duckdp.synthetic.tree.released import CLASSES, Grown
from duckdp.synthetic.tree.single_values import clear, count_cells, find_law, plan_values, with_law
from duckdp.synthetic.unit.buy.purse import Purse
from duckdp.synthetic.unit.charge_terms import Terms
from duckdp.synthetic.unit.layout import make_units
from duckdp.synthetic.unit.packed import pack, unpack
from duckdp.synthetic.unit.stages import Noisy
from tests.smooth.tables import column
from tests.synthetic.in_memory import memory_sums
from tests.synthetic.plans import encode, open_tree_purse, request
from tests.synthetic.wide.trees import memory_counts

_HOURS = column("hours", 0, 90, "INTEGER", nullable=False)
_CLOCK = column("clock", 1, 2400, "INTEGER")
_PAY = column("pay", -500, 60_000, "BIGINT", nullable=False)
_FLAG = column("flag", None, None, "BOOLEAN", nullable=False)
COLUMNS = [_HOURS, _CLOCK, _PAY, _FLAG]
UNITS = make_units(COLUMNS)
ROWS = 20_000
_TERMS = Terms(epsilon_nano=NANO, delta_atto=0, neighbours=Neighbours.ADD_REMOVE)


def _bins(bins: int = 20) -> tuple[Binning, ...]:
    return make_bins(UNITS, bins, spikes=True)


def _rows(rng: np.random.Generator) -> np.ndarray:
    """Values, float[n, 3]: a third of the hours are 40; a tenth of the times NULL; pay in hundreds, but for a tenth."""
    hours = np.where(rng.random(ROWS) < 0.35, 40, rng.integers(0, 91, ROWS)).astype(float)
    clock = rng.integers(0, 24, ROWS) * 100.0 + rng.integers(1, 60, ROWS)
    clock[rng.random(ROWS) < 0.1] = np.nan
    pay = np.where(rng.random(ROWS) < 0.9, 100 * rng.integers(-5, 601, ROWS), rng.integers(-500, 60_001, ROWS))
    return np.stack([hours, clock, pay], axis=1)


def _unit(values: np.ndarray) -> np.ndarray:
    unit = np.full((len(values), UNITS.count), -1.0)
    for part, own in zip(UNITS.parts, values.T, strict=False):
        unit[:, part.start] = np.nan_to_num(part.axis.to_unit(own))
        if part.nullable:
            unit[:, part.start + 1] = np.where(np.isnan(own), 1.0, -1.0)
    return unit


def _cells(values: np.ndarray, column_: int, modulus: int) -> np.ndarray:
    """Cells of values in memory, int[n]."""
    binning, own = _bins()[column_], values[:, column_]
    lower = int(binning.part.axis.lower)
    cells = np.nan_to_num(own).astype(int) % modulus if modulus else np.nan_to_num(own).astype(int) - lower
    return np.where(np.isnan(own), count_cells(binning, modulus) - 1, cells)


def _read(values: np.ndarray) -> Callable[..., Any]:
    return lambda tables, moduli: tables.count(np.stack([_cells(values, i, m) for i, m in moduli], axis=1))


def _made(tree: Tree, rows: int = ROWS) -> np.ndarray:
    codes = tree.make(rows)
    unit = np.concatenate(
        [b.spread(codes[:, i], p) for i, (b, p) in enumerate(zip(tree.binnings, tree.leans(), strict=True))], axis=1
    )
    made = UNITS.decode(unit, rounded=True)
    return np.array([[np.nan if v is None else float(v) for v in made[c.name].tolist()] for c in COLUMNS[:3]]).T


def _grown(
    values: np.ndarray,
    *,
    epsilon: str = "1",
    delta: str = "0",
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    valued: bool = True,
) -> Tree:
    asked = request(UNITS.count, expected_rows=ROWS, epsilon=epsilon, delta=delta, neighbours=neighbours)
    purse = open_tree_purse(asked, len(UNITS.parts))
    plan = make_tree_plan(asked, UNITS, purse, valued=valued)
    bins, unit = make_bins(UNITS, plan.bins), _unit(values)
    codes = np.stack([encode(b, unit) for b in bins], axis=1)
    tree = grow_tree(bins, plan, purse, None, memory_counts(codes), memory_sums(unit), _read(values))
    assert purse.spent <= 1
    return tree


def _late(clock: np.ndarray) -> float:
    return float(np.mean(clock[~np.isnan(clock)] % 100 > 59))


@pytest.mark.parametrize("delta", ["0", "1e-6"])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_values_are_those_of_the_data(delta: str, neighbours: Neighbours) -> None:
    values = _rows(np.random.default_rng(3))
    tree = _grown(values, epsilon="3", delta=delta, neighbours=neighbours)
    assert {name for name, *_ in tree.stages} >= {"values"}
    hours, clock, pay = _made(tree).T
    assert np.mean(hours == 40) == pytest.approx(np.mean(values[:, 0] == 40), abs=0.15)
    assert max(np.mean(hours == v) for v in range(91) if v != 40) < 0.15
    assert _late(clock) < 0.02
    assert np.mean(pay % 100 == 0) == pytest.approx(np.mean(values[:, 2] % 100 == 0), abs=0.15)
    for made, true in zip((hours, clock, pay), values.T, strict=True):
        assert np.nanmean(made) == pytest.approx(np.nanmean(true), abs=0.05 * (np.nanmax(true) - np.nanmin(true)))


def test_without_them_values_are_those_of_their_bins() -> None:
    """The twin: trees as they were grown before."""
    _, clock, pay = _made(_grown(_rows(np.random.default_rng(3)), valued=False)).T
    assert _late(clock) > 0.25
    assert np.mean(pay % 100 == 0) < 0.1


def test_noise_alone_gives_no_law() -> None:
    """Rows even over all values, and no rows at all: spurious in a share ``SPURIOUS`` of tables, 1%."""
    rng, found = np.random.default_rng(1), 0
    for binning in _bins()[:3]:
        for modulus in (0, 100, 1000) if binning.span < 3000 else (100, 1000):
            size = count_cells(binning, modulus)
            steps = np.full(binning.bins, 500.0)
            place = np.arange(binning.span + 1) + int(binning.part.axis.lower)
            even = (
                np.bincount(place % modulus if modulus else place - place[0], minlength=size)
                * 500.0
                * binning.bins
                / (binning.span + 1)
            )
            for _ in range(10):
                noise = rng.laplace(0, 60, size)
                for counts, own in ((even + noise, steps), (noise, 0 * steps)):
                    law = find_law(binning, own, counts, modulus, 60 * 2**0.5, clear(60 * 2**0.5, size, _TERMS))
                    found += law is not None
    assert found <= 8  # of 140
    twin = find_law(_bins()[0], np.full(20, 500.0), np.full(92, 110.0) + rng.laplace(0, 60, 92), 0, 60, 60.0)
    assert twin is not None  # what stands out by a deviation does so often


@pytest.mark.parametrize("modulus", [0, 100])
def test_laws_of_known_counts(modulus: int) -> None:
    """Without noise to speak of, the rows of each bin are dealt as they lay."""
    clock = _bins()[1]
    values = np.concatenate([h * 100 + np.arange(60) for h in range(24)])[1:]
    codes = np.minimum((values - 1) * clock.bins // clock.span, clock.bins - 1)
    steps = np.bincount(codes, minlength=clock.bins) * 1e4
    cells = np.bincount(values % 100 if modulus else values - 1, minlength=count_cells(clock, modulus)) * 1e4
    law = find_law(clock, steps, cells.astype(float), modulus, 1.0, 10.0)
    made = with_law(clock, law).spread(np.repeat(np.arange(clock.bins), 500))[:, 0]
    whole = np.rint((made + 1) / 2 * clock.span + 1).astype(int)
    assert not np.any(whole % 100 > 59)
    assert np.array_equal(
        np.minimum((whole - 1) * clock.bins // clock.span, clock.bins - 1), np.repeat(np.arange(clock.bins), 500)
    )
    assert len(set(whole.tolist())) > 1300


def test_sql_gives_the_cells_and_a_row_has_one() -> None:
    values = _rows(np.random.default_rng(4))[:300]
    values[:4] = [[0, 1, -500], [90, 2400, 60_000], [40, np.nan, -1], [41, 60, 0]]
    for i, modulus in ((0, 0), (1, 0), (1, 100), (2, 100), (2, 1000)):
        parameters = Parameters()
        sql = print_value(_bins()[i], modulus, parameters)
        with duckdb.connect() as con:
            con.execute(f"CREATE TABLE r ({COLUMNS[i].name} DOUBLE)")
            con.executemany("INSERT INTO r VALUES (?)", [[None if np.isnan(v) else v] for v in values[:, i].tolist()])
            found = np.array(con.execute(f"SELECT {sql} FROM r", parameters.values).fetchall())[:, 0]
        assert found.tolist() == _cells(values, i, modulus).tolist()
        size = count_cells(_bins()[i], modulus)
        tables = Tables(merges=(np.arange(size),), sets=((0,),))
        for cell in found[:50]:  # what the sensitivity rests on
            assert 0 <= cell < size
            assert tables.count(np.array([[cell]])).sum() == 1


def test_what_is_bought_follows_from_public_figures() -> None:
    for neighbours in Neighbours:
        small = replace(_TERMS, neighbours=neighbours)
        assert plan_values(_bins(), small, 1000).share == 0  # no value could stand out
        clocks = plan_values(_bins(), small, 10_000, chosen=False)
        assert clocks.moduli == ((1, 100),)
        more = plan_values(_bins(), small, 10_000)  # and others, by what is released
        assert (more.moduli, more.chosen) == (clocks.moduli, True)
        assert clocks.share <= more.share <= Fraction(4, 100)
        for rows in (40_000, 10**6, 10**8):
            found = plan_values(_bins(), small, rows)
            assert 0 < found.share <= Fraction(4, 100)
            assert [i for i, _ in found.moduli] == [0, 1, 2]
    assert plan_values(make_bins(make_units([_FLAG, column("x", 0, 1)]), 20), _TERMS, 10**8).share == 0
    assert plan_values(make_bins(make_units([column("d", 0, 9, "INTEGER"), _FLAG]), 20), _TERMS, 10**8).share == 0


class _Store:
    """Keeps what stages draw as texts, or gives what was kept."""

    def __init__(self, texts: list[str]) -> None:
        self.texts, self.at = texts, 0

    def __call__(self, draw: Callable[[], Any]) -> Any:
        if self.at == len(self.texts):
            self.texts.append(json.dumps(pack(draw())))
        self.at += 1
        return unpack(json.loads(self.texts[self.at - 1]), (Noisy,))


@pytest.mark.parametrize(
    ("began", "goes"),
    [
        pytest.param(*x, marks=[] if x in ((0, 1), (1, 0), (2, 0)) else [pytest.mark.slow])
        for x in product(range(3), repeat=2)
    ],
)
def test_a_purchase_goes_on_by_the_plan_that_began_it(began: int, goes: int) -> None:
    """By this version's plan, that of before values were bought, and that of the other purpose."""
    values = _rows(np.random.default_rng(5))
    asked = request(UNITS.count, expected_rows=ROWS, epsilon="2")
    terms, unit = open_tree_purse(asked, len(UNITS.parts)), _unit(values)
    plans = [
        make_tree_plan(asked, UNITS, terms),
        make_tree_plan(asked, UNITS, terms, valued=False),
        plan_before(asked, UNITS, terms),
    ]
    assert len({p.name for p in plans}) == 3
    bins = make_bins(UNITS, plans[0].bins)
    codes = memory_counts(np.stack([encode(b, unit) for b in bins], axis=1))

    def grow(store: _Store, first: int) -> Tree:
        others = [p for k, p in enumerate(plans) if k != first]
        purse = Purse.on(terms, store)
        return grow_tree(bins, plans[first], purse, None, codes, memory_sums(unit), _read(values), others=others)

    whole: list[str] = []
    straight = grow(_Store(whole), began)
    for stages in (1, 2, len(whole)):
        store = _Store(whole[:stages])
        tree = grow(store, goes)
        assert store.texts[:stages] == whole[:stages]
        assert tree.plan == plans[began]
        laws = [[b.law is None for b in t.binnings] for t in (tree, straight)]
        assert stages == 1 or laws[0] == laws[1]


def test_releases_of_before_are_read() -> None:
    raw = pack(Grown(means={}, mean_deviation=0.0, shares=[], merges=[], pairs={}, stages=[]))
    del raw["fields"]["laws"]
    assert unpack(raw, CLASSES).laws == {}


def test_through_a_session(tmp_path: Path) -> None:
    values = _rows(np.random.default_rng(6))
    whole = {
        "hours": values[:, 0].astype(int),
        "at": pa.array(np.nan_to_num(values[:, 1]).astype(int), mask=np.isnan(values[:, 1])),
    }
    with duckdp.open({"t": pa.table(whole)}, ledger=str(tmp_path / "l")) as curator:
        curator.protect("t", row_cap=50_000, expected_rows=ROWS, bounds={"hours": (0, 90), "at": (0, 2359)})
        curator.budget(epsilon=5)
        curator.grant("ana", epsilon=5)
        ana = curator.session("ana")
        assert "values" in str(ana.explain_synthesize("t", epsilon=2, method="tree"))
        made = ana.synthesize("t", epsilon=2, method="tree", name="made")
        again = ana.synthesize("made")
    hours, at = (np.array([np.nan if v is None else v for v in c.values], dtype=float) for c in made.columns)
    assert np.mean(hours == 40) == pytest.approx(np.mean(values[:, 0] == 40), abs=0.15)
    assert _late(at) < 0.002
    assert [c.values for c in again.columns] == [c.values for c in made.columns]

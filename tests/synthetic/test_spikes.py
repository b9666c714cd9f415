"""Values that rows pile up at (bounds, 0, what NULL is read as) in trees: bins of their own, found by noisy counts."""

from fractions import Fraction

import duckdb
import numpy as np
import pytest

from duckdp.compiler.printing import Parameters
from duckdp.core.types import NANO, Neighbours
from duckdp.synthetic.tree.bins import make_bins
from duckdp.synthetic.tree.buy import bin_sql
from duckdp.synthetic.tree.buy.bin_sql import print_code
from duckdp.synthetic.tree.buy.grow import grow_tree
from duckdp.synthetic.tree.contingency import Tables
from duckdp.synthetic.tree.scales import bin_values, find_scale, unit_values
from duckdp.synthetic.tree.spending import TreePlan
from duckdp.synthetic.unit.buy.purse import Purse
from duckdp.synthetic.unit.charge_terms import Terms
from duckdp.synthetic.unit.layout import make_units, piles
from tests.smooth.tables import column
from tests.synthetic.in_memory import memory_sums
from tests.synthetic.wide.trees import memory_counts

ROWS = 6000
COLUMNS = (
    column("loss", 0, 5000, "INTEGER", nullable=False),
    column("delta", -3.0, 7.0, nullable=True),
    column("age", 0, 28, "INTEGER", nullable=False),
)


def at_piles(bins=20):
    """A number of whole values, one of any with NULLs, and one whose bins tell its values."""
    units = make_units(COLUMNS)
    return units, make_bins(units, bins, spikes=True)


def test_bins_of_spikes():
    _, (loss, delta, age) = at_piles()
    assert [loss.size, delta.size, age.size] == [22, 24, 29]
    assert age.spikes == ()  # a bin tells the value
    assert piles(COLUMNS[1]) == [-3.0, 0.0, 7.0]
    assert piles(column("x", 1.0, 2.0)) == [1.0, 2.0]
    assert delta.null == 23
    assert [delta.parent(k) for k in range(3)] == [0, 6, 19]
    assert [loss.parent(k) for k in range(2)] == [0, 19]
    assert unit_values(delta)[20:].tolist() == pytest.approx([-1.0, -0.4, 1.0, 0.0])


def test_sql_and_values_agree():
    """What has a spike's bin comes back as that value, to the last bit, and nothing else has it."""
    units, binnings = at_piles()
    rng = np.random.default_rng(5)
    rows = [(int(a), float(b)) for a, b in zip(rng.integers(0, 5001, 400), rng.uniform(-3, 7, 400), strict=True)]
    rows += [(0, -3.0), (5000, 0.0), (1, 7.0), (4999, None), (0, -0.0)]
    parameters = Parameters()
    codes = [print_code(b, parameters) for b in binnings[:2]]
    with duckdb.connect() as con:
        con.execute("CREATE TABLE r (loss DOUBLE, delta DOUBLE)")
        con.executemany("INSERT INTO r VALUES (?, ?)", rows)
        found = con.execute(f"SELECT {', '.join(codes)} FROM r", parameters.values).fetchall()
    for (loss, delta), (a, b) in zip(rows, found, strict=True):
        assert (a >= 20) == (loss in (0, 5000))
        assert b == 23 if delta is None else (b >= 20) == (delta in (-3.0, 0.0, 7.0))
    table = np.array(found)
    unit = np.concatenate(
        [b.spread(table[:, i]) for i, b in enumerate(binnings[:2])] + [np.zeros((len(rows), 1))], axis=1
    )
    made = units.decode(unit, rounded=True)
    for (loss, delta), a, b in zip(rows, made["loss"].tolist(), made["delta"].tolist(), strict=True):
        assert loss not in (0, 5000) or a == loss
        assert delta not in (-3.0, 0.0, 7.0, None) or b == delta


RULED = [(0.0, 11.0, 10), (0.0, 21.0, 10), (0.0, 1.0, 100), (-3.0, 7.0, 20), (0.5, 5.0, 4), (1e6, 1e6 + 50, 100)]


def off_their_bins(low, high, per_unit):
    """How many of the values of a ruled column are counted in another bin than that of the exact numbers."""
    steps = round((high - low) * per_unit)
    values = [float(Fraction(low) + Fraction(i, per_unit)) for i in range(steps + 1)]
    wrong = 0
    with duckdb.connect() as con:
        con.execute("CREATE TABLE r AS SELECT unnest(?::DOUBLE[]) AS x", [values])
        for bins in (5, 10, 20, 40, 80):
            binning, _ = make_bins(make_units([column(name, low, high, nullable=False) for name in "xy"]), bins)
            parameters = Parameters()
            code = print_code(binning, parameters)
            found = con.execute(f"SELECT {code} FROM r", parameters.values).fetchall()
            exact = [min(bins - 1, i * bins // steps) for i in range(steps + 1)]
            wrong += sum(a != b for (a,), b in zip(found, exact, strict=True))
    return wrong


@pytest.mark.parametrize(("low", "high", "per_unit"), RULED)
def test_a_value_at_an_edge_is_counted_above_it(low, high, per_unit):
    """Values of few decimals lie at edges by the hundreds of rows; their places as doubles may lie just below."""
    assert off_their_bins(low, high, per_unit) == 0


def test_places_that_are_only_rounded_down_are_caught(monkeypatch):
    """Broken twin: as it was, a column's rows at an edge were counted below it."""
    monkeypatch.setattr(bin_sql, "_AT_EDGE", 0.0)
    assert sum(off_their_bins(*ruled) for ruled in RULED) > 10


def rows_of(rng, share):
    """Unit rows and bins: a share of the first column is 0, of the second, 0 and NULL."""
    _, binnings = at_piles()
    loss = np.where(rng.random(ROWS) < share, 20, rng.integers(0, 8, ROWS))
    delta = np.where(rng.random(ROWS) < share, 21, np.where(rng.random(ROWS) < 0.1, 23, rng.integers(0, 20, ROWS)))
    codes = np.stack([loss, delta, rng.integers(0, 29, ROWS)], axis=1)
    return codes, np.concatenate([b.spread(codes[:, i]) for i, b in enumerate(binnings)], axis=1)


def grown(codes, unit, *, epsilon=4.0, gaussian=False, neighbours=Neighbours.ADD_REMOVE, keep=None):
    _, binnings = at_piles()
    plan = TreePlan(bins=20, ones=Fraction(1, 2), pairs=Fraction(1, 4), rounds=2, means=Fraction(1, 4), scaled=True)
    delta = 10**12 if gaussian else 0
    terms = Terms(epsilon_nano=round(epsilon * NANO), delta_atto=delta, neighbours=neighbours, gaussian=gaussian)
    purse = Purse.on(terms) if keep is None else Purse.on(terms, keep)
    return grow_tree(binnings, plan, purse, None, memory_counts(codes), memory_sums(unit))


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_pile_is_made_and_what_is_none_is_not(gaussian, neighbours):
    """On the old code 0 had 1 of 250 values of its step: .95 came out as .8 and less."""
    rng = np.random.default_rng(6)
    for share in (0.9, 0.4, 0.0):
        codes, unit = rows_of(rng, share)
        tree = grown(codes, unit, gaussian=gaussian, neighbours=neighbours)
        made = tree.make(5000)
        for i, spike in ((0, 20), (1, 21)):
            true, own = np.mean(codes[:, i] == spike), np.mean(made[:, i] == spike)
            assert own == pytest.approx(true, abs=0.03)
            assert (spike in tree.flat.get(i, ())) == (share == 0)
        assert tree.flat[0][-1] == 21  # nobody is at the upper bound
        assert not np.isin(made[:, 1], (20, 22)).any()
        assert tree.merges[0][21] == tree.merges[0][19]  # what is no pile counts with its step
        assert sum(float(s.sum()) for s in tree.shares) == pytest.approx(3)


def test_a_whole_number_like_others_of_its_step_is_no_pile():
    """Ages from 0 to 39: no year has a bin of its own with 20 steps, and none needs one."""
    (years,) = make_bins(make_units([column("y", 0, 39, "INTEGER", nullable=False), COLUMNS[2]]), 20, spikes=True)[:1]
    assert years.size == 22
    rng = np.random.default_rng(7)
    values = rng.integers(0, 40, 40_000)
    codes = np.where(values == 0, 20, np.where(values == 39, 21, (values * 20) // 39))[:, None]
    plan = TreePlan(bins=20, ones=Fraction(1), scaled=True)
    terms = Terms(epsilon_nano=NANO, delta_atto=0, neighbours=Neighbours.ADD_REMOVE)
    tree = grow_tree((years,), plan, Purse.on(terms), None, memory_counts(codes), memory_sums(np.zeros((1, 1))))
    assert tree.flat == {0: (20, 21)}
    assert tree.shares[0][0] == pytest.approx(0.05, abs=0.01)  # 0 and 1


def test_scales_and_averages_see_the_pile():
    _, (loss, _, _) = at_piles()
    shares = np.zeros(22)
    shares[20], shares[0:4] = 0.9, 0.025
    offset, width = find_scale(loss, shares, 0.0, 0.0)
    assert offset == pytest.approx(float(shares @ unit_values(loss)))
    assert -1 < offset < -0.9
    assert 0 < width < 0.5  # not the whole range: most rows are at its lower end
    assert bin_values(loss, (offset, width))[20] == pytest.approx((-1 - offset) / width, abs=1e-9)


def test_a_purchase_that_was_begun_without_spikes_goes_on(monkeypatch):
    """Its first stage has no counts of them: none is found, and later stages have the shapes that they had."""
    rng = np.random.default_rng(8)
    codes, unit = rows_of(rng, 0.5)
    stages = []

    def record(draw):
        stages.append(draw())
        return stages[-1]

    plain = np.array([[{20: 0, 21: 19}.get(a, a), {20: 0, 21: 6, 22: 19, 23: 20}.get(b, b), c] for a, b, c in codes])
    with monkeypatch.context() as patched:
        patched.setattr("tests.synthetic.test_spikes.at_piles", lambda: (None, make_bins(make_units(COLUMNS), 20)))
        old = grown(plain, unit, keep=record)
    assert not any(old.flat.values())
    left = list(stages[:1])
    tree = grown(codes, unit, keep=lambda draw: left.pop(0) if left else draw())
    assert tree.flat == {0: (20, 21), 1: (20, 21, 22)}
    for was, now in zip(old.merges, tree.merges, strict=True):
        assert was.max() == now.max()
    again = list(stages)
    whole = grown(codes, unit, keep=lambda draw: again.pop(0))
    assert again == []
    for pair, joint in old.pairs.items():
        np.testing.assert_allclose(whole.pairs[pair], joint, atol=1e-4)  # a bin more to share what a margin corrects


def test_a_row_is_in_one_cell_of_each_table():
    """What the sensitivity rests on: bins with spikes partition the rows as those without."""
    codes, _ = rows_of(np.random.default_rng(9), 0.5)
    _, binnings = at_piles()
    tables = Tables(merges=tuple(np.arange(b.size) for b in binnings), sets=((0,), (1,), (2,), (0, 1)))
    assert [int(part.sum()) for part in tables.split(tables.count(codes))] == [ROWS] * 4
    for row in codes[:50]:
        assert [int(part.sum()) for part in tables.split(tables.count(row[None, :]))] == [1] * 4

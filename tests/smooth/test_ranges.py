"""Counts of ranges beside a summary's sums: what is read, proved bounds, coverage, splits, and what is stored."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from duckdp.core.types import ATTO, NANO, Neighbours
from duckdp.errors import CatalogError, NumericalError, ParameterError
from duckdp.mechanisms.noisy_tables import BITS
from duckdp.smooth.answer import answer, answers
from duckdp.smooth.buy.range_task import RangedTask, plan_ranged
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.fit.coefficients import read_function
from duckdp.smooth.range_answers import RangeKnown
from duckdp.smooth.summary import SmoothSummary
from tests.smooth.tables import column, connect, holds, run, table

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
X, K = column("x", 0, 100), column("k", 0, 84, "INTEGER")
S = column("s", None, None, "VARCHAR", domain=("a", "b", "c"))
DAY = column("d", dt.date(2020, 1, 1), dt.date(2021, 12, 31), "DATE")
ALL = table(X, K, S, DAY, expected_rows=2000, row_cap=5000)
QUESTIONS = (
    "x < 30",
    "x BETWEEN 20 AND 40",
    "CASE WHEN x < 30.123 THEN 1 ELSE 0 END",
    "k >= 18 AND k < 65",
    "x < 50 AND s = 'a'",
    "k < 30 OR x > 80",
    "CASE WHEN x BETWEEN 10 AND 20 THEN x * x ELSE 0 END",
    "CASE WHEN k < 18 THEN exp(-x / 20) ELSE 0 END",
    "CASE WHEN s = 'b' THEN 3 ELSE -1 END - 2 * CASE WHEN k > 40 THEN 1 ELSE 0 END",
    "d < DATE '2020-07-01' AND s <> 'c'",
    "greatest(x, 50)",
    "-2 * greatest(x, 50)",
    "greatest(k, 40) - 3 * least(x, 50)",
)


def plan(names=("x", "k", "s"), tab=ALL, *, epsilon=1.0, neighbours=ADD_REMOVE, delta=0, **wishes: Any) -> RangedTask:
    return plan_ranged(
        tab,
        names,
        epsilon_nano=round(epsilon * NANO),
        neighbours=neighbours,
        delta_atto=delta,
        wishes=Wishes(**{"degree": 4, "noise": "gaussian" if delta else "sums", **wishes}),
    )


def fill(con, count=1500, seed=1, unit=False):
    rng = np.random.default_rng(seed)
    con.execute("CREATE OR REPLACE TABLE t (x DOUBLE, k INTEGER, s VARCHAR, d DATE, pid INTEGER)")
    rows = [
        (
            float(rng.choice([rng.uniform(-5, 110), round(rng.uniform(0, 100)), 0.29 * 100])),
            int(rng.integers(-3, 90)),
            str(rng.choice(["a", "b", "c", "z"])) if rng.random() < 0.95 else None,
            dt.date(2020, 1, 1) + dt.timedelta(days=int(rng.integers(-9, 760))),
            int(rng.integers(0, count // 2)) if unit else i,
        )
        for i in range(count)
    ]
    listed = [list(own) for own in zip(*rows, strict=True)]
    con.execute("INSERT INTO t SELECT unnest(?), unnest(?), unnest(?), unnest(?), unnest(?)", listed)


def counted(con, task: RangedTask) -> list[int]:
    query = task.read.query()
    return task.read.collect(con.execute(query.sql, list(query.parameters)).fetchall())


def made(con, task: RangedTask, values: list[int]) -> SmoothSummary:
    """A summary with these counts."""
    return SmoothSummary.load(task._both(task.inner.release(run(con, task.inner.query(1))), values))


@pytest.fixture
def con():
    connection = connect()
    yield connection
    connection.close()


CLEAN = (
    "SELECT least(greatest(x, 0), 100) AS x, least(greatest(k, 0), 84) AS k, s, "
    "least(greatest(d, DATE '2020-01-01'), DATE '2021-12-31') AS d FROM t WHERE s IN ('a', 'b', 'c')"
)


def true(con, text: str, rows: str = CLEAN) -> tuple[float, float]:
    """(mean, sum) over the rows that count."""
    (found,) = con.execute(
        f"SELECT avg(CAST(({text}) AS DOUBLE)), sum(CAST(({text}) AS DOUBLE)) FROM ({rows})"
    ).fetchall()
    return found


def test_rows_are_counted_in_their_cells(con):
    fill(con)
    task = plan(("x", "k", "s", "d"))
    exact = counted(con, task)
    x, k, s, d = (np.array(v, dtype=object) for v in zip(*con.execute(CLEAN).fetchall(), strict=True))
    numbers = [
        x.astype(float),
        k.astype(float),
        np.array([("a", "b", "c").index(v) for v in s], dtype=float),
        np.array([(v - dt.date(1970, 1, 1)).days for v in d], dtype=float),
    ]
    codes = [
        v.astype(int) if own.axis.values is not None else np.searchsorted(own.edges, v, side="right")
        for own, v in zip(task.plan.axes, numbers, strict=True)
    ]
    assert len(task.read.nested.tables) > 6
    for t, part in zip(task.read.nested.tables, task.read.nested.split(np.array(exact, dtype=object)), strict=True):
        expected = np.zeros(task.read.nested.shape(t), dtype=object)
        at = [c // (own.cells // own.sizes[j]) for c, own, j in zip(codes, task.plan.axes, t, strict=True)]
        np.add.at(expected, tuple(at), 1 << BITS)
        assert (part == expected).all(), t
    for own, v, c in zip(task.plan.axes, numbers, codes, strict=True):
        box = own.boxes(own.cells)
        assert (box.low[c] <= v).all() and (v <= box.high[c]).all()  # what bounds of functions rest on


def test_numbers_beside_every_edge_are_in_their_cells(con):
    tab = table(column("x", -7.3, 1e5 / 3), row_cap=10**7)
    task = plan(("x",), tab)
    (own,) = task.plan.axes
    assert own.cells >= 1000
    near = np.concatenate([np.nextafter(own.edges, -np.inf), own.edges, np.nextafter(own.edges, np.inf)])
    con.execute("CREATE TABLE t (x DOUBLE)")
    con.execute("INSERT INTO t SELECT unnest(?)", [near.tolist()])
    finest = task.read.nested.split(np.array(counted(con, task), dtype=object))[-1]
    expected = np.bincount(np.searchsorted(own.edges, near, side="right"), minlength=own.cells)
    assert (finest >> BITS == expected).all()


def test_units_of_many_rows_weigh_as_in_the_sums(con):
    fill(con, 600, unit=True)
    tab = dataclasses.replace(ALL, unit_key="pid", unit_type="INTEGER", max_rows=2)
    task = plan(("k", "s"), tab)
    exact = counted(con, task)
    shares = con.execute(
        f"SELECT sum(CASE WHEN n <= 2 THEN {1 << BITS} ELSE {2 << BITS} // n END) FROM "
        "(SELECT count(*) OVER (PARTITION BY pid) AS n FROM t WHERE s IN ('a', 'b', 'c'))"
    ).fetchall()
    for part in task.read.nested.split(np.array(exact, dtype=object)):
        assert part.sum() == shares[0][0]
    summary = made(con, task, exact)
    rows = "SELECT k, s, least(1.0, 2.0 / count(*) OVER (PARTITION BY pid)) AS w FROM t WHERE s IN ('a', 'b', 'c')"
    ((total,),) = con.execute(f"SELECT sum(w) FROM ({rows}) WHERE k < 30").fetchall()
    found = RangeKnown(summary, summary.ranges, "sum", 0.95)
    side = found.bound(read_function("k < 30", "t", task.columns))
    assert abs(found._value(side.low) - total) <= found._rounding(side) + 1e-9


@pytest.mark.parametrize("unit", ["pid", None])
def test_columns_of_one_cell_are_counted_with_and_without_rows(con, unit):
    only = column("s", None, None, "VARCHAR", domain=("a",))
    keyed = {"unit_key": unit, "unit_type": "INTEGER", "max_rows": 2} if unit else {}
    task = plan(("s",), table(only, row_cap=100, **keyed))
    con.execute("CREATE TABLE t (s VARCHAR, pid INTEGER)")
    assert set(counted(con, task)) == {0}
    con.execute("INSERT INTO t VALUES ('a', 1), ('a', 1), ('a', 2), ('z', 3), (NULL, 4)")
    assert set(counted(con, task)) == {3 << BITS}


@pytest.mark.parametrize("text", QUESTIONS)
def test_bounds_hold_whatever_the_rows_are(con, text):
    """With counts that have no noise, the two ends hold the truth: what is between them is proved, not estimated."""
    task, expr = None, None
    for seed, count in ((1, 1500), (2, 40), (3, 3)):
        fill(con, count, seed)
        names = tuple(n for n in ("x", "k", "s", "d") if f"{n} " in f"{text} " or f"{n})" in text or f"{n}," in text)
        task = plan(names, ALL if "s" in names else dataclasses.replace(ALL, columns=(X, K, S, DAY)))
        expr = read_function(text, "t", task.columns)
        summary = made(con, task, counted(con, task))
        rows = CLEAN if "s" in names else CLEAN.partition(" WHERE")[0]
        for statistic, value in zip(("mean", "sum"), true(con, text, rows), strict=True):
            known = RangeKnown(summary, summary.ranges, statistic, 0.95)
            bounded = known.bound(expr)
            over = known.count[0] if statistic == "mean" else 1.0
            low, high = (known._value(side) / over for side in (bounded.low, bounded.high))
            slack = 1e-9 * (1 + abs(value))
            assert low - slack <= value <= high + slack
            inside = bounded.span[0] - slack <= low and high <= bounded.span[1] + slack
            assert inside or statistic == "sum"
            scales = tuple(1e-6 * scale for scale in summary.ranges.noise.scales)  # so that the ends alone make it wide
            quiet = dataclasses.replace(summary.ranges.noise, scales=scales)
            told = RangeKnown(summary, dataclasses.replace(summary.ranges, noise=quiet), statistic, 0.95).answer(
                bounded
            )
            assert told.low is None or told.low - slack <= value <= told.high + slack


def test_ranges_that_end_with_cells_have_no_error_but_noise(con):
    fill(con)
    task = plan(("x", "k"), epsilon=2)
    summary = made(con, task, json.loads(task._noised(counted(con, task))))
    assert 100 % task.plan.axes[0].cells == 0 or task.plan.axes[0].cells % 100 == 0
    for text in ("x < 30", "k BETWEEN 18 AND 65", "x >= 20 AND x < 40"):
        found = answer(summary, text)
        assert found.approximation_error == 0 and not found.estimated
    known = RangeKnown(summary, summary.ranges, "mean", 0.95)
    off = known.bound(read_function(f"x < {150 / task.plan.axes[0].cells}", "t", task.columns))
    assert off.reference[1] - off.reference[0] == pytest.approx(1 / task.plan.axes[0].cells)


def test_intervals_cover(con):
    """Over many draws: 95% of intervals hold; those of a law of half the scale do not."""
    fill(con, 400)
    task = plan(("x", "s"), epsilon=0.5)
    exact, draws = counted(con, task), 200
    texts = ("x < 30", "x < 51.7 AND s = 'a'", "CASE WHEN s = 'b' THEN x ELSE 0 END")
    exprs = [read_function(text, "t", task.columns) for text in texts]
    truth = [true(con, text) for text in texts]
    base = made(con, task, exact)
    hits, twins = 0, 0
    for _ in range(draws):
        values = tuple(json.loads(task._noised(exact)))
        for narrow in (1.0, 0.5):
            noise = dataclasses.replace(task.noise, scales=tuple(s * narrow for s in task.noise.scales))
            ranges = dataclasses.replace(base.ranges, values=values, noise=noise)
            for place, statistic in enumerate(("mean", "sum")):
                known = RangeKnown(base, ranges, statistic, 0.95)
                for expr, value in zip(exprs[:1], truth[:1], strict=True):
                    found = known.answer(known.bound(expr))
                    inside = found.low is None or found.low <= value[place] <= found.high
                    hits, twins = hits + (inside and narrow == 1.0), twins + (inside and narrow != 1.0)
    # means and sums of one draw may miss together: at least half as many independent trials
    assert stats.binom.cdf(hits // 2, draws, 0.95) > 1e-9
    assert stats.binom.cdf(twins // 2, draws, 0.95) < 1e-6
    summary = dataclasses.replace(base, ranges=dataclasses.replace(base.ranges, values=values))
    for text, (mean, total) in zip(texts, truth, strict=True):
        assert holds(answer(summary, text, level=0.9999), mean)
        assert holds(answer(summary, text, statistic="sum", level=0.9999), total)


@pytest.mark.parametrize(("neighbours", "delta"), [(REPLACE, 0), (ADD_REMOVE, ATTO // 10**6)])
def test_other_relations_and_gaussian_noise(con, neighbours, delta):
    fill(con)
    con.execute("UPDATE t SET s = 'a' WHERE s IS NULL OR s = 'z'")
    closed = dataclasses.replace(ALL, columns=tuple(dataclasses.replace(c, nullable=False) for c in (X, K)))
    task = plan(("x", "k"), closed, neighbours=neighbours, delta=delta, epsilon=2)
    summary = made(con, task, json.loads(task._noised(counted(con, task))))
    assert (summary.count == 1500) is (neighbours is REPLACE)
    assert task.noise.family == ("gaussian" if delta else "laplace")
    assert task.loss.delta_atto == delta and task.loss.epsilon_nano == 2 * NANO
    for text in ("x < 30", "k BETWEEN 18 AND 65 AND x < 50"):
        assert holds(answer(summary, text, level=0.9999), true(con, text)[0])
        assert holds(answer(summary, text, level=0.9999, statistic="sum"), true(con, text)[1])


def test_a_gaussian_split_spends_what_the_whole_allows():
    task = plan(("x",), delta=ATTO // 10**6)
    one = Neighbours.ADD_REMOVE
    assert task.neighbours is one
    spent = sum((1 << BITS) ** 2 / (2 * scale**2) for scale in task.noise.scales) + task.inner.loss.rho_pico / 1e12
    assert 0.999 * task.loss.rho_pico / 1e12 < spent <= task.loss.rho_pico / 1e12 * (1 + 1e-12)
    assert task.inner.loss.delta_atto == task.loss.delta_atto


def test_each_question_is_answered_by_what_is_narrower(con):
    fill(con)
    task = plan(("x",), dataclasses.replace(ALL, columns=(X,)), epsilon=0.5, degree=12, noise="auto")
    summary = made(con, task, json.loads(task._noised(counted(con, task))))
    alone = dataclasses.replace(summary, ranges=None)
    known = RangeKnown(summary, summary.ranges, "mean", 0.95)
    texts = ("x < 30", "x", "exp(-x / 20)", "greatest(x, 50)", "CASE WHEN x < 50 THEN x ELSE 0 END")
    both = answers(summary, texts)
    for text, listed in zip(texts, both, strict=True):
        widths = []
        of_counts = known.answer(known.bound(read_function(text, "t", task.columns)))
        for found in (answer(summary, text), answer(alone, text), of_counts):
            widths.append(found.high - found.low)
        assert widths[0] <= 1.5 * min(widths[1:]), text
        assert listed.high - listed.low == pytest.approx(widths[0], rel=0.3)
    assert both[0].high - both[0].low < 0.5 * (lambda old: old.high - old.low)(answer(alone, "x < 30"))
    (together,) = answers(summary, ["x < 30"], simultaneous=True)  # from the sums
    assert together.simultaneous and together.approximation_error > 0.01


def test_what_is_null_or_not_finite_is_refused_as_without_counts(con):
    fill(con)
    summary = made(con, task := plan(("x", "s"), tab=ALL), [0] * task.read.nested.cells)
    bounded_all_the_same = (
        "nullif(x, 30) < 40",
        "CASE s WHEN 'a' THEN 1 END",
        "CASE WHEN s = 'a' THEN NULL ELSE 0 END",
    )
    none = ("CASE WHEN x < 30 THEN 1 END", "CASE WHEN x < 30 THEN 1 / (x - 20) ELSE 0 END", *bounded_all_the_same)
    known = RangeKnown(summary, summary.ranges, "mean", 0.95)
    for text in none:
        bounds = known.bound(read_function(text, "t", task.columns))
        assert (bounds is not None) is (text in bounded_all_the_same)  # so bounds alone do not tell
        for asked in (answer, lambda of, f: answers(of, [f])):
            with pytest.raises(NumericalError) as error:
                asked(summary, text)
            assert error.value.code == "N102"


def test_no_mean_where_there_may_be_no_rows(con):
    fill(con, 3)
    task = plan(("x",), epsilon=0.01)
    summary = made(con, task, json.loads(task._noised(counted(con, task))))
    noisy = dataclasses.replace(
        summary, ranges=dataclasses.replace(summary.ranges, values=(0,) * len(summary.ranges.values))
    )
    found = answer(noisy, "x < 50")
    assert found.value is None and "count" in found.note
    assert answer(noisy, "x < 50", statistic="sum").value is not None


def test_what_is_stored(con):
    fill(con, 50)
    task = plan(("x", "s"))
    summary = made(con, task, json.loads(task._noised(counted(con, task))))
    text = summary.dump()
    again = SmoothSummary.load(text)
    assert again.dump() == text and again.ranges.values == summary.ranges.values
    assert again.epsilon_nano == NANO  # of the whole charge
    plain = dataclasses.replace(summary, ranges=None).dump()
    assert "ranges" not in json.loads(plain), "summaries without counts are stored as they were"
    assert SmoothSummary.load(plain).ranges is None
    raw = json.loads(text)
    for name, value in (
        ("sizes", [[1, 2]]),
        ("tables", [[9, 9]]),
        ("family", "cube"),
        ("scales", [1.0]),
        ("values", [1]),
        ("values", [1.5] * len(raw["ranges"]["values"])),
        ("epsilon_nano", 0),
        ("more", 1),
    ):
        damaged = {**raw, "ranges": {**raw["ranges"], name: value}}
        with pytest.raises(CatalogError) as error:
            SmoothSummary.load(json.dumps(damaged))
        assert error.value.code == "C105", name


def test_the_split_follows_the_expected_errors():
    """More columns need more sums: less is left for counts. Each has at least a tenth."""
    shares = [plan(names, noise="auto")._share() for names in (("x",), ("x", "k"))]
    assert all(0.1 <= share <= 0.9 for share in shares)
    rough = plan(("x",), degree=40, noise="sums")._share()
    assert rough < plan(("x",), degree=3, noise="sums")._share()
    said = "\n".join(plan(("x", "k")).describe())
    assert "for counts (ranges), by expected errors" in said and "in two columns +-" in said


def test_the_expected_half_width_is_about_the_real_one(con):
    fill(con)
    task = plan(("k",), epsilon=1)
    summary = made(con, task, json.loads(task._noised(counted(con, task))))
    known = RangeKnown(summary, summary.ranges, "sum", 0.95)
    rng, widths = np.random.default_rng(1), []
    for _ in range(20):
        a, b = sorted(rng.integers(0, 85, 2).tolist())
        found = known.answer(known.bound(read_function(f"k BETWEEN {a} AND {b}", "t", task.columns)))
        widths.append((found.high - found.low) / 2)
    assert math.sqrt(np.mean(np.square(widths))) == pytest.approx(task.plan.one, rel=0.25)


def test_what_cannot_be_bought():
    with pytest.raises(ParameterError) as error:
        plan(("x",), table(X, row_cap=1000), delta=ATTO // 10**6, degree=None, smoothness=2)
    assert (error.value.code, error.value.name) == ("P107", "delta")
    with pytest.raises(ParameterError) as error:
        plan_ranged(ALL, ["x"], epsilon_nano=NANO, neighbours=ADD_REMOVE, delta_atto=0, wishes=Wishes(noise="gaussian"))
    assert error.value.code == "P102"

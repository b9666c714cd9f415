"""dp_histogram, dp_cdf, dp_count_variance: bins, what a unit changes, values, intervals, faces, refusals."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import duckdp
from duckdp.compiler import bin_counts as module
from duckdp.compiler.bin_counts import BinCounts
from duckdp.core.cdfbars import distribution_band
from duckdp.core.errorbars import Noise, rounded_half_width
from duckdp.core.noise import laplace_noise
from duckdp.functions.bin_edges import choose_bins, read_axis
from duckdp.functions.distributions import count_estimate
from duckdp.mechanisms.second_moments import SecondMoments
from tests.gate import clinic, column, load, shared
from tests.privacy.draws import HIGH, KEYED, LOW, NONE, ODD, REPLACE, ROWS, _random_row
from tests.privacy.neighbouring import neighbouring
from tests.privacy.pair_moments import bin_counts, count_moments

Rows = list[tuple[Any, ...]]
TASKS = {
    "units": lambda: bin_counts(KEYED, "age", bins=6),
    "units, in groups": lambda: bin_counts(KEYED, "cost", "age > 3", "sex, town", bins=5),
    "rows, in groups": lambda: bin_counts(ROWS, "age", keys="sex", bins=4),
    "rows, replaced": lambda: bin_counts(ROWS, "born", keys="level", bins=4, neighbours=REPLACE),
}


def exact(task: BinCounts, rows: Rows, sql: str | None = None) -> np.ndarray:
    """The exact counts that meet the noise, float[groups, bins], grid units."""
    met: list[list[int]] = []
    with shared() as con, pytest.MonkeyPatch.context() as patch:
        load(con, clinic(), rows)
        patch.setattr(module, "add_noise", lambda values, _: met.append(list(values)) or list(values))
        query = task.query(7)
        task.release(con.execute(sql or query.sql, list(query.parameters)).fetchall())
    return np.array(met[0], dtype=np.float64).reshape(len(task.groups), -1)


# ---- what a unit can change


def moved(task: BinCounts, one: Rows, other: Rows, sql: str | None = None) -> float:
    """The part of epsilon that a pair of tables uses."""
    return float(np.abs(exact(task, one, sql) - exact(task, other, sql)).sum() / task.noises[0].scale)


@pytest.mark.parametrize("name", TASKS)
def test_a_unit_changes_no_more_than_is_charged(name: str) -> None:
    task = TASKS[name]()
    pairs = list(neighbouring(task.table, task.neighbours, 5, 3))
    own = [_random_row(random.Random(i)) for i in range(30)]
    if task.neighbours is REPLACE:
        pairs.append(([(1, *own[0])], [(1, *own[0][:10], 1, *own[0][11:])]))
    else:
        pairs.append(([], [(99, *row) for row in (own if task.table.unit_key else own[:1])]))
    found = [moved(task, one, other) for one, other in pairs]
    assert max(found) <= 1 + 1e-9
    assert max(found) > 0.3


def test_twins_that_bound_less_are_caught() -> None:
    """Rows of a unit that are not scaled, groups of a unit that are not chosen."""
    rows = [(1, *_random_row(random.Random(i))) for i in range(40)]
    task = TASKS["units, in groups"]()
    for old, new in (("greatest(w, 3)", "greatest(3, 3)"), ("WHERE place <= 2", "WHERE place <= 200")):
        sql = task.query(7).sql
        assert old in sql
        assert moved(task, [], rows) <= 1 < moved(task, [], rows, sql.replace(old, new)), old


def test_a_unit_is_one_count_however_many_rows_it_has() -> None:
    task = count_moments(KEYED, 8, keys="sex")
    rows = [(5, *_random_row(random.Random(3)))] * 500
    met: list[list[int]] = []
    with duckdb.connect() as con, pytest.MonkeyPatch.context() as patch:
        load(con, clinic(), rows)
        patch.setattr(SecondMoments, "release", lambda _, group: met.append(list(group)) or list(group))
        query = task.query(7)
        task.release(con.execute(query.sql, list(query.parameters)).fetchall())
    assert sum(map(sum, met)) == pytest.approx(2**task.way.bits, rel=1e-6)
    assert task.way.loss.epsilon == 1
    assert task.way.noise is not None
    assert task.way.noise.scale == pytest.approx(2 * 2**task.way.bits, rel=1e-6)  # two groups of a unit


# ---- bins


def bins_of(text: str, wanted: int | None, rows: int | None = 10_000, noise: float = 2.0, **changed: Any) -> Any:
    table = clinic(columns=(*clinic().columns, column("tiny", "DOUBLE", lower=-1e-7, upper=2.2e-6)), **changed)
    axis = read_axis(text, table)
    return axis, choose_bins(axis, wanted, rows=rows, noise=noise)


@pytest.mark.parametrize("text", ["age", "cost", "born", "income", "tiny", "age % 7", "smoker", "cost / 3 + 0.1"])
@pytest.mark.parametrize("wanted", [None, 1, 3, 40])
def test_bins_hold_every_value_once(text: str, wanted: int | None) -> None:
    axis, bins = bins_of(text, wanted)
    edges = bins.edges
    assert len(edges) == bins.count + 1
    assert all(a < b for a, b in pairwise(edges))
    assert edges[0] <= axis.lower
    assert edges[-1] >= axis.upper
    assert not axis.whole or all(float(edge).is_integer() for edge in edges)
    assert not axis.whole or edges[-1] >= axis.upper + 1
    assert edges[1] > axis.lower
    assert edges[-2] <= axis.upper


def test_bins_have_round_edges_and_whole_numbers_whole_ones() -> None:
    assert bins_of("cost", None)[1].width in {Fraction(w) for w in (50, 100, 200, 250, 500)}
    assert bins_of("age", None)[1].width in {1, 2, 5, 10}
    assert bins_of("born", None)[0].shown([0.0, 31.0]) == [dt.date(1990, 1, 1), dt.date(1990, 2, 1)]
    assert bins_of("smoker", None)[1].count == 2
    assert bins_of("age", None, rows=None)[1].count == 12


def test_more_rows_make_finer_bins_and_more_noise_coarser_ones() -> None:
    counts = [bins_of("cost", None, rows=rows, noise=2)[1].count for rows in (30, 1000, 10**5, 10**7)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    counts = [bins_of("cost", None, rows=10**5, noise=noise)[1].count for noise in (2, 200, 20_000)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


@pytest.mark.parametrize("text", ["age", "cost", "born", "income * 0.1"])
def test_counts_are_those_of_plain_sql(text: str) -> None:
    rng = random.Random(2)
    rows = [(i, *_random_row(rng)) for i in range(300)] + [(i, *r) for i, r in enumerate((HIGH, LOW, ODD, NONE))]
    rows += [(i, i * 10, i * 500.0, *_random_row(rng)[2:]) for i in range(11)]  # at edges
    axis, bins = bins_of(text, 7)
    task = bin_counts(ROWS, text, "smoker IS NOT NULL", bins=7)
    with duckdb.connect() as con:
        load(con, clinic(), rows)
        value = {
            "age": "greatest(least(age, 110), 0)",
            "cost": "CASE WHEN isnan(cost) THEN NULL ELSE greatest(least(cost, 5000), 0) END",
            "born": "date_diff('day', DATE '1990-01-01', greatest(least(born, DATE '1992-12-31'), DATE '1990-01-01'))",
            "income * 0.1": "greatest(least(coalesce(nullif(income, 'nan'), 0), 20), -10) * 0.1",
        }[text]
        edges = task.bins.edges
        last = "<=" if not axis.whole else "<"
        tests = [f"v >= {a!r} AND v {'<' if i < 6 else last} {b!r}" for i, (a, b) in enumerate(pairwise(edges))]
        counted = ", ".join(f"count(*) FILTER (WHERE {test})" for test in tests)
        sql = f"SELECT {counted} FROM (SELECT ({value})::DOUBLE AS v FROM clinic WHERE smoker IS NOT NULL)"
        (expected,) = con.execute(sql).fetchall()
    assert exact(task, rows)[0].tolist() == list(expected)
    assert bins.edges == edges


# ---- as users have them


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[duckdp.Curator]:
    rng, n = np.random.default_rng(7), 4000
    rows = pa.table(
        {
            "x": rng.normal(50, 20, n).clip(0, 100),
            "age": rng.integers(0, 90, n),
            "day": [dt.date(2020, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 366, n)],
            "town": rng.choice(["Bern", "Genf"], n),
            "name": ["n"] * n,
            "free": rng.normal(size=n),
            "person": np.arange(n) // 4,
        }
    )
    with duckdp.open({"t": rows}, ledger=str(tmp_path / "t.ledger")) as owner:
        owner.protect(
            "t",
            unit_key="person",
            max_rows=4,
            row_cap=10_000,
            expected_rows=n,
            bounds={"x": (0, 100), "age": (0, 110), "day": ("2020-01-01", "2020-12-31")},
            domains={"town": ["Bern", "Genf"]},
            columns=["name", "free"],
        )
        owner.budget(epsilon=500, delta="1e-4")
        owner.grant("ana", epsilon=400, delta="1e-5")
        yield owner


def test_histograms_in_sql_and_python(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    first = ana.histogram("t", "age", epsilon=8, groups="town")
    again = con.execute("FROM dp_histogram('t', 'age', epsilon := 8, groups := 'town')").fetchall()
    assert [row[:4] for row in again] == first.rows()
    assert [c.name for c in first.columns] == ["town", "bin_start", "bin_end", "value"]
    assert abs(sum(row[3] for row in first.rows()) - 4000) < 200
    assert {row[2] - row[1] for row in first.rows()} == {first["bin_end"][0]}
    for row in first.estimates():
        assert row["value"].low <= row["value"].value <= row["value"].high
    days = ana.histogram("t", "day", epsilon=8, bins=4)
    assert days.columns[0].type == "DATE"
    assert days["bin_start"][0] == dt.date(2020, 1, 1)
    assert con.execute("SELECT sum(value) > 3000 FROM dp_histogram('t', 'x', epsilon := 8)").fetchall() == [(True,)]
    assert len(ana.ledger().rows()) == 3


def test_distribution_functions_rise_to_1(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    found = ana.cdf("t", "x", epsilon=8)
    assert found["below"] == [float(i) for i in range(1, 101)]
    values = found["value"]
    assert values == sorted(values)
    assert values[-1] == 1
    assert abs(values[49] - 0.5) < 0.06
    rows = con.execute("SELECT below, value, low, high FROM dp_cdf('t', 'x', epsilon := 8)").fetchall()
    assert [row[:2] for row in rows] == found.rows()
    assert all(low <= value <= high for _, value, low, high in rows)
    assert len(ana.cdf("t", "age", epsilon=8)) == 56  # bins of two years are the fewest that are at most 100
    assert ana.cdf("t", "town = 'Bern'", epsilon=1)["below"] == [1, 2]


def test_counts_vary(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    (mean, variance) = ana.count_variance("t", epsilon=8).rows()[0]
    assert abs(mean - 4) < 0.1
    assert 0 <= variance < 0.5
    in_groups = con.execute("SELECT town, mean, variance FROM dp_count_variance('t', epsilon := 8, groups := 'town')")
    for _, mean, variance in in_groups.fetchall():
        assert abs(mean - 2.13) < 0.3
        assert 0.4 < variance < 1.4
    text = str(ana.explain_count_variance("t", epsilon=1, most=9))
    assert "how many rows each person has, up to 9" in text


def test_intervals_of_counts_hold() -> None:
    table = clinic(row_cap=10**6)
    hits = total = 0
    rng = np.random.default_rng(4)
    from duckdp.compiler.pair_statistics import all_pairs, covariances
    from duckdp.functions.moment_answers import found_numbers

    task, pairs = count_moments(table, 10), all_pairs([False])
    way, draws = task.way, task.way.draws()
    for _ in range(40):
        counts = rng.integers(1, 8, 600)
        v = counts / 5 - 1
        true = np.array([len(v), v.sum(), (v**2).sum()])
        noisy = true + way.moments([way.release([0] * len(way.released))])[0]
        found = found_numbers(noisy, draws, lambda m: covariances(pairs.matrix(m))[:, 0], lower=0, upper=9)
        hits += int(found.low[0] <= v.var(ddof=1) <= found.high[0])
        total += 1
    assert hits >= 0.7 * total  # 38 of 40 expected; fewer than 28 once in 10^8


def test_explain_costs_nothing(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    for name, given in (("histogram", "'t', 'x'"), ("cdf", "'t', 'x'"), ("count_variance", "'t'")):
        lines = [row[0] for row in con.execute(f"FROM dp_explain_{name}({given}, epsilon := 1)").fetchall()]
        assert any("cost: epsilon=1" in line for line in lines)
        assert "  protects: all rows of one person (add_remove)" in lines
    assert "value: ± 13" in str(ana.explain_histogram("t", "x", epsilon=1))
    assert "in blocks of" in str(ana.explain_cdf("t", "x", epsilon=1))
    assert ana.remaining_text().startswith("epsilon=400")


def test_bad_columns_are_answered_like_any(tmp_path: Path) -> None:
    bad = {
        "empty": [],
        "one row": [3.0],
        "constant": [4.0] * 500,
        "nan": [math.nan] * 50,
        "far": [math.inf, -1e300] * 9,
    }
    for name, values in bad.items():
        rows = pa.table({"x": pa.array(values, pa.float64())})
        with duckdp.open({"t": rows}, ledger=str(tmp_path / f"{name}.ledger")) as owner:
            owner.protect("t", row_cap=1000, bounds={"x": (0, 10)})
            owner.budget(epsilon=100)
            owner.grant("ana", epsilon=100)
            ana = owner.session("ana")
            assert len(ana.histogram("t", "x", epsilon=1)) == 10
            found = ana.cdf("t", "x", epsilon=1, bins=5).columns[1].estimates or []
            assert [e.high for e in found][-1] == 1
            assert all(0 <= e.low <= e.high <= 1 for e in found)  # type: ignore[operator]


REFUSED = [
    ("dp_histogram('t', 'nobody', epsilon := 1)", "Q207"),
    ("dp_histogram('t', 'person', epsilon := 1)", "Q301"),
    ("dp_histogram('t', 'free', epsilon := 1)", "Q401"),
    ("dp_histogram('t', 'town', epsilon := 1)", "Q203"),
    ("dp_histogram('t', 'x', bins := 0, epsilon := 1)", "P107: bins="),
    ("dp_histogram('t', 'x', bins := 5000, epsilon := 1)", "P107: bins=5000: must be at most 4,096"),
    ("dp_histogram('t', 'x', epsilon := 1, groups := 'name')", "P107: groups='name': has no declared domain"),
    ("dp_histogram('t', 'x')", "P101"),
    ("dp_cdf('t', 'x', bins := 2000, epsilon := 1)", "P107: bins=2000: must be at most 1,000"),
    ("dp_cdf('t', 'x', epsilon := 1, predicate := 'x')", "Q203"),
    ("dp_cdf('t', 'x', epsilon := 0.0000001)", "P101"),
    ("dp_cdf('t', '', epsilon := 1)", "Q1"),
    ("dp_count_variance('t', epsilon := 1, most := 2000000)", "P107: most=2000000"),
    ("dp_count_variance('t', epsilon := 1, most := 0)", "P107: most="),
    ("dp_count_variance('nobody', epsilon := 1)", "C101"),
]


def test_refusals_are_coded_and_free(curator: duckdp.Curator) -> None:
    con = curator.connect("ana")
    for call, words in REFUSED:
        for form in (call, call.replace("dp_", "dp_explain_", 1)):
            with pytest.raises(duckdb.Error) as error:
                con.execute(f"FROM {form}").fetchall()
            assert words in str(error.value), form
    assert curator.session("ana").remaining_text().startswith("epsilon=400")


def test_without_a_unit_key_counts_do_not_vary(tmp_path: Path) -> None:
    with duckdp.open({"t": pa.table({"x": [1.0]})}, ledger=str(tmp_path / "t.ledger")) as owner:
        owner.protect("t", row_cap=10, bounds={"x": (0, 10)})
        owner.budget(epsilon=1)
        owner.grant("ana", epsilon=1)
        with pytest.raises(duckdp.errors.ParameterError, match=r"P107.*no unit key"):
            owner.session("ana").count_variance("t", epsilon=1)


@pytest.mark.parametrize("rows", [0.05, 0.3, 1.0, 20.0])
def test_intervals_hold_counts_of_parts_of_rows(rows: float) -> None:
    """Where a unit has more than max_rows rows the bounded count is any fraction; noise of some rows, or of less."""
    noise, step, draws = Noise("laplace", rows * 2**20), 2**20, 1_000

    def missed(true: int, bar: Callable[[float], tuple[float, float]], rounding: int = 0) -> int:
        ends = [bar((true - rounding + z) / step) for z in laplace_noise(draws, noise.scale)]
        return sum(not low <= true / step <= high for low, high in ends)

    def told(noisy: float) -> tuple[float, float]:
        found = count_estimate(noise, 20, 900, noisy)
        assert found.low <= found.value <= found.high  # type: ignore[operator]
        return found.low, found.high  # type: ignore[return-value]

    for true in (0, step // 2, 7 * step + step // 3, 7 * step + 5):
        assert stats.binom.sf(missed(true, told) - 1, draws, 0.05) > 1e-9
        assert stats.binom.sf(missed(true, told, rounding=900) - 1, draws, 0.05) > 1e-9

    def symmetric(noisy: float) -> tuple[float, float]:  # the broken twin: as if no count were a fraction
        n, width = math.floor(noisy + 0.5), rounded_half_width([noise], step)
        return n - width, n + width

    assert rows > 0.1 or stats.binom.sf(missed(step // 2, symmetric) - 1, draws, 0.05) < 1e-9


def test_weights_that_are_rounded_down_widen_what_is_said() -> None:
    """By row_cap grid units where a unit may have more rows than count; rows that are units are exact."""
    noise, step = Noise("laplace", 10.0 * 2**20), 2**20
    assert rounded_half_width([noise], step, off=5 * step) == rounded_half_width([noise], step) + 5
    assert bin_counts(KEYED, "age").rounding == KEYED.row_cap
    assert bin_counts(ROWS, "age").rounding == 0
    counts = np.full(4, 100.0)
    plain, wide = (distribution_band(4, (1,), Noise("laplace", 1.0), counts=counts, off=off) for off in (0.0, 8.0))
    assert (wide.low[:-1] < plain.low[:-1] - 8 / 410).all()
    assert (wide.high[:-1] > plain.high[:-1] + 8 / 410).all()
    assert wide.low[-1] == wide.high[-1] == 1

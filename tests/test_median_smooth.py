"""dp_median_smooth in groups and with intervals: SQL, session, charges, refusals; what a unit changes; an audit."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler.order_rows import OrderRows, sort_windows
from duckdp.compiler.printing import Parameters
from duckdp.compiler.smooth_quantiles import SmoothQuantilesTask
from duckdp.core.types import NANO, Neighbours
from duckdp.mechanisms import smooth_sensitivity
from duckdp.mechanisms.admissible_noise import AdmissibleNoise
from duckdp.mechanisms.scale_bound import ScaleBound
from duckdp.mechanisms.smooth_sensitivity import SmoothQuantile
from tests.gate import load
from tests.mechanisms.test_smooth_sensitivity import reference
from tests.privacy import audits
from tests.privacy.draws import KEYED, REPLACE, ROWS, _random_row
from tests.privacy.smooth_tasks import smooth_quantiles

Rows = list[tuple[Any, ...]]


# ---- what is computed of the rows


def figures(con: duckdb.DuckDBPyConnection, task: SmoothQuantilesTask, rows: Rows) -> list[tuple[int, float]]:
    """Each group's quantile and S, exact: through the SQL that reads them."""
    load(con, task.table, rows)
    query = task.query(7)
    ends, runs = sort_windows(con.execute(query.sql, list(query.parameters)).fetchall(), len(task.rows.groups))
    return [task.quantile.bound(sorted(runs.get(g, ())), count) for g, (_, count) in enumerate(ends)]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        yield con


@pytest.mark.parametrize(("column", "keys"), [("age", "sex"), ("cost", None)])
def test_the_figures_of_each_group_are_those_of_the_formula(
    con: duckdb.DuckDBPyConnection, column: str, keys: str | None
) -> None:
    """Against the formula over all rows, of which each is written down; ties, NULLs, empty groups among them."""
    rng, task = random.Random(3), smooth_quantiles(ROWS, column, Fraction(2, 5), keys=keys, epsilon_nano=4 * NANO)
    for size in (0, 7, 60):
        rows = [(i, *_random_row(rng)) for i in range(size)]
        found = figures(con, task, rows)
        listed = con.execute(*_listed(task.rows)).fetchall()
        for g, (m, s) in enumerate(found):
            wanted = reference(task.quantile, [x for group, x in listed if group == g])
            assert m == wanted[0]
            assert s == pytest.approx(wanted[1], rel=2**-44, abs=0)


def _listed(rows: OrderRows) -> tuple[str, list[Any]]:
    parameters = Parameters()
    return f"SELECT * FROM {rows._print(7, parameters)}", list(parameters.values)


@pytest.mark.parametrize("exact", [(2_000_000, 2**18), (30, 90)])
def test_both_ways_to_compute_agree(
    con: duckdb.DuckDBPyConnection, exact: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In DuckDB and in numpy: the same m, the same S up to rounding; beyond the exact windows too."""
    monkeypatch.setattr(smooth_sensitivity, "_MAX_PAIRS", exact[0])
    monkeypatch.setattr(smooth_sensitivity, "_MAX_STEPS", exact[1])
    rng = random.Random(4)
    for _ in range(12):
        data = sorted(rng.choice([0, 3, 100, rng.randint(0, 1000)]) for _ in range(rng.choice([0, 1, 5, 60])))
        mechanism = SmoothQuantile(
            epsilon_nano=rng.choice([NANO // 5, NANO, 9 * NANO]),
            max_rows=rng.choice([1, 3]),
            grid_cells=1000,
            quantile=Fraction(rng.randint(1, 9), 10),
        )
        con.execute("CREATE OR REPLACE TABLE data AS SELECT unnest(?::BIGINT[]) AS x", [data])
        m, s = con.execute(mechanism.sql("(SELECT x FROM memory.main.data)")).fetchone()  # type: ignore[misc]
        runs = [(x, sum(y < x for y in data), data.count(x)) for x in sorted(set(data))]
        assert mechanism.bound(runs, len(data)) == (m, pytest.approx(s, rel=2**-44, abs=0))


def moved(con: duckdb.DuckDBPyConnection, task: SmoothQuantilesTask, tries: int) -> tuple[int, float]:
    """(most groups, most of what S allows) that a unit with all its rows changes, on random tables."""
    rng, groups, worst = random.Random(8), 0, 0.0
    beta, keyed = float(task.quantile.beta), task.table.unit_key is not None
    for _ in range(tries):
        rows = [(rng.choice([*range(9)]), *_random_row(rng)) for _ in range(rng.randint(0, 25))]
        size = rng.choice([1, 3, 12]) if keyed else 1
        own, other = ([(99, *_random_row(rng)) for _ in range(size)] for _ in range(2))
        before = [*rows, *own] if task.neighbours is REPLACE else rows
        pairs = list(zip(figures(con, task, before), figures(con, task, [*rows, *other]), strict=True))
        groups = max(groups, sum(one != two for one, two in pairs))
        for (m, s), (n, t) in pairs:
            worst = max(worst, abs(m - n) / min(s, t), max(s / t, t / s) / math.exp(beta))
    return groups, worst


@pytest.mark.parametrize(
    ("table", "keys", "neighbours"),
    [
        (KEYED, "town, smoker", Neighbours.ADD_REMOVE),
        (ROWS, "smoker", REPLACE),
        (ROWS, "smoker", Neighbours.ADD_REMOVE),
    ],
)
def test_a_unit_moves_few_groups_and_each_within_its_bound(
    con: duckdb.DuckDBPyConnection, table: Any, keys: str, neighbours: Neighbours
) -> None:
    """As many groups as epsilon is divided by, each by at most S, and S by at most e**beta."""
    task = smooth_quantiles(table, "age", keys=keys, neighbours=neighbours, epsilon_nano=3 * NANO)
    groups, worst = moved(con, task, 8)
    assert groups <= 3 * NANO // task.quantile.epsilon_nano
    assert 0.3 < worst <= 1 + 1e-9


def test_twins_whose_units_are_not_bounded_are_caught(con: duckdb.DuckDBPyConnection) -> None:
    task = smooth_quantiles(KEYED, "age", keys="town, smoker", epsilon_nano=9 * NANO)
    one_row = replace(task, quantile=replace(task.quantile, max_rows=1))  # distance counted in rows, not in units
    assert moved(con, one_row, 10)[1] > 1.01
    wide = replace(task.rows, table=replace(task.table, max_groups=8))
    assert moved(con, replace(task, rows=wide), 4)[0] > 9 * NANO // task.quantile.epsilon_nano


def test_epsilon_is_split_as_groups_are_shared() -> None:
    for table, keys, neighbours, parts in (
        (KEYED, "town, smoker", Neighbours.ADD_REMOVE, 2),
        (KEYED, None, Neighbours.ADD_REMOVE, 1),
        (ROWS, "town", Neighbours.ADD_REMOVE, 1),
        (ROWS, "town", REPLACE, 2),
        (ROWS, None, REPLACE, 1),
    ):
        for delta in (0, 10**12):
            terms = {"neighbours": neighbours, "delta_atto": delta, "intervals": True}
            task = smooth_quantiles(table, "age", keys=keys, **terms)
            assert task.bound is not None
            each = Fraction(task.quantile.epsilon_nano, NANO) + task.bound.epsilon
            assert 0 <= 1 - parts * each < Fraction(parts, NANO)
            assert task.quantile.delta_atto * parts <= delta < (task.quantile.delta_atto + 1) * parts
            assert (task.loss.epsilon_nano, task.loss.delta_atto) == (NANO, delta)
            assert task.quantile.noise is task.bound.noise


# ---- as users have it


@pytest.fixture
def ana(tmp_path: Path) -> Iterator[Any]:
    rng = random.Random(1)
    rows = [(i // 2, rng.choice("ab"), rng.gauss(50, 10), 7.0, None) for i in range(3_000)]
    names = ("person", "sex", "x", "same", "none")
    table = pa.table({n: [r[i] for r in rows] for i, n in enumerate(names)} | {"none": pa.nulls(3_000, pa.float64())})
    with duckdp.open({"t": table}, ledger=tmp_path / "a.ledger") as curator:
        bounds = {"x": (0, 100), "same": (0, 100), "none": (0, 100)}
        shape = {"unit_key": "person", "max_rows": 2, "max_groups": 2, "row_cap": 10_000}
        curator.protect("t", **shape, bounds=bounds, domains={"sex": ["a", "b", "c"]})
        curator.budget(epsilon=10_000)
        curator.grant("ana", epsilon=10_000)
        yield curator


def test_sql_and_session_give_the_same_and_plain_calls_stay(ana: Any) -> None:
    session, con = ana.session("ana"), ana.connect("ana")
    call = "FROM dp_median_smooth('t', 'x', epsilon := 20, groups := 'sex', intervals := true)"
    found = con.execute(call).fetchall()
    again = session.median_smooth("t", "x", epsilon=20, groups="sex", intervals=True)
    assert [row[:2] for row in found] == [tuple(row[:2]) for row in again.rows()]  # stored: the same, free
    assert [row[0] for row in found] == ["a", "b", "c"]
    assert all(low <= value <= high for _, value, _, low, high, *_ in found)
    assert [d[0] for d in con.description] == ["sex", "value", "standard_error", "low", "high", "note"]
    assert all(45 < value < 55 for _, value, *_ in found[:2])
    plain = session.median_smooth("t", "x", epsilon=20)
    assert con.execute("SELECT dp_median_smooth('t', 'x', epsilon := 20)").fetchone() == tuple(plain.rows()[0][:1])
    charges = [(c.mechanism, c.loss.epsilon_nano) for c in ana.ledger.charges()]
    assert charges == [("smooth_sensitivity_student4", 20 * NANO), ("smooth_sensitivity_student", 20 * NANO)]


def test_what_cannot_be_asked_is_refused_before_a_charge(ana: Any) -> None:
    session, con = ana.session("ana"), ana.connect("ana")
    for given, code in (
        ({"groups": "x"}, "Q303"),
        ({"groups": "nobody"}, "Q2"),
        ({"groups": "sex", "epsilon": 1e-6}, "P101"),
        ({"groups": "sex", "quantile": 1}, "P107"),
        ({"groups": "sex", "delta": 1e-18}, "P102"),
        ({"intervals": True, "column": "person"}, "C102"),
    ):
        with pytest.raises(duckdp.errors.DuckDPError) as caught:
            session.median_smooth(**{"table": "t", "column": "x", "epsilon": 1, **given})
        assert caught.value.code.startswith(code)
    for more in ("groups := 'sex'", "intervals := true"):
        with pytest.raises(duckdb.Error):  # one value cannot hold them: FROM dp_median_smooth does
            con.execute(f"SELECT dp_median_smooth('t', 'x', epsilon := 1, {more})").fetchall()
    assert not list(ana.ledger.charges())


def test_ties_nulls_and_one_unit_with_all_rows_have_answers(ana: Any, tmp_path: Path) -> None:
    session = ana.session("ana")
    for column, wanted in (("same", 7), ("none", None)):
        for row in session.median_smooth("t", column, epsilon=30, groups="sex", intervals=True).rows()[:2]:
            assert 0 <= row[1] <= 100
            assert wanted is None or row[1] == pytest.approx(wanted, abs=1e-3)
    alone = pa.table({"person": [1] * 500, "x": [float(i) for i in range(500)]})
    with duckdp.open({"t": alone}, ledger=tmp_path / "b.ledger") as curator:
        curator.protect("t", unit_key="person", max_rows=3, row_cap=1000, bounds={"x": (0, 500)})
        curator.budget(epsilon=10)
        curator.grant("ana", epsilon=10)
        estimate = curator.session("ana").median_smooth("t", "x", epsilon=1, intervals=True).columns[0].estimates[0]
        assert estimate.low <= estimate.value <= estimate.high


def test_explain_tells_the_split_and_what_to_expect(ana: Any) -> None:
    lines = [row[0] for row in ana.session("ana").explain_median_smooth("t", "x", epsilon=2, groups="sex").rows()]
    assert lines[0].endswith("in each of 3 groups by smooth sensitivity, student2 noise")
    assert "  epsilon 1 for a group's value" in lines
    bought = ana.session("ana").explain_median_smooth("t", "x", epsilon=2, intervals=True).rows()
    assert any("for a bound on its scale" in row[0] for row in bought)
    assert not list(ana.ledger.charges())


# ---- an audit of what SQL gives on neighbouring tables

EPSILON = 2
# What is looked at, the values there, and what the neighbour has besides. The first move the median by much. The
# second are equal and many: S is so small that intervals end at no bound, and one more value moves it by e**-beta.
LOOKED_AT = {
    "value": ([2.0] * 3 + [3.0] * 3, 3.0),
    "width": ([4.5] * 60, 4.5),
}


def _prepare(twin: str | None) -> None:
    """A part of the package replaced by a broken one, in this process."""
    plain = AdmissibleNoise.add
    if twin == "a thirtieth of the noise":
        AdmissibleNoise.add = lambda self, value, bound, top: plain(self, value, bound / 30, top)  # type: ignore[method-assign]
    elif twin == "the bound without noise":
        ScaleBound.release = lambda self, s, top: round(self.grid * math.log(s))  # type: ignore[method-assign]


def _ask(what: str, con: Any) -> float:
    terms = f"epsilon := {EPSILON}, groups := 'g', intervals := true, fresh := true"
    row = con.execute(f"FROM dp_median_smooth('t', 'x', {terms})").fetchall()[0]
    return float(row[1] if what == "value" else row[4] - row[3])


def audited(what: str, runs: int, twin: str | None = None) -> float:
    """Lower bound of epsilon from values or widths, of tables that differ by one unit in the group looked at."""
    values, more = LOOKED_AT[what]
    one, two = (pa.table({"g": ["a"] * len(held) + ["b"], "x": [*held, 1.0]}) for held in (values, [*values, more]))
    declared = {"unit_key": None, "row_cap": 100, "bounds": {"x": (0, 9)}, "domains": {"g": ["a", "b"]}}
    name, ask = f"{what}, {twin or 'as shipped'}", partial(_ask, what)
    return audits.lower_bound(name, (one, two), ask, runs, partial(_prepare, twin), EPSILON, **declared)


@pytest.mark.slow
@pytest.mark.parametrize("what", LOOKED_AT)
def test_releases_through_sql_are_as_private_as_charged(what: str) -> None:
    assert audited(what, audits.RUNS) <= EPSILON


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "twin"), [("value", "a thirtieth of the noise"), ("width", "the bound without noise")]
)
def test_twins_that_noise_less_are_caught(what: str, twin: str) -> None:
    assert audited(what, 3 * audits.TWIN_RUNS, twin) > EPSILON  # 600 runs tell at most 2.6, and of values 1.8 once


def test_intervals_that_are_read_by_other_constants_are_other_questions() -> None:
    task = smooth_quantiles(KEYED, intervals=True)
    assert task.bound is not None
    noise = task.bound.noise
    others = [replace(noise, alpha=noise.alpha / 2), replace(noise, beta=noise.beta / 2), replace(noise, family="none")]
    bounds = [replace(task.bound, epsilon=task.bound.epsilon / 2), *(replace(task.bound, noise=n) for n in others)]
    assert len({replace(task, bound=b).canonical for b in [*bounds, task.bound]}) == 5
    plain = smooth_quantiles(KEYED)
    assert plain.canonical.endswith(f"{plain.rows.steps}, false]")  # as stored by older versions

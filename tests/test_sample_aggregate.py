"""dp_sample_aggregate as users have it: blocks and what a unit changes in them, values, faces, refusals, intervals."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler import block_values as module
from duckdp.compiler.block_aggregate import values_of
from duckdp.compiler.block_rows import ROWS as AGGREGATES
from duckdp.compiler.block_values import BlockTask, best_combination, predicted_error
from duckdp.errors import ParameterError
from duckdp.mechanisms.block_mean import BlockMean
from tests.gate import clinic, load
from tests.privacy.block_tasks import blocks
from tests.privacy.draws import KEYED, REPLACE, ROWS, _random_row

Table = list[tuple[Any, ...]]
CALLS = {
    "avg(cost)": None,
    "var_samp(cost)": None,
    "var_pop(cost)": None,
    "stddev(cost)": None,
    "stddev_pop(income)": None,
    "skewness(cost)": (-3.0, 3.0),
    "kurtosis(cost)": (-3.0, 9.0),
    "kurtosis_pop(cost)": (-3.0, 9.0),
    "avg(round(cost / 7))": None,
    "max((age / 3)::INTEGER)": None,
    "mode(round(age / 7))": None,
    "median(round(cost / 100) / 4)": None,
    "var_pop(cost::INTEGER)": None,
    "corr(age, cost)": None,
    "covar_pop(age, cost)": None,
    "covar_samp(age, cost)": None,
    "regr_slope(cost, age)": (-500.0, 500.0),
    "regr_intercept(cost, age)": (-5000.0, 5000.0),
    "regr_r2(cost, age)": None,
    "regr_avgx(cost, age)": None,
    "regr_avgy(cost, age)": None,
    "arg_max(age, 2 * cost)": None,
    "arg_min(age, cost + age / 1000)": None,
    "min(cost)": None,
    "max(age)": None,
    "median(age)": None,
    "quantile_cont(cost, 0.3)": None,
    "quantile_disc(age, 0.75)": None,
    "mad(age)": None,
    "mode(age)": None,
    "entropy(sex)": None,
    "entropy(smoker)": None,
    "entropy(visits)": (0.0, 9.0),
}

EXPRESSIONS = {
    "stddev(cost) / avg(cost)": (0.0, 5.0),
    "max(cost) - min(cost)": None,
    "quantile_cont(cost, 0.75) - quantile_cont(cost, 0.25)": None,
    "sum(cost) / count(*)": (0.0, 2000.0),
    "sum(cost - 3 * age) / count(cost)": (-500.0, 2000.0),
    "count(DISTINCT town) / count(town)": (0.0, 1.0),
    "count_if(age > 40) / count(*)": (0.0, 1.0),
    "count_if(age > 40) FILTER (WHERE smoker) / count(smoker)": (0.0, 1.0),
    "count(smoker) FILTER (WHERE age > 40) / count()": (0.0, 1.0),
    "avg(cost) FILTER (WHERE smoker) - avg(cost) FILTER (WHERE NOT smoker)": None,
    "mad(cost) FILTER (WHERE age > 10 AND sex = 'F') / 2": None,
    "corr(age, cost) FILTER (WHERE smoker) * 2 - 1": None,
    "entropy(town) FILTER (WHERE age > 30) + mode(age)": (0.0, 30.0),
    "sqrt(var_pop(cost)) + ln(1 + median(age))": (0.0, 2000.0),
    "CASE WHEN corr(age, cost) > 0.1 THEN avg(age) ELSE -avg(age) END": None,
    "coalesce(avg(age) FILTER (WHERE age > 1000), 7) + avg(age)": (0.0, 200.0),
    "avg(DISTINCT age) + sum(DISTINCT age) / count(DISTINCT age)": (0.0, 300.0),
    "stddev(DISTINCT age) FILTER (WHERE smoker) + max(DISTINCT age)": None,
    "regr_sxx(cost, age) / regr_count(cost, age)": (0.0, 3000.0),
    "regr_syy(cost, age) / (1 + sum(cost))": (0.0, 5000.0),
    "regr_sxy(cost, age) / regr_sxx(cost, age)": (-500.0, 500.0),
    "bool_and(age >= 0)::INTEGER + 2 * bool_or(age > 40 AND NULL)::INTEGER": None,
    "CASE WHEN bool_or(smoker) FILTER (WHERE age > 1000) IS NULL THEN 1 ELSE 2 END": None,
    "(avg(cost) > 10)::INTEGER": None,
    "count(*) // 7 + sum(age) // 1000 + max(age) // 4": (0.0, 200.0),
    "avg(cost) // 7 + -9 // 2": (-10.0, 100.0),
    "fsum(age) // 16 - sum(age) // 16": (-1.0, 2.0),
    "count(DISTINCT round(age / 9)) / 100 + coalesce(count_if(age > 1000), 7)": (0.0, 20.0),
    "coalesce(count_if(smoker AND NULL), 7) + coalesce(entropy(town) FILTER (WHERE age > 1000), 3)": (0.0, 20.0),
    "approx_count_distinct(town) / count(*) + favg(age) + fsum(age) / count(age)": (0.0, 300.0),
    "greatest(avg(age), 3) ** 2 / exp(least(abs(skewness(cost)), 3))": (0.0, 20000.0),
    "nullif(count(*), 0) / (1 + count(*) FILTER (WHERE age > 1000))": (0.0, 1000.0),
}


def clean(rng: random.Random, count: int, units: int) -> Table:
    """Rows within their declared bounds, with ties and NULLs; the kept level is 1 or 2."""
    return [(rng.randrange(units), *_random_row(rng)) for _ in range(count)]


def values(task: BlockTask, rows: Table, sql: str | None = None, threads: int = 2) -> list[int]:
    """The exact values of blocks that meet the mechanism."""
    met: list[list[int]] = []
    with duckdb.connect(config={"threads": threads}) as con, pytest.MonkeyPatch.context() as patch:
        load(con, clinic(), rows)
        patch.setattr(BlockMean, "release", lambda _, exact: met.append(list(exact)) or 0)
        query = task.query(7)
        task.release(con.execute(sql or query.sql, list(query.parameters)).fetchall())
    return met[0]


# ---- what a unit can change


def pair(task: BlockTask, rng: random.Random) -> tuple[Table, Table]:
    """Neighbours: a unit with up to 30 rows comes, or (REPLACE) a row becomes another; rows that are equal too."""
    rows = clean(rng, rng.randint(0, 60), 12)
    rows += rng.choices(rows, k=20) if rows else []
    more = [(99, *_random_row(rng)) for _ in range(1 if task.table.unit_key is None else rng.randint(1, 30))]
    if rows and rng.random() < 0.5:
        more[0] = (99, *rows[0][1:])
    if task.neighbours is REPLACE:
        return [*rows, *more[:1]], [*rows, (98, *_random_row(rng))]
    return rows, [*rows, *more]


def moved(task: BlockTask, seeds: Sequence[int], change: Any = None) -> int:
    """The most blocks that neighbours differ in."""
    most = 0
    for seed in seeds:
        one, other = pair(task, random.Random(seed))
        sql = None if change is None else change(task.query(7).sql)
        first, second = values(task, one, sql), values(task, other, sql)
        most = max(most, sum(a != b for a, b in zip(first, second, strict=True)))
    return most


@pytest.mark.parametrize(
    "aggregate",
    [
        "corr(age, cost)",
        "quantile_cont(cost, 0.3)",
        "entropy(town)",
        "mode(age)",
        "stddev(cost) / (1 + avg(age))",
        "count(DISTINCT town) FILTER (WHERE age > 3) + coalesce(sum(cost) / 9, count_if(smoker))",
    ],
)
@pytest.mark.parametrize(
    ("table", "terms"), [(KEYED, {}), (ROWS, {}), (ROWS, {"neighbours": REPLACE})], ids=["units", "rows", "replaced"]
)
def test_a_unit_changes_one_block_and_a_replaced_one_two(aggregate: str, table: Any, terms: Any) -> None:
    task = blocks(table, aggregate, "smoker OR age > 3", span=(-1, 5000), number=6, **terms)
    assert 1 <= moved(task, range(6)) <= task.changed


def test_twins_that_place_rows_otherwise_are_caught() -> None:
    def by_row(sql: str) -> str:
        return sql.replace("hash(q.unit,", "hash(q.c0,")

    def by_place(sql: str) -> str:
        return sql.replace("hash(q.c0, q.c1, q.copy,", "hash(row_number() OVER (ORDER BY q.c0, q.c1),")

    for table, change in ((KEYED, by_row), (ROWS, by_place)):
        task = blocks(table, "covar_pop(age, cost)", number=6)
        assert change(task.query(7).sql) != task.query(7).sql
        assert moved(task, range(4), change) > 1


def test_values_follow_from_no_order_and_no_thread() -> None:
    """And those of a twin that adds doubles do."""
    rng = random.Random(3)
    rows = clean(rng, 500, 400)
    for aggregate in ("corr(age, cost)", "quantile_cont(cost, 0.3)", "entropy(town)", "mad(income)"):
        task = blocks(KEYED, aggregate, span=(-1, 5000))
        assert len({tuple(values(task, rng.sample(rows, len(rows)), threads=t)) for t in (1, 4)}) == 1
    task = blocks(KEYED, "avg(cost)", number=1)
    query = task.query(7)
    twin = query.sql.replace("system.main.sum(c0)", "system.main.sum(c0 * 0.1e0)")
    found = set()
    for _ in range(4):
        with duckdb.connect() as con:
            load(con, clinic(), rng.sample(rows, len(rows)))
            found |= set(con.execute(twin, list(query.parameters)).fetchall())
    assert len(found) > 1


def test_all_rows_are_in_some_block_and_units_in_one() -> None:
    rows = clean(random.Random(4), 400, 90)
    for table in (KEYED, ROWS):
        task = blocks(table, "avg(age)", number=9)
        query = task.query(7)
        with duckdb.connect() as con:
            load(con, clinic(), rows)
            found = con.execute(query.sql, list(query.parameters)).fetchall()
        assert sum(n for _, n, _ in found) == 400
        assert len(found) == 9 == len({block for block, *_ in found})


# ---- values


def exact(task: BlockTask, rows: Table) -> float:
    """The value of one block of all rows."""
    (cell,) = values(task, rows)
    return task.span.lower + (task.span.upper - task.span.lower) * cell / module.CELLS


@pytest.mark.parametrize("aggregate", CALLS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_block_of_all_rows_has_the_value_of_plain_sql(aggregate: str, seed: int) -> None:
    rows = clean(random.Random(seed), 211, 60)
    task = blocks(KEYED, aggregate, number=1, span=CALLS[aggregate])
    with duckdb.connect() as con:
        load(con, clinic(), rows)
        ((plain,),) = con.execute(f"SELECT {aggregate} FROM clinic").fetchall()
        if aggregate.startswith("mode"):
            sql = f"SELECT {aggregate[5:-1]} AS v FROM clinic GROUP BY v ORDER BY count(*) DESC, v LIMIT 1"
            ((plain,),) = con.execute(sql).fetchall()
    span = task.span.upper - task.span.lower
    assert exact(task, rows) == pytest.approx(min(max(float(plain), task.span.lower), task.span.upper), abs=2e-5 * span)


def test_every_aggregate_of_the_list_is_compared() -> None:
    named = {call.partition("(")[0] for call in CALLS}
    assert {row.name for row in AGGREGATES if not row.grows} == (named - {"stddev"}) | {"stddev_samp"}
    every = " ".join(EXPRESSIONS)
    for row in AGGREGATES:
        if row.grows:
            assert row.name.replace("_distinct", "(DISTINCT") in every


@pytest.mark.parametrize("asked", EXPRESSIONS)
@pytest.mark.parametrize("table", [KEYED, ROWS], ids=["units", "rows"])
def test_an_expression_has_the_value_of_plain_sql(asked: str, table: Any) -> None:
    rows = clean(random.Random(len(asked)), 211, 211)
    task = blocks(table, asked, number=1, span=EXPRESSIONS[asked])
    with duckdb.connect() as con:
        load(con, clinic(), rows)
        plain = asked.replace("mode(age)", "(SELECT age FROM clinic GROUP BY ALL ORDER BY count(*) DESC, 1 LIMIT 1)")
        ((found,),) = con.execute(f"SELECT {plain} FROM clinic").fetchall()
    span = task.span.upper - task.span.lower
    assert exact(task, rows) == pytest.approx(min(max(float(found), task.span.lower), task.span.upper), abs=2e-5 * span)


def any_expression(rng: random.Random, depth: int) -> str:
    """Arithmetic of aggregates, with what may have no value: quotients of 0, roots and logarithms of negatives."""
    if depth == 0 or rng.random() < 0.15:
        calls = [c for c in CALLS if not c.startswith(("mode", "mad", "median", "quantile", "entropy", "k", "sk"))]
        some = rng.choice([*calls, "count(*)", "sum(age)", "count_if(smoker)", "count(DISTINCT town)", "min(age)"])
        filtered = " FILTER (WHERE age > 1000)" if rng.random() < 0.1 else ""
        return rng.choice([f"{some}{filtered}", str(rng.randint(-3, 9)), "0.5"])
    one, two = (any_expression(rng, depth - 1) for _ in range(2))
    made = [
        "({} + {})",
        "({} - {})",
        "({} // {})",
        "({} * {})",
        "({} / {})",
        "greatest({}, {})",
        "least({}, {})",
        "nullif({}, {})",
    ]
    made += ["coalesce({}, {})", "CASE WHEN {} > 1 THEN {} END", "CASE WHEN {} IS NULL THEN 2 ELSE {} END"]
    made += ["sqrt(abs({}))", "ln(1 + abs({}))", "(- {})", "abs({})", "exp(least({}, 5))", "floor({})", "round({})"]
    return rng.choice(made).format(one, two)


@pytest.mark.parametrize("seed", range(60))
def test_any_expression_has_the_value_of_plain_sql(seed: int) -> None:
    """One that has none, by NULL, in the middle."""
    rng = random.Random(seed)
    asked = f"{any_expression(rng, 3)} + 0 * count(*)"
    rows = clean(rng, rng.randint(2, 40), 40)
    task = blocks(KEYED, asked, number=1, span=(-1000, 3000))
    with duckdb.connect() as con:
        load(con, clinic(), rows)
        ((found,),) = con.execute(f"SELECT ({asked})::DOUBLE FROM clinic").fetchall()
    wanted = 1000.0 if found is None or not math.isfinite(found) else min(max(found, -1000.0), 3000.0)
    if not any(word in asked for word in ("floor", "round", ">", "nullif", "//")) or wanted == exact(task, rows):
        assert exact(task, rows) == pytest.approx(wanted, abs=0.1), asked


def test_an_expression_of_a_block_without_rows_is_that_of_no_rows() -> None:
    none = values(blocks(KEYED, "coalesce(corr(age, cost), count(*) - 1)", number=4, span=(-2, 2)), [])
    assert none == [module.CELLS // 4] * 4  # -1 in [-2, 2]


def test_intervals_of_expressions_hold_their_values() -> None:
    """Where declarations bound it, no value is beyond; a sample's variances are taken as those of all (guide)."""
    checked = 0
    for seed in range(400):
        rng = random.Random(seed)
        task = blocks(KEYED, f"{any_expression(rng, 2)} + 0 * avg(age)", number=1, span=(0, 1))
        known = task.asked.range
        if known is None or any(call.row.name.endswith("_samp") for call in task.asked.calls):
            continue
        rows = clean(rng, rng.randint(2, 20), 20)
        with duckdb.connect() as con:
            load(con, clinic(), rows)
            query = task.query(7)
            for _, *cells in con.execute(query.sql, list(query.parameters)).fetchall():
                value = task.asked.value(values_of(task.asked.calls, cells))
                room = 1e-9 * (1 + known.upper - known.lower)
                assert value is None or known.lower - room <= value <= known.upper + room
                checked += 1
    assert checked > 30


@pytest.mark.parametrize(
    "rows",
    [[], [(1, *(None,) * 12)], [(1, 40, 10.0, 1.0, "F", "Bern", "a", None, None, True, 1, 1, 2.0)]],
    ids=["no rows", "NULL", "one row"],
)
def test_a_block_without_a_value_has_the_middle_of_the_range(rows: Table) -> None:
    for aggregate in ("corr(age, cost)", "stddev(cost)", "kurtosis(cost)", "regr_slope(cost, age)"):
        assert values(blocks(KEYED, aggregate, number=3, span=(-2, 6)), rows) == [module.CELLS // 2] * 3


# ---- as users have them


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[duckdp.Curator]:
    n = 3000
    rng = random.Random(7)
    x = [rng.gauss(50, 12) for _ in range(n)]
    rows = pa.table(
        {
            "x": x,
            "y": [0.5 * v + rng.gauss(10, 5) for v in x],
            "town": rng.choices(["Bern", "Genf", "Uri"], [5, 3, 2], k=n),
            "name": ["n"] * n,
            "free": x,
            "person": list(range(n)),
        }
    )
    with duckdp.open({"t": rows}, ledger=str(tmp_path / "t.ledger")) as owner:
        owner.protect(
            "t",
            unit_key="person",
            max_rows=1,
            row_cap=10_000,
            expected_rows=n,
            bounds={"x": (0, 100), "y": (0, 100)},
            domains={"town": ["Uri", "Genf", "Bern"]},
            columns=["name", "free"],
        )
        owner.budget(epsilon=500)
        owner.grant("ana", epsilon=400)
        yield owner


def test_sql_and_session_give_the_same_and_pay_once(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    call = "dp_sample_aggregate('t', $$corr(x, y)$$, blocks := 60, epsilon := 8{})"
    for method in ("mean", "median", "center"):
        first = ana.sample_aggregate("t", "corr(x, y)", blocks=60, epsilon=8, method=method)
        (again,) = con.execute(f"FROM {call.format(f', method := {method!r}')}").fetchall()
        assert again[0] == first["value"][0]
        assert [(again[0],)] == con.execute(f"SELECT {call.format(f', method := {method!r}')}").fetchall()
        assert abs(again[0] - 0.77) < (1 if method == "center" else 0.25)
        assert len(again) == (4 if method == "mean" else 1)
    assert len(ana.ledger().rows()) == 3
    con.execute(f"SELECT {call.format('')}").fetchall()
    assert len(ana.ledger().rows()) == 3  # auto is one of them


def test_a_mean_has_the_interval_of_its_blocks(curator: duckdp.Curator) -> None:
    ana = curator.session("ana")
    result = ana.sample_aggregate("t", "avg(x)", blocks=50, epsilon=2, method="mean")
    (found,) = result.columns[0].estimates or []
    half = 100 * math.log(20) / (50 * 2)
    assert found.half_width == pytest.approx(half, rel=1e-6)
    assert found.standard_error == pytest.approx(math.sqrt(2) * 100 / 100, rel=1e-6)
    assert "block" in str(found.note)
    wide = ana.sample_aggregate("t", "avg(x)", blocks=1, epsilon="0.01", method="mean")
    (cut,) = wide.columns[0].estimates or []
    assert 0 <= cut.low <= cut.value <= cut.high <= 100  # type: ignore[operator]


def test_intervals_of_means_cover_the_mean_of_the_blocks() -> None:
    rows = clean(random.Random(9), 300, 300)
    task = blocks(KEYED, "avg(age)", number=20)
    met = values(task, rows)
    middle = task.span.lower + sum(met) * task.unit
    width, runs = task.half_width(), 400
    assert width is not None
    mechanism = task.mechanism_of_blocks
    hits = sum(abs(task.span.lower + mechanism.release(met) * task.unit - middle) <= width for _ in range(runs))
    assert 355 <= hits <= 398  # 380 expected; each side fails once in 10^7


def test_explain_costs_nothing_and_says_how_it_is_combined(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    lines = [r[0] for r in ana.explain_sample_aggregate("t", "corr(x, y)", blocks=60, epsilon=1, method="mean").rows()]
    call = "FROM dp_explain_sample_aggregate('t', 'corr(x, y)', blocks := 60, epsilon := 1, method := 'mean')"
    assert lines == [r[0] for r in con.execute(call).fetchall()]
    assert "  blocks: 60; a hash puts all rows of one person into one of them, so at most 1 of them change" in lines
    assert "  of each: corr(x, y) in [-1, 1]; 0 where a block has none" in lines
    assert f"  value: ± {2 * math.log(20) / 60:g}" in lines
    chosen = str(ana.explain_sample_aggregate("t", "corr(x, y)", blocks=300, epsilon=1))
    assert "exponential" in chosen
    for few in (1, 10, 50):  # no more than half of the blocks can be more than half
        told = str(ana.explain_sample_aggregate("t", "corr(x, y)", blocks=few, epsilon=1, method="median"))
        assert "may lie outside of all of them" in told
    many = str(ana.explain_sample_aggregate("t", "corr(x, y)", blocks=200, epsilon=1, method="median"))
    assert "at most 51 blocks more than half" in many
    assert "blocks: 54" in str(ana.explain_sample_aggregate("t", "entropy(town)", epsilon=1))
    assert ana.remaining_text().startswith("epsilon=400")


def test_what_is_predicted_chooses() -> None:
    assert best_combination(10, 100, epsilon=0.1, changed=1) == "mean"
    assert best_combination(200, 40_000, epsilon=1, changed=1) == "median"
    assert best_combination(300, 10**5, epsilon=0.1, changed=1) == "median"  # so it was measured
    assert best_combination(100, 10**5, epsilon=0.1, changed=1) == "mean"
    for changed in (1, 2):
        few, many = (predicted_error(m, 10**5, combination="mean", epsilon=1, changed=changed) for m in (10, 1000))
        assert few == pytest.approx(100 * many)


REFUSED = [
    ("'t', 'corr(x, y)', blocks := 10001, epsilon := 1", "P107: blocks=10001: must be at most 10,000"),
    ("'t', 'corr(x, y)', blocks := 0, epsilon := 1", "P107: blocks="),
    ("'t', 'corr(x, y)', blocks := -5, epsilon := 1", "P107: blocks="),
    ("'t', 'corr(x, y)', low := 1, high := 1, epsilon := 1", "P107: low=1.0: must be below high"),
    ("'t', 'corr(x, y)', low := 2, high := 1, epsilon := 1", "P107: "),
    ("'t', 'corr(x, y)', low := 'nan'::DOUBLE, epsilon := 1", "P107: low="),
    ("'t', 'corr(x, y)', high := 'inf'::DOUBLE, epsilon := 1", "P107: high="),
    ("'t', 'corr(x, y)', high := 1e200, epsilon := 1", "P107: low / high="),
    ("'t', 'regr_slope(y, x)', epsilon := 1", "P107: low=None: must be given"),
    ("'t', 'kurtosis(x)', low := -3, epsilon := 1", "P107: high=None: must be given"),
    ("'t', 'entropy(name)', low := 0, epsilon := 1", "P107: high=None: must be given"),
    ("'t', 'corr(x, y)', method := 'best', epsilon := 1", "P107: method='best'"),
    ("'t', 'corr(x, nobody)', epsilon := 1", "Q207"),
    ("'t', 'corr(x, person)', epsilon := 1", "Q301"),
    ("'t', 'corr(x, free)', epsilon := 1", "Q401"),
    ("'t', 'avg(free * 2)', epsilon := 1", "Q402"),
    ("'t', 'avg(town)', epsilon := 1", "Q203"),
    ("'t', 'avg(avg(x))', epsilon := 1", "Q301"),
    ("'t', 'sum(x)', epsilon := 1", "Q206: line 1, col 1: sum(x) of a block is of that block's rows alone"),
    ("'t', 'count(DISTINCT town)', epsilon := 1", "Q206: line 1, col 1: count(DISTINCT town) of a block"),
    ("'t', 'count(*) FILTER (WHERE x > 1)', epsilon := 1", "count(*) FILTER (WHERE x > 1) of a block"),
    (
        "'t', 'sum(x) / count(*)', epsilon := 1",
        "P107: low=None: must be given: nothing declared bounds sum(x) / count(*)",
    ),
    ("'t', 'avg(x) + y', epsilon := 1", "Q301: line 1, col 10: a column of rows stands outside"),
    ("'t', 'avg(x) + any_value(x)', epsilon := 1", "is neither an aggregate for blocks"),
    ("'t', 'avg(x) > 3', epsilon := 1", "must be a number. Write (avg(x) > 3)::INTEGER"),
    ("'t', 'sin(avg(x))', epsilon := 1", "Q206"),
    ("'t', 'avg(x) || town', epsilon := 1", "Q301"),
    ("'t', 'avg(x) + (SELECT 1)', epsilon := 1", "Q"),
    ("'t', 'x + 1 FILTER (WHERE x > 1)', epsilon := 1", "Q"),
    ("'t', 'avg(x) FILTER (WHERE x)', epsilon := 1", "Q203"),
    ("'t', 'avg(x) FILTER (WHERE avg(x) > 1)', epsilon := 1", "Q301"),
    ("'t', 'sum(DISTINCT x) / 2', epsilon := 1", "P107: low=None"),
    ("'t', 'max(x, 3) / 2', epsilon := 1", "Q206"),
    ("'t', 'string_agg(name)', epsilon := 1", "Q206"),
    ("'t', 'list(x)', epsilon := 1", "Q206"),
    ("'t', 'x', epsilon := 1", "Q301"),
    ("'t', '1', epsilon := 1", "Q206"),
    ("'t', 'corr(x, y) OVER ()', epsilon := 1", "Q206"),
    ("'t', 'mode(DISTINCT x)', epsilon := 1", "Q206: line 1, col 1: mode takes no DISTINCT"),
    ("'t', 'quantile_cont(DISTINCT x, 0.5)', epsilon := 1", "takes no DISTINCT"),
    ("'t', 'count(DISTINCT x, y) / count(*)', epsilon := 1", "count takes one argument, not 2"),
    ("'t', 'count(*, nobody) / count(*)', epsilon := 1", "count takes one argument, or * alone"),
    ("'t', 'count(* EXCLUDE (x)) / count(*)', epsilon := 1", "count takes one argument, or * alone"),
    ("'t', 'count(* REPLACE (1 AS x)) / count(*)', epsilon := 1", "count takes one argument, or * alone"),
    ("'t', 'count(DISTINCT person) / count(*)', epsilon := 1", "Q301"),
    ("'t', 'regr_sxx(x, y)', epsilon := 1", "of a block is of that block's rows alone"),
    ("'t', 'bool_and(x > 3)', epsilon := 1", "Write (bool_and(x > 3))::INTEGER"),
    ("'t', 'bool_or(x)', epsilon := 1", "Q203: line 1, col 1: bool_or needs a boolean"),
    ("'t', 'max_by(x, y, 3)', epsilon := 1", "more parts than arguments"),
    ("'t', 'count_if(x > 1, x > 2) / 2', epsilon := 1", "Q206: line 1, col 1: count_if takes one argument, not 2"),
    ("'t', 'approx_count_distinct(x, y) / 2', epsilon := 1", "approx_count_distinct takes one argument, not 2"),
    ("'t', 'any_value(x)', epsilon := 1", "any_value is neither"),
    ("'t', 'avg(x)', more := ['avg( x )'], epsilon := 1", "P107: more='avg( x )': stands twice"),
    ("'t', 'geomean(x)', epsilon := 1", "Use exp(avg(ln(greatest(x, 1))))"),
    ("'t', 'avg(x) + $1', epsilon := 1", "Write the number itself"),
    ("'t', 'avg(x) % 3', epsilon := 1", "Q206: line 1, col 1: % is not for values of blocks"),
    ("'t', '1 + sin(avg(x))', epsilon := 1", "Q206: line 1, col 5: function sin is not for values of blocks"),
    ("'t', 'first(x)', epsilon := 1", "first is neither an aggregate for blocks"),
    ("'t', 'avg(x) * 0', epsilon := 1", "P107: aggregate='avg(x) * 0': is always 0"),
    ("'t', 'mode(x ORDER BY y)', epsilon := 1", "Q"),
    ("'t', 'mode() WITHIN GROUP (ORDER BY x)', epsilon := 1", "Q206"),
    ("'t', 'system.main.corr(x, y)', epsilon := 1", "Q"),
    ("'t', 'mad(x, y)', epsilon := 1", "mad takes one argument"),
    (
        "'t', 'quantile_cont(x, 2)', epsilon := 1",
        "quantile_cont takes a number between 0 and 1",
    ),
    ("'t', 'quantile_cont(x, y)', epsilon := 1", "Q206"),
    ("'t', 'quantile_cont(x, [0.3])', epsilon := 1", "Q206"),
    ("'t', 'median(*)', epsilon := 1", "Q"),
    ("'t', 'corr(x, y); SELECT 1', epsilon := 1", "Q1"),
    ("'t', '', epsilon := 1", "Q1"),
    ("'t', 'corr(x, y)', predicate := 'x', epsilon := 1", "Q203"),
    ("'t', 'corr(x, y)'", "P101"),
    ("'t', 'corr(x, y)', epsilon := 0.0000001", "P101"),
    ("'nobody', 'corr(x, y)', epsilon := 1", "C101"),
]


def test_refusals_are_coded_and_free(curator: duckdp.Curator) -> None:
    con = curator.connect("ana")
    for call, words in REFUSED:
        for name in ("dp_sample_aggregate", "dp_explain_sample_aggregate"):
            with pytest.raises(duckdb.Error) as error:
                con.execute(f"FROM {name}({call})").fetchall()
            assert words in str(error.value), call
    assert curator.session("ana").remaining_text().startswith("epsilon=400")


@pytest.mark.parametrize("method", ["mean", "median", "center"])
def test_empty_tables_and_more_blocks_than_units_are_answered(tmp_path: Path, method: str) -> None:
    for name, count in (("empty", 0), ("few", 3)):
        rows = pa.table({"x": pa.array([float(i) for i in range(count)], pa.float64())})
        with duckdp.open({"t": rows}, ledger=str(tmp_path / f"{name}.ledger")) as owner:
            owner.protect("t", row_cap=100, bounds={"x": (0, 10)})
            owner.budget(epsilon=100)
            owner.grant("ana", epsilon=100)
            value = owner.session("ana").sample_aggregate("t", "avg(x)", epsilon=50, blocks=400, method=method)[
                "value"
            ][0]
            assert abs(value - 5) < (10 if method == "center" else 0.1)  # nearly all blocks are empty


def test_one_unit_with_all_rows_is_one_block() -> None:
    rows = [(1, *_random_row(random.Random(i))) for i in range(300)]
    assert sum(v != module.CELLS // 2 for v in values(blocks(KEYED, "avg(age)", number=40), rows)) == 1


@pytest.mark.parametrize("more", [None, ["1.5 * avg(x * 0.5) + min(y)"]], ids=["one", "two"])
def test_work_after_the_charge_is_bounded_before_it(curator: duckdp.Curator, more: Any) -> None:
    ana = curator.session("ana")
    long = "avg(x)" + " + 1" * 100
    for ask in (ana.sample_aggregate, ana.explain_sample_aggregate):
        with pytest.raises(ParameterError, match=r"P107: blocks=10000: must be at most 4,\d\d\d for 2\d\d "):
            ask("t", long, epsilon=1, blocks=10_000, more=more)
    many = [" + ".join(f"avg(x + {20 * i + j})" for j in range(20)) for i in range(3)]
    with pytest.raises(ParameterError, match=r"P107: more=2: must have at most 40 different aggregates in all, not 60"):
        ana.sample_aggregate("t", many[0], epsilon=1, more=many[1:])
    wide = [f"avg(greatest({', '.join(f'x * {i}' for i in range(j, j + 1500))}))" for j in range(5)]
    with pytest.raises(ParameterError, match=r"P107: more=4: must have at most 20,000 parts in the arguments"):
        ana.explain_sample_aggregate("t", wide[0], epsilon=1, more=wide[1:])
    assert ana.remaining_text().startswith("epsilon=400")
    ana.sample_aggregate("t", long, epsilon=1, blocks=100, more=more)


def test_one_call_of_several_texts_is_read_once() -> None:
    parts = [blocks(KEYED, text) for text in ("avg(age)", "avg(age) / 2", "max(age) - avg(age)")]
    assert [call.text for call in module.calls_of(parts)] == ["avg(age)", "max(age)"]


def test_values_of_all_blocks_are_found_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many have rows: the work is the same."""
    for rows in ([], clean(random.Random(2), 90, 30)):
        found: list[object] = []
        task = blocks(KEYED, "avg(age) / 2", number=11)
        value = type(task.asked).value
        monkeypatch.setattr(type(task.asked), "value", lambda self, v: (found.append(1), value(self, v))[1])  # noqa: B023
        values(task, rows)
        monkeypatch.undo()
        assert len(found) == 11


def test_rows_of_no_block_count_nowhere() -> None:
    task = blocks(KEYED, "avg(age)", number=4)
    assert task.values([(4, 1, 5), (-1, 1, 5), (None, 1, 5)]) == task.values([]) == [module.CELLS // 2] * 4
    assert task.values([(2, 1, 5)]) != task.values([])

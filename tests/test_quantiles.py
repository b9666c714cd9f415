"""dp_quantiles as users have it: SQL, session, charges, refusals; which rows are read; what a unit can change."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import duckdp
from duckdp.compiler.grouping import read_keys
from duckdp.compiler.order_rows import WantedPart, sort_windows
from duckdp.compiler.quantile_levels import QuantilesTask, plan_quantiles
from duckdp.core.noise import laplace_noise
from duckdp.core.task import Stages
from duckdp.core.types import NANO, Neighbours
from duckdp.mechanisms import quantile_intervals
from duckdp.mechanisms.cell_measure import CellMeasure
from duckdp.mechanisms.exponential_quantiles import PLACES, Aim, Part, draw_cell
from duckdp.vault.shared_reads import SharedReads
from tests.gate import clinic, load, shared
from tests.mechanisms.test_quantiles import part_of
from tests.privacy.draws import KEYED, REPLACE, ROWS, _random_row
from tests.privacy.quantiles import tree_quantiles
from tests.privacy.statistics import epsilon_lower_bound

Rows = list[tuple[Any, ...]]


def planned(
    table: Any, name: str, quantiles: Sequence[float] = (0.5,), keys: str | None = None, **terms: Any
) -> QuantilesTask:
    given = {"epsilon_nano": NANO, "neighbours": Neighbours.ADD_REMOVE, **terms}
    return plan_quantiles(table, name, quantiles, None, () if keys is None else read_keys(keys, table), **given)


def wide(epsilon: float = 1e-3, cells: int = 111) -> Aim:
    """An aim near which all rows are."""
    return Aim(a=1, b=2, epsilon=Fraction(epsilon), unit=1, cells=cells)


def read_parts(
    task: QuantilesTask, con: duckdb.DuckDBPyConnection, wanted: Sequence[WantedPart], **changed: str
) -> list[Part]:
    """What the draws get, from the SQL that reads it."""
    query = task.rows.windows(wanted, 7)
    sql = query.sql
    for old, new in changed.items():
        assert TWINS[old] in sql
        sql = sql.replace(TWINS[old], new)
    ends, runs = sort_windows(con.execute(sql, list(query.parameters)).fetchall(), len(wanted))
    return [
        Part(low=p.low, high=p.high, below=below, upto=upto, runs=runs.get(p.group, ()))
        for p, (below, upto) in zip(wanted, ends, strict=True)
    ]


TWINS = {"chosen": "WHERE r.edge IS NULL OR r.draw < r.edge", "groups": "WHERE r.place <= 2"}


# ---- which rows are read


@pytest.mark.parametrize("steps", [110, 5_000, 2**24, 2**32])
def test_the_ranks_are_those_of_the_rows(steps: int) -> None:
    """On every kind of grid and part: against the rows one by one."""
    rng = random.Random(steps)
    for size in (0, 1, 30, 400):
        few = [rng.randint(0, steps) for _ in range(3)]
        cells = [rng.choice(few) if rng.random() < 0.5 else rng.randint(0, steps) for _ in range(size)]
        rows = replace(planned(ROWS, "age").rows, steps=steps)
        cuts = sorted(
            rng.choice([*few, 0, steps, steps // 2]) * PLACES + rng.choice([0, 1, rng.randrange(PLACES)])
            for _ in range(3)
        )
        end = (steps + 1) * PLACES
        for reach in (wide(cells=steps + 1), Aim(a=1, b=5, epsilon=Fraction(30), unit=1, cells=steps + 1)):
            sides = [(0, end), (0, cuts[0]), (cuts[0], cuts[1]), (cuts[1], cuts[2]), (cuts[2], end), (end, end), (0, 0)]
            wanted = [WantedPart(group=0, low=low, high=high, aim=reach) for low, high in sides]
            with duckdb.connect() as con, pytest.MonkeyPatch.context() as patch:
                patch.setattr(type(rows), "_print", lambda *_: "(SELECT 0::BIGINT AS g, x FROM given)")
                con.execute("CREATE TABLE given (x BIGINT)")
                if cells:
                    con.execute("INSERT INTO given SELECT unnest(?::BIGINT[])", [cells])
                found = read_parts(replace(planned(ROWS, "age"), rows=rows), con, wanted)
            for part, (low, high) in zip(found, sides, strict=True):
                true = part_of(cells, low, high)
                assert (part.below, part.upto) == (true.below, true.upto)
                counts = Counter(cells)
                assert set(part.runs) <= {(c, sum(x < c for x in cells), counts[c]) for c in counts}
                assert len(part.runs) <= sum(2 * reach.reach + 8 for _ in sides)
                for cell, before, rows_in in true.runs:  # every one with a rank near the aim
                    goal = part.below + (part.upto - part.below) * reach.a / reach.b
                    near = before + rows_in > max(part.below, goal - reach.reach) and before < min(
                        part.upto, goal + reach.reach
                    )
                    assert not near or (cell, before, rows_in) in part.runs


def cells_read(task: QuantilesTask, rows: Rows, **changed: str) -> Counter[tuple[int, int]]:
    """(group, cell) of the rows that count."""
    wanted = [
        WantedPart(group=g, low=0, high=(task.rows.steps + 1) * PLACES, aim=wide(cells=task.rows.steps + 1))
        for g in range(len(task.rows.groups))
    ]
    with shared() as con:
        load(con, clinic(), rows)
        parts = read_parts(task, con, wanted, **changed)
    return Counter({(g, cell): count for g, part in enumerate(parts) for cell, _, count in part.runs})


def moved(task: QuantilesTask, seed: int, **changed: str) -> tuple[int, int]:
    """(most rows in one group, groups) by which two tables differ, of which one has a unit with up to 30 rows more."""
    rng = random.Random(seed)
    rows = [(rng.choice([None, *range(12)]), *_random_row(rng)) for _ in range(rng.randint(0, 60))]
    size = 1 if task.table.unit_key is None else rng.randint(1, 30)
    other = [*rows, *((99, *_random_row(rng)) for _ in range(size))]
    one, two = cells_read(task, rows, **changed), cells_read(task, other, **changed)
    assert not one - two
    groups = Counter(g for g, _ in (two - one).elements())
    return max(groups.values(), default=0), len(groups)


@pytest.mark.parametrize(
    ("table", "keys", "most"), [(KEYED, None, (3, 1)), (KEYED, "town, smoker", (3, 2)), (ROWS, "town", (1, 1))]
)
def test_a_unit_adds_so_many_rows_to_so_many_groups(table: Any, keys: str | None, most: tuple[int, int]) -> None:
    task = planned(table, "age", keys=keys)
    assert (task.rows.unit, task.rows.shared) == most
    found = [moved(task, seed) for seed in range(8)]
    assert (max(rows for rows, _ in found), max(groups for _, groups in found)) == most


def test_twins_that_bound_nothing_are_caught() -> None:
    task = planned(KEYED, "age", keys="town, smoker")
    assert max(rows for rows, _ in (moved(task, seed, chosen="") for seed in range(6))) > 3
    assert max(groups for _, groups in (moved(task, seed, groups="") for seed in range(6))) > 2


def test_the_rows_are_those_of_plain_sql() -> None:
    rng = random.Random(5)
    rows = [(i, *_random_row(rng)) for i in range(200)]
    rows = [(row[0], None, *row[2:]) if row[0] % 5 == 0 else row for row in rows]  # without a value, in no cell
    task = planned(ROWS, "age", keys="town, level")
    found = cells_read(task, rows)
    with duckdb.connect() as con:
        load(con, clinic(), rows)
        for g, values in enumerate(
            (t, v) for t in task.rows.keys[0].domain or () for v in task.rows.keys[1].domain or ()
        ):
            town = "town NOT IN ('Bern', 'Genf', 'Uri')" if values[0] == "elsewhere" else f"town = '{values[0]}'"
            level = f"level IS NOT DISTINCT FROM {'NULL' if values[1] is None else values[1]}"
            plain = con.execute(f"SELECT age FROM clinic WHERE {town} AND {level} AND age >= 0").fetchall()
            assert Counter(c for (group, c) in found.elements() if group == g) == Counter(age for (age,) in plain)


# ---- privacy, from SQL to the draws


def drawn(task: QuantilesTask, rows: Rows, count: int, make: Callable[[Aim], Aim] = lambda aim: aim) -> list[int]:
    (split,) = task.splits
    wanted = [WantedPart(group=0, low=0, high=(task.rows.steps + 1) * PLACES, aim=task.aim(split))]
    with shared() as con:
        load(con, clinic(), rows)
        (part,) = read_parts(task, con, wanted)
    return [draw_cell(part, make(task.aim(split))) for _ in range(count)]


@pytest.mark.parametrize(("table", "size"), [(KEYED, 3), pytest.param(ROWS, 1, marks=pytest.mark.slow)])
def test_neighbouring_tables_differ_by_epsilon(table: Any, size: int) -> None:
    """Rows at 0, 4750 and 5000: a unit at 5000 moves the median from the wide gap towards the narrow one."""
    rng, task = random.Random(1), planned(table, "cost", epsilon_nano=2 * NANO)
    costs = [0] * 10 + [4750] * size + [5000] * 10
    rows = [(i, 1, cost, *_random_row(rng)[2:]) for i, cost in enumerate(costs)]
    other = [*rows, *((99, 1, 5000, *_random_row(rng)[2:]) for _ in range(size))]
    honest = epsilon_lower_bound(drawn(task, rows, 6000), drawn(task, other, 6000))
    assert 0.2 < honest <= 2
    twin = lambda aim: replace(aim, epsilon=3 * aim.epsilon)  # noqa: E731 - a broken twin
    assert epsilon_lower_bound(drawn(task, rows, 6000, twin), drawn(task, other, 6000, twin)) > 2


def test_grouping_sets_units_and_groups_share_the_charge() -> None:
    for table, keys, parts in ((KEYED, None, 1), (KEYED, "town, smoker", 2), (ROWS, "town", 1)):
        for quantiles in ((0.5,), (0, 0.25, 0.5, 0.75, 1), tuple(i / 100 for i in range(1, 100))):
            for neighbours, times in ((Neighbours.ADD_REMOVE, 1), (REPLACE, 2)):
                task = planned(table, "age", quantiles, keys if len(quantiles) < 9 else None, neighbours=neighbours)
                parts_now = parts if len(quantiles) < 9 else 1
                total = sum(task.shares) * parts_now * times
                assert Fraction(999, 1000) < total <= 1
                assert all(task.aim(s).unit == task.rows.unit for s in task.splits)


# ---- as users have them


# ---- intervals


def missed(runs: int, quantiles: Sequence[float]) -> int:
    """How many intervals do not hold their quantile, on tables that are tied, in two heaps, and spread."""
    rng, found = random.Random(9), 0
    ages = {
        "tied": [20] * 60 + [21] * 55 + [60] * 5,
        "heaps": [10] * 61 + [100] * 59,
        "spread": [rng.randint(0, 110) for _ in range(120)],
    }
    task = planned(ROWS, "age", quantiles, epsilon_nano=10 * NANO, intervals=True)
    for values in ages.values():
        true = [sorted(values)[max(1, -(-len(values) * q.numerator // q.denominator)) - 1] for q in task.quantiles]
        with duckdb.connect() as con:
            load(con, clinic(), [(i, age, *_random_row(rng)[1:]) for i, age in enumerate(values)])

            def read(query: Any, con: duckdb.DuckDBPyConnection = con) -> Rows:
                return con.execute(query.sql, list(query.parameters)).fetchall()

            for _ in range(runs // 3):
                (got,) = task.read(task.work(7)(Stages(read)))
                assert all(e.low is not None and e.high is not None and e.low <= e.value <= e.high for e in got)
                found += sum(not e.low <= t <= e.high for e, t in zip(got, true, strict=True))
    return found


def test_intervals_hold_their_quantiles() -> None:
    assert stats.binom.sf(missed(15, (0, 0.3, 0.5, 0.9)) - 1, 60, 0.05) > 1e-9


@pytest.mark.parametrize("bins", [2, 60])
def test_an_end_misses_as_seldom_as_it_says(bins: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Just as many rows up to the last cell but one of the ends as the quantile wants: one cell on is too far."""
    exact, scale, runs = [10] * bins, 5.0, 600
    half = bins // 2

    def too_far() -> int:
        noise = np.array(laplace_noise(runs * bins, scale)).reshape(runs, bins)
        found = [
            quantile_intervals.Counted(
                cells=range(bins - 1), counts=[n + int(z) for n, z in zip(exact, row, strict=True)], scale=scale
            )
            for row in noise
        ]
        return sum(counted.interval(0.5, bins)[0] > half - 1 for counted in found)

    assert stats.binom.sf(too_far() - 1, runs, quantile_intervals.MISSED) > 1e-9
    real = quantile_intervals.margin
    monkeypatch.setattr(quantile_intervals, "margin", lambda *given: 0.3 * real(*given))  # the broken twin
    assert stats.binom.sf(too_far() - 1, runs, quantile_intervals.MISSED) < 1e-9


@pytest.mark.slow
def test_intervals_hold_their_quantiles_often_enough() -> None:
    assert stats.binom.sf(missed(600, (0, 0.3, 0.5, 0.9)) - 1, 2400, 0.05) > 1e-9


@pytest.mark.parametrize("steps", [100, 2**16, 2**32])
@pytest.mark.parametrize("name", ["cost", "age", "income"])
def test_the_ends_of_a_cell_hold_its_rows(name: str, steps: int) -> None:
    """On a coarse grid rows lie up to half a step from a cell's middle, where many of them may be."""
    task = planned(clinic(), name)
    task = replace(task, rows=replace(task.rows, steps=steps))
    span, rng = task.column.interval, random.Random(2)
    for _ in range(300):
        value: float = rng.uniform(span.lower, span.upper)
        value = round(value) if task.column.integral else value
        cell = int((value - span.lower) / (span.upper - span.lower) * steps + 0.5)
        assert task.grid.end(cell, -1) <= value <= task.grid.end(cell, 1)
    for side, bound in ((-1, span.lower), (1, span.upper)):
        assert task.grid.end(0 if side < 0 else steps, side) == bound


@pytest.mark.parametrize(("below", "bins", "share"), [(1, 5, 0.5), (3, 5, 0.1), (30, 50, 0.9), (1, 3, 0.0)])
def test_the_margin_is_what_the_noise_exceeds(below: int, bins: int, share: float) -> None:
    scale, draws = 6.0, 1_500
    most = quantile_intervals.margin(below, bins, share, scale)
    weights = np.array([share - 1] * below + [share] * (bins - below))
    noise = np.array(laplace_noise(draws * bins, scale)).reshape(draws, bins) @ weights
    assert stats.binom.sf(int((noise > most).sum()) - 1, draws, quantile_intervals.MISSED) > 1e-9
    assert int((noise > 0.6 * most).sum()) > draws * quantile_intervals.MISSED  # no larger than it needs to be


@pytest.mark.parametrize("table", [KEYED, ROWS])
def test_from_a_tree_rows_without_a_value_are_none(table: Any) -> None:
    """Of more rows without a value than with one the median is still that of the others."""
    rows = [(i, 100 if i < 10 else None, *_random_row(random.Random(i))[1:]) for i in range(40)]
    task = tree_quantiles(table, "age", (0.5,), epsilon_nano=100 * NANO)
    with duckdb.connect() as con:
        load(con, clinic(), rows)
        query = task.query(7)
        found = con.execute(query.sql, list(query.parameters)).fetchall()
    assert sorted((leaf is None, n) for _, leaf, n in found)[0] == (False, 10)
    ((estimate,),) = task.read(task.release(found))
    assert estimate.value == pytest.approx(100, abs=2)


def test_answers_by_the_measure_of_round_numbers_are_other_questions() -> None:
    """Those of before stay known by their own text; where no number is rounder than others, they are the same."""
    for name, rounder in (("cost", True), ("age", False)):
        task = planned(KEYED, name)
        assert bool(task.grid.measure.levels) is rounder
        assert (task.canonical != replace(task, round=False).canonical) is rounder


def test_draws_aside_and_counts_take_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one group: half for the levels, a quarter for what is drawn aside (two of a part), a quarter for counts."""
    for table, keys, parts in ((KEYED, None, 1), (KEYED, "town, smoker", 2), (ROWS, None, 1)):
        for quantiles in ((0.5,), (0.25, 0.5, 0.75)):
            for neighbours, times in ((Neighbours.ADD_REMOVE, 1), (REPLACE, 2)):
                task = planned(table, "age", quantiles, keys, neighbours=neighbours, intervals=True)
                aside = sum(task.aim_aside(0, below=below).epsilon for below in (True, False)) / (
                    1 + (len(quantiles) == 1)
                )
                counts = Fraction(task.rows.unit) / Fraction(task.scale)
                total = (sum(task.shares) + aside + counts) * parts * times
                assert Fraction(999, 1000) < total <= 1
                assert task.aim_aside(0, below=True).unit == task.rows.unit


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[duckdp.Curator]:
    ages = [i % 90 for i in range(900)]
    table = {
        "age": ages,
        "pay": [float(a) ** 2 for a in ages],
        "sex": ["f", "m", "x"] * 300,
        "person": list(range(900)),
    }
    with duckdp.open({"t": pa.table({**table, "name": ["n"] * 900})}, ledger=str(tmp_path / "t.ledger")) as owner:
        owner.protect(
            "t",
            unit_key="person",
            max_rows=2,
            row_cap=10_000,
            domains={"sex": ["f", "m"]},
            bounds={"age": (0, 110), "pay": (0, 10_000)},
            columns=["name"],
        )
        owner.budget(epsilon=500)
        owner.grant("ana", epsilon=400)
        yield owner


def test_sql_and_session_give_the_same_and_pay_once(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    first = ana.quantiles("t", "age", [0.1, 0.5, 0.9], epsilon=30, intervals=False)
    asked = "FROM dp_quantiles('t', 'age', [0.1, 0.5, 0.9], epsilon := 30, intervals := false)"
    assert con.execute(asked).fetchall() == first.rows()
    assert first.names == ["quantile", "value"]
    assert [c.type for c in first.columns] == ["DOUBLE", "BIGINT"]
    assert all(abs(v - t) <= 3 for v, t in zip(first["value"], (9, 45, 80), strict=True))
    grouped = ana.quantiles("t", "pay", [0.5], epsilon=30, groups="sex", predicate="age < 45")
    assert [(r[0], r[1]) for r in grouped.rows()] == [("f", 0.5), ("m", 0.5)]
    assert all(abs(row[2] - 22**2) < 300 for row in grouped.rows())
    bars = ana.quantiles("t", "pay", [0.5], epsilon=30, groups="sex", predicate="age < 45")
    asked = "FROM dp_quantiles('t', 'pay', [0.5], epsilon := 30, groups := 'sex', predicate := 'age < 45')"
    rows = con.execute(asked).fetchall()
    note = "at most 2 rows of each person count in each group (max_rows)"
    assert [row[:3] for row in rows] == bars.rows()
    assert all(row[4] <= row[2] <= row[5] and row[3] is None and row[6] == note for row in rows)
    assert con.execute(f"DESCRIBE {asked}").fetchall()[2][0] == "value"
    assert [str(charge.loss) for charge in curator.ledger.charges()] == ["epsilon=30", "epsilon=30"]


def test_many_at_once_are_better_than_one_by_one(curator: duckdp.Curator) -> None:
    """At the same charge, by the errors of the draws."""
    table = curator.data.tables["t"]

    def errors(asked: Sequence[float], share: int) -> float:
        task = plan_quantiles(table, "pay", asked, None, epsilon_nano=share, neighbours=Neighbours.ADD_REMOVE)
        return sum(1 / float(task.aim(s).rate) for s in task.splits)

    for count, times in ((3, 1.1), (7, 1.7), (31, 4), (100, 9)):
        asked = [i / (count + 1) for i in range(1, count + 1)]
        assert times * errors(asked, NANO) < sum(errors([q], NANO // count) for q in asked)


def test_explain_costs_nothing(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    lines = [
        r[0]
        for r in ana.explain_quantiles("t", "age", [0.25, 0.5], epsilon=1, groups="sex", method="exponential").rows()
    ]
    options = "epsilon := 1, groups := 'sex', method := 'exponential'"
    asked = f"FROM dp_explain_quantiles('t', 'age', [0.25, 0.5], {options})"
    assert lines == [r[0] for r in con.execute(asked).fetchall()]
    assert "2 quantiles of age in each of 2 groups by the exponential mechanism, 2 levels" in lines[0]
    assert ana.remaining_text().startswith("epsilon=400")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("'age', [1.1], epsilon := 1", "P107: quantiles=1.1: must lie between 0 and 1"),
        ("'age', [-0.1], epsilon := 1", "P107: quantiles=-0.1"),
        ("'age', ['nan'], epsilon := 1", "P107: quantiles='nan': must be a finite number"),
        ("'age', [0.5, 0.5], epsilon := 1", "must ascend, each once"),
        ("'age', [0.6, 0.5], epsilon := 1", "must ascend, each once"),
        ("'age', [0.5, 0.5000000001], epsilon := 1", "must ascend, each once"),
        ("'age', [], epsilon := 1", "P107: quantiles=0: must be 1 to 100 numbers"),
        ("'age', 0.5, epsilon := 1", "must be a list of numbers"),
        ("'age', NULL, epsilon := 1", "must be a list of numbers"),
        ("'age', [NULL], epsilon := 1", "must be a list of numbers"),
        ("'age', [0.5]", "P101"),
        ("'age', [0.5, 0.6], epsilon := 0.0000001", "P101"),
        ("'age', [0.5, 0.6], epsilon := 0.0001", "P101: epsilon=0.0001: is too small for 2 quantiles"),
        ("'nobody', [0.5], epsilon := 1", "C102"),
        ("'name', [0.5], epsilon := 1", "Q203"),
        ("'age', [0.5], epsilon := 1, groups := 'name'", "P107: groups='name': has no declared domain"),
        ("'age', [0.5], epsilon := 1, groups := ''", "Q1"),
        ("'age', [0.5], epsilon := 1, groups := 'age, age + 1, age + 2'", "have 1,"),
        ("'age', [0.5], epsilon := 1, predicate := 'nobody = 1'", "Q"),
    ],
)
def test_refusals_are_coded_and_free(curator: duckdp.Curator, call: str, words: str) -> None:
    con = curator.connect("ana")
    with pytest.raises(duckdb.Error) as error:
        con.execute(f"FROM dp_quantiles('t', {call})").fetchall()
    assert words in str(error.value)
    assert curator.session("ana").remaining_text().startswith("epsilon=400")


def test_ties_empty_groups_and_one_unit_with_all_rows_are_answered(tmp_path: Path) -> None:
    rows = pa.table({"x": [7] * 500 + [3] * 100, "g": ["a"] * 600, "p": [1] * 500 + list(range(2, 102))})
    with duckdp.open({"t": rows}, ledger=str(tmp_path / "t.ledger")) as owner:
        owner.protect("t", unit_key="p", max_rows=1, row_cap=1000, bounds={"x": (0, 10)}, domains={"g": ["a", "b"]})
        owner.budget(epsilon=500)
        owner.grant("ana", epsilon=500)
        ana = owner.session("ana")
        found = ana.quantiles("t", "x", [0.1, 0.4, 0.5, 0.6, 0.9], epsilon=50)["value"]
        assert found == [3] * 5  # the one unit counts once
        grouped = ana.quantiles("t", "x", [0.25, 0.75], epsilon=50, groups="g").rows()
        assert [row[2] for row in grouped[:2]] == [3, 3]
        assert all(0 <= row[2] <= 10 for row in grouped[2:])


def test_ties_do_not_move_what_is_drawn_after_them(tmp_path: Path) -> None:
    """The middle one falls into four tenths of all rows; those beside it stay where they are."""
    values = [i / 1000 for i in range(6000)] + [6.0] * 8000 + [6.001 + i / 1000 for i in range(6000)]
    with duckdp.open({"t": pa.table({"x": values})}, ledger=str(tmp_path / "t.ledger")) as owner:
        owner.protect("t", row_cap=100_000, bounds={"x": (0, 20)})
        owner.budget(epsilon=100)
        owner.grant("ana", epsilon=100)
        found = owner.session("ana").quantiles("t", "x", [0.15, 0.35, 0.5, 0.65, 0.85], epsilon=10)["value"]
        assert all(abs(value - 6) < 1e-3 for value in found[1:4])
        assert abs(found[0] - 3) < 0.1
        assert abs(found[4] - 9) < 0.1


def test_ties_at_round_numbers_are_found_on_a_fine_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two ties lie millions of empty cells; a release from before they counted less stays free, as it was."""
    values = [float(i % 61) * 100 for i in range(6100)]
    with duckdp.open({"t": pa.table({"x": values})}, ledger=str(tmp_path / "t.ledger")) as owner:
        owner.protect("t", row_cap=10_000, bounds={"x": (0, 10_000)})
        owner.budget(epsilon=100)
        owner.grant("ana", epsilon=100)
        ana = owner.session("ana")

        def asked(epsilon: float) -> duckdp.Result:
            return ana.quantiles("t", "x", [0.25, 0.5, 0.75], epsilon=epsilon, intervals=False)

        with monkeypatch.context() as patch:
            patch.setattr(CellMeasure, "levels", ())
            before = asked(3)
        again = asked(3)
        assert again["value"] == before["value"]
        assert "stored release" in again.source
        near = [abs(value % 100 - 50) > 49.9 for n in range(6) for value in asked(1 + n / 100)["value"]]
        assert sum(near) > 9  # without, nearly none


# ---- other ways


def test_ways_give_the_same_columns_and_auto_takes_the_better_one(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    many = [i / 50 for i in range(1, 50)]
    tree = ana.quantiles("t", "age", many, epsilon=20, method="tree")
    drawn = ana.quantiles("t", "age", many, epsilon=20, method="exponential")
    assert tree.names == drawn.names
    assert [c.type for c in tree.columns] == [c.type for c in drawn.columns]
    for found in (tree, drawn):
        value = found.columns[-1]
        assert value.estimates is not None
        assert all(0 <= e.low <= e.value <= e.high <= 110 for e in value.estimates)  # type: ignore[operator]
    true = [int(q * 90) for q in many]
    assert sum(abs(a - b) <= 3 for a, b in zip(tree["value"], true, strict=True)) > 40

    def told(quantiles: list[float], **more: Any) -> str:
        return "\n".join(r[0] for r in ana.explain_quantiles("t", "age", quantiles, epsilon=1, **more).rows())

    assert "from a tree of counts" in told(many)
    assert "by the exponential mechanism" in told([0.5])
    assert "chosen by how far ranks are off: by about" in told([0.5])
    assert "chosen by" not in told([0.5], method="tree")
    assert "by smooth sensitivity" in told([0.5], method="smooth", intervals=False)
    assert ana.quantiles("t", "age", many, epsilon=20)["value"] == tree["value"]
    drawn = ana.quantiles("t", "age", many, epsilon=19, method="exponential")
    auto = ana.quantiles("t", "age", many, epsilon=19)
    assert auto["value"] == drawn["value"]  # that was paid for, so it is given again
    assert "stored release" in auto.source
    grouped = "FROM dp_quantiles('t', 'pay', [0, 0.5, 1], epsilon := 30, groups := 'sex', method := 'tree')"
    rows = con.execute(grouped).fetchall()
    assert con.execute(grouped).fetchall() == rows
    assert [row[:2] for row in rows] == [(g, q) for g in ("f", "m") for q in (0.0, 0.5, 1.0)]
    one = ana.quantiles("t", "age", [0.5], epsilon=20, intervals=False, method="smooth")
    assert abs(one["value"][0] - 45) < 12
    assert "stored release" in ana.median_smooth("t", "age", epsilon=20).source  # the same release


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("[0.5], epsilon := 1, method := 'best'", "P107: method='best': must be auto, exponential, tree or smooth"),
        ("[0.5], epsilon := 1, method := 'smooth'", "with intervals := false"),
        ("[0.4, 0.5], epsilon := 1, method := 'smooth', intervals := false", "P107: method='smooth'"),
        ("[0], epsilon := 1, method := 'smooth', intervals := false", "P107: method='smooth'"),
        ("[0.5], epsilon := 1, method := 'smooth', groups := 'sex', intervals := false", "P107: method='smooth'"),
        ("[2], epsilon := 1, method := 'tree'", "P107: quantiles=2"),
        ("[0.5], epsilon := 1, method := 'tree', groups := 'name'", "has no declared domain"),
    ],
)
def test_refusals_of_methods_are_coded_and_free(curator: duckdp.Curator, call: str, words: str) -> None:
    with pytest.raises(duckdb.Error) as error:
        curator.connect("ana").execute(f"FROM dp_quantiles('t', 'age', {call})").fetchall()
    assert words in str(error.value)
    assert curator.session("ana").remaining_text().startswith("epsilon=400")


# ---- what the reads of one release share


def test_reads_that_share_copies_give_what_each_gives_alone() -> None:
    """Bit for bit: of units and rows, with groups or none, where values are missing; and of two releases in turn."""
    rng = random.Random(11)
    for table, keys in ((ROWS, None), (KEYED, "town, smoker"), (ROWS, "smoker")):
        task, other = planned(table, "cost", (0.25, 0.5), keys), planned(table, "age", (0.5,), keys)
        end = (task.rows.steps + 1) * PLACES
        with duckdb.connect() as con:
            load(con, clinic(), [(rng.randrange(9), *_random_row(rng)) for _ in range(300)])
            shared = SharedReads(con.cursor)
            for _ in range(3):
                cut = rng.randrange(end)
                wanted = [
                    WantedPart(group=g, low=low, high=high, aim=wide(cells=task.rows.steps + 1))
                    for g in range(len(task.rows.groups))
                    for low, high in ((0, cut), (cut, end))
                ]
                ends = [sorted({rng.randrange(task.rows.steps) for _ in range(3)}) for _ in task.rows.groups]
                for rows in (task.rows, other.rows):
                    own = [sorted({end % rows.steps for end in each}) for each in ends]
                    for query in (rows.windows(wanted if rows is task.rows else [], 7), rows.counts(own, 7)):
                        alone = con.execute(query.sql, list(query.parameters)).fetchall()
                        assert sorted(shared.cursor.execute(*shared.prepare(query)).fetchall()) == sorted(alone)
            shared.close()


def test_nothing_is_left_of_what_a_release_copied(curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies are made once for the reads of a release; its connection is closed, whether it ended well or not."""
    made: list[SharedReads] = []
    begin = SharedReads.__init__

    def noted(self: SharedReads, connect: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        begin(self, connect)
        made.append(self)

    monkeypatch.setattr(SharedReads, "__init__", noted)
    ana = curator.session("ana")
    ana.quantiles("t", "age", [0.5], epsilon=7, method="exponential")
    with monkeypatch.context() as patch, pytest.raises(duckdp.errors.DuckDPError):
        patch.setattr("duckdp.compiler.quantile_levels.laplace_noise", lambda *_: 1 / 0)
        ana.quantiles("t", "age", [0.5], epsilon=8, method="exponential")
    assert len(made) == 2
    for reads in made:
        assert [kept.name for kept in reads._made] == ["cells", "blocks"]
        with pytest.raises(duckdb.Error):
            reads.cursor.execute("FROM cells")
    assert not curator.engine._shared

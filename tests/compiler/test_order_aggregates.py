"""Quantiles, least, greatest and commonest values, pairs of numbers and different values: DuckDB's, on exact cells.

Intervals of order statistics hold what they say: with the noise of a release, and not with less room (broken twins).
"""

from __future__ import annotations

import datetime as dt
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import duckdb
import numpy as np
import pytest

from duckdp.catalog.table import Kind, Table
from duckdp.compiler import binned, distinct_values, emit, intervals, listed_values
from duckdp.compiler.binned import BINS, Bins, bins_of
from duckdp.compiler.enclosed_ends import enclosed_ends
from duckdp.compiler.evaluate import evaluate
from duckdp.compiler.expression import Aggregate, Call, Case, ColumnRef, Literal
from duckdp.compiler.notes import plan_notes
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.pricing import Terms, price
from duckdp.compiler.select import read_select
from duckdp.core.errorbars import Noise
from duckdp.core.types import Neighbours
from tests.compiler.test_sensitivity import search
from tests.gate import Row, clinic, column, exact_answer, load, plan_for

WIDTH = 5000 / BINS  # of a bin of cost


@pytest.fixture
def table(con: duckdb.DuckDBPyConnection) -> Table:
    """Visits of 40 persons, each with as many as count, within bounds and domains, with NULLs."""
    rng, rows = random.Random(1), []
    for i in range(400):
        day = dt.date(1990, 1, 1) + dt.timedelta(days=rng.randrange(1000))
        text = (rng.choice(["F", "M"]), rng.choice(["Bern", "Bern", "Genf"]), rng.choice(["a", "b", "c", None]))
        numbers = (rng.choice([None, *range(20, 80)]), rng.uniform(0, 4000), rng.uniform(-3, 3))
        rows.append(
            (i % 40, *numbers, *text, day, None, rng.random() < 0.5, 1, rng.choice([1, 2]), rng.uniform(-9, 19))
        )
    return load(con, clinic(max_rows=10, max_groups=10), rows)


def _values(text: str, table: Table, con: duckdb.DuckDBPyConnection) -> list[object]:
    return [column.values[0] for column in exact_answer(plan_for(text, table, epsilon=100), con)]


def test_places_are_those_of_duckdb_to_a_bin(table: Table, con: duckdb.DuckDBPyConnection) -> None:
    for name in ("min(cost)", "max(cost)", "median(cost)", "quantile_cont(cost, 0.9)", "quantile_disc(cost, 0.2)"):
        (found,) = _values(f"SELECT {name} FROM clinic", table, con)
        [(wanted,)] = con.execute(f"SELECT {name} FROM clinic").fetchall()
        assert abs(found - wanted) <= WIDTH, name  # type: ignore[operator]


def test_what_has_a_bin_of_its_own_is_exact(table: Table, con: duckdb.DuckDBPyConnection) -> None:
    text = "SELECT mode(town), min(sex), mode(level), mode(smoker), quantile_disc(age, 0.5) FROM clinic"
    [wanted] = con.execute(text).fetchall()
    assert _values(text, table, con) == list(wanted)
    low, high = _values("SELECT min(age), max(age) FROM clinic", table, con)
    [(least, most)] = con.execute("SELECT min(age), max(age) FROM clinic").fetchall()
    assert least <= low <= least + 1  # type: ignore[operator] # without what is no more than noise
    assert most - 1 <= high <= most  # type: ignore[operator]


def test_dates_are_dates(table: Table, con: duckdb.DuckDBPyConnection) -> None:
    found = _values("SELECT min(born), max(born), median(born) FROM clinic", table, con)
    [wanted] = con.execute("SELECT min(born), max(born), quantile_disc(born, 0.5) FROM clinic").fetchall()
    assert all(abs((one - two).days) <= 9 for one, two in zip(found, wanted, strict=True))  # type: ignore[operator]


ENDS = (
    (dt.date(1, 1, 1), dt.date(1, 2, 3)),
    (dt.date(9999, 11, 20), dt.date(9999, 12, 31)),
    (dt.date(2024, 1, 1), dt.date(2024, 2, 10)),
)


def test_how_finely_dates_are_told_is_said() -> None:
    """By the parts of their bounds; numbers have intervals, and what a domain lists is one of its values."""
    noted = [
        n
        for n in plan_notes(plan_for("SELECT max(born), median(cost), min(town) FROM clinic", clinic()))
        if "hours" in n or "days" in n
    ]
    (born,) = (c for c in clinic().columns if c.name == "born")
    part = (born.upper - born.lower).days / BINS  # type: ignore[operator]
    assert len(noted) == 1
    told = re.match(r"max\(born\): no interval; at best to ([0-9.]+) days", noted[0])
    assert told is not None
    assert part <= float(told[1]) <= part + 1  # parts are of whole days


@pytest.mark.parametrize(("first", "last"), ENDS)
def test_dates_lie_between_their_bounds_whatever_the_noise(first: dt.date, last: dt.date) -> None:
    """Bins may reach beyond the bounds, and beyond the calendar: that was an error once charged."""
    moments = (dt.datetime.combine(first, dt.time()), dt.datetime.combine(last, dt.time(23, 59, 59, 999_999)))
    known = clinic(
        columns=(
            column("day", "DATE", lower=first, upper=last),
            column("seen", "TIMESTAMP", lower=moments[0], upper=moments[1]),
        )
    )
    rng = random.Random(str(first))
    for name, ends in (("day", (first, last)), ("seen", moments)):
        for call in (f"min({name})", f"max({name})", f"median({name})", f"quantile_disc({name}, 0.9)"):
            plan = plan_for(f"SELECT {call} FROM clinic", known)
            (measure,) = plan.measures
            wide = 1 if name == "day" else 86_400
            assert measure.upper - measure.lower <= wide * ((last - first).days + 2)
            for _ in range(20):
                cells = [rng.randint(-9, 9) * measure.steps * 1000 for _ in range(plan.cells)]
                ((value,),) = (c.values for c in evaluate(plan, json.dumps({"keys": None, "cells": [cells]})))
                assert value is None or ends[0] <= value <= ends[1]  # type: ignore[operator]


PAIRS = ("corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_count", "regr_avgx")
PAIRS += ("regr_avgy", "regr_sxx", "regr_syy", "regr_sxy")


def test_pairs_are_duckdbs(table: Table, con: duckdb.DuckDBPyConnection) -> None:
    for pair, where in (("age, cost", ""), ("cost, age", " FILTER (WHERE smoker)"), ("income, cost", "")):
        text = f"SELECT {', '.join(f'{name}({pair}){where}' for name in PAIRS)} FROM clinic"
        [wanted] = con.execute(text).fetchall()
        for name, one, two in zip(PAIRS, _values(text, table, con), wanted, strict=True):
            assert one == pytest.approx(two, rel=1e-3), (name, pair)


def test_different_values_are_duckdbs(table: Table, con: duckdb.DuckDBPyConnection) -> None:
    text = "SELECT count(DISTINCT name), count(DISTINCT age), count(DISTINCT cost) FILTER (WHERE smoker), count(*)"
    [wanted] = con.execute(f"{text} FROM clinic").fetchall()
    assert _values(f"{text} FROM clinic", table, con) == list(wanted)
    grouped = f"{text.replace('SELECT', 'SELECT sex,')} FROM clinic GROUP BY sex ORDER BY sex"
    found = exact_answer(plan_for(grouped, table, epsilon=100), con)
    assert list(zip(*(c.values for c in found), strict=True)) == con.execute(grouped).fetchall()


LISTED = ("sex", "level", "smoker", "date_trunc('year', born)", "age // 10", "sex || coalesce(town, 'none')")


def test_few_different_values_are_duckdbs(table: Table, con: duckdb.DuckDBPyConnection) -> None:
    """Read either way: as their number, and as which of them rows have."""
    for value in LISTED:
        text = f"SELECT count(DISTINCT {value}), count(DISTINCT {value}) FILTER (WHERE NOT smoker) FROM clinic"
        for expected, kind in ((None, "values"), (10**7, "bins")):
            plan = plan_for(text, replace(table, expected_rows=expected), epsilon=100)
            assert {m.kind for m in plan.measures} == {kind}, (value, expected)
            found = [column.values[0] for column in exact_answer(plan, con)]
            assert found == list(con.execute(text).fetchall()[0]), (value, kind)


def test_values_outside_a_declared_domain_do_not_count(con: duckdb.DuckDBPyConnection) -> None:
    table = load(con, clinic(max_rows=10), _rows([["a"], ["b"]], sex=("F", "unknown")))
    found = exact_answer(plan_for("SELECT count(DISTINCT sex) FROM clinic", table, epsilon=100), con)[0]
    assert found.values == [1]


def test_the_way_with_less_error_is_taken() -> None:
    def kind(text: str, **given: object) -> str:
        epsilon = given.pop("epsilon", 1)
        (measure,) = plan_for(
            f"SELECT {text} FROM clinic", replace(clinic(max_rows=8), **given), epsilon=epsilon
        ).measures  # type: ignore[arg-type]
        return measure.kind

    assert kind("count(DISTINCT sex)") == "bins"  # +- 6 of 2
    assert kind("count(DISTINCT sex)", epsilon=100) == "values"
    assert kind("count(DISTINCT age)", expected_rows=10**6) == "bins"
    assert kind("count(DISTINCT age)", expected_rows=300) == "values"
    assert kind("count(DISTINCT cost)") == "values"


def test_an_error_asked_for_is_paid_for() -> None:
    query = read_select(parse_statement(text := "SELECT count(DISTINCT sex) FROM clinic"), {"clinic": clinic()}, text)
    for expected in (None, 10_000):
        given = replace(query, table=replace(query.table, expected_rows=expected))
        found = price(given, Terms(error=0.5), Neighbours.ADD_REMOVE)
        width = found.errors["count(DISTINCT sex)"]
        assert width is not None
        assert width <= 0.5


def _told(level_of: Callable[[float, int], float], empty: int = 30, rounds: int = 4000) -> float:
    """How often the interval of the number of values holds, with so many that nobody has."""
    rng = np.random.default_rng(6)
    drawn = rng.geometric(1 - np.exp(-1 / 8), (2, empty + 3, rounds))
    exact = np.array([500, 60, 1, *[0] * empty])
    of = Bins(exact[:, None] + drawn[0] - drawn[1], 0.0, 1.0, True, 0.0, Noise("laplace", 8.0), 1.0)
    low, high = binned.present_ends(of, level_of(0.95, empty + 3))
    assert (high == empty + 3).all()
    return float(np.mean(low <= 3))


def test_intervals_of_different_values_hold() -> None:
    assert _told(lambda level, _: level) > 0.97  # those had by few are seldom counted: more than 0.95


def test_intervals_that_forget_how_many_nobody_has_do_not() -> None:
    """As if each value had all of the 5%."""
    assert _told(lambda level, count: 1 - (1 - level) * count / 2) < 0.93


def test_few_different_values_are_within_their_sensitivity(con: duckdb.DuckDBPyConnection) -> None:
    for epsilon in (1, 100):
        for text in ("count(DISTINCT sex)", "count(DISTINCT level) FILTER (WHERE smoker)"):
            plan = plan_for(f"SELECT {text} FROM clinic", clinic(max_rows=5), epsilon=epsilon)
            assert search(con, plan, random.Random(7), 40) <= 1
            grouped = plan_for(
                f"SELECT visits, {text} FROM clinic GROUP BY visits", clinic(max_rows=5), epsilon=epsilon
            )
            assert search(con, grouped, random.Random(8), 40) <= 1


def test_a_claim_for_fewer_values_than_there_are_is_caught(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELECT count(DISTINCT sex) FROM clinic"
    plan = plan_for(text, clinic(max_rows=5), epsilon=100)
    assert plan.measures[0].sensitivity.l1 == 2
    monkeypatch.setattr(listed_values, "_values", lambda found: tuple(v for v in found.values if v is not None)[:1])
    one = plan_for(text, clinic(max_rows=5), epsilon=100)
    assert search(con, replace(plan, measures=one.measures), random.Random(9), 60, runs=plan) > 1


def test_parts_of_the_rows_do_not_tell_how_many_values_there_are() -> None:
    assert not emit.emit(plan_for("SELECT count(DISTINCT name) FROM clinic", clinic()), 1).parts.known
    assert emit.emit(plan_for("SELECT median(age) FROM clinic", clinic()), 1).parts.known


def test_a_list_of_quantiles_is_a_column_each() -> None:
    plan = plan_for("SELECT quantile_cont(cost, [0.1, 0.9]) AS q, median(cost) FROM clinic", clinic())
    assert [o.name for o in plan.query.outputs] == ["q_0.1", "q_0.9", "median(cost)"]
    assert len(plan.measures) == 1  # one release for all


# ---- intervals ------------------------------------------------------------------------------------------------------


def _covered(share: float, room: float, rounds: int = 3000) -> float:
    """How often the interval of a quantile has the true one, over draws of noise; the room is made so much wider."""
    rng = np.random.default_rng(5)
    rows = np.sort(rng.beta(2, 5, 900) * 10)
    exact = np.histogram(rows, bins=BINS, range=(0, 10))[0]
    noise = Noise("laplace", 8.0)
    drawn = rng.geometric(1 - np.exp(-1 / 8), (2, BINS, rounds))
    of = Bins(exact[:, None] + drawn[0] - drawn[1], 0.0, 10 / BINS, False, share, noise, 1.0)
    if room != 1:
        of = _Narrow(*(getattr(of, name) for name in of.__dataclass_fields__))
    low, high = binned.ends(of, binned.LEVEL)
    true = rows[min(int(share * len(rows)), len(rows) - 1)]
    return float(np.mean((low <= true) & (true <= high)))


class _Narrow(Bins):
    def room(self, share: float, level: float) -> np.ndarray:
        return super().room(share, level) * 0.2 - 1


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_intervals_of_places_hold(share: float) -> None:
    assert _covered(share, 1) > 0.93  # 0.95 at least; five deviations of 3000 draws are 0.02


def test_intervals_with_less_room_do_not() -> None:
    assert _covered(0.5, 0.5) < 0.9


MADE = (
    "round(median(cost), 0)",
    "median(cost) / avg(cost)",
    "quantile_cont(cost, 0.75) - quantile_cont(cost, 0.25)",
    "max(cost) - min(cost)",
    "coalesce(median(cost), 0)",
    "sqrt(median(cost)) * 2 + 1",
    "-median(cost)",
    "greatest(median(cost), 1000)",
    "CASE WHEN median(cost) > 3000 THEN 0 ELSE median(cost) / 100 END",
)


def _holding(table: Table, con: duckdb.DuckDBPyConnection) -> list[bool]:
    """Of each expression whether its interval, without noise, has DuckDB's own value."""
    text = f"SELECT {', '.join(f'{e} AS e{i}' for i, e in enumerate(MADE))} FROM clinic"
    [wanted] = con.execute(text).fetchall()
    columns = exact_answer(plan_for(text, table, epsilon=100), con)
    ends = [(c.low, c.high) for c in columns]
    return [
        low is not None and high is not None and bool(low[0] <= value <= high[0])
        for (low, high), value in zip(ends, wanted, strict=True)
    ]


def test_what_is_made_of_places_has_room_for_their_bins(table: Table, con: duckdb.DuckDBPyConnection) -> None:
    assert all(_holding(table, con))


def test_by_the_noise_alone_they_would_not(
    table: Table, con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intervals, "reads_bins", lambda _: False)
    assert not all(_holding(table, con))


def test_intervals_of_several_places_hold_at_once() -> None:
    """Each of two has half of what may go wrong, and is the wider for it."""
    one = exact_width("SELECT median(cost) AS e FROM clinic")
    two = exact_width("SELECT median(cost) - 0 * avg(cost) AS e FROM clinic")
    assert two > one


def exact_width(text: str) -> float:
    """Width of an interval of a release without rows, whose noise has width 3 rows."""
    plan = plan_for(text, clinic(), epsilon=0.01)
    payload = json.dumps({"keys": None, "cells": [[2**20 * 400] * plan.cells]})
    (column,) = evaluate(plan, payload)
    assert column.half_width is not None
    return float(column.half_width[0])


def test_a_branch_that_cannot_be_taken_is_not_counted() -> None:
    figure = Aggregate(
        "binned_quantile", ColumnRef(next(c for c in clinic().columns if c.name == "cost")), None, option="0.5"
    )
    above = Call("gt_number", (figure, Literal(10, Kind.NUMBER)), Kind.BOOLEAN)
    case = Case(((above, Literal(7, Kind.NUMBER)),), Literal(1, Kind.NUMBER), Kind.NUMBER)
    ends = {figure: (np.array([11.0, 10.0, 0.0, np.nan]), np.array([12.0, 11.0, 10.0, 1.0]))}
    low, high = enclosed_ends(case, ends, 4)
    assert low.tolist() == [7, 1, 1, 1]
    assert high.tolist() == [7, 7, 1, 7]  # what is undefined may be anything
    assert np.isnan(enclosed_ends(figure, ends, 4)).T.tolist() == [[False] * 2] * 3 + [[True] * 2]


def test_bins_hold_their_range() -> None:
    rng = random.Random(2)
    for _ in range(300):
        low = rng.choice([0, -7, rng.uniform(-1e6, 1e6)])
        high = low + rng.choice([0, 1, 127, 128, 10_000, rng.uniform(0, 1e5)])
        for whole in (False, True):
            if whole and np.floor(high) < np.ceil(low):
                continue
            count, first, last = bins_of(low, high, whole=whole)
            assert first <= (np.ceil(low) if whole else low)
            assert last > np.floor(high) if whole else last >= high
            assert 1 <= count <= binned.MOST_BINS


# ---- broken twins of what is printed --------------------------------------------------------------------------------


def _reprinted(function: str, cut: str, instead: str) -> Callable[[pytest.MonkeyPatch], None]:
    module = distinct_values if hasattr(distinct_values, function) else emit
    old = getattr(module, function)

    def changed(*given: object, **named: object) -> object:
        found = old(*given, **named)
        assert cut in str(found)
        return [f.replace(cut, instead) for f in found] if isinstance(found, list) else found.replace(cut, instead)

    return lambda patch: patch.setattr(module, function, changed)


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("SELECT count(DISTINCT cost) FROM clinic", _reprinted("_values", "WHERE nth <= 3", "")),
        (
            "SELECT visits, count(DISTINCT cost) FROM clinic GROUP BY visits",
            _reprinted("_values", "WHERE place <= 2", ""),
        ),
        ("SELECT median(age) FROM clinic", _reprinted("_unit_cells", "* 3 // system.main.greatest(n0, 3)", "")),
    ],
)
def test_contributions_that_are_not_bounded_are_caught(
    text: str,
    broken: Callable[[pytest.MonkeyPatch], None],
    con: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken(monkeypatch)
    try:
        assert search(con, plan_for(text, clinic()), random.Random(3), 60) > 1
    except AssertionError as caught:
        assert "too many new keys" in str(caught)


def test_a_claim_for_one_value_is_caught(con: duckdb.DuckDBPyConnection) -> None:
    plan = plan_for("SELECT count(DISTINCT cost) FROM clinic", clinic())
    one = plan_for("SELECT count(DISTINCT cost) FROM clinic", clinic(max_rows=1))
    assert search(con, replace(plan, measures=one.measures), random.Random(4), 60, runs=plan) > 1


def _rows(values: list[list[object]], sex: Sequence[object] = ()) -> list[Row]:
    """A person for each list, with a row for each of its names."""
    empty = (None,) * 12
    given = [*sex, *[None] * (len(values) - len(sex))]
    return [(i, *empty[:3], given[i], empty[4], name, *empty[6:]) for i, names in enumerate(values) for name in names]


def test_units_choose_different_values(con: duckdb.DuckDBPyConnection) -> None:
    """By a hash without the unit all persons with the same names would choose the same ones."""
    table = load(con, clinic(max_rows=1), _rows([list("abcdefgh")] * 60))
    (found,) = exact_answer(plan_for("SELECT count(DISTINCT name) FROM clinic", table), con)
    assert found.values[0] > 5

"""min_units: a group with fewer units than asked for is shown as seldom as is said, whatever the noise and the keys."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler import least_units
from duckdp.compiler.evaluate import evaluate
from duckdp.compiler.least_units import ALPHA, least_shown, slack, sure_units, told_units
from duckdp.compiler.outer.several import plan_parts
from duckdp.compiler.outer.whole import read_whole
from duckdp.compiler.parse import parse_statement
from duckdp.compiler.plan import Plan
from duckdp.compiler.pricing import Terms, price
from duckdp.compiler.release import SelectTask
from duckdp.compiler.select import read_select
from duckdp.core.errorbars import Noise
from duckdp.core.types import Neighbours
from duckdp.errors import ParameterError
from tests.gate import clinic, column, crossing
from tests.privacy.statistics import FALSE_ALARM, clopper_pearson

GROUPS = 10_000
WIDE = (column("area", "INTEGER", domain=tuple(range(GROUPS))), column("income", "DOUBLE", lower=-10.0, upper=20.0))


def planned(text: str, k: int | None = 10, neighbours: Neighbours = Neighbours.ADD_REMOVE, **terms: Any) -> Plan:
    """A plan with min_units, over persons or over rows."""
    keyed = terms.pop("keyed", True)
    table = clinic(columns=terms.pop("columns", clinic().columns), **({} if keyed else {"unit_key": None}))
    query = read_select(parse_statement(text), {"clinic": table}, text)
    given = {"epsilon": "0.7", "delta": "1e-6", **terms}
    return price(query, Terms(min_units=k, **given), neighbours).plan


def law(noise: Noise, cells: int) -> tuple[np.ndarray, int]:
    """Masses of the sum of so many draws, and the place of 0."""
    reach = math.ceil(40 * noise.scale) + 40
    at = np.arange(-reach, reach + 1)
    one = np.exp(-np.abs(at) / noise.scale) if noise.family == "laplace" else np.exp(-((at / noise.scale) ** 2) / 2)
    one, found = one / one.sum(), np.ones(1)
    for _ in range(cells):
        found = np.convolve(found, one)
    return found, reach * cells


def chance(plan: Plan, units: int, least: int) -> float:
    """The chance that a group of so many units that count is shown from ``least`` on, by summing the law."""
    asked = plan.query.group_size
    at = next(i for i, m in enumerate(plan.measures) if asked is not None and m.serves(asked))
    noise = plan.noises[at]
    assert noise is not None
    mass, zero = law(noise, plan.measures[at].cells)
    return float(mass[zero + least - units :].sum())


PLANS = {
    "persons": ("SELECT sex, avg(age) FROM clinic GROUP BY sex", {}),
    "persons, counted anyway": ("SELECT sex, count(DISTINCT pid), avg(age) FROM clinic GROUP BY sex", {}),
    "persons, gaussian": ("SELECT sex, avg(age) FROM clinic GROUP BY sex", {"mechanism": "gaussian"}),
    "unknown keys": ("SELECT name, avg(age) FROM clinic GROUP BY name", {}),
    "rows": ("SELECT sex, count(*) FROM clinic GROUP BY sex", {"keyed": False}),
    "rows replaced": (
        "SELECT town, count(*) FROM clinic GROUP BY town",
        {"keyed": False, "neighbours": Neighbours.REPLACE},
    ),
    "no keys": ("SELECT avg(age) FROM clinic WHERE smoker", {"epsilon": "0.1"}),
}


@pytest.mark.parametrize("name", PLANS)
def test_both_errors_by_summing_the_law(name: str) -> None:
    """And one less would not do: the rule is no stricter than it says."""
    text, terms = PLANS[name]
    for k in (1, 10, 500):
        plan = planned(text, k, **terms)
        least, w = least_shown(plan), slack(plan)
        assert chance(plan, k - 1, least) <= ALPHA
        assert 1 - chance(plan, k + 2 * w, least) <= ALPHA
        assert chance(plan, k - 1, least - 1) > ALPHA  # the twin


def test_a_threshold_on_keys_that_is_higher_decides() -> None:
    """What is said of large groups holds beside it: of k + 2 w units nearly all are left out."""
    plan = planned("SELECT name, count(DISTINCT pid) FROM clinic GROUP BY name", 3, epsilon="0.1", delta="1e-9")
    k, w, least = 3, slack(plan), max(least_shown(plan), plan.tau or 0)
    assert least == plan.tau > k + 2 * w
    assert 1 - chance(plan, sure_units(plan), least) <= ALPHA
    assert 1 - chance(plan, k + 2 * w, least) > 0.99
    told = told_units(plan) or ""
    assert f"fewer than {least:,} noisy units" in told
    assert f"{sure_units(plan):,} or more that count" in told


def test_cells_of_a_fine_grid() -> None:
    """Where rows are counted by the cells of an average the number is that of all cells, rounded."""
    plan = planned("SELECT avg(income) FROM clinic GROUP BY sex", keyed=False)
    [measure], [noise] = plan.measures, plan.noises
    assert noise is not None and measure.cells == 2
    b, t = noise.scale / measure.steps, slack(plan) + 0.5  # of two continuous Laplace variables, in rows
    assert (2 + t / b) / 4 * math.exp(-t / b) <= ALPHA  # P(Z1 + Z2 > t)
    assert (2 + (t - 1) / b) / 4 * math.exp(-(t - 1) / b) > ALPHA


def shown(plan: Plan, units: int) -> int:
    """How many of GROUPS groups of so many units are shown by one release."""
    rows = [(i, *[units] * plan.cells) for i in range(GROUPS)]
    if plan.tau is None:
        return len(evaluate(plan, SelectTask(plan=plan).release(crossing(plan, rows)))[0].values)
    named = [(f"k{i}", *cells) for i, *cells in rows]
    return len(evaluate(plan, SelectTask(plan=plan).release(named))[0].values)


@pytest.mark.parametrize("keys", ["area", "name"])
def test_groups_of_one_unit_too_few(keys: str) -> None:
    """Drawn, as shipped; the twin forgets the margin for the noise."""
    columns = WIDE if keys == "area" else clinic().columns
    plan = planned(f"SELECT {keys}, count(DISTINCT pid) FROM clinic GROUP BY {keys}", 40, columns=columns)
    lower, _ = clopper_pearson(shown(plan, 39), GROUPS, FALSE_ALARM)
    assert lower <= ALPHA
    low, _ = clopper_pearson(GROUPS - shown(plan, 40 + 2 * slack(plan)), GROUPS, FALSE_ALARM)
    assert low <= ALPHA
    twin = replace(plan, query=replace(plan.query, min_units=40 - slack(plan)))
    assert clopper_pearson(shown(twin, 39), GROUPS, FALSE_ALARM)[0] > ALPHA


def test_it_is_no_further_question_where_units_are_counted_anyway() -> None:
    """A count that is there is the one that decides, so that it can be asked for afterwards, free."""
    text = "SELECT town, count(DISTINCT pid) AS n FROM clinic GROUP BY town"
    plain, asked = planned(text, None), planned(text, 25)
    assert plain.canonical() == asked.canonical()
    other = "SELECT town, avg(age) FROM clinic GROUP BY town"
    one, two = planned(other, 25), planned(other, 50)
    assert planned(other, None).canonical() != one.canonical() == two.canonical()
    assert [m.kind for m in one.measures].count("units") == 1
    assert str(one.loss) == str(planned(other, None).loss)  # of the same charge
    payload = json.dumps({"keys": None, "cells": [[n] for n in (10, 90, 24 + slack(asked), 25 + slack(asked))]})
    assert [len(evaluate(p, payload)[0].values) for p in (plain, asked)] == [4, 2]


@pytest.mark.parametrize("read", [1, 2])
def test_a_part_that_is_read_for_min_units_alone_is_paid_of_what_was_typed(read: int) -> None:
    """Known without data, but for how many units its groups have: it has a share too."""
    known = "(SELECT count(*) FILTER (WHERE false) AS n FROM clinic GROUP BY sex) AS a"
    others = ["(SELECT avg(age) AS x FROM clinic) AS b", "(SELECT count(*) AS m FROM clinic GROUP BY town) AS c"]
    text = f"SELECT * FROM {', '.join([known, *others[:read]])}"
    found = read_whole(parse_statement(text), {"clinic": clinic()}, text)
    for k, paid in ((None, read), (5, read + 1)):
        prices = plan_parts(found.parts, Terms(min_units=k, epsilon="0.1"), Neighbours.ADD_REMOVE)  # type: ignore[union-attr]
        losses = [price.plan.loss.epsilon_nano for price in prices]
        assert sum(losses) == 10**8 and sum(loss > 0 for loss in losses) == paid


def test_what_is_public_is_shown_from_the_number_on() -> None:
    text = "SELECT count(*), avg(income) FROM clinic"
    plan = planned(text, 10, Neighbours.REPLACE, keyed=False, columns=(WIDE[1],))
    assert least_shown(plan) == 10


def test_no_row_without_units_and_none_below_having_or_limit() -> None:
    """Of a condition that never holds no group is shown; LIMIT takes from what is shown."""
    assert (
        evaluate(nothing := planned("SELECT sex, count(*) FROM clinic WHERE false GROUP BY sex"), _empty(nothing))[
            0
        ].values
        == []
    )
    plan = planned("SELECT town, count(DISTINCT pid) FROM clinic GROUP BY town ORDER BY 2 LIMIT 1", 10)
    high = least_shown(plan)
    payload = json.dumps({"keys": None, "cells": [[3], [high + 5], [high], [high - 1]]})
    assert evaluate(plan, payload)[1].values == [high]


def _empty(plan: Plan) -> str:
    size = math.prod(len(k.domain or ()) for k in plan.query.keys)
    return json.dumps({"keys": None, "cells": [[] for _ in product(range(size))]})


def test_a_margin_that_is_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_units, "rounded_half_width", lambda *_: 0)
    with pytest.raises(AssertionError):
        test_both_errors_by_summing_the_law("persons")


# ---- faces --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    ward = ["a"] * 900 + ["b"] * 96 + ["c"] * 4
    rows = pa.table({"patient": list(range(1000)), "age": [i % 90 for i in range(1000)], "ward": ward})
    folder = tmp_path_factory.mktemp("least")
    with duckdp.open({"stays": rows}, ledger=str(folder / "least.ledger")) as owner:
        declared = {"bounds": {"age": (0, 90)}, "domains": {"ward": ["a", "b", "c"]}}
        owner.protect("stays", unit_key="patient", max_rows=1, row_cap=5000, **declared)
        owner.budget(epsilon=1000)
        owner.grant("ana", epsilon=900)
        yield owner


WARDS = "SELECT ward, avg(age) AS m FROM stays GROUP BY ward"


def test_every_face_has_it(curator: duckdp.Curator) -> None:
    ana, con = curator.session("ana"), curator.connect("ana")
    found = ana.sql(WARDS, epsilon=5, min_units=30)
    assert [row[0] for row in found.rows()] == ["a", "b"]
    assert any("min_units=30" in note for note in found.notes)
    call = f"dp_query($${WARDS}$$, epsilon := 5, min_units := 30)"
    assert [row[0] for row in con.execute(f"FROM {call}").fetchall()] == ["a", "b"]
    assert len(curator.ledger.charges()) == 1
    told = "\n".join(
        row[0] for row in con.execute(f"FROM dp_explain($${WARDS}$$, epsilon := 5, min_units := 30)").fetchall()
    )
    assert told == str(ana.explain(WARDS, epsilon=5, min_units=30)).replace("\r", "")
    assert "then, free: groups of fewer than 31 noisy units are not shown (min_units=30)" in told, told


def test_each_release_of_a_query_over_answers_keeps_it(curator: duckdp.Curator) -> None:
    ana = curator.session("ana")
    text = f"WITH w AS ({WARDS}) SELECT count(*) AS shown FROM w"
    assert ana.sql(text, epsilon=5, min_units=30).rows() == [(2,)]
    assert ana.sql(text, epsilon=20).rows() == [(3,)]
    both = "SELECT ward, count(*) AS n FROM stays GROUP BY ward UNION ALL SELECT 'all', count(*) FROM stays"
    assert {row[0] for row in ana.sql(both, epsilon=40, min_units=30).rows()} == {"a", "b", "all"}


def test_what_it_may_not_be(curator: duckdp.Curator) -> None:
    ana, con = curator.session("ana"), curator.connect("ana")
    for wrong in (0, -1, 2.5, "x"):
        with pytest.raises(ParameterError, match="P107: min_units="):
            ana.sql(WARDS, epsilon=1, min_units=wrong)  # type: ignore[arg-type]
        with pytest.raises(duckdb.Error, match="P107: min_units="):
            con.execute(f"FROM dp_query($${WARDS}$$, epsilon := 1, min_units := '{wrong}')")
    with pytest.raises(ParameterError, match="goes without tolerance"):
        ana.sql("SELECT avg(age) FROM stays", tolerance=1, min_units=10)

"""Summaries of categories and of all rows from one release: sums, laws, coverage, and better than separate ones."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from duckdp.core.kernelbars import Terms, summed_half_widths
from duckdp.core.types import NANO, Neighbours
from duckdp.errors import CatalogError, ParameterError
from duckdp.smooth.answer import answer, answers
from duckdp.smooth.buy.mixed_task import MixedTask, plan_mixed
from duckdp.smooth.buy.per_group import plan_grouped
from duckdp.smooth.buy.summary_task import plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.payloads import exported, open_stored
from duckdp.smooth.pooled import MixedSummary
from tests.smooth.tables import column, connect, holds, run, table

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
COUNT = 6000


def people(categories: int, **more):
    names = tuple("abcdefghij"[:categories])
    own = column("s", None, None, "VARCHAR", domain=names, nullable=False)
    more = {"row_cap": 20_000, "expected_rows": COUNT, **more}
    return table(own, column("x", 0, 100, nullable=False), column("y", 0, 10, nullable=False), **more)


def plan(categories=3, columns=("x",), *, tab=None, epsilon=1.0, neighbours=ADD_REMOVE, **wishes) -> MixedTask:
    return plan_mixed(
        tab or people(categories),
        columns,
        "s",
        epsilon_nano=round(epsilon * NANO),
        neighbours=neighbours,
        delta_atto=0,
        wishes=Wishes(**{"degree": 8, **wishes}),
    )


@pytest.fixture
def con():
    connection = connect()
    yield connection
    connection.close()


def fill(con, categories: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    s = rng.choice(list("abcdefghij"[:categories]), COUNT)
    x = np.clip(rng.gamma(2, 15, COUNT) + 5 * (s == "a"), 0, 100)
    rows = pa.table({"s": s, "x": x, "y": rng.uniform(0, 10, COUNT), "pid": rng.integers(0, COUNT // 2, COUNT)})
    con.register("rows", rows)
    con.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM rows")
    return s, x


def exact(con, task: MixedTask):
    """Exact sums of both releases, and a way to noise them."""
    joint = task.joint.exact(run(con, task.joint.query(1)))
    whole = None if task.whole is None else task.whole.exact(run(con, task.whole.query(1)))

    def draw() -> MixedSummary:
        other = None if task.whole is None or whole is None else task.whole.noised(whole)
        return MixedSummary.load(task._both(task.joint.noised(joint), other))

    return draw


@pytest.mark.parametrize("categories", [2, 8])
def test_intervals_cover_categories_and_all_rows(con, categories):
    s, x = fill(con, categories)
    task = plan(categories, degree=16)
    assert (task.whole is None) is (categories == 2)
    draw, hits, tries, twins = exact(con, task), 0, 0, 0
    truth = {None: np.exp(-x / 20).mean(), "a": np.exp(-x[s == "a"] / 20).mean()}
    for _ in range(60):
        mixed = draw()
        for category, value in truth.items():
            view = mixed.of(category)
            found = answer(view, "exp(-x / 20)")
            hits, tries = hits + (found.low <= value <= found.high), tries + 1
            law = dataclasses.replace(view.law, matrices=tuple(m / 2 for m in view.law.matrices))
            narrow = answer(dataclasses.replace(view, law=law), "exp(-x / 20)")
            twins += narrow.low <= value <= narrow.high
    assert stats.binom.cdf(hits, tries, 0.95) > 1e-9
    assert stats.binom.cdf(twins, tries, 0.95) < 1e-6  # the broken twin: a law of half the scale
    for category, value in truth.items():
        assert holds(answer(mixed.of(category), "exp(-x / 20)", level=0.9999), value)
        rows = COUNT if category is None else int((s == "a").sum())
        total = answer(mixed.of(category), "exp(-x / 20)", statistic="sum", level=0.9999)
        assert holds(total, value * rows)
    together = answers(mixed.of("a"), ["exp(-x / 20)", "x"], simultaneous=True)
    assert all(one.simultaneous and one.low < one.high for one in together)


@pytest.mark.parametrize(("categories", "degree"), [(3, 8), (8, 16)])
def test_categories_add_up_to_all_rows(con, categories, degree):
    fill(con, categories)
    mixed = exact(con, plan(categories, degree=degree))()
    whole = mixed.of(None).sums
    assert np.sum([mixed.of(v).sums for v in mixed.values], axis=0) == pytest.approx(whole, rel=1e-9, abs=1e-6)


def test_grids_of_both_releases_may_differ(con):
    """Categories on a grid twice as fine, in steps half as large, are the same figures: so are intervals."""
    fill(con, 8)
    mixed = exact(con, plan(8, degree=16))()
    joint = mixed.joint
    steps = {"moments": tuple(2 * m for m in joint.moments), "scales": tuple(2 * s for s in joint.scales)}
    finer = dataclasses.replace(mixed, joint=dataclasses.replace(joint, bits=joint.bits + 1, **steps))
    for category in (None, "a"):
        for statistic in ("mean", "sum"):
            one, other = (answer(m.of(category), "exp(-x / 20)", statistic=statistic) for m in (mixed, finer))
            assert (other.low, other.high) == pytest.approx((one.low, one.high), rel=1e-6)


@pytest.mark.parametrize("categories", [2, 5, 9])
def test_both_are_better_than_separate_summaries(con, categories):
    """At one epsilon: a summary per category and one of all rows, half of it each; on bumps, waves, cubes."""
    fill(con, categories)
    tab, texts = people(categories), ["exp(-x / 20)", "power(x / 100, 3)", "cos(x / 10)"]
    mixed, wishes = exact(con, plan(categories, degree=16))(), Wishes(degree=16)
    half = {"epsilon_nano": NANO // 2, "neighbours": ADD_REMOVE, "delta_atto": 0, "wishes": wishes}
    whole = plan_summary(tab, ["x"], **half)
    per = plan_grouped(tab, ["x"], "s", **half)
    query = per.query(1)
    payload = per.release(con.execute(query.sql, list(query.parameters)).fetchall())
    separate = {None: open_stored(whole.release(run(con, whole.query(1)))), "a": open_stored(payload, "a")}
    for category, other in separate.items():
        ours, theirs = ([one.high - one.low for one in answers(s, texts)] for s in (mixed.of(category), other))
        assert all(a < b for a, b in zip(ours, theirs, strict=True)), (category, ours, theirs)


def test_the_split_promises_both():
    for categories in (2, 3, 5, 9):
        task = plan(categories)
        assert all(ratio < 1 for ratio in task.ratios)
        assert task.joint.epsilon_nano + (task.whole.epsilon_nano if task.whole else 0) == task.loss.epsilon_nano
    said = "\n".join(task.describe())
    assert "one for all rows" in said and "times for a category" in said


def test_other_relations_and_units_of_several_rows(con):
    s, x = fill(con, 3)
    value = np.exp(-x[s == "b"] / 20).mean()
    replaced = exact(con, plan(3, neighbours=REPLACE, epsilon=4))()
    assert holds(answer(replaced.of("b"), "exp(-x / 20)", level=0.9999), value)
    assert holds(answer(replaced.of(None), "exp(-x / 20)", level=0.9999), np.exp(-x / 20).mean())
    keyed = people(3, unit_key="pid", max_rows=2)
    found = exact(con, plan(3, tab=keyed, degree=4, epsilon=4))().of("b")
    ((true,),) = con.execute(
        "SELECT sum(w * x) FROM (SELECT x, s, least(1, 2 / count(*) OVER (PARTITION BY pid)) AS w FROM t) WHERE s = 'b'"
    ).fetchall()
    assert holds(answer(found, "x", statistic="sum", level=0.9999), true)


def test_two_columns(con):
    s, x = fill(con, 3)
    mixed = exact(con, plan(3, ("x", "y"), degree=5, epsilon=5))()
    y = np.array(con.execute("SELECT y FROM t").fetchnumpy()["y"])
    assert holds(answer(mixed.of("c"), "x * y", level=0.9999), (x * y)[s == "c"].mean())


def test_what_is_stored(con):
    fill(con, 8)
    mixed = exact(con, plan(8, degree=16))()
    text = mixed.dump()
    assert MixedSummary.load(text).dump() == text
    assert open_stored(text, "a").sums == pytest.approx(mixed.of("a").sums)
    assert open_stored(text, strict=True).sums == pytest.approx(mixed.of(None).sums)  # all rows
    assert exported(text) == text
    with pytest.raises(ParameterError):
        exported(text, "a")
    with pytest.raises(ParameterError) as error:
        open_stored(text, "z")
    assert error.value.name == "category"
    raw = json.loads(text)
    for name, value in (("joint", raw["whole"]), ("whole", raw["joint"]), ("epsilon_nano", 0), ("format", 9)):
        with pytest.raises(CatalogError):
            MixedSummary.load(json.dumps({**raw, name: value}))


def test_sums_of_two_noises_have_their_quantiles():
    rng = np.random.default_rng(6)
    one = Terms(rng.uniform(-1, 1, (1, 5)), 80.0, rng.uniform(-1, 1, (1, 3)), 1 / 90)
    two = Terms(rng.uniform(-1, 1, (1, 4)), 150.0, np.zeros((1, 0)), 1.0)
    draws, total = 200_000, 0
    for t in (one, two):
        total = total + rng.laplace(size=(draws, t.laplace.shape[1])) * t.scale @ t.laplace[0]
        k = t.cube.shape[1]
        if k:
            radius = rng.gamma(k + 1, 1 / t.rate, size=(draws, 1))
            total = total + (rng.uniform(-1, 1, (draws, k)) * radius) @ t.cube[0]
    for level in (0.95, 0.99):
        width = float(summed_half_widths([one, two], level)[0])
        inside = float(np.mean(np.abs(total) <= width))
        assert level - 0.003 < inside < level + 0.012
    alone = summed_half_widths([one], 0.95)
    assert summed_half_widths([one], 0.95) == pytest.approx(alone)


@pytest.mark.parametrize(
    "wishes", [{"noise": "cube"}, {"shape": "total_degree"}, {"order": 1}, {"smoothness": 2, "degree": None}]
)
def test_options_that_do_not_go_with_it(wishes):
    with pytest.raises(ParameterError) as error:
        plan(3, **wishes)
    assert error.value.name == "across"


def test_columns_that_are_no_categories():
    for columns, by in ((["x"], "y"), (["s"], "s")):
        with pytest.raises(ParameterError) as error:
            plan_mixed(
                people(3), columns, by, epsilon_nano=NANO, neighbours=ADD_REMOVE, delta_atto=0, wishes=Wishes(degree=4)
            )
        assert error.value.name == "per"

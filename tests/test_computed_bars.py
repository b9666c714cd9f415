"""Intervals of what is computed from several released figures cover, and where there is none nothing is told.

Groups of declared keys are independent, so one release of many is a sample of intervals. What is asserted fails by
chance less than once in 10^7 runs: of 1,000 intervals that cover with probability 0.95 at least, fewer than 912 do so
with probability 10^-7 at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

import duckdp
from duckdp.compiler.outer import beside, computed
from duckdp.compiler.outer.outer_ends import Ends
from duckdp.compiler.outer.sources import Source
from duckdp.core.errorbars import Noise, half_width
from duckdp.core.summedbars import Summed, linear_half_width
from duckdp.functions import over_answers
from duckdp.result import Estimate

GROUPS, LEAST = 1000, 912
SMALL = 4  # groups that are added up in one sum


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    """Persons with one row each, in groups of 20 to 60; others of theirs in groups of 5 to 30."""
    found = {}
    for name, few, many in (("a", 20, 61), ("b", 5, 31)):
        sizes = [few + (i * 7919) % (many - few) for i in range(GROUPS * SMALL)]
        keys = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        rows = np.arange(len(keys), dtype=np.int32)
        words = [f"w{k % 50}" for k in keys.tolist()]
        found[name] = pa.table({"pid": rows, "k": keys, "x": (rows * 37 % 101) / 10.0, "w": words})
    return found


@pytest.fixture(scope="module")
def owner(tables: dict[str, pa.Table], tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    with duckdp.open(tables, ledger=str(tmp_path_factory.mktemp("computed") / "ledger")) as made:
        for name in tables:
            bounds = {"k": (0, 3999), "x": (0, 10)}
            made.protect(name, unit_key="pid", max_rows=1, row_cap=10**6, bounds=bounds, columns=["w"])
        made.budget(epsilon=10**6, delta="1e-6")
        made.grant("ana", epsilon=10**6, delta="1e-6")
        yield made


BY_KEY = "(SELECT k, count(*) AS n, sum(x) AS s FROM {} GROUP BY k)"
A, B = BY_KEY.format("a"), BY_KEY.format("b")
FIRST = f"k < {GROUPS}"
RATIOS = [
    f"SELECT v.k, v.n / w.n AS r FROM {A} AS v JOIN {B} AS w ON v.k = w.k WHERE v.{FIRST} ORDER BY 1",
    f"SELECT v.k, round(100.0 * w.s / v.n, 1) AS r FROM {A} AS v JOIN {B} AS w USING (k) WHERE v.{FIRST} ORDER BY 1",
    f"WITH v AS {A}, w AS {B} SELECT v.k, v.s - 2 * w.n AS r FROM v, w WHERE v.k = w.k AND v.{FIRST} ORDER BY 1",
    f"SELECT k, s / n - 1 AS r FROM {B} WHERE {FIRST} ORDER BY 1",
    f"SELECT k, n * s AS r FROM {A} AS v WHERE {FIRST} ORDER BY 1",
    "SELECT k // 4 AS g, sum(n) AS r FROM " + A + " GROUP BY 1 ORDER BY 1",
    "SELECT k, n / sum(n) OVER (PARTITION BY k // 4) AS r FROM " + A + " QUALIFY k % 4 = 0 ORDER BY 1",
]


def covered(owner: duckdp.Curator, tables: dict[str, pa.Table], text: str, epsilon: float = 0.5) -> int:
    """Of how many outputs ``r`` the interval holds DuckDB's own answer."""
    found = owner.session("ana").sql(text, epsilon=epsilon, fresh=True)
    with duckdb.connect() as con:
        for name, table in tables.items():
            con.register(name, table)
        wanted = [row[1] for row in con.execute(text).fetchall()]
    shown = found.columns[1].estimates
    assert shown is not None
    assert len(shown) == len(wanted) == GROUPS
    return sum(_holds(one, true) for one, true in zip(shown, wanted, strict=True))


def _holds(one: Estimate, true: float) -> bool:
    if one.low is None or one.high is None:
        assert one.note is not None  # what has no interval says so, and is never wrong
        return True
    assert one.value is not None
    assert one.low - 1e-9 <= one.value <= one.high + 1e-9
    return one.low - 0.051 <= float(true) <= one.high + 0.051  # sums are of values on a grid; and rounded


@pytest.mark.parametrize("text", RATIOS)
def test_intervals_cover(owner: duckdp.Curator, tables: dict[str, pa.Table], text: str) -> None:
    assert covered(owner, tables, text) >= LEAST


def test_ends_that_leave_noise_out_are_caught(
    owner: duckdp.Curator, tables: dict[str, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twins: a divisor taken as if it were known, and a sum that is off by no more than one of its terms."""
    honest = computed._Leaves.ends

    def as_known(self: computed._Leaves, source: Source, place: int, key: str) -> Ends:
        found = honest(self, source, place, key)
        middle = exp.Div(
            this=exp.Paren(this=exp.Add(this=found.low, expression=found.high)), expression=exp.Literal.number(2)
        )
        return Ends(low=exp.Paren(this=middle), high=exp.Paren(this=middle.copy())) if source.name == "w" else found

    with monkeypatch.context() as changed:
        changed.setattr(computed._Leaves, "ends", as_known)
        assert covered(owner, tables, RATIOS[0]) < LEAST
    with monkeypatch.context() as changed:
        changed.setattr(beside, "linear_half_width", lambda c, laws, level: linear_half_width(c, laws, level) / SMALL)
        beside._reach_of.cache_clear()
        assert covered(owner, tables, RATIOS[5]) < LEAST
    beside._reach_of.cache_clear()


def test_where_a_divisor_may_be_0_there_is_no_interval(owner: duckdp.Curator) -> None:
    text = f"SELECT v.n / w.n AS r, v.n FROM {A} AS v JOIN {B} AS w USING (k)"
    found = owner.session("ana").sql(text, epsilon="0.001", fresh=True)
    estimates = found.columns[0].estimates or []
    bare = [e for e in estimates if e.low is None]
    assert len(bare) > len(estimates) / 2
    assert all(e.high is None and e.standard_error is None for e in bare)
    assert all("no interval" in str(e.note) for e in bare if e.value is not None)


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT sum(n) AS r FROM {A} WHERE n > 40",  # chosen by their noise
        f"SELECT sum(v.n) AS r FROM {A} AS v JOIN (VALUES (1), (2)) AS t(i) ON TRUE",  # each twice
        f"SELECT sum(v.n) AS r FROM {A} AS v JOIN {B} AS w ON v.k = w.k // 2",
        f"SELECT n / sum(n) OVER () AS r FROM (SELECT * FROM {A} AS t LIMIT 10) AS v",
        f"SELECT n % 7 AS r, n > 3, n AS m, m * 2 FROM {A} AS v",
        f"SELECT max(n) - min(n) AS r FROM {A} AS v",
        f"SELECT sum(DISTINCT n) AS r FROM {A} AS v",
        f"SELECT coalesce(n, 0) / 2 AS r FROM {A} AS v",
        f"SELECT n % 7 AS r, n AS z, z + n FROM {A} AS v",  # z is no column of v
        "SELECT n / sum(n) OVER () AS r FROM (SELECT k, count(*) AS n FROM a GROUP BY k HAVING count(*) > 40) AS v",
    ],
)
def test_what_has_no_rule_has_no_interval(owner: duckdp.Curator, text: str) -> None:
    found = owner.session("ana").sql(text, epsilon=1)
    assert found.columns[0].estimates is None
    assert found.columns[-1].estimates is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT n > 40 AS g, sum(n) AS r FROM {A} AS v GROUP BY g",
        "SELECT n > 40, sum(n) AS r FROM {A} AS v GROUP BY 1",
        "SELECT n > 40, sum(n) AS r FROM {A} AS v GROUP BY ALL",
        "SELECT sum(n) AS r FROM {A} AS v GROUP BY n > 40",
        "SELECT n AS k, sum(n) AS r FROM {A} AS v GROUP BY v.k, n",
        "SELECT k, n > 40 AS b, sum(n) AS r FROM {A} AS v GROUP BY ROLLUP (k, b)",
        "SELECT k, sum(n) OVER (ORDER BY n DESC) AS r FROM {A} AS v",
        "SELECT k, sum(n) OVER (PARTITION BY n > 40) AS r FROM {A} AS v",
        "SELECT k, sum(n) OVER (ORDER BY k, n + 1 ROWS 3 PRECEDING) AS r FROM {A} AS v",
        "SELECT k, sum(n) OVER w AS r FROM {A} AS v WINDOW w AS (ORDER BY n)",
        "SELECT k, sum(n) OVER (w ORDER BY k) AS r FROM {A} AS v WINDOW w AS (PARTITION BY n > 40)",
        "SELECT sum(n) OVER (PARTITION BY b) AS r FROM (SELECT k, count(*) AS n, count(*) > 40 AS b FROM a GROUP BY k)",
        "SELECT sum(n) AS r FROM (SELECT n FROM {A} GROUP BY n) AS v",
        "SELECT sum(n) AS r FROM (SELECT k, count(*) AS n FROM a GROUP BY k ORDER BY n DESC LIMIT 10) AS v",
        "SELECT sum(n) AS r FROM (SELECT k, count(*) AS n FROM a GROUP BY k QUALIFY rank() OVER (ORDER BY n) < 9) AS v",
    ],
)
def test_sums_over_rows_that_noise_chose_have_no_interval(owner: duckdp.Curator, text: str) -> None:
    """Which rows are added up must not follow from the figures: the largest of many are too large by their noise."""
    columns = owner.session("ana").sql(text.format(A=A), epsilon=1).columns
    (found,) = [c for c in columns if c.name == "r"]
    assert found.estimates is None


def test_what_follows_from_noise_is_not_taken_as_known(owner: duckdp.Curator) -> None:
    """A comparison of figures has no interval, and what is computed with it none."""
    shown = "count(*) AS n, count(*) > 40 AS b, CASE WHEN count(*) > 40 THEN '8' ELSE '7' END AS c"
    inner = f"(SELECT k, {shown} FROM a GROUP BY k)"
    text = f"SELECT n / (1 + CAST(b AS INTEGER)) AS r, n * CAST(c AS INTEGER) AS s FROM {inner}"
    columns = owner.session("ana").sql(text, epsilon=1).columns
    assert [c.estimates for c in columns] == [None, None]


def test_sums_that_keys_choose_have_intervals(owner: duckdp.Curator) -> None:
    for text in (
        "SELECT k, sum(n) OVER (PARTITION BY k % 2 ORDER BY k DESC ROWS 3 PRECEDING) AS r FROM {A} AS v",
        "SELECT g, sum(n) AS r FROM (SELECT k AS g, count(*) AS n FROM a GROUP BY k) AS v GROUP BY g",
        "SELECT v.k % 5, sum(n) AS r FROM {A} AS v GROUP BY ALL",
        "SELECT k % 5 AS f, sum(n) AS r FROM {A} AS v GROUP BY ROLLUP (f)",
    ):
        assert owner.session("ana").sql(text.format(A=A), epsilon=1).columns[1].estimates is not None


def test_sums_of_keys_that_noise_chose_have_no_interval(owner: duckdp.Curator) -> None:
    """Keys above a threshold; least squares, whose figures have noise in common."""
    ana = owner.session("ana")
    words = "SELECT w, count(*) AS n FROM a GROUP BY w"
    sets = "SELECT g, k < 9 AS s, count(*) AS n FROM (SELECT k, k % 2 AS g FROM a) GROUP BY ROLLUP (g, s)"
    for text in (f"SELECT sum(n) AS r FROM ({words})", f"SELECT g, sum(n) AS r FROM ({sets}) GROUP BY g"):
        estimates = ana.sql(text, epsilon=1, delta="1e-9").columns[-1].estimates
        assert estimates is None or all(e.low is None and e.note is not None for e in estimates)


def test_a_constant_is_exact_and_its_figure_counts_once(owner: duckdp.Curator) -> None:
    ana = owner.session("ana")
    plain = ana.sql("SELECT count(*) AS n FROM a", epsilon=1).columns[0].estimates
    twice = ana.sql("SELECT 2 * n + 1 AS r FROM (SELECT count(*) AS n FROM a)", epsilon=1).columns[0].estimates
    assert plain is not None and twice is not None
    assert twice[0].low == pytest.approx(2 * float(plain[0].low or 0) + 1)
    assert twice[0].high == pytest.approx(2 * float(plain[0].high or 0) + 1)


def test_each_of_several_figures_has_its_part_of_what_may_fail(owner: duckdp.Curator) -> None:
    ana, one = owner.session("ana"), "(SELECT count(*) AS n FROM {})"
    estimates = ana.sql(f"SELECT v.n - w.n AS r FROM {one.format('a')} v, {one.format('b')} w", epsilon=1).columns[0]
    noise = Noise("laplace", 2.0)  # of either count, for half of epsilon
    assert estimates.estimates is not None
    (found,) = estimates.estimates
    assert found.half_width == 2 * half_width(noise, 0.975) > 2 * half_width(noise, 0.95)


@pytest.mark.parametrize("rows", [1, 2, 7, 30, 1000])
def test_reach_is_that_of_every_number_of_rows(rows: int) -> None:
    """Against the law of each sum itself; the twin is half as long."""
    for noise in (Noise("laplace", 0.3), Noise("laplace", 20.0), Noise("gaussian", 3.0)):
        reach = beside._reach_of(((1.0, noise),), rows, 0.975)
        for m in {1, 2, 3, 5, rows // 2 + 1, rows}:
            if m <= rows:
                width = float(linear_half_width(np.ones((1, 1)), [Summed(((1.0, noise, m),))], 0.975)[0])
                assert width <= reach * math.sqrt(m) + 1e-9
                assert m > 1 or width > reach / 2 * math.sqrt(m) or noise.scale < 1


def test_a_divisor_that_may_be_0_is_told_beside_the_answer(
    owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quotients of noise alone, infinite ones too, come with a note; a twin that looks at no value has none."""
    text = (
        "WITH f AS (SELECT k, count(*) AS n, sum(x) AS s FROM a WHERE x < 0.1 GROUP BY k) SELECT k, s / n AS r FROM f"
    )
    few = f"{text} WHERE k < 20"
    found = owner.session("ana").sql(few, epsilon="0.001", fresh=True)
    told = [n for n in found.notes if n.startswith("r: no interval: what is divided by may be 0")]
    bare = [e for e in found.columns[1].estimates or [] if e.low is None]
    assert bare and all(e.high is None for e in bare)
    assert told == [f"r: {over_answers.NO_END}" + ("" if len(bare) == 20 else f" in {len(bare)} of 20 rows")]
    sure = "SELECT s / n AS r FROM (SELECT count(*) AS n, sum(x) AS s FROM a)"
    assert not any("no interval" in n for n in owner.session("ana").sql(sure, epsilon=1).notes)
    monkeypatch.setattr(over_answers, "_without_ends", lambda _: [])
    assert not any("no interval" in n for n in owner.session("ana").sql(few, epsilon="0.001", fresh=True).notes)


SHOWN = "what is computed over groups by w is of those alone that have at least about "


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT count(*), avg(n) FROM (SELECT w, count(*) AS n FROM a GROUP BY w)", True),
        ("SELECT w, n / sum(n) OVER () FROM (SELECT w, count(*) AS n FROM a GROUP BY w)", True),
        (
            "WITH g AS (SELECT w, count(*) AS n FROM a GROUP BY w), h AS (SELECT n FROM g) "
            "SELECT w, (SELECT max(n) FROM h) FROM g",
            True,
        ),
        ("SELECT w, 2 * n FROM (SELECT w, count(*) AS n FROM a GROUP BY w)", False),
        ("SELECT min(w) FROM a", False),  # which has a note of its own
        ("SELECT count(*), avg(n) FROM (SELECT k, count(*) AS n FROM a GROUP BY k)", False),
    ],
)
def test_what_is_counted_over_shown_groups_says_so(owner: duckdp.Curator, text: str, told: bool) -> None:
    """Keys without a domain: groups of few units are missing in all that is computed over them."""
    ana = owner.session("ana")
    for notes in (ana.sql(text, epsilon=1, delta="1e-9").notes, ana.explain(text, epsilon=1, delta="1e-9").notes):
        assert any(n.startswith(SHOWN) for n in notes) == told

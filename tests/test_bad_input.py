"""Data and arguments that are out of the ordinary, for every mechanism: an answer of the same form, or a coded error.

Tables without rows, of ties, of one unit with all rows are answered as any other: whatever the data, the same columns,
the same rows of public keys, the same charge; more blocks than units are no error, as one would tell how many units
there are. What follows from arguments alone is refused in our words, and nothing is charged.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from tests.test_bad_arguments import ASKING

ROWS = 240
TABLES = ("plain", "none", "ties", "alone")
#: Answered on every table; the number of rows follows from public figures, but where noise decides it.
ANSWERED = (
    "dp_noisy_count('{t}', epsilon := 1, unit := true)",
    "dp_median_smooth('{t}', 'x', epsilon := 1)",
    "dp_median_smooth('{t}', 'x', epsilon := 1, groups := 'sex', intervals := true)",
    "dp_mst_cost('{t}', 'start', 'town', 'x', epsilon := 1, method := 'smooth', intervals := true)",
    "dp_mst_cost('{t}', 'start', 'town', 'x', epsilon := 1, method := 'laplace')",
    "dp_quantiles('{t}', 'x', [0, 0.5, 1], epsilon := 1, groups := 'sex', method := 'exponential')",
    "dp_quantiles('{t}', 'x', [0.5, 0.9], epsilon := 1, predicate := 'y > 1', method := 'tree')",
    "dp_quantiles('{t}', 'x', [0.3], epsilon := 1, method := 'smooth', intervals := false)",
    "dp_quantiles('{t}', 'x', [0.3], epsilon := 1, step := 0.5, intervals := false, groups := 'sex')",
    "dp_quantiles('{t}', 'n', [0.3], epsilon := 1, intervals := false, groups := 'sex')",
    "dp_sample_aggregate('{t}', 'kurtosis(x)', epsilon := 1, blocks := 10000, low := 0, high := 9, method := 'mean')",
    "dp_sample_aggregate('{t}', 'corr(x, y)', epsilon := 1, blocks := 10000, method := 'median')",
    "dp_sample_aggregate('{t}', 'mode(x)', epsilon := 1, blocks := 300, method := 'center')",
    "dp_kmeans('{t}', ['x', 'y'], k := 3, epsilon := 1, method := 'cells')",
    "dp_kmeans('{t}', ['x', 'y'], k := 3, epsilon := 1, method := 'iterations')",
    "dp_kmeans('{t}', ['x', 'y'], k := 2, epsilon := 1, method := 'blocks', blocks := 130)",
    "dp_top_k('{t}', 'sex', 2, epsilon := 1)",
    "dp_choose('{t}', ['x > 1', 'x > 2'], epsilon := 1)",
    "dp_mwem('{t}', ['sex', 'town'], [$$sex = 'a'$$, $$town = 'd'$$], epsilon := 1)",
    "dp_small_database('{t}', ['sex'], [$$sex = 'a'$$], epsilon := 1, size := 3)",
    "dp_marginals('{t}', ['sex', 'town'], epsilon := 1)",
    "dp_smooth_summary('{t}', ['x'], epsilon := 1, degree := 4, ranges := true, name := '{t}_ranges')",
    "dp_smooth_summary('{t}', ['x'], epsilon := 1, degree := 4, per := 'sex', across := true, name := '{t}_mixed')",
    "dp_covariance('{t}', 'x', 'y', epsilon := 1, groups := 'sex')",
    "dp_correlations('{t}', ['x', 'y', 'x * y'], epsilon := 1)",
    "dp_linear_regression('{t}', 'y', ['x'], epsilon := 1, groups := 'sex')",
    "dp_logistic_regression('{t}', 'y > 5', ['x'], epsilon := 1)",
    "dp_histogram('{t}', 'x', epsilon := 1, bins := 5, groups := 'sex')",
    "dp_cdf('{t}', 'x', epsilon := 1, bins := 5)",
    "dp_count_variance('{t}', epsilon := 1, groups := 'sex')",
    "dp_correlation('{t}', 'x', 'y', epsilon := 1)",
    "dp_query('SELECT sex, avg(x), count(DISTINCT town) FROM {t} GROUP BY sex', epsilon := 1)",
    "dp_synthesize('{t}', epsilon := 1, rows := 20, columns := ['x', 'sex'])",
    "dp_sparse_open('{t}', 3, epsilon := 1)",
    "dp_pmw_open('{t}', ['sex'], epsilon := 1)",
)
BY_NOISE = (
    "dp_groups_per_unit('{t}', 'town', epsilon := 1)",
    "dp_rows_per_unit('{t}', epsilon := 1)",
    "dp_bounds('{t}', 'x', epsilon := 1)",
    "dp_top_k('{t}', 'note', 2, epsilon := 1, delta := '1e-6')",
    "dp_above_threshold('{t}', ['x > 1', 'x > 2'], 20, epsilon := 1)",
)
NO_NUMBER = re.compile(r"\bnan\b", re.IGNORECASE)


#: Asked in ``test_streams_are_answered_on_any_data``; answers of summaries look at no data.
STREAMS = {"dp_sparse_ask", "dp_pmw_answer", "dp_smooth_answer", "dp_smooth_answers"}


def _rows(table: str) -> list[tuple[Any, ...]]:
    """(person, x, y, sex, start, town, note, n)."""
    rng, rows = random.Random(2), list[tuple[Any, ...]]()
    for i in range(0 if table == "none" else ROWS):
        x = 4.0 if table == "ties" else round(rng.uniform(0, 10), 2)
        y = 4.0 if table == "ties" else round(rng.uniform(0, 10), 2)
        names = ("a", "a", "d", "n") if table == "ties" else (*(rng.choice(s) for s in ("ab", "abd", "abd", "nm")),)
        rows.append((1 if table == "alone" else i // 2, x, y, *names, int(x)))
    return rows


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    kinds = (pa.int64(), pa.float64(), pa.float64(), *[pa.string()] * 4, pa.int64())
    names = ("person", "x", "y", "sex", "start", "town", "note", "n")
    frames: dict[str, Any] = {}
    for table in TABLES:
        rows = _rows(table)
        frames[table] = pa.table({n: pa.array([r[i] for r in rows], kinds[i]) for i, n in enumerate(names)})
    frames["wide"] = pa.table({key: [1] for key in ("person", *"abcdef")})
    with duckdp.open(frames, ledger=str(tmp_path_factory.mktemp("bad") / "t.ledger")) as owner:
        for table in TABLES:
            towns = ["a", "b", "c", "d"]  # "c" is nobody's, as the sex "c"
            owner.protect(
                table,
                unit_key="person",
                max_rows=3,
                max_groups=2,
                row_cap=1000,
                expected_rows=ROWS,
                bounds={"x": (0, 10), "y": (0, 10), "n": (0, 10)},
                domains={"sex": ["a", "b", "c"], "start": towns, "town": towns},
                columns=["note"],
            )
        owner.protect(
            "wide",
            unit_key="person",
            max_rows=1,
            max_groups=1,
            row_cap=10,
            bounds=dict.fromkeys("abcd", (0, 999)) | dict.fromkeys("ef", (0, 30_000)),
        )
        owner.budget(epsilon=10_000, delta="0.01")
        owner.grant("ana", epsilon=5_000, delta="0.005")
        owner.grant("ben", epsilon=100)
        yield owner


def _ran(curator: duckdp.Curator, con: duckdb.DuckDBPyConnection, call: str) -> tuple[Any, int, list[Any]]:
    """(columns with types, rows, charges) of one call; no number that is none is told."""
    before = len(curator.ledger.charges())
    found = con.execute(f"FROM {call}")
    columns = [(d[0], str(d[1])) for d in found.description]
    rows = found.fetchall()
    assert not NO_NUMBER.search(repr(rows)), (call, rows)
    return columns, len(rows), [(c.mechanism, c.loss) for c in curator.ledger.charges()[before:]]


@pytest.mark.parametrize("call", ANSWERED)
def test_whatever_the_data_the_form_and_the_charge_are_the_same(curator: duckdp.Curator, call: str) -> None:
    con = curator.connect("ana")
    plain = _ran(curator, con, call.format(t="plain"))
    assert len(plain[2]) == 1
    for table in TABLES[1:]:
        assert _ran(curator, con, call.format(t=table)) == plain, table


@pytest.mark.parametrize("call", BY_NOISE)
def test_where_noise_decides_how_many_the_form_and_the_charge_are_the_same(curator: duckdp.Curator, call: str) -> None:
    con = curator.connect("ana")
    columns, _, charges = _ran(curator, con, call.format(t="plain"))
    for table in TABLES[1:]:
        found = _ran(curator, con, call.format(t=table))
        assert (found[0], found[2]) == (columns, charges), table


def test_every_function_that_costs_is_asked_on_odd_data() -> None:
    asked = {call.split("(", 1)[0] for call in (*ANSWERED, *BY_NOISE)}
    assert asked | STREAMS == set(ASKING)


def test_rows_that_follow_the_data_would_show(curator: duckdp.Curator) -> None:
    """The twin: values of no declared domain are as many as there are common ones."""
    con, call = curator.connect("ana"), next(c for c in BY_NOISE if c.startswith("dp_top_k"))
    assert _ran(curator, con, call.format(t="plain"))[1] == 2
    assert _ran(curator, con, call.format(t="none"))[1] == 0


def test_streams_are_answered_on_any_data(curator: duckdp.Curator) -> None:
    session = curator.session("ana")
    for table in TABLES:
        before = len(curator.ledger.charges())
        sparse = session.sparse_open(table, 30, epsilon=1, hits=2)["handle"][0]
        weights = session.pmw_open(table, ["sex", "town"], epsilon=1)["handle"][0]
        for predicate in ("sex = 'a'", "sex = 'c'", "town = 'd' OR sex = 'b'"):
            session.pmw_answer(weights, predicate)
        session.sparse_ask(sparse, "x > 5")
        assert len(curator.ledger.charges()) == before + 2 or table == "plain"  # there bought above


#: Refused from arguments and declarations alone. {sparse}, {pmw}: ended handles; {bens}: of somebody else.
REFUSED = (
    # candidates empty, repeated, none
    ("dp_choose('plain', [], epsilon := 1)", "P107: candidates="),
    ("dp_choose('plain', ['x > 1', 'x > 1'], epsilon := 1)", "P107: candidates="),
    ("dp_choose('plain', ['x > 1', 'x  >  1'], epsilon := 1)", "P107: candidates="),
    ("dp_choose('plain', ['x > 1', NULL], epsilon := 1)", "P107: candidates="),
    ("dp_choose('plain', ['x > 1', 'x > 2'], epsilon := 1, k := 3)", "P107: k=3"),
    ("dp_above_threshold('plain', [], 3, epsilon := 1)", "P107: candidates="),
    ("dp_above_threshold('plain', ['x > 1', 'x > 1'], 3, epsilon := 1)", "P107: candidates="),
    ("dp_mwem('plain', ['sex'], [], epsilon := 1)", "P107: questions="),
    ("dp_mwem('plain', ['sex'], [$$sex = 'a'$$, $$sex = 'a'$$], epsilon := 1)", "P107: questions="),
    ("dp_mwem('plain', [], [$$sex = 'a'$$], epsilon := 1)", "P107: columns="),
    ("dp_small_database('plain', ['sex'], [], epsilon := 1)", "P107: questions="),
    ("dp_small_database('plain', ['sex', 'sex'], [$$sex = 'a'$$], epsilon := 1)", "Q201"),
    ("dp_quantiles('plain', 'x', [], epsilon := 1)", "P107: quantiles="),
    ("dp_quantiles('plain', 'x', [0.5, 0.5], epsilon := 1)", "P107: quantiles="),
    ("dp_quantiles('plain', 'x', ['nan'::DOUBLE], epsilon := 1)", "P107: quantiles="),
    ("dp_quantiles('plain', 'x', [0.5], epsilon := 1, intervals := false, step := 'nan'::DOUBLE)", "P107: step="),
    (
        "dp_quantiles('plain', 'x', [0.5], epsilon := 1, intervals := false, step := 0)",
        "must be above 0",
    ),
    ("dp_quantiles('plain', 'x', [0.5], epsilon := 1, intervals := false, step := 1e-300)", "too many multiples"),
    ("dp_quantiles('plain', 'x', [0.5], epsilon := 1, intervals := false, step := 1e300)", "too few multiples"),
    ("dp_quantiles('plain', 'x', [0.5], epsilon := 1, step := 1)", "P107: step=1.0: has a way of its own"),
    ("dp_quantiles('plain', 'x', [0.1, 0.5], epsilon := 1, intervals := false, step := 1)", "one quantile"),
    ("dp_kmeans('plain', [], k := 2, epsilon := 1)", "P107: columns="),
    ("dp_kmeans('plain', ['x', 'x'], k := 2, epsilon := 1)", "P107: columns="),
    ("dp_kmeans('plain', ['x'], k := 0, epsilon := 1)", "P107: k='0'"),
    ("dp_marginals('plain', [], epsilon := 1)", "P107: columns="),
    ("dp_marginals('plain', ['sex', 'sex'], epsilon := 1)", "P107: columns="),
    ("dp_marginals('plain', ['sex'], k := 2, epsilon := 1)", "P107: k=2"),
    ("dp_correlations('plain', ['x', 'x'], epsilon := 1)", "P107: columns="),
    ("dp_linear_regression('plain', 'y', [], epsilon := 1)", "P107: features=0"),
    ("dp_logistic_regression('plain', 'y > 5', ['x', 'x'], epsilon := 1)", "P107: features="),
    ("dp_top_k('plain', 'sex', 4, epsilon := 1)", "P107: k=4"),
    ("dp_top_k('plain', 'note', 1, epsilon := 1)", "P107: keys="),
    # thresholds, shares and bounds that are no numbers
    ("dp_above_threshold('plain', ['x > 1'], 'nan', epsilon := 1)", "P107: threshold="),
    ("dp_above_threshold('plain', ['x > 1'], 'inf', epsilon := 1)", "P107: threshold="),
    ("dp_sparse_open('plain', 'nan'::DOUBLE, epsilon := 1)", "P107: threshold="),
    ("dp_pmw_open('plain', ['sex'], epsilon := 1, threshold := 'nan')", "P107: threshold="),
    ("dp_median_smooth('plain', 'x', epsilon := 1, quantile := 'nan'::DOUBLE)", "P107: quantile="),
    ("dp_sample_aggregate('plain', 'kurtosis(x)', epsilon := 1, low := 'nan', high := 3)", "P107: low="),
    ("dp_linear_regression('plain', 'y', ['x'], epsilon := 1, ridge := 'nan'::DOUBLE)", "P107: ridge="),
    # blocks: none, or more than any table's
    ("dp_sample_aggregate('plain', 'corr(x, y)', epsilon := 1, blocks := 0)", "P107: blocks="),
    ("dp_sample_aggregate('plain', 'corr(x, y)', epsilon := 1, blocks := 10001)", "P107: blocks=10001"),
    ("dp_kmeans('plain', ['x'], epsilon := 1, method := 'blocks', blocks := 100000)", "P107: blocks="),
    # handles
    ("dp_sparse_ask({bens}, 'x > 1')", "C110: handle {bens} is unknown or belongs to somebody else"),
    ("dp_pmw_answer({bens_pmw}, $$sex = 'a'$$)", "C110: handle {bens_pmw} is unknown or belongs to somebody else"),
    ("dp_sparse_ask({sparse}, 'x > 7')", "B108"),
    ("dp_pmw_answer({pmw}, $$sex = 'b'$$)", "B108"),
    ("dp_sparse_ask({pmw}, 'x > 7')", "C110"),
    ("dp_sparse_ask(999999, 'x > 7')", "C110"),
    # domains too large
    ("dp_pmw_open('wide', ['a', 'b'], epsilon := 1)", "more than 100,000"),
    ("dp_mwem('wide', ['a', 'b'], ['a > 1'], epsilon := 1)", "more than 100,000"),
    ("dp_small_database('wide', ['a', 'b'], ['a > 1'], epsilon := 1)", "P107"),
    ("dp_marginals('wide', ['a', 'b', 'c'], k := 3, epsilon := 1)", "P107"),
    ("dp_histogram('wide', 'a', bins := 100000000, epsilon := 1)", "P107: bins="),
    ("dp_mst_cost('wide', 'e', 'f', 'a', epsilon := 1)", "P107"),
    ("dp_kmeans('plain', ['x', 'y'], k := 100000, epsilon := 1)", "P107: k="),
    ("dp_quantiles('wide', 'a', [0.5], groups := 'b, c', epsilon := 1)", "P107"),
    ("dp_quantiles('wide', 'a', [0.5], groups := 'b, c', epsilon := 1, intervals := false)", "more than 2,000"),
    ("dp_top_k('wide', 'a, b, c', 2, epsilon := 1)", "P107: k=2: looks at 2,000,000,000 counts"),
    ("dp_covariance('wide', 'a', 'b', groups := 'c, d', epsilon := 1)", "more than 200,000"),
    ("dp_linear_regression('wide', 'a', ['b'], groups := 'c, d', epsilon := 1)", "more than 200,000"),
    ("dp_histogram('wide', 'a', bins := 100, groups := 'c, d', epsilon := 1)", "more than 1,000,000"),
    ("dp_cdf('wide', 'a', bins := 10, groups := 'c, d', epsilon := 1)", "more than 1,000,000"),
    ("dp_count_variance('wide', groups := 'e', epsilon := 1)", "has no declared domain (e)"),
    ("dp_query('SELECT a, b, c, count(*) FROM wide GROUP BY a, b, c', epsilon := 1)", "Q403"),
    ("dp_smooth_summary('wide', ['a', 'b', 'c', 'd'], degree := 200, name := 'q', epsilon := 1)", "P107: degree=200"),
    ("dp_smooth_summary('wide', ['b'], degree := 4, per := 'e', name := 'q', epsilon := 1)", "P107: per='e'"),
    ("dp_sparse_open('wide', 3, epsilon := 1, hits := 1000000000)", "P107: hits=1000000000"),
    ("dp_synthesize('wide', epsilon := 1, rows := 10000000000)", "P107: rows=10000000000"),
    ("dp_median_smooth('wide', 'a', groups := 'b, c, d', epsilon := 1)", "P107"),
)


@pytest.fixture(scope="module")
def handles(curator: duckdp.Curator) -> dict[str, int]:
    """Two ended ones, and two of another analyst."""
    ana, ben = curator.session("ana"), curator.session("ben")
    found = {
        "sparse": ana.sparse_open("plain", -10_000, epsilon=2, hits=1)["handle"][0],
        "pmw": ana.pmw_open("plain", ["sex"], epsilon=2, hits=1, threshold=1)["handle"][0],
        "bens": ben.sparse_open("plain", 5, epsilon=1)["handle"][0],
        "bens_pmw": ben.pmw_open("plain", ["sex"], epsilon=1)["handle"][0],
    }
    assert ana.sparse_ask(found["sparse"], "x > 1")["above"] == [True]
    for number in range(50):
        if ana.pmw_answer(found["pmw"], f"sex = 'c' AND {number} = {number}")["measured"][0]:
            return found
    raise AssertionError("nothing was measured")


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_refusals_are_coded_and_free(curator: duckdp.Curator, handles: dict[str, int], call: str, words: str) -> None:
    before = len(curator.ledger.charges())
    with pytest.raises(duckdb.Error) as error:
        curator.connect("ana").execute(f"FROM {call.format(**handles)}").fetchall()
    assert words.format(**handles) in str(error.value)
    assert len(curator.ledger.charges()) == before

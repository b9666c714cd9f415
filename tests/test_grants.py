"""After ``revoke`` and ``freeze`` nothing is given any more, whatever remembers it and however it is fetched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.errors import BudgetError, DuckDPError, LedgerError
from duckdp.functions import FUNCTIONS

CALLS = {
    "dp_noisy_count": "dp_noisy_count('visits', epsilon := 0.1)",
    "dp_median_smooth": "dp_median_smooth('visits', 'age', epsilon := 0.1)",
    "dp_smooth_summary": "dp_smooth_summary('visits', ['age'], epsilon := 0.5, degree := 2, name := 'a')",
    "dp_explain_summary": "dp_explain_summary('visits', ['age'], epsilon := 0.5, degree := 2)",
    "dp_smooth_answer": "dp_smooth_answer('a', 'age')",
    "dp_smooth_answers": "dp_smooth_answers('a', ['age', 'age * age'])",
    "dp_synthesize": "dp_synthesize('a', rows := 50)",
    "dp_explain_synthesize": "dp_explain_synthesize('visits', epsilon := 1, columns := ['age'])",
    "dp_query": "dp_query('SELECT sex, count(*) AS n FROM visits GROUP BY sex', epsilon := 0.1)",
    "dp_explain": "dp_explain('SELECT count(*) FROM visits', epsilon := 0.1)",
    "dp_explain_noisy_count": "dp_explain_noisy_count('visits', epsilon := 0.1)",
    "dp_mst_cost": "dp_mst_cost('visits', 'sex', 'sex', 'age', epsilon := 0.1)",
    "dp_explain_mst_cost": "dp_explain_mst_cost('visits', 'sex', 'sex', 'age', epsilon := 0.1)",
    "dp_explain_median_smooth": "dp_explain_median_smooth('visits', 'age', epsilon := 0.5)",
    "dp_accountants": "dp_accountants(delta := 0.00001)",
    "dp_budget": "dp_budget()",
    "dp_ledger": "dp_ledger()",
    "dp_summaries": "dp_summaries()",
    "dp_catalog": "dp_catalog()",
    "dp_table_report": "dp_table_report('s')",
    "dp_bounds": "dp_bounds('visits', 'age', epsilon := 0.5)",
    "dp_explain_bounds": "dp_explain_bounds('visits', 'age', epsilon := 0.5)",
    "dp_rows_per_unit": "dp_rows_per_unit('visits', epsilon := 0.5)",
    "dp_explain_rows_per_unit": "dp_explain_rows_per_unit('visits', epsilon := 0.5)",
    "dp_top_k": "dp_top_k('visits', 'sex', 1, epsilon := 0.5)",
    "dp_explain_top_k": "dp_explain_top_k('visits', 'sex', 1, epsilon := 0.5)",
    "dp_sample_aggregate": "dp_sample_aggregate('visits', 'mad(age)', epsilon := 0.1, blocks := 5)",
    "dp_explain_sample_aggregate": "dp_explain_sample_aggregate('visits', 'mad(age)', epsilon := 0.1)",
    "dp_mwem": "dp_mwem('visits', ['sex'], [$$sex = 'F'$$], epsilon := 0.1)",
    "dp_explain_mwem": "dp_explain_mwem('visits', ['sex'], [$$sex = 'F'$$], epsilon := 0.1)",
    "dp_small_database": "dp_small_database('visits', ['sex'], [$$sex = 'F'$$], epsilon := 0.1)",
    "dp_explain_small_database": "dp_explain_small_database('visits', ['sex'], [$$sex = 'F'$$], epsilon := 0.1)",
    "dp_kmeans": "dp_kmeans('visits', ['age'], k := 2, epsilon := 0.1)",
    "dp_explain_kmeans": "dp_explain_kmeans('visits', ['age'], k := 2, epsilon := 0.1)",
    "dp_choose": "dp_choose('visits', ['age > 40', 'age < 20'], epsilon := 0.5)",
    "dp_explain_choose": "dp_explain_choose('visits', ['age > 40', 'age < 20'], epsilon := 0.5)",
    "dp_above_threshold": "dp_above_threshold('visits', ['age > 40', 'age < 20'], 5, epsilon := 0.5)",
    "dp_explain_above_threshold": "dp_explain_above_threshold('visits', ['age > 40'], 5, epsilon := 0.5)",
    "dp_sparse_open": "dp_sparse_open('visits', 5, epsilon := 0.5)",
    "dp_explain_sparse_open": "dp_explain_sparse_open('visits', 5, epsilon := 0.5)",
    "dp_pmw_open": "dp_pmw_open('visits', ['sex'], epsilon := 0.5)",
    "dp_explain_pmw_open": "dp_explain_pmw_open('visits', ['sex'], epsilon := 0.5)",
    "dp_pmw_answer": "dp_pmw_answer(4, $$sex = 'F'$$)",
    "dp_sparse_ask": "dp_sparse_ask(3, 'age > 40')",
    "dp_quantiles": "dp_quantiles('visits', 'age', [0.25, 0.5], epsilon := 0.5)",
    "dp_explain_quantiles": "dp_explain_quantiles('visits', 'age', [0.25, 0.5], epsilon := 0.5)",
    "dp_histogram": "dp_histogram('visits', 'age', epsilon := 0.5, bins := 5)",
    "dp_explain_histogram": "dp_explain_histogram('visits', 'age', epsilon := 0.5, bins := 5)",
    "dp_cdf": "dp_cdf('visits', 'age', epsilon := 0.5, bins := 5)",
    "dp_explain_cdf": "dp_explain_cdf('visits', 'age', epsilon := 0.5, bins := 5)",
    "dp_count_variance": "dp_count_variance('visits', epsilon := 0.5)",
    "dp_explain_count_variance": "dp_explain_count_variance('visits', epsilon := 0.5)",
    "dp_logistic_regression": "dp_logistic_regression('visits', 'age > 40', ['age'], epsilon := 0.5)",
    "dp_explain_logistic_regression": "dp_explain_logistic_regression('visits', 'age > 40', ['age'], epsilon := 0.5)",
    "dp_covariance": "dp_covariance('visits', 'age', 'age * age', epsilon := 0.5)",
    "dp_explain_covariance": "dp_explain_covariance('visits', 'age', 'age * age', epsilon := 0.5)",
    "dp_correlation": "dp_correlation('visits', 'age', 'age * age', epsilon := 0.5)",
    "dp_explain_correlation": "dp_explain_correlation('visits', 'age', 'age * age', epsilon := 0.5)",
    "dp_correlations": "dp_correlations('visits', ['age', 'age * age'], epsilon := 0.5)",
    "dp_explain_correlations": "dp_explain_correlations('visits', ['age', 'age * age'], epsilon := 0.5)",
    "dp_linear_regression": "dp_linear_regression('visits', 'age * age', ['age'], epsilon := 0.5)",
    "dp_explain_linear_regression": "dp_explain_linear_regression('visits', 'age * age', ['age'], epsilon := 0.5)",
    "dp_marginals": "dp_marginals('visits', ['sex'], k := 1, epsilon := 0.5)",
    "dp_explain_marginals": "dp_explain_marginals('visits', ['sex'], k := 1, epsilon := 0.5)",
    "dp_groups_per_unit": "dp_groups_per_unit('visits', 'sex', epsilon := 0.5)",
    "dp_explain_groups_per_unit": "dp_explain_groups_per_unit('visits', 'sex', epsilon := 0.5)",
}
#: Also through a table that was bought, and a tolerance that a summary meets.
MORE = {
    "a table of private rows": "dp_synthesize('visits', epsilon := 0.5, columns := ['age'], rows := 50, name := 's')",
    "a stored table": "dp_synthesize('s')",
    "a routed question": "dp_query('SELECT avg(age) FROM visits', epsilon := 0.1, tolerance := 1000)",
}
STOPS: dict[str, Callable[[duckdp.Curator], None]] = {
    "revoke": lambda curator: curator.revoke("ana"),
    "freeze": lambda curator: curator.freeze(),
}


@pytest.fixture(params=["front", "registered"])
def con(request: pytest.FixtureRequest, curator: duckdp.Curator) -> Iterator[duckdb.DuckDBPyConnection]:
    curator.budget(epsilon=200, delta="1e-4", raise_to=True, reason="every function is asked for")
    curator.grant("ana", epsilon=100, delta="1e-5", raise_to=True, reason="every function is asked for")
    if request.param == "front":
        yield curator.connect("ana")
        return
    with duckdb.connect() as own:
        duckdp.register(own, curator, analyst="ana")
        yield own


def test_every_function_is_asked_for() -> None:
    assert set(CALLS) == set(FUNCTIONS)


def fetched(con: duckdb.DuckDBPyConnection) -> dict[str, Callable[[], object]]:
    """Every way to have each call's answer again, all of them used once."""
    ways: dict[str, Callable[[], object]] = {}
    calls = {**CALLS, **MORE}
    for name in ("dp_smooth_summary", "a table of private rows", "dp_sparse_open", "dp_pmw_open"):
        con.execute(f"FROM {calls[name]}").fetchall()
    for number, (name, call) in enumerate(calls.items()):
        con.execute(f"PREPARE p{number} AS FROM {call}; CREATE TEMP VIEW v{number} AS FROM {call}")
        relation = con.sql(f"FROM {call}")
        ways |= {
            name: lambda call=call: con.execute(f"FROM {call}").fetchall(),
            f"{name}, prepared": lambda number=number: con.execute(f"EXECUTE p{number}").fetchall(),
            f"{name}, by a view": lambda number=number: con.execute(f"FROM v{number}").fetchall(),
            f"{name}, by a relation": lambda relation=relation: relation.fetchall(),
            f"{name}, bound alone": lambda call=call: con.execute(f"DESCRIBE FROM {call}").fetchall(),
            f"{name}, copied": lambda call=call, n=number: con.execute(
                f"CREATE OR REPLACE TEMP TABLE c{n} AS FROM {call}"
            ),
        }
    ways["a count as a value"] = lambda: con.execute("SELECT dp_noisy_count('visits', epsilon := 0.1)").fetchall()
    ways["an answer as a value"] = lambda: con.execute("SELECT dp_smooth_answer('a', 'age').value").fetchall()
    for name in ("dp_budget", "dp_ledger", "dp_summaries", "dp_catalog"):
        ways[f"the view {name}"] = lambda name=name: con.execute(f"FROM {name}").fetchall()
    for way in ways.values():
        way()
    return ways


def tokens(con: duckdb.DuckDBPyConnection) -> dict[str, Callable[[], object]]:
    """Each sealed token's answer by the plumbing functions themselves; each used once."""
    ways: dict[str, Callable[[], object]] = {}
    arguments = "['SELECT sex, count(*) AS n, avg(age) > 3 AS b FROM visits GROUP BY sex', '0.1', '0', NULL, 'auto', "
    row = con.execute(f"SELECT __dp_bind('dp_query', {arguments} 'false', 'true', NULL, NULL], [])").fetchone()
    assert row is not None
    token = re.search(r"__dp_rows\('([^']+)'\)", row[0])[1]  # type: ignore[index]
    problem = "SELECT error(x) FROM (SELECT __dp_ask(?) AS x) WHERE x <> ''"
    ways["ask"] = lambda: con.execute(problem, [token]).fetchall()
    rows = "SELECT error(x[1][1]) FROM (SELECT __dp_rows(?) AS x) WHERE x[1][1] IS NOT NULL"
    ways["rows"] = lambda: con.execute(rows, [token]).fetchall()
    for kind, index in (("text", 0), ("i64", 1), ("bool", 2), ("f64", 3)):
        ways[f"{kind} {index}"] = lambda kind=kind, index=index: con.execute(
            f"SELECT __dp_{kind}(?, {index})", [token]
        ).fetchall()
    for way in ways.values():
        way()
    return ways


@pytest.mark.parametrize(
    ("con", "stop"), [("front", "revoke"), ("front", "freeze"), ("registered", "revoke")], indirect=["con"]
)
def test_a_front_gives_nothing_more(stop: str, curator: duckdp.Curator, con: duckdb.DuckDBPyConnection) -> None:
    ways, sealed = fetched(con), tokens(con)
    copied = con.execute("SELECT count(*) FROM c0").fetchall()
    charges = len(curator.ledger.charges())
    STOPS[stop](curator)
    for name, way in ways.items():
        with pytest.raises(duckdb.Error, match="B103"):
            way()
            raise AssertionError(name)
    for name, way in sealed.items():
        with pytest.raises(duckdb.Error):
            way()
            raise AssertionError(name)
    assert len(curator.ledger.charges()) == charges
    assert con.execute("SELECT count(*) FROM c0").fetchall() == copied  # what was copied is the analyst's own
    if stop == "freeze":
        curator.unfreeze(reason="looked at")
        for way in [*ways.values(), *sealed.values()]:
            way()
        assert len(curator.ledger.charges()) == charges


@pytest.mark.parametrize("stop", STOPS)
def test_a_session_gives_nothing_more(stop: str, curator: duckdp.Curator, tmp_path: Path) -> None:
    session = curator.session("ana")
    numbers = iter(range(1000))
    target: Callable[[], str] = lambda: str(tmp_path / f"{next(numbers)}")  # noqa: E731
    ways: dict[str, Callable[[], Any]] = {
        "sql": lambda: session.sql("SELECT count(*) FROM visits", epsilon=1),
        "sql on their own instance": lambda: session.sql("SELECT 1"),
        "explain": lambda: session.explain("SELECT count(*) FROM visits", epsilon=1),
        "noisy_count": lambda: session.noisy_count("visits", epsilon=1),
        "median_smooth": lambda: session.median_smooth("visits", "age", epsilon=1),
        "smooth_summary": lambda: session.smooth_summary("visits", ["age"], epsilon=1, degree=2, name="a"),
        "explain_summary": lambda: session.explain_summary("visits", ["age"], epsilon=1, degree=2),
        "routed": lambda: session.sql("SELECT avg(age) FROM visits", epsilon=1, tolerance=1000),
        "smooth_answer": lambda: session.smooth_answer("a", "age"),
        "smooth_answers": lambda: session.smooth_answers("a", ["age"]),
        "synthesize": lambda: session.synthesize("visits", epsilon=1, columns=["age"], rows=50, name="s"),
        "stored table": lambda: session.synthesize("s"),
        "explain_synthesize": lambda: session.explain_synthesize("visits", epsilon=1, columns=["age"]),
        "export_summary": lambda: session.export_summary("a", target()),
        "export_tables": lambda: session.export_tables(["s"], target()),
        "synthetic_report": lambda: session.synthetic_report("s"),
        "budget": session.budget,
        "ledger": session.ledger,
        "summaries": session.summaries,
        "catalog": session.catalog,
        "connect": lambda: curator.connect("ana"),
        "session": lambda: curator.session("ana"),
    }
    for way in ways.values():
        way()
    STOPS[stop](curator)
    for name, way in ways.items():
        with pytest.raises(BudgetError) as caught:
            way()
            raise AssertionError(name)
        assert caught.value.code == "B103", name


def test_a_ledgers_place_is_the_owners(
    curator: duckdp.Curator, con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = curator.ledger.path

    def busy(*_: object) -> None:
        raise LedgerError("B206", f'the ledger "{path}" is in use by another process. Try again.', path=path)

    monkeypatch.setattr(type(curator.ledger), "require_open", busy)
    with pytest.raises(duckdb.Error) as caught:
        con.execute("FROM dp_noisy_count('visits', epsilon := 0.1)")
    assert 'B206: the ledger "..." is in use' in str(caught.value)
    assert path not in str(caught.value)
    monkeypatch.undo()
    front = curator.front("ana")
    monkeypatch.setattr(type(curator.ledger), "require_open", busy)
    with pytest.raises(DuckDPError) as own:
        front.sql("FROM dp_noisy_count('visits', epsilon := 0.1)")
    assert own.value.code == "B206"

"""All k-way tables from one release: exact cells, which way is taken, coverage, agreement, refusals, through SQL."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import duckdp
from duckdp import Curator
from duckdp.core.types import ATTO, NANO, Neighbours
from duckdp.mechanisms.noisy_tables import BITS
from duckdp.smooth.buy.marginal_task import MarginalTask, plan_marginals
from tests.smooth.tables import column, connect, run, table

COUNT = 3000
DOMAINS: dict[str, list[Any]] = {"a": [False, True], "b": [False, True], "s": ["u", "v", "w"], "g": [1, 2, 3, 4]}
TABLE = table(
    *(column(n, None, None, "BOOLEAN", domain=(False, True), nullable=False) for n in "ab"),
    column("s", None, None, "VARCHAR", domain=("u", "v", "w"), nullable=False),
    column("g", None, None, "INTEGER", domain=(1, 2, 3, 4), nullable=False),
    row_cap=10_000,
    expected_rows=COUNT,
)


def rows(seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    found = {"a": rng.random(COUNT) < 0.3, "s": rng.choice(["u", "v", "w"], COUNT), "g": rng.integers(1, 5, COUNT)}
    return pa.table({**found, "b": np.asarray(found["a"]) ^ (rng.random(COUNT) < 0.2)})


def plan(columns: str = "absg", k: int = 2, **more: Any) -> MarginalTask:
    terms = {"epsilon_nano": NANO, "neighbours": Neighbours.ADD_REMOVE, "delta_atto": 0, **more}
    return plan_marginals(TABLE, list(columns), k, **terms)


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as opened:
        opened.register("given", rows())
        opened.execute("CREATE TABLE t AS SELECT a, b, s, CAST(g AS INTEGER) AS g FROM given")
        yield opened


def true_counts(columns: str, k: int) -> Counter[tuple[Any, ...]]:
    """Of every cell, from the rows themselves."""
    listed = rows().to_pylist()
    return Counter(
        (some, tuple(row[name] for name in some)) for some in itertools.combinations(columns, k) for row in listed
    )


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_cells_are_counts(con: duckdb.DuckDBPyConnection, k: int) -> None:
    """Without noise both ways give every count, to the error that is said of sums."""
    task, expected = plan(k=k), true_counts("absg", k)
    exact = task.summary.exact(run(con, task.summary.query(1)))
    query = task.read.query()
    of_tables = task.read.collect(con.execute(query.sql, list(query.parameters)).fetchall())
    place = 0
    for t in task.noise.nested.tables:
        names = tuple(n for n, at in zip("absg", t, strict=True) if at)
        for where in np.ndindex(task.noise.nested.shape(t)):
            values = tuple(DOMAINS[n][where["absg".index(n)]] for n in names)
            assert of_tables[place] == expected[names, values] << BITS
            by_basis = task.combination(t, where) @ np.array([v / 2**task.summary.moments.bits for v in exact])
            assert by_basis == pytest.approx(expected[names, values], abs=1e-3)
            place += 1
    assert place == len(of_tables) == task.noise.nested.cells


@pytest.mark.parametrize(("k", "delta", "basis"), [(1, 0, True), (2, 0, False), (3, ATTO // 10**6, False)])
def test_intervals_cover_and_tables_agree(con: duckdb.DuckDBPyConnection, k: int, delta: int, basis: bool) -> None:
    task, expected = plan(k=k, delta_atto=delta), true_counts("absg", k)
    assert task.by_basis is basis
    query = task.query(1)
    exact = con.execute(query.sql, list(query.parameters)).fetchall()
    inside = narrow = cells = 0
    for _ in range(60 if k == 1 else 25):  # releases of many cells, of which those of one depend: .95, deviation .01
        found = task.cells(task.release(iter(exact)))
        cells += len(found)
        inside += sum(abs(c.count - expected[c.columns, c.values]) <= c.half_width for c in found)
        narrow += sum(abs(c.count - expected[c.columns, c.values]) <= c.half_width / 2 for c in found)
    assert inside / cells > 0.85
    assert narrow / cells < 0.85  # the broken twin: half of the interval
    assert {(c.columns, c.values) for c in found} >= set(expected)
    sums = Counter[tuple[str, ...]]()
    for c in found:
        sums[c.columns] += c.count  # type: ignore[assignment]
    totals = list(sums.values())
    assert totals == pytest.approx([totals[0]] * len(totals), abs=1e-3)  # all tables have the same rows
    of_a: dict[tuple[str, ...], float] = {}
    for c in found:
        if c.columns[0] == "a" and c.values[0]:
            of_a[c.columns] = of_a.get(c.columns, 0) + c.count
    first = next(iter(of_a.values()))
    assert list(of_a.values()) == pytest.approx([first] * len(of_a), abs=1e-3)


def test_errors_are_as_predicted(con: duckdb.DuckDBPyConnection) -> None:
    for more in ({"k": 1}, {"k": 3, "delta_atto": ATTO // 10**6}):
        task = plan(**more)
        expected = true_counts("absg", task.k)
        query = task.query(1)
        exact = con.execute(query.sql, list(query.parameters)).fetchall()
        errors = [
            c.count - expected[c.columns, c.values] for _ in range(25) for c in task.cells(task.release(iter(exact)))
        ]
        assert float(np.sqrt(np.mean(np.square(errors)))) == pytest.approx(min(task.errors), rel=0.35)


def test_the_better_way_is_taken_and_said() -> None:
    for k, delta in itertools.product((1, 2, 3, 4), (0, ATTO // 10**6)):
        task = plan(k=k, delta_atto=delta)
        assert task.by_basis is (task.errors[0] <= task.errors[1])
        said = "\n".join(task.describe())
        assert "instead of" in said and f"{min(task.errors):.3g} rows" in said
        assert task.loss.epsilon_nano == NANO


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Curator]:
    with duckdp.open({"t": rows()}, ledger=tmp_path / "t.ledger") as opened:
        opened.protect("t", row_cap=10_000, expected_rows=COUNT, domains=DOMAINS)
        opened.budget(epsilon=10)
        opened.grant("ana", epsilon=10)
        yield opened


def test_through_sql(owner: Curator) -> None:
    con, ana = owner.connect("ana"), owner.session("ana")
    found = con.execute("FROM dp_marginals('t', ['a', 's'], epsilon := 1)").fetchall()
    expected = true_counts("as", 2)
    assert len(found) == 6
    for names, values, count, half_width in found:
        first, second = values.split(", ")
        assert names == "a, s"
        assert abs(count - expected[("a", "s"), (first == "True", second)]) < 4 * half_width
    assert ana.marginals("t", ["a", "s"], epsilon=1).rows() == found, "stored: free"
    said = con.execute("FROM dp_explain_marginals('t', ['a', 's', 'g'], k := 1, epsilon := 1)").fetchall()
    assert any("all 3 tables over 1 of 3 columns, 9 cells" in line for (line,) in said)
    assert len(owner.ledger.charges()) == 1


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("['a', 'b'], k := 3", "k"),
        ("['a', 'b'], k := 0", "k"),
        ("['a', 'a']", "columns"),
        ("[]", "columns"),
    ],
)
def test_what_is_refused_is_not_charged(owner: Curator, call: str, name: str) -> None:
    con = owner.connect("ana")
    for function in ("dp_marginals", "dp_explain_marginals"):
        with pytest.raises(duckdb.Error, match=f"P107: {name}="):
            con.execute(f"FROM {function}('t', {call}, epsilon := 1)")
    assert owner.ledger.charges() == []


def test_columns_that_are_not_listed_and_too_many_cells() -> None:
    wide = table(
        column("x", 0, 1),
        *(column(f"c{i}", None, None, "INTEGER", domain=tuple(range(60))) for i in range(4)),
        row_cap=1000,
    )
    charge: dict[str, Any] = {"epsilon_nano": NANO, "neighbours": Neighbours.ADD_REMOVE, "delta_atto": 0}
    for columns, k, name in ((["x"], 1, "columns"), (["c0", "c1", "c2"], 3, "k")):
        with pytest.raises(duckdp.errors.ParameterError) as error:
            plan_marginals(wide, columns, k, **charge)
        assert (error.value.code, error.value.name) == ("P107", name)


def test_weights_that_are_rounded_down_widen_the_bars() -> None:
    keyed = replace(TABLE, unit_key="pid", unit_type="INTEGER", max_rows=1)
    terms = {"epsilon_nano": NANO, "neighbours": Neighbours.ADD_REMOVE, "delta_atto": 0}
    ones = [plan_marginals(t, ["s", "g"], 2, **terms) for t in (keyed, TABLE)]
    assert ones[0].noise == ones[1].noise
    widths = [next(t._of_tables([0] * t.noise.nested.cells)).half_width for t in ones]
    assert widths[0] - widths[1] == pytest.approx(TABLE.row_cap * 2.0**-BITS)


@pytest.fixture
def riders(tmp_path: Path) -> Iterator[Curator]:
    many = range(1000)
    given = {"plan": ["ab"[i % 2] for i in many], "letter": [None if i % 10 == 0 else i % 3 == 0 for i in many]}
    rows = pa.table({**given, "p": list(many)})
    with duckdp.open({"t": rows, "kept": rows}, ledger=str(tmp_path / "l")) as curator:
        domains = {"plan": ["a", "b"], "letter": [True, False]}
        curator.protect("t", unit_key="p", max_rows=1, row_cap=1000, domains=domains)
        rules: dict[str, Any] = {"nulls": {"letter": False, "plan": "a"}, "other": {"plan": "b"}}
        curator.protect("kept", unit_key="p", max_rows=1, row_cap=1000, domains=domains, **rules)
        curator.budget(epsilon=1000)
        curator.grant("ana", epsilon=1000)
        yield curator


def test_rows_that_are_in_no_table_are_told_of(riders: Curator) -> None:
    ana = riders.session("ana")
    found = ana.marginals("t", ["plan", "letter"], k=1, epsilon=50)
    assert sum(row[2] for row in found if row[0] == "plan") == pytest.approx(900, abs=30)  # the tenth has NULL
    told = "a row with NULL in plan or letter, or a value outside the domain of plan is in none of the tables"
    assert any(note.startswith(told) for note in found.notes)
    assert told in str(ana.explain_marginals("t", ["plan", "letter"], k=1, epsilon=50))
    kept = ana.marginals("kept", ["plan", "letter"], k=1, epsilon=50)  # the twin: with rules every row is in each
    assert sum(row[2] for row in kept if row[0] == "plan") == pytest.approx(1000, abs=30)
    assert "in none of the tables" not in str(kept.notes) + str(
        ana.explain_marginals("kept", ["plan"], k=1, epsilon=50)
    )

"""dp_mst_cost as users have it: SQL, session, charges, refusals, graphs in parts; what is read of edges; an audit."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler.edges import SpanningTreeTask
from duckdp.core.types import NANO
from duckdp.mechanisms.admissible_noise import AdmissibleNoise
from duckdp.mechanisms.spanning_tree import Edges, SpanningTree
from tests.gate import load
from tests.mechanisms.test_spanning_tree import cost_of
from tests.privacy import audits
from tests.privacy.draws import KEYED, ROWS, _random_row
from tests.privacy.smooth_tasks import spanning_tree

Rows = list[tuple[Any, ...]]
TOWNS = ["a", "b", "c", "d"]


def edges(rows: Rows) -> pa.Table:
    """Rows (u, v, km, owner)."""
    names, kinds = ("u", "v", "km", "owner"), (pa.string(), pa.string(), pa.float64(), pa.int64())
    return pa.table({n: pa.array([r[i] for r in rows], k) for i, (n, k) in enumerate(zip(names, kinds, strict=True))})


def opened(folder: Path, rows: Rows, **more: Any) -> Any:
    """A curator of edges."""
    curator = duckdp.open({"roads": edges(rows)}, ledger=folder / "graphs.ledger")
    shape = {"row_cap": 1000, "bounds": {"km": (1, 9)}, "domains": {"u": TOWNS, "v": TOWNS}, **more}
    curator.protect("roads", **shape)
    curator.budget(epsilon=10**6)
    curator.grant("ana", epsilon=10**6)
    return curator


@pytest.fixture
def roads(tmp_path: Path) -> Iterator[Any]:
    rows = [("a", "b", 2.0, 1), ("b", "c", 3.0, 1), ("a", "c", 8.0, 2), ("c", "a", 4.0, 2), ("c", "d", 5.0, 3)]
    # a loop, an end that is none of the vertices, NULLs; two more of one owner
    rows += [("a", "a", 1.0, 4), ("a", "z", 1.0, 4), (None, "b", 1.0, 4), ("a", "b", None, 4)]
    with opened(tmp_path, rows) as curator:
        yield curator


def test_sql_and_session_give_the_cost(roads: Any) -> None:
    session, con = roads.session("ana"), roads.connect("ana")
    found = session.mst_cost("roads", "u", "v", "km", epsilon=100, method="laplace")
    estimate = found.columns[0].estimates[0]
    assert estimate.value == pytest.approx(10, abs=3)  # 2 + 3 + 5
    assert estimate.low <= estimate.value <= estimate.high
    again = con.execute("FROM dp_mst_cost('roads', 'u', 'v', 'km', epsilon := 100, method := 'laplace')").fetchall()
    assert again == [(estimate.value, estimate.standard_error, estimate.low, estimate.high)]
    one = con.execute("SELECT dp_mst_cost('roads', 'u', 'v', 'km', epsilon := 100, method := 'laplace')").fetchone()
    assert one == (estimate.value,)
    assert [(c.mechanism, c.loss.epsilon_nano) for c in roads.ledger.charges()] == [("laplace", 100 * NANO)]


def test_a_smooth_scale_with_its_interval(roads: Any) -> None:
    call = "FROM dp_mst_cost('roads', 'u', 'v', 'km', epsilon := 20, method := 'smooth'"
    con = roads.connect("ana")
    ((value, error, low, high),) = con.execute(f"{call}, intervals := true)").fetchall()
    assert 3 <= low <= value <= high <= 27
    assert error is None
    assert len(con.execute(f"{call})").fetchall()[0]) == 1
    told = "\n".join(r[0] for r in con.execute(f"{call}, intervals := true)".replace("dp_", "dp_explain_")).fetchall())
    assert "cost of a minimum spanning tree of 4 public vertices" in told
    assert "sensitivity from all cuts" in told
    assert "for a bound on its scale" in told
    assert len(list(roads.ledger.charges())) == 2


def test_graphs_in_parts_and_without_edges_have_a_cost(tmp_path: Path) -> None:
    """Two vertices without an edge have one of the upper bound's weight: the cost is defined, and public if none is."""
    for name, rows, wanted in (("none", [], 27), ("parts", [("a", "b", 2.0, 1), ("c", "d", 1.0, 1)], 12)):
        (tmp_path / name).mkdir()
        with opened(tmp_path / name, rows) as curator:
            session = curator.session("ana")
            for method in ("laplace", "smooth"):
                found = session.mst_cost("roads", "u", "v", "km", epsilon=99, method=method)
                assert found.rows()[0][0] == pytest.approx(wanted, abs=4)


def test_what_cannot_be_asked_is_refused_before_a_charge(roads: Any) -> None:
    session = roads.session("ana")
    for given, code in (
        ({"start": "km"}, "Q303"),
        ({"end": "nobody"}, "Q2"),
        ({"weight": "u"}, "Q203"),
        ({"weight": "owner"}, "C102"),
        ({"method": "exact"}, "P107"),
        ({"epsilon": 0}, "P101"),
    ):
        with pytest.raises(duckdp.errors.DuckDPError) as caught:
            session.mst_cost(**{"table": "roads", "start": "u", "end": "v", "weight": "km", "epsilon": 1, **given})
        assert caught.value.code.startswith(code), (given, caught.value)
    assert not list(roads.ledger.charges())


def test_the_way_with_the_least_expected_error_is_taken() -> None:
    few = [spanning_tree(replace(ROWS, expected_rows=3), epsilon_nano=8 * NANO, method=m) for m in ("auto", "smooth")]
    assert few[0].public
    assert few[0].predicted < few[1].predicted
    ends = ("age", "floor(age / 2)")
    ways = [
        spanning_tree(ROWS, "income", ends, epsilon_nano=30 * NANO, method=m) for m in ("laplace", "smooth", "auto")
    ]
    assert ways[2].predicted == min(ways[0].predicted, ways[1].predicted)
    assert ways[2].public == (ways[0].predicted < ways[1].predicted)


# ---- what is read


def edges_read(con: duckdb.DuckDBPyConnection, task: SpanningTreeTask, rows: Rows) -> list[tuple[int, int, int]]:
    load(con, task.table, rows)
    query = task.query(7)
    found = con.execute(query.sql, list(query.parameters)).fetchall()
    return sorted((i, j, x) for i, j, x, count in found for _ in range(count))


def test_a_unit_adds_so_many_edges_and_changes_no_other() -> None:
    task, rng = spanning_tree(KEYED, "age", ("town", "sex")), random.Random(3)
    assert task.tree.unit == 3
    most = 0
    with duckdb.connect() as con:
        for size in (1, 2, 9, 30, 30, 30):
            rows = [(rng.randint(0, 8), *_random_row(rng)) for _ in range(30)]
            other = [*rows, *((99, *_random_row(rng)) for _ in range(size))]
            one, two = edges_read(con, task, rows), edges_read(con, task, other)
            for edge in one:
                two.remove(edge)
            most = max(most, len(two))
    assert 0 < most <= 3


def test_edges_are_those_of_plain_sql(tmp_path: Path) -> None:
    """Ends in either order, vertices numbered as they are listed, the lightest rows of each pair."""
    rng = random.Random(4)
    rows = [(*(rng.choice([*TOWNS, "z", None]) for _ in "ij"), rng.choice([1.0, 5.0, 9.0, None]), 1) for _ in range(60)]
    both = [(i, j, w) for i, j, w, _ in rows if i in TOWNS and j in TOWNS and w and i != j]
    kept = [(*sorted((TOWNS.index(i), TOWNS.index(j))), w) for i, j, w in both]
    met: list[Edges] = []
    with pytest.MonkeyPatch.context() as patch, opened(tmp_path, rows) as curator:
        plain = SpanningTree.figures
        patch.setattr(SpanningTree, "figures", lambda self, edges: met.append(edges) or plain(self, edges))
        curator.session("ana").mst_cost("roads", "u", "v", "km", epsilon=1)
    steps = 2**32 / 8
    found = sorted(
        zip(met[0].first.tolist(), met[0].second.tolist(), (met[0].weight / steps + 1).tolist(), strict=True)
    )
    assert found == sorted(kept)
    assert cost_of([(i, j, int(w)) for i, j, w in kept], 4, 9) >= 3


def test_intervals_cover_through_the_whole_way() -> None:
    """A task's payloads of one table, 600 times: the true cost lies within at least as often as is said."""
    rows = [(i, j, w) for (i, j), w in zip(itertools.combinations(range(2), 2), (3,), strict=True)]
    for method, share in (("smooth", 0.95), ("laplace", 0.95)):
        task = spanning_tree(ROWS, "age", intervals=True, method=method, epsilon_nano=8 * NANO)
        true = sum(w for *_, w in rows)
        hits = 0
        for _ in range(600):
            estimate = task.read(task.release([(i, j, w, 1) for i, j, w in rows]))
            assert estimate.low is not None and estimate.high is not None
            hits += estimate.low <= true <= estimate.high
        assert hits / 600 > share - 5.4 * math.sqrt(share * (1 - share) / 600)


# ---- an audit of what SQL gives on neighbouring tables

EPSILON = 2


def _prepare(twin: str | None) -> None:
    """A part of the package replaced by a broken one, in this process."""
    plain = AdmissibleNoise.add
    if twin:
        AdmissibleNoise.add = lambda self, value, s, top: plain(self, value, s / 30, top)  # type: ignore[method-assign]


def audited(runs: int, twin: str | None = None) -> float:
    """Lower bound of epsilon from costs of one edge and of none."""
    one = edges([("a", "b", 1.0, 1)])
    declared = {"unit_key": None, "row_cap": 1000, "bounds": {"km": (1, 9)}, "domains": {"u": TOWNS, "v": TOWNS}}
    terms = f"epsilon := {EPSILON}, method := 'smooth', intervals := true, fresh := true"
    ask = f"FROM dp_mst_cost('t', 'u', 'v', 'km', {terms})"
    name = twin or "as shipped"
    return audits.lower_bound(name, (one, one[:0]), ask, runs, partial(_prepare, twin), EPSILON, **declared)


@pytest.mark.slow
def test_releases_through_sql_are_as_private_as_charged() -> None:
    assert audited(audits.RUNS) <= EPSILON


@pytest.mark.slow
def test_the_twin_with_a_thirtieth_of_the_noise_is_caught() -> None:
    assert audited(audits.TWIN_RUNS, "a thirtieth of the noise") > EPSILON


def test_costs_that_are_read_by_other_constants_are_other_questions() -> None:
    task = spanning_tree(KEYED, method="smooth", intervals=True)
    noise = task.bound.noise
    others = [replace(noise, alpha=noise.alpha / 2), replace(noise, beta=noise.beta / 2), replace(noise, family="none")]
    bounds = [replace(task.bound, epsilon=task.bound.epsilon / 2), *(replace(task.bound, noise=n) for n in others)]
    assert len({replace(task, bound=b).canonical for b in [*bounds, task.bound]}) == 5

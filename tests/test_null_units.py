"""Keys that name nobody: their rows count in no private read, exactly as if the key were NULL."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.compiler import emit, quantile
from duckdp.core.reads import PrivateQuery
from duckdp.errors import ParameterError
from duckdp.owner import compare
from duckdp.session import Session
from duckdp.smooth.sums import scan
from duckdp.synthetic.theorem import buy as theorem
from duckdp.synthetic.unit.buy import reading as wide
from duckdp.vault.engine import Engine

SOME, OTHER = str(uuid.UUID(int=7)), str(uuid.UUID(int=8))
KEYS = {
    "INTEGER": ("(i % 40)", [0, 7]),
    "HUGEINT": ("(i % 40 + 9007199254740992)::HUGEINT", [9007199254740993]),  # 2^53 + 1: no DOUBLE
    "VARCHAR": ("['p' || i, 'unknown', '', 'Unknown'][1 + i % 4]", ["unknown", ""]),
    "UUID": (
        "['00000000-0000-0000-0000-000000000007', '00000000-0000-0000-0000-000000000008'][1 + i % 2]",
        [SOME.upper()],
    ),
}
FIGURES: dict[str, Any] = {
    "row_cap": 1000,
    "expected_rows": 600,
    "unit_key": "who",
    "max_rows": 3,
    "max_groups": 2,
    "bounds": {"x": (0, 10), "y": (0, 5)},
    "domains": {"s": ["a", "b"]},
    "columns": ["t", "f"],
}
Ask = Callable[[Session], object]
TASKS: dict[str, Ask] = {
    "select": lambda s: s.sql("SELECT s, count(*), avg(x), var_pop(y) FROM t GROUP BY s", epsilon=1),
    "filter": lambda s: s.sql("SELECT sum(x) FILTER (WHERE f) FROM t WHERE y > 1", epsilon=1),
    "units": lambda s: s.sql("SELECT count(DISTINCT who) FROM t", epsilon=1),
    "open keys": lambda s: s.sql("SELECT t, count(*) FROM t GROUP BY t", epsilon=1, delta="1e-6"),
    "quantile": lambda s: s.median_smooth("t", "x", epsilon=1),
    "noisy count": lambda s: s.noisy_count("t", epsilon=1, unit=True),
    "summary": lambda s: s.smooth_summary("t", ["x", "y"], epsilon=1, degree=4, name="s"),
    "long summary": lambda s: s.smooth_summary("t", ["x"], epsilon=1, degree=40, name="s"),
    "counted summary": lambda s: s.smooth_summary("t", ["x"], epsilon=1, smoothness=3, name="s"),
    "lp": lambda s: s.synthesize("t", epsilon=1, rows=50, columns=["x"], method="lp"),
    "theorem": lambda s: s.synthesize("t", epsilon=1, rows=50, columns=["x"], method="theorem"),
    "moments": lambda s: s.synthesize("t", epsilon=1, rows=50, method="moments"),
    "psi": lambda s: s.synthesize("t", epsilon=1, rows=50, columns=["x", "y", "s"], method="psi"),
    "tree": lambda s: s.synthesize("t", epsilon=1, rows=50, method="tree"),
}


@pytest.fixture(params=sorted(KEYS))
def key(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def open_with(key: str, folder: Path, nobody: bool) -> duckdp.Curator:
    """600 rows whose key is sometimes one that names nobody, or there NULL."""
    values, null_units = KEYS[key]
    column = f"CAST({values} AS {key})"
    if nobody:
        listed = ", ".join(f"CAST('{v}' AS {key})" for v in null_units)
        column = f"CASE WHEN {column} NOT IN ({listed}) THEN {column} END"
    path = str(folder / f"{nobody}.duckdb")
    with duckdb.connect(path) as con:
        con.execute(
            f"CREATE TABLE t AS SELECT {column} AS who, (i % 40 + 4) / 5.0 AS x, (i % 7) / 2.0 AS y, "
            "['a', 'b', 'c'][1 + i % 3] AS s, "
            "'k' || (i % 5) AS t, i % 2 = 0 AS f FROM range(600) r(i)"
        )
    return duckdp.open(path, ledger=str(folder / f"{nobody}.ledger"))


@pytest.fixture
def pair(key: str, tmp_path: Path) -> Iterator[tuple[duckdp.Curator, duckdp.Curator]]:
    """The data with sentinels, which are declared, and the data with NULLs."""
    with open_with(key, tmp_path, nobody=False) as told, open_with(key, tmp_path, nobody=True) as null:
        for curator, null_units in ((told, KEYS[key][1]), (null, [])):
            curator.protect("t", null_units=null_units, **FIGURES)
            curator.budget(epsilon=100, delta="1e-3")
            curator.grant("ana", epsilon=100, delta="1e-3")
        yield told, null


def reads(curator: duckdp.Curator, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> list[PrivateQuery]:
    """The private reads of a question."""
    found: list[PrivateQuery] = []
    real = Engine.run

    def run(self: Engine, query: PrivateQuery, charge: Any) -> Iterator[tuple[Any, ...]]:
        found.append(query)
        return real(self, query, charge)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "run", run)
        ask(curator.session("ana"))
    return found


def exact(curator: duckdp.Curator, query: PrivateQuery) -> list[str]:
    cursor = curator.engine.schema_cursor()
    return sorted(map(repr, cursor.execute(query.sql, list(query.parameters)).fetchall()))


def same(told: duckdp.Curator, null: duckdp.Curator, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether every private read finds the same rows in the data with sentinels as in that with NULLs."""
    found = reads(told, ask, monkeypatch)
    assert found
    return all(exact(told, q) == exact(null, q) for q in found)


@pytest.mark.parametrize(
    ("key", "name"),
    [("INTEGER", n) for n in sorted(TASKS)]
    + [(k, n) for k in ("HUGEINT", "UUID", "VARCHAR") for n in ("quantile", "select", "summary", "units")],
    indirect=["key"],
)
def test_every_read_drops_them(
    name: str, pair: tuple[duckdp.Curator, duckdp.Curator], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert same(*pair, TASKS[name], monkeypatch)


@pytest.mark.parametrize("key", ["INTEGER"], indirect=True)
@pytest.mark.parametrize("name", sorted(TASKS))
def test_the_comparison_finds_a_read_that_does_not(
    name: str, pair: tuple[duckdp.Curator, duckdp.Curator], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = emit.print_rows

    def forgetful(table: Any, *rest: Any, **more: Any) -> str:
        return real(replace(table, null_units=()), *rest, **more)

    for module in (emit, quantile, scan, theorem, wide):
        monkeypatch.setattr(module, "print_rows", forgetful)
    assert not same(*pair, TASKS[name], monkeypatch)


def test_the_owner_compares_the_same_rows(pair: tuple[duckdp.Curator, duckdp.Curator]) -> None:
    told, null = (compare(c, "t", {"x": [1.0], "s": ["a"]}) for c in pair)
    assert told.real_rows == null.real_rows
    assert told.text == null.text


def test_the_question_is_another(pair: tuple[duckdp.Curator, duckdp.Curator]) -> None:
    told, _ = pair
    ana = told.session("ana")
    ana.sql("SELECT count(*) FROM t", epsilon=1)
    told.protect("t", **FIGURES)
    assert ana.sql("SELECT count(*) FROM t", epsilon=1).cost != "nothing"


def test_it_is_said(pair: tuple[duckdp.Curator, duckdp.Curator], key: str) -> None:
    told, _ = pair
    ana = told.session("ana")
    shown = [str(told.table("t")), ana.explain("SELECT count(*) FROM t", epsilon=1).plan]
    for ask in ("FROM dp_explain_summary('t', ['x'], epsilon := 1)", "FROM dp_explain_synthesize('t', epsilon := 1)"):
        shown.append(str(ana.sql(ask)))
    value = str(KEYS[key][1][0]).lower()
    for text in shown:
        assert "have no unit and do not count" in text
        assert value in text


@pytest.mark.parametrize(
    ("key", "bad"),
    [
        ("INTEGER", ["0"]),
        ("INTEGER", [2**31]),
        ("INTEGER", [True]),
        ("INTEGER", [0.0]),
        ("INTEGER", [0, 0]),
        ("INTEGER", 0),
        ("VARCHAR", "unknown"),
        ("VARCHAR", [0]),
        ("VARCHAR", ["a\0"]),
        ("VARCHAR", [None]),
        ("UUID", ["nobody"]),
        ("VARCHAR", [str(i) for i in range(1001)]),
    ],
    indirect=["key"],
)
def test_they_are_values_of_the_keys_type(key: str, bad: object, pair: tuple[duckdp.Curator, duckdp.Curator]) -> None:
    with pytest.raises(ParameterError) as caught:
        pair[0].protect("t", null_units=bad, **FIGURES)  # type: ignore[arg-type]
    assert caught.value.code == ("P104" if isinstance(bad, list) else "P107")


def test_rows_have_no_key(pair: tuple[duckdp.Curator, duckdp.Curator]) -> None:
    with pytest.raises(ParameterError) as caught:
        pair[0].protect("t", row_cap=10, null_units=[0])
    assert caught.value.code == "P107"

"""What a synthetic table would buy, before a charge; and options that the chosen method would not heed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import duckdp
from duckdp.errors import ParameterError

ROWS = 20_000  # noise must not drown them


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[duckdp.Curator]:
    frame = pa.table(
        {
            "x": [i % 100 / 100 for i in range(ROWS)],
            "y": [(i * 37 % 100) / 100 for i in range(ROWS)],
            "city": ["abc"[i % 3] for i in range(ROWS)],
            "kind": ["uv"[i % 2] for i in range(ROWS)],
        }
    )
    with duckdp.open({"t": frame}, ledger=str(tmp_path / "t.ledger")) as curator:
        curator.protect(
            "t",
            row_cap=200_000,
            expected_rows=100_000,
            bounds={"x": (0, 1), "y": (0, 1)},
            nulls={"x": 0, "y": 0},
            domains={"city": ["a", "b", "c"], "kind": ["u", "v"]},
        )
        curator.budget(epsilon=5, delta="1e-5")
        curator.grant("ana", epsilon=5, delta="1e-5")
        yield curator


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ["method: tree", "laplace noise; 4 columns", "one", "cost: epsilon=1"]),
        ({"method": "moments", "target": "kind"}, ["method: moments, cube noise", "label", "association"]),
        ({"method": "psi"}, ["method: psi"]),
        ({"columns": ["x", "y"]}, ["method: tree, laplace noise; 2 columns"]),
        ({"columns": ["x"]}, ["method: tree, laplace noise; 1 columns"]),
        ({"columns": ["x", "y"], "degree": 9}, ["method: lp", "sums", "standard error of one sum"]),
        ({"columns": ["x", "y"], "method": "theorem"}, ["Theorem 17", "bound (22)", "t = ", "N = "]),
        ({"columns": ["x"], "method": "theorem", "delta": "1e-6"}, ["Theorem 22", "delta=1e-6"]),
    ],
)
def test_the_plan_is_told_free_and_costs_what_it_says(owner: duckdp.Curator, given: dict, said: list[str]) -> None:
    ana = owner.session("ana")
    text = "\n".join(line for (line,) in ana.explain_synthesize("t", epsilon=1, **given).rows())
    for part in said:
        assert part in text, text
    assert owner.ledger.charges() == []
    ana.synthesize("t", epsilon=1, rows=20, **given)
    (charge,) = owner.ledger.charges()
    assert f"cost: {charge.loss}" in text


def test_the_same_in_sql(owner: duckdp.Curator) -> None:
    con = owner.connect("ana")
    lines = con.execute("FROM dp_explain_synthesize('t', epsilon := 1, method := 'tree', target := 'kind')").fetchall()
    assert lines[0][0].startswith("method: tree")
    for target in ("''", "NULL"):
        asked = (
            "FROM dp_explain_synthesize('t', epsilon := 0.004, columns := ['x', 'y', 'kind'], method := 'moments', "
            f"target := {target})"
        )
        assert not any("label" in line or "target" in line for (line,) in con.execute(asked).fetchall())
    assert owner.ledger.charges() == []


@pytest.mark.parametrize(
    "given",
    [
        {"method": "tree", "degree": 5},
        {"method": "moments", "smoothness": 2},
        {"method": "psi", "degree": 3},
        {"degree": 4, "target": "kind"},
        {"method": "lp", "columns": ["x"], "target": "kind"},
        {"method": "theorem", "columns": ["x"], "degree": 3},
    ],
)
def test_options_that_would_not_be_heeded_are_refused(owner: duckdp.Curator, given: dict) -> None:
    with pytest.raises(ParameterError) as caught:
        owner.session("ana").synthesize("t", epsilon=1, rows=20, **given)
    assert caught.value.code == "P107"
    assert owner.ledger.charges() == []

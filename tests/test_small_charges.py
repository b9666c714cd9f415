"""The smallest epsilon and delta: every dp function answers, or says that they are too small, as they were given."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import duckdp
from duckdp.functions import FUNCTIONS
from duckdp.functions.spec import REQUIRED, Spec

EPSILON, DELTA = "0.000001", "1e-18"
GOOD: dict[str, Any] = {"table": "t", "x": "x", "y": "x * x", "column": "x", "columns": ["x"], "features": ["x"]}
GOOD |= {"quantiles": [0.5], "k": 1, "keys": "g", "candidates": ["x > 1"], "questions": ["g = 'a'"], "threshold": 1}
GOOD |= {"aggregate": "avg(x)", "target": "x > 1", "statement": "SELECT avg(x) AS a FROM t", "source": "t"}
GOOD |= {"start": "g", "end": "h", "weight": "x"}
CELLS = {name: {"columns": ["g", "h"]} for name in ("pmw_open", "mwem", "small_database", "marginals")}
CELLS["correlations"] = {"columns": ["x", "x * x"]}
MORE = {"explain_summary": [{"ranges": True}, {"noise": "gaussian"}, {"ranges": True, "noise": "gaussian"}]}


def _explanations() -> list[tuple[str, dict[str, Any]]]:
    found = []
    for spec in FUNCTIONS.values():
        if spec.explains:
            given = _given(spec) | CELLS.get(spec.method.removeprefix("explain_"), {})
            found += [(spec.method, given | more) for more in ({}, *MORE.get(spec.method, []))]
    return found


def _given(spec: Spec) -> dict[str, Any]:
    cost = {"epsilon": EPSILON, "delta": DELTA}
    names = {p.name: str(p.python) for p in spec.of("python")}
    needed = {n: GOOD[n] for p in spec.of("python") if p.default is REQUIRED and (n := p.name) in GOOD}
    return {names[n]: value for n, value in {**needed, **cost}.items() if n in names}


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    rows = pa.table({"p": [1, 2], "x": [1.0, 2.0], "g": ["a", "b"], "h": ["a", "b"]})
    with duckdp.open({"t": rows}, ledger=str(tmp_path_factory.mktemp("small") / "l")) as owner:
        owner.protect(
            "t",
            unit_key="p",
            max_rows=1,
            row_cap=1000,
            bounds={"x": (0, 9)},
            domains={"g": ["a", "b"], "h": ["a", "b"]},
        )
        owner.budget(epsilon=1, delta="1e-17")
        owner.grant("bob", epsilon=1, delta="1e-17")
        yield owner


@pytest.mark.parametrize(("method", "given"), _explanations(), ids=lambda v: v if isinstance(v, str) else "")
def test_the_smallest_charge_is_taken_or_refused_as_it_was_given(
    curator: duckdp.Curator, method: str, given: dict[str, Any]
) -> None:
    try:
        getattr(curator.session("bob"), method)(**given)
    except duckdp.errors.DuckDPError as error:
        assert error.code in ("P101", "P102"), error
        shown = re.match(r"P10[12]: (?:epsilon|delta)=(\S+): ", str(error))
        assert shown, error
        assert float(shown[1].strip("'")) in (1e-6, 1e-18), error


def _unscaled(source: str) -> list[int]:
    """Lines where an error shows a count of 1e-9 or 1e-18 by the name of epsilon or delta."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ParameterError" and len(node.args) > 2:
            named, value = node.args[1], node.args[2]
            name = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
            if (
                isinstance(named, ast.Constant)
                and named.value in ("epsilon", "delta")
                and name.endswith(("_nano", "_atto"))
            ):
                found.append(node.lineno)
    return found


def test_no_error_shows_a_charge_in_units_of_the_ledger() -> None:
    package = Path(duckdp.__file__).parent
    found = {str(path): lines for path in package.rglob("*.py") if (lines := _unscaled(path.read_text()))}
    assert found == {}


def test_the_twin_such_an_error_is_found() -> None:
    assert _unscaled('raise ParameterError("P102", "delta", self.delta_atto, "is too small.")') == [1]
    assert _unscaled('raise ParameterError("P102", "delta", show_decimal(self.delta_atto, 18), "is.")') == []

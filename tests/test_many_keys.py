"""Groups, keys and lists of a question have limits, which are looked at before anything is listed, read or charged.

What many keys would take is memory: each call is made in a process that may take so much more than it has, and no more.
Functions are read off their declarations, so that a new one is among them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations, product
from math import prod
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

import duckdp
from duckdp.compiler.query import MOST_KEYS
from duckdp.functions import FUNCTIONS
from duckdp.functions.kinds import Keys
from duckdp.functions.spec import REQUIRED, Parameter, Spec
from duckdp.smooth.buy.marginal_task import _cells_together

ROOM = 2**30  # bytes beyond those that the process has
KEYS = 9  # columns of TEN values each: 10^9 combinations
TEN = [str(i) for i in range(10)]
GOOD: dict[str, Any] = {"table": "t", "x": "x", "y": "x * x", "column": "x", "target": "x * x"}
GOOD |= {"candidates": ["x > 1"], "questions": ["x > 1"], "threshold": 1, "aggregate": "avg(x)"}
GOOD |= {"name": "s", "functions": ["x"], "source": "t"}
GOOD |= {"features": ["x"], "columns": ["x", "x * x"], "quantiles": [0.5], "k": 2, "intervals": True}
_OF_KEYS = get_args(Keys)[1]

CHILD = """
import json, resource, sys
import pyarrow as pa
import duckdp
from tests.test_many_keys import KEYS, ROOM, TEN, calls
from duckdp.errors import DuckDPError

rows = pa.table({"p": [1, 2], "x": [1, 2], **{f"k{i}": ["1", "2"] for i in range(KEYS)}})
with duckdp.open({"t": rows}, ledger=sys.argv[1]) as curator:
    declared = {f"k{i}": TEN for i in range(KEYS)}
    curator.protect("t", unit_key="p", max_rows=2, max_groups=2, bounds={"x": (0, 9)}, domains=declared, row_cap=1000)
    curator.budget(epsilon=1000)
    curator.grant("bob", epsilon=1000)
    bob = curator.session("bob")
    bob.explain("SELECT count(*) AS n FROM t", epsilon=1)  # what is imported late is imported
    bob.explain_covariance("t", "x", "x * x", epsilon=1)
    taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, taken + ROOM))
    found = {}
    for name, (method, given) in calls(json.loads(sys.argv[2])).items():
        try:
            getattr(bob, method)(**given)
            found[name] = "answered"
        except DuckDPError as error:
            found[name] = error.code
        except MemoryError:
            found[name] = "memory"
    charges = len(curator.history(kind="charge"))
print(json.dumps([found, charges]))
"""


def _lists(spec: Spec) -> list[Parameter]:
    """The parameters of a function that are lists, in Python."""
    return [p for p in spec.of("python") if p.kind.listed]


@pytest.fixture(scope="module")
def care(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    rows = {"p": [1, 2], "x": [1, 2], "name": ["a", "b"]}
    yield from _opened(tmp_path_factory.mktemp("lists"), rows, {"x": (0, 9)}, {}, ["name"])


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    names = [f"b{i}" for i in range(33)]
    rows = {"p": [1, 2], **{name: [True, False] for name in names}}
    yield from _opened(tmp_path_factory.mktemp("columns"), rows, {}, {name: [True, False] for name in names})


def _opened(
    folder: Path, rows: dict[str, Any], bounds: Any, domains: Any, columns: Any = ()
) -> Iterator[duckdp.Curator]:
    with duckdp.open({"t": pa.table(rows)}, ledger=str(folder / "l")) as curator:
        curator.protect("t", unit_key="p", max_rows=1, row_cap=1000, bounds=bounds, domains=domains, columns=columns)
        curator.budget(epsilon=100, delta=1e-3)
        curator.grant("bob", epsilon=100, delta=1e-3)
        yield curator


def calls(keys: list[str]) -> dict[str, tuple[str, dict[str, Any]]]:
    """A call of each dp function that takes keys: its method, and arguments by name."""
    return {spec.name: (spec.method, _arguments(spec, keys)) for spec in FUNCTIONS.values() if _keyed(spec)}


def _keyed(spec: Spec) -> list[str]:
    return [str(p.python) for p in spec.of("python") if p.kind is _OF_KEYS]


def _arguments(spec: Spec, keys: list[str]) -> dict[str, Any]:
    needed = {str(p.python): GOOD[p.name] for p in spec.of("python") if p.default is REQUIRED and p.name in GOOD}
    cost = {str(p.python): 1 for p in spec.of("python") if p.name == "epsilon"}
    return needed | dict.fromkeys(_keyed(spec), keys) | cost


def asked(keys: list[str], ledger: Path) -> tuple[dict[str, str], int]:
    """What became of each call in a process of little memory, and how many charges there are."""
    command = [sys.executable, "-c", CHILD, str(ledger), json.dumps(keys)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found, charges = json.loads(done.stdout.splitlines()[-1])
    return found, charges


def test_every_function_that_takes_keys_refuses_a_billion_groups_in_little_memory(tmp_path: Path) -> None:
    found, charges = asked([f"k{i}" for i in range(KEYS)], tmp_path / "many.ledger")
    counted = {n for n, outcome in found.items() if outcome == "answered"}
    assert counted == {"dp_groups_per_unit", "dp_explain_groups_per_unit"}  # groups of each unit, which are few
    assert {o for n, o in found.items() if n not in counted} == {"P107"}, found
    assert {"dp_histogram", "dp_explain_cdf", "dp_top_k", "dp_median_smooth", "dp_quantiles"} <= set(found)
    assert charges == 1  # of the one that answered


def test_more_keys_than_a_question_may_have_are_refused_before_anything_is_charged(tmp_path: Path) -> None:
    found, charges = asked([f"x > {i / 100}" for i in range(MOST_KEYS + 1)], tmp_path / "keys.ledger")
    assert set(found.values()) == {"Q403"}, found
    assert charges == 0
    most, charges = asked([f"x > {i / 10}" for i in range(MOST_KEYS)], tmp_path / "most.ledger")  # the twin: one fewer
    assert most["dp_groups_per_unit"] == "answered"
    assert charges == 1


def test_a_select_has_no_more_keys_either(care: duckdp.Curator) -> None:
    keys = [f"name || '{i}'" for i in range(MOST_KEYS + 1)]
    bob = care.session("bob")
    with pytest.raises(duckdp.errors.QueryError, match="Q403: 65 keys are more than the 64"):
        bob.explain(f"SELECT count(*) AS n FROM t GROUP BY {', '.join(keys)}", epsilon=1, delta=1e-8)
    bob.explain(f"SELECT count(*) AS n FROM t GROUP BY {', '.join(keys[1:])}", epsilon=1, delta=1e-8)  # the twin


@pytest.mark.parametrize("name", sorted(spec.name for spec in FUNCTIONS.values() if _lists(spec)))
def test_every_list_has_a_limit_that_is_declared_and_looked_at_first(care: duckdp.Curator, name: str) -> None:
    spec = FUNCTIONS[name]
    for parameter in _lists(spec):
        most = parameter.kind.most
        assert most is not None, f"{name}: a list of any length"
        element = 0.5 if parameter.name == "quantiles" else "x"
        given = _arguments(spec, ["x > 1"]) | {str(parameter.python): [element] * (most + 1)}
        with pytest.raises(duckdp.errors.ParameterError, match=rf"P107: {parameter.python}={most + 1}: are more than"):
            getattr(care.session("bob"), spec.method)(**given)
    assert len(care.history(kind="charge")) == 0


@pytest.mark.parametrize("k", [1, 16, 31])
def test_tables_of_many_columns_are_counted_without_listing_them(many: duckdp.Curator, k: int) -> None:
    names, bob = [f"b{i}" for i in range(33)], many.session("bob")
    with pytest.raises(duckdp.errors.ParameterError, match="P107: columns=33: must be at most 32"):
        bob.explain_marginals("t", names, k=k, epsilon=1)
    if k == 1:  # the twin: as many as there may be are planned
        assert len(bob.explain_marginals("t", names[:32], k=1, epsilon=1)) > 0
    else:
        with pytest.raises(duckdp.errors.ParameterError, match=r"P107: k=.* cells, more than 100,000"):
            bob.explain_marginals("t", names[:32], k=k, epsilon=1)


@pytest.mark.parametrize("sizes", [[2, 3, 5, 7], [4], [2, 2, 2]])
def test_cells_of_all_tables_are_those_of_each_added_up(sizes: list[int]) -> None:
    for k in range(1, len(sizes) + 1):
        listed = sum(prod(some) for some in combinations(sizes, k))
        assert _cells_together(sizes, k) == listed
        assert k == len(sizes) or _cells_together(sizes[:-1], k) != listed  # the twin: a column left out


def test_the_twin_a_list_of_all_groups_needs_more_memory_than_that() -> None:
    listing = (
        "import resource, itertools\n"
        f"taken = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize() + {ROOM}\n"
        "resource.setrlimit(resource.RLIMIT_AS, (taken, taken))\n"
        f"list(itertools.product(*[{TEN!r}] * {KEYS}))\n"
    )
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode != 0
    assert "MemoryError" in done.stderr
    assert len(list(product(TEN, repeat=3))) == 1000

"""No success, no error and no draw of any release depends on the data; every class that releases is looked at.

Later stages depend on what earlier ones released, so every table's release is led through the same outputs. Of open
keys the number of draws follows the number of keys that exist, which no answer shows but time does (README, known
limits).
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.compiler.release import SelectTask
from duckdp.core import variates
from duckdp.core.noise import random_bits
from duckdp.errors import InternalError
from duckdp.mechanisms import admissible_noise
from duckdp.smooth.buy import counted
from duckdp.synthetic.tree.buy import counts as tree_counts
from tests.privacy.draws import PARTS, SLOW, TASKS, Case, connect, largest, least, observe, tables

# Classes with a method of that name which is not a private release.
OTHERS = {
    "Task",
    "TableTask",
    "Ledger",  # the protocols; what was stored
    *("SmoothQuantile", "ScaleBound"),  # those inside QuantileTask and SmoothQuantilesTask
    *("BlockMean", "BlockMedian", "CenterOfAttention"),  # those inside BlockTask and BlockVectorTask
    "SecondMoments",  # the one inside PairMoments
    *("CenterOfVectors", "ClusterMeans"),  # those inside KMeansTask and BlockVectorTask
    "QuantileTree",  # the one inside TreeQuantilesTask
    "Outer",  # a statement whose releases are a SelectTask or SeveralTask
}
Databases = dict[str, duckdb.DuckDBPyConnection]
CASES = [(kind, case) for kind, cases in TASKS.items() for case in cases]


@pytest.fixture(scope="module")
def databases() -> dict[str, duckdb.DuckDBPyConnection]:
    return {name: connect(rows) for name, rows in tables().items()}


def problems(case: Case, databases: Databases, follow: tuple[str, ...] = ("usual", "empty")) -> list[str]:
    """What tells tables apart beside the answers, given what was released: the outputs of ``follow``'s stages."""
    task = case.make()
    first = [observe(task, databases[name]) for name in follow]
    found = [f"{name}: {s.failure}" for name, s in zip(follow, first, strict=True) if s.failure]
    for lead in first[: 2 if first[0].outputs else 1]:
        seen = {name: observe(task, con, script=lead.outputs) for name, con in databases.items()}
        seen["largest cells"] = observe(task, databases["usual"], change=largest, script=lead.outputs)
        seen["least cells"] = observe(task, databases["usual"], change=least, script=lead.outputs)
        found += [f"{name}: {s.failure}" for name, s in seen.items() if s.failure]
        groups: dict[tuple[Any, ...], list[str]] = defaultdict(list)
        for name, s in seen.items():
            groups[s.crossed if case.open_keys else 0, s.draws].append(name)
        if len(groups) > len({crossed for crossed, _ in groups}):
            found.append(f"draws differ: {list(groups.values())}")
    return found


@pytest.mark.parametrize(
    ("kind", "case"),
    [
        pytest.param(k, c, id=f"{k.__name__}-{c.name}", marks=[pytest.mark.slow] if c.name in SLOW else [])
        for k, c in CASES
    ],
)
def test_nothing_but_the_answer_depends_on_the_data(
    kind: type, case: Case, databases: dict[str, duckdb.DuckDBPyConnection]
) -> None:
    assert type(case.make()) is kind
    if case.name.startswith("tree"):  # a second each
        databases = {name: databases[name] for name in ("empty", "usual", "beyond row_cap")}
    assert problems(case, databases) == []


def test_every_class_that_releases_is_listed() -> None:
    listed = {kind.__name__ for kind in (*TASKS, *PARTS)} | OTHERS
    assert {kind.__name__ for kind in _releasing()} == listed


def _releasing() -> Iterable[type]:
    """Classes of the package with a method that begins with "release", or with work or questions for the session."""
    for module in pkgutil.walk_packages(duckdp.__path__, "duckdp."):
        if module.name.endswith("__main__") or ".bench" in module.name:
            continue
        for name, kind in vars(importlib.import_module(module.name)).items():
            if inspect.isclass(kind) and kind.__module__ == module.name and name[0] != "_":
                methods = [m for m, _ in inspect.getmembers(kind, inspect.isfunction)]  # inherited ones too
                if not inspect.isabstract(kind) and any(
                    m.startswith("release") or m in ("work", "question") for m in methods
                ):
                    yield kind


# ---- broken twins: each must be seen


def _case(kind: str, name: str) -> Case:
    return next(case for k, case in CASES if (k.__name__, case.name) == (kind, name))


def test_twin_with_a_range_check_is_caught(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count met a sampler that refuses large values."""
    plain = counted.CountedTask._noisy_count

    def checked(self: Any, count: int) -> int:
        if count >= self.largest.table.row_cap << self.largest.moments.bits - 1:
            raise InternalError("a value may leave the range of the noise sampler")
        return plain(self, count)

    monkeypatch.setattr(counted.CountedTask, "_noisy_count", checked)
    assert problems(_case("CountedTask", "small epsilon"), databases)


def test_twin_that_asks_for_bits_until_the_floor_is_known(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lazy(variate: int, scale: Any, grid: int = variates.GRID) -> int:
        bits = 64
        while scale * 2**-bits > 2**-60:
            random_bits(64)
            bits += 64
        return variates.scaled_floor(variate, scale, grid)

    monkeypatch.setattr(admissible_noise, "scaled_floor", lazy)
    assert problems(_case("QuantileTask", "student"), databases)


def test_twin_that_noises_only_what_is_there(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = SelectTask._noised

    def sparse(self: SelectTask, exact: list[list[int]]) -> list[list[int]]:
        return plain(self, [cells for cells in exact if any(cells)]) or exact

    monkeypatch.setattr(SelectTask, "_noised", sparse)
    assert problems(_case("SelectTask", "public keys"), databases)


def test_twin_that_draws_for_occupied_cells_only(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    def occupied(tables: Any, purse: Any, share: Any, read: Callable[[Any], Any]) -> Any:
        random_bits(8 * (1 + int((read(tables) > 0).sum())))
        return plain(tables, purse, share, read)

    plain = tree_counts.measure
    monkeypatch.setattr("duckdp.synthetic.tree.buy.resumed.measure", occupied)
    assert problems(_case("TreeTask", "tree, replaced"), {n: databases[n] for n in ("empty", "usual")}, ("usual",))

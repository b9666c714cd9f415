"""No success, no error and no draw of any release depends on the data; every class that releases is looked at.

What depends on what was already released may differ: degrees, chosen pairs. Of open keys the number of draws follows
the number of keys that exist, which no answer shows but time does (README, known limits).
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
from duckdp.mechanisms import smooth_sensitivity
from duckdp.smooth import counted
from duckdp.synthetic.wide import tree_counts
from tests.privacy.draws import OPEN, PARTS, TASKS, Case, Seen, connect, largest, least, observe, tables

# Classes with a method of that name which is not a private release.
OTHERS = {
    "Task", "StagedTask", "Ledger",  # protocols; what was stored
    "SmoothQuantile",  # the mechanism inside QuantileTask
}  # fmt: skip
CASES = [(kind, case) for kind, cases in TASKS.items() for case in cases]


@pytest.fixture(scope="module")
def databases() -> dict[str, duckdb.DuckDBPyConnection]:
    return {name: connect(rows) for name, rows in tables().items()}


def problems(case: Case, databases: dict[str, duckdb.DuckDBPyConnection]) -> list[str]:
    """What tells tables apart beside the answers."""
    task = case.make()
    observe(task, databases["usual"])  # what is drawn once for the life of a process (samples that estimators share)
    seen = {name: observe(task, con) for name, con in databases.items()}
    seen["largest cells"] = observe(task, databases["usual"], largest)
    seen["least cells"] = observe(task, databases["usual"], least)
    found = [f"{name}: {s.failure}" for name, s in seen.items() if s.failure]
    by_public: dict[str, dict[tuple[Any, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, s in seen.items():
        if not s.failure:
            by_public[_public(case, s)][s.draws].append(name)
    assert case.follows is OPEN or max(len(g) for d in by_public.values() for g in d.values()) > 1 or found
    return found + [
        f"draws differ: {sorted(groups.values())}" for groups in by_public.values() if len(groups) > 1
    ]  # fmt: skip


def _public(case: Case, seen: Seen) -> str:
    if case.follows is None:
        return ""
    return str(seen.crossed if case.follows == OPEN else case.follows(seen.payload))


@pytest.mark.parametrize(("kind", "case"), CASES, ids=lambda x: getattr(x, "name", getattr(x, "__name__", "")))
def test_nothing_but_the_answer_depends_on_the_data(
    kind: type, case: Case, databases: dict[str, duckdb.DuckDBPyConnection]
) -> None:
    assert type(case.make()) is kind
    assert problems(case, databases) == []


def test_every_class_that_releases_is_listed() -> None:
    listed = {kind.__name__ for kind in (*TASKS, *PARTS)} | OTHERS
    assert {kind.__name__ for kind in _releasing()} == listed


def _releasing() -> Iterable[type]:
    """Classes of the package with a method that begins with "release", or with stages that read."""
    for module in pkgutil.walk_packages(duckdp.__path__, "duckdp."):
        if module.name.endswith("__main__") or ".bench" in module.name:
            continue
        for name, kind in vars(importlib.import_module(module.name)).items():
            if inspect.isclass(kind) and kind.__module__ == module.name and name[0] != "_":
                methods = [m for m, f in vars(kind).items() if inspect.isfunction(f)]
                if any(m.startswith("release") for m in methods):
                    yield kind


# ---- broken twins: each must be seen


def _case(kind: str, name: str) -> Case:
    return next(case for k, case in CASES if (k.__name__, case.name) == (kind, name))


Databases = dict[str, duckdb.DuckDBPyConnection]


def test_twin_with_a_range_check_is_caught(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count met a sampler that refuses large values."""
    plain = counted.CountedTask._degree

    def checked(self: Any, count: int) -> int:
        if count >= self.largest.table.row_cap << self.largest.moments.bits - 1:
            raise InternalError("a value may leave the range of the noise sampler")
        return plain(self, count)

    monkeypatch.setattr(counted.CountedTask, "_degree", checked)
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

    monkeypatch.setattr(smooth_sensitivity, "scaled_floor", lazy)
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
    monkeypatch.setattr("duckdp.synthetic.wide.tree.measure", occupied)
    assert problems(_case("WideTask", "tree"), databases)

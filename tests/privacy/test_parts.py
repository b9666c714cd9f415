"""Every private read, run on parts of the rows with units of their own, combines to what it gives on all rows.

``TASKS`` (draws.py) has a task of every class that releases something. Each is run on all rows, and every read that it
asked for is run again on up to five parts, empty ones among them: what :meth:`PrivateQuery.combine` makes of theirs is
the read of the whole, bit for bit; and the task, run with reads that are combined so and the same draws, stores and
releases the same texts. A read that no task here asks for fails, as does one that says it cannot be combined and could.
"""

from __future__ import annotations

import ast
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import duckdp
from duckdp.compiler.edges import SpanningTreeTask
from duckdp.compiler.emit import emit
from duckdp.compiler.quantile import QuantileTask
from duckdp.compiler.quantile_levels import QuantilesTask
from duckdp.compiler.release import SelectTask
from duckdp.compiler.smooth_quantiles import SmoothQuantilesTask
from duckdp.core.reads import Add, AddByKey, AddInLists, PrivateQuery
from duckdp.core.task import Stages, reads_all_rows
from duckdp.errors import InternalError
from duckdp.synthetic.tree.buy import TreeTask
from duckdp.synthetic.unit.buy.unit_task import UnitTask
from duckdp.vault.engine import read_batches
from tests.compiler.test_fixtures import _blocks
from tests.gate import clinic, plan_for
from tests.privacy.draws import SLOW, TASKS, Case, connect, tables, watched
from tests.privacy.thresholds import work_of

PACKAGE = Path(duckdp.__file__).parent
MOST_PARTS = 5
Rows = list[tuple[Any, ...]]
Connections = list[duckdb.DuckDBPyConnection]
CASES = [(kind, case) for kind, cases in TASKS.items() for case in cases]


# ---- the rows, and their parts


def mixed_rows() -> Rows:
    """Every group and cell has rows of many units, and zeros of both signs."""
    rng, usual = random.Random(11), tables()["usual"]
    born, seen = (sorted({row[place] for row in usual})[:2] for place in (7, 8))
    columns: tuple[tuple[Any, ...], ...] = (
        (None, 1, 20, 64, 110),
        (None, -0.0, 0.0, 2500.0, 4999.9),
        (-0.0, 0.0, 0.4, -0.4, 7.5, None),
        ("F", "M", "Z"),
        ("Bern", "Genf", "Uri", "x", None),
        (*"aAäz", "", "\U0010ffff", None),
        (None, *born),
        (None, *seen),
        (True, False, None),
        (None, -1, 0, 3),
        (1, 2, 3, None),
        (-10.0, -0.0, 0.0, 19.5, None),
    )
    return [(rng.choice([None, *range(60)]), *(rng.choice(column) for column in columns)) for _ in range(400)]


def split(rows: Rows, rng: random.Random, count: int, *, keyed: bool) -> list[Rows]:
    """So many parts with units of their own; of three and more one is empty."""
    parts: list[Rows] = [[] for _ in range(count)]
    taken = rng.sample(range(count), max(1, count - (count > 2)))
    place: dict[Any, int] = {}
    for number, row in enumerate(rows):
        unit = row[0] if keyed else number
        parts[place.setdefault(unit, rng.choice(taken))].append(row)
    return parts


@dataclass(eq=False)
class World:
    """A table, whole and in parts."""

    whole: duckdb.DuckDBPyConnection
    parts: dict[bool, list[Connections]] = field(repr=False)  # by whether units are persons


def make_world(rows: Rows, counts: Sequence[int], seed: int) -> World:
    """A table that is split once for each number of parts."""
    rng = random.Random(seed)
    cut = {
        keyed: [[connect(part) for part in split(rows, rng, count, keyed=keyed)] for count in counts]
        for keyed in (True, False)
    }
    return World(connect(rows), cut)


@pytest.fixture(scope="module")
def worlds() -> dict[str, World]:
    found = tables()
    return {
        "mixed": make_world(mixed_rows(), (4,), 23),
        "extremes": make_world(found["extremes"][:100], (5,), 23),
        "empty": make_world([], (2,), 23),
    }


@pytest.fixture(scope="module")
def many() -> dict[str, World]:
    rows = {"mixed": mixed_rows(), **tables()}
    return {name: make_world(part, (1, 2, 3, 4, MOST_PARTS), 31) for name, part in rows.items()}


# ---- running reads


def rows_of(con: duckdb.DuckDBPyConnection, query: PrivateQuery) -> Rows:
    if query.arrays:
        return list(read_batches(con.cursor(), query))
    return con.cursor().execute(query.sql, list(query.parameters)).fetchall()


def bits(query: PrivateQuery, rows: Iterable[tuple[Any, ...]]) -> object:
    """Rows so that equal ones are equal to the last bit; those that come in any order sorted."""
    if not query.arrays:
        return [[(type(v).__name__, repr(v)) for v in row] for row in rows]
    stacked = [np.stack([np.asarray(c, dtype=np.float64) for c in batch], axis=1) for batch in rows]
    return sorted(row.tobytes() for block in stacked for row in block)


def alike(query: PrivateQuery, rows: Rows) -> object:
    """Rows as DuckDB gives them, without what it leaves open: the order within lists, the sign of zero as a key."""
    if isinstance(query.parts, AddInLists):
        return [sorted(zip(*row, strict=True)) if row[0] is not None else row for row in rows]
    if isinstance(query.parts, AddByKey) and not query.parts.ordered:
        return Counter(map(tuple, rows))
    return bits(query, rows) if query.arrays else [tuple(row) for row in rows]


def check(query: PrivateQuery, whole: Rows, parts: Sequence[Rows]) -> None:
    """What a read gave on parts combines to what it gave on all rows."""
    if not query.parts.known:
        with pytest.raises(InternalError, match="do not tell"):
            list(query.combine(parts))
        return
    alone = list(query.combine([whole]))
    assert alike(query, alone) == alike(query, whole), "the whole is not itself"
    assert bits(query, query.combine(parts)) == bits(query, alone), "the parts are not the whole"


@dataclass
class Run:
    """A task that was run: what it asked for, stored and released, and where the reads were made."""

    payload: str
    outputs: list[str]
    asked: list[PrivateQuery] = field(repr=False)
    made: set[tuple[str, str]] = field(repr=False)


def perform(task: Any, read: Callable[[PrivateQuery], Iterable[tuple[Any, ...]]]) -> Run:
    """Run a task with draws that repeat."""
    outputs: list[str] = []
    asked: list[PrivateQuery] = []

    def noted(query: PrivateQuery) -> Iterable[tuple[Any, ...]]:
        asked.append(query)
        return read(query)

    def keep(_: int, payload: str) -> str:
        outputs.append(payload)
        return payload

    with watched(seed=1), origins() as made:
        payload = work_of(task)(Stages(noted, keep=keep))
    return Run(payload, outputs, asked, made)


def check_task(task: Any, world: World, change: Callable[[PrivateQuery, Rows], Rows] = lambda _, rows: rows) -> Run:
    """Every read of a task on parts, and the task with reads that are combined; ``change`` makes broken twins."""
    known: dict[tuple[int, str, str], Rows] = {}

    def read(con: duckdb.DuckDBPyConnection, query: PrivateQuery) -> Rows:
        """Each of them once."""
        key = (id(con), query.sql, repr(query.parameters))
        if key not in known:
            known[key] = rows_of(con, query)
        return known[key]

    whole = perform(task, partial(read, world.whole))
    for parts in world.parts[task_table(task).unit_key is not None]:
        for query in whole.asked:
            given = [change(query, read(con, query)) for con in (world.whole, *parts)]
            check(query, given[0], given[1:])

        def together(query: PrivateQuery, parts: Connections = parts) -> Iterable[tuple[Any, ...]]:
            if not query.parts.known:
                return read(world.whole, query)
            return query.combine([read(con, query) for con in parts])

        again = perform(task, together)
        assert (again.outputs, again.payload) == (whole.outputs, whole.payload)
    return whole


def task_table(task: Any) -> Any:
    for name in ("table", "summary", "plan", "plans"):
        found = getattr(task, name, None)
        if name == "plans" and found:  # of several, which are of one table here
            return found[0].query.table
        if found is not None:
            return found if name == "table" else found.query.table if name == "plan" else found.table
    raise AssertionError("a task without a table")


@pytest.mark.parametrize(
    ("kind", "case"),
    [
        pytest.param(k, c, id=f"{k.__name__}-{c.name}", marks=[pytest.mark.slow] if c.name in SLOW else [])
        for k, c in CASES
    ],
)
def test_parts_combine_to_the_whole(kind: type, case: Case, worlds: dict[str, World]) -> None:
    task = case.make()
    for name in ("mixed", "empty") if issubclass(kind, UnitTask) else worlds:  # a second each
        if kind is TreeTask:  # what is computed once, with draws of its own, for each size of a released histogram
            perform(task, partial(rows_of, worlds[name].whole))
        assert check_task(task, worlds[name]).asked


@pytest.mark.parametrize("seed", range(3))
def test_statements_of_parts_combine(seed: int) -> None:
    """Whatever a SELECT groups by, filters and adds up, by units and by rows."""
    world = make_world(mixed_rows(), (3,), seed)
    blocks = [block["text"] for block in _blocks("accept")]
    for text in blocks[seed::3]:
        for table in (clinic(), clinic(unit_key=None)):
            if table.unit_key is None and "pid" in text:
                continue
            plan = plan_for(text, table)
            if plan.measures:
                query = emit(plan, 7)
                (parts,) = world.parts[table.unit_key is not None]
                check(query, rows_of(world.whole, query), [rows_of(con, query) for con in parts])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "case"), [pytest.param(k, c, id=f"{k.__name__}-{c.name}") for k, c in CASES])
def test_many_parts_combine_to_the_whole(kind: type, case: Case, many: dict[str, World]) -> None:
    for world in many.values():
        check_task(case.make(), world)


@pytest.mark.parametrize("names", ["town", "level", "sex, level, town", "name, level", "smoker, born, town"])
def test_keys_come_in_the_order_of_their_domain(names: str) -> None:
    """However it was declared: rows are grouped by the places of listed values, not by the values."""
    world, listed = make_world(mixed_rows(), (4,), 7), {"town": ("Uri", "Genf", "Bern"), "level": (2, None, 1)}
    columns = tuple(replace(c, domain=listed.get(c.name, c.domain)) for c in clinic().columns)
    for table in (clinic(columns=columns), clinic(columns=columns, unit_key=None)):
        query = emit(plan_for(f"SELECT {names}, count(*), sum(age) FROM clinic GROUP BY {names}", table), 7)
        (parts,) = world.parts[table.unit_key is not None]
        check(query, rows_of(world.whole, query), [rows_of(con, query) for con in parts])


def test_a_listed_key_is_released_by_name() -> None:
    """It crosses as its place in the domain; beside an open key it is told with every group that is shown."""
    rows = [(i, *mixed_rows()[0][1:]) for i in range(400)]
    names = [c.name for c in clinic().columns]
    sex, level, name = (names.index(column) + 1 for column in ("sex", "level", "name"))
    for i, (first, second) in enumerate((("F", 2), ("M", None)) * 200):
        row = list(rows[i])
        row[sex], row[level], row[name] = first, second, "Ada"
        rows[i] = tuple(row)
    columns = tuple(replace(c, domain=(2, None, 1)) if c.name == "level" else c for c in clinic().columns)
    text = "SELECT sex, name, level, count(*) FROM clinic GROUP BY sex, name, level"
    task = SelectTask(plan=plan_for(text, clinic(unit_key=None, columns=columns)))
    payload = json.loads(perform(task, partial(rows_of, connect(rows))).payload)
    assert payload["keys"] == [["F", "Ada", 2], ["M", "Ada", None]]


def test_a_released_key_has_no_sign_of_zero() -> None:
    """DuckDB shows a group of 0 and -0 as the row that it met first: one person's, told from the others."""
    task = SelectTask(plan=plan_for("SELECT round(score) AS k, count(*) FROM clinic GROUP BY k", clinic(unit_key=None)))
    released = []
    for first in (-0.0, 0.0):
        rows = [
            (1, *usual[:2], value, *usual[3:]) for usual in [mixed_rows()[0][1:]] for value in (first, *[0.0] * 300)
        ]
        released.append(perform(task, partial(rows_of, connect(rows))).payload)
    assert released[0] == released[1]
    assert json.loads(released[0])["keys"] == [[0.0]]


# ---- no read is left out


@contextmanager
def origins() -> Iterator[set[tuple[str, str]]]:
    """Where reads are made meanwhile: (file, function)."""
    found: set[tuple[str, str]] = set()
    made = PrivateQuery.__init__

    def init(self: PrivateQuery, *given: Any, **named: Any) -> None:
        code = sys._getframe(1).f_code
        path = Path(code.co_filename)
        if path.is_relative_to(PACKAGE):
            found.add((path.relative_to(PACKAGE).as_posix(), code.co_qualname))
        made(self, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PrivateQuery, "__init__", init)
        yield found


def written(text: str, path: str) -> set[tuple[str, str]]:
    """Where a file's text makes reads."""
    found: set[tuple[str, str]] = set()

    def look(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, ast.FunctionDef | ast.ClassDef | ast.Lambda):
                own = getattr(child, "name", "<lambda>")
                inner = f"{name}{own}" + ("." if isinstance(child, ast.ClassDef) else ".<locals>.")
            elif isinstance(child, ast.Call) and ast.unparse(child.func).split(".")[-1] == "PrivateQuery":
                found.add((path, name.removesuffix(".<locals>.").removesuffix(".")))
            look(child, inner)

    look(ast.parse(text), "")
    return found


def reads() -> set[tuple[str, str]]:
    """Where the package makes reads."""
    found: set[tuple[str, str]] = set()
    for path in PACKAGE.rglob("*.py"):
        found |= written(path.read_text(), path.relative_to(PACKAGE).as_posix())
    return found


def tabled() -> dict[str, set[str]]:
    """What docs/architecture.md says of the reads of each task."""
    found: dict[str, set[str]] = {}
    for line in (PACKAGE.parent / "docs" / "architecture.md").read_text().splitlines():
        tasks, said = (
            re.findall(r"`(\w+)`", cell) for cell in (f"{line}||||".split("|")[1], line.rpartition(" | ")[2])
        )
        if line.startswith("| `"):
            found |= {task: set(said) for task in tasks}
            for task in tasks if "as a summary" in line else ():
                found[task] |= found["SummaryTask"]
    return found


TABLE = tabled()


def test_every_read_of_the_package_is_run_on_parts(worlds: dict[str, World]) -> None:
    made: set[tuple[str, str]] = set()
    for kind, cases in TASKS.items():
        for case in cases:
            if case.name not in SLOW:
                run = perform(case.make(), partial(rows_of, worlds["empty"].whole))
                made |= run.made
                assert {type(query.parts).__name__ for query in run.asked} <= TABLE[kind.__name__], kind
                unknown = any(not query.parts.known for query in run.asked)
                assert reads_all_rows(case.make(), 7) == unknown, case.name  # what is refused before its charge
    assert made == reads()
    assert set(TABLE) == {kind.__name__ for kind in TASKS}


def test_a_read_that_is_not_run_is_seen() -> None:
    text = "class A:\n  def f(self):\n    def g():\n      return reads.PrivateQuery(sql='', parts=Add())\n"
    assert written(text, "x.py") == {("x.py", "A.f.<locals>.g")}


def test_no_read_is_made_without_saying_how_its_parts_combine() -> None:
    with pytest.raises(TypeError, match="parts"):
        PrivateQuery(sql="SELECT 1")  # type: ignore[call-arg]


# ---- what parts do not tell


def medians(parts: Sequence[Sequence[int]]) -> tuple[list[Rows], Rows]:
    """A quantile's read on parts of small whole numbers, and on all of them."""
    found = []
    with duckdb.connect() as con:
        for values in (*parts, [v for p in parts for v in p]):
            listed = ", ".join(f"({v})" for v in values)
            found.append(con.execute(QUANTILE.sql(f"(SELECT * FROM (VALUES {listed}) AS v(x))")).fetchall())
    return found[:-1], found[-1]


OF_ALL = (QuantileTask, QuantilesTask, SmoothQuantilesTask, SpanningTreeTask)
(_, CASE), *_ = [(k, c) for k, c in CASES if k is QuantileTask]
ALIKE = ([[6, 8, 5, 8, 3], [2, 1, 0]], [[6, 6, 6, 7, 2], [1, 0, 2]])  # found by search
QUANTILE = replace(CASE.make().quantile, max_rows=1, grid_cells=8)


def test_what_is_of_all_rows_does_not_follow_from_parts() -> None:
    """Two tables, alike on each of two parts, differ on the whole: so no combination of them would do."""
    (apart, whole), (same, other) = (medians(parts) for parts in ALIKE)
    assert apart == same
    assert whole != other


def test_only_quantiles_are_of_all_rows(worlds: dict[str, World]) -> None:
    """What cannot be combined is refused where rows outgrow a machine: nothing else may say so."""
    for kind, cases in TASKS.items():
        run = perform(cases[0].make(), partial(rows_of, worlds["mixed"].whole))
        assert all(query.parts.known for query in run.asked) == (kind not in OF_ALL), kind


# ---- broken twins: each must be seen


def twin(query: PrivateQuery, rows: Rows) -> Rows:
    """Not a sum: each cell is one more; and of streamed rows a few."""
    if query.arrays:
        return [tuple(column[:2] for column in batch) for batch in rows]
    keys = query.parts.keys if isinstance(query.parts, AddByKey) else int(isinstance(query.parts, AddInLists))
    return [(*row[:keys], *map(more, row[keys:])) for row in rows]


def more(cell: Any) -> Any:
    return [value + 1 for value in cell] if isinstance(cell, list) else 1 + (cell or 0)


FEW = [next(c for c in cases if c.name not in SLOW) for kind, cases in TASKS.items() if kind not in OF_ALL]


@pytest.mark.parametrize("case", FEW, ids=lambda c: c.name)
def test_a_read_of_some_rows_is_caught(case: Case, worlds: dict[str, World]) -> None:
    with pytest.raises((AssertionError, InternalError)):
        check_task(case.make(), worlds["mixed"], twin)


TORN = ("aggregates, laplace", "public keys", "laplace, blocks", "numbers", "rows", "groups", "psi", "lp, NULLs")


@pytest.mark.parametrize("case", [c for _, c in CASES if c.name in TORN], ids=lambda c: c.name)
def test_units_in_two_parts_are_caught(case: Case, worlds: dict[str, World]) -> None:
    """What a unit adds is bounded by all of its rows: a read of parts of units is another one."""
    mixed = worlds["mixed"]
    torn = World(mixed.whole, {True: mixed.parts[False], False: mixed.parts[False]})
    with pytest.raises(AssertionError):
        check_task(case.make(), torn)


def test_a_quantile_that_claims_to_add_is_caught(worlds: dict[str, World]) -> None:
    mixed = worlds["mixed"]
    (query,) = perform(CASE.make(), partial(rows_of, mixed.whole)).asked
    rows = [rows_of(con, query) for con in (mixed.whole, *mixed.parts[True][0])]
    check(query, rows[0], rows[1:])
    with pytest.raises((AssertionError, InternalError)):
        check(replace(query, parts=Add()), rows[0], rows[1:])


def test_a_read_that_takes_keys_for_cells_is_caught(worlds: dict[str, World]) -> None:
    mixed = worlds["mixed"]
    query = emit(plan_for("SELECT level, count(*), sum(age) FROM clinic GROUP BY level", clinic()), 7)
    rows = [rows_of(con, query) for con in (mixed.whole, *mixed.parts[True][0])]
    check(query, rows[0], rows[1:])
    for wrong in (AddByKey(keys=0), AddByKey(keys=2), Add()):
        with pytest.raises((AssertionError, InternalError)):
            check(replace(query, parts=wrong), rows[0], rows[1:])

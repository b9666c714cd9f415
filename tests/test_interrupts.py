"""Ctrl-C at every point of what users call: nothing is locked, lost or called damaged, and asking again answers.

Watched is the code that charges, reads, stores and gives, at each of its steps; parsing and arithmetic, which hold
nothing, only now and then. See ``test_ledger_interrupts.py`` for the ledger alone.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.ledger import Ledger
from tests.interruptions import interrupted, others_can_write, steps
from tests.ledgers import set_up

ACTING = (
    *(
        "session.py",
        "curator.py",
        "faces/asks.py",
        "faces/calls.py",
        "faces/sparse.py",
        "faces/sampling.py",
        "vault",
        "desk",
        "front",
        "process/aside.py",
        "process/attempt.py",
        "ledger",
    ),
    *("functions", "core/task.py", "compiler/release.py", "compiler/answers.py"),
)
ALL = ("",)
# What of Python's own a lock may be held through: an interrupt there comes before our code is left, or entered.
LIBRARY = tuple(module.__file__ for module in (contextlib, threading, weakref) if module.__file__)
KEPT = Path(__file__).parent / "fixtures" / "ledgers"
EPSILON = "0.0005"

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # within a finalizer


@pytest.fixture
def open_curator(curator: duckdp.Curator) -> Iterator[duckdp.Curator]:
    with curator.connect("ana") as connection:
        connection.execute(f"SET VARIABLE dp_epsilon = {EPSILON}")
        yield curator


def query(curator: duckdp.Curator, at: int) -> Any:
    return (
        curator.session("ana")
        .sql(f"SELECT sex, count(*) FROM visits WHERE cost > {at / 1000} GROUP BY sex", epsilon=EPSILON)
        .rows()
    )


def summary(curator: duckdp.Curator, at: int) -> Any:
    bought = curator.session("ana").smooth_summary("visits", ["age"], epsilon=EPSILON, degree=4, name=f"s{at}")
    return bought.rows()


def table(curator: duckdp.Curator, at: int) -> Any:
    """Of one column: with a second one it takes four times as long, and takes no step that a query does not."""
    return (
        curator.session("ana")
        .synthesize("visits", epsilon=EPSILON, rows=5, columns=["sex"], method="tree", name=f"t{at}")
        .rows()
    )


def front(curator: duckdp.Curator, at: int) -> Any:
    text = f"SELECT dp_noisy_count('visits', epsilon := {EPSILON}, predicate := 'cost > {at / 1000}')"
    return curator.front("ana").sql(text).rows()


ACTS: dict[str, Callable[[duckdp.Curator, int], Any]] = {
    "query": query,
    "summary": summary,
    "table": table,
    "front": front,
}


FEW = {"query": 10, "summary": 6, "table": 3, "front": 6}


def some(points: int, few: int | None) -> range:
    """The numbers of the steps to interrupt: all, or a few, of which the last is well before an act's end.

    An act does not take exactly as many steps each time; a step that is not reached interrupts nothing.
    """
    if few is None or few >= points:
        return range(1, points + 1)
    return range(1, points - points // few + 1, points // few)


def interrupt_everywhere(curator: duckdp.Curator, act: Callable[[duckdp.Curator, int], Any], few: int | None) -> None:
    """An interrupt at each of the steps, or at a few; then the same is asked again, and answered, charged once."""
    questions = 1
    act(curator, questions)  # what is made on first use
    before = curator.ledger.count_charges() - 1
    for within, most in ((ACTING, few), (ALL, few or 400), (LIBRARY, few or 200)):
        questions += 1
        points = steps(lambda number=questions: act(curator, number), within)
        assert points > 4
        kept = []
        for at in some(points, most):
            questions += 1
            kept.append(interrupted(lambda number=questions: act(curator, number), at, within))
            curator.ledger._store.write(lambda tx: None)  # the transaction of an interrupted wait may be under way
            others_can_write(curator.ledger.path)
            assert act(curator, questions) == act(curator, questions), at
            (last,) = curator.ledger.charges(limit=1)
            assert (curator.ledger.count_charges(), last.state) == (before + questions, "released"), (at, kept[-1])
        assert sum(error is not None for error in kept) > len(kept) // 2
    spent = curator.ledger.state().primary_spent
    assert spent == sum(row.primary_cost for row in curator.ledger.charges())
    with Ledger.open(curator.ledger.path, create=False) as again:
        assert again.state().primary_spent == spent


@pytest.mark.parametrize("name", ACTS)
def test_what_is_interrupted_somewhere_is_answered_when_asked_again(open_curator: duckdp.Curator, name: str) -> None:
    interrupt_everywhere(open_curator, ACTS[name], FEW[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTS)
def test_what_is_interrupted_anywhere_is_answered_when_asked_again(open_curator: duckdp.Curator, name: str) -> None:
    interrupt_everywhere(open_curator, ACTS[name], None)


def make_front(curator: duckdp.Curator, analyst: str, connection: duckdb.DuckDBPyConnection) -> Any:
    return curator.front(analyst)


def make_registered(curator: duckdp.Curator, analyst: str, connection: duckdb.DuckDBPyConnection) -> Any:
    duckdp.register(connection, curator, analyst=analyst)
    return connection


def interrupt_making(curator: duckdp.Curator, make: Callable[..., Any], few: int | None) -> None:
    """As the functions are put on a connection, DuckDB calls them; an interrupt there is no error of DuckDB's."""

    def once(number: int, at: int) -> BaseException | None:
        analyst = f"analyst_{number}"
        curator.grant(analyst, epsilon=1)
        with duckdb.connect() as connection:
            error = interrupted(lambda: make(curator, analyst, connection), at, ACTING)
            made = make(curator, analyst, connection)
            assert str(made.sql("SELECT count(*) AS n FROM dp_ledger()")), at
            if made is not connection:
                curator._fronts._made.pop(analyst).close()
        return error

    once(0, -1)
    curator.grant("counted", epsilon=1)
    with duckdb.connect() as connection:
        points = steps(lambda: make(curator, "counted", connection), ACTING)
    assert points > 100
    kept = [once(number, at) for number, at in enumerate(some(points, few), 1)]
    assert {getattr(error, "code", "E102") for error in kept} == {"E102"}
    assert sum(error is not None for error in kept) > len(kept) * 0.9


@pytest.mark.parametrize("make", [make_front, make_registered])
def test_a_front_whose_making_is_interrupted_somewhere(open_curator: duckdp.Curator, make: Callable[..., Any]) -> None:
    interrupt_making(open_curator, make, 12)


@pytest.mark.slow
@pytest.mark.parametrize("make", [make_front, make_registered])
def test_a_front_whose_making_is_interrupted_anywhere(open_curator: duckdp.Curator, make: Callable[..., Any]) -> None:
    interrupt_making(open_curator, make, None)


def interrupt_opening(folder: Path, version: str | None, few: int | None) -> None:
    """Opening a data set, whose ledger is perhaps of an earlier version and is migrated by that."""
    template = folder / "template"
    template.mkdir()
    if version is None:
        with Ledger.open(template / "a.ledger") as ledger:
            set_up(ledger)
    else:
        shutil.copy(KEPT / version / "keyed.db", template / "a.ledger")
        shutil.copy(KEPT / version / "keyed.anchor", template / "a.ledger.anchor")
    work = folder / "work"
    data = str(KEPT / "version_2" / "visits.parquet")

    def act() -> None:
        with duckdp.open(data, ledger=str(work / "a.ledger")):
            pass

    shutil.copytree(template, work)
    act()  # what is imported on first use: ``test_importing.py``
    shutil.rmtree(work)
    shutil.copytree(template, work)
    points, arrived, rounds = steps(act, ("",)), 0, 0
    assert points > 100
    for at in some(points, few):
        shutil.rmtree(work)
        shutil.copytree(template, work)
        error = interrupted(act, at, ("",))
        arrived, rounds = arrived + (error is not None), rounds + 1
        others_can_write(work / "a.ledger", 60.0)  # the ledger's thread may just begin
        act()
        with Ledger.open(work / "a.ledger", create=False) as ledger:
            assert ledger.state().epsilon_nano is not None
        del error
    assert arrived > rounds * 0.9


VERSIONS = [None, *(path.name for path in sorted(KEPT.glob("version_*")))]


@pytest.mark.parametrize("version", VERSIONS)
def test_opening_interrupted_somewhere(tmp_path: Path, version: str | None) -> None:
    interrupt_opening(tmp_path, version, 8)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_opening_interrupted_anywhere(tmp_path: Path, version: str | None) -> None:
    interrupt_opening(tmp_path, version, None)

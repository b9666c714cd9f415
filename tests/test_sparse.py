"""dp_above_threshold, dp_sparse_open, dp_sparse_ask as users have them: faces, refusals, interrupts, secrets."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner

import duckdp
from duckdp.cli import main
from duckdp.compiler.above_threshold import AboveThreshold, SparseStream
from duckdp.core.steps import Past
from duckdp.errors import BudgetError, DuckDPError, ExecutionError
from duckdp.ledger import Ledger
from duckdp.ledger.tx import Tx
from duckdp.mechanisms import sparse_vector as mechanism
from duckdp.mechanisms.sparse_vector import Look, SparseVector
from duckdp.session import Session
from duckdp.vault.engine import Engine
from tests.gate import clinic, load, shared
from tests.privacy.draws import KEYED, REPLACE, ROWS
from tests.privacy.neighbouring import neighbouring
from tests.privacy.statistics import point_epsilon_lower_bound
from tests.privacy.thresholds import above, predicate, stream

PREDICATES = ("age > 40", "sex = 'F'", "cost < 1000 OR town = 'Bern'", "level IS NULL", "smoker")
TASKS: dict[str, Callable[[], AboveThreshold | SparseStream]] = {
    "list of units": lambda: above(KEYED, PREDICATES),
    "list of units, where": lambda: above(KEYED, PREDICATES, "age > 30"),
    "list of rows, replaced": lambda: above(ROWS, PREDICATES, neighbours=REPLACE),
    "stream of units": lambda: stream(KEYED),
    "stream of rows, where": lambda: stream(ROWS, "age > 30"),
    "stream of rows, replaced": lambda: stream(ROWS, neighbours=REPLACE),
}


# ---- what a unit can change


def counts(task: AboveThreshold | SparseStream, rows: Sequence[tuple[Any, ...]], *, twin: bool = False) -> list[int]:
    """The exact counts that meet the mechanism; the twin counts rows."""
    met: list[int] = []

    def look(_: object, count: int, *more: object) -> Look:
        met.append(count)
        return Look(above=False)

    def look_through(_: object, exact: Sequence[int], *more: object) -> list[Look]:
        met.extend(exact)
        return []

    with shared() as con, pytest.MonkeyPatch.context() as patch:
        load(con, clinic(), list(rows))
        patch.setattr(SparseVector, "look", look)
        patch.setattr(SparseVector, "look_through", look_through)

        def read(query: Any) -> list[tuple[Any, ...]]:
            sql = query.sql.replace("system.main.max(", "system.main.sum(") if twin else query.sql
            return con.execute(sql, list(query.parameters)).fetchall()

        if isinstance(task, AboveThreshold):
            task.release(read(task.query(7)))
        else:
            for text in PREDICATES:
                task.question(predicate(text, task.table)).draw(read, Past(outputs=(), secrets=("0",)))
    return met


def changes(task: AboveThreshold | SparseStream, seed: int, *, twin: bool = False) -> list[list[int]]:
    """What neighbours change in every count: a unit with up to 30 rows comes, or (REPLACE) a row becomes another."""
    found = []
    for rows, other in neighbouring(task.table, task.neighbours, seed, 4):
        pairs = zip(counts(task, rows, twin=twin), counts(task, other, twin=twin), strict=True)
        found.append([after - before for before, after in pairs])
    return found


@pytest.mark.parametrize("name", TASKS)
def test_a_unit_changes_every_count_by_at_most_1_and_all_one_way(name: str) -> None:
    task = TASKS[name]()
    moved = {m for change in changes(task, 1) for m in change}
    assert task.vector.monotone == (task.neighbours is not REPLACE)
    assert moved - {0} <= ({1} if task.vector.monotone else {-1, 1})
    assert moved - {0}


def test_every_question_is_compared_with_the_one_threshold_that_was_drawn() -> None:
    """That of the release, stored before its first question; a step keeps nothing of its own."""
    task = stream(ROWS, hits=2, epsilon_nano=100 * 10**9)
    for secret, above_it in (("0", True), ("800", False), ("0", True)):
        step = task.question(predicate("age > 40", ROWS)).draw(lambda _: [(700,)], Past(outputs=(), secrets=(secret,)))
        assert (json.loads(step.output)["above"], step.secret) == (above_it, None)


def test_a_twin_that_counts_rows_is_caught() -> None:
    assert max(m for change in changes(TASKS["stream of units"](), 1, twin=True) for m in change) > 1


# ---- as users have them


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[duckdp.Curator]:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT i % 90 AS age, i AS person, 'n' AS name FROM range(900) r(i)")
    with duckdp.open(str(tmp_path / "t.duckdb")) as owner:
        protect(owner)
        owner.budget(epsilon=10_000)
        owner.grant("ana", epsilon=5_000)
        owner.grant("ben", epsilon=50)
        yield owner


def protect(owner: duckdp.Curator, most: int = 110) -> None:
    owner.protect("t", unit_key="person", max_rows=1, row_cap=10_000, bounds={"age": (0, most)}, columns=["name"])


def younger(age: int) -> str:
    """About ten times so many."""
    return f"age < {age}"


def opened(session: Session, **terms: Any) -> int:
    return int(session.sparse_open("t", 450, **{"epsilon": 40, "hits": 2, **terms})["handle"][0])


def asked(session: Session, handle: int, age: int, **more: Any) -> bool:
    return bool(session.sparse_ask(handle, younger(age), **more)["above"][0])


def test_a_list_in_sql_and_from_a_session_is_one_charge(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    texts = [younger(age) for age in (5, 80, 10, 85, 88)]
    found = ana.above_threshold("t", texts, 450, epsilon=40, hits=2)
    assert found.rows() == list(zip(texts, [False, True, False, True, None], strict=True))
    assert (
        con.execute(f"FROM dp_above_threshold('t', {texts}, 450, epsilon := 40, hits := 2)").fetchall() == found.rows()
    )
    assert len(ana.ledger().rows()) == 1
    valued = ana.above_threshold("t", texts, 450, epsilon=40, hits=2, values=True)
    hit = valued.estimates()[1]["value"]
    assert abs(hit.value - 800) < 20
    assert hit.low <= hit.value <= hit.high
    assert [v is None for v in valued["value"]] == [True, False, True, False, True]
    row = con.execute(
        f"FROM dp_above_threshold('t', {texts}, 450, epsilon := 40, hits := 2, values := true)"
    ).fetchall()[1]
    assert row == (texts[1], True, hit.value, hit.standard_error, hit.low, hit.high)
    some = ana.above_threshold("t", texts, 450, epsilon=40, predicate="age > 79")
    assert some["above"] == [False] * 5


def test_a_handle_answers_until_its_last_hit(curator: duckdp.Curator) -> None:
    ana, con = curator.session("ana"), curator.connect("ana")
    handle = opened(ana)
    assert [asked(ana, handle, age) for age in (5, 80, 5, 80, 20, 85)] == [False, True, False, True, False, True]
    with pytest.raises(BudgetError, match=f"B108: the interactive release of charge {handle} has ended"):
        asked(ana, handle, 86)
    assert ana.sparse_ask(handle, younger(85)).rows() == [(True, 0)]  # what was answered is given again
    assert opened(ana) == handle  # the same words, the same handle
    assert opened(ana, fresh=True) != handle
    assert ana.remaining_text() == "epsilon=4920 left"
    con.execute("SET VARIABLE h = (SELECT dp_sparse_open('t', 450, epsilon := 40, hits := 3, values := true))")
    assert con.execute("SELECT dp_sparse_ask(getvariable('h'), 'age < 80')").fetchall() == [(True,)]
    ((hit, value, left, error, low, high),) = con.execute("FROM dp_sparse_ask(getvariable('h'), 'age < 80')").fetchall()
    assert (hit, left) == (True, 2)
    assert 0 < error < 30 > high - value == value - low >= 0
    assert con.execute("FROM dp_sparse_ask(getvariable('h'), 'age < 5')").fetchall()[0][:3] == (False, None, 2)
    curator.ledger.verify()


def test_a_question_may_have_a_threshold_of_its_own(curator: duckdp.Curator) -> None:
    ana = curator.session("ana")
    handle = opened(ana, hits=5)
    assert [asked(ana, handle, 20, threshold=t) for t in (None, 100, 300, 100)] == [False, True, False, True]
    assert not asked(ana, handle, 80, threshold=10**17)
    assert ana.sparse_ask(handle, younger(20), threshold=-5).rows() == [(True, 3)]
    some = opened(ana, predicate="age >= 70")
    assert [asked(ana, some, age, threshold=100) for age in (70, 85)] == [False, True]


def test_explain_costs_nothing_and_says_how_far_off(curator: duckdp.Curator) -> None:
    con, ana = curator.connect("ana"), curator.session("ana")
    lines = [r[0] for r in ana.explain_sparse_open("t", 450, epsilon="0.5", hits=3, values=True).rows()]
    call = "FROM dp_explain_sparse_open('t', 450, epsilon := 0.5, hits := 3, values := true)"
    assert [r[0] for r in con.execute(call).fetchall()] == lines
    assert lines[0] == "a handle for any number of questions, until 3 hits"
    assert "95%, of 100 questions: what is above has at least" in lines[1]
    assert "95%: the value of each hit is within 36 of its count" in lines[2]
    assert "up to the first hit" in str(ana.explain_above_threshold("t", ["age < 3"], 5, epsilon=1))
    assert not ana.ledger().rows()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("dp_above_threshold('t', [], 5, epsilon := 1)", "P107: candidates=0: must not be empty"),
        ("dp_above_threshold('t', ['age < 3', 'age  <  3'], 5, epsilon := 1)", "stands twice"),
        ("dp_above_threshold('t', ['age < 3'], 'nan'::DOUBLE, epsilon := 1)", "P107: threshold='nan'"),
        ("dp_above_threshold('t', ['age < 3'], NULL, epsilon := 1)", "P107: threshold=None"),
        ("dp_above_threshold('t', ['age < 3'], 5, epsilon := 1, hits := 2)", "P107: hits=2: must be at most 1"),
        ("dp_above_threshold('t', ['age < 3'], 5, epsilon := 1, hits := 0)", "P107: hits="),
        ("dp_above_threshold('t', ['age < 3'], 5)", "P101"),
        ("dp_above_threshold('t', ['age < 3'], 5, epsilon := 0.0000001)", "P101"),
        ("dp_above_threshold('t', ['count(*) > 3'], 5, epsilon := 1)", "Q301"),
        ("dp_above_threshold('nope', ['age < 3'], 5, epsilon := 1)", "C101"),
        ("dp_sparse_open('t', 'inf'::DOUBLE, epsilon := 1)", "P107: threshold='inf'"),
        ("dp_sparse_open('t', 5, epsilon := 1, hits := 10001)", "P107: hits=10001: must be at most 10,000"),
        ("dp_sparse_open('t', 5, epsilon := 1, predicate := 'age')", "Q203"),
        ("dp_sparse_ask(77, 'age < 3')", "C110: handle 77 is unknown"),
        ("dp_sparse_ask(0, 'age < 3')", "P107: handle="),
        ("dp_sparse_ask(1, 'age < 3')", "C110: charge 1 is no handle"),
        ("dp_sparse_ask(3, 'age < 3')", "C110: charge 3 is no handle"),
        ("dp_sparse_ask(2, 'age < 3')", "C110: handle 2 is unknown or belongs to somebody else"),
        ("dp_sparse_ask(4, 'age')", "Q203"),
        ("dp_sparse_ask(4, 'age < 3', threshold := 'nan')", "P107: threshold='nan'"),
    ],
)
def test_refusals_are_coded_and_free(curator: duckdp.Curator, call: str, words: str) -> None:
    ana = curator.session("ana")
    ana.noisy_count("t", epsilon=1)
    opened(curator.session("ben"))
    ana.above_threshold("t", ["age < 3"], 5, epsilon=1)
    opened(ana)
    with curator.connect("ana") as con, pytest.raises(duckdb.Error) as error:
        con.execute(f"FROM {call}").fetchall()
    assert words in str(error.value)
    assert len(curator.ledger.charges()) == 4


def test_a_budget_that_does_not_cover_it_opens_nothing(curator: duckdp.Curator) -> None:
    with pytest.raises(BudgetError, match="B101"):
        opened(curator.session("ben"), epsilon=60)
    assert not curator.ledger.charges()


# ---- stopped analysts, other data


def test_stopped_analysts_and_other_data_are_refused(curator: duckdp.Curator, tmp_path: Path) -> None:
    ana, con = curator.session("ana"), curator.connect("ana")
    handle = opened(ana)
    assert not asked(ana, handle, 5)

    def refused(code: str) -> None:
        for age in (5, 7):  # also what was answered
            with pytest.raises(DuckDPError, match=code):
                asked(ana, handle, age)
            with pytest.raises(duckdb.Error, match=code):
                con.execute(f"FROM dp_sparse_ask({handle}, 'age < {age}')")
                con.execute(f"FROM dp_sparse_ask({handle}, 'age < {age}')").fetchall()

    curator.revoke("ana")
    refused("B103")
    curator.grant("ana", epsilon=5_000, raise_to=True, reason="back")
    curator.freeze(reason="looked at")
    refused("B103")
    curator.unfreeze(reason="fine")
    assert not asked(ana, handle, 6)
    protect(curator, most=111)
    refused("C103: the declarations changed since this release began")
    protect(curator)
    assert not asked(ana, handle, 8)  # as it was
    curator.ledger.accept_source("another", reason="new rows")
    curator.data._fingerprint = "another"
    refused("C104")
    assert opened(ana) != handle
    curator.ledger.verify()


def test_the_owner_may_end_it(curator: duckdp.Curator) -> None:
    ana = curator.session("ana")
    handle = opened(ana)
    assert not asked(ana, handle, 5)
    curator.end_interaction(handle, reason="enough")
    with pytest.raises(BudgetError, match="B108"):
        asked(ana, handle, 6)
    assert not asked(ana, handle, 5)


# ---- at once, interrupted, killed


def test_who_ask_at_once_take_turns(curator: duckdp.Curator) -> None:
    handle = opened(curator.session("ana"), hits=3)
    ages = [3, 70, 4, 75, 3, 70, 80, 85, 5, 88]
    with ThreadPoolExecutor(6) as pool:

        def ask(age: int) -> tuple[int, bool | str]:
            try:
                return age, asked(curator.session("ana"), handle, age)
            except BudgetError as error:
                return age, error.code

        found = list(pool.map(ask, ages))
    told = {age: {answer for other, answer in found if other == age} for age in ages}
    answers = {age: next(iter(said)) for age, said in told.items() if len(said) == 1}
    assert sum(answer is True for answer in answers.values()) <= 3
    assert all(answer in ((False, "B108") if age < 50 else (True, "B108")) for age, answer in answers.items())
    steps, _ = curator.ledger._store.read(
        lambda tx: (tx.rows("SELECT number, output FROM step WHERE charge = ? ORDER BY number", handle), None)
    )
    assert [row["number"] for row in steps] == list(range(len(steps)))
    left = [json.loads(row["output"])["left"] for row in steps[1:]]
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0


def test_one_who_does_not_let_go_is_not_waited_for_for_ever(
    curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = curator.session("ana")
    handle = opened(ana)
    monkeypatch.setattr(curator.ledger, "patience", 0.05)
    charge = ana.desk.own_charge(handle)
    task = stream_of(ana, handle)
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(lambda: ana.desk.go_on(charge, task, table=task.table)).result()
        with pytest.raises(BudgetError, match=f"B206: somebody else is going on with .* charge {handle}"):
            asked(ana, handle, 5)
        pool.submit(held.close).result()
    assert not asked(ana, handle, 5)


def stream_of(session: Session, handle: int) -> SparseStream:
    from duckdp.functions.thresholds import _opened

    charge = session.desk.own_charge(handle)
    return _opened(session.desk, json.loads(charge.parameters), charge.loss.epsilon_nano)


MOMENTS = ((Engine, "run"), (Ledger, "take_up"), (Ledger, "past"), (Ledger, "store_step"), (Ledger, "let_go"))


def test_interrupted_anywhere_no_draw_that_was_stored_is_drawn_again(
    curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after each thing that is done; draws differ, so that one more would be seen."""
    ana, drawn = curator.session("ana"), iter(range(1, 10**6))
    monkeypatch.setattr(mechanism, "geometric", lambda _: 0)
    monkeypatch.setattr(mechanism, "laplace_noise", lambda n, _: [next(drawn) for _ in range(n)])  # told with a hit
    for number, (kind, name) in enumerate(MOMENTS):
        for when in ("before", "after"):
            handle = opened(
                ana, hits=5, values=True, predicate=f"age >= {number}" if when == "after" else None, fresh=True
            )
            stored = None
            with monkeypatch.context() as patch:
                call = getattr(kind, name)

                def ends(*given: Any, call: Any = call, when: str = when, **more: Any) -> Any:
                    if when == "after":
                        call(*given, **more)
                    raise KeyboardInterrupt

                patch.setattr(kind, name, ends)
                with pytest.raises((ExecutionError, KeyboardInterrupt)):
                    ana.sparse_ask(handle, younger(80))
                steps = curator.ledger._store.read(
                    lambda tx, h=handle: tx.rows("SELECT output, secret FROM step WHERE charge = ? ORDER BY number", h)
                )
                stored = None if len(steps) == 1 else json.loads(steps[1]["output"])["value"]
            value = ana.sparse_ask(handle, younger(80))["value"][0]
            assert stored in (None, value), (name, when)
            assert (stored is not None) == (name == "let_go" or (name, when) == ("store_step", "after")), (name, when)
            assert ana.sparse_ask(handle, younger(80))["value"][0] == value
            again = curator.ledger._store.read(
                lambda tx, h=handle: tx.rows("SELECT secret FROM step WHERE charge = ? ORDER BY number", h)
            )
            assert [row["secret"] for row in again] == [steps[0]["secret"], None]  # one threshold, ever
    curator.ledger.verify()


def test_errors_of_a_read_tell_nothing(curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    ana = curator.session("ana")
    handle = opened(ana)
    with monkeypatch.context() as patch:

        def fails(*_: object) -> None:
            raise ValueError("row 4242")

        patch.setattr(Engine, "run", fails)
        with pytest.raises(DuckDPError) as caught:
            asked(ana, handle, 5)
        assert caught.value.code == "X101"
        assert "4242" not in "".join(traceback.format_exception(caught.value))
    assert not asked(ana, handle, 5)


def test_the_threshold_that_was_drawn_is_told_to_nobody(
    curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A planted one: searched in all that is listed, logged, printed, raised, explained and exported."""
    secret = 918273645
    monkeypatch.setattr(SparseVector, "begin", lambda _: secret)
    ana, ledger = curator.session("ana"), curator.ledger
    told = [
        str(ana.sparse_open("t", 450, epsilon=40, values=True)),
        str(ana.above_threshold("t", ["age < 9"], 3, epsilon=9)),
    ]
    told += [str(ana.sparse_ask(1, younger(age))) for age in (5, 80)]
    assert "True" not in "".join(told)  # it is there
    task = stream_of(ana, 1)
    told += [repr(task), repr(task.vector), *ana.desk.own_charge(1).parameters]
    told += [str(page) for page in (ana.budget(), ana.ledger(), ana.summaries(), ana.catalog(), curator.charges())]
    told += [str(curator.history()), repr(ledger.log()), repr(ledger.charges()), repr(ledger.state())]
    told += [row[0] for row in ledger._store.read(lambda tx: tx.rows("SELECT detail FROM event"))]
    told += [str(part) for part in curator.connect("ana").execute("FROM dp_sparse_ask(1, 'age < 80')").fetchall()]
    curator.export_history(str(tmp_path / "history.csv"), form="csv")
    told.append((tmp_path / "history.csv").read_text())
    assert not [text for text in told if str(secret) in text]
    assert str(secret).encode() in Path(ledger.path).read_bytes() + Path(f"{ledger.path}-wal").read_bytes()


def test_the_command_line_goes_on_with_a_handle(tmp_path: Path) -> None:
    """Each command is a process of its own, as far as the ledger knows."""
    with duckdb.connect(str(tmp_path / "t.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT i % 90 AS age FROM range(900) r(i)")
    source = str(tmp_path / "t.duckdb")
    with duckdp.open(source) as owner:
        owner.protect("t", row_cap=10_000, bounds={"age": (0, 110)})
        owner.budget(epsilon=100)
        owner.grant("ana", epsilon=50)
    run = CliRunner()

    def ask(*words: str) -> str:
        done = run.invoke(main, ["ask", words[0], "--analyst=ana", *words[1:]])
        assert done.exit_code == 0, done.output
        return done.output

    assert "handle" in ask("sparse-open", "--epsilon=40", "--hits=2", source, "t", "450")
    assert "False" in ask("sparse-ask", source, "1", "age < 5")
    assert "True" in ask("sparse-ask", source, "1", "age < 80")
    assert "age < 80" in ask("above-threshold", "--epsilon=5", source, "t", "age < 80", "450")


# ---- neighbours through SQL


def first_hits(rows: int, runs: int, folder: Path) -> list[int]:
    """Which of two predicates is the first hit, asked anew each time; the rows that fulfil both are ``rows``."""
    frame = pa.table({"x": [1] * rows + [0] * (40 - rows)})
    with duckdp.open({"t": frame}, ledger=folder / "ledger") as curator:
        curator.protect("t", row_cap=100, bounds={"x": (0, 2)})
        curator.budget(epsilon=1_000_000)
        curator.grant("ana", epsilon=1_000_000)
        con = curator.connect("ana")
        call = "FROM dp_above_threshold('t', ['x > 0', 'x >= 1'], 6, epsilon := 0.2, fresh := true)"
        found = [con.execute(call).fetchall() for _ in range(runs)]
    return [[row[1] for row in rows].index(True) if rows[-1][1] is not False else 2 for rows in found]


def test_neighbours_through_sql_in_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The long form, with a finer twin, is in privacy/test_end_to_end.py."""
    runs = 100
    (tmp_path / "twin").mkdir()
    (tmp_path / "twin" / "other").mkdir()
    (tmp_path / "other").mkdir()
    assert point_epsilon_lower_bound(first_hits(5, runs, tmp_path), first_hits(6, runs, tmp_path / "other")) <= 0.2
    monkeypatch.setattr(mechanism, "geometrics", lambda _, n: [0] * n)  # a twin without noise of its questions
    monkeypatch.setattr(SparseVector, "begin", lambda _: 0)
    twin = tmp_path / "twin"
    assert point_epsilon_lower_bound(first_hits(5, runs, twin), first_hits(6, runs, twin / "other")) > 0.2


def test_an_answer_given_again_writes_nothing_and_takes_no_turn(curator: duckdp.Curator) -> None:
    """Even while somebody else goes on with the handle; and of many answers only what is new is read."""
    ana = curator.session("ana")
    handle = ana.sparse_open("t", 500, epsilon=20, hits=2)["handle"][0]
    first = [ana.sparse_ask(handle, f"age < {i}").rows() for i in range(3)]
    store = curator.ledger._store
    before = store.read(lambda tx: tx.head())
    assert [ana.sparse_ask(handle, f"age < {i}").rows() for i in range(3)] == first
    assert store.read(lambda tx: tx.head()) == before
    read: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        plain = Tx.rows

        def rows(self: Tx, sql: str, *values: object) -> list[Any]:
            found = plain(self, sql, *values)
            if "FROM step" in sql:
                read.append(len(found))
            return found

        patch.setattr(Tx, "rows", rows)
        patch.setattr(type(store), "write", lambda *_: pytest.fail("something was written"))
        assert ana.sparse_ask(handle, "age < 1").rows() == first[1]
        patch.undo()
        patch.setattr(Tx, "rows", rows)
        ana.sparse_ask(handle, "age < 77")
        ana.sparse_ask(handle, "age < 2")
    assert max(read) <= 1, read

"""Releases that go on question by question: whatever ends an attempt, no draw that was seen is drawn again."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from duckdp.core.reads import Add, PrivateQuery
from duckdp.core.steps import Past, Steps
from duckdp.core.task import Dialogue, Question, Step
from duckdp.core.types import NANO, Loss
from duckdp.errors import DuckDPError, InternalError
from duckdp.ledger import Charge, ChargeRequest, Ledger, StoredStep, chain, interactions
from tests import above
from tests.above import AboveThreshold
from tests.ledgers import ask as plain
from tests.ledgers import key, refused, set_up

QUERY = PrivateQuery(sql="", parts=Add())
TASK = AboveThreshold(name="a", threshold=4, hits=2, epsilon_nano=NANO)


class Killed(BaseException):
    """The end of a process, as it looks from within."""


def request(task: AboveThreshold = TASK, analyst: str = "ana") -> ChargeRequest:
    return plain(task.canonical, analyst=analyst, loss=task.loss)


def dialogue(ledger: Ledger, charge: Charge, counts: dict[str, int]) -> Dialogue:
    """A dialogue over counts by the question's text, as a session has it over a table."""

    def past() -> tuple[Steps, bool]:
        steps, ended = ledger.past(charge)
        return steps, ended is not None

    def keep(number: int, asked: str, step: Step) -> tuple[str, bool]:
        stored = StoredStep(question=asked, output=step.output, secret=step.secret)
        return ledger.store_step(charge, number, stored, last=step.last)

    return Dialogue(lambda query: [(counts[query.sql],)], past=past, keep=keep, key=key)


def about(name: str, task: AboveThreshold = TASK) -> Question:
    return task.question(PrivateQuery(sql=name, parts=Add()), name)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "a.ledger") as made:
        yield set_up(made, ana=10 * NANO, ben=10 * NANO)


# ---- the ledger's part -----------------------------------------------------------------------------------------------


def test_one_charge_pays_for_all_questions_and_equal_ones_are_answered_once(ledger: Ledger) -> None:
    charge = ledger.take_up(request(), TASK.begin())
    talk = dialogue(ledger, charge, {"low": -1000, "high": 1000, "higher": 2000, "more": 3000})
    assert [talk.ask(about(name)) for name in ("low", "high", "low", "high")] == ["below", "above", "below", "above"]
    assert ledger.past(charge)[1] is None
    assert talk.ask(about("higher")) == "above"
    assert talk.ask(about("more")) is None
    assert [talk.ask(about(name)) for name in ("low", "high", "higher")] == ["below", "above", "above"]
    assert ledger.state().primary_spent == NANO
    assert ledger.past(charge)[1] == interactions.BY_MECHANISM
    with refused("B108"):
        ledger.store_step(charge, 4, StoredStep(question=key("more"), output="above"))
    again = ledger.take_up(request(), "not used")
    assert dialogue(ledger, again, {}).ask(about("high")) == "above"


def test_a_question_that_is_asked_as_a_new_step_is_the_step_that_it_was(ledger: Ledger) -> None:
    """Even from who does not look at the steps before: it is no damage, and nothing is stored twice."""
    charge = ledger.take_up(request(), "7")
    assert ledger.store_step(charge, 1, StoredStep(question=key("x"), output="above")) == ("above", True)
    assert ledger.store_step(charge, 2, StoredStep(question=key("x"), output="below")) == ("above", False)
    assert ledger.store_step(charge, 2, StoredStep(question=key("y"), output="below")) == ("below", True)
    ledger.verify()


def test_it_is_taken_up_as_often_as_one_likes(ledger: Ledger) -> None:
    first = ledger.take_up(request(), "7")
    for turn in range(2, 9):
        ledger.let_go(first)
        first = ledger.take_up(request(), f"{turn}")
        assert (first.attempt, [step.secret for step in ledger.past(first)[0]]) == (turn, ["7"])
    assert (ledger.state().primary_spent, ledger.charges()[0].attempt) == (NANO, 1)


def test_one_holder_at_a_time(ledger: Ledger) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool, Ledger.open(ledger.path) as other:
        held = pool.submit(ledger.take_up, request(), "1").result()
        with refused("B206") as caught:
            other.take_up(request(), "2")
        assert "Close it there, or end that process" in str(caught.value)
        pool.submit(ledger.let_go, held).result()
        mine = other.take_up(request(), "2")
        for use in (
            lambda: ledger.past(held),
            lambda: ledger.store_step(held, 1, StoredStep(question=key("x"), output="above")),
        ):
            with refused("B206"):
                use()
        assert other.store_step(mine, 1, StoredStep(question=key("x"), output="below")) == ("below", True)
        assert other.store_step(mine, 1, StoredStep(question=key("x"), output="above")) == ("below", False)


def test_who_lost_the_turn_cannot_let_it_go(ledger: Ledger) -> None:
    """A late ``close`` of the turn before leaves the one that goes on with it: there are never two."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool, Ledger.open(ledger.path) as other:
        held = pool.submit(ledger.take_up, request(), "1").result()
        pool.submit(ledger.let_go, held).result()
        mine = other.take_up(request(), "2")
        pool.submit(ledger.let_go, held).result()
        ledger._store.write(lambda tx: interactions.let_go(tx, held))  # whose look came before the other's turn
        with refused("B206"):
            pool.submit(ledger.take_up, request(), "3").result()
        assert other.store_step(mine, 1, StoredStep(question=key("x"), output="below")) == ("below", True)


def test_one_key_is_one_release_of_one_cost_over_the_present_data(ledger: Ledger) -> None:
    ledger.accept_source("first")
    for part in ("data_version", "catalog_version"):
        with pytest.raises(DuckDPError, match="C10"):
            ledger.take_up(replace(request(), **{part: 7}), "1")
    assert not ledger.charges()
    ledger.let_go(ledger.take_up(request(), "1"))
    for other in ({"loss": Loss(epsilon_nano=1)}, {"kind": "summary"}):
        with pytest.raises(InternalError, match="another question"):
            ledger.take_up(replace(request(), **other), "1")


def test_its_steps_have_an_end(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one charge may take of the disk is bounded; what was answered stays."""
    monkeypatch.setattr(interactions, "MOST_STEPS", 3)
    charge = ledger.take_up(request(), "1")
    for number in (1, 2):
        ledger.store_step(charge, number, StoredStep(question=key(number), output=f"{number}"))
    with refused("B108"):
        ledger.store_step(charge, 3, StoredStep(question=key(3), output="3"))
    assert ledger.store_step(charge, 1, StoredStep(question=key(1), output="else")) == ("1", False)
    assert len(ledger.past(charge)[0]) == 3


def test_what_was_drawn_beside_an_unknown_step_is_refused(ledger: Ledger) -> None:
    charge = ledger.take_up(request(), "1")
    one, two = (dialogue(ledger, charge, {"x": -1000, "y": -2000}) for _ in range(2))  # or it might end
    assert one.ask(about("x")) == two.ask(about("x"))
    one.ask(about("y"))
    two._known = Steps(two._steps()[:2])
    with refused("B206"):
        ledger.store_step(charge, 2, StoredStep(question=key("z"), output="above"))
    with refused("B206"):
        ledger.store_step(charge, 4, StoredStep(question=key("z"), output="above"))
    assert two.ask(about("y")) == one.ask(about("y"))


def test_an_analyst_who_is_stopped_hears_no_more_of_it(ledger: Ledger) -> None:
    charge = ledger.take_up(request(), "1")
    ledger.revoke("ana", "stop")
    for use in (
        lambda: ledger.take_up(request(), "1"),
        lambda: ledger.past(charge),
        lambda: ledger.store_step(charge, 1, StoredStep(question=key("x"), output="above")),
    ):
        with refused("B103"):
            use()
    ledger.grant("ana", epsilon_nano=10 * NANO, delta_atto=10**12, raise_to=True, reason="back")
    assert ledger.store_step(charge, 1, StoredStep(question=key("x"), output="below"))[1]


def test_the_owner_ends_it(ledger: Ledger) -> None:
    charge = ledger.take_up(request(), "1")
    ledger.store_step(charge, 1, StoredStep(question=key("x"), output="below"))
    ledger.end_interaction(charge.id, "enough")
    assert (ledger.log()[0].kind, ledger.log()[0].reason) == ("end", "enough")
    with refused("B108"):
        ledger.store_step(charge, 2, StoredStep(question=key("y"), output="below"))
    steps, ended = ledger.past(charge)
    assert ([s.output for s in steps[1:]], [s.secret for s in steps], ended) == (["below"], [None, None], "enough")
    assert (ledger.state().primary_spent, ledger.charges()[0].state) == (NANO, "released")
    with refused("P107"):
        ledger.end_interaction(ledger.admit(plain("q")).id, "no")


def test_another_analyst_has_another_one(ledger: Ledger) -> None:
    mine, theirs = ledger.take_up(request(), "1"), ledger.take_up(request(analyst="ben"), "2")
    assert (mine.id, theirs.id) == (1, 2)
    assert [ledger.past(c)[0][0].secret for c in (mine, theirs)] == ["1", "2"]


def test_single_releases_are_as_they_were(ledger: Ledger) -> None:
    for _ in range(3):
        ledger.fail(ledger.admit(plain("q")))
    with refused("B106"):
        ledger.admit(plain("q"))


class Racing:
    """A store whose first transaction ends after whoever waited for it was interrupted, and looked."""

    def __init__(self) -> None:
        self.steps = [StoredStep(question="", output="", secret="begun")]
        self.late: list[StoredStep] = []

    def past(self) -> tuple[Steps, bool]:
        return Steps(self.steps), False

    def keep(self, number: int, asked: str, step: Step) -> tuple[str, bool]:
        if not self.late and len(self.steps) == 1:
            self.late.append(StoredStep(question=asked, output=step.output, secret=step.secret))
            raise KeyboardInterrupt
        self.steps += self.late
        self.late = []
        for old in self.steps[1:]:
            if old.question == asked:
                return old.output, False
        assert number == len(self.steps)
        self.steps.append(StoredStep(question=asked, output=step.output, secret=step.secret))
        return step.output, True


def test_what_an_interrupted_attempt_stored_goes_on() -> None:
    """Its secret too, though the outputs be equal."""
    store, drawn, seen = Racing(), iter("abcdef"), []

    def draw(_: object, past: Past) -> Step:
        seen.append(tuple(past.secrets))
        return Step(output="below", secret=next(drawn))

    talk = Dialogue(lambda _: (), past=store.past, keep=store.keep)
    with pytest.raises(KeyboardInterrupt):
        talk.ask(Question(canonical="one", draw=draw))
    assert talk.ask(Question(canonical="one", draw=draw)) == "below"
    assert talk.ask(Question(canonical="two", draw=draw)) == "below"
    assert seen == [("begun",), ("begun",), ("begun", "a")]
    with pytest.raises(InternalError):
        talk.ask(
            Question(canonical="three", draw=lambda *_: Step(output=str(talk.ask(Question(canonical="4", draw=draw)))))
        )


def test_what_leaves_is_what_is_stored() -> None:
    """An attempt before may have stored an output of its own: then that leaves, and the new draw is nobody's."""
    steps = [StoredStep(question="", output="", secret="begun")]

    def keep(number: int, asked: str, step: Step) -> tuple[str, bool]:
        steps.append(StoredStep(question=asked, output="stored", secret="old"))
        return "stored", False

    talk = Dialogue(lambda _: (), past=lambda: (Steps(steps), False), keep=keep)
    for _ in range(2):
        drawn = Question(canonical="one", draw=lambda *_: Step(output="drawn", secret="new"))
        assert talk.ask(drawn) == "stored"
    seen: list[Past] = []
    talk.ask(Question(canonical="two", draw=lambda _, past: seen.append(past) or Step(output="drawn")))
    assert [(past.outputs, past.secrets) for past in seen] == [(("stored",), ("begun", "old"))]


def test_a_question_within_another_is_refused() -> None:
    """Else its step would come before the one whose draw it followed from."""
    kept: list[int] = []

    def keep(number: int, asked: str, step: Step) -> tuple[str, bool]:
        kept.append(number)
        return step.output, True

    talk = Dialogue(lambda _: (), past=lambda: (Steps([StoredStep(question="", output="")]), False), keep=keep)
    inner = Question(canonical="inner", draw=lambda *_: Step(output="in"))
    outer = Question(canonical="outer", draw=lambda *_: Step(output=f"out {talk.ask(inner)}"))
    with pytest.raises(InternalError, match="within another"):
        talk.ask(outer)
    assert kept == []
    assert talk.ask(inner) == "in"


def test_a_question_reads_while_it_draws_and_not_later() -> None:
    """Nor does a release that has ended: what is kept of its way to the rows is worth nothing."""
    reads: list[Any] = []

    def step(read: Any, _: Past) -> Step:
        reads.append(read)
        return Step(output=str(list(read(QUERY))), last=True)

    talk = Dialogue(
        lambda _: [(7,)],
        past=lambda: (Steps([StoredStep(question="", output="")]), False),
        keep=lambda number, asked, step: (step.output, True),
    )
    assert talk.ask(Question(canonical="one", draw=step)) == "[(7,)]"
    with pytest.raises(InternalError, match="outside of a stage"):
        reads[0](QUERY)
    assert talk.ask(Question(canonical="two", draw=step)) is None


def test_the_chain_tells_nothing_of_a_secret(ledger: Ledger) -> None:
    """A threshold is one of a few numbers: its digest must not be found by trying them."""
    ledger.take_up(request(), "7")
    (row,) = ledger._store.read(lambda tx: tx.rows("SELECT detail FROM event WHERE kind = 'step'"))
    digest = json.loads(row[0])["digest"]
    guesses = [form.format(k) for k in range(-99, 100) for form in ("{}", ":{}", "{}:", " {}")]
    assert digest not in {chain.digest(1, 0, "", "", guess) for guess in guesses}


def test_an_edit_is_refused_and_found_by_verify(ledger: Ledger) -> None:
    charge = ledger.take_up(request(), "7")
    ledger.store_step(charge, 1, StoredStep(question=key("x"), output="below"))
    ledger.verify()
    edits = (
        "UPDATE step SET secret = '1:8' WHERE number = 0",
        "UPDATE step SET output = 'above' WHERE number = 1",
        "DELETE FROM step WHERE number = 1",
        "UPDATE interaction SET turn = 9",
        "UPDATE interaction SET steps = 1",
        "UPDATE interaction SET ended = NULL, holder = ''",
    )
    for number, edit in enumerate(edits):
        path = Path(ledger.path).with_name(f"{number}.ledger")
        with Ledger.open(path) as other:
            charge = set_up(other).take_up(request(), "7")
            other.store_step(charge, 1, StoredStep(question=key("x"), output="below"))
            with sqlite3.connect(path) as connection:
                triggers = connection.execute(
                    "SELECT name, sql FROM sqlite_schema WHERE name LIKE 'step%' AND sql > ' '"
                )
                known = [row for row in triggers.fetchall() if row[1].startswith("CREATE TRIGGER")]
                for statement in (*(f"DROP TRIGGER {name}" for name, _ in known), edit, *(sql for _, sql in known)):
                    connection.execute(statement)
            connection.close()
            for use in (lambda: other.past(charge), other.verify):  # noqa: B023 - used at once
                with refused("B202"):
                    use()


@pytest.mark.parametrize("vouched", [True, False])
def test_a_backup_does_not_answer_what_its_original_may_have_answered(
    ledger: Ledger, tmp_path: Path, vouched: bool
) -> None:
    """Neither by a step nor by a release, unless nothing was lost."""
    charge = ledger.take_up(request(), "7")
    ledger.fail(ledger.admit(plain("q")))
    ledger.backup(tmp_path / "copy")
    if not vouched:
        ledger.fail(ledger.admit(plain("later")))  # which an anchor elsewhere knows of
    with Ledger.open(tmp_path / "copy", create=False) as copy:
        copy.put_into_service(reason="burned", nothing_lost=vouched)
        copy.verify()
        if vouched:
            ledger.let_go(charge)
            assert copy.past(copy.take_up(request(), "8"))[0][0].secret == "7"
            assert isinstance(copy.admit(plain("q")), Charge)
            return
        steps, ended = copy.past(copy.take_up(request(), "8"))
        assert ended == "what it answered after the backup is lost"
        assert [s.secret for s in steps] == [None]
        with refused("B106"):
            copy.admit(plain("q"))


# ---- every point at which a process can end --------------------------------------------------------------------------


@dataclass
class Spy:
    """What happens, in order; ends it at one of these moments, before or after.

    Attributes:
        at: which moment ends the attempt.
        draws: the noise of each question that anything followed from.
    """

    at: int = -1
    moments: list[str] = field(default_factory=list)

    def tell(self, what: str) -> None:
        self.moments.append(what)
        if len(self.moments) - 1 == self.at:
            raise Killed


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    found = Spy()

    def watched(kind: type, name: str) -> None:
        call = getattr(kind, name)

        def around(*given: Any, **more: Any) -> Any:
            found.tell(name)
            value = call(*given, **more)
            found.tell(f"{name} done")
            return value

        monkeypatch.setattr(kind, name, around)

    for kind, name in (
        (AboveThreshold, "begin"),
        (Ledger, "take_up"),
        (Ledger, "past"),
        (Ledger, "store_step"),
        (above, "draw"),
    ):
        watched(kind, name)  # type: ignore[arg-type]
    return found


COUNTS = {"q1": 3, "q2": 5, "q3": 4, "q4": 100, "q5": 200}


def attempt(path: Path, seen: dict[str, set[str]], secrets: set[str]) -> None:
    """One process's life: take up, ask all, note what was seen. Dies where the spy says."""
    with Ledger.open(path, create=False) as ledger:
        charge = ledger.take_up(request(), TASK.begin())
        talk = dialogue(ledger, charge, COUNTS)
        for name in COUNTS:
            output = talk.ask(about(name))
            if output is not None:
                seen.setdefault(name, set()).add(output)
            secrets |= {s.secret for s in ledger.past(charge)[0] if s.secret is not None}
        ledger.let_go(charge)


def check_ended(path: Path, spy: Spy, at: int, times: int) -> bool:
    """Ended at a point, again and again, then left in peace; whether the point was reached."""
    with Ledger.open(path) as made:
        set_up(made)
    seen: dict[str, set[str]] = {}
    secrets: set[str] = set()
    reached = False
    for life in range(times + 1):
        spy.at, spy.moments = (at if life < times else -1), []
        try:
            attempt(path, seen, secrets)
        except Killed:
            reached = True
    assert all(len(outputs) == 1 for outputs in seen.values())
    assert len(secrets) == 1
    with Ledger.open(path, create=False) as ledger:
        assert ledger.state().primary_spent == NANO
        stored = {s.question: s.output for s in ledger.past(ledger.take_up(request(), "x"))[0]}
    assert all(stored[key(name)] in outputs for name, outputs in seen.items())
    assert list(stored.values()).count("above") <= TASK.hits
    return reached


def test_ended_at_points_nothing_seen_is_drawn_again(tmp_path: Path, spy: Spy) -> None:
    for at in range(0, 26, 4):
        assert check_ended(tmp_path / f"{at}.ledger", spy, at, 4), at


@pytest.mark.slow
def test_ended_at_every_point_nothing_seen_is_drawn_again(tmp_path: Path, spy: Spy) -> None:
    at = 0
    while check_ended(tmp_path / f"{at}.ledger", spy, at, 3):
        at += 1
    assert at > 25


LIVES = multiprocessing.get_context("forkserver")
LIVES.set_forkserver_preload([__name__])  # what a process loads takes thirty times as long as its life


def live_until(path: Path, at: int, heard: Path) -> None:
    """A process's life: take up, ask all, tell what was answered; killed at a moment, -1: never."""
    count = [0]

    def around(kind: Any, name: str) -> None:
        call = getattr(kind, name)

        def watched(*given: Any, **more: Any) -> Any:
            moment(count, at)
            value = call(*given, **more)
            moment(count, at)
            return value

        setattr(kind, name, watched)

    for kind, name in (
        (AboveThreshold, "begin"),
        (Ledger, "take_up"),
        (Ledger, "past"),
        (Ledger, "store_step"),
        (above, "draw"),
    ):
        around(kind, name)
    with heard.open("w") as told, Ledger.open(path, create=False) as ledger:
        charge = ledger.take_up(request(), TASK.begin())
        talk = dialogue(ledger, charge, COUNTS)
        print(json.dumps(["secret", ledger.past(charge)[0][0].secret]), file=told, flush=True)
        for name in COUNTS:
            print(json.dumps([name, talk.ask(about(name))]), file=told, flush=True)


def moment(count: list[int], at: int) -> None:
    if count[0] == at:
        os.kill(os.getpid(), signal.SIGKILL)
    count[0] += 1


def live(path: Path, at: int) -> tuple[list[tuple[str, str]], bool]:
    heard = path.with_suffix(".heard")
    process = LIVES.Process(target=live_until, args=(path, at, heard))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return [tuple(json.loads(line)) for line in heard.read_text().splitlines()], process.exitcode != 0


def check_killed(path: Path, points: list[int]) -> bool:
    """Killed at these points, one life after another, then left in peace; whether the last point ended a life."""
    with Ledger.open(path) as made:
        set_up(made)
    told, killed = [], False
    for at in [*points, -1]:
        lines, died = live(path, at)
        told += lines
        killed = died if at != -1 else killed
    answers: dict[str, set[str]] = {}
    for name, output in told:
        if output is not None:
            answers.setdefault(name, set()).add(output)
    assert all(len(outputs) == 1 for outputs in answers.values()), answers
    with Ledger.open(path, create=False) as ledger:
        assert ledger.state().primary_spent == NANO
    return killed


@pytest.mark.parametrize("points", [[3, 9], [6, 6, 14]])
def test_killed_processes_leave_one_threshold_and_one_answer_each(tmp_path: Path, points: list[int]) -> None:
    assert check_killed(tmp_path / "a.ledger", points)


@pytest.mark.slow
def test_killed_at_every_point(tmp_path: Path) -> None:
    at = 0
    while check_killed(tmp_path / f"{at}.ledger", [at, at]):
        at += 1
    assert at > 10

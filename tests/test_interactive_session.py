"""Releases that go on question by question, as a session has them: errors, other data, and where secrets are."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import duckdp
from duckdp.cli import main
from duckdp.compiler.emit import emit
from duckdp.compiler.pricing import Terms, price
from duckdp.core.task import Question
from duckdp.core.types import NANO
from duckdp.desk.interactive import Interaction
from duckdp.errors import BudgetError, DuckDPError, ExecutionError
from duckdp.session import Session
from tests.above import AboveThreshold

ROWS = 400
BIG = AboveThreshold(name="big", threshold=200, hits=2, epsilon_nano=20 * NANO)


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[duckdp.Curator]:
    with open_owner(tmp_path) as made:
        yield made


def open_owner(folder: Path) -> duckdp.Curator:
    rows = pa.table({"x": list(range(ROWS))})
    made = duckdp.open({"t": rows}, ledger=folder / "t.ledger")
    made.protect("t", row_cap=1000, bounds={"x": (0, ROWS)})
    made.budget(epsilon=100)
    made.grant("ana", epsilon=50)
    made.grant("ben", epsilon=50)
    return made


def below(session: Session, x: int, task: AboveThreshold = BIG) -> Question:
    """How many rows have an x below this: about that many."""
    query = session.desk.read(f"SELECT count(*) FROM t WHERE x < {x}")
    plan = price(query, Terms(epsilon=1), session.desk.neighbours).plan
    return task.question(emit(plan, session.desk._data.salt), plan.canonical())


def start(owner: duckdp.Curator, who: str = "ana") -> Interaction:
    return owner.session(who).interact(BIG, table=owner.table("t"), statement="above(200)")


def test_a_session_asks_until_it_ends(owner: duckdp.Curator) -> None:
    ana = owner.session("ana")
    with start(owner) as talk:
        answers = [talk.ask(below(ana, x)) for x in (3, 100, 390, 100, 3, 395)]
        assert answers == ["below", "below", "above", "below", "below", "above"]
        with pytest.raises(BudgetError, match="B108"):
            talk.ask(below(ana, 398))
        assert talk.ask(below(ana, 395)) == "above"
    assert [c.state for c in owner.ledger.charges()] == ["released"]
    assert ana.remaining_text() == "epsilon=30 left"
    with start(owner) as again:
        assert (again.charge_id, again.ask(below(ana, 390))) == (1, "above")
    owner.ledger.verify()


def test_a_session_is_one_holder_and_closes(owner: duckdp.Curator) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        talk = pool.submit(start, owner).result()
        with pytest.raises(BudgetError, match="B206"):
            start(owner)
        pool.submit(talk.close).result()
        with start(owner) as mine, pytest.raises(BudgetError, match="B206"):
            talk.ask(below(owner.session("ana"), 5))
        mine.end()
        with pytest.raises(BudgetError, match="B108"):
            start(owner).ask(below(owner.session("ana"), 5))


def test_errors_tell_nothing_and_the_release_goes_on(owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    ana, secret = owner.session("ana"), 4242
    with start(owner) as talk:
        for error, code in (
            (KeyboardInterrupt(), "E103"),
            (ExecutionError("E102", 1), "E103"),
            (ValueError(f"row {secret}"), "X101"),
        ):
            with monkeypatch.context() as patch:

                def fails(*_: object, error: BaseException = error) -> None:
                    raise error

                patch.setattr(type(owner.engine), "run", fails)
                with pytest.raises(DuckDPError) as caught:
                    talk.ask(below(ana, 7))
                assert caught.value.code == code
                assert str(secret) not in "".join(traceback.format_exception(caught.value))
        assert talk.ask(below(ana, 7)) == "below"
    assert len(owner.ledger.charges()) == 1


def test_older_data_and_stopped_analysts_are_refused(owner: duckdp.Curator) -> None:
    ana = owner.session("ana")
    with start(owner) as talk:
        talk.ask(below(ana, 7))
        question = below(ana, 9)
        owner.revoke("ana")
        for asked in (question, question):
            with pytest.raises(BudgetError, match="B103"):
                talk.ask(asked)
        owner.grant("ana", epsilon=50, raise_to=True, reason="back")
        assert talk.ask(question) == "below"
        owner.ledger.accept_source("another", reason="new rows")
        owner.data._fingerprint = "another"
        with pytest.raises(DuckDPError, match="C104"):
            talk.ask(question)
    assert start(owner).charge_id == 2


def test_a_declaration_that_changed_ends_it(owner: duckdp.Curator) -> None:
    """What was drawn covers units and bounds as they were declared when it began."""
    ana = owner.session("ana")
    with start(owner) as talk:
        questions = [below(ana, 7), below(ana, 9)]
        assert talk.ask(questions[0]) == "below"
        owner.protect("t", row_cap=1000, bounds={"x": (0, 2 * ROWS)})
        for question in questions:
            with pytest.raises(DuckDPError, match="C103"):
                talk.ask(question)


def test_the_owner_ends_a_sessions_release(owner: duckdp.Curator) -> None:
    with start(owner) as talk:
        owner.end_interaction(talk.charge_id, reason="enough")
        with pytest.raises(BudgetError, match="B108"):
            talk.ask(below(owner.session("ana"), 7))


def test_the_secret_is_in_the_ledger_and_nowhere_else(owner: duckdp.Curator, tmp_path: Path) -> None:
    """A planted one: searched in all that is listed, logged, printed, raised and written beside the ledger."""
    secret = 918273645
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AboveThreshold, "begin", lambda _: str(secret))
        talk = start(owner)
    ana, ledger = owner.session("ana"), owner.ledger
    told = [talk.ask(below(ana, 390)), repr(talk), repr(talk.__dict__), repr(ledger.past(talk._charge))]
    assert told[0] == "below"
    told += [repr(listed) for listed in (ledger.charges(), ledger.log(), ledger.state(), ledger.analysts())]
    told += [str(page) for page in (ana.budget(), ana.ledger(), ana.summaries(), ana.catalog(), owner.charges())]
    talk.close()
    talk.end()
    told += [repr(ledger.past(talk._charge)), repr(ledger.release("ana", 1)), ledger.verify().__repr__()]
    told += [row[0] for row in ledger._store.read(lambda tx: tx.rows("SELECT detail FROM event"))]
    run = CliRunner()
    source = str(tmp_path / "t.duckdb")
    for command in (["ledger", "show"], ["ledger", "log"], ["budget"]):
        told.append(run.invoke(main, [*command, source, "--ledger", ledger.path, *FORMATS.get(command[-1], [])]).output)
    assert not [text for text in told if str(secret) in text]
    ledger.backup(tmp_path / "copy")
    copied = (tmp_path / "copy").read_bytes()
    assert str(secret).encode() in copied  # the ledger's own file and whole copies of it have it


FORMATS = {"show": ["--format", "csv"], "log": ["--format", "json"]}

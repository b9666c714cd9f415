"""What an answer of a long release costs: nothing in it grows with the number of answers before."""

from __future__ import annotations

import json
import random
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import pyarrow as pa
import pytest

import duckdp
from duckdp.core import steps
from duckdp.core.steps import Past, Steps, StoredStep
from duckdp.ledger import interactions
from tests.ledgers import key

FEW, MANY = 20, 4000
AGES = 120


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    rows = pa.table({"sex": ["F", "M"] * 500, "age": [i % AGES for i in range(1000)]})
    with duckdp.open({"t": rows}, ledger=str(tmp_path_factory.mktemp("growth") / "t.ledger")) as owner:
        owner.protect("t", row_cap=10_000, domains={"sex": ["F", "M"]}, bounds={"age": (0, AGES - 1)})
        owner.budget(epsilon=500)
        owner.grant("ana", epsilon=400)
        yield owner


def fill(curator: duckdp.Curator, handle: int, wanted: int) -> None:
    """Answers that were not measured, as if they had been asked for, until there are so many."""
    ledger = curator.ledger
    row = next(row for row in ledger.charges("ana") if row.id == handle)
    desk = curator.session("ana")._desk
    task = _task(desk, row)
    with desk.go_on(row, task, table=task.table) as talk:

        def work(tx: Any) -> None:
            there = tx.one("SELECT steps FROM interaction WHERE charge = ?", handle)[0]
            for number in range(there, wanted):
                output = json.dumps({"value": 7.0, "measured": False, "left": 3, "predicate": "x"})
                interactions.store_step(
                    tx, talk._charge, number, StoredStep(question=key(number), output=output), last=False
                )

        ledger._store.write(work)


def _task(desk: Any, row: Any) -> Any:
    from duckdp.functions.weights import _stream

    return _stream(desk, json.loads(row.parameters), row.loss.epsilon_nano)


class Work:
    """What a call does: calls of functions within it, and the most bytes that it takes."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.calls = 0
        sys.setprofile(self._count)
        tracemalloc.start()
        try:
            call()
            self.bytes = tracemalloc.get_traced_memory()[1]
        finally:
            sys.setprofile(None)
            tracemalloc.stop()

    def _count(self, frame: Any, event: str, _: Any) -> None:
        self.calls += event in ("call", "c_call")


def grows(curator: duckdp.Curator) -> tuple[float, float]:
    """(calls, bytes) of an answer after many others, as parts of those after few; a new question, and an old one."""
    ana = curator.session("ana")
    handle = int(ana.pmw_open("t", ["sex", "age"], epsilon=1, hits=5, threshold=10**6, fresh=True)["handle"][0])
    ana.pmw_answer(handle, "sex = 'F'")  # with it the total
    of_few, of_many, asked = [], [], 0
    for wanted, found in ((FEW, of_few), (MANY, of_many)):
        fill(curator, handle, wanted)
        ana.pmw_answer(handle, f"age < {wanted}")  # what was stored by others is read once
        for _ in range(5):
            asked += 1
            for predicate in (f"age = {asked}", f"age < {wanted}"):
                found.append(Work(lambda predicate=predicate: ana.pmw_answer(handle, predicate)))
    parts = [[(w.calls, w.bytes) for w in found[kind::2]] for found in (of_few, of_many) for kind in (0, 1)]
    middle = [[median(one[i] for one in part) for i in (0, 1)] for part in parts]
    return tuple(max(middle[2 + kind][i] / middle[kind][i] for kind in (0, 1)) for i in (0, 1))  # type: ignore[return-value]


def test_an_answer_costs_the_same_after_many_others(curator: duckdp.Curator) -> None:
    calls, taken = grows(curator)
    assert calls < 1.1
    assert taken < 1.3
    curator.ledger.verify()


@pytest.mark.parametrize("broken", ["outputs are read anew", "steps are copied", "steps are looked through"])
def test_what_grows_is_noticed(curator: duckdp.Curator, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    if broken == "outputs are read anew":
        plain = steps.Followed.of
        monkeypatch.setattr(steps.Followed, "of", lambda _, *given: plain(steps.Followed(), *given))
    elif broken == "steps are copied":
        past = Steps.past
        monkeypatch.setattr(Steps, "past", lambda self: past(Steps(list(self))))
    else:
        found = lambda self, question: next((s.output for s in self if s.question == question), None)  # noqa: E731
        monkeypatch.setattr(Steps, "output", found)
    calls, taken = grows(curator)
    assert calls > 2 or taken > 2


def made(number: int) -> StoredStep:
    secret = f"secret {number}" if number % 3 == 0 else None
    return StoredStep(question=f"{number}" if number else "", output=f"output {number}", secret=secret)


def follows(past: Past) -> str:
    return past.follow("joined", "", lambda before, output: f"{before}|{output}")


def test_lists_of_steps_are_what_plain_ones_are() -> None:
    """Longer and shorter ones that share their memory, and such that went on otherwise."""
    rng = random.Random(5)
    lists: list[tuple[Steps, list[StoredStep]]] = [(Steps([made(0)]), [made(0)])]
    for _ in range(400):
        known, plain = lists[rng.randrange(max(0, len(lists) - 8), len(lists))]
        more = [made(3 * len(plain) + rng.randrange(3) + k) for k in range(rng.randrange(3))]
        more = [step for step in more if all(step.question != old.question for old in plain)]
        lists.append((known.and_then(more), [*plain, *more]))
        for found, expected in rng.sample(lists, min(4, len(lists))):
            assert list(found) == expected == list(found[0:]) and len(found) == len(expected)
            assert found[-1] == expected[-1]
            past = found.past()
            assert past.outputs == tuple(step.output for step in expected[1:])
            assert past.secrets == tuple(step.secret for step in expected if step.secret is not None)
            assert follows(past) == "".join(f"|{step.output}" for step in expected[1:])
            for step in expected[1:]:
                assert found.output(step.question) == step.output
            assert found.output("") is None and found.output("another") is None
            hidden = found.without_secrets()
            assert [(s.question, s.output, s.secret) for s in hidden] == [
                (s.question, s.output, None) for s in expected
            ]
            with pytest.raises(IndexError):
                found[len(expected)]
    assert "secret 0" not in repr(lists)
    assert max(len(plain) for _, plain in lists) > 20


def test_two_threads_may_go_on_from_the_same_steps() -> None:
    begun, found = Steps([made(0)]), dict[int, Steps]()

    def go_on(offset: int) -> None:
        known = begun
        for number in range(1, 300):
            known = known.and_then([made(offset + number)])
        found[offset] = known

    threads = [threading.Thread(target=go_on, args=(offset,)) for offset in (0, 1000, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for offset, known in found.items():
        assert [step.output for step in known[1:]] == [f"output {offset + number}" for number in range(1, 300)]


def test_of_what_is_remembered_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interactions, "MOST_KNOWN", 3)
    monkeypatch.setattr(interactions, "MOST_KNOWN_STEPS", 10)
    known = interactions.KnownSteps()

    def kept() -> list[int]:
        return [charge for charge in range(10) if len(known.of(charge)[1])]

    for charge in range(5):
        known.keep(charge, "digest", Steps([made(0)]))
    assert kept() == [2, 3, 4]
    known.keep(2, "digest", Steps([made(i) for i in range(9)]))
    assert kept() == [2, 4]
    known.keep(5, "digest", Steps([made(i) for i in range(20)]))
    assert kept() == [5]

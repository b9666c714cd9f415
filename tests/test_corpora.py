"""Everyday questions of a hospital and ClickBench's statements: each is answered, or refused as a stranger would."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import pytest

from duckdp.errors import CODES
from duckdp.functions.releases import Select
from duckdp.functions.spec import FUNCTIONS
from duckdp.result import Result
from duckdp.session import Session
from tests.corpora import CORPORA, corpus, explained

COUNTS = {"everyday": 144, "clickbench": 43}
ANSWERED = {"everyday": 136, "clickbench": 33}  # at least


@pytest.fixture(scope="module", params=CORPORA)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Session]]:
    """An analyst of each corpus's tables."""
    with CORPORA[request.param](tmp_path_factory.mktemp(request.param)) as ana:
        yield request.param, ana


def test_each_statement_becomes_what_its_block_says(opened: tuple[str, Session]) -> None:
    name, ana = opened
    questions = corpus(name)
    found = {q.title: explained(ana, q) for q in questions}
    assert {
        q.title: (found[q.title], q.outcome) for q in questions if found[q.title] != q.outcome and not q.waits
    } == {}
    assert sum(outcome == "answered" for outcome in found.values()) >= ANSWERED[name]


@pytest.mark.parametrize("name", CORPORA)
def test_each_refusal_has_a_reason(name: str) -> None:
    questions = corpus(name)
    assert len(questions) == COUNTS[name]
    assert all(q.outcome == "answered" or (q.outcome in CODES and q.right) for q in questions)


@pytest.mark.slow
def test_what_is_planned_is_answered(opened: tuple[str, Session]) -> None:
    name, ana = opened
    for question in corpus(name):
        if explained(ana, question) == "answered":
            found = ana.sql(question.text, epsilon=1, delta="1e-6")
            assert isinstance(found, Result), question.title


@pytest.mark.slow
def test_a_plan_takes_two_milliseconds_at_most(opened: tuple[str, Session]) -> None:
    """Parse to plan, of texts that nobody has asked before; the median over a corpus of each statement's median."""
    name, ana = opened
    spec, asked = FUNCTIONS["dp_query"], [q.text for q in corpus(name) if explained(ana, q) == "answered"]
    took: dict[str, list[float]] = {text: [] for text in asked}
    for turn in range(15):
        for text in asked:
            question = Select(**spec.read_values({"text": f"{text}\n-- {turn}", "epsilon": 1, "delta": "1e-6"}))
            begun = time.process_time()
            question._planned(ana.desk)
            took[text].append(1000 * (time.process_time() - begun))
    each = [statistics.median(times) for times in took.values()]
    print(f"{name}: {len(each)} statements, ms {[round(x, 2) for x in statistics.quantiles(each, n=10)]}")
    assert statistics.median(each) <= 2

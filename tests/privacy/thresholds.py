"""Counts against a threshold as tasks, for every suite that goes through all tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from duckdp.compiler.above_threshold import AboveThreshold, SparseStream
from duckdp.compiler.grouping import read_keys
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.scope import read_predicate
from duckdp.compiler.weighted_stream import WeightedStream
from duckdp.core.steps import Past
from duckdp.core.task import Stages, Work
from duckdp.core.types import NANO, Neighbours

#: What a stream is asked in suites that go through all tasks.
OF_CELLS = (
    "sex = 'F'",
    "town = 'Bern'",
    "CASE WHEN town = 'Bern' THEN 0.7 WHEN sex = 'F' THEN 0.25 END",
    "sex = 'M' AND town <> 'Bern'",
)
QUESTIONS = ("age > 40", "sex = 'F' AND cost < 1000", "smoker OR level IS NULL", "age <= 40")


def _above(table: Any, where: str | None, **terms: Any) -> dict[str, Any]:
    given = {"threshold": 30, "hits": 1, "valued": False, "epsilon_nano": NANO, "neighbours": Neighbours.ADD_REMOVE}
    return {"table": table, "where": None if where is None else predicate(where, table), **given, **terms}


def predicate(text: str, table: Any) -> Any:
    return read_predicate(parse_scalar(text), table, text)


def above(table: Any, texts: Sequence[str], where: str | None = None, **terms: Any) -> AboveThreshold:
    return AboveThreshold(predicates=tuple(predicate(t, table) for t in texts), **_above(table, where, **terms))


def stream(table: Any, where: str | None = None, *, opened: str = "", **terms: Any) -> SparseStream:
    return SparseStream(source=where, opened=opened, **_above(table, where, **terms))


def weights(table: Any, columns: str = "sex, town", *, opened: str = "", **terms: Any) -> WeightedStream:
    given = {"threshold": None, "hits": 2, "epsilon_nano": NANO, "neighbours": Neighbours.ADD_REMOVE, **terms}
    return WeightedStream(table=table, keys=read_keys(columns, table), opened=opened, **given)


def work_of(task: Any) -> Work:
    """The private part of a task; of a stream that of asking it all the questions, a stage each."""
    if isinstance(task, WeightedStream):
        asked = [task.first(), *(task.question(task.read(text), text) for text in OF_CELLS)]
    elif isinstance(task, SparseStream):
        asked = [task.question(predicate(text, task.table)) for text in QUESTIONS]
    else:
        return task.work(7)  # type: ignore[no-any-return]

    def work(stages: Stages) -> str:
        secrets, outputs = (task.begin(),), list[str]()
        for question in asked:
            past = Past(outputs=tuple(outputs), secrets=secrets)
            outputs.append(stages.run(lambda question=question, past=past: question.draw(stages.read, past).output))  # type: ignore[misc]
            if json.loads(outputs[-1]).get("left") == 0:
                break
        return outputs[-1]

    return work

"""Choices of values and of predicates as tasks, for every suite that goes through all tasks."""

from __future__ import annotations

from typing import Any

from duckdp.compiler.choice import PredicateChoice, ValueChoice
from duckdp.compiler.common_keys import HeavyHittersTask
from duckdp.compiler.grouping import read_keys
from duckdp.compiler.net_task import NetTask
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.scope import read_predicate
from duckdp.core.types import NANO, Neighbours


def _choice(table: Any, where: str | None, **terms: Any) -> dict[str, Any]:
    given = {"picks": 1, "epsilon_nano": NANO, "delta_atto": 0, "neighbours": Neighbours.ADD_REMOVE, **terms}
    return {"table": table, "where": None if where is None else _predicate(where, table), **given}


def _predicate(text: str, table: Any) -> Any:
    return read_predicate(parse_scalar(text), table, text)


def top_k(table: Any, keys: str, where: str | None = None, **terms: Any) -> ValueChoice:
    return ValueChoice(keys=read_keys(keys, table), **_choice(table, where, **terms))


def hitters(table: Any, keys: str, where: str | None = None, **terms: Any) -> HeavyHittersTask:
    given = {"delta_atto": 10**12, **terms}
    return HeavyHittersTask(keys=read_keys(keys, table), **_choice(table, where, **given))


def chosen(table: Any, texts: Any, where: str | None = None, **terms: Any) -> PredicateChoice:
    return PredicateChoice(predicates=tuple(_predicate(t, table) for t in texts), **_choice(table, where, **terms))


def small_database(table: Any, keys: str, texts: Any, **terms: Any) -> NetTask:
    given = {"size": 3, "epsilon_nano": NANO, "neighbours": Neighbours.ADD_REMOVE, **terms}
    questions = tuple(_predicate(text, table) for text in texts)
    return NetTask(table=table, keys=read_keys(keys, table), questions=questions, **given)

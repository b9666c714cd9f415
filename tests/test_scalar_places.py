"""Places in errors about a text that is no statement (a predicate, a column, GROUP BY keys) are those of that text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from duckdp.compiler import parse
from duckdp.compiler.block_expression import read_block_expression
from duckdp.compiler.grouping import read_keys
from duckdp.compiler.pair_moments import read_number
from duckdp.errors import QueryError
from duckdp.functions.bin_edges import read_axis
from duckdp.functions.planned import read_predicates, read_where
from tests.gate import clinic

TABLE = clinic()
READ: list[tuple[Callable[[str], object], str, str]] = [
    (lambda text: read_where(text, TABLE), "age > 3 AND nosuch = 1", "nosuch"),
    (lambda text: read_where(text, TABLE), "nosuch = 1", "nosuch"),
    (lambda text: read_where(text, TABLE), "age > 3\n AND nosuch = 1", "nosuch"),
    (lambda text: read_predicates([text], TABLE), "smoker AND nosuch", "nosuch"),
    (lambda text: read_number(text, TABLE, "column"), "cost + nosuch", "nosuch"),
    (lambda text: read_axis(text, TABLE), "cost + nosuch", "nosuch"),
    (lambda text: read_keys(text, TABLE), "sex, nosuch", "nosuch"),
    (lambda text: read_block_expression(text, TABLE), "corr(cost, nosuch)", "nosuch"),
]


def _place(read: Callable[[str], object], text: str) -> tuple[int | None, int | None, str]:
    with pytest.raises(QueryError) as refused:
        read(text)
    return refused.value.line, refused.value.col, str(refused.value)


def _of(word: str, text: str) -> tuple[int, int]:
    before = text[: text.index(word)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


@pytest.mark.parametrize(("read", "text", "word"), READ)
def test_places_are_those_of_the_text(read: Callable[[str], object], text: str, word: str) -> None:
    line, col, message = _place(read, text)
    assert (line, col) == _of(word, text)
    assert f"line {line}, col {col}: " in message


def test_what_is_no_sql_has_its_place_too() -> None:
    line, col, message = _place(lambda text: read_where(text, TABLE), "age > > 3")
    assert line == 1
    assert col is not None
    assert 5 <= col <= 9
    assert message.count("line 1, col") == 1


def test_places_with_what_stands_before_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "_moved", lambda node: node)
    wrong = [_place(read, text)[:2] != _of(word, text) for read, text, word in READ]
    assert sum(wrong) >= len(READ) - 1


def test_a_parsed_text_is_never_changed() -> None:
    """The tree of a text is kept: read twice, it gives the same places."""
    assert [_place(*READ[0][:2])[:2] for _ in range(3)] == [(1, 13)] * 3

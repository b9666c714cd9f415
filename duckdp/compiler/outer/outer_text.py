"""The text that is run over released tables: printed from the tree, for the analyst's own instance only."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from duckdp.compiler.outer.block import column_name, table_name
from duckdp.compiler.outer.outer_print import print_common
from duckdp.compiler.outer.public_rows import public_name
from duckdp.compiler.outer.trees import duplicate
from duckdp.compiler.parse import parse_statement
from duckdp.errors import QueryError


def printed_outer(outer: exp.Query) -> str:
    """The outer part of a statement as DuckDB reads it.

    The common forms are printed by a printer of our own. What sqlglot prints is read and printed again: where that
    gives another text, the first may not mean what was written.

    Raises:
        QueryError: Q101, it cannot be printed so.
    """
    assert isinstance(outer, exp.Expression)
    common = print_common(outer)
    if common is not None:
        return common
    try:
        text = _printed(outer)
        if _printed(parse_statement(text)) == text:
            return text
    except (SqlglotError, QueryError, AttributeError, TypeError, ValueError, IndexError, KeyError):
        pass
    raise QueryError(
        "Q101",
        "the part over private answers is not SQL that duckdp can write again. Keep the answers with CREATE TABLE ... "
        "AS FROM dp_query(...), and ask the tables.",
    )


def _printed(tree: exp.Expression) -> str:
    made = duplicate(tree)
    for node in made.find_all(exp.Bracket):
        node.set("offset", 1)  # our parser keeps an index as it was written; the printer would shift it
    return made.sql(dialect="duckdb", comments=False, unsupported_level=ErrorLevel.RAISE)


def shown_outer(outer: exp.Query, outputs: Sequence[Sequence[str]], public: Sequence[str]) -> str:
    """The outer part for people: answers are called "release 1", and all columns as in their own words.

    Args:
        outer: the outer part.
        outputs: names of the columns of each release.
        public: names of the public tables.
    """
    assert isinstance(outer, exp.Expression)
    made = duplicate(outer)
    numbers = {table_name(i): i for i in range(len(outputs))}
    others = {public_name(i): name for i, name in enumerate(public)}
    for table in list(made.find_all(exp.Table)):
        number = numbers.get(table.name)
        if number is not None:
            _in_words(table.find_ancestor(exp.Select), outputs[number])
        named = others.get(table.name) if number is None else f"release {number + 1}" if outputs[1:] else "the release"
        if named is not None:
            table.set("this", exp.to_identifier(named))
    return _printed(made)


def _in_words(select: exp.Select | None, names: Sequence[str]) -> None:
    """Give the columns of a release's answer the names that they have there."""
    shown = {column_name(i): exp.to_identifier(name) for i, name in enumerate(names)}
    for column in list(select.find_all(exp.Column)) if select else []:
        if column.name in shown and column.find_ancestor(exp.Select) is select:
            column.set("this", shown[column.name].copy())
            if isinstance(column.parent, exp.Alias) and column.parent.alias == column.name:
                column.parent.replace(column)


def with_tables(outer: str, selects: Sequence[str], public: int = 0) -> str:
    """The outer part with SELECTs that give the answers of its releases, each computed once.

    Args:
        outer: its text.
        selects: of the releases, and after them of the public tables.
        public: how many of them are of public tables.

    >>> with_tables("SELECT c1 FROM __dp_1", ["SELECT 1 AS c1"])
    'WITH "__dp_1" AS MATERIALIZED (SELECT 1 AS c1) SELECT c1 FROM __dp_1'
    """
    releases = len(selects) - public
    names = [*map(table_name, range(releases)), *map(public_name, range(public))]
    ours = ", ".join(f'"{name}" AS MATERIALIZED ({one})' for name, one in zip(names, selects, strict=True))
    for word in ("WITH RECURSIVE ", "WITH "):
        if outer.startswith(word):
            return f"{word}{ours}, {outer[len(word) :]}"
    return f"WITH {ours} {outer}"

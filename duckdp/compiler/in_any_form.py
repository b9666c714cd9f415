"""What a reader makes of a statement as it stands or, where that has no rule, of its plain form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from sqlglot import exp

from duckdp.catalog.table import Table
from duckdp.compiler.plain_forms import plain_forms
from duckdp.errors import QueryError

T = TypeVar("T")
M = TypeVar("M", covariant=True)


class Reader(Protocol[M]):
    """Validates a statement: its tree, tables by lower-case name, its text, and the values of ? and $1."""

    def __call__(
        self, statement: exp.Expression, tables: Mapping[str, Table], text: str, parameters: Sequence[object]
    ) -> M:
        """What it is; ``QueryError`` if it has no rule."""


def read_in_any_form(
    reader: Reader[T],
    statement: exp.Expression,
    tables: Mapping[str, Table],
    text: str,
    parameters: Sequence[object] = (),
) -> T:
    """What a reader makes of it.

    Args:
        reader: of both forms alike.
        statement: left as it is.
        tables: protected and published ones by lower-case name.
        text: of the statement, that messages show.
        parameters: values of ? and $1.

    Raises:
        QueryError: the reader's, of the statement as it stands.
    """
    try:
        return reader(statement, tables, text, parameters)
    except QueryError as error:
        plain = plain_forms(statement, tables)
        if plain is not None:
            with suppress(QueryError):
                return reader(plain, tables, text, parameters)
        raise error from None

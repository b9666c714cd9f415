"""Public groups of a dp function's answer: their keys, and the columns that show them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from duckdp.catalog.table import Table
from duckdp.compiler.evaluate import key_type
from duckdp.compiler.expression import show
from duckdp.compiler.grouping import read_keys
from duckdp.compiler.query import Key, group_count, told_count
from duckdp.errors import ParameterError
from duckdp.result import ResultColumn


def grouping_text(groups: str | Sequence[str] | None) -> str | None:
    """Groups as one text, as GROUP BY takes them."""
    return groups if groups is None or isinstance(groups, str) else ", ".join(groups)


def read_public_keys(groups: str | Sequence[str] | None, table: Table, most: int) -> tuple[Key, ...]:
    """Keys whose groups are public, and few enough to be listed; none where nothing is grouped.

    Args:
        groups: expressions, as GROUP BY takes them, or None.
        table: protected.
        most: groups of one call, whatever is released of each; nobody lists them before this has been looked at.

    Raises:
        ParameterError: P107, a key without a domain, or more groups than that. QueryError: as of a GROUP BY.
    """
    text = grouping_text(groups)
    keys = () if text is None else read_keys(text, table)
    for key in keys:
        if key.domain is None:
            rule = (
                f"has no declared domain ({show(key.expr)}), so which groups there are is private. Ask the owner for "
                "domains={...}."
            )
            raise ParameterError("P107", "groups", text, rule)
    if (count := group_count(keys)) > most:
        rule = f"have {told_count(count)} combinations, more than {most:,}. Group by fewer columns, or by fewer values."
        raise ParameterError("P107", "groups", text, rule)
    return keys


def key_columns(keys: Sequence[Key], taken: Sequence[str]) -> list[tuple[str, str]]:
    """(name, type) of the keys' columns, beside others of these names."""
    found: list[tuple[str, str]] = []
    for key in keys:
        name = key.name
        while name.lower() in (*taken, *(n.lower() for n, _ in found)):
            name += "_"
        found.append((name, key_type(key)))
    return found


def key_cells(keys: Sequence[Key], taken: Sequence[str], times: int) -> list[ResultColumn]:
    """The keys' columns of all groups, each group in so many rows."""
    groups: list[tuple[Any, ...]] = list(product(*(key.domain or () for key in keys)))
    return [
        ResultColumn(name=name, type=kind, values=[group[i] for group in groups for _ in range(times)])
        for i, (name, kind) in enumerate(key_columns(keys, taken))
    ]

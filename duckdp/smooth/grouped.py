"""A released summary per public group: what ``dp_smooth_summary(..., per := ...)`` leaves. Public; all use is free."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from duckdp.catalog.table import Column, Kind, Scalar, dump_columns, load_columns
from duckdp.errors import CatalogError, DuckDPError, ParameterError
from duckdp.smooth.axes import make_axis
from duckdp.smooth.summary import SmoothSummary, check_columns

FORMAT = 1  # of the stored text
KIND = "grouped_summary"  # its first word


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupedSummary:
    """One released summary per value of a column.

    Attributes:
        by: the column.
        values: its values.
        summaries: one per value.
    """

    by: Column
    values: tuple[Scalar, ...]
    summaries: tuple[SmoothSummary, ...]

    def of(self, value: str) -> SmoothSummary:
        """The summary of one group, by its value as text, read in the column's kind.

        Raises:
            ParameterError: P107, not in the domain.
        """
        return self.summaries[named(self.by, self.values, value)]

    @property
    def listed(self) -> str:
        """The first values, as :meth:`of` takes them."""
        return list_values(self.values)

    def dump(self) -> str:
        """The whole of it as canonical JSON: equal texts for equal contents."""
        made = [s.dump() for s in self.summaries]
        raw = {"kind": KIND, "format": FORMAT, "by": dump_columns([self.by]), "summaries": made}
        return json.dumps(raw, sort_keys=True, separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> GroupedSummary:
        """The inverse of :meth:`dump`.

        Raises:
            CatalogError: C105, damaged or from another version.
        """
        try:
            return cls._read(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, DuckDPError):
            raise CatalogError(
                "C105", "the stored summary is damaged or was written by another version of duckdp. Buy it anew."
            ) from None

    @classmethod
    def _read(cls, raw: dict[str, Any]) -> GroupedSummary:
        (by,) = load_columns(raw["by"])
        check_columns([by])
        values = make_axis(by, 2).values
        summaries = tuple(SmoothSummary.load(s) for s in raw["summaries"])
        if raw["kind"] != KIND or raw["format"] != FORMAT or values is None or len(values) != len(summaries):
            raise ValueError
        return cls(by=by, values=values, summaries=summaries)


def named(by: Column, values: Sequence[Scalar], value: str) -> int:
    """The place of a group among the values of its column, by its value as text.

    Raises:
        ParameterError: P107, not in the domain.
    """
    null = _called_null(values)
    for place, known in enumerate(values):
        if value == null if known is None else _reads_as(value, known, by.kind):
            return place
    raise ParameterError("P107", "category", value, f'must be one of the values of "{by.name}": {list_values(values)}.')


def list_values(values: Sequence[Scalar]) -> str:
    """The first values, as :func:`named` takes them."""
    return ", ".join(_called_null(values) if v is None else str(v) for v in values[:20])


def _called_null(values: Sequence[Scalar]) -> str:
    """How the group of NULL is called: NULL, in brackets where that is a text of the domain."""
    called = "NULL"
    while called in values:
        called = f"<{called}>"
    return called


def _reads_as(text: str, known: Scalar, kind: Kind) -> bool:
    """Whether a text names a value of a column of that kind."""
    try:
        match kind:
            case Kind.BOOLEAN:
                return text.lower() == str(known).lower()
            case Kind.NUMBER:
                return float(text) == known
            case Kind.DATE:
                return dt.date.fromisoformat(text) == known
            case Kind.TIMESTAMP:
                return dt.datetime.fromisoformat(text) == known
    except ValueError:
        return False
    return text == known

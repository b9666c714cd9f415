"""A released summary per public group: what ``dp_smooth_summary(..., per := ...)`` leaves. Public; all use is free."""

from __future__ import annotations

import datetime as dt
import json
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
        for known, summary in zip(self.values, self.summaries, strict=True):
            if value == self._null if known is None else _reads_as(value, known, self.by.kind):
                return summary
        raise ParameterError(
            "P107", "category", value, f'must be one of the values of "{self.by.name}": {self.listed}.'
        )

    @property
    def listed(self) -> str:
        """The first values, as :meth:`of` takes them."""
        return ", ".join(self._null if v is None else str(v) for v in self.values[:20])

    @property
    def _null(self) -> str:
        """How the group of NULL is called: NULL, in brackets where that is a text of the domain."""
        called = "NULL"
        while called in self.values:
            called = f"<{called}>"
        return called

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

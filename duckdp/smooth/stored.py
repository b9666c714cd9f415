"""Opening what is stored: a summary, or one of the summaries of a grouped one."""

from __future__ import annotations

import json

from duckdp.errors import CatalogError, ParameterError
from duckdp.smooth.grouped import KIND, GroupedSummary
from duckdp.smooth.summary import SmoothSummary


def open_stored(payload: str, category: str | None = None, *, strict: bool = False) -> SmoothSummary:
    """A summary from its payload.

    Args:
        payload: of a release.
        category: which group's, of a grouped summary.
        strict: refuse a grouped summary without a category; else its first one stands for all.

    Raises:
        CatalogError: C105, damaged. ParameterError: P107, category.
    """
    try:
        grouped = json.loads(payload).get("kind") == KIND
    except (ValueError, AttributeError):
        raise CatalogError(
            "C105", "the stored summary is damaged or was written by another version of duckdp. Buy it anew."
        ) from None
    if not grouped:
        if category is not None:
            raise ParameterError("P107", "category", category, "the summary was not made per group (per := ...).")
        return SmoothSummary.load(payload)
    found = GroupedSummary.load(payload)
    if category is None and strict:
        known = ", ".join("NULL" if v is None else str(v) for v in found.values[:20])
        raise ParameterError("P107", "category", None, f'must name a value of "{found.by.name}": {known}.')
    return found.summaries[0] if category is None else found.of(category)

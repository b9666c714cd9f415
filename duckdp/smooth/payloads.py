"""Opening what is stored: a summary, or one of the summaries of a grouped one."""

from __future__ import annotations

import json
from functools import lru_cache

from duckdp.errors import CatalogError, ParameterError
from duckdp.smooth.grouped import KIND, GroupedSummary
from duckdp.smooth.pooled import MIXED, MixedSummary
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
    found = _open(payload)
    if isinstance(found, MixedSummary):
        return found.of(category)
    if isinstance(found, SmoothSummary):
        if category is not None:
            raise ParameterError("P107", "category", category, "the summary was not made per group (per := ...).")
        return found
    if category is None and strict:
        raise ParameterError("P107", "category", None, f'must name a value of "{found.by.name}": {found.listed}.')
    return found.summaries[0] if category is None else found.of(category)


def exported(payload: str, category: str | None = None) -> str:
    """The text of a summary's file: of a grouped one all of it, or one category's summary.

    Raises:
        CatalogError: C105, damaged. ParameterError: P107, category.
    """
    return _open(payload).dump() if category is None else open_stored(payload, category).dump()


@lru_cache(maxsize=8)  # neither is ever changed
def _open(payload: str) -> SmoothSummary | GroupedSummary | MixedSummary:
    try:
        kind = json.loads(payload).get("kind")
    except (ValueError, AttributeError, RecursionError):
        raise CatalogError(
            "C105", "the stored summary is damaged or was written by another version of duckdp. Buy it anew."
        ) from None
    if kind == MIXED:
        return MixedSummary.load(payload)
    return GroupedSummary.load(payload) if kind == KIND else SmoothSummary.load(payload)

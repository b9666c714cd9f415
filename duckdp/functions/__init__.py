"""The dp functions: one table of names, each prepared from text arguments without touching data.

``prepare`` gives a function's columns (bind time) and a ``run`` that charges and answers (execution). Python methods of
a session and the SQL functions of a front go through the same preparation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

from duckdp.desk.asking import call_text
from duckdp.errors import ParameterError
from duckdp.functions.bounds import (
    bounds,
    explain_bounds,
    explain_groups_per_unit,
    explain_rows_per_unit,
    groups_per_unit,
    rows_per_unit,
)
from duckdp.functions.listings import budget, catalog, ledger, summaries
from duckdp.functions.prepared import Prepared
from duckdp.functions.releases import explain, median_smooth, noisy_count, query
from duckdp.functions.smooth import explain_summary, smooth_answer, smooth_answers, smooth_summary
from duckdp.functions.synthetic import explain_synthesize, synthesize

if TYPE_CHECKING:
    from duckdp.session import Session
    from duckdp.smooth.summary import SmoothSummary

__all__ = [
    "FUNCTIONS", "Prepared", "bounds", "budget", "catalog", "describe_call", "explain", "explain_bounds",
    "explain_groups_per_unit", "explain_rows_per_unit", "explain_summary", "explain_synthesize", "groups_per_unit",
    "ledger", "median_smooth", "noisy_count", "open_summary", "prepare", "query", "rows_per_unit", "smooth_answer",
    "smooth_answers", "smooth_summary", "summaries", "synthesize",
]  # fmt: skip

Function = Callable[..., Prepared]
#: name -> (function, whether the list argument goes in, and after how many others)
FUNCTIONS: dict[str, tuple[Function, int | None, int]] = {
    "dp_noisy_count": (noisy_count, None, 6), "dp_median_smooth": (median_smooth, None, 7),
    "dp_smooth_summary": (smooth_summary, 1, 12), "dp_explain_summary": (explain_summary, 1, 10),
    "dp_smooth_answer": (smooth_answer, None, 6), "dp_smooth_answers": (smooth_answers, 1, 4),
    "dp_synthesize": (synthesize, 4, 11), "dp_explain_synthesize": (explain_synthesize, 4, 8),
    "dp_query": (query, None, 8), "dp_explain": (explain, None, 6),
    "dp_bounds": (bounds, None, 5), "dp_explain_bounds": (explain_bounds, None, 4),
    "dp_rows_per_unit": (rows_per_unit, None, 4), "dp_explain_rows_per_unit": (explain_rows_per_unit, None, 3),
    "dp_groups_per_unit": (groups_per_unit, None, 5), "dp_explain_groups_per_unit": (explain_groups_per_unit, None, 4),
    "dp_budget": (budget, None, 0), "dp_ledger": (ledger, None, 2), "dp_summaries": (summaries, None, 2),
    "dp_catalog": (catalog, None, 0),
}  # fmt: skip


def prepare(session: Session, name: str, arguments: Sequence[str | None], listed: Sequence[str] | None) -> Prepared:
    """Prepare a call by name, as SQL hands it over: text arguments and at most one list.

    Raises:
        ParameterError: P107, no such function or wrong arguments; and what the function raises.
    """
    found = FUNCTIONS.get(name)
    if found is None or len(arguments) != found[2]:
        raise ParameterError("P107", "function", name, "is not one of the dp functions with these arguments.")
    function, place, _ = found
    args: list[Any] = list(arguments)
    if place is not None:
        args.insert(place, listed)
    return function(session, *args)


def describe_call(name: str, arguments: Sequence[str | None], listed: Sequence[str] | None) -> str:
    """A call as :func:`prepare` takes it, in words of SQL; what is left out or false in it is not shown.

    >>> describe_call("dp_noisy_count", ["care", "0.1", None, "false", None, "false"], [])
    "dp_noisy_count('care', epsilon := '0.1')"
    """
    found = FUNCTIONS.get(name)
    if found is None or len(arguments) != found[2]:
        return call_text(name[:64], arguments, {})
    function, place, _ = found
    args: list[Any] = list(arguments)
    if place is not None:
        args.insert(place, listed or None)
    named = dict(zip(list(signature(function).parameters)[1:], args, strict=False))
    first = next(iter(named), "")
    return call_text(
        name, [a for a in args[:1] if a is not None], {k: v for k, v in named.items() if k != first and v != "false"}
    )


def open_summary(payload: str, category: str | None = None) -> SmoothSummary:
    """A stored summary from its payload; a synthetic table holds the summary it was made from."""
    from duckdp.smooth.payloads import open_stored
    from duckdp.synthetic.stored import summary_of

    return open_stored(summary_of(payload), category, strict=True)

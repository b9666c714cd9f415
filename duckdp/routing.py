"""Whether a SELECT can be answered from a summary that was bought before: free, when it is precise enough.

Only ``SELECT avg(f), sum(g) FROM t`` over all rows can be: no WHERE, FILTER, GROUP BY, HAVING or DISTINCT. The summary
must be of the same declaration and data, and leave out the same rows: every nullable column of it is read by the
expression, which must then be NULL wherever one of its columns is. Everything here is public; nothing is charged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from duckdp.compiler.expression import Aggregate, Call, Case, Expr, columns, walk
from duckdp.compiler.query import Query
from duckdp.errors import DuckDPError, ParameterError

if TYPE_CHECKING:
    from duckdp.smooth.answer import SmoothAnswer
    from duckdp.smooth.summary import SmoothSummary

Tolerance = float | Mapping[str, float]
_STATISTIC = {"avg": "mean", "sum": "sum"}


@dataclass(frozen=True, kw_only=True)
class Route:
    """The way a statement goes.

    Attributes:
        summary: name of the summary that answers it, or None: it is charged.
        answers: one per output when there is a summary.
        why: one line per summary looked at, and why it serves or not.
    """

    summary: str | None
    answers: tuple[SmoothAnswer, ...]
    why: tuple[str, ...]


def find_route(query: Query, summaries: Sequence[tuple[str, SmoothSummary]], tolerance: object) -> Route:
    """Look for the most precise summary whose intervals lie within the tolerance.

    Args:
        query: the statement.
        summaries: current ones over the query's table, by name.
        tolerance: the widest acceptable 95% half-width (approximation error included), for all outputs or by name.

    Raises:
        ParameterError: P106, tolerance.
    """
    most = _read_tolerance(query, tolerance)
    unfit = _unfit(query)
    if unfit:
        return Route(summary=None, answers=(), why=(f"not from a summary: {unfit}",))
    why: list[str] = []
    best: str | None = None
    found: tuple[SmoothAnswer, ...] = ()
    if not summaries:
        why.append(f'not from a summary: there is none of "{query.table.name}"')
    lowest = float("inf")
    for name, summary in summaries:
        tried = _try(query, summary)
        if isinstance(tried, str):
            why.append(f'summary "{name}": {tried}')
            continue
        worst = max(_width(a) / most[o.name] for a, o in zip(tried, query.outputs, strict=True))
        widths = ", ".join(f"{o.name} ± {_width(a):.4g}" for a, o in zip(tried, query.outputs, strict=True))
        why.append(f'summary "{name}": {widths}, {"within" if worst <= 1 else "beyond"} the tolerance')
        if worst <= 1 and worst < lowest:
            best, found, lowest = name, tuple(tried), worst
    return Route(summary=best, answers=found, why=tuple(why))


def _try(query: Query, summary: SmoothSummary) -> list[SmoothAnswer] | str:
    """The summary's answers, or why it has none."""
    from duckdp.smooth.answer import answer

    known = {c.name: c for c in summary.columns}
    aggregates = [cast(Aggregate, o.expr) for o in query.outputs]
    read = columns(*(a.argument for a in aggregates))
    if any(c.name not in known for c in read):
        return "does not hold " + ", ".join(c.name for c in read if c.name not in known)
    if any(known[c.name] != c for c in read):
        return "is of an older declaration"
    found = []
    for a in aggregates:
        assert a.argument is not None
        own = {c.name for c in columns(a.argument)}
        others = [c.name for c in summary.columns if c.name not in own and (c.nullable or _open(c))]
        if others:
            return f"leaves out rows without {', '.join(others)} (with a NULL rule, nulls=, every row would count)"
        if any(c.nullable for c in columns(a.argument)) and not _strict(a.argument):
            return "leaves out rows with a NULL, which the expression gives a value"
        if any(_open(c) for c in columns(a.argument)):
            return "leaves out rows outside a domain"
        statistic = cast(Literal["mean", "sum"], _STATISTIC[a.function])
        try:
            one = answer(summary, a.argument, statistic=statistic)
        except DuckDPError as error:
            return f"cannot answer it ({error.code})"
        if one.low is None or one.high is None:
            return one.note
        found.append(one)
    return found


def _open(column: object) -> bool:
    """Whether values outside the column's domain are left out of a summary."""
    from duckdp.catalog import Column

    assert isinstance(column, Column)
    return column.domain is not None and column.other is None and column.lower is None


def _unfit(query: Query) -> str:
    """Why no summary can answer the statement, or ""."""
    if query.where is not None:
        return "the statement has a WHERE"
    if query.keys or query.having is not None:
        return "the statement has groups"
    if query.limit is not None or query.offset:
        return "the statement has a LIMIT"
    for output in query.outputs:
        e = output.expr
        if not isinstance(e, Aggregate) or e.function not in _STATISTIC or e.argument is None or e.filter is not None:
            return f'"{output.name}" is not a plain avg or sum'
    return ""


def _strict(expr: Expr) -> bool:
    """Whether the expression is NULL wherever one of its columns is."""
    lenient = ("coalesce", "is_null", "nullif", "greatest", "least", "distinct", "same", "and", "or")
    return not any(isinstance(n, Case) or (isinstance(n, Call) and n.operator.startswith(lenient)) for n in walk(expr))


def _width(answer: SmoothAnswer) -> float:
    assert answer.low is not None
    assert answer.high is not None
    return (answer.high - answer.low) / 2


def _read_tolerance(query: Query, tolerance: object) -> dict[str, float]:
    names = [o.name for o in query.outputs]
    wanted = dict(tolerance) if isinstance(tolerance, Mapping) else dict.fromkeys(names, tolerance)
    for name in names:
        value = wanted.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            raise ParameterError(
                "P106", f'tolerance["{name}"]', value, "must be a positive number, the widest 95% half-width."
            )  # fmt: skip
    return {name: float(cast(float, wanted[name])) for name in names}

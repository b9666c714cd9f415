"""Whether a SELECT can be answered from a summary that was bought before: free, when it is precise enough.

Only ``SELECT avg(f), sum(g) FROM t`` over all rows can be: no WHERE, FILTER, GROUP BY, HAVING or DISTINCT. The summary
must be of the same declaration and data, and leave out the same rows: every nullable column of it is read by the
expression, which must then be NULL wherever one of its columns is. It must see the same values: of a column with a
domain a SELECT reads what the row holds, and a summary the domain's label for it. And the answer's error must be
proved. Everything here is public; nothing is charged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from duckdp.catalog.table import Column, Kind
from duckdp.compiler.aggregates import aggregate_row
from duckdp.compiler.expression import Aggregate, Call, Case, Expr, Literal, columns, walk
from duckdp.compiler.operators import row_of
from duckdp.compiler.query import Query
from duckdp.compiler.relations.relation import Relation
from duckdp.compiler.strictness import null_with
from duckdp.errors import DuckDPError, ParameterError
from duckdp.process.importing import importing

if TYPE_CHECKING:
    from duckdp.smooth.answer import SmoothAnswer, Statistic
    from duckdp.smooth.summary import SmoothSummary

MOST = 1e300  # what is called a number here and as a float


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


def require_paid(route: Route | None, tolerance: object, paid: bool) -> None:
    """Where no summary answers and nothing says what the statement may cost, say why none does.

    Raises:
        ParameterError: P106.
    """
    if route is not None and route.summary is None and not paid:
        rule = f"no summary answers the statement within it: {'; '.join(route.why)}. Give epsilon= to buy the answer."
        raise ParameterError("P106", "tolerance", tolerance, rule)


def _try(query: Query, summary: SmoothSummary) -> list[SmoothAnswer] | str:
    """The summary's answers, or why it has none."""
    with importing():
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
        if any(c.nullable and c.name not in null_with(a.argument) for c in columns(a.argument)):
            return "leaves out rows with a NULL, which the expression gives a value"
        if _makes_null(a.argument):
            return "counts rows where the expression is NULL, which an average leaves out"
        labelled = [c.name for c in columns(a.argument) if _labelled(c)]
        if labelled:
            return f"reads only values of the domain of {', '.join(labelled)}, a SELECT any value"
        statistic = cast("Statistic", aggregate_row(a).statistic)
        try:
            one = answer(summary, a.argument, statistic=statistic)
        except DuckDPError as error:
            return f"cannot answer it ({error.code})"
        if one.low is None or one.high is None:
            return one.note
        if one.estimated:
            return "has only an estimate of the approximation error, not a proof"
        found.append(one)
    return found


def _open(column: Column) -> bool:
    """Whether values outside the column's domain are left out of a summary."""
    return _labelled(column) and column.other is None


def _labelled(column: Column) -> bool:
    """Whether a summary may read another value than the row's: one outside the domain, if there can be any."""
    both = column.kind is Kind.BOOLEAN and column.domain is not None and {True, False} <= set(column.domain)
    return column.domain is not None and column.lower is None and not both


def _unfit(query: Query) -> str:
    """Why no summary can answer the statement, or ""."""
    if isinstance(query.table, Relation):
        return "the statement reads what a subquery makes of a table"
    if query.where is not None:
        return "the statement has a WHERE"
    if query.keys or query.having is not None:
        return "the statement has groups"
    if query.limit is not None or query.offset:
        return "the statement has a LIMIT"
    for output in query.outputs:
        e = output.expr
        plain = isinstance(e, Aggregate) and aggregate_row(e).statistic and e.argument is not None and e.filter is None
        if not plain:
            return f'"{output.name}" is not a plain avg or sum'
    return ""


def _makes_null(expr: Expr) -> bool:
    """Whether the expression may be NULL where no column is, at a point that a summary's nodes may miss."""
    return any(
        (isinstance(n, Case) and n.default is None)
        or (isinstance(n, Literal) and n.value is None)
        or (isinstance(n, Call) and row_of(n).makes_null)
        for n in walk(expr)
    )


def _width(answer: SmoothAnswer) -> float:
    assert answer.low is not None
    assert answer.high is not None
    return (answer.high - answer.low) / 2


def _read_tolerance(query: Query, tolerance: object) -> dict[str, float]:
    names = [o.name for o in query.outputs]
    wanted = dict(tolerance) if isinstance(tolerance, Mapping) else dict.fromkeys(names, tolerance)
    for name in names:
        value = wanted.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MOST:
            raise ParameterError(
                "P106", f'tolerance["{name}"]', value, "must be a positive number, the widest 95% half-width."
            )
    return {name: float(cast(float, wanted[name])) for name in names}

"""The dp functions: one table of names, each prepared from text arguments without touching data.

``prepare`` gives a function's columns (bind time) and a ``run`` that charges and answers (execution). Python methods of
a session and the SQL functions of a front go through the same preparation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from duckdp.catalog import Table, check_name
from duckdp.compiler.evaluate import describe_outputs
from duckdp.compiler.expression import Aggregate, Expr
from duckdp.compiler.parse import parse_scalar
from duckdp.compiler.quantile import plan_quantile
from duckdp.compiler.release import SelectTask
from duckdp.compiler.select import Output, Query, read_predicate
from duckdp.core.types import parse_delta, parse_epsilon, show_decimal
from duckdp.errors import ParameterError
from duckdp.mechanisms.smooth_sensitivity import NO_INTERVAL_REASON
from duckdp.pricing import Terms, price
from duckdp.result import Estimate, Result, ResultColumn, plain_result

if TYPE_CHECKING:
    from duckdp.session import Session
    from duckdp.smooth.summary import SmoothSummary
    from duckdp.synthetic.decode import SyntheticTable

ANSWER = ("value", "standard_error", "approximation_error", "low", "high")


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A validated call: its result's columns, and what to do when it runs.

    Attributes:
        columns: (name, DuckDB type) in order.
        run: takes the call's nonce (which makes ``fresh`` the same question when retried); may charge.
        intervals: whether error columns are among ``columns``.
    """

    columns: list[tuple[str, str]]
    run: Callable[[str], Result]
    intervals: bool = False


def noisy_count(
    session: Session, table: object, epsilon: object, predicate: str | None, unit: object, error: object, fresh: object
) -> Prepared:
    """A noisy number of rows, or of privacy units."""
    found = session.table(table)
    whole_units = _flag("unit", unit)
    if whole_units and found.unit_key is None:
        whole_units = False  # every row is a unit
    aggregate = Aggregate("count_units" if whole_units else "count_rows", None, None)
    query = Query(
        table=found, where=_predicate(predicate, found), keys=(), outputs=(Output(name="value", expr=aggregate),)
    )
    terms = Terms(epsilon=epsilon, error=_number("error", error) if error is not None else None)
    plan = price(query, terms, session.neighbours).plan
    again = _flag("fresh", fresh)

    def run(nonce: str) -> Result:
        text = f"dp_noisy_count({found.name}{_told(predicate)})"
        task = SelectTask(plan=plan)
        done = session.perform(task, table=plan.query.table, statement=text, fresh=again, nonce=nonce)
        return session.result(plan, done)

    return Prepared(columns=_with_errors([("value", "BIGINT")]), run=run, intervals=True)


def median_smooth(
    session: Session, table: object, column: object, epsilon: object, delta: object, predicate: str | None,
    quantile: object, fresh: object,
) -> Prepared:  # fmt: skip
    """A median (or other quantile) by smooth sensitivity; it has no interval."""
    found = session.table(table)
    task = plan_quantile(
        found, str(column), _predicate(predicate, found), epsilon_nano=parse_epsilon(epsilon),
        delta_atto=parse_delta(delta), quantile=Fraction(str(_number("quantile", quantile))),
        neighbours=session.neighbours,
    )  # fmt: skip
    kind = "BIGINT" if task.column.integral else "DOUBLE"
    again = _flag("fresh", fresh)

    def run(nonce: str) -> Result:
        text = f"dp_median_smooth({found.name}, {task.column.name}{_told(predicate)})"
        done = session.perform(task, table=found, statement=text, fresh=again, nonce=nonce)
        value = json.loads(done.payload)["value"]
        estimate = Estimate(value=value, note=NO_INTERVAL_REASON)
        column = ResultColumn(name="value", type=kind, values=[value], estimates=[estimate])
        return session.dress([column], task.loss, done, notes=[NO_INTERVAL_REASON])

    return Prepared(columns=[("value", kind)], run=run)


def smooth_summary(
    session: Session, table: object, columns: Sequence[str] | None, epsilon: object, delta: object, smoothness: object,
    degree: object, name: object,
) -> Prepared:  # fmt: skip
    """Make and store a summary; one row about it."""
    from duckdp.smooth.summary import SmoothSummary, plan_summary

    found = session.table(table)
    task = plan_summary(
        found, list(columns or ()), epsilon_nano=parse_epsilon(epsilon), delta_atto=parse_delta(delta),
        neighbours=session.neighbours, smoothness=_whole("smoothness", smoothness), degree=_whole("degree", degree),
    )  # fmt: skip
    called = check_name(name)
    shape = [("name", "VARCHAR"), ("columns", "VARCHAR"), ("degree", "BIGINT"), ("moments", "BIGINT"),
             ("epsilon", "VARCHAR"), ("standard_error", "DOUBLE")]  # fmt: skip

    def run(_: str) -> Result:
        text = f"dp_smooth_summary({found.name}, {', '.join(c.name for c in task.columns)}) as {called}"
        done = session.perform(task, table=found, statement=text, kind="summary", name=called)
        summary = SmoothSummary.load(done.payload)
        error = summary.noise.deviation / 2**summary.bits
        row = (called, ", ".join(c.name for c in summary.columns), summary.basis.degree, summary.basis.size,
               show_decimal(summary.epsilon_nano, 9), error)  # fmt: skip
        made = plain_result([n for n, _ in shape], [row], [t for _, t in shape])
        return session.dress(made.columns, task.loss, done, notes=["standard_error is that of each noisy sum"])

    return Prepared(columns=shape, run=run)


def smooth_answer(session: Session, name: object, function: object, statistic: object) -> Prepared:
    """Answer a smooth function from a stored summary; free."""
    from duckdp.smooth.answer import answer
    from duckdp.smooth.coefficients import read_function

    summary = session.summary(str(name))
    expr = read_function(str(function), summary.table, summary.columns)

    def run(_: str) -> Result:
        found = answer(summary, expr, statistic=str(statistic))  # type: ignore[arg-type]
        values = (found.value, found.standard_error, found.approximation_error, found.low, found.high)
        made = plain_result(ANSWER, [values], ["DOUBLE"] * 5)
        return Result(columns=made.columns, source=f"summary {name}", notes=[found.note] if found.note else [])

    return Prepared(columns=[(n, "DOUBLE") for n in ANSWER], run=run)


def synthesize(
    session: Session, source: object, epsilon: object, delta: object, rows: object, columns: Sequence[str] | None,
    smoothness: object, degree: object, name: object,
) -> Prepared:  # fmt: skip
    """A synthetic table: free from a stored summary, charged from a protected table."""
    from duckdp.synthetic.synthesize import synthesize as make_table
    from duckdp.synthetic.task import plan_synthesis, read_synthesis

    wanted = _whole("rows", rows)
    if wanted is None:
        raise ParameterError("P107", "rows", rows, "must be a whole number.")
    if str(source).lower() not in session.tables():
        summary = session.summary(str(source))

        def from_summary(_: str) -> Result:
            made = make_table(summary, wanted)
            return Result(columns=_table_columns(made), source=f"summary {source}")

        return Prepared(columns=[(c.name, c.type) for c in summary.columns], run=from_summary)
    table = session.table(source)
    task = plan_synthesis(
        table, columns, epsilon_nano=parse_epsilon(epsilon), delta_atto=parse_delta(delta),
        neighbours=session.neighbours, rows=wanted, smoothness=_whole("smoothness", smoothness),
        degree=_whole("degree", degree),
    )  # fmt: skip
    called = None if name is None else check_name(name)

    def run(_: str) -> Result:
        text = f"dp_synthesize({table.name}, rows: {wanted})" + (f" as {called}" if called else "")
        done = session.perform(task, table=table, statement=text, kind="synthetic", name=called)
        return session.dress(_table_columns(read_synthesis(done.payload)), task.loss, done)

    return Prepared(columns=[(c.name, c.type) for c in task.columns], run=run)


def query(
    session: Session, statement: object, epsilon: object, delta: object, error: object, mechanism: object,
    fresh: object, intervals: object,
) -> Prepared:  # fmt: skip
    """Any private SELECT."""
    text = str(statement)
    terms = Terms(
        epsilon=epsilon, delta=delta, error=None if error is None else _number("error", error), mechanism=str(mechanism)  # type: ignore[arg-type]
    )  # fmt: skip
    plan = price(session.read(text), terms, session.neighbours).plan
    again, errors = _flag("fresh", fresh), _flag("intervals", intervals)
    shape = describe_outputs(plan)

    def run(nonce: str) -> Result:
        task = SelectTask(plan=plan)
        done = session.perform(task, table=plan.query.table, statement=text, fresh=again, nonce=nonce)
        return session.result(plan, done)

    plain = [(n, t) for n, t, _ in shape]
    noisy = [(n, t) for n, t, released in shape if released]
    return Prepared(columns=plain + (_with_errors(noisy)[len(noisy) :] if errors else []), run=run, intervals=errors)


def explain(
    session: Session, statement: object, epsilon: object, delta: object, error: object, mechanism: object
) -> Prepared:
    """What a statement would do and cost; free."""
    wanted = None if error is None else _number("error", error)
    terms = Terms(epsilon=epsilon, delta=delta, error=wanted, mechanism=str(mechanism))  # type: ignore[arg-type]
    text = session.explain_terms(str(statement), terms)
    lines = [(line,) for line in str(text).splitlines()]
    return Prepared(columns=[("plan", "VARCHAR")], run=lambda _: plain_result(["plan"], lines))


def budget(session: Session) -> Prepared:
    """What the analyst was granted, spent and has left."""
    names = ["analyst", "granted", "spent", "remaining"]
    return Prepared(
        columns=[(n, "VARCHAR") for n in names], run=lambda _: plain_result(names, [session.budget_row()])
    )  # fmt: skip


def ledger(session: Session) -> Prepared:
    """The analyst's own charges."""
    names = ("at", "kind", "mechanism", "cost", "state", "statement")
    shape = [("charge", "BIGINT"), *((n, "VARCHAR") for n in names)]

    def run(_: str) -> Result:
        rows = [(c.id, c.at, c.kind, c.mechanism, str(c.loss), c.state, c.statement) for c in session.own_charges()]
        return plain_result([n for n, _ in shape], rows, [t for _, t in shape])

    return Prepared(columns=shape, run=run)


def summaries(session: Session) -> Prepared:
    """Summaries and synthetic tables the analyst may use."""
    names = ["name", "kind", "owner", "made", "about"]
    return Prepared(
        columns=[(n, "VARCHAR") for n in names], run=lambda _: plain_result(names, session.object_rows())
    )  # fmt: skip


def catalog(session: Session) -> Prepared:
    """Declared tables and columns with their public figures."""
    names = ["table", "column", "type", "lower", "upper", "domain", "nulls", "unit"]
    return Prepared(
        columns=[(n, "VARCHAR") for n in names],
        run=lambda _: plain_result(names, [r for t in session.tables().values() for r in _catalog_rows(t)]),
    )


Function = Callable[..., Prepared]
#: name -> (function, whether the list argument goes in, and after how many others)
FUNCTIONS: dict[str, tuple[Function, int | None, int]] = {
    "dp_noisy_count": (noisy_count, None, 6), "dp_median_smooth": (median_smooth, None, 7),
    "dp_smooth_summary": (smooth_summary, 1, 6), "dp_smooth_answer": (smooth_answer, None, 3),
    "dp_synthesize": (synthesize, 4, 7), "dp_query": (query, None, 7), "dp_explain": (explain, None, 5),
    "dp_budget": (budget, None, 0), "dp_ledger": (ledger, None, 0), "dp_summaries": (summaries, None, 0),
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


def open_summary(payload: str) -> SmoothSummary:
    """A stored summary from its payload; a synthetic table holds the summary it was made from."""
    from duckdp.smooth.summary import SmoothSummary
    from duckdp.synthetic.task import summary_of

    return SmoothSummary.load(summary_of(payload))


def _table_columns(table: SyntheticTable) -> list[ResultColumn]:
    return [ResultColumn(name=n, type=table.types[n], values=v.tolist()) for n, v in table.columns.items()]


def _predicate(text: str | None, table: Table) -> Expr | None:
    return None if text is None else read_predicate(parse_scalar(str(text)), table, f"SELECT {text}")


def _told(predicate: str | None) -> str:
    return "" if predicate is None else f", predicate := {predicate}"


def _with_errors(columns: list[tuple[str, str]]) -> list[tuple[str, str]]:
    errors = [
        (f"{n}_{s}" if n != "value" else s, "DOUBLE") for n, _ in columns for s in ("standard_error", "low", "high")
    ]
    return columns + errors


def _flag(name: str, value: object) -> bool:
    found = {"true": True, "false": False, "1": True, "0": False}.get(str(value).lower())
    if found is None:
        raise ParameterError("P107", name, value, "must be true or false.")
    return found


def _number(name: str, value: object) -> float:
    try:
        number = float(str(value))
    except ValueError:
        raise ParameterError("P107", name, value, "must be a number.") from None
    if not math.isfinite(number):
        raise ParameterError("P107", name, value, "must be a finite number.")
    return number


def _whole(name: str, value: object) -> int | None:
    if value is None:
        return None
    try:
        return int(str(value))
    except ValueError:
        raise ParameterError("P107", name, value, "must be a whole number.") from None


def _catalog_rows(table: Table) -> list[tuple[Any, ...]]:
    unit = "row" if table.unit_key is None else f"{table.unit_key}, {table.max_rows} rows, {table.max_groups} groups"
    rows = []
    for c in table.columns:
        listed = None if c.domain is None else ", ".join("NULL" if v is None else str(v) for v in c.domain[:50])
        kind = "VARCHAR" if c.type.upper().startswith("ENUM") else c.type
        bounds = [None if b is None else str(b) for b in (c.lower, c.upper)]
        nulls = "left out" if c.null_value is None else f"read as {c.null_value}"
        rows.append(
            (
                table.name,
                c.name,
                kind,
                *bounds,
                listed,
                nulls if c.nullable or c.null_value is not None else "none",
                unit,
            )
        )
    return rows

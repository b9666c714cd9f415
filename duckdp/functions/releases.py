"""Private counts, medians and SELECTs, prepared."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING

from duckdp.compiler.evaluate import describe_outputs
from duckdp.compiler.expression import Aggregate
from duckdp.compiler.known import is_known
from duckdp.compiler.notes import bounding_note, drops_rows, plan_caveat
from duckdp.compiler.pricing import Terms, price
from duckdp.compiler.quantile import plan_quantile
from duckdp.compiler.select import Output, Query
from duckdp.core.types import parse_delta, parse_epsilon
from duckdp.functions.explanation import routed_result
from duckdp.functions.prepared import NOTE, Prepared, read_flag, read_given, read_number, read_where, told, with_errors
from duckdp.functions.routing import find_route, require_paid
from duckdp.mechanisms.smooth_sensitivity import NO_INTERVAL_REASON
from duckdp.result import Estimate, Result, ResultColumn, note_name, plain_result

if TYPE_CHECKING:
    from duckdp.session import Session


def noisy_count(
    session: Session, table: object, epsilon: object, predicate: str | None, unit: object, error: object, fresh: object
) -> Prepared:
    """A noisy number of rows, or of privacy units."""
    found = session.table(table)
    whole_units = read_flag("unit", unit)
    if whole_units and found.unit_key is None:
        whole_units = False  # every row is a unit
    aggregate = Aggregate("count_units" if whole_units else "count_rows", None, None)
    query = Query(
        table=found, where=read_where(predicate, found), keys=(), outputs=(Output(name="value", expr=aggregate),)
    )
    terms = Terms(epsilon=epsilon, error=read_number("error", error) if error is not None else None)
    plan = price(query, terms, session.neighbours).plan
    again = read_flag("fresh", fresh)

    def run(nonce: str) -> Result:
        text = f"dp_noisy_count({found.name}{told(predicate)})"
        return session.answer(plan, statement=text, fresh=again, nonce=nonce)

    return Prepared(columns=with_errors([("value", "BIGINT")], plan_caveat(plan)), run=run, intervals=True)


def median_smooth(
    session: Session, table: object, column: object, epsilon: object, delta: object, predicate: str | None,
    quantile: object, fresh: object,
) -> Prepared:  # fmt: skip
    """A median (or other quantile) by smooth sensitivity; it has no interval."""
    found = session.table(table)
    task = plan_quantile(
        found, read_given("column", column), read_where(predicate, found), epsilon_nano=parse_epsilon(epsilon),
        delta_atto=parse_delta(delta), quantile=Fraction(str(read_number("quantile", quantile))),
        neighbours=session.neighbours,
    )  # fmt: skip
    kind = "BIGINT" if task.column.integral else "DOUBLE"
    again = read_flag("fresh", fresh)
    caveat = bounding_note(found) if drops_rows(found) else None

    def run(nonce: str) -> Result:
        text = f"dp_median_smooth({found.name}, {task.column.name}{told(predicate)})"
        done = session.perform(task, table=found, statement=text, fresh=again, nonce=nonce)
        value = json.loads(done.payload)["value"]
        estimate = Estimate(value=value, note=NO_INTERVAL_REASON)
        column = ResultColumn(name="value", type=kind, values=[value], estimates=[estimate])
        notes = [NO_INTERVAL_REASON] if caveat is None else [caveat, NO_INTERVAL_REASON]
        return session.dress([column], task.loss, done, notes=notes, caveat=caveat)

    noted = caveat is not None
    return Prepared(columns=[("value", kind), *([NOTE] if noted else [])], run=run, note=noted)


def query(
    session: Session, statement: object, epsilon: object, delta: object, error: object, mechanism: object,
    fresh: object, intervals: object, tolerance: object = None,
) -> Prepared:  # fmt: skip
    """Any private SELECT; with a tolerance, from a summary where that is precise enough."""
    text = read_given("statement", statement)
    if tolerance is not None:
        read = session.read(text)
        route = find_route(read, session.usable_summaries(read.table), read_number("tolerance", tolerance))
        if route.summary is not None:
            return _routed(routed_result(read, route), read_flag("intervals", intervals))
        require_paid(route, tolerance, epsilon is not None or error is not None or is_known(read))
    wanted = None if error is None else read_number("error", error)
    terms = Terms(epsilon=epsilon, delta=delta, error=wanted, mechanism=str(mechanism))  # type: ignore[arg-type]
    plan = price(session.read(text), terms, session.neighbours).plan
    again, errors = read_flag("fresh", fresh), read_flag("intervals", intervals)
    shape = describe_outputs(plan)

    def run(nonce: str) -> Result:
        return session.answer(plan, statement=text, fresh=again, nonce=nonce)

    plain = [(n, t) for n, t, _ in shape]
    noisy = [(n, t) for n, t, released in shape if released]
    more = with_errors(noisy)[len(noisy) :] if errors else []
    if errors and plan_caveat(plan) is not None:
        more.append((note_name([n for n, _ in plain]), "VARCHAR"))
    return Prepared(columns=plain + more, run=run, intervals=errors)


def explain(
    session: Session, statement: object, epsilon: object, delta: object, error: object, mechanism: object,
    tolerance: object = None,
) -> Prepared:  # fmt: skip
    """What a statement would do and cost; free."""
    wanted = None if error is None else read_number("error", error)
    terms = Terms(epsilon=epsilon, delta=delta, error=wanted, mechanism=str(mechanism))  # type: ignore[arg-type]
    most = None if tolerance is None else read_number("tolerance", tolerance)
    text = session.explain_terms(read_given("statement", statement), terms, tolerance=most)
    lines = [(line,) for line in str(text).splitlines()]
    return Prepared(columns=[("plan", "VARCHAR")], run=lambda _: plain_result(["plan"], lines))


def _routed(result: Result, errors: bool) -> Prepared:
    columns = [(n, t) for n, t, _ in result.typed(intervals=errors)]
    return Prepared(columns=columns, run=lambda _: result, intervals=errors)

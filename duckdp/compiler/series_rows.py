"""Series and lists of constants in FROM beside private rows, ``range(1, 10)``, ``unnest([1, 2])``, as VALUES."""

from __future__ import annotations

import datetime as dt
from itertools import takewhile

from sqlglot import exp

from duckdp.compiler.literals import small_int
from duckdp.compiler.operators.moved import later

MOST_ROWS = 5_000  # of one series
_FAR = 10**7  # of a unit's days or months: no step within the calendar has as many
_UNITS = {"year": (12, 0), "quarter": (3, 0), "month": (1, 0), "week": (0, 7), "day": (0, 1)}  # months and days


def series_rows(select: exp.Select) -> None:
    """Write the series and lists of a FROM with several items as VALUES, where they are of constants."""
    clause, joins = select.args.get("from_"), select.args.get("joins") or []
    if clause is None or not joins:
        return
    for holder in (clause, *joins):
        found = _values(holder.this)
        if found is not None:
            name, rows = found
            given = holder.this.args.get("alias")
            columns = list(given.args.get("columns") or ()) if given is not None else []
            called = given.this if given is not None and given.this is not None else exp.to_identifier(name)
            alias = exp.TableAlias(this=called, columns=columns or [exp.to_identifier(name)])
            tuples = [exp.Tuple(expressions=[row]) for row in rows]
            holder.set("this", exp.Values(expressions=tuples, alias=alias))


def _values(item: exp.Expression) -> tuple[str, list[exp.Expression]] | None:
    """The column's name and the constants of a series or list; None of anything else."""
    if isinstance(item, exp.Unnest):
        inner = item.expressions[0] if len(item.expressions) == 1 else None
        odd = [k for k, v in item.args.items() if v and k not in ("expressions", "alias")]
        if not isinstance(inner, exp.Array) or odd or not 0 < len(inner.expressions) <= MOST_ROWS:
            return None
        return "unnest", list(inner.expressions)
    series = item.this if isinstance(item, exp.Table) else None
    if not isinstance(series, exp.GenerateSeries) or any(v for k, v in item.args.items() if k not in ("this", "alias")):
        return None
    open_end = bool(series.args.get("is_end_exclusive"))
    rows = _numbers(series, open_end) or _moments(series, open_end)
    return None if not rows else ("range" if open_end else "generate_series", rows)


def _numbers(series: exp.GenerateSeries, open_end: bool) -> list[exp.Expression]:
    start, end, step = (_whole(series.args.get(part)) for part in ("start", "end", "step"))
    step = 1 if series.args.get("step") is None else step
    if start is None or end is None or not step:
        return []
    stop = end if open_end else end + (1 if step > 0 else -1)
    found = range(start, stop, step)
    return [_number(n) for n in found] if len(found) <= MOST_ROWS else []


def _moments(series: exp.GenerateSeries, open_end: bool) -> list[exp.Expression]:
    start, end, step = _day(series.args.get("start")), _day(series.args.get("end")), _step(series.args.get("step"))
    if start is None or end is None or step is None:
        return []
    months, days = step
    if months and start.day > 28:  # each step begins where the one before it ended: of a shorter month another day
        return []
    moments = (later(start, months * i, days * i, 0) for i in range(MOST_ROWS + 1))
    found = [m for m in takewhile(lambda m: m is not None and (m < end if open_end else m <= end), moments) if m]
    if len(found) > MOST_ROWS:
        return []
    return [exp.cast(exp.Literal.string(m.isoformat(sep=" ")), exp.DType.TIMESTAMP) for m in found]


def _whole(node: exp.Expression | None) -> int | None:
    if isinstance(node, exp.Neg):
        inner = _whole(node.this)
        return None if inner is None else -inner
    return small_int(node)


def _number(value: int) -> exp.Expression:
    literal = exp.Literal.number(abs(value))
    return exp.Neg(this=literal) if value < 0 else literal


def _day(node: exp.Expression | None) -> dt.datetime | None:
    """A moment that is written as DATE '...' or TIMESTAMP '...'."""
    if not isinstance(node, exp.Cast) or node.args["to"].this not in (exp.DType.DATE, exp.DType.TIMESTAMP):
        return None
    try:
        found = dt.datetime.fromisoformat(node.this.name) if isinstance(node.this, exp.Literal) else None
    except ValueError:
        return None
    return None if found is None or found.tzinfo is not None else found


def _step(node: exp.Expression | None) -> tuple[int, int] | None:
    """Months and days of an interval of whole ones, forward."""
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    unit = node.args.get("unit")
    part = _UNITS.get(unit.name.lower().rstrip("s")) if unit is not None else None
    many = small_int(exp.Literal.number(node.this.name))  # INTERVAL '2' DAY has it as a text
    if part is None or many is None or not 0 < many < _FAR:
        return None
    return part[0] * many, part[1] * many

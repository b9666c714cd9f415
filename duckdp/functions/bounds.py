"""Help with an owner's figures, bought like any answer: bounds of a column, rows and groups per unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from duckdp.catalog.table import Column, Kind
from duckdp.compiler.bounds import BoundsTask, plan_bounds
from duckdp.compiler.per_unit import PerUnitTask, plan_per_unit
from duckdp.core.types import parse_epsilon
from duckdp.functions.prepared import NOTE, Prepared, read_flag, read_given, read_where, told, with_errors
from duckdp.mechanisms.unit_histogram import ENDS
from duckdp.result import Estimate, Result, ResultColumn, plain_result

if TYPE_CHECKING:
    from duckdp.session import Session

NOTHING = "no magnitude stands out from the noise, so no bounds: there are few rows; a larger epsilon sees more"
FEWEST = 3  # figures shown of max_rows or max_groups
_WIDE = ("HUGEINT", "UHUGEINT", "UBIGINT", "DECIMAL")


def bounds(
    session: Session, table: object, column: object, epsilon: object, predicate: str | None, fresh: object
) -> Prepared:
    """Suggested bounds of a column, widest first, and how many rows each would clip."""
    task = _plan_bounds(session, table, column, epsilon, predicate)
    again = read_flag("fresh", fresh)
    kind = _bound_type(task.column)
    shape = [("lower", kind), ("upper", kind), ("clipped_below", "BIGINT"), ("clipped_above", "BIGINT")]

    def run(nonce: str) -> Result:
        text = f"dp_bounds({task.table.name}, {task.column.name}{told(predicate)})"
        done = session.perform(task, table=task.table, statement=text, fresh=again, nonce=nonce)
        found = task.read(done.payload)
        ends = [[_as_type(task.ladder.value(r[side]), kind) for r in found.ranges] for side in (0, 1)]
        clipped: list[list[Estimate]] = [[], []]
        for place in range(len(found.ranges)):
            for side, value in enumerate(found.clipped(place)):
                clipped[side].append(_count(value, found.deviation(place), found.half_width(place)))
        caveat = None if found.ranges else NOTHING
        if caveat is not None:  # one row that says so
            ends, clipped = [[None], [None]], [[Estimate(value=None)], [Estimate(value=None)]]
        made = [ResultColumn(name=n, type=kind, values=v) for n, v in zip(("lower", "upper"), ends, strict=True)]
        made += [_released(n, e) for n, e in zip(("clipped_below", "clipped_above"), clipped, strict=True)]
        notes = [NOTHING] if caveat is not None else _bounds_notes(task, ends, sum(found.cells))
        return session.dress(made, task.loss, done, notes=notes, caveat=caveat)

    return Prepared(columns=[*shape, *with_errors(shape[2:])[2:], NOTE], run=run, intervals=True, note=True)


def rows_per_unit(session: Session, table: object, epsilon: object, predicate: str | None, fresh: object) -> Prepared:
    """How many units have more rows than a max_rows, and about what share of the rows it would drop."""
    task = _plan_per_unit(session, table, None, epsilon, predicate)
    text = f"dp_rows_per_unit({task.table.name}{told(predicate)})"
    return _per_unit(session, task, text, "max_rows", "rows_dropped", fresh)


def groups_per_unit(
    session: Session, table: object, keys: object, epsilon: object, predicate: str | None, fresh: object
) -> Prepared:
    """How many units are in more groups than a max_groups, and about what share of these it would drop."""
    task = _plan_per_unit(session, table, _joined(keys), epsilon, predicate)
    text = f"dp_groups_per_unit({task.table.name}, {_joined(keys)}{told(predicate)})"
    return _per_unit(session, task, text, "max_groups", "groups_dropped", fresh)


def explain_bounds(
    session: Session, table: object, column: object, epsilon: object, predicate: str | None
) -> Prepared:  # fmt: skip
    """What dp_bounds would do and cost; free."""
    return _explained(_plan_bounds(session, table, column, epsilon, predicate))


def explain_rows_per_unit(session: Session, table: object, epsilon: object, predicate: str | None) -> Prepared:
    """What dp_rows_per_unit would do and cost; free."""
    return _explained(_plan_per_unit(session, table, None, epsilon, predicate))


def explain_groups_per_unit(
    session: Session, table: object, keys: object, epsilon: object, predicate: str | None
) -> Prepared:
    """What dp_groups_per_unit would do and cost; free."""
    return _explained(_plan_per_unit(session, table, _joined(keys), epsilon, predicate))


def _per_unit(session: Session, task: PerUnitTask, text: str, figure: str, lost: str, fresh: object) -> Prepared:
    again = read_flag("fresh", fresh)
    shape = [(figure, "BIGINT"), ("units_over", "BIGINT"), ("units_share", "DOUBLE"), (lost, "DOUBLE")]

    def run(nonce: str) -> Result:
        done = session.perform(task, table=task.table, statement=text, fresh=again, nonce=nonce)
        noisy, law = task.read(done.payload), task.histogram
        whole, dropped = sum(noisy), law.lost(noisy)
        shown = max(FEWEST, 1 + sum(bool(share) for share in dropped))
        over, shares = [], []
        for place in range(min(shown, len(ENDS))):
            value, bins = sum(noisy[place + 1 :]), len(noisy) - place - 1
            over.append(_count(value, law.deviation(bins), law.half_width(bins)))
            shares.append(round(min(max(value / whole, 0.0), 1.0), 6) if whole > 0 else None)
        lost_shares = [None if v is None else round(v, 6) for v in dropped[: len(over)]]
        made = [ResultColumn(name=figure, type="BIGINT", values=list(ENDS[: len(over)])), _released("units_over", over),
                ResultColumn(name="units_share", type="DOUBLE", values=shares),
                ResultColumn(name=lost, type="DOUBLE", values=lost_shares)]  # fmt: skip
        unit, what = task.table.unit_key, "rows" if figure == "max_rows" else "groups"
        total = f"{whole:,} ± {law.half_width(len(noisy)):,.0f}"
        notes = [
            f"units_over: how many values of {unit} have more {what} than that, of about {total}",
            f"{lost}: share of all {what} beyond it, estimated from the bins that are clear of the noise; no interval",
        ]
        return session.dress(made, task.loss, done, notes=notes)

    return Prepared(columns=shape + with_errors(shape[1:2])[1:], run=run, intervals=True)


def _bounds_notes(task: BoundsTask, ends: list[list[Any]], rows: int) -> list[str]:
    name, key = task.column.name, task.table.unit_key
    shown = ", ".join(repr(str(e[0])) if task.column.kind is not Kind.NUMBER else str(e[0]) for e in ends)
    whose = "" if key is None else f" (one row of each {key})"
    return [
        f'for protect: bounds={{"{name}": ({shown})}}; the first range is the widest, narrower ones clip more',
        f"clipped rows are of about {rows:,}{whose}; NULL and NaN are left out",
    ]


def _plan_bounds(
    session: Session, table: object, column: object, epsilon: object, predicate: str | None
) -> BoundsTask:  # fmt: skip
    found = session.table(table)
    return plan_bounds(
        found, read_given("column", column), read_where(predicate, found), epsilon_nano=parse_epsilon(epsilon),
        neighbours=session.neighbours,
    )  # fmt: skip


def _plan_per_unit(
    session: Session, table: object, keys: str | None, epsilon: object, predicate: str | None
) -> PerUnitTask:
    found = session.table(table)
    session.neighbours  # noqa: B018 - a budget must have been set
    return plan_per_unit(found, keys, read_where(predicate, found), epsilon_nano=parse_epsilon(epsilon))


def _explained(task: BoundsTask | PerUnitTask) -> Prepared:
    lines = [(line,) for line in (*task.describe(), f"cost: {task.loss}")]
    return Prepared(columns=[("plan", "VARCHAR")], run=lambda _: plain_result(["plan"], lines))


def _joined(keys: object) -> str:
    """Grouping expressions as one text, as GROUP BY takes them."""
    if isinstance(keys, Sequence) and not isinstance(keys, (str, bytes)):
        return ", ".join(read_given("keys", key) for key in keys)
    return read_given("keys", keys)


def _bound_type(column: Column) -> str:
    if column.kind is not Kind.NUMBER:
        return column.type.upper()
    return "BIGINT" if column.integral and not column.type.upper().startswith(_WIDE) else "DOUBLE"


def _as_type(value: Any, kind: str) -> Any:
    return float(value) if kind == "DOUBLE" else value


def _count(value: int, deviation: float, half: float) -> Estimate:
    return Estimate(value=value, standard_error=deviation, low=value - half, high=value + half)


def _released(name: str, estimates: list[Estimate]) -> ResultColumn:
    return ResultColumn(name=name, type="BIGINT", values=[e.value for e in estimates], estimates=estimates)

"""What a reader of an answer must know, from the plan alone: which rows do not count, and which figures are known."""

from __future__ import annotations

import math
from collections.abc import Sequence

from duckdp.catalog.table import Column, Kind, Table
from duckdp.compiler.aggregates import aggregate_row
from duckdp.compiler.evaluate import expected_half_widths
from duckdp.compiler.expression import Aggregate, Expr, walk
from duckdp.compiler.facts import facts
from duckdp.compiler.known import is_zero
from duckdp.compiler.least_units import told_units
from duckdp.compiler.plan import Plan, threshold_units
from duckdp.compiler.relations.relation import Relation

NO_ROWS = "no row counts, by the declared bounds and domains alone"
KNOWN = f"can only be 0: {NO_ROWS}"
UNDEFINED = f"is undefined whatever the data: {NO_ROWS}"  # an average
KNOWN_OR_UNDEFINED = f"can only be 0, and undefined where it is an average: {NO_ROWS}"
VALUES = "these are all values by the declared bounds and domains: which of them rows have was not looked at"
NO_END = "no interval: what is divided by may be 0, or a figure in it has none"
LEFT_OUT = "the ± does not include what this leaves out"
_SECONDS = {Kind.DATE: 86_400.0, Kind.TIMESTAMP: 1.0}  # of 1.0 of what a measure has of them
_DAY = 86_400.0  # seconds
OF_NOTHING = (KNOWN, UNDEFINED, KNOWN_OR_UNDEFINED)


def plan_notes(plan: Plan) -> list[str]:
    """Public caveats of a plan's answers."""
    notes = plan.query.table.node.notes() if isinstance(plan.query.table, Relation) else []
    notes = [*notes, *plan.query.told]
    if not plan.measures:
        return [VALUES if _is_of_keys(plan) else _note_of_nothing(plan)]
    if (caveat := plan_caveat(plan) or _bounded(plan, rows=False)) is not None:
        notes.append(caveat)
    if plan.tau is not None:
        notes.append(_note_of_keys(plan))
    if (shown := told_units(plan)) is not None:
        notes.append(shown)
    listed = [k for k in plan.query.keys if k.domain is not None and k.other is None]
    labelled = [k for k in plan.query.keys if k.domain is not None and k.other is not None]  # a label takes no NULL
    missed = ["NULL"] if any(facts(k.expr).nullable and None not in (k.domain or ()) for k in listed + labelled) else []
    missed += ["outside its declared domain"] if any(not k.complete for k in listed) else []
    if missed:
        notes.append(f"rows whose key is {' or '.join(missed)} are left out")
    return [*notes, *_notes_of_dates(plan)]


def _notes_of_dates(plan: Plan) -> list[str]:
    """How finely moments are told that have no interval, as those of numbers have: least, greatest, quantiles."""
    parts: dict[str, list[str]] = {}
    for output in plan.query.outputs:
        found = output.expr
        if not isinstance(found, Aggregate) or found.kind not in _SECONDS or aggregate_row(found).ends is None:
            continue
        measure = next((m for m in plan.measures if m.serves(found)), None)
        if measure is not None and not found.labels:
            days = (measure.upper - measure.lower) / (measure.degree + 1) * _SECONDS[found.kind] / _DAY
            told = f"{days:.3g} days" if days >= 2 else f"{days * 24:.3g} hours"
            parts.setdefault(told, []).append(output.name)
    return [
        f"{', '.join(names)}: no interval; at best to {told}, one of equal parts of the bounds, and what is no more "
        "than noise beyond is not seen"
        for told, names in parts.items()
    ]


def _note_of_keys(plan: Plan) -> str:
    """Which groups are not shown, of keys without a domain."""
    few = f"groups with fewer than about {math.ceil(threshold_units(plan) or 0)} units are not shown"
    return few if plan.unweighted is None else f"{few}; a unit in fewer than {plan.groups} groups weighs more"


def output_note(plan: Plan, expr: Expr) -> str | None:
    """What must stand beside one output's numbers wherever they are read alone."""
    found = [n for n in walk(expr) if isinstance(n, Aggregate)]
    if found and all(is_zero(plan.query, a) for a in found):
        return UNDEFINED if is_undefined(plan, expr) else KNOWN
    rows = any(aggregate_row(a).of != "units" for a in found)  # a unit counts, whatever its rows
    return _bounded(plan, rows=rows) if found else None


def plan_caveat(plan: Plan) -> str | None:
    """The note that goes with the answer's numbers as a column of their table; None where there is none."""
    found = [n for n in (output_note(plan, o.expr) for o in plan.query.outputs) if n is not None]
    of_nothing = None if plan.measures or _is_of_keys(plan) else _note_of_nothing(plan)
    return next((n for n in found if n not in OF_NOTHING), of_nothing)


def _is_of_keys(plan: Plan) -> bool:
    """Whether the answer has no figure: a list of values."""
    return not any(isinstance(n, Aggregate) for o in plan.query.outputs for n in walk(o.expr))


def is_undefined(plan: Plan, expr: Expr) -> bool:
    """Whether an output over rows of which none can count has no value, as an average of nothing has none."""
    names = [o.name for o in plan.query.outputs if o.expr == expr]
    widths = expected_half_widths(plan, 1.0)
    return any(name in widths and widths[name] is None for name in names)


def _note_of_nothing(plan: Plan) -> str:
    """What all outputs together can only be, where no row can count."""
    notes = {output_note(plan, o.expr) for o in plan.query.outputs}
    return (
        UNDEFINED if UNDEFINED in notes and KNOWN not in notes else KNOWN_OR_UNDEFINED if UNDEFINED in notes else KNOWN
    )


def _bounded(plan: Plan, *, rows: bool) -> str | None:
    """Which rows and groups of a unit do not count, and that no error bar tells of them; None where all count."""
    table, size = plan.query.table, plan.domain_size
    grouped = bool(plan.query.keys) or plan.derived  # a derived total is of what counts in the groups
    parts = [bounding_note(table, grouped=grouped)] if rows and drops_rows(table) else []
    more = table.most_rows > plan.groups and (size is None or size > plan.groups or plan.derived)
    if grouped and table.unit_key is not None and more:
        one, each = ("one group", "s") if plan.groups == 1 else (f"{plan.groups} groups", "")
        parts.append(f"at most {one} of each{f' {table.unit_key} count{each}' if not parts else ''} (max_groups)")
    return f"{' and '.join(parts)}; {LEFT_OUT}" if parts else None


def drops_rows(table: Table) -> bool:
    """Whether a unit may have rows beyond max_rows, which are then dropped, scaled or clamped."""
    return table.unit_key is not None and table.max_rows < table.most_rows


def bounding_note(table: Table, *, grouped: bool = False) -> str:
    """How many rows of a unit count."""
    rows, in_group = ("row", "counts") if table.max_rows == 1 else ("rows", "count")
    where = " in each group" if grouped else ""
    return f"at most {table.max_rows:,} {rows} of each {table.unit_key} {in_group}{where} (max_rows)"


def summary_note(table: Table) -> str | None:
    """What a summary makes of a unit with more rows than count: all of them, each the less."""
    if not drops_rows(table):
        return None
    rows = "row" if table.max_rows == 1 else "rows"
    more = f"more than {table.max_rows:,} {rows}"
    return f"of a {table.unit_key} with {more} all count, each the less (max_rows); {LEFT_OUT}"


def no_cell_note(columns: Sequence[Column]) -> str | None:
    """Which rows are in no cell of tables over all these columns; None where every row is in one of each."""
    nulls = [c.name for c in columns if c.nullable]
    outside = [c.name for c in columns if c.domain is not None and c.other is None and not _complete(c)]
    why = [f"NULL in {' or '.join(nulls)}"] if nulls else []
    why += [f"a value outside the domain of {' or '.join(outside)}"] if outside else []
    if not why:
        return None
    kept = " and ".join((["nulls={...}"] if nulls else []) + (["other={...}"] if outside else []))
    return (
        f"a row with {', or '.join(why)} is in none of the tables, of other columns neither; the owner's {kept} keep it"
    )


def _complete(column: Column) -> bool:
    """Whether a domain has every value that the column's type has."""
    return column.kind is Kind.BOOLEAN and {True, False} <= set(column.domain or ())

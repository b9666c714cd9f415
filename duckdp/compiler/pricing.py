"""What a statement costs for a wanted epsilon or a wanted error, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from duckdp.compiler.aggregates import aggregate_row
from duckdp.compiler.enclosed_ends import jumps
from duckdp.compiler.evaluate import expected_half_widths
from duckdp.compiler.expression import PLAIN, Aggregate, Expr
from duckdp.compiler.intervals import is_exact
from duckdp.compiler.known import is_known
from duckdp.compiler.notes import OF_NOTHING, output_note
from duckdp.compiler.plan import MechanismChoice, Plan, domain_size, make_plan
from duckdp.compiler.printing import quote
from duckdp.compiler.query import Query
from duckdp.compiler.relations.relation import Relation
from duckdp.core.errorbars import smallest_epsilon
from duckdp.core.types import NANO, Neighbours, parse_delta, parse_epsilon
from duckdp.errors import ParameterError
from duckdp.result import ResultColumn

BY_STEPS = "is known with the answer alone: it is off by a step or by nothing, as near to one as its figures lie"
_SAME = 1 + 1e-6  # of a half-width: what is no wider for anyone who reads it


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the analyst asked for: epsilon, or error in its place, and of how many units a group must be."""

    epsilon: object = None
    delta: object = 0
    error: float | Mapping[str, float] | None = None
    mechanism: MechanismChoice = "auto"
    min_units: int | None = None

    @property
    def stated(self) -> bool:
        """Whether they say what an answer may cost."""
        return self.epsilon is not None or self.error is not None


@dataclass(frozen=True, kw_only=True)
class Price:
    """A plan, and on demand what error it is expected to have.

    Attributes:
        plan: at the price that was asked for.
        rows: expected rows per group, or None.
    """

    plan: Plan
    rows: float | None

    @property
    def errors(self) -> Mapping[str, float | None]:
        """Expected 95% half-width by output; None: needs a number of rows."""
        return expected_half_widths(self.plan, self.rows)

    @property
    def basis(self) -> str | None:
        """What the predicted ones among the errors rest on; None where all are exact, or none is predicted."""
        exact = {o.name for o in self.plan.query.outputs if is_exact(o.expr)}
        expected = self.plan.query.table.expected_rows
        if expected is None or self.rows is None or exact >= {n for n, w in self.errors.items() if w is not None}:
            return None
        equal = "in equal groups, all counting" if self.plan.query.keys else "all counting"
        return f"the error of what is no count or sum is predicted from expected_rows={expected:,}, {equal}"

    @property
    def formulas(self) -> Mapping[str, str]:
        """The error's law in the number of rows, by output."""
        return _formulas(self.plan)


def price(query: Query, terms: Terms, neighbours: Neighbours) -> Price:
    """Plan a query on the analyst's terms.

    Raises:
        ParameterError: P101, P102, P106 (the wanted error cannot be met or predicted).
    """
    delta = parse_delta(terms.delta)
    query = replace(query, min_units=terms.min_units)
    rows = _rows_per_group(query)

    def plan_at(epsilon_nano: int) -> Plan:
        return make_plan(
            query, epsilon_nano=epsilon_nano, delta_atto=delta, neighbours=neighbours, mechanism=terms.mechanism
        )

    if is_known(query):  # nothing is read: no epsilon is needed
        plan = plan_at(NANO if terms.epsilon is None else parse_epsilon(terms.epsilon))
    elif terms.error is None:
        plan = plan_at(parse_epsilon(terms.epsilon))
    elif terms.epsilon is not None:
        raise ParameterError("P101", "epsilon", terms.epsilon, "goes without error=; give one of them.")
    else:
        plan = plan_at(_epsilon_for(query, terms.error, lambda e: expected_half_widths(plan_at(e), rows)))
    return Price(plan=plan, rows=rows)


def wanted_widths(query: Query, error: float | Mapping[str, float]) -> Mapping[str, float]:
    """The widest acceptable half-width by output.

    Raises:
        ParameterError: P106.
    """
    names = [o.name for o in query.outputs]
    wanted = error if isinstance(error, Mapping) else dict.fromkeys(names, error)
    for name, value in wanted.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not (0 < value < math.inf):
            raise ParameterError("P106", f'error["{name}"]', value, "must be a positive number, the 95% half-width.")
        if name not in names:
            raise ParameterError("P106", "error", name, "names no output of the statement.")
    return wanted


def missed_note(query: Query, error: float | Mapping[str, float], columns: Sequence[ResultColumn]) -> str | None:
    """That a released number's half-width came out above the one asked for; None where none did."""
    wanted, missed = wanted_widths(query, error), []
    for column in columns:
        ask = wanted.get(column.name)
        widths = [e.half_width for e in column.estimates or ()]
        if ask is not None and any(w is None or w > ask * _SAME for w in widths):
            missed.append(f"{column.name} above {ask:g}")
    if not missed:
        return None
    named = ", ".join(missed)
    return f"wider than the error asked for: {named}; that was predicted, for equal groups in which every row counts"


def _epsilon_for(
    query: Query, error: float | Mapping[str, float], widths_at: Callable[[int], Mapping[str, float | None]]
) -> int:
    wanted = wanted_widths(query, error)

    def excess(epsilon_nano: int) -> float:
        found = widths_at(epsilon_nano)
        parts = []
        for name, value in wanted.items():
            width = found.get(name, 0.0)
            if width is None:
                raise ParameterError("P106", "error", value, _unpredictable(query, name))
            parts.append(width / value)
        return max(parts)

    epsilon = smallest_epsilon(1.0, excess)
    if epsilon is None:
        raise ParameterError(
            "P106",
            "error",
            error,
            "needs more than epsilon=100, the most that one question may cost. Ask for a wider error.",
        )
    return epsilon


def _unpredictable(query: Query, name: str) -> str:
    """Why an output's error cannot be predicted, and what helps."""
    if any(o.name == name and jumps(o.expr) for o in query.outputs):
        name_of = query.table.name if PLAIN.match(query.table.name) else quote(query.table.name)
        table = "..." if isinstance(query.table, Relation) else name_of
        rule = f'the error of "{name}" {BY_STEPS}. Give epsilon, or ask for the error of the figures in it'
        return f"{rule} and compute over them: SELECT floor(n / 100) FROM (SELECT count(*) AS n FROM {table})."
    if query.table.expected_rows is None:
        return (
            f'the error of "{name}" depends on the number of rows; the owner declares expected_rows, or give epsilon.'
        )
    if domain_size(query) is None:
        rule = f'the error of "{name}" depends on the rows of a group, and the keys have no declared domain'
        return f"{rule}. Give epsilon, or GROUP BY a column with a domain."
    return f'"{name}" has no error that can be predicted: it is undefined at typical values. Give epsilon.'


def _rows_per_group(query: Query) -> float | None:
    expected = query.table.expected_rows
    size = domain_size(query)
    return None if expected is None or size is None else expected / max(size, 1)


def _formulas(plan: Plan) -> dict[str, str]:
    """For outputs whose error depends on the number of rows: its law in n."""
    exprs = {o.name: o.expr for o in plan.query.outputs}
    at = expected_half_widths(plan, 1e6)
    told = {name: output_note(plan, exprs[name]) for name, width in at.items() if width is None}
    none = {
        name: f"it {note if note in OF_NOTHING else 'is undefined at typical values'}"
        if note in OF_NOTHING or not jumps(exprs[name])
        else BY_STEPS
        for name, note in told.items()
    }
    return none | {
        name: f"at least {width:.4g}" if _in_bins(exprs[name]) else f"about {width * 1e6:.4g} / n, n rows in the group"
        for name, width in at.items()
        if width is not None
    }


def _in_bins(expr: Expr) -> bool:
    """Whether it comes out to a part of the bounds at best, however many rows there are."""
    return isinstance(expr, Aggregate) and aggregate_row(expr).ends is not None

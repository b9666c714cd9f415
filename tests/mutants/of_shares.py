"""Faults in how a statement's epsilon is shared out, and in which groups are shown by it."""

from __future__ import annotations

from tests.mutants.mutant import SHARES as SHARES_OF_PLANS
from tests.mutants.mutant import Mutant

_LEAST, _SHOWN, _QUERY, _KNOWN = (f"duckdp/compiler/{n}.py" for n in ("least_units", "shown_rows", "query", "known"))
_ADDITIVE, _MEASURES, _EMIT = (f"duckdp/{n}.py" for n in ("mechanisms/additive", "compiler/measures", "compiler/emit"))
_IMPORTANCE, _SPREADS, _RELEASE = (f"duckdp/compiler/{n}.py" for n in ("importance", "spreads", "release"))
_INTERVALS, _T_SHARES = "duckdp/compiler/intervals.py", ("tests/compiler/test_shares.py",)
_T_LEAST = ("tests/compiler/test_min_units.py",)

# fmt: off
SHARES: tuple[Mutant, ...] = (
    Mutant("shifts: a constant that is taken off is added", "duckdp/compiler/shifts.py", "        shift += sign * value\n", "        shift += value\n", ("tests/compiler/test_outer.py",)),
    Mutant("shifts: any two arguments are alike", "duckdp/compiler/shifts.py", "return up - down if one == other else None", "return up - down", ("tests/compiler/test_outer.py", *_T_SHARES)),
    Mutant("shifts: a constant less the argument", "duckdp/compiler/shifts.py", "        if kept != 1 or ", "        if ", ("tests/compiler/test_outer.py",)),
    Mutant("min_units: no room for the noise", _LEAST, "return (plan.query.min_units or 0) + slack(plan)", "return plan.query.min_units or 0", _T_LEAST),
    Mutant("min_units: of one side only", _LEAST, "level = 1 - 2 * ALPHA +", "level = 1 - 4 * ALPHA +", _T_LEAST),
    Mutant("min_units: noise of one cell alone", _LEAST, "rounded_half_width([noise] * measure.cells,", "rounded_half_width([noise],", _T_LEAST),
    Mutant("min_units: groups are shown anyway", _SHOWN, "rows = [i for i in rows if units[i] >= least]", "rows = list(rows)", _T_LEAST),
    Mutant("min_units: rows for persons", _QUERY, '"count_rows" if self.table.unit_key is None else "count_units"', '"count_rows"', ("tests/compiler/test_min_units.py::test_it_is_no_further_question_where_units_are_counted_anyway",)),
    Mutant("min_units: of what is said the lower threshold", _LEAST, "return max(least_shown(plan), plan.tau or 0) + slack(plan)", "return least_shown(plan) + slack(plan)", _T_LEAST),
    Mutant("min_units: parts that are read for it alone beside the whole", "duckdp/compiler/outer/several.py", "queries = [replace(query, min_units=terms.min_units) for query in queries]", "queries = list(queries)", _T_LEAST),
    Mutant("shares: more than the whole", _ADDITIVE, "shares = [epsilon_nano * part // sum(parts) for part in parts]", "shares = [epsilon_nano * part // max(parts) for part in parts]", _T_SHARES),
    Mutant("shares: of rho more than the whole", _ADDITIVE, "shares = [rho * part // sum(parts) for part in parts]", "shares = [rho * part // max(parts) for part in parts]", (SHARES_OF_PLANS,)),
    Mutant("shares: the root of another noise", _ADDITIVE, '1 / 3 if family == "laplace" else 1 / 2', '1 / 2 if family == "laplace" else 1 / 3', _T_SHARES),
    Mutant("shares: keys by a small one", _IMPORTANCE, "return [max(found), *found[1:]] if presence else found", "return found", _T_SHARES),
    Mutant("one count: of other rows", _MEASURES, "whole = measure.argument is None or not (measure.null_cell or facts(measure.argument).nullable)", "whole = True", _T_SHARES),
    Mutant("one count: of another condition", _MEASURES, "counter = next((m for m in first if m.filter == measure.filter), measure)", "counter = next(iter(first), measure)", _T_SHARES),
    Mutant("centred: a row that is replaced within its group", _MEASURES, "Sensitivity(l1=2 * d, l2_squared=4 * d * d, linf=2 * d)", "Sensitivity(l1=2 * d, l2_squared=2 * d * d, linf=d)", _T_SHARES),
    Mutant("centred: all rows of a unit", _EMIT, 'weight = f"CAST(system.main.least({rows}, {most}) AS HUGEINT)"', 'weight = f"CAST({rows} AS HUGEINT)"', _T_SHARES),
    Mutant("centred: sums below 0 are cut", _RELEASE, "return -row_cap * measure.largest, row_cap * measure.largest", "return 0, row_cap * measure.largest", _T_SHARES),
    Mutant("centred: intervals without the count's noise", _INTERVALS, 'if measure.kind == "centred":  # of', 'if False:  # of', _T_SHARES),
    Mutant("drawn: what was typed as branches", "duckdp/compiler/drawn.py", '.replace("\\n", " ")', "", ("tests/compiler/test_drawn.py",)),
)

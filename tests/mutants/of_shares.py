"""Faults in how a statement's epsilon is shared out, and in which groups are shown by it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_LEAST, _SHOWN, _QUERY, _KNOWN = (f"duckdp/compiler/{n}.py" for n in ("least_units", "shown_rows", "query", "known"))
_T_LEAST = ("tests/compiler/test_min_units.py",)

# fmt: off
SHARES: tuple[Mutant, ...] = (
    Mutant("min_units: no room for the noise", _LEAST, "return (plan.query.min_units or 0) + slack(plan)", "return plan.query.min_units or 0", _T_LEAST),
    Mutant("min_units: of one side only", _LEAST, "level = 1 - 2 * ALPHA +", "level = 1 - 4 * ALPHA +", _T_LEAST),
    Mutant("min_units: noise of one cell alone", _LEAST, "rounded_half_width([noise] * measure.cells,", "rounded_half_width([noise],", _T_LEAST),
    Mutant("min_units: groups are shown anyway", _SHOWN, "rows = [i for i in rows if units[i] >= least]", "rows = list(rows)", _T_LEAST),
    Mutant("min_units: rows for persons", _QUERY, '"count_rows" if self.table.unit_key is None else "count_units"', '"count_rows"', _T_LEAST),
)

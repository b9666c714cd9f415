"""Faults in who a unit is, what its rows and figures give, stages, and what a source may hold."""

from __future__ import annotations

from tests.mutants.mutant import LOSSES, Mutant

_UNITS, _PER, _HIST = "duckdp/catalog/units.py", "duckdp/compiler/per_unit.py", "duckdp/mechanisms/unit_histogram.py"
_BOUNDS, _FINDER = "duckdp/compiler/bounds.py", "duckdp/mechanisms/bounds.py"
_PRINT, _TASK, _CHARGES = "duckdp/compiler/printing.py", "duckdp/core/task.py", "duckdp/ledger/charges.py"
_DECODING, _ENGINE, _ACCEPT = "duckdp/vault/decoding.py", "duckdp/vault/engine.py", "duckdp/vault/accepting.py"
_T_UNITS, _T_NULL = ("tests/test_units.py",), ("tests/test_null_units.py",)
_T_FIGURES = ("tests/mechanisms/test_unit_histogram.py", "tests/test_bounds_functions.py")
_T_LOCAL = ("tests/compiler/test_local_choice.py", "tests/test_bounds_functions.py")
_T_STAGES = tuple(
    f"tests/test_stages.py::{name}"
    for name in (
        "test_what_is_stored_goes_on_and_not_what_was_drawn",
        "test_private_rows_are_read_within_a_stage_only",
        "test_no_draw_can_be_exchanged_once_something_followed_it",
    )
)
_T_HOSTILE = (
    "tests/adversary/test_hostile_storage.py",
    "tests/adversary/test_hostile_bytes.py",
    "tests/test_reading.py",
)

# fmt: off
UNITS: tuple[Mutant, ...] = (
    # ---- one kind of unit
    Mutant("units: two keys of one table", _UNITS, "if _key(new) != _key(old):", "if False:", _T_UNITS),
    Mutant("units: two kinds", _UNITS, "    if mine != theirs:", "    if False:", _T_UNITS),
    Mutant("units: two types", _UNITS, "if new.unit_type == old.unit_type:", "if True:", _T_UNITS),
    Mutant("units: what was dropped is forgotten", _UNITS, "if one.charged or (one.stands and", "if (one.stands and", _T_UNITS),
    Mutant("units: a key called id names all", _UNITS, 'return f"{_base(table)}.{key}" if key in SAYS_NOTHING else key', "return key", _T_UNITS),
    Mutant("units: replace with keys", _UNITS, "if neighbours is Neighbours.REPLACE and table.unit_key is not None:", "if False:", ("tests/test_units.py::test_rows_are_protected_by_rows_alone",)),
    Mutant("units: a name for another table", _UNITS, "and _base(other) != _base(one.table):", "and False:", ("tests/test_ways_out.py",)),
    Mutant("units: declared together, compared apart", _UNITS, "[*kept, *(Declared(table=t, stands=True, charged=False) for t in new[:i])]", "[*kept]", _T_UNITS),
    # ---- keys that name nobody
    Mutant("null units: they count", _PRINT, "    if table.null_units:\n", "    if False:\n", _T_NULL),
    Mutant("null units: only they count", _PRINT, 'NOT IN ({nobody})")', 'IN ({nobody})")', _T_NULL),
    # ---- an owner's figures
    Mutant("per unit: weighed by rows", _PER, "AS bin, system.main.count_star() FROM {counted}", "AS bin, system.main.sum(u.c) FROM {counted}", _T_FIGURES),
    Mutant("per unit: counted by key", _PER, "FROM {rows} GROUP BY prepared.{UNIT})", "FROM {rows} GROUP BY ALL)", _T_FIGURES),
    Mutant("per unit: rows for groups", _PER, "SELECT DISTINCT {", "SELECT {", _T_FIGURES),
    Mutant("per unit: WHERE out of the identity", _PER, "dump_table(q.table), show(q.where), keys,", "dump_table(q.table), keys,", ("tests/privacy/test_identities.py::test_every_public_figure_is_in_the_text[_per_units]",)),
    Mutant("per unit: keys out of the identity", _PER, "show(q.where), keys, self.epsilon_nano", "show(q.where), self.epsilon_nano", ("tests/privacy/test_identities.py::test_every_public_figure_is_in_the_text[_per_units]",)),
    Mutant("per unit: noise for two epsilon", _HIST, "Fraction(self.epsilon_nano, NANO), 1)", "Fraction(2 * self.epsilon_nano, NANO), 1)", (*_T_FIGURES, LOSSES)),
    Mutant("per unit: rho free", _HIST, "rho_pico=pure_rho(self.epsilon_nano)", "rho_pico=1", ("tests/mechanisms/test_unit_histogram.py::test_it_costs_rho_too",)),
    Mutant("bounds: every row of a unit", _BOUNDS, 'rows = print_chosen(rows, ["x"], salt, 1) if keyed else rows', 'rows = f"(SELECT r.x FROM {rows} AS r)"', _T_LOCAL),
    Mutant("bounds: two rows of a unit", _BOUNDS, 'print_chosen(rows, ["x"], salt, 1)', 'print_chosen(rows, ["x"], salt, 2)', _T_LOCAL),
    Mutant("bounds: replace moves one bin", _FINDER, "change = 2 if self.neighbours is Neighbours.REPLACE else 1", "change = 1", ("tests/mechanisms/test_bounds.py",)),
    Mutant("bounds: shares beyond the whole", _FINDER, "SHARES = (35, 30, 15, 20)", "SHARES = (35, 30, 35, 20)", ("tests/mechanisms/test_bounds.py",)),
    Mutant("bounds: the last histogram for the whole", _FINDER, "scale = self.scales[3]  #", "scale = self._scale(100)  #", ("tests/mechanisms/test_bounds.py",)),
    Mutant("bounds: draws by what was found", _FINDER, "_noisy(sums, cuts, MOST + 2, self.scales[turn])", "_noisy(sums, cuts, len(cuts) + 1, self.scales[turn])", ("tests/mechanisms/test_bounds.py",)),
    # ---- stages
    Mutant("stages: a stored one is asked again", _TASK, "return self._known[number] if number < len(self._known) else self._keep(number, self._drawn(draw))", "return self._keep(number, self._drawn(draw))", _T_STAGES),
    Mutant("stages: not stored", _TASK, "else self._keep(number, self._drawn(draw))", "else self._drawn(draw)", _T_STAGES),
    Mutant("stages: what was drawn goes on, not what is stored", _TASK, "else self._keep(number, self._drawn(draw))", "else (lambda p: (self._keep(number, p), p)[1])(self._drawn(draw))", ("tests/test_stages.py::test_what_is_stored_goes_on_and_not_what_was_drawn",)),
    Mutant("stages: reads outside of them", _TASK, "        if not self._drawing:\n", "        if False:\n", _T_STAGES),
    Mutant("stages: within each other", _TASK, "        if self._drawing or self._ended:\n", "        if False:\n", _T_STAGES),
    Mutant("stages: of a revoked analyst", _CHARGES, '    budgets.require_open(tx, charge.analyst)\n    return _stages_of(', '    return _stages_of(', ("tests/test_ledger.py::test_what_is_stopped_while_it_runs_does_not_leave",)),
    Mutant("stages: after the release", _CHARGES, 'if number > row["stages"] or row["state"] == "released":', 'if number > row["stages"]:', ("tests/test_ledger.py", "tests/test_ledger_owner.py", "tests/test_stages.py")),
    Mutant("stages: beyond the next", _CHARGES, 'if number > row["stages"] or row["state"] == "released":', 'if row["state"] == "released":', ("tests/test_ledger.py", "tests/test_ledger_owner.py", "tests/test_stages.py")),
    # ---- what is read before any charge
    Mutant("decoding: truth values that are neither", _DECODING, "    if wrong:\n", "    if False:\n", _T_HOSTILE),
    Mutant("decoding: keys are not read", _DECODING, "found = [name] if unit_key_allowed(raw.type) else []", "found = []", ("tests/adversary/test_hostile_storage.py::test_a_key_that_does_not_decode_is_refused",)),
    Mutant("decoding: what fails is accepted", _DECODING, "return message is None and not (flags and rows[0][-1])", "return True", _T_HOSTILE),
    Mutant("reading: while somebody writes", _ENGINE, "        if self.source.stamp() != stamp:\n", "        if False:\n", _T_HOSTILE),
    Mutant("reading: never for a known ledger", _ACCEPT, "if not unknown and (mark is None or not ledger.was_read(mark)):", "if False:", _T_HOSTILE),
    Mutant("reading: never for a new one", _ACCEPT, "    if unknown:\n        engine.read_in_full(tell)", "    if False:\n        engine.read_in_full(tell)", _T_HOSTILE),
)

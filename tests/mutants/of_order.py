"""Faults in the order of charge, read, noise and store, and in what is withheld: errors, texts, memories of errors."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_DESK, _DATASET, _ENGINE, _ERRORS = (
    "duckdp/desk/desk.py",
    "duckdp/vault/dataset.py",
    "duckdp/vault/engine.py",
    "duckdp/errors.py",
)
_GUARDED, _BINDER, _CHARGES = "duckdp/front/guarded.py", "duckdp/front/binder.py", "duckdp/ledger/charges.py"
_S, _G, _STAGES = "tests/test_session.py::", "tests/test_guarded.py::", "tests/test_stages.py::"
_SECRETS, _T_LEDGER = "tests/adversary/test_planted_secrets.py::", "tests/test_ledger.py"
_STORED = "stored = ledger.store_release(charge, work(stages))"

# fmt: off
ORDER: tuple[Mutant, ...] = (
    Mutant("dates: days of bins beyond the bounds", "duckdp/compiler/released.py", "            return min(max(day, ends[0]), ends[1])\n", "            return day\n", ("tests/compiler/test_order_aggregates.py",)),
    # ---- charge, read, noise, store
    Mutant("order: read before the charge", _DESK, "        claim, watch = Claim(), Watch()\n        try:\n            data.life.begin(claim)\n", "        claim, watch = Claim(), Watch()\n        early = Charge(id=1, analyst=self.analyst, key=request.key, loss=task.loss, data_version=1, catalog_version=1, attempt=1)\n        drawn = work(Stages(lambda query: data.engine.run(query, early)))\n        work = lambda _: drawn\n        try:\n            data.life.begin(claim)\n", (f"{_S}test_the_charge_is_durable_before_a_row_is_read", f"{_S}test_over_budget_nothing_is_read_or_charged")),
    Mutant("order: what was drawn leaves, not what is stored", _DESK, _STORED, "drawn = work(stages)\n                stored = replace(ledger.store_release(charge, drawn), payload=drawn)", (f"{_S}test_what_leaves_is_what_is_stored",)),
    Mutant("order: nothing is stored", _DESK, _STORED, 'stored = StoredRelease(charge_id=charge.id, analyst=charge.analyst, key=charge.key, payload=work(stages), at="")', (f"{_S}test_a_release_is_drawn_once_an_attempt",)),
    Mutant("order: drawn again when it cannot be stored", _DESK, _STORED, "try:\n                    stored = ledger.store_release(charge, work(stages))\n                except DuckDPError:\n                    stored = ledger.store_release(charge, work(Stages(stages._read)))", (f"{_S}test_a_release_is_drawn_once_an_attempt",)),
    Mutant("order: stages are not stored", _DESK, "keep=lambda number, payload: ledger.store_stage(charge, number, payload),", "keep=lambda number, payload: payload,", (f"{_STAGES}test_no_draw_can_be_exchanged_once_something_followed_it",)),
    Mutant("order: stored stages are forgotten", _DESK, "stored=lambda: ledger.stages(charge),", "stored=tuple,", (f"{_STAGES}test_no_draw_can_be_exchanged_once_something_followed_it",)),
    Mutant("order: charged over a source that changed", _DESK, "        state = data.require_current()\n        self._require_own_name", "        state = data.ledger.state()\n        self._require_own_name", (f"{_SECRETS}test_a_replaced_file_is_refused_before_the_charge",)),
    Mutant("order: charged for another declaration", "duckdp/desk/charging.py", "catalog_version=data.version_of(table, state),", "catalog_version=None,", (f"{_S}test_a_declaration_that_changed_meanwhile_is_not_used",)),
    Mutant("order: charged for another version of the data", "duckdp/desk/charging.py", "        data_version=state.data_version,\n", "        data_version=None,\n", (f"{_S}test_data_that_changed_while_it_was_planned_is_not_charged_for",)),
    Mutant("order: printed after the charge", _DESK, "        work, request = task.work(data.salt), requested(task)  # what cannot be printed is refused before the charge\n", "        request = requested(task)\n\n        def work(stages: Stages) -> str:\n            return task.work(data.salt)(stages)\n", (f"{_S}test_a_printing_error_comes_before_the_charge",)),
    Mutant("order: a choice that anybody can compute", _DATASET, 'int.from_bytes(self.ledger.salt[:8], "big")', "0", (f"{_S}test_the_choice_of_rows_and_groups_is_keyed_by_the_ledgers_secret",)),
    Mutant("order: a name that is a table's", _DESK, "        self._require_own_name(name)\n", "", ("tests/adversary/test_identity.py", "tests/test_front.py", "tests/synthetic/test_again.py")),
    Mutant("order: an attempt that failed goes on", _DESK, "                ledger.fail(charge)  #", "                pass  #", (f"{_SECRETS}test_an_engine_failure_keeps_the_charge_and_tells_nothing",)),
    Mutant("order: final charges are asked again in silence", _CHARGES, "        if row is None and not request.again:\n", "        if False:\n", (_T_LEDGER, f"{_SECRETS}test_three_failures_are_final")),
    Mutant("order: a charge of another ledger", _CHARGES, 'if row is None or (row["analyst"], row["key"], _loss(row)) != (charge.analyst, charge.key, charge.loss):', "if row is None:", (_T_LEDGER, "tests/test_ledger_owner.py")),
    Mutant("order: as many attempts as one likes", _CHARGES, "MAX_ATTEMPTS = 3  #", "MAX_ATTEMPTS = 3000  #", (f"{_SECRETS}test_three_failures_are_final",)),
    Mutant("order: a charge that is entered as another one", _CHARGES, '    if (row["analyst"], row["key"]) != (analyst, key):\n', "    if False:\n", ("tests/test_ledger_damage.py::test_a_charge_that_is_entered_as_another_one_is_not_given",)),
    # ---- what is withheld
    Mutant("withheld: an engine's error is remembered", _ENGINE, '            failed = "E102" if stopped else "E104" if ran_out(error) else "E101"\n', '            raise ExecutionError("E101", charge.id) from error\n', (f"{_SECRETS}test_what_the_engine_raises_remembers_nothing",)),
    Mutant("withheld: frames and causes of what failed", _ERRORS, "    error.__cause__ = error.__context__ = error.__traceback__ = None\n", "", (f"{_SECRETS}test_an_error_of_ours_is_told_without_its_past",)),
    Mutant("withheld: any error is told", _ERRORS, "return error if isinstance(error, DuckDPError) else InternalError(otherwise)", "return error if isinstance(error, DuckDPError) else InternalError(str(error))", (f"{_SECRETS}test_a_failing_mechanism_tells_nothing",)),
    Mutant("withheld: memories of DuckDB's errors", _GUARDED, "                found.__context__ = None\n", "                pass\n", (f"{_G}test_no_traceback_shows_what_is_withheld",)),
    Mutant("withheld: what an ended instance said", _GUARDED, "    if isinstance(error, duckdb.FatalException):\n        return ENDED\n", "    if isinstance(error, duckdb.FatalException):\n        return text\n", (f"{_G}test_an_ended_instance_is_replaced",)),
    Mutant("withheld: any place if one was written", _GUARDED, "        if part in given and part[0] in \"/0\":\n", "        if given and part[0] in \"/0\":\n", (f"{_G}test_only_what_was_written_may_name_a_path",)),
    Mutant("withheld: words of a stack if they were written", _GUARDED, "        if part in given and part[0] in \"/0\":\n", "        if part in given:\n", (f"{_G}test_the_beginning_of_what_is_withheld_shows_nothing_of_it",)),
    Mutant("withheld: addresses by their beginning", _GUARDED, "0x[0-9a-fA-F]{4,}", "0x[0-9a-fA-F]{4}", (f"{_G}test_the_beginning_of_what_is_withheld_shows_nothing_of_it",)),
    Mutant("withheld: a stream's own words", _GUARDED, "        return self._whole().__arrow_c_stream__(schema)\n", "        return self._inner.__arrow_c_stream__(schema)\n", (f"{_G}test_an_error_inside_duckdb_shows_nothing",)),
    Mutant("withheld: what a reader says", _GUARDED, '        if type(found).__name__ == "RecordBatchReader":\n', "        if False:\n", (f"{_G}test_an_error_inside_duckdb_after_rows_shows_nothing",)),
    Mutant("withheld: what relations say", _GUARDED, "        if isinstance(found, _LIVE) or type(found).__name__ in _APPENDERS:\n", "        if type(found).__name__ in _APPENDERS:\n", (f"{_G}test_an_error_inside_duckdb_shows_nothing",)),
    # ---- texts that become SQL
    Mutant("withheld: refusals that are SQL", "duckdp/texts.py", """return "'" + text.replace("'", "''") + "'\"""", """return "'" + text + "'\"""", ("tests/adversary/test_injection.py",)),
    Mutant("front: names that are SQL", "duckdp/front/crossing.py", 'AS {quote(name)}" for i, (name, kind) in enumerate(columns, 1)]', 'AS {chr(34)}{name}{chr(34)}" for i, (name, kind) in enumerate(columns, 1)]', ("tests/adversary/test_injection.py",)),
    Mutant("front: names of columns that are SQL", "duckdp/front/crossing.py", "', {i})) AS {plain_type(kind)}) AS {quote(name)}", "', {i})) AS {plain_type(kind)}) AS {chr(34)}{name}{chr(34)}", ("tests/test_crossing.py", "tests/adversary/test_injection.py")),
    Mutant("front: a refusal of few cells is an empty answer", "duckdp/front/crossing.py", "ELSE {refusal} END) AS r", "ELSE asked.a[2:] END) AS r", ("tests/test_crossing.py",)),
)

"""Faults in teams, months, reservations and interactive releases: overspending, or a draw that is drawn again."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_LIMITS, _CAPS, _RESERVATIONS, _INTERACTIONS, _RETOLD = (
    f"duckdp/ledger/{n}.py" for n in ("limits", "caps", "reservations", "interactions", "retold")
)
_TASK, _INTERACTIVE, _BACKUPS = "duckdp/core/task.py", "duckdp/desk/interactive.py", "duckdp/ledger/backups.py"
_CHARGES = "duckdp/ledger/charges.py"
_T, _T_INTERACTIVE = ("tests/test_limits.py",), ("tests/test_interactive.py", "tests/test_interactive_session.py")

_L, _I = f"{_T[0]}::", f"{_T_INTERACTIVE[0]}::"

# fmt: off
LIMITS: tuple[Mutant, ...] = (
    Mutant("teams: not asked", _LIMITS, "    for team in teams_of(tx, analyst):\n", "    for team in ():\n", _T),
    Mutant("teams: not counted", _LIMITS, '        tx.change("team", team, ("name",), **_after_cost(team, cost, month))\n', "        pass\n", _T),
    Mutant("teams: left without a word", _CAPS, "    if leaving and reason is None:\n", "    if False:\n", _T),
    Mutant("months: not asked", _LIMITS, 'for scope, row, held in whose if row["primary_month_limit"] is not None', 'for scope, row, held in whose if False', _T),
    Mutant("months: reopened by the clock", _LIMITS, 'return max(str(dataset["month"]), chain.now()[:7])', "return chain.now()[:7]", _T),
    Mutant("months: never replenished", _LIMITS, 'if row["month"] == month else (0, 0)\n    return Limit(', "\n    return Limit(", _T),
    Mutant("months: sums go on", _LIMITS, 'if row["month"] == month else (0, 0)\n    monthly', "\n    monthly", _T),
    Mutant("months: raised in silence", _CAPS, 'if old["month_epsilon_nano"] is None or (raise_to and reason):', "if True:", _T),
    Mutant("reservations: of nobody", _RESERVATIONS, "            found.append(row)\n", "            pass\n", _T),
    Mutant("reservations: for ever", _RESERVATIONS, '_is_alive(tx, dataset["id"], row) and analyst["revoked"] is None', 'analyst["revoked"] is None', _T),
    Mutant("reservations: of a stopped analyst", _RESERVATIONS, ' and analyst["revoked"] is None', "", _T),
    Mutant("reservations: without a limit", _RESERVATIONS, "    limiting.require(kind, wanted, limiting.limits_on(tx, dataset, row, holding))\n", "", _T),
    Mutant("reservations: nothing taken", _RESERVATIONS, 'row["primary_held"] - cost[0]', 'row["primary_held"]', _T),
    Mutant("reservations: of anybody", _RESERVATIONS, 'row["analyst"] == analyst and holders.is_mine(row["holder"])', 'holders.is_mine(row["holder"])', _T),
    Mutant("retold: teams not compared", _RETOLD, "return sealed and joined and stand == self._teams and members == told", "return sealed", _T),
    Mutant("retold: sums not compared", _RETOLD, 'return same and set(self._spent) <= set(rows) and dataset["month"] == self._month', "return True", _T),
    Mutant("interactive: two holders", _INTERACTIONS, '    if _is_worked_on(tx, dataset["id"], found):\n', "    if False:\n", _T_INTERACTIVE),
    Mutant("interactive: no fence", _INTERACTIONS, '    if row["turn"] != charge.attempt or not holders.is_mine(row["holder"]):\n', "    if False:\n", _T_INTERACTIVE),
    Mutant("interactive: unknown steps", _INTERACTIONS, '    if row["ended"] is not None or number != row["steps"] or asked:\n', '    if row["ended"] is not None:\n', _T_INTERACTIVE),
    Mutant("interactive: after its end", _INTERACTIONS, "        raise has_ended(charge.id) if row", "        raise _passed(tx, charge.id) if row", _T_INTERACTIVE),
    Mutant("interactive: secrets after the end", _INTERACTIONS, 'if row["ended"] is not None:\n        found = ', 'if False:\n        found = ', _T_INTERACTIVE),
    Mutant("interactive: stopped analysts go on", _INTERACTIONS, '    """See :meth:`duckdp.ledger.Ledger.store_step`."""\n    budgets.require_open(tx, charge.analyst)\n', '    """See :meth:`duckdp.ledger.Ledger.store_step`."""\n', _T_INTERACTIVE),
    Mutant("interactive: a stored answer is drawn again", _TASK, "        if (stored := known.output(key)) is not None:\n            return stored\n", "", _T_INTERACTIVE),
    Mutant("interactive: goes on after its end", _TASK, "        if self._ended:\n            return None\n", "", _T_INTERACTIVE),
    Mutant("interactive: what was drawn goes on, not what is stored", _TASK, "        if ours:\n", "        if True:\n", _T_INTERACTIVE),
    Mutant("interactive: a digest of the secret that can be guessed", _INTERACTIONS, 'f"{secrets.token_hex(16)}:{step.secret}"', 'f":{step.secret}"', _T_INTERACTIVE),
    Mutant("interactive: older data", _INTERACTIVE, "        if self._data.require_current().data_version != self._charge.data_version:\n", "        if False:\n", _T_INTERACTIVE),
    Mutant("backups: what went on goes on", _BACKUPS, "        _end_what_went_on(tx)\n", "", _T_INTERACTIVE),
    # ---- reservations: what is held is held in both of its parts, of every limit, and no more often than once
    Mutant("reservations: as many as one likes", _RESERVATIONS, "    if sum(held[\"analyst\"] == analyst for held in holding) >= MOST:\n", "    if False:\n", (f"{_L}test_there_are_only_so_many",)),
    Mutant("reservations: lost ones are free", _RESERVATIONS, '    if len(rows) != dataset["reserved"]:\n', "    if False:\n", (f"{_L}test_an_edit_is_refused_where_it_matters_and_found_by_verify",)),
    Mutant("reservations: delta is not held", _RESERVATIONS, "primary_held=wanted[0], secondary_held=wanted[1], holder", "primary_held=wanted[0], secondary_held=0, holder", (f"{_L}test_delta_is_held_and_taken_like_epsilon",)),
    Mutant("reservations: delta is not taken", _RESERVATIONS, 'row["secondary_held"] - cost[1]', 'row["secondary_held"]', (f"{_L}test_delta_is_held_and_taken_like_epsilon",)),
    Mutant("reservations: delta is free within", _RESERVATIONS, '        spent=(limit[0] - row["primary_held"], limit[1] - row["secondary_held"]),\n', '        spent=(limit[0] - row["primary_held"], 0),\n', (f"{_L}test_delta_is_held_and_taken_like_epsilon",)),
    Mutant("reservations: others' delta is free", _LIMITS, '        secondary += row["secondary_held"]\n', "", (f"{_L}test_delta_is_held_and_taken_like_epsilon",)),
    Mutant("reservations: no other limit is asked", _CHARGES, "[reservations.as_limit(kind, held), *limits.limits_on(tx, dataset, analyst)]", "[reservations.as_limit(kind, held)]", (f"{_L}test_a_reservation_must_fit_and_so_must_what_is_charged_within",)),
    Mutant("reservations: charges within take nothing", _CHARGES, "    reservations.take(tx, held, cost)\n", "", (f"{_L}test_headroom_is_held_and_given_up",)),
    Mutant("reservations: used after their end", _RESERVATIONS, 'if row is None or not mine or row["ended"] is not None or not', "if row is None or not mine or not", (f"{_L}test_a_reservation_that_the_owner_ended_is_of_no_more_use",)),
    Mutant("reservations: teams' headroom is free", _LIMITS, "_sum(row for row in holding if row[\"analyst\"] in inside)", "(0, 0)", (f"{_L}test_headroom_is_held_and_given_up",)),
    Mutant("reservations: the analyst's headroom is free", _LIMITS, "_sum(row for row in holding if row[\"analyst\"] == name)", "(0, 0)", (f"{_L}test_a_reservation_is_held_of_the_analysts_own_limits",)),
    Mutant("reservations: the data set's headroom is free", _LIMITS, '("data set", dataset, _sum(holding))', '("data set", dataset, (0, 0))', (f"{_L}test_a_stopped_analyst_holds_nothing",)),
    Mutant("reservations: months' headroom is free", _LIMITS, "        spent=spent,\n        held=held,\n", "        spent=spent,\n        held=(0, 0),\n", (f"{_L}test_a_reservation_is_held_of_the_analysts_own_limits",)),
    Mutant("reservations: a session charges outside of its own", "duckdp/desk/desk.py", "                reservation=self.reservation_id,\n                kind=kind,\n", "                reservation=None,\n                kind=kind,\n", (f"{_L}test_a_session_holds_headroom",)),
    # ---- caps
    Mutant("lower: delta below what was spent", _CAPS, 'if limit[0] < old["primary_spent"] or limit[1] < old["secondary_spent"]:', 'if limit[0] < old["primary_spent"]:', (f"{_L}test_either_part_of_a_cap_is_lowered_to_what_was_spent_and_no_further",)),
    Mutant("grant: more delta than the total", _CAPS, '        ("delta", cap.delta_atto, dataset["delta_atto"], 18),\n', "", (f"{_L}test_either_part_of_a_cap_is_lowered_to_what_was_spent_and_no_further",)),
    Mutant("months: delta raised in silence", _CAPS, "or after[0] > before[0] or after[1] > before[1]:", "or after[0] > before[0]:", (f"{_L}test_either_part_of_a_month_is_raised_on_purpose_only",)),
    Mutant("months: a month's end between check and count", _CHARGES, '    dataset = {**dataset, "month": limits.present_month(dataset)}  # no clock goes back between the check and the count\n', "", (f"{_L}test_a_clock_that_goes_back_within_a_charge_fills_no_month_twice",)),
    Mutant("teams: members are not told", _CAPS, "        _change_teams(tx, member, team)\n", "        pass\n", (f"{_L}test_members_share_a_cap",)),
    Mutant("accountant: teams keep the old one's limits", _CAPS, "    for row in all_teams(tx):\n        _set(", "    for row in ():\n        _set(", (f"{_L}test_either_accountant",)),
    Mutant("accountant: analysts keep the old one's limits", _CAPS, "    for row in all_analysts(tx):\n        if row[\"revoked\"] is None:\n            _set(", "    for row in ():\n        if row[\"revoked\"] is None:\n            _set(", (f"{_L}test_either_accountant",)),
    Mutant("caps: too large to be added", _CAPS, "    if max(limit) > MAX_INTEGER:\n", "    if False:\n", (f"{_L}test_budgets_too_large_to_be_added_exactly_are_refused",)),
    # ---- releases that go on
    Mutant("interactive: begun without its secret", _INTERACTIONS, 'StoredStep(question="", output="", secret=secret))', 'StoredStep(question="", output="", secret="0"))', (f"{_I}test_it_is_taken_up_as_often_as_one_likes",)),
    Mutant("interactive: each turn's own secret", _INTERACTIONS, '"holder": holder})\n    return charge\n', '"holder": holder})\n    _append(tx, _find(tx, row["id"]), request.analyst, StoredStep(question=f"{turn}", output="", secret=secret))\n    return charge\n', (f"{_I}test_it_is_taken_up_as_often_as_one_likes", "tests/test_interactive_privacy.py")),
    Mutant("interactive: another cost under its key", _INTERACTIONS, "    charges.require_same(row, request)\n", "", (f"{_I}test_one_key_is_one_release_of_one_cost_over_the_present_data",)),
    Mutant("interactive: begun over older data", _INTERACTIONS, "        charges.require_versions(dataset, request)\n", "", (f"{_I}test_one_key_is_one_release_of_one_cost_over_the_present_data",)),
    Mutant("interactive: a stopped analyst hears what was said", _INTERACTIONS, '"""See :meth:`duckdp.ledger.Ledger.past`."""\n    budgets.require_open(tx, charge.analyst)\n', '"""See :meth:`duckdp.ledger.Ledger.past`."""\n', (f"{_I}test_an_analyst_who_is_stopped_hears_no_more_of_it",)),
    Mutant("interactive: who lost the turn hears the secrets", _INTERACTIONS, '    if row["ended"] is None:\n        _require_turn(tx, row, charge)\n    return _steps_of', "    return _steps_of", (f"{_I}test_one_holder_at_a_time",)),
    Mutant("interactive: steps are believed", _INTERACTIONS, 'if (len(steps) + len(rows), stepped) != (row["steps"], row["stepped"]):', "if False:", (f"{_I}test_an_edit_is_refused_and_found_by_verify",)),
    Mutant("interactive: steps without end", _INTERACTIONS, "    if number >= MOST_STEPS:\n", "    if False:\n", (f"{_I}test_its_steps_have_an_end",)),
    Mutant("interactive: a late end of an old turn frees the new one", _INTERACTIONS, 'if (row["turn"], row["ended"]) == (charge.attempt, None):', 'if row["ended"] is None:', (f"{_I}test_who_lost_the_turn_cannot_let_it_go",)),
    Mutant("interactive: a question reads on", _TASK, "question.draw(self.read, ", "question.draw(self._read, ", (f"{_I}test_a_question_reads_while_it_draws_and_not_later",)),
    Mutant("interactive: what was drawn leaves, not what is stored", _TASK, "        return output\n\n    def _steps", "        return step.output\n\n    def _steps", (f"{_I}test_what_leaves_is_what_is_stored",)),
    Mutant("interactive: remembered past an unknown end", _TASK, "        self._known = None  # until this step is known to be the stored one\n", "", (f"{_I}test_what_an_interrupted_attempt_stored_goes_on",)),
    Mutant("interactive: declarations changed meanwhile", _INTERACTIVE, "        self._data.version_of(self._table)\n", "", ("tests/test_interactive_session.py::test_a_declaration_that_changed_ends_it",)),
    Mutant("interactive: an error remembers what it stands for", _INTERACTIVE, 'problem = laundered(error, self.charge_id, "E103")', 'raise laundered(error, self.charge_id, "E103")', ("tests/test_interactive_session.py::test_errors_tell_nothing_and_the_release_goes_on",)),
)

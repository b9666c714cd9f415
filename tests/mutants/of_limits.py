"""Faults in teams, months, reservations and interactive releases: overspending, or a draw that is drawn again."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_LIMITS, _CAPS, _RESERVATIONS, _INTERACTIONS, _RETOLD = (
    f"duckdp/ledger/{n}.py" for n in ("limits", "caps", "reservations", "interactions", "retold")
)
_TASK, _INTERACTIVE, _BACKUPS = "duckdp/core/task.py", "duckdp/desk/interactive.py", "duckdp/ledger/backups.py"
_T, _T_INTERACTIVE = ("tests/test_limits.py",), ("tests/test_interactive.py", "tests/test_interactive_session.py")

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
    Mutant("retold: teams not compared", _RETOLD, "return sealed and joined and stand == self._teams and members == self._members", "return sealed", _T),
    Mutant("retold: sums not compared", _RETOLD, 'return same and set(self._spent) <= set(rows) and dataset["month"] == self._month', "return True", _T),
    Mutant("interactive: two holders", _INTERACTIONS, '    if found["holder"] and holders.working(*held):\n', "    if False:\n", _T_INTERACTIVE),
    Mutant("interactive: no fence", _INTERACTIONS, '    if row["turn"] != charge.attempt or not holders.is_mine(row["holder"]):\n', "    if False:\n", _T_INTERACTIVE),
    Mutant("interactive: unknown steps", _INTERACTIONS, '    if row["ended"] is not None or number != row["steps"]:\n', '    if row["ended"] is not None:\n', _T_INTERACTIVE),
    Mutant("interactive: after its end", _INTERACTIONS, "        raise has_ended(charge.id) if row", "        raise _passed(tx, charge.id) if row", _T_INTERACTIVE),
    Mutant("interactive: secrets after the end", _INTERACTIONS, 'secret=None if row["ended"] is not None or found["secret"] is None else', 'secret=None if found["secret"] is None else', _T_INTERACTIVE),
    Mutant("interactive: stopped analysts go on", _INTERACTIONS, '    """See :meth:`duckdp.ledger.Ledger.store_step`."""\n    budgets.require_open(tx, charge.analyst)\n', '    """See :meth:`duckdp.ledger.Ledger.store_step`."""\n', _T_INTERACTIVE),
    Mutant("interactive: a stored answer is drawn again", _TASK, "        if key in known:\n            return known[key].output\n", "", _T_INTERACTIVE),
    Mutant("interactive: goes on after its end", _TASK, "        if self._ended:\n            return None\n", "", _T_INTERACTIVE),
    Mutant("interactive: what was drawn goes on, not what is stored", _TASK, "        if ours:\n", "        if True:\n", _T_INTERACTIVE),
    Mutant("interactive: a digest of the secret that can be guessed", _INTERACTIONS, 'f"{secrets.token_hex(16)}:{step.secret}"', 'f":{step.secret}"', _T_INTERACTIVE),
    Mutant("interactive: older data", _INTERACTIVE, "        if self._data.require_current().data_version != self._charge.data_version:\n", "        if False:\n", _T_INTERACTIVE),
    Mutant("backups: what went on goes on", _BACKUPS, "        _end_what_went_on(tx)\n", "", _T_INTERACTIVE),
)

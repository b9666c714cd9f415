"""Faults in the ledger on a server: a charge that is not durable, two that do not see each other, a draw that is repeated."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_SERVED, _SCHEMA, _SESSIONS, _ERRORS, _ADDRESSES, _HOLDERS, _OPENING, _CONNECTIONS = (
    f"duckdp/ledger/{n}.py"
    for n in ("served", "served_schema", "sessions", "served_errors", "addresses", "holders", "opening", "connections")
)
_FAULTS, _CURATORS = "tests/served/test_faults_served.py", "tests/served/test_curators.py"
_TRANSFER, _BACKUPS = "duckdp/ledger/transfer.py", "duckdp/ledger/backups.py"
_MOVED = "tests/served/test_moved.py"
_RACE = (f"{_FAULTS}::test_two_processes_never_overspend_and_each_gives_the_others_answers_free",)
_UNHEARD = (
    f"{_FAULTS}::test_a_charge_whose_commit_was_made_unheard_is_given_out_and_charged_once",
    f"{_FAULTS}::test_a_charge_whose_commit_never_arrived_is_refused_and_not_charged",
)
_FIT = (f"{_FAULTS}::test_a_server_that_may_forget_is_refused",)
_WAYS = (f"{_CURATORS}::test_what_cannot_be_opened_says_why",)
_HIDDEN = (f"{_CURATORS}::test_an_address_that_is_refused_is_not_repeated",)

_TOGETHER = "tests/served/test_together.py"

SERVED = (
    Mutant(
        "together: a change of no row is taken for made",
        "duckdp/ledger/tx.py",
        "SELECT 1 / CAST(count(*) = 1 AS INTEGER) FROM done",
        "SELECT 1 FROM done",
        (f"{_TOGETHER}::test_a_change_of_a_row_that_is_not_there_is_damage",),
    ),
    Mutant(
        "together: an error comes to the next",
        "duckdp/ledger/writer.py",
        "                    own.settle()\n",
        "",
        (f"{_TOGETHER}::test_an_error_of_one_takes_nothing_of_the_others",),
    ),
    Mutant(
        "together: an error of the first is everybody's",
        "duckdp/ledger/writer.py",
        "            tx.settle()  # before the next",
        "            pass  # before the next",
        (f"{_TOGETHER}::test_an_error_of_the_first_is_its_own",),
    ),
    Mutant(
        "together: what waits is forgotten",
        _SERVED,
        "                    for each in waiting:\n                        self._driver",
        "                    for each in waiting[1:]:\n                        self._driver",
        (f"{_TOGETHER}::test_an_error_of_one_takes_nothing_of_the_others",),
    ),
    Mutant(
        "served: writers do not wait for each other",
        _SERVED,
        "{' FOR UPDATE' if writing else ''}",
        "",
        (*_RACE, f"{_FAULTS}::test_what_waits_too_long_for_another_writer_is_told_so"),
    ),
    Mutant(
        "served: an unanswered commit is taken for made",
        _SERVED,
        "        if found is None or found[0] != head.digest:\n",
        "        if False:\n",
        _UNHEARD,
    ),
    Mutant(
        "served: an unanswered commit is taken for undone",
        _SERVED,
        "            self._settle(head)\n",
        "            raise\n",
        _UNHEARD,
    ),
    Mutant(
        "served: a commit that the server undid is taken for made",
        _SERVED,
        'if cursor.statusmessage != "COMMIT":',
        "if False:",
        (f"{_FAULTS}::test_a_commit_that_the_server_undid_is_none",),
    ),
    Mutant(
        "served: what others wrote is not seen",
        _SERVED,
        "        if version != self._version or len(self.found) >= MOST_FOUND:\n",
        "        if len(self.found) >= MOST_FOUND:\n",
        (f"{_CURATORS}::test_what_one_curator_changes_the_other_sees",),
    ),
    Mutant("served: a commit need not be on the disk", _SERVED, "SET synchronous_commit = 'on'; ", "", _FIT),
    Mutant("served: a server that forgets", _ERRORS, 'if fsync != "on" or pages != "on":', "if False:", _FIT),
    Mutant("served: another encoding", _ERRORS, 'if encoding != "UTF8":', "if False:", _WAYS),
    Mutant(
        "served: a child ends its parent's sessions late",
        _SERVED,
        "                os.dup2(nothing, driver.fileno(), inheritable=False)\n",
        "                pass\n",
        (f"{_FAULTS}::test_a_child_of_a_fork_uses_nothing_of_its_parents_and_holds_nothing_that_it_held",),
    ),
    Mutant(
        "served: the driver's words hang on the error",
        _CONNECTIONS,
        "            error.__context__ = None  # the driver's",
        "            pass  # the driver's",
        (f"{_FAULTS}::test_nothing_of_the_driver_is_told",),
    ),
    Mutant(
        "served: any holder is alive",
        _HOLDERS,
        "return name != holder and sessions.is_taken(path, charge_id, name.partition(_TOKEN)[2])",
        "return True",
        (f"{_FAULTS}::test_a_charge_is_held_while_its_curator_lives_and_no_longer",),
    ),
    Mutant(
        "served: no holder is alive",
        _HOLDERS,
        "return name != holder and sessions.is_taken(path, charge_id, name.partition(_TOKEN)[2])",
        "return False",
        (f"{_FAULTS}::test_a_charge_is_held_while_its_curator_lives_and_no_longer",),
    ),
    Mutant(
        "served: every process has the same name",
        _HOLDERS,
        "return name == me() and (not plus or token == sessions.token())",
        "return bool(name) and bool(plus)",
        (f"{_FAULTS}::test_a_charge_is_held_while_its_curator_lives_and_no_longer",),
    ),
    Mutant(
        "served: tables that were altered",
        _SERVED,
        "return served_schema.described(self) != served_schema.expected(self)",
        "return False",
        (f"{_CURATORS}::test_what_was_altered_is_refused_at_the_next_opening",),
    ),
    Mutant(
        "served: triggers that are off",
        _SCHEMA,
        "pg_get_triggerdef(t.oid), t.tgenabled::text",
        "pg_get_triggerdef(t.oid), 'O'",
        (f"{_CURATORS}::test_what_was_altered_is_refused_at_the_next_opening",),
    ),
    Mutant("served: no anchor", _OPENING, "    if given is None and is_address(path):\n", "    if False:\n", _WAYS),
    Mutant("served: a schema with other tables", _SCHEMA, "    if other is not None:\n", "    if False:\n", _WAYS),
    Mutant(
        "moved: the file is not closed",
        _TRANSFER,
        "    tx.change_dataset(backup=mark, anchor=text)\n",
        "    tx.change_dataset(anchor=text)\n",
        (f"{_MOVED}::test_a_moved_ledger_goes_on_and_its_file_is_closed",),
    ),
    Mutant(
        "moved: a draft is opened",
        _OPENING,
        "        if row is not None and chain.is_moved(row[0]):\n",
        "        if False:\n",
        (f"{_MOVED}::test_a_draft_is_opened_by_nobody",),
    ),
    Mutant(
        "moved: the file is put back into service",
        _BACKUPS,
        '    if chain.is_moved(dataset["backup"]):\n',
        "    if False:\n",
        (f"{_MOVED}::test_a_moved_ledger_goes_on_and_its_file_is_closed",),
    ),
    Mutant(
        "moved: what the anchor knows is not asked",
        _TRANSFER,
        "            store.ask(lambda tx: _know(anchors, place, tx, drafted=drafted))\n",
        "",
        (f"{_MOVED}::test_a_server_that_lost_what_was_charged_after_a_move_is_not_filled_anew",),
    ),
    Mutant(
        "moved: an anchor that is lost is begun anew",
        _TRANSFER,
        "    elif not drafted:\n",
        "    elif False:\n",
        (f"{_MOVED}::test_nor_is_one_whose_anchor_is_lost_too",),
    ),
    Mutant(
        "moved: whatever is there is replaced",
        _TRANSFER,
        '    if row is None or row["id"] != dataset_id or not chain.is_moved(row["backup"]):\n',
        "    if False:\n",
        (f"{_MOVED}::test_what_cannot_be_moved_says_why_and_stays_in_service",),
    ),
    Mutant(
        "moved: an earlier draft is put into service",
        _TRANSFER,
        "    return row is not None and tuple(row) == (head.dataset_id, mark, head.count, head.digest)\n",
        "    return row is not None\n",
        (f"{_MOVED}::test_a_draft_is_opened_by_nobody",),
    ),
    Mutant(
        "address: a password is repeated",
        _ADDRESSES,
        'if ":" in login or {"password", "sslpassword"} & set(named):',
        "if False:",
        _HIDDEN,
    ),
    Mutant(
        "address: anything is allowed",
        _ADDRESSES,
        "unknown = sorted(set(named) - ALLOWED)",
        "unknown = list[str]()",
        _HIDDEN,
    ),
)

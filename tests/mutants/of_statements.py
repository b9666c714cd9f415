"""Faults in the log of statements and the history: what is missing, what says too much, what an edit is not found by."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_LOG, _FILE, _CHECK, _HISTORY = (
    f"duckdp/ledger/{n}.py" for n in ("statements", "statement_file", "statement_check", "history")
)
_ASKING, _EXPORT, _SESSION, _DESK, _BINDER, _CURATOR, _SHELL, _LEDGER, _KEEPING, _CHARGES, _BACKUPS = (
    *(
        f"duckdp/{n}.py"
        for n in ("desk/asking", "faces/exporting", "session", "desk/desk", "front/binder", "curator", "shell/analyst")
    ),
    *(f"duckdp/ledger/{n}.py" for n in ("ledger", "keeping", "charges", "backups")),
)
_T_LOG, _T_CHECK, _T_HISTORY = (f"tests/test_{n}.py" for n in ("statement_log", "statement_check", "history"))
_FUZZ = (f"{_T_LOG}::test_the_log_holds_what_was_issued_and_not_charged",)
_CANARY = (f"{_T_LOG}::test_no_value_of_the_data_is_in_the_log",)
_FLOOD = (
    f"{_T_LOG}::test_a_flood_neither_fills_the_disk_nor_pushes_out_others",
    f"{_T_LOG}::test_the_buffer_is_bounded_and_what_it_had_no_room_for_is_said",
    f"{_T_LOG}::test_names_that_nobody_granted_share_one_place",
)
_FAULT = (f"{_T_LOG}::test_no_fault_of_the_log_fails_a_statement",)
_FORK = (f"{_T_LOG}::test_a_fork_leaves_its_parents_entries_to_the_parent",)
_EXPORTED = (
    f"{_T_HISTORY}::test_csv_has_everything_made_safe",
    f"{_T_HISTORY}::test_a_file_is_whole_or_not_there",
    f"{_T_HISTORY}::test_parquet_has_everything_as_it_is",
)

# fmt: off
STATEMENTS: tuple[Mutant, ...] = (
    # ---- what is noted
    Mutant("log: own SQL too", _SESSION, "            leave_out()\n", "", _FUZZ),
    Mutant("log: what was charged too", _DESK, "            charged(admitted.id)\n", "", _FUZZ),
    Mutant("log: stored answers as new ones", _DESK, "                given_again(admitted.charge_id)\n", "", _FUZZ),
    Mutant("log: what was bound too", _BINDER, "            asking.leave_out()  # nothing was asked yet\n", "", _FUZZ),
    Mutant("log: every column a statement", _BINDER, "                    asking.leave_out()  # another column, or another reader, of what was asked\n", "                    pass\n", _FUZZ),
    Mutant("log: strangers not", _CURATOR, 'self.ledger.statements.note(name, "refused", "a session", error.code, granted=False)', "pass", _FUZZ),
    Mutant("log: the shell's refusals not", _SHELL, "                with self.session.asking(text):\n                    raise\n", "                raise\n", (f"{_T_LOG}::test_each_way_through_the_shell_is_logged",)),
    Mutant("log: errors in words", _ASKING, "        return error.code\n    return \"E102\"", "        return str(error)\n    return str(error) or \"E102\"", (*_CANARY, *_FUZZ)),
    Mutant("log: values shown", _ASKING, "    return kind.__name__\n", "    return repr(value)\n", (f"{_T_LOG}::test_what_a_call_is_given_is_not_shown",)),
    # ---- bounds
    Mutant("log: texts whole", _LOG, "    return text if len(text) <= MOST_TEXT else", "    return text if True else", _FLOOD),
    Mutant("log: the buffer has no end", _LOG, "if self._waiting >= MOST_WAITING and len(own) >= OWN_SHARE:", "if False:", _FLOOD),
    Mutant("log: no share in the buffer", _LOG, "if self._waiting >= MOST_WAITING and len(own) >= OWN_SHARE:", "if self._waiting >= MOST_WAITING:", _FLOOD),
    Mutant("log: losses untold", _LOG, "                entries.setdefault(name, []).append(_lost(name, count))\n", "                pass\n", _FLOOD),
    Mutant("log: strangers a place each", _LOG, "name = who if granted else NOBODY", "name = who", _FLOOD),
    Mutant("log: never trimmed", _FILE, "    if rows <= 0 and size <= 0:\n", "    if True:\n", _FLOOD),
    Mutant("log: bytes are not counted", _FILE, "    if rows <= 0 and size <= 0:\n", "    size = 0\n    if rows <= 0:\n", _FLOOD),
    Mutant("log: the lightest is trimmed", _FILE, "analyst = max(full, key=", "analyst = min(full, key=", _FLOOD),
    # ---- faults
    Mutant("log: its errors are a statement's", _LOG, "        except Exception as error:  # noqa: BLE001 - nobody waits for it, and no statement may fail by it\n            self.problem = error\n            waiting = {}\n", "        except ZeroDivisionError:\n            waiting = {}\n", _FAULT),
    Mutant("log: what failed is forgotten", _LOG, "            self.problem = error\n            waiting = {}\n", "            self.problem = error\n", _FAULT),
    Mutant("log: a child writes its parent's", _LOG, "    os.register_at_fork(after_in_child=_forget_all)", "    pass", _FORK),
    Mutant("log: another file in its place", _FILE, "if self._connection is not None and _identity(self.path) == self._identity:", "if self._connection is not None:", (f"{_T_LOG}::test_a_log_that_was_moved_away_is_begun_anew",)),
    Mutant("log: not written at the end", _KEEPING, "            self.statements.close()\n", "            pass\n", (f"{_T_LOG}::test_what_was_noted_is_on_the_disk_when_the_ledger_is_closed",)),
    # ---- edits
    Mutant("check: hashes", _CHECK, "if values[0] != number or digest != before:", "if values[0] != number:", (_T_CHECK,)),
    Mutant("check: numbers", _CHECK, "if values[0] != number or digest != before:", "if digest != before:", (f"{_T_CHECK}::test_a_chain_begins_at_its_data_set_and_counts_without_gaps",)),
    Mutant("check: the end", _CHECK, '    if (number, before, size) != (row["count"], row["hash"], row["bytes"]):', "    if False:", (_T_CHECK,)),
    Mutant("check: the beginning", _CHECK, "    if not number and before != start:\n", "    if False:\n", (f"{_T_CHECK}::test_a_chain_begins_at_its_data_set_and_counts_without_gaps",)),
    Mutant("check: heads that charges name", _CHECK, "    elif not met and named is not None:\n", "    elif False:\n", (_T_CHECK,)),
    Mutant("check: a chain that is gone", _CHECK, "    for analyst in sorted(set(named) - set(chains)):\n", "    for analyst in ():\n", (f"{_T_CHECK}::test_a_chain_that_a_charge_names_is_missed",)),
    Mutant("check: a log that is gone", _CHECK, "is missing'] if named else [], 0", "is missing'] if False else [], 0", (_T_CHECK,)),
    Mutant("check: trimmed without need", _CHECK, "and full < FULL:", "and False:", (_T_CHECK,)),
    Mutant("check: altered tables", _CHECK, "broken = None if _schema(connection) == _expected() else", "broken = None if True else", (_T_CHECK,)),
    Mutant("check: charges name nothing", _CHARGES, "    if request.logged is not None:\n", "    if False:\n", (_T_CHECK,)),
    Mutant("check: accepted for ever", _CHECK, "                named.clear()\n", "                return named\n", (_T_CHECK,)),
    Mutant("check: not part of verify", _KEEPING, "        if found:\n            raise LedgerError(\"B202\", f'the ledger", "        if False:\n            raise LedgerError(\"B202\", f'the ledger", (_T_CHECK,)),
    Mutant("backup: without its log", _BACKUPS, "        beside(name)\n", "", (_T_CHECK,)),
    Mutant("backup: over another's log", _FILE, "            _require_own(copy, dataset_id)\n", "            pass\n", (_T_CHECK,)),
    # ---- history and export
    Mutant("history: a page twice", _HISTORY, "        before, after = page[0].id, page[-1].id\n", "        before, after = page[0].id + 1, page[-1].id - 1\n", (f"{_T_HISTORY}::test_merging_pages_is_sorting",)),
    Mutant("history: unescaped", "duckdp/faces/records.py", "    return escape(line if len(line) <= most else line[: most - 3] + \"...\")", "    return line if len(line) <= most else line[: most - 3] + \"...\"", (f"{_T_HISTORY}::test_nothing_printed_moves_the_cursor",)),
    Mutant("export: formulas", _EXPORT, "[csv_cell(v) for v in values] if form == \"csv\" else values", "values", _EXPORTED),
    Mutant("export: cut short unseen", _EXPORT, "        raise OSError from None\n", "        pass\n", _EXPORTED),
    Mutant("export: for all eyes", _EXPORT, "os.O_EXCL | os.O_CLOEXEC, 0o600", "os.O_EXCL | os.O_CLOEXEC, 0o644", _EXPORTED),
    Mutant("export: over what is there", _EXPORT, "    if os.path.lexists(target):\n        raise _exists(target)\n    return target\n", "    with suppress(OSError):\n        os.unlink(target)\n    return target\n", _EXPORTED),
    Mutant("export: leaves a draft", _EXPORT, "            os.unlink(draft)\n", "            pass\n", _EXPORTED),
)

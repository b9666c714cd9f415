"""Faults in the ledger, identities, tokens, grants and routing: overspending, or an answer that is somebody else's."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CHARGES, _BUDGETS, _CHAIN, _ANCHOR, _OBJECTS, _STORE = (
    f"duckdp/ledger/{n}.py" for n in ("charges", "budgets", "chain", "anchor", "objects", "store")
)
_ANCHORS, _PLACES, _MOVING, _BACKUPS = (
    "tests/test_ledger_anchors.py",
    *(f"duckdp/ledger/{n}.py" for n in ("places", "moving", "backups")),
)
_DAMAGE, _TX, _SEALS, _DIRECTORY, _LISTING, _OPENING = (
    "tests/test_ledger_damage.py",
    *(f"duckdp/ledger/{n}.py" for n in ("tx", "seals", "directory", "listing", "opening")),
)
_POWER = ("tests/faults/test_power_loss.py::test_nothing_acknowledged_is_lost",)
_CONNECTIONS, _LEDGER = "duckdp/ledger/connections.py", "duckdp/ledger/ledger.py"
_REPLAY, _COMPARISON = (f"duckdp/ledger/{n}.py" for n in ("replay", "comparison"))
_LIMITS, _CAPS = "duckdp/ledger/limits.py", "duckdp/ledger/caps.py"
_BINDER, _DESK, _CHARGING, _LOOKUPS, _DATASET = (
    f"duckdp/{n}.py" for n in ("front/binder", "desk/desk", "desk/charging", "desk/lookups", "vault/dataset")
)
_T = (
    "tests/test_ledger.py",
    "tests/test_ledger_attacks.py",
    "tests/test_ledger_owner.py",
    "tests/test_ledger_model.py",
)
_T_DAMAGE = (*_T, "tests/test_ledger_damage.py")
_T_IDENTITY = ("tests/adversary/test_identity.py", "tests/test_front.py")
_T_SESSION = ("tests/test_session.py", "tests/test_owner.py", "tests/test_kept_ledgers.py", "tests/test_sources.py")

# fmt: off
LEDGER: tuple[Mutant, ...] = (
    # ---- admitting
    Mutant("admit: both limits must be passed", _LIMITS, "if cost[0] > (rest := limit.rest)[0] or cost[1] > rest[1]]", "if cost[0] > (rest := limit.rest)[0] and cost[1] > rest[1]]", _T),
    Mutant("admit: delta unlimited", _LIMITS, "if cost[0] > (rest := limit.rest)[0] or cost[1] > rest[1]]", "if cost[0] > limit.rest[0]]", _T),
    Mutant("admit: only the analyst's cap", _LIMITS, 'for one in [*whose, ("data set", dataset, _sum(holding))]]', "for one in whose]", _T),
    Mutant("admit: only the total", _LIMITS, 'for one in [*whose, ("data set", dataset, _sum(holding))]]', 'for one in [("data set", dataset, _sum(holding))]]', _T),
    Mutant("admit: budget not asked", _CHARGES, "    require_budget(tx, request, cost, dataset, analyst)\n", "", _T),
    Mutant("charge: the total is not touched", _LIMITS, 'month=month, **_sums_after(dataset, cost))', "month=month)", _T),
    Mutant("charge: the analyst is not touched", _LIMITS, 'charges=analyst["charges"] + 1, **_after_cost(analyst, cost, month))', 'charges=analyst["charges"] + 1)', _T),
    Mutant("charge: delta not added", _LIMITS, 'row["secondary_spent"] + cost[1]', 'row["secondary_spent"]', _T),
    Mutant("attempts: interrupted ones are free", _CHARGES, '    attempt = row["attempt"] + 1\n', '    attempt = row["attempt"]\n', _T),
    Mutant("attempts: two holders at once", _CHARGES, 'if is_worked_on(tx, dataset["id"], row) or row["attempt"]', 'if row["attempt"]', ("tests/test_ledger_holders.py", "tests/test_ledger_concurrency.py")),
    Mutant("same key, another cost", _CHARGES, 'if (_loss(row), row["kind"]) != (request.loss, request.kind):', "if False:", _T),
    Mutant("versions not asked", _CHARGES, "        require_versions(dataset, request)\n        return enter", "        return enter", (*_T, *_T_SESSION)),
    Mutant("release stored for a revoked analyst", _CHARGES, "    budgets.require_open(tx, charge.analyst)\n    row = _row_of(tx, charge)\n    if row[\"state\"] != \"released\":", "    row = _row_of(tx, charge)\n    if row[\"state\"] != \"released\":", _T),
    Mutant("release: a second replaces the first", _CHARGES, '    if row["state"] != "released":\n        note_release(', '    if True:\n        tx.run("DELETE FROM release WHERE charge = ?", row["id"])\n        note_release(', _T),
    Mutant("release of anybody", _CHARGES, 'if row is None or row["analyst"] != analyst or row["state"] != "released":', 'if row is None or row["state"] != "released":', _T),
    Mutant("release: grant not asked", _CHARGES, '    """See :meth:`duckdp.ledger.Ledger.release`."""\n    budgets.require_open(tx, analyst)\n', '    """See :meth:`duckdp.ledger.Ledger.release`."""\n', _T),
    Mutant("key of any analyst", "duckdp/ledger/directory.py", '_text(f"{analyst} {key}"), digest_size', '_text(key), digest_size', _T),
    Mutant("stages: a stored one is drawn again", _CHARGES, "        return _stages_of(tx, row)[number]\n", "        return payload\n", _T),
    # ---- answers given again, and what is remembered
    Mutant("known: grant not asked", _CHARGES, "    budgets.require_open(tx, request.analyst)\n    row = find(tx, request.analyst, request.key)\n    if row is None or", "    row = find(tx, request.analyst, request.key)\n    if row is None or", _T),
    Mutant("known: another cost", _CHARGES, 'row["state"] != "released" or (_loss(row), row["kind"]) != (request.loss, request.kind):', 'row["state"] != "released":', ("tests/test_ledger.py::test_a_key_stands_for_one_question",)),
    Mutant("known: under any name", _CHARGES, "    if request.name is not None and objects.charge_of(tx, request.analyst, request.name) != row[\"id\"]:\n        return None\n", "", (*_T, "tests/synthetic/test_again.py")),
    Mutant("recall: whatever was written", _CONNECTIONS, "if version != self.version or len(self.found) >= MOST_FOUND:", "if len(self.found) >= MOST_FOUND:", (*_T, "tests/test_grants.py")),
    Mutant("recall: who may ask, once for all", _LEDGER, 'self._store.recall(("open", analyst), work)', 'self._store.recall("open", work)', ("tests/test_ledger.py::test_one_who_may_ask_says_nothing_of_another",)),
    # ---- owner's side
    Mutant("frozen: asks go on", _BUDGETS, '    if dataset["frozen"] is not None:\n        raise BudgetError("B103", "the data set is frozen', '    if False:\n        raise BudgetError("B103", "the data set is frozen', _T),
    Mutant("revoked: asks go on", _BUDGETS, '    if row["revoked"] is not None:\n        raise BudgetError(\n', '    if False:\n        raise BudgetError(\n', _T),
    Mutant("raise: without a word", _CAPS, "if (epsilon_nano > old[\"epsilon_nano\"] or delta_atto > old[\"delta_atto\"]) and not (raise_to and reason):", "if False:", _T),
    Mutant("raise: delta without a word", _CAPS, "if (epsilon_nano > old[\"epsilon_nano\"] or delta_atto > old[\"delta_atto\"]) and", "if (epsilon_nano > old[\"epsilon_nano\"]) and", _T),
    Mutant("lower: below what was spent", _CAPS, 'if limit[0] < old["primary_spent"] or limit[1] < old["secondary_spent"]:', "if False:", _T),
    Mutant("revoked: let in again in silence", _CAPS, 'if old["revoked"] is not None and not (raise_to and reason):', "if False:", _T),
    Mutant("grant: more than the total", _CAPS, "        if units > total:\n", "        if False:\n", _T),
    # ---- chain and anchor
    Mutant("chain: links forget the past", _CHAIN, "    return digest(before, *row)\n", "    return digest(*row)\n", _T),
    Mutant("chain: recent links not compared", _CHAIN, 'if row["seq"] != count or row["hash"] != head:', "if False:", ("tests/test_ledger_alterations.py::test_what_all_hangs_on_is_refused_at_the_opening",)),
    Mutant("seals: not looked at", "duckdp/ledger/tx.py", 'if not fits(self.dataset()["salt"], table, found):', "if False:", _T_DAMAGE),
    Mutant("seals: the data set's is not looked at", "duckdp/ledger/tx.py", 'or not fits(found["salt"], "dataset", found):', "or False:", ("tests/test_ledger_alterations.py::test_what_all_hangs_on_is_refused_at_the_opening",)),
    Mutant("directory: gaps not compared", "duckdp/ledger/directory.py", "    if not _spans(row, name):\n", "    if False:\n", _T_DAMAGE),
    Mutant("releases: not compared with their charge", _CHARGES, 'if row is None or not chain.vouches(digest, row["payload"]):', "if row is None:", ("tests/test_ledger_alterations.py::test_what_leaves_is_compared_with_its_charge",)),
    Mutant("stages: not compared with their charge", _CHARGES, 'if (len(payloads), staged) != (row["stages"], row["staged"]):', "if False:", ("tests/test_ledger_alterations.py::test_what_leaves_is_compared_with_its_charge",)),
    Mutant("verify: charges not compared", _REPLAY, 'if chain.charge_digest(row) != detail["digest"]:', "if False:", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen", *_T)),
    Mutant("verify: attempts and states not compared", _COMPARISON, "    return said == stand\n", "    return True\n", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen", *_T)),
    Mutant("verify: releases not compared", _REPLAY, "if row is None or not chain.vouches(digest, row[0]):", "if row is None:", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen", *_T)),
    Mutant("verify: added releases not counted", _COMPARISON, "return counts == {table: replay.payloads[table] for table in counts} and", "return", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen", *_T)),
    Mutant("verify: budget not compared", _COMPARISON, "return budget == (replay.budget or unset) and", "return", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen", *_T)),
    Mutant("verify: caps not compared", _COMPARISON, "return caps == said and", "return", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen", *_T)),
    Mutant("verify: declarations not compared", _COMPARISON, "    same = in_force == replay.tables and declared == replay.declared\n", "    same = True\n", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen", *_T)),
    Mutant("verify: sums not compared", _COMPARISON, "    return kept == total and set(", "    return bool(total) or set(", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen", *_T)),
    Mutant("verify: entries not compared", _REPLAY, "if row[0] != self.events or not chain.is_link(before, row):", "if False:", ("tests/test_ledger_alterations.py::test_old_history_is_found_by_verify",)),
    Mutant("verify: names not compared", _COMPARISON, "return objects.value == replay.objects.value and", "return", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen", *_T)),
    Mutant("verify: shares not compared", _COMPARISON, " and shares.value == replay.shares.value", "", ("tests/test_ledger_alterations.py::test_who_may_read_what_is_found_by_verify",)),
    Mutant("verify: directory not compared", _COMPARISON, "return wanted == directory.END and entries.value == replay.entries.value", "return True", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen", *_T)),
    Mutant("verify: which version wrote an entry not compared", _REPLAY, "        return (action, version) == (None if kind in chain.MACHINE else self.actions, self.version)\n", "        return action == (None if kind in chain.MACHINE else self.actions)\n", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen",)),
    Mutant("verify: actions not compared", _REPLAY, "        return (action, version) == (None if kind in chain.MACHINE else self.actions, self.version)\n", "        return version == self.version\n", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen",)),
    Mutant("verify: which version wrote a name not compared", _COMPARISON, 'row["version"] if replay.sealed else 0)', "4)", (*("tests/test_kept_ledgers.py",), *("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen",))),
    Mutant("verify: names of earlier versions stay so", _REPLAY, "            return schema.SEALED if marked else schema.UNMARKED\n", "            return schema.SEALED\n", ("tests/test_kept_ledgers.py",)),
    Mutant("verify: what vouches for nothing not compared", _REPLAY, "        if self.sealed and not _is_consistent(row):\n", "        if False:\n", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen",)),
    Mutant("verify: what vouches for stages not compared", _REPLAY, "            if row is None or row[0] != staged:\n", "            if row is None:\n", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen",)),
    Mutant("verify: who holds an interactive release not compared", "duckdp/ledger/retold.py", "            self._turns[charge] = (1, self._holder)\n", "            self._turns[charge] = (1, None)\n", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen",)),
    Mutant("verify: members not compared", "duckdp/ledger/retold.py", "stand == self._teams and members == told", "stand == self._teams", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen",)),
    Mutant("opening: values of any type", _OPENING, "    except verification.UNREADABLE:", "    except ZeroDivisionError:", ("tests/test_ledger_alterations.py::test_no_value_of_any_row_is_altered_unseen",)),
    Mutant("interactive: a lost one was never there", "duckdp/ledger/interactions.py", '    if row is None and tx.one("SELECT 1 FROM step WHERE charge = ?", charge_id) is not None:\n', "    if False:\n", ("tests/test_ledger_alterations.py::test_no_altered_value_changes_what_the_ledger_says",)),
    Mutant("interactive: a question asked again is a new step", "duckdp/ledger/interactions.py", '!= row["steps"] or asked:', '!= row["steps"]:', ("tests/test_interactive.py",)),
    Mutant("anchor: other data set", _ANCHOR, "    if known.dataset_id != position.dataset_id:", "    if False:", ("tests/test_ledger_attacks.py::test_an_anchor_is_never_moved_to_another_data_set",)),
    Mutant("anchor: other history", _ANCHOR, "    if not back and known.count == position.count and known.digest != position.digest:", "    if False:", _T),
    Mutant("anchor: never moves", _ANCHOR, "if known is None or known.count < position.count:", "if known is None:", _T),
    Mutant("anchor: moves back", _ANCHOR, "            if known is None or known.count < position.count:\n                _write(path, name, file_of_it, position, (line,), replace)\n", "            if True:\n                _write(path, name, file_of_it, position, (0, 1), replace)\n", ("tests/test_ledger_attacks.py::test_an_anchor_never_moves_back",)),
    Mutant("anchor: the newest line is overwritten", _ANCHOR, "    return known, 1 if newest_first else 0\n", "    return known, 0 if newest_first else 1\n", ("tests/test_ledger_attacks.py::test_a_torn_write_of_the_anchor_leaves_where_it_was", "tests/test_ledger_attacks.py")),
    Mutant("anchor: checksum not read", _ANCHOR, "return _remember(text, position) if magic == _MAGIC and position.line() == text else None", "return position if magic == _MAGIC else None", _T),
    Mutant("store: anchor not moved", _STORE, "        if head.count != before or head.count > place.anchored:\n", "        if False:\n", _T),
    Mutant("store: fsync off", _CONNECTIONS, '"PRAGMA synchronous = FULL"', '"PRAGMA synchronous = OFF"', _POWER),
    Mutant("store: fsync of the journal alone", _CONNECTIONS, '"PRAGMA synchronous = FULL"', '"PRAGMA synchronous = NORMAL"', _POWER),
    Mutant("anchor: not on the disk", _ANCHOR, "        _sync(file)\n", "        pass\n", _POWER),
    Mutant("store: a replaced file", _STORE, "if not is_address(place.path) and files.identity(place.path) != place.file:", "if False:", _T),
    # ---- seals, the directory, listings
    Mutant("seal: of any table", _SEALS, "compact([table, *values])", "compact([*values])", (f"{_DAMAGE}::test_a_seal_is_of_one_table_of_one_ledger",)),
    Mutant("seal: without the salt", _SEALS, "digest_size=SIZE, key=salt)", "digest_size=SIZE)", (f"{_DAMAGE}::test_a_seal_is_of_one_table_of_one_ledger",)),
    Mutant("directory: nothing is proved", _DIRECTORY, """return bool(row["name"] <= name and (row["next"] == END or name < row["next"]))""", "return True", (_DAMAGE,)),
    Mutant("directory: the next is whichever comes", _DIRECTORY, """        if row["name"] != wanted:\n""", "        if False:\n", (f"{_DAMAGE}::test_a_stale_row_of_the_directory_is_not_listed",)),
    Mutant("directory: names entered twice", _DIRECTORY, """    if before["name"] == name:\n        raise""", "    if False:\n        raise", (_DAMAGE,)),
    Mutant("listing: pages that miss a charge", _LISTING, "    if [row[number] for row in rows] != list(range(first, last + 1)):\n", "    if False:\n", (_DAMAGE, *_T)),
    Mutant("listing: a log that misses an entry", _LISTING, """    if [row["action"] for row in rows] != list(range(last, max(last - limit, 0), -1)):\n""", "    if False:\n", (f"{_DAMAGE}::test_an_action_that_is_lost_is_missed_by_the_log",)),
    Mutant("opening: recent history is believed", _OPENING, "        chain.check_recent(tx)\n", "", ("tests/test_ledger_alterations.py::test_what_all_hangs_on_is_refused_at_the_opening",)),
    Mutant("opening: older ledgers are sealed unseen", _OPENING, "            _require_sound(connection, path, version)\n", "", ("tests/test_kept_ledgers.py::test_an_earlier_ledger_that_is_not_whole_is_refused_as_it_is",)),
    Mutant("opening: older ledgers whose anchor is elsewhere", _OPENING, "            _require_contained(connection, path)\n", "", ("tests/test_kept_ledgers.py::test_an_earlier_ledger_that_is_not_whole_is_refused_as_it_is",)),
    Mutant("held: what was rolled back", _STORE, "            connection.found.clear()\n", "", (f"{_DAMAGE}::test_what_was_undone_is_not_remembered",)),
    Mutant("anchor: behind after it failed", _STORE, "if head.count != before or head.count > place.anchored:", "if head.count != before:", ("tests/test_ledger_anchored.py::test_a_release_whose_anchor_failed_is_not_given_until_it_follows",)),
    # ---- anchors elsewhere, backups
    Mutant("places: a command is run because a file says so", _PLACES, "if self.said not in (None, *found) or any(p.command and p not in self.commands for p in found):", "if self.said not in (None, *found):", (f"{_ANCHORS}::test_a_command_is_demanded_and_never_run_because_a_file_says_so",)),
    Mutant("places: another anchor than the remembered one", _PLACES, "if self.said not in (None, *found) or any(", "if any(", (f"{_ANCHORS}::test_another_anchor_than_the_remembered_one_is_refused",)),
    Mutant("places: what a command knows is not looked for", _PLACES, "            self.require(tx, place, kept)\n", "            self._believed[place] = kept\n", (f"{_ANCHORS}::test_an_open_ledger_that_is_put_back_under_us_buys_nothing", _ANCHORS)),
    Mutant("places: an anchor that forgot", _PLACES, "                if known is None:\n                    raise self.missing(place)\n                self.require", "                if known is None:\n                    continue\n                self.require", (f"{_ANCHORS}::test_an_anchor_that_forgot_is_refused_and_repaired_only_by_the_owner",)),
    Mutant("places: beside the ledger under another name", _PLACES, "    if os.path.dirname(name) == os.path.dirname(path):\n", "    if False:\n", (f"{_ANCHORS}::test_files_that_cannot_be_an_anchor",)),
    Mutant("anchor: moved past what another ledger charged", _PLACES, "        if known != self._believed.get(place):\n            self.require(tx, place, known)\n", "        pass\n", (f"{_ANCHORS}::test_two_ledgers_of_one_past_do_not_pass_each_other",)),
    Mutant("anchor: a command that failed is left behind", _PLACES, "        for place in self._behind and self._behind & set(self.places(tx)):\n", "        for place in ():\n", (f"{_ANCHORS}::test_an_outage_costs_one_transaction_of_any_kind",)),
    Mutant("moving: the old anchor is left before the new one is known", _MOVING, "    store.write(lambda tx: _choose(tx, tuple(dict.fromkeys((*before, new))), reason))\n", "", (f"{_ANCHORS}::test_a_crash_anywhere_in_a_move_loses_nothing", f"{_ANCHORS}::test_it_is_moved_with_a_reason_and_older_ledgers_stay_refused", _ANCHORS)),
    Mutant("command: any line is an answer", "duckdp/ledger/anchor_command.py", "    if status != 0:\n", "    if False:\n", (f"{_ANCHORS}::test_whatever_the_command_does_nothing_leaves_and_everything_goes_on_after_it",)),
    Mutant("backup: it answers", _BUDGETS, '    if dataset["backup"] is not None or dataset["frozen"] == OLD_BACKUP:\n', "    if False:\n", (f"{_ANCHORS}::test_a_backup_takes_the_place_and_what_was_left_is_charged_as_lost", "tests/test_ledger_owner.py", _ANCHORS)),
    Mutant("backup: of an earlier version it answers", _BUDGETS, 'if dataset["backup"] is not None or dataset["frozen"] == OLD_BACKUP:', 'if dataset["backup"] is not None:', (f"{_ANCHORS}::test_a_backup_of_an_earlier_version_says_that_it_is_one",)),
    Mutant("backup: nothing is charged as lost", _BACKUPS, "    if not (complete or nothing_lost):\n", "    if False:\n", (f"{_ANCHORS}::test_a_backup_takes_the_place_and_what_was_left_is_charged_as_lost",)),
    Mutant("backup: delta is not lost", _BACKUPS, "    loss = Loss(epsilon_nano=rest[0], delta_atto=rest[1])\n", "    loss = Loss(epsilon_nano=rest[0])\n", (f"{_ANCHORS}::test_a_backup_takes_the_place_and_what_was_left_is_charged_as_lost",)),
    Mutant("backup: any anchor shows that nothing was lost", _BACKUPS, "            require_contained(path, tx, position)\n", "            pass\n", (f"{_ANCHORS}::test_a_backup_takes_the_place_and_what_was_left_is_charged_as_lost", f"{_ANCHORS}::test_an_original_that_was_not_gone_is_refused", _ANCHORS)),
    Mutant("backup: the original's anchor is not set back", _BACKUPS, "    for place in places:\n        store.ask(", "    for place in ():\n        store.ask(", (f"{_ANCHORS}::test_an_original_that_was_not_gone_is_refused", _ANCHORS)),
    Mutant("anchor: another history", _PLACES, '    if row["hash"] != known.digest:\n', "    if False:\n", ("tests/test_ledger_attacks.py::test_another_history_of_the_same_length_is_refused", "tests/test_ledger_anchors.py")),
    Mutant("anchor: an older line", _ANCHOR, "    return (first, True) if first.count >= second.count else (second, False)\n", "    return first, True\n", ("tests/test_ledger_attacks.py::test_an_older_ledger_is_refused_and_stays_refused", "tests/test_ledger_attacks.py")),
    Mutant("anchor: a ledger that is gone is begun anew", _STORE, "    if known is not None:\n        raise anchor.rolled_back(path, f\"the ledger is missing", "    if False:\n        raise anchor.rolled_back(path, f\"the ledger is missing", (f"{_ANCHORS}::test_where_a_ledger_is_gone_none_is_made",)),
    Mutant("anchor: one that was emptied is a new one", _STORE, "    if place.file and os.path.lexists(place.file):\n", "    if False:\n", (f"{_ANCHORS}::test_files_that_cannot_be_an_anchor",)),
    Mutant("anchor: on a disk that is not there", _STORE, "    if place.file and not os.path.isdir(os.path.dirname(place.file)):\n", "    if False:\n", (f"{_ANCHORS}::test_files_that_cannot_be_an_anchor",)),
    Mutant("anchor: made anew for any ledger", _STORE, "    new = head.count <= 1 and not lost", "    new = not lost", ("tests/test_ledger_attacks.py::test_a_lost_or_damaged_anchor_is_refused_and_repaired_only_by_the_owner",)),
    Mutant("anchor: given again before it follows", _STORE, "        if behind:\n", "        if False:\n", ("tests/test_ledger_anchored.py::test_a_release_whose_anchor_failed_is_not_given_until_it_follows",)),
    Mutant("anchor: set back for another data set by a command", _PLACES, "        if known is not None and known.dataset_id != head.dataset_id:\n", "        if False:\n", (f"{_ANCHORS}::test_a_backup_takes_no_other_ledgers_place",)),
    # ---- objects
    Mutant("objects: everybody's", _OBJECTS, "directory.listed(tx, directory.named(analyst), owner.encode(), limit)", 'directory.listed(tx, b"o", owner.encode(), limit)', _T),
    Mutant("objects: shares of any reader", _OBJECTS, "directory.listed(tx, directory.shared(analyst), name.encode(), left)", 'directory.listed(tx, b"s", name.encode(), left)', _T),
    Mutant("objects: grant not asked", _OBJECTS, "    budgets.require_open(tx, analyst)\n    owner, dot", "    owner, dot", _T),
    Mutant("objects: names overwritten", _OBJECTS, "    elif held != charge_id:\n", "    elif False:\n", _T),
    Mutant("source: a changed one in silence", _OBJECTS, 'if dataset["source"] is not None and reason is None:', "if False:", (*_T, *_T_SESSION)),
    # ---- identities and tokens
    Mutant("identity: data version left out", _CHARGING, "[task.canonical, state.data_version, task.mechanism, *beside]", "[task.canonical, task.mechanism, *beside]", (*_T_SESSION, "tests/test_interactive_session.py::test_older_data_and_stopped_analysts_are_refused")),
    Mutant("identity: question left out", _CHARGING, "[task.canonical, state.data_version, task.mechanism, *beside]", "[state.data_version, task.mechanism, *beside]", _T_SESSION),
    Mutant("identity: fresh is not", _DESK, "beside=(kind, name, unique)", "beside=(kind, name)", _T_SESSION),
    Mutant("identity: name left out", _DESK, "beside=(kind, name, unique)", "beside=(kind, unique)", (*_T_SESSION, "tests/smooth/test_smooth_summary.py", "tests/synthetic/test_again.py")),
    Mutant("charge: kept only if it succeeds", _DESK, "laundered(error, charge.id), charge.id)", "error, charge.id)", ("tests/adversary/test_planted_secrets.py", "tests/test_session.py")),
    Mutant("source: changes go unseen", _DATASET, "if self.engine.changed() or state.source != self._fingerprint:", "if state.source != self._fingerprint:", ("tests/adversary/test_planted_secrets.py::test_a_replaced_file_is_refused_before_the_charge",)),
    Mutant("source: refreshes elsewhere go unseen", _DATASET, "if self.engine.changed() or state.source != self._fingerprint:", "if self.engine.changed():", _T_SESSION),
    Mutant("token: any mac", _BINDER, "if not hmac.compare_digest(mac.encode(), self._mac(body).encode()):", "if False:", _T_IDENTITY),
    Mutant("token: one key for all", _BINDER, "self._key = secrets.token_bytes(32)", 'self._key = b"0" * 32', _T_IDENTITY),
    Mutant("token: shape not compared", _BINDER, "if _shape(planned) != shape:", "if False:", ("tests/adversary/test_identity.py::test_a_token_is_for_the_columns_that_it_was_bound_to",)),
    Mutant("token: a plan of before", _BINDER, "return planned if since is self._open_desk().ledger_state() else None", "return planned", ("tests/test_session.py::test_a_call_bound_before_a_declaration_changed_is_refused_before_its_charge",)),
    Mutant("token: computed each time", _BINDER, "self._remember(token, found)\n", "pass\n", (*_T_IDENTITY, "tests/test_front_canary.py")),
    Mutant("routing: old data", _LOOKUPS, "if row.ready and row.data_version == version]", "if row.ready]", ("tests/test_routing.py", "tests/test_routing_rows.py")),
    Mutant("routing: any table", _LOOKUPS, "if summary.table == table.name]", "]", ("tests/test_routing.py", "tests/test_routing_rows.py")),
)

"""A ledger under load while the library records: several threads and two openings of one file charge and store.

Run with the library loaded: ``python -m tests.faults.workload FOLDER TRACE TWIN QUESTIONS``; the folder is empty, or
holds ``a.ledger``. What was acknowledged is marked in the trace at once: ["opened"], ["charged", question, charge],
["staged", question, number, payload], ["released", question, payload], ["copied", name]. A twin breaks one rule of
durability, for the tests to catch.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from duckdp.ledger import Charge, Ledger, anchor, connections, store
from tests.faults.library import Call, Faults
from tests.ledgers import NANO, ask, set_up

THREADS = 4
ELSEWHERE = "other/anchor"
COST = 1000  # of a question, in 1e-9


def break_rule(twin: str) -> None:
    """Break one rule of durability."""
    pragmas = tuple(p for p in connections._PRAGMAS if "synchronous" not in p and "fullfsync" not in p)
    match twin:
        case "none":
            pass
        case "journal-unsynced":
            connections._PRAGMAS = (*pragmas, "PRAGMA synchronous = OFF")
        case "journal-synced-at-checkpoints":
            connections._PRAGMAS = (*pragmas, "PRAGMA synchronous = NORMAL")
        case "anchor-unsynced":
            anchor._sync = lambda file: None
        case "folder-unsynced":
            anchor.sync_folder = lambda path: None
        case "anchor-before-commit":
            _anchor_first()
        case _:
            raise ValueError(twin)


def _anchor_first() -> None:
    """The anchor runs ahead: it moves when the transaction's work is done, before that is committed."""
    commit = store._commit

    def early(place, connection, body):
        def both(tx):
            body(tx)
            anchor.advance(place.path, tx.head())

        commit(place, connection, both)

    store._commit = early


class Load:
    """Questions of several threads; what comes back is marked."""

    def __init__(self, faults: Faults, folder: Path) -> None:
        self.faults, self.folder = faults, folder
        self.path = folder / "a.ledger"

    def open(self) -> Ledger:
        ledger = Ledger.open(self.path)
        self.faults.mark("opened")
        return ledger

    def answer(self, ledger: Ledger, question: str) -> None:
        """Charge, perhaps store stages, store a random answer; a tenth of the charges is left without one."""
        charge = ledger.admit(ask(question, COST))
        if not isinstance(charge, Charge):
            self.faults.mark("released", question, charge.payload)
            return
        self.faults.mark("charged", question, charge.id)
        number = int(question[1:])
        if number % 10 == 9 and charge.attempt == 1:
            ledger.fail(charge)
            return
        for stage in range(number % 5 // 3 * 2):
            payload = ledger.store_stage(charge, stage, secrets.token_hex(8))
            self.faults.mark("staged", question, stage, payload)
        stored = ledger.store_release(charge, secrets.token_hex(200 + number % 7 * 300))
        self.faults.mark("released", question, stored.payload)

    def run(self, ledgers: list[Ledger], questions: range) -> None:
        """All questions, by several threads, the openings in turn."""
        with ThreadPoolExecutor(THREADS) as pool:
            jobs = [pool.submit(self.answer, ledgers[i % len(ledgers)], f"q{i}") for i in questions]
            for job in jobs:
                job.result()

    def whole(self, questions: int) -> None:
        """Open, perhaps create; load; copies, owner's actions; close and open again; load."""
        third = max(questions // 3, 1)
        (self.folder / ELSEWHERE).parent.mkdir(exist_ok=True)
        first = self.open()
        if first.state().epsilon_nano is None:
            set_up(first, 1000 * NANO)
            self.faults.mark("set up")
        elif not any(analyst.name == "ana" for analyst in first.analysts()):
            first.grant("ana", epsilon_nano=NANO, delta_atto=0)
        second = self.open()
        start = len(first.charges())
        self.run([first, second], range(start, start + third))
        first.backup(self.folder / "copy.ledger")
        self.faults.mark("copied", "copy.ledger")
        self.run([first, second], range(start + third, start + third + 4))
        first.move_anchor(self.folder / ELSEWHERE, reason="for a test")
        second.close()
        self.run([first], range(start + third, start + 2 * third))
        first.close()
        with self.open() as again:
            self.run([again], range(start + third // 2, start + 3 * third))  # some of them once more


def main(folder: str, trace: str, twin: str, questions: str) -> None:
    faults = Faults(folder)
    connections._PRAGMAS = (*connections._PRAGMAS, "PRAGMA wal_autocheckpoint = 25")  # many checkpoints
    break_rule(twin)
    with faults.recording(trace):
        Load(faults, Path(os.path.realpath(folder))).whole(int(questions))
    print(json.dumps({call.name: faults.total(call) for call in Call}))


if __name__ == "__main__":
    main(*sys.argv[1:])

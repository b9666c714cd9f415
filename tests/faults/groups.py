"""How many charges share a sync: pairs of charge and release by some threads, with syncs that take their time.

Run with the library loaded: ``python -m tests.faults.groups FOLDER TRACE THREADS PAIRS DELAY MOST``; TRACE may be "",
MOST is how many transactions may share a commit. It prints the seconds that all pairs took, and how many syncs.
"""

from __future__ import annotations

import json
import secrets
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

from duckdp.ledger import Charge, Ledger, writer
from tests.faults.library import Call, Faults
from tests.faults.workload import COST
from tests.ledgers import NANO, ask, set_up


def pair(ledger: Ledger, faults: Faults, question: str) -> None:
    """Charge and release."""
    charge = ledger.admit(ask(question, COST))
    assert isinstance(charge, Charge)
    faults.mark("charged", question, charge.id)
    stored = ledger.store_release(charge, secrets.token_hex(64))
    faults.mark("released", question, stored.payload)


def main(folder: str, trace: str, threads: str, pairs: str, delay: str, most: str) -> None:
    """Measure."""
    faults = Faults(folder)
    writer.MOST_TOGETHER = int(most)
    recording = faults.recording(trace) if trace else nullcontext()
    with recording, Ledger.open(Path(folder) / "a.ledger") as ledger, ThreadPoolExecutor(int(threads)) as pool:
        set_up(ledger, 1000 * NANO)
        pair(ledger, faults, "warm")
        faults.delay_syncs(float(delay))
        syncs, start = faults.total(Call.SYNC), time.perf_counter()
        for done in [pool.submit(pair, ledger, faults, f"q{i}") for i in range(int(pairs))]:
            done.result()
        seconds = time.perf_counter() - start
        faults.delay_syncs(0)
        print(json.dumps({"seconds": seconds, "syncs": faults.total(Call.SYNC) - syncs}))


if __name__ == "__main__":
    main(*sys.argv[1:])

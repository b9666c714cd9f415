"""One process that answers question after question, and what it takes of the machine meanwhile.

Run: ``python -m tests.faults.endurance WHAT FOLDER COUNT``, WHAT "sessions" or "ledger". It prints samples, a tenth of
the questions apart.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import duckdb

import duckdp
from duckdp.errors import DuckDPError
from duckdp.ledger import Ledger
from tests.ledgers import NANO, answer, ask, set_up

EPSILON = "0.000001"
SAMPLES = 10


def sample(folder: Path, seconds: list[float]) -> dict[str, float]:
    """What the process holds now, and the median processor time of the last questions."""
    return {
        "memory": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        "files": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "temporary": sum(len(names) for _, _, names in os.walk(tempfile.gettempdir())),
        "journal": sum(path.stat().st_size for path in folder.glob("*.ledger-wal")),
        "seconds": statistics.median(seconds),
    }


def endure(folder: Path, count: int, asked: Callable[[int], object]) -> list[dict[str, float]]:
    """Ask so many questions; samples on the way."""
    samples, seconds = list[dict[str, float]](), list[float]()
    for i in range(count):
        start = time.process_time()  # of the processor: others may use the machine
        asked(i)
        seconds.append(time.process_time() - start)
        if len(seconds) == count // SAMPLES:
            samples.append(sample(folder, seconds))
            seconds.clear()
    return samples


def of_sessions(folder: Path, count: int) -> list[dict[str, float]]:
    """Charged and stored, by sql and by dp functions, refused before and by the ledger; one kind after the other."""
    path = str(folder / "clinic.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT i % 200 AS patient_id, CAST(20 + i % 60 AS INTEGER) AS age, "
            "CAST(i * 7 % 5000 AS DOUBLE) AS cost, ['F', 'M'][1 + i % 2] AS sex FROM range(500) AS t(i)"
        )
    with duckdp.open(path) as curator:
        curator.protect(
            "visits",
            unit_key="patient_id",
            max_rows=3,
            row_cap=10_000,
            expected_rows=500,
            bounds={"age": (0, 110), "cost": (0, 5000)},
            domains={"sex": ["F", "M"]},
        )
        curator.budget(epsilon=20)
        curator.grant("ana", epsilon=10)
        ana = curator.session("ana")
        front = curator.front("ana")

        def refused(text: str, epsilon: object) -> None:
            with suppress(DuckDPError):
                ana.sql(text, epsilon=epsilon)
                raise AssertionError(text)

        kinds: list[Callable[[int], object]] = [
            lambda i: ana.sql(f"SELECT count(*) FROM visits WHERE cost > {i / 5}", epsilon=EPSILON).rows(),
            lambda i: ana.sql(f"SELECT sex, avg(age) FROM visits WHERE cost > {i / 5} GROUP BY sex", epsilon=EPSILON),
            lambda i: ana.noisy_count("visits", epsilon=EPSILON, predicate=f"cost > {i / 5}").rows(),
            lambda i: ana.sql(f"SELECT count(*) FROM visits WHERE cost > {i % 100 * 8}", epsilon=EPSILON).rows(),
            lambda i: front.sql(
                f"SELECT dp_noisy_count('visits', epsilon := {EPSILON}, predicate := 'cost > {i % 1000 + 0.5}')"
            ).rows(),
            lambda i: refused(f"SELECT age FROM visits WHERE cost > {i / 5}", EPSILON),
            lambda i: refused(f"SELECT sum(cost) FROM visits WHERE cost > {i / 5}", 50),
            lambda i: front.sql(f"SELECT {i}").rows(),
        ]
        return endure(folder, count, lambda i: kinds[i % len(kinds)](i))


def of_ledger(folder: Path, count: int) -> list[dict[str, float]]:
    """Charge, store, give again."""
    with Ledger.open(folder / "a.ledger") as ledger:
        set_up(ledger, 1000 * NANO)

        def asked(i: int) -> None:
            answer(ledger, ask(i, 1000), "x" * 200)
            assert ledger.admit(ask(i // 2, 1000)).payload == "x" * 200  # type: ignore[union-attr]
            ledger.remaining("ana")

        return endure(folder, count, asked)


def main(what: str, folder: str, count: str) -> None:
    """Run, and print samples."""
    run = {"sessions": of_sessions, "ledger": of_ledger}[what]
    print(json.dumps(run(Path(folder), int(count))))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""``duckdp bench ledger``: what a ledger of many charges costs to open, to use, to list and to verify.

The ledgers are made by the functions that charge and store, many charges to a commit and without waiting for the disk;
then they are opened and used as ever.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

import duckdp
from duckdp.core.types import Loss
from duckdp.ledger import Charge, ChargeRequest, Ledger, anchor, charges
from duckdp.ledger.connections import connect
from duckdp.ledger.tx import Tx

SIZES = (1_000, 100_000)  # charges in the ledgers
AT_ONCE = 1_000  # charges to a commit while a ledger is made
PAIRS = 200  # charges and releases that are timed
ANALYST = "ana"
HEAD = ("charges", "MB", "open ms", "shell ms", "ledger() ms", "summaries() ms", "tolerance= ms", "pair ms", "verify s")


def table(sizes: tuple[int, ...] = SIZES) -> list[tuple[str, ...]]:
    """Header and rows, one for each number of charges."""
    found: list[tuple[str, ...]] = [HEAD]
    with tempfile.TemporaryDirectory(prefix="duckdp-bench-") as folder:
        for size in sizes:
            place = Path(folder) / str(size)
            place.mkdir()
            make(place, size)
            found.append(measure(place))
    return found


def make(folder: Path, size: int) -> None:
    """A source, and a ledger with so many charges."""
    source = folder / "visits.parquet"
    with duckdb.connect() as connection:
        connection.sql("SELECT (i % 90)::INTEGER AS age FROM range(1000) r(i)").write_parquet(str(source))
    with duckdp.open(str(source), ledger=folder / "visits.ledger") as curator:
        curator.protect("visits", row_cap=10_000, bounds={"age": (0, 110)})
        curator.budget(epsilon=1_000_000)
        curator.grant(ANALYST, epsilon=900_000)
        curator.session(ANALYST).smooth_summary("visits", ["age"], epsilon=1, degree=6, name="ages")
        path = curator.ledger.path
    fill(path, size)


def fill(path: str, size: int) -> None:
    """Bring a ledger that nobody has open to that many charges, each with its release."""
    with _without_waiting(path) as connection:
        (done,) = connection.execute("SELECT charges FROM dataset").fetchone()
        while done < size:
            connection.execute("BEGIN IMMEDIATE")
            tx = Tx(connection, held={})
            for number in range(done, min(done + AT_ONCE, size)):
                charge = charges.decide(tx, request(number))
                assert isinstance(charge, Charge)
                charges.store(tx, charge, f'{{"value": {number}}}')
            tx.flush()
            connection.execute("COMMIT")
            done = min(done + AT_ONCE, size)
        head = Tx(connection).head()
    anchor.advance(path, head)


@contextmanager
def _without_waiting(path: str) -> Iterator[sqlite3.Connection]:
    connection = connect(path)
    try:
        for pragma in ("journal_mode = WAL", "synchronous = OFF", "foreign_keys = ON", "cache_size = -200000"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        yield connection
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.close()


def request(number: int) -> ChargeRequest:
    """The charge of one of many questions."""
    return ChargeRequest(
        analyst=ANALYST,
        key=hashlib.sha256(f"question {number}".encode()).hexdigest(),
        loss=Loss(epsilon_nano=1000),
        mechanism="laplace",
        parameters='{"scale": 1000000}',
        data_version=None,
        statement=f"SELECT count(*) FROM visits WHERE age > {number % 100} AND age < {number % 70 + 30}",
    )


def measure(folder: Path) -> tuple[str, ...]:
    """A row of the table, for the ledger in a folder."""
    path = folder / "visits.ledger"
    size = path.stat().st_size
    opened = _milliseconds(lambda: Ledger.open(path, create=False).close())
    with duckdp.open(str(folder / "visits.parquet"), ledger=path) as curator:
        session, number = curator.session(ANALYST), curator.ledger.count_charges()
        cursor = curator.connect(ANALYST)

        def statement() -> None:
            """One of the shell, which says what was charged for it."""
            before = session.desk.count_charges()
            cursor.execute("SELECT 1").fetchall()
            session.desk.own_charges(limit=session.desk.count_charges() - before)

        text = "SELECT avg(age) FROM visits"
        times = [
            opened,
            _milliseconds(statement),
            _milliseconds(session.ledger),
            _milliseconds(session.summaries),
            _milliseconds(lambda: session.sql(text, tolerance=1000.0)),
            _milliseconds(lambda: _pairs(curator.ledger, number), 1) / PAIRS,
        ]
    with Ledger.open(path, create=False) as ledger:
        verified = _milliseconds(ledger.verify, 1)
    return (
        f"{number:,}",
        f"{size / 1e6:,.0f}",
        *(f"{t:,.1f}" if t < 100 else f"{t:,.0f}" for t in times),
        f"{verified / 1000:,.1f}",
    )


def _pairs(ledger: Ledger, start: int) -> None:
    for number in range(start, start + PAIRS):
        charge = ledger.admit(request(number))
        assert isinstance(charge, Charge)
        ledger.store_release(charge, f'{{"value": {number}}}')


def _milliseconds(work: Callable[[], object], times: int = 5) -> float:
    """The median of a few runs."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return sorted(found)[times // 2] * 1000


def main(argv: list[str]) -> int:
    """Print how long a ledger's calls take, by its number of charges."""
    parser = argparse.ArgumentParser(prog="duckdp bench ledger", description="Ledgers of many charges.")
    parser.add_argument("sizes", nargs="*", type=int, default=list(SIZES), help="charges; 1000 100000 by default")
    parser.add_argument("--folder", help="keep the ledgers here, and use those that are there")
    parser.add_argument("--server", metavar="ADDRESS", help="compare with a ledger in PostgreSQL, in a new schema")
    options = parser.parse_args(argv)
    if options.server is not None:
        from duckdp.bench.ledger_served import table as beside

        rows = beside(options.server)
    elif options.folder is None:
        rows = table(tuple(options.sizes))
    else:
        rows = [HEAD]
        for size in options.sizes:
            place = Path(options.folder) / str(size)
            if not place.is_dir():
                os.makedirs(place)
                make(place, size)
            rows.append(measure(place))
    for row in [rows[0], ("---",) * len(rows[0]), *rows[1:]]:
        sys.stdout.write("| " + " | ".join(row) + " |\n")
    return 0

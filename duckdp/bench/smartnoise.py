"""``duckdp bench smartnoise``: the same questions of SmartNoise SQL over PostgreSQL, and of duckdp.

SmartNoise wants an environment of its own (an older opendp), whose Python is named::

    python3 -m venv peer && peer/bin/pip install smartnoise-sql==1.0.10 pgserver==0.1.4 psycopg2-binary
    duckdp bench smartnoise --python peer/bin/python

100,000 visits of 40,000 people with at most 3 each. Both bound a person to 3 rows, take ages from 0 to 110 and costs
from 0 to 5,000, and know the keys. Errors are the mean distance from the true answer; ms are of the processor, of the
process that answers: PostgreSQL's come on top of SmartNoise's, and DuckDB's reads are within ours.

::

    typed     the epsilon that the analyst types        spent   what the library says that it cost; delta beside it
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import duckdb

import duckdp
from duckdp.bench.measure import machine
from duckdp.core.types import NANO

PEOPLE, ROWS = 40_000, 100_000  # of the table: two or three rows of each
MOST_ROWS = 3  # of a person, as both are told
DELTA = 1e-6  # of SmartNoise; duckdp needs none here
EPSILONS = ("0.1", "1")
AGES = range(20, 50)  # thresholds, a question each
QUESTIONS = {
    "COUNT(*)": "SELECT COUNT(*) FROM {} WHERE age > {}",
    "COUNT(*) by sex": "SELECT sex, COUNT(*) FROM {} WHERE age > {} GROUP BY sex",
    "SUM(cost)": "SELECT SUM(cost) FROM {} WHERE age > {}",
    "AVG(cost)": "SELECT AVG(cost) FROM {} WHERE age > {}",
}
#: What makes the rows, in both databases; {} is the list of the two sexes.
_TABLE = (
    f"CREATE TABLE visits AS SELECT i % {PEOPLE} AS person, CAST(20 + (i * 7919) % 60 AS INTEGER) AS age, "
    f"CAST(i * 7 % 5000 AS DOUBLE PRECISION) AS cost, ({{}})[1 + i % 2] AS sex "
)
HEAD = (
    "question",
    "typed",
    "error of SmartNoise",
    "duckdp",
    "spent by SmartNoise",
    "duckdp",
    "ms of SmartNoise",
    "duckdp",
)
Answers = dict[str, dict[str, dict[str, Any]]]  # by epsilon, then question: answers, ms, epsilon, delta


def asked(ages: range = AGES, epsilons: tuple[str, ...] = EPSILONS) -> dict[str, Any]:
    """What the peer is asked, see ``smartnoise_peer``."""
    bounds = {"age": ("int", 0, 110), "cost": ("float", 0, 5000)}
    columns: dict[str, Any] = {n: {"type": t, "lower": a, "upper": b} for n, (t, a, b) in bounds.items()}
    columns |= {"person": {"type": "int", "private_id": True}, "sex": {"type": "string"}}
    told = {"max_ids": MOST_ROWS, "rows": ROWS, "censor_dims": False, **columns}
    return {
        "statements": [_TABLE.format("ARRAY['F', 'M']") + f"FROM generate_series(0, {ROWS - 1}) AS t(i)"],
        "metadata": {"": {"public": {"visits": told}}},
        "delta": DELTA,
        "epsilons": list(epsilons),
        "questions": {n: [text.format("public.visits", age) for age in ages] for n, text in QUESTIONS.items()},
    }


def theirs(python: str, question: dict[str, Any]) -> Answers:
    """The peer's answers, by a Python that has it.

    Raises:
        subprocess.CalledProcessError: it failed; what it said is on the terminal.
    """
    peer = str(Path(__file__).with_name("smartnoise_peer.py"))
    done = subprocess.run([python, peer], input=json.dumps(question), stdout=subprocess.PIPE, text=True, check=True)
    found: Answers = json.loads(done.stdout)
    return found


def ours(
    folder: Path, ages: range = AGES, epsilons: tuple[str, ...] = EPSILONS
) -> tuple[Answers, dict[str, list[list[Any]]]]:
    """Our answers, charged in a ledger of the folder, and the true ones."""
    source, ledger = str(folder / "visits.duckdb"), str(folder / "visits.ledger")
    with duckdb.connect(source) as con:
        con.execute(_TABLE.format("['F', 'M']") + f"FROM range({ROWS}) AS t(i)")
        true = {n: [_rows(con.execute(t.format("visits", a)).fetchall()) for a in ages] for n, t in QUESTIONS.items()}
    found: Answers = {}
    with duckdp.open(source, ledger=ledger) as owner:
        bounds: dict[str, tuple[object, object]] = {"age": (0, 110), "cost": (0, 5000)}
        domains = {"sex": ["F", "M"]}
        owner.protect(
            "visits", unit_key="person", max_rows=MOST_ROWS, max_groups=1, row_cap=10**6, bounds=bounds, domains=domains
        )
        owner.budget(epsilon=10_000)
        owner.grant("ana", epsilon=10_000)
        session = owner.session("ana")
        for epsilon in epsilons:
            for name, text in QUESTIONS.items():
                session.sql(text.format("visits", 1), epsilon=epsilon)  # what is loaded at the first is not counted
                before, began = len(owner.ledger.charges()), time.process_time()
                results = [session.sql(text.format("visits", age), epsilon=epsilon) for age in ages]
                ms = 1000 * (time.process_time() - began) / len(ages)
                charges = owner.ledger.charges()[before:]
                assert len(charges) == len(ages)
                answers = [_rows(result.rows()) for result in results]
                spent = {"epsilon": charges[0].loss.epsilon_nano / NANO, "delta": 0.0}
                found.setdefault(epsilon, {})[name] = {"answers": answers, "ms": ms, **spent}
    return found, true


def _rows(rows: Any) -> list[list[Any]]:
    return [[value if isinstance(value, str) else float(value) for value in row] for row in rows]


def error(answers: list[list[list[Any]]], true: list[list[list[Any]]]) -> float:
    """Mean distance of the answers' last values from the true ones, rows matched by what stands before.

    >>> error([[["F", 3.0], ["M", 5.0]]], [[["M", 4.0], ["F", 3.0]]])
    0.5
    """
    off = []
    for rows, known in zip(answers, true, strict=True):
        found = {tuple(row[:-1]): row[-1] for row in rows}
        off += [abs(found[tuple(row[:-1])] - row[-1]) for row in known]
    return fmean(off)


def table(first: Answers, second: Answers, true: dict[str, list[list[Any]]]) -> list[tuple[str, ...]]:
    """Header and rows: SmartNoise and duckdp, by question and epsilon."""
    found: list[tuple[str, ...]] = [HEAD]
    for name in QUESTIONS:
        for epsilon in first:
            cells: list[tuple[str, str, str]] = []
            for side in (first[epsilon][name], second[epsilon][name]):
                delta = f", {side['delta']:.0e}" if side["delta"] else ""
                off = error(side["answers"], true[name])
                cells.append(
                    (
                        f"{off:,.3g}" if off < 1000 else f"{off:,.0f}",
                        f"{side['epsilon']:.3g}{delta}",
                        f"{side['ms']:.0f}",
                    )
                )
            found.append((name, epsilon, *(one for pair in zip(*cells, strict=True) for one in pair)))
    return found


def main(argv: list[str]) -> int:
    """Ask both, and print a table."""
    parser = argparse.ArgumentParser(prog="duckdp bench smartnoise", description="SmartNoise SQL, the same questions.")
    parser.add_argument(
        "--python", required=True, help="of an environment with smartnoise-sql, pgserver, psycopg2-binary"
    )
    options = parser.parse_args(argv)
    found = theirs(options.python, asked())
    with tempfile.TemporaryDirectory(prefix="duckdp-bench-") as folder:
        own, true = ours(Path(folder))
    sys.stdout.write(f"{machine()}\n{len(AGES)} questions of each\n\n")
    rows = table(found, own, true)
    for row in (rows[0], ("---",) * len(HEAD), *rows[1:]):
        sys.stdout.write("| " + " | ".join(row) + " |\n")
    return 0

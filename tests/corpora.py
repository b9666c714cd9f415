"""Corpora: statements that people type over a hospital and over ClickBench's table, with what must become of each.

A block of tests/fixtures/corpora is a title, the outcome (``answered``, or ``refused`` with its code), for a refusal
why a stranger calls it right, and the statement. ``waits`` names what is not built: until then either outcome will do.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

import duckdp
from duckdp.errors import DuckDPError
from duckdp.session import Session

FOLDER = Path(__file__).parent / "fixtures" / "corpora"
DEPARTMENTS = ["cardiology", "surgery", "psychiatry", "paediatrics", "oncology"]
TESTS = ["glucose", "sodium", "creatinine"]
BLOOD = ["A+", "A-", "B+", "B-", "AB+", "AB-", "0+", "0-"]


@dataclass(frozen=True, kw_only=True)
class Question:
    """One statement and what must become of it.

    Attributes:
        title: of the block.
        text: the statement.
        outcome: "answered" or a code.
        right: why a refusal is right, or "".
        waits: what is not built that it needs, or "".
    """

    title: str
    text: str
    outcome: str
    right: str = ""
    waits: str = ""


def corpus(name: str) -> list[Question]:
    """The statements of a file."""
    found = []
    for block in re.split(r"\n\n(?=# title: )", (FOLDER / f"{name}.sql").read_text().rstrip("\n")):
        lines = block.split("\n")
        head = {line[2:].split(": ", 1)[0]: line.split(": ", 1)[1] for line in lines if re.match(r"# [a-z]+: ", line)}
        outcome = head["outcome"].removeprefix("refused ")
        found.append(Question(**head | {"outcome": outcome}, text="\n".join(lines[len(head) :])))
    assert len({q.title for q in found}) == len(found)
    return found


def explained(ana: Session, question: Question) -> str:
    """What becomes of a statement, without its answer: "answered", or the code of the refusal."""
    try:
        ana.explain(question.text, epsilon=1, delta="1e-6")
    except DuckDPError as error:
        return error.code
    return "answered"


@contextmanager
def hospital(folder: Path, patients: int = 40) -> Iterator[Session]:
    """An analyst of a hospital with patients, their visits and their laboratory tests."""
    path = str(folder / "hospital.duckdb")
    with duckdb.connect(path) as con:
        _fill_hospital(con, patients)
    days = {"admitted": (dt.datetime(2021, 1, 1), dt.datetime(2023, 12, 31, 23, 59, 59))}
    with duckdp.open(path, ledger=str(folder / "hospital.ledger")) as curator:
        curator.protect(
            "patients",
            unit_key="patient_id",
            max_rows=1,
            row_cap=100_000,
            expected_rows=20_000,
            bounds={
                "birth_date": (dt.date(1925, 1, 1), dt.date(2023, 12, 31)),
                "weight": (2, 200),
                "height": (40, 210),
            },
            domains={"sex": ["female", "male"], "blood_type": [*BLOOD, None]},
            columns=["city", "insured", "smoker"],
        )
        curator.protect(
            "visits",
            unit_key="patient_id",
            max_rows=5,
            max_groups=3,
            row_cap=500_000,
            expected_rows=60_000,
            bounds={
                **days,
                "discharged": (dt.datetime(2021, 1, 1), dt.datetime(2024, 3, 31)),
                "age": (0, 100),
                "cost": (0, 5_000),
            },
            domains={"department": DEPARTMENTS},
            columns=["emergency", "diagnosis"],
        )
        curator.protect(
            "labs",
            unit_key="patient_id",
            max_rows=5,
            max_groups=3,
            row_cap=500_000,
            expected_rows=60_000,
            bounds={"taken": (dt.date(2021, 1, 1), dt.date(2023, 12, 31)), "value": (0, 500)},
            domains={"test": TESTS},
            columns=["abnormal"],
        )
        curator.budget(epsilon=1000, delta="1e-2")
        curator.grant("ana", epsilon=1000, delta="1e-2")
        yield curator.session("ana")


def _fill_hospital(con: duckdb.DuckDBPyConnection, patients: int) -> None:
    rng = random.Random(129)
    con.execute(
        "CREATE TABLE patients (patient_id INTEGER, sex VARCHAR, birth_date DATE, blood_type VARCHAR, city VARCHAR, "
        "insured BOOLEAN, smoker BOOLEAN, weight DOUBLE, height DOUBLE)"
    )
    con.execute(
        "CREATE TABLE visits (patient_id INTEGER, department VARCHAR, admitted TIMESTAMP, discharged TIMESTAMP, "
        "age INTEGER, cost DOUBLE, emergency BOOLEAN, diagnosis VARCHAR)"
    )
    con.execute("CREATE TABLE labs (patient_id INTEGER, taken DATE, test VARCHAR, value DOUBLE, abnormal BOOLEAN)")
    for patient in range(patients):
        born = dt.date(1925, 1, 1) + dt.timedelta(days=rng.randrange(36_000))
        height = rng.uniform(50, 200)
        con.execute(
            "INSERT INTO patients VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                patient,
                rng.choice(["female", "male"]),
                born,
                rng.choice([*BLOOD, None]),
                rng.choice(["Bern", "Hamburg", "Lyon", " basel"]),
                rng.random() < 0.9,
                rng.random() < 0.3,
                height / 2.4,
                height,
            ],
        )
        for _ in range(rng.choice([0, 1, 2, 3, 8])):
            begun = dt.datetime(2021, 1, 1) + dt.timedelta(minutes=rng.randrange(1_500_000))
            con.execute(
                "INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    patient,
                    rng.choice(DEPARTMENTS),
                    begun,
                    begun + dt.timedelta(hours=rng.randrange(400)),
                    max(0, begun.year - born.year),
                    round(rng.expovariate(1 / 400), 2),
                    rng.random() < 0.2,
                    rng.choice(["I21.0", "I25.1", "J18.9", "F32.1", "S72.0"]),
                ],
            )
            con.execute(
                "INSERT INTO labs VALUES (?, ?, ?, ?, ?)",
                [patient, begun.date(), rng.choice(TESTS), rng.uniform(1, 300), rng.random() < 0.1],
            )


HITS: dict[str, str] = {
    "WatchID": "BIGINT",
    "Title": "VARCHAR",
    "EventTime": "TIMESTAMP",
    "EventDate": "DATE",
    "CounterID": "INTEGER",
    "ClientIP": "INTEGER",
    "RegionID": "INTEGER",
    "UserID": "BIGINT",
    "URL": "VARCHAR",
    "Referer": "VARCHAR",
    "IsRefresh": "SMALLINT",
    "ResolutionWidth": "SMALLINT",
    "MobilePhone": "SMALLINT",
    "MobilePhoneModel": "VARCHAR",
    "TraficSourceID": "SMALLINT",
    "SearchEngineID": "SMALLINT",
    "SearchPhrase": "VARCHAR",
    "AdvEngineID": "SMALLINT",
    "WindowClientWidth": "SMALLINT",
    "WindowClientHeight": "SMALLINT",
    "IsLink": "SMALLINT",
    "IsDownload": "SMALLINT",
    "DontCountHits": "SMALLINT",
    "RefererHash": "BIGINT",
    "URLHash": "BIGINT",
}


@contextmanager
def clickbench(folder: Path, rows: int = 300) -> Iterator[Session]:
    """An analyst of ClickBench's hits: the columns that its 43 statements name, few made rows, a user a unit."""
    path = str(folder / "hits.duckdb")
    with duckdb.connect(path) as con:
        con.execute(f"CREATE TABLE hits ({', '.join(f'{n} {t}' for n, t in HITS.items())})")
        rng = random.Random(43)
        made = {"BIGINT": lambda: rng.randrange(9), "INTEGER": lambda: rng.randrange(9)}
        made |= {"SMALLINT": lambda: rng.randrange(3), "VARCHAR": lambda: rng.choice(["", "http://google.ru/a"])}
        for _ in range(rows):
            at = dt.datetime(2013, 7, 1) + dt.timedelta(seconds=rng.randrange(2_678_400))
            dates = {"EventTime": at, "EventDate": at.date(), "CounterID": 62}
            row = [dates[n] if n in dates else made[t]() for n, t in HITS.items()]
            con.execute(f"INSERT INTO hits VALUES ({', '.join('?' * len(row))})", row)
    bounds: dict[str, tuple[object, object]] = {
        "ResolutionWidth": (0, 4096),
        "AdvEngineID": (0, 100),
        "IsRefresh": (0, 1),
    }
    july = dt.datetime(2013, 7, 1), dt.datetime(2013, 7, 31, 23, 59, 59)
    with duckdp.open(path, ledger=str(folder / "hits.ledger")) as curator:
        curator.protect(
            "hits",
            unit_key="UserID",
            max_rows=20,
            max_groups=5,
            row_cap=100_000_000,
            expected_rows=99_997_497,
            bounds=bounds | {"EventTime": july, "EventDate": (july[0].date(), july[1].date())},
            columns=[n for n in HITS if n not in (*bounds, "EventTime", "EventDate", "UserID")],
        )
        curator.budget(epsilon=1000, delta="1e-2")
        curator.grant("ana", epsilon=1000, delta="1e-2")
        yield curator.session("ana")


CORPORA = {"everyday": hospital, "clickbench": clickbench}

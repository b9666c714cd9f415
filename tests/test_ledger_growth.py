"""What a ledger of many charges costs: nothing that is done while it is used grows with their number."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import duckdp
from duckdp.bench.ledger import ANALYST, fill, make, request
from duckdp.errors import DuckDPError
from duckdp.functions import listings
from duckdp.ledger import Charge, backups, chain, connections, opening
from duckdp.shell import Analyst

SMALL, LARGE, RECENT = 60, 1500, 50
GROWING = re.compile(
    r"SCAN (charge|event|release|stage|finished|object|share|directory)\b(?! USING INDEX event_action)"
)


class Meter:
    """Steps of SQLite's machine, and the texts of statements, of all connections to ledgers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps, self.texts = 0, set[str]()
        monkeypatch.setattr(chain, "RECENT", RECENT)  # links that are checked at each opening
        monkeypatch.setattr(listings, "PAGE", RECENT)
        connect = connections.connect

        def metered(path: str) -> connections.Connection:
            connection = connect(path)
            connection.set_progress_handler(self.count, 1)
            connection.set_trace_callback(self.texts.add)
            return connection

        for module in (connections, backups, opening):
            monkeypatch.setattr(module, "connect", metered)

    def count(self) -> int:
        self.steps += 1
        return 0


def session(folder: Path) -> None:
    """All that is done with a ledger, but to verify and export it."""
    with duckdp.open(str(folder / "visits.parquet"), ledger=folder / "visits.ledger") as curator:
        ana, shell = curator.session(ANALYST), Analyst(curator, ANALYST, tell=lambda _: None)
        shell.run("SELECT 1")
        shell.epsilon or shell.set_epsilon("0.1")
        shell.run("SELECT count(*) FROM visits")
        ana.sql("SELECT avg(age) FROM visits", tolerance=1000.0)
        ana.sql("SELECT count(*) FROM visits", epsilon="0.1")
        ana.smooth_summary("visits", ["age"], epsilon=1, degree=4, name="more")
        ana.ledger(most=10)
        ana.ledger(most=10, before=50)
        ana.summaries()
        ana.budget()
        curator.connect(ANALYST).execute("FROM dp_ledger(most := 10)").fetchall()
        curator.grant("bob", epsilon=1)
        curator.share("more", owner=ANALYST, to="bob")
        curator.protect("visits", row_cap=10_000, bounds={"age": (0, 100)}, reason="younger")
        curator.charges(ANALYST, limit=10)
        ledger = curator.ledger
        ledger.log(10)
        ledger.charges(limit=10, after=20)
        ledger.declarations()
        for number in range(3):
            charge = ledger.admit(request(10**7 + number))
            assert isinstance(charge, Charge)
            if number < 2:
                ledger.store_release(charge, "1")
            else:
                ledger.fail(charge)
        ledger.release(ANALYST, 5)
        with pytest.raises(DuckDPError):
            ledger.object(ANALYST, "none")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    small, large = (tmp_path_factory.mktemp(name) for name in ("small", "large"))
    make(small, SMALL)
    for name in small.iterdir():
        shutil.copy2(name, large)
    fill(str(large / "visits.ledger"), LARGE)
    yield small, large


def test_no_statement_of_a_session_grows_with_the_ledger(
    made: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by its plan nor by the steps that it takes."""
    meter, steps = Meter(monkeypatch), []
    for kept in made:
        folder = tmp_path / kept.name
        shutil.copytree(kept, folder)
        meter.steps = 0
        session(folder)
        steps.append(meter.steps)
    assert len(meter.texts) > 30
    assert steps[1] < 1.1 * steps[0], steps
    with sqlite3.connect(tmp_path / made[1].name / "visits.ledger") as connection:
        for text in sorted(meter.texts):
            if re.match(r"(SELECT|INSERT|UPDATE|DELETE)\b", text):
                plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")]
                bounded = re.search(r"ORDER BY (seq|id|name)( DESC)? LIMIT \d+$", text) and len(plan) == 1
                assert bounded or not [step for step in plan if GROWING.match(step)], (text, plan)
    connection.close()


def test_the_meter_sees_what_grows(made: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: verify reads everything."""
    meter, steps = Meter(monkeypatch), []
    for kept in made:
        folder = tmp_path / kept.name
        shutil.copytree(kept, folder)
        with duckdp.ledger.Ledger.open(folder / "visits.ledger") as ledger:
            meter.steps = 0
            ledger.verify()
            steps.append(meter.steps)
    assert steps[1] > 4 * steps[0]

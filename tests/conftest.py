"""Fixtures that several suites use. Where a new test goes is in CONTRIBUTING.md, by subject.

Every database a fixture opens is closed again. Helpers without state: ledgers.py (ledger), gate.py (SELECT).
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import duckdp

# A suite begun in the background of a shell inherits that Ctrl-C is ignored, and so would all the programs it tests.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage while 14,000 tests are collected, and never among them: there is none, and it takes time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Let go of them in the end: DuckDB would tell of its classes as leaked."""
    gc.unfreeze()


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty DuckDB instance."""
    connection = duckdb.connect(":memory:")
    yield connection
    connection.close()


@pytest.fixture(scope="session")
def clinic_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small DuckDB file: 500 visits of 200 patients."""
    path = tmp_path_factory.mktemp("clinic") / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT i % 200 AS patient_id, CAST(20 + i % 60 AS INTEGER) AS age, "
            "CAST(i * 7 % 5000 AS DOUBLE) AS cost, ['F', 'M'][1 + i % 2] AS sex, 'n' || (i % 40) AS name "
            "FROM range(500) AS t(i)"
        )
    return path.read_bytes()


@pytest.fixture
def clinic_file(clinic_bytes: bytes, tmp_path: Path) -> str:
    """A copy of the clinic for one test: made once, as making one takes longer than many tests."""
    path = tmp_path / "clinic.duckdb"
    path.write_bytes(clinic_bytes)
    return str(path)


@pytest.fixture
def curator(clinic_file: str, tmp_path: Path) -> Iterator[duckdp.Curator]:
    """A curator of the clinic: visits protected by patient, a budget of 20, half of it granted to ana."""
    with duckdp.open(clinic_file, ledger=str(tmp_path / "clinic.ledger")) as owner:
        owner.protect(
            "visits",
            unit_key="patient_id",
            max_rows=3,
            row_cap=10_000,
            expected_rows=500,
            bounds={"age": (0, 110), "cost": (0, 5000)},
            domains={"sex": ["F", "M"]},
            columns=["name"],
        )
        owner.budget(epsilon=20, delta="1e-5")
        owner.grant("ana", epsilon=10, delta="1e-6")
        yield owner

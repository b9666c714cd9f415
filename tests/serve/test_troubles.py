"""Around a server that runs: a second one on its ledger, a source that changes, a disk that is full or read-only."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import psycopg
import pytest

import duckdp
from duckdp.ledger import Ledger
from duckdp.serve.serving import users_beside
from tests.serve.conftest import PASSWORD, Served, start

EPSILON = " options='-c dp.epsilon=0.125'"
ASKED = "SELECT count(*) AS n FROM visits WHERE age > {}"


def write_rows(path: Path, rows: int) -> None:
    duckdb.sql(f"COPY (SELECT i % 200 AS patient_id, 20 + i % 60 AS age FROM range({rows}) AS t(i)) TO '{path}'")


def make_files(folder: Path, ledgers: Path) -> tuple[str, str]:
    """Visits as Parquet, which several servers can read at once, and a ledger somewhere else."""
    source, ledger = folder / "visits.parquet", str(ledgers / "visits.ledger")
    write_rows(source, 500)
    with duckdp.open(str(source), ledger=ledger) as owner:
        owner.protect("visits", unit_key="patient_id", max_rows=3, row_cap=10_000, bounds={"age": (0, 110)})
        owner.budget(epsilon=1000)
        owner.grant("ana", epsilon=400)
    users_beside(ledger).add("ana", PASSWORD)
    return str(source), ledger


def ask(con: psycopg.Connection, age: int) -> int:
    return int(con.execute(ASKED.format(age)).fetchall()[0][0])


@pytest.mark.slow
def test_two_servers_share_a_ledger_and_a_change_stops_both(tmp_path: Path) -> None:
    """Charges of both add up, an answer bought at one is free at the other; a changed source is C104 at both."""
    source, ledger = make_files(tmp_path, tmp_path)
    one, two = start(source, ledger, "--grid", "0"), start(source, ledger, "--grid", "0")
    try:
        with (
            psycopg.connect(one.dsn() + EPSILON, autocommit=True) as first,
            psycopg.connect(two.dsn() + EPSILON, autocommit=True) as second,
        ):
            bought = [ask(first, 30), ask(second, 40)]
            assert [ask(second, 30), ask(first, 40)] == bought
            for con in (first, second):
                assert con.execute("SELECT spent FROM dp_budget").fetchall() == [("epsilon=0.25",)]
            write_rows(Path(source), 600)
            for con in (first, second):
                with pytest.raises(psycopg.Error, match="C104"):
                    ask(con, 50)
                assert con.execute("SELECT spent FROM dp_budget").fetchall() == [("epsilon=0.25",)]
    finally:
        codes = [one.stop(), two.stop()]
    assert codes == [0, 0]


# ---- a disk of its own ----------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB; making one is root's."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def served_on(tmp_path: Path, disk: Path) -> Served:
    return start(*make_files(tmp_path, disk), "--grid", "0")


@pytest.mark.slow
def test_a_full_disk_answers_nothing_new(tmp_path: Path, disk: Path) -> None:
    """What cannot be charged is refused by a code, what was bought is given; with room again, the server goes on."""
    server = served_on(tmp_path, disk)
    try:
        with psycopg.connect(server.dsn() + EPSILON, autocommit=True) as con:
            bought = ask(con, 30)
            filler = disk / "filler"
            with open(filler, "wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
                while True:
                    file.write(b"x" * 4096)
            refused = answered = 0
            for age in range(31, 60):
                try:
                    ask(con, age)
                    answered += 1
                except psycopg.Error as error:
                    assert "B2" in str(error), error
                    refused += 1
            assert refused and ask(con, 30) == bought
            filler.unlink()
            assert isinstance(ask(con, 61), int)
    finally:
        assert server.stop() == 0
    _holds(server, answered + 2)


@pytest.mark.slow
def test_a_read_only_disk_is_told_at_the_start(tmp_path: Path, disk: Path) -> None:
    """A server that could not charge does not begin; with a disk that can be written to, it does."""
    source, ledger = make_files(tmp_path, disk)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    command = [sys.executable, "-m", "duckdp", "serve", source, "--ledger", ledger, "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and re.match(r"B2\d\d: ", done.stderr) and "Traceback" not in done.stderr, done.stderr
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    server = start(source, ledger, "--grid", "0")
    try:
        with psycopg.connect(server.dsn() + EPSILON, autocommit=True) as con:
            assert isinstance(ask(con, 30), int)
    finally:
        assert server.stop() == 0
    _holds(server, 1)


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[Path]:
    """A file system of ext4, which turns read-only when an error is found in it, whoever writes there."""
    image, place = tmp_path / "image", tmp_path / "failing"
    place.mkdir()
    with open(image, "wb") as file:
        file.truncate(16 * 2**20)
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", image], check=True)
    _mount(image, place)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def _mount(image: Path, place: Path) -> None:
    subprocess.run(["mount", "-o", "loop,errors=remount-ro", image, place], check=True)


def _fail(place: Path) -> None:
    device = subprocess.run(["findmnt", "-no", "SOURCE", place], capture_output=True, text=True, check=True).stdout
    Path(f"/sys/fs/ext4/{Path(device.strip()).name}/trigger_fs_error").write_text("a test")
    with pytest.raises(OSError, match="Read-only"):
        (place / "another").write_text("x")


@pytest.mark.slow
def test_a_disk_that_turns_read_only_while_serving_answers_nothing_new(tmp_path: Path, failing: Path) -> None:
    """What cannot be charged is refused by a code, what was bought is given; with the disk mended, all is there."""
    server = served_on(tmp_path, failing)
    try:
        with psycopg.connect(server.dsn() + EPSILON, autocommit=True) as con:
            bought = [ask(con, 30), ask(con, 31)]
            _fail(failing)
            for age in range(32, 42):
                with pytest.raises(psycopg.Error, match=r"B2\d\d: "):
                    ask(con, age)
            assert [ask(con, 30), ask(con, 31)] == bought
            with psycopg.connect(server.dsn() + EPSILON, autocommit=True) as later:
                assert ask(later, 30) == bought[0]
                with pytest.raises(psycopg.Error, match=r"B2\d\d: "):
                    ask(later, 50)
    finally:
        assert server.stop() == 0
    subprocess.run(["umount", failing], check=True)
    subprocess.run(["e2fsck", "-fy", tmp_path / "image"], check=False, capture_output=True)  # 1: it mended something
    _mount(tmp_path / "image", failing)
    with Ledger.open(server.ledger, create=False) as ledger:
        ledger.verify()
        assert [row.state for row in ledger.charges()] == ["released"] * 2  # nothing that was refused was charged
    again = start(server.source, server.ledger, "--grid", "0")
    try:
        with psycopg.connect(again.dsn() + EPSILON, autocommit=True) as con:
            assert ask(con, 30) == bought[0] and isinstance(ask(con, 60), int)
    finally:
        assert again.stop() == 0
    _holds(again, 3)


def _holds(server: Served, least: int) -> None:
    """The ledger opens, its totals replay, and each answer that came has its charge."""
    with_ledger = Ledger.open(server.ledger, create=False)
    try:
        with_ledger.verify()
        released = [row for row in with_ledger.charges() if row.state == "released"]
        assert len(released) >= least
    finally:
        with_ledger.close()

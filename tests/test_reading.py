"""Data are read in full when they are new: once, with progress, until somebody stops it."""

from __future__ import annotations

import _thread
import os
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.errors import CatalogError
from duckdp.ledger import Ledger
from duckdp.vault.engine import Engine


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each reading in full."""
    found: list[int] = []
    honest = Engine._read
    monkeypatch.setattr(Engine, "_read", lambda *given: (found.append(1), honest(*given))[1])
    return found


def parquet(folder: Path, rows: int = 100, name: str = "t.parquet") -> str:
    path = str(folder / name)
    with duckdb.connect() as con:
        con.execute(f"COPY (SELECT i, i % 3 AS g FROM range({rows}) AS r(i)) TO '{path}'")
    return path


def database(folder: Path, rows: int = 100) -> str:
    path = folder / "t.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as con:
        con.execute(f"CREATE TABLE t AS SELECT i, i % 3 AS g FROM range({rows}) AS r(i)")
    return str(path)


@pytest.mark.parametrize("kind", ["parquet", "database"])
def test_files_are_read_once_for_each_version(kind: str, tmp_path: Path, readings: list[int]) -> None:
    make = parquet if kind == "parquet" else database
    ledger = tmp_path / "t.ledger"
    for _ in range(3):
        duckdp.open(
            make(tmp_path) if not readings else str(tmp_path / f"t.{'duckdb' if kind == 'database' else kind}"),
            ledger=ledger,
        ).close()
    assert len(readings) == 1
    with duckdp.open(make(tmp_path, 200), ledger=ledger) as curator:
        assert len(readings) == 1  # nothing is answered before refresh
        curator.refresh(reason="more")
        assert len(readings) == 2
        curator.refresh(reason="again")
        assert len(readings) == 3
    duckdp.open(str(tmp_path / f"t.{'duckdb' if kind == 'database' else kind}"), ledger=ledger).close()
    assert len(readings) == 3
    Ledger.open(ledger).close()  # its history is whole


def test_another_engine_or_an_older_ledger_reads_again(
    tmp_path: Path, readings: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, ledger = parquet(tmp_path), tmp_path / "t.ledger"
    with monkeypatch.context() as older:  # as ledgers were before sources were read
        older.setattr("duckdp.vault.accepting._mark", lambda *_: None)
        duckdp.open(path, ledger=ledger).close()
    duckdp.open(path, ledger=ledger).close()
    duckdp.open(path, ledger=ledger).close()
    assert len(readings) == 2
    monkeypatch.setattr("duckdp.vault.decoding._RULES", "0")
    with duckdp.open(path, ledger=ledger) as curator:
        assert len(readings) == 3
        assert curator.ledger.state().data_version == 1  # what was stored stays free


def test_copies_are_read_each_time(tmp_path: Path, readings: list[int]) -> None:
    path = database(tmp_path)
    for _ in range(2):
        duckdp.open({"t": pa.table({"i": [1, 2]})}, ledger=tmp_path / "a.ledger").close()
        duckdp.open(path, ledger=tmp_path / "b.ledger", snapshot=True).close()
    assert len(readings) == 4


def test_reading_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duckdp.process.aside._LOOK", 0.0)
    told: list[tuple[str, float]] = []
    path = parquet(tmp_path, 300_000)
    with duckdp.open(path, ledger=tmp_path / "l", progress=lambda *given: told.append(given)) as curator:
        assert told
        assert all(stage == "reading the source" and 0 <= share <= 1 for stage, share in told)
        told.clear()
        curator.refresh(reason="again")
        assert told


def test_what_progress_raises_ends_the_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duckdp.process.aside._LOOK", 0.0)

    def enough(stage: str, share: float) -> None:
        raise TimeoutError(f"{stage} {share}")

    path = parquet(tmp_path, 300_000)
    with pytest.raises(TimeoutError):
        duckdp.open(path, ledger=tmp_path / "l", progress=enough)
    assert not os.path.exists(tmp_path / "l")
    duckdp.open(path, ledger=tmp_path / "l").close()


def test_ctrl_c_ends_the_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken twin: the engine itself looks for Ctrl-C so seldom that this statement runs to its end."""
    monkeypatch.setattr(
        "duckdp.vault.decoding.probes", lambda c: [f"list_sum(list_transform(range(100000), lambda x: x + {c.name}))"]
    )
    path = parquet(tmp_path, 100_000)  # hours
    pressed = []

    def press(*_: object) -> None:  # while the statement runs: elsewhere an interrupt may meet another statement's end
        if not pressed:
            pressed.append(True)
            _thread.interrupt_main()

    with pytest.raises(KeyboardInterrupt):
        duckdp.open(path, ledger=tmp_path / "l", progress=press)
    assert pressed
    assert not os.path.exists(tmp_path / "l")


def test_a_file_renamed_over_the_source_is_noticed(tmp_path: Path) -> None:
    """Size and time alike: before, its rows were read and its bad ones failed a paid read."""
    path, other = parquet(tmp_path), parquet(tmp_path, 100, "u.parquet")
    with duckdp.open(path, ledger=tmp_path / "l") as curator:
        curator.protect("t", row_cap=1000)
        curator.budget(epsilon=10)
        curator.grant("ana", epsilon=10)
        status = os.stat(path)
        os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.replace(other, path)
        with pytest.raises(CatalogError, match="C104"):
            curator.session("ana").noisy_count("t", epsilon=1)
        assert not curator.ledger.charges()


def test_a_source_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet(tmp_path)
    monkeypatch.setattr("duckdp.vault.engine.read_in_full", lambda *_: parquet(tmp_path, 200))
    with pytest.raises(CatalogError, match="C104"):
        duckdp.open(path, ledger=tmp_path / "l")


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    """Before, the second took the place of the first without a word."""
    (tmp_path / "a").mkdir()
    files = [parquet(tmp_path), parquet(tmp_path / "a")]
    with pytest.raises(CatalogError, match="C108"):
        duckdp.open(files, ledger=tmp_path / "l")
    duckdp.open({"t": files[0], "u": files[1]}, ledger=tmp_path / "l").close()


def test_what_can_be_read_only_once_is_no_empty_table_at_refresh(tmp_path: Path) -> None:
    reader = pa.table({"i": [1, 2, 3]}).to_reader()
    with duckdp.open({"t": reader}, ledger=tmp_path / "l") as curator:
        with pytest.raises(CatalogError, match="C108"):
            curator.refresh(reason="again")
        with pytest.raises(CatalogError, match="C104"):
            curator.data.require_current()

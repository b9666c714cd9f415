"""However rows are stored, a bad one is refused before any charge, or changes nothing in whether reads succeed."""

from __future__ import annotations

import gc
import traceback
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

import duckdp
from duckdp.errors import CatalogError, DuckDPError
from tests.adversary import hostile

REFUSALS = {"C105", "C108"}  # constant texts, at the opening or at protect
# what each shield alone holds back: sources over which a paid read fails without it
WITHOUT_READING = (
    "parquet_text_not_utf8",
    "parquet_text_not_utf8_in_a_dictionary",
    "parquet_unit_not_utf8",
    "parquet_milliseconds_overflow",
    "parquet_row_groups_cut_out",
    "file_with_a_damaged_block",
)
WITHOUT_SCHEMAS = ("parquet_other_types_in_the_second_file", "parquet_other_text_in_the_second_file")
WITHOUT_DOUBT = ("parquet_wrong_maximum", "parquet_wrong_maximum_of_units")
WITHOUT_STORED = ("file_with_a_generated_column", "file_with_a_column_made_by_a_macro")


def said(error: BaseException) -> str:
    """All that the error says and was made from; not the locals of its frames, where the owner's own frame stands."""
    parts, queue, seen = [], [error], set()
    while queue:
        one = queue.pop()
        if id(one) not in seen:
            seen.add(id(one))
            parts += [*traceback.format_exception(one, chain=False), repr(one), repr(one.args), repr(vars(one))]
            queue += [e for e in (one.__cause__, one.__context__) if e is not None]
    return "\n".join(parts)


def require_held(name: str, folder: Path, about: tuple[str, ...]) -> list[DuckDPError]:
    errors = hostile.outcome(hostile.BUILDERS[name](folder), folder, about=about)
    for error in errors:
        assert error.code in REFUSALS, error
        assert hostile.SECRET not in said(error), error
        assert len(errors) == 1
    return errors


@pytest.mark.parametrize("name", hostile.BUILDERS)
def test_no_paid_read_fails_for_a_bad_row(name: str, tmp_path: Path) -> None:
    require_held(name, tmp_path, hostile.ABOUT[name])
    gc.collect()


@pytest.mark.slow
@pytest.mark.parametrize("name", hostile.BUILDERS)
def test_no_paid_read_of_any_column_fails(name: str, tmp_path: Path) -> None:
    require_held(name, tmp_path, ())


def _broken(monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], folder: Path) -> None:
    """Each of them gives E101 after a charge now: the tests above would fail."""
    for name in names:
        (folder / name).mkdir()
        errors = hostile.outcome(hostile.BUILDERS[name](folder / name), folder / name, about=hostile.ABOUT[name])
        assert any(e.code == "E101" and getattr(e, "charge", None) for e in errors), (name, errors)
    monkeypatch.undo()


def test_broken_twin_that_reads_nothing_at_the_opening(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("duckdp.vault.engine.read_in_full", lambda *_: None)
    _broken(monkeypatch, WITHOUT_READING, tmp_path)


def test_broken_twin_that_lets_schemas_differ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("duckdp.vault.source.require_same_columns", lambda *_: None)
    monkeypatch.setattr("duckdp.vault.engine.read_in_full", lambda *_: None)
    _broken(monkeypatch, WITHOUT_SCHEMAS, tmp_path)


def test_broken_twin_that_believes_statistics(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("duckdp.vault.source.BELIEVING", ())
    _broken(monkeypatch, WITHOUT_DOUBT, tmp_path)


def test_broken_twin_that_computes_columns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("duckdp.vault.declare.require_stored", lambda *_: None)
    monkeypatch.setattr("duckdp.vault.dataset.require_stored", lambda *_: None)
    _broken(monkeypatch, WITHOUT_STORED, tmp_path)


@pytest.mark.parametrize("doubt", [True, False])
def test_wrong_statistics_drop_no_rows(doubt: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken twin, without doubt: predicates over raw columns skip row groups."""
    path = hostile.BUILDERS["parquet_wrong_maximum"](tmp_path)
    if not doubt:
        monkeypatch.setattr("duckdp.vault.source.BELIEVING", ())
    with duckdp.open(path, ledger=tmp_path / "ledger") as curator:
        monkeypatch.undo()
        con = curator.engine.schema_cursor()
        for condition in ("big > 50", "big = 60", "CAST(big AS DOUBLE) > 50"):
            kept = con.execute(f"SELECT count(*) FROM src.main.t WHERE {condition}").fetchone()
            values = pq.read_table(path["t"])["big"].to_pylist()  # type: ignore[index]
            truth = sum(v == 60 if "=" in condition else v > 50 for v in values)
            assert (kept == (truth,)) is doubt, condition


def test_a_source_is_refused_at_refresh_and_accepted_when_it_is_mended(tmp_path: Path) -> None:
    path = hostile.write(tmp_path, hostile.good())
    with duckdp.open({"t": path}, ledger=tmp_path / "ledger") as curator:
        hostile.declare(curator, "t")
        hostile.BUILDERS["parquet_text_not_utf8"](tmp_path)
        for _ in range(2):
            with pytest.raises(CatalogError) as caught:
                curator.refresh(reason="new rows")
            assert caught.value.code == "C108"
            assert hostile.SECRET not in said(caught.value)
            with pytest.raises(CatalogError, match="C104"):
                curator.session("ana").noisy_count("t", epsilon=1)
        hostile.write(tmp_path, hostile.good(100))
        assert curator.refresh(reason="mended") == 2
        assert curator.session("ana").noisy_count("t", epsilon=50).rows() == [(100,)]
        assert len(curator.ledger.charges()) == 1


def test_a_refused_source_makes_no_ledger_and_its_file_is_free(tmp_path: Path) -> None:
    path = hostile.BUILDERS["file_with_a_damaged_block"](tmp_path)
    with pytest.raises(CatalogError, match="C108"):
        duckdp.open(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.duckdb"]
    duckdb.connect(path).close()  # type: ignore[arg-type]


def test_a_failing_snapshot_names_the_table_and_nothing_else(tmp_path: Path) -> None:
    path = hostile.BUILDERS["file_with_a_generated_column"](tmp_path)
    with pytest.raises(CatalogError) as caught:
        duckdp.open(path, snapshot=True)
    assert caught.value.code == "C108"
    assert '"t"' in str(caught.value)
    assert hostile.SECRET not in said(caught.value)


def test_a_key_that_does_not_decode_is_refused(tmp_path: Path) -> None:
    """A UUID is read as a unit's key and as nothing else: by the opening too."""
    file = tmp_path / "t.parquet"
    with duckdb.connect() as con:
        rows = "SELECT uuid() AS pid, CAST(i AS INTEGER) AS x FROM range(3000) AS r(i)"
        con.execute(f"COPY ({rows}) TO '{file}' (FORMAT parquet, COMPRESSION zstd)")
        found = con.execute(f"SELECT data_page_offset FROM parquet_metadata('{file}') WHERE path_in_schema = 'pid'")
        (offset,) = found.fetchone() or (0,)
    with duckdp.open({"t": str(file)}, ledger=tmp_path / "whole") as curator:
        curator.protect("t", unit_key="pid", max_rows=1, row_cap=10_000)
    content = bytearray(file.read_bytes())
    for place in range(offset + 10, offset + 60):
        content[place] ^= 0x55
    file.write_bytes(bytes(content))
    with pytest.raises(CatalogError, match=r'^C108: column "pid"'):
        duckdp.open({"t": str(file)}, ledger=tmp_path / "ledger")

"""What a declaration rests on is required of changed data too: nothing is answered where it no longer holds.

A file is changed between two openings: tables become views, which would run where private rows are; keys get other
types, whose casts make one of two, or fail for one row; keys are compared by a collation.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

import duckdp
from duckdp.errors import CatalogError, ExecutionError, ParameterError

MADE = """
CREATE TABLE visits AS SELECT {key} AS vid, {unit} AS pid FROM range(100) t(i);
CREATE TABLE labs AS SELECT {of} AS vid, {own} AS lid, i % 9 AS level FROM range(500) t(i);
CREATE TABLE notes AS SELECT {note} AS lid FROM range(900) t(i);
CREATE TABLE towns AS SELECT i AS level FROM range(5) t(i);
"""
NUMBERS = {"key": "i::INT", "unit": "(i // 2)::INT", "of": "(i % 100)::INT", "own": "i::INT", "note": "(i % 500)::INT"}
TEXTS = {name: f"'v' || ({value})" for name, value in NUMBERS.items()}
TABLES = ("visits", "labs", "notes")


FOLDED = "vid VARCHAR COLLATE NOCASE, pid VARCHAR"


def _again(table: str, columns: str, select: str) -> list[str]:
    """A table made anew with other columns."""
    return [
        f"CREATE TABLE made ({columns})",
        f"INSERT INTO made SELECT {select} FROM {table}",
        f"DROP TABLE {table}",
        f"ALTER TABLE made RENAME TO {table}",
    ]


def _view(table: str, select: str) -> list[str]:
    return [f"ALTER TABLE {table} RENAME TO before", f"CREATE VIEW {table} AS SELECT {select} FROM before"]


CHANGES: dict[str, tuple[str, list[str], str]] = {  # which world, what is done to it, the error's code
    "a table is a view with a window": ("numbers", _view("labs", "vid, lid, count(*) OVER () AS level"), "C103"),
    "a parent is a view with a window": ("numbers", _view("visits", "vid, (count(*) OVER ())::INT AS pid"), "C103"),
    "a public table is a view of private rows": (
        "numbers",
        ["DROP TABLE towns", "CREATE VIEW towns AS SELECT count(*) AS level FROM labs"],
        "C103",
    ),
    "two keys are one by a cast": (
        "numbers",
        ["ALTER TABLE visits ALTER vid TYPE VARCHAR", "INSERT INTO visits SELECT '0' || i, 900 FROM range(50) t(i)"],
        "C103",
    ),
    "a cast of a key fails": (
        "numbers",
        ["ALTER TABLE visits ALTER vid TYPE VARCHAR", "INSERT INTO visits VALUES ('abc', 9)"],
        "C103",
    ),
    "a key of the middle has another type": ("numbers", ["ALTER TABLE labs ALTER lid TYPE VARCHAR"], "C103"),
    "the last key has another type": ("numbers", ["ALTER TABLE notes ALTER lid TYPE BIGINT"], "C103"),
    "a unit has another type": ("numbers", ["ALTER TABLE visits ALTER pid TYPE BIGINT"], "C103"),
    "a key of a child is collated": ("texts", _again("notes", "lid VARCHAR COLLATE NOCASE", "lid"), "C105"),
    "a key of a parent is collated": (
        "texts",
        _again("visits", FOLDED, "*"),
        "C105",
    ),
    "a unit is collated": ("texts", _again("visits", "vid VARCHAR, pid VARCHAR COLLATE NOCASE", "*"), "C105"),
}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with data that are declared: "numbers" and "texts", by what their keys are."""
    found = {}
    for name, how in (("numbers", NUMBERS), ("texts", TEXTS)):
        folder = found[name] = tmp_path_factory.mktemp(name)
        with duckdb.connect(str(folder / "x.duckdb")) as con:
            con.execute(MADE.format(**how))
        with _opened(folder) as curator:
            curator.protect("visits", unit_key="pid", unique=["vid"], row_cap=1000, max_rows=10)
            curator.link(
                "labs", "vid", to="visits", unique=["lid"], row_cap=1000, max_rows=50, bounds={"level": (0, 9)}
            )
            curator.link("notes", "lid", to="labs", row_cap=1000, max_rows=50)
            curator.publish("towns")
            curator.budget(epsilon=100)
            curator.grant("ann", epsilon=100)
    return found


def _opened(folder: Path) -> duckdp.Curator:
    return duckdp.open(str(folder / "x.duckdb"), ledger=folder / "l.db")


def _changed(world: Path, folder: Path, statements: list[str]) -> None:
    """A copy of a world, with other data."""
    shutil.copytree(world, folder)
    with duckdb.connect(str(folder / "x.duckdb")) as con:
        for statement in statements:
            con.execute(statement)


def _codes(curator: duckdp.Curator) -> set[str]:
    """How questions about all tables end."""
    found = set()
    for table in TABLES:
        try:
            curator.session("ann").sql(f"SELECT count(*) FROM {table}", epsilon=1)
            found.add("answered")
        except (CatalogError, ExecutionError) as error:
            found.add(error.code)
    return found


@pytest.mark.parametrize("name", CHANGES)
def test_a_refresh_requires_what_the_declarations_rest_on(name: str, worlds: dict[str, Path], tmp_path: Path) -> None:
    world, statements, code = CHANGES[name]
    _changed(worlds[world], tmp_path / "w", statements)
    with _opened(tmp_path / "w") as curator:
        with pytest.raises(CatalogError) as caught:
            curator.refresh(reason="changed")
        assert caught.value.code == code
        assert _codes(curator) == {"C104"}
        assert not curator.ledger.charges()


def test_a_refresh_of_more_rows_is_answered(worlds: dict[str, Path], tmp_path: Path) -> None:
    _changed(worlds["texts"], tmp_path / "w", ["INSERT INTO visits VALUES ('v777', 'v3')"])
    with _opened(tmp_path / "w") as curator:
        curator.refresh(reason="more rows")
        assert _codes(curator) == {"answered"}


@pytest.mark.parametrize("reason", ["", " ", "x" * 1001, "\ud800"])
def test_a_refresh_without_a_reason_changes_nothing(reason: str, worlds: dict[str, Path], tmp_path: Path) -> None:
    """It ended all answers: the rows that are open were forgotten before the reason was looked at."""
    shutil.copytree(worlds["numbers"], tmp_path / "w")
    with _opened(tmp_path / "w") as curator:
        with pytest.raises(ParameterError):
            curator.refresh(reason=reason)
        assert _codes(curator) == {"answered"}


def test_broken_twin_that_looks_at_the_columns_alone(
    worlds: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Questions over a view, and over keys of which two are one, are answered then."""
    for module in ("declare", "publishing", "linking"):
        monkeypatch.setattr(f"duckdp.vault.{module}.require_rows", lambda *_: None)
    for module in ("declare", "linking"):
        monkeypatch.setattr(f"duckdp.vault.{module}.require_keys", lambda *_: None)
    for name in ("a table is a view with a window", "a key of a child is collated"):
        world, statements, _ = CHANGES[name]
        _changed(worlds[world], tmp_path / name, statements)
        with _opened(tmp_path / name) as curator:
            curator.refresh(reason="changed")
            assert "answered" in _codes(curator)


def changed_while_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> duckdp.Curator:
    """A curator of two Parquet files, the rows of one of which are moved to the other in the middle of each read."""
    for name in "ab":
        duckdb.sql("SELECT i::INT AS x FROM range(100) AS r(i)").write_parquet(str(tmp_path / f"{name}.parquet"))
    curator = duckdp.open({"t": str(tmp_path / "*.parquet")}, ledger=str(tmp_path / "t.ledger"))
    curator.protect("t", row_cap=1000, bounds={"x": (0, 100)})
    curator.budget(epsilon=50)
    curator.grant("ana", epsilon=50)
    execute = curator.engine._parsed.execute

    def moving(*given: object) -> object:
        result = execute(*given)  # type: ignore[arg-type]
        shutil.copy(tmp_path / "a.parquet", tmp_path / "b.parquet")
        return result

    monkeypatch.setattr(curator.engine._parsed, "execute", moving)
    return curator


def test_a_source_that_changes_while_it_is_read_gives_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that is moved from file to file meanwhile may be read twice; the charge stays."""
    with changed_while_read(tmp_path, monkeypatch) as curator:
        ana = curator.session("ana")
        with pytest.raises(ExecutionError, match=r"C104: .* Charge 1 stays spent\."):
            ana.sql("SELECT sum(x) FROM t", epsilon=1)
        assert [charge.state for charge in curator.ledger.charges()] == ["failed"]
        monkeypatch.undo()
        with pytest.raises(CatalogError, match="C104"):  # before a charge
            ana.sql("SELECT sum(x) FROM t", epsilon=1)
        curator.refresh(reason="moved")
        assert ana.sql("SELECT sum(x) FROM t", epsilon=1).rows()


def test_who_looks_before_the_charge_alone_reads_it_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin."""
    with changed_while_read(tmp_path, monkeypatch) as curator:
        monkeypatch.setattr(curator.engine, "_require_unchanged", lambda *_: None)
        assert curator.session("ana").sql("SELECT sum(x) FROM t", epsilon=1).rows()

"""Public tables from the owner's promise to an answer: declared, kept, shown, read again, and never both kinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

import duckdp
from duckdp.cli import main
from duckdp.errors import CatalogError, QueryError

COUNT = "SELECT w.name, count(*) AS n FROM visits v JOIN wards w ON v.ward = w.ward GROUP BY w.name"


def _fill(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE visits AS SELECT (i % 50)::INT AS pid, (i % 7)::INT AS ward FROM range(500) t(i)")
    con.execute("CREATE TABLE wards AS SELECT i::INT AS ward, 'w' || i AS name FROM range(8) t(i)")
    con.execute("CREATE TABLE odd AS SELECT [1] AS list, 'inf'::DOUBLE AS x, 'z' AS z, NULL::INT AS none")
    con.execute("CREATE VIEW few AS SELECT ward, name FROM wards WHERE ward < 3")
    con.execute("CREATE VIEW ours AS SELECT ward FROM visits")


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = str(tmp_path / "c.duckdb")
    with duckdb.connect(path) as con:
        _fill(con)
    return path


@pytest.fixture
def owner(data: str, tmp_path: Path) -> Iterator[duckdp.Curator]:
    with duckdp.open(data, ledger=tmp_path / "l.db", snapshot=True) as curator:
        curator.protect("visits", row_cap=1000, unit_key="pid", max_rows=20, bounds={"ward": (0, 9)})
        curator.publish("wards")
        curator.budget(epsilon=1000)
        curator.grant("ann", epsilon=1000)
        yield curator


def test_the_way_of_a_public_table(owner: duckdp.Curator, data: str, tmp_path: Path) -> None:
    found = owner.session("ann").sql(COUNT, epsilon=100).rows()
    assert [name for name, _ in found] == [f"w{i}" for i in range(8)]  # w7 too, where nobody was
    assert "public wards" in str(owner.session("ann").explain(COUNT, epsilon=1))
    assert list(owner.tables) == ["visits"] and list(owner.published) == ["wards"]
    shown = owner.connect("ann")
    assert ("wards", "public") in shown.execute('SELECT DISTINCT "table", unit FROM dp_catalog').fetchall()
    with pytest.raises(QueryError, match="nothing to protect"):
        owner.session("ann").sql("SELECT count(*) FROM wards", epsilon=1)
    with pytest.raises(CatalogError, match="not protected"):
        owner.table("wards")
    owner.close()
    with duckdp.open(data, ledger=tmp_path / "l.db", snapshot=True) as again:
        assert again.published["wards"].public == again.data.published["wards"].public
        free = again.session("ann").sql(COUNT, epsilon=100)
        assert free.rows() == found and free.cost == "nothing"
        again.unpublish("wards", reason="old")
        with pytest.raises(QueryError, match="not a protected table"):
            again.session("ann").sql(COUNT, epsilon=1)


def test_what_is_known_of_rows_is_of_todays_rows(owner: duckdp.Curator, data: str) -> None:
    """A refresh reads them again: a row that is there twice now counts twice."""
    before = owner.session("ann").explain(COUNT, epsilon=1)
    with duckdb.connect(data) as con:
        con.execute("INSERT INTO wards VALUES (3, 'other')")
    owner.refresh(reason="another name")
    known = owner.published["wards"].public
    assert known is not None and known.most_alike(["ward"]) == 2 and known.most_alike(["name"]) == 1
    assert str(owner.session("ann").explain(COUNT, epsilon=1)) != str(before)
    stale = owner.data._known["wards"]
    object.__setattr__(stale.public, "source", "of before")  # as if the process had ended within the refresh
    owner.data._known["wards"] = stale
    with pytest.raises(CatalogError) as caught:
        owner.session("ann").sql(COUNT, epsilon=1)
    assert caught.value.code == "C104"


@pytest.mark.parametrize(
    ("name", "given", "code"),
    [
        ("visits", {}, "C111"),
        ("ours", {}, "C111"),
        ("nothing", {}, "C101"),
        ("wards", {"columns": ["nothing"]}, "C102"),
        ("odd", {"columns": ["list"]}, "C105"),
    ],
)
def test_what_cannot_be_public(owner: duckdp.Curator, name: str, given: dict[str, list[str]], code: str) -> None:
    with pytest.raises(CatalogError) as caught:
        owner.publish(name, **given)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_nobodys_rows_stay_nobodys(owner: duckdp.Curator) -> None:
    """A table is one kind or the other: by its name, by its rows, and by what was once charged."""
    for refused in (
        lambda: owner.protect("wards", row_cap=10, unit_key="ward", unit="pid", max_rows=1),
        lambda: owner.protect("few", row_cap=10, unit_key="ward", unit="pid", max_rows=1),
        lambda: owner.unprotect("wards", reason="r"),
        lambda: owner.unpublish("visits", reason="r"),
    ):
        with pytest.raises(CatalogError) as caught:
            refused()
        assert caught.value.code in ("C111", "C101")
    owner.session("ann").sql("SELECT count(*) FROM visits", epsilon=1)
    owner.unprotect("visits", reason="r")
    with pytest.raises(CatalogError) as caught:
        owner.publish("visits")
    assert caught.value.code == "C109"


def test_columns_of_public_tables(owner: duckdp.Curator) -> None:
    """Values that are none, or beyond all numbers, have neither range nor domain; a view is its rows."""
    odd = owner.publish("odd")
    assert [c.name for c in odd.columns] == ["x", "z", "none"]
    assert all(c.lower is None for c in odd.columns) and odd.columns[1].domain == ("z",)
    assert odd.public is not None and odd.public.most_alike(["x"]) == 1
    few = owner.publish("few", columns=["name"])
    assert few.columns[0].domain == ("w0", "w1", "w2") and few.row_cap == 3


def test_public_tables_by_command(tmp_path: Path) -> None:
    file = str(tmp_path / "c.duckdb")
    with duckdb.connect(file) as con:
        con.execute("CREATE TABLE wards AS SELECT i::INT AS ward FROM range(3) t(i)")
    run = CliRunner().invoke
    made = run(main, ["publish", file, "wards"])
    assert made.exit_code == 0 and "its rows are no one's" in made.output
    assert "one of 0, 1, 2" in run(main, ["catalog", file]).output
    assert run(main, ["unpublish", file, "wards", "--reason", "done"]).exit_code == 0
    assert "wards" not in run(main, ["catalog", file]).output.replace("no table", "")

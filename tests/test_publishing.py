"""Public tables from the owner's promise to an answer: declared, kept, shown, read again, and never both kinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

import duckdp
from duckdp.cli import main
from duckdp.compiler.outer import public_rows
from duckdp.compiler.outer.apart import Apart
from duckdp.compiler.query import Query
from duckdp.errors import CatalogError, InternalError, QueryError
from duckdp.vault.public_values import public_values

COUNT = "SELECT w.name, count(*) AS n FROM visits v JOIN wards w ON v.ward = w.ward GROUP BY w.name"


def _fill(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE visits AS SELECT (i % 50)::INT AS pid, (i % 7)::INT AS ward FROM range(500) t(i)")
    con.execute("CREATE TABLE wards AS SELECT i::INT AS ward, 'w' || i AS name FROM range(8) t(i)")
    con.execute("CREATE TABLE odd AS SELECT [1] AS list, 'inf'::DOUBLE AS x, 'z' AS z, NULL::INT AS none")
    con.execute("CREATE VIEW few AS SELECT ward, name FROM wards WHERE ward < 3")
    con.execute(
        "CREATE TABLE kinds AS SELECT i::INT AS k, (i * 1.25)::DECIMAL(9,2) AS price, "
        "DATE '0001-01-01' + i::INT AS day, 'nan'::DOUBLE AS odd, i::HUGEINT * 10::HUGEINT ** 30 AS huge, "
        "CASE WHEN i = 1 THEN NULL ELSE repeat('x', 300) END AS text, TIMESTAMPTZ "
        "'2024-01-01 00:00:00+02' AS zoned, i > 1 AS flag, i::FLOAT / 3 AS f FROM range(3) t(i)"
    )
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


def test_keys_of_one_public_row_are_told_of_todays_rows(owner: duckdp.Curator, data: str) -> None:
    """A ward has one name: 8 groups, not 64; of a row more there is one more, and the question is another."""
    ann = owner.session("ann")
    text = "SELECT w.ward, w.name, count(*) AS n FROM visits v JOIN wards w ON v.ward = w.ward GROUP BY 1, 2"
    found = ann.sql(text, epsilon=100)
    assert [row[:2] for row in found.rows()] == [(i, f"w{i}") for i in range(8)]
    assert "(8 combinations of public wards)" in str(ann.explain(text, epsilon=1))
    over = ann.sql(f"SELECT avg(n), count(*) FROM ({text})", epsilon=100)
    assert over.cost == "nothing"  # the same release
    assert over.rows()[0][1] == 8 and abs(over.rows()[0][0] - 500 / 8) < 20
    assert "aggregated once more: 8 groups, empty ones included" in over.notes
    with duckdb.connect(data) as con:
        con.execute("INSERT INTO wards VALUES (3, 'other')")
    owner.refresh(reason="another name")
    again = ann.sql(text, epsilon=100)
    assert again.cost != "nothing"
    assert len(again.rows()) == 9 and (3, "other") in [row[:2] for row in again.rows()]
    kept = ann.sql(
        text.replace("FROM visits v JOIN wards w", "FROM wards w LEFT JOIN visits v").replace("*", "v.ward"), epsilon=50
    )
    assert [row[:2] for row in kept.rows()] == [row[:2] for row in again.rows()]


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


# ---- beside answers, and alone

PUBLIC_ALONE = [
    "SELECT * FROM wards ORDER BY ward",
    "FROM wards ORDER BY ALL LIMIT 3",
    "SELECT count(*), max(name) FROM wards WHERE ward > 2",
    "SELECT w.name FROM main.wards AS w WHERE w.ward IN (SELECT max(ward) FROM wards)",
    "SELECT x.b FROM wards AS x(a, b) WHERE a < 2 ORDER BY 1",
    "SELECT wards FROM wards WHERE ward = 1",
    "WITH w AS (SELECT ward // 2 AS half, name FROM wards) SELECT half, count(*) FROM w GROUP BY half ORDER BY half",
    "SELECT a.name, b.name FROM wards a JOIN wards b ON a.ward = b.ward + 1 ORDER BY 1",
    "SELECT name FROM wards EXCEPT SELECT name FROM wards WHERE ward > 0",
    "SELECT name, sum(ward) OVER (ORDER BY ward) FROM wards QUALIFY row_number() OVER (ORDER BY ward DESC) = 1",
    "SELECT price * 2, day, huge, f, flag, zoned::TIMESTAMP, text FROM kinds ORDER BY k",
    "SELECT ward FROM wards NATURAL JOIN wards AS w ORDER BY 1",
]


@pytest.mark.parametrize("text", PUBLIC_ALONE)
def test_public_rows_alone_are_as_they_stand(shared: duckdp.Curator, text: str) -> None:
    """DuckDB's own answer, types too, in every face; nothing is charged."""
    before = len(shared.ledger.charges())
    own = shared.data.engine.schema_cursor()
    own.execute("SET TimeZone = 'UTC'")
    own.execute(f'USE "{shared.published["wards"].relation[0]}".main')
    wanted = own.execute(text).fetchall()
    found = shared.session("ann").sql(text)
    assert found.rows() == wanted and found.cost == "nothing" and found.source == "public tables"
    assert shared.connect("ann").execute(f"FROM dp_query($$ {text} $$)").fetchall() == wanted
    assert shared.session("ann").explain(text).cost == "nothing"
    assert len(shared.ledger.charges()) == before


@pytest.mark.parametrize(
    "text",
    [
        "SELECT name, n FROM ({}) AS v JOIN wards ON v.ward = wards.ward ORDER BY name",
        "SELECT w.name, v.n FROM wards AS w, ({}) AS v WHERE v.ward = w.ward ORDER BY w.name",
        "WITH v AS ({}), w AS (SELECT * FROM wards) SELECT w.name, n FROM v JOIN w ON w.ward = v.ward ORDER BY 1",
        "SELECT (SELECT name FROM wards WHERE wards.ward = v.ward) AS name, n FROM ({}) AS v ORDER BY v.ward",
        "WITH w AS (SELECT * FROM wards) SELECT w.name, count(*) AS n FROM visits v JOIN w ON v.ward = w.ward "
        "WHERE w.ward < 7 GROUP BY w.name ORDER BY w.name",
    ],
)
def test_answers_are_joined_with_public_rows(shared: duckdp.Curator, text: str) -> None:
    asked = text.format("SELECT ward, count(*) AS n FROM visits WHERE ward < 7 GROUP BY ward")
    found = shared.session("ann").sql(asked, epsilon=90, delta="1e-6")
    names = [row[0] for row in found.rows() if row[1] > 30]
    assert names == [f"w{i}" for i in range(7)]
    assert all(abs(row[1] - 71) < 6 for row in found.rows() if row[1] > 30)  # about 71 rows, noise of scale 14 / 90
    if " JOIN wards" in text or "wards AS w" in text:
        assert found.columns[1].estimates is not None


def test_what_of_public_rows_crosses(shared: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only columns that are named; more than a statement may read is refused, and the way out is answered."""
    ann = shared.session("ann")
    for text, columns in (
        ("SELECT name FROM wards", 1),
        ("SELECT count(*) FROM wards", 1),
        ("SELECT * FROM wards", 2),
        ("SELECT name, (SELECT count(*) FROM wards) FROM wards", 1),
        ("SELECT COLUMNS('n.*') FROM wards", 2),
        ("SELECT w FROM wards AS w", 2),
        ("SELECT a FROM wards AS w(a)", 2),
    ):
        found = ann.desk.read_whole(text)
        assert isinstance(found, Apart) and [len(rows.columns) for rows in found.public] == [columns], text
    unread = ann.desk.read_whole(
        "WITH w AS (SELECT * FROM wards) SELECT 1 + count(*) FROM visits v JOIN w USING (ward)"
    )
    assert isinstance(unread, Query) or unread.public == ()
    monkeypatch.setattr(public_rows, "MOST_CELLS", 8)
    with pytest.raises(QueryError, match="Name fewer of their columns") as caught:
        ann.sql("SELECT * FROM wards -- too many")
    assert caught.value.code == "Q403"
    assert len(ann.sql("SELECT name FROM wards -- fewer").rows()) == 8


def test_what_cannot_be_read_is_refused_before_the_charge(
    shared: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, before = shared.session("ann"), len(shared.ledger.charges())
    monkeypatch.setattr("duckdp.vault.public_values.MOST_BYTES", 3)
    for text in (
        "SELECT n, name FROM (SELECT ward % 8 AS ward, count(*) AS n FROM visits GROUP BY 1) JOIN wards USING (ward)",
        "SELECT count(*) AS n, (SELECT min(name) FROM wards) AS name FROM (SELECT count(*) FROM visits)",
    ):
        with pytest.raises(CatalogError, match="C108"):
            ann.sql(text, epsilon=0.01)
    assert len(shared.ledger.charges()) == before


def test_no_private_row_comes_that_way(shared: duckdp.Curator) -> None:
    """Of a protected table nothing is read without a charge; beside public rows its rows are as private as before."""
    visits = shared.tables["visits"]
    with pytest.raises(InternalError):
        public_values(shared.data.engine, visits, visits.columns)
    for text in (
        "SELECT * FROM wards, visits",
        "SELECT ward FROM wards EXCEPT SELECT ward FROM visits",
        "SELECT name FROM wards WHERE ward IN (SELECT ward FROM visits)",
        "SELECT name FROM wards WHERE EXISTS (SELECT 1 FROM visits WHERE visits.ward = wards.ward)",
        "WITH wards AS (SELECT ward FROM visits) SELECT * FROM wards",
        "SELECT * FROM wards UNION ALL SELECT pid, 'x' FROM visits",
        "SELECT * FROM wards LEFT JOIN visits USING (ward)",
    ):
        with pytest.raises(QueryError) as caught:
            shared.session("ann").sql(text, epsilon=1, delta="1e-6")
        assert caught.value.code in ("Q204", "Q301"), text


def test_a_count_beside_each_public_row_is_a_release_by_its_key(shared: duckdp.Curator) -> None:
    """One value of private rows for each public one: their groups are released, and joined on the analyst's side."""
    ann, before = shared.session("ann"), len(shared.ledger.charges())
    text = "SELECT name, (SELECT count(*) FROM visits WHERE visits.ward = wards.ward) AS n FROM wards"
    found = ann.sql(text, epsilon="0.5")
    assert len(shared.ledger.charges()) == before + 1
    assert "key: ward" in str(ann.explain(text, epsilon="0.5"))
    names, counts = zip(*found.rows(), strict=True)
    assert sorted(names) == [f"w{i}" for i in range(8)]
    assert len(set(counts)) > 1


def test_public_rows_are_of_today(owner: duckdp.Curator) -> None:
    """Figures of another state of the source give nothing; what is published no more is unknown."""
    ann = owner.session("ann")
    assert len(ann.sql("FROM wards").rows()) == 8
    stale = owner.published["wards"]
    assert stale.public is not None
    object.__setattr__(stale.public, "source", "of before")
    with pytest.raises(CatalogError) as caught:
        ann.sql("SELECT name FROM wards")
    assert caught.value.code == "C104"
    owner.unpublish("wards", reason="a test")
    with pytest.raises(QueryError):
        ann.sql("SELECT name FROM wards")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    folder = tmp_path_factory.mktemp("shared")
    with duckdb.connect(str(folder / "c.duckdb")) as con:
        _fill(con)
    with duckdp.open(str(folder / "c.duckdb"), ledger=folder / "l.db", snapshot=True) as curator:
        curator.protect("visits", row_cap=1000, unit_key="pid", max_rows=2, max_groups=7, bounds={"ward": (0, 9)})
        curator.publish("wards")
        curator.publish("kinds")
        curator.budget(epsilon=100_000, delta="1e-2")
        curator.grant("ann", epsilon=100_000, delta="1e-2")
        yield curator

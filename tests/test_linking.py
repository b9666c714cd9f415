"""Links from the owner's declaration to an answer: compared with the rows, kept, changed with what they come from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

import duckdp
from duckdp.cli import main
from duckdp.errors import CatalogError, DuckDPError, QueryError

VISITS = {"row_cap": 1000, "unit_key": "pid", "max_rows": 10, "bounds": {"ward": (0, 8)}, "columns": ["vid"]}
LABS = {"row_cap": 2000, "max_rows": 50, "bounds": {"level": (0, 20)}}
FOUND = "SELECT count(*) AS n FROM labs l JOIN visits v ON v.vid = l.vid"


@pytest.fixture
def data() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("CREATE TABLE visits AS SELECT i::INT vid, (i % 50)::INT pid, (i % 7)::INT ward FROM range(200) t(i)")
    con.execute("CREATE TABLE labs AS SELECT i::INT lid, (i % 210)::INT vid, i % 9 AS level FROM range(1000) t(i)")
    con.execute("CREATE TABLE notes AS SELECT i::INT nid, i::BIGINT vid, i::INT pid FROM range(50) t(i)")
    con.execute(
        "CREATE TABLE keys AS SELECT 9007199254740992 + i AS big, i::INT pid, (i * 5)::INT AS far FROM range(3) t(i)"
    )
    return con


@pytest.fixture
def owner(data: duckdb.DuckDBPyConnection, tmp_path: Path) -> Iterator[duckdp.Curator]:
    with duckdp.open(data, ledger=tmp_path / "l.db") as curator:
        curator.protect("visits", unique=["vid"], **VISITS)
        curator.link("labs", "vid", to="visits", **LABS)
        curator.budget(epsilon=1000)
        curator.grant("ann", epsilon=1000)
        yield curator


def test_the_way_of_a_link(owner: duckdp.Curator, data: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    labs = owner.tables["labs"]
    assert str(labs.link) == "vid -> visits.vid" and labs.unit_key == "pid" and "linked" in str(labs)
    session = owner.session("ann")
    assert abs(session.sql(FOUND, epsilon=100).rows()[0][0] - 960) < 60  # orphans are no one's
    assert session.sql("SELECT count(DISTINCT pid) AS n FROM labs", epsilon=100).rows()[0][0] == 50
    owner.close()
    with duckdp.open(data, ledger=tmp_path / "l.db") as again:
        assert again.tables["labs"] == labs
        assert again.session("ann").sql(FOUND, epsilon=100).cost == "nothing"


def test_a_key_that_repeats_ends_all_answers(
    owner: duckdp.Curator, data: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """At a declaration, and at a refresh: nothing of a value is told, and nothing is answered until it is mended."""
    with pytest.raises(CatalogError, match="stands there twice") as caught:
        owner.amend("visits", unique=["vid", "ward"])
    assert caught.value.code == "C105"
    owner.close()
    data.execute("INSERT INTO visits VALUES (7, 49, 1)")
    with duckdp.open(data, ledger=tmp_path / "l.db") as again:
        with pytest.raises(CatalogError, match="stands there twice") as caught:
            again.refresh(reason="more visits")
        assert caught.value.code == "C105" and "7" not in str(caught.value) and "49" not in str(caught.value)
        with pytest.raises(CatalogError) as refused:
            again.session("ann").sql(FOUND, epsilon=1)
        assert refused.value.code == "C104"
    data.execute("DELETE FROM visits WHERE pid = 49 AND vid = 7")
    data.execute("INSERT INTO visits VALUES (7, NULL, 1)")  # of nobody: no unit has the key twice
    with duckdp.open(data, ledger=tmp_path / "l.db") as mended:
        mended.refresh(reason="mended")
        mended.session("ann").sql(FOUND, epsilon=1)


def test_what_was_not_seen_of_todays_rows_is_not_answered(owner: duckdp.Curator) -> None:
    stale = owner.tables["visits"]
    object.__setattr__(stale, "checked", "of before")  # as if the process had ended within a refresh
    with pytest.raises(CatalogError) as caught:
        owner.session("ann").sql("SELECT count(*) FROM visits", epsilon=1)
    assert caught.value.code == "C104"


def test_keys_are_compared_as_they_are(owner: duckdp.Curator) -> None:
    """Neither two keys that are one as DOUBLE, nor two that bounds make one, are unique."""
    given = {"row_cap": 10, "unit_key": "pid", "max_rows": 1}
    owner.protect("keys", unique=["big"], **given)
    for more in ({"columns": ["big"]}, {"bounds": {"far": (0, 1)}, "unique": ["far"]}):
        with pytest.raises(CatalogError, match="stands there twice"):
            owner.protect("keys", **{"unique": ["big"], **given, **more})


@pytest.mark.parametrize(
    ("table", "column", "given", "why"),
    [
        ("labs", "lid", {"to": "visits", "key": "ward"}, "not declared unique"),
        ("labs", "vid", {"to": "labs"}, "not declared unique"),
        ("labs", "vid", {"to": "nothing"}, "not protected"),
        ("labs", "nothing", {"to": "visits", "key": "vid"}, "has no column"),
        ("notes", "nid", {"to": "visits", "key": "vid"}, "of its own"),
        ("labs", "vid", {"to": "visits", "unit_key": "lid"}, "Leave out unit_key"),
        ("labs", "vid", {"to": "visits", "max_rows": None}, "must be given"),
        ("visits", "ward", {"to": "labs", "key": "lid"}, "linked to itself"),
    ],
)
def test_what_cannot_be_linked(
    owner: duckdp.Curator, table: str, column: str, given: dict[str, object], why: str
) -> None:
    if why == "linked to itself":
        owner.amend("labs", unique=["lid"])
    with pytest.raises(DuckDPError, match=why):
        owner.link(table, column, **{**LABS, "bounds": {}, **given})


def test_a_link_follows_what_it_comes_from(owner: duckdp.Curator) -> None:
    """A parent's change is its children's, in one step; what a link rests on cannot be taken away."""
    owner.amend("visits", null_units=[3], unit="patient")
    labs = owner.tables["labs"]
    assert labs.link is not None and labs.link.parent.null_units == (3,) and labs.unit == "patient"
    for taken in (
        lambda: owner.unprotect("visits", reason="r"),
        lambda: owner.amend("visits", unique=[]),
        lambda: owner.protect("visits", **VISITS),
    ):
        with pytest.raises(CatalogError) as caught:
            taken()
        assert caught.value.code == "C105"
    owner.session("ann").sql("SELECT count(*) FROM labs", epsilon=1)
    with pytest.raises(CatalogError) as frozen:  # a row has one unit, by one way
        owner.link("labs", "lid", to="visits", key="vid", **LABS)
    assert frozen.value.code == "C109"


def test_other_columns_than_keys_join_nothing(owner: duckdp.Curator) -> None:
    with pytest.raises(QueryError) as caught:
        owner.session("ann").sql("SELECT count(*) FROM labs l JOIN visits v ON v.ward = l.level", epsilon=1)
    assert caught.value.code == "Q204"


@pytest.mark.parametrize(
    "how", ["JOIN visits v ON l.vid = v.vid", "JOIN visits v USING (vid)", ", visits v WHERE l.vid = v.vid"]
)
def test_a_key_that_no_one_declared_is_named(owner: duckdp.Curator, how: str) -> None:
    """The owner is told that no join can compare it, the analyst which column is missing."""
    told = owner.amend("visits", remove=["vid"])
    assert "vid: unique, and no join can compare it" in str(told.warnings)
    with pytest.raises(QueryError, match='column "vid" is not declared') as caught:
        owner.session("ann").sql(f"SELECT count(*) FROM labs l {how}", epsilon=1)
    assert caught.value.code == "Q207"
    assert not owner.amend("visits", columns=["vid"]).warnings
    owner.session("ann").sql(f"SELECT count(*) FROM labs l {how}", epsilon=1)


def test_links_by_command(tmp_path: Path, data: duckdb.DuckDBPyConnection) -> None:
    file = str(tmp_path / "c.duckdb")
    data.execute(
        f"ATTACH '{file}' AS f; CREATE TABLE f.visits AS FROM visits; CREATE TABLE f.labs AS FROM labs; DETACH f"
    )
    run = CliRunner().invoke
    keyed = ["--row-cap", "1000", "--unit-key", "pid", "--max-rows", "9", "--unique", "vid", "--column", "vid"]
    assert run(main, ["protect", file, "visits", *keyed]).exit_code == 0
    made = run(main, ["protect", file, "labs", "--row-cap", "2000", "--max-rows", "9", "--link", "vid -> visits.vid"])
    assert made.exit_code == 0 and "linked: vid -> visits.vid" in made.output, made.output


def test_a_table_is_not_looked_at_without_the_keys_that_it_has_its_unit_by(
    owner: duckdp.Curator, data: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """A refresh that was refused leaves today's rows in place; no later declaration makes them answer."""
    owner.close()
    data.execute("INSERT INTO visits SELECT 7, 100 + i, 1 FROM range(50) t(i)")
    again = duckdp.open(data, ledger=tmp_path / "l.db")
    with again, pytest.raises(CatalogError, match="stands there twice"):
        again.refresh(reason="more visits")
    with duckdp.open(data, ledger=tmp_path / "l.db") as later:
        with pytest.raises(CatalogError, match="stands there twice"):
            later.amend("labs", max_rows=20)
        with pytest.raises(CatalogError):
            later.session("ann").sql("SELECT count(DISTINCT pid) AS n FROM labs", epsilon=1)


def test_a_parent_does_not_call_its_unit_like_a_column_of_a_child(tmp_path: Path) -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE p AS SELECT i::INT k, (i % 5)::INT u, (i % 3)::INT w FROM range(20) t(i)")
    con.execute("CREATE TABLE c AS SELECT i::INT k, (i % 4)::INT w FROM range(20) t(i)")
    with duckdp.open(con, ledger=tmp_path / "p.db") as curator:
        curator.protect("p", unit_key="u", unique=["k"], row_cap=100, max_rows=3)
        curator.link("c", "k", to="p", row_cap=100, max_rows=3, bounds={"w": (0, 3)})
        with pytest.raises(CatalogError, match="of its own") as caught:
            curator.protect("p", unit_key="w", unique=["k"], row_cap=100, max_rows=3)
        assert caught.value.code == "C105"


def test_groups_by_the_key_of_a_link_are_counted(owner: duckdp.Curator) -> None:
    """From the owner's declaration to an answer without delta; what is computed from the key is open."""
    ann = owner.session("ann")
    assert abs(ann.sql("SELECT count(*) FROM (SELECT DISTINCT vid FROM labs)", epsilon=100).rows()[0][0] - 200) < 40
    with pytest.raises(DuckDPError) as caught:
        ann.sql("SELECT count(*) FROM (SELECT vid + 0 AS v FROM labs GROUP BY v)", epsilon=1)
    assert caught.value.code == "Q404"

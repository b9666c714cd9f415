"""Each refusal of the owner's side names a way out, and that way works: it is taken here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.errors import DuckDPError
from tests.ledgers import ask

KEY: dict[str, Any] = {"row_cap": 100, "unit_key": "person", "max_rows": 2}


@dataclass
class World:
    """A data set and where it lies."""

    folder: Path
    owner: duckdp.Curator

    def sql(self, text: str) -> None:
        """Change the source."""
        self.owner.close()
        with duckdb.connect(str(self.folder / "w.duckdb")) as con:
            con.execute(text)
        self.owner = duckdp.open(str(self.folder / "w.duckdb"))

    def own(self, name: str = "apart") -> duckdp.Curator:
        """A data set of its own over the same source."""
        self.owner.close()
        self.owner = duckdp.open(str(self.folder / "w.duckdb"), ledger=str(self.folder / f"{name}.ledger"))
        return self.owner

    def connected(self) -> duckdp.Curator:
        """A data set over a copy of what an open connection holds."""
        self.owner.close()
        with duckdb.connect(str(self.folder / "w.duckdb")) as con:
            self.owner = duckdp.open(con, ledger=str(self.folder / "copy.ledger"))
        return self.owner

    def charge(self) -> None:
        self.owner.budget(epsilon=5)
        self.owner.grant("ana", epsilon=5)
        self.owner.ledger.admit(ask("q", 10**9, data_version=self.owner.ledger.state().data_version))


@pytest.fixture
def world(tmp_path: Path) -> Any:
    path = str(tmp_path / "w.duckdb")
    with duckdb.connect(path) as con:
        con.execute(
            "CREATE TABLE visits (person INTEGER, visit INTEGER, x INTEGER, d DOUBLE, b BLOB, n VARCHAR); "
            "CREATE TABLE labs (pid INTEGER, lab INTEGER, x INTEGER); CREATE TABLE wide (person BIGINT, x INTEGER); "
            "CREATE VIEW v AS SELECT person, visit, x FROM visits; CREATE VIEW r AS SELECT person AS p, x FROM visits; "
            'CREATE VIEW odd AS SELECT person, x + 1 AS x FROM visits; CREATE TABLE "Bad Name" (x INTEGER); '
            "CREATE SCHEMA s; CREATE TABLE s.visits (person INTEGER, x INTEGER); CREATE VIEW s_visits AS FROM s.visits"
        )
    found = World(folder=tmp_path, owner=duckdp.open(path))
    yield found
    found.owner.close()


def by(key: str, **more: Any) -> dict[str, Any]:
    return {**KEY, "unit_key": key, **more}


Act = Callable[[World], object]


def protected(w: World) -> None:
    w.owner.protect("visits", **KEY)


def charged(w: World) -> None:
    protected(w)
    w.charge()


def rows(w: World) -> None:
    w.owner.protect("labs", row_cap=9)


def lost(text: str, **more: Any) -> Act:
    def act(w: World) -> None:
        w.owner.protect("visits", **{**KEY, "columns": ["x", "d"]}, **more)
        w.sql(text)

    return act


# (what comes before, what is refused, code, words of the way out, the way out)
CASES: dict[str, tuple[Act, Act, str, str, Act]] = {
    "unknown table": (
        lambda _: None,
        lambda w: w.owner.protect("visit", row_cap=9),
        "C101",
        'Did you mean "visits"',
        lambda w: w.owner.protect("visits", row_cap=9),
    ),
    "not protected": (
        lambda _: None,
        lambda w: w.owner.amend("visits", row_cap=9),
        "C101",
        "curator.protect(",
        lambda w: w.owner.protect("visits", row_cap=9),
    ),
    "unknown column": (
        lambda _: None,
        lambda w: w.owner.protect("visits", row_cap=9, columns=["xx"]),
        "C102",
        '"x"',
        lambda w: w.owner.protect("visits", row_cap=9, columns=["x"]),
    ),
    "lost column": (
        lost("ALTER TABLE visits DROP x"),
        lambda w: w.owner.amend("visits", row_cap=10),
        "C102",
        "remove it",
        lambda w: (w.owner.amend("visits", remove=["x"]), w.owner.refresh(reason="dropped")),
    ),
    "drifted column": (
        lost("ALTER TABLE visits ALTER d TYPE FLOAT"),
        lambda w: w.owner.refresh(reason="new"),
        "C103",
        "amends the declaration",
        lambda w: (w.owner.amend("visits"), w.owner.refresh(reason="new")),
    ),
    "lost table": (
        lost("DROP TABLE visits CASCADE"),
        lambda w: w.owner.refresh(reason="new"),
        "C103",
        "unprotects",
        lambda w: (w.owner.unprotect("visits", reason="gone"), w.owner.refresh(reason="new")),
    ),
    "another unit": (
        protected,
        lambda w: w.owner.protect("labs", **by("lab")),
        "C105",
        'unit="person"',
        lambda w: w.owner.protect("labs", **by("pid", unit="person")),
    ),
    "another unit, charged": (
        charged,
        lambda w: w.owner.protect("labs", **by("lab")),
        "C109",
        "data set of its own",
        lambda w: w.own().protect("labs", **by("lab")),
    ),
    "another key": (
        protected,
        lambda w: w.owner.protect("v", **by("visit")),
        "C105",
        'unprotect "visits"',
        lambda w: (w.owner.unprotect("visits", reason="wrong"), w.owner.protect("v", **by("visit"))),
    ),
    "another key, charged": (
        charged,
        lambda w: w.owner.protect("visits", **by("visit")),
        "C109",
        'unit_key="person"',
        lambda w: w.owner.protect("visits", **by("person")),
    ),
    "another key, apart": (
        charged,
        lambda w: w.owner.protect("visits", **by("visit")),
        "C109",
        "open(..., ledger=...)",
        lambda w: w.own().protect("visits", **by("visit")),
    ),
    "rows and keys": (
        rows,
        lambda w: w.owner.protect("visits", **KEY),
        "C105",
        "both by a unit_key",
        lambda w: (w.owner.protect("labs", **by("pid", unit="person")), w.owner.protect("visits", **KEY)),
    ),
    "two types": (
        protected,
        lambda w: w.owner.protect("wide", **KEY),
        "C105",
        "ALTER the first to INTEGER",
        lambda w: (w.sql("ALTER TABLE wide ALTER person TYPE INTEGER"), w.owner.protect("wide", **KEY)),
    ),
    "type of the unit": (
        lambda w: (charged(w), w.sql("ALTER TABLE visits ALTER person TYPE BIGINT")),
        lambda w: w.owner.protect("visits", **KEY),
        "C109",
        "ALTER it to INTEGER",
        lambda w: (w.sql("ALTER TABLE visits ALTER person TYPE INTEGER"), w.owner.refresh(reason="back")),
    ),
    "kind of the unit": (
        lambda w: w.owner.protect("visits", **KEY, unit="patient") and w.charge(),
        lambda w: w.owner.protect("visits", **KEY, unit="household"),
        "C109",
        'unit="patient"',
        lambda w: w.owner.protect("visits", **KEY, unit="patient"),
    ),
    "no rule": (
        lambda _: None,
        lambda w: w.owner.protect("visits", **KEY, columns=["b"]),
        "C105",
        "Leave it out",
        lambda w: w.owner.protect("visits", **KEY),
    ),
    "unit as a column": (
        lambda _: None,
        lambda w: w.owner.protect("visits", **KEY, columns=["person"]),
        "C105",
        "Leave it out",
        lambda w: w.owner.protect("visits", **KEY),
    ),
    "a key that is no key": (
        lambda _: None,
        lambda w: w.owner.protect("visits", **by("d")),
        "C105",
        "name another column",
        lambda w: w.owner.protect("visits", **KEY),
    ),
    "collated key": (
        lambda w: w.sql("ALTER TABLE labs ADD COLUMN c VARCHAR COLLATE NOCASE"),
        lambda w: w.owner.protect("labs", **by("c")),
        "C105",
        "open connection",
        lambda w: w.connected().protect("labs", **by("c")),
    ),
    "renamed key": (
        lambda _: None,
        lambda w: w.owner.protect("r", **by("p")),
        "C105",
        'select "person" under that name',
        lambda w: (w.sql("CREATE OR REPLACE VIEW r AS SELECT person, x FROM visits"), w.owner.protect("r", **KEY)),
    ),
    "label without domain": (
        lambda _: None,
        lambda w: w.owner.protect("visits", **KEY, other={"n": "rest"}),
        "C105",
        'domains["n"]',
        lambda w: w.owner.protect("visits", **KEY, other={"n": "rest"}, domains={"n": ["a"]}),
    ),
    "a view that computes": (
        lambda _: None,
        lambda w: w.owner.protect("odd", **KEY),
        "C106",
        "Protect its base table",
        lambda w: w.owner.protect("visits", **KEY),
    ),
    "a bad name": (
        lambda _: None,
        lambda w: w.owner.protect("Bad Name", row_cap=9),
        "P105",
        "CREATE VIEW t AS FROM",
        lambda w: (w.sql('CREATE VIEW good AS FROM "Bad Name"'), w.owner.protect("good", row_cap=9)),
    ),
    "a name of two tables": (
        protected,
        lambda w: w.owner.protect("s.visits", **KEY),
        "C111",
        "under another name",
        lambda w: w.owner.protect("s_visits", **KEY),
    ),
    "max_rows": (
        lambda _: None,
        lambda w: w.owner.protect("visits", row_cap=9, unit_key="person"),
        "P107",
        "must be given",
        lambda w: w.owner.protect("visits", **KEY),
    ),
    "goes with a key": (
        lambda _: None,
        lambda w: w.owner.protect("visits", row_cap=9, max_rows=3),
        "P107",
        "Name the unit_key",
        lambda w: w.owner.protect("visits", **KEY),
    ),
    "replace and keys": (
        protected,
        lambda w: w.owner.budget(epsilon=1, neighbours="replace"),
        "C105",
        '"add_remove"',
        lambda w: w.owner.budget(epsilon=1, neighbours="add_remove"),
    ),
    "keys and replace": (
        lambda w: w.owner.budget(epsilon=1, neighbours="replace"),
        protected,
        "C105",
        'neighbours="add_remove"',
        lambda w: (w.owner.budget(epsilon=1), protected(w)),
    ),
    "another relation": (
        lambda w: (rows(w), w.charge()),
        lambda w: w.owner.budget(epsilon=5, neighbours="replace"),
        "C109",
        "open(..., ledger=...)",
        lambda w: w.own().budget(epsilon=5, neighbours="replace"),
    ),
    "no budget": (
        lambda _: None,
        lambda w: w.owner.grant("ana", epsilon=1),
        "B107",
        "curator.budget(",
        lambda w: (w.owner.budget(epsilon=1), w.owner.grant("ana", epsilon=1)),
    ),
    "no grant": (
        charged,
        lambda w: w.owner.session("ben"),
        "B102",
        'curator.grant("ben", epsilon=...)',
        lambda w: (w.owner.grant("ben", epsilon=1), w.owner.session("ben")),
    ),
    "frozen": (
        lambda w: (charged(w), w.owner.freeze()),
        lambda w: w.owner.session("ana"),
        "B103",
        "curator.unfreeze(reason=...)",
        lambda w: (w.owner.unfreeze(reason="on"), w.owner.session("ana")),
    ),
    "revoked": (
        lambda w: (charged(w), w.owner.revoke("ana")),
        lambda w: w.owner.session("ana"),
        "B103",
        "raise_to=True, reason=...",
        lambda w: (w.owner.grant("ana", epsilon=5, raise_to=True, reason="back"), w.owner.session("ana")),
    ),
    "below what was spent": (
        charged,
        lambda w: w.owner.budget(epsilon="0.5"),
        "B104",
        "Set at least what was spent",
        lambda w: w.owner.budget(epsilon=1),
    ),
    "raised": (
        charged,
        lambda w: w.owner.budget(epsilon=9),
        "B105",
        "raise_to=True and reason=...",
        lambda w: w.owner.budget(epsilon=9, raise_to=True, reason="more"),
    ),
    "more than the total": (
        charged,
        lambda w: w.owner.grant("ben", epsilon=6),
        "P107",
        "raise the total first",
        lambda w: (w.owner.budget(epsilon=6, raise_to=True, reason="more"), w.owner.grant("ben", epsilon=6)),
    ),
    "the source changed": (
        lambda w: (charged(w), w.sql("INSERT INTO visits (person) VALUES (1)")),
        lambda w: w.owner.session("ana").sql("SELECT count(*) FROM visits", epsilon="0.1"),
        "C104",
        "curator.refresh(reason=...)",
        lambda w: (w.owner.refresh(reason="new"), w.owner.session("ana").sql("SELECT count(*) FROM visits", epsilon=1)),
    ),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_way_out_is_named_and_works(name: str, world: World) -> None:
    before, refused, code, words, way_out = CASES[name]
    before(world)
    with pytest.raises(DuckDPError) as caught:
        refused(world)
    assert caught.value.code == code
    assert words in caught.value.message
    assert caught.value.message.count(". ") <= 2  # what is wrong, and what to do
    way_out(world)

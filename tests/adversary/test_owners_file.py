"""What the owner's file brings along (macros, views, tables of clever names) changes no answer."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import duckdp
import duckdp.errors
from duckdp.core.reads import PrivateQuery
from duckdp.ledger import Charge
from duckdp.vault.dataset import DataSet
from duckdp.vault.engine import Engine

MACROS = (
    "least(a, b) AS a",
    "greatest(a, b) AS a",
    "floor(x) AS 1e18",
    "sum(x) AS 42",
    "count(x) AS 42",
    "count_star() AS 42",
    "hash(x) AS 0",
    "isnan(x) AS true",
    "row_number() AS 1",
    "pow(a, b) AS 1e300",
    '"+"(a, b) AS 1e18',
    '"-"(a, b) AS 1e18',
    '"*"(a, b) AS 1e18',
    '"/"(a, b) AS 1e18',
    '"<"(a, b) AS false',
    '">"(a, b) AS false',
    '">="(a, b) AS false',
    "left(a, b) AS 'x'",
    '"="(a, b) AS true',
    '"//"(a, b) AS 1e18',
    "coalesce(a, b) AS 42",
    "max(x) AS 42",
    "min(x) AS 42",
    "unnest(x) AS 7",
    "range(a, b) AS [1]",
    "exp(x) AS 1",
    "abs(x) AS 7",
    "lower(x) AS 'x'",
    "date_trunc(a, b) AS b",
)
QUESTIONS = (
    "SELECT count(*), sum(cost), avg(cost), stddev_samp(age), count(DISTINCT pid) FROM visits",
    "SELECT sex, count(*), sum(least(greatest(cost, 10), 100) + floor(age / 10)) FROM visits GROUP BY sex",
    "SELECT town, count(*), var_pop(cost) FROM visits WHERE age > 30 AND left(town, 1) <> 'x' GROUP BY town",
    "SELECT floor(age / 10) AS band, sum(exp(-power(age / 50, 2))), avg(cost * 2 - 1) FROM visits GROUP BY band",
)


def rows_of(path: Path, folder: Path, question: str) -> list[tuple[object, ...]]:
    """Exact cells, as the mechanism would get them."""
    with duckdp.open(path, ledger=folder / f"{path.stem}.ledger") as curator:
        curator.protect(
            "visits",
            unit_key="pid",
            max_rows=2,
            max_groups=2,
            row_cap=1000,
            bounds={"age": (0, 110), "cost": (0, 500)},
            domains={"sex": ["F", "M"]},
            columns=["town"],
        )
        curator.budget(epsilon=10, delta="1e-3")
        curator.grant("ana", epsilon=10, delta="1e-3")
        seen: list[list[tuple[object, ...]]] = []

        class Spying(Engine):
            def run(self, query: PrivateQuery, charge: Charge):  # type: ignore[no-untyped-def]
                seen.append(list(super().run(query, charge)))
                return iter(seen[-1])

        curator.engine.__class__ = Spying
        session = curator.session("ana")
        session.sql(question, epsilon=1, delta="1e-4")
        session.median_smooth("visits", "cost", epsilon=1)
        # in which order DuckDB gives the groups follows its hashes and threads; what is done with them does not
        return [row for rows in seen for row in sorted(rows, key=repr)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("files")
    for name in ("plain", "clever"):
        with duckdb.connect(str(folder / f"{name}.duckdb")) as con:
            con.execute(
                "CREATE TABLE visits AS SELECT i % 70 AS pid, 20 + i % 60 AS age, (i * 37 % 900)::DOUBLE AS cost, "
                "['F', 'M'][1 + i % 2] AS sex, ['Bern', 'Uri'][1 + i % 2] AS town FROM range(300) AS t(i)"
            )
            if name == "clever":
                con.execute('CREATE SCHEMA clever."system"; CREATE SCHEMA src; CREATE SCHEMA memory')
                for place in ("main", 'clever."system"', "src"):
                    for macro in MACROS:
                        con.execute(f"CREATE MACRO {place}.{macro}")
                for other in (
                    "base",
                    "prepared",
                    "units",
                    "bounded",
                    "ranked",
                    "kept",
                    "rows",
                    "duckdb_tables",
                    "cells",
                ):
                    con.execute(f"CREATE TABLE {other} AS SELECT 1 AS pid, 'x' AS sex")
                    con.execute(f"CREATE VIEW src.{other} AS SELECT 2 AS pid")
                con.execute(
                    'CREATE TABLE clever."system".visits AS SELECT 1 AS pid; CREATE TABLE src.visits AS SELECT 1 AS pid'
                )
                con.execute("CREATE TYPE mood AS ENUM ('a'); CREATE SEQUENCE seq")
    return folder / "plain.duckdb", folder / "clever.duckdb"


@pytest.mark.parametrize("question", QUESTIONS)
def test_macros_and_names_in_the_file_change_nothing(
    question: str, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DataSet, "salt", 12345)
    plain, clever = (rows_of(path, tmp_path, question) for path in files)
    assert plain == clever
    assert len(plain) > 1


def test_the_macros_would_have_mattered(files: tuple[Path, Path]) -> None:
    with duckdb.connect(str(files[1]), read_only=True) as con:
        assert con.execute("SELECT least(900, 500)").fetchone() == (900,)
        assert con.execute("SELECT sum(cost) FROM visits").fetchone() == (42,)


def test_views_of_the_file_are_never_executed(tmp_path: Path) -> None:
    path = tmp_path / "views.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE real AS SELECT i, i % 5 AS g FROM range(10) AS r(i)")
        con.execute("CREATE VIEW sly AS SELECT i FROM real WHERE error('executed') IS NULL")
        con.execute("CREATE VIEW summed AS SELECT sum(i) AS i FROM real")
        con.execute("CREATE VIEW joined AS SELECT a.i FROM real AS a, real AS b")
        con.execute("CREATE VIEW fine AS SELECT i AS n FROM real WHERE g > 2")
        con.execute("CREATE VIEW nested AS SELECT n FROM fine")
        con.execute("CREATE VIEW outside AS SELECT * FROM glob('*')")
    with duckdp.open(path, ledger=tmp_path / "ledger") as curator:
        for name in ("sly", "summed", "joined", "nested", "outside"):
            with pytest.raises(duckdp.errors.CatalogError) as caught:
                curator.protect(name, row_cap=10)
            assert caught.value.code == "C106"
        curator.protect("fine", row_cap=10, bounds={"n": (0, 10)})
        curator.budget(epsilon=100)
        curator.grant("ana", epsilon=100)
        assert curator.session("ana").sql("SELECT count(*) FROM fine", epsilon=50).rows() == [(4,)]

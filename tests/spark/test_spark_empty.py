"""Tables without rows, or without rows of anybody: answered on Spark as any, so that nobody sees that they have none.

Spark plans no part at all of what it knows to be empty. A read of nothing has as many parts as any other, and the same
figures as on one machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.errors import InternalError
from duckdp.vault import spark_source
from tests.spark.clusters import write_rows
from tests.spark.patients import TABLES, declare

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
#: What becomes of tables: which rows are left of them.
EMPTY = {
    "visits": {"visits": "FALSE"},
    "drugs": {"drugs": "FALSE"},
    "people": {"people": "FALSE"},
    "regions": {"regions": "FALSE"},
    "all": {"visits": "FALSE", "drugs": "FALSE", "people": "FALSE"},
    "nobody's": {"visits": "pid IS NULL", "drugs": "visit > 4000", "people": "pid > 300"},
    "one row": {"visits": "vid = 1", "drugs": "visit = 1", "people": "pid = 1"},
}
QUESTIONS = (
    "SELECT count(*) FROM visits",
    "SELECT sex, sum(cost), count(DISTINCT pid) FROM visits GROUP BY sex",
    "SELECT avg(n) FROM (SELECT pid, least(count(*), 10) AS n FROM visits GROUP BY pid) AS t",
    "SELECT sum(dose) FROM drugs",
    "SELECT sex, sum(dose) FROM visits JOIN drugs ON visit = vid GROUP BY sex",
    "SELECT count(*) FROM people AS p JOIN visits AS v ON p.pid = v.pid WHERE age > 40",
    "SELECT count(*), count(cost) FROM people AS p LEFT JOIN visits AS v ON p.pid = v.pid",
    "SELECT count(*) FROM people JOIN regions USING (region) WHERE land = 'r1'",
    "SELECT count(*) FROM (SELECT pid FROM visits UNION ALL SELECT pid FROM people) AS t",
)


def written(folder: Path, name: str) -> dict[str, str]:
    with duckdb.connect() as con:
        rows = {t: con.sql(sql).filter(EMPTY[name].get(t, "TRUE")).to_arrow_table() for t, sql in TABLES.items()}
    return {t: write_rows(folder / t, part) for t, part in rows.items()}


def keys(curator: duckdp.Curator) -> list[list[object]]:
    """The first column where it is a key, else nothing, of each answer: all that is not noisy."""
    ana = curator.session("ana")
    found = [ana.sql(text, epsilon=5).rows() for text in QUESTIONS]
    assert [charge.state for charge in curator.ledger.charges()] == ["released"] * len(QUESTIONS)
    return [[row[0] if isinstance(row[0], str) else None for row in rows] for rows in found]


@pytest.mark.parametrize("name", EMPTY)
def test_what_has_no_rows_is_answered_as_any(spark: Any, name: str, tmp_path: Path) -> None:
    paths = written(tmp_path, name)
    with duckdp.open(spark, tables=paths, ledger=str(tmp_path / "there")) as there:
        declare(there)
        found = keys(there)
    with duckdp.open({t: f"{p}/*.parquet" for t, p in paths.items()}, ledger=str(tmp_path / "here")) as here:
        declare(here)
        alike = keys(here)
    assert found == alike


def test_broken_twin_that_lets_spark_plan_no_part(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in spark_source.SETTINGS if n.endswith("excludedRules")]:
        monkeypatch.setitem(spark_source.SETTINGS, name, "")
    with duckdp.open(spark, tables=written(tmp_path, "all"), ledger=str(tmp_path / "a.ledger")) as there:
        declare(there)
        with pytest.raises(InternalError, match="did not come whole"):
            keys(there)

"""A data set in Spark from ``duckdp.open`` to an analyst's answer: joins, links, refusals, faults."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import duckdp
from duckdp.core.reads import PrivateQuery
from duckdp.core.types import NANO
from duckdp.errors import DuckDPError
from duckdp.vault import part_work
from duckdp.vault.engine import Engine
from duckdp.vault.spark_engine import SparkEngine
from tests.spark.clusters import write_rows
from tests.spark.patients import SECRET, people

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

STATEMENTS = [
    "SELECT count(*), count(DISTINCT pid), sum(cost), avg(age) FROM visits",
    "SELECT sex, count(*), sum(cost) FROM visits WHERE age > 40 GROUP BY sex",
    "SELECT sum(dose), count(*) FROM drugs",
    "SELECT sum(dose), count(*) FROM drugs JOIN visits ON drugs.visit = visits.vid WHERE age > 30",
    "SELECT region, sum(cost) FROM visits JOIN people ON visits.pid = people.pid GROUP BY region",
    "SELECT land, count(*) FROM people JOIN regions ON people.region = regions.region GROUP BY land",
    "SELECT count(*) FROM (SELECT pid, sum(cost) AS s FROM visits GROUP BY pid) WHERE s > 100",
]


@pytest.mark.parametrize("text", STATEMENTS)
def test_answers_rest_on_the_same_figures(
    text: str, here: duckdp.Curator, there: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of one machine, before the noise: nothing is cut by ``max_rows`` here, so no secret draw differs."""
    found: dict[str, list[Any]] = {"here": [], "there": []}
    run, combined = Engine.run, SparkEngine._combined

    def run_noted(self: Engine, query: PrivateQuery, charge: Any) -> Iterator[Any]:
        rows = list(run(self, query, charge))
        found["here"].append(sorted(query.combine([rows]), key=repr))
        yield from rows

    def combined_noted(self: SparkEngine, *given: Any) -> Iterator[Any]:
        rows = list(combined(self, *given))
        found["there"].append(sorted(rows, key=repr))
        yield from rows

    monkeypatch.setattr(Engine, "run", run_noted)
    monkeypatch.setattr(SparkEngine, "_combined", combined_noted)
    here.session("ana").sql(text, epsilon=0.5)
    there.session("ana").sql(text, epsilon=0.5)
    assert found["here"] == found["there"] != []


def test_a_summary_answers_free(there: duckdp.Curator) -> None:
    ana = there.session("ana")
    ana.smooth_summary("visits", ["age", "cost"], epsilon=1, smoothness=2, name="ac")
    assert ana.smooth_answer("ac", "age / 110") is not None


def test_what_is_of_all_rows_is_refused_before_a_charge(there: duckdp.Curator) -> None:
    ana = there.session("ana")
    before = str(ana.budget())
    for ask in (
        lambda: ana.quantiles("visits", "age", [0.5], epsilon=1, method="exponential"),
        lambda: ana.median_smooth("visits", "age", epsilon=1, delta="1e-9"),
    ):
        with pytest.raises(DuckDPError) as caught:
            ask()
        assert caught.value.code == "Q405"
    assert str(ana.budget()) == before
    way_out = ana.quantiles("visits", "age", [0.5], epsilon=1, method="tree")
    assert 20 < way_out.columns[-1].values[0] < 70
    assert any("tree" in line for line in str(ana.explain_quantiles("visits", "age", [0.5], epsilon=1)).splitlines())


def test_a_read_that_fails_keeps_its_charge_and_says_nothing(
    there: duckdp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, text = there.session("ana"), "SELECT count(*) FROM visits WHERE age > 41"

    def fails() -> int:
        raise ValueError(SECRET)

    before = ana.budget()
    with monkeypatch.context() as patch:
        patch.setattr(part_work, "_number_of_task", fails)
        with pytest.raises(DuckDPError) as caught:
            ana.sql(text, epsilon=0.5)
    assert caught.value.code == "E101"
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    after = ana.budget()
    assert str(before) != str(after)
    assert ana.sql(text, epsilon=0.5).columns
    assert str(ana.budget()) == str(after)  # redeemed: the same charge


def test_an_interrupt_ends_the_work_in_spark(
    there: duckdp.Curator, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, text = there.session("ana"), "SELECT count(*) FROM visits WHERE age > 42"

    def sleeps() -> int:
        import time

        time.sleep(120)
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(part_work, "_number_of_task", sleeps)
        timer = threading.Timer(6.0, there.engine.interrupt)
        timer.start()
        begun = time.monotonic()
        with pytest.raises(DuckDPError) as caught:
            ana.sql(text, epsilon=0.5)
        timer.join()
    assert caught.value.code == "E102"
    assert time.monotonic() - begun < 60
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
    spent = str(ana.budget())
    assert ana.sql(text, epsilon=0.5).columns
    assert str(ana.budget()) == spent


def test_explain_says_how_a_read_runs_and_what_is_refused(there: duckdp.Curator) -> None:
    before = there.ledger.count_charges()
    explained = {text: str(there.session("ana").explain(text, epsilon=0.5)) for text in (STATEMENTS[3], STATEMENTS[5])}
    assert "parts by a hash of the unit's key" in explained[STATEMENTS[3]]
    assert "drugs: its unit's key comes by a join with visits" in explained[STATEMENTS[3]]
    assert "regions: public, all of its rows go to each part" in explained[STATEMENTS[5]]
    refused = str(there.session("ana").explain("SELECT count(DISTINCT name) FROM visits", epsilon=0.5))
    assert "refused before its charge: Q405" in refused
    assert there.ledger.count_charges() == before


DIES = """
import os, sys
import duckdp
from duckdp.vault.spark_engine import SparkEngine
from tests.spark.clusters import session
from tests.spark.patients import people
mapped = SparkEngine._mapped
class Dies:
    def __init__(self, frame):
        self.frame = frame
    def collect(self):
        self.frame.collect()
        os._exit(9)
with session() as spark, duckdp.open(spark, tables={"people": sys.argv[1]}, ledger=sys.argv[2]) as owner:
    ana = people(owner)
    SparkEngine._mapped = lambda self, frame, work: Dies(mapped(self, frame, work))
    ana.sql("SELECT count(*) FROM people", epsilon=0.5)
"""


def test_a_driver_that_dies_with_the_figures_in_hand_leaves_one_charge_that_is_redeemed(
    spark: Any, paths: dict[str, str], tmp_path: Path
) -> None:
    ledger = str(tmp_path / "a.ledger")
    command = [sys.executable, "-c", DIES, paths["people"], ledger]
    path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), *filter(None, sys.path)])
    died = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, check=False, capture_output=True)
    assert died.returncode == 9, died.stderr[-2000:]
    with duckdp.open(spark, tables={"people": paths["people"]}, ledger=ledger) as owner:
        (charge,) = owner.ledger.charges()
        assert (charge.state, charge.attempt) == ("open", 1)
        assert people(owner).sql("SELECT count(*) FROM people", epsilon=0.5).rows()
        (charge,) = owner.ledger.charges()
        assert (charge.state, charge.attempt) == ("released", 2)
        assert owner.ledger.state().primary_spent == NANO // 2


def test_a_part_that_is_missing_ends_the_read(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a row is the unit, and the number of parts follows from the files."""
    path = write_rows(tmp_path / "t", pa.table({"x": [1.0] * 50}), 2)
    with duckdp.open(spark, tables={"t": path}, ledger=str(tmp_path / "a.ledger")) as curator:
        curator.protect("t", row_cap=100, bounds={"x": (0, 1)})
        curator.budget(epsilon=50)
        curator.grant("ana", epsilon=50)
        assert curator.session("ana").sql("SELECT count(*) FROM t", epsilon=5).columns
        mapped = SparkEngine._mapped
        with monkeypatch.context() as patch:
            patch.setattr(SparkEngine, "_mapped", lambda self, *given: mapped(self, *given).where("part > 0"))
            with pytest.raises(DuckDPError, match="X101"):
                curator.session("ana").sql("SELECT sum(x) FROM t", epsilon=5)

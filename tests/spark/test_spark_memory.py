"""Memory of the tasks: its limit is checked at the opening, and a task that runs out of it says so and no more."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.errors import CODES, DuckDPError
from duckdp.vault import spark_engine
from duckdp.vault.exhausted import spark_ran_out
from duckdp.vault.opening import TASK_MEMORY
from tests.spark.clusters import write_rows
from tests.spark.patients import SECRET

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
ROWS = (
    f"SELECT '{SECRET}' || i % 100000 AS pid, ['a', 'b', 'c'][1 + i % 3] AS kind, i % 50 AS x "
    "FROM range(400000) AS r(i)"
)
TEXT = "SELECT kind, count(*), sum(x) FROM visits GROUP BY kind"


@pytest.fixture
def owner(spark: Any, tmp_path: Path) -> Any:
    path = write_rows(tmp_path / "visits", duckdb.sql(ROWS).to_arrow_table(), 2)
    with duckdp.open(spark, tables={"visits": path}, ledger=str(tmp_path / "a.ledger")) as found:
        terms: dict[str, Any] = {"bounds": {"x": (0, 50)}, "domains": {"kind": ["a", "b", "c"]}}
        found.protect("visits", unit_key="pid", max_rows=9, row_cap=10**6, **terms)
        found.budget(epsilon=50)
        found.grant("ana", epsilon=50)
        yield found


def told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_a_task_without_memory_says_so_and_is_redeemed(owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB itself runs out in the workers: little memory, and no place for what it does not hold."""
    ana = owner.session("ana")
    seen: list[type[BaseException]] = []

    def looked(error: BaseException) -> bool:
        seen.append(type(error))
        return spark_ran_out(error)

    with monkeypatch.context() as patch:
        patch.setattr(spark_engine, "spark_ran_out", looked)
        patch.setitem(spark_engine.CONFIG, "max_temp_directory_size", "0KB")
        patch.setattr(owner.engine, "_memory", "5MB")
        with pytest.raises(DuckDPError) as caught:
            ana.sql(TEXT, epsilon=1)
    assert str(caught.value) == f"E104: {CODES['E104']}. Charge 1 stays spent."
    assert [kind for kind in seen if issubclass(kind, duckdb.Error)] == [], "it was not a worker that ran out"
    assert caught.value.__cause__ is None
    assert SECRET not in told(caught.value)
    assert "Memory" not in told(caught.value)
    assert [(c.state, c.attempt) for c in owner.ledger.charges()] == [("failed", 1)]
    spent = owner.ledger.state().primary_spent
    assert ana.sql(TEXT, epsilon=1).rows()
    assert owner.ledger.state().primary_spent == spent == 10**9
    assert [(c.state, c.attempt) for c in owner.ledger.charges()] == [("released", 2)]


def test_an_opening_without_memory_is_not_called_damage(owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(spark_engine.CONFIG, "max_temp_directory_size", "0KB")
    monkeypatch.setattr(owner.engine, "_memory", "1MB")
    with pytest.raises(DuckDPError) as caught:
        owner.engine.read_in_full()
    assert caught.value.code == "C108"
    assert "memory ran out" in str(caught.value)
    assert SECRET not in told(caught.value)


@pytest.mark.parametrize("wrong", ["lots", "2g", "5MB", "80%", ""])
def test_a_wrong_limit_is_refused_at_the_opening_not_after_a_charge(
    spark: Any, paths: dict[str, str], tmp_path: Path, wrong: str
) -> None:
    spark.conf.set(TASK_MEMORY, wrong)
    try:
        with pytest.raises(DuckDPError) as caught:
            duckdp.open(spark, tables={"people": paths["people"]}, ledger=str(tmp_path / "a.ledger"))
        assert caught.value.code == "P107"
        assert TASK_MEMORY in str(caught.value)
        spark.conf.set(TASK_MEMORY, "300MB")
        with duckdp.open(spark, tables={"people": paths["people"]}, ledger=str(tmp_path / "a.ledger")) as curator:
            assert curator.engine._memory == "300MB"  # type: ignore[attr-defined]
    finally:
        spark.conf.unset(TASK_MEMORY)

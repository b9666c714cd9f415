"""Two curators in two processes, each with a session of Spark, over one ledger in PostgreSQL: what both may spend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import duckdp
from duckdp.core.types import NANO
from duckdp.errors import BudgetError
from tests.postgres import Server
from tests.spark.clusters import session

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
BUDGET, EACH = 5, 4  # epsilon; questions of epsilon 1 that each curator asks of its own
SHARED = "SELECT count(*) FROM people"
ASKED = {
    who: [f"SELECT count(*) FROM people WHERE region + {k} < {k} + 3" for k in ks]
    for who, ks in {"here": range(10, 10 + EACH), "there": range(50, 50 + EACH)}.items()
}


def answers(owner: duckdp.Curator, texts: list[str]) -> dict[str, Any]:
    """What is answered; what the budget does not cover is left out."""
    found = {}
    for text in texts:
        try:
            found[text] = owner.session("ana").sql(text, epsilon=1).columns[0].values[0]
        except BudgetError as error:
            assert error.code == "B101"
    return found


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = Server()
    try:
        yield server.start().address("shared")
    finally:
        server.stop()


def main(path: str, ledger: str, anchor: str) -> None:
    """The other process; it begins when it is told to."""
    with session() as spark, duckdp.open(spark, tables={"people": path}, ledger=ledger, anchor=anchor) as owner:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        sys.stdout.write(json.dumps(answers(owner, [*ASKED["there"], SHARED])) + "\n")


def test_two_curators_over_spark_never_spend_more_and_share_answers(
    spark: Any, paths: dict[str, str], address: str, tmp_path: Path
) -> None:
    anchor = str(tmp_path / "a.anchor")
    with duckdp.open(spark, tables={"people": paths["people"]}, ledger=address, anchor=anchor) as owner:
        owner.protect("people", unit_key="pid", max_rows=5, row_cap=10_000, bounds={"region": (0, 4)})
        owner.budget(epsilon=BUDGET)
        owner.grant("ana", epsilon=BUDGET)
        script = f"from tests.spark.test_spark_curators import main; main({paths['people']!r}, {address!r}, {anchor!r})"
        here = os.pathsep.join([str(Path(__file__).resolve().parents[2]), *filter(None, sys.path)])
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(
            [sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": here}, text=True, **pipes
        ) as other:  # type: ignore[call-overload]
            assert other.stdout.readline() == "ready\n"
            other.stdin.write("go\n")
            other.stdin.flush()
            mine = answers(owner, [*ASKED["here"], SHARED])
            theirs = json.loads(other.stdout.readline())
            other.wait(120)
        assert len({*mine, *theirs}) == BUDGET, "each question that was answered was paid for once, and all was spent"
        assert all(theirs[text] == mine[text] for text in {*mine} & {*theirs})
        state = owner.ledger.state()
        assert (state.primary_spent, state.primary_limit) == (BUDGET * NANO, BUDGET * NANO)
        assert answers(owner, list(theirs)) == theirs, "an answer of one is free at the other"
        assert owner.ledger.state().primary_spent == BUDGET * NANO

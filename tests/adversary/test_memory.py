"""Memory stays flat from 10^5 to 10^7 rows: the computing is DuckDB's, only released cells cross."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

MEASURE = """
import json, resource, sys, tracemalloc
import duckdb, duckdp
from duckdp.vault.engine import Engine
path, ledger, how = sys.argv[1:]
seen = []
original = Engine.run
Engine.run = lambda self, query, charge: (seen.append(query), original(self, query, charge))[1]
with duckdp.open(path, ledger=ledger) as curator:
    curator.engine.schema_cursor().execute("SET memory_limit = '400MB'; SET threads = 2")
    public = {"bounds": {"x": (0, 100)}, "domains": {"g": list(range(10))}}
    curator.protect("t", unit_key="pid", max_rows=3, row_cap=10**8, **public)
    curator.budget(epsilon=100); curator.grant("ana", epsilon=100)
    session = curator.session("ana")
    session.sql("SELECT count(*) FROM t WHERE x > 1000", epsilon=1)
    questions = ["SELECT count(*) FROM t", "SELECT g, count(*), avg(x) FROM t GROUP BY g"]
    if how == "duckdp":
        tracemalloc.start()
        for question in questions:
            session.sql(question, epsilon=1)
        python = tracemalloc.get_traced_memory()[1]
    else:  # the same SQL, by DuckDB alone
        from duckdp.compiler.emit import emit
        from duckdp.compiler.pricing import Terms, price
        python = 0
        for question in questions:
            plan = price(session.desk.read(question), Terms(epsilon=1), session.desk.neighbours).plan
            query = emit(plan, 7)
            curator.engine.schema_cursor().execute(query.sql, list(query.parameters)).fetchall()
    print(json.dumps([python, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
"""
MEGABYTE = 2**20


def measured(path: Path, how: str) -> tuple[int, int]:
    command = [sys.executable, "-c", MEASURE, str(path), str(path.with_suffix(f".{how}.ledger")), how]
    python, resident = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return python, resident


@pytest.mark.slow
def test_memory_is_flat(tmp_path: Path) -> None:
    found = {}
    for rows in (10**5, 10**7):
        path = tmp_path / f"{rows}.duckdb"
        with duckdb.connect(str(path)) as con:
            con.execute(
                "CREATE TABLE t AS SELECT i % 40000 AS pid, (i * 7 % 100)::DOUBLE AS x, (i % 10)::INTEGER AS g "
                f"FROM range({rows}) AS r(i)"
            )
        for how in ("duckdp", "plain"):
            found[rows, how] = measured(path, how)
    grown = {how: found[10**7, how][1] - found[10**5, how][1] for how in ("duckdp", "plain")}
    python = found[10**7, "duckdp"][0] - found[10**5, "duckdp"][0]
    print({k: round(v / MEGABYTE, 1) for k, v in grown.items()}, "MB resident;", python, "bytes of Python objects")
    assert python < MEGABYTE
    assert grown["duckdp"] - grown["plain"] < 30 * MEGABYTE

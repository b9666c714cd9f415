"""Audits through SQL: two curators of neighbouring tables, each asked many times anew, and what that tells of epsilon.

What tells the tables apart best on one half of the answers is measured on the other (statistics.epsilon_lower_bound).
Each table has a process of its own, so that a part of the package can be broken there and nowhere else. Both have one
salt: neighbours are data sets of one salt. (With one each, the hash would put the other units elsewhere too: a loss
that no mechanism promises to bound, and broken twins that are caught for it, or not, by chance.)

DUCKDP_RUNS sets how often each table is asked (of twins at most 600 times, unless a test says otherwise).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pyarrow as pa

import duckdp
from tests.privacy.statistics import epsilon_lower_bound

EPSILON = 1  # of each question, unless a test says otherwise
SALT = 7  # of both tables
Ask = str | Callable[[Any], float]  # a statement whose first value is looked at, or what makes a number of a connection


def runs_of(usual: int) -> int:
    """How often each table is asked."""
    return min(20_000, int(os.environ.get("DUCKDP_RUNS", usual)))


RUNS = runs_of(3_000)
TWIN_RUNS = min(RUNS, 600)


def lower_bound(
    name: str,
    tables: tuple[pa.Table, pa.Table],
    ask: Ask,
    runs: int,
    prepare: Callable[[], None],
    claimed: float = EPSILON,
    **declared: Any,
) -> float:
    """A lower bound of epsilon, which is printed too.

    Args:
        name: of what is audited.
        tables: neighbours, read as ``t``.
        ask: of a connection; a function of a module, as processes share no others.
        runs: how often each table is asked.
        prepare: called first in each process: it breaks what a twin is to break.
        claimed: the epsilon of each question, to be printed.
        **declared: terms of ``protect``; where they name no unit key, it is ``id``.
    """
    own = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=own) as one, ProcessPoolExecutor(1, mp_context=own) as two:
        asked = zip((one, two), tables, strict=True)
        waiting = [pool.submit(_answers, table, ask, runs, prepare, declared) for pool, table in asked]
        first, second = (w.result() for w in waiting)
    found = epsilon_lower_bound(first, second)  # type: ignore[arg-type]
    print(f"{name}: epsilon of at least {found:.3f}, claimed {claimed}, {runs} runs a table", flush=True)
    return found


def _answers(
    table: pa.Table, ask: Ask, runs: int, prepare: Callable[[], None], declared: dict[str, Any]
) -> list[float]:
    from duckdp.vault.dataset import DataSet

    DataSet.salt = SALT  # type: ignore[assignment,method-assign]
    prepare()
    with (
        tempfile.TemporaryDirectory() as folder,
        duckdp.open({"t": table}, ledger=f"{folder}/ledger") as curator,
    ):
        curator.protect("t", **{"unit_key": "id", **declared})
        curator.budget(epsilon=1_000_000)
        curator.grant("ana", epsilon=1_000_000)
        curator.engine.schema_cursor().execute("SET threads = 1")
        con = curator.connect("ana")
        if not isinstance(ask, str):
            return [ask(con) for _ in range(runs)]
        values = (con.execute(ask).fetchall()[0][0] for _ in range(runs))
        return [1000.0 if value is None else float(value) for value in values]

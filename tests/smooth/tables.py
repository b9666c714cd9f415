"""Tables, an independent integer reference of the moments, and the way of a task without session or ledger."""

from pathlib import Path

import duckdb
import numpy as np

from duckdp.catalog.table import Column, Table, kind_of
from duckdp.core.types import NANO, Neighbours
from duckdp.smooth.buy.summary_task import plan_summary
from duckdp.smooth.buy.wishes import Wishes
from duckdp.smooth.summary import SmoothSummary
from duckdp.vault.engine import read_batches

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def connect():
    return duckdb.connect(":memory:", config={"threads": 2})


def column(name, lower=0.0, upper=1.0, duckdb_type="DOUBLE", **more):
    kind, integral = kind_of(duckdb_type)
    return Column(
        name=name, source=name, type=duckdb_type, kind=kind, integral=integral, lower=lower, upper=upper, **more
    )


def table(*columns, name="t", **more):
    more.setdefault("row_cap", 10**6)
    if more.get("unit_key"):
        more.setdefault("unit_type", "INTEGER")
    return Table(name=name, relation=("memory", "main", name), columns=columns, **more)


def holds(found, true):
    """Whether twice the interval of an answer holds the truth: at level 0.9999 it does but once in 10^8 runs."""
    return 2 * found.low - found.value <= true <= 2 * found.high - found.value


def run(con, query):
    if query.arrays:
        return list(read_batches(con.cursor(), query))
    rows = con.execute(query.sql, list(query.parameters)).fetchall()
    assert len(rows) == query.rows == 1
    return rows


def summarize(con, tab, names, *, epsilon=1.0, neighbours=Neighbours.ADD_REMOVE, delta_atto=0, **wishes):
    task = plan_summary(
        tab,
        names,
        epsilon_nano=round(epsilon * NANO),
        neighbours=neighbours,
        delta_atto=delta_atto,
        wishes=Wishes(**wishes),
    )
    return SmoothSummary.load(task.release(run(con, task.query(salt=1))))


def reference(x, basis, bits, units=None, max_rows=1):
    """int[n, R]: what each row adds, from numbers (or places in a domain) without NULL; the same float operations."""
    n = len(x)
    weights = np.full(n, 1 << bits, dtype=object)
    if units is not None:
        sizes = {u: int(np.sum(units == u)) for u in set(units.tolist())}
        weights = np.array(
            [1 << bits if sizes[u] <= max_rows else (max_rows << bits) // sizes[u] for u in units.tolist()],
            dtype=object,
        )
    products = np.ones((n, basis.size))
    for i, axis in enumerate(basis.axes):
        powers = [np.ones(n), axis.to_unit(x[:, i])]
        for k in range(2, axis.degree):
            half = 1 << ((k - 1).bit_length() - 1)  # the power of two below k
            powers.append(2.0 * powers[half] * powers[k - half] - powers[2 * half - k])
        products *= np.stack(powers, axis=1)[:, basis.indices[:, i]]
    return np.rint(products * weights.astype(float)[:, None]).astype(np.int64).astype(object)


def real_or_generated(con):
    """(table, name) of 48,842 real people where the data are at hand, else of generated ones; ages and hours."""
    source = DATA / "adult.parquet"
    if source.exists():
        con.execute("CREATE TABLE t AS SELECT age, hours_per_week FROM read_parquet(?)", [str(source)])
    else:
        rng = np.random.default_rng(7)
        frame = {"a": rng.normal(38, 13, 48_842).clip(17, 90), "h": rng.normal(40, 12, 48_842).clip(1, 99)}
        con.register("frame", frame)
        con.execute("CREATE TABLE t AS SELECT a::BIGINT AS age, h::BIGINT AS hours_per_week FROM frame")
        con.unregister("frame")
    return table(
        column("age", 0, 110, "BIGINT", nullable=False),
        column("hours_per_week", 0, 100, "BIGINT", nullable=False),
        expected_rows=50_000,
    )

